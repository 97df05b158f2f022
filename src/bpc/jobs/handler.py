"""Handlers: a function with typed input and output, a name, and how its jobs are to be run.

    handlers = Handlers()

    @handlers.job("report", timeout=60)
    async def report(ctx: Context, month: Month) -> Report: ...

Input and output types are read from the annotations once, here; pydantic turns JSON into them and back. What does
not fit is refused when it is submitted, not when it runs. Jobs in memory are handed their input as it is: it need not
be anything that JSON could say, and neither need what they make.
"""

import inspect
import re
import types
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from bpc.jobs.context import Context
from bpc.jobs.errors import HandlerNotFound, InvalidInput, JobError
from bpc.jobs.outcome import Retry

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,99}")
ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True)
class Refused:
    """Returned by a handler that refuses for good: what it wrote is committed together with FAILED."""

    error: JobError

    @classmethod
    def because(cls, reason: BaseException) -> "Refused":
        return cls(JobError.of(reason))


class WrongOutput(InvalidInput):
    """The handler's own mistake: trying again would make it again."""

    def __init__(self, job_type: str, why: str) -> None:
        super().__init__(
            f"the handler of `{job_type}` returned something that is not of the type it declares: {why}",
            fix="correct the handler or its annotation, then redrive the job",
        )


Run = Callable[[Context, I], Awaitable[O | Refused]]
OnSuccess = Callable[[Context, O], Awaitable[None]]
OnFailure = Callable[[Context, JobError], Awaitable[None]]


class Handler(Generic[I, O]):
    """One type of job. Made by `Handlers.job` or `Handlers.steps`."""

    __slots__ = (
        "failure",
        "given",
        "made",
        "restartable",
        "retry",
        "run",
        "success",
        "timeout",
        "ttl",
        "type",
    )

    def __init__(
        self,
        job_type: str,
        run: Run[I, O],
        *,
        given: TypeAdapter[I],
        made: TypeAdapter[O],
        retry: Retry,
        timeout: float | None,
        ttl: timedelta | None,
        restartable: bool,
    ) -> None:
        if not TYPE_NAME.fullmatch(job_type):
            raise ValueError(f"`{job_type}` cannot name a type of job: letters, digits and . : _ - only, at most 100")
        self.type = job_type
        self.run = run
        self.given = given
        self.made = made
        self.retry = retry
        self.timeout = timeout
        self.ttl = ttl
        self.restartable = restartable
        self.success: OnSuccess[O] | None = None
        self.failure: OnFailure | None = None

    def on_success(self, call: OnSuccess[O]) -> OnSuccess[O]:
        """Run `call` in the transaction that completes a job; if it raises, the execution has failed."""
        self.success = call
        return call

    def on_failure(self, call: OnFailure) -> OnFailure:
        """Run `call` in the transaction that ends a job FAILED or DEAD_LETTER; if it raises, that is logged."""
        self.failure = call
        return call

    def input_text(self, value: I) -> str:
        """`value` as it is stored, if it is what this handler takes. Raises `InvalidInput` naming every problem."""
        try:
            return self.given.dump_json(self.given.validate_python(value)).decode()
        except ValidationError as wrong:
            raise self._invalid(wrong) from None
        except PydanticSerializationError as wrong:
            raise InvalidInput(f"the input of a `{self.type}` job cannot be stored: {wrong}") from None

    def input_texts(self, values: Iterable[I]) -> list[str]:
        """Many inputs at once."""
        dump, validate = self.given.serializer.to_json, self.given.validator.validate_python
        try:
            return [dump(validate(value)).decode() for value in values]
        except (ValidationError, PydanticSerializationError):
            return [self.input_text(value) for value in values]  # says which, and why

    def input_value(self, value: I) -> I:
        """`value` for a job in memory, if it is what this handler takes. Raises `InvalidInput` as `input_text` does."""
        try:
            return self.given.validate_python(value)
        except ValidationError as wrong:
            raise self._invalid(wrong) from None

    def read_input(self, text: str) -> I:
        try:
            return self.given.validate_json(text)
        except ValidationError as wrong:
            raise self._invalid(wrong) from None

    def output_text(self, value: O) -> str:
        """What the handler made, as it is stored. Raises if it is not what its annotation says."""
        return dumped(self.made, value, self.type)

    def output_value(self, value: O) -> O:
        """What the handler of a job in memory made. Raises if it is not what its annotation says."""
        try:
            return self.made.validate_python(value)
        except ValidationError as wrong:
            raise WrongOutput(self.type, says_of(wrong)) from None

    def read_output(self, text: str) -> O:
        return self.made.validate_json(text)

    def _invalid(self, wrong: ValidationError) -> InvalidInput:
        problems = problems_of(wrong, "input")
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return InvalidInput(
            f"a `{self.type}` job cannot be made of this input: {first['at']}: {first['says']}{more}",
            fix="correct the input; the details list every problem",
            details={"type": self.type, "problems": problems},
        )


