"""What a job is about: stored with it, shown with it, found by it; and which service submitted it.

In the database and in memory alike: both kinds of jobs stand in one list.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from service_jobs import (
    Context,
    Defaults,
    Handler,
    Handlers,
    InvalidInput,
    Jobs,
    Limit,
    Retry,
    Status,
    Subject,
    queries,
)
from service_jobs.database import Sessions
from service_jobs.job import Job, JobError
from service_jobs.schedules import Schedule, list_schedules, put_schedule, submit_due_jobs
from service_jobs.worker.retention import RetentionCleaner
from tests.jobs.support.database_clock import DatabaseClock, clock
from tests.jobs.support.job_stages import end_job, start_job
from tests.jobs.support.run_workers import run_worker, wait_until_all_over

from bpc.core.formats.ids import TenantId

pytestmark = pytest.mark.external
__all__ = ["clock"]

INVOICE = Subject("invoice", "4711", "customer 9")
MANY_SUBJECTS = """
    INSERT INTO jobs.job (tenant_id, job_id, type, max_attempts, payload, created_at, scheduled_at, keep_seconds,
                          subject_kind, subject_id, subject_group)
    SELECT $1, gen_random_uuid(), 'bill', 5, '{}', now(), now(), 60, 'invoice', (n % 2000)::text, (n % 100)::text
      FROM generate_series(1, 20000) AS n
