"""A pool of child processes for functions that compute.

    processes = ProcessPool(2)
    number = await processes.run(math.factorial, (100_000,))
    await processes.close()

Whatever a function does to its process, the event loop here goes on: the function may hold the interpreter lock, run
out of memory, or never end. Cancelling a call kills its process and everything that started; the next call starts a
new one. The children end with this process, also when it is killed.

A function that takes long can report how far it is with `report_progress`:

    await processes.run(count_primes, (10_000_000,), on_progress=print)

For input from strangers, the children have limits, and a function that exceeds them is ended:

    readers = ProcessPool(2, limits=ProcessLimits(memory_bytes=200_000_000, cpu_seconds=10))
    try:
        text = await readers.run(read_pdf_text, (content,), cpu_seconds=2)
    except LimitExceeded as error:
        ...  # refuse the input with `error.says`; another attempt would end the same way

    run ─► a turn ─► ChildProcess ════ one socket ════ serve_orders   (the other process)
                         └ a thread: starts it, receives its answers, reaps it
"""

import asyncio
import inspect
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any, Final, Literal, Protocol, TypeVar

from service_jobs.child_process import (
    OUT_OF_MEMORY_EXIT,
    STOP_ORDER,
    ChildAnswer,
    format_error,
    get_function_name,
    serve_orders,
)
from service_jobs.context import ProgressCallback
from service_jobs.job import InvalidInput, JobConflict, JobsRefusal, ProcessesUnavailable

T = TypeVar("T")
# Not fork: a copy of a process that has threads inherits their locks, held by nobody.
_SPAWN: Final = multiprocessing.get_context("spawn")
# INVARIANT: a process is started, signalled and reaped under this lock, so that no signal hits a reused process id.
_PROCESS_LOCK: Final = threading.Lock()
_REAP_SECONDS: Final = 5.0
# A limited child is replaced after reading and answering this much: by then its memory may be fragmented.
_REPLACE_AFTER_BYTES: Final = 64_000_000
# How native code ends without memory, and the child where there is not even room for an answer.
_OUT_OF_MEMORY_CODES: Final = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, OUT_OF_MEMORY_EXIT})


class ChildDied(JobsRefusal):
    """The child process ended before the function returned."""

    code = "INTERNAL_ERROR"
    retryable = True

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.was_killed = exit_code < 0
        if self.was_killed:
            ending = f"was killed by {_get_signal_name(-exit_code)}"
            fix = "if nobody killed it, it may have run out of memory or crashed in native code"
        else:
            ending = f"ended with exit code {exit_code}"
            fix = "the function must return or raise, and not end its process"
        super().__init__(
            f"the child process {ending} before the function returned", fix=fix, details={"exit_code": exit_code}
        )


