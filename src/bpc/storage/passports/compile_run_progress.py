"""How far a compile run is: the status of each row, and what they make together.

A row's status is computed from its version and its next job, not stored. So it is right after a retry, too.

    no version requested yet    COMPILE_ROW         WAITING
    requested                   COMPILE_PASSPORT    COMPILING, until it is signed, has a QR code and is activated
    signed, with QR code                            ISSUED
    activated                                       ACTIVE, whatever happens to the version later
    would say the same again                        SKIPPED: the row names the version that is active
    removed by retention                            REMOVED: its chain of events, or an anchor, still exists
    the next job ended without success              FAILED or CANCELLED
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString, get_args

from bpc.core.formats.ids import CompileRunId, JobId, PassportVersionId, SnapshotId, TenantId
from bpc.core.passport.gate import ComplianceCounts
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.passports.passport_versions import COMPLIANCE_COLUMNS

CompileRowStatus = Literal["WAITING", "COMPILING", "ISSUED", "ACTIVE", "SKIPPED", "REMOVED", "FAILED", "CANCELLED"]
ROW_STATUSES: Final[tuple[CompileRowStatus, ...]] = get_args(CompileRowStatus)
UNFINISHED_STATUSES: Final[frozenset[CompileRowStatus]] = frozenset({"WAITING", "COMPILING"})

# Rows, each with its version and its next (or last) job, which is looked up by its key.
SELECT_ROW_STATES: Final[LiteralString] = f"""
    SELECT r.row_number, r.sku,
           coalesce((SELECT b.name FROM battery_products b WHERE b.tenant_id = $1 AND b.sku = r.sku), r.name)
             AS product_name,
           r.activate, r.passport_version_id, v.status::text AS passport_version_status,
           r.problem_code, r.problem_message, j.job_id, j.last_error::text AS last_error,
           next.type AS next_type, state.status, v.fail_count AS stored_fails, v.warn_count AS stored_warns,
           {COMPLIANCE_COLUMNS},
           CASE WHEN state.status = 'CANCELLED' AND r.passport_version_id IS NULL
                THEN least(c.cancelled_at, j.finished_at)  -- its job may run again, and then does nothing
                ELSE coalesce(
                  j.finished_at,
                  (SELECT finished_at FROM jobs.job  -- the job that compiled it, if that also signed it
                    WHERE tenant_id = $1 AND type = 'COMPILE_PASSPORT'
                      AND idempotency_key = ('compile:' || r.passport_version_id) COLLATE "C" LIMIT 1),
                  v.activated_at, v.created_at, c.created_at) END AS ended_at
      FROM compile_run_rows r
      JOIN compile_runs c ON c.tenant_id = $1 AND c.run_id = r.run_id
      LEFT JOIN passport_versions v ON v.tenant_id = $1 AND v.passport_version_id = r.passport_version_id
     CROSS JOIN LATERAL (
       SELECT CASE WHEN r.passport_version_id IS NULL OR r.is_unchanged THEN 'COMPILE_ROW'
                   WHEN v.passport_version_id IS NULL THEN 'COMPILE_PASSPORT'
                   WHEN v.status = 'COMPILING' THEN 'SIGN_PASSPORT'
                   WHEN v.qr_png IS NULL OR NOT r.activate THEN 'GENERATE_QR'
                   ELSE 'ACTIVATE_PASSPORT' END AS type,
              CASE WHEN r.passport_version_id IS NULL OR r.is_unchanged
                   THEN 'row:' || r.run_id || ':' || r.row_number
                   WHEN v.passport_version_id IS NULL THEN 'compile:' || r.passport_version_id
                   WHEN v.status = 'COMPILING' THEN 'sign:' || r.passport_version_id
                   WHEN v.qr_png IS NULL OR NOT r.activate THEN 'qr:' || r.passport_version_id
                   ELSE 'activate:' || r.passport_version_id END AS key) AS next
      LEFT JOIN LATERAL (
        SELECT job_id, status, last_error, finished_at FROM jobs.job
         WHERE tenant_id = $1 AND type = next.type AND idempotency_key = next.key COLLATE "C" LIMIT 1) AS j ON true
     CROSS JOIN LATERAL (
       SELECT CASE
               WHEN r.is_unchanged THEN 'SKIPPED'
               WHEN next.type = 'COMPILE_PASSPORT' AND coalesce(
                 (SELECT true FROM events
                   WHERE tenant_id = $1 AND aggregate_type = 'PassportVersion' AND aggregate_id = r.passport_version_id
                   ORDER BY aggregate_version LIMIT 1),
                 (SELECT true FROM event_anchors
                   WHERE tenant_id = $1 AND aggregate_type = 'PassportVersion'
                     AND aggregate_id = r.passport_version_id),
                 false) THEN 'REMOVED'
               WHEN next.type = 'ACTIVATE_PASSPORT' AND v.activated_at IS NOT NULL THEN 'ACTIVE'
               WHEN next.type = 'GENERATE_QR' AND (v.qr_png IS NOT NULL OR v.status = 'REVOKED') THEN 'ISSUED'
               WHEN v.abandoned_at IS NOT NULL OR j.status IN ('FAILED', 'DEAD_LETTER') THEN 'FAILED'
               WHEN j.status = 'CANCELLED' THEN 'CANCELLED'
               WHEN r.passport_version_id IS NULL AND r.problem_code IS NOT NULL AND j.job_id IS NULL THEN 'FAILED'
               WHEN r.passport_version_id IS NULL AND c.cancelled_at IS NOT NULL THEN 'CANCELLED'
               WHEN j.job_id IS NULL THEN 'FAILED'
               WHEN r.passport_version_id IS NULL THEN 'WAITING'
               ELSE 'COMPILING'
             END AS status) AS state
     WHERE r.tenant_id = $1 AND r.run_id = $2
