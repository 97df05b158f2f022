"""Specification of a webhook delivery's attempts: which answers are retried, which are final, and what is counted."""

import json

import pytest
from service_jobs import Handlers, Jobs, Metrics, Retry
from service_jobs.job import Ending

from bpc.core.audit.events import EventStream
from bpc.core.errors import Conflict
from bpc.core.formats.ids import (
    AggregateId,
)
from bpc.outbound import Guard
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.jobs import retry_job
from bpc.storage.webhooks import deliveries, endpoints
from bpc.storage.webhooks.webhook_retries import ATTEMPTS
from bpc.tasks.deliver_webhooks import declare_deliver_job
from bpc.worker.monitoring import DELIVERY_RESULTS, PipelineMetrics
from tests.outbound.receiver import Receiver, Reply
from tests.tasks.delivery_rig import Admin, DeliveryRig, answer_with


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_temporary_failure_is_retried_after_two_four_eight_and_sixteen_seconds_and_a_little(
    rig: DeliveryRig, status: int
) -> None:
    rig.receiver.reply = answer_with(status)
    await rig.append_events()

    ran = [await rig.run_once(attempt=attempt) for attempt in (1, 2, 3, 4)]

    assert {one.ending for one in ran} == {Ending.RETRY}
    for one, seconds in zip(ran, (2.0, 4.0, 8.0, 16.0), strict=True):
        assert seconds <= one.retry_in <= 1.2 * seconds
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("PENDING", 4, status)
    assert delivery.last_error is not None
    assert delivery.last_error["message"] == f"the endpoint answered {status}"
    assert delivery.last_error["details"] == {"status": status}


async def test_after_the_last_attempt_the_delivery_is_failed_and_the_job_a_dead_letter(
    rig: DeliveryRig, superuser: Admin
) -> None:
    rig.receiver.reply = answer_with(503)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.append_events()
    assert await superuser.fetchval("SELECT max_attempts FROM jobs.job") == ATTEMPTS == 40
    await superuser.execute("UPDATE jobs.job SET max_attempts = 5")

    await rig.run_worker()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, len(rig.receiver.received)) == ("FAILED", 5, 5)
    assert delivery.last_error is not None
    assert (delivery.last_error["code"], delivery.last_error["retryable"]) == ("OUTBOUND_FAILED", True)
    assert {got.headers["webhook-id"] for got in rig.receiver.received} == {str(delivery.webhook_delivery_id)}
    assert await rig.job_status() == "DEAD_LETTER"


