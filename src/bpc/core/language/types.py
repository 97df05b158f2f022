"""The types of the rule language, and a table with one object for each type.

Pure values; equal types compare equal. The Python value of each type while rules run:

    Bool bool · Int int · Text str · Date str (`2027-02-18`) · Dec(n) int (count of 10^-n) · Qty(u) int (count of
    10^-18) · Opt(T) None or the value itself (an option is never nested) · List(T) list · Map(Text, T) and
    Record(…) dict · an enumeration str (the member's name) · a fact record bpc.core.facts.fact_table.FactRecord
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from bpc.core.facts.units import UNITS

MAX_DECLARED_SCALE: Final = 18
MAX_SCALE: Final = 36
QTY_SCALE: Final = 18
MAX_TYPE_DEPTH: Final = 16
MAX_TYPE_PARTS: Final = 1000


class _PlainType:
    """A type without parts."""

    __slots__ = ()
    parts: ClassVar = 1
    depth: ClassVar = 1
    holds_facts: ClassVar = False


@dataclass(frozen=True, slots=True)
class Scalar(_PlainType):
    """Bool, Int, Text or Date."""

    name: str

    def __str__(self) -> str:
        return self.name


BOOL: Final = Scalar("Bool")
INT: Final = Scalar("Int")
TEXT: Final = Scalar("Text")
DATE: Final = Scalar("Date")


@dataclass(frozen=True, slots=True)
class Dec(_PlainType):
    """An exact number of `scale` decimals; above 18 only inside expressions."""

    scale: int

    def __str__(self) -> str:
        return f"Dec({self.scale})"


@dataclass(frozen=True, slots=True)
class Qty(_PlainType):
    """An exact number of up to 18 decimals with a unit."""

    unit: str

    def __str__(self) -> str:
        return f"Qty({self.unit})"


@dataclass(frozen=True, slots=True)
class FactRecordType(_PlainType):
    """The record of a fact type in one schema version; equal only to itself."""

    holds_facts: ClassVar = True
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class EnumType(_PlainType):
    """An enumeration of the rules. `spellings` leads from every text that means a member to the member's name."""

    name: str
    members: tuple[str, ...]
    spellings: Mapping[str, str] = field(compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Container:
    """A type of items. Its size is computed once: shared parts can make a type much larger than its memory."""

    item: "Type"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)
    holds_facts: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", 1 + self.item.parts)
        object.__setattr__(self, "depth", 1 + self.item.depth)
        object.__setattr__(self, "holds_facts", self.item.holds_facts)


@dataclass(frozen=True, slots=True)
class Opt(_Container):
    """A value that may be absent; `item` is never an Opt."""

    def __str__(self) -> str:
        return f"Opt({self.item})"


@dataclass(frozen=True, slots=True)
class List(_Container):
    def __str__(self) -> str:
        return f"List({self.item})"


@dataclass(frozen=True, slots=True)
class Map(_Container):
    """From Text to `item`; such values come from facts only."""

    def __str__(self) -> str:
        return f"Map(Text, {self.item})"


@dataclass(frozen=True, slots=True)
class Record:
    """Named members, sorted by name: the order in the text does not matter."""

    members: "tuple[tuple[str, Type], ...]"
    parts: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)
    holds_facts: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member[0])))
        object.__setattr__(self, "parts", 1 + sum(item.parts for _, item in self.members))
        object.__setattr__(self, "depth", 1 + max(item.depth for _, item in self.members))
        object.__setattr__(self, "holds_facts", any(item.holds_facts for _, item in self.members))

    def __str__(self) -> str:
        return f"Record({', '.join(f'{name}: {item}' for name, item in self.members)})"


Type: TypeAlias = Scalar | Dec | Qty | Opt | List | Map | Record | FactRecordType | EnumType


def contains_fact_record(kind: Type) -> bool:
    """Whether values of this type contain fact records, which proofs and passports never write.

    The checker allows them in options, in lists, and in the groups that `groupBy` gives.
    """
    return kind.holds_facts


