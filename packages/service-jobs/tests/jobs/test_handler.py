"""What a handler takes and makes, what its failures leave in the log, and refusals that travel."""

import asyncio
import copy
import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.errors import PydanticSchemaGenerationError
from service_jobs.context import Context, Lease
from service_jobs.execution import execute, execute_in_memory, resolve_error, resolve_timeout
from service_jobs.handler import Handlers, InvalidOutput, Rejection, build_adapter
from service_jobs.job import (
    Ending,
    HandlerNotFound,
    InvalidInput,
    JobConflict,
    JobNotFound,
    JobsRefusal,
    JobTimedOut,
    LeaseLost,
    QueueFull,
    Retry,
)
from service_jobs.job_spec import JobSpec
from service_jobs.memory.run import EngineStopped
from service_jobs.testing import InlineBackend, run_inline
from tests.jobs.support.engine_logs import list_engine_logs

TENANT, JOB = UUID(int=1), UUID(int=2)


class Socket:
    """Nothing that JSON could say."""


@dataclass
class Plain:
    number: int


@dataclass
class Holding:
    socket: Socket


class Model(BaseModel):
    number: int


class HoldingModel(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    socket: Socket


class Pair(NamedTuple):
    socket: Socket
    number: int


def build_context(attempt: int = 3, uncounted: int = 1) -> Context:
    lease = Lease(TENANT, JOB, "work", "somebody", attempt)
    return Context(InlineBackend(), lease, max_attempts=5, uncounted=uncounted, correlation_id="c-1")


def get_log_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("tenant_id", "job_id", "job_type", "attempt", "correlation_id")}


# Types


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Socket, Socket()),
        (Socket | None, Socket()),
        (Holding, Holding(Socket())),
        (HoldingModel, HoldingModel(socket=Socket())),
        (Model, Model(number=1)),
        (Plain, Plain(1)),
        (int, 7),
        (Any, Socket()),
    ],
)
async def test_a_handler_in_memory_is_given_the_very_value(handlers: Handlers, annotation: Any, value: Any) -> None:
    async def work(ctx: Context, value: Any) -> Any:
        return value

    work.__annotations__ |= {"value": annotation, "return": annotation}
    handler = handlers.job("work", restartable=False)(work)
    spec = JobSpec.from_input(handler, value)
    outcome, output = await execute_in_memory(handler, build_context(), spec.value)

    assert spec.payload == "null"
    assert outcome.ending is Ending.SUCCEEDED
    assert output is value


@pytest.mark.parametrize(("annotation", "value"), [(list[Socket], [Socket()]), (Pair, Pair(Socket(), 1))])
def test_what_holds_such_values_may_be_a_copy(handlers: Handlers, annotation: Any, value: Any) -> None:
    async def work(ctx: Context, value: Any) -> None: ...

    work.__annotations__ |= {"value": annotation}
    handler = handlers.job("work", restartable=False)(work)

    assert handler.validate_input(value) == value
    with pytest.raises(InvalidInput):
        handler.validate_input(Socket())


@pytest.mark.parametrize("annotation", [Socket, Holding, Model, int])
def test_what_is_of_another_type_is_refused_in_memory_too(handlers: Handlers, annotation: Any) -> None:
    async def work(ctx: Context, value: Any) -> None: ...

    work.__annotations__ |= {"value": annotation}
    handler = handlers.job("work", restartable=False)(work)

    with pytest.raises(InvalidInput, match="this input is not valid for a") as refused:
        JobSpec.from_input(handler, object())
    assert refused.value.details["type"] == "work"


def test_what_reads_a_class_is_built_once_and_a_union_reads_in_its_own_order() -> None:
    assert build_adapter(Model, restartable=True) is build_adapter(Model, restartable=True)
    assert build_adapter(Holding, restartable=False) is not build_adapter(Plain, restartable=False)
    assert build_adapter(Plain | Model, restartable=True).validate_python({"number": 1}) == Plain(1)
    assert build_adapter(Model | Plain, restartable=True).validate_python({"number": 1}) == Model(number=1)


def test_a_handler_whose_jobs_are_stored_takes_what_json_can_say(handlers: Handlers) -> None:
    async def work(ctx: Context, value: Socket) -> None: ...

    with pytest.raises(PydanticSchemaGenerationError):
        handlers.job("work")(work)


def test_an_output_of_the_wrong_type_is_told_without_its_value(handlers: Handlers) -> None:
    @handlers.job("work")
    async def work(ctx: Context, value: int) -> Model:
        return Model(number=value)

    with pytest.raises(InvalidOutput, match=r"number: Input should be a valid integer") as wrong:
        work.encode_output({"number": "secret"})  # type: ignore[arg-type]
    assert "secret" not in wrong.value.says


