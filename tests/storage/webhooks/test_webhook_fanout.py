"""Webhook fan-out: a delivery and a job for each subscribed endpoint, in the transaction of the event."""

import asyncio
import json
import statistics
import time
from typing import Any, TypeAlias

import asyncpg
import pytest
from service_jobs import LOW, Handlers
from tests.jobs.support.query_plans import flatten_nodes, list_nodes_on

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId, WebhookEndpointId
from bpc.core.webhooks import WEBHOOK_TYPES, WebhookType
from bpc.outbound import Guard
from bpc.runtime import clock
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.webhooks import endpoints, webhook_fanout
from bpc.storage.webhooks.webhook_fanout import KEEP_JOBS
from bpc.tasks.deliver_webhooks import declare_deliver_job
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
SELECT_DELIVERIES_AND_JOBS = """
    SELECT d.webhook_endpoint_id, d.event_id, d.status, j.type, j.idempotency_key, j.payload::text, j.max_attempts,
           j.keep_seconds, j.priority
      FROM webhook_deliveries d
      LEFT JOIN jobs.job j ON j.tenant_id = d.tenant_id AND j.idempotency_key = 'webhook:' || d.webhook_delivery_id
"""


async def create_subscribed_endpoint(
    conn: Connection, tenant: TenantId, act: Act, *types: WebhookType
) -> WebhookEndpointId:
    endpoint = await endpoints.create_endpoint(conn, tenant, url="https://example.com/hook", act=act)
    for webhook_type in types:
        await endpoints.subscribe(conn, tenant, endpoint.webhook_endpoint_id, webhook_type, act=act)
    return endpoint.webhook_endpoint_id


async def append_event(conn: Connection, tenant: TenantId, act: Act, event_type: str = "PASSPORT_SIGNED") -> Any:
    """Append an event as the product does: announced if webhooks announce its type."""
    append = webhook_fanout.append_and_announce if event_type in WEBHOOK_TYPES else events.append_act
    return (await append(conn, act, tenant, "PassportVersion", clock.new_id(), event_type, {})).event_id


