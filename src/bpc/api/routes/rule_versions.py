"""/v1/rule-package-versions: test, publish, deprecate and retire a version of rules."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field
from service_jobs import Limit
from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.models import Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.rules import RuleField, RuleVersion
from bpc.core.formats.ids import RulePackageVersionId, RuleTestsRunId
from bpc.runtime import clock
from bpc.storage.rules import lifecycle, packages
from bpc.storage.rules.lifecycle import RuleTestVerdict
from bpc.tasks.rule_tests import TestsOrder

routes = RouteFamily("Rules", resource="RulePackageVersion")

TEXT_TYPE: Final = "text/plain"
MAX_SEED: Final = 2**53 - 1  # the largest integer that every JSON parser reads exactly


def _empty_to_none(value: object) -> object:
    return value or None


class CoverageCount(ResponseBody):
    """How many places of one kind the tests reached."""

    total: int = Field(examples=[2])
    reached: int = Field(examples=[2])
    percent: int = Field(examples=[100])


class UncoveredPlace(ResponseBody):
    """A place in the rules that no test reached."""

    kind: str = Field(examples=["branch"])
    label: str = Field(examples=["else"])
    file: str = Field(examples=["rules.bpc"])
    line: int
    column: int


class RuleCoverage(ResponseBody):
    fields: CoverageCount
    branches: CoverageCount
    assertions: CoverageCount
    untested_fields: list[str] = Field(
        default_factory=list,
        description="The paths of the fields that no test evaluates; empty for a run of an earlier release.",
        examples=[["battery.capacity_kwh"]],
    )


class RuleCoverageDetails(RuleCoverage):
    unreached: list[UncoveredPlace] = Field(description="In the order of the text.")


class RuleTestError(ResponseBody):
    """The error that made a test fail. Field and place are null if the facts do not match their schema."""

    code: str = Field(examples=["RULE_ASSERTION_FAILED"])
    rule_code: str | None = Field(description="The code from the rule itself.")
    message: str
    field: str | None = Field(examples=["battery.capacity_kwh"])
    file: str = Field(examples=["rules.bpc"])
    line: int | None
    column: int | None


class RuleTestFact(ResponseBody):
    fact_type: str = Field(examples=["Battery"])
    fact_key: str = Field(examples=["battery:SKU-1"])
    schema_version: int = Field(examples=[1])
    payload: dict[str, Any] = Field(examples=[{"sku": "SKU-1"}])


class RuleTestCase(ResponseBody):
    """A failed case of a property: the simplest facts and variables that fail in the same way."""

    number: int
    facts: list[RuleTestFact]
    variables: dict[str, Any] = Field(
        description="By name; values are written as in payloads.", examples=[{"x": "0.5"}]
    )
    command: str = Field(description="Runs this case alone.", examples=["bpc rules test rules.bpc --seed 7 --case 3"])


class RuleTestFailure(ResponseBody):
    """A failed expectation, with its place in the tests."""

    test: str = Field(examples=["capacity_is_positive"])
    kind: Literal["example", "property"]
    message: str
    file: str = Field(examples=["tests.bpc"])
    line: int
    column: int
    end_line: int
    end_column: int
    error: RuleTestError | None
    case: RuleTestCase | None = Field(description="The failed case of a property; null for an example.")


class RuleTestRun(ResponseBody):
    run_id: Id
    rule_package_version_id: Id
    seed: int
    status: RuleTestVerdict
    cases: int = Field(description="Number of cases whose premises were true; only these count.")
    passed: int
    failed: int
    discarded: int = Field(description="Number of cases whose premises were false.")
    cases_without_field: int | None = Field(
        description="Number of `cases` that evaluate no field; they do not count towards the 500 that publishing "
        "needs. Null for a run of an earlier release."
    )
    coverage: Annotated[RuleCoverage | None, BeforeValidator(_empty_to_none)] = Field(
        description="Null if it was not stored. A single run also lists the `unreached` places."
    )
    failure: RuleTestFailure | None = Field(description="The first failure, as `bpc rules test --json` prints it.")
    created_at: Moment = Field(description="When the run ended.")


class RuleTestRunDetails(RuleTestRun):
    coverage: Annotated[RuleCoverageDetails | None, BeforeValidator(_empty_to_none)] = Field(
        description="Null if it was not stored."
    )


class RuleVersionDetails(RuleVersion):
    fields: list[RuleField] = Field(description="By path.")
    newest_run: RuleTestRun | None = Field(
        description="The test run that ended last; it decides whether the version can be published."
    )


class TestsToRun(RequestBody):
    __test__ = False
    seed: int = Field(
        0, strict=True, ge=0, le=MAX_SEED, description="Selects the random cases of the properties.", examples=[7]
    )


class TestRunRequested(ResponseBody):
    __test__ = False
    run_id: Id = Field(description="The run; it exists when its job has ended.")
    job_id: Id


@routes.read("/v1/rule-package-versions/{rule_package_version_id}", permission="rules:read")
async def get_rule_version(ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId]) -> RuleVersionDetails:
    """Get a version with its fields and its last test run."""
    version = RuleVersion.model_validate(await packages.get_version(ctx.conn, ctx.tenant, rule_package_version_id))
    run = await lifecycle.find_newest_test_run(ctx.conn, ctx.tenant, rule_package_version_id)
    fields = await packages.list_fields(ctx.conn, ctx.tenant, rule_package_version_id)
    return RuleVersionDetails(
        **dict(version),
        fields=[RuleField.model_validate(field) for field in fields],
        newest_run=None if run is None else RuleTestRun.model_validate(run),
    )


@routes.read(
    "/v1/rule-package-versions/{rule_package_version_id}/rules.bpc", permission="rules:read", media_type=TEXT_TYPE
)
async def get_rules_source(
    ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Download the rules of a version, unchanged."""
    sources = await packages.load_sources(ctx.conn, ctx.tenant, rule_package_version_id)
    return serve_bytes(sources.dsl, TEXT_TYPE, if_none_match, attachment=True, name="rules.bpc")


