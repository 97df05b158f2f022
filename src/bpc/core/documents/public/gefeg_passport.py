"""BatteryPass-Ready passports in the form of GEFEG: one root, seven groups, quantities as a value and its unit.

Recognised by `IdentifiersAndProductData` in the only member of the document, whatever its name (`Battery_Passport`,
`EV`, `StationaryIndustrial2kWh` …). The SKU is `BatteryModelIdentifier`. Lists are sentences in this format: each
substance and each critical raw material is read by itself. Materials do not become components.
"""

from typing import Final

from bpc.core.documents.elements import FactElement, RawValue
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    to_category,
    to_status,
    to_warranty_end,
    to_warranty_months,
)
from bpc.core.documents.public.gefeg_conversions import (
    BOUNDS,
    IMPACT,
    LOCATIONS,
    pick_location,
    read_power,
    to_accidents,
    to_bound,
    to_chemistry,
    to_enumerated,
    to_hazards,
    to_items,
    to_label_meanings,
    to_power_limits,
    to_quantity,
    to_spare_parts,
    to_web_address,
)
from bpc.core.documents.public.mapping import METALS, MapRow, map_power_by_charge, map_records

_FIRST_GROUP: Final = "IdentifiersAndProductData"


def _matches(document: dict[str, RawValue]) -> bool:
    return (
        any(isinstance(part, dict) and _FIRST_GROUP in part for part in document.values()) or _FIRST_GROUP in document
    )


_MATERIALS_USED: Final = "MaterialsUsedInCathodeAnodeAndElectrolyte"
_MEANINGS: Final = "MeaningOfLabelsAndSymbols"
_DATA, _PERFORMANCE = "IdentifiersAndProductData", "PerformanceAndDurability"
_CIRCULAR, _MATERIALS = "CircularityAndResourceEfficiency", "BatteryMaterialsAndComposition"
_LABELS: Final = "SymbolsLabelsAndDocumentationOfConformity"
_CYCLES: Final = f"{_PERFORMANCE}.ExpectedLifetime-NumberOfCharge"

