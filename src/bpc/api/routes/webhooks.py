"""/v1/webhook-endpoints, -subscriptions, -deliveries: notifications about events, and whether they arrived."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query
from pydantic import BeforeValidator, Field, StringConstraints
from starlette.requests import Request

from bpc.api.access.auth import require_not_denied
from bpc.api.http.models import (
    FILTER_FORMS,
    FilterMoment,
    Id,
    IdOf,
    Moment,
    NothingToChange,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    Text,
    list_members,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Invalid
from bpc.core.formats.ids import WebhookDeliveryId, WebhookEndpointId, WebhookSubscriptionId
from bpc.core.outbound_urls import MAX_URL_LENGTH, check_url
from bpc.core.policies import Resource
from bpc.core.webhooks import WebhookType
from bpc.storage.webhooks import deliveries, endpoint_health, endpoints, redeliveries
from bpc.storage.webhooks.deliveries import DeliveryStatus
from bpc.storage.webhooks.redeliveries import MAX_REDELIVERIES
from bpc.storage.webhooks.webhook_fanout import QueuedDelivery

endpoint_routes = RouteFamily("Webhooks", resource="WebhookEndpoint")
subscription_routes = RouteFamily("Webhooks", resource="WebhookSubscription")
delivery_routes = RouteFamily("Webhooks", resource="WebhookDelivery")

DecodedText = Annotated[
    str, BeforeValidator(lambda value: value.decode(errors="replace") if isinstance(value, bytes) else value)
]
TimeoutSeconds = Annotated[int, Field(ge=1, le=60)]
TIMEOUT_DESCRIPTION = "Seconds to wait for its answer, 1 to 60; null for what the installation has set."
RETRY_CLIENT_ERRORS_DESCRIPTION = "True to retry after 4xx answers, too. 410 is always final."
MAX_SINCE_DAYS = 30  # how far back events are sent again
EndpointFilter = Annotated[IdOf[WebhookEndpointId] | None, Query(description="Only of this endpoint.")]


class NewEndpoint(RequestBody):
    url: Annotated[str, StringConstraints(min_length=1, max_length=MAX_URL_LENGTH)] = Field(
        description="An https URL (in test and dev also http) with a host and optionally port, path and query. "
        "No user, no fragment, no private address.",
        examples=["https://example.com/hooks/battery"],
    )
    timeout_seconds: TimeoutSeconds | None = Field(None, description=TIMEOUT_DESCRIPTION, examples=[10])
    retry_client_errors: bool = Field(False, description=RETRY_CLIENT_ERRORS_DESCRIPTION)


class EndpointChange(RequestBody):
    """Members that are left out do not change."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=MAX_URL_LENGTH)] | None = Field(
        None, description="The new URL, as when it is created.", examples=["https://example.com/hooks/new"]
    )
    timeout_seconds: TimeoutSeconds | None = Field(None, description=TIMEOUT_DESCRIPTION, examples=[10])
    retry_client_errors: bool | None = Field(None, description=RETRY_CLIENT_ERRORS_DESCRIPTION)


class EndpointReason(RequestBody):
    reason: Text | None = Field(None, description="Why, for the audit log.", examples=["maintenance until Monday"])


class EndpointIssued(ResponseBody):
    webhook_endpoint_id: Id
    url: str
    secret: str = Field(
        description="The secret that signs webhooks; the key is the decoded base64. It is shown only once.",
        examples=["whsec_YSBzZWNyZXQgb2YgYW4gZXhhbXBsZSwgMzIgYnl0ZXM="],
    )


class Endpoint(ResponseBody):
    webhook_endpoint_id: Id
    url: str = Field(examples=["https://example.com/hooks/battery"])
    is_active: bool = Field(description="False while it is disabled or after it was deleted; nothing is sent to it.")
    created_at: Moment
    rotated_at: Moment | None = Field(description="When its secret was last replaced.")
    timeout_seconds: int | None = Field(description=TIMEOUT_DESCRIPTION, examples=[10])
    retry_client_errors: bool = Field(description=RETRY_CLIENT_ERRORS_DESCRIPTION)
    failing_since: Moment | None = Field(
        description="The first of the attempts that failed since one arrived; null if the last one arrived."
    )
    failed_attempts: int = Field(description="Number of attempts that failed since one arrived.", examples=[0])
    disabled_at: Moment | None = Field(description="When it was disabled; null if it is active or was deleted.")
    disabled_reason: str | None = Field(
        description="Why it was disabled.", examples=["each of 212 attempts failed for 120 hours"]
    )


