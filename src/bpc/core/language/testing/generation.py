"""Cases of properties, BPC-GEN-1: seeds and a case's number in, its facts and variables out. Pure."""

import hashlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from typing import Any, Final, TypeAlias, assert_never

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.values import value_to_json
from bpc.core.language.typed import BuiltinCall, FactLookup, FactPrefixLookup, Program, TypedProperty, Value
from bpc.core.language.types import (
    BOOL,
    INT,
    QTY_SCALE,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Scalar,
    Type,
    unwrap_option_type,
)

Members: TypeAlias = Mapping[str, Value]
"""The members of a fact as rules hold them; an absent one is not there."""


@dataclass(frozen=True, slots=True)
class Case:
    """The members of each fact that is `any` and the value of each claim's variable, both in the order of the text."""

    number: int
    facts: tuple[Members, ...]
    variables: tuple[Value, ...]


EDGE: Final = 64  # a byte below it, one in four, asks for an edge
LARGEST_DIGITS: Final = 12
LONGEST_TEXT: Final = 32
LONGEST_LIST: Final = 8
DEEPEST: Final = 4
FIRST_DAY: Final = date(1900, 1, 1).toordinal()
LAST_DAY: Final = date(2100, 12, 31).toordinal()

TEXT_EDGES: Final = ("", "\U0010ffff" * LONGEST_TEXT)
DATE_EDGES: Final = ("1900-01-01", "2000-02-29", "2100-12-31")

# Of the bytes that ask for a code point each: below _LATIN printable ASCII, below _ANYTHING up to U+07FF.
_LATIN: Final = 224
_ANYTHING: Final = 240
_ASCII: Final = bytes(0x20 + byte % 95 for byte in range(256))
_SURROGATES: Final = 0xD800, 0x800  # the first, and how many
_CODE_POINTS: Final = 0x110000 - 0x800 - 1


