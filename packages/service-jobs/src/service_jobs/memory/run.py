"""One execution of an in-memory job: what may interrupt it, and the transaction in which it ends.

    handler ─► on_success ─► commit with follow-ups ─► end
       └────── an error ─► roll back ─► on_failure ─► end

The handler and the hooks may be interrupted; a commit, also that of a step, never is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import Context as Variables
from typing import Any, Final, TypeAlias

from service_jobs.context import Connection, Context, ContextBackend, Lease
from service_jobs.execution import (
    build_cancellation,
    build_log_fields,
    call_failure_hook,
    execute_in_memory,
    resolve_error,
    resolve_timeout,
)
from service_jobs.job import Ending, InterruptReason, JobsRefusal, Outcome
from service_jobs.memory.store import MEMORY_OWNER, EngineClock, MemoryJob, Timer, load_json
from service_jobs.telemetry import trace_execution

PROCESS_STOPPED: Final = "the process stopped before the job was done; in-memory jobs are not run again after a restart"

log = logging.getLogger(__name__)


CommitRun: TypeAlias = "Callable[[MemoryRun], Awaitable[None]]"
AbandonRun: TypeAlias = "Callable[[MemoryRun, Outcome], None]"


class EngineStopped(JobsRefusal):
    """This process is stopping, and its in-memory jobs with it."""

    code = "QUEUE_FULL"
    retryable = True

    def __init__(self) -> None:
        super().__init__("this process is stopping and accepts no in-memory jobs", fix="try again in another process")


class MemoryRun:
    """One execution: its task, what may interrupt it, and its transaction."""

    def __init__(
        self, record: MemoryJob, ctx: Context, clock: EngineClock, *, interrupt_grace: float, on_ignored: AbandonRun
    ) -> None:
        """`on_ignored` is called if the handler still runs `interrupt_grace` seconds after an interruption."""
        self.record = record
        self.ctx = ctx
        self._interrupt_grace = interrupt_grace
        self._on_ignored = on_ignored
        self.task: asyncio.Task[None] | None = None
        self.timers: list[Timer] = []
        self.interrupt_reason: InterruptReason | None = None
        self.decided_outcome: Outcome | None = None  # how the job ends, once only `on_failure` is left to call
        self.output: Any = None  # what the handler returned, if it succeeded
        self._clock = clock
        self._is_interruptible = False
        self._deferred_interrupts: list[Callable[[], None]] | None = None  # they wait until a step is committed
        self._begin_lock = asyncio.Lock()
        self._transaction = AsyncExitStack()

    @property
    def is_ended_from_outside(self) -> bool:
        """Whether somebody other than the handler and this engine cancelled the task."""
        return self.interrupt_reason is None and self.task is not None and self.task.cancelling() > 0

    @contextmanager
    def allow_interrupts(self, seconds: float | None) -> Iterator[None]:
        """The block may be interrupted, and is after `seconds`. Code outside of such a block never is."""
        self.interrupt_reason = None
        self._is_interruptible = True
        timer = (
            None
            if seconds is None
            else self._clock.call_after(seconds, lambda: self.interrupt(InterruptReason.TIMEOUT))
        )
        try:
            yield
        finally:
            self._is_interruptible = False
            if timer is not None:
                timer.cancel()
            if self.interrupt_reason is not None and self.task is not None:
                self.task.uncancel()

    @asynccontextmanager
    async def defer_interrupts(self) -> AsyncIterator[None]:
        """Inside of an interruptible block: interruptions wait until this block ends."""
        calls: list[Callable[[], None]] = []
        self._deferred_interrupts = calls
        try:
            yield
        finally:
            self._deferred_interrupts = None
            for call in calls:
                call()
            if calls:
                await asyncio.sleep(0)  # the interruption arrives here

    def interrupt(self, reason: InterruptReason) -> None:
        if self._deferred_interrupts is not None:
            self._deferred_interrupts.append(lambda: self.interrupt(reason))
        elif self._is_interruptible and self.interrupt_reason is None and self.task is not None:
            self.interrupt_reason = reason
            self.task.cancel()
            self.timers.append(self._clock.call_after(self._interrupt_grace, lambda: self._report_ignored(reason)))

    def _report_ignored(self, reason: InterruptReason) -> None:
        if self._deferred_interrupts is not None:
            self._deferred_interrupts.append(lambda: self._report_ignored(reason))
        elif self._is_interruptible and not self.is_abandoned:
            self._on_ignored(self, self.decided_outcome or self.build_interrupted_outcome(reason))

    @property
    def is_abandoned(self) -> bool:
        """Whether the job continues without this execution, whose effects must then not be kept."""
        return self.record.run is not self

    def build_interrupted_outcome(self, reason: InterruptReason) -> Outcome:
        if reason is InterruptReason.STOP:
            return build_cancellation(PROCESS_STOPPED)
        if reason is InterruptReason.CANCEL or self.ctx.cancel_requested:
            return build_cancellation()
        return resolve_timeout(self.record.handler.timeout or 0.0, self.record.handler, self.ctx)

    def resolve_error(self, error: BaseException) -> Outcome:
        return resolve_error(error, self.record.handler, self.ctx)

    def replace_if_cancelled(self, outcome: Outcome) -> Outcome:
        """A job that was asked to stop does not run again."""
        again = outcome.ending in {Ending.RETRY, Ending.DEAD_LETTER}
        return build_cancellation() if again and self.ctx.cancel_requested else outcome

    async def enter(self, transaction: AbstractAsyncContextManager[Connection]) -> Connection:
        async with self._begin_lock:
            if self.ctx.connection is None:  # two tasks of a handler may call it at the same time
                self.ctx.connection = await self._transaction.enter_async_context(transaction)
            return self.ctx.connection

    async def commit(self) -> None:
        transaction, self._transaction = self._transaction, AsyncExitStack()
        await transaction.aclose()
        self._reset_context()

    async def roll_back(self) -> None:
        """Roll back and drop the follow-ups. A database that does not answer rolls back as well."""
        transaction, self._transaction = self._transaction, AsyncExitStack()
        try:
            with suppress(_RollBack):
                await transaction.__aexit__(_RollBack, _RollBack(), None)
        except Exception as error:
            log.warning("a transaction could not be rolled back", exc_info=error, extra=build_log_fields(self.ctx))
        self._reset_context()

    def _reset_context(self) -> None:
        self.ctx.connection = None
        self.ctx.follow_ups.clear()

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()


class _RollBack(Exception):
    """Thrown into a transaction to roll it back."""


async def execute_run(run: MemoryRun) -> Outcome:
    """Run the handler and its `on_success`."""
    handler, ctx = run.record.handler, run.ctx
    if handler.timeout is not None:
        ctx.deadline = asyncio.get_running_loop().time() + handler.timeout
    try:
        with run.allow_interrupts(handler.timeout):
            outcome, run.output = await execute_in_memory(handler, ctx, run.record.value)
            if outcome.ending is Ending.SUCCEEDED and handler.success_hook is not None:
                try:
                    await handler.success_hook(ctx, run.output)
                except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a hook raises, its job ends)
                    outcome = run.resolve_error(error)
    except asyncio.CancelledError as cancelled:
        if run.is_ended_from_outside:
            raise
        outcome = run.resolve_error(cancelled)  # the handler cancelled itself, unless there is a reason
    if run.interrupt_reason is not None and not outcome.keeps_effects:
        return run.build_interrupted_outcome(run.interrupt_reason)
    return outcome


async def end_run(run: MemoryRun, outcome: Outcome, commit: CommitRun) -> Outcome:
    """Commit what the execution did, or roll it back. An error in here fails the execution."""
    if run.is_abandoned:
        await run.roll_back()
        return outcome
    if outcome.keeps_effects:
        try:
            if outcome.ending is Ending.FAILED:
                await _call_failure_hook(run, outcome)
            await commit(run)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (from the database, or no room for follow-ups)
            outcome = run.resolve_error(error)
        else:
            return outcome
    outcome = run.replace_if_cancelled(outcome)
    await run.roll_back()
    if outcome.ending in {Ending.FAILED, Ending.DEAD_LETTER}:
        await _call_failure_hook(run, outcome)
        await _commit_failure_hook(run, commit)
    return outcome


async def _call_failure_hook(run: MemoryRun, outcome: Outcome) -> None:
    """Call `on_failure`, if there is one. If it raises, that is logged and what it did is rolled back."""
    handler, conn, follow_ups = run.record.handler, run.ctx.connection, list(run.ctx.follow_ups)
    if handler.failure_hook is None or outcome.error is None:
        return
    run.decided_outcome = outcome
    try:
        ok = await call_failure_hook(handler, run.ctx, outcome.error, _guard_hook(run, conn))
    except asyncio.CancelledError as error:
        if run.is_ended_from_outside:
            raise
        log.error("on_failure was interrupted", exc_info=error, extra=build_log_fields(run.ctx))
        ok = False
    if not ok:
        if conn is None:
            await run.roll_back()
        run.ctx.follow_ups[:] = follow_ups


@asynccontextmanager
async def _guard_hook(run: MemoryRun, conn: Connection | None) -> AsyncIterator[None]:
    """A savepoint, if there is a transaction, and the handler's timeout."""
    async with AsyncExitStack() as savepoint:
        if conn is not None:
            await savepoint.enter_async_context(conn.transaction())
        with run.allow_interrupts(run.record.handler.timeout):
            yield


