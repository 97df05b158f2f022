"""Specification of jobs in this product: the engine on our database, and what people do to jobs on record."""

import asyncio
from uuid import UUID

import pytest

from bpc import fresh
from bpc.core.events import Act, Stored, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.db import events
from bpc.db import jobs as recorded
from bpc.db.database import Database
from bpc.jobs import queries
from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.errors import JobConflict, JobNotFound
from bpc.jobs.outcome import Status
from tests.db.rows import submitted
from tests.jobs.stages import ended, running
from tests.jobs.stages import submitted as many_submitted

pytestmark = pytest.mark.external


async def chain(database: Database, tenant: TenantId, job: UUID) -> list[Stored]:
    async with database.tenant(tenant) as conn:
        return await events.read_chain(conn, Stream(tenant, "Job", AggregateId(job)))


def said(stored: list[Stored]) -> list[tuple[str, bytes]]:
    return [(each.event.event_type, each.event.payload_canonical) for each in stored]


async def test_the_engine_submits_as_the_application_and_works_as_the_system(
    database: Database, tenant: TenantId
) -> None:
    async with recorded.sessions_of(database, size=2) as sessions:
        async with sessions.tenant(tenant) as conn:
            as_tenant = await conn.fetchrow("SELECT current_user::text, current_tenant()")
        async with sessions.plain() as conn:
            plainly = await conn.fetchrow("SELECT current_user::text, current_tenant()")
        worker = await sessions.worker("test")
        as_worker = await worker.fetchrow("SELECT current_user::text, current_tenant()")
        await worker.close()

    assert [tuple(row) for row in (as_tenant, plainly, as_worker) if row] == [
        ("bpc_app", tenant),
        ("bpc_app", None),
        ("bpc_system", None),
    ]


async def test_cancelling_is_on_record_in_the_same_transaction(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        job = await submitted(conn, tenant)
    with pytest.raises(ZeroDivisionError):
        async with database.tenant(tenant) as conn:
            await recorded.cancel(conn, tenant, job, act=act)
            raise ZeroDivisionError
    before = await chain(database, tenant, job)

    async with database.tenant(tenant) as conn:
        outcome = await recorded.cancel(conn, tenant, job, act=act, reason="a mistake")

    assert before == []
    assert outcome == Cancelled(job)
    assert said(await chain(database, tenant, job)) == [
        ("JOB_CANCELLED", b'{"reason":"a mistake","requested":false,"type":"WORK"}')
    ]


async def test_asking_a_running_job_to_stop_is_on_record_too(database: Database, tenant: TenantId, act: Act) -> None:
    async with recorded.sessions_of(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await running(sessions, tenant, job)

    async with database.tenant(tenant) as conn:
        outcome = await recorded.cancel(conn, tenant, job, act=act)
    async with database.tenant(tenant) as conn:
        again = await recorded.cancel(conn, tenant, job, act=act, reason="once more")

    assert outcome == again == Cancelling(job)
    assert said(await chain(database, tenant, job)) == [
        ("JOB_CANCELLED", b'{"reason":null,"requested":true,"type":"work"}')
    ]


async def test_two_who_ask_a_running_job_to_stop_at_the_same_moment_are_one_event(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with recorded.sessions_of(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await running(sessions, tenant, job)

    async def ask() -> Cancelled | Cancelling:
        async with database.tenant(tenant) as conn:
            return await recorded.cancel(conn, tenant, job, act=act)

    outcomes = await asyncio.gather(*(ask() for _ in range(4)))

    assert outcomes == [Cancelling(job)] * 4
    assert len(await chain(database, tenant, job)) == 1


async def test_a_job_that_was_cancelled_is_retried_on_record(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        job = await submitted(conn, tenant)
        await recorded.cancel(conn, tenant, job, act=act)

        await recorded.retry(conn, tenant, job, act=act)

        assert (await queries.get(conn, tenant, job)).status is Status.QUEUED
    assert [name for name, _ in said(await chain(database, tenant, job))] == ["JOB_CANCELLED", "JOB_RETRIED"]


async def test_retrying_is_on_record_with_what_the_job_was(database: Database, tenant: TenantId, act: Act) -> None:
    async with recorded.sessions_of(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await ended(sessions, tenant, job, "DEAD_LETTER")

    async with database.tenant(tenant) as conn:
        await recorded.retry(conn, tenant, job, act=act)
        status = (await queries.get(conn, tenant, job)).status

    assert status is Status.QUEUED
    assert said(await chain(database, tenant, job)) == [
        ("JOB_RETRIED", b'{"attempts":1,"status":"DEAD_LETTER","type":"work"}')
    ]


async def test_what_is_refused_is_not_on_record(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with recorded.sessions_of(database) as sessions:
        [job] = await many_submitted(sessions, tenant)
        await ended(sessions, tenant, job, "SUCCEEDED")
        [ready] = await many_submitted(sessions, tenant)
        [blocked] = await many_submitted(sessions, tenant, needs=[ready])

    for waiting in (ready, blocked):
        async with database.tenant(tenant) as conn:
            with pytest.raises(JobConflict, match="waits for"):
                await recorded.retry(conn, tenant, waiting, act=act)
        assert await chain(database, tenant, waiting) == []
    for change in (recorded.cancel, recorded.retry):
        async with database.tenant(tenant) as conn:
            with pytest.raises(JobConflict):
                await change(conn, tenant, job, act=act)
        for whose, which in ((other_tenant, job), (tenant, fresh.new_id())):
            async with database.tenant(whose) as conn:
                with pytest.raises(JobNotFound):
                    await change(conn, whose, which, act=act)

    assert await chain(database, tenant, job) == []
    async with database.tenant(tenant) as conn:
        assert (await events.verify_tenant(conn, tenant)).faults == ()


async def test_all_that_ended_badly_is_retried_in_chunks_each_job_on_record(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "AT_ONCE", 2)
    async with recorded.sessions_of(database) as sessions:
        jobs = await many_submitted(sessions, tenant, 6)
        for job in jobs[:5]:
            await ended(sessions, tenant, job, "FAILED")

    everything = {"job_type": None, "status": None, "act": act}
    first = await recorded.retry_all(database, tenant, limit=3, **everything)  # type: ignore[arg-type]
    rest = await recorded.retry_all(database, tenant, limit=100, **everything)  # type: ignore[arg-type]
    none = await recorded.retry_all(database, tenant, limit=100, **everything)  # type: ignore[arg-type]

    assert (first, rest, none) == (3, 2, 0)
    assert [len(await chain(database, tenant, job)) for job in jobs] == [1, 1, 1, 1, 1, 0]
