"""What retention looks for is found by its age, in an index, however much is younger."""

from collections.abc import Sequence
from typing import LiteralString

import asyncpg
from tests.jobs.support.query_plans import explain_plan, list_nodes_on

from bpc.core.formats.ids import TenantId
from bpc.storage.audit import retention
from bpc.storage.database import Database
from tests.storage.rows import insert_passport_version, insert_signing_keys

DOCUMENTS = """
    INSERT INTO documents (tenant_id, document_id, kind) SELECT tenant_id, tenant_id, 'OTHER' FROM tenants
"""
VERSIONS = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                   content, uploaded_at)
    SELECT d.tenant_id, gen_random_uuid(), d.document_id, n, 'UPLOADED', 'text/plain',
           sha256((d.document_id || '/' || n)::bytea), 'x', now() - n * interval '1 second'
      FROM documents AS d, generate_series(1, 3000) AS n
"""
EVENTS = """
    INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                        payload, payload_canonical, payload_hash, event_hash)
    SELECT t.tenant_id, gen_random_uuid(), 'Document', md5((n / 10)::text)::uuid, n % 10 + 1, 'X',
           now() - n * interval '1 second', '{}', '{}', sha256('{}'), sha256(n::text::bytea)
      FROM tenants t, generate_series(1, 5000) AS n
"""


EXPORTS = """
    INSERT INTO passport_exports (tenant_id, export_id, passport_version_id, format, audience, status, mime_type,
                                  file_name, content, sha256, job_id, finished_at)
    SELECT tenant_id, gen_random_uuid(), passport_version_id, 'XML', 'tenant', 'READY', 'application/xml', 'p.xml', 'x',
           sha256('x'), gen_random_uuid(), now() - n * interval '1 second'
      FROM passport_versions, generate_series(1, 3000) AS n
"""


READ_BY_AGE: Sequence[tuple[LiteralString, str, set[str]]] = [
    (retention.SELECT_OLD_CONTENT, "document_versions", {"document_versions_with_content"}),
    (retention.SELECT_OLD_EXPORTS, "passport_exports", {"passport_exports_over"}),
    (retention.SELECT_OLD_EVENT_PAGE, "events", {"events_by_time"}),
    (retention.SELECT_CUTS, "events", {"events_chain_key"}),
    (retention.DELETE_EVENTS, "events", {"events_chain_key"}),
]


async def test_old_rows_are_read_from_an_index(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
) -> None:
    await insert_signing_keys(database)
    for tenant_id in (tenant, other_tenant):
        async with database.tenant(tenant_id) as conn:
            await insert_passport_version(conn, tenant_id, status="SIGNED")
    for fill in (DOCUMENTS, VERSIONS, EVENTS, EXPORTS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE document_versions, events, passport_exports")

    for statement, table, indexes in READ_BY_AGE:
        async with database.system(tenant) as conn:
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            nodes = await explain_plan(conn, statement)

        assert {node.index for node in list_nodes_on(nodes, table) if node.index} == indexes, statement
        assert not [node for node in list_nodes_on(nodes, table) if node.kind == "Seq Scan"], statement
