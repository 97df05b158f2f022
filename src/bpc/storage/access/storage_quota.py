"""How many bytes a tenant stores, and how many it may.

Counted are documents, exports, artifacts of passport versions, packs of batteries and rules: what a tenant can make
large. PostgreSQL knows the length of a value without reading it. Nothing that is stored becomes unreadable when a quota
is lowered; only what would add to it is refused. Compiling, signing, revoking and audit events are never refused for
it.
"""

from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Refusal
from bpc.core.formats.ids import TenantId
from bpc.storage.audit import events
from bpc.storage.connection import Connection

SELECT_USE: Final[LiteralString] = """
    SELECT (SELECT coalesce(sum(octet_length(content)), 0) FROM document_versions WHERE tenant_id = $1)::bigint
             AS documents,
           (SELECT coalesce(sum(octet_length(content)), 0) FROM passport_exports WHERE tenant_id = $1)::bigint
             AS exports,
           (SELECT coalesce(sum(octet_length(payload_canonical) + octet_length(proof_canonical)
                                + octet_length(receipt_canonical) + coalesce(octet_length(qr_png), 0)), 0)
              FROM passport_versions WHERE tenant_id = $1)::bigint AS passport_versions,
           (SELECT coalesce(sum(octet_length(dsl_source) + octet_length(tests_source)), 0)
              FROM rule_package_versions WHERE tenant_id = $1)::bigint AS rules,
           ((SELECT coalesce(sum(pack_bytes), 0) FROM item_chunks WHERE tenant_id = $1)
            + (SELECT coalesce(sum(octet_length(content)), 0) FROM batch_passport_versions
                WHERE tenant_id = $1))::bigint AS battery_passports
"""
SELECT_QUOTA: Final[LiteralString] = "SELECT storage_quota_bytes FROM tenants WHERE tenant_id = $1"
UPDATE_QUOTA: Final[LiteralString] = "UPDATE tenants SET storage_quota_bytes = $2 WHERE tenant_id = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """The bytes that a tenant stores, by what they are of."""

    documents: int
    exports: int
    passport_versions: int
    rules: int
    battery_passports: int

    @property
    def total(self) -> int:
        return self.documents + self.exports + self.passport_versions + self.rules + self.battery_passports


class StorageQuotaExceeded(Refusal):
    """The tenant would store more than its quota."""

    code = "STORAGE_QUOTA_EXCEEDED"

    def __init__(self, used: int, added: int, quota: int) -> None:
        super().__init__(
            f"this would add {added:,} bytes to the {used:,} that the tenant stores, and its quota is {quota:,}",
            fix="ask the operator for a larger quota, or wait until old exports and documents are removed",
            details={"used_bytes": used, "added_bytes": added, "quota_bytes": quota},
        )


async def measure_use(conn: Connection, tenant: TenantId) -> StorageUse:
    """Measure what the tenant stores."""
    row = await conn.fetchrow(SELECT_USE, tenant)
    if row is None:
        raise RuntimeError("a query of sums returned no row")
    return StorageUse(**row)


async def load_quota(conn: Connection, tenant: TenantId, *, default: int) -> int:
    """The quota in force, in bytes; 0 is no limit."""
    quota: int | None = await conn.fetchval(SELECT_QUOTA, tenant)
    return default if quota is None else quota


async def require_room(conn: Connection, tenant: TenantId, added: int, *, default: int) -> None:
    """Raise `StorageQuotaExceeded` unless `added` more bytes may be stored. Without a quota, nothing is measured."""
    quota = await load_quota(conn, tenant, default=default)
    if not quota:
        return
    use = await measure_use(conn, tenant)
    if use.total + added > quota:
        raise StorageQuotaExceeded(use.total, added, quota)


async def change_quota(conn: Connection, tenant: TenantId, quota: int | None, *, act: Act) -> None:
    """Set the quota, or take the default again (None), with an event if it changes. Needs the system role."""
    before: int | None = await conn.fetchval(f"{SELECT_QUOTA} FOR UPDATE", tenant)
    if before != quota:
        await conn.execute(UPDATE_QUOTA, tenant, quota)
        payload = {"storage_quota_bytes": {"from": before, "to": quota}}
        await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_QUOTA_CHANGED", payload)
