"""The database server itself is killed in mid-work: what was acknowledged is there, and happens once."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from bpc.db import embedded
from bpc.db.embedded.layout import is_locked, running_postmaster
from bpc.db.embedded.prepare import prepare
from bpc.db.migrate import migrate, our_migrations
from tests.jobs.faults.fleet import Fleet
from tests.jobs.faults.ground import Ground, ground
from tests.measuring import Measured, allowed, effort

WORKERS = 2
KILLS = effort(test=2, shown=20, campaign=100)
JOBS_PER_KILL = 150
LEASE = 2.0


@pytest.fixture
async def own_server(data_dir: Path) -> AsyncIterator[embedded.Server]:
    with embedded.use(data_dir) as server:
        await prepare(server, "bpc")
        conn = await asyncpg.connect(**server.superuser_address("bpc").connect_arguments())
        await migrate(conn, our_migrations())
        await conn.close()
        yield server
    while is_locked(server.layout.keeper_lock):
        await asyncio.sleep(0.02)


async def test_kill_9_of_the_database_server_loses_no_acknowledged_job_and_doubles_no_effect(
    own_server: embedded.Server, tmp_path: Path, measured: Measured, request: pytest.FixtureRequest
) -> None:
    admin = own_server.superuser_address("bpc")
    downs: list[float] = []
    async with (
        ground(own_server.address("bpc"), admin, request.node.name) as field,
        Fleet(tmp_path, field.address, lease=LEASE) as fleet,
    ):
        for _ in range(WORKERS):
            fleet.start()
        await field.workers_are(WORKERS)

        submitting = asyncio.create_task(field.submit_steadily(KILLS * JOBS_PER_KILL, KILLS * 1.5))
        for _ in range(KILLS):
            await asyncio.sleep(field.chance.uniform(0.5, 1.5))
            downs.append(await _kill_server(own_server, field))
        await submitting
        await field.drained(fleet, within=allowed(60))
        await fleet.stop()

        history = await field.judged(fleet)
    measured(
        "jobs-server-kill-9",
        server_kills=KILLS,
        jobs=len(history.rows),
        acknowledged_jobs_lost=0,
        double_effects=0,
        slowest_restart_seconds=round(max(downs), 2),
    )


async def _kill_server(server: embedded.Server, field: Ground) -> float:
    """Kill it and return the seconds until it answers again."""
    running = running_postmaster(server.layout.known_cluster())
    assert running is not None
    begun = time.monotonic()
    os.kill(running.pid, signal.SIGKILL)
    while (now := running_postmaster(server.layout.known_cluster())) is None or now.pid == running.pid:
        assert time.monotonic() < begun + 60, "it did not come back"
        await asyncio.sleep(0.02)
    await field.fetch("SELECT 1")
    return time.monotonic() - begun
