"""The feed of events: what webhooks announce, in the order in which it became certain, from a place on.

An event is in the feed as soon as no older transaction runs that could still record one (`pg_snapshot_xmin`). So the
feed only grows at its end: a reader that continues from the place of an event misses nothing and gets nothing twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from bpc.core.errors import Conflict
from bpc.core.formats.feed_cursor import FeedPosition
from bpc.core.formats.ids import TenantId
from bpc.core.webhooks import WEBHOOK_TYPES, WebhookMessage, WebhookType
from bpc.storage.connection import EARLIEST_TIME, Connection

SELECT_HORIZON: Final[LiteralString] = """
    SELECT pg_snapshot_xmin(snapshot)::text::bigint AS settled, pg_snapshot_xmax(snapshot)::text::bigint AS next
      FROM pg_current_snapshot() AS snapshot
"""
SELECT_FEED: Final[LiteralString] = """
    SELECT tenant_id, event_id, event_type, occurred_at, aggregate_type, aggregate_id, aggregate_version,
           payload_canonical, recorded_in::text::bigint AS recorded_in
      FROM events
     WHERE tenant_id = $1 AND (recorded_in, occurred_at, event_id) > ($2::text::xid8, $3, $4)
       AND recorded_in < $5::text::xid8 AND event_type = ANY ($6::text[]) AND occurred_at >= $7
     ORDER BY recorded_in, occurred_at, event_id
     LIMIT $8
"""
# The first transaction that recorded such an event since a time.
SELECT_START: Final[LiteralString] = """
    SELECT min(first.recorded_in::text::bigint)
      FROM unnest($2::text[]) AS t(event_type)
     CROSS JOIN LATERAL (
       SELECT min(recorded_in::text::bigint)::text::xid8 AS recorded_in FROM events
        WHERE tenant_id = $1 AND event_type = t.event_type AND occurred_at >= $3) AS first
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """An event, and its place in the feed."""

    message: WebhookMessage
    position: FeedPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Some events, the place after them, and whether there are more already."""

    events: Sequence[FeedEvent]
    position: FeedPosition
    has_more: bool


class FeedPositionLost(Conflict):
    """The place is of another life of the database, before a restore."""

    def __init__(self) -> None:
        super().__init__(
            "this cursor is older than the database, which was restored", fix="start again from a time, with `since`"
        )


async def read_feed(
    conn: Connection,
    tenant: TenantId,
    *,
    after: FeedPosition | None,
    since: datetime | None,
    types: Sequence[WebhookType],
    limit: int,
) -> FeedPage:
    """The next events of these types (all, if there are none): after a place, or since a time, or from now on."""
    event_types = [name for name, webhook_type in WEBHOOK_TYPES.items() if not types or webhook_type in types]
    horizon = await conn.fetchrow(SELECT_HORIZON)
    assert horizon is not None
    settled_transaction, end = horizon["settled"], FeedPosition(transaction=horizon["settled"])
    if after is not None and after.transaction > horizon["next"]:
        raise FeedPositionLost
    if after is None:
        if since is None:
            return FeedPage(events=(), position=end, has_more=False)
        start = await conn.fetchval(SELECT_START, tenant, event_types, since)
        after = end if start is None else FeedPosition(transaction=start)
    place = (str(after.transaction), after.occurred_at, after.event_id)
    rows = await conn.fetch(
        SELECT_FEED, tenant, *place, str(settled_transaction), event_types, since or EARLIEST_TIME, limit + 1
    )
    page = [_to_feed_event(**row) for row in rows[:limit]]
    if len(rows) > limit:
        return FeedPage(events=page, position=page[-1].position, has_more=True)
    position = max(after, end, key=lambda each: each.transaction)
    return FeedPage(events=page, position=position, has_more=False)


def _to_feed_event(*, recorded_in: int, **columns: Any) -> FeedEvent:
    message = WebhookMessage(**columns)
    position = FeedPosition(transaction=recorded_in, occurred_at=message.occurred_at, event_id=message.event_id)
    return FeedEvent(message=message, position=position)
