"""EPCIS 2.0 documents with the battery vocabulary: what sensors said about single batteries, and accidents.

Each item (GTIN and serial number) becomes one Battery fact of its own, `battery:<gtin>/<serial>`, so that a snapshot
holds what is true of the model and what was measured on an item side by side. Of several readings of one thing the
latest counts; temperatures and states of charge are also kept as records, accidents all.
"""

from typing import Final, NamedTuple

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import (
    LONGEST_NAME,
    ONE,
    amount,
    day,
    day_quietly,
    fitted,
    last_part,
    plain,
    text,
    unit_factor,
)
from bpc.core.documents.public.formats import Format, always
from bpc.core.documents.public.identifiers import item_of, short
from bpc.core.documents.public.measures import (
    AMPERE_HOURS,
    CELSIUS,
    CYCLES,
    KILOWATT_HOURS,
    OHMS,
    PER_CENT,
    PER_CENT_A_MONTH,
    WATTS,
    Measure,
    factor_of,
    times,
)
from bpc.core.documents.public.places import Place, named
from bpc.core.documents.public.tables import Row, members
from bpc.core.documents.values import Given
from bpc.core.rules.types import TEXT, Dec, Fact, Type
from bpc.core.schemas import SCHEMAS


class Reading(NamedTuple):
    """What a sensor's report is about: the member it fills, and the units it may be in."""

    member: str
    measure: Measure


MOST_RECORDS: Final = 200_000

# By the term's name without prefix and `has`; the vocabulary has had both spellings.
READINGS: Final = {
    "StateOfCharge": Reading("state_of_charge_pct", PER_CENT),
    "StateOfCertifiedEnergy": Reading("state_of_certified_energy_pct", PER_CENT),
    "RemainingCapacity": Reading("remaining_capacity_ah", AMPERE_HOURS),
    "RemainingEnergy": Reading("remaining_energy_kwh", KILOWATT_HOURS),
    "RemainingPowerCapability": Reading("remaining_power_w", WATTS),
    "RemainingRoundTripEfficiency": Reading("round_trip_efficiency_pct", PER_CENT),
    "RemainingRoundTripEnergyEfficiency": Reading("round_trip_efficiency_pct", PER_CENT),
    "RoundTripEfficiencyFade": Reading("round_trip_efficiency_fade_pct", PER_CENT),
    "CycleCount": Reading("full_cycles", CYCLES),
    "NumberOfFullCycles": Reading("full_cycles", CYCLES),
    "CapacityFade": Reading("capacity_fade_pct", PER_CENT),
    "PowerFade": Reading("power_fade_pct", PER_CENT),
    "InternalResistance": Reading("internal_resistance_ohm", OHMS),
    "InternalResistanceIncrease": Reading("internal_resistance_increase_pct", PER_CENT),
    "EnergyThroughput": Reading("energy_throughput_kwh", KILOWATT_HOURS),
    "CapacityThroughput": Reading("capacity_throughput_ah", AMPERE_HOURS),
    "SelfDischargeRate": Reading("self_discharge_pct_per_month", PER_CENT_A_MONTH),
    "EvolutionOfSelfDischarge": Reading("self_discharge_evolution_pct", PER_CENT),
}
_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_MADE: Final = (
    Row("manufactured_on", "ilmd.gs1:productionDate"),
    Row("manufactured_on", "ilmd.eubat:manufacturingDate"),
    Row("batch_number", "ilmd.gs1:hasBatchLotNumber"),
)


def _is_it(document: dict[str, Given]) -> bool:
    return "epcisBody" in document or (("eventTime" in document or "eventID" in document) and "epcList" in document)


def _elements(document: Place) -> list[Element]:
    found: dict[str, Element] = {}
    copies = 0
    for event in sorted(_events(document), key=_when):
        said = _said(event)
        items = _items(event) if said else []
        copies += len(items) * sum(len(held) for held in said.values() if isinstance(held, list))
        if copies > MOST_RECORDS:
            event.problem(f"makes more than {MOST_RECORDS:,} records of single batteries; split the document")
            return []
        for sku, serial in items:
            known = found.get(sku, Element("Battery", event.path, {"sku": sku}))
            found[sku] = Element("Battery", event.path, _later(known.members, said, serial))
    if not found and document.reading.notes.is_clean:
        document.problem("has no event that says how a battery is or what happened to it")
    return list(found.values())


def _events(document: Place) -> list[Place]:
    if isinstance(document.value, dict) and "epcisBody" not in document.value:
        return [document]
    body = document.at("epcisBody")
    for way in ("eventList", "queryResults.resultsBody.eventList", "event"):
        if body.at(way).value is not None:
            return [event for event in body.at(way).items() if _is_object(event)]
    body.at("eventList").problem("is missing; it holds what happened")
    return []


def _is_object(place: Place) -> bool:
    if not isinstance(place.value, dict):
        place.problem(f"is {named(place.value)}, not an object")
    return isinstance(place.value, dict)


def _when(event: Place) -> str:
    given = event.at("eventTime").value
    return given if isinstance(given, str) else ""


def _items(event: Place) -> list[tuple[str, str | None]]:
    """The SKU and the serial number of each battery an event is about."""
    places = [epc for way in ("epcList", "outputEPCList") for epc in event.at(way).items()]
    if not places:
        event.at("epcList").problem("is missing; it says which battery this is about")
    found = [_item(epc, given) for epc in places if isinstance(given := text(epc), str)]
    return [item for item in found if item is not None]


