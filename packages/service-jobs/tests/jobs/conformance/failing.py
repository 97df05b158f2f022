"""What every engine does with failures, effects, follow-ups and hooks."""

import asyncio
import contextlib
from uuid import UUID

import pytest
from service_jobs.context import Context
from service_jobs.handler import Rejection
from service_jobs.job import (
    JobError,
    JobNotFound,
    Retry,
    Status,
)
from tests.jobs.conformance.engine import AT_ONCE, SOON, Engine, HandlerFailed, get_error_code, wait_until_over

# Failure


async def test_what_fails_is_tried_again_after_a_growing_rest(engine: Engine) -> None:
    started: list[float] = []

    @engine.job("flaky", retry=Retry(first_delay=0.1, factor=2.0))
    async def handler(ctx: Context, value: None) -> int:
        started.append(asyncio.get_running_loop().time())
        if ctx.attempt < 3:
            raise OSError("not yet")
        return ctx.attempt

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await wait_until_over(engine, job_id)

    assert (job.status, job.attempts) == (Status.SUCCEEDED, 3)
    assert await engine.get_result(job_id) == 3
    assert started[1] - started[0] >= 0.09
    assert started[2] - started[1] >= 0.19
    assert get_error_code(job) == "INTERNAL_ERROR"  # the last one is kept, to be looked at


async def test_after_its_last_attempt_a_job_is_a_dead_letter_and_that_is_told_once(engine: Engine) -> None:
    failures: list[JobError] = []

    @engine.job("hopeless", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        raise OSError(f"attempt {ctx.attempt}")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts) == (Status.DEAD_LETTER, 5)
    assert [error.message for error in failures] == ["OSError: attempt 5"]
    assert job.last_error == failures[0]


async def test_the_handler_says_how_often_it_is_tried(engine: Engine) -> None:
    @engine.job("twice", retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> None:
        raise OSError("no")

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, job.max_attempts) == (Status.DEAD_LETTER, 2, 2)


async def test_what_trying_again_does_not_help_fails_at_once(engine: Engine) -> None:
    failures: list[str] = []

    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        raise HandlerFailed("rule 7 does not hold", details={"rule": 7})

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        failures.append(error.code)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts) == (Status.FAILED, 1)
    assert job.last_error == JobError(code="RULE_ASSERTION_FAILED", message="rule 7 does not hold", details={"rule": 7})
    assert failures == ["RULE_ASSERTION_FAILED"]


async def test_output_of_the_wrong_type_fails_at_once(engine: Engine) -> None:
    @engine.job("liar")
    async def handler(ctx: Context, value: None) -> int:
        return "many"  # type: ignore[return-value]

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, get_error_code(job)) == (Status.FAILED, "VALIDATION_ERROR")


async def test_an_error_in_on_failure_changes_nothing(engine: Engine) -> None:
    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        raise HandlerFailed("no")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "half done")
        raise OSError("nor this")

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, get_error_code(job)) == (Status.FAILED, "RULE_ASSERTION_FAILED")
    assert await engine.notes() == []


async def test_a_task_that_the_handler_cancels_itself_is_its_own_failure(engine: Engine) -> None:
    @engine.job("stubborn", timeout=0.1, retry=Retry(attempts=1))
    async def stubborn(ctx: Context, value: None) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "done after all"

    @engine.job("confused", timeout=2.0, retry=Retry(attempts=1))
    async def confused(ctx: Context, value: None) -> None:
        child = asyncio.create_task(asyncio.sleep(60))
        child.cancel()
        await child

    await engine.start(concurrency=1)
    for _ in range(2):
        await wait_until_over(
            engine, await engine.submit(stubborn, None)
        )  # which leaves nothing behind for whoever comes next
        job = await wait_until_over(engine, await engine.submit(confused, None))

        assert (job.status, get_error_code(job)) == (Status.DEAD_LETTER, "INTERNAL_ERROR")


# Effects, follow-ups and hooks


async def test_effects_are_committed_with_success(engine: Engine) -> None:
    @engine.job("write")
    async def handler(ctx: Context, text: str) -> None:
        await engine.note(ctx, text)

    await engine.start()
    await wait_until_over(engine, await engine.submit(handler, "written"))

    assert await engine.notes() == ["written"]


