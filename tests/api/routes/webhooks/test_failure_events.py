"""A job that fails for good is an event that webhooks announce, with what it was about and why it failed."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from jsonschema import Draft202012Validator

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.settings import Settings
from bpc.storage.audit import signing_keys
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import insert_facts, request_run
from tests.api.conftest import KEY_ID, Api
from tests.api.evidence_fixtures import BOM, create_facts, create_snapshot, run_all_jobs, upload_document
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version, request_version
from tests.api.routes.test_rules import create_package, make_sources
from tests.pipeline.compile_fixtures import RULES, SKU, publish_rules

SUBJECT = ("passport_id", "battery_product_id", "sku")
WEBHOOKS: dict[str, Any] = create_app().openapi()["webhooks"]
FAILING_CHECK = b'field checks.recycled @public: Bool = emitCompliance("R1", "FAIL", "no recycled share is known");'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Every job has one attempt, and files may be ingested from a folder."""
    return Settings(
        env="test",
        data_dir=tmp_path,
        signing_key_id=KEY_ID,
        compiler_build_id="bpc-test",
        jobs_max_attempts_default=1,
        outbound_allow=(str(tmp_path),),
    )


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


async def read_announcement(admin: Api, event_type: str) -> Any:
    """The only event of a type, as it is sent to endpoints. It must be one that the API's document describes."""
    schema = WEBHOOKS[event_type]["post"]["requestBody"]["content"]["application/json"]["schema"]
    params = {"event_type": event_type, "since": "2020-01-01"}
    async with asyncio.timeout(60):  # events come when no older transaction runs, also of tests beside this one
        while not (items := (await admin.get_json("/v1/webhook-events", params=params))["items"]):
            await asyncio.sleep(0.02)
    [event] = items
    Draft202012Validator(schema).validate(event)
    return event["data"]


async def get_error(admin: Api, job_id: str) -> tuple[str, str]:
    job = await admin.get_json(f"/v1/jobs/{job_id}")
    assert job["status"] in {"FAILED", "DEAD_LETTER"}
    return job["last_error"]["code"], job["last_error"]["message"]


async def require_announced(admin: Api, event_type: str, aggregate_id: str, job_id: str) -> Any:
    """The payload of the announcement that this job failed."""
    data = await read_announcement(admin, event_type)
    payload = data["payload"]
    assert (data["aggregate_id"], payload["job_id"]) == (aggregate_id, job_id)
    assert (payload["code"], payload["message"]) == await get_error(admin, job_id)
    return payload


async def find_job(admin: Api, job_type: str) -> str:
    [job] = (await admin.get_json(f"/v1/jobs?type={job_type}"))["items"]
    return str(job["job_id"])


async def test_a_file_that_cannot_be_fetched(admin: Api, service: Service, tmp_path: Path) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]

    job = await admin.post_json(
        f"/v1/documents/{document}/ingest", {"file_url": f"file://{tmp_path}/absent.json"}, status=202
    )
    await run_all_jobs(service)

    payload = await require_announced(admin, "document.ingest.failed", document, job["job_id"])
    assert payload["code"] == "NOT_FOUND"
    assert payload["message"] == "there is nothing at `file:///…/absent.json` (HTTP 404)"  # the path may be secret


