"""Functions that compute in child processes: what comes back, what ends them, and what never happens to us."""

import asyncio
import functools
import gc
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from bpc.jobs.errors import HandlerNotFound, InvalidInput, JobConflict, JobError, LeaseLost, NoProcesses
from bpc.jobs.processes import ChildDied, LimitExceeded, Limits, Nowhere, Processes, listening, tell

SOON = 60.0


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes(2)
    yield made
    await made.close()


# --- What the children do ----------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    return a + b


def count_to(total: int) -> int:
    for number in range(1, total + 1):
        tell(number, total)
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


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


async def noted(note: Path) -> int:
    await until(note.exists)
    return int(note.read_text())


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


BEFORE: set[int] = set()


@pytest.fixture(autouse=True)
def others() -> None:
    """Children this process has for other reasons: a server that tests share, and the like."""
    BEFORE.clear()
    BEFORE.update(child.pid for child in psutil.Process().children())


def children() -> set[int]:
    """Ours, living or not; without the tracker that `multiprocessing` keeps."""
    ours = [child for child in psutil.Process().children() if child.pid not in BEFORE]
    return {child.pid for child in ours if not is_tracker(child)}


def is_tracker(child: psutil.Process) -> bool:
    try:
        return "resource_tracker" in " ".join(child.cmdline())
    except psutil.Error:  # it has ended, and that is what tests ask
        return False


# --- Answers -----------------------------------------------------------------------------------------------------


async def test_a_function_runs_in_another_process_which_is_used_again(processes: Processes) -> None:
    assert await processes.run(add, (2, 3)) == 5

    first = await processes.run(process_id, ())

    assert first != os.getpid()
    assert await processes.run(process_id, ()) == first


async def test_a_function_says_how_far_it_is_in_order_and_before_it_is_done(processes: Processes) -> None:
    told = list[tuple[int, int]]()

    await processes.run(count_to, (20,), told=lambda done, total: told.append((done, total)))

    assert told == [(number, 20) for number in range(1, 21)]
    assert await processes.run(count_to, (20,)) == 20  # to nobody
    assert len(told) == 20


async def test_without_a_child_process_it_tells_whoever_listens() -> None:
    told = list[int]()

    with listening(lambda done, _: told.append(done)):
        await asyncio.to_thread(count_to, 3)
    count_to(3)

    assert told == [1, 2, 3]


async def test_functions_of_the_standard_library_and_partial_ones_will_do(processes: Processes) -> None:
    assert await processes.run(pow, (2, 10)) == 1024
    assert await processes.run(functools.partial(add, 40), (2,)) == 42


async def test_arguments_and_results_may_be_larger_than_any_pipe(processes: Processes) -> None:
    data = bytes(range(256)) * 40_000

    assert await processes.run(backwards, (data,)) == data[::-1]


RAISED_HERE: list[tuple[str, type[Exception], str]] = [
    ("value", ValueError, "no such month"),
    ("odd", Odd, "1 and 2"),
    ("unknown handler", HandlerNotFound, "no handler is registered for jobs of type `report`"),
    ("lease lost", LeaseLost, "this execution lost its lease: another worker runs the job now"),
    ("decode", UnicodeDecodeError, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ("missing file", FileNotFoundError, "[Errno 2] No such file or directory: '/nowhere'"),
    ("stubborn", RuntimeError, "Stubborn: stubborn"),
    ("exit", RuntimeError, "SystemExit: 3"),
    ("cancelled", RuntimeError, "CancelledError: really"),
    ("stop", RuntimeError, "StopIteration: 7"),
]


async def test_what_a_function_raises_is_raised_here(processes: Processes) -> None:
    assert {how for how, _, _ in RAISED_HERE} == set(FAILURES)
    child = await processes.run(process_id, ())

    for how, kind, says in RAISED_HERE:
        with pytest.raises(Exception) as raised:  # noqa: PT011 (which one is asked below)
            await processes.run(fail, (how,))
        assert (type(raised.value), str(raised.value)) == (kind, says)
        assert "in fail\n" in raised.value.__notes__[-1]

    assert await processes.run(process_id, ()) == child


async def test_an_exception_keeps_what_it_knows(processes: Processes) -> None:
    with pytest.raises(Odd) as odd:
        await processes.run(fail, ("odd",))
    with pytest.raises(HandlerNotFound) as refusal:
        await processes.run(fail, ("unknown handler",))

    assert odd.value.both == (1, 2)
    assert refusal.value.details == {"type": "report"}
    assert refusal.value.fix == "register one, or check the spelling"


REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (lambda: 1, (), "cannot be sent to a child process"),
    (add, (1, threading.Lock()), "cannot be sent to a child process"),
    (compute_asynchronously, (), "is async"),
    (add, (1, Unreadable()), "cannot read what it was sent"),
    (return_a_lock, (), "test_processes.return_a_lock` returned cannot be sent back"),
    (return_unreadable, (), "cannot be read here: ValueError: not here"),
]


