"""The branding of a tenant's public pages: its name, its palette, and the logo that we drew.

Of the logo, events have the hash.
"""

from typing import Final, LiteralString, NamedTuple

from bpc.core.audit.events import Act
from bpc.core.branding import Branding, Palette
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import TenantId
from bpc.core.view_grants import BundleReaders
from bpc.storage.access.tenant_settings import LOCK_SETTINGS
from bpc.storage.audit import events
from bpc.storage.connection import Connection

SELECT_BRANDING: Final[LiteralString] = """
    SELECT brand_name, brand_palette, encode(sha256(brand_logo), 'hex') AS logo_sha256, bundles_for
      FROM tenant_settings WHERE tenant_id = $1
"""
SELECT_LOGO: Final[LiteralString] = "SELECT brand_logo FROM tenant_settings WHERE tenant_id = $1"
UPSERT_BRANDING: Final[LiteralString] = """
    INSERT INTO tenant_settings (tenant_id, brand_name, brand_palette, brand_logo, changed_at, changed_by)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (tenant_id) DO UPDATE
       SET brand_name = EXCLUDED.brand_name, brand_palette = EXCLUDED.brand_palette, brand_logo = EXCLUDED.brand_logo,
           changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by
"""


class PageSettings(NamedTuple):
    """What a tenant decided about its public pages."""

    branding: Branding
    bundles_for: BundleReaders


async def load_page_settings(conn: Connection, tenant: TenantId) -> PageSettings:
    row = await conn.fetchrow(SELECT_BRANDING, tenant)
    if row is None:
        return PageSettings(Branding(), "NOBODY")
    branding = Branding(name=row["brand_name"], palette=row["brand_palette"], logo_sha256=row["logo_sha256"])
    return PageSettings(branding, row["bundles_for"])


async def load_logo(conn: Connection, tenant: TenantId) -> bytes | None:
    """The PNG that pages show."""
    logo: bytes | None = await conn.fetchval(SELECT_LOGO, tenant)
    return logo


async def change_branding(
    conn: Connection, tenant: TenantId, *, name: str | None, palette: Palette, logo: bytes | None, act: Act
) -> Branding:
    """Replace the branding, and append an event with what differs. Without a difference, nothing happens."""
    await conn.execute(LOCK_SETTINGS, str(tenant))
    before = (await load_page_settings(conn, tenant)).branding
    after = Branding(name=name, palette=palette, logo_sha256=None if logo is None else to_hex(sha256(logo)))
    pairs = {
        "brand_name": (before.name, after.name),
        "brand_palette": (before.palette, after.palette),
        "brand_logo_sha256": (before.logo_sha256, after.logo_sha256),
    }
    differences = {member: {"from": old, "to": new} for member, (old, new) in pairs.items() if old != new}
    if differences:
        await conn.execute(UPSERT_BRANDING, tenant, name, palette, logo, act.at, act.actor_id)
        await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_SETTINGS_CHANGED", differences)
    return after
