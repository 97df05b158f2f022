"""Signing keys: the public halves, for ever, because old signatures are checked against them."""

from typing import Final, LiteralString
from uuid import NAMESPACE_URL, uuid5

from bpc.core.errors import Refusal
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId
from bpc.core.signing import PublicKey, to_base64
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.tenants import SYSTEM_TENANT

INSERT: Final[LiteralString] = """
    INSERT INTO signing_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING RETURNING true
"""
PUBLIC_KEY: Final[LiteralString] = "SELECT public_key FROM signing_keys WHERE key_id = $1"


class SigningKeyDiffers(Refusal):
    """The configured private key is not the one that was registered under its name."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"the configured private key is not the one registered as `{key_id}`",
            fix="configure the right key, or give the new one its own BPC_SIGNING_KEY_ID",
        )


async def public_key(conn: Connection, key_id: str) -> PublicKey | None:
    """The public key that is on record as `key_id`."""
    found = await conn.fetchval(PUBLIC_KEY, key_id)
    return None if found is None else PublicKey(found)


async def register(database: Database, key_id: str, key: PublicKey, *, act: Act) -> None:
    """Have `key` on record as `key_id`; a name once given never means another key."""
    async with database.system(SYSTEM_TENANT) as conn:
        if await conn.fetchval(INSERT, key_id, key):
            said = act.says("SIGNING_KEY_CREATED", {"key_id": key_id, "public_key": to_base64(key)})
            stream = Stream(SYSTEM_TENANT, "SigningKey", AggregateId(uuid5(NAMESPACE_URL, f"bpc:key:{key_id}")))
            await events.append(conn, stream, said)
        elif await public_key(conn, key_id) != key:
            raise SigningKeyDiffers(key_id)
