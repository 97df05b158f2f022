"""The GraphQL schema: the types, made from the REST models, and the root `Query`. Each field has a REST permission."""

from collections.abc import Sequence
from typing import Any, Final

import strawberry
from graphql import GraphQLError
from service_jobs import Job as JobRow
from service_jobs import Status, queries
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from bpc.api.graphql.query_context import (
    SCALARS,
    Id,
    Json,
    ModelType,
    PageType,
    QueryInfo,
    declare_link,
    declare_list,
    declare_list_of,
    declare_lookup,
    describe_field,
    type_from_model,
)
from bpc.api.http.child_compute import compute_by_size
from bpc.api.http.models import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from bpc.api.routes.audit_and_signing_keys import Event
from bpc.api.routes.documents import Document, DocumentVersion
from bpc.api.routes.facts_and_snapshots import Fact, ListedSnapshot
from bpc.api.routes.jobs import Job, JobFault
from bpc.api.routes.products_and_passports import BatteryProduct, Passport, PassportVersion
from bpc.api.routes.rules import RuleField, RulePackage, RuleVersion
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.passport.payload import get_at_path
from bpc.storage.audit import event_search
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.evidence import documents, facts, snapshots
from bpc.storage.passports import passport_versions
from bpc.storage.passports.passports import get_passport, get_product, list_passports, list_products
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
    Fact, "One statement that a document made, typed by its schema.", permission="docs:read", omit=["sources"]
)
class FactType(ModelType):
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
        return [RuleFieldType.from_row(row) for row in rows]


@type_from_model(RulePackage, "A container of rule versions.", permission="rules:read")
class RulePackageType(ModelType):
    versions = declare_list_of(
        "package", RulePackageVersionType, "rulePackageVersions", packages.list_versions, "Its versions, newest first."
    )


# Products, passports and their versions


@type_from_model(BatteryProduct, "A product that passports are for.", permission="passport:read", omit=["is_active"])
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
        return [
            PassportFieldType(path=name, audiences=payload["access"][name], value=_find_value(payload, name))
            for name in paths
        ]

    @describe_field("What its rules said about duties, in the order they said it.")
    async def compliance(self, info: QueryInfo) -> list[ComplianceType]:
        payload = await self._load_artifact(info, "payload")
        return [ComplianceType(**entry) for entry in payload["compliance"]]

    @describe_field("Nodes of its proof by id, from `start` on; fields come first, then the root.")
    async def proof_nodes(self, info: QueryInfo, start: int = 0, first: int = DEFAULT_PAGE_SIZE) -> list[ProofNodeType]:
        if start < 0 or not 1 <= first <= MAX_PAGE_SIZE:
            raise Invalid(f"`start` is 0 or more, `first` is 1 to {MAX_PAGE_SIZE}")
        proof = await self._load_artifact(info, "proof")
        return [ProofNodeType(**node) for node in proof["nodes"][start : start + first]]

    @describe_field("One node of its proof.")
    async def proof_node(self, info: QueryInfo, id: int) -> ProofNodeType | None:  # noqa: A002
        nodes = (await self._load_artifact(info, "proof"))["nodes"]
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
    versions = declare_list_of(
        "passport",
        PassportVersionType,
        "passportVersions",
        passport_versions.list_versions,
        "Its versions, newest first.",
    )


async def _load_decoded(
    conn: Connection, tenant: TenantId, version: PassportVersionId, which: passport_versions.ArtifactName
) -> Any:
    content = await passport_versions.load_artifact(conn, tenant, version, which) or b"{}"
    return await compute_by_size(canonical_json.decode, content)


def _find_value(payload: Any, path: str) -> Json | None:
    value = next(iter(get_at_path(payload["fields"], path)), None)
    return None if value is None else Json(value)


# Jobs and audit events


@type_from_model(JobFault, "Why a job failed.", name="JobError", omit=["retryable"])
class JobErrorType(ModelType):
    pass


@type_from_model(
    Job,
    "Work that was asked for. What it was given is never shown.",
    permission="jobs:read",
    omit=["scheduled_at", "priority", "cancel_requested", "batch_id", "correlation_id"],
)
class JobType(ModelType):
    pass


