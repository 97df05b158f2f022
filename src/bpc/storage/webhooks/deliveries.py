"""Webhook deliveries: what to send, the keys to sign it with, and the result of the last attempt.

A delivery is PENDING until it is DELIVERED or FAILED; then it never changes. Sending it again creates a new delivery
(bpc.storage.webhooks.redeliveries).
If its job is cancelled, a trigger of the database sets it to FAILED.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, LiteralString

import orjson

from bpc.core.formats.ids import EventId, TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.secret_box import SecretBox
from bpc.core.webhooks import WebhookKeys, WebhookMessage
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.webhooks.endpoint_secrets import open_secret

DeliveryStatus = Literal["PENDING", "DELIVERED", "FAILED"]

MAX_HEADER_BYTES: Final = 8_192  # bytes of a response's headers that are stored

SELECT_OUTGOING: Final[LiteralString] = """
    SELECT d.tenant_id, d.status, p.webhook_endpoint_id, p.url, p.is_active, p.disabled_reason, p.failing_since,
           p.timeout_seconds, p.retry_client_errors, p.secret_base64, p.previous_secret_base64, p.rotated_at,
           e.event_id, e.event_type, e.occurred_at, e.aggregate_type, e.aggregate_id, e.aggregate_version,
           e.payload_canonical
      FROM webhook_deliveries d
      JOIN webhook_endpoints p ON p.tenant_id = $1 AND p.webhook_endpoint_id = d.webhook_endpoint_id
      JOIN events e ON e.tenant_id = $1 AND e.event_id = d.event_id
     WHERE d.tenant_id = $1 AND d.webhook_delivery_id = $2
"""
# An attempt whose worker died after sending counts: the job knows how often it was started.
UPDATE_ATTEMPT: Final[LiteralString] = """
    UPDATE webhook_deliveries
       SET status = $3::text, attempt = greatest(attempt + 1, $4), last_attempt_at = $5::timestamptz,
           delivered_at = CASE WHEN $3::text = 'DELIVERED' THEN $5::timestamptz END,
           last_error = coalesce($6::jsonb, last_error), response_status = $7, response_headers = $8::jsonb,
           response_body = $9, response_cut = $10
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND status = 'PENDING'
"""
UPDATE_FAILED: Final[LiteralString] = """
    UPDATE webhook_deliveries SET status = 'FAILED', last_error = $3::jsonb
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND status = 'PENDING'
    RETURNING true
"""
SELECT_DELIVERIES: Final[LiteralString] = """
    SELECT webhook_delivery_id, webhook_endpoint_id, event_id, redelivery_of, attempt, status,
           last_error::text AS last_error, response_status, created_at, last_attempt_at, delivered_at
      FROM webhook_deliveries
"""
SELECT_DELIVERY: Final[LiteralString] = f"{SELECT_DELIVERIES} WHERE tenant_id = $1 AND webhook_delivery_id = $2"
SELECT_RESPONSE: Final[LiteralString] = """
    SELECT response_status, response_headers::text AS response_headers, response_body, response_cut
      FROM webhook_deliveries
     WHERE tenant_id = $1 AND webhook_delivery_id = $2 AND response_status IS NOT NULL
"""
SELECT_DELIVERY_PAGE: Final[LiteralString] = make_page_query(
    SELECT_DELIVERIES, time="created_at", key="webhook_delivery_id"
)
# A range with one endpoint or status means `= …`, but only the index on that column gives its order: the planner
# cannot choose another one.
SELECT_DELIVERY_PAGE_BY_ENDPOINT: Final[LiteralString] = f"""
    {SELECT_DELIVERIES}
     WHERE tenant_id = $1 AND (webhook_endpoint_id, created_at, webhook_delivery_id) < ($5, $2, $3)
       AND webhook_endpoint_id >= $5
     ORDER BY webhook_endpoint_id DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""
SELECT_DELIVERY_PAGE_BY_STATUS: Final[LiteralString] = f"""
    {SELECT_DELIVERIES}
     WHERE tenant_id = $1 AND (status, created_at, webhook_delivery_id) < ($5, $2, $3) AND status >= $5
     ORDER BY status DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""
SELECT_DELIVERY_PAGE_BY_ENDPOINT_AND_STATUS: Final[LiteralString] = f"""
    {SELECT_DELIVERIES}
     WHERE tenant_id = $1 AND (webhook_endpoint_id, status, created_at, webhook_delivery_id) < ($5, $6, $2, $3)
       AND (webhook_endpoint_id, status) >= ($5, $6)
     ORDER BY webhook_endpoint_id DESC, status DESC, created_at DESC, webhook_delivery_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One event, sent to one endpoint."""

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
class OutgoingDelivery:
    """A delivery with everything needed to send it."""

    status: DeliveryStatus
    webhook_endpoint_id: WebhookEndpointId
    url: str
    is_active: bool
    disabled_reason: str | None
    is_failing: bool
    timeout_seconds: int | None
    retry_client_errors: bool
    keys: WebhookKeys = field(repr=False)
    announcement: WebhookMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResponseRow:
    """The last response, as far as it is stored; `is_cut` means that the body was longer."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One attempt to send a delivery: its number, its time, and the response or error. `error` is JSON."""

    number: int
    at: datetime
    response: DeliveryResponseRow | None
    error: str | None


