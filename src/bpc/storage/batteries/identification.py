"""How the batteries of a product are identified: granularity, scheme, GTIN, and the operator who answers for them.

A product that says nothing has single batteries with addresses of ours. Once a battery is on the market, only the
operator may change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.batteries.registration import ProductIdentity
from bpc.core.errors import Conflict
from bpc.core.formats.ids import BatteryProductId, TenantId
from bpc.core.identifiers.addresses import AddressScheme, Granularity
from bpc.core.identifiers.operators import OperatorIdentifier, OperatorScheme
from bpc.storage.audit import events
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.passports.products import get_product

SELECT_IDENTIFICATION: Final[LiteralString] = """
    SELECT battery_product_id, granularity, scheme, gtin, base_url, operator_scheme, operator_id, fixed_at, changed_at
      FROM battery_identifications WHERE tenant_id = $1 AND battery_product_id = $2
"""
SELECT_IDENTITIES: Final[LiteralString] = """
    SELECT p.sku, p.battery_product_id, p.is_active, coalesce(i.granularity, 'ITEM') AS granularity,
           coalesce(i.scheme, 'OWN') AS scheme
      FROM unnest($2::text[]) AS w(sku)
      JOIN battery_products p ON p.tenant_id = $1 AND p.sku = w.sku
      LEFT JOIN battery_identifications i ON i.tenant_id = $1 AND i.battery_product_id = p.battery_product_id
"""
UPSERT_IDENTIFICATION: Final[LiteralString] = """
    INSERT INTO battery_identifications (tenant_id, battery_product_id, granularity, scheme, gtin, base_url,
                                         operator_scheme, operator_id, changed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (tenant_id, battery_product_id) DO UPDATE
       SET granularity = excluded.granularity, scheme = excluded.scheme, gtin = excluded.gtin,
           base_url = excluded.base_url, operator_scheme = excluded.operator_scheme,
           operator_id = excluded.operator_id, changed_at = excluded.changed_at
"""
SELECT_PRODUCT_OF_GTIN: Final[LiteralString] = """
    SELECT battery_product_id FROM battery_identifications WHERE tenant_id = $1 AND gtin = $2
"""
HAS_BATTERIES: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM batteries WHERE tenant_id = $1 AND battery_product_id = $2)
"""
FIX_IDENTIFICATIONS: Final[LiteralString] = """
    INSERT INTO battery_identifications (tenant_id, battery_product_id, granularity, scheme, changed_at, fixed_at)
    SELECT $1, product, 'ITEM', 'OWN', $3, $3 FROM unnest($2::uuid[]) AS w(product)
    ON CONFLICT (tenant_id, battery_product_id) DO UPDATE SET fixed_at = excluded.fixed_at
     WHERE battery_identifications.fixed_at IS NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentificationRow:
    """How the batteries of a product are identified. `fixed_at`: since when that stays the same."""

    battery_product_id: BatteryProductId
    granularity: Granularity = "ITEM"
    scheme: AddressScheme = "OWN"
    gtin: str | None = None
    base_url: str | None = None
    operator_scheme: OperatorScheme | None = None
    operator_id: str | None = None
    fixed_at: datetime | None = None
    changed_at: datetime | None = None


class GtinTaken(Conflict):
    """Another product has this GTIN."""

    def __init__(self, product: object) -> None:
        super().__init__(
            "another product has this GTIN",
            fix="use the GTIN of this product, or change the other one first",
            details={"battery_product_id": str(product)},
        )


class IdentificationFixed(Conflict):
    """Batteries of the product are registered or on the market, so their identifiers stay."""

    def __init__(self, since: str) -> None:
        super().__init__(
            f"batteries of this product are {since}, so how they are identified stays the same",
            fix="create a new product for another identifier; only the operator may change",
        )


async def get_identification(conn: Connection, tenant: TenantId, product: BatteryProductId) -> IdentificationRow:
    """How the batteries of a product are identified; what holds by default if it says nothing."""
    await get_product(conn, tenant, product)
    return await _find_identification(conn, tenant, product)


async def set_identification(
    conn: Connection, tenant: TenantId, target: IdentificationRow, *, act: Act
) -> IdentificationRow:
    """Say how the batteries of a product are identified, and append an event if that is a change."""
    product = target.battery_product_id
    before = await get_identification(conn, tenant, product)
    after = replace(target, fixed_at=before.fixed_at, changed_at=act.at)
    if replace(after, changed_at=before.changed_at) == before:
        return before
    if _get_identity(before) != _get_identity(after):
        if before.fixed_at is not None:
            raise IdentificationFixed("on the market")
        if await conn.fetchval(HAS_BATTERIES, tenant, product):
            raise IdentificationFixed("registered")
    if after.gtin is not None:
        owner = await conn.fetchval(SELECT_PRODUCT_OF_GTIN, tenant, after.gtin)
        if owner not in {None, product}:
            raise GtinTaken(owner)
    columns = (after.granularity, after.scheme, after.gtin, after.base_url, after.operator_scheme, after.operator_id)
    await conn.execute(UPSERT_IDENTIFICATION, tenant, product, *columns, act.at)
    names = ("granularity", "scheme", "gtin", "base_url", "operator_scheme", "operator_id")
    payload = {name: value for name, value in zip(names, columns, strict=True) if value is not None}
    await events.append_act(conn, act, tenant, "BatteryProduct", product, "PRODUCT_IDENTIFIED", payload)
    return after


def check_operator(scheme: OperatorScheme | None, text: str | None) -> OperatorIdentifier | None:
    """The operator of a product, checked."""
    return None if scheme is None or text is None else OperatorIdentifier.parse(scheme, text)


async def load_identities(conn: Connection, tenant: TenantId, skus: Sequence[str]) -> Mapping[str, ProductIdentity]:
    """How the batteries of these products are identified, by SKU."""
    rows = await conn.fetch(SELECT_IDENTITIES, tenant, skus)
    return {
        row["sku"]: ProductIdentity(
            battery_product_id=BatteryProductId(row["battery_product_id"]),
            is_active=row["is_active"],
            granularity=row["granularity"],
            scheme=row["scheme"],
        )
        for row in rows
    }


async def fix_identifications(
    conn: Connection, tenant: TenantId, products: Sequence[BatteryProductId], *, act: Act
) -> None:
    """Fix how batteries of these products are identified: one of each is on the market."""
    await conn.execute(FIX_IDENTIFICATIONS, tenant, products, act.at)


async def _find_identification(conn: Connection, tenant: TenantId, product: BatteryProductId) -> IdentificationRow:
    rows = await fetch_rows(conn, IdentificationRow, SELECT_IDENTIFICATION, tenant, product)
    return rows[0] if rows else IdentificationRow(battery_product_id=product)


def _get_identity(row: IdentificationRow) -> tuple[object, ...]:
    return row.granularity, row.scheme, row.gtin, row.base_url
