"""Plausibility of what a battery can do: members of one Battery fact that belong together.

Pure. Numbers are in millionths (see `fact_view`); a product of two is compared with a product of two. What is missing
is not checked. How exactly sums must agree is said at `exceeds_rounding`.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from bpc.core.facts.fact_view import MILLION, FactView, format_number, format_ratio
from bpc.core.facts.findings import Finding
from bpc.core.facts.value_checks import is_usual_day

_LMT_MASS: Final = 25 * MILLION
_METALS: Final = ("cobalt", "lithium", "nickel", "lead")


def check_battery(view: FactView) -> Iterator[Finding]:
    """Every link between members of a Battery that does not hold, its states left out."""
    yield from _check_voltages(view)
    yield from _check_temperatures(view)
    for metal in _METALS:
        yield from _check_recycled_share(view, metal)
    yield from _check_power_limit(view)
    yield from _check_resistance(view)
    yield from _check_energy(view)
    yield from _check_power_to_energy(view)
    mass = view.get_number("mass_kg")
    if view.get_text("category") == "lmt" and mass is not None and mass > _LMT_MASS:
        yield view.report("CATEGORY_MASS", ["category", "mass_kg"], value=format_number(mass))


def differs(value: int, reference: int, pct: int) -> bool:
    """Whether a value is more than this percentage above or below a reference."""
    return abs(value - reference) * 100 > pct * abs(reference)


def exceeds_rounding(parts: Sequence[int], total: int, whole: int) -> bool:
    """Whether parts do not add up to their total, even if the numbers were rounded before they were written.

    Whole numbers add up exactly. Otherwise: where the total has fewer decimals than the parts, the sum may differ by
    half of the total's last decimal; else each part may differ by half of the parts' last decimal. `whole` is one unit.
    """
    part_unit, total_unit = min(_find_last_unit(part, whole) for part in parts), _find_last_unit(total, whole)
    if part_unit == total_unit == whole:
        tolerance_twice = 0
    else:
        tolerance_twice = total_unit if total_unit > part_unit else len(parts) * part_unit
    return 2 * abs(sum(parts) - total) > tolerance_twice


def _find_last_unit(value: int, whole: int) -> int:
    """The unit of the last decimal that is not 0; `whole` of a whole number."""
    unit = whole
    while value % unit:
        unit //= 10
    return unit


def check_order(view: FactView, earlier: str, later: str) -> Iterator[Finding]:
    """Two dates of a fact, of which the first must not be after the second."""
    first, second = view.get_text(earlier), view.get_text(later)
    if first is not None:
        yield from check_day(view, later, later, second, (earlier, first))


def check_day(view: FactView, member: str, place: str, day: Any, earlier: tuple[str, str]) -> Iterator[Finding]:
    """A day that must not be before another, which is a member's name and value."""
    name, first = earlier
    if isinstance(day, str) and day < first and is_usual_day(day) and is_usual_day(first):
        yield view.report(
            "DATE_ORDER",
            [name, member] if name in view.members else [member],
            later=place,
            later_value=day,
            earlier=name,
            earlier_value=first,
        )


def check_battery_dates(view: FactView) -> Iterator[Finding]:
    """What happened to a battery before it was made."""
    for later in ("placed_on_market_on", "put_into_service_on", "state_recorded_on", "warranty_until_on"):
        yield from check_order(view, "manufactured_on", later)
    first = view.get_text("manufactured_on")
    if first is None:
        return
    for place, record in view.iterate_records("negative_events"):
        day = record["occurred_on"]
        yield from check_day(view, "negative_events", f"{place}.occurred_on", day, ("manufactured_on", first))


