"""The types of the rule language and what follows from a type alone.

Pure values, equal if they are the same type. How a value of each type is held while rules run:

    Bool bool · Int int · Text str · Date str (`2027-02-18`) · Dec(n) int (count of 10^-n) · Qty(u) int (count of
    10^-18) · Opt(T) None or the value itself (an option is never nested) · List(T) list · Map(Text, T) and
    Record(…) dict · a fact record bpc.core.facts.FactRecord
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_DECLARED_SCALE: Final = 18
MAX_SCALE: Final = 36
QTY_SCALE: Final = 18
MAX_TYPE_DEPTH: Final = 16
MAX_TYPE_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Scalar:
    """Bool, Int, Text or Date."""

    name: str
    parts: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return self.name


BOOL: Final = Scalar("Bool")
INT: Final = Scalar("Int")
TEXT: Final = Scalar("Text")
DATE: Final = Scalar("Date")


@dataclass(frozen=True, slots=True)
class Dec:
    """An exact number of `scale` decimals; above 18 only inside expressions."""

    scale: int
    parts: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"Dec({self.scale})"


@dataclass(frozen=True, slots=True)
class Qty:
    """An exact number of up to 18 decimals with a unit."""

    unit: str
    parts: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"Qty({self.unit})"


@dataclass(frozen=True, slots=True)
class Opt:
    """A value that may be absent; `item` is never an Opt."""

    item: "Type"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self, (self.item,))

    def __str__(self) -> str:
        return f"Opt({self.item})"


@dataclass(frozen=True, slots=True)
class List:
    item: "Type"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self, (self.item,))

    def __str__(self) -> str:
        return f"List({self.item})"


@dataclass(frozen=True, slots=True)
class Map:
    """From Text to `item`; such values come from facts only."""

    item: "Type"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self, (self.item,))

    def __str__(self) -> str:
        return f"Map(Text, {self.item})"


@dataclass(frozen=True, slots=True)
class Record:
    """Named members, sorted by name: the order they are written in does not matter."""

    members: "tuple[tuple[str, Type], ...]"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member[0])))
        _measure(self, tuple(item for _, item in self.members))

    def member(self, name: str) -> "Type | None":
        return next((item for known, item in self.members if known == name), None)

    def __str__(self) -> str:
        return f"Record({', '.join(f'{name}: {item}' for name, item in self.members)})"


@dataclass(frozen=True, slots=True)
class Fact:
    """The record of a fact type in one schema version; equal only to itself."""

    name: str
    version: int
    parts: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


Type: TypeAlias = Scalar | Dec | Qty | Opt | List | Map | Record | Fact


def _measure(made: Opt | List | Map | Record, items: tuple[Type, ...]) -> None:
    """Kept at construction: a type of shared parts can be far larger than the memory it takes."""
    object.__setattr__(made, "parts", 1 + sum(item.parts for item in items))
    object.__setattr__(made, "depth", 1 + max(item.depth for item in items))


def contains_fact(kind: Type) -> bool:
    """Whether values of this type hold fact records, which proofs and passports never write."""
    match kind:
        case Fact():
            return True
        case Opt(item) | List(item) | Map(item):
            return contains_fact(item)
        case Record(members):
            return any(contains_fact(item) for _, item in members)
        case _:
            return False


def is_unit_size(kind: Type) -> bool:
    """Whether every value of this type has size 1 (BPC-COST-1), so that measuring it needs no code."""
    match kind:
        case Opt(item):
            return is_unit_size(item)
        case List() | Map() | Record():
            return False
        case _:
            return kind != TEXT
