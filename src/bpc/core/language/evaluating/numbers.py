"""Code for numbers: operators, comparisons, rounding and the limit of magnitude.

Pure. Numbers are integers that count 10^-scale. All rounding is half to even, and every result is checked to be below
10^36 unless it cannot be otherwise.
"""

from bpc.core.language import typed
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode
from bpc.core.language.evaluation import (
    MAGNITUDE_DIGITS,
    MAGNITUDE_MESSAGE,
    ZERO_MESSAGE,
    DivisionByZero,
    RuleLimitExceeded,
)
from bpc.core.language.source import Span
from bpc.core.language.types import QTY_SCALE, Dec, Qty, Type


def get_scale(kind: Type) -> int:
    if isinstance(kind, Dec):
        return kind.scale
    return QTY_SCALE if isinstance(kind, Qty) else 0


def format_literal(count: int) -> str:
    return str(count) if count >= 0 else f"({count})"


def format_scaled(atom: str, digits: int) -> str:
    """`atom` counted in units smaller by so many digits."""
    if digits == 0:
        return atom
    number = _parse_number(atom)
    return f"{atom} * {10**digits}" if number is None else format_literal(number * 10**digits)


def emit_rounding(emitter: Emitter, numerator: str, denominator: int) -> str:
    """`numerator` over a positive number, rounded half to even as `runtime.half` does."""
    if denominator == 1:
        return emitter.code.store(numerator)
    quotient, remainder = emitter.code.create_temporary(), emitter.code.create_temporary()
    emitter.code.write_line(f"{quotient}, {remainder} = divmod({numerator}, {denominator})")
    middle, odd = divmod(denominator, 2)
    tie = "" if odd else f" or {remainder} == {middle} and {quotient} & 1"
    emitter.code.write_line(f"if {remainder} > {middle}{tie}: {quotient} += 1")
    return quotient


def emit_limit_check(emitter: Emitter, atom: str, scale: int, span: Span) -> str:
    limit = _compute_limit(scale)
    low, high = emitter.code.register("m", -limit, lambda: -limit), emitter.code.register("m", limit, lambda: limit)
    emitter.code.write_line(
        f"if not {low} < {atom} < {high}: {emitter.format_raise(span, RuleLimitExceeded, MAGNITUDE_MESSAGE)}"
    )
    return atom


def _compute_limit(scale: int) -> int:
    limit: int = 10 ** (MAGNITUDE_DIGITS + scale)
    return limit


def emit_unary(emitter: Emitter, expr: typed.TypedUnary) -> Emission:
    operand = yield expr.operand
    value = emitter.code.store(f"{'-' if expr.op == 'neg' else 'not '}{operand.value}")
    return emitter.emit_op(expr.op, expr.type, value, (operand,))


def emit_arithmetic(emitter: Emitter, expr: typed.Arithmetic) -> Emission:
    result, kind = (yield expr.first), expr.first.type
    for step in expr.steps:
        operand = yield step.operand
        value = _emit_step(emitter, step, (result.value, kind), operand.value)
        result, kind = _emit_limited_result(emitter, step, value, (result, operand)), step.type
    return result


def _emit_limited_result(
    emitter: Emitter, step: typed.ArithmeticStep, value: str, sides: tuple[OperandCode, OperandCode]
) -> OperandCode:
    scale = get_scale(step.type)
    if emitter.proving:
        return OperandCode(value, emitter.emit_limited_node(step, _compute_limit(scale), value, sides))
    return OperandCode(emit_limit_check(emitter, value, scale, step.span))


def _emit_step(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    atom, kind = left
    if step.op == "/":
        return _emit_quotient(emitter, step, left, right)
    if step.op == "*":
        return _emit_product(emitter, step, left, right)
    scale = get_scale(step.type)
    left_text = format_scaled(atom, scale - get_scale(kind))
    right_text = format_scaled(right, scale - get_scale(step.operand.type))
    return emitter.code.store(f"{left_text} {step.op} {right_text}")


def _emit_product(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    """Exact, but a Qty keeps its 18 decimals."""
    atom, kind = left
    surplus = get_scale(kind) + get_scale(step.operand.type) - get_scale(step.type)
    return emit_rounding(emitter, f"{atom} * {right}", 10**surplus)


def _emit_quotient(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    """To 18 decimals, of a Qty as of a plain number: the digits both sides have are not multiplied first."""
    atom, kind = left
    emitter.code.write_line(f"if not {right}: {emitter.format_raise(step.span, DivisionByZero, ZERO_MESSAGE)}")
    digits = QTY_SCALE + get_scale(step.operand.type) - get_scale(kind)
    numerator, denominator = format_scaled(atom, max(digits, 0)), format_scaled(right, max(-digits, 0))
    known_divisor = _parse_number(denominator)
    if known_divisor is not None and known_divisor > 0:
        return emit_rounding(emitter, numerator, known_divisor)
    return emitter.code.store(f"half({numerator}, {denominator})")


def emit_comparison(emitter: Emitter, expr: typed.TypedComparison) -> Emission:
    left = yield expr.left
    right = yield expr.right
    if expr.op in {"==", "!="}:
        emitter.charge_comparison(left.value, expr.left.type, expr.span)
    scale = max(get_scale(expr.left.type), get_scale(expr.right.type))
    left_text = format_scaled(left.value, scale - get_scale(expr.left.type))
    right_text = format_scaled(right.value, scale - get_scale(expr.right.type))
    value = emitter.code.store(f"{left_text} {expr.op} {right_text}")
    return emitter.emit_op(expr.op, expr.type, value, (left, right), of=expr.operand_type)


def _parse_number(atom: str) -> int | None:
    """The number an atom is, if it is one and no name."""
    digits = atom.strip("(-)")
    if not digits or digits[0] not in "0123456789":
        return None
    return -int(digits) if atom.startswith("(") else int(digits)
