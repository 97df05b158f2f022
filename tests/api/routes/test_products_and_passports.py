"""Passports over HTTP: from a product to a version that is current, replays, and can be checked by a stranger."""

from typing import Any

import asyncpg
import pytest

from bpc import fresh
from bpc.api.service import Service
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.core.signing import public_key_of
from bpc.core.verify.bundle import verify_bundle
from bpc.db import events
from bpc.db.database import Database
from tests.api.conftest import SEED, Api
from tests.api.issued import Compilable, compilable, issued, requested
from tests.db.rows import a_snapshot
from tests.jobs.working import until_all_over
from tests.pipeline.ready import BATTERY, published_rules, sealed_snapshot


@pytest.fixture
async def given(admin: Api, database: Database, tenant: TenantId, act: Act) -> Compilable:
    return await compilable(admin, database, tenant, act)


async def event_types(database: Database, tenant: TenantId, aggregate: str, thing: Any) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, aggregate, AggregateId(thing)))
    return [stored.event.event_type for stored in chain]


@pytest.mark.usefixtures("worker")
async def test_the_journey_from_a_product_to_a_revoked_passport(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, given: Compilable
) -> None:
    first = (await requested(officer, given))["passport_version_id"]
    await until_all_over(service.jobs, tenant)
    found = await officer.got(f"/v1/passport-versions/{first}")
    assert (found["status"], found["has_qr"], found["passport_id"]) == ("SIGNED", True, given.passport)

    assert (await officer.made(f"/v1/passport-versions/{first}/activate", status=200))["status"] == "ACTIVE"
    passport = await officer.got(f"/v1/passports/{given.passport}")
    assert passport["current_passport_version_id"] == first

    second = (await requested(officer, given))["passport_version_id"]
    await until_all_over(service.jobs, tenant)
    activated = await officer.made(f"/v1/passport-versions/{second}/activate", status=200)
    assert activated["superseded_passport_version_id"] == first
    listed = await officer.got(f"/v1/passports/{given.passport}/versions")
    assert [(item["passport_version_id"], item["status"]) for item in listed["items"]] == [
        (second, "ACTIVE"),
        (first, "SUPERSEDED"),
    ]
    assert listed["items"][0]["activated_at"] == listed["items"][1]["superseded_at"]

    for version in (first, second):
        replayed = await officer.made(f"/v1/passport-versions/{version}/replay", status=200)
        assert replayed["status"] == "OK"
        assert all(step["ok"] for step in replayed["steps"])
        bundle = (await officer.get(f"/v1/passport-versions/{version}/bundle")).content
        report = verify_bundle(bundle, pinned=[public_key_of(SEED)])
        assert (report.ok, report.issuer) == (True, "pinned"), report

    revoked = await admin.made(f"/v1/passport-versions/{second}/revoke", {"reason": "withdrawn"}, status=200)
    assert revoked == {"passport_version_id": second, "status": "REVOKED"}
    assert (await officer.got(f"/v1/passports/{given.passport}"))["current_passport_version_id"] is None
    assert await event_types(database, tenant, "PassportVersion", second) == [
        "PASSPORT_COMPILED",
        "PASSPORT_SIGNED",
        "QR_GENERATED",
        "PASSPORT_ACTIVATED",
        "PASSPORT_REPLAYED",
        "PASSPORT_REVOKED",
    ]
    assert await event_types(database, tenant, "Passport", given.passport) == [
        "PASSPORT_CREATED",
        "COMPILE_REQUESTED",
        "COMPILE_REQUESTED",
    ]


async def test_a_passport_is_created_once_for_a_product(officer: Api, given: Compilable) -> None:
    found = await officer.got(f"/v1/passports/{given.passport}")

    again = await officer.post("/v1/passports", {"battery_product_id": found["battery_product_id"]})

    assert (again.status_code, again.json()["error"]["details"]) == (409, {"passport_id": given.passport})
    assert [item["passport_id"] for item in (await officer.got("/v1/passports"))["items"]] == [given.passport]
    assert found["current_passport_version_id"] is None


async def test_what_a_request_names_and_does_not_exist_is_named_in_the_answer(officer: Api, given: Compilable) -> None:
    unknown = str(fresh.new_id())

    for path, body in (
        ("/v1/passports", {"battery_product_id": unknown}),
        (f"/v1/passports/{unknown}/compile", given.body),
        (f"/v1/passports/{given.passport}/compile", given.body | {"snapshot_id": unknown}),
        (f"/v1/passports/{given.passport}/compile", given.body | {"rule_package_version_id": unknown}),
    ):
        refused = await officer.post(path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "NOT_FOUND"), path
        assert unknown in refused.json()["error"]["message"]


