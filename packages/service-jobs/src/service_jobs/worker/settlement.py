"""Executions that end in a transaction of their own: the handler's writes, hooks and follow-up jobs, all or nothing.

    writes of the handler ─► on_success / on_failure ─► follow-up jobs ─► settle, fenced ─► commit

If the lease is lost, `settle` refuses and everything is rolled back: exactly one execution of a job has effects.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, LiteralString, TypeVar

from service_jobs.context import Connection, Context, FunctionRunner, Lease, ProgressCallback
from service_jobs.database import OpenTransaction, Sessions
from service_jobs.execution import call_failure_hook, resolve_error, resolve_timeout
from service_jobs.handler import Handler
from service_jobs.job import Ending, JobError, LeaseLost, Outcome, ProcessesUnavailable, Status
from service_jobs.job_spec import JobSpec
from service_jobs.submission import FollowUps, build_submit_one_arguments

T = TypeVar("T")
# From here to the commit the lease is locked and nobody can take it away, not even from a worker that is stopped or
# cut off right here. So the server waits for the rest of the transaction, but not for long.
SETTLE: Final[LiteralString] = """
    SELECT jobs.settle($1, $2, $3, $4, $5, $6, $7, $8)
      FROM set_config('idle_in_transaction_session_timeout', $9, true)
"""
# The same with one follow-up job, which is the usual number.
SETTLE_AND_SUBMIT: Final[LiteralString] = """
    SELECT jobs.submit_one($10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                           $24) AS following,
           jobs.settle($1, $2, $3, $4, $5, $6, $7, $8) AS became
      FROM set_config('idle_in_transaction_session_timeout', $9, true)
"""
SELECT_EXECUTION: Final[LiteralString] = """
    SELECT max_attempts, uncounted, checkpoint, step, correlation_id, actor, traceparent, service_id, subject_kind,
           subject_id, subject_group
      FROM jobs.job WHERE tenant_id = $1 AND job_id = $2
