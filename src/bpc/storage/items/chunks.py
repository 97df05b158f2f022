"""Chunks of runs: rows that wait, and what became of them. A chunk is issued once, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import BatteryId, BatteryProductId, ItemChunkId, ItemRunId, PassportVersionId, TenantId
from bpc.storage.connection import Connection, fetch_one, fetch_rows
from bpc.storage.items.chunk_work import RefusedItem

INSERT_CHUNKS: Final[LiteralString] = """
    INSERT INTO item_chunks (tenant_id, item_chunk_id, item_run_id, battery_product_id, chunk_number, total,
                             source_sha256, source, battery_ids, batch_version_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
SELECT_CHUNK_FOR_UPDATE: Final[LiteralString] = """
    SELECT item_chunk_id, item_run_id, total, source, source_sha256, issued_at, batch_version_id FROM item_chunks
     WHERE tenant_id = $1 AND item_chunk_id = $2 FOR NO KEY UPDATE
"""
SELECT_WAITING: Final[LiteralString] = """
    SELECT item_chunk_id, chunk_number FROM item_chunks
     WHERE tenant_id = $1 AND item_run_id = $2 AND issued_at IS NULL ORDER BY chunk_number
"""
# The batteries among $3 whose passport another run is about to issue, each with that run.
SELECT_PENDING: Final[LiteralString] = """
    SELECT DISTINCT w.battery_id, c.item_run_id
      FROM item_chunks c CROSS JOIN LATERAL unnest(c.battery_ids) AS w(battery_id)
     WHERE c.tenant_id = $1 AND c.battery_product_id = $2 AND c.issued_at IS NULL AND w.battery_id = ANY($3::uuid[])
"""
SELECT_PACKS: Final[LiteralString] = """
    SELECT item_chunk_id, pack_sha256 FROM item_chunks
     WHERE tenant_id = $1 AND item_chunk_id = ANY($2::uuid[]) FOR NO KEY UPDATE SKIP LOCKED
"""
UPDATE_ISSUED: Final[LiteralString] = """
    UPDATE item_chunks
       SET source = NULL, battery_ids = NULL, issued = $3, refusals = $4::jsonb, tree_seed = $5, root = $6,
           leaf_hashes = $7, pack_sha256 = $8, pack_bytes = $9, started_at = $10, issued_at = $11
     WHERE tenant_id = $1 AND item_chunk_id = $2
"""
SELECT_REFUSALS: Final[LiteralString] = """
    SELECT x ->> 'battery_id' AS battery_id, b.serial_number, x ->> 'code' AS code, x ->> 'says' AS says
      FROM item_chunks c CROSS JOIN LATERAL jsonb_array_elements(c.refusals) AS x
      JOIN batteries b ON b.tenant_id = $1 AND b.battery_id = (x ->> 'battery_id')::uuid
     WHERE c.tenant_id = $1 AND c.item_run_id = $2 AND c.refusals <> '[]'
     ORDER BY c.chunk_number LIMIT $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedChunk:
    """A chunk that nobody else issues until the transaction ends. Without a source it is issued."""

    item_chunk_id: ItemChunkId
    item_run_id: ItemRunId
    total: int
    source: bytes | None
    source_sha256: Digest
    issued_at: datetime | None
    batch_version_id: PassportVersionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingChunk:
    """A chunk that is to be issued."""

    item_chunk_id: ItemChunkId
    chunk_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """Rows of a run that are issued together: below the same version of a batch, or below none."""

    item_chunk_id: ItemChunkId
    chunk_number: int
    source: bytes
    battery_ids: Sequence[BatteryId]
    batch_version_id: PassportVersionId | None = None

    @property
    def source_sha256(self) -> Digest:
        return sha256(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedChunk:
    """What a chunk keeps of the rows that were issued."""

    issued: int
    refusals: Sequence[RefusedItem]
    tree_seed: bytes
    root: Digest
    leaf_hashes: bytes
    pack_sha256: Digest | None
    pack_bytes: int | None
    started_at: datetime
    issued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRow:
    """A battery of a run that has no passport, and why."""

    battery_id: str
    serial_number: str
    code: str
    says: str


async def insert_chunks(
    conn: Connection, tenant: TenantId, run: ItemRunId, product: BatteryProductId, chunks: Sequence[NewChunk]
) -> None:
    rows = [
        (
            tenant,
            chunk.item_chunk_id,
            run,
            product,
            chunk.chunk_number,
            len(chunk.battery_ids),
            chunk.source_sha256,
            chunk.source,
            chunk.battery_ids,
            chunk.batch_version_id,
        )
        for chunk in chunks
    ]
    await conn.executemany(INSERT_CHUNKS, rows)


async def lock_chunk(conn: Connection, tenant: TenantId, chunk: ItemChunkId) -> LockedChunk:
    return await fetch_one(conn, LockedChunk, SELECT_CHUNK_FOR_UPDATE, tenant, chunk, kind="item chunk")


async def list_waiting(conn: Connection, tenant: TenantId, run: ItemRunId) -> Sequence[WaitingChunk]:
    """The chunks of a run that are not issued yet."""
    return await fetch_rows(conn, WaitingChunk, SELECT_WAITING, tenant, run)


async def find_pending(
    conn: Connection, tenant: TenantId, product: BatteryProductId, batteries: Sequence[BatteryId]
) -> dict[UUID, ItemRunId]:
    """The batteries that are in a chunk that waits, each with its run."""
    rows = await conn.fetch(SELECT_PENDING, tenant, product, batteries)
    return {row["battery_id"]: ItemRunId(row["item_run_id"]) for row in rows}


async def lock_packs(
    conn: Connection, tenant: TenantId, chunk_ids: Sequence[ItemChunkId]
) -> dict[ItemChunkId, Digest | None]:
    """The pack of each of these chunks, None if it has none yet. Nobody issues them until the transaction ends.

    A chunk that is not on record, or that a job has in hand, is left out.
    """
    rows = await conn.fetch(SELECT_PACKS, tenant, chunk_ids)
    return {ItemChunkId(row["item_chunk_id"]): row["pack_sha256"] for row in rows}


async def set_issued(conn: Connection, tenant: TenantId, chunk: ItemChunkId, result: IssuedChunk) -> None:
    refusals: list[dict[str, Any]] = [
        {"battery_id": str(each.battery_id), "code": each.code, "says": each.says} for each in result.refusals
    ]
    await conn.execute(
        UPDATE_ISSUED,
        tenant,
        chunk,
        result.issued,
        orjson.dumps(refusals).decode(),
        result.tree_seed,
        result.root,
        result.leaf_hashes,
        result.pack_sha256,
        result.pack_bytes,
        result.started_at,
        result.issued_at,
    )


async def list_refusals(conn: Connection, tenant: TenantId, run: ItemRunId, *, limit: int) -> Sequence[RefusalRow]:
    """The first batteries of a run that were refused."""
    return await fetch_rows(conn, RefusalRow, SELECT_REFUSALS, tenant, run, limit)
