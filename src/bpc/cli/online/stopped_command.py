"""What goes on after a command that compiles passports has stopped: runs are the server's, not the command's."""

from collections.abc import Sequence

import typer
from bpc_client.models import RunRequested


def print_started_runs(runs: Sequence[RunRequested]) -> None:
    """After a refusal: runs that were started before it and go on."""
    before = 0
    for run in runs:
        rows = f"rows {before + 1:,} to {before + run.rows:,}"
        typer.echo(f"run {run.run_id} was already started: {rows}; `bpc runs show` shows it", err=True)
        before += run.rows


def print_going_on(runs: Sequence[RunRequested], *, is_asking: bool) -> None:
    """After Ctrl-C: what goes on without this command, how to look at it and how to stop it."""
    if is_asking:
        typer.echo("stopped before the API answered: `bpc runs list` shows whether a run was started", err=True)
    elif not runs:
        typer.echo("stopped before a run was started: nothing is compiled", err=True)
    for run in runs:
        typer.echo(
            f"run {run.run_id} goes on without this command: {run.rows:,} rows\n"
            f"  look at it: bpc runs show {run.run_id} --wait\n"
            f"  stop it:    bpc runs cancel {run.run_id}",
            err=True,
        )
