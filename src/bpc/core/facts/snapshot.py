"""Snapshot, BPC-SNAPSHOT-1: the facts a passport is compiled from, in one byte string.

Pure. The order of the facts in the input does not matter: they are sorted by type, key and payload hash, each as UTF-8
bytes. Two facts may not share type and key. As JSON, a fact is a line of `facts.jsonl` or an element of a compile
input.

    facts ── order_facts ──► OrderedFacts(facts, lines, refs) ── encode_snapshot ──► canonical bytes
    facts.jsonl ── read_facts ──► facts
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact, encode_payloads, keep_canonical
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json, NotCanonical
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import SnapshotId

SNAPSHOT_VERSION: Final = "BPC-SNAPSHOT-1"
FACT_MEMBERS: Final = ("fact_key", "fact_type", "payload", "schema_version")
MAX_SCHEMA_VERSION: Final = 2**31 - 1
_BEFORE_PAYLOAD: Final = b',"payload":'
_BEHIND_PAYLOAD: Final = b',"schema_version":'
_get_name: Final[Callable[[SnapshotFact], tuple[str, str]]] = attrgetter("fact_type", "fact_key")
_MEMBERS_HINT: Final = f"its members are {', '.join(FACT_MEMBERS)}"


class FactRef(NamedTuple):
    """A fact as a snapshot lists it: its type and key, and the hash of its payload's canonical bytes."""

    fact_type: str
    fact_key: str
    payload_hash: Digest


def encode_snapshot(snapshot_id: SnapshotId, facts: Iterable[FactRef]) -> bytes:
    """The canonical bytes of a snapshot; their SHA-256 is the snapshot's hash."""
    return canonical_json.encode_typed(
        {
            "facts": [
                {"fact_key": key, "fact_type": kind, "payload_hash": to_hex(payload_hash)}
                # Strings compare by code point, which is the order of their UTF-8 bytes.
                for kind, key, payload_hash in sorted(facts)
            ],
            "snapshot_id": str(snapshot_id),
            "snapshot_version": SNAPSHOT_VERSION,
        }
    )


class BadFact(Invalid):
    """Not a valid fact."""


class DuplicateFact(Invalid):
    """Two facts have the same type and key, so it is undefined which one a rule reads."""

    def __init__(self, fact_type: str, fact_key: str) -> None:
        super().__init__(
            f"there are two facts `{fact_key}` of type {fact_type}",
            fix="a snapshot holds one fact of a type and key: leave one of them out",
            details={"fact_type": fact_type, "fact_key": fact_key},
        )


class OrderedFacts(NamedTuple):
    """Facts in the order of their snapshot, as `facts.jsonl` and as the snapshot lists them."""

    facts: tuple[SnapshotFact, ...]
    lines: bytes
    refs: tuple[FactRef, ...]


def order_facts(facts: Iterable[SnapshotFact]) -> OrderedFacts:
    """Put facts in order and write them; `DuplicateFact` unless each type and key is there once."""
    # Strings compare by code point, which is the order of their UTF-8 bytes. Type and key decide alone: the payload's
    # hash, which also counts in a snapshot, would only order facts that are refused here.
    in_order = sorted(facts, key=_get_name)
    for duplicate in _find_duplicates(in_order):
        raise duplicate
    lines = b"".join(_encode_lines(in_order))
    refs = tuple([FactRef(fact.fact_type, fact.fact_key, fact.digest()) for fact in in_order])
    return OrderedFacts(tuple(in_order), lines, refs)


def _encode_lines(facts: Sequence[SnapshotFact]) -> list[bytes]:
    """The line of each, around the payload that is written once."""
    names = canonical_json.encode_parts(
        [part for fact in facts for part in (fact.fact_key, fact.fact_type, fact.schema_version)]
    )
    if names is None or not encode_payloads(facts):
        return [encode_fact_line(fact) for fact in facts]
    parts = iter(names)
    return [
        b'{"fact_key":%b,"fact_type":%b,"payload":%b,"schema_version":%b}\n'
        % (key, kind, fact.canonical_payload or b"", version)
        for fact, key, kind, version in zip(facts, parts, parts, parts, strict=True)
    ]


def find_fact_problems(facts: Iterable[SnapshotFact]) -> Iterator[Invalid]:
    """Every problem of which `order_facts` raises the first."""
    in_order = sorted(facts, key=_get_name)
    yield from _find_duplicates(in_order)
    for fact in in_order:
        try:
            encode_fact_line(fact)
        except BadFact as wrong:
            yield wrong


