"""How fast the engine is here: `DATABASE_URL=… python measure.py [JOBS]`, on an empty database.

Four figures: jobs submitted in one call, jobs drained by one worker, jobs submitted one by one by ten tasks, and the
time from a submission to the start of its handler (its commit included).
"""

import asyncio
import os
import statistics
import sys
import time
from uuid import UUID

import asyncpg
from service_jobs import Context, Handlers, Jobs, Worker, WorkerOptions, install, new_id

handlers = Handlers()
delays: list[float] = []


@handlers.job("nothing")
async def nothing(ctx: Context, number: int) -> None:
    """What is measured is the engine."""


@handlers.job("measure_delay")
async def measure_delay(ctx: Context, submitted_at: float) -> None:
    delays.append(time.monotonic() - submitted_at)


async def wait_until_empty(jobs: Jobs, tenant: UUID) -> None:
    while (health := await jobs.get_health(tenant)).depth or health.active:
        await asyncio.sleep(0.01)


async def measure(url: str, count: int) -> None:
    conn = await asyncpg.connect(url)
    await install(conn)
    await conn.close()
    tenant = new_id()
    async with Jobs.connect(url, handlers, size=12) as jobs:
        started = time.perf_counter()
        await jobs.submit_many(nothing, range(count), tenant=tenant)
        print_rate(f"submitted {count:,} jobs in one call", count, started)

        worker = Worker(jobs, WorkerOptions(concurrency=100))
        started = time.perf_counter()
        running = asyncio.create_task(worker.run())
        await wait_until_empty(jobs, tenant)
        print_rate("drained by one worker", count, started)

        started = time.perf_counter()
        singles = max(10, count // 5)

        async def submit_some(numbers: range) -> None:
            for number in numbers:
                await jobs.submit(nothing, number, tenant=tenant)

        await asyncio.gather(*(submit_some(range(start, singles, 10)) for start in range(10)))
        print_rate("submitted one by one", singles, started)

        await wait_until_empty(jobs, tenant)
        for _ in range(min(200, count)):
            job_id = await jobs.submit(measure_delay, time.monotonic(), tenant=tenant)
            await jobs.wait(tenant, job_id, timeout=30)
        worker.stop()
        await running
    median, worst = statistics.median(delays), sorted(delays)[len(delays) * 99 // 100]
    print(f"{'submission to start':38} {median * 1000:.1f} ms (median), {worst * 1000:.1f} ms (99 of 100)")


def print_rate(text: str, count: int, started: float) -> None:
    print(f"{text:38} {count / (time.perf_counter() - started):,.0f} a second")


if __name__ == "__main__":
    asyncio.run(measure(os.environ["DATABASE_URL"], int(sys.argv[1]) if sys.argv[1:] else 10_000))