"""
SAVE: Final[LiteralString] = "SELECT jobs.save($1, $2, $3, $4, $5, $6)"
HOOK_TIMEOUT_SECONDS: Final = 60.0
IDLE_TIMEOUT_SECONDS: Final = 5.0
END_TIMEOUT_SECONDS: Final = 10.0
log = logging.getLogger(__name__)


async def settle_execution(
    conn: Connection, lease: Lease, outcome: Outcome, *, with_hook: bool = False
) -> Status | None:
    """End one execution; None if its lease is lost. Only a commit, or a hook and a commit, may follow."""
    became = await conn.fetchval(SETTLE, *_build_settle_arguments(lease, outcome, with_hook=with_hook))
    return None if became is None else Status(became)


def _build_settle_arguments(lease: Lease, outcome: Outcome, *, with_hook: bool) -> Sequence[object]:
    return (
        lease.tenant,
        lease.job_id,
        lease.owner,
        lease.attempt,
        outcome.ending.value,
        outcome.result,
        None if outcome.error is None else outcome.error.to_json(),
        outcome.delay,
        f"{IDLE_TIMEOUT_SECONDS + with_hook * HOOK_TIMEOUT_SECONDS:g}s",
    )


async def save_column(conn: Connection, lease: Lease, column: str, text: str) -> bool:
    """Write a checkpoint, a step or progress; False if the lease is lost."""
    return bool(await conn.fetchval(SAVE, lease.tenant, lease.job_id, lease.owner, lease.attempt, column, text))


class JobTransactions:
    """The transactions of one worker's jobs. It is the backend of their contexts."""

    def __init__(self, sessions: Sessions, follow_ups: FollowUps, processes: FunctionRunner | None) -> None:
        self._sessions = sessions
        self._follow_ups = follow_ups
        self._processes = processes
        self._open: dict[Context, OpenTransaction] = {}
        # Two connections are left for progress, checkpoints and submissions, or handlers would wait for each other.
        self._connection_slots = asyncio.Semaphore(max(1, sessions.size - 2))

    # What contexts call ---------------------------------------------------------------------------------------------

    async def save(self, lease: Lease, column: str, text: str) -> bool:
        async with self._sessions.acquire() as conn:
            return await save_column(conn, lease, column, text)

    async def begin(self, ctx: Context) -> Connection:
        await self._connection_slots.acquire()
        try:
            transaction = await self._sessions.begin(ctx.tenant)
        except BaseException:
            self._connection_slots.release()
            raise
        transaction.on_end = self._connection_slots.release
        self._open[ctx] = transaction
        return transaction.conn

    async def end_step(self, ctx: Context, text: str) -> bool:
        if ctx.connection is None and not ctx.follow_ups:
            return await self.save(ctx.lease, "step", text)
        conn = await ctx.transaction()
        async with (transaction := self._open.pop(ctx)):
            transaction.terminate_after(END_TIMEOUT_SECONDS)
            await self._follow_ups.submit_in_transaction(conn, ctx)
            if not await save_column(conn, ctx.lease, "step", text):
                raise LeaseLost
        ctx.connection = None
        self._follow_ups.submit_after_commit(ctx)
        ctx.follow_ups.clear()
        return True

    async def compute(
        self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: ProgressCallback | None
    ) -> T:
        if self._processes is None:
            raise ProcessesUnavailable
        return await self._processes.run(function, arguments, on_progress=on_progress)

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        return self._follow_ups.build_spec(handler, value, **options)

    # What the worker calls ------------------------------------------------------------------------------------------

    def needs_transaction(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> bool:
        """Whether this execution ends in a transaction of its own, and not in the exchange with others."""
        if ctx.connection is not None:
            return True
        match outcome.ending:
            case Ending.SUCCEEDED:
                return handler.success_hook is not None or bool(ctx.follow_ups)
            case Ending.FAILED:
                return handler.failure_hook is not None or (outcome.keeps_effects and bool(ctx.follow_ups))
            case Ending.DEAD_LETTER:
                return handler.failure_hook is not None
            case _:
                return False

    async def load_context(self, lease: Lease) -> Context:
        """The context of a dead worker's execution, for calling `on_failure`."""
        async with self._sessions.tenant(lease.tenant) as conn:
            [row] = await conn.fetch(SELECT_EXECUTION, lease.tenant, lease.job_id)
        return Context.from_row(self, lease, row)

    async def end_execution(
        self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome
    ) -> tuple[Status | None, Outcome]:
        """End an execution in its transaction. An error in `on_success` makes it a failure."""
        if not outcome.keeps_effects:
            await self.roll_back(ctx)
        if outcome.ending is Ending.SUCCEEDED or (outcome.ending is Ending.FAILED and outcome.keeps_effects):
            try:
                return await self._commit_execution(handler, ctx, outcome), outcome
            except LeaseLost:
                return None, outcome
            except TimeoutError:
                outcome = resolve_timeout(handler.timeout or HOOK_TIMEOUT_SECONDS, handler, ctx)
                await self.roll_back(ctx)
            except Exception as error:  # noqa: BLE001 (if on_success or a follow-up fails, so does the execution)
                outcome = resolve_error(error, handler, ctx)
                await self.roll_back(ctx)
        return await self._end_failed(handler, ctx, outcome), outcome

    async def _commit_execution(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> Status:
        conn = await ctx.transaction()
        async with (transaction := self._open.pop(ctx)):
            try:
                if (
                    outcome.ending is Ending.SUCCEEDED
                    and handler.success_hook is not None
                    and outcome.result is not None
                ):
                    async with asyncio.timeout(_get_hook_seconds(ctx)):
                        await handler.success_hook(ctx, handler.decode_output(outcome.result))
                elif outcome.error is not None and handler.failure_hook is not None:
                    await self._call_failure_hook(handler, ctx, outcome.error, conn)
            finally:
                transaction.terminate_after(END_TIMEOUT_SECONDS)
            became = await self._settle_and_submit(conn, ctx, outcome)
            if became is None:
                raise LeaseLost
        ctx.connection = None
        return became

    async def _settle_and_submit(self, conn: Connection, ctx: Context, outcome: Outcome) -> Status | None:
        follow_up = self._follow_ups.get_single(ctx)
        if follow_up is None:
            if ctx.follow_ups:
                await self._follow_ups.submit_in_transaction(conn, ctx)
            return await settle_execution(conn, ctx.lease, outcome)
        row = await conn.fetchrow(
            SETTLE_AND_SUBMIT,
            *_build_settle_arguments(ctx.lease, outcome, with_hook=False),
            *build_submit_one_arguments(*follow_up),
        )
        if row is None or row["became"] is None:
            return None
        self._follow_ups.count_single(ctx, row["following"])
        return Status(row["became"])

    async def _end_failed(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> Status | None:
        ctx.follow_ups.clear()  # those of the handler are dropped; those of `on_failure` are submitted
        has_hook = handler.failure_hook is not None
        async with (transaction := await self._sessions.begin(ctx.tenant)) as conn:
            transaction.terminate_after(END_TIMEOUT_SECONDS + has_hook * HOOK_TIMEOUT_SECONDS)
            became = await settle_execution(conn, ctx.lease, outcome, with_hook=has_hook)
            if became in {Status.FAILED, Status.DEAD_LETTER} and outcome.error is not None:
                await self._call_failure_hook(handler, ctx, outcome.error, conn)
                await self._follow_ups.submit_in_transaction(conn, ctx)
        ctx.connection = None
        return became

    async def _call_failure_hook(
        self, handler: Handler[Any, Any], ctx: Context, error: JobError, conn: Connection
    ) -> None:
        if handler.failure_hook is not None:
            ctx.connection = conn
            await call_failure_hook(handler, ctx, error, _limit_hook(conn))

    async def roll_back(self, ctx: Context) -> None:
        """Undo what the handler did in its transaction, if it opened one."""
        transaction = self._open.pop(ctx, None)
        ctx.connection = None
        if transaction is not None:
            transaction.terminate_after(END_TIMEOUT_SECONDS)
            try:
                await transaction.end(commit=False)
            except Exception as error:  # noqa: BLE001 (the connection is gone, and the transaction with it)
                log.warning("job %s could not be rolled back: %s", ctx.job_id, str(error) or type(error).__name__)

    async def terminate_transaction(self, ctx: Context) -> None:
        """Cut the transaction of a handler that does not stop."""
        transaction = self._open.pop(ctx, None)
        if transaction is not None:
            transaction.terminate()
            with suppress(Exception):
                await transaction.end(commit=False)


@asynccontextmanager
async def _limit_hook(conn: Connection) -> AsyncIterator[None]:
    """A savepoint and a time limit: whatever the hook does, the job ends."""
    async with conn.transaction(), asyncio.timeout(HOOK_TIMEOUT_SECONDS):
        yield


def _get_hook_seconds(ctx: Context) -> float:
    """Hooks share the time of the execution, but have at least one second."""
    return HOOK_TIMEOUT_SECONDS if ctx.deadline is None else max(1.0, ctx.deadline - time.monotonic())
