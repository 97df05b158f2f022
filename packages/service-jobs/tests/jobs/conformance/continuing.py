"""What every engine keeps of an execution, shows of a job, and runs again."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from service_jobs.context import Context
from service_jobs.job import (
    InvalidInput,
    JobCancelled,
    JobConflict,
    JobNotFound,
    Retry,
    Status,
)
from tests.jobs.conformance.engine import AT_ONCE, Engine, HandlerFailed, get_error_code, wait_until, wait_until_over

# What an execution leaves behind


async def test_progress_is_visible_while_the_job_runs(engine: Engine) -> None:
    go_on = asyncio.Event()

    @engine.job("long")
    async def handler(ctx: Context, value: None) -> None:
        await ctx.report_progress(40, "almost half")
        await go_on.wait()

    await engine.start()
    job_id = await engine.submit(handler, None)
    job = await wait_until(engine, job_id, lambda job: job.progress is not None)

    assert job.status is Status.RUNNING
    assert job.lease_owner is not None
    assert job.progress is not None
    assert (job.progress["percent"], job.progress["message"]) == (40, "almost half")
    said = datetime.fromisoformat(job.progress["updated_at"])
    assert said.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - said) < timedelta(minutes=1)  # noqa: TID251 (the time of the machine is meant)
    go_on.set()
    assert (await wait_until_over(engine, job_id)).progress == job.progress


async def test_a_checkpoint_is_given_to_the_next_attempt(engine: Engine) -> None:
    checkpoints: list[Any] = []

    @engine.job("resume", retry=AT_ONCE)
    async def handler(ctx: Context, value: None) -> None:
        checkpoints.append(ctx.checkpoint)
        if ctx.attempt < 3:
            await ctx.save_checkpoint({"done": ctx.attempt})
            ctx.checkpoint["done"] = "changed, and not saved"
            raise OSError("no")

    await engine.start()
    await wait_until_over(engine, await engine.submit(handler, None))

    assert checkpoints == [None, {"done": 1}, {"done": 2}]


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
    job = await wait_until_over(engine, job_id)

    assert (job.status, await engine.get_result(job_id)) == (Status.SUCCEEDED, ["<2>"])
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
        raise HandlerFailed("no")

    handler = engine.steps("steps", one, two, three, retry=AT_ONCE)
    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, 1))
    for following in await engine.list_jobs(job_type="follow"):
        await wait_until_over(engine, following.job_id)

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
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert job.status is Status.SUCCEEDED
    assert await engine.notes() == ["one in attempt 2", "two"]


async def test_a_step_goes_on_with_exactly_what_the_last_one_gave(engine: Engine) -> None:
    step_inputs: list[dict[str, int]] = []
    long = {'"gave":': 2**80}

    async def one(ctx: Context, value: None) -> dict[str, int]:
        return long

    async def two(ctx: Context, value: dict[str, int]) -> int:
        step_inputs.append(value)
        if ctx.attempt == 1:
            raise OSError("no")
        return len(value)

    handler = engine.steps("steps", one, two, retry=AT_ONCE)
    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert job.status is Status.SUCCEEDED
    assert step_inputs == [long, long]


async def test_a_step_that_gives_what_it_does_not_declare_fails_at_once(engine: Engine) -> None:
    async def one(ctx: Context, value: None) -> int:
        await engine.note(ctx, "never seen")
        return "many"  # type: ignore[return-value]

    async def two(ctx: Context, number: int) -> None: ...

    handler = engine.steps("steps", one, two, retry=AT_ONCE)
    await engine.start()
    job = await wait_until_over(engine, await engine.submit(handler, None))

    assert (job.status, get_error_code(job)) == (Status.FAILED, "VALIDATION_ERROR")
    assert await engine.notes() == []


# Looking, and running again


async def test_another_tenants_job_does_not_exist(engine: Engine) -> None:
    @engine.job("secret")
    async def handler(ctx: Context, value: None) -> str:
        return "secret"

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_over(engine, job_id)

    for ask in (engine.get_job, engine.get_result, engine.cancel, engine.redrive):
        with pytest.raises(JobNotFound):
            await ask(job_id, engine.other_tenant)
    assert await engine.list_jobs(engine.other_tenant) == []
    assert [job.job_id for job in await engine.list_jobs()] == [job_id]


async def test_jobs_are_listed_newest_first_and_filtered(engine: Engine) -> None:
    @engine.job("good")
    async def good(ctx: Context, value: None) -> None: ...

    @engine.job("bad")
    async def bad(ctx: Context, value: None) -> None:
        raise HandlerFailed("no")

    await engine.start()
    ids = []
    for handler in (good, bad, good):
        ids.append(await engine.submit(handler, None))
        await wait_until_over(engine, ids[-1])
        await asyncio.sleep(0.003)  # ids are ordered by the millisecond
    waiting = await engine.submit(good, None, delay=60)

    async def found(**filters: Any) -> list[UUID]:
        return [job.job_id for job in await engine.list_jobs(**filters)]

    assert await found() == [waiting, ids[2], ids[1], ids[0]]
    assert await found(job_type="bad") == [ids[1]]
    assert await found(status=Status.SUCCEEDED) == [ids[2], ids[0]]
    assert await found(status=Status.FAILED) == [ids[1]]
    assert await found(status=Status.QUEUED) == [waiting]
    assert await found(limit=2) == [waiting, ids[2]]
    assert await found(limit=2, before_id=ids[2]) == [ids[1], ids[0]]
    third = (await engine.get_job(ids[2])).created_at
    assert await found(created_before=third) == [ids[1], ids[0]]
    assert await found(created_after=third) == [waiting, ids[2]]
    assert await found(created_after=third + timedelta(hours=1)) == []
    with pytest.raises(InvalidInput):
        await found(limit=0)


@pytest.mark.parametrize("status", [Status.FAILED, Status.DEAD_LETTER])
async def test_a_job_that_ended_badly_is_run_again_from_its_checkpoint(engine: Engine, status: Status) -> None:
    repaired: list[bool] = []
    checkpoints: list[tuple[int, Any]] = []

    @engine.job("broken", retry=Retry(attempts=2, first_delay=0.0))
    async def handler(ctx: Context, value: None) -> str:
        checkpoints.append((ctx.attempt, ctx.checkpoint))
        await ctx.save_checkpoint(len(checkpoints))
        if not repaired:
            raise HandlerFailed("no") if status is Status.FAILED else OSError("no")
        return "repaired"

    await engine.start()
    job_id = await engine.submit(handler, None)
    ended = await wait_until_over(engine, job_id)
    before = len(checkpoints)
    repaired.append(True)
    await engine.redrive(job_id)
    job = await wait_until_over(engine, job_id)

    assert ended.status is status
    assert (job.status, job.attempts, await engine.get_result(job_id)) == (Status.SUCCEEDED, 1, "repaired")
    assert checkpoints[before:] == [(1, before)]


async def test_a_delayed_job_can_be_run_now(engine: Engine) -> None:
    @engine.job("later")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None, delay=3600)
    await engine.redrive(job_id)

    assert (await wait_until_over(engine, job_id)).status is Status.SUCCEEDED


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
    waiting = await engine.get_job(job_id)
    await engine.start()
    job = await wait_until_over(engine, job_id)

    assert (waiting.status, waiting.last_error, waiting.finished_at) == (Status.QUEUED, None, None)
    assert (job.status, job.attempts, await engine.get_result(job_id)) == (Status.SUCCEEDED, 1, "hello world")


async def test_a_job_that_was_cancelled_while_it_ran_is_run_again_from_its_checkpoint(engine: Engine) -> None:
    started, checkpoints = asyncio.Event(), []

    @engine.job("patient")
    async def handler(ctx: Context, value: None) -> None:
        checkpoints.append((ctx.attempt, ctx.checkpoint))
        if ctx.checkpoint is None:
            await ctx.save_checkpoint("half")
            started.set()
            await ctx.wait_for_cancel()
            raise JobCancelled("I stopped")

    await engine.start()
    job_id = await engine.submit(handler, None)
    await started.wait()
    await engine.cancel(job_id)
    ended = await wait_until_over(engine, job_id)
    await engine.redrive(job_id)
    job = await wait_until_over(engine, job_id)

    assert (ended.status, job.status, job.attempts) == (Status.CANCELLED, Status.SUCCEEDED, 1)
    assert checkpoints == [(1, None), (1, "half")]


async def test_a_job_that_succeeded_is_not_run_again(engine: Engine) -> None:
    @engine.job("fine")
    async def handler(ctx: Context, value: None) -> None: ...

    await engine.start()
    job_id = await engine.submit(handler, None)
    await wait_until_over(engine, job_id)

    with pytest.raises(JobConflict):
        await engine.redrive(job_id)
