"""Printing: PDF/A, the same bytes everywhere, and nothing that a passport says is ever taken for markup."""

import io
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from bpc.core.audit.signing import to_base64
from bpc.core.exports.disclosure import disclose
from bpc.core.exports.sheet import build_sheet
from bpc.core.formats.hashes import sha256, to_hex
from bpc.printing import print_pdf, render_export
from tests.core.exports.example_bundles import CASES, compile_example
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

AT = datetime(2027, 2, 18, tzinfo=UTC)
PRINT = """
import sys
from bpc.core.passport.bundle import read_bundle
from bpc.core.formats.hashes import sha256, to_hex
from bpc.printing import render_export
print(to_hex(sha256(render_export(read_bundle(open(sys.argv[1], "rb").read()), "PDF", "public"))))
"""
HOSTILE = [
    '#read("/etc/passwd")',
    '#import "@preview/evil:1.0.0": *',
    "#sys.inputs",
    "$ x^2 $ *bold* _it_ `raw` <label> @ref = heading - item // comment /* more */ \\ \\u{41} ~ -- ---",
    '") #panic("out")',
    "[#image(bytes((1,2)))]",
]


def test_a_revoked_passport_says_so_on_every_page() -> None:
    bundle = compile_example("reference-2")
    marked = PdfReader(io.BytesIO(render_export(bundle, "PDF", "public", revoked_at=AT)))
    plain = PdfReader(io.BytesIO(render_export(bundle, "PDF", "public")))

    assert len(marked.pages) > 1
    assert ["Revoked on 18 February 2027" in page.extract_text() for page in marked.pages] == [True] * len(marked.pages)
    assert not any("Revoked" in page.extract_text() for page in plain.pages)


def make_sheet(**changes: Any) -> Mapping[str, Any]:
    return {**build_sheet(disclose(compile_example("example-first"), "public")), **changes}


def make_sheet_saying(text: str) -> Mapping[str, Any]:
    """A sheet that says `text` wherever a passport may say anything."""
    entry = {"status": "WARN", "says": "Warning", "code": text, "message": text, "verdict": text, "cite": text}
    cell = {"text": text, "href": ""}
    row = {"label": text, "cite": text, "note": text, "values": [cell, {**cell, "href": "https://example.com/?a"}]}
    table = {"label": text, "cite": "", "note": "", "columns": [text, text], "cells": [[cell, cell]]}
    return make_sheet(
        title=text,
        maker=text,
        model=text,
        category=text,
        head=[{"label": text, "value": text}],
        state={"status": "WARN", "says": text, "counts": text},
        figures=[{"label": text, "value": text}],
        checks=[entry],
        sections=[{"title": text, "rows": [row, table], "empty": text, "exempt": text}],
        hidden={"count": text, "groups": [{"audience": text, "points": text}]},
        names=[{"label": "Key", "value": text}],
    )


def extract_text(document: bytes) -> str:
    """What a reader copies out of the document, with the places where lines may break taken out."""
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(document)).pages]
    return "".join("".join(pages).split()).replace("\N{ZERO WIDTH SPACE}", "")


def test_a_print_says_how_many_entries_were_waived_and_nothing_if_none_was() -> None:
    bundle = compile_example("example-first")

    printed = {waived: extract_text(render_export(bundle, "PDF", "public", waived_count=waived)) for waived in (0, 2)}

    assert "theissuerwaived,withareasononrecord:2" in printed[2]
    assert "waived" not in printed[0]


def test_a_print_shows_product_values_hashes_and_key() -> None:
    disclosed_passport = disclose(compile_example("reference-2"), "public")

    pdf_text = extract_text(render_export(compile_example("reference-2"), "PDF", "public"))

    for text in (
        disclosed_passport.product["name"],
        disclosed_passport.product["sku"],
        "everybody (85 of 151 fields)",
        "NMC811",
        "480.5 kg",
        "Recycled · cobalt · post",
        "mΩ",
        str(disclosed_passport.receipt.passport_version_id),
        to_hex(disclosed_passport.receipt.payload_hash),
        to_hex(disclosed_passport.receipt.proof_root_hash),
        to_hex(disclosed_passport.receipt.hash()),
        disclosed_passport.receipt.signing_key_id,
        "bpc verify FILE --key PUBLIC-KEY",
        "Page 1 of 4",
    ):
        assert text.replace(" ", "").replace("'", "’") in pdf_text.replace("'", "’"), text


