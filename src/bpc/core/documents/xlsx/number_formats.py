r"""Number formats of spreadsheets: what a person sees in a cell whose number is stored in another form.

    0.95    0%              95 %
    0.4     0.0" t"         0.4 with the unit t
    123     000000          the text 000123, or the number 123
    86700   0.0,            refused: it is shown in thousands, as 86.7
    1234    0\.00           refused: it is shown as 12.34
    0       0;-0;;          refused: nothing is shown
    45900   mmm yyyy        refused: the day is not shown

A format has up to three sections for numbers: positive, negative and zero, or each with a condition (ECMA-376 part 1,
18.8.31). Only the section that shows the number counts.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents import quote_text
from bpc.core.documents.cells import Cell, DateCell, FormattedNumber, InvalidCell, PercentCell
from bpc.core.documents.elements import NumberText, parse_exact, power_of_ten

MAX_FORMAT_LENGTH: Final = 255
MAX_SECTIONS: Final = 3  # for numbers; a fourth is for texts
LAST_DAY: Final = date.max.toordinal()

# Formats that files name by their number. How money looks depends on the computer; the currency is not in the file.
_MONEY: Final = "[$¤]0"
BUILT_IN_FORMATS: Final = {
    "1": "0",
    "2": "0.00",
    "3": "#,##0",
    "4": "#,##0.00",
    "9": "0%",
    "10": "0.00%",
    "11": "0.00E+00",
    "12": "# ?/?",
    "13": "# ??/??",
    "14": "d/m/yyyy",
    "15": "d-mmm-yy",
    "16": "d-mmm",
    "17": "mmm-yy",
    "22": "d/m/yyyy h:mm",
    "37": "#,##0;(#,##0)",
    "38": "#,##0;(#,##0)",
    "39": "0.00;(0.00)",
    "40": "0.00;(0.00)",
    "41": '#,##0;-#,##0;"-"',
    "43": '0.00;-0.00;"-"',
    "48": "##0.0E+0",
    "49": "@",
    **dict.fromkeys(("5", "6", "7", "8", "42", "44"), _MONEY),
    **dict.fromkeys(("18", "19", "20", "21", "45", "46", "47"), "h:mm"),
    **dict.fromkeys(map(str, (*range(27, 37), *range(50, 59))), "yyyy/m/d"),
}

_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|(?P<blank>_.|\*.)|\[(?P<bracket>[^\]]*)\]|(?P<general>General)'
    r"|(?P<clock>AM/PM|A/P)|(?P<exponent>[eE][+-])|(?P<letters>([dmyhsge])\9*)|(?P<digit>[0#?])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_ELAPSED: Final = re.compile("h+|m+|s+", re.IGNORECASE)
_CONDITION: Final = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?[0-9]+(?:\.[0-9]+)?)")
_GROUPING: Final = frozenset(" \u00a0\u2007\u2009\u202f'\u2019")
_DIGITS: Final = frozenset("0123456789#?")
_INTEGER: Final = re.compile("[0-9]{1,15}")

_TokenKind: TypeAlias = Literal["literal", "digit", "general", "point", "group", "percent", "exponent", "date", "over"]


class FormatToken(NamedTuple):
    kind: _TokenKind
    text: str


_TEXT: Final = FormatToken("general", "@")
_ZERO: Final = FormatToken("digit", "0")


@dataclass(frozen=True)
class FormatSection:
    """A section of a number format: what it shows, for which numbers, and whether in a colour.

    What follows from the tokens is found out once: a sheet has thousands of cells with one format.
    """

    tokens: tuple[FormatToken, ...]
    condition: tuple[str, int] | None = None  # with the limit as `_scale_number` gives it
    has_colour: bool = False

    @cached_property
    def kinds(self) -> frozenset[_TokenKind]:
        return frozenset(token.kind for token in self.tokens)

    @cached_property
    def has_digits(self) -> bool:
        return not self.kinds.isdisjoint(_DIGIT_KINDS)

    @cached_property
    def always_shows_digits(self) -> bool:
        return "general" in self.kinds or _ZERO in self.tokens or self.is_fraction

    @cached_property
    def is_in_thousands(self) -> bool:
        """Whether a comma stands behind the digits: it divides the number by a thousand."""
        following = (*(token.kind for token in self.tokens[1:]), "")
        return any(
            token.kind == "group" and after != "digit" for token, after in zip(self.tokens, following, strict=False)
        )

    @cached_property
    def is_fraction(self) -> bool:
        return any(
            token.kind == "over" and after.text[:1] in _DIGITS
            for token, after in zip(self.tokens, self.tokens[1:], strict=False)
        )

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where the digits are."""
        return tuple(index for index, token in enumerate(self.tokens) if token.kind in _DIGIT_KINDS)

    @cached_property
    def literals(self) -> tuple[str, str]:
        """The texts before and behind the digits."""
        before, behind = (
            "".join(token.text for token in self.tokens[part] if token.kind in {"literal", "over"}).strip()
            for part in (slice(self.places[0]), slice(self.places[-1] + 1, None))
        )
        return before, "" if self.is_fraction and behind[:1] == "/" and _ASCII_DIGITS.fullmatch(behind[1:]) else behind

    @cached_property
    def unit(self) -> str:
        prefix, suffix = self.literals
        return " ".join(f"{prefix.strip(_SIGN_MARKS)} {suffix.strip(_SIGN_MARKS)}".split())

    @cached_property
    def is_in_one_piece(self) -> bool:
        """Whether nothing stands between the digits but what separates thousands, the decimals or a fraction."""
        between = self.tokens[self.places[0] : self.places[-1] + 1]
        signs = "".join(_sign_token(token) for token in between if token.kind != "group")
        return (_FRACTION if self.is_fraction else _ONE_PIECE).fullmatch(signs) is not None

    @cached_property
    def sign_faults(self) -> tuple[str | None, str | None]:
        """How a number looks whose format changes its sign, in a section for all numbers and in one for negative ones.

        None if the sign is right. Red numbers are negative ones.
        """
        prefix, suffix = self.literals
        minuses = len(prefix) - len(prefix.lstrip("-")) + suffix.endswith("-")
        signs = minuses + (prefix[:1] == "(" and suffix[-1:] == ")")
        is_negative = signs == 1 or (not signs and self.has_colour)
        return "as negative" if signs else None, None if is_negative else "without its minus sign"


