"""Compile runs: many passports in one request, a row for each.

What stands of a run is in `compile_run_progress`.

Starting a row takes a shared lock on the run, so a cancelled run starts no more rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, UnknownResource
from bpc.core.formats.ids import (
    ActorId,
    CompileRunId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions
from bpc.storage.passports.compile_run_progress import CompileRowProblem, CompileRowRequest, CompileRunProgress
from bpc.storage.passports.product_names import find_skus_by_text
from bpc.storage.webhooks.webhook_fanout import append_and_announce

CompileRunStatus = Literal["RUNNING", "FINISHED", "CANCELLED"]
INSERT_RUN: Final[LiteralString] = """
    INSERT INTO compile_runs (tenant_id, run_id, rule_package_version_id, activate, total, batch_id, created_at,
                              created_by, skip_unchanged, is_open)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, true)
"""
ROWS_AT_ONCE: Final = 1_000  # that one statement inserts: encoding them takes a few milliseconds
INSERT_ROWS: Final[LiteralString] = """
    INSERT INTO compile_run_rows (tenant_id, run_id, row_number, sku, name, snapshot_id, activate, problem_code,
                                  problem_message)
    SELECT $1, $2, w.row_number, w.sku, w.name, w.snapshot_id, w.activate, w.problem_code, w.problem_message
      FROM unnest($3::int[], $4::text[], $5::text[], $6::uuid[], $7::boolean[], $8::text[], $9::text[])
        AS w(row_number, sku, name, snapshot_id, activate, problem_code, problem_message)
"""
# A worker of an earlier release records the end, but does not close the run.
IS_RUNNING: Final[LiteralString] = """c.is_open AND c.cancelled_at IS NULL AND NOT EXISTS (
    SELECT FROM events e
     WHERE e.tenant_id = c.tenant_id AND e.aggregate_type = 'CompileRun' AND e.aggregate_id = c.run_id
       AND e.event_type = 'COMPILE_RUN_FINISHED')"""
SELECT_RUNS: Final[LiteralString] = f"""
    SELECT c.run_id, c.rule_package_version_id, c.activate, c.skip_unchanged, c.total, c.created_at, c.created_by,
           c.cancelled_at,
           CASE WHEN c.cancelled_at IS NOT NULL THEN 'CANCELLED' WHEN {IS_RUNNING} THEN 'RUNNING' ELSE 'FINISHED' END
             AS status
      FROM compile_runs c
"""
HAS_STATUS: Final[Mapping[CompileRunStatus, LiteralString]] = {
    "RUNNING": IS_RUNNING,
    "FINISHED": f"c.cancelled_at IS NULL AND NOT ({IS_RUNNING})",
    "CANCELLED": "c.cancelled_at IS NOT NULL",
}
SELECT_RUN: Final[LiteralString] = f"{SELECT_RUNS} WHERE c.tenant_id = $1 AND c.run_id = $2"
# A product is in few runs, so they are looked up by it first.
HAS_PRODUCT: Final[LiteralString] = """c.run_id = ANY(ARRAY(
    SELECT run_id FROM compile_run_rows WHERE tenant_id = $1 AND sku = {}))"""
HAS_ONE_OF_PRODUCTS: Final[LiteralString] = """c.run_id = ANY(ARRAY(
    SELECT run_id FROM compile_run_rows WHERE tenant_id = $1 AND sku = ANY({}::text[])))"""
SELECT_RUN_FOR_UPDATE: Final[LiteralString] = f"{SELECT_RUN} FOR NO KEY UPDATE"
UPDATE_CLOSED: Final[LiteralString] = (
    "UPDATE compile_runs SET is_open = false WHERE tenant_id = $1 AND run_id = $2 AND is_open"
)
UPDATE_CANCELLED: Final[LiteralString] = (
    "UPDATE compile_runs SET cancelled_at = $3 WHERE tenant_id = $1 AND run_id = $2"
)
# Rows of a run may start at the same time; cancelling it waits for them, and they wait for the cancellation.
SELECT_ROW_FOR_UPDATE: Final[LiteralString] = """
    SELECT r.sku, r.name, r.snapshot_id, r.activate, r.passport_version_id, c.rule_package_version_id,
           c.skip_unchanged, c.cancelled_at
      FROM compile_run_rows r
      JOIN compile_runs c ON c.tenant_id = r.tenant_id AND c.run_id = r.run_id
     WHERE r.tenant_id = $1 AND r.run_id = $2 AND r.row_number = $3
       FOR NO KEY UPDATE OF r FOR SHARE OF c
