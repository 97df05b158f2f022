"""What retention looks for is found by its age, in an index, however much is younger."""

from typing import LiteralString

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.db import retention
from bpc.db.database import Database
from tests.db.rows import a_passport_version, signing_keys
from tests.jobs.test_explain import on, plan_of

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


@pytest.mark.parametrize(
    ("statement", "table", "indexes"),
    [
        (retention.OLD_CONTENT, "document_versions", {"document_versions_with_content"}),
        (retention.OLD_EXPORTS, "passport_exports", {"passport_exports_over"}),
        (retention.PAGE, "events", {"events_by_time"}),
        (retention.CUTS, "events", {"events_chain_key"}),
        (retention.REMOVE_EVENTS, "events", {"events_chain_key"}),
    ],
    ids=["contents", "exports", "events", "cuts", "removing"],
)
async def test_it_is_found_by_an_index(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
    statement: LiteralString,
    table: str,
    indexes: set[str],
) -> None:
    await signing_keys(database)
    for each in (tenant, other_tenant):
        async with database.tenant(each) as conn:
            await a_passport_version(conn, each, status="SIGNED")
    for fill in (DOCUMENTS, VERSIONS, EVENTS, EXPORTS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE document_versions, events, passport_exports")

    async with database.system(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await plan_of(conn, statement)

    assert {node.index for node in on(nodes, table) if node.index} == indexes
    assert not [node for node in on(nodes, table) if node.kind == "Seq Scan"]
