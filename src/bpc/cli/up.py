"""`bpc up`: everything that runs, in one command, until Ctrl-C.

bpc up ── holds the database open and the API's socket, and looks after
  ├── bpc api
  └── bpc worker, one or several
"""

import asyncio
import os
import socket
from contextlib import nullcontext
from typing import Annotated, Final

import typer

from bpc.cli.address import Port, address, url_of
from bpc.cli.output import AsJson, nothing_said, print_json, progress, say
from bpc.cli.seed import DEACTIVATED, DEV_TENANT, Seeded, plant
from bpc.cli.session import settings_for, stop_when_told
from bpc.cli.supervise import Fleet, Role, bpc, supervised
from bpc.cli.workers import MOST, Workers, role
from bpc.core.errors import DatabaseUnavailable
from bpc.db.embedded.layout import Layout
from bpc.db.opening import opened
from bpc.settings import Settings
from bpc.sockets import bound, handed_over
from bpc.worker.run import watchable

app = typer.Typer(add_completion=False, rich_markup_mode=None)

API_STOPS_WITHIN: Final = 40.0  # seconds: its requests get 30
LOOK_EVERY: Final = 1.0
ELSEWHERE: Final = "choose a free one with --port or BPC_HTTP_PORT; 0 takes any. Is another `bpc up` running?"


@app.command()
def up(
    port: Port = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=MOST, help="So many processes that run jobs.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Start everything that runs and stay until Ctrl-C.

    Starts the database, brings its tables up to date, makes the tenant `dev` (not in prod), serves the API, runs
    jobs, and says where everything is. With --json that is one line, printed once the API answers and jobs run.

    The API and each worker are processes of their own; one that dies is started again. Ctrl-C, or SIGTERM, stops all;
    the data stays. A second `bpc up` on the same data, with another --port, shares the database.
    """
    asyncio.run(_up(settings_for("up"), port, workers, as_json=as_json))


async def _up(settings: Settings, port: int | None, workers: int, *, as_json: bool) -> None:
    stop = stop_when_told()
    tell = nothing_said if as_json else progress
    host, wanted = address(settings, None, port)
    given = handed_over(os.environ, os.getpid())
    with bound(host, wanted, fix=ELSEWHERE) if given is None else given as sock:
        host = sock.getsockname()[0] if given else host
        async with opened(settings, migrate_first=True, tell=tell) as database:
            seeded = await plant(database, settings)
            if stop.is_set():
                return
            tell(f"starting the API and {'a worker' if workers == 1 else f'{workers} workers'}")
            async with supervised(_roles(settings, sock, workers)) as fleet:
                pages = Workers(fleet.children[1:])
                fleet.answers["figures"] = pages.told_figures
                # Only where it was asked for: the API shows it all, and several of us may run on one machine.
                asked = "worker_http_port" in settings.model_fields_set
                async with watchable(settings, pages.watched(settings)) if asked else nullcontext():
                    if await fleet.ready():
                        _announce(settings, url_of(host, sock.getsockname()[1]), seeded, as_json=as_json)
                    await _over(fleet, settings)
                    sock.close()  # from here on, who calls is refused and need not wait
    if not as_json:
        say("stopped")


def _roles(settings: Settings, sock: socket.socket, workers: int) -> list[Role]:
    api = Role(
        name="api",
        command=bpc("api", "--socket", str(sock.fileno())),
        sockets=(sock.fileno(),),
        stop_seconds=API_STOPS_WITHIN,
    )
    return [api, *(role(settings, number + 1) for number in range(workers))]


async def _over(fleet: Fleet, settings: Settings) -> None:
    """Return when everything is to stop. Raises if the data are gone: then there is nothing to go on with."""
    layout = Layout(settings.data_dir.resolve())
    while not await fleet.over(LOOK_EVERY):
        if settings.database_dsn is None and not layout.users_lock.exists():
            raise DatabaseUnavailable(
                f"the data folder `{settings.data_dir}` was deleted or moved while bpc was using it",
                fix="put it back, or restore a backup, and start bpc again",
            )


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
