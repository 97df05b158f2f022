"""Snapshots and their facts. A sealed snapshot never changes again.

Every change locks the snapshot's row first (`lock_snapshot`) and keeps the lock until the transaction ends, so what was
counted, checked or hashed under the lock is still true at the end.

Facts that are made for snapshots (`facts.RESERVED_FACT_TYPES`) are neither counted nor listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import UnknownResource
from bpc.core.facts.fact_table import SnapshotFact, read_stored_facts
from bpc.core.facts.snapshot import FactRef
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import FactId, SnapshotId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.evidence.facts import JOIN_FACT_BY_ID

SnapshotStatus = Literal["BUILDING", "READY", "SEALED"]

INSERT_SNAPSHOT: Final[LiteralString] = """
    INSERT INTO data_snapshots (tenant_id, snapshot_id, status, label, created_at, created_by)
    VALUES ($1, $2, 'BUILDING', $3, $4, $5)
"""
COUNT_ITEMS: Final[LiteralString] = """
    SELECT (SELECT count(*) FROM snapshot_items WHERE tenant_id = $1 AND snapshot_id = $2 AND NOT is_reserved)
         - (SELECT count(*) FROM facts f
              JOIN snapshot_items i ON i.tenant_id = f.tenant_id AND i.snapshot_id = $2 AND i.fact_id = f.fact_id
             WHERE f.tenant_id = $1 AND f.fact_type = 'Blinding' AND f.fact_key = 'blinding:' || $2::uuid)
"""
SELECT_SNAPSHOT: Final[LiteralString] = f"""
    SELECT snapshot_id, status::text AS status, label, created_at, sealed_at, snapshot_hash, snapshot_canonical,
           ({COUNT_ITEMS}) AS count
      FROM data_snapshots
     WHERE tenant_id = $1 AND snapshot_id = $2
"""
SELECT_SNAPSHOT_FOR_SHARE: Final[LiteralString] = f"{SELECT_SNAPSHOT} FOR SHARE"
SELECT_SUMMARIES: Final[LiteralString] = """
    SELECT snapshot_id, status::text AS status, label, created_at, sealed_at, snapshot_hash FROM data_snapshots
"""
SELECT_SNAPSHOT_PAGE: Final[LiteralString] = make_page_query(SELECT_SUMMARIES, time="created_at", key="snapshot_id")
SELECT_STATUS_FOR_UPDATE: Final[LiteralString] = """
    SELECT status::text FROM data_snapshots WHERE tenant_id = $1 AND snapshot_id = $2 FOR NO KEY UPDATE
"""
FACTS_OF_SNAPSHOT: Final[LiteralString] = f"""
      FROM snapshot_items i {JOIN_FACT_BY_ID}
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2
"""
SELECT_FACTS: Final[LiteralString] = (
    f"SELECT f.fact_type, f.fact_key, f.schema_version, f.payload_canonical {FACTS_OF_SNAPSHOT}"
)
SELECT_FINDINGS: Final[LiteralString] = f"{SELECT_FACTS} AND i.is_reserved AND f.fact_type = 'Finding'"
SELECT_FACT_REFS: Final[LiteralString] = (
    f"SELECT f.fact_id, f.fact_type, f.fact_key, f.payload_hash {FACTS_OF_SNAPSHOT}"
)
INSERT_ITEMS: Final[LiteralString] = """
    INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id)
    SELECT $1, $2, unnest($3::uuid[])
        ON CONFLICT DO NOTHING
    RETURNING fact_id
"""
INSERT_RESERVED_ITEMS: Final[LiteralString] = """
    INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id, is_reserved)
    SELECT $1, $2, unnest($3::uuid[]), true
"""
DELETE_ITEM: Final[LiteralString] = """
    DELETE FROM snapshot_items i USING facts f
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2 AND i.fact_id = $3
       AND f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id AND f.fact_type <> 'Blinding' AND NOT i.is_reserved
    RETURNING true
"""
UPDATE_STATUS: Final[LiteralString] = """
    UPDATE data_snapshots SET status = $3::snapshot_status WHERE tenant_id = $1 AND snapshot_id = $2
"""
UPDATE_SEALED: Final[LiteralString] = """
    UPDATE data_snapshots SET status = 'SEALED', sealed_at = $3, snapshot_canonical = $4, snapshot_hash = $5
     WHERE tenant_id = $1 AND snapshot_id = $2
