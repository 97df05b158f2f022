"""Child processes for functions that compute: a function and its arguments out, what it returns or raises back.

    processes = Processes(2)
    number = await processes.run(math.factorial, (100_000,))
    await processes.close()

Whatever a function does to its process, the event loop here goes on: it may hold the interpreter lock, run out of
memory, or never end. Who stops waiting for a call ends it: its process, and what that started, is killed and replaced
when the next call needs one. Children end with us, also when we are killed.

A function that takes long lets whoever waits know how far it is, with `tell`; what it tells is handed to `told`:

    await processes.run(count_primes, (10_000_000,), told=print)

Where what is computed comes from strangers, the children have limits, and a function that takes more is ended:

    reading = Processes(2, limits=Limits(memory_bytes=200_000_000, cpu_seconds=10))
    try:
        text = await reading.run(text_of_pdf, (content,), cpu_seconds=2)
    except LimitExceeded as much:
        ...  # refuse what was read, with `much.says`; reading it again would end the same way

    run ─► a turn ─► Child ════ one socket ════ serve      (the other process)
                       └ a thread: starts it, listens to it, buries it
"""

import asyncio
import ctypes
import inspect
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from bpc.jobs.context import HowFar
from bpc.jobs.errors import InvalidInput, JobConflict, JobsRefusal, NoProcesses

T = TypeVar("T")
# What comes back: how far it is; a result, an exception, or the reason why neither can be brought over.
Answer: TypeAlias = tuple[Literal["told", "made", "raised", "refused"], Any]

# Not fork: a copy of a process that has threads inherits their locks, held by nobody.
_SPAWN: Final = multiprocessing.get_context("spawn")
# INVARIANT: a process is started, signalled and reaped under this lock, so that no signal meets an id given to another.
_LOCK: Final = threading.Lock()
_FAREWELL: Final = b""
_LONGEST_TRACEBACK: Final = 8_000
_PATIENCE: Final = 5.0
# What a limited child has read and answered before it is replaced: by then its memory may be in pieces.
_WORN: Final = 64_000_000
_NO_ROOM: Final = 77
# How native code ends that is refused memory, and we where there is not even room to say so.
_OUT_OF_MEMORY: Final = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, _NO_ROOM})


_LISTENER: Final[ContextVar[HowFar | None]] = ContextVar("listener", default=None)


def tell(done: int, total: int) -> None:
    """In a function that computes: let whoever waits for it know how far it is, if anybody wants to."""
    if (told := _LISTENER.get()) is not None:
        told(done, total)


@contextmanager
def listening(told: HowFar | None) -> Iterator[None]:
    """What is told in here, without a child process, is handed to `told`."""
    before = _LISTENER.set(told)
    try:
        yield
    finally:
        _LISTENER.reset(before)


class ChildDied(JobsRefusal):
    """The process that computed ended before it had an answer."""

    code = "INTERNAL_ERROR"
    retryable = True

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.was_killed = exit_code < 0
        if self.was_killed:
            how = f"was killed by {_signal_name(-exit_code)}"
            fix = "if nobody killed it, it may have run out of memory or crashed in native code"
        else:
            how = f"ended with exit code {exit_code}"
            fix = "a function that computes returns or raises; it does not end its process"
        super().__init__(
            f"the child process {how} before the function returned", fix=fix, details={"exit_code": exit_code}
        )


