"""Retention: remove rows older than their retention period, in bounded chunks.

Needs the system role, bound to the tenant. Nothing here commits: the removal and its event belong to one transaction.

Events are read in the order of (occurred_at, event_id), a page at a time. Of each chain in a page it removes the first
events, as far as all of them are in the pages read so far; it never removes an event after one that stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from bpc.core.audit.checkpoint import UNCUT_AGGREGATE_TYPE
from bpc.core.audit.events import AuditEvent, ChainHead, EventStream
from bpc.core.audit.row_hashes import hash_rows
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import DocumentVersionId, PassportVersionId, TenantId
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import events as event_store
from bpc.storage.connection import EARLIEST_TIME, HIGHEST_ID, LOWEST_ID, Connection, parse_row_count

SCHEDULE_NAME: Final = "retention"  # of the schedule in the tenant `system`
SMALLEST_STEP: Final = timedelta(microseconds=1)

SELECT_PAUSED: Final[LiteralString] = "SELECT paused FROM jobs.schedule WHERE tenant_id = $1 AND name = $2"

# The models that batteries pin of which some live: not all of the product were recycled. Computed once in a statement.
LIVING_MODELS: Final[LiteralString] = """
    SELECT r.model_version_id
      FROM (SELECT DISTINCT battery_product_id FROM item_runs WHERE tenant_id = $1) AS made
      JOIN item_runs r ON r.tenant_id = $1 AND r.battery_product_id = made.battery_product_id
     WHERE EXISTS (SELECT FROM batteries b
                    WHERE b.tenant_id = $1 AND b.battery_product_id = made.battery_product_id
                      AND b.ceased_at IS NULL)
"""
# What a model of living batteries was computed from stays, and so does what is attached: a file that is attached to a
# data point stays as long as the binding is not withdrawn, and as long as there is a
# passport version whose facts name it. Asked for each version by itself, so that versions are read from their index.
OLD_CONTENT: Final[LiteralString] = f"""
    v.tenant_id = $1 AND v.content IS NOT NULL AND v.uploaded_at < $2
       AND (v.content_restored_at IS NULL OR v.content_restored_at < $2)
       AND NOT coalesce((
         SELECT true FROM attachments a
          WHERE a.tenant_id = $1 AND a.document_version_id = v.document_version_id
            AND (NOT EXISTS (SELECT FROM attachment_withdrawals w
                              WHERE w.tenant_id = $1 AND w.attachment_id = a.attachment_id)
              OR EXISTS (
                SELECT FROM facts f
                  JOIN snapshot_items i ON i.tenant_id = $1 AND i.fact_id = f.fact_id
                  JOIN passport_versions p ON p.tenant_id = $1 AND p.snapshot_id = i.snapshot_id
                 WHERE f.tenant_id = $1 AND f.fact_type = 'Attachment'
                   AND f.fact_key COLLATE "C" = concat('attachment:', a.sku, ':', a.data_point, ':',
                                                       left(encode(v.sha256, 'hex'), 16))))
          LIMIT 1), false)
       AND NOT coalesce((
         SELECT true FROM fact_sources s
           JOIN snapshot_items i ON i.tenant_id = $1 AND i.fact_id = s.fact_id
           JOIN passport_versions p ON p.tenant_id = $1 AND p.snapshot_id = i.snapshot_id
          WHERE s.tenant_id = $1 AND s.document_version_id = v.document_version_id
            AND p.passport_version_id = ANY (ARRAY({LIVING_MODELS}))
          LIMIT 1), false)
"""
# A version that another transaction uses is skipped; the next run removes it.
SELECT_OLD_CONTENT: Final[LiteralString] = f"""
    SELECT v.document_version_id FROM document_versions v
     WHERE {OLD_CONTENT}
     ORDER BY v.uploaded_at
     LIMIT $3
       FOR NO KEY UPDATE OF v SKIP LOCKED
"""
CLEAR_CONTENT: Final[LiteralString] = """
    UPDATE document_versions SET content = NULL, content_removed_at = $3
     WHERE tenant_id = $1 AND document_version_id = ANY($2)
"""
DELETE_TEXTS: Final[LiteralString] = """
    DELETE FROM document_texts WHERE tenant_id = $1 AND document_version_id = ANY($2)
