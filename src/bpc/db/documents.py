"""Documents and their versions. The bytes of a version are written once and go only by retention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

import asyncpg

from bpc import fresh
from bpc.core.digest import Digest
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, DocumentId, DocumentVersionId, JobId, TenantId
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Kind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]
Status = Literal["UPLOADED", "VALIDATED", "REJECTED"]

INSERT: Final[LiteralString] = """
    INSERT INTO documents (tenant_id, document_id, kind, external_ref, created_at, created_by)
    VALUES ($1, $2, $3::document_kind, $4, $5, $6)
"""
ONE: Final[LiteralString] = """
    SELECT document_id, kind::text AS kind, external_ref, created_at FROM documents
     WHERE tenant_id = $1 AND document_id = $2
"""
PAGE: Final[LiteralString] = """
    SELECT document_id, kind::text AS kind, external_ref, created_at FROM documents
     WHERE tenant_id = $1 AND (created_at, document_id) < ($2, $3)
     ORDER BY created_at DESC, document_id DESC
     LIMIT $4
"""
LOCKED_KIND: Final[LiteralString] = """
    SELECT kind::text FROM documents WHERE tenant_id = $1 AND document_id = $2 FOR NO KEY UPDATE
"""
WITH_BYTES: Final[LiteralString] = """
    SELECT document_version_id, document_id FROM document_versions
     WHERE tenant_id = $1 AND sha256 = $2 AND status <> 'REJECTED'
"""
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                   content, uploaded_at)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'UPLOADED', $4, $5, $6, $7
      FROM document_versions WHERE tenant_id = $1 AND document_id = $3
    ON CONFLICT (tenant_id, sha256) WHERE status <> 'REJECTED' DO NOTHING
    RETURNING version
"""
VERSION_COLUMNS: Final[LiteralString] = """
    document_version_id, document_id, version, status::text AS status, mime_type, sha256,
    octet_length(content) AS size, uploaded_at, content_removed_at
"""
VERSION: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM document_versions WHERE tenant_id = $1 AND document_version_id = $2
"""
VERSIONS: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM document_versions
     WHERE tenant_id = $1 AND document_id = $5 AND (uploaded_at, document_version_id) < ($2, $3)
     ORDER BY uploaded_at DESC, document_version_id DESC
     LIMIT $4
"""
CONTENT: Final[LiteralString] = """
    SELECT content, mime_type, sha256, content_removed_at FROM document_versions
     WHERE tenant_id = $1 AND document_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A container of versions, of one kind."""

    document_id: DocumentId
    kind: Kind
    external_ref: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What is known of an upload; `size` is None once retention has removed its bytes."""

    document_version_id: DocumentVersionId
    document_id: DocumentId
    version: int
    status: Status
    mime_type: str
    sha256: Digest
    size: int | None
    uploaded_at: datetime
    content_removed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A version that was just added; `job_id` is the job that parses it."""

    document_version_id: DocumentVersionId
    version: int
    sha256: Digest
    status: Status
    job_id: JobId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The bytes of a version; None once retention has removed them."""

    content: bytes | None
    mime_type: str
    sha256: Digest


class DocumentUnknown(NotFound):
    def __init__(self, document: DocumentId) -> None:
        super().__init__(f"there is no document `{document}`", fix="GET /v1/documents lists those there are")


class DocumentVersionUnknown(NotFound):
    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"there is no document version `{version}`",
            fix="GET /v1/documents/{document_id}/versions lists those of a document",
        )


async def create(conn: Connection, tenant: TenantId, *, kind: Kind, external_ref: str | None, act: Act) -> Document:
    """A new document without versions, on record."""
    document = DocumentId(fresh.new_id())
    await conn.execute(INSERT, tenant, document, kind, external_ref, act.at, act.actor_id)
    said = act.says("DOCUMENT_CREATED", {"kind": kind, "external_ref": external_ref})
    await events.append(conn, Stream(tenant, "Document", AggregateId(document)), said)
    return Document(document_id=document, kind=kind, external_ref=external_ref, created_at=act.at)


async def get(conn: Connection, tenant: TenantId, document: DocumentId) -> Document:
    row = await conn.fetchrow(ONE, tenant, document)
    if row is None:
        raise DocumentUnknown(document)
    return _document(row)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Document]:
    """Documents, newest first."""
    return [_document(row) for row in await conn.fetch(PAGE, tenant, *ask)]


async def locked_kind(conn: Connection, tenant: TenantId, document: DocumentId) -> Kind:
    """The kind of a document, whose versions nobody else numbers until we are done."""
    found: Kind | None = await conn.fetchval(LOCKED_KIND, tenant, document)
    if found is None:
        raise DocumentUnknown(document)
    return found


async def with_bytes(conn: Connection, tenant: TenantId, digest: Digest) -> tuple[DocumentVersionId, DocumentId] | None:
    """The version with exactly these bytes that was not rejected, and its document."""
    row = await conn.fetchrow(WITH_BYTES, tenant, digest)
    return None if row is None else (DocumentVersionId(row[0]), DocumentId(row[1]))


async def add_version(
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
    """The number of the new version; None if these bytes are one already, of whichever document, and not rejected."""
    number: int | None = await conn.fetchval(
        INSERT_VERSION, tenant, version_id, document, mime_type, sha256, content, at
    )
    return number


async def version(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> Version:
    row = await conn.fetchrow(VERSION, tenant, version_id)
    if row is None:
        raise DocumentVersionUnknown(version_id)
    return Version(**dict(row))


async def versions(conn: Connection, tenant: TenantId, document: DocumentId, ask: Ask) -> Sequence[Version]:
    """The versions of a document, newest first."""
    return [Version(**dict(row)) for row in await conn.fetch(VERSIONS, tenant, *ask, document)]


async def content(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> Content:
    row = await conn.fetchrow(CONTENT, tenant, version_id)
    if row is None:
        raise DocumentVersionUnknown(version_id)
    return Content(content=row["content"], mime_type=row["mime_type"], sha256=Digest(row["sha256"]))


def _document(row: asyncpg.Record) -> Document:
    return Document(**dict(row))
