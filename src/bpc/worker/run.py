"""Run a worker in this process until it is stopped.

async with run_worker(settings, database, key_ring=…) as worker:    # claims and runs jobs of all types
    await stop.wait()                                               # then running jobs may finish, others are released
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from service_jobs import Metrics, ProcessPool, Worker, WorkerOptions, schedules
from service_jobs.schedules import Schedule
from service_jobs.worker.maintenance import Chore, build_chores

from bpc.pipeline.facts import READ_LIMITS
from bpc.runtime.key_ring import SigningService
from bpc.runtime.settings import Settings
from bpc.storage.access import api_requests, tenants_and_actors
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import signing_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.jobs import make_job_metrics, open_jobs
from bpc.storage.webhooks import webhook_fanout
from bpc.tasks import ingest
from bpc.tasks.job_types import declare_job_types, list_nightly_schedules
from bpc.tasks.log_sequencer import keep_log
from bpc.tasks.status_lists import keep_status_lists
from bpc.worker.monitoring import (
    MonitoringSource,
    PipelineMetrics,
    WorkerHealth,
    make_monitoring_source,
    serve_monitoring,
)

__all__ = ["MonitoringSource", "WorkerHealth", "make_monitoring_source", "run_worker", "serve_monitoring"]

CHILD_NICE: Final = 5  # more than the worker itself
EVERY_HOUR: Final = 3600.0
# Jobs that wait for a server of somebody else.
OUTBOUND_LIMIT_KEYS: Final = frozenset({webhook_fanout.LIMIT.key, ingest.INGEST_LIMIT.key})
SIGNER_UPDATE_SECONDS: Final = 30.0
DELETE_BATCH: Final = 1000  # stored answers that one transaction removes


@asynccontextmanager
async def run_worker(
    settings: Settings,
    database: Database,
    *,
    key_ring: SigningService,
    metrics: Metrics | None = None,
    on_end: Callable[[], None] | None = None,
) -> AsyncIterator[Worker]:
    """A worker that claims jobs. When the block ends it claims no more, and running jobs get time to finish.

    `metrics` is the registry to count in. `on_end` is called when the worker ends, also if it ends by itself; leaving
    the block then raises the reason.
    """
    metrics = metrics or make_job_metrics()
    reader_pool = ProcessPool(settings.jobs_cpu_processes, limits=READ_LIMITS, nice=CHILD_NICE)
    job_types = declare_job_types(
        settings,
        database=database,
        key_ring=key_ring,
        metrics=PipelineMetrics(metrics.registry),
        reader_pool=reader_pool,
    )
    processes = ProcessPool(settings.jobs_cpu_processes, nice=CHILD_NICE)
    try:
        async with (
            open_jobs(settings, database, job_types.handlers, metrics=metrics, processes=processes) as (jobs, trigger),
            keep_log(settings, database, key_ring),
            keep_status_lists(settings, database, key_ring),
        ):
            await ensure_schedules(database, *list_nightly_schedules(jobs.defaults))
            chores = (
                *build_chores(
                    metrics,
                    dead_letter_ttl=jobs.defaults.dead_letter_ttl,
                    ttl_by_type={webhook_fanout.JOB_TYPE: jobs.defaults.ttl},  # its jobs are submitted without settings
                ),
                make_idempotency_cleanup(database, settings.idempotency_days),
                make_signer_update(database, key_ring),
            )
            worker = Worker(jobs, make_worker_options(settings), chores=chores, trigger=trigger)
            worker_task = asyncio.create_task(worker.run())
            if on_end is not None:
                worker_task.add_done_callback(lambda _: on_end())
            try:
                await _wait_started(worker, worker_task)
                yield worker
            finally:
                worker.stop()
                await worker_task
    finally:
        await processes.close()
        await reader_pool.close()


async def _wait_started(worker: Worker, worker_task: "asyncio.Task[None]") -> None:
    """Return when the worker claims jobs, or has ended."""
    started_task = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait({started_task, worker_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        started_task.cancel()


async def ensure_schedules(database: Database, *wanted_schedules: Schedule) -> None:
    """Create or update the schedules of this build. A paused schedule stays paused."""
    async with database.system(SYSTEM_TENANT) as conn:
        for schedule in wanted_schedules:
            await schedules.put_schedule(conn, SYSTEM_TENANT, schedule)


def make_idempotency_cleanup(database: Database, days: int) -> Chore:
    """The chore that removes stored answers of idempotency keys after this number of days."""

    async def remove_expired_keys(_: Connection) -> None:
        async with database.system() as conn:
            tenant_rows = await tenants_and_actors.list_tenants(conn)
        for tenant in tenant_rows:
            removed_count = DELETE_BATCH
            while removed_count == DELETE_BATCH:  # a transaction for each batch: an interruption loses little
                async with database.system(tenant.tenant_id) as conn:
                    removed_count = await api_requests.delete_old_responses(
                        conn, tenant.tenant_id, days=days, limit=DELETE_BATCH
                    )

    return Chore("idempotency keys", EVERY_HOUR, remove_expired_keys)


def make_signer_update(database: Database, key_ring: SigningService) -> Chore:
    """The chore that tells the signer of keys that were retired or reported, so that it refuses them as well."""
    stopped_keys = set[tuple[str, str]]()

    async def tell_signer(_: Connection) -> None:
        async with database.system() as conn:
            keys = await signing_keys.list_all_keys(conn)
        for key in keys:
            if key.status != "ACTIVE" and (key.key_id, key.status) not in stopped_keys:
                await key_ring.stop_key(key.key_id, key.status)
                stopped_keys.add((key.key_id, key.status))

    return Chore("signer", SIGNER_UPDATE_SECONDS, tell_signer)


def make_worker_options(settings: Settings) -> WorkerOptions:
    """The options of the worker, from the settings."""
    return WorkerOptions(
        name=settings.worker_id,
        concurrency=settings.jobs_concurrency,
        aside=OUTBOUND_LIMIT_KEYS,
        aside_concurrency=settings.jobs_outbound_concurrency,
        lease=settings.jobs_lease_seconds,
        renew=settings.jobs_lease_renew_seconds,
        poll=settings.jobs_poll_interval_ms / 1000,
        cancel_grace=settings.jobs_cancel_grace_seconds,
        stop_grace=settings.jobs_stop_grace_seconds,
    )
