"""Connections: uvicorn's HTTP over a socket, with bounds on time and size, and our words where it has its own.

What the application sees is a request whose headers are complete. What comes before and after is bounded here:

    headers that do not arrive in time          HEADERS_TIMEOUT, closed
    headers without an end                      HEADERS_TOO_LARGE, closed
    bytes that are not HTTP                     BAD_REQUEST, closed
    a body that nobody wants any more           read and thrown away for a while, then closed
    an answer that is not fetched               cut off
    a connection that does nothing              closed (uvicorn's own keep-alive timeout)
    the process stops                           answered, if it was asked by then or within a moment; then closed

A body that trickles while a route waits for it is bounded by the timeout of the request.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bpc import fresh
from bpc.api.edge import CAREFUL, COMPONENT, LARGEST_HEAD
from bpc.api.envelope import of_head, of_nonsense, of_slowness
from bpc.api.metrics import UNKNOWN_METHOD, HttpMetrics
from bpc.logs import correlation, logger

SLOWEST: Final = 1_024  # bytes a second that a client must fetch at least
log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """In seconds: for a head to arrive, for the next request, for a client to fetch something of its answer, and for
    what is on its way when the process is told to stop."""

    head: float = 10.0
    idle: int = 30
    fetching: float = 30.0
    leaving: float = 0.25


class HttpConnection(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        patience: Patience,
        metrics: HttpMetrics,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._patience = patience
        self._metrics = metrics
        self._reading: Literal["nothing", "head", "body"] = "nothing"
        self._just_begun = False
        self._head_bytes = 0
        self._waiting: asyncio.TimerHandle | None = None
        self._fetching: asyncio.TimerHandle | None = None
        self._unfetched = 0
        self._leaving: asyncio.TimerHandle | None = None

    # Reading -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._just_begun = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        # The bytes before the head that began just now belong to others: a head may be larger by what came with them.
        self._head_bytes = 0 if self._reading != "head" or self._just_begun else self._head_bytes + len(data)
        if self._head_bytes > LARGEST_HEAD:
            self._refuse(of_head, LARGEST_HEAD)
        else:
            self._wait()

    def on_message_begin(self) -> None:
        self._reading, self._just_begun = "head", True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._reading = "body"
        super().on_headers_complete()
        if self._leaving is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._reading = "nothing"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._reading != "nothing" and not self.transport.is_closing():
            self._wait()  # for the rest of a body that was refused, or of the next head

    @property
    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        """From the first byte on, however many follow one by one; not while it is our turn."""
        if self._is_busy:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self._patience.head, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing():
            return
        if self._reading == "head":
            self._refuse(of_slowness, self._patience.head)
        else:
            self.transport.close()

    # Writing -------------------------------------------------------------------------------------------------------

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
        self._fetching = self.loop.call_later(self._patience.fetching, self._check_fetching)

    def _check_fetching(self) -> None:
        fetched = self._unfetched - self.transport.get_write_buffer_size()
        if fetched < SLOWEST * self._patience.fetching:
            log.warning("a client does not fetch its answer", component=COMPONENT)
            self.transport.abort()
        else:
            self._watch_fetching()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._waiting, self._fetching, self._leaving):
            if timer is not None:
                timer.cancel()

    # Leaving -------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """The process is about to stop, and takes no more connections.

        uvicorn would close at once where nothing was asked yet. But who has just connected, or uses a connection again,
        may have sent a request that we have not read: closing would lose it.
        """
        if self._is_busy:
            super().shutdown()
        if self._leaving is None:
            self._leaving = self.loop.call_later(self._patience.leaving, self._leave)

    def _leave(self) -> None:
        if self._reading == "nothing" and not self._is_busy:
            self.transport.close()

    # Refusing ------------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's words)
        self._refuse(of_nonsense)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: we need no library for it, and a request goes on as if it had not asked."""

    def _refuse(self, answer: Any, *about: Any) -> None:
        """Answer in the application's stead, unless an answer is already on its way, and hang up."""
        if not self._is_busy:
            with correlation(str(fresh.new_id())) as named:
                response: Response = answer(*about)
                self.transport.write(_on_the_wire(response, named))
                self._metrics.answered(UNKNOWN_METHOD, None, response.status_code, 0.0)
                log.info("connection refused", component=COMPONENT, status=response.status_code)
        self.transport.close()


def _on_the_wire(response: Response, correlation_id: str) -> bytes:
    status = HTTPStatus(response.status_code)
    headers = {**response.headers, **CAREFUL, "X-Correlation-Id": correlation_id}
    head = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {status.phrase}\r\n{head}\r\n".encode("latin-1") + bytes(response.body)