def _check_voltages(view: FactView) -> Iterator[Finding]:
    names = [name for name in ("minimum", "nominal", "maximum") if view.get_number(f"{name}_voltage_v") is not None]
    for lower, upper in pairwise(names):
        lower_value, upper_value = view.members[f"{lower}_voltage_v"], view.members[f"{upper}_voltage_v"]
        if lower_value >= upper_value:
            yield view.report(
                "VOLTAGE_ORDER",
                [f"{lower}_voltage_v", f"{upper}_voltage_v"],
                lower=lower,
                upper=upper,
                lower_value=format_number(lower_value * 1000),
                upper_value=format_number(upper_value * 1000),
            )


def _check_temperatures(view: FactView) -> Iterator[Finding]:
    for name, may_be_equal in (("idle_temperature", False), ("voltage_temperature", True)):
        lower, upper = f"{name}_min_degc", f"{name}_max_degc"
        numbers = view.get_numbers(lower, upper)
        if numbers is not None and (numbers[0] > numbers[1] or (numbers[0] == numbers[1] and not may_be_equal)):
            yield _report_temperatures(view, [lower, upper], (lower, upper), numbers)
    for place, record in view.iterate_records("power_limits"):
        first, second = record["temperature_min_degc"], record["temperature_max_degc"]
        if first is not None and second is not None and first > second:
            places = f"{place}.temperature_min_degc", f"{place}.temperature_max_degc"
            yield _report_temperatures(view, ["power_limits"], places, (first * 10**4, second * 10**4))


def _report_temperatures(
    view: FactView, members: Sequence[str], places: tuple[str, str], numbers: Sequence[int]
) -> Finding:
    return view.report(
        "TEMPERATURE_ORDER",
        members,
        lower=places[0],
        upper=places[1],
        lower_value=format_number(numbers[0]),
        upper_value=format_number(numbers[1]),
    )


def _check_recycled_share(view: FactView, metal: str) -> Iterator[Finding]:
    names = [f"recycled_{metal}_{part}" for part in ("pre_pct", "post_pct", "pct")]
    pre, post, total = (view.get_number(name) for name in names)
    if total is None:
        return
    if pre is not None and post is not None:
        if exceeds_rounding([pre, post], total, MILLION):
            yield view.report(
                "RECYCLED_SUM",
                names,
                metal=metal,
                pre=format_number(pre),
                post=format_number(post),
                sum=format_number(pre + post),
                total=format_number(total),
            )
        return
    for name, value in zip(names, (pre, post), strict=False):
        if value is not None and value > total:
            texts = {"value": format_number(value), "total": format_number(total)}
            yield view.report("RECYCLED_PART", [name, names[2]], metal=metal, member=name, **texts)


def find_highest_power(view: FactView) -> tuple[str, int] | None:
    """The highest power that a battery permits, and the member that says so."""
    maximum = view.get_number("maximum_power_w")
    if maximum is not None:
        return "maximum_power_w", maximum
    limits = [record["power_w"] for _, record in view.iterate_records("power_limits") if record["power_w"] is not None]
    return ("power_limits", max(limits) * 1000) if limits else None


def _check_power_limit(view: FactView) -> Iterator[Finding]:
    highest = find_highest_power(view)
    if highest is None:
        return
    limit_member, limit = highest
    by_charge = [record["power_w"] for _, record in view.iterate_records("original_power_by_charge")]
    powers = {
        "original_power_w": view.get_number("original_power_w"),
        "original_power_by_charge": max((power * 1000 for power in by_charge if power is not None), default=None),
    }
    if powers["original_power_by_charge"] == powers["original_power_w"]:
        del powers["original_power_by_charge"]  # one contradiction is named once
    for member, value in powers.items():
        if value is not None and value > limit:
            texts = {"value": format_number(value), "limit": format_number(limit)}
            yield view.report("POWER_LIMIT", [member, limit_member], **texts)


def _list_positive(view: FactView, *members: str) -> list[tuple[int, str]]:
    """The numbers above 0 of these members, each with the name of its member."""
    values = ((view.get_number(member), member) for member in members)
    return [(value, member) for value, member in values if value is not None and value > 0]


