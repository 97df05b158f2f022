"""`run_inline` makes of hooks and follow-ups what the engines make of them; and clocks that a test moves."""

import logging
from datetime import timedelta

import asyncpg
import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers, Rejection
from service_jobs.job import Ending, JobConflict, JobError, JobsRefusal, Retry
from service_jobs.testing import FakeClock, run_inline, step_database_clock


@pytest.fixture
def follow(handlers: Handlers) -> Handler[str, None]:
    @handlers.job("follow")
    async def follow(ctx: Context, name: str) -> None: ...

    return follow


async def test_an_error_in_on_success_fails_the_execution(handlers: Handlers, follow: Handler[str, None]) -> None:
    told: list[str] = []

    @handlers.job("work", retry=Retry(first_delay=3.0))
    async def work(ctx: Context, number: int) -> int:
        ctx.submit(follow, "work")
        return number

    @work.on_success
    async def done(ctx: Context, number: int) -> None:
        raise OSError("nobody was there")

    @work.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        told.append(error.message)
        ctx.submit(follow, "failure")

    first = await run_inline(work, 1)
    last = await run_inline(work, 1, attempt=5)

    assert (first.ending, first.retry_in, first.follow_ups) == (Ending.RETRY, 3.0, [])
    assert last.ending is Ending.DEAD_LETTER
    assert told == ["OSError: nobody was there"]
    assert [spec.payload for spec in last.follow_ups] == ['"failure"']
    with pytest.raises(JobsRefusal, match="RETRY"):
        _ = first.output


async def test_an_error_may_ask_for_a_rest(handlers: Handlers) -> None:
    class Busy(OSError):
        def __init__(self, seconds: object) -> None:
            self.retry_after = seconds

    asked: list[object] = [30, 0.5, 5000, -1, None, "30", float("nan")]

    @handlers.job("work")
    async def work(ctx: Context, number: int) -> int:
        raise Busy(asked[number])

    rests = [(await run_inline(work, number)).retry_in for number in range(len(asked))]

    assert rests == [30.0, 2.0, 1024.0, 2.0, 2.0, 2.0, 2.0]


async def test_an_error_in_on_success_of_a_job_that_was_to_stop_is_a_cancellation(handlers: Handlers) -> None:
    @handlers.job("work")
    async def work(ctx: Context, number: int) -> int:
        return number

    @work.on_success
    async def done(ctx: Context, number: int) -> None:
        raise JobConflict("no")

    assert (await run_inline(work, 1)).ending is Ending.FAILED
    assert (await run_inline(work, 1, cancelled=True)).ending is Ending.CANCELLED


async def test_an_error_in_on_failure_is_only_logged(
    handlers: Handlers, follow: Handler[str, None], caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.job("work")
    async def work(ctx: Context, refuses: bool) -> int | Rejection:
        ctx.submit(follow, "work")
        if refuses:
            return Rejection.from_exception(JobConflict("no"))
        raise JobConflict("no")

    @work.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        ctx.submit(follow, "failure")
        raise OSError("nor this")

    raised = await run_inline(work, False)
    refused = await run_inline(work, True)

    for ran in (raised, refused):
        assert ran.error is not None
        assert (ran.ending, ran.error.code) == (Ending.FAILED, "CONFLICT")
    assert raised.follow_ups == []
    assert [spec.payload for spec in refused.follow_ups] == ['"work"']
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == ["on_failure failed"] * 2


async def test_only_the_follow_ups_of_on_failure_are_left_of_an_execution_that_failed(
    handlers: Handlers, follow: Handler[str, None]
) -> None:
    @handlers.job("work")
    async def work(ctx: Context, refuses: bool) -> int | Rejection:
        ctx.submit(follow, "work")
        if refuses:
            return Rejection.from_exception(JobConflict("no"))
        raise JobConflict("no")

    @work.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        ctx.submit(follow, "failure")

    raised = await run_inline(work, False)
    refused = await run_inline(work, True)

    assert [spec.payload for spec in raised.follow_ups] == ['"failure"']
    assert [spec.payload for spec in refused.follow_ups] == ['"work"', '"failure"']


async def test_on_success_may_wish_for_jobs(handlers: Handlers, follow: Handler[str, None]) -> None:
    @handlers.job("work")
    async def work(ctx: Context, number: int) -> int:
        return number + 1

    @work.on_success
    async def done(ctx: Context, number: int) -> None:
        ctx.submit(follow, str(number))

    ran = await run_inline(work, 1)

    assert (ran.ending, ran.output) == (Ending.SUCCEEDED, 2)
    assert [spec.payload for spec in ran.follow_ups] == ['"2"']


async def test_a_handler_in_memory_is_given_and_gives_the_very_thing(handlers: Handlers) -> None:
    class Thing: ...

    seen: list[Thing] = []

    async def work(ctx: Context, thing: Thing) -> Thing:
        return thing

    work.__annotations__ |= {"thing": Thing, "return": Thing}
    handler = handlers.job("work", restartable=False)(work)

    @handler.on_success
    async def done(ctx: Context, output: Thing) -> None:
        seen.append(output)

    thing = Thing()
    ran = await run_inline(handler, thing)

    assert ran.output is thing
    assert seen == [thing]


async def test_nothing_that_was_made_is_a_result_too(handlers: Handlers) -> None:
    @handlers.job("work")
    async def work(ctx: Context, value: None) -> None: ...

    ran = await run_inline(work, None)

    assert (ran.ending, ran.output) == (Ending.SUCCEEDED, None)


def test_a_fake_clock_runs_what_is_due_in_order_and_nothing_that_was_cancelled() -> None:
    clock, calls = FakeClock(), list[str]()
    start = clock.now()
    clock.call_after(2, lambda: calls.append("second"))
    clock.call_after(1, lambda: calls.append("first"))
    clock.call_after(1.5, lambda: calls.append("cancelled")).cancel()

    clock.step(1.9)
    assert (calls, clock.now() - start) == (["first"], timedelta(seconds=1.9))
    clock.step(0.1)
    assert calls == ["first", "second"]


@pytest.mark.external
async def test_the_clock_of_a_database_is_stepped(superuser: "asyncpg.Connection[asyncpg.Record]") -> None:
    await step_database_clock(superuser, -3600)

    behind = await superuser.fetchval("SELECT clock_timestamp() - jobs.clock()")
    assert abs(behind - timedelta(hours=1)) < timedelta(seconds=30)
