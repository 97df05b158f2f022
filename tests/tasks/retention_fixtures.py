"""What the tests of retention share: old events, parts that run here, and what they leave."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.tasks.retention import (
    Cutoffs,
    PartSize,
    RemovedCounts,
    RetentionOrder,
    RetentionResult,
    remove_expired,
)

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

ROOT = Path(__file__).resolve().parents[2]
NOW = clock.now()
YEARS_AGO = NOW - timedelta(days=20 * 365)
CUTOFF = NOW - timedelta(days=15 * 365)
ALL_SIZES = PartSize()
SETTINGS = Settings(data_dir=ROOT)  # as they are if nobody set any


def make_order(cutoff: datetime = CUTOFF) -> RetentionOrder:
    cutoffs = Cutoffs(document_versions=cutoff, passport_versions=cutoff, passport_exports=cutoff, events=cutoff)
    return RetentionOrder(run_id=clock.new_id(), cutoffs=cutoffs)


async def run_part(
    database: Database, tenant: TenantId, order: RetentionOrder, size: PartSize = ALL_SIZES
) -> RetentionResult:
    async with database.system(tenant) as conn:
        return await remove_expired(conn, tenant, order, act=Act(None, clock.now()), size=size)


async def run_all_parts(
    database: Database, tenant: TenantId, order: RetentionOrder | None = None, *, size: PartSize = ALL_SIZES
) -> RemovedCounts:
    total, following = RemovedCounts(), order or make_order()
    while True:
        done = await run_part(database, tenant, following, size)
        total += done.counts
        if done.next_order is None:
            return total
        following = done.next_order


async def append_chain(database: Database, tenant: TenantId, *moments: datetime, kind: str = "Document") -> EventStream:
    stream = EventStream(tenant, kind, AggregateId(clock.new_id()))
    async with database.tenant(tenant) as conn:
        for moment in moments:
            await events.append(conn, stream, Act(None, moment).new_event("DOCUMENT_CHANGED", {"at": str(moment)}))
    return stream


async def list_versions(database: Database, stream: EventStream) -> list[int]:
    async with database.tenant(stream.tenant_id) as conn:
        return [stored.event.version for stored in await events.read_chain(conn, stream)]


async def find_faults(database: Database, tenant: TenantId) -> list[tuple[str, int, str]]:
    async with database.tenant(tenant) as conn:
        verified = await events.verify_tenant(conn, tenant)
    return [(fault.stream.aggregate_type, fault.version, fault.says) for fault in verified.faults]


async def read_applied_events(database: Database, tenant: TenantId) -> list[dict[str, Any]]:
    async with database.tenant(tenant) as conn:
        chain = await conn.fetch(
            "SELECT payload::text FROM events WHERE tenant_id = $1 AND event_type = 'RetentionApplied'"
            " ORDER BY aggregate_version",
            tenant,
        )
    return [orjson.loads(row[0]) for row in chain]


async def age_row(database: Database, table: str, column: str, id_of_row: UUID) -> None:
    """Move a row into the past, as only who passes every rule can."""
    keys = {"document_versions": "document_version_id", "passport_versions": "passport_version_id"}
    conn = await asyncpg.connect(**database.address.connect_arguments())
    try:
        await conn.execute("SET ROLE bpc_owner")
        await conn.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await conn.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        await conn.execute(f"UPDATE {table} SET {column} = $2 WHERE {keys[table]} = $1", id_of_row, YEARS_AGO)
        await conn.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        await conn.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    finally:
        await conn.close()
