"""The tables of evidence that follow from events: documents, what they state, suppliers, snapshots."""

from typing import Final, LiteralString

from bpc.storage.audit.state_table import StateTable, canonicalize_text, hash_bytes, name_columns

# The same bytes as bpc.core.audit.row_hashes.
FACT_LINE: Final[LiteralString] = """
    concat_ws(chr(31), f.fact_type, f.fact_key, f.schema_version::text, encode(f.payload_hash, 'hex'), s.source_path)
"""
FACTS_OF_VERSION: Final[LiteralString] = f"""
    (SELECT encode(sha256(convert_to(coalesce(
              string_agg(DISTINCT {FACT_LINE} COLLATE "C", chr(30) ORDER BY {FACT_LINE} COLLATE "C"), ''), 'UTF8')),
              'hex')
       FROM fact_sources s
       JOIN facts f ON f.tenant_id = s.tenant_id AND f.fact_id = s.fact_id
      WHERE s.tenant_id = t.tenant_id AND s.document_version_id = t.document_version_id AND s.members IS NULL)
"""
ITEMS_OF_SNAPSHOT: Final[LiteralString] = """
    CASE WHEN t.status <> 'SEALED' THEN ARRAY(
      SELECT i.fact_id::text COLLATE "C" FROM snapshot_items i
        JOIN facts f ON f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id
       WHERE i.tenant_id = t.tenant_id AND i.snapshot_id = t.snapshot_id AND NOT i.is_reserved
         AND f.fact_type <> 'Blinding'
       ORDER BY 1) END
"""

EVIDENCE_TABLES: Final = (
    StateTable(
        name="documents",
        aggregate_type="Document",
        owner="document_id",
        key=("document_id",),
        columns=name_columns(
            "external_ref",
            "is_active",
            "created_at",
            "created_by",
            "supplier_id",
            "number_locale",
            "name",
        )
        | {"kind": "t.kind::text"},
    ),
    StateTable(
        name="document_refs",
        aggregate_type="Document",
        owner="document_id",
        key=("external_ref",),
        columns=name_columns("document_id"),
    ),
    StateTable(
        name="document_version_refs",
        aggregate_type="Document",
        owner="document_id",
        key=("document_id", "version_ref"),
        columns=name_columns("document_version_id"),
    ),
    StateTable(
        name="document_statements",
        aggregate_type="Document",
        owner="document_id",
        key=("statement_id",),
        unrecorded="t.statement_id = t.document_version_id AND t.stated_at < $3",
        columns=name_columns(
            "document_id", "sequence", "document_version_id", "reason", "stated_at", "stated_by", "file_name"
        ),
    ),
    StateTable(
        name="fact_decisions",
        aggregate_type="Document",
        owner="document_id",
        key=("decision_id",),
        unrecorded="t.decided_at < $3",
        columns=name_columns("fact_type", "fact_key", "member", "document_id", "reason", "decided_at", "decided_by"),
    ),
    StateTable(
        name="attachments",
        aggregate_type="Document",
        owner="v.document_id",
        joins=(
            "LEFT JOIN document_versions v"
            " ON v.tenant_id = t.tenant_id AND v.document_version_id = t.document_version_id"
        ),
        key=("attachment_id",),
        columns=name_columns(
            "sku", "data_point", "document_version_id", "title", "mime_type", "attached_at", "attached_by"
        ),
    ),
    StateTable(
        name="attachment_withdrawals",
        aggregate_type="Document",
        owner="v.document_id",
        joins=(
            "LEFT JOIN attachments a ON a.tenant_id = t.tenant_id AND a.attachment_id = t.attachment_id "
            "LEFT JOIN document_versions v"
            " ON v.tenant_id = t.tenant_id AND v.document_version_id = a.document_version_id"
        ),
        key=("attachment_id",),
        columns=name_columns("reason", "withdrawn_at", "withdrawn_by"),
    ),
    StateTable(
        name="document_versions",
        aggregate_type="DocumentVersion",
        owner="document_version_id",
        key=("document_version_id",),
        columns=name_columns(
            "document_id",
            "version",
            "mime_type",
            "uploaded_at",
            "content_restored_at",
            "read_options",
            status="t.status::text",
            sha256="coalesce(t.sha256, t.reread_sha256)",
            content=hash_bytes("content"),
            facts=FACTS_OF_VERSION,
        ),
    ),
    StateTable(
        name="suppliers",
        aggregate_type="Supplier",
        owner="supplier_id",
        key=("supplier_id",),
        columns=name_columns("name", "number_locale", "rank", "created_at"),
    ),
    StateTable(
        name="column_mappings",
        aggregate_type="Supplier",
        owner="supplier_id",
        key=("supplier_id", "t.kind::text", "t.version::text"),
        columns=name_columns("accepted_at", "accepted_by", mapping="t.mapping::text"),
        convert={"mapping": canonicalize_text},
    ),
    StateTable(
        name="data_snapshots",
        aggregate_type="DataSnapshot",
        owner="snapshot_id",
        key=("snapshot_id",),
        columns=name_columns(
            "label",
            "created_at",
            "created_by",
            "sealed_at",
            "snapshot_hash",
            status="t.status::text",
            snapshot_canonical=hash_bytes("snapshot_canonical"),
            items=ITEMS_OF_SNAPSHOT,
        ),
    ),
)
