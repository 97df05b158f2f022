"""Runs, their rows, what they are made of and what the audit looks at next are found by an index, whatever is there."""

import asyncpg
import pytest

from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db import compile_runs, facts, passport_versions
from bpc.db.database import Database
from tests.db.rows import a_compile_run, a_fact, a_passport_version, a_rule_version, signing_keys
from tests.jobs.test_explain import assert_no_walk, on, plan_of

FILL = (
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
async def full(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
    act: Act,
) -> None:
    """Two tenants with many of everything."""
    await signing_keys(database)
    for each in (tenant, other_tenant):
        async with database.tenant(each) as conn:
            await a_compile_run(conn, each, await a_rule_version(conn, each))
            await a_fact(conn, each)
            for _ in range(50):
                await a_passport_version(conn, each, status="ACTIVE", activated_at=act.at)
    for statement in FILL:
        await superuser.execute(statement)


@pytest.mark.usefixtures("full")
async def test_runs_and_rows_are_read_in_the_order_of_their_index(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        runs, rows = await plan_of(conn, compile_runs.PAGE), await plan_of(conn, compile_runs.ROWS)

    assert_no_walk([*runs, *rows])
    assert [scan.index for scan in on(runs, "compile_runs")] == ["compile_runs_by_time"]
    assert [scan.index for scan in on(rows, "compile_run_rows")] == ["compile_run_rows_pkey"]
    assert [scan.index for scan in on(rows, "passport_versions")] == ["passport_versions_pkey"]
    assert [scan.index for scan in on(rows, "job")] == ["job_idempotency_key"]
    assert {scan.index for scan in on(rows, "events")} == {"events_chain_key"}
    assert {scan.index for scan in on(rows, "event_anchors")} == {"event_anchors_pkey"}
    assert not [node for node in [*runs, *rows] if "Sort" in node.kind]


@pytest.mark.usefixtures("full")
async def test_what_is_newest_about_a_product_is_looked_up_by_key(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await plan_of(conn, facts.NEWEST_ABOUT)

    scans = [node for node in nodes if node.index is not None and node.index.endswith("_by_key")]
    assert len(scans) == 2
    assert all("fact_key" in scan.condition for scan in scans)
    assert not [node for node in on(nodes, "facts") if "Seq Scan" in node.kind]


@pytest.mark.usefixtures("full")
async def test_what_the_audit_looks_at_next_comes_first_in_an_index(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        nodes = await plan_of(conn, passport_versions.TO_REPLAY)

    assert_no_walk(nodes)
    assert [scan.index for scan in on(nodes, "passport_versions")] == ["passport_versions_to_replay"]
    assert not [node for node in nodes if "Sort" in node.kind]
