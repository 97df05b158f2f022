"""Finding things over HTTP: filters, text search, and lists that say which product they are about."""

import asyncio
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
from tests.pipeline.compile_fixtures import publish_rules

PRODUCTS = {"CELL-1": "Zinkzelle Öhringen", "CELL-2": "Traction battery 75 kWh", "PACK-3": "Traction pack ÖKO"}

GRAPHQL_LISTS = {
    "/v1/battery-products": "batteryProducts",
    "/v1/passports": "passports",
    "/v1/passport-versions": "passportVersions",
}


async def list_members(api: Api, path: str, member: str, **query: Any) -> list[Any]:
    """A member of every item of a list, over all pages of one item each: filters hold on every page."""
    values: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await api.get_json(path, params={**query, "limit": 1, **cursor})
        values += [item[member] for item in page["items"]]
        if page["next_cursor"] is None:
            return values
        cursor = {"cursor": page["next_cursor"]}


async def upload(api: Api, service: Service, skus: list[str], **document: Any) -> str:
    """A document that speaks of some products, read."""
    created_document = await api.post_json("/v1/documents", {"kind": "BOM", **document})
    for sku in skus:
        content = json.dumps({"battery": {"sku": sku, "mass_kg": "1"}, "note": document}).encode()
        body = {"mime_type": "application/json", "content_base64": b64encode(content).decode()}
        await api.post_json(f"/v1/documents/{created_document['document_id']}/versions", body)
    await run_all_jobs(service)
    return str(created_document["document_id"])


