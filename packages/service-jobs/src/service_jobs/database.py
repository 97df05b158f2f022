"""Database connections of the engine, and its tables.

    sessions = Sessions(connect, size=10)                 connect(**options) is asyncpg.connect with an address
    async with sessions.tenant(tenant) as conn:           a transaction bound to a tenant
    conn = await sessions.connect_worker("claims")        a session of its own, for a worker
    await install(conn)                                   create the tables or bring them up to date

With row-level security, submitters use a `role` that sees one tenant, and workers a `worker_role` that sees all jobs
and no other data. A transaction is bound to a tenant by the setting `app.tenant_id`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from importlib import resources
from typing import Any, Final, LiteralString, cast
from uuid import UUID

import asyncpg

from service_jobs.context import Connection
from service_jobs.job import JobsRefusal

Connect = Callable[..., "Coroutine[Any, Any, asyncpg.Connection[asyncpg.Record]]"]

# The hot statements must keep their plans: statistics of tables that fill and empty all the time mislead the planner.
PINNED_PLANS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}
# InternalClientError: asyncpg raises it when a session is cut while it sends or idles.
CONNECTION_LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
NOT_INSTALLED_ERRORS: Final = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
)
ACQUIRE_SECONDS: Final = 30.0
BEGIN_SECONDS: Final = 5.0


class JobPoolExhausted(JobsRefusal):
    """All connections of the pool are in use."""

    code = "DB_UNAVAILABLE"
    retryable = True

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} connections of the job engine have been in use for {ACQUIRE_SECONDS:.0f} s",
            fix="try again; if it persists, raise the pool size or lower the concurrency",
            details={"size": size},
        )


class EngineNotInstalled(JobsRefusal):
    """This is not a database the engine can work with, and waiting will not change that."""

    code = "SCHEMA_MISMATCH"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the job engine cannot work with this database: {reason}",
            fix="create the engine's tables with `service_jobs.install` or your own migrations, "
            "and check the login and its rights",
        )


class Sessions:
    """A pool for submitting and querying, and single sessions for workers."""

    def __init__(
        self,
        connect: Connect,
        *,
        size: int = 10,
        role: str | None = None,
        worker_role: str | None = None,
        application_name: str = "service-jobs",
    ) -> None:
        self._connect = connect
        self._application_name = application_name
        self._size = size
        self._role = {} if role is None else {"role": role}
        self._worker_role = {} if worker_role is None else {"role": worker_role}
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            connect=self._connect,
            connection_class=_TenantBindingConnection,
            min_size=0,
            max_size=self._size,
            reset=_skip_reset,
            server_settings={
                "application_name": self._application_name,
                "timezone": "UTC",
                "jit": "off",
                **self._role,
            },
        )

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    @property
    def size(self) -> int:
        """The largest number of connections in the pool."""
        return self._size

    @property
    def pool(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            raise RuntimeError("open the sessions first")
        return self._pool

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection that is bound to no tenant: every statement is its own transaction."""
        conn = await self._acquire()
        try:
            yield conn
        finally:
            await self.pool.release(conn)  # type: ignore[arg-type]

    @asynccontextmanager
    async def tenant(self, tenant: UUID) -> AsyncIterator[Connection]:
        """A transaction bound to `tenant`."""
        async with await self.begin(tenant) as conn:
            yield conn

    async def begin(self, tenant: UUID) -> "OpenTransaction":
        """Begin a transaction bound to `tenant`, which the caller ends.

        If the network lost the connection that the pool had, it tries once more with another: nothing was done yet.
        """
        try:
            return await self._begin_once(tenant)
        except CONNECTION_LOST:
            await self.pool.expire_connections()  # the others are as old
            return await self._begin_once(tenant)

    async def _begin_once(self, tenant: UUID) -> "OpenTransaction":
        conn = await self._acquire()
        timer = asyncio.get_running_loop().call_later(BEGIN_SECONDS, _terminate, conn)
        try:
            transaction = OpenTransaction(self.pool, conn)
            await transaction.start(tenant)
        except BaseException:
            _terminate(conn)  # in whatever state it is
            await self.pool.release(conn)  # type: ignore[arg-type]
            raise
        finally:
            timer.cancel()
        return transaction

    async def _acquire(self) -> Connection:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):  # cheaper than the pool's own timeout, which creates a task
                return await self.pool.acquire()
        except TimeoutError:
            if self.pool.get_idle_size() or self.pool.get_size() < self._size:
                raise  # there are free connections: the database does not answer
            raise JobPoolExhausted(self._size) from None

    async def connect_worker(self, name: str, **settings: str) -> "asyncpg.Connection[asyncpg.Record]":
        """A session of its own, with pinned plans, that sees the jobs of all tenants."""
        application_name = f"{self._application_name} {name}"
        server_settings: dict[str, Any] = {"application_name": application_name, "timezone": "UTC", **PINNED_PLANS}
        return await self._connect(server_settings=server_settings | self._worker_role | settings)


