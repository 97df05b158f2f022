"""Facts: what documents said, typed by versioned schemas, ready for rules to read.

Pure. A schema that was published never changes; more members need a new version. Every member is optional in a
document; null is absent. Before anything is evaluated, every fact of a type that the rules name is read against its
schema, so a rule never meets a value of the wrong kind.

    SnapshotFact (canonical payload) ── FactTable.of ──► FactRecord by type and key, typed as rules hold values
                                            └────────► FactInvalid, naming fact and member
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeAlias

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Invalid
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Map, Opt, Record, Type
from bpc.core.schemas import SCHEMAS

MAX_MAGNITUDE: Final = 10**36
# 36 digits before the point, 18 behind it, and some leading zeros that nobody should write.
MAX_NUMBER_TEXT: Final = 80

_DECIMAL: Final = re.compile("(-?)([0-9]+)(?:[.]([0-9]+))?")
_DAY: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")


_Reader: TypeAlias = Callable[[Json, str], Any]


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
            object.__setattr__(self, "_digest", sha256(canon.encode(self.payload)))
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

    def __init__(self, records: Mapping[Fact, Sequence[FactRecord]]) -> None:
        self._by_key = {fact: {record.key: record for record in found} for fact, found in records.items()}
        # Strings compare by code point, which is the order of their UTF-8 bytes.
        self._in_order = {fact: sorted(found) for fact, found in self._by_key.items()}

    @classmethod
    def of(cls, facts: Iterable[SnapshotFact], named: Iterable[Fact]) -> "FactTable":
        """Read every fact of a named type; `FactInvalid` names the first that does not fit."""
        records: dict[Fact, list[FactRecord]] = {fact: [] for fact in named}
        versions: dict[str, list[int]] = {}
        for fact in records:
            versions.setdefault(fact.name, []).append(fact.version)
        for found in facts:
            if found.fact_type not in versions:
                continue
            kind = Fact(found.fact_type, found.schema_version)
            if kind not in records:
                known = " and ".join(str(version) for version in sorted(versions[found.fact_type]))
                raise FactInvalid(
                    f"fact `{found.fact_key}` is a {found.fact_type} of schema version {found.schema_version}, "
                    f"and the rules read version {known}",
                    fix=f'name it in the rules as "{found.fact_type}@{found.schema_version}", or leave the fact out',
                    details={"fact_type": found.fact_type, "fact_key": found.fact_key},
                )
            members = read_members(kind, found.fact_key, found.payload)
            records[kind].append(FactRecord(found.fact_key, found.payload_hash(), members))
        return cls(records)

    def get(self, fact: Fact, key: str) -> FactRecord | None:
        return self._by_key[fact].get(key)

    def by_prefix(self, fact: Fact, prefix: str) -> list[FactRecord]:
        """Those whose key starts with `prefix`, by key."""
        by_key, keys = self._by_key[fact], self._in_order[fact]
        start = bisect_left(keys, prefix)
        end = bisect_left(keys, True, start, key=lambda key: not key.startswith(prefix))
        return [by_key[key] for key in keys[start:end]]


def read_members(fact: Fact, key: str, payload: Mapping[str, Json]) -> dict[str, Any]:
    """The members of a fact's payload as rules hold them; what the schema does not know is not looked at."""
    readers = _READERS[fact]
    members: dict[str, Any] = dict.fromkeys(readers)
    try:
        for name in sorted(payload):
            read, given = readers.get(name), payload[name]
            if read is not None and given is not None:
                members[name] = read(given, name)
    except _Wrong as wrong:
        raise FactInvalid(
            f"fact `{key}` ({fact.name}): `{wrong.path}` {wrong.reason}",
            details={"fact_type": fact.name, "fact_key": key, "member": wrong.path},
        ) from None
    return members


class _Wrong(Exception):
    """What is wrong with one member, before anybody has said which fact it is of."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def _reader(kind: Type) -> _Reader:
    """How a value of this type is read; made once for each member of each schema."""
    match kind:
        case Dec(scale):
            return lambda given, path: _decimal(given, scale, path)
        case List(item):
            return _list_reader(_reader(item))
        case Map(item):
            return _map_reader(_reader(item))
        case Record(members):
            return _record_reader({name: _reader(item) for name, item in members})
        case Opt(item):
            read = _reader(item)
            return lambda given, path: None if given is None else read(given, path)
        case _:
            return _SCALARS[kind]


def _list_reader(read: _Reader) -> _Reader:
    def read_list(given: Json, path: str) -> list[Any]:
        if not isinstance(given, list | tuple):
            raise _Wrong(path, f"is {_named(given)}, not a list")
        return [read(part, f"{path}[{index}]") for index, part in enumerate(given)]

    return read_list


def _map_reader(read: _Reader) -> _Reader:
    def read_map(given: Json, path: str) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise _Wrong(path, f"is {_named(given)}, not an object")
        return {name: read(given[name], f"{path}.{name}") for name in sorted(given)}

    return read_map


def _record_reader(readers: Mapping[str, _Reader]) -> _Reader:
    def read_record(given: Json, path: str) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise _Wrong(path, f"is {_named(given)}, not an object")
        return {name: read(given.get(name), f"{path}.{name}") for name, read in readers.items()}

    return read_record


def _bool(given: Json, path: str) -> bool:
    if not isinstance(given, bool):
        raise _Wrong(path, f"is {_named(given)}, not a Bool")
    return given


def _int(given: Json, path: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise _Wrong(path, f"is {_named(given)}, not an Int")
    if abs(given) >= MAX_MAGNITUDE:
        raise _Wrong(path, "is not below 10^36")
    return given


def _text(given: Json, path: str) -> str:
    if not isinstance(given, str):
        raise _Wrong(path, f"is {_named(given)}, not a Text")
    return given


def _date(given: Json, path: str) -> str:
    if not isinstance(given, str):
        raise _Wrong(path, f"is {_named(given)}, not a Date")
    if not is_day(given):
        raise _Wrong(path, f"is `{given[:40]}`, not a day written like 2027-02-18")
    return given


_SCALARS: Final[Mapping[Type, _Reader]] = {BOOL: _bool, INT: _int, TEXT: _text, DATE: _date}


def _decimal(given: Json, scale: int, path: str) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        count: int = _int(given, path) * 10**scale
        return count
    if not isinstance(given, str):
        raise _Wrong(path, f'is {_named(given)}, not a number written as text, like "75.5"')
    parts = _DECIMAL.fullmatch(given) if len(given) <= MAX_NUMBER_TEXT else None
    if parts is None:
        raise _Wrong(path, f'is `{given[:40]}`, not a plain decimal number like "75.5"')
    sign, whole, fraction = parts.groups(default="")
    if len(fraction) > scale:
        raise _Wrong(path, f"has {len(fraction)} decimals, and there is room for {scale}")
    count = int(whole + fraction.ljust(scale, "0"))
    if count >= MAX_MAGNITUDE * 10**scale:
        raise _Wrong(path, "is not below 10^36")
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


def _named(given: Json) -> str:
    match given:
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


_READERS: Final[Mapping[Fact, Mapping[str, _Reader]]] = {
    fact: {name: _reader(kind) for name, kind in schema.items()} for fact, schema in SCHEMAS.items()
}
