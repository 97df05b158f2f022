"""Connections, a transaction in a role, the two ways to read rows, and the three roles.

    open_connection(address)        one connection of the login itself: for preparing, migrating and inspecting
    fetch_one, fetch_rows           a row, or an `UnknownResource`; rows of a page
    RoleTransaction(conn, settings) a transaction that begins with its role and tenant
    ensure_roles(conn)              what a database needs before its first migration

Requests and jobs get their connections from bpc.storage.database, with a role and a tenant.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, LiteralString, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from asyncpg.transaction import Transaction, TransactionState

from bpc.core.errors import SchemaMismatch, UnknownResource
from bpc.core.formats.cursor import CursorPosition
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.error_mapping import DRIVER_ERRORS, map_connection_error, map_driver_error
from bpc.storage.statement_log import choose_connection_class

RECOVERY_SECONDS: Final = 10
ACCESS_CHANGED_SQLSTATE: Final = "BP002"  # of require_access_version
KEY_USED_SQLSTATE: Final = "BP003"  # of require_new_key
# Every table has an index that begins with the tenant. A plan that was made while a table had one page, and is kept,
# would read all of it when it has thousands.
PLAN_SETTINGS: Final = {"enable_seqscan": "off", "jit": "off"}

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
RowT = TypeVar("RowT")
ValueT = TypeVar("ValueT")
ROWS_AT_ONCE: Final = 2_000


async def connect(*arguments: Any, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
    """The driver's `connect`, with patience for a server that is just starting or recovering."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    options["connection_class"] = choose_connection_class(options.get("connection_class", asyncpg.Connection))
    while True:
        try:
            return await asyncpg.connect(*arguments, **options)
        except asyncpg.CannotConnectNowError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


@asynccontextmanager
async def open_connection(address: Address) -> AsyncIterator[Connection]:
    """Yield one connection; its errors become refusals."""
    try:
        conn = await connect(**address.connect_arguments())
    except (*DRIVER_ERRORS, OSError, TimeoutError, ValueError) as error:
        raise (map_driver_error(error) or map_connection_error(error)) from error
    try:
        yield conn
    except DRIVER_ERRORS as error:
        refusal = map_driver_error(error) or (map_connection_error(error) if conn.is_closed() else None)
        if refusal is None:
            raise
        raise refusal from error
    finally:
        await conn.close()


# Transactions -----------------------------------------------------------------------------------------------------


