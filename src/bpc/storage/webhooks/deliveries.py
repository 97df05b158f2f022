"""Deliveries: what is to be sent, with the keys it is signed with, and what became of each attempt.

A delivery is PENDING until it is DELIVERED or FAILED, and then it never changes; sent again, it is another one. One
whose job is cancelled has FAILED: the database sees to that.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, LiteralString

import asyncpg
import orjson

from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act
from bpc.core.ids import AggregateId, EventId, TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.webhooks import Announcement, Keys
from bpc.db import announcing, events, webhooks
from bpc.db.announcing import OnItsWay
from bpc.db.connection import Connection
from bpc.db.pages import Ask

DeliveryStatus = Literal["PENDING", "DELIVERED", "FAILED"]

MOST_HEADERS: Final = 8_192  # bytes of an answer's headers that are kept

TO_SEND: Final[LiteralString] = """
    SELECT d.status, p.webhook_endpoint_id, p.url, p.is_active, p.secret_base64, p.previous_secret_base64, p.rotated_at,
           e.event_id, e.event_type, e.occurred_at, e.aggregate_type, e.aggregate_id, e.aggregate_version,
           e.payload_canonical
      FROM webhook_deliveries d
      JOIN webhook_endpoints p ON p.tenant_id = $1 AND p.webhook_endpoint_id = d.webhook_endpoint_id
      JOIN events e ON e.tenant_id = $1 AND e.event_id = d.event_id
     WHERE d.tenant_id = $1 AND d.webhook_delivery_id = $2
"""
# A worker that died after sending counts, too: the job knows how often it was started.
RECORD: Final[LiteralString] = """
    UPDATE webhook_deliveries
       SET status = $3::text, attempt = greatest(attempt + 1, $4), last_attempt_at = $5::timestamptz,
           delivered_at = CASE WHEN $3::text = 'DELIVERED' THEN $5::timestamptz END,
           last_error = coalesce($6::jsonb, last_error), response_status = $7, response_headers = $8::jsonb,
           response_body = $9, response_cut = $10
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND status = 'PENDING'
"""
GIVE_UP: Final[LiteralString] = """
    UPDATE webhook_deliveries SET status = 'FAILED', last_error = $3::jsonb
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND status = 'PENDING'
    RETURNING true
"""
COLUMNS: Final[LiteralString] = """
    webhook_delivery_id, webhook_endpoint_id, event_id, redelivery_of, attempt, status, last_error::text AS last_error,
    response_status, created_at, last_attempt_at, delivered_at
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_delivery_id = $2
"""
RESPONSE: Final[LiteralString] = """
    SELECT response_status, response_headers::text AS response_headers, response_body, response_cut
      FROM webhook_deliveries
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND response_status IS NOT NULL
"""
IS_UNDER_WAY: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM jobs.job
                    WHERE tenant_id = $1 AND type = $2 AND idempotency_key = $3 AND status = 'QUEUED')
"""
# Ranges with one endpoint or status say `= …` in a way that only the index on it can put in order.
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_deliveries
     WHERE tenant_id = $1 AND (created_at, webhook_delivery_id) < ($2, $3)
     ORDER BY created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""
PAGE_TO: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_deliveries
     WHERE tenant_id = $1 AND (webhook_endpoint_id, created_at, webhook_delivery_id) < ($5, $2, $3)
       AND webhook_endpoint_id >= $5
     ORDER BY webhook_endpoint_id DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""
PAGE_WITH: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_deliveries
     WHERE tenant_id = $1 AND (status, created_at, webhook_delivery_id) < ($5, $2, $3) AND status >= $5
     ORDER BY status DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""
PAGE_TO_WITH: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_deliveries
     WHERE tenant_id = $1 AND (webhook_endpoint_id, status, created_at, webhook_delivery_id) < ($5, $6, $2, $3)
       AND (webhook_endpoint_id, status) >= ($5, $6)
     ORDER BY webhook_endpoint_id DESC, status DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one endpoint."""

    webhook_delivery_id: WebhookDeliveryId
    webhook_endpoint_id: WebhookEndpointId
    event_id: EventId
    redelivery_of: WebhookDeliveryId | None
    attempt: int
    status: DeliveryStatus
    last_error: dict[str, Any] | None
    response_status: int | None
    created_at: datetime
    last_attempt_at: datetime | None
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSend:
    """A delivery with all that is needed to send it."""

    status: DeliveryStatus
    webhook_endpoint_id: WebhookEndpointId
    url: str
    is_active: bool
    keys: Keys = field(repr=False)
    announcement: Announcement


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came back last, cut to what is kept; `is_cut` says that its body went on."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One time that a delivery was sent: the job's attempt, when, and what came of it. `error` is JSON."""

    number: int
    at: datetime
    answered: Answered | None
    error: str | None


class DeliveryUnknown(NotFound):
    def __init__(self, delivery: WebhookDeliveryId) -> None:
        super().__init__(
            f"there is no webhook delivery `{delivery}`", fix="GET /v1/webhook-deliveries lists those there are"
        )


