"""Deliver webhooks: send one event to one endpoint, signed, and store the answer.

    PENDING ─► send ─┬─ 2xx ──────────────────────────────────────────► DELIVERED
                     ├─ 3xx, 4xx, an address that is not allowed ─────► FAILED   410 also disables the endpoint
                     └─ 408, 425, 429, 5xx, no answer ─► again after 2, 4, 8, 16 s or when the endpoint asks for it,
                                                         and after the fifth attempt ► FAILED, the job DEAD_LETTER
             cancelled, before or while it is sent ───────────────────► FAILED, the job CANCELLED, by the database

No transaction is open while a webhook is sent. If a worker dies after sending and before storing the answer, the
delivery is sent again under the same id, by which the receiver recognizes it.
"""

from dataclasses import dataclass
from typing import Final

from service_jobs import Context, Handler, Handlers, JobError, Rejection, Retry

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.ids import TenantId, WebhookDeliveryId
from bpc.core.webhooks import GONE, DeliveryVerdict, build_headers, judge_status, parse_retry_after
from bpc.outbound import Guard, OutboundAnswer, OutboundFailed
from bpc.runtime import clock
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.connection import Connection
from bpc.storage.database import OpenTransaction
from bpc.storage.jobs import load_job_input
from bpc.storage.webhooks import deliveries, endpoints
from bpc.storage.webhooks.deliveries import DeliveryAttempt, DeliveryResponseRow, OutgoingDelivery
from bpc.storage.webhooks.endpoints import EndpointInactive
from bpc.storage.webhooks.webhook_fanout import ATTEMPTS, JOB_TYPE, KEEP_JOBS

OVERHEAD_SECONDS: Final = 30.0  # for everything that is not sending


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOrder:
    """The delivery to send."""

    webhook_delivery_id: WebhookDeliveryId


class EndpointUnavailable(OutboundFailed):
    """The endpoint may give another answer next time."""

    def __init__(self, status: int, retry_after: int) -> None:
        super().__init__(
            f"the endpoint answered {status}", fix="if this continues, repair the endpoint", details={"status": status}
        )
        self.retry_after = retry_after  # seconds; the job engine reads it


def declare_deliver_job(
    handlers: Handlers, *, guard: Guard, open_transaction: OpenTransaction, metrics: JobMetrics
) -> Handler[DeliveryOrder, None]:
    """The job DELIVER_WEBHOOK."""

    @handlers.job(JOB_TYPE, timeout=guard.max_seconds + OVERHEAD_SECONDS, retry=Retry(attempts=ATTEMPTS), ttl=KEEP_JOBS)
    async def deliver(ctx: Context, order: DeliveryOrder) -> Rejection | None:
        tenant, delivery = TenantId(ctx.tenant), order.webhook_delivery_id
        async with open_transaction(tenant) as conn:
            row = await deliveries.load_outgoing(conn, tenant, delivery)
        if row.status == "DELIVERED":
            return None
        if row.status == "FAILED":
            ended = Conflict(f"webhook delivery `{delivery}` has ended", fix="redeliver it: that makes a new delivery")
            return Rejection.from_exception(ended)
        if not row.is_active:
            return Rejection.from_exception(EndpointInactive(row.webhook_endpoint_id))  # `give_up` records that
        response, error = await _send(guard, row, delivery)
        error_json = None if error is None else JobError.from_exception(error).to_json()
        attempt = DeliveryAttempt(number=ctx.attempt, at=clock.now(), response=response, error=error_json)
        if error is not None and error.retryable:
            async with open_transaction(tenant) as conn:
                await deliveries.record_attempt(conn, tenant, delivery, "PENDING", attempt)
            if ctx.attempt < ctx.max_attempts:
                metrics.record_delivery("RETRIED")
            raise error
        refusal = await _record_end(await ctx.transaction(), tenant, delivery, row, attempt, error)
        metrics.record_delivery("DELIVERED" if refusal is None else "FAILED")
        return refusal

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
) -> Rejection | None:
    """Record how a delivery ended, in the transaction that ends its job."""
    await deliveries.record_attempt(conn, tenant, delivery, "DELIVERED" if error is None else "FAILED", attempt)
    if attempt.response is not None and attempt.response.status == GONE:
        reason, act = f"it answered 410 to delivery {delivery}", Act(None, attempt.at)
        await endpoints.disable_endpoint(conn, tenant, row.webhook_endpoint_id, reason=reason, act=act)
    return None if error is None else Rejection.from_exception(error)


async def _send(
    guard: Guard, row: OutgoingDelivery, delivery: WebhookDeliveryId
) -> tuple[DeliveryResponseRow | None, Refusal | None]:
    """Send it. Return the answer and the error in it, or no answer and the reason."""
    body, moment = row.announcement.encode_body(), clock.now()
    signed_headers = build_headers(
        body, webhook_type=row.announcement.webhook_type, delivery=delivery, moment=moment, keys=row.keys
    )
    try:
        answer = await guard.send("POST", row.url, headers=signed_headers, content=body)
    except Refusal as refusal:
        return None, refusal
    response = DeliveryResponseRow(
        status=answer.status, headers=answer.headers, body=answer.body, is_cut=answer.is_truncated
    )
    return response, _find_error(answer)


def _find_error(answer: OutboundAnswer) -> Refusal | None:
    match judge_status(answer.status):
        case DeliveryVerdict.DELIVERED:
            return None
        case DeliveryVerdict.FAILED:
            return Conflict(
                f"the endpoint answered {answer.status}",
                fix="read its answer, repair the endpoint, and redeliver",
                details={"status": answer.status},
            )
        case DeliveryVerdict.AGAIN:
            return EndpointUnavailable(answer.status, parse_retry_after(answer.headers.get("retry-after"), clock.now()))
