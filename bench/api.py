"""The API under load: our own routes and a bare FastAPI route with constant bytes, in turn, in one run.

One process each, on a real socket, with `wrk` (two threads, 16 connections) where it is installed. Each candidate has
five seconds in each of three rounds; a figure is the median of the rounds. 100,000 documents are there when the list
is asked for, and the same list once more with 1,000.

    GET bare       a FastAPI route that returns constant bytes: what the framework and the server cost
    GET payload    the stored bytes of a passport: authentication, permission, one transaction
    GET list       50 of 100,000 documents
    POST document  a write with idempotency key, event and stored answer in one transaction
"""

import asyncio
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg
import httpx2
from bpc_client import Client

from bench import Table
from bpc.cli.run.demo import DemoListener, issue_passport
from bpc.runtime import clock

SECONDS: Final = int(os.environ.get("BENCH_SECONDS", "5"))
ROUNDS: Final = int(os.environ.get("BENCH_REPEATS", "3"))
DOCUMENTS: Final = int(os.environ.get("BENCH_DOCUMENTS", "100000"))
BARE: Final = """
import sys
import uvicorn
from fastapi import FastAPI
from starlette.responses import Response

app = FastAPI()
BYTES = b"x" * int(sys.argv[2])

@app.get("/bare")
async def bare() -> Response:
    return Response(BYTES, media_type="application/json")

port = int(sys.argv[1])
uvicorn.run(app, port=port, log_level="error", access_log=False, loop="uvloop", http="httptools")
"""
POST: Final = """
local n = 0
local base = "%s"
request = function()
  n = n + 1
  local headers = {
    ["Authorization"] = "Bearer %s",
    ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = base .. "-" .. tostring(math.random(1, 1e9)) .. "-" .. n,
  }
  return wrk.format("POST", "/v1/documents", headers, '{"kind":"OTHER"}')
end
"""
FILL: Final = """
    INSERT INTO documents (tenant_id, document_id, kind, created_at)
    SELECT $1, gen_random_uuid(), 'OTHER', now() - make_interval(secs => n) FROM generate_series(1, $2) AS n
"""


class LoadResult(NamedTuple):
    """What came of one run."""

    per_second: float
    p99_ms: float
    errors: int


def run() -> Iterable[Table]:
    if shutil.which("wrk") is None:
        yield Table(title="API", columns=("",), rows=(), note="`wrk` is not installed, so nothing was measured.")
        return
    yield asyncio.run(_measure_api())


async def _measure_api() -> Table:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-") as folder:
        Path(folder).chmod(0o711)  # noqa: ASYNC240 (nothing else runs yet)
        async with run_own_service(Path(folder)) as service:
            path, size = await issue_payload(service)
            async with run_bare_service(size) as (bare, _):
                targets = {
                    "GET bare FastAPI route": (bare, "/bare", None),
                    f"GET payload, {size:,} bytes": (service.url, path, service.key),
                    "GET list, 50 of 1,000": (service.url, "/v1/documents", service.key),
                    "POST document": (service.url, "POST", service.key),
                }
                results = await _run_rounds(targets)
            await service.insert_documents(DOCUMENTS)
            results |= await _run_rounds(
                {f"GET list, 50 of {DOCUMENTS:,}": (service.url, "/v1/documents", service.key)}
            )
    yardstick = results["GET bare FastAPI route"].per_second
    rows = tuple(
        (name, f"{load.per_second:,.0f}", f"{load.per_second / yardstick:.2f}", f"{load.p99_ms:.1f}", str(load.errors))
        for name, load in results.items()
    )
    return Table(
        title=f"API, one process, wrk with 16 connections, median of {ROUNDS} rounds of {SECONDS} s",
        columns=("", "requests/s", "of bare", "p99 ms", "errors"),
        rows=rows,
    )


async def _run_rounds(targets: dict[str, tuple[str, str, str | None]]) -> dict[str, LoadResult]:
    runs: dict[str, list[LoadResult]] = {name: [] for name in targets}
    for _ in range(ROUNDS):
        for name, (url, path, key) in targets.items():
            runs[name].append(await asyncio.to_thread(_run_wrk, url, path, key))
    return {
        name: LoadResult(
            statistics.median(load.per_second for load in loads),
            statistics.median(load.p99_ms for load in loads),
            sum(load.errors for load in loads),
        )
        for name, loads in runs.items()
    }


def _run_wrk(url: str, path: str, key: str | None) -> LoadResult:
    command = ["wrk", "-t2", "-c16", f"-d{SECONDS}s", "--latency"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if path == "POST":
            script.write(POST % (clock.new_id(), key))
            script.flush()
            command += ["-s", script.name, f"{url}/v1/documents"]
        else:
            command += [] if key is None else ["-H", f"Authorization: Bearer {key}"]
            command.append(url + path)
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return read_load(output)


def read_load(output: str) -> LoadResult:
    """What `wrk` printed."""
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", output)
    p99 = re.search(r"99%\s+([0-9.]+)(us|ms|s)", output)
    error_count = re.search(r"Non-2xx or 3xx responses: ([0-9]+)", output)
    if rate is None or p99 is None:
        raise RuntimeError(f"wrk said something else: {output}")
    scale = {"us": 0.001, "ms": 1.0, "s": 1000.0}[p99[2]]
    return LoadResult(float(rate[1]), float(p99[1]) * scale, 0 if error_count is None else int(error_count[1]))


@asynccontextmanager
async def run_bare_service(size: int) -> AsyncIterator[tuple[str, int]]:
    """Where it listens, and its process."""
    port = find_free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", BARE, str(port), str(size))
    try:
        await wait_until_answering(f"http://127.0.0.1:{port}/bare")
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        await process.wait()


class OwnService(NamedTuple):
    """Our service, as `bpc up` says it is."""

    url: str
    key: str
    tenant: str
    folder: Path
    process: int

    async def insert_documents(self, count: int) -> None:
        """Put that many documents into the table, past the API."""
        from bpc.runtime import postgres  # noqa: PLC0415 (only a machine that measures needs it)

        server = await asyncio.to_thread(postgres.use_server, self.folder)
        conn = await asyncpg.connect(**server.superuser_address().with_database("bpc").connect_arguments())
        await conn.execute(FILL, self.tenant, count)
        await conn.execute("ANALYZE documents")
        await conn.close()
        server.release()


@asynccontextmanager
async def run_own_service(folder: Path) -> AsyncIterator[OwnService]:
    environment = {**os.environ, "BPC_DATA_DIR": str(folder), "BPC_LOG_LEVEL": "warn"}
    command = [sys.executable, "-m", "bpc", "up", "--port", "0", "--json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    try:
        if process.stdout is None:
            raise RuntimeError("no output to read")
        announcement = json.loads(await process.stdout.readline())
        service = OwnService(
            announcement["url"], announcement["api_key"], announcement["tenant_id"], folder, process.pid
        )
        await service.insert_documents(1_000)
        yield service
    finally:
        process.terminate()
        await process.wait()


async def issue_payload(service: OwnService) -> tuple[str, int]:
    """Where the payload of the demo's passport is served, and how large it is."""
    async with Client(service.url, service.key) as client:
        version_id = await issue_passport(client, DemoListener(), service.folder)
        payload = await client.get_payload(version_id)
    return f"/v1/passport-versions/{version_id}/payload", len(payload.content)


async def wait_until_answering(url: str) -> None:
    deadline = time.monotonic() + 30
    async with httpx2.AsyncClient() as client:
        while True:
            try:
                await client.get(url)
            except httpx2.TransportError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
