"""`bpc worker`: runs jobs, until it is told to stop."""

import asyncio
import signal

import typer

from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import settings_for, signer_of, stop_when_told
from bpc.db.opening import opened
from bpc.settings import Settings
from bpc.worker.run import working

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def worker(as_json: AsJson = False) -> None:
    """Run jobs and stay until Ctrl-C.

    Any number of workers share the work of one database, on this machine and on others. Ctrl-C, or SIGTERM, lets
    running jobs finish, for BPC_JOBS_STOP_GRACE_SECONDS; what is left runs elsewhere.
    """
    asyncio.run(_worker(settings_for("worker"), as_json=as_json))


async def _worker(settings: Settings, *, as_json: bool) -> None:
    stop = stop_when_told()
    async with (
        opened(settings) as database,
        working(settings, database, signer=signer_of(settings), ended=stop.set) as running,
    ):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        if as_json:
            print_json({"worker": running.owner})
        else:
            say(f"worker {running.owner} runs; Ctrl-C stops it")
        await stop.wait()
