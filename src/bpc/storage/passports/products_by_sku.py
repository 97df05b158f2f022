"""Products as bulk compiles, readiness and what-if name them: by SKU, with their passport and its active version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.formats.ids import BatteryProductId, DocumentVersionId, PassportId, PassportVersionId, TenantId
from bpc.storage.connection import Connection, fetch_rows

SELECT_PRODUCTS_BY_SKU: Final[LiteralString] = """
    SELECT b.sku, b.name, b.battery_product_id, p.passport_id, p.current_passport_version_id AS active_version_id
      FROM unnest($2::text[]) AS w(sku)
      JOIN battery_products b ON b.tenant_id = $1 AND b.sku = w.sku
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.battery_product_id = b.battery_product_id
"""
SELECT_ACTIVE_SKUS: Final[LiteralString] = """
    SELECT sku FROM battery_products WHERE tenant_id = $1 AND is_active ORDER BY created_at, battery_product_id LIMIT $2
"""
SELECT_ACTIVE_SKUS_AFTER: Final[LiteralString] = """
    SELECT sku FROM battery_products
     WHERE tenant_id = $1 AND is_active AND sku COLLATE "C" > $2
     ORDER BY sku COLLATE "C"
     LIMIT $3
"""
SELECT_SKUS_WITH_PASSPORT_AFTER: Final[LiteralString] = """
    SELECT b.sku
      FROM battery_products b
      JOIN passports p ON p.tenant_id = $1 AND p.battery_product_id = b.battery_product_id
     WHERE b.tenant_id = $1 AND p.current_passport_version_id IS NOT NULL AND b.sku COLLATE "C" > $2
     ORDER BY b.sku COLLATE "C"
     LIMIT $3
"""
# A key is `<kind>:<sku>` and, for some kinds, more; a SKU contains no colon.
SELECT_SKUS_OF_VERSION: Final[LiteralString] = """
    SELECT DISTINCT split_part(f.fact_key, ':', 2) COLLATE "C" AS sku
      FROM fact_sources s
      JOIN facts f ON f.tenant_id = $1 AND f.fact_id = s.fact_id
     WHERE s.tenant_id = $1 AND s.document_version_id = $2
     ORDER BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPassport:
    """A product, its passport if it has one, and the active version of that."""

    sku: str
    name: str
    battery_product_id: BatteryProductId
    passport_id: PassportId | None
    active_version_id: PassportVersionId | None


async def find_products_by_sku(
    conn: Connection, tenant: TenantId, skus: Sequence[str]
) -> Mapping[str, ProductPassport]:
    """The products with these SKUs, by SKU."""
    rows = await fetch_rows(conn, ProductPassport, SELECT_PRODUCTS_BY_SKU, tenant, skus)
    return {row.sku: row for row in rows}


async def list_active_skus(conn: Connection, tenant: TenantId, *, limit: int) -> Sequence[str]:
    """The SKUs of active products, oldest first."""
    return [row["sku"] for row in await conn.fetch(SELECT_ACTIVE_SKUS, tenant, limit)]


async def list_active_skus_after(conn: Connection, tenant: TenantId, after: str, *, limit: int) -> Sequence[str]:
    """The SKUs of active products that come after `after`, in the order of SKUs."""
    return [row["sku"] for row in await conn.fetch(SELECT_ACTIVE_SKUS_AFTER, tenant, after, limit)]


async def list_skus_with_passport_after(conn: Connection, tenant: TenantId, after: str, *, limit: int) -> Sequence[str]:
    """The SKUs after `after` of products whose passport has an active version, in the order of SKUs."""
    return [row["sku"] for row in await conn.fetch(SELECT_SKUS_WITH_PASSPORT_AFTER, tenant, after, limit)]


async def list_skus_of_version(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> Sequence[str]:
    """The SKUs of the products that a version of a document speaks of, in order."""
    return [row["sku"] for row in await conn.fetch(SELECT_SKUS_OF_VERSION, tenant, version)]
