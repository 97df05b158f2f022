"""Specification of `Jobs`: what it refuses, what it counts, what it passes on."""

import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from service_jobs import schedules, telemetry
from service_jobs.batches import BatchFinisher
from service_jobs.context import Context
from service_jobs.cron import CatchUp
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import HandlerNotFound, InvalidInput, JobConflict, JobNotFound, QueueFull, Retry, Status
from service_jobs.job_spec import Defaults
from service_jobs.schedules import ScheduleNotFound
from service_jobs.service import Jobs
from service_jobs.telemetry import Metrics
from tests.jobs.support.job_stages import end_job
from tests.jobs.support.run_workers import run_worker, wait_until_all_over

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

pytestmark = pytest.mark.external

LIMITS = "SELECT job_id, max_attempts FROM jobs.job WHERE tenant_id = $1"
TRACED = "SELECT DISTINCT traceparent FROM jobs.job WHERE tenant_id = $1"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def paint(handlers: Handlers) -> Handler[str, str]:
    @handlers.job("paint", retry=Retry(attempts=3))
    async def paint(ctx: Context, colour: str) -> str:
        return colour

    return paint


@pytest.fixture
def ping(handlers: Handlers) -> Handler[None, object]:
    """Lives in memory, and returns what no database keeps."""

    @handlers.job("ping", restartable=False)
    async def ping(ctx: Context, value: None) -> object:
        return MADE

    return ping


MADE = threading.Lock()


class RecordingTrigger:
    """A trigger that remembers for which jobs it was rung."""

    def __init__(self) -> None:
        self.ids: list[UUID] = []

    def publish(self, job_ids: Sequence[UUID]) -> None:
        self.ids += job_ids


def get_enqueued_count(jobs: Jobs, job_type: str = "paint") -> float:
    return jobs.metrics.registry.get_sample_value("service_jobs_enqueued_total", {"type": job_type}) or 0.0


# What only jobs in the database can do -------------------------------------------------------------------------------


async def test_a_job_in_memory_cannot_be_part_of_a_transaction(
    jobs: Jobs, ping: Handler[None, object], tenant: TenantId
) -> None:
    async with jobs.sessions.tenant(tenant) as conn:
        with pytest.raises(InvalidInput, match="live in memory and cannot be part of a transaction") as refused:
            await jobs.submit(ping, None, tenant=tenant, conn=conn)

    assert refused.value.fix
    assert jobs.memory.get_health().depth == jobs.memory.get_health().active == 0


async def test_a_job_in_memory_cannot_be_scheduled_follow_a_batch_or_have_attempts_of_its_own(
    jobs: Jobs, paint: Handler[str, str], ping: Handler[None, object], tenant: TenantId
) -> None:
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: jobs.schedule("often", "* * * * *", ping, None, tenant=tenant),
        lambda: jobs.submit_batch(paint, ["red"], tenant=tenant, then=ping),
        lambda: jobs.submit(ping, None, tenant=tenant, attempts=2),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match="jobs of type `ping` live in memory and cannot") as refused:
            await ask()
        assert refused.value.fix

    async with jobs.sessions.tenant(tenant) as conn:
        assert await schedules.list_schedules(conn, tenant) == []
        assert await conn.fetchval("SELECT count(*) FROM jobs.job") == 0


async def test_a_handler_nobody_here_knows_is_refused_for_schedules_and_follow_ups(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId
) -> None:
    @Handlers().job("elsewhere")
    async def elsewhere(ctx: Context, value: None) -> None: ...

    with pytest.raises(HandlerNotFound):
        await jobs.schedule("often", "* * * * *", elsewhere, None, tenant=tenant)
    with pytest.raises(HandlerNotFound):
        await jobs.submit_batch(paint, ["red"], tenant=tenant, then=elsewhere)


# Schedules -----------------------------------------------------------------------------------------------------------


