"""Schedules: every moment gets its job exactly once, whoever looks and however often; if late, as the policy says."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.jobs import schedules
from bpc.jobs.context import Context
from bpc.jobs.cron import CatchUp
from bpc.jobs.errors import InvalidInput
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.outcome import Retry
from bpc.jobs.schedules import Schedule, Scheduled, ScheduleNotFound, Submitted, tick
from bpc.jobs.sessions import Sessions
from tests.jobs.fake_clock import Clock, clock

pytestmark = pytest.mark.external
__all__ = ["clock"]

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = Schedule(name="hourly", cron="0 * * * *", type="report", payload='{"of":"all"}', priority=1)


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A session as the chores get it."""
    conn = await sessions.worker("test")
    yield conn
    await conn.close()


async def put(sessions: Sessions, tenant: UUID, schedule: Schedule) -> Scheduled:
    async with sessions.tenant(tenant) as conn:
        return await schedules.put(conn, tenant, schedule)


async def one(sessions: Sessions, tenant: UUID) -> Scheduled:
    async with sessions.tenant(tenant) as conn:
        [found] = await schedules.every(conn, tenant)
        return found


async def keys(sessions: Sessions, tenant: UUID) -> list[str]:
    async with sessions.tenant(tenant) as conn:
        rows = await conn.fetch("SELECT idempotency_key FROM jobs.job WHERE tenant_id = $1 ORDER BY 1", tenant)
        return [row["idempotency_key"] for row in rows]


async def test_a_schedule_is_kept_as_it_was_put_with_its_next_moment(
    sessions: Sessions, tenant: TenantId, clock: Clock
) -> None:
    await clock.stop_at(NOON + MINUTE)

    made = await put(sessions, tenant, HOURLY)

    assert made.schedule == HOURLY
    assert made.next_at == NOON + 60 * MINUTE
    assert made.last_at is None
    assert not made.paused
    assert await one(sessions, tenant) == made


async def test_a_handlers_own_ways_are_those_of_its_scheduled_jobs(handlers: Handlers) -> None:
    @handlers.job("report", retry=Retry(attempts=7), ttl=timedelta(hours=1))
    async def report(ctx: Context, month: int) -> int:
        return month

    made = Schedule.of(report, 11, name="monthly", cron="@monthly")

    assert (made.type, made.payload, made.max_attempts, made.keep_seconds) == ("report", "11", 7, 3600)
    with pytest.raises(InvalidInput, match="a `report` job cannot be made of this input"):
        Schedule.of(cast("Handler[Any, Any]", report), "eleven", name="monthly", cron="@monthly")


async def test_jobs_that_live_in_memory_cannot_be_scheduled(handlers: Handlers) -> None:
    @handlers.job("ping", restartable=False)
    async def ping(ctx: Context, value: None) -> None: ...

    with pytest.raises(InvalidInput, match="live in memory and cannot be scheduled"):
        Schedule.of(ping, None, name="ping", cron="* * * * *")


async def test_putting_it_again_changes_what_comes_next_only_if_its_time_did(
    sessions: Sessions, tenant: TenantId, clock: Clock
) -> None:
    await clock.stop_at(NOON + MINUTE)
    first = await put(sessions, tenant, HOURLY)
    await clock.step(3 * 3600)

    same = await put(sessions, tenant, HOURLY)
    other_work = await put(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="other"))
    other_zone = await put(
        sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="other", time_zone="Asia/Kathmandu")
    )

    assert same == first
    assert other_work.next_at == first.next_at
    assert other_work.schedule.type == "other"
    assert other_zone.next_at == NOON + timedelta(hours=3, minutes=15)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Schedule(name="x", cron="0 0 30 2 *", type="work"), "its day-of-month does not exist"),
        (Schedule(name="x", cron="0 0 */31 * MON#5", type="work"), "never happens: there is no such day"),
        (Schedule(name="x", cron="every day", type="work"), "it has 2 fields, not five"),
        (Schedule(name="x", cron="* * * * *", type="work", time_zone="Mars"), "there is no time zone `Mars`"),
    ],
)
async def test_a_time_that_never_comes_is_refused(
    sessions: Sessions, tenant: TenantId, wrong: Schedule, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        await put(sessions, tenant, wrong)

    assert refused.value.fix


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule(name="", cron="* * * * *", type="work"),
        lambda: Schedule(name="a\0b", cron="* * * * *", type="work"),
        lambda: Schedule(name="x", cron="* * * * *", type="no type"),
        lambda: Schedule(name="x", cron="* * * * *", type="work", payload="{"),
        lambda: Schedule(name="x", cron="* * * * *", type="work", priority=4),
        lambda: Schedule(name="x", cron="* * * * *", type="work", max_attempts=0),
        lambda: Schedule(name="x", cron="* * * * *", type="work", keep_seconds=2**31),
        lambda: Schedule(name="x", cron="* * * * *", type="work", catch_up="none"),  # type: ignore[arg-type]
    ],
)
def test_a_schedule_that_cannot_be_kept_cannot_be_made(make: Callable[[], Schedule]) -> None:
    with pytest.raises(InvalidInput):
        make()


