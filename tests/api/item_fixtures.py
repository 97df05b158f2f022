"""A product with an active passport that batteries can lie below, and runs of its batteries, over HTTP."""

from typing import Any

from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.core.items import sample_layers as sample
from tests.pipeline.compile_fixtures import create_sealed_snapshot, publish_rules

SKU = sample.SKU
CSV = (
    b"serial_number,batch_number,manufactured_on,remaining_capacity_ah,full_cycles\n"
    b"A1,B1,2026-08-01,9.5,3\nA2,B1,2026-08-01,9.5,\nA3,,2026-08-02,5,1\n"
)


async def issue_model(
    admin: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    *,
    mass: str = "800",
    rules: str = sample.RULES,
) -> str:
    """The id of an active version of the product's passport; another mass makes another version."""
    listed = (await admin.get_json("/v1/battery-products", params={"sku": SKU}))["items"]
    if listed:
        product = listed[0]["battery_product_id"]
        passport = (await admin.get_json("/v1/passports", params={"sku": SKU}))["items"][0]["passport_id"]
    else:
        product = (await admin.post_json("/v1/battery-products", {"sku": SKU, "name": "Pack"}))["battery_product_id"]
        passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    battery = {"sku": SKU, "model": "P48", "facility_id": "PLANT-0", "rated_capacity_ah": "10"}
    facts = (
        sample.make_fact("Battery", f"battery:{SKU}", battery),
        sample.make_fact("Component", f"component:{SKU}:a", {"sku": SKU, "part": "a", "mass_g": mass}),
        # A model has no serial number, which its rules ask for; its batteries have their own.
        sample.make_fact("Item", f"item:{SKU}", {"serial_number": "MODEL"}),
    )
    async with database.tenant(tenant) as conn:
        snapshot = await create_sealed_snapshot(conn, tenant, facts)
        package = await publish_rules(conn, tenant, act, rules.encode())
    body = {"snapshot_id": str(snapshot), "rule_package_version_id": str(package)}
    version = (await admin.post_json(f"/v1/passports/{passport}/compile", body, status=202))["passport_version_id"]
    await run_jobs(service)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", status=200)
    await run_jobs(service)
    return str(version)


async def request_items(api: Api, content: bytes = CSV, *, sku: str = SKU, **query: str) -> Any:
    return await api.send("POST", "/v1/item-runs", content=content, params={"sku": sku, **query})


async def issue_items(api: Api, service: Service, content: bytes = CSV, **query: str) -> Any:
    """The report of a run that has finished."""
    answer = await request_items(api, content, **query)
    assert answer.status_code == 202, answer.text
    await run_jobs(service)
    return answer.json()


async def run_jobs(service: Service) -> None:
    await Worker(service.jobs).run_until_idle()


async def find_battery(api: Api, serial: str) -> str:
    items = (await api.get_json("/v1/batteries", params={"sku": SKU, "serial_number": serial}))["items"]
    return str(items[0]["battery_id"])
