"""BatteryPass-Ready passports as GEFEG shapes them: one root, seven groups, quantities as a value and its unit.

Recognised by `IdentifiersAndProductData` in the only member of the document, whatever that is called
(`Battery_Passport`, `EV`, `StationaryIndustrial2kWh` …). The SKU is `BatteryModelIdentifier`. Materials are sentences
in this format: they are kept where a member takes a sentence, and are no components.
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import (
    Converter,
    amount,
    category,
    fitted,
    plain,
    status,
    text,
    unit_factor,
    warranty_end,
    warranty_months,
)
from bpc.core.documents.public.footprints import warn_of_power, warn_of_sums
from bpc.core.documents.public.formats import EVERY_KIND, Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.measures import (
    AMPERE_HOURS,
    C_RATE,
    CELSIUS,
    GRAMS_CO2_PER_KWH,
    KILOGRAMS,
    KILOWATT_HOURS,
    OHMS,
    PER_CENT,
    PER_CENT_A_MONTH,
    VOLTS,
    WATTS,
    Measure,
    times,
)
from bpc.core.documents.public.places import Place
from bpc.core.documents.public.tables import Row, members, records
from bpc.core.documents.values import Given
from bpc.core.rules.types import TEXT, Dec, Type

_FIRST_GROUP: Final = "IdentifiersAndProductData"


def _is_it(document: dict[str, Given]) -> bool:
    return (
        any(isinstance(part, dict) and _FIRST_GROUP in part for part in document.values()) or _FIRST_GROUP in document
    )


def _value(measure: Measure, suffix: str = "Value") -> Converter:
    """A quantity `{…Value, …}`: the names of both members tell the unit and differ between versions."""

    def convert(place: Place, kind: Type) -> Given:
        if not isinstance(place.value, dict):
            return plain(place, kind)
        values = [name for name in place.value if name.endswith(suffix)]
        units = [name for name, given in place.value.items() if isinstance(given, str) and "Value" not in name]
        if not values:
            return None
        found = amount(place.member(values[0]))
        factor = unit_factor(place.member(units[0] if units else "unit"), measure) if found is not None else None
        return fitted(place.member(values[0]), times(found, factor), kind) if found is not None and factor else None

    return convert


def _at_charge(place: Place, _: Type) -> Given:
    found: list[Given] = []
    for charge in ("20", "80"):
        power = _value(WATTS, f"At{charge}SoC")(place, Dec(3)) if isinstance(place.value, dict) else None
        if power is not None:
            found.append({"state_of_charge_pct": charge, "power_w": power})
    return found or None


def _enumerated(name: str, convert: Converter = plain) -> Converter:
    """A term, bare or as the only member of an object."""
    return lambda place, kind: convert(place.at(name) if isinstance(place.value, dict) else place, kind)


def _chemistry(place: Place, kind: Type) -> Given:
    if not isinstance(place.value, dict):
        return plain(place, kind)
    return plain(place.at("chemicalCodeValue"), kind) or plain(place.at("CustomChemicalCodes"), kind)


def _accidents(place: Place, _: Type) -> Given:
    given = text(place)
    if not isinstance(given, str):
        return None
    return [{"report_url" if "://" in given else "event": given}]


def _hazards(place: Place, _: Type) -> Given:
    name, impact = text(place.at("HazardousSubstances")), text(place.at(f"ImpactOf{_IMPACT}"))
    made: dict[str, Given] = {"name": name, "impact": impact}
    return [{member: given for member, given in made.items() if given is not None}] if name else None


_IMPACT: Final = "SubstancesOnEnvironmentHumanHealthSafetyPersons"
_DATA, _PERFORMANCE = "IdentifiersAndProductData", "PerformanceAndDurability"
_CIRCULAR, _MATERIALS = "CircularityAndResourceEfficiency", "BatteryMaterialsAndComposition"
_LABELS: Final = "SymbolsLabelsAndDocumentationOfConformity"
_CYCLES: Final = f"{_PERFORMANCE}.ExpectedLifetime-NumberOfCharge"

_BATTERY: Final = (
    Row("model", f"{_DATA}.BatteryModelIdentifier"),
    Row("passport_uri", f"{_DATA}.UniqueBatteryPassportIdentifierUniqueDPPIdentifier"),
    Row("passport_uri", f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier"),
    Row("granularity", f"{_DATA}.DPPGranularity"),
    Row("serial_number", f"{_DATA}.BatterySerialNumber"),
    Row("operator_id", f"{_DATA}.UniqueEconomicOperatorIdentifier"),
    Row("operator_name", f"{_DATA}.EconomicOperatorInformation.name"),
    Row("operator_address", f"{_DATA}.EconomicOperatorInformation.postalAddress"),
    Row("manufacturer_id", f"{_DATA}.UniqueManufacturerIdentifier"),
    Row("manufacturer_name", f"{_DATA}.ManufacturerInformation.name"),
    Row("manufacturer_trade_mark", f"{_DATA}.ManufacturerInformation.registeredTradeNameOrRegisteredTrademark"),
    Row("manufacturer_address", f"{_DATA}.ManufacturerInformation.postalAddress"),
    Row("manufacturer_url", f"{_DATA}.ManufacturerInformation.webAddress"),
    Row("manufacturer_email", f"{_DATA}.ManufacturerInformation.emailAddress"),
    Row("facility_id", f"{_DATA}.UniqueFacilityIdentifier"),
    Row("manufacturing_place", f"{_DATA}.ManufacturingPlace"),
    Row("manufactured_on", f"{_DATA}.ManufacturingDate"),
    Row("put_into_service_on", f"{_DATA}.DateOfPuttingTheBatteryIntoService"),
    Row("warranty_until_on", f"{_DATA}.WarrantyPeriodOfTheBattery", warranty_end),
    Row("warranty_months", f"{_DATA}.WarrantyPeriodOfTheBattery", warranty_months),
    Row("category", f"{_DATA}.BatteryCategory", _enumerated("batteryCategoryValue", category)),
    Row("mass_kg", f"{_DATA}.BatteryMass", _value(KILOGRAMS)),
    Row("status", f"{_DATA}.BatteryStatus", _enumerated("batteryStatusValues", status)),
    Row("chemistry", f"{_MATERIALS}.BatteryChemistry", _chemistry),
    Row("hazardous_substances", _MATERIALS, _hazards),
    Row("critical_raw_materials", f"{_MATERIALS}.CriticalRawMaterials"),
    *(
        Row(f"recycled_{member}_{when}_pct", f"{_CIRCULAR}.{source}-consumerRecycled{metal}Share", _value(PER_CENT))
        for metal, member in (("Cobalt", "cobalt"), ("Lithium", "lithium"), ("Nickel", "nickel"), ("Lead", "lead"))
        for source, when in (("Pre", "pre"), ("Post", "post"))
    ),
    Row("recycled_lead_pct", f"{_CIRCULAR}.RecycledLeadShare", _value(PER_CENT)),
    Row("renewable_content_pct", f"{_CIRCULAR}.RenewableContentShare", _value(PER_CENT)),
    Row(
        "dismantling_url",
        f"{_CIRCULAR}.DismantlingInformation-ManualsForTheRemovalAndTheDisassemblyOfTheBatteryPack",
    ),
    Row("safety_measures_url", f"{_CIRCULAR}.SafetyMeasures"),
    Row("waste_prevention_url", f"{_CIRCULAR}.InformationOnTheRoleOfEnd-usersInContributingToWastePrevention"),
    Row(
        "separate_collection_url",
        f"{_CIRCULAR}.InformationOnTheRoleOfEnd-usersInContributingToTheSeparateCollectionOfWasteBatteries",
    ),
    Row(
        "collection_systems_url",
        f"{_CIRCULAR}.InformationOnBatteryCollectionPreparationForSecondLifeAndOnTreatmentAtEndOfLife",
    ),
    Row("spare_part_sources", f"{_CIRCULAR}.InformationOnSourcesOfSpareParts", records(Row("url", ""))),
    Row("rated_capacity_ah", f"{_PERFORMANCE}.RatedCapacity", _value(AMPERE_HOURS)),
    Row("minimum_voltage_v", f"{_PERFORMANCE}.MinimumVoltage", _value(VOLTS)),
    Row("nominal_voltage_v", f"{_PERFORMANCE}.NominalVoltage", _value(VOLTS)),
    Row("maximum_voltage_v", f"{_PERFORMANCE}.MaximumVoltage", _value(VOLTS)),
    Row("certified_energy_kwh", f"{_PERFORMANCE}.CertifiedUsableBatteryEnergyUBE", _value(KILOWATT_HOURS)),
    Row("original_power_w", f"{_PERFORMANCE}.OriginalPowerCapability", _value(WATTS, "At80SoC")),
    Row("original_power_by_charge", f"{_PERFORMANCE}.OriginalPowerCapability", _at_charge),
    Row("maximum_power_w", f"{_PERFORMANCE}.MaximumPermittedBatteryPower", _value(WATTS)),
    Row("initial_round_trip_efficiency_pct", f"{_PERFORMANCE}.InitialRoundTripEnergyEfficiency", _value(PER_CENT)),
    Row(
        "half_life_round_trip_efficiency_pct",
        f"{_PERFORMANCE}.RoundTripEnergyEfficiencyAt50OfCycleLife",
        _value(PER_CENT),
    ),
    Row(
        "initial_pack_resistance_ohm",
        f"{_PERFORMANCE}.InitialInternalResistanceOfBatteryCellAndPackModuleRecommended",
        _value(OHMS),
    ),
    Row(
        "initial_self_discharge_pct_per_month",
        f"{_PERFORMANCE}.InitialSelf-dischargeRate",
        _value(PER_CENT_A_MONTH),
    ),
    Row("expected_cycles", f"{_CYCLES}-dischargeCycles"),
    Row("expected_cycles", f"{_CYCLES}OrDischargeCycles"),
    Row("expected_cycles_test", f"{_PERFORMANCE}.Cycle-lifeReferenceTest"),
    Row("cycle_test_c_rate", f"{_PERFORMANCE}.C-rateOfRelevantCycle-lifeTest", _value(C_RATE)),
    Row("expected_life_years", f"{_PERFORMANCE}.ExpectedLifetimeInCalendarYears"),
    Row("capacity_threshold_pct", f"{_PERFORMANCE}.CapacityThresholdForExhaustion", _value(PER_CENT)),
    Row("idle_temperature_min_degc", f"{_PERFORMANCE}.TemperatureRangeIdleStateLowerBoundary", _value(CELSIUS)),
    Row("idle_temperature_max_degc", f"{_PERFORMANCE}.TemperatureRangeIdleStateUpperBoundary", _value(CELSIUS)),
    Row("separate_collection_label_url", f"{_LABELS}.SeparateCollectionSymbol"),
    Row("heavy_metal_label_url", f"{_LABELS}.SymbolsForCadmiumAndLead"),
    Row("declaration_of_conformity_url", f"{_LABELS}.EUDeclarationOfConformity"),
    Row("test_report_urls", f"{_LABELS}.ResultsOfTestReportsProvingCompliance"),
    Row("extinguishing_agents", f"{_LABELS}.ExtinguishingAgent.extinguishingAgent"),
    Row("capacity_fade_pct", f"{_PERFORMANCE}.CapacityFade", _value(PER_CENT)),
    Row("power_fade_pct", f"{_PERFORMANCE}.PowerFade", _value(PER_CENT)),
    Row("remaining_capacity_ah", f"{_PERFORMANCE}.RemainingCapacity", _value(AMPERE_HOURS)),
    Row("remaining_power_w", f"{_PERFORMANCE}.RemainingPowerCapability", _value(WATTS, "At80SoC")),
    Row("remaining_energy_kwh", f"{_PERFORMANCE}.RemainingUsableBatteryEnergyUBE", _value(KILOWATT_HOURS)),
    Row("round_trip_efficiency_pct", f"{_PERFORMANCE}.RemainingRoundTripEnergyEfficiency", _value(PER_CENT)),
    Row("round_trip_efficiency_fade_pct", f"{_PERFORMANCE}.EnergyRoundTripEfficiencyFade", _value(PER_CENT)),
    Row(
        "internal_resistance_increase_pct",
        f"{_PERFORMANCE}.InternalResistanceIncreaseOfPackCellAndModuleRecommended",
        _value(PER_CENT),
    ),
    Row("self_discharge_evolution_pct", f"{_PERFORMANCE}.EvolutionOfSelf-dischargeRates", _value(PER_CENT)),
    Row("state_of_certified_energy_pct", f"{_PERFORMANCE}.StateOfCertifiedEnergySOCE", _value(PER_CENT)),
    Row("state_of_charge_pct", f"{_PERFORMANCE}.StateOfChargeSoC", _value(PER_CENT)),
    Row("full_cycles", f"{_PERFORMANCE}.NumberOfFullChargingAndDischargingCycles"),
    Row("energy_throughput_kwh", f"{_PERFORMANCE}.EnergyThroughput", _value(KILOWATT_HOURS)),
    Row("capacity_throughput_ah", f"{_PERFORMANCE}.CapacityThroughput", _value(AMPERE_HOURS)),
    Row(
        "temperature_records",
        f"{_PERFORMANCE}.TemperatureInformation",
        records(Row("temperature_degc", "", _value(CELSIUS))),
    ),
    Row("minutes_in_extreme_heat", f"{_PERFORMANCE}.TimeSpentInExtremeTemperaturesAboveBoundary"),
    Row("minutes_in_extreme_cold", f"{_PERFORMANCE}.TimeSpentInExtremeTemperaturesBelowBoundary"),
    Row(
        "minutes_charging_in_extreme_heat",
        f"{_PERFORMANCE}.TimeSpentChargingDuringExtremeTemperaturesAboveBoundary",
    ),
    Row(
        "minutes_charging_in_extreme_cold",
        f"{_PERFORMANCE}.TimeSpentChargingDuringExtremeTemperaturesBelowBoundary",
    ),
    Row("deep_discharge_events", f"{_PERFORMANCE}.NumberOfDeepDischargeEvents"),
    Row("overcharge_events", f"{_PERFORMANCE}.NumberOfOverchargeEvents"),
    Row("negative_events", f"{_PERFORMANCE}.InformationOnAccidents", _accidents),
)

_CONTRIBUTION: Final = "BatteryCarbonFootprint.ContributionOf"
_PER_KWH: Final = _value(GRAMS_CO2_PER_KWH)

_FOOTPRINT: Final = (
    Row("gco2e_per_kwh", "BatteryCarbonFootprint.BatteryCarbonFootprintPerFunctionalUnit", _PER_KWH),
    Row(
        "raw_material_gco2e_per_kwh",
        f"{_CONTRIBUTION}RawMaterialAcquisitionAndPre-processingLifecycleStage",
        _PER_KWH,
    ),
    Row("production_gco2e_per_kwh", f"{_CONTRIBUTION}MainProductProductionLifecycleStage", _PER_KWH),
    Row("distribution_gco2e_per_kwh", f"{_CONTRIBUTION}DistributionLifecycleStage", _PER_KWH),
    Row("end_of_life_gco2e_per_kwh", f"{_CONTRIBUTION}EndOfLifeAndRecyclingLifecycleStage", _PER_KWH),
    Row("performance_class", "BatteryCarbonFootprint.CarbonFootprintPerformanceClass"),
    Row("study_url", "BatteryCarbonFootprint.WebLinkToPublicCarbonFootprintStudy"),
    Row("label_url", f"{_LABELS}.CarbonFootprintLabel"),
)

_DUE_DILIGENCE: Final = (
    Row("report_url", "SupplyChainDueDiligence.InformationOfDueDiligenceReport"),
    Row("scheme", "SupplyChainDueDiligence.ThirdPartyAssurancesOfRecognisedSchemes"),
)


def _elements(document: Place) -> list[Element]:
    passport = _root(document)
    sku = sku_of(
        passport.at(f"{_DATA}.BatteryModelIdentifier"),
        passport.at(f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier"),
        passport.at(f"{_DATA}.UniqueBatteryPassportIdentifierUniqueDPPIdentifier"),
    )
    if sku is None:
        return []
    passport.at(f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier").take()
    battery = members("Battery", passport, _BATTERY)
    warn_of_power(passport.at(_PERFORMANCE), battery)
    found = [Element("Battery", passport.path, {"sku": sku, **battery})]
    footprint = members("PCF", passport, _FOOTPRINT)
    warn_of_sums(passport.at("BatteryCarbonFootprint"), footprint)
    if any("gco2e" in member for member in footprint):
        found.append(Element("PCF", passport.at("BatteryCarbonFootprint").path, {"sku": sku, **footprint}))
    diligence = members("DueDiligence", passport, _DUE_DILIGENCE)
    if diligence:
        operator = plain(passport.at(f"{_DATA}.EconomicOperatorInformation.name"), TEXT)
        diligence |= {} if operator is None else {"operator": operator}
        found.append(Element("DueDiligence", passport.at("SupplyChainDueDiligence").path, {"sku": sku, **diligence}))
    return found


def _root(document: Place) -> Place:
    if not isinstance(document.value, dict) or _FIRST_GROUP in document.value:
        return document
    roots = [name for name, part in document.value.items() if isinstance(part, dict) and _FIRST_GROUP in part]
    if len(roots) > 1:
        document.warning(f"holds {len(roots)} passports, and only `{roots[0]}` was read; upload each alone")
    return document.member(roots[0])


FORMAT: Final = Format(
    name="a BatteryPass-Ready passport (GEFEG)",
    is_it=_is_it,
    kinds=always(*EVERY_KIND),
    elements=_elements,
    tables=(("Battery", _BATTERY), ("PCF", _FOOTPRINT), ("DueDiligence", _DUE_DILIGENCE)),
)