def _item(epc: Place, given: str) -> tuple[str, str | None] | None:
    gtin, serial = item_of(given) or (short(given), None)
    sku = gtin if gtin is None or serial is None else f"{gtin}/{serial.replace(':', '-')}"
    if sku is None or not 1 <= len(sku) <= LONGEST_NAME:
        epc.problem(f"does not name a product in 1 to {LONGEST_NAME} characters")
        return None
    epc.warning(f"is read under the SKU `{sku}`: what one battery is like stands beside what its model is like")
    return sku, serial


def _said(event: Place) -> dict[str, Given]:
    """Everything an event says that a battery has a member for."""
    said: dict[str, Given] = {}
    for sensor in event.at("sensorElementList").items():
        metadata = sensor.at("sensorMetadata")
        at = text(metadata.at("time")) or text(metadata.at("endTime")) or text(event.at("eventTime"))
        for report in sensor.at("sensorReport").items():
            _add(report, at, said)
    accident = _accident(event)
    if accident:
        said["negative_events"] = [accident]
    said |= members("Battery", event, _MADE)
    if said:
        _take_time(event, said)
    return said


def _take_time(event: Place, said: dict[str, Given]) -> None:
    day_of_event = day(event.at("eventTime"))
    if day_of_event is not None:
        said["state_recorded_on"] = day_of_event


def _add(report: Place, at: Given, said: dict[str, Given]) -> None:
    name = text(report.at("type"))
    term = _term(name) if isinstance(name, str) else ""
    reading = READINGS.get(term)
    if term == "Temperature":
        degrees = _measured(report, CELSIUS, "temperature_degc", Dec(2))
        _append(said, "temperature_records", {"recorded_at": at, "temperature_degc": degrees})
    elif term == "StateOfHealth":
        report.take()
        report.warning("is a state of health in general; the regulation knows it by capacity, power and energy only")
    elif reading is not None:
        member, measure = _as_energy(report, reading)
        value = _measured(report, measure, member, SCHEMAS[Fact("Battery", 1)][member])
        if value is not None:
            said[member] = value
        if member == "state_of_charge_pct":
            _append(said, "state_of_charge_records", {"recorded_at": at, "state_of_charge_pct": value})


def _append(said: dict[str, Given], member: str, record: dict[str, Given]) -> None:
    held = said.get(member)
    said[member] = [*(held if isinstance(held, list) else []), {k: v for k, v in record.items() if v is not None}]


def _term(name: str) -> str:
    bare = last_part(name).rpartition(":")[2].removeprefix("has")
    return bare[:1].translate(_UPPER) + bare[1:]


def _as_energy(report: Place, reading: Reading) -> Reading:
    """A state of certified energy given as an energy is the energy that remains, not a share of what was certified."""
    unit = report.at("uom").value
    if reading.member != "state_of_certified_energy_pct" or not isinstance(unit, str):
        return reading
    if factor_of(KILOWATT_HOURS, unit) is None:
        return reading
    report.warning("gives a state of certified energy as an energy; it was read as the energy that remains")
    return Reading("remaining_energy_kwh", KILOWATT_HOURS)


def _measured(report: Place, measure: Measure, member: str, kind: Type) -> Given:
    value = amount(report.at("value"))
    unit = report.at("uom")
    if value is None:
        return None
    factor = ONE if unit.value is None and member == "full_cycles" else unit_factor(unit, measure)
    return fitted(report.at("value"), times(value, factor), kind) if factor else None


def _accident(event: Place) -> dict[str, Given]:
    names = ("eubat:hasEventType", "eubat:eventType", "eubat:hasNegativeEvent", "eubat:negativeEvent")
    kinds = [text(event.at(name)) for name in names if event.at(name).value is not None]
    if not any(kinds):
        return {}
    severity = text(event.at("eubat:hasIncidentSeverity")) or text(event.at("eubat:incidentSeverity"))
    told = [last_part(part) for part in (*kinds, severity) if isinstance(part, str)]
    note = plain(event.at("eubat:note"), TEXT)
    occurred = day_quietly(event.at("eventTime"))
    reports = [plain(item.at("bizTransaction"), TEXT) for item in event.at("bizTransactionList").items()]
    made: dict[str, Given] = {
        "event": ", ".join(told) + (f": {note}" if isinstance(note, str) else ""),
        "occurred_on": occurred,
        "report_url": next((url for url in reports if isinstance(url, str)), None),
    }
    return {member: given for member, given in made.items() if given is not None}


def _later(known: dict[str, Given], said: dict[str, Given], serial: str | None) -> dict[str, Given]:
    """What is known after a later event: its values replace older ones, its records follow theirs."""
    for member, value in said.items():
        held = known.get(member)
        if isinstance(value, list) and isinstance(held, list):
            held.extend(value)
        else:
            known[member] = list(value) if isinstance(value, list) else value
    if serial is not None:
        known["serial_number"] = serial
    return known


FORMAT: Final = Format(
    name="an EPCIS document", is_it=_is_it, kinds=always("BOM"), elements=_elements, tables=(("Battery", _MADE),)
)
