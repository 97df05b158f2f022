"""Snapshots and what is in them. A sealed one never changes again.

Whoever changes a snapshot holds its row's lock first (`locked`), and keeps it until the transaction ends: what was
counted, checked or hashed under the lock is what is there.

The `Blinding` fact of a snapshot is ours: it is neither counted nor listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString, cast

from bpc import fresh
from bpc.core import canon
from bpc.core.digest import Digest
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.facts import SnapshotFact
from bpc.core.ids import AggregateId, FactId, SnapshotId, TenantId
from bpc.core.snapshot import FactRef
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Status = Literal["BUILDING", "READY", "SEALED"]

INSERT: Final[LiteralString] = """
    INSERT INTO data_snapshots (tenant_id, snapshot_id, status, label, created_at, created_by)
    VALUES ($1, $2, 'BUILDING', $3, $4, $5)
"""
COUNT: Final[LiteralString] = """
    SELECT (SELECT count(*) FROM snapshot_items WHERE tenant_id = $1 AND snapshot_id = $2)
         - (SELECT count(*) FROM facts f
              JOIN snapshot_items i ON i.tenant_id = f.tenant_id AND i.snapshot_id = $2 AND i.fact_id = f.fact_id
             WHERE f.tenant_id = $1 AND f.fact_type = 'Blinding' AND f.fact_key = 'blinding:' || $2::uuid)
"""
ONE: Final[LiteralString] = f"""
    SELECT snapshot_id, status::text AS status, label, created_at, sealed_at, snapshot_hash, snapshot_canonical,
           ({COUNT}) AS count
      FROM data_snapshots
     WHERE tenant_id = $1 AND snapshot_id = $2
"""
SHARED: Final[LiteralString] = f"{ONE} FOR SHARE"
PAGE: Final[LiteralString] = """
    SELECT snapshot_id, status::text AS status, label, created_at, sealed_at, snapshot_hash FROM data_snapshots
     WHERE tenant_id = $1 AND (created_at, snapshot_id) < ($2, $3)
     ORDER BY created_at DESC, snapshot_id DESC
     LIMIT $4
"""
LOCKED: Final[LiteralString] = """
    SELECT status::text FROM data_snapshots WHERE tenant_id = $1 AND snapshot_id = $2 FOR NO KEY UPDATE
"""
FACTS: Final[LiteralString] = """
    SELECT f.fact_type, f.fact_key, f.schema_version, f.payload_canonical
      FROM snapshot_items i
      JOIN facts f ON f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2
"""
REFS: Final[LiteralString] = """
    SELECT f.fact_id, f.fact_type, f.fact_key, f.payload_hash
      FROM snapshot_items i
      JOIN facts f ON f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2
"""
ADD: Final[LiteralString] = """
    INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id)
    SELECT $1, $2, unnest($3::uuid[])
        ON CONFLICT DO NOTHING
    RETURNING fact_id
"""
REMOVE: Final[LiteralString] = """
    DELETE FROM snapshot_items i USING facts f
     WHERE i.tenant_id = $1 AND i.snapshot_id = $2 AND i.fact_id = $3
       AND f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id AND f.fact_type <> 'Blinding'
    RETURNING true
"""
SET_STATUS: Final[LiteralString] = """
    UPDATE data_snapshots SET status = $3::snapshot_status WHERE tenant_id = $1 AND snapshot_id = $2
"""
SEAL: Final[LiteralString] = """
    UPDATE data_snapshots SET status = 'SEALED', sealed_at = $3, snapshot_canonical = $4, snapshot_hash = $5
     WHERE tenant_id = $1 AND snapshot_id = $2
