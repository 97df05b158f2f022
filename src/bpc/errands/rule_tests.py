"""Rule tests: a version and a seed in, a run out; a DRAFT whose tests passed is VALIDATED.

The same version and the same seed give the same run. Tests that fail are a run that FAILED, not a job that did.
They may take minutes, in which the job says how far they are, and no transaction is open.
"""

import asyncio
from typing import ClassVar, Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.digest import sha256
from bpc.core.errors import Conflict
from bpc.core.events import Act
from bpc.core.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.rules.package import checked_program
from bpc.core.rules.testing.run import run_tests
from bpc.db import rule_status, rules
from bpc.db.database import Opening
from bpc.db.rule_runs import Found
from bpc.db.rules import Sources
from bpc.jobs import Context, Handler, Handlers, NoProcesses, listening, tell

LONGEST: Final = 600.0  # seconds
REPORT_EVERY: Final = 1.0  # seconds


@dataclass(frozen=True, kw_only=True)
class TestsOrder:
    """Which run of which version. Its id is fixed here, so it is written down once, however often it is tried."""

    __test__: ClassVar[bool] = False
    run_id: UUID
    rule_package_version_id: UUID
    seed: int
    actor_id: UUID | None


class SourcesChanged(Conflict):
    """What is stored is not what was stored."""

    def __init__(self, version: RulePackageVersionId) -> None:
        super().__init__(
            f"the stored sources of rule package version `{version}` do not have the hashes stored with them",
            fix="restore them from a backup; `bpc audit verify` finds out whether more was changed",
        )


def tests_job(handlers: Handlers, *, max_steps: int, opening: Opening | None) -> Handler[TestsOrder, None]:
    """`opening` opens a transaction of a tenant; who only submits jobs has none."""

    @handlers.job("RUN_RULE_TESTS", timeout=LONGEST)
    async def run(ctx: Context, order: TestsOrder) -> None:
        if opening is None:
            raise RuntimeError("rule tests are run by a worker")
        tenant, version = TenantId(ctx.tenant), RulePackageVersionId(order.rule_package_version_id)
        await ctx.report_progress(0, "running the tests")
        async with opening(tenant) as conn:
            sources = await rules.sources(conn, tenant, version)
        if not _are_whole(sources):
            raise SourcesChanged(version)
        found = await _found(ctx, sources, order.seed, max_steps)
        await ctx.report_progress(100, f"{found.status}: {found.passed:,} of {found.cases:,} cases passed")
        run_id, act = RuleTestsRunId(order.run_id), Act.ordered_by(order.actor_id, fresh.now())
        conn = await ctx.transaction()
        await rule_status.tested(conn, tenant, version, run_id, seed=order.seed, found=found, act=act)

    return run


def found_by(dsl: bytes, tests: bytes, seed: int, max_steps: int) -> Found:
    """What the tests of a package find. Takes as long as it takes; for a child process."""
    report = run_tests(checked_program(dsl, tests), seed=seed, max_steps=max_steps, progress=_told_now_and_then)
    return Found(
        cases=report.cases,
        passed=report.passed,
        failed=report.failed,
        discarded=report.discarded,
        status=report.status,
        coverage=report.coverage.as_json(),
        failure=report.failures[0].as_json() if report.failures else None,
    )


def _told_now_and_then(done: int, total: int) -> None:
    if 100 * done // total > 100 * (done - 1) // total:  # a hundred times at most, however many cases there are
        tell(done, total)


class Cases:
    """How many are done, as far as we have been told."""

    done = total = reported = 0

    def told(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    async def report(self, ctx: Context) -> None:
        if self.done > self.reported:
            self.reported = self.done
            await ctx.report_progress(100 * self.done // self.total, f"{self.done:,} of {self.total:,} cases are done")


async def _found(ctx: Context, sources: Sources, seed: int, max_steps: int) -> Found:
    cases = Cases()
    running = asyncio.ensure_future(_computed(ctx, cases, sources, seed, max_steps))
    try:
        while not (await asyncio.wait([running], timeout=REPORT_EVERY))[0]:
            await cases.report(ctx)
        return running.result()
    finally:
        running.cancel()
        await asyncio.wait([running])  # a child process is gone before its job ends


async def _computed(ctx: Context, cases: Cases, sources: Sources, seed: int, max_steps: int) -> Found:
    asked = sources.dsl, sources.tests, seed, max_steps
    try:
        return await ctx.compute(found_by, *asked, told=cases.told)
    except NoProcesses:
        # Slower for everybody else in this process, and not to be interrupted; but it comes to an end by itself.
        with listening(cases.told):
            return await asyncio.to_thread(found_by, *asked)


def _are_whole(sources: Sources) -> bool:
    return sha256(sources.dsl) == sources.dsl_sha256 and sha256(sources.tests) == sources.tests_sha256
