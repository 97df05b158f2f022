"""Names in rules and tests: where each stands, what it means there, and where that is declaration.

Pure. Names are found in the tree, so they are found in every item that can be parsed, whatever is wrong elsewhere. What
a name means follows from what is bound around it and from what the package declares.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.language import syntax
from bpc.core.language.checking.context import PackageContext
from bpc.core.language.editing.places import get_item_name
from bpc.core.language.source import Span
from bpc.core.language.tree_nodes import list_members

SymbolKind: TypeAlias = Literal[
    "field", "definition", "function", "table", "enum", "member", "fixture", "test", "finding", "variable", "column",
    "fact", "builtin", "unit", "point",
]  # fmt: skip
# How a name is written: as it is, in quotes, or as the argument of a message, which is called as it is written.
NameForm: TypeAlias = Literal["plain", "text", "argument"]

_PATTERNS: Final = frozenset({"none", "else"})
_FACT_FUNCTIONS: Final = frozenset({"getFact", "getFactsByPrefix"})


class Symbol(NamedTuple):
    """What a name means. Of a variable or column `bound_at` is where it is bound; other names mean one thing each."""

    kind: SymbolKind
    name: str
    bound_at: int | None = None


class Occurrence(NamedTuple):
    """A name where it stands."""

    symbol: Symbol
    span: Span
    is_declaration: bool = False
    form: NameForm = "plain"


Scope: TypeAlias = Mapping[str, Symbol]


class OccurrenceFinder:
    """Finds names in the items of a package."""

    def __init__(self, context: PackageContext) -> None:
        self._context = context

    def list_in_item(self, item: syntax.Item) -> list[Occurrence]:  # noqa: PLR0912 (one row a kind of item)
        """Every name in an item, the one it declares first."""
        name = get_item_name(item)
        names = [Occurrence(Symbol(get_kind(item), name.text), name.span, is_declaration=True)]
        match item:
            case syntax.Rule(type=kind, body=body, about=about):
                names += [*self._visit(kind, {}), *self._visit(body, {})]
                if about is not None and about.point is not None:
                    names.append(Occurrence(Symbol("point", about.point.text), about.point.span))
            case syntax.Definition(type=kind, body=body, missing=missing):
                names += [*self._visit(kind, {}), *self._visit(body, {})]
                if missing is not None and missing.code is not None:
                    names.append(self._declare_code(missing.code))
            case syntax.FunctionDefinition(parameters=parameters, type=kind, body=body):
                for _, parameter_type in parameters:
                    names += self._visit(parameter_type, {})
                scope = _bind({}, [parameter for parameter, _ in parameters])
                names += [_declare(scope, parameter) for parameter, _ in parameters]
                names += [*self._visit(kind, {}), *self._visit(body, scope)]
            case syntax.Requirement():
                names += self._visit_requirement(item)
            case syntax.EnumDeclaration(members=members):
                names += [
                    Occurrence(Symbol("member", each.name.text), each.name.span, is_declaration=True)
                    for each in members
                ]
            case syntax.TableDeclaration(columns=columns, type=kind, rows=rows):
                for _, column_type in columns:
                    names += self._visit(column_type, {})
                names += [*self._visit(kind, {}), *self._visit(rows, {})]
            case syntax.CaseTable(columns=columns):
                columns_scope = _bind({}, columns, "column")
                names += [_declare(columns_scope, column) for column in columns]
                names += self._visit_test(item, columns_scope)
                names += [each for row in item.rows for each in self._visit(row.cells, {})]
            case syntax.Example() | syntax.SharedFixture():
                names += self._visit_test(item, {})
            case syntax.Property(claims=claims):
                names += self._visit_test(item, {})
                for claim in claims:
                    scope = _bind({}, [claim.variable])
                    names.append(_declare(scope, claim.variable))
                    names += self._visit(claim.type, {})
                    names += [*self._visit(claim.premise, scope), *self._visit(claim.conclusion, scope)]
        return names

    def _declare_code(self, code: syntax.TextLiteral) -> Occurrence:
        return Occurrence(Symbol("finding", code.value), code.span, is_declaration=True, form="text")

    def _visit_requirement(self, item: syntax.Requirement) -> Iterator[Occurrence]:
        for part in (item.scope, item.start, item.end, item.day, item.condition):
            yield from self._visit(part, {})
        for text in (item.heading, item.message):
            if not isinstance(text, syntax.Interpolation):
                yield from self._visit(text, {})
                continue
            own_names = text.names or (None,) * len(text.parts)
            for part, own_name in zip(text.parts, own_names, strict=True):
                for occurrence in self._visit(part, {}):
                    is_argument = own_name is None and isinstance(part, syntax.VariableRef)
                    yield occurrence._replace(form="argument") if is_argument else occurrence

    def _visit_test(
        self, item: syntax.Example | syntax.CaseTable | syntax.Property | syntax.SharedFixture, columns: Scope
    ) -> Iterator[Occurrence]:
        for base in item.bases:
            yield Occurrence(Symbol("fixture", base.text), base.span)
        for fixture in item.fixtures:
            if isinstance(fixture, syntax.FactFixture | syntax.RemovedFact):
                fact = fixture.fact_type
                if not isinstance(fact, syntax.ColumnRef):
                    yield Occurrence(Symbol("fact", fact.value), fact.span, form="text")
            yield from self._visit(fixture, columns)
        for expectation in getattr(item, "expectations", ()):
            if isinstance(expectation, syntax.Expectation):
                span = Span(expectation.path[0].span.start, expectation.path[-1].span.end)
                yield Occurrence(Symbol("field", expectation.dotted), span)
                yield from self._visit(expectation.constant, columns)
                continue
            code = expectation.code
            if isinstance(expectation, syntax.FindingExpectation) and not isinstance(code, syntax.ColumnRef):
                yield Occurrence(Symbol("finding", code.value), code.span, form="text")
            yield from self._visit(expectation, columns)

    # Expressions, types and constants

    def _visit(self, node: Any, scope: Scope) -> Iterator[Occurrence]:  # noqa: PLR0912 (one row a kind of node)
        match node:
            case None | str() | int() | Span():
                return
            case tuple():
                for part in node:
                    yield from self._visit(part, scope)
            case syntax.VariableRef(name=name):
                yield from self._resolve(name, node.span, scope)
            case syntax.ColumnRef(value=name):
                if name in scope:
                    yield Occurrence(scope[name], node.span)
            case syntax.NamedType(name=name):
                yield Occurrence(Symbol("enum", name), node.span)
            case syntax.QuantityLiteral(unit=unit) | syntax.QtyType(unit=unit):
                yield Occurrence(Symbol("unit", unit.text), unit.span)
            case syntax.FieldRef(path=path):
                yield Occurrence(Symbol("field", path.value), path.span, form="text")
            case syntax.FactQuery(fact=fact, key=key):
                yield Occurrence(Symbol("fact", fact.text), fact.span)
                yield from self._visit(key, scope)
            case syntax.Member(record=syntax.VariableRef(name=name), member=member) if self._is_enum(name, scope):
                yield Occurrence(Symbol("enum", name), node.record.span)
                yield Occurrence(Symbol("member", member.text), member.span)
            case syntax.Call():
                yield from self._visit_call(node, scope)
            case syntax.Lambda(parameters=parameters, body=body):
                inner = _bind(scope, parameters)
                yield from [_declare(inner, parameter) for parameter in parameters]
                yield from self._visit(body, inner)
            case syntax.Block(bindings=bindings, body=body):
                yield from self._visit_block(bindings, body, scope)
            case syntax.If(branches=branches, otherwise=otherwise):
                for branch in branches:
                    yield from self._visit(branch.condition, scope)
                    inner = scope if branch.binding is None else _bind(scope, [branch.binding])
                    yield from [] if branch.binding is None else [_declare(inner, branch.binding)]
                    yield from self._visit(branch.body, inner)
                yield from self._visit(otherwise, scope)
            case syntax.MatchArm(patterns=patterns, body=body):
                for pattern in patterns:
                    if pattern.text not in _PATTERNS:
                        yield Occurrence(Symbol("member", pattern.text), pattern.span)
                yield from self._visit(body, scope)
            case syntax.SyntaxNode() | syntax.ChainLink():
                for name in list_members(node):
                    if name != "span":
                        yield from self._visit(getattr(node, name), scope)
            case _:
                pass

    def _visit_block(self, bindings: Any, body: syntax.Expr, scope: Scope) -> Iterator[Occurrence]:
        for binding in bindings:
            if isinstance(binding, syntax.Let):
                yield from self._visit(binding.value, scope)
                scope = _bind(scope, [binding.name])
                yield _declare(scope, binding.name)
            else:
                yield from self._visit(binding.condition, scope)
        yield from self._visit(body, scope)

    def _visit_call(self, node: syntax.Call, scope: Scope) -> Iterator[Occurrence]:
        name, arguments = node.function.text, node.arguments
        yield Occurrence(Symbol(self._find_call_kind(name), name), node.function.span)
        first = arguments[0] if arguments else None
        if name in _FACT_FUNCTIONS and isinstance(first, syntax.TextLiteral):
            yield Occurrence(Symbol("fact", first.value), first.span, form="text")
        elif name == "emitCompliance" and isinstance(first, syntax.TextLiteral):
            yield self._declare_code(first)
        yield from self._visit(arguments, scope)

    def _find_call_kind(self, name: str) -> SymbolKind:
        if name in self._context.enums:
            return "enum"
        if name in self._context.tables:
            return "table"
        return "function" if name in self._context.calls else "builtin"

    def _is_enum(self, name: str, scope: Scope) -> bool:
        return name not in scope and name not in self._context.definitions and name in self._context.enums

    def _resolve(self, name: str, span: Span, scope: Scope) -> Iterator[Occurrence]:
        if name in scope:
            yield Occurrence(scope[name], span)
        elif name in self._context.definitions:
            yield Occurrence(Symbol("definition", name), span)
        elif name in self._context.enums_by_member:
            yield Occurrence(Symbol("member", name), span)


_KINDS: Final[Mapping[type, SymbolKind]] = {
    syntax.Rule: "field",
    syntax.Definition: "definition",
    syntax.FunctionDefinition: "function",
    syntax.Requirement: "finding",
    syntax.EnumDeclaration: "enum",
    syntax.TableDeclaration: "table",
    syntax.SharedFixture: "fixture",
    syntax.Example: "test",
    syntax.CaseTable: "test",
    syntax.Property: "test",
}


def get_kind(item: syntax.Item) -> SymbolKind:
    return _KINDS[type(item)]


def _bind(scope: Scope, names: Any, kind: SymbolKind = "variable") -> Scope:
    return {**scope, **{name.text: Symbol(kind, name.text, name.span.start) for name in names}}


def _declare(scope: Scope, name: syntax.Name) -> Occurrence:
    return Occurrence(scope[name.text], name.span, is_declaration=True)
