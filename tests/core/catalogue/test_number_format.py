"""Numbers, quantities and days are written as CLDR says, in each official language of the EU."""

from datetime import date
from decimal import Decimal  # noqa: TID251 (the library that is compared with counts with it)

import pytest
from babel.dates import format_date
from babel.numbers import format_decimal
from babel.units import format_unit
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.catalogue.number_format import LANGUAGES, format_day, format_number, format_quantity, format_quantity_text
from tools.language_table import FILE, LOCALES, OWN_FORMS, SPARE_GROUPS, build_table

MINUS = "\N{MINUS SIGN}"
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)
DIGITS = "0123456789.,\xa0\u202f "


@pytest.mark.parametrize(
    ("language", "number", "day", "months"),
    [
        ("de", "1.234.567,5", "18. Februar 2027", "96\xa0Monate"),
        ("en", "1,234,567.5", "18 February 2027", "96\xa0months"),
        ("fr", "1\u202f234\u202f567,5", "18 février 2027", "96\xa0mois"),
        ("es", "1.234.567,5", "18 de febrero de 2027", "96\xa0meses"),
        ("it", "1.234.567,5", "18 febbraio 2027", "96\xa0mesi"),
        ("pl", "1\xa0234\xa0567,5", "18 lutego 2027", "96\xa0miesięcy"),
    ],
)
def test_what_each_language_writes(language: str, number: str, day: str, months: str) -> None:
    assert format_number(language, "1234567.500") == number
    assert format_day(language, "2027-02-18") == day
    assert format_quantity(language, "96", "month") == months


@given(
    language=st.sampled_from(LANGUAGES),
    number=st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12),
)
def test_numbers_are_those_of_cldr(language: str, number: Decimal) -> None:
    locale = LOCALES.get(language, language)
    grouped = language not in SPARE_GROUPS or abs(number) >= 10_000
    expected = format_decimal(number, locale=locale, decimal_quantization=False, group_separator=grouped)

    written = format_number(language, f"{number:f}")

    sign = MINUS if number < 0 else ""
    assert written.lstrip(MINUS) == expected.lstrip(f"-{MINUS}")
    assert written.startswith(sign) or number == 0


@given(language=st.sampled_from(LANGUAGES), day=st.dates(min_value=date(1000, 1, 1)))
def test_days_are_those_of_cldr(language: str, day: date) -> None:
    expected = format_date(day, "long", locale=LOCALES.get(language, language))

    assert format_day(language, day.isoformat()) == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_months_and_years_have_the_form_of_their_number(language: str) -> None:
    for unit in ("month", "year"):
        if (language, unit) not in OWN_FORMS:
            for number in (*range(260), 1001, 1011, 1102):
                expected = format_unit(number, f"duration-{unit}", "long", locale=LOCALES.get(language, language))
                written = format_quantity(language, str(number), unit)
                assert written.lstrip(DIGITS).split() == expected.lstrip(DIGITS).split(), number


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("65 kg", "65\xa0kg"),
        ("1234.50 kWh", "1.234,5\xa0kWh"),
        ("5 pct", "5\xa0%"),
        ("2 pct_per_month", "2\xa0%/Monat"),
        ("7 gCO2e_per_kWh", "7\xa0g CO₂e/kWh"),
        ("3 each", "3"),
        ("a kg", "a kg"),
        ("plain", "plain"),
    ],
)
def test_a_quantity_of_a_finding_keeps_its_meaning(text: str, written: str) -> None:
    assert format_quantity_text("de", text) == written


def test_what_is_no_number_and_no_day_stays_as_it_is() -> None:
    assert format_number("de", "1e5") == "1e5"
    assert format_number("de", "0.1234567", decimals=6) == "0,123456…"
    assert format_day("de", "2027-13-01") == "2027-13-01"


def test_the_table_is_made_from_cldr() -> None:
    def squeeze(text: str) -> str:
        return "".join(text.split()).replace('"', "'").replace("',)", "')")

    assert squeeze(FILE.read_text()).replace("''", "") == squeeze(build_table()).replace("''", "")
