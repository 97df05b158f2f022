"""Ingestion: documents fetched from where they are, and the texts of those that are PDFs."""

from typing import Annotated

from pydantic import Field, StringConstraints

from bpc.api.models import Answer, Id, Request
from bpc.api.routes.documents import ContentRemoved, MimeType
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.ids import DocumentId, DocumentVersionId
from bpc.core.outbound_urls import LONGEST
from bpc.db import document_texts, documents
from bpc.errands.ingest import LIMIT, IngestOrder

routes = Routes("Documents")


class Ingestion(Request):
    file_url: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)] = Field(
        description="Where the file is: an https URL, or `file:///…` in a folder that this installation opens to it.",
        examples=["https://supplier.example/bom.json"],
    )
    mime_type: MimeType | None = Field(
        None, description="What it is; by its bytes if left out. Bytes that contradict it are refused."
    )


class IngestionRequested(Answer):
    job_id: Id = Field(description="The job that fetches it; its result names the version.")


class DocumentText(Answer):
    """The text of a PDF, or why there is none."""

    document_version_id: Id
    pages: int | None
    text: str | None = Field(description="Form feeds stand between its pages.")
    problem: str | None = Field(description="Why there is no text.")


@routes.write("/v1/documents/{document_id}/ingest", permission="docs:upload", resource="Document", status=202)
async def ingest_document(work: Work, document_id: Id, body: Ingestion) -> IngestionRequested:
    """Fetch a file as a new version of a document.

    A job does it, and goes on where it was when the connection breaks. Bytes that are a version already make no second
    one: the job's result names it.
    """
    document = (await documents.get(work.conn, work.tenant, DocumentId(document_id))).document_id
    errands = work.service.errands
    errands.sources.check(body.file_url)
    order = IngestOrder(
        document_id=document, file_url=body.file_url, mime_type=body.mime_type, actor_id=work.act.actor_id
    )
    return IngestionRequested(job_id=await work.queue.submit(errands.ingest, order, limit=LIMIT))


@routes.read("/v1/document-versions/{document_version_id}/text", permission="docs:read", resource="DocumentVersion")
async def get_document_text(work: Work, document_version_id: Id) -> DocumentText:
    """Get the text of a version that is a PDF."""
    version = DocumentVersionId(document_version_id)
    if (await documents.version(work.conn, work.tenant, version)).content_removed_at is not None:
        raise ContentRemoved(version)
    found = await document_texts.get(work.conn, work.tenant, version)
    return DocumentText(document_version_id=version, pages=found.pages, text=found.text, problem=found.problem)
