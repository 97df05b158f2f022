"""/v1/passports:check: everything that products still need for their passports. Nothing is stored."""

from collections.abc import Sequence
from typing import Any, Final, Self

from pydantic import Field, model_validator
from starlette.requests import Request

from bpc.api.access.auth import Forbidden, list_fact_resources, require_not_denied
from bpc.api.http.child_compute import ChildComputePool
from bpc.api.http.models import Day, Id, IdOf, Moment, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.passports import COMPILE_PERMISSION
from bpc.api.routes.products import Sku
from bpc.core.errors import Conflict, Invalid
from bpc.core.exports.data_points import Category, Status
from bpc.core.facts.findings import Severity
from bpc.core.formats.ids import RulePackageId, RulePackageVersionId
from bpc.core.formats.timestamps import parse_sent_day
from bpc.core.policies import Resource
from bpc.core.readiness.issues import IssueKind, PointState
from bpc.core.readiness.trial import TrialRules
from bpc.pipeline.readiness import check_readiness
from bpc.storage.passports.products import find_products_by_sku, list_active_skus_after
from bpc.storage.rules import packages

routes = RouteFamily("Readiness", resource="Passport")

MAX_PRODUCTS: Final = 100  # that one request checks; a caller goes on after the last one


class ChosenProducts(RequestBody):
    """Which products: `skus`, or all of them in pieces, in the order of SKUs."""

    skus: list[Sku] | None = Field(None, min_length=1, max_length=MAX_PRODUCTS, description="Each SKU once.")
    all: bool = Field(False, description="Every product of the tenant, instead of `skus`: at most 100 an answer.")
    after: Text | None = Field(None, description="With `all`: `next_after` of the previous answer.")

    @model_validator(mode="after")
    def _require_unique_skus(self) -> Self:
        if len(set(self.skus or ())) != len(self.skus or ()):
            raise ValueError("`skus` names a SKU twice")
        if self.after is not None and self.skus is not None:
            raise ValueError("`after` goes with `all`")
        return self


class PassportCheckRequest(ChosenProducts):
    rule_package_version_id: IdOf[RulePackageVersionId] | None = Field(
        None, description="A version of rules, of any status."
    )
    rule_package_id: IdOf[RulePackageId] | None = Field(
        None,
        description="Instead of a version: the newest published one of this package. With neither, the tenant must "
        "have exactly one package with a published version.",
    )
    issued_on: Day | None = Field(None, description="The day of issue to assume [default: today].")

    @model_validator(mode="after")
    def _require_choices(self) -> Self:
        if (self.skus is not None) == self.all:
            raise ValueError("send either `skus` or `all`")
        if self.rule_package_version_id is not None and self.rule_package_id is not None:
            raise ValueError("send either `rule_package_version_id` or `rule_package_id`")
        return self


class SourceDocument(ResponseBody):
    """A document that an issue is about."""

    document_id: Id
    document_version_id: Id
    file_name: str | None = Field(examples=["pcf.xlsx"])
    supplier: str | None = Field(examples=["Example Cells GmbH"])
    stated_at: Moment
    place: str | None = Field(description="The place in it; null if it does not name the member.", examples=["PCF!C2"])
    value: Any = Field(description="The value there, as the fact schema writes it.", examples=["79000.00"])


class TemplatePlace(ResponseBody):
    sheet: str = Field(examples=["Battery"])
    column: str = Field(examples=["mass_kg"])


class Issue(ResponseBody):
    """One thing that is missing, wrong or in doubt."""

    kind: IssueKind = Field(
        description="missing: no document says it. failing: a rule refuses it, or a compliance entry is FAIL or WARN. "
        "unreadable: the value could not be read. conflicting: documents differ and nobody has decided. implausible: "
        "the values contradict each other or cannot be. not_shown: no field of the rules shows it."
    )
    severity: Severity
    message: str = Field(validation_alias="says")
    points: list[int] = Field(description="Numbers of the data points that it is about.", examples=[[10]])
    code: str | None = Field(description="Code of the rule, the compliance entry or the finding.", examples=["DP10"])
    fields: list[str] = Field(description="Fields of the rules that it concerns.", examples=[["general.mass"]])
    labels: list[str] = Field(
        description="What people call these fields: the label of the rules with the path in brackets, or the path.",
        examples=[["Mass of the battery (general.mass)"]],
    )
    place: str | None = Field(description="Where the rules say so: line and column.", examples=["rules.bpc:110:15"])
    fact_type: str | None = Field(examples=["Battery"])
    fact_key: str | None = Field(examples=["battery:SKU-1"])
    members: list[str] = Field(examples=[["mass_kg"]])
    cells: list[TemplatePlace] = Field(description="Where the template asks for it.")
    documents: list[SourceDocument] = Field(
        validation_alias="origins",
        description="The documents that say it; of a value that is missing, those about the same fact.",
    )


class PointStanding(ResponseBody):
    number: int = Field(examples=[10])
    status: Status | None = Field(description="M, C, O, X or P for this category; null if the category is not known.")
    state: PointState = Field(
        description="filled, or the kind of its worst issue; empty: not mandatory and not filled; not_asked: not to be "
        "filled."
    )


