"""Calls of API routes from a page: as the actor of the session, through everything that a request from outside passes.

    calls = ApiCalls(request, secret)
    products = await calls.get("/v1/battery-products", limit=50)     # JSON; a refusal is raised as it is
    answer = await calls.write("POST", path, body, idempotency_key=form_key)

The call is made inside of this process, so it has no key. The session stands in its scope, where a request from outside
can put nothing. Policies, limits, idempotency keys, four eyes and recorded denials apply as to every client.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.requests import Request
from starlette.types import Message

from bpc.api.access.auth import SESSION_IN_SCOPE
from bpc.core.console_access import SessionSecret

LONGEST_SHOWN_BODY: Final = 4_096
PASSED_STATE: Final = ("meter", "public_site")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A call as the foot of a page shows it."""

    method: str
    target: str
    body: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """What a route answered. 202 says that a second person has to confirm, or that a job has begun."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None


class ApiCalls:
    """The calls of one page, in their order."""

    def __init__(self, request: Request, secret: SessionSecret) -> None:
        self._request = request
        self._secret = secret
        self.record: list[ApiCall] = []

    async def get(self, path: str, **query: object) -> Any:
        """The JSON that a route answers. A query parameter that is None or empty is left out."""
        return (await self.send("GET", path, query=query)).body

    async def ask(self, path: str, body: object) -> Any:
        """The JSON that a route of kind `ask` answers: it changes nothing."""
        return (await self.send("POST", path, content=_encode(body))).body

    async def write(self, method: str, path: str, body: object, *, idempotency_key: str) -> ApiAnswer:
        content = b"" if body is None else _encode(body)
        return await self.send(method, path, content=content, idempotency_key=idempotency_key)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        content: bytes = b"",
        content_type: str = "application/json",
        idempotency_key: str | None = None,
    ) -> ApiAnswer:
        """Run a route. What it refuses is raised, as the exception that it raised."""
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None and value != ""}
        query_text = urlencode(parameters)
        is_text = content_type == "application/json"
        body = content.decode() if content and is_text and len(content) <= LONGEST_SHOWN_BODY else None
        self.record.append(ApiCall(method=method, target=f"{path}?{query_text}" if query_text else path, body=body))
        headers = [(b"host", self._request.headers.get("host", "").encode("latin-1"))]
        if content:
            headers += [
                (b"content-type", content_type.encode("latin-1")),
                (b"content-length", str(len(content)).encode()),
            ]
        if idempotency_key is not None:
            headers.append((b"idempotency-key", idempotency_key.encode("latin-1", "replace")))
        outer = self._request.scope
        scope = {
            **{name: outer[name] for name in ("type", "asgi", "http_version", "scheme", "server", "client", "app")},
            "method": method,
            "path": path,
            "raw_path": quote(path, safe="/:").encode(),
            "query_string": query_text.encode(),
            "root_path": "",
            "headers": headers,
            "state": {name: outer["state"][name] for name in PASSED_STATE if name in outer["state"]}
            | {SESSION_IN_SCOPE: self._secret},
        }
        exchange = _Exchange(content)
        await AsyncExitStackMiddleware(outer["app"].router)(scope, exchange.receive, exchange.send)
        return ApiAnswer(status=exchange.status, headers=exchange.headers, content=b"".join(exchange.parts))


class _Exchange:
    """One request and its answer, in memory."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self.status = 500
        self.headers: Mapping[str, str] = {}
        self.parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._content is None:
            return {"type": "http.disconnect"}
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            self.parts.append(message.get("body", b""))


def _encode(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
