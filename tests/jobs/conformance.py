"""What every engine does with a job. Each test is run over each of them, unchanged.

A test is a function that takes an `Engine`: it registers handlers with it, submits, starts it, and looks at what became
of the jobs. It knows nothing else of the engine. Delays are real and short.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

import pytest

from bpc.jobs.context import Context
from bpc.jobs.errors import (
    HandlerNotFound,
    InvalidInput,
    JobCancelled,
    JobConflict,
    JobError,
    JobNotFound,
    JobsRefusal,
)
from bpc.jobs.handler import Handler, Handlers, Refused
from bpc.jobs.job import Job
from bpc.jobs.outcome import Retry, Status

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
Run = Callable[[Context, I], Awaitable[O | Refused]]

AT_ONCE = Retry(first_delay=0.0)
SOON = Retry(first_delay=0.05, factor=2.0)
CANCEL_GRACE = 1.0  # what engines under test are made with
STOP_GRACE = 5.0


class Engine(Protocol):
    """What a test may do. Not given, the tenant is `tenant`."""

    tenant: UUID
    other_tenant: UUID

    def job(
        self, job_type: str, *, retry: Retry = ..., timeout: float | None = ..., ttl: timedelta | None = ...
    ) -> Callable[[Run[I, O]], Handler[I, O]]:
        """Register a handler for this engine."""
        ...

    def steps(self, job_type: str, *steps: Callable[[Context, Any], Awaitable[Any]], retry: Retry) -> Handler[Any, Any]:
        """Register a handler of several steps."""
        ...

    async def start(self, concurrency: int = 4) -> None:
        """Run what was submitted, and what will be."""
        ...

    async def stop(self) -> None:
        """Let running jobs finish."""
        ...

    async def submit(
        self,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID | None = None,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        correlation_id: str | None = None,
        actor: str | None = None,
    ) -> UUID: ...

    async def look(self, job_id: UUID, tenant: UUID | None = None) -> Job: ...

    async def listed(self, tenant: UUID | None = None, **filters: Any) -> list[Job]: ...

    async def result(self, job_id: UUID, tenant: UUID | None = None) -> Any:
        """What the job made."""
        ...

    async def cancel(self, job_id: UUID, tenant: UUID | None = None) -> None: ...

    async def redrive(self, job_id: UUID, tenant: UUID | None = None) -> None: ...

    async def note(self, ctx: Context, text: str) -> None:
        """Write an effect in the job's own transaction."""
        ...

    async def notes(self) -> list[str]:
        """The effects that were committed, sorted."""
        ...


async def over(engine: Engine, job_id: UUID, tenant: UUID | None = None) -> Job:
    """The job as soon as it is over."""
    return await until(engine, job_id, lambda job: job.is_over, tenant)


async def until(engine: Engine, job_id: UUID, holds: Callable[[Job], bool], tenant: UUID | None = None) -> Job:
    async with asyncio.timeout(60):
        while not holds(job := await engine.look(job_id, tenant)):
            await asyncio.sleep(0.01)
        return job


async def running(engine: Engine, job_id: UUID) -> Job:
    return await until(engine, job_id, lambda job: job.status is Status.RUNNING)


def code(job: Job) -> str | None:
    return None if job.last_error is None else job.last_error.code


class Unwell(JobsRefusal):
    """Wrong, and wrong again next time."""

    code = "RULE_ASSERTION_FAILED"


# Success, and what is refused before it starts


