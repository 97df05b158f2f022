"""Retention: what is over goes when its time has passed, in small steps; what is not over, or is needed, stays."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from service_jobs import batches
from service_jobs.batches import BatchFinisher, BatchNotFound, BatchStatus
from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import new_id, new_ids
from service_jobs.job_spec import JobColumns, JobSpec, SubmitOptions
from service_jobs.submission import submit_jobs
from service_jobs.worker import retention
from service_jobs.worker.retention import MAX_REMOVED_PER_RUN, RetentionCleaner
from tests.jobs.support.database_clock import DatabaseClock, clock
from tests.jobs.support.job_stages import end_job, register_worker, start_job, submit_stage_jobs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external
__all__ = ["clock"]

PIECE, KEPT = "'(0,0)', '(256,0)', now()", "ARRAY['work'], ARRAY[60]"
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
DAY = 86_400
MANY_OVER = """
    INSERT INTO jobs.job (tenant_id, job_id, type, status, max_attempts, payload, created_at, scheduled_at, finished_at,
                          keep_seconds, awaited)
    SELECT $1, gen_random_uuid(), 'work', CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 5, '{"n": 1}',
           jobs.clock(), jobs.clock(), jobs.clock(), CASE WHEN n % 4 = 0 THEN 10000000 ELSE 60 END, false
      FROM generate_series(1, $2::int) AS n
"""


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A session as the chores get it."""
    conn = await sessions.connect_worker("test")
    yield conn
    await conn.close()


@pytest.fixture
def work(handlers: Handlers) -> Handler[int, int]:
    @handlers.job("work")
    async def work(ctx: Context, number: int) -> int:
        return number

    return work


def build_spec(handler: Handler[int, int], **options: Any) -> JobSpec:
    return JobSpec(handler=handler, job_id=new_id(), payload="1", **options)


def build_options(tenant: UUID, keep_seconds: int = DAY, **options: Any) -> SubmitOptions:
    return SubmitOptions(tenant=tenant, type="work", priority=2, max_attempts=5, keep_seconds=keep_seconds, **options)


async def run_cleaner(conn: "asyncpg.Connection[asyncpg.Record]", most: int = MAX_REMOVED_PER_RUN) -> dict[str, int]:
    """One run by somebody who remembers nothing, and looks through the whole table if need be."""
    return await RetentionCleaner(pieces_at_once=sys.maxsize).run(conn, most)


async def list_left_jobs(conn: "asyncpg.Connection[asyncpg.Record]") -> set[UUID]:
    return {row["job_id"] for row in await conn.fetch("SELECT job_id FROM jobs.job")}


async def test_a_job_is_removed_when_it_has_been_over_for_as_long_as_it_is_kept(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON)
    jobs = await submit_stage_jobs(sessions, tenant, 4)
    for job, end in zip(jobs, ["SUCCEEDED", "FAILED", "CANCELLED", "DEAD_LETTER"], strict=True):
        await end_job(sessions, tenant, job, end)

    await clock.step(DAY - 1)
    too_early = await run_cleaner(worker)
    await clock.step(1)
    removed = await run_cleaner(worker)

    assert too_early == {}
    assert removed == {"SUCCEEDED": 1, "FAILED": 1, "CANCELLED": 1, "DEAD_LETTER": 1}
    assert await list_left_jobs(worker) == set()


async def test_what_is_not_over_is_never_removed_however_old(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    ready, runs, needed = await submit_stage_jobs(sessions, tenant, 3)
    [later] = await submit_stage_jobs(sessions, tenant, delay=60)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[needed])
    [again] = await submit_stage_jobs(sessions, tenant)
    await start_job(sessions, tenant, runs)
    await end_job(sessions, tenant, again, "FAILED")
    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, again)

    await clock.step(1_000 * DAY)
    removed = await run_cleaner(worker)

    assert removed == {}
    assert await list_left_jobs(worker) == {ready, runs, needed, later, blocked, again}


