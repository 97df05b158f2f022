"""One execution of a job, in either engine: an input in, an outcome out, no exception but cancellation."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from service_jobs.context import Context
from service_jobs.handler import Handler, Rejection
from service_jobs.job import (
    CodedError,
    Ending,
    InvalidInput,
    JobCancelled,
    JobError,
    JobTimedOut,
    Outcome,
    Retry,
)
from service_jobs.retry import draw_chance

log = logging.getLogger(__name__)


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


def get_retry_after(error: BaseException) -> float:
    """Seconds that the job must wait before its next attempt: the error's `retry_after`, else 0."""
    match getattr(error, "retry_after", None):
        case int() | float() as seconds if seconds > 0:
            return float(seconds)
    return 0.0


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


# Outcomes -----------------------------------------------------------------------------------------------------------


def build_success(result: str) -> Outcome:
    return Outcome(ending=Ending.SUCCEEDED, result=result, keeps_effects=True)


def build_rejection(error: JobError, *, keeps_effects: bool = False) -> Outcome:
    """A final failure: trying again would end the same way."""
    return Outcome(ending=Ending.FAILED, error=error, keeps_effects=keeps_effects)


def build_failure(error: JobError, *, attempt: int, max_attempts: int, retry: Retry, min_delay: float = 0.0) -> Outcome:
    """The outcome of execution number `attempt` of at most `max_attempts`, which failed with `error`.

    The job waits at least `min_delay` seconds, as far as `retry` allows to ask for them.
    """
    if not error.retryable:
        return build_rejection(error)
    if attempt >= max_attempts:
        return Outcome(ending=Ending.DEAD_LETTER, error=error)
    delay = max(retry.delay_after(attempt, chance=draw_chance()), retry.limit_request(min_delay))
    return Outcome(ending=Ending.RETRY, error=error, delay=delay)


def build_cancellation(message: str = "it was cancelled while it ran") -> Outcome:
    return Outcome(ending=Ending.CANCELLED, error=JobError.from_exception(JobCancelled(message)))


def build_release() -> Outcome:
    return Outcome(ending=Ending.RELEASE)
