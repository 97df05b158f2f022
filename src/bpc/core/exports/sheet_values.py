"""Values in words, as a language writes them: `{"unit":"V",…}` is "402 V", a list of records is a table.

Pure. A number of more than six decimals, a text of more than 10,000 letters and a table of more than 1,000 rows are
cut, visibly. An address becomes a link, if it is one that a reader may follow: http, https, or an e-mail address.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypedDict

from bpc.core.catalogue.extraction import format_words
from bpc.core.catalogue.number_format import NO_BREAK_SPACE, format_day, format_number, format_quantity
from bpc.core.catalogue.product_texts import SHEET_TEXTS, VALUE_WORDS
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.disclosure import DisclosedField
from bpc.core.language.typed import FieldAbout
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    Dec,
    EnumType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
    unwrap_option_type,
)
from bpc.core.passport.qr import encode_qr_modules

DECIMALS: Final = 6
ABSENT: Final = "–"
LONGEST_TEXT: Final = 10_000
MOST_ROWS: Final = 1_000
MOST_COLUMNS: Final = 6
LONGEST_LIST: Final = 60

COMPOSITE_TYPES: Final = (List, Map, Record)
# Units as rules write them for people, by the name of the unit.
_UNIT_NAMES: Final[Mapping[str, str]] = {
    "month": "month",
    "months": "month",
    "year": "year",
    "years": "year",
    "cycles": "cycle",
    "% per month": "pct_per_month",
    "g CO2e": "gCO2e",
    "kg CO2e": "kgCO2e",
    "t CO2e": "tCO2e",
    "g CO2e per kWh": "gCO2e_per_kWh",
    "kg CO2e per kWh": "kgCO2e_per_kWh",
}
# Where rules say nothing of a field, the last word of its path does, for those of a few values.
_POINTS_BY_NAME: Final = {"category": 6, "status": 67}
_WEB: Final = re.compile(r"https?://[!-~]{1,2000}")
_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}\.[A-Za-z]{2,24}")


class PrintedText(TypedDict):
    """A text, and where it leads ("" if nowhere)."""

    text: str
    href: str


class ValueWriter:
    """Writes values in one language."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._language = wording.language

    def translate(self, name: str, **args: str) -> str:
        """A text of the sheet by its name."""
        return self._wording.translate("sheet", SHEET_TEXTS[name], **args)

    def format_count(self, number: int) -> str:
        return format_number(self._language, str(number))

    def format_day(self, day: str) -> str:
        return format_day(self._language, day)

    def format_field(self, field: DisclosedField, about: FieldAbout | None) -> str:
        """The value of a field as one text."""
        text = self._format_value(field.kind, field.value, about)
        if about is None:
            text = self.translate_word(_POINTS_BY_NAME.get(field.path.rsplit(".", 1)[-1]), text)
        return self._truncate(text)

    def list_lines(self, field: DisclosedField, about: FieldAbout | None) -> list[PrintedText]:
        """The value of a field as the lines it is printed on: those of a list each, if they are long or links."""
        kind = unwrap_option_type(field.kind)
        if field.value == []:
            return [make_text(self.translate("none"))]
        if isinstance(kind, List) and isinstance(field.value, list):
            items = [self._truncate(self._format_value(kind.item, item, about)) for item in field.value[:MOST_ROWS]]
            more = len(field.value) - MOST_ROWS
            rest = [self.translate("more_rows", count=self.format_count(more))] if more > 0 else []
            if any(find_link(item) for item in items) or sum(map(len, items)) > LONGEST_LIST:
                return [make_text(item) for item in (*items, *rest)]
        return [make_text(self.format_field(field, about))]

    def build_table(self, field: DisclosedField) -> tuple[list[str], list[list[PrintedText]]] | None:
        """The columns and cells of a list of records; None if it is none, or too wide for the paper."""
        kind = unwrap_option_type(field.kind)
        if not (isinstance(kind, List) and isinstance(kind.item, Record) and isinstance(field.value, list)):
            return None
        records: Sequence[Any] = field.value
        members = [each for each in kind.item.members if any(not is_blank(record[each[0]]) for record in records)]
        if not 0 < len(members) <= MOST_COLUMNS:
            return None
        rows = [
            [make_text(self._truncate(self._format_cell(name, part, record[name]))) for name, part in members]
            for record in records[:MOST_ROWS]
        ]
        if len(records) > MOST_ROWS:
            more = self.translate("more_rows", count=self.format_count(len(records) - MOST_ROWS))
            rows.append([make_text(more), *(make_text("") for _ in members[1:])])
        return [self.format_member(name) for name, _ in members], rows

    def _format_cell(self, name: str, kind: Type, value: Any) -> str:
        return self.translate_word(name, self._format_value(kind, value, None))

    def format_member(self, name: str) -> str:
        """The heading of a column."""
        return self._wording.translate(f"member {name}", format_words(name))

    def translate_word(self, point: int | str | None, word: str) -> str:
        """A value that is one of a few words, such as the category of a battery: of a data point, or of a member."""
        english_word = VALUE_WORDS.get(str(point), {}).get(word)
        return word if english_word is None else self._wording.translate(f"value {point}", english_word)

    def _truncate(self, text: str) -> str:
        over = len(text) - LONGEST_TEXT
        if over <= 0:
            return text
        return text[:LONGEST_TEXT] + self.translate("more_letters", count=self.format_count(over))

    def _format_value(self, kind: Type, value: Any, about: FieldAbout | None) -> str:  # noqa: PLR0911 (one form a case)
        match kind:
            case Opt(item):
                return ABSENT if value is None else self._format_value(item, value, about)
            case List(item):
                separator = ", " if not isinstance(item, COMPOSITE_TYPES) else "; "
                return separator.join(self._format_value(item, part, about) for part in value) or ABSENT
            case Map(item):
                return ", ".join(f"{key}: {self._format_value(item, value[key], about)}" for key in value) or ABSENT
            case Record(members):
                parts = ((name, self._format_value(part, value[name], None)) for name, part in members)
                return ", ".join(f"{self.format_member(name)}: {text}" for name, text in parts)
            case Qty():
                return format_quantity(self._language, value["value"], value["unit"], decimals=DECIMALS)
            case Dec():
                return self._format_plain(str(value), about)
            case EnumType(name):
                return self._format_member_of(name, str(value), about)
            case _ if kind == INT:
                return self._format_plain(str(value), about)
            case _ if kind == DATE:
                return format_day(self._language, value)
            case _ if kind == BOOL:
                return self.translate("yes" if value else "no")
            case _:
                return self.translate_word(None if about is None else about.point_number, str(value))

    def _format_plain(self, number: str, about: FieldAbout | None) -> str:
        """A number, with the unit that the rules give it for people. A number without one may be a year or a serial."""
        if about is None or about.unit is None:
            return (
                format_number(self._language, number, decimals=DECIMALS)
                if "." in number
                else _group_large(self, number)
            )
        unit = _UNIT_NAMES.get(about.unit)
        if unit is not None:
            return format_quantity(self._language, number, unit, decimals=DECIMALS)
        return f"{format_number(self._language, number, decimals=DECIMALS)}{NO_BREAK_SPACE}{about.unit}"

    def _format_member_of(self, enum: str, member: str, about: FieldAbout | None) -> str:
        translation = self._wording.find(f"enum {enum}", member)
        if translation is not None:
            return translation
        # ASCII only: the members of an enumeration are.
        small = member.translate({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})
        word = self.translate_word(None if about is None else about.point_number, small)
        return member if word == small else word