"""


class Seen:
    """What handlers saw."""

    def __init__(self) -> None:
        self.contexts: list[tuple[str, str | None, Subject | None]] = []

    def note(self, ctx: Context) -> None:
        self.contexts.append((ctx.type, ctx.service_id, ctx.subject))


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def mail(handlers: Handlers, seen: Seen) -> Handler[str, None]:
    @handlers.job("mail", subject=lambda address: Subject("letter", address), description="Sends a letter.", timeout=9)
    async def mail(ctx: Context, address: str) -> None:
        seen.note(ctx)

    return mail


@pytest.fixture
def bill(handlers: Handlers, seen: Seen, mail: Handler[str, None]) -> Handler[str, int]:
    @handlers.job("bill", subject=lambda number: Subject("invoice", number, "customer 9"), retry=Retry(attempts=2))
    async def bill(ctx: Context, number: str) -> int:
        seen.note(ctx)
        ctx.submit(mail, f"about {number}")
        return int(number)

    return bill


@pytest.fixture
def ring(handlers: Handlers, seen: Seen) -> Handler[str, None]:
    """Lives in memory."""

    @handlers.job("ring", restartable=False, subject=lambda number: Subject("invoice", number, "customer 9"))
    async def ring(ctx: Context, number: str) -> None:
        seen.note(ctx)

    return ring


def list_subjects(jobs: list[Job]) -> list[tuple[str, Subject | None]]:
    return [(job.type, job.subject) for job in jobs]


async def test_a_job_is_found_by_what_it_is_about(
    jobs: Jobs, tenant: TenantId, bill: Handler[str, int], mail: Handler[str, None]
) -> None:
    first = await jobs.submit(bill, "4711", tenant=tenant)
    told = await jobs.submit(mail, "x", tenant=tenant, subject=INVOICE)
    [_, many] = await jobs.submit_many(bill, ["1", "4711"], tenant=tenant)
    [in_batch] = (await jobs.submit_batch(bill, ["3"], tenant=tenant, subjects=[INVOICE])).job_ids
    await jobs.submit(mail, "y", tenant=tenant)
    await start_job(jobs.sessions, tenant, first, owner="w")

    async def list_ids(**filters: Any) -> list[object]:
        return [job.job_id for job in await jobs.list_jobs(tenant, **filters)]

    newest_first = sorted([first, told, many, in_batch], reverse=True)  # of one millisecond, in any order
    assert await list_ids(subject=INVOICE) == newest_first
    assert await list_ids(subject=INVOICE, job_type="mail") == [told]
    assert await list_ids(subject=INVOICE, status=Status.RUNNING) == [first]
    assert await list_ids(subject=INVOICE, before_id=told) == newest_first[newest_first.index(told) + 1 :]
    assert len(await list_ids(subject_group="customer 9")) == 5
    assert await list_ids(subject_group="customer 9", subject=Subject("invoice", "1"), limit=1) != []
    assert await list_ids(subject=Subject("letter", "4711")) == []
    assert (await jobs.get_job(tenant, told)).subject == INVOICE


async def test_a_follow_up_has_the_group_and_the_service_of_the_job_that_submits_it(
    handlers: Handlers, sessions: Sessions, tenant: TenantId, bill: Handler[str, int], seen: Seen
) -> None:
    jobs = Jobs(handlers, sessions, service_id="shop")
    await jobs.submit(bill, "4711", tenant=tenant)

    async with run_worker(jobs):
        await wait_until_all_over(jobs, tenant)

    letter = Subject("letter", "about 4711", "customer 9")
    assert seen.contexts == [("bill", "shop", INVOICE), ("mail", "shop", letter)]
    assert [job.service_id for job in await jobs.list_jobs(tenant)] == ["shop", "shop"]


async def test_jobs_in_memory_stand_in_the_same_pages(
    handlers: Handlers,
    sessions: Sessions,
    tenant: TenantId,
    bill: Handler[str, int],
    ring: Handler[str, None],
    seen: Seen,
) -> None:
    jobs = Jobs(handlers, sessions, service_id="shop")
    ids = []
    for number in range(4):
        ids.append(await jobs.submit(bill if number % 2 else ring, "4711", tenant=tenant))
        await asyncio.sleep(0.002)  # ids are ordered by the millisecond

    first_page = await jobs.list_jobs(tenant, limit=3)
    second_page = await jobs.list_jobs(tenant, limit=3, before_id=first_page[-1].job_id)
    of_subject = await jobs.list_jobs(tenant, subject=INVOICE)
    of_type = await jobs.list_jobs(tenant, job_type="ring")
    await jobs.close()

    assert [job.job_id for job in [*first_page, *second_page]] == ids[::-1]
    assert list_subjects(list(of_subject)) == [(name, INVOICE) for name in ("bill", "ring", "bill", "ring")]
    assert [job.type for job in of_type] == ["ring", "ring"]
    assert ("ring", "shop", INVOICE) in seen.contexts


@pytest.mark.parametrize("status", [None, Status.RUNNING, Status.FAILED])
async def test_a_page_of_a_subject_is_read_from_its_index_under_row_level_security(
    sessions: Sessions, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]", status: Status | None
) -> None:
    await superuser.execute(MANY_SUBJECTS, tenant)
    await superuser.execute("ANALYZE jobs.job")
    arguments = queries.build_page_arguments(tenant, None, None, None, None, 50)

    async def find_index(statement: str, *more: object) -> set[str]:
        async with sessions.tenant(tenant) as conn:
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            text = await conn.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *arguments, status, *more)
        return {name for name in ("job_of_subject", "job_of_subject_group", "job_pkey") if f'"{name}"' in text}

    assert await find_index(queries.SUBJECT_PAGE, "invoice", "7", None) == {"job_of_subject"}
    assert await find_index(queries.GROUP_PAGE, "7") == {"job_of_subject_group"}


async def test_the_functions_of_the_version_before_still_submit(
    jobs: Jobs, tenant: TenantId, mail: Handler[str, None]
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        one = await conn.fetchval(
            "SELECT jobs.submit_one($1, 'mail', gen_random_uuid(), '\"a\"', NULL, 2::smallint, 5, 60, 'c', NULL, NULL)",
            tenant,
        )
        [many] = await conn.fetchval(
            """SELECT jobs.submit($1, 'mail', ARRAY[gen_random_uuid()], ARRAY['"b"'], NULL, NULL, NULL, NULL,
                                  2::smallint, 5, 60, NULL, NULL, 'c', NULL, NULL)""",
            tenant,
        )

    async with run_worker(jobs):
        await wait_until_all_over(jobs, tenant)

    rows = [await jobs.get_job(tenant, job_id) for job_id in (one, many)]
    assert [(job.status, job.subject, job.service_id) for job in rows] == [(Status.SUCCEEDED, None, None)] * 2


async def test_dead_letters_are_kept_for_a_time_of_their_own(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, bill: Handler[str, int], jobs: Jobs
) -> None:
    ids = [await jobs.submit(bill, "1", tenant=tenant) for _ in range(2)]
    for job_id, status in zip(ids, ("DEAD_LETTER", "FAILED"), strict=True):
        await start_job(sessions, tenant, job_id, owner="w")
        await end_job(sessions, tenant, job_id, status)
    conn = await sessions.connect_worker("test")

    async def clean_after(days: int, **times: Any) -> dict[str, int]:
        await clock.step(days * 86_400.0)
        return await RetentionCleaner(dead_letter_ttl=timedelta(days=90), **times).run(conn)

    assert await clean_after(15, ttl_by_type={"bill": timedelta(days=20)}) == {}
    assert await clean_after(0) == {"FAILED": 1}
    assert await clean_after(76) == {"DEAD_LETTER": 1}
    await conn.close()


async def test_scheduled_jobs_have_their_subject_and_their_limit(
    sessions: Sessions, tenant: TenantId, clock: DatabaseClock, bill: Handler[str, int], jobs: Jobs
) -> None:
    schedule = Schedule.from_input(
        bill, "4711", name="monthly", cron="0 0 * * *", limit=Limit(key="printer", at_most=2)
    )
    async with sessions.tenant(tenant) as conn:
        await put_schedule(conn, tenant, schedule)
        [stored] = await list_schedules(conn, tenant)
    await clock.step(86_400.0)
    conn = await sessions.connect_worker("test")
    await submit_due_jobs(conn)
    await conn.close()

    [job] = await jobs.list_jobs(tenant, subject=INVOICE)
    assert stored.schedule == schedule
    assert (job.subject, job.limit_key) == (INVOICE, "printer")


def test_all_types_are_listed_with_how_they_are_run(
    handlers: Handlers, sessions: Sessions, bill: Handler[str, int], ring: Handler[str, None]
) -> None:
    jobs = Jobs(handlers, sessions, defaults=Defaults(attempts=7, ttl=timedelta(days=3)))

    bill_spec, mail_spec, ring_spec = jobs.list_types()

    assert [spec.type for spec in (bill_spec, mail_spec, ring_spec)] == ["bill", "mail", "ring"]
    assert (bill_spec.max_attempts, mail_spec.max_attempts, mail_spec.keep_seconds) == (2, 7, 3 * 86_400)
    assert (mail_spec.timeout, mail_spec.description, mail_spec.restartable) == (9, "Sends a letter.", True)
    assert not ring_spec.restartable


@pytest.mark.parametrize("parts", [("", "1"), ("a", ""), ("a", "x" * 501), ("a", "\0"), ("a", "1", "\ud800")])
def test_a_subject_that_cannot_be_stored_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="kind, id and group of a subject"):
        Subject(*parts)


def test_an_error_keeps_what_to_do_about_it() -> None:
    error = JobError.from_exception(InvalidInput("no", fix="say yes"))

    assert (error.fix, JobError.from_json(json.loads(error.to_json()))) == ("say yes", error)
