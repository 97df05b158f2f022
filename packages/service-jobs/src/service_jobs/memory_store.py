"""What the in-memory engine keeps: its jobs, who has which key, who waits, and who is over and for how long.

A job waits in the channel, behind a timer, or not at all because it runs or is over; `Record` knows which.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from uuid import UUID

import orjson
from pydantic_core import PydanticSerializationError

from bpc.jobs.context import Wish
from bpc.jobs.errors import JobError, JobNotFound
from bpc.jobs.handler import Handler
from bpc.jobs.job import Job
from bpc.jobs.outcome import Status

if TYPE_CHECKING:
    from bpc.jobs.memory.run import Run

Key: TypeAlias = tuple[UUID, str, str]
OWNER: Final = "memory"


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The engine's time. A test may hand in one that stands still until it is moved."""

    def now(self) -> datetime:
        """This moment, UTC."""
        ...

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call `call` on the event loop when `seconds` are over."""
        ...


class LoopClock:
    """The time of the machine and of the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 (a library of its own: nobody hands it the time)

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)


@dataclass(frozen=True, slots=True)
class Told:
    """What whoever submitted a job said about where it comes from."""

    correlation_id: str | None
    actor: str | None
    traceparent: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """A job, and where it is: in the channel, behind a timer, in a run, or over."""

    tenant: UUID
    wish: Wish
    max_attempts: int
    told: Told
    created_at: datetime
    scheduled_at: datetime
    status: Status = Status.QUEUED
    attempts: int = 0
    checkpoint: str | None = None  # JSON texts: nobody can change what was written down
    step: str | None = None
    progress: str | None = None
    gave: Any = None  # by the last step that is done
    made: Any = None  # by the job, if it succeeded
    last_error: JobError | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    timer: Timer | None = None
    run: "Run | None" = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def job_id(self) -> UUID:
        return self.wish.job_id

    @property
    def handler(self) -> Handler[Any, Any]:
        return self.wish.handler

    @property
    def value(self) -> Any:
        """What the handler is given, in every attempt."""
        wish = self.wish
        return wish.value if wish.value is not None or wish.payload == "null" else self.handler.read_input(wish.payload)

    @property
    def made_text(self) -> str | None:
        """What the job made, as JSON; None if it made nothing, or nothing that JSON can say."""
        if self.status is not Status.SUCCEEDED:
            return None
        try:
            return self.handler.made.dump_json(self.made, warnings=False).decode()
        except PydanticSerializationError:
            return None

    @property
    def key(self) -> Key | None:
        return None if self.wish.key is None else (self.tenant, self.handler.type, self.wish.key)

    def named(self) -> dict[str, object]:
        """For log lines."""
        return {
            "tenant_id": str(self.tenant),
            "job_id": str(self.job_id),
            "job_type": self.handler.type,
            "attempt": self.attempts,
            "correlation_id": self.told.correlation_id,
        }

    def seconds(self, now: datetime) -> float:
        """How long the execution has taken that was started last."""
        return 0.0 if self.started_at is None else max(0.0, (now - self.started_at).total_seconds())

    def revive(self) -> None:
        """Make it a job with all its attempts before it; checkpoint and steps stay."""
        self.attempts = 0
        self.made = None
        if self.status is Status.CANCELLED:  # that is no error of an execution
            self.last_error = None
        self.finished_at = None
        self.over.clear()

    def let_go(self) -> None:
        """Forget the input of a job that will not run again: it may be large, or hold something open."""
        self.wish = replace(self.wish, value=None, payload="null")
        self.gave = None

    def view(self) -> Job:
        runs = self.run is not None
        return Job(
            tenant_id=self.tenant,
            job_id=self.job_id,
            type=self.handler.type,
            status=self.status,
            priority=self.wish.priority,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            idempotency_key=self.wish.key,
            limit_key=None,
            batch_id=None,
            progress=read(self.progress),
            last_error=self.last_error,
            created_at=self.created_at,
            scheduled_at=self.scheduled_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            lease_owner=OWNER if runs else None,
            lease_expires_at=None,
            cancel_requested=self.run is not None and self.run.ctx.cancel_requested,
            correlation_id=self.told.correlation_id,
            actor=self.told.actor,
        )


