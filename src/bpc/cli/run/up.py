"""`bpc up`: the database, the API and workers in one command, until Ctrl-C.

bpc up ── holds the database and the API's socket open, and supervises
  ├── bpc signer, which alone holds private keys
  ├── bpc api
  └── bpc worker, one or several
"""

import os
import socket
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Final

import typer

from bpc.cli.run.signer import use_signer
from bpc.cli.run.worker import MAX_WORKERS, WorkerGroup, build_worker_spec
from bpc.cli.setup.console import write_first_link
from bpc.cli.setup.seed import DEV_TENANT, TENANT_DEACTIVATED, SeedResult, seed_database
from bpc.cli.support.arguments import PortOption
from bpc.cli.support.output import AsJson, print_json, print_line, print_nothing, print_progress
from bpc.cli.support.session import choose_address, format_url, load_settings_and_logs, stop_on_sigterm
from bpc.core.errors import DatabaseUnavailable
from bpc.runtime.postgres.cluster import Layout
from bpc.runtime.running_service import RunningService, announce_service
from bpc.runtime.settings import Settings
from bpc.runtime.settings.model import name_variable
from bpc.runtime.sockets import open_listening_socket, take_systemd_socket
from bpc.runtime.supervision import ChildSpec, ProcessGroup, build_child_command, supervise_processes
from bpc.storage.database import Database, open_migrated_database
from bpc.worker.run import serve_monitoring

API_STOP_SECONDS: Final = 40.0  # its requests get 30
DATA_CHECK_SECONDS: Final = 1.0
DOCUMENTATION_PATH: Final = "/v1/docs"
PORT_VARIABLE: Final = name_variable("http_port")
PORT_TAKEN_FIX: Final = (
    "choose another port with --port or BPC_HTTP_PORT (0 means any free port). Is another `bpc up` running?"
)


async def start_all(
    port: PortOption = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=MAX_WORKERS, help="Number of worker processes.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Start the database, the API and workers; run until Ctrl-C.

    Starts the database, updates its tables, creates the tenant `dev` (not in prod), runs the API and the workers, and
    prints their addresses. With --json it prints one line once everything is ready.

    The API and each worker are separate processes; one that dies is restarted. Ctrl-C or SIGTERM stops all of them;
    the data stays. A second `bpc up` with another --port shares the database.
    """
    settings = load_settings_and_logs("up")
    stop = stop_on_sigterm()
    report = print_nothing if as_json else print_progress
    host, requested_port = choose_address(settings, None, port)
    systemd_socket = take_systemd_socket(os.environ, os.getpid())
    with systemd_socket or open_listening_socket(host, requested_port, fix=PORT_TAKEN_FIX) as sock:
        host = sock.getsockname()[0] if systemd_socket else host
        async with (
            open_migrated_database(settings, migrate_first=True, serving=True, report=report) as database,
            use_signer(settings),
        ):
            seed_result = await seed_database(database, settings)
            if stop.is_set():
                return
            report(f"starting the API and {'a worker' if workers == 1 else f'{workers} workers'}")
            async with supervise_processes(_build_specs(settings, sock, workers)) as group:
                worker_group = WorkerGroup(group.children[1:])
                group.answers["figures"] = worker_group.collect_metrics_text
                # Only if the port was set: the API shows these metrics too, and several `bpc up` may run here.
                has_port = "worker_http_port" in settings.model_fields_set
                pages = worker_group.make_watched(settings)
                async with serve_monitoring(settings, pages) if has_port else nullcontext():
                    is_ready = await group.wait_until_ready()
                    url = format_url(host, sock.getsockname()[1])
                    with _announce(settings, url, seed_result) if is_ready else nullcontext():
                        if is_ready:
                            link = await _write_link(database, settings, seed_result, url)
                            _print_addresses(settings, url, seed_result, link, as_json=as_json)
                        await _wait_until_stopping(group, settings)
                    sock.close()  # from here on, connections are refused and do not wait
    if not as_json:
        print_line("stopped")


def _announce(settings: Settings, url: str, seed_result: SeedResult) -> AbstractContextManager[object]:
    """So that commands on this machine find the service by themselves; not in prod."""
    if settings.env == "prod":
        return nullcontext()
    return announce_service(settings.data_dir, RunningService(url=url, api_key=seed_result.api_key))


def _build_specs(settings: Settings, sock: socket.socket, workers: int) -> list[ChildSpec]:
    api = ChildSpec(
        name="api",
        command=build_child_command("api", "--socket", str(sock.fileno())),
        sockets=(sock.fileno(),),
        stop_seconds=API_STOP_SECONDS,
    )
    specs = [api, *(build_worker_spec(settings, number + 1) for number in range(workers))]
    # Outside prod, status lists name the address of this API unless BPC_PUBLIC_URL does.
    port = {PORT_VARIABLE: str(sock.getsockname()[1])}
    return [replace(spec, variables=port) for spec in specs]


async def _wait_until_stopping(group: ProcessGroup, settings: Settings) -> None:
    """Return when everything has to stop. Raises if the data folder is gone."""
    layout = Layout(settings.data_dir.resolve())
    while not await group.wait_until_stopping(DATA_CHECK_SECONDS):
        if settings.database_dsn is None and not layout.users_lock.exists():
            raise DatabaseUnavailable(
                f"the data folder `{settings.data_dir}` was deleted or moved while bpc was using it",
                fix="put it back, or restore a backup, and start bpc again",
            )


async def _write_link(database: Database, settings: Settings, seed_result: SeedResult, url: str) -> str | None:
    """A link that signs in to the console; none in prod."""
    if settings.env == "prod" or seed_result.api_key is None:
        return None
    return await write_first_link(database, settings, seed_result.api_key, url)


def _print_addresses(settings: Settings, url: str, seed_result: SeedResult, link: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "url": url,
                "api_key": seed_result.api_key,
                "tenant_id": seed_result.tenant_id,
                "data_dir": settings.data_dir,
                "console": link,
            }
        )
        return
    print_line("bpc is up", colour="green", bold=True)
    print_line(f"  API            {url}")
    print_line(f"  documentation  {url}{DOCUMENTATION_PATH}")
    if link is not None:
        print_line(f"  console        {link}")
        print_line("                 signs in once, within ten minutes; `bpc console link` makes another")
    print_line(f"  data           {settings.data_dir}")
    if seed_result.tenant_id:
        print_line(f"  tenant         {DEV_TENANT} ({seed_result.tenant_id})")
        print_line(f"  API key        {seed_result.api_key or TENANT_DEACTIVATED}")
    else:
        print_line("  next           `bpc tenants create SLUG`, then `bpc apikeys create --tenant SLUG --role Admin`")
    if seed_result.api_key:
        print_line("\nCommands on this machine find it by themselves. For curl, and for programs of your own:\n")
        print_line(f"export BPC_URL={url}")
        print_line(f"export BPC_API_KEY={seed_result.api_key}\n")
    print_line("press Ctrl-C to stop")
