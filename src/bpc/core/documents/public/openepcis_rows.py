"""OpenEPCIS battery passports: which value becomes which member.

The names are those that `linked_data` gives to terms. Vocabularies and forms differ in some: the rows of one member are
alternatives.
"""

from typing import Final

from bpc.core.documents.elements import NumberText, RawValue, parse_exact
from bpc.core.documents.public import DocumentNode, units
from bpc.core.documents.public.conversions import (
    get_last_part,
    map_text,
    parse_category,
    read_text,
    to_address,
    to_category,
    to_country_code,
    to_localized_text,
    to_lower_term,
    to_plain_value,
    to_status,
    to_term,
    to_unit,
)
from bpc.core.documents.public.mapping import METALS, MapRow, map_marked_names, map_records, map_texts, pick_by
from bpc.core.documents.public.sentences import split_list
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.language.types import INT, TEXT, Dec, Type

MASS_SHARES: Final = ("weightPercentage", "massPercentage")
CLASSIFICATION: Final = "additionalProductClassification.additionalProductClassificationCode"


def _to_classified_category(node: DocumentNode, _: Type) -> RawValue:
    """The category by the classification of the product: published passports have a wrong `category`."""
    classification = read_text(node)
    return parse_category(classification) if isinstance(classification, str) else None


def _map_has_bms(classification: str, _: DocumentNode) -> RawValue:
    return False if "without-bms" in classification else None


def _to_power_at_80(node: DocumentNode, kind: Type) -> RawValue:
    """The power at a state of charge of 80 %, or the only one that is stated without a state of charge."""
    if isinstance(node.value, dict) and "value" in node.value:
        return to_unit(units.WATTS)(node, kind)
    for item in node.items():
        charge = item.at("stateOfChargeLevel").value
        if isinstance(item.value, dict) and getattr(charge, "text", charge) in ("80", "80.0"):
            return to_unit(units.WATTS)(item.at("powerCapability"), kind)
    return None


def read_part_name(node: DocumentNode) -> RawValue:
    name = to_localized_text(node.at("name"), TEXT) or to_localized_text(node.at("documentTitle"), TEXT)
    return name or read_text(node.at("casNumber")) or read_text(node.at("ecNumber"))


def _to_critical_materials(node: DocumentNode, kind: Type) -> RawValue:
    """The names of critical raw materials, without those of which 0.1 % or less of the mass is stated."""
    traces = {item.path for item in node.items() if _is_at_most_a_trace(item)}

    def read_name(item: DocumentNode) -> RawValue:
        return None if item.path in traces else read_part_name(item)

    return map_marked_names("isCriticalRawMaterial", read_name)(node, kind)


def _is_at_most_a_trace(item: DocumentNode) -> bool:
    # Regulation (EU) 2023/1542, Annex VI, Part A, point 10: above 0.1 % by weight.
    weights = [item.value.get(name) for name in MASS_SHARES] if isinstance(item.value, dict) else []
    numbers = [parse_exact(weight.text) for weight in weights if isinstance(weight, NumberText)]
    return any(number is not None and number.count * 10 <= 10**number.scale for number in numbers)


def _to_power_limits(node: DocumentNode, _: Type) -> RawValue:
    """The power for charging and discharging, each with the temperatures it holds for."""
    limits: list[RawValue] = []
    for limit in ("Charging", "Discharging"):
        power = to_unit(units.WATTS)(node.at(f"maximum{limit}Power"), Dec(3))
        if power is not None:
            bounds = node.at(f"temperatureRange{limit}")
            temperatures = {
                f"temperature_{bound}_degc": to_unit(units.CELSIUS)(bounds.at(f"{name}Temperature"), Dec(2))
                for bound, name in (("min", "minimum"), ("max", "maximum"))
            }
            record = {"limit": lower_ascii(limit), "power_w": power, **temperatures}
            limits.append({member: value for member, value in record.items() if value is not None})
    return limits or None


