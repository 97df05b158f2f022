"""Cells of a spreadsheet: from what is stored to a value.

A number is its stored text, rounded to the 15 significant digits that a spreadsheet keeps and shows: 0.29 is stored as
0.28999999999999998 and read as 0.29. `number_formats` knows what its cell shows: a percentage, a date, a unit. A
formula is its stored result; programs that cannot compute store 0 and ask the spreadsheet to compute when it opens the
file, so that 0 is not a result. An error value is a problem, never an empty cell.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents import DocumentNote, quote_text
from bpc.core.documents.cells import MAX_COLUMNS, Cell, DateCell, InvalidCell, TableRow, parse_cell
from bpc.core.documents.elements import ExactNumber, NumberText, is_plain_decimal, parse_exact
from bpc.core.documents.xlsx.package import WorkbookUnreadable, XmlReader
from bpc.core.documents.xlsx.styles import CellStyles, RichText, SharedStrings, unescape_text

MAX_SHEET_COLUMNS: Final = 16_384
MAX_MERGES: Final = 10_000
SIGNIFICANT_DIGITS: Final = 15
STRUCK: Final = "is struck through; delete what is not meant, and remove the line from what is"
SAVE_AGAIN_HINT: Final = "; open the file in a spreadsheet and save it again as .xlsx"

_CELL_REFERENCE: Final = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_RANGE_REFERENCE: Final = re.compile("([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})")
_INDEX: Final = re.compile("[0-9]{1,7}")
_ISO_DAY: Final = re.compile("([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T00:00:00(?:[.]0+)?Z?)?")


@dataclass(slots=True)
class SheetDisplay:
    """What a person does not see of the cells of a sheet: hidden rows and columns, and all but one of merged cells.

    Rows and columns are counted from 1, as in the file.
    """

    hidden_rows: list[int] = field(default_factory=list)
    hidden_columns: set[int] = field(default_factory=set)
    filled_hidden_columns: set[int] = field(default_factory=set)
    merges: list[tuple[str, range, range]] = field(default_factory=list)

    def hide_columns(self, first: str, last: str) -> None:
        if _INDEX.fullmatch(first) and _INDEX.fullmatch(last):
            self.hidden_columns.update(range(int(first), min(int(last), MAX_SHEET_COLUMNS) + 1))

    def merge_cells(self, reference: str) -> None:
        parts = _RANGE_REFERENCE.fullmatch(reference)
        if parts and len(self.merges) < MAX_MERGES:
            left, top, right, bottom = parts.groups()
            columns = range(parse_column_letters(left) + 1, parse_column_letters(right) + 2)
            self.merges.append((reference, range(int(top), int(bottom) + 1), columns))

    def add_row(self, number: int, cells: Mapping[int, Cell], *, is_hidden: bool) -> None:
        if is_hidden:
            self.hidden_rows.append(number)
        if self.hidden_columns:
            self.filled_hidden_columns |= {column + 1 for column in cells} & self.hidden_columns

    def list_notes(self, sheet: str, first_row: int, columns: Collection[int]) -> Iterator[DocumentNote]:
        """Notes about these columns, counted from 0, from a row on."""
        numbers = {column + 1 for column in columns}
        for first, last in _join_runs(row for row in self.hidden_rows if row >= first_row):
            yield _note_hidden(f"{sheet}!{first}", "" if first == last else f":{last}", "row")
        for first, last in _join_runs(sorted(self.filled_hidden_columns & numbers)):
            end = "" if first == last else f":{format_column_letters(last - 1)}"
            yield _note_hidden(f"{sheet}!{format_column_letters(first - 1)}", end, "column")
        for reference, rows, across in self.merges:
            is_read = rows[-1] >= first_row and not numbers.isdisjoint(across)
            if is_read and (len(rows) > 1 or len(numbers.intersection(across)) > 1):
                yield DocumentNote(
                    f"{sheet}!{reference}",
                    "is one merged cell: a person sees one value for all of it, but each cell was read with what it"
                    " holds; split the cell and write the value where it is meant",
                )


def _note_hidden(at: str, end: str, what: str) -> DocumentNote:
    if end:
        return DocumentNote(at + end, f"are hidden {what}s and were read; delete them if they are not meant")
    return DocumentNote(at, f"is a hidden {what} and was read; delete it if it is not meant")


def _join_runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of numbers that follow each other."""
    first = last = None
    for number in numbers:
        if first is None or last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


