"""Sending events again: one delivery, or everything that an endpoint has missed since a time.

A redelivery is a new delivery, which names the one it repeats. An event that is on its way, or has arrived, is not sent
again by `redeliver_failed`, so that it can be repeated.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

import orjson

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.formats.timestamps import format_time
from bpc.core.webhooks import WEBHOOK_TYPES
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.webhooks import deliveries, endpoints, webhook_fanout
from bpc.storage.webhooks.endpoints import EndpointInactive
from bpc.storage.webhooks.webhook_fanout import QueuedDelivery

MAX_REDELIVERIES: Final = 1000  # of one call
# A delivery has the time at which its transaction began, which may be earlier than the time of its event.
CLOCK_MARGIN: Final = timedelta(hours=1)

JOB_IS_QUEUED: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM jobs.job
                    WHERE tenant_id = $1 AND type = $2 AND idempotency_key = $3 AND status = 'QUEUED')
"""
# `missed`: the endpoint is subscribed to the event's type, but was disabled when it occurred.
INSERT_REDELIVERIES: Final[LiteralString] = """
    WITH known AS MATERIALIZED (
      SELECT d.event_id, bool_or(d.status <> 'FAILED') AS is_taken,
             (array_agg(d.webhook_delivery_id ORDER BY d.created_at DESC))[1] AS newest
        FROM webhook_deliveries d
       WHERE d.tenant_id = $1 AND d.webhook_endpoint_id = $2 AND d.created_at >= $4
       GROUP BY d.event_id),
    missed AS (
      SELECT e.event_id, e.occurred_at, NULL::uuid AS newest
        FROM webhook_subscriptions s
        JOIN unnest($5::text[], $6::text[]) AS t(event_type, webhook_type) ON t.webhook_type = s.event_type
        JOIN events e ON e.tenant_id = $1 AND e.event_type = t.event_type AND e.occurred_at >= $3
             AND e.occurred_at >= s.created_at
       WHERE s.tenant_id = $1 AND s.webhook_endpoint_id = $2
         AND NOT EXISTS (SELECT FROM known k WHERE k.event_id = e.event_id)),
    failed AS (
      SELECT e.event_id, e.occurred_at, k.newest
        FROM known k JOIN events e ON e.tenant_id = $1 AND e.event_id = k.event_id
       WHERE NOT k.is_taken AND e.occurred_at >= $3 AND e.event_type = ANY ($5::text[])),
    wanted AS MATERIALIZED (
      SELECT event_id, occurred_at, newest FROM (SELECT * FROM missed UNION ALL SELECT * FROM failed) AS each
       ORDER BY occurred_at, event_id LIMIT $7 + 1),
    inserted AS (
      INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status,
                                      redelivery_of)
      SELECT $1, gen_random_uuid(), $2, event_id, 'PENDING', newest
        FROM (SELECT * FROM wanted ORDER BY occurred_at, event_id LIMIT $7) AS first_ones
      RETURNING webhook_delivery_id, event_id)
    SELECT i.webhook_delivery_id, (SELECT count(*) FROM wanted) > $7 AS has_more
      FROM inserted i JOIN wanted w ON w.event_id = i.event_id
     ORDER BY w.occurred_at, w.event_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRedeliveries:
    """How many deliveries were queued, and whether there are more events to send."""

    queued: int
    has_more: bool


async def redeliver(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId, *, act: Act) -> QueuedDelivery:
    """Queue a new delivery of the same event to the same endpoint, and append an event."""
    original = await deliveries.get_delivery(conn, tenant, delivery_id)
    if original.status == "PENDING":
        await _fail_abandoned(conn, tenant, delivery_id)
    endpoint = original.webhook_endpoint_id
    await endpoints.require_active_endpoint(conn, tenant, endpoint)
    redelivery = await webhook_fanout.enqueue_delivery(
        conn, tenant, endpoint, original.event_id, redelivery_of=delivery_id
    )
    payload = {"webhook_delivery_id": str(redelivery.webhook_delivery_id), "redelivery_of": str(delivery_id)}
    await events.append_act(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_REDELIVERED", payload)
    return redelivery


async def redeliver_failed(
    conn: Connection,
    tenant: TenantId,
    endpoint: WebhookEndpointId,
    *,
    since: datetime,
    limit: int = MAX_REDELIVERIES,
    act: Act,
) -> QueuedRedeliveries:
    """Queue the events since a time that an endpoint has not received, the oldest first, and append an event.

    That is each event whose deliveries have all failed, and each that occurred while the endpoint was disabled.
    """
    row = await endpoints.lock_endpoint(conn, tenant, endpoint)  # two calls at once queue each event once
    if not row.is_active:
        raise EndpointInactive(endpoint, row.disabled_reason)
    types = list(WEBHOOK_TYPES), list(WEBHOOK_TYPES.values())
    rows = await conn.fetch(INSERT_REDELIVERIES, tenant, endpoint, since, since - CLOCK_MARGIN, *types, limit)
    if not rows:
        return QueuedRedeliveries(queued=0, has_more=False)
    await webhook_fanout.submit_deliveries(conn, tenant, rows)
    payload = {"since": format_time(since), "queued": len(rows), "has_more": rows[0]["has_more"]}
    await events.append_act(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_FAILED_REDELIVERED", payload)
    return QueuedRedeliveries(queued=len(rows), has_more=rows[0]["has_more"])


async def _fail_abandoned(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId) -> None:
    """Set a delivery to FAILED that an earlier build left PENDING after a cancellation; refuse if it is queued."""
    key = webhook_fanout.delivery_job_key(delivery_id)
    if await conn.fetchval(JOB_IS_QUEUED, tenant, webhook_fanout.JOB_TYPE, key):
        raise Conflict(f"webhook delivery `{delivery_id}` is in progress", fix="wait until it is DELIVERED or FAILED")
    error = {"code": "JOB_CANCELLED", "message": "its job was cancelled", "retryable": False}
    await deliveries.set_delivery_failed(conn, tenant, delivery_id, orjson.dumps(error).decode())
