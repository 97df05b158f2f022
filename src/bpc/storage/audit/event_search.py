"""Search in the audit events: a page, newest first, or one event.

Each page is read from the index that fits the filter, from where the page before ended and no further than `after`:

    aggregate_type and aggregate_id   events_of_aggregate_by_time
    event_type                        events_by_type_time
    actor_id                          events_by_actor_time
    aggregate_type                    events_by_aggregate_type_time
    none of these                     events_by_time

The first one that is set decides; the other filters apply to what that index gives.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId
from bpc.storage.connection import EARLIEST_TIME, LOWEST_ID, Connection, PageQuery, fetch_one, fetch_rows

EVENT_COLUMNS: Final[LiteralString] = """
    event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at, actor_id,
    payload::text AS payload, payload_hash, prev_event_hash, event_hash
"""
SELECT_EVENT: Final[LiteralString] = f"""
    SELECT {EVENT_COLUMNS} FROM events WHERE tenant_id = $1 AND event_id = $2
"""
# $1 tenant, $2 and $3 where the page before ended, $4 the limit, $5 the earliest time, then the filters or null.
MATCHES_FILTER: Final[LiteralString] = """
    ($6::text IS NULL OR event_type = $6) AND ($7::uuid IS NULL OR actor_id = $7)
       AND ($8::text IS NULL OR aggregate_type = $8) AND ($9::uuid IS NULL OR aggregate_id = $9)
"""


# A range of (x, time, id) with one x means `x = …`, but only the index on x gives its order. With `x = …` the planner
# may read everything newer to find a value that is common but occurs only long ago.
def _make_page_query_by(column: LiteralString, value: LiteralString) -> LiteralString:
    return f"""
    SELECT {EVENT_COLUMNS} FROM events
     WHERE tenant_id = $1 AND ({column}, occurred_at, event_id) < ({value}, $2, $3)
       AND ({column}, occurred_at) >= ({value}, $5) AND {MATCHES_FILTER}
     ORDER BY {column} DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""


SELECT_PAGE_BY_TYPE: Final[LiteralString] = _make_page_query_by("event_type", "$6")
SELECT_PAGE_BY_ACTOR: Final[LiteralString] = _make_page_query_by("actor_id", "$7")
SELECT_PAGE_BY_AGGREGATE_TYPE: Final[LiteralString] = _make_page_query_by("aggregate_type", "$8")
# One chain may hold most of the events or very few. A subquery for its id, and filters that are not plain comparisons,
# keep the planner from guessing, and from reading a whole chain to sort it.
SELECT_PAGE_BY_AGGREGATE: Final[LiteralString] = f"""
    SELECT {EVENT_COLUMNS} FROM events
     WHERE tenant_id = $1 AND (aggregate_id, occurred_at, event_id) < ((SELECT $9::uuid), $2, $3)
       AND (aggregate_id, occurred_at) >= ((SELECT $9::uuid), $5) AND coalesce(aggregate_type = $8, false)
       AND coalesce(event_type = $6, $6::text IS NULL) AND coalesce(actor_id = $7, $7::uuid IS NULL)
     ORDER BY aggregate_id DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""
SELECT_PAGE: Final[LiteralString] = f"""
    SELECT {EVENT_COLUMNS} FROM events
     WHERE tenant_id = $1 AND (occurred_at, event_id) < ($2, $3) AND occurred_at >= $5 AND {MATCHES_FILTER}
     ORDER BY occurred_at DESC, event_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events: those that match every filter that is set. `after` is inclusive, `before` exclusive.

    An aggregate is named by its type and its id; an id alone is refused.
    """

    aggregate_type: str | None = None
    aggregate_id: AggregateId | None = None
    event_type: str | None = None
    actor_id: ActorId | None = None
    after: datetime | None = None
    before: datetime | None = None

    def __post_init__(self) -> None:
        if self.aggregate_id is not None and self.aggregate_type is None:
            raise Invalid("`aggregate_id` requires `aggregate_type`", fix="send both or neither")

    @property
    def statement(self) -> LiteralString:
        if self.aggregate_id is not None:
            return SELECT_PAGE_BY_AGGREGATE
        if self.event_type is not None:
            return SELECT_PAGE_BY_TYPE
        if self.actor_id is not None:
            return SELECT_PAGE_BY_ACTOR
        return SELECT_PAGE if self.aggregate_type is None else SELECT_PAGE_BY_AGGREGATE_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event in a list."""

    event_id: EventId
    aggregate_type: str
    aggregate_id: AggregateId
    aggregate_version: int
    event_type: str
    occurred_at: datetime
    actor_id: ActorId | None
    payload: Any
    payload_hash: Digest
    prev_event_hash: Digest | None
    event_hash: Digest


async def get_event(conn: Connection, tenant: TenantId, event: EventId) -> EventRow:
    return await fetch_one(conn, _to_event_row, SELECT_EVENT, tenant, event, kind="event")


async def list_events(
    conn: Connection, tenant: TenantId, page: PageQuery, event_filter: EventFilter
) -> Sequence[EventRow]:
    """Events, newest first."""
    arguments = to_page_arguments(tenant, page, event_filter)
    return await fetch_rows(conn, _to_event_row, event_filter.statement, *arguments)


def to_page_arguments(tenant: TenantId, page: PageQuery, event_filter: EventFilter) -> tuple[object, ...]:
    """The arguments of a page's statement."""
    place = (page.before_time, page.before_id)
    if event_filter.before is not None:
        place = min(place, (event_filter.before, LOWEST_ID))
    after = event_filter.after or EARLIEST_TIME
    filter_values = (
        event_filter.event_type,
        event_filter.actor_id,
        event_filter.aggregate_type,
        event_filter.aggregate_id,
    )
    return tenant, *place, page.limit, after, *filter_values


def _to_event_row(*, payload: str, **columns: Any) -> EventRow:
    # Not orjson: the standard library reads integers of any length exactly.
    return EventRow(payload=json.loads(payload), **columns)
