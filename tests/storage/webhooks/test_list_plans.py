"""Lists of webhook endpoints, subscriptions and deliveries are read from an index."""

import json
from typing import Final

import asyncpg
from tests.jobs.support.query_plans import Node, flatten_nodes

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import Database
from bpc.storage.webhooks import deliveries
from bpc.storage.webhooks import endpoints as webhooks
from tests.storage.rows import insert_event

URL: Final = "https://example.com/hooks"


MANY: Final = 20_000


FILL_ENDPOINTS: Final = """
    INSERT INTO webhook_endpoints (tenant_id, webhook_endpoint_id, url, secret_base64, created_at)
    SELECT $1, gen_random_uuid(), 'https://example.com', 'AAAA', '2026-01-01 UTC'::timestamptz + n * interval '1 s'
      FROM generate_series(1, $2::int) AS n
"""


FILL_SUBSCRIPTIONS: Final = """
    INSERT INTO webhook_subscriptions (tenant_id, webhook_subscription_id, webhook_endpoint_id, event_type, created_at)
    SELECT tenant_id, gen_random_uuid(), webhook_endpoint_id, 'passport.version.active', created_at
      FROM webhook_endpoints WHERE tenant_id = $1
"""


# What is looked for is common, but long ago: the newer half is of another endpoint and status.
FILL_DELIVERIES: Final = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status, created_at)
    SELECT $1, gen_random_uuid(), CASE WHEN n > $2 / 2 THEN $4::uuid ELSE $3::uuid END, $5,
           CASE WHEN n > $2 / 2 THEN 'DELIVERED' WHEN n % 2 = 0 THEN 'PENDING' ELSE 'FAILED' END,
           '2026-01-01 UTC'::timestamptz + n * interval '1 s'
      FROM generate_series(1, $2::int) AS n
"""


async def test_every_list_is_read_from_its_index(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        event = await insert_event(conn, tenant, act)
        mine, other = [
            (await webhooks.create_endpoint(conn, tenant, url=URL, act=act)).webhook_endpoint_id for _ in range(2)
        ]
    await superuser.execute(FILL_DELIVERIES, tenant, MANY, mine, other, event)
    await superuser.execute(FILL_ENDPOINTS, tenant, MANY)
    await superuser.execute(FILL_SUBSCRIPTIONS, tenant)
    await superuser.execute("VACUUM ANALYZE webhook_endpoints, webhook_subscriptions, webhook_deliveries")

    for statement, filters, index, most in (
        (webhooks.SELECT_ENDPOINT_PAGE, (), "webhook_endpoints_by_time", 51),
        (webhooks.SELECT_SUBSCRIPTION_PAGE, (), "webhook_subscriptions_by_time", 51),
        (webhooks.SELECT_SUBSCRIPTION_PAGE_OF_ENDPOINT, (mine,), "webhook_subscriptions_event_key", 6),
        (deliveries.SELECT_DELIVERY_PAGE, (), "webhook_deliveries_by_time", 51),
        (deliveries.SELECT_DELIVERY_PAGE_BY_ENDPOINT, (mine,), "webhook_deliveries_by_endpoint", 51),
        (deliveries.SELECT_DELIVERY_PAGE_BY_STATUS, ("FAILED",), "webhook_deliveries_by_status", 51),
        (
            deliveries.SELECT_DELIVERY_PAGE_BY_ENDPOINT_AND_STATUS,
            (mine, "FAILED"),
            "webhook_deliveries_by_endpoint_status",
            51,
        ),
    ):
        async with database.tenant(tenant) as conn:
            scan = await _explain_scan(conn, statement, tenant, *PageQuery.after_cursor(None, 51), *filters)
        assert (scan.kind, scan.index) == ("Index Scan", index), scan
        assert int(scan.raw["Actual Rows"]) + int(scan.raw.get("Rows Removed by Filter", 0)) <= most, scan


async def _explain_scan(conn: Connection, statement: str, *arguments: object) -> Node:
    text = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    [scan] = [node for node in flatten_nodes(json.loads(text)[0]["Plan"]) if node.relation is not None]
    return scan
