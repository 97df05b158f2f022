"""Which batteries of a product pin an earlier version of their model or their batch, and what they were made from.

Chunks are looked through in the order of their ids, some at a time: all batteries of a chunk pin the same versions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import BatteryBatchId, BatteryId, BatteryProductId, PassportVersionId, TenantId
from bpc.core.items.item_facts import find_statements
from bpc.storage.connection import Connection, fetch_rows
from bpc.storage.items.pack_bucket import PackLocation, open_packs
from bpc.storage.items.pack_format import PackPlace

SELECT_BEHIND_CHUNKS: Final[LiteralString] = """
    SELECT c.item_chunk_id
      FROM item_runs r
      JOIN item_chunks c ON c.tenant_id = r.tenant_id AND c.item_run_id = r.item_run_id
     WHERE r.tenant_id = $1 AND r.battery_product_id = $2 AND c.issued > 0 AND c.item_chunk_id > $4
       AND (r.model_version_id <> $3 OR EXISTS (
         SELECT FROM batch_passport_versions v
           JOIN batch_passport_versions n ON n.tenant_id = $1 AND n.battery_batch_id = v.battery_batch_id
                AND n.requested_at > v.requested_at AND n.content IS NOT NULL
          WHERE v.tenant_id = $1 AND v.passport_version_id = c.batch_version_id))
     ORDER BY c.item_chunk_id LIMIT $5
"""
SELECT_CURRENT_CHUNKS: Final[LiteralString] = """
    SELECT c.item_chunk_id
      FROM item_runs r
      JOIN item_chunks c ON c.tenant_id = r.tenant_id AND c.item_run_id = r.item_run_id
     WHERE r.tenant_id = $1 AND r.model_version_id = $2 AND c.issued > 0 AND c.item_chunk_id > $3
     ORDER BY c.item_chunk_id LIMIT $4
"""
# Only what counts of a battery: its newest passport, if it still has one.
SELECT_NEWEST_ITEMS: Final[LiteralString] = """
    SELECT v.battery_id, b.serial_number, c.pack_sha256, v.pack_offset, v.pack_length
      FROM unnest($2::uuid[]) AS w(chunk)
      JOIN item_chunks c ON c.tenant_id = $1 AND c.item_chunk_id = w.chunk
     CROSS JOIN LATERAL (
       SELECT battery_id, issued_at, leaf_number, pack_offset, pack_length FROM item_passport_versions
        WHERE tenant_id = $1 AND item_chunk_id = w.chunk) AS v
     CROSS JOIN LATERAL (
       SELECT serial_number, ceased_at, successor FROM batteries
        WHERE tenant_id = $1 AND battery_id = v.battery_id) AS b
     WHERE b.ceased_at IS NULL AND b.successor IS NULL AND NOT EXISTS (
       SELECT FROM item_passport_versions n
        WHERE n.tenant_id = $1 AND n.battery_id = v.battery_id AND n.issued_at > v.issued_at)
     ORDER BY w.chunk, v.leaf_number
"""
SELECT_BEHIND_BATCHES: Final[LiteralString] = """
    SELECT b.battery_batch_id, b.batch_number, v.facts, n.ended_at IS NULL AS is_waiting,
           CASE WHEN n.model_version_id = $3 THEN n.refusal END AS refusal
      FROM battery_batches b
     CROSS JOIN LATERAL (
       SELECT facts, model_version_id FROM batch_passport_versions
        WHERE tenant_id = $1 AND battery_batch_id = b.battery_batch_id AND content IS NOT NULL
        ORDER BY requested_at DESC LIMIT 1) AS v
     CROSS JOIN LATERAL (
       SELECT ended_at, refusal, model_version_id FROM batch_passport_versions
        WHERE tenant_id = $1 AND battery_batch_id = b.battery_batch_id ORDER BY requested_at DESC LIMIT 1) AS n
     WHERE b.tenant_id = $1 AND b.battery_product_id = $2 AND (v.model_version_id <> $3 OR n.ended_at IS NULL)
     ORDER BY b.batch_number LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestItem:
    """A battery with its newest passport, and where the bytes of that passport are."""

    battery_id: BatteryId
    serial_number: str
    pack_sha256: Digest
    pack_offset: int
    pack_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindBatch:
    """A batch that lies below an earlier version of its model, or is being issued. `refusal` is of the newest one."""

    battery_batch_id: BatteryBatchId
    batch_number: str
    facts: bytes
    is_waiting: bool
    refusal: str | None


async def list_behind_chunks(
    conn: Connection,
    tenant: TenantId,
    product: BatteryProductId,
    model: PassportVersionId,
    *,
    after: UUID,
    limit: int,
) -> Sequence[UUID]:
    """Chunks whose batteries pin another version than `model`, or an earlier version of their batch."""
    return [row[0] for row in await conn.fetch(SELECT_BEHIND_CHUNKS, tenant, product, model, after, limit)]


async def list_current_chunks(
    conn: Connection, tenant: TenantId, model: PassportVersionId, *, after: UUID, limit: int
) -> Sequence[UUID]:
    """Chunks whose batteries pin this version of their model."""
    return [row[0] for row in await conn.fetch(SELECT_CURRENT_CHUNKS, tenant, model, after, limit)]


async def list_newest_items(conn: Connection, tenant: TenantId, chunk_ids: Sequence[UUID]) -> Sequence[NewestItem]:
    """The batteries of these chunks whose newest passport is there, in the order of the chunks."""
    return await fetch_rows(conn, NewestItem, SELECT_NEWEST_ITEMS, tenant, chunk_ids)


async def list_behind_batches(
    conn: Connection, tenant: TenantId, product: BatteryProductId, model: PassportVersionId, *, limit: int
) -> Sequence[BehindBatch]:
    """Batches of a product whose passport lies below another version than `model`, or is being issued."""
    return await fetch_rows(conn, BehindBatch, SELECT_BEHIND_BATCHES, tenant, product, model, limit)


def read_statements(location: PackLocation, items: Sequence[NewestItem]) -> Mapping[BatteryId, Mapping[str, Json]]:
    """What was stated of each battery for its passport; the packs are read once each. For a child process."""
    packs, statements = open_packs(location), dict[BatteryId, Mapping[str, Json]]()
    for digest, group in groupby(items, key=lambda item: item.pack_sha256):
        group_items = list(group)
        places = [PackPlace(item.pack_offset, item.pack_length) for item in group_items]
        for item, facts in zip(group_items, packs.read_facts(digest, places), strict=True):
            statements[item.battery_id] = find_statements(facts)
    return statements
