"""One call: sent again while that can help, always under the same Idempotency-Key, and never a word too much."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import httpx2
import pytest

from bpc.client import ApiError, Client, Patience, UnexpectedAnswer, Unreachable
from bpc.client.calls import given, moment, plain
from bpc.client.models import Document
from bpc.client.shapes import Page

DOCUMENT = UUID("01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2")
MADE = {"document_id": str(DOCUMENT), "kind": "BOM"}
QUICK = Patience(attempts=4, first_rest=0.0, longest_rest=0.0)

Answer = Callable[[httpx2.Request], httpx2.Response]


def refused(status: int, code: str, headers: dict[str, str] | None = None, **details: Any) -> httpx2.Response:
    error = {"code": code, "message": "no", "correlation_id": "c-1", "details": details}
    return httpx2.Response(status, json={"error": error}, headers=headers)


class Server:
    """Answers in turn, and remembers what was asked. The last answer is given again and again."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, *, patience: Patience = QUICK, url: str = "http://bpc.test") -> Client:
        return Client(url, "bpc_prefix_secret", patience=patience, transport=httpx2.MockTransport(self))

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("idempotency-key") for request in self.asked]


async def test_a_call_sends_the_key_and_what_was_given_and_nothing_else() -> None:
    server = Server(httpx2.Response(201, json=MADE))

    async with server.client() as bpc:
        made = await bpc.create_document(kind="BOM")

    assert made.document_id == DOCUMENT
    [request] = server.asked
    assert (request.method, request.url.path) == ("POST", "/v1/documents")
    assert request.headers["authorization"] == "Bearer bpc_prefix_secret"
    assert json.loads(request.content) == {"kind": "BOM"}


async def test_every_write_has_an_idempotency_key_of_its_own_unless_one_is_given() -> None:
    server = Server(httpx2.Response(201, json=MADE))

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
    "passing",
    [
        refused(503, "DB_UNAVAILABLE"),
        refused(429, "RATE_LIMITED", {"Retry-After": "0"}),
        refused(409, "EVENT_VERSION_CONFLICT"),
        refused(500, "INTERNAL_ERROR"),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("late"),
        httpx2.RemoteProtocolError("cut"),
    ],
    ids=str,
)
async def test_what_may_pass_is_sent_again_under_the_same_key(passing: httpx2.Response | Exception) -> None:
    server = Server(passing, passing, httpx2.Response(201, json=MADE))

    async with server.client() as bpc:
        made = await bpc.create_document(kind="BOM")

    assert made.document_id == DOCUMENT
    assert len(server.asked) == 3
    assert len(set(server.keys)) == 1


async def test_what_will_not_pass_is_sent_once() -> None:
    server = Server(refused(409, "CONFLICT", document_id="d"))

    async with server.client() as bpc:
        with pytest.raises(ApiError) as raised:
            await bpc.create_document(kind="BOM")

    error = raised.value
    assert (error.code, error.message, error.status, error.correlation_id) == ("CONFLICT", "no", 409, "c-1")
    assert error.details == {"document_id": "d"}
    assert len(server.asked) == 1


async def test_patience_ends_and_the_last_error_is_told() -> None:
    server = Server(refused(503, "DB_UNAVAILABLE"))

    async with server.client() as bpc:
        with pytest.raises(ApiError, match="DB_UNAVAILABLE: no"):
            await bpc.get_document(DOCUMENT)

    assert len(server.asked) == QUICK.attempts


async def test_a_server_that_is_not_there_is_told_with_its_address_and_without_the_key() -> None:
    server = Server(httpx2.ConnectError("connection refused"))

    async with server.client(url="http://bpc.test:81") as bpc:
        with pytest.raises(Unreachable, match=r"^http://bpc\.test:81 does not answer: connection refused$") as raised:
            await bpc.get_document(DOCUMENT)

    assert "secret" not in repr(raised.value)


@pytest.mark.parametrize(("said", "waited"), [("7", [7.0]), ("0", [0.0])])
async def test_the_server_says_how_long_to_wait(
    monkeypatch: pytest.MonkeyPatch, said: str, waited: list[float]
) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr("bpc.client.calls.asyncio.sleep", rest)
    server = Server(refused(429, "RATE_LIMITED", {"Retry-After": said}), httpx2.Response(201, json=MADE))

    async with server.client() as bpc:
        await bpc.create_document(kind="BOM")

    assert rests == waited


