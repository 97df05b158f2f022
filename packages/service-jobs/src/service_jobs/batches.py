"""Batches: jobs of one type that belong together, may succeed in part, and are followed by another job.

    submitted = await submit_batch(conn, manner, wishes, follow_up=FollowUp(type="summary", payload="null"))
    await get(conn, tenant, submitted.batch_id)     how many of them are over, and how they ended
    await Finisher().run(conn)                      the chore: what is over is finished, and the follow-up submitted

A batch is finished once, when none of its jobs waits or runs any more, and its follow-up is submitted in that
transaction, with the idempotency key `batch:<batch id>`. The follow-up's handler gets exactly the payload it was given;
which batch it follows is told by `followed_by(conn, tenant, ctx.job_id)`, or by the payload if the caller makes the
batch's id beforehand and writes it there. A job that is redriven later changes the counts, and nothing else.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, Final, LiteralString
from uuid import UUID

import asyncpg
import orjson

from bpc.jobs.context import Connection, Wish
from bpc.jobs.errors import InvalidInput, JobError, JobsRefusal
from bpc.jobs.ids import BatchId, new_id
from bpc.jobs.outcome import Status
from bpc.jobs.submitting import Manner, Rows, limit_of, submit

log = logging.getLogger(__name__)

LONGEST_NAME: Final = 200
MOST_ITEMS: Final = 1_000
AT_ONCE: Final = 5_000  # jobs that go to the database in one call
LOOKED_AT: Final = 200  # open batches that one run of the chore looks at
REMEMBERED: Final = 10_000
KEY: Final = "batch:"

ADD: Final[LiteralString] = """
    INSERT INTO jobs.batch (tenant_id, batch_id, name, total, follow_up, created_at, finished_at)
    SELECT $1, $2, $3, $4::int, $5::text::json, now, CASE WHEN $4::int = 0 THEN now END
      FROM (SELECT jobs.clock() AS now OFFSET 0) AS clock
"""
GET: Final[LiteralString] = """
    SELECT batch_id, name, total, created_at, finished_at FROM jobs.batch WHERE tenant_id = $1 AND batch_id = $2
"""
COUNTS: Final[LiteralString] = """
    SELECT status, count(*) AS jobs FROM jobs.job_status WHERE tenant_id = $1 AND batch_id = $2 GROUP BY status
"""
ITEMS: Final[LiteralString] = """
    SELECT job_id, status, last_error::text AS last_error
      FROM jobs.job_status
     WHERE tenant_id = $1 AND batch_id = $2 AND job_id > $3 AND ($4::text[] IS NULL OR status = ANY ($4))
     ORDER BY job_id
     LIMIT $5
"""
KEY_OF: Final[LiteralString] = "SELECT idempotency_key FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"
OPEN: Final[LiteralString] = """
    SELECT tenant_id, batch_id, created_at FROM jobs.batch
     WHERE finished_at IS NULL AND created_at >= $1 AND (created_at, batch_id) > ($1, $2)
     ORDER BY created_at, batch_id
     LIMIT $3
"""
STILL_OPEN: Final[LiteralString] = """
    SELECT j.tenant_id, j.job_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, job_id)
      JOIN jobs.job j ON j.tenant_id = w.tenant_id AND j.job_id = w.job_id
     WHERE j.status = 'QUEUED'
"""
# The last of a batch's jobs are the last to end, and the end of a range is where an index is read backwards from; as
# an equality it would be read from the beginning, past all jobs that are over.
UNFINISHED_JOBS: Final[LiteralString] = """
    SELECT b.tenant_id, b.batch_id, found.job_id
      FROM unnest($1::uuid[], $2::uuid[]) AS b (tenant_id, batch_id)
      LEFT JOIN LATERAL (
        SELECT j.job_id FROM jobs.job j
         WHERE j.tenant_id = b.tenant_id AND j.batch_id >= b.batch_id AND j.batch_id <= b.batch_id
           AND j.status = 'QUEUED'
         ORDER BY j.batch_id DESC LIMIT 1) AS found ON true
"""
FINISH: Final[LiteralString] = """
    UPDATE jobs.batch SET finished_at = jobs.clock()
     WHERE (tenant_id, batch_id) IN (
       SELECT tenant_id, batch_id FROM jobs.batch
        WHERE tenant_id = $1 AND batch_id = $2 AND finished_at IS NULL
          FOR UPDATE SKIP LOCKED)
    RETURNING follow_up::text AS follow_up
