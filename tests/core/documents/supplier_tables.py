"""Spreadsheets as suppliers in six countries fill them in, with the traps of such files, each with what must be read.

They are written here by another program than ours (`xlsxwriter`). Every case says its facts completely: a value that is
not expected is as wrong as one that is missing.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.documents.number_texts import NumberLocale
from tests.core.documents.supplier_words import (
    BATTERY_WORDS,
    COMPONENT_WORDS,
    DATA_SHEET_WORDS,
    DILIGENCE_WORDS,
    FOOTPRINT_WORDS,
    LANGUAGES,
    MORE_WORDS,
    NOTES_WORDS,
    TITLES,
    VOLTAGE_WORDS,
    YES_AND_NO,
    Language,
)


@dataclass(frozen=True, slots=True)
class Percentage:
    """A number in a cell with a percent format."""

    number: float
    number_format: str = "0.00%"


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula and its stored result; None writes no result."""

    text: str
    result: Any


@dataclass(frozen=True, slots=True)
class Stretched:
    """A text in a merged cell, so many columns wide and rows high."""

    text: str
    columns: int = 1
    rows: int = 1


Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierTable:
    """A spreadsheet and what it says: its facts, or the problems for which it is rejected.

    `unreadable` and `warnings` are places with a part of what is said there; each must come, and no unreadable value
    but those.
    """

    name: str
    kind: str
    sheets: Mapping[str, Sequence[Row]]
    facts: Sequence[Mapping[str, Any]] = ()
    locale: NumberLocale | None = None
    unreadable: Mapping[str, str] | None = None
    warnings: Mapping[str, str] | None = None
    problems: Mapping[str, str] | None = None
    hidden: frozenset[str] = frozenset()
    places: Mapping[str, str] | None = None  # of members of the first fact

    def write(self) -> bytes:
        buffer = io.BytesIO()
        with xlsxwriter.Workbook(buffer, {"in_memory": True, "strings_to_formulas": False}) as book:
            for name, rows in self.sheets.items():
                sheet = book.add_worksheet(name)
                for number, row in enumerate(rows):
                    for column, value in enumerate(row):
                        _write_cell(book, sheet, number, column, value)
            for name in self.hidden:
                book.get_worksheet_by_name(name).hide()
        return buffer.getvalue()


def _write_cell(book: Any, sheet: Any, row: int, column: int, value: Any) -> None:
    match value:
        case None:
            pass
        case Percentage(number, number_format):
            sheet.write_number(row, column, number, book.add_format({"num_format": number_format}))
        case Formula(text, None):
            sheet.write_formula(row, column, text, None, "")
        case Formula(text, result):
            sheet.write_formula(row, column, text, None, result)
        case Stretched(text, columns, rows):
            sheet.merge_range(row, column, row + rows - 1, column + columns - 1, text)
        case date():
            sheet.write_datetime(row, column, value, book.add_format({"num_format": "dd/mm/yyyy"}))
        case str():
            sheet.write_string(row, column, value)
        case _:
            sheet.write(row, column, value)


def _build_battery_table(language: Language) -> SupplierTable:
    sheet, sku, category, chemistry, mass, capacity, voltage = BATTERY_WORDS[language]
    maker, made_on, cobalt, bms, warranty, cycles = MORE_WORDS[language]
    yes, _ = YES_AND_NO[language]
    return SupplierTable(
        name=f"a title, an empty row and an empty column above and beside the table ({language})",
        kind="BOM",
        sheets={
            NOTES_WORDS[language]: [["sku"], ["not data"]],
            sheet: [
                [TITLES[language]],
                [],
                [
                    None,
                    sku,
                    category,
                    chemistry,
                    mass,
                    capacity,
                    voltage,
                    None,
                    maker,
                    made_on,
                    cobalt,
                    bms,
                    warranty,
                    cycles,
                ],
                [],
                [
                    None,
                    "P-1",
                    "ev",
                    "NMC811",
                    450.25,
                    190,
                    400,
                    None,
                    "Example Cells",
                    date(2027, 2, 18),
                    Percentage(0.16),
                    yes,
                    8,
                    1500,
                ],
            ],
        },
        facts=[
            {
                "sku": "P-1",
                "category": "ev",
                "chemistry": "NMC811",
                "mass_kg": "450.250000",
                "rated_capacity_ah": "190.000000",
                "nominal_voltage_v": "400.000",
                "manufacturer_name": "Example Cells",
                "manufactured_on": "2027-02-18",
                "recycled_cobalt_pct": "16.00",
                "has_bms": True,
                "warranty_months": 96,
                "expected_cycles": 1500,
            }
        ],
        warnings={NOTES_WORDS[language]: "is a sheet of notes", "1": "is above the header"},
        places={"mass_kg": "E5", "expected_cycles": "N5"},
    )