async def test_what_cannot_be_brought_over_is_refused_in_words(processes: Processes) -> None:
    child = await processes.run(process_id, ())

    for function, arguments, says in REFUSED:
        with pytest.raises(InvalidInput) as refused:
            await processes.run(function, arguments)
        assert says in refused.value.says

    assert await processes.run(process_id, ()) == child


# --- Death -------------------------------------------------------------------------------------------------------


async def test_a_child_that_ends_itself_fails_its_call_and_no_other(processes: Processes) -> None:
    with pytest.raises(ChildDied) as died:
        await processes.run(end_process, (7,))

    assert died.value.says == "the child process ended with exit code 7 before the function returned"
    assert JobError.of(died.value).retryable
    assert JobError.of(died.value).code == "INTERNAL_ERROR"
    assert await processes.run(add, (1, 1)) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_a_child_that_is_killed_says_by_which_signal(processes: Processes, number: signal.Signals) -> None:
    with pytest.raises(ChildDied, match=f"was killed by {number.name} before") as died:
        await processes.run(end_by_signal, (int(number),))

    assert died.value.details == {"exit_code": -number}


async def test_a_child_that_is_killed_while_it_rests_is_buried_at_once_and_replaced(processes: Processes) -> None:
    first = await processes.run(process_id, ())

    os.kill(first, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(first))

    assert await processes.run(process_id, ()) != first


async def test_who_stops_waiting_ends_the_child(processes: Processes, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(note_and_wait, (tmp_path / "note",)))
    pid = await noted(tmp_path / "note")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert not psutil.pid_exists(pid)
    assert await processes.run(process_id, ()) != pid


async def test_a_timeout_ends_a_child_that_holds_the_interpreter_lock(processes: Processes, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(hold_the_interpreter_lock_for_ages, (tmp_path / "note",)))
    pid = await noted(tmp_path / "note")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call, 0.05)

    assert not psutil.pid_exists(pid)


async def test_what_a_child_started_ends_with_it(processes: Processes, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(start_another_and_wait, (tmp_path / "note",)))
    other = await noted(tmp_path / "note")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await until(lambda: not is_running(other))


