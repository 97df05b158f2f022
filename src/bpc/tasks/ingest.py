"""Ingest: a URL in, a document version out, as an upload makes it, and a job that reads its facts.

    download ──► detect the type ──► a version ──► PARSE_FACTS
       │  └─ interrupted: the next execution downloads the rest
       └─ into a file of the job's own, which is removed when the job ends

A job that fails is recorded on the document.

Bytes that were uploaded before make no second version: the document says them again, as after an upload.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

from service_jobs import Context, Handler, Handlers, JobError, JobQueue, Limit
from service_jobs.download import DownloadFailed, DownloadFile, DownloadResponse, OpenUrl, download, remove_download

from bpc.core.audit.events import Act
from bpc.core.errors import Invalid
from bpc.core.formats.file_types import clean_file_name, resolve_type
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import ActorId, DocumentId, DocumentVersionId, JobId, TenantId
from bpc.outbound import Guard, OutboundFailed
from bpc.outbound.folders import SCHEME, AllowedFolders
from bpc.outbound.guard import CHECK_SERVER_HINT
from bpc.pipeline.facts import ParseOrder
from bpc.pipeline.upload import FileUpload, upload
from bpc.runtime import clock
from bpc.storage.access import storage_quota
from bpc.storage.evidence import documents
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.webhooks.webhook_fanout import append_and_announce
from bpc.tasks.pdf_text import TextOrder, request_text

TIMEOUT_SECONDS: Final = 3600.0
INGEST_LIMIT: Final = Limit(key="ingest", at_most=2)  # so that one tenant's slow servers leave room for others
INGEST_JOB_TYPE: Final = "INGEST_DOCUMENT"
FOLDER: Final = "ingest"
FILE_ENDINGS: Final = (".csv", ".json", ".jsonld", ".pdf", ".tsv", ".txt", ".xls", ".xlsm", ".xlsx", ".xml", ".zip")
CHUNK_BYTES: Final = 65_536  # a broken connection loses at most this much
CHECKPOINT_EVERY: Final = 1.0  # seconds
ABANDONED_AFTER_SECONDS: Final = 3 * 86_400.0  # a file without a change for so long is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOrder:
    """The file to fetch. The URL may contain a secret: it is never shown."""

    document_id: DocumentId
    file_url: str
    mime_type: str | None
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The version with the bytes of the file. If it is not new it existed before, maybe in another document.

    `parse_job_id` is the job that reads its facts; None if the version is not new, or of a kind that is only stored.
    """

    document_version_id: DocumentVersionId
    document_id: DocumentId
    sha256: str
    bytes: int
    mime_type: str
    is_new: bool
    parse_job_id: JobId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSources:
    """Where files may come from: servers that the guard allows, and folders that the settings allow."""

    guard: Guard
    folders: AllowedFolders

    def require_allowed(self, url: str) -> None:
        """Refuse a URL that can never be fetched: `BadUrl` or OUTBOUND_BLOCKED."""
        if url.startswith(SCHEME):
            self.folders.locate_file(url)
        else:
            self.guard.check(url)

    def open_url(self, url: str, *, start: int, validator: str | None) -> AbstractAsyncContextManager[DownloadResponse]:
        open_source: OpenUrl = self.folders.open_url if url.startswith(SCHEME) else self.guard.open_url
        return open_source(url, start=start, validator=validator)


def declare_ingest_job(
    handlers: Handlers,
    *,
    sources: IngestSources,
    data_dir: Path,
    max_bytes: int,
    default_quota: int = 0,
    parse_job: Handler[ParseOrder, Any],
    text_job: Handler[TextOrder, Any],
) -> Handler[IngestOrder, IngestResult]:
    """The job INGEST_DOCUMENT. `default_quota` is what a tenant without a quota of its own may store; 0 is no limit."""
    folder = data_dir / FOLDER

    @handlers.job(
        INGEST_JOB_TYPE,
        timeout=TIMEOUT_SECONDS,
        subject=lambda order: make_subject("document", order.document_id),
        description="Fetches a file as a new version of a document.",
    )
    async def run(ctx: Context, order: IngestOrder) -> IngestResult:
        sources.require_allowed(order.file_url)  # the settings may have changed since the request
        file = await asyncio.to_thread(_prepare_file, folder, ctx.job_id)
        target = DownloadFile(
            url=order.file_url,
            dest=str(file),
            max_bytes=max_bytes,
            chunk_size=CHUNK_BYTES,
            label=_label_url(order.file_url),
        )
        try:
            await download(ctx, target, sources.open_url, checkpoint_every=CHECKPOINT_EVERY)
        except DownloadFailed as error:  # a fault of the other side
            raise OutboundFailed(error.says, fix=error.fix or CHECK_SERVER_HINT, details=error.details) from error
        content = await asyncio.to_thread(file.read_bytes)
        result = await store_version(ctx, order, content)
        await asyncio.to_thread(remove_download, file)
        return result

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        await asyncio.to_thread(remove_download, folder / str(ctx.job_id))
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        act, payload = Act(order.actor_id, clock.now()), describe_failure(ctx.job_id, error)
        await append_and_announce(conn, act, tenant, "Document", order.document_id, "DOCUMENT_INGEST_FAILED", payload)

    async def store_version(ctx: Context, order: IngestOrder, content: bytes) -> IngestResult:
        if not content:
            raise Invalid("the file is empty", fix="check what the URL returns, and use a URL of the document itself")
        mime_type = await asyncio.to_thread(resolve_type, order.mime_type, content)
        conn, tenant, queue = await ctx.transaction(), TenantId(ctx.tenant), JobQueue(ctx)
        act = Act(order.actor_id, clock.now())
        await storage_quota.require_room(conn, tenant, len(content), default=default_quota)
        file = FileUpload(content=content, mime_type=mime_type, file_name=_read_file_name(order.file_url))
        document = await upload(conn, queue, parse_job, tenant, order.document_id, file, act=act)
        await request_text(queue, text_job, document, content, act=act)
        version = await documents.get_document_version(conn, tenant, document.document_version_id)
        return IngestResult(
            document_version_id=version.document_version_id,
            document_id=version.document_id,
            sha256=to_hex(version.sha256),
            bytes=len(content),
            mime_type=version.mime_type,
            is_new=document.is_new,
            parse_job_id=document.job_id,
        )

    return run


def _read_file_name(url: str) -> str | None:
    """The name of the file in a URL; None if the last part of its path does not end like a document's name.

    Such a part may be a secret, as in the links of file-sharing services; so may the query.
    """
    name = clean_file_name(unquote(urlsplit(url).path))
    return name if name is not None and name.lower().endswith(FILE_ENDINGS) else None


def _label_url(url: str) -> str:
    """A URL as it may be shown: its server, and the name of the file if that is one."""
    parts = urlsplit(url)
    return f"`{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…/{_read_file_name(url) or ''}`"


def _prepare_file(folder: Path, job_id: UUID) -> Path:
    """The file of a job. Create its folder, and remove files that other jobs abandoned there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    cutoff = clock.now().timestamp() - ABANDONED_AFTER_SECONDS
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another job has just ended and removed its file
            if file.stat().st_mtime < cutoff:
                file.unlink()
    return folder / str(job_id)