async def get_delivery(conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId) -> DeliveryRow:
    return await fetch_one(conn, _to_delivery_row, SELECT_DELIVERY, tenant, delivery_id, kind="webhook delivery")


async def load_response(
    conn: Connection, tenant: TenantId, delivery_id: WebhookDeliveryId
) -> DeliveryResponseRow | None:
    """The last response to a delivery; None if there was none."""
    row = await conn.fetchrow(SELECT_RESPONSE, tenant, delivery_id)
    if row is None:
        return None
    return DeliveryResponseRow(
        status=row["response_status"],
        headers=orjson.loads(row["response_headers"]),
        body=row["response_body"],
        is_cut=row["response_cut"],
    )


async def list_deliveries(
    conn: Connection,
    tenant: TenantId,
    page: PageQuery,
    *,
    endpoint: WebhookEndpointId | None,
    status: DeliveryStatus | None,
) -> Sequence[DeliveryRow]:
    """Deliveries, newest first."""
    statement: LiteralString
    match endpoint, status:
        case None, None:
            statement, filters = SELECT_DELIVERY_PAGE, tuple[object, ...]()
        case _, None:
            statement, filters = SELECT_DELIVERY_PAGE_BY_ENDPOINT, (endpoint,)
        case None, _:
            statement, filters = SELECT_DELIVERY_PAGE_BY_STATUS, (status,)
        case _:
            statement, filters = SELECT_DELIVERY_PAGE_BY_ENDPOINT_AND_STATUS, (endpoint, status)
    return await fetch_rows(conn, _to_delivery_row, statement, tenant, *page, *filters)


async def load_outgoing(
    conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId, *, box: SecretBox | None = None
) -> OutgoingDelivery:
    """A delivery with everything needed to send it. Raises `UnknownResource`. `box` decrypts the secrets."""
    to_outgoing = partial(_to_outgoing, box)
    return await fetch_one(conn, to_outgoing, SELECT_OUTGOING, tenant, delivery, kind="webhook delivery")


async def record_attempt(
    conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId, status: DeliveryStatus, attempt: DeliveryAttempt
) -> None:
    """Store an attempt and the new status. A delivery that has ended stays as it is."""
    response = attempt.response
    await conn.execute(
        UPDATE_ATTEMPT,
        tenant,
        delivery,
        status,
        attempt.number,
        attempt.at,
        attempt.error,
        None if response is None else response.status,
        None if response is None else orjson.dumps(truncate_headers(response.headers)).decode(),
        None if response is None else response.body,
        response is not None and response.is_cut,
    )


async def set_delivery_failed(conn: Connection, tenant: TenantId, delivery: WebhookDeliveryId, error: str) -> bool:
    """Set a delivery to FAILED with `error`, which is JSON; return False if it has ended before."""
    return await conn.fetchval(UPDATE_FAILED, tenant, delivery, error) is not None


def truncate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The first headers, up to `MAX_HEADER_BYTES`, without NUL, which PostgreSQL cannot store."""
    first_headers, size = dict[str, str](), 0
    for name, value in headers.items():
        size += len(name) + len(value)
        if size > MAX_HEADER_BYTES:
            break
        first_headers[name] = value.replace("\0", "")
    return first_headers


def _to_outgoing(
    box: SecretBox | None,
    *,
    tenant_id: TenantId,
    status: DeliveryStatus,
    webhook_endpoint_id: WebhookEndpointId,
    url: str,
    is_active: bool,
    disabled_reason: str | None,
    failing_since: datetime | None,
    timeout_seconds: int | None,
    retry_client_errors: bool,
    secret_base64: str,
    previous_secret_base64: str | None,
    rotated_at: datetime | None,
    **event_columns: Any,
) -> OutgoingDelivery:
    current, previous = (
        None if text is None else b64decode(open_secret(box, tenant_id, webhook_endpoint_id, text))
        for text in (secret_base64, previous_secret_base64)
    )
    return OutgoingDelivery(
        status=status,
        webhook_endpoint_id=webhook_endpoint_id,
        url=url,
        is_active=is_active,
        disabled_reason=disabled_reason,
        is_failing=failing_since is not None,
        timeout_seconds=timeout_seconds,
        retry_client_errors=retry_client_errors,
        keys=WebhookKeys(current=current or b"", previous=previous, rotated_at=rotated_at),
        announcement=WebhookMessage(tenant_id=tenant_id, **event_columns),
    )


def _to_delivery_row(*, last_error: str | None, **columns: Any) -> DeliveryRow:
    return DeliveryRow(last_error=None if last_error is None else orjson.loads(last_error), **columns)
