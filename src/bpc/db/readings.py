"""Readings: what became of a document version when its facts were read."""

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import orjson

from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db.connection import Connection
from bpc.db.documents import DocumentVersionUnknown, Status

LOCKED: Final[LiteralString] = """
    SELECT d.kind::text AS kind, v.status::text AS status, v.mime_type,
           CASE WHEN v.status = 'UPLOADED' THEN v.content END AS content
      FROM document_versions v
      JOIN documents d ON d.tenant_id = v.tenant_id AND d.document_id = v.document_id
     WHERE v.tenant_id = $1 AND v.document_version_id = $2
       FOR NO KEY UPDATE OF v
"""
SET_STATUS: Final[LiteralString] = """
    UPDATE document_versions SET status = $3::document_status WHERE tenant_id = $1 AND document_version_id = $2
"""
OUTCOME: Final[LiteralString] = """
    SELECT payload::text FROM events
     WHERE tenant_id = $1 AND aggregate_type = 'DocumentVersion' AND aggregate_id = $2
       AND event_type IN ('FACTS_PARSED', 'DOCUMENT_REJECTED')
     ORDER BY aggregate_version DESC
     LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A version to be read; `content` is None where it was read before, or where retention has removed it."""

    kind: str
    status: Status
    mime_type: str
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found in a version, each as `{"at", "says"}`: the first hundred, and how many there are.

    Warnings of rounded numbers are all there, beside the hundred.
    """

    problems: list[dict[str, str]]
    problems_total: int
    warnings: list[dict[str, str]]
    warnings_total: int


async def locked(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> Unread:
    """A version, which nobody else reads until we are done."""
    row = await conn.fetchrow(LOCKED, tenant, version)
    if row is None:
        raise DocumentVersionUnknown(version)
    return Unread(**dict(row))


async def set_status(conn: Connection, tenant: TenantId, version: DocumentVersionId, status: Status) -> None:
    await conn.execute(SET_STATUS, tenant, version, status)


async def outcome(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> Outcome:
    """What is on record about the reading of a version; nothing where it was not read, or where retention took it."""
    text = await conn.fetchval(OUTCOME, tenant, version)
    said: dict[str, Any] = {} if text is None else orjson.loads(text)
    return Outcome(
        problems=said.get("problems", []),
        problems_total=said.get("problems_total", 0),
        warnings=said.get("warnings", []),
        warnings_total=said.get("warnings_total", 0),
    )
