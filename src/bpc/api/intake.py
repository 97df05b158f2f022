"""Bodies: read whole before anything is done or locked, bounded, and as strict JSON.

A process has room for so many bytes of large bodies at once: whoever comes when it is full waits, and is read when
others have been answered.

A body that is not JSON, has a member twice, NaN, a fraction, a lone surrogate or U+0000 somewhere is refused with its
place. What is read here is what the route is given.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.requests import Request

from bpc.api.shares import Room
from bpc.core import canon
from bpc.core.errors import Invalid, Refusal
from bpc.core.ids import TenantId

SMALL: Final = 1_000_000  # every body but those named here
RULES: Final = 5_000_000  # two texts of a MiB, with escapes
AROUND_AN_UPLOAD: Final = 10_000  # what a document is wrapped in
UPLOAD: Final = "/v1/documents/{document_id}/versions"
AWAY_FROM: Final = 200_000  # larger ones are parsed beside the event loop, and need room
ROOM: Final = 256_000_000  # for all large bodies of a process together, unless one alone may be larger
# Two members need one comma. Millions would be small values, each of which costs more memory than it has bytes.
MOST_COMMAS: Final = 500_000
TEXTS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class RequestTooLarge(Refusal):
    """More bytes than the route takes."""

    code = "REQUEST_TOO_LARGE"

    def __init__(self, most: int) -> None:
        super().__init__(f"the body has more than {most:,} bytes", fix="send less at once", details={"most": most})


class UnsupportedMediaType(Refusal):
    """A body that is not called JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"

    def __init__(self) -> None:
        super().__init__("the body is not JSON", fix="send `Content-Type: application/json`, in UTF-8")


class JsonRequest(Request):
    """A request whose body has been read, and read as JSON."""

    def given(self, body: bytes, value: Any) -> "JsonRequest":
        self._body = body
        self._value = value
        return self

    async def json(self) -> Any:
        return self._value


def room_for(upload_bytes: int) -> Room:
    """The room of a process that takes documents of this size."""
    return Room(max(ROOM, 2 * _most(UPLOAD, upload_bytes)))


@asynccontextmanager
async def body_read(
    request: Request, tenant: TenantId, room: Room, upload_bytes: int
) -> AsyncIterator[tuple[Request, bytes]]:
    """The request with its body, and the body, which has its room until the block ends."""
    most = _most(request.scope["route"].path, upload_bytes)
    _check_announced(request, most)
    reading = _Reading(room, tenant, most)
    try:
        body = await reading.read(request)
        value = await _value(request, body) if body else None
        yield JsonRequest(request.scope, request.receive).given(body, value), body
    finally:
        reading.give_back()


class _Reading:
    """A body as it arrives. Small ones need no room."""

    def __init__(self, room: Room, tenant: TenantId, most: int) -> None:
        self._room = room
        self._tenant = tenant
        self._most = most
        self._taken = 0

    async def read(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._most:
                raise RequestTooLarge(self._most)
            if size > AWAY_FROM:
                self._room.take(self._tenant, size - self._taken)
                self._taken = size
            parts.append(part)
        return b"".join(parts)

    def give_back(self) -> None:
        self._room.give_back(self._tenant, self._taken)


def _most(path: str, upload_bytes: int) -> int:
    if path == UPLOAD:
        return upload_bytes * 4 // 3 + AROUND_AN_UPLOAD  # base64: four bytes for three
    return RULES if path.startswith("/v1/rule") else SMALL


def _check_announced(request: Request, most: int) -> None:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
        raise RequestTooLarge(most)


async def _value(request: Request, body: bytes) -> object:
    if not _is_json(request.headers.getlist("content-type")):
        raise UnsupportedMediaType
    value = await asyncio.to_thread(_read, body) if len(body) > AWAY_FROM else _read(body)
    if value != {} and _takes_none(request.scope["route"]):
        raise Invalid("this route takes no body", fix="leave it out")
    return value


def _takes_none(route: APIRoute) -> bool:
    # What is only asked may read the body by itself.
    return route.body_field is None and getattr(route, "kind", "ask") != "ask"


def _is_json(content_types: list[str]) -> bool:
    if len(content_types) != 1:
        return False
    kind, *parameters = [part.strip().lower() for part in content_types[0].split(";")]
    return kind == "application/json" and all(part in {"", "charset=utf-8", 'charset="utf-8"'} for part in parameters)


def _read(body: bytes) -> object:
    if body.count(b",") > MOST_COMMAS and TEXTS.sub(b"", body).count(b",") > MOST_COMMAS:
        raise Invalid(f"the body has more than {MOST_COMMAS:,} values", fix="send less at once")
    value = canon.read_json(body)
    # PostgreSQL stores no U+0000, neither in text nor in JSON. Only an escape can have brought one.
    if b"\\u0000" in body and (place := _nul_in(value)) is not None:
        raise Invalid(f"`{place}` has U+0000 in it", fix="leave it out", details={"path": place})
    return value


def _nul_in(value: object) -> str | None:
    """Where the first U+0000 is."""
    waiting: list[tuple[str, object]] = [("$", value)]
    while waiting:
        at, here = waiting.pop()
        if isinstance(here, str) and "\0" in here:
            return at
        if isinstance(here, dict):
            if any("\0" in key for key in here):
                return at
            waiting += [(f"{at}.{key[:80]}", child) for key, child in here.items()]
        elif isinstance(here, list):
            waiting += [(f"{at}[{index}]", child) for index, child in enumerate(here)]
    return None
