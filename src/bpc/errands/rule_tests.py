"""Rule tests: a version and a seed in, a run out; a DRAFT whose tests passed is VALIDATED.

The same version and the same seed give the same run. Tests that fail are a run that FAILED, not a job that did.
"""

import asyncio
from typing import ClassVar, Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.digest import sha256
from bpc.core.errors import Conflict
from bpc.core.events import Act
from bpc.core.ids import ActorId, RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.rules.package import checked_program
from bpc.core.rules.testing.run import run_tests
from bpc.db import rule_status, rules
from bpc.db.rule_runs import Found
from bpc.db.rules import Sources
from bpc.jobs import Context, Handler, Handlers, NoProcesses

LONGEST: Final = 600.0  # seconds


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


def tests_job(handlers: Handlers, *, max_steps: int) -> Handler[TestsOrder, None]:
    @handlers.job("RUN_RULE_TESTS", timeout=LONGEST)
    async def run(ctx: Context, order: TestsOrder) -> None:
        tenant, version = TenantId(ctx.tenant), RulePackageVersionId(order.rule_package_version_id)
        await ctx.report_progress(0, "running the tests")
        conn = await ctx.transaction()
        sources = await rules.sources(conn, tenant, version)
        if not _are_whole(sources):
            raise SourcesChanged(version)
        found = await _found(ctx, sources, order.seed, max_steps)
        await ctx.report_progress(100, f"{found.status}: {found.passed:,} of {found.cases:,} cases passed")
        run_id, actor = RuleTestsRunId(order.run_id), None if order.actor_id is None else ActorId(order.actor_id)
        act = Act(actor, fresh.now())
        await rule_status.tested(conn, tenant, version, run_id, seed=order.seed, found=found, act=act)

    return run


def found_by(dsl: bytes, tests: bytes, seed: int, max_steps: int) -> Found:
    """What the tests of a package find. Takes as long as it takes; for a child process."""
    report = run_tests(checked_program(dsl, tests), seed=seed, max_steps=max_steps)
    return Found(
        cases=report.cases,
        passed=report.passed,
        failed=report.failed,
        discarded=report.discarded,
        status=report.status,
        coverage=report.coverage.as_json(),
        failure=report.failures[0].as_json() if report.failures else None,
    )


async def _found(ctx: Context, sources: Sources, seed: int, max_steps: int) -> Found:
    asked = sources.dsl, sources.tests, seed, max_steps
    try:
        return await ctx.compute(found_by, *asked)
    except NoProcesses:
        # Slower for everybody else in this process, and not to be interrupted; but it comes to an end by itself.
        return await asyncio.to_thread(found_by, *asked)


def _are_whole(sources: Sources) -> bool:
    return sha256(sources.dsl) == sources.dsl_sha256 and sha256(sources.tests) == sources.tests_sha256
