"""Token buckets, BPC-RL-1: one for each API key, in the database, so that every process counts the same requests."""

from typing import Final, LiteralString, NamedTuple

from bpc.core.ids import TenantId
from bpc.db.connection import Connection

TAKE: Final[LiteralString] = "SELECT tokens_left, wait FROM take_token($1, $2, $3, $4)"


class Taken(NamedTuple):
    """How many requests are left at this moment; `wait` is above 0, in seconds, where there was none."""

    left: float
    wait: float


async def take(conn: Connection, tenant: TenantId, key_hash: bytes, *, burst: int, rate: int) -> Taken:
    """Take a token, in a statement and transaction of its own."""
    row = await conn.fetchrow(TAKE, tenant, key_hash, burst, rate)
    if row is None:
        raise RuntimeError("a function without a row")
    return Taken(row["tokens_left"], row["wait"])
