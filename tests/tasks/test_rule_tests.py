"""Running rule tests as a job: what a run finds is written down once, and only enough that passed moves a draft on."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from bpc import fresh
from bpc.core.events import Act
from bpc.core.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.rules.failure import MAX_STEPS
from bpc.core.rules.package import checked_program
from bpc.db import events, rule_runs, rule_status, rules
from bpc.db.database import Database
from bpc.db.jobs import sessions_of
from bpc.db.rule_runs import Run
from bpc.errands import rule_tests
from bpc.jobs import Handlers, Jobs, Processes
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from tests.jobs.working import until_status, working

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


async def _version(
    database: Database, tenant: TenantId, act: Act, tests: str, dsl: str = RULES
) -> RulePackageVersionId:
    fields = rules.fields_of(checked_program(dsl.encode(), tests.encode()))
    async with database.tenant(tenant) as conn:
        package = await rules.create(conn, tenant, name=f"rules {fresh.new_id()}", description=None, act=act)
        made = await rules.add_version(
            conn, tenant, package.rule_package_id, dsl=dsl.encode(), tests=tests.encode(), fields=fields, act=act
        )
    return made.rule_package_version_id


def _order(version: RulePackageVersionId, *, seed: int = 7) -> rule_tests.TestsOrder:
    return rule_tests.TestsOrder(run_id=fresh.new_id(), rule_package_version_id=version, seed=seed, actor_id=None)


async def _run(
    database: Database, tenant: TenantId, order: rule_tests.TestsOrder, *, max_steps: int = MAX_STEPS
) -> Ran[None]:
    handler = rule_tests.tests_job(Handlers(), max_steps=max_steps, opening=database.tenant)
    async with database.tenant(tenant) as conn:
        return await run_inline(handler, order, tenant=tenant, conn=conn)


async def _status(database: Database, tenant: TenantId, version: RulePackageVersionId) -> str:
    async with database.tenant(tenant) as conn:
        return (await rules.version(conn, tenant, version)).status


async def _found(database: Database, tenant: TenantId, order: rule_tests.TestsOrder) -> Run:
    async with database.tenant(tenant) as conn:
        version = RulePackageVersionId(order.rule_package_version_id)
        return await rule_runs.get(conn, tenant, version, RuleTestsRunId(order.run_id))


async def _told(database: Database, tenant: TenantId, version: RulePackageVersionId) -> list[str]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, rules.stream_of(tenant, version))
    return [stored.event.event_type for stored in chain]


async def test_a_draft_that_passes_five_hundred_cases_is_validated(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _version(database, tenant, act, ENOUGH + ONE)
    order = _order(version)

    ran = await _run(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    assert [note["percent"] for note in ran.progress] == [0, 100]
    found = await _found(database, tenant, order)
    assert (found.status, found.cases, found.passed, found.failed, found.seed) == ("PASSED", 501, 501, 0, 7)
    assert found.failure is None
    assert found.coverage["fields"] == {"total": 2, "reached": 2, "percent": 100}
    assert await _status(database, tenant, version) == "VALIDATED"
    assert await _told(database, tenant, version) == ["RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_tests_that_fail_are_a_run_that_failed_and_a_job_that_succeeded(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _version(database, tenant, act, ENOUGH + WRONG)
    order = _order(version)

    ran = await _run(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    found = await _found(database, tenant, order)
    assert (found.status, found.passed, found.failed) == ("FAILED", 500, 1)
    assert found.failure is not None
    assert (found.failure["test"], found.failure["file"]) == ("it_is_nmc", "tests.bpc")
    assert await _status(database, tenant, version) == "DRAFT"
    assert await _told(database, tenant, version) == ["RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_too_few_cases_leave_a_draft_a_draft(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _version(database, tenant, act, ONE)
    order = _order(version)

    await _run(database, tenant, order)

    assert (await _found(database, tenant, order)).status == "PASSED"
    assert await _status(database, tenant, version) == "DRAFT"


async def test_cases_whose_premises_do_not_hold_count_for_nothing(
    database: Database, tenant: TenantId, act: Act
) -> None:
    version = await _version(database, tenant, act, NEVER)
    order = _order(version)

    await _run(database, tenant, order)

    found = await _found(database, tenant, order)
    assert (found.status, found.passed) == ("FAILED", 0)
    assert found.discarded >= 500
    assert await _status(database, tenant, version) == "DRAFT"


async def test_a_run_that_fails_lowers_nothing(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    await _run(database, tenant, _order(version))
    order = _order(version)

    await _run(database, tenant, order, max_steps=1)

    found = await _found(database, tenant, order)
    assert found.status == "FAILED"
    assert found.failure is not None
    assert found.failure["error"]["code"] == "RULE_LIMIT_EXCEEDED"
    assert await _status(database, tenant, version) == "VALIDATED"


async def test_the_run_that_is_written_last_is_the_newest_whatever_the_clock_says(
    database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    still = fresh.now() + timedelta(hours=1)
    orders = [_order(version) for _ in range(8)]

    await _run(database, tenant, orders[0])
    for number, order in enumerate(orders[1:], start=1):
        monkeypatch.setattr(fresh, "now", lambda behind=number: still - timedelta(minutes=behind))
        await _run(database, tenant, order)

        async with database.tenant(tenant) as conn:
            newest = await rule_runs.newest(conn, tenant, version)
        assert newest is not None
        assert newest.run_id == order.run_id


async def test_a_run_has_the_time_at_which_it_could_be_written(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    order = _order(version)

    async with database.tenant(tenant) as conn:
        await rules.locked_version(conn, tenant, version)
        running = asyncio.create_task(_run(database, tenant, order))
        await _until_somebody_waits(database)
        held_until = fresh.now()
    await running

    assert (await _found(database, tenant, order)).created_at >= held_until


async def _until_somebody_waits(database: Database) -> None:
    """Return when a session waits for another one's lock."""
    async with asyncio.timeout(60), database.plain() as conn:
        while not await conn.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await asyncio.sleep(0.005)


