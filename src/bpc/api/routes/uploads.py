"""Uploads: a file to the document with a reference, in one call; or base64 in JSON, to a document by its id."""

import asyncio
import binascii
import re
from base64 import b64decode
from typing import Annotated, Any, Final

from fastapi import Path, Query
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import require_not_denied
from bpc.api.http.child_compute import compute_by_size
from bpc.api.http.models import Hash, Id, IdOf, RequestBody, ResponseBody, Text
from bpc.api.http.request_body import SentUpload
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.documents import LOCALE_DESCRIPTION, MIME_TYPE_PATTERN, MimeType, SupplierName
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.errors import Invalid
from bpc.core.formats.file_types import UNKNOWN, clean_file_name, resolve_type
from bpc.core.formats.ids import DocumentId
from bpc.core.policies import Resource
from bpc.pipeline.upload import DocumentReference, FileUpload, upload, upload_by_ref
from bpc.storage.access import storage_quota
from bpc.storage.evidence import documents
from bpc.storage.evidence.documents import DocumentKind, DocumentStatus, UploadedDocument
from bpc.storage.jobs import retry_if_unsuccessful
from bpc.tasks.pdf_text import request_text

routes = RouteFamily("Documents", resource="Document")

PIECE_CHARS: Final = 1_000_000  # characters; a multiple of four
# What a client sends that was not told what the bytes are; the format is then detected.
VAGUE_TYPES: Final = frozenset({"application/x-www-form-urlencoded"})


class NewVersion(RequestBody):
    mime_type: MimeType = Field(examples=["application/json"])
    file_name: Text | None = Field(None, description="The name of the file.", examples=["bom.json"])
    content_base64: str = Field(description="The bytes, base64 with padding.", examples=["eyJiYXR0ZXJ5Ijp7fX0="])


class DocumentVersionMade(ResponseBody):
    document_version_id: Id
    version: int
    sha256: Hash
    status: DocumentStatus
    job_id: Id | None = Field(description="The job that reads its facts; null if nothing is to be read any more.")


class UploadMade(DocumentVersionMade):
    document_id: Id


class UploadParameters(RequestBody):
    """What an upload by reference says about its file: in the query, or in the fields of a form."""

    kind: DocumentKind | None = None
    supplier: SupplierName | None = None
    locale: NumberLocale | None = None
    file_name: Text | None = None
    version_ref: Text | None = None


class UploadTooLarge(Invalid):
    code = "REQUEST_TOO_LARGE"


@routes.write(
    "/v1/documents/by-ref/{external_ref:path}",
    permission="docs:upload",
    method="PUT",
    status=201,
    takes_file=True,
    errors=("STORAGE_QUOTA_EXCEEDED",),
    responses={200: {"model": UploadMade, "description": "Nothing new was stored."}},
)
async def upload_document(
    ctx: Context,
    request: Request,
    response: Response,
    external_ref: Annotated[
        Text,
        Path(
            description="The document's name in another system. A slash in it is written as it is, not as %2F.",
            examples=["ERP-4711"],
            json_schema_extra={"format": "path"},
        ),
    ],
    kind: Annotated[
        DocumentKind | None,
        Query(description="The kind of the document; needed until the document exists.", examples=["BOM"]),
    ] = None,
    supplier: Annotated[
        SupplierName | None, Query(description="Who sends it, by name; a supplier that is not known is created.")
    ] = None,
    locale: Annotated[NumberLocale | None, Query(description=LOCALE_DESCRIPTION)] = None,
    file_name: Annotated[
        Text | None,
        Query(
            description="The name of the file, unless the form or Content-Disposition has it.", examples=["bom.xlsx"]
        ),
    ] = None,
    version_ref: Annotated[
        Text | None,
        Query(description="The sender's own number of this version: the same again changes nothing.", examples=["7"]),
    ] = None,
) -> UploadMade:
    """Upload a file to the document with a reference, which is created if there is none.

    The body is the file itself, or a form (multipart/form-data) with one file; parameters may be fields of the form. A
    job reads its facts; from then on the document says what this version says. The answer is 201 for a new version, and
    200 for bytes that were uploaded before: they are said again, now, unless they are what the document says already.

    A `version_ref` that came with the same bytes before changes nothing, whatever was uploaded meanwhile; with other
    bytes it is refused. If several documents have the reference, the request is refused with their ids.
    """
    if {"", ".", ".."} & set(external_ref.split("/")):
        raise Invalid(
            "the reference has an empty part or a part of dots between its slashes, which proxies change",
            fix="create the document with POST /v1/documents, and upload to it by its id",
        )
    upload_body: SentUpload = request.state.upload
    query = {"kind": kind, "supplier": supplier, "locale": locale, "file_name": file_name, "version_ref": version_ref}
    parameters = _merge_parameters(query, upload_body.fields)
    file = await check_file(upload_body, parameters.file_name, ctx.service.settings.upload_max_bytes)
    await _require_upload_allowed(ctx, request, external_ref)
    reference = DocumentReference(
        external_ref=external_ref,
        kind=parameters.kind,
        supplier=parameters.supplier,
        locale=parameters.locale,
        version_ref=parameters.version_ref,
    )
    await _require_room(ctx, file.content)
    document = await upload_by_ref(
        ctx.conn, ctx.queue, ctx.service.pipeline_jobs.parse, ctx.tenant, reference, file, act=ctx.act
    )
    await _submit_further_jobs(ctx, document, file.content, response)
    return UploadMade.model_validate(document)


