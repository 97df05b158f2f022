"""The network between a worker and the database swallows everything, without an error on either side."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.jobs.faults.black_hole_proxy import BlackHole
from tests.jobs.faults.execution_recorder import SETTLED
from tests.jobs.faults.fault_database import FaultDatabase, Hit
from tests.jobs.faults.fault_handlers import EFFECTIVE, FaultInput
from tests.jobs.faults.worker_fleet import WorkerFleet

from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external

HOLES = choose_effort(test=1, shown=10, campaign=50)
# Few enough for the one worker that is left to keep up with, while it comes back.
JOBS_PER_HOLE = choose_effort(test=40, shown=100, campaign=100)
LEASE = choose_effort(test=1.0, shown=2.0, campaign=2.0)
SWALLOWED_SECONDS = LEASE + choose_effort(test=1.0, shown=3.0, campaign=3.0)
ENDED_WITHIN = LEASE + 5.0
BACK_WITHIN = 30.0  # what was under way when it fell silent has up to 10 s to give up, and then it works
CONCURRENCY = 4
BEATS = """
    SELECT FROM jobs.job_worker
     WHERE split_part(owner, ':', 2) = $1 AND heartbeat_at > clock_timestamp() - interval '2 s'
"""


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "never closed"])
async def test_jobs_of_a_worker_whose_database_fell_silent_are_run_by_others_and_it_comes_back(
    fault_database: FaultDatabase, tmp_path: Path, record_measurement: RecordMeasurement, closed: bool
) -> None:
    hits: list[Hit] = []
    backs: list[float] = []
    folder = tmp_path / "hole"
    folder.mkdir()
    async with (
        BlackHole(fault_database.address, folder) as hole,
        WorkerFleet(tmp_path, fault_database.address, lease=LEASE, stop_grace=1.0, cancel_grace=1.0) as fleet,
    ):
        fleet.start()
        fleet.start()
        far = fleet.start(hole.address_arguments)
        await fault_database.wait_for_workers(3)

        submitting = asyncio.create_task(
            fault_database.submit_steadily(HOLES * JOBS_PER_HOLE, HOLES * (SWALLOWED_SECONDS + 2), longest=0.2)
        )
        for _ in range(HOLES):
            await asyncio.sleep(fault_database.random.uniform(0.8, 1.2))
            while not (await fault_database.record_hit([far])).jobs:
                await fault_database.submit_any(longest=0.2)
            at = (await fault_database.record_hit([far])).at
            hole.swallow()
            await asyncio.sleep(0.05)
            hit = Hit(at, (await fault_database.record_hit([far])).jobs)
            hits.append(hit)
            await asyncio.sleep(SWALLOWED_SECONDS)
            await fault_database.wait_until_reaped(hit, within=allow_seconds(ENDED_WITHIN) - SWALLOWED_SECONDS)
            if closed:
                hole.cut()
            hole.let_new_ones_through()
            backs.append(await _is_back(fault_database, fleet, far))
        await submitting
        await fault_database.wait_until_drained(fleet, within=allow_seconds(30))
        ends = await fault_database.measure_seconds_to_end(hits)
        await fleet.stop(within=60)

        history = await fault_database.require_sound_history(fleet)
    record_measurement(
        "jobs-black-hole-closed" if closed else "jobs-black-hole",
        black_holes=HOLES,
        lease_seconds=LEASE,
        jobs=len(history.rows),
        jobs_held_by_the_swallowed=sum(len(hit.jobs) for hit in hits),
        lost=0,
        double_effects=0,
        slowest_end_seconds=round(max(ends, default=0.0), 2),
        slowest_return_of_the_worker_seconds=round(max(backs), 2),
    )
    assert sum(len(hit.jobs) for hit in hits) > 0
    assert max(ends, default=0.0) <= allow_seconds(ENDED_WITHIN)


async def _is_back(field: FaultDatabase, fleet: WorkerFleet, pid: int) -> float:
    """Seconds until this worker beats again and runs as many jobs at a time as before, alone, and they are accepted."""
    begun = time.monotonic()
    near = [other for other in fleet.working if other != pid]
    for other in near:
        fleet.pause(other)
    asked = {str(await field.submit(EFFECTIVE, FaultInput(seconds=LEASE + 0.5, fails=1))) for _ in range(CONCURRENCY)}
    while True:
        assert time.monotonic() < begun + allow_seconds(BACK_WITHIN), f"it is not back\n{fleet.logs()[-6_000:]}"
        await asyncio.sleep(0.1)
        settled = {line.job_id for line in fleet.lines() if line.event == SETTLED and line.status == "SUCCEEDED"}
        if asked <= settled and await field.fetch(BEATS, str(pid)):
            break
    for other in near:
        fleet.resume(other)
    return time.monotonic() - begun
