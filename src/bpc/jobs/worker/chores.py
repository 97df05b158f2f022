"""Chores: what has to be done now and then by some worker, no matter which.

Every worker runs every chore, on a session of their own; each must therefore be short, bounded and safe beside itself.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from bpc.jobs.context import Connection

LONGEST: Final = 60.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """`run` is called about every `every` seconds, on a session that sees the jobs of all tenants."""

    name: str
    every: float
    run: Callable[[Connection], Awaitable[object]]


async def keep_doing(chores: Sequence[Chore], conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Do each chore when it is due, until the session is lost."""
    due = {chore.name: 0.0 for chore in chores}
    while True:
        for chore in chores:
            if time.monotonic() >= due[chore.name]:
                await _do(chore, conn)
                due[chore.name] = time.monotonic() + chore.every
        await asyncio.sleep(max(0.01, min(due.values(), default=1.0) - time.monotonic()))


async def _do(chore: Chore, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    try:
        async with asyncio.timeout(LONGEST):
            await chore.run(conn)
    except Exception:
        if conn.is_closed():
            raise
        log.exception("chore %s failed", chore.name)
