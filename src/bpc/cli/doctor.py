"""`bpc doctor`: what is wrong with this installation, and what to do about each thing.

It changes nothing: a database that does not exist yet is reported, not created.
"""

import asyncio
import os
import platform
import shutil
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import typer

from bpc import fresh
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.peppers import ANOTHER, CURRENT, PREVIOUS, UNKNOWN, named, names_of, peppers_of
from bpc.cli.session import has_database, settings_for, signing_key
from bpc.core.errors import Refusal
from bpc.core.signing import public_key_of, to_base64
from bpc.db import apikeys, signing_keys
from bpc.db.apikeys import Hanging
from bpc.db.connection import Connection, connected
from bpc.db.migrate import State, compare, our_migrations
from bpc.db.opening import placed, require_version
from bpc.db.roles import APP, SYSTEM, missing_statements
from bpc.settings import ConfigMissing, Settings, key_file, signing_is_at_hand

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LEAST_DISK: Final = 200_000_000
ENOUGH_DISK: Final = 2_000_000_000
CLOCK_TOLERANCE: Final = 5
AMQP_GREETING: Final = b"AMQP\x00\x00\x09\x01"
AMQP_METHOD_FRAME: Final = b"\x01"
PLAIN_PORT, TLS_PORT = 5672, 5671
MOST_NAMED: Final = 5
LOST: Final = "their hashes were made with a pepper that is not set"
STILL: Final = "each is hashed again when it is used; `bpc apikey list` shows them: revoke those nobody uses"


