"""Templates that somebody filled in: with values of our choice, or with random ones, saved by another program."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import openpyxl  # type: ignore[import-untyped]

from bpc.core.documents.forms.template_plan import SheetPlan, Template, TemplateColumn
from bpc.core.language.types import BOOL, DATE, INT, Dec, List
from bpc.printing.template_workbook import FIRST_ROW, NAME_ROW, write_template_workbook

LETTERS = "abc äöüß łż éñ 0123456789.,:/()%€&<>'\"-_ "


@dataclass(slots=True)
class FilledTemplate:
    """A workbook, and for each fact (type and key) what its members must be once it is read."""

    content: bytes
    expected: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def count_values(self) -> int:
        return sum(_count(value) for members in self.expected.values() for value in members.values())


def _count(value: Any) -> int:
    return sum(len(each) for each in value) if isinstance(value, list) and isinstance(value[0], dict) else 1


def fill_template(template: Template, rows: Mapping[str, list[Mapping[str, Any]]]) -> bytes:
    """The template with rows, by the number at the front of a sheet's name."""
    book = openpyxl.load_workbook(io.BytesIO(write_template_workbook(template)))
    for number, values in rows.items():
        [label] = [name for name in book.sheetnames if name.startswith(f"{number} ")]
        _fill_sheet(book[label], values)
    return save_workbook(book)


def save_workbook(book: Any) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _fill_sheet(sheet: Any, rows: list[Mapping[str, Any]]) -> None:
    columns = {cell.value: cell.column for cell in sheet[NAME_ROW + 1] if cell.value}
    for number, row in enumerate(rows, FIRST_ROW + 1):
        for name, value in row.items():
            sheet.cell(number, columns[name], value)


def fill_randomly(draw: Random, template: Template, skus: list[str]) -> FilledTemplate:
    """Every cell of every sheet, for these products."""
    filled = FilledTemplate(b"")
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for sheet in template.sheets:
        rows[sheet.label.partition(" ")[0]] = [_draw_row(draw, sheet, sku, filled) for sku in skus]
    filled.content = fill_template(template, rows)
    return filled


def _draw_row(draw: Random, sheet: SheetPlan, sku: str, filled: FilledTemplate) -> Mapping[str, Any]:
    keys = {"sku": sku} | ({"part": f"part {draw.randrange(10**6)}"} if sheet.fact_type == "Component" else {})
    kind = {"Battery": "battery", "Component": "component", "PCF": "pcf", "DueDiligence": "dd"}[sheet.fact_type]
    members = filled.expected.setdefault((sheet.fact_type, ":".join((kind, *keys.values()))), {})
    row: dict[str, Any] = dict(keys)
    members.update(keys)
    for column in sheet.columns:
        if column.name not in keys:
            cell, value = _draw_value(draw, column)
            row[column.name] = cell
            _insert_value(members, column.name, value)
    return row


def _insert_value(members: dict[str, Any], name: str, value: Any) -> None:
    base, _, rest = name.partition("[")
    number, _, inner = rest.partition("].")
    if not inner:
        members[base] = value
        return
    records = members.setdefault(base, [])
    while len(records) < int(number):
        records.append({})
    records[int(number) - 1][inner] = value


def _draw_value(draw: Random, column: TemplateColumn) -> tuple[Any, Any]:
    """What is written into the cell, and what must be read."""
    if column.kind == BOOL:
        value = draw.random() < 0.5
        return column.choices[not value], value
    if column.kind == DATE:
        day = date(1990, 1, 1) + timedelta(draw.randrange(30_000))
        return day, day.isoformat()
    match column.kind:
        case Dec(scale):
            count = draw.randrange(-(10 ** (4 + scale)), 10 ** (8 + min(scale, 6)))
            digits = str(abs(count)).rjust(scale + 1, "0")
            text = ("-" if count < 0 else "") + f"{digits[:-scale]}.{digits[-scale:]}"
            return float(text), text
        case List():
            texts = [f"text {draw.randrange(10**6)}" for _ in range(draw.randint(1, 4))]
            return "; ".join(texts), texts
        case _:
            same = draw.randrange(10**6) if column.kind == INT else _draw_text(draw, column)
            return same, same


def _draw_text(draw: Random, column: TemplateColumn) -> str:
    if column.choices:
        return draw.choice(column.choices)
    free = "".join(draw.choice(LETTERS) for _ in range(draw.randint(0, 30)))
    return draw.choice(["0042", "1.000", "12,5", "TRUE", "2027-02-18", *[f"x{free}y"] * 5])


def find_differences(expected: Mapping[Any, Mapping[str, Any]], facts: Mapping[Any, Any]) -> Iterator[str]:
    for key, members in expected.items():
        for member, value in members.items():
            actual = facts.get(key, {}).get(member)
            if actual != value:
                yield f"{key} {member}: {actual!r}, not {value!r}"
