"""Processes that have to be there: started, started again when they die, and stopped together.

    async with supervised([Role(…), Role(…)]) as fleet:
        if await fleet.ready():      every child has said that it is
            …
        await fleet.over()           told to stop, or one is refused

A child is `bpc` with --json, in a process of its own. The line it prints says whether it is ready or refused:

    ready, then dead         started again, at once; the pause grows while it keeps dying
    refused before ready     all stop, and we end with what it said: trying again would not help
    refused later            the same if the configuration is wrong; else as if it had died
    told to stop             SIGTERM to each, SIGKILL to those that take longer than they may

It has a process group of its own, so that Ctrl-C reaches only us, and a line to us (`bpc.cli.line`): when we are gone,
however that came about, it ends at once.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

import typer

from bpc.cli.line import Answers, Line
from bpc.cli.output import CONFIGURATION_CODES, INTERRUPTED
from bpc.logs import logger
from bpc.sockets import inherited

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
STEADY: Final = 10.0  # seconds; who was ready for so long is not one that keeps dying
LAST_WORDS: Final = 0.5  # seconds to read what one wrote that has ended
LONGEST_LINE: Final = 1_000_000
PATIENCE: Final = 1.0  # seconds that a child may take for an answer; who asks us waits twice as long

LineOption = Annotated[int | None, typer.Option("--line", hidden=True, help="Descriptor of the line to a parent.")]

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a child is for: its command, the sockets it gets, and how many seconds it may take to stop."""

    name: str
    command: tuple[str, ...]
    stop_seconds: float
    sockets: tuple[int, ...] = ()


def bpc(*arguments: str) -> tuple[str, ...]:
    """The command that starts `bpc` as a child: in a process that is new, not a copy of ours."""
    # -P: not a file of the current folder that happens to be called like a module.
    return (sys.executable, "-P", "-m", "bpc", *arguments, "--json")


