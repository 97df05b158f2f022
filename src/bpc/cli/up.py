"""`bpc up`: everything that runs, in one command, until Ctrl-C."""

import asyncio
import signal

import typer

from bpc.api.serve import listening, serving
from bpc.cli.api import Port, address, run, url_of
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.seed import DEACTIVATED, DEV_TENANT, Seeded, plant
from bpc.cli.session import settings_for, signer_of, stop_when_told
from bpc.db.opening import opened
from bpc.settings import Settings, pepper
from bpc.worker.run import working

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def up(port: Port = None, as_json: AsJson = False) -> None:
    """Start everything that runs and stay until Ctrl-C.

    Starts the database, brings its tables up to date, makes the tenant `dev` (not in prod), serves the API, runs
    jobs, and says where everything is. With --json that is one line, printed once the API answers. Ctrl-C, or
    SIGTERM, stops it; the data stays. A second `bpc up` on the same data, with another --port, shares the database.
    """
    run(_up(settings_for("up"), port, as_json=as_json))


async def _up(settings: Settings, port: int | None, *, as_json: bool) -> None:
    stop = stop_when_told()
    host, wanted = address(settings, None, port)
    async with opened(settings, migrate_first=True) as database:
        seeded = await plant(database, settings)
        signer = signer_of(settings)
        async with (
            serving(settings, database, pepper=pepper(settings), signer=signer) as service,
            working(settings, database, signer=signer, metrics=service.jobs.metrics, ended=stop.set),
            listening(service, host, wanted, ended=stop.set) as taken,
        ):
            # Until here, Ctrl-C gives up starting.
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
            if not stop.is_set():
                _announce(settings, url_of(host, taken), seeded, as_json=as_json)
            await stop.wait()
    if not as_json:
        say("stopped")


def _announce(settings: Settings, url: str, seeded: Seeded, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "url": url,
                "api_key": seeded.api_key,
                "tenant_id": None if seeded.tenant_id is None else str(seeded.tenant_id),
                "data_dir": str(settings.data_dir),
            }
        )
        return
    say("bpc is up", colour="green", bold=True)
    say(f"  API        {url}")
    say(f"  data       {settings.data_dir}")
    if seeded.tenant_id:
        say(f"  tenant     {DEV_TENANT} ({seeded.tenant_id})")
        say(f"  API key    {seeded.api_key or DEACTIVATED}")
    else:
        say("  next       `bpc tenant create SLUG`, then `bpc apikey create --tenant SLUG --role Admin`")
    say("Ctrl-C stops it")