def _build_component_table(language: Language) -> SupplierTable:
    sheet, sku, part, mass, supplier, quantity, critical = COMPONENT_WORDS[language]
    yes, no = YES_AND_NO[language]
    return SupplierTable(
        name=f"components in any order of columns and sheets ({language})",
        kind="BOM",
        sheets={
            sheet: [
                [critical, mass, part, quantity, supplier],
                [yes, 310000.5, "cell", 96, "Example Cells"],
                [no, 42000, "housing", 1, None],
            ],
            BATTERY_WORDS[language][0]: [[sku], ["P-1"]],
        },
        facts=[
            {
                "sku": "P-1",
                "part": "cell",
                "mass_g": "310000.500000",
                "critical": True,
                "quantity": 96,
                "supplier": "Example Cells",
            },
            {"sku": "P-1", "part": "housing", "mass_g": "42000.000000", "critical": False, "quantity": 1},
            {"sku": "P-1"},
        ],
    )


def _build_footprint_table(language: Language, locale: NumberLocale) -> SupplierTable:
    sheet, sku, total, raw, year = FOOTPRINT_WORDS[language]
    written = ("5.890,5", "3900,25") if locale == "comma" else ("5,890.5", "3900.25")
    return SupplierTable(
        name=f"numbers as texts with a decimal {locale} ({language})",
        kind="PCF",
        locale=locale,
        sheets={sheet: [[sku, total, raw, year], ["P-1", *written, "2027"]]},
        facts=[{"sku": "P-1", "total_gco2e": "5890500.00", "raw_material_gco2e": "3900250.00", "year": 2027}],
    )


def _build_data_sheet(language: Language) -> SupplierTable:
    _, sku, category, chemistry, *_ = BATTERY_WORDS[language]
    mass, energy = DATA_SHEET_WORDS[language]
    return SupplierTable(
        name=f"a data sheet: names, values and units below each other ({language})",
        kind="BOM",
        sheets={
            BATTERY_WORDS[language][0]: [
                [TITLES[language]],
                [sku, "P-1"],
                [category, "lmt"],
                [chemistry, "LFP"],
                [mass, 5300, "g"],
                [energy, 0.5, "kWh"],
            ]
        },
        facts=[
            {"sku": "P-1", "category": "lmt", "chemistry": "LFP", "mass_kg": "5.300000", "capacity_kwh": "0.500000"}
        ],
        places={"mass_kg": "B5"},
    )


def _build_diligence_table(language: Language) -> SupplierTable:
    sheet, sku, supplier, audited_on, conforms, day = DILIGENCE_WORDS[language]
    _, no = YES_AND_NO[language]
    return SupplierTable(
        name=f"dates and booleans as texts ({language})",
        kind="DUE_DILIGENCE",
        sheets={sheet: [[sku, supplier, audited_on, conforms], ["P-1", "Example Mining", day, no.upper()]]},
        facts=[{"sku": "P-1", "supplier": "Example Mining", "audited_on": "2027-02-18", "conforms": False}],
    )


def _build_two_header_rows(language: Language) -> SupplierTable:
    sheet, sku, *_ = BATTERY_WORDS[language]
    voltage, low, nominal, high = VOLTAGE_WORDS[language]
    return SupplierTable(
        name=f"a merged header over three columns ({language})",
        kind="BOM",
        sheets={
            sheet: [
                [Stretched(sku, rows=2), Stretched(f"{voltage} [V]", columns=3)],
                [None, low, nominal, high],
                ["P-1", 300, 400, 453.6],
            ]
        },
        facts=[
            {
                "sku": "P-1",
                "minimum_voltage_v": "300.000",
                "nominal_voltage_v": "400.000",
                "maximum_voltage_v": "453.600",
            }
        ],
    )


LANGUAGE_TABLES: tuple[SupplierTable, ...] = (
    *(_build_battery_table(language) for language in LANGUAGES),
    *(_build_component_table(language) for language in LANGUAGES),
    *(_build_footprint_table(language, "comma") for language in LANGUAGES),
    *(_build_footprint_table(language, "point") for language in LANGUAGES),
    *(_build_data_sheet(language) for language in LANGUAGES),
    *(_build_diligence_table(language) for language in LANGUAGES),
    *(_build_two_header_rows(language) for language in LANGUAGES),
)
