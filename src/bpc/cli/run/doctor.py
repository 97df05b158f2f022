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
from contextlib import nullcontext
from dataclasses import asdict
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import typer

from bpc.cli.run.doctor_service import (
    CheckStatus,
    HealthCheck,
    check_api,
    check_backup_age,
    check_certificates,
    check_log,
    check_signer,
    check_workers,
)
from bpc.cli.run.doctor_sign_in import check_providers
from bpc.cli.support.output import REFUSED, AsJson, find_fix, print_json, print_line
from bpc.cli.support.session import (
    CURRENT_PEPPER,
    OTHER_PEPPER,
    PREVIOUS_PEPPER,
    UNKNOWN_PEPPER,
    has_database,
    load_peppers,
    load_settings_and_logs,
    load_signing_key,
    name_pepper,
    name_peppers,
)
from bpc.core.audit.signing import derive_public_key, to_base64
from bpc.core.errors import Refusal
from bpc.runtime import clock
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.data_dir import has_signing_key, locate_key_file
from bpc.runtime.settings.production import find_production_risks
from bpc.storage.access import api_keys
from bpc.storage.access.api_keys import PepperUsage
from bpc.storage.audit import signing_keys
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, Connection, list_missing_statements, open_connection
from bpc.storage.database import (
    begin_transaction,
    has_function,
    has_table,
    locate_database,
    read_server_time,
    read_server_version,
    require_server_version,
)
from bpc.storage.migrate import SchemaState, compare_schema, list_migrations

MIN_FREE_BYTES: Final = 200_000_000
ENOUGH_FREE_BYTES: Final = 2_000_000_000
CLOCK_TOLERANCE: Final = 5
AMQP_GREETING: Final = b"AMQP\x00\x00\x09\x01"
AMQP_METHOD_FRAME: Final = b"\x01"
PLAIN_PORT, TLS_PORT = 5672, 5671
MAX_TENANTS_NAMED: Final = 5
PEPPER_MISSING: Final = "their hashes were made with a pepper (the secret mixed into key hashes) that is not set"
REHASH_HINT: Final = "a key is rehashed when it is used; `bpc apikeys list` shows the rest: revoke unused ones"


async def examine_installation(as_json: AsJson = False) -> None:
    """Check this installation for problems.

    Checks Python, settings, disk, keys, database, roles, migrations, API keys, clock, workers, sign-in, signer, API,
    the age of the last backup, certificates and RabbitMQ, and says what to do about each problem. Changes nothing.
    Exits 1 if something fails; warnings and skipped checks do not count as failures.
    """
    checks = await _examine()
    healthy = all(check.health != "fail" for check in checks)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print_checks(checks)
    if not healthy:
        raise typer.Exit(REFUSED)


async def _examine() -> list[HealthCheck]:
    python = HealthCheck("python", "ok", f"{platform.python_version()} at {sys.executable}")
    try:
        settings = load_settings_and_logs("doctor")
    except ConfigMissing as refusal:
        return [python, HealthCheck("settings", "fail", refusal.says, find_fix(refusal))]
    return [
        python,
        HealthCheck("settings", "ok", f"BPC_ENV={settings.env}"),
        *(HealthCheck("settings", "warn", warning) for warning in settings.warnings),
        *(
            HealthCheck("settings", "fail", risk.sentence, "prod does not start the service like this")
            for risk in find_production_risks(settings)
        ),
        _check_disk(settings),
        _check_keys(settings),
        *[check async for check in _check_database(settings)],
        *[check async for check in check_providers(settings)],
        await check_signer(settings),
        await asyncio.to_thread(check_api, settings),
        check_backup_age(settings),
        *await asyncio.to_thread(lambda: list(check_certificates(settings))),
        await asyncio.to_thread(_check_rabbitmq, settings),
    ]