"""
SELECT_ROW_STATE_PAGE: Final[LiteralString] = f"""
    {SELECT_ROW_STATES} AND r.row_number > $3 AND ($5::text IS NULL OR state.status = $5)
     ORDER BY r.row_number
     LIMIT $4
"""
SELECT_ROW_STATE_PAGE_OF_PRODUCT: Final[LiteralString] = f"""
    {SELECT_ROW_STATES} AND r.row_number > $3 AND ($5::text IS NULL OR state.status = $5) AND r.sku = $6
     ORDER BY r.row_number
     LIMIT $4
"""
COUNT_ROWS_BY_STATUS: Final[LiteralString] = f"""
    SELECT status, count(*) AS rows, max(ended_at) AS ended_at, sum(stored_fails)::int AS fails,
           sum(stored_warns)::int AS warns, count(passport_version_status) = count(stored_fails) AS are_counted
      FROM ({SELECT_ROW_STATES}) AS standing
     GROUP BY status
"""
SELECT_FAILED_REQUESTS: Final[LiteralString] = f"""
    SELECT r.sku, r.name, r.snapshot_id, r.activate
      FROM compile_run_rows r
      JOIN ({SELECT_ROW_STATES}) AS standing ON standing.row_number = r.row_number AND standing.status = 'FAILED'
     WHERE r.tenant_id = $1 AND r.run_id = $2
     ORDER BY r.row_number
     LIMIT $3
"""
SELECT_STARTED_AT: Final[LiteralString] = """
    SELECT min(j.started_at)
      FROM compile_runs c JOIN jobs.job j ON j.tenant_id = $1 AND j.batch_id = c.batch_id
     WHERE c.tenant_id = $1 AND c.run_id = $2