def is_set(attributes: Mapping[str, str], name: str, *, default: str = "0") -> bool:
    """Whether a boolean attribute is true."""
    return attributes.get(name, default) in {"1", "true"}


class SheetRowReader(XmlReader):
    """The rows of a sheet; `take_rows` returns those that are complete."""

    element_names = frozenset({"row", "c", "v", "f", "t", "col", "mergeCell", "sheetView", *RichText.element_names})

    def __init__(
        self,
        sheet: str,
        texts: SharedStrings,
        styles: CellStyles,
        display: SheetDisplay,
        *,
        from_1904: bool,
        recalculates: bool,
    ) -> None:
        self._sheet = sheet
        self._texts = texts
        self._styles = styles
        self._rich_text = RichText()
        self._hides_zeros = False
        self._formats = styles.formats
        self._display = display
        self._from_1904 = from_1904
        self._recalculates = recalculates
        self._complete_rows: list[TableRow] = []
        self._row = 0
        self._is_numbered = False
        self._column = -1
        self._cells: dict[int, Cell] = {}
        self._kind = ""
        self._style = ""
        self._parts: list[str] | None = None
        self._value: list[str] = []
        self._has_value = self._has_formula = self._is_hidden = False
        # ECMA-376 part 1, 18.18.11; anything else is a number.
        self._cell_readers: Mapping[str, Callable[[str], Cell | None]] = {
            "s": self._read_shared_string,
            "str": _parse_text,
            "inlineStr": _parse_text,
            "b": lambda text: text == "1",
            "e": lambda text: InvalidCell(f"is {text[:20]}; correct the formula"),
            "d": _parse_iso_day,
        }

    def take_rows(self) -> Iterator[TableRow]:
        """The rows that were completed since the last time."""
        rows, self._complete_rows = self._complete_rows, []
        yield from rows

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "c":
                self._begin_cell(attributes)
            case "v":
                self._parts = self._value
                self._has_value = True
            case "t" if not self._rich_text.in_phonetic:
                self._parts = self._value
                self._has_value = True
            case "sheetView":
                self._hides_zeros = not is_set(attributes, "showZeros", default="1")
            case "f":
                self._has_formula = True
            case "row":
                self._begin_row(attributes.get("r"))
                self._is_hidden = is_set(attributes, "hidden") or attributes.get("ht") == "0"
            case "col" if is_set(attributes, "hidden") or attributes.get("width") == "0":
                self._display.hide_columns(attributes.get("min", ""), attributes.get("max", ""))
            case "mergeCell":
                self._display.merge_cells(attributes.get("ref", ""))
            case _:
                self._rich_text.start_element(name, attributes)

    def _begin_row(self, number: str | None) -> None:
        if number is not None and _INDEX.fullmatch(number) is None:
            raise WorkbookUnreadable(
                f"has a row in sheet {self._sheet} whose number {quote_text(number)} is not valid{SAVE_AGAIN_HINT}"
            )
        self._row = self._row + 1 if number is None else int(number)
        self._is_numbered = number is not None
        self._column = -1
        self._cells = {}

    def _begin_cell(self, attributes: Mapping[str, str]) -> None:
        self._column = self._find_column(attributes.get("r"))
        self._kind = attributes.get("t", "n")
        self._style = attributes.get("s", "0")
        self._value = []
        self._has_value = self._has_formula = False
        self._rich_text = RichText()

    def _find_column(self, reference: str | None) -> int:
        """The column of a cell. A wrong reference is refused: guessing could put a value under another name."""
        if reference is None:  # ECMA-376 part 1, 18.3.1.4: the reference may be left out
            return self._column + 1
        where = f"in row {self._row} of sheet {self._sheet} with the reference {quote_text(reference)}"
        parts = _CELL_REFERENCE.fullmatch(reference)
        if parts is None:
            raise WorkbookUnreadable(f"has a cell {where}, which is not valid{SAVE_AGAIN_HINT}")
        if self._is_numbered and int(parts[2]) != self._row:
            raise WorkbookUnreadable(f"has a cell {where}, which belongs to another row{SAVE_AGAIN_HINT}")
        return parse_column_letters(parts[1])

    def end_element(self, name: str) -> None:
        match name:
            case "v" | "t":
                self._parts = None
            case "c":
                cell = self._read_cell()
                if cell is not None:
                    self._cells[self._column] = cell
                    if len(self._cells) > MAX_COLUMNS:
                        raise WorkbookUnreadable(f"has a row with more than {MAX_COLUMNS:,} cells")
            case "row":
                if self._cells:
                    self._display.add_row(self._row, self._cells, is_hidden=self._is_hidden)
                    self._complete_rows.append(TableRow(f"{self._sheet}!{self._row}", self._cells, self._row))
                self._cells = {}
            case _:
                self._rich_text.end_element(name)

    def add_text(self, text: str) -> None:
        if self._parts is not None:
            self._parts.append(self._rich_text.show(text))

    def _read_cell(self) -> Cell | None:
        text = "".join(self._value)
        if self._has_formula and self._lacks_result(text):
            return InvalidCell("is a formula whose result is not stored; open the file in a spreadsheet and save it")
        if not self._has_value:
            return None
        cell = self._cell_readers.get(self._kind, self._read_number)(text)
        number_format = self._formats.get(self._style)
        if isinstance(cell, str) and number_format is not None and number_format.hides_texts:
            return InvalidCell(f"is {quote_text(cell)}, but its number format shows nothing; format the cell as text")
        is_struck = self._rich_text.is_struck or self._style in self._styles.struck_styles
        return InvalidCell(STRUCK) if cell is not None and is_struck else cell

    def _lacks_result(self, text: str) -> bool:
        """Whether a formula has what programs that cannot compute write: an empty number, or 0 until it is opened."""
        if not text:
            return self._kind != "str" or not self._has_value
        return self._recalculates and self._kind == "n" and text == "0"

    def _read_shared_string(self, text: str) -> Cell | None:
        if _INDEX.fullmatch(text) is None or int(text) >= len(self._texts.texts):
            return InvalidCell("refers to a text that is not in the file; save it again as .xlsx")
        return InvalidCell(STRUCK) if int(text) in self._texts.struck else parse_cell(self._texts.texts[int(text)])

    def _read_number(self, text: str) -> Cell | None:
        if not text:
            return None
        is_plain = len(text) <= SIGNIFICANT_DIGITS and is_plain_decimal(text)
        number = NumberText(text) if is_plain else _parse_number(text)
        if self._hides_zeros and isinstance(number, NumberText) and not number.text.strip("-0."):
            return InvalidCell("is 0, but its sheet does not show zeros; show them, or leave the cell empty")
        number_format = self._formats.get(self._style)
        if number_format is None or not isinstance(number, NumberText):
            return number
        return number_format.show_number(number, from_1904=self._from_1904)


