"""/v1/rule-package-versions: from a draft, by its tests, to rules that compile passports, and out of use again."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field
from starlette.responses import Response

from bpc import fresh
from bpc.api.bytes import IfNoneMatch, described, served
from bpc.api.models import Answer, Id, Moment, Page, Request
from bpc.api.paging import Paged
from bpc.api.routes.rules import RuleField, RuleVersion
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import RulePackageVersionId, RuleTestsRunId
from bpc.db import rule_runs, rule_status, rules
from bpc.db.rule_runs import Verdict
from bpc.errands.rule_tests import TestsOrder
from bpc.jobs import Limit

routes = Routes("Rules")

KIND: Final = "RulePackageVersion"
PLAIN: Final = "text/plain"
LARGEST_SEED: Final = 2**53 - 1  # what every JSON parser reads as it was written


def _or_none(given: object) -> object:
    return given or None


class Reached(Answer):
    """How many places of one kind the tests came to."""

    total: int = Field(examples=[2])
    reached: int = Field(examples=[2])
    percent: int = Field(examples=[100])


class Unreached(Answer):
    """A place of the rules that no test came to."""

    kind: str = Field(examples=["branch"])
    label: str = Field(examples=["else"])
    file: str = Field(examples=["rules.bpc"])
    line: int
    column: int


class RuleCoverage(Answer):
    fields: Reached
    branches: Reached
    assertions: Reached


class RuleCoverageDetails(RuleCoverage):
    unreached: list[Unreached] = Field(description="In the order of the text.")


class RuleTestError(Answer):
    """The error that made a test fail. Facts that fit no schema have neither field nor place."""

    code: str = Field(examples=["RULE_ASSERTION_FAILED"])
    rule_code: str | None = Field(description="The code that the rule itself gave.")
    message: str
    field: str | None = Field(examples=["battery.capacity_kwh"])
    file: str = Field(examples=["rules.bpc"])
    line: int | None
    column: int | None


class RuleTestFact(Answer):
    fact_type: str = Field(examples=["Battery"])
    fact_key: str = Field(examples=["battery:SKU-1"])
    schema_version: int = Field(examples=[1])
    payload: dict[str, Any] = Field(examples=[{"sku": "SKU-1"}])


class RuleTestCase(Answer):
    """A case of a property that failed: the simplest facts and variable that fail in the same way."""

    number: int
    facts: list[RuleTestFact]
    variables: dict[str, Any] = Field(description="By name; values as payloads write them.", examples=[{"x": "0.5"}])
    command: str = Field(description="Runs this case alone.", examples=["bpc rules test rules.bpc --seed 7 --case 3"])


class RuleTestFailure(Answer):
    """An expectation that was not met, and where it stands."""

    test: str = Field(examples=["capacity_is_positive"])
    kind: Literal["example", "property"]
    message: str
    file: str = Field(examples=["tests.bpc"])
    line: int
    column: int
    end_line: int
    end_column: int
    error: RuleTestError | None
    case: RuleTestCase | None = Field(description="Of a property; null for an example.")


class RuleTestRun(Answer):
    run_id: Id
    rule_package_version_id: Id
    seed: int
    status: Verdict
    cases: int = Field(description="Cases that count: those whose premises held.")
    passed: int
    failed: int
    discarded: int = Field(description="Cases whose premises did not hold.")
    coverage: Annotated[RuleCoverage | None, BeforeValidator(_or_none)] = Field(
        description="Null where it was not kept. A run that is asked for by its id also lists what is `unreached`."
    )
    failure: RuleTestFailure | None = Field(description="The first failure, as `bpc rules test --json` prints it.")
    created_at: Moment = Field(description="When it was over.")


class RuleTestRunDetails(RuleTestRun):
    coverage: Annotated[RuleCoverageDetails | None, BeforeValidator(_or_none)] = Field(
        description="Null where it was not kept."
    )


class RuleVersionDetails(RuleVersion):
    fields: list[RuleField] = Field(description="By path.")
    newest_run: RuleTestRun | None = Field(description="The test run that ended last; it decides about publishing.")


class TestsToRun(Request):
    __test__ = False
    seed: int = Field(
        0, strict=True, ge=0, le=LARGEST_SEED, description="Which cases of the properties are made.", examples=[7]
    )


class TestsOrdered(Answer):
    __test__ = False
    run_id: Id = Field(description="The run; it can be read when its job is over.")
    job_id: Id


@routes.read("/v1/rule-package-versions/{rule_package_version_id}", permission="rules:read", resource=KIND)
async def get_rule_version(work: Work, rule_package_version_id: Id) -> RuleVersionDetails:
    """Get what is known of a version: its fields, and how its tests went last."""
    version_id = RulePackageVersionId(rule_package_version_id)
    found = RuleVersion.model_validate(await rules.version(work.conn, work.tenant, version_id))
    run = await rule_runs.newest(work.conn, work.tenant, version_id)
    fields = await rules.fields(work.conn, work.tenant, version_id)
    return RuleVersionDetails(
        **dict(found),
        fields=[RuleField.model_validate(field) for field in fields],
        newest_run=None if run is None else RuleTestRun.model_validate(run),
    )


@routes.read(
    "/v1/rule-package-versions/{rule_package_version_id}/rules.bpc",
    permission="rules:read",
    resource=KIND,
    response_class=Response,
    responses=described(PLAIN),
)
async def get_rules_source(work: Work, rule_package_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Download the rules of a version, as they were sent."""
    found = await rules.sources(work.conn, work.tenant, RulePackageVersionId(rule_package_version_id))
    return served(found.dsl, PLAIN, if_none_match, attachment=True, name="rules.bpc")


