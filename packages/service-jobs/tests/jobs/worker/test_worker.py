"""A worker runs jobs on PostgreSQL: what it claims, what it writes down with what, and how it stops."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.db.address import Address
from bpc.db.connection import connect
from bpc.jobs.context import Context, Limit
from bpc.jobs.errors import JobError, LeaseLost
from bpc.jobs.handler import Handlers, Refused
from bpc.jobs.outcome import Retry
from bpc.jobs.processes import Processes
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.steps import several_steps
from bpc.jobs.worker import Options, Worker
from bpc.jobs.worker.pulse import NotInstalled
from tests.jobs.test_processes import hold_the_interpreter_lock
from tests.jobs.working import QUICK, several_working, status_of, until, until_all_over, until_status, working

pytestmark = pytest.mark.external
SOON = Retry(attempts=5, first_delay=0.02, longest_delay=0.02)


async def column(jobs: Jobs, tenant: UUID, job_id: UUID, name: str) -> object:
    async with jobs.sessions.tenant(tenant) as conn:
        return await conn.fetchval(f"SELECT {name} FROM jobs.job WHERE tenant_id = $1 AND job_id = $2", tenant, job_id)


@pytest.fixture
async def effects(superuser: "asyncpg.Connection[asyncpg.Record]") -> str:
    """A table that handlers write to; it takes doubles, so that a test sees them."""
    await superuser.execute("CREATE TABLE effects (job_id uuid, attempt int); GRANT ALL ON effects TO bpc_app")
    return "effects"


async def test_a_job_is_run_and_its_result_kept(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    @handlers.job("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    job_id = await jobs.submit(greet, "world", tenant=tenant)
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED")

    assert await column(jobs, tenant, job_id, "result") == '"hello world"'


async def test_effects_follow_ups_and_completion_are_one_transaction(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, effects: str
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
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED")
        await until_all_over(jobs, tenant)

    async with jobs.sessions.tenant(tenant) as conn:
        assert [tuple(row) for row in await conn.fetch("SELECT * FROM effects")] == [(job_id, 3)]
        assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'second'") == 1


async def test_a_refusal_commits_what_was_written_and_fails_the_job(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, effects: str
) -> None:
    @handlers.job("strict")
    async def strict(ctx: Context, n: int) -> int | Refused:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, ctx.attempt)
        return Refused(JobError(code="VALIDATION_ERROR", message="no"))

    job_id = await jobs.submit(strict, 1, tenant=tenant)
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "FAILED")

    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM effects") == 1


async def test_an_execution_that_lost_its_lease_leaves_no_trace(
    jobs: Jobs,
    handlers: Handlers,
    tenant: TenantId,
    effects: str,
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
    async with working(jobs):
        await until(lambda: bool(refused))
        await asyncio.sleep(0.1)

        assert await status_of(jobs, tenant, job_id) == "RUNNING"
    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM effects") == 0


async def test_ten_workers_run_a_hundred_jobs_once_each(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    ran: list[int] = []

    @handlers.job("count")
    async def count(ctx: Context, n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0.005)

    await jobs.submit_many(count, range(100), tenant=tenant)
    async with several_working(jobs, 10):
        await until_all_over(jobs, tenant)

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
    async with working(jobs):
        await until_status(jobs, tenant, mine, "SUCCEEDED")

    assert await status_of(jobs, tenant, strange[0]) == "QUEUED"


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
    async with working(jobs, Options(concurrency=2, stop_grace=10)) as worker:
        await until(lambda: len(started) == 2)
        worker.stop()
        go.set()
        await until_status(jobs, tenant, ids[1], "SUCCEEDED")

    assert started == [0, 1]
    assert [await status_of(jobs, tenant, one) for one in ids] == ["SUCCEEDED"] * 2 + ["QUEUED"] * 4


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
    async with working(jobs, Options(stop_grace=0.1, cancel_grace=1.0)):
        await asyncio.wait_for(started.wait(), 60)

    job = await jobs.job(tenant, job_id)
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
    async with working(jobs, Options(concurrency=1, cancel_grace=0.2)):
        await until_status(jobs, tenant, job_id, "DEAD_LETTER")

    assert '"JOB_TIMEOUT"' in str(await column(jobs, tenant, job_id, "last_error"))


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

    several = several_steps(handlers, "steps", one, two, retry=SOON)
    job_id = await jobs.submit(several, 4, tenant=tenant)
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED")

    assert ran == ["one", "two", "two"]
    assert await column(jobs, tenant, job_id, "result") == '"44"'


async def test_a_computation_in_a_child_process_gives_its_result(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    @handlers.job("power")
    async def power(ctx: Context, n: int) -> int:
        return await ctx.compute(pow, n, 10)

    processes = Processes(1)
    jobs = Jobs(handlers, sessions, processes=processes)
    job_id = await jobs.submit(power, 2, tenant=tenant)
    try:
        async with working(jobs):
            await until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)
    finally:
        await processes.close()

    assert await column(jobs, tenant, job_id, "result") == "1024"


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
    options = Options(lease=1.0, renew=0.3, heartbeat=0.2)
    async with several_working(jobs, 2, options):
        await until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)

    assert ran == [1]


async def test_a_claim_whose_answer_was_lost_is_released(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("orphan")
    async def orphan(ctx: Context, n: int) -> int:
        return n

    job_id = await jobs.submit(orphan, 1, tenant=tenant)
    async with working(jobs, QUICK) as worker:
        await until_status(jobs, tenant, job_id, "SUCCEEDED")
        strange = await jobs.submit(orphan, 2, tenant=tenant, delay=3600)
        await superuser.execute("DELETE FROM jobs.job_later")
        await superuser.execute(
            "INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at,"
            " lease_until) VALUES ($1, $2, 'orphan', $3, 1, 2, '', now() - interval '6 s', now() + interval '60 s')",
            tenant,
            strange,
            worker.owner,
        )
        await until_status(jobs, tenant, strange, "SUCCEEDED")

    assert (await jobs.job(tenant, strange)).attempts == 1


async def test_a_session_that_is_cut_is_opened_again_and_nothing_is_lost(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    @handlers.job("steady")
    async def steady(ctx: Context, n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    await jobs.submit_many(steady, range(100), tenant=tenant)
    async with working(jobs, QUICK):
        for _ in range(5):
            await asyncio.sleep(0.05)
            await superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name IN ('bpc jobs claims', 'bpc jobs scout')"
            )
        await until_all_over(jobs, tenant, seconds=60)

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
    async with working(jobs, Options(concurrency=1, first_tenant=system)):
        await until_all_over(jobs, tenant)

    assert ran.index(system) <= 6


async def test_under_load_hardly_any_submission_pays_for_a_notification(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    heard: list[str] = []
    await superuser.add_listener("jobs", lambda *said: heard.append(str(said[3])))

    @handlers.job("often")
    async def often(ctx: Context, n: int) -> None: ...

    async with working(jobs, QUICK), jobs.sessions.plain() as conn:
        await asyncio.sleep(0.3)
        for n in range(1_000):
            await jobs.submit(often, n, tenant=tenant, conn=conn)
        await until_all_over(jobs, tenant)

    assert 0 < len([said for said in heard if said.startswith("ready")]) < 500


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
    async with working(jobs), jobs.sessions.tenant(tenant) as conn:
        await until_status(jobs, tenant, first, "RUNNING")
        await jobs.submit(other, 1, tenant=tenant, conn=conn, depends_on=[first])  # locks the job it depends on
        go.set()
        await asyncio.sleep(0.2)
        theirs = await jobs.submit(other, 2, tenant=other_tenant)
        await until_status(jobs, other_tenant, theirs, "SUCCEEDED", seconds=60)
        assert await status_of(jobs, tenant, first) == "RUNNING"

    async with working(jobs):
        await until_all_over(jobs, tenant)
    assert await status_of(jobs, tenant, first) == "SUCCEEDED"


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
    async with working(jobs):
        await asyncio.sleep(1.5)
        before = await superuser.fetchval(count)
        await asyncio.sleep(2)
        after = await superuser.fetchval(count)
        go.set()
        await until_all_over(jobs, tenant)

    assert after - before < 600


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
    async with working(jobs, Options(concurrency=30)):
        await until_all_over(jobs, tenant, seconds=60)

    async with sessions.tenant(tenant) as conn:
        found = await conn.fetch("SELECT status, attempts FROM jobs.job WHERE tenant_id = $1", tenant)
    assert {tuple(row) for row in found} == {("SUCCEEDED", 1)}


async def test_a_worker_says_so_when_the_tables_are_not_there(empty_address: Address, handlers: Handlers) -> None:
    sessions = Sessions(partial(connect, **empty_address.connect_arguments()), size=2)
    await sessions.open()
    try:
        with pytest.raises(NotInstalled, match="cannot work with this database") as refused:
            await Worker(Jobs(handlers, sessions)).run()
    finally:
        await sessions.close()

    assert "bpc migrate" in str(refused.value.fix)


class Heard:
    """A bell that remembers what it rang for."""

    def __init__(self) -> None:
        self.ids: list[UUID] = []

    def publish(self, job_ids: Sequence[UUID]) -> None:
        self.ids += job_ids


async def test_the_bell_rings_for_what_follows_when_it_is_committed(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    bell, followed = Heard(), list[UUID]()
    jobs = Jobs(handlers, sessions, trigger=bell)

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

    two = several_steps(handlers, "two", step, last)
    submitted = [await jobs.submit(two, 1, tenant=tenant), await jobs.submit(failing, 1, tenant=tenant)]
    async with working(jobs):
        await until(lambda: len(bell.ids) >= 4)
        await until_all_over(jobs, tenant)

    assert sorted(bell.ids) == sorted(submitted + followed)


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
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED")
        await until(lambda: 2 in noted)

    assert noted == [2]


async def test_a_step_that_writes_ends_in_the_transaction_it_wrote_in(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, effects: str
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

    two = several_steps(handlers, "two", write, fail_once, retry=SOON)
    job_id = await jobs.submit(two, 5, tenant=tenant)
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED")
        await until_all_over(jobs, tenant)

    assert noted == [5]
    async with jobs.sessions.tenant(tenant) as conn:
        assert [tuple(row) for row in await conn.fetch("SELECT * FROM effects")] == [(job_id, 1)]


async def test_a_computation_that_holds_the_interpreter_lock_for_three_leases_is_not_taken_for_dead(
    handlers: Handlers, sessions: Sessions, tenant: TenantId
) -> None:
    ran: list[int] = []
    processes = Processes(1)
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
        async with several_working(jobs, 2, Options(lease=1.0, renew=0.3, heartbeat=0.2)):
            await until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=60)
    finally:
        await processes.close()

    assert ran == [1]
