"""Notes on a document: everything wrong with it, and everything in it that nobody reads, each with its place.

However many there are, the first hundred of each are kept and all are counted. Only the warnings of rounded numbers are
all kept, beside the hundred; a document with more of them than can be kept has a problem, so nothing is rounded
without a word.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bpc.core.rules.nearest import Suggestions

MOST_KEPT: Final = 100
MOST_ROUNDINGS: Final = 1_000
SUGGESTING: Final = 5_000  # twenty milliseconds
LONGEST_PLACE: Final = 300

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")


class Note(NamedTuple):
    """A place in a document, and what there is to say about it."""

    at: str
    says: str


@dataclass(frozen=True, slots=True)
class Found:
    """The notes of one sort that are kept, and how many there are."""

    first: tuple[Note, ...] = ()
    total: int = 0

    def as_json(self) -> list[dict[str, str]]:
        return [{"at": note.at, "says": note.says} for note in self.first]


@dataclass(slots=True)
class Notes:
    """Written while a document is read. A document without problems is accepted."""

    suggestions: Suggestions = field(default_factory=lambda: Suggestions(SUGGESTING))
    located: Callable[[str], str] = str  # the place as the reader of the document knows it
    _problems: list[Note] = field(default_factory=list)
    _warnings: list[Note] = field(default_factory=list)
    _problems_total: int = 0
    _warnings_total: int = 0
    _roundings: int = 0
    _room: int = MOST_KEPT  # for other warnings

    def problem(self, at: str, says: str) -> None:
        self._problems_total += 1
        if len(self._problems) < MOST_KEPT:
            self._problems.append(_note(self.located(at), says))

    def warning(self, at: str, says: str) -> None:
        self._warnings_total += 1
        if self._room > 0:
            self._room -= 1
            self._warnings.append(_note(self.located(at), says))

    def rounding(self, at: str, says: str, decimals: int) -> None:
        """A warning that a number was rounded to so many decimals; one too many to be kept is a problem."""
        self._roundings += 1
        if self._roundings <= MOST_ROUNDINGS:
            self._warnings_total += 1
            self._warnings.append(_note(self.located(at), says))
        elif self._roundings == MOST_ROUNDINGS + 1:
            self.problem(
                at,
                f"is one of more than {MOST_ROUNDINGS:,} numbers with more decimals than their facts have, too many to"
                f" name each rounding; send this one with at most {decimals} decimals and the others likewise, or"
                " split the document",
            )

    @property
    def problems(self) -> Found:
        return Found(tuple(self._problems), self._problems_total)

    @property
    def warnings(self) -> Found:
        return Found(tuple(self._warnings), self._warnings_total)

    @property
    def is_clean(self) -> bool:
        return self._problems_total == 0


def step(path: str, name: str) -> str:
    """The place of a member. Escaped to ASCII, so that it can be stored and printed whatever the name is."""
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{quoted(name)}]"


def quoted(text: str) -> str:
    """The beginning of a text from a document, fit to be stored and printed."""
    return json.dumps(text[:40] + ("…" if len(text) > 40 else ""))


def _note(at: str, says: str) -> Note:
    return Note(at if len(at) <= LONGEST_PLACE else f"{at[:200]}…{at[-80:]}", says)
