"""Finding documents: by name, reference, kind, supplier, product and time; and the products that they are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.ids import DocumentId, TenantId
from bpc.storage.connection import Connection, PageQuery, fetch_rows, make_page_query
from bpc.storage.evidence.documents import SELECT_DOCUMENTS, DocumentKind, DocumentRow
from bpc.storage.evidence.facts import list_key_ranges
from bpc.storage.list_filters import ListConditions, find_candidates

MAX_PRODUCTS_IN_LIST: Final = 10
MAX_LOOKED_AT: Final = 100  # facts of a document that are read to find its products

SELECT_IDS_BY_TEXT: Final[LiteralString] = "SELECT find_documents_by_text($1, $2)"
SELECT_SUPPLIER_ID: Final[LiteralString] = "SELECT supplier_id FROM suppliers WHERE tenant_id = $1 AND name = $2"
SELECT_IDS_BY_SKU: Final[LiteralString] = """
    WITH known AS (
      SELECT fact_id FROM facts
       WHERE tenant_id = $1 AND fact_key COLLATE "C" = ANY ($2::text[]) AND fact_type <> 'Blinding'
       UNION ALL
      SELECT fact_id FROM facts
       WHERE tenant_id = $1 AND fact_type <> 'Blinding'
         AND fact_key COLLATE "C" >= $3 AND fact_key COLLATE "C" < $4
       UNION ALL
      SELECT fact_id FROM facts
       WHERE tenant_id = $1 AND fact_type <> 'Blinding'
         AND fact_key COLLATE "C" >= $5 AND fact_key COLLATE "C" < $6)
    SELECT DISTINCT v.document_id
      FROM (SELECT DISTINCT s.document_version_id
              FROM known k JOIN fact_sources s ON s.tenant_id = $1 AND s.fact_id = k.fact_id) AS said
      JOIN document_versions v ON v.tenant_id = $1 AND v.document_version_id = said.document_version_id
"""
# The condition of the index for a kind: row-level security keeps a comparison with a value away from an index.
HAS_KIND: Final[Mapping[DocumentKind, LiteralString]] = {
    "BOM": "d.kind = 'BOM'",
    "PCF": "d.kind = 'PCF'",
    "DUE_DILIGENCE": "d.kind = 'DUE_DILIGENCE'",
    "OTHER": "d.kind = 'OTHER'",
}
# Of the newest version that was read. A document may have tens of thousands of facts: only some are looked at.
SELECT_PRODUCTS: Final[LiteralString] = """
    SELECT w.document_id, said.sku, b.name
      FROM unnest($2::uuid[]) AS w(document_id)
     CROSS JOIN LATERAL (
       SELECT document_version_id FROM document_versions
        WHERE tenant_id = $1 AND document_id = w.document_id AND status = 'VALIDATED'
        ORDER BY uploaded_at DESC, document_version_id DESC LIMIT 1) AS v
     CROSS JOIN LATERAL (
       SELECT DISTINCT split_part(f.fact_key, ':', 2) COLLATE "C" AS sku
         FROM (SELECT fact_id FROM fact_sources
                WHERE tenant_id = $1 AND document_version_id = v.document_version_id AND members IS NULL
                ORDER BY fact_id LIMIT $3) AS s
        CROSS JOIN LATERAL (SELECT fact_key FROM facts WHERE tenant_id = $1 AND fact_id = s.fact_id LIMIT 1) AS f
        ORDER BY sku LIMIT $4) AS said
      LEFT JOIN battery_products b ON b.tenant_id = $1 AND b.sku = said.sku
     ORDER BY w.document_id, said.sku
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    """Which documents to list: those that match every filter that is set.

    `text` is a part of the name or the reference, `name` a part of the name, whatever the case. `sku` is that of a
    product that a version of the document says something about.
    """

    external_ref: str | None = None
    name: str | None = None
    text: str | None = None
    kind: DocumentKind | None = None
    supplier: str | None = None
    sku: str | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProductOfDocument:
    """A product that a document speaks of; `name` is None if there is no product with this SKU."""

    sku: str
    name: str | None


async def list_documents(
    conn: Connection, tenant: TenantId, filters: DocumentFilter, page: PageQuery
) -> Sequence[DocumentRow]:
    """Documents, newest first."""
    conditions = ListConditions()
    conditions.add("d.external_ref = {}", filters.external_ref)
    conditions.add_text("d.name", filters.name)
    conditions.add_text("coalesce(d.name, '') || ' ' || coalesce(d.external_ref, '')", filters.text)
    candidates = await find_candidates(conn, SELECT_IDS_BY_TEXT, filters.text, filters.name)
    conditions.add("d.document_id = ANY({}::uuid[])", candidates)
    if filters.sku is not None:
        conditions.add("d.document_id = ANY({}::uuid[])", await _list_ids_by_sku(conn, tenant, filters.sku))
    if filters.supplier is not None:
        supplier_id = await conn.fetchval(SELECT_SUPPLIER_ID, tenant, filters.supplier)
        if supplier_id is None:
            return []
        conditions.add("d.supplier_id = {}", supplier_id)
    if filters.kind is not None:
        conditions.add_plain(HAS_KIND[filters.kind])
    conditions.add_activity("d.is_active", filters.status)
    conditions.add_times("d.created_at", filters.created_after, filters.created_before)
    statement = make_page_query(SELECT_DOCUMENTS, time="d.created_at", key="d.document_id", where=conditions.where)
    return await fetch_rows(conn, DocumentRow, statement, tenant, *page, *conditions.values)


async def load_products_of_documents(
    conn: Connection, tenant: TenantId, documents: Sequence[DocumentId], *, with_names: bool
) -> Mapping[DocumentId, Sequence[ProductOfDocument]]:
    """The first products that each document is about, by SKU, among the first facts of its newest version."""
    products: dict[DocumentId, list[ProductOfDocument]] = {document: [] for document in documents}
    rows = await conn.fetch(SELECT_PRODUCTS, tenant, documents, MAX_LOOKED_AT, MAX_PRODUCTS_IN_LIST)
    for row in rows:
        products[DocumentId(row["document_id"])].append(
            ProductOfDocument(row["sku"], row["name"] if with_names else None)
        )
    return products


async def _list_ids_by_sku(conn: Connection, tenant: TenantId, sku: str) -> Sequence[UUID]:
    return [row[0] for row in await conn.fetch(SELECT_IDS_BY_SKU, tenant, *list_key_ranges(sku))]
