"""Signing keys: their public halves. They are kept for ever, because old signatures are verified with them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import NAMESPACE_URL, UUID, uuid5

from service_jobs.job import lowest_id_at

from bpc.core.audit.events import Act
from bpc.core.audit.signing import PublicKey, to_base64
from bpc.core.errors import Conflict, Refusal, UnknownResource
from bpc.core.formats.ids import TenantId
from bpc.core.webhooks import WebhookType
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.database import Database, bind_tenant
from bpc.storage.webhooks.webhook_fanout import append_and_announce

INSERT_KEY: Final[LiteralString] = """
    INSERT INTO signing_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING RETURNING true
"""
KEY_COLUMNS: Final[LiteralString] = """
    k.key_id, k.public_key, k.status::text AS status, k.created_at, k.retired_at, k.owner_tenant_id AS tenant_id,
    t.slug AS tenant, k.valid_from, k.valid_until, k.compromised_since
"""
SELECT_KEYS: Final[LiteralString] = f"""
    SELECT {KEY_COLUMNS} FROM signing_keys k LEFT JOIN tenants t ON t.tenant_id = k.owner_tenant_id
     ORDER BY k.created_at DESC, k.key_id
"""
# A tenant sees its own keys and those of the installation; without one, only the latter.
SELECT_KEYS_FOR: Final[LiteralString] = f"""
    SELECT {KEY_COLUMNS} FROM signing_keys k LEFT JOIN tenants t ON t.tenant_id = k.owner_tenant_id
     WHERE k.owner_tenant_id IS NULL OR k.owner_tenant_id = $1
     ORDER BY k.created_at DESC, k.key_id
"""
RETIRE_KEY: Final[LiteralString] = """
    UPDATE signing_keys SET status = 'RETIRED', retired_at = $2
     WHERE key_id = $1 AND status = 'ACTIVE' AND owner_tenant_id IS NULL RETURNING true
"""
SELECT_PUBLIC_KEY: Final[LiteralString] = "SELECT public_key FROM signing_keys WHERE key_id = $1"
SIGNS_NOW: Final[LiteralString] = """
    status = 'ACTIVE' AND coalesce(valid_from <= now(), true) AND coalesce(now() < valid_until, true)
"""
SELECT_SIGNING_KEY: Final[LiteralString] = f"""
    SELECT public_key FROM signing_keys
     WHERE key_id = $1 AND (owner_tenant_id IS NULL OR owner_tenant_id = $2) AND {SIGNS_NOW}
"""
SELECT_OTHER_NAME: Final[LiteralString] = "SELECT key_id FROM signing_keys WHERE public_key = $1 AND key_id <> $2"
# A version names its key in its receipt, a requested compile in its payload. The ids of jobs are in the order of time.
COUNT_KEY_USE: Final[LiteralString] = """
    SELECT (SELECT count(*) FROM passport_versions
             WHERE tenant_id = $1 AND status = 'COMPILING' AND abandoned_at IS NULL
               AND convert_from(receipt_canonical, 'UTF8')::json ->> 'signing_key_id' = $2)
         + (SELECT count(*) FROM jobs.job
             WHERE tenant_id = $1 AND status = 'QUEUED' AND type = 'COMPILE_PASSPORT'
               AND payload ->> 'signing_key_id' = $2) AS waiting,
           (SELECT count(*) FROM jobs.job
             WHERE tenant_id = $1 AND job_id >= $3 AND type = 'COMPILE_PASSPORT'
               AND payload ->> 'signing_key_id' = $2) AS asked_for
"""
IS_SUBSCRIBED: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM webhook_subscriptions WHERE tenant_id = $1 AND event_type = $2)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeyUsage:
    """How many versions wait for a key, by tenant, and how many compiles of all tenants named it."""

    waiting: Mapping[str, int]
    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeyRow:
    """The public half of a key; without a tenant, of the installation's. Signatures stay valid after it is retired."""

    key_id: str
    public_key: PublicKey
    status: Literal["ACTIVE", "RETIRED", "COMPROMISED"]
    created_at: datetime
    retired_at: datetime | None
    tenant_id: TenantId | None
    tenant: str | None
    valid_from: datetime | None
    valid_until: datetime | None
    compromised_since: datetime | None


class SigningKeyDiffers(Refusal):
    """The configured private key is not the one that was registered under its name."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"the configured private key is not the one registered as `{key_id}`", hint="restore the signing key"
        )


class PrivateKeyMissing(Refusal):
    """A key is registered under the configured name, but its private half is missing."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"`{key_id}` is registered, but its private key is missing", hint="find the private key")


