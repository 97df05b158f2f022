"""What a request costs: processor time of the API's process and of PostgreSQL, beside a bare FastAPI route.

Needs no tool for load: a small client keeps four connections busy, and what it costs itself is not counted. Candidates
take turns in an order that is drawn anew each round. Processor time depends little on who else uses the machine.

    GET bare       a FastAPI route that returns constant bytes, as many as the payload has
    GET live       a route of ours without a key and without the database: what our layers cost
    GET payload    the stored bytes of a passport: authentication, permission, one transaction
    GET view       what the public may see of it, made and checked for each request
    GET list       50 of 1,000 documents

    BENCH_REQUESTS=400      requests in a turn
    BENCH_REPEATS=7         rounds
"""

import asyncio
import os
import random  # noqa: TID251 - which candidate comes first must not be known
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psutil

from bench import Table
from bench.api import issue_payload, run_bare_service, run_own_service

REQUESTS: Final = int(os.environ.get("BENCH_REQUESTS", "400"))
ROUNDS: Final = int(os.environ.get("BENCH_REPEATS", "7"))
CONNECTIONS: Final = 4  # a view is a heavy request, and few of a tenant may wait


class Target(NamedTuple):
    """Whom to ask for what, and the processes that answer."""

    url: str
    path: str
    key: str | None
    process: int


class RequestCost(NamedTuple):
    """Seconds of the processor for one request."""

    server: float
    postgres: float


def run() -> Iterable[Table]:
    yield asyncio.run(_measure_costs())


async def _measure_costs() -> Table:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-") as folder:
        Path(folder).chmod(0o711)  # noqa: ASYNC240 (nothing else runs yet)
        async with run_own_service(Path(folder)) as service:
            path, size = await issue_payload(service)
            async with run_bare_service(size) as (bare_url, bare_process):
                view = path.replace("/payload", "/view?audience=public")
                targets = {
                    "GET bare FastAPI route": Target(bare_url, "/bare", None, bare_process),
                    "GET live, without database": Target(service.url, "/v1/health/live", None, service.process),
                    f"GET payload, {size:,} bytes": Target(service.url, path, service.key, service.process),
                    "GET view of the public": Target(service.url, view, service.key, service.process),
                    "GET list, 50 of 1,000": Target(service.url, "/v1/documents", service.key, service.process),
                }
                costs = await _run_rounds(targets)
    return _write_table(costs)


def _write_table(costs: dict[str, list[RequestCost]]) -> Table:
    bare = statistics.median(cost.server for cost in next(iter(costs.values())))
    rows = []
    for name, turns in costs.items():
        low, server, high = statistics.quantiles([cost.server * 1e6 for cost in turns], n=4)
        postgres = statistics.median(cost.postgres for cost in turns) * 1e6
        rows.append(
            (
                name,
                f"{server:.0f}",
                f"{low:.0f}–{high:.0f}",
                f"{postgres:.0f}",
                f"{bare * 1e6 / (server + postgres):.2f}",
            )
        )
    return Table(
        title=f"Microseconds of a processor for one request; median of {ROUNDS} rounds of {REQUESTS} requests",
        columns=("", "API", "middle half", "PostgreSQL", "bare / both"),
        rows=tuple(rows),
        note="goals, of bare: payload and view 0.40, list 0.25",
    )


async def _run_rounds(targets: dict[str, Target]) -> dict[str, list[RequestCost]]:
    costs: dict[str, list[RequestCost]] = {name: [] for name in targets}
    names = [*targets]
    for name in names:
        await _measure_turn(targets[name])  # plans, pools and caches
    for _ in range(ROUNDS):
        random.shuffle(names)
        for name in names:
            costs[name].append(await _measure_turn(targets[name]))
    return costs


async def _measure_turn(target: Target) -> RequestCost:
    before = _read_processor_times(target.process)
    await asyncio.gather(*(_send_requests(target, REQUESTS // CONNECTIONS) for _ in range(CONNECTIONS)))
    after = _read_processor_times(target.process)
    count = REQUESTS // CONNECTIONS * CONNECTIONS
    return RequestCost(*((end - start) / count for start, end in zip(before, after, strict=True)))


def _read_processor_times(process: int) -> RequestCost:
    """Of the process that answers (of `bpc up`, its child) and of the PostgreSQL below it."""
    top = psutil.Process(process)
    server, postgres = 0.0, 0.0
    for each in [top, *top.children(recursive=True)]:
        times = each.cpu_times()
        if "postgres" in each.name():
            postgres += times.user + times.system
        elif each.pid == process or "api" in each.cmdline():
            server += times.user + times.system
    return RequestCost(server, postgres)


async def _send_requests(target: Target, count: int) -> None:
    address = urlsplit(target.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    authorization = "" if target.key is None else f"Authorization: Bearer {target.key}\r\n"
    request = f"GET {target.path} HTTP/1.1\r\nHost: {address.netloc}\r\n{authorization}\r\n".encode()
    for _ in range(count):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{target.path} was answered with {head[:80]!r}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
    writer.close()
