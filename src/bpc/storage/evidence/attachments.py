"""Attachments: document versions bound to data points of products. Rows are only added.

    add ──────► the file stands behind the data point
    withdraw ─► it no longer does, for a reason

A binding counts until it is withdrawn, and only as long as a document says the version that it binds: a document that
is withdrawn, or says a newer version, takes its file with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.attachments import AttachedFile, require_attachable
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import ActorId, AttachmentId, DocumentId, DocumentVersionId, SnapshotId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.evidence import documents
from bpc.storage.evidence.documents import DocumentContent
from bpc.storage.evidence.facts import JOIN_FACT_BY_ID
from bpc.storage.evidence.stated_facts import read_origin

NOT_PARSED: Final = "OTHER"
MAX_ATTACHMENTS_OF_PRODUCT: Final = 100  # that count at the same time

# Whether a document says the version now. Versions of documents OTHER are never read, so none is rejected.
IS_STATED: Final[LiteralString] = """
    EXISTS (SELECT FROM document_statements s
             WHERE s.tenant_id = a.tenant_id AND s.document_version_id = a.document_version_id
               AND s.sequence = (SELECT max(n.sequence) FROM document_statements n
                                  WHERE n.tenant_id = s.tenant_id AND n.document_id = s.document_id))
"""
SELECT_IS_STATED: Final[LiteralString] = f"""
    SELECT {IS_STATED} FROM (SELECT $1::uuid AS tenant_id, $2::uuid AS document_version_id) AS a
"""
SELECT_ATTACHMENTS: Final[LiteralString] = f"""
    SELECT * FROM (
      SELECT a.tenant_id, a.attachment_id, a.sku,
             (SELECT p.name FROM battery_products p WHERE p.tenant_id = a.tenant_id AND p.sku = a.sku) AS product_name,
             a.data_point, a.document_version_id, v.document_id, a.title,
             (SELECT f.file_name FROM document_statements f
               WHERE f.tenant_id = a.tenant_id AND f.document_version_id = a.document_version_id
                 AND f.file_name IS NOT NULL
               ORDER BY f.stated_at DESC, f.statement_id DESC
               LIMIT 1) AS file_name,
             a.mime_type, octet_length(v.content) AS size, v.sha256, a.attached_at, a.attached_by,
             w.reason, w.withdrawn_at, w.withdrawn_by, w.attachment_id IS NULL AND {IS_STATED} AS counts
        FROM attachments a
        JOIN document_versions v ON v.tenant_id = a.tenant_id AND v.document_version_id = a.document_version_id
        LEFT JOIN attachment_withdrawals w ON w.tenant_id = a.tenant_id AND w.attachment_id = a.attachment_id
    ) AS attachment
"""
SELECT_ATTACHMENT: Final[LiteralString] = f"{SELECT_ATTACHMENTS} WHERE tenant_id = $1 AND attachment_id = $2"
SELECT_ATTACHMENT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_ATTACHMENTS, time="attached_at", key="attachment_id"
)
SELECT_ATTACHMENT_PAGE_OF_PRODUCT: Final[LiteralString] = make_page_query(
    SELECT_ATTACHMENTS, time="attached_at", key="attachment_id", where="AND sku = $5"
)
# With the document that says the file now: the newest statement, if several do.
SELECT_COUNTING: Final[LiteralString] = f"""
    SELECT b.attachment_id, b.sku, b.data_point, b.document_version_id, b.title, b.file_name, b.mime_type, b.size,
           b.sha256, said.document_id, said.stated_at, d.kind::text AS kind, p.name AS supplier
      FROM ({SELECT_ATTACHMENTS} WHERE tenant_id = $1 AND sku = $2 AND counts AND size IS NOT NULL) AS b
     CROSS JOIN LATERAL (
       SELECT a.document_id, a.stated_at FROM document_statements a
        WHERE a.tenant_id = $1 AND a.document_version_id = b.document_version_id
          AND a.sequence = (SELECT max(n.sequence) FROM document_statements n
                             WHERE n.tenant_id = $1 AND n.document_id = a.document_id)
        ORDER BY a.stated_at DESC, a.document_id DESC
        LIMIT 1) AS said
      JOIN documents d ON d.tenant_id = $1 AND d.document_id = said.document_id
      LEFT JOIN suppliers p ON p.tenant_id = $1 AND p.supplier_id = d.supplier_id
     ORDER BY b.data_point, b.sha256, b.attachment_id
"""
LOCK_ATTACHMENTS: Final[LiteralString] = """
    SELECT pg_advisory_xact_lock(hashtextextended('attachments/' || $1::uuid::text || '/' || $2::text, 0))
"""
COUNT_COUNTING: Final[LiteralString] = f"""
    SELECT count(*) FROM ({SELECT_ATTACHMENTS} WHERE tenant_id = $1 AND sku = $2 AND counts) AS counting
"""
SELECT_BOUND: Final[LiteralString] = f"""
    {SELECT_ATTACHMENTS}
     WHERE tenant_id = $1 AND document_version_id = $2 AND sku = $3 AND data_point = $4 AND withdrawn_at IS NULL
     ORDER BY attached_at DESC, attachment_id DESC
     LIMIT 1
