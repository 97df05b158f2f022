"""Cron: an expression and a time zone in, moments out; and which missed moments still get a job. Pure.

    Cron("30 2 * * *", "Europe/Berlin").find_next_after(moment)     every moment is UTC

Five fields (minute, hour, day, month, weekday), six with seconds in front, or a name such as `@daily`. As in Debian's
cron, when clocks are changed:

- If minute and hour are fixed (`30 2 * * *`), it matches once a day. A time that does not exist is replaced by the
  first one that does (02:30 becomes 03:00); a time that exists twice matches the first time.
- If minute or hour begins with a star (`*/15 * * * *`, `0 * * * *`), it follows real time: an hour that is left out has
  no moments, and an hour that exists twice has its moments twice.
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

from service_jobs.job import InvalidInput

NAMED_EXPRESSIONS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_EXPRESSION_LENGTH: Final = 200
SECOND: Final = timedelta(seconds=1)
WEEK: Final = timedelta(days=7)  # in no zone are clocks changed twice within a week
MAX_OFFSET_FROM_UTC: Final = timedelta(days=1, hours=2)
ANY_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)
FIELDS: Final = "`minute hour day month weekday`, such as `30 2 * * 1-5`"

MAX_MOMENTS_PER_TICK: Final = 1_000
SKIP_GRACE: Final = timedelta(seconds=60)


class CatchUp(StrEnum):
    """What happens to moments that passed while no worker ran."""

    SKIP = "skip"  # they are dropped, except those of the last minute
    ONE = "one"  # one job for all of them
    ALL = "all"  # a job for each, 1,000 at a time


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid cron expression and an existing time zone. Raises `InvalidInput` otherwise."""

    expression: str
    time_zone: str = "UTC"
    _minutes: str = field(init=False, repr=False, compare=False)
    _is_fixed: bool = field(init=False, repr=False, compare=False)
    _seconds: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        minutes, seconds = _parse_expression(self.expression)
        object.__setattr__(self, "_minutes", minutes)
        object.__setattr__(self, "_is_fixed", not any(part.startswith("*") for part in minutes.split()[:2]))
        object.__setattr__(self, "_seconds", seconds)
        object.__setattr__(self, "_zone", _load_time_zone(self.time_zone))

    def iterate_after(self, moment: datetime) -> Iterator[datetime]:
        """Every moment after `moment`, in order; it ends if there is none within fifty years."""
        last = moment.astimezone(UTC)
        start = last.replace(second=0, microsecond=0) - SECOND
        for minute in self._iterate_fixed_minutes(start) if self._is_fixed else self._iterate_passing_minutes(start):
            for second in self._seconds:
                candidate = minute + second * SECOND
                # In an hour that exists twice, fixed minutes count from the first one.
                if candidate > last:
                    last = candidate
                    yield candidate

    def find_next_after(self, moment: datetime) -> datetime | None:
        return next(self.iterate_after(moment), None)

    def _iterate_fixed_minutes(self, start: datetime) -> Iterator[datetime]:
        for minute in CronSim(self._minutes, start.astimezone(self._zone)):
            yield minute.astimezone(UTC)

    def _iterate_passing_minutes(self, start: datetime) -> Iterator[datetime]:
        """While clocks do not change, local time is UTC plus an offset: cronsim gets one such stretch after the other.

        By itself it steps over changes in whole hours, and misses moments where the change is half an hour.
        """
        while True:
            offset, end = self._find_stretch(start)
            rests = end - start == WEEK
            for wall in CronSim(self._minutes, start.replace(tzinfo=None) + offset):
                minute = (wall - offset).replace(tzinfo=UTC)
                if minute > end:
                    break
                rests = False
                yield minute
            else:
                return
            # After a week without moments, the next one is not before the wall clock shows `wall`, and nowhere is local
            # time farther from UTC than this.
            start = max(end, wall.replace(tzinfo=UTC) - MAX_OFFSET_FROM_UTC) if rests else end

    def _find_stretch(self, start: datetime) -> tuple[timedelta, datetime]:
        """The UTC offset after `start`, and a moment until which (inclusive) it certainly does not change."""
        offset = self._get_utc_offset(start + SECOND)
        same, other = 0, int(WEEK.total_seconds())
        if self._get_utc_offset(start + WEEK) == offset:
            return offset, start + WEEK
        while other - same > 1:
            middle = (same + other) // 2
            if self._get_utc_offset(start + middle * SECOND) == offset:
                same = middle
            else:
                other = middle
        return offset, start + same * SECOND

    def _get_utc_offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta()

    def build_never_error(self) -> InvalidInput:
        """The error for an expression that has no next moment."""
        return InvalidInput(
            f"`{self.expression}` never matches: no such day in the next fifty years",
            fix="correct the day, month or weekday",
            details={"cron": self.expression},
        )


@dataclass(frozen=True, slots=True)
class DueMoments:
    """The moments that get a job now, and the next moment; None if there is none."""

    moments: tuple[datetime, ...]
    next_at: datetime | None


def find_due_moments(cron: Cron, next_at: datetime, now: datetime, catch_up: CatchUp) -> DueMoments:
    """The due moments of a schedule from `next_at` to `now`, both inclusive.

    The work is bounded, however long ago `next_at` is.
    """
    match catch_up:
        case CatchUp.ONE:
            return DueMoments((next_at,), cron.find_next_after(now))
        case CatchUp.SKIP:
            first_moment = (next_at,) if next_at >= now - SKIP_GRACE else ()
            later = takewhile(lambda moment: moment <= now, cron.iterate_after(max(next_at, now - SKIP_GRACE)))
            return DueMoments((*first_moment, *later), cron.find_next_after(now))
        case CatchUp.ALL:
            return _collect_all_due(cron, next_at, now)


def _collect_all_due(cron: Cron, next_at: datetime, now: datetime) -> DueMoments:
    moments = [next_at]
    for moment in cron.iterate_after(next_at):
        if moment > now or len(moments) == MAX_MOMENTS_PER_TICK:
            return DueMoments(tuple(moments), moment)
        moments.append(moment)
    return DueMoments(tuple(moments), None)


def _parse_expression(expression: str) -> tuple[str, tuple[int, ...]]:
    """The five fields for cronsim, and the seconds of each matching minute."""
    # cronsim does not get the seconds: with them it does not apply cron's rules for changed clocks.
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise InvalidInput(f"a cron expression has at most {MAX_EXPRESSION_LENGTH} characters", fix=f"write {FIELDS}")
    fields = NAMED_EXPRESSIONS.get(expression.strip().lower(), expression).split()
    if len(fields) not in {5, 6}:
        raise InvalidInput(
            f"`{expression}` is not a valid cron expression: it has {len(fields)} fields instead of 5",
            fix=f"write {FIELDS}; a sixth field in front is for seconds",
            details={"cron": expression},
        )
    try:
        schedule = CronSim(" ".join(fields), ANY_DAY)
    except CronSimError as error:
        raise InvalidInput(
            f"`{expression}` is not a valid cron expression: {_explain_error(str(error))}",
            fix=f"write {FIELDS}",
            details={"cron": expression},
        ) from None
    return " ".join(fields[-5:]), tuple(sorted(schedule.seconds))


def _explain_error(message: str) -> str:
    # cronsim says "Bad day-of-month", also where the month has no such day.
    return f"{message.removeprefix('Bad ')} is not valid"


@lru_cache(maxsize=256)
def _load_time_zone(name: str) -> tzinfo:
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
