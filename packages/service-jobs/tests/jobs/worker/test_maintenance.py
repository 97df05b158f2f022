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

from bpc.core.ids import TenantId
from bpc.jobs import batches, retention
from bpc.jobs.batches import BatchNotFound, BatchStatus, Finisher
from bpc.jobs.context import Context, Wish
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.ids import new_id, new_ids
from bpc.jobs.retention import MOST, Cleaner
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import Manner, Rows, submit
from tests.jobs.fake_clock import Clock, clock
from tests.jobs.stages import alive, ended, running, submitted

pytestmark = pytest.mark.external
__all__ = ["clock"]

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
    conn = await sessions.worker("test")
    yield conn
    await conn.close()


@pytest.fixture
def work(handlers: Handlers) -> Handler[int, int]:
    @handlers.job("work")
    async def work(ctx: Context, number: int) -> int:
        return number

    return work


def wish(handler: Handler[int, int], **how: Any) -> Wish:
    return Wish(handler=handler, job_id=new_id(), payload="1", **how)


def manner(tenant: UUID, keep_seconds: int = DAY, **how: Any) -> Manner:
    return Manner(tenant=tenant, type="work", priority=2, max_attempts=5, keep_seconds=keep_seconds, **how)


async def clean(conn: "asyncpg.Connection[asyncpg.Record]", most: int = MOST) -> dict[str, int]:
    """One run by somebody who remembers nothing, and looks through the whole table if need be."""
    return await Cleaner(pieces_at_once=sys.maxsize).run(conn, most)


async def left(conn: "asyncpg.Connection[asyncpg.Record]") -> set[UUID]:
    return {row["job_id"] for row in await conn.fetch("SELECT job_id FROM jobs.job")}