class NumberFormat(NamedTuple):
    """A number format that shows something else than the number, or may."""

    sections: tuple[FormatSection, ...]
    hides_texts: bool

    def show_number(self, number: NumberText, *, from_1904: bool) -> Cell:
        """The cell as a person sees it; or why it cannot be read."""
        section, is_negative_section = self._choose_section(number.text)
        if section is None:
            return InvalidCell(f"is {number.text}, which its number format shows in another form; {_REMEDY}")
        if "date" in section.kinds:
            return _show_date(section, number.text, from_1904=from_1904)
        if not section.has_digits or _shows_no_digit(section, number.text):
            texts = "".join(token.text for token in section.tokens if token.kind == "literal").strip()
            return InvalidCell(
                f"is {number.text}, but its number format shows {quote_text(texts) if texts else 'nothing'}; {_REMEDY}"
            )
        return _show_number(section, number, is_negative_section=is_negative_section)

    def _choose_section(self, text: str) -> tuple[FormatSection | None, bool]:
        """The section that shows a number, and whether it is the one for negative numbers, which writes the sign.

        None if it depends on the program what is shown: a negative number with conditions, none that is met, or `@`.
        """
        count = len(self.sections)
        is_zero = not text.strip("-0.")
        is_negative = text[0] == "-" and not is_zero
        conditions = [section.condition for section in self.sections]
        has_conditions = any(conditions)
        index: int | None = 0 if count == 1 else 1 if is_negative else 2 if is_zero and count == MAX_SECTIONS else 0
        if has_conditions:
            if count == MAX_SECTIONS and conditions[1] is None:
                conditions[1] = ("<", 0)
            value = _scale_number(text)
            indexes = (index for index, each in enumerate(conditions) if each is None or _meets(value, each))
            index = None if is_negative else next(indexes, None)
        section = None if index is None else self.sections[index]
        is_clear = section is not None and _TEXT not in section.tokens
        return section if is_clear else None, index == 1 and not has_conditions


_REMEDY: Final = "format the cell as a plain number"


