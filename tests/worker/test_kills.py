"""`kill -9` of workers while passports go through them: each version comes to its end, and everything happens once."""

from pathlib import Path

import asyncpg
import pytest

from bpc.db.address import Address
from tests.cli.program import Program
from tests.jobs.faults.ground import seeded
from tests.measuring import Measured, effort
from tests.worker.plant import planted

WORKERS = effort(test=2, shown=4, campaign=4)
KILLS = effort(test=3, shown=50, campaign=200)
PASSPORTS = effort(test=20, shown=500, campaign=2_000)
SETTINGS = {
    "BPC_JOBS_LEASE_SECONDS": "2",
    "BPC_JOBS_LEASE_RENEW_SECONDS": "1",
    "BPC_JOBS_STOP_GRACE_SECONDS": "5",
    "BPC_WORKER_HTTP_PORT": "0",
    "BPC_OUTBOUND_ALLOW": "127.0.0.1",
    "BPC_LOG_LEVEL": "warn",
}


async def test_kill_9_of_workers_loses_no_version_and_makes_none_twice(
    address: Address,
    data_dir: Path,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    measured: Measured,
    request: pytest.FixtureRequest,
) -> None:
    chance = seeded(request.node.name)
    program = Program(data_dir, {"DATABASE_URL": str(address), **SETTINGS})
    async with planted(program, address, superuser) as plant:
        for _ in range(WORKERS):
            plant.start()
        for _ in range(KILLS):
            await plant.request(PASSPORTS // (KILLS + 1))
            await plant.kill_one_at_work(chance)
            plant.start()
        await plant.request(max(0, PASSPORTS - len(plant.versions)))
        await plant.over(seconds=60 + PASSPORTS / 10)
        plant.stop()

        most_attempts = await plant.judge()
        measured(
            "worker-kill-9",
            kills=KILLS,
            passports=len(plant.versions),
            lease_seconds=2,
            versions_lost=0,
            versions_doubled=0,
            events_doubled=0,
            deliveries_doubled=0,
            replays_equal=len(plant.versions),
            webhooks_heard_again=len(plant.receiver.received) - len(plant.versions),
            most_attempts=most_attempts,
        )
