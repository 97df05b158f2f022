"""One execution of one job, whichever engine runs it: an input in, an outcome out, no exception but cancellation.

payload ─► input ─► handler ─► output ─► Outcome
              └──────── problems ──────────┘

Payload and result are JSON, except in memory. What fails is logged here, once, and never with the input.
"""

import asyncio
import logging
from typing import Any

from bpc.jobs.context import Context
from bpc.jobs.errors import Coded, InvalidInput, JobError, rest_asked_by
from bpc.jobs.handler import Handler, Refused
from bpc.jobs.outcome import Ending, Outcome, cancelled, failed, refused, succeeded

log = logging.getLogger(__name__)


async def execute(handler: Handler[Any, Any], ctx: Context, payload: str) -> Outcome:
    """Run the handler once. `asyncio.CancelledError` passes: who cancelled knows why."""
    try:
        value = handler.read_input(payload)
    except InvalidInput as wrong:
        _log(wrong, ctx)
        return refused(JobError.of(wrong))
    try:
        made = await handler.run(ctx, value)
        if isinstance(made, Refused):
            return refused(made.error, keeps_effects=True)
        return succeeded(handler.output_text(made))
    except asyncio.CancelledError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a handler does, its job ends in order)
        return after(error, handler, ctx)


async def execute_in_memory(handler: Handler[Any, Any], ctx: Context, value: Any) -> tuple[Outcome, Any]:
    """The same without JSON: the handler is given `value` itself. If it succeeds, what it made is returned, too."""
    try:
        made = await handler.run(ctx, value)
        if isinstance(made, Refused):
            return refused(made.error, keeps_effects=True), None
        return Outcome(ending=Ending.SUCCEEDED, keeps_effects=True), handler.output_value(made)
    except asyncio.CancelledError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a handler does, its job ends in order)
        return after(error, handler, ctx), None


def after(error: BaseException, handler: Handler[Any, Any], ctx: Context) -> Outcome:
    """What follows from an error of the handler, which is logged unless the job was to stop anyway."""
    if ctx.cancel_requested:
        return cancelled()
    _log(error, ctx)
    return failed(
        JobError.of(error),
        attempt=ctx.attempt,
        most=ctx.max_attempts,
        retry=handler.retry,
        at_least=rest_asked_by(error),
    )


def _log(error: BaseException, ctx: Context) -> None:
    about = {
        "tenant_id": str(ctx.tenant),
        "job_id": str(ctx.job_id),
        "job_type": ctx.type,
        "attempt": ctx.attempt,
        "correlation_id": ctx.correlation_id,
    }
    if isinstance(error, Coded):
        told = JobError.of(error)
        log.warning("job %s failed with %s: %s", ctx.job_id, told.code, told.message, extra=about)
    else:
        log.warning("job %s failed", ctx.job_id, exc_info=error, extra=about)
