"""`bpc api`: the HTTP API alone, until it is told to stop."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Annotated, Any, Final

import typer

from bpc.api.serve import listening, loop_factory, serving
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import settings_for, signer_of, stop_when_told
from bpc.db.opening import opened
from bpc.settings import Settings, pepper

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOCAL: Final = "127.0.0.1"
EVERYWHERE: Final = {"0.0.0.0": LOCAL, "::": "::1"}  # noqa: S104 (not listened on: what to call it)

Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="Address to listen on; BPC_HTTP_HOST, else 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="N", min=0, max=65_535, help="Port of the API; BPC_HTTP_PORT. 0 takes a free one."),
]


@app.command()
def api(host: Host = None, port: Port = None, as_json: AsJson = False) -> None:
    """Serve the API alone and stay until Ctrl-C.

    For installations of several processes: the database must be there and up to date, and jobs wait until a
    `bpc worker` runs them. Ctrl-C, or SIGTERM, stops it when the requests it has are answered.

    \b
    bpc api --host 0.0.0.0 --port 8080
    """
    run(_api(settings_for("api"), host, port, as_json=as_json))


async def _api(settings: Settings, host: str | None, port: int | None, *, as_json: bool) -> None:
    stop = stop_when_told()
    where, wanted = address(settings, host, port)
    async with (
        opened(settings) as database,
        serving(settings, database, pepper=pepper(settings), signer=signer_of(settings)) as service,
        listening(service, where, wanted, ended=stop.set) as taken,
    ):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        if as_json:
            print_json({"url": url_of(where, taken)})
        else:
            say(f"the API listens on {url_of(where, taken)}; Ctrl-C stops it")
        await stop.wait()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it on the event loop that the API is quickest on."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)


def address(settings: Settings, host: str | None, port: int | None) -> tuple[str, int]:
    """Where to listen: what was said, or else the settings."""
    return host or settings.http_host or LOCAL, settings.http_port if port is None else port


def url_of(host: str, port: int) -> str:
    """How to reach what listens there, from here."""
    shown = EVERYWHERE.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
