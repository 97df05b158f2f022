"""One execution in memory: its transaction, follow-ups and hooks, and handlers that do not stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from service_jobs.context import Context, ProgressCallback
from service_jobs.handler import Handler, Handlers
from service_jobs.job import (
    JobConflict,
    JobError,
    LeaseLost,
    Status,
)
from service_jobs.job_spec import JobSpec
from service_jobs.memory.engine import MemoryEngine
from tests.jobs.memory_engine.manual_clock import ACME, ManualClock, RecordingDatabase, wait_until_settled

# Transactions, follow-ups and child processes


async def test_the_end_of_the_job_ends_its_transaction(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase
) -> None:
    same: list[bool] = []

    @handlers.job("write", restartable=False)
    async def write(ctx: Context, value: None) -> None:
        one, other = await asyncio.gather(ctx.transaction(), ctx.transaction())
        same.append(one is other)
        if ctx.attempt == 1:
            raise OSError("no")

    database.refuses = 1
    engine.start()
    job_id = engine.submit(write, None, tenant=ACME)
    await clock.move(60)

    job = engine.get_job(ACME, job_id)
    assert (job.status, job.attempts) == (Status.SUCCEEDED, 3)
    assert job.last_error is not None
    assert job.last_error.message == "OSError: the commit was refused"
    assert database.log == ["begin", "rollback", "begin", "begin", "commit"]
    assert same == [True, True, True]


async def test_a_commit_is_not_interrupted(handlers: Handlers, clock: ManualClock) -> None:
    go_on = asyncio.Event()

    @contextlib.asynccontextmanager
    async def slow(tenant: UUID) -> AsyncIterator[Any]:
        yield None
        await go_on.wait()

    @handlers.job("write", restartable=False, timeout=5)
    async def write(ctx: Context, value: None) -> str:
        await ctx.transaction()
        return "written"

    engine = MemoryEngine(handlers, clock=clock, transaction=slow)
    engine.start()
    job_id = engine.submit(write, None, tenant=ACME)
    await wait_until_settled()
    engine.cancel(ACME, job_id)
    await clock.move(60)
    assert engine.get_job(ACME, job_id).status is Status.RUNNING
    go_on.set()

    assert (await engine.wait(ACME, job_id)).status is Status.SUCCEEDED


async def test_without_a_database_or_child_processes_the_handler_is_told(handlers: Handlers) -> None:
    @handlers.job("restartable")
    async def restartable(ctx: Context, value: None) -> None: ...

    @handlers.job("asks", restartable=False)
    async def asks(ctx: Context, what: str) -> None:
        if what == "transaction":
            await ctx.transaction()
        elif what == "compute":
            await ctx.compute(abs, -1)
        elif what == "depends":
            ctx.submit(asks, "", depends_on=[ctx.job_id])
        else:
            ctx.submit(restartable, None)

    engine = MemoryEngine(handlers)
    engine.start()
    said = {}
    for what in ("transaction", "compute", "depends", "submit"):
        job = await engine.wait(ACME, engine.submit(asks, what, tenant=ACME))
        assert (job.status, job.last_error is not None) == (Status.FAILED, True)
        said[what] = job.last_error and job.last_error.message

    assert said == {
        "transaction": "this in-memory engine has no database",
        "compute": "this in-memory engine has no child processes",
        "depends": "an in-memory job cannot depend on other jobs",
        "submit": "jobs of type `restartable` are restartable, and this in-memory engine has no database for them",
    }


async def test_functions_that_compute_are_handed_to_child_processes(handlers: Handlers) -> None:
    class Processes:
        async def run(
            self,
            function: Callable[..., Any],
            arguments: tuple[Any, ...],
            *,
            on_progress: ProgressCallback | None = None,
        ) -> Any:
            return function(*arguments)

    @handlers.job("compute", restartable=False)
    async def compute(ctx: Context, number: int) -> int:
        return await ctx.compute(abs, number)

    engine = MemoryEngine(handlers, processes=Processes())
    engine.start()
    job_id = engine.submit(compute, -7, tenant=ACME)
    await engine.wait(ACME, job_id)

    assert engine.get_result_value(ACME, job_id)[1] == 7


async def test_restartable_follow_ups_are_handed_on_in_the_jobs_transaction(
    handlers: Handlers, clock: ManualClock, database: RecordingDatabase
) -> None:
    @handlers.job("restartable")
    async def restartable(ctx: Context, number: int) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, number: int) -> None:
        await ctx.transaction()
        ctx.submit(restartable, number, key=f"k{ctx.attempt}", depends_on=[UUID(int=9)])

    async def forward(specs: Sequence[JobSpec], ctx: Context) -> None:
        assert ctx.connection is not None
        database.log.append(" ".join(f"{spec.handler.type}({spec.payload}) {spec.key}" for spec in specs))
        if ctx.attempt == 1:
            raise OSError("no")

    engine = MemoryEngine(handlers, clock=clock, transaction=database.transaction, forward=forward)
    engine.start()
    job_id = engine.submit(lead, 7, tenant=ACME)
    await clock.move(2)

    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "restartable(7) k1", "rollback", "begin", "restartable(7) k2", "commit"]


async def test_follow_ups_without_room_fail_the_attempt_and_undo_it(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase, echo: Handler[str, str]
) -> None:
    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, value: None) -> None:
        await ctx.transaction()
        ctx.submit(echo, "one")
        ctx.submit(echo, "two")

    engine.start()
    job_id = engine.submit(lead, None, tenant=ACME)
    delayed = [engine.submit(echo, "", tenant=ACME, delay=3600) for _ in range(2)]
    await clock.move(1)
    refused = engine.get_job(ACME, job_id)
    engine.cancel(ACME, delayed[0])
    engine.cancel(ACME, delayed[1])
    await clock.move(1)

    assert refused.last_error is not None
    assert (refused.status, refused.last_error.code) == (Status.QUEUED, "QUEUE_FULL")
    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "rollback", "begin", "commit"]
    assert len(engine.list_jobs(ACME, job_type="echo", status=Status.SUCCEEDED)) == 2


# Hooks that hang, handlers that do not listen


@pytest.mark.parametrize("listens", [True, False])
async def test_an_on_failure_that_hangs_does_not_keep_its_job(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, caplog: pytest.LogCaptureFixture, *, listens: bool
) -> None:
    free = asyncio.Event()
    calls: list[int] = []

    @handlers.job("unwell", restartable=False, timeout=5)
    async def unwell(ctx: Context, value: None) -> None:
        raise JobConflict("no")

    @unwell.on_failure
    async def hangs(ctx: Context, error: JobError) -> None:
        calls.append(ctx.attempt)
        if listens:
            await free.wait()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    engine.start()
    job_id = engine.submit(unwell, None, tenant=ACME)
    await clock.move(5 if listens else 15)
    free.set()
    await wait_until_settled()

    assert engine.get_job(ACME, job_id).status is Status.FAILED
    assert (engine.get_health().active, calls) == (0, [1])
    assert ("was interrupted" if listens else "abandoned") in caplog.text


async def test_an_execution_that_was_left_behind_can_write_nothing(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock, database: RecordingDatabase
) -> None:
    free = asyncio.Event()
    refused: list[str] = []

    @handlers.job("stone", restartable=False, timeout=5)
    async def stone(ctx: Context, value: None) -> str:
        if ctx.attempt > 1:
            return "second"
        await ctx.transaction()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()
        try:
            await ctx.report_progress(50)
        except LeaseLost as lost:
            refused.append(lost.code)
        ctx.connection = None
        with contextlib.suppress(LeaseLost):
            await ctx.transaction()
        return "first"

    engine.start()
    job_id = engine.submit(stone, None, tenant=ACME)
    await clock.move(60)
    succeeded = engine.get_result_value(ACME, job_id)
    free.set()
    await wait_until_settled()

    assert succeeded[:2] == (Status.SUCCEEDED, "second")
    assert engine.get_result_value(ACME, job_id) == succeeded
    assert (refused, database.log) == (["JOB_LEASE_LOST"], ["begin", "rollback"])
    assert engine.get_job(ACME, job_id).progress is None


async def test_a_commit_that_comes_too_late_is_refused(
    handlers: Handlers, clock: ManualClock, database: RecordingDatabase
) -> None:
    go_on = asyncio.Event()

    @handlers.job("restartable")
    async def restartable(ctx: Context, value: None) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, value: None) -> None:
        await ctx.transaction()
        ctx.submit(restartable, None)

    async def forward(specs: Sequence[JobSpec], ctx: Context) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await go_on.wait()
        await asyncio.sleep(0)

    engine = MemoryEngine(handlers, clock=clock, transaction=database.transaction, forward=forward)
    engine.start()
    job_id = engine.submit(lead, None, tenant=ACME)
    stopping = asyncio.create_task(engine.stop(grace=0))
    await clock.move(60)
    await stopping
    await wait_until_settled()

    assert engine.get_job(ACME, job_id).status is Status.CANCELLED
    assert database.log == ["begin", "rollback"]