class Health(Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    health: Health
    says: str
    fix: str | None = None


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Find out what is wrong with this installation.

    Checks Python, settings, disk, keys, database, roles, migrations, API keys, clock and RabbitMQ, and says what to do
    about each problem. Changes nothing. Exits 1 if something fails; a warning or a skipped check is no failure.
    """
    findings = asyncio.run(_examine())
    if as_json:
        healthy = all(finding.health is not Health.FAIL for finding in findings)
        listed = [{**asdict(finding), "health": finding.health.value} for finding in findings]
        print_json({"ok": healthy, "checks": listed})
    else:
        _print(findings)
    if any(finding.health is Health.FAIL for finding in findings):
        raise typer.Exit(REFUSED)


async def _examine() -> list[Finding]:
    findings = [_python()]
    try:
        settings = settings_for("doctor")
    except ConfigMissing as refused:
        return [*findings, Finding("settings", Health.FAIL, refused.says, refused.fix)]
    findings.append(Finding("settings", Health.OK, f"BPC_ENV={settings.env}"))
    findings += [Finding("settings", Health.WARN, warning) for warning in settings.warnings]
    findings += [_disk(settings), _keys(settings)]
    findings += [finding async for finding in _database(settings)]
    return [*findings, await asyncio.to_thread(_rabbitmq, settings)]


def _python() -> Finding:
    return Finding("python", Health.OK, f"{platform.python_version()} at {sys.executable}")


def _disk(settings: Settings) -> Finding:
    folder = next(path for path in (settings.data_dir, *settings.data_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    says = f"{free // 1_000_000:,} MB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("disk", Health.FAIL, f"{folder} cannot be written to", "choose another one with BPC_DATA_DIR")
    if free < LEAST_DISK:
        return Finding("disk", Health.FAIL, says, "make room, or move the data with BPC_DATA_DIR")
    if free < ENOUGH_DISK:
        return Finding("disk", Health.WARN, says, "make room before it runs out")
    return Finding("disk", Health.OK, says)


def _keys(settings: Settings) -> Finding:
    kept = {
        "signing.key": settings.signing_ed25519_private_key_base64,
        "pepper.key": settings.api_key_pepper_base64,
    }
    try:
        # Asking for one that is not there would make it.
        named = key_file(settings, settings.signing_key_id)
        if named is not None and named.exists():
            del kept["signing.key"]
        if any(given is None and not (settings.data_dir / "keys" / file).exists() for file, given in kept.items()):
            return Finding("keys", Health.SKIP, "not made yet; `bpc up` makes them for trying things out")
        public = to_base64(public_key_of(signing_key(settings)))
        peppers_of(settings)
    except (Refusal, ConfigMissing) as refused:
        return Finding("keys", Health.FAIL, refused.says, refused.fix)
    except PermissionError as denied:
        return Finding("keys", Health.FAIL, f"`{denied.filename}` is not yours to read", "run as its owner")
    return Finding("keys", Health.OK, f"signing key `{settings.signing_key_id}`, public half {public}; pepper present")


async def _database(settings: Settings) -> AsyncIterator[Finding]:
    try:
        if not has_database(settings):
            yield Finding("database", Health.SKIP, "the embedded one is not created yet; `bpc up` does it")
            return
        async with placed(settings, look_only=True) as place, connected(place.address) as conn:
            await require_version(conn)
            version = await conn.fetchval("SELECT current_setting('server_version')")
            kind = "embedded" if place.server else "external"
            yield Finding("database", Health.OK, f"PostgreSQL {version}, {kind}, {place.address}")
            yield await _roles(conn)
            yield await _migrations(conn)
            yield await _registered_key(conn, settings)
            yield await _hashes(conn, settings)
            yield await _clock(conn)
    except (Refusal, ConfigMissing) as refused:
        yield Finding("database", Health.FAIL, refused.says, refused.fix)
    except asyncpg.PostgresError as said:
        yield Finding("database", Health.FAIL, str(said), "see the server's log")


async def _roles(conn: Connection) -> Finding:
    async with conn.transaction():
        statements = await missing_statements(conn)
    if not statements:
        return Finding("roles", Health.OK, "bpc_owner, bpc_app and bpc_system are set up")
    sql = "\n".join(f"    {statement};" for statement in statements)
    return Finding(
        "roles", Health.FAIL, "roles or rights are missing", f"`bpc migrate`, or as an administrator:\n{sql}"
    )


async def _migrations(conn: Connection) -> Finding:
    try:
        found = await compare(conn, our_migrations())
    except Refusal as refused:
        return Finding("migrations", Health.FAIL, refused.says, refused.fix)
    if found.state is State.BEHIND:
        return Finding("migrations", Health.FAIL, f"{len(found.pending)} pending", "run `bpc migrate`")
    if found.state is State.AHEAD:
        names = ", ".join(found.unknown)
        return Finding("migrations", Health.WARN, f"the database is newer than this build: {names}", "upgrade bpc")
    return Finding("migrations", Health.OK, "current")


async def _registered_key(conn: Connection, settings: Settings) -> Finding:
    if not await conn.fetchval("SELECT to_regclass('public.signing_keys') IS NOT NULL"):
        return Finding("signing key", Health.SKIP, "there is no table of them yet")
    async with conn.transaction():
        await conn.execute(f"SET LOCAL ROLE {APP}")
        registered = await signing_keys.public_key(conn, settings.signing_key_id)
        retired = await signing_keys.to_sign_with(conn, settings.signing_key_id) is None
    if registered is None:
        says = f"`{settings.signing_key_id}` is not on record yet; `bpc seed` does it"
        return Finding("signing key", Health.SKIP, says)
    if retired:
        says = f"`{settings.signing_key_id}` is retired: nothing can be signed"
        return Finding("signing key", Health.FAIL, says, "set BPC_SIGNING_KEY_ID to another; `bpc keys list`")
    if not signing_is_at_hand(settings):
        lost = signing_keys.SigningKeyLost(settings.signing_key_id)
        return Finding("signing key", Health.FAIL, lost.says, lost.fix)
    if _keys(settings).health is Health.OK and registered != public_key_of(signing_key(settings)):
        refused = signing_keys.SigningKeyDiffers(settings.signing_key_id)
        return Finding("signing key", Health.FAIL, refused.says, refused.fix)
    return Finding("signing key", Health.OK, f"`{settings.signing_key_id}` is the one on record")


async def _hashes(conn: Connection, settings: Settings) -> Finding:
    """Whether every key that is valid hangs on a pepper that is at hand, and whether the one before is still needed."""
    if not await conn.fetchval("SELECT to_regprocedure('public.api_keys_by_pepper()') IS NOT NULL"):
        return Finding("API keys", Health.SKIP, "it is not on record yet which pepper each hangs on")
    async with conn.transaction():
        await conn.execute(f"SET LOCAL ROLE {SYSTEM}")
        found = await apikeys.by_pepper(conn)
    try:
        return _peppered(found, names_of(settings), replacing=settings.api_key_pepper_previous_base64 is not None)
    except ConfigMissing as refused:
        return Finding("API keys", Health.SKIP, refused.says)


def _peppered(found: Sequence[Hanging], names: Mapping[str, str], *, replacing: bool) -> Finding:
    count: Counter[str] = Counter()
    for hanging in found:
        count[named(names, hanging.pepper_id)] += hanging.keys
    if CURRENT not in names.values():
        return Finding("API keys", Health.SKIP, f"{count.total()} valid; there is no pepper here to compare them with")
    if count[ANOTHER]:
        says = f"{count[ANOTHER]} of {count.total()} valid keys are refused, {_of_whom(found, names, ANOTHER)}: {LOST}"
        return Finding("API keys", Health.FAIL, says, "set BPC_API_KEY_PEPPER_PREVIOUS_BASE64 to it, or revoke them")
    left = count[PREVIOUS] + count[UNKNOWN]
    if replacing and left:
        says = f"{left} of {count.total()} valid keys may need the previous pepper, "
        return Finding("API keys", Health.WARN, says + _of_whom(found, names, PREVIOUS, UNKNOWN), STILL)
    if replacing:
        says = f"all {count.total()} valid keys can do without the previous pepper"
        return Finding("API keys", Health.OK, f"{says}; BPC_API_KEY_PEPPER_PREVIOUS_BASE64 may go")
    return Finding("API keys", Health.OK, f"{count.total()} valid, none on a pepper that is not at hand")


def _of_whom(found: Sequence[Hanging], names: Mapping[str, str], *which: str) -> str:
    """Some of the tenants whose keys they are."""
    slugs = sorted({hanging.slug for hanging in found if named(names, hanging.pepper_id) in which})
    more = ", …" if len(slugs) > MOST_NAMED else ""
    return f"of {', '.join(f'`{slug}`' for slug in slugs[:MOST_NAMED])}{more}"


async def _clock(conn: Connection) -> Finding:
    apart = abs((await conn.fetchval("SELECT clock_timestamp()") - fresh.now()).total_seconds())
    if apart > CLOCK_TOLERANCE:
        says = f"this machine and the database are {apart:.0f} s apart"
        return Finding("clock", Health.FAIL, says, "synchronise both with NTP")
    return Finding("clock", Health.OK, f"{fresh.now():%Y-%m-%d %H:%M:%S} UTC, as the database says")


def _rabbitmq(settings: Settings) -> Finding:
    if not settings.queue_enabled:
        return Finding("rabbitmq", Health.SKIP, "not used (BPC_QUEUE_ENABLED=false); workers poll")
    parts = urlsplit(settings.queue_url.get_secret_value())
    tls = parts.scheme == "amqps"
    host, port = parts.hostname or "localhost", parts.port or (TLS_PORT if tls else PLAIN_PORT)
    try:
        answer = _greeted(host, port, tls=tls)
    except OSError as failed:
        why = failed.strerror or str(failed)
        return Finding("rabbitmq", Health.FAIL, f"{host}:{port}: {why}", "start it, or check BPC_QUEUE_URL")
    if answer != AMQP_METHOD_FRAME:
        return Finding("rabbitmq", Health.FAIL, f"{host}:{port} does not speak AMQP", "check BPC_QUEUE_URL")
    return Finding("rabbitmq", Health.OK, f"answers on {host}:{port}")


def _greeted(host: str, port: int, *, tls: bool) -> bytes:
    """The first byte a broker answers to AMQP 0-9-1's greeting: the type of the frame Connection.Start."""
    with socket.create_connection((host, port), timeout=3) as broker:
        if not tls:
            broker.sendall(AMQP_GREETING)
            return broker.recv(1)
        with ssl.create_default_context().wrap_socket(broker, server_hostname=host) as wrapped:
            wrapped.sendall(AMQP_GREETING)
            return wrapped.recv(1)


def _print(findings: list[Finding]) -> None:
    colours = {Health.OK: "green", Health.WARN: "yellow", Health.FAIL: "red", Health.SKIP: None}
    for finding in findings:
        say(f"{finding.health.value:>4}", colour=colours[finding.health], bold=finding.health is Health.FAIL, end="  ")
        say(f"{finding.check:<11} {finding.says}")
        if finding.fix:
            say(f"                  fix: {finding.fix}")
