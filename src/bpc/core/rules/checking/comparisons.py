"""Comparisons: which values can be compared, and how a literal is seen from the other side.

Decs compare by value at any scales; all else needs one type on both sides. Fact records never compare.
"""

from typing import Any, Final, cast

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import literals
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import disagreement, way_out
from bpc.core.rules.checking.interning import holds_fact
from bpc.core.rules.source import Span
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Opt, Qty, Type

_EQUALITY: Final = frozenset({"==", "!="})


def comparison(checking: Checking, node: syntax.Comparison, _want: Type | None) -> typed.Expr | None:
    left = None if literals.undecided(node.left) else checking.check(node.left)
    right = None if literals.undecided(node.right) else checking.check(node.right)
    if literals.undecided(node.left) or literals.undecided(node.right):
        left, right = _with_undecided(checking, node, left, right)
    if left is None or right is None:
        return None
    of = _compared(checking, node, left.type, right.type)
    if of is None:
        return None
    return typed.Comparison(BOOL, cast("Any", node.op), of, left, right, node.op_span)


def _with_undecided(
    checking: Checking, node: syntax.Comparison, left: typed.Expr | None, right: typed.Expr | None
) -> tuple[typed.Expr | None, typed.Expr | None]:
    """Both sides, the undecided one seen from the other."""
    if not literals.undecided(node.right):
        return _beside(checking, node, node.left, node.right, right), right
    if not literals.undecided(node.left):
        return left, _beside(checking, node, node.right, node.left, left)
    if isinstance(node.left, syntax.Number) and isinstance(node.right, syntax.Number):
        return _numbers(checking, node.left, node.right)
    # Neither side says what is compared: a number beside `none`, or nothing beside nothing.
    other = node.right if isinstance(node.right, syntax.Number) else node.left
    literal = node.right if other is node.left else node.left
    return None, _beside(checking, node, literal, other, checking.check(other))


def _numbers(
    checking: Checking, left: syntax.Number, right: syntax.Number
) -> tuple[typed.Expr | None, typed.Expr | None]:
    if not literals.in_bounds(checking, left) or not literals.in_bounds(checking, right):
        return None, None
    kind = literals.largest([left, right])
    return literals.beside(left, kind), literals.beside(right, kind)


def _beside(
    checking: Checking, node: syntax.Comparison, literal: Node, other: Node, made: typed.Expr | None
) -> typed.Expr | None:
    """The literal side of a comparison whose other side is `made`."""
    if made is None:
        return None
    if isinstance(literal, syntax.Number):
        return literals.beside(literal, made.type) if literals.in_bounds(checking, literal) else None
    if node.op not in _EQUALITY:
        _not_ordered(checking, node.op, other.span, made.type, _unwrapping(checking, other.span, made.type))
        return None
    return checking.check_because(literal, made.type, (other, made.type))


def _compared(checking: Checking, node: syntax.Comparison, one: Type, other: Type) -> str | None:
    """How a proof names what is compared; None if these cannot be, which is reported."""
    if not (one is other or (isinstance(one, Dec) and isinstance(other, Dec))):
        disagreement(checking, node.op_span, node.op, (node.left, one), (node.right, other))
        return None
    if not comparable(checking, node.op, node.left.span, one, _unwrapping(checking, node.left.span, one)):
        return None
    return "Dec" if isinstance(one, Dec) else checking.types.text(one)


def comparable(checking: Checking, op: str, span: Span, kind: Type, hint: str | None = None) -> bool:
    """Whether values of a type can be compared by `op` at all; reports it otherwise, with `hint` as a way out."""
    if holds_fact(kind):
        checking.error(
            "not-comparable",
            span,
            f"{checking.shown(kind)} cannot be compared: it holds records of facts",
            hint='compare a member: `recordGet(…, "member")`',
        )
        return False
    if op in _EQUALITY or kind is INT or kind is TEXT or kind is DATE or isinstance(kind, Dec | Qty):
        return True
    _not_ordered(checking, op, span, kind, hint)
    return False


def _unwrapping(checking: Checking, span: Span, kind: Type) -> str | None:
    return way_out(checking.quoted_span(span), kind, kind.item) if isinstance(kind, Opt) else None


def _not_ordered(checking: Checking, op: str, span: Span, kind: Type, hint: str | None) -> None:
    checking.error(
        "not-comparable",
        span,
        f"`{op}` orders Int, Dec, Qty, Date and Text, and this is {checking.shown(kind)}",
        hint=hint or "such values can be compared with `==` and `!=`",
    )