class SigningKeyHasOtherName(Refusal):
    """The configured private key is registered, under another name."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str, name: str) -> None:
        super().__init__(
            f"there is no private key `{key_id}`: the configured one is registered as `{name}`, and a key has one name",
            hint="name the signing key",
            details={"key_id": key_id, "registered_as": name},
        )


async def find_public_key(conn: Connection, key_id: str) -> PublicKey | None:
    """The public key that is registered as `key_id`."""
    key_bytes = await conn.fetchval(SELECT_PUBLIC_KEY, key_id)
    return None if key_bytes is None else PublicKey(key_bytes)


async def find_key_that_signs(conn: Connection, key_id: str, tenant: TenantId = SYSTEM_TENANT) -> PublicKey | None:
    """The public key, if it signs for this tenant now: it is active, valid, and no other tenant's."""
    key_bytes = await conn.fetchval(SELECT_SIGNING_KEY, key_id, tenant)
    return None if key_bytes is None else PublicKey(key_bytes)


async def register_key(database: Database, key_id: str, key: PublicKey, *, act: Act) -> None:
    """Register `key` as `key_id`, and append an event. A name means one key for ever, and a key has one name.

    The event is in the tenant `system`, and in each tenant that webhooks tell of it.
    """
    async with database.system(SYSTEM_TENANT) as conn:
        if (name := await conn.fetchval(SELECT_OTHER_NAME, key, key_id)) is not None:
            raise SigningKeyHasOtherName(key_id, name)
        if await conn.fetchval(INSERT_KEY, key_id, key):
            payload = {"key_id": key_id, "public_key": to_base64(key)}
            chain = name_chain(key_id)
            async for tenant in iterate_listeners(conn, "signing_key.created"):
                await append_and_announce(conn, act, tenant, "SigningKey", chain, "SIGNING_KEY_CREATED", payload)
        elif await find_public_key(conn, key_id) != key:
            raise SigningKeyDiffers(key_id)


async def list_all_keys(conn: Connection) -> Sequence[SigningKeyRow]:
    """All signing keys of the installation and of all tenants, newest first."""
    return await fetch_rows(conn, SigningKeyRow, SELECT_KEYS)


async def list_keys(conn: Connection, tenant: TenantId | None = None) -> Sequence[SigningKeyRow]:
    """The signing keys of the installation and of one tenant, newest first."""
    return await fetch_rows(conn, SigningKeyRow, SELECT_KEYS_FOR, tenant)


async def count_key_use(database: Database, key_id: str, *, since: datetime) -> SigningKeyUsage:
    """What is still to be signed with a key: versions that wait, and compiles requested `since` that name it."""
    async with database.system() as conn:
        all_tenants = await tenants_and_actors.list_tenants(conn)
    waiting, requested_count = dict[str, int](), 0
    for tenant in all_tenants:
        async with database.tenant(tenant.tenant_id) as conn:
            [row] = await conn.fetch(COUNT_KEY_USE, tenant.tenant_id, key_id, lowest_id_at(since))
        waiting |= {tenant.slug: row["waiting"]} if row["waiting"] else {}
        requested_count += row["asked_for"]
    return SigningKeyUsage(waiting=waiting, requested=requested_count)


async def retire_key(database: Database, key_id: str, *, act: Act) -> None:
    """Retire a key, and append an event: nothing more is signed with it, and its signatures stay valid."""
    async with database.system(SYSTEM_TENANT) as conn:
        if not await conn.fetchval(RETIRE_KEY, key_id, act.at):
            if await find_public_key(conn, key_id) is None:
                raise UnknownResource("signing key", key_id)
            raise Conflict(f"the signing key `{key_id}` is already retired or compromised", fix="nothing to do")
        payload, chain = {"key_id": key_id, "status": "RETIRED"}, name_chain(key_id)
        async for tenant in iterate_listeners(conn, "signing_key.changed"):
            await append_and_announce(conn, act, tenant, "SigningKey", chain, "SIGNING_KEY_CHANGED", payload)


def name_chain(key_id: str) -> UUID:
    """The id of the chain of events of a key."""
    return uuid5(NAMESPACE_URL, f"bpc:key:{key_id}")


async def iterate_listeners(conn: Connection, webhook_type: WebhookType) -> AsyncIterator[TenantId]:
    """The tenant `system`, then each active tenant that is subscribed. Binds the transaction to it."""
    yield SYSTEM_TENANT
    for tenant in await tenants_and_actors.list_tenants(conn):
        if tenant.is_active and tenant.tenant_id != SYSTEM_TENANT:
            await bind_tenant(conn, tenant.tenant_id)
            if await conn.fetchval(IS_SUBSCRIBED, tenant.tenant_id, webhook_type):
                yield tenant.tenant_id
