"""Workers for tests: started, waited for by what they do, and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from bpc.jobs.service import Jobs
from bpc.jobs.worker import Observer, Options, Worker
from bpc.jobs.worker.chores import Chore

QUICK = Options(concurrency=4, cancel_grace=0.3, stop_grace=5.0)


@asynccontextmanager
async def working(
    jobs: Jobs,
    options: Options = QUICK,
    *,
    chores: Sequence[Chore] = (),
    observer: Observer | None = None,
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
async def several_working(jobs: Jobs, count: int, options: Options = QUICK) -> AsyncIterator[list[Worker]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(working(jobs, options)) for _ in range(count)]


async def status_of(jobs: Jobs, tenant: UUID, job_id: UUID) -> str:
    async with jobs.sessions.tenant(tenant) as conn:
        found = await conn.fetchval(
            "SELECT status FROM jobs.job_status WHERE tenant_id = $1 AND job_id = $2", tenant, job_id
        )
    return str(found)


async def until_status(jobs: Jobs, tenant: UUID, job_id: UUID, *wanted: str, seconds: float = 60) -> None:
    """Return when the job has one of the statuses `wanted`."""
    async with asyncio.timeout(seconds):
        while await status_of(jobs, tenant, job_id) not in wanted:
            await asyncio.sleep(0.01)


async def until_all_over(jobs: Jobs, tenant: UUID, seconds: float = 60) -> None:
    """Return when no job of the tenant is queued or running."""
    async with asyncio.timeout(seconds):
        while True:
            async with jobs.sessions.tenant(tenant) as conn:
                if not await conn.fetchval("SELECT EXISTS (SELECT FROM jobs.job WHERE status = 'QUEUED')"):
                    return
            await asyncio.sleep(0.02)


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Return when `true()` is."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)
