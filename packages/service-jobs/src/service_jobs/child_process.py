"""What runs in a child process: receive orders, call functions, send answers back.

    _receive_orders (a thread) ─► serve_orders (the main thread) ─► answers

Parent and child are always of the same version: what they exchange is never stored.
"""

import ctypes
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
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeAlias

from service_jobs.context import ProgressCallback
from service_jobs.job import rebuild_exception

# Progress; or a result, an exception, or the reason why neither can be sent back.
ChildAnswer: TypeAlias = tuple[Literal["progress", "result", "exception", "refused"], Any]

STOP_ORDER: Final = b""
OUT_OF_MEMORY_EXIT: Final = 77
MAX_TRACEBACK_LENGTH: Final = 8_000
_PROGRESS_CALLBACK: Final[ContextVar[ProgressCallback | None]] = ContextVar("on_progress", default=None)


def report_progress(done: int, total: int) -> None:
    """Call this in a function that runs in a child process, to report how far it is."""
    if (on_progress := _PROGRESS_CALLBACK.get()) is not None:
        on_progress(done, total)


@contextmanager
def listen_for_progress(on_progress: ProgressCallback | None) -> Iterator[None]:
    """`report_progress` in this block, without a child process, calls `on_progress`."""
    token = _PROGRESS_CALLBACK.set(on_progress)
    try:
        yield
    finally:
        _PROGRESS_CALLBACK.reset(token)


def serve_orders(connection: "Connection[bytes, bytes]", parent: int, memory: int | None = None, nice: int = 0) -> None:
    """Execute orders until the stop order. The functions run in the main thread, as they would anywhere else."""
    _prepare_child(parent)
    os.nice(nice)
    if memory is not None and sys.platform == "linux":
        # Not the address space: threads and libraries reserve much of that and use little.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _PROGRESS_CALLBACK.set(lambda done, total: connection.send_bytes(_pack_answer("progress", (done, total))))
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive_orders, args=(connection, orders), name="jobs-listen", daemon=True).start()
    try:
        while (order := [orders.get()]) != [STOP_ORDER]:
            connection.send_bytes(_execute_order(order))
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT)


def _prepare_child(parent: int) -> None:
    os.setpgid(0, 0)  # processes started here can be killed together with us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    if sys.platform == "linux":
        # `_receive_orders` notices the parent's end, but cannot run while a function holds the interpreter lock.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _receive_orders(connection: "Connection[bytes, bytes]", orders: "SimpleQueue[bytes]") -> None:
    order = None
    while order != STOP_ORDER:
        try:
            order = connection.recv_bytes()
        except (EOFError, OSError):  # the parent is gone, and nobody waits for the result
            os.killpg(0, signal.SIGKILL)
            return
        except MemoryError:  # the order alone exceeds the limit
            os._exit(OUT_OF_MEMORY_EXIT)
        orders.put(order)


def _execute_order(order: list[bytes]) -> bytes:
    """The answer to the one order in the list. It is removed from the list, so that it is not held in memory twice."""
    try:
        function, arguments, seconds = pickle.loads(order.pop())  # noqa: S301 (from our own parent)
    except MemoryError:
        return _pack_answer("exception", MemoryError())
    except Exception as problem:  # noqa: BLE001 (any class may fail in its own way)
        return _pack_answer("refused", f"the child process cannot read what it was sent: {format_error(problem)}")
    try:
        result = _call_with_cpu_limit(function, arguments, seconds)
    except MemoryError:
        result = None
    except BaseException as error:  # noqa: BLE001 (the parent raises it)
        return _pack_exception(error)
    else:
        try:
            return _pack_answer("result", result)
        except MemoryError:
            result = None
        except Exception as problem:  # noqa: BLE001 (any class may fail in its own way)
            return _pack_answer(
                "refused",
                f"what `{get_function_name(function)}` returned cannot be sent back: {format_error(problem)}",
            )
    # Only here is the memory free again: an exception keeps it through its traceback.
    return _pack_answer("exception", MemoryError(f"in `{get_function_name(function)}`"))


def _call_with_cpu_limit(function: Callable[..., object], arguments: tuple[Any, ...], seconds: float) -> object:
    """Call the function; after `seconds` of CPU time, in whatever code, the system ends this process (SIGPROF)."""
    if not seconds:
        return function(*arguments)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _pack_answer(kind: str, value: object) -> bytes:
    return pickle.dumps((kind, value), protocol=pickle.HIGHEST_PROTOCOL)


def _pack_exception(error: BaseException) -> bytes:
    """`error` as the parent will raise it: the same if it can be pickled, else a RuntimeError with the same text."""
    traceback_text = "".join(traceback.format_exception(error))[-MAX_TRACEBACK_LENGTH:]
    note = f"in the child process:\n{traceback_text}"
    # An event loop treats StopIteration, and what is not an Exception, in its own way.
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        error.add_note(note)
        for form in (error, _PicklableError(error)):
            with suppress(Exception):
                answer = _pack_answer("exception", form)
                copy = pickle.loads(answer)[1]  # noqa: S301 (our own)
                if type(copy) is type(error) and str(copy) == str(error):
                    return answer
    plain = RuntimeError(format_error(error))
    plain.add_note(note)
    return _pack_answer("exception", plain)


class _PicklableError:
    """Pickles an exception whose `__init__` takes other arguments than it passes to its base, as many do."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_exception, (type(self._error), self._error.args, self._error.__dict__)


def get_function_name(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
