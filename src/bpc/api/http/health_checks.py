"""Readiness checks of this process, and metrics of the whole installation.

    database      it answers a statement           else not ready
    migrations    the tables are this build's      else not ready
    writes        it takes writes, on disk         else not ready, but reads are
    clock         ours is the database's           else not ready
    queue         RabbitMQ takes connections       else not ready, but only with BPC_HEALTH_REQUIRE_QUEUE
    workers       one reported recently            never decides: jobs wait, requests are answered

Everybody may call these routes, so a report is kept for a second, and each check ends after two. The checks use their
own connection: a busy pool must not take the process out of service.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal, LiteralString, TypeVar
from urllib.parse import urlsplit

import asyncpg
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from service_jobs import queries, schedules
from service_jobs.queries import QueueHealth
from service_jobs.schedules import StoredSchedule

from bpc import __version__
from bpc.api.http.request_context import KeptValue, Service
from bpc.core.errors import Refusal
from bpc.runtime.logs import get_logger
from bpc.runtime.postgres.cluster import Layout
from bpc.runtime.settings import Settings
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.backup import read_last_backup
from bpc.storage.connection import SYSTEM_ROLE, Connection, connect
from bpc.storage.error_mapping import DRIVER_ERRORS
from bpc.storage.migrate import list_migrations, require_current_schema
from bpc.storage.server_time import require_agreeing_clock

CHECK_SECONDS: Final = 2.0
REPORT_KEPT_SECONDS: Final = 1.0
MIGRATIONS_KEPT_SECONDS: Final = 10.0
SESSION: Final = {"role": SYSTEM_ROLE, "search_path": "public", "application_name": "bpc ready", "timezone": "UTC"}
load_migrations = cache(list_migrations)
WRITES_KEPT_SECONDS: Final = 1.0  # not longer than a report: who cannot write is not ready at once
# A lock on a row is written to the table and its log; a standby and a read-only database refuse it.
WRITE_ROW: Final[LiteralString] = "SELECT FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE SKIP LOCKED"
# More than fits into the memory for it: this writes 2 MB to a temporary file on the disk of the tables.
WRITE_FILE: Final[LiteralString] = "SELECT count(*) FROM generate_series(1, 100000)"
T = TypeVar("T")
log = get_logger(__name__)

CheckState = Literal["OK", "FAILED", "OFF", "NONE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The results of the checks."""

    database: CheckState
    migrations: CheckState
    queue: CheckState
    workers: CheckState
    jobs: QueueHealth | None
    needs_queue: bool
    writes: CheckState = "OK"
    clock: CheckState = "OK"

    @property
    def error_code(self) -> str | None:
        """The error code of the most important failure; None if the process is ready."""
        if self.reads_error_code is not None:
            return self.reads_error_code
        if self.writes == "FAILED":
            return "DB_UNAVAILABLE"
        return "QUEUE_UNAVAILABLE" if self.queue == "FAILED" and self.needs_queue else None

    @property
    def reads_error_code(self) -> str | None:
        """The same for requests that only read."""
        if self.database == "FAILED" or self.jobs is None or self.migrations == "FAILED":
            return "DB_UNAVAILABLE"
        return "CLOCK_DIFFERS" if self.clock == "FAILED" else None


