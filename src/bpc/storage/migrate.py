"""Migrations: numbered SQL files, applied in order, each in one transaction, by however many processes at once.

    0001_tables.sql, 0002_…   ──►  schema_migrations(component, version, name, sha256, applied_at)

Each transaction takes the same advisory lock, reads which files are applied, and applies the next one; a second process
finds nothing to do. An applied file is never edited: its hash is stored.

Migrations run while the previous version serves. A statement that waits for a table blocks everybody else who needs it,
so it waits less than a second; then the file is rolled back, requests continue, and after a pause it is tried again. A
process that pauses keeps the advisory lock; otherwise the next one would try at once and requests would keep waiting.
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

from bpc.core.errors import SchemaMismatch
from bpc.core.formats.hashes import Digest, sha256
from bpc.runtime.logs import get_logger
from bpc.storage.connection import OWNER_ROLE, Connection, ensure_roles

log = get_logger(__name__)

MIGRATION_LOCK: Final = 4_710_050_001
# Less than a second, after which PostgreSQL checks for deadlocks: the migration should give way first.
# No setting of the server may end the transaction during our pauses.
SET_TIMEOUTS: Final[LiteralString] = """
    SET LOCAL lock_timeout = '800ms';
    SET LOCAL idle_in_transaction_session_timeout = 0
"""
TABLE_IN_USE_ERRORS: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
PATIENCE_SECONDS: Final = 300.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
FILE_NAME: Final = re.compile(r"(?P<version>[0-9]{4})_[a-z0-9_]+\.sql")

CREATE_MIGRATIONS_TABLE: Final[LiteralString] = """
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
MIGRATIONS_TABLE_EXISTS: Final[LiteralString] = "SELECT to_regclass('public.schema_migrations') IS NOT NULL"
SELECT_APPLIED: Final[LiteralString] = "SELECT component, version, name, sha256 FROM public.schema_migrations"
INSERT_APPLIED: Final[LiteralString] = """
    INSERT INTO schema_migrations (component, version, name, sha256) VALUES ($1, $2, $3, $4)
"""
SELECT_OLDEST_TRANSACTION: Final[LiteralString] = """
    SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
      FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
       AND xact_start IS NOT NULL
     ORDER BY xact_start LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. Each `component` has its own numbering: `bpc`, or the job engine with its tables."""

    component: str
    version: int
    name: str
    sql: str
    sha256: Digest

    @property
    def key(self) -> tuple[str, int]:
        return self.component, self.version


class SchemaState(Enum):
    """How a database compares with this build."""

    CURRENT = "current"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaComparison:
    """Which migrations are pending, and the names of applied ones that this build does not know."""

    pending: tuple[Migration, ...]
    unknown: tuple[str, ...]

    @property
    def state(self) -> SchemaState:
        if self.pending:
            return SchemaState.BEHIND
        return SchemaState.AHEAD if self.unknown else SchemaState.CURRENT


class MigrationEdited(SchemaMismatch):
    """A file differs from what the database applied."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"migration `{name}` was edited after this database applied it",
            fix="use the build that created this database, or a later release; put the change into a new migration",
            details={"migration": name},
        )


class MigrationsMissing(SchemaMismatch):
    """The database lacks migrations that this build needs."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the database lacks {len(names)} migration(s): {', '.join(f'`{name}`' for name in names)}",
            hint="migrate",
            details={"pending": list(names)},
        )


