"""Numbers of documents: exact, bounded before anything is computed with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents.values import Exact, exact, is_plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("75.5", Exact(755, 1)),
        ("-0", Exact(0, 0)),
        ("007.50", Exact(750, 2)),
        ("1e3", Exact(1000, 0)),
        ("1.5E+2", Exact(150, 0)),
        ("12e-2", Exact(12, 2)),
        ("-1.25e1", Exact(-125, 1)),
        ("0e999", Exact(0, 0)),
    ],
)
def test_a_number_is_exactly_what_is_written(text: str, value: Exact) -> None:
    assert exact(text) == value


@pytest.mark.parametrize(
    "text", ["", "-", "1.", ".5", "+1", "1e", "1e1000", "1e3000000", "9" * 81, "NaN", "١٢", "1_0", " 1", "1\n", "0x1"]
)
def test_what_is_no_number_or_too_large_to_look_at_is_none(text: str) -> None:
    assert exact(text) is None


@pytest.mark.parametrize("text", ["1e3", "+1", "1.", "", " 1", "1\n", "1,5", "9" * 81])
def test_a_text_that_stands_for_a_number_is_a_plain_decimal(text: str) -> None:
    assert not is_plain(text)
    assert is_plain("-75.50")


@given(st.integers(-(10**20), 10**20), st.integers(0, 6), st.integers(0, 20))
def test_every_spelling_of_a_value_counts_the_same(count: int, decimals: int, zeros: int) -> None:
    digits = str(abs(count)).rjust(decimals + 1, "0")
    sign = "-" if count < 0 else ""
    plain = sign + digits[: len(digits) - decimals] + (f".{digits[len(digits) - decimals :]}" if decimals else "")
    shifted = f"{count * 10**zeros}e{-decimals - zeros}"

    one, other = exact(plain), exact(shifted)

    assert one is not None
    assert other is not None
    assert one.at_scale(30) == other.at_scale(30) == count * 10 ** (30 - decimals)


def test_a_value_with_more_decimals_than_there_is_room_for_has_no_count() -> None:
    assert Exact(1255, 3).at_scale(2) is None
    assert Exact(1250, 3).at_scale(2) == 125
    assert Exact(-1250, 3).at_scale(2) == -125
