"""Once is once: whatever is sent again under the same Idempotency-Key has one effect and one answer."""

import asyncio
from base64 import b64encode
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bpc import fresh
from bpc.core.events import Act
from tests.api.conftest import Api, key_for
from tests.api.inventory import ROUTES, Route, request_for
from tests.api.stage import Theatre
from tests.measuring import Measured, effort

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS, DUPLICATES = effort(test=(20, 10), shown=(200, 20), campaign=(1000, 50))
AT_ONCE = 200  # requests on their way at the same time
MATTER = ("content-type", "location", "etag")
WRITES = [route for route in ROUTES if route.kind == "write"]
SECRET = "this was done already"


@pytest_asyncio.fixture(loop_scope="module")
async def admin(theatre: Theatre) -> Api:
    return theatre.mine.calls["Admin"]


async def test_parallel_duplicates_have_one_effect_and_one_answer(
    theatre: Theatre, admin: Api, measured: Measured
) -> None:
    document = theatre.mine.ids["document_id"]
    before = await _counts(theatre)
    keys = [str(fresh.new_id()) for _ in range(KEYS)]
    room = asyncio.Semaphore(AT_ONCE)

    async def sent(key: str) -> httpx2.Response:
        body = {"mime_type": "text/plain", "content_base64": b64encode(key.encode()).decode()}
        async with room:
            return await admin.post(f"/v1/documents/{document}/versions", body, idempotency_key=key)

    # Duplicates of one key come one behind the other, and those of many keys at the same time.
    answers = await asyncio.gather(*(sent(key) for key in keys for _ in range(DUPLICATES)))

    assert {answer.status_code for answer in answers} == {201}, {answer.text for answer in answers}
    told = {_told(answer) for answer in answers}
    assert len(told) == KEYS
    after = await _counts(theatre)
    effects = {table: after[table] - before[table] for table in after}
    assert effects == {"document_versions": KEYS, "events": KEYS, "idempotency_keys": KEYS, "jobs.job": KEYS}
    measured(
        "api-idempotency", keys=KEYS, duplicates=DUPLICATES, requests=len(answers), effects=effects["document_versions"]
    )


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
async def test_every_write_answers_a_repetition_with_its_first_answer_and_does_nothing_more(
    theatre: Theatre, admin: Api, route: Route
) -> None:
    sent, key = request_for(route, theatre.mine.ids), str(fresh.new_id())

    first = await admin.send(sent.method, sent.path, sent.body, idempotency_key=key)
    before = await _counts(theatre)
    again = await admin.send(sent.method, sent.path, sent.body, idempotency_key=key)
    after = await _counts(theatre)

    assert first.status_code < 300, first.text
    assert after == before
    if route.secret is None:
        assert _told(again) == _told(first)
    else:
        shown = first.json()
        assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
        assert again.json()["error"]["details"]["id"] == shown[route.secret]
        kept = await theatre.superuser.fetchrow(
            "SELECT response_body, response_headers::text AS headers FROM idempotency_keys WHERE key = $1", key
        )
        assert kept is not None
        assert (kept["response_body"], [text for text in _secrets(shown) if text in kept["headers"]]) == (b"", [])


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.name)
async def test_every_write_needs_a_key(theatre: Theatre, admin: Api, route: Route) -> None:
    sent = request_for(route, theatre.mine.ids)
    headers = {"Authorization": f"Bearer {admin.key}"}
    before = await _counts(theatre)

    answer = await theatre.http.request(sent.method, sent.path, json=sent.body, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), answer.text
    assert "Idempotency-Key" in answer.json()["error"]["message"]
    assert await _counts(theatre) == before


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "with space", "with\ttab"], ids=repr)
async def test_a_key_that_is_none_is_refused(admin: Api, key: str) -> None:
    answer = await admin.post("/v1/documents", {"kind": "BOM"}, headers={"Idempotency-Key": key})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_two_keys_are_no_key(theatre: Theatre, admin: Api) -> None:
    headers = [("Authorization", f"Bearer {admin.key}"), ("Idempotency-Key", "one"), ("Idempotency-Key", "two")]

    answer = await theatre.http.post("/v1/documents", json={"kind": "BOM"}, headers=headers)

    assert answer.status_code == 422


