"""Two versions over HTTP: what differs, and the document and place that made the difference."""

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, request_version
from tests.api.routes.test_readiness import upload
from tests.pipeline.compile_fixtures import publish_rules


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        return str(await publish_rules(conn, tenant, act))


async def issue(api: Api, service: Service, rules: str) -> str:
    run = await request_run(api, rules, {"sku": "A", "name": "Cell"})
    await run_all_jobs(service)
    [row] = await list_rows(api, run)
    return str(row["passport_version_id"])


async def test_a_field_that_differs_names_the_document_and_the_place(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    first = await issue(admin, service, rules)
    document = await upload(admin, service, {"battery": {"sku": "A", "capacity_kwh": 151}})
    second = await issue(admin, service, rules)

    difference = await admin.get_json(f"/v1/passport-versions/{first}/diff/{second}")

    assert (difference["before_id"], difference["after_id"]) == (first, second)
    assert [field["path"] for field in difference["fields"]] == ["battery.capacity_kwh", "pcf.per_kwh"]
    assert difference["fields"][0]["before"] == "75.500000"
    [fact] = [fact for fact in difference["facts"] if fact["fact_type"] == "Battery"]
    assert (fact["member"], fact["after"], fact["after_origin"]["document_id"]) == (
        "capacity_kwh",
        "151.000000",
        document,
    )
    assert fact["after_origin"]["place"] == "$.battery.capacity_kwh"
    assert difference["fields"][0]["causes"] == [fact["message"]]
    assert (difference["rules"], difference["access"], difference["product"]) == ([], [], [])


async def test_a_version_does_not_differ_from_itself(
    admin: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    version = await issue(admin, service, rules)

    difference = await admin.get_json(f"/v1/passport-versions/{version}/diff/{version}")

    assert [difference[part] for part in ("fields", "compliance", "facts", "rules")] == [[], [], [], []]


async def test_a_version_that_is_not_issued_cannot_be_compared(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    version = (await request_version(admin, inputs))["passport_version_id"]

    refused = await admin.get(f"/v1/passport-versions/{version}/diff/{version}")

    assert refused.status_code == 404  # it exists once it is compiled


async def test_a_policy_about_the_second_version_counts(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, rules: str
) -> None:
    await insert_facts(database, tenant, "A")
    versions = [await issue(admin, service, rules) for _ in range(2)]
    about = {"resource": {"type": "PassportVersion", "ids": versions[1:]}}
    policy = {"effect": "DENY", "target": "passport:read", "priority": 100, "policy_json": about}
    await admin.post_json("/v1/policies", {"name": "not this one", **policy})

    answers = [
        await officer.get(f"/v1/passport-versions/{versions[one]}/diff/{versions[other]}")
        for one, other in ((0, 0), (0, 1), (1, 0))
    ]

    assert [answer.status_code for answer in answers] == [200, 403, 403]