class StillOnItsWay(Conflict):
    def __init__(self, delivery: WebhookDeliveryId) -> None:
        super().__init__(f"webhook delivery `{delivery}` has not ended yet", fix="wait until it is DELIVERED or FAILED")


async def get(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId) -> Delivery:
    row = await conn.fetchrow(ONE, tenant, delivery_id)
    if row is None:
        raise DeliveryUnknown(delivery_id)
    return _delivery(row)


async def response(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId) -> Answered | None:
    """What was answered to a delivery last; None if nothing was."""
    row = await conn.fetchrow(RESPONSE, tenant, delivery_id)
    if row is None:
        return None
    return Answered(
        status=row["response_status"],
        headers=orjson.loads(row["response_headers"]),
        body=row["response_body"],
        is_cut=row["response_cut"],
    )


async def redeliver(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId, *, act: Act) -> OnItsWay:
    """Send the same event once more to the same endpoint, under a delivery of its own."""
    before = await get(conn, tenant, delivery_id)
    if before.status == "PENDING":
        await _abandon(conn, tenant, delivery_id)
    endpoint = before.webhook_endpoint_id
    await webhooks.require_active(conn, tenant, endpoint)
    made = await announcing.announce_to(conn, tenant, endpoint, before.event_id, redelivery_of=delivery_id)
    payload = {"webhook_delivery_id": str(made.webhook_delivery_id), "redelivery_of": str(delivery_id)}
    await events.append(conn, webhooks.stream(tenant, endpoint), act.says("WEBHOOK_REDELIVERED", payload))
    return made


async def page(
    conn: Connection,
    tenant: TenantId,
    ask: Ask,
    *,
    endpoint: WebhookEndpointId | None,
    status: DeliveryStatus | None,
) -> Sequence[Delivery]:
    """Deliveries, newest first."""
    statement: LiteralString
    match endpoint, status:
        case None, None:
            statement, filters = PAGE, tuple[object, ...]()
        case _, None:
            statement, filters = PAGE_TO, (endpoint,)
        case None, _:
            statement, filters = PAGE_WITH, (status,)
        case _:
            statement, filters = PAGE_TO_WITH, (endpoint, status)
    return [_delivery(row) for row in await conn.fetch(statement, tenant, *ask, *filters)]


async def to_send(conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId) -> ToSend:
    row = await conn.fetchrow(TO_SEND, tenant, delivery)
    if row is None:
        raise DeliveryUnknown(delivery)
    return ToSend(
        status=row["status"],
        webhook_endpoint_id=WebhookEndpointId(row["webhook_endpoint_id"]),
        url=row["url"],
        is_active=row["is_active"],
        keys=_keys(row),
        announcement=Announcement(
            tenant_id=tenant,
            event_id=EventId(row["event_id"]),
            event_type=row["event_type"],
            occurred_at=row["occurred_at"],
            aggregate_type=row["aggregate_type"],
            aggregate_id=AggregateId(row["aggregate_id"]),
            aggregate_version=row["aggregate_version"],
            payload_canonical=row["payload_canonical"],
        ),
    )


async def record(
    conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId, status: DeliveryStatus, attempt: Attempt
) -> None:
    """Put an attempt on record, and what the delivery is now. One that has ended stays as it is."""
    answered = attempt.answered
    await conn.execute(
        RECORD,
        tenant,
        delivery,
        status,
        attempt.number,
        attempt.at,
        attempt.error,
        None if answered is None else answered.status,
        None if answered is None else orjson.dumps(kept_headers(answered.headers)).decode(),
        None if answered is None else answered.body,
        answered is not None and answered.is_cut,
    )


async def give_up(conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId, error: str) -> bool:
    """The delivery FAILED with `error`, which is JSON, unless it has ended before: then False."""
    return await conn.fetchval(GIVE_UP, tenant, delivery, error) is not None


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The first of them, as many as fit into what is kept. PostgreSQL knows no NUL."""
    kept, size = dict[str, str](), 0
    for name, value in headers.items():
        size += len(name) + len(value)
        if size > MOST_HEADERS:
            break
        kept[name] = value.replace("\0", "")
    return kept


def _keys(row: asyncpg.Record) -> Keys:
    before = row["previous_secret_base64"]
    return Keys(
        current=b64decode(row["secret_base64"]),
        previous=None if before is None else b64decode(before),
        rotated_at=row["rotated_at"],
    )


async def _abandon(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId) -> None:
    """End a delivery that an earlier build left behind when its job was cancelled; refuse if it is under way."""
    if await conn.fetchval(IS_UNDER_WAY, tenant, announcing.JOB_TYPE, announcing.key_of(delivery_id)):
        raise StillOnItsWay(delivery_id)
    error = {"code": "JOB_CANCELLED", "message": "its job was cancelled", "retryable": False}
    await give_up(conn, tenant, delivery_id, orjson.dumps(error).decode())


def _delivery(row: asyncpg.Record) -> Delivery:
    error = row["last_error"]
    return Delivery(**dict(row) | {"last_error": None if error is None else orjson.loads(error)})
