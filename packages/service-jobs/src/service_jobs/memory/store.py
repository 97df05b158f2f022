"""The data of the in-memory engine: its jobs, their keys, the queue of waiting jobs and the finished ones.

A job waits in the queue, waits behind a timer, runs, or is over; `MemoryJob` knows which.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from uuid import UUID

import orjson

from service_jobs.handler import Handler
from service_jobs.job import Job, JobError, JobNotFound, QueueFull, Status, Subject
from service_jobs.job_spec import JobSpec
from service_jobs.queries import MAX_PAGE_SIZE, require_page_size

if TYPE_CHECKING:
    from service_jobs.memory.run import MemoryRun

IdempotencyKey: TypeAlias = tuple[UUID, str, str]
MEMORY_OWNER: Final = "memory"


class Timer(Protocol):
    def cancel(self) -> None: ...


class EngineClock(Protocol):
    """The engine's time. A test may pass one that stands still until the test moves it."""

    def now(self) -> datetime:
        """This moment, UTC."""
        ...

    def call_after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call `call` on the event loop after `seconds`."""
        ...


class LoopClock:
    """The time of the machine and of the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 (a library of its own: nobody hands it the time)

    def call_after(self, seconds: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """What the submitter said about the origin of a job."""

    correlation_id: str | None
    actor: str | None
    traceparent: str | None
    service_id: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class MemoryJob:
    """A job and its state: in the queue, behind a timer, in a run, or over."""

    tenant: UUID
    spec: JobSpec
    max_attempts: int
    origin: JobOrigin
    created_at: datetime
    scheduled_at: datetime
    status: Status = Status.QUEUED
    attempts: int = 0
    checkpoint: str | None = None  # JSON text, so that later changes of the object do not change it
    step: str | None = None
    progress: str | None = None
    step_output: Any = None  # of the last finished step
    output: Any = None  # of the job, if it succeeded
    last_error: JobError | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    timer: Timer | None = None
    run: "MemoryRun | None" = None
    finished_event: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def job_id(self) -> UUID:
        return self.spec.job_id

    @property
    def handler(self) -> Handler[Any, Any]:
        return self.spec.handler

    @property
    def value(self) -> Any:
        """The input of every attempt."""
        spec = self.spec
        return (
            spec.value if spec.value is not None or spec.payload == "null" else self.handler.decode_input(spec.payload)
        )

    @property
    def key(self) -> IdempotencyKey | None:
        return None if self.spec.key is None else (self.tenant, self.handler.type, self.spec.key)

    @property
    def subject_group(self) -> str | None:
        return None if self.spec.subject is None else self.spec.subject.group

    def is_about(self, subject: Subject) -> bool:
        own = self.spec.subject
        return own is not None and (own.kind, own.id) == (subject.kind, subject.id)

    def measure_seconds(self, now: datetime) -> float:
        """How long the last execution has taken."""
        return 0.0 if self.started_at is None else max(0.0, (now - self.started_at).total_seconds())

    def revive(self) -> None:
        """Give it all its attempts again; checkpoint and steps stay."""
        self.attempts = 0
        self.output = None
        if self.status is Status.CANCELLED:  # a cancellation is not an error of an execution
            self.last_error = None
        self.finished_at = None
        self.finished_event.clear()

    def release_input(self) -> None:
        """Drop the input of a job that will not run again: it may be large, or hold a resource open."""
        self.spec = replace(self.spec, value=None, payload="null")
        self.step_output = None

    def to_job(self) -> Job:
        runs = self.run is not None
        return Job(
            tenant_id=self.tenant,
            job_id=self.job_id,
            type=self.handler.type,
            status=self.status,
            priority=self.spec.priority,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            idempotency_key=self.spec.key,
            limit_key=None,
            batch_id=None,
            progress=load_json(self.progress),
            last_error=self.last_error,
            created_at=self.created_at,
            scheduled_at=self.scheduled_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            lease_owner=MEMORY_OWNER if runs else None,
            lease_expires_at=None,
            cancel_requested=self.run is not None and self.run.ctx.cancel_requested,
            correlation_id=self.origin.correlation_id,
            actor=self.origin.actor,
            service_id=self.origin.service_id,
            subject=self.spec.subject,
        )


def load_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


class ReadyQueue:
    """Jobs that may run. Tenants take turns; inside a turn the lowest priority number goes first, then the oldest."""

    def __init__(self) -> None:
        self._lanes: dict[UUID, list[tuple[int, int, MemoryJob]]] = {}  # the tenant whose turn it is comes first
        self._order = count()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def put(self, record: MemoryJob) -> None:
        lane = self._lanes.setdefault(record.tenant, [])
        heapq.heappush(lane, (record.spec.priority, next(self._order), record))

    def take(self) -> MemoryJob:
        tenant = next(iter(self._lanes))
        lane = self._lanes.pop(tenant)
        _, _, record = heapq.heappop(lane)
        if lane:
            self._lanes[tenant] = lane
        return record

    def remove(self, record: MemoryJob) -> None:
        lane = self._lanes.get(record.tenant, [])
        left = [waiting for waiting in lane if waiting[2] is not record]
        if len(left) == len(lane):
            return
        heapq.heapify(left)
        if left:
            self._lanes[record.tenant] = left
        else:
            del self._lanes[record.tenant]


class WaitingJobs:
    """All waiting jobs: those that may run, and those behind a timer. It limits their number."""

    def __init__(self, capacity: int, clock: EngineClock, on_ready: Callable[[], None]) -> None:
        self.capacity = capacity
        self._clock = clock
        self._on_ready = on_ready
        self._ready = ReadyQueue()
        self._later: set[UUID] = set()
        self._reserved = 0  # places for follow-ups of jobs that are being committed

    def __len__(self) -> int:
        return len(self._ready) + len(self._later)

    def require_room(self, places: int) -> None:
        """Raise `QueueFull` unless this many jobs more may wait."""
        if len(self) + self._reserved + places > self.capacity:
            raise QueueFull(self.capacity)

    @contextmanager
    def reserve(self, places: int) -> Iterator[None]:
        """Keep `places` free for the jobs that the block adds."""
        self._reserved += places
        try:
            yield
        finally:
            self._reserved -= places

    def add(self, record: MemoryJob, delay: float) -> None:
        """Let the job wait for `delay` seconds, then for its turn. A retry is never refused for lack of room."""
        record.status = Status.QUEUED
        record.scheduled_at = self._clock.now() + timedelta(seconds=delay)
        if delay > 0:
            self._later.add(record.job_id)
            record.timer = self._clock.call_after(delay, lambda: self._make_ready(record))
        else:
            self._make_ready(record)

    def remove(self, record: MemoryJob) -> None:
        if record.timer is not None:
            record.timer.cancel()
            record.timer = None
        self._later.discard(record.job_id)
        self._ready.remove(record)

    def take(self) -> MemoryJob | None:
        """The next job that may run now."""
        return self._ready.take() if self._ready else None

    def _make_ready(self, record: MemoryJob) -> None:
        record.timer = None
        self._later.discard(record.job_id)
        self._ready.put(record)
        self._on_ready()


class FinishedJobs:
    """Finished jobs by their retention time: the first of each queue expires first."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._queues: dict[timedelta, dict[UUID, tuple[datetime, MemoryJob]]] = {}

    def add(self, record: MemoryJob, ttl: timedelta) -> None:
        finished_at = record.finished_at
        if finished_at is not None:
            self._queues.setdefault(ttl, {})[record.job_id] = (finished_at, record)

    def remove(self, record: MemoryJob) -> None:
        for queue in self._queues.values():
            queue.pop(record.job_id, None)

    def take_expired(self, now: datetime) -> list[MemoryJob]:
        """Remove and return expired jobs, and the oldest ones while there are too many."""
        expired_jobs: list[MemoryJob] = []
        for ttl, queue in self._queues.items():
            while queue and next(iter(queue.values()))[0] + ttl <= now:
                expired_jobs.append(queue.pop(next(iter(queue)))[1])
        while sum(len(queue) for queue in self._queues.values()) > self._max_count:
            oldest = min((queue for queue in self._queues.values() if queue), key=lambda q: next(iter(q.values()))[0])
            expired_jobs.append(oldest.pop(next(iter(oldest)))[1])
        return expired_jobs


class MemoryStore:
    """The jobs of all tenants; a tenant sees only its own."""

    def __init__(self, clock: EngineClock, remember: int) -> None:
        self._clock = clock
        self._jobs: dict[UUID, dict[UUID, MemoryJob]] = {}
        self._keys: dict[IdempotencyKey, UUID] = {}
        self._finished = FinishedJobs(remember)

    def add(self, record: MemoryJob) -> None:
        self._jobs.setdefault(record.tenant, {})[record.job_id] = record
        if record.key is not None:
            self._keys[record.key] = record.job_id

    def list_jobs(
        self,
        tenant: UUID,
        *,
        job_type: str | None = None,
        status: Status | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        before_id: UUID | None = None,
        subject: Subject | None = None,
        subject_group: str | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """The newest jobs that match, at most `limit`. For the next page pass the last id as `before_id`.

        `created_after` is inclusive, `created_before` is not.
        """
        require_page_size(limit, MAX_PAGE_SIZE)
        self.remove_expired()
        newest_first = (record for _, record in sorted(self._jobs.get(tenant, {}).items(), reverse=True))
        matching = (
            record
            for record in newest_first
            if (job_type is None or record.handler.type == job_type)
            and (status is None or record.status is status)
            and (created_after is None or record.created_at >= created_after)
            and (created_before is None or record.created_at < created_before)
            and (before_id is None or record.job_id < before_id)
            and (subject is None or record.is_about(subject))
            and (subject_group is None or record.subject_group == subject_group)
        )
        return [record.to_job() for record in islice(matching, limit)]

    def find(self, tenant: UUID, job_id: UUID) -> MemoryJob | None:
        self.remove_expired()
        return self._jobs.get(tenant, {}).get(job_id)

    def get(self, tenant: UUID, job_id: UUID) -> MemoryJob:
        if (record := self.find(tenant, job_id)) is None:
            raise JobNotFound(job_id)
        return record

    def find_by_key(self, tenant: UUID, spec: JobSpec) -> UUID | None:
        """The id of the job that already has the key."""
        self.remove_expired()
        return None if spec.key is None else self._keys.get((tenant, spec.handler.type, spec.key))

    def list_unfinished(self) -> list[MemoryJob]:
        return [record for jobs in self._jobs.values() for record in jobs.values() if not record.status.is_over]

    def finish(self, record: MemoryJob, ttl: timedelta) -> None:
        """Keep the finished job for `ttl`."""
        self._finished.add(record, ttl)
        self.remove_expired()

    def revive(self, record: MemoryJob) -> None:
        self._finished.remove(record)
        record.revive()

    def remove_expired(self) -> None:
        """Remove finished jobs after their retention time."""
        for record in self._finished.take_expired(self._clock.now()):
            jobs = self._jobs[record.tenant]
            del jobs[record.job_id]
            if not jobs:
                del self._jobs[record.tenant]
            if record.key is not None:
                del self._keys[record.key]
