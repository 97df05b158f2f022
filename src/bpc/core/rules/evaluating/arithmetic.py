"""Code for numbers: arithmetic, rounding, scales, comparison.

Pure. Numbers are integers that count 10^-scale; of two types, the code that computes is known before it runs. Whatever
is rounded is rounded half to even, and every result is checked to be below 10^36 unless it cannot be otherwise.
"""

from bpc.core.rules.evaluating.charging import charge_comparison
from bpc.core.rules.evaluating.emitting import Emission, Emitter, Operand
from bpc.core.rules.failure import MAGNITUDE_DIGITS
from bpc.core.rules.source import Span
from bpc.core.rules.typed import Arithmetic, Comparison, Step, Unary
from bpc.core.rules.types import QTY_SCALE, Dec, Qty, Type


def scale_of(kind: Type) -> int:
    if isinstance(kind, Dec):
        return kind.scale
    return QTY_SCALE if isinstance(kind, Qty) else 0


def literal(count: int) -> str:
    return str(count) if count >= 0 else f"({count})"


def scaled(atom: str, digits: int) -> str:
    """`atom` counted in units smaller by so many digits."""
    if digits == 0:
        return atom
    number = _number(atom)
    return f"{atom} * {10**digits}" if number is None else literal(number * 10**digits)


def rounded(emitter: Emitter, numerator: str, denominator: int) -> str:
    """`numerator` over a positive number, rounded half to even as `runtime.half` does."""
    if denominator == 1:
        return emitter.listing.kept(numerator)
    quotient, rest = emitter.listing.temporary(), emitter.listing.temporary()
    emitter.listing.line(f"{quotient}, {rest} = divmod({numerator}, {denominator})")
    middle, odd = divmod(denominator, 2)
    tie = "" if odd else f" or {rest} == {middle} and {quotient} & 1"
    emitter.listing.line(f"if {rest} > {middle}{tie}: {quotient} += 1")
    return quotient


def limited(emitter: Emitter, atom: str, scale: int, span: Span) -> str:
    most = _most(scale)
    low, high = emitter.listing.entry("m", -most, lambda: -most), emitter.listing.entry("m", most, lambda: most)
    emitter.listing.line(f"if not {low} < {atom} < {high}: {emitter.too_large(span)}")
    return atom


def _most(scale: int) -> int:
    most: int = 10 ** (MAGNITUDE_DIGITS + scale)
    return most


def unary(emitter: Emitter, expr: Unary) -> Emission:
    operand = yield expr.operand
    value = emitter.listing.kept(f"{'-' if expr.op == 'neg' else 'not '}{operand.value}")
    return emitter.op(expr.op, expr.type, value, (operand,))


def arithmetic(emitter: Emitter, expr: Arithmetic) -> Emission:
    so_far, kind = (yield expr.first), expr.first.type
    for step in expr.steps:
        operand = yield step.operand
        value = _computed(emitter, step, (so_far.value, kind), operand.value)
        so_far, kind = _limited_op(emitter, step, value, (so_far, operand)), step.type
    return so_far


def _limited_op(emitter: Emitter, step: Step, value: str, sides: tuple[Operand, Operand]) -> Operand:
    scale = scale_of(step.type)
    if emitter.proving:
        return Operand(value, emitter.limited_node(step, _most(scale), value, sides))
    return Operand(limited(emitter, value, scale, step.span))


def _computed(emitter: Emitter, step: Step, left: tuple[str, Type], right: str) -> str:
    atom, kind = left
    if step.op == "/":
        return _quotient(emitter, step, left, right)
    if step.op == "*":
        return _product(emitter, step, left, right)
    scale = scale_of(step.type)
    one, other = scaled(atom, scale - scale_of(kind)), scaled(right, scale - scale_of(step.operand.type))
    return emitter.listing.kept(f"{one} {step.op} {other}")


def _product(emitter: Emitter, step: Step, left: tuple[str, Type], right: str) -> str:
    """Exact, but a Qty keeps its 18 decimals."""
    atom, kind = left
    surplus = scale_of(kind) + scale_of(step.operand.type) - scale_of(step.type)
    return rounded(emitter, f"{atom} * {right}", 10**surplus)


def _quotient(emitter: Emitter, step: Step, left: tuple[str, Type], right: str) -> str:
    """To 18 decimals, of a Qty as of a plain number: the digits both sides have are not multiplied first."""
    atom, kind = left
    emitter.listing.line(f"if not {right}: {emitter.by_zero(step.span)}")
    digits = QTY_SCALE + scale_of(step.operand.type) - scale_of(kind)
    numerator, denominator = scaled(atom, max(digits, 0)), scaled(right, max(-digits, 0))
    known = _number(denominator)
    if known is not None and known > 0:
        return rounded(emitter, numerator, known)
    return emitter.listing.kept(f"half({numerator}, {denominator})")


def comparison(emitter: Emitter, expr: Comparison) -> Emission:
    left = yield expr.left
    right = yield expr.right
    if expr.op in {"==", "!="}:
        charge_comparison(emitter, left.value, expr.left.type, expr.span)
    scale = max(scale_of(expr.left.type), scale_of(expr.right.type))
    one = scaled(left.value, scale - scale_of(expr.left.type))
    other = scaled(right.value, scale - scale_of(expr.right.type))
    value = emitter.listing.kept(f"{one} {expr.op} {other}")
    return emitter.op(expr.op, expr.type, value, (left, right), of=expr.of)


def _number(atom: str) -> int | None:
    """The number an atom is, if it is one and no name."""
    digits = atom.strip("(-)")
    if not digits or digits[0] not in "0123456789":
        return None
    return -int(digits) if atom.startswith("(") else int(digits)
