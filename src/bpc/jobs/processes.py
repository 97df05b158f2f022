"""Child processes for functions that compute: a function and its arguments out, what it returns or raises back.

    processes = Processes(2)
    number = await processes.run(math.factorial, (100_000,))
    await processes.close()

Whatever a function does to its process, the event loop here goes on: it may hold the interpreter lock, run out of
memory, or never end. Who stops waiting for a call ends it: its process, and what that started, is killed and replaced
when the next call needs one. Children end with us, also when we are killed.

    run ─► a turn ─► Child ════ one socket ════ serve      (the other process)
                       └ a thread: starts it, listens to it, buries it
"""

import asyncio
import ctypes
import inspect
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeAlias, TypeVar

from bpc.jobs.errors import InvalidInput, JobConflict, JobsRefusal

T = TypeVar("T")
# What comes back: a result, an exception, or the reason why neither can be brought over.
Answer: TypeAlias = tuple[Literal["made", "raised", "refused"], Any]

# Not fork: a copy of a process that has threads inherits their locks, held by nobody.
_SPAWN: Final = multiprocessing.get_context("spawn")
# INVARIANT: a process is started, signalled and reaped under this lock, so that no signal meets an id given to another.
_LOCK: Final = threading.Lock()
_FAREWELL: Final = b""
_LONGEST_TRACEBACK: Final = 8_000
_PATIENCE: Final = 5.0


class ChildDied(JobsRefusal):
    """The process that computed ended before it had an answer."""

    code = "INTERNAL_ERROR"
    retryable = True

    def __init__(self, exit_code: int) -> None:
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


class Processes:
    """At most `count` child processes, started when they are needed and used again. Belongs to one event loop."""

    def __init__(self, count: int = 2) -> None:
        if count < 1:
            raise ValueError("there is at least one child process")
        self._turns = asyncio.Semaphore(count)  # first come, first served
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._closed = False

    async def run(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Return what `function(*arguments)` returns in a child process, or raise what it raises there."""
        order = await asyncio.to_thread(_packed, function, arguments)
        async with self._turns:
            child = self._idle.pop() if self._idle else self._new_child()
            try:
                kind, value = await child.ask(order)
            except BaseException:  # cancelled, or it died
                child.kill()
                await child.has_gone()
                raise
            self._idle.append(child)
        if kind == "refused":
            raise InvalidInput(value, fix="hand over and return plain values")
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
        child = Child(self._forget)
        self._children.add(child)
        return child

    def _forget(self, child: "Child") -> None:
        self._children.discard(child)
        if child in self._idle:  # it was ended by somebody while it rested
            self._idle.remove(child)


class Child:
    """One process, as its parent sees it. It has at most one order at a time."""

    def __init__(self, forget: Callable[["Child"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._forget = forget
        self._answer: asyncio.Future[Answer] | None = None
        self._unwanted = False
        self._sending = threading.Lock()
        self._ours, self._theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(self._theirs, os.getpid()), daemon=True, name="bpc-compute")
        self._gone = asyncio.Event()
        threading.Thread(target=self._live, name="bpc-compute", daemon=True).start()

    async def ask(self, order: bytes) -> Answer:
        """Send `order` and wait for the answer. Raises `ChildDied`."""
        self._answer = self._loop.create_future()
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
                self._tell(self._hand_over, _unpacked(self._ours.recv_bytes()))
        except EOFError:
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
                self._process.close()
        with self._sending:
            self._ours.close()
        return exit_code

    def _tell(self, call: Callable[[T], None], value: T) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(call, value)

    def _hand_over(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _part(self, why: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)
        self._forget(self)
        self._gone.set()


def _is_reaped(pid: int) -> bool:
    """Whether somebody has taken the exit code already: `multiprocessing` does, whenever it starts a process."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _packed(function: Callable[..., object], arguments: tuple[Any, ...]) -> bytes:
    name = _name(function)
    if inspect.iscoroutinefunction(function):
        raise InvalidInput(
            f"`{name}` is async, and a child process has no event loop", fix="hand over a plain function"
        )
    try:
        return pickle.dumps((function, arguments), protocol=pickle.HIGHEST_PROTOCOL)
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


def serve(connection: "Connection[bytes, bytes]", parent: int) -> None:
    """Obey orders until told to leave. The functions run in the main thread, as they would anywhere else."""
    _settle(parent)
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders), name="bpc-listen", daemon=True).start()
    while order := orders.get():
        connection.send_bytes(_obey(order))


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
        orders.put(order)


def _obey(order: bytes) -> bytes:
    try:
        function, arguments = pickle.loads(order)  # noqa: S301 (from our own parent)
    except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
        return _answer("refused", f"the child process cannot read what it was sent: {_brief(wrong)}")
    try:
        made = function(*arguments)
    except BaseException as error:  # noqa: BLE001 (the parent raises it)
        return _raised(error)
    try:
        return _answer("made", made)
    except Exception as wrong:  # noqa: BLE001 (any class may fail in its own way)
        return _answer("refused", f"what `{_name(function)}` returned cannot be sent back: {_brief(wrong)}")


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
