"""Rule tests: a rule version and a seed in, a test run out. A DRAFT whose tests passed becomes VALIDATED.

The same version and the same seed give the same run. If tests fail, the run is FAILED and the job succeeds. A job that
fails leaves no run; that is recorded on the version. Tests may take minutes. Meanwhile the job reports its progress
and no transaction is open.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from service_jobs import Context, Handler, Handlers, JobError, listen_for_progress, report_progress

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ActorId, RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.language.package import read_program
from bpc.core.language.testing.run import run_tests
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.runtime import clock
from bpc.storage.database import OpenTransaction
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.rules import lifecycle, packages
from bpc.storage.rules.lifecycle import RuleTestResult, RuleTestVerdict
from bpc.storage.rules.packages import RuleSources
from bpc.storage.webhooks.webhook_fanout import append_and_announce

TIMEOUT_SECONDS: Final = 600.0
REPORT_EVERY: Final = 1.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsOrder:
    """The run and the version that it tests. The run's id is fixed here, so a retried job stores the run only once."""

    __test__: ClassVar[bool] = False
    run_id: RuleTestsRunId
    rule_package_version_id: RulePackageVersionId
    seed: int
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsOutcome:
    """How a test run ended."""

    __test__: ClassVar[bool] = False
    run_id: RuleTestsRunId
    rule_package_version_id: RulePackageVersionId
    status: RuleTestVerdict
    cases: int
    passed: int
    failed: int
    discarded: int


def declare_tests_job(
    handlers: Handlers, *, max_steps: int, open_transaction: OpenTransaction
) -> Handler[TestsOrder, TestsOutcome]:
    """The job RUN_RULE_TESTS."""

    @handlers.job(
        "RUN_RULE_TESTS",
        timeout=TIMEOUT_SECONDS,
        subject=lambda order: make_subject("rule_package_version", order.rule_package_version_id),
        description="Runs the tests of a rule version.",
    )
    async def run(ctx: Context, order: TestsOrder) -> TestsOutcome:
        tenant, version = TenantId(ctx.tenant), order.rule_package_version_id
        await ctx.report_progress(0, "running the tests")
        async with open_transaction(tenant) as conn:
            sources = await packages.load_sources(conn, tenant, version)
        if not _have_stored_hashes(sources):
            raise Conflict(
                f"the stored sources of rule package version `{version}` do not have the hashes stored with them",
                fix="restore them from a backup; `bpc audit verify` shows whether more was changed",
            )
        result = await _run_with_progress(ctx, sources, order.seed, max_steps)
        await ctx.report_progress(100, f"{result.status}: {result.passed:,} of {result.cases:,} cases passed")
        conn, act = await ctx.transaction(), Act(order.actor_id, clock.now())
        await lifecycle.record_test_run(conn, tenant, version, order.run_id, seed=order.seed, result=result, act=act)
        return TestsOutcome(
            run_id=order.run_id,
            rule_package_version_id=version,
            status=result.status,
            cases=result.cases,
            passed=result.passed,
            failed=result.failed,
            discarded=result.discarded,
        )

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        version, act = order.rule_package_version_id, Act(order.actor_id, clock.now())
        row = await packages.get_version(conn, tenant, version)
        payload = {
            "rule_package_id": str(row.rule_package_id),
            "version": row.version,
            "run_id": str(order.run_id),
            **describe_failure(ctx.job_id, error),
        }
        await append_and_announce(conn, act, tenant, "RulePackageVersion", version, "RULE_TESTS_ABORTED", payload)

    return run


def run_package_tests(dsl: bytes, tests: bytes, seed: int, max_steps: int) -> RuleTestResult:
    """Run the tests of a package. May take minutes: run it in a child process."""
    program = read_program(dsl, tests)
    report = run_tests(program, seed=seed, max_steps=max_steps, progress=_report_each_percent)
    overrides = [override.as_json() for override in program.overrides]
    return RuleTestResult(
        cases=report.cases,
        passed=report.passed,
        failed=report.failed,
        discarded=report.discarded,
        cases_without_field=report.without_field,
        status=report.status,
        coverage=report.coverage.as_json() | ({"overrides": overrides} if overrides else {}),
        failure=report.failures[0].as_json() if report.failures else None,
    )


def _report_each_percent(done: int, total: int) -> None:
    if 100 * done // total > 100 * (done - 1) // total:  # at most a hundred reports, for any number of cases
        report_progress(done, total)


class CaseProgress:
    """How many cases are done, and how many of them were reported."""

    done = total = reported = 0

    def update(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    async def report(self, ctx: Context) -> None:
        if self.done > self.reported:
            self.reported = self.done
            await ctx.report_progress(100 * self.done // self.total, f"{self.done:,} of {self.total:,} cases are done")


async def _run_with_progress(ctx: Context, sources: RuleSources, seed: int, max_steps: int) -> RuleTestResult:
    cases = CaseProgress()
    pool = partial(ctx.compute, on_progress=cases.update)
    arguments = sources.dsl, sources.tests, seed, max_steps
    with listen_for_progress(cases.update):  # of a thread, which slows other jobs of this process but ends by itself
        running = asyncio.ensure_future(run_in_child_or_thread(pool, run_package_tests, *arguments))
    try:
        while not (await asyncio.wait([running], timeout=REPORT_EVERY))[0]:
            await cases.report(ctx)
        return running.result()
    finally:
        running.cancel()
        await asyncio.wait([running])  # the child process must be gone before its job ends


def _have_stored_hashes(sources: RuleSources) -> bool:
    return sha256(sources.dsl) == sources.dsl_sha256 and sha256(sources.tests) == sources.tests_sha256
