"""Facts as documents in every format we read, written by other programs than ours: what to compare readings with."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import xlsxwriter  # type: ignore[import-untyped]

Members = Mapping[str, Any]

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SHEETS = {"Battery": "Battery", "Component": "Components", "PCF": "PCF", "DueDiligence": "Due diligence"}
FIRST_DATE = date(1900, 3, 1)  # which all spreadsheets count alike
PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A decimal number, as it is written."""

    text: str


def render_json(kind: str, facts: Sequence[tuple[str, Members]]) -> bytes:
    members_by_type = {
        fact_type: [members for member_type, members in facts if member_type == fact_type] for fact_type in SHEETS
    }
    document: Any = {"batteries": members_by_type["Battery"], "components": members_by_type["Component"]}
    if kind != "BOM":
        document = [members for _, members in facts]
    return json.dumps(document, default=lambda number: number.text).encode()


def flatten_members(members: Members) -> dict[str, Any]:
    """The columns of a fact. Texts that one cell can hold apart share it; everything else has columns of its own."""
    columns: dict[str, Any] = {}
    for name, value in members.items():
        if not isinstance(value, list):
            columns[name] = value
        elif all(isinstance(item, str) and not re.search("[;\n]", item) for item in value):
            columns[name] = "; ".join(value)
        else:
            for index, item in enumerate(value, 1):
                below = flatten_members(item) if isinstance(item, dict) else {"": item}
                columns |= {f"{name}[{index}]" + (f".{part}" if part else ""): cell for part, cell in below.items()}
    return columns


def list_column_names(rows: Sequence[Members]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def render_csv(
    facts: Sequence[tuple[str, Members]], *, separator: str = ",", end: str = "\n", mark: bool = False
) -> bytes:
    rows = [flatten_members(members) for _, members in facts]
    buffer = io.StringIO()
    names = list_column_names(rows)
    # The header of one column does not show the separator, so a reader cannot know which one splits a cell.
    lines = csv.writer(
        buffer,
        delimiter=separator,
        lineterminator=end,
        quoting=csv.QUOTE_ALL if len(names) == 1 else csv.QUOTE_MINIMAL,
    )
    lines.writerow(names)
    for row in rows:
        lines.writerow([_format_cell(row[name]) if name in row else "" for name in names])
    return buffer.getvalue().encode("utf-8-sig" if mark else "utf-8")


def _format_cell(value: Any) -> str:
    return value.text if isinstance(value, WrittenNumber) else str(value)


def render_xlsx(facts: Sequence[tuple[str, Members]]) -> bytes:
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        day = book.add_format({"num_format": "dd.mm.yyyy"})
        for fact_type, name in SHEETS.items():
            rows = [flatten_members(members) for member_type, members in facts if member_type == fact_type]
            if rows:
                sheet = book.add_worksheet(name)
                names = list_column_names(rows)
                sheet.write_row(0, 0, names)
                for number, row in enumerate(rows, 1):
                    for index, column in enumerate(names):
                        if column in row:
                            _write_cell(sheet, number, index, row[column], day)
    return buffer.getvalue()


def _write_cell(sheet: Any, row: int, column: int, value: Any, day: Any) -> None:
    match value:
        case bool():
            sheet.write_boolean(row, column, value)
        case WrittenNumber(text) if sum(sign.isdigit() for sign in text) <= 15:
            sheet.write_number(row, column, float(text))
        case WrittenNumber(text):
            sheet.write_string(row, column, text)
        case date() if value >= FIRST_DATE:
            sheet.write_datetime(row, column, value, day)
        case _:
            sheet.write_string(row, column, str(value))
