"""Helpers for tests of handlers: run a job inline and inspect everything it did; and clocks that a test moves.

    ran = await run_inline(report, Month(2027, 3))
    assert ran.output == … and ran.progress[-1]["percent"] == 100

There is no database, no worker and no waiting: the handler is called like any function, with a real `Context` whose
backend records every call. A handler that uses `ctx.transaction()` gets the connection of the test.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

import orjson

from service_jobs.child_process import listen_for_progress
from service_jobs.context import Connection, Context, Lease, ProgressCallback
from service_jobs.execution import call_failure_hook, execute, execute_in_memory, resolve_error
from service_jobs.handler import Handler
from service_jobs.job import Ending, JobConflict, JobError, JobsRefusal, Outcome, new_id
from service_jobs.job_spec import JobSpec, require_storable
from service_jobs.steps import encode_step_note

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
T = TypeVar("T")

TEST_TENANT: Final = UUID("00000000-0000-4000-8000-00000000face")
REPLACE_CLOCK: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION jobs.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
      SELECT clock_timestamp() + make_interval(secs => {seconds}) $$
"""


@dataclass(slots=True)
class InlineBackend:
    """Records what a job did."""

    connection: Connection | None = None
    checkpoints: list[Any] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    follow_ups: list[JobSpec] = field(default_factory=list)  # of steps that are done

    async def save(self, lease: Lease, column: str, text: str) -> bool:  # noqa: ARG002 (there is one job)
        values = {"checkpoint": self.checkpoints, "progress": self.progress}[column]
        values.append(orjson.loads(text))
        return True

    async def end_step(self, ctx: Context, text: str) -> bool:
        note = json.loads(text)  # orjson would round long numbers
        self.steps.append(note if ctx.step_output is None else note | {"gave": ctx.step_output})
        self.follow_ups += ctx.follow_ups
        ctx.follow_ups.clear()
        ctx.connection = None
        return True

    async def begin(self, ctx: Context) -> Connection:  # noqa: ARG002
        if self.connection is None:
            raise JobConflict("this handler needs a database", fix="pass one: run_inline(…, conn=conn)")
        return self.connection

    async def compute(
        self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: ProgressCallback | None
    ) -> T:
        with listen_for_progress(on_progress):
            return function(*arguments)

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        return require_storable(JobSpec.from_input(handler, value, **options))


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineRun(Generic[O]):
    """How one execution ended, and what it did."""

    ending: Ending
    error: JobError | None
    checkpoints: list[Any]
    progress: list[Any]
    steps: list[Any]
    follow_ups: list[JobSpec]
    retry_in: float
    _value: Any

    @property
    def output(self) -> O:
        """What the handler returned. Raises if it did not succeed."""
        if self.ending is not Ending.SUCCEEDED:
            raise JobsRefusal(f"the job ended {self.ending}: {self.error}")
        value: O = self._value
        return value


async def run_inline(
    handler: Handler[I, O],
    value: I,
    *,
    tenant: UUID = TEST_TENANT,
    attempt: int = 1,
    max_attempts: int = 5,
    checkpoint: Any = None,
    step: Mapping[str, Any] | None = None,
    conn: Connection | None = None,
    cancelled: bool = False,
) -> InlineRun[O]:
    """Run one execution of a job of `handler` now, with hooks, and return what it did.

    With `step`, which is one of the `steps` of another execution, it continues after that step.
    """
    backend = InlineBackend(connection=conn)
    lease = Lease(tenant, new_id(), handler.type, "inline", attempt)
    note = (
        None
        if step is None
        else encode_step_note(step["done"], json.dumps(step["gave"]) if handler.restartable else "null")
    )
    step_output = None if step is None else step["gave"]
    ctx = Context(backend, lease, max_attempts=max_attempts, checkpoint=checkpoint, step=note, step_output=step_output)
    if cancelled:
        ctx.request_cancel()
    outcome, output = await _execute_inline(handler, ctx, value)
    outcome = await _run_hooks(handler, ctx, outcome, output)
    return InlineRun(
        ending=outcome.ending,
        error=outcome.error,
        checkpoints=backend.checkpoints,
        progress=backend.progress,
        steps=backend.steps,
        follow_ups=backend.follow_ups + ctx.follow_ups,
        retry_in=outcome.delay,
        _value=output,
    )


async def _execute_inline(handler: Handler[Any, Any], ctx: Context, value: Any) -> tuple[Outcome, Any]:
    if not handler.restartable:
        return await execute_in_memory(handler, ctx, handler.validate_input(value))
    outcome = await execute(handler, ctx, handler.encode_input(value))
    return outcome, None if outcome.result is None else handler.decode_output(outcome.result)


async def _run_hooks(handler: Handler[Any, Any], ctx: Context, outcome: Outcome, output: Any) -> Outcome:
    """Call the hooks as the engines do: `on_success` can fail the execution, `on_failure` changes nothing."""
    if outcome.ending is Ending.SUCCEEDED and handler.success_hook is not None:
        try:
            await handler.success_hook(ctx, output)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a hook raises, its job ends)
            outcome = resolve_error(error, handler, ctx)
    if not outcome.keeps_effects:
        ctx.follow_ups.clear()
    if outcome.ending in {Ending.FAILED, Ending.DEAD_LETTER} and outcome.error is not None:
        await call_failure_hook(handler, ctx, outcome.error)
    return outcome


class FakeClock:
    """A clock for `MemoryEngine`: time passes only in `step`, which runs due timers in order."""

    def __init__(self, start: datetime = datetime(2027, 2, 18, tzinfo=UTC)) -> None:
        self._now = start
        self._timers: list[_FakeTimer] = []

    def now(self) -> datetime:
        return self._now

    def call_after(self, seconds: float, call: Callable[[], object]) -> "_FakeTimer":
        timer = _FakeTimer(self._now + timedelta(seconds=seconds), call)
        self._timers.append(timer)
        return timer

    def step(self, seconds: float) -> None:
        """Let `seconds` pass."""
        until = self._now + timedelta(seconds=seconds)
        while due := [timer for timer in self._timers if timer.at <= until]:
            first = min(due, key=lambda timer: timer.at)
            self._timers.remove(first)
            self._now = max(self._now, first.at)
            if not first.is_cancelled:
                first.call()
        self._now = until


class _FakeTimer:
    __slots__ = ("at", "call", "is_cancelled")

    def __init__(self, at: datetime, call: Callable[[], object]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


async def step_database_clock(conn: Connection, seconds: float) -> None:
    """Set the engine's clock in a test's own database `seconds` ahead (or behind); needs the owner of the tables."""
    await conn.execute(REPLACE_CLOCK.format(seconds=repr(float(seconds))))
