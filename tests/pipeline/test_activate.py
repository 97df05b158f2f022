"""Specification of activate and revoke: one version counts at a time, whoever asks at the same time."""

import asyncio
from datetime import timedelta

import pytest

from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.db import events, passport_versions, passports
from bpc.db.database import Database
from bpc.db.passport_versions import Version, VersionUnknown
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from bpc.pipeline.activate import Activated, ActivateOrder, Revoked, WrongStatus, activate, revoke
from tests.db.rows import a_passport, a_passport_version, signing_keys
from tests.pipeline import ready as steps
from tests.pipeline.ready import Bench, Ready, bench, compiled, run_qr, run_sign, signed


@pytest.fixture
async def given(database: Database, tenant: TenantId, act: Act) -> Ready:
    async with database.tenant(tenant) as conn:
        return await steps.ready(conn, tenant, act)


@pytest.fixture
async def ours(database: Database, act: Act) -> Bench:
    return await bench(database, act)


async def activated(database: Database, tenant: TenantId, version: PassportVersionId, act: Act) -> Activated:
    async with database.tenant(tenant) as conn:
        return await activate(conn, tenant, version, act=act)


async def revoked(database: Database, tenant: TenantId, version: PassportVersionId, act: Act) -> Revoked:
    async with database.tenant(tenant) as conn:
        return await revoke(conn, tenant, version, reason="the report was withdrawn", act=act)


async def run_activate(ours: Bench, tenant: TenantId, version: PassportVersionId) -> Ran[None]:
    order = ActivateOrder(passport_version_id=version, actor_id=None)
    async with ours.database.tenant(tenant) as conn:
        return await run_inline(ours.steps.activate, order, tenant=tenant, conn=conn)


async def found(database: Database, tenant: TenantId, version: PassportVersionId) -> Version:
    async with database.tenant(tenant) as conn:
        return await passport_versions.get(conn, tenant, version)


async def current(database: Database, tenant: TenantId, given: Ready) -> PassportVersionId | None:
    async with database.tenant(tenant) as conn:
        return (await passports.get(conn, tenant, given.passport)).current_passport_version_id


async def last_event(database: Database, tenant: TenantId, version: PassportVersionId) -> tuple[str, bytes]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, "PassportVersion", AggregateId(version)))
    return chain[-1].event.event_type, chain[-1].event.payload_canonical


