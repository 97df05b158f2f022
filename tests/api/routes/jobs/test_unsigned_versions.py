"""A version that stayed COMPILING because its signing failed: signed again, or given up on record."""

import asyncpg
import pytest
from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.audit import signing_keys
from bpc.storage.database import Database
from tests.api.compile_run_fixtures import run_all_jobs
from tests.api.conftest import KEY_ID, Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version, request_version
from tests.pipeline.compile_fixtures import SKU

FORGET_JOB = "DELETE FROM jobs.job WHERE idempotency_key = 'sign:' || $1"


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


@pytest.fixture
async def stuck(
    admin: Api,
    service: Service,
    inputs: PassportInputs,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A version whose worker had no key."""
    version = str((await request_version(admin, inputs))["passport_version_id"])
    with monkeypatch.context() as without_key:
        without_key.setattr("bpc.runtime.key_ring.SigningKeys.find", lambda *_: None)
        await Worker(service.jobs).run_until_idle()
    assert (await admin.get_json(f"/v1/passport-versions/{version}"))["status"] == "COMPILING"
    return version


async def test_a_version_is_signed_again_once_its_key_is_there(admin: Api, service: Service, stuck: str) -> None:
    answer = await admin.post_json(f"/v1/passport-versions/{stuck}:sign", status=202)
    again = await admin.post_json(f"/v1/passport-versions/{stuck}:sign", status=202)
    await run_all_jobs(service)

    version = await admin.get_json(f"/v1/passport-versions/{stuck}")
    assert answer["job_id"] == again["job_id"]
    assert (version["status"], version["has_qr"]) == ("SIGNED", True)
    assert (await admin.post(f"/v1/passport-versions/{stuck}:sign")).status_code == 409


async def test_a_version_whose_key_is_retired_is_not_signed_again(
    admin: Api, stuck: str, database: Database, act: Act
) -> None:
    await signing_keys.retire_key(database, KEY_ID, act=act)

    refusal = await admin.post(f"/v1/passport-versions/{stuck}:sign")

    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"]) == (500, "SIGNING_KEY_MISSING")
    assert error["details"] == {"signing_key_id": KEY_ID}
    assert "compile again with another key" in error["message"]
    jobs = await admin.get_json(f"/v1/jobs?subject_kind=passport_version&subject_id={stuck}&type=SIGN_PASSPORT")
    assert [job["status"] for job in jobs["items"]] == ["FAILED"]


async def test_a_version_is_signed_again_after_its_job_was_removed(
    admin: Api, service: Service, stuck: str, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await superuser.execute(FORGET_JOB, stuck)

    job_id = (await admin.post_json(f"/v1/passport-versions/{stuck}:sign", status=202))["job_id"]
    await run_all_jobs(service)

    assert (await admin.get_json(f"/v1/jobs/{job_id}"))["status"] == "SUCCEEDED"
    assert (await admin.get_json(f"/v1/passport-versions/{stuck}"))["status"] == "SIGNED"


async def test_a_version_that_was_given_up_says_why_and_is_never_signed(
    admin: Api, service: Service, stuck: str, inputs: PassportInputs
) -> None:
    reason = {"reason": "its key is lost"}

    version = await admin.post_json(f"/v1/passport-versions/{stuck}:abandon", reason, status=200)

    events = await admin.get_json(
        "/v1/audit/events", params={"aggregate_type": "PassportVersion", "aggregate_id": stuck}
    )
    [event] = [item for item in events["items"] if item["event_type"] == "PASSPORT_VERSION_ABANDONED"]
    assert (version["status"], version["abandon_reason"]) == ("COMPILING", "its key is lost")
    assert version["abandoned_at"] == event["occurred_at"]
    assert (event["payload"]["passport_id"], event["payload"]["sku"]) == (inputs.passport, SKU)
    assert event["payload"]["reason"] == "its key is lost"
    assert event["actor_id"] is not None
    for action in (":sign", ":abandon"):
        refusal = await admin.post(f"/v1/passport-versions/{stuck}{action}", reason if "ab" in action else None)
        assert (refusal.status_code, "was given up" in refusal.json()["error"]["message"]) == (409, True)
    [job] = (await admin.get_json(f"/v1/jobs?subject_kind=passport_version&subject_id={stuck}&type=SIGN_PASSPORT"))[
        "items"
    ]
    await admin.post_json(f"/v1/jobs/{job['job_id']}:retry", status=200)
    await run_all_jobs(service)
    assert (await admin.get_json(f"/v1/jobs/{job['job_id']}"))["last_error"][
        "next_step"
    ] == "compile the passport again"
    assert (await admin.get_json(f"/v1/passport-versions/{stuck}"))["status"] == "COMPILING"


async def test_a_signed_version_is_not_given_up(admin: Api, service: Service, inputs: PassportInputs) -> None:
    version = await issue_version(admin, service, inputs)

    refusal = await admin.post(f"/v1/passport-versions/{version}:abandon", {"reason": "no"})

    assert (refusal.status_code, refusal.json()["error"]["code"]) == (409, "CONFLICT")


async def test_the_database_keeps_a_version_given_up_as_it_is(
    admin: Api, stuck: str, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await admin.post_json(f"/v1/passport-versions/{stuck}:abandon", {"reason": "lost"}, status=200)

    for change in ("abandoned_at = now()", "abandoned_at = NULL", "abandon_reason = 'other'"):
        with pytest.raises(asyncpg.PostgresError, match="given up once"):
            await superuser.execute(f"UPDATE passport_versions SET {change} WHERE passport_version_id = $1", stuck)
    with pytest.raises(asyncpg.PostgresError, match="never signed"):
        await superuser.execute(
            "UPDATE passport_versions SET status = 'SIGNED', signature = $2, signing_key_id = $3"
            " WHERE passport_version_id = $1",
            *(stuck, bytes(64), KEY_ID),
        )
