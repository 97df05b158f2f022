"""/v1/webhook-endpoints, -subscriptions, -deliveries: who is told what, and whether it arrived."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_undenied
from bpc.api.models import Answer, Id, Moment, Page, Request
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import WebhookDeliveryId, WebhookEndpointId, WebhookSubscriptionId
from bpc.core.policies import Resource
from bpc.core.webhook_urls import LONGEST, checked_url
from bpc.db import webhooks
from bpc.db.webhooks import DeliveryStatus, EventType

routes = Routes("Webhooks")

OfEndpoint = Annotated[Id | None, Query(description="Of this endpoint only.")]


class NewEndpoint(Request):
    url: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)] = Field(
        description="https (in test and dev also http), a host, maybe port, path and query. No user, no fragment, "
        "no private address.",
        examples=["https://example.com/hooks/battery"],
    )


class EndpointIssued(Answer):
    webhook_endpoint_id: Id
    url: str
    secret: str = Field(
        description="What webhooks are signed with: the key is the decoded base64. Shown this once only.",
        examples=["whsec_YSBzZWNyZXQgb2YgYW4gZXhhbXBsZSwgMzIgYnl0ZXM="],
    )


class Endpoint(Answer):
    webhook_endpoint_id: Id
    url: str = Field(examples=["https://example.com/hooks/battery"])
    is_active: bool = Field(description="False once it was deleted: nothing is sent there any more.")
    created_at: Moment
    rotated_at: Moment | None = Field(description="When its secret was last replaced.")


class NewSubscription(Request):
    webhook_endpoint_id: Id
    event_type: EventType = Field(examples=["passport.version.active"])


class Subscription(Answer):
    webhook_subscription_id: Id
    webhook_endpoint_id: Id
    event_type: EventType
    created_at: Moment


class DeliveryFault(Answer):
    """Why the last attempt did not arrive."""

    code: str = Field(examples=["OUTBOUND_BLOCKED"])
    message: str = Field(examples=["the endpoint answered 500"])
    retryable: bool = Field(False, description="Whether it is worth another attempt.")
    details: dict[str, Any] = Field(default_factory=dict, description="What a program may want to read.")


class Delivery(Answer):
    webhook_delivery_id: Id
    webhook_endpoint_id: Id
    event_id: Id = Field(description="The audit event it tells about.")
    attempt: int = Field(description="How often it was sent.", examples=[1])
    status: DeliveryStatus = Field(description="PENDING until it is final.")
    last_error: DeliveryFault | None = Field(description="Of the last attempt that did not arrive.")
    created_at: Moment
    delivered_at: Moment | None


@routes.write(
    "/v1/webhook-endpoints",
    permission="tenant:admin",
    resource="WebhookEndpoint",
    status=201,
    secret="webhook_endpoint_id",  # noqa: S106 (the member that says whose)
    errors=("OUTBOUND_BLOCKED",),
)
async def create_webhook_endpoint(work: Work, body: NewEndpoint) -> EndpointIssued:
    """Create an endpoint that webhooks are sent to. Its secret is shown in this answer and never again."""
    settings = work.service.settings
    url = checked_url(body.url, https_only=settings.env == "prod", allowed=settings.outbound_allow)
    return EndpointIssued.model_validate(await webhooks.create(work.conn, work.tenant, url=url, act=work.act))


@routes.read("/v1/webhook-endpoints", permission="tenant:admin", resource="WebhookEndpoint")
async def list_webhook_endpoints(work: Work, paged: Paged) -> Page[Endpoint]:
    """List endpoints, newest first."""
    rows = await webhooks.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.webhook_endpoint_id), Endpoint.model_validate)


@routes.read("/v1/webhook-endpoints/{webhook_endpoint_id}", permission="tenant:admin", resource="WebhookEndpoint")
async def get_webhook_endpoint(work: Work, webhook_endpoint_id: Id) -> Endpoint:
    """Get an endpoint, without its secret."""
    return Endpoint.model_validate(await webhooks.get(work.conn, work.tenant, WebhookEndpointId(webhook_endpoint_id)))


@routes.write(
    "/v1/webhook-endpoints/{webhook_endpoint_id}",
    method="DELETE",
    permission="tenant:admin",
    resource="WebhookEndpoint",
)
async def delete_webhook_endpoint(work: Work, webhook_endpoint_id: Id) -> Endpoint:
    """Delete an endpoint: nothing is sent there any more; what was sent stays on record."""
    endpoint = WebhookEndpointId(webhook_endpoint_id)
    return Endpoint.model_validate(await webhooks.deactivate(work.conn, work.tenant, endpoint, act=work.act))


@routes.write(
    "/v1/webhook-endpoints/{webhook_endpoint_id}:rotate",
    permission="tenant:admin",
    resource="WebhookEndpoint",
    secret="webhook_endpoint_id",  # noqa: S106 (the member that says whose)
)
async def rotate_webhook_secret(work: Work, webhook_endpoint_id: Id) -> EndpointIssued:
    """Give an endpoint a new secret, shown in this answer and never again. The one before stays valid for a while."""
    endpoint = WebhookEndpointId(webhook_endpoint_id)
    return EndpointIssued.model_validate(await webhooks.rotate(work.conn, work.tenant, endpoint, act=work.act))


@routes.write(
    "/v1/webhook-subscriptions",
    permission="tenant:admin",
    resource="WebhookSubscription",
    status=201,
    errors=("NOT_FOUND",),
)
async def create_webhook_subscription(work: Work, request: HttpRequest, body: NewSubscription) -> Subscription:
    """Tell an endpoint about one type of event from now on."""
    endpoint = WebhookEndpointId(body.webhook_endpoint_id)
    require_undenied(work, request, [Resource(type="WebhookEndpoint", id=endpoint)], "tenant:admin")
    made = await webhooks.subscribe(work.conn, work.tenant, endpoint, body.event_type, act=work.act)
    return Subscription.model_validate(made)


@routes.read("/v1/webhook-subscriptions", permission="tenant:admin", resource="WebhookSubscription")
async def list_webhook_subscriptions(
    work: Work, paged: Paged, webhook_endpoint_id: OfEndpoint = None
) -> Page[Subscription]:
    """List subscriptions, newest first."""
    endpoint = None if webhook_endpoint_id is None else WebhookEndpointId(webhook_endpoint_id)
    rows = await webhooks.subscriptions(work.conn, work.tenant, paged.ask, endpoint=endpoint)
    return paged.page(rows, lambda row: Place(row.created_at, row.webhook_subscription_id), Subscription.model_validate)


@routes.write(
    "/v1/webhook-subscriptions/{webhook_subscription_id}",
    method="DELETE",
    permission="tenant:admin",
    resource="WebhookSubscription",
)
async def delete_webhook_subscription(work: Work, webhook_subscription_id: Id) -> Subscription:
    """End a subscription."""
    subscription = WebhookSubscriptionId(webhook_subscription_id)
    return Subscription.model_validate(await webhooks.unsubscribe(work.conn, work.tenant, subscription, act=work.act))


@routes.read("/v1/webhook-deliveries", permission="tenant:admin", resource="WebhookDelivery")
async def list_webhook_deliveries(
    work: Work,
    paged: Paged,
    webhook_endpoint_id: OfEndpoint = None,
    status: Annotated[DeliveryStatus | None, Query()] = None,
) -> Page[Delivery]:
    """List what was sent or is to be sent, newest first."""
    endpoint = None if webhook_endpoint_id is None else WebhookEndpointId(webhook_endpoint_id)
    rows = await webhooks.deliveries(work.conn, work.tenant, paged.ask, endpoint=endpoint, status=status)
    return paged.page(rows, lambda row: Place(row.created_at, row.webhook_delivery_id), Delivery.model_validate)


@routes.read("/v1/webhook-deliveries/{webhook_delivery_id}", permission="tenant:admin", resource="WebhookDelivery")
async def get_webhook_delivery(work: Work, webhook_delivery_id: Id) -> Delivery:
    """Get a delivery."""
    found = await webhooks.delivery(work.conn, work.tenant, WebhookDeliveryId(webhook_delivery_id))
    return Delivery.model_validate(found)
