"""Files of rows: CSV with a header, or JSON lines, into rows of texts with their line.

    b"serial_number;sku\\nA1;PACK-48\\n"      ── read_rows ──► [FileRow(2, {"serial_number": "A1", "sku": "PACK-48"})]
    b'{"serial_number":"A1","sku":"P"}\\n'   ── read_rows ──► [FileRow(1, …)]

Pure. What cannot be read is a fault with its line; the other rows are read all the same, so that one look at the report
finds everything. A number of JSON stays the digits it is written with.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.formats.strict_json import JsonTextError, StrictJsonReader

MAX_ROWS: Final = 100_000
MAX_FAULTS: Final = 100  # that a refusal names; it says how many there are
MAX_CELL_CHARS: Final = 1_000
_BYTE_ORDER_MARK: Final = "\ufeff"
_LINES: Final = re.compile(r"[^\n]*\n?")


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file: the line it begins on, and its cells that are not empty."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RowFault:
    """What is wrong with one row."""

    line: int
    says: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of a file, and what could not be read."""

    rows: Sequence[FileRow]
    faults: Sequence[RowFault]


class RowsRefused(Invalid):
    """Rows with faults: nothing of the file is stored. The details name the first of them."""

    def __init__(self, faults: Sequence[RowFault], total: int) -> None:
        first = faults[0]
        many = f"; {len(faults):,} rows of {total:,} have faults" if len(faults) > 1 else ""
        super().__init__(
            f"line {first.line}: {first.says}{many}",
            fix="correct the rows and send the file again; nothing was stored",
            details={"faults_total": len(faults), "faults": describe_faults(faults)},
        )


class TextReader(StrictJsonReader):
    """Keep a number as it is written."""

    def read_integer(self, text: str) -> object:
        return text

    def read_fraction(self, text: str) -> object:
        return text


def describe_faults(faults: Iterable[RowFault]) -> list[dict[str, object]]:
    """The first faults as plain data."""
    first_faults = [fault for fault, _ in zip(faults, range(MAX_FAULTS), strict=False)]
    return [{"line": fault.line, "column": fault.column, "says": fault.says} for fault in first_faults]


def read_rows(content: bytes, columns: Sequence[str], required_columns: Sequence[str]) -> RowFile:
    """The rows of a file. It is JSON lines if it begins with a brace, otherwise CSV."""
    try:
        text = content.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text", fix="save it as CSV or JSON lines in UTF-8") from None
    file = _read_json_lines(text, columns) if text.lstrip()[:1] == "{" else _read_csv(text, columns, required_columns)
    if not file.rows and not file.faults:
        raise Invalid("the file has no row", fix="write a line for each row below the column names")
    if len(file.rows) > MAX_ROWS:
        raise Invalid(f"the file has more than {MAX_ROWS:,} rows", fix="split it", details={"most": MAX_ROWS})
    faults = [
        *file.faults,
        *(
            RowFault(row.line, f"has no {name}", name)
            for row in file.rows
            for name in required_columns
            if name not in row.cells
        ),
    ]
    return RowFile(file.rows, sorted(faults, key=lambda fault: fault.line))


def _read_csv(text: str, columns: Sequence[str], required_columns: Sequence[str]) -> RowFile:
    header, _, _ = text.partition("\n")
    # European spreadsheets write semicolons: the most frequent separator of the first line is used.
    separator = max(",;\t", key=header.count)
    reader = csv.reader((match[0] for match in _LINES.finditer(text)), delimiter=separator, strict=True)
    rows, faults = list[FileRow](), list[RowFault]()
    try:
        names = [lower_ascii(name.strip()) for name in next(reader, [])]
        _check_columns(names, columns, required_columns)
        before = reader.line_num
        for cells in reader:
            line, before = before + 1, reader.line_num
            if any(cells):
                if len(cells) > len(names):
                    faults.append(RowFault(line, "has more cells than there are columns"))
                rows.append(FileRow(line, {name: cell for name, cell in zip(names, cells, strict=False) if cell}))
    except csv.Error as wrong:
        raise Invalid(f"the file is not CSV: line {reader.line_num}: {wrong}", fix="quote cells with quotes") from None
    return RowFile(rows, faults)


def _check_columns(names: Sequence[str], columns: Sequence[str], required_columns: Sequence[str]) -> None:
    known_columns = f"the columns are {', '.join(columns)}"
    if missing := next((name for name in required_columns if name not in names), None):
        raise Invalid(f"the file has no column `{missing}`", fix=known_columns)
    if unknown := next((name for name in names if name not in columns), None):
        raise Invalid(f"unknown column `{unknown[:80]}`", fix=known_columns)
    if len(set(names)) != len(names):
        raise Invalid("a column appears twice", fix="leave one of them out")


def _read_json_lines(text: str, columns: Sequence[str]) -> RowFile:
    rows, faults = list[FileRow](), list[RowFault]()
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        reader = TextReader()
        try:
            members = reader.read(content.encode())
        except JsonTextError as wrong:
            faults.append(RowFault(line, f"is not JSON: {wrong.reason} at column {wrong.column}"))
            continue
        says = "holds a name twice" if reader.has_rejected else _find_member_fault(members, columns)
        if says is not None or not isinstance(members, dict):
            faults.append(RowFault(line, says or "is not an object"))
        else:
            rows.append(FileRow(line, {name: value for name, value in members.items() if value}))
    return RowFile(rows, faults)


def _find_member_fault(members: object, columns: Sequence[str]) -> str | None:
    if not isinstance(members, dict):
        return "is not an object"
    if unknown := next((name for name in members if name not in columns), None):
        return f"has the unknown member `{unknown[:80]}`; the members are {', '.join(columns)}"
    wrong = next((name for name, value in members.items() if value is not None and not isinstance(value, str)), None)
    return None if wrong is None else f"`{wrong}` is neither a text nor a number"