@lru_cache(maxsize=4096)
def parse_number_format(code: str) -> NumberFormat | None:
    """A number format; None for one that shows every number as it is."""
    if not code or len(code) > MAX_FORMAT_LENGTH:
        return None
    parts = _split_sections(code)
    sections = tuple(_parse_section(part) for part in parts[:MAX_SECTIONS])
    if len(parts) == 1 and _shows_as_it_is(sections[0]):
        return None
    return NumberFormat(sections, len(parts) > MAX_SECTIONS and not parts[MAX_SECTIONS].strip())


def _shows_as_it_is(section: FormatSection) -> bool:
    if _TEXT in section.tokens:
        return True  # it is for texts; numbers look as they are
    zeros = section.tokens.count(_ZERO)
    is_plain = section.kinds <= {"digit", "general", "group"} and not section.is_in_thousands and not section.condition
    return is_plain and (zeros == 1 or "general" in section.kinds)


def _split_sections(code: str) -> list[str]:
    parts = [""]
    for token in _TOKEN.finditer(code):
        if token[0] == ";":
            parts.append("")
        else:
            parts[-1] += token[0]
    return parts[: MAX_SECTIONS + 1]


def _parse_section(code: str) -> FormatSection:
    tokens: list[FormatToken] = []
    condition, has_colour = None, False
    for token in _TOKEN.finditer(code):
        kind, text = str(token.lastgroup), token[str(token.lastgroup)]
        if kind == "bracket":
            match = _CONDITION.fullmatch(text)
            if match:
                condition = (match[1], _scale_number(match[2]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(FormatToken("date", text))
            elif text.startswith("$"):
                tokens += [FormatToken("literal", symbol)] if (symbol := text[1:].partition("-")[0]) else []
            else:
                has_colour = True
        elif kind in {"quoted", "escaped"}:
            tokens += [FormatToken("literal", text)] if text else []
        elif kind != "blank":
            tokens.append(FormatToken(_KINDS.get(kind) or _SIGNS.get(text, "literal"), text))
    return FormatSection(tuple(_sort_letters(tokens)), condition, has_colour)


def _sort_letters(tokens: list[FormatToken]) -> list[FormatToken]:
    """The tokens, with `g` and `e` as texts where nothing else is a date: they are the era and the year of one."""
    is_date = any(token.kind == "date" and token.text[0] not in "geGE" for token in tokens)
    if is_date:
        return tokens
    return [token._replace(kind="literal") if token.kind == "date" else token for token in tokens]


SCALE_DIGITS: Final = 400
_ASCII_DIGITS: Final = re.compile("[0-9]+")
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_KINDS: Final[dict[str, _TokenKind]] = {
    "general": "general",
    "clock": "date",
    "exponent": "exponent",
    "letters": "date",
    "digit": "digit",
}
_SIGNS: Final[dict[str, _TokenKind]] = {".": "point", ",": "group", "%": "percent", "/": "over", "@": "general"}


def _scale_number(text: str) -> int:
    """A number of a spreadsheet as a whole number of 10^-400, which is less than any that a cell can hold."""
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    whole, _, decimals = mantissa.partition(".")
    shift = SCALE_DIGITS - len(decimals) + int(exponent or 0)
    digits = int(whole + decimals)
    return int(digits * 10**shift) if shift >= 0 else digits // int(10**-shift)


def _meets(value: int, condition: tuple[str, int]) -> bool:
    sign, limit = condition
    return {
        "<": value < limit,
        "<=": value <= limit,
        ">": value > limit,
        ">=": value >= limit,
        "=": value == limit,
        "<>": value != limit,
    }[sign]


# Dates ------------------------------------------------------------------------------------------------------------


def _show_date(section: FormatSection, number: str, *, from_1904: bool) -> Cell:
    day = parse_day(number, from_1904=from_1904)
    letters = [token.text.translate(_LOWER) for token in section.tokens if token.kind == "date"]
    has_day = any(text in {"d", "dd"} for text in letters)
    has_year = any(text[0] in "ye" for text in letters)
    if isinstance(day, DateCell) and not (has_day and has_year and any(text[0] == "m" for text in letters)):
        return InvalidCell(
            f"is {day.text}, but its format does not show day, month and year; format the cell as a date, or write it"
            " like 2027-02-18"
        )
    return day


def parse_day(text: str, *, from_1904: bool) -> DateCell | InvalidCell:
    """The day of a number of days since the calendar of the workbook begins."""
    value = parse_exact(text)
    days = None if value is None else value.at_scale(0)
    if days is None:
        return InvalidCell("has a time of day; enter the date only, or format the cell as text")
    # ECMA-376 part 1, 18.17.4.1: 1900 counts as a leap year, so days before March 1900 are off by one.
    start = date(1904, 1, 1) if from_1904 else date(1899, 12, 31) if days < 60 else date(1899, 12, 30)
    if days < 0 or start.toordinal() + days > LAST_DAY or (days == 60 and not from_1904):
        return InvalidCell("is not a valid date")
    return DateCell((start + timedelta(days)).isoformat())


# Numbers ----------------------------------------------------------------------------------------------------------


def _show_number(section: FormatSection, number: NumberText, *, is_negative_section: bool) -> Cell:
    if section.is_in_thousands:
        return InvalidCell(f"is {number.text}, which its number format shows in thousands; {_REMEDY}")
    if "percent" in section.kinds:
        return _show_percentage(section, number)
    display_text, unit = _render_text(section, number.text), section.unit
    fault = section.sign_faults[is_negative_section]
    if fault is None and (not section.is_in_one_piece or _ASCII_DIGITS.search(unit)):
        fault = "in another form" if display_text is None else f"as {quote_text(display_text)}"
    if fault is not None:
        return FormattedNumber(
            number.text, unit, display_text, f"is {number.text}, which its number format shows {fault}; {_REMEDY}"
        )
    is_plain = not unit and (display_text == number.text or "." in number.text)
    return number if is_plain else FormattedNumber(number.text, unit, display_text)


_SIGN_MARKS: Final = " -+()"
_DIGIT_KINDS: Final = frozenset({"digit", "general"})
_ONE_PIECE: Final = re.compile(r"0+(?: 000)*(?:\.(?:000 )*0*)?(?:[eE][+-]0+)?")
_FRACTION: Final = re.compile("(?:0+ )?0+(?:/0+)?")


def _sign_token(token: FormatToken) -> str:
    """A token as one sign: 0 for a digit, a blank for what separates thousands, `x` for any other text."""
    if token.kind in _DIGIT_KINDS:
        return "0"
    return token.text if token.kind != "literal" else " " if set(token.text) <= _GROUPING else "x"


def _shows_no_digit(section: FormatSection, text: str) -> bool:
    """Whether a format with optional digits only, such as `#,###`, shows nothing of a number: of 0, or below 0.5."""
    if section.always_shows_digits:
        return False
    value = abs(_scale_number(text))
    return value == 0 or (2 * value < 10**SCALE_DIGITS and section.kinds.isdisjoint({"point", "percent", "exponent"}))


def _show_percentage(section: FormatSection, number: NumberText) -> Cell:
    value = parse_exact(number.text)
    if value is None or sum(token.kind == "percent" for token in section.tokens) > 1:
        return InvalidCell(f"is {number.text}, which its number format shows in another form; {_REMEDY}")
    return PercentCell(str(value * power_of_ten(2)))


def _render_text(section: FormatSection, text: str) -> str | None:
    """A whole number with all that its format adds, such as `000123` or `7439-92-1`; None if that cannot be said."""
    if not section.kinds.isdisjoint(_NOT_RENDERED) or _INTEGER.fullmatch(text) is None:
        return None
    if "general" in section.kinds:
        return "".join(text if token.kind == "general" else token.text for token in section.tokens).strip()
    # The first place takes all digits for which there are no others.
    places = sum(token.kind == "digit" for token in section.tokens)
    first = max(0, len(text) - places + 1)
    digits = iter([""] * (places - len(text)) + ([text[:first]] if first else []) + [*text[first:]])
    return "".join(
        token.text if token.kind != "digit" else next(digits) or _FILLERS.get(token.text, "")
        for token in section.tokens
    ).strip()


_NOT_RENDERED: Final = frozenset({"point", "exponent", "over", "group"})
_FILLERS: Final = {"0": "0", "?": " "}
