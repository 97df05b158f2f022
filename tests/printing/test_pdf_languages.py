"""The print of each category in its languages: labels and words, no path, no code word, nothing that does not fit."""

import io
import json
import re
from functools import cache
from typing import Any

import pytest
from pypdf import PdfReader

from bpc.core.audit.signing import Signer
from bpc.core.catalogue.po_file import PoEntry, build_header, format_po, parse_po
from bpc.core.catalogue.wording import Wording, build_catalogue
from bpc.core.exports.disclosure import Audience, disclose
from bpc.core.exports.sheet import build_sheet
from bpc.core.passport.bundle import Bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import read_input
from bpc.printing import print_pdf, render_export
from bpc.printing.catalogues import FOLDER_NAME, WORDS, load_wording
from tests.core.sample_passports import ISSUED_AT
from tests.rules.shipped_package import EXAMPLES, FOLDER, find_sku, make_machine, read_facts, read_rules
from tools import golden

CATEGORIES = {
    "ev": {"en": "Electric vehicle battery", "de": "Elektrofahrzeugbatterie"},
    "lmt": {"en": "Battery for light means of transport", "de": "LV-Batterie (leichte Verkehrsmittel)"},
    "industrial": {"en": "Industrial battery", "de": "Industriebatterie"},
    "stationary": {
        "en": "Stationary battery energy storage system",
        "de": "Stationäres Batterie-Energiespeichersystem",
    },
}
# What programs call things: members of enumerations, statuses, verdicts, paths.
CODE_WORDS = re.compile(r"\b(?:[a-z]+_[a-z_]+|[a-z]+\.[a-z]+_[a-z]+|INDUSTRIAL|STATIONARY|ORIGINAL|NOT_APPLICABLE)\b")


@cache
def compile_pack(name: str, parts: int = 0) -> Bundle:
    """A pack of a category from its example document, with so many parts."""
    document = json.loads((EXAMPLES / "eu-battery" / f"{name}.json").read_bytes())
    facts = read_facts(json.dumps(document).encode())
    sku = find_sku(facts)
    source = json.loads((EXAMPLES / "first" / "input.json").read_bytes())
    source["battery_product"] |= {"sku": sku, "name": document["battery"]["name"]}
    source["facts"] = [
        {
            "fact_type": fact.fact_type,
            "fact_key": fact.fact_key,
            "schema_version": fact.schema_version,
            "payload": fact.payload,
        }
        for fact in facts
    ] + [
        {
            "fact_type": "Component",
            "fact_key": f"component:{sku}:{number:03}",
            "schema_version": facts[0].schema_version,
            "payload": {"part": f"Part {number}", "part_number": f"EX-{number:05}", "mass_g": "1.5"},
        }
        for number in range(parts)
    ]
    compile_input = read_input(json.dumps(source).encode(), rules=read_rules(), tests=b"")
    return issue_passport(compile_input, compile_passport(compile_input, machine=make_machine()), Signer(golden.SEED))


def read_pages(document: bytes) -> list[str]:
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(document)).pages]
    return [" ".join(page.replace("\N{ZERO WIDTH SPACE}", "").split()) for page in pages]


def list_labels(sheet: Any) -> list[str]:
    return [row["label"] for section in sheet["sections"] for row in section["rows"]]


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("audience", ["public", "tenant"])
@pytest.mark.parametrize("name", CATEGORIES)
def test_a_print_has_labels_and_words_of_its_language(name: str, audience: Audience, language: str) -> None:
    bundle = compile_pack(name)
    sheet = build_sheet(disclose(bundle, audience), load_wording(language))

    pages = read_pages(render_export(bundle, "PDF", audience, language=language))

    squeezed = "".join(pages).replace(" ", "")
    assert CATEGORIES[name][language] in pages[0]
    for label in list_labels(sheet):
        assert label.replace(" ", "") in squeezed, label
    assert {"de": "Leistung und Haltbarkeit", "en": "Performance and durability"}[language] in " ".join(pages)
    assert {"de": f"Seite 1 von {len(pages)}", "en": f"Page 1 of {len(pages)}"}[language] in pages[0]


