"""Specification of jobs in this product: the engine on our database, and what people do to jobs on record."""

import asyncio
from uuid import UUID

import pytest
from service_jobs import queries
from service_jobs.job import JobConflict, JobNotFound, Status
from service_jobs.job_control import CancelledJob, CancelRequest
from tests.jobs.support.job_stages import end_job, start_job
from tests.jobs.support.job_stages import submit_stage_jobs as many_submitted

from bpc.core.audit.events import Act, EventStream, StoredEvent
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage import jobs as recorded
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.storage.access_and_job_rows import submit_job

pytestmark = pytest.mark.external


async def read_job_chain(database: Database, tenant: TenantId, job: UUID) -> list[StoredEvent]:
    async with database.tenant(tenant) as conn:
        return await events.read_chain(conn, EventStream(tenant, "Job", AggregateId(job)))


def list_types_and_payloads(stored: list[StoredEvent]) -> list[tuple[str, bytes]]:
    return [(row.event.event_type, row.event.payload_canonical) for row in stored]


async def test_the_engine_submits_as_the_application_and_works_as_the_system(
    database: Database, tenant: TenantId
) -> None:
    async with recorded.open_job_sessions(database, size=2) as sessions:
        async with sessions.tenant(tenant) as conn:
            as_tenant = await conn.fetchrow("SELECT current_user::text, current_tenant()")
        async with sessions.acquire() as conn:
            plainly = await conn.fetchrow("SELECT current_user::text, current_tenant()")
        worker = await sessions.connect_worker("test")
        as_worker = await worker.fetchrow("SELECT current_user::text, current_tenant()")
        await worker.close()

    assert [tuple(row) for row in (as_tenant, plainly, as_worker) if row] == [
        ("bpc_app", tenant),
        ("bpc_app", None),
        ("bpc_system", None),
    ]


async def test_cancelling_a_job_appends_an_event_in_the_same_transaction(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        job = await submit_job(conn, tenant)
    with pytest.raises(ZeroDivisionError):
        async with database.tenant(tenant) as conn:
            await recorded.cancel_job(conn, tenant, job, act=act)
            raise ZeroDivisionError
    before = await read_job_chain(database, tenant, job)

    async with database.tenant(tenant) as conn:
        outcome = await recorded.cancel_job(conn, tenant, job, act=act, reason="a mistake")

    assert before == []
    assert outcome == CancelledJob(job)
    assert list_types_and_payloads(await read_job_chain(database, tenant, job)) == [
        ("JOB_CANCELLED", b'{"reason":"a mistake","requested":false,"type":"WORK"}')
    ]


async def test_asking_a_running_job_to_stop_appends_an_event(database: Database, tenant: TenantId, act: Act) -> None:
    async with recorded.open_job_sessions(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await start_job(sessions, tenant, job)

    async with database.tenant(tenant) as conn:
        outcome = await recorded.cancel_job(conn, tenant, job, act=act)
    async with database.tenant(tenant) as conn:
        again = await recorded.cancel_job(conn, tenant, job, act=act, reason="once more")

    assert outcome == again == CancelRequest(job)
    assert list_types_and_payloads(await read_job_chain(database, tenant, job)) == [
        ("JOB_CANCELLED", b'{"reason":null,"requested":true,"type":"work"}')
    ]


async def test_two_concurrent_requests_to_stop_a_running_job_append_one_event(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with recorded.open_job_sessions(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await start_job(sessions, tenant, job)

    async def ask() -> CancelledJob | CancelRequest:
        async with database.tenant(tenant) as conn:
            return await recorded.cancel_job(conn, tenant, job, act=act)

    outcomes = await asyncio.gather(*(ask() for _ in range(4)))

    assert outcomes == [CancelRequest(job)] * 4
    assert len(await read_job_chain(database, tenant, job)) == 1


async def test_retrying_a_cancelled_job_appends_an_event(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        job = await submit_job(conn, tenant)
        await recorded.cancel_job(conn, tenant, job, act=act)

        await recorded.retry_job(conn, tenant, job, act=act)

        assert (await queries.get_job(conn, tenant, job)).status is Status.QUEUED
    assert [name for name, _ in list_types_and_payloads(await read_job_chain(database, tenant, job))] == [
        "JOB_CANCELLED",
        "JOB_RETRIED",
    ]


async def test_retrying_a_job_appends_an_event_with_its_type_status_and_attempts(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with recorded.open_job_sessions(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await end_job(sessions, tenant, job, "DEAD_LETTER")

    async with database.tenant(tenant) as conn:
        await recorded.retry_job(conn, tenant, job, act=act)
        status = (await queries.get_job(conn, tenant, job)).status

    assert status is Status.QUEUED
    assert list_types_and_payloads(await read_job_chain(database, tenant, job)) == [
        ("JOB_RETRIED", b'{"attempts":1,"status":"DEAD_LETTER","type":"work"}')
    ]


async def test_a_refused_change_of_a_job_appends_no_event(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with recorded.open_job_sessions(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await end_job(sessions, tenant, job, "SUCCEEDED")
        [ready] = await many_submitted(sessions, tenant)
        [blocked] = await many_submitted(sessions, tenant, needs=[ready])

    for waiting in (ready, blocked):
        async with database.tenant(tenant) as conn:
            with pytest.raises(JobConflict, match="waits for"):
                await recorded.retry_job(conn, tenant, waiting, act=act)
        assert await read_job_chain(database, tenant, waiting) == []
    for change in (recorded.cancel_job, recorded.retry_job):
        async with database.tenant(tenant) as conn:
            with pytest.raises(JobConflict):
                await change(conn, tenant, job, act=act)
        for whose, which in ((other_tenant, job), (tenant, clock.new_id())):
            async with database.tenant(whose) as conn:
                with pytest.raises(JobNotFound):
                    await change(conn, whose, which, act=act)

    assert await read_job_chain(database, tenant, job) == []
    async with database.tenant(tenant) as conn:
        assert (await events.verify_tenant(conn, tenant)).faults == ()


async def test_all_failed_jobs_are_retried_in_chunks_with_an_event_each(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "RETRY_CHUNK", 2)
    async with recorded.open_job_sessions(database) as sessions:
        jobs = await many_submitted(sessions, tenant, 6)
        for job in jobs[:5]:
            await end_job(sessions, tenant, job, "FAILED")

    everything = {"job_type": None, "status": None, "act": act}
    first = await recorded.retry_jobs(database, tenant, limit=3, **everything)  # type: ignore[arg-type]
    second = await recorded.retry_jobs(database, tenant, limit=100, **everything)  # type: ignore[arg-type]
    none = await recorded.retry_jobs(database, tenant, limit=100, **everything)  # type: ignore[arg-type]

    assert (first, second, none) == (3, 2, 0)
    assert [len(await read_job_chain(database, tenant, job)) for job in jobs] == [1, 1, 1, 1, 1, 0]
