"""Aspects of the BatteryPassDataModel: what our own examples become."""

import json

import pytest

from tests.core.documents.public.example_outcomes import (
    PER_KWH,
    decode_payloads,
    list_keys,
    list_problems,
    list_states,
    read_facts,
)
from tests.core.documents.public_files import read_example


@pytest.mark.parametrize("kind", ["BOM", "PCF", "DUE_DILIGENCE"])
def test_all_aspects_together_are_one_battery(kind: str) -> None:
    outcome = read_facts(kind, read_example("batterypass-aspects"))

    assert list_keys(outcome) == [
        ("battery:EX-75", "$"),
        ("pcf:EX-75", "$.carbonFootprint"),
        ("component:EX-75:Cobalt", "$.materialComposition.batteryMaterials[0]"),
        ("component:EX-75:Graphite", "$.materialComposition.batteryMaterials[1]"),
        ("dd:EX-75", "$.supplyChainDueDiligence"),
    ]
    facts = decode_payloads(outcome)
    expected = {
        "maximum_power_w": "150000.000",
        "recycled_lead_post_pct": "85.00",
        "status": "re-used",
        "manufactured_on": "2027-02-20",
        "state_recorded_on": "2027-03-01",
        "full_cycles": 12,
        "separate_collection_label_url": "https://www.examplecells.example/bin.svg",
        "dismantling_url": "https://www.examplecells.example/dismantling.pdf",
    }
    assert expected.items() <= facts["battery:EX-75"].items()
    assert facts["component:EX-75:Cobalt"]["mass_g"] == "9460.500000"
    assert PER_KWH.items() <= facts["pcf:EX-75"].items()
    assert facts["pcf:EX-75"]["total_gco2e"] == "4321500.00"


def test_a_state_with_a_last_update_is_a_reading_of_that_time() -> None:
    states = list_states(read_facts("BOM", read_example("batterypass-aspects")))

    at = "$.performance.batteryCondition"
    assert (
        "full_cycles",
        "2027-03-01T07:00:00.000000Z",
        "12.000000",
        f"{at}.numberOfFullCycles.numberOfFullCyclesValue",
    ) in states
    assert (
        "negative_events",
        "2027-03-01T07:00:00.000000Z",
        "dropped in the workshop",
        f"{at}.negativeEvents[0]",
    ) in states
    assert (
        "state_of_charge_pct",
        "2027-03-02T07:00:00.000000Z",
        "55.000000",
        f"{at}.stateOfCharge.stateOfChargeValue",
    ) in states


ALONE = {
    "CarbonFootprintForBatteries": ("PCF", "carbonFootprint"),
    "Circularity": ("BOM", "circularity"),
    "MaterialComposition": ("BOM", "materialComposition"),
    "Labeling": ("BOM", "labels"),
    "PerformanceAndDurability": ("BOM", "performance"),
    "SupplyChainDueDiligence": ("DUE_DILIGENCE", "supplyChainDueDiligence"),
}


@pytest.mark.parametrize("aspect", ALONE)
def test_an_aspect_alone_needs_to_say_which_battery_it_is_about(aspect: str) -> None:
    kind, member = ALONE[aspect]
    alone = json.loads(read_example("batterypass-aspects"))[member]

    (problem,) = list_problems(kind, alone)
    named = read_facts(kind, {"productIdentifier": "EX-75", **alone})

    assert problem == (
        "$",
        (
            f"is the aspect {aspect}, which does not identify its battery; put `productIdentifier` beside its"
            " members, or GeneralProductInformation into the same document"
        ),
    )
    assert {fact.fact_key.split(":")[1] for fact in named.facts} == {"EX-75"}


def test_general_product_information_alone_is_a_battery() -> None:
    general = json.loads(read_example("batterypass-aspects"))["generalProductInformation"]

    assert list(decode_payloads(read_facts("BOM", general))) == ["battery:EX-75"]
    assert list_problems("PCF", general) == [
        (
            "$",
            "is aspects of the BatteryPassDataModel; upload it as a document of kind BOM, not PCF",
        )
    ]
