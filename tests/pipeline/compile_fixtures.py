"""What a compile needs, written into the database as the product's roles write it: a sealed snapshot, published rules.

async with database.tenant(tenant) as conn:
    given = await ready(conn, tenant, act)      # product, passport, snapshot, rules
version = await compiled(bench, tenant, given)  # COMPILING
await signed(bench, tenant, version)            # SIGNED, with its QR code
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from bpc import fresh
from bpc.core import canon
from bpc.core.blinding import blinding_fact
from bpc.core.compile import Limits
from bpc.core.digest import sha256, to_hex
from bpc.core.events import Act
from bpc.core.facts import SnapshotFact
from bpc.core.ids import PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.rules.package import checked_program
from bpc.core.signing import Seed, Signer
from bpc.db import passports, products, rules, signing_keys
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.jobs import Handlers
from bpc.jobs.testing import Ran, run_inline
from bpc.pipeline import Means, Measures, Steps, declare
from bpc.pipeline.compile import CompileOrder
from bpc.pipeline.qr import QrOrder
from bpc.pipeline.sign import SignOrder
from tests.db.rows import a_document_version, insert, seal

SKU: Final = "SKU-1"
SEED: Final = Seed(bytes(range(32)))
SIGNER: Final = Signer(SEED)
KEY_ID: Final = "pipeline-key"
BUILD: Final = "bpc-test"
RULES: Final = b"""
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
field pcf.per_kwh @authority: Dec(2) =
  let p = requireSome(getFact("PCF", concat("pcf:", productSku())), "E010", "pcf missing");
  toDec(2, requireSome(recordGet(p, "total_gco2e"), "E011", "no total") / field("battery.capacity_kwh"));
"""
BATTERY: Final = SnapshotFact(
    fact_type="Battery", fact_key=f"battery:{SKU}", schema_version=1, payload={"sku": SKU, "capacity_kwh": "75.5"}
)
PCF: Final = SnapshotFact(
    fact_type="PCF", fact_key=f"pcf:{SKU}", schema_version=1, payload={"sku": SKU, "total_gco2e": "6040.00"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The ids of what a version can be compiled from."""

    passport: PassportId
    snapshot: SnapshotId
    rules: RulePackageVersionId


@dataclass(frozen=True, slots=True)
class Bench:
    """The steps, to be run one by one."""

    database: Database
    steps: Steps
    handlers: Handlers


async def bench(
    database: Database,
    act: Act,
    *,
    signer: Signer | None = SIGNER,
    limits: Limits = Limits(),  # noqa: B008
    measures: Measures | None = None,
) -> Bench:
    """The steps with a registered key; `signer` is what is at hand."""
    await signing_keys.register(database, KEY_ID, SIGNER.public_key, act=act)
    means = Means(
        limits=limits,
        compiler_build_id=BUILD,
        signing_key_id=KEY_ID,
        signer=lambda key_id: signer if key_id == KEY_ID else None,
    )
    if measures is not None:
        means = replace(means, measures=measures)
    handlers = Handlers()
    return Bench(database, declare(handlers, means), handlers)


async def ready(
    conn: Connection, tenant: TenantId, act: Act, *, facts: Sequence[SnapshotFact] = (BATTERY, PCF)
) -> Ready:
    """Everything for a passport of `SKU`."""
    product = await products.create(conn, tenant, sku=SKU, name="Cell", act=act)
    passport = await passports.create(conn, tenant, product.battery_product_id, act=act)
    snapshot = await sealed_snapshot(conn, tenant, facts)
    return Ready(passport=passport.passport_id, snapshot=snapshot, rules=await published_rules(conn, tenant, act))


async def sealed_snapshot(
    conn: Connection, tenant: TenantId, facts: Sequence[SnapshotFact] = (BATTERY, PCF)
) -> SnapshotId:
    """A snapshot of these facts and a secret."""
    snapshot = SnapshotId(fresh.new_id())
    await insert(conn, "data_snapshots", tenant_id=tenant, snapshot_id=snapshot, status="BUILDING")
    for fact in (*facts, blinding_fact(snapshot, fresh.entropy(32))):
        fact_id = await _fact(conn, tenant, fact)
        await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact_id)
    await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    await seal(conn, snapshot)
    return snapshot


