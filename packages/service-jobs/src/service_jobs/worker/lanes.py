"""Lanes: which jobs a worker claims next, and how it learns where jobs wait.

A lane is (tenant, limit key, priority). Tenants take turns, each for a small quantum, so one tenant's million jobs do
not delay another tenant's single job. Inside a tenant, the lowest priority number goes first; across tenants priority
does not count, or one tenant could starve all others with it.

A lane remembers how far it has been claimed, and the next claim searches above that, minus a little because
transactions commit out of order. So dead index entries of finished jobs, which a long transaction keeps from being
vacuumed, are never scanned again. The poller looks at the true start of each lane and finds what commits later.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

import asyncpg

QUANTUM: Final = 5
MAX_LANES_PER_CLAIM: Final = 100
BEHIND_SECONDS: Final = 0.1
LIMITED_REST_SECONDS: Final = 0.25
MAX_REMEMBERED_LANES: Final = 20_000

LaneKey = tuple[UUID, str, int]


class Lane:
    """One lane, and where the next claim starts in it."""

    __slots__ = ("_marks", "above", "active", "limit_key", "priority", "rests_until", "tenant")

    def __init__(self, tenant: UUID, limit_key: str, priority: int) -> None:
        self.tenant = tenant
        self.limit_key = limit_key
        self.priority = priority
        self.above = 0
        self.active = False
        self.rests_until = 0.0  # its limit was reached; `mark_ready` without `seq` ends the rest
        self._marks: deque[tuple[float, int]] = deque()

    def mark_claimed(self, seq: int, now: float) -> None:
        """Jobs up to `seq` were claimed just now."""
        self._marks.append((now, seq))

    def advance(self, now: float) -> None:
        """Start above what was claimed a while ago."""
        while self._marks and self._marks[0][0] <= now - BEHIND_SECONDS:
            self.above = max(self.above, self._marks.popleft()[1])

    def lower_start(self, seq: int) -> None:
        """The poller saw a job at `seq`: start no later than that."""
        self.above = min(self.above, seq - 1)
        if self._marks:
            self._marks = deque(mark for mark in self._marks if mark[1] < seq)


class LaneRing:
    """All lanes that may have jobs, by tenant."""

    def __init__(self, first: UUID | None = None) -> None:
        self._first_tenant = first  # the tenant that always goes first, if it has jobs
        self._known: dict[LaneKey, Lane] = {}
        self._active: dict[UUID, dict[int, deque[Lane]]] = {}  # active lanes by tenant and priority
        self._ring: deque[UUID] = deque()

    def __len__(self) -> int:
        """The number of tenants that may have jobs."""
        return len(self._ring)

    def mark_ready(self, tenant: UUID, limit_key: str, priority: int, seq: int | None = None, now: float = 0.0) -> None:
        """There are jobs in this lane. A tenant that had none goes to the front.

        With `seq`, the poller saw a job there at the moment `now`: a lane whose limit was reached keeps resting.
        """
        lane = self._known.get((tenant, limit_key, priority))
        if lane is None:
            lane = self._remember(tenant, limit_key, priority)
        if seq is not None:
            lane.lower_start(seq)
            if lane.rests_until > now:
                return
        if lane.active:
            return
        lane.active = True
        by_priority = self._active.setdefault(tenant, {})
        if not by_priority:
            self._ring.appendleft(tenant)
        by_priority.setdefault(priority, deque()).append(lane)

    def pick_lanes(self, room: int, now: float) -> tuple[list[tuple[Lane, int]], list[tuple[Lane, int]]]:
        """Lanes to claim `room` jobs from, and how many from each: those without a limit, and those with one."""
        plain: list[tuple[Lane, int]] = []
        limited_lanes: list[tuple[Lane, int]] = []
        if room <= 0 or not self._ring:
            return plain, limited_lanes
        if self._first_tenant in self._active and self._ring[0] != self._first_tenant:
            self._ring.remove(self._first_tenant)
            self._ring.appendleft(self._first_tenant)
        share = max(QUANTUM, -(-room // min(len(self._ring), MAX_LANES_PER_CLAIM)))
        picked_ids: set[int] = set()
        idle_turns = 0
        while room > 0 and len(picked_ids) < MAX_LANES_PER_CLAIM and idle_turns < len(self._ring):
            tenant = self._ring[0]
            self._ring.rotate(-1)
            lane = self._rotate_to_next(tenant)
            if id(lane) in picked_ids:  # this tenant has no other lane of this priority
                idle_turns += 1
                continue
            idle_turns = 0
            picked_ids.add(id(lane))
            lane.advance(now)
            # A limited lane rarely gives more than a few, and there may be many of them.
            count = min(QUANTUM if lane.limit_key else share, room)
            room -= count
            (limited_lanes if lane.limit_key else plain).append((lane, count))
        return plain, limited_lanes

    def record_claim(self, lane: Lane, requested_count: int, seqs: Iterable[int], now: float) -> None:
        """`seqs` were claimed. If they are fewer than `requested_count`, the lane is empty or its limit is reached."""
        highest, count = 0, 0
        for seq in seqs:
            count += 1
            highest = max(highest, seq)
        if count:
            lane.mark_claimed(highest, now)
        if count < requested_count:
            if lane.limit_key:
                lane.rests_until = now + LIMITED_REST_SECONDS
            self._deactivate(lane)

    def _rotate_to_next(self, tenant: UUID) -> Lane:
        by_priority = self._active[tenant]
        lanes = by_priority[min(by_priority)]
        lanes.rotate(-1)  # lanes of one priority take turns too
        return lanes[-1]

    def _deactivate(self, lane: Lane) -> None:
        if not lane.active:
            return
        lane.active = False
        by_priority = self._active[lane.tenant]
        by_priority[lane.priority].remove(lane)
        if not by_priority[lane.priority]:
            del by_priority[lane.priority]
        if not by_priority:
            del self._active[lane.tenant]
            self._ring.remove(lane.tenant)

    def _remember(self, tenant: UUID, limit_key: str, priority: int) -> Lane:
        if len(self._known) >= MAX_REMEMBERED_LANES:
            # Forget the oldest inactive lane; should it come back, it is searched from its beginning.
            for key, lane in self._known.items():
                if not lane.active:
                    del self._known[key]
                    break
        lane = self._known[tenant, limit_key, priority] = Lane(tenant, limit_key, priority)
        return lane


class LaneRings:
    """The lanes of a worker: one ring for its main slots, one for the separate slots of jobs that mostly wait."""

    def __init__(self, aside_keys: Container[str] = (), first_tenant: UUID | None = None) -> None:
        """Lanes whose limit key is in `aside_keys` belong to the separate slots."""
        self._aside_keys = aside_keys
        self._main = LaneRing(first_tenant)
        self._aside = LaneRing(first_tenant)

    def mark_ready(self, tenant: UUID, limit_key: str, priority: int, seq: int | None = None, now: float = 0.0) -> None:
        """There are jobs in this lane; see `LaneRing.mark_ready`."""
        self._get_ring(limit_key).mark_ready(tenant, limit_key, priority, seq, now)

    def has_lanes(self, *, room_aside: bool) -> bool:
        """Whether there may be jobs to claim; those for the separate slots count only if there is room for them."""
        return bool(self._main) or (room_aside and bool(self._aside))

    def pick_lanes(
        self, room: int, room_aside: int, now: float
    ) -> tuple[list[tuple[Lane, int]], list[tuple[Lane, int]]]:
        """Lanes to claim from, and how many jobs from each: those without a limit, and those with one."""
        plain, limited_lanes = self._main.pick_lanes(room, now)
        return plain, limited_lanes + self._aside.pick_lanes(room_aside, now)[1]

    def record_claims(
        self,
        lanes: Iterable[tuple[Lane, int]],
        seqs: Mapping[LaneKey, Sequence[int]],
        now: float,
    ) -> None:
        """`seqs` were claimed of each lane, out of the number requested with it."""
        for lane, requested_count in lanes:
            claimed_seqs = seqs.get((lane.tenant, lane.limit_key, lane.priority), ())
            self._get_ring(lane.limit_key).record_claim(lane, requested_count, claimed_seqs, now)

    def _get_ring(self, limit_key: str) -> LaneRing:
        return self._aside if limit_key in self._aside_keys else self._main


# The poller: finds lanes with jobs in them, and moves delayed jobs whose time has come ------------------------------

# It skips from lane to lane by the index and never scans a lane.
SELECT_LANES: Final[LiteralString] = """
    WITH RECURSIVE lane AS (
      (SELECT r.tenant_id, r.limit_key, r.priority, r.seq FROM jobs.job_ready r
        WHERE (r.tenant_id, r.limit_key, r.priority) > ($2::uuid, $3::text, $4::smallint) AND r.type = ANY ($1::text[])
        ORDER BY r.tenant_id, r.limit_key, r.priority, r.seq LIMIT 1)
      UNION ALL
      SELECT n.tenant_id, n.limit_key, n.priority, n.seq FROM lane
       CROSS JOIN LATERAL (
         SELECT r.tenant_id, r.limit_key, r.priority, r.seq FROM jobs.job_ready r
          WHERE (r.tenant_id, r.limit_key, r.priority) > (lane.tenant_id, lane.limit_key, lane.priority)
            AND r.type = ANY ($1::text[])
          ORDER BY r.tenant_id, r.limit_key, r.priority, r.seq LIMIT 1) n
    )
    SELECT tenant_id, limit_key, priority, seq FROM lane LIMIT $5
