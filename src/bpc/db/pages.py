"""Pages of a list: newest first by (time, id), from a place on.

A statement takes the tenant as $1 and this as $2, $3 (what follows this place) and $4 (how many rows).
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from bpc.core.cursor import Place

FIRST: Final = Place(datetime(9999, 12, 31, tzinfo=UTC), UUID(int=2**128 - 1))


class Ask(NamedTuple):
    """Which part of a list: up to `most` rows after the place (t, id)."""

    t: datetime
    id: UUID
    most: int

    @classmethod
    def of(cls, after: Place | None, most: int) -> "Ask":
        place = after or FIRST
        return cls(place.t, place.id, most)