class ProductReadiness(ResponseBody):
    sku: str = Field(examples=["SKU-123"])
    category: Category | None
    compiles: bool = Field(description="Whether the rules give every field.")
    ready: bool = Field(validation_alias="is_ready", description="Whether it compiles and no issue is an error.")
    compliance: dict[str, int] = Field(description="Compliance entries by status.", examples=[{"PASS": 8, "FAIL": 1}])
    issues: list[Issue]
    points: list[PointStanding] = Field(description="The 71 data points: a row of the matrix.")


class RefusedProduct(ResponseBody):
    sku: str
    code: str = Field(examples=["FORBIDDEN"])
    message: str


class PassportCheckReport(ResponseBody):
    rule_package_version_id: Id
    issued_on: str = Field(examples=["2027-02-18"])
    products: list[ProductReadiness]
    refused: list[RefusedProduct] = Field(description="Products that a policy denies the caller.")
    next_after: str | None = Field(description="Send it as `after` to go on; null if these were the last products.")


@routes.ask(
    "/v1/passports:check",
    permission=COMPILE_PERMISSION,
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT"),
)
async def check_passports(ctx: Context, request: Request, body: PassportCheckRequest) -> PassportCheckReport:
    """Compile without storing, and list everything that is missing, failing, unreadable, conflicting or implausible.

    One request checks at most 100 products. The rules are tried on what is known of each product now.
    """
    version, rules = await _load_rules(ctx, request, body)
    require_not_denied(ctx, request, list_fact_resources(ctx), "docs:read")
    skus, next_after = await _choose_skus(ctx, body)
    allowed_skus, refusals = await split_by_policy(ctx, request, skus)
    results = await check_readiness(
        ctx.conn, ctx.tenant, allowed_skus, rules, pool=ChildComputePool(ctx.service.processes)
    )
    return PassportCheckReport(
        rule_package_version_id=version,
        issued_on=rules.issued_at.date().isoformat(),
        products=[ProductReadiness.model_validate(readiness) for readiness in results],
        refused=refusals,
        next_after=next_after,
    )


async def _load_rules(
    ctx: RequestContext, request: Request, body: PassportCheckRequest
) -> tuple[RulePackageVersionId, TrialRules]:
    version = body.rule_package_version_id
    if version is None:
        version = await _find_published(ctx, body.rule_package_id)
    require_not_denied(
        ctx, request, [Resource(type="RulePackageVersion", id=version)], COMPILE_PERMISSION, "rules:read"
    )
    sources = await packages.load_sources(ctx.conn, ctx.tenant, version)
    return version, _make_rules(ctx, sources.dsl, body.issued_on)


async def _find_published(ctx: RequestContext, package: RulePackageId | None) -> RulePackageVersionId:
    if package is not None:
        await packages.get_package(ctx.conn, ctx.tenant, package)
    versions = await packages.list_newest_published(ctx.conn, ctx.tenant, package, limit=2)
    if len(versions) == 1:
        return versions[0].rule_package_version_id
    if versions:
        raise Invalid(
            "several rule packages have a published version",
            fix="name one as `rule_package_id`, or a version as `rule_package_version_id`",
        )
    whose = "the tenant" if package is None else f"rule package `{package}`"
    raise Conflict(f"{whose} has no published rules", fix="publish a version, or name one to try")


def _make_rules(ctx: RequestContext, dsl: bytes, day: str | None) -> TrialRules:
    issued_at = ctx.act.at if day is None else parse_sent_day(day)
    return TrialRules(dsl=dsl, issued_at=issued_at, max_steps=ctx.service.settings.rules_max_steps)


async def _choose_skus(ctx: RequestContext, body: PassportCheckRequest) -> tuple[Sequence[str], str | None]:
    """The SKUs of this request, and the one to go on after if there are more."""
    if body.skus is not None:
        return body.skus, None
    skus = await list_active_skus_after(ctx.conn, ctx.tenant, body.after or "", limit=MAX_PRODUCTS + 1)
    return skus[:MAX_PRODUCTS], skus[MAX_PRODUCTS - 1] if len(skus) > MAX_PRODUCTS else None


async def split_by_policy(
    ctx: RequestContext, request: Request, skus: Sequence[str]
) -> tuple[list[str], list[RefusedProduct]]:
    """The SKUs that the caller may ask about, and the refusals of the others. Each denial is recorded."""
    products = await find_products_by_sku(ctx.conn, ctx.tenant, skus)
    allowed_skus: list[str] = []
    refusals: list[RefusedProduct] = []
    for sku in skus:
        product = products.get(sku)
        product_id, passport_id = (None, None) if product is None else (product.battery_product_id, product.passport_id)
        resources = [
            Resource(type="Passport", id=passport_id, sku=sku),
            Resource(type="BatteryProduct", id=product_id, sku=sku),
        ]
        try:
            require_not_denied(ctx, request, resources, COMPILE_PERMISSION, "passport:read")
            allowed_skus.append(sku)
        except Forbidden as refusal:
            refusals.append(RefusedProduct(sku=sku, code=refusal.code, message=refusal.says))
    return allowed_skus, refusals
