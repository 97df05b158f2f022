"""Facts: what documents said, typed by versioned schemas, ready for rules to read.

Pure. A schema that was published never changes; more members need a new version. Every member is optional in a
document; null is absent. Before anything is evaluated, every fact of a type that the rules name is read against its
schema, so a rule never meets a value of the wrong kind.

    SnapshotFact (canonical payload) ── FactTable.from_facts ──► FactRecord by type and key, typed as rules hold values
                                                    └────────► FactInvalid, naming fact and member
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.facts.member_readers import MemberError, MemberReader, make_reader, read_text
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.language.types import FactRecordType


class FactInvalid(Invalid):
    """A fact that does not fit its schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFact:
    """A fact as a snapshot holds it. `payload` is JSON with a canonical form."""

    fact_type: str
    fact_key: str
    schema_version: int
    payload: Mapping[str, Json]
    _canonical: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _digest: Digest | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def canonical_payload(self) -> bytes | None:
        """The payload's canonical bytes, if they are known (`encode_payloads`, `keep_canonical`)."""
        return self._canonical

    def digest(self) -> Digest:
        """The hash of the payload's canonical bytes, computed once."""
        if self._digest is None:
            _set_digest(self, sha256(self._canonical or canonical_json.encode(self.payload)))
        return self._digest  # type: ignore[return-value]

    def payload_hash(self) -> str:
        return self.digest().hex()


# How a frozen fact learns its own bytes and hash, quicker than by `object.__setattr__`.
_set_canonical: Final[Callable[[SnapshotFact, bytes], None]] = vars(SnapshotFact)["_canonical"].__set__
_set_digest: Final[Callable[[SnapshotFact, Digest], None]] = vars(SnapshotFact)["_digest"].__set__


def keep_canonical(fact: SnapshotFact, payload: bytes) -> SnapshotFact:
    """The fact, which need not write its payload any more: `payload` is what it would write."""
    _set_canonical(fact, payload)
    return fact


def encode_payloads(facts: Iterable[SnapshotFact]) -> bool:
    """Have facts write their payloads, each once and all together; False if one of them needs a closer look."""
    unwritten_facts = [fact for fact in facts if fact.canonical_payload is None]
    payloads = canonical_json.encode_parts([fact.payload for fact in unwritten_facts])
    for fact, payload in zip(unwritten_facts, payloads or (), strict=False):
        _set_canonical(fact, payload)
    return payloads is not None


def read_stored_facts(rows: Sequence[Any]) -> list[SnapshotFact]:
    """Facts from type, key, schema version and canonical payload; `NotCanonical` if a payload is not canonical."""
    payloads = [row[3] for row in rows]
    values: Any = canonical_json.decode_parts(payloads)
    if values is None:
        values, payloads = [canonical_json.decode(payload) for payload in payloads], [None] * len(rows)
    facts = []
    for (kind, key, version, _), value, payload in zip(rows, values, payloads, strict=True):
        fact = SnapshotFact(fact_type=kind, fact_key=key, schema_version=version, payload=value)
        facts.append(fact if payload is None else keep_canonical(fact, payload))
    return facts


class FactRecord:
    """One fact as rules see it: its members, absent ones as None, typed as its schema says."""

    __slots__ = ("_hash", "key", "members")

    def __init__(self, key: str, hash_source: str | SnapshotFact, members: dict[str, Any]) -> None:
        """`hash_source` is the hash of the payload, or the fact: only a proof asks for the hash."""
        self.key = key
        self.members = members
        self._hash = hash_source

    @property
    def payload_hash(self) -> str:
        if isinstance(self._hash, SnapshotFact):
            self._hash = self._hash.payload_hash()
        return self._hash


class FactTable:
    """The facts of the types some rules name, by type and key."""

    __slots__ = ("_by_key", "_in_order")

    def __init__(self, records: Mapping[FactRecordType, Sequence[FactRecord]]) -> None:
        self._by_key = {fact: {record.key: record for record in group} for fact, group in records.items()}
        # The keys and the records in their order, of each type that was asked for by a prefix.
        self._in_order: dict[FactRecordType, tuple[list[str], list[FactRecord]]] = {}

    @classmethod
    def from_facts(cls, facts: Iterable[SnapshotFact], fact_types: Iterable[FactRecordType]) -> "FactTable":
        """Read every fact of a named type; `FactInvalid` names the first that does not fit."""
        kinds = [*fact_types]
        names = {kind.name for kind in kinds}
        # By what a fact says, which is hashed at C speed; a type of the language is not.
        groups: dict[tuple[str, int], list[SnapshotFact]] = {(kind.name, kind.version): [] for kind in kinds}
        relevant_facts = [fact for fact in facts if fact.fact_type in names]
        try:
            for fact in relevant_facts:
                groups[fact.fact_type, fact.schema_version].append(fact)
            return cls({kind: _read_alike(kind, groups[kind.name, kind.version]) for kind in kinds})
        except (KeyError, MemberError):  # said of the first fact that has a problem
            for fact in relevant_facts:
                kind = FactRecordType(fact.fact_type, fact.schema_version)
                if kind not in kinds:
                    raise _make_version_error(fact, kinds) from None
                read_members(kind, fact.fact_key, fact.payload)
            raise

    @classmethod
    def find_problems(
        cls, facts: Iterable[SnapshotFact], fact_types: Collection[FactRecordType]
    ) -> Iterator[FactInvalid]:
        """Every problem of which `from_facts` raises the first, one for each fact."""
        for fact in facts:
            try:
                cls.from_facts([fact], fact_types)
            except FactInvalid as wrong:
                yield wrong

    def get(self, fact: FactRecordType, key: str) -> FactRecord | None:
        return self._by_key[fact].get(key)

    def find_by_prefix(self, fact: FactRecordType, prefix: str) -> list[FactRecord]:
        """Those whose key starts with `prefix`, by key."""
        in_order = self._in_order.get(fact)
        if in_order is None:
            by_key = self._by_key[fact]
            # Strings compare by code point, which is the order of their UTF-8 bytes.
            keys = sorted(by_key)
            in_order = self._in_order[fact] = keys, [by_key[key] for key in keys]
        keys, records = in_order
        start, end = bisect_left(keys, prefix), len(keys)
        if start < end and not keys[-1].startswith(prefix):
            end = bisect_left(keys, True, start, key=lambda key: not key.startswith(prefix))
        return records[start:end]