class LimitExceeded(JobsRefusal):
    """The function exceeded a limit of its child process; another attempt would too."""

    code = "VALIDATION_ERROR"

    def __init__(self, limit: Literal["memory", "time"], limits: "ProcessLimits") -> None:
        self.limit = limit
        amount = (
            f"{limits.memory_bytes // 1_000_000} MB of memory" if limit == "memory" else f"{limits.cpu_seconds:g} s"
        )
        super().__init__(f"needs more than the allowed {amount}", fix="pass less data at a time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What a function may use: memory of its process in addition to the program itself, and CPU time.

    It is not time on the clock: on a busy machine everything takes longer. Memory is limited on Linux only.
    """

    memory_bytes: int
    cpu_seconds: float

    def __post_init__(self) -> None:
        if self.memory_bytes < 64_000_000 or not self.cpu_seconds > 0:
            raise ValueError("memory_bytes must be at least 64,000,000 and cpu_seconds above 0")


class LimitedProcesses(Protocol):
    """Child processes with limits, for reading files from strangers. Raises `LimitExceeded`."""

    async def run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], *, cpu_seconds: float | None = None
    ) -> T: ...


class UnavailableProcesses:
    """For a process that only submits jobs: `run` raises `ProcessesUnavailable`."""

    async def run(
        self,
        function: Callable[..., T],  # noqa: ARG002 (the signature of the protocol)
        arguments: tuple[Any, ...],  # noqa: ARG002
        *,
        cpu_seconds: float | None = None,  # noqa: ARG002
    ) -> T:
        raise ProcessesUnavailable


class ProcessPool:
    """At most `count` child processes, started when needed and reused. It belongs to one event loop.

    `nice` is added to the niceness of the children: the higher, the less they take from others.
    """

    def __init__(self, count: int = 2, *, limits: ProcessLimits | None = None, nice: int = 0) -> None:
        if count < 1:
            raise ValueError("count must be at least 1")
        self._limits = limits
        self._nice = nice
        self._turns = asyncio.Semaphore(count)  # first come, first served
        self._children: set[ChildProcess] = set()
        self._idle: list[ChildProcess] = []
        self._closed = False

    async def run(
        self,
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        *,
        cpu_seconds: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> T:
        """Return what `function(*arguments)` returns in a child process, or raise what it raises there.

        `cpu_seconds` is for this call only, and needs a pool with limits. `on_progress` is called in the event loop.
        """
        limits = self._limits
        if limits is not None and cpu_seconds is not None:
            limits = replace(limits, cpu_seconds=cpu_seconds)
        order = await asyncio.to_thread(_pack_order, function, arguments, limits)
        async with self._turns:
            child = self._take_idle_child() or self._create_child()
            try:
                kind, value = await child.send_order(order, on_progress)
            except BaseException as error:  # cancelled, or the child died
                child.kill()
                await child.wait_until_gone()
                limit_error = _find_exceeded_limit(error, limits)
                if limit_error is not None:
                    raise limit_error from error
                raise
            if limits is not None and (isinstance(value, MemoryError) or child.bytes_served > _REPLACE_AFTER_BYTES):
                child.stop_idle()
            else:
                self._idle.append(child)
        if kind == "refused":
            raise InvalidInput(value, fix="pass and return plain values")
        if limits is not None and isinstance(value, MemoryError):
            raise LimitExceeded("memory", limits)
        if kind == "exception":
            raise value
        result: T = value
        return result

    async def close(self) -> None:
        """End all children: idle ones stop, busy ones are killed."""
        self._closed = True
        for child in self._children:
            if child in self._idle:
                child.stop_idle()
            else:
                child.kill()
        await self._wait_until_all_gone()
        for child in self._children:
            child.kill()
        await self._wait_until_all_gone()

    async def _wait_until_all_gone(self) -> None:
        await asyncio.gather(*(child.wait_until_gone() for child in self._children))

    def _take_idle_child(self) -> "ChildProcess | None":
        while self._idle:
            child = self._idle.pop()
            if not child.is_ending:  # its end is known to its thread before it is known to the event loop
                return child
        return None

    def _create_child(self) -> "ChildProcess":
        if self._closed:
            raise JobConflict("the child processes have been closed")
        child = ChildProcess(self._forget_child, self._limits, self._nice)
        self._children.add(child)
        return child

    def _forget_child(self, child: "ChildProcess") -> None:
        self._children.discard(child)
        if child in self._idle:  # somebody ended it while it was idle
            self._idle.remove(child)


class ChildProcess:
    """One child process, as its parent sees it. It has at most one order at a time."""

    def __init__(
        self, forget: Callable[["ChildProcess"], None], limits: ProcessLimits | None = None, nice: int = 0
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._forget = forget
        self.bytes_served = 0
        self.is_ending = False
        self._answer: asyncio.Future[ChildAnswer] | None = None
        self._on_progress: ProgressCallback | None = None
        self._is_killed = False
        self._sending = threading.Lock()
        self._parent_end, self._child_end = _SPAWN.Pipe()
        memory = None if limits is None else limits.memory_bytes
        self._process = _SPAWN.Process(
            target=serve_orders, args=(self._child_end, os.getpid(), memory, nice), daemon=True, name="jobs-compute"
        )
        self._gone = asyncio.Event()
        threading.Thread(target=self._run_thread, name="jobs-compute", daemon=True).start()

    async def send_order(self, order: bytes, on_progress: ProgressCallback | None = None) -> ChildAnswer:
        """Send `order` and wait for the answer. Raises `ChildDied`."""
        self._answer, self._on_progress = self._loop.create_future(), on_progress
        self.bytes_served += len(order)
        try:
            await asyncio.to_thread(self._send, order)  # it blocks until the child has read a large order
            return await self._answer
        finally:
            self._answer.cancel()  # whoever stopped waiting does not ask for its failure either

    async def wait_until_gone(self) -> None:
        """Wait until it is reaped, or a few seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAP_SECONDS):
                await self._gone.wait()

    def stop_idle(self) -> None:
        """Let it end, if it is idle."""
        self._send(STOP_ORDER)

    def kill(self) -> None:
        """Kill it and everything it started, now."""
        with _PROCESS_LOCK:
            self._is_killed = True
            self._kill_locked()

    def _kill_locked(self) -> None:
        try:
            pid = self._process.pid
        except ValueError:  # closed
            return
        if pid is None or _is_reaped(pid):  # one that has not started yet is killed by `_start_process`
            return
        os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):  # without a group of its own it has started nothing
            os.killpg(pid, signal.SIGKILL)

    def _send(self, message: bytes) -> None:
        with self._sending, suppress(OSError):  # it is gone, which `_run_thread` notices
            self._parent_end.send_bytes(message)

    def _run_thread(self) -> None:
        """The thread of this child. It must live as long as the child: Linux takes its end for that of the parent."""
        # The child inherits this, so that Ctrl-C does not end it while it starts: the parent decides.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        failure: Exception | None = None
        try:
            self._start_process()
            while True:
                message = self._parent_end.recv_bytes()
                self.bytes_served += len(message)
                self._call_in_loop(self._deliver_answer, _unpack_answer(message))
        except (EOFError, ConnectionResetError):  # it died, perhaps while it read from us
            pass
        except Exception as error:  # noqa: BLE001 (whatever it is, the waiting call raises it)
            failure = error
        self.is_ending = True
        exit_code = self._reap_process()
        self._call_in_loop(self._finish, failure or ChildDied(exit_code))

    def _start_process(self) -> None:
        with _PROCESS_LOCK:
            try:
                self._process.start()
            finally:
                self._child_end.close()
            if self._is_killed:
                self._kill_locked()

    def _reap_process(self) -> int:
        """Make sure that the process has ended, reap it, and close its resources."""
        exit_code = 0
        if self._process.pid is not None:
            with _PROCESS_LOCK:
                self._kill_locked()  # also everything it started; a process that is ending keeps its exit code
            wait([self._process.sentinel], timeout=_REAP_SECONDS)
            with _PROCESS_LOCK:
                self._process.join()
                exit_code = self._process.exitcode or 0
                with suppress(ValueError):  # the interpreter is shutting down and has reaped it
                    self._process.close()
        with self._sending:
            self._parent_end.close()
        return exit_code

    def _call_in_loop(self, call: Callable[[T], None], value: T) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(call, value)

    def _deliver_answer(self, answer: ChildAnswer) -> None:
        if self._answer is None or self._answer.done():
            return
        if answer[0] != "progress":
            self._answer.set_result(answer)
        elif self._on_progress is not None:
            self._on_progress(*answer[1])

    def _finish(self, reason: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(reason)
        self._forget(self)
        self._gone.set()


def _find_exceeded_limit(error: BaseException, limits: ProcessLimits | None) -> LimitExceeded | None:
    """The limit that the child died of, if any. A child that others killed may succeed the next time."""
    if limits is None or not isinstance(error, ChildDied):
        return None
    if error.exit_code == -signal.SIGPROF:
        return LimitExceeded("time", limits)
    return LimitExceeded("memory", limits) if error.exit_code in _OUT_OF_MEMORY_CODES else None


def _is_reaped(pid: int) -> bool:
    """Whether the exit code was collected already: `multiprocessing` does that whenever it starts a process."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _pack_order(
    function: Callable[..., object], arguments: tuple[Any, ...], limits: ProcessLimits | None = None
) -> bytes:
    name = get_function_name(function)
    if inspect.iscoroutinefunction(function):
        raise InvalidInput(f"`{name}` is async, and a child process has no event loop", fix="pass a plain function")
    try:
        seconds = 0.0 if limits is None else limits.cpu_seconds
        return pickle.dumps((function, arguments, seconds), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 (any class may fail in its own way)
        raise InvalidInput(
            f"`{name}` or its arguments cannot be sent to a child process: {format_error(error)}",
            fix="use a function defined at the top of a module, and plain values",
        ) from None


def _unpack_answer(message: bytes) -> ChildAnswer:
    try:
        answer: ChildAnswer = pickle.loads(message)  # noqa: S301 (from our own child)
    except Exception as error:  # noqa: BLE001 (any class may fail in its own way)
        return "refused", f"the answer of the child process cannot be read: {format_error(error)}"
    return answer


def _get_signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
