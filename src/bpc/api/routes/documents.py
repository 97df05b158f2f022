"""/v1/documents, /v1/document-versions: what suppliers sent, as they sent it."""

import asyncio
import binascii
from base64 import b64decode
from dataclasses import asdict
from typing import Annotated, Final

from pydantic import Field, StringConstraints
from starlette.responses import Response

from bpc.api.bytes import BYTES, IfNoneMatch, served
from bpc.api.intake import AWAY_FROM
from bpc.api.models import Answer, Hash, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.errors import Invalid, NotFound
from bpc.core.file_types import checked_type
from bpc.core.ids import DocumentId, DocumentVersionId
from bpc.db import documents, readings
from bpc.db.documents import Kind, Status
from bpc.errands.texts import request_text
from bpc.pipeline.upload import upload

routes = Routes("Documents")

AT_ONCE: Final = 1_000_000  # characters; a multiple of four

MimeType = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}$")
]


class NewDocument(Request):
    kind: Kind = Field(description="What its versions are; OTHER is stored and not read.", examples=["BOM"])
    external_ref: Text | None = Field(None, description="Its name in another system.", examples=["ERP-4711"])


class DocumentMade(Answer):
    document_id: Id
    kind: Kind


class Document(Answer):
    document_id: Id
    kind: Kind
    external_ref: str | None
    created_at: Moment


class NewVersion(Request):
    mime_type: MimeType = Field(examples=["application/json"])
    content_base64: str = Field(description="The bytes, base64 with padding.", examples=["eyJiYXR0ZXJ5Ijp7fX0="])


class VersionMade(Answer):
    document_version_id: Id
    version: int
    sha256: Hash
    status: Status
    job_id: Id | None = Field(description="The job that reads its facts; null for kind OTHER.")


class DocumentVersion(Answer):
    document_version_id: Id
    document_id: Id
    version: int
    status: Status
    mime_type: str
    sha256: Hash
    size: int | None = Field(description="Bytes; null once retention has removed them.")
    uploaded_at: Moment
    content_removed_at: Moment | None


class Remark(Answer):
    """Something about a document, and where in it."""

    at: str = Field(examples=["$.components[3].mass_g"])
    says: str


class DocumentVersionRead(DocumentVersion):
    """A version with what was found when its facts were read: the first hundred of each, and how many there are.

    A warning that a number was rounded is always listed, beside the hundred.
    """

    problems: list[Remark] = Field(description="Why it was rejected.")
    problems_total: int
    warnings: list[Remark] = Field(description="What was left out of its facts, and what was rounded.")
    warnings_total: int


class UploadTooLarge(Invalid):
    code = "REQUEST_TOO_LARGE"


@routes.write("/v1/documents", permission="docs:upload", resource="Document", status=201)
async def create_document(work: Work, body: NewDocument) -> DocumentMade:
    """Create a document, for versions to be uploaded to."""
    made = await documents.create(work.conn, work.tenant, kind=body.kind, external_ref=body.external_ref, act=work.act)
    return DocumentMade.model_validate(made)


@routes.read("/v1/documents", permission="docs:read", resource="Document")
async def list_documents(work: Work, paged: Paged) -> Page[Document]:
    """List documents, newest first."""
    rows = await documents.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.document_id), Document.model_validate)


@routes.read("/v1/documents/{document_id}", permission="docs:read", resource="Document")
async def get_document(work: Work, document_id: Id) -> Document:
    """Get a document."""
    return Document.model_validate(await documents.get(work.conn, work.tenant, DocumentId(document_id)))


@routes.write("/v1/documents/{document_id}/versions", permission="docs:upload", resource="Document", status=201)
async def upload_document_version(work: Work, document_id: Id, body: NewVersion) -> VersionMade:
    """Upload a version. Its facts are read by a job; bytes that are known already are a CONFLICT that names them.

    A `mime_type` that the bytes contradict is refused; one that says little is kept, and the bytes decide.
    """
    content = await _decoded(body.content_base64, work.service.settings.upload_max_bytes)
    await asyncio.to_thread(checked_type, body.mime_type, content)
    uploaded = await upload(
        work.conn,
        work.queue,
        work.service.steps.parse,
        work.tenant,
        DocumentId(document_id),
        mime_type=body.mime_type,
        content=content,
        act=work.act,
    )
    await request_text(work.queue, work.service.errands.texts, uploaded.document_version_id, content)
    return VersionMade.model_validate(uploaded)


@routes.read("/v1/documents/{document_id}/versions", permission="docs:read", resource="Document")
async def list_document_versions(work: Work, document_id: Id, paged: Paged) -> Page[DocumentVersion]:
    """List the versions of a document, newest first."""
    document = (await documents.get(work.conn, work.tenant, DocumentId(document_id))).document_id
    rows = await documents.versions(work.conn, work.tenant, document, paged.ask)
    return paged.page(rows, lambda row: Place(row.uploaded_at, row.document_version_id), DocumentVersion.model_validate)


@routes.read("/v1/document-versions/{document_version_id}", permission="docs:read", resource="DocumentVersion")
async def get_document_version(work: Work, document_version_id: Id) -> DocumentVersionRead:
    """Get what is known of a version, and what was found when its facts were read."""
    version = DocumentVersionId(document_version_id)
    found = await documents.version(work.conn, work.tenant, version)
    outcome = await readings.outcome(work.conn, work.tenant, version)
    return DocumentVersionRead.model_validate({**asdict(found), **asdict(outcome)})


@routes.read(
    "/v1/document-versions/{document_version_id}/content",
    permission="docs:read",
    resource="DocumentVersion",
    response_class=Response,
    # No schema: they may be JSON, and then they are read as such.
    responses={**BYTES, 200: {**BYTES[200], "content": {"*/*": {}}}},
)
async def get_document_content(work: Work, document_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Download the bytes of a version, as they were uploaded."""
    found = await documents.content(work.conn, work.tenant, DocumentVersionId(document_version_id))
    if found.content is None:
        raise ContentRemoved(DocumentVersionId(document_version_id))
    return served(found.content, found.mime_type, if_none_match, attachment=True)


class ContentRemoved(NotFound):
    """Retention has removed the bytes; the row stays."""

    http = 410

    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"the content of document version `{version}` was removed when its retention ended",
            fix="its facts and its hash stay; only a backup still has the bytes",
        )


async def _decoded(text: str, most: int) -> bytes:
    try:
        content = await asyncio.to_thread(_decode, text) if len(text) > AWAY_FROM else _decode(text)
    except (binascii.Error, ValueError):
        raise Invalid("`content_base64` is not base64", fix="use the standard alphabet with padding") from None
    if not content:
        raise Invalid("`content_base64` is empty", fix="send the bytes of the document")
    if len(content) > most:
        says = f"the document has {len(content):,} bytes, and at most {most:,} are accepted"
        raise UploadTooLarge(says, fix="split it, or have BPC_UPLOAD_MAX_BYTES raised")
    return content


def _decode(text: str) -> bytes:
    """Piece by piece: decoding holds the interpreter, and others need it in between."""
    pieces = [b64decode(text[start : start + AT_ONCE], validate=True) for start in range(0, len(text), AT_ONCE)]
    if any(len(piece) != AT_ONCE // 4 * 3 for piece in pieces[:-1]):
        raise ValueError("there is padding before the end")
    return b"".join(pieces)
