"""Readings of single batteries: rows of a file, or an EPCIS document, into values that may be stored.

    FileRow {serial_number, sku, kind, recorded_at, value} ── check_readings ──► NewReading, RowFault
    EPCIS document ── read_epcis_rows ──► FileRow {gtin, serial_number, kind, recorded_at, value}

Pure. The kinds, the values that each may have and the fact that a snapshot seals are those of readings in documents
(bpc.core.facts.readings): there is one model. A row names its battery by id, by GTIN and serial number, or by SKU and
serial number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bpc.core.batteries.row_files import FileRow, RowFault, RowFile
from bpc.core.documents.elements import NumberText, parse_exact
from bpc.core.documents.reader import DocumentProblems, read_document
from bpc.core.documents.readings import build_reading
from bpc.core.errors import Invalid
from bpc.core.facts.readings import READING_FACT_TYPE
from bpc.core.facts.schemas import STATE_MEMBERS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import BatteryId, NotAnId, parse_uuid
from bpc.core.formats.timestamps import NotASentTime, format_time, parse_sent_time
from bpc.core.identifiers.gs1 import BadIdentifier, parse_gtin

COLUMNS: Final = ("battery_id", "gtin", "sku", "serial_number", "kind", "recorded_at", "value")
REQUIRED: Final = ("kind", "recorded_at", "value")
OWNER_KINDS: Final = ("owner_id", "previous_owner_id")
# Records of a list are readings of their own kind, and a status is changed, not read.
READING_KINDS: Final = tuple(sorted({*STATE_MEMBERS - {"state_of_charge_records", "status"}, *OWNER_KINDS}))
DECIMALS: Final = 6  # of a stored number, as in the fact


@dataclass(frozen=True, slots=True)
class BatteryRef:
    """How a row names its battery: by id, by GTIN and serial number, or by SKU and serial number."""

    battery_id: BatteryId | None = None
    gtin: str | None = None
    sku: str | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReading:
    """A value that was recorded: a number with six decimals, or a text."""

    line: int
    battery: BatteryRef
    kind: str
    recorded_at: datetime
    number: str | None = None
    text: str | None = None


def check_readings(
    rows: Iterable[FileRow], *, received_at: datetime, battery: BatteryId | None = None
) -> tuple[list[NewReading], list[RowFault]]:
    """The readings in rows that are complete, and what is wrong with them. `battery`: the one that all are about.

    A reading that is there twice is one; two values of one kind and time are a fault.
    """
    readings, faults = dict[tuple[BatteryRef, str, datetime], NewReading](), list[RowFault]()
    for row in rows:
        reading = _check_reading(row, received_at, battery)
        if isinstance(reading, RowFault):
            faults.append(reading)
            continue
        name = reading.battery, reading.kind, reading.recorded_at
        earlier = readings.setdefault(name, reading)
        if (earlier.number, earlier.text) != (reading.number, reading.text):
            faults.append(RowFault(row.line, f"has another value than line {earlier.line} for the same time", "value"))
    return list(readings.values()), faults


def is_epcis(content: bytes) -> bool:
    """Whether a JSON file is an EPCIS document, and not JSON lines."""
    return content.lstrip()[:1] == b"{" and (b'"epcisBody"' in content or b'"epcList"' in content)


def read_epcis_rows(content: bytes) -> RowFile:
    """The readings in an EPCIS document, as rows; the line is the number of the reading."""
    facts = read_document("BOM", "application/json", content)
    if isinstance(facts, DocumentProblems):
        first = facts.problems.first[0]
        raise Invalid(f"the EPCIS document cannot be read: `{first.at}` {first.says}", fix="correct it")
    payloads = [
        canonical_json.decode(fact.payload_canonical) for fact in facts.facts if fact.fact_type == READING_FACT_TYPE
    ]
    rows = [FileRow(number, _to_cells(payload)) for number, payload in enumerate(payloads, start=1)]
    if not rows:
        raise Invalid("the EPCIS document has no reading of a battery", fix="send events with sensor reports")
    return RowFile(rows, [])


def build_reading_payload(
    sku: str, kind: str, recorded_at: datetime, number: str | None, text: str | None
) -> dict[str, Json]:
    """The payload of the fact `Reading` that a snapshot seals."""
    moment = format_time(recorded_at)
    value: dict[str, Json] = {"text": text} if number is None else {"number": number}
    return {"sku": sku, "kind": kind, "recorded_at": moment, "recorded_on": moment[:10], **value}


def _check_reading(row: FileRow, received_at: datetime, battery: BatteryId | None) -> NewReading | RowFault:
    cells = row.cells
    kind = cells["kind"]
    try:
        _require_kind(kind)
        recorded_at = parse_sent_time(cells["recorded_at"])
        ref = BatteryRef(battery_id=battery) if battery is not None else _read_ref(cells)
    except NotASentTime as wrong:
        return RowFault(row.line, f"the time {wrong.problem}", "recorded_at")
    except Invalid as wrong:
        return RowFault(row.line, wrong.says)
    if recorded_at > received_at:
        return RowFault(row.line, "was recorded in the future", "recorded_at")
    element = build_reading("-", kind, cells["recorded_at"], cells["value"], "$")
    if element is None or "\0" in cells["value"]:
        return RowFault(row.line, f"`{cells['value'][:80]}` is not a value of {kind}", "value")
    value = element.members.get("number")
    number = value.text if isinstance(value, NumberText) else value
    return NewReading(
        line=row.line,
        battery=ref,
        kind=kind,
        recorded_at=recorded_at,
        number=_normalise_number(number) if isinstance(number, str) else None,
        text=None if number is not None else str(element.members["text"]),
    )


def _require_kind(kind: str) -> None:
    if kind not in READING_KINDS:
        raise Invalid(f"`{kind[:80]}` is not a kind of reading")


def _read_ref(cells: Mapping[str, str]) -> BatteryRef:
    names = [name for name in ("battery_id", "gtin", "sku") if name in cells]
    if len(names) != 1 or (names[0] == "battery_id") == ("serial_number" in cells):
        raise Invalid("names its battery neither by `battery_id` nor by `serial_number` with `gtin` or `sku`")
    try:
        if "battery_id" in cells:
            return BatteryRef(battery_id=BatteryId(parse_uuid(cells["battery_id"])))
        gtin = parse_gtin(cells["gtin"]) if "gtin" in cells else None
    except (NotAnId, BadIdentifier) as wrong:
        raise Invalid(wrong.says) from None
    return BatteryRef(gtin=gtin, sku=cells.get("sku"), serial=cells["serial_number"])


def _normalise_number(text: str) -> str:
    exact = parse_exact(text)
    count = None if exact is None else exact.at_scale(DECIMALS)
    if count is None:
        raise ValueError("the kind of the reading lets no such number through")
    digits = f"{abs(count):0{DECIMALS + 1}d}"
    return f"{'-' if count < 0 else ''}{digits[:-DECIMALS]}.{digits[-DECIMALS:]}"


def _to_cells(payload: Json) -> dict[str, str]:
    if not isinstance(payload, dict):
        raise TypeError("a fact is an object")
    item, value = str(payload["sku"]), payload.get("number", payload.get("text"))
    gtin, slash, serial = item.partition("/")
    name = {"gtin": gtin, "serial_number": serial} if slash else {"sku": item}
    return {**name, "kind": str(payload["kind"]), "recorded_at": str(payload["recorded_at"]), "value": str(value)}
