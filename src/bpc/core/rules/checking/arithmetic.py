"""Arithmetic: `+ -` and `* /`, with the units of quantities.

In a chain of `+ -` the operands that are not number literals say what is added; literals take that scale, and an Int
beside a Dec is widened. In `* /` every literal keeps its own scale.
"""

from typing import Any, cast

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import literals
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import disagreement, origin_of, way_out
from bpc.core.rules.checking.interning import DECS, QTYS
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import DATE, INT, MAX_SCALE, QTY_SCALE, TEXT, Dec, Opt, Qty, Type
from bpc.core.units import conversion, product_of, quotient_of, same_dimension

# Sums


def sum_of(
    checking: Checking,
    node: syntax.Chain,
    nodes: list[Node],
    operands: list[typed.Expr | None],
    want: Type | None,
) -> typed.Expr | None:
    if None not in operands:
        operands = _with_literals(checking, nodes, operands, want)
    right = _numbers_only(checking, node, nodes, operands)
    return None if right is None else _added(checking, node, right)


def _numbers_only(
    checking: Checking, node: syntax.Chain, nodes: list[Node], operands: list[typed.Expr | None]
) -> list[typed.Expr] | None:
    """The operands, if arithmetic is possible with all of them; what is not a number is reported."""
    ops = [node.links[0].op, *[link.op for link in node.links]]
    right: list[typed.Expr] = []
    reported: set[int] = set()
    for at, made, op in zip(nodes, operands, ops, strict=True):
        if made is None:
            continue
        if made.type is INT or isinstance(made.type, Dec | Qty):
            right.append(made)
        elif id(made.type) not in reported:
            _not_a_number(checking, at, made.type, op)
            # Each option is unwrapped in its own way; two Texts or two days are one mistake.
            reported |= set() if isinstance(made.type, Opt) else {id(made.type)}
    return right if len(right) == len(nodes) else None


def _with_literals(
    checking: Checking, nodes: list[Node], operands: list[typed.Expr | None], want: Type | None
) -> list[typed.Expr | None]:
    """The operands, number literals at the scale of the others; all literals: what is wanted, else the largest."""
    numbers = [node for node in nodes if isinstance(node, syntax.Number)]
    if not numbers:
        return operands
    others = [
        made.type
        for node, made in zip(nodes, operands, strict=True)
        if made is not None and not isinstance(node, syntax.Number)
    ]
    kind = _giver(others) if others else _of_literals(numbers, want)
    return [
        _literal(checking, node, kind, numbers) if isinstance(node, syntax.Number) else made
        for node, made in zip(nodes, operands, strict=True)
    ]


def _giver(others: list[Type]) -> Type:
    """Of the operands that are no literals: the first that is not an Int, for an Int is widened."""
    return next((kind for kind in others if kind is not INT), INT)


def _of_literals(numbers: list[syntax.Number], want: Type | None) -> Type:
    if want is INT or isinstance(want, Dec):
        return want
    return literals.largest(numbers)


def _literal(checking: Checking, node: syntax.Number, kind: Type, numbers: list[syntax.Number]) -> typed.Expr | None:
    if isinstance(kind, Dec):
        return literals.number(checking, node, kind)
    if kind is INT and literals.has_point(node):
        # Beside Ints a literal with a point makes the sum a Dec, of the largest scale among such literals.
        return literals.number(checking, node, literals.largest(numbers))
    return literals.own(node)


def _not_a_number(checking: Checking, node: Node, kind: Type, op: str) -> None:
    origin = origin_of(checking, node, kind)
    checking.error(
        "wrong-type",
        node.span,
        f"`{op}` works on Int, Dec and Qty, and this is {checking.shown(kind)}",
        hint=number_help(checking.quoted(node), op, kind),
        notes=(origin if origin.span != node.span else None,),
    )


def number_help(words: str, op: str, kind: Type) -> str | None:
    if op == "+" and kind is TEXT:
        return "texts are joined by `concat(…, …)`"
    if isinstance(kind, Opt):
        return way_out(words, kind, kind.item)
    if kind is DATE:
        return "days can be compared, not added or subtracted"
    return None


