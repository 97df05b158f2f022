"""Sessions are cut at random, of workers and of whoever submits: nothing is lost, nothing happens twice."""

import asyncio
from pathlib import Path

import pytest

from tests.jobs.faults.fleet import Fleet
from tests.jobs.faults.ground import Ground
from tests.measuring import Measured, allowed, effort

pytestmark = pytest.mark.external

WORKERS = 3
SECONDS = effort(test=3.0, shown=60.0, campaign=300.0)
JOBS = effort(test=250, shown=5_000, campaign=25_000)
LEASE = 2.0
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'bpc jobs%' ORDER BY hashint4(pid # $1) LIMIT 1
"""


async def test_a_storm_of_cut_sessions_loses_no_job_and_doubles_no_effect(
    field: Ground, tmp_path: Path, measured: Measured
) -> None:
    async with Fleet(tmp_path, field.address, lease=LEASE) as fleet:
        for _ in range(WORKERS):
            fleet.start()
        await field.workers_are(WORKERS)

        submitting = asyncio.create_task(field.submit_steadily(JOBS, SECONDS))
        cut = 0
        while not submitting.done():
            cut += len(await field.fetch(CUT, field.chance.getrandbits(31)))
            await asyncio.sleep(field.chance.uniform(0.05, 0.1))
        await submitting
        await field.drained(fleet, within=allowed(LEASE + 5.0))
        await fleet.stop()

        history = await field.judged(fleet)
    measured("jobs-cut-sessions", sessions_cut=cut, jobs=len(history.rows), lost=0, double_effects=0)
    assert cut > SECONDS * 3
