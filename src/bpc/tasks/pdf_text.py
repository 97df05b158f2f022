"""Text of PDFs: a document version in, its text stored beside it, for search. Facts are read from other formats.

If a PDF has no text, or needs too much time or memory, the reason is stored in place of the text and the job succeeds.
Text that is only in a picture is not read.
"""

import logging
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from service_jobs import LOW, Context, Handler, Handlers, LimitedProcesses, LimitExceeded, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.documents.fact_members import UNSTORABLE
from bpc.core.formats.file_types import PDF_MARK
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.storage.evidence import documents, parse_results
from bpc.storage.evidence.documents import UploadedDocument
from bpc.storage.evidence.parse_results import DocumentTextRow
from bpc.storage.jobs import make_subject

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES: Final = 2_000
MAX_CHARACTERS: Final = 5_000_000
MAX_CPU_SECONDS: Final = 2.0
PRIORITY: Final = LOW  # after all jobs that somebody waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrder:
    """The document version whose text is extracted."""

    document_version_id: DocumentVersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOutcome:
    """The text that is stored: its pages and characters; or why there is none."""

    document_version_id: DocumentVersionId
    pages: int | None
    characters: int
    problem: str | None


class NoText(Exception):
    """Why a PDF has no text, in words for the user."""


def extract_text(content: bytes) -> tuple[int, str]:
    """The number of pages, and their text with form feeds between them. Raises `NoText`."""
    from pypdf import PdfReader  # noqa: PLC0415 (large, and only needed in the child)

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it logs every small mistake of a file
    try:
        return _read_pages(PdfReader(BytesIO(content)))
    except (NoText, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (a broken file breaks its reader in any way)
        raise NoText(f"the file is damaged: {type(error).__name__}") from None


def _read_pages(reader: "PdfReader") -> tuple[int, str]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise NoText("the file needs a password")
    count = len(reader.pages)
    if count > MAX_PAGES:
        raise NoText(f"the file has {count:,} pages, and at most {MAX_PAGES:,} are read")
    pages, characters_left = list[str](), MAX_CHARACTERS
    for page in reader.pages:
        pages.append(UNSTORABLE.sub("", page.extract_text()))
        characters_left -= len(pages[-1]) + 1
        if characters_left < 0:
            raise NoText(f"the file has more than {MAX_CHARACTERS:,} characters")
    return count, "\f".join(pages)


def declare_text_job(handlers: Handlers, *, reader_pool: LimitedProcesses) -> Handler[TextOrder, TextOutcome]:
    """The job EXTRACT_TEXT. `reader_pool` are child processes with limits, because PDFs are untrusted."""

    @handlers.job(
        "EXTRACT_TEXT",
        subject=lambda order: make_subject("document_version", order.document_version_id),
        description="Extracts the text of an uploaded PDF.",
    )
    async def run(ctx: Context, order: TextOrder) -> TextOutcome:
        tenant, version = TenantId(ctx.tenant), order.document_version_id
        conn = await ctx.transaction()
        row = await documents.load_content(conn, tenant, version)
        if row.content is None or not is_pdf(row.content):
            problem = "the content was removed" if row.content is None else "it is not a PDF"
            return TextOutcome(document_version_id=version, pages=None, characters=0, problem=problem)
        if await parse_results.has_text(conn, tenant, version):
            text = await parse_results.get_text(conn, tenant, version)
        else:
            text = await _read_text(reader_pool, row.content)
            await parse_results.insert_text(conn, tenant, version, text)
        return TextOutcome(
            document_version_id=version, pages=text.pages, characters=len(text.text or ""), problem=text.problem
        )

    return run


def is_pdf(content: bytes) -> bool:
    """Whether the content is a PDF."""
    return content.startswith(PDF_MARK)


async def request_text(
    queue: SubmitQueue, job: Handler[TextOrder, Any], document: UploadedDocument, content: bytes, *, act: Act
) -> None:
    """Submit the job that extracts the text of what an upload stored, if it is a PDF."""
    version = document.document_version_id
    if document.is_stored and is_pdf(content):
        # The text of a version whose bytes come back was removed with them, and its first job is over.
        key = f"text:{version}" if document.is_new else f"text:{version}:{format_time(act.at)}"
        await queue.submit(job, TextOrder(document_version_id=version), key=key, priority=PRIORITY)


async def _read_text(reader_pool: LimitedProcesses, content: bytes) -> DocumentTextRow:
    try:
        pages, text = await reader_pool.run(extract_text, (content,), cpu_seconds=MAX_CPU_SECONDS)
    except NoText as error:
        return DocumentTextRow(problem=str(error))
    except LimitExceeded as limit:
        return DocumentTextRow(problem=f"reading the file {limit.says}")
    return DocumentTextRow(pages=pages, text=text)