_BATTERY_ROWS: Final = (
    MapRow("model", f"{_DATA}.BatteryModelIdentifier"),
    MapRow("passport_uri", f"{_DATA}.UniqueBatteryPassportIdentifierUniqueDPPIdentifier"),
    MapRow("passport_uri", f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier"),
    MapRow("granularity", f"{_DATA}.DPPGranularity"),
    MapRow("serial_number", f"{_DATA}.BatterySerialNumber"),
    MapRow("operator_id", f"{_DATA}.UniqueEconomicOperatorIdentifier"),
    MapRow("operator_name", f"{_DATA}.EconomicOperatorInformation.name"),
    MapRow("operator_address", f"{_DATA}.EconomicOperatorInformation.postalAddress"),
    MapRow("manufacturer_id", f"{_DATA}.UniqueManufacturerIdentifier"),
    MapRow("manufacturer_name", f"{_DATA}.ManufacturerInformation.name"),
    MapRow("manufacturer_trade_mark", f"{_DATA}.ManufacturerInformation.registeredTradeNameOrRegisteredTrademark"),
    MapRow("manufacturer_address", f"{_DATA}.ManufacturerInformation.postalAddress"),
    MapRow("manufacturer_url", f"{_DATA}.ManufacturerInformation.webAddress"),
    MapRow("manufacturer_email", f"{_DATA}.ManufacturerInformation.emailAddress"),
    MapRow("manufacturer_email", f"{_DATA}.ManufacturerInformation.e-mailAddress"),
    MapRow("facility_id", f"{_DATA}.UniqueFacilityIdentifier"),
    MapRow("manufacturing_place", f"{_DATA}.ManufacturingPlace"),
    MapRow("manufactured_on", f"{_DATA}.ManufacturingDate"),
    MapRow("put_into_service_on", f"{_DATA}.DateOfPuttingTheBatteryIntoService"),
    MapRow("warranty_until_on", f"{_DATA}.WarrantyPeriodOfTheBattery", to_warranty_end),
    MapRow("warranty_months", f"{_DATA}.WarrantyPeriodOfTheBattery", to_warranty_months),
    MapRow("category", f"{_DATA}.BatteryCategory", to_enumerated("batteryCategoryValue", to_category)),
    MapRow("mass_kg", f"{_DATA}.BatteryMass", to_quantity(units.KILOGRAMS)),
    MapRow("status", f"{_DATA}.BatteryStatus", to_enumerated("batteryStatusValues", to_status)),
    MapRow("chemistry", f"{_MATERIALS}.BatteryChemistry", to_chemistry),
    MapRow("hazardous_substances", _MATERIALS, to_hazards),
    *(MapRow(location, f"{_MATERIALS}.{_MATERIALS_USED}", pick_location(location)) for location in LOCATIONS),
    MapRow("critical_raw_materials", f"{_MATERIALS}.CriticalRawMaterials", to_items),
    *(
        MapRow(
            f"recycled_{metal}_{when}_pct",
            f"{_CIRCULAR}.{prefix}-consumerRecycled{name}Share",
            to_quantity(units.PER_CENT),
        )
        for metal, name in METALS.items()
        for when, prefix in (("pre", "Pre"), ("post", "Post"))
    ),
    MapRow("recycled_lead_pct", f"{_CIRCULAR}.RecycledLeadShare", to_quantity(units.PER_CENT)),
    MapRow("renewable_content_pct", f"{_CIRCULAR}.RenewableContentShare", to_quantity(units.PER_CENT)),
    MapRow(
        "dismantling_url", f"{_CIRCULAR}.DismantlingInformation-ManualsForTheRemovalAndTheDisassemblyOfTheBatteryPack"
    ),
    MapRow("safety_measures_url", f"{_CIRCULAR}.SafetyMeasures"),
    MapRow("waste_prevention_url", f"{_CIRCULAR}.InformationOnTheRoleOfEnd-usersInContributingToWastePrevention"),
    MapRow(
        "separate_collection_url",
        f"{_CIRCULAR}.InformationOnTheRoleOfEnd-usersInContributingToTheSeparateCollectionOfWasteBatteries",
    ),
    MapRow(
        "collection_systems_url",
        f"{_CIRCULAR}.InformationOnBatteryCollectionPreparationForSecondLifeAndOnTreatmentAtEndOfLife",
    ),
    MapRow("substance_impact_url", f"{_MATERIALS}.{IMPACT}", to_web_address),
    MapRow("spare_part_sources", _CIRCULAR, to_spare_parts),
    MapRow("rated_capacity_ah", f"{_PERFORMANCE}.RatedCapacity", to_quantity(units.AMPERE_HOURS)),
    MapRow("minimum_voltage_v", f"{_PERFORMANCE}.MinimumVoltage", to_quantity(units.VOLTS)),
    MapRow("nominal_voltage_v", f"{_PERFORMANCE}.NominalVoltage", to_quantity(units.VOLTS)),
    MapRow("maximum_voltage_v", f"{_PERFORMANCE}.MaximumVoltage", to_quantity(units.VOLTS)),
    *(
        MapRow(f"voltage_temperature_{bound}_degc", f"{_PERFORMANCE}.{voltage}Voltage", to_bound(bound))
        for bound in BOUNDS
        for voltage in ("Nominal", "Minimum", "Maximum")
    ),
    *(
        MapRow("certified_energy_kwh", f"{_PERFORMANCE}.{name}", to_quantity(units.KILOWATT_HOURS))
        for name in ("CertifiedUsableBatteryEnergyUBE", "CertifiedUsableBatteryEnergy")
    ),
    MapRow("original_power_w", f"{_PERFORMANCE}.OriginalPowerCapability", to_quantity(units.WATTS, "At80SoC")),
    MapRow("original_power_by_charge", f"{_PERFORMANCE}.OriginalPowerCapability", map_power_by_charge(read_power)),
    MapRow("maximum_power_w", f"{_PERFORMANCE}.MaximumPermittedBatteryPower", to_quantity(units.WATTS)),
    MapRow("power_limits", f"{_PERFORMANCE}.MaximumPermittedBatteryPower", to_power_limits),
    MapRow(
        "power_to_energy_ratio",
        f"{_PERFORMANCE}.RatioBetweenNominalBatteryPowerAndBatteryEnergy",
        to_quantity(units.WATTS_PER_WATT_HOUR),
    ),
    MapRow(
        "initial_round_trip_efficiency_pct",
        f"{_PERFORMANCE}.InitialRoundTripEnergyEfficiency",
        to_quantity(units.PER_CENT),
    ),
    MapRow(
        "half_life_round_trip_efficiency_pct",
        f"{_PERFORMANCE}.RoundTripEnergyEfficiencyAt50OfCycleLife",
        to_quantity(units.PER_CENT),
    ),
    MapRow(
        "initial_pack_resistance_ohm",
        f"{_PERFORMANCE}.InitialInternalResistanceOfBatteryCellAndPackModuleRecommended",
        to_quantity(units.OHMS),
    ),
    MapRow(
        "initial_self_discharge_pct_per_month",
        f"{_PERFORMANCE}.InitialSelf-dischargeRate",
        to_quantity(units.PER_CENT_A_MONTH),
    ),
    MapRow("expected_cycles", f"{_CYCLES}-dischargeCycles"),
    MapRow("expected_cycles", f"{_CYCLES}OrDischargeCycles"),
    MapRow("expected_cycles_test", f"{_PERFORMANCE}.Cycle-lifeReferenceTest"),
    MapRow("cycle_test_c_rate", f"{_PERFORMANCE}.C-rateOfRelevantCycle-lifeTest", to_quantity(units.C_RATE)),
    MapRow("expected_life_years", f"{_PERFORMANCE}.ExpectedLifetimeInCalendarYears"),
    MapRow("capacity_threshold_pct", f"{_PERFORMANCE}.CapacityThresholdForExhaustion", to_quantity(units.PER_CENT)),
    MapRow(
        "idle_temperature_min_degc",
        f"{_PERFORMANCE}.TemperatureRangeIdleStateLowerBoundary",
        to_quantity(units.CELSIUS),
    ),
    MapRow(
        "idle_temperature_max_degc",
        f"{_PERFORMANCE}.TemperatureRangeIdleStateUpperBoundary",
        to_quantity(units.CELSIUS),
    ),
    MapRow("separate_collection_label_url", f"{_LABELS}.SeparateCollectionSymbol"),
    MapRow("heavy_metal_label_url", f"{_LABELS}.SymbolsForCadmiumAndLead"),
    MapRow("label_meaning_url", f"{_LABELS}.{_MEANINGS}", to_web_address),
    MapRow("labels", f"{_LABELS}.{_MEANINGS}", to_label_meanings),
    MapRow("declaration_of_conformity_url", f"{_LABELS}.EUDeclarationOfConformity"),
    MapRow("test_report_urls", f"{_LABELS}.ResultsOfTestReportsProvingCompliance"),
    MapRow("extinguishing_agents", f"{_LABELS}.ExtinguishingAgent.extinguishingAgent"),
    MapRow("capacity_fade_pct", f"{_PERFORMANCE}.CapacityFade", to_quantity(units.PER_CENT)),
    MapRow("power_fade_pct", f"{_PERFORMANCE}.PowerFade", to_quantity(units.PER_CENT)),
    MapRow("remaining_capacity_ah", f"{_PERFORMANCE}.RemainingCapacity", to_quantity(units.AMPERE_HOURS)),
    MapRow("remaining_power_w", f"{_PERFORMANCE}.RemainingPowerCapability", to_quantity(units.WATTS, "At80SoC")),
    *(
        MapRow("remaining_energy_kwh", f"{_PERFORMANCE}.{name}", to_quantity(units.KILOWATT_HOURS))
        for name in ("RemainingUsableBatteryEnergyUBE", "RemainingUsableBatteryEnergy")
    ),
    MapRow(
        "self_discharge_pct_per_month", f"{_PERFORMANCE}.CurrentSelf-dischargeRate", to_quantity(units.PER_CENT_A_MONTH)
    ),
    MapRow(
        "round_trip_efficiency_pct", f"{_PERFORMANCE}.RemainingRoundTripEnergyEfficiency", to_quantity(units.PER_CENT)
    ),
    MapRow(
        "round_trip_efficiency_fade_pct", f"{_PERFORMANCE}.EnergyRoundTripEfficiencyFade", to_quantity(units.PER_CENT)
    ),
    MapRow(
        "internal_resistance_increase_pct",
        f"{_PERFORMANCE}.InternalResistanceIncreaseOfPackCellAndModuleRecommended",
        to_quantity(units.PER_CENT),
    ),
    MapRow(
        "self_discharge_evolution_pct", f"{_PERFORMANCE}.EvolutionOfSelf-dischargeRates", to_quantity(units.PER_CENT)
    ),
    MapRow("state_of_certified_energy_pct", f"{_PERFORMANCE}.StateOfCertifiedEnergySOCE", to_quantity(units.PER_CENT)),
    MapRow("state_of_charge_pct", f"{_PERFORMANCE}.StateOfChargeSoC", to_quantity(units.PER_CENT)),
    MapRow("full_cycles", f"{_PERFORMANCE}.NumberOfFullChargingAndDischargingCycles"),
    MapRow("energy_throughput_kwh", f"{_PERFORMANCE}.EnergyThroughput", to_quantity(units.KILOWATT_HOURS)),
    MapRow("capacity_throughput_ah", f"{_PERFORMANCE}.CapacityThroughput", to_quantity(units.AMPERE_HOURS)),
    MapRow(
        "temperature_records",
        f"{_PERFORMANCE}.TemperatureInformation",
        map_records(MapRow("temperature_degc", "", to_quantity(units.CELSIUS))),
    ),
    MapRow("minutes_in_extreme_heat", f"{_PERFORMANCE}.TimeSpentInExtremeTemperaturesAboveBoundary"),
    MapRow("minutes_in_extreme_cold", f"{_PERFORMANCE}.TimeSpentInExtremeTemperaturesBelowBoundary"),
    MapRow(
        "minutes_charging_in_extreme_heat", f"{_PERFORMANCE}.TimeSpentChargingDuringExtremeTemperaturesAboveBoundary"
    ),
    MapRow(
        "minutes_charging_in_extreme_cold", f"{_PERFORMANCE}.TimeSpentChargingDuringExtremeTemperaturesBelowBoundary"
    ),
    MapRow("deep_discharge_events", f"{_PERFORMANCE}.NumberOfDeepDischargeEvents"),
    MapRow("overcharge_events", f"{_PERFORMANCE}.NumberOfOverchargeEvents"),
    MapRow("negative_events", f"{_PERFORMANCE}.InformationOnAccidents", to_accidents),
)

_CONTRIBUTION: Final = "BatteryCarbonFootprint.ContributionOf"
_PER_KWH: Final = to_quantity(units.GRAMS_CO2_PER_KWH)

_FOOTPRINT_ROWS: Final = (
    MapRow("gco2e_per_kwh", "BatteryCarbonFootprint.BatteryCarbonFootprintPerFunctionalUnit", _PER_KWH),
    MapRow("total_gco2e", "BatteryCarbonFootprint.AbsoluteBatteryCarbonFootprint", to_quantity(units.GRAMS_CO2)),
    MapRow(
        "raw_material_gco2e_per_kwh", f"{_CONTRIBUTION}RawMaterialAcquisitionAndPre-processingLifecycleStage", _PER_KWH
    ),
    MapRow("production_gco2e_per_kwh", f"{_CONTRIBUTION}MainProductProductionLifecycleStage", _PER_KWH),
    MapRow("distribution_gco2e_per_kwh", f"{_CONTRIBUTION}DistributionLifecycleStage", _PER_KWH),
    MapRow("end_of_life_gco2e_per_kwh", f"{_CONTRIBUTION}EndOfLifeAndRecyclingLifecycleStage", _PER_KWH),
    MapRow("performance_class", "BatteryCarbonFootprint.CarbonFootprintPerformanceClass"),
    MapRow("study_url", "BatteryCarbonFootprint.WebLinkToPublicCarbonFootprintStudy"),
    MapRow("label_url", f"{_LABELS}.CarbonFootprintLabel"),
)

_DUE_DILIGENCE_ROWS: Final = (
    MapRow("report_url", "SupplyChainDueDiligence.InformationOfDueDiligenceReport"),
    MapRow("scheme", "SupplyChainDueDiligence.ThirdPartyAssurancesOfRecognisedSchemes"),
)


def _read_elements(document: DocumentNode) -> list[FactElement]:
    passport = _find_root(document)
    sku = mapping.read_sku(
        passport.at(f"{_DATA}.BatteryModelIdentifier"),
        passport.at(f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier"),
        passport.at(f"{_DATA}.UniqueBatteryPassportIdentifierUniqueDPPIdentifier"),
    )
    if sku is None:
        return []
    passport.at(f"{_DATA}.UniqueBatteryIdentifierUniqueProductIdentifier").take()
    battery = mapping.map_members("Battery", passport, _BATTERY_ROWS)
    mapping.warn_of_power(passport.at(_PERFORMANCE), battery)
    elements = [FactElement("Battery", passport.path, {"sku": sku, **battery})]
    footprint = mapping.map_members("PCF", passport, _FOOTPRINT_ROWS)
    mapping.warn_of_sums(passport.at("BatteryCarbonFootprint"), footprint)
    if mapping.has_figures(footprint):
        elements.append(FactElement("PCF", passport.at("BatteryCarbonFootprint").path, {"sku": sku, **footprint}))
    diligence = mapping.map_members("DueDiligence", passport, _DUE_DILIGENCE_ROWS)
    operator = battery.get("operator_name")
    return elements + mapping.build_due_diligence(sku, passport.at("SupplyChainDueDiligence"), diligence, operator)


def _find_root(document: DocumentNode) -> DocumentNode:
    if not isinstance(document.value, dict) or _FIRST_GROUP in document.value:
        return document
    roots = [name for name, part in document.value.items() if isinstance(part, dict) and _FIRST_GROUP in part]
    if len(roots) > 1:
        document.add_warning(f"holds {len(roots)} passports; only `{roots[0]}` was read. Upload each one separately")
    return document.member(roots[0])


FORMAT: Final = mapping.PublicFormat(
    name="a BatteryPass-Ready passport (GEFEG)",
    matches=_matches,
    list_kinds=mapping.serve_kinds(*mapping.ALL_KINDS),
    read_elements=_read_elements,
    tables=(("Battery", _BATTERY_ROWS), ("PCF", _FOOTPRINT_ROWS), ("DueDiligence", _DUE_DILIGENCE_ROWS)),
)
