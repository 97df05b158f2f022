"""/v1/snapshots: facts, collected, checked and sealed for passports to be compiled from."""

from pydantic import Field
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_allowed, require_undenied
from bpc.api.models import Answer, Hash, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routes.facts import Fact
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import FactId, SnapshotId
from bpc.core.policies import Resource
from bpc.db import facts, snapshots
from bpc.db.snapshots import Status
from bpc.pipeline import snapshot as step

routes = Routes("Snapshots")

MOST_AT_ONCE = 1000


class NewSnapshot(Request):
    label: Text | None = Field(None, description="What people call it.", examples=["SKU-1, March 2027"])


class SnapshotMade(Answer):
    snapshot_id: Id
    status: Status


class ListedSnapshot(Answer):
    snapshot_id: Id
    status: Status
    label: str | None
    created_at: Moment
    sealed_at: Moment | None
    snapshot_hash: Hash | None = Field(description="SHA-256 of its canonical bytes; null until it is sealed.")


class Snapshot(ListedSnapshot):
    count: int = Field(description="How many facts it has.", examples=[12])


class NewItem(Request):
    """One fact to add."""

    fact_id: Id

    @property
    def wanted(self) -> list[FactId]:
        return [FactId(self.fact_id)]


class NewItems(Request):
    """Facts to add."""

    fact_ids: list[Id] = Field(min_length=1, max_length=MOST_AT_ONCE)

    @property
    def wanted(self) -> list[FactId]:
        return [FactId(fact) for fact in self.fact_ids]


class ItemsChanged(Answer):
    snapshot_id: Id
    status: Status = Field(description="A READY snapshot is BUILDING again once its facts change.")
    count: int = Field(description="How many facts it has now.", examples=[12])


class BuildStarted(Answer):
    job_id: Id


class SnapshotSealed(Answer):
    snapshot_id: Id
    status: Status
    snapshot_hash: Hash


@routes.write("/v1/snapshots", permission="snapshot:build", resource="DataSnapshot", status=201)
async def create_snapshot(work: Work, body: NewSnapshot | None = None) -> SnapshotMade:
    """Create a snapshot, for facts to be added to."""
    label = None if body is None else body.label
    return SnapshotMade.model_validate(await snapshots.create(work.conn, work.tenant, label=label, act=work.act))


@routes.read("/v1/snapshots", permission="snapshot:build", resource="DataSnapshot")
async def list_snapshots(work: Work, paged: Paged) -> Page[ListedSnapshot]:
    """List snapshots, newest first."""
    rows = await snapshots.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.snapshot_id), ListedSnapshot.model_validate)


@routes.read("/v1/snapshots/{snapshot_id}", permission="snapshot:build", resource="DataSnapshot")
async def get_snapshot(work: Work, snapshot_id: Id) -> Snapshot:
    """Get a snapshot."""
    return Snapshot.model_validate(await snapshots.get(work.conn, work.tenant, SnapshotId(snapshot_id)))


@routes.read("/v1/snapshots/{snapshot_id}/items", permission="snapshot:build", resource="DataSnapshot")
async def list_snapshot_items(work: Work, request: HttpRequest, snapshot_id: Id, paged: Paged) -> Page[Fact]:
    """List the facts of a snapshot. They come by id, from the last to the first, not by when they were added.

    Needs `docs:read` as well: it shows what documents say.
    """
    require_allowed(work, request, "docs:read", Resource(type="Fact"))
    found = await snapshots.get(work.conn, work.tenant, SnapshotId(snapshot_id))
    rows = await facts.page_of_snapshot(work.conn, work.tenant, found.snapshot_id, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.fact_id), Fact.model_validate)


@routes.write(
    "/v1/snapshots/{snapshot_id}/items",
    permission="snapshot:build",
    resource="DataSnapshot",
    errors=("SNAPSHOT_SEALED",),
)
async def add_snapshot_items(
    work: Work, request: HttpRequest, snapshot_id: Id, body: NewItem | NewItems
) -> ItemsChanged:
    """Add facts to a snapshot, all or none. What is in it already stays."""
    facts_named = (Resource(type="Fact", id=fact) for fact in body.wanted)
    require_undenied(work, request, facts_named, "snapshot:build", "docs:read")
    changed = await step.add_items(work.conn, work.tenant, SnapshotId(snapshot_id), body.wanted, act=work.act)
    return ItemsChanged.model_validate(changed)


@routes.write(
    "/v1/snapshots/{snapshot_id}/items/{fact_id}",
    permission="snapshot:build",
    resource="DataSnapshot",
    method="DELETE",
    errors=("SNAPSHOT_SEALED",),
)
async def remove_snapshot_item(work: Work, snapshot_id: Id, fact_id: Id) -> ItemsChanged:
    """Remove a fact from a snapshot."""
    changed = await step.remove_item(work.conn, work.tenant, SnapshotId(snapshot_id), FactId(fact_id), act=work.act)
    return ItemsChanged.model_validate(changed)


@routes.write(
    "/v1/snapshots/{snapshot_id}/build",
    permission="snapshot:build",
    resource="DataSnapshot",
    status=202,
    errors=("SNAPSHOT_SEALED",),
)
async def build_snapshot(work: Work, snapshot_id: Id) -> BuildStarted:
    """Have a snapshot checked, which makes it READY.

    The job fails if two of its facts have the same type and key. Until its facts change, asking again names the same
    job.
    """
    job_id = await step.request_build(
        work.conn,
        work.queue,
        work.service.steps.build,
        work.tenant,
        SnapshotId(snapshot_id),
        act=work.act,
    )
    return BuildStarted(job_id=job_id)


@routes.write(
    "/v1/snapshots/{snapshot_id}/seal",
    permission="snapshot:seal",
    resource="DataSnapshot",
    errors=("SNAPSHOT_SEALED", "SNAPSHOT_NOT_READY"),
)
async def seal_snapshot(work: Work, snapshot_id: Id) -> SnapshotSealed:
    """Seal a READY snapshot: it never changes again, and passports can be compiled from it."""
    return SnapshotSealed.model_validate(await step.seal(work.conn, work.tenant, SnapshotId(snapshot_id), act=work.act))
