"""Specification of webhook deliveries: signed, recorded, and sent again on demand."""

import asyncio
import hashlib
import hmac
import json
import re
import sys
import time
from base64 import b64decode
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from service_jobs import Retry
from standardwebhooks import Webhook, WebhookVerificationError
from tests.jobs.support.run_workers import wait_until, wait_until_all_over

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import Conflict
from bpc.core.formats.canonical_json import encode
from bpc.core.formats.ids import (
    AggregateId,
    TenantId,
)
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.webhooks import deliveries, endpoints, redeliveries
from bpc.storage.webhooks.deliveries import MAX_HEADER_BYTES, truncate_headers
from bpc.worker import run
from tests.measurements import RecordMeasurement, choose_effort
from tests.outbound.receiver import ReceivedRequest, Reply
from tests.tasks.delivery_rig import ROOT, Admin, DeliveryRig, answer_with, format_url


async def test_an_event_arrives_signed_and_the_delivery_is_recorded(rig: DeliveryRig) -> None:
    rig.receiver.reply = lambda _: Reply(status=200, headers={"X-Seen": "yes"}, body=b"thanks \xff")
    await rig.append_events()

    await rig.run_worker()

    [got], [event], delivery = rig.receiver.received, rig.events, await rig.delivery()
    payload = Webhook(rig.issued.secret).verify(got.body, dict(got.headers))
    assert payload == {
        "event_type": "passport.version.signed",
        "event_id": str(event.event_id),
        "occurred_at": payload["occurred_at"],
        "tenant_id": str(rig.tenant),
        "data": {
            "aggregate_type": "PassportVersion",
            "aggregate_id": str(event.stream.aggregate_id),
            "aggregate_version": 1,
            "payload": {"number": 0},
        },
    }
    assert (got.method, got.target, got.headers["content-type"]) == ("POST", "/hook", "application/json")
    assert got.headers["webhook-id"] == got.headers["x-bpc-delivery-id"] == str(delivery.webhook_delivery_id)
    assert (delivery.status, delivery.attempt, delivery.last_error) == ("DELIVERED", 1, None)
    assert delivery.delivered_at is not None
    assert delivery.delivered_at == delivery.last_attempt_at
    async with rig.database.tenant(rig.tenant) as conn:
        response = await deliveries.load_response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert response is not None
    assert (response.status, response.headers["x-seen"], response.body, response.is_cut) == (
        200,
        "yes",
        b"thanks \xff",
        False,
    )
    assert await rig.job_status() == "SUCCEEDED"


