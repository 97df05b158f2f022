"""The database server itself is killed in mid-work: what was acknowledged is there, and happens once."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.jobs.faults.fault_database import FaultDatabase, open_fault_database
from tests.jobs.faults.worker_fleet import WorkerFleet

from bpc.runtime import postgres
from bpc.runtime.postgres.cluster import find_running_postmaster, is_locked
from bpc.storage.database import prepare_embedded_server
from bpc.storage.migrate import list_migrations, migrate
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

WORKERS = 2
KILLS = choose_effort(test=2, shown=20, campaign=100)
JOBS_PER_KILL = 150
LEASE = 2.0


@pytest.fixture
async def own_server(data_dir: Path) -> AsyncIterator[postgres.EmbeddedServer]:
    with postgres.use_server(data_dir) as server:
        await prepare_embedded_server(server, "bpc")
        conn = await asyncpg.connect(**server.superuser_address("bpc").connect_arguments())
        await migrate(conn, list_migrations())
        await conn.close()
        yield server
    while is_locked(server.layout.keeper_lock):
        await asyncio.sleep(0.02)


async def test_kill_9_of_the_database_server_loses_no_acknowledged_job_and_doubles_no_effect(
    own_server: postgres.EmbeddedServer,
    tmp_path: Path,
    record_measurement: RecordMeasurement,
    request: pytest.FixtureRequest,
) -> None:
    admin = own_server.superuser_address("bpc")
    downs: list[float] = []
    async with (
        open_fault_database(own_server.address("bpc"), admin, request.node.name) as field,
        WorkerFleet(tmp_path, field.address, lease=LEASE) as fleet,
    ):
        for _ in range(WORKERS):
            fleet.start()
        await field.wait_for_workers(WORKERS)

        submitting = asyncio.create_task(field.submit_steadily(KILLS * JOBS_PER_KILL, KILLS * 1.5))
        for _ in range(KILLS):
            await asyncio.sleep(field.random.uniform(0.5, 1.5))
            downs.append(await _kill_server(own_server, field))
        await submitting
        await field.wait_until_drained(fleet, within=allow_seconds(60))
        await fleet.stop()

        history = await field.require_sound_history(fleet)
    record_measurement(
        "jobs-server-kill-9",
        server_kills=KILLS,
        jobs=len(history.rows),
        acknowledged_jobs_lost=0,
        double_effects=0,
        slowest_restart_seconds=round(max(downs), 2),
    )


async def _kill_server(server: postgres.EmbeddedServer, field: FaultDatabase) -> float:
    """Kill it and return the seconds until it answers again."""
    running = find_running_postmaster(server.layout.find_cluster_folder())
    assert running is not None
    begun = time.monotonic()
    os.kill(running.pid, signal.SIGKILL)
    while (now := find_running_postmaster(server.layout.find_cluster_folder())) is None or now.pid == running.pid:
        assert time.monotonic() < begun + 60, "it did not come back"
        await asyncio.sleep(0.02)
    await field.fetch("SELECT 1")
    return time.monotonic() - begun