"""
UPDATE_ROW_VERSION: Final[LiteralString] = """
    UPDATE compile_run_rows SET passport_version_id = $4, problem_code = NULL, problem_message = NULL
     WHERE tenant_id = $1 AND run_id = $2 AND row_number = $3
"""
UPDATE_ROW_UNCHANGED: Final[LiteralString] = """
    UPDATE compile_run_rows
       SET passport_version_id = $4, is_unchanged = true, problem_code = NULL, problem_message = NULL
     WHERE tenant_id = $1 AND run_id = $2 AND row_number = $3
"""
UPDATE_ROW_PROBLEM: Final[LiteralString] = """
    UPDATE compile_run_rows SET problem_code = $4, problem_message = $5
     WHERE tenant_id = $1 AND run_id = $2 AND row_number = $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompileRun:
    """A run as it was requested. `status` is FINISHED when its end was recorded, also if rows are retried later."""

    run_id: CompileRunId
    rule_package_version_id: RulePackageVersionId
    activate: bool
    skip_unchanged: bool
    total: int
    created_at: datetime
    created_by: ActorId | None
    cancelled_at: datetime | None
    status: CompileRunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedCompileRow:
    """A row to start, of a run that nobody cancels until the transaction ends."""

    sku: str
    name: str | None
    snapshot_id: SnapshotId | None
    activate: bool
    passport_version_id: PassportVersionId | None
    rule_package_version_id: RulePackageVersionId
    skip_unchanged: bool
    cancelled_at: datetime | None


def row_job_key(run: CompileRunId, row_number: int) -> str:
    """The idempotency key of the job that starts a row."""
    return f"row:{run}:{row_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRunFilter:
    """Which runs to list: those that match every filter that is set.

    `text` is a part of the SKU or the name of a product that was in the run.
    """

    text: str | None = None
    sku: str | None = None
    rule_package_version_id: RulePackageVersionId | None = None
    is_cancelled: bool | None = None
    status: CompileRunStatus | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def insert_run(
    conn: Connection,
    tenant: TenantId,
    run: CompileRunId,
    rows: Sequence[CompileRowRequest],
    *,
    rule_version: RulePackageVersionId,
    activate: bool,
    skip_unchanged: bool,
    batch: UUID | None,
    act: Act,
) -> None:
    """Insert a run with its rows, and append an event."""
    await conn.execute(
        INSERT_RUN, tenant, run, rule_version, activate, len(rows), batch, act.at, act.actor_id, skip_unchanged
    )
    for start in range(0, len(rows), ROWS_AT_ONCE):
        await _insert_rows(conn, tenant, run, start + 1, rows[start : start + ROWS_AT_ONCE])
    payload = {
        "rule_package_version_id": str(rule_version),
        "rows": len(rows),
        "activate": activate,
        "skip_unchanged": skip_unchanged,
    }
    await events.append_act(conn, act, tenant, "CompileRun", run, "COMPILE_RUN_REQUESTED", payload)


async def _insert_rows(
    conn: Connection, tenant: TenantId, run: CompileRunId, first: int, rows: Sequence[CompileRowRequest]
) -> None:
    await conn.execute(
        INSERT_ROWS,
        tenant,
        run,
        list(range(first, first + len(rows))),
        [row.sku for row in rows],
        [row.name for row in rows],
        [row.snapshot_id for row in rows],
        [row.activate for row in rows],
        [None if row.problem is None else row.problem.code for row in rows],
        [None if row.problem is None else row.problem.message for row in rows],
    )


