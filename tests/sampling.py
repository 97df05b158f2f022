"""Which tests of a run are taken, and which of them are measured for coverage.

`make check` runs every function, but of a long table of cases only some: the first ones and then every so many, always
the same. `make shown` runs all. A table of which each case guards something else is marked `every_case`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path


def find_sample(files: Sequence[Path], *, every: int) -> set[int]:
    """Return the places of the first test of each file, and of every so many of all tests."""
    first_of_each = {file: place for place, file in reversed(list(enumerate(files)))}
    return {*first_of_each.values(), *range(0, len(files), every)}


def find_cases(functions: Sequence[str], *, most: int) -> set[int]:
    """Return the places of at most so many cases of each function: the first, the last, and some between them."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, function in enumerate(functions):
        places[function].append(place)
    return {place for cases in places.values() for place in _spread(cases, most)}


def _spread(cases: Sequence[int], most: int) -> Sequence[int]:
    if len(cases) <= most:
        return cases
    return [cases[round(step * (len(cases) - 1) / (most - 1))] for step in range(most)]


def find_measured(functions: Sequence[str], *, first: int, every: int) -> list[bool]:
    """Say for each case, by the name of its function, whether it is among the first few, or every so many after them.

    Coverage makes a test more than twice as slow, and a hundred cases of one function go through much the same lines.
    """
    counts: Counter[str] = Counter()
    measured = []
    for function in functions:
        measured.append(counts[function] < first or (counts[function] - first) % every == 0)
        counts[function] += 1
    return measured
