"""A lease is taken away at the worst moment: from a worker that gets the same job back, and in mid-commit."""

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from bpc.jobs.context import Held
from bpc.jobs.outcome import succeeded
from bpc.jobs.worker.settling import LONGEST_SILENCE, settle
from tests.jobs.faults.fleet import Fleet
from tests.jobs.faults.ground import Ground
from tests.jobs.faults.work import EFFECTIVE, PLAIN, Work
from tests.measuring import allowed

pytestmark = pytest.mark.external

REAP = "SELECT jobs.reap(tenant_id, job_id, owner, attempt, NULL, true, NULL) FROM jobs.job_lease WHERE job_id = $1"


async def leased(field: Ground, job_id: UUID) -> Held:
    while True:
        for row in await field.fetch("SELECT type, owner, attempt FROM jobs.job_lease WHERE job_id = $1", job_id):
            return Held(field.tenant, job_id, row["type"], row["owner"], row["attempt"])
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("job_type", [PLAIN, EFFECTIVE])
async def test_a_worker_that_gets_back_a_job_which_was_taken_from_it_runs_it_anew(
    field: Ground, tmp_path: Path, job_type: str
) -> None:
    async with Fleet(tmp_path, field.address, lease=60.0) as fleet:
        fleet.start()
        await field.workers_are(1)
        job_id = await field.submit(job_type, Work(seconds=1.0))
        first = await leased(field, job_id)

        await field.fetch(REAP, job_id)
        again = await leased(field, job_id)
        await field.drained(fleet, within=allowed(4))
        await fleet.stop()

        await field.judged(fleet)
    assert (again.owner, again.attempt) == (first.owner, first.attempt + 1)


async def test_a_worker_that_is_cut_off_between_its_last_word_and_the_commit_does_not_keep_the_job(
    field: Ground, tmp_path: Path
) -> None:
    async with Fleet(tmp_path, field.address, lease=60.0) as fleet:
        cut_off = fleet.start()
        await field.workers_are(1)
        job_id = await field.submit(PLAIN, Work(seconds=2.0))
        held = await leased(field, job_id)

        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError):
            async with field.jobs.sessions.tenant(field.tenant) as conn:
                await settle(conn, held, succeeded("1"))
                fleet.kill(cut_off)  # we are its last session now, and fall silent
                fleet.start()
                await field.drained(fleet, within=allowed(LONGEST_SILENCE + 6))
        await fleet.stop()

        history = await field.judged(fleet)
    assert [row.attempts for row in history.rows if row.job_id == str(job_id)] == [2]