async def test_a_schedule_has_its_handlers_ways_and_the_services_where_the_handler_leaves_them_open(
    sessions: Sessions, handlers: Handlers, paint: Handler[str, str], tenant: TenantId
) -> None:
    @handlers.job("sweep", ttl=timedelta(hours=1))
    async def sweep(ctx: Context, value: None) -> None: ...

    jobs = Jobs(handlers, sessions, defaults=Defaults(attempts=7, ttl=timedelta(days=2)))

    await jobs.schedule("p", "0 1 * * *", paint, "red", tenant=tenant, time_zone="Asia/Kathmandu", priority=1)
    await jobs.schedule("s", "0 1 * * *", sweep, None, tenant=tenant, catch_up=CatchUp.ALL)

    async with sessions.tenant(tenant) as conn:
        p, s = [stored.schedule for stored in await schedules.list_schedules(conn, tenant)]
    assert (p.type, p.payload, p.max_attempts, p.keep_seconds) == ("paint", '"red"', 3, 2 * 86_400)
    assert (p.time_zone, p.priority, p.catch_up) == ("Asia/Kathmandu", 1, CatchUp.ONE)
    assert (s.type, s.max_attempts, s.keep_seconds, s.catch_up) == ("sweep", 7, 3_600, CatchUp.ALL)


async def test_a_schedule_can_be_taken_back_by_its_tenant(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId, other_tenant: TenantId
) -> None:
    await jobs.schedule("daily", "@daily", paint, "red", tenant=tenant)

    with pytest.raises(ScheduleNotFound):
        await jobs.unschedule("daily", tenant=other_tenant)
    await jobs.unschedule("daily", tenant=tenant)

    async with jobs.sessions.tenant(tenant) as conn:
        assert await schedules.list_schedules(conn, tenant) == []
    with pytest.raises(ScheduleNotFound):
        await jobs.unschedule("daily", tenant=tenant)


# Attempts ------------------------------------------------------------------------------------------------------------


async def test_a_submission_may_say_how_often_its_jobs_are_started(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId
) -> None:
    usual = await jobs.submit(paint, "red", tenant=tenant)
    once = await jobs.submit(paint, "red", tenant=tenant, attempts=1)
    often = await jobs.submit_many(paint, ["red", "blue"], tenant=tenant, attempts=1_000)

    async with jobs.sessions.tenant(tenant) as conn:
        max_attempts_by_job = {row["job_id"]: row["max_attempts"] for row in await conn.fetch(LIMITS, tenant)}
    assert max_attempts_by_job == {usual: 3, once: 1, often[0]: 1_000, often[1]: 1_000}


@pytest.mark.parametrize("attempts", [0, -1, 1_001])
async def test_a_job_is_started_once_to_a_thousand_times(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId, attempts: int
) -> None:
    with pytest.raises(InvalidInput, match=f"between 1 and 1,000, not {attempts}"):
        await jobs.submit(paint, "red", tenant=tenant, attempts=attempts)
    with pytest.raises(InvalidInput, match=f"between 1 and 1,000, not {attempts}"):
        await jobs.submit_many(paint, ["red"], tenant=tenant, attempts=attempts)


# Counting, ringing and tracing ---------------------------------------------------------------------------------------


async def test_only_jobs_that_are_new_are_counted(jobs: Jobs, paint: Handler[str, str], tenant: TenantId) -> None:
    await jobs.submit(paint, "red", tenant=tenant, key="k")
    await jobs.submit(paint, "red", tenant=tenant, key="k")
    async with jobs.sessions.tenant(tenant) as conn:
        await jobs.submit(paint, "red", tenant=tenant, key="k", conn=conn)
    assert get_enqueued_count(jobs) == 1

    await jobs.submit_many(paint, ["red"] * 3, tenant=tenant, keys=["k", "l", "l"])
    assert get_enqueued_count(jobs) == 2

    await jobs.submit_batch(paint, ["red"] * 3, tenant=tenant, keys=["l", "m", None])
    assert get_enqueued_count(jobs) == 4


