"""Queries: one job, its result, a page of jobs newest first, and the health of the queue.

Every query filters for its tenant, although row-level security would do it too. The payload is not read: it may be
large or private. Where a page is searched:

    any status             the primary key, backwards
    RUNNING                the leases
    QUEUED                 the tables of waiting jobs
    FAILED, DEAD_LETTER    their own index
    SUCCEEDED, CANCELLED   the primary key, filtered
    any, of a subject      the index of its subject or of its group, filtered
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString, TypedDict
from uuid import UUID

from service_jobs.context import Connection
from service_jobs.handler import require_type_name
from service_jobs.job import InvalidInput, Job, JobError, JobNotFound, Status, Subject, lowest_id_at

MAX_PAGE_SIZE: Final = 1_000
DEFAULT_PAGE_SIZE: Final = 50
# An id is created before its job is stored: at most this long before, by a clock that is at most this far ahead.
ID_BEFORE_STORED: Final = timedelta(days=1)
ID_CLOCK_AHEAD: Final = timedelta(hours=1)
EARLIEST_TIME: Final = datetime(1970, 1, 3, tzinfo=UTC)
LATEST_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)

JOB_COLUMNS: Final[LiteralString] = """
    s.tenant_id, s.job_id, s.type, s.status, s.priority, s.attempts, s.max_attempts, s.idempotency_key, s.limit_key,
    s.batch_id, s.progress::text AS progress, s.last_error::text AS last_error, s.created_at, s.scheduled_at,
    s.started_at, s.finished_at, s.lease_owner, s.lease_expires_at, s.cancel_requested, s.correlation_id, s.actor,
    s.service_id, s.subject_kind, s.subject_id, s.subject_group
"""
SELECT_JOB: Final[LiteralString] = f"""
    SELECT {JOB_COLUMNS} FROM jobs.job_status s WHERE s.tenant_id = $1 AND s.job_id = $2
"""
SELECT_RESULT: Final[LiteralString] = """
    SELECT CASE WHEN l.job_id IS NULL THEN j.status ELSE 'RUNNING' END AS status, j.result::text AS result,
           j.last_error::text AS last_error
      FROM jobs.job j
      LEFT JOIN jobs.job_lease l ON l.tenant_id = j.tenant_id AND l.job_id = j.job_id
     WHERE j.tenant_id = $1 AND j.job_id = $2
"""
# $1 tenant, $2 and $3 ids from and before, $4 and $5 times from and before, $6 type, $7 limit
MATCHES_FILTER: Final[LiteralString] = """
    j.created_at >= $4 AND j.created_at < $5 AND ($6::text IS NULL OR j.type = $6)
"""
IDS_BY_STATUS: Final[LiteralString] = """
    SELECT j.job_id FROM jobs.job j
     WHERE j.tenant_id = $1 AND j.job_id >= $2 AND j.job_id < $3 AND {fits} AND {has_status}
     ORDER BY j.job_id DESC
     LIMIT $7
"""
# One by one, newest first, until there are enough: statistics of tables that fill and empty all the time are useless.
IDS_IN_PLACES: Final[LiteralString] = """
    SELECT place.job_id
      FROM (SELECT p.job_id FROM ({places}) AS p WHERE p.job_id >= $2 AND p.job_id < $3
             ORDER BY p.job_id DESC OFFSET 0) AS place
     CROSS JOIN LATERAL (
       SELECT FROM jobs.job j
        WHERE j.tenant_id = $1 AND j.job_id = place.job_id AND j.status = 'QUEUED' AND {fits} LIMIT 1) AS fitting
     ORDER BY place.job_id DESC
     LIMIT $7
"""
LEASED_IDS: Final[LiteralString] = "SELECT l.job_id FROM jobs.job_lease l WHERE l.tenant_id = $1"
WAITING_IDS: Final[LiteralString] = """
    SELECT r.job_id FROM jobs.job_ready r WHERE r.tenant_id = $1
    UNION ALL
    SELECT w.job_id FROM jobs.job_later w WHERE w.tenant_id = $1
    UNION ALL
    SELECT DISTINCT d.job_id FROM jobs.job_dependency d WHERE d.tenant_id = $1 AND NOT d.met
