"""What a request needs before its route runs: who calls, the rate limit of the key, and idempotency keys.

One query by the prefix of the API key gives everything that access is decided by. Token buckets (BPC-RL-1) are rows, so
that all processes count the same requests. A response is stored in the transaction of its effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import ActorId, ApiKeyId, TenantId, parse_uuid
from bpc.core.policies import PolicyInForce
from bpc.runtime.logs import get_logger
from bpc.storage.access.policies import parse_policy
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.database import begin_tenant_transaction
from bpc.storage.error_mapping import WRITE_ERRORS

log = get_logger(__name__)

SELECT_CALLER: Final[LiteralString] = """
    SELECT tenant_id, api_key_id, actor_id, actor_type, key_hash, expires_at, revoked_at, last_used_at, is_active,
           roles, permissions, policies, find_access_version(tenant_id) AS access_version
      FROM find_caller($1)
"""
UPDATE_LAST_USED: Final[LiteralString] = """
    UPDATE api_keys SET last_used_at = $3, pepper_id = CASE key_hash WHEN $5 THEN $6 ELSE pepper_id END
     WHERE tenant_id = $1 AND api_key_id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)
"""
# If another request has already rewritten the hash, this changes nothing.
UPDATE_KEY_HASH: Final[LiteralString] = """
    UPDATE api_keys SET key_hash = $4, pepper_id = $5
     WHERE tenant_id = $1 AND api_key_id = $2 AND key_hash = $3 AND revoked_at IS NULL
    RETURNING true
"""
LAST_USED_INTERVAL: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PepperedHash:
    """The hash of a key, and the id of the pepper it was hashed with."""

    key_hash: bytes
    pepper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An actor with a key. Compare the key's hash before using anything of it.

    `new_hash` is set after that: the hash with the current pepper, if the key itself was sent. `access_version` is the
    version of the tenant's access that all of this belongs to, if it is known.
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
    policies: tuple[PolicyInForce, ...]
    new_hash: PepperedHash | None = None
    access_version: UUID | None = None

    @property
    def is_rehashed(self) -> bool:
        """Whether the stored hash is that of the current pepper."""
        return self.new_hash is None or self.new_hash.key_hash == self.key_hash

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def was_used_lately(self, now: datetime) -> bool:
        """Whether the time of this use need not be written."""
        return self.last_used_at is not None and self.last_used_at > now - LAST_USED_INTERVAL


async def find_caller(conn: Connection, prefix: str) -> Caller | None:
    """The owner of the key with this prefix, in any tenant: the one query before the tenant is known."""
    row = await conn.fetchrow(SELECT_CALLER, prefix)
    return None if row is None else Caller(**dict(row) | build_caller_members(row))


def build_caller_members(row: asyncpg.Record) -> dict[str, Any]:
    """The members of a caller that the database has in another form: roles, permissions, policies."""
    return {
        "roles": tuple(row["roles"]),
        "permissions": frozenset(row["permissions"]),
        "policies": _parse_policies(row["policies"]),
    }


async def record_key_use(conn: Connection, caller: Caller, now: datetime) -> None:
    """Write when the key was last used, at most once a minute, on a connection without a transaction.

    A key hashed with the previous pepper is hashed again with the current one at once. Both writes have their own
    transaction: in the request's, they would lock the key's row until it ends, and a refused request would not count.
    """
    try:
        await _write_key_use(conn, caller, now)
    except WRITE_ERRORS as error:  # a full disk must not keep anybody from reading
        log.warning("the use of a key could not be recorded", reason=str(error)[:200])


async def _write_key_use(conn: Connection, caller: Caller, now: datetime) -> None:
    key, new_hash = (caller.tenant_id, caller.api_key_id), caller.new_hash
    if new_hash is not None and not caller.is_rehashed:
        async with begin_tenant_transaction(conn, caller.tenant_id):
            values = caller.key_hash, new_hash.key_hash, new_hash.pepper_id
            if await conn.fetchval(UPDATE_KEY_HASH, *key, *values):
                payload = {"pepper_id": new_hash.pepper_id, "key_hash_sha256": to_hex(sha256(new_hash.key_hash))}
                await events.append_act(conn, Act(None, now), key[0], "ApiKey", key[1], "API_KEY_REHASHED", payload)
    if not caller.was_used_lately(now):
        hash_and_pepper = (None, None) if new_hash is None else (new_hash.key_hash, new_hash.pepper_id)
        async with begin_tenant_transaction(conn, caller.tenant_id):
            await conn.execute(UPDATE_LAST_USED, *key, now, now - LAST_USED_INTERVAL, *hash_and_pepper)


@lru_cache(maxsize=16)  # the same text on every request, until a policy changes
def _parse_policies(text: str | None) -> tuple[PolicyInForce, ...]:
    ids = ("policy_id", "policy_version_id")
    return tuple(
        parse_policy({**version, **{name: parse_uuid(version[name]) for name in ids}}, version["policy_json"])
        for version in orjson.loads(text or "[]")
    )


# Token buckets ----------------------------------------------------------------------------------------------------

TAKE_TOKEN: Final[LiteralString] = "SELECT tokens_left, wait FROM take_token($1, $2, $3, $4)"  # noqa: S105


class TokenBucketState(NamedTuple):
    """How many requests are left now; if there was no token, `wait` is the number of seconds until there is one."""

    left: float
    wait: float


async def take_token(conn: Connection, tenant: TenantId, key_hash: bytes, *, burst: int, rate: int) -> TokenBucketState:
    """Take a token, in its own statement and transaction. While the database takes no writes, there is always one."""
    try:
        row = await conn.fetchrow(TAKE_TOKEN, tenant, key_hash, burst, rate)
    except WRITE_ERRORS as error:
        log.warning("requests could not be counted", reason=str(error)[:200])
        return TokenBucketState(0, 0)
    if row is None:
        raise RuntimeError("take_token returned no row")
    return TokenBucketState(row["tokens_left"], row["wait"])


TAKE_TOKENS: Final[LiteralString] = "SELECT taken, tokens_left, wait FROM take_tokens($1, $2, $3, $4, $5)"


class TakenTokens(NamedTuple):
    """How many tokens were taken and how many are left in the bucket; without any, how long until there is one."""

    number: int
    left: float
    wait: float


async def take_tokens(
    conn: Connection, tenant: TenantId, key_hash: bytes, *, burst: int, rate: int, most: int
) -> TakenTokens:
    """Take up to `most` tokens at once, in a statement of its own. While the database takes no writes, there is one."""
    try:
        row = await conn.fetchrow(TAKE_TOKENS, tenant, key_hash, burst, rate, most)
    except WRITE_ERRORS as error:
        log.warning("requests could not be counted", reason=str(error)[:200])
        return TakenTokens(1, 0, 0)
    if row is None:
        raise RuntimeError("take_tokens returned no row")
    return TakenTokens(row["taken"], row["tokens_left"], row["wait"])


# Idempotency keys -------------------------------------------------------------------------------------------------

NO_ACTOR: Final = ActorId(UUID(int=0))  # of responses that an earlier release stored
SELECT_RESPONSE: Final[LiteralString] = """
    SELECT request_hash, response_status, response_headers, response_body FROM answered_by($1, $2, $3, $4)
