"""OpenEPCIS battery passports in the form of EN 18223: flat members, GS1 units, terms as URLs.

Recognised by `digitalProductPassportId` or `uniqueProductIdentifier` beside parts of a passport. The SKU is `gtin`,
else the GTIN in the identifier of the product. The figures of the footprint are per kWh if the functional unit is.
"""

from typing import Final

from bpc.core.documents import quote_text
from bpc.core.documents.elements import FactElement, RawValue
from bpc.core.documents.public import DocumentNode, mapping, units
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
    to_status,
    to_term,
    to_unit,
)
from bpc.core.documents.public.mapping import METALS, MapRow, map_marked_names, map_records, map_texts, pick_by
from bpc.core.language.types import TEXT, Type

_PARTS: Final = {
    "gtin",
    "technicalSpecifications",
    "carbonFootprintDeclaration",
    "materialComposition",
    "endOfLifeInfo",
    "batteryChemistry",
    "productName",
}


def _matches(document: dict[str, RawValue]) -> bool:
    identifiers = {"digitalProductPassportId", "uniqueProductIdentifier", "dppSchemaVersion"} & document.keys()
    return bool(identifiers) and bool(_PARTS & document.keys())


_CLASSIFICATION: Final = "additionalProductClassification.additionalProductClassificationCode"


def _to_classified_category(node: DocumentNode, _: Type) -> RawValue:
    """The category by the classification of the product: published passports have a wrong `category`."""
    classification = read_text(node)
    return parse_category(classification) if isinstance(classification, str) else None


def _map_has_bms(classification: str, _: DocumentNode) -> RawValue:
    return False if "without-bms" in classification else None


def _to_power_at_80(node: DocumentNode, kind: Type) -> RawValue:
    for item in node.items():
        charge = item.at("stateOfChargeLevel").value
        if isinstance(item.value, dict) and getattr(charge, "text", charge) in ("80", "80.0"):
            return to_unit(units.WATTS)(item.at("powerCapability"), kind)
    return None


def _read_part_name(node: DocumentNode) -> RawValue:
    return to_localized_text(node.at("name"), TEXT) or read_text(node.at("casNumber")) or read_text(node.at("ecNumber"))


_SPECIFICATIONS: Final = "technicalSpecifications"
_IDLE: Final = f"{_SPECIFICATIONS}.temperatureRangeIdleState"

