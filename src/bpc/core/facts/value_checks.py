"""Plausibility of numbers and dates, each by itself: ranges, years, and dates that are far from all others.

Pure. Which range a number has follows from its name and unit; `choose_range` is the whole rule. A date that is wrong by
itself (1789) is not compared with others.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from bpc.core.facts.fact_view import MILLION, FactView, find_scale, format_number, quote_value
from bpc.core.facts.findings import Finding
from bpc.core.facts.member_readers import is_day
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import DATE, FactRecordType, List, Opt, Record, Type

NumberRange: TypeAlias = Literal[
    "share", "fade", "change", "positive", "not negative", "temperature", "voltage", "year"
]

EARLIEST_YEAR: Final = 1990
LATEST_YEAR: Final = 2100
MAX_YEARS_APART: Final = 40
_HUNDRED: Final = 100 * MILLION
_ABSOLUTE_ZERO: Final = -273_150_000
_USUAL_TEMPERATURES: Final = (-100 * MILLION, 200 * MILLION)
_USUAL_VOLTAGE: Final = 2000 * MILLION

_POSITIVE: Final = frozenset(
    """
    mass_kg mass_g quantity capacity_kwh usable_energy_kwh certified_energy_kwh rated_capacity_ah original_power_w
    maximum_power_w power_to_energy_ratio initial_cell_resistance_ohm initial_pack_resistance_ohm
    internal_resistance_ohm ohmic_resistance_ohm expected_cycles cycle_test_c_rate expected_life_years cell_count
    service_life_energy_kwh cycles_per_year service_life_years
    """.split()  # noqa: SIM905
)
_CHANGES: Final = frozenset({"internal_resistance_increase_pct", "self_discharge_evolution_pct"})
_YEARS: Final = frozenset({"recycled_content_year", "year", "report_year"})
# A credit for what recycling saves may exceed what the end of life emits.
_UNBOUNDED: Final = frozenset({"end_of_life_gco2e", "end_of_life_gco2e_per_kwh"})


def choose_range(member: str) -> NumberRange | None:  # noqa: PLR0911 (one row a range)
    """The range that the numbers of a member are in; None if any number is plausible."""
    if member in _UNBOUNDED:
        return None
    if member in _YEARS:
        return "year"
    if member.endswith("_degc"):
        return "temperature"
    if member.endswith("_voltage_v"):
        return "voltage"
    if member in _CHANGES:
        return "change"
    if member.endswith("_fade_pct"):
        return "fade"
    if member.endswith(("_pct", "_pct_per_month")):
        return "share"
    return "positive" if member in _POSITIVE else "not negative"


def _list_record_members(kind: Type) -> Mapping[str, Type]:
    """The members of the records in a list; none for any other type."""
    if not isinstance(kind, List) or not isinstance(kind.item, Record):
        return {}
    return {name: inner.item if isinstance(inner, Opt) else inner for name, inner in kind.item.members}


# For each fact type: its numbers, its dates, and the numbers and dates in the records of its lists.
_NUMBERS: Final = {
    fact: [
        (name, range_)
        for name, kind in members.items()
        if find_scale(kind) is not None and (range_ := choose_range(name))
    ]
    for fact, members in SCHEMAS.items()
}
_DATES: Final = {fact: [name for name, kind in members.items() if kind == DATE] for fact, members in SCHEMAS.items()}
_RECORDS: Final = {
    fact: [(name, inner) for name, kind in members.items() if (inner := _list_record_members(kind))]
    for fact, members in SCHEMAS.items()
}
_CHECKED: Final = frozenset(FactRecordType(name, 1) for name in ("Battery", "Component", "PCF", "DueDiligence"))


def check_values(view: FactView) -> Iterator[Finding]:
    """Every number and date of a fact that is out of range."""
    if view.kind not in _CHECKED:
        return
    for member, number_range in _NUMBERS[view.kind]:
        value = view.get_number(member)
        if value is not None:
            yield from check_number(view, member, member, number_range, value)
    for member in _DATES[view.kind]:
        yield from _check_date(view, member, member, view.get_text(member))
    for member, inner_types in _RECORDS[view.kind]:
        for place, record in view.iterate_records(member):
            for inner, kind in inner_types.items():
                yield from _check_record_value(view, member, f"{place}.{inner}", kind, record[inner])


def _check_record_value(view: FactView, member: str, place: str, kind: Type, value: object) -> Iterator[Finding]:
    scale, name = find_scale(kind), place.rpartition(".")[2]
    if scale is not None and isinstance(value, int):
        number_range = choose_range(name)
        if number_range is not None:
            yield from check_number(view, member, place, number_range, value * 10 ** (6 - scale))
    elif isinstance(value, str) and kind == DATE:
        yield from _check_date(view, member, place, value)
    elif isinstance(value, str) and name == "recorded_at":
        if is_day(value[:10]):
            yield from _check_date(view, member, place, value[:10])
        else:
            yield view.report("TIME_FORM", [member], member=place, value=quote_value(value))


def check_number(view: FactView, member: str, place: str, number_range: NumberRange, value: int) -> Iterator[Finding]:
    """What is wrong with a number in millionths; `place` is how a message calls it."""
    code = _find_number_problem(place, number_range, value)
    if code == "STATE_ABOVE_NEW":
        state = f"`{place}` is {format_number(value)} %"
        yield view.report(code, [member], state=state, reference="")
    elif code is not None:
        yield view.report(code, [member], member=place, value=format_number(value))


def _find_number_problem(place: str, number_range: NumberRange, value: int) -> str | None:  # noqa: PLR0911 (one row a range)
    match number_range:
        case "share" if place == "state_of_certified_energy_pct" and value > _HUNDRED:
            return "STATE_ABOVE_NEW"
        case "share":
            return None if 0 <= value <= _HUNDRED else "SHARE_RANGE"
        case "fade":
            return "SHARE_RANGE" if value > _HUNDRED else "STATE_ABOVE_NEW" if value < 0 else None
        case "change":
            return "CHANGE_RANGE" if value < -_HUNDRED else None
        case "positive":
            return None if value > 0 else "NOT_POSITIVE"
        case "not negative":
            return None if value >= 0 else "NEGATIVE"
        case "temperature" if value < _ABSOLUTE_ZERO:
            return "ABSOLUTE_ZERO"
        case "temperature":
            lowest, highest = _USUAL_TEMPERATURES
            return None if lowest <= value <= highest else "TEMPERATURE_UNUSUAL"
        case "voltage":
            return "NOT_POSITIVE" if value <= 0 else "VOLTAGE_UNUSUAL" if value > _USUAL_VOLTAGE else None
        case "year":
            return None if EARLIEST_YEAR * MILLION <= value <= LATEST_YEAR * MILLION else "YEAR_RANGE"


def _check_date(view: FactView, member: str, place: str, day: str | None) -> Iterator[Finding]:
    if day is not None and not is_usual_day(day):
        yield view.report("DATE_RANGE", [member], member=place, value=day)


def is_usual_day(day: str) -> bool:
    return EARLIEST_YEAR <= int(day[:4]) <= LATEST_YEAR


def check_far_dates(views: Iterable[FactView]) -> Iterator[Finding]:
    """The dates of a product that are too far after its earliest date."""
    dates = [
        (day, view, member)
        for view in views
        if view.kind in _CHECKED
        for member in _DATES[view.kind]
        if (day := view.get_text(member)) is not None and is_usual_day(day)
    ]
    if not dates:
        return
    earliest = min(day for day, _, _ in dates)
    for day, view, member in dates:
        if int(day[:4]) - int(earliest[:4]) > MAX_YEARS_APART:
            yield view.report("DATE_FAR", [member], member=member, value=day, earliest=earliest)
