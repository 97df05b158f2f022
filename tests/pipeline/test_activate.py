"""Specification of activate and revoke: a passport has one active version at a time, also under concurrency."""

import asyncio
import json
from datetime import timedelta

import pytest
from service_jobs.job import Ending
from service_jobs.testing import InlineRun, run_inline

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import UnknownResource
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.pipeline.activate import (
    ActivateOrder,
    ActivationResult,
    RevocationResult,
    WrongVersionStatus,
    activate,
    revoke,
)
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions, passports
from bpc.storage.passports.passport_versions import PassportVersionRow
from tests.pipeline.compile_fixtures import (
    CompileInputs,
    PipelineRunner,
    compile_version,
    run_qr,
    run_sign,
    sign_version,
)
from tests.pipeline.passport_subject import load_subject_payload
from tests.storage.rows import insert_passport, insert_passport_version, insert_signing_keys


async def activate_version(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> ActivationResult:
    async with database.tenant(tenant) as conn:
        return await activate(conn, tenant, version, act=act)


async def revoke_version(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> RevocationResult:
    async with database.tenant(tenant) as conn:
        return await revoke(conn, tenant, version, reason="the report was withdrawn", act=act)


async def run_activate(
    runner: PipelineRunner, tenant: TenantId, version: PassportVersionId
) -> InlineRun[ActivationResult]:
    order = ActivateOrder(passport_version_id=version, actor_id=None)
    async with runner.database.tenant(tenant) as conn:
        return await run_inline(runner.pipeline_jobs.activate, order, tenant=tenant, conn=conn)


async def get_version(database: Database, tenant: TenantId, version: PassportVersionId) -> PassportVersionRow:
    async with database.tenant(tenant) as conn:
        return await passport_versions.get_version(conn, tenant, version)


async def get_current(database: Database, tenant: TenantId, inputs: CompileInputs) -> PassportVersionId | None:
    async with database.tenant(tenant) as conn:
        return (await passports.get_passport(conn, tenant, inputs.passport)).current_passport_version_id


async def read_last_event(database: Database, tenant: TenantId, version: PassportVersionId) -> tuple[str, bytes]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))
    return chain[-1].event.event_type, chain[-1].event.payload_canonical


