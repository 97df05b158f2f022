"""No list reads everything for a filter that leaves a few rows: measured in the rows that each statement reads.

The statements are those that the lists send, as they send them: recorded, and then explained.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
from tests.jobs.support.query_plans import copy_database

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import open_database
from bpc.storage.evidence import document_search, fact_search
from bpc.storage.evidence.document_search import DocumentFilter
from bpc.storage.evidence.fact_search import FactSearch
from bpc.storage.passports import compile_runs, passport_versions, passports, products
from bpc.storage.passports.compile_runs import CompileRunFilter
from bpc.storage.passports.product_search import ProductFilter
from bpc.storage.rules import packages
from bpc.storage.rules.packages import RulePackageFilter
from tests.fixtures import TestServer
from tests.measurements import RecordMeasurement, choose_effort

TENANT: Final = TenantId(UUID(int=0xA))
OTHER: Final = UUID(int=0xB)
MANY: Final = choose_effort(test=4_000, shown=100_000, campaign=100_000)
PAGE: Final = PageQuery.after_cursor(None, 51)
FEW_ROWS: Final = 600  # that a statement may read for a page of a selective filter, in all its scans
RARE: Final = 77  # the product, document and package that are looked for

START: Final = "'2027-01-01Z'::timestamptz + n * interval '1 second'"
FILLS: Final = (
    """INSERT INTO tenants (tenant_id, slug, name)
       SELECT t, 'tenant-' || n, 'T' FROM unnest($1::uuid[]) WITH ORDINALITY AS u(t, n)""",
    f"""INSERT INTO battery_products (tenant_id, battery_product_id, sku, name, is_active, created_at)
        SELECT t, md5('product' || n)::uuid, 'SKU-' || lpad(n::text, 7, '0'),
               CASE n WHEN {RARE} THEN 'Zinkzelle Öhringen' ELSE 'Traction battery ' || n % 500 || ' kWh' END,
               n <> {RARE}, {START}
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO passports (tenant_id, passport_id, battery_product_id, created_at)
        SELECT t, md5('passport' || n)::uuid, md5('product' || n)::uuid, {START}
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO suppliers (tenant_id, supplier_id, name, created_at)
        SELECT t, md5('supplier' || n)::uuid, 'Supplier ' || n, {START}
          FROM unnest($1::uuid[]) t, generate_series(1, 3) n""",
    f"""INSERT INTO documents (tenant_id, document_id, kind, name, external_ref, is_active, supplier_id, created_at)
        SELECT t, md5('document' || n)::uuid, CASE n WHEN {RARE} THEN 'PCF' ELSE 'BOM' END::document_kind,
               CASE n WHEN {RARE} THEN 'Fußabdruck ÄQUIVALENT' ELSE 'Bill of materials ' || n END, 'ERP-' || n,
               n <> {RARE}, CASE n WHEN {RARE} THEN md5('supplier1') ELSE md5('supplier2') END::uuid, {START}
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                       content, uploaded_at)
        SELECT t, md5('version' || n)::uuid, md5('document' || n)::uuid, 1, 'VALIDATED', 'application/json',
               sha256((t || '/' || n)::bytea), '', {START}
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id,
                           source_path, payload, payload_canonical, payload_hash, created_at)
        SELECT t, md5('fact' || n)::uuid, 'Battery', 'battery:SKU-' || lpad(n::text, 7, '0'), 1,
               md5('version' || n)::uuid, '$', '{{}}', '{{}}', sha256(n::text::bytea), {START}
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO fact_sources (tenant_id, fact_id, document_version_id, source_path)
        SELECT t, md5('fact' || n)::uuid, md5('version' || n)::uuid, '$'
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    f"""INSERT INTO rule_packages (tenant_id, rule_package_id, name, description, is_active, created_at)
        SELECT t, md5('package' || n)::uuid, CASE n WHEN {RARE} THEN 'Zellen' ELSE 'Rules ' || n END, 'for batteries',
               n <> {RARE}, {START}
          FROM unnest($1::uuid[]) t, generate_series(1, {MANY // 10}) n""",
    """INSERT INTO rule_package_versions (tenant_id, rule_package_version_id, rule_package_id, version, status,
                                          compiler_min_build, dsl_source, dsl_sha256, tests_source, tests_sha256)
       SELECT t, md5('rules')::uuid, md5('package1')::uuid, 1, 'DRAFT', '1', '', sha256(''), '', sha256('')
         FROM unnest($1::uuid[]) t""",
    """INSERT INTO data_snapshots (tenant_id, snapshot_id, status)
       SELECT t, md5('snapshot')::uuid, 'BUILDING' FROM unnest($1::uuid[]) t""",
    f"""INSERT INTO passport_versions (tenant_id, passport_version_id, passport_id, status, created_at, snapshot_id,
                                       rule_package_version_id, compiler_build_id, payload_canonical, payload_hash,
                                       proof_canonical, proof_root_hash, receipt_canonical, receipt_hash,
                                       signature_alg, fail_count, warn_count)
        SELECT t, md5('passport version' || n)::uuid, md5('passport' || n)::uuid, 'COMPILING', {START},
               md5('snapshot')::uuid, md5('rules')::uuid, 'bpc', '', sha256((t || '/' || n)::bytea), '', sha256(''), '',
               sha256(''), 'ED25519', 0, 0
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
    """INSERT INTO compile_runs (tenant_id, run_id, rule_package_version_id, activate, total, created_at)
       SELECT t, md5('run' || n)::uuid, md5('rules')::uuid, false, 100, '2027-01-01Z'::timestamptz + n * interval '1 s'
         FROM unnest($1::uuid[]) t, generate_series(1, 50) n""",
    f"""INSERT INTO compile_run_rows (tenant_id, run_id, row_number, sku, activate)
        SELECT t, md5('run' || 1 + n % 50)::uuid, n, 'SKU-' || lpad(n::text, 7, '0'), false
          FROM unnest($1::uuid[]) t, generate_series(1, CASE t WHEN ($1::uuid[])[1] THEN {MANY} ELSE 1000 END) n""",
)
TEXT_INDEXES: Final = ("battery_products_by_text", "documents_by_text", "rule_packages_by_text")
SELECT_TEXT_INDEXES: Final = f"SELECT indexdef FROM pg_indexes WHERE indexname IN {TEXT_INDEXES}"
RARE_SKU: Final = f"SKU-{RARE:07d}"
EARLY: Final = datetime(2027, 1, 1, 0, 1, tzinfo=UTC)
EARLIER: Final[Any] = {"created_before": EARLY}

# What is listed, and how many rows there are.
SELECTIVE: Final[list[tuple[str, Any, tuple[Any, ...], int]]] = [
    ("products-by-sku", products.list_products, (ProductFilter(sku=RARE_SKU),), 1),
    ("products-by-text", products.list_products, (ProductFilter(text="zelle öhr"),), 1),
    ("products-by-part-of-sku", products.list_products, (ProductFilter(text=RARE_SKU[2:]),), 1),
    ("products-by-name", products.list_products, (ProductFilter(name="ZINK"),), 1),
    ("products-by-status", products.list_products, (ProductFilter(status="INACTIVE"),), 1),
    ("products-by-supplier", products.list_products, (ProductFilter(supplier="Supplier 1"),), 1),
    ("products-by-time", products.list_products, (ProductFilter(**EARLIER),), 51),
    ("products-by-nothing-there", products.list_products, (ProductFilter(text="not there"),), 0),
    ("passports-by-sku", passports.list_passports, (ProductFilter(sku=RARE_SKU),), 1),
    ("passports-by-text", passports.list_passports, (ProductFilter(text="zinkzelle"),), 1),
    ("passports-by-status", passports.list_passports, (ProductFilter(status="ACTIVE"),), 0),
    ("passports-by-supplier", passports.list_passports, (ProductFilter(supplier="Supplier 1"),), 1),
    ("passports-by-time", passports.list_passports, (ProductFilter(**EARLIER),), 51),
    ("versions-by-sku", passport_versions.list_versions, (None, ProductFilter(sku=RARE_SKU)), 1),
    ("versions-by-text", passport_versions.list_versions, (None, ProductFilter(text="zinkzelle")), 1),
    ("versions-by-status", passport_versions.list_versions, (None, ProductFilter(status="SIGNED")), 0),
    ("versions-by-supplier", passport_versions.list_versions, (None, ProductFilter(supplier="Supplier 1")), 1),
    ("versions-by-time", passport_versions.list_versions, (None, ProductFilter(**EARLIER)), 51),
    ("documents-by-text", document_search.list_documents, (DocumentFilter(text="äquivalent"),), 1),
    ("documents-by-reference", document_search.list_documents, (DocumentFilter(external_ref="ERP-77"),), 1),
    ("documents-by-kind", document_search.list_documents, (DocumentFilter(kind="PCF"),), 1),
    ("documents-by-supplier", document_search.list_documents, (DocumentFilter(supplier="Supplier 1"),), 1),
    ("documents-by-status", document_search.list_documents, (DocumentFilter(status="INACTIVE"),), 1),
    ("documents-by-sku", document_search.list_documents, (DocumentFilter(sku=RARE_SKU),), 1),
    ("documents-by-time", document_search.list_documents, (DocumentFilter(**EARLIER),), 51),
    ("facts-by-sku", fact_search.search_facts, (FactSearch(sku=RARE_SKU),), 1),
    ("facts-by-supplier", fact_search.search_facts, (FactSearch(supplier="Supplier 1"),), 1),
    ("facts-by-time", fact_search.search_facts, (FactSearch(**EARLIER),), 51),
    ("packages-by-text", packages.list_packages, (RulePackageFilter(text="zelle"),), 1),
    ("packages-by-status", packages.list_packages, (RulePackageFilter(status="INACTIVE"),), 1),
    ("runs-by-sku", compile_runs.list_runs, (CompileRunFilter(sku=RARE_SKU),), 1),
    ("runs-by-status", compile_runs.list_runs, (CompileRunFilter(status="RUNNING"),), 0),
    ("runs-that-were-stopped", compile_runs.list_runs, (CompileRunFilter(status="CANCELLED"),), 0),
]
# Filters that leave most rows: the list is read from its newest row on, and ends with its page.
BROAD: Final[list[tuple[str, Any, tuple[Any, ...], int]]] = [
    ("products-by-common-text", products.list_products, (ProductFilter(text="traction"),), 51),
    ("versions-by-common-text", passport_versions.list_versions, (None, ProductFilter(text="traction")), 51),
    ("documents-by-common-text", document_search.list_documents, (DocumentFilter(text="bill of"),), 51),
    ("facts-by-large-supplier", fact_search.search_facts, (FactSearch(supplier="Supplier 2"),), 51),
]


@pytest.fixture(scope="module")
def full_database(server: TestServer, template_name: str) -> Iterator[Address]:
    """A database for all plans: nothing in it is changed."""
    with copy_database(server, template_name, _fill_database) as address:
        yield address


async def _fill_database(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    # Indexes on texts are built in one go, which is quicker than row by row.
    definitions = [row[0] for row in await conn.fetch(SELECT_TEXT_INDEXES)]
    for index in TEXT_INDEXES:
        await conn.execute(f"DROP INDEX {index}")
    for fill in FILLS:
        await conn.execute(fill, [TENANT, OTHER])
    for definition in definitions:
        await conn.execute(definition)
    await conn.execute("VACUUM ANALYZE")


@pytest.fixture
async def conn(full_database: Address) -> AsyncIterator[Connection]:
    opened = await open_database(full_database, pool_size=1)
    async with opened.tenant(TENANT) as conn:
        yield conn
    await opened.close()


async def record_statements(conn: Connection, function: Any, arguments: Sequence[Any]) -> tuple[int, list[Any]]:
    """How many rows a list has, and the statements that it sent with their arguments."""
    statements: list[Any] = []
    await function(conn, TENANT, *arguments, PAGE)  # the driver asks for types once
    with conn.query_logger(statements.append):
        rows = await function(conn, TENANT, *arguments, PAGE)
        await asyncio.sleep(0)  # the driver tells of a statement in the next turn of the loop
    return len(rows), [(logged.query, logged.args) for logged in statements]


async def count_rows_read(conn: Connection, statement: str, arguments: Sequence[Any]) -> int:
    """The rows that the scans of a statement read, also those that they threw away, by the plan that is kept."""
    await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    text = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    await conn.execute("SET LOCAL plan_cache_mode = auto")
    return sum(_count_rows(node) for node in _iterate_nodes(json.loads(text)[0]["Plan"]))


def _iterate_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _iterate_nodes(part)


def _count_rows(node: dict[str, Any]) -> int:
    if "Relation Name" not in node:
        return 0
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int(rows * node["Actual Loops"])


@pytest.mark.parametrize(("name", "function", "arguments", "expected"), SELECTIVE, ids=[row[0] for row in SELECTIVE])
async def test_a_selective_filter_reads_few_rows(
    conn: Connection,
    record_measurement: RecordMeasurement,
    name: str,
    function: Any,
    arguments: tuple[Any, ...],
    expected: int,
) -> None:
    row_count, statements = await record_statements(conn, function, arguments)

    assert row_count == expected
    assert any("LIMIT" in statement for statement, _ in statements)  # the page itself was recorded
    rows_read = {statement: await count_rows_read(conn, statement, values) for statement, values in statements}
    assert sum(rows_read.values()) <= FEW_ROWS, rows_read
    began = time.perf_counter()
    await function(conn, TENANT, *arguments, PAGE)
    milliseconds = round(1000 * (time.perf_counter() - began), 1)
    record_measurement(f"list-{name}", rows=MANY, rows_read=sum(rows_read.values()), milliseconds=milliseconds)


@pytest.mark.parametrize(("name", "function", "arguments", "expected"), BROAD, ids=[row[0] for row in BROAD])
async def test_a_filter_that_leaves_most_rows_ends_with_its_page(
    conn: Connection, name: str, function: Any, arguments: tuple[Any, ...], expected: int
) -> None:
    row_count, statements = await record_statements(conn, function, arguments)

    assert row_count == expected, name
    # The last statements read the page; those before it may have looked at as many candidates as are collected.
    assert await count_rows_read(conn, *statements[-1]) <= FEW_ROWS + 6 * MANY * (MANY <= 5_000)


@pytest.mark.parametrize(
    ("table", "content", "index"),
    [
        ("battery_products", "sku || ' ' || name", "battery_products_by_text"),
        ("documents", "coalesce(name, '') || ' ' || coalesce(external_ref, '')", "documents_by_text"),
    ],
)
async def test_a_text_is_looked_up_in_its_index(
    full_database: Address, server: TestServer, table: str, content: str, index: str
) -> None:
    """The body of the function that searches, as its owner runs it."""
    admin = await asyncpg.connect(**server.admin.with_database(full_database.database).connect_arguments())
    async with admin.transaction():
        await admin.execute("SET LOCAL ROLE bpc_owner")
        await admin.execute(f"SET LOCAL app.tenant_id = '{TENANT}'")
        text = await admin.fetchval(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {table} WHERE tenant_id = current_tenant()"
            f" AND search_grams(tenant_id, {content}, 2) @> search_grams(current_tenant(), 'zelle', 3) LIMIT 5001"
        )
    await admin.close()

    indexes = [node.get("Index Name") for node in _iterate_nodes(json.loads(text)[0]["Plan"])]
    assert index in indexes


async def test_the_search_sees_the_bound_tenant_alone(full_database: Address, server: TestServer) -> None:
    admin = await asyncpg.connect(**server.admin.with_database(full_database.database).connect_arguments())
    functions = ("find_products_by_text", "find_documents_by_text", "find_rule_packages_by_text")
    try:
        await admin.execute(
            "UPDATE battery_products SET name = 'Nur hier' WHERE tenant_id = $1 AND sku = $2", OTHER, RARE_SKU
        )
        for bound, expected in ((str(OTHER), 1), (str(TENANT), 0), ("", 0)):
            async with admin.transaction():
                await admin.execute("SET LOCAL ROLE bpc_app")
                await admin.execute(f"SET LOCAL app.tenant_id = '{bound}'")
                assert len(await admin.fetch("SELECT find_products_by_text('nur hier', 10)")) == expected
                if not bound:  # whoever forgets to bind a tenant sees nothing
                    for function in functions:
                        assert await admin.fetch(f"SELECT {function}('er', 3)") == []
    finally:
        await admin.close()
