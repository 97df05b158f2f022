"""Documents that contradict themselves: each contradiction is named with its numbers, wherever somebody looks for it.

The documents are our own examples of two public formats, each with one change.
"""

import json
import re
from typing import Any

import pytest

from bpc.core.facts.fact_table import SnapshotFact
from tests.core.documents.public.example_outcomes import change_example
from tests.core.documents.public_files import read_example
from tests.rules.shipped_package import assess_facts, compile_facts, explain_requirement, read_facts

FLAT = "openepcis-passport"
READY = "batterypass-ready"
TECHNICAL = "technicalSpecifications"
FOOTPRINT = "carbonFootprintDeclaration"
PERFORMANCE = "LMT.PerformanceAndDurability"
STAGE = "LMT.BatteryCarbonFootprint.ContributionOfDistributionLifecycleStage"
SUMS = "recycled shares from manufacturing and post-consumer waste do not add up to the declared ones, in %: "
OF_CAPACITY = (
    "is plausible only per kWh of capacity; per kWh that the battery provides over its service life, the limit is 2"
)


def state(value: float | None, unit: str) -> dict[str, Any]:
    return {"value": value, "unitCode": unit}


def state_at(charge: int, watts: float) -> dict[str, Any]:
    return {"powerCapability": state(watts, "WTT"), "stateOfChargeLevel": charge}


def state_per_kwh(kilograms: float) -> dict[str, Any]:
    return {
        "kgCO2-equivalentPerKilowattHourValue": kilograms,
        "kgCO2-equivalentPerKilowattHour": "kgCO2-eq/kWh",
    }


CONTRADICTIONS = [
    (
        FLAT,
        f"{FOOTPRINT}.carbonFootprintTotal",
        state(0.12, "KGM"),
        "FOOTPRINT_STAGES",
        "the stages add up to 0.13, the declared total is 0.12 (kg CO2e per kWh)",
    ),
    (
        FLAT,
        f"{FOOTPRINT}.carbonFootprintProduction",
        None,
        "FOOTPRINT_COMPLETE",
        "of the carbon footprint per kWh, the total is 0.13 kg CO2e, and 3 of 4 stages are stated",
    ),
    (
        FLAT,
        f"{FOOTPRINT}.carbonFootprintTotal",
        state(65, "KGM"),
        "FOOTPRINT_UNIT",
        f"65 kg CO2e per kWh {OF_CAPACITY}",
    ),
    (FLAT, "recycledContent.cobaltRecycledShare", 17, "RECYCLED_SUM", f"{SUMS}Co 4 + 12 = 16, not 17"),
    (
        FLAT,
        "recycledContent",
        {"cobaltRecycledShare": 10, "cobaltPreConsumerShare": None, "cobaltPostConsumerShare": 20},
        "RECYCLED_SUM",
        f"{SUMS}Co 20 > 10",
    ),
    (
        FLAT,
        "recycledContent.leadRecycledShare",
        85,
        "RECYCLED_METALS",
        "recycled shares are stated for metals that NMC811, LiNiMnCoO2 does not have, in %: Pb 85",
    ),
    (
        FLAT,
        f"{TECHNICAL}.originalPowerCapability",
        [None, state_at(50, 160000.5)],
        "POWER_LIMIT",
        "the original power is 160000.5 W, the permitted power 150000 W",
    ),
    (
        FLAT,
        f"{TECHNICAL}.maximumDischargingPower",
        state(200, "KWT"),
        "POWER_LIMITS",
        "a power limit is 200000 W, the highest power 150000 W",
    ),
    (
        FLAT,
        f"{TECHNICAL}.minimumVoltage",
        state(500000, "2Z"),
        "VOLTAGES",
        "the minimum voltage is 500 V, the nominal 400 V, the maximum 453.6 V",
    ),
    (
        FLAT,
        f"{TECHNICAL}.ratedEnergy",
        state(7.55, "KWH"),
        "RATED_ENERGY",
        "7.55 kWh are stated; 190 Ah at 400 V are 76 kWh",
    ),
    (
        FLAT,
        "netWeight",
        state(450.5, "GRM"),
        "ENERGY_DENSITY",
        "75.5 kWh in 0.4505 kg are 167591.564928 Wh per kg; from 5 to 500 are plausible",
    ),
    (
        FLAT,
        f"{TECHNICAL}.roundTripEfficiencyAt50PercentCycleLife",
        97,
        "HALF_LIFE",
        "at half of the cycle life the efficiency is 97 %, more than the initial 96 %",
    ),
    (
        FLAT,
        f"{TECHNICAL}.expectedLifetimeEnergyThroughput",
        state(858000, "KWH"),
        "SERVICE_LIFE",
        "858000 kWh over the service life are declared; 1500 cycles of this battery are 113250 kWh",
    ),
    (
        FLAT,
        "materialComposition.1.casNumber",
        "7439-97-6",
        "MERCURY",
        "0.1 % mercury; at most 0.0005 % is allowed",
    ),
    (
        FLAT,
        "materialComposition.0.weightPercentage",
        100,
        "MASS_SHARES",
        "the parts add up to 100.1 % of the mass of the battery",
    ),
    (
        READY,
        STAGE,
        state_per_kwh(0.5),
        "FOOTPRINT_STAGES",
        "the stages add up to 0.705, the declared total is 0.21 (kg CO2e per kWh)",
    ),
    (
        READY,
        "LMT.BatteryCarbonFootprint.ContributionOfMainProductProductionLifecycleStage",
        {"kgCO2-equivalentPerKilowattHourValue": 60, "kgCO2-equivalentPerKilowattHour": "%"},
        "FOOTPRINT_COMPLETE",
        "of the carbon footprint per kWh, the total is 0.21 kg CO2e, and 3 of 4 stages are stated",
    ),
    (
        READY,
        f"{PERFORMANCE}.OriginalPowerCapability",
        {"wattValueAt20SoC": 7.2, "watt": "kW"},
        "POWER_LIMIT",
        "the original power is 7200 W, the permitted power 600 W",
    ),
    (
        READY,
        f"{PERFORMANCE}.MaximumPermittedBatteryPower.temperatureRangeLowerBoundaryValue",
        40,
        "LIMIT_TEMPERATURES",
        "these temperature ranges of power limits are not valid: 40 °C to 40 °C",
    ),
    (
        READY,
        f"{PERFORMANCE}.RemainingCapacity",
        {"amperehourMiliamperehourValue": 7, "ampereHourMiliamperehour": "Ah"},
        "CHANGES",
        "declared and computed differ by more than one percentage point: DP52: 0 %, and 7 of 14 gives 50 %",
    ),
]