async def test_effects_of_a_failed_attempt_are_undone(engine: Engine) -> None:
    @engine.job("write", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, f"attempt {ctx.attempt}")
        if ctx.attempt < 3:
            raise OSError("no")

    await engine.start()
    await wait_until_over(engine, await engine.submit(handler, None))

    assert await engine.notes() == ["attempt 3"]


async def test_a_refusal_fails_the_job_and_keeps_its_effects(engine: Engine) -> None:
    @engine.job("follow")
    async def follow(ctx: Context, value: None) -> None: ...

    follow_ups: list[UUID] = []

    @engine.job("judge")
    async def handler(ctx: Context, value: None) -> int | Rejection:
        await engine.note(ctx, "rejected")
        follow_ups.append(ctx.submit(follow, None))
        return Rejection.from_exception(HandlerFailed("not acceptable"))

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "told")

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, get_error_code(job)) == (Status.FAILED, 1, "RULE_ASSERTION_FAILED")
    assert await engine.notes() == ["rejected", "told"]
    assert (await wait_until_over(engine, follow_ups[0])).status is Status.SUCCEEDED


async def test_on_failure_may_write_and_submit_a_job(engine: Engine) -> None:
    follow_ups: list[UUID] = []

    @engine.job("follow")
    async def follow(ctx: Context, value: None) -> None: ...

    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "undone")
        follow_ups.append(ctx.submit(follow, None))
        raise HandlerFailed("no")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "told")
        follow_ups.append(ctx.submit(follow, None))

    await engine.start()
    await wait_until_over(engine, await engine.submit(handler, None))

    assert await engine.notes() == ["told"]
    assert (await wait_until_over(engine, follow_ups[1])).status is Status.SUCCEEDED
    with pytest.raises(JobNotFound):
        await engine.get_job(follow_ups[0])


async def test_follow_ups_are_submitted_only_by_the_attempt_that_succeeds(engine: Engine) -> None:
    ran: list[str] = []

    @engine.job("follow")
    async def follow(ctx: Context, name: str) -> None:
        ran.append(name)

    follow_ups: list[UUID] = []

    @engine.job("lead", retry=SOON)
    async def lead(ctx: Context, value: None) -> None:
        follow_ups.append(ctx.submit(follow, f"after attempt {ctx.attempt}"))
        if ctx.attempt == 1:
            raise OSError("no")

    await engine.start()
    await wait_until_over(engine, await engine.submit(lead, None, correlation_id="c-3"))
    job = await wait_until_over(engine, follow_ups[1])

    assert ran == ["after attempt 2"]
    assert (job.status, job.correlation_id) == (Status.SUCCEEDED, "c-3")
    with pytest.raises(JobNotFound):
        await engine.get_job(follow_ups[0])


async def test_a_follow_up_that_does_not_fit_fails_the_job(engine: Engine) -> None:
    @engine.job("follow")
    async def follow(ctx: Context, number: int) -> None: ...

    @engine.job("lead")
    async def lead(ctx: Context, value: None) -> None:
        ctx.submit(follow, "many")  # type: ignore[misc]

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(lead, None))

    assert (job.status, get_error_code(job)) == (Status.FAILED, "VALIDATION_ERROR")


async def test_on_success_is_part_of_success(engine: Engine) -> None:
    @engine.job("write")
    async def handler(ctx: Context, text: str) -> str:
        await engine.note(ctx, text)
        return text.upper()

    @handler.on_success
    async def done(ctx: Context, output: str) -> None:
        await engine.note(ctx, output)

    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, "a"))

    assert job.status is Status.SUCCEEDED
    assert await engine.notes() == ["A", "a"]


async def test_an_error_in_on_success_fails_the_attempt(engine: Engine) -> None:
    follow_ups: list[UUID] = []

    @engine.job("follow")
    async def follow(ctx: Context, value: None) -> None: ...

    @engine.job("write", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> int:
        await engine.note(ctx, f"attempt {ctx.attempt}")
        follow_ups.append(ctx.submit(follow, None))
        return ctx.attempt

    @handler.on_success
    async def done(ctx: Context, attempt: int) -> None:
        if attempt == 1:
            raise OSError("nobody was there to be told")

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await wait_until_over(engine, job_id)

    assert (job.status, job.attempts, await engine.get_result(job_id)) == (Status.SUCCEEDED, 2, 2)
    assert await engine.notes() == ["attempt 2"]
    assert (await wait_until_over(engine, follow_ups[1])).status is Status.SUCCEEDED
    with pytest.raises(JobNotFound):
        await engine.get_job(follow_ups[0])
