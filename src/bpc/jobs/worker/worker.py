"""A worker: claims jobs, runs their handlers, and writes down how they ended.

    claims ──► executions ──► finished ──► claims
               in memory                   completed and next claimed, one statement

One session does nothing but this exchange; while the database works on it, the handlers run. What ends differently
than by plain success is settled right before. The scout and the pulse have sessions of their own. Any session may
be lost at any time: what is finished is kept until it is written, and whatever was lost in between is refused by its
fence and runs again.
"""

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import asyncpg

from bpc.jobs.context import Connection, Context, Held, HowFar, Wish
from bpc.jobs.errors import JobError, JobsRefusal, LeaseLost
from bpc.jobs.handler import Handler
from bpc.jobs.outcome import Ending, Outcome, Status, released
from bpc.jobs.service import Jobs
from bpc.jobs.worker.chores import Chore, keep_doing
from bpc.jobs.worker.claims import SETTLE_MANY, Done, claim_limited, exchange
from bpc.jobs.worker.executing import Ended, Executions, Observer
from bpc.jobs.worker.lanes import Lane, Lanes
from bpc.jobs.worker.pulse import Pulse
from bpc.jobs.worker.running import Running
from bpc.jobs.worker.scout import Scout
from bpc.jobs.worker.settling import Ends, save
from bpc.jobs.worker.upkeep import upkeep

