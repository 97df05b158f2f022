"""Specification of `kill -9` of workers: every version is finished, and nothing happens twice."""

from pathlib import Path

import asyncpg
import pytest
from tests.jobs.faults.fault_database import create_random

from bpc.runtime.postgres.address import Address
from tests.cli.program import Program
from tests.measurements import RecordMeasurement, choose_effort
from tests.worker.worker_installation import open_installation

WORKERS = choose_effort(test=2, shown=4, campaign=4)
KILLS = choose_effort(test=3, shown=50, campaign=200)
PASSPORTS = choose_effort(test=12, shown=500, campaign=2_000)
SETTINGS = {
    "BPC_JOBS_LEASE_SECONDS": "2",
    "BPC_JOBS_LEASE_RENEW_SECONDS": "1",
    "BPC_JOBS_STOP_GRACE_SECONDS": "5",
    "BPC_WORKER_HTTP_PORT": "0",
    "BPC_WORKER_NICE": "0",
    "BPC_OUTBOUND_ALLOW": "127.0.0.1",
    "BPC_LOG_LEVEL": "warn",
}


async def test_killing_workers_loses_no_version_and_makes_none_twice(
    address: Address,
    data_dir: Path,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    record_measurement: RecordMeasurement,
    request: pytest.FixtureRequest,
) -> None:
    chance = create_random(request.node.name)
    program = Program(data_dir, {"DATABASE_URL": str(address), **SETTINGS})
    async with open_installation(program, address, superuser) as installation:
        for _ in range(WORKERS):
            installation.start_worker()
        for _ in range(KILLS):
            await installation.request_versions(PASSPORTS // (KILLS + 1))
            await installation.kill_busy_worker(chance)
            installation.start_worker()
        await installation.request_versions(max(0, PASSPORTS - len(installation.versions)))
        await installation.wait_until_idle(seconds=60 + PASSPORTS / 10)
        installation.stop()

        most_attempts = await installation.assert_done_once()
        record_measurement(
            "worker-kill-9",
            kills=KILLS,
            passports=len(installation.versions),
            lease_seconds=2,
            versions_lost=0,
            versions_doubled=0,
            events_doubled=0,
            deliveries_doubled=0,
            replays_equal=len(installation.versions),
            webhooks_heard_again=len(installation.receiver.received) - len(installation.versions),
            most_attempts=most_attempts,
        )