"""
# How many events its chain has had, also where retention has removed the first of them.
CHANGES: Final[LiteralString] = """
    SELECT greatest(
      (SELECT max(aggregate_version) FROM events
        WHERE tenant_id = $1 AND aggregate_type = 'DataSnapshot' AND aggregate_id = $2),
      (SELECT aggregate_version FROM event_anchors
        WHERE tenant_id = $1 AND aggregate_type = 'DataSnapshot' AND aggregate_id = $2))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A snapshot as a list shows it."""

    snapshot_id: SnapshotId
    status: Status
    label: str | None
    created_at: datetime
    sealed_at: datetime | None
    snapshot_hash: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot; its hash and canonical bytes are there once it is sealed."""

    snapshot_id: SnapshotId
    status: Status
    label: str | None
    created_at: datetime
    sealed_at: datetime | None
    snapshot_hash: Digest | None
    snapshot_canonical: bytes | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A fact of a snapshot, as far as its hash needs it."""

    fact_id: FactId
    ref: FactRef


class SnapshotUnknown(NotFound):
    def __init__(self, snapshot: SnapshotId) -> None:
        super().__init__(f"there is no snapshot `{snapshot}`", fix="GET /v1/snapshots lists those there are")


def stream(tenant: TenantId, snapshot: SnapshotId) -> Stream:
    return Stream(tenant, "DataSnapshot", AggregateId(snapshot))


async def create(conn: Connection, tenant: TenantId, *, label: str | None, act: Act) -> Snapshot:
    """A new snapshot without facts, on record."""
    snapshot = SnapshotId(fresh.new_id())
    await conn.execute(INSERT, tenant, snapshot, label, act.at, act.actor_id)
    await events.append(conn, stream(tenant, snapshot), act.says("SNAPSHOT_CREATED", {"label": label}))
    return await get(conn, tenant, snapshot)


async def get(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Snapshot:
    return await _one(conn, ONE, tenant, snapshot)


async def shared(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Snapshot:
    """The snapshot, which nobody changes until we are done; any number may look at a time."""
    return await _one(conn, SHARED, tenant, snapshot)


async def _one(conn: Connection, statement: LiteralString, tenant: TenantId, snapshot: SnapshotId) -> Snapshot:
    row = await conn.fetchrow(statement, tenant, snapshot)
    if row is None:
        raise SnapshotUnknown(snapshot)
    return Snapshot(**dict(row))


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Listed]:
    """Snapshots, newest first."""
    return [Listed(**dict(row)) for row in await conn.fetch(PAGE, tenant, *ask)]


async def locked(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Status:
    """The status of a snapshot, which nobody else changes until we are done."""
    status: Status | None = await conn.fetchval(LOCKED, tenant, snapshot)
    if status is None:
        raise SnapshotUnknown(snapshot)
    return status


async def facts_of(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> list[SnapshotFact]:
    """All facts of a snapshot, its secret included, in no order; none where there is no such snapshot."""
    return [
        SnapshotFact(
            fact_type=row["fact_type"],
            fact_key=row["fact_key"],
            schema_version=row["schema_version"],
            payload=cast("dict[str, Any]", canon.decode(row["payload_canonical"])),
        )
        for row in await conn.fetch(FACTS, tenant, snapshot)
    ]


async def items_of(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> list[Item]:
    """What the hash of a snapshot is made of, its secret included."""
    return [
        Item(
            fact_id=FactId(row["fact_id"]),
            ref=FactRef(row["fact_type"], row["fact_key"], Digest(row["payload_hash"])),
        )
        for row in await conn.fetch(REFS, tenant, snapshot)
    ]


async def count(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> int:
    found: int = await conn.fetchval(COUNT, tenant, snapshot)
    return found


async def add(conn: Connection, tenant: TenantId, snapshot: SnapshotId, facts: Sequence[FactId]) -> Sequence[FactId]:
    """Put facts in; those that were not in already."""
    return [FactId(row["fact_id"]) for row in await conn.fetch(ADD, tenant, snapshot, facts)]


async def remove(conn: Connection, tenant: TenantId, snapshot: SnapshotId, fact: FactId) -> bool:
    """Take a fact out; whether it was in."""
    return await conn.fetchval(REMOVE, tenant, snapshot, fact) is True


async def set_status(conn: Connection, tenant: TenantId, snapshot: SnapshotId, status: Status) -> None:
    await conn.execute(SET_STATUS, tenant, snapshot, status)


async def seal(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, canonical: bytes, digest: Digest, *, at: datetime
) -> None:
    """Close a snapshot for ever."""
    await conn.execute(SEAL, tenant, snapshot, at, canonical, digest)


async def changes(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> int:
    """How often a snapshot has been changed; the same number means the same facts."""
    found: int | None = await conn.fetchval(CHANGES, tenant, snapshot)
    return found or 0
