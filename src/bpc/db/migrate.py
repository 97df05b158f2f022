"""Migrations: numbered SQL files, applied in order, each in one transaction, by however many processes at once.

    0001_tables.sql, 0002_…   ──►  schema_migrations(component, version, name, sha256, applied_at)

Each transaction takes the same advisory lock, looks again at what has been applied, and applies the next file;
a process that comes second finds nothing left to do. A file that was applied is never edited: its hash is kept.
"""

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

LOCK: Final = 4_710_050_001
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


async def migrate(conn: Connection, migrations: Sequence[Migration]) -> list[str]:
    """Apply what is pending and return its names. Safe to run twice, and by ten processes at once."""
    applied: list[str] = []
    while (name := await _apply_next(conn, migrations)) is not None:
        applied.append(name)
    return applied


async def _apply_next(conn: Connection, migrations: Sequence[Migration]) -> str | None:
    async with conn.transaction():
        await conn.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await ensure_roles(conn)
        await conn.execute(f"SET LOCAL ROLE {OWNER}")
        await conn.execute("SET LOCAL search_path = public")
        if not await conn.fetchval(TABLE_EXISTS):
            await conn.execute(TABLE)
        pending = (await compare(conn, migrations)).pending
        if not pending:
            return None
        try:
            await conn.execute(pending[0].sql)
        except asyncpg.PostgresError as refused:
            raise MigrationFailed(pending[0].name, str(refused)) from refused
        first = pending[0]
        await conn.execute(RECORD, first.component, first.version, first.name, first.sha256)
    return pending[0].name
