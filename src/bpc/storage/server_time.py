"""The time of the database: read, adopted by this process, and compared with the machine's clock."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, LiteralString

from bpc.core.errors import Refusal
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.connection import Connection
from bpc.storage.database import Database

READ_TIME: Final[LiteralString] = "SELECT clock_timestamp()"
FOLLOW_SECONDS: Final = 10.0
log = get_logger(__name__)


class ClockDiffers(Refusal):
    """The clock of this machine and that of the database are too far apart: one of them is wrong."""

    code = "CLOCK_DIFFERS"

    def __init__(self, skew: timedelta) -> None:
        seconds = skew.total_seconds()
        direction = "ahead of" if seconds > 0 else "behind"
        super().__init__(
            f"the clock of this machine is {abs(seconds):,.0f} s {direction} the database's",
            fix="synchronise both with NTP",
            details={"seconds_ahead": round(seconds)},
        )


async def read_and_adopt_time(conn: Connection) -> tuple[datetime, timedelta]:
    """The time of the database, and by how much this machine is ahead of it. From here on `clock.now` follows it."""
    started_at = time.monotonic()
    moment: datetime = await conn.fetchval(READ_TIME)
    skew = clock.adopt(moment, age=timedelta(seconds=time.monotonic() - started_at))
    return moment, skew


async def require_agreeing_clock(conn: Connection) -> datetime:
    """The time of the database. Raises `ClockDiffers` if this machine's clock is further away than the tolerance."""
    moment, skew = await read_and_adopt_time(conn)
    if abs(skew) > clock.TOLERANCE:
        refusal = ClockDiffers(skew)
        log.error("the clock differs from the database's", reason=refusal.says)
        raise refusal
    return moment


@asynccontextmanager
async def follow_server_time(database: Database) -> AsyncIterator[None]:
    """Adopt the time of the database again and again while the block runs."""
    task = asyncio.create_task(_follow(database), name="server time")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(database: Database) -> None:
    was_apart = False
    while True:
        try:
            async with database.plain() as conn:
                _, skew = await read_and_adopt_time(conn)
        except Refusal:  # while the database is away, the monotonic clock goes on
            await asyncio.sleep(FOLLOW_SECONDS)
            continue
        is_apart = abs(skew) > clock.TOLERANCE
        if is_apart and not was_apart:
            log.error("the clock differs from the database's", reason=ClockDiffers(skew).says)
        was_apart = is_apart
        await asyncio.sleep(FOLLOW_SECONDS)