async def test_a_job_that_an_unfinished_job_depends_on_stays_until_that_one_is_over(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [first] = await submit_stage_jobs(sessions, tenant)
    [second] = await submit_stage_jobs(sessions, tenant)
    [third] = await submit_stage_jobs(sessions, tenant, needs=[first, second])
    await end_job(sessions, tenant, first, "SUCCEEDED")
    await clock.step(2 * DAY)

    while_needed = await run_cleaner(worker)
    await end_job(sessions, tenant, second, "SUCCEEDED")
    await end_job(sessions, tenant, third, "SUCCEEDED")
    when_not = await run_cleaner(worker)
    ties = await worker.fetchval("SELECT count(*) FROM jobs.job_dependency")
    await clock.step(2 * DAY)
    at_last = await run_cleaner(worker)

    assert while_needed == {}
    assert when_not == {"SUCCEEDED": 1}
    assert ties == 1  # what the third needed of the second
    assert at_last == {"SUCCEEDED": 2}
    assert await worker.fetchval("SELECT count(*) FROM jobs.job_dependency") == 0


async def test_a_key_can_be_used_again_when_its_job_is_gone(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
) -> None:
    async with sessions.tenant(tenant) as conn:
        [first] = await submit_jobs(conn, build_options(tenant), JobColumns.from_specs([build_spec(work, key="k")]))
    await end_job(sessions, tenant, first, "SUCCEEDED")
    async with sessions.tenant(tenant) as conn:
        [same] = await submit_jobs(conn, build_options(tenant), JobColumns.from_specs([build_spec(work, key="k")]))

    await clock.step(DAY + 1)
    await run_cleaner(worker)
    async with sessions.tenant(tenant) as conn:
        [other] = await submit_jobs(conn, build_options(tenant), JobColumns.from_specs([build_spec(work, key="k")]))

    assert same == first
    assert other != first
    assert await list_left_jobs(worker) == {other}


async def test_the_jobs_of_a_batch_stay_as_long_as_the_batch_and_go_after_it(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
) -> None:
    async with sessions.tenant(tenant) as conn:
        submission = await batches.submit_batch(conn, build_options(tenant), [build_spec(work), build_spec(work)])
    await end_job(sessions, tenant, submission.job_ids[0], "FAILED")
    await clock.step(10 * DAY)
    while_open = await run_cleaner(worker)
    await end_job(sessions, tenant, submission.job_ids[1], "SUCCEEDED")
    await BatchFinisher().run(worker)
    just_finished = await run_cleaner(worker)
    async with sessions.tenant(tenant) as conn:
        batch = await batches.get_batch(conn, tenant, submission.batch_id)

    await clock.step(DAY)
    past = await run_cleaner(worker)

    assert while_open == just_finished == {}
    assert batch.status is BatchStatus.PARTIAL
    assert past == {"FAILED": 1, "SUCCEEDED": 1}
    async with sessions.tenant(tenant) as conn:
        with pytest.raises(BatchNotFound):
            await batches.get_batch(conn, tenant, submission.batch_id)


async def test_an_empty_batch_stays_for_two_weeks(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with sessions.tenant(tenant) as conn:
        await batches.submit_batch(conn, build_options(tenant), [])

    await clock.step(14 * DAY - 60)
    await run_cleaner(worker)
    before = await worker.fetchval("SELECT count(*) FROM jobs.batch")
    await clock.step(61)
    await run_cleaner(worker)

    assert before == 1
    assert await worker.fetchval("SELECT count(*) FROM jobs.batch") == 0


async def test_more_batches_than_one_run_looks_at_are_looked_at_in_turn(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "BATCHES_PER_RUN", 2)
    async with sessions.tenant(tenant) as conn:
        *first, last = new_ids(5)
        for batch_id in first:
            await batches.submit_batch(conn, build_options(tenant), [build_spec(work)], batch_id=batch_id)
        await batches.submit_batch(conn, build_options(tenant), [], batch_id=last)
    await clock.step(15 * DAY)
    cleaner = RetentionCleaner()

    counts = []
    for _ in range(3):
        await cleaner.run(worker)
        counts.append(await worker.fetchval("SELECT count(*) FROM jobs.batch"))

    assert counts == [5, 5, 4]


async def test_workers_that_were_not_heard_of_for_a_day_and_hold_nothing_are_forgotten(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    for owner in ("holds a lease", "is gone"):
        await register_worker(worker, owner, ["work"])
    [job] = await submit_stage_jobs(sessions, tenant)
    await start_job(sessions, tenant, job, owner="holds a lease")
    await clock.step(DAY + 60)
    await register_worker(worker, "lives", ["work"])

    await run_cleaner(worker)

    owners = await worker.fetch("SELECT owner FROM jobs.job_worker ORDER BY owner")
    assert [row["owner"] for row in owners] == ["holds a lease", "lives"]


async def test_twenty_thousand_jobs_go_in_steps_that_are_bounded_and_quick(
    tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await worker.execute(MANY_OVER, tenant, 20_000)
    await clock.step(61)
    cleaner = RetentionCleaner()
    removed: Counter[str] = Counter()
    steps = []

    started = time.monotonic()
    while step := await cleaner.run(worker, limit=1_000):
        removed.update(step)
        steps.append(sum(step.values()))
    took = time.monotonic() - started

    assert steps == [1_000] * 15
    assert removed == {"SUCCEEDED": 14_000, "FAILED": 1_000}
    assert await worker.fetchval("SELECT count(*) FROM jobs.job") == 5_000
    assert took < 30  # it takes about half a second


async def test_a_cleaner_looks_again_when_it_is_worth_it_and_not_before(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    look = RetentionCleaner._clean_piece

    async def counted(self: RetentionCleaner, conn: Any, piece: int, *rest: Any) -> dict[str, int]:
        looked.append(piece)
        return await look(self, conn, piece, *rest)

    monkeypatch.setattr(RetentionCleaner, "_clean_piece", counted)
    await clock.stop_at(NOON)
    cleaner = RetentionCleaner()
    async with sessions.tenant(tenant) as conn:
        [job] = await submit_jobs(
            conn, build_options(tenant, keep_seconds=120), JobColumns.from_specs([build_spec(work)])
        )

    assert await cleaner.run(worker) == {}  # it waits: two minutes at least
    await end_job(sessions, tenant, job, "SUCCEEDED")
    await clock.step(119)
    assert await cleaner.run(worker) == {}
    assert looked == [0]
    await clock.step(1)
    assert await cleaner.run(worker) == {"SUCCEEDED": 1}
    assert looked == [0, 0]
    await clock.step(59)
    assert await cleaner.run(worker) == {}
    assert looked == [0, 0]
    await clock.step(1)
    assert await cleaner.run(worker) == {}
    assert looked == [0, 0, 0]


async def test_a_large_table_is_looked_through_a_few_pieces_at_a_time(
    tenant: TenantId,
    clock: DatabaseClock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "PIECE_PAGES", 4)
    await worker.execute(MANY_OVER, tenant, 1_000)
    pages = await worker.fetchval("SELECT pg_relation_size('jobs.job') / current_setting('block_size')::int")
    await clock.step(61)
    cleaner = RetentionCleaner(pieces_at_once=2)

    steps = []
    while await worker.fetchval("SELECT count(*) FROM jobs.job WHERE keep_seconds = 60"):
        steps.append(sum((await cleaner.run(worker)).values()))

    assert len(steps) == -(-pages // 8)
    assert sum(steps) == 750


async def test_many_who_clean_at_once_do_not_get_in_each_others_way(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock
) -> None:
    # Chains of three, so that one cleaner may have a job and another one what it depends on.
    first = await submit_stage_jobs(sessions, tenant, 100)
    for some in [first[n : n + 20] for n in range(0, 100, 20)]:
        second = await submit_stage_jobs(sessions, tenant, 40, needs=some)
        await submit_stage_jobs(sessions, tenant, 10, needs=second)
    workers = [await sessions.connect_worker(f"test {n}") for n in range(10)]
    await workers[0].execute("DELETE FROM jobs.job_ready")
    await workers[0].execute("UPDATE jobs.job SET status = 'SUCCEEDED', finished_at = jobs.clock()")
    await clock.step(2 * DAY)

    async def until_nothing_is_left(conn: "asyncpg.Connection[asyncpg.Record]") -> int:
        count = 0
        while await list_left_jobs(conn):
            count += sum((await run_cleaner(conn, most=7)).values())
        return count

    counts = await asyncio.gather(*(until_nothing_is_left(conn) for conn in workers))

    assert sum(counts) == 100 + 5 * 50
    assert await workers[0].fetchval("SELECT count(*) FROM jobs.job_dependency") == 0
    for conn in workers:
        await conn.close()


async def test_a_job_that_is_run_again_at_this_moment_is_left_alone(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, job, "FAILED")
    await clock.step(2 * DAY)

    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, job)
        meanwhile = await run_cleaner(worker)

    assert meanwhile == await run_cleaner(worker) == {}
    assert await list_left_jobs(worker) == {job}


async def test_pieces_of_the_table_are_read_by_place_and_its_rows_removed_by_key(
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    async def plan(statement: str, types: str, values: str) -> list[str]:
        await worker.execute(f"PREPARE asked ({types}) AS {statement}")
        lines = [row[0] for row in await worker.fetch(f"EXPLAIN EXECUTE asked ({values})")]
        await worker.execute("DEALLOCATE asked")
        return lines

    looked = await plan(
        retention.SELECT_EARLIEST_EXPIRY, "tid, tid, timestamptz, int, text[], int[]", f"{PIECE}, 60, {KEPT}"
    )
    removed = await plan(
        retention.DELETE_EXPIRED_JOBS, "tid, tid, timestamptz, int, int, text[], int[]", f"{PIECE}, 1000, 60, {KEPT}"
    )

    assert any("Tid Range Scan on job" in line for line in looked)
    assert any("Tid Range Scan on job j" in line for line in removed)
    assert not any("Seq Scan" in line for line in looked + removed)


async def test_an_empty_table_has_nothing_to_clean(worker: "asyncpg.Connection[asyncpg.Record]") -> None:
    assert await run_cleaner(worker) == {}
