"""The queue at one moment, for people who watch it: queues, running jobs, ages, failures, workers; and rates.

    look_at_queue(conn) ─► QueueView ─┐
                                      ├─► compute_rates ─► Rates
    look_at_queue(conn) ─► QueueView ─┘

Looking costs the queue little: no statement reads more than `MAX_COUNTED` rows of a table, and finished jobs are not
read at all. Rates come from what PostgreSQL counts itself: rows inserted into `job` and `job_lease`, and removed from
`job_lease`. So they are of all tenants, and follow what happens by a second or, from sessions that do little, ten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from service_jobs import queries
from service_jobs.context import Connection
from service_jobs.queries import DEAD_AFTER_SECONDS, MAX_COUNTED, QueueHealth, TypeCounts

RECENT_SECONDS: Final = 300.0
LISTED_JOBS: Final = 5

SELECT_COUNTERS: Final[LiteralString] = """
    SELECT clock_timestamp() AS at, current_database() AS database,
           sum(n_tup_ins) FILTER (WHERE relname = 'job')::bigint AS submitted,
           sum(n_tup_ins) FILTER (WHERE relname = 'job_lease')::bigint AS started,
           sum(n_tup_del) FILTER (WHERE relname = 'job_lease')::bigint AS ended
      FROM pg_stat_user_tables
     WHERE schemaname = 'jobs' AND relname IN ('job', 'job_lease')
"""
# $1 tenant or NULL, $2 most rows. The first of each type by number is the one that has waited longest there.
SELECT_WAITING_AGES: Final[LiteralString] = """
    SELECT first.type, extract(epoch FROM jobs.clock() - j.scheduled_at)::float8 AS seconds
      FROM (SELECT DISTINCT ON (type) type, tenant_id, job_id
              FROM (SELECT type, seq, tenant_id, job_id FROM jobs.job_ready
                     WHERE $1::uuid IS NULL OR tenant_id = $1 LIMIT $2) AS ready
             ORDER BY type, seq) AS first
      JOIN jobs.job j ON j.tenant_id = first.tenant_id AND j.job_id = first.job_id
"""
SELECT_RUNNING_AGES: Final[LiteralString] = """
    SELECT type, extract(epoch FROM jobs.clock() - min(started_at))::float8 AS seconds
      FROM jobs.job_lease WHERE $1::uuid IS NULL OR tenant_id = $1
     GROUP BY type