async def test_a_second_version_supersedes_the_first_at_the_same_instant(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    first, second = [await signed(ours, tenant, given, act) for _ in range(2)]
    await activated(database, tenant, first, act)

    done = await activated(database, tenant, second, act)

    assert done.superseded_passport_version_id == first
    before, now = await found(database, tenant, first), await found(database, tenant, second)
    assert (before.status, now.status) == ("SUPERSEDED", "ACTIVE")
    assert before.superseded_at == now.activated_at == act.at
    assert await current(database, tenant, given) == second
    assert (await last_event(database, tenant, first))[0] == "PASSPORT_SUPERSEDED"
    assert (await last_event(database, tenant, second))[0] == "PASSPORT_ACTIVATED"


async def test_no_version_ends_before_it_began_however_early_the_act(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    first, second = [await signed(ours, tenant, given, act) for _ in range(2)]
    early, late = [Act(None, act.at + timedelta(seconds=by)) for by in (-60, 60)]

    await activated(database, tenant, first, late)
    await activated(database, tenant, second, early)
    await revoked(database, tenant, second, early)

    before, now = await found(database, tenant, first), await found(database, tenant, second)
    assert before.activated_at == before.superseded_at == now.activated_at == now.revoked_at == late.at


async def test_an_older_version_that_is_signed_may_be_activated_later(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    older, newer = [await signed(ours, tenant, given, act) for _ in range(2)]
    await activated(database, tenant, newer, act)

    await activated(database, tenant, older, act)

    assert await current(database, tenant, given) == older


async def test_a_job_that_comes_late_does_not_supersede_what_was_asked_for_later(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    older, newer = [
        await signed(ours, tenant, given, Act(None, act.at + timedelta(seconds=seconds))) for seconds in (0, 1)
    ]
    await activated(database, tenant, newer, act)

    late = await run_activate(ours, tenant, older)

    assert (late.ending, late.error and late.error.code) == (Ending.FAILED, "CONFLICT")
    assert late.error is not None
    assert "nothing was changed" in late.error.message
    assert (await found(database, tenant, older)).status == "SIGNED"
    assert await current(database, tenant, given) == newer


async def test_a_job_supersedes_what_was_asked_for_before_or_at_the_same_moment(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    versions = [await signed(ours, tenant, given, Act(None, act.at + timedelta(seconds=by))) for by in (0, 1, 1)]

    ran = [await run_activate(ours, tenant, version) for version in versions]

    assert [each.ending for each in ran] == [Ending.SUCCEEDED] * 3
    assert await current(database, tenant, given) == versions[2]


async def test_a_job_leaves_a_version_that_counts_or_did(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    first, second = [await signed(ours, tenant, given, act) for _ in range(2)]
    await activated(database, tenant, first, act)
    await activated(database, tenant, second, act)

    ran = [await run_activate(ours, tenant, version) for version in (first, second)]

    assert [each.ending for each in ran] == [Ending.SUCCEEDED] * 2
    assert await current(database, tenant, given) == second


async def test_a_job_that_waited_for_somebody_who_activates_the_same_version_succeeds(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await signed(ours, tenant, given, act)
    async with database.tenant(tenant) as conn:
        await activate(conn, tenant, version, act=act)
        waiting = asyncio.create_task(run_activate(ours, tenant, version))
        assert not (await asyncio.wait([waiting], timeout=0.3))[0]

    assert (await waiting).ending is Ending.SUCCEEDED
    assert (await last_event(database, tenant, version))[0] == "PASSPORT_ACTIVATED"


async def test_only_a_signed_version_with_its_qr_code_can_be_activated(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await compiled(ours, tenant, given, act)

    with pytest.raises(WrongStatus, match="COMPILING"):
        await activated(database, tenant, version, act)
    await run_sign(ours, tenant, version)
    with pytest.raises(WrongStatus, match="QR code"):
        await activated(database, tenant, version, act)
    await run_qr(ours, tenant, version)
    await activated(database, tenant, version, act)

    with pytest.raises(WrongStatus, match="ACTIVE"):
        await activated(database, tenant, version, act)


@pytest.mark.parametrize("status", ["SUPERSEDED", "REVOKED"])
async def test_what_no_longer_counts_never_counts_again(
    database: Database, tenant: TenantId, act: Act, status: str
) -> None:
    await signing_keys(database)
    async with database.tenant(tenant) as conn:
        version = PassportVersionId(await a_passport_version(conn, tenant, status=status, qr_png=b"-"))

    with pytest.raises(WrongStatus, match=status):
        await activated(database, tenant, version, act)


async def test_revoking_the_current_version_leaves_the_passport_without_one(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await signed(ours, tenant, given, act)
    await activated(database, tenant, version, act)

    await revoked(database, tenant, version, act)

    assert (await found(database, tenant, version)).revoked_at == act.at
    assert await current(database, tenant, given) is None
    assert await last_event(database, tenant, version) == (
        "PASSPORT_REVOKED",
        b'{"reason":"the report was withdrawn","was":"ACTIVE"}',
    )


async def test_revoking_another_version_leaves_the_current_one(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    first, second, third = [await signed(ours, tenant, given, act) for _ in range(3)]
    await activated(database, tenant, first, act)
    await activated(database, tenant, second, act)

    await revoked(database, tenant, first, act)
    await revoked(database, tenant, third, act)

    assert await current(database, tenant, given) == second
    assert (await found(database, tenant, second)).status == "ACTIVE"


@pytest.mark.parametrize("status", ["COMPILING", "REVOKED"])
async def test_what_is_not_signed_or_is_revoked_cannot_be_revoked(
    database: Database, tenant: TenantId, act: Act, status: str
) -> None:
    await signing_keys(database)
    async with database.tenant(tenant) as conn:
        version = PassportVersionId(await a_passport_version(conn, tenant, status=status))

    with pytest.raises(WrongStatus, match=status):
        await revoked(database, tenant, version, act)


async def test_a_version_that_was_revoked_before_its_qr_code_gets_none(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await compiled(ours, tenant, given, act)
    await run_sign(ours, tenant, version)
    await revoked(database, tenant, version, act)

    ran = await run_qr(ours, tenant, version)

    assert ran.ending is Ending.SUCCEEDED
    assert not (await found(database, tenant, version)).has_qr


async def test_another_tenants_version_does_not_exist(
    database: Database, ours: Bench, tenant: TenantId, other_tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await signed(ours, tenant, given, act)

    for do in (activated, revoked):
        with pytest.raises(VersionUnknown, match=str(version)):
            await do(database, other_tenant, version, act)


async def test_versions_that_are_activated_at_once_leave_exactly_one_active(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await signing_keys(database)
    for _ in range(10):
        async with database.tenant(tenant) as conn:
            passport = await a_passport(conn, tenant)
            made = [
                PassportVersionId(
                    await a_passport_version(conn, tenant, status="SIGNED", passport=passport, qr_png=b"-")
                )
                for _ in range(4)
            ]

        done = await asyncio.gather(*(activated(database, tenant, version, act) for version in made))

        async with database.tenant(tenant) as conn:
            rows = await conn.fetch("SELECT status::text FROM passport_versions WHERE passport_id = $1", passport)
            [now] = await conn.fetch("SELECT * FROM passports WHERE passport_id = $1", passport)
        assert sorted(row["status"] for row in rows) == ["ACTIVE", "SUPERSEDED", "SUPERSEDED", "SUPERSEDED"]
        superseded = {each.superseded_passport_version_id for each in done}
        assert superseded == {None, *made} - {now["current_passport_version_id"]}


async def test_revoking_and_activating_at_once_never_leave_a_current_version_that_is_not_active(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await signing_keys(database)
    for _ in range(10):
        async with database.tenant(tenant) as conn:
            passport = await a_passport(conn, tenant)
            first, second = [
                PassportVersionId(
                    await a_passport_version(conn, tenant, status="SIGNED", passport=passport, qr_png=b"-")
                )
                for _ in range(2)
            ]
        await activated(database, tenant, first, act)

        await asyncio.gather(revoked(database, tenant, first, act), activated(database, tenant, second, act))

        assert (await found(database, tenant, first)).status == "REVOKED"
        async with database.tenant(tenant) as conn:
            now = await conn.fetchval(
                "SELECT current_passport_version_id FROM passports WHERE passport_id = $1", passport
            )
        assert now == second
