"""The server: from settings to an API that listens.

async with open_service(settings, database, peppers=…, key_ring=…) as service:
    async with listen(service, "127.0.0.1", 0) as port:      # answers from here on
        ...                                                  # at the end of the block, requests may finish
"""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import uvicorn
from service_jobs import ProcessPool

from bpc.api.access.admission import Admission
from bpc.api.access.loop_shares import install_meter
from bpc.api.access.rate_slices import RateSlices
from bpc.api.access.tenant_limits import HeavyRequestSlots, TenantMemory
from bpc.api.console.editor_socket import MAX_MESSAGE_BYTES
from bpc.api.graphql.routes import check_query
from bpc.api.http.app import create_app
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.connection import ConnectionTimeouts, HttpConnection
from bpc.api.http.request_body import make_body_memory
from bpc.api.http.request_context import Service
from bpc.core.api_keys import Peppers
from bpc.outbound.openid import open_providers
from bpc.pipeline.facts import READ_LIMITS
from bpc.runtime.key_ring import SigningService
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.sockets import BACKLOG, CannotListen, open_listening_socket
from bpc.runtime.stored_secrets import load_secret_box
from bpc.storage.database import Database
from bpc.storage.jobs import make_job_metrics, open_jobs
from bpc.tasks.job_types import declare_job_types

log = get_logger(__name__)


__all__ = ["CannotListen", "ConnectionTimeouts", "listen", "open_service"]

STOP_SECONDS: Final = 30
ADDRESS_HINT: Final = "set BPC_HTTP_HOST and BPC_HTTP_PORT to an address that is free; port 0 takes a free one"
STRAGGLER_SECONDS: Final = 0.05  # seconds
MAX_HEAVY: Final = 2  # requests that compute for long, at once
# Whoever waits for an answer from the event loop comes before whatever is computed beside it.
CHILD_NICE: Final = 5  # no more: a request waits for it
PARSER_NICE: Final = 5
PARSERS: Final = 1
MAX_WAITING_BODIES: Final = 32  # large bodies of one tenant that wait to be parsed
ANSWER_MEMORY_BYTES: Final = 128_000_000  # for all large answers of a process that are on their way


@asynccontextmanager
async def open_service(
    settings: Settings,
    database: Database,
    *,
    peppers: Peppers,
    key_ring: SigningService,
    read_worker_metrics: Callable[[], Awaitable[bytes | None]] | None = None,
) -> AsyncIterator[Service]:
    """Open a service on a database.

    `read_worker_metrics` reads the metrics of the workers that were started together with this process.
    """
    job_types = declare_job_types(settings, database=database, key_ring=key_ring)
    async with open_jobs(settings, database, job_types.handlers, metrics=make_job_metrics()) as (jobs, _):
        service = Service(
            settings=settings,
            database=database,
            jobs=jobs,
            pipeline_jobs=job_types.pipeline_jobs,
            task_jobs=job_types.task_jobs,
            peppers=peppers,
            secret_box=load_secret_box(settings),
            heavy_slots=HeavyRequestSlots(count_heavy_slots(database.pool.get_max_size())),
            parser_turns=HeavyRequestSlots(PARSERS, most_waiting=MAX_WAITING_BODIES, label="large bodies"),
            admission=Admission(database.pool.get_max_size(), failures_per_second=settings.failed_keys_rps),
            processes=ProcessPool(settings.jobs_cpu_processes, nice=CHILD_NICE),
            parsers=ProcessPool(PARSERS, nice=PARSER_NICE),
            readers=ProcessPool(1, limits=READ_LIMITS, nice=CHILD_NICE),
            body_memory=make_body_memory(settings.upload_max_bytes),
            answer_memory=TenantMemory(ANSWER_MEMORY_BYTES, "large answers"),
            rate_slices=RateSlices(settings.rate_limit_burst, settings.rate_limit_rps),
            key_ring=key_ring,
            providers=open_providers(settings),
            read_worker_metrics=read_worker_metrics,
        )
        try:
            yield service
        finally:
            await service.denials.close()
            for pool in (service.processes, service.parsers, service.readers):
                await pool.close()


@asynccontextmanager
async def warm_up_parsers(service: Service) -> AsyncIterator[None]:
    """Start the process that checks long queries: it imports the schema, and the first query would wait for it."""
    task = asyncio.create_task(compute_in_child(service.parsers, check_query, "{ __typename }", None))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def count_heavy_slots(pool_size: int) -> int:
    """Return how many heavy requests may hold a connection; more than half of the pool stays for the others."""
    return max(1, min(MAX_HEAVY, (pool_size - 1) // 2))


@asynccontextmanager
async def listen(
    service: Service,
    host: str,
    port: int,
    *,
    sock: socket.socket | None = None,
    timeouts: ConnectionTimeouts = ConnectionTimeouts(),  # noqa: B008 (frozen)
    stop_seconds: int = STOP_SECONDS,
    on_end: Callable[[], None] | None = None,
) -> AsyncIterator[int]:
    """Listen at an address and yield the port. At the end, requests may take `stop_seconds` to finish.

    With `sock`, a socket that already listens, it answers there. `on_end` is called when the server has ended, also if
    it failed; then leaving the block raises the error.
    """
    with open_listening_socket(host, port, fix=ADDRESS_HINT) if sock is None else sock as listener:
        install_meter(asyncio.get_running_loop())
        server = _ApiServer(_build_config(service, timeouts, stop_seconds))
        server_task = asyncio.create_task(server.serve(sockets=[listener]), name="http")
        await server.wait_ready(server_task)
        if on_end is not None:
            server_task.add_done_callback(lambda _: on_end())
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await server_task


def keep_loaded_objects() -> None:
    """Take what is loaded for what stays. Looking for garbage among it takes 0.2 s, in which nobody is answered."""
    gc.collect()
    gc.freeze()


class _ApiServer(uvicorn.Server):
    """uvicorn's server. It leaves signals to the process that runs it, and reports when it answers."""

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
        again = asyncio.get_running_loop().call_later(STRAGGLER_SECONDS, self._tell_connections)
        try:
            await super().shutdown(sockets)
        finally:
            again.cancel()

    def _tell_connections(self) -> None:
        """Tell connections that were accepted while the others were told to end."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def wait_ready(self, server_task: "asyncio.Task[None]") -> None:
        """Return when it answers; raise the error if it could not start."""
        waiting = asyncio.create_task(self._answers.wait())
        await asyncio.wait({server_task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if server_task.done():
            await server_task


def _build_config(service: Service, timeouts: ConnectionTimeouts, stop_seconds: int) -> uvicorn.Config:
    protocol: Any = partial(HttpConnection, timeouts=timeouts, metrics=service.metrics)
    return uvicorn.Config(
        create_app(service),
        http=protocol,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # a text of 1 MiB would be unpacked in the event loop
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=timeouts.idle,
        timeout_graceful_shutdown=stop_seconds,
    )
