"""Finding facts by product, supplier and time. Always newest first, whatever else is filtered by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection, PageQuery, make_page_query
from bpc.storage.evidence.facts import (
    FACT_COLUMNS,
    LISTED,
    MAX_SOURCES_IN_LIST,
    RESERVED_FACT_TYPES,
    SELECT_FACTS,
    FactFilter,
    FactRow,
    list_facts,
    list_key_ranges,
    load_sources,
    prefix_end,
)
from bpc.storage.list_filters import MAX_CANDIDATES, ListConditions
from bpc.storage.passports.product_names import find_skus_by_text

# The facts of a product, by their keys. OFFSET 0 keeps the planner from reading all facts by time until some of these
# have come.
SELECT_FACTS_OF_PRODUCT: Final[LiteralString] = f"""
    SELECT {FACT_COLUMNS} FROM (
      SELECT * FROM facts
       WHERE tenant_id = $1 AND fact_key COLLATE "C" = ANY ($5::text[]) AND fact_type <> 'Blinding'
       UNION ALL
      SELECT * FROM facts
       WHERE tenant_id = $1 AND fact_type <> 'Blinding'
         AND fact_key COLLATE "C" >= $6 AND fact_key COLLATE "C" < $7
       UNION ALL
      SELECT * FROM facts
       WHERE tenant_id = $1 AND fact_type <> 'Blinding'
         AND fact_key COLLATE "C" >= $8 AND fact_key COLLATE "C" < $9
      OFFSET 0) AS f
"""
# What documents of the supplier $2 say, at most $3 facts, one more than once if several documents say it. Each step is
# looked up separately (OFFSET 0): the planner may read whole tables for plain joins.
SELECT_FACTS_OF_SUPPLIER: Final[LiteralString] = """
    SELECT s.fact_id
      FROM (SELECT document_id FROM documents
             WHERE tenant_id = $1
               AND supplier_id = (SELECT supplier_id FROM suppliers WHERE tenant_id = $1 AND name = $2)
             ORDER BY created_at DESC, document_id DESC LIMIT $3) AS d
     CROSS JOIN LATERAL (SELECT document_version_id FROM document_versions
                          WHERE tenant_id = $1 AND document_id = d.document_id OFFSET 0) AS v
     CROSS JOIN LATERAL (SELECT fact_id FROM fact_sources
                          WHERE tenant_id = $1 AND document_version_id = v.document_version_id
                            AND members IS NULL OFFSET 0) AS s
     LIMIT $3
"""
SELECT_IDS_OF_SUPPLIER: Final[LiteralString] = f"SELECT DISTINCT fact_id FROM ({SELECT_FACTS_OF_SUPPLIER}) AS said"
IS_FROM_SUPPLIER: Final[LiteralString] = """EXISTS (
    SELECT FROM fact_sources s
      JOIN document_versions v ON v.tenant_id = $1 AND v.document_version_id = s.document_version_id
      JOIN documents d ON d.tenant_id = $1 AND d.document_id = v.document_id
      JOIN suppliers u ON u.tenant_id = $1 AND u.supplier_id = d.supplier_id
     WHERE s.tenant_id = $1 AND s.fact_id = f.fact_id AND s.members IS NULL AND u.name = {})"""
IS_IN_DOCUMENT: Final[LiteralString] = """f.fact_id = ANY(ARRAY(
    SELECT s.fact_id FROM fact_sources s
     WHERE s.tenant_id = $1 AND s.document_version_id = {} AND s.members IS NULL))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSearch(FactFilter):
    """Which facts to list: also by the product they are about, by the supplier of a document, and by time.

    `text` is a part of the SKU or the name of the product.
    """

    text: str | None = None
    sku: str | None = None
    supplier: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def search_facts(conn: Connection, tenant: TenantId, search: FactSearch, page: PageQuery) -> Sequence[FactRow]:
    """Facts that match the filters. Raises `TextTooCommon`."""
    if search.text is not None:
        return await _search_by_text(conn, tenant, search, search.text, page)
    if not any((search.sku, search.supplier, search.created_after, search.created_before)):
        return await list_facts(conn, tenant, search, page)
    if search.fact_type in RESERVED_FACT_TYPES:
        return []
    key_ranges = [] if search.sku is None else [*list_key_ranges(search.sku)]
    conditions = ListConditions(first=5 + len(key_ranges))
    conditions.add_plain(LISTED)
    conditions.add("f.fact_type = {}", search.fact_type)
    if search.fact_key_prefix:
        conditions.add('f.fact_key COLLATE "C" >= {}', search.fact_key_prefix)
        conditions.add('f.fact_key COLLATE "C" < {}', prefix_end(search.fact_key_prefix))
    conditions.add(IS_IN_DOCUMENT, search.document_version_id)
    if search.supplier is not None:
        conditions.add(IS_FROM_SUPPLIER, search.supplier)
        candidates = await _list_ids_of_supplier(conn, tenant, search.supplier)
        conditions.add("f.fact_id = ANY({}::uuid[])", candidates)
    conditions.add_times("f.created_at", search.created_after, search.created_before)
    select = SELECT_FACTS if search.sku is None else SELECT_FACTS_OF_PRODUCT
    statement = make_page_query(select, time="f.created_at", key="f.fact_id", where=conditions.where)
    rows = await conn.fetch(statement, tenant, *page, *key_ranges, *conditions.values)
    return await load_sources(conn, tenant, rows, limit=MAX_SOURCES_IN_LIST)


async def _search_by_text(
    conn: Connection, tenant: TenantId, search: FactSearch, text: str, page: PageQuery
) -> Sequence[FactRow]:
    """The newest facts of the products that a text finds."""
    skus = [sku for sku in await find_skus_by_text(conn, tenant, text) if search.sku in {None, sku}]
    rows = [row for sku in skus for row in await search_facts(conn, tenant, replace(search, text=None, sku=sku), page)]
    return sorted(rows, key=lambda row: (row.created_at, row.fact_id), reverse=True)[: page.limit]


async def _list_ids_of_supplier(conn: Connection, tenant: TenantId, supplier: str) -> Sequence[UUID] | None:
    """The facts of a supplier; None if there are too many to collect."""
    rows = await conn.fetch(SELECT_IDS_OF_SUPPLIER, tenant, supplier, MAX_CANDIDATES + 1)
    return None if len(rows) > MAX_CANDIDATES else [row[0] for row in rows]
