"""Webhook endpoints and their subscriptions. bpc.storage.webhooks.deliveries has what is sent to them.

An endpoint is active, disabled or deleted. A disabled one can be enabled again; bpc.storage.webhooks.endpoint_health
counts its failures and disables it. A deleted one stays inactive.

A secret is returned when it is created, to be shown once, and read to sign (deliveries). It is in no list, no event and
no log.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId, WebhookEndpointId, WebhookSubscriptionId
from bpc.core.secret_box import SecretBox
from bpc.core.webhooks import TEST_EVENT_TYPE, WebhookType
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.webhooks import webhook_fanout
from bpc.storage.webhooks.endpoint_secrets import seal_secret
from bpc.storage.webhooks.webhook_fanout import QueuedDelivery

SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 (the prefix of every secret)

INSERT_ENDPOINT: Final[LiteralString] = """
    INSERT INTO webhook_endpoints (tenant_id, webhook_endpoint_id, url, secret_base64, created_at, created_by,
                                   timeout_seconds, retry_client_errors)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
ENDPOINT_COLUMNS: Final[LiteralString] = """
    webhook_endpoint_id, url, is_active, created_at, rotated_at, timeout_seconds, retry_client_errors, failing_since,
    failed_attempts, disabled_at, disabled_reason
"""
SELECT_ENDPOINTS: Final[LiteralString] = f"SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints"
SELECT_ENDPOINT: Final[LiteralString] = f"{SELECT_ENDPOINTS} WHERE tenant_id = $1 AND webhook_endpoint_id = $2"
# Until the transaction ends, the endpoint does not change.
SELECT_ACTIVE_FOR_SHARE: Final[LiteralString] = """
    SELECT is_active FROM webhook_endpoints WHERE tenant_id = $1 AND webhook_endpoint_id = $2 FOR SHARE
"""
SELECT_ENDPOINT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_ENDPOINTS, time="created_at", key="webhook_endpoint_id"
)
SELECT_ENDPOINT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_ENDPOINT} FOR NO KEY UPDATE"
DELETE_ENDPOINT: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET is_active = false, disabled_at = NULL, disabled_reason = NULL
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND (is_active OR disabled_at IS NOT NULL)
    RETURNING {ENDPOINT_COLUMNS}
"""
UPDATE_ENDPOINT: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET url = $3, timeout_seconds = $4, retry_client_errors = $5
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2
    RETURNING {ENDPOINT_COLUMNS}
"""
ROTATE_SECRET: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET previous_secret_base64 = secret_base64, secret_base64 = $3, rotated_at = $4
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND is_active
    RETURNING {ENDPOINT_COLUMNS}
"""
INSERT_SUBSCRIPTION: Final[LiteralString] = """
    INSERT INTO webhook_subscriptions (tenant_id, webhook_subscription_id, webhook_endpoint_id, event_type, created_at)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT webhook_subscriptions_event_key DO NOTHING
    RETURNING true
"""
SELECT_SAME_SUBSCRIPTION: Final[LiteralString] = """
    SELECT webhook_subscription_id FROM webhook_subscriptions
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND event_type = $3
"""
SUBSCRIPTION_COLUMNS: Final[LiteralString] = "webhook_subscription_id, webhook_endpoint_id, event_type, created_at"
SELECT_SUBSCRIPTIONS: Final[LiteralString] = f"SELECT {SUBSCRIPTION_COLUMNS} FROM webhook_subscriptions"
SELECT_SUBSCRIPTION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_SUBSCRIPTIONS, time="created_at", key="webhook_subscription_id"
)
# An endpoint has at most one for each type of event, so all of them are read and sorted. The addition of an interval
# keeps the planner from using an index on time.
SELECT_SUBSCRIPTION_PAGE_OF_ENDPOINT: Final[LiteralString] = f"""
    {SELECT_SUBSCRIPTIONS}
     WHERE tenant_id = $1 AND webhook_endpoint_id = $5 AND (created_at, webhook_subscription_id) < ($2, $3)
     ORDER BY created_at + interval '0' DESC, webhook_subscription_id DESC
     LIMIT $4
