"""CSV: the bytes of a text file in, one table out.

What spreadsheets export is read as it is: UTF-8 with or without its mark, or UTF-16 with one; any kind of line end;
`;`, `,` or a tab between cells, whichever makes the header say most; a first line `sep=;`; cells in quotes, with line
breaks and doubled quotes in them. A number is the text it is written as.

Reading takes time and memory in proportion to the bytes: lines, columns and the length of a row are bounded before
anything is made of them.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Final

from bpc.core.documents.columns import normal, steps_of
from bpc.core.documents.elements import Element
from bpc.core.documents.notes import Notes
from bpc.core.documents.tables import MOST_COLUMNS, Cell, Row, Sheet, cell_of, elements_of, facts_of, is_comment
from bpc.core.file_types import BYTE_ORDER_MARK
from bpc.core.schemas import SCHEMAS

MOST_LINES: Final = 400_000
LONGEST_ROW: Final = 1_000_000

_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_SEPARATORS: Final = (",", ";", "\t")
_SAYS_SEPARATOR: Final = re.compile(r"sep=([;,\t|])", re.IGNORECASE | re.ASCII)
_LINE: Final = re.compile(r"[^\n]*\n?")
_NAMES: Final = frozenset(name for members in SCHEMAS.values() for name in members)


class RowTooLong(Exception):
    """A row has more characters than any table's: most likely a quote was never closed."""


def elements(kind: str, content: bytes, notes: Notes) -> Iterable[Element]:
    """The elements of a document that is one table."""
    text = _text(content, notes)
    if text is None:
        return ()
    if not facts_of(kind):
        notes.problem("$", f"cannot be read: documents of kind {kind} have no facts")
        return ()
    table: Sheet = Table(text)
    return elements_of([(table, facts_of(kind))], notes)


class Table:
    """The one table of a CSV file."""

    name = ""

    def __init__(self, text: str) -> None:
        self._text = text

    def place(self, row: str, column: int | None, name: str) -> str:  # noqa: ARG002 (a column is known by its name)
        return f"{row}, column {name}"

    def rows(self, notes: Notes) -> Iterator[Row]:
        text, before = self._text, 0
        said = _SAYS_SEPARATOR.match(text)
        if said:
            before, text = 1, text[len(said[0]) :].lstrip(" ").removeprefix("\n")
        lines = _Lines(text)
        separator = said[1] if said else _separator(text)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        width = 0
        while True:
            place = f"line {reader.line_num + before + 1}"
            lines.begin()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except RowTooLong:
                notes.problem(place, f"is a row of more than {LONGEST_ROW:,} characters; is there a quote without end?")
                return
            except csv.Error as wrong:
                notes.problem(place, _explained(str(wrong)))
                return
            if len(cells) > MOST_COLUMNS:
                notes.problem(place, f"has {len(cells):,} cells, and at most {MOST_COLUMNS:,} are read")
                return
            found = _found(cells)
            if not found or is_comment(found):
                continue
            width = width or max(found) + 1
            if max(found) >= width:
                notes.problem(place, _too_many(max(found) + 1, width, separator))
            yield Row(place, found)


def _found(cells: list[str]) -> dict[int, Cell]:
    made = ((index, cell_of(text)) for index, text in enumerate(cells) if text)
    return {index: cell for index, cell in made if cell is not None}


def _too_many(cells: int, width: int, separator: str) -> str:
    shown = "tab" if separator == "\t" else f"`{separator}`"
    return f"has {cells:,} cells, and the header has {width:,}; put a cell that contains a {shown} in quotes"


def _explained(wrong: str) -> str:
    if wrong.startswith("field larger"):
        return "has a cell longer than 131,072 characters; is there a quote without end?"
    if wrong.startswith("unexpected end"):
        return "has a quote without end"
    return "has a quote inside a cell; write it twice, and the whole cell in quotes"


class _Lines:
    """The lines of a text, one by one, counting the characters of a row."""

    def __init__(self, text: str) -> None:
        self._found = _LINE.finditer(text)
        self._length = 0

    def begin(self) -> None:
        self._length = 0

    def __iter__(self) -> "Iterator[str]":
        return self

    def __next__(self) -> str:
        line = next(self._found)[0]
        if not line:
            raise StopIteration
        self._length += len(line)
        if self._length > LONGEST_ROW:
            raise RowTooLong
        return line


def _separator(text: str) -> str:
    """The separator with which the header has the most names we know, or else the most cells."""
    first = next((line for line in _first_lines(text) if line.strip(" ,;\t\n") and not line.startswith("#")), "")
    cells = {separator: first.split(separator) for separator in _SEPARATORS}
    return max(_SEPARATORS, key=lambda separator: (_known(cells[separator]), len(cells[separator])))


def _first_lines(text: str) -> Iterator[str]:
    for _, line in zip(range(100), _LINE.finditer(text), strict=False):
        yield line[0][:LONGEST_ROW]


def _known(cells: list[str]) -> int:
    steps = (steps_of(normal(cell.strip('" \n'))) for cell in cells[:MOST_COLUMNS] if len(cell) < 200)
    return sum(1 for found in steps if found and found[0] in _NAMES)


def _text(content: bytes, notes: Notes) -> str | None:
    try:
        if content.startswith(_UTF_16_MARKS):
            text = content.decode("utf-16")
        else:
            text = content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as wrong:
        line = content.count(b"\n", 0, wrong.start) + 1
        notes.problem(f"line {line}", "is not UTF-8; in Excel, save as `CSV UTF-8`")
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MOST_LINES:
        notes.problem("$", f"has more than {MOST_LINES:,} lines; split the document")
        return None
    if "\0" in text:
        notes.problem(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}", "has the character U+0000: is it text?")
        return None
    return text
