"""The smallest honest rows of documents, statements, suppliers, attachments, facts and snapshots."""

from datetime import datetime
from typing import Final
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.facts.snapshot import FactRef, encode_snapshot
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import (
    DocumentId,
    DocumentVersionId,
    SnapshotId,
    TenantId,
)
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence import statements
from bpc.storage.evidence.statements import DecisionRow
from tests.storage.statements import insert_row

DOCUMENT_STATUSES: Final = ("UPLOADED", "PARSED", "VALIDATED", "REJECTED")
SNAPSHOT_STATUSES: Final = ("BUILDING", "READY", "SEALED")


async def insert_document_text(conn: Connection, tenant: TenantId) -> None:
    version = await insert_document_version(conn, tenant)
    await insert_row(conn, "document_texts", tenant_id=tenant, document_version_id=version, pages=1, text="Stückliste")


async def insert_statement_and_decision(conn: Connection, tenant: TenantId, act: Act) -> None:
    """A document that says what its version says, and the decision to believe it."""
    document = DocumentId(clock.new_id())
    version = await insert_document_version(conn, tenant, document=document)
    await statements.insert_statement(conn, tenant, document, DocumentVersionId(version), act=act)
    decision = DecisionRow(fact_type="Battery", fact_key="battery:SKU-1", member="mass_kg", document_id=document)
    await statements.insert_decision(conn, tenant, decision, reason="It was weighed.", act=act)


async def insert_supplier_rows(conn: Connection, tenant: TenantId) -> None:
    """A supplier with a column mapping, and a document of its that is found by references."""
    supplier, document = clock.new_id(), clock.new_id()
    version = await insert_document_version(conn, tenant, document=document)
    await insert_row(conn, "suppliers", tenant_id=tenant, supplier_id=supplier, name=f"Cells {supplier}")
    await insert_row(
        conn, "column_mappings", tenant_id=tenant, supplier_id=supplier, kind="BOM", version=1, mapping="{}"
    )
    await insert_row(conn, "document_refs", tenant_id=tenant, external_ref=f"ERP-{document}", document_id=document)
    await insert_row(
        conn,
        "document_version_refs",
        tenant_id=tenant,
        document_id=document,
        version_ref="1",
        document_version_id=version,
    )


async def insert_attachment(conn: Connection, tenant: TenantId) -> UUID:
    """A file that was attached to a data point, and is withdrawn."""
    attachment, version = clock.new_id(), await insert_document_version(conn, tenant)
    await insert_row(
        conn,
        "attachments",
        tenant_id=tenant,
        attachment_id=attachment,
        sku="SKU-1",
        data_point=42,
        document_version_id=version,
        mime_type="application/pdf",
    )
    await insert_row(conn, "attachment_withdrawals", tenant_id=tenant, attachment_id=attachment, reason="A mistake.")
    return attachment


async def insert_document_version(
    conn: Connection,
    tenant: TenantId,
    *,
    status: str = "UPLOADED",
    kind: str = "BOM",
    document: UUID | None = None,
    version: UUID | None = None,
    content: bytes | None = None,
    mime_type: str = "application/json",
    uploaded_at: datetime | None = None,
) -> UUID:
    """A document with its first version; by default with ids and bytes of its own."""
    document, version = document or clock.new_id(), version or clock.new_id()
    content = content or b'{"document":"%s"}' % str(document).encode()
    await insert_row(conn, "documents", tenant_id=tenant, document_id=document, kind=kind)
    await insert_row(
        conn,
        "document_versions",
        tenant_id=tenant,
        document_version_id=version,
        document_id=document,
        version=1,
        status=status,
        mime_type=mime_type,
        sha256=sha256(content),
        content=content,
        uploaded_at=uploaded_at or clock.now(),
    )
    return version


async def insert_fact(conn: Connection, tenant: TenantId) -> UUID:
    document_version, fact = await insert_document_version(conn, tenant, status="VALIDATED"), clock.new_id()
    payload = b'{"sku":"%s"}' % str(fact).encode()
    await insert_row(
        conn,
        "facts",
        tenant_id=tenant,
        fact_id=fact,
        fact_type="Battery",
        fact_key=str(fact),
        schema_version=1,
        source_document_version_id=document_version,
        source_path="/battery",
        payload=payload.decode(),
        payload_canonical=payload,
        payload_hash=sha256(payload),
    )
    await insert_row(
        conn,
        "fact_sources",
        tenant_id=tenant,
        fact_id=fact,
        document_version_id=document_version,
        source_path="/battery",
    )
    return fact


async def insert_snapshot(
    conn: Connection, tenant: TenantId, *, status: str = "BUILDING", fact: UUID | None = None
) -> SnapshotId:
    """A snapshot, with `fact` in it if there is one."""
    snapshot = SnapshotId(clock.new_id())
    await insert_row(conn, "data_snapshots", tenant_id=tenant, snapshot_id=snapshot, status="BUILDING")
    if fact is not None:
        await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)
    if status != "BUILDING":
        await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    if status == "SEALED":
        await seal_snapshot(conn, snapshot)
    return snapshot


async def seal_snapshot(conn: Connection, snapshot: SnapshotId) -> None:
    """Seal a snapshot that is READY: first its lock, then its list."""
    await conn.execute("SELECT FROM data_snapshots WHERE snapshot_id = $1 FOR UPDATE", snapshot)
    fact_rows = await conn.fetch(
        "SELECT fact_type, fact_key, payload_hash FROM snapshot_items JOIN facts USING (tenant_id, fact_id)"
        " WHERE snapshot_id = $1",
        snapshot,
    )
    canonical = encode_snapshot(snapshot, [FactRef(*row.values()) for row in fact_rows])
    await conn.execute(
        "UPDATE data_snapshots SET status = 'SEALED', sealed_at = now(), snapshot_canonical = $2, snapshot_hash = $3"
        " WHERE snapshot_id = $1",
        snapshot,
        canonical,
        sha256(canonical),
    )
