"""Texts of PDFs: a document version in, its text beside it, so that people find it; facts are read from other formats.

A PDF that gives no text, or would take too much time or memory, is kept as it is, and why it has no text stands in its
place: that is a job that succeeded.
"""

from typing import Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc.core.file_types import PDF_MARK
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db import document_texts, documents
from bpc.db.document_texts import Text
from bpc.errands.pdf_text import NoText, text_of
from bpc.jobs import LOW, Context, Handler, Handlers, Limited, LimitExceeded, Queue

SECONDS: Final = 2.0  # on a processor
PRIORITY: Final = LOW  # behind everything that somebody waits for


@dataclass(frozen=True, kw_only=True)
class TextOrder:
    """Of which version."""

    document_version_id: UUID


def texts_job(handlers: Handlers, *, reading: Limited) -> Handler[TextOrder, None]:
    """`reading` are child processes with limits: a PDF comes from strangers."""

    @handlers.job("EXTRACT_TEXT")
    async def run(ctx: Context, order: TextOrder) -> None:
        tenant, version = TenantId(ctx.tenant), DocumentVersionId(order.document_version_id)
        conn = await ctx.transaction()
        found = await documents.content(conn, tenant, version)
        if found.content is None or not has_text(found.content):
            return
        if not await document_texts.is_there(conn, tenant, version):
            await document_texts.add(conn, tenant, version, await _read(reading, found.content))

    return run


def has_text(content: bytes) -> bool:
    """Whether it is worth a job."""
    return content.startswith(PDF_MARK)


async def request_text(queue: Queue, job: Handler[TextOrder, None], version: DocumentVersionId, content: bytes) -> None:
    """Have the text of a version read, if it may have one."""
    if has_text(content):
        await queue.submit(job, TextOrder(document_version_id=version), key=f"text:{version}", priority=PRIORITY)


async def _read(reading: Limited, content: bytes) -> Text:
    try:
        pages, text = await reading.run(text_of, (content,), cpu_seconds=SECONDS)
    except NoText as none:
        return Text(problem=str(none))
    except LimitExceeded as beyond:
        return Text(problem=f"reading the file {beyond.says}")
    return Text(pages=pages, text=text)
