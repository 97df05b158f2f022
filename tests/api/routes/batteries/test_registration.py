"""Batteries over HTTP: registered by file or one by one, found by what their labels say, and never changed."""

from typing import Any

import pytest

from tests.api.conftest import Api

GTIN = "09521234000013"
CSV = (
    b"sku;serial_number;batch_number;plant;manufactured_on\nP;A1;B1;GLN:9521234000013;2027-08-01\nP;A/2;B1;;\nP;A3;;;\n"
)


async def register(api: Api, content: bytes, **query: str) -> Any:
    return await api.send("POST", "/v1/batteries:register", content=content, params=query)


@pytest.fixture
async def product(admin: Api) -> str:
    product_id = (await admin.post_json("/v1/battery-products", {"sku": "P", "name": "Pack"}))["battery_product_id"]
    body = {"scheme": "GS1", "gtin": "9521234000013", "operator_scheme": "LEI", "operator_id": "5493001KJTIIGC8Y1R12"}
    answer = await admin.send("PUT", f"/v1/battery-products/{product_id}/identification", body)
    assert (answer.status_code, answer.json()["gtin"]) == (200, GTIN), answer.text
    return str(product_id)


async def test_a_file_is_checked_first_registered_once_and_covered_by_one_event(
    admin: Api, auditor: Api, officer: Api, product: str
) -> None:
    faulty = await register(officer, CSV + b"Q;A4;;;\nP;A1;;;\nP;A 5;;GLN:1;2027-02-30\n")
    error = faulty.json()["error"]
    assert (faulty.status_code, error["details"]["faults_total"]) == (422, 5)
    assert [(fault["line"], fault["column"]) for fault in error["details"]["faults"]] == [
        (5, "sku"),
        (6, "serial_number"),
        (7, "serial_number"),
        (7, "manufactured_on"),
        (7, "plant"),
    ]
    assert (await auditor.get_json("/v1/batteries"))["items"] == []

    checked = (await register(officer, CSV, validate_only="true")).json()
    first = (await register(officer, CSV)).json()
    second = (await register(officer, CSV)).json()

    assert (checked["registered"], checked["registration_id"], first["registered"]) == (3, None, 3)
    assert (second["registered"], second["unchanged"], second["registration_id"]) == (0, 3, None)
    changed = await register(officer, CSV.replace(b"2027-08-01", b"2027-08-02"))
    assert "is registered with another manufactured on" in changed.json()["error"]["message"]
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=BatteryRegistration"))["items"]
    assert [(event["event_type"], event["payload"]["count"]) for event in events] == [("BATTERIES_REGISTERED", 3)]
    assert (await register(auditor, CSV)).status_code == 403
    by_batch = await auditor.get_json("/v1/batteries?sku=P&batch_number=B1")
    assert {battery["serial_number"] for battery in by_batch["items"]} == {"A1", "A/2"}
    batches = (await auditor.get_json("/v1/batches?sku=P"))["items"]
    assert [batch["batch_number"] for batch in batches] == ["B1"]
    assert (await admin.get_json(f"/v1/batches/{batches[0]['battery_batch_id']}"))["sku"] == "P"
    taken = await admin.post("/v1/batches", {"sku": "P", "batch_number": "B1"})
    assert (taken.status_code, taken.json()["error"]["details"]) == (
        409,
        {"battery_batch_id": batches[0]["battery_batch_id"]},
    )


async def test_a_battery_is_found_by_everything_its_label_can_say(
    admin: Api, other_admin: Api, auditor: Api, product: str
) -> None:
    await register(admin, CSV)
    by_serial = (await auditor.get_json("/v1/batteries:lookup?serial_number=A%2F2"))["items"]
    assert len(by_serial) == 1
    battery = by_serial[0]
    assert battery["address"] == f"/01/{GTIN}/21/A%2F2"

    for query in (
        {"gtin": "9521234000013", "serial_number": "A/2"},
        {"text": "A/2"},
        {"text": battery["address"]},
        {"text": f"https://id.example.com{battery['address']}"},
        {"text": f"(01){GTIN}(21)A/2"},
        {"text": f"/p/{battery['battery_id']}"},
    ):
        answer = await auditor.get_json("/v1/batteries:lookup", params=query)
        assert [item["battery_id"] for item in answer["items"]] == [battery["battery_id"]], query
        assert (await other_admin.get_json("/v1/batteries:lookup", params=query))["items"] == []
    for query in ({}, {"gtin": GTIN}, {"text": "A", "serial_number": "A"}, {"gtin": "1", "serial_number": "A"}):
        assert (await auditor.get("/v1/batteries:lookup", params=query)).status_code == 422
    anonymous = Api(admin.http, None)
    for path in (f"/01/{GTIN}/21/A%2F2", f"/p/{battery['battery_id']}"):
        answer = await anonymous.get_json(path, headers={"Accept": "application/json"}, follow_redirects=True)
        assert answer == {"ceased": False, "ceased_at": None, "successor": None}
    assert (await anonymous.get(f"/01/{GTIN}/21/A9")).status_code == 404
    assert (await anonymous.get("/01/1/21/A9")).status_code == 400


