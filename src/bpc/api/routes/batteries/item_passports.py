"""/v1/batteries/{id}/passport and beside it: the passport of one battery, as a view, a payload or a bundle."""

import asyncio
from datetime import datetime
from typing import Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import decide_for, load_resource, require_allowed, require_sources_not_denied
from bpc.api.access.battery_policies import require_model_not_denied
from bpc.api.http.etag import JSON, IfNoneMatch, serve_bytes
from bpc.api.http.models import Hash, Id, IdOf, Moment, ResponseBody
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.artifacts_and_exports import BUNDLE_PERMISSION, READ_PERMISSION, VIEW_PERMISSIONS, ZIP, ViewAudience
from bpc.api.routes.batteries.layers_above import make_layer_bundle, make_layer_view, require_public_key
from bpc.api.routes.batteries.registration import StateAt
from bpc.core.errors import NotFound
from bpc.core.formats.ids import BatteryId
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.content import ItemArtifacts
from bpc.core.items.view import make_item_view
from bpc.storage.batteries import batteries
from bpc.storage.connection import LATEST_TIME
from bpc.storage.items import versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from bpc.storage.items.versions import ItemVersionRow

routes = RouteFamily("Battery passports", resource="Battery")


class ItemVersion(ResponseBody):
    """A version of the passport of one battery."""

    passport_version_id: Id
    issued_at: Moment
    status: Literal["ISSUED"]
    fail_count: int = Field(description="Compliance entries FAIL of all layers.")
    warn_count: int = Field(description="Compliance entries WARN of all layers.")
    receipt_hash: Hash
    model_version_id: Id = Field(description="The version of the product's passport that it pins.")
    batch_version_id: Id | None = Field(
        description="The version of its batch's passport that it pins; null if it lies directly below its model."
    )
    model_is_active: bool = Field(
        description="False if the product has another active passport by now: this one stays, until it is issued again."
    )
    run_id: Id = Field(validation_alias="item_run_id")


class ItemVersions(ResponseBody):
    """The versions of a battery's passport, newest first; the first counts."""

    items: list[ItemVersion]


class ItemPassportCeased(NotFound):
    """The battery was recycled."""

    def __init__(self, battery: BatteryId) -> None:
        super().__init__(
            f"the passport of battery `{battery}` has ceased: the battery was recycled",
            fix="with `at`, the passport of a time before is shown",
        )


@routes.read("/v1/batteries/{battery_id}/passport-versions", permission=READ_PERMISSION)
async def list_battery_passport_versions(ctx: Context, battery_id: IdOf[BatteryId]) -> ItemVersions:
    """List the versions of a battery's passport, newest first."""
    await batteries.get_battery(ctx.conn, ctx.tenant, battery_id)
    rows = await versions.list_versions(ctx.conn, ctx.tenant, battery_id)
    return ItemVersions(items=[ItemVersion.model_validate(row) for row in rows])


@routes.read(
    "/v1/batteries/{battery_id}/passport",
    permission=READ_PERMISSION,
    alternatives=VIEW_PERMISSIONS,
    media_type=JSON,
    errors=("CONFLICT",),
    heavy=True,
)
async def get_battery_passport(
    ctx: Context,
    request: Request,
    battery_id: IdOf[BatteryId],
    audience: ViewAudience,
    at: StateAt = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get what one audience may see of a battery, as canonical JSON: model, batch and battery as one passport.

    It is a BPC-ITEM-VIEW-1, which can be verified. With `at`, the passport of that time.
    """
    await _require_audience(ctx, request, battery_id, audience)
    await _require_not_ceased(ctx, battery_id, at)
    version = await versions.get_version(ctx.conn, ctx.tenant, battery_id, at=at or LATEST_TIME)
    await require_model_not_denied(ctx, request, version.model_version_id, READ_PERMISSION)
    artifacts = await _read_artifacts(ctx, version)
    above_view = await make_layer_view(ctx, version.model_version_id, version.batch_version_id, audience)
    view = make_item_view(artifacts, above_view=above_view, audience=audience)
    return serve_bytes(view, JSON, if_none_match)


@routes.read("/v1/batteries/{battery_id}/payload", permission=READ_PERMISSION, media_type=JSON, errors=("CONFLICT",))
async def get_battery_payload(
    ctx: Context, battery_id: IdOf[BatteryId], at: StateAt = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Get what a battery's passport adds to those above it, as canonical JSON: BPC-ITEM-PAYLOAD-1."""
    version = await versions.get_version(ctx.conn, ctx.tenant, battery_id, at=at or LATEST_TIME)
    return serve_bytes((await _read_artifacts(ctx, version)).payload, JSON, if_none_match)


@routes.read(
    "/v1/batteries/{battery_id}/bundle",
    permission=BUNDLE_PERMISSION,
    media_type=ZIP,
    errors=("CONFLICT",),
    heavy=True,
)
async def get_battery_bundle(
    ctx: Context,
    request: Request,
    battery_id: IdOf[BatteryId],
    at: StateAt = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get everything needed to verify a battery offline, with the bundles of batch and model. `bpc verify` takes it.

    A policy that denies the model, or a fact, a document or a rule of it, denies the whole bundle.
    """
    version = await versions.get_version(ctx.conn, ctx.tenant, battery_id, at=at or LATEST_TIME)
    await require_model_not_denied(ctx, request, version.model_version_id, BUNDLE_PERMISSION)
    await require_sources_not_denied(ctx, request, version.model_version_id)
    artifacts = await _read_artifacts(ctx, version)
    key = await require_public_key(ctx, version.signing_key_id, version.model_version_id)
    above = await make_layer_bundle(ctx, version.model_version_id, version.batch_version_id)
    content = build_item_bundle(artifacts, above=above, public_key=key)
    return serve_bytes(content, ZIP, if_none_match, attachment=True, name=f"{version.passport_version_id}.zip")


async def _read_artifacts(ctx: RequestContext, version: ItemVersionRow) -> ItemArtifacts:
    packs = open_packs(locate_packs(ctx.service.settings))
    return await asyncio.to_thread(packs.read_item, version.pack_sha256, version.place, version.receipt_hash)


async def _require_not_ceased(ctx: RequestContext, battery_id: BatteryId, at: datetime | None) -> None:
    """Refuse the passport of a battery that was recycled, from then on. Payload and bundle stay, as evidence."""
    ceased_at = (await batteries.get_battery(ctx.conn, ctx.tenant, battery_id)).ceased_at
    if ceased_at is not None and (at is None or at >= ceased_at):
        raise ItemPassportCeased(battery_id)


async def _require_audience(ctx: RequestContext, request: Request, battery: BatteryId, audience: str) -> None:
    """Raise `Forbidden` if the caller has a permission for the view of another audience only."""
    resource = await load_resource(ctx, "Battery", battery)
    is_reader = decide_for(ctx.caller, READ_PERMISSION, resource, ctx.act.at).allowed
    if not is_reader and audience != "public":
        require_allowed(ctx, request, f"view:{audience}", resource)
