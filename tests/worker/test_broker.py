"""RabbitMQ between the API and the workers: it wakes them, and nothing depends on it."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import httpx2
import pytest

from bpc import fresh
from bpc.api.app import create_app
from bpc.api.serve import serving
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.core.signing import Signer
from bpc.db.database import Database
from bpc.settings import Settings
from bpc.worker.run import working
from tests.api.conftest import PEPPERS, Api, key_for
from tests.jobs.broker import broker_url, wire_to
from tests.pipeline.ready import published_rules

__all__ = ["broker_url"]  # a fixture

SECONDS = 30
AN_HOUR = 3_600_000


def settings_for(folder: Path, url: str) -> Settings:
    """Workers that look by themselves once an hour."""
    return Settings(
        env="test",
        data_dir=folder,
        queue_enabled=True,
        queue_url=url,
        queue_exchange=f"bpc-{fresh.new_id()}",
        jobs_poll_interval_ms=AN_HOUR,
    )


def _no_signer(key_id: str) -> Signer | None:
    return None


@asynccontextmanager
async def api_of(settings: Settings, database: Database, key: str) -> AsyncIterator[Api]:
    async with serving(settings, database, peppers=PEPPERS, signer=_no_signer) as service:
        transport = httpx2.ASGITransport(app=create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
            yield Api(http, key)


async def submitted(api: Api) -> str:
    """A job that the API was asked for: reading a document that says nothing."""
    document = await api.made("/v1/documents", {"kind": "BOM"})
    body = {"mime_type": "application/json", "content_base64": b64encode(str(fresh.new_id()).encode()).decode()}
    made = await api.made(f"/v1/documents/{document['document_id']}/versions", body)
    return str(made["job_id"])


async def until_over(api: Api, job_id: str) -> str:
    async with asyncio.timeout(SECONDS):
        while (status := (await api.got(f"/v1/jobs/{job_id}"))["status"]) in {"QUEUED", "RUNNING"}:
            await asyncio.sleep(0.01)
    return str(status)


@asynccontextmanager
async def overheard(settings: Settings) -> AsyncIterator["asyncio.Queue[str]"]:
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
    return await key_for(database, tenant, "Admin", act)


async def test_what_the_api_is_asked_for_is_told_to_the_exchange_and_done(
    database: Database, key: str, tmp_path: Path, broker_url: str
) -> None:
    settings = settings_for(tmp_path, broker_url)

    async with (
        overheard(settings) as heard,
        working(settings, database, signer=_no_signer),
        api_of(settings, database, key) as api,
    ):
        job = await submitted(api)
        async with asyncio.timeout(SECONDS):
            told = await heard.get()
        status = await until_over(api, job)

    assert (told, status) == (job, "FAILED")


async def test_webhooks_and_bulk_runs_that_are_asked_for_are_told_too(
    database: Database, key: str, tmp_path: Path, broker_url: str, tenant: TenantId, act: Act
) -> None:
    settings = settings_for(tmp_path, broker_url)
    async with database.tenant(tenant) as conn:
        rules = await published_rules(conn, tenant, act)

    async with overheard(settings) as heard, api_of(settings, database, key) as api, asyncio.timeout(SECONDS):
        endpoint = await api.made("/v1/webhook-endpoints", {"url": "https://supplier.example/hook"})
        sent = await api.post(f"/v1/webhook-endpoints/{endpoint['webhook_endpoint_id']}:test")
        assert await heard.get() == sent.json()["job_id"]
        body = {"rule_package_version_id": str(rules), "items": [{"sku": "A", "name": "Cell"}]}
        answer = await api.post("/v1/passports:bulk-compile", body)
        assert answer.status_code == 202, answer.text
        [row] = (await api.got("/v1/jobs?type=COMPILE_ROW"))["items"]
        assert await heard.get() == row["job_id"]


async def test_a_broker_that_is_away_costs_a_warning_and_nothing_else(
    database: Database, key: str, tmp_path: Path, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire_to(broker_url) as wire:
        settings = settings_for(tmp_path, wire.url)
        async with (
            working(settings, database, signer=_no_signer),
            api_of(settings, database, key) as api,
        ):
            assert await until_over(api, await submitted(api)) == "FAILED"
            await wire.cut()
            assert await until_over(api, await submitted(api)) == "FAILED"
            async with asyncio.timeout(SECONDS):
                while not any("RabbitMQ is away" in record.message for record in caplog.records):
                    await asyncio.sleep(0.01)

    assert {record.levelname for record in caplog.records if "RabbitMQ" in record.message} == {"WARNING"}
