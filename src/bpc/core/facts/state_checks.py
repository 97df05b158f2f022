"""Plausibility of states: what a battery is now against what it was when new, and readings against each other.

Pure. A fade is 100 x (1 - now / new), an increase 100 x (now - new) / new, the state of certified energy 100 x now /
new; declared values may differ from these by one percentage point. Measured values of a battery that is almost new may
be up to 5 % better than the rated ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from bpc.core.facts.battery_checks import check_day
from bpc.core.facts.fact_view import MILLION, FactView, find_scale, format_number, format_ratio, quote_value
from bpc.core.facts.findings import Finding
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMAS, STATE_MEMBERS
from bpc.core.facts.text_checks import check_listed_value
from bpc.core.facts.value_checks import check_number, choose_range
from bpc.core.formats.timestamps import NotATime, parse_time
from bpc.core.language.types import FactRecordType

_BATTERY: Final = FactRecordType("Battery", 1)
# What only ever grows.
COUNTERS: Final = frozenset(
    """
    full_cycles energy_throughput_kwh capacity_throughput_ah deep_discharge_events overcharge_events
    minutes_in_extreme_heat minutes_in_extreme_cold minutes_charging_in_extreme_heat minutes_charging_in_extreme_cold
    """.split()  # noqa: SIM905
)


class StateFormula(NamedTuple):
    """A declared percentage and the two members it is computed of. `compute` gives numerator over `new`."""

    member: str
    now: str
    new: str
    unit: str
    compute: Callable[[int, int], int]


def _compute_fade(now: int, new: int) -> int:
    return new - now


def _compute_increase(now: int, new: int) -> int:
    return now - new


def _compute_share(now: int, _new: int) -> int:
    return now


FORMULAS: Final = (
    StateFormula("capacity_fade_pct", "remaining_capacity_ah", "rated_capacity_ah", "Ah", _compute_fade),
    StateFormula("power_fade_pct", "remaining_power_w", "original_power_w", "W", _compute_fade),
    StateFormula("power_fade_pct", "power_w", "original_power_w", "W", _compute_fade),
    StateFormula(
        "round_trip_efficiency_fade_pct",
        "round_trip_efficiency_pct",
        "initial_round_trip_efficiency_pct",
        "%",
        _compute_fade,
    ),
    StateFormula(
        "internal_resistance_increase_pct",
        "internal_resistance_ohm",
        "initial_pack_resistance_ohm",
        "ohm",
        _compute_increase,
    ),
    StateFormula(
        "state_of_certified_energy_pct", "remaining_energy_kwh", "certified_energy_kwh", "kWh", _compute_share
    ),
)
# Members that a used battery has less of than a new one, by how many percent it may have more, and their unit.
_FALLING: Final = (
    ("remaining_capacity_ah", "rated_capacity_ah", 5, "Ah"),
    ("remaining_energy_kwh", "certified_energy_kwh", 5, "kWh"),
    ("remaining_power_w", "original_power_w", 5, "W"),
    ("round_trip_efficiency_pct", "initial_round_trip_efficiency_pct", 5, "%"),
    ("half_life_round_trip_efficiency_pct", "initial_round_trip_efficiency_pct", 0, "%"),
)


def check_states(view: FactView) -> Iterator[Finding]:
    """The states of a Battery against what it was when new."""
    for formula in FORMULAS:
        yield from _check_formula(view, formula)
    for member, new_member, tolerance_pct, unit in _FALLING:
        numbers = view.get_numbers(member, new_member)
        if numbers is not None and numbers[1] > 0 and numbers[0] * 100 > numbers[1] * (100 + tolerance_pct):
            state = f"`{member}` is {format_number(numbers[0])} {unit}"
            reference = f" (`{new_member}` is {format_number(numbers[1])} {unit})"
            yield view.report("STATE_ABOVE_NEW", [member, new_member], state=state, reference=reference)


def _check_formula(view: FactView, formula: StateFormula) -> Iterator[Finding]:
    numbers = view.get_numbers(formula.member, formula.now, formula.new)
    if numbers is None or numbers[2] <= 0:
        return
    value, now, new = numbers
    numerator = 100 * formula.compute(now, new)
    # One percentage point, both sides times the value when new.
    if abs(value * new - numerator * MILLION) > MILLION * new:
        yield view.report(
            "STATE_MISMATCH",
            [formula.member, formula.now, formula.new],
            member=formula.member,
            value=format_number(value),
            now=f"{format_number(now)} {formula.unit}",
            new=f"{format_number(new)} {formula.unit}",
            computed=format_ratio(numerator, new),
        )


def check_readings(readings: Iterable[FactView], battery: FactView | None) -> Iterator[Finding]:
    """The readings of a product: each by itself, and counters from one to the next."""
    counters: dict[str, list[tuple[str, int, FactView]]] = defaultdict(list)
    manufactured_on = None if battery is None else battery.get_text("manufactured_on")
    for reading in readings:
        kind, recorded_at = reading.get_text("kind") or "", reading.get_text("recorded_at") or ""
        yield from _check_reading_time(reading, recorded_at)
        if manufactured_on is not None:
            day = reading.get_text("recorded_on")
            yield from check_day(reading, "recorded_on", "recorded_on", day, ("manufactured_on", manufactured_on))
        if kind not in STATE_MEMBERS:
            yield reading.report("READING_KIND", ["kind"], value=quote_value(kind))
            continue
        yield from (_concern_state(finding, kind) for finding in _check_reading_value(reading, kind))
        number = reading.get_number("number")
        if kind in COUNTERS and number is not None:
            counters[kind].append((recorded_at, number, reading))
    for kind, series in counters.items():
        yield from (_concern_state(finding, kind) for finding in _check_counter(kind, series))


def _concern_state(finding: Finding, kind: str) -> Finding:
    """A finding about a reading, with the data points of the state that it is a reading of."""
    return replace(finding, points=SCHEMA_MEMBERS[_BATTERY][kind].points)


def _check_reading_time(reading: FactView, recorded_at: str) -> Iterator[Finding]:
    day = reading.get_text("recorded_on")
    try:
        parse_time(recorded_at)
        is_sound = day is None or recorded_at.startswith(day)
    except NotATime:
        is_sound = False
    if not is_sound:
        texts = {"value": quote_value(recorded_at), "day": day or "missing"}
        yield reading.report("READING_TIME", ["recorded_at", "recorded_on"], **texts)


def _check_reading_value(reading: FactView, kind: str) -> Iterator[Finding]:
    number, text = reading.get_number("number"), reading.get_text("text")
    number_range = choose_range(kind)
    if number is not None and number_range is not None and find_scale(SCHEMAS[_BATTERY][kind]) is not None:
        yield from check_number(reading, "number", kind, number_range, number)
    if kind == "status" and text is not None:
        as_battery = FactView(_BATTERY, reading.key, reading.sku, {})
        for finding in check_listed_value(as_battery, kind, kind, text):
            yield reading.restate(finding, "text")


def _check_counter(kind: str, series: list[tuple[str, int, FactView]]) -> Iterator[Finding]:
    in_order = sorted(series, key=lambda entry: (entry[0], entry[2].key))
    for (before_time, before, _), (after_time, after, reading) in pairwise(in_order):
        if after < before:
            yield reading.report(
                "COUNTER_FALLS",
                ["number"],
                member=kind,
                before=format_number(before),
                before_time=before_time,
                after=format_number(after),
                after_time=after_time,
            )
