"""Specification of what people do to jobs: cancel them, and run them again."""

from uuid import UUID

import pytest
from service_jobs import job_control, queries
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.job import InvalidInput, Job, JobConflict, JobNotFound, Status, new_id
from service_jobs.job_control import CancelledJob, CancelRequest, RedrivenJob
from tests.jobs.support.job_stages import ERROR, SETTLE, end_job, start_job, submit_stage_jobs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external


async def cancel_job(
    sessions: Sessions, tenant: UUID, job: UUID, reason: str | None = None
) -> CancelledJob | CancelRequest:
    async with sessions.tenant(tenant) as conn:
        return await job_control.cancel_job(conn, tenant, job, reason)


async def redrive_job(sessions: Sessions, tenant: UUID, job: UUID) -> None:
    async with sessions.tenant(tenant) as conn:
        await job_control.redrive_job(conn, tenant, job)


async def get_job(sessions: Sessions, tenant: UUID, job: UUID) -> Job:
    async with sessions.tenant(tenant) as conn:
        return await queries.get_job(conn, tenant, job)


async def list_places(sessions: Sessions, tenant: UUID, job: UUID) -> list[str]:
    """Where the job is, of the places a job that is not over can be."""
    async with sessions.tenant(tenant) as conn:
        return [
            table
            for table in ("job_ready", "job_later", "job_lease")
            for _ in await conn.fetch(f"SELECT FROM jobs.{table} WHERE job_id = $1", job)
        ]


@pytest.mark.parametrize("delay", [None, 3600.0])
async def test_a_job_that_has_not_started_is_cancelled_at_once(
    sessions: Sessions, tenant: TenantId, delay: float | None
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant, delay=delay)

    assert await cancel_job(sessions, tenant, job, "ordered by mistake") == CancelledJob(job)

    job_view = await get_job(sessions, tenant, job)
    assert (job_view.status, job_view.is_over) == (Status.CANCELLED, True)
    assert job_view.finished_at is not None
    assert job_view.last_error is not None
    assert (job_view.last_error.code, job_view.last_error.message) == ("JOB_CANCELLED", "ordered by mistake")
    assert await list_places(sessions, tenant, job) == []


async def test_a_job_that_runs_is_asked_to_stop_and_may_be_asked_again(sessions: Sessions, tenant: TenantId) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await start_job(sessions, tenant, job)

    assert await cancel_job(sessions, tenant, job) == CancelRequest(job)
    assert await cancel_job(sessions, tenant, job) == CancelRequest(job)

    job_view = await get_job(sessions, tenant, job)
    assert (job_view.status, job_view.cancel_requested) == (Status.RUNNING, True)


@pytest.mark.parametrize("ending", ["CANCELLED", "RETRY", "RELEASE", "DEAD_LETTER"])
async def test_the_reason_for_stopping_a_job_that_runs_is_what_it_ends_with(
    sessions: Sessions, tenant: TenantId, ending: str
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await start_job(sessions, tenant, job)
    await cancel_job(sessions, tenant, job, "ordered by mistake")
    await cancel_job(sessions, tenant, job)  # who says nothing takes nothing back

    async with sessions.tenant(tenant) as conn:
        became = await conn.fetchval(SETTLE, tenant, job, "somebody", 1, ending, None, ERROR)

    job_view = await get_job(sessions, tenant, job)
    assert became == job_view.status == Status.CANCELLED
    assert job_view.last_error is not None
    assert (job_view.last_error.code, job_view.last_error.message) == ("JOB_CANCELLED", "ordered by mistake")


async def test_a_job_that_succeeds_or_fails_before_it_hears_of_it_ends_as_it_did(
    sessions: Sessions, tenant: TenantId
) -> None:
    for ending, message in (("SUCCEEDED", None), ("FAILED", "it broke")):
        [job] = await submit_stage_jobs(sessions, tenant)
        await start_job(sessions, tenant, job)
        await cancel_job(sessions, tenant, job, "ordered by mistake")

        await end_job(sessions, tenant, job, ending)

        job_view = await get_job(sessions, tenant, job)
        assert (job_view.status, None if job_view.last_error is None else job_view.last_error.message) == (
            ending,
            message,
        )


async def test_cancelling_a_job_cancels_those_that_wait_for_it_and_says_which_it_was(
    sessions: Sessions, tenant: TenantId
) -> None:
    [needed] = await submit_stage_jobs(sessions, tenant)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[needed])

    await cancel_job(sessions, tenant, needed)

    job_view = await get_job(sessions, tenant, blocked)
    assert job_view.status is Status.CANCELLED
    assert job_view.last_error is not None
    assert job_view.last_error.details["because_of"] == str(needed)


