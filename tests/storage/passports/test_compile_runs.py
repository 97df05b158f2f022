"""Runs, their rows, what they are made of and what the audit looks at next are found by an index, whatever is there."""

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, list_nodes_on, require_no_full_scan

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.connection import make_page_query
from bpc.storage.database import Database
from bpc.storage.evidence import stated_facts
from bpc.storage.passports import compile_run_progress, compile_runs, passport_versions
from tests.storage.evidence_rows import insert_fact
from tests.storage.rows import insert_compile_run, insert_passport_version, insert_rule_version, insert_signing_keys

FILL_TABLES = (
    """INSERT INTO compile_run_rows (tenant_id, run_id, row_number, sku, activate)
       SELECT tenant_id, run_id, n, 'SKU-' || n, false FROM compile_runs, generate_series(2, 3000) AS n""",
    """INSERT INTO compile_runs (tenant_id, run_id, rule_package_version_id, activate, total, created_at)
       SELECT tenant_id, gen_random_uuid(), rule_package_version_id, false, 1, now() - n * interval '1 second'
         FROM compile_runs, generate_series(1, 500) AS n""",
    """INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id,
                          source_path, payload, payload_canonical, payload_hash)
       SELECT tenant_id, gen_random_uuid(), fact_type, fact_key || n, 1, source_document_version_id, source_path,
              payload, payload_canonical, payload_hash FROM facts, generate_series(1, 2000) AS n""",
    """INSERT INTO jobs.job (tenant_id, job_id, type, status, priority, max_attempts, idempotency_key, payload,
                             created_at, scheduled_at, keep_seconds)
       SELECT tenant_id, gen_random_uuid(), 'COMPILE_ROW', 'SUCCEEDED', 2, 5, 'row:' || run_id || ':' || row_number,
              '{}', now(), now(), 60 FROM compile_run_rows""",
    "VACUUM ANALYZE compile_runs, compile_run_rows, facts, fact_sources, document_versions, passport_versions",
    "VACUUM ANALYZE jobs.job",
)


@pytest.fixture
async def full_tables(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
    act: Act,
) -> None:
    """Two tenants with many of everything."""
    await insert_signing_keys(database)
    for tenant_id in (tenant, other_tenant):
        async with database.tenant(tenant_id) as conn:
            await insert_compile_run(conn, tenant_id, await insert_rule_version(conn, tenant_id))
            await insert_fact(conn, tenant_id)
            for _ in range(50):
                await insert_passport_version(conn, tenant_id, status="ACTIVE", activated_at=act.at)
    for statement in FILL_TABLES:
        await superuser.execute(statement)


@pytest.mark.usefixtures("full_tables")
async def test_runs_and_rows_are_read_in_the_order_of_their_index(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        runs, rows = (
            await explain_plan(conn, make_page_query(compile_runs.SELECT_RUNS, time="c.created_at", key="c.run_id")),
            await explain_plan(conn, compile_run_progress.SELECT_ROW_STATE_PAGE),
        )

    require_no_full_scan([*runs, *rows])
    assert [scan.index for scan in list_nodes_on(runs, "compile_runs")] == ["compile_runs_by_time"]
    assert [scan.index for scan in list_nodes_on(rows, "compile_run_rows")] == ["compile_run_rows_pkey"]
    assert [scan.index for scan in list_nodes_on(rows, "passport_versions")] == ["passport_versions_pkey"]
    # The next job of a row; and the one that compiled it, if that also signed it.
    assert [scan.index for scan in list_nodes_on(rows, "job")] == ["job_idempotency_key", "job_idempotency_key"]
    assert {scan.index for scan in list_nodes_on(rows, "events")} == {"events_chain_key"}
    assert {scan.index for scan in list_nodes_on(rows, "event_anchors")} == {"event_anchors_pkey"}
    assert not [node for node in [*runs, *rows] if "Sort" in node.kind]


@pytest.mark.usefixtures("full_tables")
async def test_the_facts_of_a_product_that_count_are_looked_up_by_key(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await explain_plan(conn, stated_facts.SELECT_STATED_FACTS)

    scans = [node for node in nodes if node.index is not None and node.index.endswith("_by_key")]
    assert len(scans) == 2
    assert all("fact_key" in scan.condition for scan in scans)
    assert not [node for node in list_nodes_on(nodes, "facts") if "Seq Scan" in node.kind]


@pytest.mark.usefixtures("full_tables")
async def test_the_next_versions_to_replay_are_first_in_an_index(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await explain_plan(conn, passport_versions.SELECT_NEXT_TO_REPLAY)

    require_no_full_scan(nodes)
    assert [scan.index for scan in list_nodes_on(nodes, "passport_versions")] == ["passport_versions_to_replay"]
    assert not [node for node in nodes if "Sort" in node.kind]
