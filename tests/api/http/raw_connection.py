"""A connection on which tests send bytes that no client would send."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HOST = "127.0.0.1"


class RawConnection:
    """A socket that says exactly what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """One answer: its status, headers and body."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split(" ")[1]), headers, body

    async def refusal(self, status: int) -> str:
        """The code of an answer that must have this status, and our shape."""
        status_line, headers, body = await self.answer()
        assert status_line == status, body
        error = json.loads(body)["error"]
        assert error["correlation_id"] == headers["x-correlation-id"]
        return str(error["code"])

    async def is_closed(self) -> bool:
        """Wait for the other side to hang up."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def open_connection(port: int) -> AsyncIterator[RawConnection]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
