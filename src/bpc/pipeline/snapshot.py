"""Snapshot, the third step: facts are collected, checked and sealed.

    BUILDING ── build ──► READY ── seal ──► SEALED
        ▲                   │
        └── add, remove ────┘

Every change locks the snapshot before reading it. So the sealed facts are those that were built, and the hash is the
hash of exactly these facts. The first build adds one fact that is not from a document: the snapshot's secret.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from service_jobs import Context, Handler, Handlers, JobError, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound, UnknownResource
from bpc.core.facts.snapshot import encode_snapshot
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, FactId, JobId, SnapshotId, TenantId
from bpc.core.passport import payload as blinding
from bpc.pipeline.product_facts import load_product_evidence
from bpc.pipeline.stored_evidence import store_evidence
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.error_mapping import SnapshotAlreadySealed, SnapshotNotReady
from bpc.storage.evidence import facts, snapshots
from bpc.storage.evidence.facts import RESERVED_FACT_TYPES
from bpc.storage.evidence.snapshots import SnapshotItemRow, SnapshotStatus
from bpc.storage.jobs import describe_failure, load_job_input, make_subject, retry_if_unsuccessful
from bpc.storage.webhooks.webhook_fanout import append_and_announce

MAX_FACTS: Final = 10_000
MAX_LISTED_DUPLICATES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """The snapshot to build."""

    snapshot_id: SnapshotId
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOutcome:
    """A snapshot that was built, and the number of its facts."""

    snapshot_id: SnapshotId
    status: SnapshotStatus
    fact_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSnapshot:
    """A snapshot after its facts were changed."""

    snapshot_id: SnapshotId
    status: SnapshotStatus
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSnapshot:
    snapshot_id: SnapshotId
    status: SnapshotStatus
    snapshot_hash: Digest
    open_conflicts: int


async def add_items(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, fact_ids: Sequence[FactId], *, act: Act
) -> ChangedSnapshot:
    """Add facts; those that are in it already stay. An unknown fact refuses the whole request."""
    status = await _lock_unsealed(conn, tenant, snapshot)
    known_ids = await facts.find_existing_ids(conn, tenant, fact_ids)
    unknown_id = next((fact for fact in fact_ids if fact not in known_ids), None)
    if unknown_id is not None:
        raise UnknownResource("fact", unknown_id)
    added_ids = await snapshots.add_items(conn, tenant, snapshot, sorted(known_ids))
    return await _record_change(conn, tenant, snapshot, status, added_ids=added_ids, removed_ids=[], act=act)


async def remove_item(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, fact: FactId, *, act: Act
) -> ChangedSnapshot:
    """Remove a fact."""
    status = await _lock_unsealed(conn, tenant, snapshot)
    if not await snapshots.remove_item(conn, tenant, snapshot, fact):
        raise NotFound(
            f"there is no fact `{fact}` in snapshot `{snapshot}`", fix="list the snapshot's items to see its facts"
        )
    return await _record_change(conn, tenant, snapshot, status, added_ids=[], removed_ids=[fact], act=act)


async def request_build(
    conn: Connection,
    queue: SubmitQueue,
    build: Handler[BuildOrder, Any],
    tenant: TenantId,
    snapshot: SnapshotId,
    *,
    act: Act,
) -> JobId:
    """Submit the job that builds a snapshot. Until the facts change it is the same job; if it failed it is retried."""
    if await _lock_unsealed(conn, tenant, snapshot) == "READY":
        raise Conflict(f"snapshot `{snapshot}` is ready already", fix="seal it, or change its facts first")
    order = BuildOrder(snapshot_id=snapshot, actor_id=act.actor_id)
    key = f"build:{snapshot}:{await snapshots.count_changes(conn, tenant, snapshot)}"
    job_id = await queue.submit(build, order, key=key)
    await retry_if_unsuccessful(conn, tenant, job_id, act=act)
    return JobId(job_id)


def declare_build_job(handlers: Handlers) -> Handler[BuildOrder, BuildOutcome]:
    """The job BUILD_SNAPSHOT. If it fails, that is recorded on the snapshot, which stays as it is."""

    @handlers.job(
        "BUILD_SNAPSHOT",
        subject=lambda order: make_subject("snapshot", order.snapshot_id),
        description="Checks the facts of a snapshot, which can then be sealed.",
    )
    async def run(ctx: Context, order: BuildOrder) -> BuildOutcome:
        act = Act(order.actor_id, clock.now())
        return await build_snapshot(await ctx.transaction(), TenantId(ctx.tenant), order.snapshot_id, act=act)

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        act, payload = Act(order.actor_id, clock.now()), describe_failure(ctx.job_id, error)
        await append_and_announce(
            conn, act, tenant, "DataSnapshot", order.snapshot_id, "SNAPSHOT_BUILD_FAILED", payload
        )

    return run


async def build_snapshot(conn: Connection, tenant: TenantId, snapshot: SnapshotId, *, act: Act) -> BuildOutcome:
    """Check that each type and key occurs once, and add the secret. A snapshot that is past BUILDING stays as it is."""
    status = await snapshots.lock_snapshot(conn, tenant, snapshot)
    if status != "BUILDING":
        count = await snapshots.count_items(conn, tenant, snapshot)
        return BuildOutcome(snapshot_id=snapshot, status=status, fact_count=count)
    items = await snapshots.load_items(conn, tenant, snapshot)
    has_secret = any(item.ref.fact_type == blinding.BLINDING_FACT_TYPE for item in items)
    count = sum(item.ref.fact_type not in RESERVED_FACT_TYPES for item in items)
    if duplicates := _find_duplicates(items):
        first = duplicates[0]
        raise Conflict(  # it is not defined which of them a rule would read
            f"the snapshot has several facts `{first['fact_key']}` of type {first['fact_type']}",
            fix="remove all but one of each",
            details={"duplicates": duplicates[:MAX_LISTED_DUPLICATES], "duplicates_total": len(duplicates)},
        )
    if not has_secret:
        secret = blinding.make_blinding_fact(snapshot, clock.random_bytes(blinding.BLINDING_KEY_BYTES))
        await snapshots.add_items(
            conn, tenant, snapshot, [await facts.insert_blinding_fact(conn, tenant, secret, at=act.at)]
        )
    await snapshots.set_snapshot_status(conn, tenant, snapshot, "READY")
    payload = {"count": count}
    await events.append_act(conn, act, tenant, "DataSnapshot", snapshot, "SNAPSHOT_READY", payload)
    return BuildOutcome(snapshot_id=snapshot, status="READY", fact_count=count)


async def seal(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, *, open_conflicts: int | None = None, act: Act
) -> SealedSnapshot:
    """Seal a READY snapshot under the hash of its facts. It never changes again.

    `open_conflicts` is how often documents differed without a decision; None if it was not collected from documents.
    """
    if await _lock_unsealed(conn, tenant, snapshot) != "READY":
        raise SnapshotNotReady(f"snapshot `{snapshot}` is not ready", fix="build it first")
    items = await snapshots.load_items(conn, tenant, snapshot)
    canonical = encode_snapshot(snapshot, [item.ref for item in items])
    digest = sha256(canonical)
    await snapshots.seal_snapshot(conn, tenant, snapshot, canonical, digest, at=act.at)
    count = sum(item.ref.fact_type not in RESERVED_FACT_TYPES for item in items)
    payload: dict[str, object] = {"count": count, "snapshot_hash": to_hex(digest)}
    if open_conflicts is not None:
        payload["open_conflicts"] = open_conflicts
    await events.append_act(conn, act, tenant, "DataSnapshot", snapshot, "SNAPSHOT_SEALED", payload)
    return SealedSnapshot(
        snapshot_id=snapshot, status="SEALED", snapshot_hash=digest, open_conflicts=open_conflicts or 0
    )


async def create_sealed_snapshot(
    conn: Connection,
    tenant: TenantId,
    fact_ids: Sequence[FactId],
    *,
    reserved_ids: Sequence[FactId] = (),
    label: str | None,
    open_conflicts: int | None = None,
    act: Act,
) -> SealedSnapshot:
    """Create, build and seal a snapshot of these facts at once. Each of the three is recorded.

    `reserved_ids` are facts that were made for snapshots, such as where each value is from; they are not counted.
    """
    snapshot = (await snapshots.create_snapshot(conn, tenant, label=label, act=act)).snapshot_id
    await add_items(conn, tenant, snapshot, fact_ids, act=act)
    await snapshots.add_reserved_items(conn, tenant, snapshot, reserved_ids)
    await build_snapshot(conn, tenant, snapshot, act=act)
    return await seal(conn, tenant, snapshot, open_conflicts=open_conflicts, act=act)


async def snapshot_product(
    conn: Connection, tenant: TenantId, sku: str, *, label: str | None, act: Act
) -> SealedSnapshot:
    """Seal a snapshot of what is known of a product now."""
    evidence = await load_product_evidence(conn, tenant, sku)
    if not evidence.facts:
        raise Conflict(
            f"there are no facts about `{sku}` that count",
            fix="upload its documents and wait until they are read, or name a snapshot that is sealed",
        )
    fact_ids, reserved_ids = await store_evidence(conn, tenant, evidence, act=act)
    return await create_sealed_snapshot(
        conn,
        tenant,
        fact_ids,
        reserved_ids=reserved_ids,
        label=label,
        open_conflicts=evidence.count_open_conflicts(),
        act=act,
    )


async def _lock_unsealed(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> SnapshotStatus:
    """Lock a snapshot that is not sealed, and return its status."""
    status = await snapshots.lock_snapshot(conn, tenant, snapshot)
    if status == "SEALED":
        raise SnapshotAlreadySealed(f"snapshot `{snapshot}` is sealed", fix="make a new one")
    return status


async def _record_change(
    conn: Connection,
    tenant: TenantId,
    snapshot: SnapshotId,
    status: SnapshotStatus,
    *,
    added_ids: Sequence[FactId],
    removed_ids: Sequence[FactId],
    act: Act,
) -> ChangedSnapshot:
    count = await snapshots.count_items(conn, tenant, snapshot)
    if count > MAX_FACTS:
        raise Conflict(f"a snapshot holds at most {MAX_FACTS:,} facts", fix="make one snapshot for each product")
    if added_ids or removed_ids:
        if status == "READY":
            await snapshots.set_snapshot_status(conn, tenant, snapshot, "BUILDING")
        payload = {"added": sorted(map(str, added_ids)), "removed": sorted(map(str, removed_ids)), "count": count}
        await events.append_act(conn, act, tenant, "DataSnapshot", snapshot, "SNAPSHOT_ITEMS_CHANGED", payload)
        status = "BUILDING"
    return ChangedSnapshot(snapshot_id=snapshot, status=status, count=count)


def _find_duplicates(items: Sequence[SnapshotItemRow]) -> list[dict[str, object]]:
    by_key: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_key[item.ref.fact_type, item.ref.fact_key].append(str(item.fact_id))
    return [
        {"fact_type": kind, "fact_key": key, "fact_ids": sorted(fact_ids)}
        for (kind, key), fact_ids in sorted(by_key.items())
        if len(fact_ids) > 1
    ]
