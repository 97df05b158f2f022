"""/v1/passports:bulk-compile, /v1/compile-runs: passports for many products at once, and the status of each."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Self
from uuid import UUID

from fastapi import Query
from pydantic import AliasChoices, Field, model_validator
from starlette.requests import Request

from bpc.api.access.auth import Forbidden, list_fact_resources, require_allowed, require_not_denied
from bpc.api.http.models import (
    CreatedAfter,
    CreatedBefore,
    Id,
    IdOf,
    Moment,
    Page,
    Paging,
    ProductText,
    RequestBody,
    ResponseBody,
    SkuFilter,
    Text,
    WaitSeconds,
    list_members,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.passports import COMPILE_PERMISSION
from bpc.api.routes.products import Sku
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.cursor import CursorPosition
from bpc.core.formats.ids import CompileRunId, RulePackageVersionId, SnapshotId
from bpc.core.four_eyes import needs_two
from bpc.core.policies import Resource
from bpc.pipeline.compile import RulesNotPublished
from bpc.pipeline.sign import require_key_that_signs
from bpc.storage.access import approvals
from bpc.storage.passports import compile_run_progress, compile_runs, products
from bpc.storage.passports.compile_run_progress import (
    ROW_STATUSES,
    UNFINISHED_STATUSES,
    CompileRowProblem,
    CompileRowRequest,
    CompileRowState,
    CompileRowStatus,
)
from bpc.storage.passports.compile_runs import CompileRunFilter, CompileRunStatus
from bpc.storage.passports.products import ProductPassport
from bpc.storage.rules import packages
from bpc.tasks.compile_rows import request_run

routes = RouteFamily("Bulk compiles", resource="CompileRun")

MAX_ITEMS: Final = 5_000
MAX_PRODUCTS: Final = 50_000
ROWS_AT_ONCE: Final = 500  # that are checked without a pause
CREATE_PRODUCTS: Final = "tenant:admin"
NEXT_STEP: Final = (
    "correct the cause, then compile the product again, or retry the job of the row: POST /v1/jobs/{}:retry"
)
NO_JOB: Final = "correct the cause, then compile the product again"


class BulkItem(RequestBody):
    """One passport to compile."""

    sku: Sku = Field(description="The product it is for.", examples=["SKU-123"])
    name: Text | None = Field(
        None,
        description="The name of the product. If the product does not exist, it is created; that needs `tenant:admin`.",
    )
    snapshot_id: IdOf[SnapshotId] | None = Field(
        None, description="A sealed snapshot. Without it, a snapshot is made from the newest facts about the SKU."
    )
    activate: bool | None = Field(None, description="Activate this version; null takes the value of the request.")


class BulkCompile(RequestBody):
    rule_package_version_id: IdOf[RulePackageVersionId] = Field(description="A PUBLISHED version of rules.")
    # A wrong item ends the check: describing thousands of them would take longer than anything else.
    items: list[BulkItem] | None = Field(
        None, min_length=1, max_length=MAX_ITEMS, fail_fast=True, description="Each SKU once."
    )
    all: bool = Field(False, description="Every active product of the tenant, instead of `items`.")
    failed_of: IdOf[CompileRunId] | None = Field(
        None, description="The rows of this run that failed, as they were requested, instead of `items`."
    )
    activate: bool = Field(False, description="Activate each version as soon as it has its QR code.")
    force: bool = Field(
        False,
        description="Compile every passport. Without it, a passport is left out if a new version would say the same "
        "as its active one.",
    )

    @model_validator(mode="after")
    def _require_one_choice(self) -> Self:
        if [self.items is not None, self.all, self.failed_of is not None].count(True) != 1:
            raise ValueError("send one of `items`, `all` and `failed_of`")
        return self

    @model_validator(mode="after")
    def _require_unique_skus(self) -> Self:
        seen: dict[str, int] = {}
        for at, item in enumerate(self.items or ()):
            if item.sku in seen:
                raise ValueError(f"items {seen[item.sku]} and {at} have the same SKU: a product has one passport")
            seen[item.sku] = at
        return self


class RunRequested(ResponseBody):
    run_id: Id
    rows: int = Field(description="Number of requested passports.", examples=[120])


class ListedCompileRun(ResponseBody):
    run_id: Id
    rule_package_version_id: Id
    activate: bool
    skip_unchanged: bool = Field(description="Whether passports that would say the same again are left out.")
    rows: int = Field(validation_alias=AliasChoices("total", "rows"), examples=[120])
    created_at: Moment
    cancelled_at: Moment | None = Field(description="When the run was stopped; no row started after it.")
    status: CompileRunStatus = Field(
        description="FINISHED: all rows have ended. CANCELLED: it was stopped; rows that had started may still run."
    )


class CompileRun(ListedCompileRun):
    counts: dict[CompileRowStatus, int] = Field(
        description="Number of rows by status; 0 for a status that no row has.", examples=[{"ISSUED": 118, "FAILED": 2}]
    )
    progress: int = Field(description="Percentage of rows that are finished.", examples=[100])
    fail_count: int | None = Field(
        description="Number of compliance entries FAIL in all versions of the run; null if an earlier release compiled "
        "one of them.",
        examples=[3],
    )
    warn_count: int | None = Field(description="The same of entries WARN.", examples=[5])
    started_at: Moment | None = Field(description="When the first row started.")
    finished_at: Moment | None = Field(description="When the last row finished; null until all have finished.")


class RowProblem(ResponseBody):
    """Why a row failed."""

    code: str = Field(examples=["NOT_FOUND"])
    message: str = Field(examples=["there are no facts about `SKU-123`"])
    next_step: str


class CompileRunRow(ResponseBody):
    row: int = Field(description="Its number in the request, from 1.", examples=[1])
    sku: str = Field(examples=["SKU-123"])
    product_name: str | None = Field(
        description="The name of the product, or the one that was sent if there is no product.",
        examples=["Traction battery 75 kWh"],
    )
    status: CompileRowStatus = Field(
        description="WAITING: not started. COMPILING: running. ISSUED: signed and has its QR code. ACTIVE: "
        "activated. SKIPPED: left out, because the version that is active says the same. REMOVED: its version was "
        "removed by retention. The status is derived from the version and its jobs, so it is also right after a retry."
    )
    passport_version_id: Id | None = Field(
        description="Known once the row has started; of a row that was left out, the version that is active."
    )
    passport_version_status: str | None = Field(
        description="The present status of the version; null until it is compiled, and after it was removed."
    )
    fail_count: int | None = Field(description="Number of compliance entries FAIL; null until it is compiled.")
    warn_count: int | None = Field(description="Number of compliance entries WARN; null until it is compiled.")
    waived_count: int = Field(description="Number of compliance entries that are waived.")
    job_id: Id | None = Field(description="The next or last job of the row.")
    error: RowProblem | None


@routes.write(
    "/v1/passports:bulk-compile",
    permission=COMPILE_PERMISSION,
    resource="Passport",
    status=202,
    errors=("NOT_FOUND", "RULE_PKG_NOT_PUBLISHED", "CONFLICT", "SIGNING_KEY_MISSING"),
)
async def bulk_compile(ctx: Context, request: Request, body: BulkCompile) -> RunRequested:
    """Compile passports of many products. Rows are independent: a row that fails does not stop the others.

    A passport whose active version says what a new one would say today is left out, unless `force` is true. A row
    creates what is missing: the product (if it has a name), its passport, and a sealed snapshot of the newest facts. If
    a policy denies the product or the activation, the row fails at once with FORBIDDEN.
    """
    version = body.rule_package_version_id
    require_not_denied(
        ctx, request, [Resource(type="RulePackageVersion", id=version)], COMPILE_PERMISSION, "rules:read"
    )
    await require_key_that_signs(ctx.conn, ctx.tenant, installation_key=ctx.service.settings.signing_key_id)
    version_row = await packages.lock_version_shared(ctx.conn, ctx.tenant, version)
    if version_row.status != "PUBLISHED":
        raise RulesNotPublished(version, version_row.status)
    await packages.require_active_package(ctx.conn, ctx.tenant, version_row.rule_package_id)
    requested_rows = await _build_rows(ctx, body)
    if any(row.activate for row in requested_rows):
        await _require_activation_alone(ctx)
    rows = await _check_rows(ctx, request, requested_rows)
    run = await request_run(
        ctx.conn,
        ctx.service.jobs,
        ctx.service.task_jobs.compile_row,
        ctx.tenant,
        rows,
        finish_job=ctx.service.task_jobs.finish_run,
        rule_version=version,
        activate=body.activate,
        skip_unchanged=not body.force,
        act=ctx.act,
        correlation_id=ctx.correlation_id,
    )
    ctx.submitted.extend(run.job_ids)
    return RunRequested(run_id=run.run_id, rows=run.rows)


@routes.read("/v1/compile-runs", permission="passport:read")
async def list_compile_runs(
    ctx: Context,
    page: Paging,
    sku: Annotated[Text | None, Query(description="Only runs that this product was in.", examples=["SKU-123"])] = None,
    q: ProductText = None,
    rule_package_version_id: Annotated[
        IdOf[RulePackageVersionId] | None, Query(description="Only runs with these rules.")
    ] = None,
    status: Annotated[CompileRunStatus | None, Query(description="Only runs with this status.")] = None,
    cancelled: Annotated[bool | None, Query(description="Only runs that were, or were not, stopped.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[ListedCompileRun]:
    """List bulk compiles, newest first.

    A run is FINISHED at most half a minute after its last row has ended, and stays so if rows are retried. Get a run
    for its counts.
    """
    filters = CompileRunFilter(
        text=q,
        sku=sku,
        rule_package_version_id=rule_package_version_id,
        is_cancelled=cancelled,
        status=status,
        created_after=created_after,
        created_before=created_before,
    )
    return page.build_page(await compile_runs.list_runs(ctx.conn, ctx.tenant, filters, page.query), ListedCompileRun)


@routes.read("/v1/compile-runs/{run_id}", permission="passport:read")
async def get_compile_run(
    ctx: Context, request: Request, run_id: IdOf[CompileRunId], wait_seconds: WaitSeconds = 0
) -> CompileRun:
    """Get a bulk compile with its rows by status. With `wait_seconds` the answer comes once all have ended."""
    run = await _load_run(ctx, run_id)
    request.state.wait_seconds = wait_seconds if run.progress < 100 else 0
    return run


@routes.read("/v1/compile-runs/{run_id}/rows", permission="passport:read")
async def list_compile_run_rows(
    ctx: Context,
    run_id: IdOf[CompileRunId],
    page: Paging,
    status: Annotated[CompileRowStatus | None, Query()] = None,
    sku: SkuFilter = None,
) -> Page[CompileRunRow]:
    """List the rows of a bulk compile in the order of the request.

    The status is computed row by row, so a page of a rare status takes as long as the whole run.
    """
    run = await compile_runs.get_run(ctx.conn, ctx.tenant, run_id)
    after = 0 if page.after is None else page.after.id.int
    rows = await compile_run_progress.list_row_states(
        ctx.conn, ctx.tenant, run.run_id, after=after, limit=page.limit + 1, status=status, sku=sku
    )
    items, cursor = page.cut_page(rows, lambda row: CursorPosition(run.created_at, UUID(int=row.row_number)))
    return Page(items=[_to_run_row(row) for row in items], next_cursor=cursor)


@routes.write("/v1/compile-runs/{run_id}:cancel", permission=COMPILE_PERMISSION)
async def cancel_compile_run(ctx: Context, run_id: IdOf[CompileRunId]) -> CompileRun:
    """Stop a bulk compile: rows that have not started will not start. Rows that are running finish."""
    await compile_runs.cancel_run(ctx.conn, ctx.tenant, run_id, act=ctx.act)
    return await _load_run(ctx, run_id)


async def _build_rows(ctx: RequestContext, body: BulkCompile) -> Sequence[CompileRowRequest]:
    if body.failed_of is not None:
        return await _list_failed_rows(ctx, body.failed_of)
    if body.items is None:
        skus = await products.list_active_skus(ctx.conn, ctx.tenant, limit=MAX_PRODUCTS + 1)
        if not 1 <= len(skus) <= MAX_PRODUCTS:
            has = "no products" if not skus else f"more than {MAX_PRODUCTS:,} products"
            raise Invalid(f"the tenant has {has}", fix="list the products as `items`")
        return [CompileRowRequest(sku=sku, activate=body.activate) for sku in skus]
    return [
        CompileRowRequest(
            sku=item.sku,
            name=item.name,
            snapshot_id=item.snapshot_id,
            activate=body.activate if item.activate is None else item.activate,
        )
        for item in body.items
    ]


async def _list_failed_rows(ctx: RequestContext, run_id: CompileRunId) -> Sequence[CompileRowRequest]:
    run = await compile_runs.get_run(ctx.conn, ctx.tenant, run_id)
    rows = await compile_run_progress.list_failed_requests(ctx.conn, ctx.tenant, run.run_id, limit=MAX_PRODUCTS)
    if not rows:
        raise Conflict(f"no row of compile run `{run_id}` has failed", fix="there is nothing to repeat")
    return rows


async def _require_activation_alone(ctx: RequestContext) -> None:
    """Raise `Conflict` where an activation waits for a second person: a run would activate without one."""
    if needs_two("activate", await approvals.load_four_eyes(ctx.conn, ctx.tenant)):
        raise Conflict(
            "activating waits for a second person in this tenant, so a bulk compile cannot activate",
            fix="leave `activate` out, and activate each version when it is signed",
        )


async def _check_rows(
    ctx: RequestContext, request: Request, rows: Sequence[CompileRowRequest]
) -> list[CompileRowRequest]:
    """Return the rows; a row that the caller may not request gets the reason. Each denial is recorded."""
    products_by_sku = await products.find_products_by_sku(ctx.conn, ctx.tenant, [row.sku for row in rows])
    checked_rows = []
    for number, row in enumerate(rows):
        if number % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)  # others wait for this event loop
        try:
            _require_row_allowed(ctx, request, row, products_by_sku.get(row.sku))
            checked_rows.append(row)
        except Forbidden as refusal:
            problem = CompileRowProblem(code=refusal.code, message=refusal.says)
            checked_rows.append(replace(row, problem=problem))
    return checked_rows


def _require_row_allowed(
    ctx: RequestContext, request: Request, row: CompileRowRequest, product: ProductPassport | None
) -> None:
    """Raise `Forbidden` unless the caller may request this passport alone."""
    if product is None and row.name is not None:
        require_allowed(ctx, request, CREATE_PRODUCTS, Resource(type="BatteryProduct", sku=row.sku))
    product_id, passport_id = (None, None) if product is None else (product.battery_product_id, product.passport_id)
    require_not_denied(ctx, request, [Resource(type="Passport", id=passport_id, sku=row.sku)], COMPILE_PERMISSION)
    battery = Resource(type="BatteryProduct", id=product_id, sku=row.sku)
    require_not_denied(ctx, request, [battery], COMPILE_PERMISSION, "passport:read")
    if row.activate:  # the version's id is not known yet; activating takes the same permission as compiling
        require_not_denied(ctx, request, [Resource(type="PassportVersion", sku=row.sku)], COMPILE_PERMISSION)
    snapshot = Resource(type="DataSnapshot", id=row.snapshot_id)
    require_not_denied(ctx, request, [snapshot], COMPILE_PERMISSION, "snapshot:build")
    if row.snapshot_id is None:  # its facts are not known yet, so the caller must be allowed to see all facts
        require_not_denied(ctx, request, list_fact_resources(ctx), "snapshot:build", "docs:read")


async def _load_run(ctx: RequestContext, run_id: CompileRunId) -> CompileRun:
    run = await compile_runs.get_run(ctx.conn, ctx.tenant, run_id)
    standing = await compile_run_progress.load_progress(ctx.conn, ctx.tenant, run_id)
    ended_count = sum(count for status, count in standing.counts.items() if status not in UNFINISHED_STATUSES)
    if run.status != "CANCELLED":  # rows may have ended just now, or been retried
        run = replace(run, status="RUNNING" if standing.finished_at is None else "FINISHED")
    return CompileRun(
        **dict(ListedCompileRun.model_validate(run)),
        counts={status: standing.counts.get(status, 0) for status in ROW_STATUSES},
        progress=100 * ended_count // run.total,
        fail_count=None if standing.compliance is None else standing.compliance.fail,
        warn_count=None if standing.compliance is None else standing.compliance.warn,
        started_at=standing.started_at,
        finished_at=standing.finished_at,
    )


def _to_run_row(row: CompileRowState) -> CompileRunRow:
    error = None
    if row.problem is not None:
        next_step = NO_JOB if row.job_id is None else NEXT_STEP.format(row.job_id)
        error = RowProblem(code=row.problem.code, message=row.problem.message, next_step=next_step)
    return CompileRunRow.model_validate({**list_members(row), "row": row.row_number, "error": error})
