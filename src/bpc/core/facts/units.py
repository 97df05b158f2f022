"""Units of quantities: one table of units, one of relations between them.

Pure data, append-only: a unit or relation that was published means the same in every later build. Units of one
dimension convert by an exact factor; units of different dimensions never mix, except through a relation a = b · c,
which gives b · c, c · b, a / b and a / c.
"""

from collections.abc import Mapping
from math import gcd
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """`numerator / denominator` of the dimension's base unit."""

    dimension: str
    numerator: int = 1
    denominator: int = 1


UNITS: Final[Mapping[str, Unit]] = {
    "mg": Unit("mass", 1, 1000),
    "g": Unit("mass"),
    "kg": Unit("mass", 1000),
    "t": Unit("mass", 1_000_000),
    "Wh": Unit("energy"),
    "kWh": Unit("energy", 1000),
    "MWh": Unit("energy", 1_000_000),
    "gCO2e": Unit("emission"),
    "kgCO2e": Unit("emission", 1000),
    "tCO2e": Unit("emission", 1_000_000),
    "gCO2e_per_kWh": Unit("emission per energy"),
    "kgCO2e_per_kWh": Unit("emission per energy", 1000),
    "pct": Unit("share"),
    "each": Unit("count"),
    "cycle": Unit("cycles"),
    "mV": Unit("voltage", 1, 1000),
    "V": Unit("voltage"),
    "mA": Unit("current", 1, 1000),
    "A": Unit("current"),
    "mAh": Unit("charge", 1, 1000),
    "Ah": Unit("charge"),
    "W": Unit("power"),
    "kW": Unit("power", 1000),
    "MW": Unit("power", 1_000_000),
    "mohm": Unit("resistance", 1, 1000),
    "ohm": Unit("resistance"),
    "degC": Unit("temperature"),
    "s": Unit("time", 1, 3600),
    "min": Unit("time", 1, 60),
    "h": Unit("time"),
    # A C-rate, and power over energy.
    "per_h": Unit("rate"),
    # Months differ in length, so they have no factor to hours.
    "month": Unit("calendar"),
    "year": Unit("calendar", 12),
    "pct_per_month": Unit("share per calendar"),
    "mm": Unit("length", 1, 1000),
    "m": Unit("length"),
}

RELATIONS: Final = (
    ("gCO2e", "gCO2e_per_kWh", "kWh"),
    ("kgCO2e", "kgCO2e_per_kWh", "kWh"),
    ("Wh", "W", "h"),
    ("kWh", "kW", "h"),
    ("MWh", "MW", "h"),
    ("Wh", "V", "Ah"),
    ("Ah", "A", "h"),
    ("W", "V", "A"),
    ("V", "A", "ohm"),
    ("A", "Ah", "per_h"),
    ("W", "Wh", "per_h"),
    ("kW", "kWh", "per_h"),
    ("pct", "pct_per_month", "month"),
)

_PRODUCTS: Final[Mapping[tuple[str, str], str]] = {
    pair: product for product, one, other in RELATIONS for pair in ((one, other), (other, one))
}
_QUOTIENTS: Final[Mapping[tuple[str, str], str]] = {
    pair: rest for product, one, other in RELATIONS for pair, rest in (((product, one), other), ((product, other), one))
}


def multiply_units(one: str, other: str) -> str | None:
    """The unit of one · other, if a relation gives it."""
    return _PRODUCTS.get((one, other))


def divide_units(one: str, other: str) -> str | None:
    """The unit of one / other, if a relation gives it; equal units give a plain number and are no case of this."""
    return _QUOTIENTS.get((one, other))


def find_conversion(source: str, target: str) -> tuple[int, int] | None:
    """What a count of `source` is multiplied with to be one of `target`, as an exact fraction in lowest terms."""
    one, other = UNITS[source], UNITS[target]
    if one.dimension != other.dimension:
        return None
    numerator = one.numerator * other.denominator
    denominator = one.denominator * other.numerator
    divisor = gcd(numerator, denominator)
    return numerator // divisor, denominator // divisor


def list_convertible_units(unit: str) -> list[str]:
    """The units that `unit` converts to, itself not among them."""
    return [
        name for name, definition in UNITS.items() if definition.dimension == UNITS[unit].dimension and name != unit
    ]
