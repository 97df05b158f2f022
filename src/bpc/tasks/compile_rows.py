"""Bulk compiles: one request for many passports. Each row has a job of its own and succeeds or fails on its own.

    request_run ─► COMPILE_ROW, one per row ─► product, passport, sealed snapshot ─► COMPILE_PASSPORT and the next steps
                                         └──► nothing, if the active version says what a new one would say today

A row uses one transaction. Either its passport has everything it needs and the compile is requested, or nothing has
changed and the row has the reason.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

from service_jobs import LOW, NORMAL, Context, Handler, Handlers, JobError, JobQueue, Jobs

from bpc.core.audit.events import Act
from bpc.core.errors import NotFound
from bpc.core.formats.ids import (
    ActorId,
    BatteryProductId,
    CompileRunId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.readiness.trial import TrialRules
from bpc.pipeline.compile import request_compile
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.snapshot import snapshot_product
from bpc.pipeline.trial import find_same_version
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.jobs import load_job_input, make_subject
from bpc.storage.passports import compile_runs, passports, products
from bpc.storage.passports.compile_run_progress import CompileRowProblem, CompileRowRequest
from bpc.storage.passports.compile_runs import LockedCompileRow
from bpc.storage.passports.products import ProductPassport, find_products_by_sku
from bpc.storage.rules import packages
from bpc.tasks.finish_runs import RunWatchOrder, RunWatchOutcome, choose_pause, watch_key

ROWS_AT_ONCE: Final = 500  # that are prepared without a pause
PRIORITY: Final = LOW  # a request for one passport does not wait for thousands of rows
COMPILE_PRIORITY: Final = NORMAL  # a compile that was requested alone is HIGH


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The row to start."""

    run_id: CompileRunId
    row_number: int
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome:
    """What became of a row: its version and the job that compiles it, or why there is none."""

    run_id: CompileRunId
    row_number: int
    sku: str
    status: Literal["REQUESTED", "UNCHANGED", "STARTED_BEFORE", "CANCELLED"]
    passport_version_id: PassportVersionId | None
    compile_job_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRun:
    """A requested run, and the jobs that start its rows."""

    run_id: CompileRunId
    rows: int
    job_ids: Sequence[UUID]


async def request_run(
    conn: Connection,
    jobs: Jobs,
    job: Handler[RowOrder, Any],
    tenant: TenantId,
    rows: Sequence[CompileRowRequest],
    *,
    finish_job: Handler[RunWatchOrder, RunWatchOutcome],
    rule_version: RulePackageVersionId,
    activate: bool,
    skip_unchanged: bool = False,
    act: Act,
    correlation_id: str | None = None,
) -> RequestedRun:
    """Store and record the run, and submit a job for each row that has no problem, and one that records its end."""
    run = CompileRunId(clock.new_id())
    orders, keys, subjects = [], [], []
    for number, row in enumerate(rows, start=1):
        if number % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)  # there may be many thousands, and others wait for this event loop
        if row.problem is None:
            orders.append(RowOrder(run_id=run, row_number=number, actor_id=act.actor_id))
            keys.append(compile_runs.row_job_key(run, number))
            subjects.append(make_subject("compile_run", run, sku=row.sku))
    batch = await jobs.submit_batch(
        job,
        orders,
        tenant=tenant,
        conn=conn,
        keys=keys,
        subjects=subjects,
        priority=PRIORITY,
        name=f"compile run {run}",
        correlation_id=correlation_id,
        actor=None if act.actor_id is None else str(act.actor_id),
    )
    await compile_runs.insert_run(
        conn,
        tenant,
        run,
        rows,
        rule_version=rule_version,
        activate=activate,
        skip_unchanged=skip_unchanged,
        batch=batch.batch_id,
        act=act,
    )
    watch = RunWatchOrder(run_id=run)
    await jobs.submit(
        finish_job, watch, tenant=tenant, conn=conn, key=watch_key(watch), priority=PRIORITY, delay=choose_pause(0)
    )
    return RequestedRun(run_id=run, rows=len(rows), job_ids=batch.job_ids)


