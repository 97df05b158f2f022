"""Statements: what a document says, and since when. Rows are only added.

    upload ──► the document says what this version says
    withdraw ─► the document says nothing

What counts is a document's newest statement that is a withdrawal or whose version was accepted (VALIDATED). A version
that is not read yet, or was rejected, leaves the statement before it in force.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.ids import ActorId, DocumentId, DocumentVersionId, StatementId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_rows, make_page_query
from bpc.storage.evidence.documents import DocumentStatus

# The document's row is locked, so nobody else takes the same number. A caller that waited for the lock may carry an
# earlier time than the statement before; the list is in the order of times.
INSERT_STATEMENT: Final[LiteralString] = """
    INSERT INTO document_statements (tenant_id, statement_id, document_id, sequence, document_version_id, reason,
                                     stated_at, stated_by, file_name)
    SELECT $1, $2, $3, coalesce(max(sequence), 0) + 1, $4, $5, greatest($6, max(stated_at)), $7, $8
      FROM document_statements WHERE tenant_id = $1 AND document_id = $3
"""
SELECT_STATEMENTS: Final[LiteralString] = """
    SELECT s.statement_id, s.document_id, s.sequence, s.document_version_id, v.status::text AS status, s.file_name,
           s.reason, s.stated_at, s.stated_by
      FROM document_statements s
      LEFT JOIN document_versions v ON v.tenant_id = s.tenant_id AND v.document_version_id = s.document_version_id
"""
SELECT_NEWEST_STATEMENT: Final[LiteralString] = f"""
    {SELECT_STATEMENTS} WHERE s.tenant_id = $1 AND s.document_id = $2 ORDER BY s.sequence DESC LIMIT 1
"""
SELECT_STATEMENT_IN_FORCE: Final[LiteralString] = f"""
    {SELECT_STATEMENTS}
     WHERE s.tenant_id = $1 AND s.document_id = $2 AND (s.document_version_id IS NULL OR v.status = 'VALIDATED')
     ORDER BY s.sequence DESC
     LIMIT 1
"""
SELECT_STATEMENT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_STATEMENTS, time="s.stated_at", key="s.statement_id", where="AND s.document_id = $5"
)

INSERT_DECISION: Final[LiteralString] = """
    INSERT INTO fact_decisions (tenant_id, decision_id, fact_type, fact_key, member, document_id, reason, decided_at,
                                decided_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
SELECT_DECISIONS: Final[LiteralString] = """
    SELECT DISTINCT ON (fact_type, fact_key, member) fact_type, fact_key, member, document_id
      FROM fact_decisions
     WHERE tenant_id = $1 AND fact_key COLLATE "C" = ANY ($2::text[])
     ORDER BY fact_type, fact_key, member, decided_at DESC, decision_id DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """What a document says from `stated_at` on. Without a version it says nothing, for `reason`.

    It counts if `status`, the version's, is VALIDATED. `file_name` is the name that the file was sent under.
    """

    statement_id: StatementId
    document_id: DocumentId
    sequence: int
    document_version_id: DocumentVersionId | None
    status: DocumentStatus | None
    file_name: str | None
    reason: str | None
    stated_at: datetime
    stated_by: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """Which document to believe about a member of a fact."""

    fact_type: str
    fact_key: str
    member: str
    document_id: DocumentId


async def insert_statement(
    conn: Connection,
    tenant: TenantId,
    document: DocumentId,
    version: DocumentVersionId | None,
    *,
    reason: str | None = None,
    file_name: str | None = None,
    act: Act,
) -> StatementRow:
    """Let a document say what a version says, or nothing; append an event. The document must be locked."""
    statement = StatementId(clock.new_id())
    await conn.execute(INSERT_STATEMENT, tenant, statement, document, version, reason, act.at, act.actor_id, file_name)
    [row] = await fetch_rows(conn, StatementRow, SELECT_NEWEST_STATEMENT, tenant, document)
    payload: dict[str, object] = {"statement_id": str(statement), "sequence": row.sequence}
    if version is None:
        payload["reason"] = reason
        await events.append_act(conn, act, tenant, "Document", document, "DOCUMENT_WITHDRAWN", payload)
    else:
        payload["document_version_id"] = str(version)
        if file_name is not None:
            payload["file_name"] = file_name
        await events.append_act(conn, act, tenant, "Document", document, "DOCUMENT_STATED", payload)
    return row


async def find_newest_statement(conn: Connection, tenant: TenantId, document: DocumentId) -> StatementRow | None:
    """The newest statement of a document, whether or not its version is accepted; None if it has no version."""
    rows = await fetch_rows(conn, StatementRow, SELECT_NEWEST_STATEMENT, tenant, document)
    return rows[0] if rows else None


async def find_statement_in_force(conn: Connection, tenant: TenantId, document: DocumentId) -> StatementRow | None:
    """The statement of a document that counts; None if no version of it was accepted, and it was not withdrawn."""
    rows = await fetch_rows(conn, StatementRow, SELECT_STATEMENT_IN_FORCE, tenant, document)
    return rows[0] if rows else None


async def list_statements(
    conn: Connection, tenant: TenantId, document: DocumentId, page: PageQuery
) -> Sequence[StatementRow]:
    """The statements of a document, newest first."""
    return await fetch_rows(conn, StatementRow, SELECT_STATEMENT_PAGE, tenant, *page, document)


async def list_decisions(conn: Connection, tenant: TenantId, fact_keys: Sequence[str]) -> Sequence[DecisionRow]:
    """The decisions in force about facts with these keys."""
    return await fetch_rows(conn, DecisionRow, SELECT_DECISIONS, tenant, fact_keys)


async def insert_decision(conn: Connection, tenant: TenantId, decision: DecisionRow, *, reason: str, act: Act) -> None:
    """Decide which document to believe about a member; append an event to that document."""
    what = decision.fact_type, decision.fact_key, decision.member
    decision_id = clock.new_id()
    await conn.execute(INSERT_DECISION, tenant, decision_id, *what, decision.document_id, reason, act.at, act.actor_id)
    payload = dict(zip(("fact_type", "fact_key", "member"), what, strict=True))
    payload |= {"decision_id": str(decision_id), "reason": reason}
    await events.append_act(conn, act, tenant, "Document", decision.document_id, "CONFLICT_RESOLVED", payload)
