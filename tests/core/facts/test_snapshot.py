"""facts.jsonl: the facts of a snapshot, one canonical line each, in one order."""

import json
from itertools import permutations
from typing import Any

import pytest

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import (
    BadFact,
    DuplicateFact,
    encode_fact_line,
    fact_to_json,
    order_facts,
    read_fact,
    read_facts,
)
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256


def make_fact(key: str, kind: str = "Component", *, version: int = 1, **payload: Any) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=version, payload=payload)


FACTS = [
    make_fact("b", mass_g="1.5"),
    make_fact("a", note='é "quoted" \U0001f600'),
    make_fact("a", "Battery", version=2, big=10**40),
    make_fact("\uffff", "Battery"),
    make_fact("\U00010000", "Battery", nested={"list": [1, None, True]}),
]


def expect_refusal(lines: bytes) -> Invalid:
    with pytest.raises(BadFact) as error:
        read_facts(lines)
    return error.value


def test_a_line_is_the_canonical_object_of_four_members() -> None:
    assert encode_fact_line(FACTS[0]) == (
        b'{"fact_key":"b","fact_type":"Component","payload":{"mass_g":"1.5"},"schema_version":1}\n'
    )


def test_the_lines_are_sorted_by_type_and_key_as_bytes() -> None:
    rows = [json.loads(line) for line in order_facts(FACTS).lines.decode().split("\n")[:-1]]

    assert [(row["fact_type"], row["fact_key"]) for row in rows] == [
        ("Battery", "a"),
        ("Battery", "\uffff"),
        ("Battery", "\U00010000"),
        ("Component", "a"),
        ("Component", "b"),
    ]


def test_the_order_facts_are_given_in_does_not_matter() -> None:
    expected = order_facts(FACTS)

    assert all(order_facts(mixed) == expected for mixed in permutations(FACTS))


def test_what_was_written_reads_as_it_was() -> None:
    ordered = order_facts(FACTS)

    assert read_facts(ordered.lines) == ordered.facts
    assert [ref.payload_hash for ref in ordered.refs] == [
        sha256(canonical_json.encode(snapshot_fact.payload)) for snapshot_fact in ordered.facts
    ]


def test_no_facts_are_an_empty_file() -> None:
    assert order_facts([]).lines == b""
    assert read_facts(b"") == ()


def test_two_facts_of_one_type_and_key_are_refused_whatever_they_say() -> None:
    with pytest.raises(DuplicateFact) as error:
        order_facts([make_fact("a", mass_g="1"), make_fact("b"), make_fact("a", mass_g="2")])

    assert error.value.code == "VALIDATION_ERROR"
    assert error.value.says == "there are two facts `a` of type Component"
    assert error.value.details == {"fact_type": "Component", "fact_key": "a"}


def test_one_key_in_two_types_is_two_facts() -> None:
    assert len(order_facts([make_fact("a"), make_fact("a", "Battery")]).facts) == 2


@pytest.mark.parametrize("payload", [{"a": 1.5}, {"a": "\ud800"}, {"a": {1: 2}}, {"a": {"b", "c"}}])
def test_a_payload_without_canonical_form_is_refused_with_its_fact(payload: dict[str, Any]) -> None:
    with pytest.raises(BadFact) as error:
        order_facts([make_fact("component:1", **payload)])

    assert error.value.says.startswith("fact `component:1` (Component): `$.payload.a")


def test_a_payload_so_deep_that_its_line_could_not_be_read_is_refused() -> None:
    deep: Any = []
    for _ in range(126):
        deep = [deep]

    with pytest.raises(BadFact, match="nested deeper than 128"):
        order_facts([make_fact("a", a=deep)])
    fits = order_facts([make_fact("a", a=deep[0])])
    assert read_facts(fits.lines) == fits.facts


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (encode_fact_line(FACTS[0])[:-1], "does not end with a line feed"),
        (b"\n", "line 1 of facts.jsonl"),
        (encode_fact_line(FACTS[0]) + b"\n", "line 2 of facts.jsonl"),
        (encode_fact_line(FACTS[0]).replace(b":", b": ", 1), "line 1 of facts.jsonl: this is JSON, but not canonical"),
        (encode_fact_line(FACTS[0]) + encode_fact_line(FACTS[1]), "not in the order"),
        (b"[]\n", "line 1 of facts.jsonl: a fact must be an object"),
    ],
)
def test_lines_that_were_not_written_so_are_refused(lines: bytes, says: str) -> None:
    assert says in expect_refusal(lines).says


def test_the_same_line_twice_is_refused() -> None:
    with pytest.raises(DuplicateFact):
        read_facts(encode_fact_line(FACTS[0]) * 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fact_key": None}, "`fact_key` is not a text"),
        ({"fact_key": ""}, "`fact_key` is not a text"),
        ({"fact_type": "a\0"}, "`fact_type` is not a text"),
        ({"schema_version": True}, "`schema_version` of fact `b` is not a whole number from 1"),
        ({"schema_version": 0}, "`schema_version` of fact `b`"),
        ({"schema_version": "1"}, "`schema_version` of fact `b`"),
        ({"schema_version": 10**40}, "`schema_version` of fact `b`"),
        ({"payload": []}, "`payload` of fact `b` is not an object"),
        ({"payload_hash": "x"}, "the fact has an unknown member `payload_hash`"),
    ],
)
def test_a_wrong_member_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadFact) as error:
        read_fact({**fact_to_json(FACTS[0]), **change})

    assert error.value.says.startswith(says)


@pytest.mark.parametrize("missing", ["fact_key", "fact_type", "payload", "schema_version"])
def test_a_missing_member_is_named(missing: str) -> None:
    members = fact_to_json(FACTS[0])
    del members[missing]

    with pytest.raises(BadFact) as error:
        read_fact(members)

    assert error.value.says == f"the fact has no `{missing}`"


def test_lines_are_the_same_whether_payloads_are_written_together_or_one_by_one() -> None:
    plain_facts = [fact for fact in FACTS if "big" not in fact.payload]

    for facts in (FACTS, plain_facts):
        ordered = order_facts(facts)

        assert ordered.lines == b"".join(encode_fact_line(fact) for fact in ordered.facts)
        assert [ref.payload_hash for ref in ordered.refs] == [
            sha256(canonical_json.encode(fact.payload)) for fact in ordered.facts
        ]


@pytest.mark.parametrize("key", ['a","payload":{"x":1', "payload", ',"schema_version":7}', '\\","payload":'])
def test_a_fact_that_is_read_knows_the_bytes_of_its_payload_whatever_its_texts_are(key: str) -> None:
    fact = make_fact(key, key, payload={key: [key]}, schema_version="1")

    (again,) = read_facts(encode_fact_line(fact))

    assert again.canonical_payload == canonical_json.encode(fact.payload)
    assert again.payload_hash() == fact.payload_hash()


def test_facts_are_written_once_however_often_they_are_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = order_facts([make_fact("b", mass_g="1.5"), make_fact("a")]).facts
    payload_counts = []
    encode_parts = canonical_json.encode_parts

    def count_parts(parts: list[object]) -> list[bytes] | None:
        payload_counts.append(sum(isinstance(part, dict) for part in parts))
        return encode_parts(parts)

    monkeypatch.setattr(canonical_json, "encode_parts", count_parts)
    order_facts(facts)
    order_facts(read_facts(order_facts(facts).lines))

    assert sum(payload_counts) == 0
