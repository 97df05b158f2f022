"""Snapshot, the third step: facts are collected, checked and sealed.

    BUILDING ── build ──► READY ── seal ──► SEALED
        ▲                   │
        └── add, remove ────┘

Everybody takes the snapshot's lock before looking at it, so what is sealed is what was built, and its hash is that of
exactly the facts in it. One fact that is not from a document is added by the first build: the snapshot's secret.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core import blinding
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act
from bpc.core.ids import FactId, JobId, SnapshotId, TenantId
from bpc.core.snapshot import snapshot_bytes
from bpc.db import events, facts, snapshots
from bpc.db import jobs as recorded
from bpc.db.connection import Connection
from bpc.db.facts import FactUnknown
from bpc.db.failures import SnapshotNotReady, SnapshotSealed
from bpc.db.snapshots import Item, Status
from bpc.jobs import Context, Handler, Handlers, Queue

MOST_FACTS: Final = 10_000
DUPLICATES_SHOWN: Final = 100


@dataclass(frozen=True, kw_only=True)
class BuildOrder:
    snapshot_id: UUID
    actor_id: UUID | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How a snapshot is after its facts were changed."""

    snapshot_id: SnapshotId
    status: Status
    count: int


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    snapshot_id: SnapshotId
    status: Status
    snapshot_hash: Digest


class SnapshotFull(Conflict):
    def __init__(self) -> None:
        super().__init__(f"a snapshot holds at most {MOST_FACTS:,} facts", fix="make one for each product")


class SnapshotEmpty(Conflict):
    def __init__(self, snapshot: SnapshotId) -> None:
        super().__init__(f"snapshot `{snapshot}` has no facts", fix="add some before it is built")


class AlreadyReady(Conflict):
    def __init__(self, snapshot: SnapshotId) -> None:
        super().__init__(f"snapshot `{snapshot}` is ready already", fix="seal it, or change its facts first")


class SameKeyTwice(Conflict):
    """Facts of one type and key: nothing says which of them a rule would read."""

    def __init__(self, duplicates: Sequence[dict[str, object]]) -> None:
        first = duplicates[0]
        super().__init__(
            f"the snapshot has several facts `{first['fact_key']}` of type {first['fact_type']}",
            fix="remove all but one of each",
            details={"duplicates": list(duplicates[:DUPLICATES_SHOWN]), "duplicates_total": len(duplicates)},
        )


class NotInSnapshot(NotFound):
    def __init__(self, fact: FactId, snapshot: SnapshotId) -> None:
        super().__init__(
            f"there is no fact `{fact}` in snapshot `{snapshot}`",
            fix="GET /v1/snapshots/{snapshot_id}/items lists those in it",
        )


async def add_items(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, wanted: Sequence[FactId], *, act: Act
) -> Changed:
    """Put facts in; what is in already stays. A fact that is not known refuses the whole request."""
    status = await _open(conn, tenant, snapshot)
    known = await facts.known(conn, tenant, wanted)
    unknown = next((fact for fact in wanted if fact not in known), None)
    if unknown is not None:
        raise FactUnknown(unknown)
    added = await snapshots.add(conn, tenant, snapshot, sorted(known))
    return await _changed(conn, tenant, snapshot, status, added=added, removed=[], act=act)


async def remove_item(conn: Connection, tenant: TenantId, snapshot: SnapshotId, fact: FactId, *, act: Act) -> Changed:
    """Take a fact out."""
    status = await _open(conn, tenant, snapshot)
    if not await snapshots.remove(conn, tenant, snapshot, fact):
        raise NotInSnapshot(fact, snapshot)
    return await _changed(conn, tenant, snapshot, status, added=[], removed=[fact], act=act)


async def request_build(
    conn: Connection,
    queue: Queue,
    build: Handler[BuildOrder, None],
    tenant: TenantId,
    snapshot: SnapshotId,
    *,
    act: Act,
) -> JobId:
    """Have a snapshot built. Until its facts change it is the same job, which is run again if it ended without that."""
    if await _open(conn, tenant, snapshot) == "READY":
        raise AlreadyReady(snapshot)
    if await snapshots.count(conn, tenant, snapshot) == 0:
        raise SnapshotEmpty(snapshot)
    order = BuildOrder(snapshot_id=snapshot, actor_id=act.actor_id)
    key = f"build:{snapshot}:{await snapshots.changes(conn, tenant, snapshot)}"
    submitted = await queue.submit(build, order, key=key)
    await recorded.retry_if_over(conn, tenant, submitted, act=act)
    return JobId(submitted)


