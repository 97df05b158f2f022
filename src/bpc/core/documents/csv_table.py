"""CSV: the bytes of a text file in, the elements of its one table out.

Reads what spreadsheets export: UTF-8 with or without a byte order mark, or UTF-16 with one; any kind of line end; `;`,
`,` or a tab between cells, whichever gives the header the most known names; a first line `sep=;`; quoted cells with
line breaks and doubled quotes in them. A number stays the text it is written as.

Reading takes time and memory in proportion to the bytes: the number of lines, the number of columns and the length of
a row are checked first.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from bpc.core.documents import DocumentNote, Notes
from bpc.core.documents.cells import MAX_COLUMNS, Cell, TableRow, names_product, parse_cell
from bpc.core.documents.elements import FACT_TYPES, FactElement
from bpc.core.documents.header_names import match_header
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.table_layout import MAX_HEAD_ROWS
from bpc.core.documents.tables import TableSource, read_tables
from bpc.core.formats.file_types import BYTE_ORDER_MARK, UTF_16_MARKS

MAX_LINES: Final = 400_000
MAX_ROW_LENGTH: Final = 1_000_000

_SEPARATORS: Final = (",", ";", "\t")
_SEPARATOR_LINE: Final = re.compile(r"sep=([;,\t|])", re.IGNORECASE | re.ASCII)
_LINE: Final = re.compile(r"[^\n]*\n?")
_ALL_TYPES: Final = tuple(dict.fromkeys(name for types in FACT_TYPES.values() for name in types))
MAX_NAMES_COUNTED: Final = 120


class RowTooLong(Exception):
    """A row is too long. Most likely a closing quote is missing."""


def read_csv(kind: str, content: bytes, options: ReadOptions, notes: Notes) -> Iterable[FactElement]:
    """The elements of a document that is one table."""
    table = open_csv(content, notes)
    if table is None:
        return ()
    sheet_mapping = None
    if options.mapping is not None:
        sheet_mapping = options.mapping.find_sheet("")
        if sheet_mapping is None:
            notes.add_problem("$", "is CSV, but its column mapping is of a workbook; map the columns again")
            return ()
    fact_types = FACT_TYPES[kind] if sheet_mapping is None else sheet_mapping.fact_types
    return read_tables([TableSource(table, fact_types, sheet_mapping)], notes, options.locale)


def open_csv(content: bytes, notes: Notes) -> "CsvTable | None":
    """The one table of a file; None and a problem if it is not text."""
    text = _decode_text(content, notes)
    return None if text is None else CsvTable(text)


class CsvTable:
    """The one table of a CSV file."""

    name = ""

    def __init__(self, text: str) -> None:
        self._text = text
        self._separator = ","

    def locate_cell(self, row: str, column: int | None, name: str) -> str:  # noqa: ARG002 (a column is known by its name)
        return f"{row}, column {name}"

    def locate_column(self, column: int) -> str:
        return f"column {column + 1}"

    def explain_extra_cells(self, cells: int, width: int) -> str | None:
        separator = "tab" if self._separator == "\t" else f"`{self._separator}`"
        return f"has {cells:,} cells but the header has {width:,}; put a cell that contains a {separator} in quotes"

    def list_display_notes(self, first_row: int, columns: Collection[int]) -> list[DocumentNote]:  # noqa: ARG002 (text)
        return []

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:
        for number, cells in self.read_texts(notes):
            row_cells = _parse_cells(cells)
            if row_cells:
                yield TableRow(f"line {number}", row_cells, number)

    def read_texts(self, notes: Notes) -> Iterator[tuple[int, list[str]]]:
        """The number of the line at which each row begins, and the texts of its cells, also of comments."""
        text, skipped_lines = self._text, 0
        separator_line = _SEPARATOR_LINE.match(text)
        if separator_line:
            skipped_lines, text = 1, text[len(separator_line[0]) :].lstrip(" ").removeprefix("\n")
        lines = _LineReader(text)
        self._separator = separator_line[1] if separator_line else _guess_separator(text)
        reader = csv.reader(lines, delimiter=self._separator, strict=True)
        while True:
            number = reader.line_num + skipped_lines + 1
            place = f"line {number}"
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
            yield number, cells


def _parse_cells(cells: list[str]) -> dict[int, Cell]:
    values = ((index, parse_cell(text)) for index, text in enumerate(cells) if text)
    return {index: cell for index, cell in values if cell is not None}


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
    """The separator that gives one of the first lines the most known names, the product among them; then most cells."""
    lines = (line[0][:MAX_ROW_LENGTH] for line in islice(_LINE.finditer(text), 100))
    head = [line for line in lines if line.strip(" ,;\t\n") and not line.startswith("#")][:MAX_HEAD_ROWS]
    is_known: dict[str, bool] = {}
    ranks: dict[str, tuple[bool, int, int]] = {}
    for separator in _SEPARATORS:
        rows = [[cell.strip('" \n') for cell in line.split(separator)] for line in head]
        # A line without the separator says nothing about it, but a header of one name has none.
        ranks[separator] = max((_rank_cells(cells, is_known) for cells in rows), default=(False, 0, 0))
    return max(_SEPARATORS, key=lambda separator: ranks[separator])


def _rank_cells(cells: list[str], is_known: dict[str, bool]) -> tuple[bool, int, int]:
    count = _count_known_names(cells, is_known)
    has_product = count > 0 and any(is_known.get(cell) and names_product(cell) for cell in cells)
    return has_product, count, len(cells)


def _count_known_names(cells: list[str], is_known: dict[str, bool]) -> int:
    count = 0
    for name in cells[:MAX_COLUMNS]:
        if name not in is_known and len(is_known) < MAX_NAMES_COUNTED and len(name) < 200:
            is_known[name] = match_header(name, _ALL_TYPES).points > 0
        count += is_known.get(name, False)
    return count


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
