"""Check rules: the declarations of fields, definitions, the bodies of fields, then the order of evaluation.

All declarations are checked before any body, so a mistake in a body does not hide the type of its field from others.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from bpc.core.language import syntax, typed
from bpc.core.language.checking.abouts import check_about, warn_of_missing_abouts
from bpc.core.language.checking.context import Checker, FieldDeclaration
from bpc.core.language.checking.definitions import (
    CheckedBody,
    CheckedDefinition,
    Dependencies,
    build_definitions,
    build_functions,
    check_definitions,
    check_functions,
    check_height,
    declare_functions,
    find_missable,
    mark_missable,
)
from bpc.core.language.checking.insisted_layers import check_layers, read_layer
from bpc.core.language.checking.literals import resolve_type
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH, check_requirements, declare_requirements
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import Opt, Type

Needs: TypeAlias = Mapping[str, Sequence[str]]

_PUBLIC: Final = "public"
# Of a long cycle only the beginning and the end are shown.
_CYCLE_HEAD: Final = 8
_CYCLE_TAIL: Final = 2


def order_fields(needs: Needs) -> list[str]:
    """The fields that can be computed, each after those it needs. Every need is itself a key of `needs`."""
    missing = {path: len(read) for path, read in needs.items()}
    readers: dict[str, list[str]] = {path: [] for path in needs}
    for path, read in needs.items():
        for other in read:
            readers[other].append(path)
    ready = [path for path, count in missing.items() if not count]
    heapify(ready)
    order = []
    while ready:
        path = heappop(ready)
        order.append(path)
        for reader in readers[path]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return order


def find_cycles(needs: Needs) -> list[list[str]]:
    """One shortest cycle through the first field of each strongly connected group, in the order of `needs`.

    A field that reads itself is its own cycle: `["a"]`.
    """
    computable = set(order_fields(needs))
    left = {path: [other for other in read if other not in computable] for path, read in needs.items()}
    stuck = {path: read for path, read in left.items() if path not in computable}
    all_cycles = [[path] for path, read in stuck.items() if path in read]
    without_self = {path: [other for other in read if other != path] for path, read in stuck.items()}
    for group in _find_components(without_self):
        if len(group) > 1:
            members = set(group)
            all_cycles.append(_find_shortest_cycle(group[0], without_self, members))
    place = {path: index for index, path in enumerate(needs)}
    return sorted(all_cycles, key=lambda cycle: (place[cycle[0]], len(cycle)))


def _find_shortest_cycle(start: str, needs: Needs, members: set[str]) -> list[str]:
    """The shortest path from `start` back to it within its group."""
    came_from: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        path = waiting.popleft()
        for other in needs[path]:
            if other == start:
                return _trace_path(start, path, came_from)
            if other in members and other not in came_from:
                came_from[other] = path
                waiting.append(other)
    raise ValueError(f"`{start}` is in no cycle")


def _trace_path(start: str, end: str, came_from: Mapping[str, str]) -> list[str]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _find_components(needs: Needs) -> Iterable[list[str]]:
    """Tarjan's strongly connected components, each in the order of `needs`."""
    place = {path: index for index, path in enumerate(needs)}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    stacked: set[str] = set()
    for root in needs:
        if root in number:
            continue
        work = [(root, iter(needs[root]))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        stacked.add(root)
        while work:
            path, remaining = work[-1]
            for other in remaining:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    stacked.add(other)
                    work.append((other, iter(needs[other])))
                    break
                if other in stacked:
                    lowest[path] = min(lowest[path], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[path])
                if lowest[path] == number[path]:
                    yield sorted(_pop_component(stack, stacked, path), key=place.__getitem__)


def _pop_component(stack: list[str], stacked: set[str], path: str) -> list[str]:
    component = []
    while True:
        top = stack.pop()
        stacked.discard(top)
        component.append(top)
        if top == path:
            return component


class CheckedRules(NamedTuple):
    """The fields in evaluation order; the definitions and functions in the order of the text."""

    fields: tuple[typed.ProgramField, ...]
    definitions: tuple[typed.ProgramDefinition, ...]
    functions: tuple[typed.ProgramFunction, ...]


def check_rules(
    checker: Checker,
    rules: Sequence[syntax.Rule],
    definitions: Sequence[syntax.Definition] = (),
    requirements: Sequence[syntax.Requirement] = (),
    functions: Sequence[syntax.FunctionDefinition] = (),
) -> CheckedRules | None:
    """Fields and definitions; None if one of them has a mistake. All requirements are one field."""
    paths = [rule.dotted for rule in rules]
    kinds = [resolve_type(checker, rule.type) for rule in rules]
    declared = _declare(checker, paths, rules, kinds)
    warn_of_missing_abouts(checker, declared)
    declare_requirements(checker, requirements)
    declare_functions(checker, functions)
    checked_definitions = {
        **check_definitions(checker, definitions, order_fields),
        **check_functions(checker, functions),
    }
    bodies: dict[str, CheckedBody] = {}
    for path, rule, kind in zip(paths, rules, kinds, strict=True):
        # If a field is declared twice, both bodies are checked and the first one counts.
        bodies.setdefault(path, _check_body(checker, path, rule, kind))
    _check_prefixes(checker, declared)
    heights = {path: rule.height for path, rule in declared.items()}
    if requirements:
        _refuse_requirements_path(checker, declared)
        bodies[REQUIREMENTS_PATH] = check_requirements(checker, requirements)
        heights[REQUIREMENTS_PATH] = max(requirement.height for requirement in requirements)
    order = _order_all(checker, bodies, checked_definitions)
    dependencies = Dependencies(checked_definitions, order)
    for path, body in bodies.items():
        height = dependencies.compute_height(heights[path], body.reads)
        check_height(checker, path, checker.fields[path].span, height)
    needs = {path: sorted(dependencies.list_fields(body.reads) & bodies.keys()) for path, body in bodies.items()}
    _warn_of_hidden_reads(checker, bodies, dependencies)
    # A requirement says what is missing; the field of all of them is always there.
    missable = find_missable(checked_definitions, bodies, order, REQUIREMENTS_PATH)
    fields = _build_fields(checker, bodies, needs, missable)
    program_definitions = build_definitions(checked_definitions, dependencies, missable)
    program_functions = build_functions(checked_definitions, dependencies)
    if fields is None or program_definitions is None or program_functions is None:
        return None
    check_layers(checker, fields, program_definitions, program_functions)
    return CheckedRules(fields, program_definitions, program_functions)


def _refuse_requirements_path(checker: Checker, declared: Mapping[str, syntax.Rule]) -> None:
    group = REQUIREMENTS_PATH.partition(".")[0]
    for path, rule in declared.items():
        if path in {group, REQUIREMENTS_PATH} or path.startswith(f"{REQUIREMENTS_PATH}."):
            message = f"`{REQUIREMENTS_PATH}` is the field of the requirements"
            checker.error("duplicate-field", get_path_span(rule.path), message, "choose another path")


def _order_all(
    checker: Checker, bodies: Mapping[str, CheckedBody], definitions: Mapping[str, CheckedDefinition]
) -> list[str]:
    """The keys of fields and definitions, each after those it reads; cycles are reported."""
    all_bodies = {
        **bodies,
        **{key: definition.body for key, definition in definitions.items()},
    }
    needs = {key: [other for other in body.reads if other in all_bodies] for key, body in all_bodies.items()}
    order = order_fields(needs)
    if len(order) < len(needs):
        spans = {key: definition.node.name.span for key, definition in definitions.items()}
        for cycle in find_cycles(needs):
            span = spans[cycle[0]] if cycle[0] in spans else checker.fields[cycle[0]].span
            _report_cycle(checker, all_bodies, cycle, span)
    return order


def get_path_span(path: Sequence[syntax.Name]) -> Span:
    return Span(path[0].span.start, path[-1].span.end)


def _declare(
    checker: Checker, paths: Sequence[str], rules: Sequence[syntax.Rule], kinds: Sequence[Type | None]
) -> dict[str, syntax.Rule]:
    """Declare the first rule of each path; report all others."""
    declared: dict[str, syntax.Rule] = {}
    for path, rule, kind in zip(paths, rules, kinds, strict=True):
        first = declared.setdefault(path, rule)
        about = None if rule.about is None else check_about(checker, rule.about)
        if first is rule:
            access = tuple(sorted({audience.text for audience in rule.audiences}))
            checker.fields[path] = FieldDeclaration(
                kind,
                access,
                get_path_span(rule.path),
                rule.type.span,
                about=about,
                extent=rule.body.span,
                layer=read_layer(rule.layer),
            )
            continue
        note = DiagnosticNote(get_path_span(first.path), "it is first declared here")
        message = f"the field `{path}` is declared twice"
        # In one file it is a slip; of two files, one may want to change what the other says.
        files = [checker.findings.source.resolve(one.span)[0] for one in (first, rule)]
        hint = None if files[0] is files[1] else f'to replace it, write `override "reason"` before `field {path}`'
        checker.error("duplicate-field", get_path_span(rule.path), message, hint, note)
    return declared


def _check_prefixes(checker: Checker, declared: Mapping[str, syntax.Rule]) -> None:
    """A field cannot be both a value and a group of fields. Reported at the later of the two."""
    for path, rule in declared.items():
        at = path.rfind(".")
        while at > 0:
            group = declared.get(path[:at])
            if group is not None:
                _report_prefix(checker, group, rule)
            at = path.rfind(".", 0, at)


def _report_prefix(checker: Checker, group: syntax.Rule, rule: syntax.Rule) -> None:
    first, later = sorted((group, rule), key=lambda declared: declared.span)
    message = f"`{group.dotted}` is a field, so it cannot contain the field `{rule.dotted}`"
    note = DiagnosticNote(get_path_span(first.path), f"`{first.dotted}` is declared here")
    checker.error("prefix-path", get_path_span(later.path), message, "rename one of them", note)


def _check_body(checker: Checker, path: str, rule: syntax.Rule, kind: Type | None) -> CheckedBody:
    checker.rule = path
    checker.reads = {}
    checker.is_declared = kind is not None
    if kind is None:
        expr = checker.check(rule.body)
    else:
        because = DiagnosticNote(rule.type.span, f"`{path}` is declared {checker.format_type(kind)} here")
        expr = checker.check_because(rule.body, kind, because)
    checker.rule = None
    checker.is_declared = True
    return CheckedBody(expr, checker.reads)


def _report_cycle(checker: Checker, bodies: Mapping[str, CheckedBody], cycle: list[str], span: Span) -> None:
    steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    notes = tuple(
        DiagnosticNote(bodies[path].reads[other], f"`{path}` reads `{other}` here")
        for path, other in steps[:_CYCLE_HEAD]
    )
    message = f"`{cycle[0]}` depends on itself: {_format_cycle([*cycle, cycle[0]])}"
    hint = "move the shared computation to a separate field" if len(cycle) > 1 else None
    checker.error("cycle", span, message, hint, *notes)


def _format_cycle(cycle: list[str]) -> str:
    if len(cycle) > _CYCLE_HEAD + _CYCLE_TAIL + 1:
        hidden = len(cycle) - _CYCLE_HEAD - _CYCLE_TAIL
        cycle = [*cycle[:_CYCLE_HEAD], f"… {hidden:,} more …", *cycle[-_CYCLE_TAIL:]]
    return " -> ".join(cycle)


def _warn_of_hidden_reads(checker: Checker, bodies: Mapping[str, CheckedBody], dependencies: Dependencies) -> None:
    """Warn if a reader of a visible field could compute the value of a hidden field from it."""
    for path, body in bodies.items():
        shown_to = checker.fields[path].access
        reads = ((other, span) for key, span in body.reads.items() for other in dependencies.list_fields({key: span}))
        for other, span in reads if shown_to else ():
            may_see = checker.fields[other].access
            if _PUBLIC in may_see or other == path:
                continue
            blind = [audience for audience in shown_to if audience not in may_see]
            if blind:
                checker.findings.warning(
                    "publishes-hidden",
                    span,
                    f"`{path}` is visible to @{blind[0]} but is computed from `{other}`, "
                    f"which is hidden from @{blind[0]}",
                    f"make `{other}` visible too, or make sure that `{path}` may reveal it",
                )


def _build_fields(
    checker: Checker, bodies: Mapping[str, CheckedBody], needs: Needs, missable: frozenset[str]
) -> tuple[typed.ProgramField, ...] | None:
    fields = []
    for path in order_fields(needs):
        body, declared = bodies[path], checker.fields[path]
        if body.expr is None or declared.type is None:
            continue
        kind = declared.type
        if path in missable:
            mark_missable(checker, path)
            kind = kind if isinstance(kind, Opt) else checker.types.opt(kind)
        fields.append(
            typed.ProgramField(
                path=path,
                access=declared.access,
                type=kind,
                body=body.expr,
                needs=tuple(needs[path]),
                span=declared.span,
                declared_type=declared.type,
                can_be_missing=path in missable,
                about=declared.about,
                extent=declared.extent,
                layer=declared.layer,
            )
        )
    return tuple(fields) if len(fields) == len(bodies) else None
