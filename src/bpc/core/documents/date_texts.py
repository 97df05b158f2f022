"""Dates and booleans that people write as texts, in English, German, French, Spanish, Italian and Polish.

A date is read only if it has one meaning: `18.02.2027` and `18 February 2027` have, `03/04/2027` has two. With dots the
day comes first in every one of these languages; with slashes it does where numbers have a decimal comma.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.documents import quote_text
from bpc.core.documents.header_text import fold_text
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.facts.member_readers import is_day

MAX_DATE_LENGTH: Final = 40

_YEAR_FIRST: Final = re.compile(r"([0-9]{4})[./]([0-9]{1,2})[./]([0-9]{1,2})")
_WITH_DOTS: Final = re.compile(r"([0-9]{1,2})\. ?([0-9]{1,2})\. ?([0-9]{4})")
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([/-])([0-9]{1,2})\2([0-9]{4})")
_DAY_AND_NAME: Final = re.compile(
    r"([0-9]{1,2})(?:\.|er|st|nd|rd|th|o)?[ -](?:de )?([a-z]+)\.?[ -](?:de |del )?([0-9]{4})"
)
_NAME_AND_DAY: Final = re.compile(r"([a-z]+)\.? ([0-9]{1,2})(?:st|nd|rd|th)?,? ([0-9]{4})")
_MONTHS: Final[Mapping[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janner janvier janv enero ene gennaio gen stycznia styczen sty",
            "february feb februar fevrier fevr febrero febbraio febbr lutego luty lut",
            "march mar marz maerz mars marzo marca marzec",
            "april apr avril avr abril abr aprile kwietnia kwiecien kwi",
            "may mai mayo maggio mag maja maj",
            "june jun juni juin junio giugno giu czerwca czerwiec cze",
            "july jul juli juillet juil julio luglio lug lipca lipiec lip",
            "august aug aout agosto ago sierpnia sierpien sie",
            "september sep sept septembre septiembre settembre set wrzesnia wrzesien wrz",
            "october oct oktober okt octobre octubre ottobre ott pazdziernika pazdziernik paz",
            "november nov novembre noviembre listopada listopad lis",
            "december dec dezember dez decembre diciembre dic dicembre grudnia grudzien gru",
        ),
        1,
    )
    for name in names.split()
}
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(
        ["true", "yes", "1", "ja", "wahr", "oui", "vrai", "si", "verdadero", "vero", "tak", "prawda"], True
    ),
    **dict.fromkeys(["false", "no", "0", "nein", "falsch", "non", "faux", "falso", "nie", "falsz"], False),
}


class InvalidDate(NamedTuple):
    """Why a text is not a date that can be read."""

    says: str


def parse_date_text(text: str, locale: NumberLocale | None) -> str | InvalidDate:
    """The day that a text means, written like 2027-02-18."""
    if is_day(text):
        return text
    refusal = InvalidDate(f"is {quote_text(text)}, not a date written like 2027-02-18")
    if len(text) > MAX_DATE_LENGTH:
        return refusal
    if match := _YEAR_LAST.fullmatch(text):
        first, second, year = match[1], match[3], match[4]
        return _choose_reading(text, _format_day(year, second, first), _format_day(year, first, second), locale)
    if match := _YEAR_FIRST.fullmatch(text):
        day = _format_day(match[1], match[2], match[3])
    elif match := _WITH_DOTS.fullmatch(text):
        day = _format_day(match[3], match[2], match[1])
    else:
        day = _read_named_month(fold_text(text))
    return day or refusal


def _choose_reading(
    text: str, day_first: str | None, month_first: str | None, locale: NumberLocale | None
) -> str | InvalidDate:
    if day_first and month_first and day_first != month_first and locale != "comma":
        return InvalidDate(
            f"is {quote_text(text)}, which is {day_first} if the day comes first and {month_first} if the month does;"
            " write it like 2027-02-18"
        )
    # Where numbers have a decimal comma nobody writes the month first.
    day = day_first if locale == "comma" else day_first or month_first
    return day or InvalidDate(f"is {quote_text(text)}, not a date written like 2027-02-18")


def _read_named_month(text: str) -> str | None:
    if match := _DAY_AND_NAME.fullmatch(text):
        day, name, year = match.groups()
    elif match := _NAME_AND_DAY.fullmatch(text):
        name, day, year = match.groups()
    else:
        return None
    return _format_day(year, str(_MONTHS[name]), day) if name in _MONTHS else None


def _format_day(year: str, month: str, day: str) -> str | None:
    text = f"{year}-{month.rjust(2, '0')}-{day.rjust(2, '0')}"
    return text if is_day(text) else None


def parse_bool_text(text: str) -> bool | None:
    """The boolean that a text means in one of the six languages; None if it means none."""
    return _BOOLEANS.get(fold_text(text)) if len(text) <= MAX_DATE_LENGTH else None
