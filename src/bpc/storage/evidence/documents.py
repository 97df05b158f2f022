"""Documents and their versions. The bytes of a version never change; only retention removes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import DocumentId, DocumentVersionId, JobId, SupplierId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.evidence.suppliers import SupplierRow

DocumentKind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]
DocumentStatus = Literal["UPLOADED", "VALIDATED", "REJECTED"]
NO_OPTIONS: Final = b"{}"  # canonical JSON: a version that is read as it is

INSERT_DOCUMENT: Final[LiteralString] = """
    INSERT INTO documents (tenant_id, document_id, kind, external_ref, supplier_id, number_locale, created_at,
                           created_by, name)
    VALUES ($1, $2, $3::document_kind, $4, $5, $6, $7, $8, $9)
"""
UPDATE_DOCUMENT: Final[LiteralString] = """
    UPDATE documents SET supplier_id = $3, number_locale = $4 WHERE tenant_id = $1 AND document_id = $2
"""
SELECT_DOCUMENTS: Final[LiteralString] = """
    SELECT d.document_id, d.kind::text AS kind, d.name, d.external_ref, d.is_active, d.supplier_id,
           (SELECT s.name FROM suppliers s
             WHERE s.tenant_id = d.tenant_id AND s.supplier_id = d.supplier_id) AS supplier,
           d.number_locale AS locale, d.created_at
      FROM documents d
"""
SELECT_DOCUMENT: Final[LiteralString] = f"{SELECT_DOCUMENTS} WHERE d.tenant_id = $1 AND d.document_id = $2"
SELECT_DOCUMENT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_DOCUMENT} FOR NO KEY UPDATE OF d"
# The version with these bytes, and the versions in which they were read again under other options: each by its index.
SELECT_VERSIONS_BY_HASH: Final[LiteralString] = """
    SELECT v.document_version_id, v.document_id, d.kind::text AS kind, v.version, v.status::text AS status,
           v.read_options, v.content_removed_at IS NULL AS has_content
      FROM (SELECT tenant_id, document_version_id, document_id, version, status, read_options, content_removed_at
              FROM document_versions
             WHERE tenant_id = $1 AND sha256 = $2 AND status <> 'REJECTED'
             UNION ALL
            SELECT tenant_id, document_version_id, document_id, version, status, read_options, content_removed_at
              FROM document_versions
             WHERE tenant_id = $1 AND reread_sha256 = $2 AND status <> 'REJECTED') AS v
      JOIN documents d ON d.tenant_id = v.tenant_id AND d.document_id = v.document_id
"""
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                   content, uploaded_at, read_options)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'UPLOADED', $4, $5, $6, $7, $8
      FROM document_versions WHERE tenant_id = $1 AND document_id = $3
    ON CONFLICT (tenant_id, sha256) WHERE status <> 'REJECTED' DO NOTHING
    RETURNING version
"""
INSERT_REREAD_VERSION: Final[LiteralString] = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type,
                                   reread_sha256, content, uploaded_at, read_options)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'UPLOADED', $4, $5, $6, $7, $8
      FROM document_versions WHERE tenant_id = $1 AND document_id = $3
    ON CONFLICT (tenant_id, reread_sha256, sha256(read_options))
      WHERE reread_sha256 IS NOT NULL AND status <> 'REJECTED' DO NOTHING
    RETURNING version
"""
# Of two that upload the same bytes, one restores them.
RESTORE_CONTENT: Final[LiteralString] = """
    UPDATE document_versions SET content = $3, content_removed_at = NULL, content_restored_at = $4
     WHERE tenant_id = $1 AND document_version_id = $2 AND content_removed_at IS NOT NULL
    RETURNING true
