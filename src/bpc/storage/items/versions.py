"""Versions of the passports of batteries: rows that are only added, each with the place of its bytes in a pack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.errors import NotFound
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import BatteryId, ItemChunkId, ItemRunId, PassportVersionId, TenantId
from bpc.storage.connection import LATEST_TIME, Connection, fetch_rows, split_rows
from bpc.storage.items.chunk_work import IssuedItem
from bpc.storage.items.pack_format import PackPlace

STATUS: Final = "ISSUED"
INSERT_VERSIONS: Final[LiteralString] = """
    INSERT INTO item_passport_versions (tenant_id, item_chunk_id, issued_at, status, battery_id, passport_version_id,
                                        receipt_hash, input_hash, pack_offset, pack_length, fail_count, warn_count,
                                        leaf_number)
    SELECT $1, $2, $3, $4, w.battery_id, w.version, w.receipt_hash, w.input_hash, w.start, w.length, w.fail, w.warn,
           w.place - 1
      FROM unnest($5::uuid[], $6::uuid[], $7::bytea[], $8::bytea[], $9::int[], $10::int[], $11::int[], $12::int[])
           WITH ORDINALITY AS w(battery_id, version, receipt_hash, input_hash, start, length, fail, warn, place)
"""
SELECT_NEWEST_INPUTS: Final[LiteralString] = """
    SELECT v.battery_id, v.input_hash, r.model_version_id, c.batch_version_id
      FROM unnest($2::uuid[]) AS w(battery_id)
     CROSS JOIN LATERAL (
       SELECT battery_id, input_hash, item_chunk_id FROM item_passport_versions
        WHERE tenant_id = $1 AND battery_id = w.battery_id ORDER BY issued_at DESC LIMIT 1) AS v
      JOIN item_chunks c ON c.tenant_id = $1 AND c.item_chunk_id = v.item_chunk_id
      JOIN item_runs r ON r.tenant_id = $1 AND r.item_run_id = c.item_run_id
"""
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT v.battery_id, v.passport_version_id, v.issued_at, v.status, v.fail_count, v.warn_count, v.receipt_hash,
           v.pack_offset, v.pack_length, v.item_chunk_id, v.leaf_number, c.pack_sha256, r.item_run_id,
           r.model_version_id, r.model_receipt_hash, r.signing_key_id, c.batch_version_id,
           coalesce(r.model_version_id = (
             SELECT current_passport_version_id FROM passports
              WHERE tenant_id = v.tenant_id AND battery_product_id = r.battery_product_id), false) AS model_is_active
      FROM item_passport_versions v
      JOIN item_chunks c ON c.tenant_id = v.tenant_id AND c.item_chunk_id = v.item_chunk_id
      JOIN item_runs r ON r.tenant_id = v.tenant_id AND r.item_run_id = c.item_run_id
     WHERE v.tenant_id = $1 AND v.battery_id = $2 AND v.issued_at <= $3
     ORDER BY v.issued_at DESC LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVersionRow:
    """A version of a battery's passport: the model it lies below, and where its bytes are."""

    battery_id: BatteryId
    passport_version_id: PassportVersionId
    issued_at: datetime
    status: str
    fail_count: int
    warn_count: int
    receipt_hash: Digest
    pack_offset: int
    pack_length: int
    item_chunk_id: ItemChunkId
    leaf_number: int
    pack_sha256: Digest
    item_run_id: ItemRunId
    model_version_id: PassportVersionId
    model_receipt_hash: Digest
    signing_key_id: str
    batch_version_id: PassportVersionId | None
    model_is_active: bool

    @property
    def place(self) -> PackPlace:
        return PackPlace(self.pack_offset, self.pack_length)


@dataclass(frozen=True, slots=True)
class NewestInput:
    """What the newest passport of a battery was made from."""

    input_hash: Digest
    model_version_id: PassportVersionId
    batch_version_id: PassportVersionId | None


class NoItemPassport(NotFound):
    """The battery has no passport of its own."""

    def __init__(self, battery: BatteryId) -> None:
        super().__init__(
            f"battery `{battery}` has no passport of its own (at that time)",
            hint="issue the battery",
        )


async def insert_versions(
    conn: Connection,
    tenant: TenantId,
    chunk: ItemChunkId,
    items: Sequence[IssuedItem],
    places: Sequence[PackPlace],
    *,
    issued_at: datetime,
) -> None:
    """Add the versions of a chunk, in its order."""
    await conn.execute(
        INSERT_VERSIONS,
        tenant,
        chunk,
        issued_at,
        STATUS,
        [item.battery_id for item in items],
        [item.passport_version_id for item in items],
        [item.receipt_hash for item in items],
        [item.input_hash for item in items],
        [place.offset for place in places],
        [place.length for place in places],
        [item.fail_count for item in items],
        [item.warn_count for item in items],
    )


async def find_newest_inputs(
    conn: Connection, tenant: TenantId, batteries: Sequence[BatteryId]
) -> Mapping[UUID, NewestInput]:
    """What the newest passport of each battery was made from, of those that have one."""
    inputs = dict[UUID, NewestInput]()
    for part in split_rows(batteries):
        for row in await conn.fetch(SELECT_NEWEST_INPUTS, tenant, part):
            newest = NewestInput(row["input_hash"], row["model_version_id"], row["batch_version_id"])
            inputs[row["battery_id"]] = newest
    return inputs


async def get_version(
    conn: Connection, tenant: TenantId, battery: BatteryId, *, at: datetime = LATEST_TIME
) -> ItemVersionRow:
    """The newest version of a battery's passport, or the one of a time. Raises `NoItemPassport`."""
    rows = await list_versions(conn, tenant, battery, at=at, limit=1)
    if not rows:
        raise NoItemPassport(battery)
    return rows[0]


async def list_versions(
    conn: Connection, tenant: TenantId, battery: BatteryId, *, at: datetime = LATEST_TIME, limit: int = 100
) -> Sequence[ItemVersionRow]:
    """The versions of a battery's passport, newest first."""
    return await fetch_rows(conn, ItemVersionRow, SELECT_VERSIONS, tenant, battery, at, limit)
