"""Expressions: names, lists, records, `if` and blocks, and the table that says who checks what.

syntax.Expr ── check(checking, node, want) ──► typed.Expr, or None after a mistake that was reported
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import comparisons, functions, literals, loops, operators
from bpc.core.rules.checking.context import Checking, Handler, Mismatch, Node
from bpc.core.rules.checking.explain import duplicate_member, mismatch, reason
from bpc.core.rules.checking.interning import holds_fact
from bpc.core.rules.checking.scope import Variable
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import List, Record, Type

_SHOWN_PATHS: Final = 3
# What other languages call them.
_MEANT: Final = {
    **dict.fromkeys(("null", "nil", "None", "undefined"), "the missing value is written `none`"),
    "True": "it is written `true`",
    "False": "it is written `false`",
}

# Names


def variable(checking: Checking, node: syntax.Variable, _want: Type | None) -> typed.Expr | None:
    found = checking.scope.mention(node.name, node.span.start)
    if found is not None:
        return None if found.type is None else typed.Local(found.type, node.name, node.span)
    checking.error(
        "unknown-variable",
        node.span,
        f"there is no variable `{node.name}` here",
        hint=_variable_help(checking, node.name),
    )
    return None


def _variable_help(checking: Checking, name: str) -> str | None:
    if name in checking.fields:
        return f'a field is read with `field("{name}")`'
    if name in functions.FUNCTIONS:
        return f"a function is called with parentheses: `{name}(…)`"
    if name in _MEANT:
        return _MEANT[name]
    return checking.shared.suggestions.help(name, checking.scope.names)


def field_ref(checking: Checking, node: syntax.FieldRef, _want: Type | None) -> typed.Expr | None:
    path = node.path.value
    declared = checking.fields.get(path)
    if declared is None:
        unknown_field(checking, path, node.path.span)
        return None
    checking.reads.setdefault(path, node.span)
    return None if declared.type is None else typed.FieldValue(declared.type, path, node.span)


def unknown_field(checking: Checking, path: str, span: Span) -> None:
    inside = checking.shared.inside(path)
    if inside:
        hint = f"name one of the fields in it: {_some_of(inside)}"
        checking.error("unknown-field", span, f"`{path}` is a group of fields, not a field", hint=hint)
        return
    checking.error(
        "unknown-field",
        span,
        f"there is no field `{path[:80]}`",
        hint=checking.shared.suggestions.help(path, checking.fields),
    )


def _some_of(paths: Sequence[str]) -> str:
    shown = ", ".join(f"`{path}`" for path in paths[:_SHOWN_PATHS])
    return f"{shown} and {len(paths) - _SHOWN_PATHS:,} more" if len(paths) > _SHOWN_PATHS else shown


# Lists and records


def list_of(checking: Checking, node: syntax.ListOf, want: Type | None) -> typed.Expr | None:
    wanted = want.item if isinstance(want, List) else None
    if not node.items:
        return _empty_list(checking, node, want)
    kind, items = agreeing(checking, node.items, wanted)
    if kind is None:
        return None
    made = checking.sized(checking.types.list(kind), node.span)
    return None if made is None else typed.ListOf(made, items, node.span)


def _empty_list(checking: Checking, node: syntax.ListOf, want: Type | None) -> typed.Expr | None:
    if isinstance(want, List):
        return typed.ListOf(want, (), node.span)
    if want is None:
        literals.type_not_known(checking, node.span, "[]")
    else:
        checking.error(
            "wrong-type",
            node.span,
            f"`[]` is a list, and {checking.shown(want)} is needed",
            notes=(reason(checking),),
        )
    return None


def agreeing(
    checking: Checking, nodes: Sequence[Node], want: Type | None
) -> tuple[Type | None, tuple[typed.Expr, ...]]:
    """Expressions that must have one type: the one wanted, or that of the first that is not undecided."""
    if want is not None:
        return _all(want, list(map(checking.check, nodes, repeat(want))))
    outer = checking.because
    first = next((index for index, node in enumerate(nodes) if not literals.undecided(node)), len(nodes))
    given = list(map(checking.check, nodes[first : first + 1]))
    kind = _decided(checking, nodes, first, given)
    rest = nodes[first + 1 :]
    if kind is None:
        # Nothing is known about the others, but what is wrong within them is still worth saying.
        given += map(checking.check, [node for node in rest if not literals.undecided(node)])
        return None, ()
    before = list(map(checking.check, nodes[:first], repeat(kind)))
    after = list(map(checking.check, rest, repeat(kind)))
    checking.because = outer
    return _all(kind, [*before, *given, *after])


def _decided(checking: Checking, nodes: Sequence[Node], first: int, given: Sequence[typed.Expr | None]) -> Type | None:
    """The type all must have, which is then the reason for complaints about the others."""
    if not given:
        return _of_undecided(checking, nodes)
    if given[0] is None:
        return None
    checking.because = (nodes[first], given[0].type)
    return given[0].type


def _all(kind: Type, made: Sequence[typed.Expr | None]) -> tuple[Type | None, tuple[typed.Expr, ...]]:
    right = tuple([item for item in made if item is not None])
    return (kind, right) if len(right) == len(made) else (None, ())


def _of_undecided(checking: Checking, nodes: Sequence[Node]) -> Type | None:
    """Only numbers, `none` and `[]`: the numbers decide, and without them nothing does."""
    numbers = [node for node in nodes if isinstance(node, syntax.Number)]
    if not numbers:
        checking.check(nodes[0])  # says that its type is not known
        return None
    if not all(map(literals.in_bounds, repeat(checking), numbers)):
        return None
    kind = literals.largest(numbers)
    checking.because = Note(numbers[0].span, f"the numbers here are {checking.shown(kind)}")
    return kind


def record_of(checking: Checking, node: syntax.RecordOf, want: Type | None) -> typed.Expr | None:
    members = _distinct(checking, node)
    wanted: Mapping[str, Type] = dict(want.members) if isinstance(want, Record) else {}
    same = not wanted or _same_names(checking, node, wanted)
    made = list(map(checking.check, members.values(), map(wanted.get, members)))
    right = {
        name: value
        for name, value in zip(members, made, strict=True)
        if value is not None and _may_be_member(checking, name, members[name], value.type)
    }
    if not same or len(right) < len(node.members):
        return None
    kind = checking.sized(checking.types.record({name: value.type for name, value in right.items()}), node.span)
    return None if kind is None else typed.RecordOf(kind, tuple(right.items()), node.span)


def _may_be_member(checking: Checking, name: str, node: Node, kind: Type) -> bool:
    if not holds_fact(kind):
        return True
    checking.error(
        "fact-record-misplaced",
        node.span,
        f"the member `{name}` would be {checking.shown(kind)}, and a record holds no records of facts",
        hint='take what you need of it: `recordGet(…, "member")`',
    )
    return False


def _distinct(checking: Checking, node: syntax.RecordOf) -> dict[str, Node]:
    members: dict[str, Node] = {}
    spans: dict[str, Span] = {}
    for name, value in node.members:
        if name.text in members:
            duplicate_member(checking, name, spans[name.text])
        else:
            members[name.text] = value
            spans[name.text] = name.span
    return members


def _same_names(checking: Checking, node: syntax.RecordOf, wanted: Mapping[str, Type]) -> bool:
    """Whether a record literal has exactly the members wanted; says which are missing or not known."""
    given = {name.text for name, _ in node.members}
    unknown = [name for name, _ in node.members if name.text not in wanted]
    missing = [name for name in wanted if name not in given]
    for name in unknown:
        checking.error(
            "unknown-member",
            name.span,
            f"the record that is needed here has no member `{name.text}`",
            hint=checking.shared.suggestions.help(name.text, missing or wanted),
            notes=(reason(checking),),
        )
    if missing and not unknown:
        checking.error(
            "wrong-type",
            node.span,
            f"the record has no {_listed(missing)}, and {'they are' if len(missing) > 1 else 'it is'} needed here",
            hint=f"add `{missing[0]}: …`",
            notes=(reason(checking),),
        )
    return not unknown and not missing


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:5])
    return f"{shown} and {len(names) - 5} more members" if len(names) > 5 else f"member {shown}"


# `if` and blocks


def choice(checking: Checking, node: syntax.If, want: Type | None) -> typed.Expr | None:
    asked = list(map(checking.check, [branch.condition for branch in node.branches]))
    kind, bodies = agreeing(checking, [*[branch.body for branch in node.branches], node.otherwise], want)
    conditions = [
        operators.truth(checking, branch.condition, made, "the condition of `if`")
        for branch, made in zip(node.branches, asked, strict=True)
    ]
    if kind is None:
        return None
    branches = tuple(
        [
            typed.Branch(condition, body, branch.span)
            for condition, body, branch in zip(conditions, bodies[:-1], node.branches, strict=True)
            if condition is not None
        ]
    )
    return typed.Choice(kind, branches, bodies[-1]) if len(branches) == len(conditions) else None


def block(checking: Checking, node: syntax.Block, want: Type | None) -> typed.Expr | None:
    errors = len(checking.findings.errors)
    bindings: list[typed.Bind | typed.Check] = []
    bound: list[tuple[str, Variable, Variable | None]] = []
    for binding in node.bindings:
        if isinstance(binding, syntax.Assert):
            asked = checking.check(binding.condition)
            condition = operators.truth(checking, binding.condition, asked, "the condition of `assert`")
            if condition is not None:
                bindings.append(typed.Check(condition, binding.code.value, binding.message.value, binding.span))
            continue
        value = checking.check(binding.value)
        made = Variable(
            None if value is None else value.type, binding.name.span, "let", binding.value, checking.scope.level
        )
        bound.append((binding.name.text, made, loops.bind(checking, binding.name, made)))
        if value is not None:
            bindings.append(typed.Bind(binding.name.text, value, binding.name.span))
    body = checking.check(node.body, want)
    _leave(checking, bound, warn=len(checking.findings.errors) == errors)
    if body is None or len(bindings) < len(node.bindings):
        return None
    return typed.Block(body.type, tuple(bindings), body)


def _leave(checking: Checking, bound: list[tuple[str, Variable, Variable | None]], *, warn: bool) -> None:
    """Take a block's names out again. An expression with mistakes may not have come to use them all."""
    for name, _, before in reversed(bound):
        checking.scope.unbind(name, before)
    for name, made, _ in bound:
        if warn and not made.used and not name.startswith("_"):
            checking.findings.warning(
                "unused-let",
                made.span,
                f"nothing uses `{name}`",
                hint=f"take it out, or call it `_{name}` if it is there for its checks",
            )


def misplaced_lambda(_checking: Checking, _node: syntax.Lambda, _want: Type | None) -> typed.Expr | None:
    """Parsing has reported it."""
    return None


HANDLERS: Final[Mapping[type, Handler]] = {
    syntax.Number: literals.number,
    syntax.Text: literals.text,
    syntax.Truth: literals.truth,
    syntax.Nothing: literals.nothing,
    syntax.Day: literals.day,
    syntax.Quantity: literals.quantity,
    syntax.FieldRef: field_ref,
    syntax.Variable: variable,
    syntax.Lambda: misplaced_lambda,
    syntax.Call: functions.call,
    syntax.ListOf: list_of,
    syntax.RecordOf: record_of,
    syntax.Unary: operators.unary,
    syntax.Chain: operators.chain,
    syntax.Comparison: comparisons.comparison,
    syntax.If: choice,
    syntax.Block: block,
    Mismatch: mismatch,
}