async def test_a_version_is_not_found_until_its_job_has_made_it_and_then_says_when_it_was_asked_for(
    officer: Api, service: Service, given: Compilable
) -> None:
    asked = await requested(officer, given)
    before = await officer.get(f"/v1/passport-versions/{asked['passport_version_id']}")
    same = await issued(officer, service, given)

    found = await officer.got(f"/v1/passport-versions/{asked['passport_version_id']}")

    assert before.status_code == 404
    assert found["created_at"] == asked["issued_at"]
    assert (await officer.got(f"/v1/passport-versions/{asked['passport_version_id']}/payload"))["issued_at"] == (
        asked["issued_at"]
    )
    assert same != asked["passport_version_id"]


async def test_only_sealed_snapshots_and_published_rules_compile(
    officer: Api, database: Database, tenant: TenantId, act: Act, given: Compilable
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await a_snapshot(conn, tenant, status="READY"))
        rules = str(await published_rules(conn, tenant, act, status="DEPRECATED"))

    for changed, code in (
        ({"snapshot_id": snapshot}, "SNAPSHOT_NOT_READY"),
        ({"rule_package_version_id": rules}, "RULE_PKG_NOT_PUBLISHED"),
    ):
        refused = await officer.post(f"/v1/passports/{given.passport}/compile", given.body | changed)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, code)
    assert await event_types(database, tenant, "Passport", given.passport) == ["PASSPORT_CREATED"]


async def test_a_compile_that_fails_leaves_no_version_and_a_job_that_says_why(
    officer: Api, service: Service, database: Database, tenant: TenantId, given: Compilable
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = str(await sealed_snapshot(conn, tenant, [BATTERY]))
    asked = await requested(officer, Compilable(passport=given.passport, body=given.body | {"snapshot_id": snapshot}))
    await issued(officer, service, given)

    job = await service.jobs.job(tenant, asked["job_id"])

    assert job.status == "FAILED"
    assert job.last_error is not None
    assert job.last_error.code == "RULE_ASSERTION_FAILED"
    assert (await officer.get(f"/v1/passport-versions/{asked['passport_version_id']}")).status_code == 404
    assert "COMPILE_FAILED" in await event_types(database, tenant, "Passport", given.passport)


async def test_a_request_that_is_sent_twice_with_one_key_makes_one_version(
    officer: Api, service: Service, given: Compilable
) -> None:
    path = f"/v1/passports/{given.passport}/compile"

    one, other = [await officer.post(path, given.body, idempotency_key="once") for _ in range(2)]

    assert one.content == other.content
    await issued(officer, service, given)
    assert len((await officer.got(f"/v1/passports/{given.passport}/versions"))["items"]) == 2


async def test_what_cannot_be_done_in_this_status_is_a_conflict_that_names_it(
    admin: Api, service: Service, given: Compilable
) -> None:
    version = await issued(admin, service, given)
    await admin.made(f"/v1/passport-versions/{version}/revoke", {"reason": "a mistake"}, status=200)

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
    given: Compilable,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    version = await issued(officer, service, given)
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
    assert (await event_types(database, tenant, "PassportVersion", version))[3:] == ["REPLAY_MISMATCH"] * 2


async def test_who_may_do_what_with_a_version(
    admin: Api, officer: Api, auditor: Api, service: Service, given: Compilable
) -> None:
    version = await issued(admin, service, given)

    for api, path, body in (
        (auditor, f"/v1/passports/{given.passport}/compile", given.body),
        (auditor, f"/v1/passport-versions/{version}/activate", None),
        (auditor, f"/v1/passport-versions/{version}/replay", None),
        (officer, f"/v1/passport-versions/{version}/revoke", {"reason": "-"}),
    ):
        refused = await api.post(path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN"), path
    assert (await auditor.got(f"/v1/passport-versions/{version}"))["status"] == "SIGNED"


async def test_another_tenants_passports_are_like_ones_that_do_not_exist(
    admin: Api, rival: Api, service: Service, given: Compilable
) -> None:
    version = await issued(admin, service, given)

    for path in (f"/v1/passports/{given.passport}", f"/v1/passports/{given.passport}/versions"):
        assert (await rival.get(path)).json()["error"]["message"] == (
            f"there is no passport `{given.passport}`; GET /v1/passports lists those there are"
        )
    for what, body in (("activate", None), ("replay", None), ("revoke", {"reason": "-"})):
        answer = await rival.post(f"/v1/passport-versions/{version}/{what}", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        assert answer.json()["error"]["message"] == (
            f"there is no passport version `{version}`; GET /v1/passports/{{passport_id}}/versions lists those there"
            " are; a new one is there after its job"
        )
