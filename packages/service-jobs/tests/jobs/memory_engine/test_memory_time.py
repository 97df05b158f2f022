"""Time in the in-memory engine: rests, timeouts, cancelling, forgetting, and the end of the process."""

import asyncio
import contextlib
from datetime import timedelta

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers, Rejection
from service_jobs.job import (
    JobConflict,
    JobError,
    JobNotFound,
    QueueFull,
    Retry,
    Status,
)
from service_jobs.job_control import CancelledJob, CancelRequest
from service_jobs.memory.engine import MemoryEngine
from service_jobs.memory.run import PROCESS_STOPPED, EngineStopped
from service_jobs.telemetry import Metrics
from tests.jobs.memory_engine.manual_clock import ACME, NOON, ManualClock, RecordingDatabase, wait_until_settled

# Time


async def test_a_job_that_keeps_failing_rests_2_4_8_and_16_seconds(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    started: list[float] = []

    @handlers.job("hopeless", restartable=False)
    async def hopeless(ctx: Context, value: None) -> None:
        started.append((clock.now() - NOON).total_seconds())
        raise OSError("no")

    engine.start()
    job_id = engine.submit(hopeless, None, tenant=ACME)
    await clock.move(1)
    resting = engine.get_job(ACME, job_id)
    await clock.move(60)

    assert (resting.status, resting.scheduled_at) == (Status.QUEUED, NOON + timedelta(seconds=2))
    assert started == [0, 2, 6, 14, 30]
    assert engine.get_job(ACME, job_id).status is Status.DEAD_LETTER


async def test_a_job_runs_no_longer_than_its_handler_allows(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    remaining: list[float | None] = []

    @handlers.job("slow", restartable=False, retry=Retry(attempts=1))
    async def slow(ctx: Context, value: None) -> None:
        remaining.append(ctx.remaining())
        await asyncio.Event().wait()

    engine.start()
    job_id = engine.submit(slow, None, tenant=ACME)
    await clock.move(299)
    before = engine.get_job(ACME, job_id).status
    await clock.move(1)
    job = engine.get_job(ACME, job_id)

    assert (before, job.status) == (Status.RUNNING, Status.DEAD_LETTER)
    assert job.last_error == JobError(
        code="JOB_TIMEOUT", message="the job took longer than its timeout of 300 s", retryable=True
    )
    assert remaining[0] == pytest.approx(300, abs=5)


async def test_a_handler_that_goes_wrong_while_it_is_interrupted_has_timed_out(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    @handlers.job("clumsy", restartable=False, timeout=5, retry=Retry(attempts=1))
    async def clumsy(ctx: Context, value: None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("in the middle of tidying up")

    engine.start()
    job_id = engine.submit(clumsy, None, tenant=ACME)
    await clock.move(5)

    assert (error := engine.get_job(ACME, job_id).last_error) is not None
    assert error.code == "JOB_TIMEOUT"


async def test_a_cancelled_job_has_ten_seconds_to_stop(
    engine: MemoryEngine, clock: ManualClock, wait: Handler[str, str]
) -> None:
    engine.start()
    job_id = engine.submit(wait, "", tenant=ACME)
    await wait_until_settled()

    assert engine.cancel(ACME, job_id) == CancelRequest(job_id)
    await clock.move(9)
    assert engine.cancel(ACME, job_id) == CancelRequest(job_id)  # asking twice does not prolong it
    assert engine.get_job(ACME, job_id).status is Status.RUNNING
    await clock.move(1)
    assert engine.get_job(ACME, job_id).status is Status.CANCELLED


async def test_a_job_that_rests_is_cancelled_at_once_and_for_a_reason(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    @handlers.job("hopeless", restartable=False)
    async def hopeless(ctx: Context, value: None) -> None:
        raise OSError("no")

    engine.start()
    job_id = engine.submit(hopeless, None, tenant=ACME)
    await clock.move(1)

    assert engine.cancel(ACME, job_id, "not needed any more") == CancelledJob(job_id)
    await clock.move(60)
    job = engine.get_job(ACME, job_id)
    assert (job.status, job.attempts) == (Status.CANCELLED, 1)
    assert job.last_error is not None
    assert job.last_error.message == "not needed any more"


async def test_a_timeout_of_a_job_that_was_asked_to_stop_is_not_tried_again(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    @handlers.job("slow", restartable=False, timeout=5)
    async def slow(ctx: Context, value: None) -> None:
        await asyncio.Event().wait()

    engine.start()
    job_id = engine.submit(slow, None, tenant=ACME)
    await wait_until_settled()
    engine.cancel(ACME, job_id)
    await clock.move(5)

    assert engine.get_job(ACME, job_id).status is Status.CANCELLED


# Forgetting


async def test_a_finished_job_is_forgotten_when_its_time_is_over_and_its_key_is_free(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, echo: Handler[str, str]
) -> None:
    @handlers.job("brief", restartable=False, ttl=timedelta(minutes=1))
    async def brief(ctx: Context, value: None) -> None: ...

    engine.start()
    long_kept = engine.submit(echo, "", tenant=ACME, key="k")
    soon_gone = engine.submit(brief, None, tenant=ACME, key="k")
    await clock.move(59)
    assert len(engine.list_jobs(ACME)) == 2
    await clock.move(1)

    assert (ACME, soon_gone) not in engine
    with pytest.raises(JobNotFound):
        engine.get_job(ACME, soon_gone)
    assert engine.submit(brief, None, tenant=ACME, key="k") != soon_gone
    assert engine.submit(echo, "", tenant=ACME, key="k") == long_kept
    await clock.move(14 * 86_400)
    assert engine.list_jobs(ACME) == []


async def test_only_so_many_finished_jobs_are_remembered(
    handlers: Handlers, clock: ManualClock, echo: Handler[str, str]
) -> None:
    @handlers.job("brief", restartable=False, ttl=timedelta(minutes=1))
    async def brief(ctx: Context, value: str) -> None: ...

    engine = MemoryEngine(handlers, remember=3, clock=clock)
    engine.start()
    waiting = engine.submit(echo, "", tenant=ACME, delay=86_400)
    ids = []
    for handler in (echo, brief, echo, brief, echo):
        ids.append(engine.submit(handler, "", tenant=ACME))
        await clock.move(1)

    assert {job.job_id for job in engine.list_jobs(ACME)} == {waiting, *ids[2:]}


async def test_a_job_that_is_run_again_is_not_forgotten_meanwhile(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, wait: Handler[str, str]
) -> None:
    repaired: list[bool] = []

    @handlers.job("broken", restartable=False, ttl=timedelta(minutes=1))
    async def broken(ctx: Context, value: None) -> int | Rejection:
        return 7 if repaired else Rejection(JobError(code="CONFLICT", message="no"))

    engine.start()
    job_id = engine.submit(broken, None, tenant=ACME)
    await clock.move(50)
    blocking = engine.submit(wait, "", tenant=ACME)
    repaired.append(True)
    engine.redrive(ACME, job_id)
    assert engine.get_result_value(ACME, job_id)[:2] == (Status.QUEUED, None)
    await clock.move(3600)
    engine.cancel(ACME, blocking)
    await clock.move(10)

    assert engine.get_result_value(ACME, job_id)[:2] == (Status.SUCCEEDED, 7)
    await clock.move(60)
    assert (ACME, job_id) not in engine


async def test_a_job_is_run_again_only_where_there_is_room(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, wait: Handler[str, str]
) -> None:
    @handlers.job("broken", restartable=False)
    async def broken(ctx: Context, value: None) -> int | Rejection:
        return Rejection(JobError(code="CONFLICT", message="no"))

    engine.start()
    job_id = engine.submit(broken, None, tenant=ACME)
    await wait_until_settled()
    for _ in range(4):
        engine.submit(wait, "", tenant=ACME)

    with pytest.raises(QueueFull):
        engine.redrive(ACME, job_id)
    assert engine.get_job(ACME, job_id).status is Status.FAILED


async def test_a_job_that_waits_for_a_worker_already_is_not_run_again(
    engine: MemoryEngine, wait: Handler[str, str]
) -> None:
    engine.start()
    _, waiting = [engine.submit(wait, "", tenant=ACME) for _ in range(2)]

    with pytest.raises(JobConflict, match="already waits for a worker") as conflict:
        engine.redrive(ACME, waiting)
    assert conflict.value.details == {"job_id": str(waiting), "status": "QUEUED"}
    assert engine.get_health().depth == 1


# The end


async def test_stop_lets_running_jobs_finish_and_starts_no_more(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, echo: Handler[str, str]
) -> None:
    go_on = asyncio.Event()

    @handlers.job("working", restartable=False)
    async def working(ctx: Context, value: None) -> None:
        await go_on.wait()
        ctx.submit(echo, "next")

    engine.start()
    job_id = engine.submit(working, None, tenant=ACME)
    waiting = engine.submit(echo, "", tenant=ACME)
    delayed = engine.submit(echo, "", tenant=ACME, delay=1)
    await wait_until_settled()
    stopping = asyncio.create_task(engine.stop(grace=30))
    await clock.move(10)
    with pytest.raises(EngineStopped):
        engine.submit(echo, "", tenant=ACME)
    go_on.set()
    await stopping
    await engine.stop()

    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert len(lost := engine.list_jobs(ACME, status=Status.CANCELLED)) == 3
    assert {waiting, delayed} < {job.job_id for job in lost}
    assert all(job.attempts == 0 and job.last_error and job.last_error.message == PROCESS_STOPPED for job in lost)
    with pytest.raises(EngineStopped):
        engine.start()


@pytest.mark.parametrize("listens", [True, False])
async def test_what_does_not_finish_within_the_grace_period_is_lost_and_says_so(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase, *, listens: bool
) -> None:
    free = asyncio.Event()

    @handlers.job("stone", restartable=False)
    async def stone(ctx: Context, value: None) -> None:
        await ctx.transaction()
        if listens:
            await free.wait()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    engine.start()
    job_id = engine.submit(stone, None, tenant=ACME)
    await wait_until_settled()
    stopping = asyncio.create_task(engine.stop(grace=30))
    await clock.move(29)
    assert engine.get_job(ACME, job_id).status is Status.RUNNING
    await clock.move(11)
    await stopping
    free.set()
    await wait_until_settled()

    job = engine.get_job(ACME, job_id)
    assert job.status is Status.CANCELLED
    assert job.last_error is not None
    assert (job.last_error.code, job.last_error.message) == ("JOB_CANCELLED", PROCESS_STOPPED)
    assert database.log == ["begin", "rollback"]


async def test_a_job_whose_task_is_ended_with_the_event_loop_is_lost(
    engine: MemoryEngine, wait: Handler[str, str]
) -> None:
    engine.start()
    job_id = engine.submit(wait, "", tenant=ACME)
    await wait_until_settled()
    for task in asyncio.all_tasks():
        if task.get_name() == f"wait {job_id}":
            task.cancel()

    assert (await engine.wait(ACME, job_id)).status is Status.CANCELLED


async def test_every_job_is_counted(handlers: Handlers, clock: ManualClock) -> None:
    metrics = Metrics()
    engine = MemoryEngine(handlers, metrics=metrics, clock=clock)

    @handlers.job("flaky", restartable=False)
    async def flaky(ctx: Context, value: None) -> None:
        if ctx.attempt == 1:
            raise OSError("no")

    engine.start()
    engine.submit(flaky, None, tenant=ACME)
    await clock.move(2)
    text = metrics.render_text().decode()

    for line in (
        'service_jobs_enqueued_total{type="flaky"} 1.0',
        'service_jobs_acquired_total{type="flaky"} 2.0',
        'service_job_retries_total{type="flaky"} 1.0',
        'service_jobs_running{type="flaky"} 0.0',
    ):
        assert line in text
