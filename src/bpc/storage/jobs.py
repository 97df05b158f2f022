"""The job engine on our database and with our roles; what people do to jobs, each with an event.

    async with open_jobs(settings, database, handlers, metrics=…) as (jobs, trigger):
        …                                                   requests as bpc_app, workers as bpc_system

To read jobs, pass a connection of `database.tenant(…)` to `service_jobs.queries`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, LiteralString, TypeVar, Unpack, get_args
from uuid import UUID

import asyncpg
from service_jobs import (
    Defaults,
    Handler,
    Handlers,
    Job,
    JobColumns,
    Jobs,
    Metrics,
    ProcessPool,
    Subject,
    SubmitOptions,
    job_control,
    queries,
    submit_jobs,
)
from service_jobs.database import Sessions
from service_jobs.job import JobConflict, JobError, Status, new_id
from service_jobs.job_control import CancelledJob, CancelRequest
from service_jobs.schedules import Schedule
from service_jobs.worker.rabbitmq import RabbitTrigger

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.connection import APP_ROLE, PLAN_SETTINGS, SYSTEM_ROLE, Connection, connect
from bpc.storage.database import Database, use_system_role
from bpc.storage.passports.product_names import find_skus_by_text

InputT = TypeVar("InputT")

SubjectKind = Literal[
    "battery_batch",
    "battery_transfer",
    "compile_run",
    "document",
    "document_version",
    "item_run",
    "passport_version",
    "retention_run",
    "rule_package_version",
    "snapshot",
    "webhook_delivery",
]
SUBJECT_KINDS: Final[tuple[SubjectKind, ...]] = get_args(SubjectKind)
UNSUCCESSFUL_STATUSES: Final = frozenset({Status.FAILED, Status.CANCELLED, Status.DEAD_LETTER})
SELECT_PAYLOAD: Final[LiteralString] = "SELECT payload::text FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"
SELECT_BOUND_TENANT: Final[LiteralString] = "SELECT coalesce(current_setting('app.tenant_id', true), '')"
BIND_TENANT: Final[LiteralString] = "SELECT set_config('app.tenant_id', $1, true)"
SERVICE_ID: Final = "bpc"  # `ctx.service_id` of every job that this product submits
CONNECTION_NAME: Final = "bpc jobs"  # in pg_stat_activity and in RabbitMQ
RETRY_CHUNK: Final = 100  # jobs that are retried, with their events, in one transaction


def make_subject(kind: SubjectKind, subject_id: UUID, *, sku: str | None = None) -> Subject:
    """What a job is about. The engine keeps the SKU of the product as the group, which follow-up jobs inherit."""
    return Subject(kind, str(subject_id), sku)


def make_job_sessions(address: Address, *, size: int) -> Sessions:
    """Sessions for the job engine; the caller opens and closes them."""

    async def open_job_connection(*_: object, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
        # The driver's pool passes positional arguments without an address.
        options["server_settings"] = PLAN_SETTINGS | options["server_settings"]
        return await connect(**address.connect_arguments() | options)

    return Sessions(
        open_job_connection, size=size, role=APP_ROLE, worker_role=SYSTEM_ROLE, application_name=CONNECTION_NAME
    )


@asynccontextmanager
async def open_job_sessions(database: Database, *, size: int | None = None) -> AsyncIterator[Sessions]:
    """Open sessions for the job engine: at most `size`, or as many as the database's pool, plus the workers' own."""
    sessions = make_job_sessions(database.address, size=size or database.pool.get_max_size())
    await sessions.open()
    try:
        yield sessions
    finally:
        await sessions.close()


@asynccontextmanager
async def open_jobs(
    settings: Settings,
    database: Database,
    handlers: Handlers,
    *,
    metrics: Metrics,
    processes: ProcessPool | None = None,
) -> AsyncIterator[tuple[Jobs, RabbitTrigger | None]]:
    """Open the job engine with the job types in `handlers`, and the RabbitMQ trigger if the settings enable it."""
    trigger, defaults = make_rabbit_trigger(settings), make_job_defaults(settings)
    async with open_job_sessions(database) as sessions:
        jobs = Jobs(
            handlers,
            sessions,
            defaults=defaults,
            metrics=metrics,
            processes=processes,
            trigger=trigger,
            service_id=SERVICE_ID,
        )
        try:
            yield jobs, trigger
        finally:
            await jobs.close()
            if trigger is not None:
                await trigger.close()


def make_job_defaults(settings: Settings) -> Defaults:
    """The defaults of jobs, from the settings."""
    return Defaults(
        attempts=settings.jobs_max_attempts_default,
        ttl=timedelta(days=settings.jobs_ttl_days),
        dead_letter_ttl=timedelta(days=settings.jobs_dead_letter_ttl_days),
        memory_capacity=settings.jobs_channel_capacity,
        memory_concurrency=settings.jobs_memory_concurrency,
        cancel_grace=settings.jobs_cancel_grace_seconds,
    )


def make_rabbit_trigger(settings: Settings) -> RabbitTrigger | None:
    """The RabbitMQ trigger, if the settings enable it."""
    if not settings.queue_enabled:
        return None
    return RabbitTrigger(
        settings.queue_url.get_secret_value(),
        settings.queue_exchange,
        settings.queue_routing_key,
        connection_name=CONNECTION_NAME,
    )


def make_job_metrics() -> Metrics:
    """The engine's metrics, with the product's prefix."""
    return Metrics("bpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOrder:
    """The stored input of a job that submits another job in every tenant: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """In how many tenants the job submitted another one."""

    tenants: int


