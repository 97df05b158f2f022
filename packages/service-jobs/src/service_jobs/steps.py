"""Jobs of several steps: each step's output is the next one's input, and a finished step never runs again.

    order = register_steps(handlers, "order", reserve, charge, ship)

After every step but the last, its output is stored in a note, fenced like every write and in one transaction with
what the step wrote and the jobs it submitted. The next execution continues after the last note, with the stored
output. So what a finished step did stays, even if a later step fails for good.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from pydantic import TypeAdapter, ValidationError

from service_jobs.context import Context
from service_jobs.handler import (
    Handler,
    Handlers,
    Rejection,
    SubjectReader,
    build_adapter,
    dump_output,
    format_problems,
    read_signature,
    validate_output,
)
from service_jobs.job import InvalidInput, JobConflict, Retry

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Step = Callable[[Context, A], Awaitable[B | Rejection]]
AnyStep: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class HandlerOptions(TypedDict, total=False):
    """The options of `register_steps`: those of `Handlers.job`. The timeout is for all steps of one execution."""

    retry: Retry
    timeout: float | None
    ttl: timedelta | None
    restartable: bool
    subject: SubjectReader | None
    description: str


def encode_step_note(done: int, output_json: str) -> str:
    """The stored note that `done` steps are finished and that the last one returned `output_json`."""
    return f'{{"done":{done},"gave":{output_json}}}'


def decode_step_note(note: str) -> tuple[int, str]:
    """What `encode_step_note` was called with; the JSON is returned byte for byte."""
    done, output_json = note.removeprefix('{"done":').removesuffix("}").split(',"gave":', 1)
    return int(done), output_json


@overload
def register_steps(
    handlers: Handlers, job_type: str, first: Step[A, B], second: Step[B, C], /, **options: Unpack[HandlerOptions]
) -> Handler[A, C]: ...
@overload
def register_steps(
    handlers: Handlers,
    job_type: str,
    first: Step[A, B],
    second: Step[B, C],
    third: Step[C, D],
    /,
    **options: Unpack[HandlerOptions],
) -> Handler[A, D]: ...
@overload
def register_steps(
    handlers: Handlers, job_type: str, /, *steps: AnyStep, **options: Unpack[HandlerOptions]
) -> Handler[Any, Any]: ...
def register_steps(
    handlers: Handlers, job_type: str, /, *steps: AnyStep, **options: Unpack[HandlerOptions]
) -> Handler[Any, Any]:
    """Register `steps` as the handler of `job_type`."""
    restartable = options.get("restartable", True)
    types = [read_signature(step) for step in steps]
    links = _StepLinks(
        job_type=job_type,
        input_adapters=[build_adapter(input_type, restartable=restartable) for input_type, _ in types],
        output_adapters=[build_adapter(output_type, restartable=restartable) for _, output_type in types],
        in_memory=not restartable,
    )

    async def run(ctx: Context, value: Any) -> Any:
        done = 0
        if ctx.step is not None:
            done, value = links.resume_from(ctx, ctx.step)
        for at in range(done, len(steps)):
            value = await steps[at](ctx, value)
            if isinstance(value, Rejection) or at == len(steps) - 1:
                return value
            value = await links.save_and_pass_on(ctx, at + 1, value)
        return value

    return handlers.add(
        Handler(
            job_type,
            run,
            input_adapter=links.input_adapters[0],
            output_adapter=links.output_adapters[-1],
            retry=options.get("retry", Retry()),
            timeout=options.get("timeout", 300.0),
            ttl=options.get("ttl"),
            restartable=restartable,
            subject=options.get("subject"),
            description=options.get("description", ""),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepLinks:
    """What one step passes to the next: JSON, so that an interruption makes no difference; in memory, the value."""

    job_type: str
    input_adapters: list[TypeAdapter[Any]]
    output_adapters: list[TypeAdapter[Any]]
    in_memory: bool

    async def save_and_pass_on(self, ctx: Context, done: int, value: Any) -> Any:
        """Store the output of step number `done`, and return the input of the next step."""
        if self.in_memory:
            output = validate_output(self.output_adapters[done - 1], value, self.job_type)
            next_input = self._read_input(done, lambda takes: takes.validate_python(output))
            await ctx.save_step(encode_step_note(done, "null"), output)
            return next_input
        text = dump_output(self.output_adapters[done - 1], value, self.job_type)
        next_input = self._read_input(done, lambda takes: takes.validate_json(text))
        await ctx.save_step(encode_step_note(done, text))
        return next_input

    def resume_from(self, ctx: Context, note: str) -> tuple[int, Any]:
        """The number of finished steps, and the input of the next one."""
        done, text = decode_step_note(note)
        if done >= len(self.input_adapters):
            raise JobConflict(
                f"{done} steps of this job are done, and `{self.job_type}` has only {len(self.input_adapters)}",
                fix="run it with a handler that has all its steps",
            )
        if self.in_memory:
            return done, self._read_input(done, lambda takes: takes.validate_python(ctx.step_output))
        return done, self._read_input(done, lambda takes: takes.validate_json(text))

    def _read_input(self, done: int, read: Callable[[TypeAdapter[Any]], Any]) -> Any:
        try:
            return read(self.input_adapters[done])
        except ValidationError as error:
            raise InvalidInput(
                f"step {done + 1} of `{self.job_type}` does not accept the output of step {done}: "
                f"{format_problems(error)}",
                fix="correct the steps or their annotations, then redrive the job",
            ) from None
