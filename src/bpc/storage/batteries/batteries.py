"""Single batteries: read, listed, and found by what their labels say. Each lookup is one read of an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, LiteralString

import asyncpg

from bpc.core.batteries.status import BatteryStatus
from bpc.core.formats.ids import BatteryBatchId, BatteryId, BatteryProductId, RegistrationId, TenantId
from bpc.core.identifiers.addresses import AddressScheme, LookupText, make_address
from bpc.core.items.item_rows import RegisteredItem
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query, split_rows
from bpc.storage.list_filters import ListConditions
from bpc.storage.passports.product_search import SELECT_ID_BY_SKU

MAX_MATCHES: Final = 50  # of a serial number that several products have

SELECT_BATTERIES: Final[LiteralString] = """
    SELECT b.battery_id, b.battery_product_id, p.sku, b.serial_number, b.battery_batch_id, c.batch_number, b.plant,
           b.manufactured_on, b.placed_on, b.status, b.ceased_at, b.registered_at, b.registration_id, b.leaf_number,
           b.link, b.successor, b.predecessor, i.gtin, i.base_url, coalesce(i.scheme, 'OWN') AS scheme
      FROM batteries b
      JOIN battery_products p ON p.tenant_id = b.tenant_id AND p.battery_product_id = b.battery_product_id
      LEFT JOIN battery_identifications i ON i.tenant_id = b.tenant_id AND i.battery_product_id = b.battery_product_id
      LEFT JOIN battery_batches c ON c.tenant_id = b.tenant_id AND c.battery_batch_id = b.battery_batch_id
"""
SELECT_BATTERY: Final[LiteralString] = f"{SELECT_BATTERIES} WHERE b.tenant_id = $1 AND b.battery_id = $2"
SELECT_BATTERY_FOR_UPDATE: Final[LiteralString] = f"{SELECT_BATTERY} FOR NO KEY UPDATE OF b"
SELECT_BY_SERIAL: Final[LiteralString] = f"""
    {SELECT_BATTERIES} WHERE b.tenant_id = $1 AND b.serial_number = $2
     ORDER BY b.battery_product_id LIMIT {MAX_MATCHES}
"""
SELECT_BY_GTIN: Final[LiteralString] = f"""
    {SELECT_BATTERIES} WHERE b.tenant_id = $1 AND b.serial_number = $2
       AND b.battery_product_id = (SELECT battery_product_id FROM battery_identifications
                                    WHERE tenant_id = $1 AND gtin = $3)
