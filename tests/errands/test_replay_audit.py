"""The replay audit: over time every passport that counts is compiled again, and what differs is told, not hidden."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.assembly import Assembly, assembled
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.db import events, passport_versions, tenants
from bpc.db.database import Database
from bpc.db.jobs import sessions_of
from bpc.db.tenants import SYSTEM_TENANT
from bpc.errands import nightly
from bpc.errands.replay_audit import Audited, AuditOrder, Replays, SweepOrder, Verdict
from bpc.jobs import Jobs, Metrics, Worker, schedules
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from bpc.pipeline.activate import activate
from bpc.settings import Settings
from bpc.worker.metrics import StepMetrics
from bpc.worker.run import planned
from tests.pipeline.ready import KEY_ID, SIGNER, Bench, Ready, bench, published_rules, sealed_snapshot, signed
from tests.pipeline.ready import ready as made_ready

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Counted:
    """What was counted."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    def replayed(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def _assembled(database: Database, folder: Path, counted: Replays | None = None, **settings: Any) -> Assembly:
    return assembled(
        Settings(env="test", data_dir=folder, signing_key_id=KEY_ID, **settings),
        signer=lambda key_id: SIGNER if key_id == KEY_ID else None,
        replays=counted,
        database=database,
    )


@pytest.fixture
def ours(database: Database, tmp_path: Path, counted: Counted) -> Assembly:
    return _assembled(database, tmp_path, counted)


@pytest.fixture
async def steps(database: Database, act: Act) -> Bench:
    return await bench(database, act)


async def _active(steps: Bench, tenant: TenantId, act: Act, count: int = 1) -> list[PassportVersionId]:
    """Passports that count, each of a product of its own."""
    made = []
    async with steps.database.tenant(tenant) as conn:
        given = await made_ready(conn, tenant, act)
    for number in range(count):
        if number:
            given = await _another(steps, tenant, act, number)
        version = await signed(steps, tenant, given, Act(None, fresh.now()))
        async with steps.database.tenant(tenant) as conn:
            await activate(conn, tenant, version, act=Act(None, fresh.now()))
        made.append(version)
    return made


async def _another(steps: Bench, tenant: TenantId, act: Act, number: int) -> Ready:
    """The same facts and rules, for another passport: its product is not what the rules read it by."""
    async with steps.database.tenant(tenant) as conn:
        product, passport = fresh.new_id(), fresh.new_id()
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
        snapshot = await sealed_snapshot(conn, tenant)
        rules = await published_rules(conn, tenant, act)
    return Ready(passport=passport, snapshot=snapshot, rules=rules)  # type: ignore[arg-type]


async def _audit(ours: Assembly, tenant: TenantId, sample: int) -> Ran[Audited]:
    return await run_inline(ours.errands.replay_audit.tenant, AuditOrder(sample=sample), tenant=tenant)


async def _told(database: Database, tenant: TenantId, version: PassportVersionId) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, "PassportVersion", AggregateId(version)))
    return [stored.event.event_type for stored in chain]


async def test_what_holds_is_on_record_as_replayed(
    ours: Assembly, counted: Counted, steps: Bench, tenant: TenantId, act: Act
) -> None:
    [version] = await _active(steps, tenant, act)

    ran = await _audit(ours, tenant, 50)

    assert ran.ending is Ending.SUCCEEDED
    assert ran.output == Audited(replayed=1, mismatches=[], errors=0)
    assert (await _told(steps.database, tenant, version))[-1] == "PASSPORT_REPLAYED"
    assert counted.verdicts == ["SAME"]


async def test_what_was_changed_behind_our_back_is_a_finding_and_no_failure(
    ours: Assembly, counted: Counted, steps: Bench, tenant: TenantId, act: Act, superuser: Superuser
) -> None:
    good, bad = await _active(steps, tenant, act, 2)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE passport_versions SET proof_canonical = proof_canonical || ' ' WHERE passport_version_id = $1", bad
    )

    ran = await _audit(ours, tenant, 50)

    assert ran.ending is Ending.SUCCEEDED
    assert ran.output == Audited(replayed=2, mismatches=[bad], errors=0)
    assert (await _told(steps.database, tenant, bad))[-1] == "REPLAY_MISMATCH"
    assert (await _told(steps.database, tenant, good))[-1] == "PASSPORT_REPLAYED"
    assert sorted(counted.verdicts) == ["MISMATCH", "SAME"]


async def test_over_the_nights_everything_that_counts_has_its_turn(
    ours: Assembly, steps: Bench, tenant: TenantId, act: Act
) -> None:
    versions = await _active(steps, tenant, act, 3)

    seen = []
    for _ in range(3):
        await _audit(ours, tenant, 1)
        seen.append(await _last_replayed(steps.database, tenant))
    await _audit(ours, tenant, 1)

    assert sorted(seen) == sorted(versions)
    assert await _last_replayed(steps.database, tenant) == seen[0]


