"""Specification of replay: a version compiles again to the same bytes, and every change is detected."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import asyncpg
import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import Seed, Signer
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.passport.receipt import sign_receipt as signed_receipt
from bpc.pipeline.activate import WrongVersionStatus
from bpc.pipeline.replay import ReplayInput, ReplayResult, check_all, load_replay_input, replay
from bpc.storage.audit import events
from bpc.storage.connection import APP_ROLE, Connection
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions
from tests.pipeline.compile_fixtures import (
    CompileInputs,
    PipelineRunner,
    compile_version,
    run_sign,
    sign_version,
)

STEPS: Final = ["snapshot", "facts", "rules", "product", "replay", "hashes", "signature", "qr"]
FORGER: Final = Signer(Seed(bytes(32)))


@pytest.fixture
async def version(runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act) -> PassportVersionId:
    return await sign_version(runner, tenant, inputs, act)


async def replay_version(database: Database, tenant: TenantId, version: PassportVersionId, act: Act) -> ReplayResult:
    async with database.tenant(tenant) as conn:
        return await replay(conn, tenant, version, act=act)


async def test_a_successful_replay_is_recorded(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> None:
    result = await replay_version(database, tenant, version, act)

    assert [(step.name, step.ok) for step in result.steps] == [(name, True) for name in STEPS]
    assert result.refusal is None
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))
    assert chain[-1].event.event_type == "PASSPORT_REPLAYED"


@pytest.mark.parametrize("status", ["DEPRECATED", "RETIRED"])
async def test_rules_that_no_longer_compile_still_replay(
    database: Database, tenant: TenantId, version: PassportVersionId, inputs: CompileInputs, act: Act, status: str
) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute(
            "UPDATE rule_package_versions SET status = $2::rule_pkg_status WHERE rule_package_version_id = $1",
            inputs.rules,
            status,
        )

    assert (await replay_version(database, tenant, version, act)).refusal is None


async def test_a_version_without_a_qr_code_replays(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)
    with pytest.raises(WrongVersionStatus, match="COMPILING"):
        await replay_version(database, tenant, version, act)
    await run_sign(runner, tenant, version)

    assert (await replay_version(database, tenant, version, act)).refusal is None


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
    "key forgotten": ("DELETE FROM signing_keys", "signature"),
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


async def test_every_change_in_the_database_is_detected_and_recorded(
    tenant: TenantId, version: PassportVersionId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    for what, (statement, wrong) in CHANGES.items():
        async with open_tampered(superuser, tenant, statement) as conn:
            result = await replay(conn, tenant, version, act=act)
            chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))

        assert result.refusal is not None, what
        assert result.refusal.code == ("SIGNATURE_INVALID" if wrong == "signature" else "REPLAY_MISMATCH"), what
        assert next(step.name for step in result.steps if not step.ok) == wrong, what
        assert chain[-1].event.event_type == "REPLAY_MISMATCH", what


@asynccontextmanager
async def open_tampered(
    superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, statement: str
) -> AsyncIterator[Connection]:
    """The application's view of a database in which an intruder did this; afterwards it did not happen."""
    intrusion = superuser.transaction()
    await intrusion.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    await superuser.execute(statement)
    await superuser.execute(f"SET LOCAL session_replication_role = origin; SET LOCAL app.tenant_id = '{tenant}'")
    await superuser.execute(f"SET LOCAL ROLE {APP_ROLE}")
    try:
        yield superuser
    finally:
        await intrusion.rollback()


async def test_a_change_of_any_stored_byte_is_detected(
    database: Database, tenant: TenantId, version: PassportVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        replay_input = await load_replay_input(conn, tenant, await passport_versions.get_version(conn, tenant, version))
    assert all(step.ok for step in check_all(replay_input))

    for changed in flip_each_artifact(replay_input):
        assert not all(step.ok for step in check_all(changed))


def flip_each_artifact(replay_input: ReplayInput) -> Iterator[ReplayInput]:
    """A bit of each artifact turned over, at places all over it."""
    stored, sources, snapshot = replay_input.stored, replay_input.sources, replay_input.snapshot
    for name in ("payload", "proof", "receipt", "signature", "qr_png"):
        for changed in flip_bits(getattr(stored, name)):
            yield replace(replay_input, stored=replace(stored, **{name: changed}))  # type: ignore[arg-type]
    for changed in flip_bits(snapshot.snapshot_canonical or b""):
        yield replace(replay_input, snapshot=replace(snapshot, snapshot_canonical=changed))
    for changed in flip_bits(sources.dsl):
        yield replace(replay_input, sources=replace(sources, dsl=changed))
    for changed in flip_bits(sources.tests):
        yield replace(replay_input, sources=replace(sources, tests=changed))


def flip_bits(data: bytes, places: int = 25) -> Iterator[bytes]:
    for at in range(0, len(data), max(1, len(data) // places)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        yield bytes(changed)


async def test_a_receipt_signed_by_another_key_is_detected(
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

    result = await replay_version(database, tenant, version, act)

    assert result.failed_steps == ("signature",)
    assert result.refusal is not None
    assert result.refusal.code == "SIGNATURE_INVALID"
    assert result.refusal.says.endswith(
        "its signature does not verify: the signature does not belong to this content and key"
    )


async def test_a_wrong_signature_beside_another_difference_is_a_mismatch(
    tenant: TenantId, version: PassportVersionId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    statement = "UPDATE passport_versions SET signature = decode(repeat('00', 64), 'hex'), payload_hash = sha256('x')"
    async with open_tampered(superuser, tenant, statement) as conn:
        result = await replay(conn, tenant, version, act=act)

    assert result.failed_steps == ("hashes", "signature")
    assert result.refusal is not None
    assert result.refusal.code == "REPLAY_MISMATCH"
