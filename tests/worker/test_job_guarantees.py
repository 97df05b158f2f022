"""Specification of workers and our own jobs: each runs once, is retried, given up or taken over by another worker.

The tests of the engine itself are in packages/service-jobs/tests. The real delays of 2, 4, 8 and 16 s are in its
faults/test_real_times.py, and here in `make shown`.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest
from service_jobs import Job, Retry, queries
from tests.jobs.support.job_stages import LEASE

from bpc.core.audit.events import Act
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing, SigningKeys
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage import jobs
from bpc.worker.run import run_worker
from tests.cli.program import Program
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.worker.worker_installation import WorkerInstallation, open_installation

WORKERS = 10
PASSPORTS = choose_effort(test=10, shown=100, campaign=1_000)  # two jobs each
HASTE = choose_effort(test=40, shown=1, campaign=1)  # how much sooner a job is tried again than it would be
OF_TYPE = "SELECT job_id FROM jobs.job WHERE tenant_id = $1 AND type = $2"


@pytest.fixture
async def installation(
    address: Address, data_dir: Path, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> AsyncIterator[WorkerInstallation]:
    async with open_installation(Program(data_dir, {"DATABASE_URL": str(address)}), address, superuser) as opened:
        yield opened


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    as_declared = Retry.delay_after
    monkeypatch.setattr(
        Retry, "delay_after", lambda retry, attempt, **chance: as_declared(retry, attempt, **chance) / HASTE
    )


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, outbound_allow=("127.0.0.1",), jobs_poll_interval_ms=100)


@dataclass(frozen=True, slots=True)
class FailingKeyRing(KeyRing):
    """A key ring that cannot be loaded the first `failures` times; it remembers when it was loaded."""

    failures: int = 0
    load_times: list[float] = field(default_factory=list[float])

    def load(self) -> SigningKeys:
        self.load_times.append(time.monotonic())
        if len(self.load_times) <= self.failures:
            raise ConnectionError("the key store does not answer")
        return KeyRing.load(self)


async def get_job(installation: WorkerInstallation, job_type: str) -> Job:
    async with installation.database.tenant(installation.tenant) as conn:
        return await queries.get_job(
            conn, installation.tenant, await conn.fetchval(OF_TYPE, installation.tenant, job_type)
        )


async def test_ten_workers_run_a_hundred_jobs_and_none_runs_twice(
    installation: WorkerInstallation, settings: Settings, record_measurement: RecordMeasurement
) -> None:
    await installation.request_versions(PASSPORTS)
    began = time.monotonic()

    async with AsyncExitStack() as workers:
        for _ in range(WORKERS):
            await workers.enter_async_context(
                run_worker(settings, installation.database, key_ring=KeyRing.from_settings(settings))
            )
        await installation.wait_until_idle(seconds=60 + PASSPORTS)

    most_attempts = await installation.assert_done_once()
    record_measurement(
        "worker-ten-at-once",
        workers=WORKERS,
        passports=PASSPORTS,
        jobs=2 * PASSPORTS,
        done_twice=0,
        seconds=round(time.monotonic() - began, 1),
    )
    assert most_attempts == 1


@pytest.mark.usefixtures("quick_retries")
async def test_a_signature_that_fails_three_times_succeeds_in_the_fourth_attempt(
    installation: WorkerInstallation, settings: Settings, record_measurement: RecordMeasurement
) -> None:
    keys = replace(FailingKeyRing.from_settings(settings), failures=4)  # the first one beside the compile
    await installation.request_versions(1)

    async with run_worker(settings, installation.database, key_ring=keys):
        await installation.wait_until_idle(seconds=60)
    job = await get_job(installation, "SIGN_PASSPORT")

    assert (job.attempts, len(keys.load_times)) == (4, 5)
    await installation.assert_done_once()
    rests = [after - before for before, after in pairwise(keys.load_times[1:])]
    first, second, third = (round(rest, 2) for rest in rests)
    record_measurement("worker-backoff", first_rest_seconds=first, second_rest_seconds=second, third_rest_seconds=third)
    for rest, least in zip(rests, (2, 4, 8), strict=True):
        assert least / HASTE <= rest <= least / HASTE + allow_seconds(1), rests


@pytest.mark.usefixtures("quick_retries")
async def test_a_signature_that_fails_five_times_is_a_dead_letter_and_can_be_retried(
    installation: WorkerInstallation, settings: Settings
) -> None:
    keys = replace(FailingKeyRing.from_settings(settings), failures=6)  # the first one beside the compile
    await installation.request_versions(1)

    async with run_worker(settings, installation.database, key_ring=keys):
        await installation.wait_until_idle(seconds=60)
        dead = await get_job(installation, "SIGN_PASSPORT")
        status = await installation.superuser.fetchval("SELECT status::text FROM passport_versions")
        async with installation.database.tenant(installation.tenant) as conn:
            await jobs.retry_job(conn, installation.tenant, dead.job_id, act=Act(None, clock.now()))
        await installation.wait_until_idle(seconds=30)

    assert (dead.status, dead.attempts, dead.max_attempts) == ("DEAD_LETTER", 5, 5)
    assert status == "COMPILING"
    assert dead.last_error is not None
    assert dead.last_error.code == "INTERNAL_ERROR"
    await installation.assert_done_once("PASSPORT_SIGN_FAILED")


async def test_a_compile_of_a_dead_worker_is_taken_over_when_its_lease_ends(
    installation: WorkerInstallation, settings: Settings
) -> None:
    await installation.request_versions(1)
    job_id = (await get_job(installation, "COMPILE_PASSPORT")).job_id
    await installation.superuser.execute(LEASE, installation.tenant, job_id, "nobody:0:0", timedelta(0))
    assert (await get_job(installation, "COMPILE_PASSPORT")).status == "RUNNING"

    async with run_worker(settings, installation.database, key_ring=KeyRing.from_settings(settings)):
        await installation.wait_until_idle(seconds=30)

    await installation.assert_done_once()
    assert (await get_job(installation, "COMPILE_PASSPORT")).attempts == 2
