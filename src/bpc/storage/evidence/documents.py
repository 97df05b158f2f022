"""Documents and their versions. The bytes of a version never change; only retention removes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import UnknownResource
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import DocumentId, DocumentVersionId, JobId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

DocumentKind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]
DocumentStatus = Literal["UPLOADED", "VALIDATED", "REJECTED"]

INSERT_DOCUMENT: Final[LiteralString] = """
    INSERT INTO documents (tenant_id, document_id, kind, external_ref, created_at, created_by)
    VALUES ($1, $2, $3::document_kind, $4, $5, $6)
"""
SELECT_DOCUMENTS: Final[LiteralString] = """
    SELECT document_id, kind::text AS kind, external_ref, created_at FROM documents
"""
SELECT_DOCUMENT: Final[LiteralString] = f"{SELECT_DOCUMENTS} WHERE tenant_id = $1 AND document_id = $2"
SELECT_DOCUMENT_PAGE: Final[LiteralString] = make_page_query(SELECT_DOCUMENTS, time="created_at", key="document_id")
SELECT_DOCUMENT_PAGE_BY_REF: Final[LiteralString] = make_page_query(
    SELECT_DOCUMENTS, time="created_at", key="document_id", where="AND external_ref = $5"
)
SELECT_KIND_FOR_UPDATE: Final[LiteralString] = """
    SELECT kind::text FROM documents WHERE tenant_id = $1 AND document_id = $2 FOR NO KEY UPDATE
"""
SELECT_VERSION_BY_HASH: Final[LiteralString] = """
    SELECT v.document_version_id, v.document_id, d.kind::text AS kind, v.version, v.status::text AS status
      FROM document_versions v
      JOIN documents d ON d.tenant_id = v.tenant_id AND d.document_id = v.document_id
     WHERE v.tenant_id = $1 AND v.sha256 = $2 AND v.status <> 'REJECTED'
"""
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                   content, uploaded_at)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'UPLOADED', $4, $5, $6, $7
      FROM document_versions WHERE tenant_id = $1 AND document_id = $3
    ON CONFLICT (tenant_id, sha256) WHERE status <> 'REJECTED' DO NOTHING
    RETURNING version
"""
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT document_version_id, document_id, version, status::text AS status, mime_type, sha256,
           octet_length(content) AS size, uploaded_at, content_removed_at
      FROM document_versions
"""
SELECT_VERSION: Final[LiteralString] = f"{SELECT_VERSIONS} WHERE tenant_id = $1 AND document_version_id = $2"
SELECT_VERSION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_VERSIONS, time="uploaded_at", key="document_version_id", where="AND document_id = $5"
)
SELECT_CONTENT: Final[LiteralString] = """
    SELECT content, mime_type, sha256 FROM document_versions WHERE tenant_id = $1 AND document_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A container of versions, of one kind."""

    document_id: DocumentId
    kind: DocumentKind
    external_ref: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersionRow:
    """An upload without its bytes; `size` is None once retention has removed them."""

    document_version_id: DocumentVersionId
    document_id: DocumentId
    version: int
    status: DocumentStatus
    mime_type: str
    sha256: Digest
    size: int | None
    uploaded_at: datetime
    content_removed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWithHash:
    """The version that has certain bytes, in its document of `kind`."""

    document_version_id: DocumentVersionId
    document_id: DocumentId
    kind: DocumentKind
    version: int
    status: DocumentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedDocument:
    """The version that an upload stated; `job_id` is the job that reads it, None if nothing is to be read."""

    document_version_id: DocumentVersionId
    version: int
    sha256: Digest
    status: DocumentStatus
    job_id: JobId | None
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContent:
    """The bytes of a version; None once retention has removed them."""

    content: bytes | None
    mime_type: str
    sha256: Digest


async def create_document(
    conn: Connection, tenant: TenantId, *, kind: DocumentKind, external_ref: str | None, act: Act
) -> DocumentRow:
    """Create a document without versions, and append an event."""
    document = DocumentId(clock.new_id())
    await conn.execute(INSERT_DOCUMENT, tenant, document, kind, external_ref, act.at, act.actor_id)
    payload = {"kind": kind, "external_ref": external_ref}
    await events.append_act(conn, act, tenant, "Document", document, "DOCUMENT_CREATED", payload)
    return DocumentRow(document_id=document, kind=kind, external_ref=external_ref, created_at=act.at)


async def get_document(conn: Connection, tenant: TenantId, document: DocumentId) -> DocumentRow:
    return await fetch_one(conn, DocumentRow, SELECT_DOCUMENT, tenant, document, kind="document")


async def list_documents(
    conn: Connection, tenant: TenantId, page: PageQuery, *, external_ref: str | None = None
) -> Sequence[DocumentRow]:
    """Documents, newest first; only those with this reference, if one is named."""
    if external_ref is None:
        return await fetch_rows(conn, DocumentRow, SELECT_DOCUMENT_PAGE, tenant, *page)
    return await fetch_rows(conn, DocumentRow, SELECT_DOCUMENT_PAGE_BY_REF, tenant, *page, external_ref)


async def lock_document(conn: Connection, tenant: TenantId, document: DocumentId) -> DocumentKind:
    """The kind of a document. Until the transaction ends, nobody else adds a version to it."""
    kind: DocumentKind | None = await conn.fetchval(SELECT_KIND_FOR_UPDATE, tenant, document)
    if kind is None:
        raise UnknownResource("document", document)
    return kind


async def find_version_by_hash(conn: Connection, tenant: TenantId, digest: Digest) -> VersionWithHash | None:
    """The version with exactly these bytes that was not rejected."""
    row = await conn.fetchrow(SELECT_VERSION_BY_HASH, tenant, digest)
    return None if row is None else VersionWithHash(**row)


async def insert_document_version(
    conn: Connection,
    tenant: TenantId,
    document: DocumentId,
    version_id: DocumentVersionId,
    *,
    mime_type: str,
    sha256: Digest,
    content: bytes,
    at: datetime,
) -> int | None:
    """The number of the new version; None if a version of any document has these bytes and was not rejected."""
    number: int | None = await conn.fetchval(
        INSERT_VERSION, tenant, version_id, document, mime_type, sha256, content, at
    )
    return number


async def get_document_version(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> DocumentVersionRow:
    return await fetch_one(conn, DocumentVersionRow, SELECT_VERSION, tenant, version_id, kind="document version")


async def list_document_versions(
    conn: Connection, tenant: TenantId, document: DocumentId, page: PageQuery
) -> Sequence[DocumentVersionRow]:
    """The versions of a document, newest first."""
    return await fetch_rows(conn, DocumentVersionRow, SELECT_VERSION_PAGE, tenant, *page, document)


async def load_content(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> DocumentContent:
    return await fetch_one(conn, DocumentContent, SELECT_CONTENT, tenant, version_id, kind="document version")
