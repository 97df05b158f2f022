"""Specification of snapshots: late jobs, concurrent changes, and speed."""

import asyncio
import json
import time

import pytest
from service_jobs import Handlers, Jobs, RequestQueue
from service_jobs.testing import InlineRun, run_inline
from tests.jobs.support.job_stages import end_job
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import Conflict
from bpc.core.formats.ids import AggregateId, FactId, JobId, SnapshotId, TenantId
from bpc.pipeline import snapshot as step
from bpc.pipeline.facts import parse
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import Database
from bpc.storage.error_mapping import SnapshotAlreadySealed, SnapshotNotReady
from bpc.storage.evidence import facts, snapshots
from bpc.storage.evidence.facts import FactFilter
from bpc.storage.jobs import open_job_sessions
from tests.measurements import allow_seconds
from tests.pipeline.compile_fixtures import wait_for_lock
from tests.pipeline.document_fixtures import InProcessReader, create_unread_version


async def _create_facts(conn: Connection, tenant: TenantId, act: Act, *skus: str) -> list[FactId]:
    content = json.dumps([{"sku": sku} for sku in skus]).encode()
    version = await create_unread_version(conn, tenant, content, kind="PCF")
    await parse(conn, tenant, version, reader_pool=InProcessReader(), act=act)
    fact_rows = await facts.list_facts(
        conn, tenant, FactFilter(document_version_id=version), PageQuery.after_cursor(None, 10_000)
    )
    return [fact.fact_id for fact in fact_rows]


async def _create_snapshot(conn: Connection, tenant: TenantId, act: Act, fact_ids: list[FactId]) -> SnapshotId:
    snapshot_row = await snapshots.create_snapshot(conn, tenant, label=None, act=act)
    if fact_ids:
        await step.add_items(conn, tenant, snapshot_row.snapshot_id, fact_ids, act=act)
    return snapshot_row.snapshot_id


async def _run_build(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> InlineRun[step.BuildOutcome]:
    order = step.BuildOrder(snapshot_id=snapshot, actor_id=None)
    return await run_inline(step.declare_build_job(Handlers()), order, tenant=tenant, conn=conn)


async def test_a_late_build_job_changes_nothing(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = await _create_snapshot(conn, tenant, act, await _create_facts(conn, tenant, act, "A"))
        await _run_build(conn, tenant, snapshot)

        assert (await _run_build(conn, tenant, snapshot)).output.status == "READY"
        sealed = await step.seal(conn, tenant, snapshot, act=act)
        assert (await _run_build(conn, tenant, snapshot)).output.status == "SEALED"

        snapshot_row = await snapshots.get_snapshot(conn, tenant, snapshot)
        assert (snapshot_row.status, snapshot_row.snapshot_hash, snapshot_row.count) == (
            "SEALED",
            sealed.snapshot_hash,
            1,
        )
        chain = await events.read_chain(conn, EventStream(tenant, "DataSnapshot", AggregateId(snapshot)))
        assert [stored.event.event_type for stored in chain][-2:] == ["SNAPSHOT_READY", "SNAPSHOT_SEALED"]


async def test_a_snapshot_that_was_emptied_becomes_ready_too(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        [fact] = await _create_facts(conn, tenant, act, "A")
        snapshot = await _create_snapshot(conn, tenant, act, [fact])
        await _run_build(conn, tenant, snapshot)
        await step.remove_item(conn, tenant, snapshot, fact, act=act)

        ran = await _run_build(conn, tenant, snapshot)

        assert ran.error is None
        assert (await snapshots.get_snapshot(conn, tenant, snapshot)).status == "READY"


@pytest.mark.parametrize("end", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_requesting_a_failed_build_again_retries_its_job(
    database: Database, tenant: TenantId, act: Act, end: str
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = await _create_snapshot(conn, tenant, act, await _create_facts(conn, tenant, act, "A"))
    handlers = Handlers()
    build = step.declare_build_job(handlers)

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(handlers, sessions)

        async def asked() -> JobId:
            async with database.tenant(tenant) as conn:
                return await step.request_build(
                    conn, RequestQueue(jobs=jobs, conn=conn, tenant=tenant), build, tenant, snapshot, act=act
                )

        first = await asked()
        same = await asked()
        if end == "CANCELLED":
            await jobs.cancel(tenant, first)
        else:
            await end_job(sessions, tenant, first, end)
        again = await asked()
        async with run_worker(jobs):
            await wait_until_status(jobs, tenant, again, "SUCCEEDED")
        await jobs.close()

    assert first == same == again
    async with database.tenant(tenant) as conn:
        assert (await snapshots.get_snapshot(conn, tenant, snapshot)).status == "READY"
        chain = await events.read_chain(conn, EventStream(tenant, "Job", AggregateId(first)))
    assert [stored.event.event_type for stored in chain] == ["JOB_RETRIED"]


async def test_a_snapshot_has_a_maximum_number_of_facts(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "MAX_FACTS", 2)
    async with database.tenant(tenant) as conn:
        fact_ids = await _create_facts(conn, tenant, act, "A", "B", "C")
        snapshot = await _create_snapshot(conn, tenant, act, fact_ids[:2])

        with pytest.raises(Conflict, match="at most 2 facts"):
            await step.add_items(conn, tenant, snapshot, fact_ids, act=act)


async def test_a_second_change_waits_and_sees_the_first(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        one, other = await _create_facts(conn, tenant, act, "A", "B")
        snapshot = await _create_snapshot(conn, tenant, act, [one])
        await _run_build(conn, tenant, snapshot)

    waits = asyncio.Event()

    async def late_adding() -> None:
        async with database.tenant(tenant) as own:
            waits.set()
            await step.add_items(own, tenant, snapshot, [other], act=Act(None, clock.now()))

    async with database.tenant(tenant) as conn:
        await step.seal(conn, tenant, snapshot, act=act)
        adding = asyncio.create_task(late_adding())
        await waits.wait()
        await wait_for_lock(database)
    with pytest.raises(SnapshotAlreadySealed):
        await adding

    async with database.tenant(tenant) as conn:
        assert (await snapshots.get_snapshot(conn, tenant, snapshot)).count == 1


async def test_sealing_fails_if_a_change_came_first(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        one, other = await _create_facts(conn, tenant, act, "A", "B")
        snapshot = await _create_snapshot(conn, tenant, act, [one])
        await _run_build(conn, tenant, snapshot)

    async def late_sealing() -> None:
        async with database.tenant(tenant) as own:
            await step.seal(own, tenant, snapshot, act=Act(None, clock.now()))

    async with database.tenant(tenant) as conn:
        await step.add_items(conn, tenant, snapshot, [other], act=act)
        sealing = asyncio.create_task(late_sealing())
        await wait_for_lock(database)
    with pytest.raises(SnapshotNotReady):
        await sealing


async def test_a_thousand_facts_are_added_at_once(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        fact_ids = await _create_facts(conn, tenant, act, *(f"SKU-{number}" for number in range(1000)))
        snapshot = await _create_snapshot(conn, tenant, act, fact_ids)
        await _run_build(conn, tenant, snapshot)

        started = time.perf_counter()
        fact_rows = await snapshots.load_facts(conn, tenant, snapshot)

        assert len(fact_rows) == 1001
        assert {fact.fact_type for fact in fact_rows} == {"PCF", "Blinding"}
        assert time.perf_counter() - started < allow_seconds(1)
