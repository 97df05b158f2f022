"""Specification of compile: the order decides the bytes, and a failure is recorded once."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import asyncpg
import pytest
from service_jobs import HIGH, Jobs, ProcessPool
from service_jobs.job import Ending
from tests.jobs.support.job_stages import start_job
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.api.http.child_compute import ChildComputePool
from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import UnknownResource
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.passport.compile import ArtifactLimits, CompiledPassport
from bpc.core.passport.receipt import read_receipt
from bpc.pipeline import compile as compiling
from bpc.pipeline import replay as replaying
from bpc.pipeline import rule_cache
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.replay import replay
from bpc.runtime.settings import Settings
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import passport_versions
from bpc.tasks.job_types import make_artifact_limits
from tests.pipeline import compile_fixtures as steps
from tests.pipeline.compile_fixtures import (
    BATTERY,
    CompileInputs,
    PipelineRunner,
    list_event_types,
    make_runner,
    publish_rules,
    request_version,
    run_compile,
    run_sign,
)


async def make_order(runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act) -> CompileOrder:
    async with runner.database.tenant(tenant) as conn:
        return await steps.make_compile_order(conn, tenant, inputs, act)


async def test_a_version_has_the_values_of_its_order_and_its_job_submits_the_signing(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)

    ran = await run_compile(runner, tenant, ordered)

    assert ran.ending is Ending.SUCCEEDED
    assert [(wish.handler.type, wish.key, wish.priority) for wish in ran.follow_ups] == [
        ("SIGN_PASSPORT", f"sign:{ordered.passport_version_id}", HIGH)
    ]
    version = PassportVersionId(ordered.passport_version_id)
    async with runner.database.tenant(tenant) as conn:
        row = await passport_versions.get_version(conn, tenant, version)
        stored = await passport_versions.load_bytes(conn, tenant, version)
    receipt = read_receipt(stored.receipt)
    assert (row.status, row.created_at, row.signing_key_id) == ("COMPILING", act.at, None)
    assert (receipt.issued_at, receipt.passport_version_id, receipt.signature) == (act.at, version, None)
    assert (to_hex(receipt.snapshot_hash), to_hex(receipt.dsl_sha256)) == (ordered.snapshot_hash, ordered.dsl_sha256)
    assert row.payload_hash == sha256(stored.payload)
    assert await list_event_types(runner.database, tenant, "PassportVersion", version) == ["PASSPORT_COMPILED"]
    async with runner.database.tenant(tenant) as conn:
        payload = json.loads(await conn.fetchval("SELECT payload FROM events WHERE event_type = 'PASSPORT_COMPILED'"))
    assert payload["snapshot_id"] == str(ordered.snapshot_id)
    assert payload["rule_package_version_id"] == str(ordered.rule_package_version_id)
    assert payload["compiler_build_id"] == ordered.compiler_build_id


async def test_a_compile_that_runs_twice_stores_one_version(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)
    await run_compile(runner, tenant, ordered)

    again = await run_compile(runner, tenant, ordered)

    assert again.ending is Ending.SUCCEEDED
    assert await list_event_types(runner.database, tenant, "PassportVersion", ordered.passport_version_id) == [
        "PASSPORT_COMPILED"
    ]


async def test_another_result_under_the_same_version_id_is_a_conflict(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)
    await run_compile(runner, tenant, ordered)

    other = await run_compile(runner, tenant, replace(ordered, compiler_build_id="bpc-other"))

    assert (other.ending, other.error and other.error.code) == (Ending.FAILED, "CONFLICT")
    assert other.follow_ups == []


async def run_until_done(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, ordered: CompileOrder, *ends: str
) -> None:
    """Have a worker compile, until the job is over. It is started once."""
    job = await jobs.submit(runner.pipeline_jobs.compile, ordered, tenant=tenant, attempts=1)
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job, *ends)


async def read_failures(database: Database, tenant: TenantId, inputs: CompileInputs) -> list[tuple[str, str]]:
    """Code and message of every failed compile on the passport's record."""
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "Passport", AggregateId(inputs.passport)))
    failed_events = [stored.event for stored in chain if stored.event.event_type == "COMPILE_FAILED"]
    payloads = [json.loads(event.payload_canonical) for event in failed_events]
    return [(payload["code"], payload["message"]) for payload in payloads]