async def test_jobs_that_follow_a_job_are_counted_if_they_are_new(
    jobs: Jobs, handlers: Handlers, paint: Handler[str, str], tenant: TenantId
) -> None:
    @handlers.job("start")
    async def start(ctx: Context, value: None) -> None:
        ctx.submit(paint, "red", key="k")
        ctx.submit(paint, "red", key="k")
        ctx.submit(paint, "red")

    @handlers.job("quick", restartable=False)
    async def quick(ctx: Context, value: None) -> None:
        ctx.submit(paint, "red", key="k")
        ctx.submit(paint, "red")

    async with run_worker(jobs):
        await jobs.submit(start, None, tenant=tenant)
        await wait_until_all_over(jobs, tenant)
    assert get_enqueued_count(jobs) == 2

    job = await jobs.submit(quick, None, tenant=tenant)
    await jobs.memory.wait(tenant, job)
    assert get_enqueued_count(jobs) == 3


async def test_the_bell_is_rung_for_what_is_durable_and_not_for_what_the_caller_has_yet_to_commit(
    sessions: Sessions, handlers: Handlers, paint: Handler[str, str], tenant: TenantId
) -> None:
    trigger = RecordingTrigger()
    jobs = Jobs(handlers, sessions, trigger=trigger)

    one = await jobs.submit(paint, "red", tenant=tenant)
    many = await jobs.submit_many(paint, ["red"], tenant=tenant)
    batch = await jobs.submit_batch(paint, ["red", "blue"], tenant=tenant)
    async with sessions.tenant(tenant) as conn:
        await jobs.submit(paint, "red", tenant=tenant, conn=conn)
        await jobs.submit_many(paint, ["red"], tenant=tenant, conn=conn)
        await jobs.submit_batch(paint, ["red"], tenant=tenant, conn=conn)

    assert trigger.ids == [one, *many, *batch.job_ids]


