"""EPCIS 2.0 documents with the battery vocabulary: sensor readings of single batteries, accidents, new owners.

Each item (GTIN and serial number) becomes one Battery fact, `battery:<gtin>/<serial>`, so that a snapshot can hold the
facts of the model and the readings of an item side by side. Of several readings of one quantity that fact has the
latest by its own time; temperatures and states of charge are also kept as records, and so is every accident. Every
value is also a Reading with its own time. An event that its sender declared to be an error is not read.

An owner is not the operator who answers for a passport: a new owner becomes readings of `owner_id` and
`previous_owner_id`, and no member of a Battery.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bpc.core.documents.elements import FactElement, RawValue, describe_value
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    convert_amount,
    get_last_part,
    read_day,
    read_day_silently,
    read_text,
    to_number,
    to_plain_value,
)
from bpc.core.documents.public.mapping import MapRow
from bpc.core.documents.readings import build_reading, build_readings, normalise_moment
from bpc.core.facts.readings import RECORDED_ON
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import TEXT, Dec, FactRecordType, Type


class TimedMembers(NamedTuple):
    """Members of a battery that were recorded at one time, and their place."""

    recorded_at: RawValue
    members: dict[str, RawValue]
    path: str


class SensorMember(NamedTuple):
    """The member that a sensor report fills, and the units it may be in."""

    member: str
    measure: units.UnitTable


MAX_RECORDS: Final = 200_000

# By the name of the term without its prefix and `has`: the vocabulary has had both spellings.
SENSOR_MEMBERS: Final = {
    "StateOfCharge": SensorMember("state_of_charge_pct", units.PER_CENT),
    "StateOfCertifiedEnergy": SensorMember("state_of_certified_energy_pct", units.PER_CENT),
    "RemainingCapacity": SensorMember("remaining_capacity_ah", units.AMPERE_HOURS),
    "RemainingEnergy": SensorMember("remaining_energy_kwh", units.KILOWATT_HOURS),
    "RemainingPowerCapability": SensorMember("remaining_power_w", units.WATTS),
    "RemainingRoundTripEfficiency": SensorMember("round_trip_efficiency_pct", units.PER_CENT),
    "RemainingRoundTripEnergyEfficiency": SensorMember("round_trip_efficiency_pct", units.PER_CENT),
    "RoundTripEfficiencyFade": SensorMember("round_trip_efficiency_fade_pct", units.PER_CENT),
    "CycleCount": SensorMember("full_cycles", units.CYCLES),
    "NumberOfFullCycles": SensorMember("full_cycles", units.CYCLES),
    "CapacityFade": SensorMember("capacity_fade_pct", units.PER_CENT),
    "PowerFade": SensorMember("power_fade_pct", units.PER_CENT),
    "InternalResistance": SensorMember("internal_resistance_ohm", units.OHMS),
    "InternalResistanceIncrease": SensorMember("internal_resistance_increase_pct", units.PER_CENT),
    "EnergyThroughput": SensorMember("energy_throughput_kwh", units.KILOWATT_HOURS),
    "CapacityThroughput": SensorMember("capacity_throughput_ah", units.AMPERE_HOURS),
    "SelfDischargeRate": SensorMember("self_discharge_pct_per_month", units.PER_CENT_A_MONTH),
    "EvolutionOfSelfDischarge": SensorMember("self_discharge_evolution_pct", units.PER_CENT),
    "CurrentSelfDischargingRate": SensorMember("self_discharge_pct_per_month", units.PER_CENT_A_MONTH),
    "RemainingUsableEnergy": SensorMember("remaining_energy_kwh", units.KILOWATT_HOURS),
    "OhmicResistance": SensorMember("ohmic_resistance_ohm", units.OHMS),
    "NumberOfDeepDischargeEvents": SensorMember("deep_discharge_events", units.CYCLES),
    "NumberOfOverchargeEvents": SensorMember("overcharge_events", units.CYCLES),
    "TimeSpentInExtremeTemperaturesAboveBoundary": SensorMember("minutes_in_extreme_heat", units.MINUTES),
    "TimeSpentInExtremeTemperaturesBelowBoundary": SensorMember("minutes_in_extreme_cold", units.MINUTES),
    "TimeSpentChargingDuringExtremeTemperaturesAboveBoundary": SensorMember(
        "minutes_charging_in_extreme_heat", units.MINUTES
    ),
    "TimeSpentChargingDuringExtremeTemperaturesBelowBoundary": SensorMember(
        "minutes_charging_in_extreme_cold", units.MINUTES
    ),
}
# Counts may come without a unit.
_COUNTS: Final = frozenset({"full_cycles", "deep_discharge_events", "overcharge_events"})
_ACCIDENT_NAMES: Final = ("eubat:hasEventType", "eubat:eventType", "eubat:hasNegativeEvent", "eubat:negativeEvent")
_OPEN_REASONS: Final = ("urn:epcglobal:cbv:er:other", "other")
_OWNING_PARTY: Final = "owning_party"
_OWNER_KINDS: Final = ("owner_id", "previous_owner_id")
_UPPERCASE: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_PRODUCTION_ROWS: Final = (
    MapRow("manufactured_on", "ilmd.gs1:productionDate"),
    MapRow("manufactured_on", "ilmd.eubat:manufacturingDate"),
    MapRow("batch_number", "ilmd.gs1:hasBatchLotNumber"),
)


def _matches(document: dict[str, RawValue]) -> bool:
    has_item = "epcList" in document or "outputEPCList" in document
    return "epcisBody" in document or (("eventTime" in document or "eventID" in document) and has_item)


def _read_elements(document: DocumentNode) -> list[FactElement]:
    batteries: dict[str, FactElement] = {}
    moments: dict[str, dict[str, str]] = {}  # by SKU and member: when the value was recorded
    readings: dict[tuple[str, str, str], FactElement] = {}
    copies = 0
    for event in sorted(_skip_errors(_list_events(document)), key=_get_event_time):
        members, event_moments, timed_members = _read_event(event)
        items = _read_items(event) if members or timed_members else []
        copies += len(items) * sum(len(value) for value in members.values() if isinstance(value, list))
        copies += len(items) * sum(len(part.members) for part in timed_members)
        if copies > MAX_RECORDS:
            event.add_problem(f"takes the document above {MAX_RECORDS:,} records of batteries; split the document")
            return []
        for sku, serial in items:
            battery = batteries.get(sku, FactElement("Battery", event.path, {"sku": sku}))
            _merge_later(battery.members, moments.setdefault(sku, {}), members, event_moments)
            members_of_item = battery.members if serial is None else {**battery.members, "serial_number": serial}
            batteries[sku] = FactElement("Battery", event.path, members_of_item)
            for reading in _build_item_readings(sku, timed_members):
                readings[sku, str(reading.members["kind"]), str(reading.members["recorded_at"])] = reading
    if not batteries and document.state.notes.is_clean:
        document.add_problem("has no event about the state of a battery, an accident or a new owner")
    return [*batteries.values(), *readings.values()]


def _build_item_readings(sku: str, timed_members: Iterable[TimedMembers]) -> Iterator[FactElement]:
    for recorded_at, members, path in timed_members:
        yield from build_readings(sku, recorded_at, members, path)
        moment = normalise_moment(recorded_at)
        for kind in _OWNER_KINDS:
            reading = None if moment is None else build_reading(sku, kind, moment, members.get(kind), path)
            if reading is not None:
                yield reading


def _list_events(document: DocumentNode) -> list[DocumentNode]:
    if isinstance(document.value, dict) and "epcisBody" not in document.value:
        return [document]
    body = document.at("epcisBody")
    for list_path in ("eventList", "queryResults.resultsBody.eventList", "event"):
        if body.at(list_path).value is not None:
            return [event for event in body.at(list_path).items() if _is_object(event)]
    body.at("eventList").add_problem("is missing; it holds the events")
    return []


def _is_object(node: DocumentNode) -> bool:
    if not isinstance(node.value, dict):
        node.add_problem(f"is {describe_value(node.value)}, not an object")
    return isinstance(node.value, dict)


def _skip_errors(events: list[DocumentNode]) -> list[DocumentNode]:
    """The events that stand. An error declaration repeats the wrong event, with the same identifier."""
    wrong = [event for event in events if _is_declared_wrong(event)]
    wrong_ids = {identifier for event in wrong if isinstance(identifier := event.at("eventID").value, str)}
    wrong_paths = {event.path for event in wrong}
    standing: list[DocumentNode] = []
    for event in events:
        if event.path not in wrong_paths and event.at("eventID").value not in wrong_ids:
            standing.append(event)
        else:
            event.take()
            event.add_warning("is an event that its sender declared to be an error; it was not read")
    return standing


def _is_declared_wrong(event: DocumentNode) -> bool:
    """Whether an event is declared an error. The vocabulary's own example of an accident has a declaration too."""
    declaration = event.at("errorDeclaration")
    if not isinstance(declaration.value, dict):
        return declaration.value is not None
    is_accident = any(event.at(name).value is not None for name in _ACCIDENT_NAMES)
    reason = declaration.at("reason").value
    if not is_accident or reason not in _OPEN_REASONS or declaration.at("correctiveEventIDs").items():
        return True
    declaration.add_warning("declares an accident to be an error without a reason; the accident was read, so check it")
    return False


