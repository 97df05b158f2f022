"""The inputs of a compile, in the database, and the steps to be run one by one.

async with database.tenant(tenant) as conn:
    inputs = await create_compile_inputs(conn, tenant, act)      # product, passport, sealed snapshot, published rules
runner = await make_runner(database, act)
version = await compile_version(runner, tenant, inputs, act)     # COMPILING
version = await sign_version(runner, tenant, inputs, act)        # another one: SIGNED, with its QR code
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from service_jobs import Handlers, Jobs, RequestQueue
from service_jobs.testing import InlineRun, run_inline

from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import Seed, Signer
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.language.check_result import list_fields
from bpc.core.language.package import read_program
from bpc.core.passport.compile import ArtifactLimits
from bpc.core.passport.payload import make_blinding_fact
from bpc.pipeline.compile import CompileOutcome, RequestedCompile, request_compile
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.qr import QrOrder, QrOutcome
from bpc.pipeline.sign import SignOrder, SignOutcome
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.audit import events, signing_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.passports import passports, products
from bpc.storage.rules import packages
from bpc.tasks.job_types import PipelineJobs, declare_pipeline_jobs
from tests.storage.evidence_rows import insert_document_version, seal_snapshot
from tests.storage.statements import insert_row

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
class CompileInputs:
    """The ids of what a version can be compiled from."""

    passport: PassportId
    snapshot: SnapshotId
    rules: RulePackageVersionId


@dataclass(frozen=True, slots=True)
class PipelineRunner:
    """The steps, to be run one by one."""

    database: Database
    pipeline_jobs: PipelineJobs
    handlers: Handlers


async def make_runner(
    database: Database,
    act: Act,
    *,
    signer: Signer | None = SIGNER,
    limits: ArtifactLimits = ArtifactLimits(),  # noqa: B008
    metrics: JobMetrics = JobMetrics(),  # noqa: B008
    key_ring: KeyRing | None = None,
    sign_at_once: bool = False,
) -> PipelineRunner:
    """The steps with a registered key; `signer` is what is at hand. Each is a job of its own, unless `sign_at_once`."""
    await signing_keys.register_key(database, KEY_ID, SIGNER.public_key, act=act)
    handlers, key_ring = Handlers(), key_ring or KeyRing({} if signer is None else {KEY_ID: signer})
    jobs = declare_pipeline_jobs(handlers, limits=limits, key_ring=key_ring, metrics=metrics, sign_at_once=sign_at_once)
    return PipelineRunner(database, jobs, handlers)


async def create_compile_inputs(
    conn: Connection, tenant: TenantId, act: Act, *, facts: Sequence[SnapshotFact] = (BATTERY, PCF)
) -> CompileInputs:
    """Everything for a passport of `SKU`."""
    product = await products.create_product(conn, tenant, sku=SKU, name="Cell", act=act)
    passport = await passports.create_passport(conn, tenant, product.battery_product_id, act=act)
    snapshot = await create_sealed_snapshot(conn, tenant, facts)
    return CompileInputs(passport=passport.passport_id, snapshot=snapshot, rules=await publish_rules(conn, tenant, act))


async def create_sealed_snapshot(
    conn: Connection, tenant: TenantId, facts: Sequence[SnapshotFact] = (BATTERY, PCF)
) -> SnapshotId:
    """A snapshot of these facts and a secret."""
    snapshot = SnapshotId(clock.new_id())
    await insert_row(conn, "data_snapshots", tenant_id=tenant, snapshot_id=snapshot, status="BUILDING")
    for fact in (*facts, make_blinding_fact(snapshot, clock.random_bytes(32))):
        fact_id = await _insert_fact(conn, tenant, fact)
        await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact_id)
    await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    await seal_snapshot(conn, snapshot)
    return snapshot


async def _insert_fact(conn: Connection, tenant: TenantId, fact: SnapshotFact) -> UUID:
    known_id: UUID | None = await conn.fetchval(
        "SELECT fact_id FROM facts WHERE tenant_id = $1 AND fact_key = $2 AND payload_hash = $3",
        tenant,
        fact.fact_key,
        fact.digest(),
    )
    if known_id is not None:
        return known_id
    fact_id, payload = clock.new_id(), canonical_json.encode(fact.payload)
    is_secret = fact.fact_type == "Blinding"
    await insert_row(
        conn,
        "facts",
        tenant_id=tenant,
        fact_id=fact_id,
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        source_document_version_id=None
        if is_secret
        else await insert_document_version(conn, tenant, status="VALIDATED"),
        source_path=None if is_secret else "/",
        payload=payload.decode(),
        payload_canonical=payload,
        payload_hash=sha256(payload),
    )
    return fact_id


async def publish_rules(
    conn: Connection, tenant: TenantId, act: Act, dsl: bytes = RULES, *, status: str = "PUBLISHED"
) -> RulePackageVersionId:
    """A version of a package of its own."""
    package = await packages.create_package(conn, tenant, name=f"rules {clock.new_id()}", description=None, act=act)
    fields = list_fields(read_program(dsl))
    # The same texts are one version; the tests tell it from others with the same rules.
    tests = b"-- %s" % str(package.rule_package_id).encode()
    version = await packages.insert_version(
        conn, tenant, package.rule_package_id, dsl=dsl, tests=tests, fields=fields, act=act
    )
    steps = ["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    for step in steps[1 : steps.index(status) + 1]:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            version.rule_package_version_id,
            step,
            act.at,
        )
    return version.rule_package_version_id


async def make_compile_order(conn: Connection, tenant: TenantId, inputs: CompileInputs, act: Act) -> CompileOrder:
    """What a compile request would order."""
    snapshot = await conn.fetchval("SELECT snapshot_hash FROM data_snapshots WHERE snapshot_id = $1", inputs.snapshot)
    version = await packages.get_version(conn, tenant, inputs.rules)
    return CompileOrder(
        passport_version_id=PassportVersionId(clock.new_id()),
        passport_id=inputs.passport,
        snapshot_id=inputs.snapshot,
        rule_package_version_id=inputs.rules,
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


async def run_compile(runner: PipelineRunner, tenant: TenantId, order: CompileOrder) -> InlineRun[CompileOutcome]:
    async with runner.database.tenant(tenant) as conn:
        return await run_inline(runner.pipeline_jobs.compile, order, tenant=tenant, conn=conn)


async def run_sign(runner: PipelineRunner, tenant: TenantId, version: PassportVersionId) -> InlineRun[SignOutcome]:
    async with runner.database.tenant(tenant) as conn:
        order = SignOrder(passport_version_id=version, actor_id=None)
        return await run_inline(runner.pipeline_jobs.sign, order, tenant=tenant, conn=conn)


async def run_qr(runner: PipelineRunner, tenant: TenantId, version: PassportVersionId) -> InlineRun[QrOutcome]:
    async with runner.database.tenant(tenant) as conn:
        order = QrOrder(passport_version_id=version, actor_id=None)
        return await run_inline(runner.pipeline_jobs.qr, order, tenant=tenant, conn=conn)


async def compile_version(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> PassportVersionId:
    """A new version that is COMPILING."""
    async with runner.database.tenant(tenant) as conn:
        order = await make_compile_order(conn, tenant, inputs, act)
    ran = await run_compile(runner, tenant, order)
    assert (ran.output.passport_version_id, ran.output.sign_job_id) == (
        order.passport_version_id,
        ran.follow_ups[0].job_id,
    )
    return order.passport_version_id


async def sign_version(runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act) -> PassportVersionId:
    """A new version that is SIGNED and has its QR code."""
    version = await compile_version(runner, tenant, inputs, act)
    signing = await run_sign(runner, tenant, version)
    assert (signing.output.passport_version_id, signing.output.qr_job_id) == (version, signing.follow_ups[0].job_id)
    assert (await run_qr(runner, tenant, version)).output.passport_version_id == version
    return version


async def list_event_types(database: Database, tenant: TenantId, aggregate: str, thing: object) -> list[str]:
    """The types of the events of an aggregate, in order."""
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, aggregate, AggregateId(thing)))  # type: ignore[arg-type]
    return [stored.event.event_type for stored in chain]


async def wait_for_lock(database: Database) -> None:
    """Return when a session waits for another one's lock."""
    async with asyncio.timeout(60), database.plain() as conn:
        while not await conn.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await asyncio.sleep(0.005)


async def request_version(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> RequestedCompile:
    """Request a compile as the API does."""
    async with runner.database.tenant(tenant) as conn:
        return await request_compile(
            conn,
            RequestQueue(jobs=jobs, conn=conn, tenant=tenant),
            runner.pipeline_jobs.compile,
            tenant,
            inputs.passport,
            snapshot=inputs.snapshot,
            rule_version=inputs.rules,
            compiler_build_id=BUILD,
            signing_key_id=KEY_ID,
            act=act,
        )
