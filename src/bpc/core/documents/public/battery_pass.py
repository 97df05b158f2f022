"""Catena-X BatteryPass (6.1.0, also 6.0.0 and 5.0.0): a whole passport in one document.

Recognised by `specVersion` of `battery_pass`, or by its parts `identification`, `performance` and `materials`. The SKU
is the manufacturer's part number. Days that no calendar has are problems, though the format's schema lets them pass.
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import (
    Converter,
    amount,
    category,
    earliest,
    fitted,
    measured,
    plain,
    share,
    status,
    text,
)
from bpc.core.documents.public.footprints import member_of, stage_named, warn_of_power, warn_of_sums
from bpc.core.documents.public.formats import EVERY_KIND, Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.measures import (
    GRAMS_CO2,
    GRAMS_CO2_PER_KWH,
    KILOGRAMS,
    MONTHS,
    PER_CENT,
    factor_of,
    times,
)
from bpc.core.documents.public.places import Place, named
from bpc.core.documents.public.tables import Row, components, listed, members, records
from bpc.core.documents.values import Given
from bpc.core.rules.types import TEXT, Dec, Type

_NO_PREDECESSOR: Final = "00000000-0000-0000-0000-000000000000"


def _is_it(document: dict[str, Given]) -> bool:
    version = document.get("specVersion")
    if isinstance(version, str) and "battery_pass" in version:
        return True
    return {"identification", "performance", "materials"} <= document.keys()


def keyed(key: str) -> Converter:
    """The value of the entry with this key in a list of `{key, value}`."""

    def convert(place: Place, kind: Type) -> Given:
        for item in place.items():
            if item.at("key").value == key:
                item.at("key").take()
                return plain(item.at("value"), kind)
        return None

    return convert


def document(place: Place, kind: Type) -> Given:
    """The address of the first of some documents, `{contentType, header, content}`."""
    first = place.first()
    first.at("contentType").take()
    first.at("header").take()
    return plain(first.at("content"), kind)


def _predecessor(place: Place, kind: Type) -> Given:
    given = plain(place, kind)  # the format has no way to leave it out: "if there is none, input a dummy value"
    return None if isinstance(given, str) and given.endswith(_NO_PREDECESSOR) else given


def _number(place: Place, kind: Type) -> Given:
    """The number of a document, which in version 5 is the document itself, as its neighbour is."""
    return None if isinstance(place.value, list) else plain(place, kind)


def _warranty(place: Place, kind: Type) -> Given:
    unit = place.at("lifeUnit")
    if isinstance(unit.value, str) and factor_of(MONTHS, unit.value) is None:
        unit.take()
        place.at("lifeValue").take()
        place.warning(f"is in {named(unit.value)}, which is no whole number of months; it was left out")
        return None
    return measured(MONTHS, "lifeValue", "lifeUnit")(place, kind)


def _at_charge(place: Place, _: Type) -> Given:
    found: list[Given] = []
    for charge, name in (("20", "at20SoC"), ("80", "at80SoC")):
        power = plain(place.at(name), Dec(3))
        if power is not None:
            found.append({"state_of_charge_pct": charge, "power_w": power})
    return found or None


_METALS: Final = {"Cobalt": "cobalt", "Lithium": "lithium", "Nickel": "nickel", "Lead": "lead"}
_SUBSTANCES: Final = ("active.other", "composition")
# Until version 5 a name stood beside the identification, in an object of its own.
_NAME_BEFORE_6: Final = {"id": "name", "materialIdentification": "materialName"}


def _critical(place: Place, _: Type) -> Given:
    """The names of everything that is marked as a critical raw material."""
    metals = [(name, place.at(f"active.{member}")) for name, member in _METALS.items()]
    others = [(None, item) for way in _SUBSTANCES for item in place.at(way).items()]
    found: dict[str, None] = {}
    for metal, item in (*metals, *others):
        if isinstance(item.value, dict) and item.at("critical").take() is True:
            name = metal or _substance(item)
            if isinstance(name, str):
                found[name] = None
    return list(found) or None


def _substance(place: Place) -> Given:
    """The name of a substance, from whichever of the two members has its identification."""
    for way in ("id", "materialIdentification"):
        if isinstance(place.value, dict) and place.value.get(way) is not None:
            return _first_name(place.at(way), TEXT) or text(place.at(f"{_NAME_BEFORE_6[way]}.name"))
    return None


def _first_name(place: Place, _: Type) -> Given:
    """The name of a substance that may be identified in several ways."""
    return next((name for item in place.items() if (name := text(item.at("name"))) is not None), None)


def _cas(place: Place, kind: Type) -> Given:
    for item in place.items():
        if isinstance(item.value, dict) and item.at("type").take() == "CAS":
            return plain(item.at("id"), kind)
    return None


_CONCENTRATION: Final = share("concentration", "materialUnit", PER_CENT)

_BATTERY: Final = (
    Row("name", "identification.identification.type.nameAtManufacturer"),
    Row("model", "identification.identification.type.manufacturerPartId"),
    Row("serial_number", "identification.identification.serial", keyed("partInstanceId")),
    Row("batch_number", "identification.identification.batch", keyed("batchId")),
    Row("category", "identification.category", category),
    Row("chemistry", "identification.chemistry"),
    Row("passport_uri", "metadata.passportIdentifier"),
    Row("previous_passport_uri", "metadata.predecessor", _predecessor),
    Row("operator_id", "metadata.economicOperatorId"),
    Row("manufacturer_id", "operation.manufacturer.manufacturer"),
    Row("facility_id", "operation.manufacturer.facility.facility"),
    Row("manufactured_on", "operation.manufacturer.manufacturingDate"),
    Row("put_into_service_on", "operation.intoServiceDate"),
    Row("placed_on_market_on", "commercial.placedOnMarket"),
    Row("mass_kg", "characteristics.physicalDimension.weight", measured(KILOGRAMS, "value", "unit")),
    Row("warranty_months", "characteristics.warranty", _warranty),
    Row("status", "sustainability.status", status),
    Row("waste_prevention_url", "sustainability.documents.wastePrevention", document),
    Row("separate_collection_url", "sustainability.documents.separateCollection", document),
    Row(
        "hazardous_substances",
        "materials.hazardous.other",
        records(
            Row("name", "materialIdentification", _first_name),
            Row("name", "materialName.name"),
            Row("cas_number", "materialIdentification", _cas),
            Row("concentration_pct", "", _CONCENTRATION),
            Row("location", "location"),
            Row("impact", "impactOfSubstances", document),
        ),
    ),
    Row("mercury_pct", "materials.hazardous.mercury", _CONCENTRATION),
    Row("cadmium_pct", "materials.hazardous.cadmium", _CONCENTRATION),
    Row("lead_pct", "materials.hazardous.lead", _CONCENTRATION),
    Row("critical_raw_materials", "materials", _critical),
    Row("recycled_cobalt_pct", "materials.active.cobalt.recycled"),
    Row("recycled_lithium_pct", "materials.active.lithium.recycled"),
    Row("recycled_nickel_pct", "materials.active.nickel.recycled"),
    Row("recycled_lead_pct", "materials.active.lead.recycled"),
    Row("recycled_lead_pct", "materials.hazardous.lead.recycled"),
    Row("extinguishing_agents", "safety.usableExtinguishAgent", listed("media")),
    Row("capacity_kwh", "performance.rated.energy.value"),
    Row("rated_capacity_ah", "performance.rated.capacity.value"),
    Row("capacity_threshold_pct", "performance.rated.capacity.thresholdExhaustion"),
    Row("minimum_voltage_v", "performance.rated.voltage.min"),
    Row("nominal_voltage_v", "performance.rated.voltage.nominal"),
    Row("maximum_voltage_v", "performance.rated.voltage.max"),
    Row("original_power_w", "performance.rated.power.value"),
    Row("original_power_by_charge", "performance.rated.power", _at_charge),
    Row("initial_round_trip_efficiency_pct", "performance.rated.roundTripEfficiency.initial"),
    Row("half_life_round_trip_efficiency_pct", "performance.rated.roundTripEfficiency.50PercentLife"),
    Row("initial_cell_resistance_ohm", "performance.rated.resistance.cell"),
    Row("initial_pack_resistance_ohm", "performance.rated.resistance.pack"),
    Row("initial_self_discharge_pct_per_month", "performance.rated.selfDischargingRate"),
    Row("expected_cycles", "performance.rated.lifetime.cycleLifeTesting.cycles"),
    Row("expected_cycles_test", "performance.rated.lifetime.report", document),
    Row("cycle_test_c_rate", "performance.rated.lifetime.cycleLifeTesting.appliedDischargeRate"),
    Row("expected_life_years", "performance.rated.lifetime.expectedYears"),
    Row("idle_temperature_min_degc", "performance.rated.temperature.lower"),
    Row("idle_temperature_max_degc", "performance.rated.temperature.upper"),
    Row("declaration_of_conformity_id", "conformity.declarationOfConformityId", _number),
    Row("declaration_of_conformity_url", "conformity.declarationOfConformity", document),
    Row("test_report_urls", "conformity.resultOfTestReport", listed("content")),
    Row("test_report_urls", "performance.rated.testReport", listed("content")),
    Row("dismantling_url", "safety.dismantling", document),
    Row("safety_measures_url", "safety.safetyMeasures", document),
    Row("label_meaning_url", "safety.meaningOfLabels", document),
    Row("state_recorded_on", "performance.dynamic", earliest("time")),
    Row("capacity_fade_pct", "performance.dynamic.capacity.fade.value"),
    Row("remaining_capacity_ah", "performance.dynamic.capacity.capacity.value"),
    Row("capacity_throughput_ah", "performance.dynamic.capacity.throughput.value"),
    Row("remaining_power_w", "performance.dynamic.power.remaining.value"),
    Row("power_fade_pct", "performance.dynamic.power.fade.value"),
    Row("internal_resistance_ohm", "performance.dynamic.resistance.remaining.pack.value"),
    Row("internal_resistance_increase_pct", "performance.dynamic.resistance.increase.pack.value"),
    Row("round_trip_efficiency_pct", "performance.dynamic.roundTripEfficiency.remaining.value"),
    Row("round_trip_efficiency_fade_pct", "performance.dynamic.roundTripEfficiency.fade.value"),
    Row("state_of_certified_energy_pct", "performance.dynamic.energy.soce.value"),
    Row("remaining_energy_kwh", "performance.dynamic.energy.remaining.value"),
    Row("energy_throughput_kwh", "performance.dynamic.energy.throughput.value"),
    Row("self_discharge_pct_per_month", "performance.dynamic.selfDischargingRate"),
    Row("state_of_charge_pct", "performance.dynamic.stateOfCharge.value"),
    Row("full_cycles", "performance.dynamic.fullCycles.value"),
    Row(
        "negative_events",
        "performance.dynamic.negativeEvents",
        records(
            Row("event", "header"),
            Row("report_url", "content"),
        ),
    ),
)

_SPARE_PARTS: Final = (Row("spare_part_sources", "producer", records(Row("name", "id"))),)

_COMPONENT: Final = (
    Row("material", "id", _first_name),
    Row("material", "name.name"),
    Row("cas_number", "id", _cas),
    Row("location", "location"),
    Row("mass_share_pct", "", share("concentration", "unit", PER_CENT)),
    Row("critical", "critical"),
    Row("renewable_pct", "renewable"),
)

_FOOTPRINT: Final = (
    Row("performance_class", "performanceClass"),
    Row("method", "rulebook", document),
    Row("study_url", "declaration", document),
)

_DUE_DILIGENCE: Final = (
    Row("operator", "metadata.economicOperatorId"),
    Row("policy_url", "conformity.dueDiligencePolicy", document),
)


def _elements(passport: Place) -> list[Element]:
    sku = sku_of(passport.at("identification.identification.type.manufacturerPartId"))
    if sku is None:
        return []
    battery = members("Battery", passport, _BATTERY) | _spare_parts(passport)
    warn_of_power(passport, battery)
    found = [Element("Battery", passport.path, {"sku": sku, **battery})]
    found += components(sku, passport.at("materials.composition").items(), _COMPONENT, _substance)
    found += _footprints(sku, passport.at("sustainability.carbonFootprint"))
    diligence = members("DueDiligence", passport, _DUE_DILIGENCE)
    if "policy_url" in diligence:
        found.append(Element("DueDiligence", passport.at("conformity").path, {"sku": sku, **diligence}))
    return found


def _spare_parts(passport: Place) -> dict[str, Given]:
    """Producers and part numbers. Of several producers the format does not say which part comes from whom."""
    handling = passport.at("handling")
    if handling.at("applicable").take() is False:
        return {}
    content = handling.at("content") if handling.at("content").value is not None else handling.at("spareParts")
    made = members("Battery", content, _SPARE_PARTS)
    numbers = listed("manufacturerPartId")(content.at("sparePart"), TEXT)
    sources = made.get("spare_part_sources")
    held = sources if isinstance(sources, list) else []
    if numbers and len(held) == 1 and isinstance(held[0], dict):
        held[0]["part_numbers"] = numbers
    elif numbers:
        held = [*held, {"part_numbers": numbers}]
    return {"spare_part_sources": held} if held else {}


def _footprints(sku: str, place: Place) -> list[Element]:
    """One footprint of each plant: Art. 7 wants it per model and per manufacturing plant."""
    by_plant: dict[Given, Element] = {}
    for entry in place.items():
        plant = plain(entry.at("manufacturingPlant.facility"), TEXT)
        held = by_plant.setdefault(plant if isinstance(plant, str) else None, Element("PCF", entry.path, {"sku": sku}))
        _add_figure(entry, held.members)
        for member, value in members("PCF", entry, _FOOTPRINT).items():
            held.members.setdefault(member, value)
        if plant is not None:
            held.members["facility"] = plant
    for element in by_plant.values():
        warn_of_sums(place, element.members)
    return [element for element in by_plant.values() if any("gco2e" in member for member in element.members)]


def _add_figure(entry: Place, held: dict[str, Given]) -> None:
    impact, lifecycle = text(entry.at("type")), text(entry.at("lifecycle"))
    stage = stage_named(lifecycle) if isinstance(lifecycle, str) else "total"
    if impact not in (None, "Climate Change Total"):
        entry.warning(f"is about {named(impact)}; facts hold `Climate Change Total` only, and it was left out")
        entry.take()
        return
    if stage is None:
        entry.warning(f"is about {named(lifecycle)}, which is no stage of Art. 7; it was left out")
        entry.take()
        return
    value, unit = amount(entry.at("value")), text(entry.at("unit"))
    if value is None:
        return
    per_kwh = factor_of(GRAMS_CO2_PER_KWH, unit) if isinstance(unit, str) else None
    whole = factor_of(GRAMS_CO2, unit) if isinstance(unit, str) else None
    factor = per_kwh or whole
    if factor is None:
        entry.at("unit").problem(
            f"is {named(unit)}, not a unit of footprints; known are `kg CO2 / kWh` and `kg CO2`, also in g or t"
        )
        return
    member = member_of(stage, per_kwh=per_kwh is not None)
    if member in held:
        entry.warning(f"is a second figure for {named(lifecycle)} of one plant; the first was read")
        return
    figure = fitted(entry.at("value"), times(value, factor), Dec(6 if per_kwh else 2))
    if figure is not None:
        held[member] = figure


FORMAT: Final = Format(
    name="a Catena-X BatteryPass",
    is_it=_is_it,
    kinds=always(*EVERY_KIND),
    elements=_elements,
    tables=(
        ("Battery", (*_BATTERY, *_SPARE_PARTS)),
        ("Component", _COMPONENT),
        ("PCF", _FOOTPRINT),
        ("DueDiligence", _DUE_DILIGENCE),
    ),
)