"""
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT document_version_id, document_id, version, status::text AS status, mime_type,
           coalesce(sha256, reread_sha256) AS sha256, octet_length(content) AS size, uploaded_at, content_removed_at
      FROM document_versions
"""
SELECT_VERSION: Final[LiteralString] = f"{SELECT_VERSIONS} WHERE tenant_id = $1 AND document_version_id = $2"
SELECT_VERSION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_VERSIONS, time="uploaded_at", key="document_version_id", where="AND document_id = $5"
)
SELECT_CONTENT: Final[LiteralString] = """
    SELECT content, mime_type, coalesce(sha256, reread_sha256) AS sha256
      FROM document_versions WHERE tenant_id = $1 AND document_version_id = $2
"""
SELECT_IDS_BY_REF: Final[LiteralString] = """
    SELECT document_id FROM documents WHERE tenant_id = $1 AND external_ref = $2 ORDER BY created_at, document_id
"""
SELECT_REF: Final[LiteralString] = "SELECT document_id FROM document_refs WHERE tenant_id = $1 AND external_ref = $2"
INSERT_REF: Final[LiteralString] = """
    INSERT INTO document_refs (tenant_id, external_ref, document_id) VALUES ($1, $2, $3)
    ON CONFLICT (tenant_id, external_ref) DO NOTHING
    RETURNING document_id
"""
SELECT_VERSION_REF: Final[LiteralString] = """
    SELECT v.document_version_id, v.version, v.status::text AS status, coalesce(v.sha256, v.reread_sha256) AS sha256,
           v.content_removed_at IS NULL AS has_content
      FROM document_version_refs r
      JOIN document_versions v ON v.tenant_id = r.tenant_id AND v.document_version_id = r.document_version_id
     WHERE r.tenant_id = $1 AND r.document_id = $2 AND r.version_ref = $3
"""
INSERT_VERSION_REF: Final[LiteralString] = """
    INSERT INTO document_version_refs (tenant_id, document_id, version_ref, document_version_id)
    VALUES ($1, $2, $3, $4)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A container of versions, of one kind. It may name its supplier, and the locale of numbers in its tables.

    One that is not active takes no new versions.
    """

    document_id: DocumentId
    kind: DocumentKind
    name: str | None
    external_ref: str | None
    is_active: bool
    supplier_id: SupplierId | None
    supplier: str | None
    locale: NumberLocale | None
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
    """A version that has certain bytes, in its document of `kind`; `read_options` are those it is read under.

    `has_content` is False once retention has removed the bytes.
    """

    document_version_id: DocumentVersionId
    document_id: DocumentId
    kind: DocumentKind
    version: int
    status: DocumentStatus
    read_options: bytes
    has_content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferredVersion:
    """The version that a sender's own number of a version means."""

    document_version_id: DocumentVersionId
    version: int
    status: DocumentStatus
    sha256: Digest
    has_content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedDocument:
    """The version that an upload stated; `job_id` is the job that reads it, None if nothing is to be read.

    `is_stored` says whether the upload stored bytes: of a new version, or those that retention had removed.
    """

    document_id: DocumentId
    document_version_id: DocumentVersionId
    version: int
    sha256: Digest
    status: DocumentStatus
    job_id: JobId | None
    is_new: bool
    is_stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContent:
    """The bytes of a version; None once retention has removed them."""

    content: bytes | None
    mime_type: str
    sha256: Digest


class DocumentInactive(Conflict):
    """A deactivated document takes no new versions."""

    def __init__(self, document: DocumentRow) -> None:
        super().__init__(
            f"document `{document.document_id}` is deactivated and takes no new versions",
            fix="reactivate it, or upload to another document",
            details={"document_id": str(document.document_id)},
        )


async def create_document(
    conn: Connection,
    tenant: TenantId,
    *,
    kind: DocumentKind,
    external_ref: str | None,
    name: str | None = None,
    supplier: SupplierRow | None = None,
    locale: NumberLocale | None = None,
    act: Act,
) -> DocumentRow:
    """Create a document without versions, and append an event."""
    document, supplier_id = DocumentId(clock.new_id()), None if supplier is None else supplier.supplier_id
    columns = kind, external_ref, supplier_id, locale, act.at, act.actor_id, name
    await conn.execute(INSERT_DOCUMENT, tenant, document, *columns)
    payload = {"kind": kind, "external_ref": external_ref} | _describe_declaration(supplier_id, locale)
    payload |= {} if name is None else {"name": name}
    await events.append_act(conn, act, tenant, "Document", document, "DOCUMENT_CREATED", payload, head=EMPTY_CHAIN)
    return DocumentRow(
        document_id=document,
        kind=kind,
        name=name,
        external_ref=external_ref,
        is_active=True,
        supplier_id=supplier_id,
        supplier=None if supplier is None else supplier.name,
        locale=locale,
        created_at=act.at,
    )


async def declare_source(
    conn: Connection,
    tenant: TenantId,
    document: DocumentRow,
    *,
    supplier: SupplierRow | None,
    locale: NumberLocale | None,
    act: Act,
) -> DocumentRow:
    """Let a document name its supplier and its locale; None leaves what it names. Append an event if that changes it.

    The document must be locked.
    """
    row = document
    if supplier is not None:
        row = replace(row, supplier_id=supplier.supplier_id, supplier=supplier.name)
    if locale is not None:
        row = replace(row, locale=locale)
    if row != document:
        await conn.execute(UPDATE_DOCUMENT, tenant, document.document_id, row.supplier_id, row.locale)
        payload = _describe_declaration(row.supplier_id, row.locale)
        await events.append_act(conn, act, tenant, "Document", document.document_id, "DOCUMENT_CHANGED", payload)
    return row


