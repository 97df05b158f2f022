"""/v1/documents, /v1/document-versions, /v1/schemas: files of suppliers, stored unchanged, and their JSON Schemas."""

import asyncio
import binascii
from base64 import b64decode
from dataclasses import asdict
from functools import cache
from typing import Annotated, Final, Literal

import orjson
from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.responses import Response

from bpc.api.http.child_compute import compute_by_size
from bpc.api.http.etag import BYTES_RESPONSES, IfNoneMatch, serve_bytes
from bpc.api.http.models import Hash, Id, IdOf, LongText, Moment, Page, Paging, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.documents.fact_members import build_document_schema
from bpc.core.errors import Invalid, NotFound
from bpc.core.formats.file_types import resolve_type
from bpc.core.formats.ids import DocumentId, DocumentVersionId
from bpc.core.outbound_urls import MAX_URL_LENGTH
from bpc.pipeline.upload import upload, withdraw
from bpc.storage.evidence import documents, parse_results, statements
from bpc.storage.evidence.documents import DocumentKind, DocumentStatus
from bpc.storage.jobs import retry_if_unsuccessful
from bpc.tasks.ingest import INGEST_LIMIT, IngestOrder
from bpc.tasks.pdf_text import request_text

document_routes = RouteFamily("Documents", resource="Document")

PIECE_CHARS: Final = 1_000_000  # characters; a multiple of four

MimeType = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}$")
]


class NewDocument(RequestBody):
    kind: DocumentKind = Field(
        description="The kind of its versions; OTHER is stored, but no facts are read from it.", examples=["BOM"]
    )
    external_ref: Text | None = Field(None, description="Its name in another system.", examples=["ERP-4711"])


class DocumentMade(ResponseBody):
    document_id: Id
    kind: DocumentKind


class Document(ResponseBody):
    document_id: Id
    kind: DocumentKind
    external_ref: str | None
    created_at: Moment


class NewVersion(RequestBody):
    mime_type: MimeType = Field(examples=["application/json"])
    content_base64: str = Field(description="The bytes, base64 with padding.", examples=["eyJiYXR0ZXJ5Ijp7fX0="])


class DocumentVersionMade(ResponseBody):
    document_version_id: Id
    version: int
    sha256: Hash
    status: DocumentStatus
    job_id: Id | None = Field(description="The job that reads its facts; null if nothing is to be read any more.")


class DocumentVersion(ResponseBody):
    ordered_by = "uploaded_at"

    document_version_id: Id
    document_id: Id
    version: int
    status: DocumentStatus
    mime_type: str
    sha256: Hash
    size: int | None = Field(description="Bytes; null once retention has removed them.")
    uploaded_at: Moment
    content_removed_at: Moment | None


class DocumentRemark(ResponseBody):
    """A remark about a document, with the place in it."""

    at: str = Field(examples=["$.components[3].mass_g"])
    says: str


class DocumentVersionRead(DocumentVersion):
    """A version with all problems and warnings of reading its facts, and their number.

    Lists are cut at ten thousand problems and ten thousand warnings; their last entry then says so. A warning that a
    number was rounded or that a value could not be read is always listed, in addition to those.
    """

    problems: list[DocumentRemark] = Field(description="Why it was rejected.")
    problems_total: int
    warnings: list[DocumentRemark] = Field(description="What was left out, could not be read, or was rounded.")
    warnings_total: int


class Withdrawal(RequestBody):
    reason: LongText = Field(description="Why it no longer counts.", examples=["The supplier sent the wrong battery."])


class Statement(ResponseBody):
    """What a document says from a time on: what a version says, or nothing."""

    ordered_by = "stated_at"

    statement_id: Id
    document_id: Id
    sequence: int = Field(description="1 for the first statement of the document.", examples=[1])
    document_version_id: Id | None = Field(description="The version that counts once it is read; null: withdrawn.")
    reason: str | None = Field(description="Why it was withdrawn.")
    stated_at: Moment
    stated_by: Id | None = Field(description="The actor; null if it is not known.")


class UploadTooLarge(Invalid):
    code = "REQUEST_TOO_LARGE"


@document_routes.write("/v1/documents", permission="docs:upload", status=201)
async def create_document(ctx: Context, body: NewDocument) -> DocumentMade:
    """Create a document. Then upload versions to it."""
    document = await documents.create_document(
        ctx.conn, ctx.tenant, kind=body.kind, external_ref=body.external_ref, act=ctx.act
    )
    return DocumentMade.model_validate(document)