def _group_large(writer: ValueWriter, number: str) -> str:
    """A whole number without a unit; one of four digits may be a year, which nobody writes with a separator."""
    return number if len(number.lstrip("-")) <= 4 else writer.format_count(int(number))


def is_blank(value: Any) -> bool:
    """Whether a value says nothing: absent, an empty text, an empty list or record, or one of nothing but those."""
    match value:
        case None | "":
            return True
        case list() | tuple():
            return all(map(is_blank, value))
        case Mapping():
            return all(map(is_blank, value.values()))
        case _:
            return False


def says_something(field: DisclosedField) -> bool:
    """Whether a field has a value; an empty list that could have been absent says that there are none."""
    return not is_blank(field.value) or (isinstance(field.kind, Opt) and field.value == [])


def is_unsaid(field: DisclosedField) -> bool:
    """Whether a field is empty because nobody said it; a list that is always there is empty because nothing is due."""
    return not says_something(field) and not isinstance(field.kind, List)


def find_link(text: str) -> str:
    """Where a text leads: the address that it is, or ""."""
    if _WEB.fullmatch(text):
        return text
    return f"mailto:{text}" if _EMAIL.fullmatch(text) else ""


def make_text(text: str) -> PrintedText:
    return {"text": text, "href": find_link(text)}


def format_path(path: str) -> str:
    """`general.manufacturer.trade_mark` as `Manufacturer · trade mark`: for a field whose rule gives it no label."""
    first, *others = path.split(".", 1)[-1].split(".")
    return " · ".join([format_words(first), *(format_words(part, start=False) for part in others)])


def join_texts(texts: Iterable[str]) -> str:
    return ", ".join(text for text in texts if text)


def draw_qr_svg(text: str) -> str:
    """The QR code that says `text`."""
    return draw_modules_svg(encode_qr_modules(text))


def draw_modules_svg(rows: Sequence[bytes]) -> str:
    """A QR code as one path, a module a unit, its quiet zone around it."""
    path_data = "".join(
        f"M{start} {y}h{length}v1h-{length}z" for y, row in enumerate(rows) for start, length in _find_dark_runs(row)
    )
    size = len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" height="{size}">'
        f'<path d="{path_data}" fill="#000000"/></svg>'
    )


def _find_dark_runs(row: bytes) -> Iterator[tuple[int, int]]:
    """Where dark runs of a row begin, and how long they are."""
    start = 0
    for dark, run in groupby(row, lambda module: module == 0):
        length = len(list(run))
        if dark:
            yield start, length
        start += length
