"""Schedules: how they are kept, paused, resumed and removed."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import asyncpg
import pytest
from service_jobs import schedules
from service_jobs.context import Context
from service_jobs.cron import CatchUp
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import InvalidInput, Retry
from service_jobs.schedules import Schedule, ScheduleNotFound, submit_due_jobs
from tests.jobs.schedules.schedule_scenario import HOURLY, MINUTE, NOON, get_only_schedule, list_keys, put_schedule
from tests.jobs.support.database_clock import DatabaseClock

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def test_a_schedule_is_kept_as_it_was_put_with_its_next_moment(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock
) -> None:
    await clock.stop_at(NOON + MINUTE)

    stored = await put_schedule(sessions, tenant, HOURLY)

    assert stored.schedule == HOURLY
    assert stored.next_at == NOON + 60 * MINUTE
    assert stored.last_at is None
    assert not stored.paused
    assert await get_only_schedule(sessions, tenant) == stored


async def test_a_handlers_own_ways_are_those_of_its_scheduled_jobs(handlers: Handlers) -> None:
    @handlers.job("report", retry=Retry(attempts=7), ttl=timedelta(hours=1))
    async def report(ctx: Context, month: int) -> int:
        return month

    schedule = Schedule.from_input(report, 11, name="monthly", cron="@monthly")

    assert (schedule.type, schedule.payload, schedule.max_attempts, schedule.keep_seconds) == ("report", "11", 7, 3600)
    with pytest.raises(InvalidInput, match="this input is not valid for a `report` job"):
        Schedule.from_input(cast("Handler[Any, Any]", report), "eleven", name="monthly", cron="@monthly")


async def test_jobs_that_live_in_memory_cannot_be_scheduled(handlers: Handlers) -> None:
    @handlers.job("ping", restartable=False)
    async def ping(ctx: Context, value: None) -> None: ...

    with pytest.raises(InvalidInput, match="live in memory and cannot be scheduled"):
        Schedule.from_input(ping, None, name="ping", cron="* * * * *")


async def test_putting_it_again_changes_what_comes_next_only_if_its_time_did(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock
) -> None:
    await clock.stop_at(NOON + MINUTE)
    first = await put_schedule(sessions, tenant, HOURLY)
    await clock.step(3 * 3600)

    same = await put_schedule(sessions, tenant, HOURLY)
    other_work = await put_schedule(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="other"))
    other_zone = await put_schedule(
        sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="other", time_zone="Asia/Kathmandu")
    )

    assert same == first
    assert other_work.next_at == first.next_at
    assert other_work.schedule.type == "other"
    assert other_zone.next_at == NOON + timedelta(hours=3, minutes=15)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Schedule(name="x", cron="0 0 30 2 *", type="work"), "day-of-month is not valid"),
        (Schedule(name="x", cron="0 0 */31 * MON#5", type="work"), "never matches: no such day"),
        (Schedule(name="x", cron="every day", type="work"), "it has 2 fields instead of 5"),
        (Schedule(name="x", cron="* * * * *", type="work", time_zone="Mars"), "there is no time zone `Mars`"),
    ],
)
async def test_a_time_that_never_comes_is_refused(
    sessions: Sessions, tenant: TenantId, wrong: Schedule, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        await put_schedule(sessions, tenant, wrong)

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


async def test_a_paused_schedule_submits_nothing_and_makes_up_for_nothing_when_it_is_resumed(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, Schedule(name="hourly", cron="0 * * * *", type="work", catch_up=CatchUp.ALL))

    async with sessions.tenant(tenant) as conn:
        await schedules.pause_schedule(conn, tenant, "hourly")
    await clock.stop_at(NOON + 200 * MINUTE)
    while_paused = await submit_due_jobs(worker)
    async with sessions.tenant(tenant) as conn:
        await schedules.resume_schedule(conn, tenant, "hourly")
    resumed = await submit_due_jobs(worker)

    assert while_paused == resumed == []
    kept = await get_only_schedule(sessions, tenant)
    assert not kept.paused
    assert kept.next_at == NOON + 240 * MINUTE


async def test_resuming_what_is_not_paused_changes_nothing(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock
) -> None:
    await clock.stop_at(NOON - MINUTE)
    stored = await put_schedule(sessions, tenant, HOURLY)
    await clock.stop_at(NOON + MINUTE)

    async with sessions.tenant(tenant) as conn:
        await schedules.resume_schedule(conn, tenant, "hourly")

    assert await get_only_schedule(sessions, tenant) == stored


async def test_a_removed_schedule_is_gone_and_its_jobs_stay(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON - MINUTE)
    await put_schedule(sessions, tenant, HOURLY)
    await clock.step(60)
    await submit_due_jobs(worker)

    async with sessions.tenant(tenant) as conn:
        await schedules.remove_schedule(conn, tenant, "hourly")

        assert await schedules.list_schedules(conn, tenant) == []
    assert len(await list_keys(sessions, tenant)) == 1


@pytest.mark.parametrize("change", [schedules.remove_schedule, schedules.pause_schedule, schedules.resume_schedule])
async def test_another_tenants_schedule_does_not_exist(
    sessions: Sessions,
    tenant: TenantId,
    other_tenant: TenantId,
    change: "Callable[..., asyncio.Future[None]]",
) -> None:
    await put_schedule(sessions, tenant, HOURLY)

    async with sessions.tenant(other_tenant) as conn:
        assert await schedules.list_schedules(conn, other_tenant) == []
        with pytest.raises(ScheduleNotFound, match="there is no schedule `hourly`"):
            await change(conn, other_tenant, "hourly")
