"""A worker: it claims jobs, runs their handlers, and writes down how they ended.

    claims ──► executions ──► ended jobs ──► claims
               in memory                     completed, and the next jobs claimed, in one statement

The worker has four database sessions. One does nothing but this exchange, and the handlers run while the database works
on it. The lane poller, the chores and the heartbeat have a session each. Any session may be lost at any time: ended
jobs are kept until they are written, and whatever was lost in between is refused by its fence and runs again. The
parts do not know each other; only the worker connects them.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

import asyncpg

from service_jobs.context import Context, Lease
from service_jobs.database import CONNECTION_LOST
from service_jobs.execution import build_log_fields
from service_jobs.job import Ending, JobError, JobsRefusal, LeaseLost, Outcome, Status
from service_jobs.service import Jobs
from service_jobs.submission import FollowUps
from service_jobs.telemetry import Metrics
from service_jobs.worker.claims import Exchange
from service_jobs.worker.executions import ExecutionObserver, Executions, HeldJob, WorkerOptions
from service_jobs.worker.heartbeat import Heartbeat
from service_jobs.worker.lanes import LanePoller, LaneRings, Load
from service_jobs.worker.maintenance import Chore, build_chores, run_chores
from service_jobs.worker.settlement import JobTransactions

DATABASE_UNREACHABLE: Final = (
    *CONNECTION_LOST,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
)
WorkerSession: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
log = logging.getLogger(__name__)


class WakeTrigger(Protocol):
    """A second way to learn about new jobs."""

    def listen(self, wake: Callable[[], None]) -> None: ...


class EndRecorder:
    """After an end is committed: count and log it, mark its lane, and submit its follow-ups in memory."""

    def __init__(
        self, lanes: LaneRings, metrics: Metrics, follow_ups: FollowUps, observer: ExecutionObserver | None
    ) -> None:
        self._lanes = lanes
        self._metrics = metrics
        self._follow_ups = follow_ups
        self._observer = observer

    def record_completions(self, jobs: Sequence[HeldJob], refused_ids: frozenset[UUID]) -> None:
        """Plain successes that were completed together, except the `refused_ids` ones."""
        seconds: dict[str, list[float]] = {}
        for job in jobs:
            is_accepted = job.job_id not in refused_ids
            if is_accepted:
                seconds.setdefault(job.lease.type, []).append(job.seconds)
                _log_end(job, Status.SUCCEEDED)
            else:
                log.warning("job %s was completed too late: its lease was lost", job.job_id)
            if self._observer is not None:
                self._observer.observe_settlement(job.lease, Status.SUCCEEDED if is_accepted else None)
        for job_type, durations in seconds.items():
            self._metrics.count_finished(job_type, Status.SUCCEEDED, len(durations), durations)

    def record_settled(self, job: HeldJob, outcome: Outcome, became: Status | None) -> None:
        """One execution that ended by itself; `became` is None if its lease was lost."""
        if job.limit_key or became is Status.QUEUED:
            self._lanes.mark_ready(job.lease.tenant, job.limit_key, job.priority)
        if became is None:
            log.warning("job %s ended too late: its lease was lost", job.job_id)
        else:
            _log_end(job, became)
            if became.is_over:
                self._metrics.count_finished(job.lease.type, became, 1, [job.seconds])
            elif outcome.ending is Ending.RETRY:
                self._metrics.count_retried(job.lease.type, seconds=[job.seconds])
        if self._observer is not None:
            self._observer.observe_settlement(job.lease, became)
        if became is not None and job.ctx.follow_ups:
            self.submit_after_commit(job.ctx)

    def submit_after_commit(self, ctx: Context) -> None:
        """Submit the in-memory follow-ups of `ctx`; one that is refused is logged, because they are best effort."""
        try:
            self._follow_ups.submit_after_commit(ctx)
        except JobsRefusal as error:
            log.warning("a follow-up of job %s was refused: %s", ctx.job_id, error.says)


class Worker:
    """Runs jobs of all types that `jobs` has handlers for, until it is stopped."""

    def __init__(
        self,
        jobs: Jobs,
        options: WorkerOptions = WorkerOptions(),  # noqa: B008 (frozen)
        *,
        chores: Sequence[Chore] | None = None,
        trigger: WakeTrigger | None = None,
        observer: ExecutionObserver | None = None,
    ) -> None:
        self.jobs = jobs
        self.options = options
        identity = os.urandom(8)  # noqa: TID251 (a library of its own: nobody hands it randomness)
        self.owner = f"{options.name}:{os.getpid()}:{identity.hex()}"
        self.types = jobs.handlers.restartable_types
        self.is_idle = False
        self.started = asyncio.Event()  # the worker is registered: from here on it claims
        self._trigger = trigger
        self._wake = asyncio.Event()
        self._stop_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        if chores is None:
            chores = build_chores(jobs.metrics, dead_letter_ttl=jobs.defaults.dead_letter_ttl)
        self._chores = chores
        self._heartbeat: Heartbeat | None = None
        self._lanes = LaneRings(options.aside, options.first_tenant)
        self._recorder = EndRecorder(self._lanes, jobs.metrics, jobs.follow_ups, observer)
        self._transactions = JobTransactions(jobs.sessions, jobs.follow_ups, jobs.processes)
        self._executions = Executions(
            options,
            transactions=self._transactions,
            metrics=jobs.metrics,
            observer=observer,
            on_change=self._wake.set,
            on_settled=self._recorder.record_settled,
        )
        self._exchange = Exchange(
            self.owner,
            jobs.handlers,
            self._transactions,
            self._executions,
            self._lanes,
            jobs.metrics,
            lease=options.lease,
            is_stopping=lambda: self.is_stopping,
            wake=self._wake.set,
            on_completed=self._recorder.record_completions,
            on_settled=self._recorder.record_settled,
        )
        self._lane_poller = LanePoller(
            self._lanes,
            self.types,
            poll=options.poll,
            query_timeout=max(5.0, options.lease / 2),
            measure_load=self._measure_load,
            wake=self._wake.set,
        )
        jobs.metrics.expect_types(self.types)

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def exchanging_since(self) -> float | None:
        """When the current exchange with the database began; None between two of them."""
        return self._exchange.since

    async def run(self) -> None:
        """Work until `stop`. If the database is away, wait until it comes back."""
        self._heartbeat = heartbeat = self._create_heartbeat()
        try:
            await heartbeat.start(lambda: self.is_stopping)
            self.started.set()
            self._spawn(self._executions.watch_jobs(lambda: self._stop_at))
            self._spawn(self._keep_running(lambda: self._run_on_session("lanes", self._lane_poller.run)))
            if self._chores:
                self._spawn(
                    self._keep_running(lambda: self._run_on_session("chores", partial(run_chores, self._chores)))
                )
            if self._trigger is not None:
                self._trigger.listen(self._lane_poller.poll_now)
            await self._keep_running(self._exchange_once, until_done=True)
        finally:
            await self._executions.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self.options.cancel_grace)
            await heartbeat.stop()

    def stop(self) -> None:
        """Claim no more; let running jobs finish within the grace period; release the rest."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self.options.stop_grace
            self._executions.release_waiting()
            self._wake.set()

    async def run_until_idle(self) -> None:
        """Run all queued jobs and their follow-ups until nothing can run now; then stop."""
        running = asyncio.create_task(self.run())
        quiet = 0
        try:
            while quiet < 3 and not running.done():  # a job may just have been claimed, or its follow-up committed
                await asyncio.sleep(0.05)
                quiet = quiet + 1 if self.is_idle and self._lane_poller.has_polled and not self._executions else 0
        finally:
            self.stop()
            await running

    # The parts ------------------------------------------------------------------------------------------------------

    def _create_heartbeat(self) -> Heartbeat:
        return Heartbeat(
            *(self.owner, self.types, self.jobs.sessions, self.jobs.metrics, self.options),
            describe_type=self._describe_type,
            list_held=self._executions.list_held,
            exchanging_since=lambda: self.exchanging_since,
            on_renewed=self._handle_renewed,
            on_last_lost=lambda lease: self._spawn(self._end_as_lost(lease)),
        )

    def _measure_load(self) -> Load:
        return Load(
            is_idle=self.is_idle,
            is_saturated=self.is_stopping or self._executions.count_room() <= 0,
            has_room_aside=self._executions.count_room_aside() > 0,
            seconds_per_job=self._executions.seconds_per_job,
        )

    def _describe_type(self, job_type: str) -> tuple[bool, bool]:
        """Whether we have a handler for this type, and whether it has an `on_failure`."""
        if job_type not in self.jobs.handlers:
            return False, False
        return True, self.jobs.handlers[job_type].failure_hook is not None

    def _handle_renewed(self, lost_leases: Iterable[Lease], cancelled_ids: Iterable[UUID]) -> None:
        for lease in lost_leases:
            self._executions.interrupt_lost(lease)
        for job_id in cancelled_ids:
            self._executions.cancel(job_id)

    def _handle_notification(self, _conn: object, _pid: int, _channel: str, payload: object) -> None:
        kind, *parts = str(payload).split(" ", 3)
        if kind == "ready" and len(parts) == 3:
            self._lanes.mark_ready(UUID(parts[0]), parts[2], int(parts[1]))
            self._lane_poller.count_notification()
            self._wake.set()
        elif kind == "cancel" and len(parts) == 2:
            if self._heartbeat is not None:
                self._heartbeat.renew_now()  # anybody may notify; only the table decides
        else:
            self._lane_poller.poll_now()

    async def _end_as_lost(self, lease: Lease) -> None:
        """End a job whose last execution died with its worker, and call its `on_failure`."""
        outcome = Outcome(ending=Ending.DEAD_LETTER, error=JobError.from_exception(LeaseLost()))
        try:
            ctx = await self._transactions.load_context(lease)
            became, _ = await self._transactions.end_execution(self.jobs.handlers[lease.type], ctx, outcome)
        except DATABASE_UNREACHABLE:
            log.warning("could not end job %s yet", lease.job_id)
            return
        if became is not None:
            self.jobs.metrics.count_finished(lease.type, became, 1)
            self._recorder.submit_after_commit(ctx)

    # The sessions ---------------------------------------------------------------------------------------------------

    async def _keep_running(self, once: Callable[[], Coroutine[Any, Any, None]], *, until_done: bool = False) -> None:
        pause = 0.05
        while True:
            started_at = time.monotonic()
            try:
                await once()
                if until_done:
                    return
            except DATABASE_UNREACHABLE as error:
                log.warning("worker lost a database session: %s", str(error) or type(error).__name__)
                if until_done and self._is_done():
                    return
            except Exception:
                if until_done:
                    raise
                log.exception("worker component failed; restarting it")
            pause = 0.05 if time.monotonic() - started_at > 5 else min(pause * 2, 2.0)
            await asyncio.sleep(pause)

    async def _run_on_session(self, name: str, work: Callable[[WorkerSession], Awaitable[None]]) -> None:
        conn = await self.jobs.sessions.connect_worker(name)
        try:
            await work(conn)
        finally:
            conn.terminate()

    async def _exchange_once(self) -> None:
        # Waiting for a lock in this session would delay all tenants; see `Exchange._write_one_by_one`.
        conn = await self.jobs.sessions.connect_worker("claims", lock_timeout="500ms")
        try:
            await conn.add_listener("jobs", self._handle_notification)
            conn.add_termination_listener(lambda _: self._wake.set())
            self._lane_poller.poll_now()
            await self._exchange_until_stopped(conn)
        finally:
            self._exchange.since = None
            conn.terminate()

    async def _exchange_until_stopped(self, conn: WorkerSession) -> None:
        while True:
            self._wake.clear()
            if await self._exchange.take_turn(conn):
                continue
            if self._is_done():
                await self._exchange.release_held(conn)
                return
            if conn.is_closed():
                raise ConnectionError("the session that claims jobs was closed")
            self._become_idle()
            await self._wake.wait()
            self.is_idle = False

    def _become_idle(self) -> None:
        load = self._measure_load()
        if not load.is_saturated and not self._lanes.has_lanes(room_aside=load.has_room_aside):
            self.is_idle = True
            self._lane_poller.reset_poll_delay()
            self._lane_poller.poll_now()

    def _is_done(self) -> bool:
        """Whether it was stopped, and either nothing is left or the time for finishing is over."""
        if self._stop_at is None:
            return False
        return not self._executions or time.monotonic() >= self._stop_at + self.options.cancel_grace

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._log_failed_task)

    def _log_failed_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("worker component ended unexpectedly", exc_info=error)


def _log_end(job: HeldJob, became: Status) -> None:
    """One line per execution: which job, how it ended, how long it took."""
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {"status": became.value, "duration_ms": round(job.seconds * 1000)}
    log.info("job ended", extra=build_log_fields(job.ctx) | fields)
