"""Run a worker: from settings to jobs that get done, until it is told to stop.

async with working(settings, database, signer=…) as worker:      # claims and runs jobs of all our types
    await told_to_stop                                           # then: running jobs may finish, the rest is released
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from bpc.assembly import assembled
from bpc.core.signing import Signer
from bpc.db import announcing, idempotency, tenants
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.jobs import bell_of, defaults_of, sessions_of
from bpc.db.tenants import SYSTEM_TENANT
from bpc.errands import ingest, nightly
from bpc.jobs import Jobs, Metrics, Options, Processes, Worker, schedules
from bpc.jobs.schedules import Schedule
from bpc.jobs.worker.chores import Chore
from bpc.jobs.worker.upkeep import upkeep
from bpc.pipeline.facts import READING
from bpc.settings import Settings
from bpc.worker.health import Condition
from bpc.worker.http import Watched, watchable, watched
from bpc.worker.metrics import StepMetrics

__all__ = ["Condition", "Watched", "watchable", "watched", "working"]

EVERY_HOUR: Final = 3600.0
OUTBOUND: Final = frozenset({announcing.LIMIT.key, ingest.LIMIT.key})  # jobs that wait for somebody else's server
AT_ONCE: Final = 1000  # answers that are removed in one transaction


@asynccontextmanager
async def working(
    settings: Settings,
    database: Database,
    *,
    signer: Callable[[str], Signer | None],
    metrics: Metrics | None = None,
    ended: Callable[[], None] | None = None,
) -> AsyncIterator[Worker]:
    """A worker in this process, which claims jobs. At the end it claims no more, and what runs has its time to finish.

    `signer` gives the private key of a name, where it is at hand. `metrics` is where its figures are counted. `ended`
    is called when it ends, also if nobody has told it to; then leaving raises why.
    """
    metrics = metrics or Metrics()
    measures = StepMetrics(metrics.registry)
    reading = Processes(settings.jobs_cpu_processes, limits=READING)
    work = assembled(
        settings,
        signer=signer,
        measures=measures,
        replays=measures,
        deliveries=measures,
        database=database,
        reading=reading,
    )
    processes, bell = Processes(settings.jobs_cpu_processes), bell_of(settings)
    async with sessions_of(database) as sessions:
        jobs = Jobs(
            work.handlers, sessions, defaults=defaults_of(settings), metrics=metrics, processes=processes, trigger=bell
        )
        await planned(database, *nightly.schedules())
        chores = (*upkeep(metrics), forgetting(database, settings.idempotency_days))
        worker = Worker(jobs, options_of(settings), chores=chores, trigger=bell)
        running = asyncio.create_task(worker.run())
        if ended is not None:
            running.add_done_callback(lambda _: ended())
        try:
            await _started(worker, running)
            yield worker
        finally:
            worker.stop()
            try:
                await running
            finally:
                await jobs.close()
                await processes.close()
                await reading.close()
                if bell is not None:
                    await bell.close()


async def _started(worker: Worker, running: "asyncio.Task[None]") -> None:
    """Return when it claims jobs, or has ended without."""
    waiting = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def planned(database: Database, *ours: Schedule) -> None:
    """See that the schedules of this build are there; one that somebody paused stays paused."""
    async with database.system(SYSTEM_TENANT) as conn:
        for schedule in ours:
            await schedules.put(conn, SYSTEM_TENANT, schedule)


def forgetting(database: Database, days: int) -> Chore:
    """The chore that removes the answers to idempotency keys that were kept for so many days."""

    async def forget(_: Connection) -> None:
        async with database.system() as conn:
            known = await tenants.every(conn)
        for tenant in known:
            removed = AT_ONCE
            while removed == AT_ONCE:  # each in a transaction of its own: what is done stays done
                async with database.system(tenant.tenant_id) as conn:
                    removed = await idempotency.forget(conn, tenant.tenant_id, days=days, most=AT_ONCE)

    return Chore("idempotency keys", EVERY_HOUR, forget)


def options_of(settings: Settings) -> Options:
    """How a worker works."""
    return Options(
        name=settings.worker_id,
        concurrency=settings.jobs_concurrency,
        aside=OUTBOUND,
        aside_concurrency=settings.jobs_outbound_concurrency,
        lease=settings.jobs_lease_seconds,
        renew=settings.jobs_lease_renew_seconds,
        poll=settings.jobs_poll_interval_ms / 1000,
        cancel_grace=settings.jobs_cancel_grace_seconds,
        stop_grace=settings.jobs_stop_grace_seconds,
    )
