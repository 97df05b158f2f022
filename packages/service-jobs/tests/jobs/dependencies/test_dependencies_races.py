"""Specification of jobs that need other jobs, when several things happen at the same moment."""

import asyncio
from typing import Any

import asyncpg
import pytest
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.handler import Handler
from service_jobs.service import Jobs
from service_jobs.worker import claims
from tests.jobs.dependencies.dependency_scenario import DependencyScenario, wait_until_lock_waiter, wait_until_waiting

pytestmark = pytest.mark.external

# At the same moment --------------------------------------------------------------------------------------------------


async def test_of_two_needed_jobs_that_end_at_the_same_moment_the_second_sees_the_first(
    scenario: DependencyScenario,
    worker: "asyncpg.Connection[asyncpg.Record]",
    second: "asyncpg.Connection[asyncpg.Record]",
    jobs: Jobs,
) -> None:
    left, right = await scenario.submit_many(2)
    bottom = await scenario.submit(left, right)
    await scenario.start_all()

    async with worker.transaction():
        await scenario.end(left)
        other = asyncio.create_task(scenario.end(right, conn=second))
        async with jobs.sessions.acquire() as watch:
            await wait_until_waiting(watch, second)
    assert await other == "SUCCEEDED"

    assert await scenario.list_places(bottom) == ["ready"]


async def test_a_needed_job_that_succeeds_while_another_fails_does_not_release_anybody(
    scenario: DependencyScenario,
    worker: "asyncpg.Connection[asyncpg.Record]",
    second: "asyncpg.Connection[asyncpg.Record]",
    jobs: Jobs,
) -> None:
    left, right = await scenario.submit_many(2)
    bottom = await scenario.submit(left, right)
    await scenario.start_all()

    async with worker.transaction():
        await scenario.end(left, "FAILED")
        other = asyncio.create_task(scenario.end(right, conn=second))
        async with jobs.sessions.acquire() as watch:
            await wait_until_waiting(watch, second)
    assert await other == "SUCCEEDED"

    assert await scenario.list_places(bottom) == ["CANCELLED"]


@pytest.mark.parametrize(("ending", "place"), [("SUCCEEDED", "ready"), ("FAILED", "CANCELLED")])
@pytest.mark.parametrize("by", ["settle", "exchange"])
async def test_a_needed_job_that_ends_while_the_submission_is_under_way_is_not_missed(
    scenario: DependencyScenario,
    jobs: Jobs,
    work: Handler[None, None],
    second: "asyncpg.Connection[asyncpg.Record]",
    ending: str,
    place: str,
    by: str,
) -> None:
    needed = await scenario.submit()
    await scenario.start_all()

    async with jobs.sessions.tenant(scenario.tenant) as conn:
        job = await jobs.submit(work, None, tenant=scenario.tenant, conn=conn, depends_on=[needed])
        if by == "exchange" and ending == "SUCCEEDED":
            done = [claims.Completion(scenario.tenant, needed, 1, "1")]
            end: Any = asyncio.create_task(claims.complete_and_claim(second, "w", done, [], ["work"], 60.0))
        else:
            end = asyncio.create_task(scenario.end(needed, ending, conn=second))
        await wait_until_waiting(conn, second)
    await end

    assert await scenario.list_places(needed, job) == [ending, place]


@pytest.mark.parametrize(("ending", "place"), [("SUCCEEDED", "ready"), ("FAILED", "CANCELLED")])
async def test_a_submission_waits_for_the_end_of_a_needed_job_that_is_under_way(
    scenario: DependencyScenario,
    superuser: Connection,
    worker: "asyncpg.Connection[asyncpg.Record]",
    ending: str,
    place: str,
) -> None:
    needed = await scenario.submit()
    await scenario.start_all()

    async with worker.transaction():
        await scenario.end(needed, ending)
        submission = asyncio.create_task(scenario.submit(needed))
        await wait_until_lock_waiter(superuser)
        assert not submission.done()

    assert await scenario.list_places(await submission) == [place]


