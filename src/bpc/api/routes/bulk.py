"""Bulk compiles: passports for many products at once, and how each of them stands."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Self
from uuid import UUID

from fastapi import Query
from pydantic import Field, model_validator
from starlette.requests import Request as HttpRequest

from bpc.api.caller import Forbidden
from bpc.api.deciding import require_allowed, require_undenied
from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routes.passports import COMPILE
from bpc.api.routes.products import Sku
from bpc.api.routing import Routes
from bpc.api.work import Doing, Work
from bpc.core.cursor import Place
from bpc.core.errors import Invalid
from bpc.core.ids import CompileRunId, RulePackageVersionId, SnapshotId
from bpc.core.policies import Resource
from bpc.db import compile_runs, rules
from bpc.db.compile_runs import STATUSES, UNFINISHED, Problem, Product, Row, RowStatus, Run, Wanted
from bpc.errands.bulk import request_run
from bpc.pipeline.compile import RulesNotPublished

routes = Routes("Bulk compiles")

MOST_ITEMS: Final = 5_000
MOST_PRODUCTS: Final = 50_000
CREATE_PRODUCTS: Final = "tenant:admin"
NEXT_STEP: Final = "put that right, then compile the product again, or retry the row's job: POST /v1/jobs/{}:retry"
NO_JOB: Final = "put that right, then compile the product again"


class BulkItem(Request):
    """A passport that is wanted."""

    sku: Sku = Field(description="The product it is for.", examples=["SKU-123"])
    name: Text | None = Field(
        None,
        description="The name of the product, if it is to be created where it is not there; that needs `tenant:admin`.",
    )
    snapshot_id: Id | None = Field(
        None, description="A sealed snapshot. Without one, a snapshot is made of the newest facts about the SKU."
    )
    activate: bool | None = Field(None, description="Whether this version is to count; what the request says if null.")


class BulkCompile(Request):
    rule_package_version_id: Id = Field(description="A version of rules that is PUBLISHED.")
    items: list[BulkItem] | None = Field(None, min_length=1, max_length=MOST_ITEMS, description="Each SKU once.")
    all: bool = Field(False, description="Every active product of the tenant, instead of `items`.")
    activate: bool = Field(False, description="Activate each version as soon as it has its QR code.")

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.items is not None) == self.all:
            raise ValueError("say either which `items`, or `all`")
        return self

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        seen: dict[str, int] = {}
        for at, item in enumerate(self.items or ()):
            if item.sku in seen:
                raise ValueError(f"items {seen[item.sku]} and {at} have the same SKU: a product has one passport")
            seen[item.sku] = at
        return self


class RunRequested(Answer):
    run_id: Id
    rows: int = Field(description="How many passports are asked for.", examples=[120])


class ListedRun(Answer):
    run_id: Id
    rule_package_version_id: Id
    activate: bool
    rows: int = Field(examples=[120])
    created_at: Moment
    cancelled_at: Moment | None = Field(description="From when on no row began any more.")


class CompileRun(ListedRun):
    counts: dict[RowStatus, int] = Field(
        description="How many rows stand how; a status that no row has is 0.", examples=[{"ISSUED": 118, "FAILED": 2}]
    )
    progress: int = Field(description="How many per cent of the rows have come to their end.", examples=[100])
    started_at: Moment | None = Field(description="When the first row began.")
    finished_at: Moment | None = Field(description="When the last row came to its end; null until all have.")


class RowProblem(Answer):
    """Why a row failed."""

    code: str = Field(examples=["NOT_FOUND"])
    message: str = Field(examples=["there are no facts about `SKU-123`"])
    next_step: str


class CompileRunRow(Answer):
    row: int = Field(description="Its place in the request, from 1 on.", examples=[1])
    sku: str = Field(examples=["SKU-123"])
    status: RowStatus = Field(
        description="WAITING has not begun, COMPILING is under way, ISSUED is signed with its QR code, ACTIVE was "
        "activated, REMOVED was issued and has outlived its time since. It follows from the version and its jobs, so "
        "it is also true after a retry."
    )
    passport_version_id: Id | None = Field(description="Known once the row has begun.")
    passport_version_status: str | None = Field(
        description="What the version is now; null until it is compiled and if removed."
    )
    job_id: Id | None = Field(description="The job that is next for it, or was the last.")
    error: RowProblem | None


@routes.write(
    "/v1/passports:bulk-compile",
    permission=COMPILE,
    resource="Passport",
    status=202,
    errors=("NOT_FOUND", "RULE_PKG_NOT_PUBLISHED"),
)
async def bulk_compile(work: Work, request: HttpRequest, body: BulkCompile) -> RunRequested:
    """Ask for passports of many products at once. Each row is done for itself: one that fails stops no other.

    A row makes what is missing: the product (if it has a name), its passport, a sealed snapshot of the newest facts. A
    row whose product a policy denies, or whose activation, fails at once with FORBIDDEN.
    """
    version = RulePackageVersionId(body.rule_package_version_id)
    require_undenied(work, request, [Resource(type="RulePackageVersion", id=version)], COMPILE, "rules:read")
    found = await rules.shared_version(work.conn, work.tenant, version)
    if found.status != "PUBLISHED":
        raise RulesNotPublished(version, found.status)
    wanted = await _decided(work, request, await _wanted(work, body))
    requested = await request_run(
        work.conn,
        work.service.jobs,
        work.service.errands.compile_row,
        work.tenant,
        wanted,
        rule_version=version,
        activate=body.activate,
        act=work.act,
        correlation_id=work.correlation_id,
    )
    work.submitted.extend(requested.job_ids)
    return RunRequested(run_id=requested.run_id, rows=requested.rows)


@routes.read("/v1/compile-runs", permission="passport:read", resource="CompileRun")
async def list_compile_runs(work: Work, paged: Paged) -> Page[ListedRun]:
    """List bulk compiles, newest first."""
    rows = await compile_runs.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.run_id), lambda row: ListedRun(**_listed(row)))


@routes.read("/v1/compile-runs/{run_id}", permission="passport:read", resource="CompileRun")
async def get_compile_run(work: Work, run_id: Id) -> CompileRun:
    """Get a bulk compile: how many of its rows stand how."""
    return await _shown(work, CompileRunId(run_id))


@routes.read("/v1/compile-runs/{run_id}/rows", permission="passport:read", resource="CompileRun")
async def list_compile_run_rows(
    work: Work, run_id: Id, paged: Paged, status: Annotated[RowStatus | None, Query()] = None
) -> Page[CompileRunRow]:
    """List the rows of a bulk compile in the order they were asked for.

    `status` is found out row by row, so a page of a rare one takes as long as the whole run.
    """
    run = await compile_runs.get(work.conn, work.tenant, CompileRunId(run_id))
    after = 0 if paged.after is None else paged.after.id.int
    rows = await compile_runs.rows(work.conn, work.tenant, run.run_id, after=after, most=paged.limit + 1, status=status)
    return paged.page(rows, lambda row: Place(run.created_at, UUID(int=row.row_number)), _row)


@routes.write("/v1/compile-runs/{run_id}:cancel", permission=COMPILE, resource="CompileRun")
async def cancel_compile_run(work: Work, run_id: Id) -> CompileRun:
    """Let no row of a bulk compile begin that has not begun. What is under way is finished."""
    await compile_runs.cancel(work.conn, work.tenant, CompileRunId(run_id), act=work.act)
    return await _shown(work, CompileRunId(run_id))


async def _wanted(work: Doing, body: BulkCompile) -> list[Wanted]:
    if body.items is None:
        skus = await compile_runs.every_sku(work.conn, work.tenant, most=MOST_PRODUCTS + 1)
        if not 1 <= len(skus) <= MOST_PRODUCTS:
            has = "no products" if not skus else f"more than {MOST_PRODUCTS:,} products"
            raise Invalid(f"the tenant has {has}", fix="name the products that are wanted as `items`")
        return [Wanted(sku=sku, activate=body.activate) for sku in skus]
    return [
        Wanted(
            sku=item.sku,
            name=item.name,
            snapshot_id=None if item.snapshot_id is None else SnapshotId(item.snapshot_id),
            activate=body.activate if item.activate is None else item.activate,
        )
        for item in body.items
    ]


async def _decided(work: Doing, request: HttpRequest, wanted: Sequence[Wanted]) -> list[Wanted]:
    """The rows; those that the caller may not ask for with the reason. Each denial is on record."""
    known = await compile_runs.known(work.conn, work.tenant, [row.sku for row in wanted])
    decided = []
    for row in wanted:
        problem = None
        try:
            _decide(work, request, row, known)
        except Forbidden as refused:
            problem = Problem(code=refused.code, message=refused.says)
        decided.append(
            Wanted(sku=row.sku, name=row.name, snapshot_id=row.snapshot_id, activate=row.activate, problem=problem)
        )
    return decided


def _decide(work: Doing, request: HttpRequest, row: Wanted, known: Mapping[str, Product]) -> None:
    """What asking for this passport alone would be decided by."""
    product = known.get(row.sku)
    if product is None and row.name is not None:
        require_allowed(work, request, CREATE_PRODUCTS, Resource(type="BatteryProduct", sku=row.sku))
    product_id, passport_id = (None, None) if product is None else (product.battery_product_id, product.passport_id)
    require_undenied(work, request, [Resource(type="Passport", id=passport_id, sku=row.sku)], COMPILE)
    battery = Resource(type="BatteryProduct", id=product_id, sku=row.sku)
    require_undenied(work, request, [battery], COMPILE, "passport:read")
    if row.activate:  # the version's id is not known yet; activating takes the same permission as compiling
        require_undenied(work, request, [Resource(type="PassportVersion", sku=row.sku)], COMPILE)
    snapshot = Resource(type="DataSnapshot", id=row.snapshot_id)
    require_undenied(work, request, [snapshot], COMPILE, "snapshot:build")
    if row.snapshot_id is None:  # it will be made of facts that are not known yet: none may be kept from the caller
        require_undenied(work, request, _facts_named(work), "snapshot:build", "docs:read")


def _facts_named(work: Doing) -> list[Resource]:
    """Facts in general, and each that a policy names."""
    about = [policy.conditions.resource for policy in work.caller.policies]
    ids = {fact for each in about if each is not None and each.type == "Fact" for fact in each.ids or ()}
    return [Resource(type="Fact"), *(Resource(type="Fact", id=fact) for fact in ids)]


async def _shown(work: Doing, run_id: CompileRunId) -> CompileRun:
    run = await compile_runs.get(work.conn, work.tenant, run_id)
    found = await compile_runs.standing(work.conn, work.tenant, run_id)
    over = sum(count for status, count in found.counts.items() if status not in UNFINISHED)
    return CompileRun(
        **_listed(run),
        counts={status: found.counts.get(status, 0) for status in STATUSES},
        progress=100 * over // run.total,
        started_at=found.started_at,
        finished_at=found.finished_at,
    )


def _listed(run: Run) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "rule_package_version_id": run.rule_package_version_id,
        "activate": run.activate,
        "rows": run.total,
        "created_at": run.created_at,
        "cancelled_at": run.cancelled_at,
    }


def _row(row: Row) -> CompileRunRow:
    error = None
    if row.problem is not None:
        step = NO_JOB if row.job_id is None else NEXT_STEP.format(row.job_id)
        error = RowProblem(code=row.problem.code, message=row.problem.message, next_step=step)
    return CompileRunRow(
        row=row.row_number,
        sku=row.sku,
        status=row.status,
        passport_version_id=row.passport_version_id,
        passport_version_status=row.passport_version_status,
        job_id=row.job_id,
        error=error,
    )
