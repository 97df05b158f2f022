"""Specification of compile requests: what can be compiled, and what a request waits for."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest
from service_jobs import Jobs

from bpc.core.audit.events import Act
from bpc.core.errors import NotFound, UnknownResource
from bpc.core.formats.ids import RulePackageVersionId, SnapshotId, TenantId
from bpc.pipeline.compile import RulesNotPublished
from bpc.runtime import clock
from bpc.storage.error_mapping import SnapshotNotReady
from bpc.storage.evidence import snapshots
from bpc.storage.rules import lifecycle, packages
from tests.pipeline.compile_fixtures import (
    CompileInputs,
    PipelineRunner,
    publish_rules,
    request_version,
    wait_for_lock,
)
from tests.storage.evidence_rows import insert_snapshot


@pytest.mark.parametrize("status", ["BUILDING", "READY"])
async def test_only_a_sealed_snapshot_can_be_compiled(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act, status: str
) -> None:
    async with runner.database.tenant(tenant) as conn:
        snapshot = await insert_snapshot(conn, tenant, status=status)

    with pytest.raises(SnapshotNotReady, match=status):
        await request_version(runner, jobs, tenant, replace(inputs, snapshot=snapshot), act)


@pytest.mark.parametrize("status", ["DRAFT", "VALIDATED", "DEPRECATED", "RETIRED"])
async def test_only_published_rules_compile(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act, status: str
) -> None:
    async with runner.database.tenant(tenant) as conn:
        other = await publish_rules(conn, tenant, act, status=status)

    with pytest.raises(RulesNotPublished, match=status):
        await request_version(runner, jobs, tenant, replace(inputs, rules=other), act)


async def test_a_request_waits_for_a_deprecation_in_progress(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    async with runner.database.tenant(tenant) as conn:
        await lifecycle.deprecate_version(conn, tenant, inputs.rules, act=act)
        asking = asyncio.create_task(request_version(runner, jobs, tenant, inputs, act))
        await wait_for_lock(runner.database)

    with pytest.raises(RulesNotPublished, match="DEPRECATED"):
        await asking


async def test_a_deprecation_waits_for_compile_requests_and_these_do_not_wait_for_each_other(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    async def deprecate() -> None:
        async with runner.database.tenant(tenant) as conn:
            await lifecycle.deprecate_version(conn, tenant, inputs.rules, act=act)

    async with runner.database.tenant(tenant) as conn:
        await packages.lock_version_shared(conn, tenant, inputs.rules)
        await snapshots.lock_snapshot_shared(conn, tenant, inputs.snapshot)
        await request_version(runner, jobs, tenant, inputs, act)
        deprecating = asyncio.create_task(deprecate())
        await wait_for_lock(runner.database)
        assert not deprecating.done()
    await deprecating


async def test_an_unknown_id_is_named_in_the_error(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, other_tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    unknown = clock.new_id()

    for wrong in (
        replace(inputs, snapshot=SnapshotId(unknown)),
        replace(inputs, rules=RulePackageVersionId(unknown)),
    ):
        with pytest.raises(NotFound, match=str(unknown)):
            await request_version(runner, jobs, tenant, wrong, act)
    with pytest.raises(UnknownResource, match=str(inputs.passport)):
        await request_version(runner, jobs, other_tenant, inputs, act)


async def test_rules_of_a_later_language_level_need_a_newer_build(
    runner: PipelineRunner,
    jobs: Jobs,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET compiler_min_build = '3'")

    with pytest.raises(Exception, match="language level 3"):
        await request_version(runner, jobs, tenant, inputs, act)