def _get_event_time(event: DocumentNode) -> str:
    return normalise_moment(event.at("eventTime").value) or ""


def _read_items(event: DocumentNode) -> list[tuple[str, str | None]]:
    """The SKU and the serial number of each battery an event is about."""
    epc_nodes = [epc for list_name in ("epcList", "outputEPCList") for epc in event.at(list_name).items()]
    if not epc_nodes:
        event.at("epcList").add_problem("is missing; it identifies the battery")
    items = [_read_item(epc, identifier) for epc in epc_nodes if isinstance(identifier := read_text(epc), str)]
    return [item for item in items if item is not None]


def _read_item(epc: DocumentNode, identifier: str) -> tuple[str, str | None] | None:
    gtin, serial = mapping.parse_gs1_item(identifier) or (mapping.shorten_identifier(identifier), None)
    sku = mapping.check_sku(epc, gtin if gtin is None or serial is None else f"{gtin}/{serial.replace(':', '-')}")
    if sku is None:
        return None
    epc.add_warning(f"is stored under the SKU `{sku}`, separate from the facts of its model")
    return sku, serial


def _read_event(event: DocumentNode) -> tuple[dict[str, RawValue], dict[str, str], list[TimedMembers]]:
    """The members of a battery that an event gives, when each was recorded, and the same by their times."""
    members: dict[str, RawValue] = {}
    moments: dict[str, str] = {}
    timed_members: list[TimedMembers] = []
    event_time = event.at("eventTime").value
    for sensor in event.at("sensorElementList").items():
        metadata = sensor.at("sensorMetadata")
        sensor_time = read_text(metadata.at("time")) or read_text(metadata.at("endTime"))
        recorded_at = sensor_time or read_text(event.at("eventTime"))
        for report in sensor.at("sensorReport").items():
            report_members: dict[str, RawValue] = {}
            own_time = read_text(report.at("time")) or recorded_at
            _add_report(report, own_time, report_members)
            moment = normalise_moment(own_time)
            _merge_later(
                members, moments, report_members, {} if moment is None else dict.fromkeys(report_members, moment)
            )
            timed_members += [TimedMembers(own_time, report_members, report.path)] if report_members else []
            if report_members and moment is None:
                report.add_warning("has no valid time, so it is not a reading; write times like 2027-02-18T09:30:00Z")
    accident = _read_accident(event)
    if accident:
        members["negative_events"] = [accident]
        timed_members.append(TimedMembers(event_time, {"negative_events": [_drop_day(accident)]}, event.path))
    owners = _read_owners(event)
    timed_members += [TimedMembers(event_time, owners, event.path)] if owners else []
    members |= mapping.map_members("Battery", event, _PRODUCTION_ROWS)
    event_moment = normalise_moment(event_time) or ""
    if moments:
        event.at("eventTime").take()
        moments[RECORDED_ON] = max(moments.values() if not accident else (*moments.values(), event_moment))
        members[RECORDED_ON] = moments[RECORDED_ON][:10]
    elif members:
        _add_event_day(event, members)
    return members, dict.fromkeys(members, event_moment) | moments, timed_members


