"""A small HTTP server for files and single requests, a thread for each: for a witness, and for a log without its API.

    with serve_requests(host, port, answer) as (port, wait): …       `answer` takes a method, a path and a body

It knows GET, HEAD and POST, answers one request after the other on a connection, and gives up on slow clients.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, TypeAlias

from bpc.runtime.logs import get_logger
from bpc.runtime.sockets import open_listening_socket

MAX_BODY_BYTES: Final = 1 << 20
CLIENT_SECONDS: Final = 10.0
MAX_CONNECTIONS: Final = 256
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticAnswer:
    """What a request is answered with."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = Callable[[str, str, bytes], StaticAnswer]


def answer_text(status: int, text: str) -> StaticAnswer:
    return StaticAnswer(status=status, body=f"{text}\n".encode(), headers={"Content-Type": "text/plain; charset=utf-8"})


class _LimitedServer(ThreadingHTTPServer):
    """A server that refuses connections beyond a number instead of starting threads without end."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("", 0), _make_handler(answer), bind_and_activate=False)
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: object, client_address: object) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 (the library's signature)
        log.debug("a connection ended early")


def _make_handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "bpc"
        sys_version = ""
        timeout = CLIENT_SECONDS

        def do_GET(self) -> None:
            self._reply(answer("GET", self.path, b""))

        def do_HEAD(self) -> None:
            self._reply(answer("GET", self.path, b""), with_body=False)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
                self.close_connection = True
                self._reply(answer_text(413, f"send a Content-Length of at most {MAX_BODY_BYTES:,}"))
                return
            self._reply(answer("POST", self.path, self.rfile.read(int(length))))

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the library's signature)
            log.debug("request", line=format % arguments)

        def _reply(self, reply: StaticAnswer, *, with_body: bool = True) -> None:
            self.send_response(reply.status)
            for name, value in {"X-Content-Type-Options": "nosniff", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if with_body:
                self.wfile.write(reply.body)

    return Handler


@contextmanager
def serve_requests(host: str, port: int, answer: Answer) -> Iterator[int]:
    """Answer requests on this address until the block ends; yields the port."""
    with open_listening_socket(host, port, fix="choose another port") as sock:
        server = _LimitedServer(answer)
        server.socket.close()
        server.socket = sock
        server.server_address = sock.getsockname()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(sock.getsockname()[1])
        finally:
            server.shutdown()
            thread.join()