class ReadinessChecker:
    """The checks of one process. Concurrent callers get the same report."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._report = KeptValue[ReadinessReport]()
        self._migrated_at: float | None = None
        self._written_at: float | None = None

    async def check(self) -> ReadinessReport:
        return await self._report.get(self._run_checks, REPORT_KEPT_SECONDS)

    async def _run_checks(self) -> ReadinessReport:
        queue, (database, migrations, jobs, writes, clock) = await asyncio.gather(
            self._check_queue(), self._check_database()
        )
        return ReadinessReport(
            database=database,
            migrations=migrations,
            queue=queue,
            workers="OK" if jobs is not None and jobs.workers else "NONE",
            jobs=jobs,
            needs_queue=self._service.settings.health_require_queue,
            writes=writes,
            clock=clock,
        )

    async def _check_database(self) -> tuple[CheckState, CheckState, QueueHealth | None, CheckState, CheckState]:
        """Check the database, its tables and its jobs, one after the other on one connection."""
        conn = await _try_check("database", self._connect())
        if conn is None:
            return "FAILED", "FAILED", None, "FAILED", "FAILED"
        try:
            answers = await _try_check("database", conn.fetchval("SELECT true"))
            is_migrated = await _try_check("migrations", self._is_migrated(conn))
            jobs = await _try_check("jobs", queries.get_health(conn))
            writes = await _try_check("writes", self._is_writing(conn))
            agrees = await _try_check("clock", require_agreeing_clock(conn))
            return _to_state(answers), _to_state(is_migrated), jobs, _to_state(writes), _to_state(agrees)
        finally:
            with suppress(*DRIVER_ERRORS, OSError):
                await conn.close(timeout=CHECK_SECONDS)

    async def _connect(self) -> "asyncpg.Connection[asyncpg.Record]":
        arguments = self._service.database.address.connect_arguments() | {"server_settings": SESSION}
        try:
            return await connect(**arguments)
        except OSError:
            async with self._service.database.plain():  # starts an embedded server again if it stopped
                return await connect(**arguments)

    async def _is_migrated(self, conn: Connection) -> bool:
        now = time.monotonic()
        if self._migrated_at is None or now - self._migrated_at >= MIGRATIONS_KEPT_SECONDS:
            await require_current_schema(conn, load_migrations())
            self._migrated_at = now
        return True

    async def _is_writing(self, conn: Connection) -> bool:
        now = time.monotonic()
        if self._written_at is None or now - self._written_at >= WRITES_KEPT_SECONDS:
            async with conn.transaction():
                await conn.execute(WRITE_ROW, SYSTEM_TENANT)
                await conn.execute("SET LOCAL work_mem = '64kB'")
                await conn.execute(WRITE_FILE)
            self._written_at = now
        return True

    async def _check_queue(self) -> CheckState:
        if not self._service.settings.queue_enabled:
            return "OFF"
        return _to_state(await _try_check("queue", self._connect_queue()))

    async def _connect_queue(self) -> bool:
        broker = urlsplit(self._service.settings.queue_url.get_secret_value())
        port = broker.port or (5671 if broker.scheme == "amqps" else 5672)
        _, writer = await asyncio.open_connection(broker.hostname, port)
        writer.close()
        return True


async def _try_check(name: str, check: Awaitable[T]) -> T | None:
    """Return the result of a check; None if it fails or takes too long."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except Exception as error:  # noqa: BLE001 (any failure means: not ready)
        log.warning("not ready", check=name, reason=f"{type(error).__name__}: {error}"[:500])
        return None


def _to_state(result: object) -> CheckState:
    return "OK" if result else "FAILED"


LOOK_SECONDS: Final = 2.0
SCHEDULES_KEPT_SECONDS: Final = 30.0  # schedules change once a night


