"""Specification of submitting: in the caller's transaction or durable at once; one job per key; an answer for each."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from pydantic import BaseModel

from bpc.core.ids import TenantId
from bpc.jobs.context import Connection, Context, Limit
from bpc.jobs.errors import HandlerNotFound, InvalidInput
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.ids import new_id
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import LONGEST_DELAY, LONGEST_KEY, Submitter

pytestmark = pytest.mark.external

QUEUED = "SELECT job_id FROM jobs.job WHERE tenant_id = $1 ORDER BY job_id"
IN_TURN = "SELECT job_id FROM jobs.job_ready WHERE tenant_id = $1 ORDER BY seq"
PAYLOADS = "SELECT job_id, payload::text AS payload FROM jobs.job WHERE tenant_id = $1"
SLOTS = "SELECT slot FROM jobs.job_slot WHERE tenant_id = $1 AND limit_key = $2 ORDER BY slot"


WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Page(BaseModel):
    """What a `print` job takes."""

    number: int


@pytest.fixture
def paint(handlers: Handlers) -> Handler[str, None]:
    @handlers.job("paint")
    async def paint(ctx: Context, colour: str) -> None: ...

    return paint


@pytest.fixture
def printing(handlers: Handlers) -> Handler[Page, None]:
    @handlers.job("print")
    async def printing(ctx: Context, page: Page) -> None: ...

    return printing


async def found(jobs: Jobs, tenant: UUID, query: str, *more: object) -> list[UUID]:
    async with jobs.sessions.tenant(tenant) as conn:
        return [row[0] for row in await conn.fetch(query, tenant, *more)]


# In whose transaction ------------------------------------------------------------------------------------------------


async def test_a_job_is_there_when_submit_returns(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    job = await jobs.submit(paint, "red", tenant=tenant)

    assert await found(jobs, tenant, QUEUED) == await found(jobs, tenant, IN_TURN) == [job]


async def test_in_the_callers_transaction_jobs_are_committed_with_it(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        one = await jobs.submit(paint, "red", tenant=tenant, conn=conn)
        many = await jobs.submit_many(paint, ["green", "blue"], tenant=tenant, conn=conn)
        assert await found(jobs, tenant, QUEUED) == [], "nobody else sees them before that"

    assert sorted(await found(jobs, tenant, QUEUED)) == sorted([one, *many])


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
    assert await found(jobs, tenant, QUEUED) == [job]


async def test_a_connection_that_is_bound_to_no_tenant_is_bound_for_the_call_only(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, other_tenant: TenantId
) -> None:
    async with jobs.sessions.plain() as conn:
        mine = await jobs.submit(paint, "red", tenant=tenant, conn=conn)
        theirs = await jobs.submit_many(paint, ["red"], tenant=other_tenant, conn=conn)

    assert await found(jobs, tenant, QUEUED) == [mine]
    assert await found(jobs, other_tenant, QUEUED) == theirs


@pytest.mark.parametrize("how", [{}, {"delay": 1.0}], ids=["alone", "among others"])
async def test_in_another_tenants_transaction_nothing_is_submitted(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, other_tenant: TenantId, how: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=f"belongs to tenant {tenant}, not to {other_tenant}"):
        async with jobs.sessions.tenant(tenant) as conn:
            await jobs.submit(paint, "red", tenant=other_tenant, conn=conn, **how)

    assert await found(jobs, other_tenant, QUEUED) == []


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
    assert set(await found(several[0], tenant, QUEUED)) == set(await found(several[0], tenant, IN_TURN)) == answers


async def test_a_submission_waits_for_another_with_its_key_and_answers_by_how_that_ended(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, superuser: Connection
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        first = await jobs.submit(paint, "red", tenant=tenant, conn=conn, key="k")
        waiting = asyncio.create_task(jobs.submit(paint, "blue", tenant=tenant, key="k"))
        await until_somebody_waits(superuser)
    assert await waiting == first

    with pytest.raises(ZeroDivisionError):
        async with jobs.sessions.tenant(tenant) as conn:
            undone = await jobs.submit(paint, "red", tenant=tenant, conn=conn, key="k2")
            waiting = asyncio.create_task(jobs.submit(paint, "blue", tenant=tenant, key="k2"))
            await until_somebody_waits(superuser)
            raise ZeroDivisionError
    assert await waiting != undone
    assert await found(jobs, tenant, QUEUED) == sorted([first, await waiting])


async def until_somebody_waits(superuser: Connection) -> None:
    """Return when a session of this database waits for a lock."""
    async with asyncio.timeout(60):
        while not await superuser.fetchval(WAITING):
            await asyncio.sleep(0.01)
            await superuser.execute("SELECT pg_stat_clear_snapshot()")  # it may be in a transaction


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
    assert len(set(ids)) == count == len(await found(jobs, tenant, IN_TURN))


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
    assert sorted(await found(jobs, tenant, QUEUED)) == sorted(set(ids)) == sorted(await found(jobs, tenant, IN_TURN))


async def test_a_bulk_of_keys_that_are_all_taken_makes_nothing(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    keys = [f"k{n}" for n in range(20)]
    first = await jobs.submit_many(paint, keys, tenant=tenant, keys=keys)

    again = await jobs.submit_many(paint, keys[::-1], tenant=tenant, keys=keys[::-1], delay=5)

    assert again == first[::-1]
    assert await found(jobs, tenant, IN_TURN) == first


async def test_two_bulks_with_the_same_keys_in_opposite_order_do_not_wait_for_each_other_for_ever(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    keys = [f"k{n:03}" for n in range(200)]

    there, back = await asyncio.gather(
        *(jobs.submit_many(paint, order, tenant=tenant, keys=order) for order in (keys, keys[::-1]))
    )

    assert there == back[::-1]
    assert len(await found(jobs, tenant, IN_TURN)) == 200


async def test_ids_come_in_the_order_of_values_and_sort_that_way_and_that_is_the_order_of_turns(
    jobs: Jobs, printing: Handler[Page, None], tenant: TenantId
) -> None:
    ids = await jobs.submit_many(printing, [Page(number=n) for n in range(1000)], tenant=tenant)

    assert ids == sorted(ids) == await found(jobs, tenant, IN_TURN)
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
    await until_somebody_waits(superuser)  # it has seen the keys, and has not asked yet whose they are
    for table in ("job", "job_ready"):
        await superuser.execute(f"DELETE FROM jobs.{table} WHERE job_id = $1", old)
    await superuser.execute("SELECT pg_advisory_unlock(7, 7)")
    ids = await bulk

    assert ids[1] == kept
    assert old not in ids
    assert sorted(await found(jobs, tenant, QUEUED)) == sorted(ids) == sorted(await found(jobs, tenant, IN_TURN))


# Limits --------------------------------------------------------------------------------------------------------------


async def test_the_latest_word_on_a_limit_counts(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    for at_most in (2, 5, 3):
        await jobs.submit(paint, "red", tenant=tenant, limit=Limit(key="press", at_most=at_most))
        assert await found(jobs, tenant, SLOTS, "press") == list(range(1, at_most + 1))


async def test_jobs_of_one_submission_may_have_different_keys_but_one_limit(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    limits = [Limit(key="press", at_most=2), None, Limit(key="oven", at_most=2)]
    await jobs.submit_many(paint, ["a", "b", "c"], tenant=tenant, limits=limits)
    assert await found(jobs, tenant, SLOTS, "press") == await found(jobs, tenant, SLOTS, "oven") == [1, 2]

    with pytest.raises(InvalidInput, match="must have the same limit"):
        await jobs.submit_many(paint, ["a", "b", "c"], tenant=tenant, limits=[*limits[:2], Limit(key="x", at_most=3)])


async def test_submissions_with_the_same_new_limit_at_the_same_moment_make_its_slots_once(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId
) -> None:
    limit = Limit(key="press", at_most=3)

    await asyncio.gather(*(jobs.submit_many(paint, ["a"], tenant=tenant, limits=[limit]) for _ in range(20)))

    assert await found(jobs, tenant, SLOTS, "press") == [1, 2, 3]


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
        patched.setattr(Handler, "input_text", staticmethod(input_text))
        answers = await asyncio.gather(
            *(jobs.submit(paint, value, tenant=tenant) for value in values), return_exceptions=True
        )

    wrong = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(one) for one in wrong] == [asyncpg.InvalidTextRepresentationError]
    assert answers.index(wrong[0]) == 30
    assert sorted(await found(jobs, tenant, QUEUED)) == sorted(one for one in answers if isinstance(one, UUID))


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
    assert ids <= set(await found(jobs, tenant, QUEUED))


async def test_when_the_connection_is_lost_those_it_carried_are_told_and_later_ones_work(
    jobs: Jobs, paint: Handler[str, None], tenant: TenantId, superuser: Connection
) -> None:
    jobs._submitter = Submitter(jobs.sessions, lanes=1)
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE jobs.job IN EXCLUSIVE MODE")
        carried = [asyncio.create_task(jobs.submit(paint, str(n), tenant=tenant)) for n in range(2)]
        await until_somebody_waits(superuser)
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
    assert sorted(await found(jobs, tenant, QUEUED)) == sorted(ids)


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
        ({"delay": -0.001}, "a delay is 0 seconds to ten years"),
        ({"delay": LONGEST_DELAY * 1.01}, "a delay is 0 seconds to ten years"),
        ({"delay": float("nan")}, "a delay is 0 seconds to ten years"),
        ({"delay": float("inf")}, "a delay is 0 seconds to ten years"),
        ({"key": ""}, f"1 to {LONGEST_KEY} characters, not 0"),
        ({"key": "k" * (LONGEST_KEY + 1)}, f"1 to {LONGEST_KEY} characters, not {LONGEST_KEY + 1}"),
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
    key = "\U0001f511" * LONGEST_KEY  # four bytes each, and an index has to hold them all

    job = await jobs.submit(paint, "red", tenant=tenant, key=key, delay=LONGEST_DELAY)

    assert await jobs.submit(paint, "red", tenant=tenant, key=key) == job


async def test_a_value_that_the_handler_does_not_take_is_refused_with_every_problem(
    jobs: Jobs, printing: Handler[Page, None], tenant: TenantId
) -> None:
    wrong: Any = "no page"

    with pytest.raises(InvalidInput, match="a `print` job cannot be made of this input"):
        await jobs.submit(printing, wrong, tenant=tenant)
    with pytest.raises(InvalidInput, match="a `print` job cannot be made of this input"):
        await jobs.submit_many(printing, [Page(number=1), wrong], tenant=tenant)
    assert await found(jobs, tenant, QUEUED) == []


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
    with pytest.raises(InvalidInput, match="there are 2 jobs and 1"):
        await jobs.submit_many(paint, ["red", "blue"], tenant=tenant, **named)


async def test_text_of_any_kind_comes_back_as_it_was(jobs: Jobs, paint: Handler[str, None], tenant: TenantId) -> None:
    text = 'nul \0, quote ", backslash \\, snowman ☃, key \U0001f511'

    job = await jobs.submit(paint, text, tenant=tenant)

    async with jobs.sessions.tenant(tenant) as conn:
        stored = await conn.fetchval("SELECT payload::text FROM jobs.job WHERE job_id = $1", job)
    assert paint.read_input(stored) == text
