"""Lists of rule packages, versions and test runs are read from an index, in order, however many there are."""

from typing import LiteralString

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, require_read_from_index

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import make_page_query
from bpc.storage.database import Database
from bpc.storage.rules import lifecycle, packages

PACKAGES = """
    INSERT INTO rule_packages (tenant_id, rule_package_id, name, created_at)
    SELECT t.tenant_id, gen_random_uuid(), 'rules ' || n, now() - n * interval '1 second'
      FROM tenants t, generate_series(1, 2000) AS n
"""
VERSIONS = """
    INSERT INTO rule_package_versions (tenant_id, rule_package_version_id, rule_package_id, version, status, created_at,
                                       compiler_min_build, dsl_source, dsl_sha256, tests_source, tests_sha256)
    SELECT p.tenant_id, gen_random_uuid(), p.rule_package_id, n, 'DRAFT', now() - n * interval '1 second', '1', '',
           sha256((p.rule_package_id || '/' || n)::bytea), '', sha256('')
      FROM (SELECT * FROM rule_packages LIMIT 20) AS p, generate_series(1, 200) AS n
"""
RUNS = """
    INSERT INTO rule_tests_runs (tenant_id, run_id, rule_package_version_id, seed, cases, passed, failed, discarded,
                                 status, created_at)
    SELECT v.tenant_id, gen_random_uuid(), v.rule_package_version_id, 1, 1, 1, 0, 0, 'PASSED',
           now() - n * interval '1 second'
      FROM (SELECT * FROM rule_package_versions LIMIT 20) AS v, generate_series(1, 200) AS n
"""


@pytest.fixture
async def full_tables(
    superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, other_tenant: TenantId
) -> None:
    """Two tenants with many of everything."""
    for fill in (PACKAGES, VERSIONS, RUNS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE rule_packages, rule_package_versions, rule_tests_runs")


LISTS: list[tuple[LiteralString, str, str]] = [
    (
        make_page_query(packages.SELECT_PACKAGES, time="created_at", key="rule_package_id"),
        "rule_packages",
        "rule_packages_by_time",
    ),
    (packages.SELECT_VERSION_PAGE, "rule_package_versions", "rule_package_versions_by_time"),
    (packages.SELECT_NEWEST_VERSION, "rule_package_versions", "rule_package_versions_version_key"),
    (lifecycle.SELECT_TEST_RUN_PAGE, "rule_tests_runs", "rule_tests_runs_by_time"),
    (lifecycle.SELECT_NEWEST_TEST_RUN, "rule_tests_runs", "rule_tests_runs_by_time"),
]


@pytest.mark.usefixtures("full_tables")
async def test_a_list_is_read_from_its_index_and_not_sorted(database: Database, tenant: TenantId) -> None:
    for statement, table, index in LISTS:
        async with database.tenant(tenant) as conn:
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            nodes = await explain_plan(conn, statement)

        require_read_from_index(nodes, table, index)