class PooledConnection(asyncpg.Connection):
    """A connection of a pool. `is_reset` says that its session was reset after the last statement it ran."""

    __slots__ = ("is_reset",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_reset = False

    async def reset_session(self) -> None:
        """Reset the session, so that a forgotten setting of one tenant is harmless to the next."""
        if self.is_reset:
            self.is_reset = False
        else:
            await self.execute(self.get_session_reset())

    def get_session_reset(self) -> str:
        # RESET ALL, which the driver's own query ends with, leaves the role as it is.
        return f"{self.get_reset_query()}; RESET ROLE"


def is_pooled(conn: Any) -> bool:
    """Whether it is one of our class; the driver's `isinstance` says so of every connection."""
    return issubclass(type(conn), PooledConnection)


async def release(pool: "asyncpg.Pool[asyncpg.Record]", conn: Any) -> None:
    """Give a connection back to its pool."""
    own_connection: Any = getattr(conn, "_con", None)
    if is_pooled(own_connection) and own_connection.is_reset:
        # Nothing is waited for, so it takes no task that goes on if this one is cancelled.
        await conn._holder.release(None)
    else:
        await pool.release(conn)


def mark_clean(conn: Connection) -> None:
    """Say that what was just run on a connection of a pool left nothing behind in its session."""
    own_connection: Any = getattr(conn, "_con", None)
    if is_pooled(own_connection):
        own_connection.is_reset = True


class AccessChanged(Exception):
    """What is known of a caller is out of date: a key, an actor, a role or a policy of the tenant has changed."""


class KeyUsed(Exception):
    """An Idempotency-Key was used before: its answer is to be repeated."""


class NewKey(NamedTuple):
    """An Idempotency-Key that is believed to be new, whose it is, and the hash of its request."""

    actor: UUID
    key: str
    request_hash: bytes

    def to_statement(self) -> str:
        """Take the key. Its text is written in hexadecimal digits, so nothing of it can be taken for SQL."""
        key = f"convert_from('\\x{self.key.encode().hex()}', 'UTF8')"
        return f"SELECT require_new_key('{self.actor}', {key}, '\\x{self.request_hash.hex()}')"


class RoleTransaction(Transaction):
    """The outermost transaction of a connection, which begins and takes on its role and tenant in one round trip.

    `settings` are statements that are LOCAL to it. The driver's own transaction sends BEGIN alone; this one sends BEGIN
    and the settings together, before any other statement. Transactions inside it are the driver's savepoints.

    With `is_last`, nothing follows on the connection before the pool has it back: COMMIT resets the session too.
    """

    __slots__ = ("_is_last", "_own_connection", "_settings")

    def __init__(self, conn: Connection, settings: str, *, is_last: bool = False) -> None:
        # The driver keeps on the connection itself, not on the pool's proxy, which transaction is the outermost.
        self._own_connection: Any = getattr(conn, "_con", conn)
        super().__init__(self._own_connection, None, readonly=False, deferrable=False)
        self._settings = settings
        self._is_last = is_last and is_pooled(self._own_connection)

    async def start(self) -> None:
        conn = self._own_connection
        if conn._top_xact is not None or conn.is_in_transaction():
            raise asyncpg.InterfaceError("there is a transaction already; its role and tenant cannot be set anew")
        conn._top_xact = self
        try:
            await conn.execute(f"BEGIN; {self._settings}")
        except Exception as error:
            self._state, conn._top_xact = TransactionState.FAILED, None
            if conn.is_in_transaction():
                await conn.execute("ROLLBACK")
            sqlstate = getattr(error, "sqlstate", None)
            if sqlstate == ACCESS_CHANGED_SQLSTATE:
                raise AccessChanged from None
            if sqlstate == KEY_USED_SQLSTATE:
                raise KeyUsed from None
            raise
        except BaseException:  # cancelled: the pool rolls back what it is given back
            self._state = TransactionState.FAILED
            raise
        self._state = TransactionState.STARTED

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None or not self._is_last:
            await super().__aexit__(kind, error, trace)
            return
        conn = self._own_connection
        if self._state is not TransactionState.STARTED or conn._top_xact is not self:
            raise asyncpg.InterfaceError("there is no transaction to commit")
        conn._top_xact, self._managed = None, False
        try:
            await conn.execute(f"COMMIT; {conn.get_session_reset()}")
        except BaseException:
            self._state = TransactionState.FAILED
            raise
        self._state, conn.is_reset = TransactionState.COMMITTED, True


# Reading rows -----------------------------------------------------------------------------------------------------

# The two ends of every order by (time, id).
EARLIEST_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
LATEST_TIME: Final = datetime(9999, 12, 31, tzinfo=UTC)
LOWEST_ID: Final = UUID(int=0)
HIGHEST_ID: Final = UUID(int=2**128 - 1)


class PageQuery(NamedTuple):
    """Which part of a list, newest first: up to `limit` rows before (`before_time`, `before_id`)."""

    before_time: datetime
    before_id: UUID
    limit: int

    @classmethod
    def after_cursor(cls, after: CursorPosition | None, limit: int) -> "PageQuery":
        if after is None:
            return cls(LATEST_TIME, HIGHEST_ID, limit)
        return cls(after.moment, after.id, limit)


def make_page_query(
    select: LiteralString, *, time: LiteralString, key: LiteralString, where: LiteralString = ""
) -> LiteralString:
    """The statement of a page, newest first: `select` has no WHERE yet; $1 is the tenant, $2 to $4 a `PageQuery`.

    `where` narrows the list ("AND document_id = $5"). The alias of the table, if it has one, is that of `time`.
    """
    alias = time.rpartition(".")[0] + "." if "." in time else ""
    return f"""{select}
     WHERE {alias}tenant_id = $1 {where} AND ({time}, {key}) < ($2, $3)
     ORDER BY {time} DESC, {key} DESC
     LIMIT $4
"""


async def fetch_one(
    conn: Connection,
    make_row: Callable[..., RowT],
    statement: LiteralString,
    tenant: TenantId,
    resource_id: UUID,
    *,
    kind: str,
) -> RowT:
    """The row of `statement`, which takes a tenant and an id; `make_row` takes its columns by name.

    Raises `UnknownResource(kind, resource_id)` if there is no row.
    """
    row = await conn.fetchrow(statement, tenant, resource_id)
    if row is None:
        raise UnknownResource(kind, resource_id)
    return make_row(**row)


async def fetch_rows(
    conn: Connection, make_row: Callable[..., RowT], statement: LiteralString, *arguments: object
) -> list[RowT]:
    """All rows of `statement`; `make_row` takes the columns of each by name."""
    return [make_row(**row) for row in await conn.fetch(statement, *arguments)]


def split_rows(rows: Sequence[ValueT]) -> Iterator[Sequence[ValueT]]:
    """Rows in parts. What one statement takes and gives is packed and unpacked on the event loop, in one stretch."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def parse_row_count(command_tag: str) -> int:
    """How many rows a command changed, from the tag it ends with: `DELETE 3`."""
    return int(command_tag.rpartition(" ")[2])


# Roles ------------------------------------------------------------------------------------------------------------

OWNER_ROLE: Final = "bpc_owner"
APP_ROLE: Final = "bpc_app"
SYSTEM_ROLE: Final = "bpc_system"

ROLE_ATTRIBUTES: Final = "NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
SELECT_MISSING_ROLES: Final[LiteralString] = """
    SELECT name FROM unnest($1::text[]) AS wanted(name)
     WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
     ORDER BY name
"""
# For a superuser, every function says that it is a member; only the catalogue says whether the membership exists.
SYSTEM_IS_MEMBER_OF_APP: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM pg_auth_members m
                     JOIN pg_roles r ON r.oid = m.roleid
                     JOIN pg_roles u ON u.oid = m.member
                    WHERE r.rolname = 'bpc_app' AND u.rolname = 'bpc_system')
"""
SELECT_MISSING_GRANTS: Final[LiteralString] = """
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
    """The login may not create the missing roles or rights; an administrator can, with the SQL in `fix`."""

    def __init__(self, statements: list[str]) -> None:
        super().__init__(
            "roles or rights are missing in the database, and this login may not create them",
            fix="have an administrator of the database run:\n  " + ";\n  ".join(statements) + ";",
            details={"sql": statements},
        )


async def ensure_roles(conn: Connection) -> None:
    """Create missing roles and rights, if the login may; call it in a transaction that holds the migration lock."""
    statements = await list_missing_statements(conn)
    try:
        for statement in statements:
            # Roles belong to the whole server: another process may be creating them for another database.
            with suppress(asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
                async with conn.transaction():
                    await conn.execute(statement)
    except asyncpg.InsufficientPrivilegeError as error:
        raise RolesMissing(statements) from error
    # A GRANT without the right to grant is only a warning: check the result.
    if statements and (remaining := await list_missing_statements(conn)):
        raise RolesMissing(remaining)


async def list_missing_statements(conn: Connection) -> list[str]:
    """The SQL that creates the missing roles, memberships and rights."""
    missing = [row["name"] for row in await conn.fetch(SELECT_MISSING_ROLES, [OWNER_ROLE, APP_ROLE, SYSTEM_ROLE])]
    login = await conn.fetchval("SELECT quote_ident(session_user)")
    statements = [f"CREATE ROLE {name} {ROLE_ATTRIBUTES}" for name in missing]
    all_roles = (OWNER_ROLE, APP_ROLE, SYSTEM_ROLE)
    to_grant = [name for name in all_roles if name in missing or not await _can_set_role(conn, name)]
    statements += [f"GRANT {name} TO {login}" for name in to_grant]
    if not await conn.fetchval(SYSTEM_IS_MEMBER_OF_APP):
        statements.append(f"GRANT {APP_ROLE} TO {SYSTEM_ROLE}")
    if missing:
        database = await conn.fetchval("SELECT quote_ident(current_database())")
        statements += [
            f"GRANT CREATE ON DATABASE {database} TO {OWNER_ROLE}",
            f"GRANT CREATE, USAGE ON SCHEMA public TO {OWNER_ROLE}",
            f"GRANT USAGE ON SCHEMA public TO {APP_ROLE}",
            f"GRANT USAGE ON SCHEMA public TO {SYSTEM_ROLE}",
        ]
    else:
        statements += [row["grant_it"] for row in await conn.fetch(SELECT_MISSING_GRANTS)]
    return statements


async def _can_set_role(conn: Connection, role: str) -> bool:
    # By trying: what a membership allows differs between versions of PostgreSQL.
    try:
        async with conn.transaction():
            await conn.execute(f"SET LOCAL ROLE {role}")
            await conn.execute("SET LOCAL ROLE NONE")
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError, asyncpg.UndefinedObjectError):
        return False
    return True
