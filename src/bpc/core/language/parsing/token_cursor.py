"""The token cursor: look ahead, consume words, report mistakes, and recover from them.

Pure. A mistake is reported once. A method that cannot continue raises `ParseAbandoned`; the method that opened the
bracket, `let` or rule catches it, skips to its end and continues, so one run finds all mistakes. `TooManyErrors` ends
the run.
"""

import re
from bisect import insort
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from bpc.core.facts.units import UNITS
from bpc.core.language.parsing.lexer import (
    BAD,
    END,
    NAME,
    NUMBER,
    RESERVED,
    TEXT,
    Lexer,
    decode_text,
    find_language,
    is_natural,
)
from bpc.core.language.parsing.notation_fixes import FIXES, FIXES_AFTER_VALUE, FIXES_BY_PREVIOUS
from bpc.core.language.source import MAX_ERRORS, Diagnostic, DiagnosticNote, Source, Span, TooManyErrors
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.syntax import Name, NumberLiteral, TextLiteral

MAX_LEVELS: Final = 64
MAX_LINKS: Final = 256
MAX_PATH: Final = 16

# The constructor of tuple takes half the time of the class's, and spans are created most often.
make_span: Final[Callable[[tuple[int, int]], Span]] = partial(tuple.__new__, Span)

_OPENING_BRACKETS: Final = frozenset("([{")
_CLOSING_BRACKETS: Final = frozenset(")]}")
# After `--`: a real comment. Anything else may have been meant as two minus signs.
_AFTER_COMMENT_SIGN: Final = ("", " ", "\t", "-", "\r", "\n")
_WORDS: Final = RESERVED | {NAME}
# Words of level 2 that start an item, and the sign that follows the item's name.
DECLARATION_SIGNS: Final = {"enum": "=", "table": "("}
# Words of level 2 that start an expression, so they name no variable.
_LEVEL_TWO_WORDS: Final = frozenset({"match"})
_STATEMENT_STARTS: Final = (END, "let", "assert")
# After so many skipped words, search for the next rule or test at the start of a line.
_MAX_SKIPPED_WORDS: Final = 4_000
_ITEM_LINE: Final = re.compile(r"^[ \t]*(?:field|example|property)[ \t]+[A-Za-z_]", re.MULTILINE)
# The words of level 2 that start an item, and what may follow the name after them.
_DEFINITION_WORDS: Final = frozenset(("const", "def"))
_AFTER_DEFINED_NAME: Final = frozenset((":", "="))
_LEVEL_TWO_LINE: Final = re.compile(
    rf"^[ \t]*(?:field|example|property|const|def|fn|require|{'|'.join(DECLARATION_SIGNS)})[ \t]+[A-Za-z_]",
    re.MULTILINE,
)


# Words of level 2 that start a part of the tests, and the sign that follows its name.
_TEST_SIGNS: Final = {"fixture": ":", "cases": "("}


class ParseAbandoned(Exception):
    """Parsing cannot continue here; the reason was reported."""


class NestingTooDeep(ParseAbandoned):
    """The nesting is too deep; continuing inside would repeat the message."""


