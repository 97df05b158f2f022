"""The job ISSUE_ITEMS: one chunk of a run, from its rows to signed passports, in one transaction.

    chunk ─► child process: compile, pack ─► signer: one request for many receipts ─► pack, a file ─► rows, root, event

Everything that the bytes depend on was fixed when the run was requested. A worker that is killed leaves nothing but
perhaps a pack that nobody names; the next execution gives the same passports. A chunk that is issued, or whose run is
stopped, stays as it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from service_jobs import Context, Handler, Handlers

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.audit.signing import PublicKey, SignatureInvalid, verify_signature
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import BatteryId, ItemChunkId, ItemRunId, PassportVersionId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.core.items.chunk_tree import (
    LEAF_VERSION,
    LeafRow,
    compute_chunk_root,
    derive_tree_seed,
    hash_full_leaf,
)
from bpc.core.secret_box import SecretBox
from bpc.core.signing_forms import ITEM_RECEIPT
from bpc.pipeline.compile import ComputePool, run_in_child_or_thread
from bpc.pipeline.sign import NOT_REGISTERED, SigningKeyMissing
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyNotHeld, SigningService
from bpc.storage.audit import signing_keys
from bpc.storage.connection import Connection
from bpc.storage.items import chunks, runs, versions
from bpc.storage.items.chunk_work import ChunkResult, IssuedItem, compile_chunk
from bpc.storage.items.chunks import IssuedChunk, LockedChunk
from bpc.storage.items.pack_bucket import PackLocation, open_packs
from bpc.storage.items.pack_format import PackEntry, PackPlace, build_pack
from bpc.storage.items.packs import PackStore
from bpc.storage.items.runs import ItemRunOrder
from bpc.storage.jobs import make_subject
from bpc.storage.webhooks.webhook_fanout import append_and_announce
from bpc.tasks.item_models import ModelCache


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOrder:
    """The chunk to issue."""

    item_chunk_id: ItemChunkId
    item_run_id: ItemRunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOutcome:
    """What became of a chunk."""

    item_chunk_id: ItemChunkId
    status: Literal["ISSUED", "ISSUED_BEFORE", "STOPPED"]
    issued: int = 0
    refused: int = 0


def chunk_job_key(chunk: ItemChunkId, attempt: int) -> str:
    """The idempotency key of the job that issues a chunk."""
    return f"items:{chunk}:{attempt}"


def name_secret(tenant: TenantId, run: ItemRunId) -> str:
    """What the secret of a run is encrypted for."""
    return f"item_runs/{tenant}/{run}"


def declare_issue_job(
    handlers: Handlers,
    *,
    key_ring: SigningService,
    pack_location: PackLocation,
    load_box: Callable[[], SecretBox],
    engine: ComputePool | None = None,
) -> Handler[ChunkOrder, ChunkOutcome]:
    """The job ISSUE_ITEMS. Batteries are compiled by `engine`, or else in child processes of the worker."""
    models = ModelCache()

    @handlers.job(
        "ISSUE_ITEMS",
        subject=lambda order: make_subject("item_run", order.item_run_id),
        description="Issues the passports of some hundred batteries of a run.",
    )
    async def run(ctx: Context, order: ChunkOrder) -> ChunkOutcome:
        conn, tenant, started_at = await ctx.transaction(), TenantId(ctx.tenant), clock.now()
        chunk = await chunks.lock_chunk(conn, tenant, order.item_chunk_id)
        run_order = await runs.share_run(conn, tenant, chunk.item_run_id)
        if chunk.source is None:
            return ChunkOutcome(item_chunk_id=chunk.item_chunk_id, status="ISSUED_BEFORE")
        if run_order.stopped_at is not None:
            return ChunkOutcome(item_chunk_id=chunk.item_chunk_id, status="STOPPED")
        secret = bytes.fromhex(load_box().open(run_order.secret, context=name_secret(tenant, chunk.item_run_id)))
        parts = await models.load_parts(conn, tenant, run_order, batch=chunk.batch_version_id)
        result: ChunkResult = await run_in_child_or_thread(
            engine or ctx.compute,
            compile_chunk,
            parts,
            _require_source(chunk),
            secret,
            format_time(run_order.requested_at),
        )
        signatures = await sign_receipts(conn, tenant, run_order.signing_key_id, result.items, key_ring)
        places, pack_hash, pack_size = await _write_pack(open_packs(pack_location), tenant, chunk, result, signatures)
        seed = derive_tree_seed(secret, chunk.item_chunk_id)
        leaf_hashes = [
            hash_full_leaf(
                LeafRow(
                    battery_id=BatteryId(item.battery_id),
                    passport_version_id=PassportVersionId(item.passport_version_id),
                    receipt_hash=item.receipt_hash,
                    status=versions.STATUS,
                    fail_count=item.fail_count,
                    warn_count=item.warn_count,
                    input_hash=item.input_hash,
                )
            )
            for item in result.items
        ]
        issued_chunk = IssuedChunk(
            issued=len(result.items),
            refusals=result.refusals,
            tree_seed=seed,
            root=compute_chunk_root(leaf_hashes, seed),
            leaf_hashes=b"".join(leaf_hashes),
            pack_sha256=pack_hash,
            pack_bytes=pack_size,
            started_at=started_at,
            issued_at=clock.now(),
        )
        await versions.insert_versions(
            conn, tenant, chunk.item_chunk_id, result.items, places, issued_at=run_order.requested_at
        )
        await chunks.set_issued(conn, tenant, chunk.item_chunk_id, issued_chunk)
        await _record_chunk(conn, tenant, run_order, chunk, issued_chunk)
        return ChunkOutcome(
            item_chunk_id=chunk.item_chunk_id,
            status="ISSUED",
            issued=len(result.items),
            refused=len(result.refusals),
        )

    return run


def _require_source(chunk: LockedChunk) -> bytes:
    if chunk.source is None or sha256(chunk.source) != chunk.source_sha256:
        raise Conflict(
            f"the rows of chunk `{chunk.item_chunk_id}` are not those that were requested",
            fix="find out who changed them, and request the run again",
        )
    return chunk.source


async def sign_receipts(
    conn: Connection, tenant: TenantId, key_id: str, items: Sequence[IssuedItem], key_ring: SigningService
) -> list[bytes]:
    """The signature of each receipt, by the key that the run named, which is the registered one."""
    if not items:
        return []
    public_key = await signing_keys.find_key_that_signs(conn, key_id, tenant)
    if public_key is None:
        raise SigningKeyMissing(key_id, NOT_REGISTERED)
    try:
        signatures = await key_ring.sign_many(ITEM_RECEIPT, [item.receipt for item in items])
    except KeyNotHeld:
        raise SigningKeyMissing(key_id, "is not available to the process that signs") from None
    try:
        await asyncio.to_thread(_verify_signatures, public_key, items, signatures)
    except SignatureInvalid:
        raise SigningKeyMissing(key_id, "that signs differs from the registered key") from None
    return signatures


def _verify_signatures(public_key: PublicKey, items: Sequence[IssuedItem], signatures: Sequence[bytes]) -> None:
    for item, signature in zip(items, signatures, strict=True):
        verify_signature(public_key, item.receipt_hash, signature)


async def _write_pack(
    packs: PackStore, tenant: TenantId, chunk: LockedChunk, result: ChunkResult, signatures: Sequence[bytes]
) -> tuple[Sequence[PackPlace], Digest | None, int | None]:
    """Where each battery is in the pack, and the pack's hash and size; no pack without a battery."""
    if result.dictionary is None:
        return (), None, None
    entries = [PackEntry(signature, item.frame) for item, signature in zip(result.items, signatures, strict=True)]
    pack, places = build_pack(tenant, chunk.item_run_id, chunk.item_chunk_id, result.dictionary, entries)
    return places, await asyncio.to_thread(packs.write, pack), len(pack)


async def _record_chunk(
    conn: Connection, tenant: TenantId, run_order: ItemRunOrder, chunk: LockedChunk, issued_chunk: IssuedChunk
) -> None:
    pack_hash = issued_chunk.pack_sha256
    payload = {
        "item_run_id": str(chunk.item_run_id),
        "model_version_id": str(run_order.model_version_id),
        "batch_version_id": None if chunk.batch_version_id is None else str(chunk.batch_version_id),
        "count": issued_chunk.issued,
        "refused": len(issued_chunk.refusals),
        "leaf_version": LEAF_VERSION,
        "root": to_hex(issued_chunk.root),
        "pack_sha256": None if pack_hash is None else to_hex(pack_hash),
    }
    act = Act(run_order.requested_by, issued_chunk.issued_at)
    await append_and_announce(
        conn, act, tenant, "ItemBatch", chunk.item_chunk_id, "ITEMS_ISSUED", payload, head=EMPTY_CHAIN
    )
