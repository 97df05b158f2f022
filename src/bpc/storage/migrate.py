"""Migrations: numbered SQL files, applied in order, each in one transaction, by however many processes at once.

    0001_tables.sql, 0002_…   ──►  schema_migrations(component, version, name, sha256, applied_at)

Each transaction takes the same advisory lock, looks again at what has been applied, and applies the next file;
a process that comes second finds nothing left to do. A file that was applied is never edited: its hash is kept.

They run while the version before serves. A statement that waits for a table lets nobody else to it, so it waits for
less than a second: then all is rolled back, everybody else gets on, and after a pause it is tried again. Who pauses
keeps the advisory lock, or the next process would try at once, and the one after it, and nobody else would get on.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, LiteralString

import asyncpg

from bpc.core.digest import Digest, sha256
from bpc.core.errors import SchemaMismatch
from bpc.db.connection import Connection
from bpc.db.roles import OWNER, ensure_roles
from bpc.logs import logger

log = logger(__name__)

LOCK: Final = 4_710_050_001
# Below a second, after which PostgreSQL looks for deadlocks: who gives way first should be the migration.
# The pauses are ours, and no server's setting ends them.
WAITS: Final[LiteralString] = """
    SET LOCAL lock_timeout = '800ms';
    SET LOCAL idle_in_transaction_session_timeout = 0
"""
IN_USE: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
PATIENCE: Final = 300.0  # seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
FILE_NAME: Final = re.compile(r"(?P<version>[0-9]{4})_[a-z0-9_]+\.sql")

TABLE: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
      component   text NOT NULL,
      version     int NOT NULL,
      name        text NOT NULL,
      sha256      bytea NOT NULL,
      applied_at  timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (component, version)
    );
    GRANT SELECT ON schema_migrations TO PUBLIC  -- the login looks before it takes on a role
"""
TABLE_EXISTS: Final[LiteralString] = "SELECT to_regclass('public.schema_migrations') IS NOT NULL"
APPLIED: Final[LiteralString] = "SELECT component, version, name, sha256 FROM public.schema_migrations"
RECORD: Final[LiteralString] = """
    INSERT INTO schema_migrations (component, version, name, sha256) VALUES ($1, $2, $3, $4)
"""
OLDEST_OPEN: Final[LiteralString] = """
    SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
      FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
       AND xact_start IS NOT NULL
     ORDER BY xact_start LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. `component` tells the numbering it belongs to: ours, or that of a part with its own tables."""

    component: str
    version: int
    name: str
    sql: str
    sha256: Digest

    @property
    def key(self) -> tuple[str, int]:
        return self.component, self.version


class State(Enum):
    """How a database compares with this build."""

    CURRENT = "current"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is applied and what is not."""

    pending: tuple[Migration, ...]
    unknown: tuple[str, ...]

    @property
    def state(self) -> State:
        if self.pending:
            return State.BEHIND
        return State.AHEAD if self.unknown else State.CURRENT


class MigrationEdited(SchemaMismatch):
    """A file that a database has applied is not the file it applied."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration `{name}` was edited after this database applied it",
            fix="use the build this database was made with or a released one after it; who wrote the migration puts "
            "the change into a new one",
            details={"migration": name},
        )


class MigrationsMissing(SchemaMismatch):
    """The database lacks tables this build needs."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the database lacks {len(names)} migration(s): {', '.join(f'`{name}`' for name in names)}",
            fix="run `bpc migrate`",
            details={"pending": list(names)},
        )


class MigrationFailed(SchemaMismatch):
    """The database refused a statement; nothing of that file was applied."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"migration `{name}` failed and was rolled back: {reason}",
            fix="what came before it is applied; correct the cause and run `bpc migrate` again",
            details={"migration": name},
        )


class MigrationBlocked(SchemaMismatch):
    """Somebody holds a table for so long that a migration cannot have it."""

    def __init__(self, name: str | None, holder: str) -> None:
        what = "the look at what is applied" if name is None else f"migration `{name}`"
        super().__init__(
            f"{what} could not get at a table that others are using; nothing of it was applied",
            fix=f"{holder}; end it, or wait, and run `bpc migrate` again",
            details={"migration": name},
        )


