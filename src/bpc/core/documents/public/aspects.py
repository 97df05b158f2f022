"""BatteryPassDataModel aspects 1.2.x: seven small documents, each a part of one passport.

An aspect is recognised by its own members, at the top of the document or one level below; a document may hold several.
Only GeneralProductInformation says which battery it is about, with `productIdentifier`: that is the SKU. Any other
aspect alone is not enough to make a fact of, unless the same member is put beside its own.

The model's units are read as its descriptions mean them where its tables are at odds with them: a power capability in
kW (table: percent), a remaining capacity in Ah (table: kWh).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import (
    Converter,
    address,
    category,
    earliest,
    number,
    plain,
    status,
    text,
    times_ten,
    two_letters,
    warranty_end,
    warranty_months,
)
from bpc.core.documents.public.footprints import member_of, stage_named, warn_of_power, warn_of_sums
from bpc.core.documents.public.formats import Format
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.places import Place, named
from bpc.core.documents.public.tables import Row, components, joined, listed, members, records
from bpc.core.documents.values import Given
from bpc.core.rules.types import Dec, Type

_THOUSAND: Final = times_ten(3)


class Aspect(NamedTuple):
    """An aspect's own members: one of `sure` is enough to know it, or two of `signs`; and the kind it serves."""

    name: str
    kind: str
    sure: frozenset[str]
    signs: frozenset[str] = frozenset()

    def is_in(self, part: Mapping[str, Given]) -> bool:
        return bool(self.sure & part.keys()) or len(self.signs & part.keys()) > 1


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


GENERAL: Final = Aspect(
    "GeneralProductInformation",
    "BOM",
    _names("batteryPassportIdentifier puttingIntoService warrentyPeriod"),
    _names(
        "productIdentifier batteryCategory manufacturerInformation manufacturingDate batteryStatus batteryMass"
        " manufacturingPlace operatorInformation"
    ),
)
FOOTPRINT: Final = Aspect(
    "CarbonFootprintForBatteries",
    "PCF",
    _names("batteryCarbonFootprint carbonFootprintPerLifecycleStage absoluteCarbonFootprint"),
    _names("carbonFootprintPerformanceClass carbonFootprintStudy"),
)
MATERIALS: Final = Aspect(
    "MaterialComposition", "BOM", _names("batteryMaterials"), _names("batteryChemistry hazardousSubstances")
)
CIRCULARITY: Final = Aspect(
    "Circularity",
    "BOM",
    _names("dismantlingAndRemovalInformation endOfLifeInformation"),
    _names("sparePartSources recycledContent safetyMeasures renewableContent"),
)
LABELING: Final = Aspect("Labeling", "BOM", _names("declarationOfConformity"), _names("resultOfTestReport labels"))
PERFORMANCE: Final = Aspect(
    "PerformanceAndDurability",
    "BOM",
    _names("batteryTechicalProperties batteryTechnicalProperties batteryCondition"),
)
DILIGENCE: Final = Aspect(
    "SupplyChainDueDiligence",
    "DUE_DILIGENCE",
    _names("supplyChainDueDiligenceReport thirdPartyAussurances supplyChainIndicies"),
)
ASPECTS: Final = (GENERAL, FOOTPRINT, MATERIALS, CIRCULARITY, LABELING, PERFORMANCE, DILIGENCE)


def _parts(document: Mapping[str, Given]) -> Iterator[tuple[str | None, Mapping[str, Given]]]:
    yield None, document
    for name, part in document.items():
        if isinstance(part, dict):
            yield name, part


def _found(document: Mapping[str, Given]) -> list[tuple[Aspect, str | None]]:
    top = [aspect for aspect in ASPECTS if aspect.is_in(document)]
    if top:
        return [(aspect, None) for aspect in top]
    return [(aspect, name) for name, part in _parts(document) for aspect in ASPECTS if name and aspect.is_in(part)]


def _kinds(document: Mapping[str, Given]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(aspect.kind for aspect, _ in _found(document)))


def _of(key: str, name: str, value: str, convert: Converter = plain) -> Converter:
    """The value of the item whose `key` is `name`."""

    def pick(place: Place, kind: Type) -> Given:
        for item in place.items():
            if isinstance(item.value, dict) and item.at(key).value == name:
                item.at(key).take()
                return convert(item.at(value), kind)
        return None

    return pick


def _power(place: Place, kind: Type) -> Given:
    given = _THOUSAND(place, kind)
    if given is not None:
        place.warning("was read in kW, as the model's other powers are; its table of units says percent")
    return given


