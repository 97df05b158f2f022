"""The pulse of a worker: heartbeat, renewal of leases, and the search for the dead, in a thread of its own.

A handler that keeps the event loop busy does not stop it, so a live job is not taken for dead. What it finds out is
handed to the worker's own loop: leases that are lost, and jobs that were asked to stop. A job is renewed no longer than
its timeout and the grace after it: a loop that hangs for good does not keep its jobs forever.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.jobs.context import Held
from bpc.jobs.errors import JobError, JobsRefusal, LeaseLost
from bpc.jobs.outcome import Ending, Status
from bpc.jobs.worker.deaths import DEAD_AFTER, DEAD_AFTER_WITHOUT_LOCK, SECOND_LOOK, Unchanged

if TYPE_CHECKING:
    from bpc.jobs.worker import Worker

REGISTER: Final[LiteralString] = """
    INSERT INTO jobs.job_worker (owner, lock_key, types, started_at, heartbeat_at)
    VALUES ($1, $2, $3, jobs.clock(), jobs.clock())
        ON CONFLICT (owner) DO UPDATE SET lock_key = $2, heartbeat_at = jobs.clock()
"""
UNREGISTER: Final[LiteralString] = "DELETE FROM jobs.job_worker WHERE owner = $1"
# Not while it has a lease: a transaction of its last moments may still hold it, and we come back for it.
UNREGISTER_DEAD: Final[LiteralString] = """
    DELETE FROM jobs.job_worker WHERE owner = $1 AND NOT EXISTS (SELECT FROM jobs.job_lease WHERE owner = $1)
"""
BEAT: Final[LiteralString] = """
    UPDATE jobs.job_worker SET heartbeat_at = jobs.clock() WHERE owner = $1 RETURNING heartbeat_at
"""
OTHERS: Final[LiteralString] = """
    SELECT owner, lock_key, heartbeat_at FROM jobs.job_worker WHERE owner <> $1
"""
# A row that is locked is being completed or cancelled this moment: it is neither lost nor in need of renewal.
RENEW: Final[LiteralString] = """
    WITH mine AS MATERIALIZED (
      SELECT l.tenant_id, l.job_id, l.cancel_requested
        FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS f (tenant_id, job_id, attempt)
        JOIN jobs.job_lease l
          ON l.tenant_id = ANY (ARRAY[f.tenant_id]) AND l.job_id = f.job_id
         AND l.attempt = f.attempt AND l.owner = $4
    ), free AS MATERIALIZED (
      SELECT l.tenant_id, l.job_id FROM mine m
        JOIN jobs.job_lease l
          ON l.tenant_id = ANY (ARRAY[m.tenant_id]) AND l.job_id = m.job_id AND l.owner = $4
         FOR UPDATE OF l SKIP LOCKED
    ), renewed AS (
      UPDATE jobs.job_lease l SET lease_until = jobs.clock() + make_interval(secs => $5)
        FROM free WHERE l.tenant_id = ANY (ARRAY[free.tenant_id]) AND l.job_id = free.job_id
    )
    SELECT job_id, cancel_requested FROM mine
"""
OWNED_BY: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt, NULL::timestamptz AS lease_until FROM jobs.job_lease
     WHERE owner = ANY ($1::text[])
"""
RUN_OUT: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt, lease_until FROM jobs.job_lease WHERE lease_until < jobs.clock()
"""
ORPHANS: Final[LiteralString] = """
    SELECT tenant_id, job_id, type, owner, attempt FROM jobs.job_lease
     WHERE owner = $1 AND started_at < jobs.clock() - interval '5 seconds'