"""
# The number of events of its chain, also if retention has removed the first of them.
SELECT_CHANGE_COUNT: Final[LiteralString] = """
    SELECT greatest(
      (SELECT max(aggregate_version) FROM events
        WHERE tenant_id = $1 AND aggregate_type = 'DataSnapshot' AND aggregate_id = $2),
      (SELECT aggregate_version FROM event_anchors
        WHERE tenant_id = $1 AND aggregate_type = 'DataSnapshot' AND aggregate_id = $2))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummaryRow:
    """A snapshot in a list."""

    snapshot_id: SnapshotId
    status: SnapshotStatus
    label: str | None
    created_at: datetime
    sealed_at: datetime | None
    snapshot_hash: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow(SnapshotSummaryRow):
    """A snapshot; it has a hash and canonical bytes once it is sealed."""

    snapshot_canonical: bytes | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotItemRow:
    """A fact of a snapshot: its id, and the part that the snapshot's hash is computed from."""

    fact_id: FactId
    ref: FactRef


async def create_snapshot(conn: Connection, tenant: TenantId, *, label: str | None, act: Act) -> SnapshotRow:
    """Create a snapshot without facts, and append an event."""
    snapshot = SnapshotId(clock.new_id())
    await conn.execute(INSERT_SNAPSHOT, tenant, snapshot, label, act.at, act.actor_id)
    await events.append_act(conn, act, tenant, "DataSnapshot", snapshot, "SNAPSHOT_CREATED", {"label": label})
    return await get_snapshot(conn, tenant, snapshot)


async def get_snapshot(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> SnapshotRow:
    return await fetch_one(conn, SnapshotRow, SELECT_SNAPSHOT, tenant, snapshot, kind="snapshot")


async def lock_snapshot_shared(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> SnapshotRow:
    """The snapshot. Until the transaction ends, nobody changes it; others may take the same lock."""
    return await fetch_one(conn, SnapshotRow, SELECT_SNAPSHOT_FOR_SHARE, tenant, snapshot, kind="snapshot")


async def list_snapshots(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[SnapshotSummaryRow]:
    """Snapshots, newest first."""
    return await fetch_rows(conn, SnapshotSummaryRow, SELECT_SNAPSHOT_PAGE, tenant, *page)


async def lock_snapshot(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> SnapshotStatus:
    """The status of a snapshot. Until the transaction ends, nobody else changes it."""
    status: SnapshotStatus | None = await conn.fetchval(SELECT_STATUS_FOR_UPDATE, tenant, snapshot)
    if status is None:
        raise UnknownResource("snapshot", snapshot)
    return status


async def load_facts(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> list[SnapshotFact]:
    """All facts of a snapshot, its secret included, in no order; none if there is no such snapshot."""
    return read_stored_facts(await conn.fetch(SELECT_FACTS, tenant, snapshot))


async def load_findings(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> list[SnapshotFact]:
    """What is wrong about the evidence of a snapshot of a product, in no order."""
    return read_stored_facts(await conn.fetch(SELECT_FINDINGS, tenant, snapshot))


async def load_items(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> list[SnapshotItemRow]:
    """What the hash of a snapshot is computed from, its secret included."""
    return [
        SnapshotItemRow(
            fact_id=FactId(row["fact_id"]), ref=FactRef(row["fact_type"], row["fact_key"], Digest(row["payload_hash"]))
        )
        for row in await conn.fetch(SELECT_FACT_REFS, tenant, snapshot)
    ]


async def count_items(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> int:
    total: int = await conn.fetchval(COUNT_ITEMS, tenant, snapshot)
    return total


async def add_items(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, facts: Sequence[FactId]
) -> Sequence[FactId]:
    """Add facts; return those that were not in the snapshot yet."""
    return [FactId(row["fact_id"]) for row in await conn.fetch(INSERT_ITEMS, tenant, snapshot, facts)]


async def add_reserved_items(conn: Connection, tenant: TenantId, snapshot: SnapshotId, facts: Sequence[FactId]) -> None:
    """Add facts that were made for snapshots."""
    if facts:
        await conn.execute(INSERT_RESERVED_ITEMS, tenant, snapshot, facts)


async def remove_item(conn: Connection, tenant: TenantId, snapshot: SnapshotId, fact: FactId) -> bool:
    """Remove a fact; return whether it was in the snapshot."""
    return await conn.fetchval(DELETE_ITEM, tenant, snapshot, fact) is True


async def set_snapshot_status(conn: Connection, tenant: TenantId, snapshot: SnapshotId, status: SnapshotStatus) -> None:
    await conn.execute(UPDATE_STATUS, tenant, snapshot, status)


async def seal_snapshot(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, canonical: bytes, digest: Digest, *, at: datetime
) -> None:
    """Store the hash of a snapshot; from now on it never changes."""
    await conn.execute(UPDATE_SEALED, tenant, snapshot, at, canonical, digest)


async def count_changes(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> int:
    """How often a snapshot has been changed; the same number means the same facts."""
    version: int | None = await conn.fetchval(SELECT_CHANGE_COUNT, tenant, snapshot)
    return version or 0