class LimitExceeded(JobsRefusal):
    """The function took more than its child process may take. It would take it again."""

    code = "VALIDATION_ERROR"

    def __init__(self, limit: Literal["memory", "time"], limits: "Limits") -> None:
        self.limit = limit
        most = f"{limits.memory_bytes // 1_000_000} MB of memory" if limit == "memory" else f"{limits.cpu_seconds:g} s"
        super().__init__(f"takes more than the {most} there are for it", fix="hand over less at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a function may take: memory of its process beside the program itself, and time on a processor.

    Not time on the clock: on a busy machine everything takes longer, and is not worse for that. Memory is limited on
    Linux only.
    """

    memory_bytes: int
    cpu_seconds: float

    def __post_init__(self) -> None:
        if self.memory_bytes < 64_000_000 or not self.cpu_seconds > 0:
            raise ValueError("a child process needs 64 MB and some time")


class Limited(Protocol):
    """Child processes with limits, for whatever reads what strangers sent. Raises `LimitExceeded`."""

    async def run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], *, cpu_seconds: float | None = None
    ) -> T: ...


class Nowhere:
    """The limited processes of whoever submits jobs and runs none."""

    async def run(
        self,
        function: Callable[..., T],  # noqa: ARG002 (the signature of what is not here)
        arguments: tuple[Any, ...],  # noqa: ARG002
        *,
        cpu_seconds: float | None = None,  # noqa: ARG002
    ) -> T:
        raise NoProcesses


class Processes:
    """At most `count` child processes, started when they are needed and used again. Belongs to one event loop."""

    def __init__(self, count: int = 2, *, limits: Limits | None = None) -> None:
        if count < 1:
            raise ValueError("there is at least one child process")
        self._limits = limits
        self._turns = asyncio.Semaphore(count)  # first come, first served
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._closed = False

    async def run(
        self,
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        *,
        cpu_seconds: float | None = None,
        told: HowFar | None = None,
    ) -> T:
        """Return what `function(*arguments)` returns in a child process, or raise what it raises there.

        `cpu_seconds` is for this call only, and needs processes with limits. `told` is called in the event loop.
        """
        limits = self._limits
        if limits is not None and cpu_seconds is not None:
            limits = replace(limits, cpu_seconds=cpu_seconds)
        order = await asyncio.to_thread(_packed, function, arguments, limits)
        async with self._turns:
            child = self._idle.pop() if self._idle else self._new_child()
            try:
                kind, value = await child.ask(order, told)
            except BaseException as failed:  # cancelled, or it died
                child.kill()
                await child.has_gone()
                exceeded = _exceeded(failed, limits)
                if exceeded is not None:
                    raise exceeded from failed
                raise
            if limits is not None and (isinstance(value, MemoryError) or child.served > _WORN):
                child.dismiss()
            else:
                self._idle.append(child)
        if kind == "refused":
            raise InvalidInput(value, fix="hand over and return plain values")
        if limits is not None and isinstance(value, MemoryError):
            raise LimitExceeded("memory", limits)
        if kind == "raised":
            raise value
        made: T = value
        return made

    async def close(self) -> None:
        """End all children: those that rest leave, those that compute are killed."""
        self._closed = True
        for child in self._children:
            if child in self._idle:
                child.dismiss()
            else:
                child.kill()
        await self._all_gone()
        for child in self._children:
            child.kill()
        await self._all_gone()

    async def _all_gone(self) -> None:
        await asyncio.gather(*(child.has_gone() for child in self._children))

    def _new_child(self) -> "Child":
        if self._closed:
            raise JobConflict("the child processes have been closed")
        child = Child(self._forget, self._limits)
        self._children.add(child)
        return child

    def _forget(self, child: "Child") -> None:
        self._children.discard(child)
        if child in self._idle:  # it was ended by somebody while it rested
            self._idle.remove(child)


class Child:
    """One process, as its parent sees it. It has at most one order at a time."""

    def __init__(self, forget: Callable[["Child"], None], limits: Limits | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._forget = forget
        self.served = 0  # bytes
        self._answer: asyncio.Future[Answer] | None = None
        self._told: HowFar | None = None
        self._unwanted = False
        self._sending = threading.Lock()
        self._ours, self._theirs = _SPAWN.Pipe()
        memory = None if limits is None else limits.memory_bytes
        self._process = _SPAWN.Process(
            target=serve, args=(self._theirs, os.getpid(), memory), daemon=True, name="bpc-compute"
        )
        self._gone = asyncio.Event()
        threading.Thread(target=self._live, name="bpc-compute", daemon=True).start()

    async def ask(self, order: bytes, told: HowFar | None = None) -> Answer:
        """Send `order` and wait for the answer. Raises `ChildDied`."""
        self._answer, self._told = self._loop.create_future(), told
        self.served += len(order)
        await asyncio.to_thread(self._send, order)  # a large one is only taken as fast as the child reads
        return await self._answer

    async def has_gone(self) -> None:
        """Wait until it is reaped, but not longer than that ever takes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._gone.wait()

    def dismiss(self) -> None:
        """Let it end in order, if it rests."""
        self._send(_FAREWELL)

    def kill(self) -> None:
        """End it and all it started, now."""
        with _LOCK:
            self._unwanted = True
            self._kill()

    def _kill(self) -> None:
        try:
            pid = self._process.pid
        except ValueError:  # buried
            return
        if pid is None or _is_reaped(pid):  # one that has not started yet is killed by `_start`
            return
        os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):  # as long as it has no group, it has started nobody
            os.killpg(pid, signal.SIGKILL)

    def _send(self, message: bytes) -> None:
        with self._sending, suppress(OSError):  # it has gone, which `_live` notices
            self._ours.send_bytes(message)

    def _live(self) -> None:
        """The thread of this child, which lasts as long as the child: Linux takes its end for that of the parent."""
        # Inherited by the child, so that a Ctrl-C while it starts does not end it: that is for us to decide.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        trouble: Exception | None = None
        try:
            self._start()
            while True:
                message = self._ours.recv_bytes()
                self.served += len(message)
                self._tell(self._hand_over, _unpacked(message))
        except (EOFError, ConnectionResetError):  # it died, in the middle of reading us perhaps
            pass
        except Exception as unexpected:  # noqa: BLE001 (whatever it is, the waiting call is told)
            trouble = unexpected
        exit_code = self._bury()
        self._tell(self._part, trouble or ChildDied(exit_code))

    def _start(self) -> None:
        with _LOCK:
            try:
                self._process.start()
            finally:
                self._theirs.close()
            if self._unwanted:
                self._kill()

    def _bury(self) -> int:
        """Reap the process, which has ended or will be made to, and close what is left of it."""
        exit_code = 0
        if self._process.pid is not None:
            with _LOCK:
                self._kill()  # also what it started and left behind; one that is ending keeps its exit code
            wait([self._process.sentinel], timeout=_PATIENCE)
            with _LOCK:
                self._process.join()
                exit_code = self._process.exitcode or 0
                with suppress(ValueError):  # the interpreter ends, and reaped it itself
                    self._process.close()
        with self._sending:
            self._ours.close()
        return exit_code

    def _tell(self, call: Callable[[T], None], value: T) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(call, value)

    def _hand_over(self, answer: Answer) -> None:
        if self._answer is None or self._answer.done():
            return
        if answer[0] != "told":
            self._answer.set_result(answer)
        elif self._told is not None:
            self._told(*answer[1])

    def _part(self, why: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)
        self._forget(self)
        self._gone.set()


