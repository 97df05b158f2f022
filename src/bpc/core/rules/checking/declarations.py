"""Rules: what the fields are called and declared as, then what each computes, then in which order.

Declarations are read before any body, so a body with mistakes leaves the field's type known to all others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking.context import Checking, Declared
from bpc.core.rules.checking.dependencies import cycles, evaluation_order
from bpc.core.rules.checking.written_types import written_type
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import Type

_PUBLIC: Final = "public"
# Of a long circle the beginning and the end are shown.
_SHOWN_BEGINNING: Final = 8
_SHOWN_END: Final = 2


@dataclass(frozen=True, slots=True)
class _Body:
    expr: typed.Expr | None
    reads: Mapping[str, Span]


def check_rules(checking: Checking, rules: Sequence[syntax.Rule]) -> tuple[typed.Field, ...] | None:
    """The fields in evaluation order; None if one of them could not be made."""
    paths = [rule.dotted for rule in rules]
    kinds = [written_type(checking, rule.type) for rule in rules]
    declared = _declare(checking, paths, rules, kinds)
    bodies: dict[str, _Body] = {}
    for path, rule, kind in zip(paths, rules, kinds, strict=True):
        # Of a field declared twice both bodies are looked at, and the first one counts.
        bodies.setdefault(path, _body(checking, path, rule, kind))
    _prefixes(checking, declared)
    needs = {path: [other for other in body.reads if other in bodies] for path, body in bodies.items()}
    order = evaluation_order(needs)
    if len(order) < len(needs):
        for circle in cycles(needs):
            _circle(checking, bodies, circle)
    _warn_of_hidden(checking, bodies)
    return _in_order(checking, bodies, order)


def path_span(path: Sequence[syntax.Name]) -> Span:
    return Span(path[0].span.start, path[-1].span.end)


def _declare(
    checking: Checking, paths: Sequence[str], rules: Sequence[syntax.Rule], kinds: Sequence[Type | None]
) -> dict[str, syntax.Rule]:
    """The first rule of each path; all others are reported."""
    declared: dict[str, syntax.Rule] = {}
    for path, rule, kind in zip(paths, rules, kinds, strict=True):
        first = declared.setdefault(path, rule)
        if first is rule:
            access = tuple(sorted({audience.text for audience in rule.audiences}))
            checking.fields[path] = Declared(kind, access, path_span(rule.path), rule.type.span)
            continue
        checking.error(
            "duplicate-field",
            path_span(rule.path),
            f"the field `{path}` is declared twice",
            notes=(Note(path_span(first.path), "it is first declared here"),),
        )
    return declared


def _prefixes(checking: Checking, declared: Mapping[str, syntax.Rule]) -> None:
    """A field cannot be both a value and a group of fields. Reported at the later of the two."""
    for path, rule in declared.items():
        at = path.rfind(".")
        while at > 0:
            group = declared.get(path[:at])
            if group is not None:
                _prefix(checking, group, rule)
            at = path.rfind(".", 0, at)


def _prefix(checking: Checking, group: syntax.Rule, rule: syntax.Rule) -> None:
    first, later = sorted((group, rule), key=lambda each: each.span)
    checking.error(
        "prefix-path",
        path_span(later.path),
        f"`{group.dotted}` is a field, so `{rule.dotted}` cannot be one inside of it",
        hint="rename one of them",
        notes=(Note(path_span(first.path), f"`{first.dotted}` is declared here"),),
    )


def _body(checking: Checking, path: str, rule: syntax.Rule, kind: Type | None) -> _Body:
    checking.rule = path
    checking.reads = {}
    checking.is_declared = kind is not None
    if kind is None:
        expr = checking.check(rule.body)
    else:
        because = Note(rule.type.span, f"`{path}` is declared {checking.shown(kind)} here")
        expr = checking.check_because(rule.body, kind, because)
    checking.rule = None
    checking.is_declared = True
    return _Body(expr, checking.reads)


def _circle(checking: Checking, bodies: Mapping[str, _Body], circle: list[str]) -> None:
    steps = list(zip(circle, [*circle[1:], circle[0]], strict=True))
    notes = tuple(
        Note(bodies[path].reads[other], f"`{path}` reads `{other}` here") for path, other in steps[:_SHOWN_BEGINNING]
    )
    checking.error(
        "cycle",
        checking.fields[circle[0]].span,
        f"`{circle[0]}` needs its own value: {_shown([*circle, circle[0]])}",
        hint="compute what they share in a field of its own" if len(circle) > 1 else None,
        notes=notes,
    )


def _shown(circle: list[str]) -> str:
    if len(circle) > _SHOWN_BEGINNING + _SHOWN_END + 1:
        hidden = len(circle) - _SHOWN_BEGINNING - _SHOWN_END
        circle = [*circle[:_SHOWN_BEGINNING], f"… {hidden:,} more …", *circle[-_SHOWN_END:]]
    return " -> ".join(circle)


def _warn_of_hidden(checking: Checking, bodies: Mapping[str, _Body]) -> None:
    """A visible field tells what its formula lets one compute of the fields it reads."""
    for path, body in bodies.items():
        shown_to = checking.fields[path].access
        for other, span in body.reads.items() if shown_to else ():
            may_see = checking.fields[other].access
            if _PUBLIC in may_see or other == path:
                continue
            blind = [audience for audience in shown_to if audience not in may_see]
            if blind:
                checking.findings.warning(
                    "publishes-hidden",
                    span,
                    f"`{path}` is visible to @{blind[0]} and tells something about `{other}`, which is not",
                    hint=f"make `{other}` visible too, or be sure that its value may be guessed from `{path}`",
                )


def _in_order(checking: Checking, bodies: Mapping[str, _Body], order: Sequence[str]) -> tuple[typed.Field, ...] | None:
    fields = []
    for path in order:
        body, declared = bodies[path], checking.fields[path]
        if body.expr is not None and declared.type is not None:
            needs = tuple(sorted(body.reads))
            fields.append(typed.Field(path, declared.access, declared.type, body.expr, needs, declared.span))
    return tuple(fields) if len(fields) == len(bodies) else None