async def test_an_event_is_sent_to_every_subscribed_endpoint_and_to_no_other(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(other_tenant) as conn:
        await create_subscribed_endpoint(conn, other_tenant, act, "passport.version.signed")
    async with database.tenant(tenant) as conn:
        subscribed = {
            await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed", "rules.version.published")
            for _ in "ab"
        }
        await create_subscribed_endpoint(conn, tenant, act, "passport.version.active")
        deleted = await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed")
        await endpoints.deactivate_endpoint(conn, tenant, deleted, act=act)

        event = await append_event(conn, tenant, act)

    rows = await superuser.fetch(SELECT_DELIVERIES_AND_JOBS)
    assert {row["webhook_endpoint_id"] for row in rows} == subscribed
    assert len(rows) == 2
    assert {(row["event_id"], row["status"], row["type"]) for row in rows} == {(event, "PENDING", "DELIVER_WEBHOOK")}
    for row in rows:
        delivery = row["idempotency_key"].removeprefix("webhook:")
        assert json.loads(row["payload"]) == {"webhook_delivery_id": delivery}


@pytest.mark.parametrize("event_type", sorted(WEBHOOK_TYPES))
async def test_each_announced_type_is_sent_only_to_endpoints_subscribed_to_it(
    database: Database, tenant: TenantId, act: Act, superuser: Admin, event_type: str
) -> None:
    async with database.tenant(tenant) as conn:
        mine = await create_subscribed_endpoint(conn, tenant, act, WEBHOOK_TYPES[event_type])
        others = set(WEBHOOK_TYPES.values()) - {WEBHOOK_TYPES[event_type]}
        await create_subscribed_endpoint(conn, tenant, act, *sorted(others))
        await append_event(conn, tenant, act, event_type)
        await append_event(conn, tenant, act, "PASSPORT_COMPILED")

    assert [row["webhook_endpoint_id"] for row in await superuser.fetch(SELECT_DELIVERIES_AND_JOBS)] == [mine]


async def test_an_event_that_is_rolled_back_is_announced_to_nobody(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(tenant) as conn:
        await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed")
    with pytest.raises(ZeroDivisionError):
        async with database.tenant(tenant) as conn:
            await append_event(conn, tenant, act)
            raise ZeroDivisionError

    assert await superuser.fetch(SELECT_DELIVERIES_AND_JOBS) == []
    assert await superuser.fetchval("SELECT count(*) FROM jobs.job") == 0


async def test_an_event_of_a_worker_is_announced_like_one_of_a_request(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.system(tenant) as conn:
        await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed")
        await append_event(conn, tenant, act)

    assert len(await superuser.fetch(SELECT_DELIVERIES_AND_JOBS)) == 1


async def test_the_jobs_have_the_attempts_and_the_priority_of_their_handler(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    handler = declare_deliver_job(Handlers(), guard=Guard(), open_transaction=database.tenant, metrics=JobMetrics())
    async with database.tenant(tenant) as conn:
        await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed")
        await append_event(conn, tenant, act)

    [row] = await superuser.fetch(SELECT_DELIVERIES_AND_JOBS)

    job_settings = (row["type"], row["max_attempts"], row["keep_seconds"], row["priority"])
    assert job_settings == (handler.type, handler.retry.attempts, int(KEEP_JOBS.total_seconds()), LOW)
    assert handler.decode_input(row["payload"]) is not None


async def test_concurrent_fanouts_to_the_same_endpoints_do_not_deadlock(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(tenant) as conn:
        for _ in range(3):
            await create_subscribed_endpoint(conn, tenant, act, "passport.version.signed")

    async def append_five() -> None:
        async with database.tenant(tenant) as conn:
            for _ in range(5):
                await append_event(conn, tenant, act)

    await asyncio.gather(*(append_five() for _ in range(8)))

    rows = await superuser.fetch(SELECT_DELIVERIES_AND_JOBS)
    assert len(rows) == 8 * 5 * 3
    assert all(row["idempotency_key"] for row in rows)


async def test_subscribed_endpoints_are_read_from_an_index(
    database: Database, tenant: TenantId, superuser: Admin
) -> None:
    await superuser.execute(
        """INSERT INTO webhook_endpoints (tenant_id, webhook_endpoint_id, url, secret_base64)
           SELECT $1, gen_random_uuid(), 'https://example.com', 'AAAA' FROM generate_series(1, 5000)""",
        tenant,
    )
    await superuser.execute(
        """INSERT INTO webhook_subscriptions (tenant_id, webhook_subscription_id, webhook_endpoint_id, event_type)
           SELECT tenant_id, gen_random_uuid(), webhook_endpoint_id, 'of kind ' || row_number() OVER () % 1000
             FROM webhook_endpoints"""
    )
    await superuser.execute("ANALYZE webhook_endpoints, webhook_subscriptions")
    async with database.tenant(tenant) as conn:
        arguments = tenant, "passport.version.signed", clock.new_id()
        text = await conn.fetchval("EXPLAIN (FORMAT JSON) " + webhook_fanout.INSERT_DELIVERIES, *arguments)

    nodes = list(flatten_nodes(json.loads(text)[0]["Plan"]))
    assert [node.index for node in list_nodes_on(nodes, "webhook_subscriptions")] == ["webhook_subscriptions_by_event"]
    assert [node.index for node in list_nodes_on(nodes, "webhook_endpoints")] == ["webhook_endpoints_pkey"]


async def test_without_a_subscription_an_announced_event_costs_hardly_more(
    database: Database, tenant: TenantId, act: Act, record_measurement: RecordMeasurement
) -> None:
    times: dict[str, list[float]] = {"PASSPORT_SIGNED": [], "PASSPORT_COMPILED": []}
    async with database.tenant(tenant) as conn:
        for _ in range(choose_effort(test=100, shown=2000, campaign=2000)):
            for event_type, taken in times.items():
                began = time.perf_counter()
                await append_event(conn, tenant, act, event_type)
                taken.append(time.perf_counter() - began)

    announced, silent = (statistics.median(taken) * 1e6 for taken in times.values())
    record_measurement("webhook-announcing", announced_microseconds=round(announced), silent_microseconds=round(silent))
    assert (announced - silent) / 1e6 < allow_seconds(0.002)


async def test_without_a_subscription_an_announced_event_costs_one_query_more(
    database: Database, tenant: TenantId, act: Act
) -> None:
    queries: list[str] = []
    counts: dict[str, int] = {}
    async with database.tenant(tenant) as conn:
        conn.add_query_logger(lambda record: queries.append(record.query))
        for event_type in ("PASSPORT_SIGNED", "PASSPORT_COMPILED"):
            queries.clear()
            await append_event(conn, tenant, act, event_type)
            await asyncio.sleep(0)  # the driver calls loggers in the next turn of the event loop
            counts[event_type] = len(queries)

    assert counts["PASSPORT_SIGNED"] == counts["PASSPORT_COMPILED"] + 1
