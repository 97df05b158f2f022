"""What people do to jobs: cancel one, run one again, run many again that ended badly.

Each is one call of a function of the database, which takes the locks in the order everybody takes them; here its
answers become values and refusals. `conn` may be anybody's: the functions bind the transaction to the tenant.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.jobs.context import Connection
from bpc.jobs.errors import InvalidInput, JobConflict, JobNotFound
from bpc.jobs.handler import TYPE_NAME
from bpc.jobs.outcome import Status

LONGEST_REASON: Final = 500
MOST: Final = 1_000_000
BAD_ENDS: Final = frozenset({Status.FAILED, Status.DEAD_LETTER})

# The subquery sees the job as it was before: what a function changes is not visible to the statement that calls it.
CANCEL: Final[LiteralString] = """
    SELECT jobs.cancel($1, $2, $3) AS became, (SELECT status FROM jobs.job WHERE tenant_id = $1 AND job_id = $2) AS was
"""
REDRIVE: Final[LiteralString] = "SELECT jobs.redrive($1, $2)"
NEEDED: Final[LiteralString] = """
    SELECT needs_id FROM jobs.job_dependency
     WHERE tenant_id = $1 AND job_id = $2 AND NOT met
     ORDER BY needs_id
     LIMIT 1
"""
# What stands in the way of a job that was cancelled; without a status where it is gone.
IN_THE_WAY: Final[LiteralString] = """
    SELECT d.needs_id, n.status
      FROM jobs.job_dependency d
      LEFT JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
     WHERE d.tenant_id = $1 AND d.job_id = $2 AND NOT d.met
       AND (n.status IS NULL OR n.status IN ('FAILED', 'DEAD_LETTER', 'CANCELLED'))
     ORDER BY n.status IS NULL DESC, d.needs_id
     LIMIT 1
"""
# The lease is locked before the job, as everywhere; who asks at the same moment waits for us and is told what we did.
IS_CANCELLING: Final[LiteralString] = """
    SELECT cancel_requested FROM jobs.job_lease WHERE tenant_id = $1 AND job_id = $2 FOR UPDATE
"""
# What somebody is changing right now is left to them. Those that ended badly first are run first.
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
COUNT: Final[LiteralString] = """
    SELECT count(*) FROM (
      SELECT FROM jobs.job
       WHERE tenant_id = $1 AND failed_at IS NOT NULL AND status = ANY ($2) AND ($3::text IS NULL OR type = $3)
       LIMIT $4) AS bad
"""

NEXT_STEP: Final = {
    Status.RUNNING: "wait until it ends, or cancel it first",
    Status.SUCCEEDED: "submit a new job to have it done again",
}


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It had not started, and never will."""

    job_id: UUID


@dataclass(frozen=True, slots=True)
class Cancelling:
    """It runs and was asked to stop; if it succeeds before it hears that, it has succeeded."""

    job_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """A job that runs again, and what it was before."""

    job_id: UUID
    type: str
    status: Status
    attempts: int


async def cancel(conn: Connection, tenant: UUID, job_id: UUID, reason: str | None = None) -> Cancelled | Cancelling:
    """Cancel a job. Raises `JobNotFound`, or `JobConflict` if it is over."""
    try:
        row = await conn.fetchrow(CANCEL, tenant, job_id, _checked(reason))
    except asyncpg.LockNotAvailableError:
        raise JobConflict(f"job `{job_id}` changes too fast to be cancelled", fix="try again") from None
    became, was = (None, None) if row is None else (row["became"], row["was"])
    if became is None:
        raise JobNotFound(job_id)
    if became == "CANCELLING":
        return Cancelling(job_id)
    if became == Status.CANCELLED and was != became:
        return Cancelled(job_id)
    raise JobConflict(
        f"job `{job_id}` is over: it ended {became}",
        fix="nothing to do: only a job that is not over can be cancelled",
        details={"job_id": str(job_id), "status": became},
    )


