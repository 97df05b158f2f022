"""CSV: the bytes of a text file in, the elements of its one table out.

Reads what spreadsheets export: UTF-8 with or without a byte order mark, or UTF-16 with one; any kind of line end; `;`,
`,` or a tab between cells, whichever gives the header the most known names; a first line `sep=;`; quoted cells with
line breaks and doubled quotes in them. A number stays the text it is written as.

Reading takes time and memory in proportion to the bytes: the number of lines, the number of columns and the length of
a row are checked first.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from bpc.core.documents import Notes
from bpc.core.documents.elements import FACT_TYPES, FactElement
from bpc.core.documents.fact_members import normalize_name, parse_column_name
from bpc.core.documents.tables import MAX_COLUMNS, Cell, Sheet, TableRow, is_comment, parse_cell, read_tables
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats.file_types import BYTE_ORDER_MARK, UTF_16_MARKS

MAX_LINES: Final = 400_000
MAX_ROW_LENGTH: Final = 1_000_000

_SEPARATORS: Final = (",", ";", "\t")
_SEPARATOR_LINE: Final = re.compile(r"sep=([;,\t|])", re.IGNORECASE | re.ASCII)
_LINE: Final = re.compile(r"[^\n]*\n?")
_MEMBER_NAMES: Final = frozenset(name for members in SCHEMAS.values() for name in members)


class RowTooLong(Exception):
    """A row is too long. Most likely a closing quote is missing."""


def read_csv(kind: str, content: bytes, notes: Notes) -> Iterable[FactElement]:
    """The elements of a document that is one table."""
    text = _decode_text(content, notes)
    if text is None:
        return ()
    table: Sheet = CsvTable(text)
    return read_tables([(table, FACT_TYPES[kind])], notes)


class CsvTable:
    """The one table of a CSV file."""

    name = ""

    def __init__(self, text: str) -> None:
        self._text = text

    def locate_cell(self, row: str, column: int | None, name: str) -> str:  # noqa: ARG002 (a column is known by its name)
        return f"{row}, column {name}"

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:
        text, skipped_lines = self._text, 0
        separator_line = _SEPARATOR_LINE.match(text)
        if separator_line:
            skipped_lines, text = 1, text[len(separator_line[0]) :].lstrip(" ").removeprefix("\n")
        lines = _LineReader(text)
        separator = separator_line[1] if separator_line else _guess_separator(text)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        width = 0
        while True:
            place = f"line {reader.line_num + skipped_lines + 1}"
            lines.start_row()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except RowTooLong:
                notes.add_problem(place, f"has more than {MAX_ROW_LENGTH:,} characters; is a closing quote missing?")
                return
            except csv.Error as error:
                notes.add_problem(place, _explain_csv_error(str(error)))
                return
            if len(cells) > MAX_COLUMNS:
                notes.add_problem(place, f"has {len(cells):,} cells; the limit is {MAX_COLUMNS:,}")
                return
            row_cells = _parse_cells(cells)
            if not row_cells or is_comment(row_cells):
                continue
            width = width or max(row_cells) + 1
            if max(row_cells) >= width:
                notes.add_problem(place, _explain_extra_cells(max(row_cells) + 1, width, separator))
            yield TableRow(place, row_cells)


def _parse_cells(cells: list[str]) -> dict[int, Cell]:
    parsed = ((index, parse_cell(text)) for index, text in enumerate(cells) if text)
    return {index: cell for index, cell in parsed if cell is not None}


def _explain_extra_cells(cells: int, width: int, separator: str) -> str:
    separator_name = "tab" if separator == "\t" else f"`{separator}`"
    return f"has {cells:,} cells but the header has {width:,}; put a cell that contains a {separator_name} in quotes"


def _explain_csv_error(error: str) -> str:
    if error.startswith("field larger"):
        return "has a cell longer than 131,072 characters; is a closing quote missing?"
    if error.startswith("unexpected end"):
        return "has no closing quote"
    return "has a quote inside a cell; double it, and put the whole cell in quotes"


class _LineReader:
    """Yields the lines of a text and counts the characters of the current row."""

    def __init__(self, text: str) -> None:
        self._lines = _LINE.finditer(text)
        self._length = 0

    def start_row(self) -> None:
        self._length = 0

    def __iter__(self) -> "Iterator[str]":
        return self

    def __next__(self) -> str:
        line = next(self._lines)[0]
        if not line:
            raise StopIteration
        self._length += len(line)
        if self._length > MAX_ROW_LENGTH:
            raise RowTooLong
        return line


def _guess_separator(text: str) -> str:
    """The separator that gives the header the most known names; among equals, the most cells."""
    lines = (line[0][:MAX_ROW_LENGTH] for line in islice(_LINE.finditer(text), 100))
    first = next((line for line in lines if line.strip(" ,;\t\n") and not line.startswith("#")), "")
    cells = {separator: first.split(separator) for separator in _SEPARATORS}
    return max(_SEPARATORS, key=lambda separator: (_count_known_names(cells[separator]), len(cells[separator])))


def _count_known_names(cells: list[str]) -> int:
    paths = (parse_column_name(normalize_name(cell.strip('" \n'))) for cell in cells[:MAX_COLUMNS] if len(cell) < 200)
    return sum(1 for path in paths if path and path[0] in _MEMBER_NAMES)


def _decode_text(content: bytes, notes: Notes) -> str | None:
    try:
        if content.startswith(UTF_16_MARKS):
            text = content.decode("utf-16")
        else:
            text = content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        notes.add_problem(f"line {line}", "is not UTF-8; in Excel, save as `CSV UTF-8`")
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        notes.add_problem("$", f"has more than {MAX_LINES:,} lines; split the document")
        return None
    if "\0" in text:
        notes.add_problem(
            f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}", "contains U+0000; is this a text file?"
        )
        return None
    return text
