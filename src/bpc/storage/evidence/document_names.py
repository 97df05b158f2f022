"""What people change about a document: its name, and whether it takes new versions. Each change is on record."""

from dataclasses import replace
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.evidence.documents import DocumentRow

UPDATE_NAME_AND_ACTIVITY: Final[LiteralString] = """
    UPDATE documents SET name = $3, is_active = $4 WHERE tenant_id = $1 AND document_id = $2
"""


async def rename_document(
    conn: Connection, tenant: TenantId, document: DocumentRow, name: str, *, act: Act
) -> DocumentRow:
    """Give a document another name, and append an event if it is another. The document must be locked."""
    payload = {"to": name} if document.name is None else {"from": document.name, "to": name}
    return await _update_document(
        conn, tenant, document, replace(document, name=name), "DOCUMENT_RENAMED", payload, act
    )


async def set_document_activity(
    conn: Connection, tenant: TenantId, document: DocumentRow, *, is_active: bool, reason: str | None, act: Act
) -> DocumentRow:
    """Take new versions again, or none, and append an event if that is a change. The document must be locked."""
    payload = {} if reason is None else {"reason": reason}
    event_type = "DOCUMENT_REACTIVATED" if is_active else "DOCUMENT_DEACTIVATED"
    return await _update_document(
        conn, tenant, document, replace(document, is_active=is_active), event_type, payload, act
    )


async def _update_document(
    conn: Connection,
    tenant: TenantId,
    before: DocumentRow,
    after: DocumentRow,
    event_type: str,
    payload: dict[str, str],
    act: Act,
) -> DocumentRow:
    if after != before:
        await conn.execute(UPDATE_NAME_AND_ACTIVITY, tenant, after.document_id, after.name, after.is_active)
        await events.append_act(conn, act, tenant, "Document", after.document_id, event_type, payload)
    return after
