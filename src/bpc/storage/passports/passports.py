"""Passports: a product has one. Its current version changes only under the passport's lock.

A passport is about a product with a SKU, which events, webhooks and policies name; none of that ever changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import BatteryProductId, PassportId, PassportVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions
from bpc.storage.passports.product_search import ProductFilter, add_product_conditions
from bpc.storage.passports.products import get_product

SELECT_SUBJECT: Final[LiteralString] = """
    SELECT p.passport_id, p.battery_product_id, b.sku
      FROM passports p
      JOIN battery_products b ON b.tenant_id = p.tenant_id AND b.battery_product_id = p.battery_product_id
     WHERE p.tenant_id = $1 AND p.passport_id = $2
"""
SELECT_SUBJECT_OF_VERSION: Final[LiteralString] = """
    SELECT p.passport_id, p.battery_product_id, b.sku
      FROM passport_versions v
      JOIN passports p ON p.tenant_id = v.tenant_id AND p.passport_id = v.passport_id
      JOIN battery_products b ON b.tenant_id = p.tenant_id AND b.battery_product_id = p.battery_product_id
     WHERE v.tenant_id = $1 AND v.passport_version_id = $2
"""
SELECT_SKU_BY_TYPE: Final[dict[str, LiteralString]] = {
    "BatteryProduct": "SELECT sku FROM battery_products WHERE tenant_id = $1 AND battery_product_id = $2",
    "Passport": f"SELECT sku FROM ({SELECT_SUBJECT}) AS subject",
    "PassportVersion": f"SELECT sku FROM ({SELECT_SUBJECT_OF_VERSION}) AS subject",
}
INSERT_PASSPORT: Final[LiteralString] = """
    INSERT INTO passports (tenant_id, passport_id, battery_product_id, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT ON CONSTRAINT passports_product_key DO NOTHING
    RETURNING true
"""
SELECT_PASSPORT_OF_PRODUCT: Final[LiteralString] = """
    SELECT passport_id FROM passports WHERE tenant_id = $1 AND battery_product_id = $2
"""
# The product of each passport is looked up: for a plain join, the planner may read all products.
SELECT_PASSPORTS: Final[LiteralString] = """
    SELECT p.passport_id, p.battery_product_id, b.sku, b.name AS product_name, p.current_passport_version_id,
           p.created_at
      FROM passports p
     CROSS JOIN LATERAL (
       SELECT battery_product_id, sku, name FROM battery_products
        WHERE tenant_id = p.tenant_id AND battery_product_id = p.battery_product_id LIMIT 1) AS b
"""
SELECT_PASSPORT: Final[LiteralString] = f"{SELECT_PASSPORTS} WHERE p.tenant_id = $1 AND p.passport_id = $2"
# Not FOR UPDATE: a compile inserts a row that refers to the passport, and need not wait.
SELECT_PASSPORT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_PASSPORT} FOR NO KEY UPDATE OF p"
UPDATE_CURRENT_VERSION: Final[LiteralString] = """
    UPDATE passports SET current_passport_version_id = $3 WHERE tenant_id = $1 AND passport_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportSubject:
    """A passport with its product. None of it ever changes."""

    passport_id: PassportId
    battery_product_id: BatteryProductId
    sku: str

    def to_event_payload(self) -> dict[str, object]:
        return {
            "passport_id": str(self.passport_id),
            "battery_product_id": str(self.battery_product_id),
            "sku": self.sku,
        }


async def load_subject(conn: Connection, tenant: TenantId, passport: PassportId) -> PassportSubject:
    """What a passport is about."""
    return await fetch_one(conn, PassportSubject, SELECT_SUBJECT, tenant, passport, kind="passport")


async def load_subject_of_version(conn: Connection, tenant: TenantId, version: PassportVersionId) -> PassportSubject:
    """What a passport version is about."""
    return await fetch_one(conn, PassportSubject, SELECT_SUBJECT_OF_VERSION, tenant, version, kind="passport version")


async def find_sku(conn: Connection, tenant: TenantId, resource_type: str, resource_id: UUID) -> str | None:
    """The SKU of a product, a passport or a passport version; None for every other type."""
    statement = SELECT_SKU_BY_TYPE.get(resource_type)
    sku: str | None = None if statement is None else await conn.fetchval(statement, tenant, resource_id)
    return sku


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportRow:
    """The passport of a product; `current_passport_version_id` is its ACTIVE version, if it has one."""

    passport_id: PassportId
    battery_product_id: BatteryProductId
    sku: str
    product_name: str
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
    product_row = await get_product(conn, tenant, product)
    passport = PassportId(clock.new_id())
    if not await conn.fetchval(INSERT_PASSPORT, tenant, passport, product, act.at):
        raise PassportExists(await conn.fetchval(SELECT_PASSPORT_OF_PRODUCT, tenant, product))
    payload = {"battery_product_id": str(product)}
    await events.append_act(conn, act, tenant, "Passport", passport, "PASSPORT_CREATED", payload)
    return PassportRow(
        passport_id=passport,
        battery_product_id=product,
        sku=product_row.sku,
        product_name=product_row.name,
        current_passport_version_id=None,
        created_at=act.at,
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


async def list_passports(
    conn: Connection, tenant: TenantId, filters: ProductFilter, page: PageQuery
) -> Sequence[PassportRow]:
    """Passports, newest first. The status is ACTIVE of one that has a current version, else NONE."""
    conditions = ListConditions()
    candidates: LiteralString = "p.battery_product_id = ANY({}::uuid[])"
    await add_product_conditions(conn, tenant, conditions, filters, candidates=candidates)
    if filters.status is not None:
        is_active = filters.status == "ACTIVE"
        conditions.add_plain(f"p.current_passport_version_id IS {'NOT NULL' if is_active else 'NULL'}")
    conditions.add_times("p.created_at", filters.created_after, filters.created_before)
    statement = make_page_query(SELECT_PASSPORTS, time="p.created_at", key="p.passport_id", where=conditions.where)
    return await fetch_rows(conn, PassportRow, statement, tenant, *page, *conditions.values)


async def set_current_version(
    conn: Connection, tenant: TenantId, passport: PassportId, version: PassportVersionId | None
) -> None:
    await conn.execute(UPDATE_CURRENT_VERSION, tenant, passport, version)
