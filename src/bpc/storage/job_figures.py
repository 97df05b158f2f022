"""How fast the jobs of a tenant go, hour by hour, and which jobs wait for which."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from service_jobs.job import lowest_id_at

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection

MOST_COUNTED: Final = 50_000  # the newest jobs of the time; more are not looked at
# A job is created before it ends, some of them long before: with this much more, few are missed.
CREATED_BEFORE: Final = timedelta(days=1)

# $1 tenant, $2 smallest id, $3 since when, $4 most jobs. The primary key finds them, newest first.
HOURLY: Final[LiteralString] = """
    WITH newest AS (
      SELECT j.status, j.created_at, j.started_at, j.finished_at
        FROM jobs.job j
       WHERE j.tenant_id = $1 AND j.job_id >= $2
       ORDER BY j.job_id DESC
       LIMIT $4)
    SELECT date_trunc('hour', n.finished_at, 'UTC') AS since,
           count(*) FILTER (WHERE n.status = 'SUCCEEDED') AS succeeded,
           count(*) FILTER (WHERE n.status IN ('FAILED', 'DEAD_LETTER')) AS failed,
           count(*) FILTER (WHERE n.status = 'CANCELLED') AS cancelled,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM n.started_at - n.created_at))
             AS wait_seconds_p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM n.started_at - n.created_at))
             AS wait_seconds_p95,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM n.finished_at - n.started_at))
             AS run_seconds_p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM n.finished_at - n.started_at))
             AS run_seconds_p95
      FROM newest n
     WHERE n.finished_at >= $3
     GROUP BY 1
     ORDER BY 1
"""
# What a job waits for, and what waits for it: two sides of the same rows.
DEPENDENCIES: Final[LiteralString] = """
    SELECT 'needs' AS direction, d.needs_id AS other_id, d.met, s.type, s.status
      FROM jobs.job_dependency d
      LEFT JOIN jobs.job_status s ON s.tenant_id = d.tenant_id AND s.job_id = d.needs_id
     WHERE d.tenant_id = $1 AND d.job_id = $2
     UNION ALL
    SELECT 'needed_by', d.job_id, d.met, s.type, s.status
      FROM jobs.job_dependency d
      LEFT JOIN jobs.job_status s ON s.tenant_id = d.tenant_id AND s.job_id = d.job_id
     WHERE d.tenant_id = $1 AND d.needs_id = $2
     ORDER BY 1, 2
     LIMIT $3
"""


async def count_by_hour(conn: Connection, tenant: TenantId, *, since: datetime) -> Sequence[Any]:
    """Jobs that ended, by the hour: how many, how long they waited, and how long their last attempt ran."""
    rows: Sequence[Any] = await conn.fetch(HOURLY, tenant, lowest_id_at(since - CREATED_BEFORE), since, MOST_COUNTED)
    return rows


async def list_dependencies(conn: Connection, tenant: TenantId, job: UUID, *, limit: int) -> Sequence[Any]:
    """The jobs that this one needs, and those that need it."""
    rows: Sequence[Any] = await conn.fetch(DEPENDENCIES, tenant, job, limit)
    return rows
