"""`bpc api`: the HTTP API alone, until it is told to stop."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from bpc.api.serve import listening, loop_factory, serving
from bpc.cli.address import Host, Port, address, url_of
from bpc.cli.line import Line
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.peppers import peppers_of
from bpc.cli.session import settings_for, signer_of, stop_when_told
from bpc.cli.supervise import LineOption, on_the_line
from bpc.db.opening import opened
from bpc.settings import Settings
from bpc.sockets import handed_over, inherited
from bpc.telemetry import traced

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SocketOption = Annotated[int | None, typer.Option("--socket", hidden=True, help="Descriptor to listen on.")]


@app.command()
def api(
    host: Host = None,
    port: Port = None,
    as_json: AsJson = False,
    line: LineOption = None,
    socket: SocketOption = None,
) -> None:
    """Serve the API alone and stay until Ctrl-C.

    For installations of several processes: the database must be there and up to date, and jobs wait until a
    `bpc worker` runs them. Ctrl-C, or SIGTERM, stops it when the requests it has are answered.

    Started by systemd with a socket of its own, it listens on that: restarting it then refuses nobody.

    \b
    bpc api --host 0.0.0.0 --port 8080
    """
    settings = settings_for("api", supervised=line is not None)
    with traced("bpc-api", os.environ), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_api(settings, address(settings, host, port), socket, line, as_json=as_json))


async def _api(
    settings: Settings, where: tuple[str, int], socket: int | None, descriptor: int | None, *, as_json: bool
) -> None:
    stop = stop_when_told()
    sock = handed_over(os.environ, os.getpid()) if socket is None else inherited(socket)
    host = where[0] if sock is None else sock.getsockname()[0]
    async with (
        on_the_line(descriptor, {}) as line,
        opened(settings) as database,
        serving(
            settings, database, peppers=peppers_of(settings), signer=signer_of(settings), workers=_workers(line)
        ) as service,
        listening(service, *where, sock=sock, ended=stop.set) as taken,
    ):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        if as_json:
            print_json({"url": url_of(host, taken)})
        else:
            say(f"the API listens on {url_of(host, taken)}; Ctrl-C stops it")
        await stop.wait()


def _workers(line: Line | None) -> Callable[[], Awaitable[bytes | None]] | None:
    """The figures of the workers, from whoever started them and us."""
    if line is None:
        return None

    async def figures() -> bytes | None:
        text = await line.ask("figures")
        return None if text is None else text.encode()

    return figures
