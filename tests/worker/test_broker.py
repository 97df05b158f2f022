"""Specification of RabbitMQ between the API and the workers: it wakes them, and nothing depends on it."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import httpx2
import pytest
from tests.jobs.support.rabbitmq_broker import broker_url, wire_to

from bpc.api.http.app import create_app
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import derive_public_key, parse_seed
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.audit import signing_keys
from bpc.storage.database import Database
from bpc.worker.run import run_worker
from tests.api.conftest import PEPPERS, Api, create_key
from tests.pipeline.compile_fixtures import publish_rules

__all__ = ["broker_url"]  # a fixture

SECONDS = 30
AN_HOUR = 3_600_000


def make_settings(folder: Path, url: str) -> Settings:
    """Workers that look by themselves once an hour."""
    return Settings(
        env="test",
        data_dir=folder,
        queue_enabled=True,
        queue_url=url,
        queue_exchange=f"bpc-{clock.new_id()}",
        jobs_poll_interval_ms=AN_HOUR,
    )


@asynccontextmanager
async def open_api(settings: Settings, database: Database, key: str) -> AsyncIterator[Api]:
    async with open_service(settings, database, peppers=PEPPERS, key_ring=KeyRing({})) as service:
        transport = httpx2.ASGITransport(app=create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
            yield Api(http, key)


async def submit_job(api: Api) -> str:
    """A job that the API was asked for: reading a document that says nothing."""
    document = await api.post_json("/v1/documents", {"kind": "BOM"})
    body = {"mime_type": "application/json", "content_base64": b64encode(str(clock.new_id()).encode()).decode()}
    version = await api.post_json(f"/v1/documents/{document['document_id']}/versions", body)
    return str(version["job_id"])


async def wait_for_job(api: Api, job_id: str) -> str:
    async with asyncio.timeout(SECONDS):
        while (status := (await api.get_json(f"/v1/jobs/{job_id}"))["status"]) in {"QUEUED", "RUNNING"}:
            await asyncio.sleep(0.01)
    return str(status)


@asynccontextmanager
async def listen_to_exchange(settings: Settings) -> AsyncIterator["asyncio.Queue[str]"]:
    """The ids of the jobs that the exchange was told of."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    connection = await aio_pika.connect(settings.queue_url.get_secret_value())
    async with connection, connection.channel() as channel:
        exchange = await channel.declare_exchange(settings.queue_exchange, aio_pika.ExchangeType.DIRECT, durable=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, settings.queue_routing_key)

        async def note(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                heard.put_nowait(json.loads(message.body)["job_id"])

        await queue.consume(note)
        yield heard


@pytest.fixture
async def key(database: Database, tenant: TenantId, act: Act) -> str:
    return await create_key(database, tenant, "Admin", act)


async def test_a_job_from_the_api_is_announced_to_the_exchange_and_runs(
    database: Database, key: str, tmp_path: Path, broker_url: str
) -> None:
    settings = make_settings(tmp_path, broker_url)

    async with (
        listen_to_exchange(settings) as heard,
        run_worker(settings, database, key_ring=KeyRing({})),
        open_api(settings, database, key) as api,
    ):
        job = await submit_job(api)
        async with asyncio.timeout(SECONDS):
            job_ids = await heard.get()
        status = await wait_for_job(api, job)

    assert (job_ids, status) == (job, "FAILED")


async def test_webhooks_and_bulk_runs_are_announced_to_the_exchange(
    database: Database, key: str, tmp_path: Path, broker_url: str, tenant: TenantId, act: Act
) -> None:
    settings = make_settings(tmp_path, broker_url)
    public_key = derive_public_key(parse_seed(bytes(range(32))))
    await signing_keys.register_key(database, settings.signing_key_id, public_key, act=act)
    async with database.tenant(tenant) as conn:
        rules = await publish_rules(conn, tenant, act)

    async with (
        listen_to_exchange(settings) as heard,
        open_api(settings, database, key) as api,
        asyncio.timeout(SECONDS),
    ):
        endpoint = await api.post_json("/v1/webhook-endpoints", {"url": "https://supplier.example/hook"})
        sent = await api.post(f"/v1/webhook-endpoints/{endpoint['webhook_endpoint_id']}:test")
        assert await heard.get() == sent.json()["job_id"]
        body = {"rule_package_version_id": str(rules), "items": [{"sku": "A", "name": "Cell"}]}
        answer = await api.post("/v1/passports:bulk-compile", body)
        assert answer.status_code == 202, answer.text
        [row] = (await api.get_json("/v1/jobs?type=COMPILE_ROW"))["items"]
        assert await heard.get() == row["job_id"]


async def test_an_unreachable_broker_costs_only_a_warning(
    database: Database, key: str, tmp_path: Path, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire_to(broker_url) as wire:
        settings = make_settings(tmp_path, wire.url)
        async with (
            run_worker(settings, database, key_ring=KeyRing({})),
            open_api(settings, database, key) as api,
        ):
            assert await wait_for_job(api, await submit_job(api)) == "FAILED"
            await wire.cut()
            assert await wait_for_job(api, await submit_job(api)) == "FAILED"
            async with asyncio.timeout(SECONDS):
                while not any("RabbitMQ is unreachable" in record.message for record in caplog.records):
                    await asyncio.sleep(0.01)

    assert {record.levelname for record in caplog.records if "RabbitMQ" in record.message} == {"WARNING"}
