"""The engine's own tables, for a service that has no migrations of its own.

Applies the numbered files of `migrations/` that a database lacks, under a lock, so that ten processes may start at
once. A product with a migration runner applies the same files with that and does not need this.
"""

from importlib import resources
from typing import Final, LiteralString

from bpc.jobs.context import Connection

LOCK: Final[LiteralString] = "SELECT pg_advisory_xact_lock(1785684595, 2)"
APPLIED: Final[LiteralString] = """
    CREATE SCHEMA IF NOT EXISTS jobs;
    CREATE TABLE IF NOT EXISTS jobs.installed (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())
"""


async def install(conn: Connection) -> list[str]:
    """Bring the engine's tables up to date; the names of what was applied."""
    applied = []
    async with conn.transaction():
        await conn.execute(LOCK)
        if not await conn.fetchval("SELECT to_regclass('jobs.installed') IS NOT NULL"):
            if await conn.fetchval("SELECT to_regclass('jobs.job') IS NOT NULL"):
                return []  # somebody else's migrations made them
            await conn.execute(APPLIED)
        done = {row["name"] for row in await conn.fetch("SELECT name FROM jobs.installed")}
        for name, sql in migrations():
            if name not in done:
                await conn.execute(sql)
                await conn.execute("INSERT INTO jobs.installed (name) VALUES ($1)", name)
                applied.append(name)
    return applied


def migrations() -> list[tuple[str, str]]:
    """The engine's SQL files, in order."""
    folder = resources.files("bpc.jobs") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(file.name, file.read_text()) for file in files]
