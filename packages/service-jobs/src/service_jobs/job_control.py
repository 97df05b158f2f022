"""Control jobs: cancel one, redrive one, redrive many that failed.

Each is one call of a database function, which takes its locks in the common order; this module turns its answers into
values and refusals. Any connection will do: the functions bind the transaction to the tenant.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from service_jobs.context import Connection
from service_jobs.handler import require_type_name
from service_jobs.job import InvalidInput, JobConflict, JobNotFound, Status, is_storable_text

MAX_REASON_LENGTH: Final = 500
MAX_REDRIVEN: Final = 1_000_000
FAILED_STATUSES: Final = frozenset({Status.FAILED, Status.DEAD_LETTER})

# The subquery sees the job as it was before: a statement does not see the changes of the functions it calls.
CANCEL: Final[LiteralString] = """
    SELECT jobs.cancel($1, $2, $3) AS became, (SELECT status FROM jobs.job WHERE tenant_id = $1 AND job_id = $2) AS was
"""
REDRIVE: Final[LiteralString] = "SELECT jobs.redrive($1, $2)"
SELECT_UNMET_DEPENDENCY: Final[LiteralString] = """
    SELECT needs_id FROM jobs.job_dependency
     WHERE tenant_id = $1 AND job_id = $2 AND NOT met
     ORDER BY needs_id
     LIMIT 1
"""
# The dependency that blocks a cancelled job; its status is null if it was removed.
SELECT_FAILED_DEPENDENCY: Final[LiteralString] = """
    SELECT d.needs_id, n.status
      FROM jobs.job_dependency d
      LEFT JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
     WHERE d.tenant_id = $1 AND d.job_id = $2 AND NOT d.met
       AND (n.status IS NULL OR n.status IN ('FAILED', 'DEAD_LETTER', 'CANCELLED'))
     ORDER BY n.status IS NULL DESC, d.needs_id
     LIMIT 1
"""
# The lease is locked before the job, as everywhere; a concurrent caller waits for us and sees what we did.
SELECT_CANCEL_REQUESTED: Final[LiteralString] = """
    SELECT cancel_requested FROM jobs.job_lease WHERE tenant_id = $1 AND job_id = $2 FOR UPDATE
"""
# Rows that another transaction is changing are skipped. Jobs that failed first run first.
REDRIVE_CHUNK: Final[LiteralString] = """
    WITH chosen AS MATERIALIZED (
      SELECT job_id, type, status, attempts - uncounted AS attempts FROM jobs.job
       WHERE tenant_id = $1 AND failed_at IS NOT NULL AND failed_at < $2 AND status = ANY ($3)
         AND ($4::text IS NULL OR type = $4)
       ORDER BY failed_at
       LIMIT $5
         FOR UPDATE SKIP LOCKED)
    SELECT job_id, type, status, attempts, jobs.redrive($1, job_id)
      FROM (SELECT job_id, type, status, attempts FROM chosen ORDER BY job_id) AS in_order
"""
COUNT_FAILED: Final[LiteralString] = """
    SELECT count(*) FROM (
      SELECT FROM jobs.job
       WHERE tenant_id = $1 AND failed_at IS NOT NULL AND status = ANY ($2) AND ($3::text IS NULL OR type = $3)
       LIMIT $4) AS bad
