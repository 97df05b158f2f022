"""The times that people get by default: a lease of 60 s, rests of 2, 4, 8 and 16 s. In `make test` they are shorter."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handlers
from service_jobs.job import Retry
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions
from tests.jobs.faults.fault_database import FaultDatabase, Hit
from tests.jobs.faults.fault_handlers import EFFECTIVE, PLAIN, FaultInput
from tests.jobs.faults.worker_fleet import WorkerFleet

from bpc.core.formats.ids import TenantId
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external

DEFAULT = WorkerOptions()
LEASE = choose_effort(test=2.0, shown=DEFAULT.lease, campaign=DEFAULT.lease)
RENEW = choose_effort(test=1.0, shown=DEFAULT.renew, campaign=DEFAULT.renew)
FIRST_REST = choose_effort(test=0.2, shown=Retry().first_delay, campaign=Retry().first_delay)


async def test_jobs_of_a_worker_that_is_stopped_for_good_end_soon_after_their_lease(
    fault_database: FaultDatabase, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    async with WorkerFleet(tmp_path, fault_database.address, lease=LEASE, renew=RENEW) as fleet:
        stopped = fleet.start()
        await fault_database.wait_for_workers(1)
        for job_type in (PLAIN, EFFECTIVE):
            await fault_database.submit(job_type, FaultInput(seconds=1.0))
        while len((await fault_database.record_hit([stopped])).jobs) < 2:
            await asyncio.sleep(0.01)
        fleet.start()

        hit = await fault_database.record_hit([stopped])
        fleet.pause(stopped)
        await fault_database.wait_until_drained(fleet, within=allow_seconds(LEASE + 10))
        fleet.resume(stopped)
        await fleet.stop()

        await fault_database.require_sound_history(fleet)
        seconds = max(await fault_database.measure_seconds_to_end([Hit(hit.at, hit.jobs)]))
    record_measurement(
        "jobs-real-lease", lease_seconds=LEASE, jobs=len(hit.jobs), slowest_end_seconds=round(seconds, 2)
    )
    assert seconds <= allow_seconds(LEASE + 5.0)


async def test_a_job_that_always_fails_rests_twice_as_long_each_time_and_is_given_up_after_the_fifth(
    jobs: Jobs, handlers: Handlers, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    starts: list[float] = []

    @handlers.job("hopeless", retry=Retry(first_delay=FIRST_REST))
    async def hopeless(ctx: Context, value: int) -> None:
        starts.append(time.monotonic())
        raise ValueError("never")

    job_id = await jobs.submit(hopeless, 1, tenant=tenant)
    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    deadline = time.monotonic() + allow_seconds(FIRST_REST * 15 + 10)
    while (await jobs.get_job(tenant, job_id)).status != "DEAD_LETTER":
        assert time.monotonic() < deadline, f"started {len(starts)} times"
        await asyncio.sleep(0.05)
    worker.stop()
    await running

    rests = [after - before for before, after in pairwise(starts)]
    expected = [FIRST_REST * 2**n for n in range(4)]
    assert len(rests) == 4
    record_measurement(
        "jobs-backoff",
        first_rest_seconds=round(rests[0], 2),
        second_rest_seconds=round(rests[1], 2),
        third_rest_seconds=round(rests[2], 2),
        fourth_rest_seconds=round(rests[3], 2),
    )
    for rest, least in zip(rests, expected, strict=True):
        assert least <= rest + 0.001 <= least + allow_seconds(1.0)
