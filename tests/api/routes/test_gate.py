"""The gate over HTTP: what blocks an activation, who may waive it, and what is known of it afterwards."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.passport.bundle import read_bundle
from bpc.printing import render_export
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.api.passport_fixtures import PassportInputs, issue_version
from tests.api.routes.test_readiness import upload
from tests.pipeline.compile_fixtures import RULES, SKU, create_sealed_snapshot, publish_rules

CHECKS = b"""
field checks.recycled @public: Bool = emitCompliance("R1", "FAIL", "no recycled share is known");
field checks.report @authority: Bool = emitCompliance("T1", "WARN", "no test report");
"""
R1 = {"code": "R1", "field": "checks.recycled"}
T1 = {"code": "T1", "field": "checks.report"}
SETTINGS = "/v1/tenant/settings"
DEFAULTS = {
    "activation_blocked_by": "FAIL",
    "minimum_branch_coverage_pct": 80,
    "bundles_for": "NOBODY",
    "request_words_days": 365,
}


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act, RULES + CHECKS))


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, rules: str) -> PassportInputs:
    """What compiles to a passport with one FAIL and one WARN entry."""
    product = (await admin.post_json("/v1/battery-products", {"sku": SKU, "name": "Cell"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    async with database.tenant(tenant) as conn:
        snapshot = await create_sealed_snapshot(conn, tenant)
    return PassportInputs(passport=passport, body={"snapshot_id": str(snapshot), "rule_package_version_id": rules})


async def activate(api: Api, version: str) -> Any:
    return await api.post(f"/v1/passport-versions/{version}/activate")


async def waive(api: Api, version: str, *entries: dict[str, str], reason: str = "It is not due yet.") -> Any:
    return await api.post(f"/v1/passport-versions/{version}:waive", {"entries": list(entries), "reason": reason})


async def get_counts(api: Api, version: str) -> tuple[str, int, int, int]:
    answer = await api.get_json(f"/v1/passport-versions/{version}")
    return answer["status"], answer["fail_count"], answer["warn_count"], answer["waived_count"]


async def test_a_failed_entry_blocks_until_it_is_waived_and_blocks_the_next_version_again(
    admin: Api, officer: Api, service: Service, inputs: PassportInputs
) -> None:
    first = await issue_version(officer, service, inputs)
    blocked = await activate(officer, first)
    waived = await waive(admin, first, R1)
    activated = await activate(officer, first)
    second = await issue_version(officer, service, inputs)
    blocked_again = await activate(officer, second)

    assert (blocked.status_code, blocked.json()["error"]["code"]) == (409, "COMPLIANCE_BLOCKED")
    error = blocked.json()["error"]
    assert error["details"]["entries"] == [{**R1, "message": "no recycled share is known", "status": "FAIL"}]
    assert f"POST /v1/passport-versions/{first}:waive" in error["message"]
    assert waived.status_code == 201
    assert (waived.json()["fail_count"], waived.json()["warn_count"], waived.json()["waived_count"]) == (1, 1, 1)
    assert activated.json()["status"] == "ACTIVE"
    assert blocked_again.json()["error"]["code"] == "COMPLIANCE_BLOCKED"
    assert await get_counts(officer, first) == ("ACTIVE", 1, 1, 1)
    assert await get_counts(officer, second) == ("SIGNED", 1, 1, 0)


async def export_version(api: Api, service: Service, version: str, body: Mapping[str, str]) -> bytes:
    requested = await api.post_json(f"/v1/passport-versions/{version}/exports", body, status=202)
    await run_all_jobs(service)
    return (await api.get(f"/v1/exports/{requested['export_id']}/content")).content


async def test_the_tenant_sees_every_waiver_and_a_public_reader_their_number(
    admin: Api, auditor: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)
    view, for_all = f"/v1/passport-versions/{version}/view", {"audience": "public"}
    before = await auditor.get(view, params=for_all)
    await waive(admin, version, R1, T1, reason="The report follows in May.")

    after = await auditor.get(view, params=for_all)
    cached = await auditor.get(view, params=for_all, headers={"If-None-Match": before.headers["etag"]})
    listed = (await auditor.get_json(f"/v1/passport-versions/{version}/waivers"))["items"]
    pdf, xml, json_ld = [
        await export_version(admin, service, version, {"format": name, "audience": "public"})
        for name in ("PDF", "XML", "JSON_LD")
    ]
    bundle = read_bundle((await auditor.get(f"/v1/passport-versions/{version}/bundle")).content)

    assert {(waiver["code"], waiver["field"], waiver["entries"], waiver["reason"]) for waiver in listed} == {
        ("R1", "checks.recycled", 1, "The report follows in May."),
        ("T1", "checks.report", 1, "The report follows in May."),
    }
    assert all(waiver["waived_by"] and waiver["waived_at"] for waiver in listed)
    assert pdf == render_export(bundle, "PDF", "public", waived_count=2) != render_export(bundle, "PDF", "public")
    assert pdf != render_export(bundle, "PDF", "public", waived_count=0)
    assert b'<compliance waived="2">' in xml
    assert b'"waived_entries":"2"' in json_ld
    # A view is signed bytes: the number is beside it.
    assert [each.headers["x-waived-entries"] for each in (before, after, cached)] == ["0", "2", "2"]
    assert (after.content, cached.status_code) == (before.content, 304)


async def test_the_compliance_of_a_version_has_every_entry_and_says_which_are_waived(
    admin: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, inputs: PassportInputs
) -> None:
    await insert_facts(database, tenant, SKU)
    await upload(admin, service, {"battery": {"sku": SKU, "minimum_voltage_v": 500, "nominal_voltage_v": 400}})
    snapshot = (await admin.post_json("/v1/snapshots", {"sku": SKU}))["snapshot_id"]
    version = await issue_version(admin, service, replace(inputs, body={**inputs.body, "snapshot_id": snapshot}))
    await waive(admin, version, R1)

    compliance = await auditor.get_json(f"/v1/passport-versions/{version}/compliance")

    assert [
        (entry["source"], entry["code"], entry["status"], entry["waived"]) for entry in compliance.pop("entries")
    ] == [
        ("finding", "FOOTPRINT_BAND", "WARN", False),
        ("finding", "VOLTAGE_ORDER", "FAIL", False),
        ("rule", "R1", "FAIL", True),
        ("rule", "T1", "WARN", False),
    ]
    assert compliance == {
        "passport_version_id": version,
        "activation_blocked_by": "FAIL",
        "fail_count": 1,
        "warn_count": 1,
        "finding_fail_count": 1,
        "finding_warn_count": 1,
        "waived_count": 1,
    }


async def test_only_a_role_with_the_permission_waives(
    admin: Api, officer: Api, auditor: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)

    refusals = [await waive(api, version, R1) for api in (officer, auditor)]

    assert [refusal.json()["error"]["code"] for refusal in refusals] == ["FORBIDDEN", "FORBIDDEN"]
    assert await get_counts(officer, version) == ("SIGNED", 1, 1, 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"entries": [], "reason": "x"}, "entries"),
        ({"entries": [R1], "reason": ""}, "reason"),
        ({"entries": [R1]}, "reason"),
        ({"entries": [{"code": "R1"}], "reason": "x"}, "field"),
        ({"entries": [{"code": "R9", "field": "checks.recycled"}], "reason": "x"}, "`R9` of field `checks.recycled`"),
    ],
)
async def test_a_waiver_names_entries_that_exist_and_a_reason(
    admin: Api, service: Service, inputs: PassportInputs, body: dict[str, Any], says: str
) -> None:
    version = await issue_version(admin, service, inputs)

    refusal = await admin.post(f"/v1/passport-versions/{version}:waive", body)

    assert (refusal.status_code, refusal.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert says in refusal.json()["error"]["message"]


async def test_subscribers_hear_of_a_waiver(
    admin: Api, service: Service, inputs: PassportInputs, database: Database, tenant: TenantId
) -> None:
    endpoint = await admin.post_json("/v1/webhook-endpoints", {"url": "https://receiver.example/hook"})
    await admin.post_json(
        "/v1/webhook-subscriptions",
        {"webhook_endpoint_id": endpoint["webhook_endpoint_id"], "event_type": "passport.version.waived"},
    )
    version = await issue_version(admin, service, inputs)

    await waive(admin, version, R1)

    async with database.tenant(tenant) as conn:
        announced = await conn.fetch(
            "SELECT e.event_type, e.aggregate_id FROM webhook_deliveries d JOIN events e USING (tenant_id, event_id)"
        )
    assert [(row["event_type"], str(row["aggregate_id"])) for row in announced] == [("PASSPORT_WAIVED", version)]


async def test_a_row_of_a_bulk_compile_that_is_blocked_has_failed_until_it_is_waived_and_activated(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A", "B")
    run = await request_run(
        admin, rules, {"sku": "A", "name": "Cell", "activate": True}, {"sku": "B", "name": "Cell", "activate": False}
    )
    await run_all_jobs(service)
    blocked, issued = await list_rows(admin, run)
    counts = await admin.get_json(f"/v1/compile-runs/{run}")

    await waive(admin, blocked["passport_version_id"], R1)
    await activate(admin, blocked["passport_version_id"])
    [active, _] = await list_rows(admin, run)

    assert (blocked["status"], blocked["error"]["code"]) == ("FAILED", "COMPLIANCE_BLOCKED")
    assert blocked["passport_version_status"] == issued["passport_version_status"] == "SIGNED"
    assert (blocked["fail_count"], blocked["warn_count"], blocked["waived_count"]) == (1, 1, 0)
    assert (issued["status"], issued["error"]) == ("ISSUED", None)
    assert (counts["fail_count"], counts["warn_count"]) == (2, 2)
    assert (active["status"], active["waived_count"], active["error"]) == ("ACTIVE", 1, None)


async def test_a_tenant_changes_what_blocks_and_it_is_on_record(
    admin: Api, officer: Api, service: Service, inputs: PassportInputs, database: Database, tenant: TenantId
) -> None:
    first, second = [await issue_version(officer, service, inputs) for _ in range(2)]
    before = await officer.get_json(SETTINGS)
    await admin.send("PUT", SETTINGS, {"activation_blocked_by": "NOTHING"})
    await activate(officer, first)
    changed = (await admin.send("PUT", SETTINGS, {"activation_blocked_by": "FAIL_AND_WARN"})).json()
    await admin.send("PUT", SETTINGS, {"activation_blocked_by": "FAIL_AND_WARN"})
    blocked = await activate(officer, second)

    assert before == DEFAULTS
    assert changed == {**DEFAULTS, "activation_blocked_by": "FAIL_AND_WARN"}
    entries = blocked.json()["error"]["details"]["entries"]
    assert sorted(entry["code"] for entry in entries) == ["R1", "T1"]
    assert await get_counts(officer, first) == ("ACTIVE", 1, 1, 0)
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "Tenant", AggregateId(tenant)))
    changes = [
        json.loads(stored.event.payload_canonical)
        for stored in chain
        if stored.event.event_type == "TENANT_SETTINGS_CHANGED"
    ]
    assert changes == [
        {"activation_blocked_by": {"from": "FAIL", "to": "NOTHING"}},
        {"activation_blocked_by": {"from": "NOTHING", "to": "FAIL_AND_WARN"}},
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"activation_blocked_by": "PASS"},
        {"activation_blocked_by": None},
        {"minimum_branch_coverage_pct": 101},
        {"minimum_branch_coverage_pct": "80"},
        {"unknown": 1},
    ],
)
async def test_a_setting_that_does_not_exist_changes_nothing(admin: Api, body: dict[str, Any]) -> None:
    refusal = await admin.send("PUT", SETTINGS, body)

    assert (refusal.status_code, refusal.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert await admin.get_json(SETTINGS) == DEFAULTS


async def test_only_an_administrator_changes_settings_and_tenants_have_their_own(
    admin: Api, officer: Api, other_admin: Api
) -> None:
    refusal = await officer.send("PUT", SETTINGS, {"minimum_branch_coverage_pct": 0})
    await admin.send("PUT", SETTINGS, {"minimum_branch_coverage_pct": 0})

    assert refusal.json()["error"]["code"] == "FORBIDDEN"
    assert (await officer.get_json(SETTINGS))["minimum_branch_coverage_pct"] == 0
    assert (await other_admin.get_json(SETTINGS))["minimum_branch_coverage_pct"] == 80


REQUIRED = b"""language 2;
field a @public: Int = 1;
require R1 "at least {least: 16} %" in force from date("2020-01-01"): 15 >= 16
  else "{share: 15} % is less than {least: 16} %";
