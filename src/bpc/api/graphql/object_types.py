"""The types of GraphQL, made from the REST models. Each field has a REST permission."""

from typing import Any, Self

import strawberry
from service_jobs import Status

from bpc.api.access.auth import require_sources_not_denied
from bpc.api.graphql.query_context import (
    Json,
    ModelType,
    Moment,
    PageType,
    QueryInfo,
    declare_link,
    declare_list_of,
    describe_field,
    name_filters,
    type_from_model,
)
from bpc.api.http.child_compute import compute_by_size
from bpc.api.http.models import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from bpc.api.routes.audit_and_log import Event
from bpc.api.routes.compile_runs import ListedCompileRun
from bpc.api.routes.documents import Document, DocumentVersion
from bpc.api.routes.facts_and_snapshots import Fact, ListedSnapshot
from bpc.api.routes.jobs import Job, JobFault, JobSubject
from bpc.api.routes.passports import Passport, PassportVersion
from bpc.api.routes.products import BatteryProduct
from bpc.api.routes.rules import RuleField, RulePackage, RuleVersion
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.passport.payload import get_at_path
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents, facts, snapshots
from bpc.storage.passports import passport_versions
from bpc.storage.passports.product_names import load_product_names
from bpc.storage.passports.product_search import ProductFilter
from bpc.storage.passports.products import get_product
from bpc.storage.rules import packages

# Documents, facts and snapshots


@type_from_model(
    DocumentVersion,
    "What a supplier sent at one time, as it was sent.",
    permission="docs:read",
    omit=["content_removed_at"],
)
class DocumentVersionType(ModelType):
    pass


@type_from_model(Document, "A container of versions, of one kind.", permission="docs:read")
class DocumentType(ModelType):
    versions = declare_list_of(
        "document",
        DocumentVersionType,
        "documentVersions",
        documents.list_document_versions,
        "Its versions, newest first.",
    )


@type_from_model(
    Fact,
    "One statement that a document made, typed by its schema.",
    permission="docs:read",
    omit=["sources", "product_name"],
)
class FactType(ModelType):
    @describe_field("The name of the product that it is about.")
    async def product_name(self, info: QueryInfo) -> str | None:
        return await info.context.read(_find_product_name, self.sku)

    source = declare_link(
        "source_document_version_id",
        DocumentVersionType,
        documents.get_document_version,
        "The document version it was read from first.",
    )


@type_from_model(
    ListedSnapshot,
    "Facts that were collected, and sealed.",
    name="Snapshot",
    permission="snapshot:build",
    resource="DataSnapshot",
)
class SnapshotType(ModelType):
    @describe_field("How many facts it has.")
    async def count(self, info: QueryInfo) -> int:
        await info.context.require_readable(self)
        return await info.context.read(snapshots.count_items, self.snapshot_id)

    facts = declare_list_of(
        "snapshot", FactType, "snapshotFacts", facts.list_facts_of_snapshot, "Its facts.", require_kind=True
    )


# Rules


@type_from_model(RuleField, "A field that a rule version computes.")
class RuleFieldType(ModelType):
    pass


@type_from_model(
    RuleVersion,
    "Rules and their tests, which never change.",
    name="RulePackageVersion",
    permission="rules:read",
    omit=["compiler_min_build"],
)
class RulePackageVersionType(ModelType):
    @describe_field("The fields it computes.")
    async def fields(self, info: QueryInfo) -> list[RuleFieldType]:
        await info.context.require_readable(self)
        rows = await info.context.read(packages.list_fields, self.rule_package_version_id)
        await info.context.charge(len(rows))
        return [RuleFieldType.from_row(row) for row in rows]


@type_from_model(RulePackage, "A container of rule versions.", permission="rules:read")
class RulePackageType(ModelType):
    versions = declare_list_of(
        "package", RulePackageVersionType, "rulePackageVersions", packages.list_versions, "Its versions, newest first."
    )


# Products, passports and their versions


@type_from_model(BatteryProduct, "A product that passports are for.", permission="passport:read")
class BatteryProductType(ModelType):
    pass


@strawberry.type(name="Field", description="A field of a passport: its path, who may see it, and its value.")
class PassportFieldType:
    path: str
    audiences: list[str]
    value: Json | None


@strawberry.type(name="Compliance", description="What a rule said about a duty.")
class ComplianceType:
    code: str
    field: str
    status: str
    message: str
    verdict: str
    args: Json


@strawberry.type(name="ProofNode", description="One step of the computation, hash-linked to those it used.")
class ProofNodeType:
    id: int
    type: str
    hash: str
    data: Json
    children: list[int]


