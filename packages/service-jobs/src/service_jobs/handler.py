"""Handlers: a function with typed input and output, a name, and how its jobs are to be run.

    handlers = Handlers()

    @handlers.job("report", timeout=60)
    async def report(ctx: Context, month: Month) -> Report: ...

Input and output types are read from the annotations once, at registration; pydantic converts them from and to JSON.
An input that does not fit is refused when it is submitted, not when the job runs. Jobs in memory get their input as it
is: neither input nor output need be JSON.
"""

import asyncio
import inspect
import logging
import re
import types
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from service_jobs.context import Context
from service_jobs.job import (
    CodedError,
    Ending,
    HandlerNotFound,
    InvalidInput,
    JobError,
    JobTimedOut,
    Outcome,
    Retry,
    build_cancellation,
    build_failure,
    build_rejection,
    build_success,
    get_retry_after,
)

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,99}")
TYPE_NAME_RULE: Final = "a job type has 1 to 100 letters, digits and . : _ -, and begins with a letter"
ALLOW_ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)

log = logging.getLogger(__name__)


def require_type_name(job_type: str) -> str:
    """Return `job_type`. Raises `InvalidInput` if it cannot name a type of job."""
    if not TYPE_NAME.fullmatch(job_type):
        raise InvalidInput(f"`{job_type[:100]}` is not a job type: {TYPE_NAME_RULE}")
    return job_type


@dataclass(frozen=True, slots=True)
class Rejection:
    """Returned by a handler to end its job FAILED at once; what the handler wrote is committed with it."""

    error: JobError

    @classmethod
    def from_exception(cls, reason: BaseException) -> "Rejection":
        return cls(JobError.from_exception(reason))


class InvalidOutput(InvalidInput):
    """The handler returned a value of another type than it declares; another attempt would not help."""

    def __init__(self, job_type: str, problems: str) -> None:
        super().__init__(
            f"the handler of `{job_type}` returned a value that is not of its declared type: {problems}",
            fix="correct the handler or its annotation, then redrive the job",
        )


HandlerFunction = Callable[[Context, I], Awaitable[O | Rejection]]
SuccessHook = Callable[[Context, O], Awaitable[None]]
FailureHook = Callable[[Context, JobError], Awaitable[None]]


class Handler(Generic[I, O]):
    """One type of job. `Handlers.job` and `register_steps` create it."""

    __slots__ = (
        *("failure_hook", "input_adapter", "output_adapter", "restartable", "retry", "run", "success_hook"),
        *("timeout", "ttl", "type"),
    )

    def __init__(
        self,
        job_type: str,
        run: HandlerFunction[I, O],
        *,
        input_adapter: TypeAdapter[I],
        output_adapter: TypeAdapter[O],
        retry: Retry,
        timeout: float | None,
        ttl: timedelta | None,
        restartable: bool,
    ) -> None:
        if not TYPE_NAME.fullmatch(job_type):
            raise ValueError(f"`{job_type}` is not a job type: {TYPE_NAME_RULE}")
        self.type = job_type
        self.run = run
        self.input_adapter = input_adapter
        self.output_adapter = output_adapter
        self.retry = retry
        self.timeout = timeout
        self.ttl = ttl
        self.restartable = restartable
        self.success_hook: SuccessHook[O] | None = None
        self.failure_hook: FailureHook | None = None

    def on_success(self, call: SuccessHook[O]) -> SuccessHook[O]:
        """Run `call` in the transaction that completes a job; if it raises, the execution has failed."""
        self.success_hook = call
        return call

    def on_failure(self, call: FailureHook) -> FailureHook:
        """Run `call` in the transaction that ends a job FAILED or DEAD_LETTER; if it raises, that is logged."""
        self.failure_hook = call
        return call

    def encode_input(self, value: I) -> str:
        """`value` as stored JSON. Raises `InvalidInput` naming every problem if this handler does not accept it."""
        try:
            return self.input_adapter.dump_json(self.input_adapter.validate_python(value)).decode()
        except ValidationError as wrong:
            raise self._build_invalid_input(wrong) from None
        except PydanticSerializationError as wrong:
            raise InvalidInput(f"the input of a `{self.type}` job cannot be stored: {wrong}") from None

    def encode_inputs(self, values: Iterable[I]) -> list[str]:
        """The same for many inputs, faster."""
        dump, validate = self.input_adapter.serializer.to_json, self.input_adapter.validator.validate_python
        try:
            return [dump(validate(value)).decode() for value in values]
        except (ValidationError, PydanticSerializationError):
            return [self.encode_input(value) for value in values]  # raises for the first that is wrong

    def validate_input(self, value: I) -> I:
        """`value` for a job in memory. Raises `InvalidInput` as `encode_input` does."""
        try:
            return self.input_adapter.validate_python(value)
        except ValidationError as wrong:
            raise self._build_invalid_input(wrong) from None

    def decode_input(self, text: str) -> I:
        try:
            return self.input_adapter.validate_json(text)
        except ValidationError as wrong:
            raise self._build_invalid_input(wrong) from None

    def encode_output(self, value: O) -> str:
        """What the handler returned, as stored JSON. Raises `InvalidOutput` if it is not of the declared type."""
        return dump_output(self.output_adapter, value, self.type)

    def validate_output(self, value: O) -> O:
        """What the handler of a job in memory returned. Raises `InvalidOutput` if it is not of the declared type."""
        return validate_output(self.output_adapter, value, self.type)

    def decode_output(self, text: str) -> O:
        return self.output_adapter.validate_json(text)

    def _build_invalid_input(self, error: ValidationError) -> InvalidInput:
        problems = list_problems(error, "input")
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return InvalidInput(
            f"this input is not valid for a `{self.type}` job: {first['at']}: {first['says']}{more}",
            fix="correct the input; the details list every problem",
            details={"type": self.type, "problems": problems},
        )