@pytest.mark.parametrize("language", ["de", "en", "fr", "es", "it", "pl"])
@pytest.mark.parametrize("name", CATEGORIES)
def test_nothing_on_a_sheet_is_a_word_of_a_program(name: str, language: str) -> None:
    sheet = build_sheet(disclose(compile_pack(name), "tenant"), load_wording(language))

    texts = [
        *list_labels(sheet),
        *(section["title"] for section in sheet["sections"]),
        *(section["empty"] for section in sheet["sections"]),
        *(name for section in sheet["sections"] for row in section["rows"] for name in row.get("columns", ())),
        *(entry["message"] for entry in sheet["checks"]),
        *(entry[member] for entry in sheet["checks"] for member in ("says", "verdict")),
        sheet["category"],
    ]

    assert [text for text in texts if CODE_WORDS.search(text)] == []


def test_groups_stand_in_the_order_of_annex_xiii() -> None:
    sheet = build_sheet(disclose(compile_pack("ev"), "tenant"), load_wording("en"))

    assert [section["title"] for section in sheet["sections"]] == [
        "General information",
        "Materials and substances",
        "Carbon footprint",
        "Recycled and renewable content",
        "Performance and durability",
        "Labels and conformity",
        "Waste prevention and management",
        "Repair and dismantling",
        "State of the battery",
        "Use and history",
        "Duties",
    ]


def test_a_print_for_everybody_names_what_is_restricted_and_holds_none_of_it() -> None:
    pages = " ".join(read_pages(render_export(compile_pack("ev"), "PDF", "public", language="en")))

    assert "Restricted information" in pages
    assert "persons with a legitimate interest" in pages
    assert "Detailed composition" in pages
    assert "lithium iron phosphate" not in pages, "the cathode is not for everybody"


def test_links_lead_where_they_say() -> None:
    reader = PdfReader(io.BytesIO(render_export(compile_pack("ev"), "PDF", "public", language="de")))

    links = {
        annotation.get_object()["/A"]["/URI"]
        for page in reader.pages
        for annotation in page.get("/Annots", ())
        if "/A" in annotation.get_object()
    }
    assert "https://example.com/batteries/ex-ev-62/0001" in links
    assert "mailto:passport@example.com" in links
    assert all(link.startswith(("https://", "mailto:")) for link in links)


def test_the_document_says_its_language_and_stays_archivable() -> None:
    reader = PdfReader(io.BytesIO(render_export(compile_pack("lmt"), "PDF", "public", language="de")))

    xmp = reader.trailer["/Root"]["/Metadata"].get_data().decode()  # type: ignore[index]
    assert reader.trailer["/Root"]["/Lang"] == "de"  # type: ignore[index]
    assert "<pdfaid:part>2</pdfaid:part>" in xmp
    assert "<pdfaid:conformance>A</pdfaid:conformance>" in xmp


def test_three_hundred_parts_are_printed_whole() -> None:
    document = render_export(compile_pack("ev", parts=300), "PDF", "interest", language="de")

    text = "".join(read_pages(document)).replace(" ", "")
    assert all(f"EX-{number:05}" in text for number in range(300))


@cache
def make_pseudo_wording() -> Wording:
    """A language whose words are all half as long again, between brackets; its arguments stay."""
    files = [FOLDER / FOLDER_NAME / "en.po", WORDS / "en.po"]
    entries = [entry for file in files for entry in parse_po(file.read_bytes()) if entry.source]
    return Wording("de", (build_catalogue("de", [lengthen(entry) for entry in entries]),))


def lengthen(entry: PoEntry) -> PoEntry:
    text = entry.translation or entry.source
    filler = "ëxträ " * (len(text) // 12 + 1)
    return PoEntry(context=entry.context, source=entry.source, translation=f"⟦{text} {filler}⟧", notes=entry.notes)


@pytest.mark.long
@pytest.mark.parametrize("name", CATEGORIES)
def test_texts_that_are_half_as_long_again_are_printed_whole(name: str) -> None:
    sheet = build_sheet(disclose(compile_pack(name), "tenant"), make_pseudo_wording())

    text = "".join(read_pages(print_pdf(sheet, at=ISSUED_AT))).replace(" ", "")

    assert "⟦Batterypassport" in text
    for label in (*list_labels(sheet), *(figure["label"] for figure in sheet["figures"])):
        assert label.replace(" ", "") in text, label


def test_translating_changes_no_payload() -> None:
    bundle = compile_pack("ev")
    own = format_po([build_header("de", "own"), PoEntry(context="sheet", source="Checks", translation="Prüfliste")])

    printed = render_export(bundle, "PDF", "tenant", language="de", catalogues=[own])

    assert "Prüfliste" in " ".join(read_pages(printed))
    assert bundle.entries["payload.json"] == compile_pack("ev").entries["payload.json"]
