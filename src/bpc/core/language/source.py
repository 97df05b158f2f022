"""Rule text, its diagnostics, and the table of every kind of diagnostic.

Pure. A place in the text is a `Span` of code points; `Source` turns it into line and column or into UTF-8 bytes. Each
kind of diagnostic has a page in docs/rules/diagnostics/ with an example; a test compares table, pages and examples.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias

MAX_SOURCE_BYTES: Final = 1 << 20
MAX_ERRORS: Final = 100

Severity: TypeAlias = Literal["error", "warning"]


class DiagnosticKind(NamedTuple):
    """The code that the API answers with, and a short description."""

    code: str
    title: str
    severity: Severity = "error"


_PARSE_ERROR: Final = "RULE_PARSE_ERROR"
_TYPE_ERROR: Final = "RULE_TYPE_ERROR"
_UNIT_ERROR: Final = "UNIT_MISMATCH"

DIAGNOSTIC_KINDS: Final[Mapping[str, DiagnosticKind]] = {
    # Bytes and characters
    "source-too-large": DiagnosticKind(_PARSE_ERROR, "the file is too large"),
    "byte-order-mark": DiagnosticKind(_PARSE_ERROR, "the file starts with a byte order mark"),
    "not-utf8": DiagnosticKind(_PARSE_ERROR, "the file is not UTF-8"),
    "unexpected-character": DiagnosticKind(_PARSE_ERROR, "unexpected character"),
    "unclosed-text": DiagnosticKind(_PARSE_ERROR, "a text without a closing quote"),
    "bad-escape": DiagnosticKind(_PARSE_ERROR, "unknown escape sequence in a text"),
    "unclosed-expression": DiagnosticKind(_PARSE_ERROR, "an expression in a text that is empty or not closed"),
    "bad-number": DiagnosticKind(_PARSE_ERROR, "invalid number"),
    "name-too-long": DiagnosticKind(_PARSE_ERROR, "a name of more than 64 characters"),
    # Grammar
    "unexpected-token": DiagnosticKind(_PARSE_ERROR, "something else was expected here"),
    "too-deep": DiagnosticKind(_PARSE_ERROR, "nested too deeply"),
    "chain-too-long": DiagnosticKind(_PARSE_ERROR, "too many operators or branches in one chain"),
    "chained-comparison": DiagnosticKind(_PARSE_ERROR, "comparisons cannot be chained"),
    "if-needs-parentheses": DiagnosticKind(_PARSE_ERROR, "an `if`, `let` or `assert` as operand needs parentheses"),
    "condition-needs-parentheses": DiagnosticKind(_PARSE_ERROR, "the condition needs parentheses"),
    "misplaced-lambda": DiagnosticKind(_PARSE_ERROR, "a function is not allowed here"),
    "reserved-name": DiagnosticKind(_PARSE_ERROR, "a reserved word is used as a variable"),
    "unknown-type": DiagnosticKind(_PARSE_ERROR, "there is no such type"),
    "unknown-language": DiagnosticKind(_PARSE_ERROR, "there is no such level of the language"),
    "unknown-audience": DiagnosticKind(_PARSE_ERROR, "there is no such audience"),
    "repeated-audience": DiagnosticKind(_PARSE_ERROR, "an audience is listed twice"),
    "empty-record": DiagnosticKind(_PARSE_ERROR, "a record without members"),
    "fraction-in-json": DiagnosticKind(_PARSE_ERROR, "a fraction in a fixture's JSON"),
    "path-too-long": DiagnosticKind(_PARSE_ERROR, "a path of more than 16 segments"),
    "rule-in-tests": DiagnosticKind(_PARSE_ERROR, "a rule in a tests file"),
    "too-many-errors": DiagnosticKind(_PARSE_ERROR, "too many errors; checking stopped"),
    # Names
    "duplicate-field": DiagnosticKind(_TYPE_ERROR, "a field is declared twice"),
    "duplicate-definition": DiagnosticKind(_TYPE_ERROR, "a name is defined twice"),
    "duplicate-requirement": DiagnosticKind(_TYPE_ERROR, "a code of a requirement is used twice"),
    "wrong-layer": DiagnosticKind(_TYPE_ERROR, "a rule insists on a layer above what it reads"),
    "prefix-path": DiagnosticKind(_TYPE_ERROR, "a field's path is a prefix of another field's path"),
    "bad-override": DiagnosticKind(_TYPE_ERROR, "an override of nothing, or without a reason"),
    "bad-import": DiagnosticKind(_TYPE_ERROR, "an imported package with a field or a requirement"),
    "not-imported": DiagnosticKind(_TYPE_ERROR, "a name of a package that is not imported"),
    "cycle": DiagnosticKind("RULE_CYCLE_DETECTED", "fields depend on each other in a cycle"),
    "unknown-field": DiagnosticKind(_TYPE_ERROR, "there is no such field"),
    "unknown-fact": DiagnosticKind(_TYPE_ERROR, "there is no such fact type"),
    "unknown-member": DiagnosticKind(_TYPE_ERROR, "there is no such member"),
    "unknown-function": DiagnosticKind(_TYPE_ERROR, "there is no such function"),
    "unknown-variable": DiagnosticKind(_TYPE_ERROR, "there is no such variable"),
    "shadowed-name": DiagnosticKind(_TYPE_ERROR, "the name is already in use"),
    "duplicate-member": DiagnosticKind(_TYPE_ERROR, "a member is listed twice"),
    "unknown-fixture": DiagnosticKind(_TYPE_ERROR, "there is no such fixture"),
    "unknown-finding": DiagnosticKind(_TYPE_ERROR, "no rule has such a finding"),
    "duplicate-test": DiagnosticKind(_TYPE_ERROR, "a test name is used twice"),
    "ambiguous-member": DiagnosticKind(_TYPE_ERROR, "a member of several enumerations"),
    # What a field is, for people
    "unknown-point": DiagnosticKind(_TYPE_ERROR, "there is no such data point"),
    "unknown-language-code": DiagnosticKind(_TYPE_ERROR, "not an official language of the Union"),
    "duplicate-clause": DiagnosticKind(_TYPE_ERROR, "a clause of `about` is written twice"),
    "bad-label": DiagnosticKind(_TYPE_ERROR, "a text for people that is blank or has several lines"),
    # Types
    "wrong-type": DiagnosticKind(_TYPE_ERROR, "a value of another type is expected"),
    "operands-disagree": DiagnosticKind(_TYPE_ERROR, "the operands have types that cannot be combined"),
    "not-comparable": DiagnosticKind(_TYPE_ERROR, "values that this operator cannot compare"),
    "int-for-dec": DiagnosticKind(_TYPE_ERROR, "an `Int` where a `Dec` is expected"),
    "scale-too-large": DiagnosticKind(_TYPE_ERROR, "more decimals than a `Dec` can have"),
    "literal-does-not-fit": DiagnosticKind(_TYPE_ERROR, "too many decimals for the declared type"),
    "number-too-large": DiagnosticKind(_TYPE_ERROR, "a number that is too large"),
    "type-not-known": DiagnosticKind(_TYPE_ERROR, "the type of `none` or `[]` cannot be inferred"),
    "type-too-large": DiagnosticKind(_TYPE_ERROR, "a type with too many parts"),
    "nested-option": DiagnosticKind(_TYPE_ERROR, "an option of an option"),
    "fact-record-misplaced": DiagnosticKind(_TYPE_ERROR, "a fact record is not allowed here"),
    "wrong-argument-count": DiagnosticKind(_TYPE_ERROR, "too many or too few arguments"),
    "wrong-lambda": DiagnosticKind(_TYPE_ERROR, "a function argument that does not fit"),
    "not-constant": DiagnosticKind(_TYPE_ERROR, "a constant that depends on a passport"),
    "literal-needed": DiagnosticKind(_TYPE_ERROR, "the argument must be a literal"),
    "incomplete-match": DiagnosticKind(_TYPE_ERROR, "a `match` without a case for every member"),
    "bad-table": DiagnosticKind(_TYPE_ERROR, "a table whose columns or rows do not fit"),
    "table-overlap": DiagnosticKind(_TYPE_ERROR, "two rows of a table apply at once"),
    "unreachable-case": DiagnosticKind(_TYPE_ERROR, "a case of a `match` that is never taken"),
    "bad-date": DiagnosticKind(_TYPE_ERROR, "not a valid date"),
    "bad-status": DiagnosticKind(_TYPE_ERROR, "not a compliance status"),
    "emit-in-lambda": DiagnosticKind(_TYPE_ERROR, "`emitCompliance` inside a function"),
    "emit-outside-rule": DiagnosticKind(_TYPE_ERROR, "`emitCompliance` outside a rule"),
    # Units
    "unit-mismatch": DiagnosticKind(_UNIT_ERROR, "quantities in different units"),
    "unknown-unit": DiagnosticKind(_UNIT_ERROR, "there is no such unit"),
    "no-conversion": DiagnosticKind(_UNIT_ERROR, "units that cannot be converted into each other"),
    # Tests
    "nothing-expected": DiagnosticKind(_TYPE_ERROR, "a test that expects nothing"),
    "bad-fixture": DiagnosticKind(_TYPE_ERROR, "invalid fixture"),
    "wrong-cells": DiagnosticKind(_TYPE_ERROR, "a row that does not fit its table"),
    "bad-cases": DiagnosticKind(_TYPE_ERROR, "invalid number of cases or seed"),
    # Warnings
    "missing-about": DiagnosticKind(_TYPE_ERROR, "a field that people see by its path", "warning"),
    "unused-let": DiagnosticKind(_TYPE_ERROR, "a `let` that is never used", "warning"),
    "unused-definition": DiagnosticKind(_TYPE_ERROR, "a definition that is never used", "warning"),
    "unused-column": DiagnosticKind(_TYPE_ERROR, "a column that is never used", "warning"),
    "table-gap": DiagnosticKind(_TYPE_ERROR, "a table without a row for some keys", "warning"),
    "unread-member": DiagnosticKind(_TYPE_ERROR, "unknown member in a fixture", "warning"),
    "publishes-hidden": DiagnosticKind(_TYPE_ERROR, "a visible field is computed from a hidden field", "warning"),
}


class Span(NamedTuple):
    """Code points `start` up to, not including, `end`."""

    start: int
    end: int


class DiagnosticNote(NamedTuple):
    """Another place in the text that explains a diagnostic, such as where an operand got its type."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning: what is wrong, where, and how to fix it if we know.

    `kind` is a key of `DIAGNOSTIC_KINDS`, which gives the code and the severity.
    """

    kind: str
    message: str
    span: Span
    help: str | None = None
    notes: tuple[DiagnosticNote, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in DIAGNOSTIC_KINDS:
            raise ValueError(f"`{self.kind}` is not in the table of kinds")

    @property
    def code(self) -> str:
        return DIAGNOSTIC_KINDS[self.kind].code

    @property
    def severity(self) -> Severity:
        return DIAGNOSTIC_KINDS[self.kind].severity

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


class LineColumn(NamedTuple):
    """A place for people: both count from 1."""

    line: int
    column: int


class FilePlace(NamedTuple):
    """A place in a file."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Source:
    """A rule text and its name (the path that the user gave)."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        # `split`, not `splitlines`: only LF ends a line.
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts[:-1]

    def locate(self, offset: int) -> LineColumn:
        line = bisect_right(self._line_starts, offset)
        return LineColumn(line, offset - self._line_starts[line - 1] + 1)

    def resolve(self, span: Span) -> "tuple[Source, Span]":
        """The file that a part of the text comes from, and the part of it there."""
        return self, span

    def is_imported(self, span: Span) -> bool:  # noqa: ARG002 (a linked text looks at it)
        """Whether a part of the text is in a file of a package that is imported."""
        return False

    def find_place(self, offset: int) -> FilePlace:
        """Where people find a place of the text: in the file that it comes from."""
        source, span = self.resolve(Span(offset, offset))
        return FilePlace(source.name, *source.locate(span.start))

    def get_offset(self, line: int, column: int) -> int:
        """Convert line and column to an offset; `IndexError` if there is no such line."""
        return self._line_starts[line - 1] + column - 1

    def get_line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].removesuffix("\r")

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii()

    def byte_range(self, span: Span) -> tuple[int, int]:
        """The same range in UTF-8 bytes, as proofs write it."""
        if self._is_ascii:
            return span.start, span.end
        return self._byte_offset(span.start), self._byte_offset(span.end)

    @cached_property
    def _line_bytes(self) -> list[int]:
        """The number of bytes before each line."""
        lines = self.text.split("\n")
        return list(accumulate((len(line.encode()) + 1 for line in lines[:-1]), initial=0))

    def _byte_offset(self, offset: int) -> int:
        line = bisect_right(self._line_starts, offset) - 1
        return self._line_bytes[line] + len(self.text[self._line_starts[line] : offset].encode())


def read_source(name: str, data: bytes) -> Source | Diagnostic:
    """Decode a rule file: UTF-8 without byte order mark, at most 1 MiB."""
    if len(data) > MAX_SOURCE_BYTES:
        message = f"the file has {len(data):,} bytes; a rule file may have at most {MAX_SOURCE_BYTES:,}"
        return _make_file_diagnostic("source-too-large", message, "split it into several packages")
    if data.startswith(b"\xef\xbb\xbf"):
        message = "the file starts with a byte order mark"
        return _make_file_diagnostic("byte-order-mark", message, "save it as UTF-8 without byte order mark")
    try:
        return Source(name, data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line} is not valid UTF-8 (byte {data[error.start]:#04x})"
        return _make_file_diagnostic("not-utf8", message, "save the file as UTF-8")


def _make_file_diagnostic(kind: str, message: str, help_: str) -> Diagnostic:
    return Diagnostic(kind=kind, message=message, span=Span(0, 0), help=help_)


class TooManyErrors(Exception):
    """Ends parsing or checking of a text after `MAX_ERRORS` errors; never leaves this package."""


def create_stop_diagnostic(span: Span) -> Diagnostic:
    """Create the last diagnostic of a text with too many errors."""
    return Diagnostic(kind="too-many-errors", message=f"stopped after {MAX_ERRORS} errors", span=span)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by place; at one place errors come before warnings."""
    return sorted(
        diagnostics,
        key=lambda diagnostic: (diagnostic.span, not diagnostic.is_error, diagnostic.kind, diagnostic.message),
    )


