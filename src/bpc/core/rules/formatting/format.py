"""Formatting: a syntax tree and its text in, the same rules and tests in their canonical layout out.

Pure. Parsing what comes out gives the same tree, and formatting it again changes nothing. Every comment is written
exactly once. Lines have at most 100 columns where there is a place to break them.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

from bpc.core.rules.formatting.comments import Comments
from bpc.core.rules.formatting.expressions import ExpressionLayout, literal, number, quoted
from bpc.core.rules.formatting.layout import BLANK_LINE, NEW_LINE, Doc, Group, Nest, Row, laid_out
from bpc.core.rules.source import Source, Span
from bpc.core.rules.syntax import (
    Claim,
    Constant,
    Example,
    Expect,
    ExpectError,
    FactFixture,
    Fixture,
    IssuedFixture,
    Item,
    JsonAtom,
    JsonList,
    JsonObject,
    JsonValue,
    ListConstant,
    ProductFixture,
    Property,
    RecordConstant,
    Rule,
    SomeConstant,
    Tree,
)


def formatted(tree: Tree, source: Source) -> str:
    """The canonical text of `tree`, which is what `source` says without any mistake."""
    layout = _FileLayout(Comments(tree.comments, source))
    written = laid_out(layout.file(tree)).strip("\n")
    return f"{written}\n" if written else ""


class _FileLayout(ExpressionLayout):
    """Lays out rules and tests."""

    def file(self, tree: Tree) -> Doc:
        parts: list[Doc] = []
        end = 0
        for item in tree.items:
            start = item.span.start
            parts.append(self.comments.between(end, start, BLANK_LINE) if parts else self.comments.first(start))
            parts.append(self._item(item))
            end = item.span.end
        parts.append(self.comments.rest(end))
        return Row(parts)

    def _item(self, item: Item) -> Doc:
        match item:
            case Rule():
                return self._rule(item)
            case Example():
                return self._example(item)
            case Property():
                return self._property(item)
            case _:
                assert_never(item)

    def _rule(self, rule: Rule) -> Doc:
        audiences = "".join(f" @{audience.text}" for audience in rule.audiences)
        head = Row((f"field {rule.dotted}{audiences}: ", self.type(rule.type), " ="))
        return Row((head, Group(self.below(rule.body)), ";"))

    # Tests

    def _example(self, example: Example) -> Doc:
        fixtures = self._fixtures(example.fixtures, example.name.span.end)
        head = Row((f"example {example.name.text}: ", fixtures, " =>"))
        expectations = [(expectation.span, self._expectation, expectation) for expectation in example.expectations]
        return self._test(head, expectations, example.span.end)

    def _property(self, property_: Property) -> Doc:
        numbers = f"cases({number(property_.cases)}) seed({number(property_.seed)})"
        head: Doc = f"property {property_.name.text}: {numbers} =>"
        if property_.givens:
            givens = self._fixtures(property_.givens, property_.seed.span.end)
            head = Row((f"property {property_.name.text}: {numbers} given ", givens, " =>"))
        return self._test(head, [(claim.span, self._claim, claim) for claim in property_.claims], property_.span.end)

    def _test(self, head: Doc, statements: "Sequence[tuple[Span, Callable[[Any], Doc], object]]", end: int) -> Doc:
        """A test: its statements below its head, and a `;` of its own at `end`."""
        inner = self._statements(statements, end - 1)
        return Row((head, inner, NEW_LINE, ";"))

    def _statements(self, statements: "Sequence[tuple[Span, Callable[[Any], Doc], object]]", end: int) -> Nest:
        """Statements, each on its line; the bracket or `;` behind them stands at `end`."""
        parts: list[Doc] = []
        before = 0
        for span, write, statement in statements:
            gap = self.comments.between(before, span.start) if parts else self.comments.before(span.start, NEW_LINE)
            parts += [gap, write(statement), ";"]
            before = span.end
        return Nest(*parts, self.comments.closing(end))

    def _fixtures(self, fixtures: tuple[Fixture, ...], start: int) -> Doc:
        end = self.comments.place_of("}", fixtures[-1].span.end if fixtures else start, len(self.comments.text))
        inner = self._statements([(fixture.span, self._fixture, fixture) for fixture in fixtures], end)
        return Row(("{", inner, NEW_LINE, "}")) if inner.is_hard else "{}"

    def _fixture(self, fixture: Fixture) -> Doc:
        match fixture:
            case ProductFixture(sku, name):
                return f"product({quoted(sku.value)}, {quoted(name.value)})"
            case IssuedFixture(day):
                return f"issued({quoted(day.value)})"
            case FactFixture(label, fact_type, key, payload):
                head = f"fact {label.text}({quoted(fact_type.value)}, {quoted(key.value)}) = "
                return f"{head}any" if payload is None else Row((head, self._json(payload)))
            case _:
                assert_never(fixture)

    def _json(self, value: JsonValue) -> Doc:
        match value:
            case JsonObject(members):
                return self.bracketed("{", members, self.member(self._json), "}", value.span.end)
            case JsonList(items):
                return self.bracketed("[", items, self._json, "]", value.span.end)
            case JsonAtom(atom):
                return _atom(atom)
            case _:
                assert_never(value)

    def _expectation(self, expectation: Expect | ExpectError) -> Doc:
        if isinstance(expectation, ExpectError):
            return f"expectError({quoted(expectation.code.value)})"
        head = f"expect({expectation.dotted}, {expectation.op} "
        return Row((head, self._constant(expectation.constant), ")"))

    def _constant(self, constant: Constant) -> Doc:
        match constant:
            case SomeConstant(item):
                return Row(("some(", self._constant(item), ")"))
            case ListConstant(items):
                return self.bracketed("[", items, self._constant, "]", constant.span.end)
            case RecordConstant(members):
                return self.bracketed("{", members, self.member(self._constant), "}", constant.span.end)
            case _:
                return literal(constant)

    def _claim(self, claim: Claim) -> Doc:
        head = Row((f"forall {claim.variable.text}: ", self.type(claim.type), " . "))
        both = (claim.premise, claim.conclusion)
        return Row((head, self.bracketed("implies(", both, self.expr, ")", claim.span.end)))


def _atom(value: str | int | bool | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)