async def test_a_failed_rule_leaves_no_version_and_one_event_with_its_code(
    database: Database, runner: PipelineRunner, jobs: Jobs, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        battery_only = await steps.create_compile_inputs(conn, tenant, act, facts=[BATTERY])
    ordered = await make_order(runner, tenant, battery_only, act)

    await run_until_done(runner, jobs, tenant, ordered, "FAILED")

    [(code, message)] = await read_failures(database, tenant, battery_only)
    assert code == "RULE_ASSERTION_FAILED"
    assert "pcf missing" in message
    async with database.tenant(tenant) as conn:
        with pytest.raises(UnknownResource):
            await passport_versions.get_version(conn, tenant, PassportVersionId(ordered.passport_version_id))


async def test_a_compile_with_another_result_is_recorded(
    database: Database, runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)
    await run_compile(runner, tenant, ordered)

    await run_until_done(runner, jobs, tenant, replace(ordered, compiler_build_id="bpc-other"), "FAILED")

    [(code, message)] = await read_failures(database, tenant, inputs)
    assert code == "CONFLICT"
    assert "with other hashes" in message


async def test_a_compile_that_failed_in_all_attempts_is_recorded(
    database: Database,
    runner: PipelineRunner,
    jobs: Jobs,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(compiling, "compile_and_check", broken)

    await run_until_done(runner, jobs, tenant, await make_order(runner, tenant, inputs, act), "DEAD_LETTER")

    assert await read_failures(database, tenant, inputs) == [("INTERNAL_ERROR", "OSError: the disk is full")]


async def test_a_compile_whose_worker_died_in_its_last_attempt_is_recorded(
    database: Database, runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)
    job = await jobs.submit(runner.pipeline_jobs.compile, ordered, tenant=tenant, attempts=1)
    await start_job(jobs.sessions, tenant, job, owner="dead", seconds=0)

    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job, "DEAD_LETTER", seconds=60)

    [(code, _)] = await read_failures(database, tenant, inputs)
    assert code == "JOB_LEASE_LOST"


async def test_a_passport_above_a_size_limit_is_refused_with_the_code_of_the_limit(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    small = await make_runner(database, act, limits=ArtifactLimits(payload=100))
    ordered = await make_order(small, tenant, inputs, act)

    ran = await run_compile(small, tenant, ordered)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "PAYLOAD_TOO_LARGE")


async def test_a_compile_above_the_step_limit_fails_and_is_recorded(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act, tmp_path: Path
) -> None:
    settings = Settings(env="test", data_dir=tmp_path, rules_max_steps=10)
    few = await make_runner(database, act, limits=make_artifact_limits(settings))
    ordered = await make_order(few, tenant, inputs, act)

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(few.handlers, sessions)
        await run_until_done(few, jobs, tenant, ordered, "FAILED")
        await jobs.close()

    [(code, message)] = await read_failures(database, tenant, inputs)
    assert code == "RULE_LIMIT_EXCEEDED"
    assert "more than 10 steps, the limit that is set for this installation" in message
    async with database.tenant(tenant) as conn:
        with pytest.raises(UnknownResource):
            await passport_versions.get_version(conn, tenant, PassportVersionId(ordered.passport_version_id))


async def test_large_rules_are_compiled_and_replayed_in_a_child_process(
    database: Database,
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = steps.RULES + b"-- much is said of these rules\n" * 3000
    for step in (compiling, replaying):
        monkeypatch.setattr(step, "load_machine", lambda _: pytest.fail("it is not made ready here"))
    async with database.tenant(tenant) as conn:
        inputs = replace(inputs, rules=await publish_rules(conn, tenant, act, large))
    ordered = await make_order(runner, tenant, inputs, act)
    version = PassportVersionId(ordered.passport_version_id)
    processes = ProcessPool(1)

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(runner.handlers, sessions, processes=processes)
        await run_until_done(runner, jobs, tenant, ordered, "SUCCEEDED")
        await run_sign(runner, tenant, version)
        async with database.tenant(tenant) as conn:
            result = await replay(conn, tenant, version, act=act, pool=ChildComputePool(processes))
        await jobs.close()
    await processes.close()

    assert result.refusal is None


async def test_large_rules_that_fail_in_a_child_process_give_the_same_error(
    database: Database, runner: PipelineRunner, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        battery_only = await steps.create_compile_inputs(conn, tenant, act, facts=[BATTERY])
        large = await publish_rules(conn, tenant, act, steps.RULES + b"-- much is said of these rules\n" * 3000)
    ordered = await make_order(runner, tenant, replace(battery_only, rules=large), act)
    processes = ProcessPool(1)

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(runner.handlers, sessions, processes=processes)
        await run_until_done(runner, jobs, tenant, ordered, "FAILED")
        await jobs.close()
    await processes.close()

    [(code, message)] = await read_failures(database, tenant, battery_only)
    assert code == "RULE_ASSERTION_FAILED"
    assert "pcf missing" in message


async def test_renaming_a_product_after_the_request_does_not_change_the_version(
    runner: PipelineRunner, jobs: Jobs, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    requested = await request_version(runner, jobs, tenant, inputs, act)
    async with runner.database.tenant(tenant) as conn:
        await conn.execute("UPDATE battery_products SET name = 'Another' WHERE tenant_id = $1", tenant)

    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, requested.job_id, "SUCCEEDED")

    async with runner.database.tenant(tenant) as conn:
        stored = await passport_versions.load_bytes(conn, tenant, requested.passport_version_id)
    assert (await jobs.get_job(tenant, requested.job_id)).priority == HIGH
    assert b'"Cell"' in stored.payload
    assert b"Another" not in stored.payload


class CountingMetrics(JobMetrics):
    """The compiles that were measured: whether there was a duration, and the payload."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, bytes | None]] = []

    def record_compile(self, seconds: float, output: CompiledPassport | None) -> None:
        self.seen.append((seconds > 0, None if output is None else output.payload))


async def test_every_compile_is_measured(database: Database, tenant: TenantId, inputs: CompileInputs, act: Act) -> None:
    counts = CountingMetrics()
    measured_runner = await make_runner(database, act, metrics=counts)
    ordered = await make_order(measured_runner, tenant, inputs, act)

    await run_compile(measured_runner, tenant, ordered)
    await run_compile(measured_runner, tenant, replace(ordered, dsl_sha256=ANOTHER))

    async with database.tenant(tenant) as conn:
        stored = await passport_versions.load_bytes(conn, tenant, PassportVersionId(ordered.passport_version_id))
    assert counts.seen == [(True, stored.payload), (True, None)]


ANOTHER: Final = to_hex(sha256(b"another"))


@pytest.mark.parametrize(
    "changed",
    [
        lambda order: replace(order, snapshot_hash=ANOTHER),
        lambda order: replace(order, dsl_sha256=ANOTHER),
        lambda order: replace(order, tests_sha256=ANOTHER),
    ],
    ids=["snapshot", "rules", "tests"],
)
async def test_inputs_that_differ_from_the_order_are_not_compiled(
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    changed: Callable[[CompileOrder], CompileOrder],
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)

    ran = await run_compile(runner, tenant, changed(ordered))

    assert ran.error is not None
    assert ran.error.code == "CONFLICT"
    assert await list_event_types(runner.database, tenant, "PassportVersion", ordered.passport_version_id) == []


async def test_a_fact_that_was_changed_in_the_database_fails_the_compile(
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    ordered = await make_order(runner, tenant, inputs, act)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE facts SET payload_canonical = $1 WHERE fact_type = 'Battery'", b'{"capacity_kwh":"99","sku":"SKU-1"}'
    )

    ran = await run_compile(runner, tenant, ordered)

    assert ran.error is not None
    assert ran.error.code == "CONFLICT"
    assert "facts" in ran.error.message


async def test_rules_that_were_changed_in_the_database_are_not_compiled_even_if_cached(
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    first, second = await make_order(runner, tenant, inputs, act), await make_order(runner, tenant, inputs, act)
    await run_compile(runner, tenant, first)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET dsl_source = dsl_source || '-- x'::bytea")

    ran = await run_compile(runner, tenant, second)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")
    assert ran.error is not None
    assert "stored rules have changed" in ran.error.message


async def test_a_compile_that_was_quick_before_runs_on_the_event_loop_and_others_in_a_thread(
    runner: PipelineRunner, tenant: TenantId, inputs: CompileInputs, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[bool]()
    compile_it = compiling.compile_and_check

    def noted(*arguments: object) -> object:
        threads.append(threading.current_thread() is not threading.main_thread())
        return compile_it(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "compile_and_check", noted)
    monkeypatch.setattr(rule_cache, "QUICK_SECONDS", 60.0)
    for _ in range(2):
        await run_compile(runner, tenant, await make_order(runner, tenant, inputs, act))
    monkeypatch.setattr(rule_cache, "QUICK_SECONDS", 0.0)
    for _ in range(2):
        await run_compile(runner, tenant, await make_order(runner, tenant, inputs, act))

    assert threads == [True, False, False, True]
