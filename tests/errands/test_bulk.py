"""A row of a bulk compile: what it makes, in one transaction, and what it leaves alone."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from bpc import fresh
from bpc.assembly import Assembly, assembled
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, CompileRunId, RulePackageVersionId, TenantId
from bpc.db import compile_runs, events, facts, snapshots
from bpc.db.compile_runs import Row, Wanted
from bpc.db.database import Database
from bpc.db.jobs import sessions_of
from bpc.errands.bulk import RowOrder, request_run
from bpc.jobs import NORMAL, Jobs
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from bpc.settings import Settings
from tests.errands.batteries import battery, component, describe, footprint, say
from tests.pipeline.ready import KEY_ID, SIGNER, published_rules


@pytest.fixture
def ours(tmp_path: Path) -> Assembly:
    settings = Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID)
    return assembled(settings, signer=lambda key_id: SIGNER if key_id == KEY_ID else None)


@pytest.fixture
async def jobs(database: Database, ours: Assembly) -> AsyncIterator[Jobs]:
    async with sessions_of(database) as sessions:
        opened = Jobs(ours.handlers, sessions)
        yield opened
        await opened.close()


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> RulePackageVersionId:
    async with database.tenant(tenant) as conn:
        return await published_rules(conn, tenant, act)


async def _run(
    database: Database, ours: Assembly, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId, *rows: Wanted
) -> CompileRunId:
    async with database.tenant(tenant) as conn:
        act = Act(None, fresh.now())
        requested = await request_run(
            conn, jobs, ours.errands.compile_row, tenant, rows, rule_version=rules, activate=False, act=act
        )
    return requested.run_id


async def _begin(database: Database, ours: Assembly, tenant: TenantId, run: CompileRunId, row: int = 1) -> Ran[None]:
    order = RowOrder(run_id=run, row_number=row, actor_id=None)
    async with database.tenant(tenant) as conn:
        return await run_inline(ours.errands.compile_row, order, tenant=tenant, conn=conn)


async def _row(database: Database, tenant: TenantId, run: CompileRunId) -> Row:
    async with database.tenant(tenant) as conn:
        [row] = await compile_runs.rows(conn, tenant, run, after=0, most=1)
    return row


async def _told(database: Database, tenant: TenantId, aggregate: str, thing: UUID) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, aggregate, AggregateId(thing)))
    return [stored.event.event_type for stored in chain]


async def test_a_row_makes_what_is_missing_and_asks_for_a_compile_once(
    database: Database, ours: Assembly, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await describe(conn, tenant, "A")
    run = await _run(database, ours, jobs, tenant, rules, Wanted(sku="A", name="Cell", activate=True))

    ran = await _begin(database, ours, tenant, run)
    again = await _begin(database, ours, tenant, run)

    assert (ran.ending, again.ending, again.follow_ups) == (Ending.SUCCEEDED, Ending.SUCCEEDED, [])
    [wish] = ran.follow_ups
    row = await _row(database, tenant, run)
    assert (wish.handler.type, wish.key) == ("COMPILE_PASSPORT", f"compile:{row.passport_version_id}")
    assert '"activate":true' in wish.payload
    assert wish.priority == NORMAL  # somebody who asks for one passport comes first
    assert await _told(database, tenant, "CompileRun", run) == ["COMPILE_RUN_REQUESTED"]


async def test_the_snapshot_of_a_row_is_built_and_sealed_like_any_other(
    database: Database, ours: Assembly, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await describe(conn, tenant, "A", "AB")
    run = await _run(database, ours, jobs, tenant, rules, Wanted(sku="A", name="Cell"))

    await _begin(database, ours, tenant, run)

    async with database.tenant(tenant) as conn:
        [snapshot] = await conn.fetch("SELECT snapshot_id FROM data_snapshots")
        found = await snapshots.get(conn, tenant, snapshot["snapshot_id"])
        items = await snapshots.items_of(conn, tenant, snapshot["snapshot_id"])
    assert (found.status, found.label, found.count) == ("SEALED", "A, bulk compile", 3)
    assert sorted(item.ref.fact_key.split(":")[0] for item in items) == ["battery", "blinding", "component", "pcf"]
    assert await _told(database, tenant, "DataSnapshot", found.snapshot_id) == [
        "SNAPSHOT_CREATED",
        "SNAPSHOT_ITEMS_CHANGED",
        "SNAPSHOT_READY",
        "SNAPSHOT_SEALED",
    ]


async def test_what_was_said_last_is_what_is_known_also_if_it_was_said_before(
    database: Database, tenant: TenantId
) -> None:
    now = fresh.now()
    old, new = battery("A", "75.500000"), battery("A", "80.000000")
    async with database.tenant(tenant) as conn:
        for hours, said in ((3, [old, footprint("A")]), (2, [new, component("A", "cell")]), (1, [old])):
            await say(conn, tenant, said, at=now - timedelta(hours=hours))
        await say(conn, tenant, [battery("B"), component("A B", "cell")], at=now)

        newest = await facts.newest_about(conn, tenant, "A")
        known = await conn.fetch("SELECT fact_key, payload_hash FROM facts WHERE fact_id = ANY ($1)", newest)

    assert {row["fact_key"]: row["payload_hash"] for row in known} == {
        fact.fact_key: fact.digest() for fact in (old, footprint("A"), component("A", "cell"))
    }


async def test_a_row_whose_run_is_cancelled_is_not_begun(
    database: Database, ours: Assembly, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await describe(conn, tenant, "A")
    run = await _run(database, ours, jobs, tenant, rules, Wanted(sku="A", name="Cell"))
    async with database.tenant(tenant) as conn:
        await compile_runs.cancel(conn, tenant, run, act=act)

    ran = await _begin(database, ours, tenant, run)

    assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])
    assert (await _row(database, tenant, run)).status == "CANCELLED"
    assert await _told(database, tenant, "CompileRun", run) == ["COMPILE_RUN_REQUESTED", "COMPILE_RUN_CANCELLED"]


async def test_a_row_whose_next_job_is_no_longer_kept_has_failed_and_says_so(
    database: Database, ours: Assembly, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await describe(conn, tenant, "A")
    run = await _run(database, ours, jobs, tenant, rules, Wanted(sku="A", name="Cell"))

    await _begin(database, ours, tenant, run)  # inline: what it wishes for is not submitted

    row = await _row(database, tenant, run)
    assert (row.status, row.problem and row.problem.code) == ("FAILED", "NOT_FOUND")
