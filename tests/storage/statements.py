"""Statements of tests: one row of a table; and what the database makes of a statement, of which nothing stays."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection


async def insert_row(conn: Connection, table: str, **values: object) -> None:
    """One row of `table`."""
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    await conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())


async def try_statement(conn: Connection, statement: str, *arguments: object) -> str:
    """What the database makes of `statement`: its command tag, or the SQLSTATE it refuses with. Nothing of it stays."""
    async with roll_back_after(conn):
        try:
            return await conn.execute(statement, *arguments)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)


@asynccontextmanager
async def roll_back_after(conn: Connection) -> AsyncIterator[None]:
    """A transaction, or a savepoint of the one that is open, of which nothing stays."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


@asynccontextmanager
async def act_as_role(conn: Connection, role: str, tenant: TenantId | None = None) -> AsyncIterator[None]:
    """A transaction in which `conn` is `role`, bound to `tenant`; nothing of it stays."""
    async with roll_back_after(conn):
        await conn.execute(f"SET LOCAL ROLE {role}")
        await conn.execute(f"SET LOCAL app.tenant_id = '{tenant or ''}'")
        yield