def _to_cell_layout(node: DocumentNode, _: Type) -> RawValue:
    count, cell_type = to_plain_value(node.at("numberOfModules"), INT), to_term(node.at("cellType"), TEXT)
    modules = f"modules: {count.text}" if isinstance(count, NumberText) else None
    cells = f"cells: {cell_type}" if isinstance(cell_type, str) else None
    return ", ".join(part for part in (modules, cells) if part) or None


def _to_items(node: DocumentNode, _: Type) -> RawValue:
    """The items of a list that is written as one text."""
    text = to_localized_text(node, TEXT)
    return [*split_list(text)] if isinstance(text, str) else None


def _to_part_numbers(node: DocumentNode, kind: Type) -> RawValue:
    """Part numbers: a list of objects or of texts, or one text."""
    if any(isinstance(item.value, dict) and "partNumber" in item.value for item in node.items()):
        return map_texts("partNumber")(node, kind)
    is_list = isinstance(node.value, list) and all(isinstance(item.value, str) for item in node.items())
    return to_plain_value(node, kind) if is_list else _to_items(node, kind)


def _to_risks(node: DocumentNode, _: Type) -> RawValue:
    text = to_localized_text(node, TEXT)
    return [{"finding": text}] if text is not None else None


def _to_extinguishing_agents(node: DocumentNode, kind: Type) -> RawValue:
    if any(isinstance(item.value, dict) for item in node.items()):
        text = to_localized_text(node, TEXT)
        return [text] if text is not None else None
    return to_plain_value(node, kind)


def _is_energy(node: DocumentNode) -> bool:
    unit = node.at("unitCode").value if isinstance(node.value, dict) else None
    return isinstance(unit, str) and units.find_factor(units.KILOWATT_HOURS, unit) is not None


def _to_certified_share(node: DocumentNode, kind: Type) -> RawValue:
    return None if _is_energy(node) else to_unit(units.PER_CENT)(node, kind)


def _to_certified_energy(node: DocumentNode, kind: Type) -> RawValue:
    """The remaining energy, if a state of certified energy has a unit of energy: then it is not a share."""
    if not _is_energy(node):
        return None
    node.add_warning("has a state of certified energy with a unit of energy; it was read as the remaining energy")
    return to_unit(units.KILOWATT_HOURS)(node, kind)


def _to_remaining_power(node: DocumentNode, kind: Type) -> RawValue:
    has_charge = isinstance(node.value, dict) and "powerCapability" in node.value
    return to_unit(units.WATTS)(node.at("powerCapability") if has_charge else node, kind)


def _to_country(node: DocumentNode, kind: Type) -> RawValue:
    return to_country_code(node.at("countryCode") if isinstance(node.value, dict) else node, kind)


SPECIFICATIONS: Final = "technicalSpecifications"
_IDLE: Final = f"{SPECIFICATIONS}.temperatureRangeIdleState"
_STORAGE: Final = f"{SPECIFICATIONS}.temperatureRangeStorage"

