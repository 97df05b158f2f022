"""Once is once: whatever is sent again under the same Idempotency-Key has one effect and one answer."""

import asyncio
from base64 import b64encode
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bpc.core.audit.events import Act
from bpc.runtime import clock
from tests.api.conftest import Api, create_key
from tests.api.filled_tenants import TwoTenantApp
from tests.api.route_inventory import ROUTES, Route, prepare_request
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.every_case]

KEYS, DUPLICATES = choose_effort(test=(20, 10), shown=(200, 20), campaign=(1000, 50))
AT_ONCE = 60  # requests on their way at the same time; of many more some are refused with RATE_LIMITED
MATTER = ("content-type", "location", "etag")
WRITES = [route for route in ROUTES if route.kind == "write"]
# What only asks for work: the job appends the event of what it has done.
ON_RECORD_BY_JOB = {
    "POST /v1/documents/{document_id}/ingest",
    "POST /v1/snapshots/{snapshot_id}/build",
    "POST /v1/rule-package-versions/{rule_package_version_id}/tests:run",
    "POST /v1/passport-versions/{passport_version_id}/exports",
    "POST /v1/passport-versions/{passport_version_id}:sign",
}
# What finds nothing to do here, and then changes nothing.
NOTHING_TO_DO = {
    "POST /v1/webhook-endpoints/{webhook_endpoint_id}:redeliver-failed",
    "PUT /v1/tenant/four-eyes",  # nothing is switched on, and stays so
    "POST /v1/batteries:register",  # its rows are only checked
    "POST /v1/batteries:readings",  # the same
    "POST /v1/batteries:events",  # the same
    "POST /v1/item-runs",  # the same
    "POST /v1/item-runs:rebase",  # no battery pins an earlier version
}
SECRET = "this request was already done"


@pytest_asyncio.fixture(loop_scope="module")
async def admin(two_tenants: TwoTenantApp) -> Api:
    return two_tenants.own.clients["Admin"]


async def test_parallel_duplicates_have_one_effect_and_one_answer(
    two_tenants: TwoTenantApp, admin: Api, record_measurement: RecordMeasurement
) -> None:
    document = two_tenants.own.ids["document_id"]
    before = await _read_counts(two_tenants)
    keys = [str(clock.new_id()) for _ in range(KEYS)]
    room = asyncio.Semaphore(AT_ONCE)

    async def sent(key: str) -> httpx2.Response:
        body = {"mime_type": "text/plain", "content_base64": b64encode(key.encode()).decode()}
        async with room:
            return await admin.post(f"/v1/documents/{document}/versions", body, idempotency_key=key)

    # Duplicates of one key come one behind the other, and those of many keys at the same time.
    answers = await asyncio.gather(*(sent(key) for key in keys for _ in range(DUPLICATES)))

    assert {answer.status_code for answer in answers} == {201}, {answer.text for answer in answers}
    distinct_answers = {_describe_answer(answer) for answer in answers}
    assert len(distinct_answers) == KEYS
    after = await _read_counts(two_tenants)
    effects = {table: after[table] - before[table] for table in after}
    events = 2 * KEYS  # the version was uploaded, and the document says it
    assert effects == {"document_versions": KEYS, "events": events, "idempotency_keys": KEYS, "jobs.job": KEYS}
    record_measurement(
        "api-idempotency", keys=KEYS, duplicates=DUPLICATES, requests=len(answers), effects=effects["document_versions"]
    )


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
async def test_every_write_is_on_record_and_a_repetition_gets_its_first_answer_and_does_nothing_more(
    two_tenants: TwoTenantApp, admin: Api, route: Route
) -> None:
    sent, key = prepare_request(route, two_tenants.own.ids), str(clock.new_id())

    start = await _read_counts(two_tenants)
    first = await admin.send(sent.method, sent.path, sent.body, idempotency_key=key, **sent.options)
    before = await _read_counts(two_tenants)
    again = await admin.send(sent.method, sent.path, sent.body, idempotency_key=key, **sent.options)
    after = await _read_counts(two_tenants)

    assert first.status_code < 300, first.text
    trace = "jobs.job" if route.name in ON_RECORD_BY_JOB else "events"
    assert (before[trace] > start[trace]) == (route.name not in NOTHING_TO_DO)
    assert after == before
    if route.secret is None:
        assert _describe_answer(again) == _describe_answer(first)
    else:
        body = first.json()
        assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
        assert again.json()["error"]["details"]["id"] == body[route.secret]
        row = await two_tenants.superuser.fetchrow(
            "SELECT response_body, response_headers::text AS headers FROM idempotency_keys WHERE key = $1", key
        )
        assert row is not None
        assert (row["response_body"], [text for text in _list_secrets(body) if text in row["headers"]]) == (b"", [])


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
async def test_every_write_needs_a_key(two_tenants: TwoTenantApp, admin: Api, route: Route) -> None:
    sent = prepare_request(route, two_tenants.own.ids)
    headers = {"Authorization": f"Bearer {admin.key}"}
    before = await _read_counts(two_tenants)

    answer = await two_tenants.http.request(sent.method, sent.path, json=sent.body, headers=headers, **sent.options)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), answer.text
    assert "Idempotency-Key" in answer.json()["error"]["message"]
    assert await _read_counts(two_tenants) == before


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "with space", "with\ttab"], ids=repr)
async def test_a_key_that_is_none_is_refused(admin: Api, key: str) -> None:
    answer = await admin.post("/v1/documents", {"kind": "BOM"}, headers={"Idempotency-Key": key})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_two_keys_are_no_key(two_tenants: TwoTenantApp, admin: Api) -> None:
    headers = [("Authorization", f"Bearer {admin.key}"), ("Idempotency-Key", "one"), ("Idempotency-Key", "two")]

    answer = await two_tenants.http.post("/v1/documents", json={"kind": "BOM"}, headers=headers)

    assert answer.status_code == 422


