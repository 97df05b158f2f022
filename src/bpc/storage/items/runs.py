"""Runs that issue passports of batteries: what was asked for, how far each is, stopped and resumed.

How a run stands is not written down: it follows from its chunks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import UnknownResource
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import (
    ActorId,
    BatteryProductId,
    ItemRunId,
    PassportVersionId,
    RulePackageVersionId,
    TenantId,
)
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.items.pinned_model import PinnedModel

ItemRunStatus = Literal["RUNNING", "STOPPED", "FINISHED"]

LOCK_PRODUCT: Final[LiteralString] = (
    "SELECT pg_advisory_xact_lock(hashtextextended('item-runs/' || $1::text || '/' || $2::text, 0))"
)
INSERT_RUN: Final[LiteralString] = """
    INSERT INTO item_runs (tenant_id, item_run_id, battery_product_id, model_version_id, rule_package_version_id,
                           model_receipt_hash, dsl_sha256, request_hash, compiler_build_id, signing_key_id, secret,
                           total, unchanged, requested_at, requested_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
"""
SELECT_BY_REQUEST: Final[LiteralString] = "SELECT item_run_id FROM item_runs WHERE tenant_id = $1 AND request_hash = $2"
SELECT_RUNS: Final[LiteralString] = """
    SELECT r.item_run_id, r.battery_product_id, p.sku, r.model_version_id, r.rule_package_version_id, r.total,
           r.unchanged, r.requested_at, r.requested_by, r.stopped_at, c.chunks, c.chunks_done, c.issued, c.refused,
           c.started_at, c.last_at
      FROM item_runs r
     CROSS JOIN LATERAL (SELECT sku FROM battery_products
                          WHERE tenant_id = r.tenant_id AND battery_product_id = r.battery_product_id LIMIT 1) AS p
     CROSS JOIN LATERAL (
       SELECT count(*)::int AS chunks, count(issued_at)::int AS chunks_done, coalesce(sum(issued), 0)::int AS issued,
              coalesce(sum(total) FILTER (WHERE issued_at IS NOT NULL), 0)::int - coalesce(sum(issued), 0)::int
                AS refused,
              min(started_at) AS started_at, max(issued_at) AS last_at
         FROM item_chunks WHERE tenant_id = r.tenant_id AND item_run_id = r.item_run_id) AS c
"""
SELECT_RUN: Final[LiteralString] = f"{SELECT_RUNS} WHERE r.tenant_id = $1 AND r.item_run_id = $2"
SELECT_ORDER: Final[LiteralString] = """
    SELECT item_run_id, model_version_id, rule_package_version_id, model_receipt_hash, dsl_sha256, compiler_build_id,
           signing_key_id, secret, requested_at, requested_by, stopped_at, resumed
      FROM item_runs WHERE tenant_id = $1 AND item_run_id = $2
"""
# Chunks of a run are issued at the same time; stopping it waits for them, and they wait for the stop.
SELECT_ORDER_SHARED: Final[LiteralString] = f"{SELECT_ORDER} FOR SHARE"
SELECT_ORDER_FOR_UPDATE: Final[LiteralString] = f"{SELECT_ORDER} FOR NO KEY UPDATE"
UPDATE_STOPPED: Final[LiteralString] = (
    "UPDATE item_runs SET stopped_at = $3, resumed = $4 WHERE tenant_id = $1 AND item_run_id = $2"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRunRow:
    """A run, and how far it is."""

    item_run_id: ItemRunId
    battery_product_id: BatteryProductId
    sku: str
    model_version_id: PassportVersionId
    rule_package_version_id: RulePackageVersionId
    total: int
    unchanged: int
    requested_at: datetime
    requested_by: ActorId | None
    stopped_at: datetime | None
    chunks: int
    chunks_done: int
    issued: int
    refused: int
    started_at: datetime | None
    last_at: datetime | None

    @property
    def status(self) -> ItemRunStatus:
        if self.chunks_done == self.chunks:
            return "FINISHED"
        return "RUNNING" if self.stopped_at is None else "STOPPED"

    @property
    def rate(self) -> int | None:
        """Batteries a second, from the start of the first chunk to the end of the last; None before there is one."""
        if self.started_at is None or self.last_at is None or self.last_at <= self.started_at:
            return None
        return round((self.issued + self.refused) / (self.last_at - self.started_at).total_seconds())

    @property
    def remaining_seconds(self) -> int | None:
        """How long the rest takes at this rate; None if that is not known, or nothing goes on."""
        if self.status != "RUNNING" or not self.rate:
            return None
        return -(-(self.total - self.issued - self.refused) // self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRunOrder(PinnedModel):
    """Everything that the bytes of a run's passports depend on beside its rows. `secret` is as it is stored."""

    item_run_id: ItemRunId
    secret: str
    requested_at: datetime
    requested_by: ActorId | None
    stopped_at: datetime | None = None
    resumed: int = 0


async def lock_product(conn: Connection, tenant: TenantId, product: BatteryProductId) -> None:
    """Let one request at a time ask for passports of a product, until the transaction ends."""
    await conn.execute(LOCK_PRODUCT, str(tenant), str(product))


async def find_run_of_request(conn: Connection, tenant: TenantId, request_hash: Digest) -> ItemRunId | None:
    """The run that the same request made before."""
    run: ItemRunId | None = await conn.fetchval(SELECT_BY_REQUEST, tenant, request_hash)
    return run


async def insert_run(
    conn: Connection,
    tenant: TenantId,
    order: ItemRunOrder,
    *,
    product: BatteryProductId,
    request_hash: Digest,
    total: int,
    unchanged: int,
) -> None:
    await conn.execute(
        INSERT_RUN,
        tenant,
        order.item_run_id,
        product,
        order.model_version_id,
        order.rule_package_version_id,
        order.model_receipt_hash,
        order.dsl_sha256,
        request_hash,
        order.compiler_build_id,
        order.signing_key_id,
        order.secret,
        total,
        unchanged,
        order.requested_at,
        order.requested_by,
    )


async def get_run(conn: Connection, tenant: TenantId, run: ItemRunId) -> ItemRunRow:
    return await fetch_one(conn, ItemRunRow, SELECT_RUN, tenant, run, kind="item run")


async def list_runs(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ItemRunRow]:
    """Runs, newest first."""
    statement = make_page_query(SELECT_RUNS, time="r.requested_at", key="r.item_run_id")
    return await fetch_rows(conn, ItemRunRow, statement, tenant, *page)


async def share_run(conn: Connection, tenant: TenantId, run: ItemRunId) -> ItemRunOrder:
    """The order of a run that nobody stops until the transaction ends."""
    return await fetch_one(conn, ItemRunOrder, SELECT_ORDER_SHARED, tenant, run, kind="item run")


async def stop_run(conn: Connection, tenant: TenantId, run: ItemRunId, *, act: Act) -> bool:
    """Let no further chunk of a run start. False if it is stopped already."""
    order = await _lock_run(conn, tenant, run)
    if order.stopped_at is not None:
        return False
    await conn.execute(UPDATE_STOPPED, tenant, run, act.at, order.resumed)
    await events.append_act(conn, act, tenant, "ItemRun", run, "ITEM_RUN_STOPPED", {})
    return True


async def resume_run(conn: Connection, tenant: TenantId, run: ItemRunId, *, act: Act) -> int:
    """Let a run go on; return how often it was resumed. One that is not stopped may have jobs that died."""
    order = await _lock_run(conn, tenant, run)
    await conn.execute(UPDATE_STOPPED, tenant, run, None, order.resumed + 1)
    await events.append_act(conn, act, tenant, "ItemRun", run, "ITEM_RUN_RESUMED", {})
    return order.resumed + 1


async def _lock_run(conn: Connection, tenant: TenantId, run: ItemRunId) -> ItemRunOrder:
    row = await conn.fetchrow(SELECT_ORDER_FOR_UPDATE, tenant, run)
    if row is None:
        raise UnknownResource("item run", run)
    return ItemRunOrder(**row)