def _describe_declaration(supplier: SupplierId | None, locale: NumberLocale | None) -> dict[str, object]:
    """What a document declares; what it does not declare is left out."""
    members = {"supplier_id": None if supplier is None else str(supplier), "locale": locale}
    return {name: value for name, value in members.items() if value is not None}


async def get_document(conn: Connection, tenant: TenantId, document: DocumentId) -> DocumentRow:
    return await fetch_one(conn, DocumentRow, SELECT_DOCUMENT, tenant, document, kind="document")


async def lock_document(conn: Connection, tenant: TenantId, document: DocumentId) -> DocumentRow:
    """A document. Until the transaction ends, nobody else adds a version to it."""
    return await fetch_one(conn, DocumentRow, SELECT_DOCUMENT_FOR_UPDATE, tenant, document, kind="document")


async def list_versions_by_hash(conn: Connection, tenant: TenantId, digest: Digest) -> Sequence[VersionWithHash]:
    """The versions with exactly these bytes that were not rejected; several if they were read under several options."""
    return await fetch_rows(conn, VersionWithHash, SELECT_VERSIONS_BY_HASH, tenant, digest)


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
    read_options: bytes = NO_OPTIONS,
    is_reread: bool = False,
) -> int | None:
    """The number of the new version; None if a version of any document has these bytes and was not rejected.

    To read bytes again takes options under which they were not read.
    """
    statement = INSERT_REREAD_VERSION if is_reread else INSERT_VERSION
    number: int | None = await conn.fetchval(
        statement, tenant, version_id, document, mime_type, sha256, content, at, read_options
    )
    return number


async def restore_content(
    conn: Connection, tenant: TenantId, version_id: DocumentVersionId, content: bytes, *, act: Act
) -> bool:
    """Store bytes again that retention removed, and append an event; False if they are there.

    The database refuses bytes that do not have the hash of the version.
    """
    if await conn.fetchval(RESTORE_CONTENT, tenant, version_id, content, act.at) is None:
        return False
    payload = {"bytes": len(content)}
    await events.append_act(conn, act, tenant, "DocumentVersion", version_id, "DOCUMENT_CONTENT_RESTORED", payload)
    return True


async def get_document_version(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> DocumentVersionRow:
    return await fetch_one(conn, DocumentVersionRow, SELECT_VERSION, tenant, version_id, kind="document version")


async def list_document_versions(
    conn: Connection, tenant: TenantId, document: DocumentId, page: PageQuery
) -> Sequence[DocumentVersionRow]:
    """The versions of a document, newest first."""
    return await fetch_rows(conn, DocumentVersionRow, SELECT_VERSION_PAGE, tenant, *page, document)


async def load_content(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> DocumentContent:
    return await fetch_one(conn, DocumentContent, SELECT_CONTENT, tenant, version_id, kind="document version")


# References: the one document that uploads by reference go to, and what a sender's number of a version means ----------


async def find_document_by_ref(conn: Connection, tenant: TenantId, external_ref: str) -> DocumentId | None:
    """The document that uploads with this reference go to; None if there was no such upload."""
    document: DocumentId | None = await conn.fetchval(SELECT_REF, tenant, external_ref)
    return document


async def list_ids_by_ref(conn: Connection, tenant: TenantId, external_ref: str) -> list[DocumentId]:
    """Every document with this reference, oldest first."""
    return [row["document_id"] for row in await conn.fetch(SELECT_IDS_BY_REF, tenant, external_ref)]


async def claim_ref(conn: Connection, tenant: TenantId, external_ref: str, document: DocumentId, *, act: Act) -> bool:
    """Let uploads with this reference go to a document, and append an event; False if they go to one already.

    A caller that claims the same reference at the same time waits until this transaction has ended.
    """
    if await conn.fetchval(INSERT_REF, tenant, external_ref, document) is None:
        return False
    payload = {"external_ref": external_ref}
    await events.append_act(conn, act, tenant, "Document", document, "REFERENCE_CLAIMED", payload)
    return True


async def find_referred_version(
    conn: Connection, tenant: TenantId, document: DocumentId, version_ref: str
) -> ReferredVersion | None:
    rows = await fetch_rows(conn, ReferredVersion, SELECT_VERSION_REF, tenant, document, version_ref)
    return rows[0] if rows else None


async def insert_version_ref(
    conn: Connection, tenant: TenantId, document: DocumentId, version_ref: str, version: DocumentVersionId, *, act: Act
) -> None:
    """Let a sender's number mean a version of a document, and append an event. The document must be locked."""
    await conn.execute(INSERT_VERSION_REF, tenant, document, version_ref, version)
    payload = {"version_ref": version_ref, "document_version_id": str(version)}
    await events.append_act(conn, act, tenant, "Document", document, "REFERENCE_CLAIMED", payload)
