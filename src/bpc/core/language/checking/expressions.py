"""Check names, lookups of facts, lists, records, `if` and blocks; the table of handlers for all expressions.

syntax.Expr ── handler(checker, node, want) ──► typed.Expr, or None after a mistake that was reported
"""

import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from bpc.core.facts.schemas import KEY_PREFIXES
from bpc.core.language import syntax, typed
from bpc.core.language.checking import (
    calls,
    enumerations,
    explain,
    functions,
    list_functions,
    literals,
    operators,
    options,
)
from bpc.core.language.checking.context import (
    BoundVariable,
    Checker,
    DefinitionDeclaration,
    Handler,
    Mismatch,
    Node,
    ScopedBody,
    make_definition_key,
    require_all,
)
from bpc.core.language.checking.imports import list_member_enums, report_hidden
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import (
    TEXT,
    EnumType,
    List,
    Opt,
    Record,
    Type,
    contains_fact_record,
)

_SHOWN_PATHS: Final = 3
_SHOWN_ENUMS: Final = 6
_MEMBER_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*")  # as members of enumerations are usually written
# What values are called in other languages.
_VARIABLE_FIXES: Final = {
    **dict.fromkeys(("null", "nil", "None", "undefined"), "the missing value is written `none`"),
    "True": "it is written `true`",
    "False": "it is written `false`",
}

# Names


def check_variable(checker: Checker, node: syntax.VariableRef, want: Type | None) -> typed.Expr | None:
    bound = checker.scope.mention(node.name, node.span.start)
    if bound is not None:
        return None if bound.type is None else typed.Local(bound.type, node.name, node.span)
    definition = checker.shared.definitions.get(node.name)
    if definition is not None and checker.sees(node.span, definition.span):
        definition.used = True
        checker.reads.setdefault(make_definition_key(node.name), node.span)
        return None if definition.type is None else typed.DefinitionValue(definition.type, node.name, node.span)
    if list_member_enums(checker, node.name, node.span):
        return enumerations.check_member(checker, node, want)
    hidden_at = _find_hidden(checker, node, definition)
    if hidden_at is not None:
        report_hidden(checker, node.name, node.span, hidden_at)
        return None
    message = f"there is no variable `{node.name}` here"
    checker.error("unknown-variable", node.span, message, _suggest_for_variable(checker, node.name))
    return None


def _find_hidden(checker: Checker, node: syntax.VariableRef, definition: DefinitionDeclaration | None) -> Span | None:
    """Where a name is declared that cannot be used at this place."""
    shared = checker.shared
    enums = [*(kind.name for kind in shared.enums_by_member.get(node.name, ())), node.name]
    places = [None if definition is None else definition.span, *(shared.declared_at.get(name) for name in enums)]
    return next((place for place in places if place is not None and not checker.sees(node.span, place)), None)


def _suggest_for_variable(checker: Checker, name: str) -> str | None:
    if name in checker.fields:
        return f'read a field with `field("{name}")`'
    if calls.is_known_function(checker, name):
        return f"call a function with parentheses: `{name}(…)`"
    if name in _VARIABLE_FIXES:
        return _VARIABLE_FIXES[name]
    names = [*checker.scope.names, *checker.shared.definitions, *checker.shared.enums_by_member]
    hint = checker.shared.suggestions.suggest(name, names)
    if hint is None and _MEMBER_NAME.fullmatch(name) and checker.shared.enums:
        enums = list(checker.shared.enums.values())
        return enumerations.list_members(enums[0]) if len(enums) == 1 else _name_enums(enums)
    return hint


def _name_enums(enums: Sequence[EnumType]) -> str:
    shown, more = enums[:_SHOWN_ENUMS], " and more" if len(enums) > _SHOWN_ENUMS else ""
    return f"no enumeration has such a member: there are {', '.join(f'`{enum.name}`' for enum in shown)}{more}"


def check_field_ref(checker: Checker, node: syntax.FieldRef, _want: Type | None) -> typed.Expr | None:
    path = node.path.value
    declared = checker.fields.get(path)
    if declared is None:
        report_unknown_field(checker, path, node.path.span)
        return None
    checker.reads.setdefault(path, node.span)
    return None if declared.type is None else typed.FieldValue(declared.type, path, node.span)


