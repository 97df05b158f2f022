"""What lies above a battery, as its view and its bundle hold it: a batch below its model, or the model alone."""

import asyncio

from bpc.api.http.request_context import RequestContext
from bpc.core.audit.signing import PublicKey
from bpc.core.formats.ids import PassportVersionId
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.view import make_item_view
from bpc.core.passport.bundle import write_bundle
from bpc.storage.audit import signing_keys
from bpc.storage.items import batch_versions
from bpc.storage.passports.exports import load_bundle
from bpc.tasks.item_models import ModelChanged


async def make_layer_view(
    ctx: RequestContext, model: PassportVersionId, batch: PassportVersionId | None, audience: str
) -> bytes:
    """The view of a batch, or of the model if there is none, for an audience."""
    view = await ctx.service.views.load_view(ctx.conn, ctx.tenant, model, audience)
    if batch is None:
        return view
    artifacts = await batch_versions.load_artifacts(ctx.conn, ctx.tenant, batch)
    return make_item_view(artifacts, above_view=view, audience=audience)


async def make_layer_bundle(ctx: RequestContext, model: PassportVersionId, batch: PassportVersionId | None) -> bytes:
    """The bundle of a batch, with that of the model inside, or that of the model if there is none."""
    model_bundle = await load_bundle(ctx.conn, ctx.tenant, model, with_events=False)
    bundle = await asyncio.to_thread(write_bundle, model_bundle)
    if batch is None:
        return bundle
    artifacts = await batch_versions.load_artifacts(ctx.conn, ctx.tenant, batch)
    version = await batch_versions.get_version(ctx.conn, ctx.tenant, batch)
    key = await require_public_key(ctx, version.signing_key_id, model)
    return build_item_bundle(artifacts, above=bundle, public_key=key)


async def require_public_key(ctx: RequestContext, key_id: str, model: PassportVersionId) -> PublicKey:
    """The public key that a version names. Keys are never deleted: one that is missing was removed by hand."""
    key = await signing_keys.find_public_key(ctx.conn, key_id)
    if key is None:
        raise ModelChanged(model)
    return key
