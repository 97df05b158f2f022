"""Lists of documents and their versions are read from an index, in order, however many there are."""

from typing import LiteralString

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, require_read_from_index

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import make_page_query
from bpc.storage.database import Database
from bpc.storage.evidence import documents

DOCUMENTS = """
    INSERT INTO documents (tenant_id, document_id, kind, created_at)
    SELECT t.tenant_id, gen_random_uuid(), 'OTHER', now() - n * interval '1 second'
      FROM tenants t, generate_series(1, 5000) AS n
"""
VERSIONS = """
    INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                   content, uploaded_at)
    SELECT d.tenant_id, gen_random_uuid(), d.document_id, n, 'UPLOADED', 'text/plain',
           sha256((d.document_id || '/' || n)::bytea), 'x', now() - n * interval '1 second'
      FROM (SELECT * FROM documents LIMIT 20) AS d, generate_series(1, 200) AS n
"""


@pytest.mark.parametrize(
    ("statement", "table", "indexes"),
    [
        (
            make_page_query(documents.SELECT_DOCUMENTS, time="d.created_at", key="d.document_id"),
            "documents",
            {"documents_by_time"},
        ),
        (documents.SELECT_VERSION_PAGE, "document_versions", {"document_versions_by_time"}),
        (
            documents.SELECT_VERSIONS_BY_HASH,
            "document_versions",
            {"document_versions_sha256_key", "document_versions_reread_key"},
        ),
    ],
    ids=["documents", "versions", "the same bytes"],
)
async def test_a_list_is_read_from_its_index_and_not_sorted(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
    statement: LiteralString,
    table: str,
    indexes: set[str],
) -> None:
    for fill in (DOCUMENTS, VERSIONS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE documents, document_versions")

    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await explain_plan(conn, statement)

    require_read_from_index(nodes, table, *indexes)
