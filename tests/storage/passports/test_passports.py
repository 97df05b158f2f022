"""Lists of products, passports and versions are read from an index, in order, however many there are."""

from typing import LiteralString

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.db import passport_versions, passports, products
from bpc.db.database import Database
from tests.db.rows import a_passport_version
from tests.jobs.test_explain import assert_no_walk, on, plan_of

PRODUCTS = """
    INSERT INTO battery_products (tenant_id, battery_product_id, sku, name, created_at)
    SELECT t.tenant_id, gen_random_uuid(), 'SKU-' || n, 'Cell', now() - n * interval '1 second'
      FROM tenants t, generate_series(1, 2000) AS n
"""
PASSPORTS = """
    INSERT INTO passports (tenant_id, passport_id, battery_product_id, created_at)
    SELECT tenant_id, gen_random_uuid(), battery_product_id, created_at FROM battery_products
     WHERE sku LIKE 'SKU-____' OR sku LIKE 'SKU-_'
"""
VERSIONS = """
    INSERT INTO passport_versions (tenant_id, passport_version_id, passport_id, status, created_at, snapshot_id,
                                   rule_package_version_id, compiler_build_id, payload_canonical, payload_hash,
                                   proof_canonical, proof_root_hash, receipt_canonical, receipt_hash, signature_alg)
    SELECT v.tenant_id, gen_random_uuid(), p.passport_id, 'COMPILING', now() - n * interval '1 second', v.snapshot_id,
           v.rule_package_version_id, 'bpc', '', sha256((p.passport_id || '/' || n)::bytea), '', sha256(''), '',
           sha256(''), 'ED25519'
      FROM passport_versions v, LATERAL (SELECT * FROM passports WHERE tenant_id = v.tenant_id LIMIT 20) AS p,
           generate_series(1, 200) AS n
"""


@pytest.fixture
async def full(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
) -> None:
    """Two tenants with many of everything."""
    for each in (tenant, other_tenant):
        async with database.tenant(each) as conn:
            await a_passport_version(conn, each)
    for fill in (PRODUCTS, PASSPORTS, VERSIONS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE battery_products, passports, passport_versions")


LISTS: list[tuple[LiteralString, str, str]] = [
    (products.PAGE, "battery_products", "battery_products_by_time"),
    (passports.PAGE, "passports", "passports_by_time"),
    (passport_versions.OF_PASSPORT, "passport_versions", "passport_versions_by_time"),
    (passport_versions.ARTIFACTS["payload"], "passport_versions", "passport_versions_pkey"),
]


@pytest.mark.usefixtures("full")
async def test_a_list_is_read_from_its_index_and_not_sorted(database: Database, tenant: TenantId) -> None:
    for statement, table, index in LISTS:
        async with database.tenant(tenant) as conn:
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            nodes = await plan_of(conn, statement)

        assert_no_walk(nodes)
        [scan] = on(nodes, table)
        assert scan.index == index
        assert not [node for node in nodes if "Sort" in node.kind], index