async def test_a_job_runs_and_its_result_is_kept(engine: Engine) -> None:
    @engine.job("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    await engine.start()
    job_id = await engine.submit(double, 21, correlation_id="c-1", actor="ada")
    job = await over(engine, job_id)

    assert job.status is Status.SUCCEEDED
    assert await engine.result(job_id) == 42
    assert (job.attempts, job.max_attempts, job.priority, job.type) == (1, 5, 2, "double")
    assert (job.correlation_id, job.actor, job.lease_owner, job.last_error) == ("c-1", "ada", None, None)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.created_at <= job.started_at <= job.finished_at


async def test_the_handler_is_told_whose_job_it_runs(engine: Engine) -> None:
    told: list[Any] = []

    @engine.job("told")
    async def handler(ctx: Context, value: None) -> None:
        told.extend([ctx.tenant, ctx.job_id, ctx.type, ctx.attempt, ctx.max_attempts, ctx.correlation_id, ctx.actor])

    await engine.start()
    job_id = await engine.submit(handler, None, tenant=engine.other_tenant, correlation_id="c-2", actor="bob")
    await over(engine, job_id, engine.other_tenant)

    assert told == [engine.other_tenant, job_id, "told", 1, 5, "c-2", "bob"]


async def test_input_that_does_not_fit_is_refused_when_it_is_submitted(engine: Engine) -> None:
    @engine.job("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    with pytest.raises(InvalidInput, match="cannot be made of this input"):
        await engine.submit(double, "many")  # type: ignore[misc]
    with pytest.raises(InvalidInput, match="priority"):
        await engine.submit(double, 1, priority=4)
    with pytest.raises(InvalidInput, match="delay"):
        await engine.submit(double, 1, delay=-1)
    with pytest.raises(InvalidInput, match="key"):
        await engine.submit(double, 1, key="")
    assert await engine.listed() == []


async def test_a_handler_that_is_not_registered_is_refused_when_it_is_submitted(engine: Engine) -> None:
    @Handlers().job("stranger")
    async def stranger(ctx: Context, value: None) -> None: ...

    with pytest.raises(HandlerNotFound):
        await engine.submit(stranger, None)


# Keys, priorities, delays


async def test_a_key_makes_one_job_of_two_submissions(engine: Engine) -> None:
    runs: list[int] = []

    @engine.job("count")
    async def handler(ctx: Context, number: int) -> None:
        runs.append(number)

    await engine.start()
    first = await engine.submit(handler, 1, key="k")
    again = await engine.submit(handler, 2, key="k")
    await over(engine, first)
    after_the_end = await engine.submit(handler, 3, key="k")

    assert (again, after_the_end, runs) == (first, first, [1])
    assert (await engine.look(first)).idempotency_key == "k"


async def test_a_key_is_of_one_tenant_and_type(engine: Engine) -> None:
    @engine.job("one")
    async def one(ctx: Context, value: None) -> None: ...

    @engine.job("two")
    async def two(ctx: Context, value: None) -> None: ...

    ids = {
        await engine.submit(one, None, key="k"),
        await engine.submit(two, None, key="k"),
        await engine.submit(one, None, key="k", tenant=engine.other_tenant),
        await engine.submit(one, None),
    }

    assert len(ids) == 4


async def test_priority_counts_and_then_who_came_first(engine: Engine) -> None:
    order: list[str] = []

    @engine.job("line up")
    async def handler(ctx: Context, name: str) -> None:
        order.append(name)

    ids = [
        await engine.submit(handler, f"{priority}{nth}", priority=priority) for nth in "ab" for priority in (3, 1, 0, 2)
    ]
    await engine.start(concurrency=1)
    for job_id in ids:
        await over(engine, job_id)

    assert order == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]


async def test_a_delayed_job_waits_for_its_time(engine: Engine) -> None:
    @engine.job("later")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None, delay=0.4)
    waiting = await engine.look(job_id)
    job = await over(engine, job_id)

    assert waiting.status is Status.QUEUED
    assert (waiting.scheduled_at - waiting.created_at).total_seconds() == pytest.approx(0.4, abs=0.05)
    assert job.status is Status.SUCCEEDED
    assert job.started_at is not None
    assert job.started_at >= waiting.scheduled_at


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
    job = await over(engine, job_id)

    assert (job.status, job.attempts) == (Status.SUCCEEDED, 3)
    assert await engine.result(job_id) == 3
    assert started[1] - started[0] >= 0.09
    assert started[2] - started[1] >= 0.19
    assert code(job) == "INTERNAL_ERROR"  # the last one is kept, to be looked at


async def test_after_its_last_attempt_a_job_is_a_dead_letter_and_that_is_told_once(engine: Engine) -> None:
    told: list[JobError] = []

    @engine.job("hopeless", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        raise OSError(f"attempt {ctx.attempt}")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error)

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts) == (Status.DEAD_LETTER, 5)
    assert [error.message for error in told] == ["OSError: attempt 5"]
    assert job.last_error == told[0]


