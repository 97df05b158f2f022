"""Large tables, and a vacuum that is held up: the engine goes on at its speed."""

import asyncio
import time

import asyncpg
import pytest
from service_jobs import Context, Handler, Handlers, Jobs, Status, WorkerOptions
from service_jobs.context import Lease
from service_jobs.job import Outcome
from tests.jobs.support.run_workers import run_worker

from bpc.core.formats.ids import TenantId
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.external
FINISHED = choose_effort(test=20_000, shown=1_000_000, campaign=1_000_000)
QUEUED = choose_effort(test=2_000, shown=100_000, campaign=100_000)
DRAINED = choose_effort(test=2_000, shown=10_000, campaign=10_000)
TURNS = choose_effort(test=1, shown=5, campaign=5)
HELD_SECONDS = choose_effort(test=2.0, shown=120.0, campaign=120.0)
OPTIONS = WorkerOptions(concurrency=10)

FINISH = """
    INSERT INTO jobs.job (tenant_id, job_id, type, status, attempts, max_attempts, payload, result, created_at,
                          scheduled_at, started_at, finished_at, keep_seconds)
    SELECT $1, gen_random_uuid(), 'noop', 'SUCCEEDED', 1, 5, '1', '1', now(), now(), now(), now(), 86400
      FROM generate_series(1, $2::int)
"""


class FinishCounter:
    """Counts what was accepted, without a look at the tables under test."""

    def __init__(self) -> None:
        self._left = 0
        self._all = asyncio.Event()

    def observe_start(self, lease: Lease) -> None: ...

    def observe_finish(self, lease: Lease, outcome: Outcome) -> None: ...

    def observe_settlement(self, lease: Lease, became: Status | None) -> None:
        self._left -= became is Status.SUCCEEDED
        if self._left == 0:
            self._all.set()

    def expect(self, count: int) -> None:
        self._left = count
        self._all.clear()

    async def wait(self) -> None:
        await asyncio.wait_for(self._all.wait(), 120)


@pytest.fixture
def noop(handlers: Handlers) -> Handler[int, int]:
    @handlers.job("noop")
    async def run(ctx: Context, n: int) -> int:
        return n

    return run


async def run_until_drained(jobs: Jobs, noop: Handler[int, int], tenant: TenantId, finishes: FinishCounter) -> float:
    """Jobs a second over `DRAINED` jobs, submitted at once to a worker that runs."""
    finishes.expect(DRAINED)
    await jobs.submit_many(noop, range(DRAINED), tenant=tenant)
    begun = time.perf_counter()
    await finishes.wait()
    return DRAINED / (time.perf_counter() - begun)


async def test_finished_and_waiting_jobs_do_not_slow_down_the_others(
    jobs: Jobs,
    noop: Handler[int, int],
    tenant: TenantId,
    other_tenant: TenantId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    record_measurement: RecordMeasurement,
) -> None:
    finishes = FinishCounter()
    async with run_worker(jobs, OPTIONS, observer=finishes):
        await run_until_drained(jobs, noop, tenant, finishes)
        empty = max([await run_until_drained(jobs, noop, tenant, finishes) for _ in range(TURNS)])
    for start in range(0, QUEUED, 10_000):  # of a type this worker does not know: they stay, and in its way
        await jobs.submit_many(noop, range(min(10_000, QUEUED - start)), tenant=other_tenant)
    await superuser.execute("UPDATE jobs.job_ready SET type = 'unknown'")
    await superuser.execute(FINISH, tenant, FINISHED)
    async with run_worker(jobs, OPTIONS, observer=finishes):
        await run_until_drained(jobs, noop, tenant, finishes)
        full = max([await run_until_drained(jobs, noop, tenant, finishes) for _ in range(TURNS)])

    record_measurement(
        "jobs-large-tables",
        finished=FINISHED,
        queued=QUEUED,
        empty_jobs_per_second=round(empty),
        full_jobs_per_second=round(full),
        ratio=round(full / empty, 2),
    )
    assert full / empty > choose_effort(test=0.02, shown=0.7, campaign=0.7)


async def test_a_transaction_that_holds_up_vacuum_does_not_slow_down_claims(
    jobs: Jobs,
    noop: Handler[int, int],
    tenant: TenantId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    record_measurement: RecordMeasurement,
) -> None:
    finishes = FinishCounter()
    rates: list[float] = []
    async with run_worker(jobs, OPTIONS, observer=finishes):
        await run_until_drained(jobs, noop, tenant, finishes)
        await superuser.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await superuser.fetchval("SELECT count(*) FROM jobs.job")  # from here on nothing can be vacuumed
        until = time.perf_counter() + HELD_SECONDS
        while time.perf_counter() < until:
            rates.append(await run_until_drained(jobs, noop, tenant, finishes))
        await superuser.execute("COMMIT")

    quarter = max(1, len(rates) // 4)
    first, last = sorted(rates[:quarter])[quarter // 2], sorted(rates[-quarter:])[quarter // 2]
    record_measurement(
        "jobs-held-vacuum",
        seconds=HELD_SECONDS,
        jobs=DRAINED * len(rates),
        first_quarter_jobs_per_second=round(first),
        last_quarter_jobs_per_second=round(last),
        ratio=round(last / first, 2),
    )
    # A shared machine halves and doubles rates as it likes; a claim that reads all dead rows is a hundred times slower.
    assert last / first > choose_effort(test=0.02, shown=0.6, campaign=0.6)
