"""Signing keys of tenants: each signs for its tenant alone. The table is the one of bpc.storage.audit.signing_keys.

Needs the system role, bound to the tenant. Each change appends an event of the tenant, which the log shows.

    create_tenant_key ─► ACTIVE ─► retire_tenant_key ─► RETIRED ─┐
                           └──────────────────────────────────────┴─► report_compromise ─► COMPROMISED since T
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.audit.signing import PublicKey, to_base64
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT, TenantRow, list_tenants
from bpc.storage.audit.signing_keys import (
    KEY_COLUMNS,
    SELECT_OTHER_NAME,
    SigningKeyHasOtherName,
    SigningKeyRow,
    iterate_listeners,
    name_chain,
)
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.database import Database, bind_tenant
from bpc.storage.passports import status_rows
from bpc.storage.webhooks.webhook_fanout import append_and_announce

INSERT_TENANT_KEY: Final[LiteralString] = """
    INSERT INTO signing_keys (key_id, public_key, owner_tenant_id, valid_from, valid_until)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key_id) DO NOTHING RETURNING true
"""
LOCK_KEY: Final[LiteralString] = f"""
    SELECT {KEY_COLUMNS} FROM signing_keys k LEFT JOIN tenants t ON t.tenant_id = k.owner_tenant_id
     WHERE k.key_id = $1 AND k.owner_tenant_id IS NOT DISTINCT FROM $2 FOR UPDATE OF k
"""
SELECT_TENANT_KEYS: Final[LiteralString] = f"""
    SELECT {KEY_COLUMNS} FROM signing_keys k JOIN tenants t ON t.tenant_id = k.owner_tenant_id
     WHERE t.slug = $1 ORDER BY k.created_at DESC, k.key_id
"""
RETIRE_TENANT_KEY: Final[LiteralString] = """
    UPDATE signing_keys SET status = 'RETIRED', retired_at = $2 WHERE key_id = $1
"""
SET_COMPROMISED: Final[LiteralString] = """
    UPDATE signing_keys SET status = 'COMPROMISED', retired_at = NULL, compromised_since = $2 WHERE key_id = $1
"""
# The newest key that signs now; else the newest of all, so that a tenant with keys never falls back to another.
SELECT_KEY_TO_USE: Final[LiteralString] = """
    SELECT key_id FROM signing_keys WHERE owner_tenant_id = $1
     ORDER BY status = 'ACTIVE' AND coalesce(valid_from <= now(), true) AND coalesce(now() < valid_until, true) DESC,
              created_at DESC, key_id
     LIMIT 1
"""


async def choose_key(conn: Connection, tenant: TenantId, *, installation_key: str) -> str:
    """The key that signs for a tenant: its own newest one, or the installation's while it has none."""
    key_id: str | None = await conn.fetchval(SELECT_KEY_TO_USE, tenant)
    return installation_key if key_id is None else key_id


async def list_tenant_keys(conn: Connection, slug: str) -> Sequence[SigningKeyRow]:
    """The keys of one tenant, newest first; nothing if there is no such tenant."""
    return await fetch_rows(conn, SigningKeyRow, SELECT_TENANT_KEYS, slug)


async def create_tenant_key(
    conn: Connection,
    tenant: TenantRow,
    key_id: str,
    key: PublicKey,
    *,
    act: Act,
    valid_until: datetime | None = None,
) -> SigningKeyRow:
    """Register a key of a tenant, which signs from now on, and append an event."""
    if valid_until is not None and valid_until <= act.at:
        raise Invalid("`valid_until` is not in the future", fix="choose a later time, or leave it out")
    if (name := await conn.fetchval(SELECT_OTHER_NAME, key, key_id)) is not None:
        raise SigningKeyHasOtherName(key_id, name)
    if not await conn.fetchval(INSERT_TENANT_KEY, key_id, key, tenant.tenant_id, act.at, valid_until):
        raise Conflict(f"`{key_id}` is already the name of a key", fix="choose another name for the new key")
    payload = {
        **_name_key(tenant, key_id),
        "public_key": to_base64(key),
        "valid_from": format_time(act.at),
        "valid_until": None if valid_until is None else format_time(valid_until),
    }
    chain = name_chain(key_id)
    await append_and_announce(conn, act, tenant.tenant_id, "SigningKey", chain, "TENANT_KEY_CREATED", payload)
    return await _lock_key(conn, tenant, key_id)


