"""BatteryPass-Ready passports (GEFEG): what our own example and changes of it become."""

import re

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
        "negative_events": [{"event": "none"}],
    }
    assert expected.items() <= facts["battery:EX-BIKE-500"].items()


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
