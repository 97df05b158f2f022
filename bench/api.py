"""The API under load: our own routes, each beside a bare FastAPI route with as many constant bytes, in one run.

One process each, on a real socket, with `wrk` (two threads) where it is installed, over 1, 16 and 200 connections. Each
candidate has some seconds in each round, in random order; a figure is the median of the rounds, the spread that of the
ratios. 100,000 documents are there when the list is asked for, and the same list once more with 1,000.

    GET payload    the stored bytes of a passport: authentication, permission, access, one statement
    GET view       what the public may see of it
    GET list       50 of 100,000 documents
    POST document  a write with idempotency key, event and stored answer in one transaction

    BENCH_SECONDS=5            of each candidate, in each round
    BENCH_REPEATS=3            rounds
    BENCH_CONNECTIONS=1,16,200
"""

import asyncio
import json
import os
import random  # noqa: TID251 - which candidate comes first must not be known
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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
CONNECTIONS: Final = tuple(int(text) for text in os.environ.get("BENCH_CONNECTIONS", "1,16,200").split(","))
DOCUMENTS: Final = int(os.environ.get("BENCH_DOCUMENTS", "100000"))
BARE: Final = """
import sys
import uvicorn
from fastapi import FastAPI
from starlette.responses import Response

app = FastAPI()
BYTES = b"x" * int(sys.argv[2])
PARTS = {}

@app.get("/bare")
async def bare() -> Response:
    return Response(BYTES, media_type="application/json")

@app.get("/bare/{size}")
async def bare_of_size(size: str) -> Response:
    if size not in PARTS:
        PARTS[size] = BYTES[:int(size)]
    return Response(PARTS[size], media_type="application/json")

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
    p50_ms: float = 0.0


def run() -> Iterable[Table]:
    if shutil.which("wrk") is None:
        yield Table(title="API", columns=("",), rows=(), note="`wrk` is not installed, so nothing was measured.")
        return
    yield from asyncio.run(_measure_api())


class ApiTarget(NamedTuple):
    """What is asked for, of whom, beside a bare route with as many bytes; `goal` is the share of its requests."""

    url: str
    path: str
    key: str | None
    goal: float
    is_write: bool = False


async def _measure_api() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-") as folder:
        Path(folder).chmod(0o711)  # noqa: ASYNC240 (nothing else runs yet)
        async with run_own_service(Path(folder)) as service:
            path, size = await issue_payload(service)
            view = path.replace("/payload", "/view?audience=public")
            targets = {
                "GET payload": ApiTarget(service.url, path, service.key, 0.40),
                "GET view": ApiTarget(service.url, view, service.key, 0.40),
                "GET list, 50 of 1,000": ApiTarget(service.url, "/v1/documents", service.key, 0.25),
                "POST document": ApiTarget(service.url, "/v1/documents", service.key, 0.15, is_write=True),
            }
            sizes = [await _fetch_size(target) for target in targets.values()]
            async with run_bare_service(max(size, *sizes)) as (bare, _):
                tables = [await _measure_goals(targets, bare, count) for count in CONNECTIONS]
                await service.insert_documents(DOCUMENTS)
                longer = {f"GET list, 50 of {DOCUMENTS:,}": targets["GET list, 50 of 1,000"]}
                tables.append(await _measure_goals(longer, bare, CONNECTIONS[-1]))
    return tables


async def _fetch_size(target: ApiTarget) -> int:
    if target.is_write:
        return 100
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {target.key}"}) as client:
        return len((await client.get(target.url + target.path)).content)


async def _measure_goals(targets: Mapping[str, ApiTarget], bare: str, connections: int) -> Table:
    """Each target and the bare route right beside it, in an order that is drawn anew each round."""
    runs: dict[str, list[tuple[LoadResult, LoadResult]]] = {name: [] for name in targets}
    sizes = {name: await _fetch_size(target) for name, target in targets.items()}
    for _ in range(ROUNDS):
        for name in random.sample([*targets], len(targets)):
            peer = ApiTarget(bare, f"/bare/{sizes[name]}", None, 1.0)
            pair = [(peer, 0), (targets[name], 1)]
            random.shuffle(pair)
            loads = {place: await asyncio.to_thread(_run_wrk, target, connections) for target, place in pair}
            runs[name].append((loads[0], loads[1]))
    return Table(
        title=f"API, one process, {connections} connections, median of {ROUNDS} rounds of {SECONDS} s",
        columns=("", "bare/s", "ours/s", "ratio", "spread", "goal", "", "p50 ms", "p99 ms", "bare p99", "errors"),
        rows=tuple(_write_row(name, targets[name].goal, pairs) for name, pairs in runs.items()),
        note=f"bare: FastAPI and uvicorn, as many constant bytes; load {os.getloadavg()[0]:.1f}",
    )


def _write_row(name: str, goal: float, pairs: Sequence[tuple[LoadResult, LoadResult]]) -> tuple[str, ...]:
    ratios = sorted(own.per_second / bare.per_second for bare, own in pairs)
    ratio = statistics.median(ratios)
    return (
        name,
        f"{statistics.median(bare.per_second for bare, _ in pairs):,.0f}",
        f"{statistics.median(own.per_second for _, own in pairs):,.0f}",
        f"{ratio:.2f}",
        f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
        f"{goal:.2f}",
        "reached" if ratio >= goal else "missed",
        f"{statistics.median(own.p50_ms for _, own in pairs):.1f}",
        f"{statistics.median(own.p99_ms for _, own in pairs):.1f}",
        f"{statistics.median(bare.p99_ms for bare, _ in pairs):.1f}",
        str(sum(own.errors + bare.errors for bare, own in pairs)),
    )


def _run_wrk(target: ApiTarget, connections: int) -> LoadResult:
    threads = min(2, connections)
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{SECONDS}s", "--latency"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if target.is_write:
            script.write(POST % (clock.new_id(), target.key))
            script.flush()
            command += ["-s", script.name]
        elif target.key is not None:
            command += ["-H", f"Authorization: Bearer {target.key}"]
        output = subprocess.run([*command, target.url + target.path], capture_output=True, text=True, check=True).stdout
    return read_load(output)


def read_load(output: str) -> LoadResult:
    """What `wrk` printed. Requests that timed out or whose connection broke are errors too."""
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", output)
    if rate is None:
        raise RuntimeError(f"wrk said something else: {output}")
    error_count = re.search(r"Non-2xx or 3xx responses: ([0-9]+)", output)
    errors = 0 if error_count is None else int(error_count[1])
    if socket_errors := re.search(
        r"Socket errors: connect ([0-9]+), read ([0-9]+), write ([0-9]+), timeout ([0-9]+)", output
    ):
        errors += sum(map(int, socket_errors.groups()))
    return LoadResult(float(rate[1]), _read_percentile(output, 99), errors, _read_percentile(output, 50))


def _read_percentile(output: str, percent: int) -> float:
    match = re.search(rf"\b{percent}%\s+([0-9.]+)(us|ms|s|m)\b", output)
    if match is None:
        raise RuntimeError(f"wrk said something else: {output}")
    return float(match[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[match[2]]


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
