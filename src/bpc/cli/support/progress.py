"""What a person sees of a command that takes long: a bar with rate and remaining time, and what goes on after Ctrl-C.

A bar is for terminals only: with --json, or where standard error is not a terminal, nothing is printed.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import typer

from bpc.cli.support.output import CONTROL_ESCAPES_IN_LINES, escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

ProgressUnit = Literal["count", "bytes", "percent"]

MEGABYTE: Final = 1_000_000


class ProgressBar:
    """One bar. Without a terminal it takes everything and prints nothing."""

    def __init__(self, bar: "Progress | None" = None, unit: ProgressUnit = "count") -> None:
        self._bar = bar
        self._unit = unit
        self._stage: str | None = None
        self._started = time.monotonic()
        self._task: TaskID | None = None if bar is None else bar.add_task("", total=None, stage="", rate="")

    @property
    def is_visible(self) -> bool:
        return self._bar is not None

    def update(self, done: float, total: float, text: str = "", *, stage: str | None = None) -> None:
        """Show how much is done. A new `stage` starts a new count; a total of 0 is unknown."""
        if self._bar is None or self._task is None:
            return
        if stage != self._stage:
            self._stage, self._started = stage, time.monotonic()
            self._bar.reset(self._task, stage=stage or "", rate="")
        self._bar.update(
            self._task, completed=done, total=total or None, description=text, rate=self._format_rate(done)
        )

    def print_line(self, sentence: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(escape_controls(sentence), style="red", markup=False, highlight=False)

    def _format_rate(self, done: float) -> str:
        rate = done / max(time.monotonic() - self._started, 0.001)
        if self._unit == "percent" or not done:
            return ""
        return f"{rate / MEGABYTE:,.1f} MB/s" if self._unit == "bytes" else f"{rate:,.{0 if rate >= 10 else 1}f}/s"


@contextmanager
def show_progress(label: str, *, as_json: bool, unit: ProgressUnit = "count") -> Iterator[ProgressBar]:
    """Yield a bar: label, how much is done, rate and remaining time. It disappears at the end."""
    if as_json or not sys.stderr.isatty():
        yield ProgressBar()
        return
    from rich.console import Console  # noqa: PLC0415 (slow to import)
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn(label + "{task.fields[stage]}"),
        BarColumn(),
        _choose_number(unit),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield ProgressBar(bar, unit)


def _choose_number(unit: ProgressUnit) -> "ProgressColumn":
    from rich.progress import DownloadColumn, MofNCompleteColumn, TaskProgressColumn  # noqa: PLC0415

    if unit == "bytes":
        return DownloadColumn()
    return TaskProgressColumn() if unit == "percent" else MofNCompleteColumn()


@contextmanager
def explain_interrupt(explain: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print on standard error what goes on without this command, and how to look at it."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo(explain().translate(CONTROL_ESCAPES_IN_LINES), err=True)
        raise
