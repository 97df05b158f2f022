"""Catena-X BatteryPass: what our own example and changes of it become."""

import json

import pytest

from tests.core.documents.public.example_outcomes import (
    KINDS,
    PER_KWH,
    change_example,
    decode_payloads,
    list_problems,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example


def test_a_catena_x_battery_pass() -> None:
    outcome = read_facts("BOM", read_example("catena-x-battery-pass"))

    facts = decode_payloads(outcome)
    assert list(facts) == [
        "battery:EX-75",
        "component:EX-75:cobalt",
        "component:EX-75:graphite",
        "pcf:EX-75",
        "dd:EX-75",
    ]
    battery = facts["battery:EX-75"]
    assert battery["mass_kg"] == "450.500000"  # 0.4505 t
    assert battery["warranty_months"] == 96  # 8 years
    assert (battery["serial_number"], battery["batch_number"]) == ("EX-75-0001", "B-2027-03")
    assert (battery["mercury_pct"], battery["lead_pct"]) == ("0.000010", "0.000300")  # 0.1 and 3 ppm
    assert battery["critical_raw_materials"] == ["Cobalt", "Lithium", "cobalt", "graphite"]
    assert battery["extinguishing_agents"] == ["Water", "Dry powder"]
    assert battery["spare_part_sources"] == [{"name": "BPNL00000000EXMP", "part_numbers": ["EX-75-FUSE", "EX-75-BMS"]}]
    assert battery["state_recorded_on"] == "2027-03-01"
    assert facts["component:EX-75:cobalt"]["mass_share_pct"] == "2.1000"  # 21 per thousand
    assert facts["component:EX-75:cobalt"]["cas_number"] == "7440-48-4"  # the second of two identifiers
    assert PER_KWH.items() <= facts["pcf:EX-75"].items()
    assert list_warnings(outcome) == [
        (
            "$.sustainability.carbonFootprint[5]",
            'is about the text "Acidification"; facts hold `Climate Change Total` only, so it was left out',
        )
    ]


def test_footprints_of_two_plants_are_two_facts_with_a_warning_about_their_key() -> None:
    entries = json.loads(read_example("catena-x-battery-pass"))["sustainability"]["carbonFootprint"][:2]
    entries[1]["manufacturingPlant"] = [{"facility": "BPNA0000000EXMP2"}]

    outcome = read_facts("PCF", change_example("catena-x-battery-pass", "sustainability.carbonFootprint", entries))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts if fact.fact_type == "PCF"] == [
        ("pcf:EX-75", "$.sustainability.carbonFootprint[0]"),
        ("pcf:EX-75", "$.sustainability.carbonFootprint[1]"),
    ]
    assert list_warnings(outcome)[-1][1].startswith("has the same key as `$.sustainability.carbonFootprint[0]`")


@pytest.mark.parametrize(
    ("unit", "member", "value"),
    [
        ("g CO2-eq / kWh", "raw_material_gco2e_per_kwh", "0.081000"),
        ("kgCO2e/kWh", "raw_material_gco2e_per_kwh", "81.000000"),
        ("kg CO₂ eq per kWh", "raw_material_gco2e_per_kwh", "81.000000"),
        ("kg CO2", "raw_material_gco2e", "81.00"),
        ("t CO2e", "raw_material_gco2e", "81000.00"),
    ],
)
def test_a_footprint_in_another_unit(unit: str, member: str, value: str) -> None:
    outcome = read_facts("PCF", change_example("catena-x-battery-pass", "sustainability.carbonFootprint.0.unit", unit))

    assert decode_payloads(outcome)["pcf:EX-75"][member] == value


def test_a_footprint_in_no_unit_of_footprints_is_a_problem() -> None:
    document = change_example("catena-x-battery-pass", "sustainability.carbonFootprint.0.unit", "kg/m2")

    assert list_problems("PCF", document) == [
        (
            "$.sustainability.carbonFootprint[0].unit",
            'is the text "kg/m2", not a unit of footprints; use `kg CO2 / kWh` or `kg CO2`, also in g or t',
        )
    ]


def test_a_battery_pass_of_version_5_names_its_materials_elsewhere() -> None:
    document = json.loads(read_example("catena-x-battery-pass"))
    del document["specVersion"]
    document["conformity"]["declarationOfConformityId"] = document["conformity"]["declarationOfConformity"]
    document["handling"]["spareParts"] = document["handling"].pop("content")
    document["materials"]["composition"] = [
        {
            "name": {"name": "cobalt", "type": "IUPAC"},
            "id": [{"type": "CAS", "id": "7440-48-4"}],
            "concentration": 2,
            "unit": "unit:percent",
            "critical": True,
        }
    ]

    facts = decode_payloads(read_facts("BOM", document))

    assert facts["component:EX-75:cobalt"] == {
        "sku": "EX-75",
        "part": "cobalt",
        "material": "cobalt",
        "cas_number": "7440-48-4",
        "mass_share_pct": "2.0000",
        "critical": True,
    }
    battery = facts["battery:EX-75"]
    assert battery["spare_part_sources"][0]["part_numbers"] == ["EX-75-FUSE", "EX-75-BMS"]
    assert "declaration_of_conformity_id" not in battery


def test_a_warranty_in_days_is_left_out_and_reported() -> None:
    path = "characteristics.warranty"

    outcome = read_facts(
        "BOM", change_example("catena-x-battery-pass", path, {"lifeValue": 100, "lifeUnit": "unit:day"})
    )

    assert "warranty_months" not in decode_payloads(outcome)["battery:EX-75"]
    assert (
        f"$.{path}",
        'is in the text "unit:day", which is not a whole number of months; it was left out',
    ) in list_warnings(outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_a_date_that_does_not_exist_is_left_out_and_named_under_every_kind(kind: str) -> None:
    document = change_example("catena-x-battery-pass", "operation.intoServiceDate", "7172-75-08")

    outcome = read_facts(kind, document)

    assert [lost for fact in outcome.facts for lost in fact.unreadable] == [
        (
            "put_into_service_on",
            "$.operation.intoServiceDate",
            'is the text "7172-75-08", which is not a valid date; write dates like 2027-02-18',
        )
    ]
