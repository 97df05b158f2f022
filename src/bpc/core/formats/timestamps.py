"""Time stamps: the one way a moment is written, `2027-02-18T00:00:00.000000Z`, and the ways others write it.

Pure: a moment comes in as an argument, nobody looks at a clock here. What we write, store and hash is always UTC,
always six digits, always 27 ASCII characters, so that the order of the texts is the order of the moments. `parse_time`
reads that form alone. Where people and programs send a time, `parse_sent_time` reads every form of RFC 3339.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from bpc.core.errors import Invalid

_FORMAT: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})[.]([0-9]{6})Z")
# RFC 3339 5.6, with a space for the `T` as its note allows. The offset is optional here to say what is missing.
_SENT_FORM: Final = re.compile(
    "([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]{1,40}))?"
    "([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_DAY: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
# In the query of a URL, `+` means a space unless it is written `%2B`.
_LOST_PLUS: Final = re.compile("(.*[0-9]) ([0-9]{2}:[0-9]{2})")
EXAMPLE: Final = "2027-02-18T00:00:00.000000Z"


class NotATime(Invalid):
    """A text that is not a moment in our format, or a moment that cannot be written in it."""


def format_time(moment: datetime) -> str:
    """`moment` in UTC; refused without a time zone, for then it names no moment."""
    if moment.tzinfo is UTC:
        return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"
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
    raise NotATime(f"`{text[:80]}` is not a time; write it like `{EXAMPLE}`")


class NotASentTime(NotATime):
    """A text that is not a time of RFC 3339. `problem` says why, without repeating the text."""

    def __init__(self, text: str, problem: str, fix: str) -> None:
        super().__init__(f"`{text[:80]}` {problem}", fix=fix)
        self.problem = f"{problem}; {fix}"


def parse_sent_time(text: str) -> datetime:
    """The moment that somebody sent as `text`: any time of RFC 3339, to the microsecond."""
    parts = _SENT_FORM.fullmatch(text)
    if parts is None:
        if _DAY.fullmatch(text):
            raise NotASentTime(text, "is a day, and a time is needed", f"write it like {EXAMPLE}")
        raise NotASentTime(text, "is not a time of RFC 3339", f"write it like {EXAMPLE} or 2027-02-18T01:00:00+01:00")
    *numbers, fraction, offset = parts.groups(default="")
    if not offset:
        raise NotASentTime(text, "has no time zone", "add Z if it is UTC, or an offset like +01:00")
    if fraction[6:].strip("0"):
        raise NotASentTime(text, "is more precise than a microsecond", "round it to six digits after the point")
    moment = _compute_moment(numbers, int(fraction[:6].ljust(6, "0")), offset)
    if moment is None:
        raise NotASentTime(text, "is not in the calendar", "correct the day, the hour or the offset")
    return moment


def parse_sent_day(text: str) -> datetime:
    """The first moment, in UTC, of a day like `2027-02-18`."""
    if _DAY.fullmatch(text):
        moment = _compute_moment([*text.split("-"), "00", "00", "00"], 0, "Z")
        if moment is None:
            raise NotASentTime(text, "is not a day of the calendar", "correct the month or the day")
        return moment
    raise NotASentTime(text, "is not a day", "write it like 2027-02-18")


def parse_sent_time_or_day(text: str) -> datetime:
    """The moment that somebody sent: any time of RFC 3339, or a day, which means its first moment in UTC.

    A space where a URL lost its `+` is taken for the `+`.
    """
    if _DAY.fullmatch(text):
        return parse_sent_day(text)
    lost_plus = _LOST_PLUS.fullmatch(text)
    return parse_sent_time(text if lost_plus is None else f"{lost_plus[1]}+{lost_plus[2]}")


def _compute_moment(numbers: list[str], micro: int, offset: str) -> datetime | None:
    """The moment in UTC; None if the calendar has none, or if it is outside the years 1 to 9999."""
    year, month, day, hour, minute, second = map(int, numbers)
    ahead = timedelta() if offset in "Zz" else timedelta(hours=int(offset[1:3]), minutes=int(offset[4:6]))
    if ahead >= timedelta(days=1) or offset[4:6] > "59":
        return None
    zone = timezone(-ahead if offset.startswith("-") else ahead)
    with suppress(ValueError, OverflowError):
        if second == 60:
            before = datetime(year, month, day, hour, minute, 59, tzinfo=zone).astimezone(UTC)
            is_leap = (before.hour, before.minute) == (23, 59)
            return before + timedelta(seconds=1, microseconds=micro) if is_leap else None
        return datetime(year, month, day, hour, minute, second, micro, tzinfo=zone).astimezone(UTC)
    return None
