"""Cells of a spreadsheet: from what is stored to a value.

A number is its stored text, rounded to the 15 significant digits that a spreadsheet keeps and shows: 0.29 is stored as
0.28999999999999998 and read as 0.29. A number with a format that shows `%` is a percentage: 0.95 is read as 95 %. A
date is a number of days with a format that shows days. A formula is its stored result; programs that cannot compute
store 0 and ask the spreadsheet to compute when it opens the file, so that 0 is no result. An error value is a problem,
never an empty cell.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Final, NamedTuple

from bpc.core.documents import quote_text
from bpc.core.documents.cells import (
    MAX_COLUMNS,
    Cell,
    DateCell,
    FormattedNumber,
    InvalidCell,
    PercentCell,
    TableRow,
    parse_cell,
)
from bpc.core.documents.elements import ExactNumber, NumberText, is_plain_decimal, parse_exact, power_of_ten
from bpc.core.documents.xlsx_package import WorkbookUnreadable, XmlReader

MAX_TEXTS: Final = 300_000
MAX_STYLES: Final = 65_536
SIGNIFICANT_DIGITS: Final = 15
LAST_DAY: Final = date.max.toordinal()
SAVE_AGAIN_HINT: Final = "; open the file in a spreadsheet and save it again as .xlsx"

_ESCAPE: Final = re.compile("_x([0-9A-Fa-f]{4})_")
_CELL_REFERENCE: Final = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_INDEX: Final = re.compile("[0-9]{1,7}")
_ISO_DAY: Final = re.compile("([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T00:00:00(?:[.]0+)?Z?)?")
# The parts of a number format that are not date letters: quoted, escaped, blank of a letter's width, colours.
_LITERAL_FORMAT_PARTS: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
# Text that a format shows beside the number: quoted or escaped. What is in brackets is a currency or a colour.
_SHOWN_LITERALS: Final = re.compile(r'"([^"]*)"|\\(.)')
_UNIT_LETTER: Final = re.compile("[A-Za-z°Ωµμ]")
_ZERO_PADDING: Final = re.compile("0{2,}(?![^.]*[#?])")
_THOUSANDS_SCALING: Final = re.compile("[0#?],+(?![0#?])")
_SCIENTIFIC_FORMATS: Final = frozenset({"11", "48"})
_DATE_LETTERS: Final = re.compile("[dmyhs]", re.IGNORECASE)
_PERCENT_FORMATS: Final = frozenset({"9", "10"})
_DATE_FORMATS: Final = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))


def unescape_text(text: str) -> str:
    """Replace the escapes of a stored text: `_x000A_` is a line break."""
    if "_x" not in text:
        return text
    unescaped = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
    return unescaped.replace("\r\n", "\n")


class SharedStrings(XmlReader):
    """The texts that cells refer to by number, without pronunciation (`rPh`)."""

    element_names = frozenset({"si", "t", "rPh"})

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._in_text = False
        self._in_phonetic = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 (of XmlReader)
        if name == "si":
            if len(self.texts) == MAX_TEXTS:
                raise WorkbookUnreadable(f"has more than {MAX_TEXTS:,} texts; split the document")
            self._parts = []
        elif name == "rPh":
            self._in_phonetic = True
        else:
            self._in_text = not self._in_phonetic

    def end_element(self, name: str) -> None:
        if name == "si":
            self.texts.append(unescape_text("".join(self._parts)))
        elif name == "rPh":
            self._in_phonetic = False
        else:
            self._in_text = False

    def add_text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class NumberShape(NamedTuple):
    """What a number format adds to a number: a unit, zeros up to so many digits, or a division by thousands."""

    unit: str
    digits: int
    is_scaled: bool

    def shape_number(self, number: NumberText) -> Cell:
        if self.is_scaled:
            return InvalidCell(
                f"is {number.text}, which its number format shows in thousands; format the cell as a plain number"
            )
        is_whole = self.digits > 0 and _INDEX.fullmatch(number.text) is not None
        return FormattedNumber(number.text, self.unit, number.text.rjust(self.digits, "0") if is_whole else None)


class CellStyles(XmlReader):
    """The numbers of the styles that show a number as a date, a percentage or in another form, as cells write them."""

    element_names = frozenset({"numFmt", "cellXfs", "xf"})

    def __init__(self) -> None:
        self.date_styles: set[str] = set()
        self.percent_styles: set[str] = set()
        self.number_shapes: dict[str, NumberShape] = {}
        self._count = 0
        self._formats: dict[str, str] = {}
        self._in_cell_formats = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "numFmt":
            self._formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._in_cell_formats = True
        elif self._in_cell_formats:
            if self._count == MAX_STYLES:
                raise WorkbookUnreadable(f"has more than {MAX_STYLES:,} styles, which no workbook has")
            number = attributes.get("numFmtId", "0")
            if self._shows_date(number):
                self.date_styles.add(str(self._count))
            elif self._shows_percentage(number):
                self.percent_styles.add(str(self._count))
            elif (shape := self._find_shape(number)) is not None:
                self.number_shapes[str(self._count)] = shape
            self._count += 1

    def end_element(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cell_formats = False

    def _shows_date(self, number: str) -> bool:
        code = self._formats.get(number)
        if code is not None:
            return len(code) <= 255 and _DATE_LETTERS.search(_LITERAL_FORMAT_PARTS.sub("", code)) is not None
        return _INDEX.fullmatch(number) is not None and int(number) in _DATE_FORMATS

    def _find_shape(self, number: str) -> "NumberShape | None":
        """How a format shows a number, if a person sees something else than what is stored."""
        if number in _SCIENTIFIC_FORMATS:
            return NumberShape(unit="", digits=0, is_scaled=False)
        code = self._formats.get(number, "").partition(";")[0]
        if not code or len(code) > 255:
            return None
        bare = _LITERAL_FORMAT_PARTS.sub("", code)
        literals = "".join(quoted or escaped for quoted, escaped in _SHOWN_LITERALS.findall(code)).strip()
        unit = literals if _UNIT_LETTER.search(literals) else ""
        padding = _ZERO_PADDING.match(bare)
        is_scaled = _THOUSANDS_SCALING.search(bare) is not None
        if not unit and not is_scaled and padding is None and "E" not in bare:
            return None
        return NumberShape(unit=unit, digits=0 if padding is None else len(padding[0]), is_scaled=is_scaled)

    def _shows_percentage(self, number: str) -> bool:
        code = self._formats.get(number)
        if code is not None:
            return len(code) <= 255 and "%" in _LITERAL_FORMAT_PARTS.sub("", code)
        return number in _PERCENT_FORMATS


class SheetRowReader(XmlReader):
    """The rows of a sheet; `take_rows` returns those that are complete."""

    element_names = frozenset({"row", "c", "v", "f", "t", "rPh"})

    def __init__(
        self, sheet: str, texts: list[str], styles: CellStyles, *, from_1904: bool, recalculates: bool
    ) -> None:
        self._sheet = sheet
        self._texts = texts
        self._date_styles = styles.date_styles
        self._percent_styles = styles.percent_styles
        self._number_shapes = styles.number_shapes
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
        self._has_value = self._has_formula = self._in_phonetic = False
        # ECMA-376 part 1, 18.18.11; anything else is a number.
        self._cell_readers: Mapping[str, Callable[[str], Cell | None]] = {
            "s": self._read_shared_string,
            "str": _parse_text,
            "inlineStr": _parse_text,
            "b": lambda stored: stored == "1",
            "e": lambda stored: InvalidCell(f"is {stored[:20]}; correct the formula"),
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
            case "v" | "t" if not self._in_phonetic:
                self._parts = self._value
                self._has_value = True
            case "f":
                self._has_formula = True
            case "row":
                self._begin_row(attributes.get("r"))
            case "rPh":
                self._in_phonetic = True
            case _:
                pass

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
                    self._complete_rows.append(TableRow(f"{self._sheet}!{self._row}", self._cells, self._row))
                self._cells = {}
            case "rPh":
                self._in_phonetic = False
            case _:
                pass

    def add_text(self, text: str) -> None:
        if self._parts is not None:
            self._parts.append(text)

    def _read_cell(self) -> Cell | None:
        stored = "".join(self._value)
        if self._has_formula and self._lacks_result(stored):
            return InvalidCell("is a formula whose result is not stored; open the file in a spreadsheet and save it")
        if not self._has_value:
            return None
        return self._cell_readers.get(self._kind, self._read_number)(stored)

    def _lacks_result(self, stored: str) -> bool:
        """Whether a formula has what programs that cannot compute write: an empty number, or 0 until it is opened."""
        if not stored:
            return self._kind != "str" or not self._has_value
        return self._recalculates and self._kind == "n" and stored == "0"

    def _read_shared_string(self, stored: str) -> Cell | None:
        if _INDEX.fullmatch(stored) is None or int(stored) >= len(self._texts):
            return InvalidCell("refers to a text that is not in the file; save it again as .xlsx")
        return parse_cell(self._texts[int(stored)])

    def _read_number(self, stored: str) -> Cell | None:
        if self._style in self._date_styles:
            return _parse_day(stored, from_1904=self._from_1904)
        if self._style in self._percent_styles and stored:
            return _parse_percentage(stored)
        is_plain = len(stored) <= SIGNIFICANT_DIGITS and is_plain_decimal(stored)
        number = NumberText(stored) if is_plain else _parse_number(stored) if stored else None
        shape = self._number_shapes.get(self._style)
        return number if shape is None or not isinstance(number, NumberText) else shape.shape_number(number)


def _parse_text(stored: str) -> Cell | None:
    return parse_cell(unescape_text(stored))


def _parse_number(stored: str) -> NumberText | InvalidCell:
    value = parse_exact(stored)
    if value is None:
        return InvalidCell("is not a valid number")
    rounded = _round_to_significant(value)
    if rounded is None:
        return InvalidCell(
            f"has more than the {SIGNIFICANT_DIGITS} digits a spreadsheet keeps; format the cell as text"
        )
    return NumberText(str(rounded))


def _parse_percentage(stored: str) -> PercentCell | InvalidCell:
    number = _parse_number(stored)
    value = parse_exact(number.text) if isinstance(number, NumberText) else None
    if value is None:
        return number if isinstance(number, InvalidCell) else InvalidCell("is not a valid number")
    return PercentCell(str(value * power_of_ten(2)))


def _round_to_significant(value: ExactNumber) -> ExactNumber | None:
    """The value at 15 significant digits, rounded half-even; None for a whole number that has more."""
    surplus = len(str(abs(value.count))) - SIGNIFICANT_DIGITS
    if surplus <= 0:
        return value
    if surplus > value.scale:
        return value if value.count % 10**surplus == 0 else None
    return ExactNumber(value.round_half_even(value.scale - surplus), value.scale - surplus)


def _parse_day(stored: str, *, from_1904: bool) -> Cell | None:
    if not stored:
        return None
    value = parse_exact(stored)
    days = None if value is None else value.at_scale(0)
    if days is None:
        return InvalidCell("has a time of day; enter the date only, or format the cell as text")
    # ECMA-376 part 1, 18.17.4.1: 1900 counts as a leap year, so days before March 1900 are off by one.
    start = date(1904, 1, 1) if from_1904 else date(1899, 12, 31) if days < 60 else date(1899, 12, 30)
    if days < 0 or start.toordinal() + days > LAST_DAY or (days == 60 and not from_1904):
        return InvalidCell("is not a valid date")
    return DateCell((start + timedelta(days)).isoformat())


def _parse_iso_day(stored: str) -> Cell:
    day = _ISO_DAY.fullmatch(stored)
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