async def test_a_moment_gets_its_job_when_it_has_come_and_only_one(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)

    too_early = await tick(worker)
    await clock.step(60)
    [at_noon] = await tick(worker)
    again = await tick(worker)

    assert too_early == again == []
    assert at_noon == Submitted(tenant=tenant, name="hourly", moment=NOON, job_id=at_noon.job_id)
    job = await worker.fetchrow("SELECT * FROM jobs.job WHERE job_id = $1", at_noon.job_id)
    assert job is not None
    assert job["idempotency_key"] == "schedule:hourly:2026-11-16T12:00:00Z"
    assert (job["type"], job["payload"], job["priority"]) == ("report", '{"of":"all"}', 1)
    assert await worker.fetchval("SELECT job_id FROM jobs.job_ready") == at_noon.job_id
    kept = await one(sessions, tenant)
    assert (kept.last_at, kept.next_at) == (NOON, NOON + 60 * MINUTE)


async def test_schedules_of_all_tenants_are_seen_and_their_jobs_are_their_own(
    sessions: Sessions,
    tenant: TenantId,
    other_tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)
    await put(sessions, other_tenant, HOURLY)
    await clock.step(60)

    submitted = await tick(worker)

    assert {found.tenant for found in submitted} == {tenant, other_tenant}
    assert len(await keys(sessions, tenant)) == len(await keys(sessions, other_tenant)) == 1


async def test_many_who_tick_at_once_submit_each_moment_exactly_once(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, clock: Clock
) -> None:
    await clock.stop_at(NOON - timedelta(seconds=1))
    for n in range(5):
        await put(sessions, tenant, Schedule(name=f"s{n}", cron="* * * * *", type="work", catch_up=CatchUp.ALL))
        await put(sessions, other_tenant, Schedule(name=f"s{n}", cron="*/2 * * * *", type="work"))
    workers = [await sessions.worker(f"test {n}") for n in range(10)]
    submitted: list[Submitted] = []

    for _ in range(5):
        await clock.step(61)
        for some in await asyncio.gather(*(tick(conn) for conn in workers)):
            submitted += some

    for conn in workers:
        await conn.close()
    assert set(Counter((found.tenant, found.name, found.moment) for found in submitted).values()) == {1}
    assert len({found.job_id for found in submitted}) == len(submitted) == 5 * 6 + 5 * 3
    assert len(await keys(sessions, tenant)) == 5 * 6
    assert len(await keys(sessions, other_tenant)) == 5 * 3


async def test_a_crash_before_the_commit_loses_nothing_and_doubles_nothing(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)
    await clock.step(60)
    crashing = await sessions.worker("crashes")

    submit = schedules._submit

    async def submit_and_die(*arguments: Any) -> None:
        await submit(*arguments)
        crashing.terminate()
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(schedules, "_submit", submit_and_die)
        with pytest.raises((asyncpg.InterfaceError, ConnectionResetError)):
            await tick(crashing)
    left_over = await keys(sessions, tenant)
    after = await tick(worker)

    assert left_over == []
    assert [found.moment for found in after] == [NOON]


