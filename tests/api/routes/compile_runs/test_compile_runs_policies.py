"""Bulk compiles and policies: a row that the caller may not request fails alone, on record."""

from typing import Any, TypeAlias

import asyncpg
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.pipeline.compile_fixtures import publish_rules

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act))


async def test_a_row_whose_activation_a_policy_denies_fails_alone_and_on_record(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await insert_facts(database, tenant, "SKU-8", "SKU-91", "SKU-92")
    for sku in ("SKU-8", "SKU-91", "SKU-92"):
        await admin.post_json("/v1/battery-products", {"sku": sku, "name": "Cell"})
    about = {"resource": {"type": "PassportVersion", "sku": "SKU-9*"}}
    policy = {"effect": "DENY", "target": "passport:compile", "priority": 100, "policy_json": about}
    await admin.post_json("/v1/policies", {"name": "not those", **policy})
    items: list[dict[str, Any]] = [{"sku": "SKU-8"}, {"sku": "SKU-91"}, {"sku": "SKU-92", "activate": False}]

    run = await request_run(officer, rules, *items, activate=True)
    await run_all_jobs(service)

    rows = await list_rows(admin, run)
    assert [(row["status"], row["error"] and row["error"]["code"]) for row in rows] == [
        ("ACTIVE", None),
        ("FAILED", "FORBIDDEN"),
        ("ISSUED", None),
    ]
    alone = await officer.post(f"/v1/passport-versions/{rows[2]['passport_version_id']}/activate")
    assert alone.status_code == 403
    denied = "SELECT array_agg(payload->>'route' ORDER BY occurred_at) FROM events WHERE event_type = 'ACCESS_DENIED'"
    assert (await superuser.fetchval(denied))[0] == "/v1/passports:bulk-compile"


async def test_a_row_about_a_product_that_a_policy_denies_fails_alone_and_on_record(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await insert_facts(database, tenant, "SKU-8", "SKU-91")
    for sku in ("SKU-8", "SKU-91"):
        await admin.post_json("/v1/battery-products", {"sku": sku, "name": "Cell"})
    about = {"resource": {"type": "Passport", "sku": "SKU-9*"}}
    policy = {"effect": "DENY", "target": "passport:*", "priority": 100, "policy_json": about}
    await admin.post_json("/v1/policies", {"name": "not those", **policy})

    run = await request_run(officer, rules, {"sku": "SKU-8"}, {"sku": "SKU-91"})
    await run_all_jobs(service)

    rows = await list_rows(admin, run)
    assert [(row["status"], row["error"] and row["error"]["code"]) for row in rows] == [
        ("ISSUED", None),
        ("FAILED", "FORBIDDEN"),
    ]
    assert rows[1]["passport_version_id"] is None
    denied = "SELECT payload->>'route' FROM events WHERE event_type = 'ACCESS_DENIED'"
    assert await superuser.fetchval(denied) == "/v1/passports:bulk-compile"


async def test_no_snapshot_is_made_for_somebody_whom_a_policy_keeps_facts_from(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})
    [fact, *_] = (await admin.get_json("/v1/facts"))["items"]
    about = {"resource": {"type": "Fact", "ids": [fact["fact_id"]]}, "roles": ["ComplianceOfficer"]}
    policy = {"effect": "DENY", "target": "docs:read", "priority": 100, "policy_json": about}
    await admin.post_json("/v1/policies", {"name": "not this one", **policy})

    runs = [await request_run(api, rules, {"sku": "A"}) for api in (officer, admin)]
    await run_all_jobs(service)

    rows = [(await list_rows(admin, run))[0] for run in runs]
    assert [(row["status"], row["error"] and row["error"]["code"]) for row in rows] == [
        ("FAILED", "FORBIDDEN"),
        ("ISSUED", None),
    ]


async def test_only_who_may_create_products_creates_them_by_a_run(
    officer: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "NEW")

    run = await request_run(officer, rules, {"sku": "NEW", "name": "Cell"})
    await run_all_jobs(service)

    [row] = await list_rows(officer, run)
    assert (row["status"], row["error"]["code"]) == ("FAILED", "FORBIDDEN")
    assert "tenant:admin" in row["error"]["message"]
