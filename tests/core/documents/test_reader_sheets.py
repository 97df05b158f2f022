"""A battery on several sheets of a workbook is one fact, with the place of each value."""

import io
from typing import Any

import openpyxl  # type: ignore[import-untyped]

from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import XLSX

IDENTITY, PERFORMANCE, PARTS = "1 Identity and label data", "3 Performance and lifetime", "6 Components"


def write_book(sheets: dict[str, list[list[Any]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for label, rows in sheets.items():
        sheet = book.create_sheet(label)
        for row in rows:
            sheet.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def read(sheets: dict[str, list[list[Any]]]) -> DocumentFacts:
    outcome = read_document("BOM", XLSX, write_book(sheets))
    assert not isinstance(outcome, DocumentProblems), outcome
    return outcome


def test_the_sheets_of_a_battery_are_one_fact_with_the_place_of_each_member() -> None:
    outcome = read(
        {
            IDENTITY: [["sku", "mass_kg"], ["A", 10], ["B", 20]],
            PERFORMANCE: [["sku", "nominal_voltage_v"], ["B", 400], ["A", 48]],
        }
    )

    assert outcome.warnings.total == 0
    assert [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts] == [
        {"sku": "A", "mass_kg": "10.000000", "nominal_voltage_v": "48.000"},
        {"sku": "B", "mass_kg": "20.000000", "nominal_voltage_v": "400.000"},
    ]
    assert dict(outcome.facts[0].member_places) == {
        "sku": f"'{IDENTITY}'!A2",
        "mass_kg": f"'{IDENTITY}'!B2",
        "nominal_voltage_v": f"'{PERFORMANCE}'!B3",
    }


def test_a_value_that_cannot_be_read_is_named_with_its_own_sheet() -> None:
    outcome = read(
        {IDENTITY: [["sku", "mass_kg"], ["A", 10]], PERFORMANCE: [["sku", "nominal_voltage_v"], ["A", "many"]]}
    )

    [fact] = outcome.facts
    assert [(lost.member, lost.place) for lost in fact.unreadable] == [("nominal_voltage_v", f"'{PERFORMANCE}'!B2")]


def test_sheets_that_contradict_each_other_stay_apart_with_a_warning() -> None:
    outcome = read({IDENTITY: [["sku", "mass_kg"], ["A", 10]], PERFORMANCE: [["sku", "mass_kg"], ["A", 11]]})

    assert len(outcome.facts) == 2
    assert "different values" in outcome.warnings.first[0].says


def test_the_titles_of_the_columns_of_a_data_sheet_are_no_values() -> None:
    outcome = read(
        {
            IDENTITY: [
                ["Bezeichnung", "Wert", "Einheit"],
                ["Artikelnummer", "A", None],
                ["Masse", 400, "kg"],
                ["Nennspannung", 48, "V"],
                ["Modell", "M", None],
            ]
        }
    )

    [fact] = outcome.facts
    assert canonical_json.decode(fact.payload_canonical) == {
        "sku": "A",
        "mass_kg": "400.000000",
        "nominal_voltage_v": "48.000",
        "model": "M",
    }


def test_two_rows_of_one_sheet_are_not_joined() -> None:
    outcome = read({IDENTITY: [["sku", "mass_kg", "model"], ["A", 10], ["A", None, "M"]]})

    assert len(outcome.facts) == 2


def test_components_without_a_sku_belong_to_the_battery_of_several_sheets() -> None:
    outcome = read(
        {
            IDENTITY: [["sku", "mass_kg"], ["A", 10]],
            PERFORMANCE: [["sku", "nominal_voltage_v"], ["A", 48]],
            PARTS: [["part", "mass_g"], ["cell", 5]],
        }
    )

    assert [fact.fact_key for fact in outcome.facts] == ["battery:A", "component:A:cell"]
