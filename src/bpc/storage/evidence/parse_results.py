"""What parsing a document version gave: its status, the problems and warnings, and the text of a PDF."""

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import orjson

from bpc.core.errors import NotFound
from bpc.core.formats.ids import DocumentId, DocumentVersionId, TenantId
from bpc.storage.connection import Connection, fetch_one
from bpc.storage.evidence.documents import DocumentStatus

SELECT_VERSION_FOR_PARSE: Final[LiteralString] = """
    SELECT v.document_id, d.kind::text AS kind, v.status::text AS status, v.mime_type, v.read_options,
           CASE WHEN v.status = 'UPLOADED' THEN v.content END AS content
      FROM document_versions v
      JOIN documents d ON d.tenant_id = v.tenant_id AND d.document_id = v.document_id
     WHERE v.tenant_id = $1 AND v.document_version_id = $2
       FOR NO KEY UPDATE OF v
"""
UPDATE_DOCUMENT_STATUS: Final[LiteralString] = """
    UPDATE document_versions SET status = $3::document_status WHERE tenant_id = $1 AND document_version_id = $2
"""
SELECT_PARSE_EVENT: Final[LiteralString] = """
    SELECT payload::text FROM events
     WHERE tenant_id = $1 AND aggregate_type = 'DocumentVersion' AND aggregate_id = $2
       AND event_type IN ('FACTS_PARSED', 'DOCUMENT_REJECTED')
     ORDER BY aggregate_version DESC
     LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparsedVersion:
    """A version to parse; `content` is None if it was parsed before, or if retention has removed it.

    `read_options` is canonical JSON: how to read it.
    """

    document_id: DocumentId
    kind: str
    status: DocumentStatus
    mime_type: str
    read_options: bytes
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """Problems and warnings of a version, each as `{"at", "says"}`, and how many there are.

    The lists are complete up to ten thousand of each. Every warning about a number that was rounded, or a value that
    could not be read, is listed in addition to those.
    """

    problems: list[dict[str, str]]
    problems_total: int
    warnings: list[dict[str, str]]
    warnings_total: int
    fact_count: int = 0


async def lock_version_for_parse(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> UnparsedVersion:
    """A version. Until the transaction ends, nobody else parses it."""
    return await fetch_one(conn, UnparsedVersion, SELECT_VERSION_FOR_PARSE, tenant, version, kind="document version")


async def set_document_status(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, status: DocumentStatus
) -> None:
    await conn.execute(UPDATE_DOCUMENT_STATUS, tenant, version, status)


async def load_parse_result(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> ParseResult:
    """The result of the newest parse event; empty if there is none, or if retention has removed it."""
    text = await conn.fetchval(SELECT_PARSE_EVENT, tenant, version)
    payload: dict[str, Any] = {} if text is None else orjson.loads(text)
    return ParseResult(
        problems=payload.get("problems", []),
        problems_total=payload.get("problems_total", 0),
        warnings=payload.get("warnings", []),
        warnings_total=payload.get("warnings_total", 0),
        fact_count=payload.get("fact_count", 0),
    )


# Text of PDF files: retention removes it together with the bytes ---------------------------------------------------

INSERT_TEXT: Final[LiteralString] = """
    INSERT INTO document_texts (tenant_id, document_version_id, pages, text, problem)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant_id, document_version_id) DO NOTHING
"""
SELECT_TEXT: Final[LiteralString] = """
    SELECT pages, text, problem FROM document_texts WHERE tenant_id = $1 AND document_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTextRow:
    """The text of a version and its number of pages; or, in `problem`, why there is no text."""

    pages: int | None = None
    text: str | None = None
    problem: str | None = None


async def insert_text(conn: Connection, tenant: TenantId, version: DocumentVersionId, text: DocumentTextRow) -> None:
    """Store the text of a version; a text that is stored stays."""
    await conn.execute(INSERT_TEXT, tenant, version, text.pages, text.text, text.problem)


async def has_text(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> bool:
    """Whether the text of a version, or the reason why it has none, is stored."""
    return await conn.fetchrow(SELECT_TEXT, tenant, version) is not None


async def get_text(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> DocumentTextRow:
    row = await conn.fetchrow(SELECT_TEXT, tenant, version)
    if row is None:
        raise NotFound(
            f"there is no text of document version `{version}`",
            fix="only PDF files have text; it is stored when the job EXTRACT_TEXT has finished",
        )
    return DocumentTextRow(**dict(row))
