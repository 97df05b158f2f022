"""What the reference evaluator computes with: exact numbers, comparisons, and how a value is written.

Pure functions over counts: a number is held as an integer and its type says of what (docs/rules/language.md). Every
result is the exact fraction rounded half-even to the scale of its type; where that leaves no remainder nothing is
rounded. Whoever calls has made sure that a divisor is not zero, and asks `is_below_limit` afterwards.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from bpc.core.facts.fact_table import FactRecord
from bpc.core.facts.units import find_conversion
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import MAGNITUDE_DIGITS, World
from bpc.core.language.typed import BuiltinCall
from bpc.core.language.types import QTY_SCALE, Dec, List, Map, Opt, Qty, Record, Type

_COMPARATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def divide_half_even(numerator: int, denominator: int) -> int:
    """The integer nearest to the fraction; of two that are equally near the even one."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    rounds_up = 2 * remainder > denominator or (2 * remainder == denominator and quotient % 2 == 1)
    return quotient + 1 if rounds_up else quotient


def get_scale(kind: Type) -> int:
    """How many decimals a count of this type has; an Int counts ones."""
    match kind:
        case Dec(scale):
            return scale
        case Qty():
            return QTY_SCALE
        case _:
            return 0


def rescale(count: int, source: Type, target: Type) -> int:
    return divide_half_even(count * 10 ** get_scale(target), 10 ** get_scale(source))


def calculate(op: str, left: tuple[Type, int], right: tuple[Type, int], result: Type) -> int:
    """`left op right` as a count of the result's type."""
    (left_type, one), (right_type, other) = left, right
    left_scale, right_scale, result_scale = get_scale(left_type), get_scale(right_type), get_scale(result)
    if op == "*":
        return divide_half_even(one * other * 10**result_scale, 10 ** (left_scale + right_scale))
    if op == "/":
        return divide_half_even(one * 10 ** (right_scale + result_scale), other * 10**left_scale)
    one, other = rescale(one, left_type, result), rescale(other, right_type, result)
    return one + other if op == "+" else one - other


def is_below_limit(kind: Type, count: int) -> bool:
    """Whether the number itself, not its count, is below 10^36."""
    limit: int = 10 ** (MAGNITUDE_DIGITS + get_scale(kind))
    return abs(count) < limit


def compare(op: str, left: tuple[Type, Any], right: tuple[Type, Any]) -> bool:
    """Whether `left op right`. Decs compare by value at any scales; all else has one type on both sides.

    Texts and days compare by code point; lists, maps and records part by part.
    """
    (left_type, one), (right_type, other) = left, right
    if isinstance(left_type, Dec) and isinstance(right_type, Dec):
        one, other = one * 10**right_type.scale, other * 10**left_type.scale
    return _COMPARATORS[op](one, other)


def value_to_json(kind: Type, value: Any) -> Json:
    """A value as passports and proofs show it; a present option is its value."""
    json_value: Json
    match kind:
        case Dec(scale):
            json_value = format_decimal(value, scale)
        case Qty(unit):
            json_value = {"unit": unit, "value": _strip_trailing_zeros(format_decimal(value, QTY_SCALE))}
        case Opt(item):
            json_value = None if value is None else value_to_json(item, value)
        case List(item):
            json_value = [value_to_json(item, part) for part in value]
        case Map(item):
            json_value = {name: value_to_json(item, part) for name, part in value.items()}
        case Record(members):
            json_value = {name: value_to_json(item, value[name]) for name, item in members}
        case _:
            json_value = value
    return json_value


def format_decimal(count: int, scale: int) -> str:
    digits = str(abs(count)).rjust(scale + 1, "0")
    integer_part, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if count < 0 else ""
    return f"{sign}{integer_part}.{fraction}" if scale else f"{sign}{integer_part}"


def _strip_trailing_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".")


# The built-ins whose results must be below the limit of magnitude (docs/rules/language.md).
MAGNITUDE_LIMITED: Final = frozenset({"toDec", "convert", "sumDec", "sumQty"})


def apply_builtin(call: BuiltinCall, arguments: list[Any], world: World) -> Any:
    """What a built-in gives for its arguments."""
    if call.op in _WORLD:
        return _WORLD[call.op](world)
    return _FUNCTIONS[call.op](call, *arguments)


def _get_member(call: BuiltinCall, record: Any) -> Any:
    members: Mapping[str, Any] = record.members if isinstance(record, FactRecord) else record
    return members[str(call.static["member"])]


def _apply_rescale(call: BuiltinCall, count: int) -> int:
    return rescale(count, call.arguments[0].type, call.type)


def _sum(call: BuiltinCall, counts: list[int]) -> int:
    return rescale(sum(counts), _get_item_type(call.arguments[0].type), call.type)


def _convert(call: BuiltinCall, count: int) -> int:
    factor = find_conversion(str(call.static["from"]), str(call.static["to"]))
    if factor is None:
        raise ValueError("the checker lets no conversion pass that the table of units does not have")
    numerator, denominator = factor
    return divide_half_even(count * numerator, denominator)


def _get_item_type(kind: Type) -> Type:
    if not isinstance(kind, List):
        raise TypeError(f"the checker lets only lists be summed up, not {kind}")
    return kind.item


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "some": lambda _, item: item,
    "recordGet": _get_member,
    "mapGet": lambda _, mapping, key: mapping.get(key),
    "isSome": lambda _, option: option is not None,
    "unwrapOr": lambda _, option, default: default if option is None else option,
    "count": lambda _, items: len(items),
    "concat": lambda _, *texts: "".join(texts),
    "amount": lambda _, count: count,  # both sides count 10^-18
    "toDec": _apply_rescale,
    "toQty": _apply_rescale,
    "sumDec": _sum,
    "sumQty": _sum,
    "convert": _convert,
}

_WORLD: Final[Mapping[str, Callable[[World], str]]] = {
    "productSku": lambda world: world.product_sku,
    "productName": lambda world: world.product_name,
    "issuedOn": lambda world: world.issued_on,
}
