"""The figures we promise: how soon a job is submitted and starts, and how many end in a second."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest
from service_jobs import Context, Handlers, Jobs, Limit, WorkerOptions
from service_jobs.database import Sessions
from tests.jobs.support.run_workers import run_worker
from tests.jobs.worker.test_scale import FinishCounter

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.jobs import make_job_sessions
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external
SAMPLES = choose_effort(test=100, shown=2_000, campaign=2_000)
JOBS = choose_effort(test=1_000, shown=10_000, campaign=10_000)
AT_A_TIME = 16  # commits wait for the disk; those that wait together go together


@pytest.fixture
async def sessions(address: Address) -> AsyncIterator[Sessions]:
    """A connection for each job that runs, and two to spare (docs/jobs.md)."""
    opened = make_job_sessions(address, size=AT_A_TIME + 2)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def without_a_line_for_each_job(caplog: pytest.LogCaptureFixture) -> None:
    """The tests keep all that is logged; that is not what is measured here."""
    caplog.set_level(logging.WARNING, logger="service_jobs")


def now_seconds(share: float, values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def test_a_job_is_submitted_and_started_at_once(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    started: dict[UUID, float] = {}
    came = asyncio.Event()

    @handlers.job("note")
    async def note(ctx: Context, n: int) -> None:
        started[ctx.job_id] = time.perf_counter()
        came.set()

    submits: list[float] = []
    waits: list[float] = []
    async with run_worker(jobs):
        await asyncio.sleep(0.3)
        for n in range(SAMPLES):
            came.clear()
            begun = time.perf_counter()
            job_id = await jobs.submit(note, n, tenant=tenant)
            submitted = time.perf_counter()
            await asyncio.wait_for(came.wait(), 60)
            submits.append((submitted - begun) * 1000)
            waits.append(max(0.0, started[job_id] - submitted) * 1000)
            await asyncio.sleep(0.002)

    record_measurement(
        "jobs-latency",
        samples=SAMPLES,
        submit_median_milliseconds=round(now_seconds(0.5, submits), 2),
        submit_p99_milliseconds=round(now_seconds(0.99, submits), 2),
        start_median_milliseconds=round(now_seconds(0.5, waits), 2),
        start_p99_milliseconds=round(now_seconds(0.99, waits), 2),
    )
    assert now_seconds(0.99, submits) <= allow_seconds(50)
    assert now_seconds(0.99, waits) <= allow_seconds(1000)


async def test_ten_workers_end_a_thousand_jobs_a_second_and_more(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    @handlers.job("noop")
    async def noop(ctx: Context, n: int) -> int:
        return n

    finishes = FinishCounter()
    finishes.expect(JOBS)
    await jobs.submit_many(noop, range(JOBS), tenant=tenant)
    begun = time.perf_counter()
    async with run_worker(jobs, WorkerOptions(concurrency=10), observer=finishes):
        await finishes.wait()
    rate = JOBS / (time.perf_counter() - begun)

    record_measurement("jobs-drain", jobs=JOBS, jobs_per_second=round(rate))
    assert rate >= 1000 / allow_seconds(1)


async def test_jobs_with_limits_are_fast_too(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    @handlers.job("few")
    async def few(ctx: Context, n: int) -> int:
        return n

    limits = [Limit(key=f"k{n % 50}", at_most=4) for n in range(JOBS)]
    await jobs.submit_many(few, range(JOBS), tenant=tenant, limits=limits)
    rate = await run_until_drained(jobs)

    record_measurement("jobs-limited", jobs=JOBS, at_a_time=AT_A_TIME, jobs_per_second=round(rate))
    assert rate >= 1000 / allow_seconds(1)


async def test_jobs_with_effects_are_fast_too(
    jobs: Jobs,
    handlers: Handlers,
    tenant: TenantId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    sessions: Sessions,
    record_measurement: RecordMeasurement,
) -> None:
    await superuser.execute("CREATE TABLE effects (job_id uuid, n int); GRANT ALL ON effects TO bpc_app")

    @handlers.job("effect")
    async def effect(ctx: Context, n: int) -> int:
        conn = await ctx.transaction()
        await conn.execute("INSERT INTO effects VALUES ($1, $2)", ctx.job_id, n)
        return n

    await jobs.submit_many(effect, range(JOBS), tenant=tenant)
    rate = await run_until_drained(jobs)
    bare = await run_by_hand(sessions, superuser)

    record_measurement(
        "jobs-transaction", jobs=JOBS, at_a_time=AT_A_TIME, jobs_per_second=round(rate), by_hand_per_second=round(bare)
    )
    assert rate >= 1000 / allow_seconds(1)


async def run_until_drained(jobs: Jobs) -> float:
    """Jobs a second until all have ended."""
    finishes = FinishCounter()
    finishes.expect(JOBS)
    begun = time.perf_counter()
    async with run_worker(jobs, WorkerOptions(concurrency=AT_A_TIME), observer=finishes):
        await finishes.wait()
    return JOBS / (time.perf_counter() - begun)


async def run_by_hand(sessions: Sessions, superuser: "asyncpg.Connection[asyncpg.Record]") -> float:
    """What remains without an engine, a second: one effect and one row that says it is done, in one transaction."""
    await superuser.execute("CREATE TABLE done (n int PRIMARY KEY); GRANT ALL ON done TO bpc_app")
    left = iter(range(JOBS))

    async def work() -> None:
        for n in left:
            async with sessions.pool.acquire() as conn, conn.transaction():
                await conn.execute("INSERT INTO effects VALUES (gen_random_uuid(), $1)", n)
                await conn.execute("INSERT INTO done VALUES ($1)", n)

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
    return JOBS / (time.perf_counter() - begun)
