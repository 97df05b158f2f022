"""Steps in EPCIS documents: only what is said without doubt, in the order of time, and each fault with its event."""

import json
from typing import Any

import pytest

from bpc.core.batteries.epcis_steps import read_epcis_steps
from bpc.core.errors import Invalid

EPC = "https://id.gs1.org/01/09521234000013/21/A1"
PLACE = {"id": "https://id.gs1.org/414/9521987000018"}


def make_event(**members: Any) -> dict[str, Any]:
    event = {"type": "ObjectEvent", "eventID": "urn:uuid:1", "eventTime": "2025-09-10T11:00:00+02:00", "epcList": [EPC]}
    return {**event, "bizLocation": PLACE, **members}


def make_document(*events: dict[str, Any]) -> bytes:
    return json.dumps({"type": "EPCISDocument", "epcisBody": {"eventList": list(events)}}).encode()


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"bizStep": "repairing"}, "REPAIRED"),
        ({"bizStep": "urn:epcglobal:cbv:bizstep:repairing"}, "REPAIRED"),
        ({"bizStep": "https://ref.gs1.org/cbv/BizStep-repairing"}, "REPAIRED"),
        ({"disposition": "disposed"}, "WASTE"),
        ({"disposition": "https://ref.gs1.org/cbv/Disp-disposed"}, "WASTE"),
        ({"eubat:hasBatteryStatus": "eubat:Waste"}, "WASTE"),
        ({"eubat:batteryStatus": {"id": "https://ref.openepcis.io/extensions/eu/battery/Waste"}}, "WASTE"),
        ({"bizStep": "destroying", "disposition": "destroyed"}, "RECYCLED"),
        ({"bizStep": "retail_selling", "disposition": "retail_sold"}, None),
        ({"bizStep": "inspecting", "disposition": "active"}, None),
        ({"eubat:hasBatteryStatus": "eubat:Original"}, None),
        ({"bizStep": 7}, None),
    ],
)
def test_an_event_is_a_step_if_it_says_so(members: dict[str, Any], kind: str | None) -> None:
    file = read_epcis_steps(make_document(make_event(**members)))

    assert ([step.kind for step in file.steps], file.faults, file.events) == ([] if kind is None else [kind], [], 1)


def test_a_step_says_who_did_what_when_and_by_which_event() -> None:
    papers = [{"type": "cert", "bizTransaction": "R-17"}]
    events = [
        make_event(eventID="b", eventTime="2026-01-01T00:30:00+01:00", bizStep="destroying", bizTransactionList=papers),
        make_event(eventID="a", disposition="disposed", **{"eubat:note": "handed in"}),
    ]

    first, second = read_epcis_steps(make_document(*events)).steps

    assert (first.kind, first.status, first.line) == ("WASTE", "waste", 2)
    assert first.said == {"performed_by": "GLN:9521987000018", "event": "a", "reason": "handed in"}
    assert (second.kind, second.effective_on.isoformat()) == ("RECYCLED", "2025-12-31")  # the day in UTC
    assert second.said == {"performed_by": "GLN:9521987000018", "event": "b", "report": "R-17"}
    assert (second.battery.gtin, second.battery.serial) == ("09521234000013", "A1")


def test_a_place_may_be_an_sgln_and_a_battery_an_sgtin_or_an_address_of_ours() -> None:
    own = "https://passports.example/p/11111111-1111-4111-8111-111111111111"
    place = {"id": "urn:epc:id:sgln:9521987.00001.0"}
    event = make_event(bizStep="repairing", bizLocation=place, epcList=["urn:epc:id:sgtin:9521234.000001.A1", own, own])

    steps = read_epcis_steps(make_document(event)).steps

    assert [step.said["performed_by"] for step in steps] == ["GLN:9521987000018"] * 2
    assert [(step.battery.gtin, str(step.battery.battery_id)) for step in steps] == [
        ("09521234000013", "None"),
        (None, own[-36:]),
    ]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"eventTime": "yesterday"}, "has no valid `eventTime`"),
        ({"eventID": None}, "has no `eventID`"),
        ({"epcList": []}, "names no battery"),
        ({"epcList": ["urn:epc:class:lgtin:9521234.000001.L1"]}, "names no single battery"),
        ({"epcList": ["https://id.gs1.org/01/09521234000014/21/A1"]}, "check digit"),
        ({"bizLocation": {"id": "https://id.gs1.org/414/9521987000019"}}, "check digit"),
        ({"bizLocation": {"id": "geo:22.3"}}, "does not say who did it"),
        ({"eubat:hasBatteryStatus": "eubat:Repurposed"}, "needs a new record"),
    ],
)
def test_what_keeps_an_event_from_being_a_step_is_said_with_its_number(members: dict[str, Any], says: str) -> None:
    file = read_epcis_steps(make_document(make_event(), make_event(bizStep="repairing", **members)))

    assert file.steps == []
    [fault] = file.faults
    assert (fault.line, says in fault.says) == (2, True), fault


def test_an_event_that_was_declared_an_error_is_not_read() -> None:
    step = make_event(bizStep="repairing")
    declaration = {**step, "errorDeclaration": {"declarationTime": "2025-09-11T00:00:00Z"}}

    assert read_epcis_steps(make_document(step, declaration)).steps == []


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b'{"epcisBody":{}}', b'{"epcisBody":{"eventList":[1]}}', b'{"a":1,"a":2}']
)
def test_what_is_no_epcis_document_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid):
        read_epcis_steps(content)