class TokenCursor:
    """The words of `source`, the current one (`kind`, `index`), and the errors so far.

    `language` is the level that the text states, or else the one of its package.
    """

    def __init__(self, source: Source, language: int = 1) -> None:
        self.source = source
        self.language = find_language(source.text) or language
        self.errors: list[Diagnostic] = []
        self.suggestions = Suggestions()
        self.mistake_count = 0
        self.lexer_error_starts: list[int] = []
        self._reported_starts: set[int] = set()
        self._lexer = Lexer(source.text, self.report_lexer_error, self.language)
        self.kinds, self.texts, self.starts = self._lexer.kinds, self._lexer.texts, self._lexer.starts
        self._last_safe_index = -1
        self.index = 0
        self.kind = END

    def skip_text(self, end: int) -> None:
        """Begin at `end`, where a word ends; before `start`."""
        self._lexer.jump(end)

    def start(self) -> None:
        """Move to the first word. Not in `__init__`, because the first words can already raise `TooManyErrors`."""
        self.index = -1
        self.advance()

    @property
    def comments(self) -> list[tuple[int, str]]:
        return self._lexer.comments

    # Look ahead and consume

    def advance(self) -> None:
        self.index += 1
        if self.index > self._last_safe_index:
            self._look_ahead()
        self.kind = self.kinds[self.index]

    def _look_ahead(self) -> None:
        """Lex two words beyond the current one; the parser never looks further."""
        while len(self.kinds) < self.index + 3 and not self._lexer.is_complete:
            self._lexer.lex_more()
        self._last_safe_index = len(self.kinds) - 3
        self.index = min(self.index, self._last_safe_index)

    def is_next(self, kind: str) -> bool:
        return self.kinds[self.index + 1] == kind

    def is_word(self, text: str) -> bool:
        """Whether the current word is the contextual keyword `text`."""
        return self.kind == NAME and self.texts[self.index] == text

    def current_span(self) -> Span:
        return self.span_at(self.index)

    def span_at(self, index: int) -> Span:
        start = self.starts[index]
        return make_span((start, start + len(self.texts[index])))

    def previous_end(self) -> int:
        """Where the word before the current one ends."""
        previous = self.index - 1
        return self.starts[previous] + len(self.texts[previous]) if self.index else 0

    def span_from(self, first: int) -> Span:
        """From word `first` to the word before the current one."""
        previous = self.index - 1
        return make_span((self.starts[first], self.starts[previous] + len(self.texts[previous])))

    def accept(self, kind: str) -> bool:
        if self.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "", help_: str | None = None) -> None:
        if self.kind != kind:
            self.raise_unexpected(what or f"`{kind}`", help_)
        self.advance()

    def expect_word(self, text: str) -> None:
        if not self.is_word(text):
            self.raise_unexpected(f"`{text}`")
        self.advance()

    def expect_closing(self, kind: str, opening: int, or_else: str = "") -> None:
        """Consume the bracket that closes the one at word `opening`."""
        if self.kind != kind:
            span = make_span((self.starts[opening], self.starts[opening] + 1))
            self.raise_unexpected(f"{or_else}`{kind}`", notes=(DiagnosticNote(span, "opened here"),))
        self.advance()

    # Words that are nodes

    def parse_name(self, what: str, help_: str | None = None) -> Name:
        """Parse any identifier. Reserved words are allowed: only variables cannot have such a name."""
        if self.kind not in _WORDS:
            self.raise_unexpected(what, help_)
        name = Name(self.texts[self.index], span=self.current_span())
        self.advance()
        return name

    def parse_variable(self, what: str, thing: str = "a variable") -> Name:
        word = self.texts[self.index]
        if self.kind in RESERVED or (self.language > 1 and word in _LEVEL_TWO_WORDS):
            self.report("reserved-name", f"`{word}` is a reserved word and cannot name {thing}", self.current_span())
        return self.parse_name(what)

    def parse_text(self, what: str) -> TextLiteral:
        if self.kind != TEXT:
            self.raise_unexpected(what)
        text = TextLiteral(decode_text(self.texts[self.index]), span=self.current_span())
        self.advance()
        return text

    def parse_natural(self, what: str) -> NumberLiteral:
        if self.kind != NUMBER or "." in self.texts[self.index]:
            self.raise_unexpected(what)
        digits = self.texts[self.index]
        number = NumberLiteral(digits if is_natural(digits) else "0", span=self.current_span())
        self.advance()
        return number

    def parse_path(self) -> tuple[Name, ...]:
        first = self.index
        names = [self.parse_name("a path such as `battery.capacity_kwh`")]
        while self.kind == ".":
            self.advance()
            names.append(self.parse_name("a name after the `.`"))
            if len(names) > MAX_PATH:
                self.report("path-too-long", f"a path has at most {MAX_PATH} segments", self.span_from(first))
                raise ParseAbandoned
        return tuple(names)

    # Report

    def report(
        self, kind: str, message: str, span: Span, help_: str | None = None, notes: tuple[DiagnosticNote, ...] = ()
    ) -> None:
        """Add a mistake, unless one at the same place already explains it."""
        self.mistake_count += 1
        if span.start not in self._reported_starts:
            self._add_error(Diagnostic(kind=kind, message=message, span=span, help=help_, notes=notes))

    def report_lexer_error(self, diagnostic: Diagnostic) -> None:
        # In order: what is read ahead may be faulty before an expression in a text is.
        insort(self.lexer_error_starts, diagnostic.span.start)
        self._add_error(diagnostic)

    def _add_error(self, diagnostic: Diagnostic) -> None:
        self._reported_starts.add(diagnostic.span.start)
        self.errors.append(diagnostic)
        if len(self.errors) >= MAX_ERRORS:
            raise TooManyErrors

    def raise_unexpected(
        self, expected: str, help_: str | None = None, notes: tuple[DiagnosticNote, ...] = ()
    ) -> NoReturn:
        """Report that something else was expected. The lexer has already reported a bad word."""
        if self.kind == BAD:
            raise ParseAbandoned
        span = self.current_span()
        if self.kind == END:
            span = make_span((self.previous_end(), self.previous_end()))
        message = f"expected {expected}, found {self.describe_token()}"
        self.report("unexpected-token", message, span, help_ or self.suggest_fix(), notes)
        raise ParseAbandoned

    def report_missing(self, sign: str, after: str) -> None:
        """Report that `sign` is missing after the previous word; parsing continues as if it was there."""
        end = self.previous_end()
        message = f"a `{sign}` is missing after {after}"
        self.report("unexpected-token", message, make_span((end, end)), self._suggest_hidden_comment())

    def describe_token(self) -> str:
        """The current word, for a message."""
        text = self.texts[self.index]
        if self.kind == END:
            return "the end of the file"
        if self.kind == TEXT:
            return "a text"
        if self.kind in RESERVED:
            return f"the reserved word `{text}`"
        return f"`{text}`" if len(text) <= 80 else f"`{text[:80]}…`"

    def suggest_fix(self) -> str | None:
        """Suggest a fix for the notation of other languages."""
        text = self.texts[self.index]
        if self.kind == NAME and text in FIXES:
            return FIXES[text]
        if self.kind == "/" and self.kinds[self.index + 1] in ("/", "*"):
            return "`--` starts a comment"
        return self._suggest_hidden_comment() or self._suggest_from_previous()

    def _suggest_from_previous(self) -> str | None:
        """The same, where only the previous word shows what was meant."""
        before = self.texts[self.index - 1] if self.index else ""
        if self.kind == ">" and before == "<":
            return "not equal is written `!=`"
        if self.kind == "=>" and self.index > 1 and self.kinds[self.index - 2] in ("(", ","):
            return "a function is written `fn(x) => …`"
        if self.texts[self.index] in UNITS and self.index and self.kinds[self.index - 1] == NUMBER:
            return f"a quantity is written `qty({before}, {self.texts[self.index]})`"
        if self.kind == "," and (self.kinds[self.index - 1], self.kinds[self.index + 1]) == (NUMBER, NUMBER):
            return f"decimals follow a point: `{before}.{self.texts[self.index + 1]}`"
        return FIXES_BY_PREVIOUS.get(before)

    def _suggest_hidden_comment(self) -> str | None:
        """Suggest a fix if a comment before the current word was probably meant as two minus signs."""
        start, end = self.previous_end(), self.starts[self.index]
        at = self.source.text.find("--", start, end)
        if at < 0 or "\n" in self.source.text[start:at] or self.source.text[at + 2 : at + 3] in _AFTER_COMMENT_SIGN:
            return None
        return "`--` starts a comment; a minus before a minus is written `-(-x)` or `a - (-b)`"

    def expect_semicolon(self, after: str, or_else: str = "an operator") -> None:
        """Consume the `;` at the end of a statement. If something new starts instead, only the `;` is missing."""
        if self.kind == ";":
            self.advance()
        elif (
            self.is_at_item()
            or self.kind in _STATEMENT_STARTS
            or ("\n" in self.source.text[self.previous_end() : self.starts[self.index]] and not self.is_word("about"))
        ):
            self.report_missing(";", after)
        else:
            self.raise_unexpected(f"{or_else} or `;`", FIXES_AFTER_VALUE.get(self.kind))

    # Recover

    def is_at_item(self) -> bool:
        """Whether a rule or test starts here: no expression contains these words."""
        if self.kind == "field":
            return self.kinds[self.index + 1] in _WORDS
        if self.kind == NAME and self.language > 1 and self.is_at_override():
            return True
        if self.kind == "fn":
            return self.language > 1 and self.kinds[self.index + 1] == NAME and self.kinds[self.index + 2] == "("
        if self.kind == NAME:
            return self.language > 1 and (self.is_at_definition() or self.is_at_declaration() or self.is_at_test_part())
        return self.kind in ("example", "property") and (
            self.kinds[self.index + 1] in _WORDS and self.kinds[self.index + 2] == ":"
        )

    def is_at_declaration(self) -> bool:
        """Whether an item of level 2 that declares a name starts here."""
        sign = DECLARATION_SIGNS.get(self.texts[self.index])
        return sign is not None and self.kinds[self.index + 1] in _WORDS and self.kinds[self.index + 2] == sign

    def is_at_definition(self) -> bool:
        """Whether a constant, definition or requirement of level 2 starts here."""
        if self.texts[self.index] == "require":
            return self.kinds[self.index + 1] in _WORDS and self.kinds[self.index + 2] == TEXT
        return (
            self.texts[self.index] in _DEFINITION_WORDS
            and self.kinds[self.index + 1] in _WORDS
            and self.kinds[self.index + 2] in _AFTER_DEFINED_NAME
        )

    def is_at_override(self) -> bool:
        """Whether `override "reason"` of level 2 starts here."""
        return self.texts[self.index] == "override" and self.kinds[self.index + 1] == TEXT

    def is_at_test_part(self) -> bool:
        """Whether a fixture or a table of level 2 starts here."""
        sign = _TEST_SIGNS.get(self.texts[self.index])
        return sign is not None and self.kinds[self.index + 1] in _WORDS and self.kinds[self.index + 2] == sign

    def skip_to_closing(self, kind: str) -> None:
        """Continue after the `kind` that closes the current bracket, or give up at the end of the statement."""
        self.skip(lambda: self.kind in _CLOSING_BRACKETS or self.kind == ";")
        if self.kind != kind:
            raise ParseAbandoned
        self.advance()

    def skip_statement(self, *before: str) -> bool:
        """Continue after the next `;` or at a word of `before`; False if a rule, a test or the end comes first."""
        self.skip(lambda: self.kind == ";" or self.kind in before)
        return self.kind in before or self.accept(";")

    def skip(self, is_target: Callable[[], bool]) -> None:
        """Skip words, and brackets with their content, until `is_target`, an item or the end."""
        open_brackets = skipped = 0
        while self.kind != END and not self.is_at_item():
            if not open_brackets and is_target():
                return
            if self.kind in _OPENING_BRACKETS:
                open_brackets += 1
            elif self.kind in _CLOSING_BRACKETS and open_brackets:
                open_brackets -= 1
            skipped += 1
            if skipped > _MAX_SKIPPED_WORDS:
                self._jump_to_item()
                return
            self.advance()

    def _jump_to_item(self) -> None:
        """Skip to the next line that starts like a rule or a test."""
        pattern = _ITEM_LINE if self.language == 1 else _LEVEL_TWO_LINE
        line = pattern.search(self.source.text, self.starts[self.index])
        to = len(self.source.text) if line is None else line.start()
        while self.kind != END and self.starts[self.index] < to:
            if self.index >= self._last_safe_index and not self._lexer.is_complete:
                self._lexer.jump(to)
            self.advance()
