"""EPCIS events: what our own example and changes of it become."""

import json

from bpc.core.documents.reader import DocumentFacts, read_document
from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_problems,
    read_facts,
)
from tests.core.documents.public_files import read_example


def test_the_latest_of_an_items_events_counts_and_accidents_stay() -> None:
    facts = decode_payloads(read_facts("BOM", read_example("epcis-state-of-health")))

    first, second = facts["battery:09521234010012/EX-75-0001"], facts["battery:09521234010012/EX-75-0002"]
    assert first["remaining_capacity_ah"] == "182.400000"  # in mAh there
    assert first["state_of_charge_pct"] == "78.50"
    assert [record["state_of_charge_pct"] for record in first["state_of_charge_records"]] == ["40.00", "78.50"]
    assert first["state_recorded_on"] == "2028-06-15"
    accident = {
        "event": "Flooding: Stood in water.",
        "occurred_on": "2028-01-10",
        "report_url": "https://www.examplecells.example/incidents/1.pdf",
    }
    assert first["negative_events"] == second["negative_events"] == [accident]
    assert second["serial_number"] == "EX-75-0002"  # from urn:epc:id:sgtin


def test_an_event_about_thousands_of_batteries_with_thousands_of_readings_is_refused() -> None:
    report = {"type": "Temperature", "value": "20", "uom": "CEL"}
    items = [f"https://id.gs1.org/01/09521234010012/21/{number}" for number in range(500)]
    event = {
        "eventTime": "2028-01-10T09:30:00Z",
        "epcList": items,
        "sensorElementList": [{"sensorReport": [report] * 500}],
    }

    assert list_problems("BOM", {"epcisBody": {"eventList": [event]}}) == [
        (
            "$.epcisBody.eventList[0]",
            "takes the document above 200,000 records of batteries; split the document",
        )
    ]


def test_a_state_of_certified_energy_in_kilowatt_hours_is_the_remaining_energy() -> None:
    path = "epcisBody.eventList.0.sensorElementList.0.sensorReport"
    report = {"type": "eubat:hasStateOfCertifiedEnergy", "value": 13.2, "uom": "KWH"}

    outcome = read_document("BOM", "application/ld+json", encode_changed_example(path, [report]))

    assert isinstance(outcome, DocumentFacts)
    battery = decode_payloads(outcome)["battery:09521234010012/EX-75-0001"]
    assert battery["remaining_energy_kwh"] == "13.200000"
    assert "state_of_certified_energy_pct" not in battery


def encode_changed_example(path: str, value: object) -> bytes:
    return json.dumps(change_example("epcis-state-of-health", path, value)).encode()
