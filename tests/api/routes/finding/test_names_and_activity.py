"""Names that change and things that are deactivated: on record, and without harm to what was issued."""

from base64 import b64encode
from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version
from tests.pipeline.compile_fixtures import SKU


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


async def list_events(admin: Api, aggregate_type: str, aggregate_id: str) -> list[tuple[str, Any, bool]]:
    """Type, payload and whether the actor is known, of the events of a thing after its creation, oldest first."""
    query = {"aggregate_type": aggregate_type, "aggregate_id": aggregate_id}
    items = (await admin.get_json("/v1/audit/events", params=query))["items"]
    return [(item["event_type"], item["payload"], item["actor_id"] is not None) for item in items[::-1]][1:]


async def change(api: Api, method: str, path: str, body: Any = None) -> Any:
    answer = await api.send(method, path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_product_is_renamed_and_its_versions_replay(
    admin: Api, officer: Api, service: Service, inputs: PassportInputs
) -> None:
    before = await issue_version(officer, service, inputs)
    product = (await admin.get_json(f"/v1/passports/{inputs.passport}"))["battery_product_id"]
    path = f"/v1/battery-products/{product}"

    renamed = await change(admin, "PATCH", path, {"name": "Zelle"})
    again = await change(admin, "PATCH", path, {"name": "Zelle"})
    after = await issue_version(officer, service, inputs)

    assert (renamed["name"], renamed["sku"]) == ("Zelle", SKU)
    assert again == renamed
    for version, name in ((before, "Cell"), (after, "Zelle")):
        payload = await officer.get_json(f"/v1/passport-versions/{version}/payload")
        assert payload["battery_product"]["name"] == name
        assert (await officer.get_json(f"/v1/passport-versions/{version}"))["product_name"] == "Zelle"
        await change(officer, "POST", f"/v1/passport-versions/{version}/replay")
    assert await list_events(admin, "BatteryProduct", product) == [
        ("PRODUCT_RENAMED", {"from": "Cell", "to": "Zelle"}, True)
    ]
    refused = await admin.send("PATCH", path, {"name": "x", "sku": "other"})
    assert refused.status_code == 422


async def test_a_deactivated_product_gets_no_new_version_until_it_is_reactivated(
    admin: Api, officer: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(officer, service, inputs)
    product = (await admin.get_json(f"/v1/passports/{inputs.passport}"))["battery_product_id"]
    rules = inputs.body["rule_package_version_id"]

    assert not (await change(admin, "POST", f"/v1/battery-products/{product}:deactivate"))["is_active"]
    await change(admin, "POST", f"/v1/battery-products/{product}:deactivate")
    refused = await officer.post(f"/v1/passports/{inputs.passport}/compile", inputs.body)
    run = await request_run(admin, rules, {"sku": SKU, "snapshot_id": inputs.body["snapshot_id"]}, force=True)
    await run_all_jobs(service)

    assert (refused.status_code, refused.json()["error"]["message"]) == (
        409,
        f"product `{SKU}` is deactivated; reactivate it first",
    )
    [row] = await list_rows(admin, run)
    assert (row["status"], row["error"]["message"]) == ("FAILED", f"product `{SKU}` is deactivated")
    await change(admin, "POST", f"/v1/passport-versions/{version}/activate")
    await change(officer, "POST", f"/v1/passport-versions/{version}/replay")
    listed = await admin.get_json("/v1/battery-products", params={"status": "INACTIVE"})
    assert [item["battery_product_id"] for item in listed["items"]] == [product]
    await change(admin, "POST", f"/v1/battery-products/{product}:reactivate", {"reason": "sold again"})
    await issue_version(officer, service, inputs)
    assert await list_events(admin, "BatteryProduct", product) == [
        ("PRODUCT_DEACTIVATED", {"sku": SKU}, True),
        ("PRODUCT_REACTIVATED", {"sku": SKU, "reason": "sold again"}, True),
    ]


async def test_a_document_is_renamed_and_deactivated(admin: Api) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"]
    path, body = (
        f"/v1/documents/{document}",
        {
            "mime_type": "text/plain",
            "content_base64": b64encode(b"text").decode(),
        },
    )

    assert (await change(admin, "PATCH", path, {"name": "Bericht"}))["name"] == "Bericht"
    assert (await change(admin, "PATCH", path, {"name": "Prüfbericht"}))["name"] == "Prüfbericht"
    assert not (await change(admin, "POST", f"{path}:deactivate", {"reason": "replaced"}))["is_active"]
    refused = await admin.post(f"{path}/versions", body)
    listed = await admin.get_json("/v1/documents", params={"status": "INACTIVE"})
    assert (await change(admin, "POST", f"{path}:reactivate"))["is_active"]
    uploaded = await admin.post(f"{path}/versions", body)

    assert refused.status_code == 409
    assert "is deactivated and takes no new versions" in refused.text
    assert [item["name"] for item in listed["items"]] == ["Prüfbericht"]
    assert uploaded.status_code == 201, uploaded.text
    assert (await list_events(admin, "Document", document))[:4] == [
        ("DOCUMENT_RENAMED", {"to": "Bericht"}, True),
        ("DOCUMENT_RENAMED", {"from": "Bericht", "to": "Prüfbericht"}, True),
        ("DOCUMENT_DEACTIVATED", {"reason": "replaced"}, True),
        ("DOCUMENT_REACTIVATED", {}, True),
    ]


async def test_a_rule_package_is_renamed_and_deactivated(
    admin: Api, officer: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(officer, service, inputs)
    rules = inputs.body["rule_package_version_id"]
    package = (await admin.get_json(f"/v1/rule-package-versions/{rules}"))["rule_package_id"]
    path = f"/v1/rule-packages/{package}"
    before = (await admin.get_json(path))["name"]

    assert (await change(admin, "PATCH", path, {"name": "Neue Regeln"}))["name"] == "Neue Regeln"
    assert not (await change(admin, "POST", f"{path}:deactivate"))["is_active"]
    compiled = await officer.post(f"/v1/passports/{inputs.passport}/compile", inputs.body)
    bulk = await admin.post("/v1/passports:bulk-compile", {"rule_package_version_id": rules, "items": [{"sku": SKU}]})
    added = await admin.post(f"{path}/versions", {"dsl_source": 'field a @public: Text = "a";\n', "tests_source": ""})
    chosen = await officer.post("/v1/passports:check", {"skus": [SKU]})
    await change(officer, "POST", f"/v1/passport-versions/{version}/replay")
    assert (await change(admin, "POST", f"{path}:reactivate"))["is_active"]
    await issue_version(officer, service, inputs)

    for refused in (compiled, bulk, added):
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            409,
            "rule package `Neue Regeln` is deactivated; reactivate it, or use another one",
        )
    assert (chosen.status_code, "has no published rules" in chosen.text) == (409, True)
    assert await list_events(admin, "RulePackage", package) == [
        ("RULE_PACKAGE_RENAMED", {"from": before, "to": "Neue Regeln"}, True),
        ("RULE_PACKAGE_DEACTIVATED", {}, True),
        ("RULE_PACKAGE_REACTIVATED", {}, True),
    ]
    assert (await admin.send("PATCH", path, {})).status_code == 422


async def test_two_rule_packages_never_have_the_same_name(admin: Api) -> None:
    await admin.post_json("/v1/rule-packages", {"name": "One"})
    other = (await admin.post_json("/v1/rule-packages", {"name": "Other"}))["rule_package_id"]

    taken = await admin.send("PATCH", f"/v1/rule-packages/{other}", {"name": "One"})

    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "CONFLICT")
