"""Every answer that is not a success has one shape, says no more than it should, and leaves nothing half done."""

import json
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import Message

from bpc.api.http.error_responses import answer_refusal, answer_validation_errors, build_error_response
from bpc.api.http.models import RequestBody, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import CODES, Conflict, Refusal
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.evidence import documents
from tests.api.conftest import Api
from tests.fixtures import TestServer

SECRET = "the password of the database is hunter2"


class CreatedThing(ResponseBody):
    document_id: UUID


class ThingRequest(RequestBody):
    refuse: bool = False
    crash: bool = False


routes = RouteFamily("Test")


@routes.open("/v1/test/crash")
async def crash_openly() -> CreatedThing:
    """Fail."""
    raise RuntimeError(SECRET)


@routes.write("/v1/test/write", permission="docs:upload", status=201)
async def write_and_fail(work: Context, body: ThingRequest) -> CreatedThing:
    """Write something and fail if that is wished."""
    document = await documents.create_document(work.conn, work.tenant, kind="BOM", external_ref=None, act=work.act)
    if body.refuse:
        raise Conflict("this is refused after it was written")
    if body.crash:
        raise RuntimeError(SECRET)
    return CreatedThing.model_validate(document)


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    app.include_router(routes)
    return app


def _assert_refused(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that must be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"code", "message", "correlation_id", "details"}
    assert error["code"] == code
    assert error["correlation_id"] == answer.headers["x-correlation-id"]
    return error


async def _count_documents(superuser: Connection) -> int:
    return int(await superuser.fetchval("SELECT count(*) FROM documents"))