@routes.read(
    "/v1/rule-package-versions/{rule_package_version_id}/tests.bpc",
    permission="rules:read",
    resource=KIND,
    response_class=Response,
    responses=described(PLAIN),
)
async def get_tests_source(work: Work, rule_package_version_id: Id, if_none_match: IfNoneMatch = None) -> Response:
    """Download the tests of a version, as they were sent."""
    found = await rules.sources(work.conn, work.tenant, RulePackageVersionId(rule_package_version_id))
    return served(found.tests, PLAIN, if_none_match, attachment=True, name="tests.bpc")


@routes.write("/v1/rule-package-versions/{rule_package_version_id}/tests:run", permission="rules:test", resource=KIND)
async def run_rule_tests(work: Work, rule_package_version_id: Id, body: TestsToRun) -> TestsOrdered:
    """Have the tests of a DRAFT or VALIDATED version run by a job. A DRAFT that passes 500 cases is VALIDATED."""
    version_id, run_id = RulePackageVersionId(rule_package_version_id), RuleTestsRunId(fresh.new_id())
    await rule_status.require_testable(work.conn, work.tenant, version_id)
    order = TestsOrder(run_id=run_id, rule_package_version_id=version_id, seed=body.seed, actor_id=work.caller.actor_id)
    job_id = await work.queue.submit(
        work.service.errands.rule_tests,
        order,
        key=f"tests:{run_id}",
        limit=Limit(key="rule-tests", at_most=1),  # they take minutes: a tenant's must not fill all workers
    )
    return TestsOrdered(run_id=run_id, job_id=job_id)


@routes.read("/v1/rule-package-versions/{rule_package_version_id}/test-runs", permission="rules:read", resource=KIND)
async def list_rule_test_runs(work: Work, rule_package_version_id: Id, paged: Paged) -> Page[RuleTestRun]:
    """List the test runs of a version that are over, the last one first."""
    found = await rules.version(work.conn, work.tenant, RulePackageVersionId(rule_package_version_id))
    rows = await rule_runs.page(work.conn, work.tenant, found.rule_package_version_id, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.run_id), RuleTestRun.model_validate)


@routes.read(
    "/v1/rule-package-versions/{rule_package_version_id}/test-runs/{run_id}", permission="rules:read", resource=KIND
)
async def get_rule_test_run(work: Work, rule_package_version_id: Id, run_id: Id) -> RuleTestRunDetails:
    """Get a test run with every place of the rules that no test reached."""
    version_id = RulePackageVersionId(rule_package_version_id)
    await rules.version(work.conn, work.tenant, version_id)
    found = await rule_runs.get(work.conn, work.tenant, version_id, RuleTestsRunId(run_id))
    return RuleTestRunDetails.model_validate(found)


@routes.write(
    "/v1/rule-package-versions/{rule_package_version_id}:publish",
    permission="rules:publish",
    resource=KIND,
    errors=("RULE_TESTS_FAILED",),
)
async def publish_rule_version(work: Work, rule_package_version_id: Id) -> RuleVersion:
    """Publish a VALIDATED version, if its newest test run passed with at least 500 cases."""
    version_id = RulePackageVersionId(rule_package_version_id)
    return RuleVersion.model_validate(await rule_status.publish(work.conn, work.tenant, version_id, act=work.act))


@routes.write(
    "/v1/rule-package-versions/{rule_package_version_id}:deprecate", permission="rules:publish", resource=KIND
)
async def deprecate_rule_version(work: Work, rule_package_version_id: Id) -> RuleVersion:
    """Take a PUBLISHED version out of use: it compiles nothing more, and what it compiled stays as it is."""
    version_id = RulePackageVersionId(rule_package_version_id)
    return RuleVersion.model_validate(await rule_status.deprecate(work.conn, work.tenant, version_id, act=work.act))


@routes.write(
    "/v1/rule-package-versions/{rule_package_version_id}", method="DELETE", permission="rules:publish", resource=KIND
)
async def retire_rule_version(work: Work, rule_package_version_id: Id) -> RuleVersion:
    """Retire a version, whatever its status. Nothing is deleted: passports made with it can still be checked."""
    version_id = RulePackageVersionId(rule_package_version_id)
    return RuleVersion.model_validate(await rule_status.retire(work.conn, work.tenant, version_id, act=work.act))
