"""Who is calling: everything a request is decided by, from one look at the prefix of its key."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, LiteralString

import orjson

from bpc.core.ids import ActorId, ApiKeyId, TenantId, parse_uuid
from bpc.core.policies import Policy
from bpc.db.connection import Connection
from bpc.db.database import bound
from bpc.db.policies_in_force import policy_of

FIND: Final[LiteralString] = """
    SELECT tenant_id, api_key_id, actor_id, actor_type, key_hash, expires_at, revoked_at, last_used_at, is_active,
           roles, permissions, policies
      FROM find_caller($1)
"""
USED: Final[LiteralString] = """
    UPDATE api_keys SET last_used_at = $3, pepper_id = CASE key_hash WHEN $5 THEN $6 ELSE pepper_id END
     WHERE tenant_id = $1 AND api_key_id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)
"""
# Whoever comes second finds another hash than the one that was compared, and changes nothing.
HASH_AGAIN: Final[LiteralString] = """
    UPDATE api_keys SET key_hash = $4, pepper_id = $5
     WHERE tenant_id = $1 AND api_key_id = $2 AND key_hash = $3 AND revoked_at IS NULL
"""
WRITTEN_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Peppered:
    """A key's hash, and the name of the pepper it was made with."""

    key_hash: bytes
    pepper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An actor with a key. Nothing of it may be used before the key's hash has been compared.

    `to_store` is known once it has been: what is to be stored of the key, where that is ours to say.
    """

    tenant_id: TenantId
    api_key_id: ApiKeyId
    actor_id: ActorId
    actor_type: str
    key_hash: bytes
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    is_active: bool
    roles: tuple[str, ...]
    permissions: frozenset[str]
    policies: tuple[Policy, ...]
    to_store: Peppered | None = None


async def find(conn: Connection, prefix: str) -> Caller | None:
    """Whose key has this prefix, in whatever tenant."""
    row = await conn.fetchrow(FIND, prefix)
    if row is None:
        return None
    return Caller(
        tenant_id=TenantId(row["tenant_id"]),
        api_key_id=ApiKeyId(row["api_key_id"]),
        actor_id=ActorId(row["actor_id"]),
        actor_type=row["actor_type"],
        key_hash=row["key_hash"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        is_active=row["is_active"],
        roles=tuple(row["roles"]),
        permissions=frozenset(row["permissions"]),
        policies=_policies(row["policies"]),
    )


async def note_use(conn: Connection, caller: Caller, now: datetime) -> None:
    """Write when the key was last used, at most once a minute, on a connection without a transaction.

    A key that hangs on the pepper before is hashed with the one in use, at once. In transactions of their own: in the
    request's, the key's row would stay locked as long as that lasts, and a request that is refused would not count.
    """
    key, stored = (caller.tenant_id, caller.api_key_id), caller.to_store
    if stored is not None and stored.key_hash != caller.key_hash:
        async with bound(conn, caller.tenant_id):
            await conn.execute(HASH_AGAIN, *key, caller.key_hash, stored.key_hash, stored.pepper_id)
    if caller.last_used_at is None or caller.last_used_at <= now - WRITTEN_EVERY:
        named = (None, None) if stored is None else (stored.key_hash, stored.pepper_id)
        async with bound(conn, caller.tenant_id):
            await conn.execute(USED, *key, now, now - WRITTEN_EVERY, *named)


@lru_cache(maxsize=16)  # the same words on every request, until one of them changes
def _policies(text: str | None) -> tuple[Policy, ...]:
    ids = ("policy_id", "policy_version_id")
    return tuple(
        policy_of({**found, **{name: parse_uuid(found[name]) for name in ids}}, found["policy_json"])
        for found in orjson.loads(text or "[]")
    )
