"""Audit heads: where all chains of a tenant stand, as the log commits to it now and then, and whether it still holds.

A head names the database and the snapshot in which the chains were read. With them the same database finds those events
again, whatever was added since; an event that was removed or written anew gives another hash.
"""

from typing import Final, LiteralString, NamedTuple

from bpc.core.audit.checkpoint import RETENTION_EVENT_TYPE, UNCUT_AGGREGATE_TYPE, hash_anchors
from bpc.core.audit.events import ChainFault, ChainHead, EventStream
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.storage.audit.events import to_heads
from bpc.storage.connection import Connection

# Which transactions are seen now, and in which database: one that was restored from a dump counts them anew.
SELECT_SEEN: Final[LiteralString] = """
    SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || 'events'::regclass::oid AS database,
           pg_current_snapshot()::text AS snapshot
"""
SELECT_HEADS_SEEN: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM (
      SELECT DISTINCT ON (aggregate_type, aggregate_id) aggregate_type, aggregate_id, aggregate_version, event_hash
        FROM (SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM events
               WHERE tenant_id = $1 AND pg_visible_in_snapshot(recorded_in, $2::text::pg_snapshot)
              UNION ALL
              SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors
               WHERE tenant_id = $1) AS links
       ORDER BY aggregate_type, aggregate_id, aggregate_version DESC) AS heads
"""
# Where the chains stood when the log committed to them last; not before a retention, which cuts them.
SELECT_LAST_HEADS: Final[LiteralString] = """
    SELECT h.heads_hash, h.database, h.snapshot, h.at FROM (
      SELECT s.statement ->> 'heads_hash' AS heads_hash, s.statement ->> 'at' AS at,
             split_part(s.statement ->> 'seen', ' ', 1) AS database,
             split_part(s.statement ->> 'seen', ' ', 2) AS snapshot
        FROM log_openings o CROSS JOIN LATERAL (SELECT convert_from(o.statement, 'UTF8')::jsonb AS statement) AS s
       WHERE o.tenant_id = $1 AND o.kind = 'AUDIT_HEAD' AND s.statement ? 'seen'
       ORDER BY o.log_index DESC LIMIT 1) AS h
     WHERE NOT EXISTS (SELECT FROM events e WHERE e.tenant_id = $1 AND e.event_type = $2
                          AND NOT pg_visible_in_snapshot(e.recorded_in, h.snapshot::pg_snapshot))
"""


class SeenEvents(NamedTuple):
    """Which events a transaction sees: those of a snapshot, in one database."""

    database: str
    snapshot: str


async def load_seen(conn: Connection) -> SeenEvents:
    """Which events are seen now."""
    return SeenEvents(**(await conn.fetch(SELECT_SEEN))[0])


async def load_heads_seen(conn: Connection, tenant: TenantId, seen: SeenEvents) -> dict[EventStream, ChainHead]:
    """The head of every chain, of the events that were seen then. Only in the database in which they were seen."""
    return to_heads(tenant, await conn.fetch(SELECT_HEADS_SEEN, tenant, seen.snapshot))


async def check_heads(conn: Connection, tenant: TenantId) -> list[ChainFault]:
    """Whether the events that the log committed to last are still those."""
    row = await conn.fetchrow(SELECT_LAST_HEADS, tenant, RETENTION_EVENT_TYPE)
    if row is None or row["database"] != (await load_seen(conn)).database:
        return []
    heads = await load_heads_seen(conn, tenant, SeenEvents(row["database"], row["snapshot"]))
    if to_hex(hash_anchors(heads)) == row["heads_hash"]:
        return []
    stream = EventStream(tenant, UNCUT_AGGREGATE_TYPE, AggregateId(tenant))
    says = f"the log shows other events until {row['at']}: some of them were removed or written anew"
    return [ChainFault(stream=stream, version=0, says=says)]
