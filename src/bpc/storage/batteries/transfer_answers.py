"""What becomes of an offered battery: accepted, declined, withdrawn, completed; in the rows and chains of both tenants.

One transaction changes both. The row of who gives is locked first, always: of two answers at the same moment one waits,
and then sees that the offer is answered. In the chain of the other tenant, an event has no actor: people of one
tenant are unknown in the other. This module alone goes from one tenant's rows to another's, and only to the tenant that
the offer names.

    offers_to_this_tenant() ─► visit who gives: lock, check, change ─► own row
"""

from datetime import date
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.batteries.registration import BatteryEntry, check_entries
from bpc.core.batteries.row_files import FileRow
from bpc.core.batteries.status import BatteryChange, OtherLife, find_step_fault
from bpc.core.batteries.transfer_offers import (
    NewRecord,
    TransferAcceptance,
    TransferOffer,
    decode_acceptance,
    decode_offer,
    decode_record,
    encode_acceptance,
    encode_record,
)
from bpc.core.batteries.transfers import TransferParty, TransferTerms
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import BatteryId, TenantId, TransferId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.batteries import life
from bpc.storage.batteries.batteries import BatteryFilter, get_battery, list_batteries, lock_battery
from bpc.storage.batteries.identification import load_identities
from bpc.storage.batteries.registration import insert_entries
from bpc.storage.batteries.transfers import (
    IncomingOffer,
    TransferOver,
    TransferRow,
    append_transfer_event,
    end_transfer,
    find_incoming,
    get_transfer,
    load_leaf_hash,
    lock_transfer,
    require_open,
)
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import visit_tenant

_ONE_ROW: Final = PageQuery.after_cursor(None, 1)

SET_ACCEPTED: Final[LiteralString] = """
    UPDATE battery_transfers SET state = 'ACCEPTED', acceptance = $3, accepted_at = $4
     WHERE tenant_id = $1 AND transfer_id = $2
"""
INSERT_ANSWER: Final[LiteralString] = """
    INSERT INTO battery_transfers (tenant_id, transfer_id, side, other_tenant_id, state, offer, acceptance, entry,
                                   offered_at, expires_at, accepted_at, ended_at, reason)
    VALUES ($1, $2, 'TAKES', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
SET_COMPLETED: Final[LiteralString] = """
    UPDATE battery_transfers
       SET state = 'COMPLETED', battery_id = $3, gives_statement = $4, takes_statement = $5, ended_at = $6
     WHERE tenant_id = $1 AND transfer_id = $2
