"""Specification of PDF texts: stored if there is text; a file that exceeds a limit is stored without text."""

import resource
import time
import zlib
from collections.abc import AsyncIterator, Callable
from io import BytesIO

import pytest
from pypdf import PdfReader, PdfWriter
from service_jobs import Handlers, Jobs, LimitedProcesses, ProcessPool, RequestQueue
from service_jobs.job import Ending
from service_jobs.testing import run_inline

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentId, DocumentVersionId, TenantId
from bpc.pipeline.facts import READ_LIMITS
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.evidence import parse_results
from bpc.storage.evidence.documents import UploadedDocument
from bpc.storage.evidence.parse_results import DocumentTextRow
from bpc.storage.jobs import open_job_sessions
from bpc.tasks import pdf_text
from bpc.tasks.pdf_text import NoText, TextOrder, declare_text_job, extract_text, is_pdf, request_text
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.pipeline.document_fixtures import create_unread_version


def make_pdf(*pages: str, extra: bytes = b"", filtered: bytes | None = None) -> bytes:
    """The smallest honest PDF with these lines of text, one a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, line in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode() + extra
        length = f"<< /Length {len(drawn)} >>".encode()
        if filtered is not None:
            drawn, length = filtered, f"<< /Length {len(filtered)} /Filter /FlateDecode >>".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(length + b"\nstream\n" + drawn + b"\nendstream")
    return _assemble_pdf(objects)


def _assemble_pdf(objects: list[bytes]) -> bytes:
    pdf_bytes, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(pdf_bytes))
        pdf_bytes += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    tail = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(pdf_bytes)}\n%%EOF\n".encode()
    return pdf_bytes + head + table + tail


def make_encrypted_pdf() -> bytes:
    writer, buffer = PdfWriter(PdfReader(BytesIO(make_pdf("secret")))), BytesIO()
    writer.encrypt("a password", algorithm="RC4-128")
    writer.write(buffer)
    return buffer.getvalue()


@pytest.fixture
async def reader_pool() -> AsyncIterator[LimitedProcesses]:
    processes = ProcessPool(1, limits=READ_LIMITS)
    yield processes
    await processes.close()


async def read_text(database: Database, tenant: TenantId, content: bytes, reading: LimitedProcesses) -> DocumentTextRow:
    """What is kept of a version with these bytes after its job has succeeded."""
    handler = declare_text_job(Handlers(), reader_pool=reading)
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, content, kind="OTHER", mime_type="application/pdf")
        for _ in range(2):  # done again it changes nothing
            ran = await run_inline(handler, TextOrder(document_version_id=version), tenant=tenant, conn=conn)
            assert ran.ending is Ending.SUCCEEDED, ran.error
        return await parse_results.get_text(conn, tenant, version)


async def test_the_text_of_all_pages_is_stored(
    database: Database, tenant: TenantId, reader_pool: LimitedProcesses
) -> None:
    text = await read_text(database, tenant, make_pdf("Carbon footprint 61 kg", "Page two"), reader_pool)

    assert text == DocumentTextRow(pages=2, text="Carbon footprint 61 kg\fPage two")


def test_characters_that_the_database_cannot_store_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extract_text(make_pdf("a\\000b")) == (1, "ab")

    monkeypatch.setattr(pdf_text, "MAX_CHARACTERS", 5)
    with pytest.raises(NoText, match="more than 5 characters"):
        extract_text(make_pdf("123456"))
    monkeypatch.setattr(pdf_text, "MAX_PAGES", 1)
    with pytest.raises(NoText, match="has 2 pages, and at most 1 are read"):
        extract_text(make_pdf("1", "2"))


async def test_a_pdf_without_text_has_the_reason(
    database: Database, tenant: TenantId, reader_pool: LimitedProcesses
) -> None:
    assert await read_text(database, tenant, make_encrypted_pdf(), reader_pool) == DocumentTextRow(
        problem="the file needs a password"
    )
    damaged = await read_text(database, tenant, b"%PDF-1.7\nand nothing more", reader_pool)
    assert (damaged.problem or "").startswith("the file is damaged: ")


def make_flate_bomb() -> bytes:
    return make_pdf("x", filtered=zlib.compress(bytes(260_000_000), 1))


def make_nested_bombs() -> bytes:
    return make_pdf(*["x"] * 100, filtered=zlib.compress(b"(a) Tj " * 3_000_000, 1))


def make_deep_nesting() -> bytes:
    return _assemble_pdf([b"<< /Type /Catalog /Pages " + b"[" * 500_000 + b"]" * 500_000 + b" >>"])


def make_page_cycle() -> bytes:
    return _assemble_pdf([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])


def make_many_operators() -> bytes:
    return make_pdf("x", extra=b" q Q" * 4_000_000)


def make_false_page_count() -> bytes:
    pages = b"<< /Type /Pages /Kids [" + b"3 0 R " * 1_000_000 + b"] /Count 9 >>"
    return _assemble_pdf([b"<< /Type /Catalog /Pages 2 0 R >>", pages, b"<< /Type /Page /Parent 2 0 R >>"])


SOME = [make_flate_bomb, make_deep_nesting, make_page_cycle, make_false_page_count]
BOMBS = [*SOME, make_nested_bombs, make_many_operators]


@pytest.mark.parametrize("bomb", choose_effort(test=SOME, shown=BOMBS, campaign=BOMBS))
async def test_a_pdf_bomb_is_stored_without_text_within_the_time_limit(
    database: Database,
    tenant: TenantId,
    reader_pool: LimitedProcesses,
    bomb: Callable[[], bytes],
    record_measurement: RecordMeasurement,
) -> None:
    content = bomb()
    assert is_pdf(content)

    began = time.monotonic()
    text = await read_text(database, tenant, content, reader_pool)
    seconds = time.monotonic() - began

    assert text.text is None
    assert text.problem is not None
    assert seconds < allow_seconds(3.0)
    record_measurement(
        f"pdf-bomb-{bomb.__name__.replace('_', '-')}",
        bytes=len(content),
        seconds=round(seconds, 2),
        most_megabytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    )


def make_upload(version: DocumentVersionId, *, is_new: bool = True, is_stored: bool = True) -> UploadedDocument:
    return UploadedDocument(
        document_id=DocumentId(clock.new_id()),
        document_version_id=version,
        version=1,
        sha256=sha256(b""),
        status="UPLOADED",
        job_id=None,
        is_new=is_new,
        is_stored=is_stored,
    )


async def test_only_a_pdf_that_was_stored_gets_a_job(database: Database, tenant: TenantId, act: Act) -> None:
    handlers = Handlers()
    job = declare_text_job(handlers, reader_pool=ProcessPool(1))
    async with open_job_sessions(database) as sessions, database.tenant(tenant) as conn:
        queue = RequestQueue(jobs=Jobs(handlers, sessions), conn=conn, tenant=tenant)
        version = await create_unread_version(conn, tenant, b"{}")
        for content in (b"{}", b"%PDF-1.7", b"%PDF-1.7", b" %PDF-1.7"):
            await request_text(queue, job, make_upload(version), content, act=act)
        count = "SELECT count(*) FROM jobs.job WHERE type = 'EXTRACT_TEXT'"
        assert await conn.fetchval(count) == 1
        await request_text(queue, job, make_upload(version, is_new=False), b"%PDF-1.7", act=act)
        assert await conn.fetchval(count) == 2, "bytes that come back have no text any more"
        await request_text(queue, job, make_upload(version, is_new=False, is_stored=False), b"%PDF-1.7", act=act)
        assert await conn.fetchval(count) == 2