def report_unknown_field(checker: Checker, path: str, span: Span) -> None:
    inside = checker.shared.list_paths_in(path)
    if inside:
        hint = f"name one of the fields in it: {_format_paths(inside)}"
        checker.error("unknown-field", span, f"`{path}` is a group of fields, not a field", hint)
        return
    message = f"there is no field `{path[:80]}`"
    checker.error("unknown-field", span, message, checker.shared.suggestions.suggest(path, checker.fields))


def _format_paths(paths: Sequence[str]) -> str:
    paths_text = ", ".join(f"`{path}`" for path in paths[:_SHOWN_PATHS])
    return f"{paths_text} and {len(paths) - _SHOWN_PATHS:,} more" if len(paths) > _SHOWN_PATHS else paths_text


def check_fact_query(checker: Checker, node: syntax.FactQuery, _want: Type | None) -> typed.Expr | None:
    """`Battery for key` looks up the fact `battery:<key>`; `all Component for key` all with `component:<key>:`."""
    fact = functions.resolve_fact_type(checker, node.fact.text, node.fact.span)
    key = literals.check_text_argument(checker, node.key, "what stands after `for` must be a `Text`")
    if fact is None or key is None:
        return None
    checker.shared.facts.add(fact)
    prefix, is_single = KEY_PREFIXES[fact.name]
    if is_single == node.is_plural:
        _report_wrong_number(checker, node, is_single=is_single)
        return None
    parts: list[typed.Expr] = [typed.Const(TEXT, prefix, node.fact.span), key]
    if node.is_plural:
        parts.append(typed.Const(TEXT, ":", node.fact.span))
        text = typed.BuiltinCall(TEXT, "concat", tuple(parts), {}, node.span)
        return typed.FactPrefixLookup(checker.types.list(fact), fact, text, node.span)
    text = typed.BuiltinCall(TEXT, "concat", tuple(parts), {}, node.span)
    return typed.FactLookup(checker.types.opt(fact), fact, text, node.span)


def _report_wrong_number(checker: Checker, node: syntax.FactQuery, *, is_single: bool) -> None:
    name, key = node.fact.text, checker.quote(node.key)
    if is_single:
        message, hint = f"there is one `{name}` for each product", f"write `{name} for {key}`"
    else:
        message, hint = f"there may be several `{name}` facts for each product", f"write `all {name} for {key}`"
    checker.error("wrong-type", node.span, message, hint)


# Lists and records


def check_list(checker: Checker, node: syntax.ListLiteral, want: Type | None) -> typed.Expr | None:
    item_type = want.item if isinstance(want, List) else None
    if not node.items:
        return _check_empty_list(checker, node, want)
    kind, items = check_same_type(checker, node.items, item_type)
    if kind is None:
        return None
    list_type = checker.require_allowed_size(checker.types.list(kind), node.span)
    return None if list_type is None else typed.TypedList(list_type, items, node.span)


def _check_empty_list(checker: Checker, node: syntax.ListLiteral, want: Type | None) -> typed.Expr | None:
    if isinstance(want, List):
        return typed.TypedList(want, (), node.span)
    if want is None:
        literals.report_type_not_known(checker, node.span, "[]")
    else:
        message = f"expected {checker.format_type(want)}, but `[]` is a list"
        checker.error("wrong-type", node.span, message, None, explain.find_type_reason(checker))
    return None


def check_same_type(
    checker: Checker, nodes: Sequence[Node], want: Type | None
) -> tuple[Type | None, tuple[typed.Expr, ...]]:
    """Check expressions that must have one type: the wanted one, or that of the first that is not undecided."""
    if want is not None:
        exprs: tuple[typed.Expr, ...] | None = require_all(list(map(checker.check, nodes, repeat(want))))
        return (None, ()) if exprs is None else (want, exprs)
    outer = checker.because
    first = next((index for index, node in enumerate(nodes) if not literals.is_undecided(node)), len(nodes))
    decided = list(map(checker.check, nodes[first : first + 1]))
    kind = _decide_type(checker, nodes, first, decided)
    later_nodes = nodes[first + 1 :]
    if kind is None:
        # The type is not known, but mistakes inside the other expressions are still reported.
        decided += map(checker.check, [node for node in later_nodes if not literals.is_undecided(node)])
        return None, ()
    before = list(map(checker.check, nodes[:first], repeat(kind)))
    after = list(map(checker.check, later_nodes, repeat(kind)))
    checker.because = outer
    exprs = require_all([*before, *decided, *after])
    return (None, ()) if exprs is None else (kind, exprs)


