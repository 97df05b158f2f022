"""Webhooks: endpoints, and what each is told about. What is sent to them is in bpc.db.deliveries.

A secret leaves the database twice: when it is made, to be shown once, and (bpc.db.deliveries) to sign. It is in no
list, no event and no log.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString

from bpc import fresh
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import (
    AggregateId,
    TenantId,
    WebhookEndpointId,
    WebhookSubscriptionId,
)
from bpc.core.webhooks import TESTED, WebhookType
from bpc.db import announcing, events
from bpc.db.announcing import OnItsWay
from bpc.db.connection import Connection
from bpc.db.pages import Ask

SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 (what every secret begins with)

INSERT: Final[LiteralString] = """
    INSERT INTO webhook_endpoints (tenant_id, webhook_endpoint_id, url, secret_base64, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6)
"""
COLUMNS: Final[LiteralString] = "webhook_endpoint_id, url, is_active, created_at, rotated_at"
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_endpoints WHERE tenant_id = $1 AND webhook_endpoint_id = $2
"""
# Whoever changes it waits until we are done, and we for them.
ACTIVE: Final[LiteralString] = """
    SELECT is_active FROM webhook_endpoints WHERE tenant_id = $1 AND webhook_endpoint_id = $2 FOR SHARE
"""
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM webhook_endpoints
     WHERE tenant_id = $1 AND (created_at, webhook_endpoint_id) < ($2, $3)
     ORDER BY created_at DESC, webhook_endpoint_id DESC
     LIMIT $4
"""
DEACTIVATE: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET is_active = false
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND is_active
    RETURNING {COLUMNS}
"""
ROTATE: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET previous_secret_base64 = secret_base64, secret_base64 = $3, rotated_at = $4
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND is_active
    RETURNING {COLUMNS}
"""
SUBSCRIBE: Final[LiteralString] = """
    INSERT INTO webhook_subscriptions (tenant_id, webhook_subscription_id, webhook_endpoint_id, event_type, created_at)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT webhook_subscriptions_event_key DO NOTHING
    RETURNING true
"""
SAME: Final[LiteralString] = """
    SELECT webhook_subscription_id FROM webhook_subscriptions
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND event_type = $3
"""
SUBSCRIPTION_COLUMNS: Final[LiteralString] = "webhook_subscription_id, webhook_endpoint_id, event_type, created_at"
SUBSCRIPTIONS: Final[LiteralString] = f"""
    SELECT {SUBSCRIPTION_COLUMNS} FROM webhook_subscriptions
     WHERE tenant_id = $1 AND (created_at, webhook_subscription_id) < ($2, $3)
     ORDER BY created_at DESC, webhook_subscription_id DESC
     LIMIT $4
"""
# At most one for each type of event: all of them are read and put in order. The addition is there so that no index
# on time offers itself.
SUBSCRIPTIONS_OF: Final[LiteralString] = f"""
    SELECT {SUBSCRIPTION_COLUMNS} FROM webhook_subscriptions
     WHERE tenant_id = $1 AND webhook_endpoint_id = $5 AND (created_at, webhook_subscription_id) < ($2, $3)
     ORDER BY created_at + interval '0' DESC, webhook_subscription_id DESC
     LIMIT $4
