"""Measurements, side by side with peers in one run: `python -m bench [name …]`.

A module here offers `run() -> Iterable[Table]`. Candidates take turns, so that whatever else the machine does
meets all of them, and a table compares medians as ratios: noise cancels in a ratio and in nothing else.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What was measured, the names of the columns, and the rows, all ready to print."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        printed = ["  ".join(_align_cells(line, widths)).rstrip() for line in lines]
        rule = "  ".join("-" * width for width in widths)
        return "\n".join([self.title, "", printed[0], rule, *printed[1:], *(["", self.note] if self.note else [])])


def measure_medians(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int = 60, seconds: float = 0.002
) -> dict[str, float]:
    """Seconds per call of each candidate: the median over `rounds` in which they all take turns.

    A turn repeats the call until it lasts about `seconds`, so that the clock's own grain does not show.
    """
    calls = {name: max(1, int(seconds / _time_call(call, 3))) for name, call in candidates.items()}
    turns: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    for _ in range(rounds):
        for name, call in candidates.items():
            turns[name].append(_time_call(call, calls[name]))
    return {name: statistics.median(times) for name, times in turns.items()}


def _time_call(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def _align_cells(line: tuple[str, ...], widths: list[int]) -> list[str]:
    # The first column is a name, the others are figures.
    return [
        cell.rjust(width) if at else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
