"""`bpc api`: only the HTTP API, until Ctrl-C."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from bpc.api.http.metrics_server import serve_metrics
from bpc.api.http.server import keep_loaded_objects, listen, open_service, warm_up_parsers
from bpc.cli.support.arguments import ChannelOption, HostOption, PortOption
from bpc.cli.support.output import AsJson, print_result
from bpc.cli.support.session import (
    choose_address,
    format_url,
    load_peppers,
    load_settings_and_logs,
    stop_on_sigterm,
)
from bpc.runtime.event_loop import loop_factory
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import open_signer_client
from bpc.runtime.sockets import open_inherited_socket, take_systemd_socket
from bpc.runtime.supervision import ProcessChannel, open_parent_channel
from bpc.runtime.telemetry import trace_to_collector
from bpc.storage.database import open_migrated_database
from bpc.storage.server_time import follow_server_time
from bpc.storage.webhooks.endpoint_secrets import seal_stored_secrets

SocketOption = Annotated[int | None, typer.Option("--socket", hidden=True, help="Descriptor to listen on.")]


def serve_api(
    host: HostOption = None,
    port: PortOption = None,
    as_json: AsJson = False,
    channel_descriptor: ChannelOption = None,
    socket: SocketOption = None,
) -> None:
    """Run only the API until Ctrl-C.

    For installations with several processes. The database must exist and be up to date. Jobs wait until a
    `bpc worker` runs them. Ctrl-C or SIGTERM stops it after the current requests.

    Under systemd socket activation it uses the socket of systemd, so a restart refuses no connection.

    \b
    bpc api --host 0.0.0.0 --port 8080
    """
    settings = load_settings_and_logs("api", supervised=channel_descriptor is not None)
    with trace_to_collector("bpc-api", os.environ), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, choose_address(settings, host, port), socket, channel_descriptor, as_json=as_json))


async def _serve(
    settings: Settings, address: tuple[str, int], socket: int | None, descriptor: int | None, *, as_json: bool
) -> None:
    stop = stop_on_sigterm()
    sock = take_systemd_socket(os.environ, os.getpid()) if socket is None else open_inherited_socket(socket)
    host = address[0] if sock is None else sock.getsockname()[0]
    async with (
        open_parent_channel(descriptor, {}) as channel,
        open_migrated_database(settings, serving=True) as database,
        follow_server_time(database),
        open_signer_client(settings) as signer,
        open_service(
            settings,
            database,
            peppers=load_peppers(settings),
            key_ring=signer,
            read_worker_metrics=_make_metrics_source(channel),
        ) as service,
        serve_metrics(service, host),
        listen(service, *address, sock=sock, on_end=stop.set) as bound_port,
        warm_up_parsers(service),
    ):
        await seal_stored_secrets(database, service.secret_box)
        keep_loaded_objects()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        url = format_url(host, bound_port)
        print_result({"url": url}, f"the API listens on {url}; press Ctrl-C to stop", as_json=as_json)
        await stop.wait()


def _make_metrics_source(channel: ProcessChannel | None) -> Callable[[], Awaitable[bytes | None]] | None:
    """The metrics of the workers, from the parent process."""
    if channel is None:
        return None

    async def fetch_worker_metrics() -> bytes | None:
        text = await channel.ask("figures")
        return None if text is None else text.encode()

    return fetch_worker_metrics
