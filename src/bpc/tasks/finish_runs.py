"""The end of a bulk compile: a job looks whether every row has ended, and then records it once.

    request_run ─► FINISH_COMPILE_RUN ─┬─ rows are waiting or compiling ─► the same again, after a pause
                                       └─ all have ended ────────────────► COMPILE_RUN_FINISHED, announced to webhooks

The status of a row is computed from its version and its jobs, whoever ended them. So the job asks for it, instead of
every job of a row counting.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from service_jobs import LOW, Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.formats.ids import CompileRunId, TenantId
from bpc.runtime import clock
from bpc.storage.jobs import make_subject
from bpc.storage.passports import compile_run_progress, compile_runs

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
KEEP_JOBS: Final = timedelta(days=1)  # each look is a job


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWatchOrder:
    """The run to look at, and how often that was done before."""

    run_id: CompileRunId
    look: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWatchOutcome:
    """Whether every row of the run has ended; if not, the job that looks again."""

    run_id: CompileRunId
    has_ended: bool
    next_job_id: UUID | None = None


def watch_key(order: RunWatchOrder) -> str:
    """The idempotency key of a look at a run."""
    return f"finish:{order.run_id}:{order.look}"


def choose_pause(look: int) -> float:
    """Seconds before look number `look`, from 0 on."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(look, 16))


def declare_finish_job(handlers: Handlers) -> Handler[RunWatchOrder, RunWatchOutcome]:
    """The job FINISH_COMPILE_RUN."""

    @handlers.job(
        "FINISH_COMPILE_RUN",
        ttl=KEEP_JOBS,
        subject=lambda order: make_subject("compile_run", order.run_id),
        description="Looks whether a bulk compile has ended, and records that.",
    )
    async def run(ctx: Context, order: RunWatchOrder) -> RunWatchOutcome:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        progress = await compile_run_progress.load_progress(conn, tenant, order.run_id)
        if compile_run_progress.has_unfinished_rows(progress):
            again = RunWatchOrder(run_id=order.run_id, look=order.look + 1)
            next_job_id = ctx.submit(run, again, key=watch_key(again), priority=LOW, delay=choose_pause(again.look))
            return RunWatchOutcome(run_id=order.run_id, has_ended=False, next_job_id=next_job_id)
        await compile_runs.record_end(conn, tenant, order.run_id, progress, act=Act(None, clock.now()))
        return RunWatchOutcome(run_id=order.run_id, has_ended=True)

    return run
