"""Store a run of batteries: its order, its chunks, its event, and a job for each chunk; and submit those jobs again.

rows, each below its batch or below none ─► chunks ─► item_runs, item_chunks, ITEM_RUN_REQUESTED, ISSUE_ITEMS jobs
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from service_jobs import LOW, Handler, Jobs

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import (
    BatteryId,
    BatteryProductId,
    ItemChunkId,
    ItemRunId,
    PassportVersionId,
    RulePackageVersionId,
    TenantId,
)
from bpc.core.items.chunk_tree import CHUNK_SIZE
from bpc.core.items.item_rows import RegisteredItem
from bpc.core.secret_box import NONCE_BYTES
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.items import batch_versions, chunks, runs
from bpc.storage.items.chunk_work import ChunkRow, encode_source
from bpc.storage.items.chunks import NewChunk
from bpc.storage.items.pinned_model import MODEL_MEMBERS
from bpc.storage.items.runs import ItemRunOrder
from bpc.storage.jobs import make_subject
from bpc.storage.passports.products import ProductPassport
from bpc.tasks.issue_items import ChunkOrder, chunk_job_key, name_secret
from bpc.tasks.item_models import SECRET_BYTES, Installation, fix_model

ChunkJob = Handler[ChunkOrder, Any]


@dataclass(slots=True)
class PinnedRows:
    """Rows that are to be issued, by the version of the batch that they lie below; None is directly below the model."""

    by_batch: dict[PassportVersionId | None, list[ChunkRow]] = field(default_factory=dict)
    count: int = 0

    def add(self, batch: PassportVersionId | None, row: ChunkRow) -> None:
        self.by_batch.setdefault(batch, []).append(row)
        self.count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPins:
    """The version that the batteries of each batch lie below, and why those of others cannot be issued; by number."""

    versions: dict[str, PassportVersionId]
    faults: dict[str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that is to be stored."""

    order: ItemRunOrder
    sku: str
    product: BatteryProductId
    request_hash: Digest


async def fix_order(
    conn: Connection,
    tenant: TenantId,
    sku: str,
    installation: Installation,
    *,
    rules: RulePackageVersionId | None = None,
    act: Act,
) -> tuple[ProductPassport, ItemRunOrder]:
    """The product, and what its batteries are compiled from: the active version of its passport, pinned by hash."""
    product, model = await fix_model(conn, tenant, sku, installation, rules=rules)
    run, secret = ItemRunId(clock.new_id()), clock.random_bytes(SECRET_BYTES).hex()
    return product, ItemRunOrder(
        **{name: getattr(model, name) for name in MODEL_MEMBERS},
        item_run_id=run,
        secret=installation.secret_box.seal(
            secret, context=name_secret(tenant, run), nonce=clock.random_bytes(NONCE_BYTES)
        ),
        requested_at=act.at,
        requested_by=act.actor_id,
    )


async def load_batch_pins(
    conn: Connection,
    tenant: TenantId,
    product: ProductPassport,
    items: Iterable[RegisteredItem],
    model: PassportVersionId,
) -> BatchPins:
    """What the batches of these batteries give. A batch without a passport gives neither a version nor a fault."""
    numbers = sorted({item.batch_number for item in items if item.batch_number is not None})
    pins = BatchPins(versions={}, faults={})
    for number, pin in (await batch_versions.find_pins(conn, tenant, product.battery_product_id, numbers)).items():
        if not pin.is_issued:
            pins.faults[number] = "the passport of its batch is being issued; wait until it is there"
        elif pin.model_version_id != model:
            pins.faults[number] = "its batch lies below an earlier version of the model; issue the batch again first"
        else:
            pins.versions[number] = pin.passport_version_id
    return pins


async def store_run(
    conn: Connection,
    jobs: Jobs,
    job: ChunkJob,
    tenant: TenantId,
    new_run: NewRun,
    rows: PinnedRows,
    *,
    unchanged: int = 0,
    act: Act,
    correlation_id: str | None = None,
) -> Sequence[UUID]:
    """Store a run and its chunks, and submit a job for each chunk."""
    chunk_ids = await insert_new_run(conn, tenant, new_run, rows, unchanged=unchanged, act=act)
    return await submit_chunks(
        conn, jobs, job, tenant, new_run.order.item_run_id, chunk_ids, act=act, correlation_id=correlation_id
    )