@pytest.fixture
async def passports(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    """A bulk compile of three products; the first is active."""
    async with database.tenant(tenant) as conn:
        rules = str(await publish_rules(conn, tenant, act))
    await insert_facts(database, tenant, *PRODUCTS)
    items = [{"sku": sku, "name": name, "activate": sku == "CELL-1"} for sku, name in PRODUCTS.items()]
    run = await request_run(admin, rules, *items)
    await run_all_jobs(service)
    return run


async def test_products_passports_and_versions_are_found_by_their_product(
    admin: Api, service: Service, passports: str
) -> None:
    await upload(admin, service, ["CELL-2"], supplier="Example Cells GmbH", name="Stückliste", external_ref="ERP-4711")
    for path in ("/v1/battery-products", "/v1/passports", "/v1/passport-versions"):
        for query, skus in (
            ({"sku": "CELL-1"}, ["CELL-1"]),
            ({"sku": "cell-1"}, []),
            ({"q": "cell"}, ["CELL-2", "CELL-1"]),
            ({"q": "zelle öhr"}, ["CELL-1"]),
            ({"q": "öko"}, ["PACK-3"]),
            ({"q": "75"}, ["CELL-2"]),
            ({"q": "%%"}, []),
            ({"name": "TRACTION"}, ["PACK-3", "CELL-2"]),
            ({"name": "cell-"}, []),
            ({"q": "traction", "sku": "PACK-3"}, ["PACK-3"]),
            ({"supplier": "Example Cells GmbH"}, ["CELL-2"]),
            ({"supplier": "Example Cells GmbH", "q": "zink"}, []),
            ({"supplier": "nobody"}, []),
            ({"created_before": "2020-01-01"}, []),
            ({"created_after": "2020-01-01", "q": "pack"}, ["PACK-3"]),
        ):
            assert sorted(await list_members(admin, path, "sku", **query)) == sorted(skus), (path, query)

    assert await list_members(admin, "/v1/passports", "sku", status="ACTIVE") == ["CELL-1"]
    assert await list_members(admin, "/v1/passport-versions", "sku", status="ACTIVE") == ["CELL-1"]
    assert sorted(await list_members(admin, "/v1/passports", "sku", status="NONE")) == ["CELL-2", "PACK-3"]
    assert sorted(await list_members(admin, "/v1/passport-versions", "sku", status="SIGNED")) == ["CELL-2", "PACK-3"]
    [passport] = await list_members(admin, "/v1/passports", "passport_id", sku="CELL-1")
    versions = f"/v1/passports/{passport}/versions"
    assert await list_members(admin, versions, "product_name", status="ACTIVE") == ["Zinkzelle Öhringen"]
    assert await list_members(admin, versions, "sku", created_before="2020-01-01T00:00:00Z") == []


async def test_lists_say_which_product_they_are_about(admin: Api, passports: str) -> None:
    names = set(PRODUCTS.items())

    for path in ("/v1/passports", "/v1/passport-versions", f"/v1/compile-runs/{passports}/rows"):
        listed = await admin.get_json(path)
        assert {(item["sku"], item["product_name"]) for item in listed["items"]} == names, path
    [version] = await list_members(admin, "/v1/passport-versions", "passport_version_id", sku="CELL-1")
    await admin.post_json(f"/v1/passport-versions/{version}/exports", {"format": "JSON_LD"}, status=202)
    [export] = (await admin.get_json(f"/v1/passport-versions/{version}/exports"))["items"]
    assert (export["sku"], export["product_name"]) == ("CELL-1", PRODUCTS["CELL-1"])


async def test_runs_and_their_rows_are_found_by_sku(admin: Api, passports: str) -> None:
    for query, runs in (
        ({"sku": "PACK-3"}, [passports]),
        ({"sku": "PACK"}, []),
        ({"cancelled": "false"}, [passports]),
        ({"cancelled": "true"}, []),
        ({"created_before": "2020-01-01"}, []),
    ):
        assert await list_members(admin, "/v1/compile-runs", "run_id", **query) == runs, query
    rows = f"/v1/compile-runs/{passports}/rows"
    assert await list_members(admin, rows, "product_name", sku="CELL-2") == [PRODUCTS["CELL-2"]]
    assert await list_members(admin, rows, "sku", sku="CELL-1", status="ACTIVE") == ["CELL-1"]
    assert await list_members(admin, rows, "sku", sku="CELL-2", status="ACTIVE") == []


async def test_runs_are_found_by_status_over_rest_and_graphql(admin: Api, service: Service, passports: str) -> None:
    async with asyncio.timeout(60):  # the end is recorded by a job that looks after a pause
        while not await list_members(admin, "/v1/compile-runs", "run_id", status="FINISHED"):
            await asyncio.sleep(0.1)
            await run_all_jobs(service)
    rules = (await admin.get_json(f"/v1/compile-runs/{passports}"))["rule_package_version_id"]
    stopped = await request_run(admin, rules, {"sku": "CELL-1"})
    await admin.post_json(f"/v1/compile-runs/{stopped}:cancel", status=200)
    running = await request_run(admin, rules, {"sku": "CELL-2"})
    by_status = {"FINISHED": [passports], "CANCELLED": [stopped], "RUNNING": [running]}

    for status, runs in by_status.items():
        assert await list_members(admin, "/v1/compile-runs", "run_id", status=status) == runs, status
        assert (await admin.get_json(f"/v1/compile-runs/{runs[0]}"))["status"] == status
        query = f'{{ compileRuns(status: "{status}") {{ items {{ runId status rows }} }} }}'
        answer = (await admin.post("/v1/graphql", {"query": query})).json()["data"]
        rows = {passports: 3}.get(runs[0], 1)
        assert answer == {"compileRuns": {"items": [{"runId": runs[0], "status": status, "rows": rows}]}}
    query = f'''{{ bySku: compileRuns(sku: "PACK-3", rulePackageVersionId: "{rules}", cancelled: false,
                                       createdAfter: "2020-01-01") {{ items {{ runId }} }}
                   byNothing: compileRuns(createdBefore: "2020-01-01") {{ items {{ runId }} }}
                   compileRun(id: "{running}") {{ rulePackageVersion {{ status }} }} }}'''
    answer = (await admin.post("/v1/graphql", {"query": query})).json()["data"]
    assert answer == {
        "bySku": {"items": [{"runId": passports}]},
        "byNothing": {"items": []},
        "compileRun": {"rulePackageVersion": {"status": "PUBLISHED"}},
    }


async def test_facts_jobs_and_runs_are_found_by_a_part_of_the_sku_or_the_name(admin: Api, passports: str) -> None:
    for text, skus in (("ZINKZELLE", {"CELL-1"}), ("traction", {"CELL-2", "PACK-3"}), ("no such", set())):
        listed = [(await admin.get_json(path, params={"q": text}))["items"] for path in ("/v1/facts", "/v1/jobs")]
        facts, jobs = listed[0], [job["subject"] for job in listed[1]]
        for items in (facts, jobs):
            assert {(item["sku"], item["product_name"]) for item in items} == {(sku, PRODUCTS[sku]) for sku in skus}
        runs = await list_members(admin, "/v1/compile-runs", "run_id", q=text)
        assert runs == ([passports] if skus else [])
        query = f'''{{ facts(q: "{text}") {{ items {{ sku productName }} }}
                       compileRuns(q: "{text}") {{ items {{ runId }} }}
                       jobs(q: "{text}") {{ items {{ subject {{ sku productName }} }} }} }}'''
        answer = (await admin.post("/v1/graphql", {"query": query})).json()["data"]
        subjects = [item["subject"] for item in answer["jobs"]["items"]]
        for items in (answer["facts"]["items"], subjects):
            assert {(item["sku"], item["productName"]) for item in items} == {(sku, PRODUCTS[sku]) for sku in skus}
        assert [item["runId"] for item in answer["compileRuns"]["items"]] == runs


async def test_pages_of_what_a_text_finds_are_newest_first_and_skip_nothing(admin: Api, passports: str) -> None:
    for path, member in (("/v1/facts", "fact_id"), ("/v1/jobs", "job_id")):
        everything = (await admin.get_json(path, params={"q": "tract", "limit": 200}))["items"]
        positions = [(item["created_at"] if member == "fact_id" else "", item[member]) for item in everything]
        assert positions == sorted(positions, reverse=True)  # ids of jobs have the order of time
        assert await list_members(admin, path, member, q="tract") == [item[member] for item in everything]
        one = await list_members(admin, path, member, q="tract", sku="PACK-3")
        assert 0 < len(one) < len(everything)
        assert await list_members(admin, path, member, q="tract", sku="CELL-1") == []


async def test_a_text_that_is_in_too_many_products_is_refused(admin: Api) -> None:
    for number in range(21):
        await admin.post_json("/v1/battery-products", {"sku": f"MANY-{number}", "name": "Pack"})

    for path in ("/v1/facts", "/v1/jobs", "/v1/compile-runs"):
        refused = await admin.get(path, params={"q": "many-"})
        assert refused.status_code == 422, path
        assert "more than 20 products" in refused.json()["error"]["message"]
        assert (await admin.get(path, params={"q": "many-1"})).status_code == 200


async def test_documents_and_facts_are_found_by_product_supplier_and_text(admin: Api, service: Service) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "CELL-1", "name": "Zinkzelle"})
    first = await upload(admin, service, ["CELL-1"], supplier="Example Cells GmbH", name="Stückliste ÄÖ")
    second = await upload(admin, service, ["CELL-1", "CELL-2"], supplier="Other AG", external_ref="ERP-4711")
    third = await upload(admin, service, [], kind="PCF")

    for query, documents in (
        ({"q": "STÜCKLISTE äö"}, [first]),
        ({"q": "erp-47"}, [second]),
        ({"name": "erp-47"}, []),
        ({"sku": "CELL-1"}, [second, first]),
        ({"sku": "CELL-2"}, [second]),
        ({"supplier": "Other AG"}, [second]),
        ({"supplier": "nobody"}, []),
        ({"kind": "PCF"}, [third]),
        ({"kind": "BOM", "sku": "CELL-1", "q": "liste"}, [first]),
        ({"status": "INACTIVE"}, []),
        ({"created_before": "2020-01-01"}, []),
    ):
        assert await list_members(admin, "/v1/documents", "document_id", **query) == documents, query
    assert await list_members(admin, "/v1/documents", "products") == [
        [],
        [{"sku": "CELL-2", "name": None}],
        [{"sku": "CELL-1", "name": "Zinkzelle"}],
    ]
    for query, skus in (
        ({"sku": "CELL-1"}, ["CELL-1"]),
        ({"sku": "CELL"}, []),
        ({"supplier": "Other AG"}, ["CELL-2", "CELL-1"]),
        ({"supplier": "Example Cells GmbH", "sku": "CELL-2"}, []),
        ({"supplier": "Other AG", "fact_type": "Battery", "fact_key_prefix": "battery:CELL-2"}, ["CELL-2"]),
        ({"created_before": "2020-01-01"}, []),
        ({"created_after": "2020-01-01", "fact_type": "Blinding"}, []),
    ):
        assert await list_members(admin, "/v1/facts", "sku", **query) == skus, query


