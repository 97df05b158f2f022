"""The three roles, and what they need in a database before the first migration.

    bpc_owner    owns the tables, runs migrations
    bpc_app      serves one tenant at a time; owns nothing, cannot pass row-level security
    bpc_system   the few paths that cross tenants; a member of bpc_app

Nobody logs in as one of them. The one login is granted all three and takes one on in each transaction.
"""

from contextlib import suppress
from typing import Final, LiteralString

import asyncpg

from bpc.core.errors import SchemaMismatch
from bpc.db.connection import Connection

OWNER: Final = "bpc_owner"
APP: Final = "bpc_app"
SYSTEM: Final = "bpc_system"

ATTRIBUTES: Final = "NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
MISSING: Final[LiteralString] = """
    SELECT name FROM unnest($1::text[]) AS wanted(name)
     WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
     ORDER BY name
"""
# Superusers are members of everything; what we need to know is a membership that is really there.
APP_IN_SYSTEM: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM pg_auth_members m
                     JOIN pg_roles r ON r.oid = m.roleid
                     JOIN pg_roles u ON u.oid = m.member
                    WHERE r.rolname = 'bpc_app' AND u.rolname = 'bpc_system')
"""
LACKING_RIGHTS: Final[LiteralString] = """
    SELECT grant_it FROM (VALUES
      (has_database_privilege('bpc_owner', current_database(), 'CREATE'),
       format('GRANT CREATE ON DATABASE %I TO bpc_owner', current_database())),
      (has_schema_privilege('bpc_owner', 'public', 'CREATE') AND has_schema_privilege('bpc_owner', 'public', 'USAGE'),
       'GRANT CREATE, USAGE ON SCHEMA public TO bpc_owner'),
      (has_schema_privilege('bpc_app', 'public', 'USAGE'), 'GRANT USAGE ON SCHEMA public TO bpc_app'),
      (has_schema_privilege('bpc_system', 'public', 'USAGE'), 'GRANT USAGE ON SCHEMA public TO bpc_system')
    ) AS rights(there, grant_it)
    WHERE NOT there
"""


class RolesMissing(SchemaMismatch):
    """The login may not create what is missing; an administrator can, with the SQL in `fix`."""

    def __init__(self, statements: list[str]) -> None:
        super().__init__(
            "the database's roles or rights are not set up, and this login may not do it",
            fix="have an administrator of the database run:\n  " + ";\n  ".join(statements) + ";",
            details={"sql": statements},
        )


async def ensure_roles(conn: Connection) -> None:
    """Create what is missing, as far as the login may; call it inside a transaction that holds the lock."""
    statements = await missing_statements(conn)
    try:
        for statement in statements:
            # Roles belong to the whole server: somebody may be making them for another database right now.
            with suppress(asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
                async with conn.transaction():
                    await conn.execute(statement)
    except asyncpg.InsufficientPrivilegeError as refused:
        raise RolesMissing(statements) from refused
    # To grant what one does not own is no error, only a warning: look whether it helped.
    if statements and (remaining := await missing_statements(conn)):
        raise RolesMissing(remaining)


async def missing_statements(conn: Connection) -> list[str]:
    """The SQL that would set up roles, memberships and rights; empty when all is there."""
    missing = [row["name"] for row in await conn.fetch(MISSING, [OWNER, APP, SYSTEM])]
    login = await conn.fetchval("SELECT quote_ident(session_user)")
    statements = [f"CREATE ROLE {name} {ATTRIBUTES}" for name in missing]
    ours = (OWNER, APP, SYSTEM)
    become = [name for name in ours if name in missing or not await _may_become(conn, name)]
    statements += [f"GRANT {name} TO {login}" for name in become]
    if not await conn.fetchval(APP_IN_SYSTEM):
        statements.append(f"GRANT {APP} TO {SYSTEM}")
    if missing:
        database = await conn.fetchval("SELECT quote_ident(current_database())")
        statements += [
            f"GRANT CREATE ON DATABASE {database} TO {OWNER}",
            f"GRANT CREATE, USAGE ON SCHEMA public TO {OWNER}",
            f"GRANT USAGE ON SCHEMA public TO {APP}",
            f"GRANT USAGE ON SCHEMA public TO {SYSTEM}",
        ]
    else:
        statements += [row["grant_it"] for row in await conn.fetch(LACKING_RIGHTS)]
    return statements


async def _may_become(conn: Connection, role: str) -> bool:
    # Asked by trying: what membership allows differs between versions of PostgreSQL.
    try:
        async with conn.transaction():
            await conn.execute(f"SET LOCAL ROLE {role}")
            await conn.execute("SET LOCAL ROLE NONE")
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.InvalidParameterValueError,
        asyncpg.UndefinedObjectError,
    ):
        return False
    return True
