"""Nothing in a chain of events can be changed, left out or put in unnoticed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.audit.events import (
    ChainFault,
    ChainHead,
    NewEvent,
    StoredEvent,
    find_chain_faults,
)
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId
from tests.core.audit.sample_chains import (
    ACTOR,
    NOON,
    NOT_NEXT,
    OTHER_STREAM,
    STREAM,
    TWO_PAYLOADS,
    WRONG_HASH,
    WRONG_ID,
    WRONG_PAYLOAD,
    build_chain,
    change_event,
    list_faults,
    make_chain,
    make_event,
    repeatable,
)
from tests.measurements import choose_examples

# Checking: each of the six


@pytest.mark.parametrize("length", range(7))
def test_a_chain_as_it_was_written_has_no_fault(length: int) -> None:
    assert list_faults(make_chain(length)) == []


def test_check_1_a_version_that_is_missing() -> None:
    one, _, three, four = make_chain(4)

    assert list_faults([one, three, four]) == [(3, "version 2 is missing before it")]


def test_check_2_an_event_that_follows_another() -> None:
    one, _ = make_chain(2)
    elsewhere = build_chain([make_event({"n": "another past"}), make_event({})])

    assert list_faults([one, elsewhere[1]]) == [(2, NOT_NEXT)]


def test_check_3_a_payload_that_was_changed_in_both_places() -> None:
    one, two, three = make_chain(3)
    forged = replace(change_event(two, payload_canonical=b'{"n":9}'), payload_json=b'{"n": 9}')

    assert list_faults([one, forged, three]) == [(2, WRONG_PAYLOAD)]


def test_check_4_a_queryable_payload_that_was_changed() -> None:
    one, two = make_chain(2)

    assert list_faults([one, replace(two, payload_json=b'{"n": 9}')]) == [(2, TWO_PAYLOADS)]


def test_check_4_a_payload_that_was_changed_in_the_canonical_place_only() -> None:
    one, two = make_chain(2)
    forged = change_event(two, payload_canonical=b'{"n":9}', payload_hash=sha256(b'{"n":9}'))

    assert list_faults([one, forged]) == [(2, TWO_PAYLOADS), (2, WRONG_HASH)]


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"n":1.5}', b'{"n":1,"n":1}', b"[" * 10_000])
def test_check_4_a_queryable_payload_that_cannot_be_read(text: bytes) -> None:
    (one,) = make_chain(1)

    assert list_faults([replace(one, payload_json=text)]) == [(1, TWO_PAYLOADS)]


def test_check_4_asks_for_canonical_bytes_not_only_for_the_same_value() -> None:
    (one,) = build_chain([make_event({"n": 1})])
    spaced = replace(change_event(one, payload_canonical=b'{"n": 1}'), payload_json=b'{"n": 1}')

    assert (1, TWO_PAYLOADS) in list_faults([spaced])


def test_check_4_lets_the_queryable_payload_be_written_in_any_way() -> None:
    (one,) = build_chain([make_event({"a": "é\x0b", "b": 1})])

    assert list_faults([replace(one, payload_json=b'{ "b": 1,\n "a": "\\u00E9\\u000B" }')]) == []


@pytest.mark.parametrize(
    "members",
    [
        {"stream": OTHER_STREAM},
        {"stream": STREAM._replace(aggregate_type="Passport")},
        {"stream": STREAM._replace(tenant_id=TenantId(UUID(int=7)))},
        {"event_type": "DOCUMENT_CREATED"},
        {"event_type": "\ud800"},
        {"occurred_at": NOON + timedelta(microseconds=1)},
        {"occurred_at": NOON.replace(tzinfo=None)},
        {"actor_id": None},
        {"actor_id": ActorId(UUID(int=7))},
    ],
    ids=ascii,
)
def test_check_5_a_member_that_was_changed(members: dict[str, Any]) -> None:
    one, two, three = make_chain(3)

    assert list_faults([one, change_event(two, **members), three]) == [(2, WRONG_HASH)]


def test_check_5_an_actor_put_in_afterwards() -> None:
    (one,) = build_chain([make_event({}, actor=None)])

    assert list_faults([one]) == []
    assert list_faults([change_event(one, actor_id=ACTOR)]) == [(1, WRONG_HASH)]


def test_check_6_an_id_that_was_changed() -> None:
    one, two = make_chain(2)

    assert list_faults([one, change_event(two, event_id=EventId(one.event.event_id))]) == [(2, WRONG_ID)]


def test_a_fault_names_the_chain_too() -> None:
    one, two = make_chain(2)

    assert list(find_chain_faults([two])) == [
        ChainFault(stream=STREAM, version=2, says="version 1 is missing before it")
    ]
    assert list(find_chain_faults([one, two])) == []


def test_a_recomputed_event_is_detected_at_the_next_event() -> None:
    one, two, three = make_chain(3)
    head = ChainHead(1, one.event.event_hash)
    (forged,) = build_chain([make_event({"n": "forged"})], after=head)

    assert forged.event.version == two.event.version
    assert list_faults([one, forged, three]) == [(3, NOT_NEXT)]


# Checking: whole chains


@repeatable
@given(st.integers(3, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 2), st.integers(1, n - 1))))
def test_events_cut_out_before_the_end_are_missed_at_the_next(case: tuple[int, int, int]) -> None:
    length, first, count = case
    rows = make_chain(length)
    last = min(first + count, length - 1)

    assert list_faults(rows[:first] + rows[last:]) == [(last + 1, f"version {first + 1} is missing before it")]


@repeatable
@given(st.integers(2, 6).map(make_chain), st.data())
def test_any_other_order_is_found(rows: list[StoredEvent], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))

    assert (list_faults(shuffled) == []) == (shuffled == rows)


@repeatable
@given(st.integers(1, 6).map(make_chain), st.data())
def test_an_event_put_in_is_found(rows: list[StoredEvent], data: st.DataObject) -> None:
    strangers = [*rows, *build_chain([make_event({"n": number}) for number in range(7)], stream=OTHER_STREAM)]
    place = data.draw(st.integers(0, len(rows)))
    stranger = data.draw(st.sampled_from(strangers))

    assert list_faults([*rows[:place], stranger, *rows[place:]]) != []


def test_a_truncated_chain_needs_a_checkpoint_to_be_detected() -> None:
    assert list_faults(make_chain(5)[:3]) == []


@pytest.mark.parametrize("kept_from", range(1, 6))
def test_a_chain_verifies_from_the_anchor_that_retention_left(kept_from: int) -> None:
    rows = make_chain(6)
    anchor = ChainHead(kept_from, rows[kept_from - 1].event.event_hash)

    assert list_faults(rows[kept_from:], anchor) == []
    assert list_faults(rows[kept_from:])[0] == (kept_from + 1, "version 1 is missing before it")


def test_an_anchor_of_another_past_is_found() -> None:
    rows = make_chain(4)

    assert list_faults(rows[2:], ChainHead(2, sha256(b"another past"))) == [(3, NOT_NEXT)]
    assert list_faults(rows[2:], ChainHead(2, None)) == [(3, NOT_NEXT)]
    assert list_faults(rows[2:], ChainHead(1, rows[0].event.event_hash)) == [(3, "version 2 is missing before it")]


# Checking: every bit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Flip = Callable[[StoredEvent, int], StoredEvent]


def flip_bit(raw: bytes, bit: int) -> bytes:
    at = bit // 8 % len(raw)
    return raw[:at] + bytes([raw[at] ^ 1 << bit % 8]) + raw[at + 1 :]


def flip_text_bit(text: str, bit: int) -> str:
    # What is no UTF-8 any more stays as lone surrogates: no database would hold it, and no checker may trip over it.
    return flip_bit(text.encode(), bit).decode(errors="surrogateescape")


def flip_time_bit(moment: datetime, bit: int) -> datetime:
    return EPOCH + ((moment - EPOCH) // MICROSECOND ^ 1 << bit % 51) * MICROSECOND


def flip_uuid_bit(value: UUID, bit: int) -> UUID:
    return UUID(bytes=flip_bit(value.bytes, bit))


FLIPS: dict[str, Flip] = {
    "tenant_id": lambda row, bit: change_event(
        row, stream=row.event.stream._replace(tenant_id=TenantId(flip_uuid_bit(row.event.stream.tenant_id, bit)))
    ),
    "aggregate_type": lambda row, bit: change_event(
        row, stream=row.event.stream._replace(aggregate_type=flip_text_bit(row.event.stream.aggregate_type, bit))
    ),
    "aggregate_id": lambda row, bit: change_event(
        row,
        stream=row.event.stream._replace(aggregate_id=AggregateId(flip_uuid_bit(row.event.stream.aggregate_id, bit))),
    ),
    "aggregate_version": lambda row, bit: change_event(row, version=row.event.version ^ 1 << bit % 64),
    "event_type": lambda row, bit: change_event(row, event_type=flip_text_bit(row.event.event_type, bit)),
    "occurred_at": lambda row, bit: change_event(row, occurred_at=flip_time_bit(row.event.occurred_at, bit)),
    "actor_id": lambda row, bit: change_event(
        row, actor_id=ActorId(flip_uuid_bit(row.event.actor_id or UUID(int=0), bit))
    ),
    "event_id": lambda row, bit: change_event(row, event_id=EventId(flip_uuid_bit(row.event.event_id, bit))),
    "payload_hash": lambda row, bit: change_event(row, payload_hash=Digest(flip_bit(row.event.payload_hash, bit))),
    "prev_event_hash": lambda row, bit: change_event(
        row, prev_event_hash=Digest(flip_bit(row.event.prev_event_hash or bytes(32), bit))
    ),
    "event_hash": lambda row, bit: change_event(row, event_hash=Digest(flip_bit(row.event.event_hash, bit))),
    "payload_canonical": lambda row, bit: change_event(
        row, payload_canonical=flip_bit(row.event.payload_canonical, bit)
    ),
    "payload": lambda row, bit: replace(row, payload_json=flip_bit(row.payload_json, bit)),
}


def assert_fault_there_or_next(rows: list[StoredEvent], at: int, flip: Flip, bit: int) -> None:
    bad = [*rows[:at], flip(rows[at], bit), *rows[at + 1 :]]

    blamed = {fault.version for fault in find_chain_faults(bad)}

    assert blamed
    assert blamed <= {row.event.version for row in bad[at : at + 2]}


# No control characters: of their escapes (`\u000b`, `\u000B`) one bit may change without changing what is said.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
payloads = st.dictionaries(
    texts, texts | st.integers() | st.none() | st.booleans() | st.lists(texts, max_size=2), max_size=3
)
new_event_lists = st.builds(
    NewEvent,
    event_type=texts.filter(bool),
    payload=payloads,
    actor_id=st.none() | st.uuids().map(ActorId),
    occurred_at=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)


@settings(repeatable, max_examples=choose_examples(500))
@given(st.lists(new_event_lists, min_size=1, max_size=6), st.data())
def test_one_flipped_bit_anywhere_is_found_there_or_at_the_next_event(
    new_events: list[NewEvent], data: st.DataObject
) -> None:
    rows = build_chain(new_events)
    assert list_faults(rows) == []

    at = data.draw(st.integers(0, len(rows) - 1), label="event")
    member = data.draw(st.sampled_from(sorted(FLIPS)), label="member")
    bit = data.draw(st.integers(0, 2**12), label="bit")

    assert_fault_there_or_next(rows, at, FLIPS[member], bit)


@pytest.mark.parametrize("member", sorted(FLIPS))
@pytest.mark.parametrize("at", range(3))
def test_every_bit_of_every_member_counts(member: str, at: int) -> None:
    rows = make_chain(3)

    for bit in range(256):
        assert_fault_there_or_next(rows, at, FLIPS[member], bit)
