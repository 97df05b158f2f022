"""Finding products, and through them passports and versions: by SKU, name, a part of both, and supplier."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection
from bpc.storage.evidence.fact_search import SELECT_FACTS_OF_SUPPLIER
from bpc.storage.list_filters import ListConditions, find_candidates

MAX_STATED_FACTS: Final = 100_000

SELECT_IDS_BY_TEXT: Final[LiteralString] = "SELECT find_products_by_text($1, $2)"
SELECT_ID_BY_SKU: Final[LiteralString] = (
    "SELECT battery_product_id FROM battery_products WHERE tenant_id = $1 AND sku = $2"
)
SELECT_IDS_BY_SKUS: Final[LiteralString] = (
    "SELECT battery_product_id FROM battery_products WHERE tenant_id = $1 AND sku = ANY($2::text[])"
)
# A key is `<kind>:<sku>` and, for some kinds, more.
SELECT_SKUS_OF_SUPPLIER: Final[LiteralString] = f"""
    SELECT count(*) AS facts, array_agg(DISTINCT split_part(f.fact_key, ':', 2)) AS skus
      FROM ({SELECT_FACTS_OF_SUPPLIER}) AS said
     CROSS JOIN LATERAL (SELECT fact_key FROM facts WHERE tenant_id = $1 AND fact_id = said.fact_id LIMIT 1) AS f
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFilter:
    """Which products to list, or which passports and versions by their product; all that is set must hold.

    `text` is a part of the SKU or the name, `name` a part of the name, whatever the case. `supplier` is the name of one
    whose documents say something about the product. `status` and the times are those of what is listed.
    """

    sku: str | None = None
    name: str | None = None
    text: str | None = None
    supplier: str | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class SupplierTooLarge(Invalid):
    """The documents of a supplier state too many facts to collect their products."""

    def __init__(self, supplier: str) -> None:
        super().__init__(
            f"the documents of supplier `{supplier}` state more than {MAX_STATED_FACTS:,} facts",
            fix="list the documents of the supplier, or their facts, instead",
        )


async def add_product_conditions(
    conn: Connection, tenant: TenantId, conditions: ListConditions, filters: ProductFilter, *, candidates: LiteralString
) -> None:
    """Add what narrows the products, whose table is called `b`.

    `candidates` is the condition that the listed row is of one of some products: it lets the list begin with them.
    """
    conditions.add("b.sku = {}", filters.sku)
    conditions.add_text("b.name", filters.name)
    conditions.add_text("b.sku || ' ' || b.name", filters.text)
    conditions.add(candidates, await _find_products(conn, tenant, filters))
    if filters.supplier is not None:
        skus = await _list_skus_of_supplier(conn, tenant, filters.supplier)
        ids = [row[0] for row in await conn.fetch(SELECT_IDS_BY_SKUS, tenant, skus)]
        conditions.add(candidates, ids)


async def _find_products(conn: Connection, tenant: TenantId, filters: ProductFilter) -> Sequence[UUID] | None:
    """The products that the most selective filter leaves; None if that are too many, or there is no such filter."""
    if filters.sku is not None:
        return [row[0] for row in await conn.fetch(SELECT_ID_BY_SKU, tenant, filters.sku)]
    return await find_candidates(conn, SELECT_IDS_BY_TEXT, filters.text, filters.name)


async def _list_skus_of_supplier(conn: Connection, tenant: TenantId, supplier: str) -> Sequence[str]:
    row = await conn.fetchrow(SELECT_SKUS_OF_SUPPLIER, tenant, supplier, MAX_STATED_FACTS + 1)
    if row is None or row["skus"] is None:
        return []
    if row["facts"] > MAX_STATED_FACTS:
        raise SupplierTooLarge(supplier)
    skus: Sequence[str] = row["skus"]
    return skus