class Handlers:
    """The job types of a service."""

    def __init__(self) -> None:
        self._by_type: dict[str, Handler[Any, Any]] = {}

    def __getitem__(self, job_type: str) -> Handler[Any, Any]:
        if job_type not in self._by_type:
            raise HandlerNotFound(job_type)
        return self._by_type[job_type]

    def __contains__(self, job_type: object) -> bool:
        return job_type in self._by_type

    def __iter__(self) -> Iterator[Handler[Any, Any]]:
        return iter(self._by_type.values())

    def __len__(self) -> int:
        return len(self._by_type)

    @property
    def restartable_types(self) -> list[str]:
        return sorted(handler.type for handler in self if handler.restartable)

    def add(self, handler: Handler[I, O]) -> Handler[I, O]:
        if handler.type in self._by_type:
            raise ValueError(f"a handler for `{handler.type}` is already registered")
        self._by_type[handler.type] = handler
        return handler

    def job(
        self,
        job_type: str,
        *,
        retry: Retry = Retry(),  # noqa: B008 (frozen)
        timeout: float | None = 300.0,
        ttl: timedelta | None = None,
        restartable: bool = True,
    ) -> Callable[[HandlerFunction[I, O]], Handler[I, O]]:
        """Register the decorated function as the handler of `job_type`.

        Jobs of a handler with `restartable=False` run in the memory of the submitting process and end with it.
        """

        def register(run: HandlerFunction[I, O]) -> Handler[I, O]:
            input_type, output_type = read_signature(run)
            return self.add(
                Handler(
                    job_type,
                    run,
                    input_adapter=build_adapter(input_type, restartable=restartable),
                    output_adapter=build_adapter(output_type, restartable=restartable),
                    retry=retry,
                    timeout=timeout,
                    ttl=ttl,
                    restartable=restartable,
                )
            )

        return register


def build_adapter(annotation: Any, *, restartable: bool) -> TypeAdapter[Any]:
    """The adapter that validates values of a type; for jobs in memory, of any Python type."""
    if restartable:
        return TypeAdapter(annotation)
    try:
        return TypeAdapter(annotation, config=ALLOW_ANY_CLASS)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":  # models and dataclasses have their own config
            raise
    try:
        return TypeAdapter(annotation)
    except PydanticSchemaGenerationError:  # a dataclass with fields that pydantic does not know
        return TypeAdapter(InstanceOf[annotation])


def validate_output(output_adapter: TypeAdapter[O], value: O, job_type: str) -> O:
    """`value` as the adapter reads it. Raises `InvalidOutput` if it does not accept it."""
    try:
        return output_adapter.validate_python(value)
    except ValidationError as wrong:
        raise InvalidOutput(job_type, format_problems(wrong)) from None


def dump_output(output_adapter: TypeAdapter[O], value: O, job_type: str) -> str:
    """`value` as JSON. Raises `InvalidOutput` if the adapter does not accept it or JSON cannot express it."""
    try:
        return output_adapter.dump_json(validate_output(output_adapter, value, job_type)).decode()
    except PydanticSerializationError as wrong:
        raise InvalidOutput(job_type, str(wrong)) from None


