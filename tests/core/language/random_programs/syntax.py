"""What writing a random program stands on: texts and how tightly they hold together, random types, what is in sight.

Expressions are written from the types down: whoever wants one says its type, and whether the checker will push that
type into it (`wanted`) or has to find it out from the expression alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)
from typing import TypeAlias

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.units import UNITS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, EnumType, List, Map, Opt, Qty, Record, Type
from tests.core.language.random_programs.worlds import draw_text, quote_text

# How tightly a text holds together: what stands in an operator's place must hold at least as tightly as the operator.
OPEN, OR, AND, COMPARED, COALESCED, SUM, PRODUCT, UNARY, PRIMARY = range(9)

NAMES = [*"abcdexyz", "fact", "given", "any", "kg", "Int", "seed", "amount", "count", "_", "mass_2", "forall", "date"]


@dataclass(frozen=True, slots=True)
class ProgramSize:
    """At most so many fields, of so many expressions, so deep."""

    fields: int = 7
    expressions: int = 45
    depth: int = 6


@dataclass(frozen=True, slots=True)
class ExpressionText:
    text: str
    holds: int = PRIMARY
    # A number without context, or `none`, or `[]`: takes its type from what stands beside it.
    bare: bool = False

    def parenthesise_for(self, tightness: int) -> str:
        return self.text if self.holds >= tightness else f"({self.text})"


Way: TypeAlias = Callable[[Type, int, bool], ExpressionText]


def choose_type(rng: Random, depth: int = 3, enums: Sequence[EnumType] = ()) -> Type:
    """A type a field can have; no Map, which only facts give."""
    choice = rng.random()
    if depth > 1 and choice < 0.12:
        item = choose_type(rng, depth - 1, enums)
        return item if isinstance(item, Opt) else Opt(item)
    if depth > 1 and choice < 0.27:
        return List(choose_type(rng, depth - 1, enums))
    if depth > 1 and choice < 0.37:
        names = rng.sample(["a", "b", "mass", "let", "none", "Z9", "_x"], rng.randint(1, 3))
        return Record(tuple((name, choose_type(rng, depth - 1, enums)) for name in names))
    if choice < 0.6:
        return Dec(rng.choice([0, 1, 2, 2, 3, 6, 6, 12, 17, 18]))
    if choice < 0.72:
        return Qty(rng.choice(list(UNITS)))
    scalars: list[Type] = [BOOL, BOOL, INT, TEXT, DATE, *enums, *enums]
    return rng.choice(scalars)


def write_type(rng: Random, kind: Type) -> str:
    """The type as someone might write it: a record's members in any order."""
    match kind:
        case Opt(item):
            return f"Opt({write_type(rng, item)})"
        case List(item):
            return f"List( {write_type(rng, item)} )"
        case Map(item):
            return f"Map(Text,{write_type(rng, item)})"
        case Record(members):
            parts = [f"{name}: {write_type(rng, item)}" for name, item in members]
            rng.shuffle(parts)
            return f"Record({', '.join(parts)})"
        case _:
            return str(kind)


class ExpressionWriter:
    """The state of one program being written, and what every part of it needs."""

    def __init__(
        self, rng: Random, facts: list[SnapshotFact], size: ProgramSize, *, wild: bool, language: int = 1
    ) -> None:
        self.rng, self.facts, self.size, self.wild, self.language = rng, facts, size, wild, language
        self.enums: tuple[EnumType, ...] = ()
        self.fields: dict[str, Type] = {}
        self.definitions: dict[str, Type] = {}
        self.in_definition = False
        self.functions: dict[str, tuple[list[Type], Type]] = {}
        self.scope: list[tuple[str, Type]] = []
        self.lambdas = self.left = 0

    def choose_type(self, depth: int = 3) -> Type:
        return choose_type(self.rng, depth, self.enums)

    def write_expression(self, kind: Type, depth: int, *, type_known: bool) -> ExpressionText:
        """An expression of this type. `wanted`: the checker knows the type here before it looks."""
        self.left -= 1
        if depth <= 0 or self.left <= 0:
            return self.write_known(kind) or self.write_leaf(kind, type_known=type_known)
        if self.rng.random() < (0.4 if self.lambdas else 0.25):
            known = self.write_known(kind)
            if known:
                return known
        ways = self.list_ways(kind)
        return self.rng.choice(ways)(kind, depth - 1, type_known)

    def write_typed(self, kind: Type, depth: int) -> ExpressionText:
        """An expression that says its type by itself and is no bare number, `none` or `[]`."""
        expression = self.write_expression(kind, depth, type_known=False)
        return self.write_solid(kind) if expression.bare else expression

    def list_ways(self, kind: Type) -> list[Way]:
        """How expressions of this type can be written."""
        raise NotImplementedError

    def write_leaf(self, kind: Type, *, type_known: bool) -> ExpressionText:
        """The smallest text of this type."""
        raise NotImplementedError

    def write_solid(self, kind: Type) -> ExpressionText:
        """A small text that says its type by itself and is no bare number."""
        raise NotImplementedError

    def write_known(self, kind: Type) -> ExpressionText | None:
        """A variable or a field of this type, if there is one."""
        references = [name for name, known in self.scope if known == kind]
        references += [name for name, known in self.definitions.items() if known == kind]
        references += [f"field({quote_text(self.rng, path)})" for path, known in self.fields.items() if known == kind]
        return ExpressionText(self.rng.choice(references)) if references else None

    def create_name(self) -> str:
        used_names = {name for name, _ in self.scope}
        free = [name for name in NAMES if name not in used_names]
        return self.rng.choice(free) if free else f"v{len(self.scope)}"

    def create_code(self) -> str:
        return quote_text(self.rng, self.rng.choice(["E001", "E002", draw_text(self.rng)]))

    def write_comma(self) -> str:
        return "," if self.rng.random() < 0.05 else ""

    def takes_risk(self) -> bool:
        return self.wild and self.rng.random() < 0.2