async def test_a_second_version_supersedes_the_first_at_the_same_instant(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    first, second = [await sign_version(runner, tenant, inputs, act) for _ in range(2)]
    await activate_version(database, tenant, first, act)

    done = await activate_version(database, tenant, second, act)

    assert done.superseded_passport_version_id == first
    before, now = await get_version(database, tenant, first), await get_version(database, tenant, second)
    assert (before.status, now.status) == ("SUPERSEDED", "ACTIVE")
    assert before.superseded_at == now.activated_at == act.at
    assert await get_current(database, tenant, inputs) == second
    assert (await read_last_event(database, tenant, first))[0] == "PASSPORT_SUPERSEDED"
    assert (await read_last_event(database, tenant, second))[0] == "PASSPORT_ACTIVATED"


async def test_no_version_ends_before_it_began_even_if_the_act_is_older(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    first, second = [await sign_version(runner, tenant, inputs, act) for _ in range(2)]
    early, late = [Act(None, act.at + timedelta(seconds=by)) for by in (-60, 60)]

    await activate_version(database, tenant, first, late)
    await activate_version(database, tenant, second, early)
    await revoke_version(database, tenant, second, early)

    before, now = await get_version(database, tenant, first), await get_version(database, tenant, second)
    assert before.activated_at == before.superseded_at == now.activated_at == now.revoked_at == late.at


async def test_an_older_version_that_is_signed_may_be_activated_later(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    older, newer = [await sign_version(runner, tenant, inputs, act) for _ in range(2)]
    await activate_version(database, tenant, newer, act)

    await activate_version(database, tenant, older, act)

    assert await get_current(database, tenant, inputs) == older


async def test_a_late_job_does_not_supersede_a_version_that_was_requested_later(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    older, newer = [
        await sign_version(runner, tenant, inputs, Act(None, act.at + timedelta(seconds=seconds))) for seconds in (0, 1)
    ]
    await activate_version(database, tenant, newer, act)

    late = await run_activate(runner, tenant, older)

    assert (late.ending, late.error and late.error.code) == (Ending.FAILED, "CONFLICT")
    assert late.error is not None
    assert "nothing was changed" in late.error.message
    assert (await get_version(database, tenant, older)).status == "SIGNED"
    assert await get_current(database, tenant, inputs) == newer


async def test_a_job_supersedes_a_version_that_was_requested_earlier_or_at_the_same_time(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    versions = [
        await sign_version(runner, tenant, inputs, Act(None, act.at + timedelta(seconds=by))) for by in (0, 1, 1)
    ]

    ran = [await run_activate(runner, tenant, version) for version in versions]

    assert [each.ending for each in ran] == [Ending.SUCCEEDED] * 3
    assert await get_current(database, tenant, inputs) == versions[2]


async def test_a_job_does_not_change_a_version_that_is_or_was_active(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    first, second = [await sign_version(runner, tenant, inputs, act) for _ in range(2)]
    await activate_version(database, tenant, first, act)
    await activate_version(database, tenant, second, act)

    ran = [await run_activate(runner, tenant, version) for version in (first, second)]

    assert [each.ending for each in ran] == [Ending.SUCCEEDED] * 2
    assert await get_current(database, tenant, inputs) == second


async def test_a_job_that_waits_while_another_caller_activates_its_version_succeeds(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await sign_version(runner, tenant, inputs, act)
    async with database.tenant(tenant) as conn:
        await activate(conn, tenant, version, act=act)
        waiting = asyncio.create_task(run_activate(runner, tenant, version))
        assert not (await asyncio.wait([waiting], timeout=0.3))[0]

    assert (await waiting).ending is Ending.SUCCEEDED
    assert (await read_last_event(database, tenant, version))[0] == "PASSPORT_ACTIVATED"


async def test_only_a_signed_version_with_its_qr_code_can_be_activated(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)

    with pytest.raises(WrongVersionStatus, match="COMPILING"):
        await activate_version(database, tenant, version, act)
    await run_sign(runner, tenant, version)
    with pytest.raises(WrongVersionStatus, match="QR code"):
        await activate_version(database, tenant, version, act)
    await run_qr(runner, tenant, version)
    await activate_version(database, tenant, version, act)

    with pytest.raises(WrongVersionStatus, match="ACTIVE"):
        await activate_version(database, tenant, version, act)


@pytest.mark.parametrize("status", ["SUPERSEDED", "REVOKED"])
async def test_a_superseded_or_revoked_version_cannot_be_activated(
    database: Database, tenant: TenantId, act: Act, status: str
) -> None:
    await insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        version = PassportVersionId(await insert_passport_version(conn, tenant, status=status, qr_png=b"-"))

    with pytest.raises(WrongVersionStatus, match=status):
        await activate_version(database, tenant, version, act)


async def test_revoking_the_current_version_leaves_the_passport_without_one(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await sign_version(runner, tenant, inputs, act)
    await activate_version(database, tenant, version, act)

    await revoke_version(database, tenant, version, act)

    assert (await get_version(database, tenant, version)).revoked_at == act.at
    assert await get_current(database, tenant, inputs) is None
    event_type, payload = await read_last_event(database, tenant, version)
    assert event_type == "PASSPORT_REVOKED"
    assert json.loads(payload) == {
        "reason": "the report was withdrawn",
        "was": "ACTIVE",
        **(await load_subject_payload(database, tenant, inputs.passport)),
    }


async def test_revoking_another_version_leaves_the_current_one(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    first, second, third = [await sign_version(runner, tenant, inputs, act) for _ in range(3)]
    await activate_version(database, tenant, first, act)
    await activate_version(database, tenant, second, act)

    await revoke_version(database, tenant, first, act)
    await revoke_version(database, tenant, third, act)

    assert await get_current(database, tenant, inputs) == second
    assert (await get_version(database, tenant, second)).status == "ACTIVE"


@pytest.mark.parametrize("status", ["COMPILING", "REVOKED"])
async def test_an_unsigned_or_revoked_version_cannot_be_revoked(
    database: Database, tenant: TenantId, act: Act, status: str
) -> None:
    await insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        version = PassportVersionId(await insert_passport_version(conn, tenant, status=status))

    with pytest.raises(WrongVersionStatus, match=status):
        await revoke_version(database, tenant, version, act)


async def test_a_version_that_was_revoked_before_its_qr_code_gets_no_qr_code(
    database: Database, runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    version = await compile_version(runner, tenant, inputs, act)
    await run_sign(runner, tenant, version)
    await revoke_version(database, tenant, version, act)

    ran = await run_qr(runner, tenant, version)

    assert ran.ending is Ending.SUCCEEDED
    assert not (await get_version(database, tenant, version)).has_qr


async def test_another_tenants_version_does_not_exist(
    database: Database,
    runner: PipelineRunner,
    tenant: TenantId,
    other_tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
) -> None:
    version = await sign_version(runner, tenant, inputs, act)

    for do in (activate_version, revoke_version):
        with pytest.raises(UnknownResource, match=str(version)):
            await do(database, other_tenant, version, act)


async def test_concurrent_activations_leave_exactly_one_active_version(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    for _ in range(10):
        async with database.tenant(tenant) as conn:
            passport = await insert_passport(conn, tenant)
            versions = [
                PassportVersionId(
                    await insert_passport_version(conn, tenant, status="SIGNED", passport=passport, qr_png=b"-")
                )
                for _ in range(4)
            ]

        done = await asyncio.gather(*(activate_version(database, tenant, version, act) for version in versions))

        async with database.tenant(tenant) as conn:
            rows = await conn.fetch("SELECT status::text FROM passport_versions WHERE passport_id = $1", passport)
            [now] = await conn.fetch("SELECT * FROM passports WHERE passport_id = $1", passport)
        assert sorted(row["status"] for row in rows) == ["ACTIVE", "SUPERSEDED", "SUPERSEDED", "SUPERSEDED"]
        superseded = {each.superseded_passport_version_id for each in done}
        assert superseded == {None, *versions} - {now["current_passport_version_id"]}


async def test_concurrent_revocation_and_activation_never_leave_an_inactive_current_version(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    for _ in range(10):
        async with database.tenant(tenant) as conn:
            passport = await insert_passport(conn, tenant)
            first, second = [
                PassportVersionId(
                    await insert_passport_version(conn, tenant, status="SIGNED", passport=passport, qr_png=b"-")
                )
                for _ in range(2)
            ]
        await activate_version(database, tenant, first, act)

        await asyncio.gather(
            revoke_version(database, tenant, first, act), activate_version(database, tenant, second, act)
        )

        assert (await get_version(database, tenant, first)).status == "REVOKED"
        async with database.tenant(tenant) as conn:
            now = await conn.fetchval(
                "SELECT current_passport_version_id FROM passports WHERE passport_id = $1", passport
            )
        assert now == second
