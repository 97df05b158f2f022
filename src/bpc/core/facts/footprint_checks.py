"""Plausibility of a carbon footprint: sums of stages, and what a kWh is.

Pure. Regulation (EU) 2023/1542, Article 7(1)(d), divides the footprint by the energy that the battery delivers over its
service life, not by its capacity; public sample passports confuse the two, which differ by the number of cycles. The
arithmetic, with numbers in millionths (see `fact_view`):

    energy delivered = the declared one, or energy x cycles a year x years, or energy x expected cycles
    footprint per kWh delivered  = total footprint / energy delivered
    footprint per kWh of capacity = total footprint / energy, where energy is the usable or the rated one

Messages are in kg CO2e, the unit of the declaration; facts hold grams.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bpc.core.facts.battery_checks import check_order, differs, exceeds_rounding
from bpc.core.facts.fact_view import MILLION, FactView, format_number, format_ratio
from bpc.core.facts.findings import Finding

_STAGES: Final = ("raw_material_", "production_", "distribution_", "end_of_life_")
_KG: Final = 1000 * MILLION  # a kilogram in millionths of a gram
# Kilograms for each kWh of capacity. Batteries of all chemistries have between 20 and 300.
_PLAUSIBLE: Final = (1, 1000)
# The most grams for each kWh delivered that are plausible where nothing is known of the service life: 200 cycles.
_MOST_PER_KWH: Final = 5000 * MILLION
_CAPACITY_HINT: Final = "; it is probably a footprint per kWh of capacity"


class DeliveredEnergy(NamedTuple):
    """What a battery delivers over its service life, in millionths of a kWh, and the members that say so."""

    energy: int
    members: tuple[str, ...]
    is_declared: bool


def check_footprint(view: FactView, battery: FactView | None) -> Iterator[Finding]:
    """Everything implausible in a PCF, with the battery it is of where that is known."""
    yield from _check_sum(view, "FOOTPRINT_SUM", "total_gco2e", "gco2e")
    yield from _check_sum(view, "FOOTPRINT_PER_KWH_SUM", "gco2e_per_kwh", "gco2e_per_kwh")
    yield from check_order(view, "verified_on", "valid_until_on")
    energy = None if battery is None else find_energy(battery)
    yield from _check_service_life_energy(view, energy)
    yield from _check_total_band(view, energy)
    delivered_energy = _find_delivered_energy(view, battery, energy)
    ratio_finding = _find_ratio_problem(view, energy, delivered_energy)
    if ratio_finding is not None:
        yield ratio_finding
    else:
        yield from _check_delivered_band(view, energy, delivered_energy)


def find_energy(battery: FactView) -> int | None:
    """The energy of a battery in millionths of a kWh: usable, rated, or capacity x voltage."""
    for member in ("usable_energy_kwh", "capacity_kwh"):
        value = battery.get_number(member)
        if value is not None and value > 0:
            return value
    numbers = battery.get_numbers("rated_capacity_ah", "nominal_voltage_v")
    if numbers is None or min(numbers) <= 0:
        return None
    return numbers[0] * numbers[1] // (1000 * MILLION) or None


def _check_sum(view: FactView, code: str, total_member: str, ending: str) -> Iterator[Finding]:
    members = [f"{stage}{ending}" for stage in _STAGES]
    stages, total = view.get_numbers(*members), view.get_number(total_member)
    if stages is not None and total is not None and exceeds_rounding(stages, total, _KG):
        texts = {"sum": _format_kg(sum(stages)), "total": _format_kg(total)}
        yield view.report(code, [total_member, *members], **texts)


def _format_kg(grams: int) -> str:
    """Grams in millionths as a decimal number of kilograms, exact."""
    integer, fraction = divmod(abs(grams), _KG)
    text = f"{integer}.{fraction:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if grams < 0 else text


def _multiply_cycles(view: FactView, energy: int | None) -> int | None:
    """Energy x cycles a year x years, in millionths of a kWh."""
    numbers = view.get_numbers("cycles_per_year", "service_life_years")
    if energy is None or numbers is None or min(numbers) <= 0:
        return None
    return energy * numbers[0] * numbers[1] // (MILLION * MILLION) or None


def _find_delivered_energy(view: FactView, battery: FactView | None, energy: int | None) -> DeliveredEnergy | None:
    declared_energy = view.get_number("service_life_energy_kwh")
    if declared_energy is not None and declared_energy > 0:
        return DeliveredEnergy(declared_energy, ("service_life_energy_kwh",), is_declared=True)
    product = _multiply_cycles(view, energy)
    if product is not None:
        return DeliveredEnergy(product, ("cycles_per_year", "service_life_years"), is_declared=True)
    cycles = None if battery is None else battery.get_number("expected_cycles")
    if energy is None or cycles is None or cycles <= 0:
        return None
    return DeliveredEnergy(energy * cycles // MILLION, (), is_declared=False)


def _check_service_life_energy(view: FactView, energy: int | None) -> Iterator[Finding]:
    declared_energy, product = view.get_number("service_life_energy_kwh"), _multiply_cycles(view, energy)
    if energy is None or declared_energy is None or product is None or not differs(declared_energy, product, 10):
        return
    cycles, years = view.get_numbers("cycles_per_year", "service_life_years") or (0, 0)
    yield view.report(
        "SERVICE_LIFE_ENERGY",
        ["service_life_energy_kwh", "cycles_per_year", "service_life_years"],
        value=format_number(declared_energy),
        energy=format_number(energy),
        cycles=format_number(cycles),
        years=format_number(years),
        product=format_number(product),
    )


def _find_ratio_problem(view: FactView, energy: int | None, delivered_energy: DeliveredEnergy | None) -> Finding | None:
    numbers = view.get_numbers("gco2e_per_kwh", "total_gco2e")
    if numbers is None or delivered_energy is None or not delivered_energy.is_declared:
        return None
    value, total = numbers
    if not differs(value * delivered_energy.energy, total * MILLION, 5):
        return None
    is_per_capacity = energy is not None and not differs(value * energy, total * MILLION, 5)
    return view.report(
        "FOOTPRINT_RATIO",
        ["gco2e_per_kwh", "total_gco2e", *delivered_energy.members],
        value=_format_kg(value),
        total=_format_kg(total),
        energy=format_number(delivered_energy.energy),
        ratio=format_ratio(total, delivered_energy.energy * 1000),
        capacity_hint=_CAPACITY_HINT if is_per_capacity else "",
    )


def _check_total_band(view: FactView, energy: int | None) -> Iterator[Finding]:
    total = view.get_number("total_gco2e")
    if total is not None and total > 0 and energy is not None and not _is_plausible(total, energy):
        yield view.report(
            "FOOTPRINT_BAND",
            ["total_gco2e"],
            value=_format_kg(total),
            basis=f"for {format_number(energy)} kWh of capacity",
            ratio=format_ratio(total, energy * 1000),
            capacity_hint="",
        )


def _check_delivered_band(
    view: FactView, energy: int | None, delivered_energy: DeliveredEnergy | None
) -> Iterator[Finding]:
    value = view.get_number("gco2e_per_kwh")
    if value is None or value <= 0:
        return
    if energy is not None and delivered_energy is not None:
        footprint = value * delivered_energy.energy // MILLION
        if not _is_plausible(footprint, energy):
            is_too_much = footprint > _PLAUSIBLE[1] * 1000 * energy
            yield view.report(
                "FOOTPRINT_BAND",
                ["gco2e_per_kwh", *delivered_energy.members],
                value=_format_kg(value),
                basis=f"for each of {format_number(delivered_energy.energy)} kWh delivered",
                ratio=format_ratio(footprint, energy * 1000),
                capacity_hint=_CAPACITY_HINT if is_too_much else "",
            )
    elif value > _MOST_PER_KWH:
        yield view.report(
            "FOOTPRINT_BAND",
            ["gco2e_per_kwh"],
            value=_format_kg(value),
            basis="for each kWh delivered, over 200 cycles,",
            ratio=format_ratio(value * 200, 1000 * MILLION),
            capacity_hint=_CAPACITY_HINT,
        )


def _is_plausible(footprint: int, energy: int) -> bool:
    lowest, highest = _PLAUSIBLE
    return lowest * 1000 * energy <= footprint <= highest * 1000 * energy
