"""Batches: jobs of one type that belong together, may succeed in part, and may be followed by another job.

    submitted = await submit_batch(conn, options, specs, follow_up=BatchFollowUp(type="summary", payload="null"))
    await get_batch(conn, tenant, submitted.batch_id)    how many of its jobs have which status
    await BatchFinisher().run(conn)                      the chore that finishes batches and submits follow-ups

A batch is finished once, when none of its jobs waits or runs any more. Its follow-up is submitted in the same
transaction, with the idempotency key `batch:<batch id>`, and gets exactly the payload that was stored with the batch.
Its handler learns which batch it follows from `find_followed_batch(conn, tenant, ctx.job_id)`. A job that is redriven
later changes the counts, and nothing else.
"""

import asyncio
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

from service_jobs.context import Connection
from service_jobs.handler import Handler
from service_jobs.job import BatchId, InvalidInput, JobError, JobsRefusal, Status, Subject, new_id
from service_jobs.job_spec import (
    BatchFollowUp,
    JobColumns,
    JobSpec,
    JobSpecBuilder,
    Limit,
    SubmitOptions,
    get_common_limit,
)
from service_jobs.queries import require_page_size
from service_jobs.submission import submit_jobs

log = logging.getLogger(__name__)

MAX_NAME_LENGTH: Final = 200
MAX_PAGE_SIZE: Final = 1_000
CHUNK_SIZE: Final = 1_000  # jobs that go to the database in one call
PIECE_SIZE: Final = 500  # jobs that are built without a pause
OPEN_PER_RUN: Final = 200  # open batches that one run of the chore checks
MAX_REMEMBERED: Final = 10_000
FOLLOW_UP_KEY_PREFIX: Final = "batch:"

INSERT_BATCH: Final[LiteralString] = """
    INSERT INTO jobs.batch (tenant_id, batch_id, name, total, follow_up, created_at, finished_at)
    SELECT $1, $2, $3, $4::int, $5::text::json, now, CASE WHEN $4::int = 0 THEN now END
      FROM (SELECT jobs.clock() AS now OFFSET 0) AS clock
"""
SELECT_BATCH: Final[LiteralString] = """
    SELECT batch_id, name, total, created_at, finished_at FROM jobs.batch WHERE tenant_id = $1 AND batch_id = $2
"""
COUNT_BY_STATUS: Final[LiteralString] = """
    SELECT status, count(*) AS jobs FROM jobs.job_status WHERE tenant_id = $1 AND batch_id = $2 GROUP BY status
"""
SELECT_ITEMS: Final[LiteralString] = """
    SELECT job_id, status, last_error::text AS last_error
      FROM jobs.job_status
     WHERE tenant_id = $1 AND batch_id = $2 AND job_id > $3 AND ($4::text[] IS NULL OR status = ANY ($4))
     ORDER BY job_id
     LIMIT $5
"""
SELECT_KEY: Final[LiteralString] = "SELECT idempotency_key FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"
SELECT_OPEN: Final[LiteralString] = """
    SELECT tenant_id, batch_id, created_at FROM jobs.batch
     WHERE finished_at IS NULL AND created_at >= $1 AND (created_at, batch_id) > ($1, $2)
     ORDER BY created_at, batch_id
     LIMIT $3
"""
SELECT_STILL_QUEUED: Final[LiteralString] = """
    SELECT j.tenant_id, j.job_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, job_id)
      JOIN jobs.job j ON j.tenant_id = w.tenant_id AND j.job_id = w.job_id
     WHERE j.status = 'QUEUED'
"""
# The last of a batch's jobs end last. Written as a range, the index is read backwards from its end; written as an
# equality, it would be read from the beginning, past all jobs that are over.
SELECT_UNFINISHED_JOBS: Final[LiteralString] = """
    SELECT b.tenant_id, b.batch_id, unfinished.job_id
      FROM unnest($1::uuid[], $2::uuid[]) AS b (tenant_id, batch_id)
      LEFT JOIN LATERAL (
        SELECT j.job_id FROM jobs.job j
         WHERE j.tenant_id = b.tenant_id AND j.batch_id >= b.batch_id AND j.batch_id <= b.batch_id
           AND j.status = 'QUEUED'
         ORDER BY j.batch_id DESC LIMIT 1) AS unfinished ON true
"""
FINISH_BATCH: Final[LiteralString] = """
    UPDATE jobs.batch SET finished_at = jobs.clock()
     WHERE (tenant_id, batch_id) IN (
       SELECT tenant_id, batch_id FROM jobs.batch
        WHERE tenant_id = $1 AND batch_id = $2 AND finished_at IS NULL
          FOR UPDATE SKIP LOCKED)
    RETURNING follow_up::text AS follow_up
"""
EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
LOWEST_ID: Final = UUID(int=0)


