"""What `bpc doctor` finds out about a running installation: workers, the API, the last backup and certificates."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from service_jobs import queries
from service_jobs.queries import QueueHealth

from bpc.cli.support.output import format_count
from bpc.cli.support.session import choose_address, format_url
from bpc.core.errors import Refusal
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.runtime.running_service import find_service
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.signer_client import SignerUnavailable, locate_signer, open_signer_client
from bpc.storage.backup import read_last_backup
from bpc.storage.connection import SYSTEM_ROLE, Connection
from bpc.storage.database import begin_transaction, has_table
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_bucket import open_log
from bpc.storage.tlog.log_files import LogStore

ANSWER_SECONDS: Final = 3.0
OLDEST_BACKUP: Final = timedelta(hours=36)  # as the alert BpcBackupOld
LONGEST_WAIT: Final = timedelta(minutes=10)
RENEW_BEFORE: Final = timedelta(days=30)
POSTGRES_SSL_REQUEST: Final = bytes.fromhex("0000000804d2162f")  # PostgreSQL, 55.7 Message Formats: SSLRequest
DEFAULT_PORTS: Final = {"https": 443, "amqps": 5671, "postgresql": 5432, "postgres": 5432}
READY_PATH: Final = "/v1/health/ready"

CheckStatus = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of one check."""

    check: str
    health: CheckStatus
    says: str
    fix: str | None = None


async def check_workers(conn: Connection) -> HealthCheck:
    """Whether workers report, by their heartbeats, and whether jobs wait for one."""
    if not await has_table(conn, "signing_keys"):
        return HealthCheck("workers", "skip", "the tables do not exist yet")
    async with begin_transaction(conn, SYSTEM_ROLE):
        return judge_workers(await queries.get_health(conn))


async def check_log(conn: Connection, settings: Settings) -> HealthCheck:
    """Whether the transparency log is kept: its last checkpoint, what waits for a place, and its files."""
    if not await has_table(conn, "log_state"):
        return HealthCheck("log", "skip", "the tables do not exist yet")
    async with begin_transaction(conn, SYSTEM_ROLE):
        now: datetime = await conn.fetchval("SELECT clock_timestamp()")
        signed_at: datetime | None = await conn.fetchval("SELECT max(signed_at) FROM log_checkpoints")
        size = await log_rows.count_entries(conn)
        waiting = await log_rows.count_waiting(conn)
    return await asyncio.to_thread(judge_log, size, waiting, signed_at, now, open_log(settings))


def judge_log(size: int, waiting: int, signed_at: datetime | None, now: datetime, store: LogStore) -> HealthCheck:
    if signed_at is None:
        says = f"none is kept yet, {waiting:,} entries wait for one; a worker keeps it"
        return HealthCheck("log", "skip", f"{says}, in prod with BPC_TLOG_ED25519_PRIVATE_KEY_BASE64")
    says = f"{size:,} entries, last signed {format_time(signed_at)}, {waiting:,} waiting"
    if waiting and now - signed_at > LONGEST_WAIT:
        return HealthCheck("log", "fail", says, "see the worker's log: one worker must keep the log")
    try:
        is_published = store.read_checkpoint() is not None
    except Refusal as refusal:
        return HealthCheck("log", "fail", f"{says}; {refusal.says}", "the log is in BPC_TLOG_STORE; see AWS_*")
    if not is_published:
        fix = "set BPC_TLOG_DIR or BPC_TLOG_STORE to where the workers write it; `bpc log audit` reads it"
        return HealthCheck("log", "warn", f"{says}; {store.name} has no files of it", fix)
    return HealthCheck("log", "ok", f"{says}, in {store.name}")


def judge_workers(health: QueueHealth) -> HealthCheck:
    says = f"{format_count(health.workers, 'worker')}; {format_count(health.depth, 'job')} can run now"
    if health.workers == 0 and health.depth == 0:
        return HealthCheck("workers", "skip", "none is running, and no job waits; `bpc up` and `bpc worker` start one")
    if health.workers == 0:
        return HealthCheck("workers", "fail", f"{says}, but no worker runs", "start one: `bpc worker`, or `bpc up`")
    if health.unhandled:
        types = ", ".join(sorted(health.unhandled))
        return HealthCheck("workers", "warn", f"no worker knows jobs of type {types}", "upgrade the workers")
    if health.stale:
        stale = format_count(health.stale, "running job")
        says = f"{stale} without a heartbeat of its worker"
        return HealthCheck("workers", "warn", says, "they run again by themselves; `bpc jobs stats` shows it")
    return HealthCheck("workers", "ok", says)


async def check_signer(settings: Settings) -> HealthCheck:
    """Whether the process that holds private keys answers."""
    address = locate_signer(settings)
    try:
        async with open_signer_client(settings) as client:
            health = await client.read_health()
    except SignerUnavailable as refusal:
        if settings.signer_address is None:
            return HealthCheck("signer", "skip", "none is running; `bpc up` and `bpc worker` start one")
        return HealthCheck("signer", "fail", refusal.says, "start `bpc signer`, or correct BPC_SIGNER_ADDRESS")
    except (Refusal, ConfigMissing) as refusal:
        return HealthCheck("signer", "fail", refusal.says, "name this user in BPC_SIGNER_CALLERS of the signer")
    return HealthCheck("signer", "ok", f"{address}, {health['entries']:,} lines in its record")


