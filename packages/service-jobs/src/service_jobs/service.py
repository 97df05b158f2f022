"""Jobs: what a service does with jobs, in one object.

    async with Jobs.connect("postgresql://…", handlers) as jobs:
        job_id = await jobs.submit(greet, "world", tenant=tenant)

Jobs of restartable handlers live in PostgreSQL and are run by any worker that knows their type; the others live in
the memory of this process. Who asks is always a tenant: another tenant's job does not exist.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from operator import eq
from typing import Any, Protocol, TypeVar
from uuid import UUID

import asyncpg

from bpc.jobs import batches, changes, queries, schedules
from bpc.jobs import health as looking
from bpc.jobs.batches import Batch, Item, SubmittedBatch
from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.context import Computing, Connection, Context, HowFar, Limit, Wish
from bpc.jobs.cron import CatchUp
from bpc.jobs.errors import JobConflict, NoProcesses
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.health import Health
from bpc.jobs.ids import BatchId, new_ids
from bpc.jobs.job import Job
from bpc.jobs.making import Defaults, Maker, require_restartable
from bpc.jobs.memory import MemoryEngine
from bpc.jobs.metrics import Metrics
from bpc.jobs.outcome import Status
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import Manner, Rows, Submitter, check_keys, check_manner, is_one_job, submit
from bpc.jobs.tracing import submitting

__all__ = ["Bell", "Defaults", "Jobs"]

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
T = TypeVar("T")


class Bell(Protocol):
    """A second way to tell workers that there is work, beside PostgreSQL's own."""

    def publish(self, job_ids: Sequence[UUID]) -> None: ...


