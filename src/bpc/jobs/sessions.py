"""Where the engine gets its database connections.

    sessions = Sessions(connect, size=10)         connect(**named) is asyncpg.connect with an address in it
    async with sessions.tenant(tenant) as conn:   a transaction bound to a tenant
    conn = await sessions.worker("claims")        a session of its own, for a worker

With row-level security, submitters use a role that sees one tenant and workers one that sees all jobs and no other
data of tenants; both are names given here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final
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
        async with AsyncExitStack() as stack:
            yield await self._acquire(stack)

    @asynccontextmanager
    async def tenant(self, tenant: UUID) -> AsyncIterator[Connection]:
        """A transaction bound to `tenant`."""
        async with AsyncExitStack() as stack:
            yield await self._begin(stack, tenant)

    async def _begin(self, stack: AsyncExitStack, tenant: UUID) -> Connection:
        """Nothing is done yet: if the network lost the connection that the pool had, another one will do."""
        try:
            return await self._begin_once(stack, tenant)
        except LOST:
            await self.pool.expire_connections()  # the others are as old
            return await self._begin_once(stack, tenant)

    async def _begin_once(self, stack: AsyncExitStack, tenant: UUID) -> Connection:
        async with AsyncExitStack() as attempt:
            conn = await self._acquire(attempt)
            timer = asyncio.get_running_loop().call_later(BEGIN_SECONDS, _cut, conn)
            try:
                await attempt.enter_async_context(conn.transaction())
                await conn.execute(f"SET LOCAL app.tenant_id = '{UUID(int=tenant.int)}'")
            finally:
                timer.cancel()
            stack.push_async_exit(attempt.pop_all())
        return conn

    async def _acquire(self, stack: AsyncExitStack) -> Connection:
        try:
            return await stack.enter_async_context(self.pool.acquire(timeout=ACQUIRE_SECONDS))
        except TimeoutError:
            if self.pool.get_idle_size() or self.pool.get_size() < self._size:
                raise  # not for want of connections: the database does not answer
            raise AllInUse(self._size) from None

    async def worker(self, name: str, **settings: str) -> "asyncpg.Connection[asyncpg.Record]":
        """A session of its own, with pinned plans, that sees the jobs of all tenants."""
        named: dict[str, Any] = {"application_name": f"bpc jobs {name}", "timezone": "UTC", **PINNED}
        return await self._connect(server_settings=named | self._worker_role | settings)


def _cut(conn: Connection) -> None:
    with suppress(asyncpg.InterfaceError):  # the pool has taken it back
        conn.terminate()


async def _nothing_to_reset(conn: Connection) -> None:
    """Settings are local to a transaction here, so a connection comes back as it went; a round trip is saved."""
