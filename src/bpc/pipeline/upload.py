"""Upload, the first step: bytes in, a document version out, and a job that reads its facts.

What was uploaded never changes. The same bytes are one version, whoever sends them and however often, unless they were
rejected: then they may come again, as a document of another kind or to a build that reads them.
"""

import asyncio
from typing import Final

from bpc import fresh
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Conflict
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, DocumentId, DocumentVersionId, JobId, TenantId
from bpc.db import documents, events
from bpc.db.connection import Connection
from bpc.db.documents import Uploaded
from bpc.jobs import NORMAL, Handler, Queue
from bpc.pipeline.facts import ParseOrder

NOT_PARSED: Final = "OTHER"


class BytesKnown(Conflict):
    """These bytes are a version already."""

    def __init__(self, version: DocumentVersionId, document: DocumentId) -> None:
        super().__init__(
            "these bytes have been uploaded before",
            fix="use the version that is there",
            details={"document_version_id": str(version), "document_id": str(document)},
        )
        self.version = version
        self.document = document


async def upload(
    conn: Connection,
    queue: Queue,
    parse: Handler[ParseOrder, None],
    tenant: TenantId,
    document: DocumentId,
    *,
    mime_type: str,
    content: bytes,
    act: Act,
) -> Uploaded:
    """Add a version to a document, on record, and have it parsed unless its kind is stored only."""
    digest = await asyncio.to_thread(sha256, content)
    kind = await documents.locked_kind(conn, tenant, document)
    await _require_new(conn, tenant, digest)
    version_id = DocumentVersionId(fresh.new_id())
    version = await documents.add_version(
        conn, tenant, document, version_id, mime_type=mime_type, sha256=digest, content=content, at=act.at
    )
    if version is None:  # whoever was first has committed, or we would still be waiting
        await _require_new(conn, tenant, digest)
        raise Conflict("these bytes have been uploaded before", fix="use the version that is there")
    payload = {
        "document_id": str(document),
        "version": version,
        "mime_type": mime_type,
        "sha256": to_hex(digest),
        "bytes": len(content),
    }
    stream = Stream(tenant, "DocumentVersion", AggregateId(version_id))
    await events.append(conn, stream, act.says("DOCUMENT_UPLOADED", payload))
    job_id = None
    if kind != NOT_PARSED:
        order = ParseOrder(document_version_id=version_id, actor_id=act.actor_id)
        job_id = JobId(await queue.submit(parse, order, key=f"parse:{version_id}", priority=NORMAL))
    return Uploaded(document_version_id=version_id, version=version, sha256=digest, status="UPLOADED", job_id=job_id)


async def _require_new(conn: Connection, tenant: TenantId, digest: Digest) -> None:
    if known := await documents.with_bytes(conn, tenant, digest):
        raise BytesKnown(*known)
