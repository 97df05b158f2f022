"""Figures in tests: how much to do, and what it took.

`choose_effort(test=…, shown=…, campaign=…)` is the figure for this run, chosen by BPC_EFFORT. The fixture
`record_measurement` keeps what a test found out, as one JSON file per name in the folder BPC_MEASUREMENTS; without
that variable it keeps nothing.
"""

import json
import os
import platform
import re
import time
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

Figure = int | float | str
T = TypeVar("T")


class RecordMeasurement(Protocol):
    """Keep `figures` under `name`; a figure is named with its unit (`seconds`, `jobs_per_second`)."""

    def __call__(self, name: str, *, postgres: str | None = None, **figures: Figure) -> None: ...


def choose_effort(test: T, shown: T, campaign: T) -> T:
    """Return the figure for this run; BPC_EFFORT is `test` unless it is set."""
    figures = {"test": test, "shown": shown, "campaign": campaign}
    chosen = os.environ.get("BPC_EFFORT") or "test"
    if chosen not in figures:
        raise pytest.UsageError(f"BPC_EFFORT is `{chosen}`; it can be `test`, `shown` or `campaign`")
    return figures[chosen]


def choose_examples(count: int) -> int:
    """Return how many examples a property is tried with: `count` where figures are shown, else a fifth."""
    return choose_effort(test=max(10, count // 5), shown=count, campaign=10 * count)


def allow_seconds(seconds: float) -> float:
    """Return how long something may take: what we promise, or, beside other tests, twenty times that."""
    return seconds * choose_effort(test=20, shown=1, campaign=1)


@pytest.fixture(scope="session")
def record_measurement() -> RecordMeasurement:
    return write_measurement


def write_measurement(name: str, *, postgres: str | None = None, **figures: Figure) -> None:
    """Write `figures` to `<BPC_MEASUREMENTS>/<name>.json`, replacing what was measured before."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"`{name}` names a file: lowercase words joined by hyphens")
    folder = os.environ.get("BPC_MEASUREMENTS")
    if not folder:
        return
    measurement = {
        "name": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "effort": os.environ.get("BPC_EFFORT") or "test",
        "machine": {
            "cpus": _count_cpus(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "postgres": postgres,
        },
        "figures": figures,
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, f"{name}.json").write_text(json.dumps(measurement, indent=2) + "\n")


def _count_cpus() -> int:
    """Return the processors this process may use, which on a shared machine are fewer than it has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