async def insert_new_run(
    conn: Connection, tenant: TenantId, new_run: NewRun, rows: PinnedRows, *, unchanged: int = 0, act: Act
) -> Sequence[ItemChunkId]:
    """Store a run and its chunks; the ids of the chunks, for each of which a job is to be submitted."""
    order = new_run.order
    new_chunks = await asyncio.to_thread(_split_rows, rows)
    await runs.insert_run(
        conn,
        tenant,
        order,
        product=new_run.product,
        request_hash=new_run.request_hash,
        total=rows.count,
        unchanged=unchanged,
    )
    await chunks.insert_chunks(conn, tenant, order.item_run_id, new_run.product, new_chunks)
    await _record_request(conn, tenant, new_run, new_chunks, unchanged, act)
    return [chunk.item_chunk_id for chunk in new_chunks]


async def resume_chunks(
    conn: Connection, jobs: Jobs, job: ChunkJob, tenant: TenantId, run: ItemRunId, *, act: Act
) -> Sequence[UUID]:
    """Submit a job for each chunk that is not issued. One that another job has in hand is issued once all the same."""
    attempt = await runs.resume_run(conn, tenant, run, act=act)
    waiting = [chunk.item_chunk_id for chunk in await chunks.list_waiting(conn, tenant, run)]
    return await submit_chunks(conn, jobs, job, tenant, run, waiting, act=act, attempt=attempt)


async def submit_chunks(
    conn: Connection,
    jobs: Jobs,
    job: ChunkJob,
    tenant: TenantId,
    run: ItemRunId,
    chunk_ids: Sequence[ItemChunkId],
    *,
    act: Act,
    attempt: int = 0,
    correlation_id: str | None = None,
) -> Sequence[UUID]:
    """Submit a job for each chunk."""
    if not chunk_ids:
        return ()
    batch = await jobs.submit_batch(
        job,
        [ChunkOrder(item_chunk_id=chunk, item_run_id=run) for chunk in chunk_ids],
        tenant=tenant,
        conn=conn,
        keys=[chunk_job_key(chunk, attempt) for chunk in chunk_ids],
        subjects=[make_subject("item_run", run) for _ in chunk_ids],
        priority=LOW,
        name=f"item run {run}",
        correlation_id=correlation_id,
        actor=None if act.actor_id is None else str(act.actor_id),
    )
    return batch.job_ids


def _split_rows(rows: PinnedRows) -> list[NewChunk]:
    """Chunks of rows that lie below the same version of a batch."""
    new_chunks: list[NewChunk] = []
    for batch, batch_rows in rows.by_batch.items():
        for start in range(0, len(batch_rows), CHUNK_SIZE):
            part = batch_rows[start : start + CHUNK_SIZE]
            new_chunks.append(
                NewChunk(
                    item_chunk_id=ItemChunkId(clock.new_id()),
                    chunk_number=len(new_chunks) + 1,
                    source=encode_source(part),
                    battery_ids=[BatteryId(row.battery_id) for row in part],
                    batch_version_id=batch,
                )
            )
    return new_chunks


async def _record_request(
    conn: Connection,
    tenant: TenantId,
    new_run: NewRun,
    new_chunks: Sequence[NewChunk],
    unchanged: int,
    act: Act,
) -> None:
    order = new_run.order
    payload = {
        "sku": new_run.sku,
        "model_version_id": str(order.model_version_id),
        "model_receipt_hash": to_hex(order.model_receipt_hash),
        "rule_package_version_id": str(order.rule_package_version_id),
        "dsl_sha256": to_hex(order.dsl_sha256),
        "compiler_build_id": order.compiler_build_id,
        "signing_key_id": order.signing_key_id,
        "total": sum(len(chunk.battery_ids) for chunk in new_chunks),
        "chunks": len(new_chunks),
        "battery_product_id": str(new_run.product),
        "unchanged": unchanged,
        "request_hash": to_hex(new_run.request_hash),
        "secret_sha256": to_hex(sha256(order.secret.encode())),
        "batch_version_ids": sorted({str(each.batch_version_id) for each in new_chunks if each.batch_version_id}),
        "sources_sha256": to_hex(sha256(b"".join(chunk.source_sha256 for chunk in new_chunks))),
    }
    await events.append_act(
        conn, act, tenant, "ItemRun", order.item_run_id, "ITEM_RUN_REQUESTED", payload, head=EMPTY_CHAIN
    )
