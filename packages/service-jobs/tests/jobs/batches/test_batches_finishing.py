"""When all jobs of a batch are over, one job follows, exactly once."""

import asyncio
from typing import Any

import asyncpg
import pytest
from service_jobs import batches
from service_jobs.batches import BatchFinisher, BatchStatus
from service_jobs.database import Sessions
from service_jobs.handler import Handler
from service_jobs.job import new_id
from tests.jobs.batches.batch_scenario import (
    SUMMARY,
    build_options,
    build_specs,
    finish_batches,
    get_batch,
    get_counts,
    submit_batch,
)
from tests.jobs.support.engine_logs import list_engine_logs
from tests.jobs.support.job_stages import end_job

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def test_an_empty_batch_is_finished_at_once_and_followed(
    sessions: Sessions, tenant: TenantId, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    submission = await submit_batch(sessions, tenant, [], follow_up=SUMMARY)

    batch = await get_batch(sessions, tenant, submission.batch_id)
    assert (batch.total, batch.status) == (0, BatchStatus.SUCCEEDED)
    assert await worker.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'summary'") == 1
    assert await finish_batches(worker) == []


async def test_the_follow_up_is_submitted_as_it_was_wished_and_finds_its_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with sessions.tenant(tenant) as conn:
        how = build_options(tenant, correlation_id="c", actor="a", traceparent="t")
        submission = await batches.submit_batch(conn, how, build_specs(double, 1), follow_up=SUMMARY)
    await end_job(sessions, tenant, submission.job_ids[0], "SUCCEEDED")

    await finish_batches(worker)

    job = await worker.fetchrow("SELECT * FROM jobs.job WHERE type = 'summary'")
    assert job is not None
    assert job["idempotency_key"] == f"batch:{submission.batch_id}"
    assert (job["payload"], job["priority"], job["max_attempts"]) == ('{"of":"them"}', 1, 3)
    assert (job["keep_seconds"], job["batch_id"]) == (60, None)
    assert (job["correlation_id"], job["actor"], job["traceparent"]) == ("c", "a", "t")
    async with sessions.tenant(tenant) as conn:
        assert await batches.find_followed_batch(conn, tenant, job["job_id"]) == submission.batch_id
        assert await batches.find_followed_batch(conn, tenant, submission.job_ids[0]) is None
        assert await batches.find_followed_batch(conn, tenant, new_id()) is None


async def test_a_key_that_only_looks_like_a_follow_ups_names_no_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 1, key="batch:of cookies"))

    async with sessions.tenant(tenant) as conn:
        assert await batches.find_followed_batch(conn, tenant, submission.job_ids[0]) is None


async def test_many_who_finish_at_once_finish_each_batch_once_and_follow_it_once(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, double: Handler[int, int]
) -> None:
    submission = []
    for whose in (tenant, other_tenant) * 5:
        one = await submit_batch(sessions, whose, build_specs(double, 1), follow_up=SUMMARY)
        await end_job(sessions, whose, one.job_ids[0], "SUCCEEDED")
        submission.append(one.batch_id)
    workers = [await sessions.connect_worker(f"test {n}") for n in range(10)]

    finished = await asyncio.gather(*(finish_batches(conn) for conn in workers))

    assert sorted(batch_id for some in finished for batch_id in some) == sorted(submission)
    keys = await workers[0].fetch("SELECT idempotency_key FROM jobs.job WHERE type = 'summary'")
    assert sorted(row[0] for row in keys) == sorted(f"batch:{batch_id}" for batch_id in submission)
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
    bad = await submit_batch(sessions, tenant, build_specs(double, 1), follow_up=SUMMARY)
    good = await submit_batch(sessions, tenant, build_specs(double, 1))
    for submission in (bad, good):
        await end_job(sessions, tenant, submission.job_ids[0], "SUCCEEDED")
    await superuser.execute("ALTER TABLE jobs.job ADD CONSTRAINT no_summary CHECK (type <> 'summary')")
    finisher = BatchFinisher()

    first = await finisher.run(worker)
    still = await get_batch(sessions, tenant, bad.batch_id)
    await superuser.execute("ALTER TABLE jobs.job DROP CONSTRAINT no_summary")
    second = await finisher.run(worker)

    assert first == [good.batch_id]
    assert still.status is BatchStatus.OPEN
    assert [record.__dict__["batch_id"] for record in list_engine_logs(caplog)] == [str(bad.batch_id)]
    assert second == [bad.batch_id]


