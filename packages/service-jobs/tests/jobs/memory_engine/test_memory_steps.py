"""Steps of jobs in memory: each is committed before the next one begins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from service_jobs.job import (
    JobError,
    Retry,
    Status,
)
from service_jobs.memory.engine import MemoryEngine
from service_jobs.steps import register_steps
from tests.jobs.memory_engine.manual_clock import ACME, ManualClock, RecordingDatabase, wait_until_settled

# Steps


async def test_a_step_is_committed_before_the_next_one_begins(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase
) -> None:
    async def one(ctx: Context, value: None) -> None:
        await ctx.transaction()
        database.log.append("one")

    async def two(ctx: Context, value: None) -> None:
        await ctx.transaction()
        database.log.append("two")
        if ctx.attempt == 1:
            raise OSError("no")

    handler = register_steps(handlers, "steps", one, two, restartable=False)
    engine.start()
    engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert database.log == ["begin", "one", "commit", "begin", "two", "rollback", "begin", "two", "commit"]


async def test_a_step_whose_commit_is_refused_is_run_again(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase, echo: Handler[str, str]
) -> None:
    async def one(ctx: Context, value: None) -> None:
        await ctx.transaction()
        ctx.submit(echo, "next")
        database.log.append("one")

    async def two(ctx: Context, value: None) -> None:
        database.log.append("two")

    handler = register_steps(handlers, "steps", one, two, restartable=False)
    database.refuses = 1
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "one", "begin", "one", "commit", "two"]
    assert len(engine.list_jobs(ACME, job_type="echo")) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_the_commit_of_a_step_is_not_interrupted_but_what_follows_is(
    handlers: Handlers, clock: ManualClock, *, fails: bool
) -> None:
    go_on = asyncio.Event()
    ran: list[str] = []

    @contextlib.asynccontextmanager
    async def slow(tenant: UUID) -> AsyncIterator[Any]:
        yield object()
        await go_on.wait()
        if fails and not ran.count("failed"):
            ran.append("failed")
            raise OSError("the commit was refused")

    async def one(ctx: Context, value: None) -> None:
        ran.append("one")
        await ctx.transaction()

    async def two(ctx: Context, value: None) -> None:
        ran.append("two")

    told: list[str] = []
    handler = register_steps(handlers, "steps", one, two, restartable=False, timeout=5, retry=Retry(attempts=1))

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await asyncio.sleep(0)
        told.append(error.code)

    engine = MemoryEngine(handlers, clock=clock, transaction=slow, cancel_grace=1)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(60)
    assert (engine.get_job(ACME, job_id).status, ran) == (Status.RUNNING, ["one"])
    go_on.set()
    await wait_until_settled()

    ended = engine.get_job(ACME, job_id)
    assert (ended.status, told) == (Status.DEAD_LETTER, ["JOB_TIMEOUT"])
    engine.redrive(ACME, job_id)
    await wait_until_settled()
    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert ran == (["one", "failed", "one", "two"] if fails else ["one", "two"])


async def test_a_step_of_an_execution_that_was_left_behind_is_not_kept(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase
) -> None:
    free = asyncio.Event()
    ran: list[str] = []

    async def one(ctx: Context, value: None) -> int:
        ran.append(f"one {ctx.attempt}")
        await ctx.transaction()
        while ctx.attempt == 1 and not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()
        return ctx.attempt

    async def two(ctx: Context, number: int) -> int:
        ran.append(f"two {ctx.attempt}")
        return number

    handler = register_steps(handlers, "steps", one, two, restartable=False, timeout=5)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(60)
    free.set()
    await wait_until_settled()

    assert (engine.get_result_value(ACME, job_id)[1], ran) == (2, ["one 1", "one 2", "two 2"])
    assert database.log.count("commit") == 1
