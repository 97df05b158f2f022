"""Cursors of the feed of events: how far somebody has followed them, as a short text.

Pure. `evt_<transaction>_<microseconds since 1970>_<event>`: what comes next was recorded by a later transaction, or by
the same one with a later time or a larger id. It gives no rights: a reader of the feed sees one tenant.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from bpc.core.errors import Invalid

_FORM: Final = re.compile(r"evt_([0-9]{1,19})_([0-9]{1,18})_([0-9a-f]{32})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST_ID: Final = UUID(int=0)
MAX_TRANSACTION: Final = 2**63 - 1


class BadFeedCursor(Invalid):
    """Not a cursor of the feed."""

    def __init__(self) -> None:
        super().__init__(
            "the cursor is not one that the list of events gave", fix="send `next_cursor` as it was answered, or a time"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPosition:
    """How far somebody has followed the events of a tenant."""

    transaction: int
    occurred_at: datetime = _EPOCH
    event_id: UUID = _LOWEST_ID

    def to_cursor(self) -> str:
        microseconds = (self.occurred_at - _EPOCH) // timedelta(microseconds=1)
        return f"evt_{self.transaction}_{max(microseconds, 0)}_{self.event_id.hex}"

    @classmethod
    def from_cursor(cls, text: str) -> Self:
        """Raises `BadFeedCursor`."""
        parts = _FORM.fullmatch(text)
        if parts is None or int(parts[1]) > MAX_TRANSACTION:
            raise BadFeedCursor
        try:
            moment = _EPOCH + timedelta(microseconds=int(parts[2]))
        except OverflowError:
            raise BadFeedCursor from None
        return cls(transaction=int(parts[1]), occurred_at=moment, event_id=UUID(parts[3]))
