"""Battery products: created, found, renamed, deactivated; and by SKU with their passport and its active version.

A SKU names one product of a tenant and never another. Its name may change, and it may be deactivated: then no new
version of its passport is compiled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import (
    BatteryProductId,
    DocumentVersionId,
    PassportId,
    PassportVersionId,
    TenantId,
    find_sku_fault,
)
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions
from bpc.storage.passports.product_search import SELECT_ID_BY_SKU, ProductFilter, add_product_conditions

INSERT_PRODUCT: Final[LiteralString] = """
    INSERT INTO battery_products (tenant_id, battery_product_id, sku, name, created_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT battery_products_sku_key DO NOTHING
    RETURNING true
"""
SELECT_PRODUCTS: Final[LiteralString] = """
    SELECT b.battery_product_id, b.sku, b.name, b.is_active, b.created_at FROM battery_products b
"""
SELECT_PRODUCT: Final[LiteralString] = f"{SELECT_PRODUCTS} WHERE b.tenant_id = $1 AND b.battery_product_id = $2"
SELECT_PRODUCT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_PRODUCT} FOR NO KEY UPDATE"
UPDATE_PRODUCT: Final[LiteralString] = """
    UPDATE battery_products SET name = $3, is_active = $4 WHERE tenant_id = $1 AND battery_product_id = $2
"""
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
class ProductRow:
    """A type of battery that is sold under one SKU."""

    battery_product_id: BatteryProductId
    sku: str
    name: str
    is_active: bool
    created_at: datetime


class SkuTaken(Conflict):
    """Another product has this SKU."""

    def __init__(self, product_id: UUID) -> None:
        super().__init__(
            "a product with this SKU already exists",
            fix="use the existing product",
            details={"battery_product_id": str(product_id)},
        )
        self.product_id = product_id


class ProductInactive(Conflict):
    """No new version is compiled for a deactivated product."""

    def __init__(self, product: ProductRow) -> None:
        super().__init__(
            f"product `{product.sku}` is deactivated",
            fix="reactivate it first",
            details={"battery_product_id": str(product.battery_product_id)},
        )


async def create_product(conn: Connection, tenant: TenantId, *, sku: str, name: str, act: Act) -> ProductRow:
    """Create a product, and append an event."""
    if fault := find_sku_fault(sku):
        raise Invalid(f"the SKU {fault}", fix="write it as it is printed on the product")
    product = BatteryProductId(clock.new_id())
    if not await conn.fetchval(INSERT_PRODUCT, tenant, product, sku, name, act.at):
        raise SkuTaken(await conn.fetchval(SELECT_ID_BY_SKU, tenant, sku))
    payload = {"sku": sku, "name": name}
    await events.append_act(conn, act, tenant, "BatteryProduct", product, "PRODUCT_CREATED", payload)
    return ProductRow(battery_product_id=product, sku=sku, name=name, is_active=True, created_at=act.at)


async def get_or_create_product(conn: Connection, tenant: TenantId, *, sku: str, name: str, act: Act) -> ProductRow:
    """Create a product, or return the one that another transaction has just created with this SKU."""
    try:
        return await create_product(conn, tenant, sku=sku, name=name, act=act)
    except SkuTaken as conflict:
        return await get_product(conn, tenant, BatteryProductId(conflict.product_id))


async def get_product(conn: Connection, tenant: TenantId, product: BatteryProductId) -> ProductRow:
    return await fetch_one(conn, ProductRow, SELECT_PRODUCT, tenant, product, kind="battery product")


async def list_products(
    conn: Connection, tenant: TenantId, filters: ProductFilter, page: PageQuery
) -> Sequence[ProductRow]:
    """Products, newest first."""
    conditions = ListConditions()
    candidates: LiteralString = "b.battery_product_id = ANY({}::uuid[])"
    await add_product_conditions(conn, tenant, conditions, filters, candidates=candidates)
    conditions.add_activity("b.is_active", filters.status)
    conditions.add_times("b.created_at", filters.created_after, filters.created_before)
    statement = make_page_query(
        SELECT_PRODUCTS, time="b.created_at", key="b.battery_product_id", where=conditions.where
    )
    return await fetch_rows(conn, ProductRow, statement, tenant, *page, *conditions.values)


async def rename_product(
    conn: Connection, tenant: TenantId, product_id: BatteryProductId, name: str, *, act: Act
) -> ProductRow:
    """Give a product another name, and append an event if it is another. Versions keep the name of their time."""
    product = await _lock_product(conn, tenant, product_id)
    renamed_product = replace(product, name=name)
    payload = {"from": product.name, "to": name}
    return await _update_product(conn, tenant, product, renamed_product, "PRODUCT_RENAMED", payload, act)


async def set_product_activity(
    conn: Connection, tenant: TenantId, product_id: BatteryProductId, *, is_active: bool, reason: str | None, act: Act
) -> ProductRow:
    """Compile new versions of its passport again, or none from now on, and append an event if that is a change."""
    product = await _lock_product(conn, tenant, product_id)
    payload = {"sku": product.sku} | ({} if reason is None else {"reason": reason})
    event_type = "PRODUCT_REACTIVATED" if is_active else "PRODUCT_DEACTIVATED"
    return await _update_product(conn, tenant, product, replace(product, is_active=is_active), event_type, payload, act)


async def _lock_product(conn: Connection, tenant: TenantId, product: BatteryProductId) -> ProductRow:
    return await fetch_one(conn, ProductRow, SELECT_PRODUCT_FOR_UPDATE, tenant, product, kind="battery product")


async def _update_product(
    conn: Connection,
    tenant: TenantId,
    before: ProductRow,
    after: ProductRow,
    event_type: str,
    payload: dict[str, str],
    act: Act,
) -> ProductRow:
    if after != before:
        await conn.execute(UPDATE_PRODUCT, tenant, after.battery_product_id, after.name, after.is_active)
        product = after.battery_product_id
        await events.append_act(conn, act, tenant, "BatteryProduct", product, event_type, payload)
    return after


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
    """The SKUs of the products that a version of a document is about, in order."""
    return [row["sku"] for row in await conn.fetch(SELECT_SKUS_OF_VERSION, tenant, version)]