def _find_duplicates(in_order: Iterable[SnapshotFact]) -> Iterator[DuplicateFact]:
    for one, other in pairwise(in_order):
        if one.fact_key == other.fact_key and one.fact_type == other.fact_type:
            yield DuplicateFact(one.fact_type, one.fact_key)


def encode_fact_line(fact: SnapshotFact) -> bytes:
    """One line of `facts.jsonl`, LF included; refused where the fact has no canonical form."""
    try:
        return canonical_json.encode(fact_to_json(fact)) + b"\n"
    except NotCanonical as wrong:
        raise BadFact(
            f"fact `{fact.fact_key}` ({fact.fact_type}): {wrong.says}", fix=wrong.fix, details=wrong.details
        ) from None


def fact_to_json(fact: SnapshotFact) -> dict[str, Json]:
    return {
        "fact_key": fact.fact_key,
        "fact_type": fact.fact_type,
        "payload": fact.payload,
        "schema_version": fact.schema_version,
    }


def read_facts(lines: bytes) -> tuple[SnapshotFact, ...]:
    """The facts of a `facts.jsonl`, which must be exactly what `order_facts` writes for them."""
    *complete_lines, remainder = lines.split(b"\n")
    if remainder:
        raise BadFact("facts.jsonl does not end with a line feed")
    facts = read_fact_lines(complete_lines)
    # Each line is what its fact writes: only their order is left.
    for one, other in pairwise(facts):
        if _get_name(one) >= _get_name(other):
            order_facts(facts)  # which refuses duplicates
            raise BadFact("facts.jsonl is not in the order of its snapshot")
    return facts


def read_fact_lines(lines: Sequence[bytes]) -> tuple[SnapshotFact, ...]:
    """The facts of lines without their line feeds, in any order."""
    values = canonical_json.decode_parts(lines)
    if values is not None:
        with suppress(BadFact):  # said of its line below
            return tuple([_keep_payload(read_fact(value), line) for value, line in zip(values, lines, strict=True)])
    return tuple(_read_line(number, line) for number, line in enumerate(lines, 1))


def _keep_payload(fact: SnapshotFact, line: bytes) -> SnapshotFact:
    """The fact, which is told the bytes of its payload: no text before it can hold a quote that is not escaped."""
    start = line.index(_BEFORE_PAYLOAD) + len(_BEFORE_PAYLOAD)
    return keep_canonical(fact, line[start : line.rindex(_BEHIND_PAYLOAD)])


def _read_line(number: int, line: bytes) -> SnapshotFact:
    try:
        return read_fact(canonical_json.decode(line))
    except Invalid as wrong:
        raise BadFact(f"line {number} of facts.jsonl: {wrong.says}", fix=wrong.fix, details=wrong.details) from None


def read_fact(value: Json) -> SnapshotFact:
    """A fact from its four members, no more and no fewer."""
    if not isinstance(value, Mapping):
        raise BadFact("a fact must be an object", fix=_MEMBERS_HINT)
    for name in FACT_MEMBERS:
        if name not in value:
            raise BadFact(f"the fact has no `{name}`", fix=_MEMBERS_HINT)
    unknown = next((name for name in sorted(value) if name not in FACT_MEMBERS), None)
    if unknown is not None:
        raise BadFact(f"the fact has an unknown member `{unknown[:80]}`", fix=_MEMBERS_HINT)
    return _build_fact(value)


def _build_fact(members: Mapping[str, Json]) -> SnapshotFact:
    fact_type, fact_key = _require_name(members, "fact_type"), _require_name(members, "fact_key")
    version, payload = members["schema_version"], members["payload"]
    # `type`, because true is an integer to Python.
    if not isinstance(version, int) or type(version) is not int or not 1 <= version <= MAX_SCHEMA_VERSION:
        raise BadFact(f"`schema_version` of fact `{fact_key}` is not a whole number from 1")
    if not isinstance(payload, Mapping):
        raise BadFact(f"`payload` of fact `{fact_key}` is not an object")
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=version, payload=payload)


def _require_name(members: Mapping[str, Json], member: str) -> str:
    name = members[member]
    if not isinstance(name, str) or not name or "\0" in name:
        raise BadFact(f"`{member}` is not a text of at least one character and without U+0000")
    return name
