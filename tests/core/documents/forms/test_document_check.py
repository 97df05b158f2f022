"""A check of documents: everything that is wrong, in which cell, and what is missing, before anything is sent."""

import json
from typing import Any

import pytest

from bpc.core.documents.forms.csv_copy import copy_csv
from bpc.core.documents.forms.document_check import (
    CheckNote,
    Examination,
    OpenCell,
    check_facts,
    examine_document,
    locate_open_cells,
    place_missing,
)
from bpc.core.documents.forms.template_plan import build_template
from bpc.core.documents.read_options import ReadOptions
from bpc.core.formats.file_types import CSV, JSON, XLSX
from tests.core.documents.forms.filled_templates import fill_template

IDENTITY, PERFORMANCE = "'1 Identity and label data'", "'3 Performance and lifetime'"


def examine(content: bytes, mime_type: str = XLSX, kind: str | None = None, **options: Any) -> Examination:
    return examine_document(kind, mime_type, content, ReadOptions(**options))


def list_implausible(*examinations: Examination) -> list[CheckNote]:
    notes, _ = check_facts(examinations)
    return [note for group in notes for note in group]


def test_a_value_that_cannot_be_read_is_an_error_in_its_cell_where_the_category_needs_it() -> None:
    content = fill_template(
        build_template("ev", "en"),
        {"1": [{"sku": "A", "category": "ev", "mass_kg": "1.000", "put_into_service_on": "soon"}]},
    )

    mass, day = sorted(examine(content).notes, key=lambda note: note.severity)

    assert (mass.severity, mass.kind, mass.place, mass.members) == (
        "error",
        "unreadable",
        f"{IDENTITY}!AB7",
        ("mass_kg",),
    )
    assert mass.sku == "A"
    assert mass.points == (10,)
    assert (day.severity, day.members) == ("warning", ("put_into_service_on",))


def test_a_declared_locale_makes_a_number_readable() -> None:
    content = fill_template(build_template("ev", "en"), {"1": [{"sku": "A", "category": "ev", "mass_kg": "1.000"}]})

    assert examine(content, locale="comma").notes == ()


def test_what_cannot_be_true_is_named_with_all_of_its_cells() -> None:
    content = fill_template(
        build_template("ev", "en"), {"3": [{"sku": "A", "minimum_voltage_v": 420, "nominal_voltage_v": 400}]}
    )

    [note] = list_implausible(examine(content))

    assert (note.severity, note.kind, note.code) == ("error", "implausible", "VOLTAGE_ORDER")
    assert (note.place, note.other_places) == (f"{PERFORMANCE}!E7", (f"{PERFORMANCE}!H7",))
    assert "420 V is not below the nominal voltage of 400 V" in note.says


def test_documents_are_compared_with_each_other() -> None:
    battery = examine(b'{"battery": {"sku": "A", "category": "ev", "capacity_kwh": 75}}', JSON)
    footprint = examine(b"sku,total_gco2e,raw_material_gco2e,production_gco2e\nA,100,300,400\n", CSV)

    notes, _ = check_facts([battery, footprint])

    assert notes[0] == []
    assert [note.place.partition(",")[0] for note in notes[1]] == ["line 2"] * len(notes[1])
    assert notes[1]


def test_what_is_mandatory_and_missing_is_named_with_its_data_point_and_column() -> None:
    battery = examine(b'{"battery": {"sku": "A", "category": "ev", "mass_kg": 75}}', JSON)

    _, missing = check_facts([battery])

    by_point = {note.points[0]: note for note in missing}
    assert 10 not in by_point
    assert by_point[12].says == (
        "data point 12 (Chemistry) is mandatory for the category ev and missing; fill in `chemistry`"
    )
    assert by_point[12].sku == "A"
    assert 17 not in by_point  # pending
    assert by_point[48].says.endswith("fill in `cell_count` and `cell_layout`")


def test_a_value_that_cannot_be_read_is_not_missing_as_well() -> None:
    content = fill_template(build_template("ev", "en"), {"1": [{"sku": "A", "category": "ev", "mass_kg": "heavy"}]})

    _, missing = check_facts([examine(content)])

    assert ("mass_kg",) not in [note.members for note in missing]


