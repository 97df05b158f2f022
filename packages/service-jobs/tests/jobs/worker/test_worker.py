"""A worker runs jobs on PostgreSQL: what it claims, how it stops, and that a live one is not taken for dead."""

import asyncio
import time
from dataclasses import replace
from functools import partial
from uuid import UUID

import asyncpg
import pytest
from service_jobs.context import Context
from service_jobs.database import EngineNotInstalled, Sessions
from service_jobs.handler import Handlers
from service_jobs.job import LeaseLost, Retry
from service_jobs.job_spec import Limit
from service_jobs.processes import ProcessPool
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions
from tests.jobs.processes.child_functions import hold_the_interpreter_lock
from tests.jobs.support.job_columns import fetch_column
from tests.jobs.support.run_workers import (
    QUICK_OPTIONS,
    get_status,
    run_worker,
    run_workers,
    wait_until,
    wait_until_all_over,
    wait_until_status,
)

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import connect
from tests.measurements import choose_effort

pytestmark = pytest.mark.external


async def test_a_job_is_run_and_its_result_kept(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    @handlers.job("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    job_id = await jobs.submit(greet, "world", tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")

    assert await fetch_column(jobs, tenant, job_id, "result") == '"hello world"'


async def test_an_execution_that_lost_its_lease_leaves_no_trace(
    jobs: Jobs,
    handlers: Handlers,
    tenant: TenantId,
    create_effects_table: str,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    refused: list[int] = []

    @handlers.job("stubborn")
    async def stubborn(ctx: Context, n: int) -> int:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, ctx.attempt)
        if ctx.attempt == 1:
            await superuser.execute("UPDATE jobs.job_lease SET attempt = 2, owner = 'somebody else'")
            try:
                await ctx.report_progress(10, "late")
            except LeaseLost:
                refused.append(ctx.attempt)
        return n

    job_id = await jobs.submit(stubborn, 1, tenant=tenant)
    async with run_worker(jobs):
        await wait_until(lambda: bool(refused))
        await asyncio.sleep(0.1)

        assert await get_status(jobs, tenant, job_id) == "RUNNING"
    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM effects") == 0


async def test_ten_workers_run_a_hundred_jobs_once_each(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    ran: list[int] = []

    @handlers.job("count")
    async def count(ctx: Context, n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0.005)

    await jobs.submit_many(count, range(100), tenant=tenant)
    async with run_workers(jobs, 10):
        await wait_until_all_over(jobs, tenant)

    assert sorted(ran) == list(range(100))


async def test_a_type_nobody_knows_stays_queued_and_does_not_block_the_others(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("known")
    async def known(ctx: Context, n: int) -> int:
        return n

    strange = await jobs.submit_many(known, range(200), tenant=tenant)
    await superuser.execute("UPDATE jobs.job SET type = 'strange'; UPDATE jobs.job_ready SET type = 'strange'")
    mine = await jobs.submit(known, 1, tenant=tenant)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, mine, "SUCCEEDED")

    assert await get_status(jobs, tenant, strange[0]) == "QUEUED"


async def test_an_idle_worker_finds_a_job_that_nobody_announced(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("known")
    async def known(ctx: Context, n: int) -> int:
        return n

    job_id = await jobs.submit(known, 1, tenant=tenant)
    await superuser.execute("UPDATE jobs.job SET type = 'strange'; UPDATE jobs.job_ready SET type = 'strange'")
    async with run_worker(jobs, replace(QUICK_OPTIONS, poll=0.2)):
        await wait_until_status(jobs, tenant, await jobs.submit(known, 2, tenant=tenant), "SUCCEEDED")
        await asyncio.sleep(0.3)  # now it looks only as often as it was told
        await superuser.execute("UPDATE jobs.job SET type = 'known'; UPDATE jobs.job_ready SET type = 'known'")
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=5)


async def test_a_stopping_worker_finishes_what_runs_and_gives_back_the_rest(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    started: list[int] = []
    go = asyncio.Event()

    @handlers.job("slow")
    async def slow(ctx: Context, n: int) -> int:
        started.append(n)
        await go.wait()
        return n

    ids = await jobs.submit_many(slow, range(6), tenant=tenant)
    async with run_worker(jobs, WorkerOptions(concurrency=2, stop_grace=10)) as worker:
        await wait_until(lambda: len(started) == 2)
        worker.stop()
        go.set()
        await wait_until_status(jobs, tenant, ids[1], "SUCCEEDED")

    assert started == [0, 1]
    assert [await get_status(jobs, tenant, one) for one in ids] == ["SUCCEEDED"] * 2 + ["QUEUED"] * 4


async def test_what_does_not_finish_in_the_grace_period_is_released_and_does_not_count(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    started = asyncio.Event()

    @handlers.job("endless")
    async def endless(ctx: Context, n: int) -> int:
        started.set()
        await asyncio.Event().wait()
        return n

    job_id = await jobs.submit(endless, 1, tenant=tenant)
    async with run_worker(jobs, WorkerOptions(stop_grace=0.1, cancel_grace=1.0)):
        await asyncio.wait_for(started.wait(), 60)

    job = await jobs.get_job(tenant, job_id)
    assert (job.status, job.attempts) == ("QUEUED", 0)


async def test_a_handler_that_ignores_its_timeout_is_left_behind(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    @handlers.job("deaf", timeout=0.1, retry=Retry(attempts=1))
    async def deaf(ctx: Context, n: int) -> int:
        until_late = time.monotonic() + 1.5
        while time.monotonic() < until_late:
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                continue
        return n

    job_id = await jobs.submit(deaf, 1, tenant=tenant)
    async with run_worker(jobs, WorkerOptions(concurrency=1, cancel_grace=0.2)):
        await wait_until_status(jobs, tenant, job_id, "DEAD_LETTER")

    assert '"JOB_TIMEOUT"' in str(await fetch_column(jobs, tenant, job_id, "last_error"))


async def test_a_computation_in_a_child_process_gives_its_result(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    @handlers.job("power")
    async def power(ctx: Context, n: int) -> int:
        return await ctx.compute(pow, n, 10)

    processes = ProcessPool(1)
    jobs = Jobs(handlers, sessions, processes=processes)
    job_id = await jobs.submit(power, 2, tenant=tenant)
    try:
        async with run_worker(jobs):
            await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)
    finally:
        await processes.close()

    assert await fetch_column(jobs, tenant, job_id, "result") == "1024"


async def test_a_busy_loop_longer_than_three_leases_is_not_taken_for_dead(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    ran: list[int] = []

    @handlers.job("busy")
    async def busy(ctx: Context, n: int) -> int:
        ran.append(ctx.attempt)
        until_late = time.monotonic() + 3.2
        while time.monotonic() < until_late:
            pass
        return n

    job_id = await jobs.submit(busy, 1, tenant=tenant)
    options = WorkerOptions(lease=1.0, renew=0.3, heartbeat=0.2)
    async with run_workers(jobs, 2, options):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)

    assert ran == [1]


async def test_a_claim_whose_answer_was_lost_is_released(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("orphan")
    async def orphan(ctx: Context, n: int) -> int:
        return n

    job_id = await jobs.submit(orphan, 1, tenant=tenant)
    async with run_worker(jobs, QUICK_OPTIONS) as worker:
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED")
        strange = await jobs.submit(orphan, 2, tenant=tenant, delay=3600)
        await superuser.execute("DELETE FROM jobs.job_later")
        await superuser.execute(
            "INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at,"
            " lease_until) VALUES ($1, $2, 'orphan', $3, 1, 2, '', now() - interval '6 s', now() + interval '60 s')",
            tenant,
            strange,
            worker.owner,
        )
        await wait_until_status(jobs, tenant, strange, "SUCCEEDED")

    assert (await jobs.get_job(tenant, strange)).attempts == 1


async def test_a_session_that_is_cut_is_opened_again_and_nothing_is_lost(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("steady")
    async def steady(ctx: Context, n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    await jobs.submit_many(steady, range(100), tenant=tenant)
    async with run_worker(jobs, QUICK_OPTIONS):
        for _ in range(5):
            await asyncio.sleep(0.05)
            await superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name IN ('bpc jobs claims', 'bpc jobs lanes')"
            )
        await wait_until_all_over(jobs, tenant, seconds=60)

    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE status = 'SUCCEEDED'") == 100


async def test_jobs_of_the_first_tenant_go_first(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    system = UUID("00000000-0000-4000-8000-000000000001")
    ran: list[UUID] = []

    @handlers.job("turn")
    async def turn(ctx: Context, n: int) -> None:
        ran.append(ctx.tenant)

    await jobs.submit_many(turn, range(20), tenant=tenant)
    await jobs.submit_many(turn, range(3), tenant=system)
    async with run_worker(jobs, WorkerOptions(concurrency=1, first_tenant=system)):
        await wait_until_all_over(jobs, tenant)

    assert ran.index(system) <= 6


async def test_under_load_hardly_any_submission_pays_for_a_notification(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    heard: list[str] = []
    await superuser.add_listener("jobs", lambda *said: heard.append(str(said[3])))

    @handlers.job("often")
    async def often(ctx: Context, n: int) -> None: ...

    async with run_worker(jobs, QUICK_OPTIONS), jobs.sessions.acquire() as conn:
        await asyncio.sleep(0.3)
        for n in range(1_000):
            await jobs.submit(often, n, tenant=tenant, conn=conn)
        await wait_until_all_over(jobs, tenant)

    # On a busy machine a worker falls asleep between two jobs, and is notified more often.
    most = choose_effort(test=900, shown=500, campaign=500)
    assert 0 < len([said for said in heard if said.startswith("ready")]) < most


async def test_a_reached_limit_does_not_keep_workers_busy(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    go = asyncio.Event()

    @handlers.job("narrow")
    async def narrow(ctx: Context, n: int) -> int:
        await go.wait()
        return n

    await jobs.submit_many(narrow, range(5), tenant=tenant, limits=[Limit(key="k", at_most=1)] * 5)
    count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    async with run_worker(jobs):
        await asyncio.sleep(1.5)
        before = await superuser.fetchval(count)
        await asyncio.sleep(2)
        after = await superuser.fetchval(count)
        go.set()
        await wait_until_all_over(jobs, tenant)

    assert after - before < 600


async def test_a_worker_says_so_when_the_tables_are_not_there(empty_address: Address, handlers: Handlers) -> None:
    sessions = Sessions(partial(connect, **empty_address.connect_arguments()), size=2)
    await sessions.open()
    try:
        with pytest.raises(EngineNotInstalled, match="cannot work with this database") as refused:
            await Worker(Jobs(handlers, sessions)).run()
    finally:
        await sessions.close()

    assert "service_jobs.install" in str(refused.value.fix)


async def test_a_computation_that_holds_the_interpreter_lock_for_three_leases_is_not_taken_for_dead(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    ran: list[int] = []
    processes = ProcessPool(1)
    jobs = Jobs(handlers, sessions, processes=processes)

    @handlers.job("compute")
    async def compute(ctx: Context, seconds: float) -> float:
        ran.append(ctx.attempt)
        held = 0.0
        while held < seconds:
            held += await ctx.compute(hold_the_interpreter_lock)
        return held

    job_id = await jobs.submit(compute, 3.2, tenant=tenant)
    try:
        async with run_workers(jobs, 2, WorkerOptions(lease=1.0, renew=0.3, heartbeat=0.2)):
            await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)
    finally:
        await processes.close()

    assert ran == [1]
