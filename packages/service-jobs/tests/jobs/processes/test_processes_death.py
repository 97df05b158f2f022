"""Child processes that die, are killed, or exceed their limits: their call fails, and no other."""

import asyncio
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from service_jobs.job import JobError, ProcessesUnavailable
from service_jobs.processes import ChildDied, LimitExceeded, ProcessLimits, ProcessPool, UnavailableProcesses
from tests.jobs.processes.child_functions import (
    add,
    backwards,
    burn,
    end_by_signal,
    end_process,
    fill,
    fill_and_swallow,
    fill_the_answer,
    hold_the_interpreter_lock_for_ages,
    is_running,
    list_children,
    list_descriptors,
    note_and_wait,
    process_id,
    read_noted_pid,
    sleep,
    start_another_and_wait,
    wait_until,
)

# --- Death -------------------------------------------------------------------------------------------------------


async def test_a_child_that_ends_itself_fails_its_call_and_no_other(processes: ProcessPool) -> None:
    with pytest.raises(ChildDied) as died:
        await processes.run(end_process, (7,))

    assert died.value.says == "the child process ended with exit code 7 before the function returned"
    assert JobError.from_exception(died.value).retryable
    assert JobError.from_exception(died.value).code == "INTERNAL_ERROR"
    assert await processes.run(add, (1, 1)) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_a_child_that_is_killed_says_by_which_signal(processes: ProcessPool, number: signal.Signals) -> None:
    with pytest.raises(ChildDied, match=f"was killed by {number.name} before") as died:
        await processes.run(end_by_signal, (int(number),))

    assert died.value.details == {"exit_code": -number}


async def test_a_child_that_is_killed_while_it_rests_is_buried_at_once_and_replaced(processes: ProcessPool) -> None:
    first = await processes.run(process_id, ())

    os.kill(first, signal.SIGKILL)
    while psutil.pid_exists(first):  # blocks the event loop, so that it learns of the death as late as possible
        time.sleep(0.001)

    assert await processes.run(process_id, ()) != first


async def test_who_stops_waiting_ends_the_child(processes: ProcessPool, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(note_and_wait, (tmp_path / "note",)))
    pid = await read_noted_pid(tmp_path / "note")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert not psutil.pid_exists(pid)
    assert await processes.run(process_id, ()) != pid


async def test_a_timeout_ends_a_child_that_holds_the_interpreter_lock(processes: ProcessPool, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(hold_the_interpreter_lock_for_ages, (tmp_path / "note",)))
    pid = await read_noted_pid(tmp_path / "note")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call, 0.05)

    assert not psutil.pid_exists(pid)


async def test_what_a_child_started_ends_with_it(processes: ProcessPool, tmp_path: Path) -> None:
    call = asyncio.create_task(processes.run(start_another_and_wait, (tmp_path / "note",)))
    other = await read_noted_pid(tmp_path / "note")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await wait_until(lambda: not is_running(other))