async def test_cancelling_a_job_that_is_being_released_finds_it_where_it_went(
    scenario: DependencyScenario, superuser: Connection, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    await scenario.start_all()

    async with worker.transaction():
        await scenario.end(needed)
        cancelling = asyncio.create_task(scenario.cancel(job))
        await wait_until_lock_waiter(superuser)
    assert await cancelling == "CANCELLED"

    assert await scenario.list_places(job) == ["CANCELLED"]


async def test_a_job_that_is_being_cancelled_is_not_released(
    scenario: DependencyScenario, jobs: Jobs, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    await scenario.start_all()

    async with jobs.sessions.tenant(scenario.tenant) as conn:
        assert await conn.fetchval("SELECT jobs.cancel($1, $2, NULL)", scenario.tenant, job) == "CANCELLED"
        ending = asyncio.create_task(scenario.complete(needed))
        await wait_until_waiting(conn, worker)
    assert await ending == frozenset()

    assert await scenario.list_places(needed, job) == ["SUCCEEDED", "CANCELLED"]


async def test_many_ends_at_the_same_moment_release_every_job_once(
    scenario: DependencyScenario, sessions: Sessions, worker: Connection
) -> None:
    needed = await scenario.submit_many(40)
    dependents = [await scenario.submit(*needed[at::10], *needed[(at + 1) % 10 :: 10]) for at in range(10)]
    last = await scenario.submit(*dependents)
    await scenario.start_all()
    workers = [await sessions.connect_worker(f"w{n}") for n in range(4)]

    async def end(at: int) -> None:
        for job in needed[at::4]:
            await scenario.end(job, conn=workers[at])

    await asyncio.gather(*map(end, range(4)))
    for conn in workers:
        await conn.close()

    assert await scenario.list_places(*dependents, last) == ["ready"] * 10 + ["blocked"]
    assert await worker.fetchval("SELECT count(*) FROM jobs.job_ready") == 10


async def test_who_is_brought_back_while_another_that_it_needs_fails_is_cancelled_again(
    scenario: DependencyScenario, second: "asyncpg.Connection[asyncpg.Record]", jobs: Jobs
) -> None:
    left, right = await scenario.submit_many(2)
    bottom = await scenario.submit(left, right)
    await scenario.start_all()
    await scenario.end(left, "FAILED")

    async with jobs.sessions.tenant(scenario.tenant) as conn:
        await conn.fetchval("SELECT jobs.redrive($1, $2)", scenario.tenant, left)
        other = asyncio.create_task(scenario.end(right, "FAILED", conn=second))
        await wait_until_waiting(conn, second)
    assert await other == "FAILED"

    assert await scenario.list_places(left, bottom) == ["ready", "CANCELLED"]


async def test_who_waits_for_one_that_fails_at_this_moment_is_not_brought_back(
    scenario: DependencyScenario, superuser: Connection, worker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    left, right = await scenario.submit_many(2)
    bottom = await scenario.submit(left, right)
    await scenario.start_all()
    await scenario.end(left, "FAILED")

    async with worker.transaction():
        await scenario.end(right, "FAILED")
        again = asyncio.create_task(scenario.redrive(left))
        await wait_until_lock_waiter(superuser)
    assert await again == "QUEUED"

    assert await scenario.list_places(left, bottom) == ["ready", "CANCELLED"]


async def test_cancelling_and_running_a_job_again_at_the_same_moment_end_without_a_deadlock(
    scenario: DependencyScenario,
) -> None:
    for _ in range(20):
        job = await scenario.submit(delay=3600)

        became, again = await asyncio.gather(scenario.cancel(job), scenario.redrive(job))

        assert (became, again) == ("CANCELLED", "QUEUED")
        assert await scenario.list_places(job) in (["CANCELLED"], ["ready"])  # as who came last wants it