@document_routes.read("/v1/documents", permission="docs:read")
async def list_documents(
    ctx: Context,
    page: Paging,
    external_ref: Annotated[
        Text | None, Query(description="Only documents with this reference.", examples=["ERP-4711"])
    ] = None,
) -> Page[Document]:
    """List documents, newest first."""
    rows = await documents.list_documents(ctx.conn, ctx.tenant, page.query, external_ref=external_ref)
    return page.build_page(rows, Document)


@document_routes.read("/v1/documents/{document_id}", permission="docs:read")
async def get_document(ctx: Context, document_id: IdOf[DocumentId]) -> Document:
    """Get a document."""
    return Document.model_validate(await documents.get_document(ctx.conn, ctx.tenant, document_id))


@document_routes.write(
    "/v1/documents/{document_id}/versions",
    permission="docs:upload",
    status=201,
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
    content = await _decode_content(body.content_base64, ctx.service.settings.upload_max_bytes)
    await asyncio.to_thread(resolve_type, body.mime_type, content)
    uploaded = await upload(
        ctx.conn,
        ctx.queue,
        ctx.service.pipeline_jobs.parse,
        ctx.tenant,
        document_id,
        mime_type=body.mime_type,
        content=content,
        act=ctx.act,
    )
    if uploaded.is_new:
        await request_text(ctx.queue, ctx.service.task_jobs.texts, uploaded.document_version_id, content)
    else:
        response.status_code = 200
        if uploaded.job_id is not None:
            await retry_if_unsuccessful(ctx.conn, ctx.tenant, uploaded.job_id, act=ctx.act)
    return DocumentVersionMade.model_validate(uploaded)


@document_routes.write("/v1/documents/{document_id}:withdraw", permission="docs:upload")
async def withdraw_document(ctx: Context, document_id: IdOf[DocumentId], body: Withdrawal) -> Statement:
    """Withdraw a document: it says nothing any more, and what it said no longer counts.

    Its versions and facts stay, and so do passports that were compiled from them. A later upload lets it say something
    again.
    """
    return Statement.model_validate(await withdraw(ctx.conn, ctx.tenant, document_id, reason=body.reason, act=ctx.act))


@document_routes.read("/v1/documents/{document_id}/statements", permission="docs:read")
async def list_document_statements(ctx: Context, document_id: IdOf[DocumentId], page: Paging) -> Page[Statement]:
    """List what a document said, and since when, newest first."""
    document = (await documents.get_document(ctx.conn, ctx.tenant, document_id)).document_id
    rows = await statements.list_statements(ctx.conn, ctx.tenant, document, page.query)
    return page.build_page(rows, Statement)


@document_routes.read("/v1/documents/{document_id}/versions", permission="docs:read")
async def list_document_versions(ctx: Context, document_id: IdOf[DocumentId], page: Paging) -> Page[DocumentVersion]:
    """List the versions of a document, newest first."""
    document = (await documents.get_document(ctx.conn, ctx.tenant, document_id)).document_id
    rows = await documents.list_document_versions(ctx.conn, ctx.tenant, document, page.query)
    return page.build_page(rows, DocumentVersion)


@document_routes.read("/v1/document-versions/{document_version_id}", permission="docs:read", resource="DocumentVersion")
async def get_document_version(ctx: Context, document_version_id: IdOf[DocumentVersionId]) -> DocumentVersionRead:
    """Get a version with the problems and warnings of reading its facts."""
    row = await documents.get_document_version(ctx.conn, ctx.tenant, document_version_id)
    outcome = await parse_results.load_parse_result(ctx.conn, ctx.tenant, document_version_id)
    return DocumentVersionRead.model_validate({**asdict(row), **asdict(outcome)})


@document_routes.read(
    "/v1/document-versions/{document_version_id}/content",
    permission="docs:read",
    resource="DocumentVersion",
    response_class=Response,
    # No schema: they may be JSON, and then they are read as such.
    responses={**BYTES_RESPONSES, 200: {**BYTES_RESPONSES[200], "content": {"*/*": {}}}},
)
async def get_document_content(
    ctx: Context, document_version_id: IdOf[DocumentVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Download the bytes of a version, as they were uploaded."""
    row = await documents.load_content(ctx.conn, ctx.tenant, document_version_id)
    if row.content is None:
        raise ContentRemoved(document_version_id)
    return serve_bytes(row.content, row.mime_type, if_none_match, attachment=True)


class ContentRemoved(NotFound):
    """Retention has removed the bytes; the row remains."""

    http = 410

    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"the content of document version `{version}` was removed when its retention ended",
            fix="its facts and its hash remain; only a backup still has the bytes",
        )


async def _decode_content(text: str, max_bytes: int) -> bytes:
    try:
        content = await compute_by_size(_decode_base64, text)
    except (binascii.Error, ValueError):
        raise Invalid("`content_base64` is not base64", fix="use the standard alphabet with padding") from None
    if not content:
        raise Invalid("`content_base64` is empty", fix="send the bytes of the document")
    if len(content) > max_bytes:
        says = f"the document has {len(content):,} bytes; at most {max_bytes:,} are accepted"
        raise UploadTooLarge(says, fix="split it, or ask the operator to raise BPC_UPLOAD_MAX_BYTES")
    return content


def _decode_base64(text: str) -> bytes:
    """Decode piece by piece: decoding blocks other threads, which must run in between."""
    pieces = [b64decode(text[start : start + PIECE_CHARS], validate=True) for start in range(0, len(text), PIECE_CHARS)]
    if any(len(piece) != PIECE_CHARS // 4 * 3 for piece in pieces[:-1]):
        raise ValueError("there is padding before the end")
    return b"".join(pieces)


class Ingestion(RequestBody):
    file_url: Annotated[str, StringConstraints(min_length=1, max_length=MAX_URL_LENGTH)] = Field(
        description="Where the file is: an https URL, or `file:///…` in a folder that this installation allows.",
        examples=["https://supplier.example/bom.json"],
    )
    mime_type: MimeType | None = Field(
        None, description="The media type; left out, it is detected. Bytes that contradict it are refused."
    )


class IngestionRequested(ResponseBody):
    job_id: Id = Field(description="The job that fetches the file; its result has the id of the version.")


class DocumentText(ResponseBody):
    """The text of a PDF, or the reason why there is none."""

    document_version_id: Id
    pages: int | None
    text: str | None = Field(description="Pages are separated by form feeds.")
    problem: str | None = Field(description="Why there is no text.")


@document_routes.write("/v1/documents/{document_id}/ingest", permission="docs:upload", status=202)
async def ingest_document(ctx: Context, document_id: IdOf[DocumentId], body: Ingestion) -> IngestionRequested:
    """Fetch a file as a new version of a document.

    A job fetches it and continues after a broken connection. If the same bytes are a version already, no second version
    is made; the result of the job names the existing one.
    """
    document = (await documents.get_document(ctx.conn, ctx.tenant, document_id)).document_id
    task_jobs = ctx.service.task_jobs
    task_jobs.sources.require_allowed(body.file_url)
    order = IngestOrder(
        document_id=document, file_url=body.file_url, mime_type=body.mime_type, actor_id=ctx.act.actor_id
    )
    return IngestionRequested(job_id=await ctx.queue.submit(task_jobs.ingest, order, limit=INGEST_LIMIT))


@document_routes.read(
    "/v1/document-versions/{document_version_id}/text", permission="docs:read", resource="DocumentVersion"
)
async def get_document_text(ctx: Context, document_version_id: IdOf[DocumentVersionId]) -> DocumentText:
    """Get the text of a version that is a PDF."""
    if (await documents.get_document_version(ctx.conn, ctx.tenant, document_version_id)).content_removed_at is not None:
        raise ContentRemoved(document_version_id)
    text = await parse_results.get_text(ctx.conn, ctx.tenant, document_version_id)
    return DocumentText(document_version_id=document_version_id, pages=text.pages, text=text.text, problem=text.problem)


schema_routes = RouteFamily("Documents")

JSON_SCHEMA: Final = "application/schema+json"


@schema_routes.open(
    "/v1/schemas/{kind}",
    response_class=Response,
    responses={200: {"description": "The schema.", "content": {JSON_SCHEMA: {"schema": {"type": "object"}}}}},
)
async def get_document_schema(kind: Literal["BOM", "PCF", "DUE_DILIGENCE"]) -> Response:
    """Get the JSON Schema (2020-12) of documents of a kind. It needs no key: suppliers have none."""
    return Response(_encode_schema(kind), media_type=JSON_SCHEMA)


@cache
def _encode_schema(kind: str) -> bytes:
    return orjson.dumps(build_document_schema(kind))
