"""Catena-X BatteryPass (6.1.0, also 6.0.0 and 5.0.0): a whole passport in one document.

Recognised by `specVersion` with `battery_pass`, or by the parts `identification`, `performance` and `materials`. The
SKU is the part number of the manufacturer. A date that does not exist is a problem, although the schema of the format
accepts it.
"""

from typing import Final

from bpc.core.documents.elements import FactElement, RawValue, describe_value
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    fit_decimals,
    read_amount,
    read_text,
    to_category,
    to_earliest_day,
    to_plain_value,
    to_share,
    to_status,
    to_unit,
)
from bpc.core.documents.public.mapping import METALS, MapRow, map_power_by_charge, map_records, map_texts, pick_by
from bpc.core.language.types import TEXT, Dec, Type

_NO_PREDECESSOR: Final = "00000000-0000-0000-0000-000000000000"


def _matches(document: dict[str, RawValue]) -> bool:
    version = document.get("specVersion")
    if isinstance(version, str) and "battery_pass" in version:
        return True
    return {"identification", "performance", "materials"} <= document.keys()


def to_document_url(node: DocumentNode, kind: Type) -> RawValue:
    """The URL of the first document of a list of `{contentType, header, content}`."""
    first = node.first()
    first.at("contentType").take()
    first.at("header").take()
    return to_plain_value(first.at("content"), kind)


def _to_predecessor(node: DocumentNode, kind: Type) -> RawValue:
    identifier = to_plain_value(
        node, kind
    )  # the format has no way to leave it out: "if there is none, input a dummy value"
    return None if isinstance(identifier, str) and identifier.endswith(_NO_PREDECESSOR) else identifier


def _to_document_number(node: DocumentNode, kind: Type) -> RawValue:
    """The number of a document. Version 5 has the document itself there, as it has in the next member."""
    return None if isinstance(node.value, list) else to_plain_value(node, kind)


def _to_warranty(node: DocumentNode, kind: Type) -> RawValue:
    unit = node.at("lifeUnit")
    if isinstance(unit.value, str) and units.find_factor(units.MONTHS, unit.value) is None:
        unit.take()
        node.at("lifeValue").take()
        node.add_warning(f"is in {describe_value(unit.value)}, which is not a whole number of months; it was left out")
        return None
    return to_unit(units.MONTHS, "lifeValue", "lifeUnit")(node, kind)


def _read_power(node: DocumentNode, charge: str) -> RawValue:
    return to_plain_value(node.at(f"at{charge}SoC"), Dec(3))


_SUBSTANCES: Final = ("active.other", "composition")
# Up to version 5 the name is in an object beside the identification.
_NAME_BEFORE_6: Final = {"id": "name", "materialIdentification": "materialName"}


def _to_critical_materials(node: DocumentNode, _: Type) -> RawValue:
    """The names of everything that is marked as a critical raw material."""
    metals = [(name, node.at(f"active.{metal}")) for metal, name in METALS.items()]
    others = [(None, item) for substance_path in _SUBSTANCES for item in node.at(substance_path).items()]
    names: dict[str, None] = {}
    for metal, item in (*metals, *others):
        if isinstance(item.value, dict) and item.at("critical").take() is True:
            name = metal or read_substance_name(item)
            if isinstance(name, str):
                names[name] = None
    return list(names) or None


def read_substance_name(node: DocumentNode) -> RawValue:
    """The name of a substance, from whichever of the two members has its identification."""
    for member in ("id", "materialIdentification"):
        if isinstance(node.value, dict) and node.value.get(member) is not None:
            return to_first_name(node.at(member), TEXT) or read_text(node.at(f"{_NAME_BEFORE_6[member]}.name"))
    return None


def to_first_name(node: DocumentNode, _: Type) -> RawValue:
    """The name of a substance that may be identified in several ways."""
    return next((name for item in node.items() if (name := read_text(item.at("name"))) is not None), None)


def to_cas_number(node: DocumentNode, kind: Type) -> RawValue:
    for item in node.items():
        if isinstance(item.value, dict) and item.at("type").take() == "CAS":
            return to_plain_value(item.at("id"), kind)
    return None


def _to_impact_url(node: DocumentNode, kind: Type) -> RawValue:
    """The first document about the impact of a substance."""
    impacts = (to_document_url(item.at("impactOfSubstances"), kind) for item in node.items() if item.value)
    return next((url for url in impacts if url is not None), None)


_CONCENTRATION: Final = to_share("concentration", "materialUnit")

