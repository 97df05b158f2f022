"""Rule packages in GraphQL."""

import strawberry
from strawberry.types import Info

from bpc.api.graphql.asking import Asking, asking
from bpc.api.graphql.described import described
from bpc.api.graphql.pages import Page, page_of
from bpc.api.graphql.scalars import Hash, Id, Moment
from bpc.api.paging import DEFAULT
from bpc.core.cursor import Place
from bpc.core.ids import RulePackageId, RulePackageVersionId
from bpc.db import rules


@strawberry.type(description="A field that a rule version computes.")
class RuleField:
    field_path: str
    field_type: str
    audiences: list[str]
    required: bool


@strawberry.type(description="Rules and their tests, which never change.")
class RulePackageVersion:
    rule_package_version_id: Id
    rule_package_id: Id
    version: int
    status: str
    created_at: Moment
    published_at: Moment | None
    dsl_sha256: Hash
    tests_sha256: Hash

    @described("The fields it computes.")
    async def fields(self, info: Info[Asking, None]) -> list[RuleField]:
        ask = asking(info)
        await ask.allow("rules:read", "RulePackageVersion", self.rule_package_version_id)
        rows = await ask.read(rules.fields, RulePackageVersionId(self.rule_package_version_id))
        return [
            RuleField(
                field_path=row.field_path,
                field_type=row.field_type,
                audiences=list(row.audiences),
                required=row.required,
            )
            for row in rows
        ]

    @classmethod
    def of(cls, row: rules.RuleVersion) -> "RulePackageVersion":
        return cls(
            rule_package_version_id=Id(row.rule_package_version_id),
            rule_package_id=Id(row.rule_package_id),
            version=row.version,
            status=row.status,
            created_at=Moment(row.created_at),
            published_at=None if row.published_at is None else Moment(row.published_at),
            dsl_sha256=Hash(row.dsl_sha256),
            tests_sha256=Hash(row.tests_sha256),
        )


@strawberry.type(description="A container of rule versions.")
class RulePackage:
    rule_package_id: Id
    name: str
    description: str | None
    created_at: Moment

    @described("Its versions, newest first.")
    async def versions(
        self, info: Info[Asking, None], first: int = DEFAULT, after: str | None = None
    ) -> Page[RulePackageVersion]:
        ask = asking(info)
        await ask.allow("rules:read", "RulePackage", self.rule_package_id)
        part = ask.ask("rulePackageVersions", first, after, {"package": str(self.rule_package_id)})
        rows = await ask.read(rules.versions, RulePackageId(self.rule_package_id), part.ask)
        return page_of(
            part, rows, lambda row: Place(row.created_at, row.rule_package_version_id), RulePackageVersion.of
        )

    @classmethod
    def of(cls, row: rules.RulePackage) -> "RulePackage":
        return cls(
            rule_package_id=Id(row.rule_package_id),
            name=row.name,
            description=row.description,
            created_at=Moment(row.created_at),
        )
