"""Schedules: every moment gets its job exactly once, whoever looks and however often; if late, as the policy says."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from service_jobs import schedules
from service_jobs.cron import CatchUp
from service_jobs.database import Sessions
from service_jobs.schedules import Schedule, ScheduledJob, submit_due_jobs
from tests.jobs.schedules.schedule_scenario import HOURLY, MINUTE, NOON, get_only_schedule, list_keys, put_schedule
from tests.jobs.support.database_clock import DatabaseClock
from tests.jobs.support.engine_logs import list_engine_logs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def test_a_moment_gets_its_job_when_it_has_come_and_only_one(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)

    too_early = await submit_due_jobs(worker)
    await clock.step(60)
    [at_noon] = await submit_due_jobs(worker)
    again = await submit_due_jobs(worker)

    assert too_early == again == []
    assert at_noon == ScheduledJob(tenant=tenant, name="hourly", moment=NOON, job_id=at_noon.job_id)
    job = await worker.fetchrow("SELECT * FROM jobs.job WHERE job_id = $1", at_noon.job_id)
    assert job is not None
    assert job["idempotency_key"] == "schedule:hourly:2026-11-16T12:00:00Z"
    assert (job["type"], job["payload"], job["priority"]) == ("report", '{"of":"all"}', 1)
    assert await worker.fetchval("SELECT job_id FROM jobs.job_ready") == at_noon.job_id
    kept = await get_only_schedule(sessions, tenant)
    assert (kept.last_at, kept.next_at) == (NOON, NOON + 60 * MINUTE)


async def test_schedules_of_all_tenants_are_seen_and_their_jobs_are_their_own(
    sessions: Sessions,
    tenant: TenantId,
    other_tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)
    await put_schedule(sessions, other_tenant, HOURLY)
    await clock.step(60)

    submitted = await submit_due_jobs(worker)

    assert {scheduled_job.tenant for scheduled_job in submitted} == {tenant, other_tenant}
    assert len(await list_keys(sessions, tenant)) == len(await list_keys(sessions, other_tenant)) == 1


async def test_many_who_tick_at_once_submit_each_moment_exactly_once(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, clock: DatabaseClock
) -> None:
    await clock.stop_at(NOON - timedelta(seconds=1))
    for n in range(5):
        await put_schedule(
            sessions, tenant, Schedule(name=f"s{n}", cron="* * * * *", type="work", catch_up=CatchUp.ALL)
        )
        await put_schedule(sessions, other_tenant, Schedule(name=f"s{n}", cron="*/2 * * * *", type="work"))
    workers = [await sessions.connect_worker(f"test {n}") for n in range(10)]
    submitted: list[ScheduledJob] = []

    for _ in range(5):
        await clock.step(61)
        for some in await asyncio.gather(*(submit_due_jobs(conn) for conn in workers)):
            submitted += some

    for conn in workers:
        await conn.close()
    assert set(
        Counter(
            (scheduled_job.tenant, scheduled_job.name, scheduled_job.moment) for scheduled_job in submitted
        ).values()
    ) == {1}
    assert len({scheduled_job.job_id for scheduled_job in submitted}) == len(submitted) == 5 * 6 + 5 * 3
    assert len(await list_keys(sessions, tenant)) == 5 * 6
    assert len(await list_keys(sessions, other_tenant)) == 5 * 3


async def test_a_crash_before_the_commit_loses_nothing_and_doubles_nothing(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)
    await clock.step(60)
    crashing = await sessions.connect_worker("crashes")
    pid = crashing.get_server_pid()

    submit = schedules._submit_moments

    async def submit_and_die(*arguments: Any) -> None:
        await submit(*arguments)
        crashing.terminate()
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(schedules, "_submit_moments", submit_and_die)
        with pytest.raises((asyncpg.InterfaceError, ConnectionResetError)):
            await submit_due_jobs(crashing)
    async with asyncio.timeout(60):
        while await worker.fetchval("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid):
            await asyncio.sleep(0.01)  # the server may not have noticed yet, and holds the lock meanwhile
    left_over = await list_keys(sessions, tenant)
    after = await submit_due_jobs(worker)

    assert left_over == []
    assert [scheduled_job.moment for scheduled_job in after] == [NOON]


async def test_a_schedule_that_cannot_be_submitted_does_not_hold_up_the_others_and_is_tried_again(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    superuser: "asyncpg.Connection[asyncpg.Record]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, Schedule(name="bad", cron="0 * * * *", type="bad"))
    await put_schedule(sessions, tenant, Schedule(name="good", cron="0 * * * *", type="good"))
    await superuser.execute("ALTER TABLE jobs.job ADD CONSTRAINT no_bad CHECK (type <> 'bad')")
    await clock.step(60)

    first = await submit_due_jobs(worker)
    await superuser.execute("ALTER TABLE jobs.job DROP CONSTRAINT no_bad")
    second = await submit_due_jobs(worker)

    assert [scheduled_job.name for scheduled_job in first] == ["good"]
    assert [record.__dict__["schedule"] for record in list_engine_logs(caplog)] == ["bad"]
    assert [(scheduled_job.name, scheduled_job.moment) for scheduled_job in second] == [("bad", NOON)]


@pytest.mark.parametrize("column", ["time_zone", "cron"])
async def test_a_schedule_that_cannot_be_read_any_more_is_paused_and_can_still_be_seen(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    caplog: pytest.LogCaptureFixture,
    column: str,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)
    await worker.execute(f"UPDATE jobs.schedule SET {column} = 'Atlantis'")
    await clock.step(60)

    submitted = await submit_due_jobs(worker)

    assert submitted == []
    assert (await get_only_schedule(sessions, tenant)).paused
    assert [record.levelname for record in list_engine_logs(caplog)] == ["ERROR"]
    assert "Atlantis" in caplog.text


async def test_a_schedule_that_never_happens_again_is_paused_after_its_last_job(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)
    await worker.execute("UPDATE jobs.schedule SET cron = '0 0 */31 * MON#5'")
    await clock.step(60)

    submitted = await submit_due_jobs(worker)

    assert [scheduled_job.moment for scheduled_job in submitted] == [NOON]
    kept = await get_only_schedule(sessions, tenant)
    assert kept.paused
    assert kept.last_at == NOON


@pytest.mark.parametrize(
    ("policy", "moments"),
    [
        (CatchUp.SKIP, [NOON + 30 * MINUTE]),
        (CatchUp.ONE, [NOON]),
        (CatchUp.ALL, [NOON + n * MINUTE for n in range(31)]),
    ],
)
async def test_after_an_outage_the_policy_says_which_moments_get_a_job(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    policy: CatchUp,
    moments: list[datetime],
) -> None:
    await clock.stop_at(NOON - timedelta(seconds=1))
    await put_schedule(sessions, tenant, Schedule(name="every minute", cron="* * * * *", type="work", catch_up=policy))
    await clock.stop_at(NOON + 30 * MINUTE + timedelta(seconds=5))

    submitted = await submit_due_jobs(worker)

    assert [scheduled_job.moment for scheduled_job in submitted] == moments
    assert await submit_due_jobs(worker) == []
    assert (await get_only_schedule(sessions, tenant)).next_at == NOON + 31 * MINUTE


async def test_moments_that_are_skipped_leave_no_trace_but_the_next_one(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="work", catch_up=CatchUp.SKIP))
    await clock.stop_at(NOON + 5 * MINUTE)

    submitted = await submit_due_jobs(worker)

    assert submitted == []
    kept = await get_only_schedule(sessions, tenant)
    assert (kept.last_at, kept.next_at) == (None, NOON + 60 * MINUTE)


async def test_a_long_outage_is_made_up_for_a_thousand_jobs_at_a_time(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON)
    await put_schedule(sessions, tenant, Schedule(name="busy", cron="* * * * *", type="work", catch_up=CatchUp.ALL))
    await clock.step(2_200 * 60)

    counts = [len(await submit_due_jobs(worker)) for _ in range(4)]

    assert counts == [1_000, 1_000, 200, 0]
    assert len(set(await list_keys(sessions, tenant))) == 2_200


async def test_looking_for_what_is_due_uses_the_index(worker: "asyncpg.Connection[asyncpg.Record]") -> None:
    await worker.execute(f"PREPARE asked (int) AS {schedules.SELECT_DUE}")

    plan = await worker.fetch("EXPLAIN EXECUTE asked (100)")

    assert any("Index Scan using schedule_due" in row[0] for row in plan)
    assert any("Index Cond: (next_at <=" in row[0] for row in plan)
