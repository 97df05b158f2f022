"""Step `events`: the audit chain of the passport version, where the bundle has one.

Pure. A bundle made without a database has none, and says so by not having the entry.

Checks:
  1. every line has exactly the members of an event, each in its one spelling
  2. there is at least one, and all are of this passport version and its tenant
  3. the chain holds from version 1 on (bpc.core.events lists what that is)
"""

from collections.abc import Mapping
from typing import Any, Final

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import Digest, from_hex
from bpc.core.events import Event, Stored, Stream, faults
from bpc.core.ids import ActorId, AggregateId, EventId, TenantId, parse_uuid, uuid_of_hash
from bpc.core.timestamps import parse_time
from bpc.core.verify.forms import HASH, ID, OBJECT, TEXT, TIME, Form, Spelling, formed, is_count
from bpc.core.verify.report import Wrong, counted
from bpc.core.verify.structure import Opened

AGGREGATE: Final = "PassportVersion"


def _or_null(spelling: Spelling) -> Spelling:
    return Spelling(lambda value: value is None or spelling.accepts(value), f"{spelling.called} or null")


EVENT: Final[Form] = {
    "actor_id": _or_null(ID),
    "aggregate_id": ID,
    "aggregate_type": TEXT,
    "aggregate_version": Spelling(is_count, "a whole number"),
    "event_hash": HASH,
    "event_type": TEXT,
    "occurred_at": TIME,
    "payload": OBJECT,
    "payload_hash": HASH,
    "prev_event_hash": _or_null(HASH),
    "tenant_id": ID,
}


def check_events(opened: Opened) -> str:
    lines = opened.events
    if lines is None:
        return "not part of this bundle"
    events = [_event(number, line) for number, line in enumerate(lines, 1)]
    if not events:  # 2
        raise Wrong("events.jsonl holds no event")
    stream = Stream(opened.receipt.tenant_id, AGGREGATE, AggregateId(opened.receipt.passport_version_id))
    for number, event in enumerate(events, 1):
        if event.event.stream != stream:
            raise Wrong(f"events.jsonl line {number} is of {event.event.stream}, not of {stream}")
    found = next(faults(events), None)  # 3
    if found is not None:
        raise Wrong(f"event {found.version}: {found.says}")
    return f"{counted(len(events), 'event')}, each linked to the one before"


def _event(number: int, line: Json) -> Stored:
    members = formed(f"events.jsonl line {number}", line, EVENT)  # 1
    canonical = canon.encode(members["payload"])
    return Stored(event=_read(members, canonical), payload_json=canonical)


def _read(members: Mapping[str, Any], payload: bytes) -> Event:
    event_hash = from_hex(members["event_hash"])
    actor, before = members["actor_id"], members["prev_event_hash"]
    return Event(
        stream=Stream(
            TenantId(parse_uuid(members["tenant_id"])),
            members["aggregate_type"],
            AggregateId(parse_uuid(members["aggregate_id"])),
        ),
        version=members["aggregate_version"],
        event_id=EventId(uuid_of_hash(event_hash)),
        event_type=members["event_type"],
        occurred_at=parse_time(members["occurred_at"]),
        actor_id=None if actor is None else ActorId(parse_uuid(actor)),
        payload_canonical=payload,
        payload_hash=from_hex(members["payload_hash"]),
        prev_event_hash=None if before is None else Digest(from_hex(before)),
        event_hash=event_hash,
    )
