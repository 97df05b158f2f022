"""/v1/batches/{id}/passport and beside it: the passport of a batch, which its batteries lie below."""

from functools import partial
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import (
    decide_for,
    load_resource,
    require_allowed,
    require_not_denied,
    require_sources_not_denied,
)
from bpc.api.access.battery_policies import require_model_not_denied, require_passport_not_denied
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.etag import JSON, IfNoneMatch, serve_bytes
from bpc.api.http.models import Day, Hash, Id, IdOf, Moment, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.artifacts_and_exports import BUNDLE_PERMISSION, READ_PERMISSION, VIEW_PERMISSIONS, ZIP, ViewAudience
from bpc.api.routes.batteries.layers_above import make_layer_bundle, make_layer_view
from bpc.api.routes.batteries.registration import StateAt
from bpc.api.routes.passports import COMPILE_PERMISSION
from bpc.core.formats.ids import BatteryBatchId
from bpc.core.policies import Resource
from bpc.storage.batteries import batches
from bpc.storage.connection import LATEST_TIME
from bpc.storage.items import batch_versions
from bpc.storage.items.batch_versions import BatchVersionStatus
from bpc.tasks.issue_batches import request_batch_passport
from bpc.tasks.item_models import Installation

routes = RouteFamily("Batch passports", resource="BatteryBatch")


class BatchStatements(RequestBody):
    """What is stated of a batch beside what is on record of it: members of the fact `Batch`."""

    manufacturing_place: Text | None = Field(None, description="The address of the plant.")
    manufacturing_country: Text | None = Field(None, description="The country of the plant.", examples=["DE"])
    facility_id: Text | None = Field(
        None, description="The plant; refused if another is on record.", examples=["GLN:9521234000013"]
    )
    manufactured_on: Day | None = Field(None, description="The day of manufacture; refused if another is on record.")


class BatchVersion(ResponseBody):
    """A version of the passport of a batch."""

    passport_version_id: Id
    battery_batch_id: Id
    model_version_id: Id = Field(description="The version of the product's passport that it pins.")
    status: BatchVersionStatus = Field(description="REFUSED: the rules refused it; `refusal` says why.")
    requested_at: Moment = Field(description="The day of issue.")
    ended_at: Moment | None = Field(description="When it was issued or refused.")
    receipt_hash: Hash | None
    fail_count: int | None = Field(description="Compliance entries FAIL of model and batch.")
    warn_count: int | None = Field(description="Compliance entries WARN of model and batch.")
    refusal: str | None


class BatchVersions(ResponseBody):
    """The versions of a batch's passport, newest first; the first that was not refused counts."""

    items: list[BatchVersion]


@routes.write(
    "/v1/batches/{battery_batch_id}:issue",
    permission=COMPILE_PERMISSION,
    resource="Passport",
    status=202,
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT", "SIGNING_KEY_MISSING"),
)
async def issue_batch_passport(
    ctx: Context, request: Request, battery_batch_id: IdOf[BatteryBatchId], body: BatchStatements
) -> BatchVersion:
    """Issue the passport of a batch, below the active passport of its product.

    Batteries of the batch that are issued from then on lie below it and pin it by hash. A request that says the
    same below the same model changes nothing: the answer is the version that is there.
    """
    batch = await batches.get_batch(ctx.conn, ctx.tenant, battery_batch_id)
    require_not_denied(ctx, request, [Resource(type="BatteryBatch", id=battery_batch_id)], COMPILE_PERMISSION)
    await require_passport_not_denied(ctx, request, batch.sku, COMPILE_PERMISSION)
    statements: dict[str, Any] = body.model_dump(exclude_none=True)
    outcome = await request_batch_passport(
        ctx.conn,
        ctx.queue,
        ctx.service.task_jobs.issue_batch,
        ctx.tenant,
        battery_batch_id,
        statements,
        installation=describe_installation(ctx),
        act=ctx.act,
    )
    version = await batch_versions.get_version(ctx.conn, ctx.tenant, outcome.passport_version_id)
    return BatchVersion.model_validate(version)


