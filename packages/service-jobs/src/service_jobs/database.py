"""Where the engine gets its database connections.

    sessions = Sessions(connect, size=10)         connect(**named) is asyncpg.connect with an address in it
    async with sessions.tenant(tenant) as conn:   a transaction bound to a tenant
    conn = await sessions.worker("claims")        a session of its own, for a worker

With row-level security, submitters use a role that sees one tenant and workers one that sees all jobs and no other
data of tenants; both are names given here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast
from uuid import UUID

import asyncpg

from bpc.jobs.context import Connection
from bpc.jobs.errors import JobsRefusal

Connect = Callable[..., "Coroutine[Any, Any, asyncpg.Connection[asyncpg.Record]]"]

# The hot statements must keep their plans whatever the statistics say of tables that fill and empty all the time.
PINNED: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}


LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
ACQUIRE_SECONDS: Final = 30.0
BEGIN_SECONDS: Final = 5.0


class AllInUse(JobsRefusal):
    """Everybody else is still using the connections there are."""

    code = "DB_UNAVAILABLE"
    retryable = True

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} connections of the job engine have been in use for {ACQUIRE_SECONDS:.0f} s",
            fix="try again; if it stays so, give it more, or run fewer jobs at a time",
            details={"size": size},
        )


class Sessions:
    """A pool for submitting and looking, and single sessions for workers."""

    def __init__(
        self, connect: Connect, *, size: int = 10, role: str | None = None, worker_role: str | None = None
    ) -> None:
        self._connect = connect
        self._size = size
        self._role = {} if role is None else {"role": role}
        self._worker_role = {} if worker_role is None else {"role": worker_role}
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            connect=self._connect,
            connection_class=_Binding,
            min_size=0,
            max_size=self._size,
            reset=_nothing_to_reset,
            server_settings={"application_name": "bpc jobs", "timezone": "UTC", "jit": "off", **self._role},
        )

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    @property
    def size(self) -> int:
        """Most connections of the pool."""
        return self._size

    @property
    def pool(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            raise RuntimeError("open the sessions first")
        return self._pool

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Connection]:
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

    async def begin(self, tenant: UUID) -> "Begun":
        """A transaction bound to `tenant`, for the caller to end.

        Nothing is done yet: if the network lost the connection that the pool had, another one will do.
        """
        try:
            return await self._begin_once(tenant)
        except LOST:
            await self.pool.expire_connections()  # the others are as old
            return await self._begin_once(tenant)

    async def _begin_once(self, tenant: UUID) -> "Begun":
        conn = await self._acquire()
        timer = asyncio.get_running_loop().call_later(BEGIN_SECONDS, _cut, conn)
        try:
            begun = Begun(self.pool, conn)
            await begun.start(tenant)
        except BaseException:
            _cut(conn)  # in whatever state it is
            await self.pool.release(conn)  # type: ignore[arg-type]
            raise
        finally:
            timer.cancel()
        return begun

    async def _acquire(self) -> Connection:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):  # the pool's own makes a task of it, for each connection
                return await self.pool.acquire()
        except TimeoutError:
            if self.pool.get_idle_size() or self.pool.get_size() < self._size:
                raise  # not for want of connections: the database does not answer
            raise AllInUse(self._size) from None

    async def worker(self, name: str, **settings: str) -> "asyncpg.Connection[asyncpg.Record]":
        """A session of its own, with pinned plans, that sees the jobs of all tenants."""
        named: dict[str, Any] = {"application_name": f"bpc jobs {name}", "timezone": "UTC", **PINNED}
        return await self._connect(server_settings=named | self._worker_role | settings)


class _Binding(asyncpg.Connection):
    """A connection that can say to whom a transaction belongs when it begins it: one message, one answer."""

    __slots__ = ("_more",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._more = ""

    def begin_with(self, statement: str) -> None:
        """Say this, too, with the next BEGIN."""
        self._more = statement

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:  # noqa: ASYNC109
        if self._more and query.startswith("BEGIN"):
            query, self._more = f"{query};{self._more}", ""
        return await super().execute(query, *args, timeout=timeout)


class Begun:
    """A transaction that has begun. Leaving it commits or rolls back, and gives the connection back to the pool."""

    __slots__ = ("_pool", "_transaction", "conn")

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", conn: Connection) -> None:
        self.conn = conn
        self._pool = pool
        self._transaction = conn.transaction()

    async def start(self, tenant: UUID) -> None:
        """Begin, bound to `tenant`."""
        conn = cast("_Binding", self.conn)  # the pool has no others, behind its proxy
        conn.begin_with(f"SET LOCAL app.tenant_id = '{UUID(int=tenant.int)}'")
        await self._transaction.start()

    async def end(self, *, commit: bool) -> None:
        try:
            await (self._transaction.commit() if commit else self._transaction.rollback())
        finally:
            await self._pool.release(self.conn)  # type: ignore[arg-type]

    def cut(self) -> None:
        """Close the connection, without a word to the server."""
        _cut(self.conn)

    async def __aenter__(self) -> Connection:
        return self.conn

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.end(commit=kind is None)


def _cut(conn: Connection) -> None:
    with suppress(asyncpg.InterfaceError):  # the pool has taken it back
        conn.terminate()


async def _nothing_to_reset(conn: Connection) -> None:
    """Settings are local to a transaction here, so a connection comes back as it went; a round trip is saved."""