_BATTERY_ROWS: Final = (
    MapRow("name", "identification.identification.type.nameAtManufacturer"),
    MapRow("model", "identification.identification.type.manufacturerPartId"),
    MapRow("serial_number", "identification.identification.serial", pick_by("key", "partInstanceId", "value")),
    MapRow("batch_number", "identification.identification.batch", pick_by("key", "batchId", "value")),
    MapRow("category", "identification.category", to_category),
    MapRow("chemistry", "identification.chemistry"),
    MapRow("passport_uri", "metadata.passportIdentifier"),
    MapRow("previous_passport_uri", "metadata.predecessor", _to_predecessor),
    MapRow("operator_id", "metadata.economicOperatorId"),
    MapRow("manufacturer_id", "operation.manufacturer.manufacturer"),
    MapRow("facility_id", "operation.manufacturer.facility.facility"),
    MapRow("manufactured_on", "operation.manufacturer.manufacturingDate"),
    MapRow("put_into_service_on", "operation.intoServiceDate"),
    MapRow("placed_on_market_on", "commercial.placedOnMarket"),
    MapRow("mass_kg", "characteristics.physicalDimension.weight", to_unit(units.KILOGRAMS, unit="unit")),
    MapRow("warranty_months", "characteristics.warranty", _to_warranty),
    MapRow("status", "sustainability.status", to_status),
    MapRow("waste_prevention_url", "sustainability.documents.wastePrevention", to_document_url),
    MapRow("separate_collection_url", "sustainability.documents.separateCollection", to_document_url),
    MapRow(
        "hazardous_substances",
        "materials.hazardous.other",
        map_records(
            MapRow("name", "materialIdentification", to_first_name),
            MapRow("name", "materialName.name"),
            MapRow("cas_number", "materialIdentification", to_cas_number),
            MapRow("concentration_pct", "", _CONCENTRATION),
            MapRow("location", "location"),
            MapRow("impact", "impactOfSubstances", to_document_url),
        ),
    ),
    MapRow("mercury_pct", "materials.hazardous.mercury", _CONCENTRATION),
    MapRow("cadmium_pct", "materials.hazardous.cadmium", _CONCENTRATION),
    MapRow("lead_pct", "materials.hazardous.lead", _CONCENTRATION),
    MapRow("critical_raw_materials", "materials", _to_critical_materials),
    MapRow("recycled_cobalt_pct", "materials.active.cobalt.recycled"),
    MapRow("recycled_lithium_pct", "materials.active.lithium.recycled"),
    MapRow("recycled_nickel_pct", "materials.active.nickel.recycled"),
    MapRow("recycled_lead_pct", "materials.active.lead.recycled"),
    MapRow("recycled_lead_pct", "materials.hazardous.lead.recycled"),
    MapRow("extinguishing_agents", "safety.usableExtinguishAgent", map_texts("media")),
    MapRow("capacity_kwh", "performance.rated.energy.value"),
    MapRow("rated_capacity_ah", "performance.rated.capacity.value"),
    MapRow("capacity_threshold_pct", "performance.rated.capacity.thresholdExhaustion"),
    MapRow("minimum_voltage_v", "performance.rated.voltage.min"),
    MapRow("nominal_voltage_v", "performance.rated.voltage.nominal"),
    MapRow("maximum_voltage_v", "performance.rated.voltage.max"),
    MapRow("voltage_temperature_min_degc", "performance.rated.voltage.temperature"),
    MapRow("voltage_temperature_max_degc", "performance.rated.voltage.temperature"),
    MapRow("original_power_w", "performance.rated.power.value"),
    MapRow("original_power_by_charge", "performance.rated.power", map_power_by_charge(_read_power)),
    MapRow("initial_round_trip_efficiency_pct", "performance.rated.roundTripEfficiency.initial"),
    MapRow("half_life_round_trip_efficiency_pct", "performance.rated.roundTripEfficiency.50PercentLife"),
    MapRow("initial_cell_resistance_ohm", "performance.rated.resistance.cell"),
    MapRow("initial_pack_resistance_ohm", "performance.rated.resistance.pack"),
    MapRow("initial_self_discharge_pct_per_month", "performance.rated.selfDischargingRate"),
    MapRow("expected_cycles", "performance.rated.lifetime.cycleLifeTesting.cycles"),
    MapRow("expected_cycles_test", "performance.rated.lifetime.report", to_document_url),
    MapRow("cycle_test_c_rate", "performance.rated.lifetime.cycleLifeTesting.appliedDischargeRate"),
    MapRow("expected_life_years", "performance.rated.lifetime.expectedYears"),
    MapRow("idle_temperature_min_degc", "performance.rated.temperature.lower"),
    MapRow("idle_temperature_max_degc", "performance.rated.temperature.upper"),
    MapRow("declaration_of_conformity_id", "conformity.declarationOfConformityId", _to_document_number),
    MapRow("declaration_of_conformity_url", "conformity.declarationOfConformity", to_document_url),
    MapRow("test_report_urls", "conformity.resultOfTestReport", map_texts("content")),
    MapRow("test_report_urls", "performance.rated.testReport", map_texts("content")),
    MapRow("dismantling_url", "safety.dismantling", to_document_url),
    MapRow("disassembly_sequence_url", "safety.removalFromAppliance", to_document_url),
    MapRow("substance_impact_url", "materials.hazardous.other", _to_impact_url),
    MapRow("safety_measures_url", "safety.safetyMeasures", to_document_url),
    MapRow("label_meaning_url", "safety.meaningOfLabels", to_document_url),
    MapRow("state_recorded_on", "performance.dynamic", to_earliest_day("time")),
    MapRow("capacity_fade_pct", "performance.dynamic.capacity.fade.value"),
    MapRow("remaining_capacity_ah", "performance.dynamic.capacity.capacity.value"),
    MapRow("capacity_throughput_ah", "performance.dynamic.capacity.throughput.value"),
    MapRow("remaining_power_w", "performance.dynamic.power.remaining.value"),
    MapRow("power_fade_pct", "performance.dynamic.power.fade.value"),
    MapRow("internal_resistance_ohm", "performance.dynamic.resistance.remaining.pack.value"),
    MapRow("internal_resistance_increase_pct", "performance.dynamic.resistance.increase.pack.value"),
    MapRow("round_trip_efficiency_pct", "performance.dynamic.roundTripEfficiency.remaining.value"),
    MapRow("round_trip_efficiency_fade_pct", "performance.dynamic.roundTripEfficiency.fade.value"),
    MapRow("state_of_certified_energy_pct", "performance.dynamic.energy.soce.value"),
    MapRow("remaining_energy_kwh", "performance.dynamic.energy.remaining.value"),
    MapRow("energy_throughput_kwh", "performance.dynamic.energy.throughput.value"),
    MapRow("self_discharge_pct_per_month", "performance.dynamic.selfDischargingRate"),
    MapRow("state_of_charge_pct", "performance.dynamic.stateOfCharge.value"),
    MapRow("full_cycles", "performance.dynamic.fullCycles.value"),
    MapRow(
        "negative_events",
        "performance.dynamic.negativeEvents",
        map_records(MapRow("event", "header"), MapRow("report_url", "content")),
    ),
)