async def test_a_job_is_removed_when_it_has_been_over_for_as_long_as_it_is_kept(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await clock.stop_at(NOON)
    jobs = await submitted(sessions, tenant, 4)
    for job, end in zip(jobs, ["SUCCEEDED", "FAILED", "CANCELLED", "DEAD_LETTER"], strict=True):
        await ended(sessions, tenant, job, end)

    await clock.step(DAY - 1)
    too_early = await clean(worker)
    await clock.step(1)
    removed = await clean(worker)

    assert too_early == {}
    assert removed == {"SUCCEEDED": 1, "FAILED": 1, "CANCELLED": 1, "DEAD_LETTER": 1}
    assert await left(worker) == set()


async def test_what_is_not_over_is_never_removed_however_old(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    ready, runs, needed = await submitted(sessions, tenant, 3)
    [later] = await submitted(sessions, tenant, delay=60)
    [blocked] = await submitted(sessions, tenant, needs=[needed])
    [again] = await submitted(sessions, tenant)
    await running(sessions, tenant, runs)
    await ended(sessions, tenant, again, "FAILED")
    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, again)

    await clock.step(1_000 * DAY)
    removed = await clean(worker)

    assert removed == {}
    assert await left(worker) == {ready, runs, needed, later, blocked, again}


async def test_a_job_that_an_unfinished_job_depends_on_stays_until_that_one_is_over(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [first] = await submitted(sessions, tenant)
    [second] = await submitted(sessions, tenant)
    [third] = await submitted(sessions, tenant, needs=[first, second])
    await ended(sessions, tenant, first, "SUCCEEDED")
    await clock.step(2 * DAY)

    while_needed = await clean(worker)
    await ended(sessions, tenant, second, "SUCCEEDED")
    await ended(sessions, tenant, third, "SUCCEEDED")
    when_not = await clean(worker)
    ties = await worker.fetchval("SELECT count(*) FROM jobs.job_dependency")
    await clock.step(2 * DAY)
    at_last = await clean(worker)

    assert while_needed == {}
    assert when_not == {"SUCCEEDED": 1}
    assert ties == 1  # what the third needed of the second
    assert at_last == {"SUCCEEDED": 2}
    assert await worker.fetchval("SELECT count(*) FROM jobs.job_dependency") == 0


async def test_a_key_can_be_used_again_when_its_job_is_gone(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
) -> None:
    async with sessions.tenant(tenant) as conn:
        [first] = await submit(conn, manner(tenant), Rows.of([wish(work, key="k")]))
    await ended(sessions, tenant, first, "SUCCEEDED")
    async with sessions.tenant(tenant) as conn:
        [same] = await submit(conn, manner(tenant), Rows.of([wish(work, key="k")]))

    await clock.step(DAY + 1)
    await clean(worker)
    async with sessions.tenant(tenant) as conn:
        [other] = await submit(conn, manner(tenant), Rows.of([wish(work, key="k")]))

    assert same == first
    assert other != first
    assert await left(worker) == {other}


async def test_the_jobs_of_a_batch_stay_as_long_as_the_batch_and_go_after_it(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
) -> None:
    async with sessions.tenant(tenant) as conn:
        made = await batches.submit_batch(conn, manner(tenant), [wish(work), wish(work)])
    await ended(sessions, tenant, made.job_ids[0], "FAILED")
    await clock.step(10 * DAY)
    while_open = await clean(worker)
    await ended(sessions, tenant, made.job_ids[1], "SUCCEEDED")
    await Finisher().run(worker)
    just_finished = await clean(worker)
    async with sessions.tenant(tenant) as conn:
        batch = await batches.get(conn, tenant, made.batch_id)

    await clock.step(DAY)
    past = await clean(worker)

    assert while_open == just_finished == {}
    assert batch.status is BatchStatus.PARTIAL
    assert past == {"FAILED": 1, "SUCCEEDED": 1}
    async with sessions.tenant(tenant) as conn:
        with pytest.raises(BatchNotFound):
            await batches.get(conn, tenant, made.batch_id)


async def test_an_empty_batch_stays_for_two_weeks(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with sessions.tenant(tenant) as conn:
        await batches.submit_batch(conn, manner(tenant), [])

    await clock.step(14 * DAY - 60)
    await clean(worker)
    before = await worker.fetchval("SELECT count(*) FROM jobs.batch")
    await clock.step(61)
    await clean(worker)

    assert before == 1
    assert await worker.fetchval("SELECT count(*) FROM jobs.batch") == 0


async def test_more_batches_than_one_run_looks_at_are_looked_at_in_turn(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "BATCHES_AT_ONCE", 2)
    async with sessions.tenant(tenant) as conn:
        *first, last = new_ids(5)
        for batch_id in first:
            await batches.submit_batch(conn, manner(tenant), [wish(work)], batch_id=batch_id)
        await batches.submit_batch(conn, manner(tenant), [], batch_id=last)
    await clock.step(15 * DAY)
    cleaner = Cleaner()

    counts = []
    for _ in range(3):
        await cleaner.run(worker)
        counts.append(await worker.fetchval("SELECT count(*) FROM jobs.batch"))

    assert counts == [5, 5, 4]


async def test_workers_that_were_not_heard_of_for_a_day_and_hold_nothing_are_forgotten(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    for owner in ("holds a lease", "is gone"):
        await alive(worker, owner, ["work"])
    [job] = await submitted(sessions, tenant)
    await running(sessions, tenant, job, owner="holds a lease")
    await clock.step(DAY + 60)
    await alive(worker, "lives", ["work"])

    await clean(worker)

    owners = await worker.fetch("SELECT owner FROM jobs.job_worker ORDER BY owner")
    assert [row["owner"] for row in owners] == ["holds a lease", "lives"]


async def test_twenty_thousand_jobs_go_in_steps_that_are_bounded_and_quick(
    tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await worker.execute(MANY_OVER, tenant, 20_000)
    await clock.step(61)
    cleaner = Cleaner()
    removed: Counter[str] = Counter()
    steps = []

    started = time.monotonic()
    while step := await cleaner.run(worker, most=1_000):
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
    clock: Clock,
    worker: "asyncpg.Connection[asyncpg.Record]",
    work: Handler[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    look = Cleaner._clean

    async def counted(self: Cleaner, conn: Any, piece: retention.Piece, *rest: Any) -> dict[str, int]:
        looked.append(piece.page)
        return await look(self, conn, piece, *rest)

    monkeypatch.setattr(Cleaner, "_clean", counted)
    await clock.stop_at(NOON)
    cleaner = Cleaner()
    async with sessions.tenant(tenant) as conn:
        [job] = await submit(conn, manner(tenant, keep_seconds=120), Rows.of([wish(work)]))

    assert await cleaner.run(worker) == {}  # it waits: two minutes at least
    await ended(sessions, tenant, job, "SUCCEEDED")
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
    tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PIECE", 4)
    await worker.execute(MANY_OVER, tenant, 1_000)
    pages = await worker.fetchval("SELECT pg_relation_size('jobs.job') / current_setting('block_size')::int")
    await clock.step(61)
    cleaner = Cleaner(pieces_at_once=2)

    steps = []
    while await worker.fetchval("SELECT count(*) FROM jobs.job WHERE keep_seconds = 60"):
        steps.append(sum((await cleaner.run(worker)).values()))

    assert len(steps) == -(-pages // 8)
    assert sum(steps) == 750


async def test_many_who_clean_at_once_do_not_get_in_each_others_way(
    sessions: Sessions, tenant: TenantId, clock: Clock
) -> None:
    # Chains of three, so that one cleaner may have a job and another one what it depends on.
    first = await submitted(sessions, tenant, 100)
    for some in [first[n : n + 20] for n in range(0, 100, 20)]:
        second = await submitted(sessions, tenant, 40, needs=some)
        await submitted(sessions, tenant, 10, needs=second)
    workers = [await sessions.worker(f"test {n}") for n in range(10)]
    await workers[0].execute("DELETE FROM jobs.job_ready")
    await workers[0].execute("UPDATE jobs.job SET status = 'SUCCEEDED', finished_at = jobs.clock()")
    await clock.step(2 * DAY)

    async def until_nothing_is_left(conn: "asyncpg.Connection[asyncpg.Record]") -> int:
        count = 0
        while await left(conn):
            count += sum((await clean(conn, most=7)).values())
        return count

    counts = await asyncio.gather(*(until_nothing_is_left(conn) for conn in workers))

    assert sum(counts) == 100 + 5 * 50
    assert await workers[0].fetchval("SELECT count(*) FROM jobs.job_dependency") == 0
    for conn in workers:
        await conn.close()


async def test_a_job_that_is_run_again_at_this_moment_is_left_alone(
    sessions: Sessions, tenant: TenantId, clock: Clock, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [job] = await submitted(sessions, tenant)
    await ended(sessions, tenant, job, "FAILED")
    await clock.step(2 * DAY)

    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, job)
        meanwhile = await clean(worker)

    assert meanwhile == await clean(worker) == {}
    assert await left(worker) == {job}


async def test_pieces_of_the_table_are_read_by_place_and_its_rows_removed_by_key(
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    async def plan(statement: str, types: str, values: str) -> list[str]:
        await worker.execute(f"PREPARE asked ({types}) AS {statement}")
        lines = [row[0] for row in await worker.fetch(f"EXPLAIN EXECUTE asked ({values})")]
        await worker.execute("DEALLOCATE asked")
        return lines

    looked = await plan(retention.EARLIEST, "tid, tid, timestamptz", "'(0,0)', '(256,0)', now()")
    removed = await plan(retention.REMOVE, "tid, tid, timestamptz, int", "'(0,0)', '(256,0)', now(), 1000")

    assert any("Tid Range Scan on job" in line for line in looked)
    assert any("Tid Range Scan on job j" in line for line in removed)
    assert not any("Seq Scan" in line for line in looked + removed)


async def test_an_empty_table_has_nothing_to_clean(worker: "asyncpg.Connection[asyncpg.Record]") -> None:
    assert await clean(worker) == {}