async def test_a_document_whose_content_is_gone_before_it_is_read(
    admin: Api, service: Service, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    upload = await upload_document(admin, BOM)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE document_versions SET content = NULL, content_removed_at = now()")

    await run_all_jobs(service)

    version = upload["document_version_id"]
    payload = await require_announced(admin, "document.parse.failed", version, upload["job_id"])
    stored = await admin.get_json(f"/v1/document-versions/{version}")
    assert (payload["document_id"], stored["status"]) == (stored["document_id"], "UPLOADED")


async def test_a_document_that_is_rejected_is_announced_once(admin: Api, service: Service) -> None:
    await upload_document(admin, {"battery": {}})

    await run_all_jobs(service)

    await read_announcement(admin, "document.version.rejected")
    types = [item["event_type"] for item in (await admin.get_json("/v1/audit/events"))["items"]]
    assert "DOCUMENT_PARSE_FAILED" not in types


async def test_a_snapshot_that_cannot_be_built(admin: Api, service: Service) -> None:
    twice = [{**BOM, "battery": {**BOM["battery"], "capacity_kwh": capacity}} for capacity in (1, 2)]
    facts = [fact for content in twice for fact in await create_facts(admin, service, content)]
    snapshot = await create_snapshot(admin, facts)

    job = await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await run_all_jobs(service)

    await require_announced(admin, "snapshot.build.failed", snapshot, job["job_id"])
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "BUILDING"


async def test_rule_tests_that_end_without_a_result(
    admin: Api, service: Service, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    draft = await admin.post_json(f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources())
    version = draft["rule_package_version_id"]
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET dsl_source = dsl_source || ' '")

    job = await admin.post_json(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 1}, status=200)
    await run_all_jobs(service)

    payload = await require_announced(admin, "rules.tests.aborted", version, job["job_id"])
    assert payload["version"] == 1


async def test_a_version_that_cannot_be_signed(
    admin: Api, service: Service, inputs: PassportInputs, database: Database, act: Act
) -> None:
    version = (await request_version(admin, inputs))["passport_version_id"]
    await signing_keys.retire_key(database, KEY_ID, act=act)

    await run_all_jobs(service)

    payload = await require_announced(admin, "passport.sign.failed", version, await find_job(admin, "SIGN_PASSPORT"))
    assert (payload["code"], payload["passport_id"], payload["sku"]) == ("SIGNING_KEY_MISSING", inputs.passport, SKU)


async def test_a_version_that_gets_no_qr_code(
    admin: Api, service: Service, inputs: PassportInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = (await request_version(admin, inputs))["passport_version_id"]
    monkeypatch.setattr("bpc.pipeline.quick_signing.PATIENCE_SECONDS", 0)  # so the code has a job of its own
    monkeypatch.setattr("bpc.pipeline.qr.draw_qr_png", lambda text: [][len(text)])  # what nobody expected

    await run_all_jobs(service)

    payload = await require_announced(admin, "passport.qr.failed", version, await find_job(admin, "GENERATE_QR"))
    assert (payload["code"], payload["passport_id"], payload["sku"]) == ("INTERNAL_ERROR", inputs.passport, SKU)


async def test_a_version_that_was_to_be_activated_and_is_blocked(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_facts(database, tenant, "SKU-1")
    async with database.tenant(tenant) as conn:
        rules = str(await publish_rules(conn, tenant, act, RULES + FAILING_CHECK))

    await request_run(admin, rules, {"sku": "SKU-1", "name": "Cell"}, activate=True)
    await run_all_jobs(service)

    [version] = (await admin.get_json("/v1/passport-versions"))["items"]
    job = await find_job(admin, "ACTIVATE_PASSPORT")
    payload = await require_announced(admin, "passport.activation.failed", version["passport_version_id"], job)
    assert (payload["code"], payload["sku"], version["status"]) == ("COMPLIANCE_BLOCKED", "SKU-1", "SIGNED")


async def test_an_export_that_fails_and_one_that_is_ready(
    admin: Api, service: Service, inputs: PassportInputs, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    version = await issue_version(admin, service, inputs)
    path = f"/v1/passport-versions/{version}/exports"
    ready = await admin.post_json(path, {"format": "XML"}, status=202)
    await run_all_jobs(service)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE passport_versions SET payload_canonical ="
        " convert_to(replace(convert_from(payload_canonical, 'UTF8'), 'Cell', 'Sell'), 'UTF8')"
    )

    failed = await admin.post_json(path, {"format": "PDF"}, status=202)
    await run_all_jobs(service)

    success = (await read_announcement(admin, "passport.export.ready"))["payload"]
    failure = await require_announced(admin, "passport.export.failed", version, failed["job_id"])
    assert (success["export_id"], success["format"], success["sku"]) == (ready["export_id"], "XML", SKU)
    assert (failure["export_id"], failure["format"], failure["sku"]) == (failed["export_id"], "PDF", SKU)
    assert success["passport_id"] == failure["passport_id"] == inputs.passport
