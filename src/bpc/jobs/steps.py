"""Jobs of several steps: each step's output is the next one's input, and a finished step is never run again.

    order = several_steps(handlers, "order", reserve, charge, ship)

After every step but the last, what it gave is written down, fenced like everything else and in one transaction with
what the step wrote and the jobs it wished for. An execution that finds such a note goes on behind it, with exactly
what is written there. So what a finished step did stays, even where a later one fails for good.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from bpc.jobs.context import Context, read_step_note
from bpc.jobs.errors import InvalidInput, JobConflict
from bpc.jobs.handler import Handler, Handlers, Refused, WrongOutput, adapter, dumped, says_of, signature_of
from bpc.jobs.outcome import Retry

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Step = Callable[[Context, A], Awaitable[B | Refused]]


@overload
def several_steps(
    handlers: Handlers,
    job_type: str,
    first: Step[A, B],
    second: Step[B, C],
    /,
    *,
    retry: Retry = ...,
    timeout: float | None = ...,
    ttl: timedelta | None = ...,
    restartable: bool = ...,
) -> Handler[A, C]: ...
@overload
def several_steps(
    handlers: Handlers,
    job_type: str,
    first: Step[A, B],
    second: Step[B, C],
    third: Step[C, D],
    /,
    *,
    retry: Retry = ...,
    timeout: float | None = ...,
    ttl: timedelta | None = ...,
    restartable: bool = ...,
) -> Handler[A, D]: ...
@overload
def several_steps(
    handlers: Handlers,
    job_type: str,
    /,
    *steps: Callable[[Context, Any], Awaitable[Any]],
    retry: Retry = ...,
    timeout: float | None = ...,
    ttl: timedelta | None = ...,
    restartable: bool = ...,
) -> Handler[Any, Any]: ...
def several_steps(
    handlers: Handlers,
    job_type: str,
    /,
    *steps: Callable[[Context, Any], Awaitable[Any]],
    retry: Retry = Retry(),  # noqa: B008 (frozen)
    timeout: float | None = 300.0,
    ttl: timedelta | None = None,
    restartable: bool = True,
) -> Handler[Any, Any]:
    """Register `steps` as the handler of `job_type`. The timeout is for all steps of one execution together."""
    types = [signature_of(step) for step in steps]
    links = _Links(
        job_type=job_type,
        takes=[adapter(given, restartable=restartable) for given, _ in types],
        gives=[adapter(made, restartable=restartable) for _, made in types],
        in_memory=not restartable,
    )

    async def run(ctx: Context, value: Any) -> Any:
        done = 0
        if ctx.step is not None:
            done, value = links.found(ctx, ctx.step)
        for at in range(done, len(steps)):
            value = await steps[at](ctx, value)
            if isinstance(value, Refused) or at == len(steps) - 1:
                return value
            value = await links.handed_on(ctx, at + 1, value)
        return value

    return handlers.add(
        Handler(
            job_type,
            run,
            given=links.takes[0],
            made=links.gives[-1],
            retry=retry,
            timeout=timeout,
            ttl=ttl,
            restartable=restartable,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """What is handed from step to step: JSON, so that it is the same whether the job was interrupted or not.

    In memory, it is the value itself.
    """

    job_type: str
    takes: list[TypeAdapter[Any]]
    gives: list[TypeAdapter[Any]]
    in_memory: bool

    async def handed_on(self, ctx: Context, done: int, value: Any) -> Any:
        """Write down what the step gave that makes it `done` steps, and return what the next one takes."""
        if self.in_memory:
            given = self._given(done, value)
            taken = self._taken(done, lambda takes: takes.validate_python(given))
            await ctx.save_step(done, "null", given)
            return taken
        text = dumped(self.gives[done - 1], value, self.job_type)
        taken = self._taken(done, lambda takes: takes.validate_json(text))
        await ctx.save_step(done, text)
        return taken

    def found(self, ctx: Context, note: str) -> tuple[int, Any]:
        """How many steps are done, and what the next one takes."""
        done, text = read_step_note(note)
        if done >= len(self.takes):
            raise JobConflict(
                f"{done} steps of this job are done, and `{self.job_type}` has only {len(self.takes)}",
                fix="run it where its handler has all its steps",
            )
        if self.in_memory:
            return done, self._taken(done, lambda takes: takes.validate_python(ctx.gave))
        return done, self._taken(done, lambda takes: takes.validate_json(text))

    def _given(self, done: int, value: Any) -> Any:
        try:
            return self.gives[done - 1].validate_python(value)
        except ValidationError as wrong:
            raise WrongOutput(self.job_type, says_of(wrong)) from None

    def _taken(self, done: int, read: Callable[[TypeAdapter[Any]], Any]) -> Any:
        try:
            return read(self.takes[done])
        except ValidationError as wrong:
            raise InvalidInput(
                f"step {done + 1} of `{self.job_type}` cannot take what step {done} gave: {says_of(wrong)}",
                fix="correct the steps or their annotations, then redrive the job",
            ) from None
