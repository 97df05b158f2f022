"""Specification of the replay audit: over time every active version is compiled again, and differences are reported."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest
from service_jobs import Jobs, Metrics, Worker, schedules
from service_jobs.job import Ending
from service_jobs.testing import InlineRun, run_inline

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.pipeline.activate import activate
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.telemetry import JobMetrics, ReplayVerdict
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.jobs import SweepOrder, open_job_sessions
from bpc.storage.passports import passport_versions
from bpc.tasks import job_types as nightly
from bpc.tasks.job_types import JobTypes, declare_job_types
from bpc.tasks.replay_audit import AuditOrder, AuditResult
from bpc.worker.monitoring import PipelineMetrics
from bpc.worker.run import ensure_schedules
from tests.pipeline.compile_fixtures import (
    KEY_ID,
    SIGNER,
    CompileInputs,
    PipelineRunner,
    create_sealed_snapshot,
    make_runner,
    publish_rules,
    sign_version,
)
from tests.pipeline.compile_fixtures import create_compile_inputs as made_ready

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class CountingMetrics(JobMetrics):
    """What was counted."""

    def __init__(self) -> None:
        self.verdicts: list[ReplayVerdict] = []

    def record_replay(self, verdict: ReplayVerdict) -> None:
        self.verdicts.append(verdict)


@pytest.fixture
def replay_metrics() -> CountingMetrics:
    return CountingMetrics()


def _declare_job_types(
    database: Database,
    folder: Path,
    metrics: JobMetrics = JobMetrics(),  # noqa: B008 (it has no state)
    **settings: Any,
) -> JobTypes:
    return declare_job_types(
        Settings(env="test", data_dir=folder, signing_key_id=KEY_ID, **settings),
        key_ring=KeyRing({KEY_ID: SIGNER}),
        metrics=metrics,
        database=database,
    )


@pytest.fixture
def job_types(database: Database, tmp_path: Path, replay_metrics: CountingMetrics) -> JobTypes:
    return _declare_job_types(database, tmp_path, replay_metrics)


@pytest.fixture
async def runner(database: Database, act: Act) -> PipelineRunner:
    return await make_runner(database, act)


async def _create_active_passports(
    runner: PipelineRunner, tenant: TenantId, act: Act, count: int = 1
) -> list[PassportVersionId]:
    """Passports that count, each of a product of its own."""
    version_ids = []
    async with runner.database.tenant(tenant) as conn:
        inputs = await made_ready(conn, tenant, act)
    for number in range(count):
        if number:
            inputs = await _activate_another(runner, tenant, act, number)
        version = await sign_version(runner, tenant, inputs, Act(None, clock.now()))
        async with runner.database.tenant(tenant) as conn:
            await activate(conn, tenant, version, act=Act(None, clock.now()))
        version_ids.append(version)
    return version_ids


async def _activate_another(runner: PipelineRunner, tenant: TenantId, act: Act, number: int) -> CompileInputs:
    """The same facts and rules, for another passport: its product is not what the rules read it by."""
    async with runner.database.tenant(tenant) as conn:
        product, passport = clock.new_id(), clock.new_id()
        await conn.execute(
            "INSERT INTO battery_products (tenant_id, battery_product_id, sku, name) VALUES ($1, $2, $3, 'Cell')",
            tenant,
            product,
            f"SKU-{number}x",
        )
        await conn.execute(
            "INSERT INTO passports (tenant_id, passport_id, battery_product_id) VALUES ($1, $2, $3)",
            tenant,
            passport,
            product,
        )
        snapshot = await create_sealed_snapshot(conn, tenant)
        rules = await publish_rules(conn, tenant, act)
    return CompileInputs(passport=passport, snapshot=snapshot, rules=rules)  # type: ignore[arg-type]


async def _run_audit(job_types: JobTypes, tenant: TenantId, sample: int) -> InlineRun[AuditResult]:
    return await run_inline(job_types.task_jobs.replay_audit.tenant, AuditOrder(sample=sample), tenant=tenant)


async def _read_events(database: Database, tenant: TenantId, version: PassportVersionId) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))
    return [stored.event.event_type for stored in chain]


async def test_a_version_that_replays_is_recorded_as_replayed(
    job_types: JobTypes, replay_metrics: CountingMetrics, runner: PipelineRunner, tenant: TenantId, act: Act
) -> None:
    [version] = await _create_active_passports(runner, tenant, act)

    ran = await _run_audit(job_types, tenant, 50)

    assert ran.ending is Ending.SUCCEEDED
    assert ran.output == AuditResult(replayed=1, mismatches=[], errors=0)
    assert (await _read_events(runner.database, tenant, version))[-1] == "PASSPORT_REPLAYED"
    assert replay_metrics.verdicts == ["SAME"]


async def test_a_changed_version_is_a_mismatch_and_the_job_succeeds(
    job_types: JobTypes,
    replay_metrics: CountingMetrics,
    runner: PipelineRunner,
    tenant: TenantId,
    act: Act,
    superuser: Superuser,
) -> None:
    good, bad = await _create_active_passports(runner, tenant, act, 2)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE passport_versions SET proof_canonical = proof_canonical || ' ' WHERE passport_version_id = $1", bad
    )

    ran = await _run_audit(job_types, tenant, 50)

    assert ran.ending is Ending.SUCCEEDED
    assert ran.output == AuditResult(replayed=2, mismatches=[bad], errors=0)
    assert (await _read_events(runner.database, tenant, bad))[-1] == "REPLAY_MISMATCH"
    assert (await _read_events(runner.database, tenant, good))[-1] == "PASSPORT_REPLAYED"
    assert sorted(replay_metrics.verdicts) == ["MISMATCH", "SAME"]


async def test_over_several_nights_every_active_version_is_replayed(
    job_types: JobTypes, runner: PipelineRunner, tenant: TenantId, act: Act
) -> None:
    versions = await _create_active_passports(runner, tenant, act, 3)

    seen = []
    for _ in range(3):
        await _run_audit(job_types, tenant, 1)
        seen.append(await _find_last_replayed(runner.database, tenant))
    await _run_audit(job_types, tenant, 1)

    assert sorted(seen) == sorted(versions)
    assert await _find_last_replayed(runner.database, tenant) == seen[0]


async def _find_last_replayed(database: Database, tenant: TenantId) -> PassportVersionId:
    async with database.tenant(tenant) as conn:
        return PassportVersionId(
            await conn.fetchval(
                "SELECT passport_version_id FROM passport_versions ORDER BY replayed_at DESC NULLS LAST LIMIT 1"
            )
        )


async def test_a_version_that_cannot_be_replayed_does_not_block_others(
    database: Database,
    tmp_path: Path,
    runner: PipelineRunner,
    tenant: TenantId,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("bpc.tasks.replay_audit.replay", broken)
    first, second = await _create_active_passports(runner, tenant, act, 2)
    metrics = Metrics("bpc")
    counting_job_types = _declare_job_types(database, tmp_path, PipelineMetrics(metrics.registry))
    assert metrics.registry.get_sample_value("bpc_replay_errors_total") == 0

    ran = [await _run_audit(counting_job_types, tenant, 1) for _ in range(2)]

    assert [each.output for each in ran] == [AuditResult(replayed=1, mismatches=[], errors=1)] * 2
    async with database.tenant(tenant) as conn:
        turns = [await passport_versions.list_next_to_replay(conn, tenant, limit=2)]
    assert sorted(turns[0]) == sorted((first, second))
    assert await _count_never_replayed(database, tenant) == 0
    assert metrics.registry.get_sample_value("bpc_replay_errors_total") == 2
    assert metrics.registry.get_sample_value("bpc_replay_mismatches_total") == 0


async def _count_never_replayed(database: Database, tenant: TenantId) -> int:
    async with database.tenant(tenant) as conn:
        count_left: int = await conn.fetchval("SELECT count(*) FROM passport_versions WHERE replayed_at IS NULL")
    return count_left


async def test_only_active_versions_are_replayed(
    job_types: JobTypes, runner: PipelineRunner, tenant: TenantId, act: Act
) -> None:
    async with runner.database.tenant(tenant) as conn:
        inputs = await made_ready(conn, tenant, act)
    await sign_version(runner, tenant, inputs, act)

    ran = await _run_audit(job_types, tenant, 50)

    assert ran.output == AuditResult(replayed=0, mismatches=[], errors=0)


async def test_a_sweep_audits_every_tenant_and_metrics_count_it(
    database: Database, tmp_path: Path, runner: PipelineRunner, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    await _create_active_passports(runner, tenant, act)
    metrics = Metrics("bpc")
    counting_job_types = declare_job_types(
        Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID, replay_audit_sample=7),
        key_ring=KeyRing({KEY_ID: SIGNER}),
        metrics=PipelineMetrics(metrics.registry),
        database=database,
    )

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(counting_job_types.handlers, sessions, metrics=metrics)
        await jobs.submit(counting_job_types.task_jobs.replay_audit.sweep, SweepOrder(), tenant=SYSTEM_TENANT)
        async with asyncio.timeout(60):
            await Worker(jobs).run_until_idle()
        results = {each: await _list_results(jobs, each) for each in (tenant, other_tenant)}
        await jobs.close()

    assert results == {tenant: [("SUCCEEDED", 1)], other_tenant: [("SUCCEEDED", 0)]}
    assert metrics.registry.get_sample_value("bpc_replays_total") == 1
    assert metrics.registry.get_sample_value("bpc_replay_mismatches_total") == 0


async def _list_results(jobs: Jobs, tenant: TenantId) -> Sequence[tuple[str, int]]:
    async with jobs.sessions.tenant(tenant) as conn:
        rows = await conn.fetch("SELECT status, result->>'replayed' AS n FROM jobs.job WHERE type = 'REPLAY_AUDIT'")
    return [(row["status"], int(row["n"])) for row in rows]


async def test_a_sample_of_zero_switches_the_audit_off(database: Database, tmp_path: Path) -> None:
    unsampled_job_types = _declare_job_types(database, tmp_path, replay_audit_sample=0)

    ran = await run_inline(unsampled_job_types.task_jobs.replay_audit.sweep, SweepOrder(), tenant=SYSTEM_TENANT)

    assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])


async def test_every_worker_creates_the_schedules_and_leaves_a_paused_one_paused(database: Database) -> None:
    await ensure_schedules(database, *nightly.list_nightly_schedules())
    async with database.system(SYSTEM_TENANT) as conn:
        await schedules.pause_schedule(conn, SYSTEM_TENANT, "replay-audit")
    await ensure_schedules(database, *nightly.list_nightly_schedules())

    async with database.system(SYSTEM_TENANT) as conn:
        paused_by_name = {
            each.schedule.name: each.paused for each in await schedules.list_schedules(conn, SYSTEM_TENANT)
        }
        everybody = await tenants_and_actors.list_tenants(conn)

    assert paused_by_name["replay-audit"]
    assert paused_by_name.keys() == {schedule.name for schedule in nightly.list_nightly_schedules()}
    assert everybody
