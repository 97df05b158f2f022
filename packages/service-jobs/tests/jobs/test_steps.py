"""Jobs of several steps, without an engine: what is written down between them, and how they go on behind it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer
from service_jobs.context import Context, Lease
from service_jobs.execution import execute
from service_jobs.handler import Handler, Handlers, Rejection
from service_jobs.job import Ending, JobConflict, JobError, LeaseLost, Outcome, new_id
from service_jobs.steps import decode_step_note, encode_step_note, register_steps
from service_jobs.testing import TEST_TENANT, InlineBackend, run_inline


class StepBackend(InlineBackend):
    """Keeps the notes as they are written, and may lose the lease."""

    def __init__(self, *, loses: bool = False) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.loses = loses

    async def end_step(self, ctx: Context, text: str) -> bool:
        if self.loses:
            return False
        self.notes.append(text)
        return await super().end_step(ctx, text)


async def run_handler(handler: Handler[Any, Any], value: Any, store: StepBackend, step: str | None = None) -> Outcome:
    lease = Lease(TEST_TENANT, new_id(), handler.type, "somebody", 1)
    return await execute(handler, Context(store, lease, max_attempts=5, step=step), handler.encode_input(value))


class Order(BaseModel):
    """What its JSON says is more than its fields."""

    at: datetime
    parts: tuple[int, ...]
    weights: frozenset[float]


ORDER = Order(
    at=datetime(2027, 2, 18, 12, 0, 0, 123456, UTC), parts=(1, 2**80, -(2**63)), weights=frozenset({0.1, 1e300})
)


def failing_once() -> Callable[[], None]:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no")

    return fail


# What is written down


@pytest.mark.parametrize("gave", ["1", '"}"', '{"gave":{"done":1}}', '[",\\"gave\\":", "\\u0000"]', "null", "{}"])
def test_a_note_is_read_to_the_letter(gave: str) -> None:
    assert decode_step_note(encode_step_note(12, gave)) == (12, gave)


async def test_a_step_goes_on_with_what_it_would_have_had_without_the_interruption(handlers: Handlers) -> None:
    seen: list[Order] = []
    fail = failing_once()

    async def one(ctx: Context, value: None) -> Order:
        return ORDER

    async def two(ctx: Context, order: Order) -> bool:
        seen.append(order)
        fail()
        return True

    handler = register_steps(handlers, "order", one, two)
    store = StepBackend()
    first = await run_handler(handler, None, store)
    again = await run_handler(handler, None, store, step=store.notes[-1])

    assert (first.ending, again.ending) == (Ending.RETRY, Ending.SUCCEEDED)
    assert seen == [ORDER, ORDER]
    assert len(store.notes) == 1


async def test_a_step_is_given_what_was_written_even_if_nothing_went_wrong(handlers: Handlers) -> None:
    seen: list[float] = []

    async def one(ctx: Context, value: None) -> Annotated[float, PlainSerializer(math.floor)]:
        return 2.5

    async def two(ctx: Context, number: float) -> None:
        seen.append(number)

    await run_handler(register_steps(handlers, "order", one, two), None, StepBackend())

    assert seen == [2]


async def test_what_a_step_gives_is_checked_before_it_is_written(handlers: Handlers) -> None:
    async def one(ctx: Context, value: None) -> Order:
        return {"at": "secret"}  # type: ignore[return-value]

    async def two(ctx: Context, order: Order) -> None: ...

    store = StepBackend()
    outcome = await run_handler(register_steps(handlers, "order", one, two), None, store)

    assert outcome.error is not None
    assert (outcome.ending, outcome.error.code, store.notes) == (Ending.FAILED, "VALIDATION_ERROR", [])
    assert "parts: Field required" in outcome.error.message
    assert "secret" not in outcome.error.message


async def test_what_the_next_step_cannot_take_is_not_written(handlers: Handlers) -> None:
    async def one(ctx: Context, value: None) -> str:
        return "many"

    async def two(ctx: Context, number: int) -> None: ...

    store = StepBackend()
    handler = register_steps(handlers, "order", one, two)
    outcome = await run_handler(handler, None, store)

    assert outcome.error is not None
    assert (outcome.ending, store.notes) == (Ending.FAILED, [])
    assert outcome.error.message.startswith("step 2 of `order` does not accept the output of step 1")


async def test_a_note_of_steps_that_are_there_no_more_is_refused_for_good(handlers: Handlers) -> None:
    async def one(ctx: Context, value: None) -> None: ...

    async def two(ctx: Context, value: None) -> None: ...

    outcome = await run_handler(
        register_steps(handlers, "order", one, two), None, StepBackend(), step=encode_step_note(2, "null")
    )

    assert outcome.ending is Ending.FAILED
    assert outcome.error == JobError.from_exception(
        JobConflict(
            "2 steps of this job are done, and `order` has only 2", fix="run it with a handler that has all its steps"
        )
    )


async def test_a_step_whose_lease_is_lost_is_the_last_one(handlers: Handlers) -> None:
    ran: list[str] = []

    async def one(ctx: Context, value: None) -> None: ...

    async def two(ctx: Context, value: None) -> None:
        ran.append("two")

    outcome = await run_handler(register_steps(handlers, "order", one, two), None, StepBackend(loses=True))

    assert outcome.error == JobError.from_exception(LeaseLost())
    assert ran == []


# Inline


@dataclass
class Thing:
    """Not JSON, because of what it holds."""

    held: object


async def test_follow_ups_of_finished_steps_are_kept_where_a_later_one_fails(handlers: Handlers) -> None:
    @handlers.job("follow")
    async def follow(ctx: Context, name: str) -> None: ...

    async def one(ctx: Context, number: int) -> int:
        ctx.submit(follow, "one")
        return number + 1

    async def two(ctx: Context, number: int) -> int:
        ctx.submit(follow, "two")
        raise OSError("no")

    handler = register_steps(handlers, "order", one, two)
    ran = await run_inline(handler, 1)
    again = await run_inline(handler, 1, step=ran.steps[-1], attempt=2)

    assert [spec.payload for spec in ran.follow_ups] == ['"one"']
    assert (ran.steps, again.steps, again.follow_ups) == ([{"done": 1, "gave": 2}], [], [])


async def test_a_refusal_in_the_middle_ends_the_job_and_keeps_what_it_wished_for(handlers: Handlers) -> None:
    @handlers.job("follow")
    async def follow(ctx: Context, name: str) -> None: ...

    async def one(ctx: Context, number: int) -> int | Rejection:
        ctx.submit(follow, "one")
        return Rejection.from_exception(JobConflict("no"))

    async def two(ctx: Context, number: int) -> int:
        return number

    ran = await run_inline(register_steps(handlers, "order", one, two), 1)

    assert (ran.ending, ran.steps, len(ran.follow_ups)) == (Ending.FAILED, [], 1)


@pytest.mark.parametrize("restartable", [True, False])
async def test_an_execution_goes_on_behind_the_steps_of_another(handlers: Handlers, *, restartable: bool) -> None:
    ran: list[str] = []

    async def one(ctx: Context, number: int) -> int:
        ran.append("one")
        return number**80

    async def two(ctx: Context, number: int) -> int:
        ran.append("two")
        return number + 1

    async def three(ctx: Context, number: int) -> int:
        ran.append("three")
        return number + 1

    handler = register_steps(handlers, "order", one, two, three, restartable=restartable)
    first = await run_inline(handler, 2)
    again = await run_inline(handler, 2, step=first.steps[0])

    assert first.steps == [{"done": 1, "gave": 2**80}, {"done": 2, "gave": 2**80 + 1}]
    assert first.output == again.output == 2**80 + 2
    assert ran == ["one", "two", "three", "two", "three"]


async def test_in_memory_the_next_step_is_given_the_thing_itself(handlers: Handlers) -> None:
    thing = Thing(object())

    async def one(ctx: Context, value: Thing) -> Thing:
        return value

    async def two(ctx: Context, value: Thing) -> Thing:
        return value

    handler = register_steps(handlers, "order", one, two, restartable=False)
    ran = await run_inline(handler, thing)
    again = await run_inline(handler, thing, step=ran.steps[0])

    assert ran.output is thing
    assert again.output is thing


async def test_a_step_may_have_a_transaction_of_its_own(handlers: Handlers) -> None:
    opened: list[bool] = []

    async def one(ctx: Context, value: None) -> None:
        await ctx.transaction()

    async def two(ctx: Context, value: None) -> None:
        opened.append(ctx.connection is not None)
        await ctx.save_checkpoint({"may": "be saved, as no transaction is open"})

    connection: Any = object()
    ran = await run_inline(register_steps(handlers, "order", one, two), None, conn=connection)

    assert (ran.ending, opened) == (Ending.SUCCEEDED, [False])


async def test_a_reader_of_progress_sees_when_it_was_said(handlers: Handlers) -> None:
    @handlers.job("work")
    async def work(ctx: Context, value: None) -> None:
        await ctx.report_progress(40, "almost half")

    ran = await run_inline(work, None)

    [progress] = ran.progress
    assert (progress["percent"], progress["message"]) == (40, "almost half")
    said = datetime.fromisoformat(progress["updated_at"])
    assert said.utcoffset() == timedelta(0)