async def _last_replayed(database: Database, tenant: TenantId) -> PassportVersionId:
    async with database.tenant(tenant) as conn:
        return PassportVersionId(
            await conn.fetchval(
                "SELECT passport_version_id FROM passport_versions ORDER BY replayed_at DESC NULLS LAST LIMIT 1"
            )
        )


async def test_what_cannot_be_replayed_keeps_nobody_else_waiting(
    database: Database, tmp_path: Path, steps: Bench, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("bpc.assembly.replayed", broken)
    first, second = await _active(steps, tenant, act, 2)
    metrics = Metrics()
    ours = _assembled(database, tmp_path, StepMetrics(metrics.registry))
    assert metrics.registry.get_sample_value("bpc_replay_errors_total") == 0

    ran = [await _audit(ours, tenant, 1) for _ in range(2)]

    assert [each.output for each in ran] == [Audited(replayed=1, mismatches=[], errors=1)] * 2
    async with database.tenant(tenant) as conn:
        turns = [await passport_versions.to_replay(conn, tenant, most=2)]
    assert sorted(turns[0]) == sorted((first, second))
    assert await _never_replayed(database, tenant) == 0
    assert metrics.registry.get_sample_value("bpc_replay_errors_total") == 2
    assert metrics.registry.get_sample_value("bpc_replay_mismatches_total") == 0


async def _never_replayed(database: Database, tenant: TenantId) -> int:
    async with database.tenant(tenant) as conn:
        found: int = await conn.fetchval("SELECT count(*) FROM passport_versions WHERE replayed_at IS NULL")
    return found


async def test_only_what_counts_is_looked_at(ours: Assembly, steps: Bench, tenant: TenantId, act: Act) -> None:
    async with steps.database.tenant(tenant) as conn:
        given = await made_ready(conn, tenant, act)
    await signed(steps, tenant, given, act)

    ran = await _audit(ours, tenant, 50)

    assert ran.output == Audited(replayed=0, mismatches=[], errors=0)


async def test_a_sweep_has_every_tenant_audited_and_metrics_count(
    database: Database, tmp_path: Path, steps: Bench, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    await _active(steps, tenant, act)
    metrics = Metrics()
    ours = assembled(
        Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID, replay_audit_sample=7),
        signer=lambda _: SIGNER,
        replays=StepMetrics(metrics.registry),
        database=database,
    )

    async with sessions_of(database) as sessions:
        jobs = Jobs(ours.handlers, sessions, metrics=metrics)
        await jobs.submit(ours.errands.replay_audit.sweep, SweepOrder(), tenant=SYSTEM_TENANT)
        async with asyncio.timeout(60):
            await Worker(jobs).run_until_idle()
        results = {each: await _results(jobs, each) for each in (tenant, other_tenant)}
        await jobs.close()

    assert results == {tenant: [("SUCCEEDED", 1)], other_tenant: [("SUCCEEDED", 0)]}
    assert metrics.registry.get_sample_value("bpc_replays_total") == 1
    assert metrics.registry.get_sample_value("bpc_replay_mismatches_total") == 0


async def _results(jobs: Jobs, tenant: TenantId) -> Sequence[tuple[str, int]]:
    async with jobs.sessions.tenant(tenant) as conn:
        rows = await conn.fetch("SELECT status, result->>'replayed' AS n FROM jobs.job WHERE type = 'REPLAY_AUDIT'")
    return [(row["status"], int(row["n"])) for row in rows]


async def test_a_sample_of_none_switches_it_off(database: Database, tmp_path: Path) -> None:
    ours = _assembled(database, tmp_path, replay_audit_sample=0)

    ran = await run_inline(ours.errands.replay_audit.sweep, SweepOrder(), tenant=SYSTEM_TENANT)

    assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])


async def test_every_worker_sees_to_the_schedules_and_leaves_a_paused_one_alone(database: Database) -> None:
    await planned(database, *nightly.schedules())
    async with database.system(SYSTEM_TENANT) as conn:
        await schedules.pause(conn, SYSTEM_TENANT, "replay-audit")
    await planned(database, *nightly.schedules())

    async with database.system(SYSTEM_TENANT) as conn:
        found = {each.schedule.name: each.paused for each in await schedules.every(conn, SYSTEM_TENANT)}
        everybody = await tenants.every(conn)

    assert found["replay-audit"]
    assert found.keys() == {schedule.name for schedule in nightly.schedules()}
    assert everybody
