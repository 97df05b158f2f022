"""Workers are killed, at random and at every point of an execution: no job is lost, none takes effect twice."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.jobs.faults.fault_database import FaultDatabase, Hit
from tests.jobs.faults.fault_handlers import DEADLY, DEADLY_PLAIN, PLAIN, FaultInput, has_effect
from tests.jobs.faults.worker_fleet import WorkerFleet

from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external

WORKERS = choose_effort(test=3, shown=4, campaign=4)
KILLS = choose_effort(test=4, shown=100, campaign=200)
JOBS = choose_effort(test=150, shown=10_000, campaign=20_000)
SECONDS_PER_KILL = 1.2
LONGEST_JOB = choose_effort(test=0.4, shown=0.1, campaign=0.1)  # the fewer the kills, the surer each must hit something
ENDED_WITHIN = 6.0


async def test_kill_9_of_random_workers_loses_no_job_and_doubles_no_effect(
    fault_database: FaultDatabase, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    hits: list[Hit] = []
    async with WorkerFleet(tmp_path, fault_database.address, lease=20.0) as fleet:
        for _ in range(WORKERS):
            fleet.start()
        await fault_database.wait_for_workers(WORKERS)

        submitting = asyncio.create_task(fault_database.submit_steadily(JOBS, KILLS * SECONDS_PER_KILL, LONGEST_JOB))
        for _ in range(KILLS):
            await asyncio.sleep(SECONDS_PER_KILL * fault_database.random.uniform(0.5, 1.4))
            hits.append(await _kill(fault_database, fleet, fault_database.random.choice(fleet.alive)))
            fleet.start()
        await submitting
        await fault_database.wait_until_drained(fleet, within=allow_seconds(30))
        await fleet.stop()

        history = await fault_database.require_sound_history(fleet)
        seconds = await fault_database.measure_seconds_to_end(hits)
    record_measurement(
        "jobs-kill-9",
        kills=KILLS,
        jobs=len(history.rows),
        jobs_held_by_the_killed=sum(len(hit.jobs) for hit in hits),
        lost=0,
        double_effects=0,
        slowest_end_after_a_kill_seconds=round(max(seconds, default=0.0), 2),
    )
    assert len(seconds) >= KILLS / 2, "too few jobs were hit to say anything"
    assert max(seconds, default=0.0) <= allow_seconds(ENDED_WITHIN)


async def _kill(field: FaultDatabase, fleet: WorkerFleet, pid: int) -> Hit:
    """Kill it as soon as it has something to do; what it holds then, nobody else has had the time to take."""
    deadline = time.monotonic() + SECONDS_PER_KILL
    while not (seen := await field.record_hit([pid])).jobs and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    fleet.kill(pid)
    while fleet.processes[pid].poll() is None:
        await asyncio.sleep(0)
    return Hit(seen.at, (await field.record_hit([pid])).jobs)


async def test_a_worker_that_dies_at_any_point_of_an_execution_leaves_a_job_that_ends_once(
    fault_database: FaultDatabase, tmp_path: Path
) -> None:
    # Who completes a plain job claims the next in the same breath: that one is submitted when no other is left.
    deadly = [*DEADLY.values(), *DEADLY_PLAIN.values()]
    assert deadly[-1].endswith("committed")
    async with WorkerFleet(tmp_path, fault_database.address, lease=20.0, concurrency=1) as fleet:
        for _ in deadly:
            fleet.start()
        await fault_database.wait_for_workers(len(deadly))

        jobs = {}
        for each in deadly:
            jobs[await fault_database.submit(each, FaultInput(seconds=0.01, follows=2 * has_effect(each)))] = each
            await _one_more_is_dead(fleet)
        for job_id in jobs:
            await fault_database.submit(PLAIN, FaultInput(), needs=[job_id])
        fleet.start()
        await fault_database.wait_until_drained(fleet, within=allow_seconds(ENDED_WITHIN))
        await fleet.stop()

        history = await fault_database.require_sound_history(fleet)
    attempts = {row.job_id: row.attempts for row in history.rows}
    assert {each: attempts[str(job_id)] for job_id, each in jobs.items()} == {
        each: 1 if each.endswith("committed") else 2 for each in deadly
    }


async def _one_more_is_dead(fleet: WorkerFleet) -> None:
    before = len(fleet.expected_dead)
    deadline = time.monotonic() + allow_seconds(ENDED_WITHIN)
    while len(fleet.expected_dead) == before:
        assert time.monotonic() < deadline, "nobody died"
        await asyncio.sleep(0.01)
        fleet.expect_deaths()
