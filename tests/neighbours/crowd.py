"""The programs of a comparison: server, worker, neighbour and abuser, each a process of its own.

async with open_crowd(server, template, folder, amounts) as crowd:
    row = await crowd.compare("deep JSON", seconds=5, rounds=2)     # quiet and abused in turn
"""

import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import asyncpg

from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.database import open_database
from tests.fixtures import TestServer
from tests.neighbours.crowded_database import Amounts, CrowdedInstallation, fill_installation

CALM_MILLISECONDS = 60.0


class Helper:
    """A program that answers a line with a line of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self.read_answer()

    async def read_answer(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the program has ended"
        return json.loads(line)


@asynccontextmanager
async def start_program(module: str, *arguments: str) -> AsyncIterator[Helper]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"tests.neighbours.{module}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=50_000_000,
    )
    try:
        yield Helper(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourRow:
    """What one abuse does to the neighbour, in milliseconds; the stretch is CPU time of the loop's thread."""

    abuse: str
    quiet_p50: float
    quiet_p99: float
    abused_p50: float
    abused_p99: float
    longest_stretch: float
    callback: str
    memory_mb: int
    failed: int
    answers: dict[str, int]

    @property
    def is_fair(self) -> bool:
        return self.failed == 0 and self.abused_p99 <= max(2 * self.quiet_p99, 30.0)


@dataclass(frozen=True, slots=True)
class Crowd:
    """A running installation with a neighbour."""

    installation: CrowdedInstallation
    amounts: Amounts
    server: Helper
    neighbour: Helper
    url: str

    async def compare(self, abuse: str, *, seconds: float, rounds: int) -> NeighbourRow:
        """Measure the neighbour without and with the abuse, in turn."""
        quiet: list[float] = []
        abused: list[float] = []
        statuses: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        stretch: dict[str, Any] = {"longest_ms": 0.0, "callback": "", "memory_mb": 0}
        for _ in range(rounds):
            await self._calm_down()
            quiet += (await self.neighbour.ask(str(seconds)))["milliseconds"]
            await self.server.ask("reset")
            async with start_program("abuses", json.dumps(self._make_order(abuse, seconds + 1))) as abuser:
                await abuser.read_answer()
                await asyncio.sleep(0.5)  # until it is in full swing
                measured = await self.neighbour.ask(str(seconds))
                report = await self.server.ask("report")
                answers.update(await abuser.read_answer())
            abused += measured["milliseconds"]
            statuses.update(measured["statuses"])
            stretch = {
                **max(stretch, report, key=lambda each: each["longest_ms"]),
                "memory_mb": max(stretch["memory_mb"], report["memory_mb"]),
            }
        return NeighbourRow(
            abuse=abuse,
            quiet_p50=find_percentile(quiet, 50),
            quiet_p99=find_percentile(quiet, 99),
            abused_p50=find_percentile(abused, 50),
            abused_p99=find_percentile(abused, 99),
            longest_stretch=stretch["longest_ms"],
            callback=stretch["callback"],
            memory_mb=stretch["memory_mb"],
            failed=statuses.total() - statuses["200"],
            answers=dict(answers),
        )

    async def _calm_down(self) -> None:
        """Wait until nothing of an earlier abuse is left: five requests, each as quick as any."""
        for _ in range(20):
            if max((await self.neighbour.ask("0.25"))["milliseconds"]) < CALM_MILLISECONDS:
                return

    def _make_order(self, abuse: str, seconds: float) -> dict[str, Any]:
        installation = self.installation
        return {
            "url": self.url,
            "name": abuse,
            "seconds": seconds,
            "keys": {"loud": installation.loud_key, "auditor": installation.auditor_key},
            "ids": {
                "rules": str(installation.rules),
                "large_document": str(installation.large_document),
                "products": str(self.amounts.products),
            },
        }


def find_percentile(values: Sequence[float], percent: int) -> float:
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 1)


@asynccontextmanager
async def open_crowd(server: TestServer, template: str, folder: Path, amounts: Amounts) -> AsyncIterator[Crowd]:
    """A new database with two tenants, and the programs on it."""
    name = f"bpc_crowd_{clock.new_id().hex}"
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
        installation = await _fill(server, name, amounts)
        address = server.login.with_database(name)
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(_start_server(address, folder, "api"))
            await stack.enter_async_context(_start_server(address, folder, "worker"))
            url = f"http://127.0.0.1:{api[1]}"
            neighbour = await stack.enter_async_context(start_program("neighbour", url, installation.quiet_key))
            await neighbour.read_answer()
            yield Crowd(installation, amounts, api[0], neighbour, url)
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


async def _fill(server: TestServer, name: str, amounts: Amounts) -> CrowdedInstallation:
    superuser = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
    database = await open_database(server.login.with_database(name), pool_size=2)
    try:
        return await fill_installation(database, superuser, amounts)
    finally:
        await database.close()
        await superuser.close()


@asynccontextmanager
async def _start_server(address: Address, folder: Path, role: str) -> AsyncIterator[tuple[Helper, int]]:
    order = {"role": role, "address": asdict(address), "settings": {"data_dir": str(folder)}}
    async with start_program("watched_server", json.dumps(order)) as program:
        ready = await program.read_answer()
        yield program, ready["port"]