async def test_a_delivery_that_arrives_after_failures_is_delivered(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(500, 429, 204)
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    await rig.append_events()

    await rig.run_worker()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("DELIVERED", 3, 204)
    assert delivery.last_error is not None  # of the last attempt that did not arrive
    assert delivery.last_error["details"] == {"status": 429}


@pytest.mark.parametrize(
    ("message", "rest"),
    [("90", 90.0), ("20000", 20_000.0), ("100000", 86_400.0), ("Fri, 01 Jan 2100 00:00:00 GMT", 86_400.0)],
)
async def test_an_endpoint_may_ask_for_a_longer_delay(rig: DeliveryRig, message: str, rest: float) -> None:
    rig.receiver.reply = answer_with(429, Retry_After=message)
    await rig.append_events()

    assert (await rig.run_once()).retry_in == rest


async def test_an_endpoint_may_not_ask_for_a_shorter_delay(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(429, Retry_After="1")
    await rig.append_events()

    assert (await rig.run_once()).retry_in >= 2.0


@pytest.mark.parametrize("send_seconds", [0.5])
async def test_a_delivery_without_an_answer_is_retried(rig: DeliveryRig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.append_events()

    ran = await rig.run_once()

    delivery = await rig.delivery()
    assert ran.ending is Ending.RETRY
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "REQUEST_TIMEOUT"
    assert delivery.last_error["message"] == f"`127.0.0.1:{rig.receiver.port}` did not answer within 0.5 s"
    assert (delivery.status, delivery.response_status) == ("PENDING", None)


async def test_the_error_says_that_the_server_closed_the_connection(rig: DeliveryRig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 2")
    await rig.append_events()

    ran = await rig.run_once()

    delivery = await rig.delivery()
    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.RETRY, "OUTBOUND_FAILED")
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "OUTBOUND_FAILED"
    assert delivery.last_error["message"] == (
        f"`127.0.0.1:{rig.receiver.port}` did not answer in HTTP, or stopped in the middle of its answer"
    )


@pytest.mark.parametrize("send_seconds", [0.5])
async def test_a_2xx_answer_with_an_unfinished_body_is_delivered(rig: DeliveryRig) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 200 -\r\nContent-Length: 9\r\n\r\nthan", then_wait=True)
    await rig.append_events()

    await rig.run_worker()

    delivery = await rig.delivery()
    async with rig.database.tenant(rig.tenant) as conn:
        response = await deliveries.load_response(conn, rig.tenant, delivery.webhook_delivery_id)
    assert response is not None
    assert (delivery.status, delivery.attempt, response.status) == ("DELIVERED", 1, 200)
    assert (response.body, response.is_cut) == (b"than", True)


# What is final -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 308, 400, 401, 404, 410, 422])
async def test_a_redirect_or_a_client_error_is_final(rig: DeliveryRig, status: int) -> None:
    async with Receiver() as elsewhere:
        rig.receiver.reply = answer_with(status, Location=elsewhere.url)
        await rig.append_events()

        await rig.run_worker()

        assert elsewhere.connections == 0
    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, delivery.response_status) == ("FAILED", 1, status)
    assert delivery.last_error is not None
    assert (delivery.last_error["code"], delivery.last_error["retryable"]) == ("REJECTED_BY_ENDPOINT", False)
    assert await rig.job_status() == "FAILED"


async def test_an_endpoint_that_answers_410_is_disabled_and_gets_nothing_more(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(410)
    await rig.append_events()
    await rig.run_worker()
    first = await rig.delivery()

    await rig.append_events()
    await rig.run_worker()

    async with rig.database.tenant(rig.tenant) as conn:
        endpoint_row = await endpoints.get_endpoint(conn, rig.tenant, rig.endpoint)
        chain = await events.read_chain(conn, EventStream(rig.tenant, "WebhookEndpoint", AggregateId(rig.endpoint)))
    assert not endpoint_row.is_active
    last = chain[-1].event
    assert last.event_type == "WEBHOOK_ENDPOINT_DISABLED"
    payload = json.loads(last.payload_canonical)
    assert payload["reason"] == endpoint_row.disabled_reason
    assert payload["reason"] == f"it answered 410 to delivery {first.webhook_delivery_id}"
    assert (payload["url"], payload["failed_attempts"]) == (rig.receiver.url, 1)
    assert (len(rig.receiver.received), len(await rig.deliveries())) == (1, 1)


async def test_deliveries_to_a_deleted_endpoint_fail(rig: DeliveryRig) -> None:
    await rig.append_events()
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoints.deactivate_endpoint(conn, rig.tenant, rig.endpoint, act=rig.act)

    await rig.run_worker()

    delivery = await rig.delivery()
    assert (delivery.status, delivery.attempt, rig.receiver.connections) == ("FAILED", 0, 0)
    assert delivery.last_error is not None
    assert delivery.last_error["message"] == f"webhook endpoint `{delivery.webhook_endpoint_id}` is no longer active"


async def test_an_internal_address_fails_without_a_connection(
    rig: DeliveryRig, database: Database, superuser: Admin
) -> None:
    strict = declare_deliver_job(
        Handlers(), guard=Guard(https_only=False), open_transaction=database.tenant, metrics=JobMetrics()
    )
    rig.handler.run = strict.run
    await rig.append_events()

    await rig.run_worker()

    delivery = await rig.delivery()
    assert (delivery.status, rig.receiver.connections) == ("FAILED", 0)
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "OUTBOUND_BLOCKED"


async def test_an_ended_delivery_never_changes(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(400)
    await rig.append_events()
    await rig.run_worker()

    with pytest.raises(Conflict, match="a delivery that has ended never changes"):
        async with rig.database.tenant(rig.tenant) as conn:
            await conn.execute("UPDATE webhook_deliveries SET status = 'DELIVERED'")
    async with rig.database.tenant(rig.tenant) as conn:
        await retry_job(conn, rig.tenant, await conn.fetchval("SELECT job_id FROM jobs.job"), act=rig.act)
    await rig.run_worker()

    assert len(rig.receiver.received) == 1
    assert ((await rig.delivery()).status, await rig.job_status()) == ("FAILED", "FAILED")


async def test_a_job_that_runs_again_after_its_delivery_sends_nothing(rig: DeliveryRig) -> None:
    await rig.append_events()
    await rig.run_worker()

    assert (await rig.run_once()).ending is Ending.SUCCEEDED
    assert len(rig.receiver.received) == 1


async def test_deliveries_are_counted_by_result(rig: DeliveryRig) -> None:
    metrics = Metrics()
    handlers, guard = Handlers(), Guard(allow=("127.0.0.1",), https_only=False, max_seconds=30.0)
    rig.handler = declare_deliver_job(
        handlers, guard=guard, open_transaction=rig.database.tenant, metrics=PipelineMetrics(metrics.registry)
    )
    rig.handler.retry = Retry(attempts=5, first_delay=0.0)
    rig.jobs = Jobs(handlers, rig.jobs.sessions, metrics=metrics)

    def counted() -> dict[str, float | None]:
        name = "bpc_webhook_deliveries_total"
        return {status: metrics.registry.get_sample_value(name, {"status": status}) for status in DELIVERY_RESULTS}

    assert counted() == {"DELIVERED": 0, "FAILED": 0, "RETRIED": 0}
    for statuses in ((204,), (503, 204), (400,), (503,)):
        rig.receiver.reply = answer_with(*statuses)
        await rig.append_events()
        await rig.run_worker()

    assert counted() == {"DELIVERED": 2, "FAILED": 2, "RETRIED": 1 + ATTEMPTS - 1}
