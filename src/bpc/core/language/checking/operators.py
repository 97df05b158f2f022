"""Check operators: arithmetic with the units of quantities, `&&` and `||`, the prefixes `!` and `-`, comparisons.

In a chain of `+ -` the literals take the scale of the other operands, and an Int next to a Dec becomes a Dec. In `* /`
every literal keeps its own scale. Decs are compared by value at any scales; all other values need the same type on both
sides. Fact records cannot be compared.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from bpc.core.facts.units import divide_units, find_conversion, list_convertible_units, multiply_units
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals
from bpc.core.language.checking.context import Checker, Node, require_all
from bpc.core.language.checking.literals import is_undecided
from bpc.core.language.source import Span
from bpc.core.language.types import (
    BOOL,
    DATE,
    DECS,
    INT,
    MAX_SCALE,
    QTY_SCALE,
    QTYS,
    TEXT,
    Dec,
    Opt,
    Qty,
    Type,
    contains_fact_record,
)

_SUM_SIGNS: Final = frozenset({"+", "-"})
_EQUALITY: Final = frozenset({"==", "!="})


def check_chain(checker: Checker, node: syntax.OperatorChain, want: Type | None) -> typed.Expr | None:
    nodes = [node.first, *[link.operand for link in node.links]]
    operands = list(map(checker.check, nodes))
    op = node.links[0].op
    if op not in _RESULT_TYPES:
        return _check_logic(checker, node, nodes, operands)
    if op in _SUM_SIGNS and None not in operands:
        operands = _scale_literals(checker, nodes, operands, want)
    numbers = _require_numbers(checker, node, nodes, operands)
    return None if numbers is None else _build_arithmetic(checker, node, numbers)


# Arithmetic


def _require_numbers(
    checker: Checker, node: syntax.OperatorChain, nodes: list[Node], operands: list[typed.Expr | None]
) -> list[typed.Expr] | None:
    """The operands, if all are numbers or quantities; every other one is reported."""
    ops = [node.links[0].op, *[link.op for link in node.links]]
    numbers: list[typed.Expr] = []
    reported: set[int] = set()
    for operand_node, expr, op in zip(nodes, operands, ops, strict=True):
        if expr is None:
            continue
        if expr.type is INT or isinstance(expr.type, Dec | Qty):
            numbers.append(expr)
        elif id(expr.type) not in reported:
            what, hint = f"`{op}` works on Int, Dec and Qty", _suggest_for_number(checker, op, expr.type)
            explain.report_wrong_argument(checker, operand_node, what, expr.type, hint)
            # Each option is unwrapped in its own way; two Texts or two dates are one mistake.
            reported |= set() if isinstance(expr.type, Opt) else {id(expr.type)}
    return numbers if len(numbers) == len(nodes) else None


def _scale_literals(
    checker: Checker, nodes: list[Node], operands: list[typed.Expr | None], want: Type | None
) -> list[typed.Expr | None]:
    """Give number literals the scale of the other operands; if all are literals, the wanted or the largest scale."""
    numbers = [node for node in nodes if isinstance(node, syntax.NumberLiteral)]
    if not numbers:
        return operands
    others = [
        expr.type
        for node, expr in zip(nodes, operands, strict=True)
        if expr is not None and not isinstance(node, syntax.NumberLiteral)
    ]
    kind = _choose_operand_type(others) if others else _choose_literal_type(numbers, want)
    return [
        _scale_literal(checker, node, kind, numbers) if isinstance(node, syntax.NumberLiteral) else expr
        for node, expr in zip(nodes, operands, strict=True)
    ]


def _choose_operand_type(others: list[Type]) -> Type:
    """The type of the first operand that is not an Int, because an Int is converted to it."""
    return next((kind for kind in others if kind is not INT), INT)


def _choose_literal_type(numbers: list[syntax.NumberLiteral], want: Type | None) -> Type:
    if want is INT or isinstance(want, Dec):
        return want
    return literals.choose_number_type(numbers)


def _scale_literal(
    checker: Checker, node: syntax.NumberLiteral, kind: Type, numbers: list[syntax.NumberLiteral]
) -> typed.Expr | None:
    if isinstance(kind, Dec):
        return literals.check_number(checker, node, kind)
    if kind is INT and literals.has_point(node):
        # Next to Ints a literal with a point makes the sum a Dec of the largest scale among such literals.
        return literals.check_number(checker, node, literals.choose_number_type(numbers))
    return literals.type_as_written(node)


def _suggest_for_number(checker: Checker, op: str, kind: Type) -> str | None:
    if op == "+" and kind is TEXT:
        return "use `concat(…, …)` to join texts"
    if kind is DATE and checker.shared.language > 1:
        return "use `daysBetween(from, to)`, or `addDays(date, number)`"
    return "dates can be compared, not added or subtracted" if kind is DATE else None


def _build_arithmetic(checker: Checker, node: syntax.OperatorChain, operands: list[typed.Expr]) -> typed.Expr | None:
    kind = operands[0].type
    steps = []
    left: Node | Span = node.first
    for link, operand in zip(node.links, operands[1:], strict=True):
        result = _RESULT_TYPES[link.op](kind, operand.type)
        if result is None:
            report = explain.report_disagreement if link.op in _SUM_SIGNS else _report_no_product
            report(checker, link.op_span, link.op, (left, kind), (link.operand, operand.type))
            return None
        kind = result
        steps.append(typed.ArithmeticStep(kind, cast("Any", link.op), operand, link.op_span))
        left = Span(node.first.span.start, link.operand.span.end)
    return typed.Arithmetic(kind, operands[0], tuple(steps))


def _find_sum_type(one: Type, other: Type) -> Type | None:
    if one is other:
        return one
    if one is INT and isinstance(other, Dec):
        return other
    if other is INT and isinstance(one, Dec):
        return one
    return None


def _find_product_type(one: Type, other: Type) -> Type | None:
    if isinstance(one, Qty):
        if not isinstance(other, Qty):
            return one
        unit = multiply_units(one.unit, other.unit)
        return None if unit is None else QTYS[unit]
    if isinstance(other, Qty) or one is INT:
        return other
    if other is INT:
        return one
    scale = _get_scale(one) + _get_scale(other)
    return DECS[scale] if scale <= MAX_SCALE else None


def _find_quotient_type(one: Type, other: Type) -> Type | None:
    if not isinstance(other, Qty):
        return one if isinstance(one, Qty) else DECS[QTY_SCALE]
    if one is other:
        return DECS[QTY_SCALE]
    unit = divide_units(one.unit, other.unit) if isinstance(one, Qty) else None
    return None if unit is None else QTYS[unit]


def _get_scale(kind: Type) -> int:
    return kind.scale if isinstance(kind, Dec) else 0


_RESULT_TYPES: Final[Mapping[str, Callable[[Type, Type], Type | None]]] = {
    "+": _find_sum_type,
    "-": _find_sum_type,
    "*": _find_product_type,
    "/": _find_quotient_type,
}


def _report_no_product(
    checker: Checker, span: Span, op: str, left: tuple[Node | Span, Type], right: tuple[Node, Type]
) -> None:
    (_, one), (node, other) = left, right
    sides = (explain.note_side(checker, *left), explain.note_side(checker, *right))
    words = checker.quote(node)
    if isinstance(one, Qty) and isinstance(other, Qty):
        message = f"there is no unit for `{one.unit} {op} {other.unit}`"
        checker.error("unit-mismatch", span, message, _suggest_unit_conversion(one, op, other, words), *sides)
    elif isinstance(other, Qty):
        message = f"a number cannot be divided by a quantity in `{other.unit}`"
        checker.error("operands-disagree", span, message, f"divide by its number: `amount({words})`", *sides)
    else:
        factors = f"{checker.format_type(one)} and {checker.format_type(other)}"
        message = f"the product of {factors} has more than {MAX_SCALE} decimals"
        checker.error("scale-too-large", span, message, f"round first, for example `toDec(6, {words})`", *sides)


def _suggest_unit_conversion(one: Qty, op: str, other: Qty, words: str) -> str | None:
    """Suggest a unit for the right side that can be combined with the left one."""
    if op == "/" and find_conversion(other.unit, one.unit) is not None:
        return f'convert first: `convert("{other.unit}", "{one.unit}", {words})`'
    combine = multiply_units if op == "*" else divide_units
    for unit in list_convertible_units(other.unit):
        if combine(one.unit, unit) is not None:
            return f'convert first: `convert("{other.unit}", "{unit}", {words})`'
    return f"multiply by a number instead: `amount({words})`" if op == "*" else None


# Logic and prefixes


def _check_logic(
    checker: Checker, node: syntax.OperatorChain, nodes: list[Node], operands: list[typed.Expr | None]
) -> typed.Expr | None:
    op = node.links[0].op
    what = f"each side of `{op}`"
    bools: tuple[typed.Expr, ...] | None = require_all(
        [require_bool(checker, at, operand, what) for at, operand in zip(nodes, operands, strict=True)]
    )
    if bools is None:
        return None
    right = [typed.LogicOperand(expr, link.op_span) for expr, link in zip(bools[1:], node.links, strict=True)]
    return typed.Logic(BOOL, cast("Any", op), bools[0], tuple(right))


def require_bool(checker: Checker, node: Node, expr: typed.Expr | None, what: str) -> typed.Expr | None:
    """Require a checked expression to be a Bool; `what` names its place."""
    if expr is None or expr.type is BOOL:
        return expr
    hint = _suggest_bool(checker.quote(node), expr.type, checker.shared.language)
    explain.report_wrong_argument(checker, node, f"{what} must be a `Bool`", expr.type, hint)
    return None


def _suggest_bool(words: str, got: Type, language: int) -> str | None:
    if not isinstance(got, Opt):
        return None
    if got.item is BOOL:
        default = f"{words} ?? false" if language > 1 else f"unwrapOr({words}, false)"
        return f"give a default for a missing value: `{default}`"
    question = f"{words} is present" if language > 1 else f"isSome({words})"
    return f"check whether there is a value: `{question}`"


def check_unary(checker: Checker, node: syntax.Unary, _want: Type | None) -> typed.Expr | None:
    """Check a row of `!` and `-` from the inside out; a loop, because a row may be long."""
    prefixes = [node]
    while isinstance(prefixes[-1].operand, syntax.Unary):
        prefixes.append(prefixes[-1].operand)
    expr = checker.check(prefixes[-1].operand)
    for step in reversed(prefixes):
        if expr is None:
            return None
        expr = _check_prefix(checker, step, expr)
    return expr


def _check_prefix(checker: Checker, node: syntax.Unary, operand: typed.Expr) -> typed.Expr | None:
    kind = operand.type
    if node.op == "!":
        if kind is BOOL:
            return typed.TypedUnary(BOOL, "!", operand, node.op_span)
        needs, hint = "a `Bool`", _suggest_bool(checker.quote(node.operand), kind, checker.shared.language)
    else:
        if kind is INT or isinstance(kind, Dec | Qty):
            return typed.TypedUnary(kind, "neg", operand, node.op_span)
        needs, hint = "an Int, a Dec or a Qty", _suggest_for_number(checker, "-", kind)
    explain.report_wrong_argument(checker, node.operand, f"`{node.op}` needs {needs}", kind, hint)
    return None


# Comparisons


def check_comparison(checker: Checker, node: syntax.Comparison, _want: Type | None) -> typed.Expr | None:
    if _takes_type(checker, node.left) and not _takes_type(checker, node.right):
        right = None if is_undecided(node.right) else checker.check(node.right)
        left = _check_beside(checker, node.left, node.right, right)
    else:
        left = None if is_undecided(node.left) else checker.check(node.left)
        if is_undecided(node.right):
            right = None
        elif _takes_type(checker, node.right):
            right = _check_beside(checker, node.right, node.left, left)
        else:
            right = checker.check(node.right)
    if is_undecided(node.left) or is_undecided(node.right):
        left, right = _check_undecided_sides(checker, node, left, right)
    if left is None or right is None:
        return None
    operand_type = _name_compared_type(checker, node, left.type, right.type)
    if operand_type is None:
        return None
    return typed.TypedComparison(BOOL, cast("Any", node.op), operand_type, left, right, node.op_span)


def _takes_type(checker: Checker, node: Node) -> bool:
    """Whether a side takes its type from the other: a member of several enumerations, or `some(0)` beside a Dec."""
    return literals.is_ambiguous_member(checker, node) or _is_some_number(node)


def _is_some_number(node: Node) -> bool:
    return (
        isinstance(node, syntax.Call)
        and node.function.text == "some"
        and [type(argument) for argument in node.arguments] == [syntax.NumberLiteral]
    )


def _check_beside(checker: Checker, node: Node, other: Node, other_expr: typed.Expr | None) -> typed.Expr | None:
    """Check a side that takes its type from the other; a number only that of a Dec that may be absent."""
    kind = None if other_expr is None else other_expr.type
    if kind is None or (_is_some_number(node) and not (isinstance(kind, Opt) and isinstance(kind.item, Dec))):
        return checker.check(node)
    return checker.check_because(node, kind, (other, kind))


def _check_undecided_sides(
    checker: Checker, node: syntax.Comparison, left: typed.Expr | None, right: typed.Expr | None
) -> tuple[typed.Expr | None, typed.Expr | None]:
    """Check both sides; a side that is a literal takes its type from the other one."""
    if not is_undecided(node.right):
        return _check_literal_side(checker, node, node.left, node.right, right), right
    if not is_undecided(node.left):
        return left, _check_literal_side(checker, node, node.right, node.left, left)
    if isinstance(node.left, syntax.NumberLiteral) and isinstance(node.right, syntax.NumberLiteral):
        return _type_two_numbers(checker, node.left, node.right)
    # Neither side has a type: a number and `none`, or twice `none` or `[]`.
    other = node.right if isinstance(node.right, syntax.NumberLiteral) else node.left
    literal = node.right if other is node.left else node.left
    return None, _check_literal_side(checker, node, literal, other, checker.check(other))


def _type_two_numbers(
    checker: Checker, left: syntax.NumberLiteral, right: syntax.NumberLiteral
) -> tuple[typed.Expr | None, typed.Expr | None]:
    if not literals.check_number_bounds(checker, left) or not literals.check_number_bounds(checker, right):
        return None, None
    kind = literals.choose_number_type([left, right])
    return literals.type_beside(left, kind), literals.type_beside(right, kind)


def _check_literal_side(
    checker: Checker, node: syntax.Comparison, literal: Node, other: Node, other_expr: typed.Expr | None
) -> typed.Expr | None:
    """Check the literal side of a comparison whose other side is `other_expr`."""
    if other_expr is None:
        return None
    if isinstance(literal, syntax.NumberLiteral):
        return (
            literals.type_beside(literal, other_expr.type) if literals.check_number_bounds(checker, literal) else None
        )
    if node.op not in _EQUALITY:
        _report_not_ordered(
            checker, node.op, other.span, other_expr.type, _suggest_unwrapping(checker, other.span, other_expr.type)
        )
        return None
    return checker.check_because(literal, other_expr.type, (other, other_expr.type))


def _name_compared_type(checker: Checker, node: syntax.Comparison, one: Type, other: Type) -> str | None:
    """The name of the compared type in a proof; None if the sides cannot be compared, which is reported."""
    if not (one is other or (isinstance(one, Dec) and isinstance(other, Dec))):
        explain.report_disagreement(checker, node.op_span, node.op, (node.left, one), (node.right, other))
        return None
    if not check_comparable(checker, node.op, node.left.span, one, _suggest_unwrapping(checker, node.left.span, one)):
        return None
    return "Dec" if isinstance(one, Dec) else checker.types.to_text(one)


def check_comparable(checker: Checker, op: str, span: Span, kind: Type, hint: str | None = None) -> bool:
    """Whether `op` can compare values of a type; reports it otherwise, with `hint`."""
    if contains_fact_record(kind):
        message = f"{checker.format_type(kind)} cannot be compared: it contains fact records"
        checker.error("not-comparable", span, message, 'compare a member: `recordGet(…, "member")`')
        return False
    if op in _EQUALITY or kind is INT or kind is TEXT or kind is DATE or isinstance(kind, Dec | Qty):
        return True
    _report_not_ordered(checker, op, span, kind, hint)
    return False


def _suggest_unwrapping(checker: Checker, span: Span, kind: Type) -> str | None:
    if not isinstance(kind, Opt):
        return None
    return explain.suggest_conversion(checker.quote_span(span), kind, kind.item, checker.shared.language)


def _report_not_ordered(checker: Checker, op: str, span: Span, kind: Type, hint: str | None) -> None:
    message = f"`{op}` compares Int, Dec, Qty, Date and Text, but this is {checker.format_type(kind)}"
    checker.error("not-comparable", span, message, hint or "use `==` or `!=` for such values")
