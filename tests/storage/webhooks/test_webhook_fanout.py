"""Announcing events: a delivery and a job for each who wants to know, with the event or not at all."""

import asyncio
import json
import statistics
import time
from typing import Any, TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId, WebhookEndpointId
from bpc.core.webhooks import ANNOUNCED, WebhookType
from bpc.db import announcing, events, webhooks
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.errands.deliver import Uncounted, deliver_job
from bpc.jobs import LOW, Handlers
from bpc.outbound import Guard
from tests.jobs.test_explain import nodes_of, on
from tests.measuring import Measured, effort

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
LEFT = """
    SELECT d.webhook_endpoint_id, d.event_id, d.status, j.type, j.idempotency_key, j.payload::text, j.max_attempts,
           j.keep_seconds, j.priority
      FROM webhook_deliveries d
      LEFT JOIN jobs.job j ON j.tenant_id = d.tenant_id AND j.idempotency_key = 'webhook:' || d.webhook_delivery_id
"""


async def endpoint(conn: Connection, tenant: TenantId, act: Act, *types: WebhookType) -> WebhookEndpointId:
    made = await webhooks.create(conn, tenant, url="https://example.com/hook", act=act)
    for webhook_type in types:
        await webhooks.subscribe(conn, tenant, made.webhook_endpoint_id, webhook_type, act=act)
    return made.webhook_endpoint_id


async def happens(conn: Connection, tenant: TenantId, act: Act, event_type: str = "PASSPORT_SIGNED") -> Any:
    stream = Stream(tenant, "PassportVersion", AggregateId(fresh.new_id()))
    return (await events.append(conn, stream, act.says(event_type, {}))).event_id


async def test_everybody_who_is_subscribed_is_told_and_nobody_else(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(other_tenant) as conn:
        await endpoint(conn, other_tenant, act, "passport.version.signed")
    async with database.tenant(tenant) as conn:
        told = {await endpoint(conn, tenant, act, "passport.version.signed", "rules.version.published") for _ in "ab"}
        await endpoint(conn, tenant, act, "passport.version.active")
        deleted = await endpoint(conn, tenant, act, "passport.version.signed")
        await webhooks.deactivate(conn, tenant, deleted, act=act)

        event = await happens(conn, tenant, act)

    rows = await superuser.fetch(LEFT)
    assert {row["webhook_endpoint_id"] for row in rows} == told
    assert len(rows) == 2
    assert {(row["event_id"], row["status"], row["type"]) for row in rows} == {(event, "PENDING", "DELIVER_WEBHOOK")}
    for row in rows:
        delivery = row["idempotency_key"].removeprefix("webhook:")
        assert json.loads(row["payload"]) == {"webhook_delivery_id": delivery}


@pytest.mark.parametrize("event_type", sorted(ANNOUNCED))
async def test_each_event_is_announced_under_its_own_name(
    database: Database, tenant: TenantId, act: Act, superuser: Admin, event_type: str
) -> None:
    async with database.tenant(tenant) as conn:
        mine = await endpoint(conn, tenant, act, ANNOUNCED[event_type])
        await endpoint(conn, tenant, act, *(other for name, other in ANNOUNCED.items() if name != event_type))
        await happens(conn, tenant, act, event_type)
        await happens(conn, tenant, act, "PASSPORT_COMPILED")

    assert [row["webhook_endpoint_id"] for row in await superuser.fetch(LEFT)] == [mine]


async def test_an_event_that_is_rolled_back_is_announced_to_nobody(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(tenant) as conn:
        await endpoint(conn, tenant, act, "passport.version.signed")
    with pytest.raises(ZeroDivisionError):
        async with database.tenant(tenant) as conn:
            await happens(conn, tenant, act)
            raise ZeroDivisionError

    assert await superuser.fetch(LEFT) == []
    assert await superuser.fetchval("SELECT count(*) FROM jobs.job") == 0


async def test_workers_announce_as_requests_do(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.system(tenant) as conn:
        await endpoint(conn, tenant, act, "passport.version.signed")
        await happens(conn, tenant, act)

    assert len(await superuser.fetch(LEFT)) == 1


async def test_the_jobs_are_made_as_their_handler_says(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    handler = deliver_job(Handlers(), guard=Guard(), opening=None, count=Uncounted())
    async with database.tenant(tenant) as conn:
        await endpoint(conn, tenant, act, "passport.version.signed")
        await happens(conn, tenant, act)

    [row] = await superuser.fetch(LEFT)

    assert handler.ttl is not None
    made = (row["type"], row["max_attempts"], row["keep_seconds"], row["priority"])
    assert made == (handler.type, handler.retry.attempts, int(handler.ttl.total_seconds()), LOW)
    assert handler.read_input(row["payload"]) is not None


async def test_many_who_announce_at_once_to_the_same_endpoints_do_not_wait_for_each_other_in_a_circle(
    database: Database, tenant: TenantId, act: Act, superuser: Admin
) -> None:
    async with database.tenant(tenant) as conn:
        for _ in range(3):
            await endpoint(conn, tenant, act, "passport.version.signed")

    async def several() -> None:
        async with database.tenant(tenant) as conn:
            for _ in range(5):
                await happens(conn, tenant, act)

    await asyncio.gather(*(several() for _ in range(8)))

    rows = await superuser.fetch(LEFT)
    assert len(rows) == 8 * 5 * 3
    assert all(row["idempotency_key"] for row in rows)


async def test_who_is_told_is_found_in_an_index(database: Database, tenant: TenantId, superuser: Admin) -> None:
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
        asked = tenant, "passport.version.signed", fresh.new_id()
        text = await conn.fetchval("EXPLAIN (FORMAT JSON) " + announcing.FAN_OUT, *asked)

    nodes = list(nodes_of(json.loads(text)[0]["Plan"]))
    assert [node.index for node in on(nodes, "webhook_subscriptions")] == ["webhook_subscriptions_by_event"]
    assert [node.index for node in on(nodes, "webhook_endpoints")] == ["webhook_endpoints_pkey"]


async def test_without_a_subscription_an_announced_event_costs_hardly_more(
    database: Database, tenant: TenantId, act: Act, measured: Measured
) -> None:
    times: dict[str, list[float]] = {"PASSPORT_SIGNED": [], "PASSPORT_COMPILED": []}
    async with database.tenant(tenant) as conn:
        for _ in range(effort(test=100, shown=2000, campaign=2000)):
            for event_type, taken in times.items():
                began = time.perf_counter()
                await happens(conn, tenant, act, event_type)
                taken.append(time.perf_counter() - began)

    announced, silent = (statistics.median(taken) * 1e6 for taken in times.values())
    measured("webhook-announcing", announced_microseconds=round(announced), silent_microseconds=round(silent))
    assert announced - silent < 2_000
