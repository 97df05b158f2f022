"""One object for each type: in the checker two types are equal exactly if they are the same object.

Types share parts, so comparing two by their members could take far longer than the text they come from. Whatever the
checker calls a type has passed through here.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.rules.types import (
    BOOL,
    DATE,
    INT,
    MAX_SCALE,
    MAX_TYPE_DEPTH,
    MAX_TYPE_PARTS,
    TEXT,
    Dec,
    Fact,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Scalar,
    Type,
)
from bpc.core.units import UNITS

DECS: Final = tuple(Dec(scale) for scale in range(MAX_SCALE + 1))
QTYS: Final[Mapping[str, Qty]] = {unit: Qty(unit) for unit in UNITS}
SCALARS: Final[Mapping[str, Scalar]] = {kind.name: kind for kind in (BOOL, INT, TEXT, DATE)}

_SHOWN: Final = 120


def fits(kind: Type) -> bool:
    """Whether a type is small enough to be one."""
    return kind.parts <= MAX_TYPE_PARTS and kind.depth <= MAX_TYPE_DEPTH


class Types:
    """The types met so far. Keys are the identities of parts that are themselves kept here."""

    __slots__ = ("_facts", "_lists", "_maps", "_opts", "_records", "_texts")

    def __init__(self) -> None:
        self._facts: dict[tuple[str, int], Fact] = {}
        self._opts: dict[int, Opt] = {}
        self._lists: dict[int, List] = {}
        self._maps: dict[int, Map] = {}
        self._records: dict[tuple[tuple[str, int], ...], Record] = {}
        self._texts: dict[int, str] = {}

    def opt(self, item: Type) -> Opt:
        made = self._opts.get(id(item))
        if made is None:
            made = self._opts[id(item)] = Opt(item)
        return made

    def list(self, item: Type) -> List:
        made = self._lists.get(id(item))
        if made is None:
            made = self._lists[id(item)] = List(item)
        return made

    def map(self, item: Type) -> Map:
        made = self._maps.get(id(item))
        if made is None:
            made = self._maps[id(item)] = Map(item)
        return made

    def record(self, members: Mapping[str, Type]) -> Record:
        parts = sorted(members.items())
        key = tuple([(name, id(item)) for name, item in parts])
        made = self._records.get(key)
        if made is None:
            made = self._records[key] = Record(tuple(parts))
        return made

    def fact(self, name: str, version: int) -> Fact:
        return self._facts.setdefault((name, version), Fact(name, version))

    def of(self, kind: Type) -> Type:
        """The same type as the object that stands for it here."""
        match kind:
            case Opt(item):
                return self.opt(self.of(item))
            case List(item):
                return self.list(self.of(item))
            case Map(item):
                return self.map(self.of(item))
            case Record(members):
                return self.record({name: self.of(item) for name, item in members})
            case _:
                return self._leaf(kind)

    def _leaf(self, kind: Scalar | Dec | Qty | Fact) -> Type:
        match kind:
            case Scalar(name):
                return SCALARS[name]
            case Dec(scale):
                return DECS[scale]
            case Qty(unit):
                return QTYS[unit]
            case Fact(name, version):
                return self.fact(name, version)

    def text(self, kind: Type) -> str:
        """A type as proofs write it."""
        text = self._texts.get(id(kind))
        if text is None:
            text = self._texts[id(kind)] = str(kind)
        return text

    def shown(self, kind: Type) -> str:
        """A type for a sentence: in backticks, and cut where nobody reads on."""
        text = self.text(kind)
        return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"


def holds_fact(kind: Type) -> bool:
    """Whether a checked type holds fact records: options and lists may, nothing else does."""
    while isinstance(kind, Opt | List):
        kind = kind.item
    return isinstance(kind, Fact)


def without_option(kind: Type) -> Type:
    """What an option may hold, or the type itself."""
    return kind.item if isinstance(kind, Opt) else kind
