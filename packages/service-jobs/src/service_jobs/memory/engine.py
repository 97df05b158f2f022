"""The in-memory engine: jobs that live in the memory of this process and end with it.

    engine = MemoryEngine(handlers)
    engine.start()
    job_id = engine.submit(thumbnail, picture, tenant=tenant)    not a coroutine: the job exists when it returns
    await engine.stop(grace=30)                                  lets running jobs finish, cancels the rest

These jobs have the same `Context` as jobs in the database and end in the same ways. Only a limited number may wait
(`QueueFull`); tenants take turns, and inside a tenant's turn priority counts, then age. Everything runs on the event
loop that `start` was called on; nothing here may be called from another thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar, Unpack
from uuid import UUID

from service_jobs import job_control
from service_jobs.context import Connection, Context, FunctionRunner, Lease, ProgressCallback
from service_jobs.execution import build_cancellation
from service_jobs.handler import Handler, Handlers
from service_jobs.job import (
    Ending,
    HandlerNotFound,
    InterruptReason,
    Job,
    JobCancelled,
    JobConflict,
    JobError,
    LeaseLost,
    Outcome,
    Status,
)
from service_jobs.job_control import CancelledJob, CancelRequest
from service_jobs.job_spec import JobSpec, SubmitArguments, require_storable
from service_jobs.memory.run import PROCESS_STOPPED, EngineStopped, MemoryRun, MemoryRunner
from service_jobs.memory.store import EngineClock, JobOrigin, LoopClock, MemoryJob, MemoryStore, WaitingJobs
from service_jobs.queries import JobFilters
from service_jobs.telemetry import Metrics, get_traceparent

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 (input)
OpenTenantTransaction: TypeAlias = Callable[[UUID], AbstractAsyncContextManager[Connection]]
SubmitRestartable: TypeAlias = Callable[[Sequence[JobSpec], Context], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHealth:
    """How many jobs wait, how many may wait, and how many run."""

    depth: int
    capacity: int
    active: int


class MemoryEngine:
    """Runs jobs whose handlers are not restartable. It is the backend of their contexts."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        capacity: int = 256,
        concurrency: int = 4,
        max_attempts: int = 5,
        ttl: timedelta = timedelta(days=14),
        dead_letter_ttl: timedelta | None = None,
        remember: int = 10_000,
        cancel_grace: float = 10.0,
        transaction: OpenTenantTransaction | None = None,
        processes: FunctionRunner | None = None,
        forward: SubmitRestartable | None = None,
        metrics: Metrics | None = None,
        clock: EngineClock | None = None,
    ) -> None:
        """`forward` submits restartable follow-up jobs: on `ctx.connection` if the job has a transaction.

        The last `remember` finished jobs are kept: dead letters for `dead_letter_ttl`, and the others, or if there is
        none all of them, for their handler's TTL or else `ttl`.
        """
        if capacity < 1 or concurrency < 1:
            raise ValueError("capacity and concurrency must be at least 1")
        self._handlers = handlers
        self.concurrency = concurrency  # a change takes effect with the next job
        self._max_attempts = max_attempts
        self._ttl = ttl
        self._dead_letter_ttl = dead_letter_ttl
        self._cancel_grace = cancel_grace
        self._transaction = transaction
        self._processes = processes
        self._forward = forward
        self._metrics = metrics or Metrics()
        self._clock: EngineClock = clock or LoopClock()
        self._store = MemoryStore(self._clock, remember)
        self._waiting = WaitingJobs(capacity, self._clock, self._start_waiting)
        self._runner = MemoryRunner(
            self, self._clock, cancel_grace=cancel_grace, commit=self._commit_run, settle=self._settle_run
        )
        self._started = False
        self._stopping = False
        self._quiet = asyncio.Event()
        self._stopped = asyncio.Event()

    # Submitting -----------------------------------------------------------------------------------------------------

    def submit(
        self,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID,
        depends_on: Sequence[UUID] = (),
        correlation_id: str | None = None,
        actor: str | None = None,
        traceparent: str | None = None,
        service_id: str | None = None,
        **options: Unpack[SubmitArguments],
    ) -> UUID:
        """Return the id of the new job, or of the tenant's job of this type that already has the `key`.

        Raises `QueueFull` when too many jobs wait, and `InvalidInput` for options that only the database supports.
        """
        spec = self._build_checked_spec(handler, value, depends_on=depends_on, **options)
        return self.add(spec, tenant, JobOrigin(correlation_id, actor, traceparent, service_id))

    def add(self, spec: JobSpec, tenant: UUID, origin: JobOrigin) -> UUID:
        """Submit a job that was validated before. Raises what `submit` raises."""
        spec.require_memory_only()
        if (existing_id := self._store.find_by_key(tenant, spec)) is not None:
            return existing_id
        self._require_room(1)
        traceparent = origin.traceparent or spec.traceparent or get_traceparent()
        return self._insert(spec, tenant, replace(origin, traceparent=traceparent))

    def cancel(self, tenant: UUID, job_id: UUID, reason: str | None = None) -> CancelledJob | CancelRequest:
        """Cancel a job. A waiting one ends at once; a running one is asked to stop and interrupted if it does not.

        Raises `JobNotFound`, or `JobConflict` if it is over.
        """
        record = self._store.get(tenant, job_id)
        if record.status.is_over:
            raise job_control.build_over_conflict(job_id, record.status)
        if record.run is not None:
            self._runner.request_cancel(record.run)
            return CancelRequest(job_id)
        self._waiting.remove(record)
        self._finish_job(
            record, Status.CANCELLED, JobError.from_exception(JobCancelled(reason or "it was cancelled before it ran"))
        )
        return CancelledJob(job_id)

    def redrive(self, tenant: UUID, job_id: UUID) -> None:
        """Run a FAILED, DEAD_LETTER or CANCELLED job again, with all its attempts and from its checkpoint.

        A job that waits for its time runs now. Raises `JobNotFound`, or `JobConflict` in any other state.
        """
        record = self._store.get(tenant, job_id)
        if record.status in job_control.FIX_BY_STATUS:
            raise job_control.build_redrive_conflict(
                job_id, record.status, fix=job_control.FIX_BY_STATUS[record.status]
            )
        if record.status.is_over:
            self._require_room(1)
            self._store.revive(record)
        elif record.timer is not None:
            self._waiting.remove(record)
        else:
            raise job_control.build_waiting_conflict(
                job_id, "it already waits for a worker", fix="nothing to do: it runs as soon as there is room"
            )
        self._waiting.add(record, 0.0)

    # Looking --------------------------------------------------------------------------------------------------------

    def get_job(self, tenant: UUID, job_id: UUID) -> Job:
        return self._store.get(tenant, job_id).to_job()

    def get_result_value(self, tenant: UUID, job_id: UUID) -> tuple[Status, Any, JobError | None]:
        """The status, the output if the job succeeded, and the last error."""
        record = self._store.get(tenant, job_id)
        return record.status, record.output, record.last_error

    async def wait(self, tenant: UUID, job_id: UUID) -> Job:
        """Return the job as soon as it is over."""
        record = self._store.get(tenant, job_id)
        await record.finished_event.wait()
        return record.to_job()

    def list_jobs(self, tenant: UUID, **filters: Unpack[JobFilters]) -> Sequence[Job]:
        """The newest jobs that match, at most `limit` (50)."""
        return self._store.list_jobs(tenant, **filters)

    def get_health(self) -> MemoryHealth:
        return MemoryHealth(depth=len(self._waiting), capacity=self._waiting.capacity, active=len(self._runner))

    def __contains__(self, name: tuple[UUID, UUID]) -> bool:
        """Whether (tenant, job_id) is a job of this engine."""
        return self._store.find(*name) is not None

    # Starting and stopping ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start running waiting jobs, on this event loop."""
        if self._stopping:
            raise EngineStopped
        self._started = True
        self._start_waiting()

    async def stop(self, grace: float = 30.0) -> None:
        """Start no more jobs, give running ones `grace` seconds to finish, cancel the rest."""
        if self._stopping:
            await self._stopped.wait()
            return
        self._stopping = True
        try:
            await self._wait_until_quiet(grace)
            self._runner.interrupt_all(InterruptReason.STOP)
            await self._wait_until_quiet(self._cancel_grace)
        finally:
            for record in self._store.list_unfinished():
                self._cancel_at_stop(record)
            self._stopped.set()

    # What contexts call ---------------------------------------------------------------------------------------------

    async def save(self, lease: Lease, column: str, text: str) -> bool:
        run = self._find_run(lease)
        if run is None:
            return False
        setattr(run.record, column, text)
        return True

    async def end_step(self, ctx: Context, text: str) -> bool:
        run = self._find_run(ctx.lease)
        if run is None:
            return False
        async with run.defer_interrupts():
            if ctx.connection is not None or ctx.follow_ups:
                await self._commit_run(run)
            run.record.step, run.record.step_output = text, ctx.step_output
        return True

    async def begin(self, ctx: Context) -> Connection:
        run = self._find_run(ctx.lease)
        if run is None:
            raise LeaseLost
        if self._transaction is None:
            raise JobConflict(
                "this in-memory engine has no database", fix="create the engine with `transaction=sessions.tenant`"
            )
        return await run.enter(self._transaction(ctx.tenant))

    async def compute(
        self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: ProgressCallback | None
    ) -> T:
        if self._processes is None:
            raise JobConflict(
                "this in-memory engine has no child processes", fix="create the engine with `processes=…`"
            )
        return await self._processes.run(function, arguments, on_progress=on_progress)

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        if handler.restartable and self._forward is None:
            raise JobConflict(
                f"jobs of type `{handler.type}` are restartable, and this in-memory engine has no database for them",
                fix="create the engine with `forward=…`",
            )
        spec = self._build_checked_spec(handler, value, **options)
        if not handler.restartable:
            spec.require_memory_only()
        return spec

    def _build_checked_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        if handler.type not in self._handlers:
            raise HandlerNotFound(handler.type)
        return require_storable(JobSpec.from_input(handler, value, **options))

    # One job --------------------------------------------------------------------------------------------------------

    def _require_room(self, places: int) -> None:
        if self._stopping:
            raise EngineStopped
        self._waiting.require_room(places)

    def _insert(self, spec: JobSpec, tenant: UUID, origin: JobOrigin) -> UUID:
        if (existing_id := self._store.find_by_key(tenant, spec)) is not None:
            return existing_id
        now = self._clock.now()
        max_attempts = spec.handler.retry.attempts or self._max_attempts
        record = MemoryJob(
            tenant=tenant, spec=spec, max_attempts=max_attempts, origin=origin, created_at=now, scheduled_at=now
        )
        self._store.add(record)
        self._metrics.count_enqueued(spec.handler.type)
        self._waiting.add(record, spec.delay)
        return spec.job_id

    def _start_waiting(self) -> None:
        """Start as many jobs as may run."""
        while self._started and not self._stopping and len(self._runner) < self.concurrency:
            if (record := self._waiting.take()) is None:
                return
            record.status = Status.RUNNING
            record.attempts += 1
            record.started_at = self._clock.now()
            self._metrics.count_acquired({record.handler.type: 1})
            self._metrics.change_running(record.handler.type, 1)
            self._runner.start(record)

    async def _commit_run(self, run: MemoryRun) -> None:
        """Commit with the follow-ups: those in the database before the commit, those in memory after it."""
        record, ctx = run.record, run.ctx
        restartable_specs = [spec for spec in ctx.follow_ups if spec.handler.restartable]
        memory_specs = [spec for spec in ctx.follow_ups if not spec.handler.restartable]
        places = sum(self._store.find_by_key(record.tenant, spec) is None for spec in memory_specs)
        if places and not self._stopping:  # while stopping, follow-ups are accepted and cancelled with the rest
            self._require_room(places)
        with self._waiting.reserve(places):
            if restartable_specs and self._forward is not None:
                await self._forward(restartable_specs, ctx)
            if run.is_abandoned:
                raise LeaseLost
            await run.commit()
            for spec in memory_specs:
                origin = replace(record.origin, traceparent=spec.traceparent or record.origin.traceparent)
                self._insert(spec, record.tenant, origin)

    def _settle_run(self, run: MemoryRun, outcome: Outcome) -> None:
        """Record how the run ended, unless it was abandoned before."""
        record = run.record
        if run.is_abandoned:
            return
        self._runner.detach(run)
        self._metrics.change_running(record.handler.type, -1)
        if outcome.ending is Ending.RETRY:
            record.last_error = outcome.error
            self._metrics.count_retried(record.handler.type, 1, [record.measure_seconds(self._clock.now())])
            self._waiting.add(record, outcome.delay)
        else:
            record.output = run.output if outcome.ending is Ending.SUCCEEDED else None
            self._finish_job(record, Status(outcome.ending.value), outcome.error)
        self._start_waiting()
        if not len(self._runner):
            self._quiet.set()

    def _finish_job(self, record: MemoryJob, status: Status, error: JobError | None) -> None:
        record.status = status
        record.last_error = error or record.last_error
        record.finished_at = self._clock.now()
        record.finished_event.set()
        if status is Status.SUCCEEDED or self._stopping:  # others may be redriven
            record.release_input()
        seconds = [] if record.attempts == 0 else [record.measure_seconds(record.finished_at)]
        self._metrics.count_finished(record.handler.type, status, 1, seconds)
        ttl = self._ttl if record.handler.ttl is None else record.handler.ttl
        if status is Status.DEAD_LETTER and self._dead_letter_ttl is not None:
            ttl = self._dead_letter_ttl
        self._store.finish(record, ttl)

    def _cancel_at_stop(self, record: MemoryJob) -> None:
        run, outcome = record.run, build_cancellation(PROCESS_STOPPED)
        if run is not None and run.task is not None:
            run.task.cancel()
            self._settle_run(run, outcome)
        else:
            self._waiting.remove(record)
            self._finish_job(record, Status.CANCELLED, outcome.error)

    async def _wait_until_quiet(self, seconds: float) -> None:
        """Wait until nothing runs, but not longer than `seconds`."""
        self._quiet.clear()
        if not len(self._runner):
            return
        timer = self._clock.call_after(seconds, self._quiet.set)
        await self._quiet.wait()
        timer.cancel()

    def _find_run(self, lease: Lease) -> MemoryRun | None:
        """The run of this lease, if it is still the current one."""
        record = self._store.find(lease.tenant, lease.job_id)
        if record is None or record.run is None or record.run.ctx.lease is not lease:
            return None
        return record.run
