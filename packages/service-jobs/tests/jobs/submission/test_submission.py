"""Specification of submitting: in the caller's transaction or durable at once; one job per key; an answer for each."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import InvalidInput, new_id
from service_jobs.job_spec import Limit
from service_jobs.service import Jobs
from tests.jobs.submission.submission_queries import IN_TURN, PAYLOADS, QUEUED, Page, count_jobs, wait_until_lock_waiter

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external

# In whose transaction ------------------------------------------------------------------------------------------------


async def test_a_job_is_there_when_submit_returns(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    job = await jobs.submit(paint, "red", tenant=tenant)

    assert await count_jobs(jobs, tenant, QUEUED) == await count_jobs(jobs, tenant, IN_TURN) == [job]


async def test_in_the_callers_transaction_jobs_are_committed_with_it(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        one = await jobs.submit(paint, "red", tenant=tenant, conn=conn)
        many = await jobs.submit_many(paint, ["green", "blue"], tenant=tenant, conn=conn)
        assert await count_jobs(jobs, tenant, QUEUED) == [], "nobody else sees them before that"

    assert sorted(await count_jobs(jobs, tenant, QUEUED)) == sorted([one, *many])


async def test_or_rolled_back_with_it_and_their_keys_are_free_again(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with jobs.sessions.tenant(tenant) as conn:
            await jobs.submit(paint, "red", tenant=tenant, conn=conn, key="k")
            await jobs.submit(paint, "blue", tenant=tenant, conn=conn, limit=Limit(key="press", at_most=2))
            await jobs.submit(paint, "grey", tenant=tenant, conn=conn, delay=60)
            raise ZeroDivisionError

    async with jobs.sessions.tenant(tenant) as conn:
        for table in ("job", "job_ready", "job_later", "job_slot"):
            assert await conn.fetchval(f"SELECT count(*) FROM jobs.{table}") == 0
    job = await jobs.submit(paint, "red", tenant=tenant, key="k")
    assert await count_jobs(jobs, tenant, QUEUED) == [job]


async def test_a_connection_that_is_bound_to_no_tenant_is_bound_for_the_call_only(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, other_tenant: TenantId
) -> None:
    async with jobs.sessions.acquire() as conn:
        mine = await jobs.submit(paint, "red", tenant=tenant, conn=conn)
        theirs = await jobs.submit_many(paint, ["red"], tenant=other_tenant, conn=conn)

    assert await count_jobs(jobs, tenant, QUEUED) == [mine]
    assert await count_jobs(jobs, other_tenant, QUEUED) == theirs


@pytest.mark.parametrize("how", [{}, {"delay": 1.0}], ids=["alone", "among others"])
async def test_in_another_tenants_transaction_nothing_is_submitted(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, other_tenant: TenantId, how: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=f"belongs to tenant {tenant}, not to {other_tenant}"):
        async with jobs.sessions.tenant(tenant) as conn:
            await jobs.submit(paint, "red", tenant=other_tenant, conn=conn, **how)

    assert await count_jobs(jobs, other_tenant, QUEUED) == []


async def test_a_tenant_that_does_not_exist_is_named(jobs: Jobs, paint: Handler[str, None]) -> None:
    nobody = new_id()

    with pytest.raises(InvalidInput, match=f"there is no tenant `{nobody}`"):
        await jobs.submit(paint, "red", tenant=nobody)
    with pytest.raises(InvalidInput, match=f"there is no tenant `{nobody}`"):
        await jobs.submit_many(paint, ["red", "blue"], tenant=nobody)
    with pytest.raises(InvalidInput, match=f"there is no tenant `{nobody}`"):
        await jobs.submit(paint, "red", tenant=nobody, depends_on=[new_id()])


# One job per key -----------------------------------------------------------------------------------------------------


async def test_a_key_names_one_job_of_a_type_and_a_tenant(
    jobs: Jobs,
    paint: Handler[str, None],
    printing: Handler[Page, None],
    tenant: TenantId,
    other_tenant: TenantId,
) -> None:
    first = await jobs.submit(paint, "red", tenant=tenant, key="k")

    assert await jobs.submit(paint, "blue", tenant=tenant, key="k", priority=0, delay=5) == first
    assert await jobs.submit_many(paint, ["a", "b"], tenant=tenant, keys=["k", "k"]) == [first, first]
    assert await jobs.submit(printing, Page(number=1), tenant=tenant, key="k") != first
    assert await jobs.submit(paint, "red", tenant=other_tenant, key="k") != first
    assert await jobs.submit(paint, "red", tenant=tenant) != first
    async with jobs.sessions.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT payload::text FROM jobs.job WHERE job_id = $1", first) == '"red"'


async def test_fifty_submissions_of_one_key_at_the_same_moment_make_one_job(
    sessions: Sessions, handlers: Handlers, paint: Handler[str, None], tenant: TenantId
) -> None:
    several = [Jobs(handlers, sessions) for _ in range(5)]  # as many processes would: ten connections, none waits

    ids = await asyncio.gather(
        *(several[n % 5].submit(paint, str(n), tenant=tenant, key="k") for n in range(40)),
        *(several[n % 5].submit_many(paint, [str(n)] * 10, tenant=tenant, keys=["k"] * 10) for n in range(10)),
    )

    answers = {one for answer in ids for one in (answer if isinstance(answer, list) else [answer])}
    assert len(answers) == 1
    assert (
        set(await count_jobs(several[0], tenant, QUEUED))
        == set(await count_jobs(several[0], tenant, IN_TURN))
        == answers
    )


async def test_a_submission_waits_for_another_with_its_key_and_answers_by_how_that_ended(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, superuser: Connection
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        first = await jobs.submit(paint, "red", tenant=tenant, conn=conn, key="k")
        waiting = asyncio.create_task(jobs.submit(paint, "blue", tenant=tenant, key="k"))
        await wait_until_lock_waiter(superuser)
    assert await waiting == first

    with pytest.raises(ZeroDivisionError):
        async with jobs.sessions.tenant(tenant) as conn:
            undone = await jobs.submit(paint, "red", tenant=tenant, conn=conn, key="k2")
            waiting = asyncio.create_task(jobs.submit(paint, "blue", tenant=tenant, key="k2"))
            await wait_until_lock_waiter(superuser)
            raise ZeroDivisionError
    assert await waiting != undone
    assert await count_jobs(jobs, tenant, QUEUED) == sorted([first, await waiting])


@pytest.mark.parametrize("count", [4, 20], ids=["few", "many"])
async def test_a_bulk_with_some_keys_taken_makes_the_rest_and_answers_in_order(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, count: int
) -> None:
    taken = {f"k{n}": await jobs.submit(paint, "first", tenant=tenant, key=f"k{n}") for n in (1, 3)}
    keys = [f"k{n}" for n in range(count)]

    ids = await jobs.submit_many(paint, keys, tenant=tenant, keys=keys)

    assert {key: job for key, job in zip(keys, ids, strict=True) if key in taken} == taken
    async with jobs.sessions.tenant(tenant) as conn:
        payloads = {row["job_id"]: row["payload"] for row in await conn.fetch(PAYLOADS, tenant)}
    assert [payloads[job] for job in ids] == ['"first"' if key in taken else f'"{key}"' for key in keys]
    assert len(set(ids)) == count == len(await count_jobs(jobs, tenant, IN_TURN))


@pytest.mark.parametrize("count", [6, 30], ids=["few", "many"])
async def test_a_key_given_twice_in_one_bulk_makes_one_job_and_no_key_is_no_key(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, count: int
) -> None:
    keys = [None if n % 3 == 0 else "twice" if n % 3 == 1 else f"k{n}" for n in range(count)]

    ids = await jobs.submit_many(paint, [str(n) for n in range(count)], tenant=tenant, keys=keys)

    answered: dict[str | None, set[UUID]] = {}
    for key, job in zip(keys, ids, strict=True):
        answered.setdefault(key, set()).add(job)
    assert {key: len(jobs) for key, jobs in answered.items() if key is not None} == dict.fromkeys(set(keys) - {None}, 1)
    assert len(answered[None]) == keys.count(None)
    assert (
        sorted(await count_jobs(jobs, tenant, QUEUED))
        == sorted(set(ids))
        == sorted(await count_jobs(jobs, tenant, IN_TURN))
    )


async def test_a_bulk_of_keys_that_are_all_taken_makes_nothing(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    keys = [f"k{n}" for n in range(20)]
    first = await jobs.submit_many(paint, keys, tenant=tenant, keys=keys)

    again = await jobs.submit_many(paint, keys[::-1], tenant=tenant, keys=keys[::-1], delay=5)

    assert again == first[::-1]
    assert await count_jobs(jobs, tenant, IN_TURN) == first


async def test_two_bulks_with_the_same_keys_in_opposite_order_do_not_wait_for_each_other_for_ever(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    keys = [f"k{n:03}" for n in range(200)]

    there, back = await asyncio.gather(
        *(jobs.submit_many(paint, order, tenant=tenant, keys=order) for order in (keys, keys[::-1]))
    )

    assert there == back[::-1]
    assert len(await count_jobs(jobs, tenant, IN_TURN)) == 200


async def test_ids_come_in_the_order_of_values_and_sort_that_way_and_that_is_the_order_of_turns(
    jobs: Jobs, printing: Handler[Page, None], tenant: TenantId
) -> None:
    ids = await jobs.submit_many(printing, [Page(number=n) for n in range(1000)], tenant=tenant)

    assert ids == sorted(ids) == await count_jobs(jobs, tenant, IN_TURN)
    async with jobs.sessions.tenant(tenant) as conn:
        payloads = {row["job_id"]: row["payload"] for row in await conn.fetch(PAYLOADS, tenant)}
    assert [payloads[job] for job in ids] == [f'{{"number":{n}}}' for n in range(1000)]
    assert await jobs.submit_many(printing, [], tenant=tenant) == []


SLOW_INSERT = """
    CREATE FUNCTION jobs.wait_here() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(7, 7); RETURN NULL; END';
    CREATE TRIGGER slow AFTER INSERT ON jobs.job FOR EACH STATEMENT EXECUTE FUNCTION jobs.wait_here()
"""


@pytest.mark.parametrize("count", [2, 20])
async def test_a_key_whose_job_retention_removes_at_that_moment_gets_a_new_one(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, superuser: Connection, count: int
) -> None:
    keys = [f"k{n}" for n in range(count)]
    old, kept = await jobs.submit_many(paint, ["red"] * 2, tenant=tenant, keys=keys[:2])
    await superuser.execute(SLOW_INSERT)

    await superuser.execute("SELECT pg_advisory_lock(7, 7)")
    bulk = asyncio.create_task(jobs.submit_many(paint, ["blue"] * count, tenant=tenant, keys=keys))
    await wait_until_lock_waiter(superuser)  # it has seen the keys, and has not asked yet whose they are
    for table in ("job", "job_ready"):
        await superuser.execute(f"DELETE FROM jobs.{table} WHERE job_id = $1", old)
    await superuser.execute("SELECT pg_advisory_unlock(7, 7)")
    ids = await bulk

    assert ids[1] == kept
    assert old not in ids
    assert (
        sorted(await count_jobs(jobs, tenant, QUEUED)) == sorted(ids) == sorted(await count_jobs(jobs, tenant, IN_TURN))
    )