async def test_a_job_that_waits_for_others_can_be_cancelled_itself(sessions: Sessions, tenant: TenantId) -> None:
    [needed] = await submit_stage_jobs(sessions, tenant)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[needed])

    assert await cancel_job(sessions, tenant, blocked) == CancelledJob(blocked)
    assert (await get_job(sessions, tenant, needed)).status is Status.QUEUED


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_a_job_that_is_over_cannot_be_cancelled(sessions: Sessions, tenant: TenantId, status: str) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, job, status)
    before = await get_job(sessions, tenant, job)

    with pytest.raises(JobConflict, match=f"is over: it ended {status}") as refused:
        await cancel_job(sessions, tenant, job)

    assert refused.value.details == {"job_id": str(job), "status": status}
    assert await get_job(sessions, tenant, job) == before


async def test_what_is_not_there_or_is_another_tenants_is_not_found(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, job, "FAILED")

    for change in (cancel_job, redrive_job):
        for whose, which in ((other_tenant, job), (tenant, new_id())):
            with pytest.raises(JobNotFound):
                await change(sessions, whose, which)

    assert (await get_job(sessions, tenant, job)).status is Status.FAILED


async def test_a_transaction_of_one_tenant_cannot_change_anothers_jobs(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId
) -> None:
    [job] = await submit_stage_jobs(sessions, other_tenant)

    for change in (job_control.cancel_job, job_control.redrive_job):
        with pytest.raises(Exception, match="this transaction belongs to tenant"):
            async with sessions.tenant(tenant) as conn:
                await change(conn, other_tenant, job)


@pytest.mark.parametrize("reason", ["x" * 501, "nul \x00"])
async def test_a_reason_that_cannot_be_kept_is_refused(sessions: Sessions, tenant: TenantId, reason: str) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)

    with pytest.raises(InvalidInput):
        await cancel_job(sessions, tenant, job, reason)


@pytest.mark.parametrize("status", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_a_job_that_ended_badly_is_run_again_with_all_its_attempts(
    sessions: Sessions, tenant: TenantId, status: str
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, job, status)

    await redrive_job(sessions, tenant, job)

    job_view = await get_job(sessions, tenant, job)
    assert (job_view.status, job_view.attempts, job_view.finished_at) == (Status.QUEUED, 0, None)
    assert await list_places(sessions, tenant, job) == ["job_ready"]


async def test_a_job_that_waits_for_its_time_is_run_now_and_keeps_its_attempts(
    sessions: Sessions, tenant: TenantId
) -> None:
    [job] = await submit_stage_jobs(sessions, tenant, delay=3600)

    await redrive_job(sessions, tenant, job)

    assert await list_places(sessions, tenant, job) == ["job_ready"]


async def test_a_job_that_waits_for_a_worker_or_for_another_job_is_not_run_again_and_the_reason_is_named(
    sessions: Sessions, tenant: TenantId
) -> None:
    [ready] = await submit_stage_jobs(sessions, tenant)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[ready])

    with pytest.raises(JobConflict, match=f"`{ready}` cannot be run again: it already waits for a worker") as waits:
        await redrive_job(sessions, tenant, ready)
    with pytest.raises(JobConflict, match=f"`{blocked}` cannot be run again: it waits for job {ready}") as needs:
        await redrive_job(sessions, tenant, blocked)

    assert (waits.value.fix, waits.value.details["status"]) == ("start a worker, if none runs", "QUEUED")
    assert (needs.value.fix, needs.value.details["job_id"]) == (
        "run that one again, or wait until it succeeds",
        str(blocked),
    )
    assert await list_places(sessions, tenant, ready) == ["job_ready"]
    assert await list_places(sessions, tenant, blocked) == []


async def test_running_a_job_again_brings_back_those_that_were_cancelled_because_of_it(
    sessions: Sessions, tenant: TenantId
) -> None:
    [needed] = await submit_stage_jobs(sessions, tenant)
    [blocked] = await submit_stage_jobs(sessions, tenant, needs=[needed])
    await end_job(sessions, tenant, needed, "FAILED")

    await redrive_job(sessions, tenant, needed)

    assert (await get_job(sessions, tenant, blocked)).status is Status.QUEUED


async def test_other_jobs_cannot_be_run_again_and_the_next_step_is_named(sessions: Sessions, tenant: TenantId) -> None:
    runs, fine, needed = await submit_stage_jobs(sessions, tenant, 3)
    [blocked], [gone] = [await submit_stage_jobs(sessions, tenant, needs=[needed]) for _ in range(2)]
    await start_job(sessions, tenant, runs)
    await end_job(sessions, tenant, fine, "SUCCEEDED")
    await cancel_job(sessions, tenant, gone)
    await cancel_job(sessions, tenant, needed)

    said = {}
    for job in (runs, fine, blocked, gone):
        with pytest.raises(JobConflict) as refused:
            await redrive_job(sessions, tenant, job)
        said[job] = (refused.value.details["status"], refused.value.fix)

    assert said == {
        runs: ("RUNNING", "wait until it ends, or cancel it first"),
        fine: ("SUCCEEDED", "submit a new job to do it again"),
        blocked: ("CANCELLED", f"run job {needed} again, which this one depends on"),
        gone: ("CANCELLED", f"run job {needed} again, which this one depends on"),
    }


# All that ended badly


