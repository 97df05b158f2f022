"""Readings: what a document says of the state of a battery, each value with the time it was recorded.

Pure. A state of a battery is a member of its Battery fact, which holds one value. A reading is a fact of its own,
`reading:<sku>:<kind>:<time>`, so that all values are kept and the latest is known by its time, not by its upload.

    build_readings("A", "2027-02-18T09:30:00+01:00", {"full_cycles": 247}, "$.events[0]")
        ──► Reading {sku: A, kind: full_cycles, recorded_at: 2027-02-18T08:30:00.000000Z, recorded_on: 2027-02-18, …}

The kind is the member of Battery. A record of a list (`temperature_records`, `state_of_charge_records`,
`negative_events`) has a time of its own; without one it has the time of the other states. A record of the state of
charge is a reading of `state_of_charge_pct`. A day is its first instant, and a time without a zone is UTC.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple

from bpc.core.documents.elements import FactElement, NumberText, RawValue, is_plain_decimal, parse_exact
from bpc.core.facts.enumerations import normalize_value
from bpc.core.facts.readings import RECORDED_ON
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS, STATE_MEMBERS
from bpc.core.formats.timestamps import format_time
from bpc.core.language.types import INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type

_BATTERY: Final = SCHEMAS[FactRecordType("Battery", SCHEMA_VERSION)]
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,12}))?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


class RecordList(NamedTuple):
    """A list of timed records: the kind of its readings, the member with the time, and those with the value."""

    kind: str
    time: str
    values: tuple[str, ...]


RECORD_LISTS: Final[Mapping[str, RecordList]] = {
    "temperature_records": RecordList("temperature_records", "recorded_at", ("temperature_degc",)),
    "state_of_charge_records": RecordList("state_of_charge_pct", "recorded_at", ("state_of_charge_pct",)),
    "negative_events": RecordList("negative_events", "occurred_on", ("event", "report_url")),
}


def build_readings(
    sku: str, recorded_at: RawValue, members: Mapping[str, RawValue], path: str, *, in_own_form: bool = False
) -> list[FactElement]:
    """The readings in the members of a battery whose states were recorded at this time.

    A value without a time, or one that is not valid, gives no reading; the fact of the battery reports it. Equal
    readings of one time are one; those that differ are kept, and the reader of the document names both. In our own form
    the document has the names of the members: the path of a record names its list and its place there.
    """
    readings: dict[tuple[str, str, str], FactElement] = {}
    for kind, at, value, record_place in _list_values(recorded_at, members):
        place = path + record_place if in_own_form else path
        moment = normalise_moment(at)
        if moment is not None:
            reading = build_reading(sku, kind, moment, value, place)
            if reading is not None:
                readings.setdefault((kind, moment, _get_content(reading)), reading)
    return list(readings.values())


def _get_content(reading: FactElement) -> str:
    """The value of a reading as text, the same for equal numbers."""
    value = reading.members.get("number", reading.members.get("text"))
    text = value.text if isinstance(value, NumberText) else str(value)
    return str(parse_exact(text)) if "number" in reading.members else text


def derive_readings(element: FactElement) -> list[FactElement]:
    """The readings in a battery of our own form, each with the place of its value; none if no time is stated."""
    sku, day = element.members.get("sku"), element.members.get(RECORDED_ON)
    if element.fact_type != "Battery" or not isinstance(sku, str):
        return []
    readings = build_readings(sku, day, element.members, element.path, in_own_form=True)
    return [replace(reading, places=_locate_members(reading, element)) for reading in readings]


def _locate_members(reading: FactElement, battery: FactElement) -> Mapping[str, str]:
    """Where the members of a reading are in the document. A record of a list is at a place of its own."""
    kind = str(reading.members["kind"])
    if reading.path != battery.path:
        return dict.fromkeys((*reading.members,), reading.path)
    value = battery.places.get(kind, f"{battery.path}.{kind}")
    day = battery.places.get(RECORDED_ON, f"{battery.path}.{RECORDED_ON}")
    sku = battery.places.get("sku", f"{battery.path}.sku")
    places = {"sku": sku, "kind": value, "recorded_at": day, "recorded_on": day, "number": value, "text": value}
    return {member: places[member] for member in reading.members}


def _list_values(
    recorded_at: RawValue, members: Mapping[str, RawValue]
) -> Iterator[tuple[str, RawValue, RawValue, str]]:
    """Each value with its kind, its time and its place in the fact.

    Records come last: a state and a record of the same time are one reading.
    """
    for member in _BATTERY:
        if member in STATE_MEMBERS and member in members and member not in RECORD_LISTS:
            yield member, recorded_at, members[member], ""
    for member, record_list in RECORD_LISTS.items():
        records = members.get(member)
        for index, record in enumerate(records if isinstance(records, list) else ()):
            if isinstance(record, dict):
                values = (record.get(name) for name in record_list.values)
                value = next((value for value in values if value is not None), None)
                at = record.get(record_list.time)
                yield record_list.kind, recorded_at if at is None else at, value, f".{member}[{index}]"


def build_reading(sku: str, kind: str, moment: str, value: RawValue, path: str) -> FactElement | None:
    """A reading; None if the value is not one that this kind can have."""
    content = _sort_value(kind, value)
    if content is None:
        return None
    about = {"sku": sku, "kind": kind, "recorded_at": moment, "recorded_on": moment[:10]}
    return FactElement("Reading", path, {**about, **content}, places=dict.fromkeys(content, path))


def _sort_value(kind: str, value: RawValue) -> dict[str, RawValue] | None:
    kind_type = _find_value_type(kind)
    if not isinstance(kind_type, Dec) and kind_type != INT:
        return {"text": normalize_value("Battery", kind, value) or value} if isinstance(value, str) and value else None
    text = value.text if isinstance(value, NumberText) else value
    if not isinstance(text, str) or (isinstance(value, str) and not is_plain_decimal(text)):
        return None
    number = parse_exact(text)
    decimals = kind_type.scale if isinstance(kind_type, Dec) else 0
    fits = number is not None and number.fits_a_fact and number.at_scale(decimals) is not None
    return {"number": value} if fits else None


def _find_value_type(kind: str) -> Type:
    """The type of the values of a kind: of the member, or of the value in each record of a list."""
    member_type = _BATTERY.get(kind, TEXT)
    if not isinstance(member_type, List) or not isinstance(member_type.item, Record):
        return member_type
    value_type = dict(member_type.item.members)[RECORD_LISTS[kind].values[0]]
    return value_type.item if isinstance(value_type, Opt) else value_type


def normalise_moment(text: RawValue) -> str | None:
    """A time or a day as UTC with six decimals; None if it is not valid."""
    parts = _MOMENT.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return None
    *numbers, fraction, zone = parts.groups()
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=_parse_zone(zone))
        return format_time(local.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def _parse_zone(zone: str | None) -> timezone:
    if zone is None or zone == "Z":
        return UTC
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if zone[0] == "-" else offset)