def render_diagnostic(source: Source, diagnostic: Diagnostic) -> str:
    """Format a diagnostic for a terminal: message, place, the line with a caret, notes, help."""
    lines = [
        f"{diagnostic.severity}[{diagnostic.kind}]: {diagnostic.message}",
        f"  at {source.find_place(diagnostic.span.start)}",
    ]
    spans = (diagnostic.span, *(note.span for note in diagnostic.notes))
    width = len(str(max(source.find_place(span.start).line for span in spans)))
    file = source.resolve(diagnostic.span)[0]
    line_text, marks = _underline(source, diagnostic.span, "^", "", width)
    lines += [line_text, marks]
    for note in diagnostic.notes:
        note_file, file_before = source.resolve(note.span)[0], file
        file = note_file
        if note_file is not file_before:
            lines.append(f"  in {note_file.name}")
        # Consecutive marks in one line share one copy of the line.
        previous_line, (line_text, marks) = line_text, _underline(source, note.span, "-", f" {note.message}", width)
        lines += [marks] if line_text == previous_line else [line_text, marks]
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    return "\n".join(lines) + "\n"


def render_excerpt(source: Source, span: Span) -> str:
    """Show the line of a place, underlined, for something that is not a diagnostic."""
    return "\n".join(_underline(source, span, "^", "", len(str(source.find_place(span.start).line)))) + "\n"