BATTERY_ROWS: Final = (
    MapRow("name", "productName", to_localized_text),
    MapRow("model", "batteryModelIdentifier"),
    MapRow("model", "model", to_localized_text),
    MapRow("passport_uri", "digitalProductPassportId"),
    MapRow("passport_uri", "uniqueProductIdentifier"),
    MapRow("passport_uri", "batteryPassportIdentifier"),
    MapRow("passport_uri", "id"),
    MapRow("granularity", "granularity", to_lower_term),
    MapRow("granularity", "granularityLevel", to_lower_term),
    MapRow("serial_number", "serialNumber"),
    MapRow("batch_number", "batchNumber"),
    MapRow("category", CLASSIFICATION, _to_classified_category),
    MapRow("category", "category", to_category),
    MapRow("category", "batteryCategory", to_category),
    MapRow("has_bms", CLASSIFICATION, map_text(_map_has_bms)),
    MapRow("operator_id", "economicOperatorId"),
    MapRow("operator_id", "operatorIdentifier"),
    MapRow("operator_id", "operatorInformation.gln"),
    MapRow("operator_id", "operatorInformation.globalLocationNumber"),
    MapRow("operator_name", "operatorInformation.organizationName", to_localized_text),
    MapRow("operator_address", "operatorInformation.address", to_address),
    MapRow("manufacturer_id", "manufacturer.globalLocationNumber"),
    MapRow("manufacturer_name", "manufacturer.organizationName", to_localized_text),
    MapRow("manufacturer_address", "manufacturer.address", to_address),
    MapRow("manufacturer_id", "manufacturerIdentifier"),
    MapRow("manufacturer_url", "manufacturer.url"),
    MapRow("manufacturer_url", "manufacturer.contactPoint.url"),
    MapRow("manufacturer_email", "manufacturer.email"),
    MapRow("manufacturer_email", "manufacturer.contactPoint.email"),
    MapRow("manufacturing_place", "manufacturingPlace.address", to_address),
    MapRow("manufacturing_country", "manufacturingPlace.address.countryCode", to_country_code),
    MapRow("manufacturing_country", "manufacturingPlace.address.addressCountry.countryCode", to_country_code),
    MapRow("manufacturing_country", "countryOfOrigin.countryCode", to_country_code),
    MapRow("facility_id", "manufacturingPlace.gln"),
    MapRow("facility_id", "manufacturingPlace.globalLocationNumber"),
    MapRow("facility_id", "facilityIdentifier"),
    MapRow("manufactured_on", "manufacturingDate"),
    MapRow("manufactured_on", "productionDate"),
    MapRow("put_into_service_on", "puttingIntoServiceDate"),
    MapRow("put_into_service_on", "puttingIntoService"),
    MapRow("warranty_until_on", "warrantyExpiryDate"),
    MapRow("warranty_months", "manufacturersWarranty.durationOfWarranty", to_unit(units.MONTHS)),
    MapRow("mass_kg", "netWeight", to_unit(units.KILOGRAMS)),
    MapRow("mass_kg", "batteryMass", to_unit(units.KILOGRAMS)),
    MapRow("chemistry", "batteryChemistry.name", to_localized_text),
    MapRow("chemistry", "batteryChemistry.documentTitle", to_localized_text),
    MapRow("chemistry", "batteryChemistry.alternateName", to_localized_text),
    MapRow("cathode", "batteryChemistry.cathodeActiveMaterial", to_localized_text),
    MapRow("anode", "batteryChemistry.anodeActiveMaterial", to_localized_text),
    MapRow("electrolyte", "batteryChemistry.electrolyteType", to_localized_text),
    MapRow("electrolyte", "batteryChemistry.electrolyteComposition", to_localized_text),
    MapRow(
        "hazardous_substances",
        "hazardousSubstances",
        map_records(
            MapRow("name", "name", to_localized_text),
            MapRow("name", "documentTitle", to_localized_text),
            MapRow("cas_number", "substanceCasNumber"),
            MapRow("hazard_class", "hazardClass", to_term),
            MapRow("concentration_pct", "concentration"),
            MapRow("location", "substanceLocation", to_lower_term),
            MapRow("impact", "hazardImpact", to_localized_text),
        ),
    ),
    MapRow("critical_raw_materials", "materialComposition", _to_critical_materials),
    MapRow("critical_raw_materials", "criticalRawMaterialsStatement", _to_items),
    MapRow("extinguishing_agents", "endOfLifeInfo.extinguishingAgent", _to_extinguishing_agents),
    *(
        MapRow(f"recycled_{metal}_{member}", f"recycledContent.{metal}{source}")
        for metal in METALS
        for member, source in (
            ("pct", "RecycledShare"),
            ("pre_pct", "PreConsumerShare"),
            ("post_pct", "PostConsumerShare"),
        )
    ),
    MapRow("renewable_content_pct", "endOfLifeInfo.renewableContent"),
    MapRow("capacity_kwh", f"{SPECIFICATIONS}.ratedEnergy", to_unit(units.KILOWATT_HOURS)),
    MapRow("rated_capacity_ah", f"{SPECIFICATIONS}.ratedCapacity", to_unit(units.AMPERE_HOURS)),
    MapRow("minimum_voltage_v", f"{SPECIFICATIONS}.minimumVoltage", to_unit(units.VOLTS)),
    MapRow("nominal_voltage_v", f"{SPECIFICATIONS}.nominalVoltage", to_unit(units.VOLTS)),
    MapRow("maximum_voltage_v", f"{SPECIFICATIONS}.maximumVoltage", to_unit(units.VOLTS)),
    MapRow("original_power_w", f"{SPECIFICATIONS}.originalPowerCapability", _to_power_at_80),
    MapRow(
        "original_power_by_charge",
        f"{SPECIFICATIONS}.originalPowerCapability",
        map_records(
            MapRow("state_of_charge_pct", "stateOfChargeLevel"),
            MapRow("power_w", "powerCapability", to_unit(units.WATTS)),
        ),
    ),
    MapRow("maximum_power_w", f"{SPECIFICATIONS}.ratedMaximumPower", to_unit(units.WATTS)),
    MapRow("maximum_power_w", f"{SPECIFICATIONS}.maximumPermittedBatteryPower", to_unit(units.WATTS)),
    MapRow("power_limits", SPECIFICATIONS, _to_power_limits),
    MapRow("certified_energy_kwh", f"{SPECIFICATIONS}.certifiedUsableEnergy", to_unit(units.KILOWATT_HOURS)),
    MapRow("power_to_energy_ratio", f"{SPECIFICATIONS}.powerCapabilityRatio"),
    MapRow("initial_round_trip_efficiency_pct", f"{SPECIFICATIONS}.roundTripEfficiency"),
    MapRow("half_life_round_trip_efficiency_pct", f"{SPECIFICATIONS}.roundTripEfficiencyAt50PercentCycleLife"),
    MapRow("initial_pack_resistance_ohm", f"{SPECIFICATIONS}.initialInternalResistance", to_unit(units.OHMS)),
    MapRow("initial_self_discharge_pct_per_month", f"{SPECIFICATIONS}.initialSelfDischarge"),
    MapRow("expected_cycles", f"{SPECIFICATIONS}.expectedCycleLife"),
    MapRow("expected_cycles", f"{SPECIFICATIONS}.expectedNumberOfCycles"),
    MapRow("expected_cycles_test", f"{SPECIFICATIONS}.lifetimeReferenceTest"),
    MapRow("cycle_test_c_rate", f"{SPECIFICATIONS}.cRateLifeCycleTest"),
    MapRow("expected_life_years", f"{SPECIFICATIONS}.expectedLifetimeYears"),
    MapRow("capacity_threshold_pct", f"{SPECIFICATIONS}.capacityThresholdForExhaustion"),
    MapRow("idle_temperature_min_degc", f"{_IDLE}.minimumTemperature", to_unit(units.CELSIUS)),
    MapRow("idle_temperature_min_degc", f"{_STORAGE}.minimumTemperature", to_unit(units.CELSIUS)),
    MapRow("idle_temperature_max_degc", f"{_IDLE}.maximumTemperature", to_unit(units.CELSIUS)),
    MapRow("idle_temperature_max_degc", f"{_STORAGE}.maximumTemperature", to_unit(units.CELSIUS)),
    MapRow("separate_collection_label_url", "separateCollectionSymbolUrl"),
    MapRow("separate_collection_label_url", "labels", pick_by("labelSubject", "SeparateCollection", "labelSymbol")),
    MapRow("heavy_metal_label_url", "cadmiumLeadSymbolUrl"),
    MapRow(
        "labels",
        "labels",
        map_records(
            MapRow("subject", "labelSubject", to_term),
            MapRow("url", "labelSymbol"),
            MapRow("meaning", "labelMeaning", to_localized_text),
        ),
    ),
    MapRow("declaration_of_conformity_id", "euDeclarationOfConformity.euDeclarationOfConformityId"),
    MapRow("declaration_of_conformity_url", "euDeclarationOfConformity.declarationOfConformity"),
    MapRow("waste_prevention_url", "endOfLifeInfo.wastePrevention"),
    MapRow("separate_collection_url", "endOfLifeInfo.separateCollection"),
    MapRow("collection_systems_url", "endOfLifeInfo.informationOnCollection"),
    MapRow("dismantling_url", "endOfLifeInfo.dismantlingInstructions"),
    *(
        MapRow(member, "dismantlingDocuments", pick_by("documentType", document_type, "documentUrl"))
        for member, document_type in (
            ("dismantling_url", "DismantlingManual"),
            ("disassembly_sequence_url", "RemovalManual"),
            ("exploded_diagram_url", "Drawing"),
            ("exploded_diagram_url", "Model3D"),
        )
    ),
    MapRow("disassembly_warnings", "endOfLifeInfo.safetyInstructionsForDismantling"),
    MapRow("safety_measures_url", "endOfLifeInfo.safetyInstructions"),
    MapRow(
        "spare_part_sources",
        "sparePartSources",
        map_records(
            MapRow("name", "organizationName", to_localized_text),
            MapRow("address", "address", to_address),
            MapRow("email", "supplierContact.email"),
            MapRow("url", "url"),
            MapRow("url", "supplierContact.url"),
            MapRow("part_numbers", "spareParts", _to_part_numbers),
        ),
    ),
    MapRow("cell_count", "numberOfCells"),
    MapRow("cell_layout", "", _to_cell_layout),
    MapRow("test_report_urls", "resultOfTestReport"),
    MapRow("status", "status", to_status),
    MapRow("status", "batteryStatus", to_status),
    MapRow("capacity_fade_pct", "capacityFade", to_unit(units.PER_CENT)),
    MapRow("power_fade_pct", "powerFade", to_unit(units.PER_CENT)),
    MapRow("internal_resistance_ohm", "internalResistance", to_unit(units.OHMS)),
    MapRow("internal_resistance_increase_pct", "internalResistanceIncrease", to_unit(units.PER_CENT)),
    MapRow("round_trip_efficiency_pct", "remainingRoundTripEfficiency", to_unit(units.PER_CENT)),
    MapRow("round_trip_efficiency_fade_pct", "roundTripEfficiencyFade", to_unit(units.PER_CENT)),
    MapRow("state_of_certified_energy_pct", "stateOfCertifiedEnergy", _to_certified_share),
    MapRow("remaining_energy_kwh", "remainingEnergy", to_unit(units.KILOWATT_HOURS)),
    MapRow("remaining_energy_kwh", "remainingUsableEnergy", to_unit(units.KILOWATT_HOURS)),
    MapRow("remaining_energy_kwh", "stateOfCertifiedEnergy", _to_certified_energy),
    MapRow("remaining_capacity_ah", "remainingCapacity", to_unit(units.AMPERE_HOURS)),
    MapRow("remaining_power_w", "remainingPowerCapability", _to_remaining_power),
    MapRow("self_discharge_pct_per_month", "selfDischargeRate", to_unit(units.PER_CENT_A_MONTH)),
    MapRow("self_discharge_pct_per_month", "currentSelfDischargingRate", to_unit(units.PER_CENT_A_MONTH)),
    MapRow("self_discharge_evolution_pct", "evolutionOfSelfDischarge", to_unit(units.PER_CENT)),
    MapRow("full_cycles", "numberOfFullCycles", to_unit(units.CYCLES)),
    MapRow("full_cycles", "cycleCount", to_unit(units.CYCLES)),
    MapRow("energy_throughput_kwh", "energyThroughput", to_unit(units.KILOWATT_HOURS)),
    MapRow("capacity_throughput_ah", "capacityThroughput", to_unit(units.AMPERE_HOURS)),
    MapRow("state_of_charge_pct", "stateOfCharge", to_unit(units.PER_CENT)),
    MapRow("deep_discharge_events", "numberOfDeepDischargeEvents", to_unit(units.CYCLES)),
    MapRow("minutes_in_extreme_heat", "timeSpentInExtremeTemperaturesAboveBoundary"),
    MapRow("minutes_in_extreme_cold", "timeSpentInExtremeTemperaturesBelowBoundary"),
    MapRow("minutes_charging_in_extreme_heat", "timeSpentChargingDuringExtremeTemperaturesAboveBoundary"),
    MapRow("minutes_charging_in_extreme_cold", "timeSpentChargingDuringExtremeTemperaturesBelowBoundary"),
    MapRow("negative_events", "accidentInformationUrl", map_records(MapRow("report_url", ""))),
)