"""

# How far a row came, by its next job.
PROGRESS_BY_NEXT_JOB: Final[Mapping[str, str]] = {
    "COMPILE_ROW": "it did not start",
    "COMPILE_PASSPORT": "it was not compiled",
    "SIGN_PASSPORT": "it was compiled but not signed",
    "GENERATE_QR": "it was signed but has no QR code",
    "ACTIVATE_PASSPORT": "it was issued but not activated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRowProblem:
    """Why a row failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRowRequest:
    """A requested passport. With a `problem` it is listed and never starts."""

    sku: str
    name: str | None = None
    snapshot_id: SnapshotId | None = None
    activate: bool = False
    problem: CompileRowProblem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRunProgress:
    """How far a run is. `finished_at` is None until every row has ended.

    `compliance` counts the entries of all its versions. It is None if an earlier build compiled one of them: to count
    those, each payload would have to be read.
    """

    counts: Mapping[CompileRowStatus, int]
    compliance: ComplianceCounts | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRowState:
    """The status of a row. `job_id` is its next or last job, if that is still stored."""

    row_number: int
    sku: str
    product_name: str | None
    activate: bool
    status: CompileRowStatus
    passport_version_id: PassportVersionId | None
    passport_version_status: str | None
    fail_count: int | None
    warn_count: int | None
    waived_count: int
    problem: CompileRowProblem | None
    job_id: JobId | None


def has_unfinished_rows(progress: CompileRunProgress) -> bool:
    """True while a row waits or compiles."""
    return bool(progress.counts.keys() & UNFINISHED_STATUSES)


async def load_progress(conn: Connection, tenant: TenantId, run: CompileRunId) -> CompileRunProgress:
    """How far a run is. Reads each of its rows."""
    status_rows = await conn.fetch(COUNT_ROWS_BY_STATUS, tenant, run)
    counts: dict[CompileRowStatus, int] = {row["status"]: row["rows"] for row in status_rows}
    finished_at = (
        None if counts.keys() & UNFINISHED_STATUSES else max((row["ended_at"] for row in status_rows), default=None)
    )
    fails, warns = (sum(row[name] or 0 for row in status_rows) for name in ("fails", "warns"))
    return CompileRunProgress(
        counts=counts,
        compliance=ComplianceCounts(fails, warns) if all(row["are_counted"] for row in status_rows) else None,
        started_at=await conn.fetchval(SELECT_STARTED_AT, tenant, run),
        finished_at=finished_at,
    )


async def list_row_states(
    conn: Connection,
    tenant: TenantId,
    run: CompileRunId,
    *,
    after: int,
    limit: int,
    status: CompileRowStatus | None = None,
    sku: str | None = None,
) -> Sequence[CompileRowState]:
    """Rows after a number, in the order of the request; of one status or of any, of one product or of all."""
    arguments = tenant, run, after, limit, status
    if sku is None:
        return await fetch_rows(conn, _to_row_state, SELECT_ROW_STATE_PAGE, *arguments)
    return await fetch_rows(conn, _to_row_state, SELECT_ROW_STATE_PAGE_OF_PRODUCT, *arguments, sku)


async def list_failed_requests(
    conn: Connection, tenant: TenantId, run: CompileRunId, *, limit: int
) -> Sequence[CompileRowRequest]:
    """The rows of a run that failed, as they were requested, in the order of the request."""
    return await fetch_rows(conn, CompileRowRequest, SELECT_FAILED_REQUESTS, tenant, run, limit)


def _to_row_state(
    *,
    status: CompileRowStatus,
    last_error: str | None,
    problem_code: str | None,
    problem_message: str | None,
    next_type: str,
    ended_at: datetime | None,  # noqa: ARG001 (this and the next are columns that only `load_progress` needs)
    stored_fails: int | None,  # noqa: ARG001
    stored_warns: int | None,  # noqa: ARG001
    **columns: Any,
) -> CompileRowState:
    is_failed = status == "FAILED"
    problem = _describe_problem(last_error, problem_code, problem_message, next_type) if is_failed else None
    return CompileRowState(status=status, problem=problem, **columns)


def _describe_problem(
    job_error_json: str | None, code: str | None, message: str | None, next_type: str
) -> CompileRowProblem:
    """The error of the row's job, or the stored problem, or how far the row came."""
    if job_error_json is not None:
        job_error = json.loads(job_error_json)
        return CompileRowProblem(code=job_error["code"], message=job_error["message"])
    if code is not None and message is not None:
        return CompileRowProblem(code=code, message=message)
    progress = PROGRESS_BY_NEXT_JOB[next_type]
    return CompileRowProblem(code="NOT_FOUND", message=f"{progress}; the job with the reason has been deleted")