async def submit_to_tenant(
    conn: Connection,
    tenant: TenantId,
    handler: Handler[InputT, Any],
    value: InputT,
    *,
    key: str,
    priority: int = 2,
    defaults: Defaults = Defaults(),  # noqa: B008 (frozen)
) -> UUID:
    """Submit a job in any tenant, in a transaction of the system role, which keeps its own tenant."""
    spec = SubmitOptions(
        tenant=tenant,
        type=handler.type,
        priority=priority,
        max_attempts=handler.retry.attempts or defaults.attempts,
        keep_seconds=int((handler.ttl or defaults.ttl).total_seconds()),
        service_id=SERVICE_ID,
    )
    previous_tenant = await conn.fetchval(SELECT_BOUND_TENANT)
    await conn.execute(BIND_TENANT, str(tenant))
    columns = JobColumns(
        ids=[new_id()],
        payloads=[handler.encode_input(value)],
        keys=[key],
        subjects=handler.find_subjects([value]),
    )
    [job_id] = await submit_jobs(conn, spec, columns)
    await conn.execute(BIND_TENANT, previous_tenant)
    return job_id


def make_sweep_schedule(name: str, cron: str, job_type: str, defaults: Defaults, *, priority: int) -> Schedule:
    """The schedule of a sweep, in the tenant `system`."""
    return Schedule(
        name=name,
        cron=cron,
        type=job_type,
        payload="{}",
        priority=priority,
        max_attempts=defaults.attempts,
        keep_seconds=int(defaults.ttl.total_seconds()),
    )


async def submit_to_all_tenants(
    conn: Connection, handler: Handler[InputT, Any], value: InputT, *, key: str, priority: int, defaults: Defaults
) -> SweepOutcome:
    """Submit a job in every tenant, in a transaction of the application."""
    async with use_system_role(conn):
        tenants = await tenants_and_actors.list_tenants(conn)
        for tenant in tenants:
            await submit_to_tenant(
                conn, tenant.tenant_id, handler, value, key=key, priority=priority, defaults=defaults
            )
    return SweepOutcome(tenants=len(tenants))


