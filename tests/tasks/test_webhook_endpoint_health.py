"""Specification of endpoints that fail: what is retried, for how long, when they are disabled, what they missed."""

import json
from datetime import timedelta

import pytest
from service_jobs import Handlers, Jobs, Metrics
from service_jobs.job import Ending

from bpc.core.audit.events import EventStream
from bpc.core.errors import Conflict
from bpc.core.formats.ids import AggregateId
from bpc.outbound import Guard
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.webhooks import endpoint_health, endpoints, redeliveries
from bpc.storage.webhooks.endpoints import EndpointRow
from bpc.storage.webhooks.redeliveries import QueuedRedeliveries
from bpc.storage.webhooks.webhook_retries import MIN_FAILED_ATTEMPTS
from bpc.tasks.deliver_webhooks import declare_deliver_job
from bpc.worker.monitoring import DISABLING_CAUSES, PipelineMetrics
from tests.outbound.receiver import Reply
from tests.tasks.delivery_rig import Admin, DeliveryRig, answer_with

LONG_AGO = "UPDATE webhook_endpoints SET failing_since = failing_since - interval '120 hours', failed_attempts = $1"


async def _get_endpoint(rig: DeliveryRig) -> EndpointRow:
    async with rig.database.tenant(rig.tenant) as conn:
        return await endpoints.get_endpoint(conn, rig.tenant, rig.endpoint)


async def _change(rig: DeliveryRig, *, timeout_seconds: int | None = None, retry_client_errors: bool = False) -> None:
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoints.change_endpoint(
            conn,
            rig.tenant,
            rig.endpoint,
            timeout_seconds=timeout_seconds,
            retry_client_errors=retry_client_errors,
            act=rig.act,
        )


async def _redeliver_failed(rig: DeliveryRig, limit: int = 1000) -> QueuedRedeliveries:
    async with rig.database.tenant(rig.tenant) as conn:
        since = clock.now() - timedelta(days=1)
        return await redeliveries.redeliver_failed(
            conn, rig.tenant, rig.endpoint, since=since, limit=limit, act=rig.act
        )


async def test_an_endpoint_that_is_set_so_has_client_errors_retried(rig: DeliveryRig) -> None:
    await _change(rig, retry_client_errors=True)
    rig.receiver.reply = answer_with(404)
    await rig.append_events()

    ran = await rig.run_once()

    assert ran.ending is Ending.RETRY
    assert ((await rig.delivery()).status, (await rig.delivery()).response_status) == ("PENDING", 404)


async def test_an_endpoint_has_a_timeout_of_its_own(rig: DeliveryRig) -> None:
    await _change(rig, timeout_seconds=1)
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.append_events()

    ran = await rig.run_once()

    assert ran.ending is Ending.RETRY
    assert ran.error is not None
    assert ran.error.message == f"`127.0.0.1:{rig.receiver.port}` did not answer within 1 s"


