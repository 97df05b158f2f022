"""What every engine does with timeouts, with cancelled jobs, and at its end."""

import asyncio
import contextlib

import pytest
from service_jobs.context import Context
from service_jobs.job import (
    JobCancelled,
    JobConflict,
    JobError,
    Retry,
    Status,
)
from tests.jobs.conformance.engine import (
    AT_ONCE,
    CANCEL_GRACE,
    Engine,
    get_error_code,
    wait_until_over,
    wait_until_running,
)

# Timeouts and cancellation


async def test_a_job_that_takes_too_long_is_interrupted_and_tried_again(engine: Engine) -> None:
    @engine.job("slow", timeout=0.2, retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> int:
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return ctx.attempt

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await wait_until_over(engine, job_id)

    assert (job.status, job.attempts, get_error_code(job)) == (Status.SUCCEEDED, 2, "JOB_TIMEOUT")
    assert job.last_error is not None
    assert job.last_error.retryable


async def test_a_job_that_takes_too_long_every_time_is_a_dead_letter(engine: Engine) -> None:
    failures: list[str] = []

    @engine.job("slow", timeout=0.1, retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "never seen")
        await asyncio.sleep(60)

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error.code)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, get_error_code(job)) == (Status.DEAD_LETTER, 2, "JOB_TIMEOUT")
    assert failures == ["JOB_TIMEOUT"]
    assert await engine.notes() == []


async def test_a_waiting_job_is_cancelled_at_once(engine: Engine) -> None:
    ran: list[str] = []

    @engine.job("idle")
    async def handler(ctx: Context, name: str) -> None:
        ran.append(name)

    ready = await engine.submit(handler, "ready")
    delayed = await engine.submit(handler, "delayed", delay=0.05)
    for job_id in (ready, delayed):
        await engine.cancel(job_id)
        job = await engine.get_job(job_id)
        assert (job.status, job.attempts, get_error_code(job)) == (Status.CANCELLED, 0, "JOB_CANCELLED")
    await engine.start()
    await wait_until_over(engine, await engine.submit(handler, "other", delay=0.2))

    assert ran == ["other"]


async def test_a_running_job_is_asked_to_stop_and_may_tidy_up(engine: Engine) -> None:
    tidied: list[bool] = []
    failures: list[str] = []

    @engine.job("polite")
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "never seen")
        await ctx.wait_for_cancel()
        tidied.append(ctx.cancel_requested)
        raise JobCancelled("I stopped")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error.code)

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_running(engine, job_id)
    await engine.cancel(job_id)
    job = await wait_until_over(engine, job_id)

    assert (job.status, get_error_code(job), tidied, failures) == (Status.CANCELLED, "JOB_CANCELLED", [True], [])
    assert await engine.notes() == []


async def test_a_running_job_that_does_not_stop_is_interrupted_after_the_grace_period(engine: Engine) -> None:
    interrupted: list[float] = []

    @engine.job("deaf")
    async def handler(ctx: Context, value: None) -> None:
        began = asyncio.get_running_loop().time()
        try:
            await ctx.wait_for_cancel()
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(60)
        finally:
            interrupted.append(asyncio.get_running_loop().time() - began)

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_running(engine, job_id)
    await engine.cancel(job_id)
    asked = await engine.get_job(job_id)
    job = await wait_until_over(engine, job_id)

    assert (asked.status, asked.cancel_requested) == (Status.RUNNING, True)
    assert (job.status, get_error_code(job), job.cancel_requested) == (Status.CANCELLED, "JOB_CANCELLED", False)
    assert interrupted[0] >= CANCEL_GRACE - 0.1


async def test_a_running_job_that_takes_no_notice_of_anything_ends_without_its_handler(engine: Engine) -> None:
    free = asyncio.Event()

    @engine.job("stone")
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "never seen")
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    @engine.job("next")
    async def following(ctx: Context, value: None) -> None: ...

    await engine.start(concurrency=1)
    job_id = await engine.submit(handler, None)
    await wait_until_running(engine, job_id)
    await engine.cancel(job_id)
    job = await wait_until_over(engine, job_id)
    next_job = await wait_until_over(engine, await engine.submit(following, None))
    free.set()
    await asyncio.sleep(0.05)

    assert (job.status, next_job.status) == (Status.CANCELLED, Status.SUCCEEDED)
    assert (await engine.get_job(job_id)).status is Status.CANCELLED
    assert await engine.notes() == []


async def test_failure_is_told_also_where_the_handler_takes_no_notice_of_its_timeout(engine: Engine) -> None:
    free = asyncio.Event()
    failures: list[str] = []

    @engine.job("stone", timeout=0.1, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None:
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error.code)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))
    free.set()

    assert (job.status, get_error_code(job), failures) == (Status.DEAD_LETTER, "JOB_TIMEOUT", ["JOB_TIMEOUT"])


async def test_a_timeout_of_a_job_that_was_asked_to_stop_is_a_cancellation_and_no_failure(engine: Engine) -> None:
    failures: list[str] = []

    @engine.job("slow", timeout=CANCEL_GRACE * 0.8, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None:
        begun.set()
        await asyncio.sleep(60)

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error.code)

    begun = asyncio.Event()
    await engine.start()
    job_id = await engine.submit(handler, None)
    await begun.wait()
    await engine.cancel(job_id)
    job = await wait_until_over(engine, job_id)

    assert (job.status, failures) == (Status.CANCELLED, [])


async def test_an_on_success_that_hangs_is_interrupted_like_its_handler(engine: Engine) -> None:
    @engine.job("quick", timeout=0.2, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None: ...

    @handler.on_success
    async def done(ctx: Context, output: None) -> None:
        await asyncio.sleep(60)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, get_error_code(job)) == (Status.DEAD_LETTER, "JOB_TIMEOUT")


async def test_a_job_that_succeeds_although_it_was_asked_to_stop_has_succeeded(engine: Engine) -> None:
    @engine.job("nearly done")
    async def handler(ctx: Context, value: None) -> str:
        await ctx.wait_for_cancel()
        return "done"

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_running(engine, job_id)
    await engine.cancel(job_id)
    job = await wait_until_over(engine, job_id)

    assert (job.status, await engine.get_result(job_id)) == (Status.SUCCEEDED, "done")


async def test_a_job_that_is_over_cannot_be_cancelled(engine: Engine) -> None:
    @engine.job("quick")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_over(engine, job_id)

    with pytest.raises(JobConflict):
        await engine.cancel(job_id)


# The end


async def test_a_graceful_stop_lets_running_jobs_finish(engine: Engine) -> None:
    begun = asyncio.Event()

    @engine.job("working")
    async def handler(ctx: Context, value: None) -> str:
        begun.set()
        await asyncio.sleep(0.3)
        return "finished"

    await engine.start(concurrency=1)
    job_id = await engine.submit(handler, None)
    await begun.wait()
    await engine.stop()

    assert (await engine.get_job(job_id)).status is Status.SUCCEEDED
    assert await engine.get_result(job_id) == "finished"
