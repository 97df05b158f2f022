"""Passports over HTTP: from a product to a version that is current, replays, and can be checked by a stranger."""

from typing import Any

import asyncpg
import pytest
from tests.jobs.support.run_workers import wait_until_all_over

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import derive_public_key
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.verify.bundle import verify_bundle
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.api.conftest import SEED, Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version, request_version
from tests.pipeline.compile_fixtures import BATTERY, create_sealed_snapshot, publish_rules
from tests.storage.evidence_rows import insert_snapshot


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


async def list_event_types(database: Database, tenant: TenantId, aggregate: str, thing: Any) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, aggregate, AggregateId(thing)))
    return [stored.event.event_type for stored in chain]


@pytest.mark.usefixtures("worker")
async def test_the_journey_from_a_product_to_a_revoked_passport(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, inputs: PassportInputs
) -> None:
    first = (await request_version(officer, inputs))["passport_version_id"]
    await wait_until_all_over(service.jobs, tenant)
    passport_version = await officer.get_json(f"/v1/passport-versions/{first}")
    assert (passport_version["status"], passport_version["has_qr"], passport_version["passport_id"]) == (
        "SIGNED",
        True,
        inputs.passport,
    )

    assert (await officer.post_json(f"/v1/passport-versions/{first}/activate", status=200))["status"] == "ACTIVE"
    passport = await officer.get_json(f"/v1/passports/{inputs.passport}")
    assert passport["current_passport_version_id"] == first

    second = (await request_version(officer, inputs))["passport_version_id"]
    await wait_until_all_over(service.jobs, tenant)
    activated = await officer.post_json(f"/v1/passport-versions/{second}/activate", status=200)
    assert activated["superseded_passport_version_id"] == first
    listed = await officer.get_json(f"/v1/passports/{inputs.passport}/versions")
    assert [(item["passport_version_id"], item["status"]) for item in listed["items"]] == [
        (second, "ACTIVE"),
        (first, "SUPERSEDED"),
    ]
    assert listed["items"][0]["activated_at"] == listed["items"][1]["superseded_at"]

    for version in (first, second):
        replayed = await officer.post_json(f"/v1/passport-versions/{version}/replay", status=200)
        assert replayed["status"] == "OK"
        assert all(step["ok"] for step in replayed["steps"])
        bundle = (await officer.get(f"/v1/passport-versions/{version}/bundle")).content
        report = verify_bundle(bundle, pins=[derive_public_key(SEED)])
        assert (report.ok, report.issuer) == (True, "pinned"), report

    revoked = await admin.post_json(f"/v1/passport-versions/{second}/revoke", {"reason": "withdrawn"}, status=200)
    assert revoked == {"passport_version_id": second, "status": "REVOKED"}
    assert (await officer.get_json(f"/v1/passports/{inputs.passport}"))["current_passport_version_id"] is None
    assert await list_event_types(database, tenant, "PassportVersion", second) == [
        "PASSPORT_COMPILED",
        "PASSPORT_SIGNED",
        "QR_GENERATED",
        "PASSPORT_ACTIVATED",
        "PASSPORT_REPLAYED",
        "PASSPORT_REVOKED",
    ]
    assert await list_event_types(database, tenant, "Passport", inputs.passport) == [
        "PASSPORT_CREATED",
        "COMPILE_REQUESTED",
        "COMPILE_REQUESTED",
    ]


async def test_a_passport_is_created_once_for_a_product(officer: Api, inputs: PassportInputs) -> None:
    passport = await officer.get_json(f"/v1/passports/{inputs.passport}")

    again = await officer.post("/v1/passports", {"battery_product_id": passport["battery_product_id"]})

    assert (again.status_code, again.json()["error"]["details"]) == (409, {"passport_id": inputs.passport})
    assert [item["passport_id"] for item in (await officer.get_json("/v1/passports"))["items"]] == [inputs.passport]
    assert passport["current_passport_version_id"] is None


async def test_what_a_request_names_and_does_not_exist_is_named_in_the_answer(
    officer: Api, inputs: PassportInputs
) -> None:
    unknown = str(clock.new_id())

    for path, body in (
        ("/v1/passports", {"battery_product_id": unknown}),
        (f"/v1/passports/{unknown}/compile", inputs.body),
        (f"/v1/passports/{inputs.passport}/compile", inputs.body | {"snapshot_id": unknown}),
        (f"/v1/passports/{inputs.passport}/compile", inputs.body | {"rule_package_version_id": unknown}),
    ):
        refused = await officer.post(path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "NOT_FOUND"), path
        assert unknown in refused.json()["error"]["message"]


async def test_a_version_is_not_found_until_its_job_has_made_it_and_then_says_when_it_was_asked_for(
    officer: Api, service: Service, inputs: PassportInputs
) -> None:
    request_answer = await request_version(officer, inputs)
    before = await officer.get(f"/v1/passport-versions/{request_answer['passport_version_id']}")
    same = await issue_version(officer, service, inputs)

    passport_version = await officer.get_json(f"/v1/passport-versions/{request_answer['passport_version_id']}")

    assert before.status_code == 404
    assert passport_version["created_at"] == request_answer["issued_at"]
    assert (await officer.get_json(f"/v1/passport-versions/{request_answer['passport_version_id']}/payload"))[
        "issued_at"
    ] == (request_answer["issued_at"])
    assert same != request_answer["passport_version_id"]


