"""The jobs a worker holds: waiting in its memory, executing, and ended but not yet written down.

    take ──► waiting ──► executing (at most `concurrency`, each in a task of its own) ──► finished ──► the worker
                             └─ interrupted: timeout, cancellation, lost lease, stop ─┘

Jobs that mostly wait for others have places aside: however many of them hang, the places of the others stay free.

A handler that is interrupted and goes on all the same is left behind: its job ends without it, and what it still tries
to write is refused.
"""

import asyncio
import contextvars
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

from bpc.jobs.attempt import execute
from bpc.jobs.context import Held
from bpc.jobs.errors import JobError
from bpc.jobs.metrics import Metrics
from bpc.jobs.outcome import Ending, Outcome, Status, Why, cancelled, failed, released, timed_out
from bpc.jobs.tracing import executing, tracer
from bpc.jobs.worker.running import Running
from bpc.jobs.worker.settling import Ends

FIRST_GUESS: Final = 0.05  # seconds a job takes, before any has
END_AGAIN: Final = 1.0
AHEAD_SECONDS: Final = 0.02  # of work that waits in memory

log = logging.getLogger(__name__)

Ended = tuple[Running, Outcome]


class Observer(Protocol):
    """Told of every execution: for tests that check what really ran."""

    def started(self, held: Held) -> None: ...
    def finished(self, held: Held, outcome: Outcome) -> None: ...
    def settled(self, held: Held, became: Status | None) -> None: ...


@dataclass(slots=True)
class Places:
    """So many jobs may execute here at a time; the jobs that do, that wait to, and that have."""

    most: int
    held: int = 0
    executing: int = 0
    waiting: deque[Running] = field(default_factory=deque)
    finished: list[Ended] = field(default_factory=list)