def read_migrations(component: str, folder: Traversable) -> list[Migration]:
    """The files of `folder` in order; a gap or a doubled number is a mistake of ours, found here."""
    found: list[Migration] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        match = FILE_NAME.fullmatch(file.name)
        if match is None or int(match["version"]) != len(found) + 1:
            raise ValueError(f"`{file.name}` is not migration {len(found) + 1:04}_name.sql")
        text = file.read_bytes()
        found.append(
            Migration(
                component=component,
                version=int(match["version"]),
                name=file.name if component == "bpc" else f"{component}/{file.name}",
                sql=text.decode(),
                sha256=sha256(text),
            )
        )
    return found


def our_migrations() -> list[Migration]:
    """All migrations of this build, in the order they are applied."""
    jobs = read_migrations("jobs", resources.files("bpc.jobs") / "migrations")
    return jobs + read_migrations("bpc", resources.files("bpc.db") / "migrations")


async def compare(conn: Connection, migrations: Sequence[Migration]) -> Comparison:
    """What this database lacks, or has beyond us. Raises `MigrationEdited` where a file differs."""
    if not await conn.fetchval(TABLE_EXISTS):
        return Comparison(pending=tuple(migrations), unknown=())
    applied = {(row["component"], row["version"]): row for row in await conn.fetch(APPLIED)}
    for migration in migrations:
        row = applied.get(migration.key)
        if row is not None and row["sha256"] != migration.sha256:
            raise MigrationEdited(migration.name)
    beyond_us = applied.keys() - {migration.key for migration in migrations}
    return Comparison(
        pending=tuple(migration for migration in migrations if migration.key not in applied),
        unknown=tuple(applied[key]["name"] for key in sorted(beyond_us)),
    )


async def require_current(conn: Connection, migrations: Sequence[Migration]) -> Comparison:
    """The check at start-up. A database ahead of us is fine: migrations only add until nobody needs the old."""
    found = await compare(conn, migrations)
    if found.pending:
        raise MigrationsMissing([migration.name for migration in found.pending])
    return found


async def migrate(conn: Connection, migrations: Sequence[Migration], *, patience: float = PATIENCE) -> list[str]:
    """Apply what is pending and return its names. Safe to run twice, by ten processes at once, and under load.

    Raises `MigrationBlocked` if others hold a table for all of `patience`, in seconds.
    """
    applied: list[str] = []
    while (name := await _apply_next_patiently(conn, migrations, patience)) is not None:
        applied.append(name)
    return applied


async def _apply_next_patiently(conn: Connection, migrations: Sequence[Migration], patience: float) -> str | None:
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    deadline = loop.time() + patience
    async with conn.transaction():
        await conn.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await conn.execute(WAITS)  # from here on: for each other we do wait
        while True:
            found: Migration | None = None
            try:
                async with conn.transaction():  # a savepoint: what it locked is free when it is rolled back
                    found = await _first_pending(conn, migrations)
                    if found is not None:
                        await _apply(conn, found)
            except IN_USE as in_use:
                busy = in_use
            else:
                return None if found is None else found.name
            name = None if found is None else found.name
            log.warning("a migration waits for a table that is in use", migration=name, again_in_seconds=pause)
            await asyncio.sleep(pause)  # in which those who waited behind us get on, also if we give up
            if loop.time() > deadline:
                raise MigrationBlocked(name, await _holder(conn)) from busy
            pause = min(2 * pause, LONGEST_PAUSE)


async def _first_pending(conn: Connection, migrations: Sequence[Migration]) -> Migration | None:
    await ensure_roles(conn)
    await conn.execute(f"SET LOCAL ROLE {OWNER}")
    await conn.execute("SET LOCAL search_path = public")
    if not await conn.fetchval(TABLE_EXISTS):
        await conn.execute(TABLE)
    return next(iter((await compare(conn, migrations)).pending), None)


async def _apply(conn: Connection, migration: Migration) -> None:
    try:
        await conn.execute(migration.sql)
    except IN_USE:
        raise
    except asyncpg.PostgresError as refused:
        raise MigrationFailed(migration.name, str(refused)) from refused
    await conn.execute(RECORD, migration.component, migration.version, migration.name, migration.sha256)


async def _holder(conn: Connection) -> str:
    """Who it probably is, as far as this login may see; never what they were doing, which may be somebody's data."""
    found = await conn.fetchrow(OLDEST_OPEN)
    if found is None:
        return "`pg_stat_activity` shows an administrator which transactions are open"
    return f"process {found['pid']} of the database has had a transaction open for {found['seconds']} s"