def _remaining_capacity(place: Place, kind: Type) -> Given:
    given = number(place, kind)
    if given is not None:
        place.warning("was read in Ah, as the model describes it; its table of units says kWh")
    return given


def _contact(prefix: str, source: str) -> tuple[Row, ...]:
    return (
        Row(f"{prefix}_id", f"{source}.identifier"),
        Row(f"{prefix}_name", f"{source}.contactName"),
        Row(f"{prefix}_address", f"{source}.postalAddress", address),
    )


_BATTERY: Final[Mapping[str, tuple[Row, ...]]] = {
    GENERAL.name: (
        Row("model", "productIdentifier"),
        Row("passport_uri", "batteryPassportIdentifier"),
        Row("category", "batteryCategory", category),
        *_contact("manufacturer", "manufacturerInformation"),
        Row("manufacturer_email", "manufacturerInformation.emailAddress"),
        Row("manufacturer_url", "manufacturerInformation.webAddress"),
        *_contact("operator", "operatorInformation"),
        Row("manufactured_on", "manufacturingDate"),
        Row("put_into_service_on", "puttingIntoService"),
        Row("warranty_until_on", "warrentyPeriod", warranty_end),
        Row("warranty_months", "warrentyPeriod", warranty_months),
        Row("status", "batteryStatus", status),
        Row("mass_kg", "batteryMass"),
        Row("manufacturing_place", "manufacturingPlace", address),
        Row("manufacturing_country", "manufacturingPlace.addressCountry", two_letters),
    ),
    MATERIALS.name: (
        Row("chemistry", "batteryChemistry.shortName"),
        Row("chemistry", "batteryChemistry.clearName"),
        Row(
            "hazardous_substances",
            "hazardousSubstances",
            records(
                Row("name", "hazardousSubstanceName"),
                Row("cas_number", "hazardousSubstanceIdentifier"),
                Row("hazard_class", "hazardousSubstanceClass"),
                Row("concentration_pct", "hazardousSubstanceConcentration"),
                Row("location", "hazardousSubstanceLocation.componentName"),
                Row("impact", "hazardousSubstanceImpact", joined()),
            ),
        ),
    ),
    CIRCULARITY.name: (
        Row(
            "dismantling_url",
            "dismantlingAndRemovalInformation",
            _of("documentType", "DismantlingManual", "documentURL"),
        ),
        Row("dismantling_url", "dismantlingAndRemovalInformation", _of("documentType", "RemovalManual", "documentURL")),
        Row("exploded_diagram_url", "dismantlingAndRemovalInformation", _of("documentType", "Drawing", "documentURL")),
        Row(
            "spare_part_sources",
            "sparePartSources",
            records(
                Row("name", "nameOfSupplier"),
                Row("address", "addressOfSupplier", address),
                Row("email", "emailAddressOfSupplier"),
                Row("url", "supplierWebAddress"),
                Row("part_numbers", "components", listed("partNumber")),
            ),
        ),
        *(
            Row(
                f"recycled_{member}_{when}_pct",
                "recycledContent",
                _of("recycledMaterial", metal, f"{when}ConsumerShare"),
            )
            for metal, member in (("Cobalt", "cobalt"), ("Lithium", "lithium"), ("Nickel", "nickel"), ("Lead", "lead"))
            for when in ("pre", "post")
        ),
        Row("safety_measures_url", "safetyMeasures.safetyInstructions"),
        Row("extinguishing_agents", "safetyMeasures.extinguishingAgent"),
        Row("waste_prevention_url", "endOfLifeInformation.wastePrevention"),
        Row("separate_collection_url", "endOfLifeInformation.separateCollection"),
        Row("collection_systems_url", "endOfLifeInformation.informationOnCollection"),
        Row("renewable_content_pct", "renewableContent"),
    ),
    LABELING.name: (
        Row("declaration_of_conformity_url", "declarationOfConformity"),
        Row("test_report_urls", "resultOfTestReport"),
        Row("separate_collection_label_url", "labels", _of("labelingSubject", "SeparateCollection", "labelingSymbol")),
        Row("heavy_metal_label_url", "labels", _of("labelingSubject", "HazardousMaterial", "labelingSymbol")),
        Row("labels", "labels", records(Row("subject", "labelingSubject"), Row("url", "labelingSymbol"))),
    ),
}

