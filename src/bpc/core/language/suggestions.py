"""The name somebody probably meant.

Pure. A suggestion is the known name with the fewest edits (one letter more, less, other, or two swapped), if it is
near enough to be a slip. Looking is bounded: a text full of unknown names gets suggestions for the first ones only.
"""

from collections.abc import Iterable, Sequence
from typing import Final

# One unit is a look at a name, some four microseconds; so is a comparison of 32 pairs of letters.
_BUDGET: Final = 300_000
_PAIRS: Final = 32
_MAX_LENGTH: Final = 200


class Suggestions:
    """Answers "did you mean", and stops answering when that would take long."""

    __slots__ = ("_left",)

    def __init__(self, budget: int = _BUDGET) -> None:
        self._left = budget

    def nearest(self, name: str, known: Iterable[str]) -> str | None:
        """The known name nearest to `name`, the first of equals in `known`; None if none is near."""
        best, least = None, _allowed(name) + 1
        if len(name) > _MAX_LENGTH:
            return None
        letters = [(letter, name.count(letter)) for letter in set(name)]
        for candidate in known:
            if self._left <= 0:
                break
            self._left -= 1
            if abs(len(candidate) - len(name)) >= least or candidate == name or _missing(letters, candidate) >= least:
                continue
            self._left -= 1 + len(name) * len(candidate) // _PAIRS
            apart = _edits(name, candidate, least)
            if apart < least:
                best, least = candidate, apart
        return best

    def help(self, name: str, known: Iterable[str], shown: str = "{}") -> str | None:
        """ "did you mean …?" as a help line; `shown` says how the name is written there."""
        found = self.nearest(name, known)
        return None if found is None else f"did you mean `{shown.format(found)}`?"


def _allowed(name: str) -> int:
    """How many edits are still a slip: one in a short name, a third of a long one."""
    return max(1, len(name) // 3)


def _missing(letters: Sequence[tuple[str, int]], other: str) -> int:
    """How many of the letters the other name does not have; each takes an edit of its own."""
    return sum(max(0, count - other.count(letter)) for letter, count in letters)


def _edits(one: str, other: str, limit: int) -> int:
    """The edits between two names (optimal string alignment), or some number ≥ `limit` if there are so many."""
    start = 0
    shortest = min(len(one), len(other))
    while start < shortest and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        earlier, before, row = before, row, [i + 1]
        for j, other_letter in enumerate(other):
            cost = min(before[j] + (letter != other_letter), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == other[j - 1] and one[i - 1] == other_letter:
                cost = min(cost, earlier[j - 1] + 1)
            row.append(cost)
        if min(row) >= limit and (i == 0 or min(before) >= limit):
            return limit
    return row[-1]
