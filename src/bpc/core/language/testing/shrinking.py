"""Shrinking: a failing case in, the simplest one that was found to fail in the same way out.

Pure, deterministic and bounded: at most `MAX_TRIES` cases are tried, in an order that depends on the case alone.
Simpler is: members absent, options none, lists and texts shorter, numbers nearer to 0 and with fewer decimals, days
nearer to 2000-01-01, `a` instead of any other character, false instead of true. What comes out always fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from bpc.core.rules.testing.case import Case, Members
from bpc.core.rules.typed import Property, Value
from bpc.core.rules.types import BOOL, DATE, INT, QTY_SCALE, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Scalar, Type
from bpc.core.schemas import SCHEMAS

MAX_TRIES: Final = 500
SIMPLEST_DAY: Final = date(2000, 1, 1)
SIMPLEST_CHARACTER: Final = "a"
SIMPLEST: Final[Mapping[Scalar, Value]] = {BOOL: False, INT: 0, TEXT: "", DATE: SIMPLEST_DAY.isoformat()}

# Whether a candidate still fails. A value inside a case is tried by putting it where it belongs.
Fails: TypeAlias = Callable[[Any], bool]
Items = TypeVar("Items", str, list[Any])


class _Tries:
    """Asks whether a case fails, each case once; when all tries are used up, nothing fails any more."""

    def __init__(self, fails: Callable[[Case], bool]) -> None:
        self._fails = fails
        self._known: dict[str, bool] = {}

    def __call__(self, case: Case) -> bool:
        key = repr((case.facts, case.variables))
        if key not in self._known:
            if len(self._known) == MAX_TRIES:
                return False
            self._known[key] = self._fails(case)
        return self._known[key]


def shrunk_case(of: Property, case: Case, claim: int, fails: Callable[[Case], bool]) -> Case:
    """The simplest case found; only the variable of claim number `claim` is looked at, besides the facts."""
    tries = _Tries(fails)
    kinds = [given.fact for given in of.given.facts if given.payload is None]
    while True:
        before = case
        # First what a single try can remove, everywhere; only then the searches that take many.
        for step in (_stripped, _reduced):
            for at, fact in enumerate(kinds):
                case = _with_fact(case, at, step(fact, case.facts[at], _in_fact(tries, case, at)))
            kind = of.claims[claim].type
            smaller = simplified if step is _stripped else shrunk
            found = smaller(kind, case.variables[claim], _in_variable(tries, case, claim))
            case = _with_variable(case, claim, found)
        if case == before:
            return case


def _with_fact(case: Case, at: int, members: Members) -> Case:
    return replace(case, facts=(*case.facts[:at], members, *case.facts[at + 1 :]))


def _with_variable(case: Case, at: int, value: Value) -> Case:
    return replace(case, variables=(*case.variables[:at], value, *case.variables[at + 1 :]))


def _in_fact(tries: _Tries, case: Case, at: int) -> Fails:
    return lambda members: tries(_with_fact(case, at, members))


def _in_variable(tries: _Tries, case: Case, at: int) -> Fails:
    return lambda value: tries(_with_variable(case, at, value))


def _stripped(fact: Fact, members: Members, fails: Fails) -> Members:
    """Without every member that is not needed, and the others in their simplest form where that is enough."""
    left = dict(_fewer(list(members.items()), lambda items: fails(dict(items))))
    return _each(left, lambda name, value, still: simplified(SCHEMAS[fact][name], value, still), fails)


def _reduced(fact: Fact, members: Members, fails: Fails) -> Members:
    return _each(members, lambda name, value, still: shrunk(SCHEMAS[fact][name], value, still), fails)


def _each(members: Members, smaller: Callable[[str, Value, Fails], Value], fails: Fails) -> dict[str, Value]:
    found = dict(members)
    for name in members:
        found[name] = smaller(name, found[name], _at_name(found, name, fails))
    return found


def _at_name(members: Members, name: str, fails: Fails) -> Fails:
    return lambda value: fails({**members, name: value})


def simplest(kind: Type) -> Value:
    """The simplest value of a type."""
    match kind:
        case Scalar():
            return SIMPLEST[kind]
        case Dec() | Qty():
            return 0
        case Opt():
            return None
        case List():
            return []
        case Map():
            return {}
        case Record(members):
            return {name: simplest(item) for name, item in members}
        case Fact():
            raise TypeError(f"{kind} is shrunk as a fact, not as a value")
        case _:
            assert_never(kind)


def simplified(kind: Type, value: Value, fails: Fails) -> Value:
    """The simplest value if it fails too, else the value as it is."""
    least = simplest(kind)
    return least if least != value and fails(least) else value


def shrunk(kind: Type, value: Any, fails: Fails) -> Value:  # noqa: PLR0911 (one row a type)
    """The simplest value found in place of `value` that still fails."""
    found = simplified(kind, value, fails)
    if found != value:
        return found
    match kind:
        case Scalar():
            return _scalar(kind, value, fails)
        case Dec(scale):
            return _number(value, scale, fails)
        case Qty():
            return _number(value, QTY_SCALE, fails)
        case Opt(item):
            return None if value is None else shrunk(item, value, fails)
        case List(item):
            return _list(item, value, fails)
        case Map(item):
            left = dict(_fewer(list(value.items()), lambda items: fails(dict(items))))
            return _each(left, lambda _, part, still: shrunk(item, part, still), fails)
        case Record():
            return _each(value, lambda name, part, still: shrunk(_member(kind, name), part, still), fails)
        case Fact():
            raise TypeError(f"{kind} is shrunk as a fact, not as a value")
        case _:
            assert_never(kind)


def _member(kind: Record, name: str) -> Type:
    return next(item for known, item in kind.members if known == name)


def _scalar(kind: Scalar, value: Any, fails: Fails) -> Value:
    if kind == INT:
        return _number(value, 0, fails)
    if kind == TEXT:
        return _text(value, fails)
    return _day(value, fails) if kind == DATE else bool(value)


def _number(value: int, scale: int, fails: Fails) -> int:
    """Not 0, because 0 does not fail: positive, then with as few decimals as can be, then as small as can be."""
    if value < 0 and fails(-value):
        value = -value
    sign, size = (1, value) if value > 0 else (-1, -value)
    step = 1
    for decimals in range(scale):
        step = 10 ** (scale - decimals)
        cut = size // step * step
        if cut and (cut == size or fails(sign * cut)):
            size = cut
            break
        step = 1
    return sign * step * _smallest(size // step, lambda count: fails(sign * step * count))


def _smallest(high: int, fails: Callable[[int], bool]) -> int:
    """Halving between 0, which holds, and `high`, which fails."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _day(value: str, fails: Fails) -> str:
    start = SIMPLEST_DAY.toordinal()

    def written(days: int) -> str:
        return date.fromordinal(start + days).isoformat()

    away = date.fromisoformat(value).toordinal() - start
    return value if not away else written(_number(away, 0, lambda days: fails(written(days))))


def _text(value: str, fails: Fails) -> str:
    value = _fewer(value, fails)
    plain = SIMPLEST_CHARACTER * len(value)
    if value == plain or fails(plain):
        return plain
    for at, character in enumerate(value):
        candidate = value[:at] + SIMPLEST_CHARACTER + value[at + 1 :]
        if character != SIMPLEST_CHARACTER and fails(candidate):
            value = candidate
    return value


def _list(item: Type, value: list[Value], fails: Fails) -> list[Value]:
    value = _fewer(value, fails)
    for at in range(len(value)):
        value = [*value[:at], shrunk(item, value[at], _at_index(value, at, fails)), *value[at + 1 :]]
    return value


def _at_index(value: list[Value], at: int, fails: Fails) -> Fails:
    return lambda part: fails([*value[:at], part, *value[at + 1 :]])


def _fewer(items: Items, fails: Fails) -> Items:
    """Without the parts that are not needed: all of them, then halves, quarters and so on down to single ones."""
    size = len(items)
    while size:
        at = 0
        while at < len(items):
            candidate = items[:at] + items[at + size :]
            if fails(candidate):
                items = candidate
            else:
                at += size
        size //= 2
    return items
