"""Tenants take turns: however much one has queued, another's job starts with the next claims."""

import asyncio
import time
from uuid import UUID

import pytest
from service_jobs import Context, Handlers, Jobs, WorkerOptions
from tests.jobs.support.run_workers import run_worker, wait_until

from bpc.core.formats.ids import TenantId
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external
QUEUED = choose_effort(test=5_000, shown=100_000, campaign=100_000)


async def test_one_job_starts_at_once_behind_the_queue_of_another_tenant(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, other_tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    started: dict[UUID, float] = {}
    ran = 0

    @handlers.job("turn")
    async def turn(ctx: Context, n: int) -> int:
        nonlocal ran
        ran += 1
        if ctx.tenant == other_tenant:
            started[ctx.job_id] = time.perf_counter()
        return n

    for _ in range(0, QUEUED, 5_000):
        await jobs.submit_many(turn, range(5_000), tenant=tenant)
    waits, ahead = [], []
    async with run_worker(jobs, WorkerOptions(concurrency=10)):
        await wait_until(lambda: ran > 200)
        for n in range(choose_effort(test=3, shown=20, campaign=20)):
            job_id = await jobs.submit(turn, n, tenant=other_tenant)
            submitted, ran_before = time.perf_counter(), ran
            await wait_until(lambda seen=job_id: seen in started, seconds=allow_seconds(5))  # type: ignore[misc]
            waits.append(max(0.0, started[job_id] - submitted) * 1000)
            ahead.append(ran - ran_before)

    waits.sort()
    record_measurement(
        "jobs-fairness",
        queued=QUEUED,
        wait_median_milliseconds=round(waits[len(waits) // 2], 2),
        wait_worst_milliseconds=round(waits[-1], 2),
        most_jobs_before_it=max(ahead),
    )
    assert waits[len(waits) // 2] <= allow_seconds(20) * 5
    assert ran < QUEUED


async def test_inside_a_tenant_the_lower_priority_number_goes_first(
    jobs: Jobs, handlers: Handlers, tenant: TenantId
) -> None:
    ran: list[int] = []

    @handlers.job("rank")
    async def rank(ctx: Context, n: int) -> None:
        ran.append(n)

    for priority in (3, 2, 0, 1):
        await jobs.submit_many(rank, [priority] * 5, tenant=tenant, priority=priority)
    async with run_worker(jobs, WorkerOptions(concurrency=1)):
        await wait_until(lambda: len(ran) == 20)

    assert ran == sorted(ran)


async def test_priority_does_not_count_across_tenants(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, other_tenant: TenantId
) -> None:
    ran: list[UUID] = []

    @handlers.job("greedy")
    async def greedy(ctx: Context, n: int) -> None:
        ran.append(ctx.tenant)
        await asyncio.sleep(0.001)

    await jobs.submit_many(greedy, range(300), tenant=tenant, priority=0)
    await jobs.submit(greedy, 1, tenant=other_tenant, priority=3)
    async with run_worker(jobs, WorkerOptions(concurrency=2)):
        await wait_until(lambda: other_tenant in ran)

    assert len(ran) < 250
