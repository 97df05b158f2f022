"""The facts of a snapshot as JSON: a line each in `facts.jsonl`, an element each in a compile input.

Pure. `facts.jsonl` holds one canonical object a line, in the order of the snapshot, every line ended by LF; an empty
snapshot is an empty file. Reading is strict: what `sealed` would not write is refused.

    facts ── sealed ──► Sealed(the facts in order, facts.jsonl, the snapshot's rows)
    facts.jsonl ── read_facts ──► facts
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from bpc.core import canon
from bpc.core.canon import Json, NotCanonical
from bpc.core.errors import Invalid
from bpc.core.facts import SnapshotFact
from bpc.core.snapshot import FactRef

MEMBERS: Final = ("fact_key", "fact_type", "payload", "schema_version")
MAX_SCHEMA_VERSION: Final = 2**31 - 1


class BadFact(Invalid):
    """Something that stands where a fact should, and is none."""


class SameFactTwice(Invalid):
    """Two facts of one type and key: nothing says which of them a rule would read."""

    def __init__(self, fact_type: str, fact_key: str) -> None:
        super().__init__(
            f"there are two facts `{fact_key}` of type {fact_type}",
            fix="a snapshot holds one fact of a type and key: leave one of them out",
            details={"fact_type": fact_type, "fact_key": fact_key},
        )


class Sealed(NamedTuple):
    """Facts in the order of their snapshot, as `facts.jsonl` and as the snapshot lists them."""

    facts: tuple[SnapshotFact, ...]
    lines: bytes
    refs: tuple[FactRef, ...]


def sealed(facts: Iterable[SnapshotFact]) -> Sealed:
    """Put facts in order and write them; `SameFactTwice` unless each type and key is there once."""
    # Strings compare by code point, which is the order of their UTF-8 bytes. Type and key decide alone: the payload's
    # hash, which also counts in a snapshot, would only order facts that are refused here.
    in_order = sorted(facts, key=lambda fact: (fact.fact_type, fact.fact_key))
    for one, other in pairwise(in_order):
        if (one.fact_type, one.fact_key) == (other.fact_type, other.fact_key):
            raise SameFactTwice(one.fact_type, one.fact_key)
    lines = b"".join([line_of(fact) for fact in in_order])
    refs = tuple(FactRef(fact.fact_type, fact.fact_key, fact.digest()) for fact in in_order)
    return Sealed(tuple(in_order), lines, refs)


def line_of(fact: SnapshotFact) -> bytes:
    """One line of `facts.jsonl`, LF included; refused where the fact has no canonical form."""
    try:
        return canon.encode(as_json(fact)) + b"\n"
    except NotCanonical as wrong:
        raise BadFact(
            f"fact `{fact.fact_key}` ({fact.fact_type}): {wrong.says}", fix=wrong.fix, details=wrong.details
        ) from None


def as_json(fact: SnapshotFact) -> dict[str, Json]:
    return {
        "fact_key": fact.fact_key,
        "fact_type": fact.fact_type,
        "payload": fact.payload,
        "schema_version": fact.schema_version,
    }


def read_facts(lines: bytes) -> tuple[SnapshotFact, ...]:
    """The facts of a `facts.jsonl`, which must be exactly what `sealed` writes of them."""
    *whole, rest = lines.split(b"\n")
    if rest:
        raise BadFact("facts.jsonl does not end with a line feed")
    facts = tuple(_read_line(number, line) for number, line in enumerate(whole, 1))
    if sealed(facts).lines != lines:
        raise BadFact("facts.jsonl is not in the order of its snapshot")
    return facts


def _read_line(number: int, line: bytes) -> SnapshotFact:
    try:
        return read_fact(canon.decode(line))
    except Invalid as wrong:
        raise BadFact(f"line {number} of facts.jsonl: {wrong.says}", fix=wrong.fix, details=wrong.details) from None


def read_fact(given: Json) -> SnapshotFact:
    """A fact from its four members, no more and no fewer."""
    if not isinstance(given, Mapping):
        raise BadFact("a fact is an object", fix=f"its members are {', '.join(MEMBERS)}")
    for name in MEMBERS:
        if name not in given:
            raise BadFact(f"the fact has no `{name}`", fix=f"its members are {', '.join(MEMBERS)}")
    unknown = next((name for name in sorted(given) if name not in MEMBERS), None)
    if unknown is not None:
        raise BadFact(f"the fact has a member `{unknown[:80]}`", fix=f"its members are {', '.join(MEMBERS)}")
    return _fact(given)


def _fact(given: Mapping[str, Json]) -> SnapshotFact:
    fact_type, fact_key = _name(given, "fact_type"), _name(given, "fact_key")
    version, payload = given["schema_version"], given["payload"]
    # `type`, because true is an integer to Python.
    if not isinstance(version, int) or type(version) is not int or not 1 <= version <= MAX_SCHEMA_VERSION:
        raise BadFact(f"`schema_version` of fact `{fact_key}` is not a whole number from 1")
    if not isinstance(payload, Mapping):
        raise BadFact(f"`payload` of fact `{fact_key}` is not an object")
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=version, payload=payload)


def _name(given: Mapping[str, Json], member: str) -> str:
    name = given[member]
    if not isinstance(name, str) or not name or "\0" in name:
        raise BadFact(f"`{member}` is not a text of at least one character and without U+0000")
    return name
