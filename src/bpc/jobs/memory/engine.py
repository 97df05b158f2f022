"""Jobs that are not restartable: in the memory of this process, and gone with it.

    engine = MemoryEngine(handlers)
    engine.start()
    job_id = engine.submit(thumbnail, picture, tenant=tenant)    not a coroutine: it is there when this returns
    await engine.stop(grace=30)                                  lets running jobs finish, cancels the rest

They see the same `Context` as jobs in the database and end the same ways. Few may wait (`QueueFull` is the answer to
more), tenants take turns, and inside a tenant's turn priority counts, then who came first. Everything happens on the
event loop that `start` was called on; nothing here is safe to call from another thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context as Variables
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final, TypeAlias, TypeVar
from uuid import UUID

from bpc.jobs.changes import NEXT_STEP, Cancelled, Cancelling
from bpc.jobs.context import Computing, Connection, Context, Held, HowFar, Limit, Wish
from bpc.jobs.errors import (
    HandlerNotFound,
    InvalidInput,
    JobCancelled,
    JobConflict,
    JobError,
    JobsRefusal,
    LeaseLost,
    QueueFull,
)
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.job import Job
from bpc.jobs.memory.run import Run, ended, executed, lost
from bpc.jobs.memory.store import OWNER, Channel, Clock, LoopClock, Record, Store, Told, read
from bpc.jobs.metrics import Metrics
from bpc.jobs.outcome import Ending, Outcome, Status, Why
from bpc.jobs.submitting import checked
from bpc.jobs.tracing import executing, traceparent_now

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 (input)
Transaction: TypeAlias = Callable[[UUID], AbstractAsyncContextManager[Connection]]
Forward: TypeAlias = Callable[[Sequence[Wish], Context], Awaitable[object]]

MOST: Final = 200

log = logging.getLogger(__name__)


class EngineStopped(JobsRefusal):
    """This process is about to end, and in-memory jobs with it."""

    code: ClassVar[str] = "QUEUE_FULL"
    retryable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("no in-memory jobs are taken any more: this process is stopping", fix="try again elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHealth:
    """How many jobs wait (and may), and how many run."""

    depth: int
    capacity: int
    active: int


class MemoryEngine:
    """Runs jobs whose handlers are not restartable. It is the `Backing` of their contexts."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        capacity: int = 256,
        concurrency: int = 4,
        max_attempts: int = 5,
        ttl: timedelta = timedelta(days=14),
        remember: int = 10_000,
        cancel_grace: float = 10.0,
        transaction: Transaction | None = None,
        processes: Computing | None = None,
        forward: Forward | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`forward` submits follow-up jobs that are restartable: on `ctx.connection` if the job has a transaction.

        Of finished jobs the last `remember` are kept, each for its handler's TTL or else `ttl`.
        """
        if capacity < 1 or concurrency < 1:
            raise ValueError("there is room for at least one job, and for one to run")
        self._handlers = handlers
        self._capacity = capacity
        self.concurrency = concurrency  # takes effect with the next job
        self._max_attempts = max_attempts
        self._ttl = ttl
        self._cancel_grace = cancel_grace
        self._transaction = transaction
        self._processes = processes
        self._forward = forward
        self._metrics = metrics or Metrics()
        self._clock: Clock = clock or LoopClock()
        self._store = Store(self._clock, remember)
        self._ready = Channel()
        self._later: set[UUID] = set()
        self._reserved = 0  # places for follow-ups of jobs that are being committed
        self._runs: set[Run] = set()
        self._left_behind: set[asyncio.Task[None]] = set()
        self._started = False
        self._stopping = False
        self._quiet = asyncio.Event()
        self._stopped = asyncio.Event()

    # Asking for jobs

    def submit(
        self,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        depends_on: Sequence[UUID] = (),
        limit: Limit | None = None,
        correlation_id: str | None = None,
        actor: str | None = None,
        traceparent: str | None = None,
    ) -> UUID:
        """Return the id of the new job, or of the one of this tenant and type that has the `key` already.

        Raises `QueueFull` when too many jobs wait, and refuses what only jobs in the database can do.
        """
        wish = self._wish(handler, value, key=key, priority=priority, delay=delay, limit=limit, depends_on=depends_on)
        return self.add(wish, tenant=tenant, correlation_id=correlation_id, actor=actor, traceparent=traceparent)

    def add(
        self,
        wish: Wish,
        *,
        tenant: UUID,
        correlation_id: str | None = None,
        actor: str | None = None,
        traceparent: str | None = None,
    ) -> UUID:
        """Submit a job that was checked before. Raises what `submit` raises."""
        _refuse_what_needs_the_database(wish)
        if (there := self._store.taken(tenant, wish)) is not None:
            return there
        self._make_sure_there_is_room(1)
        told = Told(correlation_id, actor, traceparent or wish.traceparent or traceparent_now())
        return self._insert(wish, tenant, told)

    def cancel(self, tenant: UUID, job_id: UUID, reason: str | None = None) -> Cancelled | Cancelling:
        """Cancel a job: at once if it waits; if it runs, it is asked to stop, and interrupted if it does not.

        Raises `JobNotFound`, or `JobConflict` if it is over.
        """
        record = self._store.get(tenant, job_id)
        if record.status.is_over:
            raise JobConflict(
                f"job `{job_id}` is over: it ended {record.status}",
                fix="nothing to do: only a job that is not over can be cancelled",
                details={"job_id": str(job_id), "status": record.status.value},
            )
        if record.run is not None:
            self._ask_to_stop(record.run)
            return Cancelling(job_id)
        self._unqueue(record)
        self._finish(record, Status.CANCELLED, JobError.of(JobCancelled(reason or "it was cancelled before it ran")))
        return Cancelled(job_id)

    def redrive(self, tenant: UUID, job_id: UUID) -> None:
        """Run a job again that ended FAILED, DEAD_LETTER or CANCELLED, with all its attempts and from its checkpoint.

        One that waits for its time is run now. Raises `JobNotFound`, or `JobConflict` in any other state.
        """
        record = self._store.get(tenant, job_id)
        details = {"job_id": str(job_id), "status": record.status.value}
        if record.status in NEXT_STEP:
            raise JobConflict(
                f"job `{job_id}` is {record.status} and cannot be run again",
                fix=NEXT_STEP[record.status],
                details=details,
            )
        if record.status.is_over:
            self._make_sure_there_is_room(1)
            self._store.revive(record)
            self._queue(record, 0.0)
        elif record.timer is not None:
            self._unqueue(record)
            self._queue(record, 0.0)
        else:
            raise JobConflict(
                f"job `{job_id}` cannot be run again: it already waits for a worker",
                fix="nothing to do: it runs as soon as there is room",
                details=details,
            )

    # Looking at jobs

    def job(self, tenant: UUID, job_id: UUID) -> Job:
        return self._store.get(tenant, job_id).view()

    def result_text(self, tenant: UUID, job_id: UUID) -> tuple[Status, str | None, JobError | None]:
        """How the job stands, the JSON it returned if it succeeded, and the last error if there was one.

        What JSON cannot say is None here; `result_value` has it.
        """
        record = self._store.get(tenant, job_id)
        return record.status, record.made_text, record.last_error

    def result_value(self, tenant: UUID, job_id: UUID) -> tuple[Status, Any, JobError | None]:
        """How the job stands, what it returned if it succeeded, and the last error if there was one."""
        record = self._store.get(tenant, job_id)
        return record.status, record.made, record.last_error

    def result(self, tenant: UUID, job_id: UUID) -> Any:
        """What the job returned. Raises `JobNotFound`, or `JobConflict` if it has not succeeded."""
        status, made, _ = self.result_value(tenant, job_id)
        if status is not Status.SUCCEEDED:
            raise JobConflict(
                f"job `{job_id}` is {status} and has no result",
                fix="look at its error" if status.is_over else "ask again later",
                details={"job_id": str(job_id), "status": status.value},
            )
        return made

    async def wait(self, tenant: UUID, job_id: UUID) -> Job:
        """Return the job as soon as it is over."""
        record = self._store.get(tenant, job_id)
        await record.over.wait()
        return record.view()

    def list(
        self,
        tenant: UUID,
        *,
        job_type: str | None = None,
        status: Status | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        before_id: UUID | None = None,
        limit: int = 50,
    ) -> Sequence[Job]:
        """The newest jobs that fit, at most `limit`; the next page is what comes `before_id`, the last one's id.

        `created_after` is a moment that is included, `created_before` one that is not.
        """
        if not 1 <= limit <= MOST:
            raise InvalidInput(f"a page has 1 to {MOST} jobs, not {limit}", details={"limit": limit})
        found = (
            record
            for record in self._store.of(tenant)
            if (job_type is None or record.handler.type == job_type)
            and (status is None or record.status is status)
            and (created_after is None or record.created_at >= created_after)
            and (created_before is None or record.created_at < created_before)
            and (before_id is None or record.job_id < before_id)
        )
        return [record.view() for record in islice(found, limit)]

    def health(self) -> MemoryHealth:
        return MemoryHealth(depth=self._depth, capacity=self._capacity, active=len(self._runs))

    def __contains__(self, name: tuple[UUID, UUID]) -> bool:
        """Whether (tenant, job_id) is a job of this engine."""
        return self._store.find(*name) is not None

    # Running

    def start(self) -> None:
        """Start running what waits, on this event loop."""
        if self._stopping:
            raise EngineStopped
        self._started = True
        self._fill()

    async def run(self) -> None:
        """Run jobs until `stop`. When this is cancelled, so are they."""
        self.start()
        try:
            await self._stopped.wait()
        finally:
            await self.stop(grace=0.0)

    async def stop(self, grace: float = 30.0) -> None:
        """Start nothing more, give running jobs `grace` seconds to finish, cancel what is left."""
        if self._stopping:
            await self._stopped.wait()
            return
        self._stopping = True
        try:
            await self._until_quiet(grace)
            for run in list(self._runs):
                run.interrupt(Why.STOP)
            await self._until_quiet(self._cancel_grace)
        finally:
            for record in self._store.not_over():
                self._give_up(record)
            self._stopped.set()

    # What contexts ask for

    async def save(self, held: Held, column: str, text: str) -> bool:
        run = self._run_of(held)
        if run is None:
            return False
        setattr(run.record, column, text)
        return True

    async def end_step(self, ctx: Context, text: str) -> bool:
        run = self._run_of(ctx.held)
        if run is None:
            return False
        async with run.undisturbed():
            if ctx.connection is not None or ctx.follow_ups:
                await self._keep(run)
            run.record.step, run.record.gave = text, ctx.gave
        return True

    async def begin(self, ctx: Context) -> Connection:
        run = self._run_of(ctx.held)
        if run is None:
            raise LeaseLost
        if self._transaction is None:
            raise JobConflict(
                "in-memory jobs have no database here", fix="make the engine with `transaction=sessions.tenant`"
            )
        return await run.enter(self._transaction(ctx.tenant))

    async def compute(
        self,
        ctx: Context,  # noqa: ARG002
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        told: HowFar | None,
    ) -> T:
        if self._processes is None:
            raise JobConflict("in-memory jobs have no child processes here", fix="make the engine with `processes=…`")
        return await self._processes.run(function, arguments, told=told)

    def wish(self, ctx: Context, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:  # noqa: ARG002
        if handler.restartable and self._forward is None:
            raise JobConflict(
                f"jobs of type `{handler.type}` are restartable, and there is no database here to keep them",
                fix="make the engine with `forward=…`",
            )
        wish = self._wish(handler, value, **how)
        if not handler.restartable:
            _refuse_what_needs_the_database(wish)
        return wish

    def _wish(self, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:
        if handler.type not in self._handlers:
            raise HandlerNotFound(handler.type)
        return checked(Wish.of(handler, value, **how))

    # Where jobs wait

    @property
    def _depth(self) -> int:
        return len(self._ready) + len(self._later)

    def _make_sure_there_is_room(self, places: int) -> None:
        if self._stopping:
            raise EngineStopped
        if self._depth + self._reserved + places > self._capacity:
            raise QueueFull(self._capacity)

    def _insert(self, wish: Wish, tenant: UUID, told: Told) -> UUID:
        if (there := self._store.taken(tenant, wish)) is not None:
            return there
        now = self._clock.now()
        most = wish.handler.retry.attempts or self._max_attempts
        record = Record(tenant=tenant, wish=wish, max_attempts=most, told=told, created_at=now, scheduled_at=now)
        self._store.add(record)
        self._metrics.enqueued(wish.handler.type)
        self._queue(record, wish.delay)
        return wish.job_id

    def _queue(self, record: Record, delay: float) -> None:
        """Let the job wait for `delay` seconds, then for its turn. A retry is never refused for lack of room."""
        record.status = Status.QUEUED
        record.scheduled_at = self._clock.now() + timedelta(seconds=delay)
        if delay > 0:
            self._later.add(record.job_id)
            record.timer = self._clock.after(delay, lambda: self._due(record))
        else:
            self._due(record)

    def _due(self, record: Record) -> None:
        record.timer = None
        self._later.discard(record.job_id)
        self._ready.put(record)
        self._fill()

    def _unqueue(self, record: Record) -> None:
        if record.timer is not None:
            record.timer.cancel()
            record.timer = None
        self._later.discard(record.job_id)
        self._ready.remove(record)

    def _fill(self) -> None:
        """Start as many jobs as may run."""
        while self._started and not self._stopping and len(self._runs) < self.concurrency and self._ready:
            self._begin_run(self._ready.take())

    # One execution

    def _begin_run(self, record: Record) -> None:
        record.status = Status.RUNNING
        record.attempts += 1
        record.started_at = self._clock.now()
        self._metrics.acquired({record.handler.type: 1})
        self._metrics.running(record.handler.type, 1)
        self._spawn(record)

    def _spawn(self, record: Record, outcome: Outcome | None = None) -> None:
        """Execute the job in a task of its own; with an `outcome`, only what follows from that."""
        held = Held(record.tenant, record.job_id, record.handler.type, OWNER, record.attempts)
        ctx = Context(
            self,
            held,
            max_attempts=record.max_attempts,
            checkpoint=read(record.checkpoint),
            step=record.step,
            gave=record.gave,
            correlation_id=record.told.correlation_id,
            actor=record.told.actor,
            traceparent=record.told.traceparent,
        )
        record.run = run = Run(record, ctx, self._clock, patience=self._cancel_grace, on_deaf=self._leave_behind)
        self._runs.add(run)
        # In a context of its own: it must not see variables of whichever request happened to make room for it.
        run.task = asyncio.get_running_loop().create_task(
            self._carry_out(run, outcome), name=f"{record.handler.type} {record.job_id}", context=Variables()
        )

    async def _carry_out(self, run: Run, outcome: Outcome | None) -> None:
        """From the first line of the handler to whatever follows from its end."""
        became = lost()
        try:
            with executing(run.ctx.held, run.ctx.traceparent, attempt=run.ctx.attempt) as span:
                became = await ended(run, outcome or await executed(run), self._keep)
                span.ended(became)
        except asyncio.CancelledError:
            await run.undo()
            raise
        except Exception as error:  # nobody waits for this task: the job has to tell
            log.error("an in-memory job could not be ended in order", exc_info=error, extra=run.record.named())
            became = run.failed(error)
        finally:
            self._settle(run, became)

    def _leave_behind(self, run: Run, outcome: Outcome) -> None:
        """It was interrupted and does not stop: the job ends without it, and its place is free."""
        log.error("an in-memory job ignores that it was interrupted; it is left behind", extra=run.record.named())
        if run.decided is not None:
            self._settle(run, outcome)
            return
        self._let_go(run)
        self._spawn(run.record, outcome)

    def _let_go(self, run: Run) -> None:
        run.close()
        self._runs.discard(run)
        run.record.run = None
        if run.task is not None:  # a task that nobody refers to may vanish in the middle of its last words
            self._left_behind.add(run.task)
            run.task.add_done_callback(self._left_behind.discard)

    async def _keep(self, run: Run) -> None:
        """Commit together with the follow-ups: those kept in the database before, those in memory once it is sure."""
        record, ctx = run.record, run.ctx
        durable = [wish for wish in ctx.follow_ups if wish.handler.restartable]
        ours = [wish for wish in ctx.follow_ups if not wish.handler.restartable]
        with self._room_for(sum(self._store.taken(record.tenant, wish) is None for wish in ours)):
            if durable and self._forward is not None:
                await self._forward(durable, ctx)
            if run.is_left_behind:
                raise LeaseLost
            await run.commit()
            for wish in ours:
                told = replace(record.told, traceparent=wish.traceparent or record.told.traceparent)
                self._insert(wish, record.tenant, told)

    @contextmanager
    def _room_for(self, places: int) -> Iterator[None]:
        if places and not self._stopping:  # what follows a job that was let finish is lost with the rest, and says so
            self._make_sure_there_is_room(places)
        self._reserved += places
        try:
            yield
        finally:
            self._reserved -= places

    def _settle(self, run: Run, outcome: Outcome) -> None:
        """Write down how it ended, unless the job was given up before."""
        record = run.record
        if run.is_left_behind:
            return
        self._let_go(run)
        self._metrics.running(record.handler.type, -1)
        if outcome.ending is Ending.RETRY:
            record.last_error = outcome.error
            self._metrics.retried(record.handler.type, 1, [record.seconds(self._clock.now())])
            self._queue(record, outcome.delay)
        else:
            record.made = run.made if outcome.ending is Ending.SUCCEEDED else None
            self._finish(record, Status(outcome.ending.value), outcome.error)
        self._fill()
        if not self._runs:
            self._quiet.set()

    def _ask_to_stop(self, run: Run) -> None:
        if not run.ctx.cancel_requested:
            run.ctx.request_cancel()
            run.timers.append(self._clock.after(self._cancel_grace, lambda: run.interrupt(Why.CANCEL)))

    # The end

    def _finish(self, record: Record, status: Status, error: JobError | None) -> None:
        record.status = status
        record.last_error = error or record.last_error
        record.finished_at = self._clock.now()
        record.over.set()
        if status is Status.SUCCEEDED or self._stopping:  # others may be run again
            record.let_go()
        seconds = [] if record.attempts == 0 else [record.seconds(record.finished_at)]
        self._metrics.finished(record.handler.type, status, 1, seconds)
        self._store.finish(record, self._ttl if record.handler.ttl is None else record.handler.ttl)

    def _give_up(self, record: Record) -> None:
        run = record.run
        if run is not None and run.task is not None:
            run.task.cancel()
            self._settle(run, lost())
        else:
            self._unqueue(record)
            self._finish(record, Status.CANCELLED, lost().error)

    async def _until_quiet(self, seconds: float) -> None:
        """Until nothing runs, but not longer than `seconds`."""
        self._quiet.clear()
        if not self._runs:
            return
        timer = self._clock.after(seconds, self._quiet.set)
        await self._quiet.wait()
        timer.cancel()

    def _run_of(self, held: Held) -> Run | None:
        """The execution that `held` is of, if it is still the one that counts."""
        record = self._store.find(held.tenant, held.job_id)
        if record is None or record.run is None or record.run.ctx.held is not held:
            return None
        return record.run


def _refuse_what_needs_the_database(wish: Wish) -> None:
    if wish.handler.restartable:
        raise JobConflict(
            f"jobs of type `{wish.handler.type}` are restartable: the database keeps them, not the memory"
        )
    if wish.depends_on:
        raise InvalidInput(
            "an in-memory job cannot depend on other jobs",
            fix="make its handler restartable, or submit it from the job",
        )
    if wish.limit is not None:
        raise InvalidInput("an in-memory job cannot have a limit of its own", fix="make its handler restartable")