@routes.write(
    "/v1/documents/{document_id}/versions",
    permission="docs:upload",
    status=201,
    errors=("STORAGE_QUOTA_EXCEEDED",),
    responses={200: {"model": DocumentVersionMade, "description": "The bytes were uploaded before."}},
)
async def upload_document_version(
    ctx: Context, document_id: IdOf[DocumentId], body: NewVersion, response: Response
) -> DocumentVersionMade:
    """Upload a version. A job reads its facts; from then on the document says what this version says.

    Bytes that were uploaded before are not stored twice: the answer is 200 and names the existing version, and the
    document says it again, now. If it is what the document says already, nothing changes. A `mime_type` that the bytes
    contradict is refused. A general type such as application/octet-stream is accepted; the format is then detected.
    """
    content = await decode_content(body.content_base64)
    _require_size(content, ctx.service.settings.upload_max_bytes)
    await asyncio.to_thread(resolve_type, body.mime_type, content)
    file = FileUpload(content=content, mime_type=body.mime_type, file_name=clean_file_name(body.file_name))
    await _require_room(ctx, content)
    document = await upload(
        ctx.conn, ctx.queue, ctx.service.pipeline_jobs.parse, ctx.tenant, document_id, file, act=ctx.act
    )
    await _submit_further_jobs(ctx, document, content, response)
    return DocumentVersionMade.model_validate(document)


async def _submit_further_jobs(ctx: Context, document: UploadedDocument, content: bytes, response: Response) -> None:
    """Submit what follows an upload: the text of a stored PDF, or another attempt to read it; set the status."""
    await request_text(ctx.queue, ctx.service.task_jobs.texts, document, content, act=ctx.act)
    if not document.is_new:
        response.status_code = 200
        if document.job_id is not None:
            await retry_if_unsuccessful(ctx.conn, ctx.tenant, document.job_id, act=ctx.act)


def _merge_parameters(query: dict[str, Any], fields: Any) -> UploadParameters:
    """The parameters of the query and of the form. What is in both must be the same."""
    sent_in_query = {name: value for name, value in query.items() if value is not None}
    for name, value in sent_in_query.items():
        if fields.get(name, value) != value:
            raise Invalid(f"`{name}` is in the query and, with another value, in the form", fix="send it once")
    try:
        return UploadParameters.model_validate(sent_in_query | dict(fields))
    except ValidationError as error:
        problems = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors(include_url=False)]
        raise RequestValidationError(problems) from None


async def check_file(upload_body: SentUpload, file_name: str | None, max_bytes: int) -> FileUpload:
    """The file that was sent, with the type that its bytes show."""
    content, media_type = upload_body.file.content, upload_body.file.media_type
    if not content:
        raise Invalid("the file is empty", fix="send the bytes of the document")
    _require_size(content, max_bytes)
    if media_type is not None and re.fullmatch(MIME_TYPE_PATTERN, media_type) is None:
        raise Invalid("the Content-Type is not a media type", fix=f"leave it out, or send {UNKNOWN}")
    declared_type = None if media_type in VAGUE_TYPES else media_type
    mime_type = await asyncio.to_thread(resolve_type, declared_type, content)
    return FileUpload(
        content=content, mime_type=mime_type, file_name=upload_body.file.file_name or clean_file_name(file_name)
    )


async def _require_upload_allowed(ctx: Context, request: Request, external_ref: str) -> None:
    """Refuse if a policy denies uploads to a document with this reference."""
    ids = await documents.list_ids_by_ref(ctx.conn, ctx.tenant, external_ref)
    require_not_denied(ctx, request, (Resource(type="Document", id=document) for document in ids), "docs:upload")


async def _require_room(ctx: Context, content: bytes) -> None:
    default = ctx.service.settings.tenant_storage_bytes
    await storage_quota.require_room(ctx.conn, ctx.tenant, len(content), default=default)


def _require_size(content: bytes, max_bytes: int) -> None:
    if len(content) > max_bytes:
        says = f"the document has {len(content):,} bytes; at most {max_bytes:,} are accepted"
        raise UploadTooLarge(says, fix="split it, or ask the operator to raise BPC_UPLOAD_MAX_BYTES")


async def decode_content(text: str) -> bytes:
    """The bytes of a member `content_base64`; there must be some."""
    try:
        content = await compute_by_size(_decode_base64, text)
    except (binascii.Error, ValueError):
        raise Invalid("`content_base64` is not base64", fix="use the standard alphabet with padding") from None
    if not content:
        raise Invalid("`content_base64` is empty", fix="send the bytes of the document")
    return content


def _decode_base64(text: str) -> bytes:
    """Decode piece by piece: decoding blocks other threads, which must run in between."""
    pieces = [b64decode(text[start : start + PIECE_CHARS], validate=True) for start in range(0, len(text), PIECE_CHARS)]
    if any(len(piece) != PIECE_CHARS // 4 * 3 for piece in pieces[:-1]):
        raise ValueError("there is padding before the end")
    return b"".join(pieces)