"""
# A version that was given up was never signed: it ended then, whatever its status.
SELECT_ABANDONED_VERSIONS: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND abandoned_at < $2
     ORDER BY abandoned_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
"""
# The model of batteries and batches stays: their passports pin it.
SELECT_ENDED_VERSIONS: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status IN ('SUPERSEDED', 'REVOKED') AND greatest(superseded_at, revoked_at) < $2
       AND NOT EXISTS (SELECT FROM item_runs r
                        WHERE r.tenant_id = $1 AND r.model_version_id = passport_versions.passport_version_id)
       AND NOT EXISTS (SELECT FROM batch_passport_versions b
                        WHERE b.tenant_id = $1 AND b.model_version_id = passport_versions.passport_version_id)
     ORDER BY greatest(superseded_at, revoked_at)
     LIMIT $3
       FOR UPDATE SKIP LOCKED
"""
DELETE_EXPORTS_OF_VERSIONS: Final[LiteralString] = """
    DELETE FROM passport_exports WHERE tenant_id = $1 AND passport_version_id = ANY($2)
"""
# Exports can be made again, so they are removed while their version stays. One whose job still runs is left alone.
SELECT_OLD_EXPORTS: Final[LiteralString] = """
    SELECT export_id FROM passport_exports
     WHERE tenant_id = $1 AND finished_at < $2
     ORDER BY finished_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
"""
DELETE_EXPORTS: Final[LiteralString] = """
    DELETE FROM passport_exports WHERE tenant_id = $1 AND export_id = ANY($2)
"""
DELETE_VERSIONS: Final[LiteralString] = """
    DELETE FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = ANY($2)
"""
SELECT_OLD_EVENT_PAGE: Final[LiteralString] = """
    SELECT occurred_at, event_id, aggregate_type, aggregate_id FROM events
     WHERE tenant_id = $1 AND occurred_at < $2 AND (occurred_at, event_id) > ($3, $4)
     ORDER BY occurred_at, event_id
     LIMIT $5
"""
# The chain of a passport version is part of its evidence: it stays complete while the version exists. What is on record
# of a battery stays: its state at any time is read from it.
SELECT_CUTS: Final[LiteralString] = """
    SELECT w.aggregate_type, w.aggregate_id, cut.aggregate_version, cut.event_hash
      FROM unnest($2::text[], $3::uuid[]) AS w(aggregate_type, aggregate_id)
     CROSS JOIN LATERAL (
       SELECT e.aggregate_version, e.event_hash FROM events e
        WHERE e.tenant_id = $1 AND e.aggregate_type = w.aggregate_type AND e.aggregate_id = w.aggregate_id
          AND e.aggregate_version < coalesce(
            (SELECT n.aggregate_version FROM events n
              WHERE n.tenant_id = $1 AND n.aggregate_type = w.aggregate_type AND n.aggregate_id = w.aggregate_id
                AND (n.occurred_at, n.event_id) > ($4, $5)
              ORDER BY n.aggregate_version
              LIMIT 1), 9223372036854775807)
        ORDER BY e.aggregate_version DESC
        LIMIT 1) AS cut
     WHERE NOT (w.aggregate_type = 'PassportVersion' AND EXISTS (
       SELECT FROM passport_versions p WHERE p.tenant_id = $1 AND p.passport_version_id = w.aggregate_id))
       AND w.aggregate_type NOT IN ('Battery', 'BatteryBatch', 'BatteryRegistration', 'BatteryTransfer',
                                      'ItemBatch', 'ItemRun', 'ReadingDelivery')
"""
EVENTS_BEFORE_CUTS: Final[LiteralString] = """
    unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
     WHERE e.tenant_id = $1 AND e.aggregate_type = w.aggregate_type AND e.aggregate_id = w.aggregate_id
       AND e.aggregate_version <= w.aggregate_version
"""
DELETE_DELIVERIES: Final[LiteralString] = f"""
    DELETE FROM webhook_deliveries d USING events e, {EVENTS_BEFORE_CUTS}
       AND d.tenant_id = $1 AND d.event_id = e.event_id
"""
DELETE_EVENTS: Final[LiteralString] = f"""
    DELETE FROM events e USING {EVENTS_BEFORE_CUTS}
    RETURNING e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_hash