def _check_disk(settings: Settings) -> HealthCheck:
    folder = next(path for path in (settings.data_dir, *settings.data_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    says = f"{free // 1_000_000:,} MB free in {folder}"
    if not os.access(folder, os.W_OK):
        return HealthCheck("disk", "fail", f"{folder} cannot be written to", "choose another one with BPC_DATA_DIR")
    if free < MIN_FREE_BYTES:
        return HealthCheck("disk", "fail", says, "free some space, or move the data with BPC_DATA_DIR")
    if free < ENOUGH_FREE_BYTES:
        return HealthCheck("disk", "warn", says, "free some space soon")
    return HealthCheck("disk", "ok", says)


def _check_keys(settings: Settings) -> HealthCheck:
    secrets = {
        "signing.key": settings.signing_ed25519_private_key_base64,
        "pepper.key": settings.api_key_pepper_base64,
    }
    try:
        # Loading a missing key would create it.
        named_file = locate_key_file(settings, settings.signing_key_id)
        if named_file is not None and named_file.exists():
            del secrets["signing.key"]
        if any(secret is None and not (settings.data_dir / "keys" / file).exists() for file, secret in secrets.items()):
            return HealthCheck("keys", "skip", "not created yet; `bpc up` creates them")
        public = to_base64(derive_public_key(load_signing_key(settings)))
        load_peppers(settings)
    except (Refusal, ConfigMissing) as refusal:
        return HealthCheck("keys", "fail", refusal.says, find_fix(refusal))
    except PermissionError as error:
        return HealthCheck("keys", "fail", f"`{error.filename}` cannot be read by this user", "run as its owner")
    return HealthCheck("keys", "ok", f"signing key `{settings.signing_key_id}`, public half {public}; pepper present")


async def _check_database(settings: Settings) -> AsyncIterator[HealthCheck]:
    try:
        if not has_database(settings):
            yield HealthCheck("database", "skip", "the embedded database does not exist yet; `bpc up` creates it")
            return
        async with locate_database(settings, read_only=True) as place, open_connection(place.address) as conn:
            await require_server_version(conn)
            version = await read_server_version(conn)
            kind = "embedded" if place.server else "external"
            yield HealthCheck("database", "ok", f"PostgreSQL {version}, {kind}, {place.address}")
            yield await _check_roles(conn)
            migrations = await _check_migrations(conn)
            yield migrations
            yield await _check_registered_key(conn, settings, is_current=migrations.health != "fail")
            yield await _check_api_keys(conn, settings)
            yield await _check_clock(conn)
            yield await check_workers(conn)
            yield await check_log(conn, settings)
    except (Refusal, ConfigMissing) as refusal:
        yield HealthCheck("database", "fail", refusal.says, find_fix(refusal))
    except asyncpg.PostgresError as error:
        yield HealthCheck("database", "fail", str(error), "see the server's log")


async def _check_roles(conn: Connection) -> HealthCheck:
    async with conn.transaction():
        statements = await list_missing_statements(conn)
    if not statements:
        return HealthCheck("roles", "ok", "bpc_owner, bpc_app and bpc_system are set up")
    sql = "\n".join(f"    {statement};" for statement in statements)
    return HealthCheck("roles", "fail", "roles or rights are missing", f"`bpc migrate`, or as an administrator:\n{sql}")


async def _check_migrations(conn: Connection) -> HealthCheck:
    try:
        comparison = await compare_schema(conn, list_migrations())
    except Refusal as refusal:
        return HealthCheck("migrations", "fail", refusal.says, find_fix(refusal))
    if comparison.state is SchemaState.BEHIND:
        return HealthCheck("migrations", "fail", f"{len(comparison.pending)} pending", "run `bpc migrate`")
    if comparison.state is SchemaState.AHEAD:
        names = ", ".join(comparison.unknown)
        return HealthCheck("migrations", "warn", f"the database is newer than this build: {names}", "upgrade bpc")
    return HealthCheck("migrations", "ok", "current")


async def _check_registered_key(conn: Connection, settings: Settings, *, is_current: bool) -> HealthCheck:
    if not is_current or not await has_table(conn, "signing_keys"):
        return HealthCheck("signing key", "skip", "not checked before the migrations are applied")
    async with begin_transaction(conn, APP_ROLE):
        public_key = await signing_keys.find_public_key(conn, settings.signing_key_id)
        is_retired = await signing_keys.find_key_that_signs(conn, settings.signing_key_id) is None
    if public_key is None:
        says = f"`{settings.signing_key_id}` is not registered yet; `bpc seed` registers it"
        return HealthCheck("signing key", "skip", says)
    if is_retired:
        says = f"`{settings.signing_key_id}` is retired: nothing can be signed"
        fix = "set BPC_SIGNING_KEY_ID to another key; `bpc keys list` shows them"
        return HealthCheck("signing key", "fail", says, fix)
    if not has_signing_key(settings):
        refusal = signing_keys.PrivateKeyMissing(settings.signing_key_id)
        return HealthCheck("signing key", "fail", refusal.says, find_fix(refusal))
    if _check_keys(settings).health == "ok" and public_key != derive_public_key(load_signing_key(settings)):
        key_refusal = signing_keys.SigningKeyDiffers(settings.signing_key_id)
        return HealthCheck("signing key", "fail", key_refusal.says, find_fix(key_refusal))
    return HealthCheck("signing key", "ok", f"`{settings.signing_key_id}` matches the registered key")


async def _check_api_keys(conn: Connection, settings: Settings) -> HealthCheck:
    """Whether every valid key uses a configured pepper, and whether the previous pepper is still needed."""
    if not await has_function(conn, "api_keys_by_pepper()"):
        return HealthCheck("API keys", "skip", "this database does not store yet which pepper each key uses")
    async with begin_transaction(conn, SYSTEM_ROLE):
        key_counts = await api_keys.count_keys_by_pepper(conn)
    try:
        return _judge_peppers(
            key_counts, name_peppers(settings), replacing=settings.api_key_pepper_previous_base64 is not None
        )
    except ConfigMissing as refusal:
        return HealthCheck("API keys", "skip", refusal.says)


def _judge_peppers(key_counts: Sequence[PepperUsage], names: Mapping[str, str], *, replacing: bool) -> HealthCheck:
    count: Counter[str] = Counter()
    for entry in key_counts:
        count[name_pepper(names, entry.pepper_id)] += entry.keys
    if CURRENT_PEPPER not in names.values():
        says = f"{count.total()} valid; no pepper is configured, so they were not checked"
        return HealthCheck("API keys", "skip", says)
    if count[OTHER_PEPPER]:
        tenants = _name_tenants(key_counts, names, OTHER_PEPPER)
        says = f"{count[OTHER_PEPPER]} of {count.total()} valid keys are refused, {tenants}: {PEPPER_MISSING}"
        return HealthCheck("API keys", "fail", says, "set BPC_API_KEY_PEPPER_PREVIOUS_BASE64 to it, or revoke them")
    left = count[PREVIOUS_PEPPER] + count[UNKNOWN_PEPPER]
    if replacing and left:
        says = f"{left} of {count.total()} valid keys may need the previous pepper, "
        says += _name_tenants(key_counts, names, PREVIOUS_PEPPER, UNKNOWN_PEPPER)
        return HealthCheck("API keys", "warn", says, REHASH_HINT)
    if replacing:
        says = f"all {count.total()} valid keys no longer need the previous pepper"
        return HealthCheck("API keys", "ok", f"{says}; you can unset BPC_API_KEY_PEPPER_PREVIOUS_BASE64")
    return HealthCheck("API keys", "ok", f"{count.total()} valid, all use a configured pepper")


def _name_tenants(key_counts: Sequence[PepperUsage], names: Mapping[str, str], *pepper_names: str) -> str:
    """Some of the tenants that own these keys."""
    slugs = sorted({entry.slug for entry in key_counts if name_pepper(names, entry.pepper_id) in pepper_names})
    more = ", …" if len(slugs) > MAX_TENANTS_NAMED else ""
    return f"of {', '.join(f'`{slug}`' for slug in slugs[:MAX_TENANTS_NAMED])}{more}"


async def _check_clock(conn: Connection) -> HealthCheck:
    difference = abs((await read_server_time(conn) - clock.system_now()).total_seconds())
    if difference > CLOCK_TOLERANCE:
        says = f"this machine and the database are {difference:.0f} s apart"
        return HealthCheck("clock", "fail", says, "synchronise both with NTP")
    return HealthCheck("clock", "ok", f"{clock.now():%Y-%m-%d %H:%M:%S} UTC, same as the database")


def _check_rabbitmq(settings: Settings) -> HealthCheck:
    if not settings.queue_enabled:
        return HealthCheck("rabbitmq", "skip", "not used (BPC_QUEUE_ENABLED=false); workers poll")
    parts = urlsplit(settings.queue_url.get_secret_value())
    tls = parts.scheme == "amqps"
    host, port = parts.hostname or "localhost", parts.port or (TLS_PORT if tls else PLAIN_PORT)
    try:
        answer = _read_amqp_greeting(host, port, tls=tls)
    except OSError as error:
        why = error.strerror or str(error)
        return HealthCheck("rabbitmq", "fail", f"{host}:{port}: {why}", "start it, or check BPC_QUEUE_URL")
    if answer != AMQP_METHOD_FRAME:
        return HealthCheck("rabbitmq", "fail", f"{host}:{port} does not speak AMQP", "check BPC_QUEUE_URL")
    return HealthCheck("rabbitmq", "ok", f"answers on {host}:{port}")


def _read_amqp_greeting(host: str, port: int, *, tls: bool) -> bytes:
    """The first byte a broker answers to AMQP 0-9-1's greeting: the type of the frame Connection.Start."""
    with socket.create_connection((host, port), timeout=3) as plain:
        connection = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=host) if tls else nullcontext(plain)
        )
        with connection as broker:
            broker.sendall(AMQP_GREETING)
            return broker.recv(1)


def _print_checks(checks: Sequence[HealthCheck]) -> None:
    colours: Mapping[CheckStatus, str] = {"ok": "green", "warn": "yellow", "fail": "red"}
    for check in checks:
        print_line(f"{check.health:>4}", colour=colours.get(check.health), bold=check.health == "fail", end="  ")
        print_line(f"{check.check:<11} {check.says}")
        if check.fix:
            print_line(f"                  fix: {check.fix}")
