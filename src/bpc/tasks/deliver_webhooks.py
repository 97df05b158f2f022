"""Deliver webhooks: send one event to one endpoint, signed, and store the answer.

    PENDING ─► send ─┬─ 2xx ──────────────────────────────────────────► DELIVERED
                     ├─ 3xx, 4xx, an address that is not allowed ─────► FAILED   410 also disables the endpoint
                     └─ 408, 425, 429, 5xx, no answer ─► again after 2, 4, 8 … s or when the endpoint asks for it,
                        (4xx if the endpoint wants it)   and after the last attempt ► FAILED, the job DEAD_LETTER
             cancelled, before or while it is sent ───────────────────► FAILED, the job CANCELLED, by the database

No transaction is open while a webhook is sent. If a worker dies after sending and before storing the answer, the
delivery is sent again under the same id, by which the receiver recognizes it.

Failed attempts are counted per endpoint. One that fails for longer than the policy allows is disabled; that is an event
and a warning in the log, which is meant to be mailed to somebody.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from service_jobs import Context, Handler, Handlers, JobError, Rejection, Retry

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.ids import TenantId, WebhookDeliveryId, WebhookEndpointId
from bpc.core.secret_box import SecretBox
from bpc.core.webhooks import (
    GONE,
    MAX_RETRY_AFTER_SECONDS,
    DeliveryVerdict,
    build_headers,
    judge_status,
    parse_retry_after,
)
from bpc.outbound import Guard, OutboundAnswer, OutboundFailed
from bpc.runtime import clock
from bpc.runtime.telemetry import DisablingCause, JobMetrics
from bpc.storage.connection import Connection
from bpc.storage.database import OpenTransaction
from bpc.storage.jobs import load_job_input, make_subject
from bpc.storage.webhooks import deliveries, endpoint_health
from bpc.storage.webhooks.deliveries import DeliveryAttempt, DeliveryResponseRow, OutgoingDelivery
from bpc.storage.webhooks.endpoints import EndpointInactive
from bpc.storage.webhooks.webhook_fanout import JOB_TYPE
from bpc.storage.webhooks.webhook_retries import ATTEMPTS, FACTOR, FIRST_PAUSE_SECONDS, DeliveryPolicy

OVERHEAD_SECONDS: Final = 30.0  # for everything that is not sending
MAX_TIMEOUT_SECONDS: Final = 60  # of an endpoint with a timeout of its own

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOrder:
    """The delivery to send."""

    webhook_delivery_id: WebhookDeliveryId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOutcome:
    """A delivery that arrived, and what the endpoint answered; None if an earlier execution has delivered it."""

    webhook_delivery_id: WebhookDeliveryId
    webhook_endpoint_id: WebhookEndpointId
    response_status: int | None


class EndpointUnavailable(OutboundFailed):
    """The endpoint may give another answer next time."""

    def __init__(self, status: int, retry_after: int) -> None:
        super().__init__(
            f"the endpoint answered {status}", fix="if this continues, repair the endpoint", details={"status": status}
        )
        self.retry_after = retry_after  # seconds; the job engine reads it


class EndpointRejected(Refusal):
    """The endpoint refused the webhook; another attempt would end in the same way."""

    code = "REJECTED_BY_ENDPOINT"

    def __init__(self, status: int) -> None:
        super().__init__(
            f"the endpoint answered {status}",
            fix="read its answer, repair the endpoint, and redeliver",
            details={"status": status},
        )


def make_delivery_retry(policy: DeliveryPolicy) -> Retry:
    """How the job engine repeats a delivery."""
    return Retry(
        attempts=ATTEMPTS,
        first_delay=min(FIRST_PAUSE_SECONDS, policy.longest_pause_seconds),
        factor=FACTOR,
        longest_delay=policy.longest_pause_seconds,
        jitter=policy.jitter,
        longest_requested_delay=float(MAX_RETRY_AFTER_SECONDS),
    )


def declare_deliver_job(
    handlers: Handlers,
    *,
    guard: Guard,
    open_transaction: OpenTransaction,
    metrics: JobMetrics,
    policy: DeliveryPolicy = DeliveryPolicy(),  # noqa: B008 (frozen)
    load_box: Callable[[], SecretBox | None] = lambda: None,
) -> Handler[DeliveryOrder, DeliveryOutcome]:
    """The job DELIVER_WEBHOOK. `load_box` gives what decrypts the secrets of endpoints."""
    timeout = max(guard.max_seconds, MAX_TIMEOUT_SECONDS) + OVERHEAD_SECONDS

    @handlers.job(
        JOB_TYPE,
        timeout=timeout,
        retry=make_delivery_retry(policy),
        subject=lambda order: make_subject("webhook_delivery", order.webhook_delivery_id),
        description="Sends one event to one endpoint.",
    )
    async def deliver(ctx: Context, order: DeliveryOrder) -> DeliveryOutcome | Rejection:
        tenant, delivery = TenantId(ctx.tenant), order.webhook_delivery_id
        async with open_transaction(tenant) as conn:
            row = await deliveries.load_outgoing(conn, tenant, delivery, box=load_box())
        outcome = DeliveryOutcome(
            webhook_delivery_id=delivery, webhook_endpoint_id=row.webhook_endpoint_id, response_status=None
        )
        if row.status == "DELIVERED":
            return outcome
        if row.status == "FAILED":
            conflict = Conflict(
                f"webhook delivery `{delivery}` has ended", fix="redeliver it: that makes a new delivery"
            )
            return Rejection.from_exception(conflict)
        if not row.is_active:  # `give_up` records that
            return Rejection.from_exception(EndpointInactive(row.webhook_endpoint_id, row.disabled_reason))
        response, error = await _send(guard, row, delivery)
        error_json = None if error is None else JobError.from_exception(error).to_json()
        attempt = DeliveryAttempt(number=ctx.attempt, at=clock.now(), response=response, error=error_json)
        if error is not None and error.retryable:
            async with open_transaction(tenant) as conn:
                await deliveries.record_attempt(conn, tenant, delivery, "PENDING", attempt)
                await _count_failure(conn, tenant, delivery, row, attempt, policy, metrics)
            if ctx.attempt < ctx.max_attempts:
                metrics.record_delivery("RETRIED")
            raise error
        refusal = await _record_end(await ctx.transaction(), tenant, delivery, row, attempt, error, policy, metrics)
        metrics.record_delivery("DELIVERED" if refusal is None else "FAILED")
        return refusal or replace(outcome, response_status=None if response is None else response.status)

    @deliver.on_failure
    async def give_up(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, deliver)
        if await deliveries.set_delivery_failed(conn, tenant, order.webhook_delivery_id, error.to_json()):
            metrics.record_delivery("FAILED")

    return deliver


async def _record_end(
    conn: Connection,
    tenant: TenantId,
    delivery: WebhookDeliveryId,
    row: OutgoingDelivery,
    attempt: DeliveryAttempt,
    error: Refusal | None,
    policy: DeliveryPolicy,
    metrics: JobMetrics,
) -> Rejection | None:
    """Record how a delivery ended, in the transaction that ends its job."""
    await deliveries.record_attempt(conn, tenant, delivery, "DELIVERED" if error is None else "FAILED", attempt)
    if error is None:
        if row.is_failing:
            await endpoint_health.clear_failures(conn, tenant, row.webhook_endpoint_id)
        return None
    await _count_failure(conn, tenant, delivery, row, attempt, policy, metrics)
    return Rejection.from_exception(error)


async def _count_failure(
    conn: Connection,
    tenant: TenantId,
    delivery: WebhookDeliveryId,
    row: OutgoingDelivery,
    attempt: DeliveryAttempt,
    policy: DeliveryPolicy,
    metrics: JobMetrics,
) -> None:
    """Count a failed attempt of an endpoint, and disable the endpoint if it is gone or fails persistently."""
    endpoint = row.webhook_endpoint_id
    failures = await endpoint_health.count_failure(conn, tenant, endpoint, at=attempt.at)
    if attempt.response is not None and attempt.response.status == GONE:
        cause: DisablingCause = "GONE"
        reason = f"it answered 410 to delivery {delivery}"
    elif policy.is_persistent(failures.failing_since, failures.failed_attempts, attempt.at):
        cause = "FAILING"
        hours = (attempt.at - failures.failing_since) // timedelta(hours=1)
        reason = f"each of {failures.failed_attempts} attempts failed for {hours} hours"
    else:
        return
    act = Act(None, attempt.at)
    if await endpoint_health.disable_endpoint(conn, tenant, endpoint, reason=reason, act=act) is not None:
        metrics.record_disabled_endpoint(cause)
        fields: Mapping[str, object] = {
            "notice": "webhook_endpoint_disabled",
            "tenant_id": str(tenant),
            "webhook_endpoint_id": str(endpoint),
            "reason": reason,
        }
        log.warning("a webhook endpoint was disabled", extra=fields)


async def _send(
    guard: Guard, row: OutgoingDelivery, delivery: WebhookDeliveryId
) -> tuple[DeliveryResponseRow | None, Refusal | None]:
    """Send it. Return the answer and the error in it, or no answer and the reason."""
    body, moment = row.announcement.encode_body(), clock.now()
    signed_headers = build_headers(
        body, webhook_type=row.announcement.webhook_type, delivery=delivery, moment=moment, keys=row.keys
    )
    try:
        answer = await guard.send("POST", row.url, headers=signed_headers, content=body, timeout=row.timeout_seconds)
    except Refusal as refusal:
        return None, refusal
    response = DeliveryResponseRow(
        status=answer.status, headers=answer.headers, body=answer.body, is_cut=answer.is_truncated
    )
    return response, _find_error(answer, retry_client_errors=row.retry_client_errors)


def _find_error(answer: OutboundAnswer, *, retry_client_errors: bool) -> Refusal | None:
    match judge_status(answer.status, retry_client_errors=retry_client_errors):
        case DeliveryVerdict.DELIVERED:
            return None
        case DeliveryVerdict.FAILED:
            return EndpointRejected(answer.status)
        case DeliveryVerdict.AGAIN:
            return EndpointUnavailable(answer.status, parse_retry_after(answer.headers.get("retry-after"), clock.now()))