def _parse_text(text: str) -> Cell | None:
    return parse_cell(unescape_text(text))


def _parse_number(text: str) -> NumberText | InvalidCell:
    value = parse_exact(text)
    if value is None:
        return InvalidCell("is not a valid number")
    short_number = _round_to_significant(value)
    if short_number is None:
        return InvalidCell(
            f"has more than the {SIGNIFICANT_DIGITS} digits a spreadsheet keeps; format the cell as text"
        )
    return NumberText(str(short_number))


def _round_to_significant(value: ExactNumber) -> ExactNumber | None:
    """The value at 15 significant digits, rounded half-even; None for a whole number that has more."""
    surplus = len(str(abs(value.count))) - SIGNIFICANT_DIGITS
    if surplus <= 0:
        return value
    if surplus > value.scale:
        return value if value.count % 10**surplus == 0 else None
    return ExactNumber(value.round_half_even(value.scale - surplus), value.scale - surplus)


def _parse_iso_day(text: str) -> Cell:
    day = _ISO_DAY.fullmatch(text)
    return DateCell(day[1]) if day else InvalidCell("is not a date without a time; write it like 2027-02-18")


def parse_column_letters(letters: str) -> int:
    """A is 0, Z is 25, AA is 26."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def format_column_letters(number: int) -> str:
    letters = ""
    number += 1
    while number:
        number, letter_index = divmod(number - 1, 26)
        letters = chr(ord("A") + letter_index) + letters
    return letters