"""
HAS_STATUS: Final[Mapping[Status | None, str]] = {
    None: "true",
    Status.SUCCEEDED: "j.status = 'SUCCEEDED'",
    Status.FAILED: "j.status = 'FAILED' AND j.failed_at IS NOT NULL",
    Status.CANCELLED: "j.status = 'CANCELLED'",
    Status.DEAD_LETTER: "j.status = 'DEAD_LETTER' AND j.failed_at IS NOT NULL",
}
ID_QUERIES: Final[Mapping[Status | None, str]] = {
    Status.QUEUED: IDS_IN_PLACES.format(fits=MATCHES_FILTER, places=WAITING_IDS),
    Status.RUNNING: IDS_IN_PLACES.format(fits=MATCHES_FILTER, places=LEASED_IDS),
    **{status: IDS_BY_STATUS.format(fits=MATCHES_FILTER, has_status=sql) for status, sql in HAS_STATUS.items()},
}
PAGE_TEMPLATE: Final[LiteralString] = """
    SELECT {columns}
      FROM ({ids}) AS page
      JOIN jobs.job_status s ON s.tenant_id = $1 AND s.job_id = page.job_id
     ORDER BY s.job_id DESC
"""
PAGE_QUERIES: Final[Mapping[Status | None, str]] = {
    status: PAGE_TEMPLATE.format(columns=JOB_COLUMNS, ids=ids) for status, ids in ID_QUERIES.items()
}


# $8 status; the other parameters as above. The indexes have the order of the page.
PAGE_OF_INDEX: Final[LiteralString] = """
    SELECT {columns} FROM jobs.job_status s
     WHERE s.tenant_id = $1 AND s.job_id >= $2 AND s.job_id < $3 AND s.created_at >= $4 AND s.created_at < $5
       AND ($6::text IS NULL OR s.type = $6) AND ($8::text IS NULL OR s.status = $8) AND {matches}
     ORDER BY s.job_id DESC
     LIMIT $7
"""
SUBJECT_PAGE: Final = PAGE_OF_INDEX.format(
    columns=JOB_COLUMNS,
    matches="s.subject_kind = $9 AND s.subject_id = $10 AND ($11::text IS NULL OR s.subject_group = $11)",
)
GROUP_PAGE: Final = PAGE_OF_INDEX.format(columns=JOB_COLUMNS, matches="s.subject_group = $9")


async def get_job(conn: Connection, tenant: UUID, job_id: UUID) -> Job:
    """The job. Raises `JobNotFound`, also if it belongs to another tenant."""
    row = await conn.fetchrow(SELECT_JOB, tenant, job_id)
    if row is None:
        raise JobNotFound(job_id)
    return Job.from_row(dict(row))


async def get_result_text(conn: Connection, tenant: UUID, job_id: UUID) -> tuple[Status, str | None, JobError | None]:
    """The status, the output as JSON if the job succeeded, and the last error."""
    row = await conn.fetchrow(SELECT_RESULT, tenant, job_id)
    if row is None:
        raise JobNotFound(job_id)
    return Status(row["status"]), row["result"], JobError.from_json_text(row["last_error"])


class JobFilters(TypedDict, total=False):
    """Which jobs `list_jobs` returns."""

    job_type: str | None
    status: Status | None
    created_after: datetime | None
    created_before: datetime | None
    before_id: UUID | None
    subject: Subject | None
    subject_group: str | None
    limit: int


async def list_jobs(
    conn: Connection,
    tenant: UUID,
    *,
    job_type: str | None = None,
    status: Status | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    before_id: UUID | None = None,
    subject: Subject | None = None,
    subject_group: str | None = None,
    limit: int = DEFAULT_PAGE_SIZE,
) -> list[Job]:
    """The newest jobs that match, at most `limit`. For the next page pass the last id as `before_id`.

    `created_after` is inclusive, `created_before` is not. A `subject` is compared by kind and id, not by group. A job
    that changes its status between two pages of a status may be on both or on neither.
    """
    require_page_size(limit, MAX_PAGE_SIZE)
    if job_type is not None:
        require_type_name(job_type)
    page_arguments = build_page_arguments(tenant, created_after, created_before, before_id, job_type, limit)
    if subject is not None:
        rows = await conn.fetch(SUBJECT_PAGE, *page_arguments, status, subject.kind, subject.id, subject_group)
    elif subject_group is not None:
        rows = await conn.fetch(GROUP_PAGE, *page_arguments, status, subject_group)
    else:
        rows = await conn.fetch(PAGE_QUERIES[status], *page_arguments)
    return [Job.from_row(dict(row)) for row in rows]


def require_page_size(limit: int, max_size: int) -> None:
    """Raise `InvalidInput` unless a page may have `limit` jobs."""
    if not 1 <= limit <= max_size:
        raise InvalidInput(f"a page has 1 to {max_size:,} jobs, not {limit}", details={"limit": limit})


def build_page_arguments(
    tenant: UUID,
    created_after: datetime | None,
    created_before: datetime | None,
    before_id: UUID | None,
    job_type: str | None,
    limit: int,
) -> tuple[Any, ...]:
    """The arguments of a page query. Times are compared to the microsecond; ids only narrow the search."""
    start, end = _clamp_time(created_after, EARLIEST_TIME), _clamp_time(created_before, LATEST_TIME)
    lowest, highest = lowest_id_at(start - ID_BEFORE_STORED), lowest_id_at(end + ID_CLOCK_AHEAD)
    return tenant, lowest, highest if before_id is None else min(before_id, highest), start, end, job_type, limit


def _clamp_time(moment: datetime | None, default: datetime) -> datetime:
    if moment is None:
        return default
    if moment.utcoffset() is None:
        raise InvalidInput(f"`{moment.isoformat()}` has no time zone", fix="add one, such as +00:00")
    return min(max(moment, EARLIEST_TIME), LATEST_TIME)


# The health of the queue: what waits, runs and is stuck, and whether workers are alive ------------------------------

MAX_COUNTED: Final = 100_000
DEAD_AFTER_SECONDS: Final = 15.0  # a worker without a heartbeat for this long counts as dead

# Each query is for all tenants ($1 is NULL) or for one; they are two statements, so that each can use its indexes.
OF_ALL_TENANTS: Final[LiteralString] = "$1::uuid IS NULL"
OF_ONE_TENANT: Final[LiteralString] = "tenant_id = $1::uuid"

COUNT_READY: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_ready WHERE {whose} LIMIT $2) AS ready
     GROUP BY type
"""
COUNT_DUE: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_later WHERE run_at <= (SELECT jobs.clock()) AND {whose} LIMIT $2) AS due
     GROUP BY type
