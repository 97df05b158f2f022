"""/v1/attachments: files behind data points; and the attached files of a passport version, for each audience."""

from functools import partial
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field, StringConstraints, model_validator
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import require_not_denied
from bpc.api.http.child_compute import compute_by_size
from bpc.api.http.etag import BYTES_RESPONSES, IfNoneMatch, serve_large_bytes
from bpc.api.http.models import Hash, Id, IdOf, LongText, Moment, Page, Paging, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import NotFound
from bpc.core.exports.attached_files import list_disclosed_hashes
from bpc.core.exports.disclosure import Audience
from bpc.core.facts.attachments import ATTACHABLE_TYPES
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import AttachmentId, DocumentVersionId, PassportVersionId
from bpc.core.policies import Resource
from bpc.storage.evidence import attachments, documents
from bpc.storage.evidence.attachments import AttachmentRow
from bpc.storage.passports import passport_versions

attachment_routes = RouteFamily("Attachments")
attached_file_routes = RouteFamily("Attachments", resource="PassportVersion")

AttachedPoint = Literal[40, 41, 42, 43, 47, 48, 49, 50]
FileHash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class NewAttachment(RequestBody):
    """A file for a data point of a product. Name its version, or the reference of its document."""

    sku: Text = Field(description="The product.", examples=["SKU-123"])
    data_point: AttachedPoint = Field(
        description="Number of the data point, as in the Commission's guidance.", examples=[42]
    )
    document_version_id: IdOf[DocumentVersionId] | None = Field(
        None, description="A version of a document of kind OTHER: a PDF, PNG or JPEG."
    )
    external_ref: Text | None = Field(
        None, description="The reference of such a document; its current version is attached."
    )
    title: Text | None = Field(
        None, description="What the file is, for people.", examples=["Declaration of conformity"]
    )

    @model_validator(mode="after")
    def _require_one_name(self) -> "NewAttachment":
        if (self.document_version_id is None) == (self.external_ref is None):
            raise ValueError("name either `document_version_id` or `external_ref`")
        return self


class Attachment(ResponseBody):
    """A file that is or was bound to a data point of a product."""

    ordered_by = "attached_at"

    attachment_id: Id
    sku: str
    product_name: str | None = Field(description="The name of the product; null if there is none with this SKU yet.")
    data_point: int
    document_version_id: Id
    document_id: Id
    title: str | None
    file_name: str | None = Field(description="The name it was uploaded with.")
    mime_type: str = Field(description="By its bytes.", examples=["application/pdf"])
    size: int | None = Field(description="Bytes; null once retention has removed them.")
    sha256: Hash
    attached_at: Moment
    attached_by: Id | None
    counts: bool = Field(
        description="Whether the next snapshot of the product has it: it is not withdrawn, and its document still says "
        "this version."
    )
    reason: str | None = Field(description="Why it was withdrawn.")
    withdrawn_at: Moment | None
    withdrawn_by: Id | None


class AttachmentWithdrawal(RequestBody):
    reason: LongText = Field(description="Why it no longer counts.", examples=["It is of another model."])


class NoSuchFile(NotFound):
    """The passport version does not show such a file to this audience. It does not say whether there is one."""

    def __init__(self, version: PassportVersionId, digest: str, audience: Audience) -> None:
        super().__init__(
            f"passport version `{version}` shows no attached file `{digest}` to the audience `{audience}`",
            fix="use a hash from a field that this audience may see",
        )


@attachment_routes.write(
    "/v1/attachments",
    permission="docs:upload",
    status=201,
    errors=("NOT_FOUND", "CONFLICT"),
    responses={200: {"model": Attachment, "description": "The file was attached there before."}},
)
async def create_attachment(ctx: Context, request: Request, body: NewAttachment, response: Response) -> Attachment:
    """Attach a file to a data point of a product. The next snapshot of the product names it by its hash.

    A file that is attached there already is not attached twice: the answer is 200.
    """
    version = body.document_version_id
    if version is None:
        version = await attachments.find_version_by_ref(ctx.conn, ctx.tenant, str(body.external_ref))
    document = (await documents.get_document_version(ctx.conn, ctx.tenant, version)).document_id
    resources = [Resource(type="DocumentVersion", id=version), Resource(type="Document", id=document)]
    require_not_denied(ctx, request, resources, "docs:upload", "docs:read")
    row, is_new = await attachments.add_attachment(
        ctx.conn, ctx.tenant, version, sku=body.sku, data_point=body.data_point, title=body.title, act=ctx.act
    )
    if not is_new:
        response.status_code = 200
    return Attachment.model_validate(row)


