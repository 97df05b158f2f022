"""Supervision: start child processes, restart those that die, stop all of them together.

    async with supervise_processes([ChildSpec(…), ChildSpec(…)]) as group:
        if await group.wait_until_ready():       every child printed that it is ready
            …
        await group.wait_until_stopping()        somebody stopped us, or a child cannot do its work

A child is `bpc` with --json, in a process of its own. The line that it prints says whether it is ready or refused:

    ready, then dead         restarted at once; the pause grows while it keeps dying
    refused before ready     all stop, and we end with its message: trying again would not help
    refused later            the same if the configuration is wrong; else as if it had died
    stopped by us            SIGTERM to each, SIGKILL to those that take longer than `stop_seconds`

A child has its own process group, so that Ctrl-C reaches only us, and a channel to us: a socket over which both sides
may ask. A message is a line of JSON, `{"ask": 7, "what": "figures"}` or `{"to": 7, "answer": "…"}`. When a process
ends, for whatever reason, the operating system closes its end: the other side notices, and a child ends at once.

    parent   ProcessChannel(socket, {})                       await channel.ask("figures")
    child    ProcessChannel(socket, {"figures": figures})     answers until the channel is closed
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
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Self

from bpc.core.errors import CONFIGURATION_CODES
from bpc.runtime.logs import get_logger
from bpc.runtime.settings.load import SIGNER_VARIABLES
from bpc.runtime.sockets import open_inherited_socket

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
STEADY_SECONDS: Final = 10.0  # a child that was ready this long resets the pause
OUTPUT_DRAIN_SECONDS: Final = 0.5  # to read the remaining output of an ended child
LONGEST_LINE: Final = 1_000_000
LONGEST_MESSAGE: Final = 16_000_000  # bytes
ANSWER_SECONDS: Final = 2.0
CHILD_ANSWER_SECONDS: Final = 1.0  # below ANSWER_SECONDS: who asks us waits for our children

Answers = Mapping[str, Callable[[], Awaitable[str]]]
log = get_logger(__name__)


class ProcessChannel:
    """One end of the channel. `run` serves it and returns when it is closed."""

    def __init__(self, sock: socket.socket, answers: Answers) -> None:
        self._socket = sock
        self._answers = answers
        self._writer: asyncio.StreamWriter | None = None
        self._pending: dict[int, asyncio.Future[str]] = {}
        self._numbers = count()
        self._answer_tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer questions and pass answers on until the other end is closed."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket, limit=LONGEST_MESSAGE)
        try:
            with suppress(OSError, ValueError):  # closed in the middle of a message
                while line := await reader.readline():
                    self._handle_message(json.loads(line))
        finally:
            self._writer.transport.abort()
            self._writer = None
            for future in self._pending.values():
                future.cancel()

    async def ask(self, question: str, seconds: float = ANSWER_SECONDS) -> str | None:
        """The answer of the other side; None if there is none in time."""
        if self._writer is None:
            return None
        number = next(self._numbers)
        self._pending[number] = answer = asyncio.get_running_loop().create_future()
        self._send({"ask": number, "what": question})
        try:
            await asyncio.wait([answer], timeout=seconds)
            return None if answer.cancelled() or not answer.done() else answer.result()
        finally:
            del self._pending[number]

    def _handle_message(self, message: Any) -> None:
        if "to" in message:
            future = self._pending.get(message["to"])
            if future is not None and not future.done():
                future.set_result(message["answer"])
        else:
            task = asyncio.create_task(self._answer(message["ask"], message["what"]))
            self._answer_tasks.add(task)  # asyncio itself keeps no reference: without this one, the task may disappear
            task.add_done_callback(self._answer_tasks.discard)

    async def _answer(self, number: int, question: str) -> None:
        try:
            self._send({"to": number, "answer": await self._answers[question]()})
        except Exception:
            log.exception("a question from another process could not be answered", what=question)

    def _send(self, message: Mapping[str, object]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")


@asynccontextmanager
async def open_parent_channel(descriptor: int | None, answers: Answers) -> AsyncIterator[ProcessChannel | None]:
    """In a child: the channel to the parent. When the parent is gone, we exit at once: nobody could stop us later.

    Nothing is lost: other workers take over our jobs, as after a crash.
    """
    if descriptor is None:
        yield None
        return
    channel = ProcessChannel(open_inherited_socket(descriptor), answers)
    channel_task = asyncio.create_task(channel.run())
    channel_task.add_done_callback(lambda task: None if task.cancelled() else os._exit(1))
    try:
        yield channel
    finally:
        channel_task.cancel()
        with suppress(asyncio.CancelledError):
            await channel_task


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A child: its command, the sockets it inherits, and how many seconds it may take to stop.

    It gets our environment with `variables`, but no private key: only the signer needs those.
    """

    name: str
    command: tuple[str, ...]
    stop_seconds: float
    sockets: tuple[int, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def build_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in environ.items() if name not in SIGNER_VARIABLES} | dict(self.variables)


