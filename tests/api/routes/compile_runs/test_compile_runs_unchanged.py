"""Bulk compiles leave out what would not change, and repeat what failed."""

from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.pipeline.compile_fixtures import RULES, publish_rules
from tests.tasks.product_facts import insert_document_facts, make_battery, make_footprint

ITEM: dict[str, Any] = {"sku": "A", "name": "Cell"}


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act))


async def run_row(api: Api, service: Service, rules: str, **more: Any) -> dict[str, Any]:
    run = await request_run(api, rules, ITEM, **{"activate": True, **more})
    await run_all_jobs(service)
    [row] = await list_rows(api, run)
    return row


async def test_a_passport_that_would_say_the_same_is_skipped_and_its_active_version_named(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    first = await run_row(admin, service, rules)

    run = await request_run(admin, rules, ITEM, activate=True)
    await run_all_jobs(service)

    [row] = await list_rows(admin, run)
    assert (first["status"], row["status"], row["error"]) == ("ACTIVE", "SKIPPED", None)
    assert (row["passport_version_id"], row["passport_version_status"]) == (first["passport_version_id"], "ACTIVE")
    standing = await admin.get_json(f"/v1/compile-runs/{run}")
    assert (standing["counts"]["SKIPPED"], standing["progress"], standing["skip_unchanged"]) == (1, 100, True)
    assert standing["finished_at"] is not None
    version = await admin.get_json(f"/v1/passport-versions/{row['passport_version_id']}")
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "Passport", AggregateId(version["passport_id"])))
        snapshots = await conn.fetchval("SELECT count(*) FROM data_snapshots")
    assert chain[-1].event.event_type == "COMPILE_SKIPPED"
    assert snapshots == 1


async def test_force_compiles_it_all_the_same(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")

    rows = [await run_row(admin, service, rules, force=force) for force in (False, True)]

    assert [row["status"] for row in rows] == ["ACTIVE", "ACTIVE"]
    assert rows[0]["passport_version_id"] != rows[1]["passport_version_id"]


async def test_a_corrected_document_other_rules_or_other_access_are_compiled(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    await run_row(admin, service, rules)
    async with database.tenant(tenant) as conn:
        other_access = str(await publish_rules(conn, tenant, act, RULES.replace(b"@authority", b"@public")))

    statuses = [(await run_row(admin, service, other_access))["status"]]
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_footprint("A", "6041.00")])
    statuses.append((await run_row(admin, service, other_access))["status"])
    statuses.append((await run_row(admin, service, other_access))["status"])

    assert statuses == ["ACTIVE", "ACTIVE", "SKIPPED"]


async def test_a_version_that_is_not_active_is_no_reason_to_skip(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")

    rows = [await run_row(admin, service, rules, activate=False) for _ in range(2)]

    assert [row["status"] for row in rows] == ["ISSUED", "ISSUED"]


async def test_what_failed_can_be_repeated_and_nothing_else(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_battery("B")])
    first = await request_run(admin, rules, ITEM, {"sku": "B", "name": "Pack"}, {"sku": "C"}, activate=True)
    await run_all_jobs(service)
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_footprint("B")])

    body = {"rule_package_version_id": rules, "failed_of": first}
    second = (await admin.post_json("/v1/passports:bulk-compile", body, status=202))["run_id"]
    await run_all_jobs(service)

    rows = await list_rows(admin, second)
    assert [(row["row"], row["sku"], row["status"]) for row in rows] == [(1, "B", "ACTIVE"), (2, "C", "FAILED")]


async def test_a_run_without_failures_has_nothing_to_repeat(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    run = await request_run(admin, rules, ITEM)
    await run_all_jobs(service)

    body = {"rule_package_version_id": rules, "failed_of": run}
    refused = await admin.post("/v1/passports:bulk-compile", body)

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")


async def test_only_one_way_to_choose_rows_is_accepted(admin: Api, rules: str) -> None:
    body = {"rule_package_version_id": rules, "all": True, "items": [ITEM]}

    assert (await admin.post("/v1/passports:bulk-compile", body)).status_code == 422
