"""The edge: a correlation id on every answer and every line, careful headers, one line per request."""

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import structlog
from fastapi import FastAPI

from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.runtime import clock, logs
from tests.api.conftest import Api

routes = RouteFamily("Test")


@routes.open("/v1/test/crash")
async def crash_openly() -> None:
    """Fail."""
    raise RuntimeError("the canary")


@routes.read("/v1/test/logging", permission="docs:read")
async def log_something(work: Context) -> None:
    """Log."""
    logs.get_logger("test").info("inside", same=work.correlation_id)


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    app.include_router(routes)
    return app


class LogLines(io.StringIO):
    def all(self) -> list[dict[str, Any]]:
        """Without those of the client, which runs in this process too."""
        lines = [json.loads(line) for line in self.getvalue().split("\n") if line]
        return [line for line in lines if line["logger"] != "httpx2"]


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """What is logged; what belongs to the process is put back."""
    root, configured = logging.getLogger(), structlog.get_config()
    handlers, level, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    out = LogLines()
    logs.configure(level="info", json=True, component="all", stream=out)
    yield out
    root.handlers[:], sys.excepthook, threading.excepthook = handlers, hook, thread_hook
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.configure(**configured)


async def test_a_uuid_that_is_sent_is_kept_and_anything_else_replaced(http: httpx2.AsyncClient) -> None:
    sent = str(clock.new_id())

    async def answered(value: str) -> str:
        answer = await http.get("/v1/nothing", headers={"X-Correlation-Id": value})
        assert answer.json()["error"]["correlation_id"] == answer.headers["x-correlation-id"]
        return answer.headers["x-correlation-id"]

    assert await answered(sent) == sent
    assert await answered(sent.upper()) == sent.upper()
    for wrong in ("", "1", sent.replace("-", ""), f"{{{sent}}}", sent + "0", f"{sent[:-1]}g", "-" * 36, "a\tb"):
        assert await answered(wrong) not in {wrong, sent}
    assert len({await answered("") for _ in range(10)}) == 10


async def test_every_answer_keeps_browsers_careful(http: httpx2.AsyncClient) -> None:
    for path in ("/v1/health/live", "/v1/nothing", "/v1/documents", "/v1/test/crash"):
        headers = (await http.get(path)).headers

        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "x-correlation-id" in headers


async def test_there_is_one_line_for_each_request(http: httpx2.AsyncClient, log_lines: LogLines) -> None:
    sent = str(clock.new_id())

    await http.get("/v1/health/live", headers={"X-Correlation-Id": sent})
    await http.head("/v1/some/path?key=bpc_secret", headers={"X-Correlation-Id": sent})

    known_line, unknown = log_lines.all()
    assert known_line.pop("ts").endswith("Z")
    assert known_line["http"].pop("duration_ms") >= 0
    assert known_line == {
        "level": "info",
        "component": "api",
        "msg": "request completed",
        "correlation_id": sent,
        "logger": "bpc.api.http.app",
        "http": {"method": "GET", "path": "/v1/health/live", "status": 200},
    }
    assert unknown["http"] | {"duration_ms": 0} == {
        "method": "HEAD",
        "path": "(none)",
        "status": 404,
        "duration_ms": 0,
    }


async def test_what_is_logged_on_the_way_carries_the_same_id(admin: Api, log_lines: LogLines) -> None:
    answer = await admin.get("/v1/test/logging")

    assert answer.status_code == 200
    assert {line["correlation_id"] for line in log_lines.all()} == {answer.headers["x-correlation-id"]}
    assert log_lines.all()[0]["same"] == answer.headers["x-correlation-id"]


async def test_a_crash_is_in_the_log_under_the_id_that_the_client_was_told(
    http: httpx2.AsyncClient, log_lines: LogLines
) -> None:
    answer = await http.get("/v1/test/crash")

    crash, line = log_lines.all()
    assert crash["correlation_id"] == line["correlation_id"] == answer.json()["error"]["correlation_id"]
    assert "the canary" in json.dumps(crash["exception"])
    assert (line["level"], line["http"]["status"]) == ("error", 500)


async def test_head_is_get_without_the_body(admin: Api) -> None:
    document = await admin.get("/v1/documents")

    head = await admin.send("HEAD", "/v1/documents")

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == document.headers["content-length"]