"""

FIX_BY_STATUS: Final = {
    Status.RUNNING: "wait until it ends, or cancel it first",
    Status.SUCCEEDED: "submit a new job to do it again",
}


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """The job had not started, and never will."""

    job_id: UUID


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """It runs and was asked to stop; if it succeeds before it hears that, it has succeeded."""

    job_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RedrivenJob:
    """A job that runs again, with its status before."""

    job_id: UUID
    type: str
    status: Status
    attempts: int


async def cancel_job(
    conn: Connection, tenant: UUID, job_id: UUID, reason: str | None = None
) -> CancelledJob | CancelRequest:
    """Cancel a job. Raises `JobNotFound`, or `JobConflict` if it is over."""
    try:
        row = await conn.fetchrow(CANCEL, tenant, job_id, _require_valid_reason(reason))
    except asyncpg.LockNotAvailableError:
        raise JobConflict(f"job `{job_id}` is being changed by another transaction", fix="try again") from None
    became, was = (None, None) if row is None else (row["became"], row["was"])
    if became is None:
        raise JobNotFound(job_id)
    if became == "CANCELLING":
        return CancelRequest(job_id)
    if became == Status.CANCELLED and was != became:
        return CancelledJob(job_id)
    raise build_over_conflict(job_id, Status(became))


async def is_cancelling(conn: Connection, tenant: UUID, job_id: UUID) -> bool:
    """Whether a job runs and was asked to stop. In a transaction of the tenant, the answer holds until its end."""
    return await conn.fetchval(SELECT_CANCEL_REQUESTED, tenant, job_id) is True


async def redrive_job(conn: Connection, tenant: UUID, job_id: UUID) -> None:
    """Run a job again that ended FAILED or DEAD_LETTER or was cancelled.

    It has all its attempts, starts from its checkpoint, and waits for the jobs it depends on. A job that waits for its
    time runs now. Raises `JobNotFound`, or `JobConflict` in any other state or if a job it depends on must be redriven
    first.
    """
    match await conn.fetchval(REDRIVE, tenant, job_id):
        case None:
            raise JobNotFound(job_id)
        case Status.QUEUED:
            return
        case "READY":
            raise build_waiting_conflict(job_id, "it already waits for a worker", fix="start a worker, if none runs")
        case "BLOCKED":
            dependency_id = await conn.fetchval(SELECT_UNMET_DEPENDENCY, tenant, job_id)
            raise build_waiting_conflict(
                job_id, f"it waits for job {dependency_id}", fix="run that one again, or wait until it succeeds"
            )
        case became:
            status = Status(became)
            raise build_redrive_conflict(job_id, status, fix=await _suggest_fix(conn, tenant, job_id, status))


async def redrive_failed_jobs(
    conn: Connection, tenant: UUID, *, job_type: str | None, status: Status | None, failed_before: datetime, limit: int
) -> list[RedrivenJob]:
    """Run at most `limit` jobs again that failed before a moment, in one transaction."""
    statuses = _select_statuses(status)
    valid_type = None if job_type is None else require_type_name(job_type)
    async with conn.transaction():
        await conn.execute("SELECT jobs.enter($1)", tenant)
        rows = await conn.fetch(REDRIVE_CHUNK, tenant, failed_before, statuses, valid_type, limit)
    return [
        RedrivenJob(job_id=row["job_id"], type=row["type"], status=Status(row["status"]), attempts=row["attempts"])
        for row in rows
    ]


async def count_failed_jobs(
    conn: Connection,
    tenant: UUID,
    *,
    job_type: str | None = None,
    status: Status | None = None,
    limit: int = MAX_REDRIVEN,
) -> int:
    """How many jobs could be redriven now. Call it in a transaction of the tenant."""
    valid_type = None if job_type is None else require_type_name(job_type)
    count = await conn.fetchval(COUNT_FAILED, tenant, _select_statuses(status), valid_type, limit)
    return int(count)


def build_over_conflict(job_id: UUID, status: Status) -> JobConflict:
    """The job cannot be cancelled, because it is over."""
    return _build_conflict(
        job_id, status, f"is over: it ended {status}", "nothing to do: only a job that is not over can be cancelled"
    )


def build_redrive_conflict(job_id: UUID, status: Status, *, fix: str) -> JobConflict:
    """The job cannot be redriven in this status."""
    return _build_conflict(job_id, status, f"is {status} and cannot be run again", fix)


def build_waiting_conflict(job_id: UUID, why: str, *, fix: str) -> JobConflict:
    """The job cannot be redriven, because it waits already."""
    return _build_conflict(job_id, Status.QUEUED, f"cannot be run again: {why}", fix)


def _build_conflict(job_id: UUID, status: Status, problem: str, fix: str) -> JobConflict:
    return JobConflict(f"job `{job_id}` {problem}", fix=fix, details={"job_id": str(job_id), "status": status.value})


async def _suggest_fix(conn: Connection, tenant: UUID, job_id: UUID, status: Status) -> str:
    if status is not Status.CANCELLED:
        return FIX_BY_STATUS[status]
    dependency = await conn.fetchrow(SELECT_FAILED_DEPENDENCY, tenant, job_id)
    if dependency is None or dependency["status"] is None:
        return "submit a new job; the job that this one depends on was removed"
    return f"run job {dependency['needs_id']} again, which this one depends on"


def _select_statuses(status: Status | None) -> list[str]:
    if status is not None and status not in FAILED_STATUSES:
        raise InvalidInput(
            f"only FAILED or DEAD_LETTER jobs can be redriven in bulk, not {status}",
            fix="redrive cancelled jobs one by one",
        )
    return sorted(FAILED_STATUSES) if status is None else [status]


def _require_valid_reason(reason: str | None) -> str | None:
    if reason is not None and (len(reason) > MAX_REASON_LENGTH or not is_storable_text(reason)):
        raise InvalidInput(f"reason must have at most {MAX_REASON_LENGTH} characters of UTF-8 text, and no NUL")
    return reason
