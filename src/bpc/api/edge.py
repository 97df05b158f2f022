"""The edge: what every request and every answer passes, whatever becomes of it.

in   a correlation id (a UUID that was sent is kept), the trace it belongs to, a bound on its head
out  that id on the answer, headers that keep browsers careful, one log line, the metrics
and  an error nobody expected is INTERNAL_ERROR to the client and a trace in the log

HEAD is GET without the body. OPTIONS is a method like any other, so no route takes it: no other site's script is
meant to talk to us.
"""

import asyncio
import re
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bpc import fresh
from bpc.api.envelope import of_bug, of_head, of_status, of_stop
from bpc.api.metrics import UNKNOWN_PATH, HttpMetrics
from bpc.api.tracing import Serving, serving
from bpc.logs import correlation, logger

COMPONENT: Final = "api"
LARGEST_HEAD: Final = 32_768  # bytes of request line and headers
CLIENT_LEFT: Final = 499  # in logs and metrics only: nobody is there to be answered
CAREFUL: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
UUID_TEXT: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
log = logger(__name__)


class Edge:
    """Outermost: nothing that fails is further out."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})
        method, headers = scope["method"], Headers(scope=scope)
        if method == "HEAD":
            scope = {**scope, "method": "GET"}  # the server's own still says HEAD, and that no body follows
        with correlation(_correlation_id(headers)) as named, serving(headers) as span:
            passage = _Passage(scope, send, named, span, body=method != "HEAD")
            started = time.perf_counter()
            try:
                await self._answer(scope, receive, passage)
            finally:
                span.answered(method, _route(scope), passage.status)
                self._note(method, scope, passage.status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, passage: "_Passage") -> None:
        if _head_bytes(scope) > LARGEST_HEAD:
            await of_head(LARGEST_HEAD)(scope, receive, passage.send)
            return
        if b"%2f" in scope.get("raw_path", b"").lower():  # to us it would be another route than to a proxy before us
            await of_status(404, None)(scope, receive, passage.send)
            return
        try:
            await self.app(scope, receive, passage.send)
        except ClientDisconnect:
            passage.status = CLIENT_LEFT
        except asyncio.CancelledError:  # the server stops, and has waited long enough
            await self._instead(of_stop(), scope, receive, passage)
            raise
        except Exception:
            log.exception("a request failed", component=COMPONENT, method=scope["method"], route=_route(scope))
            await self._instead(of_bug(), scope, receive, passage)

    async def _instead(self, answer: Response, scope: Scope, receive: Receive, passage: "_Passage") -> None:
        if not passage.started:
            await answer(scope, receive, passage.send)

    def _note(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self.metrics.answered(method, route, status, seconds)
        write = log.error if status >= 500 else log.warning if status == 429 else log.info
        write(
            "request completed",
            component=COMPONENT,
            http={
                "method": method,
                "path": route or UNKNOWN_PATH,
                "status": status,
                "duration_ms": round(seconds * 1000, 1),
            },
        )


class _Passage:
    """One answer on its way out."""

    def __init__(self, scope: Scope, send: Send, correlation_id: str, span: Serving, *, body: bool) -> None:
        self._scope = scope
        self._send = send
        self._id = correlation_id
        self._span = span
        self._body = body
        self.status = 500
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            self._add_headers(MutableHeaders(scope=message))
        elif message["type"] == "http.response.body" and not self._body:
            message = {**message, "body": b""}
        await self._send(message)

    def _add_headers(self, headers: MutableHeaders) -> None:
        headers["X-Correlation-Id"] = self._id
        if self._span.traceparent is not None:
            headers["traceparent"] = self._span.traceparent
        for name, value in CAREFUL.items():
            headers.setdefault(name, value)
        for name, value in self._scope["state"].get("answer_headers", {}).items():
            headers[name] = value


def _correlation_id(headers: Headers) -> str:
    given = headers.get("x-correlation-id", "")
    return given if UUID_TEXT.fullmatch(given) else str(fresh.new_id())


def _head_bytes(scope: Scope) -> int:
    line = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _route(scope: Scope) -> str | None:
    """The template of the route that was found, which is there even if it does not take the method."""
    found: str | None = getattr(scope.get("route"), "path", None)
    return found
