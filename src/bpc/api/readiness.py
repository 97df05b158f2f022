"""Whether this process can do its work: the database, its tables, the queue where there is one, and who runs jobs.

    database      a statement is answered          else not ready
    migrations    the tables are this build's      else not ready
    queue         RabbitMQ takes connections       else not ready only where BPC_HEALTH_REQUIRE_QUEUE says so
    workers       one gave a sign of life          never decides: jobs wait, and requests are answered

Everybody may ask, so an answer is kept for a second, and no check takes longer than two. The checks have a connection
of their own: that all others are busy is no reason to be sent no more requests.
"""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import asyncpg

from bpc.api.service import Service
from bpc.db.connection import Connection, connect
from bpc.db.failures import SAID_BY_THE_DRIVER
from bpc.db.migrate import Migration, our_migrations, require_current
from bpc.db.roles import SYSTEM
from bpc.jobs import health
from bpc.jobs.health import Health
from bpc.logs import logger

CHECK_SECONDS: Final = 2.0
KEPT_SECONDS: Final = 1.0
MIGRATIONS_KEPT_SECONDS: Final = 10.0
SESSION: Final = {"role": SYSTEM, "search_path": "public", "application_name": "bpc ready", "timezone": "UTC"}
T = TypeVar("T")
log = logger(__name__)

State = Literal["OK", "FAILED", "OFF", "NONE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the checks said."""

    database: State
    migrations: State
    queue: State
    workers: State
    jobs: Health | None
    needs_queue: bool

    @property
    def failing(self) -> str | None:
        """The code of what is missing most; None if the process is ready."""
        if self.database == "FAILED" or self.jobs is None or self.migrations == "FAILED":
            return "DB_UNAVAILABLE"
        return "QUEUE_UNAVAILABLE" if self.queue == "FAILED" and self.needs_queue else None


class Readiness:
    """The checks of one process; who asks at the same moment gets the same answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._found: Found | None = None
        self._found_at = 0.0
        self._migrated_at: float | None = None

    async def look(self) -> Found:
        async with self._lock:
            if self._found is None or time.monotonic() - self._found_at > KEPT_SECONDS:
                self._found = await self._look()
                self._found_at = time.monotonic()
            return self._found

    async def _look(self) -> Found:
        settings = self._service.settings
        queue, (database, migrations, jobs) = await asyncio.gather(
            _tried("queue", self._reaches_queue()) if settings.queue_enabled else _off(), self._look_at_database()
        )
        return Found(
            database=database,
            migrations=migrations,
            queue=queue if queue == "OFF" else _state(queue),
            workers="OK" if jobs is not None and jobs.workers else "NONE",
            jobs=jobs,
            needs_queue=settings.health_require_queue,
        )

    async def _look_at_database(self) -> tuple[State, State, Health | None]:
        """The database, its tables and its jobs, one after the other on one connection."""
        conn = await _tried("database", self._connected())
        if conn is None:
            return "FAILED", "FAILED", None
        try:
            answers = await _tried("database", conn.fetchval("SELECT true"))
            migrated = await _tried("migrations", self._is_migrated(conn))
            return _state(answers), _state(migrated), await _tried("jobs", health.health(conn))
        finally:
            with suppress(*SAID_BY_THE_DRIVER, OSError):
                await conn.close(timeout=CHECK_SECONDS)

    async def _connected(self) -> "asyncpg.Connection[asyncpg.Record]":
        arguments = self._service.database.address.connect_arguments() | {"server_settings": SESSION}
        try:
            return await connect(**arguments)
        except OSError:
            async with self._service.database.plain():  # which knows how to bring an embedded server back
                return await connect(**arguments)

    async def _is_migrated(self, conn: Connection) -> bool:
        now = time.monotonic()
        if self._migrated_at is None or now - self._migrated_at >= MIGRATIONS_KEPT_SECONDS:
            await require_current(conn, _migrations())
            self._migrated_at = now
        return True

    async def _reaches_queue(self) -> bool:
        broker = urlsplit(self._service.settings.queue_url.get_secret_value())
        port = broker.port or (5671 if broker.scheme == "amqps" else 5672)
        _, writer = await asyncio.open_connection(broker.hostname, port)
        writer.close()
        return True


async def _tried(name: str, check: Awaitable[T]) -> T | None:
    """What a check finds; None where it fails or takes too long."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except Exception as error:  # noqa: BLE001 (whatever it is, the answer is that we are not ready)
        log.warning("not ready", check=name, reason=f"{type(error).__name__}: {error}"[:500])
        return None


def _state(found: object) -> State:
    return "OK" if found else "FAILED"


async def _off() -> State:
    return "OFF"


@cache
def _migrations() -> list[Migration]:
    return our_migrations()
