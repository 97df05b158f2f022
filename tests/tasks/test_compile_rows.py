"""Specification of a row of a bulk compile: what it creates in one transaction, and what it leaves alone."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from service_jobs import NORMAL, Jobs
from service_jobs.job import Ending
from service_jobs.testing import InlineRun, run_inline

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, CompileRunId, RulePackageVersionId, TenantId
from bpc.pipeline.product_facts import load_product_evidence
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.evidence import snapshots
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import compile_run_progress, compile_runs
from bpc.storage.passports.compile_run_progress import CompileRowRequest, CompileRowState
from bpc.tasks.compile_rows import RowOrder, RowOutcome, request_run
from bpc.tasks.job_types import JobTypes, declare_job_types
from tests.pipeline.compile_fixtures import KEY_ID, SIGNER, publish_rules
from tests.tasks.product_facts import (
    insert_document_facts,
    insert_product_facts,
    make_battery,
    make_component,
    make_footprint,
)


@pytest.fixture
def job_types(database: Database, tmp_path: Path) -> JobTypes:
    settings = Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID)
    return declare_job_types(settings, database=database, key_ring=KeyRing({KEY_ID: SIGNER}))


@pytest.fixture
async def jobs(database: Database, job_types: JobTypes) -> AsyncIterator[Jobs]:
    async with open_job_sessions(database) as sessions:
        opened = Jobs(job_types.handlers, sessions)
        yield opened
        await opened.close()


@pytest.fixture
async def rules(database: Database, tenant: TenantId, act: Act) -> RulePackageVersionId:
    async with database.tenant(tenant) as conn:
        return await publish_rules(conn, tenant, act)


async def _request_run(
    database: Database,
    job_types: JobTypes,
    jobs: Jobs,
    tenant: TenantId,
    rules: RulePackageVersionId,
    *rows: CompileRowRequest,
) -> CompileRunId:
    async with database.tenant(tenant) as conn:
        act = Act(None, clock.now())
        requested = await request_run(
            conn,
            jobs,
            job_types.task_jobs.compile_row,
            tenant,
            rows,
            finish_job=job_types.task_jobs.finish_run,
            rule_version=rules,
            activate=False,
            act=act,
        )
    return requested.run_id


async def _run_row(
    database: Database, job_types: JobTypes, tenant: TenantId, run: CompileRunId, row: int = 1
) -> InlineRun[RowOutcome]:
    order = RowOrder(run_id=run, row_number=row, actor_id=None)
    async with database.tenant(tenant) as conn:
        return await run_inline(job_types.task_jobs.compile_row, order, tenant=tenant, conn=conn)


async def _get_row(database: Database, tenant: TenantId, run: CompileRunId) -> CompileRowState:
    async with database.tenant(tenant) as conn:
        [row] = await compile_run_progress.list_row_states(conn, tenant, run, after=0, limit=1)
    return row


async def _list_event_types(database: Database, tenant: TenantId, aggregate: str, thing: UUID) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, aggregate, AggregateId(thing)))
    return [stored.event.event_type for stored in chain]


async def test_a_row_creates_what_is_missing_and_requests_one_compile(
    database: Database, job_types: JobTypes, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_product_facts(conn, tenant, "A")
    run = await _request_run(
        database, job_types, jobs, tenant, rules, CompileRowRequest(sku="A", name="Cell", activate=True)
    )

    ran = await _run_row(database, job_types, tenant, run)
    again = await _run_row(database, job_types, tenant, run)

    assert (ran.ending, again.ending, again.follow_ups) == (Ending.SUCCEEDED, Ending.SUCCEEDED, [])
    [wish] = ran.follow_ups
    row = await _get_row(database, tenant, run)
    assert (wish.handler.type, wish.key) == ("COMPILE_PASSPORT", f"compile:{row.passport_version_id}")
    assert '"activate":true' in wish.payload
    assert wish.priority == NORMAL  # somebody who asks for one passport comes first
    assert await _list_event_types(database, tenant, "CompileRun", run) == ["COMPILE_RUN_REQUESTED"]


async def test_the_snapshot_of_a_row_is_built_and_sealed_like_any_other(
    database: Database, job_types: JobTypes, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_product_facts(conn, tenant, "A", "AB")
    run = await _request_run(database, job_types, jobs, tenant, rules, CompileRowRequest(sku="A", name="Cell"))

    await _run_row(database, job_types, tenant, run)

    async with database.tenant(tenant) as conn:
        [snapshot] = await conn.fetch("SELECT snapshot_id FROM data_snapshots")
        snapshot_row = await snapshots.get_snapshot(conn, tenant, snapshot["snapshot_id"])
        items = await snapshots.load_items(conn, tenant, snapshot["snapshot_id"])
    assert (snapshot_row.status, snapshot_row.label, snapshot_row.count) == ("SEALED", "A, bulk compile", 3)
    assert {item.ref.fact_key.split(":")[0] for item in items} - {"finding"} == {
        "battery",
        "blinding",
        "component",
        "pcf",
        "provenance",
    }
    assert await _list_event_types(database, tenant, "DataSnapshot", snapshot_row.snapshot_id) == [
        "SNAPSHOT_CREATED",
        "SNAPSHOT_ITEMS_CHANGED",
        "SNAPSHOT_READY",
        "SNAPSHOT_SEALED",
    ]


async def test_a_snapshot_has_the_newest_facts_even_if_an_old_value_returns(
    database: Database, tenant: TenantId
) -> None:
    now = clock.now()
    old, new = make_battery("A", "75.500000"), make_battery("A", "80.000000")
    async with database.tenant(tenant) as conn:
        for hours, snapshot_facts in (
            (3, [old, make_footprint("A")]),
            (2, [new, make_component("A", "cell")]),
            (1, [old]),
        ):
            await insert_document_facts(conn, tenant, snapshot_facts, at=now - timedelta(hours=hours))
        await insert_document_facts(conn, tenant, [make_battery("B"), make_component("A B", "cell")], at=now)

        evidence = await load_product_evidence(conn, tenant, "A")

    assert {each.fact.fact_key: each.fact.digest() for each in evidence.product_facts} == {
        fact.fact_key: fact.digest() for fact in (old, make_footprint("A"), make_component("A", "cell"))
    }


async def test_a_row_of_a_cancelled_run_is_not_started(
    database: Database, job_types: JobTypes, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_product_facts(conn, tenant, "A")
    run = await _request_run(database, job_types, jobs, tenant, rules, CompileRowRequest(sku="A", name="Cell"))
    async with database.tenant(tenant) as conn:
        await compile_runs.cancel_run(conn, tenant, run, act=act)

    ran = await _run_row(database, job_types, tenant, run)

    assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])
    assert (await _get_row(database, tenant, run)).status == "CANCELLED"
    assert await _list_event_types(database, tenant, "CompileRun", run) == [
        "COMPILE_RUN_REQUESTED",
        "COMPILE_RUN_CANCELLED",
    ]


async def test_a_row_whose_next_job_was_removed_has_failed_with_a_reason(
    database: Database, job_types: JobTypes, jobs: Jobs, tenant: TenantId, rules: RulePackageVersionId
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_product_facts(conn, tenant, "A")
    run = await _request_run(database, job_types, jobs, tenant, rules, CompileRowRequest(sku="A", name="Cell"))

    await _run_row(database, job_types, tenant, run)  # inline: what it wishes for is not submitted

    row = await _get_row(database, tenant, run)
    assert (row.status, row.problem and row.problem.code) == ("FAILED", "NOT_FOUND")