"""


class NoLongerOffered(Conflict):
    """What was offered cannot be had any more. Why is not told to who wants it."""

    def __init__(self) -> None:
        super().__init__("this battery is not offered any more", fix="ask who offered it")


async def accept_offer(
    conn: Connection,
    tenant: TenantId,
    transfer: TransferId,
    record: NewRecord,
    *,
    operator: str,
    life_chosen: OtherLife,
    effective_on: date,
    act: Act,
) -> TransferRow:
    """Accept an offer to this tenant. Nothing changes for the battery until both have signed."""
    incoming = await _require_incoming(conn, tenant, transfer)
    offer = decode_offer(incoming.offer)
    if offer.life not in (None, life_chosen):
        raise Conflict(f"the battery is offered to be {offer.life}", fix="accept it for that life, or decline it")
    if effective_on > act.at.date():
        raise Invalid("the day of the change is in the future", fix="accept it when it has happened")
    await check_new_record(conn, tenant, record)
    acceptance = TransferAcceptance(
        tenant_id=tenant,
        operator=operator,
        battery_id=BatteryId(clock.new_id()),
        life=life_chosen,
        effective_on=effective_on,
        accepted_at=act.at,
    )
    data = encode_acceptance(acceptance)
    payload = {"acceptance_sha256": to_hex(sha256(data)), "accepted_at": format_time(act.at)}
    giver, visit = incoming.other_tenant_id, Act(None, act.at)
    async with visit_tenant(conn, giver, back_to=tenant):
        await _lock_offered(conn, giver, transfer, act)
        battery = await lock_battery(conn, giver, offer.battery_id)
        if find_step_fault(life.to_state(battery), "SUCCEEDED"):
            raise NoLongerOffered
        await conn.execute(SET_ACCEPTED, giver, transfer, data, act.at)
        await append_transfer_event(conn, giver, transfer, "BATTERY_TRANSFER_ACCEPTED", payload, act=visit)
    entry = encode_record(record)
    await _insert_answer(conn, tenant, incoming, "ACCEPTED", data, entry, act=act, reason=None)
    first_payload = {**describe_answer(incoming), **payload, "entry_sha256": to_hex(sha256(entry))}
    await append_transfer_event(conn, tenant, transfer, "BATTERY_TRANSFER_ACCEPTED", first_payload, act=act, first=True)
    return await get_transfer(conn, tenant, transfer)


async def decline_transfer(
    conn: Connection, tenant: TenantId, transfer: TransferId, *, reason: str, act: Act
) -> TransferRow:
    """Decline an offer, or take an acceptance back while the transfer is not completed."""
    incoming, visit = await find_incoming(conn, tenant, transfer), Act(None, act.at)
    if incoming is not None:
        async with visit_tenant(conn, incoming.other_tenant_id, back_to=tenant):
            await _lock_offered(conn, incoming.other_tenant_id, transfer, act)
            await end_transfer(conn, incoming.other_tenant_id, transfer, "DECLINED", reason=reason, act=visit)
        await _insert_answer(conn, tenant, incoming, "DECLINED", None, None, act=act, reason=reason)
        payload = {**describe_answer(incoming), "reason": reason}
        await append_transfer_event(conn, tenant, transfer, "BATTERY_TRANSFER_DECLINED", payload, act=act, first=True)
        return await get_transfer(conn, tenant, transfer)
    row = await get_transfer(conn, tenant, transfer)
    if row.side != "TAKES":
        raise Conflict("only who is offered a battery can decline it", fix="withdraw the offer instead")
    async with visit_tenant(conn, row.other_tenant_id, back_to=tenant):
        require_open(await lock_transfer(conn, row.other_tenant_id, transfer), act.at)
        await end_transfer(conn, row.other_tenant_id, transfer, "DECLINED", reason=reason, act=visit)
    await end_transfer(conn, tenant, transfer, "DECLINED", reason=reason, act=act)
    return await get_transfer(conn, tenant, transfer)


async def withdraw_transfer(
    conn: Connection, tenant: TenantId, transfer: TransferId, *, reason: str, act: Act
) -> TransferRow:
    """Take an offer back while the transfer is not completed, whether it was accepted or not."""
    row = await lock_transfer(conn, tenant, transfer)
    if row.side != "GIVES":
        raise Conflict("only who offers a battery can withdraw the offer", fix="decline it instead")
    require_open(row, act.at)
    await end_transfer(conn, tenant, transfer, "WITHDRAWN", reason=reason, act=act)
    if row.state == "ACCEPTED":
        async with visit_tenant(conn, row.other_tenant_id, back_to=tenant):
            visit = Act(None, act.at)
            await end_transfer(conn, row.other_tenant_id, transfer, "WITHDRAWN", reason=reason, act=visit)
    return await get_transfer(conn, tenant, transfer)


async def check_new_record(conn: Connection, tenant: TenantId, record: NewRecord) -> BatteryEntry:
    """What would be registered, if it can be: the product exists and has no battery of that serial number."""
    identities = await load_identities(conn, tenant, [record.sku])
    entries, faults = check_entries([FileRow(1, record.to_cells())], identities)
    if faults:
        raise Invalid(faults[0].says, fix="correct it and send it again")
    filters = BatteryFilter(sku=record.sku, serial_number=record.serial_number)
    if await list_batteries(conn, tenant, filters, _ONE_ROW):
        raise Conflict("the product has a battery with this serial number", fix="choose another serial number")
    return entries[0]


async def lock_accepted(conn: Connection, tenant: TenantId, transfer: TransferId) -> TransferRow | None:
    """The row of who takes, with that of who gives locked; None if there is nothing to complete any more."""
    row = await get_transfer(conn, tenant, transfer)
    if row.side != "TAKES":
        raise Conflict("only who takes a battery completes the transfer", fix="nothing to do")
    async with visit_tenant(conn, row.other_tenant_id, back_to=tenant):
        given_row = await lock_transfer(conn, row.other_tenant_id, transfer)
    row = await lock_transfer(conn, tenant, transfer)
    if row.state != "ACCEPTED" or given_row.state != "ACCEPTED":
        return None
    if (row.offer, row.acceptance) != (given_row.offer, given_row.acceptance):
        raise Conflict(
            f"the two sides of the transfer `{transfer}` do not say the same",
            fix="withdraw it, and find out who changed it: an audit of the state shows what is intact",
        )
    return row


async def insert_taken_record(conn: Connection, tenant: TenantId, row: TransferRow, *, act: Act) -> TransferTerms:
    """Make the new record of who takes; return what both have to sign."""
    offer, acceptance, record = _read_row(row)
    entry = await check_new_record(conn, tenant, record)
    await insert_entries(
        conn,
        tenant,
        [entry],
        status=acceptance.life,
        predecessor=offer.address,
        battery_ids=[acceptance.battery_id],
        act=act,
    )
    battery = await get_battery(conn, tenant, acceptance.battery_id)
    return TransferTerms(
        transfer_id=row.transfer_id,
        life=acceptance.life,
        effective_on=acceptance.effective_on,
        offered_at=offer.offered_at,
        accepted_at=acceptance.accepted_at,
        gives=TransferParty(
            tenant_id=offer.tenant_id,
            operator=offer.operator,
            battery_id=offer.battery_id,
            address=offer.address,
            leaf_hash=offer.leaf_hash,
        ),
        takes=TransferParty(
            tenant_id=tenant,
            operator=acceptance.operator,
            battery_id=battery.battery_id,
            address=battery.address,
            leaf_hash=await load_leaf_hash(conn, tenant, battery),
        ),
    )


async def complete_transfer(
    conn: Connection, terms: TransferTerms, gives_statement: bytes, takes_statement: bytes, *, act: Act
) -> None:
    """Put both statements on record, end the old record and begin the new one. Bound to who takes."""
    giver, taker = terms.gives, terms.takes
    statements = {"performed_by": taker.operator, "transfer_id": str(terms.transfer_id)}
    payload = {"gives_sha256": to_hex(sha256(gives_statement)), "takes_sha256": to_hex(sha256(takes_statement))}
    for party, back_to in ((giver, taker), (taker, taker)):
        async with visit_tenant(conn, party.tenant_id, back_to=back_to.tenant_id):
            values = party.battery_id, gives_statement, takes_statement, act.at
            await conn.execute(SET_COMPLETED, party.tenant_id, terms.transfer_id, *values)
            own_payload = {**payload, "battery_id": str(party.battery_id)}
            await append_transfer_event(
                conn, party.tenant_id, terms.transfer_id, "BATTERY_TRANSFER_COMPLETED", own_payload, act=act
            )
            if party is giver:
                await life.change_battery(
                    conn,
                    giver.tenant_id,
                    giver.battery_id,
                    "SUCCEEDED",
                    status=terms.life,
                    effective_on=terms.effective_on,
                    said={"successor": taker.address, **statements},
                    act=act,
                )
    change = BatteryChange(
        kind=life.FIRST_CHANGE,
        status=terms.life,
        effective_on=terms.effective_on,
        said={"predecessor": giver.address, **statements},
        changed_at=act.at,
    )
    battery = await get_battery(conn, taker.tenant_id, taker.battery_id)
    await life.record_change(conn, taker.tenant_id, battery, change, act=act)


def describe_answer(incoming: IncomingOffer) -> dict[str, object]:
    """What the first event of who answers tells of its row."""
    return {
        "side": "TAKES",
        "other_tenant_id": str(incoming.other_tenant_id),
        "offer_sha256": to_hex(sha256(incoming.offer)),
        "offered_at": format_time(incoming.offered_at),
        "expires_at": format_time(incoming.expires_at),
    }


async def _require_incoming(conn: Connection, tenant: TenantId, transfer: TransferId) -> IncomingOffer:
    """The open offer; one that was answered says so to those who are part of it, and to nobody else."""
    incoming = await find_incoming(conn, tenant, transfer)
    if incoming is None:
        row = await get_transfer(conn, tenant, transfer)
        if row.side == "GIVES":
            raise Conflict("the tenant itself offers this battery", fix="the other tenant accepts it")
        raise TransferOver(transfer, row.state)
    return incoming


async def _lock_offered(conn: Connection, giver: TenantId, transfer: TransferId, act: Act) -> None:
    row = await lock_transfer(conn, giver, transfer)
    if row.compute_state(act.at) != "OFFERED":
        raise NoLongerOffered


async def _insert_answer(
    conn: Connection,
    tenant: TenantId,
    incoming: IncomingOffer,
    state: str,
    acceptance: bytes | None,
    entry: bytes | None,
    *,
    act: Act,
    reason: str | None,
) -> None:
    is_accepted = acceptance is not None
    await conn.execute(
        INSERT_ANSWER,
        tenant,
        incoming.transfer_id,
        incoming.other_tenant_id,
        state,
        incoming.offer,
        acceptance,
        entry,
        incoming.offered_at,
        incoming.expires_at,
        act.at if is_accepted else None,
        None if is_accepted else act.at,
        reason,
    )


def _read_row(row: TransferRow) -> tuple[TransferOffer, TransferAcceptance, NewRecord]:
    if row.acceptance is None or row.entry is None:
        raise ValueError("an accepted transfer has both")
    return decode_offer(row.offer), decode_acceptance(row.acceptance), decode_record(row.entry)