require R2 "at least 20 %" in force from date("2099-01-01"): false;
"""


async def test_entries_say_their_verdict_and_their_arguments_wherever_they_are_shown(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act, inputs: PassportInputs
) -> None:
    async with database.tenant(tenant) as conn:
        rules = str(await publish_rules(conn, tenant, act, REQUIRED))
    body = {**inputs.body, "rule_package_version_id": rules}
    version = await issue_version(admin, service, replace(inputs, body=body))
    former = await issue_version(admin, service, inputs)

    query = '{ passportVersion(id: "ID") { compliance { code status verdict args } } }'
    answer = (await admin.post("/v1/graphql", {"query": query.replace("ID", version)})).json()
    entries = (await admin.get_json(f"/v1/passport-versions/{version}/compliance"))["entries"]
    payload = await admin.get_json(f"/v1/passport-versions/{version}/payload")
    difference = await admin.get_json(f"/v1/passport-versions/{former}/diff/{version}")
    former_answer = (await admin.post("/v1/graphql", {"query": query.replace("ID", former)})).json()

    expected = [
        ("R1", "FAIL", "assessed", {"least": "16", "share": "15"}),
        ("R2", "NOT_APPLICABLE", "not_yet_in_force", {}),
    ]
    names = ("code", "status", "verdict", "args")
    for shown in (answer["data"]["passportVersion"]["compliance"], entries, payload["compliance"]):
        assert [tuple(entry[name] for name in names) for entry in shown] == expected
    after = {entry["code"]: entry["after"] for entry in difference["compliance"] if entry["after"]}
    assert (after["R2"]["verdict"], after["R1"]["args"]) == ("not_yet_in_force", {"least": "16", "share": "15"})
    [former_entry, _] = former_answer["data"]["passportVersion"]["compliance"]
    assert (former_entry["verdict"], former_entry["args"]) == ("assessed", {})