def _decide_type(
    checker: Checker, nodes: Sequence[Node], first: int, decided: Sequence[typed.Expr | None]
) -> Type | None:
    """The type that all must have; it becomes the reason in messages about the others."""
    if not decided:
        return _decide_from_numbers(checker, nodes)
    if decided[0] is None:
        return None
    checker.because = (nodes[first], decided[0].type)
    return decided[0].type


def _decide_from_numbers(checker: Checker, nodes: Sequence[Node]) -> Type | None:
    """Decide the type if there are only numbers, `none` and `[]`: the numbers decide."""
    numbers = [node for node in nodes if isinstance(node, syntax.NumberLiteral)]
    if not numbers:
        checker.check(nodes[0])  # reports that its type is not known
        return None
    if not all(map(literals.check_number_bounds, repeat(checker), numbers)):
        return None
    kind = literals.choose_number_type(numbers)
    checker.because = DiagnosticNote(numbers[0].span, f"the numbers here are {checker.format_type(kind)}")
    return kind


def check_record(checker: Checker, node: syntax.RecordLiteral, want: Type | None) -> typed.Expr | None:
    names = [name for name, _ in node.members]
    explain.report_duplicate_members(checker, names)
    members = {name.text: value for name, value in node.members}
    member_types: Mapping[str, Type] = dict(want.members) if isinstance(want, Record) else {}
    same = not member_types or explain.check_member_names(checker, node.span, names, member_types)
    values = list(map(checker.check, members.values(), map(member_types.get, members)))
    right = {
        name: value
        for name, value in zip(members, values, strict=True)
        if value is not None and _check_member_type(checker, name, members[name], value.type)
    }
    if not same or len(right) < len(node.members):
        return None
    kind = checker.require_allowed_size(
        checker.types.record({name: value.type for name, value in right.items()}), node.span
    )
    return None if kind is None else typed.TypedRecord(kind, tuple(right.items()), node.span)


def _check_member_type(checker: Checker, name: str, node: Node, kind: Type) -> bool:
    if not contains_fact_record(kind):
        return True
    message = f"the member `{name}` would be {checker.format_type(kind)}, but a record cannot contain fact records"
    hint = 'use one of its members instead: `recordGet(…, "member")`'
    checker.error("fact-record-misplaced", node.span, message, hint)
    return False


# `if` and blocks


def check_if(checker: Checker, node: syntax.If, want: Type | None) -> typed.Expr | None:
    checked_conditions = list(map(checker.check, [branch.condition for branch in node.branches]))
    nodes: list[Any] = [*map(_scope_body, node.branches, checked_conditions), node.otherwise]
    kind, bodies = check_same_type(checker, nodes, want)
    conditions: tuple[typed.Expr, ...] | None = require_all(
        list(map(_require_condition, repeat(checker), node.branches, checked_conditions))
    )
    if kind is None or conditions is None:
        return None
    spans = [branch.span for branch in node.branches]
    names = [None if branch.binding is None else branch.binding.text for branch in node.branches]
    return typed.TypedIf(kind, tuple(map(typed.TypedBranch, conditions, bodies, spans, names)), bodies[-1])


def _scope_body(branch: syntax.Branch, condition: typed.Expr | None) -> Node | ScopedBody:
    """The body of a branch; a literal that takes its type from the others uses no name."""
    if branch.binding is None or literals.is_undecided(branch.body):
        return branch.body
    kind = None if condition is None or not isinstance(condition.type, Opt) else condition.type.item
    return ScopedBody(branch.binding, kind, branch.condition, branch.body)


def _require_condition(checker: Checker, branch: syntax.Branch, condition: typed.Expr | None) -> typed.Expr | None:
    if branch.binding is None:
        return operators.require_bool(checker, branch.condition, condition, "the condition of `if`")
    if literals.is_undecided(branch.body):  # whose scope nothing else checks
        checker.scope.unbind(branch.binding.text, _bind_option(checker, branch.binding, None, branch.condition))
    if condition is None or isinstance(condition.type, Opt):
        return condition
    hint = "this value is always present: bind it with `let`"
    explain.report_wrong_argument(checker, branch.condition, "`if some` needs an option", condition.type, hint)
    return None


