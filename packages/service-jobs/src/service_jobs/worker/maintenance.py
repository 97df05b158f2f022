"""Maintenance: what some worker must do for all jobs.

The chores (schedules, batches, retention and queue figures) are run by every worker on a session of its own; so each
must be short, bounded, and safe to run concurrently. The reaper, which runs in the heartbeat, takes the leases of dead
workers away, so that their jobs run again.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

import asyncpg

from service_jobs import schedules
from service_jobs.batches import BatchFinisher
from service_jobs.context import Connection, Lease
from service_jobs.job import Ending, JobError, LeaseLost, Status
from service_jobs.queries import count_by_type
from service_jobs.telemetry import Metrics
from service_jobs.worker.executions import HeldJob

CHORE_TIMEOUT_SECONDS: Final = 60.0
T = TypeVar("T", bound=Hashable)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """`run` is called about every `every` seconds, with a session that sees the jobs of all tenants."""

    name: str
    every: float
    run: Callable[[Connection], Awaitable[object]]


async def run_chores(chores: Sequence[Chore], conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Run each chore when it is due, until the session is lost."""
    due = {chore.name: 0.0 for chore in chores}
    while True:
        for chore in chores:
            if time.monotonic() >= due[chore.name]:
                await _run_chore(chore, conn)
                due[chore.name] = time.monotonic() + chore.every
        await asyncio.sleep(max(0.01, min(due.values(), default=1.0) - time.monotonic()))