class Refused(Exception):
    """A child cannot do its work, in its own words."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        super().__init__(said["message"])
        self.code: str = said["code"]
        self.says: str = said["message"]
        self.fix: str | None = said["fix"]
        self.details: Mapping[str, object] = said["details"]


@dataclass(slots=True)
class _Life:
    """What became of one process: when it was ready, if ever, and why it could not do its work."""

    ready_at: float | None = None
    error: Mapping[str, Any] | None = None
    reason: str = ""
    was_steady: bool = False

    def ended(self, role: Role, code: int) -> Self:
        self.was_steady = self.ready_at is not None and time.monotonic() - self.ready_at > STEADY
        self.reason = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if self.error is not None:
            self.reason = f"{self.error['code']}: {self.error['message']}"
        elif self.ready_at is None and code > 0:
            says = f"the process `{role.name}` ended with exit code {code} before it was ready"
            fix = "see what it wrote to standard error"
            self.error = {"code": "INTERNAL_ERROR", "message": says, "fix": fix, "details": {}}
        return self


class Child:
    """One process that has to be there."""

    def __init__(self, role: Role, answers: Answers) -> None:
        self.role = role
        self.ready = asyncio.Event()
        self.started = 0  # times
        self.told: Mapping[str, Any] = {}  # the line it printed when it was ready
        self._answers = answers
        self._stopping = asyncio.Event()
        self._process: Process | None = None
        self._line: Line | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def keep(self) -> None:
        """Have it there until it is told to stop. Raises `Refused`."""
        pause = FIRST_PAUSE
        was_ready = False
        while not self._stopping.is_set():
            life = await self._run()
            was_ready = was_ready or life.ready_at is not None
            if self._stopping.is_set():
                return
            if life.error is not None and (not was_ready or life.error["code"] in CONFIGURATION_CODES):
                raise Refused(life.error)
            pause = FIRST_PAUSE if life.was_steady else pause
            log.warning(
                "a process ended and is started again", process=self.role.name, seconds=pause, reason=life.reason
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def ask(self, what: str) -> str | None:
        """What it answers; None if it is not there."""
        return None if self._line is None or not self.ready.is_set() else await self._line.ask(what, PATIENCE)

    def stop(self) -> None:
        self._stopping.set()
        self._send(signal.SIGTERM)
        asyncio.get_running_loop().call_later(self.role.stop_seconds, self._lose_patience)

    def kill(self) -> None:
        self._stopping.set()
        self._send(signal.SIGKILL)

    async def _run(self) -> _Life:
        """One life of the process, from its start to its end."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = process = await self._spawned(theirs.fileno())
        except OSError as failed:  # no room for another process: that may pass
            ours.close()
            return _Life(reason=str(failed))
        self.started += 1
        if self._stopping.is_set():  # while it was being started
            process.kill()
        self._line = line = Line(ours, self._answers)
        life = _Life()
        tasks = asyncio.create_task(line.run()), asyncio.create_task(self._listen(process, life))
        try:
            code = await process.wait()
            await asyncio.wait(tasks, timeout=LAST_WORDS)  # a child of the child may hold its output open
            return life.ended(self.role, code)
        finally:
            if process.returncode is None:
                process.kill()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.ready.clear()
            self._process = self._line = None

    async def _listen(self, process: Process, life: _Life) -> None:
        """Hear what it prints: that it is ready, or why not."""
        while process.stdout is not None and (line := await process.stdout.readline()):
            told = json.loads(line)
            if "error" in told:
                life.error = told["error"]
            else:
                life.ready_at, self.told = time.monotonic(), told
                self.ready.set()

    async def _spawned(self, line: int) -> Process:
        return await asyncio.create_subprocess_exec(
            *(*self.role.command, "--line", str(line)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=(line, *self.role.sockets),
            process_group=0,
            limit=LONGEST_LINE,
        )

    def _send(self, what: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(what)

    def _lose_patience(self) -> None:
        if self._process is not None and self._process.returncode is None:
            log.warning("a process does not stop and is killed", process=self.role.name)
            self._send(signal.SIGKILL)


class Fleet:
    """All children. `answers` is what they may ask us."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self.answers: dict[str, Callable[[], Awaitable[str]]] = {}
        self.children = [Child(role, self.answers) for role in roles]
        self.was_killed = False  # by somebody who did not want to wait
        self._over = asyncio.Event()
        self._keeping = [asyncio.create_task(child.keep(), name=child.role.name) for child in self.children]
        for task in self._keeping:
            task.add_done_callback(lambda _: self.stop())

    async def ready(self) -> bool:
        """Wait for all to be ready, from when on Ctrl-C stops them in order. False if that will not happen any more."""
        over = asyncio.create_task(self._over.wait())
        try:
            for child in self.children:
                ready = asyncio.create_task(child.ready.wait())
                await asyncio.wait([ready, over], return_when=asyncio.FIRST_COMPLETED)
                ready.cancel()
        finally:
            over.cancel()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupt)
        return not self._over.is_set()

    async def over(self, seconds: float | None = None) -> bool:
        """Wait until they are to stop; no longer than `seconds`, and then say whether they are."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        return self._over.is_set()

    def stop(self) -> None:
        """Tell all to stop. Telling it again changes nothing."""
        if not self._over.is_set():
            self._over.set()
            for child in self.children:
                child.stop()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def interrupt(self) -> None:
        """Ctrl-C: the first tells them to stop, the second does not wait for them."""
        if self._over.is_set():
            self.was_killed = True
            self.kill()
        self.stop()

    def kill(self) -> None:
        self._over.set()
        for child in self.children:
            child.kill()

    async def ended(self) -> None:
        """Return when none is left. Raises what one of them was refused for."""
        await asyncio.wait(self._keeping)
        for task in self._keeping:
            task.result()


@asynccontextmanager
async def supervised(roles: Sequence[Role]) -> AsyncIterator[Fleet]:
    """These processes, for as long as the block lasts or until SIGTERM.

    Leaving it stops them and waits; leaving it by an exception kills them. Raises `Refused`.
    """
    fleet = Fleet(roles)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, fleet.stop)
    try:
        yield fleet
        fleet.stop()
        await fleet.ended()
    except BaseException:
        fleet.kill()
        with suppress(Refused):
            await fleet.ended()
        raise
    if fleet.was_killed:
        raise typer.Exit(INTERRUPTED)


@asynccontextmanager
async def on_the_line(descriptor: int | None, answers: Answers) -> AsyncIterator[Line | None]:
    """In a child: the line to whoever started us. When they are gone, so are we, at once: nobody could stop us later.

    Nothing is lost by that: what was under way is done by others, as after any crash.
    """
    if descriptor is None:
        yield None
        return
    line = Line(inherited(descriptor), answers)
    running = asyncio.create_task(line.run())
    running.add_done_callback(lambda task: None if task.cancelled() else os._exit(1))
    try:
        yield line
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
