"""Specification of a worker's health and metrics pages."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import open_signer_client
from bpc.runtime.sockets import CannotListen, open_listening_socket
from bpc.signer.record import SigningRecord
from bpc.signer.serve import AwaitedRecord, locate_record, run_signer
from bpc.storage.database import Database
from bpc.worker import monitoring
from bpc.worker.monitoring import (
    MonitoringSource,
    WorkerHealth,
    answer_path,
    make_monitoring_source,
    serve_monitoring,
)
from bpc.worker.run import run_worker
from tests.ports import find_free_ports


def make_settings(folder: Path, **more: object) -> Settings:
    return Settings(**{"env": "test", "data_dir": folder, "worker_http_port": find_free_ports(1)[0], **more})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_settings(tmp_path)


def make_health_check(**checks: str) -> MonitoringSource:
    async def conditions() -> list[WorkerHealth]:
        return [WorkerHealth(worker="vm:1:ab", checks=checks)]  # type: ignore[arg-type]

    return MonitoringSource(read_metrics=None, check_workers=conditions)


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{settings.worker_http_port}", timeout=60
    ) as opened_client:
        yield opened_client


async def test_a_worker_is_ready_while_it_runs_and_not_ready_while_it_stops(
    database: Database, settings: Settings, client: httpx2.AsyncClient
) -> None:
    async with (
        run_worker(settings, database, key_ring=KeyRing({})) as worker,
        serve_monitoring(settings, make_monitoring_source(settings, worker, database)),
    ):
        ready, live = await client.get("/health/ready"), await client.get("/health/live")
        figures = await client.get("/metrics")
        worker.stop()
        stopping = await client.get("/health/ready")

    checks = {"database": "OK", "claiming": "OK", "heartbeat": "OK"}
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "OK", "workers": [{"worker": worker.owner, "checks": checks}]},
    )
    assert (live.status_code, live.json()) == (200, {"status": "OK"})
    assert figures.headers["content-type"].startswith("text/plain; version=")
    assert 'bpc_jobs_running{type="COMPILE_PASSPORT"} 0.0' in figures.text
    assert figures.text.count("\nbpc_build_info{") == 1
    assert 'component="worker"' in figures.text
    assert stopping.status_code == 503
    assert stopping.json()["workers"][0]["checks"]["claiming"] == "FAILED"


async def test_without_its_database_a_worker_is_alive_and_not_ready(
    database: Database, settings: Settings, client: httpx2.AsyncClient
) -> None:
    async with (
        run_worker(settings, database, key_ring=KeyRing({})) as worker,
        serve_monitoring(settings, make_monitoring_source(settings, worker, database)),
    ):
        await database.pool.close()
        ready, live = await client.get("/health/ready"), await client.get("/health/live")

    assert ready.json()["workers"][0]["checks"] == {"database": "FAILED", "claiming": "OK", "heartbeat": "FAILED"}
    assert (ready.status_code, live.status_code) == (503, 200)


async def test_without_its_signer_or_with_a_wrong_clock_a_worker_is_not_ready(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        run_worker(settings, database, key_ring=KeyRing({})) as worker,
        open_signer_client(settings) as signer,
    ):
        source = make_monitoring_source(settings, worker, database, signer)
        checks = {"database": "OK", "claiming": "OK", "heartbeat": "OK"}

        unsigned = await answer_path("/health/ready", source)
        record = SigningRecord.open(locate_record(settings))
        async with run_signer(settings, AwaitedRecord(record, False)):
            ready = await answer_path("/health/ready", source)
            right_time = clock.system_now
            with monkeypatch.context() as patched:
                patched.setattr(clock, "system_now", lambda: right_time() + timedelta(minutes=1))
                wrong_clock = await answer_path("/health/ready", source)
            again = await answer_path("/health/ready", source)

    assert (unsigned.status, json.loads(unsigned.body)["workers"][0]["checks"]) == (503, {**checks, "signer": "FAILED"})
    assert (ready.status, json.loads(ready.body)["workers"][0]["checks"]) == (200, checks)
    assert (wrong_clock.status, json.loads(wrong_clock.body)["workers"][0]["checks"]) == (
        503,
        {**checks, "clock": "FAILED"},
    )
    assert again == ready


async def test_metrics_that_are_switched_off_are_not_there(database: Database, settings: Settings) -> None:
    quiet = settings.model_copy(update={"metrics_enabled": False})

    async with run_worker(quiet, database, key_ring=KeyRing({})) as worker:
        source = make_monitoring_source(quiet, worker, database)
        pages = {path: await answer_path(path, source) for path in ("/metrics", "/health/live", "/")}

    assert [pages[path].status for path in ("/metrics", "/health/live", "/")] == [404, 200, 404]
    assert pages["/metrics"].body == b"available: /metrics, /health/live, /health/ready\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /health/live HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"GET /health/live?verbose HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"HEAD /health/ready HTTP/1.1\r\nHost: x\r\n\r\n", b"503 Service Unavailable"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /health/live HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
        (b"\xff\xfe\r\n\r\n", b"400 Bad Request"),
        (b"GET\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000 + b"\r\n\r\n", b"400 Bad Request"),
    ],
)
async def test_every_request_gets_one_short_answer(settings: Settings, sent: bytes, status: bytes) -> None:
    async with serve_monitoring(settings, make_health_check(database="FAILED")) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert (body == b"") == sent.startswith(b"HEAD")


async def test_a_silent_connection_is_closed_and_others_are_served(
    settings: Settings, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(monitoring, "MAX_CONNECTIONS", 2)
    async with serve_monitoring(settings, make_health_check(database="OK")) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]

        live = await client.get("/health/live")
        ends = [await reader.read() for reader, _ in silent]
        for _, writer in silent:
            writer.close()

    assert live.status_code == 200
    assert ends == [b""] * 4


async def test_a_taken_port_is_an_error_only_if_it_was_configured(tmp_path: Path) -> None:
    pages = make_health_check(database="OK")
    async with serve_monitoring(make_settings(tmp_path, worker_http_port=0), pages) as off:
        assert off is None
    with open_listening_socket("127.0.0.1", 0, fix="") as taken:
        settings_with_port = make_settings(tmp_path, worker_http_port=taken.getsockname()[1])
        with pytest.raises(CannotListen) as refused:
            async with serve_monitoring(settings_with_port, pages):
                pass
        unasked = settings_with_port.model_copy()
        unasked.model_fields_set.discard("worker_http_port")
        async with serve_monitoring(unasked, pages) as done_without:
            assert done_without is None
    assert "BPC_WORKER_HTTP_PORT" in str(refused.value.fix)


def test_an_address_of_another_machine_is_refused() -> None:
    with (
        pytest.raises(CannotListen, match=r"cannot listen on 192\.0\.2\.1:80: "),
        open_listening_socket("192.0.2.1", 80, fix="x"),
    ):
        pass


def test_a_socket_listens_at_once_and_is_free_again_after_it() -> None:
    with open_listening_socket("::1" if socket.has_dualstack_ipv6() else "127.0.0.1", 0, fix="") as sock:
        host, port = sock.getsockname()[:2]
        socket.create_connection((host, port)).close()
    with open_listening_socket(host, port, fix=""):
        pass
