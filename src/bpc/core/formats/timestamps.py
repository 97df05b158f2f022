"""Time stamps: the one way a moment is written, `2027-02-18T00:00:00.000000Z`.

Pure: a moment comes in as an argument, nobody looks at a clock here. Always UTC, always six digits, always 27
ASCII characters, so that the order of the texts is the order of the moments.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from bpc.core.errors import Invalid

_FORMAT: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})[.]([0-9]{6})Z")


class NotATime(Invalid):
    """A text that is not a moment in our format, or a moment that cannot be written in it."""


def format_time(moment: datetime) -> str:
    """`moment` in UTC; refused without a time zone, for then it names no moment."""
    if moment.utcoffset() is None:
        raise NotATime(f"`{moment}` has no time zone")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise NotATime(f"`{moment}` is outside the years 1 to 9999 in utc") from None
    # Not `strftime`: its `%Y` writes the year 1 as `1` on some machines and as `0001` on others.
    return (
        f"{utc.year:04d}-{utc.month:02d}-{utc.day:02d}"
        f"T{utc.hour:02d}:{utc.minute:02d}:{utc.second:02d}.{utc.microsecond:06d}Z"
    )


def parse_time(text: str) -> datetime:
    """The moment written as `text`; `NotATime` unless `format_time` writes it exactly so."""
    parts = _FORMAT.fullmatch(text)
    if parts is not None:
        with suppress(ValueError):  # a 30th of February
            year, month, day, hour, minute, second, micro = map(int, parts.groups())
            return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
    raise NotATime(f"`{text[:80]}` is not a time; write it like `2027-02-18T00:00:00.000000Z`")