def _drop_day(accident: dict[str, RawValue]) -> dict[str, RawValue]:
    """An accident without its day, so that its reading has the time of the event."""
    return {member: value for member, value in accident.items() if member != "occurred_on"}


def _read_owners(event: DocumentNode) -> dict[str, RawValue]:
    """The new owner and the one before, if an event passes a battery from one to the other."""
    before = _read_party(event.at("sourceList"), "source")
    after = _read_party(event.at("destinationList"), "destination")
    if after is None or after == before:
        return {}
    event.at("eventTime").take()
    event.at("destinationList").add_warning(
        "names a new owner, who need not be the operator responsible for the passport; it is a reading of `owner_id`"
    )
    return {"owner_id": after} if before is None else {"owner_id": after, "previous_owner_id": before}


def _read_party(parties: DocumentNode, member: str) -> RawValue:
    for party in parties.items():
        kind = party.at("type").value if isinstance(party.value, dict) else None
        if isinstance(kind, str) and kind.endswith(_OWNING_PARTY):
            party.at("type").take()
            return read_text(party.at(member))
    return None


def _add_event_day(event: DocumentNode, members: dict[str, RawValue]) -> None:
    day_of_event = read_day(event.at("eventTime"))
    if day_of_event is not None:
        members[RECORDED_ON] = day_of_event


