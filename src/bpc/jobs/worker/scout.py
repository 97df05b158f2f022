"""The scout of a worker: it finds lanes with something in them, and moves jobs whose time has come.

It has a session of its own and takes at most a twentieth of the time while the worker is busy. When there is nothing to
do it holds the idle lock: whoever submits then sends a NOTIFY (see `jobs.wake`). Whoever could not get the lock looks
again soon, because a submission may be on its way whose sender believes that somebody is awake.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, LiteralString
from uuid import UUID

import asyncpg

if TYPE_CHECKING:
    from bpc.jobs.worker import Worker

# From one lane to the next by the index, never through a lane.
LANES: Final[LiteralString] = """
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
TRY_IDLE: Final[LiteralString] = "SELECT pg_try_advisory_lock(1785684595, 1)"
NOT_IDLE: Final[LiteralString] = """
    SELECT pg_advisory_unlock(1785684595, 1), pg_notify('jobs', 'idle')
"""

BEFORE_ALL: Final = (UUID(int=0), "", -1)
MOST_LANES: Final = 1_000
MOST_MOVED: Final = 1_000
BUSY_SHARE: Final = 20  # it rests this many times as long as a look took
SHORTEST_REST: Final = 0.005
FIRST_PATIENCE: Final = 0.002
MOST_NOTIFIED: Final = 20  # wake-ups within
NOTIFIED_WITHIN: Final = 0.1  # seconds; more, and submitters are spared them
WITHOUT_LOCK: Final = 0.1
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
SLACK: Final = timedelta(seconds=60)


class Scout:
    """Runs on one session until it is cancelled or the session is lost."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._longest = max(5.0, worker.options.lease / 2)  # a network that swallows everything says nothing, for hours
        self._kicked = asyncio.Event()
        self._holds_idle_lock = False
        self._patience = FIRST_PATIENCE
        self._from = BEFORE_ALL
        self._look_at = 0.0
        self._move_at = 0.0
        self._moved_to = LONG_AGO
        self._all_moved_at = 0.0
        self._notified = 0
        self._counted_since = 0.0
        self._no_lock_until = 0.0
        self.has_looked = False

    def kick(self) -> None:
        """The worker has run out of work, or somebody says that there is some: look now."""
        self._look_at = 0.0
        self._kicked.set()

    def reset_patience(self) -> None:
        self._patience = FIRST_PATIENCE

    def was_notified(self) -> None:
        """Somebody submitted, and paid for a NOTIFY because we hold the idle lock. Many of them should not have to."""
        self._notified += 1
        if self._notified > MOST_NOTIFIED and self._holds_idle_lock:
            self._kicked.set()

    async def run(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._holds_idle_lock = False
        self._look_at = self._move_at = 0.0
        while True:
            self._kicked.clear()
            now = time.monotonic()
            if now >= self._move_at:
                await self._move(conn)
            if now >= self._look_at:
                await self._look(conn)
            if self._holds_idle_lock and (self._worker.is_saturated or self._is_notified_too_often()):
                await conn.execute(NOT_IDLE, timeout=self._longest)
                self._holds_idle_lock = False
            rest = max(0.0, min(self._look_at, self._move_at) - time.monotonic())
            try:
                async with asyncio.timeout(rest):
                    await self._kicked.wait()
            except TimeoutError:
                pass

    def _is_notified_too_often(self) -> bool:
        """If so, it goes without the lock for a while, and looks for itself every few milliseconds."""
        now = time.monotonic()
        too_often = self._notified > MOST_NOTIFIED
        if too_often:
            self._no_lock_until = now + WITHOUT_LOCK
        if too_often or now >= self._counted_since + NOTIFIED_WITHIN:
            self._notified, self._counted_since = 0, now
        return too_often

    async def _look(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        idle = self._worker.is_idle
        if idle and not self._holds_idle_lock and time.monotonic() >= self._no_lock_until:
            self._holds_idle_lock = await conn.fetchval(TRY_IDLE, timeout=self._longest)
        started = time.monotonic()
        found = await conn.fetch(LANES, self._worker.types, *self._from, MOST_LANES, timeout=self._longest)
        for tenant, limit_key, priority, seq in found:
            self._worker.found(tenant, limit_key, priority, seq, started)
        whole_round = len(found) < MOST_LANES
        self._from = BEFORE_ALL if whole_round else tuple(found[-1])[:3]
        took = time.monotonic() - started
        self.has_looked = True
        if self._worker.has_lanes:
            self._worker.wake()
            self._patience = FIRST_PATIENCE
        self._look_at = time.monotonic() + self._until_next_look(took, idle=idle, found=self._worker.has_lanes)

    def _until_next_look(self, took: float, *, idle: bool, found: bool) -> float:
        poll = self._worker.options.poll
        if not idle or found:
            # Not much more often than a place becomes free, or a long job would mean many looks for nothing.
            return max(SHORTEST_REST, took * BUSY_SHARE, min(poll, self._worker.seconds_per_job / 4))
        if self._holds_idle_lock:
            return poll
        if time.monotonic() < self._no_lock_until:
            return FIRST_PATIENCE
        self._patience = min(self._patience * 1.5, poll)
        return self._patience

    async def _move(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        now = time.monotonic()
        if now - self._all_moved_at > 60:  # a job may have been put there late, before where we look
            self._moved_to, self._all_moved_at = LONG_AGO, now
        while True:
            moved = await conn.fetch(MOVE_DUE, self._moved_to, MOST_MOVED, timeout=self._longest)
            for tenant, limit_key, priority in moved:
                self._worker.found(tenant, limit_key, priority)
            if moved:
                self._worker.wake()
            else:
                break
        [(seconds, clock)] = await conn.fetch(NEXT_DUE, self._moved_to, timeout=self._longest)
        self._moved_to = clock - SLACK
        poll = self._worker.options.poll
        self._move_at = time.monotonic() + (poll if seconds is None else min(poll, max(0.001, seconds)))
