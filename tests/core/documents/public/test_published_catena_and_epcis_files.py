"""The published files of Catena-X and EPCIS: what becomes of each, exactly."""

import json
from typing import Any

import pytest

from bpc.core.documents.reader import DocumentFacts, read_document
from tests.core.documents.public.published_facts import (
    KINDS,
    decode_payload,
    list_keys,
    list_warnings,
    pick_members,
    read_facts,
)
from tests.core.documents.public_files import read_published_file


def test_the_catena_x_passport_is_read_without_a_day_that_does_not_exist() -> None:
    for kind in KINDS:
        outcome = read_facts(kind, read_published_file("BatteryPass-6.1.0-payload.json"))

        assert [lost for fact in outcome.facts for lost in fact.unreadable] == [
            (
                "put_into_service_on",
                "$.operation.intoServiceDate",
                'is the text "7172-75-08", which is not a valid date; write dates like 2027-02-18',
            )
        ]


def test_the_catena_x_passport_with_a_day_is_a_battery_with_everything() -> None:
    document = json.loads(read_published_file("BatteryPass-6.1.0-payload.json"))
    document["operation"]["intoServiceDate"] = "2001-02-03"

    outcome = read_facts("BOM", json.dumps(document).encode())

    assert list_keys(outcome) == [
        ("battery:123-0.740-3434-A", "$"),
        ("component:123-0.740-3434-A:phenolphthalein", "$.materials.composition[0]"),
        ("pcf:123-0.740-3434-A", "$.sustainability.carbonFootprint[0]"),
        ("dd:123-0.740-3434-A", "$.conformity"),
    ]
    battery = decode_payload(outcome, "battery:123-0.740-3434-A")
    assert pick_members(
        battery, ["mass_kg", "cadmium_pct", "state_recorded_on", "put_into_service_on", "category"]
    ) == [
        "0.020000",
        "0.000530",
        "2023-12-07",
        "2001-02-03",
        "sli",
    ]
    assert "previous_passport_uri" not in battery
    assert decode_payload(outcome, "pcf:123-0.740-3434-A")["production_gco2e_per_kwh"] == "12678.000000"
    assert (
        list_warnings(outcome)["$.materials.composition[0].concentration"]
        == "is 0.00053 %, but the fact has only 4 decimals; it was left out, not rounded"
    )
    assert (
        list_warnings(outcome)["$.characteristics.warranty"]
        == 'is in the text "unit:day", which is not a whole number of months; it was left out'
    )


def test_the_catena_x_bill_of_materials_keeps_a_part_measured_in_litres() -> None:
    outcome = read_facts("BOM", read_published_file("BomAsSpecified-1.0.1-payload.json"))

    assert list_keys(outcome) == [("battery:abcA76", "$"), ("component:abcA76:5A1BA91", "$.item[0].part[0]")]
    assert decode_payload(outcome, "component:abcA76:5A1BA91") == {
        "sku": "abcA76",
        "part": "5A1BA91",
        "part_number": "5A1BA91",
        "name": "eOMtThyhVNLWUZNRcBaQKxI",
    }
    assert list_warnings(outcome) == {
        "$.item[0].part[0].partQuantity": 'is 2.5 "litre", neither a number of pieces nor a mass;'
        " the part was read without a quantity",
        "$": "was read as a Catena-X BomAsSpecified; these members were left out because no fact has them:"
        " `item[].index`, `item[].itemCategory`, `item[].part[].partClassification`, `item[].part[].partVersion`",
    }


def test_the_catena_x_footprint_is_one_of_a_litre_from_cradle_to_gate() -> None:
    outcome = read_facts("PCF", read_published_file("Pcf-9.0.0-payload.json"))

    assert list_keys(outcome) == [("pcf:401765", "$")]
    assert decode_payload(outcome, "pcf:401765") == {
        "sku": "401765",
        "model": "My Product Name",
        "facility_country": "DE",
        "year": 2022,
        "valid_until_on": "2022-12-31",
        "primary_data_pct": "56.12",
        "method": "ISO 14067",
        "verified_by": "TÜV-X",
        "verified_on": "2022-12-31",
    }
    product = "$.companyAndProductInformation[0].productInformation[0]"
    assert list_warnings(outcome)[f"{product}.productIds[0]"] == (
        'is "urn:mycompany.com:product-id:401765"; the SKU is "401765": a SKU cannot contain a colon or a URL'
    )
    assert [(lost.member, lost.says) for lost in outcome.facts[0].unreadable] == [
        ("total_gco2e", "is for 1 liter, not for one product; ask for the figure of one product")
    ]