async def submit_failed_jobs(sessions: Sessions, tenant: UUID, count: int = 1, *, job_type: str = "work") -> list[UUID]:
    """So many that failed, and as many dead letters."""
    jobs = await submit_stage_jobs(sessions, tenant, 2 * count, job_type=job_type)
    for at, job in enumerate(jobs):
        await end_job(sessions, tenant, job, "FAILED" if at < count else "DEAD_LETTER")
    return jobs


async def redrive_many(
    conn: Connection, tenant: UUID, *, job_type: str | None = None, status: Status | None = None, limit: int = 100
) -> list[RedrivenJob]:
    now = await conn.fetchval("SELECT jobs.clock()")
    return await job_control.redrive_failed_jobs(
        conn, tenant, job_type=job_type, status=status, failed_before=now, limit=limit
    )


async def test_all_jobs_of_a_tenant_that_ended_badly_are_run_again_and_nobody_elses(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId
) -> None:
    mine, theirs = await submit_failed_jobs(sessions, tenant, 2), await submit_failed_jobs(sessions, other_tenant)
    [fine] = await submit_stage_jobs(sessions, tenant)
    await end_job(sessions, tenant, fine, "SUCCEEDED")

    async with sessions.tenant(tenant) as conn:
        before = await job_control.count_failed_jobs(conn, tenant)
        done = len(await redrive_many(conn, tenant))
        after = await job_control.count_failed_jobs(conn, tenant)

    assert (before, done, after) == (4, 4, 0)
    assert {(await get_job(sessions, tenant, job)).status for job in mine} == {Status.QUEUED}
    assert Status.QUEUED not in {(await get_job(sessions, other_tenant, job)).status for job in theirs}
    assert (await get_job(sessions, tenant, fine)).status is Status.SUCCEEDED


async def test_a_type_a_status_and_a_limit_narrow_it_down(sessions: Sessions, tenant: TenantId) -> None:
    await submit_failed_jobs(sessions, tenant, 2, job_type="mail")
    await submit_failed_jobs(sessions, tenant, 2, job_type="print")

    async with sessions.tenant(tenant) as conn:
        mail = await redrive_many(conn, tenant, job_type="mail", status=Status.FAILED)
        dead = await redrive_many(conn, tenant, status=Status.DEAD_LETTER, limit=3)
        left = [await job_control.count_failed_jobs(conn, tenant, job_type=name) for name in ("mail", "print")]

    assert (len(mail), len(dead)) == (2, 3)
    assert sum(left) == 3
    assert left[1] >= 2


async def test_those_that_ended_first_are_run_first_and_each_chunk_is_a_transaction(
    sessions: Sessions, tenant: TenantId
) -> None:
    jobs = await submit_failed_jobs(sessions, tenant, 3)

    seen = []
    async with sessions.acquire() as conn:  # bound to no tenant and in no transaction: each chunk does both
        for _ in range(3):
            chunk = await redrive_many(conn, tenant, limit=2)
            seen.append([(job.job_id, job.type, job.status, job.attempts) for job in chunk])
            assert [(await get_job(sessions, tenant, job.job_id)).status for job in chunk] == [Status.QUEUED] * len(
                chunk
            )

    failed, dead = Status.FAILED, Status.DEAD_LETTER
    ended_as = [failed, failed, failed, dead, dead, dead]
    expected = [(job, "work", status, 1) for job, status in zip(jobs, ended_as, strict=True)]
    assert seen == [expected[:2], expected[2:4], expected[4:]]


async def test_what_ends_badly_later_than_the_moment_that_was_named_is_left_alone(
    sessions: Sessions, tenant: TenantId
) -> None:
    async with sessions.tenant(tenant) as conn:
        before = await conn.fetchval("SELECT jobs.clock()")
    await submit_failed_jobs(sessions, tenant)

    async with sessions.tenant(tenant) as conn:
        assert (
            await job_control.redrive_failed_jobs(
                conn, tenant, job_type=None, status=None, failed_before=before, limit=9
            )
            == []
        )


async def test_a_job_somebody_is_changing_right_now_is_left_to_them(sessions: Sessions, tenant: TenantId) -> None:
    jobs = await submit_failed_jobs(sessions, tenant)

    async with sessions.tenant(tenant) as theirs:
        await job_control.redrive_job(theirs, tenant, jobs[0])
        async with sessions.tenant(tenant) as ours:
            assert [job.job_id for job in await redrive_many(ours, tenant)] == [jobs[1]]

    assert {(await get_job(sessions, tenant, job)).status for job in jobs} == {Status.QUEUED}


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.SUCCEEDED, Status.CANCELLED])
async def test_only_bad_ends_are_run_again(sessions: Sessions, tenant: TenantId, status: Status) -> None:
    async with sessions.tenant(tenant) as conn:
        for ask in (redrive_many, job_control.count_failed_jobs):
            with pytest.raises(InvalidInput, match=f"can be redriven in bulk, not {status}"):
                await ask(conn, tenant, status=status)
            with pytest.raises(InvalidInput, match="a job type has 1 to 100 letters"):
                await ask(conn, tenant, job_type="no type")
