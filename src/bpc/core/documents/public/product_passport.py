"""OpenEPCIS battery passports as EN 18223 shapes them: flat members with GS1 units and terms given as addresses.

Recognised by `digitalProductPassportId` or `uniqueProductIdentifier` beside parts of a passport. The SKU is `gtin`,
else the GTIN in the product's identifier. Figures of the footprint are per kWh if the functional unit is.
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.notes import quoted
from bpc.core.documents.public.conversions import (
    Converter,
    address,
    category,
    category_named,
    last_part,
    lower_name_at_the_end,
    measured,
    name_at_the_end,
    of_text,
    plain,
    status,
    text,
    two_letters,
    words,
)
from bpc.core.documents.public.footprints import member_of, warn_of_power, warn_of_sums
from bpc.core.documents.public.formats import EVERY_KIND, Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.measures import (
    AMPERE_HOURS,
    CELSIUS,
    GRAMS,
    KILOGRAMS,
    KILOWATT_HOURS,
    OHMS,
    VOLTS,
    WATTS,
    as_lower,
)
from bpc.core.documents.public.places import Place
from bpc.core.documents.public.tables import Row, components, listed, members, records
from bpc.core.documents.values import Given
from bpc.core.rules.types import TEXT, Type

_PARTS: Final = {
    "gtin",
    "technicalSpecifications",
    "carbonFootprintDeclaration",
    "materialComposition",
    "endOfLifeInfo",
    "batteryChemistry",
    "productName",
}


def _is_it(document: dict[str, Given]) -> bool:
    named = {"digitalProductPassportId", "uniqueProductIdentifier", "dppSchemaVersion"} & document.keys()
    return bool(named) and bool(_PARTS & document.keys())


_CLASSIFICATION: Final = "additionalProductClassification.additionalProductClassificationCode"


def _classified(place: Place, _: Type) -> Given:
    """The category by the product's classification, where it names one; published passports have a wrong `category`."""
    given = text(place)
    return category_named(given) if isinstance(given, str) else None


def _has_bms(given: str, _: Place) -> Given:
    return False if "without-bms" in given else None


def _at_80(place: Place, kind: Type) -> Given:
    for item in place.items():
        charge = item.at("stateOfChargeLevel").value
        if isinstance(item.value, dict) and getattr(charge, "text", charge) in ("80", "80.0"):
            return measured(WATTS)(item.at("powerCapability"), kind)
    return None


def _symbol(subject: str) -> Converter:
    """The picture of the label about this."""

    def convert(place: Place, kind: Type) -> Given:
        for item in place.items():
            given = item.at("labelSubject").value
            if isinstance(given, str) and last_part(given) == subject:
                return plain(item.at("labelSymbol"), kind)
        return None

    return convert


def _dismantling(document_type: str) -> Converter:
    """The address of the first document of this type."""

    def convert(place: Place, kind: Type) -> Given:
        for item in place.items():
            given = item.at("documentType").value
            if isinstance(given, str) and last_part(given) == document_type:
                return plain(item.at("documentUrl"), kind)
        return None

    return convert


def _critical(place: Place, _: Type) -> Given:
    """The materials that are marked as critical raw materials, by their name or their CAS number."""
    found = [
        _part(item)
        for item in place.items()
        if isinstance(item.value, dict) and item.at("isCriticalRawMaterial").value is True
    ]
    return list(dict.fromkeys(name for name in found if isinstance(name, str))) or None


def _part(place: Place) -> Given:
    return words(place.at("name"), TEXT) or text(place.at("casNumber")) or text(place.at("ecNumber"))


_SPECIFIED: Final = "technicalSpecifications"
_IDLE: Final = f"{_SPECIFIED}.temperatureRangeIdleState"

