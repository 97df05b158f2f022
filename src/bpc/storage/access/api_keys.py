"""API keys: create, rotate, revoke, list. The key itself is never stored, only its hash.

bpc.storage.access.api_requests finds the caller of a request by the prefix of its key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.api_keys import ENTROPY_BYTES, ApiKeySecret, compute_pepper_id
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import ActorId, ApiKeyId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.access.policies import ROLE_NAMES_OF_ACTOR
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.webhooks.webhook_fanout import append_and_announce

INSERT_PREFIX: Final[LiteralString] = "INSERT INTO api_key_prefixes (key_prefix, tenant_id) VALUES ($1, $2)"
INSERT_KEY: Final[LiteralString] = """
    INSERT INTO api_keys
           (tenant_id, api_key_id, actor_id, key_prefix, key_hash, pepper_id, label, expires_at, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
REVOKE_BY_PREFIX: Final[LiteralString] = """
    UPDATE api_keys SET revoked_at = $3
     WHERE tenant_id = $1 AND key_prefix = $2 AND revoked_at IS NULL
    RETURNING api_key_id
"""
REVOKE_BY_ID: Final[LiteralString] = """
    UPDATE api_keys SET revoked_at = $3
     WHERE tenant_id = $1 AND api_key_id = $2 AND revoked_at IS NULL
    RETURNING key_prefix
"""
UPDATE_EXPIRY: Final[LiteralString] = """
    UPDATE api_keys SET expires_at = least(expires_at, $3) WHERE tenant_id = $1 AND api_key_id = $2
    RETURNING expires_at
"""
LOCK_KEY: Final[LiteralString] = "SELECT FROM api_keys WHERE tenant_id = $1 AND api_key_id = $2 FOR NO KEY UPDATE"
SELECT_KEYS: Final[LiteralString] = f"""
    SELECT k.api_key_id, k.key_prefix, k.label, k.actor_id, a.display_name, k.created_at, k.expires_at, k.revoked_at,
           k.last_used_at, k.pepper_id, {ROLE_NAMES_OF_ACTOR} AS roles
      FROM api_keys k
      JOIN actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
"""
SELECT_ALL_KEYS: Final[LiteralString] = f"{SELECT_KEYS} WHERE k.tenant_id = $1 ORDER BY k.created_at, k.api_key_id"
SELECT_KEY: Final[LiteralString] = f"{SELECT_KEYS} WHERE k.tenant_id = $1 AND k.api_key_id = $2"
SELECT_KEY_PAGE: Final[LiteralString] = make_page_query(SELECT_KEYS, time="k.created_at", key="k.api_key_id")
COUNT_KEYS_BY_PEPPER: Final[LiteralString] = "SELECT slug, pepper_id, keys FROM api_keys_by_pepper()"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedApiKey:
    """A new key. This is the only time its text is shown."""

    api_key: ApiKeySecret
    api_key_id: ApiKeyId
    actor_id: ActorId
    label: str | None
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyRow:
    """A key in a list, without its hash."""

    api_key_id: ApiKeyId
    key_prefix: str
    label: str | None
    actor_id: ActorId
    display_name: str
    roles: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    pepper_id: str | None  # None if an earlier build created the key and nobody has used it since


@dataclass(frozen=True, slots=True, kw_only=True)
class PepperUsage:
    """How many valid keys of a tenant were hashed with a pepper."""

    slug: str
    pepper_id: str | None
    keys: int


class ApiKeyPrefixUnknown(NotFound):
    """No valid key of the tenant has this prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"there is no valid key with the prefix `{prefix}`", hint="list API key")


class ApiKeyEnded(Conflict):
    """A key that was revoked or has expired stays so."""

    def __init__(self, *, how: str) -> None:
        super().__init__(f"this API key {how}", fix="create a new key for the actor")


class TimeNotInFuture(Invalid):
    """A key would expire before it is created."""

    def __init__(self, name: str) -> None:
        super().__init__(f"`{name}` is not in the future")


async def create_key(
    conn: Connection,
    tenant: TenantId,
    actor: ActorId,
    *,
    pepper: bytes,
    act: Act,
    label: str | None = None,
    expires_at: datetime | None = None,
) -> IssuedApiKey:
    """Create a key for `actor`, and append an event without the secret."""
    key, key_id = ApiKeySecret.generate(clock.random_bytes(ENTROPY_BYTES)), ApiKeyId(clock.new_id())
    await conn.execute(INSERT_PREFIX, key.prefix, tenant)
    hash_and_pepper = key.hash(pepper), compute_pepper_id(pepper)
    await conn.execute(INSERT_KEY, tenant, key_id, actor, key.prefix, *hash_and_pepper, label, expires_at, act.at)
    payload = {
        "actor_id": str(actor),
        "key_prefix": key.prefix,
        "label": label,
        "expires_at": None if expires_at is None else format_time(expires_at),
        "key_hash_sha256": to_hex(sha256(hash_and_pepper[0])),
    }
    await append_and_announce(conn, act, tenant, "ApiKey", key_id, "API_KEY_CREATED", payload)
    return IssuedApiKey(
        api_key=key, api_key_id=key_id, actor_id=actor, label=label, created_at=act.at, expires_at=expires_at
    )


async def rotate_key(
    conn: Connection,
    tenant: TenantId,
    key: ApiKeyId,
    *,
    pepper: bytes,
    act: Act,
    expires_at: datetime | None = None,
    old_expires_at: datetime | None = None,
) -> IssuedApiKey:
    """Create a second key for the actor of `key`; the old one stays valid until it ends, or until `old_expires_at`."""
    await conn.execute(LOCK_KEY, tenant, key)
    old = await get_key(conn, tenant, key)
    if old.revoked_at is not None:
        raise ApiKeyEnded(how="was already revoked")
    if old.expires_at is not None and old.expires_at <= act.at:
        raise ApiKeyEnded(how="has already expired")
    new_key = await create_key(
        conn, tenant, old.actor_id, pepper=pepper, act=act, label=old.label, expires_at=expires_at
    )
    old_expiry = (
        old.expires_at if old_expires_at is None else await conn.fetchval(UPDATE_EXPIRY, tenant, key, old_expires_at)
    )
    payload = {
        "rotated_to": str(new_key.api_key_id),
        "expires_at": None if old_expiry is None else format_time(old_expiry),
    }
    await append_and_announce(conn, act, tenant, "ApiKey", key, "API_KEY_CHANGED", payload)
    return new_key


async def revoke_key_by_id(conn: Connection, tenant: TenantId, key: ApiKeyId, *, act: Act) -> ApiKeyRow:
    """Revoke a key, and append an event."""
    prefix = await conn.fetchval(REVOKE_BY_ID, tenant, key, act.at)
    if prefix is None:
        await get_key(conn, tenant, key)
        raise ApiKeyEnded(how="was already revoked")
    await _announce_revocation(conn, tenant, key, prefix, act)
    return await get_key(conn, tenant, key)


async def revoke_key_by_prefix(conn: Connection, tenant: TenantId, prefix: str, *, act: Act) -> ApiKeyId:
    """Revoke a key, and append an event."""
    key_id = await conn.fetchval(REVOKE_BY_PREFIX, tenant, prefix, act.at)
    if key_id is None:
        raise ApiKeyPrefixUnknown(prefix)
    await _announce_revocation(conn, tenant, key_id, prefix, act)
    return ApiKeyId(key_id)


async def _announce_revocation(conn: Connection, tenant: TenantId, key: ApiKeyId, prefix: str, act: Act) -> None:
    await append_and_announce(conn, act, tenant, "ApiKey", key, "API_KEY_REVOKED", {"key_prefix": prefix})


async def list_all_keys(conn: Connection, tenant: TenantId) -> list[ApiKeyRow]:
    """All keys of a tenant, oldest first."""
    return await fetch_rows(conn, ApiKeyRow, SELECT_ALL_KEYS, tenant)


async def get_key(conn: Connection, tenant: TenantId, key: ApiKeyId) -> ApiKeyRow:
    return await fetch_one(conn, ApiKeyRow, SELECT_KEY, tenant, key, kind="API key")


async def list_keys(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ApiKeyRow]:
    """Keys, newest first."""
    return await fetch_rows(conn, ApiKeyRow, SELECT_KEY_PAGE, tenant, *page)


async def count_keys_by_pepper(conn: Connection) -> list[PepperUsage]:
    """Count the valid keys of all tenants by their pepper. Needs the system role."""
    return await fetch_rows(conn, PepperUsage, COUNT_KEYS_BY_PEPPER)
