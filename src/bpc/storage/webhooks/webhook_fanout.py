"""Webhook fan-out: for each endpoint subscribed to an event, insert a delivery and a job in the event's transaction.

    append_and_announce ─► events + webhook_deliveries (PENDING) + DELIVER_WEBHOOK jobs

An event that is rolled back is announced to nobody; one that is committed is announced to every endpoint that was
subscribed. Without a subscription this costs one index lookup.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

import asyncpg
import orjson
from service_jobs import LOW, JobColumns, Limit, SubmitOptions, submit_jobs
from service_jobs.job import new_ids
from service_jobs.telemetry import get_traceparent

from bpc.core.audit.events import Act, AuditEvent, ChainHead
from bpc.core.formats.ids import EventId, TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.webhooks import WEBHOOK_TYPES
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.jobs import SERVICE_ID, make_subject
from bpc.storage.webhooks.webhook_retries import ATTEMPTS

# The handler of these jobs (bpc.tasks.deliver_webhooks) reads the same constants.
JOB_TYPE: Final = "DELIVER_WEBHOOK"
KEEP_JOBS: Final = timedelta(days=14)  # as stored; how long they are kept is a setting of the worker
LIMIT: Final = Limit(key="webhooks", at_most=2)  # so one tenant's slow endpoints leave room for others

INSERT_DELIVERIES: Final[LiteralString] = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status)
    SELECT $1, gen_random_uuid(), s.webhook_endpoint_id, $3, 'PENDING'
      FROM webhook_subscriptions s
      JOIN webhook_endpoints p ON p.tenant_id = $1 AND p.webhook_endpoint_id = s.webhook_endpoint_id AND p.is_active
     WHERE s.tenant_id = $1 AND s.event_type = $2
    RETURNING webhook_delivery_id
"""
INSERT_DELIVERY: Final[LiteralString] = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status,
                                    redelivery_of)
    VALUES ($1, gen_random_uuid(), $2, $3, 'PENDING', $4)
    RETURNING webhook_delivery_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedDelivery:
    """A new delivery and the job that sends it."""

    webhook_delivery_id: WebhookDeliveryId
    job_id: UUID


async def append_and_announce(
    conn: Connection,
    act: Act,
    tenant: TenantId,
    aggregate_type: str,
    aggregate_id: UUID,
    event_type: str,
    payload: Mapping[str, object],
    *,
    head: ChainHead | None = None,
) -> AuditEvent:
    """Append an event of a type in `WEBHOOK_TYPES`, and queue a delivery for each endpoint subscribed to it."""
    webhook_type = WEBHOOK_TYPES[event_type]
    event = await events.append_act(conn, act, tenant, aggregate_type, aggregate_id, event_type, payload, head=head)
    deliveries = await conn.fetch(INSERT_DELIVERIES, tenant, webhook_type, event.event_id)
    if deliveries:
        await submit_deliveries(conn, tenant, deliveries)
    return event


async def enqueue_delivery(
    conn: Connection,
    tenant: TenantId,
    endpoint: WebhookEndpointId,
    event: EventId,
    *,
    redelivery_of: WebhookDeliveryId | None = None,
) -> QueuedDelivery:
    """Queue a new delivery of one event to one endpoint."""
    deliveries = await conn.fetch(INSERT_DELIVERY, tenant, endpoint, event, redelivery_of)
    [job_id] = await submit_deliveries(conn, tenant, deliveries)
    return QueuedDelivery(webhook_delivery_id=WebhookDeliveryId(deliveries[0]["webhook_delivery_id"]), job_id=job_id)


def delivery_job_key(delivery: WebhookDeliveryId) -> str:
    """The idempotency key of the job that sends a delivery."""
    return f"webhook:{delivery}"


async def submit_deliveries(conn: Connection, tenant: TenantId, deliveries: Sequence[asyncpg.Record]) -> list[UUID]:
    """Submit the jobs that send new deliveries, in this order."""
    spec = SubmitOptions(
        tenant=tenant,
        type=JOB_TYPE,
        priority=LOW,
        max_attempts=ATTEMPTS,
        keep_seconds=int(KEEP_JOBS.total_seconds()),
        limit=LIMIT.at_most,
        traceparent=get_traceparent(),
        service_id=SERVICE_ID,
    )
    ids = [row["webhook_delivery_id"] for row in deliveries]
    jobs = JobColumns(
        ids=new_ids(len(ids)),
        payloads=[orjson.dumps({"webhook_delivery_id": str(delivery)}).decode() for delivery in ids],
        keys=[delivery_job_key(delivery) for delivery in ids],
        limit_keys=[LIMIT.key] * len(ids),
        subjects=[make_subject("webhook_delivery", delivery) for delivery in ids],
    )
    return await submit_jobs(conn, spec, jobs)
