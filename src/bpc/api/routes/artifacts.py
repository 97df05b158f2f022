"""/v1/passport-versions/…: the bytes of a version, as they are stored, and what is put together of them."""

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response

from bpc.api.bytes import IfNoneMatch, described, served
from bpc.api.models import Id
from bpc.api.routing import Routes
from bpc.api.stored import PassportPayload, PassportProof, PassportReceipt, PassportView, stored
from bpc.api.work import Doing, Work
from bpc.core.bundle import write_bundle
from bpc.core.errors import NotFound
from bpc.core.ids import PassportVersionId
from bpc.core.view import make_view
from bpc.db import bundles, passport_versions
from bpc.db.passport_versions import Artifact

routes = Routes("Artifacts")

JSON: Final = "application/json"
PNG: Final = "image/png"
ZIP: Final = "application/zip"
OF_VERSION: Final[dict[str, Any]] = {
    "permission": "passport:read",
    "resource": "PassportVersion",
    "response_class": Response,
}
Audience = Annotated[
    Literal["public", "interest", "authority"],
    Query(description="Who it is for: it shows what they may see, and of the rest only salted hashes."),
]


class NoQrCode(NotFound):
    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(f"passport version `{version}` has no QR code yet", fix="wait for the GENERATE_QR job")


@routes.read("/v1/passport-versions/{passport_version_id}/payload", responses=stored(PassportPayload), **OF_VERSION)
async def get_payload(work: Work, passport_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Get the passport itself, canonical JSON."""
    return served(await _bytes(work, passport_version_id, "payload"), JSON, if_none_match)


@routes.read("/v1/passport-versions/{passport_version_id}/proof", responses=stored(PassportProof), **OF_VERSION)
async def get_proof(work: Work, passport_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Get the proof of every value, canonical JSON."""
    return served(await _bytes(work, passport_version_id, "proof"), JSON, if_none_match)


@routes.read("/v1/passport-versions/{passport_version_id}/receipt", responses=stored(PassportReceipt), **OF_VERSION)
async def get_receipt(work: Work, passport_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Get the receipt, canonical JSON; with its signature once it is signed."""
    return served(await _bytes(work, passport_version_id, "receipt"), JSON, if_none_match)


@routes.read("/v1/passport-versions/{passport_version_id}/qr.png", responses=described(PNG), **OF_VERSION)
async def get_qr_code(work: Work, passport_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Get the image of the QR code. It is not found until its job has made it."""
    return served(await _bytes(work, passport_version_id, "qr_png"), PNG, if_none_match)


@routes.read(
    "/v1/passport-versions/{passport_version_id}/bundle",
    responses=described(ZIP),
    errors=("CONFLICT",),
    heavy=True,
    **OF_VERSION,
)
async def get_bundle(work: Work, passport_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Get everything a stranger needs to check a version, the snapshot's secret included: for those who may see all."""
    bundle = await bundles.bundle(work.conn, work.tenant, PassportVersionId(passport_version_id))
    content = await asyncio.to_thread(write_bundle, bundle)
    return served(content, ZIP, if_none_match, attachment=True, name=f"{passport_version_id}.zip")


@routes.read(
    "/v1/passport-versions/{passport_version_id}/view",
    responses=stored(PassportView),
    errors=("CONFLICT",),
    heavy=True,
    **OF_VERSION,
)
async def get_view(
    work: Work, passport_version_id: Id, audience: Audience, if_none_match: IfNoneMatch = None
) -> Response:
    """Get what one audience may see, canonical JSON that still can be checked."""
    version = PassportVersionId(passport_version_id)
    bundle = await bundles.bundle(work.conn, work.tenant, version, with_events=False)
    return served(await asyncio.to_thread(make_view, bundle, audience), JSON, if_none_match)


async def _bytes(work: Doing, passport_version_id: Id, which: Artifact) -> bytes:
    version = PassportVersionId(passport_version_id)
    found = await passport_versions.artifact(work.conn, work.tenant, version, which)
    if found is None:
        raise NoQrCode(version)
    return found
