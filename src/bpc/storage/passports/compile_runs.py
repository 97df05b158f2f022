"""Bulk compiles: a run of many passports, a row for each.

How a row stands is found out, not written down: it follows from its version and from the job that would be next. So it
is true after a retry as well, whoever asked for that.

    no version asked for yet   COMPILE_ROW         WAITING
    asked for                  COMPILE_PASSPORT    COMPILING, until it is signed, has its code and, if wanted, counts
    signed, with its code                          ISSUED
    activated                                      ACTIVE, whatever became of it later
    compiled once, and removed by retention        REMOVED: only what was signed ever is; its chain, or an anchor, stays
    the job that is next is over without success   FAILED or CANCELLED

A row that has not begun when its run is cancelled never begins: who begins one holds the run's lock.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString, get_args
from uuid import UUID

import asyncpg

from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import (
    ActorId,
    AggregateId,
    BatteryProductId,
    CompileRunId,
    JobId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

RowStatus = Literal["WAITING", "COMPILING", "ISSUED", "ACTIVE", "REMOVED", "FAILED", "CANCELLED"]
STATUSES: Final[tuple[RowStatus, ...]] = get_args(RowStatus)
UNFINISHED: Final[frozenset[RowStatus]] = frozenset({"WAITING", "COMPILING"})

INSERT: Final[LiteralString] = """
    INSERT INTO compile_runs (tenant_id, run_id, rule_package_version_id, activate, total, batch_id, created_at,
                              created_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
INSERT_ROWS: Final[LiteralString] = """
    INSERT INTO compile_run_rows (tenant_id, run_id, row_number, sku, name, snapshot_id, activate, problem_code,
                                  problem_message)
    SELECT $1, $2, w.row_number, w.sku, w.name, w.snapshot_id, w.activate, w.problem_code, w.problem_message
      FROM unnest($3::int[], $4::text[], $5::text[], $6::uuid[], $7::boolean[], $8::text[], $9::text[])
        AS w(row_number, sku, name, snapshot_id, activate, problem_code, problem_message)
"""
COLUMNS: Final[LiteralString] = """
    run_id, rule_package_version_id, activate, total, created_at, created_by, cancelled_at
"""
ONE: Final[LiteralString] = f"SELECT {COLUMNS} FROM compile_runs WHERE tenant_id = $1 AND run_id = $2"
LOCKED: Final[LiteralString] = f"{ONE} FOR NO KEY UPDATE"
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM compile_runs
     WHERE tenant_id = $1 AND (created_at, run_id) < ($2, $3)
     ORDER BY created_at DESC, run_id DESC
     LIMIT $4
"""
CANCEL: Final[LiteralString] = "UPDATE compile_runs SET cancelled_at = $3 WHERE tenant_id = $1 AND run_id = $2"
# Any number of rows of a run begin at a time; whoever cancels it waits for them, and they for that.
LOCKED_ROW: Final[LiteralString] = """
    SELECT r.sku, r.name, r.snapshot_id, r.activate, r.passport_version_id, c.rule_package_version_id, c.cancelled_at
      FROM compile_run_rows r
      JOIN compile_runs c ON c.tenant_id = r.tenant_id AND c.run_id = r.run_id
     WHERE r.tenant_id = $1 AND r.run_id = $2 AND r.row_number = $3
       FOR NO KEY UPDATE OF r FOR SHARE OF c
"""
ASKED_FOR: Final[LiteralString] = """
    UPDATE compile_run_rows SET passport_version_id = $4, problem_code = NULL, problem_message = NULL
     WHERE tenant_id = $1 AND run_id = $2 AND row_number = $3
"""
SET_PROBLEM: Final[LiteralString] = """
    UPDATE compile_run_rows SET problem_code = $4, problem_message = $5
     WHERE tenant_id = $1 AND run_id = $2 AND row_number = $3
"""
# Rows, each with its version and the job that is next for it, or was the last; each is looked up by its key.
STANDING: Final[LiteralString] = """
    SELECT r.row_number, r.sku, r.activate, r.passport_version_id, v.status::text AS passport_version_status,
           r.problem_code, r.problem_message, j.job_id, j.last_error::text AS last_error,
           next.type AS next_type, found.status,
           CASE WHEN found.status = 'CANCELLED' AND r.passport_version_id IS NULL
                THEN least(c.cancelled_at, j.finished_at)  -- its job may run again, and then does nothing
                ELSE coalesce(j.finished_at, v.activated_at, v.created_at, c.created_at) END AS ended_at
      FROM compile_run_rows r
      JOIN compile_runs c ON c.tenant_id = $1 AND c.run_id = r.run_id
      LEFT JOIN passport_versions v ON v.tenant_id = $1 AND v.passport_version_id = r.passport_version_id
     CROSS JOIN LATERAL (
       SELECT CASE WHEN r.passport_version_id IS NULL THEN 'COMPILE_ROW'
                   WHEN v.passport_version_id IS NULL THEN 'COMPILE_PASSPORT'
                   WHEN v.status = 'COMPILING' THEN 'SIGN_PASSPORT'
                   WHEN v.qr_png IS NULL OR NOT r.activate THEN 'GENERATE_QR'
                   ELSE 'ACTIVATE_PASSPORT' END AS type,
              CASE WHEN r.passport_version_id IS NULL THEN 'row:' || r.run_id || ':' || r.row_number
                   WHEN v.passport_version_id IS NULL THEN 'compile:' || r.passport_version_id
                   WHEN v.status = 'COMPILING' THEN 'sign:' || r.passport_version_id
                   WHEN v.qr_png IS NULL OR NOT r.activate THEN 'qr:' || r.passport_version_id
                   ELSE 'activate:' || r.passport_version_id END AS key) AS next
      LEFT JOIN LATERAL (
        SELECT job_id, status, last_error, finished_at FROM jobs.job
         WHERE tenant_id = $1 AND type = next.type AND idempotency_key = next.key COLLATE "C" LIMIT 1) AS j ON true
     CROSS JOIN LATERAL (
       SELECT CASE
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
               WHEN j.status IN ('FAILED', 'DEAD_LETTER') THEN 'FAILED'
               WHEN j.status = 'CANCELLED' THEN 'CANCELLED'
               WHEN r.passport_version_id IS NULL AND r.problem_code IS NOT NULL AND j.job_id IS NULL THEN 'FAILED'
               WHEN r.passport_version_id IS NULL AND c.cancelled_at IS NOT NULL THEN 'CANCELLED'
               WHEN j.job_id IS NULL THEN 'FAILED'
               WHEN r.passport_version_id IS NULL THEN 'WAITING'
               ELSE 'COMPILING'
             END AS status) AS found
     WHERE r.tenant_id = $1 AND r.run_id = $2
"""
ROWS: Final[LiteralString] = f"""
    {STANDING} AND r.row_number > $3 AND ($5::text IS NULL OR found.status = $5)
     ORDER BY r.row_number
     LIMIT $4
"""
COUNTS: Final[LiteralString] = f"""
    SELECT status, count(*) AS rows, max(ended_at) AS ended_at FROM ({STANDING}) AS standing GROUP BY status
"""
STARTED: Final[LiteralString] = """
    SELECT min(j.started_at)
      FROM compile_runs c JOIN jobs.job j ON j.tenant_id = $1 AND j.batch_id = c.batch_id
     WHERE c.tenant_id = $1 AND c.run_id = $2
"""
# What is known of products by their SKU, for deciding about many at once.
KNOWN: Final[LiteralString] = """
    SELECT w.sku, b.battery_product_id, p.passport_id
      FROM unnest($2::text[]) AS w(sku)
      JOIN battery_products b ON b.tenant_id = $1 AND b.sku = w.sku
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.battery_product_id = b.battery_product_id
"""
EVERY_SKU: Final[LiteralString] = """
    SELECT sku FROM battery_products WHERE tenant_id = $1 AND is_active ORDER BY created_at, battery_product_id LIMIT $2
"""

# By the job that would be next.
HOW_FAR: Final[Mapping[str, str]] = {
    "COMPILE_ROW": "it was not begun",
    "COMPILE_PASSPORT": "it was not compiled",
    "SIGN_PASSPORT": "it was compiled and not signed",
    "GENERATE_QR": "it was signed and has no QR code",
    "ACTIVATE_PASSPORT": "it was issued and not activated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a row will not be done."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A passport that is asked for. With a `problem` it is on the list and never begun."""

    sku: str
    name: str | None = None
    snapshot_id: SnapshotId | None = None
    activate: bool = False
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was asked for."""

    run_id: CompileRunId
    rule_package_version_id: RulePackageVersionId
    activate: bool
    total: int
    created_at: datetime
    created_by: ActorId | None
    cancelled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is. `finished_at` is None until every row has come to its end."""

    counts: Mapping[RowStatus, int]
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedRow:
    """A row that is ours to begin; of a run that nobody cancels until we are done."""

    sku: str
    name: str | None
    snapshot_id: SnapshotId | None
    activate: bool
    passport_version_id: PassportVersionId | None
    rule_package_version_id: RulePackageVersionId
    cancelled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How a row stands. `job_id` is the job that is next for it, or was the last, where that is still kept."""

    row_number: int
    sku: str
    activate: bool
    status: RowStatus
    passport_version_id: PassportVersionId | None
    passport_version_status: str | None
    problem: Problem | None
    job_id: JobId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product, and its passport if it has one."""

    battery_product_id: BatteryProductId
    passport_id: PassportId | None


class RunUnknown(NotFound):
    def __init__(self, run: CompileRunId) -> None:
        super().__init__(f"there is no compile run `{run}`", fix="GET /v1/compile-runs lists those there are")


class AlreadyCancelled(Conflict):
    def __init__(self, run: CompileRunId) -> None:
        super().__init__(f"compile run `{run}` is cancelled already", fix="start a new one")


def stream(tenant: TenantId, run: CompileRunId) -> Stream:
    return Stream(tenant, "CompileRun", AggregateId(run))


def key_of(run: CompileRunId, row_number: int) -> str:
    """The idempotency key of the job that begins a row."""
    return f"row:{run}:{row_number}"


async def create(
    conn: Connection,
    tenant: TenantId,
    run: CompileRunId,
    rows: Sequence[Wanted],
    *,
    rule_version: RulePackageVersionId,
    activate: bool,
    batch: UUID | None,
    act: Act,
) -> None:
    """A new run, on record."""
    await conn.execute(INSERT, tenant, run, rule_version, activate, len(rows), batch, act.at, act.actor_id)
    await conn.execute(
        INSERT_ROWS,
        tenant,
        run,
        list(range(1, len(rows) + 1)),
        [row.sku for row in rows],
        [row.name for row in rows],
        [row.snapshot_id for row in rows],
        [row.activate for row in rows],
        [None if row.problem is None else row.problem.code for row in rows],
        [None if row.problem is None else row.problem.message for row in rows],
    )
    payload = {"rule_package_version_id": str(rule_version), "rows": len(rows), "activate": activate}
    await events.append(conn, stream(tenant, run), act.says("COMPILE_RUN_REQUESTED", payload))


async def get(conn: Connection, tenant: TenantId, run: CompileRunId) -> Run:
    return await _one(conn, ONE, tenant, run)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Run]:
    """Runs, newest first."""
    return [Run(**dict(row)) for row in await conn.fetch(PAGE, tenant, *ask)]