@attachment_routes.read("/v1/attachments", permission="docs:read")
async def list_attachments(
    ctx: Context,
    page: Paging,
    sku: Annotated[Text | None, Query(description="Only files of this product.", examples=["SKU-123"])] = None,
) -> Page[Attachment]:
    """List attached files, newest first, including withdrawn ones."""
    return page.build_page(await attachments.list_attachments(ctx.conn, ctx.tenant, page.query, sku=sku), Attachment)


@attachment_routes.read("/v1/attachments/{attachment_id}", permission="docs:read")
async def get_attachment(ctx: Context, request: Request, attachment_id: IdOf[AttachmentId]) -> Attachment:
    """Get an attachment."""
    return Attachment.model_validate(await _load_allowed(ctx, request, attachment_id, "docs:read"))


@attachment_routes.write("/v1/attachments/{attachment_id}:withdraw", permission="docs:upload", errors=("CONFLICT",))
async def withdraw_attachment(
    ctx: Context, request: Request, attachment_id: IdOf[AttachmentId], body: AttachmentWithdrawal
) -> Attachment:
    """Withdraw an attachment: the next snapshot of the product does not have it.

    The file stays, and so do passports that name it.
    """
    row = await _load_allowed(ctx, request, attachment_id, "docs:upload")
    return Attachment.model_validate(
        await attachments.withdraw_attachment(ctx.conn, ctx.tenant, row.attachment_id, reason=body.reason, act=ctx.act)
    )


@attached_file_routes.read(
    "/v1/passport-versions/{passport_version_id}/attachments/{sha256}",
    permission="passport:read",
    response_class=Response,
    responses={
        **BYTES_RESPONSES,
        200: {
            "description": "The bytes.",
            "content": dict.fromkeys(ATTACHABLE_TYPES, BYTES_RESPONSES[200]["content"]["*/*"]),
        },
    },
    errors=("NOT_FOUND",),
)
async def get_attached_file(
    ctx: Context,
    passport_version_id: IdOf[PassportVersionId],
    sha256: FileHash,
    audience: Annotated[
        Audience, Query(description="The audience: the file is served if a field that it may see contains the hash.")
    ] = "tenant",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get a file that a passport version names by its hash."""
    version = await passport_versions.get_version(ctx.conn, ctx.tenant, passport_version_id)
    payload = await passport_versions.load_artifact(ctx.conn, ctx.tenant, passport_version_id, "payload")
    hashes = await compute_by_size(partial(_list_hashes, audience=audience), payload or b"")
    files = (
        await attachments.load_attached_files(ctx.conn, ctx.tenant, version.snapshot_id, digest=sha256)
        if sha256 in hashes
        else []
    )
    if not files:
        raise NoSuchFile(passport_version_id, sha256, audience)
    content = attachments.require_content(files[0])
    return await serve_large_bytes(content, files[0].mime_type, if_none_match, attachment=True)


def _list_hashes(payload: bytes, *, audience: Audience) -> set[str]:
    members = canonical_json.decode(payload)
    return list_disclosed_hashes(members, audience) if isinstance(members, dict) else set()


async def _load_allowed(
    ctx: RequestContext, request: Request, attachment: AttachmentId, permission: str
) -> AttachmentRow:
    """Return the attachment, unless a policy denies its document."""
    row = await attachments.get_attachment(ctx.conn, ctx.tenant, attachment)
    resources = [
        Resource(type="DocumentVersion", id=row.document_version_id),
        Resource(type="Document", id=row.document_id),
    ]
    require_not_denied(ctx, request, resources, permission)
    return row
