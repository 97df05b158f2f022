"""Cases of properties, BPC-GEN-1: seeds and a case's number in, its facts and variables out.

Pure. Case i depends on the run's seed, the property's seed, its name and i, and on nothing else: not on the cases
before it, not on the machine. docs/formats/generation.md says which byte decides what, so that a stranger can make
case i again; a change of the order of draws is a new format.

    SHA-256 blocks ── Stream ──► one `Draw` per type ──► Case(facts, variables)

Every member of a fact and every variable has a stretch of the bytes to itself. So a member that no rule looks at need
not be drawn, and leaving it out changes no other: facts have hundreds of members, rules read a few.
"""

import hashlib
from collections.abc import Callable, Container, Mapping
from datetime import date
from typing import Final, TypeAlias, assert_never

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.rules.evaluating.writing import written
from bpc.core.rules.testing.case import Case, Members
from bpc.core.rules.typed import Property, Value
from bpc.core.rules.types import BOOL, INT, QTY_SCALE, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Scalar, Type
from bpc.core.schemas import SCHEMAS

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


class Stream:
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

    def byte(self) -> int:
        return self.take(1)[0]

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; one more byte than it needs, so that all are about equally likely."""
        return int.from_bytes(self.take(width(limit)), "big") % limit


def width(limit: int) -> int:
    """How many bytes `Stream.below` reads."""
    return ((limit - 1).bit_length() + 7) // 8 + 1


Draw: TypeAlias = Callable[[Stream], Value]


def drawing(kind: Type, level: int = 0) -> Draw:  # noqa: PLR0911 (one row a type)
    """How a value of this type is drawn; `level` counts the lists, maps and records around it."""
    match kind:
        case Scalar():
            return _scalar(kind)
        case Dec(scale):
            return _number(scale)
        case Qty():
            return _quantity()
        case Opt(item):
            return _option(drawing(item, level), level)
        case List(item):
            return _list(drawing(item, level + 1), LONGEST_LIST >> level)
        case Map(item):
            return _map(drawing(item, level + 1), LONGEST_LIST >> level)
        case Record(members):
            return _record([(name, drawing(item, level + 1)) for name, item in members])
        case Fact():
            raise TypeError(f"{kind} is drawn as a fact, not as a value")
        case _:
            assert_never(kind)


def _scalar(kind: Scalar) -> Draw:
    if kind == BOOL:
        return lambda stream: stream.byte() % 2 == 1
    if kind == INT:
        return _number(0)
    return _text if kind == TEXT else _day


def number_edges(scale: int) -> tuple[int, ...]:
    """0, ±1, ±the smallest step, ±the largest, each once."""
    one = 10**scale
    largest = one * 10**LARGEST_DIGITS
    return tuple(dict.fromkeys((0, one, -one, 1, -1, largest, -largest)))


def _number(scale: int) -> Draw:
    edges = number_edges(scale)
    # The number of digits first: uniform numbers would nearly all be enormous.
    sizes = [(10**digits, width(10**digits)) for digits in range(1, LARGEST_DIGITS + scale + 1)]

    def draw(stream: Stream) -> int:
        mark = stream.byte()
        if mark < EDGE:
            return edges[mark % len(edges)]
        limit, count = sizes[stream.below(len(sizes))]
        number: int = int.from_bytes(stream.take(count), "big") % limit
        return -number if mark % 2 else number

    return draw


def _quantity() -> Draw:
    edges = number_edges(QTY_SCALE)

    def draw(stream: Stream) -> int:
        mark = stream.byte()
        if mark < EDGE:
            return edges[mark % len(edges)]
        decimals = stream.below(QTY_SCALE + 1)
        digits = 1 + stream.below(LARGEST_DIGITS + decimals)
        number: int = stream.below(10**digits) * 10 ** (QTY_SCALE - decimals)
        return -number if mark % 2 else number

    return draw


def _text(stream: Stream) -> str:
    mark = stream.byte()
    if mark < EDGE:
        return TEXT_EDGES[mark % len(TEXT_EDGES)]
    marks = stream.take(stream.below(stream.below(LONGEST_TEXT + 1) + 1))
    plain = marks.translate(_ASCII).decode("ascii")
    if all(mark < _LATIN for mark in marks):
        return plain
    return "".join(
        character if mark < _LATIN else _code_point(stream, mark) for mark, character in zip(marks, plain, strict=True)
    )


def _code_point(stream: Stream, mark: int) -> str:
    if mark < _ANYTHING:
        return chr(1 + stream.below(0x7FF))
    point = 1 + stream.below(_CODE_POINTS)
    first, count = _SURROGATES
    return chr(point if point < first else point + count)


def _day(stream: Stream) -> str:
    mark = stream.byte()
    if mark < EDGE:
        return DATE_EDGES[mark % len(DATE_EDGES)]
    return date.fromordinal(FIRST_DAY + stream.below(LAST_DAY - FIRST_DAY + 1)).isoformat()


def _option(item: Draw, level: int) -> Draw:
    if level >= DEEPEST:
        return lambda _: None
    return lambda stream: None if stream.byte() < EDGE else item(stream)


def _list(item: Draw, longest: int) -> Draw:
    if not longest:
        return lambda _: []
    return lambda stream: [] if stream.byte() < EDGE else [item(stream) for _ in range(1 + stream.below(longest))]


def _map(item: Draw, longest: int) -> Draw:
    if not longest:
        return lambda _: {}

    def draw(stream: Stream) -> Value:
        if stream.byte() < EDGE:
            return {}
        drawn: dict[str, Value] = {}
        for _ in range(1 + stream.below(longest)):
            name = _text(stream)
            drawn[name] = item(stream)
        return dict(sorted(drawn.items()))

    return draw


def _record(members: list[tuple[str, Draw]]) -> Draw:
    return lambda stream: {name: draw(stream) for name, draw in members}


def payload(fact: Fact, members: Members) -> dict[str, Json]:
    """A drawn fact as a document would have said it."""
    schema = SCHEMAS[fact]
    return {name: written(schema[name], value) for name, value in members.items()}


class _FactDrawing:
    """A fact that is `any`: three in four are complete, in the others each member is missing one time in four.

    The fact itself is thing number `first`, its members by name are the things after it.
    """

    __slots__ = ("_first", "_members", "after")

    def __init__(self, fact: Fact, first: int, wanted: Container[str]) -> None:
        names = sorted(SCHEMAS[fact])
        self._first = first
        self._members = [
            (thing, name, drawing(SCHEMAS[fact][name])) for thing, name in enumerate(names, first + 1) if name in wanted
        ]
        self.after = first + 1 + len(names)

    def draw(self, start: bytes) -> dict[str, Value]:
        is_complete = Stream(start, self._first).byte() >= EDGE
        drawn: dict[str, Value] = {}
        for thing, name, draw in self._members:
            stream = Stream(start, thing)
            if stream.byte() >= EDGE or is_complete:
                drawn[name] = draw(stream)
        return drawn


class Cases:
    """All cases of a property in a run. `wanted` are the members of each fact type that are drawn; without it, all."""

    def __init__(self, of: Property, run_seed: int, wanted: Mapping[Fact, Container[str]] | None = None) -> None:
        self._start = canon.encode([run_seed, of.seed, of.name])[:-1]
        self._facts: list[_FactDrawing] = []
        thing = 0
        for given in of.given.facts:
            if given.payload is None:
                members = SCHEMAS[given.fact] if wanted is None else wanted.get(given.fact, ())
                self._facts.append(_FactDrawing(given.fact, thing, members))
                thing = self._facts[-1].after
        self._variables = [(number, drawing(claim.type)) for number, claim in enumerate(of.claims, thing)]

    def case(self, number: int) -> Case:
        start = b"%b,%d," % (self._start, number)
        return Case(
            number,
            tuple(fact.draw(start) for fact in self._facts),
            tuple(draw(Stream(start, thing)) for thing, draw in self._variables),
        )
