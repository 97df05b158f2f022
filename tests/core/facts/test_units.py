"""Units: exact factors within a dimension, relations between dimensions, and nothing else."""

from itertools import product

import pytest

from bpc.core.facts.units import (
    RELATIONS,
    UNITS,
    divide_units,
    find_conversion,
    list_convertible_units,
    multiply_units,
)


@pytest.mark.parametrize(
    ("source", "target", "factor"),
    [
        ("kg", "g", (1000, 1)),
        ("mg", "t", (1, 1_000_000_000)),
        ("Wh", "kWh", (1, 1000)),
        ("MWh", "Wh", (1_000_000, 1)),
        ("gCO2e", "tCO2e", (1, 1_000_000)),
        ("gCO2e_per_kWh", "kgCO2e_per_kWh", (1, 1000)),
        ("mAh", "Ah", (1, 1000)),
        ("min", "s", (60, 1)),
        ("s", "h", (1, 3600)),
        ("year", "month", (12, 1)),
        ("V", "V", (1, 1)),
    ],
)
def test_units_of_one_dimension_convert_by_an_exact_factor(source: str, target: str, factor: tuple[int, int]) -> None:
    assert find_conversion(source, target) == factor


def test_every_conversion_has_its_inverse() -> None:
    for one, other in product(UNITS, UNITS):
        forward, back = find_conversion(one, other), find_conversion(other, one)

        assert forward == (back and back[::-1])


def test_units_of_different_dimensions_do_not_convert() -> None:
    assert find_conversion("kg", "kWh") is None
    assert find_conversion("gCO2e", "g") is None  # emissions are no mass: adding them to one would mean nothing
    assert find_conversion("month", "h") is None


def test_a_relation_gives_both_products_and_both_quotients() -> None:
    assert multiply_units("gCO2e_per_kWh", "kWh") == multiply_units("kWh", "gCO2e_per_kWh") == "gCO2e"
    assert divide_units("gCO2e", "kWh") == "gCO2e_per_kWh"
    assert divide_units("gCO2e", "gCO2e_per_kWh") == "kWh"


@pytest.mark.parametrize(
    ("one", "other", "product"), [("V", "A", "W"), ("V", "Ah", "Wh"), ("Ah", "per_h", "A"), ("MW", "h", "MWh")]
)
def test_the_relations_of_electricity_are_known(one: str, other: str, product: str) -> None:
    assert multiply_units(one, other) == product


def test_what_no_relation_gives_has_no_unit() -> None:
    assert multiply_units("kg", "kg") is None
    assert divide_units("kWh", "gCO2e") is None
    assert divide_units("kg", "kg") is None  # a plain number, which is no unit


def test_a_product_or_quotient_has_one_answer() -> None:
    products = [frozenset((one, other)) for _, one, other in RELATIONS]
    quotients = [(product, part) for product, one, other in RELATIONS for part in (one, other)]

    assert len(set(products)) == len(products)
    assert len(set(quotients)) == len(quotients)


def test_relations_of_the_same_dimensions_agree_about_the_factor() -> None:
    """Else the result would depend on whether one converts before or after multiplying."""
    factors: dict[tuple[str, frozenset[str]], set[tuple[int, int]]] = {}
    for names in RELATIONS:
        product, one, other = (UNITS[name] for name in names)
        up = product.numerator * one.denominator * other.denominator
        down = product.denominator * one.numerator * other.numerator
        dimensions = (product.dimension, frozenset((one.dimension, other.dimension)))
        factors.setdefault(dimensions, set()).add((up // down, 1) if up >= down else (1, down // up))

    assert {dimensions: values for dimensions, values in factors.items() if len(values) > 1} == {}


def test_a_unit_is_named_among_its_own_kind() -> None:
    assert list_convertible_units("kWh") == ["Wh", "MWh"]
    assert list_convertible_units("pct") == []


def test_published_units_keep_their_meaning() -> None:
    """The nine every package may have used from the start."""
    published = {
        "kg": ("mass", 1000, 1),
        "g": ("mass", 1, 1),
        "kWh": ("energy", 1000, 1),
        "Wh": ("energy", 1, 1),
        "gCO2e": ("emission", 1, 1),
        "kgCO2e": ("emission", 1000, 1),
        "gCO2e_per_kWh": ("emission per energy", 1, 1),
        "pct": ("share", 1, 1),
        "each": ("count", 1, 1),
    }

    assert {name: tuple(UNITS[name]) for name in published} == published
