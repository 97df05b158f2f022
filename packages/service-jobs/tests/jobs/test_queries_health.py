"""Specification of the queue's health: what waits, runs and is stuck, and whether somebody is there to do it."""

import pytest
from service_jobs import queries as module
from service_jobs.database import Sessions
from service_jobs.queries import QueueHealth, TypeCounts, count_by_type, get_health
from tests.jobs.support.database_clock import DatabaseClock, clock  # noqa: F401 (a fixture)
from tests.jobs.support.job_stages import end_job, register_worker, start_job, submit_stage_jobs

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external

EMPTY = QueueHealth(depth=0, active=0, stale=0, oldest_seconds=None, workers=0, unhandled={})


async def get_queue_health(sessions: Sessions, tenant: TenantId | None = None) -> QueueHealth:
    worker = await sessions.connect_worker("test")
    try:
        return await get_health(worker, tenant)
    finally:
        await worker.close()


async def register_test_worker(sessions: Sessions, owner: str, *types: str) -> None:
    worker = await sessions.connect_worker("test")
    await register_worker(worker, owner, types)
    await worker.close()


async def test_an_empty_queue_is_healthy(sessions: Sessions) -> None:
    assert await get_queue_health(sessions) == EMPTY


async def test_what_could_run_now_is_counted_also_what_is_due_and_not_yet_moved(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    needed, *_ = await submit_stage_jobs(sessions, tenant, 2)
    await submit_stage_jobs(sessions, tenant, delay=10)
    await submit_stage_jobs(sessions, tenant, delay=3600)
    await submit_stage_jobs(sessions, tenant, needs=[needed])

    at_first = await get_queue_health(sessions)
    await clock.step(11)
    then = await get_queue_health(sessions)

    assert (at_first.depth, then.depth) == (2, 3)
    assert then.depth_is_exact


async def test_a_job_runs_and_is_stale_when_its_lease_is_over_or_its_worker_is_silent(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await register_test_worker(sessions, "alive", "work")
    await register_test_worker(sessions, "silent", "work")
    for owner, seconds in (("alive", 3600), ("alive", 100), ("silent", 3600), ("unknown", 3600)):
        [job] = await submit_stage_jobs(sessions, tenant)
        await start_job(sessions, tenant, job, owner=owner, seconds=seconds)

    at_first = await get_queue_health(sessions)
    await clock.step(120)
    worker = await sessions.connect_worker("test")
    await worker.execute("UPDATE jobs.job_worker SET heartbeat_at = jobs.clock() WHERE owner = 'alive'")
    await worker.close()
    then = await get_queue_health(sessions)

    assert (at_first.active, at_first.stale, at_first.workers) == (4, 1, 2)
    assert (then.active, then.stale, then.workers) == (4, 3, 1)


async def test_the_oldest_is_the_one_that_could_have_run_for_the_longest_time_in_any_lane(
    sessions: Sessions,
    tenant: TenantId,
    other_tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await clock.stop_at(await clock.now())
    await submit_stage_jobs(sessions, tenant, limit_key="press")
    await clock.step(100)
    await submit_stage_jobs(sessions, other_tenant, priority=0)
    await submit_stage_jobs(sessions, tenant, priority=3)
    await clock.step(20)

    assert (await get_queue_health(sessions)).oldest_seconds == 120
    assert (await get_queue_health(sessions, other_tenant)).oldest_seconds == 20


async def test_a_job_that_failed_and_rested_has_waited_only_since_its_rest_was_over(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await clock.stop_at(await clock.now())
    [job] = await submit_stage_jobs(sessions, tenant)
    await clock.step(1000)
    await end_job(sessions, tenant, job, "RETRY")
    await clock.step(7)

    assert (await get_queue_health(sessions)).oldest_seconds == 7


async def test_a_job_that_is_due_while_nobody_moves_it_grows_old_too(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await clock.stop_at(await clock.now())
    await submit_stage_jobs(sessions, tenant, delay=100)
    before = await get_queue_health(sessions)
    await clock.step(130)

    assert before.oldest_seconds is None
    assert (await get_queue_health(sessions)).oldest_seconds == 30


async def test_types_that_no_living_worker_knows_are_named(
    sessions: Sessions,
    tenant: TenantId,
    clock: DatabaseClock,  # noqa: F811
) -> None:
    await submit_stage_jobs(sessions, tenant, 2, job_type="mail")
    await submit_stage_jobs(sessions, tenant, job_type="fax", delay=1)
    await submit_stage_jobs(sessions, tenant, job_type="telex", delay=3600)
    await register_test_worker(sessions, "one", "print", "mail")
    await clock.step(2)

    known = await get_queue_health(sessions)
    await clock.step(module.DEAD_AFTER_SECONDS + 1)
    nobody = await get_queue_health(sessions)

    assert (known.unhandled, known.workers) == ({"fax": 1}, 1)
    assert (nobody.unhandled, nobody.workers) == ({"fax": 1, "mail": 2}, 0)


async def test_each_type_is_counted_at_every_stage(sessions: Sessions, tenant: TenantId) -> None:
    waits, runs, dead, refused, fine = await submit_stage_jobs(sessions, tenant, 5, job_type="mail")
    await submit_stage_jobs(sessions, tenant, 2, job_type="mail", delay=3600)
    await submit_stage_jobs(sessions, tenant, job_type="print", needs=[waits])
    [over] = await submit_stage_jobs(sessions, tenant, job_type="quiet")
    await start_job(sessions, tenant, runs)
    await end_job(sessions, tenant, dead, "DEAD_LETTER")
    await end_job(sessions, tenant, refused, "FAILED")
    await end_job(sessions, tenant, fine, "SUCCEEDED")
    await end_job(sessions, tenant, over, "SUCCEEDED")

    async with sessions.tenant(tenant) as conn:
        counts = await count_by_type(conn, tenant)

    assert counts == {"mail": TypeCounts(queued=1, later=2, running=1, dead_letter=1, failed=1)}


async def test_a_tenant_sees_its_own_queue_and_who_works_and_the_system_sees_all(
    sessions: Sessions, tenant: TenantId, other_tenant: TenantId
) -> None:
    await register_test_worker(sessions, "one", "mail")
    await submit_stage_jobs(sessions, tenant, 2, job_type="mail")
    theirs, *_ = await submit_stage_jobs(sessions, other_tenant, 3, job_type="print")
    await submit_stage_jobs(sessions, other_tenant, delay=3600, job_type="print")
    await start_job(sessions, other_tenant, theirs)

    async with sessions.tenant(tenant) as conn:
        mine, mine_by_type = await get_health(conn), await count_by_type(conn)
        asked_for_theirs = await get_health(conn, other_tenant)
    everything = await get_queue_health(sessions)

    assert (mine.depth, mine.active, mine.workers, mine.unhandled) == (2, 0, 1, {})
    assert list(mine_by_type) == ["mail"]
    assert (asked_for_theirs.depth, asked_for_theirs.active, asked_for_theirs.oldest_seconds) == (0, 0, None)
    assert (everything.depth, everything.active, everything.unhandled) == (4, 1, {"print": 2})
    assert (await get_queue_health(sessions, other_tenant)).depth == 2


async def test_nothing_is_counted_beyond_a_bound_and_the_figure_says_so(
    sessions: Sessions, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_COUNTED", 5)
    await submit_stage_jobs(sessions, tenant, 4)
    below = await get_queue_health(sessions)
    await submit_stage_jobs(sessions, tenant, 4)
    above = await get_queue_health(sessions)

    assert (below.depth, below.depth_is_exact) == (4, True)
    assert (above.depth, above.depth_is_exact) == (5, False)