@routes.read("/v1/batches/{battery_batch_id}/passport-versions", permission=READ_PERMISSION)
async def list_batch_passport_versions(ctx: Context, battery_batch_id: IdOf[BatteryBatchId]) -> BatchVersions:
    """List the versions of a batch's passport, newest first."""
    await batches.get_batch(ctx.conn, ctx.tenant, battery_batch_id)
    rows = await batch_versions.list_versions(ctx.conn, ctx.tenant, battery_batch_id)
    return BatchVersions(items=[BatchVersion.model_validate(row) for row in rows])


@routes.read(
    "/v1/batches/{battery_batch_id}/passport",
    permission=READ_PERMISSION,
    alternatives=VIEW_PERMISSIONS,
    media_type=JSON,
    errors=("CONFLICT",),
    heavy=True,
)
async def get_batch_passport(
    ctx: Context,
    request: Request,
    battery_batch_id: IdOf[BatteryBatchId],
    audience: ViewAudience,
    at: StateAt = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get what one audience may see of a batch: model and batch as one passport, a BPC-BATCH-VIEW-1."""
    resource = await load_resource(ctx, "BatteryBatch", battery_batch_id)
    if audience != "public" and not decide_for(ctx.caller, READ_PERMISSION, resource, ctx.act.at).allowed:
        require_allowed(ctx, request, f"view:{audience}", resource)
    version = await batch_versions.get_issued_version(ctx.conn, ctx.tenant, battery_batch_id, at=at or LATEST_TIME)
    await require_model_not_denied(ctx, request, version.model_version_id, READ_PERMISSION)
    view = await make_layer_view(ctx, version.model_version_id, version.passport_version_id, audience)
    return serve_bytes(view, JSON, if_none_match)


@routes.read(
    "/v1/batches/{battery_batch_id}/payload", permission=READ_PERMISSION, media_type=JSON, errors=("CONFLICT",)
)
async def get_batch_payload(
    ctx: Context, battery_batch_id: IdOf[BatteryBatchId], at: StateAt = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Get what a batch's passport adds to that of its model, as canonical JSON: BPC-BATCH-PAYLOAD-1."""
    version = await batch_versions.get_issued_version(ctx.conn, ctx.tenant, battery_batch_id, at=at or LATEST_TIME)
    artifacts = await batch_versions.load_artifacts(ctx.conn, ctx.tenant, version.passport_version_id)
    return serve_bytes(artifacts.payload, JSON, if_none_match)


@routes.read(
    "/v1/batches/{battery_batch_id}/bundle",
    permission=BUNDLE_PERMISSION,
    media_type=ZIP,
    errors=("CONFLICT",),
    heavy=True,
)
async def get_batch_bundle(
    ctx: Context,
    request: Request,
    battery_batch_id: IdOf[BatteryBatchId],
    at: StateAt = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get everything needed to verify a batch offline, with the bundle of its model inside. `bpc verify` takes it.

    A policy that denies the model, or a fact, a document or a rule of it, denies the whole bundle.
    """
    version = await batch_versions.get_issued_version(ctx.conn, ctx.tenant, battery_batch_id, at=at or LATEST_TIME)
    await require_model_not_denied(ctx, request, version.model_version_id, BUNDLE_PERMISSION)
    await require_sources_not_denied(ctx, request, version.model_version_id)
    content = await make_layer_bundle(ctx, version.model_version_id, version.passport_version_id)
    return serve_bytes(content, ZIP, if_none_match, attachment=True, name=f"{version.passport_version_id}.zip")


def describe_installation(ctx: RequestContext) -> Installation:
    """What of this installation the passports of batteries and batches depend on."""
    settings = ctx.service.settings
    return Installation(
        compiler_build_id=settings.compiler_build_id,
        signing_key_id=settings.signing_key_id,
        secret_box=ctx.service.secret_box,
        compute=partial(compute_in_child, ctx.service.processes),
    )