def test_what_people_copy_is_copied_whole() -> None:
    disclosed_passport = disclose(compile_example("example-first"), "public")

    pages = PdfReader(io.BytesIO(render_export(compile_example("example-first"), "PDF", "public"))).pages
    copied = pages[0].extract_text()

    for text in (
        to_hex(disclosed_passport.receipt.payload_hash),
        to_base64(disclosed_passport.public_key),
        to_base64(disclosed_passport.receipt.signature or b""),
        str(disclosed_passport.receipt.passport_version_id),
    ):
        assert text in copied


def test_an_address_is_copied_as_it_is() -> None:
    address = "https://www.example.com/recycling/separate-collection"
    row = {"path": "a", "label": "Address", "cite": "", "note": "", "values": [{"text": address, "href": address}]}
    section = {"title": "Waste", "rows": [row], "empty": "", "exempt": ""}

    page = PdfReader(io.BytesIO(print_pdf(make_sheet(sections=[section]), at=AT))).pages[0]

    assert address in page.extract_text()


def test_a_table_with_long_texts_stays_on_the_paper() -> None:
    address = "https://www.example.com/docs/bill-of-materials.pdf"
    cells = [[{"text": text, "href": ""} for text in ("Serviceweg 10, 70174 Stuttgart", "Service", address, address)]]
    row = {"path": "a", "label": "Parts", "cite": "", "note": "", "cells": cells}
    row = {**row, "columns": ["Address", "Name", "Part numbers", "Web address"]}
    section = {"title": "Repair", "rows": [row], "empty": "", "exempt": ""}

    page = PdfReader(io.BytesIO(print_pdf(make_sheet(sections=[section]), at=AT))).pages[0]
    starts: dict[str, float] = {}

    def keep_start(text: str, _: object, matrix: list[float], *__: object) -> None:
        starts[text.strip()] = matrix[4]

    page.extract_text(visitor_text=keep_start)

    right_margin = float(page.mediabox.width) - 51  # points: 18 mm
    assert starts["Web address"] < right_margin - 100


def test_a_print_for_the_public_holds_nothing_that_is_restricted() -> None:
    for_all, for_us = (
        extract_text(render_export(compile_example("reference-2"), "PDF", who)) for who in ("public", "tenant")
    )

    for word in ("CHK-MERCURY", "EX-12100", "dismantling", "authorities", "issueronly"):
        assert word not in for_all
        assert word.lower() in for_us.lower(), word
    assert "Notforhandingon" in for_us


@pytest.mark.parametrize("name", CASES)
def test_every_passport_can_be_printed(name: str) -> None:
    document = render_export(compile_example(name), "PDF", "tenant")

    assert document.startswith(b"%PDF-1.7")
    assert str(disclose(compile_example(name), "tenant").receipt.passport_version_id) in extract_text(document)


def test_it_is_an_archivable_document_of_the_day_of_issue() -> None:
    document = render_export(compile_example("reference-2"), "PDF", "public")

    reader = PdfReader(io.BytesIO(document))
    xmp = reader.trailer["/Root"]["/Metadata"].get_data().decode()  # type: ignore[index]
    assert "<pdfaid:part>2</pdfaid:part>" in xmp
    assert "<pdfaid:conformance>A</pdfaid:conformance>" in xmp
    assert reader.metadata is not None
    assert reader.metadata.title == "Battery passport: Traction battery 400 V, 84 kWh"
    assert reader.metadata.creation_date == datetime(2027, 9, 1, 8, 30, tzinfo=UTC)
    assert len(reader.pages) == 4


