"""/v1/exports: passport versions in other forms, made by jobs; and what those forms are read with."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from bpc.api.bytes import BYTES, IfNoneMatch, described, served
from bpc.api.deciding import require_undenied
from bpc.api.models import Answer, Hash, Id, Moment, Page, Request
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Doing, Work
from bpc.core.cursor import Place
from bpc.core.errors import Conflict
from bpc.core.exports.disclosed import Audience
from bpc.core.exports.formats import Format
from bpc.core.exports.json_ld import context_document
from bpc.core.exports.xml_schema import XSD
from bpc.core.ids import ExportId, PassportVersionId
from bpc.core.policies import Resource, asks_for_sku
from bpc.db import exports, passport_versions, products
from bpc.db.exports import Export as Found
from bpc.db.exports import Status
from bpc.errands.export import request_export

routes = Routes("Exports")

READ: Final = "passport:read"
OF_VERSION: Final[dict[str, Any]] = {"permission": READ, "resource": "PassportVersion"}
JSON_LD: Final = "application/ld+json"
XML: Final = "application/xml"


class NewExport(Request):
    format: Format = Field(description="What it is to be made into.", examples=["PDF"])
    audience: Audience | None = Field(
        None,
        description="Whom it is for; it holds what they may see and nothing else. `tenant` is everything. Without it, "
        "a PDF is for the `public` and everything else for the `tenant`. A BUNDLE is always whole.",
        examples=["public"],
    )


class ExportRequested(Answer):
    export_id: Id
    job_id: Id = Field(description="The job that makes it.")


class ExportFault(Answer):
    """Why an export was not made."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    message: str


class Export(Answer):
    export_id: Id
    passport_version_id: Id
    format: Format
    audience: Audience = Field(description="Whom it is for.")
    status: Status = Field(description="PENDING until its job is over.")
    mime_type: str = Field(examples=["application/pdf"])
    file_name: str
    size: int | None = Field(description="Its bytes, once it is READY.", examples=[56184])
    sha256: Hash | None = Field(description="Of its bytes, which is their ETag too.")
    last_error: ExportFault | None = Field(description="Why it FAILED.")
    job_id: Id
    created_at: Moment
    created_by: Id | None
    finished_at: Moment | None


class NotReady(Conflict):
    """There are no bytes."""

    def __init__(self, export: Found) -> None:
        reason: Mapping[str, Any] = export.last_error or {}
        failed = export.status == "FAILED"
        super().__init__(
            f"export `{export.export_id}` "
            + (f"FAILED: {reason.get('message', '')}" if failed else "is not ready yet"),
            fix="remove the cause and ask for a new one"
            if failed
            else f"wait for job `{export.job_id}`; if that was cancelled, retry it or ask for a new export",
            details={"status": export.status, "job_id": str(export.job_id), **({"error": reason} if failed else {})},
        )


@routes.write("/v1/passport-versions/{passport_version_id}/exports", status=202, errors=("CONFLICT",), **OF_VERSION)
async def create_export(work: Work, passport_version_id: Id, body: NewExport) -> ExportRequested:
    """Have a signed version made into a PDF, JSON-LD, XML, a list of data points or a bundle."""
    done = await request_export(
        work.conn,
        work.queue,
        work.service.errands.export,
        work.tenant,
        PassportVersionId(passport_version_id),
        name=body.format,
        audience=body.audience,
        act=work.act,
    )
    return ExportRequested.model_validate(done)


@routes.read("/v1/passport-versions/{passport_version_id}/exports", **OF_VERSION)
async def list_exports(work: Work, passport_version_id: Id, paged: Paged) -> Page[Export]:
    """List the exports of a version, newest first."""
    version = PassportVersionId(passport_version_id)
    await passport_versions.get(work.conn, work.tenant, version)
    rows = await exports.of_version(work.conn, work.tenant, version, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.export_id), Export.model_validate)


@routes.read("/v1/exports/{export_id}", permission=READ)
async def get_export(work: Work, request: HttpRequest, export_id: Id) -> Export:
    """Get what is known of an export."""
    return Export.model_validate(await _found(work, request, ExportId(export_id)))


@routes.read(
    "/v1/exports/{export_id}/content",
    permission=READ,
    responses={**BYTES, 200: {**BYTES[200], "description": "The bytes, of the export's media type."}},
    errors=("CONFLICT",),
    response_class=Response,
)
async def get_export_content(
    work: Work, request: HttpRequest, export_id: Id, if_none_match: IfNoneMatch = None
) -> Response:
    """Get the bytes of an export that is READY."""
    export = await _found(work, request, ExportId(export_id))
    content = await exports.content(work.conn, work.tenant, export.export_id)
    if content is None:
        raise NotReady(export)
    return served(content, export.mime_type, if_none_match, attachment=True, name=export.file_name)


@routes.open("/v1/contexts/passport.jsonld", responses=described(JSON_LD), response_class=Response)
async def get_json_ld_context(if_none_match: IfNoneMatch = None) -> Response:
    """Get the context of JSON-LD exports. It is also part of every one of them."""
    return served(context_document(), JSON_LD, if_none_match)


@routes.open("/v1/schemas/passport.xsd", responses=described(XML), response_class=Response)
async def get_xml_schema(if_none_match: IfNoneMatch = None) -> Response:
    """Get the XML Schema of XML exports."""
    return served(XSD.encode(), XML, if_none_match)


async def _found(work: Doing, request: HttpRequest, export_id: ExportId) -> Found:
    """The export, unless a policy denies the version that it is of."""
    export = await exports.get(work.conn, work.tenant, export_id)
    version, sku = export.passport_version_id, None
    if asks_for_sku(work.caller.policies):
        sku = await products.sku_of(work.conn, work.tenant, "PassportVersion", version)
    require_undenied(work, request, [Resource(type="PassportVersion", id=version, sku=sku)], READ)
    return export