def unwrap_option_type(kind: Type) -> Type:
    """The type inside an option, or the type itself."""
    return kind.item if isinstance(kind, Opt) else kind


def is_unit_size(kind: Type) -> bool:
    """Whether every value of this type has size 1 (BPC-COST-1), so that measuring it needs no code."""
    match kind:
        case Opt(item):
            return is_unit_size(item)
        case List() | Map() | Record():
            return False
        case _:
            return kind != TEXT


def is_allowed_size(kind: Type) -> bool:
    """Whether a type is within the limits of the language."""
    return kind.parts <= MAX_TYPE_PARTS and kind.depth <= MAX_TYPE_DEPTH


# The checker has one object for each type, so it compares types with `is`.
DECS: Final = tuple(Dec(scale) for scale in range(MAX_SCALE + 1))
QTYS: Final[Mapping[str, Qty]] = {unit: Qty(unit) for unit in UNITS}
SCALARS: Final[Mapping[str, Scalar]] = {kind.name: kind for kind in (BOOL, INT, TEXT, DATE)}

_MAX_TEXT_LENGTH: Final = 120


class TypeTable:
    """One object for each type used so far. Keys are the identities of parts that this table keeps alive."""

    __slots__ = ("_enums", "_facts", "_lists", "_maps", "_opts", "_records", "_texts")

    def __init__(self) -> None:
        self._enums: dict[str, EnumType] = {}
        self._facts: dict[tuple[str, int], FactRecordType] = {}
        self._opts: dict[int, Opt] = {}
        self._lists: dict[int, List] = {}
        self._maps: dict[int, Map] = {}
        self._records: dict[tuple[tuple[str, int], ...], Record] = {}
        self._texts: dict[int, str] = {}

    def opt(self, item: Type) -> Opt:
        return self._opts.get(id(item)) or self._opts.setdefault(id(item), Opt(item))

    def list(self, item: Type) -> List:
        return self._lists.get(id(item)) or self._lists.setdefault(id(item), List(item))

    def map(self, item: Type) -> Map:
        return self._maps.get(id(item)) or self._maps.setdefault(id(item), Map(item))

    def record(self, members: Mapping[str, Type]) -> Record:
        parts = sorted(members.items())
        key = tuple([(name, id(item)) for name, item in parts])
        type_ = self._records.get(key)
        if type_ is None:
            type_ = self._records[key] = Record(tuple(parts))
        return type_

    def fact(self, name: str, version: int) -> FactRecordType:
        return self._facts.setdefault((name, version), FactRecordType(name, version))

    def intern(self, kind: Type) -> Type:
        """Return this table's object for the type."""
        match kind:
            case Opt(item):
                return self.opt(self.intern(item))
            case List(item):
                return self.list(self.intern(item))
            case Map(item):
                return self.map(self.intern(item))
            case Record(members):
                return self.record({name: self.intern(item) for name, item in members})
            case _:
                return self._intern_leaf(kind)

    def _intern_leaf(self, kind: Scalar | Dec | Qty | FactRecordType | EnumType) -> Type:
        match kind:
            case Scalar(name):
                return SCALARS[name]
            case Dec(scale):
                return DECS[scale]
            case Qty(unit):
                return QTYS[unit]
            case FactRecordType(name, version):
                return self.fact(name, version)
            case EnumType(name):
                return self._enums.setdefault(name, kind)

    def to_text(self, kind: Type) -> str:
        """The type as proofs write it."""
        text = self._texts.get(id(kind))
        if text is None:
            text = self._texts[id(kind)] = str(kind)
        return text

    def format_type(self, kind: Type) -> str:
        """The type for a message: in backticks, and cut if it is long."""
        text = self.to_text(kind)
        return f"`{text}`" if len(text) <= _MAX_TEXT_LENGTH else f"`{text[:_MAX_TEXT_LENGTH]}…`"