T = TypeVar("T")
# What passes: the database is away, or busy, or two transactions stood in each other's way.
UNREACHABLE: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver's word for a session that was cut while it was speaking
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a worker works. All times are in seconds."""

    name: str = field(default_factory=socket.gethostname)
    concurrency: int = 4
    aside: frozenset[str] = frozenset()  # limit keys of jobs that mostly wait for others: they have their own places,
    aside_concurrency: int = 16  # so many
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
            raise ValueError("a worker runs at least one job at a time")
        if not 0 < self.renew < self.lease:
            raise ValueError("leases must be renewed before they end")

    @property
    def grace(self) -> float:
        """How long a job is still renewed after its timeout: it may be interrupted, and then left behind."""
        return self.cancel_grace + 5.0


class Listener(Protocol):
    """A second way to hear that there is work."""

    def listen(self, wake: Callable[[], None]) -> None: ...


class Worker:
    """Runs jobs of all types that its `jobs` knows, until it is stopped."""

    def __init__(
        self,
        jobs: Jobs,
        options: Options = Options(),  # noqa: B008 (frozen)
        *,
        chores: Sequence[Chore] | None = None,
        trigger: Listener | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.jobs = jobs
        self.options = options
        self.identity = os.urandom(8)  # noqa: TID251 (a library of its own: nobody hands it randomness)
        self.owner = f"{options.name}:{os.getpid()}:{self.identity.hex()}"
        self.types = jobs.handlers.restartable_types
        self.lanes = Lanes(first=options.first_tenant)
        self.lanes_aside = Lanes(first=options.first_tenant)
        self.is_idle = False
        self.started = asyncio.Event()  # it is registered: from here on it claims
        self.exchanging_since: float | None = None
        self._observer = observer
        self._trigger = trigger
        self._ends = Ends(jobs)
        self._wake = asyncio.Event()
        self._stop_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._executions = Executions(
            concurrency=options.concurrency,
            aside=options.aside,
            aside_concurrency=options.aside_concurrency,
            batch=options.batch,
            cancel_grace=options.cancel_grace,
            ends=self._ends,
            metrics=jobs.metrics,
            observer=observer,
            on_change=self._wake.set,
            on_settled=self._settled,
        )
        self._chores = upkeep(jobs.metrics) if chores is None else chores
        self._later: list[Ended] = []  # ends that somebody else's open transaction stands in the way of
        self._pulse: Pulse | None = None
        self._scout = Scout(self)
        jobs.metrics.expect(self.types)

    # Running it ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`. Survives the loss of its database, and waits for it to come back."""
        self._pulse = pulse = Pulse(self)
        try:
            await pulse.start(given_up=lambda: self._stop_at is not None)
            self.started.set()
            self._spawn(self._executions.watch(lambda: self._stop_at))
            self._spawn(self._keep(self._scout_once))
            if self._chores:
                self._spawn(self._keep(self._chores_once))
            if self._trigger is not None:
                self._trigger.listen(self._scout.kick)
            await self._keep(self._drive_once, until_done=True)
        finally:
            await self._executions.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self.options.cancel_grace)
            await pulse.stop()

    def stop(self) -> None:
        """Claim no more; let running jobs finish within the grace period; release the rest."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self.options.stop_grace
            self._executions.give_back_waiting()
            self._wake.set()

    async def run_until_idle(self) -> None:
        """Run what is queued, and what follows from it, until nothing can run now; then stop."""
        running = asyncio.create_task(self.run())
        quiet = 0
        try:
            while quiet < 3 and not running.done():  # a job may just have been claimed, or its follow-up be on its way
                await asyncio.sleep(0.05)
                quiet = quiet + 1 if self.is_idle and self._scout.has_looked and not self._executions else 0
        finally:
            self.stop()
            await running

    # What the scout and the pulse say and ask ------------------------------------------------------------------

    def found(self, tenant: UUID, limit_key: str, priority: int, seq: int | None = None, now: float = 0.0) -> None:
        """There is something in this lane; see `Lanes.found`."""
        self._lanes_of(limit_key).found(tenant, limit_key, priority, seq, now)

    @property
    def has_lanes(self) -> bool:
        """Whether there may be something to claim; aside, only if there is room for it."""
        return bool(self.lanes) or (bool(self.lanes_aside) and self._executions.room_aside() > 0)

    def wake(self) -> None:
        self._wake.set()

    def heard(self, lost: Iterable[Held], cancel: Iterable[UUID]) -> None:
        """From the pulse: leases that are lost, and jobs that were asked to stop."""
        for held in lost:
            self._executions.lose(held)
        for job_id in cancel:
            self._executions.cancel(job_id)

    def end_as_lost(self, held: Held) -> None:
        """From the pulse: the last execution of this job is gone, and its type wants to be told of failures."""
        self._spawn(self._end_as_lost(held))

    def knows(self, job_type: str) -> tuple[bool, bool]:
        """Whether we have a handler for this type, and whether it has an `on_failure`."""
        if job_type not in self.jobs.handlers:
            return False, False
        return True, self.jobs.handlers[job_type].failure is not None

    def held_now(self) -> list[Running]:
        """All jobs we hold; safe to call from another thread."""
        return self._executions.now()

    @property
    def seconds_per_job(self) -> float:
        """How long an execution takes, of late."""
        return self._executions.seconds_per_job

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def is_saturated(self) -> bool:
        return self._stop_at is not None or self._executions.room() <= 0

    # The exchange ----------------------------------------------------------------------------------------------

    async def _keep(self, once: Callable[[], Coroutine[Any, Any, None]], *, until_done: bool = False) -> None:
        pause = 0.05
        while True:
            started = time.monotonic()
            try:
                await once()
                if until_done:
                    return
            except UNREACHABLE as lost:
                log.warning("worker lost a database session: %s", str(lost) or type(lost).__name__)
                if until_done and self._stop_at is not None and (not self._executions or self._is_past_stopping()):
                    return
            except Exception:
                if until_done:
                    raise
                log.exception("a part of the worker failed, and is started again")
            pause = 0.05 if time.monotonic() - started > 5 else min(pause * 2, 2.0)
            await asyncio.sleep(pause)

    async def _scout_once(self) -> None:
        conn = await self.jobs.sessions.worker("scout")
        try:
            await self._scout.run(conn)
        finally:
            conn.terminate()

    async def _chores_once(self) -> None:
        conn = await self.jobs.sessions.worker("chores")
        try:
            await keep_doing(self._chores, conn)
        finally:
            conn.terminate()

    async def _drive_once(self) -> None:
        # Whoever waits for a lock here keeps all tenants waiting; see `_one_by_one`.
        conn = await self.jobs.sessions.worker("claims", lock_timeout="500ms")
        try:
            await conn.add_listener("jobs", self._notified)
            conn.add_termination_listener(lambda _: self._wake.set())
            self._scout.kick()
            await self._drive(conn)
        finally:
            self.exchanging_since = None
            conn.terminate()

    async def _drive(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        while True:
            self._wake.clear()
            if await self._exchange(conn):
                continue
            if self._stop_at is not None and (not self._executions or self._is_past_stopping()):
                await self._settle(conn, [(job, released()) for job in self._executions.now()])
                return
            if conn.is_closed():
                raise ConnectionError("the session that claims jobs was closed")
            self._go_idle()
            await self._wake.wait()
            self.is_idle = False

    def _go_idle(self) -> None:
        if self._stop_at is None and self._executions.room() > 0 and not self.has_lanes:
            self.is_idle = True
            self._scout.reset_patience()
            self._scout.kick()

    async def _exchange(self, conn: "asyncpg.Connection[asyncpg.Record]") -> bool:
        """One turn: settle what ended, claim what fits. False if there was nothing to do at all."""
        now = time.monotonic()
        room, room_aside = self._executions.room(), self._executions.room_aside()
        if self._stop_at is not None:
            room = room_aside = 0
        done, others = _apart(self._executions.take_finished())
        if not done and self._executions.is_well_stocked():
            room = 0
        plain, limited = self.lanes.pick(room, now)
        limited += self.lanes_aside.pick(room_aside, now)[1]
        if not (done or others or plain or limited):
            return False
        self.exchanging_since = now
        try:
            async with asyncio.timeout(max(5.0, self.options.lease / 2)):
                await self._settle(conn, others)
                if done or plain:
                    await self._complete_and_claim(conn, done, plain)
                if limited:
                    rows = await claim_limited(conn, self.owner, limited, self.types, self.options.lease)
                    self._claimed(rows, limited)
        except BaseException:
            self._executions.put_back(others + done)
            raise
        self.exchanging_since = None
        return True

    async def _complete_and_claim(
        self, conn: "asyncpg.Connection[asyncpg.Record]", done: list[Ended], lanes: Sequence[tuple[Lane, int]]
    ) -> None:
        done.sort(key=_by_job)
        batch = [
            Done(job.held.tenant, job.held.job_id, job.held.attempt, outcome.result or "null") for job, outcome in done
        ]
        try:
            exchanged = await exchange(conn, self.owner, batch, lanes, self.types, self.options.lease)
        except asyncpg.LockNotAvailableError:
            await self._one_by_one(done, lambda one: self._complete_and_claim(conn, one, ()))
            exchanged = await exchange(conn, self.owner, [], lanes, self.types, self.options.lease)
        self._completed([job for job, _ in done], exchanged.refused)
        done.clear()
        self._claimed(exchanged.claimed, lanes)

    async def _one_by_one(self, ended: list[Ended], write: Callable[[list[Ended]], Coroutine[Any, Any, None]]) -> None:
        """Somebody's open transaction holds one of these jobs: write the others, and that one later."""
        if len(ended) > 1:
            for one in list(ended):
                await write([one])
        elif ended:
            self._later += ended
            asyncio.get_running_loop().call_later(1.0, self._again)
        ended.clear()

    def _again(self) -> None:
        later, self._later = self._later, []
        self._executions.put_back(later)
        self._wake.set()

    def _completed(self, done: Sequence[Running], refused: frozenset[UUID]) -> None:
        seconds: dict[str, list[float]] = {}
        for job in done:
            self._executions.forget(job)
            accepted = job.job_id not in refused
            if accepted:
                seconds.setdefault(job.held.type, []).append(job.seconds)
                _log_end(job, Status.SUCCEEDED)
            else:
                log.warning("job %s was completed too late: its lease was lost", job.job_id)
            if self._observer is not None:
                self._observer.settled(job.held, Status.SUCCEEDED if accepted else None)
        for job_type, each in seconds.items():
            self.jobs.metrics.finished(job_type, Status.SUCCEEDED, len(each), each)

    async def _settle(self, conn: "asyncpg.Connection[asyncpg.Record]", ended: list[Ended]) -> None:
        """Write down ends that are no plain successes; what was written is taken out of `ended`."""
        if not ended:
            return
        ended.sort(key=_by_job)
        try:
            rows = await conn.fetch(
                SETTLE_MANY,
                [job.held.tenant for job, _ in ended],
                [job.held.job_id for job, _ in ended],
                self.owner,
                [job.held.attempt for job, _ in ended],
                [outcome.ending.value for _, outcome in ended],
                [outcome.result for _, outcome in ended],
                [None if outcome.error is None else outcome.error.text() for _, outcome in ended],
                [outcome.delay for _, outcome in ended],
            )
        except asyncpg.PostgresError as refused:
            if conn.is_closed() or isinstance(refused, asyncpg.TransactionRollbackError):
                raise
            log.warning("%d ends could not be written: %s", len(ended), refused)
            await self._one_by_one(ended, lambda one: self._settle(conn, one))
            return
        became = {row["job_id"]: row["became"] for row in rows}
        for job, outcome in ended:
            job.ctx.follow_ups.clear()  # who has any and keeps them ends in a transaction
            self._settled(job, outcome, became[job.job_id] and Status(became[job.job_id]))
        ended.clear()

    def _settled(self, job: Running, outcome: Outcome, became: Status | None) -> None:
        """One job ended by itself: alone, or together with what it did."""
        self._executions.forget(job)
        if job.limit_key or became is Status.QUEUED:
            self.found(job.held.tenant, job.limit_key, job.priority)
        if became is None:
            log.warning("job %s ended too late: its lease was lost", job.job_id)
        else:
            _log_end(job, became)
            if became.is_over:
                self.jobs.metrics.finished(job.held.type, became, 1, [job.seconds])
            elif outcome.ending is Ending.RETRY:
                self.jobs.metrics.retried(job.held.type, seconds=[job.seconds])
        if self._observer is not None:
            self._observer.settled(job.held, became)
        if became is not None and job.ctx.follow_ups:
            self._submit_rest(job.ctx)

    def _submit_rest(self, ctx: Context) -> None:
        try:
            self.jobs.submit_rest(ctx)
        except JobsRefusal as refused:  # those live in memory, and nothing can be promised of them
            log.warning("a follow-up of job %s was refused: %s", ctx.job_id, refused.says)

    def _claimed(self, rows: Sequence[asyncpg.Record], lanes: Sequence[tuple[Lane, int]]) -> None:
        now = time.monotonic()
        seqs: dict[tuple[UUID, str, int], list[int]] = {}
        for row in rows:
            seqs.setdefault((row["tenant_id"], row["limit_key"], row["priority"]), []).append(row["seq"])
        for lane, asked in lanes:
            taken = seqs.get((lane.tenant, lane.limit_key, lane.priority), ())
            self._lanes_of(lane.limit_key).took(lane, asked, taken, now)
        if not rows:
            return
        self.jobs.metrics.acquired(Counter(row["type"] for row in rows))
        handlers = self.jobs.handlers
        self._executions.take([Running(self, handlers[row["type"]], self.owner, row) for row in rows])
        if self._stop_at is not None:  # we were told to stop while the claim was under way
            self._executions.give_back_waiting()

    def _notified(self, _conn: object, _pid: int, _channel: str, payload: object) -> None:
        kind, *rest = str(payload).split(" ", 3)
        if kind == "ready" and len(rest) == 3:
            self.found(UUID(rest[0]), rest[2], int(rest[1]))
            self._scout.was_notified()
            self._wake.set()
        elif kind == "cancel" and len(rest) == 2:
            if self._pulse is not None:
                self._pulse.kick()  # anybody may notify; what counts is what the table says
        else:
            self._scout.kick()

    async def _end_as_lost(self, held: Held) -> None:
        outcome = Outcome(ending=Ending.DEAD_LETTER, error=JobError.of(LeaseLost()))
        try:
            ctx = await self._ends.context_of(self, held)
            became, _ = await self._ends.end(self.jobs.handlers[held.type], ctx, outcome)
        except UNREACHABLE:
            log.warning("could not end job %s yet", held.job_id)
            return
        if became is not None:
            self.jobs.metrics.finished(held.type, became, 1)
            self._submit_rest(ctx)

    def _lanes_of(self, limit_key: str) -> Lanes:
        return self.lanes_aside if limit_key in self.options.aside else self.lanes

    def _is_past_stopping(self) -> bool:
        return self._stop_at is not None and time.monotonic() >= self._stop_at + self.options.cancel_grace

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._part_ended)

    def _part_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of the worker ended by mistake", exc_info=error)

    # What contexts ask for -------------------------------------------------------------------------------------

    async def save(self, held: Held, column: str, text: str) -> bool:
        async with self.jobs.sessions.plain() as conn:
            return await save(conn, held, column, text)

    async def begin(self, ctx: Context) -> Connection:
        return await self._ends.begin(ctx)

    async def end_step(self, ctx: Context, text: str) -> bool:
        return await self._ends.end_step(ctx, text)

    async def compute(
        self,
        ctx: Context,  # noqa: ARG002
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        told: HowFar | None,
    ) -> T:
        return await self.jobs.compute(function, arguments, told)

    def wish(self, ctx: Context, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:  # noqa: ARG002
        return self.jobs.wish(handler, value, **how)


def _log_end(job: Running, became: Status) -> None:
    """One line for each execution, whatever it did: who, what, how it ended, how long it took."""
    if not log.isEnabledFor(logging.INFO):
        return
    log.info(
        "job ended",
        extra={
            "tenant_id": str(job.held.tenant),
            "job_id": str(job.job_id),
            "job_type": job.held.type,
            "attempt": job.ctx.attempt,
            "status": became.value,
            "duration_ms": round(job.seconds * 1000),
            "correlation_id": job.ctx.correlation_id,
        },
    )


def _apart(finished: Iterable[Ended]) -> tuple[list[Ended], list[Ended]]:
    """Plain successes, which share a statement with the next claim, and all others."""
    done: list[Ended] = []
    others: list[Ended] = []
    for job, outcome in finished:
        plain = outcome.ending is Ending.SUCCEEDED and not job.limit_key
        (done if plain else others).append((job, outcome))
    return done, others


def _by_job(ended: Ended) -> bytes:
    return ended[0].held.job_id.bytes
