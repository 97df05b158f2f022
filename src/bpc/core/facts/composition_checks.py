"""Plausibility of what a battery is made of: masses and shares of components against each other and the battery.

Pure. A bill of materials of several levels lists a module and again the cells in it, so masses above the battery's are
a warning and not an error. What one component holds cannot be more than the component: that is an error.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from bpc.core.facts.fact_view import MILLION, FactView, format_number, format_ratio
from bpc.core.facts.findings import Finding

_METALS: Final = ("cobalt_g", "lithium_g", "nickel_g", "lead_g")
_HUNDRED: Final = 100 * MILLION
# Half of the last of four decimals, which each share may have been rounded by.
_ROUNDING: Final = 50


def check_component(view: FactView, battery: FactView | None) -> Iterator[Finding]:
    """Everything implausible in one component."""
    mass = view.get_number("mass_g")
    metals = [(name, value) for name in _METALS if (value := view.get_number(name)) is not None]
    total = sum(value for _, value in metals)
    if mass is not None and total > mass:
        members = [name for name, _ in metals]
        yield view.report("METAL_MASS", [*members, "mass_g"], sum=format_number(total), mass=format_number(mass))
    recycled_shares = view.get_numbers("recycled_pre_pct", "recycled_post_pct")
    if recycled_shares is not None and sum(recycled_shares) > _HUNDRED:
        pre, post = recycled_shares
        texts = {"pre": format_number(pre), "post": format_number(post), "sum": format_number(pre + post)}
        yield view.report("RECYCLED_ABOVE_100", ["recycled_pre_pct", "recycled_post_pct"], **texts)
    battery_mass = None if battery is None else battery.get_number("mass_kg")
    share = view.get_number("mass_share_pct")
    if mass is None or share is None or battery_mass is None or battery_mass <= 0:
        return
    # One percentage point, both sides times the battery's mass in grams.
    if abs(share * battery_mass * 1000 - mass * _HUNDRED) > MILLION * battery_mass * 1000:
        yield view.report(
            "COMPONENT_SHARE",
            ["mass_share_pct", "mass_g"],
            value=format_number(share),
            mass=format_number(mass),
            battery_mass=format_number(battery_mass),
            share=format_ratio(100 * mass, battery_mass * 1000),
        )


def check_composition(battery: FactView, components: Sequence[FactView]) -> Iterator[Finding]:
    """The components of a battery together, and the substances it lists."""
    yield from _check_mass_sum(battery, components)
    shares = [share for view in components if (share := view.get_number("mass_share_pct")) is not None]
    yield from _check_share_sum(battery, shares, [])
    concentrations = [
        record["concentration_pct"] * 100
        for _, record in battery.iterate_records("hazardous_substances")
        if record["concentration_pct"] is not None
    ]
    yield from _check_share_sum(battery, concentrations, ["hazardous_substances"])


def _check_mass_sum(battery: FactView, components: Sequence[FactView]) -> Iterator[Finding]:
    mass = battery.get_number("mass_kg")
    masses = [value for view in components if (value := view.get_number("mass_g")) is not None and value > 0]
    if mass is not None and mass > 0 and sum(masses) > mass * 1000:
        yield battery.report(
            "COMPONENT_MASS",
            ["mass_kg"],
            count=str(len(masses)),
            sum=format_number(sum(masses)),
            share=format_ratio(100 * sum(masses), mass * 1000),
            mass=format_number(mass),
        )


def _check_share_sum(battery: FactView, shares: Sequence[int], members: Sequence[str]) -> Iterator[Finding]:
    in_range = [share for share in shares if 0 <= share <= _HUNDRED]
    if sum(in_range) > _HUNDRED + len(in_range) * _ROUNDING:
        yield battery.report("MASS_SHARE_SUM", members, count=str(len(in_range)), sum=format_number(sum(in_range)))