"""
INSERT_ATTACHMENT: Final[LiteralString] = """
    INSERT INTO attachments (tenant_id, attachment_id, sku, data_point, document_version_id, title, mime_type,
                             attached_at, attached_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
INSERT_WITHDRAWAL: Final[LiteralString] = """
    INSERT INTO attachment_withdrawals (tenant_id, attachment_id, reason, withdrawn_at, withdrawn_by)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING
    RETURNING true
"""
# What the documents with a reference say now.
SELECT_VERSIONS_BY_REF: Final[LiteralString] = """
    SELECT n.document_version_id
      FROM documents d
     CROSS JOIN LATERAL (SELECT s.document_version_id FROM document_statements s
                          WHERE s.tenant_id = d.tenant_id AND s.document_id = d.document_id
                          ORDER BY s.sequence DESC
                          LIMIT 1) AS n
     WHERE d.tenant_id = $1 AND d.external_ref = $2 AND d.kind = 'OTHER' AND n.document_version_id IS NOT NULL
"""
# The files that the facts of a snapshot name. Their media type is the one by their bytes, which the fact has, and not
# the one that was said at the upload. Only a binding makes such a fact, so its hash is one.
FROM_ATTACHED_FILES: Final[LiteralString] = f"""
      FROM snapshot_items i {JOIN_FACT_BY_ID} AND f.fact_type = 'Attachment'
      JOIN document_versions v ON v.tenant_id = $1 AND v.sha256 = decode(f.payload ->> 'sha256', 'hex')
       AND v.status <> 'REJECTED'
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2 AND ($3::text IS NULL OR f.payload ->> 'sha256' = $3)
     ORDER BY v.sha256, f.fact_key COLLATE "C"
"""
SELECT_ATTACHED_FILES: Final[LiteralString] = f"""
    SELECT DISTINCT ON (v.sha256) v.content, f.payload ->> 'mime_type' AS mime_type, v.sha256 {FROM_ATTACHED_FILES}
"""
SELECT_ATTACHED_FILE_SIZES: Final[LiteralString] = f"""
    SELECT DISTINCT ON (v.sha256) v.sha256, coalesce(octet_length(v.content), 0) AS size {FROM_ATTACHED_FILES}
"""


class AttachedFileRemoved(NotFound):
    """The bytes of the file are gone; its hash is still in the passport."""

    http = 410

    def __init__(self, digest: Digest) -> None:
        super().__init__(
            f"the attached file `{to_hex(digest)}` was removed",
            fix="if you still have the file, upload it again; otherwise leave it out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRow:
    """A binding, in force or not: `counts` says so. `size` is None once retention has removed the bytes."""

    attachment_id: AttachmentId
    sku: str
    product_name: str | None
    data_point: int
    document_version_id: DocumentVersionId
    document_id: DocumentId
    title: str | None
    file_name: str | None
    mime_type: str
    size: int | None
    sha256: Digest
    attached_at: datetime
    attached_by: ActorId | None
    reason: str | None
    withdrawn_at: datetime | None
    withdrawn_by: ActorId | None
    counts: bool


async def add_attachment(
    conn: Connection,
    tenant: TenantId,
    version_id: DocumentVersionId,
    *,
    sku: str,
    data_point: int,
    title: str | None,
    act: Act,
) -> tuple[AttachmentRow, bool]:
    """Bind a document version to a data point of a product, append an event; and whether the binding is new."""
    version = await documents.get_document_version(conn, tenant, version_id)
    # Until the transaction ends, nobody else binds a version of this document or lets it say something else.
    kind = (await documents.lock_document(conn, tenant, version.document_id)).kind
    bound = await conn.fetchrow(SELECT_BOUND, tenant, version_id, sku, data_point)
    if bound is not None:
        return _require_same_title(_to_row(**bound), title), False
    content = (await documents.load_content(conn, tenant, version_id)).content
    if kind != NOT_PARSED:
        raise Conflict(
            f"document version `{version_id}` is of a document of kind {kind}",
            fix="upload the file to a document of kind OTHER, and attach that",
            details={"kind": kind},
        )
    if content is None:
        raise Conflict(
            f"the content of document version `{version_id}` was removed when its retention ended",
            fix="upload the file again",
        )
    if not await conn.fetchval(SELECT_IS_STATED, tenant, version_id):
        raise Conflict(
            f"version `{version_id}` is not the current one: its document is withdrawn, or has a newer version",
            fix="attach the current version of the document, or upload the file again",
        )
    await _require_room(conn, tenant, sku)
    attachment, mime_type = AttachmentId(clock.new_id()), require_attachable(content)
    await conn.execute(
        INSERT_ATTACHMENT, tenant, attachment, sku, data_point, version_id, title, mime_type, act.at, act.actor_id
    )
    payload = {
        "attachment_id": str(attachment),
        "sku": sku,
        "data_point": data_point,
        "document_version_id": str(version_id),
        "title": title,
        "mime_type": mime_type,
        "sha256": to_hex(version.sha256),
    }
    await events.append_act(conn, act, tenant, "Document", version.document_id, "ATTACHMENT_ADDED", payload)
    return await get_attachment(conn, tenant, attachment), True


async def _require_room(conn: Connection, tenant: TenantId, sku: str) -> None:
    """Refuse one more attachment than a product may have. Until the transaction ends, nobody else adds one."""
    await conn.execute(LOCK_ATTACHMENTS, tenant, sku)
    if await conn.fetchval(COUNT_COUNTING, tenant, sku) >= MAX_ATTACHMENTS_OF_PRODUCT:
        raise Conflict(
            f"`{sku}` has {MAX_ATTACHMENTS_OF_PRODUCT} attachments, and a product may have no more at the same time",
            fix="withdraw those that no longer matter, or put several files into one",
            details={"max_attachments": MAX_ATTACHMENTS_OF_PRODUCT},
        )


async def withdraw_attachment(
    conn: Connection, tenant: TenantId, attachment: AttachmentId, *, reason: str, act: Act
) -> AttachmentRow:
    """End a binding, and append an event. The file stays, and so do passports that name it."""
    row = await get_attachment(conn, tenant, attachment)
    if await conn.fetchval(INSERT_WITHDRAWAL, tenant, attachment, reason, act.at, act.actor_id) is None:
        raise Conflict(f"attachment `{attachment}` is already withdrawn", fix="attach the file again if it is needed")
    payload = {"attachment_id": str(attachment), "sku": row.sku, "data_point": row.data_point, "reason": reason}
    await events.append_act(conn, act, tenant, "Document", row.document_id, "ATTACHMENT_WITHDRAWN", payload)
    return await get_attachment(conn, tenant, attachment)


async def get_attachment(conn: Connection, tenant: TenantId, attachment: AttachmentId) -> AttachmentRow:
    return await fetch_one(conn, _to_row, SELECT_ATTACHMENT, tenant, attachment, kind="attachment")


async def list_attachments(
    conn: Connection, tenant: TenantId, page: PageQuery, *, sku: str | None = None
) -> Sequence[AttachmentRow]:
    """Bindings, newest first, withdrawn ones among them; only those of a product, if one is named."""
    if sku is None:
        return await fetch_rows(conn, _to_row, SELECT_ATTACHMENT_PAGE, tenant, *page)
    return await fetch_rows(conn, _to_row, SELECT_ATTACHMENT_PAGE_OF_PRODUCT, tenant, *page, sku)


async def list_attached_files(conn: Connection, tenant: TenantId, sku: str) -> list[AttachedFile]:
    """The files that are bound to data points of a product now, by data point and hash."""
    return [
        AttachedFile(
            attachment_id=AttachmentId(row["attachment_id"]),
            sku=row["sku"],
            data_point=row["data_point"],
            heading=row["title"],
            mime_type=row["mime_type"],
            size=row["size"],
            document=read_origin(row),
        )
        for row in await conn.fetch(SELECT_COUNTING, tenant, sku)
    ]


async def load_attached_files(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, *, digest: str | None = None
) -> Sequence[DocumentContent]:
    """The files that the facts of a snapshot name, by hash; only the one with this hash in hex, if one is named."""
    return await fetch_rows(conn, DocumentContent, SELECT_ATTACHED_FILES, tenant, snapshot, digest)


async def measure_attached_files(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Mapping[Digest, int]:
    """The bytes of each file that the facts of a snapshot name, by hash. No file is loaded."""
    return {
        Digest(row["sha256"]): row["size"]
        for row in await conn.fetch(SELECT_ATTACHED_FILE_SIZES, tenant, snapshot, None)
    }


def require_content(file: DocumentContent) -> bytes:
    if file.content is None:
        raise AttachedFileRemoved(file.sha256)
    return file.content


async def find_version_by_ref(conn: Connection, tenant: TenantId, external_ref: str) -> DocumentVersionId:
    """The version that the one document OTHER with this reference says now."""
    versions = sorted({row[0] for row in await conn.fetch(SELECT_VERSIONS_BY_REF, tenant, external_ref)})
    if not versions:
        raise NotFound(
            f"no document of kind OTHER with the reference `{external_ref}` has a current version",
            fix="upload the file with this reference first",
        )
    if len(versions) > 1:
        raise Conflict(
            f"{len(versions)} documents have the reference `{external_ref}`",
            fix="name the version by its id",
            details={"document_version_ids": [str(version) for version in versions]},
        )
    return DocumentVersionId(versions[0])


def _require_same_title(row: AttachmentRow, title: str | None) -> AttachmentRow:
    if row.title != title:
        raise Conflict(
            f"the file is already attached to data point {row.data_point} of `{row.sku}`, with another title",
            fix="withdraw that attachment first",
            details={"attachment_id": str(row.attachment_id), "title": row.title},
        )
    return row


def _to_row(*, tenant_id: TenantId, **columns: object) -> AttachmentRow:  # noqa: ARG001 (all rows are of one tenant)
    return AttachmentRow(**columns)  # type: ignore[arg-type]