class Jobs:
    """Submit jobs, look at them, change their course."""

    def __init__(
        self,
        handlers: Handlers,
        sessions: Sessions,
        *,
        defaults: Defaults = Defaults(),  # noqa: B008 (frozen)
        metrics: Metrics | None = None,
        memory: MemoryEngine | None = None,
        processes: Computing | None = None,
        trigger: Bell | None = None,
    ) -> None:
        self.handlers = handlers
        self.sessions = sessions
        self.defaults = defaults
        self.metrics = metrics or Metrics()
        self.memory = memory or MemoryEngine(
            handlers,
            capacity=defaults.memory_capacity,
            concurrency=defaults.memory_concurrency,
            max_attempts=defaults.attempts,
            ttl=defaults.ttl,
            cancel_grace=defaults.cancel_grace,
            transaction=sessions.tenant,
            processes=processes,
            forward=self._submit_follow_ups,
            metrics=self.metrics,
        )
        self._memory_runs = False
        self._processes = processes
        self._bell = trigger
        self._maker = Maker(handlers, defaults)
        self._submitter = Submitter(sessions)

    @classmethod
    @asynccontextmanager
    async def connect(cls, dsn: str, handlers: Handlers, *, size: int = 10, **how: Any) -> "AsyncIterator[Jobs]":
        """Everything from one database URL, for a service without roles of its own. `how` is what `Jobs` takes."""

        async def connected(*_nothing: Any, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
            return await asyncpg.connect(dsn, **named)

        sessions = Sessions(connected, size=size)
        jobs = cls(handlers, sessions, **how)
        await sessions.open()
        try:
            yield jobs
        finally:
            await jobs.close()
            await sessions.close()

    async def close(self, grace: float = 30.0) -> None:
        """Let in-memory jobs finish, as far as they do within `grace` seconds."""
        await self.memory.stop(grace)

    # Submitting ------------------------------------------------------------------------------------------------

    async def submit(
        self,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID,
        conn: Connection | None = None,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: Limit | None = None,
        depends_on: Sequence[UUID] = (),
        attempts: int | None = None,
        correlation_id: str | None = None,
        actor: str | None = None,
    ) -> UUID:
        """Submit one job: in the transaction of `conn`, or, without one, durable when this returns.

        With a `key`, at most one job of this type and tenant exists: a second submission returns the first one's id.
        `attempts` is how often it is started at most, if not as often as its handler says.
        """
        wish = self.wish(
            handler, value, key=key, priority=priority, delay=delay, limit=limit, depends_on=tuple(depends_on)
        )
        if conn is not None:
            require_restartable(handler, "be part of a transaction", instead="submit the job after the commit")
        if attempts is not None:
            require_restartable(handler, "have attempts of their own", instead="give its `retry` so many")
        with submitting(handler.type):
            if not handler.restartable:
                return self._submit_in_memory(wish, tenant, correlation_id, actor)
            manner = self._maker.manner_of(wish, tenant, correlation_id=correlation_id, actor=actor, attempts=attempts)
            if conn is None:
                job_id = await self._submitter.submit(manner, wish)
                self._ring([job_id])
            else:
                [job_id] = await submit(conn, manner, Rows.of([wish]))
        self._count(handler, [wish.job_id], [job_id])
        return job_id

    def committed(self, ids: Sequence[UUID]) -> None:
        """Jobs that were submitted in somebody else's transaction are there now: ring for them."""
        self._ring(ids)

    async def submit_many(
        self,
        handler: Handler[I, Any],
        values: Iterable[I],
        *,
        tenant: UUID,
        conn: Connection | None = None,
        keys: Sequence[str | None] | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limits: Sequence[Limit | None] | None = None,
        depends_on: Sequence[UUID] = (),
        attempts: int | None = None,
        correlation_id: str | None = None,
        actor: str | None = None,
    ) -> list[UUID]:
        """Submit many jobs of one restartable type in one transaction; an id for each, in order."""
        given = list(values)
        self._maker.require_many(handler, len(given), keys, limits)
        check_manner(priority, delay)
        check_keys(keys or ())
        if not given:
            return []
        rows = Rows(
            ids=new_ids(len(given)),
            payloads=handler.input_texts(given),
            keys=keys,
            delays=[delay] * len(given) if delay else None,
            limit_keys=None if limits is None else [None if limit is None else limit.key for limit in limits],
        )
        with submitting(handler.type, len(given)):
            manner = self._maker.manner(
                handler,
                tenant,
                priority=priority,
                limits=limits or (),
                depends_on=depends_on,
                correlation_id=correlation_id,
                actor=actor,
                attempts=attempts,
            )
            place: AbstractAsyncContextManager[Connection] = (
                self.sessions.plain() if conn is None else nullcontext(conn)
            )
            async with place as used:
                ids = await submit(used, manner, rows)
        if conn is None:
            self._ring(ids)
        self._count(handler, rows.ids, ids)
        return ids

    async def submit_batch(
        self,
        handler: Handler[I, Any],
        values: Iterable[I],
        *,
        tenant: UUID,
        conn: Connection | None = None,
        keys: Sequence[str | None] | None = None,
        priority: int = 2,
        limits: Sequence[Limit | None] | None = None,
        name: str | None = None,
        then: Handler[Any, Any] | None = None,
        then_value: Any = None,
        correlation_id: str | None = None,
        actor: str | None = None,
    ) -> SubmittedBatch:
        """Submit many jobs that are looked at as one; when all are over, however they ended, submit `then`."""
        wishes = self._maker.wishes(handler, list(values), keys, limits, priority)
        follow_up = None if then is None else self._maker.follow_up(then, then_value)
        with submitting(handler.type, len(wishes)):
            manner = self._maker.manner(handler, tenant, priority=priority, correlation_id=correlation_id, actor=actor)
            place = self.sessions.tenant(tenant) if conn is None else nullcontext(conn)
            async with place as used:
                submitted = await batches.submit_batch(used, manner, wishes, name=name, follow_up=follow_up)
        if conn is None:
            self._ring(submitted.job_ids)
        self._count(handler, [wish.job_id for wish in wishes], submitted.job_ids)
        return submitted

    def wish(self, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:
        """A job that could be submitted. Raises `InvalidInput` or `HandlerNotFound`."""
        return self._maker.wish(handler, value, **how)

    async def submit_wishes(self, conn: Connection, ctx: Context) -> None:
        """Submit the follow-up jobs of `ctx` that are restartable, in its transaction."""
        await self._submit_one_by_one(conn, [wish for wish in ctx.follow_ups if wish.handler.restartable], ctx)

    def only_follow_up(self, ctx: Context) -> tuple[Manner, Rows] | None:
        """The one job that follows `ctx`, if there is exactly one and it may run at once."""
        if len(ctx.follow_ups) != 1 or not ctx.follow_ups[0].handler.restartable:
            return None
        [wish] = ctx.follow_ups
        manner = self._maker.manner_of(wish, ctx.tenant, correlation_id=ctx.correlation_id, actor=ctx.actor)
        rows = Rows.of([wish])
        return (manner, rows) if is_one_job(manner, rows) else None

    def count_follow_up(self, ctx: Context, job_id: UUID) -> None:
        """Count the one job that followed `ctx`, unless its key was taken."""
        self._count(ctx.follow_ups[0].handler, [ctx.follow_ups[0].job_id], [job_id])

    def submit_rest(self, ctx: Context) -> None:
        """After the commit: ring for the follow-up jobs of `ctx`, and submit those in memory, as best we can."""
        self._ring([wish.job_id for wish in ctx.follow_ups if wish.handler.restartable])
        for wish in ctx.follow_ups:
            if not wish.handler.restartable:
                self._submit_in_memory(wish, ctx.tenant, ctx.correlation_id, ctx.actor)

    async def compute(self, function: Callable[..., T], arguments: tuple[Any, ...], told: HowFar | None = None) -> T:
        """Run a function in a child process, for a job that asks for it."""
        if self._processes is None:
            raise NoProcesses
        return await self._processes.run(function, arguments, told=told)

    # Looking ---------------------------------------------------------------------------------------------------

    async def job(self, tenant: UUID, job_id: UUID) -> Job:
        """The job as it is now. Raises `JobNotFound`."""
        if (tenant, job_id) in self.memory:
            return self.memory.job(tenant, job_id)
        async with self.sessions.tenant(tenant) as conn:
            return await queries.get(conn, tenant, job_id)

    async def result(self, handler: Handler[Any, O], tenant: UUID, job_id: UUID) -> O:
        """What the job returned. Raises `JobConflict` if it has not succeeded, with its error in the details."""
        if (tenant, job_id) in self.memory:
            status, made, error = self.memory.result_value(tenant, job_id)
        else:
            async with self.sessions.tenant(tenant) as conn:
                status, text, error = await queries.result_text(conn, tenant, job_id)
            made = None if text is None else handler.read_output(text)
        if status is Status.SUCCEEDED:
            return made  # type: ignore[no-any-return]  # by this handler, which declares it
        details: dict[str, object] = {"job_id": str(job_id), "status": status.value}
        if status.is_over:
            raise JobConflict(
                f"job `{job_id}` ended {status} and has no result",
                fix="its error is in the details",
                details=details | {"error": None if error is None else {"code": error.code, "message": error.message}},
            )
        raise JobConflict(f"job `{job_id}` is not over yet: it is {status}", fix="ask again later", details=details)

    async def page(
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
        """Restartable jobs, newest first, at most `limit`; the next page comes `before_id`, the last one's id."""
        async with self.sessions.tenant(tenant) as conn:
            return await queries.page(
                conn,
                tenant,
                job_type=job_type,
                status=status,
                created_after=created_after,
                created_before=created_before,
                before_id=before_id,
                limit=limit,
            )

    async def batch(self, tenant: UUID, batch_id: BatchId) -> Batch:
        """How the jobs of a batch stand. Raises `BatchNotFound`."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.get(conn, tenant, batch_id)

    async def batch_items(
        self,
        tenant: UUID,
        batch_id: BatchId,
        *,
        after: UUID | None = None,
        limit: int = 100,
        only: Iterable[Status] = (),
    ) -> Sequence[Item]:
        """The jobs of a batch, in order, at most `limit`; the next page comes `after` the last one's id."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.items(conn, tenant, batch_id, after=after, limit=limit, only=only)

    async def batch_followed_by(self, tenant: UUID, job_id: UUID) -> BatchId | None:
        """The batch whose end this job was submitted for; None if it was submitted for itself."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.followed_by(conn, tenant, job_id)

    async def health(self, tenant: UUID) -> Health:
        """Depth, active, stale and oldest of one tenant's jobs."""
        async with self.sessions.tenant(tenant) as conn:
            return await looking.health(conn, tenant)

    # Changing --------------------------------------------------------------------------------------------------

    async def cancel(self, tenant: UUID, job_id: UUID, reason: str | None = None) -> Cancelled | Cancelling:
        """Cancel a job: at once if it waits; if it runs, it is asked to stop, and interrupted if it does not."""
        if (tenant, job_id) in self.memory:
            return self.memory.cancel(tenant, job_id, reason)
        async with self.sessions.tenant(tenant) as conn:
            return await changes.cancel(conn, tenant, job_id, reason)

    async def redrive(self, tenant: UUID, job_id: UUID) -> None:
        """Run a job again that ended badly or that somebody cancelled, or at once one that waits for its time."""
        if (tenant, job_id) in self.memory:
            self.memory.redrive(tenant, job_id)
            return
        async with self.sessions.tenant(tenant) as conn:
            await changes.redrive(conn, tenant, job_id)

    async def schedule(
        self,
        name: str,
        cron: str,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID,
        time_zone: str = "UTC",
        priority: int = 2,
        catch_up: CatchUp = CatchUp.ONE,
    ) -> None:
        """Submit a job whenever `cron` says so. Saying the same again changes nothing."""
        made = self._maker.schedule(
            handler, value, name=name, cron=cron, time_zone=time_zone, priority=priority, catch_up=catch_up
        )
        async with self.sessions.tenant(tenant) as conn:
            await schedules.put(conn, tenant, made)

    async def unschedule(self, name: str, *, tenant: UUID) -> None:
        """Forget a schedule; jobs it has submitted stay. Raises `ScheduleNotFound`."""
        async with self.sessions.tenant(tenant) as conn:
            await schedules.remove(conn, tenant, name)

    # How ------------------------------------------------------------------------------------------------------

    def _submit_in_memory(self, wish: Wish, tenant: UUID, correlation_id: str | None, actor: str | None) -> UUID:
        if not self._memory_runs:
            self.memory.start()
            self._memory_runs = True
        return self.memory.add(
            wish, tenant=tenant, correlation_id=correlation_id, actor=actor, traceparent=wish.traceparent
        )

    async def _submit_follow_ups(self, wishes: Sequence[Wish], ctx: Context) -> None:
        """Follow-ups of an in-memory job that are restartable."""
        place = self.sessions.tenant(ctx.tenant) if ctx.connection is None else nullcontext(ctx.connection)
        async with place as conn:
            await self._submit_one_by_one(conn, wishes, ctx)

    async def _submit_one_by_one(self, conn: Connection, wishes: Sequence[Wish], ctx: Context) -> None:
        for wish in wishes:
            manner = self._maker.manner_of(wish, ctx.tenant, correlation_id=ctx.correlation_id, actor=ctx.actor)
            self._count(wish.handler, [wish.job_id], await submit(conn, manner, Rows.of([wish])))

    def _ring(self, ids: Sequence[UUID]) -> None:
        if self._bell is not None:
            self._bell.publish(ids)

    def _count(self, handler: Handler[Any, Any], given: Sequence[UUID], got: Sequence[UUID]) -> None:
        """Count those that are new: a job whose key was taken has got the id of another."""
        self.metrics.enqueued(handler.type, len(got) if got is given else sum(map(eq, given, got)))
