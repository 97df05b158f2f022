"""/v1/rule-packages, /v1/rules:check: packages of rules; a text is checked before it is stored."""

from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from bpc.api.http.child_compute import RulesInvalid, compute_in_child
from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.models import (
    ActivityFilter,
    ActivityReason,
    CreatedAfter,
    CreatedBefore,
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    NothingToChange,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SearchText,
    Text,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.catalogue.wording import count_translations
from bpc.core.errors import NotFound
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import RulePackageId
from bpc.core.language.check_result import check_rule_sources
from bpc.core.language.source import DIAGNOSTIC_KINDS
from bpc.storage.access import storage_quota
from bpc.storage.rules import catalogues, packages
from bpc.storage.rules.packages import RulePackageFilter, RuleVersionStatus

routes = RouteFamily("Rules", resource="RulePackage")

RULE_ERROR_CODES: Final = tuple(sorted({kind.code for kind in DIAGNOSTIC_KINDS.values() if kind.severity == "error"}))

CATALOGUE_TYPE: Final = "text/x-gettext-translation"
CatalogueLanguage = Annotated[
    str, Path(pattern="^[a-z]{2}$", description="The language, as two letters.", examples=["de"])
]
DslSource = Annotated[
    str,
    Field(
        description="The rules, the text of `rules.bpc`: at most 1 MiB in UTF-8, without byte order mark.",
        examples=['field battery.chemistry @public: Text = "LFP";\n'],
    ),
]
TestsSource = Annotated[
    str,
    Field(
        description="Their tests, the text of `tests.bpc`: at most 1 MiB in UTF-8; may be empty.",
        examples=['example it_is_lfp: {} =>\n  expect(battery.chemistry, == "LFP");\n;\n'],
    ),
]


class NewRulePackage(RequestBody):
    name: Text = Field(description="Unique within the tenant.", examples=["Industrial batteries"])
    description: LongText | None = Field(None, examples=["What Annex XIII asks for."])


class RulePackageChange(RequestBody):
    """Members that are left out do not change."""

    name: Text | None = Field(None, description="Unique within the tenant.", examples=["Industrial batteries"])
    description: LongText | None = Field(None, examples=["What Annex XIII asks for."])


class RulePackageMade(ResponseBody):
    rule_package_id: Id


class RulePackage(ResponseBody):
    rule_package_id: Id
    name: str
    description: str | None
    is_active: bool = Field(description="False: deactivated; it gets no new versions, and they compile nothing new.")
    created_at: Moment


class RuleVersion(ResponseBody):
    rule_package_version_id: Id
    rule_package_id: Id
    version: int = Field(description="1, 2, 3 … within the package.")
    status: RuleVersionStatus = Field(description="Only a PUBLISHED version can compile passports.")
    created_at: Moment
    published_at: Moment | None
    compiler_min_build: str = Field(description="The level of the rule language that it needs.", examples=["1"])
    dsl_sha256: Hash
    tests_sha256: Hash


class RulePackageDetails(RulePackage):
    newest_version: RuleVersion | None = Field(description="The version with the highest number.")
    versions_by_status: dict[RuleVersionStatus, int] = Field(
        description="Number of versions by status; only statuses that occur.", examples=[{"DRAFT": 1, "PUBLISHED": 2}]
    )


class NewRuleVersion(RequestBody):
    dsl_source: DslSource
    tests_source: TestsSource


class RuleVersionMade(ResponseBody):
    rule_package_version_id: Id
    version: int
    status: RuleVersionStatus
    dsl_sha256: Hash
    tests_sha256: Hash


class RuleField(ResponseBody):
    field_path: str = Field(examples=["battery.capacity_kwh"])
    field_type: str = Field(
        description="The type as it is written in rules: `Dec(6)` is a decimal number with 6 places, `Qty(kg)` a "
        "quantity in kg, `Opt(…)` an optional value.",
        examples=["Dec(6)"],
    )
    audiences: list[str] = Field(
        description="The audiences that may see it, sorted; nobody if empty.", examples=[["public"]]
    )
    required: bool = Field(description="True if every passport has it; false for an optional value, `Opt(…)`.")
    label: str | None = Field(
        description="What people call it, in English; null if the rules do not say it.",
        examples=["Mass of the battery"],
    )
    point: str | None = Field(
        description="The data point that it serves, with the part of it where the rules name one: `10`, `43.2`.",
        examples=["10"],
    )
    citation: str | None = Field(
        description="Where the regulation asks for it.", examples=["Annex VI, Part A, point 5"]
    )


class RulesToCheck(RequestBody):
    dsl_source: DslSource
    tests_source: TestsSource = ""


class RulesChecked(ResponseBody):
    diagnostics: list[dict[str, Any]] = Field(
        description="Errors and warnings, each with `severity`, `code`, `kind`, `message`, `file`, `line`, `column`, "
        "`end_line`, `end_column` (exclusive), `help` and `notes`: what `bpc rules check --json` prints."
    )
    fields: list[RuleField] = Field(description="By path; empty if there is an error.")


@routes.write("/v1/rule-packages", permission="rules:write", status=201)
async def create_rule_package(ctx: Context, body: NewRulePackage) -> RulePackageMade:
    """Create a rule package. Then add versions to it."""
    package = await packages.create_package(
        ctx.conn, ctx.tenant, name=body.name, description=body.description, act=ctx.act
    )
    return RulePackageMade.model_validate(package)


@routes.read("/v1/rule-packages", permission="rules:read")
async def list_rule_packages(
    ctx: Context,
    page: Paging,
    q: Annotated[
        SearchText | None,
        Query(description="Only where the name or the description contains this, in any case.", examples=["annex"]),
    ] = None,
    name: Annotated[
        SearchText | None,
        Query(description="Only packages whose name contains this, in any case.", examples=["industrial"]),
    ] = None,
    status: ActivityFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[RulePackage]:
    """List rule packages, newest first."""
    filters = RulePackageFilter(
        name=name, text=q, status=status, created_after=created_after, created_before=created_before
    )
    rows = await packages.list_packages(ctx.conn, ctx.tenant, filters, page.query)
    return page.build_page(rows, RulePackage)


@routes.write("/v1/rule-packages/{rule_package_id}", permission="rules:write", method="PATCH")
async def change_rule_package(
    ctx: Context, rule_package_id: IdOf[RulePackageId], body: RulePackageChange
) -> RulePackage:
    """Rename a rule package, or change its description. Its versions do not change."""
    if body.name is None and body.description is None:
        raise NothingToChange(body)
    package = await packages.rename_package(
        ctx.conn, ctx.tenant, rule_package_id, name=body.name, description=body.description, act=ctx.act
    )
    return RulePackage.model_validate(package)


@routes.write("/v1/rule-packages/{rule_package_id}:deactivate", permission="rules:publish")
async def deactivate_rule_package(
    ctx: Context, rule_package_id: IdOf[RulePackageId], reason: ActivityReason
) -> RulePackage:
    """Deactivate a rule package: it gets no new versions, and they compile nothing new. Stored passports replay."""
    row = await packages.set_package_activity(
        ctx.conn, ctx.tenant, rule_package_id, is_active=False, reason=reason, act=ctx.act
    )
    return RulePackage.model_validate(row)


@routes.write("/v1/rule-packages/{rule_package_id}:reactivate", permission="rules:publish")
async def reactivate_rule_package(
    ctx: Context, rule_package_id: IdOf[RulePackageId], reason: ActivityReason
) -> RulePackage:
    """Reactivate a rule package: its versions compile again."""
    row = await packages.set_package_activity(
        ctx.conn, ctx.tenant, rule_package_id, is_active=True, reason=reason, act=ctx.act
    )
    return RulePackage.model_validate(row)


@routes.read("/v1/rule-packages/{rule_package_id}", permission="rules:read")
async def get_rule_package(ctx: Context, rule_package_id: IdOf[RulePackageId]) -> RulePackageDetails:
    """Get a rule package with the number of its versions by status."""
    row = await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)
    newest = await packages.find_newest_version(ctx.conn, ctx.tenant, rule_package_id)
    return RulePackageDetails(
        **dict(RulePackage.model_validate(row)),
        newest_version=None if newest is None else RuleVersion.model_validate(newest),
        versions_by_status=dict(await packages.count_versions_by_status(ctx.conn, ctx.tenant, rule_package_id)),
    )


@routes.write(
    "/v1/rule-packages/{rule_package_id}/versions",
    permission="rules:write",
    status=201,
    heavy=True,
    errors=(*RULE_ERROR_CODES, "STORAGE_QUOTA_EXCEEDED"),
)
async def create_rule_version(
    ctx: Context, rule_package_id: IdOf[RulePackageId], body: NewRuleVersion
) -> RuleVersionMade:
    """Add a version. It is a DRAFT until its tests have passed.

    Rules with errors are refused with the code of the first error; `details.diagnostics` has all of them. If the same
    texts are a version already, the answer is CONFLICT and names that version.
    """
    package = (await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)).rule_package_id
    dsl, tests = body.dsl_source.encode(), body.tests_source.encode()
    if duplicate := await packages.find_sources_conflict(ctx.conn, ctx.tenant, sha256(dsl), sha256(tests)):
        raise duplicate
    default_quota = ctx.service.settings.tenant_storage_bytes
    await storage_quota.require_room(ctx.conn, ctx.tenant, len(dsl) + len(tests), default=default_quota)
    check_result = await compute_in_child(ctx.service.processes, check_rule_sources, dsl, tests)
    if check_result.refusal is not None:
        raise RulesInvalid(check_result.refusal, check_result.diagnostics)
    version = await packages.insert_version(
        ctx.conn,
        ctx.tenant,
        package,
        dsl=dsl,
        tests=tests,
        fields=check_result.fields,
        language=check_result.language,
        act=ctx.act,
    )
    return RuleVersionMade.model_validate(version)


