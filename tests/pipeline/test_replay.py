"""Specification of replay: what is stored compiles again to the same bytes, and whatever was changed shows."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import asyncpg
import pytest

from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.receipt import signed as signed_receipt
from bpc.core.signing import Seed, Signer
from bpc.db import events, passport_versions
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.roles import APP
from bpc.pipeline.activate import WrongStatus
from bpc.pipeline.replay import Kept, Replayed, check, gathered, replay
from tests.pipeline import ready as steps
from tests.pipeline.ready import Bench, Ready, bench, compiled, run_sign, signed

STEPS: Final = ["snapshot", "facts", "rules", "product", "replay", "hashes", "signature", "qr"]
FORGER: Final = Signer(Seed(bytes(32)))


@pytest.fixture
async def ours(database: Database, act: Act) -> Bench:
    return await bench(database, act)


@pytest.fixture
async def given(database: Database, tenant: TenantId, act: Act) -> Ready:
    async with database.tenant(tenant) as conn:
        return await steps.ready(conn, tenant, act)


@pytest.fixture
async def version(ours: Bench, tenant: TenantId, given: Ready, act: Act) -> PassportVersionId:
    return await signed(ours, tenant, given, act)


async def replayed(database: Database, tenant: TenantId, version: PassportVersionId, act: Act) -> Replayed:
    async with database.tenant(tenant) as conn:
        return await replay(conn, tenant, version, act=act)


async def test_a_version_replays_and_its_record_says_so(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> None:
    found = await replayed(database, tenant, version, act)

    assert [(step.name, step.ok) for step in found.steps] == [(name, True) for name in STEPS]
    assert found.refusal is None
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, "PassportVersion", AggregateId(version)))
    assert chain[-1].event.event_type == "PASSPORT_REPLAYED"


@pytest.mark.parametrize("status", ["DEPRECATED", "RETIRED"])
async def test_rules_that_no_longer_compile_still_replay(
    database: Database, tenant: TenantId, version: PassportVersionId, given: Ready, act: Act, status: str
) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute(
            "UPDATE rule_package_versions SET status = $2::rule_pkg_status WHERE rule_package_version_id = $1",
            given.rules,
            status,
        )

    assert (await replayed(database, tenant, version, act)).refusal is None


async def test_a_version_without_a_qr_code_replays(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await compiled(ours, tenant, given, act)
    with pytest.raises(WrongStatus, match="COMPILING"):
        await replayed(database, tenant, version, act)
    await run_sign(ours, tenant, version)

    assert (await replayed(database, tenant, version, act)).refusal is None


CHANGES: Final = {
    "payload": (
        """UPDATE passport_versions SET payload_canonical =
                  convert_to(replace(convert_from(payload_canonical, 'UTF8'), '"75.5', '"95.5'), 'UTF8')""",
        "replay",
    ),
    "payload longer": ("UPDATE passport_versions SET payload_canonical = payload_canonical || ' '::bytea", "product"),
    "payload cut": ("UPDATE passport_versions SET payload_canonical = ''::bytea", "product"),
    "proof": ("UPDATE passport_versions SET proof_canonical = '{}'::bytea", "replay"),
    "receipt": ("UPDATE passport_versions SET receipt_canonical = '{}'::bytea", "snapshot"),
    "payload hash": ("UPDATE passport_versions SET payload_hash = sha256('x')", "hashes"),
    "proof root": ("UPDATE passport_versions SET proof_root_hash = sha256('x')", "hashes"),
    "receipt hash": ("UPDATE passport_versions SET receipt_hash = sha256('x')", "hashes"),
    "build": ("UPDATE passport_versions SET compiler_build_id = 'x'", "hashes"),
    "signature": ("UPDATE passport_versions SET signature = decode(repeat('00', 64), 'hex')", "signature"),
    "public key": ("UPDATE signing_keys SET public_key = sha256('x')", "signature"),
    "qr text": ("UPDATE passport_versions SET qr_payload = 'BPC1|'", "qr"),
    "qr image": ("UPDATE passport_versions SET qr_png = 'x'::bytea", "qr"),
    "snapshot": ("UPDATE data_snapshots SET snapshot_canonical = '{}'::bytea", "snapshot"),
    "snapshot hash": ("UPDATE data_snapshots SET snapshot_hash = sha256('x')", "snapshot"),
    "facts": (
        """UPDATE facts SET payload_canonical = '{"capacity_kwh":"99","sku":"SKU-1"}'::bytea
            WHERE fact_type = 'Battery'""",
        "replay",
    ),
    "facts unreadable": ("UPDATE facts SET payload_canonical = '{'::bytea WHERE fact_type = 'PCF'", "facts"),
    "facts of another kind": ("UPDATE facts SET payload_canonical = '[]'::bytea WHERE fact_type = 'PCF'", "product"),
    "fact missing": (
        "DELETE FROM snapshot_items i USING facts f WHERE f.fact_id = i.fact_id AND f.fact_type = 'PCF'",
        "replay",
    ),
    "rules": ("UPDATE rule_package_versions SET dsl_source = dsl_source || '-- x'::bytea", "rules"),
    "no rules": ("UPDATE rule_package_versions SET dsl_source = '('::bytea", "rules"),
    "tests": ("UPDATE rule_package_versions SET tests_source = ''::bytea", "rules"),
    "rules never published": ("UPDATE rule_package_versions SET status = 'DRAFT'", "rules"),
    "sku": ("UPDATE battery_products SET sku = 'SKU-2'", "product"),
}


async def test_whatever_was_changed_behind_our_back_shows_and_goes_on_record(
    tenant: TenantId, version: PassportVersionId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    for what, (statement, wrong) in CHANGES.items():
        async with as_if(superuser, tenant, statement) as conn:
            found = await replay(conn, tenant, version, act=act)
            chain = await events.read_chain(conn, Stream(tenant, "PassportVersion", AggregateId(version)))

        assert found.refusal is not None, what
        assert found.refusal.code == "REPLAY_MISMATCH", what
        assert next(step.name for step in found.steps if not step.ok) == wrong, what
        assert chain[-1].event.event_type == "REPLAY_MISMATCH", what


@asynccontextmanager
async def as_if(
    superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, statement: str
) -> AsyncIterator[Connection]:
    """The application's view of a database in which an intruder did this; afterwards it did not happen."""
    intrusion = superuser.transaction()
    await intrusion.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    await superuser.execute(statement)
    await superuser.execute(f"SET LOCAL session_replication_role = origin; SET LOCAL app.tenant_id = '{tenant}'")
    await superuser.execute(f"SET LOCAL ROLE {APP}")
    try:
        yield superuser
    finally:
        await intrusion.rollback()