"""
INSERT_REMOVED_EVENTS: Final[LiteralString] = """
    INSERT INTO removed_events (tenant_id, removed_by, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT $1, $2, w.aggregate_type, w.aggregate_id, w.aggregate_version, w.event_hash
      FROM unnest($3::text[], $4::uuid[], $5::bigint[], $6::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
"""

# The same rows, only counted and all at once, to show what retention would remove.
COUNT_CONTENT: Final[LiteralString] = f"SELECT count(*) FROM document_versions v WHERE {OLD_CONTENT}"
COUNT_VERSIONS: Final[LiteralString] = """
    SELECT count(*) FROM passport_versions
     WHERE tenant_id = $1 AND (abandoned_at < $2
        OR status IN ('SUPERSEDED', 'REVOKED') AND greatest(superseded_at, revoked_at) < $2
           AND NOT EXISTS (SELECT FROM item_runs r
                            WHERE r.tenant_id = $1 AND r.model_version_id = passport_versions.passport_version_id)
           AND NOT EXISTS (SELECT FROM batch_passport_versions b
                            WHERE b.tenant_id = $1 AND b.model_version_id = passport_versions.passport_version_id))
"""
COUNT_EXPORTS: Final[LiteralString] = """
    SELECT count(*) FROM passport_exports x
      JOIN passport_versions v ON v.tenant_id = x.tenant_id AND v.passport_version_id = x.passport_version_id
     WHERE x.tenant_id = $1 AND (x.finished_at < $3
        OR v.status IN ('SUPERSEDED', 'REVOKED') AND greatest(v.superseded_at, v.revoked_at) < $2)
"""
COUNT_EVENTS: Final[LiteralString] = """
    SELECT count(*) AS events, count(DISTINCT (aggregate_type, aggregate_id)) AS anchors,
           coalesce(sum((SELECT count(*) FROM webhook_deliveries d
                          WHERE d.tenant_id = $1 AND d.event_id = e.event_id)), 0)::bigint AS webhook_deliveries
      FROM (SELECT event_id, aggregate_type, aggregate_id,
                   bool_and(occurred_at < $2) OVER (PARTITION BY aggregate_type, aggregate_id
                                                    ORDER BY aggregate_version) AS is_old
              FROM events WHERE tenant_id = $1 AND aggregate_type <> 'Tenant') AS e
     WHERE is_old AND NOT (aggregate_type = 'PassportVersion' AND EXISTS (
       SELECT FROM passport_versions p WHERE p.tenant_id = $1 AND p.passport_version_id = aggregate_id
          AND NOT coalesce(p.abandoned_at < $3, false)
          AND NOT (p.status IN ('SUPERSEDED', 'REVOKED') AND greatest(p.superseded_at, p.revoked_at) < $3
                   AND NOT EXISTS (SELECT FROM item_runs r
                                    WHERE r.tenant_id = $1 AND r.model_version_id = p.passport_version_id)
                   AND NOT EXISTS (SELECT FROM batch_passport_versions b
                                    WHERE b.tenant_id = $1 AND b.model_version_id = p.passport_version_id))))
       AND aggregate_type NOT IN ('Battery', 'BatteryBatch', 'BatteryRegistration', 'BatteryTransfer',
                                    'ItemBatch', 'ItemRun', 'ReadingDelivery')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPosition:
    """How far retention has read the events."""

    occurred_at: datetime = EARLIEST_TIME
    event_id: UUID = LOWEST_ID


class RemovedEvent(NamedTuple):
    """What stays of an event."""

    aggregate_type: str
    aggregate_id: UUID
    aggregate_version: int
    event_hash: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedEvents:
    """What each removed event leaves, how many webhook deliveries were removed, and the new anchors of the chains.

    `next_position` is where the next page starts; None after the last page.
    """

    events: Sequence[RemovedEvent]
    webhook_deliveries: int
    anchors: Mapping[EventStream, ChainHead]
    next_position: EventPosition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedVersions:
    """The passport versions that were removed, and the number of their exports."""

    ids: list[PassportVersionId]
    exports: int


async def is_paused(conn: Connection) -> bool:
    """Whether retention is paused, for all tenants."""
    return bool(await conn.fetchval(SELECT_PAUSED, SYSTEM_TENANT, SCHEDULE_NAME))


async def remove_content(
    conn: Connection, tenant: TenantId, *, before: datetime, limit: int, at: datetime
) -> list[DocumentVersionId]:
    """Remove the bytes of document versions uploaded before `before`; return which. The rows stay."""
    old = [row[0] for row in await conn.fetch(SELECT_OLD_CONTENT, tenant, before, limit)]
    if old:
        await conn.execute(CLEAR_CONTENT, tenant, old, at)
        await conn.execute(DELETE_TEXTS, tenant, old)
    return old


async def remove_versions(conn: Connection, tenant: TenantId, *, before: datetime, limit: int) -> RemovedVersions:
    """Remove passport versions that were superseded, revoked or given up before `before`."""
    rows = await conn.fetch(SELECT_ENDED_VERSIONS, tenant, before, limit)
    rows += await conn.fetch(SELECT_ABANDONED_VERSIONS, tenant, before, limit - len(rows))
    ids = [PassportVersionId(row[0]) for row in rows]
    if not ids:
        return RemovedVersions(ids=[], exports=0)
    exports = parse_row_count(await conn.execute(DELETE_EXPORTS_OF_VERSIONS, tenant, ids))
    await conn.execute(DELETE_VERSIONS, tenant, ids)
    return RemovedVersions(ids=ids, exports=exports)


async def remove_exports(conn: Connection, tenant: TenantId, *, before: datetime, limit: int) -> int:
    """Remove exports that finished before `before`; return how many."""
    old = [row[0] for row in await conn.fetch(SELECT_OLD_EXPORTS, tenant, before, limit)]
    if old:
        await conn.execute(DELETE_EXPORTS, tenant, old)
    return len(old)


async def remove_events(
    conn: Connection, tenant: TenantId, *, before: datetime, after: EventPosition, page_size: int
) -> RemovedEvents:
    """Read the next page of events older than `before`, remove what can be removed, and set anchors."""
    rows = await conn.fetch(SELECT_OLD_EVENT_PAGE, tenant, before, after.occurred_at, after.event_id, page_size)
    next_position = (
        EventPosition(occurred_at=rows[-1]["occurred_at"], event_id=rows[-1]["event_id"])
        if len(rows) == page_size
        else None
    )
    end = next_position or EventPosition(occurred_at=before - SMALLEST_STEP, event_id=HIGHEST_ID)
    aggregates = {
        (row["aggregate_type"], row["aggregate_id"]) for row in rows if row["aggregate_type"] != UNCUT_AGGREGATE_TYPE
    }
    cuts = await _find_cuts(conn, tenant, aggregates, end) if aggregates else {}
    if not cuts:
        return RemovedEvents(events=(), webhook_deliveries=0, anchors={}, next_position=next_position)
    cut_columns = event_store.to_columns(cuts)
    await event_store.move_anchors(conn, tenant, cuts)
    deliveries = parse_row_count(await conn.execute(DELETE_DELIVERIES, tenant, *cut_columns))
    removed_events = [RemovedEvent(*row) for row in await conn.fetch(DELETE_EVENTS, tenant, *cut_columns)]
    return RemovedEvents(
        events=removed_events, webhook_deliveries=deliveries, anchors=cuts, next_position=next_position
    )


async def insert_removed_events(
    conn: Connection, tenant: TenantId, retention_event: AuditEvent, removed: Sequence[RemovedEvent]
) -> None:
    """Keep the hashes of removed events, whose hash is in the payload of `retention_event`."""
    if removed:
        columns = [list(column) for column in zip(*removed, strict=True)]
        await conn.execute(INSERT_REMOVED_EVENTS, tenant, retention_event.event_id, *columns)


def describe_removed(removed: Sequence[RemovedEvent]) -> dict[str, object]:
    """What a RetentionApplied event says of the events it removed."""
    digest = hash_rows((kind, str(each), version, to_hex(event_hash)) for kind, each, version, event_hash in removed)
    return {"count": len(removed), "sha256": to_hex(digest)}


async def _find_cuts(
    conn: Connection, tenant: TenantId, aggregates: set[tuple[str, UUID]], end: EventPosition
) -> dict[EventStream, ChainHead]:
    """The last event to remove of each chain that loses any."""
    chains = sorted(aggregates)
    types, ids = [kind for kind, _ in chains], [aggregate for _, aggregate in chains]
    rows = await conn.fetch(SELECT_CUTS, tenant, types, ids, end.occurred_at, end.event_id)
    return event_store.to_heads(tenant, rows)


async def count_removable(
    conn: Connection, tenant: TenantId, *, documents: datetime, passports: datetime, exports: datetime, events: datetime
) -> dict[str, int]:
    """How many rows of each table retention would remove with these cutoffs. Reads every event of the tenant."""
    event_counts = await conn.fetchrow(COUNT_EVENTS, tenant, events, passports)
    return {
        "document_versions": await conn.fetchval(COUNT_CONTENT, tenant, documents),
        "passport_versions": await conn.fetchval(COUNT_VERSIONS, tenant, passports),
        "passport_exports": await conn.fetchval(COUNT_EXPORTS, tenant, passports, exports),
        **({} if event_counts is None else dict(event_counts)),
    }
