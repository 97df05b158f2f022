"""Batches: jobs that belong together may succeed in part; when all are over, one job follows, exactly once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.jobs import batches
from bpc.jobs.batches import Batch, BatchNotFound, BatchStatus, Finisher, FollowUp, SubmittedBatch
from bpc.jobs.context import Context, Limit, Wish
from bpc.jobs.errors import InvalidInput
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.ids import BatchId, new_id, new_ids
from bpc.jobs.outcome import Status
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import Manner
from tests.jobs.stages import ended, running, submitted

pytestmark = pytest.mark.external

SUMMARY = FollowUp(type="summary", payload='{"of":"them"}', priority=1, max_attempts=3, keep_seconds=60)


@pytest.fixture
def double(handlers: Handlers) -> Handler[int, int]:
    @handlers.job("double")
    async def double(ctx: Context, number: int) -> int:
        return 2 * number

    return double


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A session as the chores get it."""
    conn = await sessions.worker("test")
    yield conn
    await conn.close()


def wishes(handler: Handler[int, int], count: int, **how: Any) -> list[Wish]:
    return [
        Wish(handler=handler, job_id=job_id, payload=handler.input_text(n), **how)
        for n, job_id in enumerate(new_ids(count))
    ]


def manner(tenant: UUID, **how: Any) -> Manner:
    named: dict[str, Any] = {"type": "double", "priority": 2, "max_attempts": 5, "keep_seconds": 86_400} | how
    return Manner(tenant=tenant, **named)


async def submit(sessions: Sessions, tenant: UUID, some: list[Wish], **how: Any) -> SubmittedBatch:
    async with sessions.tenant(tenant) as conn:
        return await batches.submit_batch(conn, manner(tenant), some, **how)


async def get(sessions: Sessions, tenant: UUID, batch_id: UUID) -> Batch:
    async with sessions.tenant(tenant) as conn:
        return await batches.get(conn, tenant, batch_id)


async def finish(conn: "asyncpg.Connection[asyncpg.Record]") -> list[BatchId]:
    """One run of the chore by somebody who remembers nothing."""
    return await Finisher().run(conn)


def counts(batch: Batch) -> tuple[int, int, int, int, int]:
    return batch.queued, batch.running, batch.succeeded, batch.failed, batch.cancelled


