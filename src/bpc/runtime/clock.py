"""The clock and the source of randomness: the only module that reads either.

`now` is the time of the database, as soon as this process has asked for it (`adopt`): it decides what is expired, when
something was issued and what retention may remove, so that a wrong clock of one machine changes nothing. In between it
goes on with the monotonic clock, which nobody sets. A machine whose clock agrees with the database, as far as that can
be measured, keeps its own.

    system_now ─┐
                ├─► adopt ─► now
    database ───┘      └───► skew: by how much the machine's clock is ahead
"""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from bpc.core.formats.ids import make_ordered_uuid

# A process whose clock differs by more is not ready, and starts no retention.
TOLERANCE: Final = timedelta(seconds=5)
MEASURABLE: Final = timedelta(milliseconds=50)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(slots=True)
class _Reference:
    """A moment of `now`, and the reading of the monotonic clock that belongs to it."""

    moment: datetime | None = None
    reading: float = 0.0


_reference: Final = _Reference()


def now() -> datetime:
    """The time of the database; before anybody has asked for it, of this machine."""
    if _reference.moment is None:
        return system_now()
    return _reference.moment + timedelta(seconds=time.monotonic() - _reference.reading)


def system_now() -> datetime:
    """The time of this machine, right or wrong."""
    return datetime.now(UTC)  # noqa: TID251 (the one place that looks at the clock)


def adopt(database_time: datetime, *, age: timedelta = timedelta(0)) -> timedelta:
    """Go on with the time of the database, which was read at most `age` ago. Returns by how much we are ahead of it."""
    reading, own_time = time.monotonic(), system_now()
    skew = own_time - (database_time + age / 2)
    # Below that, the difference is only the way of the answer.
    agrees = abs(skew) <= MEASURABLE + age
    _reference.moment, _reference.reading = own_time if agrees else database_time + age / 2, reading
    return skew


def random_bytes(count: int) -> bytes:
    return os.urandom(count)  # noqa: TID251 (the one source of randomness)


def new_id() -> UUID:
    """An id that nobody can guess, in the order of time."""
    return make_ordered_uuid((now() - _EPOCH) // _MILLISECOND, random_bytes(10))