_BATTERY: Final = (
    Row("name", "productName", words),
    Row("model", "model", words),
    Row("passport_uri", "digitalProductPassportId"),
    Row("passport_uri", "uniqueProductIdentifier"),
    Row("granularity", "granularity"),
    Row("serial_number", "serialNumber"),
    Row("batch_number", "batchNumber"),
    Row("category", _CLASSIFICATION, _classified),
    Row("category", "category", category),
    Row("has_bms", _CLASSIFICATION, of_text(_has_bms)),
    Row("operator_id", "economicOperatorId"),
    Row("operator_id", "operatorInformation.gln"),
    Row("operator_name", "operatorInformation.organizationName", words),
    Row("operator_address", "operatorInformation.address", address),
    Row("manufacturer_id", "manufacturer.globalLocationNumber"),
    Row("manufacturer_name", "manufacturer.organizationName", words),
    Row("manufacturer_address", "manufacturer.address", address),
    Row("manufacturer_url", "manufacturer.url"),
    Row("manufacturer_email", "manufacturer.email"),
    Row("manufacturing_place", "manufacturingPlace.address", address),
    Row("manufacturing_country", "manufacturingPlace.address.countryCode", two_letters),
    Row("manufacturing_country", "countryOfOrigin.countryCode", two_letters),
    Row("facility_id", "manufacturingPlace.gln"),
    Row("manufactured_on", "manufacturingDate"),
    Row("put_into_service_on", "puttingIntoServiceDate"),
    Row("warranty_until_on", "warrantyExpiryDate"),
    Row("mass_kg", "netWeight", measured(KILOGRAMS)),
    Row("chemistry", "batteryChemistry.name", words),
    Row("cathode", "batteryChemistry.cathodeActiveMaterial"),
    Row("anode", "batteryChemistry.anodeActiveMaterial"),
    Row("electrolyte", "batteryChemistry.electrolyteType"),
    Row(
        "hazardous_substances",
        "hazardousSubstances",
        records(
            Row("name", "name", words),
            Row("cas_number", "substanceCasNumber"),
            Row("hazard_class", "hazardClass", name_at_the_end),
            Row("concentration_pct", "concentration"),
            Row("location", "substanceLocation", lower_name_at_the_end),
            Row("impact", "hazardImpact", words),
        ),
    ),
    Row("critical_raw_materials", "materialComposition", _critical),
    Row("extinguishing_agents", "endOfLifeInfo.extinguishingAgent"),
    *(
        Row(f"recycled_{metal}_{member}", f"recycledContent.{metal}{source}")
        for metal in ("cobalt", "lithium", "nickel", "lead")
        for member, source in (
            ("pct", "RecycledShare"),
            ("pre_pct", "PreConsumerShare"),
            ("post_pct", "PostConsumerShare"),
        )
    ),
    Row("renewable_content_pct", "endOfLifeInfo.renewableContent"),
    Row("capacity_kwh", f"{_SPECIFIED}.ratedEnergy", measured(KILOWATT_HOURS)),
    Row("rated_capacity_ah", f"{_SPECIFIED}.ratedCapacity", measured(AMPERE_HOURS)),
    Row("minimum_voltage_v", f"{_SPECIFIED}.minimumVoltage", measured(VOLTS)),
    Row("nominal_voltage_v", f"{_SPECIFIED}.nominalVoltage", measured(VOLTS)),
    Row("maximum_voltage_v", f"{_SPECIFIED}.maximumVoltage", measured(VOLTS)),
    Row("original_power_w", f"{_SPECIFIED}.originalPowerCapability", _at_80),
    Row(
        "original_power_by_charge",
        f"{_SPECIFIED}.originalPowerCapability",
        records(
            Row("state_of_charge_pct", "stateOfChargeLevel"),
            Row("power_w", "powerCapability", measured(WATTS)),
        ),
    ),
    Row("maximum_power_w", f"{_SPECIFIED}.ratedMaximumPower", measured(WATTS)),
    Row("power_to_energy_ratio", f"{_SPECIFIED}.powerCapabilityRatio"),
    Row("initial_round_trip_efficiency_pct", f"{_SPECIFIED}.roundTripEfficiency"),
    Row("half_life_round_trip_efficiency_pct", f"{_SPECIFIED}.roundTripEfficiencyAt50PercentCycleLife"),
    Row("initial_pack_resistance_ohm", f"{_SPECIFIED}.initialInternalResistance", measured(OHMS)),
    Row("initial_self_discharge_pct_per_month", f"{_SPECIFIED}.initialSelfDischarge"),
    Row("expected_cycles", f"{_SPECIFIED}.expectedCycleLife"),
    Row("expected_cycles_test", f"{_SPECIFIED}.lifetimeReferenceTest"),
    Row("cycle_test_c_rate", f"{_SPECIFIED}.cRateLifeCycleTest"),
    Row("expected_life_years", f"{_SPECIFIED}.expectedLifetimeYears"),
    Row("capacity_threshold_pct", f"{_SPECIFIED}.capacityThresholdForExhaustion"),
    Row("idle_temperature_min_degc", f"{_IDLE}.minimumTemperature", measured(CELSIUS)),
    Row("idle_temperature_max_degc", f"{_IDLE}.maximumTemperature", measured(CELSIUS)),
    Row("separate_collection_label_url", "separateCollectionSymbolUrl"),
    Row("separate_collection_label_url", "labels", _symbol("SeparateCollection")),
    Row("heavy_metal_label_url", "cadmiumLeadSymbolUrl"),
    Row(
        "labels",
        "labels",
        records(
            Row("subject", "labelSubject", name_at_the_end),
            Row("url", "labelSymbol"),
            Row("meaning", "labelMeaning", words),
        ),
    ),
    Row("declaration_of_conformity_id", "euDeclarationOfConformity.euDeclarationOfConformityId"),
    Row("declaration_of_conformity_url", "euDeclarationOfConformity.declarationOfConformity"),
    Row("waste_prevention_url", "endOfLifeInfo.wastePrevention"),
    Row("separate_collection_url", "endOfLifeInfo.separateCollection"),
    Row("collection_systems_url", "endOfLifeInfo.informationOnCollection"),
    Row("dismantling_url", "endOfLifeInfo.dismantlingInstructions"),
    Row("dismantling_url", "dismantlingDocuments", _dismantling("DismantlingManual")),
    Row("safety_measures_url", "endOfLifeInfo.safetyInstructions"),
    Row(
        "spare_part_sources",
        "sparePartSources",
        records(
            Row("name", "organizationName", words),
            Row("address", "address", address),
            Row("email", "supplierContact.email"),
            Row("url", "url"),
            Row("part_numbers", "spareParts", listed("partNumber")),
        ),
    ),
    Row("cell_count", "numberOfCells"),
    Row("test_report_urls", "resultOfTestReport"),
    Row("status", "status", status),
    Row("negative_events", "accidentInformationUrl", records(Row("report_url", ""))),
)

