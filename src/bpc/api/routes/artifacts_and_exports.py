"""/v1/passport-versions/…/payload, proof, receipt …, /v1/exports, /status: a version's bytes, formats and status."""

import asyncio
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Query
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
from bpc.api.access.direct_reads import DirectRead
from bpc.api.http.etag import BYTES_RESPONSES, JSON, IfNoneMatch, serve_bytes, serve_large_bytes
from bpc.api.http.models import Hash, Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.http.stored_formats import PassportPayload, PassportProof, PassportReceipt, PassportView
from bpc.core.errors import Conflict, NotFound
from bpc.core.exports.disclosure import Audience, ExportFormat
from bpc.core.exports.json_ld import encode_context_document
from bpc.core.formats.ids import ExportId, PassportVersionId
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.view_envelope import wrap_view
from bpc.core.status.status_list import CACHE_SECONDS
from bpc.storage.access import storage_quota
from bpc.storage.passports import exports, passport_versions, status_rows, waivers
from bpc.storage.passports.exports import ExportRow, ExportStatus
from bpc.storage.passports.passport_versions import ArtifactName
from bpc.storage.tlog.log_rows import find_version_proof
from bpc.tasks.export import request_export

artifact_routes = RouteFamily("Artifacts", resource="PassportVersion")

READ_PERMISSION: Final = "passport:read"
BUNDLE_PERMISSION: Final = "passport:bundle"
VIEW_PERMISSIONS: Final = ("view:interest", "view:authority")
PNG: Final = "image/png"
ZIP: Final = "application/zip"
XML_SCHEMA: Final = (resources.files("bpc.core.exports") / "passport.xsd").read_bytes()
ViewAudience = Annotated[
    Literal["public", "interest", "authority"],
    Query(description="The audience. The view contains what it may see; everything else is only a salted hash."),
]


class NoQrCode(NotFound):
    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(f"passport version `{version}` has no QR code yet", fix="wait for the GENERATE_QR job")