def build_child_command(*arguments: str) -> tuple[str, ...]:
    """The command line that starts `bpc` as a child."""
    # -P: a file in the current folder must not hide a module of the same name.
    return (sys.executable, "-P", "-m", "bpc", *arguments, "--json")


class ChildRefused(Exception):
    """A child cannot do its work; the message is its own."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: str = error["code"]
        self.says: str = error["message"]
        self.fix: str | None = error["fix"]
        self.details: Mapping[str, object] = error["details"]


@dataclass(slots=True)
class _ProcessRun:
    """One life of a child: when it became ready, if ever, and why it ended."""

    ready_at: float | None = None
    error: Mapping[str, Any] | None = None
    reason: str = ""
    was_steady: bool = False

    def record_end(self, spec: ChildSpec, code: int) -> Self:
        self.was_steady = self.ready_at is not None and time.monotonic() - self.ready_at > STEADY_SECONDS
        self.reason = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if self.error is not None:
            self.reason = f"{self.error['code']}: {self.error['message']}"
        elif self.ready_at is None and code > 0:
            says = f"the process `{spec.name}` ended with exit code {code} before it was ready"
            fix = "see what it wrote to standard error"
            self.error = {"code": "INTERNAL_ERROR", "message": says, "fix": fix, "details": {}}
        return self


class SupervisedProcess:
    """A child that is restarted whenever it dies."""

    def __init__(self, spec: ChildSpec, answers: Answers) -> None:
        self.spec = spec
        self.ready = asyncio.Event()
        self.start_count = 0
        self.ready_message: Mapping[str, Any] = {}  # the line it printed when it was ready
        self._answers = answers
        self._stopping = asyncio.Event()
        self._process: Process | None = None
        self._channel: ProcessChannel | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def keep_running(self) -> None:
        """Run it, again and again, until `stop`. Raises `ChildRefused`."""
        pause = FIRST_PAUSE
        was_ready = False
        while not self._stopping.is_set():
            run = await self._run_once()
            was_ready = was_ready or run.ready_at is not None
            if self._stopping.is_set():
                return
            if run.error is not None and (not was_ready or run.error["code"] in CONFIGURATION_CODES):
                raise ChildRefused(run.error)
            pause = FIRST_PAUSE if run.was_steady else pause
            log.warning("a process ended and is restarted", process=self.spec.name, seconds=pause, reason=run.reason)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def ask(self, question: str) -> str | None:
        """Its answer; None if it is not ready or does not answer in time."""
        return (
            None
            if self._channel is None or not self.ready.is_set()
            else await self._channel.ask(question, CHILD_ANSWER_SECONDS)
        )

    def stop(self) -> None:
        self._stopping.set()
        self._send_signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(self.spec.stop_seconds, self._kill_if_running)

    def kill(self) -> None:
        self._stopping.set()
        self._send_signal(signal.SIGKILL)

    async def _run_once(self) -> _ProcessRun:
        """One life of the process, from its start to its end."""
        parent_socket, child_socket = socket.socketpair()
        try:
            with child_socket:
                self._process = process = await self._spawn(child_socket.fileno())
        except OSError as error:  # for example too many processes: that may pass
            parent_socket.close()
            return _ProcessRun(reason=str(error))
        self.start_count += 1
        if self._stopping.is_set():  # while it was being started
            process.kill()
        self._channel = channel = ProcessChannel(parent_socket, self._answers)
        run = _ProcessRun()
        tasks = asyncio.create_task(channel.run()), asyncio.create_task(self._read_output(process, run))
        try:
            code = await process.wait()
            await asyncio.wait(tasks, timeout=OUTPUT_DRAIN_SECONDS)  # a child of the child may hold its output open
            return run.record_end(self.spec, code)
        finally:
            if process.returncode is None:
                process.kill()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.ready.clear()
            self._process = self._channel = None

    async def _read_output(self, process: Process, run: _ProcessRun) -> None:
        """Read what it prints: that it is ready, or why not."""
        while process.stdout is not None and (line := await process.stdout.readline()):
            message = json.loads(line)
            if "error" in message:
                run.error = message["error"]
            else:
                run.ready_at, self.ready_message = time.monotonic(), message
                self.ready.set()

    async def _spawn(self, channel_descriptor: int) -> Process:
        return await asyncio.create_subprocess_exec(
            *(*self.spec.command, "--line", str(channel_descriptor)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=(channel_descriptor, *self.spec.sockets),
            process_group=0,
            limit=LONGEST_LINE,
            env=self.spec.build_environment(os.environ),
        )

    def _send_signal(self, signal_number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal_number)

    def _kill_if_running(self) -> None:
        if self._process is not None and self._process.returncode is None:
            log.warning("a process did not stop in time and is killed", process=self.spec.name)
            self._send_signal(signal.SIGKILL)


class ProcessGroup:
    """All children. `answers` holds our answers to their questions."""

    def __init__(self, specs: Sequence[ChildSpec]) -> None:
        self.answers: dict[str, Callable[[], Awaitable[str]]] = {}
        self.children = [SupervisedProcess(spec, self.answers) for spec in specs]
        self.was_killed = False  # by a second Ctrl-C
        self._stopping = asyncio.Event()
        self._keep_tasks = [asyncio.create_task(child.keep_running(), name=child.spec.name) for child in self.children]
        for task in self._keep_tasks:
            task.add_done_callback(lambda _: self.stop())

    async def wait_until_ready(self) -> bool:
        """Wait until all are ready; False if they stop instead. From then on, Ctrl-C stops them in order."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            for child in self.children:
                ready = asyncio.create_task(child.ready.wait())
                await asyncio.wait([ready, stopping], return_when=asyncio.FIRST_COMPLETED)
                ready.cancel()
        finally:
            stopping.cancel()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupt)
        return not self._stopping.is_set()

    async def wait_until_stopping(self, seconds: float | None = None) -> bool:
        """Wait until they have to stop, at most `seconds`; return whether they have to."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    def stop(self) -> None:
        """Tell all to stop; a second call changes nothing."""
        if not self._stopping.is_set():
            self._stopping.set()
            for child in self.children:
                child.stop()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def interrupt(self) -> None:
        """Ctrl-C: the first stops them, the second kills them."""
        if self._stopping.is_set():
            self.was_killed = True
            self.kill()
        self.stop()

    def kill(self) -> None:
        self._stopping.set()
        for child in self.children:
            child.kill()

    async def wait_until_ended(self) -> None:
        """Return when all have ended. Raises `ChildRefused`."""
        await asyncio.wait(self._keep_tasks)
        for task in self._keep_tasks:
            task.result()


@asynccontextmanager
async def supervise_processes(specs: Sequence[ChildSpec]) -> AsyncIterator[ProcessGroup]:
    """Run these processes until the block ends or SIGTERM arrives.

    Leaving the block stops them and waits; leaving it by an exception kills them. Raises `ChildRefused`; raises
    `KeyboardInterrupt` after a second Ctrl-C.
    """
    group = ProcessGroup(specs)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.stop)
    try:
        yield group
        group.stop()
        await group.wait_until_ended()
    except BaseException:
        group.kill()
        with suppress(ChildRefused):
            await group.wait_until_ended()
        raise
    if group.was_killed:
        raise KeyboardInterrupt
