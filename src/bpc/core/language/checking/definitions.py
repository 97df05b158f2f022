"""Check constants and definitions, each after those it mentions, and what follows for the fields that need them.

The type of a definition is that of its expression, so the order of checking is the order of need. It comes from the
names in the text: no other name may be called like a definition. Definitions that need each other have no type here;
the cycle is reported together with those of fields.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeAlias, cast

from bpc.core.language import syntax, typed
from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.checking.context import (
    BoundVariable,
    Checker,
    DefinitionDeclaration,
    make_definition_key,
    require_all,
)
from bpc.core.language.checking.imports import is_function_name_free, list_member_enums, suggest_other_item
from bpc.core.language.checking.list_functions import bind_name
from bpc.core.language.checking.literals import format_count, resolve_type
from bpc.core.language.parsing.operands import MAX_HEIGHT
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import Opt, Type, unwrap_option_type

_INPUTS: Final = frozenset({"productSku", "productName", "issuedOn"})


def _is_definition(key: str) -> bool:
    """Whether a key is that of a definition or function; no path of a field has a blank."""
    return " " in key


@dataclass(frozen=True, slots=True)
class CheckedBody:
    """An expression, and where it first reads each field and definition (by its key)."""

    expr: typed.Expr | None
    reads: Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """A definition or function, and its body."""

    node: syntax.Definition | syntax.FunctionDefinition
    type: Type | None
    body: CheckedBody


Order: TypeAlias = Callable[[Mapping[str, Sequence[str]]], list[str]]
"""The names that can be computed, each after those it needs."""


def check_definitions(
    checker: Checker, definitions: Sequence[syntax.Definition], order: Order
) -> dict[str, CheckedDefinition]:
    """All definitions by their keys, in the order of the text; the first of two with one name."""
    nodes = _declare(checker, definitions)
    needs = {
        name: [
            other
            for other in dict.fromkeys(iterate_names(node.body))
            if other in nodes and checker.sees(node.span, nodes[other].name.span)
        ]
        for name, node in nodes.items()
    }
    ordered = order(needs)
    in_order = set(ordered)
    in_cycles = [name for name in nodes if name not in in_order]
    checked = {name: _check_definition(checker, nodes[name]) for name in [*ordered, *in_cycles]}
    return {make_definition_key(name): checked[name] for name in nodes}


def make_function_key(name: str) -> str:
    return f"fn {name}"


def declare_functions(checker: Checker, functions: Sequence[syntax.FunctionDefinition]) -> None:
    """Make the functions known to calls. Their types are stated, so a call needs no body."""
    first: dict[str, Span] = {}
    for node in functions:
        name = node.name.text
        known = first.setdefault(name, node.name.span)
        if known is not node.name.span:
            note, hint = (
                DiagnosticNote(known, "it is first defined here"),
                suggest_other_item(checker, known, node.span, f"fn {name}"),
            )
            checker.error("duplicate-definition", node.name.span, f"`{name}` is defined twice", hint, note)
            continue
        if not is_function_name_free(checker, node.name, FUNCTIONS):
            continue
        checker.shared.declared_at[name] = node.name.span
        kinds = [resolve_type(checker, kind) for _, kind in node.parameters]
        checker.shared.calls[name] = partial(_check_function_call, node, kinds, resolve_type(checker, node.type))


def _check_function_call(
    node: syntax.FunctionDefinition,
    kinds: Sequence[Type | None],
    result: Type | None,
    checker: Checker,
    call: syntax.Call,
    _want: Type | None,
) -> typed.Expr | None:
    name = node.name.text
    checker.reads.setdefault(make_function_key(name), call.span)
    usage = f"{name}({', '.join(parameter.text for parameter, _ in node.parameters)})"
    if len(call.arguments) != len(kinds):
        message = f"`{name}` takes {format_count(len(kinds), 'argument')}, but this call has {len(call.arguments)}"
        checker.error("wrong-argument-count", call.span, message, f"write `{usage}`")
        return None
    pairs = zip(call.arguments, kinds, strict=True)
    arguments: tuple[typed.Expr, ...] | None = require_all(
        [_check_argument(checker, argument, kind) for argument, kind in pairs]
    )
    if arguments is None or result is None or None in kinds:
        return None
    return typed.FunctionCall(result, name, arguments, call.span)


def _check_argument(checker: Checker, node: syntax.Expr, kind: Type | None) -> typed.Expr | None:
    if isinstance(node, syntax.Lambda):
        checker.error("wrong-lambda", node.span, "only built-in functions take a function")
        return None
    outer, checker.because = checker.because, None
    expr = checker.check(node, kind)
    checker.because = outer
    return expr


def check_functions(checker: Checker, functions: Sequence[syntax.FunctionDefinition]) -> dict[str, CheckedDefinition]:
    """All functions by their keys, in the order of the text; the first of two with one name."""
    checked: dict[str, CheckedDefinition] = {}
    for node in functions:
        if make_function_key(node.name.text) in checked:
            continue
        kinds = [resolve_type(checker, kind) for _, kind in node.parameters]
        result = resolve_type(checker, node.type)
        checker.reads = {}
        bound = []
        for (name, _), kind in zip(node.parameters, kinds, strict=True):
            variable = BoundVariable(kind, name.span, "parameter", None, checker.scope.level)
            bound.append((name.text, bind_name(checker, name, variable)))
        body = (
            checker.check(node.body)
            if result is None
            else checker.check_because(
                node.body,
                result,
                DiagnosticNote(node.type.span, f"`{node.name.text}` gives {checker.format_type(result)}"),
            )
        )
        for name_text, before in reversed(bound):
            checker.scope.unbind(name_text, before)
        complete = None if None in kinds else body
        checked[make_function_key(node.name.text)] = CheckedDefinition(
            node, result, CheckedBody(complete, checker.reads)
        )
    return checked


def build_functions(
    checked: Mapping[str, CheckedDefinition], dependencies: "Dependencies"
) -> tuple[typed.ProgramFunction, ...] | None:
    """The functions in the order of the text; None if one of them has a mistake."""
    built = []
    for definition in checked.values():
        node, expr = definition.node, definition.body.expr
        if not isinstance(node, syntax.FunctionDefinition):
            continue
        if expr is None or definition.type is None:
            return None
        needs = tuple(sorted(dependencies.list_fields(definition.body.reads)))
        names = tuple(name.text for name, _ in node.parameters)
        built.append(typed.ProgramFunction(node.name.text, names, expr, needs, node.name.span))
    return tuple(built)


def iterate_names(tree: object) -> Iterator[str]:
    """The names that a part of the syntax tree mentions, in no promised order."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, syntax.VariableRef):
            yield part.name
        elif isinstance(part, tuple):
            pending += part
        else:
            kind: Any = type(part)
            pending += [getattr(part, name) for name in _list_member_names(kind)]