def declare_row_job(
    handlers: Handlers,
    *,
    compile_job: Handler[CompileOrder, Any],
    compiler_build_id: str,
    signing_key_id: str,
    max_steps: int,
) -> Handler[RowOrder, RowOutcome]:
    """The job COMPILE_ROW. A row that was started, or whose run is cancelled, stays as it is."""

    @handlers.job(
        "COMPILE_ROW",
        subject=lambda order: make_subject("compile_run", order.run_id),
        description="Starts one row of a bulk compile.",
    )
    async def run(ctx: Context, order: RowOrder) -> RowOutcome:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        row = await compile_runs.lock_row(conn, tenant, order.run_id, order.row_number)
        outcome = RowOutcome(
            run_id=order.run_id,
            row_number=order.row_number,
            sku=row.sku,
            status="CANCELLED" if row.passport_version_id is None else "STARTED_BEFORE",
            passport_version_id=row.passport_version_id,
            compile_job_id=None,
        )
        if row.passport_version_id is not None or row.cancelled_at is not None:
            return outcome
        act = Act(order.actor_id, clock.now())
        product = (await find_products_by_sku(conn, tenant, [row.sku])).get(row.sku)
        if row.skip_unchanged and product is not None:
            rules = await _load_rules(conn, tenant, row, act, max_steps)
            same = await find_same_version(conn, tenant, product, rules, snapshot=row.snapshot_id, pool=ctx.compute)
            if same is not None:
                await compile_runs.set_row_unchanged(
                    conn, tenant, order.run_id, order.row_number, passport=same.passport, version=same.version, act=act
                )
                return replace(outcome, status="UNCHANGED", passport_version_id=same.version)
        passport = await _find_or_create_passport(conn, tenant, row, product, act)
        compile_request = await request_compile(
            conn,
            JobQueue(ctx),
            compile_job,
            tenant,
            passport,
            snapshot=row.snapshot_id or await _snapshot_product(conn, tenant, row.sku, act),
            rule_version=row.rule_package_version_id,
            compiler_build_id=compiler_build_id,
            signing_key_id=signing_key_id,
            act=act,
            activate=row.activate,
            priority=COMPILE_PRIORITY,
        )
        version = compile_request.passport_version_id
        await compile_runs.set_row_version(conn, tenant, order.run_id, order.row_number, version)
        return replace(outcome, status="REQUESTED", passport_version_id=version, compile_job_id=compile_request.job_id)

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        problem = CompileRowProblem(code=error.code, message=error.message)
        await compile_runs.set_row_problem(conn, tenant, order.run_id, order.row_number, problem)

    return run


async def _load_rules(
    conn: Connection, tenant: TenantId, row: LockedCompileRow, act: Act, max_steps: int
) -> TrialRules:
    sources = await packages.load_sources(conn, tenant, row.rule_package_version_id)
    return TrialRules(dsl=sources.dsl, issued_at=act.at, max_steps=max_steps)


async def _find_or_create_passport(
    conn: Connection, tenant: TenantId, row: LockedCompileRow, product: ProductPassport | None, act: Act
) -> PassportId:
    """The passport of the row's product. A missing product or passport is created; concurrent rows get the same one."""
    if product is not None and product.passport_id is not None:
        return product.passport_id
    product_id = await _create_product(conn, tenant, row, act) if product is None else product.battery_product_id
    return await passports.get_or_create_passport(conn, tenant, product_id, act=act)


async def _create_product(conn: Connection, tenant: TenantId, row: LockedCompileRow, act: Act) -> BatteryProductId:
    if row.name is None:
        raise NotFound(
            f"there is no battery product with the SKU `{row.sku}`",
            fix="create it, or give the row a `name` to create it with",
        )
    product = await products.get_or_create_product(conn, tenant, sku=row.sku, name=row.name, act=act)
    return product.battery_product_id


async def _snapshot_product(conn: Connection, tenant: TenantId, sku: str, act: Act) -> SnapshotId:
    snapshot = await snapshot_product(conn, tenant, sku, label=f"{sku}, bulk compile", act=act)
    return snapshot.snapshot_id
