"""What the checker finds in one text, collected until there is too much of it.

A text with a hundred errors is not read further: whoever wrote it needs the first ones. Warnings are kept up to the
same number.
"""

from typing import Final, NamedTuple

from bpc.core.rules.source import Diagnostic, Note, Source, Span, in_order

MAX_ERRORS: Final = 100


class Found(NamedTuple):
    """A diagnostic and the text it is about."""

    source: Source
    diagnostic: Diagnostic


class TooManyErrors(Exception):
    """Ends the check of a text; never leaves the checker."""


class Findings:
    """The diagnostics of one text."""

    __slots__ = ("_said", "errors", "source", "warnings")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._said: set[tuple[str, Span]] = set()

    def error(self, kind: str, span: Span, says: str, *, hint: str | None = None, notes: tuple[Note, ...] = ()) -> None:
        """Keep an error; the same words about the same place are said once."""
        if (says, span) in self._said:
            return
        self._said.add((says, span))
        self.errors.append(Diagnostic(kind=kind, says=says, span=span, help=hint, notes=notes))
        if len(self.errors) == MAX_ERRORS:
            raise TooManyErrors

    def warning(self, kind: str, span: Span, says: str, *, hint: str | None = None) -> None:
        if len(self.warnings) < MAX_ERRORS:
            self.warnings.append(Diagnostic(kind=kind, says=says, span=span, help=hint))

    def stopped(self) -> None:
        """Say, after the last error, that there may be more."""
        end = len(self.source.text)
        says = f"there are {MAX_ERRORS} errors, and the rest was not looked at"
        self.errors.append(Diagnostic(kind="too-many-errors", says=says, span=Span(end, end)))

    def found(self) -> list[Found]:
        """Everything, as a reader meets it."""
        return [Found(self.source, diagnostic) for diagnostic in in_order([*self.errors, *self.warnings])]
