"""Jobs as people see them: one, its result, or a page of them, newest first.

Of one tenant at a time, which is filtered for here although row-level security would do it too. The payload is not
read: it may be large or private. Where a page is looked for:

    any status     the primary key, read backwards
    RUNNING        the leases                QUEUED   the places where a job waits
    FAILED, DEAD_LETTER    their own index   SUCCEEDED, CANCELLED   the primary key, filtered
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson

from bpc.jobs.context import Connection
from bpc.jobs.errors import InvalidInput, JobError, JobNotFound
from bpc.jobs.handler import TYPE_NAME
from bpc.jobs.ids import lowest_at
from bpc.jobs.job import Job
from bpc.jobs.outcome import Status

MOST: Final = 1_000
# An id is made before its job is stored: at most so long, and by a clock that is at most so far ahead.
EARLIER: Final = timedelta(days=1)
AHEAD: Final = timedelta(hours=1)
EPOCH: Final = datetime(1970, 1, 3, tzinfo=UTC)
DISTANT: Final = datetime(9000, 1, 1, tzinfo=UTC)

COLUMNS: Final[LiteralString] = """
    s.tenant_id, s.job_id, s.type, s.status, s.priority, s.attempts, s.max_attempts, s.idempotency_key, s.limit_key,
    s.batch_id, s.progress::text AS progress, s.last_error::text AS last_error, s.created_at, s.scheduled_at,
    s.started_at, s.finished_at, s.lease_owner, s.lease_expires_at, s.cancel_requested, s.correlation_id, s.actor
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM jobs.job_status s WHERE s.tenant_id = $1 AND s.job_id = $2
"""
RESULT: Final[LiteralString] = """
    SELECT CASE WHEN l.job_id IS NULL THEN j.status ELSE 'RUNNING' END AS status, j.result::text AS result,
           j.last_error::text AS last_error
      FROM jobs.job j
      LEFT JOIN jobs.job_lease l ON l.tenant_id = j.tenant_id AND l.job_id = j.job_id
     WHERE j.tenant_id = $1 AND j.job_id = $2
"""
# $1 tenant, $2 and $3 ids from and before, $4 and $5 times from and before, $6 type, $7 how many
FITS: Final[LiteralString] = """
    j.created_at >= $4 AND j.created_at < $5 AND ($6::text IS NULL OR j.type = $6)
"""
OF_ALL: Final[LiteralString] = """
    SELECT j.job_id FROM jobs.job j
     WHERE j.tenant_id = $1 AND j.job_id >= $2 AND j.job_id < $3 AND {fits} AND {has_status}
     ORDER BY j.job_id DESC
     LIMIT $7
"""
# One by one, newest first, until there are enough: statistics of tables that fill and empty all the time know nothing.
OF_THOSE_IN: Final[LiteralString] = """
    SELECT place.job_id
      FROM (SELECT p.job_id FROM ({places}) AS p WHERE p.job_id >= $2 AND p.job_id < $3
             ORDER BY p.job_id DESC OFFSET 0) AS place
     CROSS JOIN LATERAL (
       SELECT FROM jobs.job j
        WHERE j.tenant_id = $1 AND j.job_id = place.job_id AND j.status = 'QUEUED' AND {fits} LIMIT 1) AS fitting
     ORDER BY place.job_id DESC
     LIMIT $7
"""
LEASES: Final[LiteralString] = "SELECT l.job_id FROM jobs.job_lease l WHERE l.tenant_id = $1"
WAITING: Final[LiteralString] = """
    SELECT r.job_id FROM jobs.job_ready r WHERE r.tenant_id = $1
    UNION ALL
    SELECT w.job_id FROM jobs.job_later w WHERE w.tenant_id = $1
    UNION ALL
    SELECT DISTINCT d.job_id FROM jobs.job_dependency d WHERE d.tenant_id = $1 AND NOT d.met
"""
FOUND: Final[Mapping[Status | None, str]] = {
    None: OF_ALL.format(fits=FITS, has_status="true"),
    Status.QUEUED: OF_THOSE_IN.format(fits=FITS, places=WAITING),
    Status.RUNNING: OF_THOSE_IN.format(fits=FITS, places=LEASES),
    Status.SUCCEEDED: OF_ALL.format(fits=FITS, has_status="j.status = 'SUCCEEDED'"),
    Status.FAILED: OF_ALL.format(fits=FITS, has_status="j.status = 'FAILED' AND j.failed_at IS NOT NULL"),
    Status.CANCELLED: OF_ALL.format(fits=FITS, has_status="j.status = 'CANCELLED'"),
    Status.DEAD_LETTER: OF_ALL.format(fits=FITS, has_status="j.status = 'DEAD_LETTER' AND j.failed_at IS NOT NULL"),
}
PAGE: Final[LiteralString] = """
    SELECT {columns}
      FROM ({found}) AS found
      JOIN jobs.job_status s ON s.tenant_id = $1 AND s.job_id = found.job_id
     ORDER BY s.job_id DESC
"""
PAGES: Final[Mapping[Status | None, str]] = {
    status: PAGE.format(columns=COLUMNS, found=found) for status, found in FOUND.items()
}


async def get(conn: Connection, tenant: UUID, job_id: UUID) -> Job:
    """The job, or `JobNotFound`, also where it is another tenant's."""
    row = await conn.fetchrow(ONE, tenant, job_id)
    if row is None:
        raise JobNotFound(job_id)
    return Job.read(dict(row))


async def result_text(conn: Connection, tenant: UUID, job_id: UUID) -> tuple[Status, str | None, JobError | None]:
    """How the job stands, the JSON it returned if it succeeded, and the last error if there was one."""
    row = await conn.fetchrow(RESULT, tenant, job_id)
    if row is None:
        raise JobNotFound(job_id)
    error = row["last_error"]
    return Status(row["status"]), row["result"], None if error is None else JobError.read(orjson.loads(error))


async def page(
    conn: Connection,
    tenant: UUID,
    *,
    job_type: str | None = None,
    status: Status | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    before_id: UUID | None = None,
    limit: int = 50,
) -> list[Job]:
    """The newest jobs that fit, at most `limit`; the next page is what comes `before_id`, the last one's id.

    `created_after` is a moment that is included, `created_before` one that is not. A page is one look at the
    database; a job that changes its status between two pages of a status may be on both or on neither.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"a page has 1 to {MOST:,} jobs, not {limit}", details={"limit": limit})
    if job_type is not None and not TYPE_NAME.fullmatch(job_type):
        raise InvalidInput("letters, digits and . : _ - make up a type of job, and at most 100 of them")
    asked = arguments(tenant, created_after, created_before, before_id, job_type, limit)
    return [Job.read(dict(row)) for row in await conn.fetch(PAGES[status], *asked)]


def arguments(
    tenant: UUID,
    created_after: datetime | None,
    created_before: datetime | None,
    before_id: UUID | None,
    job_type: str | None,
    limit: int,
) -> tuple[Any, ...]:
    """What the statement of a page is given. Times are checked to the microsecond, ids only narrow the search."""
    start, end = _within(created_after, EPOCH), _within(created_before, DISTANT)
    lowest, highest = lowest_at(start - EARLIER), lowest_at(end + AHEAD)
    return tenant, lowest, highest if before_id is None else min(before_id, highest), start, end, job_type, limit


def _within(moment: datetime | None, otherwise: datetime) -> datetime:
    if moment is None:
        return otherwise
    if moment.utcoffset() is None:
        raise InvalidInput(f"`{moment.isoformat()}` has no time zone", fix="add one, such as +00:00")
    return min(max(moment, EPOCH), DISTANT)
