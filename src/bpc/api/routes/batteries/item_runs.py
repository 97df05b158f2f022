"""/v1/item-runs: passports of single batteries, issued in bulk from a file; stopped and resumed."""

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import require_allowed
from bpc.api.access.battery_policies import require_passport_not_denied, require_products_not_denied
from bpc.api.http.models import Id, IdOf, Moment, Page, Paging, ResponseBody, Text, WaitSeconds
from bpc.api.http.request_body import SentUpload
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.batteries.batch_passports import describe_installation
from bpc.api.routes.batteries.registration import RowFaultBody, ValidateOnly, read_row_file
from bpc.api.routes.passports import COMPILE_PERMISSION
from bpc.core.batteries.row_files import RowsRefused, describe_faults
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ItemChunkId, ItemRunId, RulePackageVersionId
from bpc.core.items.item_rows import ITEM_COLUMNS, ITEM_REQUIRED
from bpc.core.policies import Resource
from bpc.storage.connection import LOWEST_ID
from bpc.storage.items import chunks, runs
from bpc.storage.items.pack_bucket import locate_packs
from bpc.storage.items.runs import ItemRunStatus
from bpc.tasks.item_run_storage import resume_chunks
from bpc.tasks.item_runs import ItemRunRequest, request_item_run
from bpc.tasks.rebase_items import RebaseJobs, RebaseRequest, request_rebase

routes = RouteFamily("Item runs", resource="ItemRun")

MAX_REFUSALS: Final = 100


class BatteryRunReport(ResponseBody):
    """What became of the rows of a file."""

    run_id: Id | None = Field(description="The run; null if nothing is new, or with `validate_only`.")
    total: int = Field(description="The rows of the file.")
    new: int = Field(description="Batteries that get a passport.")
    unchanged: int = Field(description="Batteries whose passport would say the same again.")
    faults_total: int = 0
    faults: list[RowFaultBody] = Field([], description="The first hundred rows with faults; only with `validate_only`.")


class ListedBatteryRun(ResponseBody):
    ordered_by = "requested_at"

    run_id: Id = Field(validation_alias="item_run_id")
    sku: str = Field(examples=["PACK-48"])
    battery_product_id: Id
    model_version_id: Id = Field(description="The version of the product's passport that its batteries pin.")
    rule_package_version_id: Id
    status: ItemRunStatus = Field(
        description="FINISHED: no row waits. STOPPED: rows that wait stay, until it is resumed."
    )
    total: int = Field(description="Batteries of the run.", examples=[10000])
    unchanged: int = Field(description="Rows of the file that were left out.")
    issued: int = Field(description="Batteries that have their passport.")
    refused: int = Field(description="Batteries that the rules refused.")
    rate: int | None = Field(description="Batteries a second; null until the first are issued.", examples=[1500])
    remaining_seconds: int | None = Field(description="How long the rest takes at this rate; null if it is not known.")
    requested_at: Moment = Field(description="The day of issue of all its passports.")
    stopped_at: Moment | None


class RefusedBattery(ResponseBody):
    """A battery of the run that has no passport, and why."""

    battery_id: Id
    serial_number: str
    code: str
    says: str


class BatteryRun(ListedBatteryRun):
    refusals: list[RefusedBattery] = Field([], description="The first hundred batteries that were refused.")


class BatteryRebase(ResponseBody):
    """What a request to issue batteries again did."""

    run_id: Id | None = Field(description="The run; null if none of the batteries pins an earlier version.")
    new: int = Field(description="Batteries that get a new passport.")
    batches: int = Field(description="Batches that are issued first; send the same request again once they are.")
    after: Id | None = Field(description="Where to go on; null if all batteries were looked through.")


SkuQuery = Annotated[Text, Query(description="The product that all batteries are of.", examples=["PACK-48"])]
RulesQuery = Annotated[
    IdOf[RulePackageVersionId] | None,
    Query(description="The rules; refused unless they are those of the product's active passport."),
]
ReissueQuery = Annotated[
    bool, Query(description="Issue batteries again that have a passport, if it would say something else now.")
]


RebaseAfter = Annotated[
    IdOf[ItemChunkId] | None, Query(description="Go on after this; the `after` of the answer before.")
]


