"""Ask for passports of many batteries: all rows are checked first, then everything is fixed that their bytes depend on.

    rows ── request_item_run ─┬─► registered batteries, a run, its chunks, one ISSUE_ITEMS job for each
                              ├─► faults of rows, and nothing is stored
                              └─► the run that the same request made before

A battery whose passport would say the same again is left out.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from service_jobs import Jobs

from bpc.core.audit.events import Act
from bpc.core.batteries.row_files import FileRow, RowFault, RowFile
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import BatteryProductId, ItemRunId, PassportVersionId, RulePackageVersionId, TenantId
from bpc.core.items.item_facts import encode_item_facts
from bpc.core.items.item_rows import RegisteredItem, read_item_cells
from bpc.runtime import clock
from bpc.storage.batteries.batteries import load_registered_items
from bpc.storage.batteries.readings import load_reading_facts
from bpc.storage.batteries.registration import register_batteries
from bpc.storage.connection import Connection, split_rows
from bpc.storage.items import chunks, runs, versions
from bpc.storage.items.chunk_work import ChunkRow
from bpc.storage.items.runs import ItemRunOrder
from bpc.storage.items.versions import NewestInput
from bpc.storage.passports.products import ProductPassport
from bpc.tasks.item_models import Installation
from bpc.tasks.item_run_storage import (
    BatchPins,
    ChunkJob,
    NewRun,
    PinnedRows,
    fix_order,
    load_batch_pins,
    store_run,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRunRequest:
    """What somebody asks for. `content_hash` is that of the file."""

    sku: str
    file: RowFile
    content_hash: Digest
    rules: RulePackageVersionId | None = None
    reissue: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRunOutcome:
    """What became of a request. Without a run, nothing is new, or rows have faults."""

    total: int
    new: int
    unchanged: int
    faults: Sequence[RowFault]
    run: ItemRunId | None = None
    job_ids: Sequence[UUID] = ()


async def request_item_run(
    conn: Connection,
    jobs: Jobs,
    job: ChunkJob,
    tenant: TenantId,
    request: ItemRunRequest,
    *,
    installation: Installation,
    act: Act,
    correlation_id: str | None = None,
) -> ItemRunOutcome:
    """Check all rows, then store a run of those that are new. With a fault in any of them, nothing is stored."""
    product, order = await fix_order(conn, tenant, request.sku, installation, rules=request.rules, act=act)
    await runs.lock_product(conn, tenant, product.battery_product_id)
    total = len(request.file.rows)
    request_hash, earlier = await _find_earlier_run(conn, tenant, request, order)
    if earlier is not None:
        return ItemRunOutcome(total=total, new=0, unchanged=total, faults=(), run=earlier)
    file, cell_faults = await asyncio.to_thread(_set_sku, request.file, request.sku)
    registration = await register_batteries(
        conn, tenant, file, validate_only=request.validate_only or bool(cell_faults), act=act
    )
    faults = await asyncio.to_thread(sorted, [*registration.faults, *cell_faults], key=lambda fault: fault.line)
    if faults or request.validate_only:
        return ItemRunOutcome(total=total, new=total - len(faults), unchanged=0, faults=faults)
    rows, faults = await _build_rows(conn, tenant, request, file, product, order.model_version_id)
    unchanged = total - rows.count - len(faults)
    if faults or not rows.count:
        return ItemRunOutcome(total=total, new=rows.count, unchanged=unchanged, faults=faults)
    new_run = NewRun(order=order, sku=request.sku, product=product.battery_product_id, request_hash=request_hash)
    job_ids = await store_run(
        conn, jobs, job, tenant, new_run, rows, unchanged=unchanged, act=act, correlation_id=correlation_id
    )
    return ItemRunOutcome(
        total=total, new=rows.count, unchanged=unchanged, faults=(), run=order.item_run_id, job_ids=job_ids
    )


async def _find_earlier_run(
    conn: Connection, tenant: TenantId, request: ItemRunRequest, order: ItemRunOrder
) -> tuple[Digest, ItemRunId | None]:
    """The run that the same request made, or the hash of this request if it may have something to do.

    One that has finished has nothing to do any more, unless batteries of it were refused or are to be issued again:
    readings may be new. Then the request follows the one before, and what is the same is left out.
    """
    request_hash = _hash_request(request, order)
    while (run_id := await runs.find_run_of_request(conn, tenant, request_hash)) is not None:
        run = await runs.get_run(conn, tenant, run_id)
        if run.status != "FINISHED" or (run.refused == 0 and not request.reissue):
            return request_hash, run_id
        request_hash = sha256(request_hash + run_id.bytes)
    return request_hash, None


def _hash_request(request: ItemRunRequest, order: ItemRunOrder) -> Digest:
    """The same file below the same model is the same request."""
    parts: list[Json] = [
        request.sku,
        str(order.model_version_id),
        request.reissue,
        to_hex(request.content_hash),
    ]
    return sha256(canonical_json.encode(parts))


def _set_sku(file: RowFile, sku: str) -> tuple[RowFile, list[RowFault]]:
    """The rows with the product of the run, and the faults of their cells."""
    rows, faults = list[FileRow](), list[RowFault]()
    for row in file.rows:
        if row.cells.get("sku", sku) != sku:
            faults.append(RowFault(row.line, f"is of another product than `{sku}`", "sku"))
        faults += read_item_cells(row)[1]
        rows.append(replace(row, cells={**row.cells, "sku": sku}))
    return RowFile(rows, file.faults), faults


async def _build_rows(
    conn: Connection,
    tenant: TenantId,
    request: ItemRunRequest,
    file: RowFile,
    product: ProductPassport,
    model: PassportVersionId,
) -> tuple[PinnedRows, list[RowFault]]:
    """The rows that are to be issued, each with the id of its version, and faults of those that cannot be."""
    serials = [row.cells["serial_number"] for row in file.rows]
    items, ended_serials = await load_registered_items(conn, tenant, product.battery_product_id, serials)
    ids = [items[serial].battery_id for serial in serials]
    records = _Records(
        items=items,
        ended_serials=ended_serials,
        readings=await load_reading_facts(conn, tenant, product.sku, ids),
        newest=await versions.find_newest_inputs(conn, tenant, ids),
        pending=await chunks.find_pending(conn, tenant, BatteryProductId(product.battery_product_id), ids),
        pins=await load_batch_pins(conn, tenant, product, items.values(), model),
    )
    rows, faults = PinnedRows(), list[RowFault]()
    for part in split_rows(file.rows):  # each in a thread: others wait for this event loop
        faults += await asyncio.to_thread(_add_rows, rows, part, records, product.sku, model, reissue=request.reissue)
    return rows, faults


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """What is on record of the batteries of a file."""

    items: Mapping[str, RegisteredItem]
    ended_serials: Collection[str]
    readings: Mapping[UUID, Sequence[SnapshotFact]]
    newest: Mapping[UUID, NewestInput]
    pending: Mapping[UUID, ItemRunId]
    pins: BatchPins


def _add_rows(
    rows: PinnedRows,
    part: Sequence[FileRow],
    records: _Records,
    sku: str,
    model: PassportVersionId,
    *,
    reissue: bool,
) -> list[RowFault]:
    """Add those of some rows that are to be issued. Returns the faults of those that cannot be."""
    faults = list[RowFault]()
    for row in part:
        item = records.items[row.cells["serial_number"]]
        facts = encode_item_facts(sku, item, read_item_cells(row)[0], records.readings.get(item.battery_id, ()))
        newest, batch = records.newest.get(item.battery_id), records.pins.versions.get(item.batch_number or "")
        if item.serial_number in records.ended_serials:
            faults.append(RowFault(row.line, "its passport has ceased, or it lives on elsewhere", "serial_number"))
        elif item.battery_id in records.pending:
            says = f"its passport is being issued by run {records.pending[item.battery_id]}"
            faults.append(RowFault(row.line, says, "serial_number"))
        elif item.batch_number in records.pins.faults:
            faults.append(RowFault(row.line, records.pins.faults[item.batch_number], "batch_number"))
        elif newest is None or (reissue and newest != NewestInput(sha256(facts), model, batch)):
            rows.add(batch, ChunkRow(item.battery_id, PassportVersionId(clock.new_id()), facts))
        elif not reissue and newest.input_hash != sha256(facts):
            says = "has a passport with other data; say that it is to be issued again, or correct the row"
            faults.append(RowFault(row.line, says))
    return faults
