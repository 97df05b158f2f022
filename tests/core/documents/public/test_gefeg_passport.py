"""BatteryPass-Ready passports (GEFEG): what our own example and changes of it become."""

import re

import pytest

from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example


def test_a_grouped_passport_under_any_root() -> None:
    facts = decode_payloads(read_facts("BOM", read_example("batterypass-ready")))

    assert list(facts) == ["battery:EX-BIKE-500", "pcf:EX-BIKE-500", "dd:EX-BIKE-500"]
    expected = {
        "mass_kg": "2.900000",
        "rated_capacity_ah": "14.000000",
        "warranty_months": 24,
        "expected_cycles": 800,
        "chemistry": "NMC622",
        "category": "lmt",
        "negative_events": [],  # "none"
    }
    assert expected.items() <= facts["battery:EX-BIKE-500"].items()


def test_lists_in_sentences_are_read_item_by_item() -> None:
    battery = decode_payloads(read_facts("BOM", read_example("batterypass-ready")))["battery:EX-BIKE-500"]

    expected = {
        "hazardous_substances": [
            {"name": "lithium hexafluorophosphate", "cas_number": "21324-40-3"},
            {"name": "ethylene carbonate", "cas_number": "96-49-1"},
        ],
        "substance_impact_url": "https://www.examplecells.example/impact.pdf",
        "critical_raw_materials": ["cobalt", "lithium", "natural graphite"],
        "cathode": "NMC622",
        "anode": "graphite",
        "electrolyte": "organic carbonates",
        "spare_part_sources": [
            {"url": "https://www.examplecells.example/parts", "part_numbers": ["EX-BMS-1", "EX-CASE-2"]}
        ],
        "label_meaning_url": "https://www.examplecells.example/labels",
    }
    assert expected.items() <= battery.items()


def test_a_quantity_is_told_from_the_temperatures_it_holds_for() -> None:
    facts = decode_payloads(read_facts("BOM", read_example("batterypass-ready")))

    expected = {
        "nominal_voltage_v": "36.000",
        "voltage_temperature_min_degc": "-10.00",
        "voltage_temperature_max_degc": "45.00",
        "maximum_power_w": "600.000",
        "power_limits": [
            {
                "limit": "maximum",
                "power_w": "600.000",
                "temperature_min_degc": "0.00",
                "temperature_max_degc": "40.00",
            }
        ],
        "self_discharge_pct_per_month": "2.5000",
    }
    assert expected.items() <= facts["battery:EX-BIKE-500"].items()
    assert facts["pcf:EX-BIKE-500"]["total_gco2e"] == "38000.00"


MATERIALS = "LMT.BatteryMaterialsAndComposition"


@pytest.mark.parametrize(
    ("text", "members", "says"),
    [
        (
            "NMC622; graphite",
            {"cathode": "NMC622", "anode": "graphite"},
            "was read in the order of its name: cathode, anode, electrolyte",
        ),
        (
            "various materials",
            {},
            "does not say which material is in the cathode, the anode and the electrolyte; it was left out",
        ),
    ],
)
def test_materials_without_a_place_are_taken_in_order_or_left_out(
    text: str, members: dict[str, str], says: str
) -> None:
    path = f"{MATERIALS}.MaterialsUsedInCathodeAnodeAndElectrolyte"

    outcome = read_facts("BOM", change_example("batterypass-ready", path, text))

    battery = decode_payloads(outcome)["battery:EX-BIKE-500"]
    assert {name: battery[name] for name in ("cathode", "anode", "electrolyte") if name in battery} == members
    assert (f"$.{path}", says) in list_warnings(outcome)


def test_an_impact_in_words_is_that_of_every_substance() -> None:
    path = f"{MATERIALS}.ImpactOfSubstancesOnEnvironmentHumanHealthSafetyPersons"

    battery = decode_payloads(read_facts("BOM", change_example("batterypass-ready", path, "Toxic if swallowed.")))[
        "battery:EX-BIKE-500"
    ]

    assert [substance["impact"] for substance in battery["hazardous_substances"]] == ["Toxic if swallowed."] * 2
    assert "substance_impact_url" not in battery


def test_no_hazardous_substances_is_an_empty_list() -> None:
    document = change_example("batterypass-ready", f"{MATERIALS}.HazardousSubstances", "none")

    assert decode_payloads(read_facts("BOM", document))["battery:EX-BIKE-500"]["hazardous_substances"] == []


def test_members_that_no_fact_has_are_named_in_one_warning() -> None:
    outcome = read_facts("BOM", read_example("batterypass-ready"))

    [warning] = [note.says for note in outcome.warnings.first if note.at == "$"]
    assert re.findall("`(.*?)`", warning) == [
        "LMT.IdentifiersAndProductData.DPPSchemaVersion",
        "LMT.IdentifiersAndProductData.DPPStatus",
        "LMT.SymbolsLabelsAndDocumentationOfConformity.ExtinguishingAgent.agentFireClass",
    ]


def test_stages_that_do_not_add_up_are_read_with_a_warning() -> None:
    path = "LMT.BatteryCarbonFootprint.BatteryCarbonFootprintPerFunctionalUnit.kgCO2-equivalentPerKilowattHourValue"

    outcome = read_facts("PCF", change_example("batterypass-ready", path, 0.3))

    says = "has a total of 300 g CO2e per kWh, but its four stages add up to 210"
    assert ("$.LMT.BatteryCarbonFootprint", says) in list_warnings(outcome)


def test_more_power_than_is_permitted_is_read_with_a_warning() -> None:
    path = "LMT.PerformanceAndDurability.MaximumPermittedBatteryPower.wattValue"

    outcome = read_facts("BOM", change_example("batterypass-ready", path, 400))

    says = "has an original power of 500 W, above the permitted 400 W"
    assert ("$.LMT.PerformanceAndDurability", says) in list_warnings(outcome)
    battery = decode_payloads(outcome)["battery:EX-BIKE-500"]
    assert (battery["original_power_w"], battery["maximum_power_w"]) == ("500.000", "400.000")
