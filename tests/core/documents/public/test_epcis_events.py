"""EPCIS events: what our own example and changes of it become."""

import json

from bpc.core.documents.reader import DocumentFacts, read_document
from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_problems,
    list_states,
    list_warnings,
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


def test_every_value_of_every_event_is_a_reading_with_its_time() -> None:
    states = list_states(read_facts("BOM", read_example("epcis-state-of-health")))

    later, earlier = "2028-06-15T09:30:00.000000Z", "2028-01-10T09:30:00.000000Z"
    at = "$.epcisBody.eventList[{}].sensorElementList[0].sensorReport[{}]"
    first = [
        ("state_of_charge_pct", earlier, "40.000000", at.format(1, 0)),
        ("negative_events", earlier, "Flooding: Stood in water.", "$.epcisBody.eventList[1]"),
    ]
    assert states == [
        *first,
        *first,  # the event is about two batteries
        ("remaining_capacity_ah", later, "182.400000", at.format(0, 0)),
        ("state_of_charge_pct", later, "78.500000", at.format(0, 1)),
        ("full_cycles", later, "247.000000", at.format(0, 2)),
        ("temperature_records", later, "28.300000", at.format(0, 3)),
    ]


def test_a_report_may_have_a_time_of_its_own() -> None:
    path = "epcisBody.eventList.0.sensorElementList.0.sensorReport.0.time"

    states = list_states(read_facts("BOM", change_example("epcis-state-of-health", path, "2028-06-15T08:00:00-01:00")))

    assert ("remaining_capacity_ah", "2028-06-15T09:00:00.000000Z", "182.400000") in [state[:3] for state in states]


def test_the_latest_value_is_the_one_recorded_last_whatever_zone_its_time_is_in() -> None:
    document = json.loads(read_example("epcis-state-of-health"))
    later, earlier = document["epcisBody"]["eventList"][:2]
    later["eventTime"], earlier["eventTime"] = "2028-06-14T23:30:00-05:00", "2028-06-15T02:00:00+02:00"

    first = decode_payloads(read_facts("BOM", document))["battery:09521234010012/EX-75-0001"]

    assert (first["state_of_charge_pct"], first["state_recorded_on"]) == ("78.50", "2028-06-15")


def test_a_report_that_was_recorded_earlier_than_its_event_replaces_no_later_value() -> None:
    path = "epcisBody.eventList.0.sensorElementList.0.sensorReport.1.time"
    document = change_example("epcis-state-of-health", path, "2027-01-01T00:00:00Z")

    first = decode_payloads(read_facts("BOM", document))["battery:09521234010012/EX-75-0001"]

    assert (first["state_of_charge_pct"], first["full_cycles"]) == ("40.00", 247)
    assert first["state_recorded_on"] == "2028-06-15"


def test_an_event_that_was_declared_an_error_is_not_read_nor_is_the_one_it_repeats() -> None:
    document = json.loads(read_example("epcis-state-of-health"))
    events = document["epcisBody"]["eventList"]
    events[0]["eventID"] = "urn:example:event:1"
    events.append(events[0] | {"errorDeclaration": {"declarationTime": "2028-07-01T00:00:00Z"}})

    outcome = read_facts("BOM", document)

    says = "is an event that its sender declared to be an error; it was not read"
    last = len(events) - 1
    assert {("$.epcisBody.eventList[0]", says), (f"$.epcisBody.eventList[{last}]", says)} <= set(list_warnings(outcome))
    assert "remaining_capacity_ah" not in decode_payloads(outcome)["battery:09521234010012/EX-75-0001"]


def test_a_value_without_a_valid_time_is_kept_and_is_no_reading() -> None:
    path = "epcisBody.eventList.0.sensorElementList.0.sensorMetadata.time"

    outcome = read_facts("BOM", change_example("epcis-state-of-health", path, "this morning"))

    assert decode_payloads(outcome)["battery:09521234010012/EX-75-0001"]["full_cycles"] == 247
    assert "full_cycles" not in [kind for kind, _, _, _ in list_states(outcome)]
    says = "has no valid time, so it is not a reading; write times like 2027-02-18T09:30:00Z"
    assert ("$.epcisBody.eventList[0].sensorElementList[0].sensorReport[2]", says) in list_warnings(outcome)


def test_a_new_owner_is_a_reading_and_not_the_operator_of_the_passport() -> None:
    outcome = read_facts("BOM", read_example("epcis-ownership-transfer"))

    assert decode_payloads(outcome)["battery:09521234010012/EX-75-0001"] == {
        "sku": "09521234010012/EX-75-0001",
        "serial_number": "EX-75-0001",
    }
    event, moment = "$.epcisBody.eventList[0]", "2028-03-01T10:00:00.000000Z"
    assert list_states(outcome) == [
        ("owner_id", moment, "https://id.gs1.org/417/9521234000099", event),
        ("previous_owner_id", moment, "https://id.gs1.org/417/9521234000006", event),
    ]
    says = "names a new owner, who need not be the operator responsible for the passport; it is a reading of `owner_id`"
    assert (f"{event}.destinationList", says) in list_warnings(outcome)


def test_an_event_that_leaves_the_owner_as_it_was_says_nothing() -> None:
    path = "epcisBody.eventList.0.destinationList.1.destination"
    document = change_example("epcis-ownership-transfer", path, "https://id.gs1.org/417/9521234000006")

    assert list_problems("BOM", document) == [
        ("$", "has no event about the state of a battery, an accident or a new owner")
    ]


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