class NewSubscription(RequestBody):
    webhook_endpoint_id: IdOf[WebhookEndpointId]
    event_type: WebhookType = Field(examples=["passport.version.active"])


class Subscription(ResponseBody):
    webhook_subscription_id: Id
    webhook_endpoint_id: Id
    event_type: WebhookType
    created_at: Moment


class DeliveryFault(ResponseBody):
    """Why the last attempt failed."""

    code: str = Field(examples=["OUTBOUND_BLOCKED"])
    message: str = Field(examples=["the endpoint answered 500"])
    retryable: bool = Field(False, description="True if another attempt may succeed.")
    details: dict[str, Any] = Field(default_factory=dict, description="Details for programs.")


class Delivery(ResponseBody):
    webhook_delivery_id: Id
    webhook_endpoint_id: Id
    event_id: Id = Field(description="The audit event that it reports.")
    redelivery_of: Id | None = Field(description="The delivery that it repeats.")
    attempt: int = Field(description="Number of attempts.", examples=[1])
    status: DeliveryStatus = Field(description="PENDING until it is final.")
    last_error: DeliveryFault | None = Field(description="The error of the last failed attempt.")
    response_status: int | None = Field(description="The HTTP status of the last answer.", examples=[204])
    created_at: Moment
    last_attempt_at: Moment | None
    delivered_at: Moment | None


class DeliveryResponse(ResponseBody):
    """The last answer of the endpoint, as far as it is stored."""

    status: int = Field(examples=[204])
    headers: dict[str, str] = Field(description="The first 8 KiB of the headers.")
    body: DecodedText = Field(description="The first 64 KiB as UTF-8; invalid bytes are shown as `\ufffd`.")
    is_cut: bool = Field(description="True if the body was longer and was cut.")


class DeliveryDetail(Delivery):
    response: DeliveryResponse | None = Field(description="Null if the last attempt got no answer.")


class RedeliveriesAccepted(ResponseBody):
    queued: int = Field(description="Number of new deliveries.", examples=[212])
    has_more: bool = Field(description="True if there are more events to send: call it again.")


class DeliveryAccepted(ResponseBody):
    webhook_delivery_id: Id = Field(description="The new delivery.")
    job_id: Id = Field(description="The job that sends it.")


@endpoint_routes.write(
    "/v1/webhook-endpoints",
    permission="tenant:admin",
    status=201,
    secret="webhook_endpoint_id",  # noqa: S106 (the member that says whose)
    errors=("OUTBOUND_BLOCKED",),
)
async def create_webhook_endpoint(ctx: Context, body: NewEndpoint) -> EndpointIssued:
    """Create an endpoint that webhooks are sent to. Its secret is shown only in this answer."""
    url = _check_url(ctx, body.url)
    new_endpoint = await endpoints.create_endpoint(
        ctx.conn,
        ctx.tenant,
        url=url,
        act=ctx.act,
        timeout_seconds=body.timeout_seconds,
        retry_client_errors=body.retry_client_errors,
        box=ctx.service.secret_box,
    )
    return EndpointIssued.model_validate(new_endpoint)


@endpoint_routes.read("/v1/webhook-endpoints", permission="tenant:admin")
async def list_webhook_endpoints(ctx: Context, page: Paging) -> Page[Endpoint]:
    """List endpoints, newest first."""
    return page.build_page(await endpoints.list_endpoints(ctx.conn, ctx.tenant, page.query), Endpoint)


@endpoint_routes.read("/v1/webhook-endpoints/{webhook_endpoint_id}", permission="tenant:admin")
async def get_webhook_endpoint(ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId]) -> Endpoint:
    """Get an endpoint, without its secret."""
    return Endpoint.model_validate(await endpoints.get_endpoint(ctx.conn, ctx.tenant, webhook_endpoint_id))


