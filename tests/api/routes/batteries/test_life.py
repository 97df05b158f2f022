"""The life of a battery over HTTP: read out in any order, repaired, waste, another life, recycled."""

import json
from typing import Any

import pytest

from bpc.core.audit.signing import Signer, parse_seed, to_base64
from bpc.core.formats.hashes import sha256
from tests.api.conftest import Api

GTIN = "09521234000013"
STEP = {"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "reason": "it was handed in"}
RECYCLING = {"effective_on": "2025-09-02", "performed_by": "GLN:9521234000006", "report": "R-1"}


@pytest.fixture
async def battery(admin: Api) -> str:
    product = (await admin.post_json("/v1/battery-products", {"sku": "P", "name": "Pack"}))["battery_product_id"]
    await admin.send("PUT", f"/v1/battery-products/{product}/identification", {"scheme": "GS1", "gtin": GTIN})
    return str((await admin.post_json("/v1/batteries", {"sku": "P", "serial_number": "A1"}))["battery_id"])


async def send_file(api: Api, content: bytes, **query: str) -> Any:
    return await api.send("POST", "/v1/batteries:readings", content=content, params={"source": "WORKSHOP", **query})


def make_reading(day: int, value: object, kind: str = "capacity_fade_pct") -> dict[str, object]:
    return {"kind": kind, "recorded_at": f"2025-08-{day:02d}T09:30:00+02:00", "value": value}


async def test_readings_in_any_order_are_stored_once_and_the_latest_is_by_its_own_time(
    admin: Api, auditor: Api, battery: str
) -> None:
    path = f"/v1/batteries/{battery}/readings"
    days = [7, 3, 9, 1, 10, 2, 8, 4, 6, 5]
    for day in days:
        body = {"source": "BMS", "readings": [make_reading(day, f"{day}.5"), make_reading(day, day, "full_cycles")]}
        assert (await admin.post_json(path, body))["stored"] == 2
    again = await admin.post_json(path, {"source": "BMS", "readings": [make_reading(3, "3.50")]})
    before = (await auditor.get_json(f"/v1/batteries/{battery}/series"))["items"]
    correction = await admin.post_json(path, {"source": "WORKSHOP", "readings": [make_reading(10, "11.25")]})

    assert (again["stored"], again["corrected"]) == (0, 0)
    assert (correction["stored"], correction["corrected"]) == (1, 1)
    latest = {item["kind"]: item["number"] for item in (await auditor.get_json(path))["items"]}
    assert latest == {"capacity_fade_pct": "11.250000", "full_cycles": "10.000000"}
    series = (await auditor.get_json(path, params={"kind": "capacity_fade_pct", "newest": 3}))["items"]
    assert [item["number"] for item in series] == ["8.500000", "9.500000", "11.250000"]
    period = {"kind": "full_cycles", "recorded_after": "2025-08-02", "recorded_before": "2025-08-04"}
    assert len((await auditor.get_json(path, params=period))["items"]) == 2
    known = series[-2]["received_at"]
    earlier = await auditor.get_json(path, params={"kind": "capacity_fade_pct", "at": known})
    assert "11.250000" not in {item["number"] for item in earlier["items"]}
    sealed = (await auditor.get_json(f"/v1/batteries/{battery}/series"))["items"]
    assert [(item["kind"], item["count"]) for item in sealed] == [("capacity_fade_pct", 10), ("full_cycles", 10)]
    assert sealed[0]["sha256"] != before[0]["sha256"]
    assert sealed[1] == before[1]
    picture = await auditor.get(f"{path}.svg", params={"kind": "capacity_fade_pct"})
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert b"<polyline" in picture.content
    assert b"no readings" in (await auditor.get(f"{path}.svg", params={"kind": "power_w"})).content
    assert (await auditor.get(path, params={"recorded_after": "2025-08-02"})).status_code == 422
    assert (await auditor.post(path, {"source": "BMS", "readings": [make_reading(1, 1)]})).status_code == 403


async def test_files_of_readings_are_checked_first_and_their_signature_too(
    admin: Api, auditor: Api, battery: str
) -> None:
    csv = f"gtin,serial_number,kind,recorded_at,value\n{GTIN},A1,power_w,2025-08-01T00:00:00Z,5000\n".encode()
    lines = (
        b'{"sku":"P","serial_number":"A1","kind":"full_cycles","recorded_at":"2025-08-01T00:00:00Z","value":12}\n'
        b'{"sku":"P","serial_number":"A1","kind":"full_cycles","recorded_at":"2025-08-01T00:00:00Z","value":12}\n'
    )
    signer = Signer(parse_seed(bytes(32)))
    signature, key = to_base64(signer.sign(sha256(csv))), to_base64(signer.public_key)

    forged = await send_file(admin, csv + b"\n", signature=signature, public_key=key)
    half = await send_file(admin, csv, signature=signature)
    signed = await send_file(admin, csv, signature=signature, public_key=key, sender="GLN:9521234000006")
    stored = await send_file(admin, lines)

    assert (forged.json()["error"]["code"], half.status_code) == ("SIGNATURE_INVALID", 422)
    assert (signed.json()["stored"], stored.json()["received"], stored.json()["stored"]) == (1, 1, 1)
    faulty = lines + b"".join(
        json.dumps({"kind": "power_w", "recorded_at": "2025-08-01T00:00:00Z", "value": "1", **row}).encode() + b"\n"
        for row in (
            {},
            {"battery_id": "x"},
            {"battery_id": battery, "serial_number": "A1"},
            {"gtin": "1", "serial_number": "A1"},
            {"battery_id": battery, "kind": "colour"},
            {"battery_id": battery, "kind": "status"},
            {"battery_id": battery, "value": "many"},
            {"battery_id": battery, "recorded_at": "yesterday"},
            {"battery_id": battery, "recorded_at": "2999-01-01T00:00:00Z"},
            {"battery_id": battery},
            {"battery_id": battery, "value": "2"},
        )
    )
    report = (await send_file(admin, faulty, validate_only="true")).json()
    assert [fault["line"] for fault in report["faults"]] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 13]
    assert (await send_file(admin, faulty)).json()["error"]["details"]["faults_total"] == 10
    unknown = await send_file(admin, lines.replace(b'"A1"', b'"A9"'))
    assert "names no battery that is registered" in unknown.json()["error"]["message"]
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=ReadingDelivery"))["items"]
    assert [event["payload"].get("sender") for event in events] == [None, "GLN:9521234000006"]


