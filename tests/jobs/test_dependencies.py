"""Specification of jobs that need other jobs: they run when all those succeeded, and never when one ended badly."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.jobs.context import Connection, Context
from bpc.jobs.errors import InvalidInput
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.ids import new_id, new_ids
from bpc.jobs.retention import Cleaner
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.worker import claims
from bpc.jobs.worker.lanes import Lane
from tests.measuring import effort

pytestmark = pytest.mark.external

SETTLE = "SELECT jobs.settle($1, $2, 'w', $3, $4, $5, NULL, 0)"
PLACES = """
    SELECT j.job_id,
           CASE WHEN l.job_id IS NOT NULL THEN 'runs' WHEN r.job_id IS NOT NULL THEN 'ready'
                WHEN w.job_id IS NOT NULL THEN 'later' WHEN j.status <> 'QUEUED' THEN j.status
                WHEN EXISTS (SELECT FROM jobs.job_dependency d WHERE d.job_id = j.job_id AND NOT d.met) THEN 'blocked'
                ELSE 'nowhere' END AS place
      FROM jobs.job j
      LEFT JOIN jobs.job_lease l ON l.job_id = j.job_id
      LEFT JOIN jobs.job_ready r ON r.job_id = j.job_id
      LEFT JOIN jobs.job_later w ON w.job_id = j.job_id
     WHERE j.tenant_id = $1
"""
ERROR = """
    SELECT last_error ->> 'code', last_error ->> 'message', last_error ->> 'because_of' FROM jobs.job WHERE job_id = $1
"""
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
CHAIN = """
    WITH job AS (
      INSERT INTO jobs.job (tenant_id, job_id, type, max_attempts, awaited, payload, created_at, scheduled_at,
                            keep_seconds)
      SELECT $1, job_id, 'work', 5, true, 'null', jobs.clock(), jobs.clock(), 60 FROM unnest($3::uuid[]) AS job_id)
    INSERT INTO jobs.job_dependency (tenant_id, job_id, needs_id)
    SELECT $1, job_id, needs_id FROM unnest($3::uuid[], $2::uuid[]) AS link (job_id, needs_id)
"""
BLOCKED_SESSIONS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ANY ($1)"


@pytest.fixture
def work(handlers: Handlers) -> Handler[None, None]:
    @handlers.job("work")
    async def work(ctx: Context, value: None) -> None: ...

    return work


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    conn = await sessions.worker("test")
    yield conn
    await conn.close()


@pytest.fixture
async def second(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    conn = await sessions.worker("second")
    yield conn
    await conn.close()


class Shop:
    """One tenant's jobs, with a worker that does what it is told."""

    def __init__(self, jobs: Jobs, handler: Handler[None, None], tenant: UUID, worker: Connection) -> None:
        self._jobs = jobs
        self._handler = handler
        self._worker = worker
        self.tenant = tenant

    async def submit(self, *needs: UUID, **how: Any) -> UUID:
        return await self._jobs.submit(self._handler, None, tenant=self.tenant, depends_on=needs, **how)

    async def many(self, count: int, *needs: UUID, **how: Any) -> list[UUID]:
        return await self._jobs.submit_many(self._handler, [None] * count, tenant=self.tenant, depends_on=needs, **how)

    async def start_all(self) -> None:
        """Claim all that is ready."""
        lanes = [(Lane(self.tenant, "", priority), 1000) for priority in range(4)]
        await claims.exchange(self._worker, "w", [], lanes, ["work"], 60.0)

    async def end(self, job: UUID, ending: str = "SUCCEEDED", conn: Connection | None = None) -> str:
        """End a job that runs."""
        on = conn or self._worker
        attempt = await on.fetchval("SELECT attempt FROM jobs.job_lease WHERE job_id = $1", job)
        result = "1" if ending == "SUCCEEDED" else None
        became: str = await on.fetchval(SETTLE, self.tenant, job, attempt, ending, result)
        return became

    async def run(self, job: UUID, ending: str = "SUCCEEDED") -> str:
        await self.start_all()
        return await self.end(job, ending)

    async def complete(self, *jobs: UUID) -> claims.Exchanged:
        """Complete jobs that run, as a worker does: all in one statement."""
        done = [claims.Done(self.tenant, job, 1, "1") for job in sorted(jobs)]
        return await claims.exchange(self._worker, "w", done, [], ["work"], 60.0)

    async def cancel(self, job: UUID) -> str:
        async with self._jobs.sessions.tenant(self.tenant) as conn:
            became: str = await conn.fetchval("SELECT jobs.cancel($1, $2, NULL)", self.tenant, job)
            return became

    async def redrive(self, job: UUID) -> str:
        async with self._jobs.sessions.tenant(self.tenant) as conn:
            became: str = await conn.fetchval("SELECT jobs.redrive($1, $2)", self.tenant, job)
            return became

    async def places(self, *jobs: UUID) -> list[str]:
        found = {row["job_id"]: row["place"] for row in await self._worker.fetch(PLACES, self.tenant)}
        return [found[job] for job in jobs]


