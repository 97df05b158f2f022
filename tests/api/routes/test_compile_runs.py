"""Bulk compiles over HTTP: each row for itself, and how it stands is always what is true."""

from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from bpc import fresh
from bpc.api.service import Service
from bpc.assembly import requesting
from bpc.core.events import Act
from bpc.core.ids import PassportId, RulePackageVersionId, TenantId
from bpc.db import retention
from bpc.db.database import Database
from bpc.jobs import RequestQueue, Worker
from tests.api.conftest import Api
from tests.errands.batteries import battery, describe, footprint, say
from tests.pipeline.ready import published_rules, sealed_snapshot

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await published_rules(conn, tenant, act))


async def _describe(database: Database, tenant: TenantId, *skus: str) -> None:
    async with database.tenant(tenant) as conn:
        await describe(conn, tenant, *skus)


async def _asked(api: Api, rules: str, *items: dict[str, Any], **more: Any) -> str:
    body = {"rule_package_version_id": rules, "items": list(items), **more}
    return str((await api.made("/v1/passports:bulk-compile", body, status=202))["run_id"])


async def _rows(api: Api, run: str, **query: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.got(f"/v1/compile-runs/{run}/rows", params=query))["items"]
    return items


async def _all_done(service: Service) -> None:
    await Worker(service.jobs).run_until_idle()


async def test_products_and_passports_are_made_and_versions_issued_from_what_is_known(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "A", "B")
    await admin.made("/v1/battery-products", {"sku": "A", "name": "Cell"})

    run = await _asked(admin, rules, {"sku": "A"}, {"sku": "B", "name": "Pack"})
    before = await admin.got(f"/v1/compile-runs/{run}")
    await _all_done(service)

    assert (before["counts"]["WAITING"], before["progress"], before["finished_at"]) == (2, 0, None)
    after = await admin.got(f"/v1/compile-runs/{run}")
    assert (after["counts"]["ISSUED"], after["rows"], after["progress"]) == (2, 2, 100)
    assert after["created_at"] <= after["started_at"] <= after["finished_at"]
    rows = await _rows(admin, run)
    assert [(row["row"], row["sku"], row["status"], row["error"]) for row in rows] == [
        (1, "A", "ISSUED", None),
        (2, "B", "ISSUED", None),
    ]
    for row in rows:
        version = await admin.got(f"/v1/passport-versions/{row['passport_version_id']}")
        assert version["status"] == row["passport_version_status"] == "SIGNED"
    assert (await admin.got("/v1/audit/verify"))["faults"] == []


async def test_a_row_that_fails_says_why_and_stops_no_other(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "GOOD")
    async with database.tenant(tenant) as conn:
        await say(conn, tenant, [battery("NO-PCF")])
    items: list[dict[str, Any]] = [
        {"sku": "GOOD", "name": "Cell"},
        {"sku": "UNKNOWN"},
        {"sku": "NO-FACTS", "name": "Cell"},
        {"sku": "NO-PCF", "name": "Cell"},
        {"sku": "NO-SNAPSHOT", "name": "Cell", "snapshot_id": str(fresh.new_id())},
    ]

    run = await _asked(admin, rules, *items)
    await _all_done(service)

    found = {row["sku"]: row for row in await _rows(admin, run)}
    assert {sku: row["status"] for sku, row in found.items()} == {
        "GOOD": "ISSUED",
        "UNKNOWN": "FAILED",
        "NO-FACTS": "FAILED",
        "NO-PCF": "FAILED",
        "NO-SNAPSHOT": "FAILED",
    }
    assert found["UNKNOWN"]["error"]["message"].startswith("there is no battery product with the SKU `UNKNOWN`")
    assert found["NO-FACTS"]["error"]["code"] == "CONFLICT"
    assert found["NO-PCF"]["error"]["code"] == "RULE_ASSERTION_FAILED"
    assert found["NO-SNAPSHOT"]["error"]["code"] == "NOT_FOUND"
    assert all(row["error"]["next_step"] for row in found.values() if row["error"])
    assert {row["sku"] for row in await _rows(admin, run, status="FAILED")} == found.keys() - {"GOOD"}
    # What a row that fails has made is undone with it.
    skus = {product["sku"] for product in (await admin.got("/v1/battery-products"))["items"]}
    assert skus == {"GOOD", "NO-PCF"}


