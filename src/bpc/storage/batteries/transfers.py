"""Transfers of batteries, as one tenant sees them: offered and listed, and offers that others make to it.

A tenant has a row of each transfer that it offered or answered. Of rows of others it sees open offers to itself,
through a function of the database. What changes the rows of both is in bpc.storage.batteries.transfer_answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import asyncpg

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.batteries.status import OtherLife, find_step_fault
from bpc.core.batteries.transfer_offers import (
    LONGEST_VALIDITY,
    OPEN_STATES,
    TransferAcceptance,
    TransferOffer,
    TransferState,
    decode_acceptance,
    decode_offer,
    encode_offer,
)
from bpc.core.batteries.transfers import TransferSide
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import BatteryId, TenantId, TransferId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.batteries.batteries import BatteryRow, lock_battery
from bpc.storage.batteries.life import StepRefused, to_state
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions

SELECT_TRANSFERS: Final[LiteralString] = """
    SELECT transfer_id, side, other_tenant_id, state, battery_id, offer, acceptance, entry, gives_statement,
           takes_statement, offered_at, expires_at, accepted_at, ended_at, reason
      FROM battery_transfers
"""
SELECT_TRANSFER: Final[LiteralString] = f"{SELECT_TRANSFERS} WHERE tenant_id = $1 AND transfer_id = $2"
LOCK_TRANSFER: Final[LiteralString] = f"{SELECT_TRANSFER} FOR NO KEY UPDATE"
SELECT_INCOMING: Final[LiteralString] = """
    SELECT transfer_id, other_tenant_id, offer, offered_at, expires_at FROM offers_to_this_tenant() AS o
"""
SELECT_INCOMING_ONE: Final[LiteralString] = f"{SELECT_INCOMING} WHERE o.tenant_id = $1 AND o.transfer_id = $2"
SELECT_INCOMING_PAGE: Final[LiteralString] = make_page_query(SELECT_INCOMING, time="o.offered_at", key="o.transfer_id")
INSERT_OFFER: Final[LiteralString] = """
    INSERT INTO battery_transfers (tenant_id, transfer_id, side, other_tenant_id, state, battery_id, offer, offered_at,
                                   expires_at)
    VALUES ($1, $2, 'GIVES', $3, 'OFFERED', $4, $5, $6, $7)
"""
END_TRANSFER: Final[LiteralString] = """
    UPDATE battery_transfers SET state = $3, ended_at = $4, reason = $5 WHERE tenant_id = $1 AND transfer_id = $2
"""
SELECT_EXPIRED: Final[LiteralString] = """
    SELECT transfer_id FROM battery_transfers
     WHERE tenant_id = $1 AND battery_id = $2 AND side = 'GIVES' AND state = 'OFFERED' AND expires_at <= $3
       FOR NO KEY UPDATE
"""
SELECT_LEAF_HASH: Final[LiteralString] = """
    SELECT substring(leaf_hashes FROM 32 * $3::int + 1 FOR 32) FROM battery_registrations
     WHERE tenant_id = $1 AND registration_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRow:
    """A transfer, as one of its two sides sees it."""

    transfer_id: TransferId
    side: TransferSide
    other_tenant_id: TenantId
    state: TransferState
    battery_id: BatteryId | None
    offer: bytes
    acceptance: bytes | None
    entry: bytes | None
    gives_statement: bytes | None
    takes_statement: bytes | None
    offered_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    ended_at: datetime | None
    reason: str | None

    @property
    def terms_offered(self) -> TransferOffer:
        return decode_offer(self.offer)

    @property
    def terms_accepted(self) -> TransferAcceptance | None:
        return None if self.acceptance is None else decode_acceptance(self.acceptance)

    def compute_state(self, now: datetime) -> TransferState:
        """The state of now: an offer that nobody answered expires by itself."""
        return "EXPIRED" if self.state == "OFFERED" and self.expires_at <= now else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingOffer:
    """An open offer to this tenant. `other_tenant_id` is who offers."""

    transfer_id: TransferId
    other_tenant_id: TenantId
    offer: bytes
    offered_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOffer:
    """What is to be offered, to whom, and until when."""

    battery_id: BatteryId
    to_tenant_id: TenantId
    operator: str
    expires_at: datetime
    life: OtherLife | None = None
    remark: str | None = None


class TransferOver(Conflict):
    """The transfer is not where such a step may follow."""

    def __init__(self, transfer: TransferId, state: TransferState) -> None:
        super().__init__(
            f"the transfer `{transfer}` is {state.lower()}",
            fix="look at it; a battery that is still waste can be offered again",
            details={"transfer_id": str(transfer), "state": state},
        )


class OfferedAlready(Conflict):
    """There is an open offer of the battery."""

    def __init__(self, battery: BatteryRow) -> None:
        super().__init__(
            f"battery `{battery.serial_number}` is offered already",
            fix="withdraw that offer first, or wait for an answer",
        )