@type_from_model(
    PassportVersion, "The result of one compile, which never changes.", permission="passport:read", omit=["has_qr"]
)
class PassportVersionType(ModelType):
    @describe_field("Its fields by path; `path` names one of them.")
    async def fields(self, info: QueryInfo, path: str | None = None) -> list[PassportFieldType]:
        payload = await self._load_artifact(info, "payload")
        paths = sorted(payload["access"]) if path is None else [path] if path in payload["access"] else []
        await info.context.charge(len(paths))
        return [
            PassportFieldType(path=name, audiences=payload["access"][name], value=_find_value(payload, name))
            for name in paths
        ]

    @describe_field("What its rules said about duties, in the order they said it.")
    async def compliance(self, info: QueryInfo) -> list[ComplianceType]:
        payload = await self._load_artifact(info, "payload")
        await info.context.charge(len(payload["compliance"]))
        # Entries of rules of level 1 say neither verdict nor arguments.
        return [ComplianceType(**{"verdict": "assessed", "args": {}, **entry}) for entry in payload["compliance"]]

    @describe_field("Nodes of its proof by id, from `start` on; fields come first, then the root.")
    async def proof_nodes(self, info: QueryInfo, start: int = 0, first: int = DEFAULT_PAGE_SIZE) -> list[ProofNodeType]:
        if start < 0 or not 1 <= first <= MAX_PAGE_SIZE:
            raise Invalid(f"`start` is 0 or more, `first` is 1 to {MAX_PAGE_SIZE}")
        nodes = (await self._load_proof(info))["nodes"][start : start + first]
        await info.context.charge(len(nodes))
        return [ProofNodeType(**node) for node in nodes]

    @describe_field("One node of its proof.")
    async def proof_node(self, info: QueryInfo, id: int) -> ProofNodeType | None:  # noqa: A002
        nodes = (await self._load_proof(info))["nodes"]
        return ProofNodeType(**nodes[id]) if 0 <= id < len(nodes) else None

    snapshot = declare_link(
        "snapshot_id", SnapshotType, snapshots.get_snapshot, "The sealed snapshot it was compiled from."
    )
    rule_package_version = declare_link(
        "rule_package_version_id", RulePackageVersionType, packages.get_version, "The rules it was compiled with."
    )

    async def _load_artifact(self, info: QueryInfo, which: passport_versions.ArtifactName) -> Any:
        await info.context.require_readable(self)
        return await info.context.read(_load_decoded, self.passport_version_id, which)

    async def _load_proof(self, info: QueryInfo) -> Any:
        await info.context.require_readable(self)
        query = info.context
        version = PassportVersionId(self.passport_version_id)
        await require_sources_not_denied(query.ctx, query.request, version, read=query.read)
        return await self._load_artifact(info, "proof")


@type_from_model(
    Passport,
    "The passport of a product: a container of versions, one of which may be current.",
    permission="passport:read",
)
class PassportType(ModelType):
    battery_product = declare_link("battery_product_id", BatteryProductType, get_product, "The product it is for.")
    current = declare_link(
        "current_passport_version_id", PassportVersionType, passport_versions.get_version, "The version that is active."
    )

    @describe_field("Its versions, newest first.")
    async def versions(
        self,
        info: QueryInfo,
        status: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[PassportVersionType]:
        await info.context.require_readable(self)
        product_filter = ProductFilter(
            status=require_version_status(status), created_after=created_after, created_before=created_before
        )
        filters = name_filters(
            passport=self.passport_id, status=status, created_after=created_after, created_before=created_before
        )
        return await info.context.read_page(
            PassportVersionType,
            "passportVersions",
            first,
            after,
            passport_versions.list_versions,
            self.passport_id,
            product_filter,
            filters=filters,
        )


def require_version_status(status: str | None) -> str | None:
    """Return the status of a passport version; refuse another text."""
    if status is not None and status not in passport_versions.HAS_STATUS:
        known_statuses = ", ".join(passport_versions.HAS_STATUS)
        raise Invalid(f"`{status}` is not the status of a passport version", fix=f"use one of {known_statuses}")
    return status


async def _find_product_name(conn: Connection, tenant: TenantId, sku: str | None) -> str | None:
    return (await load_product_names(conn, tenant, [sku])).get(sku or "")


def require_job_status(text: str | None) -> Status | None:
    """Return the status of a job; refuse another text."""
    try:
        return None if text is None else Status(text)
    except ValueError:
        raise Invalid(f"`{text}` is not the status of a job", fix=f"use one of {', '.join(Status)}") from None


async def _load_decoded(
    conn: Connection, tenant: TenantId, version: PassportVersionId, which: passport_versions.ArtifactName
) -> Any:
    content = await passport_versions.load_artifact(conn, tenant, version, which)
    return await compute_by_size(canonical_json.decode, content)


def _find_value(payload: Any, path: str) -> Json | None:
    value = next(iter(get_at_path(payload["fields"], path)), None)
    return None if value is None else Json(value)


# Bulk compiles, jobs and audit events


@type_from_model(
    ListedCompileRun, "Passports of many products, compiled at once.", name="CompileRun", permission="passport:read"
)
class CompileRunType(ModelType):
    rule_package_version = declare_link(
        "rule_package_version_id", RulePackageVersionType, packages.get_version, "The rules it compiles with."
    )

    @classmethod
    def from_row(cls, row: Any) -> Self:
        return super().from_row(ListedCompileRun.model_validate(row))


@type_from_model(JobFault, "Why a job failed.", name="JobError", omit=["retryable"])
class JobErrorType(ModelType):
    @classmethod
    def from_row(cls, row: Any) -> Self:
        return super().from_row(JobFault.model_validate(row))


@type_from_model(JobSubject, "What a job is about.", omit=["product_name"])
class JobSubjectType(ModelType):
    @describe_field("The name of the product that it is about.")
    async def product_name(self, info: QueryInfo) -> str | None:
        return await info.context.read(_find_product_name, self.sku)

    @classmethod
    def from_row(cls, row: Any) -> Self:
        return super().from_row(JobSubject.model_validate(row))


@type_from_model(
    Job,
    "Work that was asked for. What it was given is never shown.",
    permission="jobs:read",
    omit=["scheduled_at", "priority", "cancel_requested", "batch_id", "correlation_id", "service_id"],
)
class JobType(ModelType):
    pass


@type_from_model(Event, "What happened, linked by hash to what happened before.", permission="audit:read")
class EventType(ModelType):
    pass
