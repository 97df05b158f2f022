"""A pool of connections and the one way to use it: a transaction with a tenant and a role.

    async with database.tenant(tenant_id) as conn:    # bpc_app, sees this tenant and no other
        await events.append(conn, …)
    async with database.system() as conn:             # bpc_system, for the few paths that cross tenants

A session starts as `bpc_app` without a tenant, so code that forgets the tenant sees no rows. Errors of the driver
become refusals (bpc.storage.error_mapping).

`open_migrated_database(settings)` opens the embedded server or the one in the settings, and checks its migrations.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, LiteralString, TypeAlias
from uuid import UUID

import asyncpg

from bpc.core.errors import DatabaseUnavailable, SchemaMismatch
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import LOGIN
from bpc.runtime.postgres.server import EmbeddedServer, use_server
from bpc.runtime.settings import Settings, data_dir
from bpc.storage.connection import (
    APP_ROLE,
    OWNER_ROLE,
    PLAN_SETTINGS,
    SYSTEM_ROLE,
    Connection,
    NewKey,
    PooledConnection,
    RoleTransaction,
    connect,
    ensure_roles,
    mark_clean,
    open_connection,
    release,
)
from bpc.storage.error_mapping import DRIVER_ERRORS, map_connection_error, map_driver_error
from bpc.storage.migrate import MIGRATION_LOCK, list_migrations, migrate, require_current_schema

ACQUIRE_SECONDS: Final = 30.0

# `Database.tenant`, as an argument.
OpenTransaction: TypeAlias = Callable[[TenantId], AbstractAsyncContextManager[Connection]]


class PoolExhausted(DatabaseUnavailable):
    """All connections of the pool are in use."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} database connections have been busy for {ACQUIRE_SECONDS:.0f} s", hint="enlarge the pool"
        )


