"""A pool of connections and the one way to use it: a transaction with a tenant and a role.

    async with database.tenant(tenant_id) as conn:    # bpc_app, sees this tenant and no other
        await events.append(conn, …)
    async with database.system() as conn:             # bpc_system, for the few paths that cross tenants

A session starts as `bpc_app` without a tenant, so code that forgets to say which sees nothing.
What goes wrong inside comes out in our words (bpc.db.failures).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg

from bpc.core.errors import DatabaseUnavailable
from bpc.core.ids import TenantId
from bpc.db.address import Address
from bpc.db.connection import Connection, connect
from bpc.db.failures import SAID_BY_THE_DRIVER, in_our_words, unreachable
from bpc.db.roles import APP, SYSTEM

ACQUIRE_SECONDS: Final = 30.0

Opening: TypeAlias = Callable[[TenantId], AbstractAsyncContextManager[Connection]]  # `Database.tenant`, handed over


class PoolBusy(DatabaseUnavailable):
    """Everybody else is still using the connections there are."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} database connections have been busy for {ACQUIRE_SECONDS:.0f} s",
            fix="try again; if it stays so, raise BPC_DB_POOL_SIZE",
        )


@dataclass(frozen=True, slots=True)
class Database:
    """An open pool."""

    pool: "asyncpg.Pool[asyncpg.Record]"
    address: Address

    @asynccontextmanager
    async def tenant(self, tenant: TenantId) -> AsyncIterator[Connection]:
        """A transaction as the application, bound to `tenant`."""
        async with self.plain() as conn, bound(conn, tenant):
            yield conn

    @asynccontextmanager
    async def system(self, tenant: TenantId | None = None) -> AsyncIterator[Connection]:
        """A transaction as the system: all tenants' names, and one tenant's data if it is named."""
        async with self.plain() as conn, _begun(conn, SYSTEM, tenant):
            yield conn

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Connection]:
        """A connection as the application without a tenant, each statement for itself: for finding out who calls."""
        conn = await self._acquire()
        try:
            yield conn
        except SAID_BY_THE_DRIVER as said:
            if refusal := in_our_words(said) or (unreachable(said) if _is_lost(conn) else None):
                raise refusal from said
            raise
        finally:
            await self._release(conn)

    async def close(self) -> None:
        """Give the connections back; a server that is gone already needs no farewell."""
        try:
            await asyncio.wait_for(self.pool.close(), timeout=5)
        except (TimeoutError, *SAID_BY_THE_DRIVER, OSError):
            self.pool.terminate()

    async def _acquire(self) -> Connection:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):  # the pool's own makes a task of it, for each connection
                return await self.pool.acquire()
        except (*SAID_BY_THE_DRIVER, OSError, TimeoutError) as said:
            if isinstance(said, TimeoutError) and self.pool.get_size() == self.pool.get_max_size():
                raise PoolBusy(self.pool.get_max_size()) from said
            raise (in_our_words(said) or unreachable(said)) from said

    async def _release(self, conn: Connection) -> None:
        # A connection that cannot be reset is terminated by the pool and not used again: no news for the caller.
        with suppress(*SAID_BY_THE_DRIVER, OSError):
            await self.pool.release(conn)  # type: ignore[arg-type]


def bound(conn: Connection, tenant: TenantId) -> AbstractAsyncContextManager[None]:
    """A transaction as the application, bound to `tenant`, on a connection of `plain`."""
    return _begun(conn, APP, tenant)


@asynccontextmanager
async def as_system(conn: Connection) -> AsyncIterator[None]:
    """The system's rights for a part of the application's transaction; it stays bound to its tenant."""
    await conn.execute(f"SET LOCAL ROLE {SYSTEM}")
    yield
    await conn.execute(f"SET LOCAL ROLE {APP}")  # not after an error: then the transaction takes no more commands


@asynccontextmanager
async def _begun(conn: Connection, role: str, tenant: TenantId | None) -> AsyncIterator[None]:
    of_tenant = f"; SET LOCAL app.tenant_id = '{tenant}'" if tenant else ""
    async with conn.transaction():
        await conn.execute(f"SET LOCAL ROLE {role}{of_tenant}")
        yield


def _is_lost(conn: Connection) -> bool:
    # The driver has one error for a lost connection and for wrong use of it; only the former is not a bug of ours.
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has already taken the lost connection away


async def _reset(conn: Connection) -> None:
    # RESET ALL, which the driver's own query ends with, leaves the role as it is.
    await conn.execute(f"{conn.get_reset_query()}; RESET ROLE")


async def open_database(address: Address, *, pool_size: int, revive: Callable[[], None] | None = None) -> Database:
    """Open a pool on a migrated database. `revive` is asked to bring the server back when it is not there."""

    async def reached(*arguments: Any, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        try:
            return await connect(*arguments, **named)
        except OSError:
            if revive is None:
                raise
            await asyncio.to_thread(revive)
            return await connect(*arguments, **named)

    try:
        pool = await asyncpg.create_pool(
            **address.connect_arguments(),
            connect=reached,
            reset=_reset,
            min_size=min(1, pool_size),
            max_size=pool_size,
            server_settings={
                "role": APP,
                "search_path": "public",
                "application_name": "bpc",
                "timezone": "UTC",
            },
        )
    except (*SAID_BY_THE_DRIVER, OSError, TimeoutError, ValueError) as said:
        raise (in_our_words(said) or unreachable(said)) from said
    return Database(pool, address)
