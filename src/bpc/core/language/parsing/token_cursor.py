"""Where parsing stands in the words of a text: looking, going on, complaining, and finding a place to go on from.

Pure. A mistake is reported once. Whoever cannot go on raises `Abandoned`; whoever opened a bracket, a `let` or a rule
catches it, skips to where that ends and goes on, so that one run finds all mistakes. `Enough` ends the run.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from bpc.core.rules.nearest import Suggestions
from bpc.core.rules.parsing.lex import BAD, END, NAME, NUMBER, RESERVED, TEXT, Lexer, is_natural, text_value
from bpc.core.rules.source import Diagnostic, Note, Source, Span
from bpc.core.rules.syntax import Name, Number, Text
from bpc.core.units import UNITS

MAX_ERRORS: Final = 100
MAX_LEVELS: Final = 64
MAX_LINKS: Final = 256
MAX_PATH: Final = 16

# The tuple's own constructor: half the time of the class's, for what is made most often.
span_of: Final[Callable[[tuple[int, int]], Span]] = partial(tuple.__new__, Span)

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
# A comment that goes on so was meant as a comment.
_AFTER_COMMENT_SIGN: Final = ("", " ", "\t", "-", "\r", "\n")
_WORDS: Final = RESERVED | {NAME}
_MEANT: Final = {
    "and": "the logical and is written `&&`",
    "or": "the logical or is written `||`",
    "not": "the logical not is written `!`",
    "null": "the missing value is written `none`",
    "elif": "it is written `else if`",
    "elseif": "it is written `else if`",
}
# The same for a name that was read as a variable, seen from the word behind it.
_MEANT_BEFORE: Final = {
    "not": "the logical not is written `!`",
    "return": "an expression is its value; there is no `return`",
}
_AFTER_VALUE: Final = {
    "=": "`==` compares",
    ".": 'a field is read with `field("path")`, a member with `recordGet(record, "name")`',
    ")": "this `)` closes nothing",
    "]": "this `]` closes nothing",
    "}": "this `}` closes nothing",
}
_STARTING: Final = (END, "let", "assert")
# After so many skipped words the next rule or test is looked for at the start of a line.
_PATIENCE: Final = 4_000
_ITEM_LINE: Final = re.compile(r"^[ \t]*(?:field|example|property)[ \t]+[A-Za-z_]", re.MULTILINE)


class Abandoned(Exception):
    """This cannot be read further; why was reported."""


class TooDeep(Abandoned):
    """Nested so deeply that going on inside would only say so again."""


class Enough(Exception):
    """So many mistakes that reading on helps nobody."""


class Cursor:
    """The words of `source`, the one parsing looks at (`kind`, `at`), and what was found wrong so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Diagnostic] = []
        self.suggestions = Suggestions()
        self.mistakes = 0
        self.word_faults: list[int] = []
        self._reported: set[int] = set()
        self._lexer = Lexer(source.text, self._report_word)
        self.kinds, self.texts, self.starts = self._lexer.kinds, self._lexer.texts, self._lexer.starts
        self._safe = -1
        self.at = 0
        self.kind = END

    def start(self) -> None:
        """Look at the first word. Apart from `__init__`, because the very first words may be `Enough`."""
        self.at = -1
        self.advance()

    @property
    def comments(self) -> list[tuple[int, str]]:
        return self._lexer.comments

    # Looking and going on

    def advance(self) -> None:
        self.at += 1
        if self.at > self._safe:
            self._look_ahead()
        self.kind = self.kinds[self.at]

    def _look_ahead(self) -> None:
        """Have two words behind the present one, which is all that is ever looked at."""
        while len(self.kinds) < self.at + 3 and not self._lexer.is_complete:
            self._lexer.more()
        self._safe = len(self.kinds) - 3
        self.at = min(self.at, self._safe)

    def is_next(self, kind: str) -> bool:
        return self.kinds[self.at + 1] == kind

    def is_word(self, text: str) -> bool:
        """Whether the present word is the contextual keyword `text`."""
        return self.kind == NAME and self.texts[self.at] == text

    def token_span(self) -> Span:
        return self.word_span(self.at)

    def word_span(self, index: int) -> Span:
        start = self.starts[index]
        return span_of((start, start + len(self.texts[index])))

    def end(self) -> int:
        """Where the word before the present one ends."""
        before = self.at - 1
        return self.starts[before] + len(self.texts[before]) if self.at else 0

    def span_from(self, first: int) -> Span:
        """From word `first` to the word before the present one."""
        before = self.at - 1
        return span_of((self.starts[first], self.starts[before] + len(self.texts[before])))

    def accept(self, kind: str) -> bool:
        if self.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "", help_: str | None = None) -> None:
        if self.kind != kind:
            self.unexpected(what or f"`{kind}`", help_)
        self.advance()

    def expect_word(self, text: str) -> None:
        if not self.is_word(text):
            self.unexpected(f"`{text}`")
        self.advance()

    def expect_closing(self, kind: str, opening: int, or_else: str = "") -> None:
        """The bracket that closes the one at word `opening`."""
        if self.kind != kind:
            span = span_of((self.starts[opening], self.starts[opening] + 1))
            self.unexpected(f"{or_else}`{kind}`", notes=(Note(span, "opened here"),))
        self.advance()

    # Words that are nodes by themselves

    def name(self, what: str, help_: str | None = None) -> Name:
        """Any identifier: reserved words are reserved for variables only."""
        if self.kind not in _WORDS:
            self.unexpected(what, help_)
        name = Name(self.texts[self.at], span=self.token_span())
        self.advance()
        return name

    def variable(self, what: str) -> Name:
        if self.kind in RESERVED:
            word = self.texts[self.at]
            self.report("reserved-name", f"`{word}` is a reserved word and cannot name a variable", self.token_span())
        return self.name(what)

    def text(self, what: str) -> Text:
        if self.kind != TEXT:
            self.unexpected(what)
        text = Text(text_value(self.texts[self.at]), span=self.token_span())
        self.advance()
        return text

    def natural(self, what: str) -> Number:
        if self.kind != NUMBER or "." in self.texts[self.at]:
            self.unexpected(what)
        digits = self.texts[self.at]
        number = Number(digits if is_natural(digits) else "0", span=self.token_span())
        self.advance()
        return number

    def path(self) -> tuple[Name, ...]:
        first = self.at
        names = [self.name("a path such as `battery.capacity_kwh`")]
        while self.kind == ".":
            self.advance()
            names.append(self.name("a name after the `.`"))
            if len(names) > MAX_PATH:
                self.report("path-too-long", f"a path has at most {MAX_PATH} segments", self.span_from(first))
                raise Abandoned
        return tuple(names)

    # Complaining

    def report(self, kind: str, says: str, span: Span, help_: str | None = None, notes: tuple[Note, ...] = ()) -> None:
        """Add a mistake, unless one was reported at the same place: that one explains it."""
        self.mistakes += 1
        if span.start in self._reported:
            return
        self._reported.add(span.start)
        self.found.append(Diagnostic(kind=kind, says=says, span=span, help=help_, notes=notes))
        if len(self.found) >= MAX_ERRORS:
            raise Enough

    def _report_word(self, found: Diagnostic) -> None:
        self._reported.add(found.span.start)
        self.word_faults.append(found.span.start)
        self.found.append(found)
        if len(self.found) >= MAX_ERRORS:
            raise Enough

    def unexpected(self, expected: str, help_: str | None = None, notes: tuple[Note, ...] = ()) -> NoReturn:
        """Something else had to stand here. A word that was reported as such is passed over in silence."""
        if self.kind == BAD:
            raise Abandoned
        span = self.token_span()
        if self.kind == END:
            span = span_of((self.end(), self.end()))
        says = f"expected {expected}, found {self.shown()}"
        self.report("unexpected-token", says, span, help_ or self.usual_help(), notes)
        raise Abandoned

    def missing(self, sign: str, after: str) -> None:
        """Say that `sign` is missing right after the word before; parsing goes on as if it was there."""
        end = self.end()
        says = f"a `{sign}` is missing after {after}"
        self.report("unexpected-token", says, span_of((end, end)), self._hidden_help())

    def shown(self) -> str:
        """The present word, for a message."""
        text = self.texts[self.at]
        if self.kind == END:
            return "the end of the file"
        if self.kind == TEXT:
            return "a text"
        if self.kind in RESERVED:
            return f"the reserved word `{text}`"
        return f"`{text}`" if len(text) <= 80 else f"`{text[:80]}…`"

    def usual_help(self) -> str | None:
        """A way out for what people of other languages write."""
        text = self.texts[self.at]
        if self.kind == NAME and text in _MEANT:
            return _MEANT[text]
        if self.kind == "/" and self.kinds[self.at + 1] in ("/", "*"):
            return "`--` starts a comment"
        return self._hidden_help() or self._help_from_before()

    def _help_from_before(self) -> str | None:
        """The same, where only the word before the present one tells what was meant."""
        before = self.texts[self.at - 1] if self.at else ""
        if self.kind == ">" and before == "<":
            return "not equal is written `!=`"
        if self.kind == "=>" and self.at > 1 and self.kinds[self.at - 2] in ("(", ","):
            return "a function is written `fn(x) => …`"
        if self.texts[self.at] in UNITS and self.at and self.kinds[self.at - 1] == NUMBER:
            return f"a quantity is written `qty({before}, {self.texts[self.at]})`"
        return _MEANT_BEFORE.get(before)

    def _hidden_help(self) -> str | None:
        """If a comment right before the present word looks as if it was meant as two minus signs, say so."""
        start, end = self.end(), self.starts[self.at]
        at = self.source.text.find("--", start, end)
        if at < 0 or "\n" in self.source.text[start:at] or self.source.text[at + 2 : at + 3] in _AFTER_COMMENT_SIGN:
            return None
        return "`--` starts a comment; a minus before a minus is written `-(-x)` or `a - (-b)`"

    def semicolon(self, after: str) -> None:
        """The `;` at the end of a statement. If something new starts instead, it was only forgotten."""
        if self.kind == ";":
            self.advance()
        elif self.is_at_item() or self.kind in _STARTING or "\n" in self.source.text[self.end() : self.starts[self.at]]:
            self.missing(";", after)
        else:
            self.unexpected("an operator or `;`", _AFTER_VALUE.get(self.kind))

    # Finding a place to go on from

    def is_at_item(self) -> bool:
        """Whether a rule or test starts here, for sure: no expression holds such words."""
        if self.kind == "field":
            return self.kinds[self.at + 1] in _WORDS
        return self.kind in ("example", "property") and (
            self.kinds[self.at + 1] in _WORDS and self.kinds[self.at + 2] == ":"
        )

    def skip_to_closing(self, kind: str) -> None:
        """Go on behind the `kind` that closes the present bracket, or give up where the statement around it ends."""
        self.skip(lambda: self.kind in _CLOSING or self.kind == ";")
        if self.kind != kind:
            raise Abandoned
        self.advance()

    def skip_statement(self, *before: str) -> bool:
        """Go on behind the next `;`, or at one of the words `before`; False if a rule, a test or the end came first."""
        self.skip(lambda: self.kind == ";" or self.kind in before)
        return self.kind in before or self.accept(";")

    def skip(self, is_there: Callable[[], bool]) -> None:
        """Pass over words, and over what stands in brackets among them, until `is_there`, an item or the end."""
        open_brackets = passed = 0
        while self.kind != END and not self.is_at_item():
            if not open_brackets and is_there():
                return
            if self.kind in _OPENING:
                open_brackets += 1
            elif self.kind in _CLOSING and open_brackets:
                open_brackets -= 1
            passed += 1
            if passed > _PATIENCE:
                self._jump()
                return
            self.advance()

    def _jump(self) -> None:
        """Drop the words up to the next line that starts like a rule or a test, lexed or not."""
        line = _ITEM_LINE.search(self.source.text, self.starts[self.at])
        to = len(self.source.text) if line is None else line.start()
        while self.kind != END and self.starts[self.at] < to:
            if self.at >= self._safe and not self._lexer.is_complete:
                self._lexer.jump(to)
            self.advance()