# Failures in the log


async def test_an_error_is_logged_once_with_where_it_comes_from(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.job("work")
    async def work(ctx: Context, secret: str) -> None:
        raise OSError("the disk is full")

    outcome = await execute(work, build_context(), '"hush"')

    [record] = list_engine_logs(caplog)
    assert outcome.ending is Ending.RETRY
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], OSError)
    assert "raise OSError" in caplog.text
    assert get_log_fields(record) == {
        "tenant_id": str(TENANT),
        "job_id": str(JOB),
        "job_type": "work",
        "attempt": 2,
        "correlation_id": "c-1",
    }
    assert "hush" not in caplog.text


@pytest.mark.parametrize("restartable", [True, False])
async def test_a_refusal_is_logged_with_its_code_and_message_only(
    handlers: Handlers, caplog: pytest.LogCaptureFixture, *, restartable: bool
) -> None:
    @handlers.job("work", restartable=restartable)
    async def work(ctx: Context, secret: str) -> None:
        raise JobConflict("somebody was faster", details={"secret": "hush"})

    if restartable:
        await execute(work, build_context(), '"hush"')
    else:
        await execute_in_memory(work, build_context(), "hush")

    [record] = list_engine_logs(caplog)
    assert record.getMessage() == f"job {JOB} failed with CONFLICT: somebody was faster"
    assert (record.exc_info, record.levelno) == (None, logging.WARNING)
    assert get_log_fields(record)["job_type"] == "work"
    assert "hush" not in caplog.text


async def test_an_input_that_does_not_fit_any_more_is_logged_without_it(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.job("work")
    async def work(ctx: Context, number: int) -> None: ...

    outcome = await execute(work, build_context(), '"hush"')

    assert outcome.ending is Ending.FAILED
    assert "VALIDATION_ERROR" in caplog.text
    assert "hush" not in caplog.text


async def test_success_a_decision_and_a_stop_that_was_asked_for_are_not_logged(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.job("work")
    async def work(ctx: Context, refuses: bool) -> int | Rejection:
        return Rejection.from_exception(JobConflict("no")) if refuses else 1

    await execute(work, build_context(), "false")
    await execute(work, build_context(), "true")
    stopping = build_context()
    stopping.request_cancel()

    assert resolve_error(OSError("in the middle"), work, stopping).ending is Ending.CANCELLED
    assert list_engine_logs(caplog) == []


@pytest.mark.parametrize("restartable", [True, False])
async def test_a_cancellation_passes(handlers: Handlers, *, restartable: bool) -> None:
    @handlers.job("work", restartable=restartable)
    async def work(ctx: Context, value: None) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_inline(work, None)


def test_a_handler_that_takes_too_long_has_failed_and_is_told_its_time(handlers: Handlers) -> None:
    @handlers.job("work", retry=Retry(first_delay=1))
    async def work(ctx: Context, value: None) -> None: ...

    end = resolve_timeout(2.5, work, build_context(attempt=2, uncounted=0))

    assert (end.ending, end.delay) == (Ending.RETRY, 2.0)
    assert end.error is not None
    assert end.error.code == JobTimedOut.code
    assert "its timeout of 2.5 s" in end.error.message
    assert resolve_timeout(2.5, work, build_context(attempt=5, uncounted=0)).ending is Ending.DEAD_LETTER


# Refusals that travel


class Particular(JobsRefusal):
    """Takes something else than it says."""

    code = "PARTICULAR"

    def __init__(self, *, number: int, details: Mapping[str, object]) -> None:
        super().__init__(f"not {number}", fix="another one", details=details)
        self.number = number


@pytest.mark.parametrize(
    "refusal",
    [
        JobsRefusal("no", fix="ask nicely", details={"how": ["often"]}),
        InvalidInput("no"),
        HandlerNotFound("work"),
        JobNotFound(JOB),
        QueueFull(3),
        LeaseLost(),
        EngineStopped(),
        InvalidOutput("work", "why not"),
        Particular(number=7, details=MappingProxyType({"number": 7})),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_a_refusal_arrives_in_another_process_as_it_was(refusal: JobsRefusal, copied: Any) -> None:
    refusal.add_note("on the way")

    arrived = copied(refusal)

    assert type(arrived) is type(refusal)
    assert (arrived.says, arrived.fix, arrived.args) == (refusal.says, refusal.fix, refusal.args)
    assert arrived.details == dict(refusal.details)
    assert (arrived.code, str(arrived), arrived.__notes__) == (refusal.code, str(refusal), refusal.__notes__)
    assert getattr(arrived, "number", 7) == 7
