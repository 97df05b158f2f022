"""A policy that denies a product, a passport, rules or a battery holds wherever a request about batteries names them.

In files, in bodies, and in what lies above a battery: views and bundles of a battery hold those of its model.
"""

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import httpx2

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.item_fixtures import SKU, find_battery, issue_items, issue_model, request_items
from tests.api.transfer_fixtures import STEP

READINGS = "serial_number,sku,kind,recorded_at,value\nA1,{sku},capacity_fade_pct,2026-09-01T00:00:00Z,4.5\n"


async def _deny(admin: Api, target: str, about: dict[str, Any]) -> str:
    body = {"effect": "DENY", "target": target, "policy_json": {"resource": about}}
    return str((await admin.post_json("/v1/policies", {"name": str(clock.new_id()), **body}))["policy_id"])


async def _check_each(
    admin: Api, cases: list[tuple[str, str, dict[str, Any], Callable[[], Awaitable[httpx2.Response]]]]
) -> None:
    """Each request is done without its policy, and refused with it."""
    for name, target, about, send in cases:
        policy = await _deny(admin, target, about)
        refused = await send()
        assert refused.status_code == 403, (name, refused.text)
        assert refused.json()["error"]["details"]["reason"] == f"a policy denies `{target}`", name
        await admin.post_json(f"/v1/policies/{policy}:deactivate", status=200)
        done = await send()
        assert done.status_code < 300, (name, done.text)


async def test_what_lies_above_a_battery_is_denied_with_it(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    model = await issue_model(admin, service, database, tenant, act)
    await issue_items(admin, service)
    battery = await find_battery(admin, "A1")
    listed_version = await admin.get_json(f"/v1/passport-versions/{model}")
    product = (await admin.get_json("/v1/battery-products", params={"sku": SKU}))["items"][0]["battery_product_id"]

    async def get_bundle() -> httpx2.Response:
        return await officer.get(f"/v1/batteries/{battery}/bundle")

    async def get_view() -> httpx2.Response:
        return await officer.get(f"/v1/batteries/{battery}/passport", params={"audience": "authority"})

    async def issue() -> httpx2.Response:
        answer: httpx2.Response = await request_items(officer)
        return answer

    async def rebase() -> httpx2.Response:
        return await officer.send("POST", "/v1/item-runs:rebase", params={"sku": SKU})

    rules = [listed_version["rule_package_version_id"]]
    await _check_each(
        admin,
        [
            ("bundle of a model by id", "passport:bundle", {"type": "PassportVersion", "ids": [model]}, get_bundle),
            ("bundle of a model by SKU", "passport:bundle", {"type": "PassportVersion", "sku": "PACK*"}, get_bundle),
            ("view of a model", "passport:read", {"type": "PassportVersion", "ids": [model]}, get_view),
            ("issue by product", "passport:compile", {"type": "BatteryProduct", "ids": [product]}, issue),
            ("issue by SKU", "passport:compile", {"type": "BatteryProduct", "sku": SKU}, issue),
            ("issue by passport", "passport:*", {"type": "Passport", "ids": [listed_version["passport_id"]]}, issue),
            ("issue by version", "passport:compile", {"type": "PassportVersion", "ids": [model]}, issue),
            ("issue by rules", "rules:read", {"type": "RulePackageVersion", "ids": rules}, rebase),
        ],
    )


async def test_what_a_file_or_a_body_names_is_denied_too(
    admin: Api, officer: Api, other_tenant: TenantId, superuser: Any
) -> None:
    product = (await admin.post_json("/v1/battery-products", {"sku": SKU, "name": "Pack"}))["battery_product_id"]
    other_product = (await admin.post_json("/v1/battery-products", {"sku": "STORAGE-5", "name": "Storage"}))[
        "battery_product_id"
    ]
    numbers = iter(range(1, 100))

    async def register() -> httpx2.Response:
        return await officer.post("/v1/batteries", {"sku": SKU, "serial_number": f"A{next(numbers)}"})

    async def register_file() -> httpx2.Response:
        content = f"sku,serial_number\n{SKU},A{next(numbers)}\n".encode()
        return await officer.send("POST", "/v1/batteries:register", content=content)

    async def create_batch() -> httpx2.Response:
        return await officer.post("/v1/batches", {"sku": SKU, "batch_number": f"B{next(numbers)}"})

    about_product = {"type": "BatteryProduct", "ids": [product]}
    await _check_each(
        admin,
        [
            ("register", "battery:register", about_product, register),
            ("register a file", "battery:register", about_product, register_file),
            ("create a batch", "battery:*", {"type": "BatteryProduct", "sku": SKU}, create_batch),
        ],
    )
    body = {"sku": SKU, "serial_number": "W1", "manufactured_on": "2024-01-02", "placed_on": "2024-02-03"}
    battery = str((await admin.post_json("/v1/batteries", body))["battery_id"])
    await admin.post_json(f"/v1/batteries/{battery}:declare-waste", STEP, status=200)
    content = READINGS.format(sku=SKU).replace("A1,", "W1,").encode()

    async def send_readings() -> httpx2.Response:
        return await officer.send("POST", "/v1/batteries:readings", content=content, params={"source": "BMS"})

    async def offer() -> httpx2.Response:
        offered = {"battery_id": battery, "to_tenant_id": str(other_tenant), "operator": "GLN:9521234000006"}
        return await officer.post("/v1/transfers", offered)

    async def begin_other_life() -> httpx2.Response:
        life = {"life": "repurposed", "effective_on": date(2026, 1, 1).isoformat(), "sku": "STORAGE-5"}
        step = {"performed_by": "GLN:9521234000006", "serial_number": "S1"}
        return await officer.post(f"/v1/batteries/{battery}:begin-other-life", {**life, **step})

    about_battery = {"type": "Battery", "ids": [battery]}
    await _check_each(
        admin,
        [
            ("readings of a file", "battery:readings", about_battery, send_readings),
            ("another life", "battery:status", {"type": "BatteryProduct", "ids": [other_product]}, begin_other_life),
        ],
    )
    await _deny(admin, "battery:transfer", about_battery)
    assert (await offer()).status_code == 403
    assert await superuser.fetchval("SELECT count(*) FROM battery_transfers") == 0
