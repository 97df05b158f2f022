"""A way to the database that can swallow everything: both directions, without an error, until it is closed."""

import asyncio
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bpc.runtime.postgres.address import Address


class BlackHole:
    """Listens where `address_arguments` say, and passes everything on to the real server, until it does not."""

    def __init__(self, real: Address, folder: Path) -> None:
        self._real = real
        self._folder = folder
        self._server: asyncio.Server | None = None
        self._through: set[Connection] = set()
        self._swallows_new = False

    @property
    def address_arguments(self) -> dict[str, Any]:
        """What of `asyncpg.connect`'s arguments differs from those of the real server."""
        if self._real.host.startswith("/"):
            return {"host": str(self._folder), "port": self._real.port}
        assert self._server is not None
        return {"host": "127.0.0.1", "port": self._server.sockets[0].getsockname()[1]}

    async def __aenter__(self) -> Self:
        if self._real.host.startswith("/"):
            self._server = await asyncio.start_unix_server(self._accept, self._folder / f".s.PGSQL.{self._real.port}")
        else:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def swallow(self) -> None:
        """From now on nothing passes, neither on the connections there are nor on new ones."""
        self._swallows_new = True
        for connection in self._through:
            connection.passes.clear()

    def let_new_ones_through(self) -> None:
        """What was swallowed stays so, as behind a router that forgot its connections; new connections work."""
        self._swallows_new = False

    def cut(self) -> None:
        """Close all connections, on both sides."""
        for connection in self._through:
            connection.cut()
        self._through.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection()
        self._through.add(connection)
        if self._swallows_new:
            connection.passes.clear()
        connection.writers.append(writer)
        with suppress(OSError, asyncio.CancelledError):
            await connection.passes.wait()
            if self._real.host.startswith("/"):
                path = f"{self._real.host}/.s.PGSQL.{self._real.port}"
                server_reader, server_writer = await asyncio.open_unix_connection(path)
            else:
                server_reader, server_writer = await asyncio.open_connection(self._real.host, self._real.port)
            connection.writers.append(server_writer)
            connection.pumps = [
                asyncio.create_task(connection.pump(reader, server_writer)),
                asyncio.create_task(connection.pump(server_reader, writer)),
            ]
            await asyncio.wait(connection.pumps, return_when=asyncio.FIRST_COMPLETED)
            connection.cut()
        self._through.discard(connection)


class Connection:
    """One connection through the hole."""

    def __init__(self) -> None:
        self.passes = asyncio.Event()
        self.passes.set()
        self.writers: list[asyncio.StreamWriter] = []
        self.pumps: list[asyncio.Task[None]] = []

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self.passes.wait()
                writer.write(data)
                await writer.drain()
            await self.passes.wait()  # an end is swallowed, too

    def cut(self) -> None:
        for pump in self.pumps:
            pump.cancel()
        for writer in self.writers:
            writer.transport.abort()
        self.passes.set()
