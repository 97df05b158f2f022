"""Measure one candidate once, or be one of its workers. The figure is printed as JSON.

    measure <candidate> drain  <sockets> <database> <jobs> <workers>   jobs a second, and the bulk submit before it
    measure <candidate> single <sockets> <database> <jobs>             submits a second, by ten coroutines
    measure <candidate> pickup <sockets> <database> <jobs>             commit to start, p50 and p99 in milliseconds
    work    <candidate> <sockets> <database> <board> <jobs>            until killed

Drain: the jobs are queued first. The worker processes are started, import what they need, say that they are ready,
and begin together. The time runs from the first handler's start, so that no candidate pays for its start-up, to the
moment when the database itself says that no job is unfinished, so that none gains by completing late. Handlers write
their start into shared memory; only when all have started is the database asked, every two milliseconds.

Pickup: one idle worker; jobs are submitted singly, the next one 5 to 15 ms after the last one started. The time runs
from the return of the submit, which is the commit, to the handler's start, and is 0 if that was earlier still.
"""

import asyncio
import importlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import cast

import asyncpg

from bench._queues import COROUTINES, Candidate, QueueDatabase, StartBoard

Figures = dict[str, float]

WARM_UP = 20
POLL_SECONDS = 0.002
PATIENCE_SECONDS = 240.0


def main(arguments: Sequence[str]) -> None:
    what, name, *remaining = arguments
    try:
        module = importlib.import_module(f"bench._queues.{name}")
    except ModuleNotFoundError as absent:
        print(json.dumps({"absent": str(absent)}), flush=True)
        return
    if what == "work":
        sockets, database, board, jobs = remaining
        queue = module.Queue(QueueDatabase(sockets=sockets, database=database))
        asyncio.run(_run_worker(queue, StartBoard(Path(board), int(jobs))))
    else:
        measure, sockets, database, *numbers = remaining
        place = QueueDatabase(sockets=sockets, database=database)
        queue = cast("Candidate", module.Queue(place))
        figures = asyncio.run(_run_measure(measure, name, queue, place, *map(int, numbers)))
        print(json.dumps({"version": _find_version(module), **figures}), flush=True)
        os._exit(0)  # some peers keep threads or pools that would rather stay


async def _run_measure(
    measure: str, name: str, queue: Candidate, place: QueueDatabase, jobs: int, workers: int = 1
) -> Figures:
    await queue.install()
    await queue.connect()
    match measure:
        case "drain":
            return await _measure_drain(name, queue, place, jobs, workers)
        case "single":
            return await _measure_single(queue, jobs)
        case _:
            return await _measure_pickup(name, queue, place, jobs)


def _find_version(module: ModuleType) -> str:
    """Of the package that the candidate measures, if it is one."""
    package = getattr(module, "PACKAGE", None)
    return metadata.version(package) if package else ""


async def _run_worker(queue: Candidate, board: StartBoard) -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads what a peer prints from here on
    await queue.work(board)


def _exit_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


async def _measure_drain(name: str, queue: Candidate, place: QueueDatabase, jobs: int, workers: int) -> Figures:
    await queue.bulk(range(WARM_UP))  # opens what it opens, prepares what it prepares
    start = time.perf_counter()
    await queue.bulk(range(WARM_UP, jobs))
    figures = {"bulk": (jobs - WARM_UP) / (time.perf_counter() - start)} if queue.has_bulk else {}
    conn = await asyncpg.connect(place.url)
    await conn.execute("VACUUM ANALYZE")  # what autovacuum would have done had the jobs not come all at once
    with tempfile.TemporaryDirectory() as folder:
        board = StartBoard.create_blank(Path(folder, "board"), jobs)
        running = await _start_workers(name, place, Path(folder, "board"), jobs, workers)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not board.have_all_started():
                    await _require_alive(running)
                while await conn.fetchval(queue.unfinished):
                    await _require_alive(running)
            took = (time.monotonic_ns() - board.find_first_start()) / 1e9
        finally:
            await _stop_workers(running)
    return {**figures, f"drain{workers}": jobs / took}


async def _measure_single(queue: Candidate, jobs: int) -> Figures:
    waiting = iter(range(jobs + COROUTINES * 5))

    async def submit(share: int) -> None:
        for _ in range(share):
            await queue.submit(next(waiting))

    await asyncio.gather(*(submit(5) for _ in range(COROUTINES)))  # every connection prepares its statements
    start = time.perf_counter()
    await asyncio.gather(*(submit(jobs // COROUTINES) for _ in range(COROUTINES)))
    return {"single": jobs // COROUTINES * COROUTINES / (time.perf_counter() - start)}


async def _measure_pickup(name: str, queue: Candidate, place: QueueDatabase, jobs: int) -> Figures:
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        board = StartBoard.create_blank(Path(folder, "board"), jobs + WARM_UP)
        running = await _start_workers(name, place, Path(folder, "board"), jobs + WARM_UP, 1)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                for job in range(jobs + WARM_UP):
                    await queue.submit(job)
                    committed = time.monotonic_ns()
                    while not board.get_start(job):
                        await _require_alive(running)
                    took.append(max(0, board.get_start(job) - committed) / 1e6)
                    await asyncio.sleep(0.005 + job * 7 % 11 / 1000)
        finally:
            await _stop_workers(running)
    percentiles = statistics.quantiles(took[WARM_UP:], n=100)
    return {"p50": percentiles[49], "p99": percentiles[98]}


async def _start_workers(name: str, place: QueueDatabase, board: Path, jobs: int, count: int) -> list[Process]:
    command = [sys.executable, "-m", "bench._queues.run", "work", name, place.sockets, place.database]
    processes = [
        await asyncio.create_subprocess_exec(*command, str(board), str(jobs), stdin=PIPE, stdout=PIPE)
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        while (line := await process.stdout.readline()) != b"ready\n":
            if not line:
                raise RuntimeError("a worker ended before it began")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    return processes


async def _require_alive(running: list[Process]) -> None:
    await asyncio.sleep(POLL_SECONDS)
    if any(process.returncode is not None for process in running):
        raise RuntimeError("a worker ended while there were jobs")


async def _stop_workers(running: list[Process]) -> None:
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
