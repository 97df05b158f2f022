"""Messages about types that do not go together: what each side is, where it got that from, and a way out.

Nothing here decides whether something is a mistake; it is called when that is known.
"""

import re
from typing import Final

from bpc.core.rules import syntax
from bpc.core.rules.checking.context import Checking, Mismatch, Node
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import (
    DATE,
    INT,
    MAX_DECLARED_SCALE,
    QTY_SCALE,
    TEXT,
    Dec,
    Fact,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
)
from bpc.core.units import conversion

# A type that travelled through more lets than this is shown where it arrived.
_HOPS: Final = 20
_NUMBER: Final = re.compile("-?[0-9]+([.][0-9]+)?")
_QUOTED_NUMBER: Final = re.compile('"(-?[0-9]+([.][0-9]+)?)"')
_UNWRAPPING: Final = frozenset({"requireSome", "unwrapOr"})


def mismatch(checking: Checking, found: Mismatch, want: Type | None) -> None:
    """An expression of type `found.got` where `want` is needed."""
    if want is None:
        return
    node, got = found.node, found.got
    origin = origin_of(checking, node, got)
    notes = (reason(checking), origin if origin.span != node.span else None)
    if isinstance(want, Qty) and isinstance(got, Qty):
        wrong_unit(checking, node.span, got, want, checking.quoted(node), notes)
        return
    checking.error(
        "int-for-dec" if got is INT and isinstance(want, Dec) else "wrong-type",
        node.span,
        f"this is {checking.shown(got)}, and {checking.shown(want)} is needed",
        hint=way_out(checking.quoted(node), got, want),
        notes=notes,
    )


def reason(checking: Checking) -> Note | None:
    """Where the type that is wanted comes from."""
    because = checking.because
    if because is None or isinstance(because, Note):
        return because
    node, kind = because
    origin = origin_of(checking, node, kind)
    if origin.span != node.span:
        return origin
    return Note(node.span, f"this is {checking.shown(kind)}, and the others must be too")


def duplicate_member(checking: Checking, name: syntax.Name | syntax.Text, first: Span) -> None:
    """A member that was named before, at `first`."""
    word = name.text if isinstance(name, syntax.Name) else name.value
    checking.error(
        "duplicate-member",
        name.span,
        f"the member `{word[:80]}` is named twice",
        notes=(Note(first, "it is first named here"),),
    )


def wrong_unit(
    checking: Checking, span: Span, got: Qty, want: Qty, words: str, notes: tuple[Note | None, ...] = ()
) -> None:
    converts = conversion(got.unit, want.unit) is not None
    checking.error(
        "unit-mismatch",
        span,
        f"this is in `{got.unit}`, and `{want.unit}` is needed",
        hint=f'convert it: `convert("{got.unit}", "{want.unit}", {words})`'
        if converts
        else f"`{got.unit}` and `{want.unit}` do not convert into each other",
        notes=notes,
    )


def way_out(words: str, got: Type, want: Type) -> str | None:
    """How a value of type `got`, written as `words`, becomes one of type `want`."""
    if isinstance(want, Opt):
        fits = want.item is got or (isinstance(want.item, Dec) and _NUMBER.fullmatch(words))
        return f"wrap it: `some({words})`" if fits else None
    if isinstance(got, Opt):
        return f'unwrap it: `requireSome({words}, "CODE", "message")` or `unwrapOr({words}, …)`'
    if (want is INT or isinstance(want, Dec)) and (number := _QUOTED_NUMBER.fullmatch(words)):
        return f"a number is written without quotes: `{number[1]}`"
    if isinstance(want, Dec):
        return _to_dec(words, got, want.scale) if want.scale <= MAX_DECLARED_SCALE else None
    return _other_way_out(words, got, want)


def _to_dec(words: str, got: Type, scale: int) -> str | None:
    if isinstance(got, Dec):
        change = f"rounds it to {scale}" if got.scale > scale else f"gives it {scale}"
        return f"`toDec({scale}, {words})` {change} decimals"
    if isinstance(got, Qty):
        number = f"amount({words})"
        return f"take its number: `{number if scale == QTY_SCALE else f'toDec({scale}, {number})'}`"
    return f"make it a Dec: `toDec({scale}, {words})`" if got is INT else None


def _other_way_out(words: str, got: Type, want: Type) -> str | None:
    if isinstance(want, Qty) and (got is INT or isinstance(got, Dec)):
        return _quantity(words, want.unit)
    if want is DATE and words.startswith('"'):
        return f"a day is written as `date({words})`"
    if isinstance(want, Map):
        return "a Map comes from facts only; what is written out is a Record"
    if isinstance(got, Fact | Record) and not isinstance(want, Record | List):
        return f'read one of its members: `recordGet({words}, "member")`'
    if isinstance(got, Dec) and want is INT:
        return f"there is no way from Dec to Int; declare a `Dec({got.scale})`, or round to whole numbers: `Dec(0)`"
    return None


