"""The job engine as it should be: plain values, one thing at a time, no database. The state machine compares the two.

A job is in exactly one place. Whoever writes names an execution; the write is accepted only while that execution has
the lease. Every operation returns what the engine must answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final
from uuid import UUID

BAD_ENDS: Final = frozenset({"FAILED", "DEAD_LETTER", "CANCELLED"})


class JobPlace(Enum):
    READY = "ready"
    LATER = "later"
    LEASE = "lease"
    BLOCKED = "blocked"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Execution:
    """One start of one job. `number` tells it from every other, also where owner and attempt are the same."""

    number: int
    job: UUID
    owner: str
    attempt: int


@dataclass(slots=True)
class Lease:
    execution: Execution
    until: datetime
    slot: int | None = None
    cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSubmission:
    """A job as it is submitted."""

    job_id: UUID
    tenant: UUID
    type: str
    priority: int = 2
    max_attempts: int = 2
    key: str | None = None
    limit_key: str = ""
    limit: int = 0
    delay: float = 0.0
    needs: tuple[UUID, ...] = ()


@dataclass(slots=True)
class ModelJob:
    order: ModelSubmission
    run_at: datetime
    place: JobPlace = JobPlace.READY
    status: str = "QUEUED"
    starts: int = 0  # all executions ever started; with the owner they tell a late write from one that is right
    uncounted: int = 0  # those that were released, or came before somebody had it run again
    turn: int = 0  # its number among those that ever became ready
    unmet: set[UUID] = field(default_factory=set)
    lease: Lease | None = None
    cancelled_by_needed: bool = False

    @property
    def visible_status(self) -> str:
        return "RUNNING" if self.place is JobPlace.LEASE else self.status

    @property
    def attempts(self) -> int:
        return self.starts - self.uncounted


class UnknownJob(Exception):
    """A job that is depended on does not exist for this tenant."""


class EngineModel:
    """All jobs, the time, and who has started what."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[UUID, ModelJob] = {}
        self.executions: list[Execution] = []
        self.limits: dict[tuple[UUID, str], int] = {}
        self._turns = 0

    # Submitting ------------------------------------------------------------------------------------------------

    def submit(self, orders: Sequence[ModelSubmission]) -> list[UUID]:
        """All of one tenant, type and options, as one call. Raises `Unknown`, and then nothing has changed."""
        fresh: list[ModelSubmission] = []
        answers = []
        for order in orders:
            existing = self._find_by_key(order, fresh)
            answers.append(order.job_id if existing is None else existing)
            if existing is None:
                fresh.append(order)
        if fresh and not all(self._exists(needed, fresh[0].tenant) for needed in fresh[0].needs):
            raise UnknownJob
        for order in fresh:
            self._add(order)
            if order.limit_key:  # the latest word counts
                self.limits[order.tenant, order.limit_key] = order.limit
        return answers

    def _find_by_key(self, order: ModelSubmission, fresh: Iterable[ModelSubmission]) -> UUID | None:
        if order.key is None:
            return None
        known = [*(job.order for job in self.jobs.values()), *fresh]
        same = (order.tenant, order.type, order.key)
        return next((one.job_id for one in known if (one.tenant, one.type, one.key) == same), None)

    def _exists(self, job_id: UUID, tenant: UUID) -> bool:
        return job_id in self.jobs and self.jobs[job_id].order.tenant == tenant

    def _add(self, order: ModelSubmission) -> None:
        job = self.jobs[order.job_id] = ModelJob(order, self.now + timedelta(seconds=order.delay))
        job.unmet = {needed for needed in order.needs if self.jobs[needed].status != "SUCCEEDED"}
        if any(self.jobs[needed].status in BAD_ENDS for needed in order.needs):
            self._cancel_because_of_needed(job)
        elif job.unmet:
            job.place = JobPlace.BLOCKED
        else:
            self._queue(job)

    def _queue(self, job: ModelJob) -> None:
        if job.run_at > self.now:
            job.place = JobPlace.LATER
        else:
            self._turns += 1
            job.place, job.turn = JobPlace.READY, self._turns

    # Claiming --------------------------------------------------------------------------------------------------

    def claim(
        self, owner: str, lanes: Sequence[tuple[UUID, str, int, int]], types: Sequence[str], lease: float
    ) -> list[Execution]:
        """`lanes` are tenant, limit key, priority and how many at most."""
        started = []
        for tenant, limit_key, priority, most in lanes:
            slots = self.free_slots(tenant, limit_key) if limit_key else [None] * most
            ready = self._first_of((tenant, limit_key, priority), types)
            started += [self._start(job, owner, lease, slot) for job, slot in zip(ready, slots[:most], strict=False)]
        return started

    def _first_of(self, lane: tuple[UUID, str, int], types: Sequence[str]) -> list[ModelJob]:
        ready = [
            job
            for job in self.jobs.values()
            if job.place is JobPlace.READY
            and (job.order.tenant, job.order.limit_key, job.order.priority) == lane
            and job.order.type in types
        ]
        return sorted(ready, key=lambda job: job.turn)

    def free_slots(self, tenant: UUID, limit_key: str) -> list[int | None]:
        used = self.used_slots(tenant, limit_key)
        return [slot for slot in range(1, self.limits.get((tenant, limit_key), 0) + 1) if slot not in used]

    def used_slots(self, tenant: UUID, limit_key: str) -> set[int | None]:
        """A lowered limit takes no slot away from who has it."""
        same = (tenant, limit_key)
        leased = [job for job in self.jobs.values() if (job.order.tenant, job.order.limit_key) == same]
        return {job.lease.slot for job in leased if job.lease is not None}

    def _start(self, job: ModelJob, owner: str, lease: float, slot: int | None) -> Execution:
        job.starts += 1
        execution = Execution(len(self.executions), job.order.job_id, owner, job.starts)
        self.executions.append(execution)
        job.place, job.lease = JobPlace.LEASE, Lease(execution, self.now + timedelta(seconds=lease), slot)
        return execution

    # Holding ---------------------------------------------------------------------------------------------------

    def holds(self, execution: Execution) -> bool:
        lease = self.jobs[execution.job].lease
        return lease is not None and lease.execution == execution

    def renew(self, executions: Sequence[Execution], lease: float) -> dict[UUID, bool]:
        """The jobs that are still theirs, and whether they were asked to stop."""
        renewed = {}
        for execution in executions:
            held = self.jobs[execution.job].lease
            if held is not None and held.execution == execution:
                held.until = self.now + timedelta(seconds=lease)
                renewed[execution.job] = held.cancel
        return renewed

    def expire_leases(self) -> dict[Execution, datetime]:
        leases = [job.lease for job in self.jobs.values() if job.lease is not None]
        return {lease.execution: lease.until for lease in leases if lease.until < self.now}

    def reap(self, execution: Execution, until: datetime | None, *, bury: bool) -> str | None:
        """Take the lease away; with `until`, only if it has not been renewed since it was seen to end then."""
        job = self.jobs[execution.job]
        if job.lease is None or job.lease.execution != execution or until not in {None, job.lease.until}:
            return None
        if job.lease.cancel or job.attempts < job.order.max_attempts:
            return self.settle(execution, "RETRY")
        return self.settle(execution, "DEAD_LETTER") if bury else "BURY"

    # Ending ----------------------------------------------------------------------------------------------------

    def settle(self, execution: Execution, ending: str, delay: float = 0.0) -> str | None:
        job = self.jobs[execution.job]
        if not self.holds(execution):
            return None
        if job.lease is not None and job.lease.cancel and ending in {"RETRY", "RELEASE", "DEAD_LETTER"}:
            ending = "CANCELLED"
        job.lease = None
        if ending in {"RETRY", "RELEASE"}:
            job.uncounted += ending == "RELEASE"
            job.run_at = self.now + timedelta(seconds=delay)
            self._queue(job)
            return "QUEUED"
        self._end(job, ending)
        return ending

    def _end(self, job: ModelJob, status: str) -> None:
        job.place, job.status = JobPlace.ENDED, status
        for dependent in self._waiting_for(job):
            if status != "SUCCEEDED":
                self._cancel_because_of_needed(dependent)
                continue
            dependent.unmet.discard(job.order.job_id)
            if not dependent.unmet and dependent.place is JobPlace.BLOCKED:
                self._queue(dependent)

    def _waiting_for(self, job: ModelJob) -> list[ModelJob]:
        waiting = [other for other in self.jobs.values() if job.order.job_id in other.unmet]
        return sorted(waiting, key=lambda other: other.order.job_id)

    def _cancel_because_of_needed(self, job: ModelJob) -> None:
        if job.status == "QUEUED":
            job.cancelled_by_needed = True
            self._end(job, "CANCELLED")

    # What people do --------------------------------------------------------------------------------------------

    def cancel(self, tenant: UUID, job_id: UUID) -> str | None:
        if not self._exists(job_id, tenant):
            return None
        job = self.jobs[job_id]
        if job.place is JobPlace.ENDED:
            return job.status
        if job.lease is not None:
            job.lease.cancel = True
            return "CANCELLING"
        self._end(job, "CANCELLED")
        return "CANCELLED"

    def redrive(self, tenant: UUID, job_id: UUID) -> str | None:
        if not self._exists(job_id, tenant):
            return None
        job = self.jobs[job_id]
        if job.status in {"FAILED", "DEAD_LETTER"} or self._was_cancelled_by_somebody(job):
            job.status, job.uncounted, job.run_at = "QUEUED", job.starts, self.now
            if job.unmet:
                job.place = JobPlace.BLOCKED
            else:
                self._queue(job)
            self._restore_dependents(job)
            return "QUEUED"
        if job.place is JobPlace.LATER:
            job.run_at = self.now
            self._queue(job)
            return "QUEUED"
        return {JobPlace.READY: "READY", JobPlace.BLOCKED: "BLOCKED"}.get(job.place, job.visible_status)

    def _was_cancelled_by_somebody(self, job: ModelJob) -> bool:
        """And nothing it needs is in a bad end, so that it can be run again."""
        hopeless = any(self.jobs[needed].status in BAD_ENDS for needed in job.unmet)
        return job.status == "CANCELLED" and not job.cancelled_by_needed and not hopeless

    def _restore_dependents(self, job: ModelJob) -> None:
        """Who was cancelled because of a needed job waits again, once nothing it needs is in a bad end."""
        for dependent in self._waiting_for(job):
            if dependent.cancelled_by_needed and not any(
                self.jobs[n].status in BAD_ENDS for n in dependent.order.needs
            ):
                dependent.status, dependent.place, dependent.cancelled_by_needed = "QUEUED", JobPlace.BLOCKED, False
                self._restore_dependents(dependent)

    def move_due(self) -> int:
        """Whatever is due becomes ready, in the order of its time; returns how many."""
        due = [job for job in self.jobs.values() if job.place is JobPlace.LATER and job.run_at <= self.now]
        for job in sorted(due, key=lambda job: (job.run_at, job.order.job_id)):
            self._queue(job)
        return len(due)
