"""Delivering webhooks: signed so that anybody can check it, tried again when that helps, on record whatever happens."""

import asyncio
import hashlib
import hmac
import json
import re
import signal
import sys
import time
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest
from asyncpg.transaction import Transaction
from standardwebhooks import Webhook, WebhookVerificationError

from bpc import fresh
from bpc.assembly import assembled
from bpc.core.canon import encode
from bpc.core.errors import Conflict
from bpc.core.events import Act, Event, Stream
from bpc.core.ids import AggregateId, TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.webhooks import ANNOUNCED
from bpc.db import deliveries, events, tenants, webhooks
from bpc.db.address import Address
from bpc.db.database import Database
from bpc.db.deliveries import MOST_HEADERS, Delivery, kept_headers
from bpc.db.jobs import cancel, retry, sessions_of
from bpc.db.webhooks import Issued
from bpc.errands.deliver import DeliveryOrder, Uncounted, deliver_job
from bpc.errands.ingest import LIMIT, IngestOrder
from bpc.jobs import Handler, Handlers, Jobs, Metrics, Retry, queries
from bpc.jobs.errors import JobConflict
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from bpc.outbound import Guard
from bpc.pipeline.facts import ParseOrder
from bpc.settings import Settings
from bpc.worker import run
from bpc.worker.metrics import SENT, StepMetrics
from tests.jobs.working import until, until_all_over, until_status, working
from tests.measuring import Measured, allowed, effort
from tests.outbound.receiver import Received, Receiver, Reply

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
ROOT = Path(__file__).resolve().parents[2]
ONLY = "SELECT webhook_delivery_id FROM webhook_deliveries"
# Somebody cancelled them while they ran, and then their worker was gone.
LEASED_TO_THE_DEAD = """
    WITH taken AS (DELETE FROM jobs.job_ready RETURNING tenant_id, job_id, type, priority, limit_key)
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until,
                                cancel_requested)
    SELECT tenant_id, job_id, type, 'gone', 1, priority, limit_key, jobs.clock(), jobs.clock(), true FROM taken
"""


@dataclass
class Rig:
    """A tenant with an endpoint at a receiver, and the jobs that deliver."""

    database: Database
    tenant: TenantId
    act: Act
    receiver: Receiver
    jobs: Jobs
    handler: Handler[DeliveryOrder, None]
    issued: Issued
    told: list[Event] = field(default_factory=list)

    @property
    def endpoint(self) -> WebhookEndpointId:
        return self.issued.webhook_endpoint_id

    async def happens(self, count: int = 1, event_type: str = "PASSPORT_SIGNED") -> None:
        async with self.database.tenant(self.tenant) as conn:
            for number in range(count):
                stream = Stream(self.tenant, "PassportVersion", AggregateId(fresh.new_id()))
                self.told.append(await events.append(conn, stream, self.act.says(event_type, {"number": number})))

    async def work(self, seconds: float = 60) -> None:
        """Let a worker do all there is to do."""
        async with working(self.jobs):
            await until_all_over(self.jobs, self.tenant, seconds)

    async def deliveries(self) -> list[Delivery]:
        async with self.database.tenant(self.tenant) as conn:
            ids = await conn.fetch(f"{ONLY} ORDER BY created_at, webhook_delivery_id")
            return [await deliveries.get(conn, self.tenant, WebhookDeliveryId(row[0])) for row in ids]

    async def delivery(self) -> Delivery:
        [found] = await self.deliveries()
        return found

    async def job_status(self) -> str:
        async with self.database.tenant(self.tenant) as conn:
            return str(
                (await queries.get(conn, self.tenant, await conn.fetchval("SELECT job_id FROM jobs.job"))).status
            )

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel a job, as people do."""
        async with self.database.tenant(self.tenant) as conn:
            job_id = await conn.fetchval("SELECT job_id FROM jobs.job LIMIT 1")
            await cancel(conn, self.tenant, job_id, act=self.act, reason=reason)

    async def once(self, **how: Any) -> Ran[None]:
        """One execution of the only delivery's job, here and now; what it wrote is committed as the engine does."""
        async with self.database.tenant(self.tenant) as conn:
            order = DeliveryOrder(webhook_delivery_id=await conn.fetchval(ONLY))
            return await run_inline(self.handler, order, tenant=self.tenant, conn=conn, **how)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as started:
        yield started


