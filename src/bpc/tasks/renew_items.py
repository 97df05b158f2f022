"""The job RENEW_ITEMS: issue batteries of a product again of which more is known than their passports say.

    batteries below the active version of their model ─► those with new readings or another status ─► a run

A tenant schedules it, as seldom as it likes: a reading alone never makes a passport. One execution looks through the
batteries of some chunks and submits the next. Those that pin an earlier version of their model keep it: to take them
over is somebody's decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from service_jobs import LOW, Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ActorId, BatteryProductId, ItemChunkId, ItemRunId, TenantId
from bpc.core.secret_box import SecretBox
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.runtime import clock
from bpc.storage.connection import LOWEST_ID, Connection
from bpc.storage.items import chunks, rebase, runs
from bpc.storage.items.pack_bucket import PackLocation
from bpc.storage.items.rebase import read_statements
from bpc.storage.jobs import make_subject
from bpc.tasks.issue_items import ChunkOrder, chunk_job_key
from bpc.tasks.item_models import Installation
from bpc.tasks.item_run_storage import ChunkJob, NewRun, fix_order, insert_new_run
from bpc.tasks.rebase_items import build_rows_again

RENEW_JOB_TYPE: Final = "RENEW_ITEMS"
CHUNKS_AT_ONCE: Final = 20  # of one execution; a chunk has up to 1,024 batteries


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewOrder:
    """The product whose batteries are looked through, and the chunk to go on after."""

    sku: str
    actor_id: ActorId | None = None
    after: UUID = LOWEST_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewOutcome:
    """How many batteries were looked at, how many are issued again by which run, and the job that goes on."""

    looked_at: int
    renewed: int
    item_run_id: ItemRunId | None
    next_job_id: UUID | None


def declare_renew_job(
    handlers: Handlers,
    *,
    issue_items: ChunkJob,
    pack_location: PackLocation,
    compiler_build_id: str,
    signing_key_id: str,
    load_box: Callable[[], SecretBox],
) -> Handler[RenewOrder, RenewOutcome]:
    """The job RENEW_ITEMS."""

    @handlers.job(RENEW_JOB_TYPE, description="Issues batteries again that have new readings or another status.")
    async def run(ctx: Context, order: RenewOrder) -> RenewOutcome:
        conn, tenant, act = await ctx.transaction(), TenantId(ctx.tenant), Act(order.actor_id, clock.now())
        installation = Installation(
            compiler_build_id=compiler_build_id,
            signing_key_id=signing_key_id,
            secret_box=load_box(),
            compute=partial(run_in_child_or_thread, ctx.compute),
        )
        outcome, chunk_ids, after = await _store_renewal(conn, tenant, order, installation, pack_location, act)
        for chunk in chunk_ids:
            ctx.submit(
                issue_items,
                ChunkOrder(item_chunk_id=chunk, item_run_id=_require_run(outcome)),
                key=chunk_job_key(chunk, 0),
                priority=LOW,
                subject=make_subject("item_run", _require_run(outcome)),
            )
        if after is None:
            return outcome
        next_job = ctx.submit(run, replace(order, after=after), key=f"renew:{ctx.job_id}", priority=LOW)
        return replace(outcome, next_job_id=next_job)

    return run


async def _store_renewal(
    conn: Connection,
    tenant: TenantId,
    order: RenewOrder,
    installation: Installation,
    pack_location: PackLocation,
    act: Act,
) -> tuple[RenewOutcome, Sequence[ItemChunkId], UUID | None]:
    """What was found and stored, the chunks to issue, and where to go on."""
    product, run_order = await fix_order(conn, tenant, order.sku, installation, act=act)
    product_id, model = BatteryProductId(product.battery_product_id), run_order.model_version_id
    await runs.lock_product(conn, tenant, product_id)
    looked_through = await rebase.list_current_chunks(conn, tenant, model, after=order.after, limit=CHUNKS_AT_ONCE)
    after = looked_through[-1] if len(looked_through) == CHUNKS_AT_ONCE else None
    items = await rebase.list_newest_items(conn, tenant, looked_through)
    pending = await chunks.find_pending(conn, tenant, product_id, [item.battery_id for item in items])
    items = [item for item in items if item.battery_id not in pending]
    outcome = RenewOutcome(looked_at=len(items), renewed=0, item_run_id=None, next_job_id=None)
    if not items:
        return outcome, (), after
    statements = await installation.compute(read_statements, pack_location, items)
    rows = await build_rows_again(conn, tenant, product, model, items, statements)
    if not rows.count:
        return outcome, (), after
    run = run_order.item_run_id
    new_run = NewRun(order=run_order, sku=order.sku, product=product_id, request_hash=sha256(b"renew" + run.bytes))
    chunk_ids = await insert_new_run(conn, tenant, new_run, rows, unchanged=len(items) - rows.count, act=act)
    return replace(outcome, renewed=rows.count, item_run_id=run), chunk_ids, after


def _require_run(outcome: RenewOutcome) -> ItemRunId:
    if outcome.item_run_id is None:
        raise LookupError("chunks without a run")
    return outcome.item_run_id
