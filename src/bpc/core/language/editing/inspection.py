"""What the checker knows inside one item: the type of each expression, and the names that are visible at a place.

Pure. The item is checked once more, by itself, with handlers that write down what they are asked and what they answer.
Nothing is reported, and nothing that the package shares is changed: the check of the package stays as it is.

An item that is being typed cannot be parsed. It is found by its first word, which stands at the start of a line. What
is being typed at the cursor is taken out, and the rest is read; if that fails, the rest behind the cursor is replaced
by what closes it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import BoundVariable, Checker, Findings, PackageContext
from bpc.core.language.checking.expressions import HANDLERS
from bpc.core.language.checking.literals import resolve_type
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, Span, TooManyErrors
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.types import Type


class CheckedNode(NamedTuple):
    """An expression and what the checker made of it: None if it has a mistake."""

    node: Any
    expr: typed.Expr | None


@dataclass(slots=True)
class Inspection:
    """The expressions of an item that were checked, inner ones first, and the variables visible at a place."""

    nodes: list[CheckedNode] = field(default_factory=list)
    variables: Mapping[str, Type | None] = field(default_factory=dict)
    _narrowest: int | None = None

    def find_type_at(self, offset: int) -> tuple[Span, Type] | None:
        """The smallest expression around a place, and its type."""
        around = [
            (part.node.span, part.expr.type)
            for part in self.nodes
            if part.expr is not None and part.node.span.start <= offset <= part.node.span.end
        ]
        return min(around, key=lambda each: each[0].end - each[0].start, default=None)

    def find_type_before(self, end: int) -> Type | None:
        """The type of the largest expression that ends at a place: of all that stands before a point."""
        ending = [
            (part.node.span.start, part.expr.type)
            for part in self.nodes
            if part.expr is not None and part.node.span.end == end and _is_operand(part.node)
        ]
        return min(ending, key=lambda each: each[0])[1] if ending else None

    def find_expr(self, node: object) -> typed.Expr | None:
        """What the checker made of a node."""
        return next((part.expr for part in self.nodes if part.node is node), None)

    def see_scope(self, span: Span, offset: int, names: Mapping[str, BoundVariable]) -> None:
        width = span.end - span.start
        if span.start <= offset <= span.end and (self._narrowest is None or width <= self._narrowest):
            self._narrowest = width
            self.variables = {name: variable.type for name, variable in names.items()}


# A point binds tighter than any operator, so it belongs to what stands last.
_LOOSE: Final = (syntax.OperatorChain, syntax.Comparison, syntax.Unary, syntax.If, syntax.Block, syntax.Presence)


def _is_operand(node: object) -> bool:
    return not isinstance(node, _LOOSE) and isinstance(node, syntax.SyntaxNode)


def inspect_item(context: PackageContext, source: Source, item: syntax.Item, offset: int = -1) -> Inspection:
    """Check an item by itself; `offset` is the place whose visible names are wanted."""
    inspection = Inspection()
    handlers = {kind: partial(_record, inspection, handler, offset) for kind, handler in HANDLERS.items()}
    checker = Checker(_copy_context(context), Findings(source), handlers, in_rules=True)
    with suppress(TooManyErrors):
        _check_item(checker, item)
    return inspection


def _record(
    inspection: Inspection, handler: Any, offset: int, checker: Checker, node: Any, want: Type | None
) -> typed.Expr | None:
    inspection.see_scope(node.span if hasattr(node, "span") else node.node.span, offset, checker.scope.names)
    expr: typed.Expr | None = handler(checker, node, want)
    if isinstance(node, syntax.SyntaxNode):
        inspection.nodes.append(CheckedNode(node, expr))
    return expr


def _copy_context(context: PackageContext) -> PackageContext:
    """The same context; what a check writes into it is not seen by others. Nobody reads suggestions here."""
    copy = PackageContext(context.language)
    copy.types = context.types
    copy.suggestions = Suggestions(budget=0)
    copy.fields = dict(context.fields)
    copy.definitions = {name: replace(declaration) for name, declaration in context.definitions.items()}
    copy.enums, copy.enums_by_member = context.enums, context.enums_by_member
    copy.tables, copy.calls = context.tables, context.calls
    return copy


def _check_item(checker: Checker, item: syntax.Item) -> None:
    match item:
        case syntax.Rule(type=kind, body=body):
            checker.rule = item.dotted
            checker.check(body, resolve_type(checker, kind))
        case syntax.Definition(type=kind, body=body):
            target = None if kind is None or item.missing is not None else resolve_type(checker, kind)
            checker.check(body, target)
        case syntax.FunctionDefinition(parameters=parameters, type=kind, body=body):
            for name, parameter_type in parameters:
                variable = BoundVariable(resolve_type(checker, parameter_type), name.span, "parameter", None, 0)
                checker.scope.bind(name.text, variable)
            checker.check(body, resolve_type(checker, kind))
        case syntax.Requirement():
            parts = (item.scope, item.start, item.end, item.day, item.condition, item.heading, item.message)
            for part in parts:
                if part is not None:
                    checker.check(part)
        case syntax.Property(claims=claims):
            for claim in claims:
                variable = BoundVariable(resolve_type(checker, claim.type), claim.variable.span, "forall", None, 0)
                before = checker.scope.bind(claim.variable.text, variable)
                checker.check(claim.premise)
                checker.check(claim.conclusion)
                checker.scope.unbind(claim.variable.text, before)
        case _:
            pass


ITEM_WORDS: Final = (
    *("field", "def", "const", "fn", "require", "enum", "table"),
    *("fixture", "example", "cases", "property", "override", "language"),
)
_ITEM_START: Final = re.compile(rf"^(?:{'|'.join(ITEM_WORDS)})(?![A-Za-z0-9_])", re.MULTILINE)
_WORD_BEFORE: Final = re.compile(r"[A-Za-z0-9_]*\Z")
_PATH_BEFORE: Final = re.compile(r"[A-Za-z0-9_.]*\Z")
_LEXEME: Final = re.compile(r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?|--[^\n]*|[()\[\]{}]')
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
# An item is not longer than this, or what is typed in it is not worth the time.
_MAX_LENGTH: Final = 20_000


class CursorWord(NamedTuple):
    """What is being typed: the letters before the cursor, where they start, and whether a point stands before them."""

    prefix: str
    start: int
    is_member: bool


def find_cursor_word(text: str, offset: int) -> CursorWord:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    match = _WORD_BEFORE.search(line)
    prefix = match.group() if match else ""
    start = offset - len(prefix)
    before = text[max(0, start - 1) : start]
    is_number = re.fullmatch("[0-9]+", _cut_last_word(text, start - 1)) is not None
    return CursorWord(prefix, start, before == "." and not is_number)


def find_cursor_path(text: str, offset: int) -> str:
    """The names and points before the cursor."""
    match = _PATH_BEFORE.search(text[text.rfind("\n", 0, offset) + 1 : offset])
    return match.group() if match else ""


def _cut_last_word(text: str, end: int) -> str:
    match = _WORD_BEFORE.search(text[max(0, end - 100) : max(0, end)])
    return match.group() if match else ""


def find_item_span(text: str, offset: int) -> Span | None:
    """The text from the start of the item around a place to the start of the next one."""
    start = None
    for word in _ITEM_START.finditer(text, max(0, offset - _MAX_LENGTH)):
        if word.start() > offset:
            return None if start is None else Span(start, word.start())
        start = word.start()
    return None if start is None else Span(start, min(len(text), offset + _MAX_LENGTH))


def inspect_half_typed(
    context: PackageContext, source: Source, offset: int, hole: Span
) -> tuple[Inspection, int] | None:
    """Inspect the item around a place without the part `hole`; and where that part stood. None if nothing helps."""
    span = find_item_span(source.text, offset)
    if span is None or not span.start <= hole.start:
        return None
    before, after = source.text[span.start : hole.start], source.text[hole.end : span.end]
    for text in _list_repairs(before, after):
        attempt = Source(source.name, text)
        items = parse(attempt, language=context.language).tree.items
        item = items[0] if items else None
        if item is not None and item.span.end >= len(before):
            return inspect_item(context, attempt, item, len(before)), len(before)
    return None


def _list_repairs(before: str, after: str) -> Iterator[str]:
    """Texts that may be what is meant: with the rest as it is, behind a semicolon, or closed."""
    closers = _list_closers(before)
    # A name where one is missing, directly at the cursor: what is visible to it is visible there.
    name = " x" if _WORD_BEFORE.search(before[-1:]).group() else "x"  # type: ignore[union-attr] # matches always
    yield before + after
    yield f"{before}; {after}"
    yield f"{before}{name} {after}"
    for ending in ("", name, "; x", " then x else x", ": x", " => x", "= x", ") x else x"):
        yield f"{before}{ending}{closers};"
        yield f"{before}{ending}{closers} then x else x;"
        yield f'{before}{ending}{closers}: x else "";'


def _list_closers(text: str) -> str:
    """What closes the brackets that are open at the end of a text."""
    pending: list[str] = []
    for lexeme in _LEXEME.findall(text):
        if lexeme in _CLOSERS:
            pending.append(_CLOSERS[lexeme])
        elif pending and lexeme == pending[-1]:
            pending.pop()
    return "".join(reversed(pending))
