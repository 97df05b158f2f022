"""Notes on a document: everything wrong with it, and everything in it that nobody reads, each with its place.

However many there are, the first hundred of each are kept and all are counted.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bpc.core.rules.nearest import Suggestions

MOST_KEPT: Final = 100
LONGEST_PLACE: Final = 300

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")


class Note(NamedTuple):
    """A place in a document, and what there is to say about it."""

    at: str
    says: str


@dataclass(frozen=True, slots=True)
class Found:
    """The first notes of one sort, and how many there are."""

    first: tuple[Note, ...] = ()
    total: int = 0

    def as_json(self) -> list[dict[str, str]]:
        return [{"at": note.at, "says": note.says} for note in self.first]


@dataclass(slots=True)
class Notes:
    """Written while a document is read. A document without problems is accepted."""

    suggestions: Suggestions = field(default_factory=Suggestions)
    _problems: list[Note] = field(default_factory=list)
    _warnings: list[Note] = field(default_factory=list)
    _problems_total: int = 0
    _warnings_total: int = 0

    def problem(self, at: str, says: str) -> None:
        self._problems_total += 1
        if len(self._problems) < MOST_KEPT:
            self._problems.append(_note(at, says))

    def warning(self, at: str, says: str) -> None:
        self._warnings_total += 1
        if len(self._warnings) < MOST_KEPT:
            self._warnings.append(_note(at, says))

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
