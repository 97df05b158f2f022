"""The driver's connection: its type, and one opened as the login itself.

Requests and jobs take theirs from bpc.db.database, with a role and a tenant; what comes before the roles exist,
which is preparing, migrating and looking, is done here.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from bpc.db.address import Address
from bpc.db.failures import SAID_BY_THE_DRIVER, in_our_words, unreachable

RECOVERY_SECONDS: Final = 10

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"


async def connect(*arguments: Any, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
    """The driver's `connect`, with patience for a server that is just starting or recovering."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return await asyncpg.connect(*arguments, **named)
        except asyncpg.CannotConnectNowError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


@asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Connection]:
    """One connection; what goes wrong with it comes out in our words."""
    try:
        conn = await connect(**address.connect_arguments())
    except (*SAID_BY_THE_DRIVER, OSError, TimeoutError, ValueError) as said:
        raise (in_our_words(said) or unreachable(said)) from said
    try:
        yield conn
    except SAID_BY_THE_DRIVER as said:
        refusal = in_our_words(said) or (unreachable(said) if conn.is_closed() else None)
        if refusal is None:
            raise
        raise refusal from said
    finally:
        await conn.close()
