"""map, filter and fold: a list and a lambda, whose parameters have the types the list gives them."""

from typing import Literal

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import arguments, operators
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import reason
from bpc.core.rules.checking.scope import Variable
from bpc.core.rules.source import Note
from bpc.core.rules.types import INT, Dec, Type


def map_(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items, element = _items(checking, call)
    fn = function(checking, call, 1, 1)
    if fn is None:
        return None
    bound = _enter(checking, fn, (element,), call.arguments[0])
    body = checking.check(fn.body)
    outer = _leave(checking, bound)
    if items is None or body is None:
        return None
    kind = checking.sized(checking.types.list(body.type), call.span)
    return None if kind is None else _loop(checking, call, fn, kind, "map", items, None, body, outer)


def filter_(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items, element = _items(checking, call)
    fn = function(checking, call, 1, 1)
    if fn is None:
        return None
    bound = _enter(checking, fn, (element,), call.arguments[0])
    body = operators.truth(checking, fn.body, checking.check(fn.body), "what `filter` asks of an element")
    outer = _leave(checking, bound)
    if items is None or body is None:
        return None
    return _loop(checking, call, fn, items.type, "filter", items, None, body, outer)


def fold(checking: Checking, call: syntax.Call, want: Type | None) -> typed.Expr | None:
    items, element = _items(checking, call)
    start = call.arguments[1]
    init = checking.check(start, want)
    kind = want if want is not None else None if init is None else init.type
    fn = function(checking, call, 2, 2)
    if fn is None:
        return None
    # A body that must be an Int is an Int or a mistake: there is nothing to push, and the mistake has a usual cause.
    counts = want is None and kind is INT and isinstance(start, syntax.Number)
    bound = _enter(checking, fn, (kind, element), call.arguments[0])
    outer_because = checking.because
    if want is None and kind is not None:
        checking.because = Note(
            start.span, f"the fold starts here with {checking.shown(kind)}, so every step gives one"
        )
    body = checking.check(fn.body, None if counts else kind)
    if counts and body is not None and body.type is not INT:
        _no_count(checking, fn.body, body.type)
        body = None
    checking.because = outer_because
    outer = _leave(checking, bound)
    if items is None or init is None or body is None:
        return None
    return _loop(checking, call, fn, init.type, "fold", items, init, body, outer)


def _no_count(checking: Checking, body: Node, kind: Type) -> None:
    """A fold that starts with a whole number and then adds Decs."""
    checking.error(
        "wrong-type",
        body.span,
        f"the fold starts with `Int`, and this step gives {checking.shown(kind)}",
        hint=f"start it with a Dec: `toDec({kind.scale}, 0)`" if isinstance(kind, Dec) else None,
        notes=(reason(checking),),
    )


def _items(checking: Checking, call: syntax.Call) -> tuple[typed.Expr | None, Type | None]:
    return arguments.items(checking, call.arguments[0], call.function.text) or (None, None)


def function(checking: Checking, call: syntax.Call, position: int, parameters: int) -> syntax.Lambda | None:
    """The lambda a loop needs."""
    node = call.arguments[position]
    name = call.function.text
    example = "fn(x) => …" if parameters == 1 else "fn(acc, x) => …"
    if not isinstance(node, syntax.Lambda):
        checking.error("wrong-lambda", node.span, f"`{name}` needs a function here", hint=f"write `{example}`")
        return None
    if len(node.parameters) == parameters:
        return node
    checking.error(
        "wrong-lambda",
        node.span,
        f"the function of `{name}` has {_parameters(parameters)}, and this one has {_parameters(len(node.parameters))}",
        hint=f"write `{example}`",
    )
    return None


def _parameters(number: int) -> str:
    return "one parameter" if number == 1 else "two parameters" if number == 2 else f"{number} parameters"


def _enter(
    checking: Checking, fn: syntax.Lambda, kinds: tuple[Type | None, ...], items: Node
) -> list[tuple[str, Variable | None]]:
    checking.scope.enter_lambda()
    bound = []
    for name, kind in zip(fn.parameters, kinds, strict=True):
        made = Variable(kind, name.span, "parameter", items, checking.scope.level)
        taken = bind(checking, name, made)
        bound.append((name.text, taken))
    return bound


def _leave(checking: Checking, bound: list[tuple[str, Variable | None]]) -> tuple[str, ...]:
    for name, before in reversed(bound):
        checking.scope.unbind(name, before)
    return checking.scope.leave_lambda()


def bind(checking: Checking, name: syntax.Name, made: Variable) -> Variable | None:
    """Bind a name, which must not be visible yet; the answer is for `Scope.unbind`."""
    taken = checking.scope.bind(name.text, made)
    if taken is not None:
        checking.error(
            "shadowed-name",
            name.span,
            f"`{name.text}` is already bound here",
            hint="choose another name",
            notes=(Note(taken.span, f"`{name.text}` is bound here and still visible"),),
        )
    return taken


def _loop(
    checking: Checking,
    call: syntax.Call,
    fn: syntax.Lambda,
    kind: Type,
    op: Literal["map", "filter", "fold"],
    items: typed.Expr,
    init: typed.Expr | None,
    body: typed.Expr,
    outer: tuple[str, ...],
) -> typed.Expr:
    return typed.Loop(
        type=kind,
        op=op,
        items=items,
        init=init,
        parameters=tuple(name.text for name in fn.parameters),
        body=body,
        outer=outer,
        fn_span=fn.span,
        nested=checking.scope.level > 0,
        span=call.span,
    )
