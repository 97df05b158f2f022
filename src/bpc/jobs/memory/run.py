"""One execution of an in-memory job: what may interrupt it, and the transaction it ends in.

handler ─► on_success ─► commit with what follows ─► its end          may be interrupted: the first two, and
   └────────── an error ─► undo ─► on_failure ─► its end              on_failure; never a commit, also of a step
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeAlias

from bpc.jobs.attempt import after, execute_in_memory
from bpc.jobs.context import Connection, Context
from bpc.jobs.errors import JobCancelled, JobError
from bpc.jobs.memory.store import Clock, Record, Timer
from bpc.jobs.outcome import Ending, Outcome, Why, cancelled, timed_out

LOST: Final = "the process stopped before the job was done; in-memory jobs are not run again after a restart"

log = logging.getLogger(__name__)


Keep: TypeAlias = "Callable[[Run], Awaitable[None]]"
OnDeaf: TypeAlias = "Callable[[Run, Outcome], None]"


class Run:
    """One execution: its task, what may interrupt it, and its transaction."""

    def __init__(self, record: Record, ctx: Context, clock: Clock, *, patience: float, on_deaf: OnDeaf) -> None:
        """`on_deaf` is called if it goes on for `patience` seconds after it was interrupted."""
        self.record = record
        self.ctx = ctx
        self._patience = patience
        self._on_deaf = on_deaf
        self.task: asyncio.Task[None] | None = None
        self.timers: list[Timer] = []
        self.why: Why | None = None
        self.decided: Outcome | None = None  # what the job ends as, once only `on_failure` is left to be called
        self.made: Any = None  # what the handler returned, if it succeeded
        self._clock = clock
        self._open = False
        self._put_off: list[Callable[[], None]] | None = None  # interruptions that wait until a step is committed
        self._beginning = asyncio.Lock()
        self._transaction = AsyncExitStack()

    @property
    def is_ended_from_outside(self) -> bool:
        """Whether it is neither the handler's own doing nor ours that the task was cancelled."""
        return self.why is None and self.task is not None and self.task.cancelling() > 0

    @contextmanager
    def interruptible(self, seconds: float | None) -> Iterator[None]:
        """What runs in here may be interrupted, and is when `seconds` are over. Nothing outside ever is."""
        self.why = None
        self._open = True
        timer = None if seconds is None else self._clock.after(seconds, lambda: self.interrupt(Why.TIMEOUT))
        try:
            yield
        finally:
            self._open = False
            if timer is not None:
                timer.cancel()
            if self.why is not None and self.task is not None:
                self.task.uncancel()

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """What runs in here, inside of what is interruptible, is not interrupted before it is over."""
        waiting: list[Callable[[], None]] = []
        self._put_off = waiting
        try:
            yield
        finally:
            self._put_off = None
            for call in waiting:
                call()
            if waiting:
                await asyncio.sleep(0)  # is interrupted here, and nowhere later

    def interrupt(self, why: Why) -> None:
        if self._put_off is not None:
            self._put_off.append(lambda: self.interrupt(why))
        elif self._open and self.why is None and self.task is not None:
            self.why = why
            self.task.cancel()
            self.timers.append(self._clock.after(self._patience, lambda: self._still_runs(why)))

    def _still_runs(self, why: Why) -> None:
        if self._put_off is not None:
            self._put_off.append(lambda: self._still_runs(why))
        elif self._open and not self.is_left_behind:
            self._on_deaf(self, self.decided or self.interrupted(why))

    @property
    def is_left_behind(self) -> bool:
        """Whether the job goes on without this execution: nothing of it may be kept any more."""
        return self.record.run is not self

    def interrupted(self, why: Why) -> Outcome:
        if why is Why.STOP:
            return lost()
        if why is Why.CANCEL or self.ctx.cancel_requested:
            return cancelled()
        handler = self.record.handler
        return timed_out(
            handler.timeout or 0.0, attempt=self.ctx.attempt, most=self.ctx.max_attempts, retry=handler.retry
        )

    def failed(self, error: BaseException) -> Outcome:
        return after(error, self.record.handler, self.ctx)

    def unless_cancelled(self, outcome: Outcome) -> Outcome:
        """Who asked a job to stop does not want it to run again."""
        again = outcome.ending in {Ending.RETRY, Ending.DEAD_LETTER}
        return cancelled() if again and self.ctx.cancel_requested else outcome

    async def enter(self, transaction: AbstractAsyncContextManager[Connection]) -> Connection:
        async with self._beginning:
            if self.ctx.connection is None:  # two parts of a handler may ask at the same time
                self.ctx.connection = await self._transaction.enter_async_context(transaction)
            return self.ctx.connection

    async def commit(self) -> None:
        ended, self._transaction = self._transaction, AsyncExitStack()
        await ended.aclose()
        self._start_anew()

    async def undo(self) -> None:
        """Roll back, and forget the follow-ups. A database that does not answer has rolled back, too."""
        ended, self._transaction = self._transaction, AsyncExitStack()
        try:
            with suppress(_Undone):
                await ended.__aexit__(_Undone, _Undone(), None)
        except Exception as error:
            log.warning("a transaction could not be rolled back", exc_info=error, extra=self.record.named())
        self._start_anew()

    def _start_anew(self) -> None:
        self.ctx.connection = None
        self.ctx.follow_ups.clear()

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()


