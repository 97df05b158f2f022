"""Passports: one for each product. Which of its versions is the current one changes only under the passport's lock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc import fresh
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, BatteryProductId, PassportId, PassportVersionId, TenantId
from bpc.db import events, products
from bpc.db.connection import Connection
from bpc.db.pages import Ask

INSERT: Final[LiteralString] = """
    INSERT INTO passports (tenant_id, passport_id, battery_product_id, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT ON CONSTRAINT passports_product_key DO NOTHING
    RETURNING true
"""
OF_PRODUCT: Final[LiteralString] = """
    SELECT passport_id FROM passports WHERE tenant_id = $1 AND battery_product_id = $2
"""
ONE: Final[LiteralString] = """
    SELECT passport_id, battery_product_id, current_passport_version_id, created_at FROM passports
     WHERE tenant_id = $1 AND passport_id = $2
"""
PAGE: Final[LiteralString] = """
    SELECT passport_id, battery_product_id, current_passport_version_id, created_at FROM passports
     WHERE tenant_id = $1 AND (created_at, passport_id) < ($2, $3)
     ORDER BY created_at DESC, passport_id DESC
     LIMIT $4
"""
# Not FOR UPDATE: compiling refers to the passport and need not wait.
LOCKED: Final[LiteralString] = f"{ONE} FOR NO KEY UPDATE"
SET_CURRENT: Final[LiteralString] = """
    UPDATE passports SET current_passport_version_id = $3 WHERE tenant_id = $1 AND passport_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passport:
    """The passport of a product; `current_passport_version_id` is the version that is ACTIVE, if one is."""

    passport_id: PassportId
    battery_product_id: BatteryProductId
    current_passport_version_id: PassportVersionId | None
    created_at: datetime


class PassportUnknown(NotFound):
    def __init__(self, passport: PassportId) -> None:
        super().__init__(f"there is no passport `{passport}`", fix="GET /v1/passports lists those there are")


class HasPassport(Conflict):
    """A product has one passport."""

    def __init__(self, passport: UUID) -> None:
        super().__init__(
            "this product has a passport already",
            fix="use the passport that is there",
            details={"passport_id": str(passport)},
        )
        self.passport = passport


async def create(conn: Connection, tenant: TenantId, product: BatteryProductId, *, act: Act) -> Passport:
    """A new passport without versions, on record."""
    await products.get(conn, tenant, product)
    passport = PassportId(fresh.new_id())
    if not await conn.fetchval(INSERT, tenant, passport, product, act.at):
        raise HasPassport(await conn.fetchval(OF_PRODUCT, tenant, product))
    said = act.says("PASSPORT_CREATED", {"battery_product_id": str(product)})
    await events.append(conn, Stream(tenant, "Passport", AggregateId(passport)), said)
    return Passport(
        passport_id=passport, battery_product_id=product, current_passport_version_id=None, created_at=act.at
    )


async def create_or_find(conn: Connection, tenant: TenantId, product: BatteryProductId, *, act: Act) -> PassportId:
    """The passport of a product; a new one, on record, where it has none."""
    try:
        return (await create(conn, tenant, product, act=act)).passport_id
    except HasPassport as there:
        return PassportId(there.passport)


async def get(conn: Connection, tenant: TenantId, passport: PassportId) -> Passport:
    return await _one(conn, ONE, tenant, passport)


async def locked(conn: Connection, tenant: TenantId, passport: PassportId) -> Passport:
    """The passport, whose current version nobody else changes until we are done."""
    return await _one(conn, LOCKED, tenant, passport)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Passport]:
    """Passports, newest first."""
    return [Passport(**dict(row)) for row in await conn.fetch(PAGE, tenant, *ask)]


async def set_current(
    conn: Connection, tenant: TenantId, passport: PassportId, version: PassportVersionId | None
) -> None:
    await conn.execute(SET_CURRENT, tenant, passport, version)


async def _one(conn: Connection, statement: LiteralString, tenant: TenantId, passport: PassportId) -> Passport:
    row = await conn.fetchrow(statement, tenant, passport)
    if row is None:
        raise PassportUnknown(passport)
    return Passport(**dict(row))
