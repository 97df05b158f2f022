"""One call: what is sent, when it is sent again, and what becomes of the answer."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import httpx2
import pytest
from bpc_client import ApiError, Client, RetryPolicy, UnexpectedAnswer, Unreachable
from bpc_client.base_models import Page
from bpc_client.calls import drop_missing, format_time, to_plain
from bpc_client.models import Document

DOCUMENT = UUID("01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2")
CREATED = {"document_id": str(DOCUMENT), "kind": "BOM"}
QUICK = RetryPolicy(attempts=4, first_pause=0.0, longest_pause=0.0)

Answer = Callable[[httpx2.Request], httpx2.Response]


def make_refusal(status: int, code: str, headers: dict[str, str] | None = None, **details: Any) -> httpx2.Response:
    error = {"code": code, "message": "no", "correlation_id": "c-1", "details": details}
    return httpx2.Response(status, json={"error": error}, headers=headers)


class Server:
    """Gives its answers in turn and keeps the requests. It repeats the last answer."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, *, retry: RetryPolicy = QUICK, url: str = "http://bpc.test") -> Client:
        return Client(url, "bpc_prefix_secret", retry=retry, transport=httpx2.MockTransport(self))

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("idempotency-key") for request in self.requests]


async def test_a_call_sends_the_api_key_and_only_the_members_that_are_set() -> None:
    server = Server(httpx2.Response(201, json=CREATED))

    async with server.client() as bpc:
        document = await bpc.create_document(kind="BOM")

    assert document.document_id == DOCUMENT
    [request] = server.requests
    assert (request.method, request.url.path) == ("POST", "/v1/documents")
    assert request.headers["authorization"] == "Bearer bpc_prefix_secret"
    assert json.loads(request.content) == {"kind": "BOM"}


async def test_every_write_gets_a_new_idempotency_key_unless_the_caller_passes_one() -> None:
    server = Server(httpx2.Response(201, json=CREATED))

    async with server.client() as bpc:
        await bpc.create_document(kind="BOM")
        await bpc.create_document(kind="BOM")
        await bpc.create_document(kind="BOM", idempotency_key="mine")

    first, second, third = server.keys
    assert first is not None
    assert first != second
    assert third == "mine"


async def test_a_read_has_no_idempotency_key() -> None:
    server = Server(httpx2.Response(200, json={"items": [], "next_cursor": None}))

    async with server.client() as bpc:
        await bpc.list_documents()

    assert server.keys == [None]


@pytest.mark.parametrize(
    "temporary",
    [
        make_refusal(503, "DB_UNAVAILABLE"),
        make_refusal(429, "RATE_LIMITED", {"Retry-After": "0"}),
        make_refusal(409, "EVENT_VERSION_CONFLICT"),
        make_refusal(500, "INTERNAL_ERROR"),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("late"),
        httpx2.RemoteProtocolError("cut"),
    ],
    ids=str,
)
async def test_a_temporary_failure_is_retried_with_the_same_key(temporary: httpx2.Response | Exception) -> None:
    server = Server(temporary, temporary, httpx2.Response(201, json=CREATED))

    async with server.client() as bpc:
        document = await bpc.create_document(kind="BOM")

    assert document.document_id == DOCUMENT
    assert len(server.requests) == 3
    assert len(set(server.keys)) == 1


async def test_a_permanent_error_is_not_retried() -> None:
    server = Server(make_refusal(409, "CONFLICT", document_id="d"))

    async with server.client() as bpc:
        with pytest.raises(ApiError) as raised:
            await bpc.create_document(kind="BOM")

    error = raised.value
    assert (error.code, error.message, error.status, error.correlation_id) == ("CONFLICT", "no", 409, "c-1")
    assert error.details == {"document_id": "d"}
    assert len(server.requests) == 1


async def test_the_last_error_is_raised_when_all_attempts_are_used() -> None:
    server = Server(make_refusal(503, "DB_UNAVAILABLE"))

    async with server.client() as bpc:
        with pytest.raises(ApiError, match="DB_UNAVAILABLE: no"):
            await bpc.get_document(DOCUMENT)

    assert len(server.requests) == QUICK.attempts


async def test_an_unreachable_server_is_reported_with_its_address_and_without_the_key() -> None:
    server = Server(httpx2.ConnectError("connection refused"))

    async with server.client(url="http://bpc.test:81") as bpc:
        with pytest.raises(Unreachable, match=r"^http://bpc\.test:81 does not answer: connection refused$") as raised:
            await bpc.get_document(DOCUMENT)

    assert "secret" not in repr(raised.value)


@pytest.mark.parametrize(("retry_after", "expected"), [("7", [7.0]), ("0", [0.0])])
async def test_a_retry_waits_as_long_as_retry_after_says(
    monkeypatch: pytest.MonkeyPatch, retry_after: str, expected: list[float]
) -> None:
    pauses: list[float] = []

    async def record_pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("bpc_client.calls.asyncio.sleep", record_pause)
    server = Server(make_refusal(429, "RATE_LIMITED", {"Retry-After": retry_after}), httpx2.Response(201, json=CREATED))

    async with server.client() as bpc:
        await bpc.create_document(kind="BOM")

    assert pauses == expected


