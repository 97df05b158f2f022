"""Templates as files: a table with a name, an explanation and room for every member, or JSON with every name.

The explanations are a comment row, which nobody reads but people. The example is one battery, small and made up.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.documents.columns import columns_of
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Record, Type
from bpc.core.schemas import MEMBERS, SCHEMA_VERSION

Column: TypeAlias = tuple[str, Type, str]
Value: TypeAlias = str | int | bool
Rows: TypeAlias = Sequence[Mapping[str, Value]]
Workbook: TypeAlias = Any  # the library that writes spreadsheets has no types
Worksheet: TypeAlias = Any
Format: TypeAlias = Any

# Sheet, and what its rows are.
SHEETS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "BOM": (("Battery", "Battery"), ("Components", "Component")),
    "PCF": (("PCF", "PCF"),),
    "DUE_DILIGENCE": (("Due diligence", "DueDiligence"),),
}
# A number is a text here: written into a cell it is the number it says, exactly.
EXAMPLES: Final[Mapping[str, Rows]] = {
    "Battery": (
        {
            "sku": "SKU-1",
            "name": "Example pack 75",
            "category": "ev",
            "has_bms": True,
            "manufacturer_name": "Example Cells GmbH",
            "manufactured_on": "2027-02-18",
            "mass_kg": "450.25",
            "chemistry": "NMC811",
            "critical_raw_materials": "cobalt; lithium; natural graphite",
            "hazardous_substances[1].name": "lithium hexafluorophosphate",
            "hazardous_substances[1].concentration_pct": "1.2",
            "capacity_kwh": "75.5",
            "nominal_voltage_v": "400",
            "expected_cycles": "1500",
        },
    ),
    "Component": (
        {
            "sku": "SKU-1",
            "part": "cell",
            "material": "NMC811",
            "mass_g": "310000.5",
            "quantity": "96",
            "critical": True,
        },
        {"sku": "SKU-1", "part": "housing", "material": "aluminium", "mass_g": "42000", "critical": False},
    ),
    "PCF": (
        {
            "sku": "SKU-1",
            "year": "2027",
            "total_gco2e": "5890000.5",
            "raw_material_gco2e": "3900000",
            "production_gco2e": "1700000.5",
            "distribution_gco2e": "90000",
            "end_of_life_gco2e": "200000",
            "verified_on": "2027-01-15",
        },
    ),
    "DueDiligence": (
        {
            "sku": "SKU-1",
            "supplier": "Example Mining Ltd",
            "materials": "cobalt; nickel",
            "risks[1].category": "working conditions",
            "risks[1].mitigation": "audited every year",
            "audited_on": "2026-11-30",
            "conforms": True,
        },
    ),
}
# The time of a template is no news, and the same template has the same bytes.
MADE: Final = datetime(2027, 1, 1, tzinfo=UTC)


def written(kind: str, form: str, *, example: bool) -> bytes:
    """The template for documents of a kind, filled in with the example or not."""
    match form:
        case "xlsx":
            return _xlsx(kind, example=example)
        case "csv":
            return _csv(kind, example=example)
        case _:
            return _json(kind, example=example)


def columns(fact_type: str) -> list[Column]:
    """A column for every member, in the order of the table of schemas."""
    members = MEMBERS[Fact(fact_type, SCHEMA_VERSION)]
    return [column for name, member in members.items() for column in columns_of(name, member)]


def explained(column: Column) -> str:
    """What a column says and how it is written, for people."""
    name, kind, says = column
    says = says.replace("`", "")
    return f"# {says} ({_how(kind)})" if name == "sku" else f"{says} ({_how(kind)})"


def _how(kind: Type) -> str:
    match kind:
        case Dec(scale):
            return f"number, at most {scale} decimals"
        case List():
            return "texts, ; between them"
        case _:
            return _HOW[kind]


_HOW: Final[Mapping[object, str]] = {BOOL: "yes or no", INT: "whole number", DATE: "2027-02-18", TEXT: "text"}


# --- XLSX --------------------------------------------------------------------------------------------------------


def _xlsx(kind: str, *, example: bool) -> bytes:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        book.set_properties({"title": f"{kind} for a battery passport", "created": MADE})
        bold = book.add_format({"bold": True, "bottom": 1})
        plain = book.add_format({"italic": True, "font_color": "#606060", "text_wrap": True, "valign": "top"})
        forms = _Formats(book)
        for name, fact_type in SHEETS[kind]:
            sheet = book.add_worksheet(name)
            _fill(sheet, columns(fact_type), EXAMPLES[fact_type] if example else (), forms, bold, plain)
    return made.getvalue()


class _Formats:
    """How the cells of a type look: a text stays as it is typed, a day is shown as one."""

    def __init__(self, book: Workbook) -> None:
        self._text = book.add_format({"num_format": "@"})
        self._date = book.add_format({"num_format": "yyyy-mm-dd"})
        self._plain = book.add_format()

    def of(self, kind: Type) -> Format:
        if isinstance(kind, List) or kind == TEXT:
            return self._text
        return self._date if kind == DATE else self._plain


def _fill(sheet: Worksheet, header: list[Column], rows: Rows, forms: _Formats, bold: Format, plain: Format) -> None:
    sheet.freeze_panes(2, 1)
    sheet.set_row(1, 60)
    for index, (name, kind, says) in enumerate(header):
        sheet.set_column(index, index, max(14, len(name) + 2), forms.of(kind))
        sheet.write_string(0, index, name, bold)
        sheet.write_string(1, index, explained((name, kind, says)), plain)
        if kind == BOOL:
            sheet.data_validation(2, index, 10_000, index, {"validate": "list", "source": ["yes", "no"]})
        for number, row in enumerate(rows, 2):
            if name in row:
                _write(sheet, number, index, kind, row[name], forms.of(kind))


def _write(sheet: Worksheet, row: int, column: int, kind: Type, value: Value, form: Format) -> None:
    if kind == BOOL:
        sheet.write_string(row, column, "yes" if value else "no", form)
    elif kind == DATE:
        sheet.write_datetime(row, column, datetime.fromisoformat(str(value)), form)
    elif kind == INT or isinstance(kind, Dec):
        sheet.write_number(row, column, float(value), form)
    else:
        sheet.write_string(row, column, str(value), form)


# --- CSV and JSON ------------------------------------------------------------------------------------------------


def _csv(kind: str, *, example: bool) -> bytes:
    """With the mark that tells Excel it is UTF-8, and its line ends."""
    of_all: dict[str, Column] = {}
    for _, fact_type in SHEETS[kind]:
        of_all |= {column[0]: column for column in columns(fact_type) if column[0] not in of_all}
    made = io.StringIO()
    lines = csv.writer(made)
    lines.writerow(of_all)
    lines.writerow([explained(column) for column in of_all.values()])
    rows = [row for _, fact_type in SHEETS[kind] for row in EXAMPLES[fact_type]] if example else []
    for row in rows:
        lines.writerow([_cell(row[name]) if name in row else "" for name in of_all])
    return made.getvalue().encode("utf-8-sig")


def _cell(value: Value) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _json(kind: str, *, example: bool) -> bytes:
    if kind != "BOM":
        fact_type = SHEETS[kind][0][1]
        document: object = _object(fact_type, EXAMPLES[fact_type][0] if example else None)
    else:
        [battery] = EXAMPLES["Battery"]
        parts = [_object("Component", part) for part in EXAMPLES["Component"]]
        document = {
            "battery": _object("Battery", battery if example else None),
            "components": parts if example else [_object("Component", None)],
        }
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _object(fact_type: str, row: Mapping[str, Value] | None) -> dict[str, object]:
    """The members of a row, or every member there is, empty."""
    members = MEMBERS[Fact(fact_type, SCHEMA_VERSION)]
    if row is None:
        return {name: _empty(member.type) for name, member in members.items()}
    made: dict[str, object] = {}
    for name, value in row.items():
        base, _, member = name.partition("[1].")
        if member:
            listed = made.setdefault(base, [{}])
            if isinstance(listed, list):
                listed[0][member] = value
        elif isinstance(members[base].type, List):
            made[base] = [part.strip() for part in str(value).split(";")]
        else:
            made[base] = value
    return made


def _empty(kind: Type) -> object:
    match kind:
        case List(Record(members)):
            return [dict.fromkeys(name for name, _ in members)]
        case List():
            return []
        case _:
            return None
