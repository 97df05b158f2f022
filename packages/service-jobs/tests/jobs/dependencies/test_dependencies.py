"""Specification of jobs that need other jobs: they run when all those succeeded, and never when one ended badly."""

from uuid import UUID

import pytest
from service_jobs.context import Connection
from service_jobs.handler import Handler
from service_jobs.job import InvalidInput, new_id, new_ids
from service_jobs.service import Jobs
from tests.jobs.dependencies.dependency_scenario import CHAIN, ERROR, DependencyScenario

from bpc.core.formats.ids import TenantId
from tests.measurements import choose_effort

pytestmark = pytest.mark.external

# Success -----------------------------------------------------------------------------------------------------------


async def test_a_job_runs_when_the_one_it_needs_succeeded(scenario: DependencyScenario) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    assert await scenario.list_places(needed, job) == ["ready", "blocked"]

    await scenario.run(needed)

    assert await scenario.list_places(needed, job) == ["SUCCEEDED", "ready"]


@pytest.mark.parametrize("how", ["settled", "completed"])
async def test_a_diamond_runs_from_its_top_to_its_bottom(scenario: DependencyScenario, how: str) -> None:
    top = await scenario.submit()
    left, right = await scenario.submit(top), await scenario.submit(top)
    bottom = await scenario.submit(left, right)

    async def end(job: UUID) -> None:
        await (scenario.end(job) if how == "settled" else scenario.complete(job))

    await scenario.start_all()
    await end(top)
    assert await scenario.list_places(left, right, bottom) == ["ready", "ready", "blocked"]
    await scenario.start_all()
    await end(left)
    assert await scenario.list_places(bottom) == ["blocked"]
    await end(right)
    assert await scenario.list_places(top, left, right, bottom) == ["SUCCEEDED"] * 3 + ["ready"]


async def test_both_needed_jobs_may_be_completed_by_one_statement(scenario: DependencyScenario) -> None:
    left, right = await scenario.submit_many(2)
    bottom, beside = await scenario.submit(left, right), await scenario.submit(right)
    await scenario.start_all()

    await scenario.complete(left, right)

    assert await scenario.list_places(bottom, beside) == ["ready", "ready"]


async def test_a_chain_runs_link_by_link(scenario: DependencyScenario) -> None:
    chain = [await scenario.submit()]
    for _ in range(9):
        chain.append(await scenario.submit(chain[-1]))

    for at, job in enumerate(chain):
        assert await scenario.list_places(*chain) == ["SUCCEEDED"] * at + ["ready"] + ["blocked"] * (9 - at)
        await scenario.start_all()
        await scenario.complete(job)


async def test_a_hundred_jobs_may_need_one_and_one_may_need_a_hundred(scenario: DependencyScenario) -> None:
    first = await scenario.submit()
    middle = await scenario.submit_many(100, first)
    last = await scenario.submit(*middle)

    await scenario.run(first)
    await scenario.start_all()
    assert set(await scenario.list_places(*middle)) == {"runs"}
    await scenario.complete(*middle[:-1])
    assert await scenario.list_places(last) == ["blocked"]
    await scenario.complete(middle[-1])

    assert await scenario.list_places(last) == ["ready"]


async def test_a_job_that_waits_for_its_time_too_does_so_after_the_one_it_needs(scenario: DependencyScenario) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed, delay=3600)

    await scenario.run(needed)

    assert await scenario.list_places(job) == ["later"]


async def test_what_succeeded_before_needs_no_waiting_for(scenario: DependencyScenario) -> None:
    done, open_one = await scenario.submit_many(2)
    await scenario.run(done)

    assert await scenario.list_places(await scenario.submit(done), await scenario.submit(done, open_one)) == [
        "ready",
        "blocked",
    ]


async def test_to_need_the_same_job_twice_is_to_need_it(scenario: DependencyScenario) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed, needed)

    await scenario.run(needed)

    assert await scenario.list_places(job) == ["ready"]


async def test_what_a_needed_job_did_not_count_or_has_to_try_again_releases_nobody(
    scenario: DependencyScenario,
) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    for ending in ("RETRY", "RELEASE"):
        assert await scenario.run(needed, ending) == "QUEUED"
        assert await scenario.list_places(job) == ["blocked"]


async def test_jobs_may_be_submitted_with_what_they_need_in_one_transaction(
    scenario: DependencyScenario, jobs: Jobs, work: Handler[None, None]
) -> None:
    async with jobs.sessions.tenant(scenario.tenant) as conn:
        needed = await jobs.submit(work, None, tenant=scenario.tenant, conn=conn)
        job = await jobs.submit(work, None, tenant=scenario.tenant, conn=conn, depends_on=[needed])

    assert await scenario.list_places(needed, job) == ["ready", "blocked"]