def build_job(handlers: Handlers) -> Handler[BuildOrder, None]:
    @handlers.job("BUILD_SNAPSHOT")
    async def run(ctx: Context, order: BuildOrder) -> None:
        act = Act.ordered_by(order.actor_id, fresh.now())
        await build_snapshot(await ctx.transaction(), TenantId(ctx.tenant), SnapshotId(order.snapshot_id), act=act)

    return run


async def build_snapshot(conn: Connection, tenant: TenantId, snapshot: SnapshotId, *, act: Act) -> None:
    """Check that each type and key is there once, and see to the secret; one that is past BUILDING stays as it is."""
    if await snapshots.locked(conn, tenant, snapshot) != "BUILDING":
        return
    items = await snapshots.items_of(conn, tenant, snapshot)
    has_secret = any(item.ref.fact_type == blinding.FACT_TYPE for item in items)
    if len(items) == has_secret:
        raise SnapshotEmpty(snapshot)
    if duplicates := _duplicates(items):
        raise SameKeyTwice(duplicates)
    if not has_secret:
        secret = blinding.blinding_fact(snapshot, fresh.entropy(blinding.KEY_BYTES))
        await snapshots.add(conn, tenant, snapshot, [await facts.add_our_own(conn, tenant, secret, at=act.at)])
    await snapshots.set_status(conn, tenant, snapshot, "READY")
    said = act.says("SNAPSHOT_READY", {"count": len(items) - has_secret})
    await events.append(conn, snapshots.stream(tenant, snapshot), said)


async def seal(conn: Connection, tenant: TenantId, snapshot: SnapshotId, *, act: Act) -> Sealed:
    """Close a snapshot that is ready, for ever, under the hash of what is in it."""
    if await _open(conn, tenant, snapshot) != "READY":
        raise SnapshotNotReady(f"snapshot `{snapshot}` is not ready", fix="build it first")
    items = await snapshots.items_of(conn, tenant, snapshot)
    canonical = snapshot_bytes(snapshot, [item.ref for item in items])
    digest = sha256(canonical)
    await snapshots.seal(conn, tenant, snapshot, canonical, digest, at=act.at)
    count = sum(item.ref.fact_type != blinding.FACT_TYPE for item in items)
    said = act.says("SNAPSHOT_SEALED", {"count": count, "snapshot_hash": to_hex(digest)})
    await events.append(conn, snapshots.stream(tenant, snapshot), said)
    return Sealed(snapshot_id=snapshot, status="SEALED", snapshot_hash=digest)


async def sealed_of(
    conn: Connection, tenant: TenantId, wanted: Sequence[FactId], *, label: str | None, act: Act
) -> Sealed:
    """A new snapshot of these facts, built and sealed at once; each of that on record."""
    snapshot = (await snapshots.create(conn, tenant, label=label, act=act)).snapshot_id
    await add_items(conn, tenant, snapshot, wanted, act=act)
    await build_snapshot(conn, tenant, snapshot, act=act)
    return await seal(conn, tenant, snapshot, act=act)


async def _open(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Status:
    """The status of a snapshot that is ours to change from here on."""
    status = await snapshots.locked(conn, tenant, snapshot)
    if status == "SEALED":
        raise SnapshotSealed(f"snapshot `{snapshot}` is sealed", fix="make a new one")
    return status


async def _changed(
    conn: Connection,
    tenant: TenantId,
    snapshot: SnapshotId,
    status: Status,
    *,
    added: Sequence[FactId],
    removed: Sequence[FactId],
    act: Act,
) -> Changed:
    count = await snapshots.count(conn, tenant, snapshot)
    if count > MOST_FACTS:
        raise SnapshotFull
    if added or removed:
        if status == "READY":
            await snapshots.set_status(conn, tenant, snapshot, "BUILDING")
        payload = {"added": sorted(map(str, added)), "removed": sorted(map(str, removed)), "count": count}
        said = act.says("SNAPSHOT_ITEMS_CHANGED", payload)
        await events.append(conn, snapshots.stream(tenant, snapshot), said)
        status = "BUILDING"
    return Changed(snapshot_id=snapshot, status=status, count=count)


def _duplicates(items: Sequence[Item]) -> list[dict[str, object]]:
    by_key: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_key[item.ref.fact_type, item.ref.fact_key].append(str(item.fact_id))
    return [
        {"fact_type": kind, "fact_key": key, "fact_ids": sorted(found)}
        for (kind, key), found in sorted(by_key.items())
        if len(found) > 1
    ]
