"""What a passport version was made of, by type and id: its snapshot, facts, documents and rules."""

from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.evidence.facts import JOIN_FACT_BY_ID, JOIN_SOURCES

SELECT_SOURCES: Final[LiteralString] = f"""
    WITH version AS (
      SELECT snapshot_id, rule_package_version_id FROM passport_versions
       WHERE tenant_id = $1 AND passport_version_id = $2),
    used_facts AS (
      SELECT f.fact_id, f.source_document_version_id AS document_version_id
        FROM version
        JOIN snapshot_items i ON i.tenant_id = $1 AND i.snapshot_id = version.snapshot_id
      {JOIN_FACT_BY_ID}),
    used_documents AS (
      SELECT document_version_id FROM used_facts
      UNION
      SELECT s.document_version_id FROM used_facts k {JOIN_SOURCES})
    SELECT 'DataSnapshot' AS kind, snapshot_id AS id FROM version
    UNION ALL SELECT 'RulePackageVersion', rule_package_version_id FROM version
    UNION ALL
    SELECT 'RulePackage', r.rule_package_id
      FROM version JOIN rule_package_versions r
        ON r.tenant_id = $1 AND r.rule_package_version_id = version.rule_package_version_id
    UNION ALL SELECT 'Fact', fact_id FROM used_facts
    UNION ALL SELECT 'DocumentVersion', document_version_id FROM used_documents
    UNION ALL
    SELECT DISTINCT 'Document', d.document_id
      FROM used_documents JOIN document_versions d
        ON d.tenant_id = $1 AND d.document_version_id = used_documents.document_version_id
"""


async def list_sources(conn: Connection, tenant: TenantId, version: PassportVersionId) -> list[tuple[str, UUID]]:
    """Type and id of each; empty for a version that does not exist."""
    rows = await conn.fetch(SELECT_SOURCES, tenant, version)
    return [(row["kind"], row["id"]) for row in rows if row["id"] is not None]
