"""The job engine in this product: on our database, with our roles, and what people do to jobs on record.

    async with sessions_of(database) as sessions:     requests as bpc_app, workers as bpc_system
        jobs = Jobs(handlers, sessions)

Looking at jobs needs no bridge: `bpc.jobs.queries` takes a connection of `database.tenant(…)` as it is.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import asyncpg

from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.db import events, tenants
from bpc.db.address import Address
from bpc.db.connection import Connection, connect
from bpc.db.database import Database, as_system
from bpc.db.roles import APP, SYSTEM
from bpc.jobs import Defaults, Handler, changes, queries
from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.errors import JobConflict
from bpc.jobs.ids import new_id
from bpc.jobs.outcome import Status
from bpc.jobs.rabbit import RabbitTrigger
from bpc.jobs.schedules import TWO_WEEKS
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import Manner, Rows, submit
from bpc.settings import Settings

I = TypeVar("I")  # noqa: E741 (input)

ENDED_WITHOUT_SUCCESS: Final = frozenset({Status.FAILED, Status.CANCELLED, Status.DEAD_LETTER})
PAYLOAD: Final[LiteralString] = "SELECT payload::text FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"
BOUND: Final[LiteralString] = "SELECT coalesce(current_setting('app.tenant_id', true), '')"
BIND: Final[LiteralString] = "SELECT set_config('app.tenant_id', $1, true)"
AT_ONCE: Final = 100  # jobs that are retried, and their events, in one transaction


def sessions_at(address: Address, *, size: int) -> Sessions:
    """Sessions that are not open yet."""

    async def connected(*_: object, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        # The driver's pool says by position that it knows no address.
        return await connect(**address.connect_arguments() | named)

    return Sessions(connected, size=size, role=APP, worker_role=SYSTEM)


@asynccontextmanager
async def sessions_of(database: Database, *, size: int | None = None) -> AsyncIterator[Sessions]:
    """Sessions for the job engine, at most `size` or as many as the database's pool has, besides the workers' own."""
    sessions = sessions_at(database.address, size=size or database.pool.get_max_size())
    await sessions.open()
    try:
        yield sessions
    finally:
        await sessions.close()


def defaults_of(settings: Settings) -> Defaults:
    """What handlers leave open, for whoever submits jobs or runs them."""
    return Defaults(
        attempts=settings.jobs_max_attempts_default,
        ttl=timedelta(days=settings.jobs_ttl_days),
        memory_capacity=settings.jobs_channel_capacity,
        memory_concurrency=settings.jobs_memory_concurrency,
        cancel_grace=settings.jobs_cancel_grace_seconds,
    )


def bell_of(settings: Settings) -> RabbitTrigger | None:
    """RabbitMQ as a second bell, where that is wanted."""
    if not settings.queue_enabled:
        return None
    return RabbitTrigger(settings.queue_url.get_secret_value(), settings.queue_exchange, settings.queue_routing_key)


async def submit_to(
    conn: Connection,
    tenant: TenantId,
    handler: Handler[I, Any],
    value: I,
    *,
    key: str,
    priority: int = 2,
    attempts: int = 5,
    ttl: timedelta = TWO_WEEKS,
) -> UUID:
    """A job in any tenant, in a transaction of the system role, which stays bound to its own."""
    manner = Manner(
        tenant=tenant,
        type=handler.type,
        priority=priority,
        max_attempts=handler.retry.attempts or attempts,
        keep_seconds=int((handler.ttl or ttl).total_seconds()),
    )
    own = await conn.fetchval(BOUND)
    await conn.execute(BIND, str(tenant))
    [job_id] = await submit(conn, manner, Rows(ids=[new_id()], payloads=[handler.input_text(value)], keys=[key]))
    await conn.execute(BIND, own)
    return job_id


async def submit_to_all(conn: Connection, handler: Handler[I, Any], value: I, *, key: str, priority: int) -> None:
    """A job in every tenant, in a transaction of the application: who works through all of them starts here."""
    async with as_system(conn):
        for tenant in await tenants.every(conn):
            await submit_to(conn, tenant.tenant_id, handler, value, key=key, priority=priority)


async def cancel(
    conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act, reason: str | None = None
) -> Cancelled | Cancelling:
    """Cancel a job and put that on record, in the caller's transaction. Refuses as `changes.cancel` does.

    One that runs and was asked to stop before is not asked again.
    """
    job = await queries.get(conn, tenant, job_id)
    if await changes.is_cancelling(conn, tenant, job_id):
        return Cancelling(job_id)
    outcome = await changes.cancel(conn, tenant, job_id, reason)
    payload = {"type": job.type, "reason": reason, "requested": isinstance(outcome, Cancelling)}
    await events.append(conn, _stream(tenant, job_id), act.says("JOB_CANCELLED", payload))
    return outcome


async def retry(conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act) -> None:
    """Run a job again and put that on record, in the caller's transaction. Refuses as `changes.redrive` does."""
    job = await queries.get(conn, tenant, job_id)
    await changes.redrive(conn, tenant, job_id)
    await _retried(conn, tenant, job_id, job.type, job.status, job.attempts, act)


async def retry_if_over(conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act) -> None:
    """Run a job again, on record, if it ended FAILED, CANCELLED or DEAD_LETTER; in any other state leave it alone."""
    if (await queries.get(conn, tenant, job_id)).status in ENDED_WITHOUT_SUCCESS:
        with suppress(JobConflict):  # somebody else has done it by now
            await retry(conn, tenant, job_id, act=act)


async def payload_of(conn: Connection, tenant: TenantId, job_id: UUID) -> str:
    """What a job was given, as JSON. It may be private: for the job's own handler."""
    found: str = await conn.fetchval(PAYLOAD, tenant, job_id)
    return found


async def retry_all(
    database: Database, tenant: TenantId, *, job_type: str | None, status: Status | None, limit: int, act: Act
) -> int:
    """Run all jobs again that ended badly until now, at most `limit`, each on record: how many.

    In transactions of a hundred, so that what is done stays done if it is interrupted.
    """
    async with database.tenant(tenant) as conn:
        before = await conn.fetchval("SELECT jobs.clock()")
    done = 0
    while done < limit:
        wanted = min(AT_ONCE, limit - done)
        async with database.tenant(tenant) as conn:
            chunk = await changes.redrive_chunk(
                conn, tenant, job_type=job_type, status=status, before=before, limit=wanted
            )
            for job in chunk:
                await _retried(conn, tenant, job.job_id, job.type, job.status, job.attempts, act)
        done += len(chunk)
        if len(chunk) < wanted:
            break
    return done


async def _retried(
    conn: Connection, tenant: TenantId, job_id: UUID, job_type: str, status: Status, attempts: int, act: Act
) -> None:
    payload = {"type": job_type, "status": str(status), "attempts": attempts}
    await events.append(conn, _stream(tenant, job_id), act.says("JOB_RETRIED", payload))


def _stream(tenant: TenantId, job_id: UUID) -> Stream:
    return Stream(tenant, "Job", AggregateId(job_id))