class _Undone(Exception):
    """Thrown into a transaction to roll it back."""


async def executed(run: Run) -> Outcome:
    """The handler and its `on_success`: what may be interrupted."""
    handler, ctx = run.record.handler, run.ctx
    if handler.timeout is not None:
        ctx.deadline = asyncio.get_running_loop().time() + handler.timeout
    try:
        with run.interruptible(handler.timeout):
            outcome, run.made = await execute_in_memory(handler, ctx, run.record.value)
            if outcome.ending is Ending.SUCCEEDED and handler.success is not None:
                outcome = await _approved(outcome, run)
    except asyncio.CancelledError as stopped:
        if run.is_ended_from_outside:
            raise
        outcome = run.failed(stopped)  # the handler's own doing, unless we know why
    if run.why is not None and not outcome.keeps_effects:
        return run.interrupted(run.why)
    return outcome


async def ended(run: Run, outcome: Outcome, keep: Keep) -> Outcome:
    """Keep what the execution did, or undo it. What fails here fails the execution."""
    if run.is_left_behind:
        await run.undo()
        return outcome
    if outcome.keeps_effects:
        try:
            if outcome.ending is Ending.FAILED:
                await _tell_failure(run, outcome)
            await keep(run)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (the database's, or no room for follow-ups)
            outcome = run.failed(error)
        else:
            return outcome
    outcome = run.unless_cancelled(outcome)
    await run.undo()
    if outcome.ending in {Ending.FAILED, Ending.DEAD_LETTER}:
        await _tell_failure(run, outcome)
        await _keep_what_failure_did(run, keep)
    return outcome


async def _approved(outcome: Outcome, run: Run) -> Outcome:
    """What becomes of a success when `on_success` was asked."""
    handler = run.record.handler
    try:
        if handler.success is not None:
            await handler.success(run.ctx, run.made)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it does, its job ends in order)
        return run.failed(error)
    return outcome


async def _tell_failure(run: Run, outcome: Outcome) -> None:
    """Call `on_failure`, if there is one. What it raises is logged, and what it did is undone."""
    handler, conn, wished = run.record.handler, run.ctx.connection, list(run.ctx.follow_ups)
    if handler.failure is None or outcome.error is None:
        return
    run.decided = outcome
    try:
        async with AsyncExitStack() as savepoint:
            if conn is not None:
                await savepoint.enter_async_context(conn.transaction())
            with run.interruptible(handler.timeout):
                await handler.failure(run.ctx, outcome.error)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and run.is_ended_from_outside:
            raise
        log.error("on_failure of an in-memory job failed", exc_info=error, extra=run.record.named())
        if conn is None:
            await run.undo()
        run.ctx.follow_ups[:] = wished


async def _keep_what_failure_did(run: Run, keep: Keep) -> None:
    try:
        await keep(run)
    except (Exception, SystemExit) as error:
        log.error("on_failure of an in-memory job failed", exc_info=error, extra=run.record.named())
        await run.undo()


def lost() -> Outcome:
    return Outcome(ending=Ending.CANCELLED, error=JobError.of(JobCancelled(LOST)))