async def test_a_row_that_is_retried_after_its_repair_is_issued(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    run = await _asked(admin, rules, {"sku": "LATE", "name": "Cell"})
    await _all_done(service)
    [failed] = await _rows(admin, run)
    await _describe(database, tenant, "LATE")

    await admin.made(f"/v1/jobs/{failed['job_id']}:retry", status=200)
    [waiting] = await _rows(admin, run)
    await _all_done(service)

    assert [row["status"] for row in (failed, waiting, *await _rows(admin, run))] == ["FAILED", "WAITING", "ISSUED"]


async def test_why_a_row_could_not_begin_outlives_its_job(
    admin: Api, service: Service, rules: str, superuser: Superuser
) -> None:
    run = await _asked(admin, rules, {"sku": "UNKNOWN"})
    await _all_done(service)
    [before] = await _rows(admin, run)

    await superuser.execute("DELETE FROM jobs.job")

    [after] = await _rows(admin, run)
    assert (after["status"], after["error"]["code"], after["job_id"]) == ("FAILED", "NOT_FOUND", None)
    assert after["error"]["message"] == before["error"]["message"]
    assert (await admin.got(f"/v1/compile-runs/{run}"))["finished_at"] is not None


async def test_versions_count_as_soon_as_they_have_their_code_where_that_is_asked_for(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "A", "B")
    items: list[dict[str, Any]] = [{"sku": "A", "name": "Cell"}, {"sku": "B", "name": "Cell", "activate": False}]

    runs = []
    for _ in range(2):
        runs.append(await _asked(admin, rules, *items, activate=True))
        await _all_done(service)

    for run in runs:
        assert [row["status"] for row in await _rows(admin, run)] == ["ACTIVE", "ISSUED"]
    # The second superseded the first; both rows did what they were to do.
    versions = [(await _rows(admin, run))[0]["passport_version_status"] for run in runs]
    assert versions == ["SUPERSEDED", "ACTIVE"]


async def test_a_row_whose_activation_a_policy_denies_fails_alone_and_on_record(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await _describe(database, tenant, "SKU-8", "SKU-91", "SKU-92")
    for sku in ("SKU-8", "SKU-91", "SKU-92"):
        await admin.made("/v1/battery-products", {"sku": sku, "name": "Cell"})
    about = {"resource": {"type": "PassportVersion", "sku": "SKU-9*"}}
    policy = {"effect": "DENY", "target": "passport:compile", "priority": 100, "policy_json": about}
    await admin.made("/v1/policies", {"name": "not those", **policy})
    items: list[dict[str, Any]] = [{"sku": "SKU-8"}, {"sku": "SKU-91"}, {"sku": "SKU-92", "activate": False}]

    run = await _asked(officer, rules, *items, activate=True)
    await _all_done(service)

    rows = await _rows(admin, run)
    assert [(row["status"], row["error"] and row["error"]["code"]) for row in rows] == [
        ("ACTIVE", None),
        ("FAILED", "FORBIDDEN"),
        ("ISSUED", None),
    ]
    alone = await officer.post(f"/v1/passport-versions/{rows[2]['passport_version_id']}/activate")
    assert alone.status_code == 403
    denied = "SELECT array_agg(payload->>'route' ORDER BY occurred_at) FROM events WHERE event_type = 'ACCESS_DENIED'"
    assert (await superuser.fetchval(denied))[0] == "/v1/passports:bulk-compile"


async def test_a_row_tells_the_truth_after_its_jobs_and_its_version_are_gone(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await _describe(database, tenant, "A", "B", "C")
    items: list[dict[str, Any]] = [{"sku": sku, "name": "Cell"} for sku in ("A", "B")]
    run = await _asked(admin, rules, *items, {"sku": "C", "name": "Cell", "activate": False}, activate=True)
    await _all_done(service)
    gone, kept, issued = await _rows(admin, run)
    await admin.made(f"/v1/passport-versions/{gone['passport_version_id']}/revoke", {"reason": "old"}, status=200)

    async with database.system(tenant) as conn:
        await retention.remove_versions(conn, tenant, before=fresh.now(), most=10)
    with_jobs = await _rows(admin, run)
    await superuser.execute("DELETE FROM jobs.job")
    without_jobs = await _rows(admin, run)

    for rows in (with_jobs, without_jobs):
        assert [(row["status"], row["passport_version_status"], row["error"]) for row in rows] == [
            ("REMOVED", None, None),
            ("ACTIVE", "ACTIVE", None),
            ("ISSUED", "SIGNED", None),
        ]
    assert [row["passport_version_id"] for row in without_jobs] == [
        row["passport_version_id"] for row in (gone, kept, issued)
    ]
    shown = await admin.got(f"/v1/compile-runs/{run}")
    assert (shown["counts"]["REMOVED"], shown["counts"]["FAILED"], shown["progress"]) == (1, 0, 100)
    assert shown["finished_at"] is not None

    # An anchor is enough: events go as well, after their version.
    async with database.system(tenant) as conn:
        walked = await retention.remove_events(conn, tenant, before=fresh.now(), since=retention.Place(), page=10_000)
    assert walked.events > 0
    assert (await _rows(admin, run))[0]["status"] == "REMOVED"


async def test_a_row_that_comes_late_leaves_the_newer_version_and_says_so_without_its_job_too(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await _describe(database, tenant, "A")
    await _asked(admin, rules, {"sku": "A", "name": "Cell"})
    await _all_done(service)
    [passport] = (await admin.got("/v1/passports"))["items"]
    async with database.tenant(tenant) as conn:
        await requesting(service.steps)(
            conn,
            RequestQueue(jobs=service.jobs, conn=conn, tenant=tenant),
            tenant,
            PassportId(UUID(passport["passport_id"])),
            snapshot=await sealed_snapshot(conn, tenant, [battery("A"), footprint("A")]),
            rule_version=RulePackageVersionId(UUID(rules)),
            activate=True,
            act=Act(None, fresh.now() + timedelta(hours=1)),
        )
    await _all_done(service)

    late = await _asked(admin, rules, {"sku": "A"}, activate=True)
    await _all_done(service)
    [with_job] = await _rows(admin, late)
    await superuser.execute("DELETE FROM jobs.job")
    [without_job] = await _rows(admin, late)

    assert (with_job["status"], with_job["error"]["code"]) == ("FAILED", "CONFLICT")
    assert "counts already; nothing was changed" in with_job["error"]["message"]
    assert with_job["passport_version_status"] == without_job["passport_version_status"] == "SIGNED"
    assert without_job["status"] == "FAILED"
    assert without_job["error"]["message"].startswith("it was issued and not activated, and the job that")


async def test_a_snapshot_that_is_given_is_what_is_compiled(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await sealed_snapshot(conn, tenant))

    run = await _asked(admin, rules, {"sku": "SKU-1", "name": "Cell", "snapshot_id": snapshot})
    await _all_done(service)

    [row] = await _rows(admin, run)
    assert (await admin.got(f"/v1/passport-versions/{row['passport_version_id']}"))["snapshot_id"] == snapshot


async def test_all_means_every_active_product(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await _describe(database, tenant, "A", "B", "GONE")
    for sku in ("A", "B", "GONE"):
        await admin.made("/v1/battery-products", {"sku": sku, "name": "Cell"})
    await superuser.execute("UPDATE battery_products SET is_active = false WHERE sku = 'GONE'")

    body = {"rule_package_version_id": rules, "all": True}
    made = await admin.made("/v1/passports:bulk-compile", body, status=202)
    await _all_done(service)

    assert made["rows"] == 2
    rows = await _rows(admin, made["run_id"])
    assert [(row["sku"], row["status"]) for row in rows] == [("A", "ISSUED"), ("B", "ISSUED")]


async def test_rows_that_have_not_begun_are_cancelled_with_their_run(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "A")
    run = await _asked(admin, rules, {"sku": "A", "name": "Cell"}, {"sku": "B", "name": "Cell"})

    cancelled = await admin.made(f"/v1/compile-runs/{run}:cancel", status=200)
    again = await admin.post(f"/v1/compile-runs/{run}:cancel")
    await _all_done(service)  # the rows' jobs still run, and do nothing
    later = await admin.got(f"/v1/compile-runs/{run}")

    assert (cancelled["counts"]["CANCELLED"], cancelled["progress"]) == (2, 100)
    assert later["finished_at"] == cancelled["finished_at"] == cancelled["cancelled_at"]
    assert again.status_code == 409
    assert [row["status"] for row in await _rows(admin, run)] == ["CANCELLED", "CANCELLED"]
    assert (await admin.got("/v1/battery-products"))["items"] == []


async def test_what_is_under_way_when_a_run_is_cancelled_is_finished(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "A")
    run = await _asked(admin, rules, {"sku": "A", "name": "Cell"})
    await _all_done(service)

    await admin.made(f"/v1/compile-runs/{run}:cancel", status=200)

    [row] = await _rows(admin, run)
    assert row["status"] == "ISSUED"


async def test_a_row_about_a_product_that_a_policy_denies_fails_alone_and_on_record(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str, superuser: Superuser
) -> None:
    await _describe(database, tenant, "SKU-8", "SKU-91")
    for sku in ("SKU-8", "SKU-91"):
        await admin.made("/v1/battery-products", {"sku": sku, "name": "Cell"})
    about = {"resource": {"type": "Passport", "sku": "SKU-9*"}}
    policy = {"effect": "DENY", "target": "passport:*", "priority": 100, "policy_json": about}
    await admin.made("/v1/policies", {"name": "not those", **policy})

    run = await _asked(officer, rules, {"sku": "SKU-8"}, {"sku": "SKU-91"})
    await _all_done(service)

    rows = await _rows(admin, run)
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
    await _describe(database, tenant, "A")
    await admin.made("/v1/battery-products", {"sku": "A", "name": "Cell"})
    [fact, *_] = (await admin.got("/v1/facts"))["items"]
    about = {"resource": {"type": "Fact", "ids": [fact["fact_id"]]}, "roles": ["ComplianceOfficer"]}
    policy = {"effect": "DENY", "target": "docs:read", "priority": 100, "policy_json": about}
    await admin.made("/v1/policies", {"name": "not this one", **policy})

    runs = [await _asked(api, rules, {"sku": "A"}) for api in (officer, admin)]
    await _all_done(service)

    rows = [(await _rows(admin, run))[0] for run in runs]
    assert [(row["status"], row["error"] and row["error"]["code"]) for row in rows] == [
        ("FAILED", "FORBIDDEN"),
        ("ISSUED", None),
    ]


async def test_only_who_may_create_products_creates_them_by_a_run(
    officer: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await _describe(database, tenant, "NEW")

    run = await _asked(officer, rules, {"sku": "NEW", "name": "Cell"})
    await _all_done(service)

    [row] = await _rows(officer, run)
    assert (row["status"], row["error"]["code"]) == ("FAILED", "FORBIDDEN")
    assert "tenant:admin" in row["error"]["message"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "either which `items`, or `all`"),
        ({"items": [{"sku": "A"}], "all": True}, "either which `items`, or `all`"),
        ({"items": []}, "items"),
        ({"items": [{"sku": "A"}, {"sku": "B"}, {"sku": "A"}]}, "items 0 and 2 have the same SKU"),
        ({"items": [{"sku": "A:B"}]}, "a SKU has no"),
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
        draft = str(await published_rules(conn, tenant, act, status="DRAFT"))

    for version, code in ((draft, "RULE_PKG_NOT_PUBLISHED"), (str(fresh.new_id()), "NOT_FOUND")):
        body = {"rule_package_version_id": version, "items": [{"sku": "A"}]}
        assert (await admin.post("/v1/passports:bulk-compile", body)).json()["error"]["code"] == code


async def test_runs_and_rows_come_in_pages_and_to_their_tenant_only(admin: Api, rival: Api, rules: str) -> None:
    runs = [await _asked(admin, rules, *({"sku": f"S{n}"} for n in range(5))) for _ in range(3)]

    newest = (await admin.got("/v1/compile-runs", params={"limit": 2}))["items"]
    first = await admin.got(f"/v1/compile-runs/{runs[0]}/rows", params={"limit": 3})
    rest = await admin.got(f"/v1/compile-runs/{runs[0]}/rows", params={"limit": 3, "cursor": first["next_cursor"]})

    assert [run["run_id"] for run in newest] == [runs[2], runs[1]]
    assert [row["row"] for row in first["items"] + rest["items"]] == [1, 2, 3, 4, 5]
    assert rest["next_cursor"] is None
    assert (await rival.got("/v1/compile-runs"))["items"] == []
    for path in (f"/v1/compile-runs/{runs[0]}", f"/v1/compile-runs/{runs[0]}/rows"):
        assert (await rival.get(path)).status_code == 404
    assert (await rival.post(f"/v1/compile-runs/{runs[0]}:cancel")).status_code == 404
