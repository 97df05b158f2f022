"""Cron: an expression and a time zone in, moments out; and which of those that were missed are made up for. Pure.

    Cron("30 2 * * *", "Europe/Berlin").next_after(moment)     every moment is UTC

Five fields (minute, hour, day, month, weekday), six with seconds in front, or a name such as `@daily`. As in Debian's
cron, when clocks are changed:

- minute and hour are fixed (`30 2 * * *`): it happens once a day. A time that does not exist is replaced by the first
  one that does (02:30 becomes 03:00); of a time that exists twice, the first is meant.
- minute or hour begins with a star (`*/15 * * * *`, `0 * * * *`): it happens as real time passes, so an hour that is
  left out has no moments and one that exists twice has its moments twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from bpc.jobs.errors import InvalidInput

NAMED: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST: Final = 200
SECOND: Final = timedelta(seconds=1)
WEEK: Final = timedelta(days=7)  # in no zone are clocks changed twice within a week
FARTHEST: Final = timedelta(days=1, hours=2)
SOME_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)
FIELDS: Final = "`minute hour day month weekday`, such as `30 2 * * 1-5`"

MOST_AT_ONCE: Final = 1_000
GRACE: Final = timedelta(seconds=60)


class CatchUp(StrEnum):
    """What becomes of moments that passed while nobody was looking."""

    SKIP = "skip"  # they are dropped, but for those of the last minute
    ONE = "one"  # one job stands for all of them
    ALL = "all"  # each gets its job, 1,000 at a time until it has caught up


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression that can be read and a time zone that exists. Raises `InvalidInput` otherwise."""

    expression: str
    time_zone: str = "UTC"
    _minutes: str = field(init=False, repr=False, compare=False)
    _is_fixed: bool = field(init=False, repr=False, compare=False)
    _seconds: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        minutes, seconds = _read(self.expression)
        object.__setattr__(self, "_minutes", minutes)
        object.__setattr__(self, "_is_fixed", not any(part.startswith("*") for part in minutes.split()[:2]))
        object.__setattr__(self, "_seconds", seconds)
        object.__setattr__(self, "_zone", _zone(self.time_zone))

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Every moment later than `moment`, in order; it ends where there is none within fifty years."""
        last = moment.astimezone(UTC)
        start = last.replace(second=0, microsecond=0) - SECOND
        for minute in self._fixed_minutes(start) if self._is_fixed else self._passing_minutes(start):
            for second in self._seconds:
                found = minute + second * SECOND
                # In the hour that exists twice, fixed minutes begin in the first one, wherever we are.
                if found > last:
                    last = found
                    yield found

    def next_after(self, moment: datetime) -> datetime | None:
        return next(self.after(moment), None)

    def _fixed_minutes(self, start: datetime) -> Iterator[datetime]:
        for minute in CronSim(self._minutes, start.astimezone(self._zone)):
            yield minute.astimezone(UTC)

    def _passing_minutes(self, start: datetime) -> Iterator[datetime]:
        """As long as clocks are not changed, local time is UTC and an offset: cronsim is given one such stretch of time
        after the other. By itself it makes whole-hour steps over changes, and misses moments where they are half hours.
        """
        while True:
            offset, end = self._stretch(start)
            rests = end - start == WEEK
            for wall in CronSim(self._minutes, start.replace(tzinfo=None) + offset):
                minute = (wall - offset).replace(tzinfo=UTC)
                if minute > end:
                    break
                rests = False
                yield minute
            else:
                return
            # After a week of rest nothing happens before the wall shows `wall`, even if it shows some hours twice; and
            # nowhere is local time farther from UTC than this.
            start = max(end, wall.replace(tzinfo=UTC) - FARTHEST) if rests else end

    def _stretch(self, start: datetime) -> tuple[timedelta, datetime]:
        """How far local time is from UTC after `start`, and until when at least, included, this does not change."""
        offset = self._offset(start + SECOND)
        same, other = 0, int(WEEK.total_seconds())
        if self._offset(start + WEEK) == offset:
            return offset, start + WEEK
        while other - same > 1:
            middle = (same + other) // 2
            if self._offset(start + middle * SECOND) == offset:
                same = middle
            else:
                other = middle
        return offset, start + same * SECOND

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta()

    def never(self) -> InvalidInput:
        """For whoever was given none by `next_after`."""
        return InvalidInput(
            f"`{self.expression}` never happens: there is no such day in the next fifty years",
            fix="correct the day, month or weekday",
            details={"cron": self.expression},
        )


@dataclass(frozen=True, slots=True)
class Due:
    """The moments that get a job now, and when to look again; None if there is no next moment."""

    moments: tuple[datetime, ...]
    next_at: datetime | None


def due(cron: Cron, next_at: datetime, now: datetime, catch_up: CatchUp) -> Due:
    """What is due at `now` of a schedule whose next moment was `next_at`; both that one and `now` are included.

    The work is bounded however long ago `next_at` is.
    """
    match catch_up:
        case CatchUp.ONE:
            return Due((next_at,), cron.next_after(now))
        case CatchUp.SKIP:
            kept = (next_at,) if next_at >= now - GRACE else ()
            later = takewhile(lambda moment: moment <= now, cron.after(max(next_at, now - GRACE)))
            return Due((*kept, *later), cron.next_after(now))
        case CatchUp.ALL:
            return _each(cron, next_at, now)


def _each(cron: Cron, next_at: datetime, now: datetime) -> Due:
    moments = [next_at]
    for moment in cron.after(next_at):
        if moment > now or len(moments) == MOST_AT_ONCE:
            return Due(tuple(moments), moment)
        moments.append(moment)
    return Due(tuple(moments), None)


def _read(expression: str) -> tuple[str, tuple[int, ...]]:
    """The five fields that cronsim turns into minutes, and the seconds of each of those minutes."""
    # Seconds are kept from cronsim because with them it knows no cron rules for changed clocks.
    if len(expression) > LONGEST:
        raise InvalidInput(f"a cron expression has at most {LONGEST} characters", fix=f"write {FIELDS}")
    fields = NAMED.get(expression.strip().lower(), expression).split()
    if len(fields) not in {5, 6}:
        raise InvalidInput(
            f"`{expression}` is no cron expression: it has {len(fields)} fields, not five",
            fix=f"write {FIELDS}; a sixth field in front is for seconds",
            details={"cron": expression},
        )
    try:
        read = CronSim(" ".join(fields), SOME_DAY)
    except CronSimError as wrong:
        raise InvalidInput(
            f"`{expression}` is no cron expression: {_reason(str(wrong))}",
            fix=f"write {FIELDS}",
            details={"cron": expression},
        ) from None
    return " ".join(fields[-5:]), tuple(sorted(read.seconds))


def _reason(said: str) -> str:
    # cronsim says "Bad day-of-month", also where the month has no such day.
    return f"its {said.removeprefix('Bad ')} does not exist or cannot be read"


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        near = get_close_matches(name, sorted(available_timezones()), n=1, cutoff=0.8)
        raise InvalidInput(
            f"there is no time zone `{name[:100]}`",
            fix=f"did you mean `{near[0]}`?" if near else "name one as in `Europe/Berlin` or `UTC`",
            details={"time_zone": name[:100]},
        ) from None
