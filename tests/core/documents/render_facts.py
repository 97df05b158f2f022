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
class Number:
    """A decimal number, as it is written."""

    text: str


def as_json(kind: str, facts: Sequence[tuple[str, Members]]) -> bytes:
    of = {fact_type: [members for each, members in facts if each == fact_type] for fact_type in SHEETS}
    document: Any = {"batteries": of["Battery"], "components": of["Component"]}
    if kind != "BOM":
        document = [members for _, members in facts]
    return json.dumps(document, default=lambda number: number.text).encode()


def flat(members: Members) -> dict[str, Any]:
    """The columns of a fact. Texts that one cell can hold apart share it; everything else has columns of its own."""
    made: dict[str, Any] = {}
    for name, value in members.items():
        if not isinstance(value, list):
            made[name] = value
        elif all(isinstance(item, str) and not re.search("[;\n]", item) for item in value):
            made[name] = "; ".join(value)
        else:
            for index, item in enumerate(value, 1):
                below = flat(item) if isinstance(item, dict) else {"": item}
                made |= {f"{name}[{index}]" + (f".{part}" if part else ""): each for part, each in below.items()}
    return made


def header(rows: Sequence[Members]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(facts: Sequence[tuple[str, Members]], *, separator: str = ",", end: str = "\n", mark: bool = False) -> bytes:
    rows = [flat(members) for _, members in facts]
    made = io.StringIO()
    lines = csv.writer(made, delimiter=separator, lineterminator=end)
    names = header(rows)
    lines.writerow(names)
    for row in rows:
        lines.writerow([_text(row[name]) if name in row else "" for name in names])
    return made.getvalue().encode("utf-8-sig" if mark else "utf-8")


def _text(value: Any) -> str:
    return value.text if isinstance(value, Number) else str(value)


def as_xlsx(facts: Sequence[tuple[str, Members]]) -> bytes:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        day = book.add_format({"num_format": "dd.mm.yyyy"})
        for fact_type, name in SHEETS.items():
            rows = [flat(members) for each, members in facts if each == fact_type]
            if rows:
                sheet = book.add_worksheet(name)
                names = header(rows)
                sheet.write_row(0, 0, names)
                for number, row in enumerate(rows, 1):
                    for index, column in enumerate(names):
                        if column in row:
                            _write(sheet, number, index, row[column], day)
    return made.getvalue()


def _write(sheet: Any, row: int, column: int, value: Any, day: Any) -> None:
    match value:
        case bool():
            sheet.write_boolean(row, column, value)
        case Number(text) if sum(sign.isdigit() for sign in text) <= 15:
            sheet.write_number(row, column, float(text))
        case Number(text):
            sheet.write_string(row, column, text)
        case date() if value >= FIRST_DATE:
            sheet.write_datetime(row, column, value, day)
        case _:
            sheet.write_string(row, column, str(value))
