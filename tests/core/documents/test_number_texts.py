"""Numbers written as texts: exact, and never one of two meanings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents.number_texts import (
    LOCALES,
    InvalidNumber,
    NumberLocale,
    parse_number_text,
    split_unit_from_number,
)

BOTH_READINGS = (
    ("1.000", "1", "1000"),
    ("1,000", "1000", "1"),
    ("-12.345", "-12.345", "-12345"),
    ("100,500", "100500", "100.5"),
)


@pytest.mark.parametrize(("text", "english", "german"), BOTH_READINGS)
def test_a_text_that_two_locales_read_differently_is_refused_with_both(text: str, english: str, german: str) -> None:
    outcome = parse_number_text(text, None)

    assert isinstance(outcome, InvalidNumber)
    assert f'is "{text}", which is {english} in English and {german} in German; declare' in outcome.says


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("75.5", "75.5"),
        ("21,4", "21.4"),
        ("0.123", "0.123"),
        ("0,123", "0.123"),
        ("1234.567", "1234.567"),
        ("1.0000", "1.0000"),
        ("1.234.567", "1234567"),
        ("1,234,567", "1234567"),
        ("12.345,6", "12345.6"),
        ("12,345.6", "12345.6"),
        ("12 000", "12000"),
        ("12\u00a0000", "12000"),
        ("1\u2009234\u2009567,5", "1234567.5"),
        ("1'234.5", "1234.5"),
        ("1\u2019234,5", "1234.5"),
        ("\u22125,5", "-5.5"),
        ("+7", "7"),
        ("-0", "-0"),
    ],
)
def test_a_text_with_one_meaning_is_read_without_a_locale(text: str, number: str) -> None:
    assert parse_number_text(text, None) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.2.3",
        "1,2,3",
        "12.34,5",
        "1,00,000",
        "1.000,000,5",
        "1 00",
        "1.234 567",
        "--5",
        "1.",
        ".5",
        "1e5",
        "9" * 99,
    ],
)
def test_what_is_no_number_is_refused_in_every_locale(text: str) -> None:
    assert all(isinstance(parse_number_text(text, locale), InvalidNumber) for locale in (None, *LOCALES))


def test_what_contradicts_the_declared_locale_is_refused() -> None:
    point, comma = parse_number_text("75.5", "comma"), parse_number_text("75,5", "point")

    assert isinstance(point, InvalidNumber)
    assert isinstance(comma, InvalidNumber)
    assert "has a decimal point, but the document is declared to have decimal commas" in point.says
    assert "has a decimal comma, but the document is declared to have decimal points" in comma.says


@given(
    st.integers(-(10**12), 10**12),
    st.integers(0, 6),
    st.sampled_from(LOCALES),
    st.sampled_from(["", "own", " ", "\u2019"]),
)
def test_what_a_locale_writes_is_read_back_and_never_changed(
    count: int, places: int, locale: NumberLocale, group: str
) -> None:
    digits = str(abs(count)).rjust(places + 1, "0")
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    separator, own = (".", ",") if locale == "point" else (",", ".")
    grouped = f"{int(whole):,}".replace(",", own if group == "own" else group)
    sign = "-" if count < 0 else ""
    text = sign + grouped + (separator + fraction if fraction else "")
    expected = sign + str(int(whole)) + (f".{fraction}" if fraction else "")

    assert parse_number_text(text, locale) == expected
    guessed = parse_number_text(text, None)
    assert isinstance(guessed, InvalidNumber) or guessed == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("75,5 kg", ("75,5", "kg")),
        ("95%", ("95", "%")),
        ("5", ("5", "")),
        ("1 234 V", ("1 234", "V")),
        ("kg", None),
        ("1e5 kg", None),
    ],
)
def test_a_unit_is_split_from_its_number(text: str, parts: tuple[str, str] | None) -> None:
    assert split_unit_from_number(text) == parts
