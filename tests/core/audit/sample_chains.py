"""Chains of events, honest and changed, and the faults that are found in them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hypothesis import settings

from bpc.core.audit.events import (
    EMPTY_CHAIN,
    AuditEvent,
    ChainHead,
    EventStream,
    NewEvent,
    StoredEvent,
    find_chain_faults,
)
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId
from tests.measurements import choose_examples

NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)
ACTOR = ActorId(UUID("0b9dbb10-2222-4222-8222-6f1d7c3a5e90"))
STREAM = EventStream(
    TenantId(UUID("9f767c45-1111-4111-8111-b791bde5c099")),
    "Document",
    AggregateId(UUID("f17fd374-1111-4111-8111-1a8ca6233255")),
)
OTHER_STREAM = STREAM._replace(aggregate_id=AggregateId(UUID("c386bbc4-0000-4000-8000-3c5f414c343c")))

NOT_NEXT = "it does not follow the event before it"
WRONG_PAYLOAD = "its payload does not have the hash it claims"
TWO_PAYLOADS = "its queryable payload differs from the canonical one"
WRONG_HASH = "its members do not give its event hash"
WRONG_ID = "its id does not belong to its hash"

repeatable = settings(derandomize=True, max_examples=choose_examples(200))


def make_event(payload: dict[str, object], *, actor: ActorId | None = ACTOR, at: datetime = NOON) -> NewEvent:
    return NewEvent(event_type="DOCUMENT_CHANGED", payload=payload, actor_id=actor, occurred_at=at)


def build_chain(
    new_events: Sequence[NewEvent], *, stream: EventStream = STREAM, after: ChainHead = EMPTY_CHAIN
) -> list[StoredEvent]:
    rows: list[StoredEvent] = []
    for new_event in new_events:
        event = AuditEvent.chain_after(after, stream, new_event)
        rows.append(StoredEvent(event=event, payload_json=event.payload_canonical))
        after = ChainHead(event.version, event.event_hash)
    return rows


def make_chain(length: int) -> list[StoredEvent]:
    return build_chain([make_event({"n": number, "note": "Größe"}) for number in range(length)])


def change_event(row: StoredEvent, **members: Any) -> StoredEvent:
    return replace(row, event=replace(row.event, **members))


def make_version_8_id(digest: bytes) -> EventId:
    # Not `UUID(…, version=8)`: Python 3.11 knows none above 5.
    first = bytearray(digest[:16])
    first[6] = 0x80 | first[6] & 0x0F
    first[8] = 0x80 | first[8] & 0x3F
    return EventId(UUID(bytes=bytes(first)))


def list_faults(rows: Sequence[StoredEvent], start: ChainHead = EMPTY_CHAIN) -> list[tuple[int, str]]:
    return [(fault.version, fault.says) for fault in find_chain_faults(rows, start)]