_BATTERY_ROWS: Final = (
    MapRow("name", "productName", to_localized_text),
    MapRow("model", "model", to_localized_text),
    MapRow("passport_uri", "digitalProductPassportId"),
    MapRow("passport_uri", "uniqueProductIdentifier"),
    MapRow("granularity", "granularity"),
    MapRow("serial_number", "serialNumber"),
    MapRow("batch_number", "batchNumber"),
    MapRow("category", _CLASSIFICATION, _to_classified_category),
    MapRow("category", "category", to_category),
    MapRow("has_bms", _CLASSIFICATION, map_text(_map_has_bms)),
    MapRow("operator_id", "economicOperatorId"),
    MapRow("operator_id", "operatorInformation.gln"),
    MapRow("operator_name", "operatorInformation.organizationName", to_localized_text),
    MapRow("operator_address", "operatorInformation.address", to_address),
    MapRow("manufacturer_id", "manufacturer.globalLocationNumber"),
    MapRow("manufacturer_name", "manufacturer.organizationName", to_localized_text),
    MapRow("manufacturer_address", "manufacturer.address", to_address),
    MapRow("manufacturer_url", "manufacturer.url"),
    MapRow("manufacturer_email", "manufacturer.email"),
    MapRow("manufacturing_place", "manufacturingPlace.address", to_address),
    MapRow("manufacturing_country", "manufacturingPlace.address.countryCode", to_country_code),
    MapRow("manufacturing_country", "countryOfOrigin.countryCode", to_country_code),
    MapRow("facility_id", "manufacturingPlace.gln"),
    MapRow("manufactured_on", "manufacturingDate"),
    MapRow("put_into_service_on", "puttingIntoServiceDate"),
    MapRow("warranty_until_on", "warrantyExpiryDate"),
    MapRow("mass_kg", "netWeight", to_unit(units.KILOGRAMS)),
    MapRow("chemistry", "batteryChemistry.name", to_localized_text),
    MapRow("cathode", "batteryChemistry.cathodeActiveMaterial"),
    MapRow("anode", "batteryChemistry.anodeActiveMaterial"),
    MapRow("electrolyte", "batteryChemistry.electrolyteType"),
    MapRow(
        "hazardous_substances",
        "hazardousSubstances",
        map_records(
            MapRow("name", "name", to_localized_text),
            MapRow("cas_number", "substanceCasNumber"),
            MapRow("hazard_class", "hazardClass", to_term),
            MapRow("concentration_pct", "concentration"),
            MapRow("location", "substanceLocation", to_lower_term),
            MapRow("impact", "hazardImpact", to_localized_text),
        ),
    ),
    MapRow("critical_raw_materials", "materialComposition", map_marked_names("isCriticalRawMaterial", _read_part_name)),
    MapRow("extinguishing_agents", "endOfLifeInfo.extinguishingAgent"),
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
    MapRow("capacity_kwh", f"{_SPECIFICATIONS}.ratedEnergy", to_unit(units.KILOWATT_HOURS)),
    MapRow("rated_capacity_ah", f"{_SPECIFICATIONS}.ratedCapacity", to_unit(units.AMPERE_HOURS)),
    MapRow("minimum_voltage_v", f"{_SPECIFICATIONS}.minimumVoltage", to_unit(units.VOLTS)),
    MapRow("nominal_voltage_v", f"{_SPECIFICATIONS}.nominalVoltage", to_unit(units.VOLTS)),
    MapRow("maximum_voltage_v", f"{_SPECIFICATIONS}.maximumVoltage", to_unit(units.VOLTS)),
    MapRow("original_power_w", f"{_SPECIFICATIONS}.originalPowerCapability", _to_power_at_80),
    MapRow(
        "original_power_by_charge",
        f"{_SPECIFICATIONS}.originalPowerCapability",
        map_records(
            MapRow("state_of_charge_pct", "stateOfChargeLevel"),
            MapRow("power_w", "powerCapability", to_unit(units.WATTS)),
        ),
    ),
    MapRow("maximum_power_w", f"{_SPECIFICATIONS}.ratedMaximumPower", to_unit(units.WATTS)),
    MapRow("power_to_energy_ratio", f"{_SPECIFICATIONS}.powerCapabilityRatio"),
    MapRow("initial_round_trip_efficiency_pct", f"{_SPECIFICATIONS}.roundTripEfficiency"),
    MapRow("half_life_round_trip_efficiency_pct", f"{_SPECIFICATIONS}.roundTripEfficiencyAt50PercentCycleLife"),
    MapRow("initial_pack_resistance_ohm", f"{_SPECIFICATIONS}.initialInternalResistance", to_unit(units.OHMS)),
    MapRow("initial_self_discharge_pct_per_month", f"{_SPECIFICATIONS}.initialSelfDischarge"),
    MapRow("expected_cycles", f"{_SPECIFICATIONS}.expectedCycleLife"),
    MapRow("expected_cycles_test", f"{_SPECIFICATIONS}.lifetimeReferenceTest"),
    MapRow("cycle_test_c_rate", f"{_SPECIFICATIONS}.cRateLifeCycleTest"),
    MapRow("expected_life_years", f"{_SPECIFICATIONS}.expectedLifetimeYears"),
    MapRow("capacity_threshold_pct", f"{_SPECIFICATIONS}.capacityThresholdForExhaustion"),
    MapRow("idle_temperature_min_degc", f"{_IDLE}.minimumTemperature", to_unit(units.CELSIUS)),
    MapRow("idle_temperature_max_degc", f"{_IDLE}.maximumTemperature", to_unit(units.CELSIUS)),
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
    MapRow("dismantling_url", "dismantlingDocuments", pick_by("documentType", "DismantlingManual", "documentUrl")),
    MapRow("safety_measures_url", "endOfLifeInfo.safetyInstructions"),
    MapRow(
        "spare_part_sources",
        "sparePartSources",
        map_records(
            MapRow("name", "organizationName", to_localized_text),
            MapRow("address", "address", to_address),
            MapRow("email", "supplierContact.email"),
            MapRow("url", "url"),
            MapRow("part_numbers", "spareParts", map_texts("partNumber")),
        ),
    ),
    MapRow("cell_count", "numberOfCells"),
    MapRow("test_report_urls", "resultOfTestReport"),
    MapRow("status", "status", to_status),
    MapRow("negative_events", "accidentInformationUrl", map_records(MapRow("report_url", ""))),
)

