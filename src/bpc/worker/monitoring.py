"""The metrics of steps and tasks; health and metrics of workers over HTTP: three read-only pages, without secrets.

    /metrics         Prometheus text; 404 if metrics are switched off
    /health/live     the process is running
    /health/ready    200 if every check of every worker is OK, otherwise 503:
                       database     answers a statement
                       claiming     the worker is not stopping, and its exchange with the database is not stuck
                       clock        is the database's; named only if it differs
                       heartbeat    is recent in the database, so other workers do not take this one for dead
                       signer       answers; named only if it does not, because then nothing is signed

No check takes longer than two seconds.
"""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, Literal

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from service_jobs import Worker
from service_jobs.queries import is_worker_live

from bpc import __version__
from bpc.core.errors import Refusal
from bpc.core.passport.compile import CompiledPassport
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import SignerClient
from bpc.runtime.sockets import LOOPBACK, CannotListen, open_listening_socket
from bpc.runtime.telemetry import DeliveryResult, DisablingCause, JobMetrics, ReplayVerdict
from bpc.storage.database import Database
from bpc.storage.server_time import read_and_adopt_time

CHECK_SECONDS: Final = 2.0
MAX_EXCHANGE_SECONDS: Final = 30.0  # a claim normally takes milliseconds
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
MAX_HEAD_BYTES: Final = 8_192
REQUEST_SECONDS: Final = 5.0  # for a request and its answer
MAX_CONNECTIONS: Final = 32
PORT_HINT: Final = "set BPC_WORKER_HTTP_PORT to a free port, or to 0 to switch this off"

CheckState = Literal["OK", "FAILED"]
ReadMetrics = Callable[[], Awaitable[bytes]]
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """The checks of one worker."""

    worker: str
    checks: Mapping[str, CheckState]

    @property
    def is_ready(self) -> bool:
        return bool(self.checks) and all(state == "OK" for state in self.checks.values())


async def check_worker(worker: Worker, database: Database) -> WorkerHealth:
    """Check the worker of this process."""
    answers, beats, agrees = await _check_heartbeat(worker, database)
    since = worker.exchanging_since
    claims = not worker.is_stopping and (since is None or time.monotonic() - since < MAX_EXCHANGE_SECONDS)
    checks = {"database": _to_state(answers), "claiming": _to_state(claims), "heartbeat": _to_state(beats)}
    if answers and not agrees:
        checks["clock"] = "FAILED"
    return WorkerHealth(worker=worker.owner, checks=checks)


async def _check_heartbeat(worker: Worker, database: Database) -> tuple[bool, bool, bool]:
    """Whether the database answers, the worker's heartbeat in it is recent, and our clock agrees with it."""
    try:
        async with asyncio.timeout(CHECK_SECONDS), database.system() as conn:
            beats = await is_worker_live(conn, worker.owner)
            _, skew = await read_and_adopt_time(conn)
            return True, beats, abs(skew) <= clock.TOLERANCE
    except Exception as error:  # noqa: BLE001 (after any error the worker is not ready)
        log.warning("not ready", check="database", reason=f"{type(error).__name__}: {error}"[:500])
        return False, False, False


async def _does_answer(signer: SignerClient) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await signer.read_health()
    except (Refusal, TimeoutError) as error:
        log.warning("not ready", check="signer", reason=str(error)[:500])
        return False
    return True


def _to_state(holds: bool) -> CheckState:
    return "OK" if holds else "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringSource:
    """Where the answers come from. Without `read_metrics`, /metrics is 404."""

    read_metrics: ReadMetrics | None
    check_workers: Callable[[], Awaitable[Sequence[WorkerHealth]]]


