"""Events, BPC-EVENT-1: how a chain is made, and that nothing in it can be changed, left out or put in unnoticed."""

import hashlib
import json
import re
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.audit.events import (
    EMPTY_CHAIN,
    Act,
    AuditEvent,
    ChainHead,
    EventStream,
    EventVersionConflict,
    NewEvent,
    StoredEvent,
)
from bpc.core.errors import CODES, Invalid
from bpc.core.formats.canonical_json import NotCanonical, canonicalize
from bpc.core.formats.hashes import from_hex
from bpc.core.formats.ids import ActorId, AggregateId, TenantId, parse_uuid
from bpc.core.formats.timestamps import NotATime, parse_time
from tests.core.audit.sample_chains import (
    ACTOR,
    NOON,
    NOT_NEXT,
    STREAM,
    TWO_PAYLOADS,
    WRONG_HASH,
    WRONG_ID,
    WRONG_PAYLOAD,
    build_chain,
    list_faults,
    make_chain,
    make_event,
    make_version_8_id,
    repeatable,
)

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "events.md"
VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "vectors" / "events.json").read_bytes())


# Making


def event_from_vector(vector: dict[str, Any]) -> NewEvent:
    return NewEvent(
        event_type=vector["event_type"],
        payload=vector["payload"],
        actor_id=None if vector["actor_id"] is None else ActorId(parse_uuid(vector["actor_id"])),
        occurred_at=parse_time(vector["occurred_at"]),
    )


def test_the_published_vectors_come_out() -> None:
    events = [row.event for row in build_chain([event_from_vector(vector) for vector in VECTORS])]

    assert [event.event_hash.hex() for event in events] == [vector["event_hash"] for vector in VECTORS]
    assert [event.payload_hash.hex() for event in events] == [vector["payload_hash"] for vector in VECTORS]
    assert [event.prev_event_hash and event.prev_event_hash.hex() for event in events] == [
        vector["prev_event_hash"] for vector in VECTORS
    ]
    assert [event.version for event in events] == [vector["aggregate_version"] for vector in VECTORS] == [1, 2, 3]


def test_the_published_vectors_verify_as_they_are_stored() -> None:
    def stored_from_vector(vector: dict[str, Any]) -> StoredEvent:
        text = json.dumps(vector["payload"], indent=2).encode()
        event_hash = from_hex(vector["event_hash"])
        event = AuditEvent(
            stream=EventStream(
                TenantId(parse_uuid(vector["tenant_id"])),
                vector["aggregate_type"],
                AggregateId(parse_uuid(vector["aggregate_id"])),
            ),
            version=vector["aggregate_version"],
            event_id=make_version_8_id(event_hash),
            event_type=vector["event_type"],
            occurred_at=parse_time(vector["occurred_at"]),
            actor_id=event_from_vector(vector).actor_id,
            payload_canonical=canonicalize(text),
            payload_hash=from_hex(vector["payload_hash"]),
            prev_event_hash=vector["prev_event_hash"] and from_hex(vector["prev_event_hash"]),
            event_hash=event_hash,
        )
        return StoredEvent(event=event, payload_json=text)

    assert list_faults([stored_from_vector(vector) for vector in VECTORS]) == []


def test_the_event_hash_covers_exactly_nine_members() -> None:
    event = make_chain(2)[1].event

    members: dict[str, object] = {
        "actor_id": str(ACTOR),
        "aggregate_id": "f17fd374-1111-4111-8111-1a8ca6233255",
        "aggregate_type": "Document",
        "aggregate_version": 2,
        "event_type": "DOCUMENT_CHANGED",
        "occurred_at": "2027-02-18T12:00:00.000000Z",
        "payload_hash": hashlib.sha256('{"n":1,"note":"Größe"}'.encode()).hexdigest(),
        "prev_event_hash": make_chain(1)[0].event.event_hash.hex(),
        "tenant_id": "9f767c45-1111-4111-8111-b791bde5c099",
    }
    assert event.event_hash == hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest()


