"""Specification of limits, of submissions that share a transaction, and of what is refused."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from service_jobs.context import Connection, Context
from service_jobs.handler import Handler, Handlers
from service_jobs.job import HandlerNotFound, InvalidInput
from service_jobs.job_spec import MAX_DELAY_SECONDS, MAX_KEY_LENGTH, Limit
from service_jobs.service import Jobs
from service_jobs.submission import Submitter
from tests.jobs.submission.submission_queries import QUEUED, SLOTS, Page, count_jobs, wait_until_lock_waiter

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external

# Limits --------------------------------------------------------------------------------------------------------------


async def test_the_latest_word_on_a_limit_counts(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    for at_most in (2, 5, 3):
        await jobs.submit(paint, "red", tenant=tenant, limit=Limit(key="press", at_most=at_most))
        assert await count_jobs(jobs, tenant, SLOTS, "press") == list(range(1, at_most + 1))


async def test_jobs_of_one_submission_may_have_different_keys_but_one_limit(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    limits = [Limit(key="press", at_most=2), None, Limit(key="oven", at_most=2)]
    await jobs.submit_many(paint, ["a", "b", "c"], tenant=tenant, limits=limits)
    assert await count_jobs(jobs, tenant, SLOTS, "press") == await count_jobs(jobs, tenant, SLOTS, "oven") == [1, 2]

    with pytest.raises(InvalidInput, match="must have the same limit"):
        await jobs.submit_many(paint, ["a", "b", "c"], tenant=tenant, limits=[*limits[:2], Limit(key="x", at_most=3)])


async def test_submissions_with_the_same_new_limit_at_the_same_moment_make_its_slots_once(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    limit = Limit(key="press", at_most=3)

    await asyncio.gather(*(jobs.submit_many(paint, ["a"], tenant=tenant, limits=[limit]) for _ in range(20)))

    assert await count_jobs(jobs, tenant, SLOTS, "press") == [1, 2, 3]


# Shared transactions -------------------------------------------------------------------------------------------------


async def test_many_single_submissions_of_several_tenants_and_types_each_get_their_own_id(
    jobs: Jobs,
    paint: Handler[str, None],
    printing: Handler[Page, None],
    tenant: TenantId,
    other_tenant: TenantId,
) -> None:
    async def submit(n: int) -> tuple[UUID, UUID, str, str]:
        whose = tenant if n % 2 else other_tenant
        if n % 3:
            return await jobs.submit(paint, f"c{n}", tenant=whose), whose, "paint", f'"c{n}"'
        return await jobs.submit(printing, Page(number=n), tenant=whose), whose, "print", f'{{"number":{n}}}'

    answers = await asyncio.gather(*map(submit, range(600)))

    assert len({job for job, *_ in answers}) == 600
    stored = {}
    for whose in (tenant, other_tenant):
        async with jobs.sessions.tenant(whose) as conn:
            for row in await conn.fetch("SELECT job_id, tenant_id, type, payload::text AS payload FROM jobs.job"):
                stored[row["job_id"]] = (row["tenant_id"], row["type"], row["payload"])
    assert stored == {job: tuple(rest) for job, *rest in answers}


async def test_single_submissions_at_the_same_moment_share_transactions(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    ids = await asyncio.gather(*(jobs.submit(paint, "red", tenant=tenant) for _ in range(300)))

    async with jobs.sessions.tenant(tenant) as conn:
        commits = await conn.fetchval("SELECT count(DISTINCT xmin::text) FROM jobs.job WHERE job_id = ANY ($1)", ids)
    assert commits <= 10


async def test_one_bad_submission_does_not_hurt_those_it_shares_a_transaction_with(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    bad = "a payload that no database keeps"

    def input_text(value: str) -> str:
        return "no json" if value == bad else f'"{value}"'

    values = [bad if n == 30 else str(n) for n in range(60)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Handler, "encode_input", staticmethod(input_text))
        answers = await asyncio.gather(
            *(jobs.submit(paint, value, tenant=tenant) for value in values), return_exceptions=True
        )

    wrong = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(one) for one in wrong] == [asyncpg.InvalidTextRepresentationError]
    assert answers.index(wrong[0]) == 30
    assert sorted(await count_jobs(jobs, tenant, QUEUED)) == sorted(one for one in answers if isinstance(one, UUID))


async def test_whoever_gives_up_waiting_does_not_keep_the_others(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    waiting = [asyncio.create_task(jobs.submit(paint, str(n), tenant=tenant)) for n in range(50)]
    await asyncio.sleep(0)
    for task in waiting[::5]:
        task.cancel()

    answers = await asyncio.gather(*waiting, return_exceptions=True)

    ids = {answer for answer in answers if isinstance(answer, UUID)}
    assert len(ids) == 40
    assert ids <= set(await count_jobs(jobs, tenant, QUEUED))


async def test_when_the_connection_is_lost_those_it_carried_are_told_and_later_ones_work(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, superuser: Connection
) -> None:
    jobs._submitter = Submitter(jobs.sessions, senders=1)
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE jobs.job IN EXCLUSIVE MODE")
        carried = [asyncio.create_task(jobs.submit(paint, str(n), tenant=tenant)) for n in range(2)]
        await wait_until_lock_waiter(superuser)
        behind = [asyncio.create_task(jobs.submit(paint, str(n), tenant=tenant)) for n in range(2, 10)]
        await asyncio.sleep(0)
        await superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        told = await asyncio.wait_for(asyncio.gather(*carried, return_exceptions=True), 60)

    assert all(isinstance(one, asyncpg.PostgresError | asyncpg.InterfaceError | OSError) for one in told), told
    ids = await asyncio.wait_for(asyncio.gather(*behind), 60)
    ids.append(await jobs.submit(paint, "later", tenant=tenant))
    assert sorted(await count_jobs(jobs, tenant, QUEUED)) == sorted(ids)


async def test_when_no_connection_can_be_had_everybody_is_told(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    await jobs.sessions.close()

    answers = await asyncio.wait_for(
        asyncio.gather(*(jobs.submit(paint, str(n), tenant=tenant) for n in range(10)), return_exceptions=True), 60
    )

    assert {type(answer) for answer in answers} == {RuntimeError}


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"priority": 4}, "not 4"),
        ({"priority": -1}, "not -1"),
        ({"delay": -0.001}, "delay must be between 0 seconds and ten years"),
        ({"delay": MAX_DELAY_SECONDS * 1.01}, "delay must be between 0 seconds and ten years"),
        ({"delay": float("nan")}, "delay must be between 0 seconds and ten years"),
        ({"delay": float("inf")}, "delay must be between 0 seconds and ten years"),
        ({"key": ""}, f"1 to {MAX_KEY_LENGTH} characters, not 0"),
        ({"key": "k" * (MAX_KEY_LENGTH + 1)}, f"1 to {MAX_KEY_LENGTH} characters, not {MAX_KEY_LENGTH + 1}"),
        ({"key": "a\0b"}, "key cannot be stored"),
        ({"key": "\ud800"}, "key cannot be stored"),
    ],
)
async def test_what_cannot_be_stored_is_refused_before_anything_is_sent(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        await jobs.submit(paint, "red", tenant=tenant, **wrong)
    many = {"keys": [None, wrong["key"]]} if "key" in wrong else wrong
    with pytest.raises(InvalidInput, match=says):
        await jobs.submit_many(paint, ["red", "blue"], tenant=tenant, **many)


@pytest.mark.parametrize("key", ["", "k" * 201, "a\0b", "\ud800"])
async def test_a_limit_whose_key_cannot_be_stored_is_refused(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, key: str
) -> None:
    with pytest.raises(InvalidInput):
        await jobs.submit(paint, "red", tenant=tenant, limit=Limit(key=key, at_most=1))
    with pytest.raises(InvalidInput):
        await jobs.submit_many(paint, ["red"], tenant=tenant, limits=[Limit(key=key, at_most=1)])


@pytest.mark.parametrize("at_most", [0, -1, 10_001])
def test_a_limit_lets_at_least_one_job_run(at_most: int) -> None:
    with pytest.raises(InvalidInput):
        Limit(key="press", at_most=at_most)


async def test_the_longest_key_and_the_longest_delay_are_kept(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    key = "\U0001f511" * MAX_KEY_LENGTH  # four bytes each, and an index has to hold them all

    job = await jobs.submit(paint, "red", tenant=tenant, key=key, delay=MAX_DELAY_SECONDS)

    assert await jobs.submit(paint, "red", tenant=tenant, key=key) == job


async def test_a_value_that_the_handler_does_not_take_is_refused_with_every_problem(
    jobs: Jobs, printing: Handler[Page, None], tenant: TenantId
) -> None:
    wrong: Any = "no page"

    with pytest.raises(InvalidInput, match="this input is not valid for a `print` job"):
        await jobs.submit(printing, wrong, tenant=tenant)
    with pytest.raises(InvalidInput, match="this input is not valid for a `print` job"):
        await jobs.submit_many(printing, [Page(number=1), wrong], tenant=tenant)
    assert await count_jobs(jobs, tenant, QUEUED) == []


async def test_a_handler_that_is_not_registered_here_is_refused(jobs: Jobs, tenant: TenantId) -> None:
    @Handlers().job("elsewhere")
    async def elsewhere(ctx: Context, value: None) -> None: ...

    with pytest.raises(HandlerNotFound, match="elsewhere"):
        await jobs.submit(elsewhere, None, tenant=tenant)
    with pytest.raises(HandlerNotFound, match="elsewhere"):
        await jobs.submit_many(elsewhere, [None], tenant=tenant)


@pytest.mark.parametrize("named", [{"keys": ["k"]}, {"limits": [None]}])
async def test_there_is_a_key_and_a_limit_for_each_value_or_for_none(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, named: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="2 jobs but 1"):
        await jobs.submit_many(paint, ["red", "blue"], tenant=tenant, **named)


async def test_text_of_any_kind_comes_back_as_it_was(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    text = 'nul \0, quote ", backslash \\, snowman ☃, key \U0001f511'

    job = await jobs.submit(paint, text, tenant=tenant)

    async with jobs.sessions.tenant(tenant) as conn:
        stored = await conn.fetchval("SELECT payload::text FROM jobs.job WHERE job_id = $1", job)
    assert paint.decode_input(stored) == text