"""
COUNT_LATER: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_later WHERE {whose} LIMIT $2) AS later
     GROUP BY type
"""
COUNT_RUNNING: Final[LiteralString] = """
    SELECT l.type, count(*) AS count,
           count(*) FILTER (WHERE l.lease_until < now
                               OR w.heartbeat_at IS NULL
                               OR w.heartbeat_at < now - make_interval(secs => $2)) AS stale
      FROM jobs.clock() AS now, jobs.job_lease l
      LEFT JOIN jobs.job_worker w ON w.owner = l.owner
     WHERE {whose}
     GROUP BY l.type
"""
COUNT_FAILED: Final[LiteralString] = """
    SELECT type, count(*) FILTER (WHERE status = 'DEAD_LETTER') AS dead_letter,
           count(*) FILTER (WHERE status = 'FAILED') AS failed
      FROM (SELECT type, status FROM jobs.job WHERE failed_at IS NOT NULL AND {whose} LIMIT $2) AS bad
     GROUP BY type
"""
# The first job of every lane, reached by skipping from lane to lane; the oldest of all is among them.
FIRST_JOBS_OF_ALL: Final[LiteralString] = """
    WITH RECURSIVE lane AS (
      (SELECT tenant_id, limit_key, priority, job_id FROM jobs.job_ready WHERE $1::uuid IS NULL
        ORDER BY tenant_id, limit_key, priority, seq LIMIT 1)
      UNION ALL
      SELECT following.* FROM lane CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.limit_key, r.priority, r.job_id FROM jobs.job_ready r
         WHERE (r.tenant_id, r.limit_key, r.priority) > (lane.tenant_id, lane.limit_key, lane.priority)
         ORDER BY r.tenant_id, r.limit_key, r.priority, r.seq LIMIT 1) AS following)
    SELECT tenant_id, job_id FROM lane LIMIT $2
"""
# Under row-level security the comparison above could not use an index. The first ready job has the lowest number.
FIRST_JOB_OF_ONE: Final[LiteralString] = """
    SELECT tenant_id, job_id FROM jobs.job_ready WHERE tenant_id = $1 ORDER BY seq LIMIT least(1, $2)
"""
OLDEST_AGE: Final[LiteralString] = """
    SELECT extract(epoch FROM jobs.clock() - least(
             (SELECT min(j.scheduled_at) FROM ({first}) AS first
                JOIN jobs.job j ON j.tenant_id = first.tenant_id AND j.job_id = first.job_id),
             (SELECT min(run_at) FROM jobs.job_later WHERE run_at <= (SELECT jobs.clock()) AND {whose})))::float8
"""
SELECT_LIVE_WORKERS: Final[LiteralString] = """
    SELECT owner, types FROM jobs.job_worker
     WHERE heartbeat_at >= jobs.clock() - make_interval(secs => $1) ORDER BY owner
"""
IS_WORKER_LIVE: Final[LiteralString] = """
    SELECT heartbeat_at >= jobs.clock() - make_interval(secs => $2) FROM jobs.job_worker WHERE owner = $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCounts:
    """How many jobs of one type wait, run and have failed."""

    queued: int = 0
    later: int = 0
    running: int = 0
    dead_letter: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The queue at one moment."""

    depth: int  # jobs that could run now; `MAX_COUNTED` means that many or more
    active: int  # jobs that run
    stale: int  # running jobs whose lease has expired or whose worker is silent
    oldest_seconds: float | None  # how long the oldest job that could run has waited
    workers: int  # live workers
    unhandled: Mapping[str, int]  # by type: jobs that could run now but whose type no live worker knows

    @property
    def depth_is_exact(self) -> bool:
        return self.depth < MAX_COUNTED


