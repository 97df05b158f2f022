"""Literals: a number takes the scale of the place it stands in, or keeps the one it is written with.

A literal fits Dec(n) if its value has at most n decimals; without a point it fits Int as well. It is never larger
than the language's numbers, nor has it more than 18 decimals.
"""

from bpc.core.facts import is_day
from bpc.core.rules import syntax, typed
from bpc.core.rules.checking.context import Checking
from bpc.core.rules.checking.explain import reason
from bpc.core.rules.checking.interning import DECS, QTYS
from bpc.core.rules.failure import MAGNITUDE_DIGITS
from bpc.core.rules.source import Span
from bpc.core.rules.types import BOOL, DATE, INT, MAX_DECLARED_SCALE, QTY_SCALE, TEXT, Dec, Opt, Qty, Type
from bpc.core.units import UNITS


def written_decimals(node: syntax.Number) -> int:
    return len(node.digits) - node.digits.index(".") - 1 if "." in node.digits else 0


def has_point(node: syntax.Number) -> bool:
    return "." in node.digits


def scaled(node: syntax.Number, scale: int) -> int:
    """The count of 10^-scale a literal stands for; its value has no more decimals than that."""
    whole, _, fraction = node.digits.partition(".")
    count = int(whole + fraction[:scale].ljust(scale, "0"))
    return -count if node.negative else count


def value_decimals(node: syntax.Number) -> int:
    """The decimals of the value: those written, without zeros at the end."""
    return len(node.digits.partition(".")[2].rstrip("0"))


def in_bounds(checking: Checking, node: syntax.Number) -> bool:
    """Whether a literal is a number of the language at all; reports it otherwise."""
    whole, _, fraction = node.digits.partition(".")
    if len(whole) > MAGNITUDE_DIGITS and len(whole.lstrip("0")) > MAGNITUDE_DIGITS:
        checking.error("number-too-large", node.span, "this number is not below 10^36")
        return False
    if len(fraction) > MAX_DECLARED_SCALE:
        checking.error(
            "scale-too-large",
            node.span,
            f"this number has {len(fraction)} decimals, and there are at most {MAX_DECLARED_SCALE}",
        )
        return False
    return True


def number(checking: Checking, node: syntax.Number, want: Type | None) -> typed.Expr | None:
    if not in_bounds(checking, node):
        return None
    if isinstance(want, Dec):
        if value_decimals(node) <= want.scale:
            return typed.Const(want, scaled(node, want.scale), node.span)
        _does_not_fit(checking, node, want)
        return None
    return own(node)


def own(node: syntax.Number) -> typed.Const:
    """A literal at the scale it is written with."""
    if "." in node.digits:
        scale = written_decimals(node)
        return typed.Const(DECS[scale], scaled(node, scale), node.span)
    return typed.Const(INT, scaled(node, 0), node.span)


def beside(node: syntax.Number, other: Type) -> typed.Const:
    """A literal compared with a value of type `other`: as written, and beside a Dec never an Int."""
    if isinstance(other, Dec) and "." not in node.digits:
        return typed.Const(DECS[0], scaled(node, 0), node.span)
    return own(node)


def _does_not_fit(checking: Checking, node: syntax.Number, want: Dec) -> None:
    has, room = counted(value_decimals(node), "decimal"), want.scale
    checking.error(
        "literal-does-not-fit",
        node.span,
        f"`{checking.quoted(node)}` has {has}, and {checking.shown(want)} has room for {room or 'none'}",
        hint=f"write fewer decimals, or round on purpose: `toDec({room}, {checking.quoted(node)})`",
        notes=(reason(checking),),
    )


def counted(number: int, thing: str) -> str:
    """`1 decimal`, `2 decimals`"""
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"


def text(_checking: Checking, node: syntax.Text, _want: Type | None) -> typed.Expr:
    return typed.Const(TEXT, node.value, node.span)


def truth(_checking: Checking, node: syntax.Truth, _want: Type | None) -> typed.Expr:
    return typed.Const(BOOL, node.value, node.span)


def nothing(checking: Checking, node: syntax.Nothing, want: Type | None) -> typed.Expr | None:
    if isinstance(want, Opt):
        return typed.Const(want, None, node.span)
    if want is None:
        type_not_known(checking, node.span, "none")
    else:
        checking.error(
            "wrong-type",
            node.span,
            f"`none` is an option, and {checking.shown(want)} is needed",
            hint=f"declare the type as `Opt({checking.types.text(want)})` if a value may be absent",
            notes=(reason(checking),),
        )
    return None


def type_not_known(checking: Checking, span: Span, word: str) -> None:
    if checking.is_declared:
        checking.error(
            "type-not-known",
            span,
            f"the type of `{word}` is not known here",
            hint="put it where the type is declared, or beside a value of that type",
        )


def day(checking: Checking, node: syntax.Day, _want: Type | None) -> typed.Expr | None:
    if not valid_day(checking, node.text.value, node.text.span):
        return None
    return typed.Const(DATE, node.text.value, node.span)


def valid_day(checking: Checking, written: str, span: Span) -> bool:
    if is_day(written):
        return True
    checking.error(
        "bad-date", span, f"`{written[:40]}` is not a day of the calendar", hint="a day is written like 2027-02-18"
    )
    return False


def quantity(checking: Checking, node: syntax.Quantity, _want: Type | None) -> typed.Expr | None:
    kind = unit(checking, node.unit.text, node.unit.span)
    if not in_bounds(checking, node.number) or kind is None:
        return None
    return typed.Const(kind, scaled(node.number, QTY_SCALE), node.span)


def unit(checking: Checking, name: str, span: Span) -> Qty | None:
    """The type of quantities in a unit, if there is such a unit."""
    known = QTYS.get(name)
    if known is None:
        checking.error(
            "unknown-unit",
            span,
            f"there is no unit `{name}`",
            hint=checking.shared.suggestions.help(name, UNITS) or f"the units are {', '.join(UNITS)}",
        )
    return known


def undecided(node: syntax.Expr) -> bool:
    """Whether an expression leaves its type to its neighbours: a number literal, `none` or `[]`."""
    return isinstance(node, syntax.Number | syntax.Nothing) or (isinstance(node, syntax.ListOf) and not node.items)


def largest(numbers: list[syntax.Number]) -> Type:
    """The type of literals among themselves: a Dec of the largest written scale, Int if none has a point."""
    pointed = [written_decimals(number) for number in numbers if has_point(number)]
    return DECS[max(pointed)] if pointed else INT