async def retire_tenant_key(conn: Connection, tenant: TenantRow, key_id: str, *, act: Act) -> SigningKeyRow:
    """Retire a key of a tenant, and append an event: it signs nothing more, and its signatures stay valid."""
    key = await _lock_key(conn, tenant, key_id)
    if key.status != "ACTIVE":
        raise Conflict(f"the signing key `{key_id}` is already {key.status.lower()}", fix="nothing to do")
    await conn.execute(RETIRE_TENANT_KEY, key_id, act.at)
    payload = {**_name_key(tenant, key_id), "status": "RETIRED"}
    chain = name_chain(key_id)
    await append_and_announce(conn, act, tenant.tenant_id, "SigningKey", chain, "TENANT_KEY_RETIRED", payload)
    return await _lock_key(conn, tenant, key_id)


async def report_compromise(
    conn: Connection, tenant: TenantRow, key_id: str, *, since: datetime, reason: str, act: Act
) -> SigningKeyRow:
    """Say that others have had a key of a tenant since a time, and append an event. It is never taken back."""
    _require_compromise(await _lock_key(conn, tenant, key_id), since, act)
    await conn.execute(SET_COMPROMISED, key_id, since)
    payload = {**_name_key(tenant, key_id), **_describe_compromise(since, reason)}
    chain = name_chain(key_id)
    await append_and_announce(conn, act, tenant.tenant_id, "SigningKey", chain, "TENANT_KEY_COMPROMISED", payload)
    await status_rows.set_all_due(conn, tenant.tenant_id)
    return await _lock_key(conn, tenant, key_id)


async def report_installation_compromise(
    database: Database, key_id: str, *, since: datetime, reason: str, act: Act
) -> None:
    """The same for a key of the installation: an event of the tenant `system`, and of tenants that webhooks tell."""
    async with database.system(SYSTEM_TENANT) as conn:
        _require_compromise(await _lock_key(conn, None, key_id), since, act)
        await conn.execute(SET_COMPROMISED, key_id, since)
        payload, chain = {"key_id": key_id, **_describe_compromise(since, reason)}, name_chain(key_id)
        async for tenant in iterate_listeners(conn, "signing_key.changed"):
            await append_and_announce(conn, act, tenant, "SigningKey", chain, "SIGNING_KEY_COMPROMISED", payload)
        for each in await list_tenants(conn):  # it may have signed the status lists of each of them
            await bind_tenant(conn, each.tenant_id)
            await status_rows.set_all_due(conn, each.tenant_id)


def _require_compromise(key: SigningKeyRow, since: datetime, act: Act) -> None:
    if since > act.at:
        raise Invalid("`since` is in the future", fix="give the earliest time at which others may have had the key")
    if key.compromised_since is not None and since >= key.compromised_since:
        raise Conflict(
            f"the signing key `{key.key_id}` is reported as compromised since {format_time(key.compromised_since)}",
            fix="nothing to do, unless others had it before that: then give the earlier time",
        )


def _describe_compromise(since: datetime, reason: str) -> dict[str, str]:
    return {"status": "COMPROMISED", "compromised_since": format_time(since), "reason": reason}


def _name_key(tenant: TenantRow, key_id: str) -> dict[str, str]:
    return {"key_id": key_id, "tenant": tenant.slug, "tenant_id": str(tenant.tenant_id)}


async def _lock_key(conn: Connection, tenant: TenantRow | None, key_id: str) -> SigningKeyRow:
    rows = await fetch_rows(conn, SigningKeyRow, LOCK_KEY, key_id, None if tenant is None else tenant.tenant_id)
    if not rows:
        raise UnknownResource("signing key", key_id)
    return rows[0]
