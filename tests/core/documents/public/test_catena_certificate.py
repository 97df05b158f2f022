"""Catena-X certificates about the life of a part: the status is read only where the document says what happened."""

import pytest

from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_states,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example

NAME = "catena-x-material-recycling-certificate"


def test_a_recycled_battery_is_waste_from_the_time_of_its_certificate() -> None:
    outcome = read_facts("BOM", read_example(NAME))

    assert decode_payloads(outcome)["battery:EX-75"] == {
        "sku": "EX-75",
        "status": "waste",
        "state_recorded_on": "2041-05-06",
    }
    assert list_states(outcome) == [("status", "2041-05-06T07:30:00.000000Z", "waste", "$.certificate.issueDate")]


@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("urn:samm:io.catenax.waste_certificate:1.0.0#WasteCertificate", "waste"),
        ("urn:samm:io.catenax.reuse_certificate:3.0.0#ReuseCertificate", "re-used"),
        ("RemanufacturingCertificate", "remanufactured"),
        ("urn:samm:io.catenax.repair_certificate:1.0.0#RepairCertificate", None),
    ],
)
def test_the_status_follows_from_the_model(model: str, status: str | None) -> None:
    outcome = read_facts("BOM", change_example(NAME, "specVersion", model))

    assert decode_payloads(outcome)["battery:EX-75"].get("status") == status
    assert list_warnings(outcome) == []


def test_without_its_model_a_certificate_does_not_change_the_status() -> None:
    outcome = read_facts("BOM", change_example(NAME, "specVersion", None))

    assert decode_payloads(outcome) == {"battery:EX-75": {"sku": "EX-75"}}
    [(at, says)] = list_warnings(outcome)
    assert at == "$.certificate"
    assert "The status was not read. Ask the sender to put `specVersion`" in says


def test_the_serial_number_of_a_later_version_is_read() -> None:
    document = change_example(NAME, "partInstanceId", [{"key": "partInstanceId", "value": "EX-75-0001"}])

    assert decode_payloads(read_facts("BOM", document))["battery:EX-75"]["serial_number"] == "EX-75-0001"
