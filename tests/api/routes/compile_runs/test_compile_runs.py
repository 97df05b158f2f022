"""Bulk compiles over HTTP: each row for itself, and how it stands is always what is true."""

from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest
from service_jobs import RequestQueue

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import PassportId, RulePackageVersionId, TenantId
from bpc.pipeline.compile import request_compile
from bpc.runtime import clock
from bpc.storage.audit import retention
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.pipeline.compile_fixtures import create_sealed_snapshot, publish_rules
from tests.tasks.product_facts import insert_document_facts, make_battery, make_footprint

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act))


async def test_products_and_passports_are_made_and_versions_issued_from_what_is_known(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A", "B")
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})

    run = await request_run(admin, rules, {"sku": "A"}, {"sku": "B", "name": "Pack"})
    before = await admin.get_json(f"/v1/compile-runs/{run}")
    await run_all_jobs(service)

    assert (before["counts"]["WAITING"], before["progress"], before["finished_at"]) == (2, 0, None)
    after = await admin.get_json(f"/v1/compile-runs/{run}")
    assert (after["counts"]["ISSUED"], after["rows"], after["progress"]) == (2, 2, 100)
    assert after["created_at"] <= after["started_at"] <= after["finished_at"]
    rows = await list_rows(admin, run)
    assert [(row["row"], row["sku"], row["status"], row["error"]) for row in rows] == [
        (1, "A", "ISSUED", None),
        (2, "B", "ISSUED", None),
    ]
    for row in rows:
        version = await admin.get_json(f"/v1/passport-versions/{row['passport_version_id']}")
        assert version["status"] == row["passport_version_status"] == "SIGNED"
    assert (await admin.get_json("/v1/audit/verify"))["faults"] == []


async def test_a_row_that_fails_says_why_and_stops_no_other(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "GOOD")
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_battery("NO-PCF")])
    items: list[dict[str, Any]] = [
        {"sku": "GOOD", "name": "Cell"},
        {"sku": "UNKNOWN"},
        {"sku": "NO-FACTS", "name": "Cell"},
        {"sku": "NO-PCF", "name": "Cell"},
        {"sku": "NO-SNAPSHOT", "name": "Cell", "snapshot_id": str(clock.new_id())},
    ]

    run = await request_run(admin, rules, *items)
    await run_all_jobs(service)

    rows_by_sku = {row["sku"]: row for row in await list_rows(admin, run)}
    assert {sku: row["status"] for sku, row in rows_by_sku.items()} == {
        "GOOD": "ISSUED",
        "UNKNOWN": "FAILED",
        "NO-FACTS": "FAILED",
        "NO-PCF": "FAILED",
        "NO-SNAPSHOT": "FAILED",
    }
    assert rows_by_sku["UNKNOWN"]["error"]["message"].startswith("there is no battery product with the SKU `UNKNOWN`")
    assert rows_by_sku["NO-FACTS"]["error"]["code"] == "CONFLICT"
    assert rows_by_sku["NO-PCF"]["error"]["code"] == "RULE_ASSERTION_FAILED"
    assert rows_by_sku["NO-SNAPSHOT"]["error"]["code"] == "NOT_FOUND"
    assert all(row["error"]["next_step"] for row in rows_by_sku.values() if row["error"])
    assert {row["sku"] for row in await list_rows(admin, run, status="FAILED")} == rows_by_sku.keys() - {"GOOD"}
    # What a row that fails has made is undone with it.
    skus = {product["sku"] for product in (await admin.get_json("/v1/battery-products"))["items"]}
    assert skus == {"GOOD", "NO-PCF"}