COMPONENT_ROWS: Final = (
    MapRow("material", "name", to_localized_text),
    MapRow("material", "documentTitle", to_localized_text),
    MapRow("cas_number", "casNumber"),
    MapRow("location", "componentLocation", to_lower_term),
    *(MapRow("mass_share_pct", name) for name in MASS_SHARES),
    MapRow("critical", "isCriticalRawMaterial"),
    MapRow("hazardous", "isSubstanceOfConcern"),
    MapRow("active_material", "category", map_text(lambda text, _: get_last_part(text) == "ActiveMaterial")),
    MapRow("active_material", "materialCategory", map_text(lambda text, _: get_last_part(text) == "ActiveMaterial")),
    MapRow("supplier", "materialSupplier", to_localized_text),
    MapRow("origin_country", "countryOfOrigin", _to_country),
    MapRow("origin_country", "materialOrigin", _to_country),
    MapRow("renewable_pct", "renewableContentShare"),
)

FOOTPRINT_ROWS: Final = (
    MapRow("functional_unit", "functionalUnit"),
    MapRow("method", "calculationStandard"),
    MapRow("study_url", "carbonFootprintStudyUrl"),
    MapRow(
        "performance_class",
        "carbonFootprintPerformanceClass",
        map_text(lambda text, _: get_last_part(text).removeprefix("CFClass")),
    ),
    MapRow("verified_by", "thirdPartyVerification.verificationBodyName"),
    MapRow("verified_on", "thirdPartyVerification.verificationDate"),
)

# What stands elsewhere in the passport and belongs to its footprint.
FOOTPRINT_CONTEXT_ROWS: Final = (
    MapRow(
        "service_life_energy_kwh",
        f"{SPECIFICATIONS}.expectedLifetimeEnergyThroughput",
        to_unit(units.KILOWATT_HOURS),
    ),
    MapRow("label_url", "labels", pick_by("labelSubject", "CarbonFootprintLabel", "labelSymbol")),
)

STAGE_SOURCES: Final = (
    ("total", "carbonFootprintTotal"),
    ("raw_material", "carbonFootprintRawMaterialExtraction"),
    ("production", "carbonFootprintProduction"),
    ("distribution", "carbonFootprintDistribution"),
    ("end_of_life", "carbonFootprintRecycling"),
)

DUE_DILIGENCE_ROWS: Final = (
    MapRow("report_url", "dueDiligenceReportUrl"),
    MapRow("policy_url", "dueDiligencePolicyUrl"),
    MapRow("audited_on", "auditDate"),
    MapRow("scheme", "responsibleSourcingStandard", to_term),
    MapRow("scheme", "thirdPartyAssurancesUrl"),
    MapRow("risks", "riskAssessmentSummary", _to_risks),
)