async def test_the_handler_says_how_often_it_is_tried(engine: Engine) -> None:
    @engine.job("twice", retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> None:
        raise OSError("no")

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, job.max_attempts) == (Status.DEAD_LETTER, 2, 2)


async def test_what_trying_again_does_not_help_fails_at_once(engine: Engine) -> None:
    told: list[str] = []

    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        raise Unwell("rule 7 does not hold", details={"rule": 7})

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.code)

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts) == (Status.FAILED, 1)
    assert job.last_error == JobError(code="RULE_ASSERTION_FAILED", message="rule 7 does not hold", details={"rule": 7})
    assert told == ["RULE_ASSERTION_FAILED"]


async def test_output_of_the_wrong_type_fails_at_once(engine: Engine) -> None:
    @engine.job("liar")
    async def handler(ctx: Context, value: None) -> int:
        return "many"  # type: ignore[return-value]

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, code(job)) == (Status.FAILED, "VALIDATION_ERROR")


async def test_an_error_in_on_failure_changes_nothing(engine: Engine) -> None:
    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        raise Unwell("no")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "half done")
        raise OSError("nor this")

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, code(job)) == (Status.FAILED, "RULE_ASSERTION_FAILED")
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
        await over(engine, await engine.submit(stubborn, None))  # which leaves nothing behind for whoever comes next
        job = await over(engine, await engine.submit(confused, None))

        assert (job.status, code(job)) == (Status.DEAD_LETTER, "INTERNAL_ERROR")


# Effects, follow-ups and hooks


async def test_effects_are_committed_with_success(engine: Engine) -> None:
    @engine.job("write")
    async def handler(ctx: Context, text: str) -> None:
        await engine.note(ctx, text)

    await engine.start()
    await over(engine, await engine.submit(handler, "written"))

    assert await engine.notes() == ["written"]


async def test_effects_of_a_failed_attempt_are_undone(engine: Engine) -> None:
    @engine.job("write", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, f"attempt {ctx.attempt}")
        if ctx.attempt < 3:
            raise OSError("no")

    await engine.start()
    await over(engine, await engine.submit(handler, None))

    assert await engine.notes() == ["attempt 3"]


async def test_a_refusal_fails_the_job_and_keeps_its_effects(engine: Engine) -> None:
    @engine.job("follow")
    async def follow(ctx: Context, value: None) -> None: ...

    follow_ups: list[UUID] = []

    @engine.job("judge")
    async def handler(ctx: Context, value: None) -> int | Refused:
        await engine.note(ctx, "rejected")
        follow_ups.append(ctx.submit(follow, None))
        return Refused.because(Unwell("not acceptable"))

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "told")

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, code(job)) == (Status.FAILED, 1, "RULE_ASSERTION_FAILED")
    assert await engine.notes() == ["rejected", "told"]
    assert (await over(engine, follow_ups[0])).status is Status.SUCCEEDED


async def test_on_failure_may_write_and_submit_a_job(engine: Engine) -> None:
    follow_ups: list[UUID] = []

    @engine.job("follow")
    async def follow(ctx: Context, value: None) -> None: ...

    @engine.job("unwell")
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "undone")
        follow_ups.append(ctx.submit(follow, None))
        raise Unwell("no")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await engine.note(ctx, "told")
        follow_ups.append(ctx.submit(follow, None))

    await engine.start()
    await over(engine, await engine.submit(handler, None))

    assert await engine.notes() == ["told"]
    assert (await over(engine, follow_ups[1])).status is Status.SUCCEEDED
    with pytest.raises(JobNotFound):
        await engine.look(follow_ups[0])


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
    await over(engine, await engine.submit(lead, None, correlation_id="c-3"))
    job = await over(engine, follow_ups[1])

    assert ran == ["after attempt 2"]
    assert (job.status, job.correlation_id) == (Status.SUCCEEDED, "c-3")
    with pytest.raises(JobNotFound):
        await engine.look(follow_ups[0])