async def _commit_failure_hook(run: MemoryRun, commit: CommitRun) -> None:
    try:
        await commit(run)
    except (Exception, SystemExit) as error:
        log.error("on_failure failed", exc_info=error, extra=build_log_fields(run.ctx))
        await run.roll_back()


class MemoryRunner:
    """Executes in-memory jobs, each in a task of its own, and hands their outcomes to `settle`."""

    def __init__(
        self,
        backend: ContextBackend,
        clock: EngineClock,
        *,
        cancel_grace: float,
        commit: CommitRun,
        settle: Callable[[MemoryRun, Outcome], None],
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._cancel_grace = cancel_grace
        self._commit = commit
        self._settle = settle
        self._runs: set[MemoryRun] = set()
        self._abandoned_tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, record: MemoryJob, outcome: Outcome | None = None) -> None:
        """Execute the job; with an `outcome`, only what follows from that."""
        lease = Lease(record.tenant, record.job_id, record.handler.type, MEMORY_OWNER, record.attempts)
        ctx = Context(
            self._backend,
            lease,
            max_attempts=record.max_attempts,
            checkpoint=load_json(record.checkpoint),
            step=record.step,
            step_output=record.step_output,
            correlation_id=record.origin.correlation_id,
            actor=record.origin.actor,
            traceparent=record.origin.traceparent,
            service_id=record.origin.service_id,
            subject=record.spec.subject,
        )
        record.run = run = MemoryRun(
            record, ctx, self._clock, interrupt_grace=self._cancel_grace, on_ignored=self._abandon
        )
        self._runs.add(run)
        # In a context of its own: it must not see variables of the request that happened to start it.
        run.task = asyncio.get_running_loop().create_task(
            self._execute(run, outcome), name=f"{record.handler.type} {record.job_id}", context=Variables()
        )

    def detach(self, run: MemoryRun) -> None:
        """The run has ended or was abandoned: its slot is free."""
        run.close()
        self._runs.discard(run)
        run.record.run = None
        if run.task is not None:  # a task without a reference may be garbage-collected before it ends
            self._abandoned_tasks.add(run.task)
            run.task.add_done_callback(self._abandoned_tasks.discard)

    def interrupt_all(self, reason: InterruptReason) -> None:
        for run in list(self._runs):
            run.interrupt(reason)

    def request_cancel(self, run: MemoryRun) -> None:
        """Ask the handler to stop; it is interrupted after the grace period."""
        if not run.ctx.cancel_requested:
            run.ctx.request_cancel()
            run.timers.append(self._clock.call_after(self._cancel_grace, lambda: run.interrupt(InterruptReason.CANCEL)))

    async def _execute(self, run: MemoryRun, outcome: Outcome | None) -> None:
        """From the first line of the handler to the end of the job."""
        final_outcome = build_cancellation(PROCESS_STOPPED)
        try:
            with trace_execution(run.ctx.lease, run.ctx.traceparent, attempt=run.ctx.attempt) as span:
                final_outcome = await end_run(run, outcome or await execute_run(run), self._commit)
                span.record_outcome(final_outcome)
        except asyncio.CancelledError:
            await run.roll_back()
            raise
        except Exception as error:  # nobody awaits this task, so the job itself must report it
            log.error("an in-memory job could not be ended", exc_info=error, extra=build_log_fields(run.ctx))
            final_outcome = run.resolve_error(error)
        finally:
            self._settle(run, final_outcome)

    def _abandon(self, run: MemoryRun, outcome: Outcome) -> None:
        """The handler ignores the interruption: the job ends without it, and its slot is free."""
        log.error("an in-memory job ignored its interruption; abandoned", extra=build_log_fields(run.ctx))
        if run.decided_outcome is not None:
            self._settle(run, outcome)
            return
        self.detach(run)
        self.start(run.record, outcome)
