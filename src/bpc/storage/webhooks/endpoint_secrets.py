"""The secrets of webhook endpoints as they are stored: encrypted, with the ids of their row as context."""

from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.ids import TenantId
from bpc.core.secret_box import NONCE_BYTES, SecretBox
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import Connection
from bpc.storage.database import Database

SELECT_SECRETS: Final[LiteralString] = """
    SELECT webhook_endpoint_id, secret_base64, previous_secret_base64 FROM webhook_endpoints WHERE tenant_id = $1
"""
# A rotation at the same moment has stored another secret, and stays.
UPDATE_SECRETS: Final[LiteralString] = """
    UPDATE webhook_endpoints SET secret_base64 = $3, previous_secret_base64 = $4
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2
       AND secret_base64 = $5 AND previous_secret_base64 IS NOT DISTINCT FROM $6
"""


def seal_secret(box: SecretBox | None, tenant: TenantId, endpoint: UUID, secret: str) -> str:
    """The secret as it is stored; as it is where there is no key."""
    if box is None:
        return secret
    return box.seal(secret, context=_name_context(tenant, endpoint), nonce=clock.random_bytes(NONCE_BYTES))


def open_secret(box: SecretBox | None, tenant: TenantId, endpoint: UUID, stored: str) -> str:
    """The secret of a stored text."""
    return stored if box is None else box.open(stored, context=_name_context(tenant, endpoint))


async def seal_stored_secrets(database: Database, box: SecretBox) -> int:
    """Encrypt what is stored without the current key; return how many endpoints that were. Safe to run twice."""
    async with database.system() as conn:
        tenants = [row.tenant_id for row in await tenants_and_actors.list_tenants(conn)]
    count = 0
    for tenant in tenants:
        async with database.tenant(tenant) as conn:
            count += await _seal_secrets_of(conn, tenant, box)
    return count


async def _seal_secrets_of(conn: Connection, tenant: TenantId, box: SecretBox) -> int:
    count = 0
    for row in await conn.fetch(SELECT_SECRETS, tenant):
        endpoint, stored = row["webhook_endpoint_id"], (row["secret_base64"], row["previous_secret_base64"])
        if all(text is None or box.is_current(text) for text in stored):
            continue
        sealed = [
            None if text is None else seal_secret(box, tenant, endpoint, open_secret(box, tenant, endpoint, text))
            for text in stored
        ]
        await conn.execute(UPDATE_SECRETS, tenant, endpoint, *sealed, *stored)
        count += 1
    return count


def _name_context(tenant: TenantId, endpoint: UUID) -> str:
    return f"webhook_endpoints/{tenant}/{endpoint}"
