"""Types as they are written in rules and tests, made into the types they name."""

from bpc.core.rules import syntax
from bpc.core.rules.checking import literals
from bpc.core.rules.checking.context import Checking
from bpc.core.rules.checking.explain import duplicate_member
from bpc.core.rules.checking.interning import DECS, SCALARS
from bpc.core.rules.source import Span
from bpc.core.rules.types import MAX_DECLARED_SCALE, Opt, Record, Type


def written_type(checking: Checking, node: syntax.TypeExpr) -> Type | None:
    """The type, or None after a mistake that was reported."""
    kind = _read(checking, node)
    return None if kind is None else checking.sized(kind, node.span)


def _read(checking: Checking, node: syntax.TypeExpr) -> Type | None:
    match node:
        case syntax.SimpleType(name):
            return SCALARS[name]
        case syntax.DecType(scale):
            return _dec(checking, scale, node.span)
        case syntax.QtyType(unit):
            return literals.unit(checking, unit.text, unit.span)
        case syntax.RecordType():
            return _record(checking, node)
        case syntax.OptType(item) | syntax.ListType(item) | syntax.MapType(item):
            inner = _read(checking, item)
            return None if inner is None else _holding(checking, node, inner)


def _dec(checking: Checking, scale: int, span: Span) -> Type | None:
    if scale <= MAX_DECLARED_SCALE:
        return DECS[scale]
    checking.error("scale-too-large", span, f"a Dec has at most {MAX_DECLARED_SCALE} decimals")
    return None


def _holding(checking: Checking, node: syntax.OptType | syntax.ListType | syntax.MapType, item: Type) -> Type | None:
    if isinstance(node, syntax.ListType):
        return checking.types.list(item)
    if isinstance(node, syntax.MapType):
        return checking.types.map(item)
    if not isinstance(item, Opt):
        return checking.types.opt(item)
    checking.error("nested-option", node.span, "an option holds no option", hint=f"write `{checking.types.text(item)}`")
    return None


def _record(checking: Checking, node: syntax.RecordType) -> Record | None:
    members: dict[str, Type | None] = {}
    spans: dict[str, Span] = {}
    for name, item in node.members:
        kind = _read(checking, item)
        if name.text in members:
            duplicate_member(checking, name, spans[name.text])
            kind = None
        members[name.text] = kind
        spans.setdefault(name.text, name.span)
    known = {name: kind for name, kind in members.items() if kind is not None}
    return checking.types.record(known) if len(known) == len(members) else None