async def test_a_lost_session_is_reported_and_loses_nothing(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 1), follow_up=SUMMARY)
    await end_job(sessions, tenant, submission.job_ids[0], "SUCCEEDED")
    dying = await sessions.connect_worker("dies")
    follow = batches._submit_follow_up

    async def follow_and_die(*arguments: Any) -> None:
        await follow(*arguments)
        dying.terminate()
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(batches, "_submit_follow_up", follow_and_die)
        with pytest.raises((asyncpg.InterfaceError, ConnectionResetError)):
            await finish_batches(dying)
    after = await finish_batches(worker)

    assert after == [submission.batch_id]
    assert await worker.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'summary'") == 1


async def test_a_job_that_is_run_again_changes_the_counts_and_does_not_open_the_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 2), follow_up=SUMMARY)
    await end_job(sessions, tenant, submission.job_ids[0], "SUCCEEDED")
    await end_job(sessions, tenant, submission.job_ids[1], "FAILED")
    await finish_batches(worker)
    before = await get_batch(sessions, tenant, submission.batch_id)

    async with sessions.tenant(tenant) as conn:
        await conn.execute("SELECT jobs.redrive($1, $2)", tenant, submission.job_ids[1])
    again = await get_batch(sessions, tenant, submission.batch_id)
    await end_job(sessions, tenant, submission.job_ids[1], "SUCCEEDED")
    finished_twice = await finish_batches(worker)
    after = await get_batch(sessions, tenant, submission.batch_id)

    assert (get_counts(before), before.status) == ((0, 0, 1, 1, 0), BatchStatus.PARTIAL)
    assert (get_counts(again), again.status) == ((1, 0, 1, 0, 0), BatchStatus.PARTIAL)
    assert (get_counts(after), after.status) == ((0, 0, 2, 0, 0), BatchStatus.SUCCEEDED)
    assert finished_twice == []
    assert before.finished_at == again.finished_at == after.finished_at


async def test_a_finisher_asks_the_job_it_remembers_and_then_looks_for_another(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 3))
    finisher = BatchFinisher()

    for job_id in reversed(submission.job_ids):
        assert await finisher.run(worker) == []
        assert await finisher.run(worker) == []
        await end_job(sessions, tenant, job_id, "SUCCEEDED")

    assert await finisher.run(worker) == [submission.batch_id]
    assert await finisher.run(worker) == []


async def test_more_open_batches_than_one_run_looks_at_are_looked_at_in_turn(
    sessions: Sessions,
    tenant: TenantId,
    double: Handler[int, int],
    worker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "OPEN_PER_RUN", 2)
    monkeypatch.setattr(batches, "MAX_REMEMBERED", 3)
    open_ones = [await submit_batch(sessions, tenant, build_specs(double, 1)) for _ in range(5)]
    await end_job(sessions, tenant, open_ones[-1].job_ids[0], "SUCCEEDED")
    finisher = BatchFinisher()

    finished = [await finisher.run(worker) for _ in range(6)]

    assert [some for some in finished if some] == [[open_ones[-1].batch_id]]


async def test_looking_for_a_job_that_is_not_over_reads_the_batch_from_its_end(
    worker: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await worker.execute(f"PREPARE asked (uuid[], uuid[]) AS {batches.SELECT_UNFINISHED_JOBS}")

    rows = await worker.fetch(f"EXPLAIN EXECUTE asked ('{{{new_id()}}}', '{{{new_id()}}}')")

    plan = [row[0] for row in rows]
    assert any("Index Scan Backward using job_of_batch" in line for line in plan)
    assert not any("Sort" in line for line in plan)
