"""A small HTTP server that keeps what it is sent and answers what a test wants, misbehaviour included.

async with Receiver() as receiver:
    await guard.send("POST", receiver.url, content=b"…")
    assert receiver.received[0].body == b"…"
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request, as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered. With `raw`, exactly these bytes; `then_wait` keeps the connection open after it."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    then_wait: bool = False

    def to_bytes(self) -> bytes:
        if self.raw is not None:
            return self.raw
        length = {} if self.status == 204 else {"Content-Length": str(len(self.body))}
        head = "".join(f"{name}: {text}\r\n" for name, text in (length | dict(self.headers)).items())
        return f"HTTP/1.1 {self.status} -\r\n{head}\r\n".encode() + self.body


class Receiver:
    """Listens on `host`; `received` are the requests it got, `connections` how often somebody called at all."""

    def __init__(self, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.host = host
        self.port = port
        self.received: list[ReceivedRequest] = []
        self.connections = 0
        self.reply: Callable[[ReceivedRequest], Reply] = lambda _: Reply()
        self.talk: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None  # instead of HTTP
        self.before: Callable[[ReceivedRequest], Awaitable[None]] | None = None
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}/hook"

    async def __aenter__(self) -> "Receiver":
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
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
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            if self.talk is None:
                await self._answer(await _read_request(reader), writer)
            else:
                await self.talk(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            self._busy.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _answer(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        self.received.append(request)
        if self.before is not None:
            await self.before(request)
        reply = self.reply(request)
        writer.write(reply.to_bytes())
        await writer.drain()
        if reply.then_wait:
            await asyncio.Event().wait()


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ")
    pairs = [line.partition(":") for line in lines[1:] if line]
    headers = {name.lower(): text.strip() for name, _, text in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method=method, target=target, headers=headers, body=body)