@routes.read("/v1/rule-packages/{rule_package_id}/versions", permission="rules:read")
async def list_rule_versions(ctx: Context, rule_package_id: IdOf[RulePackageId], page: Paging) -> Page[RuleVersion]:
    """List the versions of a rule package, newest first."""
    package = (await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)).rule_package_id
    return page.build_page(await packages.list_versions(ctx.conn, ctx.tenant, package, page.query), RuleVersion)


class NewCatalogue(RequestBody):
    content: str = Field(
        min_length=1,
        max_length=1_048_576,
        description="The whole PO file, as `bpc rules catalogue extract` makes it and a translator fills it.",
        examples=['msgid ""\nmsgstr "Language: de\\n"\n'],
    )


class RuleCatalogue(ResponseBody):
    """The texts of a rule package in one language."""

    rule_package_id: Id
    language: str = Field(examples=["de"])
    size: int = Field(description="Its size in bytes.", examples=[5310])
    sha256: Hash
    texts: int = Field(description="How many texts it has a translation for.", examples=[98])
    stored_at: Moment


class RuleCatalogues(ResponseBody):
    catalogues: list[RuleCatalogue] = Field(description="By language.")


@routes.write("/v1/rule-packages/{rule_package_id}/catalogues/{language}", permission="rules:write", method="PUT")
async def store_rule_catalogue(
    ctx: Context, rule_package_id: IdOf[RulePackageId], language: CatalogueLanguage, body: NewCatalogue
) -> RuleCatalogue:
    """Store the texts of a rule package in another language, in place of earlier ones. No passport changes.

    They are used for prints from then on, for all versions of the package: a translation counts for exactly the English
    text that it was made for.
    """
    package = (await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)).rule_package_id
    content = body.content.encode()
    texts = count_translations(language, content)
    row = await catalogues.store_catalogue(ctx.conn, ctx.tenant, package, language, content, texts=texts, act=ctx.act)
    return RuleCatalogue.model_validate(row)


