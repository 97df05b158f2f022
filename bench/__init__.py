"""Measurements, side by side with peers in one run: `python -m bench [name …]`.

A module here offers `run() -> Iterable[Table]`. Candidates take turns in an order that is drawn anew each round, so
that whatever else the machine does meets all of them, and a table compares medians as ratios: noise cancels in a ratio
and in nothing else. What only computes is measured in time of the processor, the rest in time of the clock.
"""

import gc
import random  # noqa: TID251 - which candidate comes first must not be known
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of the processor for one call: the median of all turns, and the range of the middle half of them."""

    median: float
    low: float
    high: float


def measure_turns(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int = 60, seconds: float = 0.002
) -> dict[str, Timing]:
    """What a call of each candidate takes, over `rounds` in which they all take turns in random order.

    A turn repeats the call until it lasts about `seconds`, so that the clock's own grain does not show.
    """
    calls = {name: max(1, int(seconds / _time_call(call, 3))) for name, call in candidates.items()}
    turns: dict[str, list[float]] = {name: [] for name in candidates}
    names = [*candidates]
    gc.collect()
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            turns[name].append(_time_call(candidates[name], calls[name]))
    return {name: _summarize(times) for name, times in turns.items()}


def measure_medians(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int = 60, seconds: float = 0.002
) -> dict[str, float]:
    """The medians of `measure_turns`."""
    return {name: timing.median for name, timing in measure_turns(candidates, rounds=rounds, seconds=seconds).items()}


def _summarize(times: list[float]) -> Timing:
    low, median, high = statistics.quantiles(times, n=4)
    return Timing(median=median, low=low, high=high)


def _time_call(call: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def _align_cells(line: tuple[str, ...], widths: list[int]) -> list[str]:
    # The first column is a name, the others are figures.
    return [
        cell.rjust(width) if at else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