def read(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


class Channel:
    """Jobs that may run: tenants take turns; inside a turn, the lowest priority number, then who came first."""

    def __init__(self) -> None:
        self._lanes: dict[UUID, list[tuple[int, int, Record]]] = {}  # whose turn it is comes first
        self._order = count()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def put(self, record: Record) -> None:
        lane = self._lanes.setdefault(record.tenant, [])
        heapq.heappush(lane, (record.wish.priority, next(self._order), record))

    def take(self) -> Record:
        tenant = next(iter(self._lanes))
        lane = self._lanes.pop(tenant)
        _, _, record = heapq.heappop(lane)
        if lane:
            self._lanes[tenant] = lane
        return record

    def remove(self, record: Record) -> None:
        lane = self._lanes.get(record.tenant, [])
        left = [waiting for waiting in lane if waiting[2] is not record]
        if len(left) == len(lane):
            return
        heapq.heapify(left)
        if left:
            self._lanes[record.tenant] = left
        else:
            del self._lanes[record.tenant]


class Finished:
    """Finished jobs, by how long they are kept: in each queue the first is the next to go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queues: dict[timedelta, dict[UUID, tuple[datetime, Record]]] = {}

    def add(self, record: Record, ttl: timedelta) -> None:
        finished = record.finished_at
        if finished is not None:
            self._queues.setdefault(ttl, {})[record.job_id] = (finished, record)

    def remove(self, record: Record) -> None:
        for queue in self._queues.values():
            queue.pop(record.job_id, None)

    def outdated(self, now: datetime) -> list[Record]:
        """Take out those whose time is over, and the oldest while there are too many."""
        gone: list[Record] = []
        for ttl, queue in self._queues.items():
            while queue and next(iter(queue.values()))[0] + ttl <= now:
                gone.append(queue.pop(next(iter(queue)))[1])
        while sum(len(queue) for queue in self._queues.values()) > self._most:
            oldest = min((queue for queue in self._queues.values() if queue), key=lambda q: next(iter(q.values()))[0])
            gone.append(oldest.pop(next(iter(oldest)))[1])
        return gone


class Store:
    """The jobs of all tenants; a tenant finds its own only."""

    def __init__(self, clock: Clock, remember: int) -> None:
        self._clock = clock
        self._jobs: dict[UUID, dict[UUID, Record]] = {}
        self._keys: dict[Key, UUID] = {}
        self._finished = Finished(remember)

    def add(self, record: Record) -> None:
        self._jobs.setdefault(record.tenant, {})[record.job_id] = record
        if record.key is not None:
            self._keys[record.key] = record.job_id

    def of(self, tenant: UUID) -> list[Record]:
        """The tenant's jobs, newest first."""
        self.forget()
        return [record for _, record in sorted(self._jobs.get(tenant, {}).items(), reverse=True)]

    def find(self, tenant: UUID, job_id: UUID) -> Record | None:
        self.forget()
        return self._jobs.get(tenant, {}).get(job_id)

    def get(self, tenant: UUID, job_id: UUID) -> Record:
        if (record := self.find(tenant, job_id)) is None:
            raise JobNotFound(job_id)
        return record

    def taken(self, tenant: UUID, wish: Wish) -> UUID | None:
        """The job that has the key already, if there is one."""
        self.forget()
        return None if wish.key is None else self._keys.get((tenant, wish.handler.type, wish.key))

    def not_over(self) -> list[Record]:
        return [record for jobs in self._jobs.values() for record in jobs.values() if not record.status.is_over]

    def finish(self, record: Record, ttl: timedelta) -> None:
        """Keep the finished job for so long."""
        self._finished.add(record, ttl)
        self.forget()

    def revive(self, record: Record) -> None:
        self._finished.remove(record)
        record.revive()

    def forget(self) -> None:
        """Drop finished jobs whose time is over."""
        for record in self._finished.outdated(self._clock.now()):
            jobs = self._jobs[record.tenant]
            del jobs[record.job_id]
            if not jobs:
                del self._jobs[record.tenant]
            if record.key is not None:
                del self._keys[record.key]
