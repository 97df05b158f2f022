"""Facts: what documents said, typed by versioned schemas, ready for rules to read.

Pure. A schema that was published never changes; more members need a new version. Every member is optional in a
document; null is absent. Before anything is evaluated, every fact of a type that the rules name is read against its
schema, so a rule never meets a value of the wrong kind.

    SnapshotFact (canonical payload) ── FactTable.from_facts ──► FactRecord by type and key, typed as rules hold values
                                                    └────────► FactInvalid, naming fact and member
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeAlias

from bpc.core.errors import Invalid
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Record, Type

MAX_MAGNITUDE: Final = 10**36
# 36 digits before the point, 18 behind it, and some leading zeros that nobody should write.
MAX_NUMBER_TEXT: Final = 80
# A number of so many characters is below the limit whatever it says.
_MAX_QUICK_DIGITS: Final = 36
_DIGITS: Final = "0123456789"

_DECIMAL: Final = re.compile("(-?)([0-9]+)(?:[.]([0-9]+))?")
_DAY: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")


_MemberReader: TypeAlias = Callable[[Json, str], Any]


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
        return to_hex(self.digest())


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
        records: dict[FactRecordType, list[FactRecord]] = {fact_type: [] for fact_type in fact_types}
        names = {fact_type.name for fact_type in records}
        # By what a fact says, which is hashed at C speed; a type of the language is not.
        groups = {
            (kind.name, kind.version): (kind, _READERS[kind], dict.fromkeys(_READERS[kind]), group.append)
            for kind, group in records.items()
        }
        for fact in facts:
            if fact.fact_type in names:
                group = groups.get((fact.fact_type, fact.schema_version))
                if group is None:
                    raise _make_version_error(fact, records)
                kind, readers, absent_members, append = group
                members = _read_known_members(kind, readers, absent_members, fact.fact_key, fact.payload)
                append(FactRecord(fact.fact_key, fact, members))
        return cls(records)

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


def read_members(fact: FactRecordType, key: str, payload: Mapping[str, Json]) -> dict[str, Any]:
    """The members of a fact's payload as rules hold them; what the schema does not know is not looked at."""
    return _read_known_members(fact, _READERS[fact], dict.fromkeys(_READERS[fact]), key, payload)


def _read_known_members(
    fact: FactRecordType,
    readers: Mapping[str, _MemberReader],
    absent_members: dict[str, Any],
    key: str,
    payload: Mapping[str, Json],
) -> dict[str, Any]:
    members = absent_members.copy()
    try:
        for name, value in payload.items():
            read = readers.get(name)
            if read is _read_text and type(value) is str:  # most members, without a call
                members[name] = value
            elif read is not None and value is not None:
                members[name] = read(value, name)
    except _MemberError as wrong:
        # In canonical order, so that the first problem is the same wherever the payload comes from.
        wrong = _find_first_error(readers, payload) or wrong
        raise FactInvalid(
            f"fact `{key}` ({fact.name}): `{wrong.path}` {wrong.reason}",
            details={"fact_type": fact.name, "fact_key": key, "member": wrong.path},
        ) from None
    return members


def _find_first_error(readers: Mapping[str, _MemberReader], payload: Mapping[str, Json]) -> "_MemberError | None":
    for name in sorted(payload):
        read, value = readers.get(name), payload[name]
        if read is not None and value is not None:
            try:
                read(value, name)
            except _MemberError as wrong:
                return wrong
    return None


def check_member(fact: FactRecordType, key: str, name: str, value: Json) -> None:
    """`FactInvalid` if `read_members` could not read this member of a fact, which its schema knows."""
    if value is not None:
        try:
            _READERS[fact][name](value, name)
        except _MemberError:
            read_members(fact, key, {name: value})


