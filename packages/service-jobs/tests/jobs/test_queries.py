"""Specification of looking at jobs: as they are now, newest first, and only one's own."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.jobs import queries
from bpc.jobs.errors import InvalidInput, JobError, JobNotFound
from bpc.jobs.job import Job
from bpc.jobs.outcome import Status
from bpc.jobs.sessions import Sessions
from tests.jobs.fake_clock import Clock, clock  # noqa: F401 (a fixture)
from tests.jobs.stages import ended, running, submitted

pytestmark = pytest.mark.external

NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)


async def look(sessions: Sessions, tenant: UUID, job: UUID) -> Job:
    async with sessions.tenant(tenant) as conn:
        return await queries.get(conn, tenant, job)


async def listed(sessions: Sessions, tenant: UUID, **asked: object) -> list[UUID]:
    async with sessions.tenant(tenant) as conn:
        return [job.job_id for job in await queries.page(conn, tenant, **asked)]  # type: ignore[arg-type]


async def one_of_each(sessions: Sessions, tenant: TenantId) -> dict[Status, list[UUID]]:
    """Jobs of every status, and every way to be queued."""
    ready, runs, fine, refused, dead, gone = await submitted(sessions, tenant, 6)
    [later] = await submitted(sessions, tenant, delay=3600)
    [blocked] = await submitted(sessions, tenant, needs=[ready, runs])
    await running(sessions, tenant, runs)
    await ended(sessions, tenant, fine, "SUCCEEDED")
    await ended(sessions, tenant, refused, "FAILED")
    await ended(sessions, tenant, dead, "DEAD_LETTER")
    await ended(sessions, tenant, gone, "CANCELLED")
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
    [job] = await submitted(sessions, tenant, job_type="report", limit_key="printer", priority=1)

    found = await look(sessions, tenant, job)

    assert (found.tenant_id, found.job_id, found.type, found.status) == (tenant, job, "report", Status.QUEUED)
    assert (found.priority, found.attempts, found.max_attempts, found.limit_key) == (1, 0, 5, "printer")
    assert (found.correlation_id, found.actor) == ("corr", "tester")
    assert (found.started_at, found.finished_at, found.lease_owner, found.last_error) == (None, None, None, None)
    assert "hush" not in repr(found)


async def test_a_job_that_runs_shows_who_runs_it_and_which_attempt_it_is(sessions: Sessions, tenant: TenantId) -> None:
    [job] = await submitted(sessions, tenant)
    await ended(sessions, tenant, job, "RETRY")
    await running(sessions, tenant, job, owner="host-1")

    found = await look(sessions, tenant, job)

    assert (found.status, found.lease_owner, found.attempts) == (Status.RUNNING, "host-1", 2)
    assert found.started_at is not None
    assert found.lease_expires_at is not None
    assert found.last_error is not None
    assert found.last_error.message == "it broke"


async def test_another_tenants_job_does_not_exist(sessions: Sessions, tenant: TenantId, other_tenant: TenantId) -> None:
    [job] = await submitted(sessions, tenant)
    worker = await sessions.worker("test")  # sees all jobs, and still asks for one tenant's

    for conn_of in (other_tenant, tenant):
        async with sessions.tenant(conn_of) as conn:
            for look_for in (queries.get, queries.result_text):
                with pytest.raises(JobNotFound, match=f"there is no job `{job}`"):
                    await look_for(conn, other_tenant, job)
    with pytest.raises(JobNotFound):
        await queries.get(worker, other_tenant, job)
    assert await queries.page(worker, other_tenant) == []
    assert len(await queries.page(worker, tenant)) == 1
    await worker.close()
    assert await listed(sessions, other_tenant) == []


async def test_the_result_comes_with_the_status_and_the_last_error(sessions: Sessions, tenant: TenantId) -> None:
    waits, runs, fine, refused = await submitted(sessions, tenant, 4)
    await running(sessions, tenant, runs)
    await ended(sessions, tenant, fine, "SUCCEEDED", result='{"answer":42}')
    await ended(sessions, tenant, refused, "FAILED")

    async with sessions.tenant(tenant) as conn:
        found = [await queries.result_text(conn, tenant, job) for job in (waits, runs, fine, refused)]

    assert found[:3] == [
        (Status.QUEUED, None, None),
        (Status.RUNNING, None, None),
        (Status.SUCCEEDED, '{"answer":42}', None),
    ]
    assert found[3] == (Status.FAILED, None, JobError(code="INTERNAL_ERROR", message="it broke", retryable=True))


async def test_the_newest_come_first_and_pages_follow_each_other_without_gap_or_double(
    sessions: Sessions, tenant: TenantId
) -> None:
    jobs = await submitted(sessions, tenant, 25)

    pages, before = [], None
    while found := await listed(sessions, tenant, limit=10, before_id=before):
        pages.append(found)
        before = found[-1]

    assert [len(found) for found in pages] == [10, 10, 5]
    assert [job for found in pages for job in found] == jobs[::-1]


async def test_a_status_lists_exactly_the_jobs_that_have_it(sessions: Sessions, tenant: TenantId) -> None:
    jobs = await one_of_each(sessions, tenant)

    assert {status: await listed(sessions, tenant, status=status) for status in Status} == jobs
    async with sessions.tenant(tenant) as conn:
        found = await queries.page(conn, tenant)
    assert {job.job_id: job.status for job in found} == {job: status for status in jobs for job in jobs[status]}


async def test_a_job_that_waited_for_another_and_was_cancelled_is_not_listed_as_queued(
    sessions: Sessions, tenant: TenantId
) -> None:
    [needed] = await submitted(sessions, tenant)
    [blocked] = await submitted(sessions, tenant, needs=[needed])
    await ended(sessions, tenant, needed, "FAILED")

    assert await listed(sessions, tenant, status=Status.QUEUED) == []
    assert await listed(sessions, tenant, status=Status.CANCELLED) == [blocked]


async def test_types_can_be_listed_alone_and_together_with_a_status(sessions: Sessions, tenant: TenantId) -> None:
    [mail] = await submitted(sessions, tenant, job_type="mail")
    [print_] = await submitted(sessions, tenant, job_type="print")
    await running(sessions, tenant, print_)

    assert await listed(sessions, tenant, job_type="mail") == [mail]
    assert await listed(sessions, tenant, job_type="print", status=Status.RUNNING) == [print_]
    assert await listed(sessions, tenant, job_type="mail", status=Status.RUNNING) == []
    assert await listed(sessions, tenant, job_type="fax") == []


async def test_times_are_kept_to_the_microsecond_from_included_until_excluded(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,  # noqa: F811
) -> None:
    now = await clock.now()
    moments = [now + timedelta(microseconds=step) for step in range(3)]
    jobs = []
    for moment in moments:
        await clock.stop_at(moment)
        jobs += await submitted(sessions, tenant)

    assert await listed(sessions, tenant, created_after=moments[1]) == [jobs[2], jobs[1]]
    assert await listed(sessions, tenant, created_before=moments[1]) == [jobs[0]]
    assert await listed(sessions, tenant, created_after=moments[1], created_before=moments[2]) == [jobs[1]]


async def test_a_follow_up_whose_id_was_made_long_before_it_was_stored_is_found_by_when_it_was_stored(
    sessions: Sessions,
    tenant: TenantId,
    clock: Clock,  # noqa: F811
) -> None:
    await clock.step(5 * 3600)  # the database's clock says when it is stored, ours made the id
    [job] = await submitted(sessions, tenant)
    stored = (await look(sessions, tenant, job)).created_at

    assert await listed(sessions, tenant, created_after=stored) == [job]
    assert await listed(sessions, tenant, created_before=stored) == []


@pytest.mark.parametrize("moment", [datetime.min, datetime.max, datetime(1969, 12, 31)])
async def test_times_far_away_are_times_too(sessions: Sessions, tenant: TenantId, moment: datetime) -> None:
    [job] = await submitted(sessions, tenant)
    is_past = moment.year < 2000
    moment = moment.replace(tzinfo=UTC)

    assert await listed(sessions, tenant, created_after=moment) == ([job] if is_past else [])
    assert await listed(sessions, tenant, created_before=moment) == ([] if is_past else [job])


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
        await listed(sessions, tenant, **wrong)


async def test_a_page_has_as_many_jobs_as_it_is_asked_for(sessions: Sessions, tenant: TenantId) -> None:
    await submitted(sessions, tenant, 201)

    assert len(await listed(sessions, tenant, limit=200)) == 200
    assert len(await listed(sessions, tenant)) == 50
    assert len(await listed(sessions, tenant, limit=1)) == 1


# How the database finds a page: among many jobs that are over, by an index, and without sorting them.


@pytest.fixture
async def many(sessions: Sessions, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]") -> list[UUID]:
    """Twenty thousand jobs that succeeded, and one of each status above them."""
    jobs = await submitted(sessions, tenant, 20_000)
    await superuser.execute("DELETE FROM jobs.job_ready")
    await superuser.execute("UPDATE jobs.job SET status = 'SUCCEEDED', finished_at = now()")
    await one_of_each(sessions, tenant)
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


async def plan_of(
    sessions: Sessions,
    tenant: UUID,
    status: Status | None,
    *,
    before: datetime | None = None,
    below: UUID | None = None,
) -> Plan:
    arguments = queries.arguments(tenant, None, before, below, None, 50)
    async with sessions.tenant(tenant) as conn:
        statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {queries.PAGES[status]}"
        top = json.loads(await conn.fetchval(statement, *arguments))[0]["Plan"]
    found = Plan(blocks=top["Shared Hit Blocks"] + top["Shared Read Blocks"])
    found.add(top)
    return found


async def test_a_page_is_read_backwards_from_the_primary_key_however_deep_it_is(
    sessions: Sessions, tenant: TenantId, many: list[UUID]
) -> None:
    for status, before_id in product((None, Status.SUCCEEDED), (None, many[10_000], many[100])):
        found = await plan_of(sessions, tenant, status, below=before_id)

        assert ("job_pkey", "Backward") in found.indexes
        assert "job" not in found.scanned
        assert found.blocks < 700


INDEXES = {Status.FAILED: "job_failed", Status.DEAD_LETTER: "job_failed", Status.RUNNING: None, Status.QUEUED: None}


@pytest.mark.usefixtures("many")
async def test_the_few_that_fail_run_or_wait_are_found_without_passing_those_that_are_over(
    sessions: Sessions, tenant: TenantId
) -> None:
    for status, index in INDEXES.items():
        found = await plan_of(sessions, tenant, status)

        assert index is None or index in {name for name, _ in found.indexes}, status
        assert "job" not in found.scanned, status
        assert found.blocks < 100, status


@pytest.mark.usefixtures("many")
async def test_a_page_of_a_time_starts_where_that_time_is(sessions: Sessions, tenant: TenantId) -> None:
    found = await plan_of(sessions, tenant, None, before=NOON - timedelta(days=3650))

    assert found.blocks < 10
