"""/v1/documents, /v1/document-versions: files of suppliers, stored unchanged."""

from typing import Annotated, Final

from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.responses import Response

from bpc.api.access.auth import decide_for
from bpc.api.http.document_download import serve_document
from bpc.api.http.etag import BYTES_RESPONSES, IfNoneMatch
from bpc.api.http.models import (
    ActivityFilter,
    ActivityReason,
    CreatedAfter,
    CreatedBefore,
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    NothingToChange,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SearchText,
    Text,
    list_members,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.errors import NotFound
from bpc.core.formats.ids import DocumentId, DocumentVersionId
from bpc.core.outbound_urls import MAX_URL_LENGTH
from bpc.core.policies import Resource
from bpc.pipeline.upload import find_or_create_supplier, withdraw
from bpc.storage.evidence import document_names, document_search, documents, parse_results, statements
from bpc.storage.evidence.document_search import DocumentFilter
from bpc.storage.evidence.documents import DocumentKind, DocumentStatus
from bpc.tasks.ingest import INGEST_LIMIT, IngestOrder

document_routes = RouteFamily("Documents", resource="Document")

MIME_TYPE_PATTERN: Final = r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}$"
MimeType = Annotated[str, StringConstraints(pattern=MIME_TYPE_PATTERN)]


SupplierName = Annotated[Text, Field(examples=["Example Cells GmbH"])]
LOCALE_DESCRIPTION: Final = (
    "What separates the decimals of numbers that are texts in its tables: `comma` (1.000,5) or `point` (1,000.5)."
)


class NewDocument(RequestBody):
    kind: DocumentKind = Field(
        description="The kind of its versions; OTHER is stored, but no facts are read from it.", examples=["BOM"]
    )
    name: Text | None = Field(None, description="Its name for people.", examples=["Bill of materials 2027"])
    external_ref: Text | None = Field(None, description="Its name in another system.", examples=["ERP-4711"])
    supplier: SupplierName | None = Field(
        None, description="Who sends it, by name; a supplier that is not known is created."
    )
    locale: NumberLocale | None = Field(None, description=LOCALE_DESCRIPTION)


class DocumentMade(ResponseBody):
    document_id: Id
    kind: DocumentKind


class DocumentProduct(ResponseBody):
    """A product that a document is about."""

    sku: str = Field(examples=["SKU-123"])
    name: str | None = Field(
        description="The name of the product; null if there is no such product, or without `passport:read`."
    )


class Document(ResponseBody):
    document_id: Id
    kind: DocumentKind
    name: str | None = Field(None, description="Its name for people.", examples=["Bill of materials 2027"])
    external_ref: str | None
    is_active: bool = Field(True, description="False: deactivated; it takes no new versions.")
    supplier_id: Id | None = None
    supplier: str | None = Field(None, description="The name of its supplier.", examples=["Example Cells GmbH"])
    locale: NumberLocale | None = Field(
        None, description="The decimal separator of numbers in its tables; null: its supplier's, if that is declared."
    )
    created_at: Moment


class ListedDocument(Document):
    """A document with some of the products that it is about."""

    products: list[DocumentProduct] = Field(
        default_factory=list,
        description="Products that its newest version is about, by SKU: at most ten, from its first hundred facts.",
    )


class DocumentChange(RequestBody):
    """Members that are left out do not change."""

    name: Text | None = Field(None, description="Its name for people.", examples=["Bill of materials 2027"])
    supplier: SupplierName | None = Field(
        None, description="Who sends it, by name; a supplier that is not known is created."
    )
    locale: NumberLocale | None = Field(None, description=LOCALE_DESCRIPTION)


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
    status: DocumentStatus | None = Field(
        None, description="The version's status. VALIDATED counts; UPLOADED is not read yet; REJECTED never counted."
    )
    file_name: str | None = Field(None, description="The name of the file as it was sent.", examples=["bom.xlsx"])
    reason: str | None = Field(description="Why it was withdrawn.")
    stated_at: Moment
    stated_by: Id | None = Field(description="The actor; null if it is not known.")


@document_routes.write("/v1/documents", permission="docs:upload", status=201)
async def create_document(ctx: Context, body: NewDocument) -> DocumentMade:
    """Create a document. Then upload versions to it."""
    supplier = await find_or_create_supplier(ctx.conn, ctx.tenant, body.supplier, act=ctx.act)
    document = await documents.create_document(
        ctx.conn,
        ctx.tenant,
        kind=body.kind,
        name=body.name,
        external_ref=body.external_ref,
        supplier=supplier,
        locale=body.locale,
        act=ctx.act,
    )
    return DocumentMade.model_validate(document)