def _check_resistance(view: FactView) -> Iterator[Finding]:
    """The power against voltage and resistance: first what is impossible, then what lets the voltage collapse."""
    resistance = view.get_number("initial_pack_resistance_ohm")
    powers = _list_positive(view, "original_power_w", "maximum_power_w")
    voltages = _list_positive(view, "maximum_voltage_v", "nominal_voltage_v")
    if resistance is None or resistance <= 0 or not powers or not voltages:
        return
    (power, power_member), (voltage, voltage_member) = max(powers), voltages[0]
    members = [voltage_member, power_member, "initial_pack_resistance_ohm"]
    if 4 * power * resistance > voltage * voltage:
        yield view.report(
            "POWER_RESISTANCE",
            members,
            power=format_number(power),
            voltage=format_number(voltage),
            resistance=format_number(resistance),
            limit=format_ratio(voltage * voltage, 4 * resistance * MILLION),
        )
        return
    volts = view.get_numbers("minimum_voltage_v", "nominal_voltage_v", "maximum_voltage_v")
    if volts is None or not 0 < volts[0] < volts[1] < volts[2]:
        return
    lowest, nominal, highest = volts
    if power * resistance > (highest - lowest) * nominal:
        yield view.report(
            "VOLTAGE_DROP",
            ["minimum_voltage_v", "nominal_voltage_v", *members],
            power=format_number(power),
            voltage=format_number(nominal),
            current=format_ratio(power, nominal),
            resistance=format_number(resistance),
            drop=format_ratio(power * resistance, nominal * MILLION),
            span=format_number(highest - lowest),
        )


def _check_energy(view: FactView) -> Iterator[Finding]:
    energy = view.get_number("capacity_kwh")
    if energy is None or energy <= 0:
        return
    numbers = view.get_numbers("rated_capacity_ah", "nominal_voltage_v")
    if numbers is not None and min(numbers) > 0:
        capacity, voltage = numbers
        stated_energy, product = energy * 1000 * MILLION, capacity * voltage
        is_contradiction = stated_energy > 2 * product or 2 * stated_energy < product
        if is_contradiction or differs(stated_energy, product, 15):
            yield view.report(
                "ENERGY_CONTRADICTION" if is_contradiction else "ENERGY_CAPACITY",
                ["capacity_kwh", "rated_capacity_ah", "nominal_voltage_v"],
                energy=format_number(energy),
                capacity=format_number(capacity),
                voltage=format_number(voltage),
                product=format_ratio(product, 1000 * MILLION * MILLION),
            )
    for member in ("usable_energy_kwh", "certified_energy_kwh"):
        value = view.get_number(member)
        if value is not None and value > energy:
            texts = {"value": format_number(value), "energy": format_number(energy)}
            yield view.report("USABLE_ENERGY", [member, "capacity_kwh"], member=member, **texts)


def _check_power_to_energy(view: FactView) -> Iterator[Finding]:
    numbers = view.get_numbers("power_to_energy_ratio", "capacity_kwh")
    powers = _list_positive(view, "original_power_w", "maximum_power_w")
    if numbers is None or numbers[1] <= 0 or not powers:
        return
    ratio, energy = numbers
    # Both sides times the energy in Wh: a ratio in millionths times millionths, a power in millionths times a million.
    stated_power = ratio * energy * 1000
    lowest, highest = (power[0] * MILLION for power in (min(powers), max(powers)))
    if stated_power * 100 < 80 * lowest or stated_power * 100 > 120 * highest:
        power, power_member = min(powers) if stated_power < lowest else max(powers)
        yield view.report(
            "POWER_TO_ENERGY",
            ["power_to_energy_ratio", power_member, "capacity_kwh"],
            value=format_number(ratio),
            power=format_number(power),
            energy=format_number(energy),
            ratio=format_ratio(power, energy * 1000),
        )
