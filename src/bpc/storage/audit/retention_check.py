"""Checking what retention says of itself: its cutoffs, the hashes that removed events left, and the log.

RetentionApplied events ─► cutoffs (bpc.core.audit.cutoffs), lists of hashes in removed_events, what it removed
events that the log shows ─► an opening or a row of the outbox for each
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson

from bpc.core.audit.checkpoint import RETENTION_EVENT_TYPE, UNCUT_AGGREGATE_TYPE
from bpc.core.audit.cutoffs import RetentionPart, find_cutoff_faults
from bpc.core.audit.events import ChainFault, EventStream
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.tlog.entries import ENTRY_KINDS, READABLE_KINDS
from bpc.storage.audit.audit_heads import check_heads
from bpc.storage.audit.state_check import RemovedRows
from bpc.storage.connection import Connection

MAX_FAULTS: Final = 1000
SELECT_RETENTION_EVENTS: Final[LiteralString] = """
    SELECT event_id, aggregate_version, occurred_at, payload_canonical FROM events
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $1 AND event_type = $3
     ORDER BY aggregate_version
"""
# The same bytes as bpc.core.audit.row_hashes.
REMOVED_LINE: Final[LiteralString] = """
    concat_ws(chr(31), r.aggregate_type, r.aggregate_id::text, r.aggregate_version::text, encode(r.event_hash, 'hex'))
"""
SELECT_REMOVED_HASHES: Final[LiteralString] = f"""
    SELECT r.removed_by, sha256(convert_to(
             string_agg({REMOVED_LINE} COLLATE "C", chr(30) ORDER BY {REMOVED_LINE} COLLATE "C"), 'UTF8')) AS digest
      FROM removed_events r WHERE r.tenant_id = $1 GROUP BY r.removed_by
"""
# Up to its anchor, a chain has a hash for each removed event, since retention keeps them.
SELECT_BROKEN_CHAINS: Final[LiteralString] = """
    WITH chains AS (
      SELECT aggregate_type, aggregate_id, min(aggregate_version) AS first, max(aggregate_version) AS last,
             count(*) AS hashes, (array_agg(event_hash::bytea ORDER BY aggregate_version DESC))[1] AS last_hash
        FROM removed_events WHERE tenant_id = $1 GROUP BY aggregate_type, aggregate_id)
    SELECT c.aggregate_type, c.aggregate_id, c.last FROM chains c
      LEFT JOIN event_anchors a ON a.tenant_id = $1 AND a.aggregate_type = c.aggregate_type
           AND a.aggregate_id = c.aggregate_id
     WHERE a.aggregate_version IS DISTINCT FROM c.last OR a.event_hash::bytea IS DISTINCT FROM c.last_hash
        OR c.hashes <> c.last - c.first + 1
        OR c.first > 1 AND NOT EXISTS (
           SELECT FROM retention_anchors o WHERE o.tenant_id = $1 AND o.aggregate_type = c.aggregate_type
              AND o.aggregate_id = c.aggregate_id AND o.aggregate_version = c.first - 1)
     LIMIT 1000
"""
# An event that the log shows as younger than every cutoff was not removed by retention, whatever stands in its place.
SELECT_REMOVED_TOO_EARLY: Final[LiteralString] = """
    SELECT o.aggregate_type, o.aggregate_id, s.statement ->> 'aggregate_version' AS aggregate_version, o.kind
      FROM log_openings o
     CROSS JOIN LATERAL (SELECT convert_from(o.statement, 'UTF8')::jsonb AS statement) AS s
     WHERE o.tenant_id = $1 AND s.statement ? 'event_hash' AND (s.statement ->> 'at')::timestamptz >= $2
       AND NOT EXISTS (SELECT FROM events e WHERE e.tenant_id = $1 AND e.aggregate_type = o.aggregate_type
                          AND e.aggregate_id = o.aggregate_id
                          AND e.aggregate_version = (s.statement ->> 'aggregate_version')::bigint)
     LIMIT 1000
"""
SELECT_NOT_LOGGED: Final[LiteralString] = """
    SELECT e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_type FROM events e
     WHERE e.tenant_id = $1 AND e.event_type = ANY($2::text[])
       AND e.occurred_at > (SELECT applied_at FROM schema_migrations
                             WHERE component = 'bpc' AND name LIKE $3 ORDER BY version LIMIT 1)
       AND NOT EXISTS (SELECT FROM log_outbox o WHERE o.tenant_id = $1 AND o.event_hash = e.event_hash::bytea)
       AND NOT EXISTS (
         SELECT FROM log_openings p WHERE p.tenant_id = $1 AND p.aggregate_id = e.aggregate_id
            AND position(convert_to(encode(e.event_hash, 'hex'), 'UTF8') IN p.statement) > 0)
     LIMIT 1000
"""
# Chains never become fewer: retention leaves an anchor of each.
COUNT_CHAINS: Final[LiteralString] = """
    SELECT count(*) FROM (SELECT aggregate_type, aggregate_id FROM events WHERE tenant_id = $1
                          UNION SELECT aggregate_type, aggregate_id FROM event_anchors WHERE tenant_id = $1) AS chains
"""
SELECT_LOGGED_CHAINS: Final[LiteralString] = """
    SELECT max((convert_from(statement, 'UTF8')::jsonb ->> 'chains')::bigint) FROM log_openings
     WHERE tenant_id = $1 AND kind = 'AUDIT_HEAD'