"""
INSERT_RESPONSE: Final[LiteralString] = """
    INSERT INTO idempotency_keys
           (tenant_id, actor_id, key, request_hash, response_status, response_headers, response_body)
    VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7)
"""
DELETE_OLD_RESPONSES: Final[LiteralString] = """
    WITH gone AS (
      DELETE FROM idempotency_keys WHERE tenant_id = $1 AND (key, actor_id) IN (
        SELECT key, actor_id FROM idempotency_keys
         WHERE tenant_id = $1 AND created_at < now() - make_interval(days => $2)
         ORDER BY created_at
         LIMIT $3)
      RETURNING key)
    SELECT count(*) FROM gone
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentResponse:
    """A stored response, and the hash of the request it answered."""

    request_hash: bytes
    status: int
    headers: Mapping[str, str]
    body: bytes


async def lock_key_and_find_response(
    conn: Connection, caller: Caller, key: str, request_hash: bytes
) -> IdempotentResponse | None:
    """The stored response of this key of the caller, who waits for another request with the same key.

    Keys belong to the actor. A response of an earlier release is found by the hash of its request.
    """
    row = await conn.fetchrow(SELECT_RESPONSE, caller.tenant_id, caller.actor_id, key, request_hash)
    if row is None:
        return None
    return IdempotentResponse(
        request_hash=row["request_hash"],
        status=row["response_status"],
        headers=orjson.loads(row["response_headers"]),
        body=row["response_body"],
    )


async def store_response(
    conn: Connection, tenant: TenantId, key: str, response: IdempotentResponse, *, actor: ActorId = NO_ACTOR
) -> None:
    headers = orjson.dumps(dict(response.headers)).decode()
    values = response.request_hash, response.status, headers, response.body
    await conn.execute(INSERT_RESPONSE, tenant, actor, key, *values)


async def delete_old_responses(conn: Connection, tenant: TenantId, *, days: int, limit: int) -> int:
    """Delete responses older than `days`, the oldest first; return how many. Their keys can be used again."""
    deleted_count: int = await conn.fetchval(DELETE_OLD_RESPONSES, tenant, days, limit)
    return deleted_count
