"""One connection of a client: uvicorn's, with limits on time and size, our error answers, and one WebSocket.

A head, a body or a fetched answer that does not come in time ends the connection. A WebSocket is taken at the address
of the console's editor, and nowhere else.

Requests that offer another protocol (`Upgrade: h2c`, as Java's HTTP client sends) are read as plain HTTP/1.1. RFC 9110
7.8: a server may ignore the offer. But the parser does not read the body of such a request: it takes what follows for
the other protocol. So its head is given to a new parser without the offer, and then the rest.

    head with an offer ─► parser stops ─► the same head without the offer, and what follows ─► a new parser
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, Protocol

import httptools
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bpc.api.console.editor_socket import EDITOR_PATH
from bpc.api.http.app import COMPONENT, MAX_HEAD_BYTES, SECURITY_HEADERS
from bpc.api.http.error_responses import answer_large_head, answer_not_http, answer_slow_head
from bpc.api.http.telemetry import UNKNOWN_METHOD, HttpMetrics
from bpc.runtime import clock
from bpc.runtime.logs import bind_correlation_id, get_logger

MIN_FETCH_RATE: Final = 1_024  # bytes a second; a client that fetches less is disconnected
log = get_logger(__name__)


OFFER_HEADERS: Final = frozenset({b"upgrade", b"http2-settings"})
TUNNEL: Final = b"CONNECT"  # it has no body, and no head without an offer


class HeadReceiver(Protocol):
    """What a parser reports to, and what it has of the head."""

    url: bytes
    headers: list[tuple[bytes, bytes]]

    def takes_offer(self) -> bool:
        """Whether this head offers a protocol that is spoken here."""


class OfferIgnoringParser:
    """A parser of requests that goes on after a head with an offer."""

    def __init__(self, receiver: HeadReceiver) -> None:
        self._receiver = receiver
        self._parser: Any = self._make_parser()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def has_ignored_offer(self) -> bool:
        """Whether the head that is being reported will be reported again, without its offer."""
        if not self._parser.should_upgrade() or self._parser.get_method() == TUNNEL:
            return False
        return not self._receiver.takes_offer()

    def feed_data(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            if not self.has_ignored_offer:
                raise
            method, version = self._parser.get_method(), self._parser.get_http_version()
            head = encode_head(method, self._receiver.url, version, self._receiver.headers)
            self._parser = self._make_parser()
            self._parser.feed_data(head)
            self.feed_data(data[stopped.args[0] :])

    def _make_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self._receiver)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return parser


def encode_head(method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of a request without its offer of another protocol."""
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            lines.append(b"connection: " + b", ".join(each for each in options if each.lower() not in OFFER_HEADERS))
        elif name not in OFFER_HEADERS:
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """Timeouts of a connection, in seconds.

    `head`: request line and headers must arrive. `idle`: the next request must begin. `fetching`: the client must fetch
    a part of its answer. `leaving`: time for requests on their way when the process is told to stop.
    """

    head: float = 10.0
    idle: int = 30
    fetching: float = 30.0
    leaving: float = 0.25