def list_problems(error: ValidationError, root_name: str) -> list[dict[str, str]]:
    """Where and why each value is wrong, but never the value itself: it may be private."""
    return [
        {"at": ".".join(str(part) for part in problem["loc"]) or root_name, "says": problem["msg"]}
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def format_problems(error: ValidationError) -> str:
    """All problems of an output in one line."""
    return "; ".join(f"{problem['at']}: {problem['says']}" for problem in list_problems(error, "output"))


def read_signature(run: Callable[..., object]) -> tuple[Any, Any]:
    """The input and output types of `async def run(ctx, value: Input) -> Output`."""
    parameters = list(inspect.signature(run).parameters)
    name = getattr(run, "__qualname__", repr(run))
    if not inspect.iscoroutinefunction(run) or len(parameters) != 2:
        raise TypeError(f"`{name}` must be `async def {name}(ctx: Context, value: Input) -> Output`")
    hints: Mapping[str, Any] = get_type_hints(run, include_extras=True)
    if parameters[1] not in hints or "return" not in hints:
        raise TypeError(f"`{name}` needs annotations for `{parameters[1]}` and its return value")
    return hints[parameters[1]], _strip_rejection(hints["return"])


def _strip_rejection(annotation: Any) -> Any:
    if get_origin(annotation) not in {Union, types.UnionType}:
        return annotation
    return Union[tuple(part for part in get_args(annotation) if part is not Rejection)]  # noqa: UP007 (made at run time)


# One execution, in either engine: an input in, an outcome out, no exception but cancellation ------------------------


async def execute(handler: Handler[Any, Any], ctx: Context, payload: str) -> Outcome:
    """Run the handler once. `asyncio.CancelledError` passes through: only the canceller knows why."""
    try:
        value = handler.decode_input(payload)
    except InvalidInput as input_error:
        _log_error(input_error, ctx)
        return build_rejection(JobError.from_exception(input_error))
    try:
        output = await handler.run(ctx, value)
        if isinstance(output, Rejection):
            return build_rejection(output.error, keeps_effects=True)
        return build_success(handler.encode_output(output))
    except asyncio.CancelledError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a handler raises, its job ends)
        return resolve_error(error, handler, ctx)


async def execute_in_memory(handler: Handler[Any, Any], ctx: Context, value: Any) -> tuple[Outcome, Any]:
    """The same without JSON: the handler gets `value` itself, and its output is returned with the outcome."""
    try:
        output = await handler.run(ctx, value)
        if isinstance(output, Rejection):
            return build_rejection(output.error, keeps_effects=True), None
        return Outcome(ending=Ending.SUCCEEDED, keeps_effects=True), handler.validate_output(output)
    except asyncio.CancelledError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a handler raises, its job ends)
        return resolve_error(error, handler, ctx), None


def resolve_error(error: BaseException, handler: Handler[Any, Any], ctx: Context) -> Outcome:
    """The outcome of an error of the handler, which is logged unless the job was cancelled."""
    if ctx.cancel_requested:
        return build_cancellation()
    _log_error(error, ctx)
    return resolve_failure(JobError.from_exception(error), handler, ctx, min_delay=get_retry_after(error))


def resolve_timeout(seconds: float, handler: Handler[Any, Any], ctx: Context) -> Outcome:
    """The outcome of an execution that took longer than `seconds`."""
    error = JobTimedOut(f"the job took longer than its timeout of {seconds:g} s")
    return resolve_failure(JobError.from_exception(error), handler, ctx)


def resolve_failure(error: JobError, handler: Handler[Any, Any], ctx: Context, *, min_delay: float = 0.0) -> Outcome:
    """The outcome of an execution that failed: the job runs again or is over; see `build_failure`."""
    return build_failure(
        error, attempt=ctx.attempt, max_attempts=ctx.max_attempts, retry=handler.retry, min_delay=min_delay
    )


async def call_failure_hook(
    handler: Handler[Any, Any],
    ctx: Context,
    error: JobError,
    guard: AbstractAsyncContextManager[object] | None = None,
) -> bool:
    """Call `on_failure` inside `guard`, such as a savepoint. If it raises, log that and drop what it submitted.

    Returns False if it raised. `asyncio.CancelledError` passes through.
    """
    if handler.failure_hook is None:
        return True
    follow_ups = list(ctx.follow_ups)
    try:
        async with guard or nullcontext():
            await handler.failure_hook(ctx, error)
    except (Exception, SystemExit) as hook_error:
        ctx.follow_ups[:] = follow_ups
        log.error("on_failure failed", exc_info=hook_error, extra=build_log_fields(ctx))
        return False
    return True


def build_log_fields(ctx: Context) -> dict[str, object]:
    return {
        "tenant_id": str(ctx.tenant),
        "job_id": str(ctx.job_id),
        "job_type": ctx.type,
        "attempt": ctx.attempt,
        "correlation_id": ctx.correlation_id,
    }


def _log_error(error: BaseException, ctx: Context) -> None:
    fields = build_log_fields(ctx)
    if isinstance(error, CodedError):
        job_error = JobError.from_exception(error)
        log.warning("job %s failed with %s: %s", ctx.job_id, job_error.code, job_error.message, extra=fields)
    else:
        log.warning("job %s failed", ctx.job_id, exc_info=error, extra=fields)
