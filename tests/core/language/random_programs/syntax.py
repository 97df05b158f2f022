"""What writing a random program stands on: texts and how tightly they hold together, random types, what is in sight.

Expressions are written from the types down: whoever wants one says its type, and whether the checker will push that
type into it (`wanted`) or has to find it out from the expression alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)
from typing import TypeAlias

from bpc.core.facts import SnapshotFact
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.units import UNITS
from tests.core.rules.program_worlds import any_text, quoted

# How tightly a text holds together: what stands in an operator's place must hold at least as tightly as the operator.
OPEN, OR, AND, COMPARED, SUM, PRODUCT, UNARY, PRIMARY = range(8)

NAMES = [*"abcdexyz", "fact", "given", "any", "kg", "Int", "seed", "amount", "count", "_", "mass_2", "forall", "date"]


@dataclass(frozen=True, slots=True)
class Size:
    """At most so many fields, of so many expressions, so deep."""

    fields: int = 7
    expressions: int = 45
    depth: int = 6


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    holds: int = PRIMARY
    # A number without context, or `none`, or `[]`: takes its type from what stands beside it.
    bare: bool = False

    def at(self, tightness: int) -> str:
        return self.text if self.holds >= tightness else f"({self.text})"


Way: TypeAlias = Callable[[Type, int, bool], Text]


def any_type(rng: Random, depth: int = 3) -> Type:
    """A type a field can have; no Map, which only facts give."""
    choice = rng.random()
    if depth > 1 and choice < 0.12:
        item = any_type(rng, depth - 1)
        return item if isinstance(item, Opt) else Opt(item)
    if depth > 1 and choice < 0.27:
        return List(any_type(rng, depth - 1))
    if depth > 1 and choice < 0.37:
        names = rng.sample(["a", "b", "mass", "let", "none", "Z9", "_x"], rng.randint(1, 3))
        return Record(tuple((name, any_type(rng, depth - 1)) for name in names))
    if choice < 0.6:
        return Dec(rng.choice([0, 1, 2, 2, 3, 6, 6, 12, 17, 18]))
    if choice < 0.72:
        return Qty(rng.choice(list(UNITS)))
    return rng.choice([BOOL, BOOL, INT, TEXT, DATE])


def type_text(rng: Random, kind: Type) -> str:
    """The type as someone might write it: a record's members in any order."""
    match kind:
        case Opt(item):
            return f"Opt({type_text(rng, item)})"
        case List(item):
            return f"List( {type_text(rng, item)} )"
        case Map(item):
            return f"Map(Text,{type_text(rng, item)})"
        case Record(members):
            parts = [f"{name}: {type_text(rng, item)}" for name, item in members]
            rng.shuffle(parts)
            return f"Record({', '.join(parts)})"
        case _:
            return str(kind)


class Writing:
    """The state of one program being written, and what every part of it needs."""

    def __init__(self, rng: Random, facts: list[SnapshotFact], size: Size, *, wild: bool) -> None:
        self.rng, self.facts, self.size, self.wild = rng, facts, size, wild
        self.fields: dict[str, Type] = {}
        self.scope: list[tuple[str, Type]] = []
        self.lambdas = self.left = 0

    def expr(self, kind: Type, depth: int, *, wanted: bool) -> Text:
        """An expression of this type. `wanted`: the checker knows the type here before it looks."""
        self.left -= 1
        if depth <= 0 or self.left <= 0:
            return self.known(kind) or self.leaf(kind, wanted=wanted)
        if self.rng.random() < (0.4 if self.lambdas else 0.25):
            found = self.known(kind)
            if found:
                return found
        ways = self.ways(kind)
        return self.rng.choice(ways)(kind, depth - 1, wanted)

    def typed(self, kind: Type, depth: int) -> Text:
        """An expression that says its type by itself and is no bare number, `none` or `[]`."""
        found = self.expr(kind, depth, wanted=False)
        return self.solid(kind) if found.bare else found

    def ways(self, kind: Type) -> list[Way]:
        """How expressions of this type can be written."""
        raise NotImplementedError

    def leaf(self, kind: Type, *, wanted: bool) -> Text:
        """The smallest text of this type."""
        raise NotImplementedError

    def solid(self, kind: Type) -> Text:
        """A small text that says its type by itself and is no bare number."""
        raise NotImplementedError

    def known(self, kind: Type) -> Text | None:
        """A variable or a field of this type, if there is one."""
        found = [name for name, known in self.scope if known == kind]
        found += [f"field({quoted(self.rng, path)})" for path, known in self.fields.items() if known == kind]
        return Text(self.rng.choice(found)) if found else None

    def name(self) -> str:
        taken = {name for name, _ in self.scope}
        free = [name for name in NAMES if name not in taken]
        return self.rng.choice(free) if free else f"v{len(self.scope)}"

    def code(self) -> str:
        return quoted(self.rng, self.rng.choice(["E001", "E002", any_text(self.rng)]))

    def comma(self) -> str:
        return "," if self.rng.random() < 0.05 else ""

    def risks(self) -> bool:
        return self.wild and self.rng.random() < 0.2