@routes.write(
    "/v1/item-runs",
    permission=COMPILE_PERMISSION,
    resource="Passport",
    status=202,
    takes_file=True,
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT", "SIGNING_KEY_MISSING"),
)
async def create_item_run(
    ctx: Context,
    request: Request,
    sku: SkuQuery,
    rule_package_version_id: RulesQuery = None,
    reissue: ReissueQuery = False,
    validate_only: ValidateOnly = False,
) -> BatteryRunReport:
    """Issue passports of the batteries of a file: CSV with a header, or JSON lines; up to 100,000 rows.

    Each battery lies below the active passport of its product, its model, and pins it by hash. Columns: those of
    a registration, and every member of the fact `Item` that is one value. Batteries that are not registered are
    registered, which also needs `battery:register`. All rows are checked first. If one has a fault, nothing is stored,
    and the answer names the rows. A file that is sent twice changes nothing: the answer names the same run.
    """
    await require_passport_not_denied(ctx, request, sku, COMPILE_PERMISSION)
    await require_products_not_denied(ctx, request, [sku], "battery:register")
    require_allowed(ctx, request, "battery:register", Resource(type="Battery"))
    upload: SentUpload = request.state.upload
    file = await read_row_file(request, ctx.service, ITEM_COLUMNS, ITEM_REQUIRED)
    outcome = await request_item_run(
        ctx.conn,
        ctx.service.jobs,
        ctx.service.task_jobs.issue_items,
        ctx.tenant,
        ItemRunRequest(
            sku=sku,
            file=file,
            content_hash=sha256(upload.file.content),
            rules=rule_package_version_id,
            reissue=reissue,
            validate_only=validate_only,
        ),
        installation=describe_installation(ctx),
        act=ctx.act,
        correlation_id=ctx.correlation_id,
    )
    if outcome.faults and not validate_only:
        raise RowsRefused(outcome.faults, outcome.total)
    ctx.submitted.extend(outcome.job_ids)
    faults: list[Any] = describe_faults(outcome.faults)
    return BatteryRunReport(
        run_id=outcome.run,
        total=outcome.total,
        new=outcome.new,
        unchanged=outcome.unchanged,
        faults_total=len(outcome.faults),
        faults=faults,
    )


@routes.write(
    "/v1/item-runs:rebase",
    permission=COMPILE_PERMISSION,
    resource="Passport",
    status=202,
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT", "SIGNING_KEY_MISSING"),
)
async def rebase_batteries(ctx: Context, request: Request, sku: SkuQuery, after: RebaseAfter = None) -> BatteryRebase:
    """Issue batteries again that pin an earlier version of their model, below the active one.

    They keep what was stated of them; what is on record and their readings are taken as they are now. A request
    looks through some thousand batteries. Send it again with `after` until that is null. If batches lie below an
    earlier version, they are issued first: `batches` says how many, and the same request goes on once they are.
    """
    await require_passport_not_denied(ctx, request, sku, COMPILE_PERMISSION)
    task_jobs = ctx.service.task_jobs
    outcome = await request_rebase(
        ctx.conn,
        RebaseJobs(
            jobs=ctx.service.jobs,
            queue=ctx.queue,
            issue_items=task_jobs.issue_items,
            issue_batch=task_jobs.issue_batch,
        ),
        ctx.tenant,
        RebaseRequest(sku=sku, pack_location=locate_packs(ctx.service.settings), after=after or LOWEST_ID),
        installation=describe_installation(ctx),
        act=ctx.act,
        correlation_id=ctx.correlation_id,
    )
    ctx.submitted.extend(outcome.job_ids)
    return BatteryRebase(run_id=outcome.run, new=outcome.new, batches=outcome.batches, after=outcome.after)


@routes.read("/v1/item-runs", permission="passport:read")
async def list_item_runs(ctx: Context, page: Paging) -> Page[ListedBatteryRun]:
    """List runs that issue passports of batteries, newest first."""
    return page.build_page(await runs.list_runs(ctx.conn, ctx.tenant, page.query), ListedBatteryRun)


@routes.read("/v1/item-runs/{run_id}", permission="passport:read")
async def get_item_run(
    ctx: Context, request: Request, run_id: IdOf[ItemRunId], wait_seconds: WaitSeconds = 0
) -> BatteryRun:
    """Get a run and how far it is. With `wait_seconds` the answer comes once it has finished or was stopped."""
    run = await _load_run(ctx, run_id)
    request.state.wait_seconds = wait_seconds if run.status == "RUNNING" else 0
    return run


@routes.write("/v1/item-runs/{run_id}:stop", permission=COMPILE_PERMISSION)
async def stop_item_run(ctx: Context, run_id: IdOf[ItemRunId]) -> BatteryRun:
    """Stop a run: rows that wait stay as they are. What is being issued now is finished first."""
    await runs.stop_run(ctx.conn, ctx.tenant, run_id, act=ctx.act)
    return await _load_run(ctx, run_id)


@routes.write("/v1/item-runs/{run_id}:resume", permission=COMPILE_PERMISSION)
async def resume_item_run(ctx: Context, run_id: IdOf[ItemRunId]) -> BatteryRun:
    """Resume a run that was stopped, or whose jobs failed: what was issued stays, the rest is issued once."""
    job = ctx.service.task_jobs.issue_items
    ctx.submitted.extend(await resume_chunks(ctx.conn, ctx.service.jobs, job, ctx.tenant, run_id, act=ctx.act))
    return await _load_run(ctx, run_id)


async def _load_run(ctx: RequestContext, run_id: ItemRunId) -> BatteryRun:
    run = BatteryRun.model_validate(await runs.get_run(ctx.conn, ctx.tenant, run_id))
    if not run.refused:
        return run
    rows = await chunks.list_refusals(ctx.conn, ctx.tenant, run_id, limit=MAX_REFUSALS)
    return run.model_copy(update={"refusals": [RefusedBattery.model_validate(row) for row in rows]})
