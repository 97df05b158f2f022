"""Metrics of the API, on a port of their own: nobody who may call the API sees them by that.

    /metrics, /v1/metrics    Prometheus text; 404 if metrics are switched off

On the API's port they are 404 unless BPC_METRICS_PUBLIC is on, which it is outside prod.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bpc.api.http.error_responses import answer_status
from bpc.api.http.health_checks import InstallationMetrics, ReadinessChecker
from bpc.api.http.request_context import Service
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.sockets import CannotListen, open_listening_socket
from bpc.runtime.telemetry import merge_metrics

PORT_HINT: Final = "set BPC_METRICS_PORT to a free port, or to 0 to switch this off"
DEFAULT_PORT: Final = 8082
log = get_logger(__name__)


async def render_metrics(service: Service, installation: InstallationMetrics) -> Response:
    """The metrics of this process and of the installation; under `bpc up`, also of its workers."""
    if not service.settings.metrics_enabled:
        return answer_status(404, None)
    pool = service.database.pool
    service.metrics.pool_in_use.set(pool.get_size() - pool.get_idle_size())
    service.metrics.pool_size.set(pool.get_max_size())
    text = generate_latest(service.metrics.registry) + service.jobs.metrics.render_text() + await installation.render()
    worker_text = None if service.read_worker_metrics is None else await service.read_worker_metrics()
    if worker_text is not None:
        text = merge_metrics([text, worker_text])
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@asynccontextmanager
async def serve_metrics(service: Service, host: str) -> AsyncIterator[int | None]:
    """Serve them on BPC_METRICS_PORT while the block runs. Yields the port, or None if it is switched off.

    If the configured port is taken, that is an error. If the default port is taken, nothing is served: several
    processes may run on one machine.
    """
    with ExitStack() as stack:
        sock = _open_socket(service.settings, host, stack)
        if sock is None:
            yield None
            return
        server = _MetricsServer(_build_config(service))
        task = asyncio.create_task(server.serve(sockets=[sock]), name="metrics")
        try:
            yield sock.getsockname()[1]
        finally:
            server.should_exit = True
            await task


class _MetricsServer(uvicorn.Server):
    """uvicorn's server. It leaves signals to the process that runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _build_config(service: Service) -> uvicorn.Config:
    installation = InstallationMetrics(service, ReadinessChecker(service))

    async def answer(_: Request) -> Response:
        return await render_metrics(service, installation)

    app = Starlette(routes=[Route("/metrics", answer), Route("/v1/metrics", answer)])
    return uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=32,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )


def _open_socket(settings: Settings, host: str, stack: ExitStack) -> socket.socket | None:
    port = settings.metrics_port
    if port == 0 or not settings.metrics_enabled or (port is None and settings.env != "prod"):
        return None
    try:
        opened = open_listening_socket(host, DEFAULT_PORT if port is None else port, fix=PORT_HINT)
        return stack.enter_context(opened)
    except CannotListen as error:
        if port is not None:
            raise
        log.warning("metrics are not served on a port of their own", reason=error.says)
        return None