async def test_an_epcis_document_gives_readings_of_registered_batteries(admin: Api, auditor: Api, battery: str) -> None:
    event = {
        "type": "ObjectEvent",
        "eventTime": "2025-08-01T10:00:00Z",
        "epcList": [f"https://id.gs1.org/01/{GTIN}/21/A1"],
        "sensorElementList": [{"sensorReport": [{"type": "eubat:hasCapacityFade", "value": 6.5, "uom": "P1"}]}],
    }
    document = {"type": "EPCISDocument", "epcisBody": {"eventList": [event]}}

    stored = await send_file(admin, json.dumps(document).encode())

    assert (stored.status_code, stored.json().get("stored")) == (200, 1), stored.text
    latest = (await auditor.get_json(f"/v1/batteries/{battery}/readings"))["items"]
    assert [(item["kind"], item["number"]) for item in latest] == [("capacity_fade_pct", "6.500000")]
    assert (await send_file(admin, b'{"epcisBody": {}}')).status_code == 422


async def test_a_battery_is_repaired_becomes_waste_lives_again_and_is_recycled(
    admin: Api, auditor: Api, battery: str
) -> None:
    path = f"/v1/batteries/{battery}"
    early = await admin.post(f"{path}:recycle", RECYCLING)
    repaired = await admin.post_json(f"{path}:repair", STEP, status=200)
    waste = await admin.post_json(f"{path}:declare-waste", STEP, status=200)
    again = await admin.post(f"{path}:declare-waste", STEP)
    other = {"life": "repurposed", "effective_on": "2025-09-02", "performed_by": STEP["performed_by"], "sku": "P"}
    taken = await admin.post(f"{path}:begin-other-life", {**other, "serial_number": "A1"})
    second = await admin.post_json(f"{path}:begin-other-life", {**other, "serial_number": "S1"})

    assert "must be waste first" in early.json()["error"]["message"]
    assert (repaired["status"], waste["status"], again.status_code, taken.status_code) == (
        "original",
        "waste",
        409,
        409,
    )
    first = await auditor.get_json(path)
    assert (first["status"], first["successor"]) == ("repurposed", second["address"])
    assert (second["status"], second["predecessor"]) == ("repurposed", first["address"])
    gone_on = await admin.post(f"{path}:repair", STEP)
    assert second["address"] in gone_on.json()["error"]["message"]
    kinds = [change["kind"] for change in (await auditor.get_json(f"{path}/changes"))["items"]]
    assert kinds == ["REPAIRED", "WASTE", "SUCCEEDED"]

    new_path = f"/v1/batteries/{second['battery_id']}"
    await admin.post_json(f"{new_path}:declare-waste", STEP, status=200)
    recycled = await admin.post_json(f"{new_path}:recycle", RECYCLING, status=200)

    assert (recycled["status"], recycled["ceased_at"] is not None) == ("waste", True)
    readings = await admin.post(f"{new_path}/readings", {"source": "BMS", "readings": [make_reading(1, 1)]})
    assert "ceased" in readings.json()["error"]["message"]
    public = Api(admin.http, None)
    as_json: dict[str, Any] = {"headers": {"Accept": "application/json"}, "follow_redirects": True}
    assert (await public.get_json(f"/01/{GTIN}/21/S1", **as_json))["ceased"] is True
    assert (await public.get_json(f"/01/{GTIN}/21/A1", **as_json))["successor"] == second["address"]
    changes = (await auditor.get_json(f"{new_path}/changes"))["items"]
    states = [(await auditor.get_json(new_path, params={"at": change["changed_at"]})) for change in changes]
    assert [(state["status"], state["ceased_at"] is None) for state in states] == [
        ("repurposed", True),
        ("waste", True),
        ("waste", False),
    ]
    chain = (await auditor.get_json(f"/v1/audit/events?aggregate_type=Battery&aggregate_id={second['battery_id']}"))[
        "items"
    ]
    chain.sort(key=lambda event: event["aggregate_version"])  # two of them were recorded at the same time
    assert [event["event_type"] for event in chain] == [
        "BATTERY_CHAIN_BEGUN",
        "BATTERY_LIFE_BEGUN",
        "BATTERY_BECAME_WASTE",
        "BATTERY_RECYCLED",
    ]
    assert chain[0]["payload"]["leaf"] == 0