async def test_a_call_may_be_cancelled_while_its_child_starts(processes: Processes) -> None:
    for wait in (0.0, 0.001, 0.005, 0.02, 0.05):
        call = asyncio.create_task(processes.run(add, (1, 1)))
        await asyncio.sleep(wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert children() == set()
    assert await processes.run(add, (1, 1)) == 2


async def test_a_large_order_may_be_cancelled_while_it_is_sent(processes: Processes) -> None:
    for _ in range(3):
        call = asyncio.create_task(processes.run(backwards, (bytes(20_000_000),)))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert children() == set()
    assert await processes.run(add, (1, 1)) == 2


async def test_a_system_without_room_for_a_child_fails_the_call_and_no_later_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_start(process: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as full:
        full.setattr("multiprocessing.context.SpawnProcess.start", refuse_to_start)
        with pytest.raises(BlockingIOError) as failure:
            await processes.run(add, (1, 1))

    assert JobError.of(failure.value).retryable
    assert await processes.run(add, (1, 1)) == 2


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    await _use_up(tmp_path / "first")  # whatever is opened once and kept: the tracker of `multiprocessing`
    before = descriptors()

    await _use_up(tmp_path / "second")

    assert children() == set()
    assert descriptors() == before
    assert [thread.name for thread in threading.enumerate() if thread.name == "bpc-compute"] == []


async def _use_up(note: Path) -> None:
    processes = Processes(2)
    await processes.run(add, (1, 1))
    with pytest.raises(ChildDied):
        await processes.run(end_process, (1,))
    call = asyncio.create_task(processes.run(note_and_wait, (note,)))
    await noted(note)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.gather(processes.run(add, (1, 1)), processes.run(add, (1, 1)))
    await processes.close()
    await until(lambda: "bpc-compute" not in {thread.name for thread in threading.enumerate()})


# --- Turns -------------------------------------------------------------------------------------------------------


async def test_calls_beyond_the_count_wait_for_their_turn_in_order(tmp_path: Path) -> None:
    processes = Processes(1)
    order: list[int] = []

    async def call(number: int) -> None:
        order.append(await processes.run(wait_for_file, (tmp_path / "go", number)))

    calls = []
    for number in range(5):
        calls.append(asyncio.create_task(call(number)))
        await asyncio.sleep(0.02)
    calls[2].cancel()
    await asyncio.sleep(0)
    (tmp_path / "go").touch()
    await asyncio.gather(*calls, return_exceptions=True)

    assert order == [0, 1, 3, 4]
    assert len(children()) == 1
    await processes.close()


async def test_no_more_children_run_than_allowed(processes: Processes, tmp_path: Path) -> None:
    calls = [asyncio.create_task(processes.run(wait_for_file, (tmp_path / "go", n))) for n in range(6)]
    await until(lambda: len(children()) == 2)
    await asyncio.sleep(0.1)

    assert len(children()) == 2
    (tmp_path / "go").touch()
    assert await asyncio.gather(*calls) == list(range(6))


async def test_there_is_at_least_one_child() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Processes(0)


# --- The end -----------------------------------------------------------------------------------------------------


async def test_closing_ends_those_that_rest_and_those_that_compute(tmp_path: Path) -> None:
    processes = Processes(2)
    computing = asyncio.create_task(processes.run(note_and_wait, (tmp_path / "note",)))
    await noted(tmp_path / "note")
    await processes.run(add, (1, 1))
    assert len(children()) == 2

    await processes.close()

    assert children() == set()
    with pytest.raises(ChildDied):
        await computing
    with pytest.raises(JobConflict):
        await processes.run(add, (1, 1))


async def test_closing_twice_or_unused_does_nothing() -> None:
    before = children()
    processes = Processes()

    await processes.close()
    await processes.close()

    assert children() == before


PARENT = textwrap.dedent("""
    import asyncio, os, sys
    from pathlib import Path
    from bpc.jobs.processes import Processes
    from tests.jobs import test_processes as t

    async def main():
        processes = Processes(2)
        resting, other = await asyncio.gather(processes.run(t.process_id, ()), processes.run(t.process_id, ()))
        function = getattr(t, sys.argv[1])
        if sys.argv[1] != "process_id":
            asyncio.create_task(processes.run(function, (Path(sys.argv[2]),)))
        print(resting, other, flush=True)
        await asyncio.sleep(600)

    if __name__ == "__main__":
        asyncio.run(main())
""")


@pytest.mark.parametrize("doing", ["process_id", "note_and_wait", "hold_the_interpreter_lock_for_ages"])
async def test_children_do_not_outlive_a_parent_that_is_killed(doing: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(__file__).parents[2]
    parent = await asyncio.create_subprocess_exec(
        *[sys.executable, str(script), doing, str(tmp_path / "note")],
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await asyncio.wait_for(parent.stdout.readline(), SOON)).split()]
    if doing != "process_id":
        assert await noted(tmp_path / "note") in pids
    assert all(is_running(pid) for pid in pids)

    parent.kill()
    await parent.wait()

    await until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_script_that_ends_without_closing_ends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio
            from bpc.jobs.processes import Processes

            def double(n):
                return 2 * n

            async def main():
                print(await Processes(1).run(double, (21,)))

            if __name__ == "__main__":
                asyncio.run(main())
        """)
    )

    ran = await asyncio.create_subprocess_exec(
        *[sys.executable, str(script)], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, complaints = await asyncio.wait_for(ran.communicate(), SOON)

    assert (told, complaints, ran.returncode) == (b"42\n", b"", 0)


# --- Limits ------------------------------------------------------------------------------------------------------

SMALL = Limits(memory_bytes=100_000_000, cpu_seconds=0.3)


@pytest.fixture
async def limited() -> AsyncIterator[Processes]:
    made = Processes(1, limits=SMALL)
    yield made
    await made.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
async def test_a_function_that_takes_too_much_memory_is_ended_and_no_other(limited: Processes) -> None:
    assert await limited.run(fill, (20,)) == 20

    for function, size in ((fill, 200), (fill_the_answer, 60_000_000), (fill, 10**6)):
        with pytest.raises(LimitExceeded, match="takes more than the 100 MB of memory there are for it") as exceeded:
            await limited.run(function, (size,))
        assert exceeded.value.limit == "memory"
        assert not JobError.of(exceeded.value).retryable

    assert await limited.run(fill_and_swallow, (200,)) == "swallowed"
    assert await limited.run(fill, (20,)) == 20


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
async def test_an_order_that_does_not_fit_is_a_matter_of_memory(limited: Processes) -> None:
    with pytest.raises(LimitExceeded, match="memory"):
        await limited.run(backwards, (bytes(120_000_000),))

    assert await limited.run(add, (1, 1)) == 2


async def test_native_code_that_gives_up_is_a_matter_of_memory(limited: Processes) -> None:
    for number in (signal.SIGABRT, signal.SIGSEGV):
        with pytest.raises(LimitExceeded):
            await limited.run(end_by_signal, (int(number),))


async def test_a_limited_child_that_others_kill_may_be_tried_again(limited: Processes) -> None:
    with pytest.raises(ChildDied) as died:
        await limited.run(end_by_signal, (int(signal.SIGKILL),))

    assert JobError.of(died.value).retryable


async def test_a_function_that_computes_for_too_long_is_ended_whatever_it_does(limited: Processes) -> None:
    for function, argument in ((burn, 60.0), (re.compile(r"(a|aa)+b").fullmatch, "a" * 60)):
        with pytest.raises(LimitExceeded, match=r"takes more than the 0\.3 s there are for it") as exceeded:
            await limited.run(function, (argument,))
        assert exceeded.value.limit == "time"

    assert await limited.run(add, (1, 1)) == 2


async def test_time_is_that_of_the_processor_and_each_call_has_its_own(limited: Processes) -> None:
    assert await limited.run(sleep, (0.5,)) == 0.5
    for _ in range(3):
        assert await limited.run(burn, (0.15,)) == 0.15
    assert await limited.run(burn, (0.5,), cpu_seconds=20) == 0.5
    with pytest.raises(LimitExceeded, match=r"0\.1 s"):
        await limited.run(burn, (60.0,), cpu_seconds=0.1)


async def test_a_limited_child_is_replaced_after_it_has_read_much(limited: Processes) -> None:
    first = await limited.run(process_id, ())
    for _ in range(12):
        await limited.run(backwards, (bytes(3_000_000),))

    assert await limited.run(process_id, ()) != first


async def test_limits_leave_room_to_begin() -> None:
    with pytest.raises(ValueError, match="64 MB"):
        Limits(memory_bytes=1_000_000, cpu_seconds=1)
    with pytest.raises(NoProcesses):
        await Nowhere().run(add, (1, 1))


# --- What a child has to do with its parent ----------------------------------------------------------------------


async def test_a_child_reads_nothing_and_ignores_ctrl_c(processes: Processes) -> None:
    assert await processes.run(read_standard_input, ()) == b""
    assert await processes.run(signals, ()) == (True, False)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


async def test_the_event_loop_ticks_while_a_child_holds_its_interpreter_lock(processes: Processes) -> None:
    await processes.run(add, (1, 1))
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticking = asyncio.create_task(tick())
    held = await processes.run(hold_the_interpreter_lock, ())
    ticking.cancel()

    assert held > 0.3
    assert max(gaps) < max(0.25, held / 2)
