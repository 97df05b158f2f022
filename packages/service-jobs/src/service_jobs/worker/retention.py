"""Retention: remove jobs that have been over for their retention time. Every worker does some of it, as a chore."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from service_jobs.context import Connection

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
    SELECT min(coalesce(finished_at, $3)
               + make_interval(secs => coalesce(CASE WHEN status = 'DEAD_LETTER' THEN $4::int END,
                                                ($6::int[])[array_position($5::text[], type)], keep_seconds)))
      FROM jobs.job
     WHERE ctid >= $1 AND ctid < $2
"""
DELETE_EXPIRED_JOBS: Final[LiteralString] = """
    WITH past AS (
      SELECT j.tenant_id, j.job_id FROM jobs.job j
       WHERE j.ctid >= $1 AND j.ctid < $2 AND j.status <> 'QUEUED'
         AND j.finished_at
             + make_interval(secs => coalesce(CASE WHEN j.status = 'DEAD_LETTER' THEN $5::int END,
                                              ($7::int[])[array_position($6::text[], j.type)], j.keep_seconds)) <= $3
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

    def __init__(
        self,
        pieces_at_once: int = PIECES_PER_RUN,
        *,
        dead_letter_ttl: timedelta | None = None,
        ttl_by_type: Mapping[str, timedelta] | None = None,
    ) -> None:
        """Dead letters are kept for `dead_letter_ttl`, other jobs as `ttl_by_type` says.

        What neither says anything about is kept for as long as was decided when it was submitted.
        """
        self._pieces_at_once = pieces_at_once
        by_type = ttl_by_type or {}
        self._times: tuple[int | None, list[str], list[int]] = (
            None if dead_letter_ttl is None else int(dead_letter_ttl.total_seconds()),
            list(by_type),
            [int(ttl.total_seconds()) for ttl in by_type.values()],
        )
        self._look_at: dict[int, datetime] = {}  # by the first page of a piece
        self._next_page = 0
        self._next_batch = LOWEST_BATCH

    async def run(self, conn: Connection, limit: int = MAX_REMOVED_PER_RUN) -> dict[str, int]:
        """Remove at most `limit` jobs of all tenants; returns how many of each status."""
        size = await conn.fetchrow(SELECT_TABLE_SIZE)
        pages, now = size["pages"], size["now"]  # type: ignore[index]  # a query without FROM returns a row
        await conn.execute(DELETE_SILENT_WORKERS, now)
        await self._remove_batches(conn, now)
        removed_counts: Counter[str] = Counter()
        for piece in self._select_pieces(pages, now):
            removed_counts.update(await self._clean_piece(conn, piece, now, limit - removed_counts.total()))
            if removed_counts.total() >= limit:
                break
            self._next_page = piece + PIECE_PAGES
        return dict(removed_counts)

    def _select_pieces(self, pages: int, now: datetime) -> list[int]:
        """The next pieces that may have expired jobs, from where the last run ended, round and round."""
        pieces = list(range(0, pages, PIECE_PAGES))
        start = self._next_page // PIECE_PAGES if self._next_page < pages else 0
        in_turn = pieces[start:] + pieces[:start]
        return [piece for piece in in_turn if self._look_at.get(piece, now) <= now][: self._pieces_at_once]

    async def _clean_piece(self, conn: Connection, piece: int, now: datetime, limit: int) -> dict[str, int]:
        bounds = (piece, 0), (piece + PIECE_PAGES, 0)
        earliest = await conn.fetchval(SELECT_EARLIEST_EXPIRY, *bounds, now, *self._times)
        if earliest is None or earliest > now:
            self._look_at[piece] = min(earliest or now + LOOK_AGAIN_LATEST, now + LOOK_AGAIN_LATEST)
            return {}
        rows = await conn.fetch(DELETE_EXPIRED_JOBS, *bounds, now, limit, *self._times)
        removed_counts = {row["status"]: row["jobs"] for row in rows}
        if sum(removed_counts.values()) < limit:  # what is left is needed by other jobs, or locked
            self._look_at[piece] = now + LOOK_AGAIN_SOON
        return removed_counts

    async def _remove_batches(self, conn: Connection, now: datetime) -> None:
        rows = await conn.fetch(SELECT_NEXT_BATCHES, *self._next_batch, now, BATCHES_PER_RUN)
        at_end = len(rows) < BATCHES_PER_RUN
        self._next_batch = LOWEST_BATCH if at_end else (rows[-1]["tenant_id"], rows[-1]["batch_id"])
        expired_rows = [row for row in rows if row["past"]]
        if expired_rows:
            await conn.execute(
                DELETE_BATCHES, [row["tenant_id"] for row in expired_rows], [row["batch_id"] for row in expired_rows]
            )