def check_scoped_body(checker: Checker, node: ScopedBody, want: Type | None) -> typed.Expr | None:
    before = _bind_option(checker, node.name, node.type, node.option)
    body = checker.check(node.body, want)
    checker.scope.unbind(node.name.text, before)
    return body


def _bind_option(checker: Checker, name: syntax.Name, kind: Type | None, option: Node) -> BoundVariable | None:
    variable = BoundVariable(kind, name.span, "let", option, checker.scope.level)
    return list_functions.bind_name(checker, name, variable)


def check_match(checker: Checker, node: syntax.Match, want: Type | None) -> typed.Expr | None:
    subject = checker.check(node.subject)
    enum = enumerations.require_enum(checker, node, subject)
    members = None
    if subject is not None and enum is not None:
        members = enumerations.check_patterns(checker, node, enum, subject.type)
    kind, bodies = check_same_type(checker, [arm.body for arm in node.arms], want) if node.arms else (None, ())
    if subject is None or members is None or kind is None:
        return None
    arms = [
        typed.TypedMatchArm(names, arm.label, body, arm.span)
        for names, arm, body in zip(members, node.arms, bodies, strict=True)
    ]
    return typed.TypedMatch(kind, subject, tuple(arms), node.span)


def check_block(checker: Checker, node: syntax.Block, want: Type | None) -> typed.Expr | None:
    errors = len(checker.findings.errors)
    bindings: list[typed.TypedLet | typed.TypedAssert] = []
    bound: list[tuple[str, BoundVariable, BoundVariable | None]] = []
    for binding in node.bindings:
        if isinstance(binding, syntax.Assert):
            checked = checker.check(binding.condition)
            condition = operators.require_bool(checker, binding.condition, checked, "the condition of `assert`")
            if condition is not None:
                bindings.append(typed.TypedAssert(condition, binding.code.value, binding.message.value, binding.span))
            continue
        value = checker.check(binding.value)
        variable = BoundVariable(
            None if value is None else value.type, binding.name.span, "let", binding.value, checker.scope.level
        )
        bound.append((binding.name.text, variable, list_functions.bind_name(checker, binding.name, variable)))
        if value is not None:
            bindings.append(typed.TypedLet(binding.name.text, value, binding.name.span))
    body = checker.check(node.body, want)
    _unbind_names(checker, bound, warn=len(checker.findings.errors) == errors)
    if body is None or len(bindings) < len(node.bindings):
        return None
    return typed.TypedBlock(body.type, tuple(bindings), body)


def _unbind_names(
    checker: Checker, bound: list[tuple[str, BoundVariable, BoundVariable | None]], *, warn: bool
) -> None:
    """Remove a block's names again. After a mistake no name is reported as unused: its use may not be checked."""
    for name, _, before in reversed(bound):
        checker.scope.unbind(name, before)
    for name, variable, _ in bound:
        if warn and not variable.used and not name.startswith("_"):
            hint = f"remove it, or rename it to `_{name}` if you keep it for its checks"
            checker.findings.warning("unused-let", variable.span, f"`{name}` is never used", hint)


def skip_misplaced_lambda(_checker: Checker, _node: syntax.Lambda, _want: Type | None) -> typed.Expr | None:
    """The parser has already reported it."""
    return None


HANDLERS: Final[Mapping[type, Handler]] = {
    syntax.NumberLiteral: literals.check_number,
    syntax.TextLiteral: literals.check_text,
    syntax.BoolLiteral: literals.check_bool,
    syntax.NoneLiteral: literals.check_none,
    syntax.DateLiteral: literals.check_date,
    syntax.QuantityLiteral: literals.check_quantity,
    syntax.FieldRef: check_field_ref,
    syntax.FactQuery: check_fact_query,
    syntax.VariableRef: check_variable,
    syntax.Lambda: skip_misplaced_lambda,
    syntax.Call: calls.check_call,
    syntax.ListLiteral: check_list,
    syntax.RecordLiteral: check_record,
    syntax.Unary: operators.check_unary,
    syntax.OperatorChain: options.check_chain,
    syntax.Comparison: options.check_comparison,
    syntax.Interpolation: options.check_interpolation,
    syntax.Presence: options.check_presence,
    syntax.Member: options.check_member,
    syntax.If: check_if,
    ScopedBody: check_scoped_body,
    syntax.Match: check_match,
    syntax.Block: check_block,
    Mismatch: explain.report_mismatch,
}
