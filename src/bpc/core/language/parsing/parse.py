"""Parse rule text: a syntax tree and every mistake out.

Pure, and never raises for any text. The tree contains the rules and tests without mistakes; `unparsed_fields` are the
fields whose rules have one, so that the checker does not call them unknown. Deep nesting is refused before it exhausts
the stack; parsing stops after `MAX_ERRORS` mistakes.
"""

from bisect import bisect_left
from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.abouts import ABOUT_WORDS, AboutParser
from bpc.core.language.parsing.lexer import END, NAME, NUMBER
from bpc.core.language.parsing.operands import T
from bpc.core.language.parsing.parse_again import (
    CommonEnd,
    ParsedRules,
    ParsedText,
    find_common_end,
    find_common_start,
)
from bpc.core.language.parsing.tables import TableParser
from bpc.core.language.parsing.testing_blocks import TestBlockParser
from bpc.core.language.parsing.token_cursor import DECLARATION_SIGNS, ParseAbandoned
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
LANGUAGE_LEVELS: Final = (1, 2)
_ITEMS: Final = "`field`, `example` or `property`"
_LEVEL_TWO_ITEMS: Final = "`field`, `def`, `const`, `enum`, `table`, `fixture`, `example`, `cases` or `property`"


def parse(
    source: Source, *, tests_only: bool = False, language: int = 1, earlier: ParsedText | None = None
) -> ParsedRules:
    """Parse a rules file or, with `tests_only`, a tests file, in which a rule is a mistake.

    `language` is the level of a text that states none: a tests file has that of its rules. `earlier` is a text that
    was parsed with the same options, such as this one before an edit: where both begin or end alike, its items are
    taken.
    """
    parser = _FileParser(source, tests_only=tests_only, language=language)
    start, end = syntax.SyntaxTree(()), None
    if earlier is not None:
        start = find_common_start(source.text, earlier, parser.language)
        end = find_common_end(source.text, earlier, parser.language)
    rest = parser.parse_file(start, end)
    comments = tuple(
        syntax.Comment(text.rstrip(" \t\r"), span=Span(at, at + len(text))) for at, text in parser.list_comments()
    )
    tree = syntax.SyntaxTree(
        tuple(parser.items),
        (*start.comments, *comments, *rest.comments),
        parser.language,
        parser.language_span,
        tuple(parser.overrides),
    )
    return ParsedRules(
        tree,
        parser.collect_diagnostics(),
        tuple(parser.unparsed_fields),
        tuple(parser.unparsed_definitions),
        parser.has_unparsed_declaration,
    )


def parse_expression(source: Source, *, language: int = 1) -> tuple[syntax.Expr | None, tuple[Diagnostic, ...]]:
    """Parse a single expression; nothing may follow it."""
    parser = _FileParser(source, tests_only=False, language=language)
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


