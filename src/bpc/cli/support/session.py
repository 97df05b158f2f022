"""What every command with a database needs: settings, logs, the tenant, keys and peppers, addresses, bug reports."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from bpc.core.api_keys import ApiKeySecret, Peppers, Unauthorized, compute_pepper_id
from bpc.core.audit.events import Act
from bpc.core.audit.signing import Seed, parse_seed
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock, logs
from bpc.runtime.postgres.cluster import Layout
from bpc.runtime.settings import ConfigMissing, Settings, load_settings
from bpc.runtime.settings.data_dir import (
    has_pepper,
    load_next_pepper,
    load_pepper,
    load_previous_pepper,
    load_signing_seed,
)
from bpc.runtime.settings.load import PRIVATE_KEY_VARIABLES
from bpc.runtime.settings.problems import READ_MORE
from bpc.runtime.settings.production import find_production_risks
from bpc.runtime.sockets import LOOPBACK

if TYPE_CHECKING:
    from bpc.storage.access.tenants_and_actors import TenantRow
    from bpc.storage.connection import Connection
    from bpc.storage.database import Database


SERVICES: Final = frozenset({"api", "worker", "signer", "up"})  # what serves others, and so takes no risk in prod
# What holds no private key, and never reads one: it needs none in its environment.
WITHOUT_KEYS: Final = frozenset(
    {"api", "worker", "migrate", "backup", "restore", "tenant", "apikey", "jobs", "retention"}
)


def load_settings_and_logs(component: str, *, supervised: bool = False, quiet: bool = False) -> Settings:
    """Load the settings, set up logs, and log what looks like a mistake in the settings.

    A `quiet` command prints what it did, and logs it only where more than usual is asked for.
    """
    holds_keys = component not in WITHOUT_KEYS
    settings = load_settings(os.environ, cwd=Path.cwd(), holds_keys=holds_keys)
    if not holds_keys and (component == "api" or supervised or settings.signer_address is not None):
        for name in PRIVATE_KEY_VARIABLES:  # only a worker that starts a signer of its own passes them on
            os.environ.pop(name, None)
    # Several workers may log to one file: each line names the worker, as a lease does.
    constant_fields = {"worker": f"{settings.worker_id}:{os.getpid()}"} if component == "worker" else None
    logs.configure(
        level="warn" if quiet and settings.log_level == "info" else settings.log_level,
        json=settings.log_json,
        component=component,
        stream=sys.stderr,
        constant_fields=constant_fields,
    )
    for warning in () if supervised else settings.warnings:
        logs.get_logger(__name__).warning(warning)
    if component in SERVICES and (risks := find_production_risks(settings)):
        raise ConfigMissing(risks, fix=f"prod does not start like this; {READ_MORE}")
    return settings


def make_operator_act() -> Act:
    """The act of a person at the command line, who has no account in a tenant."""
    return Act(None, clock.now())


def load_signing_key(settings: Settings) -> Seed:
    """The private key this installation signs with."""
    return parse_seed(load_signing_seed(settings))


@asynccontextmanager
async def open_tenant(settings: Settings, slug: str) -> "AsyncIterator[tuple[TenantId, Connection]]":
    """Yield the id of the tenant and a connection inside a transaction that sees only this tenant."""
    from bpc.storage.access.tenants_and_actors import find_tenant  # noqa: PLC0415 (commands over the API need no driver)
    from bpc.storage.database import open_migrated_database  # noqa: PLC0415

    async with open_migrated_database(settings) as database:
        tenant_id = (await find_tenant(database, slug)).tenant_id
        async with database.tenant(tenant_id) as conn:
            yield tenant_id, conn


async def select_tenants(database: "Database", slug: str | None) -> "Sequence[TenantRow]":
    """The tenant with this slug, or all tenants."""
    from bpc.storage.access.tenants_and_actors import find_tenant, list_tenants  # noqa: PLC0415

    if slug is not None:
        return [await find_tenant(database, slug)]
    async with database.system() as conn:
        return await list_tenants(conn)


def stop_on_sigterm() -> asyncio.Event:
    """An event that SIGTERM sets, so that it stops a command in order, as Ctrl-C does."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def has_database(settings: Settings) -> bool:
    """Whether a database exists; does not create the embedded one."""
    if settings.database_dsn is not None:
        return True
    return (Layout(settings.data_dir).find_cluster_folder() / "PG_VERSION").exists()


# A pepper is the secret mixed into every stored hash of an API key. These are its names while it is replaced.
CURRENT_PEPPER, PREVIOUS_PEPPER, NEXT_PEPPER = "current", "previous", "next"
OTHER_PEPPER, UNKNOWN_PEPPER = "another", ""


def load_peppers(settings: Settings) -> Peppers:
    """All peppers of this installation; creates the current one if it does not exist."""
    return Peppers(
        in_use=load_pepper(settings), previous=load_previous_pepper(settings), next=load_next_pepper(settings)
    )


def name_peppers(settings: Settings) -> Mapping[str, str]:
    """The names of the peppers by their ids; creates none."""
    peppers = {
        PREVIOUS_PEPPER: load_previous_pepper(settings),
        NEXT_PEPPER: load_next_pepper(settings),
        CURRENT_PEPPER: load_pepper(settings) if has_pepper(settings) else None,
    }
    return {compute_pepper_id(value): name for name, value in peppers.items() if value is not None}


def name_pepper(names: Mapping[str, str], identifier: str | None) -> str:
    """The name of the pepper with this id; empty if the id is not stored."""
    return UNKNOWN_PEPPER if identifier is None else names.get(identifier, OTHER_PEPPER)


WILDCARD_HOSTS: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 (not listened on: an address to call)


def choose_address(settings: Settings, host: str | None, port: int | None) -> tuple[str, int]:
    """Where to listen: the options, or else the settings."""
    return host or settings.http_host or LOOPBACK, settings.http_port if port is None else port


def format_url(host: str, port: int) -> str:
    """The URL that reaches this address from this machine."""
    name = WILDCARD_HOSTS.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def locate_first_key(data_dir: Path) -> Path:
    """The file of the API key that `bpc seed` creates."""
    return data_dir / "keys" / "dev-api-key"


def read_first_key(data_dir: Path) -> ApiKeySecret | None:
    """The key in that file, if there is one; it may have been revoked since."""
    try:
        return ApiKeySecret.parse(locate_first_key(data_dir).read_bytes().decode().strip())
    except (OSError, UnicodeDecodeError, Unauthorized):
        return None


def log_bug(error: Exception) -> str:
    """Log the trace and return its correlation id."""
    if not structlog.is_configured():  # the bug happened before the settings were read
        logs.configure(level="info", json=None, component="cli", stream=sys.stderr)
    reference = str(clock.new_id())
    with logs.bind_correlation_id(reference):
        logs.get_logger(__name__).error("bug", exc_info=error)
    return reference