_TECHNICAL: Final = (
    Row(
        "original_power_by_charge",
        "originalPowerCapability",
        records(
            Row("state_of_charge_pct", "atSoC"),
            Row("power_w", "powerCapabilityAt", _power),
        ),
    ),
    Row("maximum_power_w", "ratedMaximumPower", _THOUSAND),
    Row("capacity_kwh", "ratedEnergy"),
    Row("expected_cycles", "expectedNumberOfCycles"),
    Row("initial_self_discharge_pct_per_month", "initialSelfDischarge"),
    Row("initial_round_trip_efficiency_pct", "roundtripEfficiency"),
    Row("rated_capacity_ah", "ratedCapacity"),
    Row("initial_cell_resistance_ohm", "initialInternalResistance", _of("batteryComponent", "cell", "ohmicResistance")),
    Row("initial_pack_resistance_ohm", "initialInternalResistance", _of("batteryComponent", "pack", "ohmicResistance")),
    Row("expected_life_years", "expectedLifetime"),
    Row("nominal_voltage_v", "nominalVoltage"),
    Row("minimum_voltage_v", "minimumVoltage"),
    Row("maximum_voltage_v", "maximumVoltage"),
    Row("capacity_threshold_pct", "capacityThresholdForExhaustion"),
    Row("expected_cycles_test", "lifetimeReferenceTest"),
    Row("cycle_test_c_rate", "cRateLifeCycleTest"),
    Row("idle_temperature_min_degc", "temperatureRangeIdleState.minimum"),
    Row("idle_temperature_max_degc", "temperatureRangeIdleState.maximum"),
    Row("half_life_round_trip_efficiency_pct", "roundTripEfficiencyat50PerCentCycleLife"),
    Row("round_trip_efficiency_fade_pct", "roundTripEfficiencyFade"),
    Row("power_fade_pct", "powerFade"),
)

_CONDITION: Final = (
    Row("state_recorded_on", "", earliest("lastUpdate")),
    Row("energy_throughput_kwh", "energyThroughput.energyThroughputValue"),
    Row("capacity_throughput_ah", "capacityThroughput.capacityThroughputValue"),
    Row("full_cycles", "numberOfFullCycles.numberOfFullCyclesValue"),
    Row("state_of_certified_energy_pct", "stateOfCertifiedEnergy.stateOfCertifiedEnergyValue"),
    Row("capacity_fade_pct", "capacityFade.capacityFadeValue"),
    Row("remaining_energy_kwh", "remainingEnergy.remainingEnergyValue"),
    Row("remaining_capacity_ah", "remainingCapacity.remainingCapacityValue", _remaining_capacity),
    Row(
        "negative_events",
        "negativeEvents",
        records(
            Row("event", "negativeEvent"),
            Row("occurred_on", "lastUpdate"),
        ),
    ),
    Row("minutes_in_extreme_heat", "temperatureInformation.timeExtremeHighTemp"),
    Row("minutes_in_extreme_cold", "temperatureInformation.timeExtremeLowTemp"),
    Row("minutes_charging_in_extreme_heat", "temperatureInformation.timeExtremeHighTempCharging"),
    Row("minutes_charging_in_extreme_cold", "temperatureInformation.timeExtremeLowTempCharging"),
    Row("remaining_power_w", "remainingPowerCapability.remainingPowerCapabilityValue.powerCapabilityAt", _power),
    Row("self_discharge_evolution_pct", "evolutionOfSelfDischarge.evolutionOfSelfDischargeValue"),
    Row("self_discharge_pct_per_month", "currentSelfDischargingRate.currentSelfDischargingRateValue"),
    Row(
        "internal_resistance_increase_pct",
        "internalResistanceIncrease",
        _of("batteryComponent", "pack", "internalResistanceIncreaseValue"),
    ),
    Row("round_trip_efficiency_pct", "remainingRoundTripEnergyEfficiency.remainingRoundTripEnergyEfficiencyValue"),
    Row("state_of_charge_pct", "stateOfCharge.stateOfChargeValue"),
)

_COMPONENT: Final = (
    Row("material", "batteryMaterialName"),
    Row("cas_number", "batteryMaterialIdentifier"),
    Row("location", "batteryMaterialLocation.componentName"),
    Row("part_number", "batteryMaterialLocation.componentId"),
    Row("mass_g", "batteryMaterialMass"),
    Row("critical", "isCriticalRawMaterial"),
)

_FOOTPRINT: Final = (
    Row("gco2e_per_kwh", "batteryCarbonFootprint", _THOUSAND),
    Row("total_gco2e", "absoluteCarbonFootprint", _THOUSAND),
    Row("performance_class", "carbonFootprintPerformanceClass"),
    Row("study_url", "carbonFootprintStudy"),
)

