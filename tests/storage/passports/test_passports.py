"""Lists of products, passports and versions are read from an index, in order, however many there are."""

from typing import LiteralString

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, require_read_from_index

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import make_page_query
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions, passports, products
from tests.storage.rows import insert_passport_version

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
async def full_tables(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    other_tenant: TenantId,
) -> None:
    """Two tenants with many of everything."""
    for tenant_id in (tenant, other_tenant):
        async with database.tenant(tenant_id) as conn:
            await insert_passport_version(conn, tenant_id)
    for fill in (PRODUCTS, PASSPORTS, VERSIONS):
        await superuser.execute(fill)
    await superuser.execute("VACUUM ANALYZE battery_products, passports, passport_versions")


LISTS: list[tuple[LiteralString, str, str]] = [
    (
        make_page_query(products.SELECT_PRODUCTS, time="b.created_at", key="b.battery_product_id"),
        "battery_products",
        "battery_products_by_time",
    ),
    (
        make_page_query(passports.SELECT_PASSPORTS, time="p.created_at", key="p.passport_id"),
        "passports",
        "passports_by_time",
    ),
    (
        make_page_query(
            passport_versions.SELECT_VERSIONS,
            time="v.created_at",
            key="v.passport_version_id",
            where="AND v.passport_id = $5",
        ),
        "passport_versions",
        "passport_versions_by_time",
    ),
    (passport_versions.SELECT_ARTIFACT["payload"], "passport_versions", "passport_versions_pkey"),
]


@pytest.mark.usefixtures("full_tables")
async def test_a_list_is_read_from_its_index_and_not_sorted(database: Database, tenant: TenantId) -> None:
    for statement, table, index in LISTS:
        async with database.tenant(tenant) as conn:
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            nodes = await explain_plan(conn, statement)

        require_read_from_index(nodes, table, index)
