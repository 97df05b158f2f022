"""The step from facts to a sealed snapshot, without HTTP: what a job does when things have moved on, and how fast."""

import asyncio
import json
import time

import pytest

from bpc import fresh
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, FactId, JobId, SnapshotId, TenantId
from bpc.db import events, facts, snapshots
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.facts import Filters
from bpc.db.failures import SnapshotNotReady, SnapshotSealed
from bpc.db.jobs import sessions_of
from bpc.db.pages import Ask
from bpc.jobs import Handlers, Jobs, RequestQueue
from bpc.jobs.testing import Ran, run_inline
from bpc.pipeline import snapshot as step
from bpc.pipeline.facts import parse
from tests.jobs.stages import ended
from tests.jobs.working import until_status, working
from tests.measuring import allowed
from tests.pipeline.supplied import Here, a_version


async def _facts(conn: Connection, tenant: TenantId, act: Act, *skus: str) -> list[FactId]:
    content = json.dumps([{"sku": sku} for sku in skus]).encode()
    version = await a_version(conn, tenant, content, kind="PCF")
    await parse(conn, tenant, version, reading=Here(), act=act)
    found = await facts.page(conn, tenant, Filters(document_version_id=version), Ask.of(None, 10_000))
    return [fact.fact_id for fact in found]


async def _snapshot(conn: Connection, tenant: TenantId, act: Act, wanted: list[FactId]) -> SnapshotId:
    made = await snapshots.create(conn, tenant, label=None, act=act)
    if wanted:
        await step.add_items(conn, tenant, made.snapshot_id, wanted, act=act)
    return made.snapshot_id


async def _built(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> Ran[None]:
    order = step.BuildOrder(snapshot_id=snapshot, actor_id=None)
    return await run_inline(step.build_job(Handlers()), order, tenant=tenant, conn=conn)


async def test_a_build_that_comes_late_changes_nothing(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = await _snapshot(conn, tenant, act, await _facts(conn, tenant, act, "A"))
        await _built(conn, tenant, snapshot)

        assert (await _built(conn, tenant, snapshot)).output is None
        sealed = await step.seal(conn, tenant, snapshot, act=act)
        assert (await _built(conn, tenant, snapshot)).output is None

        found = await snapshots.get(conn, tenant, snapshot)
        assert (found.status, found.snapshot_hash, found.count) == ("SEALED", sealed.snapshot_hash, 1)
        chain = await events.read_chain(conn, snapshots.stream(tenant, snapshot))
        assert [stored.event.event_type for stored in chain][-2:] == ["SNAPSHOT_READY", "SNAPSHOT_SEALED"]


async def test_a_snapshot_that_was_emptied_in_the_meantime_fails_its_build(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        [fact] = await _facts(conn, tenant, act, "A")
        snapshot = await _snapshot(conn, tenant, act, [fact])
        await _built(conn, tenant, snapshot)
        await step.remove_item(conn, tenant, snapshot, fact, act=act)

        ran = await _built(conn, tenant, snapshot)

        assert ran.error is not None
        assert ran.error.code == "CONFLICT"
        assert (await snapshots.get(conn, tenant, snapshot)).status == "BUILDING"


@pytest.mark.parametrize("end", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_a_build_that_ended_without_success_is_run_again_when_it_is_asked_for_again(
    database: Database, tenant: TenantId, act: Act, end: str
) -> None:
    async with database.tenant(tenant) as conn:
        snapshot = await _snapshot(conn, tenant, act, await _facts(conn, tenant, act, "A"))
    handlers = Handlers()
    build = step.build_job(handlers)

    async with sessions_of(database) as sessions:
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
            await ended(sessions, tenant, first, end)
        again = await asked()
        async with working(jobs):
            await until_status(jobs, tenant, again, "SUCCEEDED")
        await jobs.close()

    assert first == same == again
    async with database.tenant(tenant) as conn:
        assert (await snapshots.get(conn, tenant, snapshot)).status == "READY"
        chain = await events.read_chain(conn, Stream(tenant, "Job", AggregateId(first)))
    assert [stored.event.event_type for stored in chain] == ["JOB_RETRIED"]


async def test_a_snapshot_has_a_largest_size(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "MOST_FACTS", 2)
    async with database.tenant(tenant) as conn:
        wanted = await _facts(conn, tenant, act, "A", "B", "C")
        snapshot = await _snapshot(conn, tenant, act, wanted[:2])

        with pytest.raises(step.SnapshotFull):
            await step.add_items(conn, tenant, snapshot, wanted, act=act)


async def test_who_comes_second_sees_what_the_first_did(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        one, other = await _facts(conn, tenant, act, "A", "B")
        snapshot = await _snapshot(conn, tenant, act, [one])
        await _built(conn, tenant, snapshot)

    waits = asyncio.Event()

    async def late_adding() -> None:
        async with database.tenant(tenant) as own:
            waits.set()
            await step.add_items(own, tenant, snapshot, [other], act=Act(None, fresh.now()))

    async with database.tenant(tenant) as conn:
        await step.seal(conn, tenant, snapshot, act=act)
        adding = asyncio.create_task(late_adding())
        await waits.wait()
        await _until_somebody_waits(database)
    with pytest.raises(SnapshotSealed):
        await adding

    async with database.tenant(tenant) as conn:
        assert (await snapshots.get(conn, tenant, snapshot)).count == 1


async def test_a_seal_that_waited_for_a_change_is_not_ready(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        one, other = await _facts(conn, tenant, act, "A", "B")
        snapshot = await _snapshot(conn, tenant, act, [one])
        await _built(conn, tenant, snapshot)

    async def late_sealing() -> None:
        async with database.tenant(tenant) as own:
            await step.seal(own, tenant, snapshot, act=Act(None, fresh.now()))

    async with database.tenant(tenant) as conn:
        await step.add_items(conn, tenant, snapshot, [other], act=act)
        sealing = asyncio.create_task(late_sealing())
        await _until_somebody_waits(database)
    with pytest.raises(SnapshotNotReady):
        await sealing


async def _until_somebody_waits(database: Database) -> None:
    """Return when a session waits for another one's lock."""
    async with asyncio.timeout(60), database.plain() as conn:
        while not await conn.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await asyncio.sleep(0.005)


async def test_a_thousand_facts_are_there_at_once(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        wanted = await _facts(conn, tenant, act, *(f"SKU-{number}" for number in range(1000)))
        snapshot = await _snapshot(conn, tenant, act, wanted)
        await _built(conn, tenant, snapshot)

        started = time.perf_counter()
        found = await snapshots.facts_of(conn, tenant, snapshot)

        assert len(found) == 1001
        assert {fact.fact_type for fact in found} == {"PCF", "Blinding"}
        assert time.perf_counter() - started < allowed(1)
