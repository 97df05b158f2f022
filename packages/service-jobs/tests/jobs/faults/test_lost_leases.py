"""A lease is taken away at the worst moment: from a worker that gets the same job back, and in mid-commit."""

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from service_jobs.context import Lease
from service_jobs.execution import build_success
from service_jobs.worker.settlement import IDLE_TIMEOUT_SECONDS, settle_execution
from tests.jobs.faults.fault_database import FaultDatabase
from tests.jobs.faults.fault_handlers import EFFECTIVE, PLAIN, FaultInput
from tests.jobs.faults.worker_fleet import WorkerFleet

from tests.measurements import allow_seconds

pytestmark = pytest.mark.external

REAP = "SELECT jobs.reap(tenant_id, job_id, owner, attempt, NULL, true, NULL) FROM jobs.job_lease WHERE job_id = $1"


async def leased(field: FaultDatabase, job_id: UUID) -> Lease:
    while True:
        for row in await field.fetch("SELECT type, owner, attempt FROM jobs.job_lease WHERE job_id = $1", job_id):
            return Lease(field.tenant, job_id, row["type"], row["owner"], row["attempt"])
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("job_type", [PLAIN, EFFECTIVE])
async def test_a_worker_that_gets_back_a_job_which_was_taken_from_it_runs_it_anew(
    fault_database: FaultDatabase, tmp_path: Path, job_type: str
) -> None:
    async with WorkerFleet(tmp_path, fault_database.address, lease=60.0) as fleet:
        fleet.start()
        await fault_database.wait_for_workers(1)
        job_id = await fault_database.submit(job_type, FaultInput(seconds=1.0))
        first = await leased(fault_database, job_id)

        await fault_database.fetch(REAP, job_id)
        again = await leased(fault_database, job_id)
        await fault_database.wait_until_drained(fleet, within=allow_seconds(4))
        await fleet.stop()

        await fault_database.require_sound_history(fleet)
    assert (again.owner, again.attempt) == (first.owner, first.attempt + 1)


@pytest.mark.long
async def test_a_worker_that_is_cut_off_between_its_last_word_and_the_commit_does_not_keep_the_job(
    fault_database: FaultDatabase, tmp_path: Path
) -> None:
    async with WorkerFleet(tmp_path, fault_database.address, lease=60.0) as fleet:
        cut_off = fleet.start()
        await fault_database.wait_for_workers(1)
        job_id = await fault_database.submit(PLAIN, FaultInput(seconds=2.0))
        held = await leased(fault_database, job_id)

        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError):
            async with fault_database.jobs.sessions.tenant(fault_database.tenant) as conn:
                await settle_execution(conn, held, build_success("1"))
                fleet.kill(cut_off)  # we are its last session now, and fall silent
                fleet.start()
                await fault_database.wait_until_drained(fleet, within=allow_seconds(IDLE_TIMEOUT_SECONDS + 6))
        await fleet.stop()

        history = await fault_database.require_sound_history(fleet)
    assert [row.attempts for row in history.rows if row.job_id == str(job_id)] == [2]