async def test_one_battery_is_registered_and_placed_on_the_market_which_fixes_its_identification(
    admin: Api, product: str
) -> None:
    path = f"/v1/battery-products/{product}/identification"
    battery = await admin.post_json(
        "/v1/batteries", {"sku": "P", "serial_number": "A1", "manufactured_on": "2027-08-01"}
    )
    again = await admin.post_json("/v1/batteries", {"sku": "P", "serial_number": "A1"})
    assert again == battery
    assert (await admin.post("/v1/batteries", {"sku": "P", "serial_number": "A 1"})).status_code == 422
    registered = await admin.send("PUT", path, {"granularity": "BATCH", "scheme": "GS1", "gtin": GTIN})
    assert registered.json()["error"]["message"].startswith("batteries of this product are registered")

    place = f"/v1/batteries/{battery['battery_id']}:place-on-market"
    future = await admin.post(place, {"placed_on": "2999-01-01"})
    placed = await admin.post_json(place, {"placed_on": "2025-08-20"}, status=200)
    twice = await admin.post(place, {"placed_on": "2025-08-21"})

    assert (future.status_code, placed["placed_on"], twice.status_code) == (422, "2025-08-20", 409)
    assert (await admin.get_json(path))["fixed_at"] is not None
    fixed = await admin.send("PUT", path, {"granularity": "MODEL"})
    assert fixed.json()["error"]["message"].startswith("batteries of this product are on the market")
    operator = {"scheme": "GS1", "gtin": GTIN, "operator_scheme": "VAT", "operator_id": "DE136695976"}
    assert (await admin.send("PUT", path, operator)).status_code == 200
    for body in ({"scheme": "GS1"}, {"operator_scheme": "LEI"}, {"operator_scheme": "LEI", "operator_id": "X"}):
        assert (await admin.send("PUT", path, body)).status_code == 422
    before = placed["registered_at"]
    assert (await admin.get_json(f"/v1/batteries/{battery['battery_id']}?at={before}"))["placed_on"] is None
    early = await admin.get(f"/v1/batteries/{battery['battery_id']}?at=2020-01-01")
    assert early.status_code == 404


async def test_products_identify_their_batteries_in_their_own_way(admin: Api, product: str) -> None:
    links, batches = [
        (await admin.post_json("/v1/battery-products", {"sku": sku, "name": sku}))["battery_product_id"]
        for sku in ("L", "M")
    ]
    taken = await admin.send("PUT", f"/v1/battery-products/{links}/identification", {"scheme": "GS1", "gtin": GTIN})
    assert (taken.status_code, taken.json()["error"]["details"]) == (409, {"battery_product_id": product})
    await admin.send("PUT", f"/v1/battery-products/{links}/identification", {"scheme": "IEC61406"})
    await admin.send("PUT", f"/v1/battery-products/{batches}/identification", {"granularity": "BATCH"})

    linked = await admin.post_json(
        "/v1/batteries", {"sku": "L", "serial_number": "Ä 1", "address": "https://maker.example/L1"}
    )

    assert linked["address"] == "https://maker.example/L1"
    lookup = await admin.get_json("/v1/batteries:lookup", params={"text": "https://maker.example/L1"})
    assert [battery["battery_id"] for battery in lookup["items"]] == [linked["battery_id"]]
    for body, says in (
        ({"sku": "L", "serial_number": "2"}, "has no address"),
        ({"sku": "L", "serial_number": "2", "address": "https://maker.example/L1"}, "address of another battery"),
        ({"sku": "P", "serial_number": "2", "address": "https://maker.example/L2"}, "which is made of its number"),
        ({"sku": "M", "serial_number": "2"}, "is identified by batch"),
        ({"sku": "P", "serial_number": "2", "placed_on": "2025-01-01", "manufactured_on": "2025-01-02"}, "before"),
    ):
        assert says in (await admin.post("/v1/batteries", body)).json()["error"]["message"]