async def test_failed_attempts_are_counted_until_one_arrives(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(503, 500, 204)
    await rig.append_events()

    await rig.run_once()
    first = await _get_endpoint(rig)
    await rig.run_once(attempt=2)
    second = await _get_endpoint(rig)
    await rig.run_once(attempt=3)
    third = await _get_endpoint(rig)

    assert (first.failed_attempts, second.failed_attempts, third.failed_attempts) == (1, 2, 0)
    assert first.failing_since is not None
    assert (second.failing_since, third.failing_since) == (first.failing_since, None)


@pytest.mark.parametrize("status", [503, 404])
async def test_an_endpoint_that_fails_persistently_is_disabled_with_an_event_and_a_notice(
    rig: DeliveryRig, superuser: Admin, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async with rig.database.tenant(rig.tenant) as conn:  # somebody who is told
        other = await endpoints.create_endpoint(conn, rig.tenant, url=rig.receiver.url + "/operator", act=rig.act)
        await endpoints.subscribe(conn, rig.tenant, other.webhook_endpoint_id, "webhook.endpoint.disabled", act=rig.act)
    rig.receiver.reply = lambda got: Reply(status=204 if got.target == "/hook/operator" else status)
    await rig.append_events()
    await rig.run_due_jobs(superuser)
    await superuser.execute(LONG_AGO, MIN_FAILED_ATTEMPTS)
    assert (await _get_endpoint(rig)).is_active

    await rig.append_events()
    await rig.run_due_jobs(superuser)
    await rig.run_due_jobs(superuser)

    endpoint = await _get_endpoint(rig)
    assert not endpoint.is_active
    assert endpoint.disabled_at is not None
    assert endpoint.disabled_reason is not None
    assert endpoint.disabled_reason.endswith("attempts failed for 120 hours")
    async with rig.database.tenant(rig.tenant) as conn:
        chain = await events.read_chain(conn, EventStream(rig.tenant, "WebhookEndpoint", AggregateId(rig.endpoint)))
    assert [stored.event.event_type for stored in chain].count("WEBHOOK_ENDPOINT_DISABLED") == 1
    [notice] = [record for record in caplog.records if getattr(record, "notice", "") == "webhook_endpoint_disabled"]
    assert (notice.levelname, notice.__dict__["reason"]) == ("WARNING", endpoint.disabled_reason)
    assert notice.__dict__["webhook_endpoint_id"] == str(rig.endpoint)
    [told] = [got for got in rig.receiver.received if got.target == "/hook/operator"]
    body = json.loads(told.body)
    assert (body["event_type"], body["data"]["aggregate_id"]) == ("webhook.endpoint.disabled", str(rig.endpoint))
    assert body["data"]["payload"]["reason"] == endpoint.disabled_reason


async def test_after_enabling_an_endpoint_gets_what_failed_and_what_it_missed_once(rig: DeliveryRig) -> None:
    rig.receiver.reply = answer_with(404)
    await rig.append_events(2)
    await rig.run_worker()  # both fail
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoint_health.require_disabled(conn, rig.tenant, rig.endpoint, reason="maintenance", act=rig.act)
    await rig.append_events(3)  # nobody is told of these
    rig.receiver.reply = answer_with(204)
    rig.receiver.received.clear()
    with pytest.raises(Conflict, match="is disabled: maintenance"):
        await _redeliver_failed(rig)
    async with rig.database.tenant(rig.tenant) as conn:
        await endpoint_health.enable_endpoint(conn, rig.tenant, rig.endpoint, reason=None, act=rig.act)
    await rig.append_events()  # is told at once, as ever

    first = await _redeliver_failed(rig, limit=4)
    second = await _redeliver_failed(rig, limit=4)
    third = await _redeliver_failed(rig)
    await rig.run_worker()

    assert [(each.queued, each.has_more) for each in (first, second, third)] == [(4, True), (2, False), (0, False)]
    told = [json.loads(got.body)["event_id"] for got in rig.receiver.received]
    # Enabling is an event as well, and the endpoint is subscribed to it. It was told of the disabling only now.
    passports = {str(event.event_id) for event in rig.events}
    assert len(told) == len(set(told)) == len(passports) + 2
    assert passports < set(told)
    assert (await _redeliver_failed(rig)).queued == 0
    repeated = [delivery.redelivery_of for delivery in await rig.deliveries() if delivery.redelivery_of is not None]
    assert len(repeated) == 2


async def test_a_deleted_endpoint_is_never_enabled_and_an_active_one_need_not_be(rig: DeliveryRig) -> None:
    async with rig.database.tenant(rig.tenant) as conn:
        with pytest.raises(Conflict, match="is active"):
            await endpoint_health.enable_endpoint(conn, rig.tenant, rig.endpoint, reason=None, act=rig.act)
        await endpoint_health.require_disabled(conn, rig.tenant, rig.endpoint, reason="x", act=rig.act)
        with pytest.raises(Conflict, match="is disabled: x"):
            await endpoint_health.require_disabled(conn, rig.tenant, rig.endpoint, reason="y", act=rig.act)
        await endpoints.deactivate_endpoint(conn, rig.tenant, rig.endpoint, act=rig.act)
        with pytest.raises(Conflict, match="no longer active"):
            await endpoint_health.enable_endpoint(conn, rig.tenant, rig.endpoint, reason=None, act=rig.act)


@pytest.mark.parametrize(("status", "counts"), [(503, {"FAILING": 1, "GONE": 0}), (410, {"FAILING": 0, "GONE": 1})])
async def test_endpoints_that_are_disabled_are_counted_by_cause(
    rig: DeliveryRig, superuser: Admin, status: int, counts: dict[str, float]
) -> None:
    metrics, handlers = Metrics(), Handlers()
    guard = Guard(allow=("127.0.0.1",), https_only=False, max_seconds=30.0)
    rig.handler = declare_deliver_job(
        handlers, guard=guard, open_transaction=rig.database.tenant, metrics=PipelineMetrics(metrics.registry)
    )
    rig.jobs = Jobs(handlers, rig.jobs.sessions, metrics=metrics)

    def count_disabled() -> dict[str, float | None]:
        name = "bpc_webhook_endpoints_disabled_total"
        return {cause: metrics.registry.get_sample_value(name, {"cause": cause}) for cause in DISABLING_CAUSES}

    assert count_disabled() == {"FAILING": 0, "GONE": 0}
    rig.receiver.reply = answer_with(503)
    await rig.append_events()
    await rig.run_due_jobs(superuser)
    await superuser.execute(LONG_AGO, MIN_FAILED_ATTEMPTS)

    rig.receiver.reply = answer_with(status)
    await rig.append_events(2)
    await rig.run_due_jobs(superuser)

    assert count_disabled() == counts
