"""Retention: what has outlived its time, found by its age and removed, a bounded piece at a time.

Takes the system role, bound to the tenant. Nothing here commits: what is removed and the record of it belong together.

Events are walked in the order of (occurred_at, event_id), a page at a time. Of each chain that a page touches goes the
beginning of which every event lies within the pages walked so far; a chain is never cut behind an event that stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.anchors import NEVER_CUT
from bpc.core.digest import Digest
from bpc.core.events import Head, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.db import anchors
from bpc.db.connection import Connection
from bpc.db.tenants import SYSTEM_TENANT

SCHEDULE: Final = "retention"  # its name, in the tenant `system`
BEGINNING: Final = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
LOWEST: Final = UUID(int=0)
HIGHEST: Final = UUID(int=2**128 - 1)
SMALLEST_STEP: Final = timedelta(microseconds=1)

PAUSED: Final[LiteralString] = "SELECT paused FROM jobs.schedule WHERE tenant_id = $1 AND name = $2"

# Whoever works on a version at this moment is left alone; the next run finds it.
OLD_CONTENT: Final[LiteralString] = """
    SELECT document_version_id FROM document_versions
     WHERE tenant_id = $1 AND content IS NOT NULL AND uploaded_at < $2
     ORDER BY uploaded_at
     LIMIT $3
       FOR NO KEY UPDATE SKIP LOCKED
"""
REMOVE_CONTENT: Final[LiteralString] = """
    UPDATE document_versions SET content = NULL, content_removed_at = $3
     WHERE tenant_id = $1 AND document_version_id = ANY($2)
"""
REMOVE_TEXTS: Final[LiteralString] = """
    DELETE FROM document_texts WHERE tenant_id = $1 AND document_version_id = ANY($2)
"""
ENDED: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status IN ('SUPERSEDED', 'REVOKED') AND greatest(superseded_at, revoked_at) < $2
     ORDER BY greatest(superseded_at, revoked_at)
     LIMIT $3
       FOR UPDATE SKIP LOCKED
"""
REMOVE_EXPORTS: Final[LiteralString] = """
    DELETE FROM passport_exports WHERE tenant_id = $1 AND passport_version_id = ANY($2)
"""
# They can be made again, so they go while their version stays. One that is not over is left to its job.
OLD_EXPORTS: Final[LiteralString] = """
    SELECT export_id FROM passport_exports
     WHERE tenant_id = $1 AND finished_at < $2
     ORDER BY finished_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
"""
REMOVE_OLD_EXPORTS: Final[LiteralString] = """
    DELETE FROM passport_exports WHERE tenant_id = $1 AND export_id = ANY($2)
"""
REMOVE_VERSIONS: Final[LiteralString] = """
    DELETE FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = ANY($2)
"""
PAGE: Final[LiteralString] = """
    SELECT occurred_at, event_id, aggregate_type, aggregate_id FROM events
     WHERE tenant_id = $1 AND occurred_at < $2 AND (occurred_at, event_id) > ($3, $4)
     ORDER BY occurred_at, event_id
     LIMIT $5
"""
# A passport version's chain is part of its evidence, and stays whole as long as the version does.
CUTS: Final[LiteralString] = """
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
"""
BEHIND: Final[LiteralString] = """
    unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
     WHERE e.tenant_id = $1 AND e.aggregate_type = w.aggregate_type AND e.aggregate_id = w.aggregate_id
       AND e.aggregate_version <= w.aggregate_version
"""
REMOVE_DELIVERIES: Final[LiteralString] = f"""
    DELETE FROM webhook_deliveries d USING events e, {BEHIND}
       AND d.tenant_id = $1 AND d.event_id = e.event_id
"""
REMOVE_EVENTS: Final[LiteralString] = f"DELETE FROM events e USING {BEHIND}"

