"""Worker processes, started and maltreated by a test."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from tests.jobs.faults.execution_recorder import RecordedEvent, read_events
from tests.jobs.support.child_environment import build_child_environment

from bpc.runtime.postgres.address import Address

# What Python says when an error went where nobody looks.
COMPLAINTS = ("never retrieved", "never awaited", "Exception in callback", "Exception in thread", "destroyed but")

# The driver's pool closes connections it has no more use for in tasks of its own, and does not look at how that ends.
NOT_OURS = "coro=<Connection.close()"


def find_complaints(logs: str) -> list[str]:
    """What is said in `logs` about errors of ours that nobody looked at."""
    lines = [*logs.split("\n"), ""]
    return [
        f"{line} {following}"
        for line, following in pairwise(lines)
        if any(phrase in line for phrase in COMPLAINTS) and NOT_OURS not in following
    ]


class WorkerFleet:
    """As many worker processes as a test wants, on one database, with one folder of records."""

    def __init__(self, folder: Path, address: Address, **options: float) -> None:
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.lease = options["lease"]
        self._address = address.connect_arguments()
        self._options: dict[str, Any] = {"concurrency": 4, "renew": self.lease / 3, "stop_grace": 5.0} | options
        self._paused: set[int] = set()
        self.expected_dead: set[int] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        if error is not None:
            sys.stderr.write(self.logs()[-20_000:])

    @property
    def alive(self) -> list[int]:
        """The numbers of those that run, in the order of their start."""
        return [pid for pid, process in self.processes.items() if process.poll() is None]

    @property
    def working(self) -> list[int]:
        return [pid for pid in self.alive if pid not in self._paused]

    def start(self, address: Mapping[str, Any] | None = None) -> int:
        """Start one more, if wanted with another way to the database."""
        config = {
            "address": {**self._address, **(address or {})},
            "folder": str(self.folder),
            "options": self._options,
        }
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.jobs.faults.worker_process", orjson.dumps(config).decode()],
                env=build_child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        self.expected_dead.add(pid)
        self.processes[pid].kill()

    def pause(self, pid: int) -> None:
        self._paused.add(pid)
        os.kill(pid, signal.SIGSTOP)

    def resume(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self._paused.discard(pid)

    async def stop(self, within: float = 60.0) -> None:
        """Ask all to stop; whoever does not, or ended before without being killed, is a finding."""
        died = [pid for pid, process in self.processes.items() if process.poll() is not None]
        assert set(died) <= self.expected_dead, f"ended by themselves: {set(died) - self.expected_dead}\n{self.logs()}"
        for pid in self.alive:
            self.processes[pid].terminate()
        deadline = time.monotonic() + within
        while self.alive:
            assert time.monotonic() < deadline, f"did not stop: {self.alive}\n{self.logs()}"
            await asyncio.sleep(0.02)
        codes = {pid: process.returncode for pid, process in self.processes.items() if pid not in self.expected_dead}
        at_work = {parse_pid(line.owner) for line in self.lines()}
        wrong = {pid: code for pid, code in codes.items() if code != 0 and (pid in at_work or code != -signal.SIGTERM)}
        assert not wrong, f"{wrong}\n{self.logs()}"  # who was told to stop while starting up may just end
        messages = find_complaints(self.logs())
        assert not messages, f"{messages}\n{self.logs()}"

    def expect_deaths(self) -> None:
        """Those that are dead died by their jobs."""
        self.expected_dead.update(pid for pid, process in self.processes.items() if process.poll() is not None)

    def lines(self) -> list[RecordedEvent]:
        return read_events(self.folder)

    def logs(self) -> str:
        return (self.folder / "workers.log").read_text(errors="replace")


def parse_pid(owner: str) -> int:
    """The process behind a lease."""
    return int(owner.rsplit(":", 2)[1])
