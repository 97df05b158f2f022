"""/v1/facts, /v1/snapshots: statements read from documents, and collections of them that are sealed for compiling."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import list_fact_resources, require_allowed, require_not_denied
from bpc.api.http.models import (
    CreatedAfter,
    CreatedBefore,
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    Page,
    Paging,
    ProductText,
    RequestBody,
    ResponseBody,
    Text,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.facts.merge import FactStatement, MemberConflict
from bpc.core.facts.provenance import FactName
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId, SnapshotId
from bpc.core.policies import Resource
from bpc.pipeline.product_facts import decide_conflict, load_product_evidence
from bpc.pipeline.snapshot import add_items, remove_item, request_build, seal, snapshot_product
from bpc.storage.evidence import facts, snapshots
from bpc.storage.evidence.fact_search import FactSearch, search_facts
from bpc.storage.evidence.snapshots import SnapshotStatus
from bpc.storage.evidence.statements import DecisionRow
from bpc.storage.passports.product_names import load_product_names

fact_routes = RouteFamily("Facts", resource="Fact")

FactTypeFilter = Annotated[Text | None, Query(description="Only facts of this type.", examples=["Component"])]
KeyPrefixFilter = Annotated[
    LongText | None,
    Query(description="Only facts whose key starts with this, in the order of keys.", examples=["component:SKU-1:"]),
]
DocumentFilter = Annotated[IdOf[DocumentVersionId] | None, Query(description="Only facts from this document version.")]


class FactSource(ResponseBody):
    document_version_id: Id
    source_path: str = Field(description="The place in the document.", examples=["$.components[0]"])


class Fact(ResponseBody):
    fact_id: Id
    fact_type: str = Field(examples=["Component"])
    fact_key: str = Field(description="The key: what the fact is about.", examples=["component:SKU-1:cell"])
    sku: str | None = Field(description="The product that it is about, from its key.", examples=["SKU-1"])
    product_name: str | None = Field(
        None, description="The name of that product.", examples=["Traction battery 75 kWh"]
    )
    schema_version: int = Field(examples=[1])
    payload: dict[str, Any] = Field(
        description="Its members, with the types of the fact schema; members without a value are left out.",
        examples=[{"mass_g": "120.500000", "part": "cell", "sku": "SKU-1"}],
    )
    payload_hash: Hash = Field(description="SHA-256 of the payload as canonical JSON (sorted, byte-exact).")
    source_document_version_id: Id = Field(description="The document version in which it was found first.")
    source_path: str = Field(description="The place in that document.", examples=["$.components[0]"])
    sources: list[FactSource] = Field(
        description="Places where it was found: at most a hundred in lists, else at most a thousand."
    )
    created_at: Moment


class FactDetails(Fact):
    sources_total: int = Field(description="Number of places; `sources` has the first thousand.", examples=[1])


@fact_routes.read("/v1/facts", permission="docs:read")
async def list_facts(
    ctx: Context,
    page: Paging,
    fact_type: FactTypeFilter = None,
    fact_key_prefix: KeyPrefixFilter = None,
    document_version_id: DocumentFilter = None,
    sku: Annotated[Text | None, Query(description="Only facts about this product.", examples=["SKU-1"])] = None,
    q: ProductText = None,
    supplier: Annotated[
        Text | None, Query(description="Only facts from documents of this supplier.", examples=["Example Cells GmbH"])
    ] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[Fact]:
    """List facts, newest first.

    Two filters change the order, unless `sku`, `q`, `supplier` or a time is also sent. With `fact_key_prefix`: by key,
    descending, then newest first. With `document_version_id`: by id, descending.
    """
    search = FactSearch(
        fact_type=fact_type,
        fact_key_prefix=fact_key_prefix,
        document_version_id=document_version_id,
        text=q,
        sku=sku,
        supplier=supplier,
        created_after=created_after,
        created_before=created_before,
    )
    return await _add_product_names(
        ctx, page.build_page(await search_facts(ctx.conn, ctx.tenant, search, page.query), Fact)
    )


async def _add_product_names(ctx: RequestContext, page: Page[Fact]) -> Page[Fact]:
    names = await load_product_names(ctx.conn, ctx.tenant, [fact.sku for fact in page.items])
    items = [fact.model_copy(update={"product_name": names.get(fact.sku or "")}) for fact in page.items]
    return page.model_copy(update={"items": items})


@fact_routes.read("/v1/facts/{fact_id}", permission="docs:read")
async def get_fact(ctx: Context, fact_id: IdOf[FactId]) -> FactDetails:
    """Get a fact with its first thousand sources."""
    fact, total = await facts.get_fact(ctx.conn, ctx.tenant, fact_id)
    names = await load_product_names(ctx.conn, ctx.tenant, [fact.sku])
    details = FactDetails(**dict(Fact.model_validate(fact)), sources_total=total)
    return details.model_copy(update={"product_name": names.get(fact.sku or "")})


conflict_routes = RouteFamily("Facts", resource="Document")


class ConflictingValue(ResponseBody):
    """What one document says about a member."""

    document_id: Id
    document_version_id: Id
    source_path: str = Field(description="The place in the document.", examples=["Battery!7"])
    file_name: str | None = Field(description="The name of the file, if it was sent.", examples=["bom.xlsx"])
    supplier: str | None = Field(description="Who sent it, if that is known.", examples=["Example Cells GmbH"])
    stated_at: Moment
    value: Any = Field(
        description="The value, as the fact schema writes it; null if it could not be read.", examples=["75.500000"]
    )
    unreadable: str | None = Field(description="Why the value could not be read; null if it could.")


class FactConflict(ResponseBody):
    """Documents that name different values for one member."""

    fact_type: str = Field(examples=["Battery"])
    fact_key: str = Field(examples=["battery:SKU-1"])
    member: str = Field(examples=["capacity_kwh"])
    decided: bool = Field(description="Whether somebody decided which document to believe.")
    values: list[ConflictingValue] = Field(description="The first is the one that counts.")


class ProductConflicts(ResponseBody):
    sku: str
    conflicts: list[FactConflict]


class ConflictDecision(RequestBody):
    sku: Text = Field(examples=["SKU-1"])
    fact_type: Text = Field(examples=["Battery"])
    fact_key: LongText = Field(examples=["battery:SKU-1"])
    member: Text = Field(examples=["capacity_kwh"])
    document_id: IdOf[DocumentId] = Field(description="The document to believe.")
    reason: LongText = Field(description="Why.", examples=["The data sheet is newer than the bill of materials."])


@conflict_routes.read("/v1/conflicts", permission="docs:read", heavy=True)
async def list_conflicts(
    ctx: Context, sku: Annotated[Text, Query(description="The product.", examples=["SKU-1"])]
) -> ProductConflicts:
    """List where the documents about a product differ.

    Until somebody decides, the document of the supplier with the best rank counts, then the one that was stated last,
    then the one with the highest id.

    The answer has all of them, without pages. It is bounded by what documents may contain: 50,000 facts each.
    """
    evidence = await load_product_evidence(ctx.conn, ctx.tenant, sku)
    conflicts = [_to_conflict(name, conflict) for name, conflict in evidence.iterate_conflicts()]
    return ProductConflicts(sku=sku, conflicts=conflicts)


@conflict_routes.write("/v1/conflicts:resolve", permission="snapshot:build", errors=("NOT_FOUND",), heavy=True)
async def resolve_conflict(ctx: Context, request: Request, body: ConflictDecision) -> ProductConflicts:
    """Decide which document to believe about a member. The answer is what the documents still differ about.

    The decision holds for as long as that document says anything about the member. A later decision replaces it.
    """
    document = Resource(type="Document", id=body.document_id)
    require_not_denied(ctx, request, [document], "snapshot:build", "docs:read")
    decision = DecisionRow(
        fact_type=body.fact_type, fact_key=body.fact_key, member=body.member, document_id=body.document_id
    )
    await decide_conflict(ctx.conn, ctx.tenant, body.sku, decision, reason=body.reason, act=ctx.act)
    return await list_conflicts(ctx, body.sku)


def _to_conflict(name: FactName, conflict: MemberConflict) -> FactConflict:
    fact_type, fact_key = name
    return FactConflict(
        fact_type=fact_type,
        fact_key=fact_key,
        member=conflict.member,
        decided=conflict.is_decided,
        values=[
            ConflictingValue(
                document_id=statement.document_id,
                document_version_id=statement.document_version_id,
                source_path=statement.locate_member(conflict.member).place,
                file_name=statement.document.file_name,
                supplier=statement.document.supplier,
                stated_at=statement.stated_at,
                value=statement.payload.get(conflict.member),
                unreadable=_explain_unreadable(statement, conflict.member),
            )
            for statement in conflict.statements
        ],
    )


def _explain_unreadable(statement: FactStatement, member: str) -> str | None:
    unreadable = statement.unreadable.get(member)
    return None if unreadable is None else unreadable.says


snapshot_routes = RouteFamily("Snapshots", resource="DataSnapshot")

MAX_ITEMS_ADDED = 1000


class NewSnapshot(RequestBody):
    label: Text | None = Field(None, description="A name for people.", examples=["SKU-1, March 2027"])
    sku: Text | None = Field(
        None,
        description="Seal what is known of this product now; without it, the snapshot is empty.",
        examples=["SKU-1"],
    )


class SnapshotMade(ResponseBody):
    snapshot_id: Id
    status: SnapshotStatus
    open_conflicts: int = Field(
        0, description="How often documents differ about a member and nobody has decided; 0 without `sku`."
    )


class ListedSnapshot(ResponseBody):
    snapshot_id: Id
    status: SnapshotStatus
    label: str | None
    created_at: Moment
    sealed_at: Moment | None
    snapshot_hash: Hash | None = Field(
        description="SHA-256 of its canonical JSON (sorted, byte-exact); null until it is sealed."
    )


class Snapshot(ListedSnapshot):
    count: int = Field(description="Number of facts.", examples=[12])


class NewItem(RequestBody):
    """One fact to add."""

    fact_id: IdOf[FactId]

    @property
    def ids(self) -> list[FactId]:
        return [self.fact_id]


class NewItems(RequestBody):
    """Facts to add."""

    fact_ids: list[IdOf[FactId]] = Field(min_length=1, max_length=MAX_ITEMS_ADDED)

    @property
    def ids(self) -> list[FactId]:
        return self.fact_ids


class ItemsChanged(ResponseBody):
    snapshot_id: Id
    status: SnapshotStatus = Field(description="A READY snapshot becomes BUILDING again when its facts change.")
    count: int = Field(description="Number of facts now.", examples=[12])


class BuildStarted(ResponseBody):
    job_id: Id


class SnapshotSealed(ResponseBody):
    snapshot_id: Id
    status: SnapshotStatus
    snapshot_hash: Hash


def _may_name_product(body: bytes) -> bool:
    """Whether a new snapshot may be one of a product, which takes long. A member may be written with escapes."""
    return b"sku" in body or b"\\" in body


@snapshot_routes.write("/v1/snapshots", permission="snapshot:build", status=201, heavy=_may_name_product)
async def create_snapshot(ctx: Context, request: Request, body: NewSnapshot | None = None) -> SnapshotMade:
    """Create a snapshot: with `sku` of what is known of a product now, sealed; otherwise empty, to add facts to.

    What is known is what its documents say, merged member by member; `GET /v1/conflicts` lists where they differ. With
    `sku` it also needs `snapshot:seal` and `docs:read`.
    """
    label = None if body is None else body.label
    if body is not None and body.sku is not None:
        require_allowed(ctx, request, "snapshot:seal", Resource(type="DataSnapshot"))
        require_not_denied(ctx, request, list_fact_resources(ctx), "snapshot:build", "docs:read")
        snapshot = await snapshot_product(ctx.conn, ctx.tenant, body.sku, label=label or body.sku, act=ctx.act)
        return SnapshotMade.model_validate(snapshot)
    return SnapshotMade.model_validate(await snapshots.create_snapshot(ctx.conn, ctx.tenant, label=label, act=ctx.act))


@snapshot_routes.read("/v1/snapshots", permission="snapshot:build")
async def list_snapshots(ctx: Context, page: Paging) -> Page[ListedSnapshot]:
    """List snapshots, newest first."""
    return page.build_page(await snapshots.list_snapshots(ctx.conn, ctx.tenant, page.query), ListedSnapshot)


@snapshot_routes.read("/v1/snapshots/{snapshot_id}", permission="snapshot:build")
async def get_snapshot(ctx: Context, snapshot_id: IdOf[SnapshotId]) -> Snapshot:
    """Get a snapshot."""
    return Snapshot.model_validate(await snapshots.get_snapshot(ctx.conn, ctx.tenant, snapshot_id))


@snapshot_routes.read("/v1/snapshots/{snapshot_id}/items", permission="snapshot:build")
async def list_snapshot_items(
    ctx: Context, request: Request, snapshot_id: IdOf[SnapshotId], page: Paging
) -> Page[Fact]:
    """List the facts of a snapshot, by id, descending.

    It also needs `docs:read`, because facts show what documents contain.
    """
    require_allowed(ctx, request, "docs:read", Resource(type="Fact"))
    snapshot = await snapshots.get_snapshot(ctx.conn, ctx.tenant, snapshot_id)
    rows = await facts.list_facts_of_snapshot(ctx.conn, ctx.tenant, snapshot.snapshot_id, page.query)
    return await _add_product_names(ctx, page.build_page(rows, Fact))


@snapshot_routes.write("/v1/snapshots/{snapshot_id}/items", permission="snapshot:build", errors=("SNAPSHOT_SEALED",))
async def add_snapshot_items(
    ctx: Context, request: Request, snapshot_id: IdOf[SnapshotId], body: NewItem | NewItems
) -> ItemsChanged:
    """Add facts to a snapshot, all or none. Facts that are already in it are ignored."""
    facts_named = (Resource(type="Fact", id=fact) for fact in body.ids)
    require_not_denied(ctx, request, facts_named, "snapshot:build", "docs:read")
    snapshot = await add_items(ctx.conn, ctx.tenant, snapshot_id, body.ids, act=ctx.act)
    return ItemsChanged.model_validate(snapshot)


@snapshot_routes.write(
    "/v1/snapshots/{snapshot_id}/items/{fact_id}",
    permission="snapshot:build",
    method="DELETE",
    errors=("SNAPSHOT_SEALED",),
)
async def remove_snapshot_item(ctx: Context, snapshot_id: IdOf[SnapshotId], fact_id: IdOf[FactId]) -> ItemsChanged:
    """Remove a fact from a snapshot."""
    snapshot = await remove_item(ctx.conn, ctx.tenant, snapshot_id, fact_id, act=ctx.act)
    return ItemsChanged.model_validate(snapshot)


@snapshot_routes.write(
    "/v1/snapshots/{snapshot_id}/build", permission="snapshot:build", status=202, errors=("SNAPSHOT_SEALED",)
)
async def build_snapshot(ctx: Context, snapshot_id: IdOf[SnapshotId]) -> BuildStarted:
    """Check a snapshot, which makes it READY. A job does it.

    The job fails if two facts have the same type and key. Until the facts change, another request returns the same job.
    """
    job_id = await request_build(
        ctx.conn, ctx.queue, ctx.service.pipeline_jobs.build, ctx.tenant, snapshot_id, act=ctx.act
    )
    return BuildStarted(job_id=job_id)


@snapshot_routes.write(
    "/v1/snapshots/{snapshot_id}/seal", permission="snapshot:seal", errors=("SNAPSHOT_SEALED", "SNAPSHOT_NOT_READY")
)
async def seal_snapshot(ctx: Context, snapshot_id: IdOf[SnapshotId]) -> SnapshotSealed:
    """Seal a READY snapshot. It never changes again, and passports can be compiled from it."""
    return SnapshotSealed.model_validate(await seal(ctx.conn, ctx.tenant, snapshot_id, act=ctx.act))