async def test_a_follow_up_that_does_not_fit_fails_the_job(engine: Engine) -> None:
    @engine.job("follow")
    async def follow(ctx: Context, number: int) -> None: ...

    @engine.job("lead")
    async def lead(ctx: Context, value: None) -> None:
        ctx.submit(follow, "many")  # type: ignore[misc]

    await engine.start()
    job = await over(engine, await engine.submit(lead, None))

    assert (job.status, code(job)) == (Status.FAILED, "VALIDATION_ERROR")


async def test_on_success_is_part_of_success(engine: Engine) -> None:
    @engine.job("write")
    async def handler(ctx: Context, text: str) -> str:
        await engine.note(ctx, text)
        return text.upper()

    @handler.on_success
    async def done(ctx: Context, made: str) -> None:
        await engine.note(ctx, made)

    await engine.start()
    job = await over(engine, await engine.submit(handler, "a"))

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
    job = await over(engine, job_id)

    assert (job.status, job.attempts, await engine.result(job_id)) == (Status.SUCCEEDED, 2, 2)
    assert await engine.notes() == ["attempt 2"]
    assert (await over(engine, follow_ups[1])).status is Status.SUCCEEDED
    with pytest.raises(JobNotFound):
        await engine.look(follow_ups[0])


# Timeouts and cancellation


async def test_a_job_that_takes_too_long_is_interrupted_and_tried_again(engine: Engine) -> None:
    @engine.job("slow", timeout=0.2, retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> int:
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return ctx.attempt

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await over(engine, job_id)

    assert (job.status, job.attempts, code(job)) == (Status.SUCCEEDED, 2, "JOB_TIMEOUT")
    assert job.last_error is not None
    assert job.last_error.retryable


async def test_a_job_that_takes_too_long_every_time_is_a_dead_letter(engine: Engine) -> None:
    told: list[str] = []

    @engine.job("slow", timeout=0.1, retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "never seen")
        await asyncio.sleep(60)

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.code)

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, job.attempts, code(job)) == (Status.DEAD_LETTER, 2, "JOB_TIMEOUT")
    assert told == ["JOB_TIMEOUT"]
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
        job = await engine.look(job_id)
        assert (job.status, job.attempts, code(job)) == (Status.CANCELLED, 0, "JOB_CANCELLED")
    await engine.start()
    await over(engine, await engine.submit(handler, "other", delay=0.2))

    assert ran == ["other"]


async def test_a_running_job_is_asked_to_stop_and_may_tidy_up(engine: Engine) -> None:
    tidied: list[bool] = []
    told: list[str] = []

    @engine.job("polite")
    async def handler(ctx: Context, value: None) -> None:
        await engine.note(ctx, "never seen")
        await ctx.wait_for_cancel()
        tidied.append(ctx.cancel_requested)
        raise JobCancelled("I stopped")

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.code)

    await engine.start()
    job_id = await engine.submit(handler, None)
    await running(engine, job_id)
    await engine.cancel(job_id)
    job = await over(engine, job_id)

    assert (job.status, code(job), tidied, told) == (Status.CANCELLED, "JOB_CANCELLED", [True], [])
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
    await running(engine, job_id)
    await engine.cancel(job_id)
    asked = await engine.look(job_id)
    job = await over(engine, job_id)

    assert (asked.status, asked.cancel_requested) == (Status.RUNNING, True)
    assert (job.status, code(job), job.cancel_requested) == (Status.CANCELLED, "JOB_CANCELLED", False)
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
    await running(engine, job_id)
    await engine.cancel(job_id)
    job = await over(engine, job_id)
    next_job = await over(engine, await engine.submit(following, None))
    free.set()
    await asyncio.sleep(0.05)

    assert (job.status, next_job.status) == (Status.CANCELLED, Status.SUCCEEDED)
    assert (await engine.look(job_id)).status is Status.CANCELLED
    assert await engine.notes() == []


async def test_failure_is_told_also_where_the_handler_takes_no_notice_of_its_timeout(engine: Engine) -> None:
    free = asyncio.Event()
    told: list[str] = []

    @engine.job("stone", timeout=0.1, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None:
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.code)

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))
    free.set()

    assert (job.status, code(job), told) == (Status.DEAD_LETTER, "JOB_TIMEOUT", ["JOB_TIMEOUT"])


