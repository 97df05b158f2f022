"""Rule text and what is wrong with it: places, diagnostics, and how both are shown.

Pure. A place is a half-open range of code points; people see lines and columns from 1, a tab is one column. The
same diagnostic serves the terminal (`rendered`), the API and editors (`as_json`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.rules.kinds import KINDS

MAX_SOURCE_BYTES: Final = 1 << 20

Severity: TypeAlias = Literal["error", "warning"]


class Span(NamedTuple):
    """Code points `start` up to, not including, `end`."""

    start: int
    end: int


class Note(NamedTuple):
    """Something worth seeing elsewhere in the text, such as where an operand got its type."""

    span: Span
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One mistake (or, as a warning, one doubt): what, where, and a way out where there is one.

    `kind` is a row of `KINDS`, which gives it its code and severity.
    """

    kind: str
    says: str
    span: Span
    help: str | None = None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"`{self.kind}` is not in the table of kinds")

    @property
    def code(self) -> str:
        return KINDS[self.kind].code

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


class Place(NamedTuple):
    """Where a person looks: both count from 1."""

    line: int
    column: int


class Source:
    """A rule text and its name (the path as it was given)."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        # `split`, not `splitlines`: a line ends at LF and nowhere else.
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts[:-1]

    def place(self, offset: int) -> Place:
        line = bisect_right(self._line_starts, offset)
        return Place(line, offset - self._line_starts[line - 1] + 1)

    def offset(self, line: int, column: int) -> int:
        """Where a place is in the text; `IndexError` if there is no such line."""
        return self._line_starts[line - 1] + column - 1

    def line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].removesuffix("\r")

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii()

    def byte_range(self, span: Span) -> tuple[int, int]:
        """The same range counted in UTF-8 bytes, as proofs name it."""
        if self._is_ascii:
            return span.start, span.end
        return self._byte_offset(span.start), self._byte_offset(span.end)

    @cached_property
    def _line_bytes(self) -> list[int]:
        """How many bytes there are before each line."""
        lines = self.text.split("\n")
        return list(accumulate((len(line.encode()) + 1 for line in lines[:-1]), initial=0))

    def _byte_offset(self, offset: int) -> int:
        line = bisect_right(self._line_starts, offset) - 1
        return self._line_bytes[line] + len(self.text[self._line_starts[line] : offset].encode())


def read_source(name: str, data: bytes) -> Source | Diagnostic:
    """The text of a rule file: UTF-8 without byte order mark, at most 1 MiB."""
    if len(data) > MAX_SOURCE_BYTES:
        return Diagnostic(
            kind="source-too-large",
            says=f"the file has {len(data):,} bytes, and a rule file has at most {MAX_SOURCE_BYTES:,}",
            span=Span(0, 0),
            help="split it into several packages",
        )
    if data.startswith(b"\xef\xbb\xbf"):
        return Diagnostic(
            kind="byte-order-mark",
            says="the file starts with a byte order mark",
            span=Span(0, 0),
            help="save it as UTF-8 without byte order mark",
        )
    try:
        return Source(name, data.decode())
    except UnicodeDecodeError as wrong:
        line = data.count(b"\n", 0, wrong.start) + 1
        return Diagnostic(
            kind="not-utf8",
            says=f"line {line} is not UTF-8: byte {data[wrong.start]:#04x} does not belong there",
            span=Span(0, 0),
            help="save the file as UTF-8",
        )


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """As a reader meets them: by place, errors before warnings at one place."""
    return sorted(diagnostics, key=lambda found: (found.span, not found.is_error, found.kind, found.says))


def rendered(source: Source, found: Diagnostic) -> str:
    """A diagnostic for a terminal: sentence, place, the line with a caret, notes, help."""
    place = source.place(found.span.start)
    lines = [f"{found.severity}[{found.kind}]: {found.says}", f"  at {source.name}:{place.line}:{place.column}"]
    width = len(str(max(source.place(span.start).line for span in (found.span, *(note.span for note in found.notes)))))
    shown, marks = _excerpt(source, found.span, "^", "", width)
    lines += [shown, marks]
    for note in found.notes:
        # A line is shown once for all that is marked in it one after the other.
        before, (shown, marks) = shown, _excerpt(source, note.span, "-", f" {note.says}", width)
        lines += [marks] if shown == before else [shown, marks]
    if found.help is not None:
        lines.append(f"help: {found.help}")
    return "\n".join(lines) + "\n"


def excerpt(source: Source, span: Span) -> str:
    """The line of a place, underlined, for what is no diagnostic but has a place too."""
    return "\n".join(_excerpt(source, span, "^", "", len(str(source.place(span.start).line)))) + "\n"


def _excerpt(source: Source, span: Span, mark: str, says: str, width: int) -> tuple[str, str]:
    """The line of `span`, what lies in it underlined; a long line is cut to what is around the place."""
    place = source.place(span.start)
    text = source.line(place.line).replace("\t", " ")
    shown_from = max(0, place.column - 81) if len(text) > 160 else 0
    text = text[shown_from : shown_from + 160]
    column = place.column - 1 - shown_from
    length = max(1, min(span.end - span.start, len(text) - column))
    number = str(place.line).rjust(width)
    return (
        f"  {number} | {text}".rstrip(),
        f"  {' ' * width} | {' ' * column}{mark * length}{says}",
    )


def as_json(source: Source, found: Diagnostic) -> Mapping[str, object]:
    """A diagnostic for a program; `end_column` is exclusive."""
    start, end = source.place(found.span.start), source.place(found.span.end)
    return {
        "severity": found.severity,
        "code": found.code,
        "kind": found.kind,
        "message": found.says,
        "file": source.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "help": found.help,
        "notes": [
            {"line": at.line, "column": at.column, "message": note.says}
            for note in found.notes
            for at in (source.place(note.span.start),)
        ],
    }


def has_errors(diagnostics: Sequence[Diagnostic]) -> bool:
    return any(found.is_error for found in diagnostics)
