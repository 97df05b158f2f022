"""Jobs: everything a service does with jobs, in one object.

    async with Jobs.connect("postgresql://…", handlers) as jobs:
        job_id = await jobs.submit(greet, "world", tenant=tenant)
        await jobs.wait(tenant, job_id)

Jobs of restartable handlers live in PostgreSQL and any worker that knows their type runs them; the others live in
the memory of this process. Every call names a tenant: another tenant's job does not exist for it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, TypeVar, Unpack
from uuid import UUID

import asyncpg

from service_jobs import batches, job_control, queries, schedules
from service_jobs.batches import Batch, BatchItem, SubmittedBatch
from service_jobs.context import Connection, FunctionRunner
from service_jobs.cron import CatchUp
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers, JobTypeSpec, OutputReader
from service_jobs.job import BatchId, Job, JobConflict, Status, Subject, new_ids
from service_jobs.job_control import CancelledJob, CancelRequest
from service_jobs.job_spec import (
    Defaults,
    JobColumns,
    JobSpec,
    JobSpecBuilder,
    Limit,
    require_restartable,
    require_valid_keys,
    require_valid_timing,
)
from service_jobs.memory.engine import MemoryEngine
from service_jobs.memory.store import JobOrigin
from service_jobs.queries import JobFilters, QueueHealth
from service_jobs.schedules import Schedule
from service_jobs.submission import FollowUps, Submitter, SubmitTrigger, count_new_jobs, submit_jobs
from service_jobs.telemetry import Metrics, trace_submit

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)

FIRST_WAIT_PAUSE: Final = 0.02  # seconds between two looks of `wait`; it doubles up to
LONGEST_WAIT_PAUSE: Final = 1.0


class Jobs:
    """Submit jobs, look at them, wait for them, cancel and redrive them."""

    def __init__(
        self,
        handlers: Handlers,
        sessions: Sessions,
        *,
        defaults: Defaults = Defaults(),  # noqa: B008 (frozen)
        metrics: Metrics | None = None,
        memory: MemoryEngine | None = None,
        processes: FunctionRunner | None = None,
        trigger: SubmitTrigger | None = None,
        service_id: str | None = None,
    ) -> None:
        self.service_id = service_id
        self.handlers = handlers
        self.sessions = sessions
        self.defaults = defaults
        self.metrics = metrics or Metrics()
        self.processes = processes
        self._trigger = trigger
        self._spec_builder = JobSpecBuilder(handlers, defaults, service_id)
        self.follow_ups = FollowUps(
            sessions, self._spec_builder, self.metrics, trigger=trigger, submit_in_memory=self._submit_in_memory
        )
        self.memory = memory or MemoryEngine(
            handlers,
            capacity=defaults.memory_capacity,
            concurrency=defaults.memory_concurrency,
            max_attempts=defaults.attempts,
            ttl=defaults.ttl,
            dead_letter_ttl=defaults.dead_letter_ttl,
            cancel_grace=defaults.cancel_grace,
            transaction=sessions.tenant,
            processes=processes,
            forward=self.follow_ups.submit_for_memory_job,
            metrics=self.metrics,
        )
        self._memory_started = False
        self._submitter = Submitter(sessions)

    @classmethod
    @asynccontextmanager
    async def connect(cls, dsn: str, handlers: Handlers, *, size: int = 10, **options: Any) -> "AsyncIterator[Jobs]":
        """Connect with one database URL, for a service without roles of its own. `options` are those of `Jobs`."""

        async def open_connection(*_nothing: Any, **arguments: Any) -> "asyncpg.Connection[asyncpg.Record]":
            return await asyncpg.connect(dsn, **arguments)

        sessions = Sessions(open_connection, size=size)
        jobs = cls(handlers, sessions, **options)
        await sessions.open()
        try:
            yield jobs
        finally:
            await jobs.close()
            await sessions.close()

    async def close(self, grace: float = 30.0) -> None:
        """Give in-memory jobs `grace` seconds to finish, then stop them."""
        await self.memory.stop(grace)

    # Submitting -------------------------------------------------------------------------------------------------------

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
        subject: Subject | None = None,
    ) -> UUID:
        """Submit one job: in the transaction of `conn`, or, without one, durable when this returns.

        With a `key`, at most one job of this type and tenant exists: a second submission returns the first one's id.
        `attempts` replaces the handler's maximum number of attempts, and `subject` what the handler says the job is
        about.
        """
        spec = self._spec_builder.build_spec(
            handler,
            value,
            key=key,
            priority=priority,
            delay=delay,
            limit=limit,
            depends_on=tuple(depends_on),
            subject=subject,
        )
        if conn is not None:
            require_restartable(handler, "be part of a transaction", instead="submit the job after the commit")
        if attempts is not None:
            require_restartable(handler, "have attempts of their own", instead="set `attempts` in its `retry`")
        with trace_submit(handler.type):
            if not handler.restartable:
                return self._submit_in_memory(spec, tenant, JobOrigin(correlation_id, actor, None, self.service_id))
            options = self._spec_builder.build_options_for(
                spec, tenant, correlation_id=correlation_id, actor=actor, attempts=attempts
            )
            if conn is None:
                job_id = await self._submitter.submit(options, spec)
                self._notify_workers([job_id])
            else:
                [job_id] = await submit_jobs(conn, options, JobColumns.from_specs([spec]))
        count_new_jobs(self.metrics, handler.type, [spec.job_id], [job_id])
        return job_id

    def notify_committed(self, ids: Sequence[UUID]) -> None:
        """Tell workers about jobs that were submitted in a transaction of the caller, which is committed now."""
        self._notify_workers(ids)

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
        subjects: Sequence[Subject | None] | None = None,
    ) -> list[UUID]:
        """Submit many jobs of one restartable type in one transaction; an id for each, in order."""
        inputs = list(values)
        self._spec_builder.require_submittable(handler, len(inputs), keys, limits, subjects)
        require_valid_timing(priority, delay)
        require_valid_keys(keys or ())
        if not inputs:
            return []
        columns = JobColumns(
            ids=new_ids(len(inputs)),
            payloads=handler.encode_inputs(inputs),
            keys=keys,
            delays=[delay] * len(inputs) if delay else None,
            limit_keys=None if limits is None else [None if limit is None else limit.key for limit in limits],
            subjects=handler.find_subjects(inputs) if subjects is None else subjects,
        )
        with trace_submit(handler.type, len(inputs)):
            options = self._spec_builder.build_options(
                handler,
                tenant,
                priority=priority,
                limits=limits or (),
                depends_on=depends_on,
                correlation_id=correlation_id,
                actor=actor,
                attempts=attempts,
            )
            connection: AbstractAsyncContextManager[Connection] = (
                self.sessions.acquire() if conn is None else nullcontext(conn)
            )
            async with connection as submit_conn:
                ids = await submit_jobs(submit_conn, options, columns)
        if conn is None:
            self._notify_workers(ids)
        count_new_jobs(self.metrics, handler.type, columns.ids, ids)
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
        subjects: Sequence[Subject | None] | None = None,
    ) -> SubmittedBatch:
        """Submit many jobs as one batch; when all of them are over, however they ended, submit `then`."""
        specs = await batches.build_specs(self._spec_builder, handler, list(values), keys, limits, priority, subjects)
        follow_up = None if then is None else self._spec_builder.build_follow_up(then, then_value)
        with trace_submit(handler.type, len(specs)):
            options = self._spec_builder.build_options(
                handler, tenant, priority=priority, correlation_id=correlation_id, actor=actor
            )
            connection = self.sessions.tenant(tenant) if conn is None else nullcontext(conn)
            async with connection as submit_conn:
                batch = await batches.submit_batch(submit_conn, options, specs, name=name, follow_up=follow_up)
        if conn is None:
            self._notify_workers(batch.job_ids)
        count_new_jobs(self.metrics, handler.type, [spec.job_id for spec in specs], batch.job_ids)
        return batch

    # Looking ----------------------------------------------------------------------------------------------------------

    async def get_job(self, tenant: UUID, job_id: UUID) -> Job:
        """The job as it is now. Raises `JobNotFound`."""
        if (tenant, job_id) in self.memory:
            return self.memory.get_job(tenant, job_id)
        async with self.sessions.tenant(tenant) as conn:
            return await queries.get_job(conn, tenant, job_id)

    async def wait(self, tenant: UUID, job_id: UUID, *, timeout: float | None = None) -> Job:  # noqa: ASYNC109 (an option)
        """Return the job as soon as it is over. Raises `TimeoutError` after `timeout` seconds, and `JobNotFound`.

        A job in the database is polled, first every 20 ms and then more rarely, at least once a second.
        """
        async with asyncio.timeout(timeout):
            if (tenant, job_id) in self.memory:
                return await self.memory.wait(tenant, job_id)
            pause = FIRST_WAIT_PAUSE
            while not (job := await self.get_job(tenant, job_id)).is_over:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_WAIT_PAUSE)
            return job

    async def get_result(self, handler: OutputReader[O], tenant: UUID, job_id: UUID) -> O:
        """What the job returned. Raises `JobConflict` with its error in the details if it has not succeeded."""
        if (tenant, job_id) in self.memory:
            status, output, error = self.memory.get_result_value(tenant, job_id)
        else:
            async with self.sessions.tenant(tenant) as conn:
                status, text, error = await queries.get_result_text(conn, tenant, job_id)
            output = None if text is None else handler.decode_output(text)
        if status is Status.SUCCEEDED:
            return output  # type: ignore[no-any-return]  # by this handler, which declares it
        details: dict[str, object] = {"job_id": str(job_id), "status": status.value}
        if status.is_over:
            raise JobConflict(
                f"job `{job_id}` ended {status} and has no result",
                fix="its error is in the details",
                details=details | {"error": None if error is None else {"code": error.code, "message": error.message}},
            )
        raise JobConflict(f"job `{job_id}` is not over yet: it is {status}", fix="try again later", details=details)

    async def list_jobs(self, tenant: UUID, **filters: Unpack[JobFilters]) -> Sequence[Job]:
        """Jobs, newest first, at most `limit` (50). For the next page pass the last id as `before_id`.

        Jobs in the memory of this process are among them.
        """
        async with self.sessions.tenant(tenant) as conn:
            stored_jobs = await queries.list_jobs(conn, tenant, **filters)
        if not (in_memory := self.memory.list_jobs(tenant, **filters)):
            return stored_jobs
        newest_first = sorted([*stored_jobs, *in_memory], key=lambda job: job.job_id, reverse=True)
        return newest_first[: filters.get("limit", queries.DEFAULT_PAGE_SIZE)]

    def list_types(self) -> list[JobTypeSpec]:
        """All job types with their timeouts, attempts and retention, by name."""
        return self._spec_builder.describe_types()

    async def get_batch(self, tenant: UUID, batch_id: BatchId) -> Batch:
        """How many jobs of a batch have which status. Raises `BatchNotFound`."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.get_batch(conn, tenant, batch_id)

    async def list_batch_items(
        self,
        tenant: UUID,
        batch_id: BatchId,
        *,
        after: UUID | None = None,
        limit: int = 100,
        only: Iterable[Status] = (),
    ) -> Sequence[BatchItem]:
        """The jobs of a batch, in order, at most `limit`. For the next page pass the last id as `after`."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.list_items(conn, tenant, batch_id, after=after, limit=limit, only=only)

    async def find_followed_batch(self, tenant: UUID, job_id: UUID) -> BatchId | None:
        """The batch that this job is the follow-up of; None if it is not a follow-up."""
        async with self.sessions.tenant(tenant) as conn:
            return await batches.find_followed_batch(conn, tenant, job_id)

    async def get_health(self, tenant: UUID) -> QueueHealth:
        """How many of the tenant's jobs wait, run and are stuck, and how long the oldest has waited."""
        async with self.sessions.tenant(tenant) as conn:
            return await queries.get_health(conn, tenant)

    # Changing ---------------------------------------------------------------------------------------------------------

    async def cancel(self, tenant: UUID, job_id: UUID, reason: str | None = None) -> CancelledJob | CancelRequest:
        """Cancel a job. A waiting one ends at once; a running one is asked to stop and interrupted if it does not."""
        if (tenant, job_id) in self.memory:
            return self.memory.cancel(tenant, job_id, reason)
        async with self.sessions.tenant(tenant) as conn:
            return await job_control.cancel_job(conn, tenant, job_id, reason)

    async def redrive(self, tenant: UUID, job_id: UUID) -> None:
        """Run a failed or cancelled job again; a job that waits for its time runs now."""
        if (tenant, job_id) in self.memory:
            self.memory.redrive(tenant, job_id)
            return
        async with self.sessions.tenant(tenant) as conn:
            await job_control.redrive_job(conn, tenant, job_id)

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
        """Submit a job at every moment that `cron` matches. Calling it again with the same arguments is harmless."""
        self._spec_builder.require_registered(handler)
        schedule = Schedule.from_input(
            handler,
            value,
            name=name,
            cron=cron,
            time_zone=time_zone,
            priority=priority,
            catch_up=catch_up,
            attempts=self.defaults.attempts,
            ttl=self.defaults.ttl,
        )
        async with self.sessions.tenant(tenant) as conn:
            await schedules.put_schedule(conn, tenant, schedule)

    async def unschedule(self, name: str, *, tenant: UUID) -> None:
        """Remove a schedule; the jobs it has submitted stay. Raises `ScheduleNotFound`."""
        async with self.sessions.tenant(tenant) as conn:
            await schedules.remove_schedule(conn, tenant, name)

    def _submit_in_memory(self, spec: JobSpec, tenant: UUID, origin: JobOrigin) -> UUID:
        if not self._memory_started:
            self.memory.start()
            self._memory_started = True
        return self.memory.add(spec, tenant, origin)

    def _notify_workers(self, ids: Sequence[UUID]) -> None:
        if self._trigger is not None:
            self._trigger.publish(ids)
