"""What only the installation as a whole can say, looked up when somebody asks for the figures.

    the build            always
    what is ready        always: a database that is away is a 0, and no figure of it is shown as if it were still so
    jobs, workers        of all workers, also of those that nobody watches
    schedules            of the tenant `system`
    disk, last backup    of the data directory

No look takes longer than two seconds, what fails is left out, and who asks always gets the rest. Who asks at the same
moment shares one look, and while one hangs there is no second: many who ask take no more of the pool's connections,
and no more threads, than one does.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from bpc import __version__
from bpc.api.readiness import Found, Readiness
from bpc.api.service import Service
from bpc.core.errors import Refusal
from bpc.db.backup.last import noted
from bpc.db.embedded.layout import Layout
from bpc.db.failures import SAID_BY_THE_DRIVER
from bpc.db.tenants import SYSTEM_TENANT
from bpc.jobs import schedules
from bpc.jobs.health import Health
from bpc.jobs.schedules import Scheduled
from bpc.settings import Settings

LOOK_SECONDS: Final = 2.0
KEPT_SECONDS: Final = 30.0  # schedules change once a night

COMPONENT: Final = "api"
T = TypeVar("T")


class Installation:
    """The look of one process."""

    def __init__(self, service: Service, readiness: Readiness) -> None:
        self._service = service
        self._readiness = readiness
        self._lock = asyncio.Lock()
        self._schedules: Sequence[Scheduled] = ()
        self._schedules_at: float | None = None
        self._room: asyncio.Future[list[Metric]] | None = None
        self._room_until = 0.0

    async def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        settings = self._service.settings
        found = await self._readiness.look()
        planned = await self._scheduled() if found.database == "OK" else ()
        return _exposed([*described(settings.compiler_build_id, found, planned), *await self._looked_at_room()])

    async def _scheduled(self) -> Sequence[Scheduled]:
        """The schedules. That they could not be had is kept, too, or a slow database would be asked at every turn."""
        async with self._lock:
            if self._schedules_at is None or time.monotonic() - self._schedules_at > KEPT_SECONDS:
                try:
                    async with asyncio.timeout(LOOK_SECONDS), self._service.database.system(SYSTEM_TENANT) as conn:
                        self._schedules = await schedules.every(conn, SYSTEM_TENANT)
                except (*SAID_BY_THE_DRIVER, Refusal, OSError, TimeoutError):
                    self._schedules = ()
                self._schedules_at = time.monotonic()
            return self._schedules

    async def _looked_at_room(self) -> list[Metric]:
        """A disk of another machine may hang; then it is left out, for as long as it does."""
        if self._room is None or self._room.done():
            self._room = _begun(partial(room, self._service.settings))
            self._room_until = time.monotonic() + LOOK_SECONDS
        look = self._room
        await asyncio.wait({look}, timeout=max(0.0, self._room_until - time.monotonic()))
        return look.result() if look.done() else []


def _begun(look: Callable[[], T]) -> "asyncio.Future[T]":
    """What `look` finds, in a thread of its own: others need those of the loop, and nobody waits for it at the end."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(look())
        except Exception as error:  # noqa: BLE001 (whoever waits for it gets it)
            found.set_exception(error)

    threading.Thread(target=run, name="disks", daemon=True).start()
    return asyncio.wrap_future(found)


def described(build: str, found: Found, planned: Sequence[Scheduled]) -> list[Metric]:
    """What was found, as figures."""
    about = {"component": COMPONENT, "version": __version__, "build": build}
    built = InfoMetricFamily("bpc_build", "The build of this process.", about)
    return [built, _ready(found), *_jobs(found.jobs), *_planned(planned)]


def _ready(found: Found) -> Metric:
    family = GaugeMetricFamily("bpc_ready", "Whether what this process needs is there.", labels=["check"])
    states = {"database": found.database, "migrations": found.migrations, "queue": found.queue}
    for check, state in states.items():
        if state != "OFF":
            family.add_metric([check], state == "OK")
    return family


def _jobs(jobs: Health | None) -> list[Metric]:
    if jobs is None:
        return []
    return [
        GaugeMetricFamily("bpc_workers", "Workers that gave a sign of life.", jobs.workers),
        GaugeMetricFamily("bpc_jobs_due", "Jobs that could run now; 100,000 stands for more.", jobs.depth),
        GaugeMetricFamily("bpc_jobs_stale", "Jobs that run at a worker that is silent.", jobs.stale),
        GaugeMetricFamily("bpc_jobs_unhandled", "Jobs that no living worker knows.", sum(jobs.unhandled.values())),
        GaugeMetricFamily(
            "bpc_job_oldest_due_seconds",
            "How long the first of those that could run has waited.",
            jobs.oldest_seconds or 0,
        ),
    ]


def _planned(planned: Sequence[Scheduled]) -> list[Metric]:
    last = GaugeMetricFamily("bpc_schedule_last_timestamp_seconds", "When it last got a job.", labels=["schedule"])
    coming = GaugeMetricFamily("bpc_schedule_next_timestamp_seconds", "When it is due next.", labels=["schedule"])
    for each in planned:
        coming.add_metric([each.schedule.name], each.next_at.timestamp())
        if each.last_at is not None:
            last.add_metric([each.schedule.name], each.last_at.timestamp())
    return [last, coming]


def room(settings: Settings) -> list[Metric]:
    """The disks, and when they were last backed up."""
    free = GaugeMetricFamily("bpc_disk_free_bytes", "Room that is left for us.", labels=["folder"])
    size = GaugeMetricFamily("bpc_disk_size_bytes", "Room there is altogether.", labels=["folder"])
    for name, folder in _folders(settings):
        try:
            found = shutil.disk_usage(folder)
        except OSError:
            continue
        free.add_metric([name], found.free)
        size.add_metric([name], found.total)
    backup = noted(settings.data_dir)
    taken = GaugeMetricFamily("bpc_last_backup_timestamp_seconds", "When `bpc backup` last took one here.")
    if backup is not None:
        taken.add_metric([], backup.timestamp())
    return [free, size, taken]


def _folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The data directory, and the folder of the embedded server's tables, which may be elsewhere."""
    yield "data", settings.data_dir
    if settings.database_dsn is None:
        try:
            yield "database", Layout(settings.data_dir).known_cluster()
        except (Refusal, OSError):
            return


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def _exposed(families: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)
