"""Battery products and their passports.

A SKU names one product of a tenant and never another. A product has one passport; its current version changes only
under the passport's lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import BatteryProductId, PassportId, PassportVersionId, TenantId, find_sku_fault
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

INSERT_PRODUCT: Final[LiteralString] = """
    INSERT INTO battery_products (tenant_id, battery_product_id, sku, name, created_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT battery_products_sku_key DO NOTHING
    RETURNING true
"""
SELECT_PRODUCT_BY_SKU: Final[LiteralString] = """
    SELECT battery_product_id FROM battery_products WHERE tenant_id = $1 AND sku = $2
"""
SELECT_PRODUCTS: Final[LiteralString] = """
    SELECT battery_product_id, sku, name, is_active, created_at FROM battery_products
"""
SELECT_PRODUCT: Final[LiteralString] = f"{SELECT_PRODUCTS} WHERE tenant_id = $1 AND battery_product_id = $2"
SELECT_PRODUCT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_PRODUCTS, time="created_at", key="battery_product_id"
)
SELECT_SKU_BY_TYPE: Final[dict[str, LiteralString]] = {
    "BatteryProduct": "SELECT sku FROM battery_products WHERE tenant_id = $1 AND battery_product_id = $2",
    "Passport": """
        SELECT b.sku FROM passports p
          JOIN battery_products b ON b.tenant_id = p.tenant_id AND b.battery_product_id = p.battery_product_id
         WHERE p.tenant_id = $1 AND p.passport_id = $2
    """,
    "PassportVersion": """
        SELECT b.sku FROM passport_versions v
          JOIN passports p ON p.tenant_id = v.tenant_id AND p.passport_id = v.passport_id
          JOIN battery_products b ON b.tenant_id = p.tenant_id AND b.battery_product_id = p.battery_product_id
         WHERE v.tenant_id = $1 AND v.passport_version_id = $2
    """,
}


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


async def create_product(conn: Connection, tenant: TenantId, *, sku: str, name: str, act: Act) -> ProductRow:
    """Create a product, and append an event."""
    if fault := find_sku_fault(sku):
        raise Invalid(f"the SKU {fault}", fix="write it as it is printed on the product")
    product = BatteryProductId(clock.new_id())
    if not await conn.fetchval(INSERT_PRODUCT, tenant, product, sku, name, act.at):
        raise SkuTaken(await conn.fetchval(SELECT_PRODUCT_BY_SKU, tenant, sku))
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


async def list_products(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ProductRow]:
    """Products, newest first."""
    return await fetch_rows(conn, ProductRow, SELECT_PRODUCT_PAGE, tenant, *page)


async def find_sku(conn: Connection, tenant: TenantId, resource_type: str, resource_id: UUID) -> str | None:
    """The SKU of a product, a passport or a passport version; None for every other type."""
    statement = SELECT_SKU_BY_TYPE.get(resource_type)
    sku: str | None = None if statement is None else await conn.fetchval(statement, tenant, resource_id)
    return sku


# Passports --------------------------------------------------------------------------------------------------------

INSERT_PASSPORT: Final[LiteralString] = """
    INSERT INTO passports (tenant_id, passport_id, battery_product_id, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT ON CONSTRAINT passports_product_key DO NOTHING
    RETURNING true
"""
SELECT_PASSPORT_OF_PRODUCT: Final[LiteralString] = """
    SELECT passport_id FROM passports WHERE tenant_id = $1 AND battery_product_id = $2
"""
SELECT_PASSPORTS: Final[LiteralString] = """
    SELECT passport_id, battery_product_id, current_passport_version_id, created_at FROM passports
"""
SELECT_PASSPORT: Final[LiteralString] = f"{SELECT_PASSPORTS} WHERE tenant_id = $1 AND passport_id = $2"
SELECT_PASSPORT_PAGE: Final[LiteralString] = make_page_query(SELECT_PASSPORTS, time="created_at", key="passport_id")
# Not FOR UPDATE: a compile inserts a row that refers to the passport, and need not wait.
SELECT_PASSPORT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_PASSPORT} FOR NO KEY UPDATE"
UPDATE_CURRENT_VERSION: Final[LiteralString] = """
    UPDATE passports SET current_passport_version_id = $3 WHERE tenant_id = $1 AND passport_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportRow:
    """The passport of a product; `current_passport_version_id` is its ACTIVE version, if it has one."""

    passport_id: PassportId
    battery_product_id: BatteryProductId
    current_passport_version_id: PassportVersionId | None
    created_at: datetime


class PassportExists(Conflict):
    """A product has one passport."""

    def __init__(self, passport_id: UUID) -> None:
        super().__init__(
            "this product already has a passport",
            fix="use the existing passport",
            details={"passport_id": str(passport_id)},
        )
        self.passport_id = passport_id


async def create_passport(conn: Connection, tenant: TenantId, product: BatteryProductId, *, act: Act) -> PassportRow:
    """Create a passport without versions, and append an event."""
    await get_product(conn, tenant, product)
    passport = PassportId(clock.new_id())
    if not await conn.fetchval(INSERT_PASSPORT, tenant, passport, product, act.at):
        raise PassportExists(await conn.fetchval(SELECT_PASSPORT_OF_PRODUCT, tenant, product))
    payload = {"battery_product_id": str(product)}
    await events.append_act(conn, act, tenant, "Passport", passport, "PASSPORT_CREATED", payload)
    return PassportRow(
        passport_id=passport, battery_product_id=product, current_passport_version_id=None, created_at=act.at
    )


async def get_or_create_passport(
    conn: Connection, tenant: TenantId, product: BatteryProductId, *, act: Act
) -> PassportId:
    """The passport of a product; created if it has none."""
    try:
        return (await create_passport(conn, tenant, product, act=act)).passport_id
    except PassportExists as conflict:
        return PassportId(conflict.passport_id)


async def get_passport(conn: Connection, tenant: TenantId, passport: PassportId) -> PassportRow:
    return await fetch_one(conn, PassportRow, SELECT_PASSPORT, tenant, passport, kind="passport")


async def lock_passport(conn: Connection, tenant: TenantId, passport: PassportId) -> PassportRow:
    """The passport. Until the transaction ends, nobody else changes its current version."""
    return await fetch_one(conn, PassportRow, SELECT_PASSPORT_FOR_UPDATE, tenant, passport, kind="passport")


async def list_passports(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[PassportRow]:
    """Passports, newest first."""
    return await fetch_rows(conn, PassportRow, SELECT_PASSPORT_PAGE, tenant, *page)


async def set_current_version(
    conn: Connection, tenant: TenantId, passport: PassportId, version: PassportVersionId | None
) -> None:
    await conn.execute(UPDATE_CURRENT_VERSION, tenant, passport, version)