@pytest.fixture
async def rig(database: Database, tenant: TenantId, act: Act, receiver: Receiver) -> AsyncIterator[Rig]:
    handlers = Handlers()
    guard = Guard(allow=("127.0.0.1",), https_only=False, longest=0.5)
    handler = deliver_job(handlers, guard=guard, opening=database.tenant, count=Uncounted())
    async with database.tenant(tenant) as conn:
        issued = await webhooks.create(conn, tenant, url=receiver.url, act=act)
        for webhook_type in ANNOUNCED.values():
            await webhooks.subscribe(conn, tenant, issued.webhook_endpoint_id, webhook_type, act=act)
    async with sessions_of(database) as sessions:
        yield Rig(database, tenant, act, receiver, Jobs(handlers, sessions), handler, issued)


def answers(*statuses: int, **headers: str) -> Callable[[Received], Reply]:
    """Answer with these, one after the other, the last for ever."""
    left = list(statuses)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(status=left.pop(0) if len(left) > 1 else left[0], headers=named)


# What arrives ------------------------------------------------------------------------------------------------------


async def test_an_event_arrives_signed_and_that_is_on_record(rig: Rig) -> None:
    rig.receiver.reply = lambda _: Reply(status=200, headers={"X-Seen": "yes"}, body=b"thanks \xff")
    await rig.happens()

    await rig.work()

    [got], [event], delivery = rig.receiver.received, rig.told, await rig.delivery()
    told = Webhook(rig.issued.secret).verify(got.body, dict(got.headers))
    assert told == {
        "event_type": "passport.version.signed",
        "event_id": str(event.event_id),
        "occurred_at": told["occurred_at"],
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
        kept = await deliveries.response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert kept is not None
    assert (kept.status, kept.headers["x-seen"], kept.body, kept.is_cut) == (200, "yes", b"thanks \xff", False)
    assert await rig.job_status() == "SUCCEEDED"


class Subscriber:
    """A receiver built on the published package; `secrets` are those it knows. It takes each delivery once."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.accepted: Counter[str] = Counter()
        self.refused = 0
        self.bodies: dict[str, bytes] = {}

    def __call__(self, got: Received) -> Reply:
        if not self._standard(got) or not self._plain(got):
            self.refused += 1
            return Reply(status=400)
        self.accepted[got.headers["webhook-id"]] += 1
        self.bodies[got.headers["webhook-id"]] = got.body
        return Reply()

    def _standard(self, got: Received) -> bool:
        for secret in self.secrets:
            with suppress(WebhookVerificationError):
                Webhook(secret).verify(got.body, dict(got.headers))
                return True
        return False

    def _plain(self, got: Received) -> bool:
        sent = {got.headers.get("x-bpc-signature"), got.headers.get("x-bpc-signature-previous")}
        keys = [b64decode(secret.removeprefix("whsec_")) for secret in self.secrets]
        return any(f"sha256={hmac.new(key, got.body, hashlib.sha256).hexdigest()}" in sent for key in keys)


async def test_a_receiver_built_on_the_published_package_takes_everything_also_while_the_secret_changes(
    rig: Rig, superuser: Admin, measured: Measured
) -> None:
    count = effort(test=60, shown=1000, campaign=1000) // 4
    subscriber = Subscriber()
    rig.receiver.reply = subscriber
    began = time.perf_counter()

    subscriber.secrets = [rig.issued.secret]
    await rig.happens(count)
    await rig.work()
    async with rig.database.tenant(rig.tenant) as conn:
        rotated = await webhooks.rotate(conn, rig.tenant, rig.endpoint, act=rig.act)
    await rig.happens(count)  # it still knows the old one only
    await rig.work()
    subscriber.secrets = [rig.issued.secret, rotated.secret]
    await rig.happens(count)
    await rig.work()
    subscriber.secrets = [rotated.secret]
    await superuser.execute("UPDATE webhook_endpoints SET rotated_at = rotated_at - interval '24 hours'")
    await rig.happens(count)
    await rig.work()

    seconds = time.perf_counter() - began
    measured("webhook-deliveries", deliveries=4 * count, accepted=len(subscriber.accepted), seconds=round(seconds, 2))
    assert (len(subscriber.accepted), subscriber.refused) == (4 * count, 0)
    assert set(subscriber.accepted.values()) == {1}
    assert {delivery.status for delivery in await rig.deliveries()} == {"DELIVERED"}
    by_id = {str(event.event_id): event for event in rig.told}
    for body in subscriber.bodies.values():  # and each says what the audit chain says
        said = json.loads(body)
        assert hashlib.sha256(encode(said["data"]["payload"])).digest() == by_id[said["event_id"]].payload_hash


async def test_the_page_on_webhooks_shows_how_to_check_them(rig: Rig) -> None:
    await rig.happens()
    async with rig.database.tenant(rig.tenant) as conn:
        rotated = await webhooks.rotate(conn, rig.tenant, rig.endpoint, act=rig.act)
    await rig.work()
    [got] = rig.receiver.received
    page = (ROOT / "docs" / "webhooks.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2

    for secret in (rig.issued.secret, rotated.secret):
        shown: dict[str, Any] = {}
        for block in blocks:
            exec(block.replace("whsec_…", secret), shown)
        assert shown["received"](got.body, dict(got.headers)) == json.loads(got.body)
        assert shown["is_from_bpc"](got.body, dict(got.headers))
        assert not shown["is_from_bpc"](got.body + b" ", dict(got.headers))


async def test_a_worker_of_this_product_delivers_what_its_settings_allow(
    rig: Rig, database: Database, tmp_path: Path
) -> None:
    await rig.happens(3)
    settings = Settings(env="test", data_dir=tmp_path, outbound_allow=("127.0.0.1",), jobs_cpu_processes=1)

    async with run.working(settings, database, signer=lambda _: None):
        await until_all_over(rig.jobs, rig.tenant)

    assert {delivery.status for delivery in await rig.deliveries()} == {"DELIVERED"}
    assert len(rig.receiver.received) == 3


async def test_a_day_after_a_rotation_the_secret_before_signs_no_more(rig: Rig, superuser: Admin) -> None:
    subscriber = Subscriber()
    subscriber.secrets = [rig.issued.secret]
    rig.receiver.reply = subscriber
    async with rig.database.tenant(rig.tenant) as conn:
        await webhooks.rotate(conn, rig.tenant, rig.endpoint, act=rig.act)
    await superuser.execute("UPDATE webhook_endpoints SET rotated_at = rotated_at - interval '24 hours'")
    await rig.happens()

    await rig.work()

    assert (subscriber.refused, len(subscriber.accepted)) == (1, 0)
    assert "x-bpc-signature-previous" not in rig.receiver.received[0].headers


async def test_a_worker_that_dies_after_sending_leads_to_a_second_copy_with_the_same_id(
    rig: Rig, address: Address
) -> None:
    await rig.happens()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.errands.sender_process", _url(address), cwd=ROOT
    )

    async def killed(_: Received) -> None:
        if process.returncode is None:
            process.kill()  # what was sent is here; that it was is written down nowhere
            await process.wait()

    rig.receiver.before = killed
    try:
        await until(lambda: bool(rig.receiver.received))
        await process.wait()
        assert (await rig.delivery()).status == "PENDING"
        await rig.work()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    first, second = rig.receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt) == ("DELIVERED", 2)


def _url(address: Address) -> str:
    return address.url or str(address)


# What is tried again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_what_may_be_different_next_time_is_tried_again_after_two_four_eight_and_sixteen_seconds(
    rig: Rig, status: int
) -> None:
    rig.receiver.reply = answers(status)
    await rig.happens()

    ran = [await rig.once(attempt=attempt) for attempt in (1, 2, 3, 4)]

    assert [(one.ending, one.retry_in) for one in ran] == [(Ending.RETRY, seconds) for seconds in (2.0, 4.0, 8.0, 16.0)]
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("PENDING", 4, status)
    assert delivery.last_error is not None
    assert delivery.last_error["message"] == f"the endpoint answered {status}"
    assert delivery.last_error["details"] == {"status": status}


async def test_after_five_attempts_it_has_failed_and_the_job_is_a_dead_letter(rig: Rig) -> None:
    rig.receiver.reply = answers(503)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, len(rig.receiver.received)) == ("FAILED", 5, 5)
    assert delivery.last_error is not None
    assert (delivery.last_error["code"], delivery.last_error["retryable"]) == ("OUTBOUND_FAILED", True)
    assert {got.headers["webhook-id"] for got in rig.receiver.received} == {str(delivery.webhook_delivery_id)}
    assert await rig.job_status() == "DEAD_LETTER"


async def test_what_arrives_after_failures_is_delivered(rig: Rig) -> None:
    rig.receiver.reply = answers(500, 429, 204)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("DELIVERED", 3, 204)
    assert delivery.last_error is not None  # of the last attempt that did not arrive
    assert delivery.last_error["details"] == {"status": 429}


@pytest.mark.parametrize(
    ("said", "rest"), [("1", 2.0), ("90", 90.0), ("100000", 1024.0), ("Fri, 01 Jan 2100 00:00:00 GMT", 1024.0)]
)
async def test_an_endpoint_may_ask_for_a_longer_rest(rig: Rig, said: str, rest: float) -> None:
    rig.receiver.reply = answers(429, Retry_After=said)
    await rig.happens()

    assert (await rig.once()).retry_in == rest


async def test_silence_is_tried_again(rig: Rig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.happens()

    ran = await rig.once()

    delivery = await rig.delivery()
    assert ran.ending is Ending.RETRY
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "REQUEST_TIMEOUT"
    assert delivery.last_error["message"] == f"`127.0.0.1:{rig.receiver.port}` did not answer within 0.5 s"
    assert (delivery.status, delivery.response_status) == ("PENDING", None)


async def test_a_server_that_hangs_up_is_named_as_what_went_wrong(rig: Rig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 2")
    await rig.happens()

    ran = await rig.once()

    delivery = await rig.delivery()
    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.RETRY, "OUTBOUND_FAILED")
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "OUTBOUND_FAILED"
    assert delivery.last_error["message"] == (
        f"`127.0.0.1:{rig.receiver.port}` did not answer in HTTP, or stopped in the middle of its answer"
    )


async def test_a_yes_whose_body_drips_is_a_yes(rig: Rig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 200 -\r\nContent-Length: 9\r\n\r\nthan", then_wait=True)
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    async with rig.database.tenant(rig.tenant) as conn:
        kept = await deliveries.response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert kept is not None
    assert (delivery.status, delivery.attempt, kept.status) == ("DELIVERED", 1, 200)
    assert (kept.body, kept.is_cut) == (b"than", True)


# What is final -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 308, 400, 401, 404, 410, 422])
async def test_a_redirect_or_a_no_is_final(rig: Rig, status: int) -> None:
    async with Receiver() as elsewhere:
        rig.receiver.reply = answers(status, Location=elsewhere.url)
        await rig.happens()

        await rig.work()

        assert elsewhere.connections == 0
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("FAILED", 1, status)
    assert delivery.last_error is not None
    assert (delivery.last_error["code"], delivery.last_error["retryable"]) == ("CONFLICT", False)
    assert await rig.job_status() == "FAILED"


async def test_an_endpoint_that_is_gone_is_disabled_on_record_and_gets_nothing_more(rig: Rig) -> None:
    rig.receiver.reply = answers(410)
    await rig.happens()
    await rig.work()
    first = await rig.delivery()

    await rig.happens()
    await rig.work()

    async with rig.database.tenant(rig.tenant) as conn:
        found = await webhooks.get(conn, rig.tenant, rig.endpoint)
        chain = await events.read_chain(conn, Stream(rig.tenant, "WebhookEndpoint", AggregateId(rig.endpoint)))
    assert not found.is_active
    last = chain[-1].event
    assert last.event_type == "WEBHOOK_ENDPOINT_CHANGED"
    assert json.loads(last.payload_canonical) == {
        "changed": ["is_active"],
        "reason": f"it answered 410 to delivery {first.webhook_delivery_id}",
    }
    assert (len(rig.receiver.received), len(await rig.deliveries())) == (1, 1)


async def test_what_waits_for_an_endpoint_that_was_deleted_meanwhile_fails(rig: Rig) -> None:
    await rig.happens()
    async with rig.database.tenant(rig.tenant) as conn:
        await webhooks.deactivate(conn, rig.tenant, rig.endpoint, act=rig.act)

    await rig.work()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, rig.receiver.connections) == ("FAILED", 0, 0)
    assert delivery.last_error is not None
    assert delivery.last_error["message"] == f"webhook endpoint `{delivery.webhook_endpoint_id}` is no longer active"


async def test_an_address_inside_fails_without_a_connection(rig: Rig, database: Database, superuser: Admin) -> None:
    strict = deliver_job(Handlers(), guard=Guard(https_only=False), opening=database.tenant, count=Uncounted())
    rig.handler.run = strict.run
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    assert (delivery.status, rig.receiver.connections) == ("FAILED", 0)
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "OUTBOUND_BLOCKED"


async def test_what_has_ended_never_changes(rig: Rig) -> None:
    rig.receiver.reply = answers(400)
    await rig.happens()
    await rig.work()

    with pytest.raises(Conflict, match="a delivery that has ended never changes"):
        async with rig.database.tenant(rig.tenant) as conn:
            await conn.execute("UPDATE webhook_deliveries SET status = 'DELIVERED'")
    async with rig.database.tenant(rig.tenant) as conn:
        await retry(conn, rig.tenant, await conn.fetchval("SELECT job_id FROM jobs.job"), act=rig.act)
    await rig.work()

    assert len(rig.receiver.received) == 1
    assert ((await rig.delivery()).status, await rig.job_status()) == ("FAILED", "FAILED")


async def test_a_job_that_runs_again_after_its_delivery_arrived_sends_nothing(rig: Rig) -> None:
    await rig.happens()
    await rig.work()

    assert (await rig.once()).ending is Ending.SUCCEEDED
    assert len(rig.receiver.received) == 1


# What is kept ------------------------------------------------------------------------------------------------------


async def test_of_a_huge_answer_the_first_64_kib_are_kept(rig: Rig) -> None:
    many = "".join(f"X-{number}: {'v' * 500}\r\n" for number in range(60))
    head = f"HTTP/1.1 200 -\r\nContent-Length: 10000000\r\n{many}\r\n".encode()
    rig.receiver.reply = lambda _: Reply(raw=head + b"x" * 10_000_000)
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    async with rig.database.tenant(rig.tenant) as conn:
        kept = await deliveries.response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert kept is not None
    assert (delivery.status, kept.body, kept.is_cut) == ("DELIVERED", b"x" * 65_536, True)
    assert sum(len(name) + len(value) for name, value in kept.headers.items()) <= MOST_HEADERS
    assert len(kept.headers) > 10


def test_headers_are_kept_as_far_as_there_is_room() -> None:
    assert kept_headers({"a": "1", "b": "2\0", "c": "x" * MOST_HEADERS, "d": "4"}) == {"a": "1", "b": "2"}


async def test_secrets_are_in_no_log_no_error_and_no_other_table(
    rig: Rig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    rig.receiver.reply = answers(503, 400)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.happens()

    await rig.work()

    secret = rig.issued.secret.removeprefix("whsec_")
    texts = [str(record.__dict__) for record in caplog.records]
    for table in ("events", "webhook_deliveries", "webhook_subscriptions"):
        texts += [row[0] for row in await superuser.fetch(f"SELECT to_jsonb(t)::text FROM {table} AS t")]
    texts += [row[0] for row in await superuser.fetch("SELECT to_jsonb(t)::text FROM jobs.job AS t")]
    assert caplog.records
    assert not [text for text in texts if secret in text or b64decode(secret).hex() in text]


# On demand ---------------------------------------------------------------------------------------------------------


async def test_an_endpoint_can_be_tested_whatever_it_is_subscribed_to(
    rig: Rig, database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        other = await webhooks.create(conn, tenant, url=rig.receiver.url + "/other", act=act)
        asked = await webhooks.test(conn, tenant, other.webhook_endpoint_id, act=act)

    await rig.work()

    [got] = rig.receiver.received
    told = Webhook(other.secret).verify(got.body, dict(got.headers))
    assert (got.target, got.headers["x-bpc-event-type"]) == ("/hook/other", "webhook.test")
    assert got.headers["webhook-id"] == str(asked.webhook_delivery_id)
    assert (told["event_type"], told["data"]["aggregate_type"]) == ("webhook.test", "WebhookEndpoint")
    async with database.tenant(tenant) as conn:
        stream = Stream(tenant, "WebhookEndpoint", AggregateId(other.webhook_endpoint_id))
        chain = await events.read_chain(conn, stream)
    assert chain[-1].event.event_type == "WEBHOOK_ENDPOINT_TESTED"
    assert UUID(told["event_id"]) == chain[-1].event.event_id


async def test_a_redelivery_is_a_new_delivery_with_the_same_body(rig: Rig) -> None:
    rig.receiver.reply = answers(404, 204)
    await rig.happens()
    await rig.work()
    before = await rig.delivery()

    async with rig.database.tenant(rig.tenant) as conn:
        asked = await deliveries.redeliver(conn, rig.tenant, before.webhook_delivery_id, act=rig.act)
    await rig.work()

    first, second = rig.receiver.received
    assert first.body == second.body
    assert second.headers["webhook-id"] == str(asked.webhook_delivery_id) != first.headers["webhook-id"]
    found = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    again = found[asked.webhook_delivery_id]
    assert found[before.webhook_delivery_id] == before
    assert (again.status, again.event_id, again.redelivery_of) == (
        "DELIVERED",
        before.event_id,
        before.webhook_delivery_id,
    )


async def test_what_is_on_its_way_or_has_nowhere_to_go_is_not_redelivered(rig: Rig) -> None:
    await rig.happens()
    pending = (await rig.delivery()).webhook_delivery_id
    async with rig.database.tenant(rig.tenant) as conn:
        with pytest.raises(Conflict, match="has not ended yet"):
            await deliveries.redeliver(conn, rig.tenant, pending, act=rig.act)
    await rig.work()
    async with rig.database.tenant(rig.tenant) as conn:
        await webhooks.deactivate(conn, rig.tenant, rig.endpoint, act=rig.act)
        with pytest.raises(Conflict, match="no longer active"):
            await deliveries.redeliver(conn, rig.tenant, pending, act=rig.act)
        with pytest.raises(Conflict, match="no longer active"):
            await webhooks.test(conn, rig.tenant, rig.endpoint, act=rig.act)


async def test_a_delivery_whose_job_was_cancelled_can_be_sent_again(rig: Rig) -> None:
    await rig.happens()
    stopped = (await rig.delivery()).webhook_delivery_id
    await rig.cancel()

    async with rig.database.tenant(rig.tenant) as conn:
        asked = await deliveries.redeliver(conn, rig.tenant, stopped, act=rig.act)
    await rig.work()

    found = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    assert found[asked.webhook_delivery_id].status == "DELIVERED"
    assert found[stopped].status == "FAILED"


async def test_one_that_an_earlier_build_left_behind_can_be_sent_again_too(rig: Rig, superuser: Admin) -> None:
    await rig.happens()
    stopped = (await rig.delivery()).webhook_delivery_id
    await superuser.execute("ALTER TABLE jobs.job DISABLE TRIGGER job_ends_delivery")
    await rig.cancel()
    await superuser.execute("ALTER TABLE jobs.job ENABLE TRIGGER job_ends_delivery")
    assert (await rig.delivery()).status == "PENDING"

    async with rig.database.tenant(rig.tenant) as conn:
        asked = await deliveries.redeliver(conn, rig.tenant, stopped, act=rig.act)
    await rig.work()

    found = {delivery.webhook_delivery_id: delivery for delivery in await rig.deliveries()}
    assert found[asked.webhook_delivery_id].status == "DELIVERED"
    assert found[stopped].status == "FAILED"
    assert found[stopped].last_error == {
        "code": "JOB_CANCELLED",
        "message": "its job was cancelled",
        "retryable": False,
    }


# It ends with its job ----------------------------------------------------------------------------------------------


async def test_a_delivery_ends_when_its_job_is_cancelled_before_it_runs(rig: Rig) -> None:
    await rig.happens(2)

    await rig.cancel(reason="not needed any more")

    stopped, waiting = sorted(await rig.deliveries(), key=lambda delivery: delivery.status)
    assert (stopped.status, stopped.attempt, waiting.status) == ("FAILED", 0, "PENDING")
    assert stopped.last_error == {"code": "JOB_CANCELLED", "message": "not needed any more", "retryable": False}


@pytest.mark.parametrize("attempts", [0, 1], ids=["during its first attempt", "between two"])
async def test_a_delivery_ends_when_its_job_is_cancelled_on_the_way(rig: Rig, attempts: int) -> None:
    rig.receiver.reply = answers(503) if attempts else lambda _: Reply(raw=b"", then_wait=True)
    await rig.happens()

    async with working(rig.jobs):
        await until(lambda: bool(rig.receiver.received))
        async with asyncio.timeout(60):
            while (await rig.delivery()).attempt < attempts:
                await asyncio.sleep(0.01)
        await rig.cancel()
        await until_all_over(rig.jobs, rig.tenant)

    delivery = await rig.delivery()
    assert await rig.job_status() == "CANCELLED"
    assert delivery.status == "FAILED"
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "JOB_CANCELLED"


async def test_deliveries_end_when_the_worker_of_their_jobs_dies(rig: Rig, address: Address, superuser: Admin) -> None:
    """One of two that is being sent was cancelled, the other one had its last attempt."""
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.happens(2)
    await superuser.execute("UPDATE jobs.job SET max_attempts = 1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.errands.sender_process", _url(address), cwd=ROOT
    )
    try:
        await until(lambda: len(rig.receiver.received) == 2)
        process.send_signal(signal.SIGSTOP)  # or it would hear of it
        await rig.cancel()
    finally:
        process.kill()
        await process.wait()

    await rig.work()

    ended = {(one.status, (one.last_error or {})["code"]) for one in await rig.deliveries()}
    assert ended == {("FAILED", "JOB_CANCELLED"), ("FAILED", "JOB_LEASE_LOST")}
    assert len(rig.receiver.received) == 2


async def _held(superuser: Admin, delivery: UUID) -> Transaction:
    """A transaction in which somebody has written to a delivery and not gone on."""
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("UPDATE webhook_deliveries SET attempt = attempt WHERE webhook_delivery_id = $1", delivery)
    return transaction


async def test_who_cancels_a_job_whose_delivery_is_held_is_soon_told_to_try_again(rig: Rig, superuser: Admin) -> None:
    await rig.happens()
    frozen = await _held(superuser, (await rig.delivery()).webhook_delivery_id)

    async with asyncio.timeout(10):
        with pytest.raises(JobConflict) as refused:
            await rig.cancel()

    assert refused.value.fix == "try again"
    assert await rig.job_status() == "QUEUED"
    await frozen.rollback()
    await rig.cancel()
    assert (await rig.job_status(), (await rig.delivery()).status) == ("CANCELLED", "FAILED")


async def test_a_worker_frozen_at_a_delivery_keeps_nobody_from_ending_the_jobs_of_the_dead(
    rig: Rig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.happens(3)
    await superuser.execute(LEASED_TO_THE_DEAD)
    first = await superuser.fetchval("SELECT job_id FROM jobs.job_lease WHERE lease_until < jobs.clock()")
    delivery = await superuser.fetchval(
        "SELECT payload ->> 'webhook_delivery_id' FROM jobs.job WHERE job_id = $1", first
    )
    frozen = await _held(superuser, UUID(delivery))

    async with working(rig.jobs):
        async with asyncio.timeout(120):
            while Counter(one.status for one in await rig.deliveries()) != {"FAILED": 2, "PENDING": 1}:
                await asyncio.sleep(0.02)
        await frozen.rollback()
        await until_all_over(rig.jobs, rig.tenant)

    assert {one.status for one in await rig.deliveries()} == {"FAILED"}
    said = [record.getMessage() for record in caplog.records if record.name.endswith("pulse")]
    assert len(said) == 1
    assert said[0].startswith(f"job {first} cannot be ended yet")  # and the pulse has not missed a beat


async def test_a_cancelled_job_whose_delivery_is_held_ends_as_soon_as_it_can(
    rig: Rig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.happens()
    async with working(rig.jobs):
        await until(lambda: bool(rig.receiver.received))
        frozen = await _held(superuser, (await rig.delivery()).webhook_delivery_id)
        await rig.cancel()
        await until(lambda: "1 ends could not be written" in caplog.text)
        assert (await rig.job_status(), (await rig.delivery()).status) == ("RUNNING", "PENDING")
        rig.receiver.reply = answers(200)
        await rig.happens()  # meanwhile it does other things
        await until(lambda: len(rig.receiver.received) == 2)
        await frozen.rollback()
        await until_all_over(rig.jobs, rig.tenant)

    assert sorted(one.status for one in await rig.deliveries()) == ["DELIVERED", "FAILED"]


async def test_a_delivery_ends_when_its_job_takes_too_long(rig: Rig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    rig.handler.timeout = 0.05
    rig.handler.retry = Retry(attempts=2, first_delay=0.0)
    await rig.happens()

    await rig.work()

    delivery = await rig.delivery()
    assert (delivery.status, await rig.job_status()) == ("FAILED", "DEAD_LETTER")
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "JOB_TIMEOUT"


async def test_a_slow_endpoint_leaves_room_for_other_tenants(
    rig: Rig, database: Database, other_tenant: TenantId
) -> None:
    rig.receiver.reply = lambda got: Reply(raw=b"", then_wait=True) if got.target == "/hook" else Reply()
    await rig.happens(10)
    async with database.tenant(other_tenant) as conn:
        quick = await webhooks.create(conn, other_tenant, url=rig.receiver.url + "/quick", act=rig.act)
        asked = await webhooks.test(conn, other_tenant, quick.webhook_endpoint_id, act=rig.act)

    async with working(rig.jobs):
        await until(lambda: "/hook/quick" in [got.target for got in rig.receiver.received], seconds=10)

    waited_for = [got.headers["webhook-id"] for got in rig.receiver.received]
    assert waited_for.index(str(asked.webhook_delivery_id)) <= 4


async def test_servers_that_hang_keep_no_other_job_waiting(
    rig: Rig, database: Database, other_tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    """Of two tenants, webhooks and ingestions each; a third one's document is read at once."""
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    third = await tenants.create(database, slug="third", name="Third", act=act)
    settings = Settings(
        env="test",
        data_dir=tmp_path,
        outbound_allow=("127.0.0.1",),
        jobs_concurrency=1,
        jobs_cpu_processes=1,
        jobs_stop_grace_seconds=1,
    )
    work = assembled(settings, signer=lambda _: None)
    await rig.happens(3)
    async with database.tenant(other_tenant) as conn:
        for _ in range(3):
            theirs = await webhooks.create(conn, other_tenant, url=rig.receiver.url, act=act)
            await webhooks.test(conn, other_tenant, theirs.webhook_endpoint_id, act=act)
    async with sessions_of(database) as sessions:
        jobs = Jobs(work.handlers, sessions)
        for each in (rig.tenant, other_tenant):
            order = IngestOrder(document_id=fresh.new_id(), file_url=rig.receiver.url, mime_type=None, actor_id=None)
            for _ in range(3):
                await jobs.submit(work.errands.ingest, order, tenant=each, limit=LIMIT)
        async with run.working(settings, database, signer=lambda _: None):
            await until(lambda: len(rig.receiver.received) == 8)
            began = time.monotonic()
            unknown = ParseOrder(document_version_id=fresh.new_id(), actor_id=None)
            job = await jobs.submit(work.steps.parse, unknown, tenant=third)
            await until_status(jobs, third, job, "FAILED", seconds=allowed(5))
            assert time.monotonic() - began < allowed(5)

    assert len(rig.receiver.received) == 8  # two of each kind and tenant


async def test_how_deliveries_end_is_counted(rig: Rig) -> None:
    metrics = Metrics()
    handlers, guard = Handlers(), Guard(allow=("127.0.0.1",), https_only=False, longest=0.5)
    rig.handler = deliver_job(handlers, guard=guard, opening=rig.database.tenant, count=StepMetrics(metrics.registry))
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    rig.jobs = Jobs(handlers, rig.jobs.sessions, metrics=metrics)

    def counted() -> dict[str, float | None]:
        name = "bpc_webhook_deliveries_total"
        return {status: metrics.registry.get_sample_value(name, {"status": status}) for status in SENT}

    assert counted() == {"DELIVERED": 0, "FAILED": 0, "RETRIED": 0}
    for statuses in ((204,), (503, 204), (400,), (503,)):
        rig.receiver.reply = answers(*statuses)
        await rig.happens()
        await rig.work()

    assert counted() == {"DELIVERED": 2, "FAILED": 2, "RETRIED": 1 + 4}


async def test_whoever_only_submits_jobs_does_not_deliver(rig: Rig) -> None:
    rig.handler.run = deliver_job(Handlers(), guard=Guard(), opening=None, count=Uncounted()).run
    await rig.happens()

    ran = await rig.once()

    assert ran.error is not None
    assert "webhooks are delivered by a worker" in ran.error.message
