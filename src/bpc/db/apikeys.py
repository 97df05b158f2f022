"""API keys: made, found by prefix before the tenant is known, rotated, revoked. The key itself is never stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import asyncpg

from bpc import fresh
from bpc.core.apikeys import ENTROPY_BYTES, ApiKey
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, ApiKeyId, TenantId
from bpc.core.peppers import pepper_id
from bpc.core.timestamps import format_time
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

RESERVE_PREFIX: Final[LiteralString] = "INSERT INTO api_key_prefixes (key_prefix, tenant_id) VALUES ($1, $2)"
INSERT: Final[LiteralString] = """
    INSERT INTO api_keys
           (tenant_id, api_key_id, actor_id, key_prefix, key_hash, pepper_id, label, expires_at, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
REVOKE: Final[LiteralString] = """
    UPDATE api_keys SET revoked_at = $3
     WHERE tenant_id = $1 AND key_prefix = $2 AND revoked_at IS NULL
    RETURNING api_key_id
"""
REVOKE_ID: Final[LiteralString] = """
    UPDATE api_keys SET revoked_at = $3
     WHERE tenant_id = $1 AND api_key_id = $2 AND revoked_at IS NULL
    RETURNING key_prefix
"""
EXPIRE: Final[LiteralString] = """
    UPDATE api_keys SET expires_at = least(expires_at, $3) WHERE tenant_id = $1 AND api_key_id = $2
    RETURNING expires_at
"""
LOCK: Final[LiteralString] = "SELECT FROM api_keys WHERE tenant_id = $1 AND api_key_id = $2 FOR NO KEY UPDATE"
LISTED: Final[LiteralString] = """
    SELECT k.api_key_id, k.key_prefix, k.label, k.actor_id, a.display_name, k.created_at, k.expires_at, k.revoked_at,
           k.last_used_at, k.pepper_id,
           array(SELECT r.name FROM actor_roles ar
                   JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                  WHERE ar.tenant_id = k.tenant_id AND ar.actor_id = k.actor_id ORDER BY r.name) AS roles
      FROM api_keys k
      JOIN actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
"""
ALL: Final[LiteralString] = f"{LISTED} WHERE k.tenant_id = $1 ORDER BY k.created_at, k.api_key_id"
ONE: Final[LiteralString] = f"{LISTED} WHERE k.tenant_id = $1 AND k.api_key_id = $2"
PAGE: Final[LiteralString] = f"""{LISTED}
     WHERE k.tenant_id = $1 AND (k.created_at, k.api_key_id) < ($2, $3)
     ORDER BY k.created_at DESC, k.api_key_id DESC
     LIMIT $4
"""
FIND: Final[LiteralString] = """
    SELECT tenant_id, api_key_id, actor_id, key_hash, expires_at, revoked_at, last_used_at, is_active
      FROM find_api_key($1)
"""
BY_PEPPER: Final[LiteralString] = "SELECT slug, pepper_id, keys FROM api_keys_by_pepper()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new key. This is the only time its text exists outside its owner's hands."""

    api_key: ApiKey
    api_key_id: ApiKeyId
    actor_id: ActorId
    label: str | None
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a key when a request shows its prefix."""

    tenant_id: TenantId
    api_key_id: ApiKeyId
    actor_id: ActorId
    key_hash: bytes
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A key as it is listed: everything but what would open a door."""

    api_key_id: ApiKeyId
    key_prefix: str
    label: str | None
    actor_id: ActorId
    display_name: str
    roles: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    pepper_id: str | None  # None where an earlier build made it and nobody has used it since


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """How many valid keys of a tenant hang on which pepper."""

    slug: str
    pepper_id: str | None
    keys: int


class KeyUnknown(NotFound):
    """No key of the tenant that is still valid has this prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"there is no valid key with the prefix `{prefix}`", fix="`bpc apikey list` shows them")


class KeyIdUnknown(NotFound):
    """The tenant has no key with this id."""

    def __init__(self, key: ApiKeyId) -> None:
        super().__init__(f"there is no API key `{key}`", fix="GET /v1/api-keys lists those there are")


class KeyEnded(Conflict):
    """What was revoked or has expired does not come back."""

    def __init__(self, *, how: str) -> None:
        super().__init__(f"this API key {how} already", fix="make a new one for its actor")


class TimeOver(Invalid):
    """A key that would have ended before it began."""

    def __init__(self, name: str) -> None:
        super().__init__(f"`{name}` is not in the future")


async def create(
    conn: Connection,
    tenant: TenantId,
    actor: ActorId,
    *,
    pepper: bytes,
    act: Act,
    label: str | None = None,
    expires_at: datetime | None = None,
) -> Issued:
    """A new key for `actor`, on record without its secret."""
    key, key_id = ApiKey.generate(fresh.entropy(ENTROPY_BYTES)), ApiKeyId(fresh.new_id())
    await conn.execute(RESERVE_PREFIX, key.prefix, tenant)
    hashed = key.hash(pepper), pepper_id(pepper)
    await conn.execute(INSERT, tenant, key_id, actor, key.prefix, *hashed, label, expires_at, act.at)
    said = act.says("API_KEY_CREATED", {"actor_id": str(actor), "key_prefix": key.prefix, "label": label})
    await events.append(conn, Stream(tenant, "ApiKey", AggregateId(key_id)), said)
    return Issued(api_key=key, api_key_id=key_id, actor_id=actor, label=label, created_at=act.at, expires_at=expires_at)


async def rotate(
    conn: Connection,
    tenant: TenantId,
    key: ApiKeyId,
    *,
    pepper: bytes,
    act: Act,
    expires_at: datetime | None = None,
    old_expires_at: datetime | None = None,
) -> Issued:
    """A second key for the actor of `key`; both are valid until the old one ends, at the latest at `old_expires_at`."""
    await conn.execute(LOCK, tenant, key)
    old = await get(conn, tenant, key)
    if old.revoked_at is not None:
        raise KeyEnded(how="was revoked")
    if old.expires_at is not None and old.expires_at <= act.at:
        raise KeyEnded(how="has expired")
    issued = await create(conn, tenant, old.actor_id, pepper=pepper, act=act, label=old.label, expires_at=expires_at)
    ends = old.expires_at if old_expires_at is None else await conn.fetchval(EXPIRE, tenant, key, old_expires_at)
    said = act.says(
        "API_KEY_CHANGED",
        {"rotated_to": str(issued.api_key_id), "expires_at": None if ends is None else format_time(ends)},
    )
    await events.append(conn, Stream(tenant, "ApiKey", AggregateId(key)), said)
    return issued


async def revoke_id(conn: Connection, tenant: TenantId, key: ApiKeyId, *, act: Act) -> Listed:
    """End a key for good, found by its id."""
    prefix = await conn.fetchval(REVOKE_ID, tenant, key, act.at)
    if prefix is None:
        await get(conn, tenant, key)
        raise KeyEnded(how="was revoked")
    said = act.says("API_KEY_REVOKED", {"key_prefix": prefix})
    await events.append(conn, Stream(tenant, "ApiKey", AggregateId(key)), said)
    return await get(conn, tenant, key)


async def revoke(conn: Connection, tenant: TenantId, prefix: str, *, act: Act) -> ApiKeyId:
    """End a key for good."""
    found = await conn.fetchval(REVOKE, tenant, prefix, act.at)
    if found is None:
        raise KeyUnknown(prefix)
    said = act.says("API_KEY_REVOKED", {"key_prefix": prefix})
    await events.append(conn, Stream(tenant, "ApiKey", AggregateId(found)), said)
    return ApiKeyId(found)


async def every(conn: Connection, tenant: TenantId) -> list[Listed]:
    """All keys of a tenant, oldest first."""
    return [_listed(row) for row in await conn.fetch(ALL, tenant)]


async def get(conn: Connection, tenant: TenantId, key: ApiKeyId) -> Listed:
    row = await conn.fetchrow(ONE, tenant, key)
    if row is None:
        raise KeyIdUnknown(key)
    return _listed(row)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Listed]:
    """Keys, newest first."""
    return [_listed(row) for row in await conn.fetch(PAGE, tenant, *ask)]


async def by_pepper(conn: Connection) -> list[Hanging]:
    """The valid keys of all tenants, counted; as the system."""
    return [Hanging(**row) for row in await conn.fetch(BY_PEPPER)]


async def find(conn: Connection, prefix: str) -> Known | None:
    """The key with this prefix, in whatever tenant: the one question asked before a tenant is known."""
    row = await conn.fetchrow(FIND, prefix)
    if row is None:
        return None
    return Known(
        tenant_id=TenantId(row["tenant_id"]),
        api_key_id=ApiKeyId(row["api_key_id"]),
        actor_id=ActorId(row["actor_id"]),
        key_hash=row["key_hash"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        is_active=row["is_active"],
    )


def _listed(row: asyncpg.Record) -> Listed:
    return Listed(
        api_key_id=ApiKeyId(row["api_key_id"]),
        key_prefix=row["key_prefix"],
        label=row["label"],
        actor_id=ActorId(row["actor_id"]),
        display_name=row["display_name"],
        roles=tuple(row["roles"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        pepper_id=row["pepper_id"],
    )
