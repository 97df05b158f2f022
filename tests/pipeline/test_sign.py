"""Specification of signing and of the QR code: only the registered key signs, and each step runs once."""

import asyncpg
import pytest
from service_jobs import NORMAL
from service_jobs.job import Ending

from bpc.core.audit.events import Act
from bpc.core.audit.signing import Seed, Signer
from bpc.core.formats.ids import TenantId
from bpc.core.passport.bundle import format_receipt_qr_text
from bpc.core.passport.qr import check_qr_png
from bpc.core.passport.receipt import read_receipt
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions
from tests.pipeline import compile_fixtures as steps
from tests.pipeline.compile_fixtures import (
    CompileInputs,
    PipelineRunner,
    compile_version,
    list_event_types,
    make_runner,
    run_qr,
    run_sign,
)


async def test_signing_adds_the_signature_of_the_key_that_the_receipt_names(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)

    ran = await run_sign(runner, tenant, version)

    assert [(wish.handler.type, wish.key) for wish in ran.follow_ups] == [("GENERATE_QR", f"qr:{version}")]
    assert ran.follow_ups[0].priority == NORMAL
    async with runner.database.tenant(tenant) as conn:
        row = await passport_versions.get_version(conn, tenant, version)
        stored = await passport_versions.load_bytes(conn, tenant, version)
    receipt = read_receipt(stored.receipt)
    receipt.verify(steps.SIGNER.public_key)
    assert (row.status, row.signing_key_id) == ("SIGNED", steps.KEY_ID)
    assert (stored.signature, row.receipt_hash) == (receipt.signature, receipt.hash())


async def test_a_version_is_signed_once_and_gets_one_qr_code(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)

    for _ in range(2):
        assert (await run_sign(runner, tenant, version)).ending is Ending.SUCCEEDED
        assert (await run_qr(runner, tenant, version)).ending is Ending.SUCCEEDED

    assert await list_event_types(runner.database, tenant, "PassportVersion", version) == [
        "PASSPORT_COMPILED",
        "PASSPORT_SIGNED",
        "QR_GENERATED",
    ]
    async with runner.database.tenant(tenant) as conn:
        stored = await passport_versions.load_bytes(conn, tenant, version)
    assert stored.qr_payload == format_receipt_qr_text(read_receipt(stored.receipt))
    assert stored.qr_png is not None
    check_qr_png(stored.qr_png, stored.qr_payload)


@pytest.mark.parametrize("at_hand", [None, Signer(Seed(bytes(32)))], ids=["none", "another"])
async def test_a_missing_or_wrong_private_key_fails_the_job_and_can_be_corrected(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act, at_hand: Signer | None
) -> None:
    poor = await make_runner(database, act, signer=at_hand)
    version = await compile_version(poor, tenant, inputs, act)

    ran = await run_sign(poor, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "SIGNING_KEY_MISSING")
    assert (await run_sign(await make_runner(database, act), tenant, version)).ending is Ending.SUCCEEDED


async def test_a_retired_key_does_not_sign(
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    version = await compile_version(runner, tenant, inputs, act)
    await superuser.execute("UPDATE signing_keys SET status = 'RETIRED', retired_at = now()")

    ran = await run_sign(runner, tenant, version)

    assert ran.error is not None
    assert ran.error.code == "SIGNING_KEY_MISSING"
    assert ran.error.details == {"signing_key_id": steps.KEY_ID}


async def test_a_payload_that_was_changed_in_the_database_is_not_signed(
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    version = await compile_version(runner, tenant, inputs, act)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET payload_canonical = $1", b"{}")

    ran = await run_sign(runner, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")


async def test_an_unsigned_version_gets_no_qr_code(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)

    ran = await run_qr(runner, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")