async def test_a_timeout_of_a_job_that_was_asked_to_stop_is_a_cancellation_and_no_failure(engine: Engine) -> None:
    told: list[str] = []

    @engine.job("slow", timeout=CANCEL_GRACE * 0.8, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None:
        begun.set()
        await asyncio.sleep(60)

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.code)

    begun = asyncio.Event()
    await engine.start()
    job_id = await engine.submit(handler, None)
    await begun.wait()
    await engine.cancel(job_id)
    job = await over(engine, job_id)

    assert (job.status, told) == (Status.CANCELLED, [])


async def test_an_on_success_that_hangs_is_interrupted_like_its_handler(engine: Engine) -> None:
    @engine.job("quick", timeout=0.2, retry=Retry(attempts=1))
    async def handler(ctx: Context, value: None) -> None: ...

    @handler.on_success
    async def done(ctx: Context, made: None) -> None:
        await asyncio.sleep(60)

    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, code(job)) == (Status.DEAD_LETTER, "JOB_TIMEOUT")


async def test_a_job_that_succeeds_although_it_was_asked_to_stop_has_succeeded(engine: Engine) -> None:
    @engine.job("nearly done")
    async def handler(ctx: Context, value: None) -> str:
        await ctx.wait_for_cancel()
        return "done"

    await engine.start()
    job_id = await engine.submit(handler, None)
    await running(engine, job_id)
    await engine.cancel(job_id)
    job = await over(engine, job_id)

    assert (job.status, await engine.result(job_id)) == (Status.SUCCEEDED, "done")


async def test_a_job_that_is_over_cannot_be_cancelled(engine: Engine) -> None:
    @engine.job("quick")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None)
    await over(engine, job_id)

    with pytest.raises(JobConflict):
        await engine.cancel(job_id)


# What an execution leaves behind


async def test_progress_is_visible_while_the_job_runs(engine: Engine) -> None:
    go_on = asyncio.Event()

    @engine.job("long")
    async def handler(ctx: Context, value: None) -> None:
        await ctx.report_progress(40, "almost half")
        await go_on.wait()

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await until(engine, job_id, lambda job: job.progress is not None)

    assert job.status is Status.RUNNING
    assert job.lease_owner is not None
    assert job.progress is not None
    assert (job.progress["percent"], job.progress["message"]) == (40, "almost half")
    said = datetime.fromisoformat(job.progress["updated_at"])
    assert said.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - said) < timedelta(minutes=1)  # noqa: TID251 (the time of the machine is meant)
    go_on.set()
    assert (await over(engine, job_id)).progress == job.progress


