"""Documents: what suppliers sent, read into facts.

Pure. `reader` chooses the format, which turns bytes into elements: JSON in our own form (`elements`) or a published one
(`public/`), CSV (`csv_table`) and XLSX (`xlsx`), both through `tables`. `fact_members` builds facts of the
elements, and describes our own form as JSON Schemas. All of them note problems and warnings, each with its place.

A problem rejects the document. A value of an optional member that cannot be read is only left out, with a warning.
Ten thousand problems and ten thousand warnings are kept; all are counted, and the last note says if the list was cut.
Warnings about rounded and about unreadable values are kept beside those: if there are more than can be kept, the
document has a problem, so that no value is rounded or lost silently.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bpc.core.language.suggestions import Suggestions

MAX_NOTES: Final = 10_000
MAX_ROUNDINGS: Final = 1_000
MAX_UNREADABLE: Final = 10_000
SUGGESTION_BUDGET: Final = 5_000  # twenty milliseconds
MAX_PATH_LENGTH: Final = 300

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")


class DocumentNote(NamedTuple):
    """A place in a document, and a sentence about it that begins with a verb."""

    at: str
    says: str


@dataclass(frozen=True, slots=True)
class NoteSummary:
    """The problems, or the warnings, that are kept; `total` counts also those that are not.

    If there are more than are kept, the last note says so.
    """

    first: tuple[DocumentNote, ...] = ()
    total: int = 0

    def as_json(self) -> list[dict[str, str]]:
        return [{"at": note.at, "says": note.says} for note in self.first]


@dataclass(slots=True)
class Notes:
    """Collects notes while a document is read. A document without problems is accepted."""

    suggestions: Suggestions = field(default_factory=lambda: Suggestions(SUGGESTION_BUDGET))
    locate: Callable[[str], str] = str  # turns a path into the place a person finds in the file
    _problems: list[DocumentNote] = field(default_factory=list)
    _warnings: list[DocumentNote] = field(default_factory=list)
    _problems_total: int = 0
    _warnings_total: int = 0
    _roundings: int = 0
    _unreadable: int = 0
    _warnings_left: int = MAX_NOTES  # for other warnings
    _captured: list[DocumentNote] | None = None

    def begin_capture(self) -> None:
        """Keep the problems of one member apart: until `end_capture`, they do not reject the document."""
        self._captured = []

    def end_capture(self) -> list[DocumentNote]:
        """The problems since `begin_capture`, with their places."""
        notes, self._captured = self._captured, None
        return notes or []

    @property
    def is_capturing(self) -> bool:
        return self._captured is not None

    def add_problem(self, at: str, says: str) -> None:
        if self._captured is not None:
            if len(self._captured) <= MAX_UNREADABLE:
                self._captured.append(_build_note(self.locate(at), says))
            return
        self._problems_total += 1
        if len(self._problems) < MAX_NOTES:
            self._problems.append(_build_note(self.locate(at), says))

    def add_warning(self, at: str, says: str) -> None:
        self._warnings_total += 1
        if self._warnings_left > 0:
            self._warnings_left -= 1
            self._warnings.append(_build_note(self.locate(at), says))

    def add_rounding(self, at: str, says: str, decimals: int) -> None:
        """Warn that a number was rounded to `decimals`; the first warning that cannot be kept is a problem."""
        self._roundings += 1
        if self._roundings <= MAX_ROUNDINGS:
            self._warnings_total += 1
            self._warnings.append(_build_note(self.locate(at), says))
        elif self._roundings == MAX_ROUNDINGS + 1:
            self.add_problem(
                at,
                f"is one of more than {MAX_ROUNDINGS:,} numbers with more decimals than their facts have; send this one"
                f" with at most {decimals} decimals, round the others too, or split the document",
            )

    def add_unreadable(self, at: str, says: str) -> None:
        """Warn that a value was left out because it cannot be read; the first that cannot be kept is a problem."""
        self._unreadable += 1
        if self._unreadable <= MAX_UNREADABLE:
            self._warnings_total += 1
            self._warnings.append(_build_note(at, f"{says}; the value was left out"))
        elif self._unreadable == MAX_UNREADABLE + 1:
            self.add_problem(at, f"{says}; it is one of more than {MAX_UNREADABLE:,} values that cannot be read")

    @property
    def problems(self) -> NoteSummary:
        return _summarise_notes(self._problems, self._problems_total, "problems")

    @property
    def warnings(self) -> NoteSummary:
        return _summarise_notes(self._warnings, self._warnings_total, "warnings")

    @property
    def problem_count(self) -> int:
        return self._problems_total

    @property
    def is_clean(self) -> bool:
        return self._problems_total == 0


def join_path(path: str, name: str) -> str:
    """The path of a member. Escaped to ASCII, so that any name can be stored and printed."""
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{quote_text(name)}]"


def quote_text(text: str) -> str:
    """The first 40 characters of a text from a document, quoted and escaped so that they can be stored and printed."""
    return json.dumps(text[:40] + ("…" if len(text) > 40 else ""))


def _summarise_notes(notes: list[DocumentNote], total: int, name: str) -> NoteSummary:
    cut = (DocumentNote("$", f"has {total:,} {name}; {len(notes):,} of them are listed"),) * (total > len(notes))
    return NoteSummary((*notes, *cut), total)


def _build_note(at: str, says: str) -> DocumentNote:
    return DocumentNote(at if len(at) <= MAX_PATH_LENGTH else f"{at[:200]}…{at[-80:]}", says)
