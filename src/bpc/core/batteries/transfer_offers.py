"""What is offered in a transfer, and what is accepted: canonical JSON that both sides keep, and a state for each step.

Pure. An offer tells who may take a battery what it needs to know to decide, and nothing of the product behind it. An
acceptance tells who gives it who answers for the battery from which day on, and nothing of the product either.

    OFFERED ─┬─► ACCEPTED ─┬─► COMPLETED   both have signed, and both records are changed
             │             └─► WITHDRAWN, DECLINED
             └─► WITHDRAWN, DECLINED, EXPIRED
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal

from bpc.core.batteries.status import OtherLife
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, to_hex
from bpc.core.formats.ids import BatteryId, TenantId, TransferId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time

TransferState = Literal["OFFERED", "ACCEPTED", "COMPLETED", "DECLINED", "WITHDRAWN", "EXPIRED"]
OPEN_STATES: Final[tuple[TransferState, ...]] = ("OFFERED", "ACCEPTED")
DEFAULT_VALIDITY: Final = timedelta(days=30)
LONGEST_VALIDITY: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOffer:
    """What one tenant offers to another. With `life`, it is to be taken for that life alone."""

    transfer_id: TransferId
    tenant_id: TenantId
    to_tenant_id: TenantId
    operator: str
    battery_id: BatteryId
    address: str
    leaf_hash: Digest
    serial_number: str
    manufactured_on: date | None
    placed_on: date | None
    life: OtherLife | None
    remark: str | None
    offered_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAcceptance:
    """What the other tenant says to it. `battery_id` is the record that it will have."""

    tenant_id: TenantId
    operator: str
    battery_id: BatteryId
    life: OtherLife
    effective_on: date
    accepted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """The record that who takes will have: for its own eyes."""

    sku: str
    serial_number: str
    address: str | None = None

    def to_cells(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def encode_offer(offer: TransferOffer) -> bytes:
    return canonical_json.encode({name: _to_text(value) for name, value in _list_members(offer).items()})


def encode_acceptance(acceptance: TransferAcceptance) -> bytes:
    return canonical_json.encode({name: _to_text(value) for name, value in _list_members(acceptance).items()})


def encode_record(record: NewRecord) -> bytes:
    return canonical_json.encode({name: _to_text(value) for name, value in _list_members(record).items()})


def decode_offer(data: bytes) -> TransferOffer:
    members = _read_object(data)
    return TransferOffer(
        transfer_id=TransferId(parse_uuid(members["transfer_id"])),
        tenant_id=TenantId(parse_uuid(members["tenant_id"])),
        to_tenant_id=TenantId(parse_uuid(members["to_tenant_id"])),
        operator=members["operator"],
        battery_id=BatteryId(parse_uuid(members["battery_id"])),
        address=members["address"],
        leaf_hash=from_hex(members["leaf_hash"]),
        serial_number=members["serial_number"],
        manufactured_on=_read_day(members["manufactured_on"]),
        placed_on=_read_day(members["placed_on"]),
        life=members["life"],
        remark=members["remark"],
        offered_at=parse_time(members["offered_at"]),
        expires_at=parse_time(members["expires_at"]),
    )


def decode_acceptance(data: bytes) -> TransferAcceptance:
    members = _read_object(data)
    return TransferAcceptance(
        tenant_id=TenantId(parse_uuid(members["tenant_id"])),
        operator=members["operator"],
        battery_id=BatteryId(parse_uuid(members["battery_id"])),
        life=members["life"],
        effective_on=date.fromisoformat(members["effective_on"]),
        accepted_at=parse_time(members["accepted_at"]),
    )


def decode_record(data: bytes) -> NewRecord:
    return NewRecord(**_read_object(data))


def _list_members(value: TransferOffer | TransferAcceptance | NewRecord) -> dict[str, Any]:
    return asdict(value)


def _to_text(value: object) -> str | None:
    if isinstance(value, bytes):
        return to_hex(Digest(value))
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    return None if value is None else str(value)


def _read_day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _read_object(data: bytes) -> Mapping[str, Any]:
    members = canonical_json.decode(data)
    if not isinstance(members, Mapping):
        raise TypeError("it is an object")
    return members
