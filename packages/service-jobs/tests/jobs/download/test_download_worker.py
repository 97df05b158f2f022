"""A download whose worker is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest
from service_jobs.database import Sessions
from service_jobs.download import register_download
from service_jobs.handler import Handlers
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions
from tests.jobs.download.download_scenario import CHUNK, CONTENT, DIGEST, DownloadScenario
from tests.jobs.support.child_environment import build_child_environment
from tests.jobs.support.file_server import open_url
from tests.jobs.support.run_workers import wait_until_status

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, connect

# --- With a worker -----------------------------------------------------------------------------------------------

LOOK = "SELECT checkpoint, result FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"


async def read_saved_bytes(jobs: Jobs, tenant: UUID, job_id: UUID) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job's checkpoint and its result."""
    async with jobs.sessions.tenant(tenant) as conn:
        row = await conn.fetchrow(LOOK, tenant, job_id)
    assert row is not None
    return orjson.loads(row["checkpoint"] or "{}"), orjson.loads(row["result"] or "{}")


async def run_worker(address: dict[str, Any]) -> None:
    """A worker that downloads, as a process of its own."""

    async def connected(*_: object, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        return await connect(**address | named)  # the driver's pool says by position that it knows no address

    sessions = Sessions(connected, role=APP_ROLE, worker_role=SYSTEM_ROLE)
    await sessions.open()
    handlers = Handlers()
    register_download(handlers, open_url, checkpoint_every=0.0)
    await Worker(Jobs(handlers, sessions), WorkerOptions(name="test")).run()


@asynccontextmanager
async def run_worker_process(address: Address) -> AsyncIterator[asyncio.subprocess.Process]:
    arguments = repr(address.connect_arguments())
    program = (
        "import asyncio; from tests.jobs.download.test_download_worker import run_worker; "
        f"asyncio.run(run_worker({arguments}))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=build_child_environment())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.external
async def test_a_download_resumes_with_range_after_kill_9(
    downloads: DownloadScenario, jobs: Jobs, handlers: Handlers, tenant: TenantId, address: Address
) -> None:
    download = register_download(handlers, open_url)
    server = downloads.server
    server.hold_at = 10 * CHUNK
    job_id = await jobs.submit(download, downloads.build_input(sha256=DIGEST), tenant=tenant)

    async with asyncio.timeout(60), run_worker_process(address) as first:
        await server.holds.wait()
        while (await read_saved_bytes(jobs, tenant, job_id))[0].get("bytes", 0) < 8 * CHUNK:
            await asyncio.sleep(0.01)
        first.kill()
        assert await first.wait() == -9
    had = (await read_saved_bytes(jobs, tenant, job_id))[0]["bytes"]
    assert not downloads.dest.exists()

    async with run_worker_process(address):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)

    assert downloads.dest.read_bytes() == CONTENT
    assert (await read_saved_bytes(jobs, tenant, job_id))[1]["sha256"] == DIGEST
    assert [(request.start, request.if_range) for request in server.requests] == [(0, None), (had, '"v1"')]
    assert server.requests[1].headers["range"] == f"bytes={had}-"