@cache
def _list_member_names(kind: type) -> tuple[str, ...]:
    """The members of a class of nodes; none of other classes."""
    members = fields(cast("Any", kind)) if is_dataclass(kind) else ()
    return tuple(member.name for member in members if member.name != "span")


def _declare(checker: Checker, definitions: Sequence[syntax.Definition]) -> dict[str, syntax.Definition]:
    nodes: dict[str, syntax.Definition] = {}
    for node in definitions:
        name = node.name.text
        first = nodes.setdefault(name, node)
        if first is not node:
            first_span = first.name.span
            note, hint = (
                DiagnosticNote(first_span, "it is first defined here"),
                suggest_other_item(checker, first_span, node.span, f"{'const' if node.is_constant else 'def'} {name}"),
            )
            checker.error("duplicate-definition", node.name.span, f"`{name}` is defined twice", hint, note)
            continue
        if enums := list_member_enums(checker, name, node.name.span):
            message = f"`{name}` is a member of `{enums[0].name}` already"
            checker.error("duplicate-definition", node.name.span, message, "choose another name")
        checker.shared.definitions[name] = DefinitionDeclaration(None, node.name.span, node.is_constant)
    return nodes


def _check_definition(checker: Checker, node: syntax.Definition) -> CheckedDefinition:
    declared = None if node.type is None else resolve_type(checker, node.type)
    checker.reads = {}
    checker.is_declared = node.type is None or declared is not None
    body = _check_body(checker, node, declared)
    checker.is_declared = True
    kind = None if body is None else body.type
    if node.missing is not None:
        kind = _check_missing(checker, node, kind)
    if kind is None:  # whoever reads it can still be checked
        kind = declared if node.missing is None or declared is None else unwrap_option_type(declared)
    elif node.is_constant and body is not None:
        _check_constant(checker, node, body)
    checker.shared.definitions[node.name.text].type = kind
    return CheckedDefinition(node, kind, CheckedBody(body, checker.reads))


def _check_body(checker: Checker, node: syntax.Definition, declared: Type | None) -> typed.Expr | None:
    if node.type is None or declared is None:
        return checker.check(node.body)
    because = DiagnosticNote(node.type.span, f"`{node.name.text}` is declared {checker.format_type(declared)} here")
    if node.missing is None:
        return checker.check_because(node.body, declared, because)
    if isinstance(declared, Opt):
        message = f"`{node.name.text}` says what is missing, so it is never absent itself"
        hint = f"declare it as `{checker.types.to_text(declared.item)}`"
        checker.error("nested-option", node.type.span, message, hint)
        return None
    return checker.check_because(node.body, checker.types.opt(declared), because)


def _check_missing(checker: Checker, node: syntax.Definition, kind: Type | None) -> Type | None:
    """The type of what is in the option that the body gives."""
    if kind is None or isinstance(kind, Opt):
        return None if kind is None else kind.item
    message = f"this is {checker.format_type(kind)}, which is always present, so nothing is missing"
    checker.error("wrong-type", node.body.span, message, "leave out `else missing(…)`")
    return None


