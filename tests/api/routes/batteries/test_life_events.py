"""EPCIS events over HTTP: all steps or none, in their order, once each."""

import json
from typing import Any

import pytest

from tests.api.conftest import Api

GTIN = "09521234000013"
PLACE = {"id": "https://id.gs1.org/414/9521987000018"}


def make_event(number: int, serial: str = "A1", **members: Any) -> dict[str, Any]:
    epc = f"https://id.gs1.org/01/{GTIN}/21/{serial}"
    moment = f"2025-09-{number:02}T11:00:00Z"
    return {"eventID": f"urn:uuid:{number}", "eventTime": moment, "epcList": [epc], "bizLocation": PLACE, **members}


async def send(api: Api, *events: dict[str, Any], **query: str) -> Any:
    content = json.dumps({"type": "EPCISDocument", "epcisBody": {"eventList": list(events)}}).encode()
    return await api.send("POST", "/v1/batteries:events", content=content, params=query)


@pytest.fixture
async def battery(admin: Api) -> str:
    product = (await admin.post_json("/v1/battery-products", {"sku": "P", "name": "Pack"}))["battery_product_id"]
    body = {"scheme": "GS1", "gtin": GTIN}
    await admin.send("PUT", f"/v1/battery-products/{product}/identification", body)
    return str((await admin.post_json("/v1/batteries", {"sku": "P", "serial_number": "A1"}))["battery_id"])


async def test_events_are_recorded_once_in_the_order_of_their_times_and_all_or_none(
    admin: Api, auditor: Api, officer: Api, battery: str
) -> None:
    recycled = make_event(3, bizStep="destroying")
    waste, repaired = make_event(2, disposition="disposed"), make_event(1, bizStep="repairing")
    sold = make_event(1, eventID="sold", bizStep="retail_selling")

    too_early = await send(officer, repaired, recycled)
    unknown = await send(officer, repaired, make_event(4, serial="A9", bizStep="repairing"))
    checked = (await send(officer, recycled, waste, repaired, sold, validate_only="true")).json()

    assert (too_early.status_code, too_early.json()["error"]["details"]["faults"][0]["line"]) == (422, 2)
    assert "it must be waste first" in too_early.json()["error"]["message"]
    assert "names no battery that is registered" in unknown.json()["error"]["message"]
    assert (checked["events"], checked["recorded"], checked["faults"]) == (4, 3, [])
    assert (await auditor.get_json(f"/v1/batteries/{battery}/changes"))["items"] == []

    first = (await send(officer, recycled, waste, repaired, sold)).json()
    second = (await send(officer, recycled, waste, repaired, sold)).json()

    assert (first["recorded"], first["unchanged"], second["recorded"], second["unchanged"]) == (3, 0, 0, 3)
    changes = (await auditor.get_json(f"/v1/batteries/{battery}/changes"))["items"]
    assert [(change["kind"], change["effective_on"]) for change in changes] == [
        ("REPAIRED", "2025-09-01"),
        ("WASTE", "2025-09-02"),
        ("RECYCLED", "2025-09-03"),
    ]
    assert changes[0]["said"]["performed_by"] == "GLN:9521987000018"
    late = await send(officer, make_event(4, bizStep="repairing"))
    assert "its passport has ceased" in late.json()["error"]["message"]
    assert (await send(auditor, repaired)).status_code == 403
    verified = await auditor.get_json("/v1/audit/verify")
    assert (verified["faults"], verified["row_faults"]) == ([], [])
