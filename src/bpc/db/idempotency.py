"""The answer to a request, kept under the key its sender chose, in the transaction of its effect."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, LiteralString

import orjson

from bpc.core.ids import TenantId
from bpc.db.connection import Connection

ANSWERED: Final[LiteralString] = """
    SELECT request_hash, response_status, response_headers, response_body FROM answered($1, $2)
"""
KEEP: Final[LiteralString] = """
    INSERT INTO idempotency_keys (tenant_id, key, request_hash, response_status, response_headers, response_body)
    VALUES ($1, $2, $3, $4, $5::jsonb, $6)
"""
FORGET: Final[LiteralString] = """
    WITH gone AS (
      DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key IN (
        SELECT key FROM idempotency_keys
         WHERE tenant_id = $1 AND created_at < now() - make_interval(days => $2)
         ORDER BY created_at
         LIMIT $3)
      RETURNING key)
    SELECT count(*) FROM gone
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered, and to which request."""

    request_hash: bytes
    status: int
    headers: Mapping[str, str]
    body: bytes


async def answered(conn: Connection, tenant: TenantId, key: str) -> Answer | None:
    """The answer that was given under this key. Whoever uses the key at the same moment waits for us from here on."""
    row = await conn.fetchrow(ANSWERED, tenant, key)
    if row is None:
        return None
    return Answer(
        request_hash=row["request_hash"],
        status=row["response_status"],
        headers=orjson.loads(row["response_headers"]),
        body=row["response_body"],
    )


async def keep(conn: Connection, tenant: TenantId, key: str, answer: Answer) -> None:
    headers = orjson.dumps(dict(answer.headers)).decode()
    await conn.execute(KEEP, tenant, key, answer.request_hash, answer.status, headers, answer.body)


async def forget(conn: Connection, tenant: TenantId, *, days: int, most: int) -> int:
    """Remove answers that were kept for so many days, the oldest first: how many. Their keys can be used again."""
    found: int = await conn.fetchval(FORGET, tenant, days, most)
    return found
