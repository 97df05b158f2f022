"""OpenEPCIS passports: what our own example and changes of it become."""

import pytest

from tests.core.documents.public.example_outcomes import (
    KINDS,
    PER_KWH,
    change_example,
    decode_payloads,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example


def test_a_flat_passport_in_other_units_is_the_same_battery() -> None:
    outcome = read_facts("BOM", read_example("openepcis-passport"))

    facts = decode_payloads(outcome)
    battery = facts["battery:09521234010012"]
    expected = {
        "mass_kg": "450.500000",
        "capacity_kwh": "75.500000",
        "rated_capacity_ah": "190.000000",
        "nominal_voltage_v": "400.000",
        "maximum_power_w": "150000.000",
        "initial_pack_resistance_ohm": "0.062000",
        "category": "ev",
        "name": "Example Traction 75",
        "manufactured_on": "2027-02-01",
    }
    assert expected.items() <= battery.items()
    assert PER_KWH.items() <= facts["pcf:09521234010012"].items()
    assert facts["component:09521234010012:Cobalt"]["location"] == "cathode"
    assert facts["component:09521234010012:Cobalt#2"]["location"] == "casing"
    assert ("$.manufacturingDate", 'is "2027-02"; the fact holds the date 2027-02-01') in list_warnings(outcome)


def test_a_footprint_that_is_not_per_kwh_is_one_of_the_whole_battery() -> None:
    path = "carbonFootprintDeclaration.functionalUnit"

    footprint = decode_payloads(read_facts("PCF", change_example("openepcis-passport", path, "1 battery")))[
        "pcf:09521234010012"
    ]

    assert footprint["total_gco2e"] == "130.00"
    assert "gco2e_per_kwh" not in footprint


@pytest.mark.parametrize("kind", KINDS)
def test_all_facts_of_a_passport_are_read_under_every_kind(kind: str) -> None:
    outcome = read_facts(kind, read_example("openepcis-passport"))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:09521234010012", "$"),
        ("component:09521234010012:Cobalt", "$.materialComposition[0]"),
        ("component:09521234010012:Cobalt#2", "$.materialComposition[1]"),
        ("pcf:09521234010012", "$.carbonFootprintDeclaration"),
        ("dd:09521234010012", "$.supplyChainDueDiligence"),
    ]
    assert decode_payloads(outcome)["component:09521234010012:Cobalt"] == {
        "sku": "09521234010012",
        "part": "Cobalt",
        "material": "Cobalt",
        "cas_number": "7440-48-4",
        "location": "cathode",
        "mass_share_pct": "2.1000",
        "critical": True,
        "hazardous": False,
        "active_material": True,
        "origin_country": "CD",
    }
    assert decode_payloads(outcome)["dd:09521234010012"]["audited_on"] == "2026-11-30"


def test_stages_that_do_not_add_up_are_read_with_a_warning() -> None:
    path = "carbonFootprintDeclaration.carbonFootprintTotal.value"

    outcome = read_facts("PCF", change_example("openepcis-passport", path, 0.1))

    says = "has a total of 100 g CO2e per kWh, but its four stages add up to 130"
    assert ("$.carbonFootprintDeclaration", says) in list_warnings(outcome)
    assert decode_payloads(outcome)["pcf:09521234010012"]["gco2e_per_kwh"] == "100.000000"


def test_the_category_of_the_classification_is_used_if_the_two_differ() -> None:
    classification = {"additionalProductClassificationCode": "industrial-battery-without-bms"}

    outcome = read_facts("BOM", change_example("openepcis-passport", "additionalProductClassification", classification))

    battery = decode_payloads(outcome)["battery:09521234010012"]
    assert (battery["category"], battery["has_bms"]) == ("industrial", False)
    assert (
        "$.category",
        'is `ev`, but the classification "industrial-battery-without-bms" is `industrial`; the classification was used',
    ) in list_warnings(outcome)


def test_the_picture_of_a_label_is_found_by_its_subject() -> None:
    labels = [
        {"labelSubject": "https://vocabulary.example/battery/CEMarking", "labelSymbol": "https://example.com/ce.svg"},
        {"labelSubject": "eubat:SeparateCollection", "labelSymbol": "https://example.com/bin.svg"},
    ]

    battery = decode_payloads(read_facts("BOM", change_example("openepcis-passport", "labels", labels)))[
        "battery:09521234010012"
    ]

    assert battery["separate_collection_label_url"] == "https://example.com/bin.svg"
    assert [label["subject"] for label in battery["labels"]] == ["CEMarking", "SeparateCollection"]