class HttpConnection(HttpToolsProtocol):
    """One connection of a client: uvicorn's, with limits on time and size, and our error answers."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        timeouts: ConnectionTimeouts,
        metrics: HttpMetrics,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser: Any = OfferIgnoringParser(self)
        self._timeouts = timeouts
        self._metrics = metrics
        self._reading: Literal["nothing", "head", "body"] = "nothing"
        self._just_begun = False
        self._head_bytes = 0
        self._waiting: asyncio.TimerHandle | None = None
        self._fetching: asyncio.TimerHandle | None = None
        self._unfetched = 0
        self._leaving: asyncio.TimerHandle | None = None
        self._is_handed_over = False

    # Reading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        self._just_begun = False
        super().data_received(data)
        if self.transport.is_closing() or self._is_handed_over:
            return
        # Bytes that came before this head began are not counted, so a head may be larger by one read.
        self._head_bytes = 0 if self._reading != "head" or self._just_begun else self._head_bytes + len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(answer_large_head, MAX_HEAD_BYTES)
        else:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        self._reading, self._just_begun = "head", True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.has_ignored_offer:
            return
        self._reading = "body"
        super().on_headers_complete()
        if self._leaving is not None:
            self.cycle.keep_alive = False

    def takes_offer(self) -> bool:
        """Whether it is a WebSocket at the address of the editor."""
        return self._should_upgrade()

    def _should_upgrade_to_ws(self) -> bool:
        is_editor = self.url.partition(b"?")[0] == EDITOR_PATH.encode()
        return is_editor and self.parser.get_method() == b"GET" and not self._is_busy

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over: none of our timers is for a WebSocket."""
        for timer in (self._waiting, self._fetching):
            if timer is not None:
                timer.cancel()
        self._is_handed_over = True
        super().handle_websocket_upgrade()

    def on_message_complete(self) -> None:
        if self.parser.has_ignored_offer:
            return
        self._reading = "nothing"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._reading != "nothing" and not self.transport.is_closing():
            self._start_head_timer()  # for the rest of a body that was refused, or of the next head

    @property
    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _start_head_timer(self) -> None:
        """Start the timer at the first byte; no timer runs while we compute the answer."""
        if self._is_busy:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self._timeouts.head, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing():
            return
        if self._reading == "head":
            self._refuse(answer_slow_head, self._timeouts.head)
        else:
            self.transport.close()

    # Writing

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_fetching()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    def _watch_fetching(self) -> None:
        self._unfetched = self.transport.get_write_buffer_size()
        self._fetching = self.loop.call_later(self._timeouts.fetching, self._check_fetching)

    def _check_fetching(self) -> None:
        fetched_bytes = self._unfetched - self.transport.get_write_buffer_size()
        if fetched_bytes < MIN_FETCH_RATE * self._timeouts.fetching:
            log.warning("a client does not fetch its answer", component=COMPONENT)
            self.transport.abort()
        else:
            self._watch_fetching()

    def connection_lost(self, exc: Exception | None) -> None:
        is_busy = self._is_busy
        super().connection_lost(exc)
        if is_busy and (abandon := self.cycle.scope["state"].get("abandon")) is not None:
            abandon()  # nobody will read the answer
        for timer in (self._waiting, self._fetching, self._leaving):
            if timer is not None:
                timer.cancel()

    # Leaving

    def shutdown(self) -> None:
        """The process is about to stop and takes no more connections.

        uvicorn would close idle connections at once. But a client that just connected or reuses its connection may
        have sent a request that we have not read; closing would lose it.
        """
        if self._is_busy:
            super().shutdown()
        if self._leaving is None:
            self._leaving = self.loop.call_later(self._timeouts.leaving, self._leave)

    def _leave(self) -> None:
        if self._reading == "nothing" and not self._is_busy:
            self.transport.close()

    # Refusing

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's words)
        self._refuse(answer_not_http)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing about a CONNECT: the request is answered as usual."""

    def _refuse(self, answer: Any, *arguments: Any) -> None:
        """Answer in place of the application, unless an answer is being sent, and close the connection."""
        if not self._is_busy:
            with bind_correlation_id(str(clock.new_id())) as request_id:
                response: Response = answer(*arguments)
                self.transport.write(_encode_response(response, request_id))
                self._metrics.record_answer(UNKNOWN_METHOD, None, response.status_code, 0.0)
                log.info("connection refused", component=COMPONENT, status=response.status_code)
        self.transport.close()


def _encode_response(response: Response, correlation_id: str) -> bytes:
    status = HTTPStatus(response.status_code)
    headers = {**response.headers, **SECURITY_HEADERS, "X-Correlation-Id": correlation_id}
    head = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {status.phrase}\r\n{head}\r\n".encode("latin-1") + bytes(response.body)
