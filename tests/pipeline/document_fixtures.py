"""What tests of the steps begin with."""

from collections.abc import Callable
from typing import Any, TypeVar

from bpc import fresh
from bpc.core.digest import sha256
from bpc.core.events import Act
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db import documents
from bpc.db.connection import Connection
from bpc.db.documents import Kind

T = TypeVar("T")


class Here:
    """Reads documents in this process: for those that a test has written itself."""

    async def run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], *, cpu_seconds: float | None = None
    ) -> T:
        return function(*arguments)


async def a_version(
    conn: Connection, tenant: TenantId, content: bytes, *, kind: Kind = "BOM", mime_type: str = "application/json"
) -> DocumentVersionId:
    """A document version that was uploaded and not read yet."""
    act = Act(None, fresh.now())
    document = await documents.create(conn, tenant, kind=kind, external_ref=None, act=act)
    version = DocumentVersionId(fresh.new_id())
    await documents.add_version(
        conn,
        tenant,
        document.document_id,
        version,
        mime_type=mime_type,
        sha256=sha256(content),
        content=content,
        at=act.at,
    )
    return version