def make_monitoring_source(
    settings: Settings, worker: Worker, database: Database, signer: SignerClient | None = None
) -> MonitoringSource:
    """The source for the worker of this process."""

    async def read_metrics() -> bytes:
        return worker.jobs.metrics.render_text()

    async def check_workers() -> Sequence[WorkerHealth]:
        health = await check_worker(worker, database)
        if signer is not None and not await _does_answer(signer):
            health = replace(health, checks={**health.checks, "signer": "FAILED"})
        return [health]

    return MonitoringSource(
        read_metrics=read_metrics if settings.metrics_enabled else None, check_workers=check_workers
    )


@dataclass(frozen=True, slots=True)
class MonitoringResponse:
    """An HTTP answer."""

    status: int
    content_type: str
    body: bytes


@asynccontextmanager
async def serve_monitoring(settings: Settings, source: MonitoringSource) -> AsyncIterator[int | None]:
    """Serve the pages on BPC_WORKER_HTTP_PORT while the block runs. Yields the port, or None if it is switched off.

    If the configured port is taken, that is an error. If the default port is taken, nothing is served: several workers
    may run on one machine.
    """
    slots = asyncio.Semaphore(MAX_CONNECTIONS)
    source_with_build = replace(source, read_metrics=_add_build_info(settings, source.read_metrics))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with slots:
            await _answer_connection(source_with_build, reader, writer)

    with ExitStack() as stack:
        sock = _bind_socket(settings, stack)
        if sock is None:
            yield None
            return
        server = await asyncio.start_server(serve, sock=sock, limit=MAX_HEAD_BYTES)
        try:
            yield int(sock.getsockname()[1])
        finally:
            server.close()


def _add_build_info(settings: Settings, read_metrics: ReadMetrics | None) -> ReadMetrics | None:
    """Add the build to the metrics: once for all workers of this machine, because a sum of builds has no meaning."""
    if read_metrics is None:
        return None

    async def read_with_build() -> bytes:
        return await read_metrics() + render_build_info(settings.compiler_build_id)

    return read_with_build


def _bind_socket(settings: Settings, stack: ExitStack) -> socket.socket | None:
    if settings.worker_http_port == 0:
        return None
    try:
        return stack.enter_context(
            open_listening_socket(settings.http_host or LOOPBACK, settings.worker_http_port, fix=PORT_HINT)
        )
    except CannotListen as error:
        if "worker_http_port" in settings.model_fields_set:
            raise
        log.warning("the health and metrics pages of this worker are not served", reason=error.says, fix=error.fix)
        return None