_DILIGENCE: Final = (
    Row("report_url", "supplyChainDueDiligenceReport"),
    Row("scheme", "thirdPartyAussurances"),
)


def _elements(document: Place) -> list[Element]:
    found = _found(document.value) if isinstance(document.value, dict) else []
    places = [(aspect, document if name is None else document.member(name)) for aspect, name in found]
    sku = _sku(document, places)
    if sku is None:
        return []
    battery: dict[str, Given] = {}
    others: list[Element] = []
    for aspect, place in places:
        battery |= _battery(aspect, place)
        others += _OTHERS[aspect.name](sku, place) if aspect.name in _OTHERS else []
    about_battery = [place for aspect, place in places if aspect.kind == "BOM"]
    if about_battery:
        warn_of_power(about_battery[0], battery)
        path = about_battery[0].path if len(about_battery) == 1 else document.path
        others.insert(0, Element("Battery", path, {"sku": sku, **battery}))
    return others


def _sku(document: Place, places: list[tuple[Aspect, Place]]) -> str | None:
    candidates = [document, *(place for _, place in places)]
    for place in candidates:
        if isinstance(place.value, dict) and place.value.get("productIdentifier") is not None:
            return sku_of(place.at("productIdentifier"))
    names = ", ".join(dict.fromkeys(aspect.name for aspect, _ in places))
    document.problem(
        f"is the aspect {names}, which does not say which battery it is about; put `productIdentifier` beside its"
        " members, or GeneralProductInformation into the same document"
    )
    return None


def _battery(aspect: Aspect, place: Place) -> dict[str, Given]:
    if aspect is not PERFORMANCE:
        made = members("Battery", place, _BATTERY.get(aspect.name, ()))
        return made | (_critical(place) if aspect is MATERIALS else {})
    made = {}
    for name in ("batteryTechicalProperties", "batteryTechnicalProperties"):
        made |= members("Battery", place.at(name), _TECHNICAL)
    return made | members("Battery", place.at("batteryCondition"), _CONDITION)


def _critical(place: Place) -> dict[str, Given]:
    items = place.at("batteryMaterials").items()
    marked = [item for item in items if isinstance(item.value, dict) and item.at("isCriticalRawMaterial").value is True]
    found: list[Given] = [name for name in map(_material, marked) if isinstance(name, str)]
    return {"critical_raw_materials": list(dict.fromkeys(found))} if found else {}


def _material(place: Place) -> Given:
    return text(place.at("batteryMaterialName")) or text(place.at("batteryMaterialIdentifier"))


def _materials(sku: str, place: Place) -> list[Element]:
    return components(sku, place.at("batteryMaterials").items(), _COMPONENT, _material)


def _footprint(sku: str, place: Place) -> list[Element]:
    made = members("PCF", place, _FOOTPRINT)
    for item in place.at("carbonFootprintPerLifecycleStage").items():
        name = text(item.at("lifecycleStage"))
        stage = stage_named(name) if isinstance(name, str) else None
        value = _THOUSAND(item.at("carbonFootprint"), Dec(6))
        if stage is None or stage == "total":
            item.at("lifecycleStage").problem(f"is {named(name)}, not a stage of Art. 7")
        elif value is not None:
            made.setdefault(member_of(stage, per_kwh=True), value)
    warn_of_sums(place, made)
    if not any("gco2e" in member for member in made) and place.reading.notes.is_clean:
        place.problem("has no footprint: `batteryCarbonFootprint` is missing")
    return [Element("PCF", place.path, {"sku": sku, **made})]


def _diligence(sku: str, place: Place) -> list[Element]:
    return [Element("DueDiligence", place.path, {"sku": sku, **members("DueDiligence", place, _DILIGENCE)})]


_OTHERS: Final[Mapping[str, Callable[[str, Place], list[Element]]]] = {
    MATERIALS.name: _materials,
    FOOTPRINT.name: _footprint,
    DILIGENCE.name: _diligence,
}

FORMAT: Final = Format(
    name="aspects of the BatteryPassDataModel",
    is_it=lambda document: bool(_found(document)),
    kinds=_kinds,
    elements=_elements,
    tables=(
        ("Battery", (*(row for rows in _BATTERY.values() for row in rows), *_TECHNICAL, *_CONDITION)),
        ("Component", _COMPONENT),
        ("PCF", _FOOTPRINT),
        ("DueDiligence", _DILIGENCE),
    ),
)