@dataclass(frozen=True, slots=True)
class Database:
    """An open pool."""

    pool: "asyncpg.Pool[asyncpg.Record]"
    address: Address

    @asynccontextmanager
    async def tenant(
        self, tenant: TenantId, *, access_version: UUID | None = None, new_key: NewKey | None = None
    ) -> AsyncIterator[Connection]:
        """A transaction as the application, bound to `tenant`.

        Raises `AccessChanged` if the tenant's access no longer has this version, `KeyUsed` if the key is not new.
        """
        conditions = "" if access_version is None else f"; SELECT require_access_version('{access_version}')"
        if new_key is not None:
            conditions += f"; {new_key.to_statement()}"
        async with self.plain() as conn, begin_transaction(conn, APP_ROLE, tenant, conditions, is_last=True):
            yield conn

    @asynccontextmanager
    async def system(self, tenant: TenantId | None = None) -> AsyncIterator[Connection]:
        """A transaction as the system role: it sees all tenants' names, and the data of `tenant`."""
        async with self.plain() as conn, begin_transaction(conn, SYSTEM_ROLE, tenant, is_last=True):
            yield conn

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Connection]:
        """A connection as the application without a tenant or transaction: to find out who calls."""
        conn = await self._acquire()
        try:
            yield conn
        except DRIVER_ERRORS as error:
            if refusal := map_driver_error(error) or (map_connection_error(error) if _is_lost(conn) else None):
                raise refusal from error
            raise
        finally:
            await self._release(conn)

    async def fetch_row_at_once(self, statement: LiteralString, *arguments: object) -> "asyncpg.Record | None":
        """The row of one statement outside of a transaction.

        It must leave nothing behind in the session, which is not reset after it: what it sets, it sets for itself.
        """
        async with self.plain() as conn:
            row = await conn.fetchrow(statement, *arguments)
            mark_clean(conn)
            return row

    async def close(self) -> None:
        """Close the connections; terminate them if the server does not answer."""
        try:
            await asyncio.wait_for(self.pool.close(), timeout=5)
        except (TimeoutError, *DRIVER_ERRORS, OSError):
            self.pool.terminate()

    async def _acquire(self) -> Connection:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):  # the pool's own timeout creates a task for each connection
                return await self.pool.acquire()
        except (*DRIVER_ERRORS, OSError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and self.pool.get_size() == self.pool.get_max_size():
                raise PoolExhausted(self.pool.get_max_size()) from error
            raise (map_driver_error(error) or map_connection_error(error)) from error

    async def _release(self, conn: Connection) -> None:
        # The pool terminates a connection that cannot be reset; the caller need not know.
        with suppress(*DRIVER_ERRORS, OSError):
            await release(self.pool, conn)


def begin_tenant_transaction(conn: Connection, tenant: TenantId) -> AbstractAsyncContextManager[None]:
    """A transaction as the application, bound to `tenant`, on a connection of `plain`."""
    return begin_transaction(conn, APP_ROLE, tenant)


@asynccontextmanager
async def use_system_role(conn: Connection) -> AsyncIterator[None]:
    """The system role for a part of the application's transaction; the tenant stays the same."""
    await conn.execute(f"SET LOCAL ROLE {SYSTEM_ROLE}")
    yield
    await conn.execute(f"SET LOCAL ROLE {APP_ROLE}")  # not after an error: the transaction accepts no more commands


@asynccontextmanager
async def begin_transaction(
    conn: Connection, role: str, tenant: TenantId | None = None, conditions: str = "", *, is_last: bool = False
) -> AsyncIterator[None]:
    """A transaction in this role, bound to `tenant` if there is one; then the `conditions` before anything else.

    `is_last` is that of `RoleTransaction`.
    """
    set_tenant = f"; SET LOCAL app.tenant_id = '{tenant}'" if tenant else ""
    settings = f"SET LOCAL ROLE {role}{set_tenant}{conditions}"
    if not conn.is_in_transaction():
        async with RoleTransaction(conn, settings, is_last=is_last):
            yield
        return
    async with conn.transaction():
        await conn.execute(settings)
        yield


async def bind_tenant(conn: Connection, tenant: TenantId) -> None:
    """Bind the rest of a transaction of the system role to another tenant."""
    await conn.execute(f"SET LOCAL app.tenant_id = '{tenant}'")


@asynccontextmanager
async def visit_tenant(conn: Connection, other: TenantId, *, back_to: TenantId) -> AsyncIterator[None]:
    """Bind a part of a transaction to another tenant: for what two tenants have agreed on, in one transaction."""
    await bind_tenant(conn, other)
    yield
    await bind_tenant(conn, back_to)  # not after an error: the transaction is rolled back, and the binding with it


def _is_lost(conn: Connection) -> bool:
    # The driver raises the same error for a lost connection and for wrong use; only wrong use is a bug.
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has already taken the lost connection away


async def open_database(
    address: Address, *, pool_size: int, restart_server: Callable[[], None] | None = None
) -> Database:
    """Open a pool on a migrated database. `restart_server` is called when the server is gone."""

    async def connect_or_restart(*arguments: Any, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
        try:
            return await connect(*arguments, **options)
        except OSError:
            if restart_server is None:
                raise
            await asyncio.to_thread(restart_server)
            return await connect(*arguments, **options)

    try:
        pool = await asyncpg.create_pool(
            **address.connect_arguments(),
            connect=connect_or_restart,
            reset=PooledConnection.reset_session,  # type: ignore[arg-type]
            connection_class=PooledConnection,
            min_size=min(1, pool_size),
            max_size=pool_size,
            server_settings={
                "role": APP_ROLE,
                "search_path": "public",
                "application_name": "bpc",
                "timezone": "UTC",
                **PLAN_SETTINGS,
            },
        )
    except (*DRIVER_ERRORS, OSError, TimeoutError, ValueError) as error:
        raise (map_driver_error(error) or map_connection_error(error)) from error
    return Database(pool, address)


# The embedded server ----------------------------------------------------------------------------------------------

LOGIN_EXISTS: Final[LiteralString] = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bpc')"
DATABASE_EXISTS: Final[LiteralString] = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"


async def prepare_embedded_server(server: EmbeddedServer, database: str) -> None:
    """Create roles, login and `database` on `server`; safe if several processes do it at once."""
    async with open_connection(server.superuser_address()) as conn:
        async with conn.transaction():
            await conn.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await ensure_roles(conn)
            if not await conn.fetchval(LOGIN_EXISTS):
                # NOINHERIT: this login has no rights until a transaction sets a role.
                await conn.execute(f"CREATE ROLE {LOGIN} LOGIN NOINHERIT")
                await conn.execute(f"GRANT {OWNER_ROLE}, {APP_ROLE}, {SYSTEM_ROLE} TO {LOGIN}")
        if not await conn.fetchval(DATABASE_EXISTS, database):
            await _create_database(conn, database)


async def _create_database(conn: Connection, database: str) -> None:
    quoted_name = await conn.fetchval("SELECT quote_ident($1)", database)
    try:
        await conn.execute(f"CREATE DATABASE {quoted_name} OWNER {OWNER_ROLE}")
    except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        pass  # another process was faster
    else:
        await conn.execute(f"GRANT CONNECT ON DATABASE {quoted_name} TO {LOGIN}")
        await conn.execute(f"REVOKE ALL ON DATABASE {quoted_name} FROM PUBLIC")


# From settings to an open database --------------------------------------------------------------------------------

MIN_SERVER_VERSION: Final = 150000
SELECT_IS_POWERFUL: Final[LiteralString] = """
    SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user
"""


class PowerfulLogin(SchemaMismatch):
    """The login of a service is a superuser or passes row-level security."""

    code = "CONFIG_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "the login of the database is a superuser, or passes row-level security", hint="use a plain login"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLocation:
    """Where the database is; for the embedded server, also how to restart it."""

    address: Address
    restart_server: Callable[[], None] | None
    server: EmbeddedServer | None


@asynccontextmanager
async def locate_database(settings: Settings, *, read_only: bool = False) -> AsyncIterator[DatabaseLocation]:
    """Yield the address; start the embedded server and keep it until exit.

    With `read_only`, create neither roles nor the database.
    """
    if (dsn := settings.database_dsn) is not None:
        yield DatabaseLocation(address=Address.parse(dsn.get_secret_value()), restart_server=None, server=None)
        return
    folder = data_dir.prepare_data_dir(settings.data_dir)
    server = await _use_embedded_server(folder)
    try:
        if not read_only:
            await prepare_embedded_server(server, settings.db_name)
        yield DatabaseLocation(
            address=server.address(settings.db_name), restart_server=server.ensure_running, server=server
        )
    finally:
        server.release()


async def _use_embedded_server(folder: Path) -> EmbeddedServer:
    cancel_event = threading.Event()
    try:
        return await asyncio.to_thread(use_server, folder, cancel_event)
    except asyncio.CancelledError:
        cancel_event.set()  # Ctrl-C: the thread stops waiting
        raise


@asynccontextmanager
async def open_migrated_database(
    settings: Settings,
    *,
    migrate_first: bool = False,
    serving: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Database]:
    """Yield a pool on a database that has every migration of this build. `report` is called with each step.

    Whoever serves others must not be logged in as a superuser in prod: row-level security does not bind superusers.
    """
    report("starting the database" if settings.database_dsn is None else "connecting to the database")
    async with locate_database(settings) as location:
        async with open_connection(location.address) as conn:
            await require_server_version(conn)
            if serving and settings.env == "prod" and "superuser-database" not in settings.prod_allow:
                await require_plain_login(conn)
            if migrate_first:
                report("applying migrations")
                await migrate_and_complete(conn)
            await require_current_schema(conn, list_migrations())
            clock.adopt(await read_server_time(conn))
        database = await open_database(
            location.address, pool_size=settings.db_pool_size, restart_server=location.restart_server
        )
        try:
            yield database
        finally:
            await database.close()


async def migrate_and_complete(conn: Connection) -> list[str]:
    """Apply pending migrations, and do what SQL files cannot: changes that are events. Return the files' names."""
    from bpc.storage.access.added_permissions import (  # noqa: PLC0415 (it needs this module)
        add_permissions_to_older_tenants,
    )

    names = await migrate(conn, list_migrations())
    await add_permissions_to_older_tenants(conn)
    return names


async def require_server_version(conn: Connection) -> None:
    """Refuse PostgreSQL before version 15."""
    number = int(await conn.fetchval("SELECT current_setting('server_version_num')"))
    if number < MIN_SERVER_VERSION:
        raise SchemaMismatch(
            f"PostgreSQL {number // 10000} is too old; bpc needs 15 or later", hint="upgrade the server"
        )


async def require_plain_login(conn: Connection) -> None:
    """Refuse a login that passes row-level security."""
    if await conn.fetchval(SELECT_IS_POWERFUL):
        raise PowerfulLogin


async def read_server_version(conn: Connection) -> str:
    version: str = await conn.fetchval("SELECT current_setting('server_version')")
    return version


async def read_server_time(conn: Connection) -> datetime:
    moment: datetime = await conn.fetchval("SELECT clock_timestamp()")
    return moment


async def has_table(conn: Connection, name: str) -> bool:
    return bool(await conn.fetchval("SELECT to_regclass('public.' || $1) IS NOT NULL", name))


async def has_function(conn: Connection, signature: str) -> bool:
    """Whether a function like `api_keys_by_pepper()` exists."""
    return bool(await conn.fetchval("SELECT to_regprocedure('public.' || $1) IS NOT NULL", signature))


async def freeze_view(conn: Connection) -> None:
    """Let every query of this transaction see the data of one moment; the transaction can write nothing."""
    await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


async def lock_name(conn: Connection, name: str) -> None:
    """Wait until no other transaction holds the lock of this name, and hold it until this one ends."""
    await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)
