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
    _digest: Digest | None = field(default=None, init=False, repr=False, compare=False)

    def digest(self) -> Digest:
        """The hash of the payload's canonical bytes, computed once."""
        if self._digest is None:
            object.__setattr__(self, "_digest", sha256(canonical_json.encode(self.payload)))
        return self._digest  # type: ignore[return-value]

    def payload_hash(self) -> str:
        return to_hex(self.digest())


class FactRecord:
    """One fact as rules see it: its members, absent ones as None, typed as its schema says."""

    __slots__ = ("key", "members", "payload_hash")

    def __init__(self, key: str, payload_hash: str, members: dict[str, Any]) -> None:
        self.key = key
        self.payload_hash = payload_hash
        self.members = members


class FactTable:
    """The facts of the types some rules name, by type and key."""

    __slots__ = ("_by_key", "_in_order")

    def __init__(self, records: Mapping[FactRecordType, Sequence[FactRecord]]) -> None:
        self._by_key = {fact: {record.key: record for record in group} for fact, group in records.items()}
        # Strings compare by code point, which is the order of their UTF-8 bytes.
        self._in_order = {fact: sorted(group) for fact, group in self._by_key.items()}

    @classmethod
    def from_facts(cls, facts: Iterable[SnapshotFact], fact_types: Iterable[FactRecordType]) -> "FactTable":
        """Read every fact of a named type; `FactInvalid` names the first that does not fit."""
        records: dict[FactRecordType, list[FactRecord]] = {fact_type: [] for fact_type in fact_types}
        names = {fact_type.name for fact_type in records}
        for fact in facts:
            if fact.fact_type in names:
                kind = FactRecordType(fact.fact_type, fact.schema_version)
                if kind not in records:
                    raise _make_version_error(fact, records)
                members = read_members(kind, fact.fact_key, fact.payload)
                records[kind].append(FactRecord(fact.fact_key, fact.payload_hash(), members))
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
        by_key, keys = self._by_key[fact], self._in_order[fact]
        start = bisect_left(keys, prefix)
        end = bisect_left(keys, True, start, key=lambda key: not key.startswith(prefix))
        return [by_key[key] for key in keys[start:end]]


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
    readers = _READERS[fact]
    members: dict[str, Any] = dict.fromkeys(readers)
    try:
        for name in sorted(payload):
            reader, value = readers.get(name), payload[name]
            if reader is not None and value is not None:
                members[name] = reader(value, name)
    except _MemberError as wrong:
        raise FactInvalid(
            f"fact `{key}` ({fact.name}): `{wrong.path}` {wrong.reason}",
            details={"fact_type": fact.name, "fact_key": key, "member": wrong.path},
        ) from None
    return members


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
            return lambda value, path: _read_decimal(value, scale, path)
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