async def standing(conn: Connection, tenant: TenantId, run: CompileRunId) -> Standing:
    """How far a run is, by looking at each of its rows."""
    found = await conn.fetch(COUNTS, tenant, run)
    counts: dict[RowStatus, int] = {row["status"]: row["rows"] for row in found}
    ended = None if counts.keys() & UNFINISHED else max((row["ended_at"] for row in found), default=None)
    return Standing(counts=counts, started_at=await conn.fetchval(STARTED, tenant, run), finished_at=ended)


async def rows(
    conn: Connection, tenant: TenantId, run: CompileRunId, *, after: int, most: int, status: RowStatus | None = None
) -> Sequence[Row]:
    """Rows in the order they were asked for, after a number, of one status or of any."""
    return [_row(row) for row in await conn.fetch(ROWS, tenant, run, after, most, status)]


async def cancel(conn: Connection, tenant: TenantId, run: CompileRunId, *, act: Act) -> None:
    """Let no row begin that has not begun, on record."""
    if (await _one(conn, LOCKED, tenant, run)).cancelled_at is not None:
        raise AlreadyCancelled(run)
    await conn.execute(CANCEL, tenant, run, act.at)
    await events.append(conn, stream(tenant, run), act.says("COMPILE_RUN_CANCELLED", {}))


