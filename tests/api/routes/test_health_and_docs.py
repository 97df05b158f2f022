"""Health: alive is that it answers, ready that it can do its work, and neither can be used to keep it from that."""

import asyncio
from dataclasses import replace

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI
from service_jobs import queries
from tests.jobs.support.run_workers import run_worker

from bpc.api.http import health_checks
from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.fixtures import TestServer

READY = "/v1/health/ready"
ALL_WELL = {"database": "OK", "migrations": "OK", "queue": "OFF", "workers": "NONE"}


@pytest.fixture(autouse=True)
def _no_caching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_checks, "REPORT_KEPT_SECONDS", 0)
    monkeypatch.setattr(health_checks, "MIGRATIONS_KEPT_SECONDS", 0)
    monkeypatch.setattr(health_checks, "WRITES_KEPT_SECONDS", 0)


def _make_client(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://bpc.test")


async def test_it_is_alive_and_ready_without_a_worker(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/v1/health/live")).json() == {"status": "OK"}

    answer = await http.get(READY)

    assert answer.status_code == 200
    assert answer.json() == {
        "status": "OK",
        "checks": ALL_WELL,
        "jobs": {"depth": 0, "active": 0, "stale": 0, "oldest_seconds": None},
    }


async def test_it_says_what_waits_and_whether_somebody_works(
    http: httpx2.AsyncClient, admin: Api, service: Service
) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    await admin.post_json(f"/v1/documents/{document}/versions", body)

    waiting = (await http.get(READY)).json()

    assert waiting["jobs"]["depth"] == 1
    assert waiting["jobs"]["oldest_seconds"] >= 0
    async with run_worker(service.jobs), asyncio.timeout(60):
        while (await http.get(READY)).json()["checks"]["workers"] != "OK":
            await asyncio.sleep(0.05)


async def test_tables_of_another_build_are_not_ready(http: httpx2.AsyncClient, superuser: Connection) -> None:
    await superuser.execute("DELETE FROM schema_migrations WHERE component = 'bpc' AND version = 6")

    answer = await http.get(READY)

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "DB_UNAVAILABLE"
    assert answer.json()["error"]["details"] == {"checks": ALL_WELL | {"migrations": "FAILED"}}


@pytest.mark.parametrize("fault", ["default_transaction_read_only = on", "temp_file_limit = '64kB'"])
async def test_a_database_that_takes_no_writes_is_not_ready_and_reads_go_on(
    http: httpx2.AsyncClient, admin: Api, superuser: Connection, database: Database, fault: str
) -> None:
    product = await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Cell"})
    await superuser.execute("UPDATE api_keys SET last_used_at = NULL")
    await superuser.execute(f'ALTER DATABASE "{database.address.database}" SET {fault}')
    await database.pool.expire_connections()

    ready, reads = await http.get(READY), await http.get("/v1/health/reads")
    page = await admin.get(f"/v1/battery-products/{product['battery_product_id']}")

    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "DB_UNAVAILABLE")
    assert ready.json()["error"]["details"]["checks"] == ALL_WELL | {"writes": "FAILED"}
    assert (reads.status_code, page.status_code) == (200, 200), page.text
    if "read_only" in fault:
        write = await admin.post("/v1/battery-products", {"sku": "SKU-2", "name": "Cell"})
        assert (write.status_code, write.json()["error"]["code"]) == (503, "DB_UNAVAILABLE")


async def test_without_a_database_it_is_alive_and_not_ready(
    http: httpx2.AsyncClient, server: TestServer, database: Database
) -> None:
    name = database.address.database
    outside = await asyncpg.connect(**server.admin.connect_arguments())
    await outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    await outside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await outside.close()

    answer = await http.get(READY)

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "DB_UNAVAILABLE"
    assert answer.json()["error"]["details"]["checks"]["database"] == "FAILED"
    assert name not in answer.text
    assert (await http.get("/v1/health/live")).status_code == 200


async def test_a_check_that_hangs_is_given_up(
    http: httpx2.AsyncClient, superuser: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "CHECK_SECONDS", 0.3)
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")

        answer = await http.get(READY)

    assert answer.status_code == 503
    assert answer.json()["error"]["details"]["checks"]["migrations"] == "FAILED"
    assert (await http.get(READY)).status_code == 200


@pytest.mark.parametrize(("required", "status"), [(False, 200), (True, 503)])
async def test_a_queue_that_is_away_matters_only_where_it_is_required(
    service: Service, required: bool, status: int
) -> None:
    settings = service.settings.model_copy(
        update={
            "queue_enabled": True,
            "queue_url": type(service.settings.queue_url)("amqp://guest:guest@127.0.0.1:1/"),
            "health_require_queue": required,
        }
    )

    async with _make_client(create_app(replace(service, settings=settings))) as http:
        answer = await http.get(READY)

    assert answer.status_code == status
    body = answer.json()["checks"] if status == 200 else answer.json()["error"]["details"]["checks"]
    assert body == ALL_WELL | {"queue": "FAILED"}


async def test_a_queue_that_is_there_is_ok(service: Service) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as broker:
        port = broker.sockets[0].getsockname()[1]
        url = type(service.settings.queue_url)(f"amqp://guest:guest@127.0.0.1:{port}/")
        settings = service.settings.model_copy(update={"queue_enabled": True, "queue_url": url})

        async with _make_client(create_app(replace(service, settings=settings))) as http:
            answer = await http.get(READY)

    assert answer.json()["checks"] == ALL_WELL | {"queue": "OK"}


async def test_however_many_ask_the_database_is_asked_once(
    http: httpx2.AsyncClient, service: Service, superuser: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "REPORT_KEPT_SECONDS", 60)
    count = 0
    look = queries.get_health

    async def counted(conn: Connection) -> queries.QueueHealth:
        nonlocal count
        count += 1
        return await look(conn)

    monkeypatch.setattr(queries, "get_health", counted)

    answers = await asyncio.gather(*(http.get(READY) for _ in range(50)))

    assert {answer.status_code for answer in answers} == {200}
    assert count == 1