_SPARE_PART_ROWS: Final = (MapRow("spare_part_sources", "producer", map_records(MapRow("name", "id"))),)

_COMPONENT_ROWS: Final = (
    MapRow("material", "id", to_first_name),
    MapRow("material", "name.name"),
    MapRow("cas_number", "id", to_cas_number),
    MapRow("location", "location"),
    MapRow("mass_share_pct", "", to_share("concentration", "unit")),
    MapRow("critical", "critical"),
    MapRow("renewable_pct", "renewable"),
)

_FOOTPRINT_ROWS: Final = (
    MapRow("performance_class", "performanceClass"),
    MapRow("method", "rulebook", to_document_url),
    MapRow("study_url", "declaration", to_document_url),
)

_DUE_DILIGENCE_ROWS: Final = (
    MapRow("operator", "metadata.economicOperatorId"),
    MapRow("policy_url", "conformity.dueDiligencePolicy", to_document_url),
    MapRow("scheme", "conformity.thirdPartyAssurance", to_document_url),
)

_ACTIVE_MATERIAL_ROWS: Final = (
    MapRow("material", "materialIdentification", to_first_name),
    MapRow("material", "materialName.name"),
    MapRow("cas_number", "materialIdentification", to_cas_number),
    MapRow("location", "location"),
    MapRow("critical", "critical"),
)


def _read_elements(passport: DocumentNode) -> list[FactElement]:
    sku = mapping.read_sku(passport.at("identification.identification.type.manufacturerPartId"))
    if sku is None:
        return []
    battery = mapping.map_members("Battery", passport, _BATTERY_ROWS) | _read_spare_parts(passport)
    mapping.warn_of_power(passport, battery)
    elements = [FactElement("Battery", passport.path, {"sku": sku, **battery})]
    elements += _read_components(sku, passport.at("materials"))
    elements += _read_footprints(sku, passport.at("sustainability.carbonFootprint"))
    diligence = mapping.map_members("DueDiligence", passport, _DUE_DILIGENCE_ROWS)
    if diligence.keys() & {"policy_url", "scheme"}:
        elements.append(FactElement("DueDiligence", passport.at("conformity").path, {"sku": sku, **diligence}))
    return elements + mapping.read_timed_states(sku, passport, _BATTERY_ROWS, battery, "time")


