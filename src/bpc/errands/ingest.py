"""Ingest: a URL in, a document version out, exactly as an upload makes it, and a job that reads its facts.

    download ──► what it is ──► a version ──► PARSE_FACTS
       │  └─ interrupted: the next execution asks for the rest
       └─ into a file of the job's own, which is gone when the job has ended

The same bytes again are no mistake here: the job succeeds and names the version that has them.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.digest import to_hex
from bpc.core.errors import Invalid
from bpc.core.events import Act
from bpc.core.file_types import checked_type
from bpc.core.ids import DocumentId, DocumentVersionId, JobId, TenantId
from bpc.db import documents
from bpc.db.connection import Connection
from bpc.errands.texts import TextOrder, request_text
from bpc.jobs import Context, Handler, Handlers, JobError, JobQueue, Limit, Queue
from bpc.jobs.download import DownloadFailed, DownloadFile, OpenUrl, Response, download, remove_download
from bpc.outbound import Guard, OutboundFailed
from bpc.outbound.answers import LOOK
from bpc.outbound.folders import SCHEME, Folders

LONGEST: Final = 3600.0  # seconds
LIMIT: Final = Limit(key="ingest", at_most=2)  # one tenant's slow servers leave room for others
FOLDER: Final = "ingest"
AT_ONCE: Final = 65_536  # bytes that are lost at most when a connection breaks
CHECKPOINT_EVERY: Final = 1.0  # seconds
FORGOTTEN_AFTER: Final = 3 * 86_400.0  # seconds without a change, after which nobody goes on with a file


@dataclass(frozen=True, kw_only=True)
class IngestOrder:
    """The URL may hold a secret: it is shown to nobody."""

    document_id: UUID
    file_url: str
    mime_type: str | None
    actor_id: UUID | None


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """The version with the bytes of the file. It was there before if it is not new, maybe of another document.

    `parse_job_id` is the job that reads its facts, if it is new and of a kind that is read.
    """

    document_version_id: UUID
    document_id: UUID
    sha256: str
    bytes: int
    mime_type: str
    is_new: bool
    parse_job_id: UUID | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A version, its document, and the job that reads its facts."""

    document_version_id: DocumentVersionId
    document_id: DocumentId
    is_new: bool
    parse_job_id: JobId | None = None


class AddVersion(Protocol):
    """The upload, in the transaction of `conn`; bytes that are known are no refusal."""

    async def __call__(
        self,
        conn: Connection,
        queue: Queue,
        tenant: TenantId,
        document: DocumentId,
        *,
        mime_type: str,
        content: bytes,
        act: Act,
    ) -> Added: ...


class FileEmpty(Invalid):
    """There is nothing at the URL."""

    def __init__(self) -> None:
        super().__init__("the file is empty", fix="look at what the URL gives, and name one that gives the document")


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where files may come from: the guarded way out, and folders that are open to this."""

    guard: Guard
    folders: Folders

    def check(self, url: str) -> None:
        """Refuse a URL that says by itself that nothing will come of it: `BadUrl` or OUTBOUND_BLOCKED."""
        if url.startswith(SCHEME):
            self.folders.checked(url)
        else:
            self.guard.check(url)

    def open_url(self, url: str, *, start: int, validator: str | None) -> AbstractAsyncContextManager[Response]:
        opened: OpenUrl = self.folders.open_url if url.startswith(SCHEME) else self.guard.open_url
        return opened(url, start=start, validator=validator)


def ingest_job(
    handlers: Handlers,
    *,
    sources: Sources,
    data_dir: Path,
    max_bytes: int,
    add_version: AddVersion,
    then: Handler[TextOrder, None],
) -> Handler[IngestOrder, Ingested]:
    folder = data_dir / FOLDER

    @handlers.job("INGEST_DOCUMENT", timeout=LONGEST)
    async def run(ctx: Context, order: IngestOrder) -> Ingested:
        sources.check(order.file_url)  # the settings may have changed
        file = await asyncio.to_thread(_place, folder, ctx.job_id)
        wanted = DownloadFile(url=order.file_url, dest=str(file), max_bytes=max_bytes, chunk_size=AT_ONCE)
        try:
            await download(ctx, wanted, sources.open_url, checkpoint_every=CHECKPOINT_EVERY)
        except DownloadFailed as failed:  # what the other side did, and nothing else
            raise OutboundFailed(failed.says, fix=failed.fix or LOOK, details=failed.details) from failed
        content = await asyncio.to_thread(file.read_bytes)
        made = await _version(ctx, order, content)
        await asyncio.to_thread(remove_download, file)
        return made

    @run.on_failure
    async def tidy(ctx: Context, _: JobError) -> None:
        await asyncio.to_thread(remove_download, folder / str(ctx.job_id))

    async def _version(ctx: Context, order: IngestOrder, content: bytes) -> Ingested:
        if not content:
            raise FileEmpty
        mime_type = await asyncio.to_thread(checked_type, order.mime_type, content)
        conn, tenant, queue = await ctx.transaction(), TenantId(ctx.tenant), JobQueue(ctx)
        act = Act.ordered_by(order.actor_id, fresh.now())
        added = await add_version(
            conn, queue, tenant, DocumentId(order.document_id), mime_type=mime_type, content=content, act=act
        )
        if added.is_new:
            await request_text(queue, then, added.document_version_id, content)
        kept = await documents.version(conn, tenant, added.document_version_id)
        return Ingested(
            document_version_id=added.document_version_id,
            document_id=added.document_id,
            sha256=to_hex(kept.sha256),
            bytes=len(content),
            mime_type=kept.mime_type,
            is_new=added.is_new,
            parse_job_id=added.parse_job_id,
        )

    return run


def _place(folder: Path, job_id: UUID) -> Path:
    """The file of a job, in a folder that is there; what jobs have left there that nobody goes on with is removed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    long_ago = fresh.now().timestamp() - FORGOTTEN_AFTER
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another job has just ended, and its file is gone
            if file.stat().st_mtime < long_ago:
                file.unlink()
    return folder / str(job_id)