def _underline(source: Source, span: Span, mark: str, message: str, width: int) -> tuple[str, str]:
    """The line of `span` and the marks below it; a long line is cut around the place."""
    source, span = source.resolve(span)
    place = source.locate(span.start)
    text = source.get_line(place.line).replace("\t", " ")
    cut_from = max(0, place.column - 81) if len(text) > 160 else 0
    text = text[cut_from : cut_from + 160]
    column = place.column - 1 - cut_from
    length = max(1, min(span.end - span.start, len(text) - column))
    number = str(place.line).rjust(width)
    return (
        f"  {number} | {text}".rstrip(),
        f"  {' ' * width} | {' ' * column}{mark * length}{message}",
    )


def span_to_json(source: Source, span: Span) -> dict[str, object]:
    """Convert a range of the text to JSON; `end_column` is exclusive."""
    source, span = source.resolve(span)
    (line, column), (end_line, end_column) = source.locate(span.start), source.locate(span.end)
    return {"file": source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def diagnostic_to_json(source: Source, diagnostic: Diagnostic) -> Mapping[str, object]:
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "kind": diagnostic.kind,
        "message": diagnostic.message,
        **span_to_json(source, diagnostic.span),
        "help": diagnostic.help,
        "notes": [_note_to_json(source, diagnostic.span, note) for note in diagnostic.notes],
    }


def _note_to_json(source: Source, span: Span, note: DiagnosticNote) -> Mapping[str, object]:
    """A note about another file stands at the diagnostic and names its own place."""
    place, own = source.find_place(note.span.start), source.find_place(span.start)
    if place.file != own.file:
        return {"line": own.line, "column": own.column, "message": f"{note.message}: {place}"}
    return {"line": place.line, "column": place.column, "message": note.message}


def has_errors(diagnostics: Sequence[Diagnostic]) -> bool:
    return any(diagnostic.is_error for diagnostic in diagnostics)