@pytest.mark.parametrize("other", ["body", "spelling", "path", "query", "method"])
async def test_another_request_under_the_same_key_is_a_conflict(
    two_tenants: TwoTenantApp, admin: Api, other: str
) -> None:
    key, text = str(clock.new_id()), '{"kind":"BOM","external_ref":"once"}'
    headers = {"Content-Type": "application/json"}
    first = await admin.send("POST", "/v1/documents", idempotency_key=key, content=text, headers=headers)
    before = await _read_counts(two_tenants)

    method, path, how = "POST", "/v1/documents", {"content": text}
    match other:
        case "body":
            how = {"content": '{"kind":"PCF","external_ref":"once"}'}
        case "spelling":  # the bytes count, not what they mean
            how = {"content": '{"kind": "BOM","external_ref":"once"}'}
        case "path":
            path, how = "/v1/snapshots", {"content": '{"label":"once"}'}
        case "query":
            # A write takes no query: it is refused as such, before the key is looked at.
            path = "/v1/documents?kind=BOM"
        case "method":
            method, path = "DELETE", f"/v1/webhook-endpoints/{two_tenants.own.ids['idle_webhook_endpoint_id']}"
            how = {}
        case _:
            raise ValueError(other)
    answer = await admin.send(method, path, idempotency_key=key, headers=headers, **how)

    assert first.status_code == 201
    expected = (422, "VALIDATION_ERROR") if other == "query" else (409, "IDEMPOTENCY_CONFLICT")
    assert (answer.status_code, answer.json()["error"]["code"]) == expected
    after = await _read_counts(two_tenants)
    assert after == before


async def test_the_same_key_of_another_tenant_is_another_key(two_tenants: TwoTenantApp, admin: Api) -> None:
    key, body = str(clock.new_id()), {"kind": "BOM", "external_ref": "ours"}
    own_document = await admin.post("/v1/documents", body, idempotency_key=key)

    theirs = await two_tenants.foreign.clients["Admin"].post("/v1/documents", body, idempotency_key=key)

    assert (own_document.status_code, theirs.status_code) == (201, 201)
    assert own_document.json()["document_id"] != theirs.json()["document_id"]


async def test_a_refused_request_may_be_repeated_and_then_succeeds(two_tenants: TwoTenantApp, admin: Api) -> None:
    key, content = str(clock.new_id()), {"mime_type": "text/plain", "content_base64": "b25jZSBtb3Jl"}
    unknown = clock.new_id()
    refused = await admin.post(f"/v1/documents/{unknown}/versions", content, idempotency_key=key)
    invalid = await admin.post("/v1/documents", {"kind": "NONE"}, idempotency_key=key)

    done = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)
    again = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (refused.status_code, invalid.status_code) == (404, 422)
    assert done.status_code == 201
    assert _describe_answer(again) == _describe_answer(done)