class InstallationMetrics:
    """Metrics that belong to the installation, not to one process; read when metrics are requested."""

    def __init__(self, service: Service, readiness: ReadinessChecker) -> None:
        self._service = service
        self._readiness = readiness
        self._schedules = KeptValue[Sequence[StoredSchedule]]()
        self._disks: asyncio.Future[list[Metric]] | None = None
        self._disks_until = 0.0

    async def render(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        settings = self._service.settings
        report = await self._readiness.check()
        schedule_rows: Sequence[StoredSchedule] = ()
        if report.database == "OK":
            schedule_rows = await self._schedules.get(self._load_schedules, SCHEDULES_KEPT_SECONDS)
        metrics = build_metrics(settings.compiler_build_id, report, schedule_rows)
        return generate_latest(_MetricFamilies([*metrics, *await self._measure_disks()]))

    async def _load_schedules(self) -> Sequence[StoredSchedule]:
        """Return the schedules; none after a failure, which is kept: a slow database is not asked at every call."""
        try:
            async with asyncio.timeout(LOOK_SECONDS), self._service.database.system(SYSTEM_TENANT) as conn:
                return await schedules.list_schedules(conn, SYSTEM_TENANT)
        except (*DRIVER_ERRORS, Refusal, OSError, TimeoutError):
            return ()

    async def _measure_disks(self) -> list[Metric]:
        """Measure the disks. A network disk may hang; its metrics are left out while it does."""
        if self._disks is None or self._disks.done():
            self._disks = _start_in_thread(partial(build_disk_metrics, self._service.settings))
            self._disks_until = time.monotonic() + LOOK_SECONDS
        look = self._disks
        await asyncio.wait({look}, timeout=max(0.0, self._disks_until - time.monotonic()))
        return look.result() if look.done() else []


def _start_in_thread(look: Callable[[], T]) -> "asyncio.Future[T]":
    """Run `look` in its own daemon thread: the loop's threads are for others, and shutdown must not wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(look())
        except Exception as error:  # noqa: BLE001 (the waiting caller gets it)
            future.set_exception(error)

    threading.Thread(target=run, name="disks", daemon=True).start()
    return asyncio.wrap_future(future)


def build_metrics(build: str, report: ReadinessReport, schedule_rows: Sequence[StoredSchedule]) -> list[Metric]:
    """Build the metrics of the checks and schedules."""
    about = {"component": "api", "version": __version__, "build": build}
    build_info = InfoMetricFamily("bpc_build", "The build of this process.", about)
    return [
        build_info,
        _build_ready_metric(report),
        *_build_job_metrics(report.jobs),
        *_build_schedule_metrics(schedule_rows),
    ]


def _build_ready_metric(report: ReadinessReport) -> Metric:
    family = GaugeMetricFamily(
        "bpc_ready", "1 if the check passes: what this process needs is available.", labels=["check"]
    )
    states = {
        "database": report.database,
        "migrations": report.migrations,
        "queue": report.queue,
        "writes": report.writes,
        "clock": report.clock,
    }
    for check, state in states.items():
        if state != "OFF":
            family.add_metric([check], state == "OK")
    return family


def _build_job_metrics(jobs: QueueHealth | None) -> list[Metric]:
    if jobs is None:
        return []
    return [
        GaugeMetricFamily("bpc_workers", "Workers that reported recently.", jobs.workers),
        GaugeMetricFamily("bpc_jobs_due", "Jobs that could run now; 100,000 stands for more.", jobs.depth),
        GaugeMetricFamily("bpc_jobs_stale", "Jobs that run on a worker that no longer reports.", jobs.stale),
        GaugeMetricFamily(
            "bpc_jobs_unhandled", "Jobs of types that no running worker handles.", sum(jobs.unhandled.values())
        ),
        GaugeMetricFamily(
            "bpc_job_oldest_due_seconds", "Waiting time of the oldest job that could run.", jobs.oldest_seconds or 0
        ),
    ]


def _build_schedule_metrics(schedule_rows: Sequence[StoredSchedule]) -> list[Metric]:
    last = GaugeMetricFamily(
        "bpc_schedule_last_timestamp_seconds", "When the schedule last submitted a job.", labels=["schedule"]
    )
    coming = GaugeMetricFamily(
        "bpc_schedule_next_timestamp_seconds", "When the schedule is due next.", labels=["schedule"]
    )
    for row in schedule_rows:
        coming.add_metric([row.schedule.name], row.next_at.timestamp())
        if row.last_at is not None:
            last.add_metric([row.schedule.name], row.last_at.timestamp())
    return [last, coming]


def build_disk_metrics(settings: Settings) -> list[Metric]:
    """Build the metrics of the disks and of the last backup."""
    free = GaugeMetricFamily("bpc_disk_free_bytes", "Free bytes.", labels=["folder"])
    size = GaugeMetricFamily("bpc_disk_size_bytes", "Size in bytes.", labels=["folder"])
    for name, folder in _list_folders(settings):
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        free.add_metric([name], usage.free)
        size.add_metric([name], usage.total)
    backup = read_last_backup(settings.data_dir)
    last_backup = GaugeMetricFamily("bpc_last_backup_timestamp_seconds", "When `bpc backup` last made a backup here.")
    if backup is not None:
        last_backup.add_metric([], backup.timestamp())
    return [free, size, last_backup]


def _list_folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the data directory and the folder of the embedded server's tables, which may be on another disk."""
    yield "data", settings.data_dir
    if settings.database_dsn is None:
        try:
            yield "database", Layout(settings.data_dir).find_cluster_folder()
        except (Refusal, OSError):
            return


class _MetricFamilies(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families
