"""Signing keys: the public halves, for ever, because old signatures are checked against them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import NAMESPACE_URL, uuid5

from bpc.core.errors import Conflict, NotFound, Refusal
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId
from bpc.core.signing import PublicKey, to_base64
from bpc.db import events, tenants
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.tenants import SYSTEM_TENANT
from bpc.jobs.ids import lowest_at

INSERT: Final[LiteralString] = """
    INSERT INTO signing_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING RETURNING true
"""
ALL: Final[LiteralString] = """
    SELECT key_id, public_key, status::text AS status, created_at, retired_at FROM signing_keys
     ORDER BY created_at DESC, key_id
"""
RETIRE: Final[LiteralString] = """
    UPDATE signing_keys SET status = 'RETIRED', retired_at = $2 WHERE key_id = $1 AND status = 'ACTIVE' RETURNING true
"""
PUBLIC_KEY: Final[LiteralString] = "SELECT public_key FROM signing_keys WHERE key_id = $1"
OTHER_NAME: Final[LiteralString] = "SELECT key_id FROM signing_keys WHERE public_key = $1 AND key_id <> $2"
ACTIVE: Final[LiteralString] = "SELECT public_key FROM signing_keys WHERE key_id = $1 AND status = 'ACTIVE'"
# A version names its key in its receipt, a compile that was asked for in its order. Jobs are in the order of their ids.
USE: Final[LiteralString] = """
    SELECT (SELECT count(*) FROM passport_versions
             WHERE tenant_id = $1 AND status = 'COMPILING'
               AND convert_from(receipt_canonical, 'UTF8')::json ->> 'signing_key_id' = $2)
         + (SELECT count(*) FROM jobs.job
             WHERE tenant_id = $1 AND status = 'QUEUED' AND type = 'COMPILE_PASSPORT'
               AND payload ->> 'signing_key_id' = $2) AS waiting,
           (SELECT count(*) FROM jobs.job
             WHERE tenant_id = $1 AND job_id >= $3 AND type = 'COMPILE_PASSPORT'
               AND payload ->> 'signing_key_id' = $2) AS asked_for
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How many versions wait for a key, by the tenant they are of, and for how many of all tenants it was named."""

    waiting: Mapping[str, int]
    asked_for: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """The public half of a key; what it signed stays valid after it is retired."""

    key_id: str
    public_key: PublicKey
    status: Literal["ACTIVE", "RETIRED"]
    created_at: datetime
    retired_at: datetime | None


class SigningKeyDiffers(Refusal):
    """The configured private key is not the one that was registered under its name."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"the configured private key is not the one registered as `{key_id}`",
            fix="put the right key back (its file, or the variable), or give the new one its own BPC_SIGNING_KEY_ID",
        )


class SigningKeyLost(Refusal):
    """A key is registered under the configured name, and its private half is not here."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"`{key_id}` is registered, and its private half is not here",
            fix="put its file back (or the variable); if it is lost for good, choose another BPC_SIGNING_KEY_ID",
        )


class SigningKeyNamed(Refusal):
    """The configured private key is registered, under another name."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str, name: str) -> None:
        super().__init__(
            f"there is no private key `{key_id}`: the configured one is registered as `{name}`, and a key has one name",
            fix=f"make one with `bpc keys add {key_id} --new`, or set BPC_SIGNING_KEY_ID={name}",
        )


async def public_key(conn: Connection, key_id: str) -> PublicKey | None:
    """The public key that is on record as `key_id`."""
    found = await conn.fetchval(PUBLIC_KEY, key_id)
    return None if found is None else PublicKey(found)


async def to_sign_with(conn: Connection, key_id: str) -> PublicKey | None:
    """The same, unless it is retired."""
    found = await conn.fetchval(ACTIVE, key_id)
    return None if found is None else PublicKey(found)


async def register(database: Database, key_id: str, key: PublicKey, *, act: Act) -> None:
    """Have `key` on record as `key_id`; a name once given never means another key, nor a key another name."""
    async with database.system(SYSTEM_TENANT) as conn:
        if (name := await conn.fetchval(OTHER_NAME, key, key_id)) is not None:
            raise SigningKeyNamed(key_id, name)
        if await conn.fetchval(INSERT, key_id, key):
            said = act.says("SIGNING_KEY_CREATED", {"key_id": key_id, "public_key": to_base64(key)})
            await events.append(conn, _stream(key_id), said)
        elif await public_key(conn, key_id) != key:
            raise SigningKeyDiffers(key_id)


async def every(conn: Connection) -> Sequence[SigningKey]:
    """All signing keys of the installation, newest first."""
    return [SigningKey(**dict(row)) for row in await conn.fetch(ALL)]


async def use_of(database: Database, key_id: str, *, since: datetime) -> Use:
    """What there still is for a key to sign. Processes that sign are not known here; what they were asked for is."""
    async with database.system() as conn:
        everybody = await tenants.every(conn)
    waiting, asked_for = dict[str, int](), 0
    for tenant in everybody:
        async with database.tenant(tenant.tenant_id) as conn:
            [row] = await conn.fetch(USE, tenant.tenant_id, key_id, lowest_at(since))
        waiting |= {tenant.slug: row["waiting"]} if row["waiting"] else {}
        asked_for += row["asked_for"]
    return Use(waiting=waiting, asked_for=asked_for)


async def retire(database: Database, key_id: str, *, act: Act) -> None:
    """Sign nothing more with a key; what it signed is checked against it for ever."""
    async with database.system(SYSTEM_TENANT) as conn:
        if not await conn.fetchval(RETIRE, key_id, act.at):
            if await public_key(conn, key_id) is None:
                raise NotFound(f"there is no signing key `{key_id}`", fix="`bpc keys list` shows those there are")
            raise Conflict(f"the signing key `{key_id}` is retired already", fix="nothing is left to do")
        said = act.says("SIGNING_KEY_CHANGED", {"key_id": key_id, "status": "RETIRED"})
        await events.append(conn, _stream(key_id), said)


def _stream(key_id: str) -> Stream:
    return Stream(SYSTEM_TENANT, "SigningKey", AggregateId(uuid5(NAMESPACE_URL, f"bpc:key:{key_id}")))