"""
SELECT_BY_LINK: Final[LiteralString] = f"{SELECT_BATTERIES} WHERE b.tenant_id = $1 AND b.link = $2"
# `>=` with an order, as in `registration.SELECT_EXISTING`: the unique index also while there are no statistics.
SELECT_REGISTERED_ITEMS: Final[LiteralString] = """
    SELECT w.place, b.battery_id, b.serial_number, b.link, b.status, b.plant, b.manufactured_on, b.placed_on,
           b.predecessor, c.batch_number, i.gtin, i.base_url, coalesce(i.scheme, 'OWN') AS scheme, i.operator_scheme,
           i.operator_id, b.ceased_at IS NOT NULL OR b.successor IS NOT NULL AS is_over
      FROM unnest($3::text[]) WITH ORDINALITY AS w(serial, place)
     CROSS JOIN LATERAL (
       SELECT * FROM batteries
        WHERE tenant_id = $1 AND (serial_number, battery_product_id) >= (w.serial, $2)
        ORDER BY serial_number, battery_product_id LIMIT 1) AS b
      LEFT JOIN battery_identifications i ON i.tenant_id = $1 AND i.battery_product_id = $2
      LEFT JOIN battery_batches c ON c.tenant_id = $1 AND c.battery_batch_id = b.battery_batch_id
     WHERE b.serial_number = w.serial AND b.battery_product_id = $2
     ORDER BY w.place
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryRow:
    """A battery, with the names of its product and its batch."""

    battery_id: BatteryId
    battery_product_id: BatteryProductId
    sku: str
    serial_number: str
    battery_batch_id: BatteryBatchId | None
    batch_number: str | None
    plant: str | None
    manufactured_on: date | None
    placed_on: date | None
    status: BatteryStatus
    ceased_at: datetime | None
    registered_at: datetime
    registration_id: RegistrationId
    leaf_number: int
    link: str | None
    successor: str | None
    predecessor: str | None
    gtin: str | None
    base_url: str | None
    scheme: AddressScheme

    @property
    def address(self) -> str:
        return make_address(
            self.scheme,
            self.battery_id,
            base_url=self.base_url,
            gtin=self.gtin,
            serial=self.serial_number,
            link=self.link,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryFilter:
    """Which batteries to list; all that is set must hold."""

    sku: str | None = None
    serial_number: str | None = None
    batch_number: str | None = None
    status: BatteryStatus | None = None
    registered_after: datetime | None = None
    registered_before: datetime | None = None


async def get_battery(conn: Connection, tenant: TenantId, battery: BatteryId) -> BatteryRow:
    return await fetch_one(conn, BatteryRow, SELECT_BATTERY, tenant, battery, kind="battery")


async def lock_battery(conn: Connection, tenant: TenantId, battery: BatteryId) -> BatteryRow:
    """The battery, which nobody else changes until the transaction ends."""
    return await fetch_one(conn, BatteryRow, SELECT_BATTERY_FOR_UPDATE, tenant, battery, kind="battery")


async def list_batteries(
    conn: Connection, tenant: TenantId, filters: BatteryFilter, page: PageQuery
) -> Sequence[BatteryRow]:
    """Batteries, newest first."""
    conditions = ListConditions()
    if filters.sku is not None:
        product = await conn.fetchval(SELECT_ID_BY_SKU, tenant, filters.sku)
        if product is None:
            return []
        conditions.add("b.battery_product_id = {}", product)
    conditions.add("b.serial_number = {}", filters.serial_number)
    conditions.add("c.batch_number = {}", filters.batch_number)
    if filters.status is not None and filters.status != "original":
        conditions.add_plain("b.status <> 'original'")
    conditions.add("b.status = {}", filters.status)
    conditions.add_times("b.registered_at", filters.registered_after, filters.registered_before)
    statement = make_page_query(SELECT_BATTERIES, time="b.registered_at", key="b.battery_id", where=conditions.where)
    return await fetch_rows(conn, BatteryRow, statement, tenant, *page, *conditions.values)


async def find_batteries(conn: Connection, tenant: TenantId, text: LookupText) -> Sequence[BatteryRow]:
    """The batteries that a label names: one, or several if it has only a serial number that several products use."""
    rows: list[BatteryRow] = []
    if text.battery_id is not None:
        rows = await fetch_rows(conn, BatteryRow, SELECT_BATTERY, tenant, text.battery_id)
    elif text.item is not None and text.item.serial is not None:
        rows = await fetch_rows(conn, BatteryRow, SELECT_BY_GTIN, tenant, text.item.serial, text.item.gtin)
    elif text.serial is not None:
        rows = await fetch_rows(conn, BatteryRow, SELECT_BY_SERIAL, tenant, text.serial)
    if not rows and text.link is not None:
        rows = await fetch_rows(conn, BatteryRow, SELECT_BY_LINK, tenant, text.link)
    return rows


async def load_registered_items(
    conn: Connection, tenant: TenantId, product: BatteryProductId, serials: Sequence[str]
) -> tuple[dict[str, RegisteredItem], set[str]]:
    """The batteries of a product with these serial numbers, and the numbers of those whose passport has ended."""
    items, ended_serials = dict[str, RegisteredItem](), set[str]()
    for part in split_rows(serials):
        for row in await conn.fetch(SELECT_REGISTERED_ITEMS, tenant, product, part):
            items[row["serial_number"]] = _to_registered_item(row)
            if row["is_over"]:
                ended_serials.add(row["serial_number"])
    return items, ended_serials


def _to_registered_item(row: asyncpg.Record) -> RegisteredItem:
    serial, days = row["serial_number"], (row["manufactured_on"], row["placed_on"])
    manufacture_day, market_day = (None if day is None else day.isoformat() for day in days)
    return RegisteredItem(
        battery_id=BatteryId(row["battery_id"]),
        serial_number=serial,
        address=make_address(
            row["scheme"],
            BatteryId(row["battery_id"]),
            base_url=row["base_url"],
            gtin=row["gtin"],
            serial=serial,
            link=row["link"],
        ),
        status=row["status"],
        batch_number=row["batch_number"],
        plant=row["plant"],
        manufactured_on=manufacture_day,
        placed_on=market_day,
        operator=None if row["operator_id"] is None else f"{row['operator_scheme']}:{row['operator_id']}",
        predecessor=row["predecessor"],
    )
