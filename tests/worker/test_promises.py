"""What workers promise of our own jobs: each is done once, tried again when that helps, given up in time, taken over.

The engine's share of it, whatever the jobs are, is in tests/jobs; the real rests of 2, 4, 8 and 16 s are in
tests/jobs/faults/test_real_times.py, and here in `make shown`.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from bpc import fresh
from bpc.cli.session import signer_of
from bpc.core.events import Act
from bpc.core.signing import Signer
from bpc.db import jobs
from bpc.db.address import Address
from bpc.jobs import Job, Retry, queries
from bpc.settings import Settings
from bpc.worker.run import working
from tests.cli.program import Program
from tests.jobs.stages import LEASE
from tests.measuring import Measured, allowed, effort
from tests.worker.plant import Plant, planted

WORKERS = 10
PASSPORTS = effort(test=25, shown=100, campaign=1_000)  # four jobs each
HASTE = effort(test=40, shown=1, campaign=1)  # how much sooner a job is tried again than it would be
OF_TYPE = "SELECT job_id FROM jobs.job WHERE tenant_id = $1 AND type = $2"

Keys = Callable[[str], Signer | None]


@pytest.fixture
async def plant(
    address: Address, data_dir: Path, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> AsyncIterator[Plant]:
    async with planted(Program(data_dir, {"DATABASE_URL": str(address)}), address, superuser) as made:
        yield made


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    as_declared = Retry.delay_after
    monkeypatch.setattr(Retry, "delay_after", lambda retry, attempt: as_declared(retry, attempt) / HASTE)


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, outbound_allow=("127.0.0.1",), jobs_poll_interval_ms=100)


class MovedAway:
    """A key store that does not answer the first `times` times it is asked, and keeps when it was."""

    def __init__(self, keys: Keys, times: int) -> None:
        self.asked: list[float] = []
        self._keys = keys
        self._times = times

    def __call__(self, key_id: str) -> Signer | None:
        self.asked.append(time.monotonic())
        if len(self.asked) <= self._times:
            raise ConnectionError("the key store does not answer")
        return self._keys(key_id)


async def the_job(plant: Plant, job_type: str) -> Job:
    async with plant.database.tenant(plant.tenant) as conn:
        return await queries.get(conn, plant.tenant, await conn.fetchval(OF_TYPE, plant.tenant, job_type))


async def test_ten_workers_take_passports_through_a_hundred_jobs_and_none_is_done_twice(
    plant: Plant, settings: Settings, measured: Measured
) -> None:
    await plant.request(PASSPORTS)
    began = time.monotonic()

    async with AsyncExitStack() as workers:
        for _ in range(WORKERS):
            await workers.enter_async_context(working(settings, plant.database, signer=signer_of(settings)))
        await plant.over(seconds=60 + PASSPORTS)

    most_attempts = await plant.judge()
    measured(
        "worker-ten-at-once",
        workers=WORKERS,
        passports=PASSPORTS,
        jobs=4 * PASSPORTS,
        done_twice=0,
        seconds=round(time.monotonic() - began, 1),
    )
    assert most_attempts == 1


@pytest.mark.usefixtures("in_haste")
async def test_a_signature_that_fails_three_times_is_made_by_the_fourth(
    plant: Plant, settings: Settings, measured: Measured
) -> None:
    keys = MovedAway(signer_of(settings), times=3)
    await plant.request(1)

    async with working(settings, plant.database, signer=keys):
        await plant.over(seconds=60)
    job = await the_job(plant, "SIGN_PASSPORT")

    assert (job.attempts, len(keys.asked)) == (4, 4)
    await plant.judge()
    rests = [after - before for before, after in pairwise(keys.asked)]
    first, second, third = (round(rest, 2) for rest in rests)
    measured("worker-backoff", first_rest_seconds=first, second_rest_seconds=second, third_rest_seconds=third)
    for rest, least in zip(rests, (2, 4, 8), strict=True):
        assert least / HASTE <= rest <= least / HASTE + allowed(1), rests


@pytest.mark.usefixtures("in_haste")
async def test_a_signature_that_fails_five_times_is_given_up_and_can_be_put_right(
    plant: Plant, settings: Settings
) -> None:
    keys = MovedAway(signer_of(settings), times=5)
    await plant.request(1)

    async with working(settings, plant.database, signer=keys):
        await plant.over(seconds=60)
        dead = await the_job(plant, "SIGN_PASSPORT")
        status = await plant.superuser.fetchval("SELECT status::text FROM passport_versions")
        async with plant.database.tenant(plant.tenant) as conn:
            await jobs.retry(conn, plant.tenant, dead.job_id, act=Act(None, fresh.now()))
        await plant.over(seconds=30)

    assert (dead.status, dead.attempts, dead.max_attempts) == ("DEAD_LETTER", 5, 5)
    assert status == "COMPILING"
    assert dead.last_error is not None
    assert dead.last_error.code == "INTERNAL_ERROR"
    await plant.judge()


async def test_a_compile_whose_worker_is_gone_is_taken_over_when_its_lease_is_over(
    plant: Plant, settings: Settings
) -> None:
    await plant.request(1)
    job_id = (await the_job(plant, "COMPILE_PASSPORT")).job_id
    await plant.superuser.execute(LEASE, plant.tenant, job_id, "nobody:0:0", timedelta(0))
    assert (await the_job(plant, "COMPILE_PASSPORT")).status == "RUNNING"

    async with working(settings, plant.database, signer=signer_of(settings)):
        await plant.over(seconds=30)

    await plant.judge()
    assert (await the_job(plant, "COMPILE_PASSPORT")).attempts == 2
