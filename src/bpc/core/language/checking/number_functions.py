"""Check the functions on numbers and quantities, and those on what has an order: min, max and their names for days."""

from typing import Any

from bpc.core.facts.units import find_conversion, list_convertible_units
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals, operators
from bpc.core.language.checking.context import Checker, Node, require_all
from bpc.core.language.types import (
    DATE,
    DECS,
    INT,
    MAX_DECLARED_SCALE,
    QTY_SCALE,
    TEXT,
    Dec,
    List,
    Opt,
    Qty,
    Type,
    unwrap_option_type,
)


def check_to_dec(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    scale = literals.require_scale_literal(checker, call)
    node = call.arguments[1]
    expr = checker.check(node)
    if expr is None or scale is None:
        return None
    if expr.type is INT or isinstance(expr.type, Dec):
        return typed.BuiltinCall(DECS[scale], "toDec", (expr,), {"scale": scale}, call.span)
    hint = f"use its number: `toDec({scale}, amount({checker.quote(node)}))`"
    explain.report_wrong_argument(
        checker, node, "`toDec` takes an Int or a Dec", expr.type, hint if isinstance(expr.type, Qty) else None
    )
    return None


def check_to_qty(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    unit = literals.require_unit_literal(checker, call, 0)
    node = call.arguments[1]
    expr = checker.check(node)
    if expr is None or unit is None or not _check_quantity_number(checker, node, expr.type, unit):
        return None
    return typed.BuiltinCall(unit, "toQty", (expr,), {"unit": unit.unit}, call.span)


def _check_quantity_number(checker: Checker, node: Node, kind: Type, unit: Qty) -> bool:
    words = checker.quote(node)
    if kind is INT or (isinstance(kind, Dec) and kind.scale <= MAX_DECLARED_SCALE):
        return True
    if isinstance(kind, Dec):
        message = f"a quantity has at most {MAX_DECLARED_SCALE} decimals, but this is {checker.format_type(kind)}"
        checker.error("scale-too-large", node.span, message, f"round it: `toDec({MAX_DECLARED_SCALE}, {words})`")
    elif isinstance(kind, Qty):
        same = kind is unit
        convert = f'`convert("{kind.unit}", "{unit.unit}", {words})` changes the unit'
        hint = "it already has this unit" if same else convert
        explain.report_wrong_argument(checker, node, "`toQty` takes an Int or a Dec", kind, hint)
    else:
        explain.report_wrong_argument(checker, node, "`toQty` takes an Int or a Dec", kind)
    return False


def check_amount(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    node = call.arguments[0]
    expr = checker.check(node)
    if expr is None:
        return None
    if isinstance(expr.type, Qty):
        return typed.BuiltinCall(DECS[QTY_SCALE], "amount", (expr,), {}, call.span)
    hint = "it is already a number" if expr.type is INT or isinstance(expr.type, Dec) else None
    explain.report_wrong_argument(checker, node, "`amount` takes a quantity", expr.type, hint)
    return None


def check_convert(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    source = literals.require_unit_literal(checker, call, 0)
    target = literals.require_unit_literal(checker, call, 1)
    node = call.arguments[2]
    expr = checker.check(node)
    if source is None or target is None or not _check_convertible(checker, call, source, target) or expr is None:
        return None
    if expr.type is source:
        return typed.BuiltinCall(target, "convert", (expr,), {"from": source.unit, "to": target.unit}, call.span)
    if isinstance(expr.type, Qty):
        explain.report_wrong_unit(checker, node.span, expr.type, source, checker.quote(node))
        return None
    number = expr.type is INT or isinstance(expr.type, Dec)
    hint = f'give it a unit: `toQty("{source.unit}", {checker.quote(node)})`' if number else None
    explain.report_wrong_argument(checker, node, "`convert` takes a quantity", expr.type, hint)
    return None


def _check_convertible(checker: Checker, call: syntax.Call, source: Qty, target: Qty) -> bool:
    if find_conversion(source.unit, target.unit) is not None:
        return True
    others = ", ".join(f"`{unit}`" for unit in list_convertible_units(source.unit))
    hint = f"it can be converted to {others}" if others else "it cannot be converted to any other unit"
    checker.error("no-conversion", call.span, f"`{source.unit}` cannot be converted to `{target.unit}`", hint)
    return False


def check_sum_dec(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    scale = literals.require_scale_literal(checker, call)
    node = call.arguments[1]
    checked_list = literals.check_list_argument(checker, node, "sumDec")
    if checked_list is None or scale is None:
        return None
    items, item = checked_list
    if isinstance(item, Dec) and item.scale <= scale:
        return typed.BuiltinCall(DECS[scale], "sumDec", (items,), {"scale": scale}, call.span)
    if isinstance(item, Dec):
        room = literals.format_count(scale, "decimal")
        message = f"the sum of {checker.format_type(item)} does not fit into {room} without rounding"
        hint = f"write `toDec({scale}, sumDec({min(item.scale, MAX_DECLARED_SCALE)}, {checker.quote(node)}))`"
        checker.error("wrong-type", node.span, message, hint)
    else:
        _report_not_summable(checker, node, "`sumDec` adds a list of Dec", items.type, item, f"toDec({scale}, x)")
    return None


def check_sum_qty(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    unit = literals.require_unit_literal(checker, call, 0)
    node = call.arguments[1]
    checked_list = literals.check_list_argument(checker, node, "sumQty")
    if checked_list is None or unit is None:
        return None
    items, item = checked_list
    if item is unit:
        return typed.BuiltinCall(unit, "sumQty", (items,), {"unit": unit.unit}, call.span)
    if isinstance(item, Qty):
        _report_wrong_unit_in_list(checker, node, item, unit)
    else:
        _report_not_summable(checker, node, "`sumQty` adds a list of Qty", items.type, item, f'toQty("{unit.unit}", x)')
    return None


def _report_wrong_unit_in_list(checker: Checker, node: Node, item: Qty, unit: Qty) -> None:
    conversion_text = f'map({checker.quote(node)}, fn(x) => convert("{item.unit}", "{unit.unit}", x))'
    hint = f"convert each element: `{conversion_text}`"
    if find_conversion(item.unit, unit.unit) is None:
        hint = explain.describe_no_conversion(item, unit)
    message = f"expected a list in `{unit.unit}`, but this list is in `{item.unit}`"
    checker.error("unit-mismatch", node.span, message, hint)


def _report_not_summable(checker: Checker, node: Node, what: str, kind: Type, item: Type, item_text: str) -> None:
    if isinstance(item, Opt):
        hint: str | None = f"unwrap each element: `map({checker.quote(node)}, fn(x) => unwrapOr(x, …))`"
    elif item is INT or isinstance(item, Dec):
        hint = f"convert each element: `map({checker.quote(node)}, fn(x) => {item_text})`"
    else:
        hint = None
    explain.report_wrong_argument(checker, node, what, kind, hint)


# Numbers at level 2


def check_sum(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    node = call.arguments[0]
    checked_list = literals.check_list_argument(checker, node, "sum")
    if checked_list is None:
        return None
    items, item = checked_list
    if item is INT or isinstance(item, Dec | Qty):
        return typed.BuiltinCall(item, "sum", (items,), {}, call.span)
    _report_items(checker, node, "`sum` adds a list of Int, Dec or Qty", items.type, item)
    return None


def _report_items(checker: Checker, node: Node, what: str, kind: Type, item: Type) -> None:
    words = checker.quote(node)
    hint = f"leave out what is absent: `present({words})`" if isinstance(item, Opt) else None
    explain.report_wrong_argument(checker, node, what, kind, hint)


def check_abs(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    node = call.arguments[0]
    expr = checker.check(node)
    if expr is None:
        return None
    if expr.type is INT or isinstance(expr.type, Dec | Qty):
        return typed.BuiltinCall(expr.type, "abs", (expr,), {}, call.span)
    explain.report_wrong_argument(checker, node, "`abs` takes an Int, a Dec or a Qty", expr.type)
    return None


def check_round(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """A number gets the decimals, as by `toDec`; a quantity stays one."""
    scale = literals.require_scale_literal(checker, call)
    node = call.arguments[1]
    expr = checker.check(node)
    if expr is None or scale is None:
        return None
    if expr.type is INT or isinstance(expr.type, Dec):
        return typed.BuiltinCall(DECS[scale], "toDec", (expr,), {"scale": scale}, call.span)
    if isinstance(expr.type, Qty):
        return typed.BuiltinCall(expr.type, "round", (expr,), {"scale": scale}, call.span)
    explain.report_wrong_argument(checker, node, "`round` takes an Int, a Dec or a Qty", expr.type)
    return None


# What has an order


def check_extreme(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """min and max, of a list or of two values."""
    op: Any = call.function.text
    if len(call.arguments) == 2:
        return _check_extreme_of_two(checker, call, op)
    node = call.arguments[0]
    items = checker.check(node)
    if items is None:
        return None
    item = items.type.item if isinstance(items.type, List) else None
    if item is None:
        hint = f"give it two values, `{op}(a, b)`, or a list"
        explain.report_wrong_argument(checker, node, f"`{op}` of one value needs a List", items.type, hint)
        return None
    if not is_ordered(item):
        _report_items(checker, node, f"`{op}` compares Int, Dec, Qty, Date and Text", items.type, item)
        return None
    return typed.BuiltinCall(
        checker.types.opt(item), op, (items,), {"of": _name_operand_type(checker, item)}, call.span
    )


def check_extreme_day(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """laterOf, latestOf and earlierOf: max and min of days, each of which may be absent."""
    days = [checker.check(argument) for argument in call.arguments]
    for node, day in zip(call.arguments, days, strict=True):
        if day is not None and unwrap_option_type(day.type) is not DATE:
            hint = explain.suggest_conversion(checker.quote(node), day.type, DATE, checker.shared.language)
            explain.report_wrong_argument(checker, node, f"`{call.function.text}` takes a `Date`", day.type, hint)
            return None
    present: tuple[typed.Expr, ...] | None = require_all(days)
    op: Any = "min" if call.function.text == "earlierOf" else "max"
    return None if present is None else _build_extreme(checker, call, op, *present)


def _check_extreme_of_two(checker: Checker, call: syntax.Call, op: Any) -> typed.Expr | None:
    sides = _check_sides(checker, call)
    if sides is None:
        return None
    one, other = (unwrap_option_type(side.type) for side in sides)
    left, right = call.arguments
    if not (one is other or (isinstance(one, Dec) and isinstance(other, Dec))):
        explain.report_disagreement(checker, call.span, op, (left, one), (right, other))
        return None
    if not operators.check_comparable(checker, op, left.span, one, f"`{op}` needs what has an order"):
        return None
    return _build_extreme(checker, call, op, *sides)


def _check_sides(checker: Checker, call: syntax.Call) -> tuple[typed.Expr, ...] | None:
    """Both arguments; a literal takes its type from the other one."""
    known = [None if literals.is_undecided(node) else checker.check(node) for node in call.arguments]
    kind = next((side.type for side in known if side is not None), None)
    numbers = [node for node in call.arguments if isinstance(node, syntax.NumberLiteral)]
    if kind is None and len(numbers) == len(call.arguments):
        kind = literals.choose_number_type(numbers)
    sides: list[typed.Expr | None] = []
    for node, side in zip(call.arguments, known, strict=True):
        if literals.is_undecided(node) and kind is not None:
            sides.append(_check_literal_side(checker, node, kind))
        else:
            sides.append(checker.check(node) if literals.is_undecided(node) else side)
    return require_all(sides)


def _check_literal_side(checker: Checker, node: Node, other: Type) -> typed.Expr | None:
    kind = unwrap_option_type(other)
    if isinstance(node, syntax.NumberLiteral):
        return literals.type_beside(node, kind) if literals.check_number_bounds(checker, node) else None
    return checker.check(node, checker.types.opt(kind))


def _build_extreme(checker: Checker, call: syntax.Call, op: Any, one: typed.Expr, other: typed.Expr) -> typed.Expr:
    kinds = [unwrap_option_type(side.type) for side in (one, other)]
    # Of two Decs the one with more decimals has room for both.
    kind = max(kinds, key=lambda kind: kind.scale if isinstance(kind, Dec) else 0)
    result = checker.types.opt(kind) if isinstance(one.type, Opt) or isinstance(other.type, Opt) else kind
    return typed.BuiltinCall(result, op, (one, other), {"of": _name_operand_type(checker, kind)}, call.span)


def _name_operand_type(checker: Checker, kind: Type) -> str:
    return "Dec" if isinstance(kind, Dec) else checker.types.to_text(kind)


def is_ordered(kind: Type) -> bool:
    return kind in {INT, TEXT, DATE} or isinstance(kind, Dec | Qty)