async def _answer_connection(
    source: MonitoringSource, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(REQUEST_SECONDS):
            method, page = await _read_request(source, reader)
            writer.write(_encode_response(page, with_body=method != "HEAD"))
            await writer.drain()
    writer.close()


async def _read_request(source: MonitoringSource, reader: asyncio.StreamReader) -> tuple[str, MonitoringResponse]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    except (asyncio.LimitOverrunError, ValueError):
        return "", MonitoringResponse(400, TEXT, b"bad request\n")
    if method not in {"GET", "HEAD"}:
        return method, MonitoringResponse(405, TEXT, b"only GET and HEAD\n")
    return method, await answer_path(target.split("?", 1)[0], source)


async def answer_path(path: str, source: MonitoringSource) -> MonitoringResponse:
    """Answer a request for this path."""
    match path:
        case "/metrics" if source.read_metrics is not None:
            return MonitoringResponse(200, CONTENT_TYPE_LATEST, await source.read_metrics())
        case "/health/live":
            return MonitoringResponse(200, JSON, json.dumps({"status": "OK"}).encode())
        case "/health/ready":
            return _answer_readiness(await source.check_workers())
        case _:
            return MonitoringResponse(404, TEXT, b"available: /metrics, /health/live, /health/ready\n")


def _answer_readiness(workers_health: Sequence[WorkerHealth]) -> MonitoringResponse:
    is_ready = all(health.is_ready for health in workers_health)
    workers = [{"worker": health.worker, "checks": dict(health.checks)} for health in workers_health]
    body = {"status": "OK" if is_ready else "FAILED", "workers": workers}
    return MonitoringResponse(200 if is_ready else 503, JSON, json.dumps(body).encode())


def _encode_response(page: MonitoringResponse, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")


# Metrics of the steps and tasks, beside the job engine's own ---------------------------------------------------------

CompileResult = Literal["SUCCEEDED", "FAILED"]
COMPILE_RESULTS: Final[tuple[CompileResult, ...]] = ("SUCCEEDED", "FAILED")
DELIVERY_RESULTS: Final[tuple[DeliveryResult, ...]] = ("DELIVERED", "FAILED", "RETRIED")
DISABLING_CAUSES: Final[tuple[DisablingCause, ...]] = ("FAILING", "GONE")
DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZE_BUCKETS: Final = tuple(float(4**power) for power in range(4, 13))  # 256 bytes to 16 MiB

# Otherwise each metric has a second series with its creation time, which nobody needs.
disable_created_metrics()  # type: ignore[no-untyped-call]


class PipelineMetrics(JobMetrics):
    """The metrics of one process, in a registry that others may share.

    A compile counts once per execution: a retried one counts again. For webhooks, RETRIED counts the attempts that are
    followed by another one; DELIVERED and FAILED count the deliveries that ended. A delivery whose job was cancelled is
    FAILED in the database but not counted: the database ends it, even if no worker knows of it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._compiles = Counter("bpc_compiles", "Compiles, by result.", ["result"], registry=registry)
        self._seconds = Histogram(
            "bpc_compile_duration_seconds",
            "Duration of a compile.",
            ["result"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._sizes = {
            part: Histogram(f"bpc_{part}_bytes", f"Size of a {part}.", buckets=SIZE_BUCKETS, registry=registry)
            for part in ("payload", "proof", "receipt")
        }
        self._replays = Counter("bpc_replays", "Passport versions that the audit replayed.", registry=registry)
        self._mismatches = Counter("bpc_replay_mismatches", "Replayed versions that differed.", registry=registry)
        self._errors = Counter("bpc_replay_errors", "Versions that could not be replayed.", registry=registry)
        self._deliveries = Counter("bpc_webhook_deliveries", "Webhooks, by status.", ["status"], registry=registry)
        self._disabled_endpoints = Counter(
            "bpc_webhook_endpoints_disabled", "Webhook endpoints that were disabled.", ["cause"], registry=registry
        )
        for cause in DISABLING_CAUSES:
            self._disabled_endpoints.labels(cause)
        for status in DELIVERY_RESULTS:
            self._deliveries.labels(status)
        for result in COMPILE_RESULTS:  # present from the start, so that a rate sees the first one
            self._compiles.labels(result)
            self._seconds.labels(result)

    def record_compile(self, seconds: float, output: CompiledPassport | None) -> None:
        """Count one execution; `output` is None if it failed."""
        result: CompileResult = "FAILED" if output is None else "SUCCEEDED"
        self._compiles.labels(result).inc()
        self._seconds.labels(result).observe(seconds)
        if output is not None:
            for part, histogram in self._sizes.items():
                histogram.observe(len(getattr(output, part)))

    def record_replay(self, verdict: ReplayVerdict) -> None:
        """Count one version that the audit replayed."""
        self._replays.inc()
        if verdict == "MISMATCH":
            self._mismatches.inc()
        elif verdict == "ERROR":
            self._errors.inc()

    def record_delivery(self, result: DeliveryResult) -> None:
        """Count one webhook."""
        self._deliveries.labels(result).inc()

    def record_disabled_endpoint(self, cause: DisablingCause) -> None:
        """Count an endpoint that was disabled without anybody asking for it."""
        self._disabled_endpoints.labels(cause).inc()


def render_build_info(build: str) -> bytes:
    """The build of this worker, as a metric that is always 1."""
    registry = CollectorRegistry()
    info = Info("bpc_build", "The build of this process.", registry=registry)
    info.info({"component": "worker", "version": __version__, "build": build})
    return generate_latest(registry)
