"""Issue batteries again that pin an earlier version of their model: below the active one, with what is known of them.

    request_rebase ─┬─► batches lie below an earlier version: they are requested again first
                    ├─► a run of the batteries of some chunks, and where to go on
                    └─► nothing is left

What a file stated of a battery comes from its newest passport; what is on record and its readings are as they are now.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from service_jobs import Handler, Jobs, RequestQueue

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId, BatteryProductId, ItemRunId, PassportVersionId, TenantId
from bpc.core.items.batch_facts import BATCH_NUMBER
from bpc.core.items.item_facts import encode_item_facts
from bpc.runtime import clock
from bpc.storage.batteries import batches
from bpc.storage.batteries.batteries import load_registered_items
from bpc.storage.batteries.readings import load_reading_facts
from bpc.storage.connection import LOWEST_ID, Connection
from bpc.storage.items import chunks, rebase, runs, versions
from bpc.storage.items.chunk_work import ChunkRow
from bpc.storage.items.pack_bucket import PackLocation
from bpc.storage.items.pinned_model import PinnedModel
from bpc.storage.items.rebase import BehindBatch, NewestItem, read_statements
from bpc.storage.items.versions import NewestInput
from bpc.storage.passports.products import ProductPassport
from bpc.tasks.issue_batches import BatchVersionOrder, request_batch_below
from bpc.tasks.item_models import Installation
from bpc.tasks.item_run_storage import ChunkJob, NewRun, PinnedRows, fix_order, load_batch_pins, store_run

CHUNKS_AT_ONCE: Final = 20  # of one request; a chunk has up to 1,024 batteries
BATCHES_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RebaseRequest:
    """The product whose batteries are to be issued again, and the chunk to go on after."""

    sku: str
    pack_location: PackLocation
    after: UUID = LOWEST_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class RebaseOutcome:
    """What one request did. With `batches`, nothing else: ask again once they are issued.

    `after` is where to go on; None if all was looked through.
    """

    run: ItemRunId | None = None
    new: int = 0
    batches: int = 0
    after: UUID | None = None
    job_ids: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebaseJobs:
    """How chunks and batches are issued."""

    jobs: Jobs
    queue: RequestQueue
    issue_items: ChunkJob
    issue_batch: Handler[BatchVersionOrder, Any]


class BatchRefusedBelowModel(Conflict):
    """A batch cannot be issued below the active version of its model with what is known of it."""

    def __init__(self, batch: BehindBatch) -> None:
        super().__init__(
            f"batch `{batch.batch_number}` is refused below the active passport of its product: {batch.refusal}",
            fix="issue the batch again with other facts, or correct the rules, then go on",
            details={"battery_batch_id": str(batch.battery_batch_id)},
        )


async def request_rebase(
    conn: Connection,
    jobs: RebaseJobs,
    tenant: TenantId,
    request: RebaseRequest,
    *,
    installation: Installation,
    act: Act,
    correlation_id: str | None = None,
) -> RebaseOutcome:
    """Request the passports of some batteries again that pin an earlier version, below the active one."""
    product, order = await fix_order(conn, tenant, request.sku, installation, act=act)
    product_id, model = BatteryProductId(product.battery_product_id), order.model_version_id
    await runs.lock_product(conn, tenant, product_id)
    behind_batches = await rebase.list_behind_batches(conn, tenant, product_id, model, limit=BATCHES_AT_ONCE)
    if behind_batches:
        await _request_batches(conn, jobs, tenant, behind_batches, order, installation, act)
        return RebaseOutcome(batches=len(behind_batches), after=request.after)
    chunk_ids = await rebase.list_behind_chunks(
        conn, tenant, product_id, model, after=request.after, limit=CHUNKS_AT_ONCE
    )
    after = chunk_ids[-1] if len(chunk_ids) == CHUNKS_AT_ONCE else None
    items = await rebase.list_newest_items(conn, tenant, chunk_ids)
    pending = await chunks.find_pending(conn, tenant, product_id, [item.battery_id for item in items])
    items = [item for item in items if item.battery_id not in pending]
    if not items:
        return RebaseOutcome(after=after)
    statements = await installation.compute(read_statements, request.pack_location, items)
    rows = await build_rows_again(conn, tenant, product, model, items, statements)
    if not rows.count:
        return RebaseOutcome(after=after)
    new_run = NewRun(
        order=order, sku=request.sku, product=product_id, request_hash=sha256(b"rebase" + order.item_run_id.bytes)
    )
    job_ids = await store_run(
        conn, jobs.jobs, jobs.issue_items, tenant, new_run, rows, act=act, correlation_id=correlation_id
    )
    return RebaseOutcome(run=order.item_run_id, new=rows.count, after=after, job_ids=job_ids)


async def _request_batches(
    conn: Connection,
    jobs: RebaseJobs,
    tenant: TenantId,
    behind_batches: Sequence[BehindBatch],
    model: PinnedModel,
    installation: Installation,
    act: Act,
) -> None:
    """Request batches again with the facts that they have, but for those that wait already."""
    for behind in behind_batches:
        if behind.refusal is not None:
            raise BatchRefusedBelowModel(behind)
        if behind.is_waiting:
            continue
        members: dict[str, str] = json.loads(behind.facts)["payload"]
        statements = {name: value for name, value in members.items() if name != BATCH_NUMBER}
        batch = await batches.get_batch(conn, tenant, behind.battery_batch_id)
        await request_batch_below(
            conn,
            jobs.queue,
            jobs.issue_batch,
            tenant,
            batch,
            statements,
            model=model,
            installation=installation,
            act=act,
        )


async def build_rows_again(
    conn: Connection,
    tenant: TenantId,
    product: ProductPassport,
    model: PassportVersionId,
    items: Sequence[NewestItem],
    statements: Mapping[BatteryId, Mapping[str, Json]],
) -> PinnedRows:
    """The rows of these batteries below a version of their model, but for those that would say the same again.

    A battery whose batch has no passport below that version is left out.
    """
    ids = [item.battery_id for item in items]
    registered_items, _ = await load_registered_items(
        conn, tenant, product.battery_product_id, [item.serial_number for item in items]
    )
    readings = await load_reading_facts(conn, tenant, product.sku, ids)
    earlier_inputs = await versions.find_newest_inputs(conn, tenant, ids)
    pins = await load_batch_pins(conn, tenant, product, registered_items.values(), model)
    rows = PinnedRows()
    for item in items:
        registered_item = registered_items[item.serial_number]
        own_readings = readings.get(item.battery_id, ())
        facts = encode_item_facts(product.sku, registered_item, statements[item.battery_id], own_readings)
        batch = pins.versions.get(registered_item.batch_number or "")
        is_same = earlier_inputs.get(item.battery_id) == NewestInput(sha256(facts), model, batch)
        if not is_same and registered_item.batch_number not in pins.faults:
            rows.add(batch, ChunkRow(item.battery_id, PassportVersionId(clock.new_id()), facts))
    return rows