async def test_who_was_denied_may_come_again_with_the_right(two_tenants: TwoTenantApp, admin: Api) -> None:
    key = str(clock.new_id())
    denied = await two_tenants.own.clients["Auditor"].post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    allowed = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (denied.status_code, allowed.status_code) == (403, 201)


async def test_a_repetition_by_somebody_whose_right_was_taken_is_refused(two_tenants: TwoTenantApp) -> None:
    act, key = Act(None, clock.now()), str(clock.new_id())
    caller = Api(two_tenants.http, await create_key(two_tenants.database, two_tenants.own.tenant, "Admin", act))
    first = await caller.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)
    await two_tenants.superuser.execute(
        "DELETE FROM actor_roles ar USING api_keys k WHERE k.actor_id = ar.actor_id AND k.key_prefix = $1",
        str(caller.key).split("_")[1],
    )

    again = await caller.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (first.status_code, again.status_code) == (201, 403)


async def test_a_duplicate_waits_for_the_first_and_takes_over_where_it_fails(
    two_tenants: TwoTenantApp, admin: Api
) -> None:
    """The first holds the key while it works; when nothing came of it, the next one does the work."""
    key, body = str(clock.new_id()), {"kind": "BOM", "external_ref": "waiting"}
    async with two_tenants.database.tenant(two_tenants.own.tenant) as first:
        await first.fetch("SELECT * FROM answered($1, $2)", two_tenants.own.tenant, key)
        second = asyncio.create_task(admin.post("/v1/documents", body, idempotency_key=key))
        await _wait_for_lock(two_tenants)
        assert not second.done()

    answer = await second

    assert answer.status_code == 201


async def _wait_for_lock(two_tenants: TwoTenantApp) -> None:
    async with asyncio.timeout(60):
        while not await two_tenants.superuser.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        ):
            await asyncio.sleep(0.005)


def _describe_answer(answer: httpx2.Response) -> tuple[int, bytes, tuple[str | None, ...]]:
    """What a client sees of an answer, byte for byte."""
    return answer.status_code, answer.content, tuple(answer.headers.get(name) for name in MATTER)


def _list_secrets(members: dict[str, Any]) -> list[str]:
    return [str(members[name]) for name in ("api_key", "secret") if name in members]


async def _read_counts(two_tenants: TwoTenantApp) -> dict[str, int]:
    """How much of what a request can leave behind there is."""
    tables = ("document_versions", "events", "idempotency_keys", "jobs.job")
    return {table: await two_tenants.superuser.fetchval(f"SELECT count(*) FROM {table}") for table in tables}


async def test_two_actors_may_use_the_same_key_and_do_not_learn_of_each_other(
    two_tenants: TwoTenantApp, admin: Api
) -> None:
    key = str(clock.new_id())
    other = Api(
        two_tenants.http,
        await create_key(two_tenants.database, two_tenants.own.tenant, "Admin", Act(None, clock.now())),
    )

    answers = [
        await api.post("/v1/roles", {"name": f"role {clock.new_id()}", "permissions": []}, idempotency_key=key)
        for api in (admin, other)
    ]

    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["role_id"] != answers[1].json()["role_id"]
    again = await admin.post("/v1/roles", {"name": answers[0].json()["name"], "permissions": []}, idempotency_key=key)
    assert again.json() == answers[0].json()


async def test_an_answer_that_an_earlier_release_stored_is_repeated(two_tenants: TwoTenantApp, admin: Api) -> None:
    key, body = str(clock.new_id()), {"name": f"role {clock.new_id()}", "permissions": []}
    first = await admin.post("/v1/roles", body, idempotency_key=key)
    await two_tenants.superuser.execute(
        "UPDATE idempotency_keys SET actor_id = '00000000-0000-0000-0000-000000000000' WHERE key = $1", key
    )

    again = await admin.post("/v1/roles", body, idempotency_key=key)

    assert (again.status_code, again.content) == (201, first.content)
