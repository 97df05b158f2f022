"""Battery products: what passports are for. A SKU names one product of a tenant, for good."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc import fresh
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, BatteryProductId, TenantId
from bpc.core.skus import fault_of
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

INSERT: Final[LiteralString] = """
    INSERT INTO battery_products (tenant_id, battery_product_id, sku, name, created_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT battery_products_sku_key DO NOTHING
    RETURNING true
"""
WITH_SKU: Final[LiteralString] = """
    SELECT battery_product_id FROM battery_products WHERE tenant_id = $1 AND sku = $2
"""
ONE: Final[LiteralString] = """
    SELECT battery_product_id, sku, name, is_active, created_at FROM battery_products
     WHERE tenant_id = $1 AND battery_product_id = $2
"""
PAGE: Final[LiteralString] = """
    SELECT battery_product_id, sku, name, is_active, created_at FROM battery_products
     WHERE tenant_id = $1 AND (created_at, battery_product_id) < ($2, $3)
     ORDER BY created_at DESC, battery_product_id DESC
     LIMIT $4
"""
SKU_OF: Final[dict[str, LiteralString]] = {
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
class Product:
    """A kind of battery that is sold under one SKU."""

    battery_product_id: BatteryProductId
    sku: str
    name: str
    is_active: bool
    created_at: datetime


class ProductUnknown(NotFound):
    def __init__(self, product: BatteryProductId) -> None:
        super().__init__(
            f"there is no battery product `{product}`", fix="GET /v1/battery-products lists those there are"
        )


class SkuTaken(Conflict):
    """Another product has this SKU."""

    def __init__(self, product: UUID) -> None:
        super().__init__(
            "a product with this SKU exists already",
            fix="use the product that is there",
            details={"battery_product_id": str(product)},
        )
        self.product = product


async def create(conn: Connection, tenant: TenantId, *, sku: str, name: str, act: Act) -> Product:
    """A new product, on record."""
    if fault := fault_of(sku):
        raise Invalid(f"the SKU {fault}", fix="write it as it is printed on the product")
    product = BatteryProductId(fresh.new_id())
    if not await conn.fetchval(INSERT, tenant, product, sku, name, act.at):
        raise SkuTaken(await conn.fetchval(WITH_SKU, tenant, sku))
    said = act.says("PRODUCT_CREATED", {"sku": sku, "name": name})
    await events.append(conn, Stream(tenant, "BatteryProduct", AggregateId(product)), said)
    return Product(battery_product_id=product, sku=sku, name=name, is_active=True, created_at=act.at)


async def create_or_find(conn: Connection, tenant: TenantId, *, sku: str, name: str, act: Act) -> Product:
    """A new product, on record, or the one that somebody else has just made of this SKU."""
    try:
        return await create(conn, tenant, sku=sku, name=name, act=act)
    except SkuTaken as taken:
        return await get(conn, tenant, BatteryProductId(taken.product))


async def get(conn: Connection, tenant: TenantId, product: BatteryProductId) -> Product:
    row = await conn.fetchrow(ONE, tenant, product)
    if row is None:
        raise ProductUnknown(product)
    return Product(**dict(row))


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Product]:
    """Products, newest first."""
    return [Product(**dict(row)) for row in await conn.fetch(PAGE, tenant, *ask)]


async def sku_of(conn: Connection, tenant: TenantId, kind: str, thing: UUID) -> str | None:
    """The SKU that a product, a passport or a version of one belongs to; None for everything else."""
    statement = SKU_OF.get(kind)
    found: str | None = None if statement is None else await conn.fetchval(statement, tenant, thing)
    return found
