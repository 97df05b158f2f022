"""The name somebody probably meant.

Pure. A suggestion is the known name with the fewest edits (one letter more, less, other, or two swapped), if it is
near enough to be a slip. Looking is bounded: a text full of unknown names gets suggestions for the first ones only.
"""

from collections.abc import Iterable, Sequence
from typing import Final

# One unit is a look at a name, some four microseconds; so is a comparison of 32 pairs of letters.
_BUDGET: Final = 300_000
_PAIRS_PER_UNIT: Final = 32
_MAX_LENGTH: Final = 200


class Suggestions:
    """Answers "did you mean", and stops answering when that would take long."""

    __slots__ = ("_left",)

    def __init__(self, budget: int = _BUDGET) -> None:
        self._left = budget

    def find_nearest(self, name: str, known: Iterable[str]) -> str | None:
        """The known name nearest to `name`, the first of equals in `known`; None if none is near."""
        best, least = None, _count_allowed_edits(name) + 1
        if len(name) > _MAX_LENGTH:
            return None
        letters = [(letter, name.count(letter)) for letter in set(name)]
        for candidate in known:
            if self._left <= 0:
                break
            self._left -= 1
            if (
                abs(len(candidate) - len(name)) >= least
                or candidate == name
                or _count_missing_letters(letters, candidate) >= least
            ):
                continue
            self._left -= 1 + len(name) * len(candidate) // _PAIRS_PER_UNIT
            edits = _count_edits(name, candidate, least)
            if edits < least:
                best, least = candidate, edits
        return best

    def suggest(self, name: str, known: Iterable[str], template: str = "{}") -> str | None:
        """Write "did you mean …?" as a help line; `template` is how the name is written there."""
        nearest = self.find_nearest(name, known)
        return None if nearest is None else f"did you mean `{template.format(nearest)}`?"


def _count_allowed_edits(name: str) -> int:
    """How many edits are still a slip: one in a short name, a third of a long one."""
    return max(1, len(name) // 3)


def _count_missing_letters(letters: Sequence[tuple[str, int]], other: str) -> int:
    """How many of the letters the other name does not have; each takes an edit of its own."""
    return sum(max(0, count - other.count(letter)) for letter, count in letters)


def _count_edits(first: str, second: str, limit: int) -> int:
    """The edits between two names (optimal string alignment), or some number ≥ `limit` if there are so many."""
    start = 0
    shortest = min(len(first), len(second))
    while start < shortest and first[start] == second[start]:
        start += 1
    first, second = first[start:], second[start:]
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first):
        earlier, before, row = before, row, [i + 1]
        for j, second_letter in enumerate(second):
            cost = min(before[j] + (letter != second_letter), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == second[j - 1] and first[i - 1] == second_letter:
                cost = min(cost, earlier[j - 1] + 1)
            row.append(cost)
        if min(row) >= limit and (i == 0 or min(before) >= limit):
            return limit
    return row[-1]