@document_routes.read("/v1/documents", permission="docs:read")
async def list_documents(
    ctx: Context,
    page: Paging,
    external_ref: Annotated[
        Text | None, Query(description="Only documents with this reference.", examples=["ERP-4711"])
    ] = None,
    q: Annotated[
        SearchText | None,
        Query(description="Only where the name or the reference contains this, in any case.", examples=["erp-47"]),
    ] = None,
    name: Annotated[
        SearchText | None,
        Query(description="Only documents whose name contains this, in upper or lower case.", examples=["materials"]),
    ] = None,
    kind: Annotated[DocumentKind | None, Query(description="Only documents of this kind.")] = None,
    supplier: Annotated[
        Text | None, Query(description="Only documents of this supplier.", examples=["Example Cells GmbH"])
    ] = None,
    sku: Annotated[Text | None, Query(description="Only documents about this product.", examples=["SKU-123"])] = None,
    status: ActivityFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[ListedDocument]:
    """List documents, newest first."""
    filters = DocumentFilter(
        external_ref=external_ref,
        name=name,
        text=q,
        kind=kind,
        supplier=supplier,
        sku=sku,
        status=status,
        created_after=created_after,
        created_before=created_before,
    )
    rows = await document_search.list_documents(ctx.conn, ctx.tenant, filters, page.query)
    items, cursor = page.cut_page(rows, ListedDocument.get_position)
    ids = [row.document_id for row in items]
    decision = decide_for(ctx.caller, "passport:read", Resource(type="BatteryProduct"), ctx.act.at)
    products = await document_search.load_products_of_documents(ctx.conn, ctx.tenant, ids, with_names=decision.allowed)
    documents_on_page = [
        ListedDocument.model_validate({**list_members(row), "products": products[row.document_id]}) for row in items
    ]
    return Page(items=documents_on_page, next_cursor=cursor)


@document_routes.read("/v1/documents/{document_id}", permission="docs:read")
async def get_document(ctx: Context, document_id: IdOf[DocumentId]) -> Document:
    """Get a document."""
    return Document.model_validate(await documents.get_document(ctx.conn, ctx.tenant, document_id))


@document_routes.write("/v1/documents/{document_id}", permission="docs:upload", method="PATCH")
async def change_document(ctx: Context, document_id: IdOf[DocumentId], body: DocumentChange) -> Document:
    """Change the name of a document, who sends it, and how its tables write numbers.

    What was read before stays as it was read.
    """
    if body.name is None and body.supplier is None and body.locale is None:
        raise NothingToChange(body)
    document = await documents.lock_document(ctx.conn, ctx.tenant, document_id)
    supplier = await find_or_create_supplier(ctx.conn, ctx.tenant, body.supplier, act=ctx.act)
    row = await documents.declare_source(
        ctx.conn, ctx.tenant, document, supplier=supplier, locale=body.locale, act=ctx.act
    )
    if body.name is not None:
        row = await document_names.rename_document(ctx.conn, ctx.tenant, row, body.name, act=ctx.act)
    return Document.model_validate(row)


@document_routes.write("/v1/documents/{document_id}:deactivate", permission="docs:upload")
async def deactivate_document(ctx: Context, document_id: IdOf[DocumentId], reason: ActivityReason) -> Document:
    """Deactivate a document: it takes no new versions. What it says still counts; withdraw it to take that back."""
    document = await documents.lock_document(ctx.conn, ctx.tenant, document_id)
    row = await document_names.set_document_activity(
        ctx.conn, ctx.tenant, document, is_active=False, reason=reason, act=ctx.act
    )
    return Document.model_validate(row)


@document_routes.write("/v1/documents/{document_id}:reactivate", permission="docs:upload")
async def reactivate_document(ctx: Context, document_id: IdOf[DocumentId], reason: ActivityReason) -> Document:
    """Reactivate a document: it takes new versions again."""
    document = await documents.lock_document(ctx.conn, ctx.tenant, document_id)
    row = await document_names.set_document_activity(
        ctx.conn, ctx.tenant, document, is_active=True, reason=reason, act=ctx.act
    )
    return Document.model_validate(row)


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
    return DocumentVersionRead.model_validate({**list_members(row), **list_members(outcome)})


@document_routes.read(
    "/v1/document-versions/{document_version_id}/content",
    permission="docs:read",
    resource="DocumentVersion",
    response_class=Response,
    # No schema for other types: they may be JSON, and then they are read as such.
    responses={
        **BYTES_RESPONSES,
        200: {**BYTES_RESPONSES[200], "content": {**BYTES_RESPONSES[200]["content"], "*/*": {}}},
    },
)
async def get_document_content(
    ctx: Context, document_version_id: IdOf[DocumentVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Download the bytes of a version, as they were uploaded."""
    answer = await serve_document(ctx, document_version_id, if_none_match)
    if answer is None:
        raise ContentRemoved(document_version_id)
    return answer


class ContentRemoved(NotFound):
    """Retention has removed the bytes; the row remains."""

    http = 410

    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"the content of document version `{version}` was removed when its retention ended",
            fix="its facts and its hash remain; if you still have the file, upload it again",
        )


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
