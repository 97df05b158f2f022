"""The time of the database: read, adopted by this process, and compared with the machine's clock."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, LiteralString

from bpc.core.errors import Refusal
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.connection import Connection
from bpc.storage.database import Database

READ_TIME: Final[LiteralString] = "SELECT clock_timestamp()"
SELECT_LAST_SIGNED: Final[LiteralString] = "SELECT max(signed_at) FROM log_checkpoints"
FOLLOW_SECONDS: Final = 10.0
LONGEST_LOG_SILENCE: Final = timedelta(hours=48)
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


class LogDisagrees(Refusal):
    """The last checkpoint of the transparency log and the time of the database do not fit: the clock may be wrong."""

    code = "CLOCK_DIFFERS"

    def __init__(self, signed_at: datetime, now: datetime) -> None:
        relation = (
            "after" if signed_at > now else f"more than {LONGEST_LOG_SILENCE.total_seconds() / 3600:.0f} h before"
        )
        super().__init__(
            f"the log was last signed at {format_time(signed_at)}, which is {relation} the database's time",
            fix="let the worker keep the log, and look at the clock of the database",
            details={"signed_at": format_time(signed_at), "database_time": format_time(now)},
        )


async def require_agreeing_log(conn: Connection, now: datetime) -> None:
    """Raise `LogDisagrees` if the last checkpoint of the log is newer than `now`, or much older. No log is fine."""
    signed_at = await conn.fetchval(SELECT_LAST_SIGNED)
    if signed_at is None or now - LONGEST_LOG_SILENCE <= signed_at <= now + clock.TOLERANCE:
        return
    refusal = LogDisagrees(signed_at, now)
    log.error("the log and the database's clock disagree", reason=refusal.says)
    raise refusal


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
