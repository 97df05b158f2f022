"""Cells of a spreadsheet: what is stored for each, and what that means.

A number is the text that is stored for it, at the 15 significant digits a spreadsheet keeps and shows: what was typed
as 0.29 is stored as 0.28999999999999998 and is 0.29. A date is a number of days with a format that shows days. A
formula is its stored result; an error is a problem, never an empty cell.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Final

from bpc.core.documents.notes import quoted
from bpc.core.documents.tables import MOST_COLUMNS, Cell, Day, Row, Wrong, cell_of
from bpc.core.documents.values import Exact, Number, exact, is_plain
from bpc.core.documents.xlsx_parts import Unreadable

MOST_TEXTS: Final = 300_000
MOST_STYLES: Final = 65_536
KEPT_DIGITS: Final = 15
LAST_DAY: Final = date.max.toordinal()
AGAIN: Final = "; open the file in a spreadsheet and save it again as .xlsx"

_ESCAPED: Final = re.compile("_x([0-9A-Fa-f]{4})_")
_CELL: Final = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_INDEX: Final = re.compile("[0-9]{1,7}")
_ISO_DAY: Final = re.compile("([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T00:00:00(?:[.]0+)?Z?)?")
# What in a format is shown as it is or says something else: quoted, escaped, blank of a letter's width, colours.
_SHOWN: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_OF_TIME: Final = re.compile("[dmyhs]", re.IGNORECASE)
_DATE_FORMATS: Final = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))


def unescaped(text: str) -> str:
    """A stored text as it is shown: `_x000A_` is a line break."""
    if "_x" not in text:
        return text
    shown = _ESCAPED.sub(lambda code: chr(int(code[1], 16)), text)
    return shown.replace("\r\n", "\n")


class Texts:
    """The texts that cells refer to by number. Those for reading aloud (`rPh`) are left out."""

    wanted = frozenset({"si", "t", "rPh"})

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._wanted = False
        self._aloud = False

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 (a reader's signature)
        if name == "si":
            if len(self.found) == MOST_TEXTS:
                raise Unreadable(f"has more than {MOST_TEXTS:,} texts; split the document")
            self._parts = []
        elif name == "rPh":
            self._aloud = True
        else:
            self._wanted = not self._aloud

    def end(self, name: str) -> None:
        if name == "si":
            self.found.append(unescaped("".join(self._parts)))
        elif name == "rPh":
            self._aloud = False
        else:
            self._wanted = False

    def text(self, text: str) -> None:
        if self._wanted:
            self._parts.append(text)


class Styles:
    """Which styles show a number as a date, by their number as cells write it."""

    wanted = frozenset({"numFmt", "cellXfs", "xf"})

    def __init__(self) -> None:
        self.dates: set[str] = set()
        self._count = 0
        self._formats: dict[str, str] = {}
        self._of_cells = False

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "numFmt":
            self._formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._of_cells = True
        elif self._of_cells:
            if self._count == MOST_STYLES:
                raise Unreadable(f"has more than {MOST_STYLES:,} styles, which no workbook has")
            if self._shows_date(attributes.get("numFmtId", "0")):
                self.dates.add(str(self._count))
            self._count += 1

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._of_cells = False

    def text(self, text: str) -> None:
        pass

    def _shows_date(self, number: str) -> bool:
        code = self._formats.get(number)
        if code is not None:
            return len(code) <= 255 and _OF_TIME.search(_SHOWN.sub("", code)) is not None
        return _INDEX.fullmatch(number) is not None and int(number) in _DATE_FORMATS


class Rows:
    """The rows of a sheet, taken as they are read."""

    wanted = frozenset({"row", "c", "v", "f", "t", "rPh"})

    def __init__(self, sheet: str, texts: list[str], dates: frozenset[str], *, from_1904: bool) -> None:
        self._sheet = sheet
        self._texts = texts
        self._dates = dates
        self._from_1904 = from_1904
        self._done: list[Row] = []
        self._row = 0
        self._is_numbered = False
        self._column = -1
        self._cells: dict[int, Cell] = {}
        self._kind = ""
        self._style = ""
        self._parts: list[str] | None = None
        self._value: list[str] = []
        self._has_value = self._has_formula = self._aloud = False
        # ECMA-376 part 1, 18.18.11; anything else is a number.
        self._kinds: Mapping[str, Callable[[str], Cell | None]] = {
            "s": self._shared,
            "str": _plain,
            "inlineStr": _plain,
            "b": lambda stored: stored == "1",
            "e": lambda stored: Wrong(f"is {stored[:20]}; correct the formula that gave it"),
            "d": _iso,
        }

    def taken(self) -> Iterator[Row]:
        """The rows that were completed since the last time."""
        done, self._done = self._done, []
        yield from done

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "c":
                self._begin_cell(attributes)
            case "v" | "t" if not self._aloud:
                self._parts = self._value
                self._has_value = True
            case "f":
                self._has_formula = True
            case "row":
                self._begin_row(attributes.get("r"))
            case "rPh":
                self._aloud = True
            case _:
                pass

    def _begin_row(self, number: str | None) -> None:
        if number is not None and _INDEX.fullmatch(number) is None:
            raise Unreadable(f"has a row in sheet {self._sheet} with the number {quoted(number)}, which is none{AGAIN}")
        self._row = self._row + 1 if number is None else int(number)
        self._is_numbered = number is not None
        self._column = -1
        self._cells = {}

    def _begin_cell(self, attributes: Mapping[str, str]) -> None:
        self._column = self._column_of(attributes.get("r"))
        self._kind = attributes.get("t", "n")
        self._style = attributes.get("s", "0")
        self._value = []
        self._has_value = self._has_formula = False

    def _column_of(self, place: str | None) -> int:
        """Guessing where a cell belongs would put a value under another name: what is no place is refused."""
        if place is None:  # ECMA-376 part 1, 18.3.1.4: the reference may be left out
            return self._column + 1
        where = f"in row {self._row} of sheet {self._sheet} with the reference {quoted(place)}"
        found = _CELL.fullmatch(place)
        if found is None:
            raise Unreadable(f"has a cell {where}, which names no cell{AGAIN}")
        if self._is_numbered and int(found[2]) != self._row:
            raise Unreadable(f"has a cell {where}, which is of another row{AGAIN}")
        return column_number(found[1])

    def end(self, name: str) -> None:
        match name:
            case "v" | "t":
                self._parts = None
            case "c":
                cell = self._cell()
                if cell is not None:
                    self._cells[self._column] = cell
                    if len(self._cells) > MOST_COLUMNS:
                        raise Unreadable(f"has a row with more than {MOST_COLUMNS:,} cells")
            case "row":
                if self._cells:
                    self._done.append(Row(f"{self._sheet}!{self._row}", self._cells))
                self._cells = {}
            case "rPh":
                self._aloud = False
            case _:
                pass

    def text(self, text: str) -> None:
        if self._parts is not None:
            self._parts.append(text)

    def _cell(self) -> Cell | None:
        if self._has_value:
            read = self._kinds.get(self._kind, self._number)
            return read("".join(self._value))
        if self._has_formula:
            return Wrong("is a formula whose result is not stored; open the file in a spreadsheet and save it")
        return None

    def _shared(self, stored: str) -> Cell | None:
        if _INDEX.fullmatch(stored) is None or int(stored) >= len(self._texts):
            return Wrong("refers to a text that is not in the file; save it again as .xlsx")
        return cell_of(self._texts[int(stored)])

    def _number(self, stored: str) -> Cell | None:
        if self._style in self._dates:
            return _day(stored, from_1904=self._from_1904)
        if len(stored) <= KEPT_DIGITS and is_plain(stored):
            return Number(stored)
        return _number(stored) if stored else None


def _plain(stored: str) -> Cell | None:
    return cell_of(unescaped(stored))


def _number(stored: str) -> Number | Wrong:
    value = exact(stored)
    if value is None:
        return Wrong("is a number that nobody can read")
    kept = _at_kept_digits(value)
    if kept is None:
        return Wrong(f"has more than the {KEPT_DIGITS} digits a spreadsheet keeps; format the cell as text")
    return Number(_written(kept))


def _at_kept_digits(value: Exact) -> Exact | None:
    """The value at 15 significant digits, rounded half-even; None for a whole number that has more."""
    many = len(str(abs(value.count))) - KEPT_DIGITS
    if many <= 0:
        return value
    if many > value.scale:
        return value if value.count % 10**many == 0 else None
    count, rest = divmod(value.count, 10**many)
    half = 5 * 10 ** (many - 1)
    return Exact(count + (rest > half or (rest == half and count % 2 == 1)), value.scale - many)


def _written(value: Exact) -> str:
    """A value as a plain decimal, without zeros at its end."""
    digits = str(abs(value.count)).rjust(value.scale + 1, "0")
    whole, fraction = digits[: len(digits) - value.scale], digits[len(digits) - value.scale :].rstrip("0")
    sign = "-" if value.count < 0 else ""
    return sign + (f"{whole}.{fraction}" if fraction else whole)


def _day(stored: str, *, from_1904: bool) -> Cell | None:
    if not stored:
        return None
    value = exact(stored)
    days = None if value is None else value.at_scale(0)
    if days is None:
        return Wrong("is a date with a time of day; leave the day alone, or format the cell as text")
    # ECMA-376 part 1, 18.17.4.1: 1900 counts as a leap year, so that days before March are one further on.
    start = date(1904, 1, 1) if from_1904 else date(1899, 12, 31) if days < 60 else date(1899, 12, 30)
    if days < 0 or start.toordinal() + days > LAST_DAY or (days == 60 and not from_1904):
        return Wrong("is a date that is none")
    return Day((start + timedelta(days)).isoformat())


def _iso(stored: str) -> Cell:
    day = _ISO_DAY.fullmatch(stored)
    return Day(day[1]) if day else Wrong("is a date with a time of day, or none; write it like 2027-02-18")


def column_number(letters: str) -> int:
    """A is 0, Z is 25, AA is 26."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def column_letters(number: int) -> str:
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
