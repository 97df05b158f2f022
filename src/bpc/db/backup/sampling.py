"""Which passports are compiled again after a restore."""

from collections.abc import Sequence
from typing import Final, LiteralString

from bpc.core.ids import PassportVersionId, TenantId
from bpc.db.connection import Connection

# By a hash of the id: any of them, and the same ones again.
SAMPLE: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status <> 'COMPILING'
     ORDER BY sha256(uuid_send(passport_version_id))
     LIMIT $2
"""


async def sample(conn: Connection, tenant: TenantId, most: int) -> Sequence[PassportVersionId]:
    """At most so many versions of a tenant that are signed."""
    return [PassportVersionId(row[0]) for row in await conn.fetch(SAMPLE, tenant, most)]
