"""Steps in the lives of batteries, read from EPCIS 2.0 events: repaired, waste, recycled.

    EPCIS document ── read_epcis_steps ──► LifeStep(battery, kind, day, what was said), RowFault

Pure. Only what the vocabulary says without doubt is a step (CBV 2.0, and the status of the battery vocabulary):

    bizStep repairing                        ─► REPAIRED
    disposition disposed, or status Waste    ─► WASTE
    bizStep destroying                       ─► RECYCLED

A sale is not: that a battery is sold does not say that it is placed on the market for the first time. A new owner is a
reading (bpc.core.batteries.reading_rows). Another life needs a new record and its operator, so an event that tells of
one is a fault that says what to do. Other events are passed over. The line of a fault is the number of its event.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from bpc.core.batteries.reading_rows import BatteryRef
from bpc.core.batteries.row_files import RowFault, TextReader
from bpc.core.batteries.status import BatteryStatus, ChangeKind
from bpc.core.documents.public.mapping import parse_gs1_item
from bpc.core.documents.readings import normalise_moment
from bpc.core.errors import Invalid
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.formats.ids import BatteryId
from bpc.core.formats.strict_json import JsonTextError
from bpc.core.identifiers.addresses import read_lookup_text
from bpc.core.identifiers.gs1 import BadIdentifier, compute_check_digit, parse_gln, parse_gtin

MAX_EVENTS: Final = 100_000
MAX_SAID_CHARS: Final = 1_000
STATUS_NAMES: Final = ("eubat:hasBatteryStatus", "eubat:batteryStatus", "hasBatteryStatus", "batteryStatus")
NOTE_NAMES: Final = ("eubat:note", "eubat:hasNote", "note")
GLN_DIGITS: Final = 12  # and a check digit
OTHER_LIVES: Final = ("reused", "repurposed", "remanufactured")
_EVENT_LISTS: Final = ("eventList", "event")
_GLN_LINK: Final = re.compile(r"https?://[^/?#]+/41[47]/([0-9]{13})(?:/254/[^/?#]+)?/?")
_SGLN: Final = re.compile(r"urn:epc:id:(?:sgln|pgln):([0-9]{6,12})\.([0-9]{0,6})(?:\.[^.]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeStep:
    """A change that an event tells of. `status` is the new one, where there is one."""

    line: int
    moment: str
    battery: BatteryRef
    kind: ChangeKind
    status: BatteryStatus | None
    said: Mapping[str, str]

    @property
    def effective_on(self) -> date:
        return date.fromisoformat(self.moment[:10])


@dataclass(frozen=True, slots=True)
class StepFile:
    """The steps of a document in the order in which they happened, what is wrong, and how many events there are."""

    steps: Sequence[LifeStep]
    faults: Sequence[RowFault]
    events: int


def read_epcis_steps(content: bytes) -> StepFile:
    """The steps that the events of a document tell of. An event that its sender declared an error is not read."""
    events = _list_events(content)
    withdrawn_ids = {event.get("eventID") for event in events if "errorDeclaration" in event} - {None}
    steps, faults = list[LifeStep](), list[RowFault]()
    for line, event in enumerate(events, start=1):
        if "errorDeclaration" in event or event.get("eventID") in withdrawn_ids:
            continue
        try:
            steps += _read_steps(line, event)
        except Invalid as wrong:  # BadIdentifier too
            faults.append(RowFault(line, wrong.says))
    return StepFile(sorted(steps, key=lambda step: (step.moment, step.line)), faults, len(events))


def _list_events(content: bytes) -> list[dict[str, Any]]:
    reader = TextReader()
    try:
        document = reader.read(content)
    except JsonTextError as wrong:
        raise Invalid(f"the file is not JSON: {wrong.says}", fix="send an EPCIS 2.0 document as JSON") from None
    body = document.get("epcisBody") if isinstance(document, dict) else None
    if isinstance(document, dict) and body is None and "eventTime" in document:
        return [document]
    name = next((name for name in _EVENT_LISTS if isinstance(body, dict) and name in body), None)
    events = body[name] if isinstance(body, dict) and name is not None else None
    events = [events] if isinstance(events, dict) else events
    if not isinstance(events, list) or reader.has_rejected or not all(isinstance(event, dict) for event in events):
        raise Invalid("the file is not an EPCIS 2.0 document with events", fix="send `epcisBody.eventList`")
    if len(events) > MAX_EVENTS:
        raise Invalid(f"the document has more than {MAX_EVENTS:,} events", fix="split it")
    return events


def _read_steps(line: int, event: Mapping[str, Any]) -> Iterator[LifeStep]:
    kind = _find_kind(event)
    if kind is None:
        return
    moment = normalise_moment(event.get("eventTime"))
    if moment is None:
        raise Invalid("has no valid `eventTime`, like 2027-02-18T09:30:00Z")
    said = _read_statements(event, kind)
    items = [*_list_texts(event.get("epcList")), *_list_texts(event.get("outputEPCList"))]
    if not items:
        raise Invalid("names no battery; `epcList` does")
    status: BatteryStatus | None = "waste" if kind == "WASTE" else None
    for identifier in dict.fromkeys(items):
        battery = _read_battery(identifier)
        yield LifeStep(line=line, moment=moment, battery=battery, kind=kind, status=status, said=said)


def _find_kind(event: Mapping[str, Any]) -> ChangeKind | None:
    step, disposition = _read_term(event.get("bizStep")), _read_term(event.get("disposition"))
    status = next((_read_term(event[name]) for name in STATUS_NAMES if name in event), "").replace("-", "")
    if status in OTHER_LIVES:
        raise Invalid(
            f"tells of another life ({status}), which needs a new record: begin it with "
            "`bpc batteries new-life`, or offer the battery with `bpc batteries transfer offer`"
        )
    if step == "destroying":
        return "RECYCLED"
    if disposition == "disposed" or status == "waste":
        return "WASTE"
    return "REPAIRED" if step == "repairing" else None


def _read_statements(event: Mapping[str, Any], kind: ChangeKind) -> dict[str, str]:
    """What must be said of a step: who did it, why or by which report; and which event told it."""
    event_id = event.get("eventID")
    if not isinstance(event_id, str) or not event_id:
        raise Invalid("has no `eventID`, by which the same event is known when it is sent again")
    note = next((event[name] for name in NOTE_NAMES if isinstance(event.get(name), str) and event[name]), None)
    said = {"performed_by": _read_performer(event), "event": event_id[:MAX_SAID_CHARS]}
    if kind == "RECYCLED":
        papers = [each.get("bizTransaction") for each in _list_objects(event.get("bizTransactionList"))]
        report = next((paper for paper in papers if isinstance(paper, str) and paper), note or event_id)
        return {**said, "report": report[:MAX_SAID_CHARS]}
    return {**said, "reason": (note or f"EPCIS event {event_id}")[:MAX_SAID_CHARS]}


def _read_performer(event: Mapping[str, Any]) -> str:
    """Where it was done, as a GLN: the location of the business, else the point of reading, else who has it."""
    places = [event.get("bizLocation"), event.get("readPoint")]
    identifiers = [place.get("id") for place in places if isinstance(place, dict)]
    for name, member in (("destinationList", "destination"), ("sourceList", "source")):
        identifiers += [each.get(member) for each in _list_objects(event.get(name))]
    for identifier in identifiers:
        gln = _find_gln(identifier) if isinstance(identifier, str) else None
        if gln is not None:
            return f"GLN:{gln}"
    raise Invalid("does not say who did it: `bizLocation`, `readPoint` and the parties have no GLN")


def _find_gln(identifier: str) -> str | None:
    if link := _GLN_LINK.fullmatch(identifier):
        return parse_gln(link[1])
    parts = _SGLN.fullmatch(identifier)
    if parts is None or len(parts[1]) + len(parts[2]) != GLN_DIGITS:
        return None
    digits = parts[1] + parts[2]
    return digits + compute_check_digit(digits)


def _read_battery(identifier: str) -> BatteryRef:
    item = parse_gs1_item(identifier)
    if item is not None and item[1] is not None:
        return BatteryRef(gtin=parse_gtin(item[0]), serial=item[1])
    lookup = read_lookup_text(identifier)
    if lookup.battery_id is not None:
        return BatteryRef(battery_id=BatteryId(lookup.battery_id))
    problem = f"names no single battery: `{identifier[:80]}`"
    raise BadIdentifier("battery", problem, "use a GS1 Digital Link with serial number, or an address of ours")


def _read_term(value: object) -> str:
    """The name of a term: of `repairing`, `urn:epcglobal:cbv:bizstep:repairing`, `eubat:Waste`, or a link to it."""
    text = value.get("id", value.get("@id")) if isinstance(value, dict) else value
    if not isinstance(text, str):
        return ""
    return lower_ascii(re.split(r"[/:#]", text)[-1]).removeprefix("bizstep-").removeprefix("disp-")


def _list_texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _list_objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
