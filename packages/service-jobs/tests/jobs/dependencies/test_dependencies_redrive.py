"""Specification of running needed jobs again: those that were cancelled because of them wait again."""

import asyncio
from collections.abc import Sequence

import pytest
from service_jobs.context import Connection
from service_jobs.worker.retention import RetentionCleaner
from tests.jobs.dependencies.dependency_scenario import DependencyScenario, wait_until_lock_waiter

pytestmark = pytest.mark.external

# Redrive -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["FAILED", "DEAD_LETTER"])
async def test_when_the_needed_job_is_run_again_all_that_were_cancelled_because_of_it_wait_again(
    scenario: DependencyScenario, ending: str
) -> None:
    top = await scenario.submit()
    left, right = await scenario.submit(top), await scenario.submit(top)
    bottom = await scenario.submit(left, right)
    last = await scenario.submit(bottom)
    await scenario.run(top, ending)

    assert await scenario.redrive(top) == "QUEUED"

    assert await scenario.list_places(top, left, right, bottom, last) == ["ready"] + ["blocked"] * 4
    for job in (top, left, right, bottom, last):
        assert await scenario.run(job) == "SUCCEEDED"


async def test_what_somebody_cancelled_stays_cancelled(scenario: DependencyScenario) -> None:
    top = await scenario.submit()
    cancelled, waiting = await scenario.submit(top), await scenario.submit(top)
    below = await scenario.submit(cancelled, waiting)
    await scenario.cancel(cancelled)
    await scenario.run(top, "FAILED")

    await scenario.redrive(top)

    assert await scenario.list_places(cancelled, waiting, below) == ["CANCELLED", "blocked", "CANCELLED"]


async def test_what_somebody_cancelled_and_runs_again_waits_for_what_it_needs_and_brings_back_who_waits_for_it(
    scenario: DependencyScenario,
) -> None:
    top = await scenario.submit()
    cancelled = await scenario.submit(top)
    below = await scenario.submit(cancelled)
    await scenario.cancel(cancelled)

    assert await scenario.redrive(cancelled) == "QUEUED"

    assert await scenario.list_places(top, cancelled, below) == ["ready", "blocked", "blocked"]
    for job in (top, cancelled, below):
        assert await scenario.run(job) == "SUCCEEDED"


async def test_what_somebody_cancelled_runs_at_once_if_all_it_needs_has_succeeded_since(
    scenario: DependencyScenario,
) -> None:
    top = await scenario.submit()
    cancelled = await scenario.submit(top)
    await scenario.cancel(cancelled)
    await scenario.run(top)

    assert await scenario.redrive(cancelled) == "QUEUED"

    assert await scenario.list_places(cancelled) == ["ready"]


async def test_what_somebody_cancelled_is_not_run_again_before_what_it_needs(scenario: DependencyScenario) -> None:
    top = await scenario.submit()
    cancelled, waiting = await scenario.submit(top), await scenario.submit(top)
    await scenario.cancel(cancelled)
    await scenario.run(top, "FAILED")

    early = [await scenario.redrive(job) for job in (cancelled, waiting)]
    await scenario.redrive(top)
    late = await scenario.redrive(cancelled)

    assert (early, late) == (["CANCELLED", "CANCELLED"], "QUEUED")
    assert await scenario.list_places(top, cancelled, waiting) == ["ready", "blocked", "blocked"]


async def test_what_needs_a_job_that_failed_and_was_removed_is_not_run_again(
    scenario: DependencyScenario, worker: Connection
) -> None:
    needed, other = await scenario.submit_many(2)
    cancelled, waiting = await scenario.submit(needed), await scenario.submit(needed, other)
    await scenario.cancel(cancelled)
    await scenario.run(needed, "FAILED")
    await scenario.run(other, "FAILED")
    await worker.execute("UPDATE jobs.job SET keep_seconds = 0 WHERE job_id = $1", needed)

    assert await RetentionCleaner().run(worker) == {"FAILED": 1}

    assert (await scenario.redrive(cancelled), await scenario.redrive(other)) == ("CANCELLED", "QUEUED")
    assert await scenario.list_places(cancelled, waiting) == ["CANCELLED", "CANCELLED"]


async def test_what_is_run_again_while_what_it_needs_fails_is_cancelled_again(
    scenario: DependencyScenario, worker: Connection, superuser: Connection
) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    await scenario.start_all()
    await scenario.cancel(job)

    async with worker.transaction():
        await scenario.end(needed, "FAILED")
        again = asyncio.create_task(scenario.redrive(job))
        await wait_until_lock_waiter(superuser)

    assert await again == "CANCELLED"
    assert await scenario.list_places(job) == ["CANCELLED"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first fails first", "second fails first"])
@pytest.mark.parametrize("again", [(0, 1), (1, 0)], ids=["first runs again first", "second runs again first"])
async def test_a_job_that_two_failed_for_waits_again_when_both_are_run_again(
    scenario: DependencyScenario, order: Sequence[int], again: Sequence[int]
) -> None:
    needed = await scenario.submit_many(2)
    job = await scenario.submit(*needed)
    await scenario.start_all()
    for at in order:
        await scenario.end(needed[at], "FAILED")

    await scenario.redrive(needed[again[0]])
    assert await scenario.list_places(job) == ["CANCELLED"]
    await scenario.redrive(needed[again[1]])
    assert await scenario.list_places(job) == ["blocked"]

    await scenario.start_all()
    await scenario.end(needed[0])
    await scenario.end(needed[1])
    assert await scenario.list_places(job) == ["ready"]


async def test_what_was_run_again_and_failed_again_cancels_again(scenario: DependencyScenario) -> None:
    needed = await scenario.submit()
    job = await scenario.submit(needed)
    for _ in range(3):
        await scenario.run(needed, "FAILED")
        assert await scenario.list_places(job) == ["CANCELLED"]
        await scenario.redrive(needed)
        assert await scenario.list_places(job) == ["blocked"]

    await scenario.run(needed)

    assert await scenario.list_places(job) == ["ready"]
