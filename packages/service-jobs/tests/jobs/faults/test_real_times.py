"""The times that people get by default: a lease of 60 s, rests of 2, 4, 8 and 16 s. In `make test` they are shorter."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from bpc.core.ids import TenantId
from bpc.jobs.context import Context
from bpc.jobs.handler import Handlers
from bpc.jobs.outcome import Retry
from bpc.jobs.service import Jobs
from bpc.jobs.worker import Options, Worker
from tests.jobs.faults.fleet import Fleet
from tests.jobs.faults.ground import Ground, Hit
from tests.jobs.faults.work import EFFECTIVE, PLAIN, Work
from tests.measuring import Measured, allowed, effort

pytestmark = pytest.mark.external

DEFAULT = Options()
LEASE = effort(test=2.0, shown=DEFAULT.lease, campaign=DEFAULT.lease)
RENEW = effort(test=1.0, shown=DEFAULT.renew, campaign=DEFAULT.renew)
FIRST_REST = effort(test=0.2, shown=Retry().first_delay, campaign=Retry().first_delay)


async def test_jobs_of_a_worker_that_is_stopped_for_good_end_soon_after_their_lease(
    field: Ground, tmp_path: Path, measured: Measured
) -> None:
    async with Fleet(tmp_path, field.address, lease=LEASE, renew=RENEW) as fleet:
        stopped = fleet.start()
        await field.workers_are(1)
        for job_type in (PLAIN, EFFECTIVE):
            await field.submit(job_type, Work(seconds=1.0))
        while len((await field.hit([stopped])).jobs) < 2:
            await asyncio.sleep(0.01)
        fleet.start()

        hit = await field.hit([stopped])
        fleet.pause(stopped)
        await field.drained(fleet, within=allowed(LEASE + 10))
        fleet.resume(stopped)
        await fleet.stop()

        await field.judged(fleet)
        seconds = max(await field.seconds_to_end([Hit(hit.at, hit.jobs)]))
    measured("jobs-real-lease", lease_seconds=LEASE, jobs=len(hit.jobs), slowest_end_seconds=round(seconds, 2))
    assert seconds <= allowed(LEASE + 5.0)


async def test_a_job_that_always_fails_rests_twice_as_long_each_time_and_is_given_up_after_the_fifth(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, measured: Measured
) -> None:
    starts: list[float] = []

    @handlers.job("hopeless", retry=Retry(first_delay=FIRST_REST))
    async def hopeless(ctx: Context, value: int) -> None:
        starts.append(time.monotonic())
        raise ValueError("never")

    job_id = await jobs.submit(hopeless, 1, tenant=tenant)
    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    deadline = time.monotonic() + allowed(FIRST_REST * 15 + 10)
    while (await jobs.job(tenant, job_id)).status != "DEAD_LETTER":
        assert time.monotonic() < deadline, f"started {len(starts)} times"
        await asyncio.sleep(0.05)
    worker.stop()
    await running

    rests = [after - before for before, after in pairwise(starts)]
    wanted = [FIRST_REST * 2**n for n in range(4)]
    assert len(rests) == 4
    measured(
        "jobs-backoff",
        first_rest_seconds=round(rests[0], 2),
        second_rest_seconds=round(rests[1], 2),
        third_rest_seconds=round(rests[2], 2),
        fourth_rest_seconds=round(rests[3], 2),
    )
    for rest, least in zip(rests, wanted, strict=True):
        assert least <= rest + 0.001 <= least + allowed(1.0)