def _add_report(report: DocumentNode, recorded_at: RawValue, members: dict[str, RawValue]) -> None:
    name = read_text(report.at("type"))
    term = _parse_term(name) if isinstance(name, str) else ""
    sensor_member = SENSOR_MEMBERS.get(term)
    if term == "Temperature":
        degrees = _read_measurement(report, units.CELSIUS, "temperature_degc", Dec(2))
        _append_record(members, "temperature_records", {"recorded_at": recorded_at, "temperature_degc": degrees})
    elif term == "StateOfHealth":
        report.take()
        report.add_warning("is a general state of health; the regulation has it for capacity, power and energy only")
    elif sensor_member is not None:
        member, measure = _correct_energy(report, sensor_member)
        value = _read_measurement(report, measure, member, SCHEMAS[FactRecordType("Battery", 1)][member])
        if value is not None:
            members[member] = value
        if member == "state_of_charge_pct":
            _append_record(
                members, "state_of_charge_records", {"recorded_at": recorded_at, "state_of_charge_pct": value}
            )


def _append_record(members: dict[str, RawValue], member: str, record: dict[str, RawValue]) -> None:
    records = members.get(member)
    members[member] = [
        *(records if isinstance(records, list) else []),
        {k: v for k, v in record.items() if v is not None},
    ]


def _parse_term(name: str) -> str:
    bare = get_last_part(name).rpartition(":")[2].removeprefix("has")
    return bare[:1].translate(_UPPERCASE) + bare[1:]


def _correct_energy(report: DocumentNode, sensor_member: SensorMember) -> SensorMember:
    """Read a state of certified energy with a unit of energy as the remaining energy: it is not a share."""
    unit = report.at("uom").value
    if sensor_member.member != "state_of_certified_energy_pct" or not isinstance(unit, str):
        return sensor_member
    if units.find_factor(units.KILOWATT_HOURS, unit) is None:
        return sensor_member
    report.add_warning("has a state of certified energy with a unit of energy; it was read as the remaining energy")
    return SensorMember("remaining_energy_kwh", units.KILOWATT_HOURS)


def _read_measurement(report: DocumentNode, measure: units.UnitTable, member: str, kind: Type) -> RawValue:
    value, unit = report.at("value"), report.at("uom")
    if unit.value is None and member in _COUNTS:
        return to_number(value, kind)
    return convert_amount(value, unit, measure, kind)


def _read_accident(event: DocumentNode) -> dict[str, RawValue]:
    kinds = [read_text(event.at(name)) for name in _ACCIDENT_NAMES if event.at(name).value is not None]
    if not any(kinds):
        return {}
    severity = read_text(event.at("eubat:hasIncidentSeverity")) or read_text(event.at("eubat:incidentSeverity"))
    terms = [get_last_part(part) for part in (*kinds, severity) if isinstance(part, str)]
    note = to_plain_value(event.at("eubat:note"), TEXT)
    event_day = read_day_silently(event.at("eventTime"))
    reports = [to_plain_value(item.at("bizTransaction"), TEXT) for item in event.at("bizTransactionList").items()]
    record: dict[str, RawValue] = {
        "event": ", ".join(terms) + (f": {note}" if isinstance(note, str) else ""),
        "occurred_on": event_day,
        "report_url": next((url for url in reports if isinstance(url, str)), None),
    }
    return {member: value for member, value in record.items() if value is not None}


def _merge_later(
    members: dict[str, RawValue], moments: dict[str, str], others: dict[str, RawValue], other_moments: dict[str, str]
) -> None:
    """Add other members: a value replaces one that was not recorded later, and records are appended."""
    for member, value in others.items():
        records, moment = members.get(member), other_moments.get(member, "")
        if isinstance(value, list) and isinstance(records, list):
            records.extend(value)
        elif isinstance(value, list):
            members[member] = list(value)
        elif moment >= moments.get(member, ""):
            members[member] = value
        else:
            continue
        if moment:
            moments[member] = max(moment, moments.get(member, ""))


FORMAT: Final = mapping.PublicFormat(
    name="an EPCIS document",
    matches=_matches,
    list_kinds=mapping.serve_kinds("BOM"),
    read_elements=_read_elements,
    tables=(("Battery", _PRODUCTION_ROWS),),
)
