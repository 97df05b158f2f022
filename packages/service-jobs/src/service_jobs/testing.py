"""Helpers for tests of handlers: run a job now, inline, and look at everything it did; and a clock to step.

    ran = await run_inline(report, Month(2027, 3))
    assert ran.output == … and ran.progress[-1]["percent"] == 100

No database, no worker, no waiting: the handler is called like any function, with a real `Context` behind which stands a
notebook. A handler that uses `ctx.transaction()` is given the connection of the test.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

import orjson

from bpc.jobs.attempt import after, execute, execute_in_memory
from bpc.jobs.context import Connection, Context, Held, HowFar, Wish, step_note
from bpc.jobs.errors import JobConflict, JobError, JobsRefusal
from bpc.jobs.handler import Handler
from bpc.jobs.ids import new_id
from bpc.jobs.outcome import Ending, Outcome
from bpc.jobs.processes import listening
from bpc.jobs.submitting import checked

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
T = TypeVar("T")

log = logging.getLogger(__name__)

TENANT: Final = UUID("00000000-0000-4000-8000-00000000face")
REPLACE: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION jobs.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
      SELECT clock_timestamp() + make_interval(secs => {seconds}) $$
"""


@dataclass(slots=True)
class Notebook:
    """What a job did, written down instead of stored."""

    connection: Connection | None = None
    checkpoints: list[Any] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    follow_ups: list[Wish] = field(default_factory=list)  # of steps that are done

    async def save(self, held: Held, column: str, text: str) -> bool:  # noqa: ARG002 (there is one job)
        kept = {"checkpoint": self.checkpoints, "progress": self.progress}[column]
        kept.append(orjson.loads(text))
        return True

    async def end_step(self, ctx: Context, text: str) -> bool:
        note = json.loads(text)  # which, other than orjson, keeps numbers of any length
        self.steps.append(note if ctx.gave is None else note | {"gave": ctx.gave})
        self.follow_ups += ctx.follow_ups
        ctx.follow_ups.clear()
        ctx.connection = None
        return True

    async def begin(self, ctx: Context) -> Connection:  # noqa: ARG002
        if self.connection is None:
            raise JobConflict("this handler needs a database", fix="give one: run_inline(…, conn=conn)")
        return self.connection

    async def compute(
        self,
        ctx: Context,  # noqa: ARG002
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        told: HowFar | None,
    ) -> T:
        with listening(told):
            return function(*arguments)

    def wish(self, ctx: Context, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:  # noqa: ARG002
        return checked(Wish.of(handler, value, **how))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(Generic[O]):
    """How one execution ended, and what it did on the way."""

    ending: Ending
    error: JobError | None
    checkpoints: list[Any]
    progress: list[Any]
    steps: list[Any]
    follow_ups: list[Wish]
    retry_in: float
    _made: Any

    @property
    def output(self) -> O:
        """What the handler returned. Raises with its error if it did not succeed."""
        if self.ending is not Ending.SUCCEEDED:
            raise JobsRefusal(f"the job ended {self.ending}: {self.error}")
        made: O = self._made
        return made


async def run_inline(
    handler: Handler[I, O],
    value: I,
    *,
    tenant: UUID = TENANT,
    attempt: int = 1,
    max_attempts: int = 5,
    checkpoint: Any = None,
    step: Mapping[str, Any] | None = None,
    conn: Connection | None = None,
    cancelled: bool = False,
) -> Ran[O]:
    """Run one execution of a job of `handler` now, with hooks, and return what it did.

    It goes on behind `step`, which is one of the `steps` of another execution.
    """
    notebook = Notebook(connection=conn)
    held = Held(tenant, new_id(), handler.type, "inline", attempt)
    note = (
        None if step is None else step_note(step["done"], json.dumps(step["gave"]) if handler.restartable else "null")
    )
    gave = None if step is None else step["gave"]
    ctx = Context(notebook, held, max_attempts=max_attempts, checkpoint=checkpoint, step=note, gave=gave)
    if cancelled:
        ctx.request_cancel()
    outcome, made = await _executed(handler, ctx, value)
    outcome = await _with_hooks(handler, ctx, outcome, made)
    return Ran(
        ending=outcome.ending,
        error=outcome.error,
        checkpoints=notebook.checkpoints,
        progress=notebook.progress,
        steps=notebook.steps,
        follow_ups=notebook.follow_ups + ctx.follow_ups,
        retry_in=outcome.delay,
        _made=made,
    )


async def _executed(handler: Handler[Any, Any], ctx: Context, value: Any) -> tuple[Outcome, Any]:
    if not handler.restartable:
        return await execute_in_memory(handler, ctx, handler.input_value(value))
    outcome = await execute(handler, ctx, handler.input_text(value))
    return outcome, None if outcome.result is None else handler.read_output(outcome.result)


async def _with_hooks(handler: Handler[Any, Any], ctx: Context, outcome: Outcome, made: Any) -> Outcome:
    """What the engines make of it: `on_success` can fail the execution, `on_failure` changes nothing."""
    if outcome.ending is Ending.SUCCEEDED and handler.success is not None:
        try:
            await handler.success(ctx, made)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it does, its job ends in order)
            outcome = after(error, handler, ctx)
    if not outcome.keeps_effects:
        ctx.follow_ups.clear()
    if outcome.ending in {Ending.FAILED, Ending.DEAD_LETTER} and outcome.error is not None:
        await _tell_failure(handler, ctx, outcome.error)
    return outcome


async def _tell_failure(handler: Handler[Any, Any], ctx: Context, error: JobError) -> None:
    wished = list(ctx.follow_ups)
    try:
        if handler.failure is not None:
            await handler.failure(ctx, error)
    except (Exception, SystemExit):
        log.exception("on_failure failed", extra={"job_id": str(ctx.job_id), "job_type": handler.type})
        ctx.follow_ups[:] = wished


class FakeClock:
    """The clock of a `MemoryEngine`: time passes only in `step`, and what is due then happens in order."""

    def __init__(self, start: datetime = datetime(2027, 2, 18, tzinfo=UTC)) -> None:
        self._now = start
        self._timers: list[_Timer] = []

    def now(self) -> datetime:
        return self._now

    def after(self, seconds: float, call: Callable[[], object]) -> "_Timer":
        timer = _Timer(self._now + timedelta(seconds=seconds), call)
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


class _Timer:
    __slots__ = ("at", "call", "is_cancelled")

    def __init__(self, at: datetime, call: Callable[[], object]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


async def step_database_clock(conn: Connection, seconds: float) -> None:
    """Set the engine's clock in a test's own database `seconds` ahead (or behind); needs the owner of the tables."""
    await conn.execute(REPLACE.format(seconds=repr(float(seconds))))