class Subscriber:
    """A receiver built on the published package; `secrets` are those it knows. It takes each delivery once."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.accepted: Counter[str] = Counter()
        self.refused = 0
        self.bodies: dict[str, bytes] = {}

    def __call__(self, got: ReceivedRequest) -> Reply:
        if not self._standard(got) or not self._plain(got):
            self.refused += 1
            return Reply(status=400)
        self.accepted[got.headers["webhook-id"]] += 1
        self.bodies[got.headers["webhook-id"]] = got.body
        return Reply()

    def _standard(self, got: ReceivedRequest) -> bool:
        for secret in self.secrets:
            with suppress(WebhookVerificationError):
                Webhook(secret).verify(got.body, dict(got.headers))
                return True
        return False

    def _plain(self, got: ReceivedRequest) -> bool:
        sent = {got.headers.get("x-bpc-signature"), got.headers.get("x-bpc-signature-previous")}
        keys = [b64decode(secret.removeprefix("whsec_")) for secret in self.secrets]
        return any(f"sha256={hmac.new(key, got.body, hashlib.sha256).hexdigest()}" in sent for key in keys)


async def test_a_receiver_with_the_published_package_accepts_everything_during_a_secret_rotation(
    rig: DeliveryRig, superuser: Admin, record_measurement: RecordMeasurement
) -> None:
    count = choose_effort(test=60, shown=1000, campaign=1000) // 4
    subscriber = Subscriber()
    rig.receiver.reply = subscriber
    began = time.perf_counter()

    subscriber.secrets = [rig.issued.secret]
    await rig.append_events(count)
    await rig.run_worker()
    async with rig.database.tenant(rig.tenant) as conn:
        rotated = await endpoints.rotate_secret(conn, rig.tenant, rig.endpoint, act=rig.act)
    await rig.append_events(count)  # it still knows the old one only
    await rig.run_worker()
    subscriber.secrets = [rig.issued.secret, rotated.secret]
    await rig.append_events(count)
    await rig.run_worker()
    subscriber.secrets = [rotated.secret]
    await superuser.execute("UPDATE webhook_endpoints SET rotated_at = rotated_at - interval '24 hours'")
    await rig.append_events(count)
    await rig.run_worker()

    seconds = time.perf_counter() - began
    record_measurement(
        "webhook-deliveries", deliveries=4 * count, accepted=len(subscriber.accepted), seconds=round(seconds, 2)
    )
    assert (len(subscriber.accepted), subscriber.refused) == (4 * count, 0)
    assert set(subscriber.accepted.values()) == {1}
    assert {delivery.status for delivery in await rig.deliveries()} == {"DELIVERED"}
    by_id = {str(event.event_id): event for event in rig.events}
    for body in subscriber.bodies.values():  # and each says what the audit chain says
        payload = json.loads(body)
        assert hashlib.sha256(encode(payload["data"]["payload"])).digest() == by_id[payload["event_id"]].payload_hash


async def test_the_webhooks_page_shows_how_to_verify_a_webhook(rig: DeliveryRig) -> None:
    await rig.append_events()
    async with rig.database.tenant(rig.tenant) as conn:
        rotated = await endpoints.rotate_secret(conn, rig.tenant, rig.endpoint, act=rig.act)
    await rig.run_worker()
    [got] = rig.receiver.received
    page = (ROOT / "docs" / "webhooks.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2

    for secret in (rig.issued.secret, rotated.secret):
        page_names: dict[str, Any] = {}
        for block in blocks:
            exec(block.replace("whsec_…", secret), page_names)
        assert page_names["verify_webhook"](got.body, dict(got.headers)) == json.loads(got.body)
        assert page_names["is_from_bpc"](got.body, dict(got.headers))
        assert not page_names["is_from_bpc"](got.body + b" ", dict(got.headers))


async def test_a_worker_delivers_to_the_addresses_that_its_settings_allow(
    rig: DeliveryRig, database: Database, tmp_path: Path
) -> None:
    await rig.append_events(3)
    settings = Settings(env="test", data_dir=tmp_path, outbound_allow=("127.0.0.1",), jobs_cpu_processes=1)

    async with run.run_worker(settings, database, key_ring=KeyRing({})):
        await wait_until_all_over(rig.jobs, rig.tenant)

    assert {delivery.status for delivery in await rig.deliveries()} == {"DELIVERED"}
    assert len(rig.receiver.received) == 3


async def test_a_day_after_a_rotation_the_old_secret_no_longer_signs(rig: DeliveryRig, superuser: Admin) -> None:
    subscriber = Subscriber()
    subscriber.secrets = [rig.issued.secret]
    rig.receiver.reply = subscriber
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoints.rotate_secret(conn, rig.tenant, rig.endpoint, act=rig.act)
    await superuser.execute("UPDATE webhook_endpoints SET rotated_at = rotated_at - interval '24 hours'")
    await rig.append_events()

    await rig.run_worker()

    assert (subscriber.refused, len(subscriber.accepted)) == (1, 0)
    assert "x-bpc-signature-previous" not in rig.receiver.received[0].headers


async def test_if_a_worker_dies_after_sending_a_second_copy_has_the_same_id(rig: DeliveryRig, address: Address) -> None:
    await rig.append_events()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.tasks.sender_process", format_url(address), cwd=ROOT
    )

    async def killed(_: ReceivedRequest) -> None:
        if process.returncode is None:
            process.kill()  # what was sent is here; that it was is written down nowhere
            await process.wait()

    rig.receiver.before = killed
    try:
        await wait_until(lambda: bool(rig.receiver.received))
        await process.wait()
        assert (await rig.delivery()).status == "PENDING"
        await rig.run_worker()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    first, second = rig.receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt) == ("DELIVERED", 2)


# What is kept ------------------------------------------------------------------------------------------------------


async def test_the_first_64_kib_of_a_huge_answer_are_stored(rig: DeliveryRig) -> None:
    many = "".join(f"X-{number}: {'v' * 500}\r\n" for number in range(60))
    head = f"HTTP/1.1 200 -\r\nContent-Length: 10000000\r\n{many}\r\n".encode()
    rig.receiver.reply = lambda _: Reply(raw=head + b"x" * 10_000_000)
    await rig.append_events()

    await rig.run_worker()

    delivery = await rig.delivery()
    async with rig.database.tenant(rig.tenant) as conn:
        response = await deliveries.load_response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert response is not None
    assert (delivery.status, response.body, response.is_cut) == ("DELIVERED", b"x" * 65_536, True)
    assert sum(len(name) + len(value) for name, value in response.headers.items()) <= MAX_HEADER_BYTES
    assert len(response.headers) > 10


def test_headers_are_stored_up_to_a_limit() -> None:
    assert truncate_headers({"a": "1", "b": "2\0", "c": "x" * MAX_HEADER_BYTES, "d": "4"}) == {"a": "1", "b": "2"}


async def test_secrets_are_in_no_log_no_error_and_no_other_table(
    rig: DeliveryRig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    rig.receiver.reply = answer_with(503, 400)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.append_events()

    await rig.run_worker()

    secret = rig.issued.secret.removeprefix("whsec_")
    texts = [str(record.__dict__) for record in caplog.records]
    for table in ("events", "webhook_deliveries", "webhook_subscriptions"):
        texts += [row[0] for row in await superuser.fetch(f"SELECT to_jsonb(t)::text FROM {table} AS t")]
    texts += [row[0] for row in await superuser.fetch("SELECT to_jsonb(t)::text FROM jobs.job AS t")]
    assert caplog.records
    assert not [text for text in texts if secret in text or b64decode(secret).hex() in text]


# On demand ---------------------------------------------------------------------------------------------------------


async def test_an_endpoint_can_be_tested_without_a_subscription(
    rig: DeliveryRig, database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        other = await endpoints.create_endpoint(conn, tenant, url=rig.receiver.url + "/other", act=act)
        queued = await endpoints.send_test_event(conn, tenant, other.webhook_endpoint_id, act=act)

    await rig.run_worker()

    [got] = rig.receiver.received
    payload = Webhook(other.secret).verify(got.body, dict(got.headers))
    assert (got.target, got.headers["x-bpc-event-type"]) == ("/hook/other", "webhook.test")
    assert got.headers["webhook-id"] == str(queued.webhook_delivery_id)
    assert (payload["event_type"], payload["data"]["aggregate_type"]) == ("webhook.test", "WebhookEndpoint")
    async with database.tenant(tenant) as conn:
        stream = EventStream(tenant, "WebhookEndpoint", AggregateId(other.webhook_endpoint_id))
        chain = await events.read_chain(conn, stream)
    assert chain[-1].event.event_type == "WEBHOOK_ENDPOINT_TESTED"
    assert UUID(payload["event_id"]) == chain[-1].event.event_id


async def test_a_redelivery_is_a_new_delivery_with_the_same_body(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(404, 204)
    await rig.append_events()
    await rig.run_worker()
    before = await rig.delivery()

    async with rig.database.tenant(rig.tenant) as conn:
        queued = await redeliveries.redeliver(conn, rig.tenant, before.webhook_delivery_id, act=rig.act)
    await rig.run_worker()

    first, second = rig.receiver.received
    assert first.body == second.body
    assert second.headers["webhook-id"] == str(queued.webhook_delivery_id) != first.headers["webhook-id"]
    deliveries_by_id = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    again = deliveries_by_id[queued.webhook_delivery_id]
    assert deliveries_by_id[before.webhook_delivery_id] == before
    assert (again.status, again.event_id, again.redelivery_of) == (
        "DELIVERED",
        before.event_id,
        before.webhook_delivery_id,
    )


async def test_a_pending_delivery_or_one_to_a_deleted_endpoint_is_not_redelivered(rig: DeliveryRig) -> None:
    await rig.append_events()
    pending = (await rig.delivery()).webhook_delivery_id
    async with rig.database.tenant(rig.tenant) as conn:
        with pytest.raises(Conflict, match="is in progress"):
            await redeliveries.redeliver(conn, rig.tenant, pending, act=rig.act)
    await rig.run_worker()
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoints.deactivate_endpoint(conn, rig.tenant, rig.endpoint, act=rig.act)
        with pytest.raises(Conflict, match="no longer active"):
            await redeliveries.redeliver(conn, rig.tenant, pending, act=rig.act)
        with pytest.raises(Conflict, match="no longer active"):
            await endpoints.send_test_event(conn, rig.tenant, rig.endpoint, act=rig.act)


async def test_a_delivery_whose_job_was_cancelled_can_be_redelivered(rig: DeliveryRig) -> None:
    await rig.append_events()
    stopped = (await rig.delivery()).webhook_delivery_id
    await rig.cancel()

    async with rig.database.tenant(rig.tenant) as conn:
        queued = await redeliveries.redeliver(conn, rig.tenant, stopped, act=rig.act)
    await rig.run_worker()

    deliveries_by_id = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    assert deliveries_by_id[queued.webhook_delivery_id].status == "DELIVERED"
    assert deliveries_by_id[stopped].status == "FAILED"


async def test_a_delivery_that_an_earlier_build_left_pending_can_be_redelivered(
    rig: DeliveryRig, superuser: Admin
) -> None:
    await rig.append_events()
    stopped = (await rig.delivery()).webhook_delivery_id
    await superuser.execute("ALTER TABLE jobs.job DISABLE TRIGGER job_ends_delivery")
    await rig.cancel()
    await superuser.execute("ALTER TABLE jobs.job ENABLE TRIGGER job_ends_delivery")
    assert (await rig.delivery()).status == "PENDING"

    async with rig.database.tenant(rig.tenant) as conn:
        queued = await redeliveries.redeliver(conn, rig.tenant, stopped, act=rig.act)
    await rig.run_worker()

    deliveries_by_id = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    assert deliveries_by_id[queued.webhook_delivery_id].status == "DELIVERED"
    assert deliveries_by_id[stopped].status == "FAILED"
    assert deliveries_by_id[stopped].last_error == {
        "code": "JOB_CANCELLED",
        "message": "its job was cancelled",
        "retryable": False,
    }
