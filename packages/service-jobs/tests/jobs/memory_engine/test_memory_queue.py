"""The queue of the in-memory engine: a bounded channel, fair turns, and what it refuses.

What both engines have in common is in `conformance`. Time stands still here until a test moves it.
"""

import asyncio
from contextvars import ContextVar
from uuid import UUID

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from service_jobs.job import (
    InvalidInput,
    JobConflict,
    QueueFull,
    Status,
)
from service_jobs.job_spec import Limit
from service_jobs.memory.engine import MemoryEngine, MemoryHealth
from tests.jobs.memory_engine.manual_clock import ACME, RIVAL, ManualClock, wait_until_settled

VARIABLE = ContextVar("VARIABLE", default="nothing")


# The channel


async def test_when_too_many_jobs_wait_there_is_no_room(engine: MemoryEngine, wait: Handler[str, str]) -> None:
    engine.start()
    running = engine.submit(wait, "runs", tenant=ACME)
    engine.submit(wait, "waits", tenant=ACME)
    engine.submit(wait, "waits too", tenant=RIVAL)
    delayed = engine.submit(wait, "waits for its time", tenant=ACME, delay=60)

    with pytest.raises(QueueFull) as full:
        engine.submit(wait, "one too many", tenant=ACME)

    assert full.value.retryable
    assert engine.get_health() == MemoryHealth(depth=3, capacity=3, active=1)
    assert engine.get_job(ACME, running).status is Status.RUNNING
    engine.cancel(ACME, delayed)
    engine.submit(wait, "fits again", tenant=ACME)


async def test_a_key_that_is_taken_needs_no_room(engine: MemoryEngine, wait: Handler[str, str]) -> None:
    ids = [engine.submit(wait, "", tenant=ACME, key=key) for key in "abc"]

    assert engine.submit(wait, "", tenant=ACME, key="b") == ids[1]


async def test_a_retry_always_finds_room(handlers: Handlers, engine: MemoryEngine, clock: ManualClock) -> None:
    @handlers.job("flaky", restartable=False)
    async def flaky(ctx: Context, value: None) -> None:
        await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise OSError("no")

    engine.start()
    first = engine.submit(flaky, None, tenant=ACME)
    for _ in range(3):
        engine.submit(flaky, None, tenant=ACME, delay=60)
    await wait_until_settled()

    assert engine.get_health().depth == 4
    await clock.move(2)
    assert engine.get_job(ACME, first).status is Status.SUCCEEDED


async def test_tenants_take_turns_and_inside_a_turn_priority_counts(handlers: Handlers) -> None:
    order: list[str] = []
    engine = MemoryEngine(handlers, concurrency=1)

    @handlers.job("line-up", restartable=False)
    async def line_up(ctx: Context, name: str) -> None:
        order.append(name)

    for name, tenant, priority in (
        *(("a1", ACME, 2), ("a2", ACME, 2), ("a3", ACME, 2), ("a0", ACME, 0)),
        *(("b1", RIVAL, 3), ("b2", RIVAL, 3)),
    ):
        engine.submit(line_up, name, tenant=tenant, priority=priority)
    engine.start()
    await wait_until_settled()

    assert order == ["a0", "b1", "a1", "b2", "a2", "a3"]


async def test_as_many_jobs_run_at_a_time_as_the_engine_is_told(
    handlers: Handlers, clock: ManualClock, wait: Handler[str, str]
) -> None:
    engine = MemoryEngine(handlers, concurrency=4, clock=clock)
    engine.start()
    for _ in range(6):
        engine.submit(wait, "", tenant=ACME)

    assert (engine.get_health().active, engine.get_health().depth) == (4, 2)
    engine.concurrency = 5
    engine.submit(wait, "", tenant=ACME)
    assert (engine.get_health().active, engine.get_health().depth) == (5, 2)
    with pytest.raises(ValueError, match="at least 1"):
        MemoryEngine(handlers, capacity=0)


async def test_what_only_the_database_can_do_is_refused(
    handlers: Handlers, engine: MemoryEngine, echo: Handler[str, str]
) -> None:
    @handlers.job("restartable")
    async def restartable(ctx: Context, value: None) -> None: ...

    with pytest.raises(InvalidInput, match="depend on other jobs"):
        engine.submit(echo, "", tenant=ACME, depends_on=[UUID(int=3)])
    with pytest.raises(InvalidInput, match="limit"):
        engine.submit(echo, "", tenant=ACME, limit=Limit(key="k", at_most=1))
    with pytest.raises(JobConflict, match="restartable"):
        engine.submit(restartable, None, tenant=ACME)
    assert engine.list_jobs(ACME) == []


async def test_a_job_keeps_the_input_it_was_submitted_with(handlers: Handlers, engine: MemoryEngine) -> None:
    @handlers.job("sum", restartable=False)
    async def total(ctx: Context, numbers: list[int]) -> int:
        return sum(numbers)

    numbers = [1, 2]
    job_id = engine.submit(total, numbers, tenant=ACME)
    numbers.append(3)
    engine.start()
    await engine.wait(ACME, job_id)

    assert engine.get_result_value(ACME, job_id) == (Status.SUCCEEDED, 3, None)


async def test_a_job_does_not_see_the_variables_of_whoever_submitted_it_or_ran_before(
    handlers: Handlers, engine: MemoryEngine
) -> None:
    seen: list[str] = []

    @handlers.job("variable", restartable=False)
    async def variable(ctx: Context, name: str) -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set(name)

    VARIABLE.set("of a request")
    engine.start()
    for name in "ab":
        await engine.wait(ACME, engine.submit(variable, name, tenant=ACME))

    assert seen == ["nothing", "nothing"]