# The same, only counted, over everything at once: for a person who asks what would go.
COUNT_CONTENT: Final[LiteralString] = """
    SELECT count(*) FROM document_versions WHERE tenant_id = $1 AND content IS NOT NULL AND uploaded_at < $2
"""
COUNT_VERSIONS: Final[LiteralString] = """
    SELECT count(*) FROM passport_versions
     WHERE tenant_id = $1 AND status IN ('SUPERSEDED', 'REVOKED') AND greatest(superseded_at, revoked_at) < $2
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
          AND NOT (p.status IN ('SUPERSEDED', 'REVOKED') AND greatest(p.superseded_at, p.revoked_at) < $3)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far the walk over the events is."""

    occurred_at: datetime = BEGINNING
    event_id: UUID = LOWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """Events that went: how many, with how many deliveries of theirs, and where their chains begin now.

    `further` is where the walk goes on; None at its end.
    """

    events: int
    webhook_deliveries: int
    anchors: Mapping[Stream, Head]
    further: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Passport versions that went, and how many exports of theirs."""

    ids: list[PassportVersionId]
    exports: int


async def is_on_hold(conn: Connection) -> bool:
    """Whether somebody has paused retention, for all tenants."""
    return bool(await conn.fetchval(PAUSED, SYSTEM_TENANT, SCHEDULE))


async def remove_content(conn: Connection, tenant: TenantId, *, before: datetime, most: int, at: datetime) -> int:
    """Remove the bytes of documents that were uploaded before: of how many versions. The row stays."""
    old = [row[0] for row in await conn.fetch(OLD_CONTENT, tenant, before, most)]
    if old:
        await conn.execute(REMOVE_CONTENT, tenant, old, at)
        await conn.execute(REMOVE_TEXTS, tenant, old)
    return len(old)


async def remove_versions(conn: Connection, tenant: TenantId, *, before: datetime, most: int) -> Versions:
    """Remove passport versions that were superseded or revoked before."""
    ids = [PassportVersionId(row[0]) for row in await conn.fetch(ENDED, tenant, before, most)]
    if not ids:
        return Versions(ids=[], exports=0)
    exports = _count(await conn.execute(REMOVE_EXPORTS, tenant, ids))
    await conn.execute(REMOVE_VERSIONS, tenant, ids)
    return Versions(ids=ids, exports=exports)


async def remove_exports(conn: Connection, tenant: TenantId, *, before: datetime, most: int) -> int:
    """Remove exports that were over before, whatever they are of: how many."""
    old = [row[0] for row in await conn.fetch(OLD_EXPORTS, tenant, before, most)]
    if old:
        await conn.execute(REMOVE_OLD_EXPORTS, tenant, old)
    return len(old)


async def remove_events(conn: Connection, tenant: TenantId, *, before: datetime, since: Place, page: int) -> Walked:
    """Remove what the next page of events that happened before lets go, and leave anchors."""
    rows = await conn.fetch(PAGE, tenant, before, since.occurred_at, since.event_id, page)
    further = Place(occurred_at=rows[-1]["occurred_at"], event_id=rows[-1]["event_id"]) if len(rows) == page else None
    end = further or Place(occurred_at=before - SMALLEST_STEP, event_id=HIGHEST)
    touched = {(row["aggregate_type"], row["aggregate_id"]) for row in rows if row["aggregate_type"] != NEVER_CUT}
    cuts = await _cuts(conn, tenant, touched, end) if touched else {}
    if not cuts:
        return Walked(events=0, webhook_deliveries=0, anchors={}, further=further)
    behind = anchors.columns(cuts)
    await anchors.put(conn, tenant, cuts)
    deliveries = _count(await conn.execute(REMOVE_DELIVERIES, tenant, *behind))
    removed = _count(await conn.execute(REMOVE_EVENTS, tenant, *behind))
    return Walked(events=removed, webhook_deliveries=deliveries, anchors=cuts, further=further)


async def _cuts(conn: Connection, tenant: TenantId, touched: set[tuple[str, UUID]], end: Place) -> dict[Stream, Head]:
    """The last event that goes of each chain of which any does."""
    chains = sorted(touched)
    types, ids = [kind for kind, _ in chains], [aggregate for _, aggregate in chains]
    return {
        Stream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"])): Head(
            row["aggregate_version"], Digest(row["event_hash"])
        )
        for row in await conn.fetch(CUTS, tenant, types, ids, end.occurred_at, end.event_id)
    }


async def counted(
    conn: Connection, tenant: TenantId, *, documents: datetime, passports: datetime, exports: datetime, events: datetime
) -> dict[str, int]:
    """How many of what would go with these cutoffs. Reads every event of the tenant."""
    walked = await conn.fetchrow(COUNT_EVENTS, tenant, events, passports)
    return {
        "document_versions": await conn.fetchval(COUNT_CONTENT, tenant, documents),
        "passport_versions": await conn.fetchval(COUNT_VERSIONS, tenant, passports),
        "passport_exports": await conn.fetchval(COUNT_EXPORTS, tenant, passports, exports),
        **({} if walked is None else dict(walked)),
    }


def _count(tag: str) -> int:
    """How many rows a command says it has changed."""
    return int(tag.rpartition(" ")[2])
