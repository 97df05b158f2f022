"""What a tenant decides for itself: what blocks an activation, how well rules must be tested, who may have bundles.

A tenant that never changed anything has no row, and the defaults. A change is an event in the chain of the tenant.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.passport.gate import ActivationBlocker
from bpc.core.view_grants import BundleReaders
from bpc.storage.audit import events
from bpc.storage.connection import Connection, fetch_rows

SELECT_SETTINGS: Final[LiteralString] = """
    SELECT activation_blocked_by, minimum_branch_coverage_pct, bundles_for, request_words_days
      FROM tenant_settings WHERE tenant_id = $1
"""
# Waits for another change of the same tenant, also if neither has a row to lock yet.
LOCK_SETTINGS: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('settings/' || $1::text, 0))"
UPSERT_SETTINGS: Final[LiteralString] = """
    INSERT INTO tenant_settings (tenant_id, activation_blocked_by, minimum_branch_coverage_pct, bundles_for,
                                 request_words_days, changed_at, changed_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant_id) DO UPDATE
       SET activation_blocked_by = EXCLUDED.activation_blocked_by,
           minimum_branch_coverage_pct = EXCLUDED.minimum_branch_coverage_pct,
           bundles_for = EXCLUDED.bundles_for, request_words_days = EXCLUDED.request_words_days,
           changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettingsRow:
    """The settings in force. The values here are the defaults."""

    activation_blocked_by: ActivationBlocker = "FAIL"
    minimum_branch_coverage_pct: int = 80
    bundles_for: BundleReaders = "NOBODY"
    request_words_days: int = 365


async def load_settings(conn: Connection, tenant: TenantId) -> TenantSettingsRow:
    rows = await fetch_rows(conn, TenantSettingsRow, SELECT_SETTINGS, tenant)
    return rows[0] if rows else TenantSettingsRow()


async def change_settings(
    conn: Connection, tenant: TenantId, changes: Mapping[str, Any], *, act: Act
) -> TenantSettingsRow:
    """Change the members in `changes`, and append an event with what differs. Without a difference, nothing happens."""
    await conn.execute(LOCK_SETTINGS, str(tenant))
    before = await load_settings(conn, tenant)
    after = replace(before, **changes)
    values_before, values_after = asdict(before), asdict(after)
    differences = {
        name: {"from": values_before[name], "to": value}
        for name, value in values_after.items()
        if value != values_before[name]
    }
    if differences:
        await conn.execute(UPSERT_SETTINGS, tenant, *values_after.values(), act.at, act.actor_id)
        await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_SETTINGS_CHANGED", differences)
    return after