class _TenantBindingConnection(asyncpg.Connection):
    """A connection that binds a transaction to its tenant together with BEGIN: one round trip instead of two."""

    __slots__ = ("_with_begin",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._with_begin = ""

    def begin_with(self, statement: str) -> None:
        """Send `statement` together with the next BEGIN."""
        self._with_begin = statement

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:  # noqa: ASYNC109
        if self._with_begin and query.startswith("BEGIN"):
            query, self._with_begin = f"{query};{self._with_begin}", ""
        return await super().execute(query, *args, timeout=timeout)


class OpenTransaction:
    """A transaction that has begun. Leaving it commits or rolls back and returns the connection to the pool."""

    __slots__ = ("_pool", "_timer", "_transaction", "conn", "on_end")

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", conn: Connection) -> None:
        self.conn = conn
        self._pool = pool
        self._timer: asyncio.TimerHandle | None = None
        self._transaction = conn.transaction()
        self.on_end: Callable[[], None] | None = None  # called when the connection is back in the pool

    async def start(self, tenant: UUID) -> None:
        """Begin, bound to `tenant`."""
        conn = cast("_TenantBindingConnection", self.conn)  # the pool's proxy passes calls on to one
        conn.begin_with(f"SET LOCAL app.tenant_id = '{UUID(int=tenant.int)}'")
        await self._transaction.start()

    async def end(self, *, commit: bool) -> None:
        try:
            try:
                await (self._transaction.commit() if commit else self._transaction.rollback())
            finally:
                await self._pool.release(self.conn)  # type: ignore[arg-type]
        finally:
            self._cancel_timer()
            if self.on_end is not None:
                self.on_end()

    def terminate_after(self, seconds: float) -> None:
        """Cut the connection after `seconds` unless it has ended: a broken network would keep us waiting for hours."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.terminate)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def terminate(self) -> None:
        """Close the connection without telling the server."""
        _terminate(self.conn)

    async def __aenter__(self) -> Connection:
        return self.conn

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.end(commit=kind is None)


def _terminate(conn: Connection) -> None:
    with suppress(asyncpg.InterfaceError):  # the pool has taken it back
        conn.terminate()


async def _skip_reset(conn: Connection) -> None:
    """All settings are local to a transaction, so there is nothing to reset; this saves a round trip."""


# The engine's tables ------------------------------------------------------------------------------------------------

INSTALL_LOCK: Final[LiteralString] = "SELECT pg_advisory_xact_lock(1785684595, 2)"
CREATE_INSTALLED: Final[LiteralString] = """
    CREATE SCHEMA IF NOT EXISTS jobs;
    CREATE TABLE IF NOT EXISTS jobs.installed (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())
"""


async def install(conn: Connection) -> list[str]:
    """Bring the engine's tables up to date; returns the names of the applied migrations.

    A service with a migration tool of its own runs `list_migrations` with that instead; `install` then does nothing.
    """
    async with conn.transaction():
        await conn.execute(INSTALL_LOCK)
        pending = await list_pending(conn)
        if pending:
            await conn.execute(CREATE_INSTALLED)
        migrations = dict(list_migrations())
        for name in pending:
            await conn.execute(migrations[name])
            await conn.execute("INSERT INTO jobs.installed (name) VALUES ($1)", name)
    return pending


async def list_pending(conn: Connection) -> list[str]:
    """The names of the migrations that `install` would apply, in order."""
    names = [name for name, _ in list_migrations()]
    if await conn.fetchval("SELECT to_regclass('jobs.installed') IS NOT NULL"):
        installed_names = {row["name"] for row in await conn.fetch("SELECT name FROM jobs.installed")}
        return [name for name in names if name not in installed_names]
    if await conn.fetchval("SELECT to_regclass('jobs.job') IS NOT NULL"):
        return []  # the service's own migrations created the tables
    return names


def list_migrations() -> list[tuple[str, str]]:
    """The engine's SQL files as (name, SQL), in order."""
    folder = resources.files("service_jobs") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(file.name, file.read_text()) for file in files]
