"""Specification of RENEW_ITEMS: batteries of which more is known get a new version, on a tenant's schedule."""

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from bpc.tasks.renew_items import RenewOrder, RenewOutcome
from tests.api.conftest import Api
from tests.api.item_fixtures import SKU, find_battery, issue_items, issue_model, run_jobs


async def renew(service: Service, tenant: TenantId) -> RenewOutcome:
    handler = service.task_jobs.renew_items
    job = await service.jobs.submit(handler, RenewOrder(sku=SKU), tenant=tenant)
    await run_jobs(service)
    outcome: RenewOutcome = await service.jobs.get_result(handler, tenant, job)
    return outcome


async def count_versions(admin: Api) -> list[int]:
    batteries = [await find_battery(admin, serial) for serial in ("A1", "A2", "A3")]
    listed = [await admin.get_json(f"/v1/batteries/{battery}/passport-versions") for battery in batteries]
    return [len(versions["items"]) for versions in listed]


async def test_only_batteries_with_new_readings_or_another_status_are_issued_again(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    await issue_model(admin, service, database, tenant, act)
    await issue_items(admin, service)
    first = await renew(service, tenant)
    battery = await find_battery(admin, "A2")
    reading = {"kind": "capacity_fade_pct", "recorded_at": "2026-09-01T10:00:00Z", "value": "4.5"}
    await admin.post_json(f"/v1/batteries/{battery}/readings", {"source": "BMS", "readings": [reading]})

    second = await renew(service, tenant)
    third = await renew(service, tenant)

    assert [(each.looked_at, each.renewed) for each in (first, second, third)] == [(3, 0), (3, 1), (3, 0)]
    assert await count_versions(admin) == [1, 2, 1]
    payload = await admin.get_json(f"/v1/batteries/{battery}/payload")
    assert payload["fields"]["item"]["readings"] == 1
    run = await admin.get_json(f"/v1/item-runs/{second.item_run_id}")
    assert (run["status"], run["issued"], run["unchanged"]) == ("FINISHED", 1, 2)

    await issue_model(admin, service, database, tenant, act, mass="900")
    after_a_new_model = await renew(service, tenant)

    assert (after_a_new_model.looked_at, after_a_new_model.renewed) == (0, 0)
    assert await count_versions(admin) == [1, 2, 1]


async def test_a_tenant_schedules_it_for_a_product_that_there_is(admin: Api) -> None:
    body = {"name": "renew", "type": "RENEW_ITEMS", "cron": "0 3 1 * *", "input": {"sku": "NONE"}}

    unknown = await admin.post("/v1/schedules", body)
    await admin.post_json("/v1/battery-products", {"sku": "PACK", "name": "Pack"})
    schedule = await admin.post_json("/v1/schedules", {**body, "input": {"sku": "PACK"}})
    wrong = await admin.post("/v1/schedules", {**body, "name": "other", "input": {"model": "PACK"}})

    assert (unknown.status_code, wrong.status_code) == (404, 422)
    assert (schedule["type"], schedule["paused"]) == ("RENEW_ITEMS", False)