def _exceeded(failed: BaseException, limits: Limits | None) -> LimitExceeded | None:
    """Which limit a child died of, if it did. One that was killed by others may do better next time."""
    if limits is None or not isinstance(failed, ChildDied):
        return None
    if failed.exit_code == -signal.SIGPROF:
        return LimitExceeded("time", limits)
    return LimitExceeded("memory", limits) if failed.exit_code in _OUT_OF_MEMORY else None


def _is_reaped(pid: int) -> bool:
    """Whether somebody has taken the exit code already: `multiprocessing` does, whenever it starts a process."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _packed(function: Callable[..., object], arguments: tuple[Any, ...], limits: Limits | None = None) -> bytes:
    name = _name(function)
    if inspect.iscoroutinefunction(function):
        raise InvalidInput(
            f"`{name}` is async, and a child process has no event loop", fix="hand over a plain function"
        )
    try:
        seconds = 0.0 if limits is None else limits.cpu_seconds
        return pickle.dumps((function, arguments, seconds), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
        raise InvalidInput(
            f"`{name}` or what it is called with cannot be sent to a child process: {_brief(wrong)}",
            fix="use a function defined at the top of a module, and plain values",
        ) from None


def _unpacked(message: bytes) -> Answer:
    try:
        answer: Answer = pickle.loads(message)  # noqa: S301 (from our own child)
    except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
        return "refused", f"what the child process sent back cannot be read here: {_brief(wrong)}"
    return answer


def _name(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- In the child ------------------------------------------------------------------------------------------------


def serve(connection: "Connection[bytes, bytes]", parent: int, memory: int | None = None) -> None:
    """Obey orders until told to leave. The functions run in the main thread, as they would anywhere else."""
    _settle(parent)
    if memory is not None and sys.platform == "linux":
        # Not the address space: threads and libraries reserve a lot of that and use little.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _LISTENER.set(lambda done, total: connection.send_bytes(_answer("told", (done, total))))
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders), name="bpc-listen", daemon=True).start()
    try:
        while (order := [orders.get()]) != [_FAREWELL]:
            connection.send_bytes(_obey(order))
    except MemoryError:
        os._exit(_NO_ROOM)


def _settle(parent: int) -> None:
    os.setpgid(0, 0)  # what is started here can be killed with us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "linux":
        # `_listen` sees the parent go, but never gets to run while a function holds the interpreter lock.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _listen(connection: "Connection[bytes, bytes]", orders: "SimpleQueue[bytes]") -> None:
    order = None
    while order != _FAREWELL:
        try:
            order = connection.recv_bytes()
        except (EOFError, OSError):  # the parent is gone, and nobody wants what we compute
            os.killpg(0, signal.SIGKILL)
            return
        except MemoryError:  # the order alone is more than we may hold
            os._exit(_NO_ROOM)
        orders.put(order)


def _obey(order: list[bytes]) -> bytes:
    """The answer to the one order in the list, which is taken out: what is unpacked from it need not be held twice."""
    try:
        function, arguments, seconds = pickle.loads(order.pop())  # noqa: S301 (from our own parent)
    except MemoryError:
        return _answer("raised", MemoryError())
    except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
        return _answer("refused", f"the child process cannot read what it was sent: {_brief(wrong)}")
    try:
        made = _timed(function, arguments, seconds)
    except MemoryError:
        made = None
    except BaseException as error:  # noqa: BLE001 (the parent raises it)
        return _raised(error)
    else:
        try:
            return _answer("made", made)
        except MemoryError:
            made = None
        except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
            return _answer("refused", f"what `{_name(function)}` returned cannot be sent back: {_brief(wrong)}")
    # Only here is what filled the memory gone: an exception holds on to it through its traceback.
    return _answer("raised", MemoryError(f"in `{_name(function)}`"))


def _timed(function: Callable[..., object], arguments: tuple[Any, ...], seconds: float) -> object:
    """Call it; after so many seconds on a processor, in whatever code, the system ends this process (SIGPROF)."""
    if not seconds:
        return function(*arguments)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _answer(kind: str, value: object) -> bytes:
    return pickle.dumps((kind, value), protocol=pickle.HIGHEST_PROTOCOL)


def _raised(error: BaseException) -> bytes:
    """`error` as the parent will raise it: the same if it survives the way, else a RuntimeError that says the same."""
    told = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
    note = f"in the child process:\n{told}"
    # Of those that are no Exception, and of StopIteration, an event loop would make something else.
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        error.add_note(note)
        for form in (error, _InParts(error)):
            with suppress(Exception):
                packed = _answer("raised", form)
                copy = pickle.loads(packed)[1]  # noqa: S301 (our own)
                if type(copy) is type(error) and str(copy) == str(error):
                    return packed
    plain = RuntimeError(_brief(error))
    plain.add_note(note)
    return _answer("raised", plain)


class _InParts:
    """An exception whose `__init__` takes something else than what it hands to its base, as many do."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self._error), self._error.args, self._error.__dict__)


def _rebuilt(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error: Exception = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
