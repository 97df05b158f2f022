"""The GraphQL schema: the root `Query`, with the filters of the REST lists."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Final, cast, get_args

import strawberry
from graphql import GraphQLError
from service_jobs import Job as JobRow
from service_jobs import queries
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from bpc.api.graphql.object_types import (
    BatteryProductType,
    CompileRunType,
    DocumentType,
    EventType,
    FactType,
    JobType,
    PassportType,
    PassportVersionType,
    RulePackageType,
    RulePackageVersionType,
    SnapshotType,
    require_job_status,
    require_version_status,
)
from bpc.api.graphql.query_context import (
    SCALARS,
    Id,
    Moment,
    PageType,
    QueryInfo,
    declare_list,
    declare_lookup,
    describe_field,
    name_filters,
    require_one_of,
    require_searchable,
)
from bpc.api.http.models import DEFAULT_PAGE_SIZE
from bpc.api.routes.jobs import JobFilter, find_jobs, make_subject_filter
from bpc.core.formats.ids import ActorId, AggregateId, DocumentVersionId, RulePackageVersionId, TenantId
from bpc.storage.audit import event_search
from bpc.storage.audit.event_search import EventFilter
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.evidence import document_search, documents, fact_search, snapshots
from bpc.storage.evidence.document_search import DocumentFilter
from bpc.storage.evidence.documents import DocumentKind
from bpc.storage.evidence.fact_search import FactSearch
from bpc.storage.passports import compile_runs, passport_versions
from bpc.storage.passports.compile_runs import CompileRunFilter, CompileRunStatus
from bpc.storage.passports.passports import get_passport, list_passports
from bpc.storage.passports.product_search import ProductFilter
from bpc.storage.passports.products import get_product, list_products
from bpc.storage.rules import packages

# The root


@strawberry.type(name="Query", description="Everything that can be asked for.")
class Query:
    passport = declare_lookup(PassportType, get_passport, "A passport.")

    @describe_field("Passports, newest first; by their product, status (ACTIVE or NONE) and time.")
    async def passports(
        self,
        info: QueryInfo,
        q: str | None = None,
        sku: str | None = None,
        name: str | None = None,
        status: str | None = None,
        supplier: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[PassportType]:
        await info.context.require_kind(PassportType)
        await _require_supplier_allowed(info, supplier)
        product_filter = _make_product_filter(
            q, sku, name, require_one_of(status, "ACTIVE", "NONE"), supplier, created_after, created_before
        )
        return await info.context.read_page(
            PassportType, "passports", first, after, list_passports, product_filter, filters=_name(product_filter)
        )

    passport_version = declare_lookup(PassportVersionType, passport_versions.get_version, "A version of a passport.")

    @describe_field("Versions of all passports, newest first; by their product, status and time.")
    async def passport_versions(
        self,
        info: QueryInfo,
        q: str | None = None,
        sku: str | None = None,
        name: str | None = None,
        status: str | None = None,
        supplier: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[PassportVersionType]:
        await info.context.require_kind(PassportVersionType)
        await _require_supplier_allowed(info, supplier)
        product_filter = _make_product_filter(
            q, sku, name, require_version_status(status), supplier, created_after, created_before
        )
        return await info.context.read_page(
            PassportVersionType,
            "allPassportVersions",
            first,
            after,
            passport_versions.list_versions,
            None,
            product_filter,
            filters=_name(product_filter),
        )

    battery_product = declare_lookup(BatteryProductType, get_product, "A product.")

    @describe_field("Products, newest first; by SKU, name, text, status (ACTIVE or INACTIVE), supplier and time.")
    async def battery_products(
        self,
        info: QueryInfo,
        q: str | None = None,
        sku: str | None = None,
        name: str | None = None,
        status: str | None = None,
        supplier: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[BatteryProductType]:
        await info.context.require_kind(BatteryProductType)
        await _require_supplier_allowed(info, supplier)
        product_filter = _make_product_filter(
            q, sku, name, require_one_of(status, "ACTIVE", "INACTIVE"), supplier, created_after, created_before
        )
        return await info.context.read_page(
            BatteryProductType,
            "batteryProducts",
            first,
            after,
            list_products,
            product_filter,
            filters=_name(product_filter),
        )

    document = declare_lookup(DocumentType, documents.get_document, "A document.")

    @describe_field("Documents, newest first; by name, reference, text, kind, supplier, product, status and time.")
    async def documents(
        self,
        info: QueryInfo,
        q: str | None = None,
        external_ref: str | None = None,
        name: str | None = None,
        kind: str | None = None,
        supplier: str | None = None,
        sku: str | None = None,
        status: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[DocumentType]:
        await info.context.require_kind(DocumentType)
        document_filter = DocumentFilter(
            external_ref=external_ref,
            name=require_searchable(name),
            text=require_searchable(q),
            kind=cast("DocumentKind | None", require_one_of(kind, *get_args(DocumentKind))),
            supplier=supplier,
            sku=sku,
            status=require_one_of(status, "ACTIVE", "INACTIVE"),
            created_after=created_after,
            created_before=created_before,
        )
        return await info.context.read_page(
            DocumentType,
            "documents",
            first,
            after,
            document_search.list_documents,
            document_filter,
            filters=_name(document_filter),
        )

    @describe_field("Facts, newest first; by type, beginning of the key, document, product, supplier and time.")
    async def facts(
        self,
        info: QueryInfo,
        fact_type: str | None = None,
        fact_key_prefix: str | None = None,
        document_version_id: Id | None = None,
        q: str | None = None,
        sku: str | None = None,
        supplier: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[FactType]:
        search = FactSearch(
            fact_type=fact_type,
            fact_key_prefix=fact_key_prefix,
            document_version_id=cast("DocumentVersionId | None", document_version_id),
            text=require_searchable(q),
            sku=sku,
            supplier=supplier,
            created_after=created_after,
            created_before=created_before,
        )
        await info.context.require_kind(FactType)
        return await info.context.read_page(
            FactType, "facts", first, after, fact_search.search_facts, search, filters=_name(search)
        )

    snapshot = declare_lookup(SnapshotType, snapshots.get_snapshot, "A snapshot.")
    snapshots = declare_list(SnapshotType, "snapshots", snapshots.list_snapshots, "Snapshots, newest first.")
    rule_package = declare_lookup(RulePackageType, packages.get_package, "A rule package.")

    @describe_field("Rule packages, newest first; by name, text, status (ACTIVE or INACTIVE) and time.")
    async def rule_packages(
        self,
        info: QueryInfo,
        q: str | None = None,
        name: str | None = None,
        status: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[RulePackageType]:
        await info.context.require_kind(RulePackageType)
        package_filter = packages.RulePackageFilter(
            name=require_searchable(name),
            text=require_searchable(q),
            status=require_one_of(status, "ACTIVE", "INACTIVE"),
            created_after=created_after,
            created_before=created_before,
        )
        return await info.context.read_page(
            RulePackageType,
            "rulePackages",
            first,
            after,
            packages.list_packages,
            package_filter,
            filters=_name(package_filter),
        )

    rule_package_version = declare_lookup(RulePackageVersionType, packages.get_version, "A version of a rule package.")
    compile_run = declare_lookup(CompileRunType, compile_runs.get_run, "A bulk compile.")

    @describe_field("Bulk compiles, newest first; by product, rules, status (RUNNING, FINISHED, CANCELLED) and time.")
    async def compile_runs(
        self,
        info: QueryInfo,
        q: str | None = None,
        sku: str | None = None,
        rule_package_version_id: Id | None = None,
        status: str | None = None,
        cancelled: bool | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[CompileRunType]:
        await info.context.require_kind(CompileRunType)
        run_filter = CompileRunFilter(
            text=require_searchable(q),
            sku=sku,
            rule_package_version_id=cast("RulePackageVersionId | None", rule_package_version_id),
            status=cast("CompileRunStatus | None", require_one_of(status, *get_args(CompileRunStatus))),
            is_cancelled=cancelled,
            created_after=created_after,
            created_before=created_before,
        )
        return await info.context.read_page(
            CompileRunType, "compileRuns", first, after, compile_runs.list_runs, run_filter, filters=_name(run_filter)
        )

    job = declare_lookup(JobType, queries.get_job, "A job.")

    @describe_field("Jobs, newest first.")
    async def jobs(
        self,
        info: QueryInfo,
        type: str | None = None,  # noqa: A002
        status: str | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        subject_kind: str | None = None,
        subject_id: str | None = None,
        sku: str | None = None,
        q: str | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[JobType]:
        job_filter = JobFilter(
            job_type=type,
            status=require_job_status(status),
            created_after=created_after,
            created_before=created_before,
            subject=make_subject_filter(subject_kind, subject_id),
            subject_group=sku,
            text=require_searchable(q),
        )
        await info.context.require_kind(JobType)
        return await info.context.read_page(
            JobType, "jobs", first, after, _list_jobs, job_filter, filters=name_filters(**job_filter.to_members())
        )

    @describe_field(
        "Audit events, newest first; of one aggregate if both its type and id are given, by actor and time."
    )
    async def audit_events(
        self,
        info: QueryInfo,
        aggregate_type: str | None = None,
        aggregate_id: Id | None = None,
        event_type: str | None = None,
        actor_id: Id | None = None,
        occurred_after: Moment | None = None,
        occurred_before: Moment | None = None,
        first: int = DEFAULT_PAGE_SIZE,
        after: str | None = None,
    ) -> PageType[EventType]:
        event_filter = EventFilter(
            aggregate_type=aggregate_type,
            aggregate_id=None if aggregate_id is None else AggregateId(aggregate_id),
            event_type=event_type,
            actor_id=cast("ActorId | None", actor_id),
            after=occurred_after,
            before=occurred_before,
        )
        await info.context.require_kind(EventType)
        return await info.context.read_page(
            EventType, "auditEvents", first, after, _list_events, event_filter, filters=_name(event_filter)
        )


async def _require_supplier_allowed(info: QueryInfo, supplier: str | None) -> None:
    """A filter by supplier shows what documents are about, so it needs the right to read them."""
    if supplier is not None:
        await info.context.require_kind(DocumentType)


def _make_product_filter(
    q: str | None,
    sku: str | None,
    name: str | None,
    status: str | None,
    supplier: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> ProductFilter:
    return ProductFilter(
        sku=sku,
        name=require_searchable(name),
        text=require_searchable(q),
        supplier=supplier,
        status=status,
        created_after=created_after,
        created_before=created_before,
    )


ListFilter = ProductFilter | DocumentFilter | FactSearch | packages.RulePackageFilter | CompileRunFilter | EventFilter


def _name(filters: ListFilter) -> dict[str, str]:
    """What a cursor is bound to: the filters that are set."""
    return name_filters(**asdict(filters))


async def _list_jobs(conn: Connection, tenant: TenantId, job_filter: JobFilter, page: PageQuery) -> Sequence[JobRow]:
    return await find_jobs(conn, tenant, job_filter, before_id=page.before_id, limit=page.limit)


async def _list_events(
    conn: Connection, tenant: TenantId, event_filter: EventFilter, page: PageQuery
) -> Sequence[event_search.EventRow]:
    return await event_search.list_events(conn, tenant, page, event_filter)


class _Schema(strawberry.Schema):
    """Leaves errors to the caller that runs the query: the library would log them, with the query."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        pass


SCHEMA: Final = _Schema(query=Query, config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=False))
