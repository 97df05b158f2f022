"""Parsing: rule text in, a syntax tree and everything that is wrong with the text out.

Pure, and never raises for any text. The tree holds the rules and tests that could be read without a mistake;
`unread` names the fields whose rules could not, so that nobody calls them unknown. Deep nesting is refused before it
could exhaust anything; after `MAX_ERRORS` mistakes reading stops.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from bpc.core.rules.parsing.cursor import MAX_ERRORS, Abandoned, Enough
from bpc.core.rules.parsing.lex import END, NAME
from bpc.core.rules.parsing.tests import TestParser
from bpc.core.rules.source import Diagnostic, Source, Span, in_order
from bpc.core.rules.syntax import Comment, Expr, Item, Name, Rule, Tree, TypeExpr

AUDIENCES: Final = ("public", "interest", "authority")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What could be read of a file, and every mistake in it."""

    tree: Tree
    diagnostics: tuple[Diagnostic, ...]
    unread: tuple[str, ...] = ()


def parse(source: Source, *, tests_only: bool = False) -> Parsed:
    """Read a rules file, or, with `tests_only`, a tests file, in which a rule is a mistake."""
    parser = _FileParser(source, tests_only=tests_only)
    parser.read()
    comments = tuple(Comment(text.rstrip(" \t\r"), span=Span(at, at + len(text))) for at, text in parser.comments)
    return Parsed(Tree(tuple(parser.items), comments), parser.diagnostics(), tuple(parser.unread))


def parse_expression(source: Source) -> tuple[Expr | None, tuple[Diagnostic, ...]]:
    """Read a single expression; nothing may follow it."""
    parser = _FileParser(source, tests_only=False)
    made: Expr | None = None
    try:
        parser.start()
        made = parser.expr()
        if parser.kind != END:
            parser.unexpected("an operator or the end")
    except (Abandoned, Enough):
        made = None
    diagnostics = parser.diagnostics()
    return (None if diagnostics else made), diagnostics


class _FileParser(TestParser):
    """Reads items one after the other, and drops those with a mistake."""

    def __init__(self, source: Source, *, tests_only: bool) -> None:
        super().__init__(source)
        self.items: list[Item] = []
        self.unread: list[str] = []
        self._tests_only = tests_only
        self._path: tuple[Name, ...] = ()

    def read(self) -> None:
        try:
            self.start()
            is_lost = False
            while self.kind != END:
                is_lost = not self._item(is_lost)
        except Enough:
            return

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        found = in_order(self.found)
        if len(found) >= MAX_ERRORS:
            says = f"there are {MAX_ERRORS} mistakes; reading stopped here"
            found.append(Diagnostic(kind="too-many-errors", says=says, span=found[-1].span))
        return tuple(found)

    def _item(self, is_lost: bool) -> bool:
        """Read one rule or test; False if there was none to read."""
        mistakes = self.mistakes
        self._path = ()
        self.level = self.lambdas = 0
        try:
            item = self._read_item(is_lost)
        except Abandoned:
            self.skip_statement()
            item = None
        if item is not None and self.mistakes == mistakes and not self._has_word_fault(item.span):
            self.items.append(item)
        elif self._path:
            self.unread.append(".".join(name.text for name in self._path))
        return item is not None

    def _has_word_fault(self, span: Span) -> bool:
        at = bisect_left(self.word_faults, span.start)
        return at < len(self.word_faults) and self.word_faults[at] < span.end

    def _read_item(self, is_lost: bool) -> Item | None:
        if self.kind == "field":
            return self._rule()
        if self.kind == "example":
            return self.example()
        if self.kind == "property":
            return self.property()
        self._pass_stray(is_lost)
        return None

    def _pass_stray(self, is_lost: bool) -> None:
        """Complain about words that start nothing, unless they belong to what was just complained about; pass them.

        A rule without its `field` is worth a message each time.
        """
        try:
            if self._looks_like_rule():
                self.unexpected("`field`, `example` or `property`", "a rule starts with `field`")
            if not is_lost:
                self.unexpected("`field`, `example` or `property`")
        except Abandoned:
            self.advance()
        self.skip(lambda: self.kinds[self.at - 1] == ";" and self._looks_like_rule())

    def _looks_like_rule(self) -> bool:
        behind = self.at + 2 if self.kinds[self.at + 1] == NAME else self.at + 1
        return self.kind == NAME and self.kinds[behind] in (".", "@", ":")

    def _rule(self) -> Rule | None:
        first = self.at
        self.advance()
        try:
            head = self._head()
        except Abandoned:
            head = None
            self.skip_statement("=")
            if self.kind != "=":
                return None
        self.expect("=", "`=` and an expression")
        body = self.expr()
        self.semicolon("the rule")
        if self._tests_only:
            says = "a tests file holds examples and properties only"
            self.report("rule-in-tests", says, self.word_span(first), "move the rule to the rules file")
        return None if head is None else Rule(*head, body, span=self.span_from(first))

    def _head(self) -> tuple[tuple[Name, ...], tuple[Name, ...], TypeExpr]:
        """What stands before the `=` of a rule."""
        self._path = self.path()
        audiences: list[Name] = []
        while self.accept("@"):
            audiences.append(self._audience([audience.text for audience in audiences]))
        self.expect(":", "`:` and a type" if audiences else "`:` and a type, or `@` and an audience")
        made = self.type()
        if self.kind != "=":
            self.unexpected("`=` and an expression")
        return self._path, tuple(audiences), made

    def _audience(self, before: list[str]) -> Name:
        audience = self.name("an audience: `public`, `interest` or `authority`")
        if audience.text not in AUDIENCES:
            help_ = self.suggestions.help(audience.text, AUDIENCES) or "there are `public`, `interest` and `authority`"
            self.report("unknown-audience", f"there is no audience `{audience.text}`", audience.span, help_)
        elif audience.text in before:
            self.report("repeated-audience", f"`@{audience.text}` is there already", audience.span)
        return audience