async def test_no_byte_of_what_is_stored_can_be_changed_unseen(
    database: Database, tenant: TenantId, version: PassportVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        kept = await gathered(conn, tenant, await passport_versions.get(conn, tenant, version))
    assert all(step.ok for step in check(kept))

    for changed in every_change(kept):
        assert not all(step.ok for step in check(changed))


def every_change(kept: Kept) -> Iterator[Kept]:
    """A bit of each artifact turned over, at places all over it."""
    stored, sources, snapshot = kept.stored, kept.sources, kept.snapshot
    for name in ("payload", "proof", "receipt", "signature", "qr_png"):
        for changed in turned_over(getattr(stored, name)):
            yield replace(kept, stored=replace(stored, **{name: changed}))  # type: ignore[arg-type]
    for changed in turned_over(snapshot.snapshot_canonical or b""):
        yield replace(kept, snapshot=replace(snapshot, snapshot_canonical=changed))
    for changed in turned_over(sources.dsl):
        yield replace(kept, sources=replace(sources, dsl=changed))
    for changed in turned_over(sources.tests):
        yield replace(kept, sources=replace(sources, tests=changed))


def turned_over(data: bytes, places: int = 25) -> Iterator[bytes]:
    for at in range(0, len(data), max(1, len(data) // places)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        yield bytes(changed)


async def test_a_receipt_signed_by_somebody_else_is_found(
    database: Database,
    tenant: TenantId,
    version: PassportVersionId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    receipt = signed_receipt(await superuser.fetchval("SELECT receipt_canonical FROM passport_versions"), FORGER)
    signature = FORGER.sign(await superuser.fetchval("SELECT receipt_hash FROM passport_versions"))
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET receipt_canonical = $1, signature = $2", receipt, signature)

    found = await replayed(database, tenant, version, act)

    assert [step.name for step in found.steps if not step.ok] == ["signature"]