async def test_a_row_that_is_retried_after_its_repair_is_issued(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    run = await request_run(admin, rules, {"sku": "LATE", "name": "Cell"})
    await run_all_jobs(service)
    [failed] = await list_rows(admin, run)
    await insert_facts(database, tenant, "LATE")

    await admin.post_json(f"/v1/jobs/{failed['job_id']}:retry", status=200)
    [waiting] = await list_rows(admin, run)
    await run_all_jobs(service)

    assert [row["status"] for row in (failed, waiting, *await list_rows(admin, run))] == [
        "FAILED",
        "WAITING",
        "ISSUED",
    ]


async def test_why_a_row_could_not_begin_outlives_its_job(
    admin: Api, service: Service, rules: str, superuser: Superuser
) -> None:
    run = await request_run(admin, rules, {"sku": "UNKNOWN"})
    await run_all_jobs(service)
    [before] = await list_rows(admin, run)

    await superuser.execute("DELETE FROM jobs.job")

    [after] = await list_rows(admin, run)
    assert (after["status"], after["error"]["code"], after["job_id"]) == ("FAILED", "NOT_FOUND", None)
    assert after["error"]["message"] == before["error"]["message"]
    assert (await admin.get_json(f"/v1/compile-runs/{run}"))["finished_at"] is not None


async def test_versions_count_as_soon_as_they_have_their_code_where_that_is_asked_for(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A", "B")
    items: list[dict[str, Any]] = [{"sku": "A", "name": "Cell"}, {"sku": "B", "name": "Cell", "activate": False}]

    runs = []
    for _ in range(2):
        runs.append(await request_run(admin, rules, *items, activate=True, force=True))
        await run_all_jobs(service)

    for run in runs:
        assert [row["status"] for row in await list_rows(admin, run)] == ["ACTIVE", "ISSUED"]
    # The second superseded the first; both rows did what they were to do.
    versions = [(await list_rows(admin, run))[0]["passport_version_status"] for run in runs]
    assert versions == ["SUPERSEDED", "ACTIVE"]


async def test_a_row_tells_the_truth_after_its_jobs_and_its_version_are_gone(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await insert_facts(database, tenant, "A", "B", "C")
    items: list[dict[str, Any]] = [{"sku": sku, "name": "Cell"} for sku in ("A", "B")]
    run = await request_run(admin, rules, *items, {"sku": "C", "name": "Cell", "activate": False}, activate=True)
    await run_all_jobs(service)
    gone, kept_row, issued = await list_rows(admin, run)
    await admin.post_json(f"/v1/passport-versions/{gone['passport_version_id']}/revoke", {"reason": "old"}, status=200)

    async with database.system(tenant) as conn:
        await retention.remove_versions(conn, tenant, before=clock.now(), limit=10)
    with_jobs = await list_rows(admin, run)
    await superuser.execute("DELETE FROM jobs.job")
    without_jobs = await list_rows(admin, run)

    for rows in (with_jobs, without_jobs):
        assert [(row["status"], row["passport_version_status"], row["error"]) for row in rows] == [
            ("REMOVED", None, None),
            ("ACTIVE", "ACTIVE", None),
            ("ISSUED", "SIGNED", None),
        ]
    assert [row["passport_version_id"] for row in without_jobs] == [
        row["passport_version_id"] for row in (gone, kept_row, issued)
    ]
    compile_run = await admin.get_json(f"/v1/compile-runs/{run}")
    assert (compile_run["counts"]["REMOVED"], compile_run["counts"]["FAILED"], compile_run["progress"]) == (1, 0, 100)
    assert compile_run["finished_at"] is not None

    # An anchor is enough: events go as well, after their version.
    async with database.system(tenant) as conn:
        walked = await retention.remove_events(
            conn, tenant, before=clock.now(), after=retention.EventPosition(), page_size=10_000
        )
    assert len(walked.events) > 0
    assert (await list_rows(admin, run))[0]["status"] == "REMOVED"


async def test_a_row_that_comes_late_leaves_the_newer_version_and_says_so_without_its_job_too(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await insert_facts(database, tenant, "A")
    await request_run(admin, rules, {"sku": "A", "name": "Cell"})
    await run_all_jobs(service)
    [passport] = (await admin.get_json("/v1/passports"))["items"]
    async with database.tenant(tenant) as conn:
        await request_compile(
            conn,
            RequestQueue(jobs=service.jobs, conn=conn, tenant=tenant),
            service.pipeline_jobs.compile,
            tenant,
            PassportId(UUID(passport["passport_id"])),
            snapshot=await create_sealed_snapshot(conn, tenant, [make_battery("A"), make_footprint("A")]),
            rule_version=RulePackageVersionId(UUID(rules)),
            compiler_build_id=service.settings.compiler_build_id,
            signing_key_id=service.settings.signing_key_id,
            activate=True,
            act=Act(None, clock.now() + timedelta(hours=1)),
        )
    await run_all_jobs(service)

    late = await request_run(admin, rules, {"sku": "A"}, activate=True, force=True)
    await run_all_jobs(service)
    [with_job] = await list_rows(admin, late)
    await superuser.execute("DELETE FROM jobs.job")
    [without_job] = await list_rows(admin, late)

    assert (with_job["status"], with_job["error"]["code"]) == ("FAILED", "CONFLICT")
    assert "is already active, so nothing was changed" in with_job["error"]["message"]
    assert with_job["passport_version_status"] == without_job["passport_version_status"] == "SIGNED"
    assert without_job["status"] == "FAILED"
    assert without_job["error"]["message"].startswith("it was issued but not activated; the job with the reason")


async def test_a_snapshot_that_is_given_is_what_is_compiled(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await create_sealed_snapshot(conn, tenant))

    run = await request_run(admin, rules, {"sku": "SKU-1", "name": "Cell", "snapshot_id": snapshot})
    await run_all_jobs(service)

    [row] = await list_rows(admin, run)
    assert (await admin.get_json(f"/v1/passport-versions/{row['passport_version_id']}"))["snapshot_id"] == snapshot


async def test_all_means_every_active_product(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await insert_facts(database, tenant, "A", "B", "GONE")
    for sku in ("A", "B", "GONE"):
        await admin.post_json("/v1/battery-products", {"sku": sku, "name": "Cell"})
    await superuser.execute("UPDATE battery_products SET is_active = false WHERE sku = 'GONE'")

    body = {"rule_package_version_id": rules, "all": True}
    run = await admin.post_json("/v1/passports:bulk-compile", body, status=202)
    await run_all_jobs(service)

    assert run["rows"] == 2
    rows = await list_rows(admin, run["run_id"])
    assert [(row["sku"], row["status"]) for row in rows] == [("A", "ISSUED"), ("B", "ISSUED")]


async def test_rows_that_have_not_begun_are_cancelled_with_their_run(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    run = await request_run(admin, rules, {"sku": "A", "name": "Cell"}, {"sku": "B", "name": "Cell"})

    cancelled = await admin.post_json(f"/v1/compile-runs/{run}:cancel", status=200)
    again = await admin.post(f"/v1/compile-runs/{run}:cancel")
    await run_all_jobs(service)  # the rows' jobs still run, and do nothing
    later = await admin.get_json(f"/v1/compile-runs/{run}")

    assert (cancelled["counts"]["CANCELLED"], cancelled["progress"]) == (2, 100)
    assert later["finished_at"] == cancelled["finished_at"] == cancelled["cancelled_at"]
    assert again.status_code == 409
    assert [row["status"] for row in await list_rows(admin, run)] == ["CANCELLED", "CANCELLED"]
    assert (await admin.get_json("/v1/battery-products"))["items"] == []


async def test_what_is_under_way_when_a_run_is_cancelled_is_finished(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    run = await request_run(admin, rules, {"sku": "A", "name": "Cell"})
    await run_all_jobs(service)

    await admin.post_json(f"/v1/compile-runs/{run}:cancel", status=200)

    [row] = await list_rows(admin, run)
    assert row["status"] == "ISSUED"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "send one of `items`, `all` and `failed_of`"),
        ({"items": [{"sku": "A"}], "all": True}, "send one of `items`, `all` and `failed_of`"),
        ({"items": []}, "items"),
        ({"items": [{"sku": "A"}, {"sku": "B"}, {"sku": "A"}]}, "items 0 and 2 have the same SKU"),
        ({"items": [{"sku": "A:B"}]}, "a SKU must not contain"),
        ({"all": True}, "the tenant has no products"),
    ],
)
async def test_what_cannot_be_meant_is_refused(admin: Api, rules: str, body: dict[str, Any], says: str) -> None:
    answer = await admin.post("/v1/passports:bulk-compile", {"rule_package_version_id": rules, **body})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert says in answer.text


async def test_rules_that_are_not_published_compile_nothing(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        draft = str(await publish_rules(conn, tenant, act, status="DRAFT"))

    for version, code in ((draft, "RULE_PKG_NOT_PUBLISHED"), (str(clock.new_id()), "NOT_FOUND")):
        body = {"rule_package_version_id": version, "items": [{"sku": "A"}]}
        assert (await admin.post("/v1/passports:bulk-compile", body)).json()["error"]["code"] == code


async def test_runs_and_rows_come_in_pages_and_to_their_tenant_only(admin: Api, other_admin: Api, rules: str) -> None:
    runs = [await request_run(admin, rules, *({"sku": f"S{n}"} for n in range(5))) for _ in range(3)]

    newest = (await admin.get_json("/v1/compile-runs", params={"limit": 2}))["items"]
    first = await admin.get_json(f"/v1/compile-runs/{runs[0]}/rows", params={"limit": 3})
    rest = await admin.get_json(f"/v1/compile-runs/{runs[0]}/rows", params={"limit": 3, "cursor": first["next_cursor"]})

    assert [run["run_id"] for run in newest] == [runs[2], runs[1]]
    assert [row["row"] for row in first["items"] + rest["items"]] == [1, 2, 3, 4, 5]
    assert rest["next_cursor"] is None
    assert (await other_admin.get_json("/v1/compile-runs"))["items"] == []
    for path in (f"/v1/compile-runs/{runs[0]}", f"/v1/compile-runs/{runs[0]}/rows"):
        assert (await other_admin.get(path)).status_code == 404
    assert (await other_admin.post(f"/v1/compile-runs/{runs[0]}:cancel")).status_code == 404
