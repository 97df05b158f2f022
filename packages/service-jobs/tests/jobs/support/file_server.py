"""A small HTTP server with a file on it, which can be made to misbehave, and a small client for it.

async with FileServer(content) as server:
    async with open_url(server.url, start=5, validator=server.etag) as response: ...
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

PIECE = 16_384


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    start: int
    if_range: str | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent instead of the file."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class FileServer:
    """Serves `content` at every path; `requests` are all it got. What a test wants to go wrong it sets here."""

    def __init__(self, content: bytes, *, etag: str | None = '"v1"') -> None:
        self.content = content
        self.etag = etag
        self.headers: dict[str, str] = {}  # in addition to its own
        self.says_length = True
        self.knows_ranges = True
        self.cut_after: int | None = None  # bytes of the next body, after which the connection ends: once
        self.cut_hard = False
        self.hold_at: int | None = None  # the place in the file at which a body waits until `go_on`: once
        self.holds = asyncio.Event()
        self.go_on = asyncio.Event()
        self.instead: Callable[[Request], Answer | None] = lambda _: None
        self.requests: list[Request] = []
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/file.bin"

    @property
    def starts(self) -> list[int]:
        """Where the answers were asked to begin."""
        return [request.start for request in self.requests]

    async def __aenter__(self) -> "FileServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._busy):
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            await self._reply(writer, await _read_request(reader))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._busy.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _reply(self, writer: asyncio.StreamWriter, request: Request) -> None:
        self.requests.append(request)
        answer = self.instead(request) or self._serve_file(request)
        head = "".join(f"{name}: {text}\r\n" for name, text in answer.headers.items())
        writer.write(f"HTTP/1.1 {answer.status} -\r\nConnection: close\r\n{head}\r\n".encode())
        body, cut = answer.body, self.cut_after
        if cut is not None:
            body, self.cut_after = body[:cut], None
        begin = request.start if answer.status == 206 else 0
        for at in range(0, len(body), PIECE):
            if self.hold_at is not None and begin + at >= self.hold_at:
                self.hold_at = None
                self.holds.set()
                await self.go_on.wait()
            writer.write(body[at : at + PIECE])
            await writer.drain()
        if cut is not None and self.cut_hard:
            writer.transport.abort()

    def _serve_file(self, request: Request) -> Answer:
        size = len(self.content)
        headers = {**({} if self.etag is None else {"ETag": self.etag}), **self.headers}
        range_header = "range" in request.headers and self.knows_ranges
        same = request.if_range in {None, self.etag, self.headers.get("Last-Modified")}
        if not range_header or not same:
            length = {"Content-Length": str(size)} if self.says_length else {}
            return Answer(200, length | headers, self.content)
        if request.start >= size:
            return Answer(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"} | headers)
        body = self.content[request.start :]
        span = {"Content-Range": f"bytes {request.start}-{size - 1}/{size}", "Content-Length": str(len(body))}
        return Answer(206, span | headers, body)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    headers = _read_headers(await reader.readuntil(b"\r\n\r\n"))
    span = headers.get("range", "bytes=0-")
    return Request(int(span.removeprefix("bytes=").removesuffix("-")), headers.get("if-range"), headers)


def _read_headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines if line]
    return {name.lower(): text.strip() for name, _, text in pairs}


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """An answer as our client sees it. A body that ends too early just ends: noticing is for others."""

    status: int
    headers: Mapping[str, str]
    reader: asyncio.StreamReader

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        while piece := await self.reader.read(size):
            yield piece


@asynccontextmanager
async def open_url(url: str, *, start: int, validator: str | None) -> AsyncIterator[ClientResponse]:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        asked = ["GET /file.bin HTTP/1.1", f"Host: {where.netloc}", "Accept-Encoding: identity", "Connection: close"]
        asked += [f"Range: bytes={start}-"] if start else []
        asked += [f"If-Range: {validator}"] if start and validator is not None else []
        writer.write("".join(f"{line}\r\n" for line in [*asked, ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        names = {name.title(): text for name, text in _read_headers(head).items()}
        yield ClientResponse(int(head.split(b" ")[1]), names, reader)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