async def is_cancelling(conn: Connection, tenant: UUID, job_id: UUID) -> bool:
    """Whether a job runs and was asked to stop. In a transaction of the tenant, and so until it ends."""
    return await conn.fetchval(IS_CANCELLING, tenant, job_id) is True


async def redrive(conn: Connection, tenant: UUID, job_id: UUID) -> None:
    """Run a job again that ended FAILED or DEAD_LETTER, or that somebody cancelled.

    It has all its attempts, starts from its checkpoint, and waits for the jobs it depends on. One that waits for its
    time is run now. Raises `JobNotFound`, or `JobConflict` in any other state, or where a job it depends on has to be
    run again first.
    """
    match await conn.fetchval(REDRIVE, tenant, job_id):
        case None:
            raise JobNotFound(job_id)
        case Status.QUEUED:
            return
        case "READY":
            raise _waiting(job_id, "it already waits for a worker", fix="start a worker, if none runs")
        case "BLOCKED":
            needed = await conn.fetchval(NEEDED, tenant, job_id)
            raise _waiting(job_id, f"it waits for job {needed}", fix="run that one again, or wait until it succeeds")
        case became:
            raise JobConflict(
                f"job `{job_id}` is {became} and cannot be run again",
                fix=await _next_step(conn, tenant, job_id, Status(became)),
                details={"job_id": str(job_id), "status": became},
            )


async def redrive_chunk(
    conn: Connection, tenant: UUID, *, job_type: str | None, status: Status | None, before: datetime, limit: int
) -> list[Redriven]:
    """Run at most `limit` jobs again that ended badly before a moment, in one transaction."""
    statuses, asked_type = _bad(status), _checked_type(job_type)
    async with conn.transaction():
        await conn.execute("SELECT jobs.enter($1)", tenant)
        rows = await conn.fetch(REDRIVE_CHUNK, tenant, before, statuses, asked_type, limit)
    return [
        Redriven(job_id=row["job_id"], type=row["type"], status=Status(row["status"]), attempts=row["attempts"])
        for row in rows
    ]


async def count_bad(
    conn: Connection, tenant: UUID, *, job_type: str | None = None, status: Status | None = None, limit: int = MOST
) -> int:
    """How many jobs could be run again now. In a transaction of the tenant."""
    found = await conn.fetchval(COUNT, tenant, _bad(status), _checked_type(job_type), limit)
    return int(found)


def _waiting(job_id: UUID, why: str, *, fix: str) -> JobConflict:
    return JobConflict(
        f"job `{job_id}` cannot be run again: {why}",
        fix=fix,
        details={"job_id": str(job_id), "status": str(Status.QUEUED)},
    )


async def _next_step(conn: Connection, tenant: UUID, job_id: UUID, status: Status) -> str:
    if status is not Status.CANCELLED:
        return NEXT_STEP[status]
    needed = await conn.fetchrow(IN_THE_WAY, tenant, job_id)
    if needed is None or needed["status"] is None:
        return "submit a new job; what this one depends on is gone"
    return f"run job {needed['needs_id']} again, which this one depends on"


def _bad(status: Status | None) -> list[str]:
    if status is not None and status not in BAD_ENDS:
        raise InvalidInput(
            f"jobs that ended {status} are not run again together",
            fix="ask for FAILED or DEAD_LETTER; jobs that somebody cancelled are run again one by one",
        )
    return sorted(BAD_ENDS) if status is None else [status]


def _checked(reason: str | None) -> str | None:
    if reason is not None and (len(reason) > LONGEST_REASON or "\x00" in reason):
        raise InvalidInput(f"a reason has at most {LONGEST_REASON} characters, none of which is U+0000")
    return reason


def _checked_type(job_type: str | None) -> str | None:
    if job_type is not None and not TYPE_NAME.fullmatch(job_type):
        raise InvalidInput("letters, digits and . : _ - make up a type of job, and at most 100 of them")
    return job_type