async def _run_chore(chore: Chore, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    try:
        async with asyncio.timeout(CHORE_TIMEOUT_SECONDS):
            await chore.run(conn)
    except Exception:
        if conn.is_closed():
            raise
        log.exception("chore %s failed", chore.name)


# Retention: remove jobs that have been over for their retention time ------------------------------------------------

PIECE_PAGES: Final = 256  # pages of the table that are cleaned together
PIECES_PER_RUN: Final = 32
BATCHES_PER_RUN: Final = 200
MAX_REMOVED_PER_RUN: Final = 1_000
LOOK_AGAIN_SOON: Final = timedelta(seconds=60)
LOOK_AGAIN_LATEST: Final = timedelta(minutes=10)
LOWEST_BATCH: Final = (UUID(int=0), UUID(int=0))

SELECT_TABLE_SIZE: Final[LiteralString] = """
    SELECT pg_relation_size('jobs.job') / current_setting('block_size')::int AS pages, jobs.clock() AS now
"""
# When the first of these jobs expires. An unfinished job has at least its full retention time ahead.
SELECT_EARLIEST_EXPIRY: Final[LiteralString] = """
    SELECT min(coalesce(finished_at, $3) + make_interval(secs => keep_seconds)) FROM jobs.job
     WHERE ctid >= $1 AND ctid < $2
"""
DELETE_EXPIRED_JOBS: Final[LiteralString] = """
    WITH past AS (
      SELECT j.tenant_id, j.job_id FROM jobs.job j
       WHERE j.ctid >= $1 AND j.ctid < $2 AND j.status <> 'QUEUED'
         AND j.finished_at + make_interval(secs => j.keep_seconds) <= $3
         AND NOT EXISTS (SELECT FROM jobs.batch b WHERE b.tenant_id = j.tenant_id AND b.batch_id = j.batch_id)
         AND NOT (j.awaited AND EXISTS (
               SELECT FROM jobs.job_dependency d
                 JOIN jobs.job w ON w.tenant_id = d.tenant_id AND w.job_id = d.job_id
                WHERE d.tenant_id = j.tenant_id AND d.needs_id = j.job_id AND w.status = 'QUEUED'))
       LIMIT $4
         FOR UPDATE OF j SKIP LOCKED
    ), gone AS (
      DELETE FROM jobs.job j USING past p WHERE j.tenant_id = p.tenant_id AND j.job_id = p.job_id
      RETURNING j.tenant_id, j.job_id, j.status, j.awaited
    ), needs AS (
      -- What another worker has locked, it removes itself.
      SELECT d.tenant_id, d.job_id, d.needs_id FROM gone g
        JOIN jobs.job_dependency d ON d.tenant_id = g.tenant_id AND d.job_id = g.job_id
         FOR UPDATE OF d SKIP LOCKED
    ), needed AS (
      SELECT d.tenant_id, d.job_id, d.needs_id FROM gone g
        JOIN jobs.job_dependency d ON d.tenant_id = g.tenant_id AND d.needs_id = g.job_id
       WHERE g.awaited AND d.met
         FOR UPDATE OF d SKIP LOCKED
    ), untied AS (
      DELETE FROM jobs.job_dependency d USING (SELECT * FROM needs UNION SELECT * FROM needed) AS n
       WHERE d.tenant_id = n.tenant_id AND d.job_id = n.job_id AND d.needs_id = n.needs_id
    )
    SELECT status, count(*) AS jobs FROM gone GROUP BY status
"""
# Jobs of one batch are submitted together and kept equally long, so any of them will do.
SELECT_NEXT_BATCHES: Final[LiteralString] = """
    SELECT b.tenant_id, b.batch_id,
           b.finished_at + make_interval(secs => coalesce(
             (SELECT j.keep_seconds FROM jobs.job j
               WHERE j.tenant_id = b.tenant_id AND j.batch_id = b.batch_id LIMIT 1), 1209600)) <= $3 AS past
      FROM jobs.batch b
     WHERE (b.tenant_id, b.batch_id) > ($1, $2)
     ORDER BY b.tenant_id, b.batch_id
     LIMIT $4
"""
DELETE_BATCHES: Final[LiteralString] = """
    DELETE FROM jobs.batch WHERE (tenant_id, batch_id) IN (
      SELECT b.tenant_id, b.batch_id FROM unnest($1::uuid[], $2::uuid[]) AS p (tenant_id, batch_id)
        JOIN jobs.batch b ON b.tenant_id = p.tenant_id AND b.batch_id = p.batch_id
         FOR UPDATE OF b SKIP LOCKED)
"""
DELETE_SILENT_WORKERS: Final[LiteralString] = """
    DELETE FROM jobs.job_worker WHERE owner IN (
      SELECT w.owner FROM jobs.job_worker w
       WHERE w.heartbeat_at < $1::timestamptz - interval '1 day'
         AND NOT EXISTS (SELECT FROM jobs.job_lease l WHERE l.owner = w.owner)
       LIMIT 100
         FOR UPDATE SKIP LOCKED)
"""


class RetentionCleaner:
    """Removes expired jobs and batches, a bounded amount in each run."""

    def __init__(self, pieces_at_once: int = PIECES_PER_RUN) -> None:
        self._pieces_at_once = pieces_at_once
        self._look_at: dict[int, datetime] = {}  # by the first page of a piece
        self._next_page = 0
        self._next_batch = LOWEST_BATCH

    async def run(self, conn: Connection, limit: int = MAX_REMOVED_PER_RUN) -> dict[str, int]:
        """Remove at most `limit` jobs of all tenants; returns how many of each status."""
        size = await conn.fetchrow(SELECT_TABLE_SIZE)
        pages, now = size["pages"], size["now"]  # type: ignore[index]  # a query without FROM returns a row
        await conn.execute(DELETE_SILENT_WORKERS, now)
        await self._remove_batches(conn, now)
        removed: Counter[str] = Counter()
        for piece in self._select_pieces(pages, now):
            removed.update(await self._clean_piece(conn, piece, now, limit - removed.total()))
            if removed.total() >= limit:
                break
            self._next_page = piece + PIECE_PAGES
        return dict(removed)

    def _select_pieces(self, pages: int, now: datetime) -> list[int]:
        """The next pieces that may have expired jobs, from where the last run ended, round and round."""
        pieces = list(range(0, pages, PIECE_PAGES))
        start = self._next_page // PIECE_PAGES if self._next_page < pages else 0
        in_turn = pieces[start:] + pieces[:start]
        return [piece for piece in in_turn if self._look_at.get(piece, now) <= now][: self._pieces_at_once]

    async def _clean_piece(self, conn: Connection, piece: int, now: datetime, limit: int) -> dict[str, int]:
        bounds = (piece, 0), (piece + PIECE_PAGES, 0)
        earliest = await conn.fetchval(SELECT_EARLIEST_EXPIRY, *bounds, now)
        if earliest is None or earliest > now:
            self._look_at[piece] = min(earliest or now + LOOK_AGAIN_LATEST, now + LOOK_AGAIN_LATEST)
            return {}
        removed = {row["status"]: row["jobs"] for row in await conn.fetch(DELETE_EXPIRED_JOBS, *bounds, now, limit)}
        if sum(removed.values()) < limit:  # what is left is needed by other jobs, or locked
            self._look_at[piece] = now + LOOK_AGAIN_SOON
        return removed

    async def _remove_batches(self, conn: Connection, now: datetime) -> None:
        rows = await conn.fetch(SELECT_NEXT_BATCHES, *self._next_batch, now, BATCHES_PER_RUN)
        at_end = len(rows) < BATCHES_PER_RUN
        self._next_batch = LOWEST_BATCH if at_end else (rows[-1]["tenant_id"], rows[-1]["batch_id"])
        expired = [row for row in rows if row["past"]]
        if expired:
            await conn.execute(
                DELETE_BATCHES, [row["tenant_id"] for row in expired], [row["batch_id"] for row in expired]
            )


# The chores of every worker -----------------------------------------------------------------------------------------

MAX_CLEAN_ROUNDS: Final = 5  # of a thousand jobs each, so that the chore stays short


def build_chores(metrics: Metrics) -> tuple[Chore, ...]:
    """The chores of a worker."""
    cleaner = RetentionCleaner()

    async def clean_jobs(conn: Connection) -> None:
        for _ in range(MAX_CLEAN_ROUNDS):
            removed = await cleaner.run(conn)
            metrics.count_cleaned(removed)
            if not removed:
                break

    async def observe_queue(conn: Connection) -> None:
        counts_by_type = await count_by_type(conn)
        metrics.observe_depth({name: counts.queued + counts.later for name, counts in counts_by_type.items()})
        metrics.observe_dead_letters({name: counts.dead_letter for name, counts in counts_by_type.items()})

    return (
        Chore("schedules", 0.5, schedules.submit_due_jobs),
        Chore("batches", 1.0, BatchFinisher().run),
        Chore("retention", 2.0, clean_jobs),
        Chore("figures", 15.0, observe_queue),
    )


# The reaper: decides which other workers are dead -------------------------------------------------------------------
#
# It looks twice on its own steady clock and never compares ages with the database's clock: that may be stepped, and it
# goes on while the server restarts and no worker can send a heartbeat.
#
# - A worker is dead if its session lock is free and its heartbeat has not changed for 3 s.
# - A worker without a lock (behind a transaction pooler) is dead if its heartbeat has not changed for 15 s.
# - An expired lease is lost if it has not been renewed at the second look. A worker that was only late, or whose
#   database was, has renewed it by then.

DEAD_AFTER_SECONDS: Final = 3.0
DEAD_WITHOUT_LOCK_SECONDS: Final = 15.0
SECOND_LOOK_SECONDS: Final = 1.5
BUSY_SHARE: Final = 20  # between two looks at the leases, it waits this many times as long as one took
ORPHAN_BEATS: Final = 5  # orphaned leases are looked for at every fifth beat

SELECT_OTHER_WORKERS: Final[LiteralString] = """
    SELECT owner, lock_key, heartbeat_at FROM jobs.job_worker WHERE owner <> $1
"""
# Not while it has a lease: its last transaction may still hold the row, and then the next beat tries again.
UNREGISTER_DEAD: Final[LiteralString] = """
    DELETE FROM jobs.job_worker WHERE owner = $1 AND NOT EXISTS (SELECT FROM jobs.job_lease WHERE owner = $1)
"""
SELECT_LEASES_OF: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt, NULL::timestamptz AS lease_until FROM jobs.job_lease
     WHERE owner = ANY ($1::text[])
"""
SELECT_EXPIRED_LEASES: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt, lease_until FROM jobs.job_lease WHERE lease_until < jobs.clock()
"""
SELECT_ORPHANED_LEASES: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt FROM jobs.job_lease
     WHERE owner = $1 AND started_at < jobs.clock() - interval '5 seconds'
"""
REAP_LEASE: Final[LiteralString] = "SELECT jobs.reap($1, $2, $3, $4, $5, $6, $7)"
RELEASE_LEASE: Final[LiteralString] = f"SELECT jobs.settle($1, $2, $3, $4, '{Ending.RELEASE}', NULL, NULL, 0)"
LEASE_LOST_JSON: Final = JobError.from_exception(LeaseLost()).to_json()
# A trigger of the service may not get at one of its own rows. Nothing was changed then, and the next beat tries again.
ROW_LOCKED: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class UnchangedTracker(Generic[T]):
    """How long each of a set of things has been seen without a change."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: dict[T, float] = {}

    def observe(self, items: Iterable[T], now: float) -> dict[T, float]:
        """Seconds since each of `items` was first seen; anything not among them is forgotten."""
        self._since = {item: self._since.get(item, now) for item in items}
        return {item: now - since for item, since in self._since.items()}

    def reset(self) -> None:
        """Start over, because our own view was interrupted."""
        self._since.clear()


class Reaper:
    """Takes leases away from dead workers, and releases our own that we know nothing of. Runs in the heartbeat."""

    def __init__(
        self,
        owner: str,
        metrics: Metrics,
        *,
        describe_type: Callable[[str], tuple[bool, bool]],
        list_held: Callable[[], list[HeldJob]],
        exchanging_since: Callable[[], float | None],
        report_lost: Callable[[Lease], None],
    ) -> None:
        """`describe_type` says whether we know a job type, and whether its handler has an `on_failure`.

        `report_lost` gets the leases of last executions whose handler has one.
        """
        self._owner = owner
        self._metrics = metrics
        self._describe_type = describe_type
        self._list_held = list_held
        self._exchanging_since = exchanging_since
        self._report_lost = report_lost
        self._seen_workers: UnchangedTracker[tuple[str, int | None, Any]] = UnchangedTracker()
        self._seen_leases: UnchangedTracker[tuple[UUID, UUID, str, str, int, Any]] = UnchangedTracker()
        self._reported_dead: set[str] = set()
        self._locked_jobs: set[UUID] = set()
        self._next_lease_check = 0.0

    def reset(self) -> None:
        """Our session is new: what we saw before proves nothing."""
        self._seen_workers.reset()
        self._seen_leases.reset()

    async def run(self, conn: Connection, now: float, beats: int) -> None:
        """Look once."""
        await self._reap_dead_workers(conn, now)
        if now >= self._next_lease_check:
            await self._reap_expired_leases(conn, now)
            if beats % ORPHAN_BEATS == 0:
                await self._release_orphans(conn)
            # Both scan all leases, and the dead rows of ended ones while a vacuum is held up.
            self._next_lease_check = time.monotonic() + BUSY_SHARE * (time.monotonic() - now)

    async def _reap_dead_workers(self, conn: Connection, now: float) -> None:
        workers = [
            (row["owner"], row["lock_key"], row["heartbeat_at"])
            for row in await conn.fetch(SELECT_OTHER_WORKERS, self._owner)
        ]
        for (owner, lock_key, _), seconds in self._seen_workers.observe(workers, now).items():
            if lock_key is None:
                is_dead = seconds >= DEAD_WITHOUT_LOCK_SECONDS
            else:
                is_dead = seconds >= DEAD_AFTER_SECONDS and await conn.fetchval(
                    "SELECT pg_try_advisory_xact_lock($1)", lock_key
                )
            if is_dead:
                await self._reap_worker(conn, owner)

    async def _reap_worker(self, conn: Connection, owner: str) -> None:
        leases = await conn.fetch(SELECT_LEASES_OF, [owner])
        if owner not in self._reported_dead:
            self._reported_dead.add(owner)
            log.warning("worker %s is dead; its %d jobs run again", owner, len(leases))
        await self._reap_leases(conn, leases)
        await conn.execute(UNREGISTER_DEAD, owner)

    async def _reap_expired_leases(self, conn: Connection, now: float) -> None:
        rows = await conn.fetch(SELECT_EXPIRED_LEASES)
        by_key = {tuple(row.values()): row for row in rows}
        unchanged_seconds = self._seen_leases.observe(by_key, now)
        lost = [by_key[key] for key, seconds in unchanged_seconds.items() if seconds >= SECOND_LOOK_SECONDS]
        await self._reap_leases(conn, lost)

    async def _reap_leases(self, conn: Connection, leases: Sequence[asyncpg.Record]) -> None:
        """Take leases away, except locked ones and the last execution of a job whose type we do not know."""

        async def reap(row: asyncpg.Record) -> None:
            known, has_hook = self._describe_type(row["type"])
            became = await conn.fetchval(
                REAP_LEASE, *_get_lease_key(row), row["lease_until"], known and not has_hook, LEASE_LOST_JSON
            )
            if became == "BURY" and known:
                self._report_lost(Lease(row["tenant_id"], row["job_id"], row["type"], row["owner"], row["attempt"]))
            elif became == Status.QUEUED:
                self._metrics.count_retried(row["type"])
            elif became in {Status.DEAD_LETTER, Status.CANCELLED}:
                self._metrics.count_finished(row["type"], became, 1)

        await self._end_until_locked(leases, reap)

    async def _release_orphans(self, conn: Connection) -> None:
        """Release leases of ours that we do not hold: a claim was committed, and its answer never arrived."""
        since = self._exchanging_since()
        if since is not None and time.monotonic() - since > 4:
            return  # the answer may have arrived without having been read yet
        held_ids = {job.job_id for job in self._list_held()}
        leases = await conn.fetch(SELECT_ORPHANED_LEASES, self._owner)
        orphans = [row for row in leases if row["job_id"] not in held_ids]
        await self._end_until_locked(orphans, lambda row: conn.fetchval(RELEASE_LEASE, *_get_lease_key(row)))

    async def _end_until_locked(
        self, leases: Sequence[asyncpg.Record], end: Callable[[asyncpg.Record], Awaitable[object]]
    ) -> None:
        """End each lease, up to the first that is locked: a beat has no time to wait for several locks.

        Of the leases that were locked at the last beat, each beat tries one, after all others.
        """
        for row in sorted(leases, key=lambda row: row["job_id"] in self._locked_jobs):
            job_id = row["job_id"]
            try:
                await end(row)
            except ROW_LOCKED as error:
                if job_id not in self._locked_jobs:
                    self._locked_jobs.add(job_id)
                    log.warning("job %s cannot be ended yet: %s", job_id, error)
                return
            self._locked_jobs.discard(job_id)


def _get_lease_key(row: asyncpg.Record) -> tuple[UUID, UUID, str, int]:
    return row["tenant_id"], row["job_id"], row["owner"], row["attempt"]