"""
BEGINNING: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
LOWEST: Final = UUID(int=0)


class BatchNotFound(JobsRefusal):
    """There is no such batch, as far as this tenant can see."""

    code = "NOT_FOUND"

    def __init__(self, batch_id: UUID) -> None:
        super().__init__(
            f"there is no batch `{batch_id}`",
            fix="finished batches are removed when the time of their jobs is over",
            details={"batch_id": str(batch_id)},
        )


class BatchStatus(StrEnum):
    """OPEN until all jobs are over; then whether all of them succeeded, some, or none."""

    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The job that is submitted when a batch is finished. `payload` is the JSON text of a validated input."""

    type: str
    payload: str
    priority: int = 2
    max_attempts: int = 5
    keep_seconds: int = 14 * 86_400

    def text(self, manner: Manner) -> str:
        """As it is kept with the batch, together with who wanted it."""
        return orjson.dumps(
            {
                "type": self.type,
                "payload": self.payload,
                "priority": self.priority,
                "max_attempts": self.max_attempts,
                "keep_seconds": self.keep_seconds,
                "correlation_id": manner.correlation_id,
                "actor": manner.actor,
                "traceparent": manner.traceparent,
            }
        ).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedBatch:
    """`job_ids` has one id per wish; a wish whose key was taken already has that job's, which is not in the batch."""

    batch_id: BatchId
    job_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How the jobs of a batch stand. Those FAILED and DEAD_LETTER are both `failed`."""

    batch_id: BatchId
    name: str | None
    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    created_at: datetime
    finished_at: datetime | None

    @property
    def status(self) -> BatchStatus:
        if self.finished_at is None:
            return BatchStatus.OPEN
        if self.succeeded == self.total:
            return BatchStatus.SUCCEEDED
        return BatchStatus.PARTIAL if self.succeeded else BatchStatus.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One job of a batch."""

    job_id: UUID
    status: Status
    error: JobError | None


async def submit_batch(
    conn: Connection,
    manner: Manner,
    wishes: Sequence[Wish],
    *,
    name: str | None = None,
    follow_up: FollowUp | None = None,
    batch_id: UUID | None = None,
) -> SubmittedBatch:
    """Submit `wishes`, all of the manner's type, as one batch, in the transaction of `conn`.

    Priority, limit and needed jobs are each wish's own. A batch without jobs is finished at once.
    """
    if name is not None and not (1 <= len(name) <= LONGEST_NAME and name.isprintable()):
        raise InvalidInput(f"a batch's name has 1 to {LONGEST_NAME} printable characters")
    if others := sorted({wish.handler.type for wish in wishes} - {manner.type}):
        raise InvalidInput(
            f"a batch has jobs of one type: `{others[0]}` is not `{manner.type}`", fix="submit one batch per type"
        )
    made = BatchId(batch_id or new_id())
    ids = await _submit_in_calls(conn, replace(manner, batch=made), wishes)
    total = sum(given.job_id == job_id for given, job_id in zip(wishes, ids, strict=True))
    follow = None if follow_up is None else follow_up.text(manner)
    await conn.execute(ADD, manner.tenant, made, name, total, follow)
    if total == 0 and follow is not None:
        await _submit_follow_up(conn, manner.tenant, made, orjson.loads(follow))
    return SubmittedBatch(batch_id=made, job_ids=tuple(ids))


async def get(conn: Connection, tenant: UUID, batch_id: UUID) -> Batch:
    """The batch, or `BatchNotFound`."""
    row = await conn.fetchrow(GET, tenant, batch_id)
    if row is None:
        raise BatchNotFound(batch_id)
    counts = {found["status"]: found["jobs"] for found in await conn.fetch(COUNTS, tenant, batch_id)}
    return Batch(
        batch_id=BatchId(row["batch_id"]),
        name=row["name"],
        total=row["total"],
        queued=counts.get(Status.QUEUED, 0),
        running=counts.get(Status.RUNNING, 0),
        succeeded=counts.get(Status.SUCCEEDED, 0),
        failed=counts.get(Status.FAILED, 0) + counts.get(Status.DEAD_LETTER, 0),
        cancelled=counts.get(Status.CANCELLED, 0),
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )


async def items(
    conn: Connection,
    tenant: UUID,
    batch_id: UUID,
    *,
    after: UUID | None = None,
    limit: int = 100,
    only: Iterable[Status] = (),
) -> list[Item]:
    """The jobs of a batch in the order their ids were made in: `limit` of them, `after` the last of the page before."""
    if not 1 <= limit <= MOST_ITEMS:
        raise InvalidInput(f"a page has 1 to {MOST_ITEMS} jobs, not {limit}")
    wanted = [str(status) for status in only] or None
    return [_item(row) for row in await conn.fetch(ITEMS, tenant, batch_id, after or LOWEST, wanted, limit)]