async def test_a_key_that_is_taken_adds_no_needs_to_the_job_that_has_it(scenario: DependencyScenario) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(key="k")

    assert await scenario.submit(needed, key="k") == job
    assert await scenario.list_places(job) == ["ready"]


# What does not exist -------------------------------------------------------------------------------------------------


async def test_to_need_a_job_that_does_not_exist_is_refused(
    scenario: DependencyScenario, jobs: Jobs, work: Handler[None, None], other_tenant: TenantId
) -> None:
    mine = await scenario.submit()
    theirs = await jobs.submit(work, None, tenant=other_tenant)

    for needs in ([new_id()], [mine, new_id()], [theirs]):
        with pytest.raises(InvalidInput, match="does not exist"):
            await scenario.submit(*needs)

    assert await scenario.list_places(mine) == ["ready"]
    async with jobs.sessions.tenant(scenario.tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job") == 1


# Bad ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_when_a_needed_job_ends_badly_all_that_need_it_are_cancelled_down_to_the_last(
    scenario: DependencyScenario, worker: Connection, ending: str
) -> None:
    top, other = await scenario.submit_many(2)
    left, right = await scenario.submit(top), await scenario.submit(top, other)
    bottom = await scenario.submit(left, right)
    last = await scenario.submit(bottom)

    await scenario.run(top, ending)

    assert await scenario.list_places(left, right, bottom, last) == ["CANCELLED"] * 4
    assert tuple(await worker.fetchrow(ERROR, left) or ()) == (
        "JOB_CANCELLED",
        f"job {top}, which it depends on, ended {ending}",
        str(top),
    )
    assert tuple(await worker.fetchrow(ERROR, last) or ())[2] == str(bottom)
    assert await scenario.list_places(other) == ["runs"], "who is needed is not harmed"


async def test_cancelling_a_job_that_waits_cancels_those_that_need_it(scenario: DependencyScenario) -> None:
    top = await scenario.submit()
    middle = await scenario.submit(top)
    bottom = await scenario.submit(middle)

    assert await scenario.cancel(middle) == "CANCELLED"

    assert await scenario.list_places(top, middle, bottom) == ["ready", "CANCELLED", "CANCELLED"]


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER", "CANCELLED"])
async def test_what_needs_a_job_that_has_ended_badly_already_is_cancelled_at_once(
    scenario: DependencyScenario, ending: str
) -> None:
    bad, fine = await scenario.submit_many(2)
    await scenario.run(bad, ending)
    await scenario.end(fine)

    jobs = [await scenario.submit(bad), await scenario.submit(fine, bad), *(await scenario.submit_many(3, bad))]

    assert await scenario.list_places(*jobs) == ["CANCELLED"] * 5


async def test_a_needed_job_that_succeeds_later_does_not_bring_back_what_was_cancelled(
    scenario: DependencyScenario,
) -> None:
    bad, fine = await scenario.submit_many(2)
    job = await scenario.submit(bad, fine)
    await scenario.run(bad, "FAILED")

    await scenario.end(fine)

    assert await scenario.list_places(job) == ["CANCELLED"]


async def test_a_job_beside_the_chain_is_cancelled_because_of_the_one_it_needs_itself(
    scenario: DependencyScenario, worker: Connection
) -> None:
    top = await scenario.submit()
    middle = await scenario.submit(top)
    bottom = await scenario.submit(top, middle)
    below = await scenario.submit(bottom)

    await scenario.run(top, "FAILED")

    assert await scenario.list_places(middle, bottom, below) == ["CANCELLED"] * 3
    because_of = [tuple(await worker.fetchrow(ERROR, job) or ())[2] for job in (middle, bottom, below)]
    assert because_of == [str(top), str(top), str(bottom)]
    assert await scenario.redrive(top) == "QUEUED"
    assert await scenario.list_places(middle, bottom, below) == ["blocked"] * 3


async def test_a_chain_of_thousands_of_jobs_is_cancelled_and_brought_back(
    scenario: DependencyScenario, worker: Connection
) -> None:
    first = await scenario.submit()
    rest = new_ids(choose_effort(test=1_000, shown=4_999, campaign=4_999))
    await worker.execute("UPDATE jobs.job SET awaited = true")
    await worker.execute(CHAIN, scenario.tenant, [first, *rest[:-1]], rest)

    await scenario.run(first, "FAILED")
    assert await scenario.list_places(*rest) == ["CANCELLED"] * len(rest)
    assert tuple(await worker.fetchrow(ERROR, rest[-1]) or ())[2] == str(rest[-2])
    await scenario.redrive(first)

    assert await scenario.list_places(first, *rest) == ["ready"] + ["blocked"] * len(rest)
