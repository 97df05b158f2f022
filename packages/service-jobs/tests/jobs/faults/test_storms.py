"""Sessions are cut at random, of workers and of whoever submits: nothing is lost, nothing happens twice."""

import asyncio
from pathlib import Path

import pytest
from tests.jobs.faults.fault_database import FaultDatabase
from tests.jobs.faults.worker_fleet import WorkerFleet

from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.external

WORKERS = 3
SECONDS = choose_effort(test=3.0, shown=60.0, campaign=300.0)
JOBS = choose_effort(test=150, shown=5_000, campaign=25_000)
LEASE = 2.0
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE '%jobs%' ORDER BY hashint4(pid # $1) LIMIT 1
"""


@pytest.mark.long
async def test_a_storm_of_cut_sessions_loses_no_job_and_doubles_no_effect(
    fault_database: FaultDatabase, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    async with WorkerFleet(tmp_path, fault_database.address, lease=LEASE) as fleet:
        for _ in range(WORKERS):
            fleet.start()
        await fault_database.wait_for_workers(WORKERS)

        submitting = asyncio.create_task(fault_database.submit_steadily(JOBS, SECONDS))
        cut = 0
        while not submitting.done():
            cut += len(await fault_database.fetch(CUT, fault_database.random.getrandbits(31)))
            await asyncio.sleep(fault_database.random.uniform(0.05, 0.1))
        await submitting
        await fault_database.wait_until_drained(fleet, within=allow_seconds(LEASE + 5.0))
        await fleet.stop()

        history = await fault_database.require_sound_history(fleet)
    record_measurement("jobs-cut-sessions", sessions_cut=cut, jobs=len(history.rows), lost=0, double_effects=0)
    assert cut > SECONDS * 3