@routes.read("/v1/rule-packages/{rule_package_id}/catalogues", permission="rules:read")
async def list_rule_catalogues(ctx: Context, rule_package_id: IdOf[RulePackageId]) -> RuleCatalogues:
    """List the languages that a rule package has texts in. Those that are shipped are not among them."""
    package = (await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)).rule_package_id
    rows = await catalogues.list_catalogues(ctx.conn, ctx.tenant, package)
    return RuleCatalogues(catalogues=[RuleCatalogue.model_validate(row) for row in rows])


@routes.read(
    "/v1/rule-packages/{rule_package_id}/catalogues/{language}", permission="rules:read", media_type=CATALOGUE_TYPE
)
async def get_rule_catalogue(
    ctx: Context,
    rule_package_id: IdOf[RulePackageId],
    language: CatalogueLanguage,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Download the texts of a rule package in a language, unchanged."""
    package = (await packages.get_package(ctx.conn, ctx.tenant, rule_package_id)).rule_package_id
    content = await catalogues.find_content(ctx.conn, ctx.tenant, package, language)
    if content is None:
        raise NotFound(f"the rule package has no catalogue in `{language}`", fix="list its catalogues")
    return serve_bytes(content, CATALOGUE_TYPE, if_none_match, attachment=True, name=f"{language}.po")


@routes.ask("/v1/rules:check", permission="rules:read", heavy=True)
async def check_rules(ctx: Context, body: RulesToCheck) -> RulesChecked:
    """Check rules, for editors. Nothing is stored, and the answer is 200 also for rules with errors."""
    texts = body.dsl_source.encode(), body.tests_source.encode()
    return RulesChecked.model_validate(await compute_in_child(ctx.service.processes, check_rule_sources, *texts))