"""
DELETE_SUBSCRIPTION: Final[LiteralString] = f"""
    DELETE FROM webhook_subscriptions
     WHERE tenant_id = $1 AND webhook_subscription_id = $2
    RETURNING {SUBSCRIPTION_COLUMNS}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """Where webhooks are sent, how, and how it does. A deleted endpoint stays, and is inactive.

    `failing_since` is the first of the failed attempts since the last one that arrived; `disabled_at` is None for a
    deleted endpoint.
    """

    webhook_endpoint_id: WebhookEndpointId
    url: str
    is_active: bool
    created_at: datetime
    rotated_at: datetime | None
    timeout_seconds: int | None
    retry_client_errors: bool
    failing_since: datetime | None
    failed_attempts: int
    disabled_at: datetime | None
    disabled_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedWebhookSecret:
    """An endpoint's new secret. This is the only time it is shown."""

    webhook_endpoint_id: WebhookEndpointId
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One type of event that is sent to an endpoint."""

    webhook_subscription_id: WebhookSubscriptionId
    webhook_endpoint_id: WebhookEndpointId
    event_type: WebhookType
    created_at: datetime


class EndpointInactive(Conflict):
    """Nothing is sent to the endpoint: it was deleted, or it is disabled for `reason`."""

    def __init__(self, endpoint: WebhookEndpointId, reason: str | None = None) -> None:
        if reason is None:
            says, fix = "is no longer active", "create a new endpoint and subscribe it"
        else:
            says, fix = f"is disabled: {reason}", "enable it when it works again"
        super().__init__(f"webhook endpoint `{endpoint}` {says}", fix=fix)


async def create_endpoint(
    conn: Connection,
    tenant: TenantId,
    *,
    url: str,
    act: Act,
    timeout_seconds: int | None = None,
    retry_client_errors: bool = False,
    box: SecretBox | None = None,
) -> IssuedWebhookSecret:
    """Create an endpoint with its own secret, and append an event without the secret. `box` encrypts the secret."""
    endpoint, secret = WebhookEndpointId(clock.new_id()), _generate_secret()
    behaviour, stored = (timeout_seconds, retry_client_errors), seal_secret(box, tenant, endpoint, secret)
    await conn.execute(INSERT_ENDPOINT, tenant, endpoint, url, stored, act.at, act.actor_id, *behaviour)
    payload = {"url": url, "timeout_seconds": timeout_seconds, "retry_client_errors": retry_client_errors}
    await events.append_act(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_CREATED", payload)
    return IssuedWebhookSecret(webhook_endpoint_id=endpoint, url=url, secret=SECRET_PREFIX + secret)


async def get_endpoint(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> EndpointRow:
    return await fetch_one(conn, EndpointRow, SELECT_ENDPOINT, tenant, endpoint, kind="webhook endpoint")


async def list_endpoints(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[EndpointRow]:
    """Endpoints, newest first."""
    return await fetch_rows(conn, EndpointRow, SELECT_ENDPOINT_PAGE, tenant, *page)


async def deactivate_endpoint(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act
) -> EndpointRow:
    """Send nothing more to an endpoint, and append an event."""
    row = await conn.fetchrow(DELETE_ENDPOINT, tenant, endpoint)
    if row is None:
        raise await explain_inactive(conn, tenant, endpoint)
    await events.append_act(
        conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_DELETED", {"url": row["url"]}
    )
    return EndpointRow(**row)


async def lock_endpoint(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> EndpointRow:
    """The endpoint; nobody else changes it until the transaction ends."""
    return await fetch_one(conn, EndpointRow, SELECT_ENDPOINT_FOR_UPDATE, tenant, endpoint, kind="webhook endpoint")


async def change_endpoint(
    conn: Connection,
    tenant: TenantId,
    endpoint: WebhookEndpointId,
    *,
    url: str | None = None,
    timeout_seconds: int | None,
    retry_client_errors: bool | None = None,
    act: Act,
) -> EndpointRow:
    """Change where webhooks are sent and how, and append an event with what changed. None changes nothing, except of
    the timeout: there it is the installation's own.
    """
    before = await lock_endpoint(conn, tenant, endpoint)
    if not before.is_active and before.disabled_at is None:
        raise EndpointInactive(endpoint)
    new_values: dict[str, object] = {
        "url": before.url if url is None else url,
        "timeout_seconds": timeout_seconds,
        "retry_client_errors": before.retry_client_errors if retry_client_errors is None else retry_client_errors,
    }
    differences = {name: value for name, value in new_values.items() if getattr(before, name) != value}
    if not differences:
        return before
    [row] = await conn.fetch(UPDATE_ENDPOINT, tenant, endpoint, *new_values.values())
    payload = {"changed": sorted(differences), **differences}
    await events.append_act(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_CHANGED", payload)
    return EndpointRow(**row)


async def rotate_secret(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act, box: SecretBox | None = None
) -> IssuedWebhookSecret:
    """Give an endpoint a new secret, and append an event; the previous secret stays valid for a while."""
    secret = _generate_secret()
    row = await conn.fetchrow(ROTATE_SECRET, tenant, endpoint, seal_secret(box, tenant, endpoint, secret), act.at)
    if row is None:
        raise await explain_inactive(conn, tenant, endpoint)
    await events.append_act(
        conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_CHANGED", {"changed": ["secret"]}
    )
    return IssuedWebhookSecret(webhook_endpoint_id=endpoint, url=row["url"], secret=SECRET_PREFIX + secret)


async def require_active_endpoint(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> None:
    """Refuse an inactive endpoint; an active one stays active until the transaction ends."""
    if not await conn.fetchval(SELECT_ACTIVE_FOR_SHARE, tenant, endpoint):
        raise await explain_inactive(conn, tenant, endpoint)


async def send_test_event(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act
) -> QueuedDelivery:
    """Queue a test webhook to one endpoint, and append an event."""
    await require_active_endpoint(conn, tenant, endpoint)
    event = await events.append_act(conn, act, tenant, "WebhookEndpoint", endpoint, TEST_EVENT_TYPE, {})
    return await webhook_fanout.enqueue_delivery(conn, tenant, endpoint, event.event_id)


async def subscribe(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, event_type: WebhookType, *, act: Act
) -> SubscriptionRow:
    """Subscribe an endpoint to a type of event, and append an event."""
    await require_active_endpoint(conn, tenant, endpoint)
    subscription_id = WebhookSubscriptionId(clock.new_id())
    if not await conn.fetchval(INSERT_SUBSCRIPTION, tenant, subscription_id, endpoint, event_type, act.at):
        existing_id = await conn.fetchval(SELECT_SAME_SUBSCRIPTION, tenant, endpoint, event_type)
        raise Conflict(
            f"the endpoint is already subscribed to `{event_type}`",
            fix="nothing to do; delete that subscription to end it",
            details={"webhook_subscription_id": str(existing_id)},
        )
    subscription = SubscriptionRow(
        webhook_subscription_id=subscription_id, webhook_endpoint_id=endpoint, event_type=event_type, created_at=act.at
    )
    await _append_subscription_event(conn, tenant, subscription, "WEBHOOK_SUBSCRIPTION_CREATED", act)
    return subscription


async def list_subscriptions(
    conn: Connection, tenant: TenantId, page: PageQuery, *, endpoint: WebhookEndpointId | None
) -> Sequence[SubscriptionRow]:
    """Subscriptions, newest first."""
    if endpoint is None:
        return await fetch_rows(conn, SubscriptionRow, SELECT_SUBSCRIPTION_PAGE, tenant, *page)
    return await fetch_rows(conn, SubscriptionRow, SELECT_SUBSCRIPTION_PAGE_OF_ENDPOINT, tenant, *page, endpoint)


async def unsubscribe(
    conn: Connection, tenant: TenantId, subscription: WebhookSubscriptionId, *, act: Act
) -> SubscriptionRow:
    """Delete a subscription, and append an event."""
    deleted_endpoint = await fetch_one(
        conn, SubscriptionRow, DELETE_SUBSCRIPTION, tenant, subscription, kind="webhook subscription"
    )
    await _append_subscription_event(conn, tenant, deleted_endpoint, "WEBHOOK_SUBSCRIPTION_DELETED", act)
    return deleted_endpoint


def _generate_secret() -> str:
    return b64encode(clock.random_bytes(SECRET_BYTES)).decode()


async def explain_inactive(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> EndpointInactive:
    """The refusal to use an endpoint that is not active. Raises `UnknownResource` if there is none."""
    row = await get_endpoint(conn, tenant, endpoint)
    return EndpointInactive(endpoint, row.disabled_reason)


async def _append_subscription_event(
    conn: Connection, tenant: TenantId, subscription: SubscriptionRow, event_type: str, act: Act
) -> None:
    payload = {"webhook_endpoint_id": str(subscription.webhook_endpoint_id), "event_type": subscription.event_type}
    subscription_id = subscription.webhook_subscription_id
    await events.append_act(conn, act, tenant, "WebhookSubscription", subscription_id, event_type, payload)
