"""Make a fresh embedded server fit for us: the roles, the one login, the database.

Done as the cluster's superuser, which nothing else uses. Running it again finds everything there.
"""

from typing import Final, LiteralString

import asyncpg

from bpc.db.connection import Connection, connected
from bpc.db.embedded.cluster import LOGIN
from bpc.db.embedded.server import Server
from bpc.db.migrate import LOCK
from bpc.db.roles import APP, OWNER, SYSTEM, ensure_roles

LOGIN_EXISTS: Final[LiteralString] = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bpc')"
DATABASE_EXISTS: Final[LiteralString] = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"


async def prepare(server: Server, database: str) -> None:
    """Have roles, login and `database` on `server`, whoever else is doing the same right now."""
    async with connected(server.superuser_address()) as conn:
        async with conn.transaction():
            await conn.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await ensure_roles(conn)
            if not await conn.fetchval(LOGIN_EXISTS):
                # NOINHERIT: until a transaction takes on a role, this login may do nothing.
                await conn.execute(f"CREATE ROLE {LOGIN} LOGIN NOINHERIT")
                await conn.execute(f"GRANT {OWNER}, {APP}, {SYSTEM} TO {LOGIN}")
        if not await conn.fetchval(DATABASE_EXISTS, database):
            await _create(conn, database)


async def _create(conn: Connection, database: str) -> None:
    quoted = await conn.fetchval("SELECT quote_ident($1)", database)
    try:
        await conn.execute(f"CREATE DATABASE {quoted} OWNER {OWNER}")
    except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        pass  # another process was a moment faster
    else:
        await conn.execute(f"GRANT CONNECT ON DATABASE {quoted} TO {LOGIN}")
        await conn.execute(f"REVOKE ALL ON DATABASE {quoted} FROM PUBLIC")
