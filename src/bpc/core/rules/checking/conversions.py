"""Built-ins between numbers and quantities: toDec, toQty, amount, convert, sumDec, sumQty."""

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import arguments, literals
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import wrong_unit
from bpc.core.rules.checking.interning import DECS
from bpc.core.rules.types import INT, MAX_DECLARED_SCALE, QTY_SCALE, Dec, Opt, Qty, Type
from bpc.core.units import conversion, same_dimension


def to_dec(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    scale = arguments.scale_literal(checking, call)
    node = call.arguments[1]
    made = checking.check(node)
    if made is None or scale is None:
        return None
    if made.type is INT or isinstance(made.type, Dec):
        return typed.Apply(DECS[scale], "toDec", (made,), {"scale": scale}, call.span)
    hint = f"take its number: `toDec({scale}, amount({checking.quoted(node)}))`"
    arguments.needed(
        checking, node, "`toDec` takes an Int or a Dec", made.type, hint if isinstance(made.type, Qty) else None
    )
    return None


def to_qty(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    unit = arguments.unit_literal(checking, call, 0)
    node = call.arguments[1]
    made = checking.check(node)
    if made is None or unit is None or not _qty_number(checking, node, made.type, unit):
        return None
    return typed.Apply(unit, "toQty", (made,), {"unit": unit.unit}, call.span)


def _qty_number(checking: Checking, node: Node, kind: Type, unit: Qty) -> bool:
    words = checking.quoted(node)
    if kind is INT or (isinstance(kind, Dec) and kind.scale <= MAX_DECLARED_SCALE):
        return True
    if isinstance(kind, Dec):
        checking.error(
            "scale-too-large",
            node.span,
            f"a quantity has at most {MAX_DECLARED_SCALE} decimals, and this is {checking.shown(kind)}",
            hint=f"round it: `toDec({MAX_DECLARED_SCALE}, {words})`",
        )
    elif isinstance(kind, Qty):
        same = kind is unit
        hint = "it already is one" if same else f'`convert("{kind.unit}", "{unit.unit}", {words})` changes the unit'
        arguments.needed(checking, node, "`toQty` takes an Int or a Dec", kind, hint)
    else:
        arguments.needed(checking, node, "`toQty` takes an Int or a Dec", kind)
    return False


def amount(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    node = call.arguments[0]
    made = checking.check(node)
    if made is None:
        return None
    if isinstance(made.type, Qty):
        return typed.Apply(DECS[QTY_SCALE], "amount", (made,), {}, call.span)
    hint = "it already is a number" if made.type is INT or isinstance(made.type, Dec) else None
    arguments.needed(checking, node, "`amount` takes a quantity", made.type, hint)
    return None


def convert(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    source = arguments.unit_literal(checking, call, 0)
    target = arguments.unit_literal(checking, call, 1)
    node = call.arguments[2]
    made = checking.check(node)
    if source is None or target is None or not _converts(checking, call, source, target) or made is None:
        return None
    if made.type is source:
        return typed.Apply(target, "convert", (made,), {"from": source.unit, "to": target.unit}, call.span)
    if isinstance(made.type, Qty):
        wrong_unit(checking, node.span, made.type, source, checking.quoted(node))
        return None
    number = made.type is INT or isinstance(made.type, Dec)
    hint = f'give it a unit: `toQty("{source.unit}", {checking.quoted(node)})`' if number else None
    arguments.needed(checking, node, "`convert` takes a quantity", made.type, hint)
    return None


def _converts(checking: Checking, call: syntax.Call, source: Qty, target: Qty) -> bool:
    if conversion(source.unit, target.unit) is not None:
        return True
    others = same_dimension(source.unit)
    checking.error(
        "no-conversion",
        call.span,
        f"`{source.unit}` does not convert to `{target.unit}`",
        hint=f"it converts to {', '.join(f'`{unit}`' for unit in others)}" if others else "it converts to nothing",
    )
    return False


def sum_dec(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    scale = arguments.scale_literal(checking, call)
    node = call.arguments[1]
    found = arguments.items(checking, node, "sumDec")
    if found is None or scale is None:
        return None
    made, item = found
    if isinstance(item, Dec) and item.scale <= scale:
        return typed.Apply(DECS[scale], "sumDec", (made,), {"scale": scale}, call.span)
    if isinstance(item, Dec):
        checking.error(
            "wrong-type",
            node.span,
            f"the sum of {checking.shown(item)} does not fit {literals.counted(scale, 'decimal')}: it would round",
            hint=f"write `toDec({scale}, sumDec({min(item.scale, MAX_DECLARED_SCALE)}, {checking.quoted(node)}))`",
        )
    else:
        _no_sum(checking, node, "`sumDec` adds a list of Dec", made.type, item, f"toDec({scale}, x)")
    return None


def sum_qty(checking: Checking, call: syntax.Call, _want: Type | None) -> typed.Expr | None:
    unit = arguments.unit_literal(checking, call, 0)
    node = call.arguments[1]
    found = arguments.items(checking, node, "sumQty")
    if found is None or unit is None:
        return None
    made, item = found
    if item is unit:
        return typed.Apply(unit, "sumQty", (made,), {"unit": unit.unit}, call.span)
    if isinstance(item, Qty):
        _wrong_unit_in_list(checking, node, item, unit)
    else:
        _no_sum(checking, node, "`sumQty` adds a list of Qty", made.type, item, f'toQty("{unit.unit}", x)')
    return None


def _wrong_unit_in_list(checking: Checking, node: Node, item: Qty, unit: Qty) -> None:
    words = checking.quoted(node)
    each = f'map({words}, fn(x) => convert("{item.unit}", "{unit.unit}", x))'
    checking.error(
        "unit-mismatch",
        node.span,
        f"the list is in `{item.unit}`, and `{unit.unit}` is needed",
        hint=f"convert each: `{each}`"
        if conversion(item.unit, unit.unit) is not None
        else f"`{item.unit}` and `{unit.unit}` do not convert into each other",
    )


def _no_sum(checking: Checking, node: Node, what: str, kind: Type, item: Type, each: str) -> None:
    if isinstance(item, Opt):
        hint: str | None = f"unwrap each: `map({checking.quoted(node)}, fn(x) => unwrapOr(x, …))`"
    elif item is INT or isinstance(item, Dec):
        hint = f"change each: `map({checking.quoted(node)}, fn(x) => {each})`"
    else:
        hint = None
    arguments.needed(checking, node, what, kind, hint)
