"""What jobs are about and what came of them, over HTTP: shown, found by it, for every type that a passport needs."""

from typing import Any

import pytest
from service_jobs.handler import Handler
from service_jobs.job import Status

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, list_rows, request_run, run_all_jobs
from tests.api.conftest import Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version
from tests.pipeline.compile_fixtures import SKU

JOBS_QUERY = """
    query ($kind: String, $id: String, $sku: String) {
      jobs(subjectKind: $kind, subjectId: $id, sku: $sku, first: 50) { items { type subject { kind id sku } } }
    }
"""


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


async def list_jobs(api: Api, **filters: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = (await api.get_json("/v1/jobs", params={"limit": "200", **filters}))["items"]
    return jobs


async def load_results(api: Api, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """The results by type; the oldest of each."""
    return {job["type"]: (await api.get_json(f"/v1/jobs/{job['job_id']}/result"))["result"] for job in jobs}


async def test_the_jobs_of_a_passport_say_what_they_are_about_and_what_they_made(
    admin: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)
    export = await admin.post_json(f"/v1/passport-versions/{version}/exports", {"format": "XML"}, status=202)
    await run_all_jobs(service)

    jobs = await list_jobs(admin, subject_kind="passport_version", subject_id=version)
    results = await load_results(admin, jobs)
    of_product = await list_jobs(admin, sku=SKU)

    assert [job["type"] for job in jobs] == ["EXPORT_PASSPORT", "COMPILE_PASSPORT"]
    assert all(
        job["subject"] == {"kind": "passport_version", "id": version, "sku": SKU, "product_name": "Cell"}
        for job in jobs
    )
    assert {job["service_id"] for job in jobs} == {"bpc"}
    assert jobs == of_product
    assert results["COMPILE_PASSPORT"]["sign_job_id"] is None
    assert results["COMPILE_PASSPORT"]["fact_count"] > 0
    assert results["COMPILE_PASSPORT"]["qr_payload"]
    assert results["EXPORT_PASSPORT"]["export_id"] == export["export_id"]
    assert results["EXPORT_PASSPORT"]["bytes"] > 0
    assert await list_jobs(admin, sku="another") == []


async def test_the_rows_of_a_run_are_found_by_the_run_and_by_the_product(
    admin: Api, service: Service, database: Database, tenant: TenantId, inputs: PassportInputs
) -> None:
    await insert_facts(database, tenant, "SKU-B")
    rules = inputs.body["rule_package_version_id"]
    run = await request_run(admin, rules, {"sku": "SKU-B", "name": "B", "activate": True})
    await run_all_jobs(service)

    of_run = await list_jobs(admin, subject_kind="compile_run", subject_id=run)
    of_product = await list_jobs(admin, sku="SKU-B")
    results = await load_results(admin, of_product)
    [row] = await list_rows(admin, run)

    assert {job["type"] for job in of_run} == {"COMPILE_ROW", "FINISH_COMPILE_RUN"}
    [row_job] = [job for job in of_run if job["type"] == "COMPILE_ROW"]
    assert row_job["subject"] == {"kind": "compile_run", "id": run, "sku": "SKU-B", "product_name": "B"}
    assert [job["type"] for job in of_product[::-1]] == [*("COMPILE_ROW", "COMPILE_PASSPORT", "ACTIVATE_PASSPORT")]
    assert results["COMPILE_ROW"]["passport_version_id"] == row["passport_version_id"]
    assert results["ACTIVATE_PASSPORT"]["status"] == "ACTIVE"


async def test_graphql_shows_and_filters_the_same(admin: Api, service: Service, inputs: PassportInputs) -> None:
    version = await issue_version(admin, service, inputs)

    async def ask(**variables: str) -> list[Any]:
        answer = await admin.post_json("/v1/graphql", {"query": JOBS_QUERY, "variables": variables}, status=200)
        items: list[Any] = answer["data"]["jobs"]["items"]
        return items

    of_version = await ask(kind="passport_version", id=version)

    assert [job["type"] for job in of_version] == ["COMPILE_PASSPORT"]
    assert of_version[0]["subject"] == {"kind": "passport_version", "id": version, "sku": SKU}
    assert await ask(sku=SKU) == of_version


async def test_half_a_subject_and_an_unknown_kind_are_refused(admin: Api) -> None:
    for query in ("subject_kind=snapshot", "subject_id=1", "subject_kind=battery&subject_id=1"):
        assert (await admin.get(f"/v1/jobs?{query}")).status_code == 422, query


async def test_every_type_is_listed_and_every_type_has_a_result(admin: Api, service: Service) -> None:
    types = {item["type"]: item for item in (await admin.get_json("/v1/job-types"))["items"]}

    def has_result(handler: Handler[Any, Any]) -> bool:
        return str(handler.output_adapter.core_schema["type"]) != "none"

    assert sorted(types) == sorted(handler.type for handler in service.jobs.handlers)
    assert all(item["description"] and item["restartable"] for item in types.values())
    assert [handler.type for handler in service.jobs.handlers if not has_result(handler)] == []
    assert types["RUN_RULE_TESTS"]["timeout_seconds"] == 600
    assert types["PARSE_FACTS"]["max_attempts"] == service.settings.jobs_max_attempts_default
    assert [name for name, item in types.items() if item["schedulable"]] == [
        "INGEST_DOCUMENT",
        "RENEW_ITEMS",
        "REPLAY_AUDIT",
    ]


async def test_a_failed_job_says_what_to_do(admin: Api, service: Service) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    job_id = (await admin.post_json(f"/v1/documents/{document}/versions", body))["job_id"]
    await run_all_jobs(service)

    job = await admin.get_json(f"/v1/jobs/{job_id}")

    assert (job["status"], job["subject"]["kind"]) == (Status.FAILED, "document_version")
    assert job["last_error"]["next_step"] == "correct the document and upload it as a new version"