async def locked_row(conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int) -> LockedRow:
    """The row, for whoever begins it."""
    row = await conn.fetchrow(LOCKED_ROW, tenant, run, row_number)
    if row is None:
        raise RunUnknown(run)
    return LockedRow(**dict(row))


async def set_version(
    conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int, version: PassportVersionId
) -> None:
    """The version that a row has asked for; what stood in its way before does not any more."""
    await conn.execute(ASKED_FOR, tenant, run, row_number, version)


async def set_problem(conn: Connection, tenant: TenantId, run: CompileRunId, row_number: int, problem: Problem) -> None:
    """Why a row could not begin."""
    await conn.execute(SET_PROBLEM, tenant, run, row_number, problem.code, problem.message)


async def known(conn: Connection, tenant: TenantId, skus: Sequence[str]) -> Mapping[str, Product]:
    """The products that have one of these SKUs, by it."""
    return {
        row["sku"]: Product(battery_product_id=row["battery_product_id"], passport_id=row["passport_id"])
        for row in await conn.fetch(KNOWN, tenant, skus)
    }


async def every_sku(conn: Connection, tenant: TenantId, *, most: int) -> Sequence[str]:
    """The SKUs of products that are active, oldest first."""
    return [row["sku"] for row in await conn.fetch(EVERY_SKU, tenant, most)]


async def _one(conn: Connection, statement: LiteralString, tenant: TenantId, run: CompileRunId) -> Run:
    row = await conn.fetchrow(statement, tenant, run)
    if row is None:
        raise RunUnknown(run)
    return Run(**dict(row))


def _row(row: asyncpg.Record) -> Row:
    columns = dict(row)
    error, code, message = map(columns.pop, ("last_error", "problem_code", "problem_message"))
    next_type, _ = map(columns.pop, ("next_type", "ended_at"))
    problem = None
    if columns["status"] == "FAILED":
        problem = _problem(error, code, message, next_type)
    return Row(**columns, problem=problem)


def _problem(error: str | None, code: str | None, message: str | None, next_type: str) -> Problem:
    """What the job says, or what was kept of it."""
    if error is not None:
        said = json.loads(error)
        return Problem(code=said["code"], message=said["message"])
    if code is not None and message is not None:
        return Problem(code=code, message=message)
    how_far = HOW_FAR[next_type]
    return Problem(code="NOT_FOUND", message=f"{how_far}, and the job that would say why is no longer kept")
