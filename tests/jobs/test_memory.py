"""What only the in-memory engine does: a bounded channel, an end with its process, and nothing kept for long.

What it has in common with jobs in the database is in `conformance`. Time stands still here until a test moves it.
"""

import asyncio
import contextlib
import gc
import heapq
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.context import Context, HowFar, Limit, Wish
from bpc.jobs.errors import InvalidInput, JobConflict, JobError, JobNotFound, LeaseLost, QueueFull
from bpc.jobs.handler import Handler, Handlers, Refused
from bpc.jobs.ids import new_id
from bpc.jobs.memory import EngineStopped, MemoryEngine, MemoryHealth
from bpc.jobs.memory.run import LOST
from bpc.jobs.metrics import Metrics
from bpc.jobs.outcome import Retry, Status
from bpc.jobs.steps import several_steps

ACME, RIVAL = UUID(int=1), UUID(int=2)
NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)
VARIABLE = ContextVar("VARIABLE", default="nothing")


class StillClock:
    """Stands still until it is moved; then everything happens that was due, in order."""

    def __init__(self) -> None:
        self._now = NOON
        self._timers: list[tuple[datetime, int, StillTimer]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._now

    def after(self, seconds: float, call: Callable[[], object]) -> "StillTimer":
        timer = StillTimer(call)
        heapq.heappush(self._timers, (self._now + timedelta(seconds=seconds), next(self._order), timer))
        return timer

    async def move(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        await settled()
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
            await settled()
        self._now = until


class StillTimer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


async def settled() -> None:
    """Everything that can happen at this moment has happened."""
    for _ in range(30):
        await asyncio.sleep(0)


class Database:
    """A database that remembers which transactions were committed."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refuses = 0

    @contextlib.asynccontextmanager
    async def transaction(self, tenant: UUID) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        self.log.append("begin")
        try:
            yield self
        except BaseException:
            self.log.append("rollback")
            raise
        if self.refuses:
            self.refuses -= 1
            raise OSError("the commit was refused")
        self.log.append("commit")


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
async def engine(handlers: Handlers, clock: StillClock, database: Database) -> AsyncIterator[MemoryEngine]:
    made = MemoryEngine(handlers, capacity=3, concurrency=1, clock=clock, transaction=database.transaction)
    yield made
    stopping = asyncio.create_task(made.stop(grace=0))
    while not stopping.done():
        await clock.move(60)


@pytest.fixture
def wait(handlers: Handlers) -> Handler[str, str]:
    """A handler whose jobs run until they are interrupted."""

    @handlers.job("wait", restartable=False, timeout=None)
    async def wait(ctx: Context, name: str) -> str:
        await asyncio.Event().wait()
        return name

    return wait


@pytest.fixture
def echo(handlers: Handlers) -> Handler[str, str]:
    @handlers.job("echo", restartable=False)
    async def echo(ctx: Context, name: str) -> str:
        return name

    return echo


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
    assert engine.health() == MemoryHealth(depth=3, capacity=3, active=1)
    assert engine.job(ACME, running).status is Status.RUNNING
    engine.cancel(ACME, delayed)
    engine.submit(wait, "fits again", tenant=ACME)


async def test_a_key_that_is_taken_needs_no_room(engine: MemoryEngine, wait: Handler[str, str]) -> None:
    ids = [engine.submit(wait, "", tenant=ACME, key=key) for key in "abc"]

    assert engine.submit(wait, "", tenant=ACME, key="b") == ids[1]


async def test_a_retry_always_finds_room(handlers: Handlers, engine: MemoryEngine, clock: StillClock) -> None:
    @handlers.job("flaky", restartable=False)
    async def flaky(ctx: Context, value: None) -> None:
        await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise OSError("no")

    engine.start()
    first = engine.submit(flaky, None, tenant=ACME)
    for _ in range(3):
        engine.submit(flaky, None, tenant=ACME, delay=60)
    await settled()

    assert engine.health().depth == 4
    await clock.move(2)
    assert engine.job(ACME, first).status is Status.SUCCEEDED


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
    await settled()

    assert order == ["a0", "b1", "a1", "b2", "a2", "a3"]


async def test_as_many_jobs_run_at_a_time_as_the_engine_is_told(
    handlers: Handlers, clock: StillClock, wait: Handler[str, str]
) -> None:
    engine = MemoryEngine(handlers, concurrency=4, clock=clock)
    engine.start()
    for _ in range(6):
        engine.submit(wait, "", tenant=ACME)

    assert (engine.health().active, engine.health().depth) == (4, 2)
    engine.concurrency = 5
    engine.submit(wait, "", tenant=ACME)
    assert (engine.health().active, engine.health().depth) == (5, 2)
    with pytest.raises(ValueError, match="at least one"):
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
    assert engine.list(ACME) == []


async def test_a_job_keeps_the_input_it_was_submitted_with(handlers: Handlers, engine: MemoryEngine) -> None:
    @handlers.job("sum", restartable=False)
    async def total(ctx: Context, numbers: list[int]) -> int:
        return sum(numbers)

    numbers = [1, 2]
    job_id = engine.submit(total, numbers, tenant=ACME)
    numbers.append(3)
    engine.start()
    await engine.wait(ACME, job_id)

    assert engine.result_text(ACME, job_id) == (Status.SUCCEEDED, "3", None)


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


# What no database could keep


class Camera:
    """Nothing that JSON could say."""

    def __init__(self) -> None:
        self.shots = 0


@dataclass
class Shoot:
    """A dataclass of something that pydantic does not know."""

    camera: Camera


async def test_an_input_and_an_output_need_not_be_json(handlers: Handlers, engine: MemoryEngine) -> None:
    approved: list[Camera] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> Camera:
        camera.shots += 1
        return camera

    @shoot.on_success
    async def done(ctx: Context, made: Camera) -> None:
        approved.append(made)

    camera = Camera()
    engine.start()
    job_id = engine.submit(shoot, camera, tenant=ACME)
    with pytest.raises(JobConflict, match="has no result"):
        engine.result(ACME, job_id)
    await engine.wait(ACME, job_id)

    assert engine.result(ACME, job_id) is camera
    assert engine.result_value(ACME, job_id) == (Status.SUCCEEDED, camera, None)
    assert engine.result_text(ACME, job_id) == (Status.SUCCEEDED, None, None)
    assert (camera.shots, approved) == (1, [camera])
    with pytest.raises(InvalidInput, match="instance of Camera"):
        engine.submit(shoot, "none", tenant=ACME)  # type: ignore[misc]


async def test_every_attempt_is_given_the_same_value(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    given: list[Shoot] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, shoot: Shoot) -> None:
        given.append(shoot)
        if len(given) < 3:
            raise OSError("blurred") if ctx.attempt == 1 else JobConflict("no film")

    value = Shoot(Camera())
    engine.start()
    job_id = engine.submit(shoot, value, tenant=ACME)
    await clock.move(2)
    assert engine.job(ACME, job_id).status is Status.FAILED
    engine.redrive(ACME, job_id)
    await clock.move(1)

    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert all(got is value for got in given)
    assert len(given) == 3


async def test_an_output_of_the_wrong_type_is_refused_without_being_told(
    handlers: Handlers, engine: MemoryEngine
) -> None:
    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, name: str) -> Camera:
        return name  # type: ignore[return-value]

    engine.start()
    job = await engine.wait(ACME, engine.submit(shoot, "secret", tenant=ACME))

    assert job.last_error is not None
    assert (job.status, job.last_error.code) == (Status.FAILED, "VALIDATION_ERROR")
    assert "instance of Camera" in job.last_error.message
    assert "secret" not in job.last_error.message


async def test_a_job_that_will_not_run_again_holds_nothing_of_its_input(
    handlers: Handlers, engine: MemoryEngine
) -> None:
    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> None: ...

    camera = Camera()
    watched = weakref.ref(camera)
    engine.start()
    job_id = engine.submit(shoot, camera, tenant=ACME, key="k")
    del camera
    await engine.wait(ACME, job_id)
    await settled()
    gc.collect()

    assert watched() is None
    assert engine.submit(shoot, Camera(), tenant=ACME, key="k") == job_id


async def test_a_follow_up_is_given_the_very_value(handlers: Handlers, engine: MemoryEngine) -> None:
    shots: list[Camera] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> None:
        shots.append(camera)

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, camera: Camera | None) -> None:
        ctx.submit(shoot, camera or Camera())

    camera = Camera()
    engine.start()
    engine.submit(lead, camera, tenant=ACME)
    engine.submit(lead, None, tenant=ACME)
    await settled()

    assert shots[0] is camera
    assert len(shots) == 2


async def test_a_wish_with_a_payload_only_is_carried_out_with_that(
    handlers: Handlers, engine: MemoryEngine, echo: Handler[str, str]
) -> None:
    wish = Wish(handler=echo, job_id=new_id(), payload=echo.input_text("by mail"))
    engine.start()
    engine.add(wish, tenant=ACME)
    await engine.wait(ACME, wish.job_id)

    assert engine.result(ACME, wish.job_id) == "by mail"


async def test_steps_hand_on_what_is_not_json_and_go_on_with_it(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    seen: list[tuple[str, Camera]] = []

    async def buy(ctx: Context, value: None) -> Camera:
        camera = Camera()
        seen.append(("buy", camera))
        return camera

    async def use(ctx: Context, camera: Camera) -> int:
        seen.append(("use", camera))
        if ctx.attempt == 1:
            raise OSError("no light")
        return 1

    handler = several_steps(handlers, "film", buy, use, restartable=False)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert engine.result_text(ACME, job_id)[1] == "1"
    assert [name for name, _ in seen] == ["buy", "use", "use"]
    assert len({id(camera) for _, camera in seen}) == 1


async def test_a_step_of_the_wrong_type_fails_for_good(handlers: Handlers, engine: MemoryEngine) -> None:
    async def buy(ctx: Context, value: None) -> Camera:
        return "a picture of one"  # type: ignore[return-value]

    async def use(ctx: Context, camera: Camera) -> None: ...

    handler = several_steps(handlers, "film", buy, use, restartable=False)
    engine.start()
    job = await engine.wait(ACME, engine.submit(handler, None, tenant=ACME))

    assert job.last_error is not None
    assert (job.status, job.last_error.code) == (Status.FAILED, "VALIDATION_ERROR")


# Time


async def test_a_job_that_keeps_failing_rests_2_4_8_and_16_seconds(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    started: list[float] = []

    @handlers.job("hopeless", restartable=False)
    async def hopeless(ctx: Context, value: None) -> None:
        started.append((clock.now() - NOON).total_seconds())
        raise OSError("no")

    engine.start()
    job_id = engine.submit(hopeless, None, tenant=ACME)
    await clock.move(1)
    resting = engine.job(ACME, job_id)
    await clock.move(60)

    assert (resting.status, resting.scheduled_at) == (Status.QUEUED, NOON + timedelta(seconds=2))
    assert started == [0, 2, 6, 14, 30]
    assert engine.job(ACME, job_id).status is Status.DEAD_LETTER


async def test_a_job_runs_no_longer_than_its_handler_allows(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    remaining: list[float | None] = []

    @handlers.job("slow", restartable=False, retry=Retry(attempts=1))
    async def slow(ctx: Context, value: None) -> None:
        remaining.append(ctx.remaining())
        await asyncio.Event().wait()

    engine.start()
    job_id = engine.submit(slow, None, tenant=ACME)
    await clock.move(299)
    before = engine.job(ACME, job_id).status
    await clock.move(1)
    job = engine.job(ACME, job_id)

    assert (before, job.status) == (Status.RUNNING, Status.DEAD_LETTER)
    assert job.last_error == JobError(
        code="JOB_TIMEOUT", message="the job took longer than the 300 s its handler allows", retryable=True
    )
    assert remaining[0] == pytest.approx(300, abs=5)


async def test_a_handler_that_goes_wrong_while_it_is_interrupted_has_timed_out(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
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

    assert (error := engine.job(ACME, job_id).last_error) is not None
    assert error.code == "JOB_TIMEOUT"


async def test_a_cancelled_job_has_ten_seconds_to_stop(
    engine: MemoryEngine, clock: StillClock, wait: Handler[str, str]
) -> None:
    engine.start()
    job_id = engine.submit(wait, "", tenant=ACME)
    await settled()

    assert engine.cancel(ACME, job_id) == Cancelling(job_id)
    await clock.move(9)
    assert engine.cancel(ACME, job_id) == Cancelling(job_id)  # asking twice does not prolong it
    assert engine.job(ACME, job_id).status is Status.RUNNING
    await clock.move(1)
    assert engine.job(ACME, job_id).status is Status.CANCELLED


async def test_a_job_that_rests_is_cancelled_at_once_and_for_a_reason(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    @handlers.job("hopeless", restartable=False)
    async def hopeless(ctx: Context, value: None) -> None:
        raise OSError("no")

    engine.start()
    job_id = engine.submit(hopeless, None, tenant=ACME)
    await clock.move(1)

    assert engine.cancel(ACME, job_id, "not needed any more") == Cancelled(job_id)
    await clock.move(60)
    job = engine.job(ACME, job_id)
    assert (job.status, job.attempts) == (Status.CANCELLED, 1)
    assert job.last_error is not None
    assert job.last_error.message == "not needed any more"


async def test_a_timeout_of_a_job_that_was_asked_to_stop_is_not_tried_again(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock
) -> None:
    @handlers.job("slow", restartable=False, timeout=5)
    async def slow(ctx: Context, value: None) -> None:
        await asyncio.Event().wait()

    engine.start()
    job_id = engine.submit(slow, None, tenant=ACME)
    await settled()
    engine.cancel(ACME, job_id)
    await clock.move(5)

    assert engine.job(ACME, job_id).status is Status.CANCELLED


# Forgetting


async def test_a_finished_job_is_forgotten_when_its_time_is_over_and_its_key_is_free(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, echo: Handler[str, str]
) -> None:
    @handlers.job("brief", restartable=False, ttl=timedelta(minutes=1))
    async def brief(ctx: Context, value: None) -> None: ...

    engine.start()
    long_kept = engine.submit(echo, "", tenant=ACME, key="k")
    soon_gone = engine.submit(brief, None, tenant=ACME, key="k")
    await clock.move(59)
    assert len(engine.list(ACME)) == 2
    await clock.move(1)

    assert (ACME, soon_gone) not in engine
    with pytest.raises(JobNotFound):
        engine.job(ACME, soon_gone)
    assert engine.submit(brief, None, tenant=ACME, key="k") != soon_gone
    assert engine.submit(echo, "", tenant=ACME, key="k") == long_kept
    await clock.move(14 * 86_400)
    assert engine.list(ACME) == []


async def test_only_so_many_finished_jobs_are_remembered(
    handlers: Handlers, clock: StillClock, echo: Handler[str, str]
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

    assert {job.job_id for job in engine.list(ACME)} == {waiting, *ids[2:]}


async def test_a_job_that_is_run_again_is_not_forgotten_meanwhile(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, wait: Handler[str, str]
) -> None:
    repaired: list[bool] = []

    @handlers.job("broken", restartable=False, ttl=timedelta(minutes=1))
    async def broken(ctx: Context, value: None) -> int | Refused:
        return 7 if repaired else Refused(JobError(code="CONFLICT", message="no"))

    engine.start()
    job_id = engine.submit(broken, None, tenant=ACME)
    await clock.move(50)
    blocking = engine.submit(wait, "", tenant=ACME)
    repaired.append(True)
    engine.redrive(ACME, job_id)
    assert engine.result_text(ACME, job_id)[:2] == (Status.QUEUED, None)
    await clock.move(3600)
    engine.cancel(ACME, blocking)
    await clock.move(10)

    assert engine.result_text(ACME, job_id)[:2] == (Status.SUCCEEDED, "7")
    await clock.move(60)
    assert (ACME, job_id) not in engine


async def test_a_job_is_run_again_only_where_there_is_room(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, wait: Handler[str, str]
) -> None:
    @handlers.job("broken", restartable=False)
    async def broken(ctx: Context, value: None) -> int | Refused:
        return Refused(JobError(code="CONFLICT", message="no"))

    engine.start()
    job_id = engine.submit(broken, None, tenant=ACME)
    await settled()
    for _ in range(4):
        engine.submit(wait, "", tenant=ACME)

    with pytest.raises(QueueFull):
        engine.redrive(ACME, job_id)
    assert engine.job(ACME, job_id).status is Status.FAILED


async def test_a_job_that_waits_for_a_worker_already_is_not_run_again(
    engine: MemoryEngine, wait: Handler[str, str]
) -> None:
    engine.start()
    _, waiting = [engine.submit(wait, "", tenant=ACME) for _ in range(2)]

    with pytest.raises(JobConflict, match="already waits for a worker") as conflict:
        engine.redrive(ACME, waiting)
    assert conflict.value.details == {"job_id": str(waiting), "status": "QUEUED"}
    assert engine.health().depth == 1


# Transactions, follow-ups and child processes


async def test_the_end_of_the_job_ends_its_transaction(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database
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

    job = engine.job(ACME, job_id)
    assert (job.status, job.attempts) == (Status.SUCCEEDED, 3)
    assert job.last_error is not None
    assert job.last_error.message == "OSError: the commit was refused"
    assert database.log == ["begin", "rollback", "begin", "begin", "commit"]
    assert same == [True, True, True]


async def test_a_commit_is_not_interrupted(handlers: Handlers, clock: StillClock) -> None:
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
    await settled()
    engine.cancel(ACME, job_id)
    await clock.move(60)
    assert engine.job(ACME, job_id).status is Status.RUNNING
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
        "transaction": "in-memory jobs have no database here",
        "compute": "in-memory jobs have no child processes here",
        "depends": "an in-memory job cannot depend on other jobs",
        "submit": "jobs of type `restartable` are restartable, and there is no database here to keep them",
    }


async def test_functions_that_compute_are_handed_to_child_processes(handlers: Handlers) -> None:
    class Processes:
        async def run(
            self, function: Callable[..., Any], arguments: tuple[Any, ...], *, told: HowFar | None = None
        ) -> Any:
            return function(*arguments)

    @handlers.job("compute", restartable=False)
    async def compute(ctx: Context, number: int) -> int:
        return await ctx.compute(abs, number)

    engine = MemoryEngine(handlers, processes=Processes())
    engine.start()
    job_id = engine.submit(compute, -7, tenant=ACME)
    await engine.wait(ACME, job_id)

    assert engine.result_text(ACME, job_id)[1] == "7"


async def test_restartable_follow_ups_are_handed_on_in_the_jobs_transaction(
    handlers: Handlers, clock: StillClock, database: Database
) -> None:
    @handlers.job("restartable")
    async def restartable(ctx: Context, number: int) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, number: int) -> None:
        await ctx.transaction()
        ctx.submit(restartable, number, key=f"k{ctx.attempt}", depends_on=[UUID(int=9)])

    async def forward(wishes: Sequence[Wish], ctx: Context) -> None:
        assert ctx.connection is not None
        database.log.append(" ".join(f"{wish.handler.type}({wish.payload}) {wish.key}" for wish in wishes))
        if ctx.attempt == 1:
            raise OSError("no")

    engine = MemoryEngine(handlers, clock=clock, transaction=database.transaction, forward=forward)
    engine.start()
    job_id = engine.submit(lead, 7, tenant=ACME)
    await clock.move(2)

    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "restartable(7) k1", "rollback", "begin", "restartable(7) k2", "commit"]


async def test_follow_ups_without_room_fail_the_attempt_and_undo_it(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database, echo: Handler[str, str]
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
    refused = engine.job(ACME, job_id)
    engine.cancel(ACME, delayed[0])
    engine.cancel(ACME, delayed[1])
    await clock.move(1)

    assert refused.last_error is not None
    assert (refused.status, refused.last_error.code) == (Status.QUEUED, "QUEUE_FULL")
    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "rollback", "begin", "commit"]
    assert len(engine.list(ACME, job_type="echo", status=Status.SUCCEEDED)) == 2


# Steps


async def test_a_step_is_committed_before_the_next_one_begins(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database
) -> None:
    async def one(ctx: Context, value: None) -> None:
        await ctx.transaction()
        database.log.append("one")

    async def two(ctx: Context, value: None) -> None:
        await ctx.transaction()
        database.log.append("two")
        if ctx.attempt == 1:
            raise OSError("no")

    handler = several_steps(handlers, "steps", one, two, restartable=False)
    engine.start()
    engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert database.log == ["begin", "one", "commit", "begin", "two", "rollback", "begin", "two", "commit"]


async def test_a_step_whose_commit_is_refused_is_run_again(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database, echo: Handler[str, str]
) -> None:
    async def one(ctx: Context, value: None) -> None:
        await ctx.transaction()
        ctx.submit(echo, "next")
        database.log.append("one")

    async def two(ctx: Context, value: None) -> None:
        database.log.append("two")

    handler = several_steps(handlers, "steps", one, two, restartable=False)
    database.refuses = 1
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert database.log == ["begin", "one", "begin", "one", "commit", "two"]
    assert len(engine.list(ACME, job_type="echo")) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_the_commit_of_a_step_is_not_interrupted_but_what_follows_is(
    handlers: Handlers, clock: StillClock, *, fails: bool
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
    handler = several_steps(handlers, "steps", one, two, restartable=False, timeout=5, retry=Retry(attempts=1))

    @handler.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        await asyncio.sleep(0)
        told.append(error.code)

    engine = MemoryEngine(handlers, clock=clock, transaction=slow, cancel_grace=1)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(60)
    assert (engine.job(ACME, job_id).status, ran) == (Status.RUNNING, ["one"])
    go_on.set()
    await settled()

    ended = engine.job(ACME, job_id)
    assert (ended.status, told) == (Status.DEAD_LETTER, ["JOB_TIMEOUT"])
    engine.redrive(ACME, job_id)
    await settled()
    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert ran == (["one", "failed", "one", "two"] if fails else ["one", "two"])


async def test_a_step_of_an_execution_that_was_left_behind_is_not_kept(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database
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

    handler = several_steps(handlers, "steps", one, two, restartable=False, timeout=5)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(60)
    free.set()
    await settled()

    assert (engine.result(ACME, job_id), ran) == (2, ["one 1", "one 2", "two 2"])
    assert database.log.count("commit") == 1


# Hooks that hang, handlers that do not listen


@pytest.mark.parametrize("listens", [True, False])
async def test_an_on_failure_that_hangs_does_not_keep_its_job(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, caplog: pytest.LogCaptureFixture, *, listens: bool
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
    await settled()

    assert engine.job(ACME, job_id).status is Status.FAILED
    assert (engine.health().active, calls) == (0, [1])
    assert "failed" in caplog.text if listens else "left behind" in caplog.text


async def test_an_execution_that_was_left_behind_can_write_nothing(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database
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
    succeeded = engine.result_text(ACME, job_id)
    free.set()
    await settled()

    assert succeeded[:2] == (Status.SUCCEEDED, '"second"')
    assert engine.result_text(ACME, job_id) == succeeded
    assert (refused, database.log) == (["JOB_LEASE_LOST"], ["begin", "rollback"])
    assert engine.job(ACME, job_id).progress is None


async def test_a_commit_that_comes_too_late_is_refused(
    handlers: Handlers, clock: StillClock, database: Database
) -> None:
    go_on = asyncio.Event()

    @handlers.job("restartable")
    async def restartable(ctx: Context, value: None) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, value: None) -> None:
        await ctx.transaction()
        ctx.submit(restartable, None)

    async def forward(wishes: Sequence[Wish], ctx: Context) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await go_on.wait()
        await asyncio.sleep(0)

    engine = MemoryEngine(handlers, clock=clock, transaction=database.transaction, forward=forward)
    engine.start()
    job_id = engine.submit(lead, None, tenant=ACME)
    stopping = asyncio.create_task(engine.stop(grace=0))
    await clock.move(60)
    await stopping
    await settled()

    assert engine.job(ACME, job_id).status is Status.CANCELLED
    assert database.log == ["begin", "rollback"]


# The end


async def test_stop_lets_running_jobs_finish_and_starts_no_more(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, echo: Handler[str, str]
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
    await settled()
    stopping = asyncio.create_task(engine.stop(grace=30))
    await clock.move(10)
    with pytest.raises(EngineStopped):
        engine.submit(echo, "", tenant=ACME)
    go_on.set()
    await stopping
    await engine.stop()

    assert engine.job(ACME, job_id).status is Status.SUCCEEDED
    assert len(lost := engine.list(ACME, status=Status.CANCELLED)) == 3
    assert {waiting, delayed} < {job.job_id for job in lost}
    assert all(job.attempts == 0 and job.last_error and job.last_error.message == LOST for job in lost)
    with pytest.raises(EngineStopped):
        engine.start()


@pytest.mark.parametrize("listens", [True, False])
async def test_what_does_not_finish_within_the_grace_period_is_lost_and_says_so(
    handlers: Handlers, engine: MemoryEngine, clock: StillClock, database: Database, *, listens: bool
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
    await settled()
    stopping = asyncio.create_task(engine.stop(grace=30))
    await clock.move(29)
    assert engine.job(ACME, job_id).status is Status.RUNNING
    await clock.move(11)
    await stopping
    free.set()
    await settled()

    job = engine.job(ACME, job_id)
    assert job.status is Status.CANCELLED
    assert job.last_error is not None
    assert (job.last_error.code, job.last_error.message) == ("JOB_CANCELLED", LOST)
    assert database.log == ["begin", "rollback"]


async def test_an_engine_whose_run_is_cancelled_ends_its_jobs(
    engine: MemoryEngine, clock: StillClock, wait: Handler[str, str]
) -> None:
    running = asyncio.create_task(engine.run())
    await settled()
    job_id = engine.submit(wait, "", tenant=ACME)
    await settled()
    running.cancel()
    await clock.move(1)

    with pytest.raises(asyncio.CancelledError):
        await running
    assert engine.job(ACME, job_id).status is Status.CANCELLED


async def test_run_ends_when_the_engine_is_stopped(engine: MemoryEngine) -> None:
    running = asyncio.create_task(engine.run())
    await settled()
    assert not running.done()

    await engine.stop()
    await running

    assert running.exception() is None


async def test_a_job_whose_task_is_ended_with_the_event_loop_is_lost(
    engine: MemoryEngine, wait: Handler[str, str]
) -> None:
    engine.start()
    job_id = engine.submit(wait, "", tenant=ACME)
    await settled()
    for task in asyncio.all_tasks():
        if task.get_name() == f"wait {job_id}":
            task.cancel()

    assert (await engine.wait(ACME, job_id)).status is Status.CANCELLED


async def test_every_job_is_counted(handlers: Handlers, clock: StillClock) -> None:
    metrics = Metrics()
    engine = MemoryEngine(handlers, metrics=metrics, clock=clock)

    @handlers.job("flaky", restartable=False)
    async def flaky(ctx: Context, value: None) -> None:
        if ctx.attempt == 1:
            raise OSError("no")

    engine.start()
    engine.submit(flaky, None, tenant=ACME)
    await clock.move(2)
    text = metrics.text().decode()

    for line in (
        'bpc_jobs_enqueued_total{type="flaky"} 1.0',
        'bpc_jobs_acquired_total{type="flaky"} 2.0',
        'bpc_job_retries_total{type="flaky"} 1.0',
        'bpc_jobs_running{type="flaky"} 0.0',
    ):
        assert line in text