class MigrationFailed(SchemaMismatch):
    """The database refused a statement; the file was rolled back."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"migration `{name}` failed and was rolled back: {reason}",
            hint="migrate again",
            details={"migration": name},
        )


class MigrationBlocked(SchemaMismatch):
    """A migration could not lock a table that is in use."""

    def __init__(self, name: str | None, holder: str) -> None:
        what = "reading the applied migrations" if name is None else f"migration `{name}`"
        super().__init__(
            f"{what} could not lock a table that is in use; nothing of it was applied",
            hint="migrate later",
            details={"migration": name, "holder": holder},
        )


def read_migrations(component: str, folder: Traversable) -> list[Migration]:
    """The files of `folder` in order. Raises for a gap or a number that occurs twice."""
    migrations: list[Migration] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        match = FILE_NAME.fullmatch(file.name)
        if match is None or int(match["version"]) != len(migrations) + 1:
            raise ValueError(f"`{file.name}` is not migration {len(migrations) + 1:04}_name.sql")
        text = file.read_bytes()
        migrations.append(
            Migration(
                component=component,
                version=int(match["version"]),
                name=file.name if component == "bpc" else f"{component}/{file.name}",
                sql=text.decode(),
                sha256=sha256(text),
            )
        )
    return migrations


def list_migrations() -> list[Migration]:
    """All migrations of this build, in the order of application."""
    jobs = read_migrations("jobs", resources.files("service_jobs") / "migrations")
    return jobs + read_migrations("bpc", resources.files("bpc.storage") / "migrations")


async def compare_schema(conn: Connection, migrations: Sequence[Migration]) -> SchemaComparison:
    """What this database lacks, and what this build does not know. Raises `MigrationEdited` if a file differs."""
    if not await conn.fetchval(MIGRATIONS_TABLE_EXISTS):
        return SchemaComparison(pending=tuple(migrations), unknown=())
    applied_rows = {(row["component"], row["version"]): row for row in await conn.fetch(SELECT_APPLIED)}
    for migration in migrations:
        row = applied_rows.get(migration.key)
        if row is not None and row["sha256"] != migration.sha256:
            raise MigrationEdited(migration.name)
    unknown_keys = applied_rows.keys() - {migration.key for migration in migrations}
    return SchemaComparison(
        pending=tuple(migration for migration in migrations if migration.key not in applied_rows),
        unknown=tuple(applied_rows[key]["name"] for key in sorted(unknown_keys)),
    )


async def require_current_schema(conn: Connection, migrations: Sequence[Migration]) -> SchemaComparison:
    """The check at start-up. A newer database is accepted: migrations only add while an older build may be in use."""
    comparison = await compare_schema(conn, migrations)
    if comparison.pending:
        raise MigrationsMissing([migration.name for migration in comparison.pending])
    return comparison


async def migrate(
    conn: Connection, migrations: Sequence[Migration], *, patience: float = PATIENCE_SECONDS
) -> list[str]:
    """Apply what is pending and return the names. Safe to run twice, in many processes at once, and under load.

    Raises `MigrationBlocked` if a table stays in use for `patience` seconds.
    """
    applied_names: list[str] = []
    while (name := await _apply_next_with_retries(conn, migrations, patience)) is not None:
        applied_names.append(name)
    return applied_names


async def _apply_next_with_retries(conn: Connection, migrations: Sequence[Migration], patience: float) -> str | None:
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    deadline = loop.time() + patience
    async with conn.transaction():
        await conn.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        await conn.execute(SET_TIMEOUTS)  # after the lock: migrations do wait for each other
        while True:
            migration: Migration | None = None
            try:
                async with conn.transaction():  # a savepoint: a rollback frees its locks
                    migration = await _find_first_pending(conn, migrations)
                    if migration is not None:
                        await _apply(conn, migration)
            except TABLE_IN_USE_ERRORS as error:
                last_error = error
            else:
                return None if migration is None else migration.name
            name = None if migration is None else migration.name
            log.warning("a migration waits for a table that is in use", migration=name, again_in_seconds=pause)
            await asyncio.sleep(pause)  # requests that waited for us continue, also if we give up
            if loop.time() > deadline:
                raise MigrationBlocked(name, await _describe_lock_holder(conn)) from last_error
            pause = min(2 * pause, LONGEST_PAUSE)


async def _find_first_pending(conn: Connection, migrations: Sequence[Migration]) -> Migration | None:
    await ensure_roles(conn)
    await conn.execute(f"SET LOCAL ROLE {OWNER_ROLE}")
    await conn.execute("SET LOCAL search_path = public")
    if not await conn.fetchval(MIGRATIONS_TABLE_EXISTS):
        await conn.execute(CREATE_MIGRATIONS_TABLE)
    return next(iter((await compare_schema(conn, migrations)).pending), None)


async def _apply(conn: Connection, migration: Migration) -> None:
    try:
        await conn.execute(migration.sql)
    except TABLE_IN_USE_ERRORS:
        raise
    except asyncpg.PostgresError as error:
        raise MigrationFailed(migration.name, str(error)) from error
    await conn.execute(INSERT_APPLIED, migration.component, migration.version, migration.name, migration.sha256)


async def _describe_lock_holder(conn: Connection) -> str:
    """The oldest open transaction that this login may see; without its query, which may hold private data."""
    row = await conn.fetchrow(SELECT_OLDEST_TRANSACTION)
    if row is None:
        return "`pg_stat_activity` shows an administrator which transactions are open"
    return f"process {row['pid']} of the database has had a transaction open for {row['seconds']} s"
