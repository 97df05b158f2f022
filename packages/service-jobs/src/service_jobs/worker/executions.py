"""The options of a worker, and the jobs it holds: waiting in memory, executing, or ended and not yet written down."""

import asyncio
import contextvars
import logging
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

import asyncpg

from service_jobs.context import Context, ContextBackend, Lease
from service_jobs.execution import build_cancellation, build_release, execute, resolve_failure, resolve_timeout
from service_jobs.handler import Handler
from service_jobs.job import Ending, InterruptReason, JobError, Outcome, Status
from service_jobs.telemetry import Metrics, get_tracer, trace_execution
from service_jobs.worker.settlement import JobTransactions

FIRST_SECONDS_PER_JOB: Final = 0.05  # the estimate before any job has ended
END_RETRY_SECONDS: Final = 1.0
AHEAD_SECONDS: Final = 0.02  # how many seconds of work may wait in memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of a worker. All times are in seconds."""

    name: str = field(default_factory=socket.gethostname)
    concurrency: int = 4
    aside: frozenset[str] = frozenset()  # limit keys of jobs that mostly wait; they run in separate slots,
    aside_concurrency: int = 16  # this many
    batch: int = 100
    lease: float = 60.0
    renew: float = 30.0
    poll: float = 1.0
    heartbeat: float = 0.5
    cancel_grace: float = 10.0
    stop_grace: float = 30.0
    first_tenant: UUID | None = None

    def __post_init__(self) -> None:
        if min(self.concurrency, self.aside_concurrency, self.batch) < 1:
            raise ValueError("concurrency, aside_concurrency and batch must be at least 1")
        if not 0 < self.renew < self.lease:
            raise ValueError("renew must be more than 0 and less than lease")

    @property
    def grace(self) -> float:
        """How long a lease is renewed after the job's timeout: the job may be interrupted, and then abandoned."""
        return self.cancel_grace + 5.0


class HeldJob:
    """A claimed job and, while it executes, the task it executes in."""

    __slots__ = (
        *("ctx", "deadline", "handler", "interrupt_reason", "interrupted_at", "is_abandoned", "is_ending", "lease"),
        *("limit_key", "payload", "priority", "seconds", "started", "task"),
    )

    def __init__(self, backend: ContextBackend, handler: Handler[Any, Any], owner: str, row: asyncpg.Record) -> None:
        self.handler = handler
        self.lease = Lease(row["tenant_id"], row["job_id"], row["type"], owner, row["attempt"])
        self.payload: str = row["payload"]
        self.priority: int = row["priority"]
        self.limit_key: str = row["limit_key"]
        self.started: float | None = None
        self.deadline: float | None = None
        self.seconds = 0.0  # how long it executed
        self.task: asyncio.Task[None] | None = None
        self.interrupt_reason: InterruptReason | None = None
        self.interrupted_at = 0.0
        self.is_abandoned = False
        self.is_ending = False  # the handler has returned, and its end is being written
        self.ctx = Context.from_row(backend, self.lease, row)

    @property
    def job_id(self) -> UUID:
        return self.lease.job_id

    def start(self, now: float) -> None:
        self.started = now
        if self.handler.timeout is not None:
            self.deadline = self.ctx.deadline = now + self.handler.timeout

    def interrupt(self, reason: InterruptReason, now: float) -> None:
        """Interrupt the handler; `reason` decides how the job ends. A job that has not started is ended on its turn."""
        if self.interrupt_reason is None or reason is InterruptReason.LOST:
            self.interrupt_reason = reason
        self.interrupted_at = now
        if self.task is not None:
            self.task.cancel()


EndedJob = tuple[HeldJob, Outcome]


class ExecutionObserver(Protocol):
    """Is told about every execution: for tests that check what really ran."""

    def observe_start(self, lease: Lease) -> None: ...
    def observe_finish(self, lease: Lease, outcome: Outcome) -> None: ...
    def observe_settlement(self, lease: Lease, became: Status | None) -> None: ...


