"""Comparing passports of batteries with the events of their chunks: each row that was added, removed or changed.

    event ITEMS_ISSUED ─► root, count, pack ─► the chunk ─► hashes of its leaves ─► its rows

A root that does not follow from the kept hashes is a fault of the chunk. If the hashes are right, each row whose own
hash differs, that is missing, or that is one too many is named.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.state import ADDED, CHANGED, DELETED, StateFault
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import TenantId
from bpc.core.items.chunk_tree import (
    LeafRow,
    compute_chunk_root,
    hash_full_leaf,
    hash_item_leaf,
    split_leaf_hashes,
)
from bpc.storage.connection import LOWEST_ID, Connection

CHUNKS_TABLE: Final = "item_chunks"
VERSIONS_TABLE: Final = "item_passport_versions"
CHUNKS_AT_ONCE: Final = 100
FIRST_LEAF_VERSION: Final = 1  # of chunks whose event says none
SELECT_CHUNKS: Final[LiteralString] = """
    SELECT item_chunk_id, issued, tree_seed, root, leaf_hashes, pack_sha256, issued_at FROM item_chunks
     WHERE tenant_id = $1 AND item_chunk_id > $2 ORDER BY item_chunk_id LIMIT $3
"""
SELECT_EVENTS: Final[LiteralString] = """
    SELECT aggregate_id, payload_canonical FROM events
     WHERE tenant_id = $1 AND aggregate_type = 'ItemBatch' AND event_type = 'ITEMS_ISSUED'
       AND aggregate_id = ANY($2::uuid[])
"""
# One look at the key for each event, whatever the planner believes of tables that it has no statistics of yet. A plain
# NOT EXISTS becomes a join that compares each event with each chunk.
SELECT_EVENTS_WITHOUT_CHUNK: Final[LiteralString] = """
    SELECT e.aggregate_id
      FROM events e
      LEFT JOIN LATERAL (
        SELECT c.item_chunk_id FROM item_chunks c
         WHERE c.tenant_id = $1 AND c.item_chunk_id = e.aggregate_id LIMIT 1) AS c ON true
     WHERE e.tenant_id = $1 AND e.aggregate_type = 'ItemBatch' AND e.event_type = 'ITEMS_ISSUED'
       AND c.item_chunk_id IS NULL
"""
SELECT_ROWS: Final[LiteralString] = """
    SELECT leaf_number, battery_id, passport_version_id, receipt_hash, status, fail_count, warn_count, input_hash
      FROM item_passport_versions
     WHERE tenant_id = $1 AND item_chunk_id = $2 ORDER BY leaf_number
"""


async def verify_item_chunks(conn: Connection, tenant: TenantId) -> tuple[int, list[StateFault]]:
    """How many passports were compared, and what contradicts the events."""
    count, faults = 0, list[StateFault]()
    async for chunks, payloads in _iterate_chunks(conn, tenant):
        for chunk in chunks:
            payload = payloads.get(chunk["item_chunk_id"])
            if chunk["issued_at"] is None and payload is None:
                continue
            count += chunk["issued"] or 0
            leaf_version = FIRST_LEAF_VERSION if payload is None else payload.get("leaf_version", FIRST_LEAF_VERSION)
            faults += _compare_chunk(chunk, payload) or await _compare_rows(conn, tenant, chunk, leaf_version)
    for row in await conn.fetch(SELECT_EVENTS_WITHOUT_CHUNK, tenant):
        says = "its event says that passports were issued, and the chunk is not there"
        faults.append(_make_fault(CHUNKS_TABLE, row[0], None, DELETED, says))
    return count, faults


async def _iterate_chunks(
    conn: Connection, tenant: TenantId
) -> AsyncIterator[tuple[Sequence[asyncpg.Record], Mapping[UUID, Mapping[str, Any]]]]:
    """Chunks, some at a time, and what their events say."""
    after = LOWEST_ID
    while rows := await conn.fetch(SELECT_CHUNKS, tenant, after, CHUNKS_AT_ONCE):
        after = rows[-1]["item_chunk_id"]
        events = await conn.fetch(SELECT_EVENTS, tenant, [row["item_chunk_id"] for row in rows])
        yield rows, {event["aggregate_id"]: orjson.loads(event["payload_canonical"]) for event in events}


def _compare_chunk(chunk: asyncpg.Record, payload: Mapping[str, Any] | None) -> list[StateFault]:
    """The first thing that is wrong with a chunk itself."""
    chunk_id = chunk["item_chunk_id"]
    if payload is None:
        return [_make_fault(CHUNKS_TABLE, chunk_id, None, ADDED, "no event says that it was issued")]
    pack = chunk["pack_sha256"]
    columns = {"issued": chunk["issued"], "root": _to_hex(chunk["root"]), "pack_sha256": _to_hex(pack)}
    expected = {"issued": payload["count"], "root": payload["root"], "pack_sha256": payload["pack_sha256"]}
    for name, value in columns.items():
        if value != expected[name]:
            says = f"it is {value}, and its event says {expected[name]}"
            return [_make_fault(CHUNKS_TABLE, chunk_id, name, CHANGED, says)]
    if compute_chunk_root(split_leaf_hashes(chunk["leaf_hashes"]), chunk["tree_seed"]) != chunk["root"]:
        return [_make_fault(CHUNKS_TABLE, chunk_id, "leaf_hashes", CHANGED, "they do not give its root")]
    return []


async def _compare_rows(
    conn: Connection, tenant: TenantId, chunk: asyncpg.Record, leaf_version: int
) -> list[StateFault]:
    chunk_id, faults = chunk["item_chunk_id"], list[StateFault]()
    hashes = split_leaf_hashes(chunk["leaf_hashes"])
    rows = {row["leaf_number"]: row for row in await conn.fetch(SELECT_ROWS, tenant, chunk_id)}
    for number in sorted(rows.keys() | set(range(len(hashes)))):
        row = rows.get(number)
        if row is None:
            says = f"passport {number} of chunk {chunk_id} is not there"
            faults.append(_make_fault(VERSIONS_TABLE, f"{chunk_id}/{number}", None, DELETED, says))
        elif number >= len(hashes):
            says = f"chunk {chunk_id} issued {len(hashes)} passports, and this is one more"
            faults.append(_make_fault(VERSIONS_TABLE, row["battery_id"], None, ADDED, says))
        elif _hash_row(row, leaf_version) != hashes[number]:
            says = f"it is not passport {number} of chunk {chunk_id}, as that was issued"
            faults.append(_make_fault(VERSIONS_TABLE, row["battery_id"], None, CHANGED, says))
    return faults


def _hash_row(row: asyncpg.Record, leaf_version: int) -> Digest:
    columns = {name: row[name] for name in LeafRow._fields}
    if leaf_version == FIRST_LEAF_VERSION:
        return hash_item_leaf(*LeafRow(**columns)[:4])
    return hash_full_leaf(LeafRow(**columns))


def _to_hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _make_fault(table: str, row_id: object, column: str | None, problem: str, says: str) -> StateFault:
    return StateFault(table=table, row_id=str(row_id), column=column, problem=problem, says=says)