async def test_a_new_batch_is_open_and_its_jobs_wait(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    some = wishes(double, 3)

    made = await submit(sessions, tenant, some, name="all of them")

    assert made.job_ids == tuple(wish.job_id for wish in some)
    batch = await get(sessions, tenant, made.batch_id)
    assert (batch.name, batch.total, batch.status, batch.finished_at) == ("all of them", 3, BatchStatus.OPEN, None)
    assert counts(batch) == (3, 0, 0, 0, 0)


async def test_a_batch_is_submitted_with_the_callers_transaction_or_not_at_all(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    batch_id = new_id()

    with pytest.raises(ZeroDivisionError):
        async with sessions.tenant(tenant) as conn:
            await batches.submit_batch(conn, manner(tenant), wishes(double, 2), batch_id=batch_id)
            raise ZeroDivisionError

    with pytest.raises(BatchNotFound):
        await get(sessions, tenant, batch_id)
    async with sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job") == 0


async def test_counts_follow_the_jobs_and_success_may_be_partial(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    made = await submit(sessions, tenant, wishes(double, 5))
    first, second, third, fourth, fifth = made.job_ids

    await ended(sessions, tenant, first, "SUCCEEDED")
    await ended(sessions, tenant, second, "FAILED")
    await ended(sessions, tenant, third, "DEAD_LETTER")
    await running(sessions, tenant, fourth)
    on_the_way = await get(sessions, tenant, made.batch_id)
    too_early = await finish(worker)
    await ended(sessions, tenant, fourth, "CANCELLED")
    await ended(sessions, tenant, fifth, "SUCCEEDED")
    over = await finish(worker)
    batch = await get(sessions, tenant, made.batch_id)

    assert counts(on_the_way) == (1, 1, 1, 2, 0)
    assert on_the_way.status is BatchStatus.OPEN
    assert too_early == []
    assert over == [made.batch_id]
    assert counts(batch) == (0, 0, 2, 2, 1)
    assert batch.status is BatchStatus.PARTIAL
    assert batch.finished_at is not None


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (["SUCCEEDED", "SUCCEEDED"], BatchStatus.SUCCEEDED),
        (["SUCCEEDED", "CANCELLED"], BatchStatus.PARTIAL),
        (["FAILED", "DEAD_LETTER"], BatchStatus.FAILED),
        (["CANCELLED", "CANCELLED"], BatchStatus.FAILED),
    ],
)
async def test_a_finished_batch_tells_whether_all_some_or_none_succeeded(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    ends: list[str],
    status: BatchStatus,
) -> None:
    made = await submit(sessions, tenant, wishes(double, 2))
    for job_id, end in zip(made.job_ids, ends, strict=True):
        await ended(sessions, tenant, job_id, end)

    await finish(worker)

    assert (await get(sessions, tenant, made.batch_id)).status is status


async def test_an_empty_batch_is_finished_at_once_and_followed(
    sessions: Sessions, tenant: TenantId, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    made = await submit(sessions, tenant, [], follow_up=SUMMARY)

    batch = await get(sessions, tenant, made.batch_id)
    assert (batch.total, batch.status) == (0, BatchStatus.SUCCEEDED)
    assert await worker.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'summary'") == 1
    assert await finish(worker) == []


async def test_the_follow_up_is_submitted_as_it_was_wished_and_finds_its_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with sessions.tenant(tenant) as conn:
        how = manner(tenant, correlation_id="c", actor="a", traceparent="t")
        made = await batches.submit_batch(conn, how, wishes(double, 1), follow_up=SUMMARY)
    await ended(sessions, tenant, made.job_ids[0], "SUCCEEDED")

    await finish(worker)

    job = await worker.fetchrow("SELECT * FROM jobs.job WHERE type = 'summary'")
    assert job is not None
    assert job["idempotency_key"] == f"batch:{made.batch_id}"
    assert (job["payload"], job["priority"], job["max_attempts"]) == ('{"of":"them"}', 1, 3)
    assert (job["keep_seconds"], job["batch_id"]) == (60, None)
    assert (job["correlation_id"], job["actor"], job["traceparent"]) == ("c", "a", "t")
    async with sessions.tenant(tenant) as conn:
        assert await batches.followed_by(conn, tenant, job["job_id"]) == made.batch_id
        assert await batches.followed_by(conn, tenant, made.job_ids[0]) is None
        assert await batches.followed_by(conn, tenant, new_id()) is None


async def test_a_key_that_only_looks_like_a_follow_ups_names_no_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    made = await submit(sessions, tenant, wishes(double, 1, key="batch:of cookies"))

    async with sessions.tenant(tenant) as conn:
        assert await batches.followed_by(conn, tenant, made.job_ids[0]) is None


async def test_many_who_finish_at_once_finish_each_batch_once_and_follow_it_once(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, double: Handler[int, int]
) -> None:
    made = []
    for whose in (tenant, other_tenant) * 5:
        one = await submit(sessions, whose, wishes(double, 1), follow_up=SUMMARY)
        await ended(sessions, whose, one.job_ids[0], "SUCCEEDED")
        made.append(one.batch_id)
    workers = [await sessions.worker(f"test {n}") for n in range(10)]

    finished = await asyncio.gather(*(finish(conn) for conn in workers))

    assert sorted(batch_id for some in finished for batch_id in some) == sorted(made)
    keys = await workers[0].fetch("SELECT idempotency_key FROM jobs.job WHERE type = 'summary'")
    assert sorted(row[0] for row in keys) == sorted(f"batch:{batch_id}" for batch_id in made)
    for conn in workers:
        await conn.close()


async def test_a_batch_whose_follow_up_cannot_be_submitted_stays_open_and_does_not_hold_up_the_others(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    superuser: "asyncpg.Connection[asyncpg.Record]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = await submit(sessions, tenant, wishes(double, 1), follow_up=SUMMARY)
    good = await submit(sessions, tenant, wishes(double, 1))
    for made in (bad, good):
        await ended(sessions, tenant, made.job_ids[0], "SUCCEEDED")
    await superuser.execute("ALTER TABLE jobs.job ADD CONSTRAINT no_summary CHECK (type <> 'summary')")
    finisher = Finisher()

    first = await finisher.run(worker)
    still = await get(sessions, tenant, bad.batch_id)
    await superuser.execute("ALTER TABLE jobs.job DROP CONSTRAINT no_summary")
    second = await finisher.run(worker)

    assert first == [good.batch_id]
    assert still.status is BatchStatus.OPEN
    assert [record.__dict__["batch_id"] for record in caplog.records] == [str(bad.batch_id)]
    assert second == [bad.batch_id]


async def test_a_lost_session_is_reported_and_loses_nothing(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = await submit(sessions, tenant, wishes(double, 1), follow_up=SUMMARY)
    await ended(sessions, tenant, made.job_ids[0], "SUCCEEDED")
    dying = await sessions.worker("dies")
    follow = batches._submit_follow_up

    async def follow_and_die(*arguments: Any) -> None:
        await follow(*arguments)
        dying.terminate()
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(batches, "_submit_follow_up", follow_and_die)
        with pytest.raises((asyncpg.InterfaceError, ConnectionResetError)):
            await finish(dying)
    after = await finish(worker)

    assert after == [made.batch_id]
    assert await worker.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'summary'") == 1


async def test_a_job_that_is_run_again_changes_the_counts_and_does_not_open_the_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    made = await submit(sessions, tenant, wishes(double, 2), follow_up=SUMMARY)
    await ended(sessions, tenant, made.job_ids[0], "SUCCEEDED")
    await ended(sessions, tenant, made.job_ids[1], "FAILED")
    await finish(worker)
    before = await get(sessions, tenant, made.batch_id)

    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, made.job_ids[1])
    again = await get(sessions, tenant, made.batch_id)
    await ended(sessions, tenant, made.job_ids[1], "SUCCEEDED")
    finished_twice = await finish(worker)
    after = await get(sessions, tenant, made.batch_id)

    assert (counts(before), before.status) == ((0, 0, 1, 1, 0), BatchStatus.PARTIAL)
    assert (counts(again), again.status) == ((1, 0, 1, 0, 0), BatchStatus.PARTIAL)
    assert (counts(after), after.status) == ((0, 0, 2, 0, 0), BatchStatus.SUCCEEDED)
    assert finished_twice == []
    assert before.finished_at == again.finished_at == after.finished_at


async def test_a_finisher_asks_the_job_it_remembers_and_then_looks_for_another(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    made = await submit(sessions, tenant, wishes(double, 3))
    finisher = Finisher()

    for job_id in reversed(made.job_ids):
        assert await finisher.run(worker) == []
        assert await finisher.run(worker) == []
        await ended(sessions, tenant, job_id, "SUCCEEDED")

    assert await finisher.run(worker) == [made.batch_id]
    assert await finisher.run(worker) == []


async def test_more_open_batches_than_one_run_looks_at_are_looked_at_in_turn(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "LOOKED_AT", 2)
    monkeypatch.setattr(batches, "REMEMBERED", 3)
    open_ones = [await submit(sessions, tenant, wishes(double, 1)) for _ in range(5)]
    await ended(sessions, tenant, open_ones[-1].job_ids[0], "SUCCEEDED")
    finisher = Finisher()

    finished = [await finisher.run(worker) for _ in range(6)]

    assert [some for some in finished if some] == [[open_ones[-1].batch_id]]


async def test_a_wish_whose_key_is_taken_is_not_part_of_the_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    first = await submit(sessions, tenant, wishes(double, 1, key="k"))

    second = await submit(sessions, tenant, wishes(double, 1, key="k") + wishes(double, 1))
    third = await submit(sessions, tenant, wishes(double, 1, key="k"))

    assert second.job_ids[0] == first.job_ids[0] == third.job_ids[0]
    assert (await get(sessions, tenant, second.batch_id)).total == 1
    assert (await get(sessions, tenant, third.batch_id)).status is BatchStatus.SUCCEEDED


async def test_priority_limit_and_needed_jobs_are_each_wishs_own(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [needed] = await submitted(sessions, tenant)
    limited = wishes(double, 1, priority=0, limit=Limit(key="k", at_most=2))
    blocked = wishes(double, 1, depends_on=[needed])

    made = await submit(sessions, tenant, limited + blocked)

    rows = await worker.fetch("SELECT job_id, priority, limit_key FROM jobs.job_ready WHERE job_id <> $1", needed)
    assert [tuple(row) for row in rows] == [(made.job_ids[0], 0, "k")]
    assert await worker.fetchval("SELECT job_id FROM jobs.job_dependency") == made.job_ids[1]


async def test_a_batch_has_jobs_of_one_type(
    sessions: Sessions, tenant: TenantId, handlers: Handlers, double: Handler[int, int]
) -> None:
    @handlers.job("triple")
    async def triple(ctx: Context, number: int) -> int:
        return 3 * number

    with pytest.raises(InvalidInput, match="a batch has jobs of one type: `triple` is not `double`"):
        await submit(sessions, tenant, wishes(double, 1) + wishes(triple, 1))


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b"])
async def test_a_name_that_cannot_be_kept_is_refused(sessions: Sessions, tenant: TenantId, name: str) -> None:
    with pytest.raises(InvalidInput, match="a batch's name has 1 to 200 printable characters"):
        await submit(sessions, tenant, [], name=name)


async def test_the_jobs_of_a_batch_are_listed_page_by_page_with_what_went_wrong(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    made = await submit(sessions, tenant, wishes(double, 5))
    await ended(sessions, tenant, made.job_ids[3], "FAILED")

    async with sessions.tenant(tenant) as conn:
        first = await batches.items(conn, tenant, made.batch_id, limit=3)
        second = await batches.items(conn, tenant, made.batch_id, limit=3, after=first[-1].job_id)
        failed = await batches.items(conn, tenant, made.batch_id, only=[Status.FAILED, Status.DEAD_LETTER])
        with pytest.raises(InvalidInput, match="a page has 1 to 1000 jobs, not 0"):
            await batches.items(conn, tenant, made.batch_id, limit=0)

    assert [item.job_id for item in first + second] == list(made.job_ids)
    assert [item.job_id for item in failed] == [made.job_ids[3]]
    assert failed[0].error is not None
    assert failed[0].error.message == "it broke"
    assert first[0].error is None


async def test_another_tenants_batch_does_not_exist(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, double: Handler[int, int]
) -> None:
    made = await submit(sessions, tenant, wishes(double, 1))

    with pytest.raises(BatchNotFound, match=f"there is no batch `{made.batch_id}`"):
        await get(sessions, other_tenant, made.batch_id)
    async with sessions.tenant(other_tenant) as conn:
        assert await batches.items(conn, other_tenant, made.batch_id) == []


async def test_looking_for_a_job_that_is_not_over_reads_the_batch_from_its_end(
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await worker.execute(f"PREPARE asked (uuid[], uuid[]) AS {batches.UNFINISHED_JOBS}")

    rows = await worker.fetch(f"EXPLAIN EXECUTE asked ('{{{new_id()}}}', '{{{new_id()}}}')")

    plan = [row[0] for row in rows]
    assert any("Index Scan Backward using job_of_batch" in line for line in plan)
    assert not any("Sort" in line for line in plan)