@artifact_routes.read(
    "/v1/passport-versions/{passport_version_id}/payload",
    permission="passport:read",
    stored_json=PassportPayload,
    direct=DirectRead("payload"),
)
async def get_payload(
    ctx: Context, passport_version_id: IdOf[PassportVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get the passport itself as canonical JSON: sorted and byte-exact, so that it can be verified."""
    return serve_bytes(await _load_artifact(ctx, passport_version_id, "payload"), JSON, if_none_match)


@artifact_routes.read(
    "/v1/passport-versions/{passport_version_id}/proof", permission="passport:read", stored_json=PassportProof
)
async def get_proof(
    ctx: Context, request: Request, passport_version_id: IdOf[PassportVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get the proof of every value as canonical JSON: how it was computed, step by step.

    It shows facts and rules: a policy that denies one of them denies the whole proof.
    """
    await require_sources_not_denied(ctx, request, passport_version_id)
    return serve_bytes(await _load_artifact(ctx, passport_version_id, "proof"), JSON, if_none_match)


@artifact_routes.read(
    "/v1/passport-versions/{passport_version_id}/receipt",
    permission="passport:read",
    stored_json=PassportReceipt,
    direct=DirectRead("receipt"),
)
async def get_receipt(
    ctx: Context, passport_version_id: IdOf[PassportVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get the receipt as canonical JSON; with the signature once the version is signed."""
    return serve_bytes(await _load_artifact(ctx, passport_version_id, "receipt"), JSON, if_none_match)


@artifact_routes.read("/v1/passport-versions/{passport_version_id}/qr.png", permission="passport:read", media_type=PNG)
async def get_qr_code(
    ctx: Context, passport_version_id: IdOf[PassportVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get the image of the QR code. It is not found until the version is signed and has its code."""
    picture = await passport_versions.load_picture(ctx.conn, ctx.tenant, passport_version_id)
    if picture is None:
        raise NoQrCode(passport_version_id)
    return serve_bytes(picture, PNG, if_none_match)


@artifact_routes.read(
    "/v1/passport-versions/{passport_version_id}/bundle",
    permission=BUNDLE_PERMISSION,
    media_type=ZIP,
    errors=("CONFLICT",),
    heavy=True,
)
async def get_bundle(
    ctx: Context,
    request: Request,
    passport_version_id: IdOf[PassportVersionId],
    attachments: Annotated[bool, Query(description="Whether to include the files that the passport names.")] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get everything needed to verify a version offline. It contains the snapshot's secret and all fields.

    A policy that denies a fact, a document or a rule of it denies the whole bundle.
    """
    await require_sources_not_denied(ctx, request, passport_version_id)
    bundle = await exports.load_bundle(ctx.conn, ctx.tenant, passport_version_id, with_attachments=attachments)
    content = await asyncio.to_thread(write_bundle, bundle)
    name = f"{passport_version_id}.zip"
    return await serve_large_bytes(content, ZIP, if_none_match, attachment=True, name=name)


@artifact_routes.read(
    "/v1/passport-versions/{passport_version_id}/view",
    permission=READ_PERMISSION,
    alternatives=VIEW_PERMISSIONS,
    stored_json=PassportView,
    header_names=("X-Waived-Entries",),
    errors=("CONFLICT",),
    heavy=True,
    direct=DirectRead("view"),
)
async def get_view(
    ctx: Context,
    request: Request,
    passport_version_id: IdOf[PassportVersionId],
    audience: ViewAudience,
    envelope: Annotated[
        bool,
        Query(description="Whether to add the log proof and where its status is, once they exist: BPC-VIEW-2."),
    ] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get what one audience may see, as canonical JSON, which can still be verified.

    `view:interest` and `view:authority` are for keys without `passport:read`: each opens the view of that audience,
    and both open the view of the public. The view does not change when entries are waived. The header
    `X-Waived-Entries` says how many are waived now.
    """
    await _require_audience(ctx, request, passport_version_id, audience)
    view = await ctx.service.views.load_view(ctx.conn, ctx.tenant, passport_version_id, audience)
    waived_count = await waivers.count_waived(ctx.conn, ctx.tenant, passport_version_id)
    if envelope:
        proof = await find_version_proof(ctx.conn, ctx.tenant, passport_version_id)
        statement = await status_rows.find_binding_statement(ctx.conn, ctx.tenant, passport_version_id)
        view = wrap_view(view, log_proof=None if proof is None else proof.encode(), statement=statement)
    return serve_bytes(view, JSON, if_none_match, headers_beside={"X-Waived-Entries": str(waived_count)})


async def _require_audience(
    ctx: RequestContext, request: Request, version: PassportVersionId, audience: Audience
) -> None:
    """Raise `Forbidden` if the caller has a permission for the view of another audience only."""
    resource = await load_resource(ctx, "PassportVersion", version)
    is_reader = decide_for(ctx.caller, READ_PERMISSION, resource, ctx.act.at).allowed
    if not is_reader and audience != "public":
        require_allowed(ctx, request, f"view:{audience}", resource)


async def _load_artifact(ctx: RequestContext, version: PassportVersionId, which: ArtifactName) -> bytes:
    return await passport_versions.load_artifact(ctx.conn, ctx.tenant, version, which)


# What became of a version, for everybody and without a key. These routes only read.

status_routes = RouteFamily("Status")
STATUS_CACHE: Final = f"public, max-age={CACHE_SECONDS}"


class NoStatus(NotFound):
    def __init__(self) -> None:
        super().__init__("there is no such status document", fix="check the address; a new passport's takes seconds")


@status_routes.open("/status/lists/{list_id}", media_type=JSON, errors=("NOT_FOUND",))
async def get_status_list(request: Request, list_id: UUID, if_none_match: IfNoneMatch = None) -> Response:
    """Get a signed status list: two bits for each passport version in it. `bpc verify --status` takes the answer."""
    async with request.app.state.service.database.system() as conn:
        document = await status_rows.find_list_document(conn, list_id)
    return _serve_status(document, if_none_match)


@status_routes.open("/status/statements/{passport_version_id}", media_type=JSON, errors=("NOT_FOUND",))
async def get_status_statement(
    request: Request, passport_version_id: IdOf[PassportVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get what the issuer last said of a version, signed: its list and index; since when, why and by what."""
    async with request.app.state.service.database.system() as conn:
        document = await status_rows.find_newest_statement(conn, passport_version_id)
    return _serve_status(document, if_none_match)


def _serve_status(document: bytes | None, if_none_match: str | None) -> Response:
    if document is None:
        raise NoStatus
    # Whoever checks a passport in a browser may do so on any page.
    return serve_bytes(
        document, JSON, if_none_match, cache=STATUS_CACHE, headers_beside={"Access-Control-Allow-Origin": "*"}
    )


export_routes = RouteFamily("Exports")

VERSION_EXPORT_ROUTE: Final[dict[str, Any]] = {"permission": READ_PERMISSION, "resource": "PassportVersion"}
JSON_LD: Final = "application/ld+json"
XML: Final = "application/xml"


LanguageCode = Annotated[str, Field(pattern="^[a-z]{2}$")]


class NewExport(RequestBody):
    format: ExportFormat = Field(description="The format of the export.", examples=["PDF"])
    audience: Audience | None = Field(
        None,
        description="The audience; the export contains only what this audience may see. `tenant` is everything. "
        "Without it, a PDF is for the `public` and other formats for the `tenant`. A BUNDLE is always complete.",
        examples=["public"],
    )
    language: LanguageCode | None = Field(
        None,
        description="The language of a PDF, as two letters; without it, English. What has no translation is shown in "
        "English. The other formats are for programs and the same in all languages.",
        examples=["de"],
    )


class ExportRequested(ResponseBody):
    export_id: Id
    job_id: Id = Field(description="The job that makes it.")


class ExportFault(ResponseBody):
    """Why an export failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    message: str


class Export(ResponseBody):
    export_id: Id
    passport_version_id: Id
    sku: str | None = Field(description="The SKU of the product.", examples=["SKU-123"])
    product_name: str | None = Field(description="The name of the product.", examples=["Traction battery 75 kWh"])
    format: ExportFormat
    audience: Audience = Field(description="The audience.")
    language: str = Field(description="The language, as two letters.", examples=["de"])
    status: ExportStatus = Field(description="PENDING until its job has ended.")
    mime_type: str = Field(examples=["application/pdf"])
    file_name: str
    size: int | None = Field(description="Its size in bytes, once it is READY.", examples=[56184])
    sha256: Hash | None = Field(description="SHA-256 of its bytes, which is also the ETag.")
    last_error: ExportFault | None = Field(description="Why it FAILED.")
    job_id: Id
    created_at: Moment
    created_by: Id | None
    finished_at: Moment | None


class ExportNotReady(Conflict):
    """The export has no bytes (yet)."""

    def __init__(self, export: ExportRow) -> None:
        reason: Mapping[str, Any] = export.last_error or {}
        is_failed = export.status == "FAILED"
        super().__init__(
            f"export `{export.export_id}` "
            + (f"FAILED: {reason.get('message', '')}" if is_failed else "is not ready yet"),
            fix="correct the cause and request a new export"
            if is_failed
            else f"wait for job `{export.job_id}`; if that was cancelled, retry it or request a new export",
            details={"status": export.status, "job_id": str(export.job_id), **({"error": reason} if is_failed else {})},
        )


@export_routes.write(
    "/v1/passport-versions/{passport_version_id}/exports",
    status=202,
    errors=("CONFLICT", "STORAGE_QUOTA_EXCEEDED"),
    **VERSION_EXPORT_ROUTE,
)
async def create_export(
    ctx: Context, request: Request, passport_version_id: IdOf[PassportVersionId], body: NewExport
) -> ExportRequested:
    """Export a signed version as PDF, JSON-LD, XML, a list of data points or a bundle. A job does it.

    A bundle also needs `passport:bundle`.
    """
    if body.format == "BUNDLE":
        await _require_bundle(ctx, request, passport_version_id)
    default_quota = ctx.service.settings.tenant_storage_bytes
    await storage_quota.require_room(ctx.conn, ctx.tenant, 0, default=default_quota)
    export = await request_export(
        ctx.conn,
        ctx.queue,
        ctx.service.task_jobs.export,
        ctx.tenant,
        passport_version_id,
        name=body.format,
        audience=body.audience,
        language=body.language,
        act=ctx.act,
    )
    return ExportRequested.model_validate(export)


@export_routes.read("/v1/passport-versions/{passport_version_id}/exports", **VERSION_EXPORT_ROUTE)
async def list_exports(ctx: Context, passport_version_id: IdOf[PassportVersionId], page: Paging) -> Page[Export]:
    """List the exports of a version, newest first."""
    await passport_versions.get_version(ctx.conn, ctx.tenant, passport_version_id)
    return page.build_page(await exports.list_exports(ctx.conn, ctx.tenant, passport_version_id, page.query), Export)


@export_routes.read("/v1/exports/{export_id}", permission=READ_PERMISSION)
async def get_export(ctx: Context, request: Request, export_id: IdOf[ExportId]) -> Export:
    """Get an export without its bytes."""
    return Export.model_validate(await _load_allowed_export(ctx, request, export_id))


@export_routes.read(
    "/v1/exports/{export_id}/content",
    permission=READ_PERMISSION,
    responses={
        **BYTES_RESPONSES,
        200: {**BYTES_RESPONSES[200], "description": "The bytes, of the export's media type."},
    },
    errors=("CONFLICT",),
    response_class=Response,
)
async def get_export_content(
    ctx: Context, request: Request, export_id: IdOf[ExportId], if_none_match: IfNoneMatch = None
) -> Response:
    """Get the bytes of an export that is READY."""
    export = await _load_allowed_export(ctx, request, export_id)
    if export.format == "BUNDLE":
        await _require_bundle(ctx, request, export.passport_version_id)
    content = await exports.load_export_content(ctx.conn, ctx.tenant, export.export_id)
    if content is None:
        raise ExportNotReady(export)
    return await serve_large_bytes(content, export.mime_type, if_none_match, attachment=True, name=export.file_name)


@export_routes.open("/v1/contexts/passport.jsonld", media_type=JSON_LD)
async def get_json_ld_context(if_none_match: IfNoneMatch = None) -> Response:
    """Get the context of JSON-LD exports. Every such export also contains it."""
    return serve_bytes(encode_context_document(), JSON_LD, if_none_match)


@export_routes.open("/v1/schemas/passport.xsd", media_type=XML)
async def get_xml_schema(if_none_match: IfNoneMatch = None) -> Response:
    """Get the XML Schema of XML exports."""
    return serve_bytes(XML_SCHEMA, XML, if_none_match)


async def _load_allowed_export(ctx: RequestContext, request: Request, export_id: ExportId) -> ExportRow:
    """Return the export, unless a policy denies its passport version."""
    export = await exports.get_export(ctx.conn, ctx.tenant, export_id)
    version = await load_resource(ctx, "PassportVersion", export.passport_version_id)
    require_not_denied(ctx, request, [version], READ_PERMISSION)
    return export


async def _require_bundle(ctx: RequestContext, request: Request, version: PassportVersionId) -> None:
    resource = await load_resource(ctx, "PassportVersion", version)
    require_allowed(ctx, request, BUNDLE_PERMISSION, resource)
    await require_sources_not_denied(ctx, request, version)
