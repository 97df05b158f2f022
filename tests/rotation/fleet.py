"""API processes and workers that are replaced one after the other, on a socket that stays.

The first ones are started as systemd does it, which hands the socket over. A process is replaced as a careful operator
does it: the new one answers first, then the old one is told to stop, and must end by itself without an error. Beside
other tests, new ones are forked from a process that has imported the program already (tests.cli.fork_server), which
saves a second each.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio import Task
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.cli import fork_server
from tests.cli.program import Program
from tests.measurements import choose_effort

FORKED = choose_effort(test=True, shown=False, campaign=False)
READY_SECONDS = 120.0  # seconds
STOP_SECONDS = 60.0
# sd_listen_fds(3): the socket is descriptor 3, and a process is told its own number, which is not known before it runs.
HAND_OVER_PROGRAM = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs; `ended` gives its exit code."""

    pid: int
    ended: "Task[int]"

    def send(self, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, what)


@dataclass(slots=True)
class Fleet:
    """The processes that run, in their places."""

    bpc: Program
    sock: socket.socket
    log: Path  # what all of them write to standard error: nothing, as long as nothing goes wrong
    apis: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    restarts: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sock.getsockname()[1]}"

    async def start(self, *, apis: int, workers: int) -> None:
        async with asyncio.TaskGroup() as starting:
            for places, command, count in ((self.apis, "api", apis), (self.workers, "worker", workers)):
                for _ in range(count):
                    starting.create_task(self._add(places, command))

    async def roll_out(self, bpc: Program, *, workers: bool) -> None:
        """Replace the API processes, then the workers, by ones with other settings, one at a time."""
        self.bpc = bpc
        await self._replace(self.apis, "api")
        if workers:
            await self._replace(self.workers, "worker")

    async def _replace(self, places: list[Process], command: str) -> None:
        for old in list(places):
            await self._add(places, command, is_forked=FORKED)
            old.send(signal.SIGTERM)
            code = await asyncio.wait_for(old.ended, STOP_SECONDS)
            assert (code, self.log.read_text()) == (0, "")
            places.remove(old)
            self.restarts += 1

    async def _add(self, places: list[Process], command: str, *, is_forked: bool = False) -> None:
        read, write = os.pipe()
        with os.fdopen(read) as output, os.fdopen(write, "wb") as out, self.log.open("ab") as err:
            places.append(await (self._fork_process if is_forked else self._start_process)(command, out, err))
            out.close()
            line = await asyncio.wait_for(asyncio.to_thread(output.readline), READY_SECONDS)
        assert line, self.log.read_text()
        assert command == "worker" or json.loads(line) == {"url": self.url}

    async def _start_process(self, command: str, out: IO[bytes], err: IO[bytes]) -> Process:
        arguments = [sys.executable, "-P", "-m", "bpc", command, "--json"]
        handed: list[int] = []
        if command == "api":
            handed = [self.sock.fileno()]
            arguments = [sys.executable, "-S", "-c", HAND_OVER_PROGRAM, str(self.sock.fileno()), *arguments]
        environment, nothing = self.bpc.environment(), asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *arguments, env=environment, cwd="/", stdin=nothing, stdout=out, stderr=err, pass_fds=handed
        )
        return Process(process.pid, asyncio.create_task(process.wait()))

    async def _fork_process(self, command: str, out: IO[bytes], err: IO[bytes]) -> Process:
        """The socket is its standard input: that is what can be passed there."""
        arguments = [command, "--json", *(["--socket", "0"] if command == "api" else [])]
        streams = [self.sock.fileno(), out.fileno(), err.fileno()]
        line = await asyncio.to_thread(fork_server.start, arguments, self.bpc.environment(), streams)
        reader, writer = await asyncio.open_unix_connection(sock=line)

        async def wait_for_exit() -> int:
            code = int(await reader.readexactly(fork_server.NUMBER_BYTES))
            writer.close()
            return code

        pid = int(await reader.readexactly(fork_server.NUMBER_BYTES))
        return Process(pid, asyncio.create_task(wait_for_exit()))

    async def end(self) -> None:
        for process in self.apis + self.workers:
            process.send(signal.SIGKILL)
            await process.ended


@asynccontextmanager
async def run_fleet(bpc: Program, *, apis: int, workers: int) -> AsyncIterator[Fleet]:
    """Processes on a socket of their own; whatever happens, they do not outlive the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as sock:
        os.set_inheritable(sock.fileno(), True)
        running = Fleet(bpc, sock, bpc.data_dir / "log")
        try:
            await running.start(apis=apis, workers=workers)
            yield running
        finally:
            await running.end()