def test_without_a_category_the_category_is_what_is_missing() -> None:
    battery = examine(b'{"battery": {"sku": "A"}}', JSON)

    assert [note.members for note in check_facts([battery])[1]] == [("category",)]
    assert len(check_facts([battery], "lmt")[1]) > 20


def test_documents_that_are_not_about_batteries_lack_nothing() -> None:
    assert check_facts([examine(b"sku,total_gco2e\nA,5\n", CSV)])[1] == []


@pytest.mark.parametrize(
    ("content", "mime_type", "kinds"),
    [
        (b"sku,total_gco2e,year\nA,5,2027\n", CSV, ("PCF",)),
        (b"sku,part,mass_g\nA,cell,5\n", CSV, ("BOM",)),
        (b'{"sku": "A", "policy_url": "https://example.com"}', JSON, ("DUE_DILIGENCE",)),
        (b'{"battery": {"sku": "A"}}', JSON, ("BOM",)),
        (b"no table at all", CSV, ("BOM",)),
    ],
)
def test_the_kind_of_a_document_is_what_it_looks_like(content: bytes, mime_type: str, kinds: tuple[str, ...]) -> None:
    assert examine(content, mime_type).kinds == kinds


def test_a_workbook_with_sheets_of_two_kinds_is_read_as_both_without_a_warning() -> None:
    from tests.core.documents.test_reader_sheets import write_book

    content = write_book({"Battery": [["sku", "mass_kg"], ["A", 5]], "PCF": [["sku", "total_gco2e"], ["A", 5]]})

    examination = examine(content)

    assert examination.kinds == ("BOM", "PCF")
    assert examination.notes == ()
    assert {fact.fact_type for fact in examination.facts} == {"Battery", "PCF"}
    assert [note.kind for note in examine(content, kind="PCF").notes] == ["warning"]


def test_a_document_that_is_rejected_has_a_note_for_every_problem() -> None:
    examination = examine(b'{"battery": {"mass_kg": 5}, "components": [{"part": 4}]}', JSON, kind="BOM")

    assert examination.facts == ()
    assert {note.kind for note in examination.notes} == {"problem"}
    assert len(examination.notes) >= 2


def test_damaged_files_are_a_problem_and_never_a_crash() -> None:
    for content in (b"PK\x03\x04broken", b"{", b"\xff\xfe\x00", b""):
        for mime_type in (XLSX, CSV, JSON, "application/octet-stream"):
            assert [note.severity for note in examine(content, mime_type).notes] == ["error"]


def test_a_missing_value_has_the_place_of_its_empty_cell() -> None:
    content = fill_template(build_template("ev", "en"), {"1": [{"sku": "A", "category": "ev"}], "3": [{"sku": "A"}]})
    mass, voltage, gone = (OpenCell("Battery", "A", each) for each in ("mass_kg", "nominal_voltage_v", "status"))

    places = locate_open_cells(("BOM",), XLSX, content, [mass, voltage, gone])

    assert places == {mass: f"{IDENTITY}!AB7", voltage: f"{PERFORMANCE}!H7"}
    [note] = [note for note in check_facts([examine(content)])[1] if note.members == ("mass_kg",)]
    assert place_missing(note, places).place == f"{IDENTITY}!AB7"


def test_a_missing_value_of_a_csv_file_has_its_line_and_column() -> None:
    cell = OpenCell("Battery", "7", "mass_kg")

    assert locate_open_cells(("BOM",), CSV, b"sku;mass_kg;model\n7;;M\n", [cell]) == {cell: "line 2, column mass_kg"}


def test_places_of_a_csv_file_are_cells_of_its_copy() -> None:
    copy = copy_csv(("BOM",), b'# note\nsku;Masse [kg];name\nA;5;"two\nlines"\nB;x;\n')

    assert copy is not None
    assert copy.rows[2:] == (("A", "5", "two\nlines"), ("B", "x", ""))
    assert copy.translate_place("line 5, column Masse [kg]") == "Table!B4"
    assert copy.translate_place("line 5") == "Table!4"
    assert copy.translate_place("$") == "$"
    assert copy_csv(("BOM",), b"\xff\x00") is None


def test_what_a_check_finds_can_be_handed_between_processes() -> None:
    import pickle

    examination = examine(json.dumps({"battery": {"sku": "A", "mass_kg": "x"}}).encode(), JSON)

    assert pickle.loads(pickle.dumps(examination)) == examination
