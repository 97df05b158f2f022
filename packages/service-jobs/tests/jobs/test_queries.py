"""Specification of looking at jobs: as they are now, newest first, and only one's own."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from service_jobs import queries
from service_jobs.database import Sessions
from service_jobs.job import InvalidInput, Job, JobError, JobNotFound, Status
from tests.jobs.support.database_clock import DatabaseClock, clock  # noqa: F401 (a fixture)
from tests.jobs.support.job_stages import end_job, start_job, submit_stage_jobs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external

NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)


async def get_job(sessions: Sessions, tenant: UUID, job: UUID) -> Job:
    async with sessions.tenant(tenant) as conn:
        return await queries.get_job(conn, tenant, job)


async def list_ids(sessions: Sessions, tenant: UUID, **filters: object) -> list[UUID]:
    async with sessions.tenant(tenant) as conn:
        return [job.job_id for job in await queries.list_jobs(conn, tenant, **filters)]  # type: ignore[arg-type]


async def submit_one_of_each(sessions: Sessions, tenant: TenantId) -> dict[Status, list[UUID]]:
    """Jobs of every status, and every way to be queued."""
    ready, runs, fine, refused, dead, gone = await submit_stage_jobs(sessions, tenant, 6)
    [later] = await submit_stage_jobs(sessions, tenant, delay=3600)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[ready, runs])
    await start_job(sessions, tenant, runs)
    await end_job(sessions, tenant, fine, "SUCCEEDED")
    await end_job(sessions, tenant, refused, "FAILED")
    await end_job(sessions, tenant, dead, "DEAD_LETTER")
    await end_job(sessions, tenant, gone, "CANCELLED")
    return {
        Status.QUEUED: [blocked, later, ready],
        Status.RUNNING: [runs],
        Status.SUCCEEDED: [fine],
        Status.FAILED: [refused],
        Status.CANCELLED: [gone],
        Status.DEAD_LETTER: [dead],
    }


async def test_a_job_is_shown_with_all_that_is_known_of_it_but_its_payload(
    sessions: Sessions, tenant: TenantId
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant, job_type="report", limit_key="printer", priority=1)

    job_view = await get_job(sessions, tenant, job)

    assert (job_view.tenant_id, job_view.job_id, job_view.type, job_view.status) == (
        tenant,
        job,
        "report",
        Status.QUEUED,
    )
    assert (job_view.priority, job_view.attempts, job_view.max_attempts, job_view.limit_key) == (1, 0, 5, "printer")
    assert (job_view.correlation_id, job_view.actor) == ("corr", "tester")
    assert (job_view.started_at, job_view.finished_at, job_view.lease_owner, job_view.last_error) == (
        None,
        None,
        None,
        None,
    )
    assert "hush" not in repr(job_view)


async def test_a_job_that_runs_shows_who_runs_it_and_which_attempt_it_is(sessions: Sessions, tenant: TenantId) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, job, "RETRY")
    await start_job(sessions, tenant, job, owner="host-1")

    job_view = await get_job(sessions, tenant, job)

    assert (job_view.status, job_view.lease_owner, job_view.attempts) == (Status.RUNNING, "host-1", 2)
    assert job_view.started_at is not None
    assert job_view.lease_expires_at is not None
    assert job_view.last_error is not None
    assert job_view.last_error.message == "it broke"


async def test_another_tenants_job_does_not_exist(sessions: Sessions, tenant: TenantId, other_tenant: TenantId) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    worker = await sessions.connect_worker("test")  # sees all jobs, and still asks for one tenant's

    for conn_of in (other_tenant, tenant):
        async with sessions.tenant(conn_of) as conn:
            for look_for in (queries.get_job, queries.get_result_text):
                with pytest.raises(JobNotFound, match=f"there is no job `{job}`"):
                    await look_for(conn, other_tenant, job)
    with pytest.raises(JobNotFound):
        await queries.get_job(worker, other_tenant, job)
    assert await queries.list_jobs(worker, other_tenant) == []
    assert len(await queries.list_jobs(worker, tenant)) == 1
    await worker.close()
    assert await list_ids(sessions, other_tenant) == []


async def test_the_result_comes_with_the_status_and_the_last_error(sessions: Sessions, tenant: TenantId) -> None:
    waits, runs, fine, refused = await submit_stage_jobs(sessions, tenant, 4)
    await start_job(sessions, tenant, runs)
    await end_job(sessions, tenant, fine, "SUCCEEDED", result='{"answer":42}')
    await end_job(sessions, tenant, refused, "FAILED")

    async with sessions.tenant(tenant) as conn:
        results = [await queries.get_result_text(conn, tenant, job) for job in (waits, runs, fine, refused)]

    assert results[:3] == [
        (Status.QUEUED, None, None),
        (Status.RUNNING, None, None),
        (Status.SUCCEEDED, '{"answer":42}', None),
    ]
    assert results[3] == (Status.FAILED, None, JobError(code="INTERNAL_ERROR", message="it broke", retryable=True))


async def test_the_newest_come_first_and_pages_follow_each_other_without_gap_or_double(
    sessions: Sessions, tenant: TenantId
) -> None:
    jobs = await submit_stage_jobs(sessions, tenant, 25)

    pages, before = [], None
    while page := await list_ids(sessions, tenant, limit=10, before_id=before):
        pages.append(page)
        before = page[-1]

    assert [len(page) for page in pages] == [10, 10, 5]
    assert [job for page in pages for job in page] == jobs[::-1]


async def test_a_status_lists_exactly_the_jobs_that_have_it(sessions: Sessions, tenant: TenantId) -> None:
    jobs = await submit_one_of_each(sessions, tenant)

    assert {status: await list_ids(sessions, tenant, status=status) for status in Status} == jobs
    async with sessions.tenant(tenant) as conn:
        listed_jobs = await queries.list_jobs(conn, tenant)
    assert {job.job_id: job.status for job in listed_jobs} == {job: status for status in jobs for job in jobs[status]}


async def test_a_job_that_waited_for_another_and_was_cancelled_is_not_listed_as_queued(
    sessions: Sessions, tenant: TenantId
) -> None:
    [needed] = await submit_stage_jobs(sessions, tenant)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[needed])
    await end_job(sessions, tenant, needed, "FAILED")

    assert await list_ids(sessions, tenant, status=Status.QUEUED) == []
    assert await list_ids(sessions, tenant, status=Status.CANCELLED) == [blocked]


async def test_types_can_be_listed_alone_and_together_with_a_status(sessions: Sessions, tenant: TenantId) -> None:
    [mail] = await submit_stage_jobs(sessions, tenant, job_type="mail")
    [print_] = await submit_stage_jobs(sessions, tenant, job_type="print")
    await start_job(sessions, tenant, print_)

    assert await list_ids(sessions, tenant, job_type="mail") == [mail]
    assert await list_ids(sessions, tenant, job_type="print", status=Status.RUNNING) == [print_]
    assert await list_ids(sessions, tenant, job_type="mail", status=Status.RUNNING) == []
    assert await list_ids(sessions, tenant, job_type="fax") == []


async def test_times_are_kept_to_the_microsecond_from_included_until_excluded(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    now = await clock.now()
    moments = [now + timedelta(microseconds=step) for step in range(3)]
    jobs = []
    for moment in moments:
        await clock.stop_at(moment)
        jobs += await submit_stage_jobs(sessions, tenant)

    assert await list_ids(sessions, tenant, created_after=moments[1]) == [jobs[2], jobs[1]]
    assert await list_ids(sessions, tenant, created_before=moments[1]) == [jobs[0]]
    assert await list_ids(sessions, tenant, created_after=moments[1], created_before=moments[2]) == [jobs[1]]


async def test_a_follow_up_whose_id_was_made_long_before_it_was_stored_is_found_by_when_it_was_stored(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await clock.step(5 * 3600)  # the database's clock says when it is stored, ours made the id
    [job] = await submit_stage_jobs(sessions, tenant)
    stored = (await get_job(sessions, tenant, job)).created_at

    assert await list_ids(sessions, tenant, created_after=stored) == [job]
    assert await list_ids(sessions, tenant, created_before=stored) == []


@pytest.mark.parametrize("moment", [datetime.min, datetime.max, datetime(1969, 12, 31)])
async def test_times_far_away_are_times_too(sessions: Sessions, tenant: TenantId, moment: datetime) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    is_past = moment.year < 2000
    moment = moment.replace(tzinfo=UTC)

    assert await list_ids(sessions, tenant, created_after=moment) == ([job] if is_past else [])
    assert await list_ids(sessions, tenant, created_before=moment) == ([] if is_past else [job])


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"limit": -1},
        {"created_after": NOON.replace(tzinfo=None)},
        {"created_before": NOON.replace(tzinfo=None)},
        {"job_type": "no type\x00"},
    ],
)
async def test_what_cannot_be_asked_is_refused(sessions: Sessions, tenant: TenantId, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        await list_ids(sessions, tenant, **wrong)


async def test_a_page_has_as_many_jobs_as_it_is_asked_for(sessions: Sessions, tenant: TenantId) -> None:
    await submit_stage_jobs(sessions, tenant, 201)

    assert len(await list_ids(sessions, tenant, limit=200)) == 200
    assert len(await list_ids(sessions, tenant)) == 50
    assert len(await list_ids(sessions, tenant, limit=1)) == 1


# How the database finds a page: among many jobs that are over, by an index, and without sorting them.


@pytest.fixture
async def submit_many(
    sessions: Sessions, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> list[UUID]:
    """Twenty thousand jobs that succeeded, and one of each status above them."""
    jobs = await submit_stage_jobs(sessions, tenant, 20_000)
    await superuser.execute("DELETE FROM jobs.job_ready")
    await superuser.execute("UPDATE jobs.job SET status = 'SUCCEEDED', finished_at = now()")
    await submit_one_of_each(sessions, tenant)
    await superuser.execute("VACUUM ANALYZE jobs.job, jobs.job_ready, jobs.job_later, jobs.job_lease")
    return jobs


@dataclass(slots=True)
class Plan:
    """The indexes a statement uses, the tables it reads as a whole, and the blocks it touches."""

    indexes: set[tuple[str, str]] = field(default_factory=set)
    scanned: set[str] = field(default_factory=set)
    blocks: int = 0

    def add(self, node: dict[str, Any]) -> None:
        if "Index Name" in node:
            self.indexes.add((node["Index Name"], node.get("Scan Direction", "")))
        if node["Node Type"] == "Seq Scan":
            self.scanned.add(node["Relation Name"])
        for below in node.get("Plans", []):
            self.add(below)


async def explain_page(
    sessions: Sessions,
    tenant: UUID,
    status: Status | None,
    *,
    before: datetime | None = None,
    below: UUID | None = None,
) -> Plan:
    arguments = queries.build_page_arguments(tenant, None, before, below, None, 50)
    async with sessions.tenant(tenant) as conn:
        statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {queries.PAGE_QUERIES[status]}"
        top = json.loads(await conn.fetchval(statement, *arguments))[0]["Plan"]
    plan = Plan(blocks=top["Shared Hit Blocks"] + top["Shared Read Blocks"])
    plan.add(top)
    return plan


async def test_a_page_is_read_backwards_from_the_primary_key_however_deep_it_is(
    sessions: Sessions, tenant: TenantId, submit_many: list[UUID]
) -> None:
    for status, before_id in product((None, Status.SUCCEEDED), (None, submit_many[10_000], submit_many[100])):
        plan = await explain_page(sessions, tenant, status, below=before_id)

        assert ("job_pkey", "Backward") in plan.indexes
        assert "job" not in plan.scanned
        assert plan.blocks < 700


INDEXES = {Status.FAILED: "job_failed", Status.DEAD_LETTER: "job_failed", Status.RUNNING: None, Status.QUEUED: None}


@pytest.mark.usefixtures("submit_many")
async def test_the_few_that_fail_run_or_wait_are_found_without_passing_those_that_are_over(
    sessions: Sessions, tenant: TenantId
) -> None:
    for status, index in INDEXES.items():
        plan = await explain_page(sessions, tenant, status)

        assert index is None or index in {name for name, _ in plan.indexes}, status
        assert "job" not in plan.scanned, status
        assert plan.blocks < 100, status


@pytest.mark.usefixtures("submit_many")
async def test_a_page_of_a_time_starts_where_that_time_is(sessions: Sessions, tenant: TenantId) -> None:
    plan = await explain_page(sessions, tenant, None, before=NOON - timedelta(days=3650))

    assert plan.blocks < 10
