"""A document of a public format while it is walked: where each value stands, and which of them somebody read.

A table names a value by its way from here (`performance.rated.voltage.min`). A name after a list goes to the list's
first item: some formats wrap everything that exists once in a list of one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents.members import kind_named
from bpc.core.documents.notes import Notes, quoted, step
from bpc.core.documents.values import Given

MOST_NAMED: Final = 20


@dataclass(slots=True)
class Reading:
    """What happened to a document so far."""

    notes: Notes
    read: set[str] = field(default_factory=set)
    said: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the document, or None where there is none, and where it stands."""

    value: Given
    path: str
    reading: Reading

    def at(self, names: str) -> "Place":
        """The place this way from here; one without a value if the document ends before."""
        place = self
        for name in filter(None, names.split(".")):
            place = place.member(name)
        return place

    def member(self, name: str) -> "Place":
        holder = self.first() if isinstance(self.value, list) else self
        if isinstance(holder.value, dict):
            return Place(holder.value.get(name), step(holder.path, name), self.reading)
        if holder.value is not None:
            holder.problem(f"is {named(holder.value)}, not an object")
        return Place(None, step(holder.path, name), self.reading)

    def first(self) -> "Place":
        """The first item of a list; a value that is no list stands for itself."""
        if not isinstance(self.value, list):
            return self
        if len(self.value) > 1:
            self.warning(f"has {len(self.value)} entries, and only the first was read")
        return Place(self.value[0] if self.value else None, f"{self.path}[0]", self.reading)

    def items(self) -> "list[Place]":
        """The items of a list that are not null; one value that stands where a list should is its only item."""
        if isinstance(self.value, list):
            found = enumerate(self.value)
            return [Place(item, f"{self.path}[{index}]", self.reading) for index, item in found if item is not None]
        return [] if self.value is None else [self]

    def take(self) -> Given:
        """The value, which from now on counts as read."""
        if self.value is not None:
            self.reading.read.add(self.path)
        return self.value

    def problem(self, says: str) -> None:
        if self._is_new(says):
            self.reading.notes.problem(self.path, says)

    def warning(self, says: str) -> None:
        if self._is_new(says):
            self.reading.notes.warning(self.path, says)

    def rounding(self, says: str, decimals: int) -> None:
        if self._is_new(says):
            self.reading.notes.rounding(self.path, says, decimals)

    def _is_new(self, says: str) -> bool:
        new = (self.path, says) not in self.reading.said
        self.reading.said.add((self.path, says))
        return new


def warn_of_unread(document: Place, name: str) -> None:
    """One warning for everything in the document that no fact has a place for."""
    unread = list(dict.fromkeys(_unread(document.value, document.path, "", document.reading.read)[1]))
    if unread:
        more = f" and {len(unread) - MOST_NAMED} more" if len(unread) > MOST_NAMED else ""
        document.warning(
            f"was read as {name}; no fact has a place for {', '.join(f'`{at}`' for at in unread[:MOST_NAMED])}{more},"
            " which were left out"
        )


def _unread(value: Given, path: str, shown: str, read: set[str]) -> tuple[bool, list[str]]:
    """Whether anything in here was read, and the largest parts in which nothing was; items of a list look alike."""
    if path in read:
        return True, []
    if value is None or value in ({}, []):
        return False, []
    below = [_unread(part, at, seen, read) for part, at, seen in _parts(value, path, shown)]
    if any(was_read for was_read, _ in below):
        return True, [at for _, found in below for at in found]
    return False, [shown or "$"] if not below or any(found for _, found in below) else []


def _parts(value: Given, path: str, shown: str) -> Iterator[tuple[Given, str, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            if not name.startswith(("@", "_comment")):
                yield member, step(path, name), step(shown, name).lstrip(".")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield item, f"{path}[{index}]", f"{shown}[]"


def named(given: Given) -> str:
    """A value in words, for a sentence that says what it should have been."""
    return f"the text {quoted(given)}" if isinstance(given, str) else kind_named(given)