def _read_components(sku: str, materials: DocumentNode) -> list[FactElement]:
    """The composition, and the active materials that it does not have under the same name."""
    composition = mapping.map_components(sku, materials.at("composition").items(), _COMPONENT_ROWS, read_substance_name)
    names = {element.members.get("part") for element in composition}
    others = [
        item
        for item in materials.at("active.other").items()
        if isinstance(item.value, dict) and read_substance_name(item) not in names
    ]
    active = mapping.map_components(sku, others, _ACTIVE_MATERIAL_ROWS, read_substance_name)
    return composition + [
        FactElement(element.fact_type, element.path, {**element.members, "active_material": True}) for element in active
    ]


def _read_spare_parts(passport: DocumentNode) -> dict[str, RawValue]:
    """Producers and part numbers. The format does not say which of several producers makes which part."""
    handling = passport.at("handling")
    if handling.at("applicable").take() is False:
        return {}
    content = handling.at("content") if handling.at("content").value is not None else handling.at("spareParts")
    members = mapping.map_members("Battery", content, _SPARE_PART_ROWS)
    numbers = map_texts("manufacturerPartId")(content.at("sparePart"), TEXT)
    sources = members.get("spare_part_sources")
    source_records = sources if isinstance(sources, list) else []
    if numbers and len(source_records) == 1 and isinstance(source_records[0], dict):
        source_records[0]["part_numbers"] = numbers
    elif numbers:
        source_records = [*source_records, {"part_numbers": numbers}]
    return {"spare_part_sources": source_records} if source_records else {}


def _read_footprints(sku: str, node: DocumentNode) -> list[FactElement]:
    """One footprint for each plant: Art. 7 requires it for each model and manufacturing plant."""
    by_plant: dict[RawValue, FactElement] = {}
    for entry in node.items():
        plant = to_plain_value(entry.at("manufacturingPlant.facility"), TEXT)
        footprint = by_plant.setdefault(
            plant if isinstance(plant, str) else None, FactElement("PCF", entry.path, {"sku": sku})
        )
        _add_figure(entry, footprint.members)
        for member, value in mapping.map_members("PCF", entry, _FOOTPRINT_ROWS).items():
            footprint.members.setdefault(member, value)
        if plant is not None:
            footprint.members["facility"] = plant
    for element in by_plant.values():
        mapping.warn_of_sums(node, element.members)
    return [element for element in by_plant.values() if mapping.has_figures(element.members)]


def _add_figure(entry: DocumentNode, figures: dict[str, RawValue]) -> None:
    impact, lifecycle = read_text(entry.at("type")), read_text(entry.at("lifecycle"))
    stage = mapping.parse_stage(lifecycle) if isinstance(lifecycle, str) else "total"
    if impact not in (None, "Climate Change Total"):
        entry.add_warning(
            f"is about {describe_value(impact)}; facts hold `Climate Change Total` only, so it was left out"
        )
        entry.take()
        return
    if stage is None:
        entry.add_warning(f"is about {describe_value(lifecycle)}, which is not a stage of Art. 7; it was left out")
        entry.take()
        return
    value, unit = read_amount(entry.at("value")), read_text(entry.at("unit"))
    if value is None:
        return
    per_kwh = units.find_factor(units.GRAMS_CO2_PER_KWH, unit) if isinstance(unit, str) else None
    per_battery = units.find_factor(units.GRAMS_CO2, unit) if isinstance(unit, str) else None
    factor = per_kwh or per_battery
    if factor is None:
        entry.at("unit").add_problem(
            f"is {describe_value(unit)}, not a unit of footprints; use `kg CO2 / kWh` or `kg CO2`, also in g or t"
        )
        return
    member = mapping.name_stage_member(stage, per_kwh=per_kwh is not None)
    if member in figures:
        entry.add_warning(f"is a second figure for {describe_value(lifecycle)} of one plant; the first was read")
        return
    figure = fit_decimals(entry.at("value"), value * factor, Dec(6 if per_kwh else 2))
    if figure is not None:
        figures[member] = figure


FORMAT: Final = mapping.PublicFormat(
    name="a Catena-X BatteryPass",
    matches=_matches,
    list_kinds=mapping.serve_kinds(*mapping.ALL_KINDS),
    read_elements=_read_elements,
    tables=(
        ("Battery", (*_BATTERY_ROWS, *_SPARE_PART_ROWS)),
        ("Component", (*_COMPONENT_ROWS, *_ACTIVE_MATERIAL_ROWS)),
        ("PCF", _FOOTPRINT_ROWS),
        ("DueDiligence", _DUE_DILIGENCE_ROWS),
    ),
)
