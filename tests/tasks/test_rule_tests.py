"""Specification of rule tests as a job: a run is stored once, and a draft that passes enough cases is validated."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from service_jobs import Handlers, Jobs, ProcessPool
from service_jobs.job import Ending
from service_jobs.testing import InlineRun, run_inline
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.language.check_result import list_fields
from bpc.core.language.evaluation import MAX_STEPS
from bpc.core.language.package import read_program
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.rules import lifecycle, packages
from bpc.storage.rules.lifecycle import RuleTestRunRow
from bpc.tasks import rule_tests
from tests.pipeline.compile_fixtures import wait_for_lock

RULES = 'field battery.chemistry @public: Text = "LFP";\nfield battery.cells @public: Int = 96;\n'
ENOUGH = """
property there_are_cells: cases(500) seed(1) given {} =>
  forall x: Int . implies(x == x, field("battery.cells") > 0);
;
"""
ONE = """
example it_is_lfp: {} =>
  expect(battery.chemistry, == "LFP");
;
"""
WRONG = """
example it_is_nmc: {} =>
  expect(battery.chemistry, == "NMC");
;
"""
NEVER = """
property nothing_is_below_itself: cases(500) seed(1) given {} =>
  forall x: Int . implies(x < x, false);
;
"""


async def _create_version(
    database: Database, tenant: TenantId, act: Act, tests: str, dsl: str = RULES
) -> RulePackageVersionId:
    fields = list_fields(read_program(dsl.encode(), tests.encode()))
    async with database.tenant(tenant) as conn:
        package = await packages.create_package(conn, tenant, name=f"rules {clock.new_id()}", description=None, act=act)
        row = await packages.insert_version(
            conn, tenant, package.rule_package_id, dsl=dsl.encode(), tests=tests.encode(), fields=fields, act=act
        )
    return row.rule_package_version_id


def _make_order(version: RulePackageVersionId, *, seed: int = 7) -> rule_tests.TestsOrder:
    return rule_tests.TestsOrder(
        run_id=RuleTestsRunId(clock.new_id()), rule_package_version_id=version, seed=seed, actor_id=None
    )


async def _run_tests(
    database: Database, tenant: TenantId, order: rule_tests.TestsOrder, *, max_steps: int = MAX_STEPS
) -> InlineRun[rule_tests.TestsOutcome]:
    handler = rule_tests.declare_tests_job(Handlers(), max_steps=max_steps, open_transaction=database.tenant)
    async with database.tenant(tenant) as conn:
        return await run_inline(handler, order, tenant=tenant, conn=conn)


async def _get_status(database: Database, tenant: TenantId, version: RulePackageVersionId) -> str:
    async with database.tenant(tenant) as conn:
        return (await packages.get_version(conn, tenant, version)).status


async def _get_run(database: Database, tenant: TenantId, order: rule_tests.TestsOrder) -> RuleTestRunRow:
    async with database.tenant(tenant) as conn:
        version = RulePackageVersionId(order.rule_package_version_id)
        return await lifecycle.get_test_run(conn, tenant, version, RuleTestsRunId(order.run_id))


async def _list_event_types(database: Database, tenant: TenantId, version: RulePackageVersionId) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "RulePackageVersion", AggregateId(version)))
    return [stored.event.event_type for stored in chain]


async def test_a_draft_that_passes_five_hundred_cases_is_validated(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH + ONE)
    order = _make_order(version)

    ran = await _run_tests(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    assert [note["percent"] for note in ran.progress] == [0, 100]
    row = await _get_run(database, tenant, order)
    assert (row.status, row.cases, row.passed, row.failed, row.seed) == ("PASSED", 501, 501, 0, 7)
    assert row.failure is None
    assert row.coverage["fields"] == {"total": 2, "reached": 2, "percent": 100}
    assert await _get_status(database, tenant, version) == "VALIDATED"
    assert await _list_event_types(database, tenant, version) == ["RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_failing_tests_give_a_failed_run_and_a_succeeded_job(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH + WRONG)
    order = _make_order(version)

    ran = await _run_tests(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    row = await _get_run(database, tenant, order)
    assert (row.status, row.passed, row.failed) == ("FAILED", 500, 1)
    assert row.failure is not None
    assert (row.failure["test"], row.failure["file"]) == ("it_is_nmc", "tests.bpc")
    assert await _get_status(database, tenant, version) == "DRAFT"
    assert await _list_event_types(database, tenant, version) == [
        "RULE_VERSION_CREATED",
        "TESTS_RUN",
        "RULE_TESTS_FAILED",
    ]


async def test_a_draft_with_too_few_cases_stays_a_draft(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _create_version(database, tenant, act, ONE)
    order = _make_order(version)

    await _run_tests(database, tenant, order)

    assert (await _get_run(database, tenant, order)).status == "PASSED"
    assert await _get_status(database, tenant, version) == "DRAFT"


async def test_discarded_cases_do_not_count(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _create_version(database, tenant, act, NEVER)
    order = _make_order(version)

    await _run_tests(database, tenant, order)

    row = await _get_run(database, tenant, order)
    assert (row.status, row.passed) == ("FAILED", 0)
    assert row.discarded >= 500
    assert await _get_status(database, tenant, version) == "DRAFT"


async def test_a_failed_run_does_not_lower_the_status_of_a_version(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    await _run_tests(database, tenant, _make_order(version))
    order = _make_order(version)

    await _run_tests(database, tenant, order, max_steps=1)

    row = await _get_run(database, tenant, order)
    assert row.status == "FAILED"
    assert row.failure is not None
    assert row.failure["error"]["code"] == "RULE_LIMIT_EXCEEDED"
    assert await _get_status(database, tenant, version) == "VALIDATED"


async def test_the_run_that_is_stored_last_is_the_newest_even_if_the_clock_goes_back(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    still = clock.now() + timedelta(hours=1)
    orders = [_make_order(version) for _ in range(8)]

    await _run_tests(database, tenant, orders[0])
    for number, order in enumerate(orders[1:], start=1):
        monkeypatch.setattr(clock, "now", lambda behind=number: still - timedelta(minutes=behind))
        await _run_tests(database, tenant, order)

        async with database.tenant(tenant) as conn:
            newest = await lifecycle.find_newest_test_run(conn, tenant, version)
        assert newest is not None
        assert newest.run_id == order.run_id


async def test_a_run_has_the_time_at_which_it_was_stored(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    order = _make_order(version)

    async with database.tenant(tenant) as conn:
        await packages.lock_version(conn, tenant, version)
        running = asyncio.create_task(_run_tests(database, tenant, order))
        await wait_for_lock(database)
        held_until = clock.now()
    await running

    assert (await _get_run(database, tenant, order)).created_at >= held_until


async def test_a_version_that_was_retired_meanwhile_stays_retired(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    order = _make_order(version)
    async with database.tenant(tenant) as conn:
        await lifecycle.retire_version(conn, tenant, version, act=act)

    await _run_tests(database, tenant, order)

    assert (await _get_run(database, tenant, order)).status == "PASSED"
    assert await _get_status(database, tenant, version) == "RETIRED"


async def test_an_order_that_runs_twice_stores_one_run(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    order = _make_order(version)

    await _run_tests(database, tenant, order)
    again = await _run_tests(database, tenant, order)

    assert again.ending is Ending.SUCCEEDED
    assert await _list_event_types(database, tenant, version) == ["RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_the_same_version_and_seed_give_the_same_run(database: Database, tenant: TenantId, act: Act) -> None:
    wrong_for_some = """
    property cells_are_many: cases(500) seed(1) given {} =>
      forall x: Int . implies(x > 50, field("battery.cells") > x);
    ;
    """
    version = await _create_version(database, tenant, act, wrong_for_some)
    one, other = _make_order(version, seed=11), _make_order(version, seed=11)

    await _run_tests(database, tenant, one)
    await _run_tests(database, tenant, other)

    first, second = await _get_run(database, tenant, one), await _get_run(database, tenant, other)
    assert first.failure is not None
    assert (first.failure, first.cases, first.discarded) == (second.failure, second.cases, second.discarded)


async def test_sources_that_were_changed_in_the_database_are_not_tested(
    database: Database, tenant: TenantId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET dsl_source = dsl_source || $1", b"-- more\n")

    ran = await _run_tests(database, tenant, _make_order(version))

    assert ran.ending is Ending.FAILED
    assert ran.error is not None
    assert "do not have the hashes" in ran.error.message
    assert await _list_event_types(database, tenant, version) == ["RULE_VERSION_CREATED"]


async def test_a_job_with_an_unknown_version_fails_without_a_retry(database: Database, tenant: TenantId) -> None:
    ran = await _run_tests(database, tenant, _make_order(RulePackageVersionId(clock.new_id())))

    assert ran.ending is Ending.FAILED
    assert ran.error is not None
    assert ran.error.code == "NOT_FOUND"


async def test_a_failure_is_stored_with_numbers_of_any_length(database: Database, tenant: TenantId, act: Act) -> None:
    failing = """
    property it_is_nmc: cases(500) seed(1) given {
      fact p("PCF", "pcf:1") = {"total_gco2e": 12345678901234567890123};
    } =>
      forall x: Int . implies(x == x, field("battery.chemistry") == "NMC");
    ;
    """
    version = await _create_version(database, tenant, act, failing)
    order = _make_order(version)

    ran = await _run_tests(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    row = await _get_run(database, tenant, order)
    assert row.failure is not None
    [fact] = row.failure["case"]["facts"]
    assert fact["payload"] == {"total_gco2e": 12345678901234567890123}


LONG = """
property there_are_cells: cases(5000) seed(1) given {} =>
  forall x: Int . implies(x == x, field("battery.cells") > 0);