def _make_version_error(fact: SnapshotFact, known_types: Iterable[FactRecordType]) -> FactInvalid:
    versions = " and ".join(
        str(version) for version in sorted(k.version for k in known_types if k.name == fact.fact_type)
    )
    return FactInvalid(
        f"fact `{fact.fact_key}` is a {fact.fact_type} of schema version {fact.schema_version}, "
        f"and the rules read version {versions}",
        fix=f'name it in the rules as "{fact.fact_type}@{fact.schema_version}", or leave the fact out',
        details={"fact_type": fact.fact_type, "fact_key": fact.fact_key},
    )


def _read_alike(kind: FactRecordType, facts: Sequence[SnapshotFact]) -> list[FactRecord]:
    """Facts of one type, their texts looked at together; `MemberError` if one of them does not fit."""
    schema = _SCHEMAS[kind]
    absent_members, known_names, others = schema.absent_members, schema.absent_members.keys(), schema.others
    records = []
    for fact in facts:
        payload = fact.payload
        if payload.keys() <= known_names:
            members = {**absent_members, **payload}
        else:
            members = {name: payload.get(name) for name in known_names}
        for name, read in others:
            value = members[name]
            if value is not None:
                members[name] = read(value, name)
        records.append(FactRecord(fact.fact_key, fact, members))
    if not _TEXT_OR_ABSENT.issuperset(
        map(type, chain.from_iterable(map(schema.get_texts, [record.members for record in records])))
    ):
        raise MemberError("", "is not a text")
    return records


def read_members(fact: FactRecordType, key: str, payload: Mapping[str, Json]) -> dict[str, Any]:
    """The members of a fact's payload as rules hold them; what the schema does not know is not looked at."""
    readers = _SCHEMAS[fact].readers
    members: dict[str, Any] = dict.fromkeys(readers)
    try:
        for name, value in payload.items():
            read = readers.get(name)
            if read is read_text and type(value) is str:  # most members, without a call
                members[name] = value
            elif read is not None and value is not None:
                members[name] = read(value, name)
    except MemberError as wrong:
        # In canonical order, so that the first problem is the same wherever the payload comes from.
        wrong = _find_first_error(readers, payload) or wrong
        raise FactInvalid(
            f"fact `{key}` ({fact.name}): `{wrong.path}` {wrong.reason}",
            details={"fact_type": fact.name, "fact_key": key, "member": wrong.path},
        ) from None
    return members


def _find_first_error(readers: Mapping[str, MemberReader], payload: Mapping[str, Json]) -> "MemberError | None":
    for name in sorted(payload):
        read, value = readers.get(name), payload[name]
        if read is not None and value is not None:
            try:
                read(value, name)
            except MemberError as wrong:
                return wrong
    return None


def check_member(fact: FactRecordType, key: str, name: str, value: Json) -> None:
    """`FactInvalid` if `read_members` could not read this member of a fact, which its schema knows."""
    if value is not None:
        try:
            _SCHEMAS[fact].readers[name](value, name)
        except MemberError:
            read_members(fact, key, {name: value})


class _Schema(NamedTuple):
    """How the members of a fact are read. Apart: those that are not texts; the texts are looked at together."""

    readers: Mapping[str, MemberReader]
    absent_members: dict[str, None]
    others: tuple[tuple[str, MemberReader], ...]
    get_texts: Callable[[Mapping[str, Any]], Iterable[Any]]


def _make_schema(readers: Mapping[str, MemberReader]) -> _Schema:
    texts = [name for name, read in readers.items() if read is read_text]
    return _Schema(
        readers=readers,
        absent_members=dict.fromkeys(readers),
        others=tuple((name, read) for name, read in readers.items() if read is not read_text),
        # Of one name, `itemgetter` gives its value instead of a tuple.
        get_texts=itemgetter(*texts) if len(texts) > 1 else lambda members: [members[name] for name in texts],
    )


_SCHEMAS: Final[Mapping[FactRecordType, _Schema]] = {
    fact: _make_schema({name: make_reader(kind) for name, kind in members.items()}) for fact, members in SCHEMAS.items()
}
_TEXT_OR_ABSENT: Final = frozenset({str, type(None)})
