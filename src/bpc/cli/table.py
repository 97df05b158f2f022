"""Tables for people: aligned columns, folded on a narrow terminal, one line per row anywhere else."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

from bpc.cli.output import visible

COPIED: Final = {"ID", "PREFIX", "SLUG"}  # in one piece, whatever it costs the others
WIDE_ENOUGH: Final = 10_000  # for `… | grep`, where a row is a line


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in COPIED)
    for row in rows:
        table.add_row(*("" if cell is None else visible(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else WIDE_ENOUGH
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().rstrip("\n").split("\n"):
        typer.echo(line.rstrip())
