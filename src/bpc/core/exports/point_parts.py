"""What fills each of the 71 data points: its parts, and the members of facts that fill a part. A table and its reading.

Pure. A point is filled when each of its parts is: point 48 has six parts and is not filled by five. A part is filled in
one of several ways; a way is a set of members that one fact has together. Statuses and access are in `data_points`.

    facts of one product ── find_open_parts ──► for each point the parts that nothing fills

A member is filled if it is there and is not blank. `0` and `false` are values. An empty list fills a part only where it
says something, namely that there are none (`may_be_none`): no hazardous substances, no critical raw materials, no
warnings, no negative events. A reading fills the part of the state that it is a reading of. A file that is bound to a
data point (fact type `Attachment`) fills a point of one part; of a point with several parts it does not say which.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.exports.data_points import POINTS, DataPoint
from bpc.core.facts.enumerations import normalize_value
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json

# The points that ask for files, so that a file that is bound to them fills them.
FILE_POINTS: Final = frozenset({40, 41, 42, 43, 47, 48, 49, 50})


class FillingWay(NamedTuple):
    """Members of one fact that together fill a part. `list.member` is a member of a record in a list.

    A component fills it only if it is in `location`, where one is named.
    """

    fact_type: str
    members: tuple[str, ...]
    location: str | None = None


class PointPart(NamedTuple):
    """A part of a data point: its name, the ways to fill it, and whether an empty list says that there are none."""

    name: str
    ways: tuple[FillingWay, ...]
    may_be_none: bool = False


def _battery(*members: str) -> FillingWay:
    return FillingWay("Battery", members)


def _component(*members: str, location: str | None = None) -> FillingWay:
    return FillingWay("Component", members, location)


def _part(name: str, *ways: FillingWay | str, may_be_none: bool = False) -> PointPart:
    """A part; a way that is a plain name is that member of the battery."""
    return PointPart(name, tuple(_battery(way) if isinstance(way, str) else way for way in ways), may_be_none)


def _recycled_share(metal: str) -> tuple[PointPart, ...]:
    name = f"recycled_{metal}"
    return (
        _part(
            f"recycled share of {metal}",
            f"{name}_pct",
            _battery(f"{name}_pre_pct", f"{name}_post_pct"),
            _component(f"{metal}_g", "recycled_pre_pct"),
            _component(f"{metal}_g", "recycled_post_pct"),
        ),
    )


def _footprint(name: str, member: str) -> PointPart:
    return _part(name, FillingWay("PCF", (f"{member}gco2e_per_kwh",)), FillingWay("PCF", (f"{member}gco2e",)))


def _active_material(location: str) -> PointPart:
    return _part(location, location, _component("material", location=location))


_HAZARDOUS: Final = _part("hazardous substances", "hazardous_substances", _component("hazardous"), may_be_none=True)
_CRITICAL: Final = _part("critical raw materials", "critical_raw_materials", _component("critical"), may_be_none=True)

PARTS: Final[Mapping[int, tuple[PointPart, ...]]] = {
    1: (_part("identifier", "passport_uri"),),
    2: (_part("operator", "operator_id", "operator_name"),),
    3: (_part("name or trade mark", "manufacturer_name", "manufacturer_trade_mark"),),
    4: (_part("postal address", "manufacturer_address"),),
    5: (_part("web address", "manufacturer_url"), _part("e-mail address", "manufacturer_email")),
    6: (_part("category", "category"),),
    7: (_part("model", "model"), _part("batch, serial or product number", "batch_number", "serial_number", "sku")),
    8: (_part("place of the plant", "manufacturing_place"),),
    9: (_part("date", "manufactured_on"),),
    10: (_part("mass", "mass_kg"),),
    11: (_part("rated capacity", "rated_capacity_ah"),),
    12: (_part("chemistry", "chemistry"),),
    13: (_HAZARDOUS,),
    14: (_part("extinguishing agents", "extinguishing_agents"),),
    15: (_CRITICAL,),
    16: (_part("chemistry", "chemistry"), _HAZARDOUS, _CRITICAL),
    17: (
        _part("model", FillingWay("PCF", ("model",)), "model"),
        _part("plant", FillingWay("PCF", ("facility",)), FillingWay("PCF", ("facility_country",))),
        _part("footprint", FillingWay("PCF", ("gco2e_per_kwh",)), FillingWay("PCF", ("total_gco2e",))),
        _footprint("stage raw materials", "raw_material_"),
        _footprint("stage production", "production_"),
        _footprint("stage distribution", "distribution_"),
        _footprint("stage end of life", "end_of_life_"),
        _part("public study", FillingWay("PCF", ("study_url",))),
    ),
    18: (
        _part("performance class", FillingWay("PCF", ("performance_class",))),
        _part("label", FillingWay("PCF", ("label_url",))),
    ),
    19: (_part("public report", FillingWay("DueDiligence", ("report_url",))),),
    20: _recycled_share("cobalt"),
    21: _recycled_share("lithium"),
    22: _recycled_share("nickel"),
    23: _recycled_share("lead"),
    24: (_part("renewable share", "renewable_content_pct", _component("renewable_pct")),),
    25: (_part("rated capacity", "rated_capacity_ah"),),
    26: (_part("minimum voltage", "minimum_voltage_v"),),
    27: (_part("nominal voltage", "nominal_voltage_v"),),
    28: (_part("maximum voltage", "maximum_voltage_v"),),
    29: (_part("original power", "original_power_w", "original_power_by_charge"),),
    30: (_part("power limits", "maximum_power_w", "power_limits"),),
    31: (_part("cycles", "expected_cycles"),),
    32: (_part("reference test", "expected_cycles_test"),),
    33: (_part("capacity threshold", "capacity_threshold_pct"),),
    34: (
        _part("lowest temperature", "idle_temperature_min_degc"),
        _part("highest temperature", "idle_temperature_max_degc"),
    ),
    35: (_part("warranty", "warranty_months", "warranty_until_on"),),
    36: (_part("efficiency when new", "initial_round_trip_efficiency_pct"),),
    37: (_part("efficiency at half of the cycle life", "half_life_round_trip_efficiency_pct"),),
    38: (
        _part("resistance of a cell", "initial_cell_resistance_ohm"),
        _part("resistance of the pack", "initial_pack_resistance_ohm"),
    ),
    39: (_part("C-rate", "cycle_test_c_rate"),),
    40: (_part("symbol for separate collection", "separate_collection_label_url"),),
    41: (_part("symbols for cadmium and lead", "heavy_metal_label_url"),),
    42: (_part("declaration", "declaration_of_conformity_url"),),
    43: (
        _part("(a) preventing waste", "waste_prevention_url"),
        _part("(b) separate collection", "separate_collection_url"),
        _part("(c) collection, second life and treatment", "collection_systems_url"),
        _part("(d) safe handling of waste", "waste_safety_url"),
        _part("(e) meaning of labels and symbols", "label_meaning_url"),
        _part(
            "(f) effects of substances",
            "substance_impact_url",
            "hazardous_substances.impact",
            _component("hazard_impact"),
        ),
    ),
    44: (_part("instructions", "instructions_url"),),
    45: (_active_material("cathode"), _active_material("anode"), _active_material("electrolyte")),
    46: (_part("part numbers", "spare_part_sources.part_numbers", _component("part_number")),),
    47: (
        _part("source", "spare_part_sources.name", _component("supplier")),
        _part(
            "how to reach the source",
            *(f"spare_part_sources.{member}" for member in ("address", "email", "url")),
            *(_component(f"supplier_{member}") for member in ("address", "email", "url")),
        ),
    ),
    48: (
        _part("exploded diagrams", "exploded_diagram_url"),
        _part("disassembly sequences", "disassembly_sequence_url"),
        _part("kind and number of fastenings", "fastenings"),
        _part("tools", "disassembly_tools"),
        _part("warnings", "disassembly_warnings", may_be_none=True),
        _part("number and layout of cells", _battery("cell_count", "cell_layout")),
    ),
    49: (_part("safety measures", "safety_measures_url"),),
    50: (_part("test reports", "test_report_urls"),),
    51: (_part("rated capacity", "rated_capacity_ah"),),
    52: (_part("capacity fade", "capacity_fade_pct"),),
    53: (_part("power", "power_w"),),
    54: (_part("power fade", "power_fade_pct"),),
    55: (_part("internal resistance", "internal_resistance_ohm"),),
    56: (_part("increase of the internal resistance", "internal_resistance_increase_pct"),),
    57: (_part("efficiency", "round_trip_efficiency_pct"),),
    58: (_part("fade of the efficiency", "round_trip_efficiency_fade_pct"),),
    59: (_part("cycles", "expected_cycles"),),
    60: (_part("years", "expected_life_years"),),
    61: (_part("state of certified energy", "state_of_certified_energy_pct"),),
    62: (_part("remaining capacity", "remaining_capacity_ah"),),
    63: (_part("remaining power", "remaining_power_w"),),
    64: (_part("remaining efficiency", "round_trip_efficiency_pct"),),
    65: (
        _part(
            "change of the self-discharge",
            "self_discharge_evolution_pct",
            _battery("initial_self_discharge_pct_per_month", "self_discharge_pct_per_month"),
        ),
    ),
    66: (_part("ohmic resistance", "ohmic_resistance_ohm"),),
    67: (_part("status", "status"),),
    68: (_part("cycles", "full_cycles"),),
    69: (_part("negative events", "negative_events", may_be_none=True),),
    70: (_part("temperatures", "temperature_records", "minutes_in_extreme_heat", "minutes_in_extreme_cold"),),
    71: (_part("states of charge", "state_of_charge_records", "state_of_charge_pct"),),
}

_WAYS_BY_FACT: Final[Mapping[str, Sequence[tuple[FillingWay, bool]]]] = {
    fact_type: list(
        {
            (way, part.may_be_none): None
            for parts in PARTS.values()
            for part in parts
            for way in part.ways
            if way.fact_type == fact_type
        }
    )
    for fact_type in ("Battery", "Component", "PCF", "DueDiligence")
}


def is_filled(point: DataPoint, facts: Iterable[SnapshotFact]) -> bool:
    """Whether the facts of a product fill every part of a point."""
    return not find_open_parts(facts)[point.number]


def find_open_parts(facts: Iterable[SnapshotFact]) -> Mapping[int, tuple[PointPart, ...]]:
    """For each of the 71 points the parts that the facts of a product do not fill; () for a point that is filled."""
    filled_ways: set[FillingWay] = set()
    attached_points: set[object] = set()
    for fact in facts:
        if fact.fact_type == "Attachment":
            attached_points.add(fact.payload.get("data_point"))
        filled_ways.update(_find_filled_ways(fact))
    return {
        point.number: ()
        if point.number in attached_points and point.number in FILE_POINTS and len(PARTS[point.number]) == 1
        else tuple(part for part in PARTS[point.number] if filled_ways.isdisjoint(part.ways))
        for point in POINTS
    }


def list_filling_members(number: int) -> list[tuple[str, str]]:
    """The members that can fill a point, as fact type and member, in the order of its parts."""
    members = ((way.fact_type, member) for part in PARTS[number] for way in part.ways for member in way.members)
    return list(dict.fromkeys(members))


def _find_filled_ways(fact: SnapshotFact) -> Iterator[FillingWay]:
    if fact.fact_type == "Reading":
        kind = fact.payload.get("kind")
        if isinstance(kind, str) and any(not is_blank(fact.payload.get(member)) for member in ("number", "text")):
            yield FillingWay("Battery", (kind,))
        return
    for way, may_be_none in _WAYS_BY_FACT.get(fact.fact_type, ()):
        if way.location is None or _is_at(fact, way.location):
            values = [_get_value(fact.payload, member) for member in way.members]
            if all(not is_blank(value) or (may_be_none and value == []) for value in values):
                yield way


def _is_at(fact: SnapshotFact, location: str) -> bool:
    value = fact.payload.get("location")
    return isinstance(value, str) and normalize_value("Component", "location", value) == location


def _get_value(payload: Mapping[str, Json], path: str) -> Json:
    """A member's value; of `list.member` the values in the list's records."""
    name, _, inner = path.partition(".")
    value = payload.get(name)
    if not inner:
        return value
    records = value if isinstance(value, list | tuple) else []
    return [record.get(inner) for record in records if isinstance(record, Mapping)]


def is_blank(value: Json) -> bool:
    """Whether a value says nothing: absent, an empty text, or a list or record of nothing but those."""
    match value:
        case None:
            return True
        case str():
            return not value.strip()
        case list() | tuple():
            return all(is_blank(item) for item in value)
        case Mapping():
            return all(is_blank(item) for item in value.values())
        case _:
            return False
