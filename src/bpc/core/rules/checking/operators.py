"""Operators: chains of one level, `&&` and `||`, and the prefixes `!` and `-`.

All operands of a chain are checked first, without a wanted type; what they make together is decided afterwards.
"""

from typing import Any, Final, cast

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import arithmetic
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import origin_of
from bpc.core.rules.types import BOOL, INT, Dec, Opt, Qty, Type

_SUMS: Final = frozenset({"+", "-"})
_PRODUCTS: Final = frozenset({"*", "/"})


def chain(checking: Checking, node: syntax.Chain, want: Type | None) -> typed.Expr | None:
    nodes = [node.first, *[link.operand for link in node.links]]
    operands = list(map(checking.check, nodes))
    op = node.links[0].op
    if op in _SUMS:
        return arithmetic.sum_of(checking, node, nodes, operands, want)
    if op in _PRODUCTS:
        return arithmetic.product(checking, node, nodes, operands)
    return _logic(checking, node, nodes, operands)


def _logic(
    checking: Checking, node: syntax.Chain, nodes: list[Node], operands: list[typed.Expr | None]
) -> typed.Expr | None:
    op = node.links[0].op
    made = [truth(checking, at, operand, f"each side of `{op}`") for at, operand in zip(nodes, operands, strict=True)]
    right = [
        typed.Operand(operand, link.op_span)
        for operand, link in zip(made[1:], node.links, strict=True)
        if operand is not None
    ]
    if made[0] is None or len(right) < len(node.links):
        return None
    return typed.Logic(BOOL, cast("Any", op), made[0], tuple(right))


def truth(checking: Checking, node: Node, made: typed.Expr | None, what: str) -> typed.Expr | None:
    """What was checked and must be a Bool; `what` names its place."""
    if made is None or made.type is BOOL:
        return made
    origin = origin_of(checking, node, made.type)
    checking.error(
        "wrong-type",
        node.span,
        f"{what} is a `Bool`, and this is {checking.shown(made.type)}",
        hint=_truth_help(checking.quoted(node), made.type),
        notes=(origin if origin.span != node.span else None,),
    )
    return None


def _truth_help(words: str, got: Type) -> str | None:
    if not isinstance(got, Opt):
        return None
    if got.item is BOOL:
        return f"say what absent means: `unwrapOr({words}, false)`"
    return f"ask whether there is a value: `isSome({words})`"


def unary(checking: Checking, node: syntax.Unary, _want: Type | None) -> typed.Expr | None:
    """A row of `!` and `-`, from the inside out; a loop, for rows may be long."""
    row = [node]
    while isinstance(row[-1].operand, syntax.Unary):
        row.append(row[-1].operand)
    made = checking.check(row[-1].operand)
    for step in reversed(row):
        if made is None:
            return None
        made = _negated(checking, step, made)
    return made


def _negated(checking: Checking, node: syntax.Unary, operand: typed.Expr) -> typed.Expr | None:
    kind = operand.type
    if node.op == "!":
        if kind is BOOL:
            return typed.Unary(BOOL, "!", operand, node.op_span)
        needs, hint = "a `Bool`", _truth_help(checking.quoted(node.operand), kind)
    else:
        if kind is INT or isinstance(kind, Dec | Qty):
            return typed.Unary(kind, "neg", operand, node.op_span)
        needs, hint = "an Int, a Dec or a Qty", arithmetic.number_help(checking.quoted(node.operand), "-", kind)
    checking.error(
        "wrong-type",
        node.operand.span,
        f"`{node.op}` needs {needs}, and this is {checking.shown(kind)}",
        hint=hint,
    )
    return None
