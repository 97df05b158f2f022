"""The yardstick: the least that can be called a job queue, and as fast as we know how.

One table; a lease with owner and attempt, by which every completion is fenced; a unique idempotency key; batches of a
hundred, the last one completed and the next one claimed in one statement; expired leases given back. No tenants, no
retries, no limits, no history, no security. Whatever a real engine does besides, it pays for against this.
"""

import asyncio
from typing import Final

import asyncpg

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

CHANNEL: Final = "job_ready"
QUIET_SECONDS: Final = 0.002
POLL_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 10.0

TABLE: Final = """
    CREATE TABLE job (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        idempotency_key text NOT NULL UNIQUE,
        priority smallint NOT NULL DEFAULT 0,
        payload jsonb NOT NULL,
        status text NOT NULL DEFAULT 'ready',
        attempt integer NOT NULL DEFAULT 0,
        owner uuid,
        lease_until timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz
    ) WITH (fillfactor = 60);
    CREATE INDEX job_ready ON job (priority, id) WHERE status = 'ready'
"""
SUBMIT: Final = """
    INSERT INTO job (idempotency_key, payload) VALUES ($1, $2) ON CONFLICT (idempotency_key) DO NOTHING
"""
SUBMIT_MANY: Final = """
    INSERT INTO job (idempotency_key, payload)
    SELECT key, payload FROM unnest($1::text[], $2::jsonb[]) AS _ (key, payload)
        ON CONFLICT (idempotency_key) DO NOTHING
"""
NOTIFY: Final = f"NOTIFY {CHANNEL}"
# $1 owner, $2 the ids and $3 the attempts to complete, $4 how many to claim.
STEP: Final = """
    WITH completed AS (
        UPDATE job
           SET status = 'done', finished_at = now()
          FROM unnest($2::bigint[], $3::integer[]) AS mine (id, attempt)
         WHERE job.id = mine.id AND job.attempt = mine.attempt AND job.owner = $1 AND job.status = 'running'
     RETURNING job.id
    ), next AS (
        SELECT id FROM job WHERE status = 'ready' ORDER BY priority, id LIMIT $4 FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE job
           SET status = 'running', attempt = attempt + 1, owner = $1, lease_until = now() + interval '60 s'
          FROM next
         WHERE job.id = next.id
     RETURNING job.id, job.attempt, job.payload
    )
    SELECT id, attempt, payload FROM claimed
     UNION ALL
    SELECT NULL, count(*)::integer, NULL FROM completed
"""
GIVE_BACK: Final = """
    UPDATE job SET status = 'ready', owner = NULL WHERE status = 'running' AND lease_until < now()
"""


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM job WHERE status <> 'done')"

    def __init__(self, place: QueueDatabase) -> None:
        self._place = place

    async def install(self) -> None:
        conn = await asyncpg.connect(self._place.url)
        await conn.execute(TABLE)
        await conn.close()

    async def connect(self) -> None:
        self._pool = await asyncpg.create_pool(self._place.url, min_size=COROUTINES, max_size=COROUTINES)
        self._bell = Notifier(await asyncpg.connect(self._place.url))

    async def submit(self, job: int) -> None:
        await self._pool.execute(SUBMIT, f"key-{job}", str(job))
        self._bell.notify()

    async def bulk(self, jobs: range) -> None:
        # COPY would be twice as fast, and would stop at the first key that is already there.
        await self._pool.execute(SUBMIT_MANY, [f"key-{job}" for job in jobs], [str(job) for job in jobs])
        self._bell.notify()

    async def work(self, board: StartBoard) -> None:
        conn, listener = await asyncpg.connect(self._place.url), await asyncpg.connect(self._place.url)
        woken = asyncio.Event()
        await listener.add_listener(CHANNEL, lambda *_: woken.set())
        sweeping = asyncio.create_task(_requeue_expired(listener))
        statement = await conn.prepare(STEP)
        owner = await conn.fetchval("SELECT gen_random_uuid()")

        async def handler(payload: str) -> None:
            board.record_start(int(payload))

        finished: list[asyncpg.Record] = []
        while not sweeping.done():
            woken.clear()
            ids, attempts = [job["id"] for job in finished], [job["attempt"] for job in finished]
            *claimed, accepted = await statement.fetch(owner, ids, attempts, CONCURRENCY)
            if accepted["attempt"] != len(finished):
                raise RuntimeError("a lease was lost")
            await asyncio.gather(*(handler(job["payload"]) for job in claimed))
            finished = claimed
            if not claimed:
                await _wait_with_timeout(woken, POLL_SECONDS)


class Notifier:
    """Tells workers that there are jobs, after they are committed and at most once in two milliseconds."""

    def __init__(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._conn = conn
        self._again = False
        self._ringing: asyncio.Task[None] | None = None

    def notify(self) -> None:
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.create_task(self._notify_now())
        else:
            self._again = True

    async def _notify_now(self) -> None:
        while True:
            self._again = False
            await self._conn.execute(NOTIFY)
            await asyncio.sleep(QUIET_SECONDS)
            if not self._again:
                return


async def _wait_with_timeout(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass


async def _requeue_expired(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await conn.execute(GIVE_BACK)
