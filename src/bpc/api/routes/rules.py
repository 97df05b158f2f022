"""/v1/rule-packages, /v1/rules:check: rules as texts, checked before they are stored."""

from typing import Annotated, Any, Final

from pydantic import Field

from bpc.api.computing import computed
from bpc.api.models import Answer, Hash, Id, LongText, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.rule_check import Mistaken, read_rules
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.digest import sha256
from bpc.core.ids import RulePackageId
from bpc.core.rules.kinds import KINDS
from bpc.db import rules
from bpc.db.rules import Status

routes = Routes("Rules")

WRONG: Final = tuple(sorted({kind.code for kind in KINDS.values() if kind.severity == "error"}))

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
        description="Their tests, the text of `tests.bpc`: as large at most, and may be empty.",
        examples=['example it_is_lfp: {} =>\n  expect(battery.chemistry, == "LFP");\n;\n'],
    ),
]


class NewRulePackage(Request):
    name: Text = Field(description="No other package of the tenant has it.", examples=["Industrial batteries"])
    description: LongText | None = Field(None, examples=["What Annex XIII asks for."])


class RulePackageMade(Answer):
    rule_package_id: Id


class RulePackage(Answer):
    rule_package_id: Id
    name: str
    description: str | None
    created_at: Moment


class RuleVersion(Answer):
    rule_package_version_id: Id
    rule_package_id: Id
    version: int = Field(description="1, 2, 3 … within the package.")
    status: Status = Field(description="Only a PUBLISHED version compiles passports.")
    created_at: Moment
    published_at: Moment | None
    compiler_min_build: str = Field(description="The level of the rule language that it needs.", examples=["1"])
    dsl_sha256: Hash
    tests_sha256: Hash


class RulePackageDetails(RulePackage):
    newest_version: RuleVersion | None = Field(description="The one with the highest number.")
    versions_by_status: dict[Status, int] = Field(
        description="How many versions there are in each status that occurs.", examples=[{"DRAFT": 1, "PUBLISHED": 2}]
    )


class NewRuleVersion(Request):
    dsl_source: DslSource
    tests_source: TestsSource


class RuleVersionMade(Answer):
    rule_package_version_id: Id
    version: int
    status: Status
    dsl_sha256: Hash
    tests_sha256: Hash


class RuleField(Answer):
    field_path: str = Field(examples=["battery.capacity_kwh"])
    field_type: str = Field(description="Its type as it is written in rules.", examples=["Dec(6)"])
    audiences: list[str] = Field(description="Who sees it, sorted; nobody if empty.", examples=[["public"]])
    required: bool = Field(description="Whether every passport has it: false exactly for `Opt(…)`.")


class RulesToCheck(Request):
    dsl_source: DslSource
    tests_source: TestsSource = ""


class RulesChecked(Answer):
    diagnostics: list[dict[str, Any]] = Field(
        description="Mistakes and doubts, each with `severity`, `code`, `kind`, `message`, `file`, `line`, `column`, "
        "`end_line`, `end_column` (exclusive), `help` and `notes`: what `bpc rules check --json` prints."
    )
    fields: list[RuleField] = Field(description="By path; empty if there is an error.")


@routes.write("/v1/rule-packages", permission="rules:write", resource="RulePackage", status=201)
async def create_rule_package(work: Work, body: NewRulePackage) -> RulePackageMade:
    """Create a rule package, for versions to be added to."""
    made = await rules.create(work.conn, work.tenant, name=body.name, description=body.description, act=work.act)
    return RulePackageMade.model_validate(made)


@routes.read("/v1/rule-packages", permission="rules:read", resource="RulePackage")
async def list_rule_packages(work: Work, paged: Paged) -> Page[RulePackage]:
    """List rule packages, newest first."""
    rows = await rules.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.rule_package_id), RulePackage.model_validate)


@routes.read("/v1/rule-packages/{rule_package_id}", permission="rules:read", resource="RulePackage")
async def get_rule_package(work: Work, rule_package_id: Id) -> RulePackageDetails:
    """Get a rule package and how its versions stand."""
    package = RulePackageId(rule_package_id)
    found = await rules.get(work.conn, work.tenant, package)
    newest = await rules.newest(work.conn, work.tenant, package)
    return RulePackageDetails(
        rule_package_id=found.rule_package_id,
        name=found.name,
        description=found.description,
        created_at=found.created_at,
        newest_version=None if newest is None else RuleVersion.model_validate(newest),
        versions_by_status=dict(await rules.counts(work.conn, work.tenant, package)),
    )


@routes.write(
    "/v1/rule-packages/{rule_package_id}/versions",
    permission="rules:write",
    resource="RulePackage",
    status=201,
    heavy=True,
    errors=WRONG,
)
async def create_rule_version(work: Work, rule_package_id: Id, body: NewRuleVersion) -> RuleVersionMade:
    """Add a version: a DRAFT until its tests have passed.

    Rules with mistakes are refused with the code of the first and all of them in `details.diagnostics`. Texts that are
    a version already are a CONFLICT that names it.
    """
    package = (await rules.get(work.conn, work.tenant, RulePackageId(rule_package_id))).rule_package_id
    dsl, tests = body.dsl_source.encode(), body.tests_source.encode()
    if known := await rules.with_sources(work.conn, work.tenant, sha256(dsl), sha256(tests)):
        raise known
    read = await computed(work.service.processes, read_rules, dsl, tests)
    if read.refused is not None:
        raise Mistaken(read.refused, read.diagnostics)
    made = await rules.add_version(
        work.conn, work.tenant, package, dsl=dsl, tests=tests, fields=read.fields, act=work.act
    )
    return RuleVersionMade.model_validate(made)


@routes.read("/v1/rule-packages/{rule_package_id}/versions", permission="rules:read", resource="RulePackage")
async def list_rule_versions(work: Work, rule_package_id: Id, paged: Paged) -> Page[RuleVersion]:
    """List the versions of a rule package, newest first."""
    package = (await rules.get(work.conn, work.tenant, RulePackageId(rule_package_id))).rule_package_id
    rows = await rules.versions(work.conn, work.tenant, package, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.rule_package_version_id), RuleVersion.model_validate)


@routes.ask("/v1/rules:check", permission="rules:read", resource="RulePackage", heavy=True)
async def check_rules(work: Work, body: RulesToCheck) -> RulesChecked:
    """Find the mistakes in rules, for editors. Nothing is stored, and rules with mistakes are no error here."""
    texts = body.dsl_source.encode(), body.tests_source.encode()
    return RulesChecked.model_validate(await computed(work.service.processes, read_rules, *texts))