def test_the_same_version_gives_the_same_bytes_again_and_in_another_process(tmp_path: Path) -> None:
    from bpc.core.passport.bundle import write_bundle

    file = tmp_path / "bundle.zip"
    file.write_bytes(write_bundle(compile_example("reference-2")))
    here = render_export(compile_example("reference-2"), "PDF", "public")
    render_export(compile_example("example-first"), "PDF", "public")

    other_process = subprocess.run([sys.executable, "-c", PRINT, str(file)], capture_output=True, text=True, check=True)

    assert render_export(compile_example("reference-2"), "PDF", "public") == here
    assert other_process.stdout.strip() == to_hex(sha256(here))


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_passport_is_printed_and_not_obeyed(text: str) -> None:
    pdf_text = extract_text(print_pdf(make_sheet_saying(text), at=AT))

    assert "".join(text.split()) in pdf_text
    assert "root:" not in pdf_text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Größe ≥ 5 µm, Škoda, Łódź, Ægir, Çelik", "Größe≥5µm,Škoda,Łódź,Ægir,Çelik"),
        ("Μπαταρίες Ελλάδας Α.Ε.", "ΜπαταρίεςΕλλάδαςΑ.Ε."),
        ("Батерии България ЕООД", "БатерииБългарияЕООД"),
        ("battery 🦀 中文", "battery\ufffd\ufffd\ufffd"),
        ("a\u202etxet\u202c", "a\ufffdtxet\ufffd"),
        ("\ue000\uf8ff", "\ufffd\ufffd"),
    ],
)
def test_what_the_fonts_have_is_printed_and_the_rest_is_marked(text: str, printed: str) -> None:
    assert printed in extract_text(print_pdf(make_sheet_saying(text), at=AT))


@pytest.mark.parametrize("text", ["שלום עולם", "مرحبا بالعالم", "\n" * 50, "x" * 300, ""])
def test_texts_of_any_direction_fit_on_paper(text: str) -> None:
    assert PdfReader(io.BytesIO(print_pdf(make_sheet_saying(text), at=AT))).pages


@pytest.mark.parametrize(
    "text",
    ["x" * 10_000, "a/" * 5_000, "https://example.com/" + "x" * 9_980, "https://example.com" + "/a" * 5_000],
    ids=["a word", "a path", "a long name in an address", "a long address"],
)
def test_a_long_text_takes_the_lines_it_needs(text: str) -> None:
    row = {"label": "Long", "cite": "", "note": "", "values": [{"text": text, "href": ""}]}

    document = print_pdf(make_sheet(sections=[{"title": "Texts", "rows": [row], "empty": "", "exempt": ""}]), at=AT)

    assert all(extract_text(document).count(letter) >= text.count(letter) for letter in "xa/")
    assert len(PdfReader(io.BytesIO(document)).pages) >= 2


@settings(max_examples=choose_effort(test=15, shown=300, campaign=3000))
@given(st.text(max_size=60))
def test_there_is_no_text_that_cannot_be_printed(text: str) -> None:
    assert print_pdf(make_sheet_saying(text), at=AT).startswith(b"%PDF")


@pytest.mark.parametrize("year", [1, 1969, 2027, 9999])
def test_a_passport_of_any_time_can_be_printed(year: int) -> None:
    assert print_pdf(make_sheet(), at=datetime(year, 1, 1, tzinfo=UTC)).startswith(b"%PDF")


def test_a_print_takes_milliseconds_once_the_fonts_are_read(record_measurement: RecordMeasurement) -> None:
    small, large = (
        [time_print(name, number) for number in range(choose_effort(test=4, shown=40, campaign=40))]
        for name in ("example-first", "reference-1")
    )

    assert min(small) < allow_seconds(0.02)
    record_measurement(
        "pdf",
        documents=len(small),
        milliseconds_two_fields=round(1000 * sorted(small)[len(small) // 2], 1),
        milliseconds_77_fields=round(1000 * sorted(large)[len(large) // 2], 1),
        bytes_two_fields=len(render_export(compile_example("example-first"), "PDF", "public")),
        bytes_77_fields=len(render_export(compile_example("reference-1"), "PDF", "public")),
    )


def time_print(name: str, number: int) -> float:
    """Seconds of this process for a document that nobody printed before: another battery of the same model."""
    sheet_members = dict(build_sheet(disclose(compile_example(name), "public")))
    sheet_members["title"] = f"{sheet_members['title']} {number}"
    sections = [
        {
            **section,
            "rows": [
                {**row, "values": [{**cell, "text": f"{cell['text']} {number}"} for cell in row["values"]]}
                if "values" in row
                else row
                for row in section["rows"]
            ],
        }
        for section in sheet_members["sections"]
    ]
    started = time.process_time()
    print_pdf({**sheet_members, "sections": sections}, at=AT)
    return time.process_time() - started
