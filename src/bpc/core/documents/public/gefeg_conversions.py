"""BatteryPass-Ready passports (GEFEG): how their quantities and sentences become members.

A quantity is an object of a value and its unit; the names of both differ with the unit and the version. Beside them
may stand the temperatures it holds for.
"""

from typing import Final

from bpc.core.documents.elements import RawValue
from bpc.core.documents.public import DocumentNode, units
from bpc.core.documents.public.conversions import Converter, convert_amount, read_text, to_plain_value
from bpc.core.documents.public.sentences import is_address, says_none, split_cas_number, split_list
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.language.types import Dec, Type

IMPACT: Final = "ImpactOfSubstancesOnEnvironmentHumanHealthSafetyPersons"
_TEMPERATURE_RANGE: Final = "temperatureRange"


def to_quantity(measure: units.UnitTable, suffix: str = "Value") -> Converter:
    """A quantity `{…Value, …}`: the names of its two members differ with the unit and the version."""

    def convert(node: DocumentNode, kind: Type) -> RawValue:
        if not isinstance(node.value, dict):
            return to_plain_value(node, kind)
        own = {name: part for name, part in node.value.items() if not name.startswith(_TEMPERATURE_RANGE)}
        values = [name for name in own if name.endswith(suffix)]
        units = [name for name, member in own.items() if isinstance(member, str) and "Value" not in name]
        if not values:
            return None
        return convert_amount(node.member(values[0]), node.member(units[0] if units else "unit"), measure, kind)

    return convert


def read_power(node: DocumentNode, charge: str) -> RawValue:
    return to_quantity(units.WATTS, f"At{charge}SoC")(node, Dec(3)) if isinstance(node.value, dict) else None


def to_enumerated(name: str, convert: Converter = to_plain_value) -> Converter:
    """A term, alone or as the only member of an object."""
    return lambda node, kind: convert(node.at(name) if isinstance(node.value, dict) else node, kind)


def to_chemistry(node: DocumentNode, kind: Type) -> RawValue:
    if not isinstance(node.value, dict):
        return to_plain_value(node, kind)
    return to_plain_value(node.at("chemicalCodeValue"), kind) or to_plain_value(node.at("CustomChemicalCodes"), kind)


def to_accidents(node: DocumentNode, _: Type) -> RawValue:
    report = read_text(node)
    if not isinstance(report, str):
        return None
    return [] if says_none(report) else [{"report_url" if is_address(report) else "event": report}]


def to_hazards(node: DocumentNode, _: Type) -> RawValue:
    """Each substance of the sentence, with what the format says of the impact of all of them."""
    text, impact = read_text(node.at("HazardousSubstances")), read_text(node.at(IMPACT))
    if not isinstance(text, str):
        return None
    if says_none(text):
        return []
    common_members = {"impact": impact} if isinstance(impact, str) and not is_address(impact) else {}
    return [{**_describe_substance(item), **common_members} for item in split_list(text)] or None


def _describe_substance(item: str) -> dict[str, RawValue]:
    name, cas_number = split_cas_number(item)
    substance = {"hazard_class" if name in _HAZARD_CLASSES else "name": name, "cas_number": cas_number}
    return {member: value for member, value in substance.items() if value is not None}


def to_items(node: DocumentNode, _: Type) -> RawValue:
    """The items of a sentence; one that is only a CAS number is its number."""
    items = [item for part in node.items() if isinstance(text := read_text(part), str) for item in split_list(text)]
    return [*dict.fromkeys(items)] if items or (isinstance(node.value, str) and says_none(node.value)) else None


def to_web_address(node: DocumentNode, _: Type) -> RawValue:
    """A web address; None for any other text."""
    return read_text(node) if isinstance(node.value, str) and is_address(node.value) else None


def to_label_meanings(node: DocumentNode, _: Type) -> RawValue:
    text = None if isinstance(node.value, str) and is_address(node.value) else read_text(node)
    return [{"meaning": meaning} for meaning in split_list(text)] or None if isinstance(text, str) else None


def pick_location(location: str) -> Converter:
    """The material at one place of a battery, from a sentence about all three places."""

    def pick(node: DocumentNode, _: Type) -> RawValue:
        text = read_text(node)
        materials = _sort_by_location(node, text) if isinstance(text, str) else {}
        return materials.get(location)

    return pick


def _sort_by_location(node: DocumentNode, text: str) -> dict[str, str]:
    """The materials by their place: by its name (`Anode: graphite`), else in the order of the member's name."""
    parts = [part.strip(" .") for part in text.split(";") if part.strip(" .")]
    sorted_parts: dict[str, str] = {}
    for part in parts:
        label, _, material = part.partition(":")
        location = lower_ascii(label.strip())
        if material.strip() and location in LOCATIONS:
            sorted_parts[location] = material.strip()
    if sorted_parts:
        return sorted_parts
    if not 2 <= len(parts) <= len(LOCATIONS):
        node.add_warning(
            "does not say which material is in the cathode, the anode and the electrolyte; it was left out"
        )
        return {}
    node.add_warning("was read in the order of its name: cathode, anode, electrolyte")
    return dict(zip(LOCATIONS, parts, strict=False))


def to_spare_parts(node: DocumentNode, _: Type) -> RawValue:
    """One source: its address, and the part numbers or the address of a list of them."""
    source = read_text(node.at("InformationOnSourcesOfSpareParts"))
    numbers = read_text(node.at("PartNumbersForComponents"))
    record: dict[str, RawValue] = {}
    if isinstance(source, str):
        record["url" if is_address(source) else "name"] = source
    if isinstance(numbers, str):
        record["part_numbers"] = [numbers] if is_address(numbers) else [*split_list(numbers)]
    return [record] if record else None


def to_power_limits(node: DocumentNode, _: Type) -> RawValue:
    """The permitted power, if it has temperatures."""
    bounds = {bound: _read_bound(node, bound) for bound in ("min", "max")}
    temperatures = {f"temperature_{bound}_degc": value for bound, value in bounds.items() if value is not None}
    power = to_quantity(units.WATTS)(node, Dec(3)) if temperatures else None
    return [{"limit": "maximum", "power_w": power, **temperatures}] if power is not None else None


def _read_bound(node: DocumentNode, bound: str) -> RawValue:
    """The lowest or highest temperature that a quantity holds for."""
    if not isinstance(node.value, dict):
        return None
    name = f"{_TEMPERATURE_RANGE}{BOUNDS[bound]}"
    unit = node.at(name)
    if unit.value is None:
        return to_plain_value(node.at(f"{name}Value"), Dec(2))
    return convert_amount(node.at(f"{name}Value"), unit, units.CELSIUS, Dec(2))


def to_bound(bound: str) -> Converter:
    return lambda node, _: _read_bound(node, bound)


BOUNDS: Final = {"min": "LowerBoundary", "max": "UpperBoundary"}
LOCATIONS: Final = ("cathode", "anode", "electrolyte")
# The classes of the battery vocabulary; sentences made from it have them where names belong.
_HAZARD_CLASSES: Final = frozenset(
    """
    AcuteToxicity AspirationHazard Carcinogenicity EyeDamageOrIrritation GermCellMutagenicity
    HazardousToAquaticEnvironment ReproductiveToxicity RespiratoryOrSkinSensitization SkinCorrosionOrIrritation
    SpecificTargetOrganToxicity
    """.split()  # noqa: SIM905
)