@pytest.fixture
async def shop(jobs: Jobs, work: Handler[None, None], tenant: TenantId, worker: Connection) -> Shop:
    return Shop(jobs, work, tenant, worker)


async def until_waiting(watch: Connection, *waiting: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Return when all of these sessions wait for a lock."""
    pids = [conn.get_server_pid() for conn in waiting]
    async with asyncio.timeout(60):
        while await watch.fetchval(BLOCKED_SESSIONS, pids) < len(pids):
            await asyncio.sleep(0.01)


async def until_somebody_waits(superuser: Connection) -> None:
    async with asyncio.timeout(60):
        while not await superuser.fetchval(WAITING):
            await asyncio.sleep(0.01)
            await superuser.execute("SELECT pg_stat_clear_snapshot()")  # it may be in a transaction


# Success -----------------------------------------------------------------------------------------------------------


async def test_a_job_runs_when_the_one_it_needs_succeeded(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    assert await shop.places(needed, job) == ["ready", "blocked"]

    await shop.run(needed)

    assert await shop.places(needed, job) == ["SUCCEEDED", "ready"]


@pytest.mark.parametrize("how", ["settled", "completed"])
async def test_a_diamond_runs_from_its_top_to_its_bottom(shop: Shop, how: str) -> None:
    top = await shop.submit()
    left, right = await shop.submit(top), await shop.submit(top)
    bottom = await shop.submit(left, right)

    async def end(job: UUID) -> None:
        await (shop.end(job) if how == "settled" else shop.complete(job))

    await shop.start_all()
    await end(top)
    assert await shop.places(left, right, bottom) == ["ready", "ready", "blocked"]
    await shop.start_all()
    await end(left)
    assert await shop.places(bottom) == ["blocked"]
    await end(right)
    assert await shop.places(top, left, right, bottom) == ["SUCCEEDED"] * 3 + ["ready"]


async def test_both_needed_jobs_may_be_completed_by_one_statement(shop: Shop) -> None:
    left, right = await shop.many(2)
    bottom, beside = await shop.submit(left, right), await shop.submit(right)
    await shop.start_all()

    await shop.complete(left, right)

    assert await shop.places(bottom, beside) == ["ready", "ready"]


async def test_a_chain_runs_link_by_link(shop: Shop) -> None:
    chain = [await shop.submit()]
    for _ in range(9):
        chain.append(await shop.submit(chain[-1]))

    for at, job in enumerate(chain):
        assert await shop.places(*chain) == ["SUCCEEDED"] * at + ["ready"] + ["blocked"] * (9 - at)
        await shop.start_all()
        await shop.complete(job)


async def test_a_hundred_jobs_may_need_one_and_one_may_need_a_hundred(shop: Shop) -> None:
    first = await shop.submit()
    middle = await shop.many(100, first)
    last = await shop.submit(*middle)

    await shop.run(first)
    await shop.start_all()
    assert set(await shop.places(*middle)) == {"runs"}
    await shop.complete(*middle[:-1])
    assert await shop.places(last) == ["blocked"]
    await shop.complete(middle[-1])

    assert await shop.places(last) == ["ready"]


async def test_a_job_that_waits_for_its_time_too_does_so_after_the_one_it_needs(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed, delay=3600)

    await shop.run(needed)

    assert await shop.places(job) == ["later"]


async def test_what_succeeded_before_needs_no_waiting_for(shop: Shop) -> None:
    done, open_one = await shop.many(2)
    await shop.run(done)

    assert await shop.places(await shop.submit(done), await shop.submit(done, open_one)) == ["ready", "blocked"]


async def test_to_need_the_same_job_twice_is_to_need_it(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed, needed)

    await shop.run(needed)

    assert await shop.places(job) == ["ready"]


async def test_what_a_needed_job_did_not_count_or_has_to_try_again_releases_nobody(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    for ending in ("RETRY", "RELEASE"):
        assert await shop.run(needed, ending) == "QUEUED"
        assert await shop.places(job) == ["blocked"]


async def test_jobs_may_be_submitted_with_what_they_need_in_one_transaction(
    shop: Shop, jobs: Jobs, work: Handler[None, None]
) -> None:
    async with jobs.sessions.tenant(shop.tenant) as conn:
        needed = await jobs.submit(work, None, tenant=shop.tenant, conn=conn)
        job = await jobs.submit(work, None, tenant=shop.tenant, conn=conn, depends_on=[needed])

    assert await shop.places(needed, job) == ["ready", "blocked"]


async def test_a_key_that_is_taken_adds_no_needs_to_the_job_that_has_it(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(key="k")

    assert await shop.submit(needed, key="k") == job
    assert await shop.places(job) == ["ready"]


# What does not exist -------------------------------------------------------------------------------------------------


async def test_to_need_a_job_that_does_not_exist_is_refused(
    shop: Shop, jobs: Jobs, work: Handler[None, None], other_tenant: TenantId
) -> None:
    mine = await shop.submit()
    theirs = await jobs.submit(work, None, tenant=other_tenant)

    for needs in ([new_id()], [mine, new_id()], [theirs]):
        with pytest.raises(InvalidInput, match="does not exist"):
            await shop.submit(*needs)

    assert await shop.places(mine) == ["ready"]
    async with jobs.sessions.tenant(shop.tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job") == 1


# Bad ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_when_a_needed_job_ends_badly_all_that_need_it_are_cancelled_down_to_the_last(
    shop: Shop, worker: Connection, ending: str
) -> None:
    top, other = await shop.many(2)
    left, right = await shop.submit(top), await shop.submit(top, other)
    bottom = await shop.submit(left, right)
    last = await shop.submit(bottom)

    await shop.run(top, ending)

    assert await shop.places(left, right, bottom, last) == ["CANCELLED"] * 4
    assert tuple(await worker.fetchrow(ERROR, left) or ()) == (
        "JOB_CANCELLED",
        f"job {top}, which it depends on, ended {ending}",
        str(top),
    )
    assert tuple(await worker.fetchrow(ERROR, last) or ())[2] == str(bottom)
    assert await shop.places(other) == ["runs"], "who is needed is not harmed"


async def test_cancelling_a_job_that_waits_cancels_those_that_need_it(shop: Shop) -> None:
    top = await shop.submit()
    middle = await shop.submit(top)
    bottom = await shop.submit(middle)

    assert await shop.cancel(middle) == "CANCELLED"

    assert await shop.places(top, middle, bottom) == ["ready", "CANCELLED", "CANCELLED"]


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_what_needs_a_job_that_has_ended_badly_already_is_cancelled_at_once(shop: Shop, ending: str) -> None:
    bad, fine = await shop.many(2)
    await shop.run(bad, ending)
    await shop.end(fine)

    jobs = [await shop.submit(bad), await shop.submit(fine, bad), *(await shop.many(3, bad))]

    assert await shop.places(*jobs) == ["CANCELLED"] * 5


async def test_a_needed_job_that_succeeds_later_does_not_bring_back_what_was_cancelled(shop: Shop) -> None:
    bad, fine = await shop.many(2)
    job = await shop.submit(bad, fine)
    await shop.run(bad, "FAILED")

    await shop.end(fine)

    assert await shop.places(job) == ["CANCELLED"]


async def test_a_job_beside_the_chain_is_cancelled_because_of_the_one_it_needs_itself(
    shop: Shop, worker: Connection
) -> None:
    top = await shop.submit()
    middle = await shop.submit(top)
    bottom = await shop.submit(top, middle)
    below = await shop.submit(bottom)

    await shop.run(top, "FAILED")

    assert await shop.places(middle, bottom, below) == ["CANCELLED"] * 3
    because_of = [tuple(await worker.fetchrow(ERROR, job) or ())[2] for job in (middle, bottom, below)]
    assert because_of == [str(top), str(top), str(bottom)]
    assert await shop.redrive(top) == "QUEUED"
    assert await shop.places(middle, bottom, below) == ["blocked"] * 3


async def test_a_chain_of_thousands_of_jobs_is_cancelled_and_brought_back(shop: Shop, worker: Connection) -> None:
    first = await shop.submit()
    rest = new_ids(effort(test=1_000, shown=4_999, campaign=4_999))
    await worker.execute("UPDATE jobs.job SET awaited = true")
    await worker.execute(CHAIN, shop.tenant, [first, *rest[:-1]], rest)

    await shop.run(first, "FAILED")
    assert await shop.places(*rest) == ["CANCELLED"] * len(rest)
    assert tuple(await worker.fetchrow(ERROR, rest[-1]) or ())[2] == str(rest[-2])
    await shop.redrive(first)

    assert await shop.places(first, *rest) == ["ready"] + ["blocked"] * len(rest)


# Redrive -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER"])
async def test_when_the_needed_job_is_run_again_all_that_were_cancelled_because_of_it_wait_again(
    shop: Shop, ending: str
) -> None:
    top = await shop.submit()
    left, right = await shop.submit(top), await shop.submit(top)
    bottom = await shop.submit(left, right)
    last = await shop.submit(bottom)
    await shop.run(top, ending)

    assert await shop.redrive(top) == "QUEUED"

    assert await shop.places(top, left, right, bottom, last) == ["ready"] + ["blocked"] * 4
    for job in (top, left, right, bottom, last):
        assert await shop.run(job) == "SUCCEEDED"


async def test_what_somebody_cancelled_stays_cancelled(shop: Shop) -> None:
    top = await shop.submit()
    cancelled, waiting = await shop.submit(top), await shop.submit(top)
    below = await shop.submit(cancelled, waiting)
    await shop.cancel(cancelled)
    await shop.run(top, "FAILED")

    await shop.redrive(top)

    assert await shop.places(cancelled, waiting, below) == ["CANCELLED", "blocked", "CANCELLED"]


async def test_what_somebody_cancelled_and_runs_again_waits_for_what_it_needs_and_brings_back_who_waits_for_it(
    shop: Shop,
) -> None:
    top = await shop.submit()
    cancelled = await shop.submit(top)
    below = await shop.submit(cancelled)
    await shop.cancel(cancelled)

    assert await shop.redrive(cancelled) == "QUEUED"

    assert await shop.places(top, cancelled, below) == ["ready", "blocked", "blocked"]
    for job in (top, cancelled, below):
        assert await shop.run(job) == "SUCCEEDED"


async def test_what_somebody_cancelled_runs_at_once_if_all_it_needs_has_succeeded_since(shop: Shop) -> None:
    top = await shop.submit()
    cancelled = await shop.submit(top)
    await shop.cancel(cancelled)
    await shop.run(top)

    assert await shop.redrive(cancelled) == "QUEUED"

    assert await shop.places(cancelled) == ["ready"]


async def test_what_somebody_cancelled_is_not_run_again_before_what_it_needs(shop: Shop) -> None:
    top = await shop.submit()
    cancelled, waiting = await shop.submit(top), await shop.submit(top)
    await shop.cancel(cancelled)
    await shop.run(top, "FAILED")

    early = [await shop.redrive(job) for job in (cancelled, waiting)]
    await shop.redrive(top)
    late = await shop.redrive(cancelled)

    assert (early, late) == (["CANCELLED", "CANCELLED"], "QUEUED")
    assert await shop.places(top, cancelled, waiting) == ["ready", "blocked", "blocked"]


async def test_what_needs_a_job_that_failed_and_was_removed_is_not_run_again(shop: Shop, worker: Connection) -> None:
    needed, other = await shop.many(2)
    cancelled, waiting = await shop.submit(needed), await shop.submit(needed, other)
    await shop.cancel(cancelled)
    await shop.run(needed, "FAILED")
    await shop.run(other, "FAILED")
    await worker.execute("UPDATE jobs.job SET keep_seconds = 0 WHERE job_id = $1", needed)

    assert await Cleaner().run(worker) == {"FAILED": 1}

    assert (await shop.redrive(cancelled), await shop.redrive(other)) == ("CANCELLED", "QUEUED")
    assert await shop.places(cancelled, waiting) == ["CANCELLED", "CANCELLED"]


async def test_what_is_run_again_while_what_it_needs_fails_is_cancelled_again(
    shop: Shop, worker: Connection, superuser: Connection
) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    await shop.start_all()
    await shop.cancel(job)

    async with worker.transaction():
        await shop.end(needed, "FAILED")
        again = asyncio.create_task(shop.redrive(job))
        await until_somebody_waits(superuser)

    assert await again == "CANCELLED"
    assert await shop.places(job) == ["CANCELLED"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first fails first", "second fails first"])
@pytest.mark.parametrize("again", [(0, 1), (1, 0)], ids=["first runs again first", "second runs again first"])
async def test_a_job_that_two_failed_for_waits_again_when_both_are_run_again(
    shop: Shop, order: Sequence[int], again: Sequence[int]
) -> None:
    needed = await shop.many(2)
    job = await shop.submit(*needed)
    await shop.start_all()
    for at in order:
        await shop.end(needed[at], "FAILED")

    await shop.redrive(needed[again[0]])
    assert await shop.places(job) == ["CANCELLED"]
    await shop.redrive(needed[again[1]])
    assert await shop.places(job) == ["blocked"]

    await shop.start_all()
    await shop.end(needed[0])
    await shop.end(needed[1])
    assert await shop.places(job) == ["ready"]


async def test_what_was_run_again_and_failed_again_cancels_again(shop: Shop) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    for _ in range(3):
        await shop.run(needed, "FAILED")
        assert await shop.places(job) == ["CANCELLED"]
        await shop.redrive(needed)
        assert await shop.places(job) == ["blocked"]

    await shop.run(needed)

    assert await shop.places(job) == ["ready"]


# At the same moment --------------------------------------------------------------------------------------------------


async def test_of_two_needed_jobs_that_end_at_the_same_moment_the_second_sees_the_first(
    shop: Shop, worker: "asyncpg.Connection[asyncpg.Record]", second: "asyncpg.Connection[asyncpg.Record]", jobs: Jobs
) -> None:
    left, right = await shop.many(2)
    bottom = await shop.submit(left, right)
    await shop.start_all()

    async with worker.transaction():
        await shop.end(left)
        other = asyncio.create_task(shop.end(right, conn=second))
        async with jobs.sessions.plain() as watch:
            await until_waiting(watch, second)
    assert await other == "SUCCEEDED"

    assert await shop.places(bottom) == ["ready"]


async def test_a_needed_job_that_succeeds_while_another_fails_does_not_release_anybody(
    shop: Shop, worker: "asyncpg.Connection[asyncpg.Record]", second: "asyncpg.Connection[asyncpg.Record]", jobs: Jobs
) -> None:
    left, right = await shop.many(2)
    bottom = await shop.submit(left, right)
    await shop.start_all()

    async with worker.transaction():
        await shop.end(left, "FAILED")
        other = asyncio.create_task(shop.end(right, conn=second))
        async with jobs.sessions.plain() as watch:
            await until_waiting(watch, second)
    assert await other == "SUCCEEDED"

    assert await shop.places(bottom) == ["CANCELLED"]


@pytest.mark.parametrize(("ending", "place"), [("SUCCEEDED", "ready"), ("FAILED", "CANCELLED")])
@pytest.mark.parametrize("by", ["settle", "exchange"])
async def test_a_needed_job_that_ends_while_the_submission_is_under_way_is_not_missed(
    shop: Shop,
    jobs: Jobs,
    work: Handler[None, None],
    second: "asyncpg.Connection[asyncpg.Record]",
    ending: str,
    place: str,
    by: str,
) -> None:
    needed = await shop.submit()
    await shop.start_all()

    async with jobs.sessions.tenant(shop.tenant) as conn:
        job = await jobs.submit(work, None, tenant=shop.tenant, conn=conn, depends_on=[needed])
        if by == "exchange" and ending == "SUCCEEDED":
            done = [claims.Done(shop.tenant, needed, 1, "1")]
            end: Any = asyncio.create_task(claims.exchange(second, "w", done, [], ["work"], 60.0))
        else:
            end = asyncio.create_task(shop.end(needed, ending, conn=second))
        await until_waiting(conn, second)
    await end

    assert await shop.places(needed, job) == [ending, place]


@pytest.mark.parametrize(("ending", "place"), [("SUCCEEDED", "ready"), ("FAILED", "CANCELLED")])
async def test_a_submission_waits_for_the_end_of_a_needed_job_that_is_under_way(
    shop: Shop,
    superuser: Connection,
    worker: "asyncpg.Connection[asyncpg.Record]",
    ending: str,
    place: str,
) -> None:
    needed = await shop.submit()
    await shop.start_all()

    async with worker.transaction():
        await shop.end(needed, ending)
        submission = asyncio.create_task(shop.submit(needed))
        await until_somebody_waits(superuser)
        assert not submission.done()

    assert await shop.places(await submission) == [place]


async def test_cancelling_a_job_that_is_being_released_finds_it_where_it_went(
    shop: Shop, superuser: Connection, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    await shop.start_all()

    async with worker.transaction():
        await shop.end(needed)
        cancelling = asyncio.create_task(shop.cancel(job))
        await until_somebody_waits(superuser)
    assert await cancelling == "CANCELLED"

    assert await shop.places(job) == ["CANCELLED"]


async def test_a_job_that_is_being_cancelled_is_not_released(
    shop: Shop, jobs: Jobs, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    needed = await shop.submit()
    job = await shop.submit(needed)
    await shop.start_all()

    async with jobs.sessions.tenant(shop.tenant) as conn:
        assert await conn.fetchval("SELECT jobs.cancel($1, $2, NULL)", shop.tenant, job) == "CANCELLED"
        ending = asyncio.create_task(shop.complete(needed))
        await until_waiting(conn, worker)
    assert (await ending).refused == frozenset()

    assert await shop.places(needed, job) == ["SUCCEEDED", "CANCELLED"]


async def test_many_ends_at_the_same_moment_release_every_job_once(
    shop: Shop, sessions: Sessions, worker: Connection
) -> None:
    needed = await shop.many(40)
    dependents = [await shop.submit(*needed[at::10], *needed[(at + 1) % 10 :: 10]) for at in range(10)]
    last = await shop.submit(*dependents)
    await shop.start_all()
    workers = [await sessions.worker(f"w{n}") for n in range(4)]

    async def end(at: int) -> None:
        for job in needed[at::4]:
            await shop.end(job, conn=workers[at])

    await asyncio.gather(*map(end, range(4)))
    for conn in workers:
        await conn.close()

    assert await shop.places(*dependents, last) == ["ready"] * 10 + ["blocked"]
    assert await worker.fetchval("SELECT count(*) FROM jobs.job_ready") == 10


async def test_who_is_brought_back_while_another_that_it_needs_fails_is_cancelled_again(
    shop: Shop, second: "asyncpg.Connection[asyncpg.Record]", jobs: Jobs
) -> None:
    left, right = await shop.many(2)
    bottom = await shop.submit(left, right)
    await shop.start_all()
    await shop.end(left, "FAILED")

    async with jobs.sessions.tenant(shop.tenant) as conn:
        await conn.fetchval("SELECT jobs.redrive($1, $2)", shop.tenant, left)
        other = asyncio.create_task(shop.end(right, "FAILED", conn=second))
        await until_waiting(conn, second)
    assert await other == "FAILED"

    assert await shop.places(left, bottom) == ["ready", "CANCELLED"]


async def test_who_waits_for_one_that_fails_at_this_moment_is_not_brought_back(
    shop: Shop, superuser: Connection, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    left, right = await shop.many(2)
    bottom = await shop.submit(left, right)
    await shop.start_all()
    await shop.end(left, "FAILED")

    async with worker.transaction():
        await shop.end(right, "FAILED")
        again = asyncio.create_task(shop.redrive(left))
        await until_somebody_waits(superuser)
    assert await again == "QUEUED"

    assert await shop.places(left, bottom) == ["ready", "CANCELLED"]


async def test_cancelling_and_running_a_job_again_at_the_same_moment_end_without_a_deadlock(
    shop: Shop,
) -> None:
    for _ in range(20):
        job = await shop.submit(delay=3600)

        became, again = await asyncio.gather(shop.cancel(job), shop.redrive(job))

        assert (became, again) == ("CANCELLED", "QUEUED")
        assert await shop.places(job) in (["CANCELLED"], ["ready"])  # as who came last wants it
