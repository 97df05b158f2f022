"""Documents for the tests of the steps."""

from collections.abc import Callable
from typing import Any, TypeVar

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents
from bpc.storage.evidence.documents import NO_OPTIONS, DocumentKind

T = TypeVar("T")


class InProcessReader:
    """Reads documents in this process: for those that a test has written itself."""

    async def run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], *, cpu_seconds: float | None = None
    ) -> T:
        return function(*arguments)


async def create_unread_version(
    conn: Connection,
    tenant: TenantId,
    content: bytes,
    *,
    kind: DocumentKind = "BOM",
    mime_type: str = "application/json",
    read_options: bytes = NO_OPTIONS,
) -> DocumentVersionId:
    """A document version that was uploaded and not read yet."""
    act = Act(None, clock.now())
    document = await documents.create_document(conn, tenant, kind=kind, external_ref=None, act=act)
    version = DocumentVersionId(clock.new_id())
    await documents.insert_document_version(
        conn,
        tenant,
        document.document_id,
        version,
        mime_type=mime_type,
        sha256=sha256(content),
        content=content,
        read_options=read_options,
        at=act.at,
    )
    return version