@routes.read(
    "/v1/rule-package-versions/{rule_package_version_id}/tests.bpc", permission="rules:read", media_type=TEXT_TYPE
)
async def get_tests_source(
    ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId], if_none_match: IfNoneMatch = None
) -> Response:
    """Download the tests of a version, unchanged."""
    sources = await packages.load_sources(ctx.conn, ctx.tenant, rule_package_version_id)
    return serve_bytes(sources.tests, TEXT_TYPE, if_none_match, attachment=True, name="tests.bpc")


@routes.write("/v1/rule-package-versions/{rule_package_version_id}/tests:run", permission="rules:test")
async def run_rule_tests(
    ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId], body: TestsToRun
) -> TestRunRequested:
    """Run the tests of a DRAFT or VALIDATED version in a job.

    A DRAFT becomes VALIDATED if all cases pass and at least 500 of them evaluate a field.
    """
    run_id = RuleTestsRunId(clock.new_id())
    await lifecycle.require_testable(ctx.conn, ctx.tenant, rule_package_version_id)
    order = TestsOrder(
        run_id=run_id, rule_package_version_id=rule_package_version_id, seed=body.seed, actor_id=ctx.caller.actor_id
    )
    job_id = await ctx.queue.submit(
        ctx.service.task_jobs.rule_tests,
        order,
        key=f"tests:{run_id}",
        limit=Limit(key="rule-tests", at_most=1),  # they take minutes, so one tenant must not fill all workers
    )
    return TestRunRequested(run_id=run_id, job_id=job_id)


@routes.read("/v1/rule-package-versions/{rule_package_version_id}/test-runs", permission="rules:read")
async def list_rule_test_runs(
    ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId], page: Paging
) -> Page[RuleTestRun]:
    """List the finished test runs of a version, newest first."""
    version = await packages.get_version(ctx.conn, ctx.tenant, rule_package_version_id)
    rows = await lifecycle.list_test_runs(ctx.conn, ctx.tenant, version.rule_package_version_id, page.query)
    return page.build_page(rows, RuleTestRun)


@routes.read("/v1/rule-package-versions/{rule_package_version_id}/test-runs/{run_id}", permission="rules:read")
async def get_rule_test_run(
    ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId], run_id: IdOf[RuleTestsRunId]
) -> RuleTestRunDetails:
    """Get a test run with every place in the rules that no test reached."""
    await packages.get_version(ctx.conn, ctx.tenant, rule_package_version_id)
    run = await lifecycle.get_test_run(ctx.conn, ctx.tenant, rule_package_version_id, run_id)
    return RuleTestRunDetails.model_validate(run)


@routes.write(
    "/v1/rule-package-versions/{rule_package_version_id}:publish",
    permission="rules:publish",
    four_eyes="publish",
    errors=("RULE_TESTS_FAILED",),
)
async def publish_rule_version(ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId]) -> RuleVersion:
    """Publish a VALIDATED version whose newest test run passed with at least 500 cases and reached enough branches.

    How many percent of the branches are enough is `minimum_branch_coverage_pct` of the tenant's settings.
    """
    return RuleVersion.model_validate(
        await lifecycle.publish_version(ctx.conn, ctx.tenant, rule_package_version_id, act=ctx.act)
    )


@routes.write("/v1/rule-package-versions/{rule_package_version_id}:deprecate", permission="rules:publish")
async def deprecate_rule_version(ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId]) -> RuleVersion:
    """Deprecate a PUBLISHED version: it compiles no more passports. Existing passports do not change."""
    return RuleVersion.model_validate(
        await lifecycle.deprecate_version(ctx.conn, ctx.tenant, rule_package_version_id, act=ctx.act)
    )


@routes.write("/v1/rule-package-versions/{rule_package_version_id}", method="DELETE", permission="rules:publish")
async def retire_rule_version(ctx: Context, rule_package_version_id: IdOf[RulePackageVersionId]) -> RuleVersion:
    """Retire a version in any status. Nothing is deleted: its passports can still be verified."""
    return RuleVersion.model_validate(
        await lifecycle.retire_version(ctx.conn, ctx.tenant, rule_package_version_id, act=ctx.act)
    )
