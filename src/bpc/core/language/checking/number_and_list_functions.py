"""Check the functions on numbers (toDec, toQty, amount, convert, sumDec, sumQty) and lists (map, filter, fold)."""

from typing import Any, cast

from bpc.core.facts.units import find_conversion, list_convertible_units
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals, operators
from bpc.core.language.checking.context import BoundVariable, Checker, Node
from bpc.core.language.source import DiagnosticNote
from bpc.core.language.types import DECS, INT, MAX_DECLARED_SCALE, QTY_SCALE, Dec, Opt, Qty, Type


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


# map, filter and fold


def check_map_or_filter(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items, element = _check_items(checker, call)
    fn = require_lambda(checker, call, 1, 1)
    if fn is None:
        return None
    is_filter = call.function.text == "filter"
    bound = _enter_lambda(checker, fn, (element,), call.arguments[0])
    body = checker.check(fn.body)
    if is_filter:
        body = operators.require_bool(checker, fn.body, body, "the condition of `filter`")
    outer = _leave_lambda(checker, bound)
    if items is None or body is None:
        return None
    if is_filter:
        return _build_loop(checker, call, fn, items.type, items, None, body, outer)
    kind = checker.require_allowed_size(checker.types.list(body.type), call.span)
    return None if kind is None else _build_loop(checker, call, fn, kind, items, None, body, outer)


def check_fold(checker: Checker, call: syntax.Call, want: Type | None) -> typed.Expr | None:
    items, element = _check_items(checker, call)
    start = call.arguments[1]
    init = checker.check(start, want)
    kind = want if want is not None else None if init is None else init.type
    fn = require_lambda(checker, call, 2, 2)
    if fn is None:
        return None
    # Checked without a wanted type, because a body that is not an Int has a usual cause and its own message.
    counts = want is None and kind is INT and isinstance(start, syntax.NumberLiteral)
    bound = _enter_lambda(checker, fn, (kind, element), call.arguments[0])
    outer_because = checker.because
    if want is None and kind is not None:
        checker.because = DiagnosticNote(
            start.span, f"the fold starts here with {checker.format_type(kind)}, so every step must give the same type"
        )
    body = checker.check(fn.body, None if counts else kind)
    if counts and body is not None and body.type is not INT:
        _report_fold_not_int(checker, fn.body, body.type)
        body = None
    checker.because = outer_because
    outer = _leave_lambda(checker, bound)
    if items is None or init is None or body is None:
        return None
    return _build_loop(checker, call, fn, init.type, items, init, body, outer)


def _report_fold_not_int(checker: Checker, body: Node, kind: Type) -> None:
    """Report a fold that starts with a whole number and then adds Decs."""
    message = f"the fold starts with `Int`, but this step gives {checker.format_type(kind)}"
    hint = f"start it with a Dec: `toDec({kind.scale}, 0)`" if isinstance(kind, Dec) else None
    checker.error("wrong-type", body.span, message, hint, explain.find_type_reason(checker))


def _check_items(checker: Checker, call: syntax.Call) -> tuple[typed.Expr | None, Type | None]:
    return literals.check_list_argument(checker, call.arguments[0], call.function.text) or (None, None)


def require_lambda(checker: Checker, call: syntax.Call, position: int, parameters: int) -> syntax.Lambda | None:
    """The lambda a loop needs."""
    node = call.arguments[position]
    name = call.function.text
    example = "fn(x) => …" if parameters == 1 else "fn(acc, x) => …"
    if not isinstance(node, syntax.Lambda):
        checker.error("wrong-lambda", node.span, f"`{name}` needs a function here", f"write `{example}`")
        return None
    if len(node.parameters) == parameters:
        return node
    # A function has one or two parameters.
    counts = ("one parameter", "two parameters") if parameters == 1 else ("two parameters", "one parameter")
    message = f"the function of `{name}` has {counts[0]}, but this one has {counts[1]}"
    checker.error("wrong-lambda", node.span, message, f"write `{example}`")
    return None


def _enter_lambda(
    checker: Checker, fn: syntax.Lambda, kinds: tuple[Type | None, ...], items: Node
) -> list[tuple[str, BoundVariable | None]]:
    checker.scope.enter_lambda()
    bound = []
    for name, kind in zip(fn.parameters, kinds, strict=True):
        variable = BoundVariable(kind, name.span, "parameter", items, checker.scope.level)
        bound.append((name.text, bind_name(checker, name, variable)))
    return bound


def _leave_lambda(checker: Checker, bound: list[tuple[str, BoundVariable | None]]) -> tuple[str, ...]:
    for name, before in reversed(bound):
        checker.scope.unbind(name, before)
    return checker.scope.leave_lambda()


def bind_name(checker: Checker, name: syntax.Name, variable: BoundVariable) -> BoundVariable | None:
    """Bind a name, which must not be visible yet. Returns what `Scope.unbind` needs."""
    taken = checker.scope.bind(name.text, variable)
    if taken is not None:
        note = DiagnosticNote(taken.span, f"`{name.text}` is already defined here")
        message = f"the name `{name.text}` is already in use"
        checker.error("shadowed-name", name.span, message, "choose another name", note)
    return taken


def _build_loop(
    checker: Checker,
    call: syntax.Call,
    fn: syntax.Lambda,
    kind: Type,
    items: typed.Expr,
    init: typed.Expr | None,
    body: typed.Expr,
    outer: tuple[str, ...],
) -> typed.Expr:
    return typed.Loop(
        type=kind,
        op=cast("Any", call.function.text),
        items=items,
        init=init,
        parameters=tuple(name.text for name in fn.parameters),
        body=body,
        captured=outer,
        lambda_span=fn.span,
        nested=checker.scope.level > 0,
        span=call.span,
    )
