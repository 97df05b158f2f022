"""What anybody may ask of a passport or a code on a battery, without a tenant and without a key.

A version is public once it has been activated. It stays public when it is superseded or revoked: a page says so.

    passport id ─► find_passport_owner, list_public_versions
    GTIN, lot, serial number, or the id of a battery ─► find_coded_item, find_battery ─► PublicItem, or None

A code may name less than there is: a serial number that nobody registered still has its model, unless the product has
single batteries. Of those an unknown number is an error, because a page of the model would vouch for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.ids import BatteryId, PassportId, PassportVersionId, TenantId
from bpc.core.identifiers.addresses import Granularity
from bpc.core.identifiers.gs1 import Gs1Item
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.passports.passport_versions import PassportVersionStatus

FIND_PASSPORT: Final[LiteralString] = "SELECT tenant_id, issuer FROM find_public_passport($1)"
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT passport_version_id, status::text, activated_at, superseded_at, revoked_at
      FROM passport_versions
     WHERE tenant_id = $1 AND passport_id = $2 AND activated_at IS NOT NULL AND qr_png IS NOT NULL
     ORDER BY activated_at DESC, passport_version_id DESC
     LIMIT 200
"""

FIND_ITEM: Final[LiteralString] = """
    SELECT tenant_id, granularity, gtin, passport_id, battery_id, serial_number, batch_number, ceased_at, successor
      FROM find_public_item($1, $2, $3, $4, $5)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportOwner:
    """Whose passport it is."""

    tenant_id: TenantId
    issuer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicVersionRow:
    """A version that was in force at some time."""

    passport_version_id: PassportVersionId
    status: PassportVersionStatus
    activated_at: datetime
    superseded_at: datetime | None
    revoked_at: datetime | None

    @property
    def changed_at(self) -> datetime:
        """Since when it has its status."""
        return self.revoked_at or self.superseded_at or self.activated_at

    def was_in_force_at(self, moment: datetime) -> bool:
        """Whether it was in force at a time."""
        ends = [end for end in (self.superseded_at, self.revoked_at) if end is not None]
        return self.activated_at <= moment and all(moment < end for end in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicItem:
    """What a code names: a model, and one of its batches or batteries where that is known.

    `passport_id` is the passport of the model, which need not be public.
    """

    tenant_id: TenantId
    granularity: Granularity
    gtin: str | None
    passport_id: PassportId | None
    battery_id: BatteryId | None
    serial_number: str | None
    batch_number: str | None
    ceased_at: datetime | None
    successor: str | None

    @property
    def has_ended(self) -> bool:
        """Whether the battery was recycled, or lives on under another address."""
        return self.ceased_at is not None or self.successor is not None


async def find_passport_owner(conn: Connection, passport: PassportId) -> PassportOwner | None:
    """Whose passport it is; None if there is no such passport."""
    rows = await fetch_rows(conn, PassportOwner, FIND_PASSPORT, passport)
    return rows[0] if rows else None


async def list_public_versions(conn: Connection, tenant: TenantId, passport: PassportId) -> Sequence[PublicVersionRow]:
    """The versions of a passport that were in force, the newest first."""
    return await fetch_rows(conn, PublicVersionRow, SELECT_VERSIONS, tenant, passport)


async def find_battery(conn: Connection, battery: UUID, tenant: TenantId | None) -> PublicItem | None:
    """The battery with an id; with a `tenant`, only of that tenant."""
    row = await conn.fetchrow(FIND_ITEM, battery, None, None, None, tenant)
    return None if row is None else PublicItem(**row)


async def find_coded_item(conn: Connection, code: Gs1Item, tenant: TenantId | None) -> PublicItem | None:
    """What a code of GS1 names, at the lowest level that is known; None if nothing is to be shown of it."""
    row = await conn.fetchrow(FIND_ITEM, None, code.gtin, code.lot, code.serial, tenant)
    item = None if row is None else PublicItem(**row)
    return item if item is not None and _is_known(item, code) else None


def _is_known(item: PublicItem, code: Gs1Item) -> bool:
    if code.serial is not None and item.battery_id is not None:
        return code.lot in {None, item.batch_number}
    if code.serial is not None and item.granularity == "ITEM":
        return False
    return code.lot in {None, item.batch_number} or item.granularity == "MODEL"