async def test_who_may_not_read_documents_does_not_learn_what_suppliers_speak_of(
    admin: Api, auditor: Api, service: Service
) -> None:
    await upload(admin, service, ["CELL-1"], supplier="Example Cells GmbH")
    await admin.post_json("/v1/battery-products", {"sku": "CELL-1", "name": "Zinkzelle"})
    role = {"name": "reader", "permissions": ["docs:read"]}
    await admin.post_json("/v1/roles", role)
    actor = await admin.post_json("/v1/actors", {"type": "USER", "display_name": "reader", "roles": ["reader"]})
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    reader = Api(admin.http, key["api_key"])

    for path in ("/v1/battery-products", "/v1/passports", "/v1/passport-versions"):
        refused = await auditor.get(path, params={"supplier": "Example Cells GmbH"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN"), path
        asked = {"query": f'{{ {GRAPHQL_LISTS[path]}(supplier: "Example Cells GmbH") {{ nextCursor }} }}'}
        assert "FORBIDDEN" in (await auditor.post("/v1/graphql", asked)).text
    assert await list_members(reader, "/v1/documents", "products") == [[{"sku": "CELL-1", "name": None}]]


async def test_rule_packages_are_found_by_text(admin: Api) -> None:
    first = await admin.post_json("/v1/rule-packages", {"name": "Industrial", "description": "Annex XIII"})
    second = await admin.post_json("/v1/rule-packages", {"name": "Light vehicles"})

    for query, packages in (
        ({"q": "annex"}, [first]),
        ({"name": "annex"}, []),
        ({"name": "LIGHT"}, [second]),
        ({"status": "ACTIVE"}, [second, first]),
        ({"created_before": "2020-01-01"}, []),
    ):
        ids = [package["rule_package_id"] for package in packages]
        assert await list_members(admin, "/v1/rule-packages", "rule_package_id", **query) == ids, query


async def test_a_cursor_belongs_to_its_filters(admin: Api, passports: str) -> None:
    page = await admin.get_json("/v1/battery-products", params={"q": "cell", "limit": 1})

    other = await admin.get("/v1/battery-products", params={"q": "pack", "limit": 1, "cursor": page["next_cursor"]})

    assert (other.status_code, other.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "the cursor is not one that this list gave" in other.text


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"q": "a"}, "q"),
        ({"q": "a" * 201}, "q"),
        ({"status": "BUSY"}, "status"),
        ({"colour": "red"}, "there is no query parameter `colour`"),
    ],
)
async def test_a_filter_that_cannot_be_is_refused(admin: Api, query: dict[str, str], says: str) -> None:
    for path in ("/v1/battery-products", "/v1/passports", "/v1/passport-versions", "/v1/documents"):
        refused = await admin.get(path, params=query)
        assert refused.status_code == 422, path
        assert says in refused.json()["error"]["message"], refused.text