async def _fact(conn: Connection, tenant: TenantId, fact: SnapshotFact) -> UUID:
    known: UUID | None = await conn.fetchval(
        "SELECT fact_id FROM facts WHERE tenant_id = $1 AND fact_key = $2 AND payload_hash = $3",
        tenant,
        fact.fact_key,
        fact.digest(),
    )
    if known is not None:
        return known
    fact_id, payload = fresh.new_id(), canon.encode(fact.payload)
    is_secret = fact.fact_type == "Blinding"
    await insert(
        conn,
        "facts",
        tenant_id=tenant,
        fact_id=fact_id,
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        source_document_version_id=None if is_secret else await a_document_version(conn, tenant, status="VALIDATED"),
        source_path=None if is_secret else "/",
        payload=payload.decode(),
        payload_canonical=payload,
        payload_hash=sha256(payload),
    )
    return fact_id


async def published_rules(
    conn: Connection, tenant: TenantId, act: Act, dsl: bytes = RULES, *, status: str = "PUBLISHED"
) -> RulePackageVersionId:
    """A version of a package of its own."""
    package = await rules.create(conn, tenant, name=f"rules {fresh.new_id()}", description=None, act=act)
    fields = rules.fields_of(checked_program(dsl))
    # The same texts are one version; the tests tell it from others with the same rules.
    tests = b"-- %s" % str(package.rule_package_id).encode()
    made = await rules.add_version(conn, tenant, package.rule_package_id, dsl=dsl, tests=tests, fields=fields, act=act)
    steps = ["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    for step in steps[1 : steps.index(status) + 1]:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            made.rule_package_version_id,
            step,
            act.at,
        )
    return made.rule_package_version_id


async def order_of(conn: Connection, tenant: TenantId, given: Ready, act: Act) -> CompileOrder:
    """What a compile request would order."""
    snapshot = await conn.fetchval("SELECT snapshot_hash FROM data_snapshots WHERE snapshot_id = $1", given.snapshot)
    version = await rules.version(conn, tenant, given.rules)
    return CompileOrder(
        passport_version_id=fresh.new_id(),
        passport_id=given.passport,
        snapshot_id=given.snapshot,
        rule_package_version_id=given.rules,
        product_sku=SKU,
        product_name="Cell",
        issued_at=act.at,
        compiler_build_id=BUILD,
        signing_key_id=KEY_ID,
        snapshot_hash=to_hex(snapshot),
        dsl_sha256=to_hex(version.dsl_sha256),
        tests_sha256=to_hex(version.tests_sha256),
        actor_id=None,
    )


async def run_compile(bench: Bench, tenant: TenantId, order: CompileOrder) -> Ran[None]:
    async with bench.database.tenant(tenant) as conn:
        return await run_inline(bench.steps.compile, order, tenant=tenant, conn=conn)


async def run_sign(bench: Bench, tenant: TenantId, version: UUID) -> Ran[None]:
    async with bench.database.tenant(tenant) as conn:
        order = SignOrder(passport_version_id=version, actor_id=None)
        return await run_inline(bench.steps.sign, order, tenant=tenant, conn=conn)


async def run_qr(bench: Bench, tenant: TenantId, version: UUID) -> Ran[None]:
    async with bench.database.tenant(tenant) as conn:
        order = QrOrder(passport_version_id=version, actor_id=None)
        return await run_inline(bench.steps.qr, order, tenant=tenant, conn=conn)


async def compiled(bench: Bench, tenant: TenantId, given: Ready, act: Act) -> PassportVersionId:
    """A new version that is COMPILING."""
    async with bench.database.tenant(tenant) as conn:
        order = await order_of(conn, tenant, given, act)
    ran = await run_compile(bench, tenant, order)
    assert ran.output is None
    return PassportVersionId(order.passport_version_id)


async def signed(bench: Bench, tenant: TenantId, given: Ready, act: Act) -> PassportVersionId:
    """A new version that is SIGNED and has its QR code."""
    version = await compiled(bench, tenant, given, act)
    assert (await run_sign(bench, tenant, version)).output is None
    assert (await run_qr(bench, tenant, version)).output is None
    return version
