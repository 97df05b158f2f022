"""BatteryPassDataModel aspects 1.2.x: seven small documents, each a part of one passport.

An aspect is recognised by its own members, at the top of the document or one level below; a document may hold several.
The SKU is `productIdentifier`. Only GeneralProductInformation has it; another aspect alone becomes a fact only if its
sender adds this member.

Where the tables of units contradict the descriptions of the model, the descriptions are followed: a power capability is
in kW (table: percent), a remaining capacity in Ah (table: kWh).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bpc.core.documents.elements import FactElement, RawValue, describe_value
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    read_text,
    to_address,
    to_category,
    to_country_code,
    to_earliest_day,
    to_localized_text,
    to_number,
    to_status,
    to_thousandfold,
    to_unit,
    to_warranty_end,
    to_warranty_months,
)
from bpc.core.documents.public.mapping import (
    METALS,
    MapRow,
    join_texts,
    map_marked_names,
    map_records,
    map_texts,
    pick_by,
)
from bpc.core.language.types import Dec, Type


class Aspect(NamedTuple):
    """An aspect, its kind of document, and its own members: one decisive member or two hints identify it."""

    name: str
    kind: str
    decisive_members: str
    hint_members: str = ""

    def matches(self, part: Mapping[str, RawValue]) -> bool:
        is_certain = not part.keys().isdisjoint(self.decisive_members.split())
        return is_certain or len(part.keys() & set(self.hint_members.split())) > 1


GENERAL: Final = Aspect(
    "GeneralProductInformation",
    "BOM",
    "batteryPassportIdentifier puttingIntoService warrentyPeriod",
    "productIdentifier batteryCategory manufacturerInformation manufacturingDate batteryStatus batteryMass"
    " manufacturingPlace operatorInformation",
)
FOOTPRINT: Final = Aspect(
    "CarbonFootprintForBatteries",
    "PCF",
    "batteryCarbonFootprint carbonFootprintPerLifecycleStage absoluteCarbonFootprint",
    "carbonFootprintPerformanceClass carbonFootprintStudy",
)
MATERIALS: Final = Aspect("MaterialComposition", "BOM", "batteryMaterials", "batteryChemistry hazardousSubstances")
CIRCULARITY: Final = Aspect(
    "Circularity",
    "BOM",
    "dismantlingAndRemovalInformation endOfLifeInformation",
    "sparePartSources recycledContent safetyMeasures renewableContent",
)
LABELING: Final = Aspect("Labeling", "BOM", "declarationOfConformity", "resultOfTestReport labels")
PERFORMANCE: Final = Aspect(
    "PerformanceAndDurability", "BOM", "batteryTechicalProperties batteryTechnicalProperties batteryCondition"
)
DILIGENCE: Final = Aspect(
    "SupplyChainDueDiligence",
    "DUE_DILIGENCE",
    "supplyChainDueDiligenceReport thirdPartyAussurances supplyChainIndicies",
)
ASPECTS: Final = (GENERAL, FOOTPRINT, MATERIALS, CIRCULARITY, LABELING, PERFORMANCE, DILIGENCE)


def _find_aspects(document: Mapping[str, RawValue]) -> list[tuple[Aspect, str | None]]:
    """The aspects of a document, each with the member that holds it; None if the document itself is the aspect."""
    top = [aspect for aspect in ASPECTS if aspect.matches(document)]
    if top:
        return [(aspect, None) for aspect in top]
    parts = [(name, part) for name, part in document.items() if name and isinstance(part, dict)]
    return [(aspect, name) for name, part in parts for aspect in ASPECTS if aspect.matches(part)]


def _list_kinds(document: Mapping[str, RawValue]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(aspect.kind for aspect, _ in _find_aspects(document)))


def _read_material_name(node: DocumentNode) -> RawValue:
    return read_text(node.at("batteryMaterialName")) or read_text(node.at("batteryMaterialIdentifier"))


def _to_power(node: DocumentNode, kind: Type) -> RawValue:
    value = to_thousandfold(node, kind)
    if value is not None:
        node.add_warning("was read in kW, like the other powers of the model; its table of units says percent")
    return value


def _to_remaining_capacity(node: DocumentNode, kind: Type) -> RawValue:
    value = to_number(node, kind)
    if value is not None:
        node.add_warning("was read in Ah, as the model describes it; its table of units says kWh")
    return value


def _build_contact_rows(prefix: str, source: str) -> tuple[MapRow, ...]:
    return (
        MapRow(f"{prefix}_id", f"{source}.identifier"),
        MapRow(f"{prefix}_name", f"{source}.contactName"),
        MapRow(f"{prefix}_address", f"{source}.postalAddress", to_address),
    )


_BATTERY_ROWS: Final[Mapping[str, tuple[MapRow, ...]]] = {
    GENERAL.name: (
        MapRow("model", "productIdentifier"),
        MapRow("passport_uri", "batteryPassportIdentifier"),
        MapRow("category", "batteryCategory", to_category),
        *_build_contact_rows("manufacturer", "manufacturerInformation"),
        MapRow("manufacturer_email", "manufacturerInformation.emailAddress"),
        MapRow("manufacturer_url", "manufacturerInformation.webAddress"),
        *_build_contact_rows("operator", "operatorInformation"),
        MapRow("manufactured_on", "manufacturingDate"),
        MapRow("put_into_service_on", "puttingIntoService"),
        MapRow("warranty_until_on", "warrentyPeriod", to_warranty_end),
        MapRow("warranty_months", "warrentyPeriod", to_warranty_months),
        MapRow("status", "batteryStatus", to_status),
        MapRow("mass_kg", "batteryMass", to_unit(units.KILOGRAMS)),
        MapRow("manufacturing_place", "manufacturingPlace", to_address),
        MapRow("manufacturing_country", "manufacturingPlace.addressCountry", to_country_code),
    ),
    MATERIALS.name: (
        MapRow("chemistry", "batteryChemistry.shortName"),
        MapRow("chemistry", "batteryChemistry.clearName"),
        MapRow(
            "hazardous_substances",
            "hazardousSubstances",
            map_records(
                MapRow("name", "hazardousSubstanceName"),
                MapRow("cas_number", "hazardousSubstanceIdentifier"),
                MapRow("hazard_class", "hazardousSubstanceClass"),
                MapRow("concentration_pct", "hazardousSubstanceConcentration"),
                MapRow("location", "hazardousSubstanceLocation.componentName"),
                MapRow("impact", "hazardousSubstanceImpact", join_texts()),
            ),
        ),
        MapRow(
            "critical_raw_materials", "batteryMaterials", map_marked_names("isCriticalRawMaterial", _read_material_name)
        ),
    ),
    CIRCULARITY.name: (
        *(
            MapRow(member, "dismantlingAndRemovalInformation", pick_by("documentType", document_type, "documentURL"))
            for member, document_type in (
                ("dismantling_url", "DismantlingManual"),
                ("dismantling_url", "RemovalManual"),
                ("disassembly_sequence_url", "RemovalManual"),
                ("exploded_diagram_url", "Drawing"),
                ("exploded_diagram_url", "Model3D"),
            )
        ),
        MapRow(
            "spare_part_sources",
            "sparePartSources",
            map_records(
                MapRow("name", "nameOfSupplier"),
                MapRow("address", "addressOfSupplier", to_address),
                MapRow("email", "emailAddressOfSupplier"),
                MapRow("url", "supplierWebAddress"),
                MapRow("part_numbers", "components", map_texts("partNumber")),
            ),
        ),
        *(
            MapRow(
                f"recycled_{metal}_{when}_pct",
                "recycledContent",
                pick_by("recycledMaterial", name, f"{when}ConsumerShare"),
            )
            for metal, name in METALS.items()
            for when in ("pre", "post")
        ),
        MapRow("safety_measures_url", "safetyMeasures.safetyInstructions"),
        MapRow("extinguishing_agents", "safetyMeasures.extinguishingAgent"),
        MapRow("waste_prevention_url", "endOfLifeInformation.wastePrevention"),
        MapRow("separate_collection_url", "endOfLifeInformation.separateCollection"),
        MapRow("collection_systems_url", "endOfLifeInformation.informationOnCollection"),
        MapRow("renewable_content_pct", "renewableContent"),
    ),
    LABELING.name: (
        MapRow("declaration_of_conformity_url", "declarationOfConformity"),
        MapRow("test_report_urls", "resultOfTestReport"),
        *(
            MapRow(f"{member}_label_url", "labels", pick_by("labelingSubject", subject, "labelingSymbol"))
            for member, subject in (("separate_collection", "SeparateCollection"), ("heavy_metal", "HazardousMaterial"))
        ),
        MapRow(
            "labels",
            "labels",
            map_records(
                MapRow("subject", "labelingSubject"),
                MapRow("url", "labelingSymbol"),
                MapRow("meaning", "labelingMeaning", to_localized_text),
            ),
        ),
    ),
}

_TECHNICAL_ROWS: Final = (
    MapRow(
        "original_power_by_charge",
        "originalPowerCapability",
        map_records(MapRow("state_of_charge_pct", "atSoC"), MapRow("power_w", "powerCapabilityAt", _to_power)),
    ),
    MapRow("maximum_power_w", "ratedMaximumPower", to_thousandfold),
    MapRow("capacity_kwh", "ratedEnergy"),
    MapRow("expected_cycles", "expectedNumberOfCycles"),
    MapRow("initial_self_discharge_pct_per_month", "initialSelfDischarge"),
    MapRow("initial_round_trip_efficiency_pct", "roundtripEfficiency"),
    MapRow("rated_capacity_ah", "ratedCapacity"),
    *(
        MapRow(
            f"initial_{part}_resistance_ohm",
            "initialInternalResistance",
            pick_by("batteryComponent", part, "ohmicResistance"),
        )
        for part in ("cell", "pack")
    ),
    MapRow("expected_life_years", "expectedLifetime"),
    MapRow("nominal_voltage_v", "nominalVoltage"),
    MapRow("minimum_voltage_v", "minimumVoltage"),
    MapRow("maximum_voltage_v", "maximumVoltage"),
    MapRow("capacity_threshold_pct", "capacityThresholdForExhaustion"),
    MapRow("expected_cycles_test", "lifetimeReferenceTest"),
    MapRow("cycle_test_c_rate", "cRateLifeCycleTest"),
    MapRow("idle_temperature_min_degc", "temperatureRangeIdleState.minimum"),
    MapRow("idle_temperature_max_degc", "temperatureRangeIdleState.maximum"),
    MapRow("half_life_round_trip_efficiency_pct", "roundTripEfficiencyat50PerCentCycleLife"),
    MapRow("round_trip_efficiency_fade_pct", "roundTripEfficiencyFade"),
    MapRow("power_fade_pct", "powerFade"),
)

_CONDITION_ROWS: Final = (
    MapRow("state_recorded_on", "", to_earliest_day("lastUpdate")),
    MapRow("energy_throughput_kwh", "energyThroughput.energyThroughputValue"),
    MapRow("capacity_throughput_ah", "capacityThroughput.capacityThroughputValue"),
    MapRow("full_cycles", "numberOfFullCycles.numberOfFullCyclesValue"),
    MapRow("state_of_certified_energy_pct", "stateOfCertifiedEnergy.stateOfCertifiedEnergyValue"),
    MapRow("capacity_fade_pct", "capacityFade.capacityFadeValue"),
    MapRow("remaining_energy_kwh", "remainingEnergy.remainingEnergyValue"),
    MapRow("remaining_capacity_ah", "remainingCapacity.remainingCapacityValue", _to_remaining_capacity),
    MapRow(
        "negative_events",
        "negativeEvents",
        map_records(MapRow("event", "negativeEvent"), MapRow("occurred_on", "lastUpdate")),
    ),
    MapRow("minutes_in_extreme_heat", "temperatureInformation.timeExtremeHighTemp"),
    MapRow("minutes_in_extreme_cold", "temperatureInformation.timeExtremeLowTemp"),
    MapRow("minutes_charging_in_extreme_heat", "temperatureInformation.timeExtremeHighTempCharging"),
    MapRow("minutes_charging_in_extreme_cold", "temperatureInformation.timeExtremeLowTempCharging"),
    MapRow("remaining_power_w", "remainingPowerCapability.remainingPowerCapabilityValue.powerCapabilityAt", _to_power),
    MapRow("self_discharge_evolution_pct", "evolutionOfSelfDischarge.evolutionOfSelfDischargeValue"),
    MapRow("self_discharge_pct_per_month", "currentSelfDischargingRate.currentSelfDischargingRateValue"),
    MapRow(
        "internal_resistance_increase_pct",
        "internalResistanceIncrease",
        pick_by("batteryComponent", "pack", "internalResistanceIncreaseValue"),
    ),
    MapRow("round_trip_efficiency_pct", "remainingRoundTripEnergyEfficiency.remainingRoundTripEnergyEfficiencyValue"),
    MapRow("state_of_charge_pct", "stateOfCharge.stateOfChargeValue"),
)

_COMPONENT_ROWS: Final = (
    MapRow("material", "batteryMaterialName"),
    MapRow("cas_number", "batteryMaterialIdentifier"),
    MapRow("location", "batteryMaterialLocation.componentName"),
    MapRow("part_number", "batteryMaterialLocation.componentId"),
    MapRow("mass_g", "batteryMaterialMass"),
    MapRow("critical", "isCriticalRawMaterial"),
)

_FOOTPRINT_ROWS: Final = (
    MapRow("gco2e_per_kwh", "batteryCarbonFootprint", to_thousandfold),
    MapRow("total_gco2e", "absoluteCarbonFootprint", to_thousandfold),
    MapRow("performance_class", "carbonFootprintPerformanceClass"),
    MapRow("study_url", "carbonFootprintStudy"),
)

_DUE_DILIGENCE_ROWS: Final = (
    MapRow("report_url", "supplyChainDueDiligenceReport"),
    MapRow("scheme", "thirdPartyAussurances"),
)


def _read_elements(document: DocumentNode) -> list[FactElement]:
    aspects = _find_aspects(document.value) if isinstance(document.value, dict) else []
    aspect_nodes = [(aspect, document if name is None else document.member(name)) for aspect, name in aspects]
    sku = _read_aspect_sku(document, aspect_nodes)
    if sku is None:
        return []
    battery: dict[str, RawValue] = {}
    elements: list[FactElement] = []
    for aspect, node in aspect_nodes:
        battery |= _read_battery(aspect, node)
        elements += _OTHER_FACT_READERS[aspect.name](sku, node) if aspect.name in _OTHER_FACT_READERS else []
    about_battery = [node for aspect, node in aspect_nodes if aspect.kind == "BOM"]
    if about_battery:
        mapping.warn_of_power(about_battery[0], battery)
        for _, node in aspect_nodes:
            mapping.add_parts_list(node.at("dismantlingAndRemovalInformation"), "documentURL", battery)
        path = about_battery[0].path if len(about_battery) == 1 else document.path
        elements.insert(0, FactElement("Battery", path, {"sku": sku, **battery}))
        for aspect, node in aspect_nodes:
            if aspect is PERFORMANCE:
                condition = node.at("batteryCondition")
                elements += mapping.read_timed_states(sku, condition, _CONDITION_ROWS, battery, "lastUpdate")
    return elements


def _read_aspect_sku(document: DocumentNode, aspect_nodes: list[tuple[Aspect, DocumentNode]]) -> str | None:
    candidates = [document, *(node for _, node in aspect_nodes)]
    for node in candidates:
        if isinstance(node.value, dict) and node.value.get("productIdentifier") is not None:
            return mapping.read_sku(node.at("productIdentifier"))
    names = ", ".join(dict.fromkeys(aspect.name for aspect, _ in aspect_nodes))
    document.add_problem(
        f"is the aspect {names}, which does not identify its battery; put `productIdentifier` beside its"
        " members, or GeneralProductInformation into the same document"
    )
    return None


def _read_battery(aspect: Aspect, node: DocumentNode) -> dict[str, RawValue]:
    if aspect is not PERFORMANCE:
        return mapping.map_members("Battery", node, _BATTERY_ROWS.get(aspect.name, ()))
    members: dict[str, RawValue] = {}
    for name in ("batteryTechicalProperties", "batteryTechnicalProperties"):
        members |= mapping.map_members("Battery", node.at(name), _TECHNICAL_ROWS)
    return members | mapping.map_members("Battery", node.at("batteryCondition"), _CONDITION_ROWS)


def _read_materials(sku: str, node: DocumentNode) -> list[FactElement]:
    return mapping.map_components(sku, node.at("batteryMaterials").items(), _COMPONENT_ROWS, _read_material_name)


def _read_footprint(sku: str, node: DocumentNode) -> list[FactElement]:
    members = mapping.map_members("PCF", node, _FOOTPRINT_ROWS)
    for item in node.at("carbonFootprintPerLifecycleStage").items():
        name = read_text(item.at("lifecycleStage"))
        stage = mapping.parse_stage(name) if isinstance(name, str) else None
        value = to_thousandfold(item.at("carbonFootprint"), Dec(6))
        if stage is None or stage == "total":
            item.at("lifecycleStage").add_problem(f"is {describe_value(name)}, not a stage of Art. 7")
        elif value is not None:
            members.setdefault(mapping.name_stage_member(stage, per_kwh=True), value)
    mapping.warn_of_sums(node, members)
    if not mapping.has_figures(members) and node.state.notes.is_clean:
        node.add_problem("has no footprint: `batteryCarbonFootprint` is missing")
    return [FactElement("PCF", node.path, {"sku": sku, **members})]


def _read_due_diligence(sku: str, node: DocumentNode) -> list[FactElement]:
    return [
        FactElement(
            "DueDiligence", node.path, {"sku": sku, **mapping.map_members("DueDiligence", node, _DUE_DILIGENCE_ROWS)}
        )
    ]


_OTHER_FACT_READERS: Final[Mapping[str, Callable[[str, DocumentNode], list[FactElement]]]] = {
    MATERIALS.name: _read_materials,
    FOOTPRINT.name: _read_footprint,
    DILIGENCE.name: _read_due_diligence,
}

FORMAT: Final = mapping.PublicFormat(
    name="aspects of the BatteryPassDataModel",
    matches=lambda document: bool(_find_aspects(document)),
    list_kinds=_list_kinds,
    read_elements=_read_elements,
    tables=(
        ("Battery", (*(row for rows in _BATTERY_ROWS.values() for row in rows), *_TECHNICAL_ROWS, *_CONDITION_ROWS)),
        ("Component", _COMPONENT_ROWS),
        ("PCF", _FOOTPRINT_ROWS),
        ("DueDiligence", _DUE_DILIGENCE_ROWS),
    ),
)