def _quantity(words: str, unit: str) -> str:
    if _NUMBER.fullmatch(words):
        return f"give it a unit: `qty({words}, {unit})`"
    return f'give it a unit: `toQty("{unit}", {words})`'


def origin_of(checking: Checking, node: Node, kind: Type) -> Note:
    """Where an expression got its type: the declaration, fact member or let that gave it, else the expression."""
    shown = checking.shown(kind)
    at = node
    for _ in range(_HOPS):
        step = _giver(checking, at)
        if step is None:
            break
        at = step
    match at:
        case syntax.FieldRef(path) if checking.in_rules and path.value in checking.fields:
            return Note(checking.fields[path.value].type_span, f"`{path.value}` is declared {shown} here")
        case syntax.Call(syntax.Name("recordGet"), (_, syntax.Text(member) as name)):
            return Note(name.span, f"the member `{member}` is {shown}")
        case syntax.Variable(name):
            variable = checking.scope.names.get(name)
            if variable is not None and variable.by != "let":
                return Note(variable.span, f"`{name}` is {shown}")
        case _:
            pass
    return _arrived(checking, node, shown)


def _giver(checking: Checking, node: Node) -> Node | None:
    """The expression a variable or an unwrapped option has its type from."""
    match node:
        case syntax.Variable(name):
            variable = checking.scope.names.get(name)
            return variable.value if variable is not None and variable.by == "let" else None
        case syntax.Call(syntax.Name(function), (option, *_)) if function in _UNWRAPPING:
            return option
        case syntax.Block(_, body):
            return body
        case _:
            return None


def _arrived(checking: Checking, node: Node, shown: str) -> Note:
    """No declaration in sight: the let of a variable, or the expression itself."""
    if isinstance(node, syntax.Variable):
        variable = checking.scope.names.get(node.name)
        if variable is not None:
            return Note(variable.span, f"`{node.name}` is {shown}")
    return Note(node.span, f"this is {shown}")


def disagreement(
    checking: Checking, span: Span, op: str, left: tuple[Node | Span, Type], right: tuple[Node | Span, Type]
) -> None:
    """Two operands of `+ -` or of a comparison that do not go together."""
    notes = (_side(checking, *left), _side(checking, *right))
    one, other = left[1], right[1]
    if isinstance(one, Qty) and isinstance(other, Qty):
        checking.error(
            "unit-mismatch",
            span,
            f"`{op}` has `{one.unit}` on its left and `{other.unit}` on its right",
            hint=_convert_help(one, other, _words(checking, left[0]), _words(checking, right[0])),
            notes=notes,
        )
        return
    checking.error(
        "int-for-dec" if {one is INT, other is INT} == {True, False} and _is_dec(one, other) else "operands-disagree",
        span,
        f"`{op}` has {checking.shown(one)} on its left and {checking.shown(other)} on its right",
        hint=_operand_help(_words(checking, left[0]), one, _words(checking, right[0]), other),
        notes=notes,
    )


def _is_dec(one: Type, other: Type) -> bool:
    return isinstance(one, Dec) or isinstance(other, Dec)


def _side(checking: Checking, at: Node | Span, kind: Type) -> Note:
    if isinstance(at, Span):
        return Note(at, f"this is {checking.shown(kind)}")
    return origin_of(checking, at, kind)


def _words(checking: Checking, at: Node | Span) -> str:
    return checking.quoted_span(at if isinstance(at, Span) else at.span)


def _convert_help(one: Qty, other: Qty, left: str, right: str) -> str:
    if conversion(one.unit, other.unit) is None:
        return f"`{one.unit}` and `{other.unit}` do not convert into each other"
    if right == "…" and left != "…":
        return f'convert one of them: `convert("{one.unit}", "{other.unit}", {left})`'
    return f'convert one of them: `convert("{other.unit}", "{one.unit}", {right})`'


def _operand_help(left: str, one: Type, right: str, other: Type) -> str | None:
    """Make the less exact side like the other; unwrap the side that is an option."""
    if isinstance(one, Opt) or isinstance(other, Opt):
        return way_out(left, one, other) if isinstance(one, Opt) else way_out(right, other, one)
    if isinstance(one, Dec) and isinstance(other, Dec):
        return _one_scale(left, one.scale, right, other.scale)
    if one is INT or one is TEXT or (isinstance(one, Dec) and other is not INT):
        return way_out(left, one, other)
    return way_out(right, other, one)


def _one_scale(left: str, one: int, right: str, other: int) -> str:
    if max(one, other) > MAX_DECLARED_SCALE:
        words, scale = (left, other) if one > other else (right, one)
        scale = min(scale, MAX_DECLARED_SCALE)
    else:
        words, scale = (left, other) if one < other else (right, one)
    return f"give both one scale: `toDec({scale}, {words})`"