_COMPONENT: Final = (
    Row("material", "name", words),
    Row("cas_number", "casNumber"),
    Row("location", "componentLocation", lower_name_at_the_end),
    Row("mass_share_pct", "weightPercentage"),
    Row("critical", "isCriticalRawMaterial"),
    Row("hazardous", "isSubstanceOfConcern"),
    Row("active_material", "category", of_text(lambda given, _: last_part(given) == "ActiveMaterial")),
    Row("origin_country", "countryOfOrigin", two_letters),
    Row("renewable_pct", "renewableContentShare"),
)

_CLASS: Final = "CFClass"

_FOOTPRINT: Final = (
    Row("functional_unit", "functionalUnit"),
    Row("method", "calculationStandard"),
    Row("study_url", "carbonFootprintStudyUrl"),
    Row(
        "performance_class",
        "carbonFootprintPerformanceClass",
        of_text(lambda given, _: last_part(given).removeprefix(_CLASS)),
    ),
    Row("verified_by", "thirdPartyVerification.verificationBodyName"),
    Row("verified_on", "thirdPartyVerification.verificationDate"),
)

_STAGES: Final = (
    ("total", "carbonFootprintTotal"),
    ("raw_material", "carbonFootprintRawMaterialExtraction"),
    ("production", "carbonFootprintProduction"),
    ("distribution", "carbonFootprintDistribution"),
    ("end_of_life", "carbonFootprintRecycling"),
)

_DUE_DILIGENCE: Final = (
    Row("report_url", "dueDiligenceReportUrl"),
    Row("policy_url", "dueDiligencePolicyUrl"),
    Row("audited_on", "auditDate"),
    Row("scheme", "responsibleSourcingStandard", name_at_the_end),
)


def _elements(passport: Place) -> list[Element]:
    sku = sku_of(passport.at("gtin"), passport.at("uniqueProductIdentifier"), passport.at("digitalProductPassportId"))
    if sku is None:
        return []
    passport.at("uniqueProductIdentifier").take()
    battery = members("Battery", passport, _BATTERY)
    _warn_of_categories(passport)
    warn_of_power(passport.at(_SPECIFIED), battery)
    found = [Element("Battery", passport.path, {"sku": sku, **battery})]
    found += components(sku, passport.at("materialComposition").items(), _COMPONENT, _part)
    found += _footprint(sku, passport.at("carbonFootprintDeclaration"))
    diligence = passport.at("supplyChainDueDiligence")
    made = members("DueDiligence", diligence, _DUE_DILIGENCE)
    if made:
        operator = battery.get("operator_name")
        made |= {} if operator is None else {"operator": operator}
        found.append(Element("DueDiligence", diligence.path, {"sku": sku, **made}))
    return found


def _warn_of_categories(passport: Place) -> None:
    place = passport.at("category")
    own, classified = place.take(), passport.at(_CLASSIFICATION).value
    if not isinstance(own, str) or not isinstance(classified, str):
        return
    one, other = category_named(own), category_named(classified)
    if one is not None and other is not None and one != other:
        place.warning(f"says `{one}`, and the classification {quoted(classified)} says `{other}`, which was taken")


def _footprint(sku: str, place: Place) -> list[Element]:
    made = members("PCF", place, _FOOTPRINT)
    unit = made.get("functional_unit")
    per_kwh = isinstance(unit, str) and "kwh" in as_lower(unit)
    rows = [Row(member_of(stage, per_kwh=per_kwh), source, measured(GRAMS)) for stage, source in _STAGES]
    figures = members("PCF", place, rows)
    warn_of_sums(place, figures)
    return [Element("PCF", place.path, {"sku": sku, **made, **figures})] if figures else []


FORMAT: Final = Format(
    name="an OpenEPCIS battery passport (EN 18223)",
    is_it=_is_it,
    kinds=always(*EVERY_KIND),
    elements=_elements,
    tables=(("Battery", _BATTERY), ("Component", _COMPONENT), ("PCF", _FOOTPRINT), ("DueDiligence", _DUE_DILIGENCE)),
)