async def test_a_checkpoint_is_given_to_the_next_attempt(engine: Engine) -> None:
    found: list[Any] = []

    @engine.job("resume", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        found.append(ctx.checkpoint)
        if ctx.attempt < 3:
            await ctx.save_checkpoint({"done": ctx.attempt})
            ctx.checkpoint["done"] = "changed, and not saved"
            raise OSError("no")

    await engine.start()
    await over(engine, await engine.submit(handler, None))

    assert found == [None, {"done": 1}, {"done": 2}]


async def test_a_job_of_steps_goes_on_behind_the_last_one_that_was_finished(engine: Engine) -> None:
    ran: list[str] = []

    async def one(ctx: Context, number: int) -> int:
        ran.append("one")
        return number + 1

    async def two(ctx: Context, number: int) -> str:
        ran.append("two")
        if ctx.attempt == 1:
            raise OSError("no")
        return f"<{number}>"

    async def three(ctx: Context, text: str) -> list[str]:
        ran.append("three")
        return [text]

    handler = engine.steps("steps", one, two, three, retry=AT_ONCE)
    await engine.start()
    job_id = await engine.submit(handler, 1)
    job = await over(engine, job_id)

    assert (job.status, await engine.result(job_id)) == (Status.SUCCEEDED, ["<2>"])
    assert ran == ["one", "two", "two", "three"]


async def test_what_a_finished_step_did_is_kept_once_whatever_follows(engine: Engine) -> None:
    followed: list[str] = []

    @engine.job("follow")
    async def follow(ctx: Context, name: str) -> None:
        followed.append(name)

    async def one(ctx: Context, number: int) -> int:
        await engine.note(ctx, f"one in attempt {ctx.attempt}")
        ctx.submit(follow, f"one in attempt {ctx.attempt}")
        return number + 1

    async def two(ctx: Context, number: int) -> int:
        ctx.submit(follow, f"two in attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise OSError("no")
        return number + 1

    async def three(ctx: Context, number: int) -> int:
        await engine.note(ctx, f"three in attempt {ctx.attempt}")
        if ctx.attempt == 2:
            raise OSError("no")
        raise Unwell("no")

    handler = engine.steps("steps", one, two, three, retry=AT_ONCE)
    await engine.start()
    job = await over(engine, await engine.submit(handler, 1))
    for following in await engine.listed(job_type="follow"):
        await over(engine, following.job_id)

    assert (job.status, job.attempts) == (Status.FAILED, 3)
    assert await engine.notes() == ["one in attempt 1"]
    assert sorted(followed) == ["one in attempt 1", "two in attempt 2"]


async def test_a_step_that_fails_leaves_nothing_behind(engine: Engine) -> None:
    async def one(ctx: Context, value: None) -> None:
        await engine.note(ctx, f"one in attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise OSError("no")

    async def two(ctx: Context, value: None) -> None:
        await engine.note(ctx, "two")

    handler = engine.steps("steps", one, two, retry=AT_ONCE)
    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert job.status is Status.SUCCEEDED
    assert await engine.notes() == ["one in attempt 2", "two"]


async def test_a_step_goes_on_with_exactly_what_the_last_one_gave(engine: Engine) -> None:
    given: list[dict[str, int]] = []
    long = {'"gave":': 2**80}

    async def one(ctx: Context, value: None) -> dict[str, int]:
        return long

    async def two(ctx: Context, value: dict[str, int]) -> int:
        given.append(value)
        if ctx.attempt == 1:
            raise OSError("no")
        return len(value)

    handler = engine.steps("steps", one, two, retry=AT_ONCE)
    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert job.status is Status.SUCCEEDED
    assert given == [long, long]


async def test_a_step_that_gives_what_it_does_not_declare_fails_at_once(engine: Engine) -> None:
    async def one(ctx: Context, value: None) -> int:
        await engine.note(ctx, "never seen")
        return "many"  # type: ignore[return-value]

    async def two(ctx: Context, number: int) -> None: ...

    handler = engine.steps("steps", one, two, retry=AT_ONCE)
    await engine.start()
    job = await over(engine, await engine.submit(handler, None))

    assert (job.status, code(job)) == (Status.FAILED, "VALIDATION_ERROR")
    assert await engine.notes() == []


# Looking, and running again


async def test_another_tenants_job_does_not_exist(engine: Engine) -> None:
    @engine.job("secret")
    async def handler(ctx: Context, value: None) -> str:
        return "secret"

    await engine.start()
    job_id = await engine.submit(handler, None)
    await over(engine, job_id)

    for ask in (engine.look, engine.result, engine.cancel, engine.redrive):
        with pytest.raises(JobNotFound):
            await ask(job_id, engine.other_tenant)
    assert await engine.listed(engine.other_tenant) == []
    assert [job.job_id for job in await engine.listed()] == [job_id]


async def test_jobs_are_listed_newest_first_and_filtered(engine: Engine) -> None:
    @engine.job("good")
    async def good(ctx: Context, value: None) -> None: ...

    @engine.job("bad")
    async def bad(ctx: Context, value: None) -> None:
        raise Unwell("no")

    await engine.start()
    ids = []
    for handler in (good, bad, good):
        ids.append(await engine.submit(handler, None))
        await over(engine, ids[-1])
        await asyncio.sleep(0.003)  # ids are ordered by the millisecond
    waiting = await engine.submit(good, None, delay=60)

    async def found(**filters: Any) -> list[UUID]:
        return [job.job_id for job in await engine.listed(**filters)]

    assert await found() == [waiting, ids[2], ids[1], ids[0]]
    assert await found(job_type="bad") == [ids[1]]
    assert await found(status=Status.SUCCEEDED) == [ids[2], ids[0]]
    assert await found(status=Status.FAILED) == [ids[1]]
    assert await found(status=Status.QUEUED) == [waiting]
    assert await found(limit=2) == [waiting, ids[2]]
    assert await found(limit=2, before_id=ids[2]) == [ids[1], ids[0]]
    third = (await engine.look(ids[2])).created_at
    assert await found(created_before=third) == [ids[1], ids[0]]
    assert await found(created_after=third) == [waiting, ids[2]]
    assert await found(created_after=third + timedelta(hours=1)) == []
    with pytest.raises(InvalidInput):
        await found(limit=0)


@pytest.mark.parametrize("status", [Status.FAILED, Status.DEAD_LETTER])
async def test_a_job_that_ended_badly_is_run_again_from_its_checkpoint(engine: Engine, status: Status) -> None:
    repaired: list[bool] = []
    found: list[tuple[int, Any]] = []

    @engine.job("broken", retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> str:
        found.append((ctx.attempt, ctx.checkpoint))
        await ctx.save_checkpoint(len(found))
        if not repaired:
            raise Unwell("no") if status is Status.FAILED else OSError("no")
        return "repaired"

    await engine.start()
    job_id = await engine.submit(handler, None)
    ended = await over(engine, job_id)
    before = len(found)
    repaired.append(True)
    await engine.redrive(job_id)
    job = await over(engine, job_id)

    assert ended.status is status
    assert (job.status, job.attempts, await engine.result(job_id)) == (Status.SUCCEEDED, 1, "repaired")
    assert found[before:] == [(1, before)]


async def test_a_delayed_job_can_be_run_now(engine: Engine) -> None:
    @engine.job("later")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None, delay=3600)
    await engine.redrive(job_id)

    assert (await over(engine, job_id)).status is Status.SUCCEEDED


async def test_a_job_that_waits_for_a_worker_is_not_run_again(engine: Engine) -> None:
    @engine.job("idle")
    async def handler(ctx: Context, value: None) -> None: ...

    job_id = await engine.submit(handler, None)

    with pytest.raises(JobConflict, match="already waits for a worker") as conflict:
        await engine.redrive(job_id)
    assert conflict.value.details == {"job_id": str(job_id), "status": "QUEUED"}


async def test_a_job_that_somebody_cancelled_is_run_again_with_what_it_was_given(engine: Engine) -> None:
    @engine.job("greet")
    async def handler(ctx: Context, value: str) -> str:
        return f"hello {value}"

    job_id = await engine.submit(handler, "world")
    await engine.cancel(job_id)
    await engine.redrive(job_id)
    waiting = await engine.look(job_id)
    await engine.start()
    job = await over(engine, job_id)

    assert (waiting.status, waiting.last_error, waiting.finished_at) == (Status.QUEUED, None, None)
    assert (job.status, job.attempts, await engine.result(job_id)) == (Status.SUCCEEDED, 1, "hello world")


async def test_a_job_that_was_cancelled_while_it_ran_is_run_again_from_its_checkpoint(engine: Engine) -> None:
    started, found = asyncio.Event(), []

    @engine.job("patient")
    async def handler(ctx: Context, value: None) -> None:
        found.append((ctx.attempt, ctx.checkpoint))
        if ctx.checkpoint is None:
            await ctx.save_checkpoint("half")
            started.set()
            await ctx.wait_for_cancel()
            raise JobCancelled("I stopped")

    await engine.start()
    job_id = await engine.submit(handler, None)
    await started.wait()
    await engine.cancel(job_id)
    ended = await over(engine, job_id)
    await engine.redrive(job_id)
    job = await over(engine, job_id)

    assert (ended.status, job.status, job.attempts) == (Status.CANCELLED, Status.SUCCEEDED, 1)
    assert found == [(1, None), (1, "half")]


async def test_a_job_that_succeeded_is_not_run_again(engine: Engine) -> None:
    @engine.job("fine")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None)
    await over(engine, job_id)

    with pytest.raises(JobConflict):
        await engine.redrive(job_id)


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

    assert (await engine.look(job_id)).status is Status.SUCCEEDED
    assert await engine.result(job_id) == "finished"
