"""`bpc up`: everything that runs, in one command, until Ctrl-C."""

import asyncio
import signal

import typer

from bpc.cli.output import AsJson, print_json, say
from bpc.cli.seed import DEACTIVATED, DEV_TENANT, Seeded, plant
from bpc.cli.session import settings_for
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def up(as_json: AsJson = False) -> None:
    """Start everything that runs and stay until Ctrl-C.

    Starts the database, brings its tables up to date, makes the tenant `dev` (not in prod), and says where
    everything is. With --json that is one line, printed once everything answers. Ctrl-C, or SIGTERM, stops it; the
    data stays. A second `bpc up` on the same data shares the database.
    """
    asyncio.run(_up(settings_for("up"), as_json=as_json))


async def _up(settings: Settings, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with opened(settings, migrate_first=True) as database:
        seeded = await plant(database, settings)
        loop.add_signal_handler(signal.SIGINT, stop.set)  # until here, Ctrl-C gives up starting
        if not stop.is_set():
            _announce(settings, database, seeded, as_json=as_json)
        await stop.wait()
    if not as_json:
        say("stopped")


def _announce(settings: Settings, database: Database, seeded: Seeded, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "url": str(database.address),
                "api_key": seeded.api_key,
                "tenant_id": None if seeded.tenant_id is None else str(seeded.tenant_id),
                "data_dir": str(settings.data_dir),
            }
        )
        return
    say("bpc is up", colour="green", bold=True)
    say(f"  database   {database.address}")
    say(f"  data       {settings.data_dir}")
    if seeded.tenant_id:
        say(f"  tenant     {DEV_TENANT} ({seeded.tenant_id})")
        say(f"  API key    {seeded.api_key or DEACTIVATED}")
    else:
        say("  next       `bpc tenant create SLUG`, then `bpc apikey create --tenant SLUG --role Admin`")
    say("Ctrl-C stops it")
