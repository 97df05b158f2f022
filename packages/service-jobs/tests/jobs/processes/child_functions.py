"""Functions that run in child processes, and what tests see of the children."""

import asyncio
import gc
import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from service_jobs.child_process import report_progress
from service_jobs.job import HandlerNotFound, LeaseLost

SOON = 60.0


# --- What the children do ----------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    return a + b


def count_to(total: int) -> int:
    for number in range(1, total + 1):
        report_progress(number, total)
    return total


def process_id() -> int:
    return os.getpid()


def note_and_wait(note: Path) -> None:
    """Tell who we are, then never return."""
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    signal.pause()


def wait_for_file(note: Path, answer: int) -> int:
    while not note.exists():
        time.sleep(0.005)
    return answer


def start_another_and_wait(note: Path) -> None:
    other = subprocess.Popen(["sleep", "600"])
    note.with_suffix(".new").write_text(str(other.pid))
    note.with_suffix(".new").rename(note)
    other.wait()


def hold_the_interpreter_lock() -> float:
    """Run one long call of C; return for how long a thread beside it could not run."""
    moments = [time.monotonic()]
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            moments.append(time.monotonic())

    beside = threading.Thread(target=tick)
    beside.start()
    time.sleep(0.05)
    re.fullmatch(r"(a|aa)+b", "a" * 34)
    done.set()
    beside.join()
    moments.append(time.monotonic())
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


def hold_the_interpreter_lock_for_ages(note: Path) -> None:
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    re.fullmatch(r"(a|aa)+b", "a" * 60)


class Odd(Exception):
    """Says something else than what it was made of."""

    def __init__(self, first: int, *, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.both = (first, second)


class Stubborn(Exception):
    """Cannot be pickled at all."""

    def __init__(self) -> None:
        super().__init__("stubborn")
        self.lock = threading.Lock()


FAILURES: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("no such month"),
    "odd": lambda: Odd(1, second=2),
    "stubborn": Stubborn,
    "unknown handler": lambda: HandlerNotFound("report"),
    "lease lost": LeaseLost,
    "exit": lambda: SystemExit(3),
    "cancelled": lambda: asyncio.CancelledError("really"),
    "stop": lambda: StopIteration(7),
    "decode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "missing file": lambda: FileNotFoundError(2, "No such file or directory", "/nowhere"),
}


def fail(how: str) -> None:
    failure = FAILURES[how]()
    raise failure


def end_process(code: int) -> None:
    os._exit(code)


def end_by_signal(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def fill(count: int) -> int:
    return len([bytes(1_000_000) for _ in range(count)])


def fill_and_swallow(count: int) -> str:
    """As some libraries do."""
    try:
        fill(count)
    except Exception:  # noqa: BLE001
        return "swallowed"
    return "fitted"


def fill_the_answer(size: int) -> bytes:
    return bytes(size)


def burn(seconds: float) -> float:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return seconds


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def return_a_lock() -> Any:
    return threading.Lock()


class Unreadable:
    """Can be packed, and refuses to be unpacked."""

    def __reduce__(self) -> tuple[Any, ...]:
        return refuse, (os.getpid(),)


def refuse(packed_by: int) -> None:
    raise ValueError(f"packed by {packed_by}")


class UnreadableElsewhere:
    """Can be unpacked only where it was packed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return refuse_elsewhere, (os.getpid(),)


def refuse_elsewhere(packed_by: int) -> object:
    if packed_by != os.getpid():
        raise ValueError("not here")
    return object()


def return_unreadable() -> Any:
    return UnreadableElsewhere()


def read_standard_input() -> bytes:
    return os.read(0, 10)


def signals() -> tuple[bool, bool]:
    """Whether Ctrl-C is ignored, and whether it is blocked."""
    return (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set()),
    )


async def compute_asynchronously() -> int:
    return 1


def backwards(data: bytes) -> bytes:
    return data[::-1]


# --- Waiting -----------------------------------------------------------------------------------------------------


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


async def read_noted_pid(note: Path) -> int:
    await wait_until(note.exists)
    return int(note.read_text())


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def list_descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


BEFORE: set[int] = set()


def list_children() -> set[int]:
    """Ours, living or not; without the tracker that `multiprocessing` keeps."""
    pids = [child for child in psutil.Process().children() if child.pid not in BEFORE]
    return {child.pid for child in pids if not is_tracker(child)}


def is_tracker(child: psutil.Process) -> bool:
    try:
        return "resource_tracker" in " ".join(child.cmdline())
    except psutil.Error:  # it has ended, and that is what tests ask
        return False
