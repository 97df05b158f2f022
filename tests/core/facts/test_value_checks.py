"""Ranges of numbers: each follows from the member's name, and its limits belong to it."""

import pytest

from bpc.core.facts.fact_view import find_scale
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.facts.value_checks import choose_range
from bpc.core.language.types import FactRecordType
from tests.core.sample_passports import make_fact

BATTERY = SCHEMAS[FactRecordType("Battery", 1)]


def find_codes(member: str, value: object) -> list[str]:
    return [finding.code for finding in find_implausible([make_fact("Battery", "battery:SKU-1", **{member: value})])]


@pytest.mark.parametrize(
    ("member", "values", "code"),
    [
        ("renewable_content_pct", ["0", "100"], None),
        ("renewable_content_pct", ["-0.01", "100.01"], "SHARE_RANGE"),
        ("self_discharge_pct_per_month", ["-1", "101"], "SHARE_RANGE"),
        ("internal_resistance_increase_pct", ["-100", "0", "250"], None),
        ("internal_resistance_increase_pct", ["-100.01"], "CHANGE_RANGE"),
        ("capacity_fade_pct", ["0", "100"], None),
        ("capacity_fade_pct", ["-0.01"], "STATE_ABOVE_NEW"),
        ("capacity_fade_pct", ["100.01"], "SHARE_RANGE"),
        ("state_of_certified_energy_pct", ["100.01"], "STATE_ABOVE_NEW"),
        ("mass_kg", ["0.000001"], None),
        ("mass_kg", ["0", "-1"], "NOT_POSITIVE"),
        ("full_cycles", [0], None),
        ("full_cycles", [-1], "NEGATIVE"),
        ("idle_temperature_min_degc", ["-100", "200"], None),
        ("idle_temperature_min_degc", ["-273.15", "200.01"], "TEMPERATURE_UNUSUAL"),
        ("idle_temperature_min_degc", ["-273.16"], "ABSOLUTE_ZERO"),
        ("nominal_voltage_v", ["0.001", "2000"], None),
        ("nominal_voltage_v", ["2000.001"], "VOLTAGE_UNUSUAL"),
        ("nominal_voltage_v", ["0"], "NOT_POSITIVE"),
        ("recycled_content_year", [1990, 2100], None),
        ("recycled_content_year", [1989, 2101], "YEAR_RANGE"),
        ("manufactured_on", ["1990-01-01", "2100-12-31"], None),
        ("manufactured_on", ["1989-12-31", "2101-01-01"], "DATE_RANGE"),
    ],
)
def test_a_range_has_its_limits(member: str, values: list[object], code: str | None) -> None:
    for value in values:
        assert find_codes(member, value) == ([] if code is None else [code]), value


def test_every_number_of_a_battery_has_a_range() -> None:
    numbers = [name for name, kind in BATTERY.items() if find_scale(kind) is not None]

    assert [name for name in numbers if choose_range(name) is None] == []
    assert {choose_range(name) for name in numbers if name.endswith("_pct")} == {"share", "fade", "change"}
    assert {choose_range(name) for name in numbers if name.endswith("_v")} == {"voltage"}
    assert {choose_range(name) for name in numbers if name.endswith("_degc")} == {"temperature"}


def test_dates_are_far_by_the_earliest_date_of_their_product() -> None:
    def find_far(year: int) -> list[str]:
        battery = make_fact("Battery", "battery:SKU-1", manufactured_on="2027-01-04", warranty_until_on=f"{year}-01-04")
        return [finding.code for finding in find_implausible([battery])]

    assert find_far(2067) == []
    assert find_far(2068) == ["DATE_FAR"]
