"""Constants of expectations: values written out, typed by the field they are compared with.

A number beside a Dec may have any scale, as in a comparison; inside a list, record or option it takes the scale of
the type it stands for.
"""

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import literals
from bpc.core.rules.checking.context import Checking
from bpc.core.rules.checking.explain import duplicate_member, reason
from bpc.core.rules.source import Span
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Qty, Record, Type


class _Wrong(Exception):
    """A constant that was reported; never leaves this file."""


def constant(checking: Checking, node: syntax.Constant, kind: Type) -> typed.Const | None:
    """The constant a field of type `kind` is compared with; None after a mistake that was reported."""
    try:
        if isinstance(node, syntax.Number) and isinstance(kind, Dec):
            return literals.beside(node, kind) if literals.in_bounds(checking, node) else None
        return typed.Const(kind, _value(checking, node, kind), node.span)
    except _Wrong:
        return None


def _value(checking: Checking, node: syntax.Constant, kind: Type) -> typed.Value:
    match node, kind:
        case syntax.Nothing(), Opt():
            return None
        case syntax.SomeConstant(item), Opt(inner):
            return _value(checking, item, inner)
        case syntax.ListConstant(items), List(inner):
            return [_value(checking, item, inner) for item in items]
        case syntax.RecordConstant(), Record():
            return _record(checking, node, kind)
        case _:
            return _scalar(checking, node, kind)


def _scalar(checking: Checking, node: syntax.Constant, kind: Type) -> typed.Value:
    match node:
        case syntax.Number():
            made = literals.number(checking, node, kind)
        case syntax.Text():
            made = literals.text(checking, node, kind)
        case syntax.Truth():
            made = literals.truth(checking, node, kind)
        case syntax.Day():
            made = literals.day(checking, node, kind)
        case syntax.Quantity():
            made = literals.quantity(checking, node, kind)
        case _:
            _other_kind(checking, node, kind)
            raise _Wrong
    if not isinstance(made, typed.Const):
        raise _Wrong
    if made.type is not kind:
        _other_type(checking, node, made.type, kind)
        raise _Wrong
    return made.value


def _other_type(checking: Checking, node: syntax.Constant, got: Type, kind: Type) -> None:
    same_sort = isinstance(got, Qty) and isinstance(kind, Qty)
    checking.error(
        "unit-mismatch" if same_sort else "wrong-type",
        node.span,
        f"this is {checking.shown(got)}, and {checking.shown(kind)} is expected",
        hint=_written_as(kind),
        notes=(reason(checking),),
    )


def _other_kind(checking: Checking, node: syntax.Constant, kind: Type) -> None:
    names = {
        syntax.Nothing: "`none`",
        syntax.SomeConstant: "`some(…)`",
        syntax.ListConstant: "a list",
        syntax.RecordConstant: "a record",
    }
    checking.error(
        "wrong-type",
        node.span,
        f"this is {names[type(node)]}, and {checking.shown(kind)} is expected",
        hint=_written_as(kind),
        notes=(reason(checking),),
    )


def _written_as(kind: Type) -> str | None:
    """How a constant of a type is written."""
    scalars = {BOOL: "`true` or `false`", INT: "`42`", TEXT: '`"text"`', DATE: '`date("2027-02-18")`'}
    match kind:
        case Dec():
            example: str | None = "`75.5`"
        case Qty(unit):
            example = f"`qty(75.5, {unit})`"
        case Opt():
            example = "`none` or `some(…)`"
        case List():
            example = "`[…, …]`"
        case Record(members):
            example = f"`{{ {members[0][0]}: …, … }}`"
        case Map():
            return "a Map cannot be written out; expect something of a field that reads it"
        case _:
            example = next((text for scalar, text in scalars.items() if scalar is kind), None)
    return None if example is None else f"it is written like {example}"


def _record(checking: Checking, node: syntax.RecordConstant, kind: Record) -> typed.Value:
    given: dict[str, syntax.Constant] = {}
    spans: dict[str, Span] = {}
    for name, item in node.members:
        if name.text in given:
            duplicate_member(checking, name, spans[name.text])
            raise _Wrong
        given[name.text], spans[name.text] = item, name.span
    known = dict(kind.members)
    for name, _ in node.members:
        if name.text not in known:
            checking.error(
                "unknown-member",
                name.span,
                f"the record that is expected has no member `{name.text}`",
                hint=checking.shared.suggestions.help(name.text, [each for each in known if each not in given]),
                notes=(reason(checking),),
            )
            raise _Wrong
    missing = next((name for name in known if name not in given), None)
    if missing is not None:
        checking.error(
            "wrong-type",
            node.span,
            f"the record has no member `{missing}`",
            hint=f"add `{missing}: …`",
            notes=(reason(checking),),
        )
        raise _Wrong
    return {name: _value(checking, given[name], item) for name, item in kind.members}