;
"""
OLD_TRANSACTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < $1"


@pytest.mark.parametrize("children", [True, False], ids=["in a child process", "without any"])
async def test_a_run_reports_progress_and_has_no_open_transaction_meanwhile(
    database: Database,
    tenant: TenantId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
    children: bool,
) -> None:
    monkeypatch.setattr(rule_tests, "REPORT_EVERY", 0.005)
    version = await _create_version(database, tenant, act, LONG)
    handlers = Handlers()
    handler = rule_tests.declare_tests_job(handlers, max_steps=MAX_STEPS, open_transaction=database.tenant)
    processes = ProcessPool(1) if children else None
    seen, begun = list[int](), list[int]()

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with run_worker(jobs), asyncio.timeout(60):
            job_id = await jobs.submit(handler, _make_order(version), tenant=tenant)
            since = None
            while (job := await jobs.get_job(tenant, job_id)).status != "SUCCEEDED":
                if job.progress is not None and 0 < (job.progress["percent"] or 0) < 100:
                    seen.append(job.progress["percent"])
                    since = since or await superuser.fetchval("SELECT clock_timestamp()")
                    begun.append(await superuser.fetchval(OLD_TRANSACTIONS, since))
        await jobs.close()
    if processes is not None:
        await processes.close()

    assert len(set(seen)) > 1
    assert seen == sorted(seen)
    assert begun[-1] == 0


@pytest.mark.parametrize("children", [True, False], ids=["in a child process", "without any"])
async def test_a_worker_runs_tests_with_child_processes_or_without(
    database: Database, tenant: TenantId, act: Act, children: bool
) -> None:
    version = await _create_version(database, tenant, act, ENOUGH)
    handlers = Handlers()
    handler = rule_tests.declare_tests_job(handlers, max_steps=MAX_STEPS, open_transaction=database.tenant)
    processes = ProcessPool(1) if children else None

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with run_worker(jobs):
            job_id = await jobs.submit(handler, _make_order(version), tenant=tenant)
            await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)
        await jobs.close()
    if processes is not None:
        await processes.close()

    assert await _get_status(database, tenant, version) == "VALIDATED"