async def followed_by(conn: Connection, tenant: UUID, job_id: UUID) -> BatchId | None:
    """The batch that this job is the follow-up of; None if it is none."""
    key = await conn.fetchval(KEY_OF, tenant, job_id)
    try:
        return BatchId(UUID(key.removeprefix(KEY))) if key is not None and key.startswith(KEY) else None
    except ValueError:  # somebody else's key
        return None


class Finisher:
    """The chore that finishes batches. It remembers of each open batch one job that is not over, and asks it first.

    So a batch of a million jobs, one of which is tried again for hours, costs one look at that job.
    """

    def __init__(self) -> None:
        self._waits_for: dict[tuple[UUID, UUID], UUID] = {}
        self._after = (BEGINNING, LOWEST)

    async def run(self, conn: Connection) -> list[BatchId]:
        """Finish what is over, of all tenants, one short transaction per batch. Returns what this call finished."""
        finished = []
        for tenant, batch_id in await self._all_over(conn, await self._next_open(conn)):
            try:
                async with conn.transaction():
                    if await _finish(conn, tenant, batch_id):
                        finished.append(BatchId(batch_id))
            except Exception:
                if conn.is_closed():
                    raise
                about = {"tenant_id": str(tenant), "batch_id": str(batch_id)}
                log.exception("a batch could not be finished", extra=about)
        return finished

    async def _next_open(self, conn: Connection) -> list[tuple[UUID, UUID]]:
        rows = await conn.fetch(OPEN, *self._after, LOOKED_AT)
        if len(rows) == LOOKED_AT:
            self._after = (rows[-1]["created_at"], rows[-1]["batch_id"])
        else:
            self._after = (BEGINNING, LOWEST)
        return [(row["tenant_id"], row["batch_id"]) for row in rows]

    async def _all_over(self, conn: Connection, batches: list[tuple[UUID, UUID]]) -> list[tuple[UUID, UUID]]:
        waiting = await self._still_waiting(conn, batches)
        unsure = [batch for batch in batches if batch not in waiting]
        for batch in unsure:
            self._waits_for.pop(batch, None)
        if len(self._waits_for) > REMEMBERED:  # most of them are finished by now, by others
            self._waits_for.clear()
        if not unsure:
            return []
        over = []
        for row in await conn.fetch(UNFINISHED_JOBS, [tenant for tenant, _ in unsure], [batch for _, batch in unsure]):
            batch = (row["tenant_id"], row["batch_id"])
            if row["job_id"] is None:
                over.append(batch)
            else:
                self._waits_for[batch] = row["job_id"]
        return over

    async def _still_waiting(self, conn: Connection, batches: list[tuple[UUID, UUID]]) -> set[tuple[UUID, UUID]]:
        asked = {(batch[0], self._waits_for[batch]): batch for batch in batches if batch in self._waits_for}
        if not asked:
            return set()
        rows = await conn.fetch(STILL_OPEN, [tenant for tenant, _ in asked], [job_id for _, job_id in asked])
        return {asked[row["tenant_id"], row["job_id"]] for row in rows}


async def _finish(conn: Connection, tenant: UUID, batch_id: UUID) -> bool:
    """Set the batch finished and submit its follow-up; False if somebody else does or did."""
    row = await conn.fetchrow(FINISH, tenant, batch_id)
    if row is None:
        return False
    if row["follow_up"] is not None:
        await _submit_follow_up(conn, tenant, batch_id, orjson.loads(row["follow_up"]))
    return True


async def _submit_follow_up(conn: Connection, tenant: UUID, batch_id: UUID, kept: Mapping[str, Any]) -> None:
    manner = Manner(
        tenant=tenant,
        type=kept["type"],
        priority=kept["priority"],
        max_attempts=kept["max_attempts"],
        keep_seconds=kept["keep_seconds"],
        correlation_id=kept["correlation_id"],
        actor=kept["actor"],
        traceparent=kept["traceparent"],
    )
    await submit(conn, manner, Rows(ids=[new_id()], payloads=[kept["payload"]], keys=[f"{KEY}{batch_id}"]))


async def _submit_in_calls(conn: Connection, manner: Manner, wishes: Sequence[Wish]) -> list[UUID]:
    ids: list[UUID] = []
    limit = limit_of(wish.limit for wish in wishes)
    for (priority, needs), group in groupby(wishes, key=lambda wish: (wish.priority, tuple(wish.depends_on))):
        alike = list(group)
        how = replace(manner, priority=priority, depends_on=needs or manner.depends_on, limit=limit)
        for start in range(0, len(alike), AT_ONCE):
            ids += await submit(conn, how, Rows.of(alike[start : start + AT_ONCE]))
    return ids


def _item(row: asyncpg.Record) -> Item:
    error = None if row["last_error"] is None else JobError.read(orjson.loads(row["last_error"]))
    return Item(job_id=row["job_id"], status=Status(row["status"]), error=error)
