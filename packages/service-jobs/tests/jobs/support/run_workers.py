"""Workers for tests: started, waited for by what they do, and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from service_jobs.service import Jobs
from service_jobs.worker import ExecutionObserver, Worker, WorkerOptions
from service_jobs.worker.maintenance import Chore

QUICK_OPTIONS = WorkerOptions(concurrency=4, cancel_grace=0.3, stop_grace=5.0)


@asynccontextmanager
async def run_worker(
    jobs: Jobs,
    options: WorkerOptions = QUICK_OPTIONS,
    *,
    chores: Sequence[Chore] = (),
    observer: ExecutionObserver | None = None,
) -> AsyncIterator[Worker]:
    """A worker in this process, stopped at the end."""
    worker = Worker(jobs, options, chores=chores, observer=observer)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


@asynccontextmanager
async def run_workers(jobs: Jobs, count: int, options: WorkerOptions = QUICK_OPTIONS) -> AsyncIterator[list[Worker]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(run_worker(jobs, options)) for _ in range(count)]


async def get_status(jobs: Jobs, tenant: UUID, job_id: UUID) -> str:
    async with jobs.sessions.tenant(tenant) as conn:
        status = await conn.fetchval(
            "SELECT status FROM jobs.job_status WHERE tenant_id = $1 AND job_id = $2", tenant, job_id
        )
    return str(status)


async def wait_until_status(jobs: Jobs, tenant: UUID, job_id: UUID, *statuses: str, seconds: float = 60) -> None:
    """Return when the job has one of the statuses `wanted`."""
    async with asyncio.timeout(seconds):
        while await get_status(jobs, tenant, job_id) not in statuses:
            await asyncio.sleep(0.01)


async def wait_until_all_over(jobs: Jobs, tenant: UUID, seconds: float = 60) -> None:
    """Return when no job of the tenant is queued or running."""
    async with asyncio.timeout(seconds):
        while True:
            async with jobs.sessions.tenant(tenant) as conn:
                if not await conn.fetchval("SELECT EXISTS (SELECT FROM jobs.job WHERE status = 'QUEUED')"):
                    return
            await asyncio.sleep(0.02)


async def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return when `true()` is."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