@repeatable
@given(st.integers(0, 2**40))
def test_the_id_is_the_version_8_uuid_of_the_hash(number: int) -> None:
    event = AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({"n": number}))

    assert event.event_id == make_version_8_id(event.event_hash)
    assert event.event_id.version == 8


def test_a_moment_is_the_same_in_every_time_zone() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))

    assert AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({}, at=elsewhere)).event_hash == (
        AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({}, at=NOON)).event_hash
    )


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(NotATime) as error:
        AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({}, at=NOON.replace(tzinfo=None)))

    assert error.value.says == "`2027-02-18 12:00:00` has no time zone"


def test_an_act_says_things_in_its_own_name_and_time() -> None:
    assert Act(ACTOR, NOON).new_event("DOCUMENT_CHANGED", {"n": 1}) == make_event({"n": 1})


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
    with pytest.raises(Invalid) as error:
        AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event(payload))

    assert error.value.says == "an event's payload must not contain the character U+0000"


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "\\\\\\u0000", "u0000", "\x01", "\\", "x\\u0000\\u0000"])
def test_a_text_about_u0000_is_only_a_text(text: str) -> None:
    rows = build_chain([make_event({"note": text, text: 1})])

    assert json.loads(rows[0].event.payload_canonical) == {"note": text, text: 1}
    assert list_faults(rows) == []


@repeatable
@given(st.text(st.sampled_from("\\u0\0"), max_size=12))
def test_a_payload_is_refused_exactly_if_it_has_the_character(text: str) -> None:
    try:
        AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({"note": text}))
    except Invalid:
        assert "\0" in text
    else:
        assert "\0" not in text


def test_the_search_for_u0000_takes_linear_time() -> None:
    # A million backslashes: at the first try of a careless pattern this would take hours.
    event = AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({"note": "\\" * 1_000_000}))

    assert len(event.payload_canonical) == 2_000_011


@pytest.mark.parametrize(
    "text", ["Größe", "e\u0301", "電池", "😀", "\u2028", "\ue000\U00010000", "\x7f", "\t\n\x1f"], ids=ascii
)
def test_any_other_text_is_kept_as_it_is(text: str) -> None:
    rows = build_chain([make_event({"note": text, text: [text]})])

    assert json.loads(rows[0].event.payload_canonical) == {"note": text, text: [text]}
    assert list_faults(rows) == []


def test_a_payload_without_canonical_form_is_refused_with_its_path() -> None:
    with pytest.raises(NotCanonical) as error:
        AuditEvent.chain_after(EMPTY_CHAIN, STREAM, make_event({"cells": [{"mass": 1.5}]}))

    assert error.value.path == "$.cells[0].mass"


def test_a_conflict_says_where_the_chain_is_and_may_be_tried_again() -> None:
    conflict = EventVersionConflict(STREAM, 3, 5)

    assert conflict.says == "`Document f17fd374-1111-4111-8111-1a8ca6233255` is at version 5, not 3"
    assert conflict.details == {"expected_version": 3, "version": 5}
    assert CODES[conflict.code].http == 409
    assert conflict.retryable


# The page


def load_examples() -> list[dict[str, str]]:
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_example_of_the_page_is_true() -> None:
    head = EMPTY_CHAIN
    for example in load_examples():
        hashed = json.loads(example["hashed"])
        assert hash_text(example["payload_canonical"]) == example["payload_hash"] == hashed["payload_hash"]
        assert hash_text(example["hashed"]) == example["event_hash"]

        event = AuditEvent.chain_after(
            head, STREAM, event_from_vector({**hashed, "payload": json.loads(example["payload"])})
        )

        assert event.payload_canonical == example["payload_canonical"].encode()
        assert event.event_hash.hex() == example["event_hash"]
        assert str(event.event_id) == example["event_id"]
        assert (hashed["tenant_id"], hashed["aggregate_type"], hashed["aggregate_id"]) == tuple(map(str, STREAM))
        assert hashed["aggregate_version"] == event.version
        head = ChainHead(event.version, event.event_hash)
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
