"""Rows of a filled tenant: its documents, facts and snapshots."""

from uuid import UUID

from bpc.core.facts.attachments import AttachedFile, build_attachment_fact
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.provenance import DocumentOrigin
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import AttachmentId, DocumentId, DocumentVersionId, SnapshotId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from tests.api.tenant_data import FilledTenant, add_id, get_id
from tests.storage.evidence_rows import insert_document_version, seal_snapshot
from tests.storage.statements import insert_row

DISPUTED_SKU = "DISPUTED-1"  # of every tenant
ATTACHED_FILE = b"%PDF-1.4 of every tenant"


async def insert_documents(conn: Connection, tenant_data: FilledTenant) -> None:
    supplier = add_id(tenant_data, "supplier_id")
    await insert_row(
        conn, "suppliers", tenant_id=tenant_data.tenant, supplier_id=supplier, name=f"{tenant_data.mark} supplier"
    )
    await insert_row(
        conn,
        "column_mappings",
        tenant_id=tenant_data.tenant,
        supplier_id=supplier,
        kind="BOM",
        version=1,
        mapping=canonical_json.encode({"mark": tenant_data.mark}).decode(),
    )
    document = add_id(tenant_data, "document_id")
    content = canonical_json.encode({"battery": {"sku": tenant_data.mark}, "components": []})
    await insert_row(
        conn,
        "documents",
        tenant_id=tenant_data.tenant,
        document_id=document,
        kind="BOM",
        external_ref=f"{tenant_data.mark} ref",
        supplier_id=supplier,
    )
    await insert_row(
        conn,
        "document_refs",
        tenant_id=tenant_data.tenant,
        external_ref=f"{tenant_data.mark} ref",
        document_id=document,
    )
    await insert_row(
        conn,
        "document_versions",
        tenant_id=tenant_data.tenant,
        document_version_id=add_id(tenant_data, "document_version_id"),
        document_id=document,
        version=1,
        status="VALIDATED",
        mime_type="application/json",
        sha256=sha256(content),
        content=content,
    )
    await insert_row(
        conn,
        "document_texts",
        tenant_id=tenant_data.tenant,
        document_version_id=UUID(tenant_data.ids["document_version_id"]),
        pages=1,
        text=f"{tenant_data.mark} text",
    )
    await insert_attached_file(conn, tenant_data)
    for name, mass in (
        ("withdrawn_document_id", None),
        ("believed_document_id", "400.000000"),
        ("doubted", "410.000000"),
    ):
        await insert_stated_document(conn, tenant_data, name, mass)
    for number, name in enumerate(["fact_id", "removed_fact_id", "added_fact_id", "ready_fact_id"]):
        fact = SnapshotFact(
            fact_type="Battery",
            fact_key=f"battery:{tenant_data.mark}-{number}",
            schema_version=1,
            payload={"sku": f"{tenant_data.mark}-{number}"},
        )
        tenant_data.ids[name] = str(await insert_fact(conn, tenant_data, fact))
    in_it = ["fact_id", "removed_fact_id"]
    for name, status, facts in [
        ("snapshot_id", "BUILDING", in_it),
        ("built_snapshot_id", "BUILDING", in_it),
        ("ready_snapshot_id", "READY", in_it),
        ("sealed_snapshot_id", "SEALED", in_it),
    ]:
        await insert_snapshot(
            conn, tenant_data, add_id(tenant_data, name), status, [get_id(tenant_data, fact) for fact in facts]
        )


async def insert_attached_file(conn: Connection, tenant_data: FilledTenant) -> None:
    """A file that is attached to a data point, twice: one of the two can be withdrawn."""
    document, version = add_id(tenant_data, "attached_document_id"), add_id(tenant_data, "attached_version_id")
    await insert_document_version(
        conn,
        tenant_data.tenant,
        kind="OTHER",
        document=document,
        version=version,
        content=ATTACHED_FILE,
        mime_type="application/pdf",
    )
    for name in ("attachment_id", "withdrawn_attachment_id"):
        await insert_row(
            conn,
            "attachments",
            tenant_id=tenant_data.tenant,
            attachment_id=add_id(tenant_data, name),
            sku=f"{tenant_data.mark} {name}",
            data_point=42,
            document_version_id=version,
            title=f"{tenant_data.mark} title",
            mime_type="application/pdf",
        )


def make_attachment_fact(tenant_data: FilledTenant, sku: str) -> SnapshotFact:
    """The fact by which a passport of `sku` names the attached file."""
    file = AttachedFile(
        attachment_id=AttachmentId(clock.new_id()),
        sku=sku,
        data_point=42,
        heading=f"{tenant_data.mark} title",
        mime_type="application/pdf",
        size=len(ATTACHED_FILE),
        document=DocumentOrigin(
            document_id=DocumentId(clock.new_id()),
            document_version_id=DocumentVersionId(get_id(tenant_data, "attached_version_id")),
            kind="OTHER",
            sha256=sha256(ATTACHED_FILE),
            file_name=None,
            supplier=None,
            stated_at=clock.now(),
        ),
    )
    return build_attachment_fact(file)


async def insert_stated_document(conn: Connection, tenant_data: FilledTenant, name: str, mass_kg: str | None) -> None:
    """A document that says something: with a mass, what another document says of the same battery differently."""
    content = canonical_json.encode({"name": name, "mark": tenant_data.mark})
    version = await insert_document_version(
        conn, tenant_data.tenant, status="VALIDATED", document=add_id(tenant_data, name), content=content
    )
    if mass_kg is not None:
        payload = {"sku": DISPUTED_SKU, "mass_kg": mass_kg, "name": f"{tenant_data.mark} battery"}
        fact = SnapshotFact(fact_type="Battery", fact_key=f"battery:{DISPUTED_SKU}", schema_version=1, payload=payload)
        await insert_fact(conn, tenant_data, fact, version)


async def insert_fact(
    conn: Connection, tenant_data: FilledTenant, fact: SnapshotFact, version: UUID | None = None
) -> UUID:
    """A fact of `version`, or of the tenant's first document version."""
    fact_id = clock.new_id()
    version = version or get_id(tenant_data, "document_version_id")
    is_secret = fact.fact_type == "Blinding"
    await insert_row(
        conn,
        "facts",
        tenant_id=tenant_data.tenant,
        fact_id=fact_id,
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=1,
        source_document_version_id=None if is_secret else version,
        source_path=None if is_secret else "/battery",
        payload=canonical_json.encode(fact.payload).decode(),
        payload_canonical=canonical_json.encode(fact.payload),
        payload_hash=fact.digest(),
    )
    if not is_secret:
        await insert_row(
            conn,
            "fact_sources",
            tenant_id=tenant_data.tenant,
            fact_id=fact_id,
            document_version_id=version,
            source_path="/battery",
        )
    return fact_id


async def insert_snapshot(
    conn: Connection, tenant_data: FilledTenant, snapshot: UUID, status: str, facts: list[UUID]
) -> None:
    await insert_row(
        conn,
        "data_snapshots",
        tenant_id=tenant_data.tenant,
        snapshot_id=snapshot,
        status="BUILDING",
        label=f"{tenant_data.mark} snapshot",
    )
    for fact in facts:
        await insert_row(conn, "snapshot_items", tenant_id=tenant_data.tenant, snapshot_id=snapshot, fact_id=fact)
    if status != "BUILDING":
        await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    if status == "SEALED":
        await seal_snapshot(conn, SnapshotId(snapshot))
