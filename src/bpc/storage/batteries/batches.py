"""Batches: batteries of one product that were made together. A batch is created once and never changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, LiteralString

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import BatteryBatchId, BatteryProductId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query, split_rows
from bpc.storage.list_filters import ListConditions

BatchName = tuple[BatteryProductId, str]

INSERT_BATCHES: Final[LiteralString] = """
    INSERT INTO battery_batches (tenant_id, battery_batch_id, battery_product_id, batch_number, plant, manufactured_on,
                                 created_at)
    SELECT $1, w.* , $7 FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::date[]) AS w
    ON CONFLICT ON CONSTRAINT battery_batches_number_key DO NOTHING
    RETURNING battery_batch_id
"""
SELECT_BATCHES: Final[LiteralString] = """
    SELECT b.battery_batch_id, b.battery_product_id, p.sku, b.batch_number, b.plant, b.manufactured_on, b.created_at
      FROM battery_batches b
      JOIN battery_products p ON p.tenant_id = b.tenant_id AND p.battery_product_id = b.battery_product_id
"""
SELECT_BATCH: Final[LiteralString] = f"{SELECT_BATCHES} WHERE b.tenant_id = $1 AND b.battery_batch_id = $2"
SELECT_BATCHES_BY_NUMBER: Final[LiteralString] = """
    SELECT b.battery_product_id, b.batch_number, b.battery_batch_id
      FROM unnest($2::uuid[], $3::text[]) AS w(product, number)
      JOIN battery_batches b ON b.tenant_id = $1 AND b.battery_product_id = w.product AND b.batch_number = w.number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch and its product."""

    battery_batch_id: BatteryBatchId
    battery_product_id: BatteryProductId
    sku: str
    batch_number: str
    plant: str | None
    manufactured_on: date | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch that is to be created."""

    battery_product_id: BatteryProductId
    batch_number: str
    plant: str | None = None
    manufactured_on: date | None = None


class BatchNumberTaken(Conflict):
    """The product has a batch with this number."""

    def __init__(self, batch: BatteryBatchId) -> None:
        super().__init__(
            "the product has a batch with this number already",
            fix="use the existing batch",
            details={"battery_batch_id": str(batch)},
        )


async def create_batch(conn: Connection, tenant: TenantId, batch: NewBatch, *, act: Act) -> BatchRow:
    """Create a batch, and append an event."""
    name = batch.battery_product_id, batch.batch_number
    if existing := (await find_batches(conn, tenant, [name])).get(name):
        raise BatchNumberTaken(existing)
    await create_missing_batches(conn, tenant, [batch], act=act)
    return await get_batch(conn, tenant, (await find_batches(conn, tenant, [name]))[name])


async def create_missing_batches(
    conn: Connection, tenant: TenantId, all_batches: Sequence[NewBatch], *, act: Act
) -> None:
    """Create the batches that do not exist, and append an event for each that was created."""
    for batches in split_rows(all_batches):
        ids = [BatteryBatchId(clock.new_id()) for _ in batches]
        columns = (
            ids,
            [batch.battery_product_id for batch in batches],
            [batch.batch_number for batch in batches],
            [batch.plant for batch in batches],
            [batch.manufactured_on for batch in batches],
        )
        created_ids = {row[0] for row in await conn.fetch(INSERT_BATCHES, tenant, *columns, act.at)}
        for batch_id, batch in zip(ids, batches, strict=True):
            if batch_id in created_ids:
                payload = {
                    "battery_product_id": str(batch.battery_product_id),
                    "batch_number": batch.batch_number,
                    "plant": batch.plant,
                    "manufactured_on": None if batch.manufactured_on is None else batch.manufactured_on.isoformat(),
                }
                await events.append_act(
                    conn, act, tenant, "BatteryBatch", batch_id, "BATCH_CREATED", payload, head=EMPTY_CHAIN
                )


async def find_batches(
    conn: Connection, tenant: TenantId, names: Sequence[BatchName]
) -> Mapping[BatchName, BatteryBatchId]:
    """The ids of the batches with these numbers."""
    batch_ids = dict[BatchName, BatteryBatchId]()
    for pairs in split_rows(names):
        rows = await conn.fetch(
            SELECT_BATCHES_BY_NUMBER, tenant, [product for product, _ in pairs], [number for _, number in pairs]
        )
        for row in rows:
            name = BatteryProductId(row["battery_product_id"]), row["batch_number"]
            batch_ids[name] = BatteryBatchId(row["battery_batch_id"])
    return batch_ids


async def get_batch(conn: Connection, tenant: TenantId, batch: BatteryBatchId) -> BatchRow:
    return await fetch_one(conn, BatchRow, SELECT_BATCH, tenant, batch, kind="batch")


async def list_batches(
    conn: Connection, tenant: TenantId, page: PageQuery, *, sku: str | None = None, batch_number: str | None = None
) -> Sequence[BatchRow]:
    """Batches, newest first."""
    conditions = ListConditions()
    conditions.add("p.sku = {}", sku)
    conditions.add("b.batch_number = {}", batch_number)
    statement = make_page_query(SELECT_BATCHES, time="b.created_at", key="b.battery_batch_id", where=conditions.where)
    return await fetch_rows(conn, BatchRow, statement, tenant, *page, *conditions.values)
