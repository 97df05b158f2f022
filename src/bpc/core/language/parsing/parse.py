"""Parse rule text: a syntax tree and every mistake out.

Pure, and never raises for any text. The tree contains the rules and tests without mistakes; `unparsed_fields` are the
fields whose rules have one, so that the checker does not call them unknown. Deep nesting is refused before it exhausts
the stack; parsing stops after `MAX_ERRORS` mistakes.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.expressions import ConstantParser
from bpc.core.language.parsing.lexer import END, NAME
from bpc.core.language.parsing.operands import T
from bpc.core.language.parsing.token_cursor import ParseAbandoned
from bpc.core.language.source import (
    MAX_ERRORS,
    Diagnostic,
    Source,
    Span,
    TooManyErrors,
    create_stop_diagnostic,
    sort_diagnostics,
)

AUDIENCES: Final = ("public", "interest", "authority")


@dataclass(frozen=True, slots=True)
class ParsedRules:
    """The part of a file without mistakes, and every mistake."""

    tree: syntax.SyntaxTree
    diagnostics: tuple[Diagnostic, ...]
    unparsed_fields: tuple[str, ...] = ()


def parse(source: Source, *, tests_only: bool = False) -> ParsedRules:
    """Parse a rules file or, with `tests_only`, a tests file, in which a rule is a mistake."""
    parser = _FileParser(source, tests_only=tests_only)
    parser.parse_file()
    comments = tuple(
        syntax.Comment(text.rstrip(" \t\r"), span=Span(at, at + len(text))) for at, text in parser.comments
    )
    return ParsedRules(
        syntax.SyntaxTree(tuple(parser.items), comments), parser.collect_diagnostics(), tuple(parser.unparsed_fields)
    )


def parse_expression(source: Source) -> tuple[syntax.Expr | None, tuple[Diagnostic, ...]]:
    """Parse a single expression; nothing may follow it."""
    parser = _FileParser(source, tests_only=False)
    expr: syntax.Expr | None = None
    try:
        parser.start()
        expr = parser.parse_expr()
        if parser.kind != END:
            parser.raise_unexpected("an operator or the end")
    except (ParseAbandoned, TooManyErrors):
        expr = None
    diagnostics = parser.collect_diagnostics()
    return (None if diagnostics else expr), diagnostics


class _FileParser(ConstantParser):
    """Parses items one after another, and drops those with a mistake."""

    def __init__(self, source: Source, *, tests_only: bool) -> None:
        super().__init__(source)
        self.items: list[syntax.Item] = []
        self.unparsed_fields: list[str] = []
        self._tests_only = tests_only
        self._path: tuple[syntax.Name, ...] = ()

    def parse_file(self) -> None:
        try:
            self.start()
            is_lost = False
            while self.kind != END:
                is_lost = not self._parse_next_item(is_lost)
        except TooManyErrors:
            return

    def collect_diagnostics(self) -> tuple[Diagnostic, ...]:
        errors = sort_diagnostics(self.errors)
        if len(errors) >= MAX_ERRORS:
            errors.append(create_stop_diagnostic(errors[-1].span))
        return tuple(errors)

    def _parse_next_item(self, is_lost: bool) -> bool:
        """Parse one rule or test; False if there was none."""
        mistakes_before = self.mistake_count
        self._path = ()
        self.level = self.lambdas = 0
        try:
            item = self._parse_item(is_lost)
        except ParseAbandoned:
            self.skip_statement()
            item = None
        if item is not None and self.mistake_count == mistakes_before and not self._has_lexer_error(item.span):
            self.items.append(item)
        elif self._path:
            self.unparsed_fields.append(".".join(name.text for name in self._path))
        return item is not None

    def _has_lexer_error(self, span: Span) -> bool:
        at = bisect_left(self.lexer_error_starts, span.start)
        return at < len(self.lexer_error_starts) and self.lexer_error_starts[at] < span.end

    def _parse_item(self, is_lost: bool) -> syntax.Item | None:
        if self.kind == "field":
            return self._parse_rule()
        if self.kind == "example":
            return self._parse_example()
        if self.kind == "property":
            return self._parse_property()
        self._skip_stray_words(is_lost)
        return None

    def _skip_stray_words(self, is_lost: bool) -> None:
        """Report words that start no item, unless they follow a reported mistake, and skip them.

        A rule without its `field` is reported each time.
        """
        try:
            if self._looks_like_rule():
                self.raise_unexpected("`field`, `example` or `property`", "a rule starts with `field`")
            if not is_lost:
                self.raise_unexpected("`field`, `example` or `property`")
        except ParseAbandoned:
            self.advance()
        self.skip(lambda: self.kinds[self.index - 1] == ";" and self._looks_like_rule())

    def _looks_like_rule(self) -> bool:
        behind = self.index + 2 if self.kinds[self.index + 1] == NAME else self.index + 1
        return self.kind == NAME and self.kinds[behind] in (".", "@", ":")

    # Rules

    def _parse_rule(self) -> syntax.Rule | None:
        first = self.index
        self.advance()
        try:
            head = self._parse_rule_head()
        except ParseAbandoned:
            head = None
            self.skip_statement("=")
            if self.kind != "=":
                return None
        self.expect("=", "`=` and an expression")
        body = self.parse_expr()
        self.expect_semicolon("the rule")
        if self._tests_only:
            message = "a tests file can contain only examples and properties"
            self.report("rule-in-tests", message, self.span_at(first), "move the rule to the rules file")
        return None if head is None else syntax.Rule(*head, body, span=self.span_from(first))

    def _parse_rule_head(self) -> tuple[tuple[syntax.Name, ...], tuple[syntax.Name, ...], syntax.TypeExpr]:
        """Parse the part of a rule before its `=`."""
        self._path = self.parse_path()
        audiences: list[syntax.Name] = []
        while self.accept("@"):
            audiences.append(self._parse_audience([audience.text for audience in audiences]))
        self.expect(":", "`:` and a type" if audiences else "`:` and a type, or `@` and an audience")
        type_ = self.parse_type()
        if self.kind != "=":
            self.raise_unexpected("`=` and an expression")
        return self._path, tuple(audiences), type_

    def _parse_audience(self, earlier: list[str]) -> syntax.Name:
        audience = self.parse_name("an audience: `public`, `interest` or `authority`")
        if audience.text not in AUDIENCES:
            help_ = self.suggestions.suggest(audience.text, AUDIENCES)
            help_ = help_ or "the audiences are `public`, `interest` and `authority`"
            self.report("unknown-audience", f"there is no audience `{audience.text}`", audience.span, help_)
        elif audience.text in earlier:
            self.report("repeated-audience", f"`@{audience.text}` is already listed", audience.span)
        return audience

    # Examples and properties

    def _parse_example(self) -> syntax.Example:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the example")
        self.expect(":")
        fixtures = self._parse_fixtures(is_property=False)
        self.expect("=>", "`=>` and what is expected")
        expectations: list[syntax.Expectation | syntax.ErrorExpectation] = []
        while not self._is_at_end():
            if (expectation := self._parse_statement(self._parse_expectation, "the expectation")) is not None:
                expectations.append(expectation)
        self._expect_last_semicolon("example")
        return syntax.Example(name, fixtures, tuple(expectations), span=self.span_from(first))

    def _parse_property(self) -> syntax.Property:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the property")
        self.expect(":")
        cases = self._parse_amount("cases")
        seed = self._parse_amount("seed")
        fixtures: tuple[syntax.Fixture, ...] = ()
        if self.is_word("given"):
            self.advance()
            fixtures = self._parse_fixtures(is_property=True)
        self.expect("=>", "`=>` and what is claimed" if fixtures else "`given` or `=>`")
        claims: list[syntax.Claim] = []
        while not self._is_at_end():
            if (claim := self._parse_statement(self._parse_claim, "the claim")) is not None:
                claims.append(claim)
        self._expect_last_semicolon("property")
        return syntax.Property(name, cases, seed, fixtures, tuple(claims), span=self.span_from(first))

    def _parse_amount(self, word: str) -> syntax.NumberLiteral:
        self.expect_word(word)
        return self._parse_in_parentheses(self.parse_natural, f"a number, such as `{word}(100)`")

    def _parse_in_parentheses(self, parse: Callable[[str], T], what: str) -> T:
        opening = self.index
        self.expect("(")
        item = parse(what)
        self.expect_closing(")", opening)
        return item

    def _is_at_end(self) -> bool:
        return self.kind in (";", END) or self.is_at_item()

    def _expect_last_semicolon(self, what: str) -> None:
        if not self.accept(";"):
            self.report_missing(";", f"the {what}: it needs its own `;` after the `;` of its last line")

    def _parse_statement(self, parse: Callable[[], T], what: str, *stop_at: str) -> T | None:
        """Parse a statement of a test and its `;`. After a mistake, continue after the `;` or at `stop_at`."""
        try:
            statement = parse()
            self.expect_semicolon(what)
        except ParseAbandoned:
            self.level = self.lambdas = 0
            if not self.skip_statement(*stop_at):
                raise
            return None
        return statement

    # Fixtures

    def _parse_fixtures(self, *, is_property: bool) -> tuple[syntax.Fixture, ...]:
        opening = self.index
        self.expect("{", "`{` and the fixtures")
        fixtures: list[syntax.Fixture] = []
        while self.kind not in ("}", END) and not self.is_at_item():
            fixture = self._parse_statement(lambda: self._parse_fixture(is_property=is_property), "the fixture", "}")
            if fixture is not None:
                fixtures.append(fixture)
        self.expect_closing("}", opening, "`fact`, `product`, `issued` or ")
        return tuple(fixtures)

    def _parse_fixture(self, *, is_property: bool) -> syntax.Fixture:
        first = self.index
        if self.is_word("fact"):
            return self._parse_fact(is_property=is_property)
        if self.is_word("product"):
            self.advance()
            sku, name = self._parse_two_texts('`product("sku", "name")`')
            return syntax.ProductFixture(sku, name, span=self.span_from(first))
        if not self.is_word("issued"):
            self.raise_unexpected("`fact`, `product`, `issued` or `}`")
        self.advance()
        day = self._parse_in_parentheses(self.parse_text, 'a day, as in `issued("2026-02-28")`')
        return syntax.IssuedFixture(day, span=self.span_from(first))

    def _parse_fact(self, *, is_property: bool) -> syntax.FactFixture:
        first = self.index
        self.advance()
        label = self.parse_variable("a label after `fact`")
        fact_type, key = self._parse_two_texts('`fact b("Battery", "battery:1")`')
        self.expect("=", "`=` and the fact's JSON")
        payload: syntax.JsonObject | None = None
        if self.is_word("any"):
            if not is_property:
                message = "only a property can have `any` fact"
                self.report("unexpected-token", message, self.current_span(), "write the fact's JSON here")
            self.advance()
        else:
            payload = self.parse_json_object(1)
        return syntax.FactFixture(label, fact_type, key, payload, span=self.span_from(first))

    def _parse_two_texts(self, notation: str) -> tuple[syntax.TextLiteral, syntax.TextLiteral]:
        """Parse two texts in parentheses."""
        opening = self.index
        self.expect("(", help_=f"it is written {notation}")
        first = self.parse_text(f"a text, as in {notation}")
        self.expect(",", f"`,` and a second text, as in {notation}")
        second = self.parse_text(f"a second text, as in {notation}")
        self.expect_closing(")", opening)
        return first, second

    # Expectations and claims

    def _parse_expectation(self) -> syntax.Expectation | syntax.ErrorExpectation:
        first = self.index
        if self.is_word("expect"):
            return self._parse_expect(first)
        if not self.is_word("expectError"):
            self.raise_unexpected("`expect`, `expectError` or `;`")
        self.advance()
        code = self._parse_in_parentheses(self.parse_text, 'a code in quotes, as in `expectError("E001")`')
        return syntax.ErrorExpectation(code, span=self.span_from(first))

    def _parse_expect(self, first: int) -> syntax.Expectation:
        self.advance()
        opening = self.index
        self.expect("(")
        path = self.parse_path()
        self.expect(",", "`,` and a comparison, as in `expect(battery.mass, == 5)`")
        if self.kind not in syntax.COMPARATORS:
            help_ = "`==` compares" if self.kind == "=" else None
            self.raise_unexpected("a comparison, as in `expect(battery.mass, == 5)`", help_)
        op = self.kind
        self.advance()
        constant = self.parse_constant(1)
        self.expect_closing(")", opening)
        return syntax.Expectation(path, op, constant, span=self.span_from(first))

    def _parse_claim(self) -> syntax.Claim:
        first = self.index
        if not self.is_word("forall"):
            self.raise_unexpected("`forall` or `;`")
        self.advance()
        variable = self.parse_variable("a variable after `forall`")
        self.expect(":", "`:` and the variable's type")
        type_ = self.parse_type()
        self.expect(".", "`.` and `implies`")
        self.expect_word("implies")
        opening = self.index
        self.expect("(")
        premise = self.parse_expr()
        self.expect(",", "an operator, or `,` and the conclusion")
        conclusion = self.parse_expr()
        self.expect_closing(")", opening, "an operator or ")
        return syntax.Claim(variable, type_, premise, conclusion, span=self.span_from(first))