class BatchNotFound(JobsRefusal):
    """The tenant has no such batch."""

    code = "NOT_FOUND"

    def __init__(self, batch_id: UUID) -> None:
        super().__init__(
            f"there is no batch `{batch_id}`",
            fix="finished batches are removed after the retention time of their jobs",
            details={"batch_id": str(batch_id)},
        )


class BatchStatus(StrEnum):
    """OPEN until all jobs are over; then it says whether all of them succeeded, some, or none."""

    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedBatch:
    """`job_ids` has one id per job; one whose key was taken has the id of that other job, which is not in the batch."""

    batch_id: BatchId
    job_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How many jobs of a batch have which status. `failed` counts FAILED and DEAD_LETTER."""

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
class BatchItem:
    """One job of a batch."""

    job_id: UUID
    status: Status
    error: JobError | None


async def submit_batch(
    conn: Connection,
    options: SubmitOptions,
    specs: Sequence[JobSpec],
    *,
    name: str | None = None,
    follow_up: BatchFollowUp | None = None,
    batch_id: UUID | None = None,
) -> SubmittedBatch:
    """Submit `specs`, all of the type of `options`, as one batch, in the transaction of `conn`.

    Priority, limit and dependencies are those of each spec. A batch without jobs is finished at once.
    """
    if name is not None and not (1 <= len(name) <= MAX_NAME_LENGTH and name.isprintable()):
        raise InvalidInput(f"a batch's name must have 1 to {MAX_NAME_LENGTH} printable characters")
    if other_types := sorted({spec.handler.type for spec in specs} - {options.type}):
        raise InvalidInput(
            f"a batch has jobs of one type: `{other_types[0]}` is not `{options.type}`", fix="submit one batch per type"
        )
    new_batch_id = BatchId(batch_id or new_id())
    ids = await _submit_in_chunks(conn, replace(options, batch=new_batch_id), specs)
    total = sum(spec.job_id == job_id for spec, job_id in zip(specs, ids, strict=True))
    follow_up_json = None if follow_up is None else follow_up.to_json(options)
    await conn.execute(INSERT_BATCH, options.tenant, new_batch_id, name, total, follow_up_json)
    if total == 0 and follow_up_json is not None:
        await _submit_follow_up(conn, options.tenant, new_batch_id, orjson.loads(follow_up_json))
    return SubmittedBatch(batch_id=new_batch_id, job_ids=tuple(ids))


async def build_specs(
    builder: JobSpecBuilder,
    handler: Handler[Any, Any],
    values: Sequence[Any],
    keys: Sequence[str | None] | None,
    limits: Sequence[Limit | None] | None,
    priority: int,
    subjects: Sequence[Subject | None] | None,
) -> list[JobSpec]:
    """One job per value, with pauses: there may be many, and others use this event loop too."""
    builder.require_submittable(handler, len(values), keys, limits, subjects)
    specs: list[JobSpec] = []
    for start in range(0, len(values), PIECE_SIZE):
        piece = slice(start, start + PIECE_SIZE)
        specs += builder.build_specs(
            handler,
            values[piece],
            None if keys is None else keys[piece],
            None if limits is None else limits[piece],
            priority,
            None if subjects is None else subjects[piece],
        )
        await asyncio.sleep(0)
    return specs


async def get_batch(conn: Connection, tenant: UUID, batch_id: UUID) -> Batch:
    """The batch, or `BatchNotFound`."""
    row = await conn.fetchrow(SELECT_BATCH, tenant, batch_id)
    if row is None:
        raise BatchNotFound(batch_id)
    counts = {
        status_row["status"]: status_row["jobs"] for status_row in await conn.fetch(COUNT_BY_STATUS, tenant, batch_id)
    }
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


async def list_items(
    conn: Connection,
    tenant: UUID,
    batch_id: UUID,
    *,
    after: UUID | None = None,
    limit: int = 100,
    only: Iterable[Status] = (),
) -> list[BatchItem]:
    """The jobs of a batch in the order of their ids, at most `limit`. For the next page pass the last id as `after`."""
    require_page_size(limit, MAX_PAGE_SIZE)
    statuses = [str(status) for status in only] or None
    return [
        _read_item(row) for row in await conn.fetch(SELECT_ITEMS, tenant, batch_id, after or LOWEST_ID, statuses, limit)
    ]


async def find_followed_batch(conn: Connection, tenant: UUID, job_id: UUID) -> BatchId | None:
    """The batch that this job is the follow-up of; None if it is not a follow-up."""
    key = await conn.fetchval(SELECT_KEY, tenant, job_id)
    try:
        return (
            BatchId(UUID(key.removeprefix(FOLLOW_UP_KEY_PREFIX)))
            if key is not None and key.startswith(FOLLOW_UP_KEY_PREFIX)
            else None
        )
    except ValueError:  # a key that only looks like ours
        return None


class BatchFinisher:
    """The chore that finishes batches. It remembers one unfinished job of each open batch and checks that first.

    So a batch of a million jobs, one of which is retried for hours, costs one lookup of that job.
    """

    def __init__(self) -> None:
        self._waits_for: dict[tuple[UUID, UUID], UUID] = {}
        self._after = (EPOCH, LOWEST_ID)

    async def run(self, conn: Connection) -> list[BatchId]:
        """Finish completed batches of all tenants, in one short transaction each. Returns those it finished."""
        finished_ids = []
        for tenant, batch_id in await self._find_completed(conn, await self._fetch_next_open(conn)):
            try:
                async with conn.transaction():
                    if await _finish_batch(conn, tenant, batch_id):
                        finished_ids.append(BatchId(batch_id))
            except Exception:
                if conn.is_closed():
                    raise
                fields = {"tenant_id": str(tenant), "batch_id": str(batch_id)}
                log.exception("a batch could not be finished", extra=fields)
        return finished_ids

    async def _fetch_next_open(self, conn: Connection) -> list[tuple[UUID, UUID]]:
        rows = await conn.fetch(SELECT_OPEN, *self._after, OPEN_PER_RUN)
        if len(rows) == OPEN_PER_RUN:
            self._after = (rows[-1]["created_at"], rows[-1]["batch_id"])
        else:
            self._after = (EPOCH, LOWEST_ID)
        return [(row["tenant_id"], row["batch_id"]) for row in rows]

    async def _find_completed(self, conn: Connection, batches: list[tuple[UUID, UUID]]) -> list[tuple[UUID, UUID]]:
        waiting = await self._find_still_waiting(conn, batches)
        unsure = [batch for batch in batches if batch not in waiting]
        for batch in unsure:
            self._waits_for.pop(batch, None)
        if len(self._waits_for) > MAX_REMEMBERED:  # other workers have finished most of them by now
            self._waits_for.clear()
        if not unsure:
            return []
        over = []
        for row in await conn.fetch(
            SELECT_UNFINISHED_JOBS, [tenant for tenant, _ in unsure], [batch for _, batch in unsure]
        ):
            batch = (row["tenant_id"], row["batch_id"])
            if row["job_id"] is None:
                over.append(batch)
            else:
                self._waits_for[batch] = row["job_id"]
        return over

    async def _find_still_waiting(self, conn: Connection, batches: list[tuple[UUID, UUID]]) -> set[tuple[UUID, UUID]]:
        batch_by_job = {(batch[0], self._waits_for[batch]): batch for batch in batches if batch in self._waits_for}
        if not batch_by_job:
            return set()
        rows = await conn.fetch(
            SELECT_STILL_QUEUED, [tenant for tenant, _ in batch_by_job], [job_id for _, job_id in batch_by_job]
        )
        return {batch_by_job[row["tenant_id"], row["job_id"]] for row in rows}


async def _finish_batch(conn: Connection, tenant: UUID, batch_id: UUID) -> bool:
    """Mark the batch finished and submit its follow-up; False if another worker does or did."""
    row = await conn.fetchrow(FINISH_BATCH, tenant, batch_id)
    if row is None:
        return False
    if row["follow_up"] is not None:
        await _submit_follow_up(conn, tenant, batch_id, orjson.loads(row["follow_up"]))
    return True


async def _submit_follow_up(conn: Connection, tenant: UUID, batch_id: UUID, follow_up: Mapping[str, Any]) -> None:
    options = SubmitOptions(
        tenant=tenant,
        type=follow_up["type"],
        priority=follow_up["priority"],
        max_attempts=follow_up["max_attempts"],
        keep_seconds=follow_up["keep_seconds"],
        correlation_id=follow_up["correlation_id"],
        actor=follow_up["actor"],
        traceparent=follow_up["traceparent"],
        service_id=follow_up.get("service_id"),  # a version without service ids has stored none
    )
    subject = follow_up.get("subject")
    columns = JobColumns(
        ids=[new_id()],
        payloads=[follow_up["payload"]],
        keys=[f"{FOLLOW_UP_KEY_PREFIX}{batch_id}"],
        subjects=None if subject is None else [Subject(**subject)],
    )
    await submit_jobs(conn, options, columns)


async def _submit_in_chunks(conn: Connection, options: SubmitOptions, specs: Sequence[JobSpec]) -> list[UUID]:
    ids: list[UUID] = []
    limit = get_common_limit(spec.limit for spec in specs)
    for (priority, depends_on), group in groupby(specs, key=lambda spec: (spec.priority, tuple(spec.depends_on))):
        similar_specs = list(group)
        group_options = replace(options, priority=priority, depends_on=depends_on or options.depends_on, limit=limit)
        for start in range(0, len(similar_specs), CHUNK_SIZE):
            ids += await submit_jobs(
                conn, group_options, JobColumns.from_specs(similar_specs[start : start + CHUNK_SIZE])
            )
    return ids


def _read_item(row: asyncpg.Record) -> BatchItem:
    error = JobError.from_json_text(row["last_error"])
    return BatchItem(job_id=row["job_id"], status=Status(row["status"]), error=error)
