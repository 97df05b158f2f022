"""The text of PDFs, kept beside their bytes and as long as those."""

from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.errors import NotFound
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db.connection import Connection

ADD: Final[LiteralString] = """
    INSERT INTO document_texts (tenant_id, document_version_id, pages, text, problem)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant_id, document_version_id) DO NOTHING
"""
ONE: Final[LiteralString] = """
    SELECT pages, text, problem FROM document_texts WHERE tenant_id = $1 AND document_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The text of a version and how many pages it has; or the problem why there is none."""

    pages: int | None = None
    text: str | None = None
    problem: str | None = None


class TextUnknown(NotFound):
    """There is no text of this version, or not yet."""

    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"there is no text of document version `{version}`",
            fix="only PDFs have one; it is there when the job EXTRACT_TEXT has ended",
        )


async def add(conn: Connection, tenant: TenantId, version: DocumentVersionId, text: Text) -> None:
    """Keep the text of a version, once."""
    await conn.execute(ADD, tenant, version, text.pages, text.text, text.problem)


async def is_there(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> bool:
    """Whether the text of a version has been looked for."""
    return await conn.fetchrow(ONE, tenant, version) is not None


async def get(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> Text:
    row = await conn.fetchrow(ONE, tenant, version)
    if row is None:
        raise TextUnknown(version)
    return Text(**dict(row))