def check_api(settings: Settings) -> HealthCheck:
    """Whether the API answers that it is ready."""
    configured_url = os.environ.get("BPC_URL")
    running = None if settings.env == "prod" else find_service(settings.data_dir)
    url = configured_url or (running.url if running else format_url(*choose_address(settings, None, None)))
    try:
        status, body = _get(f"{url}{READY_PATH}")
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        says = f"{url} does not answer: {why}"
        if configured_url is None and running is None:
            return HealthCheck("API", "skip", f"{says}; `bpc up` and `bpc api` start it")
        # BPC_URL is for commands: it may name a service that is to be started yet.
        return HealthCheck("API", "fail" if running else "warn", says, "start it with `bpc up`, or correct BPC_URL")
    if status == 200:
        return HealthCheck("API", "ok", f"{url} is ready")
    return HealthCheck("API", "fail", f"{url} answers {status}: {_name_failures(body)}", "see its log")


def _get(url: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("it is not the address of an API")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _name_failures(body: bytes) -> str:
    try:
        checks = json.loads(body)["error"]["details"]["checks"]
        return ", ".join(name for name, state in checks.items() if state == "FAILED") or "it is not ready"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "this is not the API of bpc"


def check_backup_age(settings: Settings) -> HealthCheck:
    """When the last backup was taken, as the data folder has it."""
    taken_at, fix = read_last_backup(settings.data_dir), "`bpc backup --to DIR`, every night"
    if taken_at is None and settings.env != "prod":
        return HealthCheck("backup", "skip", "none was taken yet; `bpc backup --to DIR` takes one")
    if taken_at is None:
        return HealthCheck("backup", "warn", "none was taken from this machine", fix)
    age = clock.now() - taken_at
    says = f"the last one was taken at {format_time(taken_at)}, {_format_age(age)} ago"
    return HealthCheck("backup", "ok", says) if age <= OLDEST_BACKUP else HealthCheck("backup", "warn", says, fix)


def _format_age(age: timedelta) -> str:
    hours = int(age.total_seconds() // 3600)
    return format_count(hours, "hour") if hours < 72 else format_count(age.days, "day")


def check_certificates(settings: Settings) -> Iterator[HealthCheck]:
    """When the certificates of the servers expire that are configured with TLS."""
    servers = list(_list_tls_servers(settings))
    if not servers:
        yield HealthCheck("certificate", "skip", "no server is configured with TLS")
    for name, url, begin in servers:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or DEFAULT_PORTS[parts.scheme]
        yield _check_certificate(f"{name} {host}:{port}", host, port, begin)


BeginTls = Callable[[socket.socket], None]


def _list_tls_servers(settings: Settings) -> Iterator[tuple[str, str, BeginTls]]:
    """The name, the address, and what is said before TLS begins."""
    url = os.environ.get("BPC_URL", "")
    if url.startswith("https://"):
        yield "API", url, lambda _: None
    dsn = settings.database_dsn
    if dsn is not None and parse_qs(urlsplit(dsn.get_secret_value()).query).get("sslmode", [""])[0] in {
        "require",
        "verify-ca",
        "verify-full",
    }:
        yield "database", dsn.get_secret_value(), _request_postgres_tls
    queue = settings.queue_url.get_secret_value()
    if settings.queue_enabled and queue.startswith("amqps://"):
        yield "RabbitMQ", queue, lambda _: None


def _request_postgres_tls(plain: socket.socket) -> None:
    plain.sendall(POSTGRES_SSL_REQUEST)
    if plain.recv(1) != b"S":
        raise OSError("it does not offer TLS")


def _check_certificate(name: str, host: str, port: int, begin: BeginTls) -> HealthCheck:
    try:
        with _open_tls(host, port, begin) as secure:
            der = secure.getpeercert(binary_form=True) or b""
        expires_at = x509.load_der_x509_certificate(der).not_valid_after_utc
    except (OSError, ValueError) as error:
        says = f"{name}: {getattr(error, 'strerror', None) or error}"
        return HealthCheck("certificate", "fail", says, "check that it runs and offers TLS")
    return judge_expiry(name, expires_at, clock.now())


@contextmanager
def _open_tls(host: str, port: int, begin: BeginTls) -> Iterator[ssl.SSLSocket]:
    # Nothing is sent or trusted here: a certificate that has expired is to be read, not refused.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as plain:
        begin(plain)
        with context.wrap_socket(plain, server_hostname=host) as secure:
            yield secure


def judge_expiry(name: str, expires_at: datetime, now: datetime) -> HealthCheck:
    left = expires_at - now
    if left <= timedelta():
        says = f"{name}: expired on {expires_at:%Y-%m-%d}"
        return HealthCheck("certificate", "fail", says, "renew it")
    says = f"{name}: expires on {expires_at:%Y-%m-%d}, in {format_count(left.days, 'day')}"
    if left < RENEW_BEFORE:
        return HealthCheck("certificate", "warn", says, "renew it soon")
    return HealthCheck("certificate", "ok", says)
