"""Anchors as they are kept: where chains begin after retention, and the lists that vouch for them.

event_anchors       where each cut chain begins today
retention_anchors   every anchor that was ever put, under the RetentionApplied event that has their hash
"""

from collections.abc import Mapping
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.core.anchors import APPLIED, NEVER_CUT, Part, claimed_in, unvouched
from bpc.core.digest import Digest
from bpc.core.events import Event, Fault, Head, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.db.connection import Connection

ALL: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors WHERE tenant_id = $1
"""
OF_CHAIN: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3
"""
PARTS: Final[LiteralString] = """
    SELECT event_id, aggregate_version, payload_canonical FROM events
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $1 AND event_type = $3
     ORDER BY aggregate_version
"""
LISTED: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM retention_anchors
     WHERE tenant_id = $1 AND event_id = $2
"""
NAMING: Final[LiteralString] = """
    SELECT event_id FROM retention_anchors WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3
"""
PUT: Final[LiteralString] = """
    INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT $1, w.aggregate_type, w.aggregate_id, w.aggregate_version, w.event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
        ON CONFLICT (tenant_id, aggregate_type, aggregate_id) DO UPDATE
       SET aggregate_version = excluded.aggregate_version, event_hash = excluded.event_hash
"""
LIST: Final[LiteralString] = """
    INSERT INTO retention_anchors (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT $1, $6, w.aggregate_type, w.aggregate_id, w.aggregate_version, w.event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
"""

ALONE: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('retention/' || $1, 0))"
TOGETHER: Final[LiteralString] = "SELECT pg_advisory_xact_lock_shared(hashtextextended('retention/' || $1, 0))"

Columns = tuple[list[str], list[AggregateId], list[int], list[Digest | None]]


async def alone(conn: Connection, tenant: TenantId) -> None:
    """Move anchors: until the transaction ends nobody else does, nor looks."""
    await conn.execute(ALONE, str(tenant))


async def hold(conn: Connection, tenant: TenantId) -> None:
    """Look at anchors and events one after the other: no anchor moves until the transaction ends."""
    await conn.execute(TOGETHER, str(tenant))


async def of_tenant(conn: Connection, tenant: TenantId) -> dict[Stream, Head]:
    """Where every cut chain of a tenant begins."""
    return _heads(tenant, await conn.fetch(ALL, tenant))


async def of_chain(conn: Connection, stream: Stream) -> dict[Stream, Head]:
    """Where one chain begins, if it was cut."""
    return _heads(stream.tenant_id, await conn.fetch(OF_CHAIN, *stream))


async def put(conn: Connection, tenant: TenantId, anchors: Mapping[Stream, Head]) -> None:
    """Let chains begin behind these events, which are still there. Takes the system role."""
    await conn.execute(PUT, tenant, *columns(anchors))


async def vouch(conn: Connection, tenant: TenantId, applied: Event, anchors: Mapping[Stream, Head]) -> None:
    """List the anchors whose hash `applied` has in its payload. Takes the system role."""
    await conn.execute(LIST, tenant, *columns(anchors), applied.event_id)


async def faults_of_tenant(conn: Connection, tenant: TenantId, anchors: Mapping[Stream, Head]) -> list[Fault]:
    """What is wrong with the anchors of a tenant."""
    return list(unvouched(anchors, await _parts(conn, tenant, None)))


async def faults_of_chain(conn: Connection, stream: Stream, anchors: Mapping[Stream, Head]) -> list[Fault]:
    """What is wrong with the anchor of one chain, as far as the lists that name it tell."""
    naming = {row["event_id"] for row in await conn.fetch(NAMING, *stream)}
    parts = await _parts(conn, stream.tenant_id, naming) if naming else []
    found = unvouched(anchors, parts)
    return [fault for fault in found if fault.stream == stream or fault.stream.aggregate_type == NEVER_CUT]


async def _parts(conn: Connection, tenant: TenantId, only: set[UUID] | None) -> list[Part]:
    found = []
    for row in await conn.fetch(PARTS, tenant, NEVER_CUT, APPLIED):
        if only is None or row["event_id"] in only:
            part = Part(
                stream=Stream(tenant, NEVER_CUT, AggregateId(tenant)),
                version=row["aggregate_version"],
                claimed=claimed_in(row["payload_canonical"]),
                anchors=_heads(tenant, await conn.fetch(LISTED, tenant, row["event_id"])),
            )
            found.append(part)
    return found


def columns(anchors: Mapping[Stream, Head]) -> Columns:
    """What `unnest` makes rows of."""
    return (
        [stream.aggregate_type for stream in anchors],
        [stream.aggregate_id for stream in anchors],
        [head.version for head in anchors.values()],
        [head.event_hash for head in anchors.values()],
    )


def _heads(tenant: TenantId, rows: list[asyncpg.Record]) -> dict[Stream, Head]:
    return {
        Stream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"])): Head(
            row["aggregate_version"], Digest(row["event_hash"])
        )
        for row in rows
    }