def _added(checking: Checking, node: syntax.Chain, operands: list[typed.Expr]) -> typed.Expr | None:
    kind = operands[0].type
    steps = []
    left: Node | Span = node.first
    for link, operand in zip(node.links, operands[1:], strict=True):
        both = _added_type(kind, operand.type)
        if both is None:
            disagreement(checking, link.op_span, link.op, (left, kind), (link.operand, operand.type))
            return None
        kind = both
        steps.append(typed.Step(kind, cast("Any", link.op), operand, link.op_span))
        left = Span(node.first.span.start, link.operand.span.end)
    return typed.Arithmetic(kind, operands[0], tuple(steps))


def _added_type(one: Type, other: Type) -> Type | None:
    if one is other:
        return one
    if one is INT and isinstance(other, Dec):
        return other
    if other is INT and isinstance(one, Dec):
        return one
    return None


# Products


def product(
    checking: Checking, node: syntax.Chain, nodes: list[Node], operands: list[typed.Expr | None]
) -> typed.Expr | None:
    right = _numbers_only(checking, node, nodes, operands)
    return None if right is None else _multiplied(checking, node, right)


def _multiplied(checking: Checking, node: syntax.Chain, operands: list[typed.Expr]) -> typed.Expr | None:
    kind = operands[0].type
    steps = []
    left: Node | Span = node.first
    for link, operand in zip(node.links, operands[1:], strict=True):
        made = _product_type(kind, operand.type) if link.op == "*" else _quotient_type(kind, operand.type)
        if made is None:
            _no_product(checking, link, (left, kind), operand.type)
            return None
        kind = made
        steps.append(typed.Step(kind, cast("Any", link.op), operand, link.op_span))
        left = Span(node.first.span.start, link.operand.span.end)
    return typed.Arithmetic(kind, operands[0], tuple(steps))


def _product_type(one: Type, other: Type) -> Type | None:
    if isinstance(one, Qty):
        if not isinstance(other, Qty):
            return one
        unit = product_of(one.unit, other.unit)
        return None if unit is None else QTYS[unit]
    if isinstance(other, Qty) or one is INT:
        return other
    if other is INT:
        return one
    scale = _scale(one) + _scale(other)
    return DECS[scale] if scale <= MAX_SCALE else None


def _quotient_type(one: Type, other: Type) -> Type | None:
    if not isinstance(other, Qty):
        return one if isinstance(one, Qty) else DECS[QTY_SCALE]
    if one is other:
        return DECS[QTY_SCALE]
    unit = quotient_of(one.unit, other.unit) if isinstance(one, Qty) else None
    return None if unit is None else QTYS[unit]


def _scale(kind: Type) -> int:
    return kind.scale if isinstance(kind, Dec) else 0


def _no_product(checking: Checking, link: syntax.Link, left: tuple[Node | Span, Type], other: Type) -> None:
    at, one = left
    sides = (
        Note(at, f"this is {checking.shown(one)}") if isinstance(at, Span) else origin_of(checking, at, one),
        origin_of(checking, link.operand, other),
    )
    if isinstance(one, Qty) and isinstance(other, Qty):
        checking.error(
            "unit-mismatch",
            link.op_span,
            f"no unit is `{one.unit} {link.op} {other.unit}`",
            hint=_units_help(one, link.op, other, checking.quoted(link.operand)),
            notes=sides,
        )
    elif isinstance(other, Qty):
        checking.error(
            "operands-disagree",
            link.op_span,
            f"a number cannot be divided by a quantity in `{other.unit}`",
            hint=f"divide by its number: `amount({checking.quoted(link.operand)})`",
            notes=sides,
        )
    else:
        checking.error(
            "scale-too-large",
            link.op_span,
            f"the product of {checking.shown(one)} and {checking.shown(other)} has more than {MAX_SCALE} decimals",
            hint=f"round first, for example `toDec(6, {checking.quoted(link.operand)})`",
            notes=sides,
        )


def _units_help(one: Qty, op: str, other: Qty, words: str) -> str | None:
    """A unit that the right side converts to and that goes with the left one."""
    if op == "/" and conversion(other.unit, one.unit) is not None:
        return f'convert first: `convert("{other.unit}", "{one.unit}", {words})`'
    made = product_of if op == "*" else quotient_of
    for unit in same_dimension(other.unit):
        if made(one.unit, unit) is not None:
            return f'convert first: `convert("{other.unit}", "{unit}", {words})`'
    return f"multiply with a number instead: `amount({words})`" if op == "*" else None
