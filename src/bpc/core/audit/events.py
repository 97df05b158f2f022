"""Events, BPC-EVENT-1: what happened, each linked to the one before by its hash.

    ChainHead, EventStream, NewEvent ─► AuditEvent.chain_after ─► AuditEvent(version n+1, prev_event_hash, event_hash)
    stored events ─► find_chain_faults ─► what was changed, left out or put in, by event and in plain words

A chain belongs to one aggregate of one tenant; its versions are 1, 2, 3 … without a gap.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Self

from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.canonical_json import NotCanonical, canonicalize, encode
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId, uuid_from_hash
from bpc.core.formats.timestamps import format_time


class EventStream(NamedTuple):
    """Whose chain it is."""

    tenant_id: TenantId
    aggregate_type: str
    aggregate_id: AggregateId

    def __str__(self) -> str:
        return f"{self.aggregate_type} {self.aggregate_id}"


class ChainHead(NamedTuple):
    """Where a chain stands: the last event's version and hash, or that of the anchor retention left."""

    version: int
    event_hash: Digest | None


EMPTY_CHAIN: Final = ChainHead(0, None)
# The escape itself, not an escaped backslash that happens to stand before `u0000`.
_ESCAPED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class EventVersionConflict(Conflict):
    """The chain is not where the writer thought it was."""

    code = "EVENT_VERSION_CONFLICT"

    def __init__(self, stream: EventStream, expected: int, current: int) -> None:
        super().__init__(
            f"`{stream}` is at version {current}, not {expected}",
            fix="read it again and repeat the request",
            details={"expected_version": expected, "version": current},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """What somebody wants to put on record."""

    event_type: str
    payload: Mapping[str, object]
    actor_id: ActorId | None
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Act:
    """Who does something, and when; everything it puts on record carries both."""

    actor_id: ActorId | None
    at: datetime

    def new_event(self, event_type: str, payload: Mapping[str, object]) -> NewEvent:
        return NewEvent(event_type=event_type, payload=payload, actor_id=self.actor_id, occurred_at=self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """An event as it is stored. `chain_after` makes one; what a database gives back may be wrong."""

    stream: EventStream
    version: int
    event_id: EventId
    event_type: str
    occurred_at: datetime
    actor_id: ActorId | None
    payload_canonical: bytes
    payload_hash: Digest
    prev_event_hash: Digest | None
    event_hash: Digest

    @classmethod
    def chain_after(cls, head: ChainHead, stream: EventStream, new_event: NewEvent) -> Self:
        """`new_event` as the next event after `head`."""
        canonical = encode(dict(new_event.payload))
        if _ESCAPED_NUL.search(canonical):
            # PostgreSQL's jsonb cannot hold it, and an event that only half exists is none.
            raise Invalid("an event's payload must not contain the character U+0000", fix="remove it")
        payload_hash = sha256(canonical)
        event_hash = hash_event(stream, head.version + 1, new_event, payload_hash, head.event_hash)
        return cls(
            stream=stream,
            version=head.version + 1,
            event_id=EventId(uuid_from_hash(event_hash)),
            event_type=new_event.event_type,
            occurred_at=new_event.occurred_at,
            actor_id=new_event.actor_id,
            payload_canonical=canonical,
            payload_hash=payload_hash,
            prev_event_hash=head.event_hash,
            event_hash=event_hash,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A row of the event table: the event, and the queryable copy of its payload beside it."""

    event: AuditEvent
    payload_json: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFault:
    """One thing that is wrong with one event of a chain."""

    stream: EventStream
    version: int
    says: str


def hash_event(
    stream: EventStream,
    version: int,
    event: NewEvent | AuditEvent,
    payload_hash: Digest,
    prev_event_hash: Digest | None,
) -> Digest:
    """SHA-256 of the canonical object of exactly these nine members."""
    return sha256(
        encode(
            {
                "tenant_id": str(stream.tenant_id),
                "aggregate_type": stream.aggregate_type,
                "aggregate_id": str(stream.aggregate_id),
                "aggregate_version": version,
                "event_type": event.event_type,
                "occurred_at": format_time(event.occurred_at),
                "actor_id": None if event.actor_id is None else str(event.actor_id),
                "payload_hash": to_hex(payload_hash),
                "prev_event_hash": None if prev_event_hash is None else to_hex(prev_event_hash),
            }
        )
    )


def find_chain_faults(rows: Iterable[StoredEvent], start: ChainHead = EMPTY_CHAIN) -> Iterator[ChainFault]:
    """Everything wrong with one chain, given in order of versions and following `start`.

    Checks, for each event:
      1. its version is the one before plus one
      2. it names the hash of the event before
      3. its canonical payload has the hash it claims
      4. its queryable payload says the same as the canonical one
      5. its nine hashed members give its event_hash
      6. its id is made of its hash
    """
    previous = start
    for row in rows:
        event = row.event
        if event.version != previous.version + 1:  # 1
            yield _make_fault(event, f"version {previous.version + 1} is missing before it")
        elif event.prev_event_hash != previous.event_hash:  # 2
            yield _make_fault(event, "it does not follow the event before it")
        if sha256(event.payload_canonical) != event.payload_hash:  # 3
            yield _make_fault(event, "its payload does not have the hash it claims")
        if not _is_same_payload(row.payload_json, event.payload_canonical):  # 4
            yield _make_fault(event, "its queryable payload differs from the canonical one")
        if _recompute_hash(event) != event.event_hash:  # 5
            yield _make_fault(event, "its members do not give its event hash")
        if event.event_id != uuid_from_hash(event.event_hash):  # 6
            yield _make_fault(event, "its id does not belong to its hash")
        previous = ChainHead(event.version, event.event_hash)


def _make_fault(event: AuditEvent, says: str) -> ChainFault:
    return ChainFault(stream=event.stream, version=event.version, says=says)


def _recompute_hash(event: AuditEvent) -> Digest | None:
    try:
        return hash_event(event.stream, event.version, event, event.payload_hash, event.prev_event_hash)
    except Invalid:
        return None  # members that cannot even be encoded


def _is_same_payload(payload_json: bytes, canonical: bytes) -> bool:
    try:
        return canonicalize(payload_json) == canonical
    except NotCanonical:
        return False
