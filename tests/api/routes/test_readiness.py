"""Readiness over HTTP: everything a product lacks at once, with the document and its place, and nothing is stored."""

import json
from base64 import b64encode
from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import run_all_jobs
from tests.api.conftest import Api
from tests.pipeline.compile_fixtures import publish_rules

RULES = b"""
field general.mass @public: Qty(kg) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  toQty("kg", requireSome(recordGet(b, "mass_kg"), "DP10", "mass_kg is missing"));
field general.chemistry @public: Text =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  requireSome(recordGet(b, "chemistry"), "DP12", "chemistry is missing");
field general.late @public: Bool = emitCompliance(
  "CHK-DAY", if (issuedOn() >= date("2027-02-18")) then "FAIL" else "PASS", "the day is before the duty"
);
"""


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act, RULES))


async def upload(api: Api, service: Service, document: dict[str, Any]) -> str:
    """A document that is read; its id."""
    document_id = str((await api.post_json("/v1/documents", {"kind": "BOM"}))["document_id"])
    body = {"mime_type": "application/json", "content_base64": b64encode(json.dumps(document).encode()).decode()}
    await api.post_json(f"/v1/documents/{document_id}/versions", body)
    await run_all_jobs(service)
    return document_id


async def check(api: Api, **body: Any) -> Any:
    return await api.post_json("/v1/passports:check", body, status=200)


def find_issue(product: dict[str, Any], point: int) -> dict[str, Any]:
    [issue] = [issue for issue in product["issues"] if point in issue["points"]]
    return dict(issue)


async def test_everything_that_is_missing_is_listed_at_once_with_its_column_and_document(
    admin: Api, service: Service, rules: str
) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})
    document = await upload(admin, service, {"battery": {"sku": "A", "category": "ev"}})

    report = await check(admin, skus=["A"], rule_package_version_id=rules)

    [product] = report["products"]
    assert (product["sku"], product["category"], product["compiles"], product["ready"]) == ("A", "ev", False, False)
    issue = find_issue(product, 10)
    assert (issue["kind"], issue["severity"], issue["code"]) == ("missing", "error", "DP10")
    assert (issue["fields"], issue["place"], issue["members"]) == (["general.mass"], "rules.bpc:4:15", ["mass_kg"])
    assert issue["cells"] == [{"sheet": "Battery", "column": "mass_kg"}]
    assert [each["document_id"] for each in issue["documents"]] == [document]
    assert find_issue(product, 12)["code"] == "DP12"  # not only the first failure
    assert find_issue(product, 4)["message"].startswith("data point 4, ")
    states = {point["number"]: point["state"] for point in product["points"]}
    assert (len(states), states[6], states[10], states[17]) == (71, "not_shown", "missing", "not_asked")


async def test_a_conflict_names_both_documents_and_what_each_says(admin: Api, service: Service, rules: str) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})
    first = await upload(admin, service, {"battery": {"sku": "A", "mass_kg": 10}})
    second = await upload(admin, service, {"battery": {"sku": "A", "mass_kg": 12, "chemistry": "LFP"}})

    [product] = (await check(admin, skus=["A"], rule_package_version_id=rules))["products"]

    issue = find_issue(product, 10)
    assert (issue["kind"], issue["severity"]) == ("conflicting", "warning")
    assert [(each["document_id"], each["value"], each["place"]) for each in issue["documents"]] == [
        (second, "12.000000", "$.battery.mass_kg"),
        (first, "10.000000", "$.battery.mass_kg"),
    ]
    assert product["compiles"]


async def test_the_day_decides_what_the_rules_say_and_entries_are_counted(
    admin: Api, service: Service, rules: str
) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})
    await upload(admin, service, {"battery": {"sku": "A", "mass_kg": 10, "chemistry": "LFP"}})

    counts = [
        (await check(admin, skus=["A"], rule_package_version_id=rules, issued_on=day))["products"][0]["compliance"]
        for day in ("2027-02-17", "2027-02-18")
    ]

    assert counts == [{"PASS": 1}, {"FAIL": 1}]