"""
SELECT_RECENT_FAILURES: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job
             WHERE failed_at >= jobs.clock() - make_interval(secs => $3)
               AND ($1::uuid IS NULL OR tenant_id = $1) LIMIT $2) AS failed
     GROUP BY type
"""
SELECT_LONGEST: Final[LiteralString] = """
    SELECT l.job_id, l.tenant_id, l.type, l.owner, l.attempt,
           extract(epoch FROM jobs.clock() - l.started_at)::float8 AS seconds,
           j.progress ->> 'percent' AS percent, j.progress ->> 'message' AS message
      FROM (SELECT * FROM jobs.job_lease WHERE $1::uuid IS NULL OR tenant_id = $1
             ORDER BY started_at, job_id LIMIT $2) AS l
      JOIN jobs.job j ON j.tenant_id = l.tenant_id AND j.job_id = l.job_id
     ORDER BY l.started_at, l.job_id
"""
SELECT_LATEST_FAILURES: Final[LiteralString] = """
    SELECT failed.job_id, failed.tenant_id, failed.type, failed.status,
           extract(epoch FROM jobs.clock() - failed.failed_at)::float8 AS seconds,
           failed.last_error ->> 'code' AS code, left(failed.last_error ->> 'message', 200) AS message
      FROM (SELECT job_id, tenant_id, type, status, failed_at, last_error FROM jobs.job
             WHERE failed_at IS NOT NULL AND ($1::uuid IS NULL OR tenant_id = $1) LIMIT $3) AS failed
     ORDER BY failed.failed_at DESC, failed.job_id DESC
     LIMIT $2
"""
SELECT_WORKERS: Final[LiteralString] = """
    SELECT w.owner, cardinality(w.types) AS types,
           extract(epoch FROM jobs.clock() - w.started_at)::float8 AS up_seconds,
           extract(epoch FROM jobs.clock() - w.heartbeat_at)::float8 AS silent_seconds,
           (SELECT count(*) FROM jobs.job_lease l WHERE l.owner = w.owner) AS running
      FROM jobs.job_worker w
     ORDER BY w.started_at, w.owner
     LIMIT $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """The jobs of one type."""

    type: str
    counts: TypeCounts
    waiting_seconds: float | None  # of the one that has been ready longest
    running_seconds: float | None  # of the one that has run longest
    recent_failures: int  # failed or dead-lettered within `RECENT_SECONDS`


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """One of the jobs that have run longest."""

    job_id: UUID
    tenant_id: UUID
    type: str
    owner: str
    attempt: int
    seconds: float
    percent: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """One of the latest failures."""

    job_id: UUID
    tenant_id: UUID
    type: str
    status: str
    seconds: float
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker session, alive or not yet removed."""

    owner: str
    types: int
    running: int
    up_seconds: float
    silent_seconds: float

    @property
    def is_live(self) -> bool:
        return self.silent_seconds <= DEAD_AFTER_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """All that is shown, at one moment; the last three count since the database's statistics began."""

    at: datetime
    database: str
    health: QueueHealth
    rows: Sequence[QueueRow]
    longest: Sequence[RunningJob]
    failures: Sequence[FailedJob]
    workers: Sequence[WorkerRow]
    submitted: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened in a second, on average between two looks."""

    submitted: float
    started: float
    ended: float


async def look_at_queue(conn: Connection, tenant: UUID | None = None) -> QueueView:
    """Look once, at one tenant or at all that `conn` sees. Workers and counters are always those of all tenants."""
    counters = await conn.fetchrow(SELECT_COUNTERS)
    assert counters is not None
    return QueueView(
        at=counters["at"],
        database=counters["database"],
        health=await queries.get_health(conn, tenant),
        rows=await _list_rows(conn, tenant),
        longest=[RunningJob(**row) for row in await conn.fetch(SELECT_LONGEST, tenant, LISTED_JOBS)],
        failures=[
            FailedJob(**row) for row in await conn.fetch(SELECT_LATEST_FAILURES, tenant, LISTED_JOBS, MAX_COUNTED)
        ],
        workers=[WorkerRow(**row) for row in await conn.fetch(SELECT_WORKERS, 1_000)],
        submitted=counters["submitted"] or 0,
        started=counters["started"] or 0,
        ended=counters["ended"] or 0,
    )


async def _list_rows(conn: Connection, tenant: UUID | None) -> list[QueueRow]:
    counts = await queries.count_by_type(conn, tenant)
    waiting = await _map_types(conn, SELECT_WAITING_AGES, tenant, MAX_COUNTED)
    running = await _map_types(conn, SELECT_RUNNING_AGES, tenant)
    failures = await _map_types(conn, SELECT_RECENT_FAILURES, tenant, MAX_COUNTED, RECENT_SECONDS)
    return [
        QueueRow(
            type=name,
            counts=counts.get(name, TypeCounts()),
            waiting_seconds=waiting.get(name),
            running_seconds=running.get(name),
            recent_failures=int(failures.get(name, 0)),
        )
        for name in sorted({*counts, *running, *failures})
    ]


async def _map_types(conn: Connection, statement: str, *arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in await conn.fetch(statement, *arguments)}  # noqa: C416 (rows, not pairs)


def compute_rates(earlier: QueueView, later: QueueView) -> Rates | None:
    """None if no time has passed, or if the counters were reset in between."""
    seconds = (later.at - earlier.at).total_seconds()
    differences = {name: getattr(later, name) - getattr(earlier, name) for name in ("submitted", "started", "ended")}
    if seconds <= 0 or min(differences.values()) < 0:
        return None
    return Rates(**{name: difference / seconds for name, difference in differences.items()})


def to_json_value(view: QueueView, rates: Rates | None) -> Mapping[str, Any]:
    """One look as `--json` prints it."""
    return {"view": view, "rates": rates}
