"""What every engine does: jobs run, keys, priorities, delays, and what is refused before a job starts."""

from typing import Any

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handlers
from service_jobs.job import (
    HandlerNotFound,
    InvalidInput,
    Status,
)
from tests.jobs.conformance.engine import Engine, wait_until_over

# Success, and what is refused before it starts


async def test_a_job_runs_and_its_result_is_kept(engine: Engine) -> None:
    @engine.job("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    await engine.start()
    job_id = await engine.submit(double, 21, correlation_id="c-1", actor="ada")
    job = await wait_until_over(engine, job_id)

    assert job.status is Status.SUCCEEDED
    assert await engine.get_result(job_id) == 42
    assert (job.attempts, job.max_attempts, job.priority, job.type) == (1, 5, 2, "double")
    assert (job.correlation_id, job.actor, job.lease_owner, job.last_error) == ("c-1", "ada", None, None)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.created_at <= job.started_at <= job.finished_at


async def test_the_handler_is_told_whose_job_it_runs(engine: Engine) -> None:
    contexts: list[Any] = []

    @engine.job("told")
    async def handler(ctx: Context, value: None) -> None:
        contexts.extend(
            [ctx.tenant, ctx.job_id, ctx.type, ctx.attempt, ctx.max_attempts, ctx.correlation_id, ctx.actor]
        )

    await engine.start()
    job_id = await engine.submit(handler, None, tenant=engine.other_tenant, correlation_id="c-2", actor="bob")
    await wait_until_over(engine, job_id, engine.other_tenant)

    assert contexts == [engine.other_tenant, job_id, "told", 1, 5, "c-2", "bob"]


async def test_input_that_does_not_fit_is_refused_when_it_is_submitted(engine: Engine) -> None:
    @engine.job("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    with pytest.raises(InvalidInput, match="this input is not valid for a"):
        await engine.submit(double, "many")  # type: ignore[misc]
    with pytest.raises(InvalidInput, match="priority"):
        await engine.submit(double, 1, priority=4)
    with pytest.raises(InvalidInput, match="delay"):
        await engine.submit(double, 1, delay=-1)
    with pytest.raises(InvalidInput, match="key"):
        await engine.submit(double, 1, key="")
    assert await engine.list_jobs() == []


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
    await wait_until_over(engine, first)
    after_the_end = await engine.submit(handler, 3, key="k")

    assert (again, after_the_end, runs) == (first, first, [1])
    assert (await engine.get_job(first)).idempotency_key == "k"


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
        await wait_until_over(engine, job_id)

    assert order == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]


async def test_a_delayed_job_waits_for_its_time(engine: Engine) -> None:
    @engine.job("later")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None, delay=0.4)
    waiting = await engine.get_job(job_id)
    job = await wait_until_over(engine, job_id)

    assert waiting.status is Status.QUEUED
    assert (waiting.scheduled_at - waiting.created_at).total_seconds() == pytest.approx(0.4, abs=0.05)
    assert job.status is Status.SUCCEEDED
    assert job.started_at is not None
    assert job.started_at >= waiting.scheduled_at
