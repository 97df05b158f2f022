"""Limits per key: no more than so many jobs of a key at a time, however many workers there are."""

import asyncio
import time
from collections import Counter
from functools import partial
from operator import contains

import asyncpg
import pytest
from service_jobs import Context, Handlers, InvalidInput, Jobs, Limit, WorkerOptions
from tests.jobs.support.run_workers import get_status, run_worker, run_workers, wait_until, wait_until_all_over

from bpc.core.formats.ids import TenantId
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external
JOBS = choose_effort(test=120, shown=5_000, campaign=20_000)
KEYS = 6


class ConcurrencyCounter:
    """How many jobs of each key run at this moment, and the most there ever were."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.ran = 0

    def enter(self, key: str) -> None:
        self.ran += 1
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])

    def leave(self, key: str) -> None:
        self.now[key] -= 1


@pytest.fixture
def concurrency_counter() -> ConcurrencyCounter:
    return ConcurrencyCounter()


async def test_limits_hold_under_ten_workers(
    jobs: Jobs,
    handlers: Handlers,
    tenant: TenantId,
    concurrency_counter: ConcurrencyCounter,
    record_measurement: RecordMeasurement,
) -> None:
    @handlers.job("limited")
    async def limited(ctx: Context, key: str) -> None:
        concurrency_counter.enter(key)
        await asyncio.sleep(0.002)
        concurrency_counter.leave(key)

    keys = [f"key-{n % KEYS}" for n in range(JOBS)]
    await jobs.submit_many(limited, keys, tenant=tenant, limits=[Limit(key=key, at_most=2) for key in keys])
    started = asyncio.get_running_loop().time()
    async with run_workers(jobs, 10):
        await wait_until_all_over(jobs, tenant, seconds=120)
    seconds = asyncio.get_running_loop().time() - started

    record_measurement(
        "jobs-limits",
        jobs=JOBS,
        keys=KEYS,
        limit=2,
        most_at_once=max(concurrency_counter.most.values()),
        seconds=round(seconds, 2),
    )
    assert concurrency_counter.ran == JOBS
    assert max(concurrency_counter.most.values()) <= 2


async def test_a_limited_key_does_not_hold_up_the_others(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, concurrency_counter: ConcurrencyCounter
) -> None:
    go = asyncio.Event()
    free: list[int] = []

    @handlers.job("slow")
    async def slow(ctx: Context, n: int) -> None:
        concurrency_counter.enter("slow")
        await go.wait()

    @handlers.job("free")
    async def unlimited(ctx: Context, n: int) -> None:
        free.append(n)

    await jobs.submit_many(slow, range(20), tenant=tenant, limits=[Limit(key="slow", at_most=1)] * 20)
    await jobs.submit_many(unlimited, range(20), tenant=tenant)
    async with run_worker(jobs):
        await wait_until(lambda: len(free) == 20)
        assert concurrency_counter.now["slow"] == 1
        go.set()
        await wait_until_all_over(jobs, tenant)

    assert concurrency_counter.ran == 20


async def test_jobs_that_wait_for_others_leave_the_places_of_the_rest_free(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, other_tenant: TenantId, concurrency_counter: ConcurrencyCounter
) -> None:
    go = asyncio.Event()
    ran: list[int] = []

    @handlers.job("hanging")
    async def hanging(ctx: Context, n: int) -> None:
        concurrency_counter.enter("hanging")
        await go.wait()
        concurrency_counter.leave("hanging")

    @handlers.job("here")
    async def here(ctx: Context, n: int) -> None:
        ran.append(n)

    outside = Limit(key="outside", at_most=10)
    for each in (tenant, other_tenant):
        await jobs.submit_many(hanging, range(8), tenant=each, limits=[outside] * 8)
    options = WorkerOptions(concurrency=1, aside=frozenset({"outside"}), aside_concurrency=3, cancel_grace=0.3)
    async with run_worker(jobs, options) as worker:
        await wait_until(lambda: concurrency_counter.now["hanging"] == 3)
        for n in range(5):  # each of them finds the only place free
            began = time.monotonic()
            await jobs.submit(here, n, tenant=other_tenant)
            await wait_until(partial(contains, ran, n))
            assert time.monotonic() - began < allow_seconds(1)
        await wait_until(lambda: worker.is_idle)
        go.set()
        await wait_until_all_over(jobs, tenant)
        await wait_until_all_over(jobs, other_tenant)

    assert (concurrency_counter.ran, concurrency_counter.most["hanging"]) == (16, 3)


async def test_what_waits_for_others_is_given_back_by_a_worker_that_stops(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, concurrency_counter: ConcurrencyCounter
) -> None:
    @handlers.job("hanging")
    async def hanging(ctx: Context, n: int) -> None:
        concurrency_counter.enter("hanging")
        await asyncio.Event().wait()

    outside = [Limit(key="outside", at_most=10)] * 5
    ids = await jobs.submit_many(hanging, range(5), tenant=tenant, limits=outside)
    options = WorkerOptions(aside=frozenset({"outside"}), aside_concurrency=2, stop_grace=0.1, cancel_grace=1.0)
    async with run_worker(jobs, options):
        await wait_until(lambda: concurrency_counter.now["hanging"] == 2)

    assert {await get_status(jobs, tenant, each) for each in ids} == {"QUEUED"}


async def test_the_latest_limit_counts(
    jobs: Jobs,
    handlers: Handlers,
    tenant: TenantId,
    concurrency_counter: ConcurrencyCounter,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    @handlers.job("changing")
    async def changing(ctx: Context, key: str) -> None:
        concurrency_counter.enter(key)
        await asyncio.sleep(0.002)
        concurrency_counter.leave(key)

    await jobs.submit_many(changing, ["k"] * 30, tenant=tenant, limits=[Limit(key="k", at_most=4)] * 30)
    await jobs.submit(changing, "k", tenant=tenant, limit=Limit(key="k", at_most=1))
    async with run_workers(jobs, 2):
        await wait_until_all_over(jobs, tenant)

    assert concurrency_counter.ran == 31
    assert concurrency_counter.most["k"] == 1
    assert await superuser.fetchval("SELECT count(*) FROM jobs.job_slot") == 1


async def test_a_limit_that_makes_no_sense_is_refused(jobs: Jobs, handlers: Handlers, tenant: TenantId) -> None:
    @handlers.job("any")
    async def anything(ctx: Context, n: int) -> None: ...

    with pytest.raises(InvalidInput, match="1 to 10,000"):
        Limit(key="k", at_most=0)
    with pytest.raises(InvalidInput, match="the same limit"):
        await jobs.submit_many(
            anything, [1, 2], tenant=tenant, limits=[Limit(key="a", at_most=1), Limit(key="b", at_most=2)]
        )
