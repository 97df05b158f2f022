"""What the reference evaluator computes with: exact numbers, comparisons, built-ins, and how a value is written.

Pure functions over counts: a number is held as an integer and its type says of what (docs/rules/language.md). Every
result is the exact fraction rounded half-even to the scale of its type; where that leaves no remainder nothing is
rounded. Whoever calls has made sure that a divisor is not zero, and asks `is_below_limit` afterwards.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from bpc.core.facts.fact_table import FactRecord
from bpc.core.facts.units import find_conversion
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import MAGNITUDE_DIGITS, World
from bpc.core.language.typed import BuiltinCall
from bpc.core.language.types import (
    BOOL,
    INT,
    QTY_SCALE,
    Dec,
    EnumType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
    unwrap_option_type,
)

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
            json_value = {"unit": unit, "value": strip_trailing_zeros(format_decimal(value, QTY_SCALE))}
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


def strip_trailing_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".")


# Built-ins, written from docs/rules/functions.md; a day is counted here from the calendar's own rules.
_DAYS_BEFORE_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_LAST_YEAR: Final = 9999


class OutsideCalendar(Exception):
    """A day before the year 0001 or after 9999."""


def write_text(call: BuiltinCall, value: Any) -> str:
    kind = unwrap_option_type(call.arguments[0].type)
    match kind:
        case _ if value is None:
            return "-"
        case Dec(scale):
            return _format_number(value, scale)
        case Qty(unit):
            return f"{_format_number(value, QTY_SCALE)} {unit}"
        case _ if kind == BOOL:
            return "true" if value else "false"
        case _ if kind == INT:
            return format_decimal(value, 0)
        case _:
            return str(value)


def _format_number(count: int, scale: int) -> str:
    text = format_decimal(count, scale)
    return strip_trailing_zeros(text) if "." in text else text


def split_text(_: BuiltinCall, text: str, separator: str) -> list[str]:
    parts, start = [], 0
    while separator and (end := text.find(separator, start)) >= 0:
        parts.append(text[start:end])
        start = end + len(separator)
    return [*parts, text[start:]]


def _trim(_: BuiltinCall, text: str) -> str:
    start, end = 0, len(text)
    while start < end and text[start] in " \t\r\n":
        start += 1
    while end > start and text[end - 1] in " \t\r\n":
        end -= 1
    return text[start:end]


# Days: a text of year, month and day.


def _parse_day(day: str) -> tuple[int, int, int]:
    year, month, number = day.split("-")
    return int(year), int(month), int(number)


def _write_day(year: int, month: int, day: int) -> str:
    if not 1 <= year <= _LAST_YEAR:
        raise OutsideCalendar
    return f"{year:04}-{month:02}-{day:02}"


def _is_leap_year(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _count_days_before(year: int, month: int) -> int:
    """The days from the calendar's beginning to the first of a month."""
    years = year - 1
    days = years * 365 + years // 4 - years // 100 + years // 400 + _DAYS_BEFORE_MONTH[month - 1]
    return days + 1 if month > 2 and _is_leap_year(year) else days


def _count_days(day: str) -> int:
    year, month, number = _parse_day(day)
    return _count_days_before(year, month) + number


def _add_days(_: BuiltinCall, day: str | None, days: int) -> str | None:
    if day is None:
        return None
    total = _count_days(day) + days
    # A year of 366 days would be reached too early, so the estimate is never too late.
    year = (total - 1) // 366 + 1
    if not 1 <= year <= _LAST_YEAR:
        raise OutsideCalendar
    while _count_days_before(year + 1, 1) < total:
        year += 1
    month = max(number for number in range(1, 13) if _count_days_before(year, number) < total)
    return _write_day(year, month, total - _count_days_before(year, month))


def _add_months(_: BuiltinCall, day: str | None, months: int) -> str | None:
    if day is None:
        return None
    year, month, number = _parse_day(day)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    last = _DAYS_BEFORE_MONTH[month] - _DAYS_BEFORE_MONTH[month - 1]
    if month == 2 and _is_leap_year(year):
        last += 1
    return _write_day(year, month, min(number, last))


# Orders and lists


def _choose_extreme(call: BuiltinCall, *values: Any) -> Any:
    """min and max, of a list or of two values; where one is absent so is the result."""
    candidates = values[0] if len(values) == 1 else _rescale_all(call, values)
    if not candidates or any(value is None for value in candidates):
        return None
    best = candidates[0]
    for value in candidates[1:]:
        if value < best if call.op == "min" else value > best:
            best = value
    return best


