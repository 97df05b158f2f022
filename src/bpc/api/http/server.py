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
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import uvicorn
from service_jobs import ProcessPool
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bpc.api.access.admission import Admission
from bpc.api.access.loop_shares import install_meter
from bpc.api.access.rate_slices import RateSlices
from bpc.api.access.tenant_limits import HeavyRequestSlots, TenantMemory
from bpc.api.graphql.routes import check_query
from bpc.api.http.app import COMPONENT, MAX_HEAD_BYTES, SECURITY_HEADERS, create_app
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.error_responses import answer_large_head, answer_not_http, answer_slow_head
from bpc.api.http.request_body import make_body_memory
from bpc.api.http.request_context import Service
from bpc.api.http.telemetry import UNKNOWN_METHOD, HttpMetrics
from bpc.api.http.upgrade_offers import OfferIgnoringParser
from bpc.core.api_keys import Peppers
from bpc.outbound.openid import open_providers
from bpc.pipeline.facts import READ_LIMITS
from bpc.runtime import clock
from bpc.runtime.key_ring import SigningService
from bpc.runtime.logs import bind_correlation_id, get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.sockets import BACKLOG, CannotListen, open_listening_socket
from bpc.runtime.stored_secrets import load_secret_box
from bpc.storage.database import Database
from bpc.storage.jobs import make_job_metrics, open_jobs
from bpc.tasks.job_types import declare_job_types

MIN_FETCH_RATE: Final = 1_024  # bytes a second; a client that fetches less is disconnected
log = get_logger(__name__)


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

    # Reading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        self._just_begun = False
        super().data_received(data)
        if self.transport.is_closing():
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


__all__ = ["CannotListen", "listen", "open_service"]

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
        ws="none",
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