async def offer_battery(conn: Connection, tenant: TenantId, new_offer: NewOffer, *, act: Act) -> TransferRow:
    """Offer a battery that is waste to another tenant. Whether there is such a tenant is not told."""
    if new_offer.to_tenant_id == tenant:
        raise Invalid("a battery is not transferred to its own tenant", fix="begin its other life directly")
    if not act.at < new_offer.expires_at <= act.at + LONGEST_VALIDITY:
        raise Invalid("`expires_at` lies outside the next year", fix="choose an earlier or later time, or leave it out")
    battery = await lock_battery(conn, tenant, new_offer.battery_id)
    if fault := find_step_fault(to_state(battery), "SUCCEEDED"):
        raise StepRefused(battery, fault)
    await _expire_offers(conn, tenant, battery.battery_id, act)
    offer = TransferOffer(
        transfer_id=TransferId(clock.new_id()),
        tenant_id=tenant,
        to_tenant_id=new_offer.to_tenant_id,
        operator=new_offer.operator,
        battery_id=battery.battery_id,
        address=battery.address,
        leaf_hash=await load_leaf_hash(conn, tenant, battery),
        serial_number=battery.serial_number,
        manufactured_on=battery.manufactured_on,
        placed_on=battery.placed_on,
        life=new_offer.life,
        remark=new_offer.remark,
        offered_at=act.at,
        expires_at=new_offer.expires_at,
    )
    await _insert_offer(conn, tenant, battery, offer)
    payload = {
        "side": "GIVES",
        "other_tenant_id": str(offer.to_tenant_id),
        "battery_id": str(offer.battery_id),
        "offer_sha256": to_hex(sha256(encode_offer(offer))),
        "offered_at": format_time(offer.offered_at),
        "expires_at": format_time(offer.expires_at),
    }
    await append_transfer_event(
        conn, tenant, offer.transfer_id, "BATTERY_TRANSFER_OFFERED", payload, act=act, first=True
    )
    return await get_transfer(conn, tenant, offer.transfer_id)


async def get_transfer(conn: Connection, tenant: TenantId, transfer: TransferId) -> TransferRow:
    """A transfer that the tenant offered or answered."""
    return await fetch_one(conn, TransferRow, SELECT_TRANSFER, tenant, transfer, kind="transfer")


async def lock_transfer(conn: Connection, tenant: TenantId, transfer: TransferId) -> TransferRow:
    """The transfer, which nobody else changes until the transaction ends."""
    return await fetch_one(conn, TransferRow, LOCK_TRANSFER, tenant, transfer, kind="transfer")


async def list_transfers(
    conn: Connection, tenant: TenantId, page: PageQuery, *, side: TransferSide | None = None
) -> Sequence[TransferRow]:
    """Transfers that the tenant offered or answered, newest first."""
    conditions = ListConditions()
    conditions.add("side = {}", side)
    statement = make_page_query(SELECT_TRANSFERS, time="offered_at", key="transfer_id", where=conditions.where)
    return await fetch_rows(conn, TransferRow, statement, tenant, *page, *conditions.values)


async def list_incoming(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[IncomingOffer]:
    """Open offers of others to the tenant, newest first."""
    return await fetch_rows(conn, IncomingOffer, SELECT_INCOMING_PAGE, tenant, *page)


async def find_incoming(conn: Connection, tenant: TenantId, transfer: TransferId) -> IncomingOffer | None:
    """An open offer of another tenant to this one."""
    rows = await fetch_rows(conn, IncomingOffer, SELECT_INCOMING_ONE, tenant, transfer)
    return rows[0] if rows else None


async def get_incoming(conn: Connection, tenant: TenantId, transfer: TransferId) -> IncomingOffer:
    offer = await find_incoming(conn, tenant, transfer)
    if offer is None:
        raise UnknownResource("transfer", transfer)
    return offer


def require_open(row: TransferRow, now: datetime) -> None:
    """Refuse a step of a transfer that is over."""
    if (state := row.compute_state(now)) not in OPEN_STATES:
        raise TransferOver(row.transfer_id, state)


async def end_transfer(
    conn: Connection, tenant: TenantId, transfer: TransferId, state: TransferState, *, reason: str | None, act: Act
) -> None:
    """End a transfer for the tenant that the transaction is bound to."""
    await conn.execute(END_TRANSFER, tenant, transfer, state, act.at, reason)
    payload = {} if reason is None else {"reason": reason}
    event_type = {
        "DECLINED": "BATTERY_TRANSFER_DECLINED",
        "WITHDRAWN": "BATTERY_TRANSFER_WITHDRAWN",
        "EXPIRED": "BATTERY_TRANSFER_EXPIRED",
    }[state]
    await append_transfer_event(conn, tenant, transfer, event_type, payload, act=act)


async def append_transfer_event(
    conn: Connection,
    tenant: TenantId,
    transfer: TransferId,
    event_type: str,
    payload: Mapping[str, object],
    *,
    act: Act,
    first: bool = False,
) -> None:
    head = EMPTY_CHAIN if first else None
    await events.append_act(conn, act, tenant, "BatteryTransfer", transfer, event_type, payload, head=head)


async def load_leaf_hash(conn: Connection, tenant: TenantId, battery: BatteryRow) -> Digest:
    """The leaf that the battery was registered with."""
    return Digest(await conn.fetchval(SELECT_LEAF_HASH, tenant, battery.registration_id, battery.leaf_number))


async def _insert_offer(conn: Connection, tenant: TenantId, battery: BatteryRow, offer: TransferOffer) -> None:
    try:
        async with conn.transaction():
            await conn.execute(
                INSERT_OFFER,
                tenant,
                offer.transfer_id,
                offer.to_tenant_id,
                offer.battery_id,
                encode_offer(offer),
                offer.offered_at,
                offer.expires_at,
            )
    except asyncpg.UniqueViolationError:
        raise OfferedAlready(battery) from None


async def _expire_offers(conn: Connection, tenant: TenantId, battery: BatteryId, act: Act) -> None:
    """Put on record that earlier offers of the battery have expired."""
    for row in await conn.fetch(SELECT_EXPIRED, tenant, battery, act.at):
        await end_transfer(conn, tenant, TransferId(row["transfer_id"]), "EXPIRED", reason=None, act=act)
