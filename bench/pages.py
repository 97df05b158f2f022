"""Public pages and views of many batteries under load, beside nginx and a FastAPI route that reads the database once.

Every request is for another battery, chosen at random of all that were issued. Each candidate is one process on a real
socket, asked by `wrk` (two threads, 16 connections) in turn, in each of some rounds; a figure is the median of the
rounds. nginx serves a file for each battery, as large as its view. The bare route looks up the version of the battery
by its key, and answers with constant bytes of that size.

    BENCH_ITEMS=10000      how many batteries
    BENCH_SECONDS=5        of each candidate, in each round
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil

from bench import Table
from bench.api import ROUNDS, SECONDS, LoadResult, find_free_port, read_load, wait_until_answering
from bench.items import make_kind, measure_run
from bench.pipeline import Bench, open_bench
from bpc.core.audit.events import Act
from bpc.pipeline.activate import activate
from bpc.runtime import clock, logs

COUNT: Final = int(os.environ.get("BENCH_ITEMS", "10000").split(",")[0])
SCRIPT: Final = """
local paths = {}
for line in io.lines("%s") do paths[#paths + 1] = line end
request = function() return wrk.format("GET", paths[math.random(#paths)], {["Accept"] = "%s"}) end
"""
BARE: Final = """
import json, sys
from contextlib import asynccontextmanager
import asyncpg
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

BYTES = b"x" * int(sys.argv[2])

@asynccontextmanager
async def open_pool(app):
    async with asyncpg.create_pool(**json.loads(sys.argv[3]), min_size=4, max_size=8) as app.state.pool:
        yield

app = FastAPI(lifespan=open_pool)

@app.get("/p/{battery_id}")
async def bare(request: Request, battery_id: str) -> Response:
    row = await request.app.state.pool.fetchrow(
        "SELECT passport_version_id FROM item_passport_versions WHERE tenant_id = $1 AND battery_id = $2",
        sys.argv[4], battery_id)
    return Response(BYTES if row else b"", media_type="application/json")

uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, loop="uvloop", http="httptools")
"""
NGINX: Final = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; default_type application/json; sendfile on;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def run() -> Iterable[Table]:
    missing = [name for name in ("wrk", "nginx") if shutil.which(name) is None]
    if missing:
        note = f"`{missing[0]}` is not installed, so nothing was measured."
        yield Table(title="Public pages", columns=("",), rows=(), note=note)
        return
    logs.configure(level="warn", json=True, component="bench")
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield asyncio.run(_measure_pages(Path(folder)))


async def _measure_pages(folder: Path) -> Table:
    async with open_bench(folder) as bench:
        await _issue_batteries(bench)
        rows = await bench.superuser.fetch("SELECT battery_id FROM batteries")
        paths = [f"/p/{row['battery_id']}" for row in rows]
        list_file = folder / "paths.txt"
        list_file.write_text("".join(f"{path}\n" for path in paths))
        async with _run_own_api(folder) as (own, process):
            view = await _fetch_view(own + paths[0])
            static = _write_static_files(folder, paths, view)
            place = bench.place.server
            if place is None:
                raise RuntimeError("the bench has a server of its own")
            database = place.superuser_address().with_database(bench.settings.db_name).connect_arguments()
            bare_command = [
                sys.executable,
                "-c",
                BARE,
                "{port}",
                str(len(view)),
                json.dumps(database),
                str(bench.tenant),
            ]
            nginx_command = ["nginx", "-c", str(static / "nginx.conf")]
            async with (
                _run_beside(bare_command, paths[0]) as bare,
                _run_nginx(nginx_command, static, paths[0]) as nginx,
            ):
                await asyncio.to_thread(_ask, own, list_file, "application/json")  # what is kept is kept
                before = process.memory_info().rss
                targets = {
                    "nginx, a file": (nginx, "application/json"),
                    "bare FastAPI route, one read": (bare, "application/json"),
                    f"view, {len(view):,} bytes": (own, "application/json"),
                    "page": (own, "text/html"),
                }
                results = await _run_rounds(targets, list_file)
                after = process.memory_info().rss
    yardstick = results["bare FastAPI route, one read"].per_second
    return Table(
        title=f"Pages of {len(paths):,} batteries, wrk with 16 connections, median of {ROUNDS} rounds of {SECONDS} s",
        columns=("", "requests/s", "of bare", "p99 ms", "errors"),
        rows=tuple(
            (
                name,
                f"{load.per_second:,.0f}",
                f"{load.per_second / yardstick:.2f}",
                f"{load.p99_ms:.1f}",
                str(load.errors),
            )
            for name, load in results.items()
        ),
        note=f"The API has {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after; load {os.getloadavg()[1]:.1f}.",
    )


async def _issue_batteries(bench: Bench) -> None:
    await bench.measure_run(make_kind(), 1)
    sku = await bench.superuser.fetchval("SELECT sku FROM battery_products WHERE sku LIKE 'eu-%'")
    version = await bench.superuser.fetchval("SELECT passport_version_id FROM passport_versions")
    async with bench.database.tenant(bench.tenant) as conn:
        await activate(conn, bench.tenant, version, act=Act(None, clock.now()))
    await measure_run(bench, [sku], COUNT, 0)


async def _fetch_view(url: str) -> bytes:
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url, headers={"Accept": "application/json"})
    if answer.status_code != 200:
        raise RuntimeError(f"{url} answers {answer.status_code}: {answer.text[:200]}")
    return answer.content


def _write_static_files(folder: Path, paths: Sequence[str], view: bytes) -> Path:
    static = folder / "static"
    (static / "p").mkdir(parents=True)
    for path in paths:
        (static / path.removeprefix("/")).write_bytes(view)
    return static


@asynccontextmanager
async def _run_own_api(folder: Path) -> AsyncIterator[tuple[str, psutil.Process]]:
    port = find_free_port()
    environment = {**os.environ, "BPC_DATA_DIR": str(folder), "BPC_LOG_LEVEL": "warn", "BPC_ENV": "dev"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bpc", "api", "--port", str(port)), env=environment
    )
    try:
        await wait_until_answering(f"http://127.0.0.1:{port}/v1/health/live")
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _run_beside(command: Sequence[str], path: str) -> AsyncIterator[str]:
    port = find_free_port()
    process = await asyncio.create_subprocess_exec(*(part.replace("{port}", str(port)) for part in command))
    try:
        await wait_until_answering(f"http://127.0.0.1:{port}{path}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _run_nginx(command: Sequence[str], folder: Path, path: str) -> AsyncIterator[str]:
    port = find_free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await wait_until_answering(f"http://127.0.0.1:{port}{path}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _run_rounds(targets: Mapping[str, tuple[str, str]], list_file: Path) -> dict[str, LoadResult]:
    loads: dict[str, list[LoadResult]] = {name: [] for name in targets}
    for _ in range(ROUNDS):
        for name, (url, accept) in targets.items():
            loads[name].append(await asyncio.to_thread(_ask, url, list_file, accept))
    return {
        name: LoadResult(
            statistics.median(load.per_second for load in each),
            statistics.median(load.p99_ms for load in each),
            sum(load.errors for load in each),
        )
        for name, each in loads.items()
    }


def _ask(url: str, list_file: Path, accept: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % (list_file, accept))
        script.flush()
        command = ["wrk", "-t2", "-c16", f"-d{SECONDS}s", "--latency", "-s", script.name, url]
        return read_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