async def test_a_batch_is_submitted_in_a_span_of_its_own_that_its_jobs_are_children_of(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_get_configured_provider", lambda: provider)

    await jobs.submit_batch(paint, ["red", "blue"], tenant=tenant)

    [span] = exporter.get_finished_spans()
    assert (span.name, dict(span.attributes or {})) == ("job.submit", {"handler_id": "paint", "job_count": 2})
    async with jobs.sessions.tenant(tenant) as conn:
        [row] = await conn.fetch(TRACED, tenant)
    assert span.context is not None
    assert row["traceparent"].split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


async def test_a_wish_that_knows_its_trace_is_submitted_with_that(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId
) -> None:
    spec = jobs.follow_ups.build_spec(paint, "red", traceparent=PARENT)

    assert jobs._spec_builder.build_options_for(spec, tenant).traceparent == PARENT


# Batches -------------------------------------------------------------------------------------------------------------


async def test_the_jobs_of_a_batch_and_what_follows_it_are_found(
    jobs: Jobs, paint: Handler[str, str], tenant: TenantId, other_tenant: TenantId
) -> None:
    batch_submission = await jobs.submit_batch(
        paint, ["red", "green", "blue"], tenant=tenant, then=paint, then_value="done"
    )
    for job, status in zip(batch_submission.job_ids, ["SUCCEEDED", "FAILED", "SUCCEEDED"], strict=True):
        await end_job(jobs.sessions, tenant, job, status, result='"x"')
    worker = await jobs.sessions.connect_worker("test")
    await BatchFinisher().run(worker)
    await worker.close()
    [newest] = await jobs.list_jobs(tenant, limit=1)

    page = await jobs.list_batch_items(tenant, batch_submission.batch_id, limit=2)
    rest = await jobs.list_batch_items(tenant, batch_submission.batch_id, after=page[-1].job_id)
    failed = await jobs.list_batch_items(tenant, batch_submission.batch_id, only=[Status.FAILED])

    assert [item.job_id for item in (*page, *rest)] == list(batch_submission.job_ids)
    assert [item.job_id for item in failed] == [batch_submission.job_ids[1]]
    assert await jobs.list_batch_items(other_tenant, batch_submission.batch_id) == []
    assert newest.max_attempts == 3
    assert await jobs.find_followed_batch(tenant, newest.job_id) == batch_submission.batch_id
    assert await jobs.find_followed_batch(tenant, batch_submission.job_ids[0]) is None
    assert await jobs.find_followed_batch(other_tenant, newest.job_id) is None


# Results -------------------------------------------------------------------------------------------------------------


async def test_a_job_in_memory_gives_the_very_object_its_handler_returned(
    jobs: Jobs, ping: Handler[None, object], tenant: TenantId, other_tenant: TenantId
) -> None:
    job = await jobs.submit(ping, None, tenant=tenant)
    await jobs.memory.wait(tenant, job)

    assert await jobs.get_result(ping, tenant, job) is MADE
    with pytest.raises(JobNotFound):
        await jobs.get_result(ping, other_tenant, job)


async def test_a_job_that_has_not_succeeded_has_no_result_and_says_why(
    jobs: Jobs, handlers: Handlers, paint: Handler[str, str], tenant: TenantId
) -> None:
    @handlers.job("broken", restartable=False, retry=Retry(attempts=1))
    async def broken(ctx: Context, value: None) -> None:
        raise OSError("no")

    in_memory = await jobs.submit(broken, None, tenant=tenant)
    await jobs.memory.wait(tenant, in_memory)
    waits, bad = await jobs.submit_many(paint, ["red"] * 2, tenant=tenant)
    await end_job(jobs.sessions, tenant, bad, "FAILED")

    with pytest.raises(JobConflict, match="ended DEAD_LETTER and has no result") as refused:
        await jobs.get_result(broken, tenant, in_memory)
    assert refused.value.details["error"] == {"code": "INTERNAL_ERROR", "message": "OSError: no"}
    with pytest.raises(JobConflict, match="ended FAILED and has no result"):
        await jobs.get_result(paint, tenant, bad)
    with pytest.raises(JobConflict, match="is not over yet: it is QUEUED"):
        await jobs.get_result(paint, tenant, waits)


# Making it -----------------------------------------------------------------------------------------------------------


def build_url(place: Address) -> str:
    if place.url is None:
        return f"postgresql://{place.user}@/{place.database}?host={quote(place.host)}&port={place.port}"
    return urlsplit(place.url)._replace(path=f"/{place.database}").geturl()


async def test_from_one_url_comes_a_service_with_everything_it_is_given(
    server: TestServer, address: Address, handlers: Handlers, paint: Handler[str, str], tenant: TenantId
) -> None:
    metrics, trigger, defaults = Metrics(), RecordingTrigger(), Defaults(attempts=9)

    async with Jobs.connect(
        build_url(server.admin.with_database(address.database)),
        handlers,
        size=2,
        metrics=metrics,
        trigger=trigger,
        defaults=defaults,
    ) as jobs:
        job = await jobs.submit(paint, "red", tenant=tenant)

        assert (jobs.metrics, jobs.defaults, trigger.ids) == (metrics, defaults, [job])
        assert (await jobs.get_job(tenant, job)).status is Status.QUEUED


async def test_an_option_there_is_not_is_refused_before_anything_is_opened(handlers: Handlers) -> None:
    wrong: dict[str, Any] = {"colour": "red"}

    with pytest.raises(TypeError, match="colour"):
        async with Jobs.connect("postgresql://nobody@localhost:1/nowhere", handlers, **wrong):
            pass


async def test_how_much_is_done_in_memory_is_the_services_choice(
    sessions: Sessions, handlers: Handlers, ping: Handler[None, object], tenant: TenantId
) -> None:
    jobs = Jobs(handlers, sessions, defaults=Defaults(memory_capacity=2, memory_concurrency=1, cancel_grace=0.5))

    for _ in range(2):
        await jobs.submit(ping, None, tenant=tenant, delay=3600)
    with pytest.raises(QueueFull):
        await jobs.submit(ping, None, tenant=tenant, delay=3600)

    assert (jobs.memory.get_health().capacity, jobs.memory.concurrency) == (2, 1)
    await jobs.close(grace=0)