async def test_a_call_may_be_cancelled_while_its_child_starts(processes: ProcessPool) -> None:
    for wait in (0.0, 0.001, 0.005, 0.02, 0.05):
        call = asyncio.create_task(processes.run(add, (1, 1)))
        await asyncio.sleep(wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert list_children() == set()
    assert await processes.run(add, (1, 1)) == 2


async def test_a_large_order_may_be_cancelled_while_it_is_sent(processes: ProcessPool) -> None:
    for _ in range(3):
        call = asyncio.create_task(processes.run(backwards, (bytes(20_000_000),)))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert list_children() == set()
    assert await processes.run(add, (1, 1)) == 2


async def test_a_system_without_room_for_a_child_fails_the_call_and_no_later_one(
    processes: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_start(process: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as full:
        full.setattr("multiprocessing.context.SpawnProcess.start", refuse_to_start)
        with pytest.raises(BlockingIOError) as failure:
            await processes.run(add, (1, 1))

    assert JobError.from_exception(failure.value).retryable
    assert await processes.run(add, (1, 1)) == 2


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    await _use_up(tmp_path / "first")  # whatever is opened once and kept: the tracker of `multiprocessing`
    before = list_descriptors()

    await _use_up(tmp_path / "second")

    assert list_children() == set()
    assert list_descriptors() == before
    assert [thread.name for thread in threading.enumerate() if thread.name == "bpc-compute"] == []


async def _use_up(note: Path) -> None:
    processes = ProcessPool(2)
    await processes.run(add, (1, 1))
    with pytest.raises(ChildDied):
        await processes.run(end_process, (1,))
    call = asyncio.create_task(processes.run(note_and_wait, (note,)))
    await read_noted_pid(note)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.gather(processes.run(add, (1, 1)), processes.run(add, (1, 1)))
    await processes.close()
    await wait_until(lambda: "jobs-compute" not in {thread.name for thread in threading.enumerate()})


# --- Limits ------------------------------------------------------------------------------------------------------

SMALL = ProcessLimits(memory_bytes=100_000_000, cpu_seconds=0.3)


@pytest.fixture
async def limited() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(1, limits=SMALL)
    yield pool
    await pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
async def test_a_function_that_takes_too_much_memory_is_ended_and_no_other(limited: ProcessPool) -> None:
    assert await limited.run(fill, (20,)) == 20

    for function, size in ((fill, 200), (fill_the_answer, 60_000_000), (fill, 10**6)):
        with pytest.raises(LimitExceeded, match="needs more than the allowed 100 MB of memory") as exceeded:
            await limited.run(function, (size,))
        assert exceeded.value.limit == "memory"
        assert not JobError.from_exception(exceeded.value).retryable

    assert await limited.run(fill_and_swallow, (200,)) == "swallowed"
    assert await limited.run(fill, (20,)) == 20


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
async def test_an_order_that_does_not_fit_is_a_matter_of_memory(limited: ProcessPool) -> None:
    with pytest.raises(LimitExceeded, match="memory"):
        await limited.run(backwards, (bytes(120_000_000),))

    assert await limited.run(add, (1, 1)) == 2


async def test_native_code_that_gives_up_is_a_matter_of_memory(limited: ProcessPool) -> None:
    for number in (signal.SIGABRT, signal.SIGSEGV):
        with pytest.raises(LimitExceeded):
            await limited.run(end_by_signal, (int(number),))


async def test_a_limited_child_that_others_kill_may_be_tried_again(limited: ProcessPool) -> None:
    with pytest.raises(ChildDied) as died:
        await limited.run(end_by_signal, (int(signal.SIGKILL),))

    assert JobError.from_exception(died.value).retryable


async def test_a_function_that_computes_for_too_long_is_ended_whatever_it_does(limited: ProcessPool) -> None:
    for function, argument in ((burn, 60.0), (re.compile(r"(a|aa)+b").fullmatch, "a" * 60)):
        with pytest.raises(LimitExceeded, match=r"needs more than the allowed 0\.3 s") as exceeded:
            await limited.run(function, (argument,))
        assert exceeded.value.limit == "time"

    assert await limited.run(add, (1, 1)) == 2


async def test_time_is_that_of_the_processor_and_each_call_has_its_own(limited: ProcessPool) -> None:
    assert await limited.run(sleep, (0.5,)) == 0.5
    for _ in range(3):
        assert await limited.run(burn, (0.15,)) == 0.15
    assert await limited.run(burn, (0.5,), cpu_seconds=20) == 0.5
    with pytest.raises(LimitExceeded, match=r"0\.1 s"):
        await limited.run(burn, (60.0,), cpu_seconds=0.1)


async def test_a_limited_child_is_replaced_after_it_has_read_much(limited: ProcessPool) -> None:
    first = await limited.run(process_id, ())
    for _ in range(12):
        await limited.run(backwards, (bytes(3_000_000),))

    assert await limited.run(process_id, ()) != first


async def test_limits_leave_room_to_begin() -> None:
    with pytest.raises(ValueError, match="64,000,000"):
        ProcessLimits(memory_bytes=1_000_000, cpu_seconds=1)
    with pytest.raises(ProcessesUnavailable):
        await UnavailableProcesses().run(add, (1, 1))


async def test_a_call_that_is_cancelled_while_its_order_is_sent_leaves_no_unread_failure(
    processes: ProcessPool,
) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    for _ in range(3):
        call = asyncio.create_task(processes.run(add, (b"x" * 20_000_000, b"")))
        await asyncio.sleep(0)
        while not list_children():
            await asyncio.sleep(0.001)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    assert await processes.run(add, (1, 1)) == 2
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
