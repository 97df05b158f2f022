"""What monitoring asks a worker over HTTP, of one process or of several: three pages, read-only, nothing secret.

    GET /metrics         the figures, in Prometheus' text format; 404 where BPC_METRICS_ENABLED is false
    GET /health/live     the process answers
    GET /health/ready    200 if every worker can do its work, 503 if not; which one, and what it lacks

A server of fifty lines instead of the API's: it takes no body, keeps no connection, and bounds both what it reads and
how long it waits for it.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST

from bpc.db.database import Database
from bpc.jobs import Worker
from bpc.logs import logger
from bpc.settings import Settings
from bpc.sockets import LOCAL, CannotListen, bound
from bpc.worker.health import Condition, condition
from bpc.worker.metrics import built

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
LARGEST_HEAD: Final = 8_192
SECONDS: Final = 5.0  # for a request and its answer
MOST: Final = 32  # connections at once
FIX: Final = "set BPC_WORKER_HTTP_PORT to a port that is free, or to 0: then nothing is served"
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

Figures = Callable[[], Awaitable[bytes]]
log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Where the answers come from. No `figures`, no page of them."""

    figures: Figures | None
    conditions: Callable[[], Awaitable[Sequence[Condition]]]


def watched(settings: Settings, worker: Worker, database: Database) -> Watched:
    """The one worker of this process."""

    async def figures() -> bytes:
        return worker.jobs.metrics.text()

    async def conditions() -> Sequence[Condition]:
        return [await condition(worker, database)]

    return Watched(figures=figures if settings.metrics_enabled else None, conditions=conditions)


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    status: int
    kind: str
    body: bytes


@asynccontextmanager
async def watchable(settings: Settings, watched: Watched) -> AsyncIterator[int | None]:
    """Serve these pages on BPC_WORKER_HTTP_PORT for as long as the block lasts: the port, or None where it is off.

    A port that somebody asked for and that is taken is refused. The one that nobody asked for is done without: several
    workers may well run on one machine.
    """
    places, shown = asyncio.Semaphore(MOST), replace(watched, figures=_with_build(settings, watched.figures))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with places:
            await _served(shown, reader, writer)

    with ExitStack() as kept:
        sock = _socket(settings, kept)
        if sock is None:
            yield None
            return
        server = await asyncio.start_server(serve, sock=sock, limit=LARGEST_HEAD)
        try:
            yield int(sock.getsockname()[1])
        finally:
            server.close()


def _with_build(settings: Settings, figures: Figures | None) -> Figures | None:
    """Their figures, and of which build they are: once for all workers of this machine, which no sum could say."""
    if figures is None:
        return None

    async def with_build() -> bytes:
        return await figures() + built(settings.compiler_build_id)

    return with_build


def _socket(settings: Settings, kept: ExitStack) -> socket.socket | None:
    if settings.worker_http_port == 0:
        return None
    try:
        return kept.enter_context(bound(settings.http_host or LOCAL, settings.worker_http_port, fix=FIX))
    except CannotListen as taken:
        if "worker_http_port" in settings.model_fields_set:
            raise
        log.warning("health and metrics of this worker are not served", reason=taken.says, fix=taken.fix)
        return None


async def _served(watched: Watched, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(SECONDS):
            method, page = await _asked(watched, reader)
            writer.write(_written(page, with_body=method != "HEAD"))
            await writer.drain()
    writer.close()


async def _asked(watched: Watched, reader: asyncio.StreamReader) -> tuple[str, Page]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    except (asyncio.LimitOverrunError, ValueError):
        return "", Page(400, TEXT, b"this is no request we understand\n")
    if method not in {"GET", "HEAD"}:
        return method, Page(405, TEXT, b"only GET and HEAD\n")
    return method, await page_of(target.split("?", 1)[0], watched)


async def page_of(path: str, watched: Watched) -> Page:
    """The page at this path."""
    match path:
        case "/metrics" if watched.figures is not None:
            return Page(200, CONTENT_TYPE_LATEST, await watched.figures())
        case "/health/live":
            return Page(200, JSON, json.dumps({"status": "OK"}).encode())
        case "/health/ready":
            return _readiness(await watched.conditions())
        case _:
            return Page(404, TEXT, b"there are /metrics, /health/live and /health/ready\n")


def _readiness(conditions: Sequence[Condition]) -> Page:
    ready = all(each.is_ready for each in conditions)
    workers = [{"worker": each.worker, "checks": dict(each.checks)} for each in conditions]
    body = {"status": "OK" if ready else "FAILED", "workers": workers}
    return Page(200 if ready else 503, JSON, json.dumps(body).encode())


def _written(page: Page, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {REASONS[page.status]}\r\n"
        f"Content-Type: {page.kind}\r\nContent-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")
