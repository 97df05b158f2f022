"""Announcing: an event that others are to be told of, and a delivery and a job for each who wants to know.

    events.append ─► announce ─► webhook_deliveries (PENDING) + DELIVER_WEBHOOK jobs, all in one transaction

So an event that is rolled back is announced to nobody, and one that is committed is announced to everybody who was
subscribed. Where nobody is, this costs one look into an index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

import asyncpg
import orjson

from bpc.core.events import Event
from bpc.core.ids import EventId, TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.webhooks import ANNOUNCED
from bpc.db.connection import Connection
from bpc.jobs import Limit
from bpc.jobs.ids import new_ids
from bpc.jobs.submitting import LOW, Manner, Rows, submit
from bpc.jobs.tracing import traceparent_now

# How the jobs are made, here, and what their handler says of them (bpc.errands.deliver), is one and the same.
JOB_TYPE: Final = "DELIVER_WEBHOOK"
ATTEMPTS: Final = 5
KEPT: Final = timedelta(days=14)
LIMIT: Final = Limit(key="webhooks", at_most=2)  # one tenant's endpoints that hang leave room for others

FAN_OUT: Final[LiteralString] = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status)
    SELECT $1, gen_random_uuid(), s.webhook_endpoint_id, $3, 'PENDING'
      FROM webhook_subscriptions s
      JOIN webhook_endpoints p ON p.tenant_id = $1 AND p.webhook_endpoint_id = s.webhook_endpoint_id AND p.is_active
     WHERE s.tenant_id = $1 AND s.event_type = $2
    RETURNING webhook_delivery_id
"""
INSERT: Final[LiteralString] = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status,
                                    redelivery_of)
    VALUES ($1, gen_random_uuid(), $2, $3, 'PENDING', $4)
    RETURNING webhook_delivery_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnItsWay:
    """A delivery that was asked for, and the job that sends it."""

    webhook_delivery_id: WebhookDeliveryId
    job_id: UUID


async def announce(conn: Connection, event: Event) -> None:
    """Tell everybody who is subscribed of `event`, which was appended in this transaction."""
    webhook_type = ANNOUNCED.get(event.event_type)
    if webhook_type is None:
        return
    tenant = event.stream.tenant_id
    made = await conn.fetch(FAN_OUT, tenant, webhook_type, event.event_id)
    if made:
        await _submit(conn, tenant, made)


async def announce_to(
    conn: Connection,
    tenant: TenantId,
    endpoint: WebhookEndpointId,
    event: EventId,
    *,
    redelivery_of: WebhookDeliveryId | None = None,
) -> OnItsWay:
    """Tell one endpoint of one event, by a new delivery."""
    made = await conn.fetch(INSERT, tenant, endpoint, event, redelivery_of)
    [job_id] = await _submit(conn, tenant, made)
    return OnItsWay(webhook_delivery_id=WebhookDeliveryId(made[0]["webhook_delivery_id"]), job_id=job_id)


def key_of(delivery: WebhookDeliveryId) -> str:
    """The idempotency key of the job that sends a delivery."""
    return f"webhook:{delivery}"


async def _submit(conn: Connection, tenant: TenantId, deliveries: Sequence[asyncpg.Record]) -> list[UUID]:
    manner = Manner(
        tenant=tenant,
        type=JOB_TYPE,
        priority=LOW,
        max_attempts=ATTEMPTS,
        keep_seconds=int(KEPT.total_seconds()),
        limit=LIMIT.at_most,
        traceparent=traceparent_now(),
    )
    ids = [row["webhook_delivery_id"] for row in deliveries]
    jobs = Rows(
        ids=new_ids(len(ids)),
        payloads=[orjson.dumps({"webhook_delivery_id": str(delivery)}).decode() for delivery in ids],
        keys=[key_of(delivery) for delivery in ids],
        limit_keys=[LIMIT.key] * len(ids),
    )
    return await submit(conn, manner, jobs)
