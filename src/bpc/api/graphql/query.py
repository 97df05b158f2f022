"""The root of every query: one field for each resource, each with the permission of its REST route."""

import strawberry
from strawberry.types import Info

from bpc.api.graphql.asking import Asking, asking
from bpc.api.graphql.described import described
from bpc.api.graphql.evidence import Document, Fact, Snapshot
from bpc.api.graphql.pages import Page, page_of
from bpc.api.graphql.passports import BatteryProduct, Passport, PassportVersion
from bpc.api.graphql.rulebooks import RulePackage, RulePackageVersion
from bpc.api.graphql.running import Event, Job
from bpc.api.graphql.scalars import Id
from bpc.api.paging import DEFAULT
from bpc.core.cursor import Place
from bpc.core.errors import Invalid
from bpc.core.ids import (
    AggregateId,
    BatteryProductId,
    DocumentId,
    PassportId,
    PassportVersionId,
    RulePackageId,
    RulePackageVersionId,
    SnapshotId,
)
from bpc.db import audit, documents, facts, passport_versions, passports, products, rules, snapshots
from bpc.jobs import JobNotFound, Status, queries

Asks = Info[Asking, None]


@strawberry.type(description="Everything that can be asked for.")
class Query:
    @described("A passport.")
    async def passport(self, info: Asks, id: Id) -> Passport | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("passport:read", "Passport", id)
        found = await ask.found(passports.get, PassportId(id))
        return None if found is None else Passport.of(found)

    @described("Passports, newest first.")
    async def passports(self, info: Asks, first: int = DEFAULT, after: str | None = None) -> Page[Passport]:
        ask = asking(info)
        await ask.allow("passport:read", "Passport")
        part = ask.ask("passports", first, after, {})
        rows = await ask.read(passports.page, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.passport_id), Passport.of)

    @described("A version of a passport.")
    async def passport_version(self, info: Asks, id: Id) -> PassportVersion | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("passport:read", "PassportVersion", id)
        found = await ask.found(passport_versions.get, PassportVersionId(id))
        return None if found is None else PassportVersion.of(found)

    @described("A product.")
    async def battery_product(self, info: Asks, id: Id) -> BatteryProduct | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("passport:read", "BatteryProduct", id)
        found = await ask.found(products.get, BatteryProductId(id))
        return None if found is None else BatteryProduct.of(found)

    @described("Products, newest first.")
    async def battery_products(
        self, info: Asks, first: int = DEFAULT, after: str | None = None
    ) -> Page[BatteryProduct]:
        ask = asking(info)
        await ask.allow("passport:read", "BatteryProduct")
        part = ask.ask("batteryProducts", first, after, {})
        rows = await ask.read(products.page, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.battery_product_id), BatteryProduct.of)

    @described("A document.")
    async def document(self, info: Asks, id: Id) -> Document | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("docs:read", "Document", id)
        found = await ask.found(documents.get, DocumentId(id))
        return None if found is None else Document.of(found)

    @described("Documents, newest first.")
    async def documents(self, info: Asks, first: int = DEFAULT, after: str | None = None) -> Page[Document]:
        ask = asking(info)
        await ask.allow("docs:read", "Document")
        part = ask.ask("documents", first, after, {})
        rows = await ask.read(documents.page, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.document_id), Document.of)

    @described("Facts, newest first.")
    async def facts(
        self,
        info: Asks,
        fact_type: str | None = None,
        fact_key_prefix: str | None = None,
        first: int = DEFAULT,
        after: str | None = None,
    ) -> Page[Fact]:
        ask = asking(info)
        await ask.allow("docs:read", "Fact")
        part = ask.ask("facts", first, after, {"type": fact_type or "", "prefix": fact_key_prefix or ""})
        wanted = facts.Filters(fact_type=fact_type, fact_key_prefix=fact_key_prefix)
        rows = await ask.read(facts.page, wanted, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.fact_id), Fact.of)

    @described("A snapshot.")
    async def snapshot(self, info: Asks, id: Id) -> Snapshot | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("snapshot:build", "DataSnapshot", id)
        found = await ask.found(snapshots.get, SnapshotId(id))
        return None if found is None else Snapshot.of(found)

    @described("Snapshots, newest first.")
    async def snapshots(self, info: Asks, first: int = DEFAULT, after: str | None = None) -> Page[Snapshot]:
        ask = asking(info)
        await ask.allow("snapshot:build", "DataSnapshot")
        part = ask.ask("snapshots", first, after, {})
        rows = await ask.read(snapshots.page, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.snapshot_id), Snapshot.of)

    @described("A rule package.")
    async def rule_package(self, info: Asks, id: Id) -> RulePackage | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("rules:read", "RulePackage", id)
        found = await ask.found(rules.get, RulePackageId(id))
        return None if found is None else RulePackage.of(found)

    @described("Rule packages, newest first.")
    async def rule_packages(self, info: Asks, first: int = DEFAULT, after: str | None = None) -> Page[RulePackage]:
        ask = asking(info)
        await ask.allow("rules:read", "RulePackage")
        part = ask.ask("rulePackages", first, after, {})
        rows = await ask.read(rules.page, part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.rule_package_id), RulePackage.of)

    @described("A version of a rule package.")
    async def rule_package_version(self, info: Asks, id: Id) -> RulePackageVersion | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("rules:read", "RulePackageVersion", id)
        found = await ask.found(rules.version, RulePackageVersionId(id))
        return None if found is None else RulePackageVersion.of(found)

    @described("A job.")
    async def job(self, info: Asks, id: Id) -> Job | None:  # noqa: A002
        ask = asking(info)
        await ask.allow("jobs:read", "Job", id)
        try:
            return Job.of(await ask.read(queries.get, id))
        except JobNotFound:
            return None

    @described("Jobs, newest first.")
    async def jobs(
        self,
        info: Asks,
        type: str | None = None,  # noqa: A002
        status: str | None = None,
        first: int = DEFAULT,
        after: str | None = None,
    ) -> Page[Job]:
        ask = asking(info)
        await ask.allow("jobs:read", "Job")
        part = ask.ask("jobs", first, after, {"type": type or "", "status": status or ""})
        before = None if part.after is None else part.after.id
        rows = await ask.read(
            queries.page, job_type=type, status=_status(status), before_id=before, limit=part.limit + 1
        )
        return page_of(part, rows, lambda row: Place(row.created_at, row.job_id), Job.of)

    @described("Audit events, newest first; of one aggregate if both its type and id are given.")
    async def audit_events(
        self,
        info: Asks,
        aggregate_type: str | None = None,
        aggregate_id: Id | None = None,
        event_type: str | None = None,
        first: int = DEFAULT,
        after: str | None = None,
    ) -> Page[Event]:
        ask = asking(info)
        await ask.allow("audit:read", "Event")
        filters = {"type": aggregate_type or "", "id": str(aggregate_id or ""), "event": event_type or ""}
        part = ask.ask("auditEvents", first, after, filters)
        wanted = audit.Wanted(
            aggregate_type=aggregate_type,
            aggregate_id=None if aggregate_id is None else AggregateId(aggregate_id),
            event_type=event_type,
        )
        rows = await ask.read(audit.page, part.ask, wanted)
        return page_of(part, rows, lambda row: Place(row.occurred_at, row.event_id), Event.of)


def _status(text: str | None) -> Status | None:
    try:
        return None if text is None else Status(text)
    except ValueError:
        raise Invalid(f"`{text}` is no status of a job", fix=f"they are {', '.join(Status)}") from None