class Executions:
    """Everything one worker holds. `on_change` hears of whatever ended, `on_settled` of what was also written."""

    def __init__(
        self,
        *,
        concurrency: int,
        aside: Container[str],
        aside_concurrency: int,
        batch: int,
        cancel_grace: float,
        ends: Ends,
        metrics: Metrics,
        observer: Observer | None,
        on_change: Callable[[], None],
        on_settled: Callable[[Running, Outcome, Status | None], None],
    ) -> None:
        self._main = Places(concurrency)
        self._aside = Places(aside_concurrency)
        self._keys_aside = aside  # the limit keys of jobs that have their places there
        self._batch = batch
        self._cancel_grace = cancel_grace
        self._ends = ends
        self._metrics = metrics
        self._observer = observer
        self._on_change = on_change
        self._on_settled = on_settled
        self._held: dict[UUID, Running] = {}
        self._replaced: list[Running] = []  # interrupted, because we hold the same job once more
        self.seconds_per_job = FIRST_GUESS
        self._tasks: set[asyncio.Task[None]] = set()
        self._counted: Counter[str] = Counter()
        self._is_traced = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def now(self) -> list[Running]:
        """All jobs we hold; safe to call from another thread."""
        return list(self._held.values())

    def room(self) -> int:
        """How many jobs to claim: enough that none need wait for the database, few enough for others to share."""
        main = self._main
        return min(self._batch, main.most + self._ahead() - main.held + len(main.finished))

    def is_well_stocked(self) -> bool:
        """Whether so much waits that claiming is better put off: a claim of many costs little more than one of one."""
        return len(self._main.waiting) > self._ahead() // 2

    def _ahead(self) -> int:
        """How many jobs may wait in memory."""
        return min(2 * self._batch, int(self._main.most * AHEAD_SECONDS / self.seconds_per_job))

    def room_aside(self) -> int:
        """The same for jobs that have their places aside."""
        return min(self._batch, self._aside.most - self._aside.held + len(self._aside.finished))

    def take(self, jobs: Iterable[Running]) -> None:
        """Run these, as soon as there is room."""
        for job in jobs:
            there = self._held.get(job.job_id)
            if there is not None and there.held == job.held:
                continue  # the server forgot a claim of ours in a crash; the execution goes on
            if there is not None and not there.is_ending:
                there.interrupt(Why.LOST, time.monotonic())  # its lease was taken away; this is another execution
                self._replaced.append(there)
            places = self._places_of(job)
            places.held += there is None
            places.waiting.append(job)
            self._held[job.job_id] = job
        self._is_traced = tracer() is not None
        self._start_waiting()

    def take_finished(self) -> list[Ended]:
        """What ended and is to be written down. It is held until it is forgotten."""
        finished = self._main.finished + self._aside.finished
        self._main.finished, self._aside.finished = [], []
        return finished

    def put_back(self, ended: list[Ended]) -> None:
        """It could not be written down. Saying it again does no harm, whatever became of it."""
        for job, outcome in reversed(ended):
            self._places_of(job).finished.insert(0, (job, outcome))

    def give_back_waiting(self) -> None:
        """End what has not begun: another worker may begin it."""
        for places in (self._main, self._aside):
            places.finished += ((job, released()) for job in places.waiting)
            places.waiting.clear()

    def forget(self, job: Running) -> None:
        if self._held.get(job.job_id) is job:
            del self._held[job.job_id]
            self._places_of(job).held -= 1

    def cancel(self, job_id: UUID) -> None:
        """Somebody asked for it: the handler is told, and interrupted if it goes on beyond the grace period."""
        job = self._held.get(job_id)
        if job is None or job.ctx.cancel_requested or job.is_ending:
            return
        job.interrupted_at = time.monotonic()
        job.ctx.request_cancel()
        if job.started is None:
            job.why = Why.CANCEL

    def lose(self, held: Held) -> None:
        """Somebody else has this job now: interrupt the handler, which can do no more good."""
        job = self._held.get(held.job_id)
        if job is not None and job.held == held and not job.is_ending:
            log.warning("lost the lease of job %s", held.job_id, extra={"type": held.type})
            job.interrupt(Why.LOST, time.monotonic())

    async def close(self) -> None:
        """Interrupt everything, for a worker that goes down."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._cancel_grace)

    # One execution

    def _places_of(self, job: Running) -> Places:
        return self._aside if job.limit_key in self._keys_aside else self._main

    def _start_waiting(self) -> None:
        for places in (self._main, self._aside):
            while places.waiting and places.executing < places.most:
                job = places.waiting.popleft()
                places.executing += 1
                job.task = self._spawn(self._run(job), context=contextvars.Context())

    async def _run(self, job: Running) -> None:
        job.start(time.monotonic())
        if self._observer is not None:
            self._observer.started(job.held)
        try:
            outcome = await self._executed(job)
        except asyncio.CancelledError:
            if job.why is None and self._is_closed:
                raise
            outcome = self._interrupted(job)
        if job.abandoned:
            return
        try:
            await self._end(job, outcome)
        finally:
            self._places_of(job).executing -= 1
            self._start_waiting()

    async def _executed(self, job: Running) -> Outcome:
        if job.why is not None:
            return self._interrupted(job)  # before it began
        return await (self._traced(job) if self._is_traced else execute(job.handler, job.ctx, job.payload))

    async def _traced(self, job: Running) -> Outcome:
        with executing(job.held, job.ctx.traceparent, attempt=job.ctx.attempt) as span:
            try:
                outcome = await execute(job.handler, job.ctx, job.payload)
            except asyncio.CancelledError:
                if job.why is not None:
                    span.ended(self._interrupted(job))
                raise
            span.ended(outcome)
        return outcome

    def _interrupted(self, job: Running) -> Outcome:
        """What an interrupted execution ends as."""
        if job.why is None:  # the handler awaited something that was cancelled
            return self._failed(
                job, JobError(code="INTERNAL_ERROR", message="the handler cancelled itself", retryable=True)
            )
        if job.why is Why.CANCEL:
            return cancelled()
        if job.why is Why.TIMEOUT and job.handler.timeout is not None:
            return timed_out(
                job.handler.timeout, attempt=job.ctx.attempt, most=job.ctx.max_attempts, retry=job.handler.retry
            )
        return released()

    def _failed(self, job: Running, error: JobError) -> Outcome:
        return failed(error, attempt=job.ctx.attempt, most=job.ctx.max_attempts, retry=job.handler.retry)

    async def _end(self, job: Running, outcome: Outcome) -> None:
        job.is_ending = True
        if job.why is not None and outcome.ending is not Ending.SUCCEEDED:
            outcome = self._interrupted(job)  # whatever the handler says, this is why it ended
        job.seconds = time.monotonic() - (job.started or 0.0)
        places = self._places_of(job)
        if places is self._main:
            self.seconds_per_job += (max(job.seconds, 1e-5) - self.seconds_per_job) * 0.1
        if self._observer is not None:
            self._observer.finished(job.held, outcome)
        if job.why is Why.LOST:
            await self._ends.roll_back(job.ctx)
            self.forget(job)
        elif self._ends.needs_transaction(job.handler, job.ctx, outcome):
            await self._end_in_transaction(job, outcome)
        else:
            places.finished.append((job, outcome))
        self._on_change()

    async def _end_in_transaction(self, job: Running, outcome: Outcome) -> None:
        try:
            became, outcome = await self._ends.end(job.handler, job.ctx, outcome)
        except Exception:
            log.exception("the end of job %s could not be written", job.job_id, extra={"type": job.held.type})
            await self._ends.roll_back(job.ctx)
            if not outcome.keeps_effects and job.why is not Why.LOST:  # nothing is undone by trying that again
                await asyncio.sleep(END_AGAIN)
                await self._end_in_transaction(job, outcome)
                return
            error = JobError(code="DB_UNAVAILABLE", message="the end of the job could not be written", retryable=True)
            self._places_of(job).finished.append((job, self._failed(job, error)))
        else:
            self._on_settled(job, outcome, became)

    # Watching

    async def watch(self, stop_at: Callable[[], float | None]) -> None:
        """Interrupt what has run out of time or was told to stop, and give up what does not listen."""
        while True:
            await asyncio.sleep(0.05)
            now, last = time.monotonic(), stop_at()
            self._replaced = [job for job in self._replaced if not job.is_ending]
            held = [*self._held.values(), *self._replaced]
            at_work = [job for job in held if job.started is not None and not job.is_ending]
            for job in at_work:
                self._watch_one(job, now, stops=last is not None and now >= last)
            self._count(Counter(job.held.type for job in at_work))
            if last is not None and now >= last:
                self._on_change()

    def _watch_one(self, job: Running, now: float, *, stops: bool) -> None:
        if job.why is None:
            if job.deadline is not None and now >= job.deadline:
                job.interrupt(Why.TIMEOUT, now)
            elif job.ctx.cancel_requested and now >= job.interrupted_at + self._cancel_grace:
                job.interrupt(Why.CANCEL, now)
            elif stops:
                job.interrupt(Why.STOP, now)
        elif now >= job.interrupted_at + self._cancel_grace:
            self._leave_behind(job)

    def _leave_behind(self, job: Running) -> None:
        """It was interrupted and does not stop: end the job without it, and let another one take its place."""
        about = {"type": job.held.type}
        log.error("job %s ignores that it was interrupted; it is left behind", job.job_id, extra=about)
        job.abandoned = job.is_ending = True
        self._places_of(job).executing -= 1
        self._spawn(self._end_without(job))
        self._start_waiting()

    async def _end_without(self, job: Running) -> None:
        await self._ends.cut_off(job.ctx)
        job.ctx = job.ctx.successor()
        await self._end(job, self._interrupted(job))

    def _count(self, counts: Counter[str]) -> None:
        for job_type in counts.keys() | self._counted.keys():
            if change := counts[job_type] - self._counted[job_type]:
                self._metrics.running(job_type, change)
        self._counted = counts

    def _spawn(
        self, work: Coroutine[Any, Any, None], context: contextvars.Context | None = None
    ) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
