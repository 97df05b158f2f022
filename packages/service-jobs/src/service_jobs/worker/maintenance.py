"""Maintenance: what some worker must do for all jobs.

The chores (schedules, batches, retention and queue figures) are run by every worker on a session of its own; so each
must be short, bounded, and safe to run concurrently. The reaper, which runs in the heartbeat, takes the leases of dead
workers away, so that their jobs run again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
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
from service_jobs.worker.retention import RetentionCleaner

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


# The chores of every worker -----------------------------------------------------------------------------------------

MAX_CLEAN_ROUNDS: Final = 5  # of a thousand jobs each, so that the chore stays short


def build_chores(
    metrics: Metrics, *, dead_letter_ttl: timedelta | None = None, ttl_by_type: Mapping[str, timedelta] | None = None
) -> tuple[Chore, ...]:
    """The chores of a worker; the times to keep jobs are those of `RetentionCleaner`."""
    cleaner = RetentionCleaner(dead_letter_ttl=dead_letter_ttl, ttl_by_type=ttl_by_type)

    async def clean_jobs(conn: Connection) -> None:
        for _ in range(MAX_CLEAN_ROUNDS):
            removed_counts = await cleaner.run(conn)
            metrics.count_cleaned(removed_counts)
            if not removed_counts:
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
        lost_leases = [by_key[key] for key, seconds in unchanged_seconds.items() if seconds >= SECOND_LOOK_SECONDS]
        await self._reap_leases(conn, lost_leases)

    async def _reap_leases(self, conn: Connection, leases: Sequence[asyncpg.Record]) -> None:
        """Take leases away, except locked ones and the last execution of a job whose type we do not know."""

        async def reap(row: asyncpg.Record) -> None:
            is_known, has_hook = self._describe_type(row["type"])
            became = await conn.fetchval(
                REAP_LEASE, *_get_lease_key(row), row["lease_until"], is_known and not has_hook, LEASE_LOST_JSON
            )
            if became == "BURY" and is_known:
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