async def test_a_retry_after_of_an_hour_fails_at_once() -> None:
    server = Server(make_refusal(429, "RATE_LIMITED", {"Retry-After": "3600"}))

    async with server.client() as bpc:
        with pytest.raises(ApiError, match="RATE_LIMITED"):
            await bpc.get_document(DOCUMENT)

    assert len(server.requests) == 1


def test_pauses_grow_up_to_a_limit_and_differ_at_random() -> None:
    retry = RetryPolicy(first_pause=1.0, longest_pause=4.0)

    pauses = {attempt: [retry.pause(attempt) for _ in range(50)] for attempt in (1, 2, 3, 9)}

    assert all(0.5 <= pause <= 1.0 for pause in pauses[1])
    assert all(1.0 <= pause <= 2.0 for pause in pauses[2])
    assert all(2.0 <= pause <= 4.0 for pause in pauses[3] + pauses[9])
    assert len(set(pauses[1])) > 10


async def test_known_bytes_are_not_sent_again() -> None:
    stored = httpx2.Response(200, content=b"bytes", headers={"ETag": '"e"', "Content-Type": "text/csv"})
    server = Server(stored, httpx2.Response(304, headers={"ETag": '"e"'}))

    async with server.client() as bpc:
        first = await bpc.get_document_content(DOCUMENT)
        again = await bpc.get_document_content(DOCUMENT, known=first)

    assert (first.content, first.etag, first.media_type) == (b"bytes", '"e"', "text/csv")
    assert again is first
    assert server.requests[1].headers["if-none-match"] == '"e"'


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx2.Response(200, text="<html>"), "the answer does not have the expected form: `the answer`"),
        (httpx2.Response(200, json={"document_id": 1}), "`document_id`"),
        (httpx2.Response(404, text="nginx"), "HTTP 404, but not from the API"),
        (httpx2.Response(400, json=["error"]), "HTTP 400, but not from the API"),
        (httpx2.Response(302, headers={"Location": "http://elsewhere.test/"}), "HTTP 302, but not from the API"),
    ],
)
async def test_an_answer_that_is_not_the_apis_raises_unexpected_answer(answer: httpx2.Response, says: str) -> None:
    server = Server(answer)

    async with server.client() as bpc:
        with pytest.raises(UnexpectedAnswer) as raised:
            await bpc.get_document(DOCUMENT)

    assert raised.value.code == "UNEXPECTED_ANSWER"
    assert says in raised.value.message


async def test_members_that_a_later_version_adds_are_ignored() -> None:
    now = "2027-02-18T00:00:00.000000Z"
    answer = {"document_id": str(DOCUMENT), "kind": "PCF", "external_ref": None, "created_at": now, "colour": "red"}
    server = Server(httpx2.Response(200, json=answer))

    async with server.client() as bpc:
        document = await bpc.get_document(DOCUMENT)

    assert document == Document(
        document_id=DOCUMENT, kind="PCF", external_ref=None, created_at=datetime(2027, 2, 18, tzinfo=UTC)
    )


def test_a_time_is_written_in_utc_with_microseconds() -> None:
    berlin = timezone(timedelta(hours=2))

    assert format_time(datetime(2027, 2, 18, 2, 0, 0, 5, tzinfo=berlin)) == "2027-02-18T00:00:00.000005Z"
    with pytest.raises(ValueError, match="has no time zone"):
        format_time(datetime(2027, 2, 18))


def test_a_body_has_only_the_members_that_are_set_at_any_depth() -> None:
    at = datetime(2027, 2, 18, tzinfo=UTC)

    assert drop_missing({"name": "x", "description": None}) == {"name": "x"}
    assert to_plain({"at": at, "ids": [DOCUMENT], "page": Page[int](items=[1])}) == {
        "at": "2027-02-18T00:00:00.000000Z",
        "ids": [str(DOCUMENT)],
        "page": {"items": [1]},
    }
    assert to_plain(Page[int](items=[], next_cursor=None)) == {"items": [], "next_cursor": None}


async def test_an_argument_cannot_leave_its_part_of_the_path() -> None:
    server = Server(make_refusal(404, "NOT_FOUND"))

    async with server.client() as bpc:
        with pytest.raises(ApiError):
            await bpc.get_document("../jobs?x=1#y")  # type: ignore[arg-type]

    assert server.requests[0].url.raw_path == b"/v1/documents/..%2Fjobs%3Fx%3D1%23y"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://bpc.test", "", "http://", "http://[", "http://a:99999999"])
def test_an_invalid_address_is_refused_by_the_constructor(url: str) -> None:
    with pytest.raises(ValueError, match="is not the address of an API"):
        Client(url, "bpc_prefix_secret")
