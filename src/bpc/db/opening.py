"""From settings to an open database: the embedded server or the one that was named, migrated or refused.

async with opened(settings) as database:                 # refuses a database that lacks migrations
async with opened(settings, migrate_first=True) as …     # applies them (bpc up, bpc migrate, bpc demo)
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bpc.core.errors import SchemaMismatch
from bpc.db import embedded
from bpc.db.address import Address
from bpc.db.connection import Connection, connected
from bpc.db.database import Database, open_database
from bpc.db.embedded.prepare import prepare
from bpc.db.migrate import migrate, our_migrations, require_current
from bpc.settings import Settings, data_dir

OLDEST_SERVER = 150000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the database is, and how to bring its server back if that is ours to do."""

    address: Address
    revive: Callable[[], None] | None
    server: embedded.Server | None


@asynccontextmanager
async def placed(settings: Settings, *, look_only: bool = False) -> AsyncIterator[Place]:
    """The database's place; for the embedded one, running for as long as this is held, with all it needs made.

    Who only looks makes nothing: neither roles nor the database.
    """
    if (dsn := settings.database_dsn) is not None:
        yield Place(address=Address.parse(dsn.get_secret_value()), revive=None, server=None)
        return
    folder = data_dir.prepare(settings.data_dir)
    server = await _used(folder)
    try:
        if not look_only:
            await prepare(server, settings.db_name)
        yield Place(address=server.address(settings.db_name), revive=server.ensure, server=server)
    finally:
        server.release()


async def _used(folder: Path) -> embedded.Server:
    given_up = threading.Event()
    try:
        return await asyncio.to_thread(embedded.use, folder, given_up)
    except asyncio.CancelledError:
        given_up.set()  # Ctrl-C: the thread must not keep us waiting
        raise


@asynccontextmanager
async def opened(
    settings: Settings, *, migrate_first: bool = False, tell: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Database]:
    """A pool on a database that has every migration this build needs. `tell` is told what is begun."""
    tell("starting the database" if settings.database_dsn is None else "connecting to the database")
    async with placed(settings) as place:
        async with connected(place.address) as conn:
            await require_version(conn)
            if migrate_first:
                tell("bringing its tables up to date")
                await migrate(conn, our_migrations())
            await require_current(conn, our_migrations())
        database = await open_database(place.address, pool_size=settings.db_pool_size, revive=place.revive)
        try:
            yield database
        finally:
            await database.close()


async def require_version(conn: Connection) -> None:
    """PostgreSQL 15 or later."""
    number = int(await conn.fetchval("SELECT current_setting('server_version_num')"))
    if number < OLDEST_SERVER:
        raise SchemaMismatch(
            f"this is PostgreSQL {number // 10000}, and bpc needs 15 or later",
            fix="upgrade the server, or unset DATABASE_URL to use the embedded one",
        )