async def is_worker_live(conn: Connection, owner: str, *, dead_after: float = DEAD_AFTER_SECONDS) -> bool:
    """Whether a worker has sent a heartbeat recently."""
    return bool(await conn.fetchval(IS_WORKER_LIVE, owner, dead_after))


async def get_health(
    conn: Connection, tenant: UUID | None = None, *, dead_after: float = DEAD_AFTER_SECONDS
) -> QueueHealth:
    """The health of the queue, of one tenant or of all that `conn` sees."""
    waiting = Counter(await _count_per_type(conn, COUNT_READY, tenant, MAX_COUNTED))
    waiting.update(await _count_per_type(conn, COUNT_DUE, tenant, MAX_COUNTED))
    running = await conn.fetch(_scope_to_tenant(COUNT_RUNNING, tenant), tenant, dead_after)
    workers = await conn.fetch(SELECT_LIVE_WORKERS, dead_after)
    age = await conn.fetchval(_scope_to_tenant(OLDEST_AGE, tenant), tenant, MAX_COUNTED)
    known_types = {name for worker in workers for name in worker["types"]}
    return QueueHealth(
        depth=min(MAX_COUNTED, waiting.total()),
        active=sum(row["count"] for row in running),
        stale=sum(row["stale"] for row in running),
        oldest_seconds=None if age is None else max(0.0, age),
        workers=len(workers),
        unhandled={name: count for name, count in sorted(waiting.items()) if count and name not in known_types},
    )


async def count_by_type(conn: Connection, tenant: UUID | None = None) -> dict[str, TypeCounts]:
    """Counts per type, sorted by name; no count reads more than `MAX_COUNTED` rows."""
    ready = await _count_per_type(conn, COUNT_READY, tenant, MAX_COUNTED)
    later = await _count_per_type(conn, COUNT_LATER, tenant, MAX_COUNTED)
    running = await _count_per_type(conn, COUNT_RUNNING, tenant, DEAD_AFTER_SECONDS)
    dead = await _count_per_type(conn, COUNT_FAILED, tenant, MAX_COUNTED, column="dead_letter")
    failures = await _count_per_type(conn, COUNT_FAILED, tenant, MAX_COUNTED, column="failed")
    return {
        name: TypeCounts(
            queued=ready.get(name, 0),
            later=later.get(name, 0),
            running=running.get(name, 0),
            dead_letter=dead.get(name, 0),
            failed=failures.get(name, 0),
        )
        for name in sorted({*ready, *later, *running, *dead})
    }


async def _count_per_type(
    conn: Connection, statement: str, tenant: UUID | None, bound: float, *, column: str = "count"
) -> dict[str, int]:
    return {row["type"]: row[column] for row in await conn.fetch(_scope_to_tenant(statement, tenant), tenant, bound)}


def _scope_to_tenant(statement: str, tenant: UUID | None) -> str:
    if tenant is None:
        return statement.format(whose=OF_ALL_TENANTS, first=FIRST_JOBS_OF_ALL)
    return statement.format(whose=OF_ONE_TENANT, first=FIRST_JOB_OF_ONE)