def _rescale_all(call: BuiltinCall, values: tuple[Any, ...]) -> list[Any]:
    target = unwrap_option_type(call.type)
    kinds = [unwrap_option_type(argument.type) for argument in call.arguments]
    if not isinstance(target, Dec):
        return list(values)
    return [None if value is None else rescale(value, kind, target) for value, kind in zip(values, kinds, strict=True)]


def _round_quantity(call: BuiltinCall, count: int) -> int:
    unit: int = 10 ** (QTY_SCALE - int(call.static["scale"]))
    return divide_half_even(count, unit) * unit


def _pick_distinct(call: BuiltinCall, items: list[Any]) -> list[Any]:
    """The first of those that are equal: what is equal is written alike."""
    kind = get_item_type(call.type)
    seen: set[bytes] = set()
    kept = []
    for item in items:
        key = canonical_json.encode_typed(value_to_json(kind, item))
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept


def get_item_type(kind: Type) -> Type:
    if not isinstance(kind, List):
        raise TypeError(f"the checker lets only lists pass here, not {kind}")
    return kind.item


def _find_member(kind: Type, text: str | None) -> str | None:
    if not isinstance(kind, EnumType):
        raise TypeError(f"the checker makes members of enumerations only, not {kind}")
    return None if text is None else kind.spellings.get(text)


_LEVEL_TWO: Final[Mapping[str, Callable[..., Any]]] = {
    "text": write_text,
    "startsWith": lambda _, text, part: text[: len(part)] == part,
    "endsWith": lambda _, text, part: text[max(0, len(text) - len(part)) :] == part,
    "contains": lambda _, text, part: text.find(part) >= 0,
    "split": split_text,
    "trim": _trim,
    "length": lambda _, text: len(text),
    "daysBetween": lambda _, start, end: _count_days(end) - _count_days(start),
    "addDays": _add_days,
    "addMonths": _add_months,
    "addYears": lambda call, day, years: _add_months(call, day, years * 12),
    "year": lambda _, day: _parse_day(day)[0],
    "month": lambda _, day: _parse_day(day)[1],
    "day": lambda _, day: _parse_day(day)[2],
    "min": _choose_extreme,
    "max": _choose_extreme,
    "abs": lambda _, count: -count if count < 0 else count,
    "round": _round_quantity,
    "sum": lambda _, counts: sum(counts),
    "first": lambda _, items: items[0] if items else None,
    "last": lambda _, items: items[-1] if items else None,
    "distinct": _pick_distinct,
    "present": lambda _, items: [item for item in items if item is not None],
    "isEmpty": lambda _, items: len(items) == 0,
    "toEnum": lambda call, text: _find_member(unwrap_option_type(call.type), text),
}


# The built-ins whose results must be below the limit of magnitude (docs/rules/language.md).
MAGNITUDE_LIMITED: Final = frozenset({"toDec", "convert", "sumDec", "sumQty", "sum", "round"})


# The built-ins whose days may lie outside the calendar.
CALENDAR_LIMITED: Final = frozenset({"addDays", "addMonths", "addYears"})


def apply_builtin(call: BuiltinCall, arguments: list[Any], world: World) -> Any:
    """What a built-in gives for its arguments."""
    function = FUNCTIONS.get(call.op)
    return _WORLD[call.op](world) if function is None else function(call, *arguments)


def _get_member_or_none(call: BuiltinCall, record: Any) -> Any:
    return None if record is None else _get_member(call, record)


def _get_member(call: BuiltinCall, record: Any) -> Any:
    members: Mapping[str, Any] = record.members if isinstance(record, FactRecord) else record
    return members[str(call.static["member"])]


def _apply_rescale(call: BuiltinCall, count: int) -> int:
    return rescale(count, call.arguments[0].type, call.type)


def _sum(call: BuiltinCall, counts: list[int]) -> int:
    return rescale(sum(counts), get_item_type(call.arguments[0].type), call.type)


def _convert(call: BuiltinCall, count: int) -> int:
    factor = find_conversion(str(call.static["from"]), str(call.static["to"]))
    if factor is None:
        raise ValueError("the checker lets no conversion pass that the table of units does not have")
    numerator, denominator = factor
    return divide_half_even(count * numerator, denominator)


# All but those that ask the world.
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "some": lambda _, item: item,
    "recordGet": _get_member,
    "member": _get_member_or_none,
    "in": lambda _, value, items: value in items,
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
    **_LEVEL_TWO,
}

_WORLD: Final[Mapping[str, Callable[[World], str]]] = {
    "productSku": lambda world: world.product_sku,
    "productName": lambda world: world.product_name,
    "issuedOn": lambda world: world.issued_on,
}