async def find_jobs(
    conn: Connection, tenant: TenantId, *, text: str | None = None, **filters: Unpack[queries.JobFilters]
) -> Sequence[Job]:
    """The newest jobs that match; `text` is a part of the SKU or the name of the product. Raises `TextTooCommon`."""
    if text is None:
        return await queries.list_jobs(conn, tenant, **filters)
    only_sku, limit = filters.get("subject_group"), filters.get("limit", queries.DEFAULT_PAGE_SIZE)
    rows: list[Job] = []
    for sku in await find_skus_by_text(conn, tenant, text):
        if only_sku in {None, sku}:
            filters["subject_group"] = sku
            rows += await queries.list_jobs(conn, tenant, **filters)
    return sorted(rows, key=lambda job: job.job_id, reverse=True)[:limit]


async def cancel_job(
    conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act, reason: str | None = None
) -> CancelledJob | CancelRequest:
    """Cancel a job and append an event, in the caller's transaction. Refuses as `job_control.cancel_job` does.

    A running job that was asked to stop before is not asked again.
    """
    job = await queries.get_job(conn, tenant, job_id)
    if await job_control.is_cancelling(conn, tenant, job_id):
        return CancelRequest(job_id)
    outcome = await job_control.cancel_job(conn, tenant, job_id, reason)
    payload = {"type": job.type, "reason": reason, "requested": isinstance(outcome, CancelRequest)}
    await events.append_act(conn, act, tenant, "Job", job_id, "JOB_CANCELLED", payload)
    return outcome


async def retry_job(conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act) -> None:
    """Run a job again and append an event, in the caller's transaction. Refuses as `job_control.redrive_job` does."""
    job = await queries.get_job(conn, tenant, job_id)
    await job_control.redrive_job(conn, tenant, job_id)
    await _append_retried(conn, tenant, job_id, job.type, job.status, job.attempts, act)


async def retry_if_unsuccessful(conn: Connection, tenant: TenantId, job_id: UUID, *, act: Act) -> None:
    """Run a job again if it ended FAILED, CANCELLED or DEAD_LETTER; in any other state do nothing."""
    if (await queries.get_job(conn, tenant, job_id)).status in UNSUCCESSFUL_STATUSES:
        with suppress(JobConflict):  # another request has retried it
            await retry_job(conn, tenant, job_id, act=act)


async def load_job_input(conn: Connection, tenant: TenantId, job_id: UUID, handler: Handler[InputT, Any]) -> InputT:
    """The stored input of a job. It may be private: for the job's own handler, in its `on_failure`."""
    return handler.decode_input(await conn.fetchval(SELECT_PAYLOAD, tenant, job_id))


def describe_failure(job_id: UUID, error: JobError) -> dict[str, object]:
    """What an event says of a job that ended FAILED or DEAD_LETTER."""
    # The message may quote a text of a rule or a document, and an event cannot hold U+0000.
    message = error.message.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return {"job_id": str(job_id), "code": error.code, "message": message}


async def retry_jobs(
    database: Database, tenant: TenantId, *, job_type: str | None, status: Status | None, limit: int, act: Act
) -> int:
    """Run the jobs again that have failed until now, at most `limit`, each with an event; return how many.

    Each transaction retries a hundred, so an interruption keeps what is done.
    """
    async with database.tenant(tenant) as conn:
        before = await conn.fetchval("SELECT jobs.clock()")
    retried_count = 0
    while retried_count < limit:
        chunk_size = min(RETRY_CHUNK, limit - retried_count)
        async with database.tenant(tenant) as conn:
            chunk = await job_control.redrive_failed_jobs(
                conn, tenant, job_type=job_type, status=status, failed_before=before, limit=chunk_size
            )
            for job in chunk:
                await _append_retried(conn, tenant, job.job_id, job.type, job.status, job.attempts, act)
        retried_count += len(chunk)
        if len(chunk) < chunk_size:
            break
    return retried_count


async def _append_retried(
    conn: Connection, tenant: TenantId, job_id: UUID, job_type: str, status: Status, attempts: int, act: Act
) -> None:
    payload = {"type": job_type, "status": str(status), "attempts": attempts}
    await events.append_act(conn, act, tenant, "Job", job_id, "JOB_RETRIED", payload)
