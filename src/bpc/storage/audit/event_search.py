"""Audit events as they are looked up: a page of them, newest first, or one.

Each page is read from the index that fits what is asked, from the place it was left off and no further than `after`:

    aggregate_type and aggregate_id   events_of_aggregate_by_time
    event_type                        events_by_type_time
    actor_id                          events_by_actor_time
    aggregate_type                    events_by_aggregate_type_time
    nothing of these                  events_by_time

The first that is given decides; what else is asked for is filtered from there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.core.digest import Digest
from bpc.core.errors import Invalid, NotFound
from bpc.core.ids import ActorId, AggregateId, EventId, TenantId
from bpc.db.connection import Connection
from bpc.db.pages import Ask

BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
LOWEST: Final = UUID(int=0)

COLUMNS: Final[LiteralString] = """
    event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at, actor_id,
    payload::text AS payload, payload_hash, prev_event_hash, event_hash
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events WHERE tenant_id = $1 AND event_id = $2
"""
# $1 tenant, $2 and $3 the place, $4 how many, $5 not before, then what is asked for or null.
FITS: Final[LiteralString] = """
    ($6::text IS NULL OR event_type = $6) AND ($7::uuid IS NULL OR actor_id = $7)
       AND ($8::text IS NULL OR aggregate_type = $8) AND ($9::uuid IS NULL OR aggregate_id = $9)
"""
# A range of (x, time, id) with one x says `x = …` in a way that only the index on it can put in order: what is common
# in the statistics but long ago would else be looked for through everything newer.
OF_TYPE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events
     WHERE tenant_id = $1 AND (event_type, occurred_at, event_id) < ($6, $2, $3)
       AND (event_type, occurred_at) >= ($6, $5) AND {FITS}
     ORDER BY event_type DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""
OF_ACTOR: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events
     WHERE tenant_id = $1 AND (actor_id, occurred_at, event_id) < ($7, $2, $3)
       AND (actor_id, occurred_at) >= ($7, $5) AND {FITS}
     ORDER BY actor_id DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""
OF_AGGREGATE_TYPE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events
     WHERE tenant_id = $1 AND (aggregate_type, occurred_at, event_id) < ($8, $2, $3)
       AND (aggregate_type, occurred_at) >= ($8, $5) AND {FITS}
     ORDER BY aggregate_type DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""
# One chain may be most of what there is, or next to nothing: the planner is kept from guessing which, and from
# finding it cheap to read a chain whole and sort it. So its id is a query of its own, and the filters are no plain
# comparisons.
OF_AGGREGATE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events
     WHERE tenant_id = $1 AND (aggregate_id, occurred_at, event_id) < ((SELECT $9::uuid), $2, $3)
       AND (aggregate_id, occurred_at) >= ((SELECT $9::uuid), $5) AND coalesce(aggregate_type = $8, false)
       AND coalesce(event_type = $6, $6::text IS NULL) AND coalesce(actor_id = $7, $7::uuid IS NULL)
     ORDER BY aggregate_id DESC, occurred_at DESC, event_id DESC
     LIMIT $4
"""
OF_ALL: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM events
     WHERE tenant_id = $1 AND (occurred_at, event_id) < ($2, $3) AND occurred_at >= $5 AND {FITS}
     ORDER BY occurred_at DESC, event_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events: all that is given must hold. `after` is a moment that is included, `before` one that is not.

    An aggregate is named by its type and its id; an id alone names none.
    """

    aggregate_type: str | None = None
    aggregate_id: AggregateId | None = None
    event_type: str | None = None
    actor_id: ActorId | None = None
    after: datetime | None = None
    before: datetime | None = None

    def __post_init__(self) -> None:
        if self.aggregate_id is not None and self.aggregate_type is None:
            raise Invalid("`aggregate_id` needs `aggregate_type` beside it", fix="send both, or neither")

    @property
    def statement(self) -> LiteralString:
        if self.aggregate_id is not None:
            return OF_AGGREGATE
        if self.event_type is not None:
            return OF_TYPE
        if self.actor_id is not None:
            return OF_ACTOR
        return OF_ALL if self.aggregate_type is None else OF_AGGREGATE_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event as it is shown."""

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


class EventUnknown(NotFound):
    def __init__(self, event: EventId) -> None:
        super().__init__(f"there is no event `{event}`", fix="GET /v1/audit/events lists those there are")


async def get(conn: Connection, tenant: TenantId, event: EventId) -> Recorded:
    row = await conn.fetchrow(ONE, tenant, event)
    if row is None:
        raise EventUnknown(event)
    return _recorded(row)


async def page(conn: Connection, tenant: TenantId, ask: Ask, wanted: Wanted) -> Sequence[Recorded]:
    """Events, newest first."""
    rows = await conn.fetch(wanted.statement, *arguments(tenant, ask, wanted))
    return [_recorded(row) for row in rows]


def arguments(tenant: TenantId, ask: Ask, wanted: Wanted) -> tuple[object, ...]:
    """What the statement of a page is given."""
    place = (ask.t, ask.id)
    if wanted.before is not None:
        place = min(place, (wanted.before, LOWEST))
    after = wanted.after or BEGINNING
    asked = (wanted.event_type, wanted.actor_id, wanted.aggregate_type, wanted.aggregate_id)
    return tenant, *place, ask.most, after, *asked


def _recorded(row: asyncpg.Record) -> Recorded:
    # The standard library's reader keeps whole numbers of any length whole.
    return Recorded(**dict(row) | {"payload": json.loads(row["payload"])})
