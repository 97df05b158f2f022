"""Carbon footprints of passports: which figure is of which stage, and whether the stages add up.

A sum that is wrong is a warning only: a document is read as it is, and what it must add up to is for rules to say.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.documents.public.conversions import shown
from bpc.core.documents.public.measures import as_lower
from bpc.core.documents.public.places import Place
from bpc.core.documents.values import Exact, Given, Number, exact

STAGES: Final = ("raw_material", "production", "distribution", "end_of_life")

# What a stage is called, tried in this order: `raw material acquisition and pre-processing`, `MainProduction` …
_NAMES: Final = (
    ("raw", "raw_material"),
    ("distribution", "distribution"),
    ("end of life", "end_of_life"),
    ("end-of-life", "end_of_life"),
    ("recycl", "end_of_life"),
    ("main", "production"),
    ("manufactur", "production"),
    ("production", "production"),
    ("total", "total"),
    ("whole", "total"),
    ("cradle", "total"),
    ("life cycle", "total"),
    ("lifecycle", "total"),
)


def stage_named(given: str) -> str | None:
    """The stage that a format calls this, or `total`."""
    name = as_lower(given)
    return next((stage for part, stage in _NAMES if part in name), None)


def member_of(stage: str, *, per_kwh: bool) -> str:
    """The member of a PCF that holds this stage's figure."""
    if stage == "total":
        return "gco2e_per_kwh" if per_kwh else "total_gco2e"
    return f"{stage}_gco2e_per_kwh" if per_kwh else f"{stage}_gco2e"


def warn_of_sums(place: Place, made: Mapping[str, Given]) -> None:
    """Say it where the four stages differ from the total."""
    for per_kwh in (True, False):
        total = _figure(made.get(member_of("total", per_kwh=per_kwh)))
        stages = [_figure(made.get(member_of(stage, per_kwh=per_kwh))) for stage in STAGES]
        parts = [stage for stage in stages if stage is not None]
        if total is None or len(parts) < len(STAGES):
            continue
        scale = max(value.scale for value in (total, *parts))
        whole = sum(value.at_scale(scale) or 0 for value in parts)
        if whole != total.at_scale(scale):
            unit = "g CO2e per kWh" if per_kwh else "g CO2e"
            place.warning(
                f"has a total of {shown(total)} {unit}, and its four stages add up to {shown(Exact(whole, scale))}"
            )


def warn_of_power(place: Place, made: Mapping[str, Given]) -> None:
    """Say it where a battery can do more than it permits."""
    original, most = _figure(made.get("original_power_w")), _figure(made.get("maximum_power_w"))
    if original and most and original.count * 10**most.scale > most.count * 10**original.scale:
        place.warning(f"has an original power of {shown(original)} W, and permits {shown(most)} W")


def _figure(given: Given) -> Exact | None:
    return exact(given.text) if isinstance(given, Number) else None