"""
REAP: Final[LiteralString] = "SELECT jobs.reap($1, $2, $3, $4, $5, $6, $7)"
BUSY_SHARE: Final = 20  # it rests this many times as long as a look took
# A trigger of whoever uses the engine may not get at a row of theirs; nothing was changed, and we come back for it.
HELD_UP: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
RELEASE: Final[LiteralString] = f"SELECT jobs.settle($1, $2, $3, $4, '{Ending.RELEASE}', NULL, NULL, 0)"
LOST: Final = JobError.of(LeaseLost()).text()
# A session that is cut while it idles makes the driver lose track of its own state, which it calls an internal error.
LOST_CONNECTION: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

log = logging.getLogger(__name__)


NOT_INSTALLED: Final = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
)


class NotInstalled(JobsRefusal):
    """What will not pass by waiting: this is not a database the engine can work with."""

    code = "SCHEMA_MISMATCH"

    def __init__(self, said: str) -> None:
        super().__init__(
            f"the job engine cannot work with this database: {said}",
            fix="make its tables (`bpc migrate`, or `bpc.jobs.install`), and check the login and its rights",
        )


class Pulse:
    """Runs until `stop`; the worker's loop hears from it by callbacks."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._options = worker.options
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs pulse", daemon=True)
        self._workers: Unchanged[tuple[str, int | None, Any]] = Unchanged()
        self._leases: Unchanged[tuple[UUID, UUID, str, str, int, Any]] = Unchanged()
        self._renewed_at = time.monotonic()
        self._clock_before: tuple[float, float] | None = None
        self._registered = asyncio.Event()
        self._buried: set[str] = set()
        self._held_up: set[UUID] = set()
        self._look_again_at = 0.0
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._kicked = asyncio.Event()
        self._is_kicked = False
        self._refusal: JobsRefusal | None = None

    async def start(self, given_up: Callable[[], bool]) -> None:
        """Return when the worker is registered and holds its lock, or when somebody does not want that any more."""
        self._thread.start()
        while not self._registered.is_set() and not given_up():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._registered.wait()
        if self._refusal is not None:
            raise self._refusal

    def kick(self) -> None:
        """Somebody says that a job was cancelled: look now."""
        self._is_kicked = True
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._own_loop.call_soon_threadsafe(self._kicked.set)

    async def stop(self) -> None:
        self._stopping.set()
        self.kick()  # out of its rest between two beats
        await asyncio.to_thread(self._thread.join, 10)

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        pause = 0.1
        self._own_loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                await self._beat_while_connected()
                pause = 0.1
            except LOST_CONNECTION as lost:
                if isinstance(lost, NOT_INSTALLED) and not self._registered.is_set():
                    self._refusal = NotInstalled(str(lost))
                    self._call(self._registered.set)
                    return
                log.warning("pulse lost its connection: %s", str(lost) or type(lost).__name__)
                self._give_up_what_ran_out()
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _beat_while_connected(self) -> None:
        async with asyncio.timeout(self._patience):
            conn = await self._worker.jobs.sessions.worker("pulse", enable_seqscan="on")
        try:
            async with asyncio.timeout(self._patience):
                await self._register(conn)
            self._call(self._registered.set)
            beats = 0
            while not self._stopping.is_set():
                async with asyncio.timeout(self._patience):
                    await self._beat(conn, beats)
                beats += 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._options.heartbeat):
                        await self._kicked.wait()
                self._kicked.clear()
            async with asyncio.timeout(self._patience):
                await conn.execute(UNREGISTER, self._worker.owner)
        finally:
            conn.terminate()

    @property
    def _patience(self) -> float:
        # A black hole swallows everything without an error; waiting longer than this would cost the leases.
        return max(1.0, min(10.0, self._options.lease / 4))

    async def _register(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._workers.forget()
        self._leases.forget()
        # Every session has a lock of its own: the last one may still be there, as far as the server knows, if the
        # network swallowed its end.
        key = int.from_bytes(os.urandom(8), "big", signed=True)  # noqa: TID251 (a library of its own)
        await conn.fetchval("SELECT pg_try_advisory_lock($1)", key)
        same = await conn.fetchval("SELECT pg_backend_pid()") == conn.get_server_pid()
        await conn.execute(REGISTER, self._worker.owner, key if same else None, self._worker.types)

    async def _beat(self, conn: "asyncpg.Connection[asyncpg.Record]", beats: int) -> None:
        now = time.monotonic()
        at = await conn.fetchval(BEAT, self._worker.owner)
        if at is None:  # somebody took us for dead and tidied up
            await self._register(conn)
        elif (
            self._clock_was_stepped(at.timestamp(), now)
            or self._is_kicked
            or now - self._renewed_at >= self._options.renew
        ):
            self._is_kicked = False
            await self._renew(conn)
        await self._look_for_the_dead(conn, now)
        if now >= self._look_again_at:
            await self._look_at_leases(conn, now)
            if beats % 5 == 0:
                await self._release_orphans(conn)
            # Both walk through all leases, and through the remains of ended ones while a vacuum is held up.
            self._look_again_at = time.monotonic() + BUSY_SHARE * (time.monotonic() - now)

    def _clock_was_stepped(self, database: float, now: float) -> bool:
        before, self._clock_before = self._clock_before, (database, now)
        return before is not None and abs((database - before[0]) - (now - before[1])) > 1.0

    async def _renew(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        now = time.monotonic()
        held = [job for job in self._worker.held_now() if not _is_past(job.deadline, now - self._options.grace)]
        if held:
            found = await conn.fetch(
                RENEW,
                [job.held.tenant for job in held],
                [job.held.job_id for job in held],
                [job.held.attempt for job in held],
                self._worker.owner,
                self._options.lease,
            )
            there = {row["job_id"]: row["cancel_requested"] for row in found}
            self._worker.jobs.metrics.renewed(len(there))
            self._call(self._worker.heard, [job.held for job in held if job.job_id not in there], _asked(there))
        self._renewed_at = now

    def _give_up_what_ran_out(self) -> None:
        """Not renewed for a whole lease: whatever we hold, somebody else may have."""
        if time.monotonic() - self._renewed_at > self._options.lease:
            self._call(self._worker.heard, [job.held for job in self._worker.held_now()], [])

    async def _look_for_the_dead(self, conn: "asyncpg.Connection[asyncpg.Record]", now: float) -> None:
        seen = [
            (row["owner"], row["lock_key"], row["heartbeat_at"]) for row in await conn.fetch(OTHERS, self._worker.owner)
        ]
        for (owner, lock_key, _), seconds in self._workers.look(seen, now).items():
            if lock_key is None:
                if seconds >= DEAD_AFTER_WITHOUT_LOCK:
                    await self._bury(conn, owner)
            elif seconds >= DEAD_AFTER and await conn.fetchval("SELECT pg_try_advisory_xact_lock($1)", lock_key):
                await self._bury(conn, owner)

    async def _bury(self, conn: "asyncpg.Connection[asyncpg.Record]", owner: str) -> None:
        leases = await conn.fetch(OWNED_BY, [owner])
        if owner not in self._buried:
            self._buried.add(owner)
            log.warning("worker %s is dead; its %d jobs run again", owner, len(leases))
        await self._reap(conn, leases)
        await conn.execute(UNREGISTER_DEAD, owner)

    async def _look_at_leases(self, conn: "asyncpg.Connection[asyncpg.Record]", now: float) -> None:
        seen = await conn.fetch(RUN_OUT)
        by_key = {tuple(row.values()): row for row in seen}
        waited = self._leases.look(by_key, now)
        await self._reap(conn, [by_key[key] for key, seconds in waited.items() if seconds >= SECOND_LOOK])

    async def _reap(self, conn: "asyncpg.Connection[asyncpg.Record]", leases: Sequence[asyncpg.Record]) -> None:
        """Take leases away, but for the last execution of a job whose type we do not know, and what is locked."""
        for row in self._held_up_last(leases):
            known, hook = self._worker.knows(row["type"])
            held = Held(row["tenant_id"], row["job_id"], row["type"], row["owner"], row["attempt"])
            try:
                became = await conn.fetchval(REAP, *_key(held), row["lease_until"], known and not hook, LOST)
            except HELD_UP as in_use:
                self._is_held_up(held.job_id, in_use)
                return
            self._held_up.discard(held.job_id)
            if became == "BURY" and known:
                self._call(self._worker.end_as_lost, held)
            elif became == Status.QUEUED:
                self._worker.jobs.metrics.retried(held.type)
            elif became in {Status.DEAD_LETTER, Status.CANCELLED}:
                self._worker.jobs.metrics.finished(held.type, became, 1)

    async def _release_orphans(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Leases of ours that we know nothing of: a claim was committed, and its answer never came."""
        since = self._worker.exchanging_since
        if since is not None and time.monotonic() - since > 4:
            return  # its answer may be here, and nobody has had the time to read it
        held = {job.job_id for job in self._worker.held_now()}
        orphans = [row for row in await conn.fetch(ORPHANS, self._worker.owner) if row["job_id"] not in held]
        for row in self._held_up_last(orphans):
            try:
                await conn.fetchval(RELEASE, row["tenant_id"], row["job_id"], row["owner"], row["attempt"])
            except HELD_UP as in_use:
                self._is_held_up(row["job_id"], in_use)
                return
            self._held_up.discard(row["job_id"])

    def _held_up_last(self, leases: Iterable[asyncpg.Record]) -> list[asyncpg.Record]:
        """Of those that could not be ended at the last beat, one is tried at each, after all others."""
        return sorted(leases, key=lambda row: row["job_id"] in self._held_up)

    def _is_held_up(self, job_id: UUID, why: Exception) -> None:
        """A beat has no time to wait for several: the rest has its turn at the next, before this one."""
        if job_id not in self._held_up:
            self._held_up.add(job_id)
            log.warning("job %s cannot be ended yet: %s", job_id, why)

    def _call(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the worker's loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)


def _key(held: Held) -> tuple[UUID, UUID, str, int]:
    return held.tenant, held.job_id, held.owner, held.attempt


def _asked(there: Mapping[UUID, bool]) -> Iterable[UUID]:
    return [job_id for job_id, cancel in there.items() if cancel]


def _is_past(deadline: float | None, now: float) -> bool:
    return deadline is not None and deadline < now