@type_from_model(Event, "What happened, linked by hash to what happened before.", permission="audit:read")
class EventType(ModelType):
    pass


# The root


@strawberry.type(name="Query", description="Everything that can be asked for.")
class Query:
    passport = declare_lookup(PassportType, get_passport, "A passport.")
    passports = declare_list(PassportType, "passports", list_passports, "Passports, newest first.")
    passport_version = declare_lookup(PassportVersionType, passport_versions.get_version, "A version of a passport.")
    battery_product = declare_lookup(BatteryProductType, get_product, "A product.")
    battery_products = declare_list(BatteryProductType, "batteryProducts", list_products, "Products, newest first.")
    document = declare_lookup(DocumentType, documents.get_document, "A document.")
    documents = declare_list(DocumentType, "documents", documents.list_documents, "Documents, newest first.")

    @describe_field("Facts, newest first.")
    async def facts(
        self,
        info: QueryInfo,
        fact_type: str | None = None,
        fact_key_prefix: str | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[FactType]:
        fact_filter = facts.FactFilter(fact_type=fact_type, fact_key_prefix=fact_key_prefix)
        filters = {"type": fact_type or "", "prefix": fact_key_prefix or ""}
        await info.context.require_kind(FactType)
        return await info.context.read_page(
            FactType, "facts", first, after, facts.list_facts, fact_filter, filters=filters
        )

    snapshot = declare_lookup(SnapshotType, snapshots.get_snapshot, "A snapshot.")
    snapshots = declare_list(SnapshotType, "snapshots", snapshots.list_snapshots, "Snapshots, newest first.")
    rule_package = declare_lookup(RulePackageType, packages.get_package, "A rule package.")
    rule_packages = declare_list(
        RulePackageType, "rulePackages", packages.list_packages, "Rule packages, newest first."
    )
    rule_package_version = declare_lookup(RulePackageVersionType, packages.get_version, "A version of a rule package.")
    job = declare_lookup(JobType, queries.get_job, "A job.")

    @describe_field("Jobs, newest first.")
    async def jobs(
        self,
        info: QueryInfo,
        type: str | None = None,  # noqa: A002
        status: str | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[JobType]:
        filters = {"type": type or "", "status": status or ""}
        await info.context.require_kind(JobType)
        return await info.context.read_page(JobType, "jobs", first, after, _list_jobs, type, status, filters=filters)

    @describe_field("Audit events, newest first; of one aggregate if both its type and id are given.")
    async def audit_events(
        self,
        info: QueryInfo,
        aggregate_type: str | None = None,
        aggregate_id: Id | None = None,
        event_type: str | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[EventType]:
        event_filter = event_search.EventFilter(
            aggregate_type=aggregate_type,
            aggregate_id=None if aggregate_id is None else AggregateId(aggregate_id),
            event_type=event_type,
        )
        filters = {"type": aggregate_type or "", "id": str(aggregate_id or ""), "event": event_type or ""}
        await info.context.require_kind(EventType)
        return await info.context.read_page(
            EventType, "auditEvents", first, after, _list_events, event_filter, filters=filters
        )


async def _list_jobs(
    conn: Connection, tenant: TenantId, job_type: str | None, status: str | None, page: PageQuery
) -> Sequence[JobRow]:
    return await queries.list_jobs(
        conn, tenant, job_type=job_type, status=_parse_status(status), before_id=page.before_id, limit=page.limit
    )


def _parse_status(text: str | None) -> Status | None:
    try:
        return None if text is None else Status(text)
    except ValueError:
        raise Invalid(f"`{text}` is not the status of a job", fix=f"use one of {', '.join(Status)}") from None


async def _list_events(
    conn: Connection, tenant: TenantId, event_filter: event_search.EventFilter, page: PageQuery
) -> Sequence[event_search.EventRow]:
    return await event_search.list_events(conn, tenant, page, event_filter)


class _Schema(strawberry.Schema):
    """Leaves errors to the caller that runs the query: the library would log them, with the query."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        pass


SCHEMA: Final = _Schema(query=Query, config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=False))
