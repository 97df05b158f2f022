"""Ids of jobs: UUIDs of version 7, so that newest first is an order of the primary key.

Made by whoever submits, before anything is sent: a bulk of jobs needs no answer to know its ids.
"""

import os
import time
from datetime import datetime
from typing import Final, NewType
from uuid import UUID

from asyncpg.pgproto.pgproto import UUID as DriversUUID  # noqa: N811 (a UUID like any other, made five times as fast)

BatchId = NewType("BatchId", UUID)

_VERSION_7: Final = 7 << 76
_VARIANT: Final = 0b10 << 62
_ALL: Final = (1 << 128) - 1
_RANDOM_A: Final = (1 << 12) - 1
_RANDOM_B: Final = (1 << 62) - 1


def new_ids(count: int) -> list[UUID]:
    """`count` ids of this moment; the order they are returned in is the order they sort in."""
    moment = (time.time_ns() // 1_000_000) << 80
    seed = int.from_bytes(os.urandom(9), "big")  # noqa: TID251 (a library of its own: nobody hands it randomness)
    # RFC 9562 section 6.2, method 2: 74 random bits for the first, one more for each that follows.
    low = min(seed & _RANDOM_B, _RANDOM_B - count)
    first = moment | _VERSION_7 | ((seed >> 62) & _RANDOM_A) << 64 | _VARIANT | low
    return [DriversUUID(number.to_bytes(16, "big")) for number in range(first, first + count)]


def new_id() -> UUID:
    return new_ids(1)[0]


def lowest_at(moment: datetime) -> UUID:
    """The smallest id that can have been made at `moment`: bounds in time are bounds of the key."""
    return UUID(int=(int(moment.timestamp() * 1000) << 80) & _ALL)
