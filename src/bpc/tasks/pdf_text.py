"""Text of PDFs: a document version in, its text stored beside it, for search. Facts are read from other formats.

If a PDF has no text, or needs too much time or memory, the reason is stored in place of the text and the job succeeds.
Text that is only in a picture is not read.
"""

import logging
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from service_jobs import LOW, Context, Handler, Handlers, LimitedProcesses, LimitExceeded, SubmitQueue

from bpc.core.documents.fact_members import UNSTORABLE
from bpc.core.formats.file_types import PDF_MARK
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.storage.evidence import documents, parse_results
from bpc.storage.evidence.parse_results import DocumentTextRow

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


def declare_text_job(handlers: Handlers, *, reader_pool: LimitedProcesses) -> Handler[TextOrder, None]:
    """The job EXTRACT_TEXT. `reader_pool` are child processes with limits, because PDFs are untrusted."""

    @handlers.job("EXTRACT_TEXT")
    async def run(ctx: Context, order: TextOrder) -> None:
        tenant, version = TenantId(ctx.tenant), order.document_version_id
        conn = await ctx.transaction()
        row = await documents.load_content(conn, tenant, version)
        if row.content is None or not is_pdf(row.content):
            return
        if not await parse_results.has_text(conn, tenant, version):
            await parse_results.insert_text(conn, tenant, version, await _read_text(reader_pool, row.content))

    return run


def is_pdf(content: bytes) -> bool:
    """Whether the content is a PDF."""
    return content.startswith(PDF_MARK)


async def request_text(
    queue: SubmitQueue, job: Handler[TextOrder, None], version: DocumentVersionId, content: bytes
) -> None:
    """Submit the job that extracts the text of a version, if it is a PDF."""
    if is_pdf(content):
        await queue.submit(job, TextOrder(document_version_id=version), key=f"text:{version}", priority=PRIORITY)


async def _read_text(reader_pool: LimitedProcesses, content: bytes) -> DocumentTextRow:
    try:
        pages, text = await reader_pool.run(extract_text, (content,), cpu_seconds=MAX_CPU_SECONDS)
    except NoText as error:
        return DocumentTextRow(problem=str(error))
    except LimitExceeded as exceeded:
        return DocumentTextRow(problem=f"reading the file {exceeded.says}")
    return DocumentTextRow(pages=pages, text=text)