class _MemberError(Exception):
    """What is wrong with one member, before anybody has said which fact it is of."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def _make_reader(kind: Type) -> _MemberReader:
    """How a value of this type is read; made once for each member of each schema."""
    match kind:
        case Dec(scale):
            return _make_decimal_reader(scale)
        case List(item):
            return _make_list_reader(_make_reader(item))
        case Map(item):
            return _make_map_reader(_make_reader(item))
        case Record(members):
            return _make_record_reader({name: _make_reader(item) for name, item in members})
        case Opt(item):
            read = _make_reader(item)
            return lambda value, path: None if value is None else read(value, path)
        case _:
            return _SCALARS[kind]


def _make_decimal_reader(scale: int) -> _MemberReader:
    powers: list[int] = [10**missing for missing in range(scale, -1, -1)]  # by how many decimals there are
    most_digits = _MAX_QUICK_DIGITS

    def read_decimal(value: Json, path: str) -> int:
        # Most are short and plain; all others, and whatever is wrong, take the long way.
        if type(value) is str and len(value) <= most_digits:
            whole, point, fraction = value.partition(".")
            digits = whole + fraction
            if not digits.strip(_DIGITS) and whole and len(fraction) <= scale and (fraction or not point):
                count: int = int(digits) * powers[len(fraction)]
                return count
        return _read_decimal(value, scale, path)

    return read_decimal


def _make_list_reader(read: _MemberReader) -> _MemberReader:
    def read_list(value: Json, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _MemberError(path, f"is {_describe_type(value)}, not a list")
        return [read(part, f"{path}[{index}]") for index, part in enumerate(value)]

    return read_list


def _make_map_reader(read: _MemberReader) -> _MemberReader:
    def read_map(value: Json, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _MemberError(path, f"is {_describe_type(value)}, not an object")
        return {name: read(value[name], f"{path}.{name}") for name in sorted(value)}

    return read_map


def _make_record_reader(readers: Mapping[str, _MemberReader]) -> _MemberReader:
    def read_record(value: Json, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _MemberError(path, f"is {_describe_type(value)}, not an object")
        return {name: read(value.get(name), f"{path}.{name}") for name, read in readers.items()}

    return read_record


def _read_bool(value: Json, path: str) -> bool:
    if not isinstance(value, bool):
        raise _MemberError(path, f"is {_describe_type(value)}, not a Bool")
    return value


def _read_int(value: Json, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _MemberError(path, f"is {_describe_type(value)}, not an Int")
    if abs(value) >= MAX_MAGNITUDE:
        raise _MemberError(path, "is not below 10^36")
    return value


def _read_text(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise _MemberError(path, f"is {_describe_type(value)}, not a Text")
    return value


def _read_date(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise _MemberError(path, f"is {_describe_type(value)}, not a Date")
    if not is_day(value):
        raise _MemberError(path, f"is `{value[:40]}`, not a day written like 2027-02-18")
    return value


_SCALARS: Final[Mapping[Type, _MemberReader]] = {BOOL: _read_bool, INT: _read_int, TEXT: _read_text, DATE: _read_date}


def _read_decimal(value: Json, scale: int, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        count: int = _read_int(value, path) * 10**scale
        return count
    if not isinstance(value, str):
        raise _MemberError(path, f'is {_describe_type(value)}, not a number written as text, like "75.5"')
    parts = _DECIMAL.fullmatch(value) if len(value) <= MAX_NUMBER_TEXT else None
    if parts is None:
        raise _MemberError(path, f'is `{value[:40]}`, not a plain decimal number like "75.5"')
    sign, integer_digits, fraction = parts.groups(default="")
    if len(fraction) > scale:
        raise _MemberError(path, f"has {len(fraction)} decimals, and there is room for {scale}")
    count = int(integer_digits + fraction.ljust(scale, "0"))
    if count >= MAX_MAGNITUDE * 10**scale:
        raise _MemberError(path, "is not below 10^36")
    return -count if sign else count


def is_day(text: str) -> bool:
    """Whether `text` is a day of the years 0001 to 9999 as it is written here."""
    parts = _DAY.fullmatch(text)
    if parts is None:
        return False
    try:
        date(*map(int, parts.groups()))
    except ValueError:  # a 30th of February
        return False
    return True


def _describe_type(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


_READERS: Final[Mapping[FactRecordType, Mapping[str, _MemberReader]]] = {
    fact: {name: _make_reader(kind) for name, kind in schema.items()} for fact, schema in SCHEMAS.items()
}