def read_changed(name: str, path: str, value: object) -> list[SnapshotFact]:
    return read_facts(json.dumps(change_example(name, path, value)).encode())


@pytest.mark.every_case
@pytest.mark.parametrize(("name", "path", "value", "code", "message"), CONTRADICTIONS)
def test_a_contradiction_is_named_with_its_numbers(
    name: str, path: str, value: object, code: str, message: str
) -> None:
    facts = read_changed(name, path, value)

    entry = compile_facts(facts).entries[code]

    assert entry["status"] in {"FAIL", "WARN"}
    assert entry["message"] == message
    assert entry["args"], "numbers are arguments, so that catalogues can translate the sentence"
    # Where the facts already contradict themselves, the readiness report says it in the words of the finding.
    sentences = [issue.says for issue in assess_facts(facts).issues if issue.code == code]
    numbers = set(re.findall(r"[0-9]+(?:\.[0-9]+)?", message))
    assert any(numbers <= set(re.findall(r"[0-9]+(?:\.[0-9]+)?", says)) for says in sentences), sentences


@pytest.mark.parametrize("name", [FLAT, READY])
def test_without_the_change_nothing_contradicts(name: str) -> None:
    entries = compile_facts(read_facts(read_example(name))).entries

    codes = {code for form, _, _, code, _ in CONTRADICTIONS if form == name}
    assert {code: entries[code]["status"] for code in codes if entries[code]["status"] in {"FAIL", "WARN"}} == {}


@pytest.mark.parametrize(
    ("path", "value", "code", "lines"),
    [
        ("recycledContent.cobaltRecycledShare", 17, "RECYCLED_SUM", ["asked for by Article 8(1)"]),
        (
            f"{TECHNICAL}.ratedEnergy",
            state(7.55, "KWH"),
            "RATED_ENERGY",
            ["asked for by Article 77(1)", "its capacity_kwh is 7.550000", "charge_energy_kwh is 76.000000"],
        ),
        (
            f"{TECHNICAL}.roundTripEfficiencyAt50PercentCycleLife",
            97,
            "HALF_LIFE",
            ["asked for by Annex XIII(1)(n)", "its half_life_round_trip_efficiency_pct is 97.00"],
        ),
    ],
)
def test_the_reasons_of_a_contradiction_go_back_to_the_document(
    path: str, value: object, code: str, lines: list[str]
) -> None:
    reasons = explain_requirement(read_changed(FLAT, path, value), code)

    assert [line for line in lines if line not in reasons] == [], reasons


@pytest.mark.parametrize("nothing", [None, [], [None], [None, None], [{}], {}])
def test_lists_of_nothing_fill_no_point(nothing: object) -> None:
    document = change_example(FLAT, "hazardousSubstances", nothing)
    document |= {"materialComposition": nothing, "sparePartSources": nothing, "dismantlingDocuments": nothing}
    document |= {"resultOfTestReport": nothing, "labels": nothing}

    passport = compile_facts(read_facts(json.dumps(document).encode()))

    statuses = {code: passport.entries[code]["status"] for code in ("DP13", "DP15", "DP46", "DP47", "DP48", "DP50")}
    assert set(statuses.values()) == {"FAIL"}, statuses
