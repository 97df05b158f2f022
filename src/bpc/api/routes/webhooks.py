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
from bpc.core.outbound_urls import LONGEST, checked_url
from bpc.core.policies import Resource
from bpc.core.webhooks import WebhookType
from bpc.db import deliveries, webhooks
from bpc.db.announcing import OnItsWay
from bpc.db.deliveries import DeliveryStatus

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
    is_active: bool = Field(description="False once it was deleted, or answered 410: nothing is sent there any more.")
    created_at: Moment
    rotated_at: Moment | None = Field(description="When its secret was last replaced.")


class NewSubscription(Request):
    webhook_endpoint_id: Id
    event_type: WebhookType = Field(examples=["passport.version.active"])


class Subscription(Answer):
    webhook_subscription_id: Id
    webhook_endpoint_id: Id
    event_type: WebhookType
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
    redelivery_of: Id | None = Field(description="The delivery that it repeats.")
    attempt: int = Field(description="How often it was sent.", examples=[1])
    status: DeliveryStatus = Field(description="PENDING until it is final.")
    last_error: DeliveryFault | None = Field(description="Of the last attempt that did not arrive.")
    response_status: int | None = Field(description="What the last attempt was answered.", examples=[204])
    created_at: Moment
    last_attempt_at: Moment | None
    delivered_at: Moment | None


class DeliveryResponse(Answer):
    """What the endpoint answered last, as far as it is kept."""

    status: int = Field(examples=[204])
    headers: dict[str, str] = Field(description="The first 8 KiB of them.")
    body: str = Field(description="The first 64 KiB, read as UTF-8; what is none is shown as `\ufffd`.")
    is_cut: bool = Field(description="Whether the body went on.")


class DeliveryDetail(Delivery):
    response: DeliveryResponse | None = Field(description="Null if the last attempt was not answered.")


class DeliveryAccepted(Answer):
    webhook_delivery_id: Id = Field(description="The new delivery.")
    job_id: Id = Field(description="The job that sends it.")


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
    "/v1/webhook-endpoints/{webhook_endpoint_id}:test",
    permission="tenant:admin",
    resource="WebhookEndpoint",
    status=202,
)
async def test_webhook_endpoint(work: Work, webhook_endpoint_id: Id) -> DeliveryAccepted:
    """Send an endpoint a webhook that tells of nothing but itself. Its type is `webhook.test`."""
    endpoint = WebhookEndpointId(webhook_endpoint_id)
    return _accepted(work, await webhooks.test(work.conn, work.tenant, endpoint, act=work.act))


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
    rows = await deliveries.page(work.conn, work.tenant, paged.ask, endpoint=endpoint, status=status)
    return paged.page(rows, lambda row: Place(row.created_at, row.webhook_delivery_id), Delivery.model_validate)


@routes.read("/v1/webhook-deliveries/{webhook_delivery_id}", permission="tenant:admin", resource="WebhookDelivery")
async def get_webhook_delivery(work: Work, webhook_delivery_id: Id) -> DeliveryDetail:
    """Get a delivery, with what the endpoint answered last."""
    delivery = WebhookDeliveryId(webhook_delivery_id)
    found = await deliveries.get(work.conn, work.tenant, delivery)
    response = await deliveries.response(work.conn, work.tenant, delivery)
    return DeliveryDetail(
        **Delivery.model_validate(found).model_dump(), response=None if response is None else _shown(response)
    )


@routes.write(
    "/v1/webhook-deliveries/{webhook_delivery_id}:redeliver",
    permission="tenant:admin",
    resource="WebhookDelivery",
    status=202,
)
async def redeliver_webhook(work: Work, webhook_delivery_id: Id) -> DeliveryAccepted:
    """Send the same event again to the same endpoint, under a new delivery id; for one that has ended."""
    delivery = WebhookDeliveryId(webhook_delivery_id)
    return _accepted(work, await deliveries.redeliver(work.conn, work.tenant, delivery, act=work.act))


def _accepted(work: Work, asked: OnItsWay) -> DeliveryAccepted:
    work.submitted.append(asked.job_id)
    return DeliveryAccepted.model_validate(asked)


def _shown(response: deliveries.Answered) -> DeliveryResponse:
    return DeliveryResponse(
        status=response.status,
        headers=dict(response.headers),
        body=response.body.decode(errors="replace"),
        is_cut=response.is_cut,
    )
