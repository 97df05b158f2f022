"""/v1/transfers: a battery that is waste is offered to another tenant, which takes it for another life."""

from datetime import date, datetime
from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.battery_policies import require_battery_not_denied, require_products_not_denied
from bpc.api.http.models import (
    DAY_FORMS,
    Day,
    Id,
    IdOf,
    LongText,
    Moment,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SentMoment,
    Text,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.batteries.registration import parse_party
from bpc.core.batteries.status import OtherLife
from bpc.core.batteries.transfer_offers import (
    DEFAULT_VALIDITY,
    NewRecord,
    TransferOffer,
    TransferState,
    decode_offer,
)
from bpc.core.batteries.transfers import TransferSide
from bpc.core.errors import Conflict
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import BatteryId, TenantId, TransferId
from bpc.pipeline.sign import require_key_that_signs
from bpc.storage.batteries import transfer_answers, transfers
from bpc.storage.batteries.transfers import IncomingOffer, NewOffer, TransferRow
from bpc.tasks.sign_transfers import TransferOrder, make_transfer_job_key

routes = RouteFamily("Transfers", resource="BatteryTransfer")

OPERATOR_HELP = "Who answers for the battery: GLN, EORI, VAT or LEI."


class NewTransfer(RequestBody):
    battery_id: IdOf[BatteryId] = Field(description="A battery of yours that is waste.")
    to_tenant_id: IdOf[TenantId] = Field(description="The tenant that may take it. Its people tell you its id.")
    operator: Text = Field(description=f"{OPERATOR_HELP} Yours.", examples=["GLN:9521234000006"])
    life: OtherLife | None = Field(None, description="What it is to be taken for; without it, for any other life.")
    remark: LongText | None = Field(None, description="Something for who takes it.", examples=["cell 4 was replaced"])
    expires_at: SentMoment | None = Field(None, description="Until when; 30 days without it, one year at most.")


class TransferAnswer(RequestBody):
    life: OtherLife = Field(description="What it was prepared for.")
    effective_on: Day = Field(description=f"The day on which the new life begins. {DAY_FORMS}")
    operator: Text = Field(description=f"{OPERATOR_HELP} Yours.", examples=["GLN:9521234000013"])
    sku: Text = Field(description="The product of yours that it is now. The other tenant does not see it.")
    serial_number: Text = Field(description="Its serial number as that product.", examples=["S0001"])
    address: Text | None = Field(None, description="Its identification link, if the product uses IEC 61406.")


class TransferEnd(RequestBody):
    reason: LongText = Field(description="Why; both tenants see it.", examples=["it does not fit"])


class OfferedBattery(ResponseBody):
    """What is offered. Both tenants see it."""

    operator: str = Field(description="Who answers for it until it is transferred.", examples=["GLN:9521234000006"])
    battery_id: Id = Field(description="Its record at who gives it.")
    address: str = Field(examples=["/01/09521234000013/21/A0000001"])
    serial_number: str
    manufactured_on: date | None
    placed_on: date | None
    life: OtherLife | None = Field(description="What it is to be taken for; null: for any other life.")
    remark: str | None


class AcceptedBattery(ResponseBody):
    """What was accepted. Both tenants see it."""

    operator: str = Field(description="Who answers for it from then on.", examples=["GLN:9521234000013"])
    battery_id: Id = Field(description="Its record at who takes it, when the transfer is completed.")
    life: OtherLife
    effective_on: date
    accepted_at: Moment


class Transfer(ResponseBody):
    ordered_by = "offered_at"

    transfer_id: Id
    side: TransferSide = Field(description="Whether you give the battery or take it.")
    other_tenant_id: Id = Field(description="The other tenant.")
    state: TransferState = Field(
        description="ACCEPTED: both sides are being signed for. COMPLETED: they are, and the battery lives on."
    )
    battery_id: Id | None = Field(description="Your own record of the battery.")
    offered: OfferedBattery
    accepted: AcceptedBattery | None
    offered_at: Moment
    expires_at: Moment
    ended_at: Moment | None
    reason: str | None = Field(description="Why it was declined or withdrawn.")

    @classmethod
    def from_row(cls, row: TransferRow, now: datetime) -> Self:
        accepted = row.terms_accepted
        return cls(
            transfer_id=row.transfer_id,
            side=row.side,
            other_tenant_id=row.other_tenant_id,
            state=row.compute_state(now),
            battery_id=row.battery_id,
            offered=_show_offer(row.terms_offered),
            accepted=None if accepted is None else AcceptedBattery.model_validate(accepted),
            offered_at=row.offered_at,
            expires_at=row.expires_at,
            ended_at=row.ended_at,
            reason=row.reason,
        )

    @classmethod
    def from_offer(cls, offer: IncomingOffer) -> Self:
        return cls(
            transfer_id=offer.transfer_id,
            side="TAKES",
            other_tenant_id=offer.other_tenant_id,
            state="OFFERED",
            battery_id=None,
            offered=_show_offer(decode_offer(offer.offer)),
            accepted=None,
            offered_at=offer.offered_at,
            expires_at=offer.expires_at,
            ended_at=None,
            reason=None,
        )


class TransferStatements(ResponseBody):
    """Both signed statements, BPC-TRANSFER-1. `bpc batteries transfer check` checks them without us."""

    gives: dict[str, Any] = Field(description="What who gave the battery signed.")
    takes: dict[str, Any] = Field(description="What who took it signed.")


SideFilter = Annotated[TransferSide | None, Query(description="Only those in which you give, or take.")]


@routes.write(
    "/v1/transfers",
    permission="battery:transfer",
    status=201,
    four_eyes="transfer",
    errors=("NOT_FOUND", "CONFLICT"),
)
async def offer_battery(ctx: Context, request: Request, body: NewTransfer) -> Transfer:
    """Offer a battery that is waste to another tenant. Whether there is such a tenant is not told.

    Until the transfer is completed the battery stays yours, and the offer can be withdrawn.
    """
    require_battery_not_denied(ctx, request, body.battery_id, "battery:transfer")
    await _require_own_key(ctx)
    new_offer = NewOffer(
        battery_id=body.battery_id,
        to_tenant_id=body.to_tenant_id,
        operator=parse_party(body.operator, "operator"),
        expires_at=body.expires_at or ctx.act.at + DEFAULT_VALIDITY,
        life=body.life,
        remark=body.remark,
    )
    return _show(ctx, await transfers.offer_battery(ctx.conn, ctx.tenant, new_offer, act=ctx.act))


@routes.read("/v1/transfers", permission="passport:read")
async def list_transfers(ctx: Context, page: Paging, side: SideFilter = None) -> Page[Transfer]:
    """List the transfers that you offered or answered, newest first."""
    rows = await transfers.list_transfers(ctx.conn, ctx.tenant, page.query, side=side)
    items, cursor = page.cut_page(rows, Transfer.get_position)
    return Page(items=[_show(ctx, row) for row in items], next_cursor=cursor)


@routes.read("/v1/transfers:incoming", permission="passport:read")
async def list_incoming_transfers(ctx: Context, page: Paging) -> Page[Transfer]:
    """List open offers of other tenants to yours, newest first. One that you answer is in the other list."""
    rows = await transfers.list_incoming(ctx.conn, ctx.tenant, page.query)
    items, cursor = page.cut_page(rows, Transfer.get_position)
    return Page(items=[Transfer.from_offer(offer) for offer in items], next_cursor=cursor)


@routes.read("/v1/transfers/{transfer_id}", permission="passport:read")
async def get_transfer(ctx: Context, transfer_id: IdOf[TransferId]) -> Transfer:
    """Get a transfer that you offered or answered, or an open offer to you."""
    offer = await transfers.find_incoming(ctx.conn, ctx.tenant, transfer_id)
    if offer is not None:
        return Transfer.from_offer(offer)
    return _show(ctx, await transfers.get_transfer(ctx.conn, ctx.tenant, transfer_id))


@routes.read("/v1/transfers/{transfer_id}/statements", permission="passport:read", errors=("CONFLICT",))
async def get_transfer_statements(ctx: Context, transfer_id: IdOf[TransferId]) -> TransferStatements:
    """Get what both sides signed. There is nothing to get before the transfer is completed."""
    row = await transfers.get_transfer(ctx.conn, ctx.tenant, transfer_id)
    if row.gives_statement is None or row.takes_statement is None:
        raise Conflict(
            f"the transfer is {row.compute_state(ctx.act.at).lower()}, so it is not signed",
            fix="ask again when it is completed",
        )
    statements: dict[str, Any] = {
        "gives": canonical_json.decode(row.gives_statement),
        "takes": canonical_json.decode(row.takes_statement),
    }
    return TransferStatements(**statements)


@routes.write(
    "/v1/transfers/{transfer_id}:accept", permission="battery:transfer", four_eyes="transfer", errors=("CONFLICT",)
)
async def accept_transfer(
    ctx: Context, request: Request, transfer_id: IdOf[TransferId], body: TransferAnswer
) -> Transfer:
    """Accept a battery that is offered to you. You answer for it once both sides are signed for, in a moment.

    A new record of the battery is made, linked with the old one, which changes no more.
    """
    await require_products_not_denied(ctx, request, [body.sku], "battery:transfer")
    await _require_own_key(ctx)
    row = await transfer_answers.accept_offer(
        ctx.conn,
        ctx.tenant,
        transfer_id,
        NewRecord(sku=body.sku, serial_number=body.serial_number, address=body.address),
        operator=parse_party(body.operator, "operator"),
        life_chosen=body.life,
        effective_on=date.fromisoformat(body.effective_on),
        act=ctx.act,
    )
    order, key = TransferOrder(transfer_id=transfer_id), make_transfer_job_key(transfer_id)
    await ctx.queue.submit(ctx.service.task_jobs.sign_transfer, order, key=key)
    return _show(ctx, row)


@routes.write("/v1/transfers/{transfer_id}:decline", permission="battery:transfer", errors=("CONFLICT",))
async def decline_transfer(ctx: Context, transfer_id: IdOf[TransferId], body: TransferEnd) -> Transfer:
    """Decline an offer, or take an acceptance back while the transfer is not completed."""
    row = await transfer_answers.decline_transfer(ctx.conn, ctx.tenant, transfer_id, reason=body.reason, act=ctx.act)
    return _show(ctx, row)


@routes.write("/v1/transfers/{transfer_id}:withdraw", permission="battery:transfer", errors=("CONFLICT",))
async def withdraw_transfer(ctx: Context, transfer_id: IdOf[TransferId], body: TransferEnd) -> Transfer:
    """Withdraw an offer while the transfer is not completed, whether it was accepted or not."""
    row = await transfer_answers.withdraw_transfer(ctx.conn, ctx.tenant, transfer_id, reason=body.reason, act=ctx.act)
    return _show(ctx, row)


async def _require_own_key(ctx: Context) -> None:
    """Refuse what would wait in vain for a signature of this tenant."""
    await require_key_that_signs(ctx.conn, ctx.tenant, installation_key=ctx.service.settings.signing_key_id)


def _show(ctx: Context, row: TransferRow) -> Transfer:
    return Transfer.from_row(row, ctx.act.at)


def _show_offer(offer: TransferOffer) -> OfferedBattery:
    return OfferedBattery.model_validate(offer)