async def get_run(conn: Connection, tenant: TenantId, run: CompileRunId) -> StoredCompileRun:
    return await fetch_one(conn, StoredCompileRun, SELECT_RUN, tenant, run, kind="compile run")


async def list_runs(
    conn: Connection, tenant: TenantId, filters: CompileRunFilter, page: PageQuery
) -> Sequence[StoredCompileRun]:
    """Runs, newest first. Raises `TextTooCommon`."""
    conditions = ListConditions()
    conditions.add(HAS_PRODUCT, filters.sku)
    if filters.text is not None:
        conditions.add(HAS_ONE_OF_PRODUCTS, await find_skus_by_text(conn, tenant, filters.text))
    conditions.add("c.rule_package_version_id = {}", filters.rule_package_version_id)
    if filters.is_cancelled is not None:
        conditions.add_plain(f"c.cancelled_at IS {'NOT NULL' if filters.is_cancelled else 'NULL'}")
    if filters.status is not None:
        conditions.add_plain(HAS_STATUS[filters.status])
    conditions.add_times("c.created_at", filters.created_after, filters.created_before)
    statement = make_page_query(SELECT_RUNS, time="c.created_at", key="c.run_id", where=conditions.where)
    return await fetch_rows(conn, StoredCompileRun, statement, tenant, *page, *conditions.values)


async def cancel_run(conn: Connection, tenant: TenantId, run: CompileRunId, *, act: Act) -> None:
    """Stop a run, and append an event: rows that have not started will not start."""
    run_row = await fetch_one(conn, StoredCompileRun, SELECT_RUN_FOR_UPDATE, tenant, run, kind="compile run")
    if run_row.cancelled_at is not None:
        raise Conflict(f"compile run `{run}` is already cancelled", fix="start a new one")
    await conn.execute(UPDATE_CANCELLED, tenant, run, act.at)
    await events.append_act(conn, act, tenant, "CompileRun", run, "COMPILE_RUN_CANCELLED", {})


async def record_end(
    conn: Connection, tenant: TenantId, run: CompileRunId, progress: CompileRunProgress, *, act: Act
) -> None:
    """Append the event that every row of a run has ended; webhooks announce it."""
    run_row = await get_run(conn, tenant, run)
    await conn.execute(UPDATE_CLOSED, tenant, run)
    compliance = progress.compliance
    payload = {
        "rule_package_version_id": str(run_row.rule_package_version_id),
        "rows": run_row.total,
        "counts": dict(progress.counts),
        "fail_count": None if compliance is None else compliance.fail,
        "warn_count": None if compliance is None else compliance.warn,
        "cancelled": run_row.cancelled_at is not None,
    }
    await append_and_announce(conn, act, tenant, "CompileRun", run, "COMPILE_RUN_FINISHED", payload)


async def lock_row(conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int) -> LockedCompileRow:
    """The row, locked for the job that starts it."""
    row = await conn.fetchrow(SELECT_ROW_FOR_UPDATE, tenant, run, row_number)
    if row is None:
        raise UnknownResource("compile run", run)
    return LockedCompileRow(**row)


async def set_row_version(
    conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int, version: PassportVersionId
) -> None:
    """Store the version that a row requested, and clear its earlier problem."""
    await conn.execute(UPDATE_ROW_VERSION, tenant, run, row_number, version)


async def set_row_unchanged(
    conn: Connection,
    tenant: TenantId,
    run: CompileRunId,
    row_number: int,
    *,
    passport: PassportId,
    version: PassportVersionId,
    act: Act,
) -> None:
    """Store that a row was left out because `version` says the same, and append an event to the passport."""
    await conn.execute(UPDATE_ROW_UNCHANGED, tenant, run, row_number, version)
    payload = {"run_id": str(run), "passport_version_id": str(version)}
    await events.append_act(conn, act, tenant, "Passport", passport, "COMPILE_SKIPPED", payload)


async def set_row_problem(
    conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int, problem: CompileRowProblem
) -> None:
    """Store why a row could not start."""
    await conn.execute(UPDATE_ROW_PROBLEM, tenant, run, row_number, problem.code, problem.message)