class ByteStream:
    """The bytes of a case from one thing on: the SHA-256 of canonical `[run seed, property seed, name, case, block]`,
    the blocks numbered from thing · 2^32 on."""

    __slots__ = ("_at", "_block", "_bytes", "_start")

    def __init__(self, start: bytes, thing: int = 0) -> None:
        self._start = start  # the canonical list up to where its last number goes
        self._block = thing << 32
        self._bytes = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._bytes):
            self._refill(count)
            end = count
        taken = self._bytes[self._at : end]
        self._at = end
        return taken

    def _refill(self, count: int) -> None:
        blocks = [self._bytes[self._at :]]
        missing = count - len(blocks[0])
        while missing > 0:
            blocks.append(hashlib.sha256(b"%b%d]" % (self._start, self._block)).digest())
            self._block += 1
            missing -= 32
        self._bytes = b"".join(blocks)
        self._at = 0

    def take_byte(self) -> int:
        return self.take(1)[0]

    def draw_below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; one more byte than it needs, so that all are about equally likely."""
        return int.from_bytes(self.take(count_bytes(limit)), "big") % limit


def count_bytes(limit: int) -> int:
    """How many bytes `ByteStream.draw_below` reads."""
    return ((limit - 1).bit_length() + 7) // 8 + 1


Draw: TypeAlias = Callable[[ByteStream], Value]


def create_draw(kind: Type, level: int = 0) -> Draw:  # noqa: PLR0911 (one row a type)
    """How a value of this type is drawn; `level` counts the lists, maps and records around it."""
    match kind:
        case Scalar():
            return _create_scalar_draw(kind)
        case Dec(scale):
            return _create_number_draw(scale)
        case Qty():
            return _create_quantity_draw()
        case Opt(item):
            return _create_option_draw(create_draw(item, level), level)
        case List(item):
            return _create_list_draw(create_draw(item, level + 1), LONGEST_LIST >> level)
        case Map(item):
            return _create_map_draw(create_draw(item, level + 1), LONGEST_LIST >> level)
        case Record(members):
            return _create_record_draw([(name, create_draw(item, level + 1)) for name, item in members])
        case EnumType(_, enum_members):
            return lambda stream: enum_members[stream.draw_below(len(enum_members))]
        case FactRecordType():
            raise TypeError(f"{kind} is drawn as a fact, not as a value")
        case _:
            assert_never(kind)


def _create_scalar_draw(kind: Scalar) -> Draw:
    if kind == BOOL:
        return lambda stream: stream.take_byte() % 2 == 1
    if kind == INT:
        return _create_number_draw(0)
    return _draw_text if kind == TEXT else _draw_day


def list_number_edges(scale: int) -> tuple[int, ...]:
    """0, ±1, ±the smallest step, ±the largest, each once."""
    one = 10**scale
    largest = one * 10**LARGEST_DIGITS
    return tuple(dict.fromkeys((0, one, -one, 1, -1, largest, -largest)))


def _create_number_draw(scale: int) -> Draw:
    edges = list_number_edges(scale)
    # The number of digits first: uniform numbers would nearly all be enormous.
    sizes = [(10**digits, count_bytes(10**digits)) for digits in range(1, LARGEST_DIGITS + scale + 1)]

    def draw(stream: ByteStream) -> int:
        mark = stream.take_byte()
        if mark < EDGE:
            return edges[mark % len(edges)]
        limit, count = sizes[stream.draw_below(len(sizes))]
        number: int = int.from_bytes(stream.take(count), "big") % limit
        return -number if mark % 2 else number

    return draw


def _create_quantity_draw() -> Draw:
    edges = list_number_edges(QTY_SCALE)

    def draw(stream: ByteStream) -> int:
        mark = stream.take_byte()
        if mark < EDGE:
            return edges[mark % len(edges)]
        decimals = stream.draw_below(QTY_SCALE + 1)
        digits = 1 + stream.draw_below(LARGEST_DIGITS + decimals)
        number: int = stream.draw_below(10**digits) * 10 ** (QTY_SCALE - decimals)
        return -number if mark % 2 else number

    return draw


def _draw_text(stream: ByteStream) -> str:
    mark = stream.take_byte()
    if mark < EDGE:
        return TEXT_EDGES[mark % len(TEXT_EDGES)]
    marks = stream.take(stream.draw_below(stream.draw_below(LONGEST_TEXT + 1) + 1))
    plain = marks.translate(_ASCII).decode("ascii")
    if all(mark < _LATIN for mark in marks):
        return plain
    return "".join(
        character if mark < _LATIN else _draw_code_point(stream, mark)
        for mark, character in zip(marks, plain, strict=True)
    )


def _draw_code_point(stream: ByteStream, mark: int) -> str:
    if mark < _ANYTHING:
        return chr(1 + stream.draw_below(0x7FF))
    point = 1 + stream.draw_below(_CODE_POINTS)
    first, count = _SURROGATES
    return chr(point if point < first else point + count)


def _draw_day(stream: ByteStream) -> str:
    mark = stream.take_byte()
    if mark < EDGE:
        return DATE_EDGES[mark % len(DATE_EDGES)]
    return date.fromordinal(FIRST_DAY + stream.draw_below(LAST_DAY - FIRST_DAY + 1)).isoformat()


def _create_option_draw(item: Draw, level: int) -> Draw:
    if level >= DEEPEST:
        return lambda _: None
    return lambda stream: None if stream.take_byte() < EDGE else item(stream)


def _create_list_draw(item: Draw, longest: int) -> Draw:
    if not longest:
        return lambda _: []
    return lambda stream: (
        [] if stream.take_byte() < EDGE else [item(stream) for _ in range(1 + stream.draw_below(longest))]
    )


def _create_map_draw(item: Draw, longest: int) -> Draw:
    if not longest:
        return lambda _: {}

    def draw(stream: ByteStream) -> Value:
        if stream.take_byte() < EDGE:
            return {}
        entries: dict[str, Value] = {}
        for _ in range(1 + stream.draw_below(longest)):
            name = _draw_text(stream)
            entries[name] = item(stream)
        return dict(sorted(entries.items()))

    return draw


def _create_record_draw(members: list[tuple[str, Draw]]) -> Draw:
    return lambda stream: {name: draw(stream) for name, draw in members}


def build_payload(fact: FactRecordType, members: Members) -> dict[str, Json]:
    """A drawn fact as a document would have said it."""
    schema = SCHEMAS[fact]
    return {name: value_to_json(schema[name], value) for name, value in members.items()}


class _FactDraw:
    """A fact that is `any`: three in four are complete, in the others each member is missing one time in four.

    The fact itself is thing number `first`, its members by name are the things after it.
    """

    __slots__ = ("_first", "_members", "after")

    def __init__(self, fact: FactRecordType, first: int, member_names: Container[str]) -> None:
        names = sorted(SCHEMAS[fact])
        self._first = first
        self._members = [
            (thing, name, create_draw(SCHEMAS[fact][name]))
            for thing, name in enumerate(names, first + 1)
            if name in member_names
        ]
        self.after = first + 1 + len(names)

    def draw(self, start: bytes) -> dict[str, Value]:
        is_complete = ByteStream(start, self._first).take_byte() >= EDGE
        members: dict[str, Value] = {}
        for thing, name, draw in self._members:
            stream = ByteStream(start, thing)
            if stream.take_byte() >= EDGE or is_complete:
                members[name] = draw(stream)
        return members


class CaseGenerator:
    """All cases of a property in a run. Of each fact type only `members_by_fact` are drawn; without it, all members."""

    def __init__(
        self, prop: TypedProperty, run_seed: int, members_by_fact: Mapping[FactRecordType, Container[str]] | None = None
    ) -> None:
        self._start = canonical_json.encode([run_seed, prop.seed, prop.name])[:-1]
        self._facts: list[_FactDraw] = []
        thing = 0
        for fixture in prop.fixtures.facts:
            if fixture.payload is None:
                fact = fixture.fact
                members = SCHEMAS[fact] if members_by_fact is None else members_by_fact.get(fact, ())
                self._facts.append(_FactDraw(fact, thing, members))
                thing = self._facts[-1].after
        self._variables = [(number, create_draw(claim.type)) for number, claim in enumerate(prop.claims, thing)]

    def draw_case(self, number: int) -> Case:
        start = b"%b,%d," % (self._start, number)
        return Case(
            number,
            tuple(fact.draw(start) for fact in self._facts),
            tuple(draw(ByteStream(start, thing)) for thing, draw in self._variables),
        )


# Which facts, and which of their members, a program can look at: its rules and the claims of its properties.


@dataclass(frozen=True, slots=True)
class FactUsage:
    """The fact types that are asked for, in a fixed order, and the members named in a `recordGet` by fact type."""

    facts: tuple[FactRecordType, ...]
    members: dict[FactRecordType, frozenset[str]]


def collect_fact_usage(program: Program) -> FactUsage:
    facts = set(program.facts)
    members: dict[FactRecordType, set[str]] = {}
    pending: list[Any] = [*program.bodies]
    pending += [
        side for prop in program.properties for claim in prop.claims for side in (claim.premise, claim.conclusion)
    ]
    while pending:
        node = pending.pop()
        if isinstance(node, FactLookup | FactPrefixLookup):
            facts.add(node.fact)
        elif isinstance(node, BuiltinCall) and node.op in {"recordGet", "member"}:
            record = unwrap_option_type(node.arguments[0].type)
            if isinstance(record, FactRecordType):
                members.setdefault(record, set()).add(str(node.static["member"]))
        pending += _list_child_nodes(node)
    in_order = sorted(facts, key=lambda fact: (fact.name, fact.version))
    return FactUsage(tuple(in_order), {fact: frozenset(names) for fact, names in members.items()})


def _list_child_nodes(node: object) -> list[Any]:
    if isinstance(node, tuple):
        return list(node)
    if not is_dataclass(node):
        return []
    # Not into types: a type of shared parts can be far larger than the memory it takes.
    return [getattr(node, part.name) for part in fields(node) if part.name != "type"]
