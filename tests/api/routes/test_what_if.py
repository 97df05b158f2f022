"""What-if over HTTP: which fields of which active passports rules or documents would change. Nothing is stored."""

import json
from base64 import b64encode
from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.api.routes.test_readiness import count_rows, upload
from tests.pipeline.compile_fixtures import RULES, publish_rules

NEW_RULES = RULES.decode().replace("toDec(2, requireSome", "toDec(2, 2 * requireSome") + "field battery.new: Int = 1;"


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act))


async def activate(api: Api, service: Service, rules: str, *skus: str) -> None:
    """Active passports of these products."""
    await request_run(api, rules, *({"sku": sku, "name": "Cell"} for sku in skus), activate=True)
    await run_all_jobs(service)


async def ask(api: Api, **body: Any) -> Any:
    return await api.post_json("/v1/passports:what-if", body, status=200)


def make_document(document: dict[str, Any], **more: str) -> dict[str, str]:
    content = b64encode(json.dumps(document).encode()).decode()
    return {"kind": "BOM", "mime_type": "application/json", "content_base64": content, **more}


async def test_a_draft_of_rules_names_the_fields_that_would_change_in_each_active_passport(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A", "B", "C")
    await activate(admin, service, rules, "A", "B")
    before = await count_rows(database, tenant)

    report = await ask(admin, all=True, dsl_source=NEW_RULES)
    same = await ask(admin, skus=["A", "C"], rule_package_version_id=rules)

    assert (report["checked"], [passport["sku"] for passport in report["passports"]]) == (2, ["A", "B"])
    assert report["passports"][0]["fields"] == [
        {"path": "battery.new", "before": None, "after": 1},
        {"path": "pcf.per_kwh", "before": "80.00", "after": "160.00"},
    ]
    assert (same["checked"], same["passports"]) == (1, [])
    assert await count_rows(database, tenant) == before


async def test_rules_that_would_fail_say_which_field_would_have_no_value(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    await activate(admin, service, rules, "A")
    draft = RULES.decode().replace('recordGet(b, "capacity_kwh")', 'recordGet(b, "usable_energy_kwh")')

    [passport] = (await ask(admin, all=True, dsl_source=draft))["passports"]

    [failure] = passport["failures"]
    assert (failure["field"], failure["dependents"]) == ("battery.capacity_kwh", ["pcf.per_kwh"])


async def test_rules_with_errors_are_refused_with_all_of_them(admin: Api) -> None:
    refused = await admin.post("/v1/passports:what-if", {"all": True, "dsl_source": "field a: Int = true;"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "RULE_TYPE_ERROR")
    assert refused.json()["error"]["details"]["diagnostics"]


async def test_a_document_that_is_not_accepted_yet_names_the_fields_it_would_change(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A", "B")
    await activate(admin, service, rules, "A", "B")
    before = await count_rows(database, tenant)

    report = await ask(admin, documents=[make_document({"battery": {"sku": "A", "capacity_kwh": 151}})])

    [passport] = report["passports"]
    assert (report["checked"], passport["sku"], passport["pending"]) == (1, "A", 0)
    assert passport["fields"] == [
        {"path": "battery.capacity_kwh", "before": "75.500000", "after": "151.000000"},
        {"path": "pcf.per_kwh", "before": "80.00", "after": "40.00"},
    ]
    assert await count_rows(database, tenant) == before


async def test_a_document_about_many_products_is_compared_with_each_active_passport(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    skus = [f"SKU-{number:02}" for number in range(12)]  # more than are held at once
    await insert_facts(database, tenant, *skus)
    await activate(admin, service, rules, *skus)
    documents = [make_document({"battery": {"sku": sku, "capacity_kwh": 100 + int(sku[4:])}}) for sku in skus]

    report = await ask(admin, documents=documents)

    assert [(passport["sku"], passport["fields"][0]["after"]) for passport in report["passports"]] == [
        (sku, f"{100 + int(sku[4:])}.000000") for sku in skus
    ]


async def test_a_new_version_takes_back_what_the_document_said_before(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    document = await upload(admin, service, {"battery": {"sku": "A", "capacity_kwh": 100}})
    await activate(admin, service, rules, "A")

    replaced = make_document({"battery": {"sku": "A", "chemistry": "LFP"}}, document_id=document)
    [passport] = (await ask(admin, documents=[replaced]))["passports"]

    assert passport["fields"][0] == {"path": "battery.capacity_kwh", "before": "100.000000", "after": "75.500000"}


async def test_a_version_that_was_rejected_leaves_what_a_new_version_takes_back(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    document = await upload(admin, service, {"battery": {"sku": "A", "capacity_kwh": 100}})
    await activate(admin, service, rules, "A")
    rejected = make_document({"battery": {"mass_kg": 1}})
    await admin.post_json(f"/v1/documents/{document}/versions", {k: v for k, v in rejected.items() if k != "kind"})
    await run_all_jobs(service)

    replaced = make_document({"battery": {"sku": "B", "chemistry": "LFP"}}, document_id=document)
    [passport] = (await ask(admin, documents=[replaced]))["passports"]

    assert passport["sku"] == "A"
    assert passport["fields"][0] == {"path": "battery.capacity_kwh", "before": "100.000000", "after": "75.500000"}


async def test_what_would_change_anyway_is_counted_and_not_listed(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    await activate(admin, service, rules, "A")
    await upload(admin, service, {"battery": {"sku": "A", "capacity_kwh": 100}})
    footprint = {"sku": "A", "total_gco2e": 7000}

    [passport] = (await ask(admin, documents=[make_document(footprint, kind="PCF")]))["passports"]

    assert [field["path"] for field in passport["fields"]] == ["pcf.per_kwh"]
    assert passport["pending"] == 1


async def test_a_document_that_would_be_rejected_is_refused_with_the_reason(admin: Api) -> None:
    refused = await admin.post("/v1/passports:what-if", {"documents": [make_document({"battery": {"mass_kg": 1}})]})

    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("document 1 would be rejected: ")


@pytest.mark.parametrize(
    "body",
    [
        {"all": True},
        {"all": True, "dsl_source": "", "documents": [make_document({})]},
        {"dsl_source": "field a: Int = 1;"},
        {"skus": ["A"], "documents": [make_document({})]},
        {"documents": [{"kind": "BOM", "mime_type": "text/csv", "content_base64": "?"}]},
        {"documents": [{"kind": "BOM", "mime_type": "text/csv", "content_base64": ""}]},
    ],
    ids=["nothing to try", "both", "no product", "skus with documents", "no base64", "no bytes"],
)
async def test_a_request_that_makes_no_sense_is_refused(admin: Api, body: dict[str, Any]) -> None:
    assert (await admin.post("/v1/passports:what-if", body)).status_code == 422
