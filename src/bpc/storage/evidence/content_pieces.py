"""The bytes of a document version in pieces, for whoever must not stop for long: an event loop that others wait for.

A value of 25 MB is one message of the database, and taking it apart holds the loop for tens of milliseconds. The
database unpacks the value once and sends it as rows of a quarter of a megabyte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.storage.connection import Connection, fetch_one

PIECE_BYTES: Final = 262_144

SELECT_SIZE: Final[LiteralString] = """
    SELECT octet_length(content) AS size, mime_type, coalesce(sha256, reread_sha256) AS sha256
      FROM document_versions WHERE tenant_id = $1 AND document_version_id = $2
"""
# Joined with nothing, the value is unpacked once; else it would be for each piece.
SELECT_PIECES: Final[LiteralString] = """
    WITH whole AS MATERIALIZED (
      SELECT content || ''::bytea AS content
        FROM document_versions WHERE tenant_id = $1 AND document_version_id = $2)
    SELECT substring(whole.content FROM start FOR $3)
      FROM whole, generate_series(1, octet_length(whole.content), $3) AS start
     ORDER BY start
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentSize:
    """What is known of the bytes of a version without reading them; no size once retention has removed them."""

    size: int | None
    mime_type: str
    sha256: Digest


async def measure_content(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> ContentSize:
    return await fetch_one(conn, ContentSize, SELECT_SIZE, tenant, version_id, kind="document version")


async def load_pieces(conn: Connection, tenant: TenantId, version_id: DocumentVersionId) -> Sequence[bytes]:
    """The bytes in order, each piece of `PIECE_BYTES` at most."""
    return [row[0] for row in await conn.fetch(SELECT_PIECES, tenant, version_id, PIECE_BYTES)]
