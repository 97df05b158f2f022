"""Retention: jobs that are over are removed when the time they are kept for has passed.

    cleaner = Cleaner()
    await cleaner.run(conn)        the chore: {"SUCCEEDED": 812, "FAILED": 3}

- A job that is not over is never removed, however old; nor one that an unfinished job depends on.
- A batch is removed when it has been finished for as long as its jobs are kept, and its jobs only after it: as long as
  there is a batch, its counts are right. An empty batch stays for two weeks.
- With a job goes what it depended on, its result and its idempotency key, which can be used again. Who depended on a
  job that ended badly goes on knowing that, and is not run again as if it had succeeded.
- Workers that have not been heard of for a day, and hold nothing, are forgotten.

There is no index to ask which jobs are past their time: it would have to be kept up to date when a job succeeds, which
happens far more often than anybody asks. Instead the table is read through, 2 MB at a time, and of each piece it is
remembered when it is worth looking at again; in a table of millions that is once in ten minutes for most of it. Rows
are locked with SKIP LOCKED only, so cleaners neither wait for each other nor for anybody else.

Slots of concurrency limits stay: there is no cheap way to know that a key is not used any more.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from bpc.jobs.context import Connection

PIECE: Final = 256  # pages
PIECES_AT_ONCE: Final = 32
BATCHES_AT_ONCE: Final = 200
MOST: Final = 1_000
SOON: Final = timedelta(seconds=60)
AT_LATEST: Final = timedelta(minutes=10)
LOWEST: Final = (UUID(int=0), UUID(int=0))

SIZE: Final[LiteralString] = """
    SELECT pg_relation_size('jobs.job') / current_setting('block_size')::int AS pages, jobs.clock() AS now
"""
# When the first of these jobs will be past its time. One that is not over has at least all its time before it.
EARLIEST: Final[LiteralString] = """
    SELECT min(coalesce(finished_at, $3) + make_interval(secs => keep_seconds)) FROM jobs.job
     WHERE ctid >= $1 AND ctid < $2
"""
REMOVE: Final[LiteralString] = """
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
      -- What another cleaner has locked, it removes itself.
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
# Jobs of one batch are submitted together and kept equally long, so any of them says how long.
NEXT_BATCHES: Final[LiteralString] = """
    SELECT b.tenant_id, b.batch_id,
           b.finished_at + make_interval(secs => coalesce(
             (SELECT j.keep_seconds FROM jobs.job j
               WHERE j.tenant_id = b.tenant_id AND j.batch_id = b.batch_id LIMIT 1), 1209600)) <= $3 AS past
      FROM jobs.batch b
     WHERE (b.tenant_id, b.batch_id) > ($1, $2)
     ORDER BY b.tenant_id, b.batch_id
     LIMIT $4
"""
REMOVE_BATCHES: Final[LiteralString] = """
    DELETE FROM jobs.batch WHERE (tenant_id, batch_id) IN (
      SELECT b.tenant_id, b.batch_id FROM unnest($1::uuid[], $2::uuid[]) AS p (tenant_id, batch_id)
        JOIN jobs.batch b ON b.tenant_id = p.tenant_id AND b.batch_id = p.batch_id
         FOR UPDATE OF b SKIP LOCKED)
"""
FORGET_WORKERS: Final[LiteralString] = """
    DELETE FROM jobs.job_worker WHERE owner IN (
      SELECT w.owner FROM jobs.job_worker w
       WHERE w.heartbeat_at < $1::timestamptz - interval '1 day'
         AND NOT EXISTS (SELECT FROM jobs.job_lease l WHERE l.owner = w.owner)
       LIMIT 100
         FOR UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some pages of the table, from `page` on."""

    page: int

    @property
    def bounds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.page, 0), (self.page + PIECE, 0)


class Cleaner:
    """Removes what is past its time, a bounded piece of work with each run."""

    def __init__(self, pieces_at_once: int = PIECES_AT_ONCE) -> None:
        self._pieces_at_once = pieces_at_once
        self._look_at: dict[Piece, datetime] = {}
        self._next_page = 0
        self._next_batch = LOWEST

    async def run(self, conn: Connection, most: int = MOST) -> dict[str, int]:
        """Remove at most `most` jobs, of all tenants; how many were removed of each status."""
        size = await conn.fetchrow(SIZE)
        pages, now = size["pages"], size["now"]  # type: ignore[index]  # a query without FROM returns a row
        await conn.execute(FORGET_WORKERS, now)
        await self._remove_batches(conn, now)
        removed: Counter[str] = Counter()
        for piece in self._worth_looking(pages, now):
            removed.update(await self._clean(conn, piece, now, most - removed.total()))
            if removed.total() >= most:
                break
            self._next_page = piece.page + PIECE
        return dict(removed)

    def _worth_looking(self, pages: int, now: datetime) -> list[Piece]:
        """The next pieces that may have something, from where the last run ended, round and round."""
        every = [Piece(page) for page in range(0, pages, PIECE)]
        start = self._next_page // PIECE if self._next_page < pages else 0
        in_turn = every[start:] + every[:start]
        return [piece for piece in in_turn if self._look_at.get(piece, now) <= now][: self._pieces_at_once]

    async def _clean(self, conn: Connection, piece: Piece, now: datetime, most: int) -> dict[str, int]:
        earliest = await conn.fetchval(EARLIEST, *piece.bounds, now)
        if earliest is None or earliest > now:
            self._look_at[piece] = min(earliest or now + AT_LATEST, now + AT_LATEST)
            return {}
        found = {row["status"]: row["jobs"] for row in await conn.fetch(REMOVE, *piece.bounds, now, most)}
        if sum(found.values()) < most:  # what is left is needed by somebody, or being looked at
            self._look_at[piece] = now + SOON
        return found

    async def _remove_batches(self, conn: Connection, now: datetime) -> None:
        rows = await conn.fetch(NEXT_BATCHES, *self._next_batch, now, BATCHES_AT_ONCE)
        at_end = len(rows) < BATCHES_AT_ONCE
        self._next_batch = LOWEST if at_end else (rows[-1]["tenant_id"], rows[-1]["batch_id"])
        past = [row for row in rows if row["past"]]
        if past:
            await conn.execute(REMOVE_BATCHES, [row["tenant_id"] for row in past], [row["batch_id"] for row in past])
