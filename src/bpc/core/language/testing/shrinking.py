"""Shrinking: a failing case in, the simplest one that was found to fail in the same way out.

Pure, deterministic and bounded: at most `MAX_TRIES` cases are tried, in an order that depends on the case alone.
Simpler is: members absent, options none, lists and texts shorter, numbers nearer to 0 and with fewer decimals, days
nearer to 2000-01-01, `a` instead of any other character, false instead of true. What comes out always fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.testing.generation import Case, Members
from bpc.core.language.typed import TypedProperty, Value
from bpc.core.language.types import (
    BOOL,
    DATE,
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
)

MAX_TRIES: Final = 500
SIMPLEST_DAY: Final = date(2000, 1, 1)
SIMPLEST_CHARACTER: Final = "a"
SIMPLEST: Final[Mapping[Scalar, Value]] = {BOOL: False, INT: 0, TEXT: "", DATE: SIMPLEST_DAY.isoformat()}

# Whether a candidate still fails. A value inside a case is tried by putting it where it belongs.
FailCheck: TypeAlias = Callable[[Any], bool]
Items = TypeVar("Items", str, list[Any])


class _LimitedCheck:
    """Asks whether a case fails, each case once; when all tries are used up, nothing fails any more."""

    def __init__(self, fails: Callable[[Case], bool]) -> None:
        self._fails = fails
        self._results: dict[str, bool] = {}

    def __call__(self, case: Case) -> bool:
        key = repr((case.facts, case.variables))
        if key not in self._results:
            if len(self._results) == MAX_TRIES:
                return False
            self._results[key] = self._fails(case)
        return self._results[key]


def shrink_case(prop: TypedProperty, case: Case, claim: int, fails: Callable[[Case], bool]) -> Case:
    """The simplest case found; only the variable of claim number `claim` is looked at, besides the facts."""
    check = _LimitedCheck(fails)
    fact_types = [fixture.fact for fixture in prop.fixtures.facts if fixture.payload is None]
    while True:
        before = case
        # First what a single try can remove, everywhere; only then the searches that take many.
        for step in (_strip_fact, _reduce_fact):
            for at, fact in enumerate(fact_types):
                case = _replace_fact(case, at, step(fact, case.facts[at], _create_fact_check(check, case, at)))
            kind = prop.claims[claim].type
            shrink = simplify if step is _strip_fact else shrink_value
            value = shrink(kind, case.variables[claim], _create_variable_check(check, case, claim))
            case = _replace_variable(case, claim, value)
        if case == before:
            return case


def _replace_fact(case: Case, at: int, members: Members) -> Case:
    return replace(case, facts=(*case.facts[:at], members, *case.facts[at + 1 :]))


def _replace_variable(case: Case, at: int, value: Value) -> Case:
    return replace(case, variables=(*case.variables[:at], value, *case.variables[at + 1 :]))


def _create_fact_check(check: _LimitedCheck, case: Case, at: int) -> FailCheck:
    return lambda members: check(_replace_fact(case, at, members))


def _create_variable_check(check: _LimitedCheck, case: Case, at: int) -> FailCheck:
    return lambda value: check(_replace_variable(case, at, value))


def _strip_fact(fact: FactRecordType, members: Members, fails: FailCheck) -> Members:
    """Without every member that is not needed, and the others in their simplest form where that is enough."""
    needed = dict(_remove_parts(list(members.items()), lambda items: fails(dict(items))))
    return _shrink_members(needed, lambda name, value, still: simplify(SCHEMAS[fact][name], value, still), fails)


def _reduce_fact(fact: FactRecordType, members: Members, fails: FailCheck) -> Members:
    return _shrink_members(members, lambda name, value, still: shrink_value(SCHEMAS[fact][name], value, still), fails)


def _shrink_members(
    members: Members, shrink: Callable[[str, Value, FailCheck], Value], fails: FailCheck
) -> dict[str, Value]:
    result = dict(members)
    for name in members:
        result[name] = shrink(name, result[name], _create_member_check(result, name, fails))
    return result


def _create_member_check(members: Members, name: str, fails: FailCheck) -> FailCheck:
    return lambda value: fails({**members, name: value})


def get_simplest(kind: Type) -> Value:  # noqa: PLR0911 (one row a type)
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
            return {name: get_simplest(item) for name, item in members}
        case EnumType(_, enum_members):
            return enum_members[0]
        case FactRecordType():
            raise TypeError(f"{kind} is shrunk as a fact, not as a value")
        case _:
            assert_never(kind)


def simplify(kind: Type, value: Value, fails: FailCheck) -> Value:
    """The simplest value if it fails too, else the value as it is."""
    simplest_value = get_simplest(kind)
    return simplest_value if simplest_value != value and fails(simplest_value) else value


def shrink_value(kind: Type, value: Any, fails: FailCheck) -> Value:  # noqa: PLR0911 (one row a type)
    """The simplest value found in place of `value` that still fails."""
    simpler = simplify(kind, value, fails)
    if simpler != value:
        return simpler
    match kind:
        case Scalar():
            return _shrink_scalar(kind, value, fails)
        case Dec(scale):
            return _shrink_number(value, scale, fails)
        case Qty():
            return _shrink_number(value, QTY_SCALE, fails)
        case Opt(item):
            return None if value is None else shrink_value(item, value, fails)
        case List(item):
            return _shrink_list(item, value, fails)
        case Map(item):
            needed = dict(_remove_parts(list(value.items()), lambda items: fails(dict(items))))
            return _shrink_members(needed, lambda _, part, still: shrink_value(item, part, still), fails)
        case Record():
            return _shrink_members(
                value, lambda name, part, still: shrink_value(_get_member_type(kind, name), part, still), fails
            )
        case EnumType():
            return simpler
        case FactRecordType():
            raise TypeError(f"{kind} is shrunk as a fact, not as a value")
        case _:
            assert_never(kind)


def _get_member_type(kind: Record, name: str) -> Type:
    return next(item for member_name, item in kind.members if member_name == name)


def _shrink_scalar(kind: Scalar, value: Any, fails: FailCheck) -> Value:
    if kind == INT:
        return _shrink_number(value, 0, fails)
    if kind == TEXT:
        return _shrink_text(value, fails)
    return _shrink_day(value, fails) if kind == DATE else bool(value)


def _shrink_number(value: int, scale: int, fails: FailCheck) -> int:
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
    return sign * step * _find_smallest(size // step, lambda count: fails(sign * step * count))


def _find_smallest(high: int, fails: Callable[[int], bool]) -> int:
    """Halving between 0, which holds, and `high`, which fails."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _shrink_day(value: str, fails: FailCheck) -> str:
    start = SIMPLEST_DAY.toordinal()

    def format_day(days: int) -> str:
        return date.fromordinal(start + days).isoformat()

    distance = date.fromisoformat(value).toordinal() - start
    return value if not distance else format_day(_shrink_number(distance, 0, lambda days: fails(format_day(days))))


def _shrink_text(value: str, fails: FailCheck) -> str:
    value = _remove_parts(value, fails)
    plain = SIMPLEST_CHARACTER * len(value)
    if value == plain or fails(plain):
        return plain
    for at, character in enumerate(value):
        candidate = value[:at] + SIMPLEST_CHARACTER + value[at + 1 :]
        if character != SIMPLEST_CHARACTER and fails(candidate):
            value = candidate
    return value


def _shrink_list(item: Type, value: list[Value], fails: FailCheck) -> list[Value]:
    value = _remove_parts(value, fails)
    for at in range(len(value)):
        value = [*value[:at], shrink_value(item, value[at], _create_index_check(value, at, fails)), *value[at + 1 :]]
    return value


def _create_index_check(value: list[Value], at: int, fails: FailCheck) -> FailCheck:
    return lambda part: fails([*value[:at], part, *value[at + 1 :]])


def _remove_parts(items: Items, fails: FailCheck) -> Items:
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
