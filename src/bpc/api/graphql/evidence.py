"""Documents, facts and snapshots in GraphQL: what passports are made from."""

import strawberry
from strawberry.types import Info

from bpc.api.graphql.asking import Asking, asking
from bpc.api.graphql.described import described
from bpc.api.graphql.pages import Page, page_of
from bpc.api.graphql.scalars import Hash, Id, Json, Moment
from bpc.api.paging import DEFAULT
from bpc.core.cursor import Place
from bpc.core.ids import DocumentId, DocumentVersionId, SnapshotId
from bpc.db import documents, facts, snapshots


@strawberry.type(description="What a supplier sent at one time, as it was sent.")
class DocumentVersion:
    document_version_id: Id
    document_id: Id
    version: int
    status: str
    mime_type: str
    sha256: Hash
    size: int | None
    uploaded_at: Moment

    @classmethod
    def of(cls, row: documents.Version) -> "DocumentVersion":
        return cls(
            document_version_id=Id(row.document_version_id),
            document_id=Id(row.document_id),
            version=row.version,
            status=row.status,
            mime_type=row.mime_type,
            sha256=Hash(row.sha256),
            size=row.size,
            uploaded_at=Moment(row.uploaded_at),
        )


@strawberry.type(description="A container of versions, of one kind.")
class Document:
    document_id: Id
    kind: str
    external_ref: str | None
    created_at: Moment

    @described("Its versions, newest first.")
    async def versions(
        self, info: Info[Asking, None], first: int = DEFAULT, after: str | None = None
    ) -> Page[DocumentVersion]:
        ask = asking(info)
        await ask.allow("docs:read", "Document", self.document_id)
        part = ask.ask("documentVersions", first, after, {"document": str(self.document_id)})
        rows = await ask.read(documents.versions, DocumentId(self.document_id), part.ask)
        return page_of(part, rows, lambda row: Place(row.uploaded_at, row.document_version_id), DocumentVersion.of)

    @classmethod
    def of(cls, row: documents.Document) -> "Document":
        return cls(
            document_id=Id(row.document_id),
            kind=row.kind,
            external_ref=row.external_ref,
            created_at=Moment(row.created_at),
        )


@strawberry.type(description="One statement that a document made, typed by its schema.")
class Fact:
    fact_id: Id
    fact_type: str
    fact_key: str
    schema_version: int
    payload: Json
    payload_hash: Hash
    source_document_version_id: Id
    source_path: str
    created_at: Moment

    @described("The document version it was read from first.")
    async def source(self, info: Info[Asking, None]) -> DocumentVersion | None:
        ask = asking(info)
        await ask.allow("docs:read", "DocumentVersion", self.source_document_version_id)
        found = await ask.found(documents.version, DocumentVersionId(self.source_document_version_id))
        return None if found is None else DocumentVersion.of(found)

    @classmethod
    def of(cls, row: facts.Fact) -> "Fact":
        return cls(
            fact_id=Id(row.fact_id),
            fact_type=row.fact_type,
            fact_key=row.fact_key,
            schema_version=row.schema_version,
            payload=Json(row.payload),
            payload_hash=Hash(row.payload_hash),
            source_document_version_id=Id(row.source_document_version_id),
            source_path=row.source_path,
            created_at=Moment(row.created_at),
        )


@strawberry.type(description="Facts that were collected, and sealed.")
class Snapshot:
    snapshot_id: Id
    status: str
    label: str | None
    created_at: Moment
    sealed_at: Moment | None
    snapshot_hash: Hash | None

    @described("How many facts it has.")
    async def count(self, info: Info[Asking, None]) -> int:
        ask = asking(info)
        await ask.allow("snapshot:build", "DataSnapshot", self.snapshot_id)
        return await ask.read(snapshots.count, SnapshotId(self.snapshot_id))

    @described("Its facts.")
    async def facts(self, info: Info[Asking, None], first: int = DEFAULT, after: str | None = None) -> Page[Fact]:
        ask = asking(info)
        await ask.allow("snapshot:build", "DataSnapshot", self.snapshot_id)
        await ask.allow("docs:read", "Fact")
        part = ask.ask("snapshotFacts", first, after, {"snapshot": str(self.snapshot_id)})
        rows = await ask.read(facts.page_of_snapshot, SnapshotId(self.snapshot_id), part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.fact_id), Fact.of)

    @classmethod
    def of(cls, row: snapshots.Snapshot | snapshots.Listed) -> "Snapshot":
        return cls(
            snapshot_id=Id(row.snapshot_id),
            status=row.status,
            label=row.label,
            created_at=Moment(row.created_at),
            sealed_at=None if row.sealed_at is None else Moment(row.sealed_at),
            snapshot_hash=None if row.snapshot_hash is None else Hash(row.snapshot_hash),
        )
