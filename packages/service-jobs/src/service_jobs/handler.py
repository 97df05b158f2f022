"""Handlers: a function with typed input and output, a name, and how its jobs are to be run.

    handlers = Handlers()

    @handlers.job("report", timeout=60)
    async def report(ctx: Context, month: Month) -> Report: ...

Input and output types are read from the annotations once, at registration; pydantic converts them from and to JSON.
An input that does not fit is refused when it is submitted, not when the job runs. Jobs in memory get their input as it
is: neither input nor output need be JSON.
"""

import inspect
import re
import types
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from service_jobs.context import Context
from service_jobs.job import (
    HandlerNotFound,
    InvalidInput,
    JobError,
    Retry,
    Subject,
)

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
O_co = TypeVar("O_co", covariant=True)
TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,99}")
TYPE_NAME_RULE: Final = "a job type has 1 to 100 letters, digits and . : _ -, and begins with a letter"
ALLOW_ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)


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
# Not of `I`: a decorator could not tell the type of its function any more.
SubjectReader = Callable[[Any], Subject | None]


class OutputReader(Protocol[O_co]):
    """What the result of a job is read with: its handler, whatever that takes.

    It is covariant, unlike `Handler`: where any object will do, as for `print`, the handler of a text is one of those.
    """

    def decode_output(self, text: str, /) -> O_co: ...


class Handler(Generic[I, O]):
    """One type of job. `Handlers.job` and `register_steps` create it."""

    __slots__ = (
        *("description", "failure_hook", "input_adapter", "output_adapter", "restartable", "retry", "run"),
        *("subject", "success_hook", "timeout", "ttl", "type"),
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
        subject: SubjectReader | None = None,
        description: str = "",
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
        self.subject = subject
        self.description = description
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

    def find_subject(self, value: I) -> Subject | None:
        """What a job with this input is about; None if the handler does not say."""
        return None if self.subject is None else self.subject(value)

    def find_subjects(self, values: Sequence[I]) -> list[Subject | None] | None:
        """The same for many inputs; None if the handler does not say."""
        return None if self.subject is None else [self.subject(value) for value in values]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeSpec:
    """How jobs of one type are run. Times are in seconds; without a `timeout` they may take as long as they like."""

    type: str
    description: str
    restartable: bool
    timeout: float | None
    max_attempts: int
    first_delay: float
    longest_delay: float
    keep_seconds: int


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
        subject: SubjectReader | None = None,
        description: str = "",
    ) -> Callable[[HandlerFunction[I, O]], Handler[I, O]]:
        """Register the decorated function as the handler of `job_type`.

        `subject` says what a job with some input is about, `description` what jobs of this type do.
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
                    subject=subject,
                    description=description,
                )
            )

        return register


def build_adapter(annotation: Any, *, restartable: bool) -> TypeAdapter[Any]:
    """The adapter that validates values of a type; for jobs in memory, of any Python type."""
    # Only classes: `int | str` equals `str | int`, but does not read the same values.
    build = _build_class_adapter if isinstance(annotation, type) else _build_adapter
    return build(annotation, restartable)


def _build_adapter(annotation: Any, restartable: bool) -> TypeAdapter[Any]:
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


# Building one takes milliseconds, and whoever declares the same jobs twice, as tests do, needs the same.
_build_class_adapter = lru_cache(maxsize=256)(_build_adapter)


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
