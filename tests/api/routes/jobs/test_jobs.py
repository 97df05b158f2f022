"""Jobs over HTTP: how each stands, what it came to, and what people do to it; never what it was given."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
import httpx2
import pytest
from service_jobs import Context, Handler, Handlers, Jobs
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api, create_key
from tests.storage.statements import insert_row

MEMBERS = {
    *("job_id", "type", "status", "attempts", "max_attempts", "progress", "last_error", "created_at", "started_at"),
    *("finished_at", "priority", "scheduled_at", "cancel_requested", "batch_id", "correlation_id", "service_id"),
    *("subject", "lease_owner", "lease_expires_at"),
}
PRIVATE = "what the job was given"


@dataclass(frozen=True, slots=True)
class JobShop:
    """Handlers of these tests, on the database of the service."""

    jobs: Jobs
    count: Handler[str, dict[str, int]]
    refuse: Handler[str, None]
    sign: Handler[str, None]


@pytest.fixture
async def shop(service: Service) -> AsyncIterator[JobShop]:
    handlers = Handlers()

    @handlers.job("count")
    async def count(ctx: Context, text: str) -> dict[str, int]:
        return {"characters": len(text), "large": 2**53 + 1}

    @handlers.job("refuse")
    async def refuse(ctx: Context, text: str) -> None:
        raise Invalid("this is not what was asked for", details={"problems": 1})

    @handlers.job("SIGN_PASSPORT")
    async def sign(ctx: Context, text: str) -> None:
        raise Invalid("there is no key")

    jobs = Jobs(handlers, service.jobs.sessions)
    yield JobShop(jobs, count, refuse, sign)
    await jobs.close()


async def _run_to_status(shop: JobShop, tenant: TenantId, handler: Handler[str, None], *, status: str) -> UUID:
    job = await shop.jobs.submit(handler, PRIVATE, tenant=tenant)
    async with run_worker(shop.jobs):
        await wait_until_status(shop.jobs, tenant, job, status)
    return job


async def _list_event_types(admin: Api, job: UUID) -> list[str]:
    listed = await admin.get_json("/v1/audit/events", params={"aggregate_type": "Job", "aggregate_id": str(job)})
    return [item["event_type"] for item in listed["items"]]


async def test_a_caller_can_wait_until_a_job_has_ended(officer: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    waiting = asyncio.create_task(officer.get_json(f"/v1/jobs/{job}", params={"wait_seconds": 20}))
    queued = await officer.get_json(f"/v1/jobs/{job}")
    async with run_worker(shop.jobs):
        ended = await waiting

    assert (queued["status"], ended["status"]) == ("QUEUED", "SUCCEEDED")


async def test_a_wait_that_is_over_first_says_how_the_job_stands(officer: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    started = time.monotonic()
    answer = await officer.get_json(f"/v1/jobs/{job}", params={"wait_seconds": 1})

    assert answer["status"] == "QUEUED"
    assert time.monotonic() - started >= 1


async def test_who_waits_holds_no_connection(officer: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)
    waits = [officer.get_json(f"/v1/jobs/{job}", params={"wait_seconds": 2}) for _ in range(20)]

    waiting = asyncio.gather(*waits)
    quick = [await officer.get_json(f"/v1/jobs/{job}") for _ in range(5)]

    assert not waiting.done()  # 20 callers wait, with 5 connections
    assert {job["status"] for job in [*quick, *await waiting]} == {"QUEUED"}


@pytest.mark.parametrize("seconds", ["26", "-1", "1.5", "soon"])
async def test_a_wait_is_a_whole_number_of_seconds_up_to_25(
    officer: Api, shop: JobShop, tenant: TenantId, seconds: str
) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    answer = await officer.get(f"/v1/jobs/{job}", params={"wait_seconds": seconds})

    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


async def test_a_key_that_is_revoked_meanwhile_learns_nothing_more(
    officer: Api, shop: JobShop, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    waiting = asyncio.create_task(officer.get(f"/v1/jobs/{job}", params={"wait_seconds": 20}))
    await officer.get_json(f"/v1/jobs/{job}")
    await superuser.execute("UPDATE api_keys SET revoked_at = now()")
    answer = await waiting

    assert answer.status_code == 401


async def test_a_job_is_shown_without_what_it_was_given(officer: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(
        shop.count, PRIVATE, tenant=tenant, key="secret-key", correlation_id="c-1", actor=str(tenant)
    )

    answer = await officer.get(f"/v1/jobs/{job}")

    body = answer.json()
    assert set(body) == MEMBERS
    assert (body["job_id"], body["type"], body["status"]) == (str(job), "count", "QUEUED")
    assert (body["attempts"], body["started_at"], body["last_error"]) == (0, None, None)
    assert body["correlation_id"] == "c-1"
    assert PRIVATE not in answer.text
    assert "secret-key" not in answer.text


@pytest.mark.parametrize("moment", ["2027-02-18T00:00:00+00:00", "2027-02-18T00:00:00.000001+00:00"])
async def test_how_far_a_job_says_it_is_is_shown_with_a_time_like_any_other(
    admin: Api, shop: JobShop, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]", moment: str
) -> None:
    job_id = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)
    progress_text = json.dumps({"percent": 40, "message": None, "updated_at": moment})
    await superuser.execute("UPDATE jobs.job SET progress = $2 WHERE job_id = $1", job_id, progress_text)

    job = await admin.get_json(f"/v1/jobs/{job_id}")

    when = datetime.fromisoformat(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert job["progress"] == {"percent": 40, "message": None, "updated_at": when}


async def test_jobs_are_listed_newest_first_page_by_page(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    job_ids = [str(await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)) for _ in range(5)]

    seen, cursor = [], None
    while True:
        more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
        page = await admin.get_json("/v1/jobs", params={"limit": "2", **more})
        seen += [item["job_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == sorted(job_ids, reverse=True)


async def test_the_longest_page_knows_whether_it_is_the_last(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    await shop.jobs.submit_many(shop.count, [PRIVATE] * 200, tenant=tenant)
    page = await admin.get_json("/v1/jobs?limit=200")
    await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    part = await admin.get_json("/v1/jobs?limit=200")
    rest = await admin.get_json("/v1/jobs", params={"limit": "200", "cursor": part["next_cursor"]})

    assert (len(page["items"]), page["next_cursor"]) == (200, None)
    assert (len(part["items"]), len(rest["items"]), rest["next_cursor"]) == (200, 1, None)


async def test_jobs_are_found_by_type_status_and_time(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    refused = await _run_to_status(shop, tenant, shop.refuse, status="FAILED")
    waiting = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)
    created = (await admin.get_json(f"/v1/jobs/{waiting}"))["created_at"]

    async def list_ids(**filters: str) -> list[str]:
        return [item["job_id"] for item in (await admin.get_json("/v1/jobs", params=filters))["items"]]

    assert await list_ids() == [str(waiting), str(refused)]
    assert await list_ids(type="count") == await list_ids(status="QUEUED") == [str(waiting)]
    assert await list_ids(type="refuse", status="FAILED") == await list_ids(created_before=created) == [str(refused)]
    assert await list_ids(created_after=created) == [str(waiting)]
    assert await list_ids(type="count", status="FAILED") == []


async def test_a_filter_that_says_nothing_is_refused(admin: Api) -> None:
    for query in ("status=DONE", "type=a%20b", "created_after=now", "limit=201", "state=QUEUED"):
        assert (await admin.get(f"/v1/jobs?{query}")).status_code == 422, query


async def test_the_result_is_there_when_the_job_is_over_and_not_before(
    admin: Api, shop: JobShop, tenant: TenantId
) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    early = await admin.get(f"/v1/jobs/{job}/result")
    async with run_worker(shop.jobs):
        await wait_until_status(shop.jobs, tenant, job, "SUCCEEDED")
    answer = await admin.get_json(f"/v1/jobs/{job}/result")

    assert (early.status_code, early.json()["error"]["code"]) == (409, "CONFLICT")
    assert answer == {
        "status": "SUCCEEDED",
        "result": {"characters": len(PRIVATE), "large": 2**53 + 1},
        "error": None,
    }


async def test_the_result_of_a_failed_job_is_its_error(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await _run_to_status(shop, tenant, shop.refuse, status="FAILED")

    result = await admin.get_json(f"/v1/jobs/{job}/result")
    answer = await admin.get_json(f"/v1/jobs/{job}")

    assert (result["status"], result["result"]) == ("FAILED", None)
    assert result["error"] == answer["last_error"]
    assert result["error"]["code"] == "VALIDATION_ERROR"
    assert result["error"]["details"] == {"problems": 1}


async def test_a_job_that_waits_is_cancelled_on_record(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    cancelled = await admin.post_json(f"/v1/jobs/{job}:cancel", {"reason": "by mistake"}, status=200)
    again = await admin.post(f"/v1/jobs/{job}:cancel")

    assert cancelled["status"] == "CANCELLED"
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    listed = await admin.get_json("/v1/audit/events?event_type=JOB_CANCELLED")
    assert [item["payload"] for item in listed["items"]] == [
        {"type": "count", "reason": "by mistake", "requested": False}
    ]


async def test_a_job_that_was_cancelled_is_run_again(admin: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)
    await admin.post_json(f"/v1/jobs/{job}:cancel", status=200)

    again = await admin.post_json(f"/v1/jobs/{job}:retry", status=200)
    async with run_worker(shop.jobs):
        await wait_until_status(shop.jobs, tenant, job, "SUCCEEDED")

    assert (again["status"], again["last_error"]) == ("QUEUED", None)
    assert await _list_event_types(admin, job) == ["JOB_RETRIED", "JOB_CANCELLED"]


async def test_a_job_is_cancelled_without_a_reason_and_not_with_anything_else(
    admin: Api, shop: JobShop, tenant: TenantId
) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    wrong = [await admin.post(f"/v1/jobs/{job}:cancel", body) for body in ({"because": "x"}, {"reason": ""})]
    cancelled = await admin.post_json(f"/v1/jobs/{job}:cancel", status=200)

    assert [answer.status_code for answer in wrong] == [422, 422]
    assert cancelled["status"] == "CANCELLED"


async def test_a_failed_job_is_run_again_on_record_and_once_for_one_key(
    admin: Api, shop: JobShop, tenant: TenantId
) -> None:
    job = await _run_to_status(shop, tenant, shop.refuse, status="FAILED")

    answers = [await admin.post(f"/v1/jobs/{job}:retry", idempotency_key="once") for _ in range(2)]
    early = await admin.post(f"/v1/jobs/{job}:retry")

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert answers[0].json()["status"] == "QUEUED"
    assert early.status_code == 409
    assert await _list_event_types(admin, job) == ["JOB_RETRIED"]


async def test_running_a_signature_again_needs_the_right_to_sign(
    admin: Api,
    http: httpx2.AsyncClient,
    shop: JobShop,
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    act: Act,
) -> None:
    role = clock.new_id()
    await insert_row(superuser, "roles", tenant_id=tenant, role_id=role, name="Operator")
    for permission in ("jobs:read", "jobs:admin"):
        await insert_row(superuser, "role_permissions", tenant_id=tenant, role_id=role, permission=permission)
    operator = Api(http, await create_key(database, tenant, "Operator", act))
    signing = await _run_to_status(shop, tenant, shop.sign, status="FAILED")
    other = await _run_to_status(shop, tenant, shop.refuse, status="FAILED")

    refused = await operator.post(f"/v1/jobs/{signing}:retry")
    allowed = await operator.post(f"/v1/jobs/{other}:retry")
    by_admin = await admin.post(f"/v1/jobs/{signing}:retry")

    assert refused.status_code == 403
    assert refused.json()["error"]["details"]["permission"] == "passport:sign"
    assert (allowed.status_code, by_admin.status_code) == (200, 200)
    assert await _list_event_types(admin, signing) == ["JOB_RETRIED"]
    denials = (await admin.get_json("/v1/audit/events?event_type=ACCESS_DENIED"))["items"]
    assert [item["payload"]["permission"] for item in denials] == ["passport:sign"]


async def test_who_only_reads_jobs_changes_none(officer: Api, auditor: Api, shop: JobShop, tenant: TenantId) -> None:
    job = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant)

    changes = [await officer.post(f"/v1/jobs/{job}:{what}") for what in ("cancel", "retry")]
    looks = [await auditor.get(path) for path in ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/result")]

    assert [answer.status_code for answer in changes + looks] == [403] * 5
    assert (await officer.get_json(f"/v1/jobs/{job}"))["status"] == "QUEUED"


async def test_another_tenants_job_is_like_one_that_does_not_exist(
    other_admin: Api, shop: JobShop, tenant: TenantId
) -> None:
    job, unknown = await shop.jobs.submit(shop.count, PRIVATE, tenant=tenant), clock.new_id()
    same = {"X-Correlation-Id": str(unknown)}

    for method, path in (("GET", ""), ("GET", "/result"), ("POST", ":cancel"), ("POST", ":retry")):
        foreign = await other_admin.send(method, f"/v1/jobs/{job}{path}", headers=same)
        missing = await other_admin.send(method, f"/v1/jobs/{unknown}{path}", headers=same)

        assert foreign.status_code == missing.status_code == 404, path
        assert foreign.text.replace(str(job), str(unknown)) == missing.text
    assert await other_admin.get_json("/v1/jobs") == {"items": [], "next_cursor": None}
