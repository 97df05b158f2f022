"""Deliver: one event to one endpoint, signed; what was answered on record.

    PENDING ─► send ─┬─ 2xx ──────────────────────────────────────────► DELIVERED
                     ├─ 3xx, 4xx, an address that is not to be reached ► FAILED   410: the endpoint is disabled, too
                     └─ 408, 425, 429, 5xx, no answer ─► again after 2, 4, 8, 16 s or when the endpoint asks for it,
                                                         and after the fifth attempt ► FAILED, the job DEAD_LETTER
             cancelled, before it was sent or meanwhile ──────────────► FAILED, the job CANCELLED, by the database

No transaction is open while something is sent. A worker that dies after sending and before writing that down has sent
for nothing: the delivery is sent again under the same id, by which the receiver knows it.
"""

from typing import Final, Literal, Protocol
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.errors import Conflict, Refusal
from bpc.core.events import Act
from bpc.core.ids import TenantId, WebhookDeliveryId
from bpc.core.webhooks import GONE, Verdict, headers, rest_asked, verdict_on
from bpc.db import deliveries, webhooks
from bpc.db import jobs as recorded
from bpc.db.announcing import ATTEMPTS, JOB_TYPE, KEPT
from bpc.db.connection import Connection
from bpc.db.database import Opening
from bpc.db.deliveries import Answered, Attempt, ToSend
from bpc.db.webhooks import EndpointInactive
from bpc.jobs import Context, Handler, Handlers, JobError, Refused, Retry
from bpc.outbound import Answer, Guard, OutboundFailed

BESIDES: Final = 30.0  # seconds for all that is not sending

Result = Literal["DELIVERED", "FAILED", "RETRIED"]


@dataclass(frozen=True, kw_only=True)
class DeliveryOrder:
    """Which delivery."""

    webhook_delivery_id: UUID


class Deliveries(Protocol):
    """Whoever keeps count: of deliveries that ended, and of attempts that are followed by another one."""

    def sent(self, result: Result) -> None: ...


class Uncounted:
    """Keeps no count."""

    def sent(self, result: Result) -> None: ...


class NotTaken(Conflict):
    """The endpoint's answer is final, and is no."""

    def __init__(self, status: int) -> None:
        super().__init__(
            f"the endpoint answered {status}",
            fix="look at what it answered, mend the endpoint, and redeliver",
            details={"status": status},
        )


class NotNow(OutboundFailed):
    """The endpoint's answer may be another one next time."""

    def __init__(self, status: int, retry_after: int) -> None:
        super().__init__(
            f"the endpoint answered {status}", fix="if it stays so, mend the endpoint", details={"status": status}
        )
        self.retry_after = retry_after  # seconds; the job engine reads it


class HasEnded(Conflict):
    """A job that is retried after its delivery was over."""

    def __init__(self, delivery: WebhookDeliveryId) -> None:
        super().__init__(
            f"webhook delivery `{delivery}` has ended",
            fix=f"POST /v1/webhook-deliveries/{delivery}:redeliver makes a new one",
        )


def deliver_job(
    handlers: Handlers, *, guard: Guard, opening: Opening | None, count: Deliveries
) -> Handler[DeliveryOrder, None]:
    """`opening` opens a transaction of a tenant; who only submits jobs has none."""

    @handlers.job(JOB_TYPE, timeout=guard.longest + BESIDES, retry=Retry(attempts=ATTEMPTS), ttl=KEPT)
    async def deliver(ctx: Context, order: DeliveryOrder) -> Refused | None:
        if opening is None:
            raise RuntimeError("webhooks are delivered by a worker")
        tenant, delivery = TenantId(ctx.tenant), WebhookDeliveryId(order.webhook_delivery_id)
        async with opening(tenant) as conn:
            found = await deliveries.to_send(conn, tenant, delivery)
        if found.status == "DELIVERED":
            return None
        if found.status == "FAILED":
            return Refused.because(HasEnded(delivery))
        if not found.is_active:
            return Refused.because(EndpointInactive(found.webhook_endpoint_id))  # `give_up` puts it on record
        answered, error = await _sent(guard, found, delivery)
        attempt = Attempt(number=ctx.attempt, at=fresh.now(), answered=answered, error=_as_json(error))
        if error is not None and error.retryable:
            async with opening(tenant) as conn:
                await deliveries.record(conn, tenant, delivery, "PENDING", attempt)
            if ctx.attempt < ctx.max_attempts:
                count.sent("RETRIED")
            raise error
        ended = await _ended(await ctx.transaction(), tenant, delivery, found, attempt, error)
        count.sent("DELIVERED" if ended is None else "FAILED")
        return ended

    @deliver.on_failure
    async def give_up(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = deliver.read_input(await recorded.payload_of(conn, tenant, ctx.job_id))
        if await deliveries.give_up(conn, tenant, WebhookDeliveryId(order.webhook_delivery_id), error.text()):
            count.sent("FAILED")

    return deliver


async def _ended(
    conn: Connection,
    tenant: TenantId,
    delivery: WebhookDeliveryId,
    found: ToSend,
    attempt: Attempt,
    error: Refusal | None,
) -> Refused | None:
    """Put on record how a delivery ended, in the transaction that ends its job."""
    await deliveries.record(conn, tenant, delivery, "DELIVERED" if error is None else "FAILED", attempt)
    if attempt.answered is not None and attempt.answered.status == GONE:
        reason, act = f"it answered 410 to delivery {delivery}", Act(None, attempt.at)
        await webhooks.disable(conn, tenant, found.webhook_endpoint_id, reason=reason, act=act)
    return None if error is None else Refused.because(error)


def _as_json(error: Refusal | None) -> str | None:
    return None if error is None else JobError.of(error).text()


async def _sent(guard: Guard, found: ToSend, delivery: WebhookDeliveryId) -> tuple[Answered | None, Refusal | None]:
    """Send it: what was answered, and what is wrong with that; or why there is no answer."""
    body, moment = found.announcement.body(), fresh.now()
    signed = headers(
        body, webhook_type=found.announcement.webhook_type, delivery=delivery, moment=moment, keys=found.keys
    )
    try:
        answer = await guard.send("POST", found.url, headers=signed, content=body)
    except Refusal as refusal:
        return None, refusal
    answered = Answered(status=answer.status, headers=answer.headers, body=answer.body, is_cut=answer.is_cut)
    return answered, _wrong_with(answer)


def _wrong_with(answer: Answer) -> Refusal | None:
    match verdict_on(answer.status):
        case Verdict.DELIVERED:
            return None
        case Verdict.FAILED:
            return NotTaken(answer.status)
        case Verdict.AGAIN:
            return NotNow(answer.status, rest_asked(answer.headers.get("retry-after"), fresh.now()))
