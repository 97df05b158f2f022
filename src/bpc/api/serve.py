"""Serve: from settings to an API that answers.

async with serving(settings, database, peppers=…, signer=…) as service:
    async with listening(service, "127.0.0.1", 0) as port:      # answers from here on
        ...                                                     # until the block ends, gracefully
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import uvicorn

from bpc.api.app import create_app
from bpc.api.connections import HttpConnection, Patience
from bpc.api.intake import room_for
from bpc.api.service import Service
from bpc.api.shares import Places
from bpc.assembly import assembled
from bpc.core.peppers import Peppers
from bpc.core.signing import Signer
from bpc.db.database import Database
from bpc.db.jobs import bell_of, defaults_of, sessions_of
from bpc.jobs import Jobs, Processes
from bpc.settings import Settings
from bpc.sockets import BACKLOG, CannotListen, bound

__all__ = ["CannotListen", "listening", "loop_factory", "serving"]

STOP_SECONDS: Final = 30
ELSEWHERE: Final = "set BPC_HTTP_HOST and BPC_HTTP_PORT to an address that is free; port 0 takes a free one"
STRAGGLERS: Final = 0.05  # seconds
MOST_HEAVY: Final = 2  # requests that compute for long, at once


@asynccontextmanager
async def serving(
    settings: Settings,
    database: Database,
    *,
    peppers: Peppers,
    signer: Callable[[str], Signer | None],
    workers: Callable[[], Awaitable[bytes | None]] | None = None,
) -> AsyncIterator[Service]:
    """A service on an open database. `signer` gives the private key of a name, where it is at hand.

    `workers` gives the figures of the workers that belong to this process, to be shown among its own.
    """
    work, bell = assembled(settings, signer=signer, database=database), bell_of(settings)
    async with sessions_of(database) as sessions:
        service = Service(
            settings=settings,
            database=database,
            jobs=Jobs(work.handlers, sessions, defaults=defaults_of(settings), trigger=bell),
            steps=work.steps,
            errands=work.errands,
            peppers=peppers,
            heavy=Places(heavy_places(database.pool.get_max_size())),
            processes=Processes(settings.jobs_cpu_processes),
            room=room_for(settings.upload_max_bytes),
            workers=workers,
        )
        try:
            yield service
        finally:
            await service.denials.close()
            await service.jobs.close()
            await service.processes.close()
            if bell is not None:
                await bell.close()


def heavy_places(pool_size: int) -> int:
    """How many requests may compute for long while they hold a connection: the others keep more than half of them."""
    return max(1, min(MOST_HEAVY, (pool_size - 1) // 2))


@asynccontextmanager
async def listening(
    service: Service,
    host: str,
    port: int,
    *,
    sock: socket.socket | None = None,
    patience: Patience = Patience(),  # noqa: B008 (frozen)
    stop_seconds: int = STOP_SECONDS,
    ended: Callable[[], None] | None = None,
) -> AsyncIterator[int]:
    """The API at an address, answering, and its port. At the end requests may finish for `stop_seconds`.

    Given a `sock` that listens already, it answers there instead.
    `ended` is called when it no longer answers, also if nobody has told it to end; then leaving raises why.
    """
    with bound(host, port, fix=ELSEWHERE) if sock is None else sock as taken:
        server = _Server(_config(service, patience, stop_seconds))
        running = asyncio.create_task(server.serve(sockets=[taken]), name="http")
        await server.ready(running)
        if ended is not None:
            running.add_done_callback(lambda _: ended())
        try:
            yield taken.getsockname()[1]
        finally:
            server.should_exit = True
            await running


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop to run it on: `asyncio.Runner(loop_factory=loop_factory())`."""
    try:
        import uvloop  # noqa: PLC0415 (not everywhere)
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to whoever runs us and says when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._answers = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._answers.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        again = asyncio.get_running_loop().call_later(STRAGGLERS, self._tell_connections)
        try:
            await super().shutdown(sockets)
        finally:
            again.cancel()

    def _tell_connections(self) -> None:
        """Connections that were being accepted while others were told to end do not know of it yet."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def ready(self, running: "asyncio.Task[None]") -> None:
        """Return when it answers; raise what kept it from that."""
        waiting = asyncio.create_task(self._answers.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            await running


def _config(service: Service, patience: Patience, stop_seconds: int) -> uvicorn.Config:
    protocol: Any = partial(HttpConnection, patience=patience, metrics=service.metrics)
    return uvicorn.Config(
        create_app(service),
        http=protocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=patience.idle,
        timeout_graceful_shutdown=stop_seconds,
    )