async def test_only_sealed_snapshots_and_published_rules_compile(
    officer: Api, database: Database, tenant: TenantId, act: Act, inputs: PassportInputs
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await insert_snapshot(conn, tenant, status="READY"))
        rules = str(await publish_rules(conn, tenant, act, status="DEPRECATED"))

    for changed, code in (
        ({"snapshot_id": snapshot}, "SNAPSHOT_NOT_READY"),
        ({"rule_package_version_id": rules}, "RULE_PKG_NOT_PUBLISHED"),
    ):
        refused = await officer.post(f"/v1/passports/{inputs.passport}/compile", inputs.body | changed)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, code)
    assert await list_event_types(database, tenant, "Passport", inputs.passport) == ["PASSPORT_CREATED"]


async def test_a_compile_that_fails_leaves_no_version_and_a_job_that_says_why(
    officer: Api, service: Service, database: Database, tenant: TenantId, inputs: PassportInputs
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await create_sealed_snapshot(conn, tenant, [BATTERY]))
    request_answer = await request_version(
        officer, PassportInputs(passport=inputs.passport, body=inputs.body | {"snapshot_id": snapshot})
    )
    await issue_version(officer, service, inputs)

    job = await service.jobs.get_job(tenant, request_answer["job_id"])

    assert job.status == "FAILED"
    assert job.last_error is not None
    assert job.last_error.code == "RULE_ASSERTION_FAILED"
    assert (await officer.get(f"/v1/passport-versions/{request_answer['passport_version_id']}")).status_code == 404
    assert "COMPILE_FAILED" in await list_event_types(database, tenant, "Passport", inputs.passport)


async def test_a_request_that_is_sent_twice_with_one_key_makes_one_version(
    officer: Api, service: Service, inputs: PassportInputs
) -> None:
    path = f"/v1/passports/{inputs.passport}/compile"

    one, other = [await officer.post(path, inputs.body, idempotency_key="once") for _ in range(2)]

    assert one.content == other.content
    await issue_version(officer, service, inputs)
    assert len((await officer.get_json(f"/v1/passports/{inputs.passport}/versions"))["items"]) == 2


async def test_what_cannot_be_done_in_this_status_is_a_conflict_that_names_it(
    admin: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)
    await admin.post_json(f"/v1/passport-versions/{version}/revoke", {"reason": "a mistake"}, status=200)

    for path, body in (("activate", None), ("revoke", {"reason": "again"})):
        refused = await admin.post(f"/v1/passport-versions/{version}/{path}", body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
        assert refused.json()["error"]["details"] == {"status": "REVOKED"}
    assert (await admin.post(f"/v1/passport-versions/{version}/revoke", {})).status_code == 422


async def test_a_mismatch_is_refused_with_its_steps_and_stays_on_record(
    officer: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    inputs: PassportInputs,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    version = await issue_version(officer, service, inputs)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET proof_canonical = '{}'::bytea")

    refused = [
        await officer.post(f"/v1/passport-versions/{version}/replay", idempotency_key="the-same") for _ in range(2)
    ]

    for answer in refused:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "REPLAY_MISMATCH")
        assert [step["name"] for step in error["details"]["steps"] if not step["ok"]] == ["replay"]
        assert error["correlation_id"] == answer.headers["x-correlation-id"]
    # A refused request may be repeated; each time somebody looked.
    assert (await list_event_types(database, tenant, "PassportVersion", version))[3:] == ["REPLAY_MISMATCH"] * 2


async def test_a_wrong_signature_is_refused_as_such_and_stays_on_record(
    officer: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    inputs: PassportInputs,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    version = await issue_version(officer, service, inputs)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET signature = decode(repeat('00', 64), 'hex')")

    refused = await officer.post(f"/v1/passport-versions/{version}/replay")

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "SIGNATURE_INVALID")
    assert "its signature does not verify: the stored signature is not the receipt's" in error["message"]
    assert [step["name"] for step in error["details"]["steps"] if not step["ok"]] == ["signature"]
    assert (await list_event_types(database, tenant, "PassportVersion", version))[3:] == ["REPLAY_MISMATCH"]


async def test_who_may_do_what_with_a_version(
    admin: Api, officer: Api, auditor: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)

    for api, path, body in (
        (auditor, f"/v1/passports/{inputs.passport}/compile", inputs.body),
        (auditor, f"/v1/passport-versions/{version}/activate", None),
        (auditor, f"/v1/passport-versions/{version}/replay", None),
        (officer, f"/v1/passport-versions/{version}/revoke", {"reason": "-"}),
    ):
        refused = await api.post(path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN"), path
    assert (await auditor.get_json(f"/v1/passport-versions/{version}"))["status"] == "SIGNED"


async def test_another_tenants_passports_are_like_ones_that_do_not_exist(
    admin: Api, other_admin: Api, service: Service, inputs: PassportInputs
) -> None:
    version = await issue_version(admin, service, inputs)

    for path in (f"/v1/passports/{inputs.passport}", f"/v1/passports/{inputs.passport}/versions"):
        assert (await other_admin.get(path)).json()["error"]["message"] == (
            f"there is no passport `{inputs.passport}`; list them with GET /v1/passports"
        )
    for what, body in (("activate", None), ("replay", None), ("revoke", {"reason": "-"})):
        answer = await other_admin.post(f"/v1/passport-versions/{version}/{what}", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        assert answer.json()["error"]["message"] == (
            f"there is no passport version `{version}`; list them with GET /v1/passports/{{passport_id}}/versions;"
            " a new version is there when its job has finished"
        )
