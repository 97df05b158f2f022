"""What the reference evaluator computes with: exact numbers, comparisons, and how a value is written.

Pure functions over counts: a number is held as an integer and its type says of what (docs/rules/language.md). Every
result is the exact fraction rounded half-even to the scale of its type; where that leaves no remainder nothing is
rounded. Whoever calls has made sure that a divisor is not zero, and asks `is_below_limit` afterwards.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from bpc.core.canon import Json
from bpc.core.rules.failure import MAGNITUDE_DIGITS
from bpc.core.rules.types import QTY_SCALE, Dec, List, Map, Opt, Qty, Record, Type

_COMPARATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def half_even(numerator: int, denominator: int) -> int:
    """The integer nearest to the fraction; of two that are equally near the even one."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod(numerator, denominator)
    rounds_up = 2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1)
    return quotient + 1 if rounds_up else quotient


def scale_of(kind: Type) -> int:
    """How many decimals a count of this type has; an Int counts ones."""
    match kind:
        case Dec(scale):
            return scale
        case Qty():
            return QTY_SCALE
        case _:
            return 0


def rescaled(count: int, source: Type, target: Type) -> int:
    return half_even(count * 10 ** scale_of(target), 10 ** scale_of(source))


def calculated(op: str, left: tuple[Type, int], right: tuple[Type, int], result: Type) -> int:
    """`left op right` as a count of the result's type."""
    (left_type, one), (right_type, other) = left, right
    left_scale, right_scale, goal = scale_of(left_type), scale_of(right_type), scale_of(result)
    if op == "*":
        return half_even(one * other * 10**goal, 10 ** (left_scale + right_scale))
    if op == "/":
        return half_even(one * 10 ** (right_scale + goal), other * 10**left_scale)
    one, other = rescaled(one, left_type, result), rescaled(other, right_type, result)
    return one + other if op == "+" else one - other


def is_below_limit(kind: Type, count: int) -> bool:
    """Whether the number itself, not its count, is below 10^36."""
    limit: int = 10 ** (MAGNITUDE_DIGITS + scale_of(kind))
    return abs(count) < limit


def holds(op: str, left: tuple[Type, Any], right: tuple[Type, Any]) -> bool:
    """Whether `left op right`. Decs compare by value at any scales; all else has one type on both sides.

    Texts and days compare by code point; lists, maps and records part by part.
    """
    (left_type, one), (right_type, other) = left, right
    if isinstance(left_type, Dec) and isinstance(right_type, Dec):
        one, other = one * 10**right_type.scale, other * 10**left_type.scale
    return _COMPARATORS[op](one, other)


def written(kind: Type, value: Any) -> Json:
    """A value as passports and proofs show it; a present option is its value."""
    shown: Json
    match kind:
        case Dec(scale):
            shown = decimal_text(value, scale)
        case Qty(unit):
            shown = {"unit": unit, "value": _without_trailing_zeros(decimal_text(value, QTY_SCALE))}
        case Opt(item):
            shown = None if value is None else written(item, value)
        case List(item):
            shown = [written(item, part) for part in value]
        case Map(item):
            shown = {name: written(item, part) for name, part in value.items()}
        case Record(members):
            shown = {name: written(item, value[name]) for name, item in members}
        case _:
            shown = value
    return shown


def decimal_text(count: int, scale: int) -> str:
    digits = str(abs(count)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if count < 0 else ""
    return f"{sign}{whole}.{fraction}" if scale else f"{sign}{whole}"


def _without_trailing_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".")