async def test_an_unknown_product_is_an_issue_and_not_an_error(admin: Api, rules: str) -> None:
    [product] = (await check(admin, skus=["NOBODY"], rule_package_version_id=rules))["products"]

    assert product["issues"][0]["message"].startswith("there is no battery product with the SKU `NOBODY`")
    assert not product["ready"]


async def test_nothing_is_stored(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "A", "name": "Cell"})
    await upload(admin, service, {"battery": {"sku": "A", "mass_kg": 10}})
    before = await count_rows(database, tenant)

    await check(admin, skus=["A", "B"], rule_package_version_id=rules)

    assert await count_rows(database, tenant) == before


async def count_rows(database: Database, tenant: TenantId) -> dict[str, int]:
    async with database.tenant(tenant) as conn:
        names = ["documents", "document_versions", "document_statements", "facts", "fact_sources", "data_snapshots"]
        names += ["events", "passports", "passport_versions", "webhook_deliveries"]
        return {name: await conn.fetchval(f"SELECT count(*) FROM {name}") for name in names}


async def test_all_products_are_checked_piece_by_piece_in_the_order_of_skus(
    admin: Api, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpc.api.routes.readiness.MAX_PRODUCTS", 2)
    for sku in ("C", "A", "B"):
        await admin.post_json("/v1/battery-products", {"sku": sku, "name": "Cell"})

    first = await check(admin, all=True, rule_package_version_id=rules)
    second = await check(admin, all=True, rule_package_version_id=rules, after=first["next_after"])

    skus = [[product["sku"] for product in report["products"]] for report in (first, second)]
    assert (skus, first["next_after"], second["next_after"]) == ([["A", "B"], ["C"]], "B", None)


async def test_without_rules_the_only_published_package_is_used(
    admin: Api, database: Database, tenant: TenantId, act: Act, rules: str
) -> None:
    assert (await check(admin, skus=["A"]))["rule_package_version_id"] == rules

    async with database.tenant(tenant) as conn:
        other = await publish_rules(conn, tenant, act, RULES + b"\n")
    refused = await admin.post("/v1/passports:check", {"skus": ["A"]})
    package = (await admin.get_json(f"/v1/rule-package-versions/{other}"))["rule_package_id"]

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "several rule packages" in refused.json()["error"]["message"]
    report = await check(admin, skus=["A"], rule_package_id=package)
    assert report["rule_package_version_id"] == str(other)


async def test_without_published_rules_the_answer_says_what_to_do(admin: Api) -> None:
    refused = await admin.post("/v1/passports:check", {"skus": ["A"]})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "send either `skus` or `all`"),
        ({"skus": ["A"], "all": True}, "send either `skus` or `all`"),
        ({"skus": ["A", "A"]}, "names a SKU twice"),
        ({"skus": ["A"], "after": "B"}, "`after` goes with `all`"),
        ({"skus": ["A"], "issued_on": "18.2.2027"}, "it is not a day; write it like 2027-02-18"),
        ({"skus": [f"S{number}" for number in range(101)]}, "100"),
    ],
    ids=["no product", "both", "twice", "after", "day", "too many"],
)
async def test_a_request_that_makes_no_sense_is_refused(admin: Api, body: dict[str, Any], says: str) -> None:
    refused = await admin.post("/v1/passports:check", body)

    assert refused.status_code == 422
    assert says in refused.text


async def test_a_product_that_a_policy_denies_is_refused_and_the_others_are_checked(admin: Api, rules: str) -> None:
    policy = {
        "name": "not B",
        "effect": "DENY",
        "target": "passport:compile",
        "priority": 1,
        "policy_json": {"resource": {"type": "Passport", "sku": "B"}},
    }
    answer = await admin.post("/v1/policies", policy)
    assert answer.status_code == 201, answer.text

    report = await check(admin, skus=["A", "B"], rule_package_version_id=rules)

    assert [product["sku"] for product in report["products"]] == ["A"]
    assert [(each["sku"], each["code"]) for each in report["refused"]] == [("B", "FORBIDDEN")]