async def test_what_graphql_lists_is_filtered_in_the_same_way(admin: Api, passports: str) -> None:
    async def ask(query: str) -> Any:
        answer = (await admin.post("/v1/graphql", {"query": query})).json()
        assert "errors" not in answer, answer
        return answer["data"]

    answer = await ask(
        """{ byText: batteryProducts(q: "zelle öhr") { items { sku isActive } }
             byStatus: passports(status: "ACTIVE") { items { sku productName versions(status: "ACTIVE") {
               items { productName } } } }
             bySku: passportVersions(sku: "PACK-3", createdAfter: "2020-01-01") { items { sku status } }
             facts(sku: "CELL-1") { items { sku } } documents(sku: "no such") { items { name } }
             rulePackages(q: "no such") { items { isActive } } }"""
    )

    assert answer["byText"] == {"items": [{"sku": "CELL-1", "isActive": True}]}
    versions = {"items": [{"productName": PRODUCTS["CELL-1"]}]}
    active = {"sku": "CELL-1", "productName": PRODUCTS["CELL-1"], "versions": versions}
    assert answer["byStatus"] == {"items": [active]}
    assert answer["bySku"] == {"items": [{"sku": "PACK-3", "status": "SIGNED"}]}
    assert {item["sku"] for item in answer["facts"]["items"]} == {"CELL-1"}
    assert answer["documents"] == answer["rulePackages"] == {"items": []}
    page = (await ask('{ batteryProducts(q: "cell", first: 1) { nextCursor } }'))["batteryProducts"]
    other = f'{{ batteryProducts(q: "pack", first: 1, after: "{page["nextCursor"]}") {{ nextCursor }} }}'
    assert "the cursor is not one that this list gave" in (await admin.post("/v1/graphql", {"query": other})).text
    wrong_filters = (
        *('passports(status: "BUSY")', 'passportVersions(q: "a")', 'documents(kind: "NOTE")'),
        'compileRuns(status: "BUSY")',
    )
    for wrong in wrong_filters:
        assert (
            "VALIDATION_ERROR" in (await admin.post("/v1/graphql", {"query": f"{{ {wrong} {{ nextCursor }} }}"})).text
        )
