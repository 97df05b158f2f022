"""What a worker writes down with what: effects, follow-ups, steps and the end of a job in one transaction."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handlers, Rejection
from service_jobs.job import JobError, Retry
from service_jobs.service import Jobs
from service_jobs.steps import register_steps
from service_jobs.worker import WorkerOptions
from tests.jobs.support.job_columns import SOON, fetch_column
from tests.jobs.support.run_workers import (
    get_status,
    run_worker,
    wait_until,
    wait_until_all_over,
    wait_until_status,
)

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def test_effects_follow_ups_and_completion_are_one_transaction(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, create_effects_table: str
) -> None:
    @handlers.job("second")
    async def second(ctx: Context, n: int) -> int:
        return n

    @handlers.job("first", retry=SOON)
    async def first(ctx: Context, n: int) -> int:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, ctx.attempt)
        ctx.submit(second, n, key=f"after-{ctx.job_id}")
        if ctx.attempt < 3:
            raise OSError("not yet")
        return n

    job_id = await jobs.submit(first, 7, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")
        await wait_until_all_over(jobs, tenant)

    async with jobs.sessions.tenant(tenant) as conn:
        assert [tuple(row) for row in await conn.fetch("SELECT * FROM effects")] == [(job_id, 3)]
        assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'second'") == 1


async def test_a_refusal_commits_what_was_written_and_fails_the_job(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, create_effects_table: str
) -> None:
    @handlers.job("strict")
    async def strict(ctx: Context, n: int) -> int | Rejection:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, ctx.attempt)
        return Rejection(JobError(code="VALIDATION_ERROR", message="no"))

    job_id = await jobs.submit(strict, 1, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "FAILED")

    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM effects") == 1


async def test_a_job_of_several_steps_resumes_behind_the_last_finished_one(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    ran: list[str] = []

    async def one(ctx: Context, n: int) -> str:
        ran.append("one")
        return str(n)

    async def two(ctx: Context, text: str) -> str:
        ran.append("two")
        if ctx.attempt == 1:
            raise OSError("again")
        return text * 2

    several = register_steps(handlers, "steps", one, two, retry=SOON)
    job_id = await jobs.submit(several, 4, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")

    assert ran == ["one", "two", "two"]
    assert await fetch_column(jobs, tenant, job_id, "result") == '"44"'


async def test_an_open_transaction_of_one_tenant_does_not_hold_up_the_others(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, other_tenant: TenantId
) -> None:
    go = asyncio.Event()

    @handlers.job("held")
    async def held(ctx: Context, n: int) -> int:
        await go.wait()
        return n

    @handlers.job("other")
    async def other(ctx: Context, n: int) -> int:
        return n

    first = await jobs.submit(held, 1, tenant=tenant)
    async with run_worker(jobs), jobs.sessions.tenant(tenant) as conn:
        await wait_until_status(jobs, tenant, first, "RUNNING")
        await jobs.submit(other, 1, tenant=tenant, conn=conn, depends_on=[first])  # locks the job it depends on
        go.set()
        await asyncio.sleep(0.2)
        theirs = await jobs.submit(other, 2, tenant=other_tenant)
        await wait_until_status(jobs, other_tenant, theirs, "SUCCEEDED", seconds=60)
        assert await get_status(jobs, tenant, first) == "RUNNING"

    async with run_worker(jobs):
        await wait_until_all_over(jobs, tenant)
    assert await get_status(jobs, tenant, first) == "SUCCEEDED"


async def test_handlers_with_open_transactions_leave_connections_for_their_progress(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    @handlers.job("open")
    async def opened(ctx: Context, n: int) -> int:
        await ctx.transaction()
        await asyncio.sleep(0.05)
        await ctx.report_progress(50)
        return n

    jobs = Jobs(handlers, sessions)
    await jobs.submit_many(opened, range(30), tenant=tenant)
    async with run_worker(jobs, WorkerOptions(concurrency=30)):
        await wait_until_all_over(jobs, tenant, seconds=60)

    async with sessions.tenant(tenant) as conn:
        rows = await conn.fetch("SELECT status, attempts FROM jobs.job WHERE tenant_id = $1", tenant)
    assert {tuple(row) for row in rows} == {("SUCCEEDED", 1)}


class RecordingTrigger:
    """A trigger that remembers what it rang for."""

    def __init__(self) -> None:
        self.ids: list[UUID] = []

    def publish(self, job_ids: Sequence[UUID]) -> None:
        self.ids += job_ids


async def test_the_bell_rings_for_what_follows_when_it_is_committed(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    trigger, followed = RecordingTrigger(), list[UUID]()
    jobs = Jobs(handlers, sessions, trigger=trigger)

    @handlers.job("note")
    async def note(ctx: Context, n: int) -> None:
        pass

    async def step(ctx: Context, n: int) -> int:
        followed.append(ctx.submit(note, n))
        return n

    async def last(ctx: Context, n: int) -> int:
        followed.append(ctx.submit(note, n))
        return n

    @handlers.job("failing", retry=Retry(attempts=1))
    async def failing(ctx: Context, n: int) -> None:
        ctx.submit(note, n)  # which is rolled back
        raise ValueError("no")

    two = register_steps(handlers, "two", step, last)
    submitted = [await jobs.submit(two, 1, tenant=tenant), await jobs.submit(failing, 1, tenant=tenant)]
    async with run_worker(jobs):
        await wait_until(lambda: len(trigger.ids) >= 4)
        await wait_until_all_over(jobs, tenant)

    assert sorted(trigger.ids) == sorted(submitted + followed)


async def test_what_a_failed_execution_wished_for_in_memory_does_not_follow(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    noted: list[int] = []

    @handlers.job("note", restartable=False)
    async def note(ctx: Context, n: int) -> None:
        noted.append(n)

    @handlers.job("second-time-lucky", retry=SOON)
    async def lucky(ctx: Context, n: int) -> None:
        ctx.submit(note, ctx.attempt)
        if ctx.attempt == 1:
            raise OSError("once")

    job_id = await jobs.submit(lucky, 1, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")
        await wait_until(lambda: 2 in noted)

    assert noted == [2]


async def test_a_step_that_writes_ends_in_the_transaction_it_wrote_in(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, create_effects_table: str
) -> None:
    noted: list[int] = []

    @handlers.job("note")
    async def note(ctx: Context, n: int) -> None:
        noted.append(n)

    async def write(ctx: Context, n: int) -> int:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, ctx.attempt)
        ctx.submit(note, n)
        return n

    async def fail_once(ctx: Context, n: int) -> int:
        if ctx.attempt == 1:
            raise OSError("once")
        return n

    two = register_steps(handlers, "two", write, fail_once, retry=SOON)
    job_id = await jobs.submit(two, 5, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")
        await wait_until_all_over(jobs, tenant)

    assert noted == [5]
    async with jobs.sessions.tenant(tenant) as conn:
        assert [tuple(row) for row in await conn.fetch("SELECT * FROM effects")] == [(job_id, 1)]