@endpoint_routes.write(
    "/v1/webhook-endpoints/{webhook_endpoint_id}",
    method="PATCH",
    permission="tenant:admin",
    errors=("OUTBOUND_BLOCKED",),
)
async def change_webhook_endpoint(
    ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId], body: EndpointChange
) -> Endpoint:
    """Change the URL of an endpoint, its timeout, or what is retried. Its secret and subscriptions stay."""
    if not body.model_fields_set:
        raise NothingToChange(body)
    before = await endpoints.lock_endpoint(ctx.conn, ctx.tenant, webhook_endpoint_id)
    endpoint = await endpoints.change_endpoint(
        ctx.conn,
        ctx.tenant,
        webhook_endpoint_id,
        url=None if body.url is None else _check_url(ctx, body.url),
        timeout_seconds=body.timeout_seconds if "timeout_seconds" in body.model_fields_set else before.timeout_seconds,
        retry_client_errors=body.retry_client_errors,
        act=ctx.act,
    )
    return Endpoint.model_validate(endpoint)


@endpoint_routes.write("/v1/webhook-endpoints/{webhook_endpoint_id}:disable", permission="tenant:admin")
async def disable_webhook_endpoint(
    ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId], body: EndpointReason
) -> Endpoint:
    """Disable an endpoint until it is enabled again. Its deliveries that have not arrived fail."""
    reason = body.reason or "it was disabled by hand"
    endpoint = await endpoint_health.require_disabled(
        ctx.conn, ctx.tenant, webhook_endpoint_id, reason=reason, act=ctx.act
    )
    return Endpoint.model_validate(endpoint)


@endpoint_routes.write("/v1/webhook-endpoints/{webhook_endpoint_id}:enable", permission="tenant:admin")
async def enable_webhook_endpoint(
    ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId], body: EndpointReason
) -> Endpoint:
    """Enable an endpoint that is disabled. What it missed is sent with `:redeliver-failed`."""
    endpoint = await endpoint_health.enable_endpoint(
        ctx.conn, ctx.tenant, webhook_endpoint_id, reason=body.reason, act=ctx.act
    )
    return Endpoint.model_validate(endpoint)


@endpoint_routes.write(
    "/v1/webhook-endpoints/{webhook_endpoint_id}:redeliver-failed", permission="tenant:admin", status=202
)
async def redeliver_failed_webhooks(
    ctx: Context,
    webhook_endpoint_id: IdOf[WebhookEndpointId],
    since: Annotated[
        FilterMoment,
        Query(description=f"Events from this time on, inclusive; at most {MAX_SINCE_DAYS} days ago. {FILTER_FORMS}"),
    ],
    at_most: Annotated[
        int, Query(ge=1, le=MAX_REDELIVERIES, description="The largest number of new deliveries.")
    ] = MAX_REDELIVERIES,
) -> RedeliveriesAccepted:
    """Send an endpoint the events since a time that it has not received, the oldest first.

    That is each event whose deliveries have all failed, and each that occurred while the endpoint was disabled. What is
    on its way or has arrived is not sent again, so the call can be repeated.
    """
    if since < ctx.act.at - timedelta(days=MAX_SINCE_DAYS):
        raise Invalid(f"`since` is more than {MAX_SINCE_DAYS} days ago", fix="redeliver older ones one by one")
    result = await redeliveries.redeliver_failed(
        ctx.conn, ctx.tenant, webhook_endpoint_id, since=since, limit=at_most, act=ctx.act
    )
    return RedeliveriesAccepted.model_validate(result)


@endpoint_routes.write("/v1/webhook-endpoints/{webhook_endpoint_id}", method="DELETE", permission="tenant:admin")
async def delete_webhook_endpoint(ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId]) -> Endpoint:
    """Delete an endpoint. Nothing is sent to it any more; its deliveries remain on record."""
    return Endpoint.model_validate(
        await endpoints.deactivate_endpoint(ctx.conn, ctx.tenant, webhook_endpoint_id, act=ctx.act)
    )


@endpoint_routes.write(
    "/v1/webhook-endpoints/{webhook_endpoint_id}:rotate",
    permission="tenant:admin",
    secret="webhook_endpoint_id",  # noqa: S106 (the member that says whose)
)
async def rotate_webhook_secret(ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId]) -> EndpointIssued:
    """Give an endpoint a new secret, shown only in this answer. The previous secret stays valid for a while."""
    return EndpointIssued.model_validate(
        await endpoints.rotate_secret(
            ctx.conn, ctx.tenant, webhook_endpoint_id, act=ctx.act, box=ctx.service.secret_box
        )
    )