"""
MOVE_DUE: Final[LiteralString] = "SELECT tenant_id, limit_key, priority FROM jobs.move_due($1, $2)"
NEXT_DUE: Final[LiteralString] = """
    SELECT extract(epoch FROM (SELECT min(run_at) FROM jobs.job_later WHERE run_at > $1) - jobs.clock())::float8,
           jobs.clock()
"""
TRY_IDLE_LOCK: Final[LiteralString] = "SELECT pg_try_advisory_lock(1785684595, 1)"
RELEASE_IDLE_LOCK: Final[LiteralString] = """
    SELECT pg_advisory_unlock(1785684595, 1), pg_notify('jobs', 'idle')
"""

BEFORE_ALL_LANES: Final = (UUID(int=0), "", -1)
MAX_LANES_PER_POLL: Final = 1_000
MAX_MOVED: Final = 1_000
BUSY_SHARE: Final = 20  # between two polls it waits this many times as long as one took
MIN_POLL_DELAY: Final = 0.005
FIRST_POLL_DELAY: Final = 0.002
MAX_NOTIFICATIONS: Final = 20  # within the window; with more, submitters stop sending them
NOTIFICATION_WINDOW: Final = 0.1  # seconds
SECONDS_WITHOUT_LOCK: Final = 0.1
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
MOVE_SLACK: Final = timedelta(seconds=60)


class Load(NamedTuple):
    """How busy the worker is."""

    is_idle: bool
    is_saturated: bool
    has_room_aside: bool
    seconds_per_job: float


class LanePoller:
    """Runs on one session until it is cancelled or the session is lost."""

    def __init__(
        self,
        lanes: LaneRings,
        types: Sequence[str],
        *,
        poll: float,
        query_timeout: float,
        measure_load: Callable[[], Load],
        wake: Callable[[], None],
    ) -> None:
        """`query_timeout` is for a network that swallows everything; `wake` tells the worker that there are jobs."""
        self._lanes = lanes
        self._types = types
        self._poll = poll
        self._query_timeout = query_timeout
        self._measure_load = measure_load
        self._wake_worker = wake
        self._wake_event = asyncio.Event()
        self._holds_idle_lock = False
        self._poll_delay = FIRST_POLL_DELAY
        self._start_after = BEFORE_ALL_LANES
        self._poll_at = 0.0
        self._move_at = 0.0
        self._moved_to = LONG_AGO
        self._all_moved_at = 0.0
        self._notifications = 0
        self._counted_since = 0.0
        self._no_lock_until = 0.0
        self.has_polled = False

    def poll_now(self) -> None:
        """Poll without waiting: the worker has nothing to do, or new jobs were announced."""
        self._poll_at = 0.0
        self._wake_event.set()

    def reset_poll_delay(self) -> None:
        self._poll_delay = FIRST_POLL_DELAY

    def count_notification(self) -> None:
        """A submitter sent a NOTIFY because we hold the idle lock. If there are many, we give the lock back."""
        self._notifications += 1
        if self._notifications > MAX_NOTIFICATIONS and self._holds_idle_lock:
            self._wake_event.set()

    async def run(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._holds_idle_lock = False
        self._poll_at = self._move_at = 0.0
        while True:
            self._wake_event.clear()
            now = time.monotonic()
            if now >= self._move_at:
                await self._move_due_jobs(conn)
            if now >= self._poll_at:
                await self._poll_lanes(conn)
            if self._holds_idle_lock and (self._measure_load().is_saturated or self._is_notified_too_often()):
                await conn.execute(RELEASE_IDLE_LOCK, timeout=self._query_timeout)
                self._holds_idle_lock = False
            pause = max(0.0, min(self._poll_at, self._move_at) - time.monotonic())
            try:
                async with asyncio.timeout(pause):
                    await self._wake_event.wait()
            except TimeoutError:
                pass

    def _is_notified_too_often(self) -> bool:
        """If so, it polls every few milliseconds for a while instead of holding the lock."""
        now = time.monotonic()
        too_often = self._notifications > MAX_NOTIFICATIONS
        if too_often:
            self._no_lock_until = now + SECONDS_WITHOUT_LOCK
        if too_often or now >= self._counted_since + NOTIFICATION_WINDOW:
            self._notifications, self._counted_since = 0, now
        return too_often

    async def _poll_lanes(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        load = self._measure_load()
        if load.is_idle and not self._holds_idle_lock and time.monotonic() >= self._no_lock_until:
            self._holds_idle_lock = await conn.fetchval(TRY_IDLE_LOCK, timeout=self._query_timeout)
        started_at = time.monotonic()
        rows = await conn.fetch(
            SELECT_LANES, self._types, *self._start_after, MAX_LANES_PER_POLL, timeout=self._query_timeout
        )
        for tenant, limit_key, priority, seq in rows:
            self._lanes.mark_ready(tenant, limit_key, priority, seq, started_at)
        is_round_complete = len(rows) < MAX_LANES_PER_POLL
        self._start_after = BEFORE_ALL_LANES if is_round_complete else tuple(rows[-1])[:3]
        took = time.monotonic() - started_at
        self.has_polled = True
        has_lanes = self._lanes.has_lanes(room_aside=self._measure_load().has_room_aside)
        if has_lanes:
            self._wake_worker()
            self._poll_delay = FIRST_POLL_DELAY
        self._poll_at = time.monotonic() + self._choose_poll_delay(took, is_idle=load.is_idle and not has_lanes)

    def _choose_poll_delay(self, took: float, *, is_idle: bool) -> float:
        if not is_idle:
            # Not much more often than a slot becomes free, or a long job would mean many useless polls.
            seconds_per_job = self._measure_load().seconds_per_job
            return max(MIN_POLL_DELAY, took * BUSY_SHARE, min(self._poll, seconds_per_job / 4))
        if self._holds_idle_lock:
            return self._poll
        if time.monotonic() < self._no_lock_until:
            return FIRST_POLL_DELAY
        self._poll_delay = min(self._poll_delay * 1.5, self._poll)
        return self._poll_delay

    async def _move_due_jobs(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        now = time.monotonic()
        if now - self._all_moved_at > 60:  # a job may have been committed late, before where we look
            self._moved_to, self._all_moved_at = LONG_AGO, now
        while True:
            rows = await conn.fetch(MOVE_DUE, self._moved_to, MAX_MOVED, timeout=self._query_timeout)
            for tenant, limit_key, priority in rows:
                self._lanes.mark_ready(tenant, limit_key, priority)
            if not rows:
                break
            self._wake_worker()
        [(seconds, clock)] = await conn.fetch(NEXT_DUE, self._moved_to, timeout=self._query_timeout)
        self._moved_to = clock - MOVE_SLACK
        self._move_at = time.monotonic() + (self._poll if seconds is None else min(self._poll, max(0.001, seconds)))
