"""Texts of PDFs: found where there are any, and a file that would take too much is kept without one."""

import resource
import time
import zlib
from collections.abc import AsyncIterator, Callable
from io import BytesIO

import pytest
from pypdf import PdfReader, PdfWriter

from bpc.core.ids import TenantId
from bpc.db import document_texts
from bpc.db.database import Database
from bpc.db.document_texts import Text
from bpc.db.jobs import sessions_of
from bpc.errands import pdf_text
from bpc.errands.pdf_text import NoText, text_of
from bpc.errands.texts import TextOrder, has_text, request_text, texts_job
from bpc.jobs import Handlers, Jobs, Limited, Processes, RequestQueue
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import run_inline
from bpc.pipeline.facts import READING
from tests.measuring import Measured, allowed, effort
from tests.pipeline.supplied import a_version


def a_pdf(*pages: str, extra: bytes = b"", filtered: bytes | None = None) -> bytes:
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
    return _assembled(objects)


def _assembled(objects: list[bytes]) -> bytes:
    made, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    tail = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n".encode()
    return made + head + table + tail


def encrypted() -> bytes:
    writer, made = PdfWriter(PdfReader(BytesIO(a_pdf("secret")))), BytesIO()
    writer.encrypt("a password", algorithm="RC4-128")
    writer.write(made)
    return made.getvalue()


@pytest.fixture
async def reading() -> AsyncIterator[Limited]:
    processes = Processes(1, limits=READING)
    yield processes
    await processes.close()


async def the_text(database: Database, tenant: TenantId, content: bytes, reading: Limited) -> Text:
    """What is kept of a version with these bytes after its job has succeeded."""
    handler = texts_job(Handlers(), reading=reading)
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, content, kind="OTHER", mime_type="application/pdf")
        for _ in range(2):  # done again it changes nothing
            ran = await run_inline(handler, TextOrder(document_version_id=version), tenant=tenant, conn=conn)
            assert ran.ending is Ending.SUCCEEDED, ran.error
        return await document_texts.get(conn, tenant, version)


async def test_the_text_of_all_pages_is_kept(database: Database, tenant: TenantId, reading: Limited) -> None:
    text = await the_text(database, tenant, a_pdf("Carbon footprint 61 kg", "Page two"), reading)

    assert text == Text(pages=2, text="Carbon footprint 61 kg\fPage two")


def test_what_no_database_keeps_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_of(a_pdf("a\\000b")) == (1, "ab")

    monkeypatch.setattr(pdf_text, "MOST_CHARACTERS", 5)
    with pytest.raises(NoText, match="more than 5 characters"):
        text_of(a_pdf("123456"))
    monkeypatch.setattr(pdf_text, "MOST_PAGES", 1)
    with pytest.raises(NoText, match="has 2 pages, and at most 1 are read"):
        text_of(a_pdf("1", "2"))


async def test_a_pdf_that_gives_no_text_says_why(database: Database, tenant: TenantId, reading: Limited) -> None:
    assert await the_text(database, tenant, encrypted(), reading) == Text(problem="the file needs a password")
    damaged = await the_text(database, tenant, b"%PDF-1.7\nand nothing more", reading)
    assert (damaged.problem or "").startswith("the file is damaged: ")


def a_flate_bomb() -> bytes:
    return a_pdf("x", filtered=zlib.compress(bytes(260_000_000), 1))


def bombs_in_bombs() -> bytes:
    return a_pdf(*["x"] * 100, filtered=zlib.compress(b"(a) Tj " * 3_000_000, 1))


def deep_nesting() -> bytes:
    return _assembled([b"<< /Type /Catalog /Pages " + b"[" * 500_000 + b"]" * 500_000 + b" >>"])


def pages_in_a_circle() -> bytes:
    return _assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])


def many_operators() -> bytes:
    return a_pdf("x", extra=b" q Q" * 4_000_000)


def claims_many_pages() -> bytes:
    pages = b"<< /Type /Pages /Kids [" + b"3 0 R " * 1_000_000 + b"] /Count 9 >>"
    return _assembled([b"<< /Type /Catalog /Pages 2 0 R >>", pages, b"<< /Type /Page /Parent 2 0 R >>"])


SOME = [a_flate_bomb, deep_nesting, pages_in_a_circle, claims_many_pages]
BOMBS = [*SOME, bombs_in_bombs, many_operators]


@pytest.mark.parametrize("bomb", effort(test=SOME, shown=BOMBS, campaign=BOMBS))
async def test_a_bomb_is_kept_without_text_and_soon(
    database: Database, tenant: TenantId, reading: Limited, bomb: Callable[[], bytes], measured: Measured
) -> None:
    content = bomb()
    assert has_text(content)

    began = time.monotonic()
    text = await the_text(database, tenant, content, reading)
    seconds = time.monotonic() - began

    assert text.text is None
    assert text.problem is not None
    assert seconds < allowed(3.0)
    measured(
        f"pdf-bomb-{bomb.__name__.replace('_', '-')}",
        bytes=len(content),
        seconds=round(seconds, 2),
        most_megabytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    )


async def test_only_pdfs_are_worth_a_job(database: Database, tenant: TenantId) -> None:
    handlers = Handlers()
    job = texts_job(handlers, reading=Processes(1))
    async with sessions_of(database) as sessions, database.tenant(tenant) as conn:
        queue = RequestQueue(jobs=Jobs(handlers, sessions), conn=conn, tenant=tenant)
        version = await a_version(conn, tenant, b"{}")
        for content in (b"{}", b"%PDF-1.7", b"%PDF-1.7", b" %PDF-1.7"):
            await request_text(queue, job, version, content)

        assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'EXTRACT_TEXT'") == 1
