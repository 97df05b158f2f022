"""Who is dead: what a worker concludes from looking at others' signs of life. Pure.

Two looks on our own steady clock, never a comparison of ages with the database's clock, which may be stepped, and
which goes on while the server restarts and nobody can show a sign of life:

- a worker whose session lock is free and whose heartbeat we have seen unchanged for 3 s is dead;
- a worker without a lock (behind a transaction pooler) is dead when its heartbeat has not changed for 15 s;
- a lease that has run out is lost when it still had not been renewed at a second look. A worker that only
  was late, or whose database was, has renewed it by then.
"""

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

DEAD_AFTER: Final = 3.0
DEAD_AFTER_WITHOUT_LOCK: Final = 15.0
SECOND_LOOK: Final = 1.5

T = TypeVar("T", bound=Hashable)


class Unchanged(Generic[T]):
    """How long each of a set of things has been seen without a change."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: dict[T, float] = {}

    def look(self, seen: Iterable[T], now: float) -> dict[T, float]:
        """Seconds since each thing in `seen` was first seen as it is; what is no longer seen is forgotten."""
        self._since = {thing: self._since.get(thing, now) for thing in seen}
        return {thing: now - since for thing, since in self._since.items()}

    def forget(self) -> None:
        """Our own view was interrupted: everything starts anew."""
        self._since.clear()