_COMPONENT_ROWS: Final = (
    MapRow("material", "name", to_localized_text),
    MapRow("cas_number", "casNumber"),
    MapRow("location", "componentLocation", to_lower_term),
    MapRow("mass_share_pct", "weightPercentage"),
    MapRow("critical", "isCriticalRawMaterial"),
    MapRow("hazardous", "isSubstanceOfConcern"),
    MapRow("active_material", "category", map_text(lambda text, _: get_last_part(text) == "ActiveMaterial")),
    MapRow("origin_country", "countryOfOrigin", to_country_code),
    MapRow("renewable_pct", "renewableContentShare"),
)

_FOOTPRINT_ROWS: Final = (
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

_STAGES: Final = (
    ("total", "carbonFootprintTotal"),
    ("raw_material", "carbonFootprintRawMaterialExtraction"),
    ("production", "carbonFootprintProduction"),
    ("distribution", "carbonFootprintDistribution"),
    ("end_of_life", "carbonFootprintRecycling"),
)

_DUE_DILIGENCE_ROWS: Final = (
    MapRow("report_url", "dueDiligenceReportUrl"),
    MapRow("policy_url", "dueDiligencePolicyUrl"),
    MapRow("audited_on", "auditDate"),
    MapRow("scheme", "responsibleSourcingStandard", to_term),
)


def _read_elements(passport: DocumentNode) -> list[FactElement]:
    sku = mapping.read_sku(
        passport.at("gtin"), passport.at("uniqueProductIdentifier"), passport.at("digitalProductPassportId")
    )
    if sku is None:
        return []
    passport.at("uniqueProductIdentifier").take()
    battery = mapping.map_members("Battery", passport, _BATTERY_ROWS)
    _warn_of_categories(passport)
    mapping.warn_of_power(passport.at(_SPECIFICATIONS), battery)
    elements = [FactElement("Battery", passport.path, {"sku": sku, **battery})]
    elements += mapping.map_components(
        sku, passport.at("materialComposition").items(), _COMPONENT_ROWS, _read_part_name
    )
    elements += _read_footprint(sku, passport.at("carbonFootprintDeclaration"))
    diligence = passport.at("supplyChainDueDiligence")
    diligence_members = mapping.map_members("DueDiligence", diligence, _DUE_DILIGENCE_ROWS)
    return elements + mapping.build_due_diligence(sku, diligence, diligence_members, battery.get("operator_name"))


def _warn_of_categories(passport: DocumentNode) -> None:
    node = passport.at("category")
    own, classified = node.take(), passport.at(_CLASSIFICATION).value
    if not isinstance(own, str) or not isinstance(classified, str):
        return
    own_category, classified_category = parse_category(own), parse_category(classified)
    if own_category is not None and classified_category is not None and own_category != classified_category:
        node.add_warning(
            f"is `{own_category}`, but the classification {quote_text(classified)} is `{classified_category}`;"
            " the classification was used"
        )


def _read_footprint(sku: str, node: DocumentNode) -> list[FactElement]:
    members = mapping.map_members("PCF", node, _FOOTPRINT_ROWS)
    unit = members.get("functional_unit")
    per_kwh = isinstance(unit, str) and "kwh" in units.lower_ascii(unit)
    rows = [
        MapRow(mapping.name_stage_member(stage, per_kwh=per_kwh), source, to_unit(units.GRAMS))
        for stage, source in _STAGES
    ]
    figures = mapping.map_members("PCF", node, rows)
    mapping.warn_of_sums(node, figures)
    return [FactElement("PCF", node.path, {"sku": sku, **members, **figures})] if figures else []


FORMAT: Final = mapping.PublicFormat(
    name="an OpenEPCIS battery passport (EN 18223)",
    matches=_matches,
    list_kinds=mapping.serve_kinds(*mapping.ALL_KINDS),
    read_elements=_read_elements,
    tables=(
        ("Battery", _BATTERY_ROWS),
        ("Component", _COMPONENT_ROWS),
        ("PCF", _FOOTPRINT_ROWS),
        ("DueDiligence", _DUE_DILIGENCE_ROWS),
    ),
)