class Handlers:
    """The types of jobs a service knows."""

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
            raise ValueError(f"there is a handler for `{handler.type}` already")
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
    ) -> Callable[[Run[I, O]], Handler[I, O]]:
        """Register the decorated function as the handler of `job_type`.

        A handler that is not `restartable` runs in the memory of the process that submitted it, and ends with it.
        """

        def registered(run: Run[I, O]) -> Handler[I, O]:
            given, made = signature_of(run)
            return self.add(
                Handler(
                    job_type,
                    run,
                    given=adapter(given, restartable=restartable),
                    made=adapter(made, restartable=restartable),
                    retry=retry,
                    timeout=timeout,
                    ttl=ttl,
                    restartable=restartable,
                )
            )

        return registered


def adapter(annotation: Any, *, restartable: bool) -> TypeAdapter[Any]:
    """What checks values of a type: one that JSON can say or, for jobs in memory, any."""
    if restartable:
        return TypeAdapter(annotation)
    try:
        return TypeAdapter(annotation, config=ANY_CLASS)
    except PydanticUserError as refused:
        if refused.code != "type-adapter-config-unused":  # models and dataclasses have one of their own
            raise
    try:
        return TypeAdapter(annotation)
    except PydanticSchemaGenerationError:  # a dataclass of what pydantic does not know
        return TypeAdapter(InstanceOf[annotation])


def dumped(made: TypeAdapter[O], value: O, job_type: str) -> str:
    """`value` as JSON. Raises `WrongOutput` if it is not what `made` says, or JSON cannot say it."""
    try:
        return made.dump_json(made.validate_python(value)).decode()
    except ValidationError as wrong:
        raise WrongOutput(job_type, says_of(wrong)) from None
    except PydanticSerializationError as wrong:
        raise WrongOutput(job_type, str(wrong)) from None


def problems_of(wrong: ValidationError, whole: str) -> list[dict[str, str]]:
    """Where in the `whole`, and why, but never what: values may be private."""
    return [
        {"at": ".".join(str(part) for part in found["loc"]) or whole, "says": found["msg"]}
        for found in wrong.errors(include_url=False, include_context=False, include_input=False)
    ]


def says_of(wrong: ValidationError) -> str:
    """All problems of an output in a line."""
    return "; ".join(f"{problem['at']}: {problem['says']}" for problem in problems_of(wrong, "output"))


def signature_of(run: Callable[..., object]) -> tuple[Any, Any]:
    """The input and output types of `async def run(ctx, value: Input) -> Output`."""
    named = list(inspect.signature(run).parameters)
    name = getattr(run, "__qualname__", repr(run))
    if not inspect.iscoroutinefunction(run) or len(named) != 2:
        raise TypeError(f"`{name}` must be `async def {name}(ctx: Context, value: Input) -> Output`")
    hints: Mapping[str, Any] = get_type_hints(run, include_extras=True)
    if named[1] not in hints or "return" not in hints:
        raise TypeError(f"`{name}` needs annotations for `{named[1]}` and for what it returns")
    return hints[named[1]], _without_refused(hints["return"])


def _without_refused(annotation: Any) -> Any:
    if get_origin(annotation) not in {Union, types.UnionType}:
        return annotation
    kept: Sequence[Any] = [part for part in get_args(annotation) if part is not Refused]
    return Union[tuple(kept)]  # noqa: UP007 (made at run time)
