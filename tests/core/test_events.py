"""Events, BPC-EVENT-1: how a chain is made, and that nothing in it can be changed, left out or put in unnoticed."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.canon import NotCanonical, canonicalize
from bpc.core.digest import Digest, from_hex, sha256
from bpc.core.errors import CODES, Invalid
from bpc.core.events import EMPTY, Act, Event, EventVersionConflict, Fault, Head, Said, Stored, Stream, faults
from bpc.core.ids import ActorId, AggregateId, EventId, TenantId, parse_uuid
from bpc.core.timestamps import NotATime, parse_time

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "events.md"
VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "events.json").read_bytes())

NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)
ACTOR = ActorId(UUID("0b9dbb10-2222-4222-8222-6f1d7c3a5e90"))
STREAM = Stream(
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

repeatable = settings(derandomize=True, max_examples=200)


def said(payload: dict[str, object], *, actor: ActorId | None = ACTOR, at: datetime = NOON) -> Said:
    return Said(event_type="DOCUMENT_CHANGED", payload=payload, actor_id=actor, occurred_at=at)


def chain_of(saids: Sequence[Said], *, stream: Stream = STREAM, after: Head = EMPTY) -> list[Stored]:
    made: list[Stored] = []
    for one in saids:
        event = Event.following(after, stream, one)
        made.append(Stored(event=event, payload_json=event.payload_canonical))
        after = Head(event.version, event.event_hash)
    return made


def chain(length: int) -> list[Stored]:
    return chain_of([said({"n": number, "note": "Größe"}) for number in range(length)])


def changed(row: Stored, **members: Any) -> Stored:
    return replace(row, event=replace(row.event, **members))


def version_8(digest: bytes) -> EventId:
    # Not `UUID(…, version=8)`: Python 3.11 knows none above 5.
    first = bytearray(digest[:16])
    first[6] = 0x80 | first[6] & 0x0F
    first[8] = 0x80 | first[8] & 0x3F
    return EventId(UUID(bytes=bytes(first)))


def found(rows: Sequence[Stored], start: Head = EMPTY) -> list[tuple[int, str]]:
    return [(fault.version, fault.says) for fault in faults(rows, start)]


# Making


def said_by(vector: dict[str, Any]) -> Said:
    return Said(
        event_type=vector["event_type"],
        payload=vector["payload"],
        actor_id=None if vector["actor_id"] is None else ActorId(parse_uuid(vector["actor_id"])),
        occurred_at=parse_time(vector["occurred_at"]),
    )


def test_the_published_vectors_come_out() -> None:
    made = [row.event for row in chain_of([said_by(vector) for vector in VECTORS])]

    assert [event.event_hash.hex() for event in made] == [vector["event_hash"] for vector in VECTORS]
    assert [event.payload_hash.hex() for event in made] == [vector["payload_hash"] for vector in VECTORS]
    assert [event.prev_event_hash and event.prev_event_hash.hex() for event in made] == [
        vector["prev_event_hash"] for vector in VECTORS
    ]
    assert [event.version for event in made] == [vector["aggregate_version"] for vector in VECTORS] == [1, 2, 3]


def test_the_published_vectors_verify_as_they_are_stored() -> None:
    def stored(vector: dict[str, Any]) -> Stored:
        text = json.dumps(vector["payload"], indent=2).encode()
        event_hash = from_hex(vector["event_hash"])
        event = Event(
            stream=Stream(
                TenantId(parse_uuid(vector["tenant_id"])),
                vector["aggregate_type"],
                AggregateId(parse_uuid(vector["aggregate_id"])),
            ),
            version=vector["aggregate_version"],
            event_id=version_8(event_hash),
            event_type=vector["event_type"],
            occurred_at=parse_time(vector["occurred_at"]),
            actor_id=said_by(vector).actor_id,
            payload_canonical=canonicalize(text),
            payload_hash=from_hex(vector["payload_hash"]),
            prev_event_hash=vector["prev_event_hash"] and from_hex(vector["prev_event_hash"]),
            event_hash=event_hash,
        )
        return Stored(event=event, payload_json=text)

    assert found([stored(vector) for vector in VECTORS]) == []


def test_the_event_hash_covers_exactly_nine_members() -> None:
    event = chain(2)[1].event

    members: dict[str, object] = {
        "actor_id": str(ACTOR),
        "aggregate_id": "f17fd374-1111-4111-8111-1a8ca6233255",
        "aggregate_type": "Document",
        "aggregate_version": 2,
        "event_type": "DOCUMENT_CHANGED",
        "occurred_at": "2027-02-18T12:00:00.000000Z",
        "payload_hash": hashlib.sha256('{"n":1,"note":"Größe"}'.encode()).hexdigest(),
        "prev_event_hash": chain(1)[0].event.event_hash.hex(),
        "tenant_id": "9f767c45-1111-4111-8111-b791bde5c099",
    }
    assert event.event_hash == hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest()


@repeatable
@given(st.integers(0, 2**40))
def test_the_id_is_the_version_8_uuid_of_the_hash(number: int) -> None:
    event = Event.following(EMPTY, STREAM, said({"n": number}))

    assert event.event_id == version_8(event.event_hash)
    assert event.event_id.version == 8


def test_a_moment_is_the_same_in_every_time_zone() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))

    assert Event.following(EMPTY, STREAM, said({}, at=elsewhere)).event_hash == (
        Event.following(EMPTY, STREAM, said({}, at=NOON)).event_hash
    )


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(NotATime) as refused:
        Event.following(EMPTY, STREAM, said({}, at=NOON.replace(tzinfo=None)))

    assert refused.value.says == "`2027-02-18 12:00:00` has no time zone"


def test_an_act_says_things_in_its_own_name_and_time() -> None:
    assert Act(ACTOR, NOON).says("DOCUMENT_CHANGED", {"n": 1}) == said({"n": 1})


@pytest.mark.parametrize(
    "payload",
    [
        {"note": "\0"},
        {"\0": "note"},
        {"deep": [{"er": ["a\0b"]}]},
        {"note": "\\\0"},
        {"note": "\\\\\0"},
        {"note": "\\u0000\0"},
        {"note": '"\0"'},
    ],
    ids=ascii,
)
def test_u0000_is_refused_wherever_it_stands(payload: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        Event.following(EMPTY, STREAM, said(payload))

    assert refused.value.says == "an event's payload must not contain the character U+0000"


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "\\\\\\u0000", "u0000", "\x01", "\\", "x\\u0000\\u0000"])
def test_a_text_about_u0000_is_only_a_text(text: str) -> None:
    rows = chain_of([said({"note": text, text: 1})])

    assert json.loads(rows[0].event.payload_canonical) == {"note": text, text: 1}
    assert found(rows) == []


@repeatable
@given(st.text(st.sampled_from("\\u0\0"), max_size=12))
def test_a_payload_is_refused_exactly_if_it_has_the_character(text: str) -> None:
    try:
        Event.following(EMPTY, STREAM, said({"note": text}))
    except Invalid:
        assert "\0" in text
    else:
        assert "\0" not in text


def test_the_search_for_u0000_takes_linear_time() -> None:
    # A million backslashes: at the first try of a careless pattern this would take hours.
    event = Event.following(EMPTY, STREAM, said({"note": "\\" * 1_000_000}))

    assert len(event.payload_canonical) == 2_000_011


@pytest.mark.parametrize(
    "text", ["Größe", "e\u0301", "電池", "😀", "\u2028", "\ue000\U00010000", "\x7f", "\t\n\x1f"], ids=ascii
)
def test_any_other_text_is_kept_as_it_is(text: str) -> None:
    rows = chain_of([said({"note": text, text: [text]})])

    assert json.loads(rows[0].event.payload_canonical) == {"note": text, text: [text]}
    assert found(rows) == []


def test_a_payload_without_canonical_form_is_refused_with_its_path() -> None:
    with pytest.raises(NotCanonical) as refused:
        Event.following(EMPTY, STREAM, said({"cells": [{"mass": 1.5}]}))

    assert refused.value.path == "$.cells[0].mass"


def test_a_conflict_says_where_the_chain_is_and_may_be_tried_again() -> None:
    conflict = EventVersionConflict(STREAM, 3, 5)

    assert conflict.says == "`Document f17fd374-1111-4111-8111-1a8ca6233255` is at version 5, not 3"
    assert conflict.details == {"expected_version": 3, "version": 5}
    assert CODES[conflict.code].http == 409
    assert conflict.retryable


# Checking: each of the six


@pytest.mark.parametrize("length", range(7))
def test_a_chain_as_it_was_written_has_no_fault(length: int) -> None:
    assert found(chain(length)) == []


def test_check_1_a_version_that_is_missing() -> None:
    one, _, three, four = chain(4)

    assert found([one, three, four]) == [(3, "version 2 is missing before it")]


def test_check_2_an_event_that_follows_another() -> None:
    one, _ = chain(2)
    elsewhere = chain_of([said({"n": "another past"}), said({})])

    assert found([one, elsewhere[1]]) == [(2, NOT_NEXT)]


def test_check_3_a_payload_that_was_changed_in_both_places() -> None:
    one, two, three = chain(3)
    forged = replace(changed(two, payload_canonical=b'{"n":9}'), payload_json=b'{"n": 9}')

    assert found([one, forged, three]) == [(2, WRONG_PAYLOAD)]


def test_check_4_a_queryable_payload_that_was_changed() -> None:
    one, two = chain(2)

    assert found([one, replace(two, payload_json=b'{"n": 9}')]) == [(2, TWO_PAYLOADS)]


def test_check_4_a_payload_that_was_changed_in_the_canonical_place_only() -> None:
    one, two = chain(2)
    forged = changed(two, payload_canonical=b'{"n":9}', payload_hash=sha256(b'{"n":9}'))

    assert found([one, forged]) == [(2, TWO_PAYLOADS), (2, WRONG_HASH)]


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"n":1.5}', b'{"n":1,"n":1}', b"[" * 10_000])
def test_check_4_a_queryable_payload_that_cannot_be_read(text: bytes) -> None:
    (one,) = chain(1)

    assert found([replace(one, payload_json=text)]) == [(1, TWO_PAYLOADS)]


def test_check_4_asks_for_canonical_bytes_not_only_for_the_same_value() -> None:
    (one,) = chain_of([said({"n": 1})])
    spaced = replace(changed(one, payload_canonical=b'{"n": 1}'), payload_json=b'{"n": 1}')

    assert (1, TWO_PAYLOADS) in found([spaced])


def test_check_4_lets_the_queryable_payload_be_written_in_any_way() -> None:
    (one,) = chain_of([said({"a": "é\x0b", "b": 1})])

    assert found([replace(one, payload_json=b'{ "b": 1,\n "a": "\\u00E9\\u000B" }')]) == []


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
    one, two, three = chain(3)

    assert found([one, changed(two, **members), three]) == [(2, WRONG_HASH)]


def test_check_5_an_actor_put_in_afterwards() -> None:
    (one,) = chain_of([said({}, actor=None)])

    assert found([one]) == []
    assert found([changed(one, actor_id=ACTOR)]) == [(1, WRONG_HASH)]


def test_check_6_an_id_that_was_changed() -> None:
    one, two = chain(2)

    assert found([one, changed(two, event_id=EventId(one.event.event_id))]) == [(2, WRONG_ID)]


def test_a_fault_names_the_chain_too() -> None:
    one, two = chain(2)

    assert list(faults([two])) == [Fault(stream=STREAM, version=2, says="version 1 is missing before it")]
    assert list(faults([one, two])) == []


def test_an_event_made_anew_is_betrayed_by_the_next() -> None:
    one, two, three = chain(3)
    head = Head(1, one.event.event_hash)
    (forged,) = chain_of([said({"n": "forged"})], after=head)

    assert forged.event.version == two.event.version
    assert found([one, forged, three]) == [(3, NOT_NEXT)]


# Checking: whole chains


@repeatable
@given(st.integers(3, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 2), st.integers(1, n - 1))))
def test_events_cut_out_before_the_end_are_missed_at_the_next(case: tuple[int, int, int]) -> None:
    length, first, count = case
    rows = chain(length)
    last = min(first + count, length - 1)

    assert found(rows[:first] + rows[last:]) == [(last + 1, f"version {first + 1} is missing before it")]


@repeatable
@given(st.integers(2, 6).map(chain), st.data())
def test_any_other_order_is_found(rows: list[Stored], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))

    assert (found(shuffled) == []) == (shuffled == rows)


@repeatable
@given(st.integers(1, 6).map(chain), st.data())
def test_an_event_put_in_is_found(rows: list[Stored], data: st.DataObject) -> None:
    strangers = [*rows, *chain_of([said({"n": number}) for number in range(7)], stream=OTHER_STREAM)]
    place = data.draw(st.integers(0, len(rows)))
    stranger = data.draw(st.sampled_from(strangers))

    assert found([*rows[:place], stranger, *rows[place:]]) != []


def test_a_cut_end_is_for_the_checkpoint_to_find() -> None:
    assert found(chain(5)[:3]) == []


@pytest.mark.parametrize("kept_from", range(1, 6))
def test_a_chain_verifies_from_the_anchor_that_retention_left(kept_from: int) -> None:
    rows = chain(6)
    anchor = Head(kept_from, rows[kept_from - 1].event.event_hash)

    assert found(rows[kept_from:], anchor) == []
    assert found(rows[kept_from:])[0] == (kept_from + 1, "version 1 is missing before it")


def test_an_anchor_of_another_past_is_found() -> None:
    rows = chain(4)

    assert found(rows[2:], Head(2, sha256(b"another past"))) == [(3, NOT_NEXT)]
    assert found(rows[2:], Head(2, None)) == [(3, NOT_NEXT)]
    assert found(rows[2:], Head(1, rows[0].event.event_hash)) == [(3, "version 2 is missing before it")]


# Checking: every bit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Flip = Callable[[Stored, int], Stored]


def flipped(raw: bytes, bit: int) -> bytes:
    at = bit // 8 % len(raw)
    return raw[:at] + bytes([raw[at] ^ 1 << bit % 8]) + raw[at + 1 :]


def flipped_text(text: str, bit: int) -> str:
    # What is no UTF-8 any more stays as lone surrogates: no database would hold it, and no checker may trip over it.
    return flipped(text.encode(), bit).decode(errors="surrogateescape")


def flipped_time(moment: datetime, bit: int) -> datetime:
    return EPOCH + ((moment - EPOCH) // MICROSECOND ^ 1 << bit % 51) * MICROSECOND


def flipped_uuid(found: UUID, bit: int) -> UUID:
    return UUID(bytes=flipped(found.bytes, bit))


FLIPS: dict[str, Flip] = {
    "tenant_id": lambda row, bit: changed(
        row, stream=row.event.stream._replace(tenant_id=TenantId(flipped_uuid(row.event.stream.tenant_id, bit)))
    ),
    "aggregate_type": lambda row, bit: changed(
        row, stream=row.event.stream._replace(aggregate_type=flipped_text(row.event.stream.aggregate_type, bit))
    ),
    "aggregate_id": lambda row, bit: changed(
        row,
        stream=row.event.stream._replace(aggregate_id=AggregateId(flipped_uuid(row.event.stream.aggregate_id, bit))),
    ),
    "aggregate_version": lambda row, bit: changed(row, version=row.event.version ^ 1 << bit % 64),
    "event_type": lambda row, bit: changed(row, event_type=flipped_text(row.event.event_type, bit)),
    "occurred_at": lambda row, bit: changed(row, occurred_at=flipped_time(row.event.occurred_at, bit)),
    "actor_id": lambda row, bit: changed(row, actor_id=ActorId(flipped_uuid(row.event.actor_id or UUID(int=0), bit))),
    "event_id": lambda row, bit: changed(row, event_id=EventId(flipped_uuid(row.event.event_id, bit))),
    "payload_hash": lambda row, bit: changed(row, payload_hash=Digest(flipped(row.event.payload_hash, bit))),
    "prev_event_hash": lambda row, bit: changed(
        row, prev_event_hash=Digest(flipped(row.event.prev_event_hash or bytes(32), bit))
    ),
    "event_hash": lambda row, bit: changed(row, event_hash=Digest(flipped(row.event.event_hash, bit))),
    "payload_canonical": lambda row, bit: changed(row, payload_canonical=flipped(row.event.payload_canonical, bit)),
    "payload": lambda row, bit: replace(row, payload_json=flipped(row.payload_json, bit)),
}


def assert_found_there_or_next(rows: list[Stored], at: int, flip: Flip, bit: int) -> None:
    bad = [*rows[:at], flip(rows[at], bit), *rows[at + 1 :]]

    blamed = {fault.version for fault in faults(bad)}

    assert blamed
    assert blamed <= {row.event.version for row in bad[at : at + 2]}


# No control characters: of their escapes (`\u000b`, `\u000B`) one bit may change without changing what is said.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
payloads = st.dictionaries(
    texts, texts | st.integers() | st.none() | st.booleans() | st.lists(texts, max_size=2), max_size=3
)
saids = st.builds(
    Said,
    event_type=texts.filter(bool),
    payload=payloads,
    actor_id=st.none() | st.uuids().map(ActorId),
    occurred_at=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)


@settings(repeatable, max_examples=500)
@given(st.lists(saids, min_size=1, max_size=6), st.data())
def test_one_flipped_bit_anywhere_is_found_there_or_at_the_next_event(saids: list[Said], data: st.DataObject) -> None:
    rows = chain_of(saids)
    assert found(rows) == []

    at = data.draw(st.integers(0, len(rows) - 1), label="event")
    member = data.draw(st.sampled_from(sorted(FLIPS)), label="member")
    bit = data.draw(st.integers(0, 2**12), label="bit")

    assert_found_there_or_next(rows, at, FLIPS[member], bit)


@pytest.mark.parametrize("member", sorted(FLIPS))
@pytest.mark.parametrize("at", range(3))
def test_every_bit_of_every_member_counts(member: str, at: int) -> None:
    rows = chain(3)

    for bit in range(256):
        assert_found_there_or_next(rows, at, FLIPS[member], bit)


# The page


def examples() -> list[dict[str, str]]:
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_example_of_the_page_is_true() -> None:
    head = EMPTY
    for example in examples():
        hashed = json.loads(example["hashed"])
        assert sha(example["payload_canonical"]) == example["payload_hash"] == hashed["payload_hash"]
        assert sha(example["hashed"]) == example["event_hash"]

        event = Event.following(head, STREAM, said_by({**hashed, "payload": json.loads(example["payload"])}))

        assert event.payload_canonical == example["payload_canonical"].encode()
        assert event.event_hash.hex() == example["event_hash"]
        assert str(event.event_id) == example["event_id"]
        assert (hashed["tenant_id"], hashed["aggregate_type"], hashed["aggregate_id"]) == tuple(map(str, STREAM))
        assert hashed["aggregate_version"] == event.version
        head = Head(event.version, event.event_hash)
    assert head.version == 2


def test_the_faults_of_the_page_are_the_faults_we_give() -> None:
    listed = re.findall(r"^\| [1-6] \| (.*) \|$", PAGE.read_bytes().decode(), re.MULTILINE)

    assert listed == ["version *n* is missing before it", NOT_NEXT, WRONG_PAYLOAD, TWO_PAYLOADS, WRONG_HASH, WRONG_ID]


def test_the_checker_of_the_page_works() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_bytes().decode(), re.DOTALL)
    page: dict[str, Any] = {}
    exec(source, page)

    assert page["is_intact"](VECTORS)
    assert page["is_intact"]([])
    for at, vector in enumerate(VECTORS):
        for member, value in vector.items():
            forged = {**vector, member: 7 if value != 7 else 8}
            assert not page["is_intact"]([*VECTORS[:at], forged, *VECTORS[at + 1 :]]), member
    assert not page["is_intact"](VECTORS[1:])
    assert not page["is_intact"]([VECTORS[0], VECTORS[2]])
