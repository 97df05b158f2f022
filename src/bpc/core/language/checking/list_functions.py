"""Check the functions on lists: those that take a lambda, and those of level 2 that take none."""

from typing import Any, Final, cast

from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals, operators
from bpc.core.language.checking.context import BoundVariable, Checker, Node
from bpc.core.language.checking.imports import list_member_enums
from bpc.core.language.checking.number_functions import is_ordered
from bpc.core.language.source import DiagnosticNote
from bpc.core.language.types import BOOL, INT, Dec, Opt, Type, unwrap_option_type

_CONDITION_LOOPS: Final = frozenset({"filter", "any", "all"})


def check_loop(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """All but fold: a list, and a function of its element."""
    items, element = _check_items(checker, call)
    fn = require_lambda(checker, call, 1, 1)
    if fn is None:
        return None
    name = call.function.text
    bound = _enter_lambda(checker, fn, (element,), call.arguments[0])
    body = checker.check(fn.body)
    if name in _CONDITION_LOOPS:
        body = operators.require_bool(checker, fn.body, body, f"the condition of `{name}`")
    outer = _leave_lambda(checker, bound)
    if items is None or element is None or body is None:
        return None
    kind = _find_loop_type(checker, call, fn, (items.type, element), body.type)
    kind = None if kind is None else checker.require_allowed_size(kind, call.span)
    return None if kind is None else _build_loop(checker, call, fn, kind, items, None, body, outer)


def _find_loop_type(
    checker: Checker, call: syntax.Call, fn: syntax.Lambda, items: tuple[Type, Type], body: Type
) -> Type | None:
    """The type of what a loop gives; None if its function cannot give such a key, which is reported."""
    name, (kind, element) = call.function.text, items
    if name == "map":
        return checker.types.list(body)
    if name in _CONDITION_LOOPS:
        return kind if name == "filter" else BOOL
    if name == "groupBy":
        if not operators.check_comparable(checker, "==", fn.body.span, body):
            return None
        return checker.types.list(checker.types.record({"key": body, "items": checker.types.list(element)}))
    if not is_ordered(unwrap_option_type(body)):
        what = f"`{name}` compares Int, Dec, Qty, Date and Text, or options of these"
        explain.report_wrong_argument(checker, fn.body, what, body, f"give what the order is by: `{_KEY_EXAMPLE}`")
        return None
    return kind if name == "sortBy" else element if isinstance(element, Opt) else checker.types.opt(element)


_KEY_EXAMPLE: Final = "fn(x) => x.member"


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
    definition = checker.shared.definitions.get(name.text)
    is_visible = definition is not None and checker.sees(name.span, definition.span)
    first = taken or (definition if is_visible else None)
    if first is not None:
        # Without a note in a tests file: the definition stands in the other one.
        is_here = taken is not None or checker.in_rules
        note = DiagnosticNote(first.span, f"`{name.text}` is already defined here") if is_here else None
        message = f"the name `{name.text}` is already in use"
        checker.error("shadowed-name", name.span, message, "choose another name", note)
    elif enums := list_member_enums(checker, name.text, name.span):
        message = f"the name `{name.text}` is already in use: it is a member of `{enums[0].name}`"
        checker.error("shadowed-name", name.span, message, "choose another name")
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


# Lists at level 2


def check_end(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """first and last; of options the first is one already."""
    items, item = _check_items(checker, call)
    if items is None or item is None:
        return None
    op: Any = call.function.text
    kind = item if isinstance(item, Opt) else checker.require_allowed_size(checker.types.opt(item), call.span)
    return None if kind is None else typed.BuiltinCall(kind, op, (items,), {}, call.span)


def check_is_empty(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items, _ = _check_items(checker, call)
    return None if items is None else typed.BuiltinCall(BOOL, "isEmpty", (items,), {}, call.span)


def check_present(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """The values of a list of options."""
    items, item = _check_items(checker, call)
    if items is None or item is None:
        return None
    if isinstance(item, Opt):
        return typed.BuiltinCall(checker.types.list(item.item), "present", (items,), {}, call.span)
    hint = "nothing in it is absent, so it needs no `present`"
    explain.report_wrong_argument(checker, call.arguments[0], "`present` takes a list of options", items.type, hint)
    return None


def check_distinct(checker: Checker, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items, item = _check_items(checker, call)
    if items is None or item is None:
        return None
    if not operators.check_comparable(checker, "==", call.arguments[0].span, item):
        return None
    return typed.BuiltinCall(items.type, "distinct", (items,), {}, call.span)
