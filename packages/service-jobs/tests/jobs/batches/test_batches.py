"""Batches: jobs that belong together may succeed in part; they are submitted, counted and listed together."""

import asyncpg
import pytest
from service_jobs import batches
from service_jobs.batches import BatchNotFound, BatchStatus
from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import InvalidInput, Status, new_id
from service_jobs.job_spec import Limit
from tests.jobs.batches.batch_scenario import (
    build_options,
    build_specs,
    finish_batches,
    get_batch,
    get_counts,
    submit_batch,
)
from tests.jobs.support.job_stages import end_job, start_job, submit_stage_jobs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def test_a_new_batch_is_open_and_its_jobs_wait(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    some = build_specs(double, 3)

    submission = await submit_batch(sessions, tenant, some, name="all of them")

    assert submission.job_ids == tuple(spec.job_id for spec in some)
    batch = await get_batch(sessions, tenant, submission.batch_id)
    assert (batch.name, batch.total, batch.status, batch.finished_at) == ("all of them", 3, BatchStatus.OPEN, None)
    assert get_counts(batch) == (3, 0, 0, 0, 0)


async def test_a_batch_is_submitted_with_the_callers_transaction_or_not_at_all(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    batch_id = new_id()

    with pytest.raises(ZeroDivisionError):
        async with sessions.tenant(tenant) as conn:
            await batches.submit_batch(conn, build_options(tenant), build_specs(double, 2), batch_id=batch_id)
            raise ZeroDivisionError

    with pytest.raises(BatchNotFound):
        await get_batch(sessions, tenant, batch_id)
    async with sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job") == 0


async def test_counts_follow_the_jobs_and_success_may_be_partial(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 5))
    first, second, third, fourth, fifth = submission.job_ids

    await end_job(sessions, tenant, first, "SUCCEEDED")
    await end_job(sessions, tenant, second, "FAILED")
    await end_job(sessions, tenant, third, "DEAD_LETTER")
    await start_job(sessions, tenant, fourth)
    on_the_way = await get_batch(sessions, tenant, submission.batch_id)
    too_early = await finish_batches(worker)
    await end_job(sessions, tenant, fourth, "CANCELLED")
    await end_job(sessions, tenant, fifth, "SUCCEEDED")
    over = await finish_batches(worker)
    batch = await get_batch(sessions, tenant, submission.batch_id)

    assert get_counts(on_the_way) == (1, 1, 1, 2, 0)
    assert on_the_way.status is BatchStatus.OPEN
    assert too_early == []
    assert over == [submission.batch_id]
    assert get_counts(batch) == (0, 0, 2, 2, 1)
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
    submission = await submit_batch(sessions, tenant, build_specs(double, 2))
    for job_id, end in zip(submission.job_ids, ends, strict=True):
        await end_job(sessions, tenant, job_id, end)

    await finish_batches(worker)

    assert (await get_batch(sessions, tenant, submission.batch_id)).status is status


async def test_a_wish_whose_key_is_taken_is_not_part_of_the_batch(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    first = await submit_batch(sessions, tenant, build_specs(double, 1, key="k"))

    second = await submit_batch(sessions, tenant, build_specs(double, 1, key="k") + build_specs(double, 1))
    third = await submit_batch(sessions, tenant, build_specs(double, 1, key="k"))

    assert second.job_ids[0] == first.job_ids[0] == third.job_ids[0]
    assert (await get_batch(sessions, tenant, second.batch_id)).total == 1
    assert (await get_batch(sessions, tenant, third.batch_id)).status is BatchStatus.SUCCEEDED


async def test_priority_limit_and_needed_jobs_are_each_wishs_own(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int], worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [needed] = await submit_stage_jobs(sessions, tenant)
    limited = build_specs(double, 1, priority=0, limit=Limit(key="k", at_most=2))
    blocked = build_specs(double, 1, depends_on=[needed])

    submission = await submit_batch(sessions, tenant, limited + blocked)

    rows = await worker.fetch("SELECT job_id, priority, limit_key FROM jobs.job_ready WHERE job_id <> $1", needed)
    assert [tuple(row) for row in rows] == [(submission.job_ids[0], 0, "k")]
    assert await worker.fetchval("SELECT job_id FROM jobs.job_dependency") == submission.job_ids[1]


async def test_a_batch_has_jobs_of_one_type(
    sessions: Sessions, tenant: TenantId, handlers: Handlers, double: Handler[int, int]
) -> None:
    @handlers.job("triple")
    async def triple(ctx: Context, number: int) -> int:
        return 3 * number

    with pytest.raises(InvalidInput, match="a batch has jobs of one type: `triple` is not `double`"):
        await submit_batch(sessions, tenant, build_specs(double, 1) + build_specs(triple, 1))


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b"])
async def test_a_name_that_cannot_be_kept_is_refused(sessions: Sessions, tenant: TenantId, name: str) -> None:
    with pytest.raises(InvalidInput, match="a batch's name must have 1 to 200 printable characters"):
        await submit_batch(sessions, tenant, [], name=name)


async def test_the_jobs_of_a_batch_are_listed_page_by_page_with_what_went_wrong(
    sessions: Sessions, tenant: TenantId, double: Handler[int, int]
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 5))
    await end_job(sessions, tenant, submission.job_ids[3], "FAILED")

    async with sessions.tenant(tenant) as conn:
        first = await batches.list_items(conn, tenant, submission.batch_id, limit=3)
        second = await batches.list_items(conn, tenant, submission.batch_id, limit=3, after=first[-1].job_id)
        failed = await batches.list_items(conn, tenant, submission.batch_id, only=[Status.FAILED, Status.DEAD_LETTER])
        with pytest.raises(InvalidInput, match="a page has 1 to 1,000 jobs, not 0"):
            await batches.list_items(conn, tenant, submission.batch_id, limit=0)

    assert [item.job_id for item in first + second] == list(submission.job_ids)
    assert [item.job_id for item in failed] == [submission.job_ids[3]]
    assert failed[0].error is not None
    assert failed[0].error.message == "it broke"
    assert first[0].error is None


async def test_another_tenants_batch_does_not_exist(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId, double: Handler[int, int]
) -> None:
    submission = await submit_batch(sessions, tenant, build_specs(double, 1))

    with pytest.raises(BatchNotFound, match=f"there is no batch `{submission.batch_id}`"):
        await get_batch(sessions, other_tenant, submission.batch_id)
    async with sessions.tenant(other_tenant) as conn:
        assert await batches.list_items(conn, other_tenant, submission.batch_id) == []