async def test_a_version_that_was_retired_meanwhile_stays_so(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    order = _order(version)
    async with database.tenant(tenant) as conn:
        await rule_status.retire(conn, tenant, version, act=act)

    await _run(database, tenant, order)

    assert (await _found(database, tenant, order)).status == "PASSED"
    assert await _status(database, tenant, version) == "RETIRED"


async def test_an_order_that_is_carried_out_twice_is_one_run(database: Database, tenant: TenantId, act: Act) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    order = _order(version)

    await _run(database, tenant, order)
    again = await _run(database, tenant, order)

    assert again.ending is Ending.SUCCEEDED
    assert await _told(database, tenant, version) == ["RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_the_same_version_and_seed_give_the_same_run(database: Database, tenant: TenantId, act: Act) -> None:
    wrong_for_some = """
    property cells_are_many: cases(500) seed(1) given {} =>
      forall x: Int . implies(x > 50, field("battery.cells") > x);
    ;
    """
    version = await _version(database, tenant, act, wrong_for_some)
    one, other = _order(version, seed=11), _order(version, seed=11)

    await _run(database, tenant, one)
    await _run(database, tenant, other)

    first, second = await _found(database, tenant, one), await _found(database, tenant, other)
    assert first.failure is not None
    assert (first.failure, first.cases, first.discarded) == (second.failure, second.cases, second.discarded)


async def test_sources_that_were_changed_in_the_database_are_not_tested(
    database: Database, tenant: TenantId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    version = await _version(database, tenant, act, ENOUGH)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET dsl_source = dsl_source || $1", b"-- more\n")

    ran = await _run(database, tenant, _order(version))

    assert ran.ending is Ending.FAILED
    assert ran.error is not None
    assert "do not have the hashes" in ran.error.message
    assert await _told(database, tenant, version) == ["RULE_VERSION_CREATED"]


async def test_a_version_that_nobody_knows_is_no_job_to_try_again(database: Database, tenant: TenantId) -> None:
    ran = await _run(database, tenant, _order(RulePackageVersionId(fresh.new_id())))

    assert ran.ending is Ending.FAILED
    assert ran.error is not None
    assert ran.error.code == "NOT_FOUND"


async def test_a_failure_is_kept_with_numbers_of_any_length(database: Database, tenant: TenantId, act: Act) -> None:
    failing = """
    property it_is_nmc: cases(500) seed(1) given {
      fact p("PCF", "pcf:1") = {"total_gco2e": 12345678901234567890123};
    } =>
      forall x: Int . implies(x == x, field("battery.chemistry") == "NMC");
    ;
    """
    version = await _version(database, tenant, act, failing)
    order = _order(version)

    ran = await _run(database, tenant, order)

    assert ran.ending is Ending.SUCCEEDED
    found = await _found(database, tenant, order)
    assert found.failure is not None
    [fact] = found.failure["case"]["facts"]
    assert fact["payload"] == {"total_gco2e": 12345678901234567890123}


LONG = """
property there_are_cells: cases(5000) seed(1) given {} =>
  forall x: Int . implies(x == x, field("battery.cells") > 0);
;
"""
OLD_TRANSACTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < $1"


@pytest.mark.parametrize("children", [True, False], ids=["in a child process", "without any"])
async def test_a_run_says_how_far_it_is_and_keeps_no_transaction_open_meanwhile(
    database: Database,
    tenant: TenantId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
    children: bool,
) -> None:
    monkeypatch.setattr(rule_tests, "REPORT_EVERY", 0.005)
    version = await _version(database, tenant, act, LONG)
    handlers = Handlers()
    handler = rule_tests.tests_job(handlers, max_steps=MAX_STEPS, opening=database.tenant)
    processes = Processes(1) if children else None
    seen, begun = list[int](), list[int]()

    async with sessions_of(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with working(jobs), asyncio.timeout(60):
            job_id = await jobs.submit(handler, _order(version), tenant=tenant)
            since = None
            while (job := await jobs.job(tenant, job_id)).status != "SUCCEEDED":
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
    version = await _version(database, tenant, act, ENOUGH)
    handlers = Handlers()
    handler = rule_tests.tests_job(handlers, max_steps=MAX_STEPS, opening=database.tenant)
    processes = Processes(1) if children else None

    async with sessions_of(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with working(jobs):
            job_id = await jobs.submit(handler, _order(version), tenant=tenant)
            await until_status(jobs, tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)
        await jobs.close()
    if processes is not None:
        await processes.close()

    assert await _status(database, tenant, version) == "VALIDATED"
