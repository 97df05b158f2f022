"""The heartbeat of a worker: it shows that the worker lives, renews its leases and runs the reaper, in a thread.

The thread has an event loop and a database session of its own, so a handler that blocks the worker's event loop does
not make the worker look dead. Results go to the worker's loop by `call_soon_threadsafe`. A job's lease is renewed only
until its timeout and a grace period are over: a loop that hangs for good does not keep its jobs forever.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from service_jobs.context import Lease
from service_jobs.database import CONNECTION_LOST, NOT_INSTALLED_ERRORS, EngineNotInstalled, Sessions
from service_jobs.telemetry import Metrics
from service_jobs.worker.executions import HeldJob, WorkerOptions
from service_jobs.worker.maintenance import Reaper

REGISTER_WORKER: Final[LiteralString] = """
    INSERT INTO jobs.job_worker (owner, lock_key, types, started_at, heartbeat_at)
    VALUES ($1, $2, $3, jobs.clock(), jobs.clock())
        ON CONFLICT (owner) DO UPDATE SET lock_key = $2, heartbeat_at = jobs.clock()
"""
UNREGISTER_WORKER: Final[LiteralString] = "DELETE FROM jobs.job_worker WHERE owner = $1"
UPDATE_HEARTBEAT: Final[LiteralString] = """
    UPDATE jobs.job_worker SET heartbeat_at = jobs.clock() WHERE owner = $1 RETURNING heartbeat_at
"""
# A locked row is being completed or cancelled at this moment: it is neither lost nor in need of renewal.
RENEW_LEASES: Final[LiteralString] = """
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

log = logging.getLogger(__name__)


class Heartbeat:
    """Beats until `stop`. The callbacks run on the event loop that created it."""

    def __init__(
        self,
        owner: str,
        types: list[str],
        sessions: Sessions,
        metrics: Metrics,
        options: WorkerOptions,
        *,
        describe_type: Callable[[str], tuple[bool, bool]],
        list_held: Callable[[], list[HeldJob]],
        exchanging_since: Callable[[], float | None],
        on_renewed: Callable[[Iterable[Lease], Iterable[UUID]], None],
        on_last_lost: Callable[[Lease], None],
    ) -> None:
        """The first three functions are called from the thread; see `Reaper`.

        `on_renewed` gets lost leases and jobs that were asked to stop, `on_last_lost` the lease of a dead worker's last
        execution whose handler has an `on_failure`.
        """
        self._owner = owner
        self._types = types
        self._sessions = sessions
        self._metrics = metrics
        self._options = options
        # A broken network may swallow everything without an error; waiting longer than this would cost the leases.
        self._query_timeout = max(1.0, min(10.0, options.lease / 4))
        self._list_held = list_held
        self._loop = asyncio.get_running_loop()
        self._on_renewed = partial(self._call_in_loop, on_renewed)
        self._reaper = Reaper(
            owner,
            metrics,
            describe_type=describe_type,
            list_held=list_held,
            exchanging_since=exchanging_since,
            report_lost=partial(self._call_in_loop, on_last_lost),
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._beat_until_stopped()), name="jobs heartbeat", daemon=True
        )
        self._renewed_at = time.monotonic()
        self._clock_before: tuple[float, float] | None = None
        self._registered = asyncio.Event()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._wake_event = asyncio.Event()
        self._must_renew = False
        self._refusal: EngineNotInstalled | None = None

    async def start(self, is_stopping: Callable[[], bool]) -> None:
        """Return when the worker is registered and holds its lock, or when `is_stopping`."""
        self._thread.start()
        while not self._registered.is_set() and not is_stopping():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._registered.wait()
        if self._refusal is not None:
            raise self._refusal

    def renew_now(self) -> None:
        """Renew without waiting for the next beat, because a job may have been cancelled."""
        self._must_renew = True
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has just ended
                self._own_loop.call_soon_threadsafe(self._wake_event.set)

    async def stop(self) -> None:
        self._stopping.set()
        self.renew_now()  # wakes the thread between two beats
        await asyncio.to_thread(self._thread.join, 10)

    async def _beat_until_stopped(self) -> None:
        pause = 0.1
        self._own_loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                await self._beat_while_connected()
                pause = 0.1
            except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
                if isinstance(error, NOT_INSTALLED_ERRORS) and not self._registered.is_set():
                    self._refusal = EngineNotInstalled(str(error))
                    self._call_in_loop(self._registered.set)
                    return
                log.warning("heartbeat lost its connection: %s", str(error) or type(error).__name__)
                self._give_up_expired_leases()
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _beat_while_connected(self) -> None:
        query_timeout = self._query_timeout
        async with asyncio.timeout(query_timeout):
            conn = await self._sessions.connect_worker("heartbeat", enable_seqscan="on")
        try:
            async with asyncio.timeout(query_timeout):
                await self._register_worker(conn)
            self._call_in_loop(self._registered.set)
            beats = 0
            while not self._stopping.is_set():
                async with asyncio.timeout(query_timeout):
                    await self._beat(conn, beats)
                beats += 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._options.heartbeat):
                        await self._wake_event.wait()
                self._wake_event.clear()
            async with asyncio.timeout(query_timeout):
                await conn.execute(UNREGISTER_WORKER, self._owner)
        finally:
            conn.terminate()

    async def _register_worker(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._reaper.reset()
        # Every session has a lock of its own: if the network swallowed the end of the last session, the server may
        # still keep its lock.
        key = int.from_bytes(os.urandom(8), "big", signed=True)  # noqa: TID251 (a library of its own)
        await conn.fetchval("SELECT pg_try_advisory_lock($1)", key)
        same = await conn.fetchval("SELECT pg_backend_pid()") == conn.get_server_pid()
        await conn.execute(REGISTER_WORKER, self._owner, key if same else None, self._types)

    async def _beat(self, conn: "asyncpg.Connection[asyncpg.Record]", beats: int) -> None:
        now = time.monotonic()
        at = await conn.fetchval(UPDATE_HEARTBEAT, self._owner)
        if at is None:  # another worker took us for dead and removed our row
            await self._register_worker(conn)
        elif (
            self._detect_clock_step(at.timestamp(), now)
            or self._must_renew
            or now - self._renewed_at >= self._options.renew
        ):
            self._must_renew = False
            await self._renew_leases(conn)
        await self._reaper.run(conn, now, beats)

    def _detect_clock_step(self, database: float, now: float) -> bool:
        previous, self._clock_before = self._clock_before, (database, now)
        return previous is not None and abs((database - previous[0]) - (now - previous[1])) > 1.0

    async def _renew_leases(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        now = time.monotonic()
        past = now - self._options.grace
        held_jobs = [job for job in self._list_held() if job.deadline is None or job.deadline >= past]
        if held_jobs:
            rows = await conn.fetch(
                RENEW_LEASES,
                [job.lease.tenant for job in held_jobs],
                [job.lease.job_id for job in held_jobs],
                [job.lease.attempt for job in held_jobs],
                self._owner,
                self._options.lease,
            )
            renewed_ids = {row["job_id"] for row in rows}
            self._metrics.count_renewed(len(renewed_ids))
            self._on_renewed(
                [job.lease for job in held_jobs if job.job_id not in renewed_ids],
                [row["job_id"] for row in rows if row["cancel_requested"]],
            )
        self._renewed_at = now

    def _give_up_expired_leases(self) -> None:
        """If nothing was renewed for a whole lease, other workers may have taken everything we hold."""
        if time.monotonic() - self._renewed_at > self._options.lease:
            self._on_renewed([job.lease for job in self._list_held()], [])

    def _call_in_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the worker's loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)