"""
# Keys are logged readably, without an opening.
SEALED_EVENT_TYPES: Final = [name for name, kind in ENTRY_KINDS.items() if kind not in READABLE_KINDS]
# Events belong to the log since the migration that says so; those from before do not.
LATER_TYPES: Final = {"BATTERY_RECYCLED": "%\\_logged\\_cessations.sql"}
TYPES_BY_MIGRATION: Final = {
    "%\\_log.sql": [name for name in SEALED_EVENT_TYPES if name not in LATER_TYPES],
    **{migration: [name] for name, migration in LATER_TYPES.items()},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionVerification:
    """What is wrong with retention, and what it removed."""

    faults: tuple[ChainFault, ...]
    removed: RemovedRows


async def verify_retention(
    conn: Connection, tenant: TenantId, *, now: datetime, floor_days: int
) -> RetentionVerification:
    """Check every RetentionApplied event of a tenant, and that the log has every event that belongs there."""
    stream = EventStream(tenant, UNCUT_AGGREGATE_TYPE, AggregateId(tenant))
    parts: dict[UUID, RetentionPart] = {}
    for row in await conn.fetch(SELECT_RETENTION_EVENTS, tenant, UNCUT_AGGREGATE_TYPE, RETENTION_EVENT_TYPE):
        payload = _read_payload(row["payload_canonical"])
        parts[row["event_id"]] = RetentionPart(
            stream=stream, version=row["aggregate_version"], at=row["occurred_at"], payload=payload
        )
    faults = list(find_cutoff_faults(parts.values(), now=now, floor_days=floor_days))
    faults += await _check_hashes(conn, tenant, stream, parts)
    faults += await _check_log(conn, tenant, list(parts.values()))
    return RetentionVerification(faults=tuple(faults), removed=_collect_removed(list(parts.values())))


async def _check_hashes(
    conn: Connection, tenant: TenantId, stream: EventStream, parts: dict[UUID, RetentionPart]
) -> list[ChainFault]:
    faults = []
    digests = {row["removed_by"]: row["digest"] for row in await conn.fetch(SELECT_REMOVED_HASHES, tenant)}
    for event_id, part in parts.items():
        claimed_hash = part.payload.get("removed", {}).get("sha256")
        digest = digests.pop(event_id, None)
        if claimed_hash != (None if digest is None else to_hex(Digest(digest))):
            says = "the hashes of removed events listed under it do not have the hash it claims"
            faults.append(ChainFault(stream=stream, version=part.version, says=says))
    for _ in digests:
        says = "hashes of removed events are listed under no retention event"
        faults.append(ChainFault(stream=stream, version=0, says=says))
    for row in await conn.fetch(SELECT_BROKEN_CHAINS, tenant):
        chain = EventStream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"]))
        says = "the hashes that its removed events left do not lead to its anchor"
        faults.append(ChainFault(stream=chain, version=row["last"], says=says))
    return faults


async def _check_log(conn: Connection, tenant: TenantId, parts: Sequence[RetentionPart]) -> list[ChainFault]:
    faults = []
    cutoffs = [cutoff for part in parts if (cutoff := (part.read_cutoffs() or {}).get("events")) is not None]
    if cutoffs:
        for row in await conn.fetch(SELECT_REMOVED_TOO_EARLY, tenant, max(cutoffs)):
            chain = EventStream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"]))
            says = f"it is gone, and the log shows that it was younger than every cutoff: {row['kind']}"
            faults.append(ChainFault(stream=chain, version=int(row["aggregate_version"]), says=says))
    logged_chains = await conn.fetchval(SELECT_LOGGED_CHAINS, tenant) or 0
    if (missing := logged_chains - await conn.fetchval(COUNT_CHAINS, tenant)) > 0:
        stream = EventStream(tenant, UNCUT_AGGREGATE_TYPE, AggregateId(tenant))
        says = f"the log shows that this tenant had {logged_chains:,} chains; {missing:,} of them are gone"
        faults.append(ChainFault(stream=stream, version=0, says=says))
    faults += await check_heads(conn, tenant)
    for migration, event_types in TYPES_BY_MIGRATION.items():
        for row in await conn.fetch(SELECT_NOT_LOGGED, tenant, event_types, migration):
            chain = EventStream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"]))
            says = f"{row['event_type']} is neither in the transparency log nor on its way there"
            faults.append(ChainFault(stream=chain, version=row["aggregate_version"], says=says))
    return faults


def _collect_removed(parts: Sequence[RetentionPart]) -> RemovedRows:
    versions: set[str] = set()
    contents: set[str] = set()
    unlisted_times: list[datetime] = []
    for part in parts:
        versions |= set(part.payload.get("passport_version_ids", ()))
        contents |= set(part.payload.get("document_version_ids", ()))
        cutoff = (part.read_cutoffs() or {}).get("document_versions")
        if "document_version_ids" not in part.payload and cutoff is not None:
            unlisted_times.append(cutoff)
    return RemovedRows(
        passport_versions=frozenset(versions),
        contents=frozenset(contents),
        unlisted_before=max(unlisted_times, default=None),
        events_before=max(
            (cutoff for part in parts if (cutoff := (part.read_cutoffs() or {}).get("events")) is not None),
            default=None,
        ),
    )


def _read_payload(payload_canonical: bytes) -> dict[str, Any]:
    try:
        payload = orjson.loads(payload_canonical)
    except orjson.JSONDecodeError:  # the chain's own verification names it
        return {}
    return payload if isinstance(payload, dict) else {}
