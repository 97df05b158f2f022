"""A worker is stopped for longer than its leases and goes on afterwards: whatever it still writes is refused."""

import asyncio
from pathlib import Path

import pytest
from tests.jobs.faults.execution_recorder import FINISHED, SETTLED
from tests.jobs.faults.fault_database import FaultDatabase, Hit
from tests.jobs.faults.history_checker import History
from tests.jobs.faults.worker_fleet import WorkerFleet, parse_pid

from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external

WORKERS = 5
AT_ONCE = 3
PAUSES = choose_effort(test=3, shown=51, campaign=201)
LEASE = 1.5
PAUSED_SECONDS = LEASE + 3.0
ENDED_WITHIN = LEASE + 5.0
JOBS_PER_ROUND = 60  # what two workers of five keep up with: more would measure how long the queue is


async def test_a_worker_that_was_paused_for_longer_than_its_leases_writes_nothing_any_more(
    fault_database: FaultDatabase, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    hits: list[Hit] = []
    late: set[tuple[str, int, int]] = set()
    rounds = PAUSES // AT_ONCE
    async with WorkerFleet(tmp_path, fault_database.address, lease=LEASE) as fleet:
        for _ in range(WORKERS):
            fleet.start()
        await fault_database.wait_for_workers(WORKERS)

        seconds = rounds * (PAUSED_SECONDS + 0.8)
        submitting = asyncio.create_task(fault_database.submit_steadily(JOBS_PER_ROUND * rounds, seconds, longest=0.4))
        for _ in range(rounds):
            await asyncio.sleep(fault_database.random.uniform(0.4, 1.0))
            paused = fault_database.random.sample(fleet.working, AT_ONCE)
            hit = await _pause(fault_database, fleet, paused)
            hits.append(hit)
            await asyncio.sleep(PAUSED_SECONDS)
            await fault_database.wait_until_reaped(hit, within=allow_seconds(ENDED_WITHIN) - PAUSED_SECONDS)
            late |= {(str(job_id), attempt, pid) for job_id, attempt in hit.jobs.items() for pid in paused}
            for pid in paused:
                fleet.resume(pid)
        await submitting
        await fault_database.wait_until_drained(fleet, within=allow_seconds(30))
        await fleet.stop()

        history = await fault_database.require_sound_history(fleet)
        ends = await fault_database.measure_seconds_to_end(hits)
    refused = _refused(history, late)
    record_measurement(
        "jobs-pauses",
        pauses=PAUSES,
        lease_seconds=LEASE,
        jobs=len(history.rows),
        jobs_held_by_the_paused=sum(len(hit.jobs) for hit in hits),
        late_writes_refused=refused,
        late_writes_accepted=0,
        lost=0,
        double_effects=0,
        slowest_end_after_a_pause_seconds=round(max(ends, default=0.0), 2),
    )
    assert refused > 0, "nobody tried to write too late"
    assert max(ends, default=0.0) <= allow_seconds(ENDED_WITHIN)


async def _pause(field: FaultDatabase, fleet: WorkerFleet, pids: list[int]) -> Hit:
    while not (await field.record_hit(pids)).jobs:
        await asyncio.sleep(0.01)
    at = (await field.record_hit(pids)).at
    for pid in pids:
        fleet.pause(pid)
    await asyncio.sleep(0.05)  # what they have sent already is still done
    return Hit(at, (await field.record_hit(pids)).jobs)


def _refused(history: History, late: set[tuple[str, int, int]]) -> int:
    """How many executions that were in a paused worker finished after it; asserts that none was accepted."""
    tried = 0
    for line in history.lines:
        if (line.job_id, line.attempt, parse_pid(line.owner)) in late:
            assert line.event != SETTLED or line.status is None, f"accepted too late: {line}"
            tried += line.event == FINISHED
    return tried