"""
UNSUBSCRIBE: Final[LiteralString] = f"""
    DELETE FROM webhook_subscriptions
     WHERE tenant_id = $1 AND webhook_subscription_id = $2
    RETURNING {SUBSCRIPTION_COLUMNS}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where webhooks are sent. One that was deleted is no longer active, and stays."""

    webhook_endpoint_id: WebhookEndpointId
    url: str
    is_active: bool
    created_at: datetime
    rotated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """An endpoint's new secret. This is the only time it is shown."""

    webhook_endpoint_id: WebhookEndpointId
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One type of event that an endpoint is told about."""

    webhook_subscription_id: WebhookSubscriptionId
    webhook_endpoint_id: WebhookEndpointId
    event_type: WebhookType
    created_at: datetime


class EndpointUnknown(NotFound):
    def __init__(self, endpoint: WebhookEndpointId) -> None:
        super().__init__(
            f"there is no webhook endpoint `{endpoint}`", fix="GET /v1/webhook-endpoints lists those there are"
        )


class SubscriptionUnknown(NotFound):
    def __init__(self, subscription: WebhookSubscriptionId) -> None:
        super().__init__(
            f"there is no webhook subscription `{subscription}`",
            fix="GET /v1/webhook-subscriptions lists those there are",
        )


class EndpointInactive(Conflict):
    def __init__(self, endpoint: WebhookEndpointId) -> None:
        super().__init__(f"webhook endpoint `{endpoint}` is no longer active", fix="create a new one, and subscribe it")


class AlreadySubscribed(Conflict):
    def __init__(self, event_type: WebhookType, subscription: WebhookSubscriptionId) -> None:
        super().__init__(
            f"the endpoint is subscribed to `{event_type}` already",
            fix="nothing to do; delete that subscription to end it",
            details={"webhook_subscription_id": str(subscription)},
        )


def stream(tenant: TenantId, endpoint: WebhookEndpointId) -> Stream:
    return Stream(tenant, "WebhookEndpoint", AggregateId(endpoint))


async def create(conn: Connection, tenant: TenantId, *, url: str, act: Act) -> Issued:
    """A new endpoint with a secret of its own, on record without it."""
    endpoint, secret = WebhookEndpointId(fresh.new_id()), _new_secret()
    await conn.execute(INSERT, tenant, endpoint, url, secret, act.at, act.actor_id)
    await events.append(conn, stream(tenant, endpoint), act.says("WEBHOOK_ENDPOINT_CREATED", {"url": url}))
    return Issued(webhook_endpoint_id=endpoint, url=url, secret=SECRET_PREFIX + secret)


async def get(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> Endpoint:
    row = await conn.fetchrow(ONE, tenant, endpoint)
    if row is None:
        raise EndpointUnknown(endpoint)
    return Endpoint(**dict(row))


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Endpoint]:
    """Endpoints, newest first."""
    return [Endpoint(**dict(row)) for row in await conn.fetch(PAGE, tenant, *ask)]


async def deactivate(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act) -> Endpoint:
    """Send nothing there any more."""
    row = await conn.fetchrow(DEACTIVATE, tenant, endpoint)
    if row is None:
        raise await _why_not(conn, tenant, endpoint)
    said = act.says("WEBHOOK_ENDPOINT_DELETED", {"url": row["url"]})
    await events.append(conn, stream(tenant, endpoint), said)
    return Endpoint(**dict(row))


async def rotate(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act) -> Issued:
    """Give an endpoint a new secret; the one before is kept beside it."""
    secret = _new_secret()
    row = await conn.fetchrow(ROTATE, tenant, endpoint, secret, act.at)
    if row is None:
        raise await _why_not(conn, tenant, endpoint)
    said = act.says("WEBHOOK_ENDPOINT_CHANGED", {"changed": ["secret"]})
    await events.append(conn, stream(tenant, endpoint), said)
    return Issued(webhook_endpoint_id=endpoint, url=row["url"], secret=SECRET_PREFIX + secret)


async def disable(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, reason: str, act: Act) -> None:
    """Send nothing there any more, because the endpoint itself wants it so. Nothing happens if that is so already."""
    if await conn.fetchrow(DEACTIVATE, tenant, endpoint) is not None:
        said = act.says("WEBHOOK_ENDPOINT_CHANGED", {"changed": ["is_active"], "reason": reason})
        await events.append(conn, stream(tenant, endpoint), said)


async def require_active(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> None:
    """Refuse an endpoint that is not active; one that is stays so until the transaction ends."""
    if not await conn.fetchval(ACTIVE, tenant, endpoint):
        raise await _why_not(conn, tenant, endpoint)


async def test(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, act: Act) -> OnItsWay:
    """Send an endpoint a webhook that tells of nothing but itself."""
    await require_active(conn, tenant, endpoint)
    event = await events.append(conn, stream(tenant, endpoint), act.says(TESTED, {}))
    return await announcing.announce_to(conn, tenant, endpoint, event.event_id)


async def subscribe(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, event_type: WebhookType, *, act: Act
) -> Subscription:
    """Tell an endpoint about events of a type from now on."""
    await require_active(conn, tenant, endpoint)
    made = WebhookSubscriptionId(fresh.new_id())
    if not await conn.fetchval(SUBSCRIBE, tenant, made, endpoint, event_type, act.at):
        raise AlreadySubscribed(event_type, await conn.fetchval(SAME, tenant, endpoint, event_type))
    found = Subscription(
        webhook_subscription_id=made, webhook_endpoint_id=endpoint, event_type=event_type, created_at=act.at
    )
    await _on_record(conn, tenant, found, "WEBHOOK_SUBSCRIPTION_CREATED", act)
    return found


async def subscriptions(
    conn: Connection, tenant: TenantId, ask: Ask, *, endpoint: WebhookEndpointId | None
) -> Sequence[Subscription]:
    """Subscriptions, newest first."""
    if endpoint is None:
        rows = await conn.fetch(SUBSCRIPTIONS, tenant, *ask)
    else:
        rows = await conn.fetch(SUBSCRIPTIONS_OF, tenant, *ask, endpoint)
    return [Subscription(**dict(row)) for row in rows]


async def unsubscribe(
    conn: Connection, tenant: TenantId, subscription: WebhookSubscriptionId, *, act: Act
) -> Subscription:
    """End a subscription: its row goes, what was done stays on record."""
    row = await conn.fetchrow(UNSUBSCRIBE, tenant, subscription)
    if row is None:
        raise SubscriptionUnknown(subscription)
    found = Subscription(**dict(row))
    await _on_record(conn, tenant, found, "WEBHOOK_SUBSCRIPTION_DELETED", act)
    return found


def _new_secret() -> str:
    return b64encode(fresh.entropy(SECRET_BYTES)).decode()


async def _why_not(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> Conflict | NotFound:
    await get(conn, tenant, endpoint)
    return EndpointInactive(endpoint)


async def _on_record(conn: Connection, tenant: TenantId, about: Subscription, event_type: str, act: Act) -> None:
    payload = {"webhook_endpoint_id": str(about.webhook_endpoint_id), "event_type": about.event_type}
    of_it = Stream(tenant, "WebhookSubscription", AggregateId(about.webhook_subscription_id))
    await events.append(conn, of_it, act.says(event_type, payload))