@dataclass(slots=True)
class ExecutionSlots:
    """A number of slots, and the jobs that wait for one, execute in one or have ended in one."""

    concurrency: int
    held_count: int = 0
    executing_count: int = 0
    waiting: deque[HeldJob] = field(default_factory=deque)
    finished: list[EndedJob] = field(default_factory=list)


class Executions:
    """All jobs of one worker. It calls `on_change` when one has ended, and `on_settled` when that is also committed."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        transactions: JobTransactions,
        metrics: Metrics,
        observer: ExecutionObserver | None,
        on_change: Callable[[], None],
        on_settled: Callable[[HeldJob, Outcome, Status | None], None],
    ) -> None:
        self._main_slots = ExecutionSlots(options.concurrency)
        self._aside_slots = ExecutionSlots(options.aside_concurrency)
        self._aside_keys = options.aside
        self._batch = options.batch
        self._cancel_grace = options.cancel_grace
        self._transactions = transactions
        self._metrics = metrics
        self._observer = observer
        self._on_change = on_change
        self._on_settled = on_settled
        self._held: dict[UUID, HeldJob] = {}
        self._replaced: list[HeldJob] = []  # interrupted, because we hold the same job once more
        self.seconds_per_job = FIRST_SECONDS_PER_JOB
        self._tasks: set[asyncio.Task[None]] = set()
        self._counted: Counter[str] = Counter()
        self._is_traced = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def list_held(self) -> list[HeldJob]:
        """All jobs we hold; safe to call from another thread."""
        return list(self._held.values())

    def count_room(self) -> int:
        """How many jobs to claim: enough to never wait for the database, few enough to leave some for others."""
        main = self._main_slots
        return min(self._batch, main.concurrency + self._count_ahead() - main.held_count + len(main.finished))

    def is_well_stocked(self) -> bool:
        """Whether enough waits to put off claiming: claiming many jobs costs little more than claiming one."""
        return len(self._main_slots.waiting) > self._count_ahead() // 2

    def _count_ahead(self) -> int:
        """How many jobs may wait in memory."""
        return min(2 * self._batch, int(self._main_slots.concurrency * AHEAD_SECONDS / self.seconds_per_job))

    def count_room_aside(self) -> int:
        """The same for the separate slots."""
        return min(
            self._batch, self._aside_slots.concurrency - self._aside_slots.held_count + len(self._aside_slots.finished)
        )

    def take_claimed(self, jobs: Iterable[HeldJob]) -> None:
        """Run these jobs as soon as there are free slots."""
        for job in jobs:
            previous = self._held.get(job.job_id)
            if previous is not None and previous.lease == job.lease:
                continue  # a crash of the server lost our claim, and we claimed it again; the execution goes on
            if previous is not None and not previous.is_ending:
                previous.interrupt(InterruptReason.LOST, time.monotonic())  # its lease is gone; this is another one
                self._replaced.append(previous)
            slots = self._get_slots(job)
            slots.held_count += previous is None
            slots.waiting.append(job)
            self._held[job.job_id] = job
        self._is_traced = get_tracer() is not None
        self._start_waiting()

    def take_finished(self) -> list[EndedJob]:
        """What ended and is to be written down. It is held until `forget`."""
        ended_jobs = self._main_slots.finished + self._aside_slots.finished
        self._main_slots.finished, self._aside_slots.finished = [], []
        return ended_jobs

    def put_back(self, ended_jobs: list[EndedJob]) -> None:
        """These could not be written down. Writing them again does no harm: the fence decides."""
        for job, outcome in reversed(ended_jobs):
            self._get_slots(job).finished.insert(0, (job, outcome))

    def release_waiting(self) -> None:
        """Release what has not started, so that another worker starts it."""
        for slots in (self._main_slots, self._aside_slots):
            slots.finished += ((job, build_release()) for job in slots.waiting)
            slots.waiting.clear()

    def forget(self, job: HeldJob) -> None:
        if self._held.get(job.job_id) is job:
            del self._held[job.job_id]
            self._get_slots(job).held_count -= 1

    def cancel(self, job_id: UUID) -> None:
        """Ask the handler to stop; it is interrupted if it has not stopped after the grace period."""
        job = self._held.get(job_id)
        if job is None or job.ctx.cancel_requested or job.is_ending:
            return
        job.interrupted_at = time.monotonic()
        job.ctx.request_cancel()
        if job.started is None:
            job.interrupt_reason = InterruptReason.CANCEL

    def interrupt_lost(self, lease: Lease) -> None:
        """Another worker has this job now: interrupt the handler, because its writes are refused."""
        job = self._held.get(lease.job_id)
        if job is not None and job.lease == lease and not job.is_ending:
            log.warning("lost the lease of job %s", lease.job_id, extra={"type": lease.type})
            job.interrupt(InterruptReason.LOST, time.monotonic())

    async def close(self) -> None:
        """Interrupt everything, because the worker ends."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._cancel_grace)

    # One execution --------------------------------------------------------------------------------------------------

    def _get_slots(self, job: HeldJob) -> ExecutionSlots:
        return self._aside_slots if job.limit_key in self._aside_keys else self._main_slots

    def _start_waiting(self) -> None:
        for slots in (self._main_slots, self._aside_slots):
            while slots.waiting and slots.executing_count < slots.concurrency:
                job = slots.waiting.popleft()
                slots.executing_count += 1
                job.task = self._spawn(self._run_job(job), context=contextvars.Context())

    async def _run_job(self, job: HeldJob) -> None:
        job.start(time.monotonic())
        if self._observer is not None:
            self._observer.observe_start(job.lease)
        try:
            outcome = await self._execute(job)
        except asyncio.CancelledError:
            if job.interrupt_reason is None and self._is_closed:
                raise
            outcome = self._build_interrupted_outcome(job)
        if job.is_abandoned:
            return
        try:
            await self._end_job(job, outcome)
        finally:
            self._get_slots(job).executing_count -= 1
            self._start_waiting()

    async def _execute(self, job: HeldJob) -> Outcome:
        if job.interrupt_reason is not None:
            return self._build_interrupted_outcome(job)  # before it started
        return await (self._execute_traced(job) if self._is_traced else execute(job.handler, job.ctx, job.payload))

    async def _execute_traced(self, job: HeldJob) -> Outcome:
        with trace_execution(job.lease, job.ctx.traceparent, attempt=job.ctx.attempt) as span:
            try:
                outcome = await execute(job.handler, job.ctx, job.payload)
            except asyncio.CancelledError:
                if job.interrupt_reason is not None:
                    span.record_outcome(self._build_interrupted_outcome(job))
                raise
            span.record_outcome(outcome)
        return outcome

    def _build_interrupted_outcome(self, job: HeldJob) -> Outcome:
        """The outcome of an interrupted execution."""
        if job.interrupt_reason is None:  # the handler awaited something that was cancelled
            error = JobError(code="INTERNAL_ERROR", message="the handler cancelled itself", retryable=True)
            return resolve_failure(error, job.handler, job.ctx)
        if job.interrupt_reason is InterruptReason.CANCEL:
            return build_cancellation()
        if job.interrupt_reason is InterruptReason.TIMEOUT and job.handler.timeout is not None:
            return resolve_timeout(job.handler.timeout, job.handler, job.ctx)
        return build_release()

    async def _end_job(self, job: HeldJob, outcome: Outcome) -> None:
        job.is_ending = True
        if job.interrupt_reason is not None and outcome.ending is not Ending.SUCCEEDED:
            outcome = self._build_interrupted_outcome(job)  # whatever the handler returned, this is why it ended
        job.seconds = time.monotonic() - (job.started or 0.0)
        slots = self._get_slots(job)
        if slots is self._main_slots:
            self.seconds_per_job += (max(job.seconds, 1e-5) - self.seconds_per_job) * 0.1
        if self._observer is not None:
            self._observer.observe_finish(job.lease, outcome)
        if job.interrupt_reason is InterruptReason.LOST:
            await self._transactions.roll_back(job.ctx)
            self.forget(job)
        elif self._transactions.needs_transaction(job.handler, job.ctx, outcome):
            await self._end_in_transaction(job, outcome)
        else:
            slots.finished.append((job, outcome))
        self._on_change()

    async def _end_in_transaction(self, job: HeldJob, outcome: Outcome) -> None:
        try:
            became, outcome = await self._transactions.end_execution(job.handler, job.ctx, outcome)
        except Exception:
            log.exception("the end of job %s could not be written", job.job_id, extra={"type": job.lease.type})
            await self._transactions.roll_back(job.ctx)
            if not outcome.keeps_effects and job.interrupt_reason is not InterruptReason.LOST:
                # There are no effects that a second try could repeat.
                await asyncio.sleep(END_RETRY_SECONDS)
                await self._end_in_transaction(job, outcome)
                return
            error = JobError(code="DB_UNAVAILABLE", message="the end of the job could not be written", retryable=True)
            self._get_slots(job).finished.append((job, resolve_failure(error, job.handler, job.ctx)))
        else:
            self.forget(job)
            self._on_settled(job, outcome, became)

    # Watching -------------------------------------------------------------------------------------------------------

    async def watch_jobs(self, stop_at: Callable[[], float | None]) -> None:
        """Interrupt jobs that ran out of time or must stop, and abandon those that ignore it."""
        while True:
            await asyncio.sleep(0.05)
            now, last = time.monotonic(), stop_at()
            self._replaced = [job for job in self._replaced if not job.is_ending]
            held_jobs = [*self._held.values(), *self._replaced]
            executing_jobs = [job for job in held_jobs if job.started is not None and not job.is_ending]
            for job in executing_jobs:
                self._watch_job(job, now, stops=last is not None and now >= last)
            self._count_running(Counter(job.lease.type for job in executing_jobs))
            if last is not None and now >= last:
                self._on_change()

    def _watch_job(self, job: HeldJob, now: float, *, stops: bool) -> None:
        if job.interrupt_reason is None:
            if job.deadline is not None and now >= job.deadline:
                job.interrupt(InterruptReason.TIMEOUT, now)
            elif job.ctx.cancel_requested and now >= job.interrupted_at + self._cancel_grace:
                job.interrupt(InterruptReason.CANCEL, now)
            elif stops:
                job.interrupt(InterruptReason.STOP, now)
        elif now >= job.interrupted_at + self._cancel_grace:
            self._abandon(job)

    def _abandon(self, job: HeldJob) -> None:
        """The handler ignores the interruption: end the job without it, and free its slot."""
        log.error("job %s ignored its interruption; abandoned", job.job_id, extra={"type": job.lease.type})
        job.is_abandoned = job.is_ending = True
        self._get_slots(job).executing_count -= 1
        self._spawn(self._end_abandoned(job))
        self._start_waiting()

    async def _end_abandoned(self, job: HeldJob) -> None:
        await self._transactions.terminate_transaction(job.ctx)
        job.ctx = job.ctx.create_successor()
        await self._end_job(job, self._build_interrupted_outcome(job))

    def _count_running(self, counts: Counter[str]) -> None:
        for job_type in counts.keys() | self._counted.keys():
            if change := counts[job_type] - self._counted[job_type]:
                self._metrics.change_running(job_type, change)
        self._counted = counts

    def _spawn(
        self, work: Coroutine[Any, Any, None], context: contextvars.Context | None = None
    ) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
