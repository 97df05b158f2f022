"""The end of an execution that is more than a row: effects, follow-up jobs and hooks, in one transaction.

    effects of the handler ─► on_success / on_failure ─► follow-up jobs ─► settle, fenced ─► commit

If the lease is lost, `settle` says so and everything is rolled back: exactly one execution of a job leaves a trace.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, LiteralString

import orjson

from bpc.jobs.attempt import after
from bpc.jobs.context import Backing, Connection, Context, Held
from bpc.jobs.errors import JobError, LeaseLost
from bpc.jobs.handler import Handler
from bpc.jobs.outcome import Ending, Outcome, Status, timed_out
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Begun
from bpc.jobs.submitting import one_job

# From here to the commit the lease is locked, and nobody can take it away: not even from a worker that is stopped, or
# cut off, at this very point. So the server waits for the rest of the transaction, but not for long.
SETTLE: Final[LiteralString] = """
    SELECT jobs.settle($1, $2, $3, $4, $5, $6, $7, $8)
      FROM set_config('idle_in_transaction_session_timeout', $9, true)
"""
# The same, and the one job that follows: most jobs that are followed by others are followed by one.
SETTLE_AND_SUBMIT: Final[LiteralString] = """
    SELECT jobs.submit_one($10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) AS following,
           jobs.settle($1, $2, $3, $4, $5, $6, $7, $8) AS became
      FROM set_config('idle_in_transaction_session_timeout', $9, true)
"""
KNOWN: Final[LiteralString] = """
    SELECT max_attempts, uncounted, checkpoint, step, correlation_id, actor, traceparent
      FROM jobs.job WHERE tenant_id = $1 AND job_id = $2
