"""Bodies: strict JSON, called so, no larger than they may be, and refused with the place of what is wrong."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import httpx2
import pytest

from bpc.api.access.tenant_limits import RateLimited, TenantMemory
from bpc.api.http.json_parsing import parse_json
from bpc.api.http.request_body import BODY_MEMORY_BYTES
from bpc.api.http.request_context import Service
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.database import Database
from tests.api.conftest import KEY_ID, Api

UPLOAD_BYTES = 3_000_000

REFUSED = {
    "not JSON": (b"{kind: BOM}", "line 1, column 2"),
    "cut off": (b'{"kind":"BOM"', "column 14"),
    "two values": (b"{} {}", "column 4"),
    "not UTF-8": (b'{"kind":"\xff"}', "not UTF-8"),
    "UTF-16": ('{"kind":"BOM"}'.encode("utf-16"), "not UTF-8"),
    "a byte order mark": (b'\xef\xbb\xbf{"kind":"BOM"}', "byte order mark"),
    "a member twice": (b'{"kind":"BOM","kind":"OTHER"}', "`$.kind` is given twice"),
    "NaN": (b'{"kind":NaN}', "`NaN`"),
    "Infinity": (b'{"kind":-Infinity}', "`-Infinity`"),
    "a fraction": (b'{"kind":1.5}', "`1.5`"),
    "an exponent": (b'{"kind":1e400000000}', "whole and without exponent"),
    "minus zero": (b'{"kind":-0}', "zero has no sign"),
    "a huge number": (b'{"kind":' + b"9" * 5_000 + b"}", "600 digits"),
    "a lone surrogate": (rb'{"kind":"\ud800"}', "lone surrogate"),
    "a lone surrogate as a name": (rb'{"\udfff":1}', "lone surrogate"),
    "U+0000": (rb'{"kind":"BOM","external_ref":"a\u0000b"}', "`$.external_ref` contains U+0000"),
    "U+0000 in a name": (rb'{"kind":{"\u0000":[1]}}', "`$.kind` contains U+0000"),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
    "many values": (b"[" + b"1," * 499_990 + b"1]", "body"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID, upload_max_bytes=UPLOAD_BYTES)


async def _post_raw(admin: Api, content: bytes, *, kind: str = "application/json") -> httpx2.Response:
    return await admin.send("POST", "/v1/documents", content=content, headers={"Content-Type": kind})


def _read_message(answer: httpx2.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["message"])


async def test_what_is_not_strict_json_is_refused_with_its_place(admin: Api) -> None:
    for name, (content, says) in REFUSED.items():
        answer = await _post_raw(admin, content)

        assert says in _read_message(answer, 422), name
        assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


async def test_a_backslash_before_u0000_is_only_a_text(admin: Api) -> None:
    answer = await _post_raw(admin, rb'{"kind":"BOM","external_ref":"\\u0000"}')

    assert answer.status_code == 201


async def test_a_body_that_is_called_something_else_than_json_is_415(admin: Api) -> None:
    body = b'{"kind":"BOM"}'

    for kind in ("text/plain", "application/json; charset=latin-1", "application/xml", "multipart/form-data", "json"):
        answer = await _post_raw(admin, body, kind=kind)

        _read_message(answer, 415)
        assert answer.json()["error"]["code"] == "UNSUPPORTED_MEDIA_TYPE"
    for kind in ("application/json", "Application/JSON; Charset=UTF-8", 'application/json;charset="utf-8"'):
        assert (await _post_raw(admin, body, kind=kind)).status_code == 201
    _read_message(await admin.send("POST", "/v1/documents", content=body), 415)


async def test_a_body_that_is_missing_is_named(admin: Api) -> None:
    answer = await admin.send("POST", "/v1/documents")

    assert "`body`" in _read_message(answer, 422)


async def test_a_body_that_is_too_large_is_413_announced_or_not(admin: Api) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 100_000

    announced = await _post_raw(admin, b" " * 1_000_001)
    chunked = await admin.send("POST", "/v1/documents", content=parts(), headers={"Content-Type": "application/json"})
    lied = await admin.send("POST", "/v1/documents", content=b"{}", headers={"Content-Length": "9" * 5_000})

    for answer in (announced, chunked, lied):
        _read_message(answer, 413)
        assert answer.json()["error"]["code"] == "REQUEST_TOO_LARGE"


async def test_an_upload_may_be_as_large_as_the_setting_says_and_no_larger(admin: Api) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"]

    async def upload(content: bytes) -> httpx2.Response:
        body = {"mime_type": "text/plain", "content_base64": b64encode(content).decode()}
        return await admin.post(f"/v1/documents/{document}/versions", body)

    assert (await upload(b"a" * UPLOAD_BYTES)).status_code == 201
    assert (await upload(b"b" * (UPLOAD_BYTES + 1))).status_code == 413
    assert (await upload(b"c" * (UPLOAD_BYTES + 100_000))).status_code == 413


async def test_an_upload_of_millions_of_small_values_is_refused_before_they_are_made(admin: Api) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"]

    answer = await admin.send(
        "POST",
        f"/v1/documents/{document}/versions",
        content=b"[" + b"[]," * 1_000_000 + b"[]]",
        headers={"Content-Type": "application/json"},
    )

    assert "values" in _read_message(answer, 422)


async def test_a_write_that_takes_no_body_refuses_one_that_says_something(admin: Api) -> None:
    path = f"/v1/snapshots/{clock.new_id()}/seal"

    assert (await admin.post(path)).status_code == 404
    assert (await admin.post(path, {})).status_code == 404
    assert "takes no body" in _read_message(await admin.post(path, {"force": True}), 422)


async def test_the_body_of_a_read_is_not_looked_at(admin: Api) -> None:
    answer = await admin.send("GET", "/v1/documents", content=b"nonsense", headers={"Content-Type": "text/plain"})

    assert answer.status_code == 200


async def test_whoever_may_not_is_told_before_a_body_is_read(auditor: Api) -> None:
    async def unread() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    answer = await auditor.send("POST", "/v1/documents", content=unread(), headers={"Content-Type": "application/json"})

    assert answer.json()["error"]["code"] == "FORBIDDEN"


async def test_a_write_happens_when_its_body_is_there_not_when_it_began(admin: Api) -> None:
    arrived: list[datetime] = []

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"kind":'
        arrived.append(clock.now())
        yield b'"BOM"}'

    document = await admin.send("POST", "/v1/documents", content=slowly(), headers={"Content-Type": "application/json"})

    answer = await admin.get_json(f"/v1/documents/{document.json()['document_id']}")
    assert arrived[0] <= datetime.fromisoformat(answer["created_at"]) <= clock.now()


async def test_a_large_body_needs_room_and_a_small_one_does_not(admin: Api, other_admin: Api, service: Service) -> None:
    theirs = TenantId(clock.new_id())
    service.body_memory.take(theirs, BODY_MEMORY_BYTES // 2)
    others = TenantId(clock.new_id())
    service.body_memory.take(others, BODY_MEMORY_BYTES // 2 - 100)

    large = await _post_raw(admin, b" " * 300_000)

    assert (large.status_code, large.json()["error"]["code"]) == (429, "RATE_LIMITED")
    assert large.headers["retry-after"] == "5"
    await admin.post_json("/v1/documents", {"kind": "BOM"})
    service.body_memory.release(theirs, BODY_MEMORY_BYTES // 2)
    assert (await _post_raw(admin, b" " * 300_000)).status_code == 422


def test_a_tenant_has_half_of_the_room_whatever_it_asks_for() -> None:
    room, mine, yours = TenantMemory(10), TenantId(clock.new_id()), TenantId(clock.new_id())
    room.take(mine, 5)

    with pytest.raises(RateLimited):
        room.take(mine, 1)
    room.take(yours, 5)
    room.release(mine, 5)
    room.take(mine, 5)


async def test_a_body_that_was_announced_and_does_not_come_takes_no_room(admin: Api, service: Service) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"]
    stop = asyncio.Event()

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await stop.wait()
        yield b"}"

    path, headers = f"/v1/documents/{document}/versions", {"Content-Type": "application/json"}
    waiting = [asyncio.create_task(admin.send("POST", path, content=never(), headers=headers)) for _ in range(40)]
    body = {"mime_type": "text/plain", "content_base64": b64encode(b"a" * 300_000).decode()}

    await admin.post_json(path, body)

    stop.set()
    await asyncio.gather(*waiting)


def test_commas_inside_texts_are_no_values() -> None:
    assert parse_json(b'{"dsl_source":"' + b"," * 600_000 + b'"}')
    with pytest.raises(Invalid):
        parse_json(b"[" + b"1," * 600_000 + b"1]")


async def test_a_key_that_is_revoked_while_its_body_arrives_does_nothing(admin: Api, database: Database) -> None:
    actor = await admin.post_json("/v1/actors", {"type": "SERVICE", "display_name": "S", "roles": ["Admin"]})
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"kind":'
        begun.set()
        await go_on.wait()
        yield b'"BOM"}'

    headers = {"Content-Type": "application/json"}
    sender = Api(admin.http, key["api_key"])
    sending = asyncio.create_task(sender.send("POST", "/v1/documents", content=slowly(), headers=headers))
    await begun.wait()
    await admin.post_json(f"/v1/api-keys/{key['api_key_id']}:revoke", status=200)
    go_on.set()

    answer = await sending

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "API_KEY_REVOKED")
    assert (await admin.get_json("/v1/documents"))["items"] == []
