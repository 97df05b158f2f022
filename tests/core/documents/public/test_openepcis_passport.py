"""OpenEPCIS passports: what our own example and changes of it become."""

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


def test_a_passport_in_json_ld_is_read_by_its_terms() -> None:
    outcome = read_facts("BOM", read_example("openepcis-passport-jsonld"))

    facts = decode_payloads(outcome)
    expected = {
        "name": "Example pack 75",
        "serial_number": "EX-75-0001",
        "category": "ev",
        "status": "original",
        "granularity": "item",
        "passport_uri": "https://id.gs1.org/01/09521234010012/21/EX-75-0001",
        "manufacturer_address": "Beispielweg 2, 12345, Beispielstadt, DE",
        "manufacturer_email": "info@examplecells.example",
        "manufactured_on": "2027-02-20",
        "mass_kg": "450.500000",
        "warranty_months": 96,
        "cathode": "LiNi0.8Mn0.1Co0.1O2",
        "electrolyte": "organic carbonates",
        "rated_capacity_ah": "190.000000",
        "power_limits": [
            {
                "limit": "charging",
                "power_w": "150000.000",
                "temperature_min_degc": "0.00",
                "temperature_max_degc": "45.00",
            },
            {
                "limit": "discharging",
                "power_w": "120500.000",
                "temperature_min_degc": "-20.00",
                "temperature_max_degc": "55.00",
            },
        ],
        "idle_temperature_min_degc": "-30.00",
        "cell_count": 96,
        "cell_layout": "modules: 8, cells: PrismaticCell",
        "critical_raw_materials": ["cobalt"],
        "spare_part_sources": [
            {
                "name": "Example Service GmbH",
                "email": "parts@examplecells.example",
                "part_numbers": ["EX-BMS-1", "EX-FAN-2"],
            }
        ],
        "disassembly_sequence_url": "https://www.examplecells.example/removal.pdf",
        "exploded_diagram_url": "https://www.examplecells.example/exploded.pdf",
        "disassembly_warnings": ["https://www.examplecells.example/warnings.pdf"],
        "extinguishing_agents": ["dry sand"],
        "state_of_certified_energy_pct": "96.80",
        "capacity_fade_pct": "3.20",
    }
    assert expected.items() <= facts["battery:09521234010012"].items()
    component = facts["component:09521234010012:cobalt"]
    assert (component["location"], component["origin_country"], component["active_material"]) == ("cathode", "AU", True)
    footprint = facts["pcf:09521234010012"]
    assert (footprint["gco2e_per_kwh"], footprint["service_life_energy_kwh"]) == ("130.000000", "85800.000000")
    assert facts["dd:09521234010012"]["risks"] == [{"finding": "Medium risk for cobalt."}]
    assert [fact.source_path for fact in outcome.facts][1] == '$["eubat:hasMaterialComposition"][0]'


def test_what_a_passport_in_json_ld_says_of_itself_is_not_reported_as_left_out() -> None:
    outcome = read_facts("BOM", read_example("openepcis-passport-jsonld"))

    assert [note for note in outcome.warnings.first if note.at == "$"] == []


def test_the_expanded_form_of_en_18223_is_read_like_the_compressed_one() -> None:
    outcome = read_facts("BOM", read_example("en18223-expanded-passport"))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:09521234010012", "$"),
        ("component:09521234010012:7440-48-4", "$.elements[5].value[0]"),
        ("component:09521234010012:7439-93-2", "$.elements[5].value[1]"),
    ]
    expected = {
        "name": "Example pack 75",
        "category": "ev",
        "mass_kg": "450.500000",
        "rated_capacity_ah": "190.000000",
        "nominal_voltage_v": "400.000",
        "expected_cycles": 1500,
        "critical_raw_materials": ["7440-48-4", "7439-93-2"],
    }
    assert expected.items() <= decode_payloads(outcome)["battery:09521234010012"].items()


def test_a_problem_in_the_expanded_form_is_at_its_own_place() -> None:
    document = change_example("en18223-expanded-passport", "elements.0.value", "x" * 201)

    assert list_problems("BOM", document) == [
        ("$.elements[0].value", "must identify a product in 1 to 200 characters"),
    ]


def test_a_state_of_certified_energy_with_a_unit_of_energy_is_the_remaining_energy() -> None:
    path = "eubat:hasStateOfCertifiedEnergy"
    document = change_example("openepcis-passport-jsonld", path, {"gs1:value": "13.2", "gs1:unitCode": "KWH"})

    battery = decode_payloads(read_facts("BOM", document))["battery:09521234010012"]

    assert battery["remaining_energy_kwh"] == "13.200000"
    assert "state_of_certified_energy_pct" not in battery


def test_the_list_of_parts_stands_where_part_numbers_belong() -> None:
    document = change_example("openepcis-passport-jsonld", "eubat:hasSparePartSources", None)
    document["eubat:hasDismantlingDocuments"].append(
        {"eubat:hasDocumentType": {"@id": "eubat:BillOfMaterial"}, "eubat:documentUrl": "https://a.example/parts.pdf"}
    )

    battery = decode_payloads(read_facts("BOM", document))["battery:09521234010012"]

    assert battery["spare_part_sources"] == [{"part_numbers": ["https://a.example/parts.pdf"]}]


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


def test_a_footprint_without_a_unit_is_left_out_and_not_taken_for_grams() -> None:
    path = "carbonFootprintDeclaration.carbonFootprintTotal"

    outcome = read_facts("PCF", change_example("openepcis-passport", path, 65))

    says = "is a number without a unit; write `value` and `unitCode`, such as `KGM`; the value was left out"
    assert (f"$.{path}", says) in list_warnings(outcome)
    assert "gco2e_per_kwh" not in decode_payloads(outcome)["pcf:09521234010012"]


def test_the_original_power_may_be_stated_without_a_state_of_charge() -> None:
    path = "technicalSpecifications.originalPowerCapability"

    outcome = read_facts("BOM", change_example("openepcis-passport", path, {"value": 7.2, "unitCode": "KWT"}))

    assert decode_payloads(outcome)["battery:09521234010012"]["original_power_w"] == "7200.000"


@pytest.mark.parametrize(("share", "is_listed"), [(0.1, False), (0.1001, True), (0, False), (None, True)])
def test_a_critical_raw_material_is_listed_above_a_tenth_of_a_per_cent(share: float | None, *, is_listed: bool) -> None:
    lead, trace = ({"name": "Lead", "isCriticalRawMaterial": False}, {"name": "Trace", "isCriticalRawMaterial": True})
    materials = [
        {"name": "Cobalt", "isCriticalRawMaterial": True, "weightPercentage": 2.1},
        lead,
        {**trace, "weightPercentage": share},
    ]

    outcome = read_facts("BOM", change_example("openepcis-passport", "materialComposition", materials))

    listed = decode_payloads(outcome)["battery:09521234010012"]["critical_raw_materials"]
    assert listed == (["Cobalt", "Trace"] if is_listed else ["Cobalt"])


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
