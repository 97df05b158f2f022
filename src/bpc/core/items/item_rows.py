"""Rows of a file of batteries: what of each becomes a member of its fact `Item`, or what is wrong with it.

Pure. A file may have the columns of a registration and, beside them, every member of `Item` that is one value: its
states, who answers for the battery, where it was made. What is registered of a battery comes from its
registration and not from the file.

    FileRow ── read_item_cells ──► members, RowFault
    RegisteredItem, members ── build_members ──► the payload of the fact `Item`
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.batteries.registration import COLUMNS
from bpc.core.batteries.row_files import MAX_CELL_CHARS, FileRow, RowFault
from bpc.core.documents.elements import parse_exact
from bpc.core.facts.item_schemas import ITEM
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import BatteryId
from bpc.core.formats.timestamps import NotASentTime, parse_sent_day
from bpc.core.language.types import DATE, INT, Dec, List, Type

# Members that the registration of a battery gives.
REGISTERED_MEMBERS: Final = frozenset(
    {
        "serial_number",
        "batch_number",
        "passport_uri",
        "previous_passport_uri",
        "manufactured_on",
        "placed_on_market_on",
        "facility_id",
        "operator_id",
        "status",
    }
)
ITEM_MEMBERS: Final[Mapping[str, Type]] = {
    name: member.type
    for name, member in ITEM.items()
    if name not in REGISTERED_MEMBERS and not isinstance(member.type, List)
}
ITEM_COLUMNS: Final = (*COLUMNS, *(name for name in ITEM_MEMBERS if name not in COLUMNS))
ITEM_REQUIRED: Final = ("serial_number",)
_INTEGER: Final = re.compile("-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredItem:
    """What is on record of a battery when its passport is requested."""

    battery_id: BatteryId
    serial_number: str
    address: str
    status: str
    batch_number: str | None = None
    plant: str | None = None
    manufactured_on: str | None = None
    placed_on: str | None = None
    operator: str | None = None
    predecessor: str | None = None


def read_item_cells(row: FileRow) -> tuple[dict[str, Json], list[RowFault]]:
    """The members that the cells of a row give, and a fault for each cell that is not a value of its member."""
    members, faults = dict[str, Json](), list[RowFault]()
    for name, text in row.cells.items():
        kind = ITEM_MEMBERS.get(name)
        if kind is None:
            continue
        value = None if len(text) > MAX_CELL_CHARS or "\0" in text else _read_value(kind, text)
        if value is None:
            faults.append(RowFault(row.line, f"`{text[:80]}` is not {_describe(kind)}", name))
        else:
            members[name] = value
    return members, faults


def build_members(item: RegisteredItem, members: Mapping[str, Json]) -> dict[str, Json]:
    """The members of the fact `Item`: what is on record, and what the file says beside it."""
    record: dict[str, Json] = {
        "serial_number": item.serial_number,
        "batch_number": item.batch_number,
        "passport_uri": item.address,
        "previous_passport_uri": item.predecessor,
        "facility_id": item.plant,
        "manufactured_on": item.manufactured_on,
        "placed_on_market_on": item.placed_on,
        "operator_id": item.operator,
        "status": item.status,
    }
    return {**members, **{name: value for name, value in record.items() if value is not None}}


def _read_value(kind: Type, text: str) -> Json:
    if isinstance(kind, Dec):
        return _read_decimal(text, kind.scale)
    if kind == INT:
        return int(text) if _INTEGER.fullmatch(text) else None
    return _read_day(text) if kind == DATE else text


def _read_decimal(text: str, scale: int) -> str | None:
    exact = parse_exact(text)
    count = None if exact is None else exact.at_scale(scale)
    if count is None:
        return None
    digits = f"{abs(count):0{scale + 1}d}"
    sign = "-" if count < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _read_day(text: str) -> str | None:
    try:
        return parse_sent_day(text).date().isoformat()
    except NotASentTime:
        return None


def _describe(kind: Type) -> str:
    match kind:
        case Dec(scale):
            return f"a number with up to {scale} decimals"
        case _ if kind == INT:
            return "a whole number"
        case _ if kind == DATE:
            return "a day"
        case _:
            return "a text of up to 1,000 characters"