async def test_routes_and_methods_that_do_not_exist(http: httpx2.AsyncClient, admin: Api) -> None:
    _assert_refused(await http.get("/"), 404, "NOT_FOUND")
    _assert_refused(await http.get("/v2/documents"), 404, "NOT_FOUND")
    _assert_refused(await http.get("/v1/documents/"), 404, "NOT_FOUND")
    for method in ("PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"):
        answer = await http.request(method, "/v1/documents")

        _assert_refused(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_ids_and_queries_that_are_nonsense_are_422(admin: Api) -> None:
    for text in ("1", "%00", "..%5C", "%ff%fe", "{0}", clock.new_id().hex, str(clock.new_id()).upper(), "a" * 10_000):
        _assert_refused(await admin.get(f"/v1/documents/{text}"), 422, "VALIDATION_ERROR")
    for query in ("limit=a", "limit=0", "limit=201", "limit=1e1", "limit=%00", "cursor=", "cursor=%ff", "lmit=1"):
        _assert_refused(await admin.get(f"/v1/documents?{query}"), 422, "VALIDATION_ERROR")
    _assert_refused(await admin.get("/v1/documents?limit=1&limit=2"), 422, "VALIDATION_ERROR")
    _assert_refused(await admin.get(f"/v1/documents?limit={'9' * 5_000}"), 422, "VALIDATION_ERROR")


async def test_all_that_is_wrong_with_a_body_is_named_by_its_place_and_never_shown(admin: Api) -> None:
    sent = {"kind": "hunter2", "external_ref": "", "kin": "hunter2"}

    error = _assert_refused(await admin.post("/v1/documents", sent), 422, "VALIDATION_ERROR")

    assert {problem["at"] for problem in error["details"]["problems"]} == {"body.kind", "body.external_ref", "body.kin"}
    assert "hunter2" not in json.dumps(error)


async def test_the_name_of_a_member_may_be_as_long_as_a_body_and_the_answer_is_not(admin: Api) -> None:
    answer = await admin.post("/v1/documents", {"kind": "BOM", "x" * 500_000: 1, **{f"k{n}": n for n in range(1000)}})

    error = _assert_refused(answer, 422, "VALIDATION_ERROR")
    assert len(answer.content) < 50_000
    assert len(error["details"]["problems"]) == 100


async def test_a_write_needs_an_idempotency_key_that_can_be_one(admin: Api, http: httpx2.AsyncClient) -> None:
    authorized = {"Authorization": f"Bearer {admin.key}"}

    for headers in ({}, {"Idempotency-Key": ""}, {"Idempotency-Key": "a b"}, {"Idempotency-Key": "a" * 201}):
        answer = await http.post("/v1/documents", json={"kind": "BOM"}, headers=authorized | headers)

        assert "Idempotency-Key" in _assert_refused(answer, 422, "VALIDATION_ERROR")["message"]
    twice = [*authorized.items(), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    _assert_refused(await http.post("/v1/documents", json={"kind": "BOM"}, headers=twice), 422, "VALIDATION_ERROR")


async def test_a_crash_says_nothing_of_itself(http: httpx2.AsyncClient, admin: Api, superuser: Connection) -> None:
    openly = await http.get("/v1/test/crash")
    within = await admin.post("/v1/test/write", {"crash": True})

    for answer in (openly, within):
        error = _assert_refused(answer, 500, "INTERNAL_ERROR")
        assert "hunter2" not in answer.text
        assert "RuntimeError" not in answer.text
        assert error["details"] == {}
    assert await _count_documents(superuser) == 0


async def test_what_is_refused_is_rolled_back_and_may_be_sent_again(admin: Api, superuser: Connection) -> None:
    refused = await admin.post("/v1/test/write", {"refuse": True}, idempotency_key="k")

    _assert_refused(refused, 409, "CONFLICT")
    assert await _count_documents(superuser) == 0
    assert (await admin.post("/v1/test/write", {}, idempotency_key="k")).status_code == 201
    assert await _count_documents(superuser) == 1


async def test_what_is_answered_is_committed_before(app: FastAPI, admin: Api, superuser: Connection) -> None:
    seen: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            seen.append(message["status"])
            seen.append(await _count_documents(superuser))

    headers = {"authorization": f"Bearer {admin.key}", "idempotency-key": "k", "content-type": "application/json"}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/test/write",
        "raw_path": b"/v1/test/write",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    await app(scope, receive, send)

    assert seen == [201, 1]


async def test_without_its_database_it_says_so_and_not_where_that_is(
    admin: Api, server: TestServer, database: Database
) -> None:
    name = database.address.database
    outside = await asyncpg.connect(**server.admin.connect_arguments())
    await outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    await outside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)

    answers = [await admin.get("/v1/documents") for _ in range(3)]

    for answer in answers:
        error = _assert_refused(answer, 503, "DB_UNAVAILABLE")
        assert answer.headers["retry-after"] == "1"
        assert name not in answer.text
        assert "BPC_" not in error["message"]
    await outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    await outside.close()
    assert (await admin.get("/v1/documents")).status_code == 200


async def test_without_a_key_nothing_is_said_of_what_there_is(anonymous: Api, tenant: TenantId) -> None:
    for path in ("/v1/documents", f"/v1/documents/{clock.new_id()}"):
        answer = await anonymous.get(path)

        _assert_refused(answer, 401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"] == 'Bearer realm="bpc"'


def test_every_code_becomes_an_answer_with_its_status() -> None:
    for code, how in CODES.items():
        kind = type("Kind", (Refusal,), {"code": code})

        answer = answer_refusal(kind("a sentence", fix="a next step"))

        assert answer.status_code == how.http
        assert json.loads(bytes(answer.body))["error"]["code"] == code
        assert ("retry-after" in answer.headers) == (how.http == 503)


def test_an_error_does_not_fail_over_what_it_is_about() -> None:
    answer = build_error_response("CONFLICT", "lone \ud800", {"large": 2**70, "id": UUID(int=1), "set": {1}})

    assert json.loads(bytes(answer.body))["error"]["details"]["large"] == 2**70


def test_a_problem_without_a_name_for_its_place_is_still_one() -> None:
    answer = answer_validation_errors([{"loc": ("body", 3, "a" * 1000), "msg": "Value error, wrong"}])

    [problem] = json.loads(bytes(answer.body))["error"]["details"]["problems"]
    assert problem["says"] == "wrong"
    assert problem["at"] == "body.3.…"