async def test_a_schedule_that_cannot_be_submitted_does_not_hold_up_the_others_and_is_tried_again(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    superuser: "asyncpg.Connection[asyncpg.Record]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, Schedule(name="bad", cron="0 * * * *", type="bad"))
    await put(sessions, tenant, Schedule(name="good", cron="0 * * * *", type="good"))
    await superuser.execute("ALTER TABLE jobs.job ADD CONSTRAINT no_bad CHECK (type <> 'bad')")
    await clock.step(60)

    first = await tick(worker)
    await superuser.execute("ALTER TABLE jobs.job DROP CONSTRAINT no_bad")
    second = await tick(worker)

    assert [found.name for found in first] == ["good"]
    assert [record.__dict__["schedule"] for record in caplog.records] == ["bad"]
    assert [(found.name, found.moment) for found in second] == [("bad", NOON)]


@pytest.mark.parametrize("column", ["time_zone", "cron"])
async def test_a_schedule_that_cannot_be_read_any_more_is_paused_and_can_still_be_seen(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    caplog: pytest.LogCaptureFixture,
    column: str,
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)
    await worker.execute(f"UPDATE jobs.schedule SET {column} = 'Atlantis'")
    await clock.step(60)

    submitted = await tick(worker)

    assert submitted == []
    assert (await one(sessions, tenant)).paused
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Atlantis" in caplog.text


async def test_a_schedule_that_never_happens_again_is_paused_after_its_last_job(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)
    await worker.execute("UPDATE jobs.schedule SET cron = '0 0 */31 * MON#5'")
    await clock.step(60)

    submitted = await tick(worker)

    assert [found.moment for found in submitted] == [NOON]
    kept = await one(sessions, tenant)
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
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    policy: CatchUp,
    moments: list[datetime],
) -> None:
    await clock.stop_at(NOON - timedelta(seconds=1))
    await put(sessions, tenant, Schedule(name="every minute", cron="* * * * *", type="work", catch_up=policy))
    await clock.stop_at(NOON + 30 * MINUTE + timedelta(seconds=5))

    submitted = await tick(worker)

    assert [found.moment for found in submitted] == moments
    assert await tick(worker) == []
    assert (await one(sessions, tenant)).next_at == NOON + 31 * MINUTE


async def test_moments_that_are_skipped_leave_no_trace_but_the_next_one(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="work", catch_up=CatchUp.SKIP))
    await clock.stop_at(NOON + 5 * MINUTE)

    submitted = await tick(worker)

    assert submitted == []
    kept = await one(sessions, tenant)
    assert (kept.last_at, kept.next_at) == (None, NOON + 60 * MINUTE)


async def test_a_long_outage_is_made_up_for_a_thousand_jobs_at_a_time(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON)
    await put(sessions, tenant, Schedule(name="busy", cron="* * * * *", type="work", catch_up=CatchUp.ALL))
    await clock.step(2_200 * 60)

    counts = [len(await tick(worker)) for _ in range(4)]

    assert counts == [1_000, 1_000, 200, 0]
    assert len(set(await keys(sessions, tenant))) == 2_200


async def test_a_paused_schedule_submits_nothing_and_makes_up_for_nothing_when_it_is_resumed(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="work", catch_up=CatchUp.ALL))

    async with sessions.tenant(tenant) as conn:
        await schedules.pause(conn, tenant, "hourly")
    await clock.stop_at(NOON + 200 * MINUTE)
    while_paused = await tick(worker)
    async with sessions.tenant(tenant) as conn:
        await schedules.resume(conn, tenant, "hourly")
    resumed = await tick(worker)

    assert while_paused == resumed == []
    kept = await one(sessions, tenant)
    assert not kept.paused
    assert kept.next_at == NOON + 240 * MINUTE


async def test_resuming_what_is_not_paused_changes_nothing(sessions: Sessions, tenant: TenantId, clock: Clock) -> None:
    await clock.stop_at(NOON - MINUTE)
    made = await put(sessions, tenant, HOURLY)
    await clock.stop_at(NOON + MINUTE)

    async with sessions.tenant(tenant) as conn:
        await schedules.resume(conn, tenant, "hourly")

    assert await one(sessions, tenant) == made


async def test_a_removed_schedule_is_gone_and_its_jobs_stay(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put(sessions, tenant, HOURLY)
    await clock.step(60)
    await tick(worker)

    async with sessions.tenant(tenant) as conn:
        await schedules.remove(conn, tenant, "hourly")

        assert await schedules.every(conn, tenant) == []
    assert len(await keys(sessions, tenant)) == 1


@pytest.mark.parametrize("change", [schedules.remove, schedules.pause, schedules.resume])
async def test_another_tenants_schedule_does_not_exist(
    sessions: Sessions,
    tenant: TenantId,
    other_tenant: TenantId,
    change: "Callable[..., asyncio.Future[None]]",
) -> None:
    await put(sessions, tenant, HOURLY)

    async with sessions.tenant(other_tenant) as conn:
        assert await schedules.every(conn, other_tenant) == []
        with pytest.raises(ScheduleNotFound, match="there is no schedule `hourly`"):
            await change(conn, other_tenant, "hourly")


async def test_looking_for_what_is_due_uses_the_index(worker: "asyncpg.Connection[asyncpg.Record]") -> None:
    await worker.execute(f"PREPARE asked (int) AS {schedules.FIND_DUE}")

    plan = await worker.fetch("EXPLAIN EXECUTE asked (100)")

    assert any("Index Scan using schedule_due" in row[0] for row in plan)
    assert any("Index Cond: (next_at <=" in row[0] for row in plan)