@pytest.mark.parametrize("other", ["body", "spelling", "path", "query", "method", "actor"])
async def test_another_request_under_the_same_key_is_a_conflict(theatre: Theatre, admin: Api, other: str) -> None:
    key, text = str(fresh.new_id()), '{"kind":"BOM","external_ref":"once"}'
    headers = {"Content-Type": "application/json"}
    first = await admin.send("POST", "/v1/documents", idempotency_key=key, content=text, headers=headers)
    second = Api(theatre.http, await key_for(theatre.database, theatre.mine.tenant, "Admin", Act(None, fresh.now())))
    before = await _counts(theatre)

    caller, method, path, how = admin, "POST", "/v1/documents", {"content": text}
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
            method, path = "DELETE", f"/v1/webhook-endpoints/{theatre.mine.ids['idle_webhook_endpoint_id']}"
            how = {}
        case _:
            caller = second
    answer = await caller.send(method, path, idempotency_key=key, headers=headers, **how)

    assert first.status_code == 201
    wanted = (422, "VALIDATION_ERROR") if other == "query" else (409, "IDEMPOTENCY_CONFLICT")
    assert (answer.status_code, answer.json()["error"]["code"]) == wanted
    after = await _counts(theatre)
    assert after == before


async def test_the_same_key_of_another_tenant_is_another_key(theatre: Theatre, admin: Api) -> None:
    key, body = str(fresh.new_id()), {"kind": "BOM", "external_ref": "ours"}
    ours = await admin.post("/v1/documents", body, idempotency_key=key)

    theirs = await theatre.theirs.calls["Admin"].post("/v1/documents", body, idempotency_key=key)

    assert (ours.status_code, theirs.status_code) == (201, 201)
    assert ours.json()["document_id"] != theirs.json()["document_id"]


async def test_a_refused_request_may_be_repeated_and_then_succeeds(theatre: Theatre, admin: Api) -> None:
    key, content = str(fresh.new_id()), {"mime_type": "text/plain", "content_base64": "b25jZSBtb3Jl"}
    unknown = fresh.new_id()
    refused = await admin.post(f"/v1/documents/{unknown}/versions", content, idempotency_key=key)
    invalid = await admin.post("/v1/documents", {"kind": "NONE"}, idempotency_key=key)

    done = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)
    again = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (refused.status_code, invalid.status_code) == (404, 422)
    assert done.status_code == 201
    assert _told(again) == _told(done)


async def test_who_was_denied_may_come_again_with_the_right(theatre: Theatre, admin: Api) -> None:
    key = str(fresh.new_id())
    denied = await theatre.mine.calls["Auditor"].post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    allowed = await admin.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (denied.status_code, allowed.status_code) == (403, 201)


async def test_a_repetition_by_somebody_whose_right_was_taken_is_refused(theatre: Theatre) -> None:
    act, key = Act(None, fresh.now()), str(fresh.new_id())
    caller = Api(theatre.http, await key_for(theatre.database, theatre.mine.tenant, "Admin", act))
    first = await caller.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)
    await theatre.superuser.execute(
        "DELETE FROM actor_roles ar USING api_keys k WHERE k.actor_id = ar.actor_id AND k.key_prefix = $1",
        str(caller.key).split("_")[1],
    )

    again = await caller.post("/v1/documents", {"kind": "BOM"}, idempotency_key=key)

    assert (first.status_code, again.status_code) == (201, 403)


async def test_a_duplicate_waits_for_the_first_and_takes_over_where_it_fails(theatre: Theatre, admin: Api) -> None:
    """The first holds the key while it works; when nothing came of it, the next one does the work."""
    key, body = str(fresh.new_id()), {"kind": "BOM", "external_ref": "waiting"}
    async with theatre.database.tenant(theatre.mine.tenant) as first:
        await first.fetch("SELECT * FROM answered($1, $2)", theatre.mine.tenant, key)
        second = asyncio.create_task(admin.post("/v1/documents", body, idempotency_key=key))
        await _somebody_waits(theatre)
        assert not second.done()

    answer = await second

    assert answer.status_code == 201


async def _somebody_waits(theatre: Theatre) -> None:
    async with asyncio.timeout(60):
        while not await theatre.superuser.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        ):
            await asyncio.sleep(0.005)


def _told(answer: httpx2.Response) -> tuple[int, bytes, tuple[str | None, ...]]:
    """What a client sees of an answer, byte for byte."""
    return answer.status_code, answer.content, tuple(answer.headers.get(name) for name in MATTER)


def _secrets(shown: dict[str, Any]) -> list[str]:
    return [str(shown[name]) for name in ("api_key", "secret") if name in shown]


async def _counts(theatre: Theatre) -> dict[str, int]:
    """How much of what a request can leave behind there is."""
    tables = ("document_versions", "events", "idempotency_keys", "jobs.job")
    return {table: await theatre.superuser.fetchval(f"SELECT count(*) FROM {table}") for table in tables}