"""
SAVE: Final[LiteralString] = "SELECT jobs.save($1, $2, $3, $4, $5, $6)"
LONGEST_HOOK: Final = 60.0
LONGEST_SILENCE: Final = 5.0
LONGEST_END: Final = 10.0
log = logging.getLogger(__name__)


async def settle(conn: Connection, held: Held, outcome: Outcome, *, hook: bool = False) -> Status | None:
    """End one execution; None if its lease is lost. What follows in this transaction is a commit, or a `hook`."""
    became = await conn.fetchval(SETTLE, *_ending(held, outcome, hook=hook))
    return None if became is None else Status(became)


def _ending(held: Held, outcome: Outcome, *, hook: bool) -> Sequence[object]:
    return (
        held.tenant,
        held.job_id,
        held.owner,
        held.attempt,
        outcome.ending.value,
        outcome.result,
        None if outcome.error is None else outcome.error.text(),
        outcome.delay,
        f"{LONGEST_SILENCE + hook * LONGEST_HOOK:g}s",
    )


async def save(conn: Connection, held: Held, column: str, text: str) -> bool:
    """Write a checkpoint, a step or progress; False if the lease is lost."""
    return bool(await conn.fetchval(SAVE, held.tenant, held.job_id, held.owner, held.attempt, column, text))


class Ends:
    """The transactions of one worker's jobs."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._open: dict[Context, Transaction] = {}
        # Two connections are left for progress, checkpoints and submissions, or handlers would wait for each other.
        self._places = asyncio.Semaphore(max(1, jobs.sessions.size - 2))

    def needs_transaction(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> bool:
        """Whether this end is more than a row."""
        if ctx.connection is not None:
            return True
        match outcome.ending:
            case Ending.SUCCEEDED:
                return handler.success is not None or bool(ctx.follow_ups)
            case Ending.FAILED:
                return handler.failure is not None or (outcome.keeps_effects and bool(ctx.follow_ups))
            case Ending.DEAD_LETTER:
                return handler.failure is not None
            case _:
                return False

    async def begin(self, ctx: Context) -> Connection:
        """Open the transaction `ctx` will end in."""
        await self._places.acquire()
        try:
            begun = await self._jobs.sessions.begin(ctx.tenant)
        except BaseException:
            self._places.release()
            raise
        self._open[ctx] = Transaction(begun, self._places)
        return begun.conn

    async def context_of(self, backing: Backing, held: Held) -> Context:
        """What is known of an execution that ended without us: for telling `on_failure`."""
        async with self._jobs.sessions.tenant(held.tenant) as conn:
            [row] = await conn.fetch(KNOWN, held.tenant, held.job_id)
        return Context(
            backing,
            held,
            max_attempts=row["max_attempts"],
            uncounted=row["uncounted"],
            checkpoint=None if row["checkpoint"] is None else orjson.loads(row["checkpoint"]),
            step=row["step"],
            correlation_id=row["correlation_id"],
            actor=row["actor"],
            traceparent=row["traceparent"],
        )

    async def end_step(self, ctx: Context, text: str) -> bool:
        """Write down that a step is done, together with what it did; False if the lease is lost."""
        if ctx.connection is None and not ctx.follow_ups:
            async with self._jobs.sessions.plain() as conn:
                return await save(conn, ctx.held, "step", text)
        conn = await ctx.transaction()
        async with self._open.pop(ctx) as transaction:
            transaction.must_end(LONGEST_END)
            await self._jobs.submit_wishes(conn, ctx)
            if not await save(conn, ctx.held, "step", text):
                raise LeaseLost
        ctx.connection = None
        self._jobs.submit_rest(ctx)
        ctx.follow_ups.clear()
        return True

    async def end(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> tuple[Status | None, Outcome]:
        """End an execution in its transaction. An error in `on_success` makes it a failure."""
        if not outcome.keeps_effects:
            await self.roll_back(ctx)
        if outcome.ending is Ending.SUCCEEDED or (outcome.ending is Ending.FAILED and outcome.keeps_effects):
            try:
                return await self._commit(handler, ctx, outcome), outcome
            except LeaseLost:
                return None, outcome
            except TimeoutError:
                outcome = timed_out(
                    handler.timeout or LONGEST_HOOK, attempt=ctx.attempt, most=ctx.max_attempts, retry=handler.retry
                )
                await self.roll_back(ctx)
            except Exception as error:  # noqa: BLE001 (on_success or a follow-up failed: so did the execution)
                outcome = after(error, handler, ctx)
                await self.roll_back(ctx)
        return await self._end_badly(handler, ctx, outcome), outcome

    async def _commit(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> Status:
        conn = await ctx.transaction()
        async with self._open.pop(ctx) as transaction:
            try:
                if outcome.ending is Ending.SUCCEEDED and handler.success is not None and outcome.result is not None:
                    async with asyncio.timeout(_left(ctx)):
                        await handler.success(ctx, handler.read_output(outcome.result))
                elif outcome.error is not None and handler.failure is not None:
                    await self._tell_failure(handler, ctx, outcome.error, conn)
            finally:
                transaction.must_end(LONGEST_END)
            became = await self._settle_and_submit(conn, ctx, outcome)
            if became is None:
                raise LeaseLost
        ctx.connection = None
        return became

    async def _settle_and_submit(self, conn: Connection, ctx: Context, outcome: Outcome) -> Status | None:
        following = self._jobs.only_follow_up(ctx)
        if following is None:
            if ctx.follow_ups:
                await self._jobs.submit_wishes(conn, ctx)
            return await settle(conn, ctx.held, outcome)
        row = await conn.fetchrow(SETTLE_AND_SUBMIT, *_ending(ctx.held, outcome, hook=False), *one_job(*following))
        if row is None or row["became"] is None:
            return None
        self._jobs.count_follow_up(ctx, row["following"])
        return Status(row["became"])

    async def _end_badly(self, handler: Handler[Any, Any], ctx: Context, outcome: Outcome) -> Status | None:
        ctx.follow_ups.clear()  # what the handler wished for does not follow; what `on_failure` wishes for does
        async with Transaction(await self._jobs.sessions.begin(ctx.tenant)) as transaction:
            conn, hook = transaction.conn, handler.failure is not None
            transaction.must_end(LONGEST_END + hook * LONGEST_HOOK)
            became = await settle(conn, ctx.held, outcome, hook=hook)
            if became in {Status.FAILED, Status.DEAD_LETTER} and outcome.error is not None:
                await self._tell_failure(handler, ctx, outcome.error, conn)
                await self._jobs.submit_wishes(conn, ctx)
        ctx.connection = None
        return became

    async def _tell_failure(self, handler: Handler[Any, Any], ctx: Context, error: JobError, conn: Connection) -> None:
        if handler.failure is None:
            return
        ctx.connection, wished = conn, list(ctx.follow_ups)
        try:
            async with conn.transaction(), asyncio.timeout(LONGEST_HOOK):  # a savepoint: the job ends all the same
                await handler.failure(ctx, error)
        except Exception:
            ctx.follow_ups[:] = wished
            log.exception("on_failure failed", extra={"job_id": str(ctx.job_id), "type": handler.type})

    async def roll_back(self, ctx: Context) -> None:
        """Undo what the handler did in its transaction, if it opened one."""
        transaction = self._open.pop(ctx, None)
        ctx.connection = None
        if transaction is not None:
            transaction.must_end(LONGEST_END)
            try:
                await transaction.end(commit=False)
            except Exception as lost:  # noqa: BLE001 (it is gone, and the transaction with it)
                log.warning("job %s could not be rolled back: %s", ctx.job_id, str(lost) or type(lost).__name__)

    async def cut_off(self, ctx: Context) -> None:
        """Take the transaction away from a handler that does not stop."""
        transaction = self._open.pop(ctx, None)
        if transaction is not None:
            transaction.cut()
            with suppress(Exception):
                await transaction.end(commit=False)


def _left(ctx: Context) -> float:
    """Hooks share the time of the execution; some is always left."""
    return LONGEST_HOOK if ctx.deadline is None else max(1.0, ctx.deadline - time.monotonic())


class Transaction:
    """An open transaction in its place, and a timer that cuts its connection if it has to end and does not."""

    __slots__ = ("_begun", "_places", "_timer", "conn")

    def __init__(self, begun: Begun, places: asyncio.Semaphore | None = None) -> None:
        self.conn = begun.conn
        self._begun = begun
        self._places = places
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Transaction":
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.end(commit=kind is None)

    async def end(self, *, commit: bool) -> None:
        try:
            await self._begun.end(commit=commit)
        finally:
            self._calm()
            if self._places is not None:
                self._places.release()

    def must_end(self, seconds: float) -> None:
        """A network that swallows everything would keep us waiting for hours."""
        self._calm()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begun.cut)

    def cut(self) -> None:
        self._begun.cut()

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