def test_the_footprint_of_a_part_is_one_of_a_kilogram_and_not_read() -> None:
    outcome = read_facts("PCF", read_published_file("PcfForBatteryComponentSupplier-1.0.0-payload.json"))

    assert list_keys(outcome) == [("pcf:123-0.740-3434-A", "$")]
    footprint = decode_payload(outcome, "pcf:123-0.740-3434-A")
    assert pick_members(footprint, ["valid_until_on", "performance_class"]) == ["2024-07-01", "B+"]
    assert "total_gco2e" in {lost.member for lost in outcome.facts[0].unreadable}
    assert (
        list_warnings(outcome)["$.pcfValues.sharesPerStage"]
        == "has a total of 3140 g CO2e, but its four stages add up to 12560"
    )


@pytest.mark.parametrize(
    ("name", "moment", "kinds"),
    [
        (
            "state-of-health.jsonld",
            "2025-06-15T09:30:00.000000Z",
            [
                "state_of_charge_pct",
                "remaining_capacity_ah",
                "remaining_energy_kwh",
                "full_cycles",
                "capacity_fade_pct",
                "internal_resistance_ohm",
                "energy_throughput_kwh",
                "temperature_records",
            ],
        ),
        (
            "state-of-certified-energy.jsonld",
            "2025-09-10T11:00:00.000000Z",
            ["remaining_energy_kwh", "round_trip_efficiency_pct"],
        ),
        ("negative-event.jsonld", "2025-02-20T16:45:00.000000Z", ["negative_events"]),
    ],
)
def test_every_published_state_is_a_reading_of_its_time(name: str, moment: str, kinds: list[str]) -> None:
    outcome = read_document("BOM", "application/ld+json", read_published_file(name))

    assert isinstance(outcome, DocumentFacts)
    assert [fact.fact_key for fact in outcome.facts if fact.fact_type == "Reading"] == [
        f"reading:09521234000013/BAT2024-001:{kind}:{moment}" for kind in kinds
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "state-of-health.jsonld",
            {
                "remaining_capacity_ah": "263.800000",
                "remaining_energy_kwh": "13.500000",
                "full_cycles": 847,
                "capacity_fade_pct": "5.80",
                "internal_resistance_ohm": "2.400000",
                "energy_throughput_kwh": "12108.000000",
                "state_of_charge_pct": "78.50",
                "state_of_charge_records": [
                    {"recorded_at": "2025-06-15T09:30:00.000Z", "state_of_charge_pct": "78.50"}
                ],
                "temperature_records": [{"recorded_at": "2025-06-15T09:30:00.000Z", "temperature_degc": "28.30"}],
                "state_recorded_on": "2025-06-15",
            },
        ),
        (
            "state-of-certified-energy.jsonld",
            {
                "remaining_energy_kwh": "13.200000",
                "round_trip_efficiency_pct": "95.80",
                "state_recorded_on": "2025-09-10",
            },
        ),
        (
            "negative-event.jsonld",
            {
                "negative_events": [
                    {
                        "event": "PhysicalDamage, Major: Physical damage from forklift impact during"
                        " warehouse handling.",
                        "occurred_on": "2025-02-20",
                        "report_url": "https://energy-systems.example.com/incidents/INC-2025-0034.pdf",
                    }
                ],
                "state_recorded_on": "2025-02-20",
            },
        ),
    ],
)
def test_events_are_about_one_battery_beside_its_model(name: str, expected: dict[str, Any]) -> None:
    outcome = read_document("BOM", "application/ld+json", read_published_file(name))

    assert isinstance(outcome, DocumentFacts)
    assert list_keys(outcome) == [("battery:09521234000013/BAT2024-001", "$.epcisBody.eventList[0]")]
    assert decode_payload(outcome, "battery:09521234000013/BAT2024-001") == {
        "sku": "09521234000013/BAT2024-001",
        "serial_number": "BAT2024-001",
        **expected,
    }