def _check_constant(checker: Checker, node: syntax.Definition, body: typed.Expr) -> None:
    """A constant is the same in every passport."""
    for part in typed.iterate_parts(body):
        match part:
            case typed.FieldValue():
                what = "a field"
            case typed.FactLookup() | typed.FactPrefixLookup():
                what = "facts"
            case typed.BuiltinCall(op=op) if op in _INPUTS:
                what = f"`{op}()`"
            case typed.DefinitionValue(name=name) if not checker.shared.definitions[name].is_constant:
                what = f"the definition `{name}`"
            case _:
                continue
        message = f"the constant `{node.name.text}` cannot read {what}"
        checker.error("not-constant", part.span, message, "write `def` in place of `const`")


def warn_of_unused_definitions(checker: Checker) -> None:
    source = checker.shared.linked
    if checker.findings.errors or (source is not None and not checker.fields):  # a package that others import
        return
    for name, definition in checker.shared.definitions.items():
        is_imported = checker.findings.source.is_imported(definition.span)
        if not definition.used and not is_imported and not name.startswith("_"):
            what = "constant" if definition.is_constant else "definition"
            hint = f"remove it, or rename it to `_{name}` to keep it"
            checker.findings.warning("unused-definition", definition.span, f"the {what} `{name}` is never used", hint)


# What follows for those that read definitions


class Dependencies:
    """What fields and definitions need, directly or through definitions."""

    def __init__(self, definitions: Mapping[str, CheckedDefinition], order: Sequence[str]) -> None:
        """`order` are keys of fields and definitions, each after those it reads."""
        self._fields: dict[str, frozenset[str]] = {}
        self._heights: dict[str, int] = {}
        for key in order:
            if _is_definition(key):
                definition = definitions[key]
                self._fields[key] = self.list_fields(definition.body.reads)
                self._heights[key] = self.compute_height(definition.node.height, definition.body.reads)

    def list_fields(self, reads: Mapping[str, Span]) -> frozenset[str]:
        """The paths of the fields that are read, also by the definitions that are read."""
        own = (key for key in reads if not _is_definition(key))
        return frozenset(own).union(*(self._fields.get(key, ()) for key in reads if _is_definition(key)))

    def compute_height(self, height: int, reads: Mapping[str, Span]) -> int:
        """How high an expression is together with the definitions it needs."""
        return height + max((1 + self._heights.get(key, 0) for key in reads if _is_definition(key)), default=0)


def find_missable(
    definitions: Mapping[str, CheckedDefinition], bodies: Mapping[str, CheckedBody], order: Sequence[str], never: str
) -> frozenset[str]:
    """The keys of the fields and definitions that may be missing, because one that they need may be; not `never`."""
    missable: set[str] = set()
    for key in order:
        if key == never:
            continue
        definition = definitions.get(key) if _is_definition(key) else None
        reads = bodies[key].reads if definition is None else definition.body.reads
        clause = definition.node.missing if definition and isinstance(definition.node, syntax.Definition) else None
        if clause is not None or not missable.isdisjoint(reads):
            missable.add(key)
    return frozenset(missable)


def check_height(checker: Checker, name: str, span: Span, height: int) -> None:
    if height > MAX_HEIGHT:
        message = f"`{name}` and the definitions it needs are nested more than {MAX_HEIGHT} levels deep in total"
        checker.error("too-deep", span, message, "let it need fewer definitions that need each other")


def build_definitions(
    checked: Mapping[str, CheckedDefinition], dependencies: Dependencies, missable: frozenset[str]
) -> tuple[typed.ProgramDefinition, ...] | None:
    """The definitions in the order of the text; None if one of them has a mistake."""
    built = []
    for definition in checked.values():
        node, expr = definition.node, definition.body.expr
        if not isinstance(node, syntax.Definition):
            continue
        name = node.name.text
        if expr is None or definition.type is None:
            return None
        missing = None
        if node.missing is not None:
            code = get_missing_code(node)
            missing = typed.MissingValue(code, node.missing.message.value)
        needs = tuple(sorted(dependencies.list_fields(definition.body.reads)))
        can_be_missing = make_definition_key(name) in missable
        built.append(
            typed.ProgramDefinition(
                name, definition.type, expr, missing, needs, can_be_missing, node.name.span, node.body.span
            )
        )
    return tuple(built)


_UPPERCASE: Final = {code: code - 32 for code in range(97, 123)}  # `str.upper` knows more letters with each Unicode


def mark_missable(checker: Checker, path: str) -> None:
    """Note that a declared field may be missing, for the tests that expect something of it."""
    checker.fields[path] = replace(checker.fields[path], can_be_missing=True)


def get_missing_code(node: syntax.Definition) -> str:
    """The code of the entries of fields that need the definition where it is missing."""
    if node.missing is None or node.missing.code is None:
        return f"MISSING_{node.name.text.translate(_UPPERCASE)}"
    return node.missing.code.value
