"""Functions that compute in child processes: what comes back, whose turn it is, and how they end with us."""

import asyncio
import functools
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from service_jobs.child_process import listen_for_progress
from service_jobs.job import HandlerNotFound, InvalidInput, JobConflict, LeaseLost
from service_jobs.processes import ChildDied, ProcessPool
from tests.jobs.processes.child_functions import (
    FAILURES,
    SOON,
    Odd,
    Unreadable,
    add,
    backwards,
    compute_asynchronously,
    count_to,
    fail,
    hold_the_interpreter_lock,
    is_running,
    list_children,
    note_and_wait,
    process_id,
    read_noted_pid,
    read_standard_input,
    return_a_lock,
    return_unreadable,
    signals,
    wait_for_file,
    wait_until,
)
from tests.jobs.support.child_environment import build_child_environment

# --- Answers -----------------------------------------------------------------------------------------------------


async def test_a_function_runs_in_another_process_which_is_used_again(processes: ProcessPool) -> None:
    assert await processes.run(add, (2, 3)) == 5

    first = await processes.run(process_id, ())

    assert first != os.getpid()
    assert await processes.run(process_id, ()) == first


async def test_a_function_says_how_far_it_is_in_order_and_before_it_is_done(processes: ProcessPool) -> None:
    reports = list[tuple[int, int]]()

    await processes.run(count_to, (20,), on_progress=lambda done, total: reports.append((done, total)))

    assert reports == [(number, 20) for number in range(1, 21)]
    assert await processes.run(count_to, (20,)) == 20  # to nobody
    assert len(reports) == 20


async def test_without_a_child_process_it_tells_whoever_listens() -> None:
    reports = list[int]()

    with listen_for_progress(lambda done, _: reports.append(done)):
        await asyncio.to_thread(count_to, 3)
    count_to(3)

    assert reports == [1, 2, 3]


async def test_functions_of_the_standard_library_and_partial_ones_will_do(processes: ProcessPool) -> None:
    assert await processes.run(pow, (2, 10)) == 1024
    assert await processes.run(functools.partial(add, 40), (2,)) == 42


async def test_arguments_and_results_may_be_larger_than_any_pipe(processes: ProcessPool) -> None:
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


async def test_what_a_function_raises_is_raised_here(processes: ProcessPool) -> None:
    assert {how for how, _, _ in RAISED_HERE} == set(FAILURES)
    child = await processes.run(process_id, ())

    for how, kind, says in RAISED_HERE:
        with pytest.raises(Exception) as raised:  # noqa: PT011 (which one is asked below)
            await processes.run(fail, (how,))
        assert (type(raised.value), str(raised.value)) == (kind, says)
        assert "in fail\n" in raised.value.__notes__[-1]

    assert await processes.run(process_id, ()) == child


async def test_an_exception_keeps_what_it_knows(processes: ProcessPool) -> None:
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
    (return_a_lock, (), "child_functions.return_a_lock` returned cannot be sent back"),
    (return_unreadable, (), "cannot be read: ValueError: not here"),
]


async def test_what_cannot_be_brought_over_is_refused_in_words(processes: ProcessPool) -> None:
    child = await processes.run(process_id, ())

    for function, arguments, says in REFUSED:
        with pytest.raises(InvalidInput) as refused:
            await processes.run(function, arguments)
        assert says in refused.value.says

    assert await processes.run(process_id, ()) == child


# --- Turns -------------------------------------------------------------------------------------------------------


async def test_calls_beyond_the_count_wait_for_their_turn_in_order(tmp_path: Path) -> None:
    processes = ProcessPool(1)
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
    assert len(list_children()) == 1
    await processes.close()


async def test_no_more_children_run_than_allowed(processes: ProcessPool, tmp_path: Path) -> None:
    calls = [asyncio.create_task(processes.run(wait_for_file, (tmp_path / "go", n))) for n in range(6)]
    await wait_until(lambda: len(list_children()) == 2)
    await asyncio.sleep(0.1)

    assert len(list_children()) == 2
    (tmp_path / "go").touch()
    assert await asyncio.gather(*calls) == list(range(6))


async def test_there_is_at_least_one_child() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ProcessPool(0)


# --- The end -----------------------------------------------------------------------------------------------------


async def test_closing_ends_those_that_rest_and_those_that_compute(tmp_path: Path) -> None:
    processes = ProcessPool(2)
    computing = asyncio.create_task(processes.run(note_and_wait, (tmp_path / "note",)))
    await read_noted_pid(tmp_path / "note")
    await processes.run(add, (1, 1))
    assert len(list_children()) == 2

    await processes.close()

    assert list_children() == set()
    with pytest.raises(ChildDied):
        await computing
    with pytest.raises(JobConflict):
        await processes.run(add, (1, 1))


async def test_closing_twice_or_unused_does_nothing() -> None:
    before = list_children()
    processes = ProcessPool()

    await processes.close()
    await processes.close()

    assert list_children() == before


PARENT = textwrap.dedent("""
    import asyncio, os, sys
    from pathlib import Path
    from service_jobs.processes import ProcessPool
    from tests.jobs.processes import child_functions as t

    async def main():
        processes = ProcessPool(2)
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
    parent = await asyncio.create_subprocess_exec(
        *[sys.executable, str(script), doing, str(tmp_path / "note")],
        stdout=asyncio.subprocess.PIPE,
        env=build_child_environment(),
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await asyncio.wait_for(parent.stdout.readline(), SOON)).split()]
    if doing != "process_id":
        assert await read_noted_pid(tmp_path / "note") in pids
    assert all(is_running(pid) for pid in pids)

    parent.kill()
    await parent.wait()

    await wait_until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_script_that_ends_without_closing_ends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio
            from service_jobs.processes import ProcessPool

            def double(n):
                return 2 * n

            async def main():
                print(await ProcessPool(1).run(double, (21,)))

            if __name__ == "__main__":
                asyncio.run(main())
        """)
    )

    ran = await asyncio.create_subprocess_exec(
        *[sys.executable, str(script)], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, complaints = await asyncio.wait_for(ran.communicate(), SOON)

    assert (told, complaints, ran.returncode) == (b"42\n", b"", 0)


# --- What a child has to do with its parent ----------------------------------------------------------------------


async def test_a_child_reads_nothing_and_ignores_ctrl_c(processes: ProcessPool) -> None:
    assert await processes.run(read_standard_input, ()) == b""
    assert await processes.run(signals, ()) == (True, False)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


async def test_the_event_loop_ticks_while_a_child_holds_its_interpreter_lock(processes: ProcessPool) -> None:
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