class _FileParser(TestBlockParser, TableParser, AboutParser):
    """Parses items one after another, and drops those with a mistake."""

    def __init__(self, source: Source, *, tests_only: bool, language: int) -> None:
        super().__init__(source, language)
        self.items: list[syntax.Item] = []
        self.overrides: list[syntax.Override] = []
        self.unparsed_fields: list[str] = []
        self.unparsed_definitions: list[str] = []
        self.has_unparsed_declaration = False
        self.language_span: Span | None = None
        self._tests_only = tests_only
        self._path: tuple[syntax.Name, ...] = ()
        self._taken_from: int | None = None

    def parse_file(self, tree: syntax.SyntaxTree, end: CommonEnd | None = None) -> syntax.SyntaxTree:
        """Parse what follows the items of `tree`, up to the first item of `end`; return what was taken from there."""
        try:
            if tree.items:
                self.items += tree.items
                self.overrides += tree.overrides
                self.language_span = tree.stated_at
                self.skip_text(tree.items[-1].span.end)
            self.start()
            if not tree.items:
                self._parse_language()
            is_lost = False
            while self.kind != END:
                if end is not None and self.starts[self.index] in end.starts:
                    return self._take_rest(end)
                is_lost = not self._parse_next_item(is_lost)
        except TooManyErrors:
            pass
        return syntax.SyntaxTree(())

    def _take_rest(self, end: CommonEnd) -> syntax.SyntaxTree:
        self._taken_from = self.starts[self.index]
        rest = end.move_rest(self._taken_from, len(self.items))
        self.items += rest.items
        self.overrides += rest.overrides
        return rest

    def list_comments(self) -> list[tuple[int, str]]:
        """The comments that were read, up to what was taken from an earlier text."""
        taken_from = self._taken_from
        return [(at, text) for at, text in self.comments if taken_from is None or at < taken_from]

    def _parse_language(self) -> None:
        """Parse `language 2;`, which a file may begin with."""
        if not self.is_word("language") or not self.is_next(NUMBER):
            return
        first = self.index
        self.advance()
        try:
            level = self.parse_natural("a level, as in `language 2;`")
            if level.digits not in map(str, LANGUAGE_LEVELS):
                message = f"there is no level {level.digits[:40]} of the rule language"
                self.report("unknown-language", message, level.span, "the levels are 1 and 2")
                self.language = 1
            self.expect_semicolon("the level")
            self.language_span = self.span_from(first)
        except ParseAbandoned:
            self.skip_statement()

    def _repeat_language(self) -> None:
        """Parse the `language 2;` that the next file of a linked package begins with."""
        level, stated_at = self.texts[self.index + 1], self.language_span
        if level != str(self.language):
            message = f"the package is of level {self.language}, not {level[:40]}"
            self.report(
                "unknown-language", message, self.span_at(self.index + 1), "all files of a package have one level"
            )
        self.skip_statement()
        self.language_span = stated_at

    def collect_diagnostics(self) -> tuple[Diagnostic, ...]:
        errors = sort_diagnostics(self.errors)
        if len(errors) >= MAX_ERRORS:
            errors.append(create_stop_diagnostic(errors[-1].span))
        return tuple(errors)

    def _parse_next_item(self, is_lost: bool) -> bool:
        """Parse one rule or test; False if there was none."""
        if self.language > 1 and self.is_word("language") and self.is_next(NUMBER):
            self._repeat_language()
            return True
        mistakes_before = self.mistake_count
        override_at = self.index
        reason = self._parse_override()
        self._path = ()
        self.defined_name = None
        self.level = self.lambdas = 0
        is_declaration = self.language > 1 and self.kind == NAME and self.texts[self.index] in DECLARATION_SIGNS
        try:
            item = self._parse_item(is_lost)
        except ParseAbandoned:
            self.skip_statement()
            item = None
        if item is not None and self.mistake_count == mistakes_before and not self._has_lexer_error(item.span):
            self.items.append(item)
            if reason is not None:
                position, span = len(self.items) - 1, self.span_at(override_at)
                self.overrides.append(syntax.Override(position, reason, span=span))
        elif is_declaration:
            self.has_unparsed_declaration = True
        elif self._path:
            self.unparsed_fields.append(".".join(name.text for name in self._path))
        elif self.defined_name is not None:
            self.unparsed_definitions.append(self.defined_name.text)
        return item is not None

    def _parse_override(self) -> syntax.TextLiteral | None:
        """Parse `override "reason"`, which may stand before an item of level 2."""
        if self.language == 1 or not self.is_word("override"):
            return None
        if not self.is_at_override():
            hint = 'write it behind the word: `override "why we say this otherwise"`'
            self.report("bad-override", "an override needs a reason", self.current_span(), hint)
            self.advance()
            return None
        self.advance()
        reason = self.parse_text("a reason in quotes")
        if not reason.value.strip():
            self.report(
                "bad-override", "an override needs a reason", reason.span, "say why this replaces what was there"
            )
        return reason

    def _has_lexer_error(self, span: Span) -> bool:
        at = bisect_left(self.lexer_error_starts, span.start)
        return at < len(self.lexer_error_starts) and self.lexer_error_starts[at] < span.end

    def _parse_item(self, is_lost: bool) -> syntax.Item | None:
        if self.kind == "field":
            return self._parse_rule()
        if self.kind == "example":
            return self.parse_example()
        if self.kind == "property":
            return self.parse_property()
        item = self._parse_level_two_item() if self.language > 1 else None
        if item is None:
            self._skip_stray_words(is_lost)
        return item

    def _parse_level_two_item(self) -> syntax.Item | None:  # noqa: PLR0911 (one row an item)
        if self.is_word("fixture"):
            return self.parse_shared_fixture()
        if self.is_word("cases"):
            return self.parse_case_table()
        if self.kind == "fn":
            return self._refuse_in_tests(self.index, self.parse_function())
        if self.is_at_definition_word():
            return self._refuse_in_tests(self.index, self.parse_definition())
        if self.is_word("require"):
            return self._refuse_in_tests(self.index, self.parse_requirement())
        if self.is_word("enum"):
            return self._refuse_in_tests(self.index, self.parse_enum())
        if self.is_word("table"):
            return self._refuse_in_tests(self.index, self.parse_table())
        return None

    def _skip_stray_words(self, is_lost: bool) -> None:
        """Report words that start no item, unless they follow a reported mistake, and skip them.

        A rule without its `field` is reported each time.
        """
        try:
            items = _ITEMS if self.language == 1 else _LEVEL_TWO_ITEMS
            if self._looks_like_rule():
                self.raise_unexpected(items, "a rule starts with `field`")
            if not is_lost:
                self.raise_unexpected(items)
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
        height = self.height
        layer = self.parse_layer() if self.language > 1 else None
        about = self.parse_about() if self.language > 1 and self.is_word("about") else None
        self.expect_semicolon("the rule", "an operator" if about is None else ABOUT_WORDS)
        span = self.span_from(first)
        rule = None if head is None else syntax.Rule(*head, body, about, layer=layer, span=span, height=height)
        return self._refuse_in_tests(first, rule)

    def _refuse_in_tests(self, first: int, item: T) -> T:
        """Return the item that starts at word `first`, which a tests file cannot contain."""
        if self._tests_only:
            message = "a tests file can contain only examples and properties"
            self.report("rule-in-tests", message, self.span_at(first), "move the rule to the rules file")
        return item

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
