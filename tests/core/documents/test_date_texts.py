"""Dates and booleans written as texts in six languages: read if they have one meaning."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents.date_texts import InvalidDate, parse_bool_text, parse_date_text


@pytest.mark.parametrize(
    "text",
    [
        "2027-02-18",
        "2027/02/18",
        "2027.2.18",
        "18.02.2027",
        "18. 2. 2027",
        "18/02/2027",
        "02/18/2027",
        "18-2-2027",
        "18 February 2027",
        "18th February 2027",
        "Feb 18, 2027",
        "18. Februar 2027",
        "18 février 2027",
        "18 de febrero de 2027",
        "18 febbraio 2027",
        "18 lutego 2027",
        "18-Feb-2027",
    ],
)
def test_a_day_is_read_in_the_forms_of_six_languages(text: str) -> None:
    assert parse_date_text(text, None) == "2027-02-18"


@pytest.mark.parametrize(
    "text", ["18.02.27", "2027-02-30", "30.02.2027", "13/13/2027", "2027-02", "46436", "18 foo 2027", ""]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    assert isinstance(parse_date_text(text, None), InvalidDate)


@given(st.dates())
def test_a_day_with_slashes_is_read_only_if_it_has_one_meaning(day: date) -> None:
    text = f"{day.day:02}/{day.month:02}/{day.year:04}"

    outcome = parse_date_text(text, None)

    if day.day <= 12 and day.day != day.month:
        assert isinstance(outcome, InvalidDate)
        assert day.isoformat() in outcome.says
    else:
        assert outcome == day.isoformat()
    assert parse_date_text(text, "comma") == day.isoformat()


def test_booleans_are_read_in_six_languages() -> None:
    yes = ("yes", "TRUE", "1", "Ja", "wahr", "oui", "vrai", "sí", "Sì", "tak", "prawda")
    no = ("no", "False", "0", "nein", "falsch", "non", "faux", "nie", "fałsz")

    assert [parse_bool_text(text) for text in yes] == [True] * len(yes)
    assert [parse_bool_text(text) for text in no] == [False] * len(no)
    assert [parse_bool_text(text) for text in ("", "x", "perhaps", "n/a", "2")] == [None] * 5
