"""The stored bytes of a version in one round trip: the tenant is set, the access compared, the bytes read, in turn."""

from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.storage.connection import AccessChanged
from bpc.storage.database import Database

READ_AT_ONCE: Final[LiteralString] = "SELECT is_current, content, waived FROM read_version_at_once($1, $2, $3, $4)"


class VersionRead(NamedTuple):
    """`content` is None if there is no such version; empty for a view, of which `waived_count` entries are waived."""

    content: bytes | None
    waived_count: int | None


async def read_version_at_once(
    database: Database, tenant: TenantId, access_version: UUID, version: PassportVersionId, which: str
) -> VersionRead:
    """What is stored of a version. Raises `AccessChanged` if the tenant's access no longer has this version."""
    row = await database.fetch_row_at_once(READ_AT_ONCE, tenant, access_version, version, which)
    if row is None or not row["is_current"]:
        raise AccessChanged
    return VersionRead(row["content"], row["waived"])
