"""`bpc worker`: runs jobs, until it is told to stop."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Annotated

import typer

from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import settings_for, signer_of, stop_when_told
from bpc.cli.supervise import LineOption, on_the_line, supervised
from bpc.cli.workers import MOST, Workers, answers_of, role
from bpc.db.opening import opened
from bpc.settings import Settings
from bpc.telemetry import traced
from bpc.worker.run import watchable, watched, working

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def worker(
    processes: Annotated[
        int | None,
        typer.Option("--processes", metavar="N", min=1, max=MOST, help="So many, each started again when it dies."),
    ] = None,
    as_json: AsJson = False,
    line: LineOption = None,
) -> None:
    """Run jobs and stay until Ctrl-C.

    Any number of workers share the work of one database, on this machine and on others. Ctrl-C, or SIGTERM, lets
    running jobs finish, for BPC_JOBS_STOP_GRACE_SECONDS; what is left runs elsewhere. A second Ctrl-C does not wait.

    With --processes this process only looks after the others: one that dies is started again. Health and metrics, on
    BPC_WORKER_HTTP_PORT, are those of all of them.

    \b
    bpc worker --processes 4
    """
    settings = settings_for("worker", supervised=line is not None)
    if processes is None:
        with traced("bpc-worker", os.environ):
            asyncio.run(_work(settings, line, as_json=as_json))
    else:
        asyncio.run(_supervise(settings, processes, as_json=as_json))


async def _work(settings: Settings, descriptor: int | None, *, as_json: bool) -> None:
    """Be a worker: alone, with pages of its own, or one of several, asked by whoever started us."""
    stop = stop_when_told()
    answers: dict[str, Callable[[], Awaitable[str]]] = {}
    async with (
        on_the_line(descriptor, answers),
        opened(settings) as database,
        working(settings, database, signer=signer_of(settings), ended=stop.set) as running,
    ):
        pages = watched(settings, running, database)
        answers |= answers_of(running, pages)
        async with watchable(settings, pages) if descriptor is None else nullcontext():
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
            if as_json:
                print_json({"worker": running.owner})
            else:
                say(f"worker {running.owner} runs; Ctrl-C stops it")
            await stop.wait()


async def _supervise(settings: Settings, processes: int, *, as_json: bool) -> None:
    """Look after workers, and show to monitoring what they say."""
    async with (
        supervised([role(settings, number + 1) for number in range(processes)]) as fleet,
        watchable(settings, Workers(fleet.children).watched(settings)),
    ):
        if await fleet.ready():
            if as_json:
                print_json({"workers": [child.told["worker"] for child in fleet.children]})
            else:
                say(f"{processes} workers run; Ctrl-C stops them")
        await fleet.over()
