"""Numbers that people write as texts: with a decimal comma or a decimal point, and separators between thousands.

    75.5        75.5    only a decimal point is possible
    21,4        21.4    only a decimal comma is possible
    12 000      12000   the same in both
    1.000       refused: 1 in English, 1000 in German; with a declared locale it is the one or the other
    18.200,5    18200.5 only with a decimal comma

Pure, and exact: nothing is rounded, and a text that two locales read differently is not guessed.
"""

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents import quote_text
from bpc.core.documents.elements import is_plain_decimal
from bpc.core.facts.member_readers import MAX_NUMBER_TEXT

NumberLocale: TypeAlias = Literal["comma", "point"]  # what stands before the decimals

LOCALES: Final[tuple[NumberLocale, ...]] = ("point", "comma")

_BLANK: Final = "[ \u00a0\u2007\u2009\u202f]"
_APOSTROPHE: Final = "['\u2019`\u00b4]"
_SCIENTIFIC: Final = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?[eE][+-]?[0-9]+")
# A number whose value depends on the locale: up to three digits that do not begin with 0, one separator, three digits.
_TWO_READINGS: Final = re.compile(r"-?[1-9][0-9]{0,2}[.,][0-9]{3}")
_FORMS: Final = {
    locale: re.compile(
        rf"([+-]?)([0-9]+|[1-9][0-9]{{0,2}}(?:(?:{group}[0-9]{{3}})+|(?:{_BLANK}[0-9]{{3}})+|(?:{_APOSTROPHE}[0-9]{{3}})+))"
        rf"(?:{decimal}([0-9]+))?"
    )
    for locale, decimal, group in (("point", r"\.", ","), ("comma", ",", r"\."))
}
_NO_DIGIT: Final = re.compile("[^0-9]")
_WITH_UNIT: Final = re.compile(
    r"([+\u2212-]?[0-9](?:[0-9.,'\u2019`\u00b4 \u00a0\u2007\u2009\u202f]*[0-9])?)[ \u00a0\u2009\u202f]*([^0-9\s].*)?",
    re.DOTALL,
)


class InvalidNumber(NamedTuple):
    """Why a text is not a number that can be read."""

    says: str


def parse_number_text(text: str, locale: NumberLocale | None) -> str | InvalidNumber:
    """The plain decimal that a text means; without a locale, only if it cannot mean two."""
    if locale is None and is_plain_decimal(text) and not _TWO_READINGS.fullmatch(text):
        return text
    text = text.replace("\u2212", "-")
    fits = len(text) <= MAX_NUMBER_TEXT
    readings = {name: reading for name in LOCALES if fits and (reading := _read_in_locale(text, name)) is not None}
    if not readings:
        problem = ", which is in scientific notation; format the column as a number with all its digits"
        return InvalidNumber(f"is {quote_text(text)}" + (problem if _SCIENTIFIC.fullmatch(text) else ", not a number"))
    if locale is not None:
        return readings.get(locale) or InvalidNumber(_explain_other_locale(text, locale))
    if len(set(readings.values())) > 1:
        return InvalidNumber(
            f"is {quote_text(text)}, which is {_strip_zeros(readings['point'])} in English and"
            f" {_strip_zeros(readings['comma'])} in German; declare whether the document has decimal commas or points,"
            " or store it as a number"
        )
    return next(iter(readings.values()))


def split_unit_from_number(text: str) -> tuple[str, str] | None:
    """The number and the unit of a text such as `75,5 kg`; the unit may be empty. None if it is not a number."""
    parts = _WITH_UNIT.fullmatch(text) if len(text) <= 2 * MAX_NUMBER_TEXT else None
    return None if parts is None or _SCIENTIFIC.match(text) else (parts[1], parts[2] or "")


def _read_in_locale(text: str, locale: str) -> str | None:
    parts = _FORMS[locale].fullmatch(text)
    if parts is None:
        return None
    sign, integer, fraction = parts.groups(default="")
    whole = ("-" if sign == "-" else "") + _NO_DIGIT.sub("", integer)
    return f"{whole}.{fraction}" if fraction else whole


def _explain_other_locale(text: str, locale: NumberLocale) -> str:
    other = "point" if locale == "comma" else "comma"
    return (
        f"is {quote_text(text)}, which has a decimal {other}, but the document is declared to have decimal {locale}s;"
        " correct the number or the declaration"
    )


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
