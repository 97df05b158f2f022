"""Upload, the first step: bytes in, a document version out, and a job that reads its facts.

An uploaded version never changes, and the same bytes are one version, no matter who sends them or how often. An upload
also states something: from now on the document says what this version says (`storage.evidence.statements`).

    bytes ┬─ new ──────────────────────────► a version, a statement, a job that reads it
          ├─ those of another statement ───► a statement: it is said again, now
          └─ those of the newest statement ► nothing changes

Bytes that were rejected are new: as a document of another kind, or in a build that can read them, they may be accepted.
"""

import asyncio
from typing import Final

from service_jobs import NORMAL, Handler, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import DocumentId, DocumentVersionId, JobId, TenantId
from bpc.pipeline.facts import ParseOrder
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents, statements
from bpc.storage.evidence.documents import DocumentKind, UploadedDocument, VersionWithHash
from bpc.storage.evidence.statements import StatementRow

NOT_PARSED: Final = "OTHER"


class OtherKind(Conflict):
    """The bytes were read as a document of another kind, so this document cannot say what they say."""

    def __init__(self, version: VersionWithHash) -> None:
        super().__init__(
            f"these bytes have been uploaded before, as a document of kind {version.kind}",
            fix="upload them to a document of that kind, or use the existing version",
            details={
                "document_version_id": str(version.document_version_id),
                "document_id": str(version.document_id),
                "kind": version.kind,
            },
        )


async def upload(
    conn: Connection,
    queue: SubmitQueue,
    parse: Handler[ParseOrder, None],
    tenant: TenantId,
    document: DocumentId,
    *,
    mime_type: str,
    content: bytes,
    act: Act,
) -> UploadedDocument:
    """Let a document say what these bytes say, and submit the job that reads them. A document OTHER is only stored."""
    digest = await asyncio.to_thread(sha256, content)
    kind = await documents.lock_document(conn, tenant, document)
    version = await documents.find_version_by_hash(conn, tenant, digest)
    is_new = False
    if version is None:
        version, is_new = await _insert_version(conn, tenant, document, kind, mime_type, digest, content, act)
    if version.kind != kind:
        raise OtherKind(version)
    newest = await statements.find_newest_statement(conn, tenant, document)
    if newest is None or newest.document_version_id != version.document_version_id:
        await statements.insert_statement(conn, tenant, document, version.document_version_id, act=act)
    job_id = None
    if version.status == "UPLOADED" and kind != NOT_PARSED:
        order = ParseOrder(document_version_id=version.document_version_id, actor_id=act.actor_id)
        job_id = JobId(await queue.submit(parse, order, key=f"parse:{version.document_version_id}", priority=NORMAL))
    return UploadedDocument(
        document_version_id=version.document_version_id,
        version=version.version,
        sha256=digest,
        status=version.status,
        job_id=job_id,
        is_new=is_new,
    )


async def withdraw(conn: Connection, tenant: TenantId, document: DocumentId, *, reason: str, act: Act) -> StatementRow:
    """Let a document say nothing any more. Its versions and facts stay; they no longer count by this document."""
    await documents.lock_document(conn, tenant, document)
    newest = await statements.find_newest_statement(conn, tenant, document)
    if newest is None:
        raise Conflict(f"document `{document}` says nothing: it has no version", fix="upload a version first")
    if newest.document_version_id is None:
        raise Conflict(f"document `{document}` is withdrawn already", fix="upload a version to let it say something")
    return await statements.insert_statement(conn, tenant, document, None, reason=reason, act=act)


async def _insert_version(
    conn: Connection,
    tenant: TenantId,
    document: DocumentId,
    kind: DocumentKind,
    mime_type: str,
    digest: Digest,
    content: bytes,
    act: Act,
) -> tuple[VersionWithHash, bool]:
    """The version with these bytes, and whether it is new: another upload may just have committed the same bytes."""
    version_id = DocumentVersionId(clock.new_id())
    number = await documents.insert_document_version(
        conn, tenant, document, version_id, mime_type=mime_type, sha256=digest, content=content, at=act.at
    )
    if number is None:
        version = await documents.find_version_by_hash(conn, tenant, digest)
        if version is None:
            raise Conflict("the same bytes were uploaded and rejected just now", fix="upload them again")
        return version, False
    payload = {
        "document_id": str(document),
        "version": number,
        "mime_type": mime_type,
        "sha256": to_hex(digest),
        "bytes": len(content),
    }
    await events.append_act(conn, act, tenant, "DocumentVersion", version_id, "DOCUMENT_UPLOADED", payload)
    version = VersionWithHash(
        document_version_id=version_id, document_id=document, kind=kind, version=number, status="UPLOADED"
    )
    return version, True