async def test_who_shall_wait_for_an_hour_is_told_at_once() -> None:
    server = Server(refused(429, "RATE_LIMITED", {"Retry-After": "3600"}))

    async with server.client() as bpc:
        with pytest.raises(ApiError, match="RATE_LIMITED"):
            await bpc.get_document(DOCUMENT)

    assert len(server.asked) == 1


def test_rests_grow_up_to_a_limit_and_are_not_the_same_for_everybody() -> None:
    patience = Patience(first_rest=1.0, longest_rest=4.0)

    rests = {attempt: [patience.rest(attempt) for _ in range(50)] for attempt in (1, 2, 3, 9)}

    assert all(0.5 <= rest <= 1.0 for rest in rests[1])
    assert all(1.0 <= rest <= 2.0 for rest in rests[2])
    assert all(2.0 <= rest <= 4.0 for rest in rests[3] + rests[9])
    assert len(set(rests[1])) > 10


async def test_bytes_come_with_their_etag_and_are_not_sent_twice() -> None:
    stored = httpx2.Response(200, content=b"bytes", headers={"ETag": '"e"', "Content-Type": "text/csv"})
    server = Server(stored, httpx2.Response(304, headers={"ETag": '"e"'}))

    async with server.client() as bpc:
        first = await bpc.get_document_content(DOCUMENT)
        again = await bpc.get_document_content(DOCUMENT, known=first)

    assert (first.content, first.etag, first.media_type) == (b"bytes", '"e"', "text/csv")
    assert again is first
    assert server.asked[1].headers["if-none-match"] == '"e"'


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx2.Response(200, text="<html>"), "the answer is not what this client expects: `the answer`"),
        (httpx2.Response(200, json={"document_id": 1}), "`document_id`"),
        (httpx2.Response(404, text="nginx"), "HTTP 404, and not from the API"),
        (httpx2.Response(400, json=["error"]), "HTTP 400, and not from the API"),
        (httpx2.Response(302, headers={"Location": "http://elsewhere.test/"}), "HTTP 302, and not from the API"),
    ],
)
async def test_an_answer_of_somebody_else_is_told_as_such(answer: httpx2.Response, says: str) -> None:
    server = Server(answer)

    async with server.client() as bpc:
        with pytest.raises(UnexpectedAnswer) as raised:
            await bpc.get_document(DOCUMENT)

    assert raised.value.code == "UNEXPECTED_ANSWER"
    assert says in raised.value.message


async def test_members_that_a_later_version_adds_are_left_out() -> None:
    now = "2027-02-18T00:00:00.000000Z"
    answer = {"document_id": str(DOCUMENT), "kind": "PCF", "external_ref": None, "created_at": now, "colour": "red"}
    server = Server(httpx2.Response(200, json=answer))

    async with server.client() as bpc:
        document = await bpc.get_document(DOCUMENT)

    assert document == Document(
        document_id=DOCUMENT, kind="PCF", external_ref=None, created_at=datetime(2027, 2, 18, tzinfo=UTC)
    )


def test_a_time_is_written_as_the_api_reads_it() -> None:
    there = timezone(timedelta(hours=2))

    assert moment(datetime(2027, 2, 18, 2, 0, 0, 5, tzinfo=there)) == "2027-02-18T00:00:00.000005Z"
    with pytest.raises(ValueError, match="has no time zone"):
        moment(datetime(2027, 2, 18))


def test_a_body_says_what_was_given_at_any_depth() -> None:
    at = datetime(2027, 2, 18, tzinfo=UTC)

    assert given({"name": "x", "description": None}) == {"name": "x"}
    assert plain({"at": at, "ids": [DOCUMENT], "page": Page[int](items=[1])}) == {
        "at": "2027-02-18T00:00:00.000000Z",
        "ids": [str(DOCUMENT)],
        "page": {"items": [1]},
    }
    assert plain(Page[int](items=[], next_cursor=None)) == {"items": [], "next_cursor": None}


async def test_ids_and_texts_cannot_leave_their_part_of_the_path() -> None:
    server = Server(refused(404, "NOT_FOUND"))

    async with server.client() as bpc:
        with pytest.raises(ApiError):
            await bpc.get_document("../jobs?x=1#y")  # type: ignore[arg-type]

    assert server.asked[0].url.raw_path == b"/v1/documents/..%2Fjobs%3Fx%3D1%23y"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://bpc.test", "", "http://", "http://[", "http://a:99999999"])
def test_an_address_that_is_none_is_refused_when_it_is_given(url: str) -> None:
    with pytest.raises(ValueError, match="is no address of an API"):
        Client(url, "bpc_prefix_secret")
