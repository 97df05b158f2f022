"""A fact as the checks see it: numbers on one scale, written as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.facts.fact_view import MILLION, FactView, format_number, format_ratio, quote_value, read_view
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import Dec
from tests.core.sample_passports import make_fact


def read_battery(**members: object) -> FactView:
    view = read_view(make_fact("Battery", "battery:SKU-1", **members))
    assert view is not None
    return view


def test_numbers_of_different_decimals_are_on_one_scale() -> None:
    view = read_battery(
        mass_kg="1.5", nominal_voltage_v="1.5", mercury_pct=None, recycled_cobalt_pct="1.5", cell_count=2
    )

    assert view.get_numbers("mass_kg", "nominal_voltage_v", "recycled_cobalt_pct", "cell_count") == (
        1_500_000,
        1_500_000,
        1_500_000,
        2_000_000,
    )
    assert view.get_numbers("mass_kg", "mercury_pct") is None
    assert view.get_number("name") is None


def test_no_schema_has_more_decimals_than_the_scale() -> None:
    scales = {kind.scale for members in SCHEMAS.values() for kind in members.values() if isinstance(kind, Dec)}

    assert max(scales) == 6


@pytest.mark.parametrize(
    ("key", "members", "sku"),
    [
        ("battery:SKU-1", {"sku": "SKU-1"}, "SKU-1"),
        ("component:SKU-1:cell", {}, "SKU-1"),
        ("component:A:B:cell", {"sku": "A:B"}, "A:B"),
        ("odd", {}, ""),
    ],
)
def test_a_fact_belongs_to_the_product_it_names(key: str, members: dict[str, str], sku: str) -> None:
    view = read_view(make_fact("Component", key, **members))

    assert view is not None
    assert view.sku == sku


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1_500_000, "1.5"), (-250_000, "-0.25"), (100 * MILLION, "100"), (1, "0.000001")]
)
def test_a_number_is_written_without_zeros_at_its_end(count: int, text: str) -> None:
    assert format_number(count) == text


@pytest.mark.parametrize(
    ("numerator", "denominator", "text"),
    [(2, 3, "0.666667"), (200, 3, "66.67"), (-200, 3, "-66.67"), (65, 480, "0.135417"), (1, -4, "-0.25"), (0, 5, "0")],
)
def test_a_quotient_has_as_many_decimals_as_say_something(numerator: int, denominator: int, text: str) -> None:
    assert format_ratio(numerator, denominator) == text


@given(st.text())
def test_a_quoted_text_is_one_short_line(text: str) -> None:
    quoted = quote_value(text)

    assert "\n" not in quoted
    assert quoted.startswith('"')
    assert quoted.endswith('"')