@endpoint_routes.write("/v1/webhook-endpoints/{webhook_endpoint_id}:test", permission="tenant:admin", status=202)
async def test_webhook_endpoint(ctx: Context, webhook_endpoint_id: IdOf[WebhookEndpointId]) -> DeliveryAccepted:
    """Send a test webhook to an endpoint. Its type is `webhook.test`."""
    return _to_accepted(ctx, await endpoints.send_test_event(ctx.conn, ctx.tenant, webhook_endpoint_id, act=ctx.act))


@subscription_routes.write("/v1/webhook-subscriptions", permission="tenant:admin", status=201, errors=("NOT_FOUND",))
async def create_webhook_subscription(ctx: Context, request: Request, body: NewSubscription) -> Subscription:
    """Subscribe an endpoint to one type of event, from now on."""
    endpoint = body.webhook_endpoint_id
    require_not_denied(ctx, request, [Resource(type="WebhookEndpoint", id=endpoint)], "tenant:admin")
    subscription = await endpoints.subscribe(ctx.conn, ctx.tenant, endpoint, body.event_type, act=ctx.act)
    return Subscription.model_validate(subscription)


@subscription_routes.read("/v1/webhook-subscriptions", permission="tenant:admin")
async def list_webhook_subscriptions(
    ctx: Context, page: Paging, webhook_endpoint_id: EndpointFilter = None
) -> Page[Subscription]:
    """List subscriptions, newest first."""
    rows = await endpoints.list_subscriptions(ctx.conn, ctx.tenant, page.query, endpoint=webhook_endpoint_id)
    return page.build_page(rows, Subscription)


@subscription_routes.write(
    "/v1/webhook-subscriptions/{webhook_subscription_id}", method="DELETE", permission="tenant:admin"
)
async def delete_webhook_subscription(
    ctx: Context, webhook_subscription_id: IdOf[WebhookSubscriptionId]
) -> Subscription:
    """End a subscription."""
    return Subscription.model_validate(
        await endpoints.unsubscribe(ctx.conn, ctx.tenant, webhook_subscription_id, act=ctx.act)
    )


@delivery_routes.read("/v1/webhook-deliveries", permission="tenant:admin")
async def list_webhook_deliveries(
    ctx: Context,
    page: Paging,
    webhook_endpoint_id: EndpointFilter = None,
    status: Annotated[DeliveryStatus | None, Query()] = None,
) -> Page[Delivery]:
    """List deliveries, sent or waiting, newest first."""
    rows = await deliveries.list_deliveries(
        ctx.conn, ctx.tenant, page.query, endpoint=webhook_endpoint_id, status=status
    )
    return page.build_page(rows, Delivery)


@delivery_routes.read("/v1/webhook-deliveries/{webhook_delivery_id}", permission="tenant:admin")
async def get_webhook_delivery(ctx: Context, webhook_delivery_id: IdOf[WebhookDeliveryId]) -> DeliveryDetail:
    """Get a delivery with the last answer of the endpoint."""
    row = await deliveries.get_delivery(ctx.conn, ctx.tenant, webhook_delivery_id)
    response = await deliveries.load_response(ctx.conn, ctx.tenant, webhook_delivery_id)
    return DeliveryDetail.model_validate({**list_members(row), "response": response})


@delivery_routes.write("/v1/webhook-deliveries/{webhook_delivery_id}:redeliver", permission="tenant:admin", status=202)
async def redeliver_webhook(ctx: Context, webhook_delivery_id: IdOf[WebhookDeliveryId]) -> DeliveryAccepted:
    """Send an event again to the same endpoint, as a new delivery. The previous delivery must have ended."""
    return _to_accepted(ctx, await redeliveries.redeliver(ctx.conn, ctx.tenant, webhook_delivery_id, act=ctx.act))


def _check_url(ctx: RequestContext, url: str) -> str:
    settings = ctx.service.settings
    return check_url(url, https_only=settings.env == "prod", allowlist=settings.outbound_allow)


def _to_accepted(ctx: Context, delivery: QueuedDelivery) -> DeliveryAccepted:
    ctx.submitted.append(delivery.job_id)
    return DeliveryAccepted.model_validate(delivery)
